//! A device of `embedded-sdmmc` behind the adapter.

use std::cell::RefCell;

use embedded_sdmmc::{Block, BlockCount, BlockDevice as Sdmmc, BlockIdx};
use flashkit_block::BlockDevice;
use flashkit_block::sdmmc::{FromSdmmc, SdmmcError};

/// A card that fails at one block.
struct Card(RefCell<Vec<[u8; 512]>>);

const BAD: u32 = 5;

impl Sdmmc for Card {
    type Error = &'static str;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Self::Error> {
        for (i, block) in (start.0..).zip(blocks) {
            if i == BAD {
                return Err("bad");
            }
            block.contents = self.0.borrow()[i as usize];
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Self::Error> {
        for (i, block) in (start.0..).zip(blocks) {
            self.0.borrow_mut()[i as usize] = block.contents;
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Self::Error> {
        Ok(BlockCount(self.0.borrow().len() as u32))
    }
}

#[test]
fn sectors_go_through() {
    let mut device = FromSdmmc::new(Card(RefCell::new(vec![[0; 512]; 8]))).unwrap();
    assert_eq!((device.sector_size(), device.sector_count()), (512, 8));
    let data: Vec<u8> = (0..1536).map(|i| (i / 5) as u8).collect();
    device.write(1, &data).unwrap();
    device.flush().unwrap();
    let mut found = vec![0; 1536];
    device.read(1, &mut found).unwrap();
    assert!(found == data);
    assert_eq!(device.read(4, &mut found), Err(SdmmcError::Device("bad")));
    assert_eq!(device.read(6, &mut found), Err(SdmmcError::Range));
    assert_eq!(device.write(u32::MAX, &data), Err(SdmmcError::Range));
    assert_eq!(device.write(0, &data[..100]), Err(SdmmcError::Range));
    let card = device.into_inner();
    assert!(card.0.borrow()[2] == data[512..1024]);
}

//! Reads that fail on the way, as by a wrong CRC on the bus of an SD card: the next one of the same
//! block is right, and nothing was torn.

use flashkit_block::BlockDevice;
use flashkit_nanofs::NanoFs;
use flashkit_sim::{CARD_BLOCK, CardError, SimCard};

use crate::common::{content, formatted, mounted, read_all, read_tree};

/// A card of which one read fails, and the one after it.
pub struct FailsTwice {
    pub card: SimCard,
    at: u32,
    reads: u32,
}

impl FailsTwice {
    pub fn new(card: SimCard, at: u32) -> Self {
        FailsTwice { card, at, reads: 0 }
    }
}

impl BlockDevice for FailsTwice {
    type Error = CardError;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        CARD_BLOCK as u32
    }

    fn sector_count(&self) -> u32 {
        self.card.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
        self.reads += 1;
        if self.reads == self.at || self.reads == self.at + 1 {
            // Whatever was on the bus.
            buf.fill(0xff);
            return Err(CardError::Unreadable(first));
        }
        self.card.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
        self.card.write(first, data)
    }

    fn flush(&mut self) -> Result<(), CardError> {
        self.card.flush()
    }
}

/// A card with three files, and what was done last.
fn ended(last: &str) -> SimCard {
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 6));
    for i in 0..3 {
        let file = fs.create(format!("f{i}").as_bytes()).unwrap();
        fs.write(file, &content(i, 0, 5_000)).unwrap();
        fs.close(file).unwrap();
    }
    match last {
        "delete" => fs.delete(b"f1").unwrap(),
        "rename" => fs.rename(b"f1", b"g1").unwrap(),
        _ => {
            let file = fs.open(b"f1").unwrap();
            fs.write(file, &content(9, 0, 2_000)).unwrap();
            for i in 0..20 {
                fs.append(file, &content(1, i * 301, 301)).unwrap();
                fs.sync().unwrap();
            }
            // Without a close the power has gone.
            if last == "close" {
                fs.close(file).unwrap();
            }
        }
    }
    fs.into_device()
}

/// Taken for a torn block, a header that could not be read brought a deleted file back, and a node
/// or a tail cut a synced file short for good.
#[test]
fn a_mount_loses_nothing() {
    for last in ["close", "delete", "rename", "no close"] {
        let card = ended(last);
        let expected = read_tree(&mut mounted::<_, 3>(card.clone())).unwrap();
        for at in 1.. {
            let mut fs: NanoFs<FailsTwice> = mounted(FailsTwice::new(card.clone(), at));
            if fs.device().reads < at {
                assert!(at > 4, "{last}");
                break;
            }
            let mut fs: NanoFs<SimCard> = mounted(fs.into_device().card);
            let found = read_tree(&mut fs);
            assert_eq!(found.as_ref(), Ok(&expected), "{last}, read {at}");
        }
    }
}

/// Taken for a torn block, the newer copy of the bitmap left the older one to be believed, and
/// blocks of other files were given out again.
#[test]
fn a_write_overwrites_no_other_file() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 6));
    for i in 0..4 {
        let file = fs.create(format!("f{i}").as_bytes()).unwrap();
        fs.write(file, &content(i, 0, 20_000)).unwrap();
        fs.close(file).unwrap();
    }
    // The search for free blocks begins behind the file of the last header.
    fs.rename(b"f0", b"f").unwrap();
    fs.rename(b"f", b"f0").unwrap();
    let card = fs.into_device();
    for at in 1.. {
        let mut fs: NanoFs<FailsTwice> = mounted(FailsTwice::new(card.clone(), u32::MAX - 1));
        (fs.device().at, fs.device().reads) = (at, 0);
        let file = fs.create(b"new").unwrap();
        fs.write(file, &content(4, 0, 40_000)).unwrap();
        fs.close(file).unwrap();
        if fs.device().reads < at {
            assert!(at > 6);
            return;
        }
        let mut fs: NanoFs<SimCard> = mounted(fs.into_device().card);
        for i in 0..4 {
            let found = read_all(&mut fs, &format!("f{i}"));
            assert!(found == Ok(content(i, 0, 20_000)), "f{i}, read {at}");
        }
        assert!(
            read_all(&mut fs, "new") == Ok(content(4, 0, 40_000)),
            "read {at}"
        );
    }
}

/// A tail that a cut has left unreadable, and a driver that leaves ones where it could not read:
/// the volume mounts, with what was synced before.
#[test]
fn a_tail_that_stays_unreadable() {
    struct Ones(SimCard);
    impl BlockDevice for Ones {
        type Error = CardError;
        const TEARS: bool = true;
        fn sector_size(&self) -> u32 {
            CARD_BLOCK as u32
        }
        fn sector_count(&self) -> u32 {
            self.0.sector_count()
        }
        fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
            buf.fill(0xff);
            self.0.read(first, buf)
        }
        fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
            self.0.write(first, data)
        }
        fn flush(&mut self) -> Result<(), CardError> {
            Ok(())
        }
    }
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 2));
    let file = fs.create(b"f").unwrap();
    fs.append(file, &content(1, 0, 2_000)).unwrap();
    fs.sync().unwrap();
    let card = fs.into_device();
    // The tails lie behind block 0 and the slots: two for each file.
    for block in 4..8 {
        let mut card = card.clone();
        card.spoil(block);
        let mut fs: NanoFs<Ones> = mounted(Ones(card));
        assert!(
            read_all(&mut fs, "f").unwrap().len() >= 1_500,
            "block {block}"
        );
    }
}

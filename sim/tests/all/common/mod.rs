//! A small chip for the tests.

use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr, ReadStatus};
use flashkit_sim::{ChipSpec, Faults, SimNand, Timing};

pub const TIMING: Timing = Timing {
    read_ns: 10,
    program_ns: 100,
    erase_ns: 1000,
};

/// 16 blocks of 8 pages of 512 + 16 bytes, 8 of the 16 usable.
pub fn spec() -> ChipSpec {
    ChipSpec::new(Geometry::new(512, 8, 8, 16).unwrap(), TIMING)
}

pub fn chip() -> SimNand {
    SimNand::new(spec())
}

pub fn faulty(text: &str) -> SimNand {
    let mut nand = chip();
    nand.set_faults(Faults::parse(text).unwrap()).unwrap();
    nand
}

/// The `index`-th page of a block.
pub fn at(block: u32, index: u32) -> PageAddr {
    PageAddr(block * 8 + index)
}

/// Bytes that tell pages apart.
pub fn content(page: PageAddr) -> Vec<u8> {
    (0..512)
        .map(|i| (i as u8).wrapping_mul(7) ^ page.0 as u8)
        .collect()
}

pub fn write(nand: &mut SimNand, page: PageAddr) {
    use flashkit_nand::OpStatus::Done;
    assert_eq!(
        nand.program(page, &content(page), &page.0.to_le_bytes())
            .unwrap(),
        Done
    );
}

pub fn read(nand: &mut SimNand, page: PageAddr) -> (ReadStatus, Vec<u8>, Vec<u8>) {
    let (mut data, mut spare) = (vec![0; 512], vec![0; 8]);
    let status = nand.read(page, 0, &mut data, &mut spare).unwrap();
    (status, data, spare)
}

pub fn status(nand: &mut SimNand, page: PageAddr) -> ReadStatus {
    read(nand, page).0
}

/// Whether a page reads as [`write`] programmed it.
pub fn holds(nand: &mut SimNand, page: PageAddr) -> bool {
    let mut expected = [0xFF; 8];
    expected[..4].copy_from_slice(&page.0.to_le_bytes());
    let (status, data, spare) = read(nand, page);
    status.is_readable() && data == content(page) && spare == expected
}

/// Whether a page reads as erased.
pub fn blank(nand: &mut SimNand, page: PageAddr) -> bool {
    read(nand, page) == (ReadStatus::Clean, vec![0xFF; 512], vec![0xFF; 8])
}

pub fn lost(nand: &mut SimNand, page: PageAddr) -> bool {
    status(nand, page) == ReadStatus::Uncorrectable
}

/// Everything there is to see of a chip.
pub fn dump(nand: &mut SimNand) -> Vec<(ReadStatus, Vec<u8>, Vec<u8>)> {
    (0..nand.geometry().pages())
        .map(|page| read(nand, PageAddr(page)))
        .collect()
}

pub fn block(b: u32) -> BlockAddr {
    BlockAddr(b)
}

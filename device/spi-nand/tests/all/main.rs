//! The driver on simulated chips at command level. One program, which is linked once.

mod bus;
mod codes;
mod copies;
mod cuts;
mod flashlight;
mod open;
mod rows;
mod trouble;

use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};
use flashkit_sim::spi::{SPI_PARTS, SpiDelay, SpiNandChip, SpiNandError, SpiPart};
use flashkit_sim::{Faults, SimError, SimNand};
use flashkit_spi_nand::{Error, Idle, SpiNand, parts};

/// A chip in RAM.
pub type Chip = SpiNandChip<SimNand>;
/// What its driver reports.
pub type DriverError = Error<SpiNandError<SimError>>;
/// A driver that leaves the chip to the test.
pub type Driver<'c> = SpiNand<'static, &'c mut Chip, SpiDelay, Idle>;

/// Opens a chip with the whole table.
pub fn open(chip: &mut Chip) -> Result<Driver<'_>, DriverError> {
    let delay = chip.delay();
    SpiNand::open(chip, delay, Idle, &parts::ALL)
}

/// A chip of each simulated part.
pub fn every_part() -> impl Iterator<Item = (&'static SpiPart, Chip)> {
    SPI_PARTS
        .iter()
        .map(|part| (part, SpiNandChip::new(part.name)))
}

/// A chip on which these things go wrong.
pub fn with_faults(name: &str, faults: Faults) -> Chip {
    let mut chip = SpiNandChip::new(name);
    chip.chip_mut().set_faults(faults).unwrap();
    chip
}

/// Bytes that are not the same twice.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 13) as u8;
    (0..len as u32).map(byte).collect()
}

/// The first, a middle and the last block.
pub fn some_blocks(geometry: &Geometry) -> [BlockAddr; 3] {
    [0, geometry.blocks() / 2 + 1, geometry.blocks() - 1].map(BlockAddr)
}

/// A whole page: data and spare bytes.
pub fn read_page<N: Nand>(nand: &mut N, page: PageAddr) -> (Vec<u8>, Vec<u8>)
where
    N::Error: PartialEq,
{
    let geometry = nand.geometry();
    let mut data = vec![0; geometry.page_size() as usize];
    let mut spare = vec![0; geometry.spare_size() as usize];
    let read = nand.read(page, 0, &mut data, &mut spare).unwrap();
    assert!(read.is_readable(), "{page:?}: {read:?}");
    (data, spare)
}

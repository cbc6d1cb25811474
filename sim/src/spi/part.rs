//! What a simulated SPI NAND is: facts of data sheets and public drivers, typed in a second time
//! and not taken from the driver's table, so that a wrong one of either shows.

use flashkit_nand::Geometry;

use super::ecc::EccCode;
use crate::Timing;

/// Between which pages the chip copies by itself. It refuses others, as a mistake of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRange {
    /// Any two.
    All,
    /// Of blocks of the same parity. With two planes this is the same plane.
    Parity,
    /// The same, and of the same half of the chip.
    ParityAndHalf,
    /// None.
    Nothing,
}

impl CopyRange {
    /// Whether a chip of so many blocks copies from one block to another.
    pub(crate) fn has(self, blocks: u32, from: u32, to: u32) -> bool {
        let half = blocks / 2;
        match self {
            CopyRange::All => true,
            CopyRange::Parity => from % 2 == to % 2,
            CopyRange::ParityAndHalf => from % 2 == to % 2 && from / half == to / half,
            CopyRange::Nothing => false,
        }
    }
}

/// A simulated part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiPart {
    /// Its name.
    pub name: &'static str,
    /// Its id, the maker's byte first.
    pub id: &'static [u8],
    /// Whether the id comes right behind the command, and the dummy byte of a read from the cache
    /// before the column.
    pub direct: bool,
    /// Data bytes of a page.
    pub page_size: u32,
    /// Spare bytes of a page.
    pub raw_spare: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks.
    pub blocks: u32,
    /// Whether odd blocks are of a second plane, which the column address must name.
    pub two_planes: bool,
    /// Usable spare bytes: where each run begins, and how long it is.
    pub runs: &'static [(u32, u32)],
    /// How the status tells of flipped bits.
    pub code: EccCode,
    /// Flipped bits that it corrects.
    pub ecc_bits: u32,
    /// Where it copies.
    pub copies: CopyRange,
    /// The bit of the configuration that decides whether reads from the cache begin at their
    /// column, and its value when they do. At power-up it has the other value.
    pub buffer: Option<(u8, bool)>,
    /// Whether a program load sets what is not loaded to `0xFF`. Otherwise it keeps what the cache
    /// held.
    pub load_clears: bool,
    /// How long it works.
    pub timing: Timing,
}

impl SpiPart {
    /// Usable spare bytes.
    pub fn spare_size(&self) -> u32 {
        self.runs.iter().map(|run| run.1).sum()
    }

    /// The shape as the software above the driver sees it.
    ///
    /// # Panics
    /// When flashkit cannot use such a chip.
    pub fn geometry(&self) -> Geometry {
        let (page_size, spare_size) = (self.page_size, self.spare_size());
        Geometry::new(page_size, spare_size, self.pages_per_block, self.blocks).unwrap()
    }

    pub(crate) fn may_copy(&self, from: u32, to: u32) -> bool {
        let (from, to) = (from / self.pages_per_block, to / self.pages_per_block);
        self.copies.has(self.blocks, from, to)
    }

    /// The part's parameter page: one copy.
    pub fn parameter_page(&self) -> [u8; 256] {
        let mut page = [0; 256];
        page[..4].copy_from_slice(b"ONFI");
        page[32..64].fill(b' ');
        let name = &self.name.as_bytes()[..self.name.len().min(20)];
        page[44..44 + name.len()].copy_from_slice(name);
        page[80..84].copy_from_slice(&self.page_size.to_le_bytes());
        page[84..86].copy_from_slice(&(self.raw_spare as u16).to_le_bytes());
        page[92..96].copy_from_slice(&self.pages_per_block.to_le_bytes());
        page[96..100].copy_from_slice(&self.blocks.to_le_bytes());
        (page[100], page[102], page[110]) = (1, 1, 4);
        seal(&mut page);
        page
    }
}

/// Puts the right CRC at the end of a parameter page.
pub fn seal(page: &mut [u8; 256]) {
    let mut crc: u32 = 0x4F4E;
    for byte in &page[..254] {
        crc ^= u32::from(*byte) << 8;
        for _ in 0..8 {
            crc <<= 1;
            if crc > 0xFFFF {
                crc = (crc ^ 0x8005) & 0xFFFF;
            }
        }
    }
    page[254..].copy_from_slice(&(crc as u16).to_le_bytes());
}

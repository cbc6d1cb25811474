//! What is known of a part: one row of the table.

use flashkit_nand::{Geometry, GeometryError, PageAddr};

use crate::parts::USUAL;
use crate::{Ecc, Onfi};

/// How a chip sends its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdRead {
    /// Behind an address byte of zero, or a dummy byte: the same on the bus.
    AfterByte,
    /// Right behind the command.
    Direct,
}

/// Where the dummy byte of a read from the cache stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRead {
    /// Behind the column: command, column, column, dummy.
    DummyLast,
    /// Before it: command, dummy, column, column.
    DummyFirst,
}

/// Usable spare bytes that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first, from the start of the spare area.
    pub offset: u16,
    /// How many.
    pub len: u16,
    /// Whether the chip's ECC covers them. `false` as well where no source says that it does.
    pub protected: bool,
}

/// Between which pages the chip copies by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyRule {
    /// Between any two.
    Any,
    /// Of blocks that are both even or both odd.
    SameParity,
    /// The same, and both in the lower or both in the upper half of the chip.
    SameParityAndHalf,
    /// Of the same plane.
    SamePlane,
    /// It does not, or no source says between which.
    Never,
}

/// How long the chip works at most, in microseconds. Where the source has typical times only, these
/// are at least ten times as long. The driver waits for twice as long and a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A page read, with the chip's ECC on.
    pub read_us: u32,
    /// A program.
    pub program_us: u32,
    /// An erase.
    pub erase_us: u32,
}

/// Bits of the configuration register that are written at start-up, besides those of the ECC and
/// of the OTP area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bits that must be 1.
    pub set: u8,
    /// Bits that must be 0.
    pub clear: u8,
}

/// A part. A program may have rows of its own: see [`SpiNand::open`](crate::SpiNand::open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who makes it.
    pub maker: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How it sends its id.
    pub id_read: IdRead,
    /// The id: the maker's byte, and one to four of the device. Of several rows that fit, the one
    /// with the longest id is meant.
    pub id: &'static [u8],
    /// Data bytes of a page.
    pub page_size: u32,
    /// Spare bytes of a page, as the chip has them.
    pub raw_spare: u32,
    /// Pages of a block: a power of two.
    pub pages_per_block: u32,
    /// Blocks.
    pub blocks: u32,
    /// Planes that the column address must name, 1 or 2: bit 0 of the block's number.
    pub planes: u32,
    /// The usable spare bytes. [`Nand`](flashkit_nand::Nand) sees them one behind the other.
    pub spare: &'static [Run],
    /// What the bits of the status mean.
    pub ecc: Ecc,
    /// Wrong bits in 512 bytes that the chip's ECC corrects.
    pub ecc_bits: u8,
    /// Between which pages it copies.
    pub copy: CopyRule,
    /// What is written at start-up.
    pub config: Config,
    /// How its cache is read.
    pub cache_read: CacheRead,
    /// Whether a program load sets what is not loaded to `0xFF`. Where no source says so, the
    /// driver sends the whole page.
    pub load_clears: bool,
    /// How long it works.
    pub times: Times,
}

impl Part {
    /// A cautious row for a chip that no table knows: without spare bytes and copies, long waits,
    /// and the two ECC bits that most chips have, where "corrected" means as many bits as can be.
    ///
    /// Only for a chip whose data sheet says that it has ECC of its own, that bits 5 and 4 of the
    /// status (register C0h) are 00 for no error and 01 for corrected, and that it needs no other
    /// write at start-up.
    pub const fn from_onfi(onfi: &Onfi, ecc_bits: u8) -> Part {
        Part {
            maker: "ONFI",
            name: "ONFI",
            page_size: onfi.page_size,
            raw_spare: onfi.raw_spare as u32,
            pages_per_block: onfi.pages_per_block,
            blocks: onfi.blocks,
            ecc_bits,
            ..USUAL
        }
    }

    /// The geometry above the driver: its spare bytes are the usable ones.
    ///
    /// # Errors
    /// flashkit cannot use such a chip.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        Geometry::new(
            self.page_size,
            self.spare_size(),
            self.pages_per_block,
            self.blocks,
        )
    }

    /// Usable spare bytes.
    pub fn spare_size(&self) -> u32 {
        self.spare.iter().map(|run| u32::from(run.len)).sum()
    }

    /// The end of the last usable spare byte, from the start of the spare area.
    pub(crate) fn spare_end(&self) -> u32 {
        let end = |run: &Run| u32::from(run.offset) + u32::from(run.len);
        self.spare.iter().map(end).max().unwrap_or(0)
    }

    /// Whether the chip may copy from one page to another by itself.
    pub fn may_copy(&self, from: PageAddr, to: PageAddr) -> bool {
        let differ = self.block_of(from) ^ self.block_of(to);
        match self.copy {
            CopyRule::Any => true,
            CopyRule::SameParity => differ & 1 == 0,
            CopyRule::SameParityAndHalf => {
                let half = self.blocks >> 1;
                let upper = |page| self.block_of(page) >= half;
                differ & 1 == 0 && upper(from) == upper(to)
            }
            CopyRule::SamePlane => differ & self.planes.wrapping_sub(1) == 0,
            CopyRule::Never => false,
        }
    }

    fn block_of(&self, page: PageAddr) -> u32 {
        page.0 >> (self.pages_per_block.trailing_zeros() & 31)
    }

    /// The column of a byte of a page: where there are planes, with the bit that names one.
    pub(crate) fn column(&self, page: PageAddr, byte: u32) -> u16 {
        let plane = self.block_of(page) & self.planes.wrapping_sub(1);
        (byte | (plane * self.page_size * 2)) as u16
    }
}

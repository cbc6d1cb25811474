//! The contract between a raw NAND chip and the storage software above it.
//!
//! Eight operations and one that a chip need not have, all synchronous, over run-time
//! [`Geometry`]. Error correction lives *below* this line: the driver (or the chip itself) corrects
//! what it can and says so in [`ReadStatus`].
//!
//! # What the chip may do (the fault model)
//!
//! * **Programs and erases can be cut.** When power fails during [`Nand::program`], the page may
//!   afterwards read as erased or as the complete new page. It may also read as any mixture of the
//!   old and the new bits, or as uncorrectable. A page that reads complete may be *unstable*: it
//!   reads clean a few times and is uncorrectable later. A page that reads erased may be *partly
//!   programmed* and must not be programmed again before its block is erased. Likewise a cut
//!   [`Nand::erase`] may leave the old data, a mixture, or a block that reads erased and is not
//!   stably so. Pages of other blocks keep their contents.
//! * **Blocks are bad from the factory**, anywhere, and go bad in use: program and erase report
//!   [`OpStatus::Failed`]; the block is then going bad. Its already programmed pages stay
//!   readable; the failed page holds anything.
//! * **Bits rot and are disturbed.** Reads report how many bits were corrected; a rising number
//!   asks for the data to be moved. Beyond the correctable number a read is
//!   [`ReadStatus::Uncorrectable`] and the buffer's contents mean nothing.
//! * **An erased page reads as all `0xFF`**, in its data and its spare bytes.
//!
//! # What the software above promises
//!
//! * Within one block, pages are programmed in strictly ascending order (gaps are allowed), and
//!   no page twice between two erases.
//! * A block is erased before its pages are programmed for the first time in its life or again.
//! * A block known as bad (by [`Nand::is_bad`], or marked by [`Nand::mark_bad`]) is neither
//!   programmed nor erased. After [`OpStatus::Failed`] a block may still be read, and is marked bad
//!   once its data has been moved.
//! * Addresses and lengths are within the geometry.
//!
//! Breaking a promise is a bug in the caller, and an implementation may panic; a fault of the
//! medium never does.
//!
//! # Addresses
//!
//! A page has one number on the whole chip, a block another; [`Geometry`] leads from one to the
//! other.
//!
//! | module | what it is |
//! | --- | --- |
//! | `geometry` | the shape of a chip in one checked value |
//! | `addr` | numbers of pages and blocks |
//!
//! ```
//! use flashkit_nand::{BlockAddr, Geometry, PageAddr};
//!
//! // Pages of 2 KiB with 40 usable spare bytes, 64 in a block, 2,048 blocks.
//! let geometry = Geometry::new(2048, 40, 64, 2048).unwrap();
//! assert_eq!(geometry.page(BlockAddr(3), 5), PageAddr(3 * 64 + 5));
//! assert_eq!(geometry.block_of(PageAddr(197)), BlockAddr(3));
//! assert_eq!(geometry.index_of(PageAddr(197)), 5);
//! assert!(Geometry::new(2000, 40, 64, 2048).is_err());
//! ```
//!
//! A driver that implements [`Nand`] is drawn in `docs/porting.md`; `flashkit-sim` has chips to
//! try it with.

#![no_std]
#![forbid(unsafe_code)]

mod addr;
mod geometry;

pub use addr::{BlockAddr, PageAddr};
pub use geometry::{Geometry, GeometryError};

/// What a successful read says about the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// No bit had to be corrected.
    Clean,
    /// This many bits of the page were corrected; the data is right.
    Corrected(u32),
    /// More bits are wrong than can be corrected; the buffers hold garbage.
    Uncorrectable,
}

impl ReadStatus {
    /// Whether the buffers hold the data that was programmed (or `0xFF` for an erased page).
    pub fn is_readable(self) -> bool {
        !matches!(self, ReadStatus::Uncorrectable)
    }
}

/// How a program or an erase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpStatus {
    /// The chip reports success.
    Done,
    /// The chip reports failure: the block is going bad. After a failed program the page holds
    /// anything; earlier pages of the block are still readable.
    Failed,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The copy is durable. With it, what the read of the old page was: of `Corrected` the new page
    /// has the right bits, and the old one those it had.
    Done(ReadStatus),
    /// The program failed: the block of the new page is going bad. The old page is as it was.
    Failed,
    /// The old page cannot be read. Nothing was programmed.
    Uncorrectable,
}

/// Copies the data of a page by a read and a program: [`Nand::copy`] where the chip has no other.
///
/// # Errors
/// Those of the driver.
pub fn copy_over_bus<N: Nand + ?Sized>(
    nand: &mut N,
    from: PageAddr,
    to: PageAddr,
    spare: &[u8],
    page: &mut [u8],
) -> Result<Copied, N::Error> {
    let status = nand.read(from, 0, page, &mut [])?;
    if !status.is_readable() {
        return Ok(Copied::Uncorrectable);
    }
    Ok(match nand.program(to, page, spare)? {
        OpStatus::Done => Copied::Done(status),
        OpStatus::Failed => Copied::Failed,
    })
}

/// A raw NAND chip.
///
/// Errors of type [`Nand::Error`] are errors of the *driver* (bus, DMA, ioctl), not of the
/// medium; after one, the outcome of the operation is unknown.
pub trait Nand {
    /// The driver's own error.
    type Error: core::fmt::Debug;

    /// The chip's geometry. Constant for the life of the value; costs nothing.
    fn geometry(&self) -> Geometry;

    /// Wrong bits of a page that the ECC corrects at least, as the data sheet says: 1 for a Hamming
    /// code, 4 or 8 for the ECC in most SPI NAND. Constant for the life of the value; costs
    /// nothing.
    ///
    /// The software above moves data before as many are wrong: of 4 from 3 wrong bits on. Where it
    /// is 1, every corrected read has its block moved.
    fn correctable_bits(&self) -> u32;

    /// Reads `data.len()` bytes of a page from byte `offset`, and the first `spare.len()` usable
    /// spare bytes.
    ///
    /// Either buffer may be empty. Costs one array read, whatever the lengths; with an empty
    /// `data` it is counted as a spare read. `offset + data.len()` is at most the page size,
    /// `spare.len()` at most [`Geometry::spare_size`].
    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Self::Error>;

    /// Reads the first `head` bytes of a page, and of the rest what these say: `used` has from them
    /// how many bytes of the page are wanted, from byte 0 on. Fewer than `head` are `head`, more
    /// than `data.len()` are all of `data`. Behind those, `data` holds anything.
    ///
    /// Costs one array read, and is counted as a read of page data. Where bytes go over a bus, no
    /// others need to: a SPI NAND keeps the page in its cache until the next command. By default
    /// the whole of `data` is read. The ECC is of the whole page in either case.
    ///
    /// `head` is at most `data.len()`, and that at most the page size.
    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        let _ = (head, used);
        self.read(page, 0, data, &mut [])
    }

    /// Programs a page: `data` from byte 0, `spare` from usable spare byte 0.
    ///
    /// Both may be shorter than the page; bytes not given stay `0xFF`. The page is durable when
    /// this returns [`OpStatus::Done`].
    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error>;

    /// Whether the chip copies the data of a page to another one by itself, so that it need not go
    /// over the bus. Constant for the life of the value; costs nothing.
    ///
    /// Chips have rules: within a plane, between blocks of one parity. By default none does it.
    fn copies(&self, _from: PageAddr, _to: PageAddr) -> bool {
        false
    }

    /// Copies the data of a page to another one, with new spare bytes: those not given become
    /// `0xFF`. `to` must be free, as for [`Nand::program`]. The chip corrects what it reads.
    /// Durable when this returns [`Copied::Done`].
    ///
    /// `page` is room for a page; what is in it then means nothing. Costs an array read and a
    /// program. Where [`Nand::copies`] says no, it is a read and a program over the bus, and so it
    /// is by default.
    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Self::Error> {
        copy_over_bus(self, from, to, spare, page)
    }

    /// Erases a block: every byte of every page becomes `0xFF`.
    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error>;

    /// Whether a block is marked bad, by the factory or by [`Nand::mark_bad`].
    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error>;

    /// Marks a block bad for good. Idempotent, and never refused: there is nothing a caller
    /// could do about it.
    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error>;

    /// A hint that a run of operations is complete; a driver that buffers must write through.
    ///
    /// [`Nand::program`] and [`Nand::erase`] are durable by themselves on a real chip, so the
    /// default does nothing. Image files use it to reach the disk.
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<N: Nand + ?Sized> Nand for &mut N {
    type Error = N::Error;

    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn correctable_bits(&self) -> u32 {
        (**self).correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Self::Error> {
        (**self).read(page, offset, data, spare)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        (**self).read_used(page, data, head, used)
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        (**self).program(page, data, spare)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        (**self).copies(from, to)
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Self::Error> {
        (**self).copy(from, to, spare, page)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        (**self).erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        (**self).is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        (**self).mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        (**self).flush()
    }
}

//! The chip, behind a latch that closes when its driver fails.

use crate::error::{Bool, Damaged, Error, Fault};
use crate::format::header::{self, HEADER};
use crate::space::pages::Pages;
use crate::space::refresh::RefreshList;
use flashkit_nand::{BlockAddr, Copied, Nand, OpStatus, PageAddr, ReadStatus};

/// Why nothing is written any more until the next mount: what is in RAM may not be what is on
/// flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The driver has failed: the outcome of an operation is unknown.
    Driver,
    /// A change was made in part, in RAM or on flash, and the rest could not be made.
    HalfDone,
    /// The block table on flash cannot be read, is not what it was, or has no room.
    BlockTable,
}

/// Handed to a function that may program flash and returns no `Result`: what goes wrong in it is
/// told by the next call that does. Who hands it on returns a `Result`, or takes one.
#[derive(Clone, Copy)]
pub(crate) struct MayProgram;

/// A chip that is not written any more once it was said why. And which blocks it is time to write
/// anew, and what of the chip is kept in RAM.
pub(crate) struct Latch<'r, N: Nand> {
    pub inner: N,
    stopped: Option<Stopped>,
    /// A call is under way that only reads, and nothing has been programmed in it: if the driver
    /// fails in a read, no more is lost than this call.
    pub only_reads: bool,
    /// The driver's error, as long as no call has had it as its result.
    untold: Option<N::Error>,
    /// What there is to say of the last fault besides: where damage was met, or another number.
    detail: u32,
    pub refresh: RefreshList,
    pub pages: Pages<'r>,
}

impl<'r, N: Nand> Latch<'r, N> {
    pub fn new(inner: N, refresh_bits: u32, pages: Pages<'r>) -> Self {
        let pages_per_block = inner.geometry().pages_per_block();
        Latch {
            inner,
            stopped: None,
            only_reads: false,
            untold: None,
            detail: u32::MAX,
            refresh: RefreshList::new(refresh_bits, pages_per_block),
            pages,
        }
    }
}

impl<N: Nand> Latch<'_, N> {
    /// Nothing is written any more. The first reason stays.
    #[cold]
    pub fn stop(&mut self, why: Stopped) {
        self.stopped.get_or_insert(why);
    }

    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Nothing is written once the latch has closed, not even what a lookup would push from the
    /// cache.
    pub fn may_write(&mut self) -> Result<(), Fault> {
        if self.is_stopped() {
            return Err(match self.untold {
                Some(_) => Fault::Driver,
                None => Fault::ReadOnly,
            });
        }
        Ok(())
    }

    /// The medium is damaged at a page.
    #[cold]
    pub fn damaged(&mut self, at: PageAddr, what: Damaged) -> Fault {
        self.detail = at.0;
        Fault::Corrupt(what)
    }

    /// Where damage was met last.
    pub fn damaged_at(&self) -> PageAddr {
        PageAddr(self.detail)
    }

    /// The volume has another format version.
    #[cold]
    pub fn version(&mut self, version: u8) -> Fault {
        self.detail = version.into();
        Fault::Version
    }

    /// This many bytes of RAM are needed.
    #[cold]
    pub fn too_small(&mut self, bytes: usize) -> Fault {
        self.detail = bytes as u32;
        Fault::RamTooSmall
    }

    /// What a call tells its caller of a fault that it ends with.
    #[cold]
    pub fn error(&mut self, fault: Fault) -> Error<N::Error> {
        let driver = match fault {
            Fault::Driver => self.untold.take(),
            _ => None,
        };
        fault.with(self.detail, driver)
    }

    /// Keeps the driver's error until a call has it as its result.
    pub fn kept<T>(&mut self, result: Result<T, N::Error>) -> Result<T, Fault> {
        result.map_err(|e| {
            self.untold = Some(e);
            Fault::Driver
        })
    }

    fn note<T>(&mut self, result: Result<T, N::Error>) -> Result<T, Fault> {
        if result.is_err() {
            self.stop(Stopped::Driver);
        }
        self.kept(result)
    }

    pub fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Fault> {
        let result = self.inner.read(page, offset, data, spare);
        self.note_read(page, result)
    }

    /// Reads a metadata page, as far as its header says that it is used. What is not is `0xFF`. One
    /// that cannot be read has a header of zeros, which is none and does not look erased: a driver
    /// need not touch the buffer.
    pub fn read_meta(&mut self, page: PageAddr, data: &mut [u8]) -> Result<ReadStatus, Fault> {
        let result = self.inner.read_used(page, data, HEADER, &header::used);
        let status = self.note_read(page, result)?;
        if !status.is_readable() {
            data[..HEADER].fill(0);
        }
        let used = header::used(data).clamp(HEADER, data.len());
        data[used..].fill(0xff);
        Ok(status)
    }

    fn note_read(
        &mut self,
        page: PageAddr,
        result: Result<ReadStatus, N::Error>,
    ) -> Result<ReadStatus, Fault> {
        if result.is_err() && !self.only_reads {
            self.stop(Stopped::Driver);
        }
        let status = self.kept(result)?;
        self.refresh.note(page, status);
        Ok(status)
    }

    pub fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Fault> {
        self.may_write()?;
        self.only_reads = false;
        let result = self.inner.program(page, data, spare);
        self.note(result)
    }

    pub fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Fault> {
        self.may_write()?;
        self.only_reads = false;
        let result = self.inner.copy(from, to, spare, page);
        let copied = self.note(result)?;
        if let Copied::Done(status) = copied {
            self.refresh.note(from, status);
        }
        Ok(copied)
    }

    pub fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Fault> {
        self.may_write()?;
        let n = self.inner.geometry().pages_per_block();
        self.pages.forget(PageAddr(block.0 * n), n);
        let result = self.inner.erase(block);
        self.note(result)
    }

    pub fn is_bad(&mut self, block: BlockAddr) -> Result<Bool, Fault> {
        let result = self.inner.is_bad(block);
        self.kept(result.map(Bool::from))
    }

    pub fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Fault> {
        self.may_write()?;
        let result = self.inner.mark_bad(block);
        self.note(result)
    }

    pub fn flush(&mut self) -> Result<(), Fault> {
        let result = self.inner.flush();
        self.note(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_nand::Geometry;

    /// A chip whose driver always fails, but for reads that end so and touch no buffer.
    struct Broken(Result<ReadStatus, u8>);

    impl Nand for Broken {
        type Error = u8;

        fn geometry(&self) -> Geometry {
            Geometry::new(1024, 64, 8, 8).unwrap()
        }

        fn correctable_bits(&self) -> u32 {
            1
        }

        fn read(
            &mut self,
            _: PageAddr,
            _: u32,
            _: &mut [u8],
            _: &mut [u8],
        ) -> Result<ReadStatus, u8> {
            self.0
        }

        fn program(&mut self, _: PageAddr, _: &[u8], _: &[u8]) -> Result<OpStatus, u8> {
            Err(2)
        }

        fn erase(&mut self, _: BlockAddr) -> Result<OpStatus, u8> {
            Err(3)
        }

        fn is_bad(&mut self, _: BlockAddr) -> Result<bool, u8> {
            Err(4)
        }

        fn mark_bad(&mut self, _: BlockAddr) -> Result<(), u8> {
            Err(5)
        }
    }

    fn latch() -> Latch<'static, Broken> {
        Latch::new(Broken(Err(1)), 1, Pages::new(&mut [], 1024))
    }

    /// What is in RAM may be half of a change: a program after the failure could make it whole on
    /// flash in the wrong order.
    #[test]
    fn nothing_reaches_the_chip_after_its_driver_has_failed() {
        let mut nand = latch();
        assert_eq!(nand.program(PageAddr(0), &[], &[]), Err(Fault::Driver));
        assert_eq!(nand.stopped(), Some(Stopped::Driver));
        assert_eq!(nand.error(Fault::Driver), Error::Driver(2));
        assert_eq!(nand.program(PageAddr(0), &[], &[]), Err(Fault::ReadOnly));
        assert_eq!(nand.erase(BlockAddr(0)), Err(Fault::ReadOnly));
        assert_eq!(nand.mark_bad(BlockAddr(0)), Err(Fault::ReadOnly));
    }

    /// What was read before must not pass for the page: nothing is written to one that looks
    /// erased and is not.
    #[test]
    fn a_page_that_cannot_be_read_is_not_what_was_in_the_buffer() {
        let mut nand = Latch::new(
            Broken(Ok(ReadStatus::Uncorrectable)),
            1,
            Pages::new(&mut [], 1024),
        );
        let mut page = [0xff; 1024];
        nand.read_meta(PageAddr(0), &mut page).unwrap();
        assert!(!header::is_blank(&page));
    }

    /// A call that has only read loses no more than itself.
    #[test]
    fn a_failed_read_stops_what_changes_something_and_no_more() {
        let mut nand = latch();
        nand.only_reads = true;
        assert!(nand.read(PageAddr(0), 0, &mut [], &mut []).is_err());
        assert_eq!(nand.stopped(), None);
        nand.only_reads = false;
        assert!(nand.read(PageAddr(0), 0, &mut [], &mut []).is_err());
        assert_eq!(nand.stopped(), Some(Stopped::Driver));
    }

    #[test]
    fn the_first_reason_stays_and_an_error_not_told_is_told_once() {
        let mut nand = latch();
        nand.stop(Stopped::HalfDone);
        nand.stop(Stopped::BlockTable);
        assert_eq!(nand.stopped(), Some(Stopped::HalfDone));
        assert_eq!(nand.may_write(), Err(Fault::ReadOnly));
        assert_eq!(nand.is_bad(BlockAddr(0)), Err(Fault::Driver));
        assert_eq!(nand.may_write(), Err(Fault::Driver));
        assert_eq!(nand.error(Fault::Driver), Error::Driver(4));
        assert_eq!(nand.may_write(), Err(Fault::ReadOnly));
    }
}

//! The chip, behind a latch that closes when its driver fails.

use crate::error::Error;
use crate::space::pages::Pages;
use crate::space::refresh::RefreshList;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr, ReadStatus};

/// A chip that remembers that its driver has failed, or that a page could not be read between two
/// steps that belong together: what is in RAM may then not be what is on flash, and nothing more is
/// written. And which blocks it is time to write anew, and what of the chip is kept in RAM.
pub(crate) struct Latch<'r, N: Nand> {
    pub inner: N,
    pub failed: bool,
    /// A call is under way that only reads, and nothing has been programmed in it: if the driver
    /// fails in a read, no more is lost than this call.
    pub only_reads: bool,
    /// The driver's error, as long as no call has had it as its result.
    pub untold: Option<N::Error>,
    pub refresh: RefreshList,
    pub pages: Pages<'r>,
}

impl<'r, N: Nand> Latch<'r, N> {
    pub fn new(inner: N, refresh_bits: u32, pages: Pages<'r>) -> Self {
        let pages_per_block = inner.geometry().pages_per_block();
        Latch {
            inner,
            failed: false,
            only_reads: false,
            untold: None,
            refresh: RefreshList::new(refresh_bits, pages_per_block),
            pages,
        }
    }
}

impl<N: Nand> Latch<'_, N> {
    /// Nothing is written after a failure, not even what a lookup would push from the cache.
    pub fn may_write(&mut self) -> Result<(), Error<N::Error>> {
        if self.failed {
            return Err(self.untold.take().map_or(Error::ReadOnly, Error::Driver));
        }
        Ok(())
    }

    /// What a step has come to that cannot say so itself: the next that can does.
    pub fn tell_later(&mut self, error: Error<N::Error>) {
        if let Error::Driver(e) = error {
            self.untold = Some(e);
        }
    }

    fn note<T>(&mut self, result: Result<T, N::Error>) -> Result<T, Error<N::Error>> {
        self.failed |= result.is_err();
        result.map_err(Error::Driver)
    }
    pub fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Error<N::Error>> {
        let result = self.inner.read(page, offset, data, spare);
        self.failed |= result.is_err() && !self.only_reads;
        let status = result.map_err(Error::Driver)?;
        self.refresh.note(page, status);
        Ok(status)
    }
    pub fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Error<N::Error>> {
        self.may_write()?;
        self.only_reads = false;
        let result = self.inner.program(page, data, spare);
        self.note(result)
    }
    pub fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Error<N::Error>> {
        self.may_write()?;
        let n = self.inner.geometry().pages_per_block();
        self.pages.forget(PageAddr(block.0 * n), n);
        let result = self.inner.erase(block);
        self.note(result)
    }
    pub fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Error<N::Error>> {
        self.inner.is_bad(block).map_err(Error::Driver)
    }
    pub fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Error<N::Error>> {
        self.may_write()?;
        let result = self.inner.mark_bad(block);
        self.note(result)
    }
    pub fn flush(&mut self) -> Result<(), Error<N::Error>> {
        let result = self.inner.flush();
        self.note(result)
    }
}

//! The scratch page: where a page is looked at that has no place in RAM, and where one is put
//! together that is to be written.
//!
//! What was read there need not be read again, so the store knows which page it is
//! ([`ScratchHolds`]). Nothing but [`Scratch::overwrite`] gives the bytes to write to, and that
//! makes it forget the page.

use crate::error::Fault;
use crate::format::area::LogArea;
use crate::format::header::{Header, KIND, Kind};
use crate::format::mappage::MapPage;
use crate::index::Index;
use crate::index::tree::{MapKind, MapTarget};
use crate::space::scratch_holds::ScratchHolds;
use core::ops::Deref;
use flashkit_nand::{Nand, PageAddr};

/// A page of RAM that anyone may read.
pub(crate) struct Scratch<'r>(&'r mut [u8]);

impl<'r> Scratch<'r> {
    pub fn new(bytes: &'r mut [u8]) -> Self {
        Scratch(bytes)
    }

    /// The bytes, to be written: from here on they are a copy of nothing.
    pub fn overwrite(&mut self, holds: &mut ScratchHolds) -> &mut [u8] {
        holds.forget();
        self.0
    }
}

impl Deref for Scratch<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl<N: Nand> Index<'_, N> {
    /// Reads what is at a place into the scratch page, whether it is metadata or not, and does not
    /// keep in mind that it is there: it may be a page that is not valid. As [`Store::read_meta`].
    ///
    /// [`Store::read_meta`]: crate::space::store::Store::read_meta
    pub(crate) fn read_scratch(&mut self, at: PageAddr) -> Result<Option<Header>, Fault> {
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        self.store.read_meta(at, page)
    }

    /// Appends the first `len` bytes of the scratch page to the log of an area, in place of the
    /// page `prev`. As [`Store::append`].
    ///
    /// [`Store::append`]: crate::space::store::Store::append
    pub(crate) fn append_scratch(
        &mut self,
        area: LogArea,
        len: usize,
        kind: Kind,
        prev: PageAddr,
    ) -> Result<PageAddr, Fault> {
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        self.store.append(area, &mut page[..len], kind, prev)
    }

    /// Reads a metadata page into the scratch page, unless it is there already.
    pub(crate) fn load_scratch(&mut self, at: PageAddr, kind: Kind) -> Result<(), Fault> {
        if self.store.scratch_holds.is(at) && self.scratch[KIND] == kind as u8 {
            return Ok(());
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        self.store.get_meta(at, page, kind)?;
        self.store.scratch_holds.set(at);
        Ok(())
    }

    /// Loads the map page, or index page, that a pointer of an inode leads to into
    /// the scratch page. One read.
    pub(crate) fn load_map_page(
        &mut self,
        kind: Kind,
        (key, at): (u32, PageAddr),
        ino: u32,
    ) -> Result<(), Fault> {
        self.load_scratch(at, kind)?;
        if MapPage::<&[u8], 8>::on(&self.scratch).belongs_to(ino, key) {
            Ok(())
        } else {
            Err(self.store.nand.damaged(at, kind.damaged()))
        }
    }

    /// Loads the map page that a migration changes into the scratch page. One read.
    pub(crate) fn load_target(
        &mut self,
        kind: MapKind,
        target: &MapTarget,
        ino: u32,
    ) -> Result<(), Fault> {
        let pointer = (target.first, target.page);
        self.load_map_page(kind.map, pointer, ino)?;
        if MapPage::<&[u8], 8>::on(&self.scratch).end_key() <= target.end {
            Ok(())
        } else {
            Err(self.store.nand.damaged(target.page, kind.map.damaged()))
        }
    }
}

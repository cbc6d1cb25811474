//! The DirInode map: from a directory's number to its page (paper, 4.2.1).
//!
//! ```text
//! page: 32  page of directory k * entries, u32 each; all ones: none
//! ```
//!
//! A linear array over up to 64 pages, whose places are part of every checkpoint. One page is
//! cached. Pages written between checkpoints need no recovery: the map is rebuilt from the
//! DirInode pages found. So is a page that cannot be read ([`crate::rebuild`]).

use crate::FlashLight;
use crate::bytes::{get_u32, put_u32};
use crate::error::{Error, sound};
use crate::header::{HEADER, Kind};
use crate::store::Area;
use flashkit_nand::{Nand, PageAddr};

/// Pages of the map at most.
pub(crate) const MAP_PAGES: usize = 64;

/// The cached page and the places of all.
pub(crate) struct DirMap<'r> {
    pub buf: &'r mut [u8],
    /// Which page is cached.
    pub index: Option<usize>,
    pub dirty: bool,
    /// Places of the pages, 4 bytes each.
    pub roots: &'r mut [u8],
    /// Where the search for a free number goes on.
    pub next: u32,
}

impl DirMap<'_> {
    pub fn root(&self, i: usize) -> PageAddr {
        PageAddr(get_u32(self.roots, 4 * i))
    }

    /// Directories of a page.
    pub fn per_page(&self) -> u32 {
        ((self.buf.len() - HEADER) / 4) as u32
    }

    /// One more than the largest directory number.
    pub fn end(&self) -> u32 {
        self.per_page() * (self.roots.len() / 4) as u32
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// Writes the cached map page if it has changed. One program.
    pub(crate) fn flush_map(&mut self) -> Result<(), Error<N::Error>> {
        let Some(i) = self.map.index.filter(|_| self.map.dirty) else {
            return Ok(());
        };
        let old = self.map.root(i);
        let at = self
            .store
            .append(Area::Map, self.map.buf, Kind::DirMap, old)?;
        put_u32(self.map.roots, 4 * i, at.0);
        self.map.dirty = false;
        self.store.invalidate(old);
        Ok(())
    }

    /// Brings the map page of a directory number in, and says where in it that is. One read. A page
    /// that cannot be read is rebuilt ([`crate::rebuild`]), which overwrites the scratch page.
    fn load_map(&mut self, ino: u32) -> Result<usize, Error<N::Error>> {
        if ino >= self.map.end() {
            return Err(Error::NotFound);
        }
        let i = (ino / self.map.per_page()) as usize;
        if self.map.index != Some(i) {
            self.flush_map()?;
            self.map.index = None;
            let at = self.map.root(i);
            if at.is_none() {
                self.map.buf.fill(0xff);
            } else {
                let (buf, what) = (&mut *self.map.buf, "directory map");
                let read = self.store.expect_meta(at, buf, Kind::DirMap, what);
                if sound(read)?.is_none() {
                    self.rebuild_map(i as u32 * self.map.per_page())?;
                    // The next checkpoint writes it anew.
                    self.map.dirty = !self.read_only || self.store.recovery.is_some();
                }
            }
            self.map.index = Some(i);
        }
        Ok(HEADER + 4 * (ino % self.map.per_page()) as usize)
    }

    /// Page of a directory; none if there is no such directory. At most one read.
    pub(crate) fn map_get(&mut self, ino: u32) -> Result<PageAddr, Error<N::Error>> {
        let at = self.load_map(ino)?;
        Ok(PageAddr(get_u32(self.map.buf, at)))
    }

    /// The first directory from the number `from` on, and its page. One read for each page of the
    /// map looked through that is not cached; none for pages that were never written.
    pub(crate) fn map_next(
        &mut self,
        from: u32,
    ) -> Result<Option<(u32, PageAddr)>, Error<N::Error>> {
        let per_page = self.map.per_page();
        let mut ino = from;
        while ino < self.map.end() {
            let i = ino / per_page;
            if self.map.index == Some(i as usize) || self.map.root(i as usize).is_some() {
                let first = self.load_map(ino)?;
                let entry = |k: usize| get_u32(self.map.buf, first + 4 * k);
                let rest = ((i + 1) * per_page - ino) as usize;
                if let Some(k) = (0..rest).find(|&k| entry(k) != PageAddr::NONE.0) {
                    return Ok(Some((ino + k as u32, PageAddr(entry(k)))));
                }
            }
            ino = (i + 1) * per_page;
        }
        Ok(None)
    }

    pub(crate) fn map_set(&mut self, ino: u32, page: PageAddr) -> Result<(), Error<N::Error>> {
        let at = self.load_map(ino)?;
        put_u32(self.map.buf, at, page.0);
        self.map.dirty = true;
        Ok(())
    }

    /// A directory number that is not in use.
    pub(crate) fn map_vacant(&mut self) -> Result<u32, Error<N::Error>> {
        let end = self.map.end();
        for step in 0..end {
            let ino = (self.map.next % end + step) % end;
            if ino > crate::INDEX_DIR
                && self.map_get(ino)?.is_none()
                && self.dir_slot(ino).is_none()
            {
                self.map.next = ino + 1;
                return Ok(ino);
            }
        }
        Err(Error::NoSpace)
    }
}

//! The DirInode map: from a directory's number to its page (paper, 4.2.1).
//!
//! ```text
//! page: 32  page of directory k * entries, u32 each; all ones: none
//! ```
//!
//! A linear array over pages, of which one is cached. The places of the first 64 are part of every
//! checkpoint. When directories have taken all their numbers, the map becomes *wide*: the last two
//! of these places lead to two copies of a *page of places*, of the 63rd page of the map on.
//!
//! ```text
//! page of places: 32  page 62 + k of the map, u32 each; all ones: none
//! ```
//!
//! Changes of pages that are not cached wait in RAM ([`map_changes`]).
//!
//! Pages written between checkpoints need no recovery: the map is rebuilt from the DirInode pages
//! found. So is a page that cannot be read ([`crate::index::rebuild`]); for the page of
//! places there is its copy. It has no place in RAM: it is read and written in that of
//! the cached page of the map.
//!
//! [`map_changes`]: crate::index::map_changes

use crate::error::{Bool, Damaged, Fault, sound};
use crate::format::area::LogArea;
use crate::format::header::{HEADER, Kind};
use crate::format::limits::MAP_PAGES;
use crate::format::node::{FIRST_FILE, INDEX_DIR, ROOT_DIR};
use crate::index::Index;
use crate::index::map_changes::MapChanges;
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_bytes::{copy_erasing, get_u32, put_u32};
use flashkit_nand::{Nand, PageAddr};

/// Of a wide map, those of pages of the map.
pub(crate) const NEAR: usize = MAP_PAGES - 2;

/// The cached page and the places of all.
pub(crate) struct DirMap<'r> {
    /// Which page is cached, and where it is.
    pub index: Option<u16>,
    pub loc: PageAddr,
    /// It has changes besides those that wait.
    pub dirty: bool,
    /// Changes that wait. The cached page shows its own.
    pub changes: MapChanges<'r>,
    /// Places, 4 bytes each.
    pub roots: &'r mut [u8],
    /// Whether the last two are of pages of places.
    pub wide: bool,
    /// Where the search for a free number goes on.
    pub next: u32,
}

impl DirMap<'_> {
    pub fn root(&self, i: usize) -> PageAddr {
        PageAddr(get_u32(self.roots, 4 * i))
    }

    /// The last two places.
    pub fn copies(&self) -> [PageAddr; 2] {
        [NEAR, NEAR + 1].map(|i| self.root(i))
    }

    /// Whether a page of the map is cached.
    pub fn has(&self, page: usize) -> bool {
        self.index.is_some_and(|index| usize::from(index) == page)
    }

    /// The page of the map that has a directory's number.
    fn page_of(&self, ino: u32) -> usize {
        (ino / self.per_page()) as usize
    }

    /// Where in its page a directory's number is.
    fn place_of(&self, ino: u32) -> usize {
        HEADER + 4 * (ino % self.per_page()) as usize
    }

    /// Where a page of the map is that is cached: none on flash, of one that is only in RAM.
    fn cached(&self, page: usize) -> Option<PageAddr> {
        (self.has(page) && (self.dirty || self.loc.is_some())).then_some(self.loc)
    }

    /// Whether the map has changes that are not on flash.
    pub fn has_changed(&self) -> bool {
        self.dirty || !self.changes.is_empty()
    }

    /// Whether [`Index::map_set`] needs no page of the map to be read or written.
    fn takes(&self, ino: u32) -> bool {
        self.has(self.page_of(ino)) || self.changes.may_set(ino)
    }

    /// The copies of the page of places, if there is one.
    pub fn places(&self) -> impl Iterator<Item = PageAddr> + use<> {
        let wide = self.wide;
        self.copies()
            .into_iter()
            .filter(move |page| wide && page.is_some())
    }

    /// Whether a page of the map is found by the page of places.
    pub fn is_far(&self, page: usize) -> bool {
        self.wide && page >= NEAR
    }

    /// Directories of a page.
    pub fn per_page(&self) -> u32 {
        self.changes.per_page()
    }

    /// Pages that the map can have.
    fn pages(&self, wide: bool) -> usize {
        if wide {
            NEAR + self.per_page() as usize
        } else {
            MAP_PAGES
        }
    }

    fn end_of(&self, wide: bool) -> u32 {
        (self.per_page() * self.pages(wide) as u32).min(FIRST_FILE)
    }

    /// One more than the largest directory number, as the map is.
    pub fn end(&self) -> u32 {
        self.end_of(self.wide)
    }
}

impl<N: Nand> Store<'_, N> {
    /// Reads the page of places, from the copy that can be read. One read, or two.
    pub fn read_places(
        &mut self,
        [first, copy]: [PageAddr; 2],
        buf: &mut [u8],
    ) -> Result<(), Fault> {
        if sound(self.expect_meta(first, buf, Kind::Places))?.is_none() {
            self.expect_meta(copy, buf, Kind::Places)?;
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// Writes the cached map page if it has changed. One program; of one that is found by the page
    /// of places a read and two programs more, and then none is cached.
    pub(crate) fn flush_map(&mut self) -> Result<(), Fault> {
        let Some(i) = self.map.index.filter(|_| self.map.dirty) else {
            return Ok(());
        };
        let i = usize::from(i);
        let old = self.map.loc;
        let at = self.append_map(Kind::DirMap, old)?;
        (self.map.dirty, self.map.loc) = (false, at);
        if self.map.is_far(i) {
            self.map.index = None;
            let placed = self.load_places().and_then(|()| {
                put_u32(self.store.map_page.bytes, HEADER + 4 * (i - NEAR), at.0);
                self.write_places()
            });
            // What is in RAM now misses directories.
            self.whole_or_stop(placed)?;
        } else {
            put_u32(self.map.roots, 4 * i, at.0);
        }
        self.map.changes.forget(i);
        self.store.invalidate(old, MayProgram);
        Ok(())
    }

    /// Programs the cached page; without the deferred changes that lie in it, by the scratch page.
    fn append_map(&mut self, kind: Kind, old: PageAddr) -> Result<PageAddr, Fault> {
        if self.store.map_page.shown() < self.scratch.len() {
            let map = self.store.map_page.map();
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            copy_erasing(page, map);
            return self.append_scratch(LogArea::Map, self.store.page_size(), kind, old);
        }
        (self.store).with_map_page(|store, page| store.append(LogArea::Map, page, kind, old))
    }

    /// Writes all pages of the map that have changed. A read and a program for each.
    pub(crate) fn write_map(&mut self) -> Result<(), Fault> {
        self.flush_map()?;
        while let Some(page) = self.map.changes.fullest() {
            self.load_map(page as u32 * self.map.per_page())?;
            self.map.dirty = true;
            self.flush_map()?;
        }
        Ok(())
    }

    /// Reads the page of places in place of the cached page, which is written. One read, or two.
    fn load_places(&mut self) -> Result<(), Fault> {
        self.map.index = None;
        let copies = self.map.copies();
        (self.store).with_map_page(|store, page| store.read_places(copies, page))
    }

    /// Writes both copies of the page of places, which is where the cached page is else.
    fn write_places(&mut self) -> Result<(), Fault> {
        for i in NEAR..MAP_PAGES {
            let old = self.map.root(i);
            let at = self.append_map(Kind::Places, old)?;
            put_u32(self.map.roots, 4 * i, at.0);
            self.store.invalidate(old, MayProgram);
        }
        Ok(())
    }

    /// Makes the map wide. Two programs.
    fn widen(&mut self) -> Result<(), Fault> {
        self.flush_map()?;
        self.map.index = None;
        let page = &mut *self.store.map_page.bytes;
        page.fill(0xff);
        let last = self.map.copies();
        let roots = &mut self.map.roots[4 * NEAR..];
        page[HEADER..HEADER + roots.len()].copy_from_slice(roots);
        roots.fill(0xff);
        let written = self.write_places();
        self.map.wide = written.is_ok();
        if written.is_err() {
            self.store.invalidate(self.map.root(NEAR), MayProgram);
            for (i, page) in last.into_iter().enumerate() {
                put_u32(self.map.roots, 4 * (NEAR + i), page.0);
            }
        }
        written
    }

    /// Makes sure that the map has a place for a directory's number; `false` when it never has.
    pub(crate) fn map_reach(&mut self, ino: u32) -> Result<Bool, Fault> {
        if ino >= self.map.end() && ino < self.map.end_of(true) {
            self.widen()?;
        }
        Ok(Bool::from(ino < self.map.end()))
    }

    /// Where a page of the map is. One read, in place of the cached page, when that is
    /// told by the page of places.
    fn map_place(&mut self, i: usize) -> Result<PageAddr, Fault> {
        if !self.map.is_far(i) {
            return Ok(self.map.root(i));
        }
        self.load_places()?;
        let places = &*self.store.map_page.bytes;
        Ok(PageAddr(get_u32(places, HEADER + 4 * (i - NEAR))))
    }

    /// Brings the map page of a directory number in, and says where in it that is. One read, two
    /// where the page of places tells where it is. A page that cannot be read is rebuilt
    /// ([`crate::index::rebuild`]), which overwrites the scratch page.
    pub(crate) fn load_map(&mut self, ino: u32) -> Result<usize, Fault> {
        if ino >= self.map.end() {
            return Err(Fault::NotFound);
        }
        let i = self.map.page_of(ino);
        if !self.map.has(i) {
            if !self.store.map_page.tail().is_empty() {
                // There is no other page.
                return Err(Fault::NotFound);
            }
            self.store.map_page.give_back();
            self.flush_map()?;
            self.map.index = None;
            let at = self.map_place(i)?;
            if at.is_none() {
                self.store.map_page.bytes.fill(0xff);
            } else {
                let read = (self.store)
                    .with_map_page(|store, page| store.get_meta(at, page, Kind::DirMap));
                if sound(read)?.is_none() {
                    self.rebuild_map(i as u32 * self.map.per_page(), at)?;
                    // The next checkpoint writes it anew.
                    self.map.dirty = !self.read_only || self.store.recovery.is_some();
                }
            }
            for n in self.map.changes.of_page(i) {
                let (dir, page) = self.map.changes.change(n);
                let place = self.map.place_of(dir);
                put_u32(self.store.map_page.bytes, place, page.0);
            }
            (self.map.index, self.map.loc) = (u16::try_from(i).ok(), at);
        }
        Ok(self.map.place_of(ino))
    }

    /// Page of a directory; none if there is no such directory. At most two reads.
    pub(crate) fn map_get(&mut self, ino: u32) -> Result<PageAddr, Fault> {
        if let Some(page) = self.map.changes.get(ino) {
            return Ok(page);
        }
        let has_one_page = !self.store.map_page.tail().is_empty();
        if has_one_page && (self.map.per_page()..self.map.end()).contains(&ino) {
            return Ok(PageAddr::NONE);
        }
        let at = self.load_map(ino)?;
        if at >= self.store.map_page.shown() {
            return Ok(PageAddr::NONE);
        }
        Ok(PageAddr(get_u32(self.store.map_page.bytes, at)))
    }

    /// The first page of the map from one on that there is, and where it is on flash; none for one
    /// that is only in RAM. No read but of the page of places.
    pub(crate) fn map_page_from(
        &mut self,
        from: usize,
    ) -> Result<Option<(usize, PageAddr)>, Fault> {
        let near = if self.map.wide { NEAR } else { MAP_PAGES };
        let waits = |map: &DirMap<'_>, i: usize| !map.changes.of_page(i).is_empty();
        for i in from..near {
            let root = Some(self.map.root(i)).filter(|&page| page.is_some() || waits(&self.map, i));
            if let Some(page) = self.map.cached(i).or(root) {
                return Ok(Some((i, page)));
            }
        }
        if !self.map.wide {
            return Ok(None);
        }
        let from = from.max(NEAR);
        if let Some(page) = self.map.cached(from) {
            return Ok(Some((from, page)));
        }
        self.flush_map()?;
        self.load_places()?;
        let places = &*self.store.map_page.bytes;
        let place = |i: usize| PageAddr(get_u32(places, HEADER + 4 * (i - NEAR)));
        let found =
            (from..self.map.pages(true)).find(|&i| place(i).is_some() || waits(&self.map, i));
        Ok(found.map(|i| (i, place(i))))
    }

    /// Writes the page of the map that is at `at` anew, if it is one, or the page of places;
    /// also when it cannot be read.
    pub(crate) fn move_map(&mut self, at: PageAddr) -> Result<Bool, Fault> {
        if self.map.places().any(|page| page == at) {
            self.flush_map()?;
            self.load_places()?;
            self.write_places()?;
            return Ok(Bool::True);
        }
        let mut from = 0;
        while let Some((i, page)) = self.map_page_from(from)? {
            if page == at {
                self.load_map(i as u32 * self.map.per_page())?;
                self.map.dirty = true;
                self.flush_map()?;
                return Ok(Bool::True);
            }
            from = i + 1;
        }
        Ok(Bool::False)
    }

    /// The first directory from the number `from` on, and its page. One read for each page of the
    /// map looked through that is not cached, and of the page of places; none for
    /// pages that were never written.
    pub(crate) fn map_next(&mut self, from: u32) -> Result<Option<(u32, PageAddr)>, Fault> {
        let per_page = self.map.per_page();
        let mut ino = from;
        while let Some((i, _)) = self.map_page_from((ino / per_page) as usize)? {
            let start = i as u32 * per_page;
            ino = ino.max(start);
            if ino >= self.map.end() {
                break;
            }
            let first = self.load_map(ino)?;
            let entry = |k: usize| get_u32(self.store.map_page.bytes, first + 4 * k);
            let shown = (self.store.map_page.shown() - HEADER) / 4;
            let rest = (start as usize + shown).saturating_sub(ino as usize);
            if let Some(k) = (0..rest).find(|&k| entry(k) != PageAddr::NONE.0) {
                return Ok(Some((ino + k as u32, PageAddr(entry(k)))));
            }
            ino = start + per_page;
        }
        Ok(None)
    }

    /// Makes a place for a change of a directory's number, so that [`Index::map_set`] cannot fail.
    /// Where there is none, the cached page may be written, and the one that most changes are of is
    /// read: it takes them.
    pub(crate) fn map_ready(&mut self, ino: u32) -> Result<(), Fault> {
        if ino >= self.map.end() {
            return Err(Fault::NotFound);
        }
        if self.map.index.is_none() {
            self.load_map(ino)?;
        }
        if self.map.takes(ino) {
            return self.show_in_map(ino);
        }
        if !self.map.changes.has_place() {
            let share = MapChanges::share(self.known_dirs.size());
            self.map.changes.place(self.known_dirs.give(share));
        }
        if self.map.takes(ino) {
            return self.show_in_map(ino);
        }
        let full = self.map.changes.fullest();
        self.load_map(full.map_or(ino, |page| page as u32 * self.map.per_page()))?;
        if let Some(page) = full {
            self.map.dirty = true;
            self.map.changes.forget(page);
        }
        self.show_in_map(ino)
    }

    /// Makes the place of a directory's number one of the map, if its page is cached. A new number
    /// has its place already ([`Index::map_vacant`]).
    fn show_in_map(&mut self, ino: u32) -> Result<(), Fault> {
        let end = self.map.place_of(ino) + 4;
        let page = &mut self.store.map_page;
        if !self.map.has(self.map.page_of(ino)) || end <= page.shown() {
            return Ok(());
        }
        if end > page.free() {
            return Err(Fault::NoSpace);
        }
        page.show_more(end);
        Ok(())
    }

    /// Between operations: while the map has one page, so many bytes of deferred changes may lie
    /// behind the numbers in use.
    pub(crate) fn share_map_page(&mut self, most: usize) {
        let has_one_page = self.map.index == Some(0)
            && self.map.root(1).is_none()
            && self.map.changes.are_of_first();
        let page = &mut self.store.map_page;
        if !has_one_page {
            return page.let_grow(0);
        }
        let mut shown = page.shown();
        while shown > HEADER && get_u32(page.bytes, shown - 4) == PageAddr::NONE.0 {
            shown -= 4;
        }
        page.show(shown);
        page.let_grow(most);
    }

    /// Lets the map lead to the page of a directory. None, or what [`Index::map_ready`] costs.
    pub(crate) fn map_set(&mut self, ino: u32, page: PageAddr) -> Result<(), Fault> {
        self.map_ready(ino)?;
        let cached = self.map.has(self.map.page_of(ino));
        if cached {
            let at = self.load_map(ino)?;
            put_u32(self.store.map_page.bytes, at, page.0);
        }
        if cached && (self.map.dirty || !self.map.changes.may_set(ino)) {
            self.map.dirty = true;
            self.map.changes.forget(self.map.page_of(ino));
        } else {
            self.map.changes.set(ino, page);
        }
        // Its page shows them, or it is gone.
        self.store.forget_deferred(ino);
        // Of a page that it may be written to again a copy must not tell.
        match ino {
            ROOT_DIR => self.dir_copies[0] = PageAddr::NONE,
            INDEX_DIR => self.dir_copies[1] = PageAddr::NONE,
            _ => {}
        }
        Ok(())
    }

    /// After a checkpoint, while the map has one page: when a quarter of its numbers have been
    /// taken, directories that come take the first free ones, so that the page has room behind
    /// them. Not before: whoever holds the number of one that is gone is not led to another soon.
    pub(crate) fn begin_numbers_anew(&mut self) {
        if self.map.root(1).is_none() && self.map.next > self.map.per_page() / 4 {
            self.map.next = INDEX_DIR + 1;
        }
    }

    /// A directory number that is not in use. The map becomes wide when there is none.
    pub(crate) fn map_vacant(&mut self) -> Result<u32, Fault> {
        if let Some(ino) = self.map_vacant_in(0, self.map.end())? {
            return Ok(ino);
        }
        let end = self.map.end();
        if self.map_reach(end)?.is_true()
            && let Some(ino) = self.map_vacant_in(end, self.map.end())?
        {
            return Ok(ino);
        }
        Err(Fault::NoSpace)
    }

    /// Makes place for a number that comes into use: directories are written whose changes lie
    /// there, and all of them before there is a second page of the map.
    fn place_in_map(&mut self, ino: u32) -> Result<(), Fault> {
        let end = match self.map.page_of(ino) {
            0 => self.map.place_of(ino) + 4,
            _ => self.store.page_size(),
        };
        while end > self.store.map_page.free() {
            if !self.write_most_deferred(true)?.is_true() {
                // Each of those that lie there has a page that cannot be read.
                return Err(Fault::Corrupt(Damaged::Dir));
            }
        }
        if self.map.page_of(ino) > 0 {
            // Nor do the changes of this call come there: no other page could be read then.
            self.store.map_page.let_grow(0);
        }
        self.show_in_map(ino)
    }

    /// A number from `first` to `end` that is not in use, from where the last search has ended.
    fn map_vacant_in(&mut self, first: u32, end: u32) -> Result<Option<u32>, Fault> {
        let next = self.map.next.clamp(first, end) - first;
        for step in 0..end - first {
            let ino = first + (next + step) % (end - first);
            if ino > crate::format::node::INDEX_DIR
                && self.map_get(ino)?.is_none()
                && self.dir_slot(ino).is_none()
            {
                self.place_in_map(ino)?;
                self.map.next = ino + 1;
                return Ok(Some(ino));
            }
        }
        Ok(None)
    }
}

//! Walks everything that is reachable, for checks and for the curious.

use crate::FlashLight;
use crate::cleaning::Volume;
use crate::error::{Bool, Damaged, Error, Fault, sound};
use crate::format::blockstate::BlockState;
use crate::format::dirrec::{DirRec, Target};
use crate::format::extent::{Extent, INDEX_END};
use crate::format::header::Kind;
use crate::format::inode::{FLAG_INDIRECT, FLAG_ORPHAN, FileView};
use crate::format::mappage::MapPage;
use crate::format::names::Which;
use crate::format::node::{FileRef, INDEX_DIR, ROOT_DIR};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::index::waiting::Waiting;
use flashkit_nand::{Nand, PageAddr};

/// What a valid page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// A page of the DirInode map, or of places of such.
    DirMap,
    /// A directory.
    Dir,
    /// A hash map or an index page of hash maps.
    HashMap,
    /// A file.
    File,
    /// An extent map or an index page of extent maps.
    ExtentMap,
    /// Further names of a file.
    Names,
    /// Extended attributes of an inode.
    Attributes,
    /// File data.
    Data,
    /// A copy of a page of the block table.
    Table,
}

/// A valid page found by [`FlashLight::walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where.
    pub page: PageAddr,
    /// What.
    pub area: Area,
    /// The inode it belongs to; 0 for the DirInode map and the block table.
    pub ino: u32,
}

/// Is told what a walk finds.
pub trait Visitor {
    /// A page in use.
    fn page(&mut self, page: Page);
    /// A file or symbolic link, and what its inode says of its names.
    fn file(&mut self, page: PageAddr, ino: u32, nlink: u32) {
        let _ = (page, ino, nlink);
    }
    /// A name of a file in a directory.
    fn name(&mut self, ino: u32) {
        let _ = ino;
    }
    /// Something is not as it must be.
    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str);
    /// A record that cannot be read, or is not what its place asks for.
    fn damaged(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        self.problem(page, ino, what);
    }
}

/// A visitor that hears of no more pages than there are: of a damaged volume there may be no end.
struct Limited<'v> {
    visitor: &'v mut dyn Visitor,
    left: u32,
}

impl Visitor for Limited<'_> {
    fn page(&mut self, page: Page) {
        self.pages(page, 1);
    }
    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        self.visitor.problem(page, ino, what);
    }
    fn damaged(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        self.visitor.damaged(page, ino, what);
    }
    fn file(&mut self, page: PageAddr, ino: u32, links: u32) {
        self.visitor.file(page, ino, links);
    }
    fn name(&mut self, ino: u32) {
        self.visitor.name(ino);
    }
}

impl Limited<'_> {
    /// So many pages from one on.
    fn pages(&mut self, first: Page, count: u32) {
        let Page { page, area, ino } = first;
        for k in 0..count.min(self.left) {
            let page = PageAddr(page.0.wrapping_add(k));
            self.visitor.page(Page { page, area, ino });
        }
        if count > self.left {
            self.problem(page, ino, "more pages are in use than there are");
        }
        self.left = self.left.saturating_sub(count);
    }
}

/// What RAM above the least is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamUse {
    /// Blocks whose erases are counted for levelling: all of them, or none.
    pub erases_counted: usize,
    /// Blocks of which the dirty list says at most which pages are valid.
    pub dirty_entries: usize,
    /// Metadata pages that are kept at most, as long as the dirty list is empty.
    pub pages_kept: usize,
}

impl<N: Nand> FlashLight<'_, N> {
    /// BlockState of a block, for checks and statistics. One beyond those that a volume
    /// uses is [`BlockState::System`].
    pub fn block_state(&mut self, block: u32) -> BlockState {
        if block >= self.store().table.blocks() {
            BlockState::System
        } else {
            self.store_mut().state(block)
        }
    }

    /// Entries of the dirty list.
    pub fn dirty_blocks(&self) -> usize {
        self.store().dirty.len()
    }

    /// What there is of the caller's RAM beyond [`ram_needed`](crate::ram_needed) for, and the
    /// list that it makes longer.
    pub fn ram_use(&self) -> RamUse {
        let room = self
            .store()
            .dirty
            .room()
            .min(self.store().nand.pages.room());
        RamUse {
            erases_counted: self.store().counts.len(),
            dirty_entries: self.store().dirty.most(),
            pages_kept: room / self.store().page_size(),
        }
    }

    /// Valid pages by the running count.
    pub fn live_pages(&self) -> u32 {
        self.store().tally.live
    }

    /// Visits every page in use. Reads all metadata, no file data; writes what is dirty first, and
    /// what can be made anew of damaged pages, so that nothing is written meanwhile. Goes on after
    /// damage, with all that does not depend on it. What the chip holds counts, not
    /// what is kept in RAM of it.
    pub fn walk(&mut self, visitor: &mut dyn Visitor) -> Result<(), Error<N::Error>> {
        self.told(|fs| fs.volume.walk(visitor))
    }
}

impl<N: Nand> Volume<'_, N> {
    pub(crate) fn walk(&mut self, visitor: &mut dyn Visitor) -> Result<(), Fault> {
        self.store_mut().nand.pages.end();
        let walked = self.walk_chip(visitor);
        self.store_mut().nand.pages.begin();
        walked
    }

    fn walk_chip(&mut self, visitor: &mut dyn Visitor) -> Result<(), Fault> {
        let left = self.store().geo.pages();
        let visitor = &mut Limited { visitor, left };
        self.reading(|volume| volume.index_mut().write_cached())?;
        self.index_mut().walk_rebuilt(visitor)?;
        self.index_mut().write_cached()?;
        self.store_mut().nand.only_reads = true;
        let (area, ino) = (Area::DirMap, 0);
        for page in self.index().map.places() {
            visitor.page(Page { page, area, ino });
        }
        for page in self.store().table.copies() {
            let area = Area::Table;
            visitor.page(Page { page, area, ino });
        }
        let mut i = 0;
        // That the page of places is damaged has been told.
        while let Some(Some((k, page))) = sound(self.index_mut().map_page_from(i))? {
            i = k + 1;
            visitor.page(Page { page, area, ino });
        }
        let mut from = 1;
        while let Some(Some((ino, page))) = sound(self.index_mut().map_next(from))? {
            from = ino + 1;
            visitor.page(Page {
                page,
                area: Area::Dir,
                ino,
            });
            let walked = self.index_mut().walk_dir(ino, page, visitor);
            if ino == ROOT_DIR || ino == INDEX_DIR {
                // That its page is damaged has been told.
                sound(walked)?;
            } else {
                report(walked, self.store().nand.damaged_at(), page, ino, visitor)?;
            }
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// Tells of damage that the volume makes up for, and lets it do so: pages of the DirInode map,
    /// and the directories that have copies.
    fn walk_rebuilt(&mut self, visitor: &mut Limited<'_>) -> Result<(), Fault> {
        for page in self.map.places() {
            let found = self.load_scratch(page, Kind::Places);
            report(found, self.store.nand.damaged_at(), page, 0, visitor)?;
        }
        for n in 0.. {
            let Some(page) = self.store.table.copies().nth(n) else {
                break;
            };
            let found = self.load_scratch(page, Kind::Table);
            if report(found, self.store.nand.damaged_at(), page, 0, visitor)?.is_none() {
                // It is written anew, from the other copy.
                let block = self.store.geo.block_of(page).0;
                self.store.nand.refresh.add(block);
            }
        }
        let mut i = 0;
        while let Some(Some((k, page))) = sound(self.map_page_from(i))? {
            i = k + 1;
            if page.is_some() {
                let found = self.load_scratch(page, Kind::DirMap);
                report(found, self.store.nand.damaged_at(), page, 0, visitor)?;
                self.load_map(k as u32 * self.map.per_page())?;
            }
        }
        for ino in [ROOT_DIR, INDEX_DIR] {
            let page = self.map_get(ino)?;
            let found = self.load_scratch(page, Kind::Dir);
            report(found, self.store.nand.damaged_at(), page, ino, visitor)?;
            sound(self.load_dir(ino))?;
        }
        Ok(())
    }

    fn walk_dir(
        &mut self,
        ino: u32,
        page: PageAddr,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        let i = self.load_dir(ino)?;
        self.walk_attributes(self.dirs[i].dir().xattr(), ino, visitor)?;
        let mut whole = true;
        for p in 0..self.dirs[i].dir().pointers() {
            let (key, at) = self.dirs[i].dir().pointer(p);
            if self.dirs[i].dir().levels() == 1 {
                whole &= self.walk_hash_map((key, at), ino, visitor)?.is_true();
                continue;
            }
            visitor.page(Page {
                page: at,
                area: Area::HashMap,
                ino,
            });
            let mut r = 0;
            loop {
                let found = self.load_map_page(Kind::HashIndex, (key, at), ino);
                if report(found, self.store.nand.damaged_at(), at, ino, visitor)?.is_none() {
                    whole = false;
                    break;
                }
                let index: MapPage<&[u8], 8> = MapPage(&self.scratch);
                if r >= index.count().min(index.capacity()) {
                    break;
                }
                let map = index.pointer(r);
                whole &= self.walk_hash_map(map, ino, visitor)?.is_true();
                r += 1;
            }
        }
        self.walk_entries(ino, page, whole, visitor)
    }

    /// Returns whether the hash map can be read.
    fn walk_hash_map(
        &mut self,
        pointer: (u32, PageAddr),
        ino: u32,
        visitor: &mut Limited<'_>,
    ) -> Result<Bool, Fault> {
        let page = pointer.1;
        visitor.page(Page {
            page,
            area: Area::HashMap,
            ino,
        });
        let found = self.load_map_page(Kind::HashMap, pointer, ino);
        Ok(Bool::from(
            report(found, self.store.nand.damaged_at(), page, ino, visitor)?.is_some(),
        ))
    }

    /// `whole`: whether all hash maps can be read.
    fn walk_entries(
        &mut self,
        ino: u32,
        page: PageAddr,
        whole: bool,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        let (mut entries, mut subdirs) = (0u64, 0u32);
        let (mut hash, mut n) = (0, 0);
        loop {
            // Hash maps that cannot be read have been reported.
            let Some(Some(rec)) = sound(self.dir_nth(ino, hash, n))? else {
                match self.dir_next_hash(ino, hash + 1, &mut None)? {
                    Some(next) => (hash, n) = (next, 0),
                    None => break,
                }
                continue;
            };
            n += 1;
            entries += 1;
            subdirs += u32::from(rec.target == Target::Dir);
            self.walk_entry(ino, page, &rec, visitor)?;
        }
        let i = self.load_dir(ino)?;
        let view = self.dirs[i].dir();
        if whole && view.size() != entries {
            visitor.problem(page, ino, "the number of entries is wrong");
        }
        if whole && view.nlink() != 2 + subdirs {
            visitor.problem(page, ino, "the number of subdirectories is wrong");
        }
        let (parent, hash) = view.own_place(self.store.volume);
        if ino != ROOT_DIR && self.map_get(parent).ok().is_none_or(PageAddr::is_none) {
            visitor.problem(page, ino, "the parent directory does not exist");
        } else if ino > INDEX_DIR {
            // What is damaged on the way is reported where it belongs.
            let named = sound(self.has_entry(parent, hash, Target::Dir, ino))?;
            if named == Some(Bool::False) {
                visitor.problem(page, ino, "no entry leads to the directory");
            }
        }
        Ok(())
    }

    fn walk_entry(
        &mut self,
        ino: u32,
        page: PageAddr,
        rec: &DirRec,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        match rec.target {
            Target::Dir => {
                if self.map_get(rec.ptr).ok().is_none_or(PageAddr::is_none) {
                    visitor.problem(page, ino, "an entry leads to no directory");
                } else if let Some(child) = sound(self.load_dir(rec.ptr))? {
                    let view = self.dirs[child].dir();
                    if view.own_place(self.store.volume) != (ino, rec.hash) {
                        visitor.problem(page, ino, "an entry leads to another's directory");
                    }
                }
            }
            Target::File | Target::Orphan => {
                let at = PageAddr(rec.ptr);
                visitor.page(Page {
                    page: at,
                    area: Area::File,
                    ino: self.file_number(at)?.unwrap_or(0),
                });
                let walked = self.walk_file(at, ino, rec.hash, visitor);
                report(walked, self.store.nand.damaged_at(), at, ino, visitor)?;
            }
            Target::Indirect => {
                visitor.name(rec.ptr);
                match self.indirect_name(ino, rec) {
                    Err(Fault::NotFound) => {
                        visitor.problem(page, ino, "an entry leads to no file");
                    }
                    Ok(Bool::False) => {
                        visitor.problem(page, ino, "an entry is of no name of its file");
                    }
                    // What is damaged on the way is reported where it belongs.
                    found => {
                        sound(found)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The number of the file at a page, if that can be read.
    fn file_number(&mut self, at: PageAddr) -> Result<Option<u32>, Fault> {
        let found = sound(self.load_scratch(at, Kind::File))?;
        Ok(found.map(|()| FileView::on(&*self.scratch).ino()))
    }

    /// Whether the file that an entry holds the number of has that name.
    pub(crate) fn indirect_name(&mut self, dir: u32, rec: &DirRec) -> Result<Bool, Fault> {
        let place = self.peek_file(FileRef::by_number(self.store.volume, rec.ptr))?;
        let named = self.named(place, dir, Which::Hash(rec.hash))?;
        Ok(named.is_some().into())
    }

    /// Compares what a cached file says of its names with itself and the directories.
    fn walk_names(
        &mut self,
        i: FileSlot,
        at: PageAddr,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        let view = self.files[i].file();
        let (ino, flags, nlink) = (self.files[i].ino, view.flags(), view.nlink());
        visitor.file(at, ino, nlink);
        if flags & FLAG_INDIRECT == 0 {
            visitor.name(ino);
            if self.files[i].file().names_len() > 0 {
                visitor.problem(at, ino, "a file found by its name has further names");
            }
            return Ok(());
        }
        if flags & FLAG_ORPHAN != 0 && nlink != 0 {
            visitor.problem(at, ino, "a file without a name has links");
        }
        let (mut n, mut whole) = (0, true);
        while let Some(page) = self.files[i].file().names_page(n) {
            visitor.page(Page {
                page,
                area: Area::Names,
                ino,
            });
            let found = self.load_names(i, page);
            whole &= report(found, self.store.nand.damaged_at(), page, ino, visitor)?.is_some();
            n += 1;
        }
        if whole && flags & FLAG_ORPHAN == 0 {
            self.walk_listed_names(i, at, nlink, visitor)?;
        }
        Ok(())
    }

    fn walk_attributes(
        &mut self,
        page: PageAddr,
        ino: u32,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        if page.is_some() {
            let area = Area::Attributes;
            visitor.page(Page { page, area, ino });
            let found = self.load_attributes_at(page, ino);
            report(found, self.store.nand.damaged_at(), page, ino, visitor)?;
        }
        Ok(())
    }

    fn walk_listed_names(
        &mut self,
        i: FileSlot,
        at: PageAddr,
        nlink: u32,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        let (ino, mut names) = (self.files[i].ino, 0);
        loop {
            let mut batch = [(0, 0); 32];
            let n = self.names_from(i, names, &mut batch)?;
            for (dir, hash) in batch[..n].iter().copied() {
                let found = self.has_entry(dir, hash, Target::Indirect, ino);
                if sound(found)? == Some(Bool::False) {
                    visitor.problem(at, ino, "a name of the file is in no directory");
                }
            }
            names += n;
            if n == 0 {
                break;
            }
        }
        if names != nlink as usize {
            visitor.problem(at, ino, "the number of names is wrong");
        }
        Ok(())
    }

    fn walk_file(
        &mut self,
        at: PageAddr,
        dir: u32,
        hash: u32,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        if sound(self.load_scratch(at, Kind::File))?.is_none() {
            return Err(self.store.nand.damaged(at, Damaged::FileOfDir));
        }
        let ino = FileView::on(&self.scratch).ino();
        let cached = self.file_slot(ino);
        let i = match cached {
            Some(i) => i,
            None => self.load_file_at(at)?,
        };
        let view = self.files[i].file();
        if view.holder(self.store.volume) != (dir, hash) || self.files[i].loc != at {
            visitor.problem(at, ino, "the entry is another file's");
            if cached.is_none() {
                // Nobody is to take it for the file of that number: that may be elsewhere.
                self.files[i].clear();
            }
            return Ok(());
        }
        self.walk_names(i, at, visitor)?;
        self.walk_attributes(self.files[i].file().xattr(), ino, visitor)?;
        let view = self.files[i].file();
        let pages = self.store.pages_of(view.size());
        let extents = (0..view.record_search(INDEX_END, 0)).map(|r| Extent::decode(view.record(r)));
        let end = visit_extents(extents, ino, visitor);
        if end > pages {
            visitor.problem(at, ino, "an extent beyond the end of the file");
        }
        for p in 0..self.files[i].file().pointers() {
            let view = self.files[i].file();
            let ((key, page), levels) = (view.pointer(p), view.levels());
            if levels != 2 {
                self.walk_extent_map(i, (key, page), None, visitor)?;
                continue;
            }
            visitor.page(Page {
                page,
                area: Area::ExtentMap,
                ino,
            });
            let mut r = 0;
            loop {
                let found = self.load_map_page(Kind::ExtentIndex, (key, page), ino);
                if report(found, self.store.nand.damaged_at(), page, ino, visitor)?.is_none() {
                    break;
                }
                let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                if r >= index.count().min(index.capacity()) {
                    break;
                }
                let (map, waiting) = (index.pointer(r), Waiting::below(&index, page, r));
                if r == 0 {
                    self.for_each_valid_run_waiting(i, &mut |_, e| visit_run(e, ino, visitor));
                }
                self.walk_extent_map(i, map, Some(&waiting), visitor)?;
                r += 1;
            }
        }
        Ok(())
    }

    fn walk_extent_map(
        &mut self,
        i: FileSlot,
        pointer: (u32, PageAddr),
        waiting: Option<&Waiting>,
        visitor: &mut Limited<'_>,
    ) -> Result<(), Fault> {
        let (page, ino) = (pointer.1, self.files[i].ino);
        visitor.page(Page {
            page,
            area: Area::ExtentMap,
            ino,
        });
        let found = self.load_map_page(Kind::ExtentMap, pointer, ino);
        if report(found, self.store.nand.damaged_at(), page, ino, visitor)?.is_some() {
            let counted =
                self.for_each_valid_run(i, waiting, &mut |_, e| visit_run(e, ino, visitor));
            report(counted, self.store.nand.damaged_at(), page, ino, visitor)?;
        }
        Ok(())
    }
}

/// Visits the pages of extents. Returns where the last ends.
fn visit_extents(
    extents: impl Iterator<Item = Extent>,
    ino: u32,
    visitor: &mut Limited<'_>,
) -> u32 {
    let mut end = 0;
    for e in extents {
        end = e.end();
        visit_run(e, ino, visitor);
    }
    end
}

fn visit_run(e: Extent, ino: u32, visitor: &mut Limited<'_>) {
    let first = Page {
        page: PageAddr(e.page),
        area: Area::Data,
        ino,
    };
    visitor.pages(first, e.count);
}

/// A damaged page is a finding, and the result `None`; a failing driver ends the walk.
fn report<T>(
    result: Result<T, Fault>,
    damaged_at: PageAddr,
    page: PageAddr,
    ino: u32,
    visitor: &mut Limited<'_>,
) -> Result<Option<T>, Fault> {
    match result {
        Err(Fault::Corrupt(what)) => visitor.damaged(damaged_at, ino, what.as_str()),
        Err(Fault::NotFound) => visitor.problem(page, ino, "not found"),
        r => return r.map(Some),
    }
    Ok(None)
}

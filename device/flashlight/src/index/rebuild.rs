//! A page of the DirInode map that cannot be read is rebuilt: every directory's page says which one
//! it is, and the newest of each number is the one in use.
//!
//! That of a directory that has been removed may still be there. It is told apart by the counts of
//! valid pages: the dirty list says which pages of a block are valid, and where a block has as many
//! valid pages as readable ones, all are. What is left is asked for in its
//! parent, which must name it.
//!
//! When there are DirInode pages that cannot be read either, an older one could pass for the one in
//! use. Then no directory is believed whose page is not known to be valid; and the numbers that
//! entries lead to and no page was found for lead to such a page from then on: an error, and no
//! number to be given to another directory.

use crate::error::{Bool, Fault, sound};
use crate::format::blockstate::BlockState;
use crate::format::dirrec::{self, DirRec, HASH_SHIFT, RecState, Target};
use crate::format::header::{HEADER, Header, Kind};
use crate::format::inode::DirView;
use crate::format::mappage::MapPage;
use crate::format::node::INDEX_DIR;
use crate::index::dirmap::NEAR;
use crate::index::slots::DirSlot;
use crate::index::{Index, tree};
use crate::space::opened::{FRESH, is_lost};
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Directories removed one below the other, and not yet erased, that are told apart.
const DEPTH: usize = 4;

/// What is known of a block of DirInodes.
struct Census {
    block: u32,
    /// The page of the map, which is valid and cannot be read.
    map: PageAddr,
    /// The pages that have not been looked at.
    next: u32,
    end: u32,
    /// Pages that are valid, and that can be read; of these, DirInodes.
    valid: u32,
    readable: u32,
    dirs: u32,
    /// One that cannot be read.
    lost: Option<PageAddr>,
    /// Whether the dirty list says which pages are valid; the others have not been counted.
    listed: bool,
}

impl Census {
    /// Whether some of its DirInodes may be invalid.
    fn is_vague(&self) -> bool {
        !self.listed && self.dirs > 0 && self.readable > self.valid
    }

    /// A page that cannot be read and may be a valid DirInode: one of a block that has others.
    fn missing(&self) -> Option<PageAddr> {
        self.lost
            .filter(|_| self.dirs > 0 && self.readable != self.valid)
    }
}

/// What a directory's page says of a name.
enum Answer {
    Yes,
    No,
    /// This hash map, or index page of such, has to say.
    Ask(PageAddr),
}

impl<N: Nand> Index<'_, N> {
    /// Fills the cached page of the DirInode map, which cannot be read `at` its place, with what is
    /// found on the chip of its directories, the first of which has the number `first`. Overwrites
    /// the scratch page.
    ///
    /// Reads all pages of metadata that may be valid, and those of directories a second time: a
    /// recovery writes pages of all kinds into one block. Blocks with directories that are not
    /// known to be valid up to four times more, with what the parents of these have. With
    /// unreadable pages of directories all pages of metadata once more.
    #[inline(never)]
    pub(crate) fn rebuild_map(&mut self, first: u32, at: PageAddr) -> Result<(), Fault> {
        self.store.map_page.bytes.fill(0xff);
        let mut lost = None;
        for block in 0..self.store.table.blocks() {
            let mut census = self.census(block, at);
            while let Some((at, header)) = self.next_dir(&mut census)? {
                self.map_found(first, at, &header)?;
            }
            lost = lost.or(census.missing());
        }
        for _ in 0..DEPTH {
            if !self.drop_removed(first, at, lost.is_some())?.is_true() {
                break;
            }
        }
        if let Some(lost) = lost {
            self.mark_missing_deferred(first, lost);
            for block in 0..self.store.table.blocks() {
                self.mark_missing(block, first, lost)?;
            }
        }
        for &i in &DirSlot::ALL {
            let (ino, loc) = (self.dirs[i].ino, self.dirs[i].loc);
            if ino != 0 && loc.is_some() {
                self.set_entry(first, ino, loc);
            }
        }
        Ok(())
    }

    /// Where the entry of a directory is in the cached page.
    fn entry_at(&self, first: u32, ino: u32) -> Option<usize> {
        let at = HEADER + 4 * ino.checked_sub(first)? as usize;
        (at + 4 <= self.store.page_size() && ino != 0).then_some(at)
    }

    fn entry(&self, first: u32, ino: u32) -> PageAddr {
        let at = self.entry_at(first, ino);
        at.map_or(PageAddr::NONE, |at| {
            PageAddr(get_u32(self.store.map_page.bytes, at))
        })
    }

    fn set_entry(&mut self, first: u32, ino: u32, page: PageAddr) {
        if let Some(at) = self.entry_at(first, ino) {
            put_u32(self.store.map_page.bytes, at, page.0);
        }
    }

    /// Whether a page may be one of the state to be found: not known to be invalid; in a recovery,
    /// not newer than the checkpoint, for what is newer is found by that.
    fn may_be_valid(&self, at: PageAddr) -> bool {
        self.listed_valid(at) != Some(false) && !self.is_new(at)
    }

    /// A count of the DirInodes of a block, none of which [`Index::next_dir`] has read yet.
    fn census(&mut self, block: u32, map: PageAddr) -> Census {
        let valid = match self.store.state(block) {
            BlockState::Meta(valid) => valid,
            _ => 0,
        };
        Census {
            block,
            map,
            next: 0,
            end: if valid > 0 {
                self.store.programmed(block)
            } else {
                0
            },
            valid,
            readable: 0,
            dirs: 0,
            lost: None,
            listed: self.store.listed(block).is_some(),
        }
    }

    /// The next DirInode of a block that may be valid, into the scratch page.
    fn next_dir(&mut self, census: &mut Census) -> Result<Option<(PageAddr, Header)>, Fault> {
        while census.next < census.end {
            let at = self.store.geo.page(BlockAddr(census.block), census.next);
            census.next += 1;
            if !self.may_be_valid(at) {
                continue;
            }
            match self.read_scratch(at)? {
                Some(header) => {
                    census.readable += 1;
                    if header.kind == Kind::Dir {
                        census.dirs += 1;
                        return Ok(Some((at, header)));
                    }
                }
                None if crate::format::header::is_blank(&self.scratch) => census.end = 0,
                // That is no directory's.
                None if at == census.map => census.valid = census.valid.saturating_sub(1),
                None => census.lost = Some(at),
            }
        }
        Ok(None)
    }

    /// Notes the DirInode in the scratch page, unless a newer one of its number is known.
    fn map_found(&mut self, first: u32, at: PageAddr, header: &Header) -> Result<(), Fault> {
        let view = DirView::on(&*self.scratch);
        if !view.is_sane() {
            return Ok(());
        }
        let ino = view.ino();
        let known = self.entry(first, ino);
        if known.is_some() {
            let older = self.read_scratch(known)?;
            if older.is_some_and(|older| older.seq > header.seq) {
                return Ok(());
            }
        }
        self.set_entry(first, ino, at);
        Ok(())
    }

    /// Drops directories whose page may be invalid and that nobody names, or, when a newer page may
    /// be among the unreadable ones, all whose page may be invalid. Returns whether there were any.
    fn drop_removed(&mut self, first: u32, map: PageAddr, all: bool) -> Result<Bool, Fault> {
        let mut dropped = false;
        for block in 0..self.store.table.blocks() {
            if self.store.listed(block).is_some() {
                continue;
            }
            let mut census = self.census(block, map);
            while self.next_dir(&mut census)?.is_some() {}
            if !census.is_vague() {
                continue;
            }
            let mut census = self.census(block, map);
            while let Some((at, _)) = self.next_dir(&mut census)? {
                let ino = DirView::on(&*self.scratch).ino();
                if self.entry(first, ino) == at
                    && ino > INDEX_DIR
                    && (all || !self.is_named(first, ino)?.is_true())
                {
                    self.set_entry(first, ino, PageAddr::NONE);
                    dropped = true;
                }
            }
        }
        Ok(dropped.into())
    }

    /// Whether the parent of the directory in the scratch page has an entry for it. What cannot be
    /// read is no objection.
    fn is_named(&mut self, first: u32, ino: u32) -> Result<Bool, Fault> {
        let view = DirView::on(&*self.scratch);
        let (parent, hash) = view.own_place(self.store.volume);
        let mut answer = match self.dir_slot(parent) {
            Some(i) => names(&self.dirs[i].dir(), hash, ino),
            None => {
                let Some(at) = self.page_of(first, parent)? else {
                    return Ok(Bool::True);
                };
                if at.is_none() {
                    return Ok(Bool::False);
                }
                let header = self.read_scratch(at)?;
                let view = DirView::on(&*self.scratch);
                if header.is_none_or(|h| h.kind != Kind::Dir) || !view.is_sane() {
                    return Ok(Bool::True);
                }
                self.show_deferred(at)?;
                let view = DirView::on(&*self.scratch);
                names(&view, hash, ino)
            }
        };
        // An index page, and a map.
        for _ in 0..2 {
            let Answer::Ask(at) = answer else { break };
            let header = self.read_scratch(at)?;
            let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
            answer = match header.map(|h| h.kind) {
                Some(Kind::HashIndex) if page.is_sane() && page.count() > 0 => {
                    Answer::Ask(tree::index_range(&page, hash, dirrec::NO_HASH).0.1)
                }
                Some(Kind::HashMap) if page.is_sane() => {
                    let found = (page.search(hash, HASH_SHIFT)..page.count())
                        .map(|r| DirRec::decode(page.record(r)))
                        .take_while(|rec| rec.hash == hash)
                        .any(|rec| rec.same_object(Target::Dir, ino));
                    if found { Answer::Yes } else { Answer::No }
                }
                _ => Answer::Yes,
            };
        }
        Ok((!matches!(answer, Answer::No)).into())
    }

    /// Page of a directory, which may be in another page of the map; `None` when that cannot be
    /// read. One read then.
    fn page_of(&mut self, first: u32, ino: u32) -> Result<Option<PageAddr>, Fault> {
        if self.entry_at(first, ino).is_some() {
            return Ok(Some(self.entry(first, ino)));
        }
        if let Some(page) = self.map.changes.get(ino) {
            return Ok(Some(page));
        }
        let per_page = self.map.per_page();
        if ino >= self.map.end() {
            return Ok(Some(PageAddr::NONE));
        }
        let page = (ino / per_page) as usize;
        let map = if self.map.is_far(page) {
            let copies = self.map.copies();
            let page_bytes = self.scratch.overwrite(&mut self.store.scratch_holds);
            let Some(()) = sound(self.store.read_places(copies, page_bytes))? else {
                return Ok(None);
            };
            PageAddr(get_u32(&self.scratch, HEADER + 4 * (page - NEAR)))
        } else {
            self.map.root(page)
        };
        if map.is_none() {
            return Ok(Some(PageAddr::NONE));
        }
        let header = self.read_scratch(map)?;
        let at = HEADER + 4 * (ino % per_page) as usize;
        Ok(header
            .filter(|h| h.kind == Kind::DirMap)
            .map(|_| PageAddr(get_u32(&self.scratch, at))))
    }

    /// Lets the directories that entries in a block's pages lead to, and that were not found, lead
    /// to the page `lost`, which cannot be read.
    fn mark_missing(&mut self, block: u32, first: u32, lost: PageAddr) -> Result<(), Fault> {
        if !matches!(self.store.state(block), BlockState::Meta(1..)) {
            return Ok(());
        }
        for index in 0..self.store.programmed(block) {
            let at = self.store.geo.page(BlockAddr(block), index);
            if !self.may_be_valid(at) {
                continue;
            }
            let header = self.read_scratch(at)?;
            let dir = DirView::on(&*self.scratch);
            let map: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
            let count = match header.map(|h| h.kind) {
                Some(Kind::Dir) if dir.is_sane() => dir.records(),
                Some(Kind::HashMap) if map.is_sane() => map.count(),
                Some(_) => 0,
                None if crate::format::header::is_blank(&self.scratch) => return Ok(()),
                None => 0,
            };
            let is_dir = header.is_some_and(|h| h.kind == Kind::Dir);
            for r in 0..count {
                let rec = if is_dir {
                    DirRec::decode(DirView::on(&*self.scratch).record(r))
                } else {
                    DirRec::decode(MapPage::<&[u8], { dirrec::SIZE }>(&self.scratch).record(r))
                };
                self.mark_missing_entry(&rec, first, lost);
            }
        }
        Ok(())
    }

    /// The same of what deferred changes lead to.
    fn mark_missing_deferred(&mut self, first: u32, lost: PageAddr) {
        for n in 0.. {
            let Some(rec) = self.store.nth_deferred(n) else {
                return;
            };
            self.mark_missing_entry(&rec, first, lost);
        }
    }

    fn mark_missing_entry(&mut self, rec: &DirRec, first: u32, lost: PageAddr) {
        if rec.is_entry() && rec.target == Target::Dir && self.entry(first, rec.ptr).is_none() {
            self.set_entry(first, rec.ptr, lost);
        }
    }

    /// Whether the dirty list calls a page valid; `None` for a block that is not on it, or in part.
    pub(crate) fn listed_valid(&self, page: PageAddr) -> Option<bool> {
        let block = self.store.geo.block_of(page).0;
        let i = self.store.listed(block)?;
        Some(self.store.dirty.is_valid(i, self.store.geo.index_of(page)))
    }
}

/// Whether a directory's page has an entry for another directory.
fn names(dir: &DirView<'_>, hash: u32, ino: u32) -> Answer {
    let mut masked = false;
    for r in dir.record_search(hash, HASH_SHIFT)..dir.records() {
        let rec = DirRec::decode(dir.record(r));
        if rec.hash != hash {
            break;
        }
        if rec.is_entry() && rec.same_object(Target::Dir, ino) {
            return Answer::Yes;
        }
        masked |= match rec.state {
            RecState::New | RecState::Freed => false,
            RecState::Update | RecState::Delete => true,
            RecState::Gone => rec.same_object(Target::Dir, ino),
        };
    }
    if masked || dir.levels() == 0 {
        return Answer::No;
    }
    Answer::Ask(tree::root_range(&dir.any(), hash, dirrec::NO_HASH).0.1)
}

impl<'r, N: Nand> Index<'r, N> {
    pub(crate) fn lost(&self, at: PageAddr) -> bool {
        is_lost(&self.store, at)
    }

    /// Whether a map page was written since the checkpoint: then it may refer to lost pages.
    pub(crate) fn is_new(&self, at: PageAddr) -> bool {
        let block = self.store.geo.block_of(at).0;
        self.lost(at)
            || self.store.recovery.as_ref().is_some_and(|r| {
                (0..r.len).any(|i| r.entry(i).0 == block && r.entry(i).1 & FRESH != 0)
            })
    }
}

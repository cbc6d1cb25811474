//! Pages that were written after the checkpoint and that nothing leads to any more
//! are not counted as valid.

use crate::error::{Fault, sound};
use crate::format::area::LogArea;
use crate::format::dirrec::{self, DirRec, Target};
use crate::format::extent::{Extent, INDEX_END};
use crate::format::header::{Header, Kind, is_blank};
use crate::format::inode::{DirMut, DirView, FileView};
use crate::format::mappage::{ExtentPage, MapPage};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::index::waiting::Waiting;
use crate::recovery::listing::is_record;
use crate::space::latch::MayProgram;
use crate::space::opened::{FRESH, Recovery, is_lost};
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

impl<'r, N: Nand> Index<'r, N> {
    /// Step 5: counts the lost pages that inodes refer to.
    #[inline(never)]
    pub(crate) fn count_lost(&mut self, since: u64) -> Result<(), Fault> {
        self.count_deferred(MayProgram);
        let mut entry = 0;
        loop {
            let Some(rec) = self.store.recovery.as_ref().filter(|r| entry < r.len) else {
                return Ok(());
            };
            let (block, info) = rec.entry(entry);
            let copy = rec.copy.map_or(PageAddr::NONE, |c| c.0);
            entry += 1;
            let fresh = info & FRESH != 0;
            let area = Recovery::area(info);
            if !fresh && area != LogArea::Dir as u16 && area != LogArea::File as u16 {
                continue;
            }
            for index in u32::from(info & 0x7ff)..self.store.ppb() {
                let at = self.store.geo.page(BlockAddr(block), index);
                self.files[FileSlot::First].clear();
                let header = self.store.read_meta(at, self.files[FileSlot::First].buf)?;
                let is_one = |h: &Header| h.seq > since && (fresh || is_record(h.kind, area));
                let counted = match header.filter(is_one) {
                    Some(h) if h.kind == Kind::Dir => self.count_dir(at),
                    Some(h) if h.kind == Kind::File && (!fresh || copy == at) => {
                        self.count_file(at)
                    }
                    None if is_blank(self.files[FileSlot::First].buf) => break,
                    _ => Ok(()),
                };
                self.noted(counted)?;
            }
        }
    }

    /// Counts the pages that the deferred changes of directories lead to.
    fn count_deferred(&mut self, _: MayProgram) {
        for n in 0.. {
            let Some(entry) = self.store.nth_deferred(n) else {
                return;
            };
            self.count_entry(&entry, MayProgram);
        }
    }

    fn count_dir(&mut self, at: PageAddr) -> Result<(), Fault> {
        let view = DirView::on(self.files[FileSlot::First].buf);
        if !view.is_sane() {
            return Ok(());
        }
        let (ino, pointers, levels) = (view.ino(), view.pointers(), view.levels());
        if self.map_get(ino).ok() != Some(at) {
            return Ok(());
        }
        // What its deferred changes lead to has been counted.
        if let Some(group) = self.store.deferred(ino) {
            group.apply(&mut DirMut::on(self.files[FileSlot::First].buf));
        }
        self.count(at, MayProgram);
        let xattr = DirView::on(self.files[FileSlot::First].buf).xattr();
        self.count(xattr, MayProgram);
        for r in 0..DirView::on(self.files[FileSlot::First].buf).records() {
            let entry = DirRec::decode(DirView::on(self.files[FileSlot::First].buf).record(r));
            let group = self.store.deferred(ino);
            if group.is_none_or(|group| group.records().all(|rec| rec.hash != entry.hash)) {
                self.count_entry(&entry, MayProgram);
            }
        }
        for p in 0..pointers {
            let page = DirView::on(self.files[FileSlot::First].buf).pointer(p).1;
            self.count(page, MayProgram);
            if levels == 1 {
                self.count_hash_map(page)?;
                continue;
            }
            let (mut r, new) = (0, self.is_new(page));
            while new && sound(self.load_scratch(page, Kind::HashIndex))?.is_some() {
                let index: MapPage<&[u8], 8> = MapPage(&self.scratch);
                if r >= index.count().min(index.capacity()) {
                    break;
                }
                let map = index.pointer(r).1;
                self.store.look_into(map)?;
                self.count(map, MayProgram);
                self.count_hash_map(map)?;
                r += 1;
            }
        }
        Ok(())
    }

    /// Counts the page that an entry leads to: also one that cannot be read, which must not become
    /// another file's.
    fn count_entry(&mut self, entry: &DirRec, _: MayProgram) {
        if entry.is_entry() && matches!(entry.target, Target::File | Target::Orphan) {
            self.count(PageAddr(entry.ptr), MayProgram);
        }
    }

    /// Counts what the entries lead to in a hash map of the directory in the first slot.
    fn count_hash_map(&mut self, map: PageAddr) -> Result<(), Fault> {
        if !self.is_new(map) || sound(self.load_scratch(map, Kind::HashMap))?.is_none() {
            return Ok(());
        }
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
        for r in 0..page.count().min(page.capacity()) {
            let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
            let entry = DirRec::decode(page.record(r));
            if !DirView::on(self.files[FileSlot::First].buf).hides(&entry) {
                self.count_entry(&entry, MayProgram);
            }
        }
        Ok(())
    }

    fn count_file(&mut self, at: PageAddr) -> Result<(), Fault> {
        let view = self.files[FileSlot::First].file();
        if !view.is_sane() {
            return Ok(());
        }
        let (dir, hash) = view.holder(self.store.volume);
        let (pointers, levels) = (view.pointers(), view.levels());
        let mut n = 0;
        loop {
            match self.dir_nth(dir, hash, n) {
                Ok(Some(rec)) if rec.ptr == at.0 && rec.target != Target::Indirect => break,
                Ok(Some(_)) => n += 1,
                // Without its entry nobody can reach it.
                Ok(None) | Err(Fault::NotFound | Fault::Corrupt(_)) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let mut n = 0;
        while let Some(page) = self.files[FileSlot::First].file().names_page(n) {
            self.count(page, MayProgram);
            n += 1;
        }
        let xattr = self.files[FileSlot::First].file().xattr();
        self.count(xattr, MayProgram);
        for r in 0..self.files[FileSlot::First]
            .file()
            .record_search(INDEX_END, 0)
        {
            let e = Extent::decode(self.files[FileSlot::First].file().record(r));
            count_run(&mut self.store, e, MayProgram);
        }
        for p in 0..pointers {
            let page = self.files[FileSlot::First].file().pointer(p).1;
            if levels == 2 && self.count(page, MayProgram) {
                let mut r = 0;
                while sound(self.load_scratch(page, Kind::ExtentIndex))?.is_some() {
                    let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                    if r >= index.count().min(index.capacity()) {
                        break;
                    }
                    let (map, waiting) = (index.pointer(r).1, Waiting::below(&index, page, r));
                    if r == 0 {
                        self.for_each_valid_run_waiting(FileSlot::First, &mut |store, run| {
                            count_run(store, run, MayProgram);
                        });
                    }
                    self.store.look_into(map)?;
                    self.count_extent_map(map, Some(&waiting))?;
                    r += 1;
                }
            } else if levels == 1 {
                self.count_extent_map(page, None)?;
            }
        }
        Ok(())
    }

    fn count_extent_map(&mut self, at: PageAddr, waiting: Option<&Waiting>) -> Result<(), Fault> {
        if !self.count(at, MayProgram) || sound(self.load_scratch(at, Kind::ExtentMap))?.is_none() {
            return Ok(());
        }
        sound(
            self.for_each_valid_run(FileSlot::First, waiting, &mut |store, run| {
                count_run(store, run, MayProgram);
            }),
        )?;
        Ok(())
    }

    /// Step 6: blocks without valid pages are dead, but for those that may hold updates.
    pub(crate) fn close_opened(&mut self, _: MayProgram) {
        let listed = self.store.recovery.as_ref().map_or(0, |r| r.len);
        for i in 0..listed {
            let entry = self.store.recovery.as_ref().map(|r| r.entry(i));
            let Some((block, info)) = entry else { break };
            self.store.table_write_back(MayProgram);
            let may_hold = info & FRESH == 0 && Recovery::area(info) == LogArea::Update as u16;
            let has_room = !self.store.updates_to_replay.blocks.is_full();
            if may_hold && has_room && self.store.has_updates() {
                let from = u32::from(info & 0x7ff);
                self.store.updates_to_replay.add(block, from);
            } else if info & FRESH == 0 || !self.store.is_open(block) {
                self.store.close(block);
            }
        }
        self.files[FileSlot::First].clear();
        if let Some(rec) = self.store.recovery.take() {
            self.files[FileSlot::Second].buf = rec.list;
        }
        self.files[FileSlot::Second].clear();
    }
}

/// A page that is in use is valid after all, if it counts as lost.
pub(crate) fn count<N: Nand>(store: &mut Store<'_, N>, at: PageAddr, _: MayProgram) -> bool {
    let lost = is_lost(store, at);
    if lost {
        store.validate(at);
        store.table_write_back(MayProgram);
    }
    lost
}

/// The same with a run of pages, in steps of a block.
fn count_run<N: Nand>(store: &mut Store<'_, N>, run: Extent, _: MayProgram) {
    let mut at = run.page;
    let end = run.page.saturating_add(run.count).min(store.geo.pages());
    while at < end {
        let (block, index) = (
            store.geo.block_of(PageAddr(at)),
            store.geo.index_of(PageAddr(at)),
        );
        let next = end.min(at + (store.ppb() - index));
        let from = store
            .recovery
            .as_ref()
            .map_or(u32::MAX, |r| r.lost_from(block.0));
        for page in at.saturating_add(from.saturating_sub(index))..next {
            store.validate(PageAddr(page));
            store.table_write_back(MayProgram);
        }
        at = next;
    }
}

/// A run of data, or a note, that a page of an inode or of a map has.
pub(crate) fn nth_run(kind: Kind, page: &[u8], n: usize) -> Option<Extent> {
    match kind {
        Kind::File => {
            let view = FileView::on(page);
            (n < view.records()).then(|| Extent::decode(view.record(n)))
        }
        Kind::ExtentMap => {
            let map = ExtentPage::on(page);
            (n < map.count()).then(|| map.extent(n))
        }
        Kind::ExtentIndex => {
            let index: MapPage<&[u8], 8> = MapPage(page);
            (n < index.waiting()).then(|| index.extent(n))
        }
        _ => None,
    }
}

//! Extents that wait in index pages, on their way from a file's log to its extent maps.
//!
//! A log has room for a hundred records, and a file that is overwritten at random has hundreds of
//! maps: few records would move to each map that is written. So at the index level they move in two
//! steps. The log's records of all maps under one index page are *gathered* there, behind its
//! pointers, a page written for a dozen or two of them; and when that is full, those of the maps
//! with the most are *drained*, a map written for a dozen again. This is a tree with buffers in its
//! nodes (M. A. Bender and others: *An Introduction to B-epsilon-trees and write-optimization*,
//! ;login: 40(5), 2015), of two levels.
//!
//! What the log says comes before what waits, and that before what the maps say. A page that is
//! only named below another record counts as valid until that record gets there, or until cleaning
//! gives it back and notes that above: the record *masks* what the next page below says. So to know
//! which pages a map makes count, the records above are needed ([`Index::for_each_valid_run`]).
//!
//! No extent that waits reaches over the border of two maps.

use crate::error::{Damaged, Fault};
use crate::format::extent::{self, Extent, INDEX_END};
use crate::format::mappage::{ExtentPage, MapPage};
use crate::index::Index;
use crate::index::file::unmasked;
use crate::index::slots::FileSlot;
use crate::index::tree::{self, BATCH, Changes, EXTENT, MapTarget};
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_nand::{Nand, PageAddr};

/// Extents read at a time from an index page while a map is in the scratch page.
pub(crate) const CHUNK: usize = 16;
/// Bytes of an index page that what waits leaves to the pointers that draining adds.
const FOR_POINTERS: usize = 8 * (BATCH + 4);
/// Records that are worth a page of their own on the way: with room for
/// less, what waits is drained.
const DRAIN_WORTH: usize = 12;
/// Extents that an index page has room for at least, while the inode has room for more of them.
const LEAST: usize = 24;

/// A few extents that wait, as they are on flash.
pub(crate) struct Chunk {
    bytes: [u8; CHUNK * extent::SIZE],
    len: usize,
}

impl Chunk {
    pub const EMPTY: Chunk = Chunk {
        bytes: [0; CHUNK * extent::SIZE],
        len: 0,
    };

    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        let extents = self.bytes.chunks_exact(extent::SIZE);
        extents.take(self.len).map(Extent::decode)
    }
}

/// Extents of an index page: of which page, at which byte, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub page: PageAddr,
    pub offset: usize,
    pub count: usize,
}

impl Waiting {
    /// What waits for a range in the index page that is in the scratch page.
    pub fn of(index: &MapPage<&[u8], 8>, page: PageAddr, from: u32, to: u32) -> Waiting {
        let (a, b) = (index.extent_search(from), index.extent_search(to));
        Waiting {
            page,
            offset: index.extent_at(a),
            count: b - a,
        }
    }

    /// What waits for the map of a pointer of that index page.
    pub fn below(index: &MapPage<&[u8], 8>, page: PageAddr, p: usize) -> Waiting {
        let (from, to) = tree::range_below(index, p, (0, INDEX_END));
        Waiting::of(index, page, from, to)
    }

    /// A few of them, from number `from` on. One read, unless the page is kept in RAM.
    pub fn read<N: Nand>(
        &self,
        store: &mut Store<'_, N>,
        from: usize,
        out: &mut Chunk,
    ) -> Result<usize, Fault> {
        let n = CHUNK.min(self.count - from);
        let offset = (self.offset + extent::SIZE * from) as u32;
        out.len = n;
        let part = &mut out.bytes[..n * extent::SIZE];
        if let Some(page) = store.kept(self.page, EXTENT.index) {
            part.copy_from_slice(&page[offset as usize..][..part.len()]);
        } else if !store
            .nand
            .read(self.page, offset, part, &mut [])?
            .is_readable()
        {
            return Err(store.nand.damaged(self.page, Damaged::ExtentIndex));
        }
        Ok(n)
    }
}

/// Extents that there is room for in an index page.
fn room(index: &MapPage<&[u8], 8>) -> usize {
    index.0.len().saturating_sub(index.len() + FOR_POINTERS) / extent::SIZE
}

impl<N: Nand> Index<'_, N> {
    /// Loads an index page of a cached file into the scratch page; gives its place, and where the
    /// range of its pointer ends. One read.
    pub(crate) fn load_index(
        &mut self,
        i: FileSlot,
        root: usize,
    ) -> Result<(PageAddr, u32), Fault> {
        let view = self.files[i].file();
        let (pointer, ino) = (view.pointer(root), view.ino());
        let end = if root + 1 < view.pointers() {
            view.pointer(root + 1).0
        } else {
            INDEX_END
        };
        self.load_map_page(EXTENT.index, pointer, ino)?;
        Ok((pointer.1, end))
    }

    /// Moves records of the log to an index page of the file. One read, one program. When there is
    /// no room, the index page is divided, or what waits there is drained first.
    #[inline(never)]
    pub(crate) fn gather(&mut self, i: FileSlot, root: usize) -> Result<(), Fault> {
        let (old, end) = self.load_index(i, root)?;
        let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
        let view = self.files[i].file();
        let (first, _) = view.pointer(root);
        let records = view.record_search(end, 0) - view.record_search(first, 0);
        if records == 0 {
            return Ok(());
        }
        // The more index pages there are, the fewer records are gathered in each; the more maps
        // below each, the fewer are drained in each of these. So they are kept about as many as
        // there are maps below each.
        let many = view.pointers() >= tree::pointer_cap(self.store.page_size()) * 3 / 4;
        let fan = (view.pointers() * 5 / 4).max(8);
        let full = room(&index) + index.waiting() < LEAST;
        if index.count() > 1
            && (full || index.count() >= fan && !many)
            && view.room() >= tree::SLACK_LEAST
        {
            return self.divide(i, root);
        }
        if room(&index) < DRAIN_WORTH.min(records + 2) && index.waiting() > 0 {
            return self.drain(i, root, None);
        }
        if room(&index) < 2 || view.room() + extent::SIZE * records < 2 * extent::SIZE {
            return Err(Fault::TooBig);
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut index: MapPage<&mut [u8], 8> = MapPage(page);
        index.uncover();
        // A truncation may have made it the last.
        let last = end == INDEX_END;
        index.set_range(index.first_key(), if last { u32::MAX } else { end });
        let moved = self.gather_records(i, first, end, MayProgram);
        let owner = self.files[i].file().file_ref(self.store.volume);
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut index: MapPage<&mut [u8], 8> = MapPage(page);
        index.set_owner(owner);
        let len = index.len();
        let new = self.append_scratch(EXTENT.area, len, EXTENT.index, old);
        let new = self.whole_or_stop(new)?;
        debug_assert!(moved > 0);
        self.files[i].waits = true;
        self.files[i].file_mut().pointer_set(root, first, new);
        self.files[i].dirty = true;
        self.note_replaced(i, old, new, MayProgram);
        Ok(())
    }

    /// Moves records of a range from the log to the index page in the scratch
    /// page, while there is room.
    #[inline(never)]
    fn gather_records(&mut self, i: FileSlot, first: u32, end: u32, _: MayProgram) -> usize {
        let (mut moved, r) = (0, self.files[i].file().record_search(first, 0));
        while r < self.files[i].file().records() {
            let rec = Extent::decode(self.files[i].file().record(r));
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let mut index: MapPage<&mut [u8], 8> = MapPage(page);
            let there = room(&MapPage(&*index.0));
            if !rec.is_mapping() || rec.index >= end || there < 2 {
                break;
            }
            // Up to the next border of maps, and to where what waits begins or ends.
            let p = index.pointer_for(rec.index);
            let mut to = rec.end().min(end);
            if p + 1 < index.count() {
                to = to.min(index.pointer(p + 1).0.max(rec.index + 1));
            }
            let below = index.extents_in(rec.index, to).next();
            let below = match below {
                Some(e) if e.index > rec.index => {
                    to = e.index;
                    None
                }
                Some(e) => {
                    to = e.end();
                    Some(e)
                }
                None => None,
            };
            let Some(part) = rec.clip(rec.index, to) else {
                break;
            };
            if let Some(below) = below {
                while let Some(e) = index.extent_cut(part.index, to) {
                    if !part.masks {
                        self.store.invalidate_run(e.page, e.count, MayProgram);
                    }
                }
                let part = Extent {
                    masks: below.masks,
                    covers: part.masks,
                    ..part
                };
                add(&mut index, part);
            } else {
                add(&mut index, part);
            }
            let mut view = self.files[i].file_mut();
            match rec.clip(to, INDEX_END) {
                Some(rest) => view.record_set(r, &rest.encode()),
                None => view.record_remove(r),
            }
            moved += 1;
        }
        moved
    }

    /// Divides an index page into two. One read, two programs.
    fn divide(&mut self, i: FileSlot, root: usize) -> Result<(), Fault> {
        let (old, _) = self.load_index(i, root)?;
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let (first, _) = self.files[i].file().pointer(root);
        let upper = tree::split_index(&mut self.store, EXTENT, page, first)?;
        let len = MapPage::<&[u8], 8>::on(page).len();
        let lower = self.append_scratch(EXTENT.area, len, EXTENT.index, old);
        if lower.is_err() {
            self.store.invalidate(upper.page, MayProgram);
        }
        let lower = lower?;
        let mut view = self.files[i].file_mut();
        view.pointer_set(root, first, lower);
        view.pointer_insert(root + 1, upper.key, upper.page);
        self.files[i].dirty = true;
        self.free_run(i, old.0, 1, MayProgram);
        Ok(())
    }

    /// Moves what waits in an index page to the extent maps: to the one that `key` belongs to, or
    /// else to a few that the most waits for. For each map one read and one for each 16 extents,
    /// one program, one more when it is split; two reads and one program for the index page.
    pub(crate) fn drain(
        &mut self,
        i: FileSlot,
        root: usize,
        key: Option<u32>,
    ) -> Result<(), Fault> {
        self.write_notes(i)?;
        self.drain_noted(i, root, key)
    }

    /// The same when what the inode notes is on flash.
    #[inline(never)]
    fn drain_noted(&mut self, i: FileSlot, root: usize, key: Option<u32>) -> Result<(), Fault> {
        let (page, end) = self.load_index(i, root)?;
        let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
        let (first, _) = self.files[i].file().pointer(root);
        let all = MapTarget {
            root,
            page,
            first,
            end,
        };
        let waiting = |p| {
            let (from, to) = tree::range_below(&index, p, (first, end));
            Waiting::of(&index, page, from, to)
        };
        let (mut picked, mut n) = ([0; BATCH], 1);
        match key {
            Some(key) => picked[0] = index.pointer_for(key),
            None => n = tree::pick_most(index.count(), &|p| waiting(p).count, &mut picked),
        }
        let mut targets = [None; BATCH];
        for (target, &p) in targets.iter_mut().zip(&picked[..n]) {
            let map = all.below(&index, p);
            *target = Some((map, waiting(p))).filter(|(_, waiting)| waiting.count > 0);
        }
        let mut changes = Changes::new();
        let (mut done, mut damage) = (None, None);
        for (map, waiting) in targets.iter().flatten() {
            if done.is_some() {
                let room = self.files[i].file().room();
                if !changes.has_room() || room < extent::SIZE * (BATCH + 8) {
                    break;
                }
            }
            match self.drain_to_map(i, map, waiting, &mut changes) {
                // What waits for one that cannot be read stays.
                Err(e) if e.is_damage() && !self.store.nand.is_stopped() => damage = Some(e),
                drained => {
                    drained?;
                    done = Some(map);
                }
            }
        }
        match (done, damage) {
            (Some(map), _) => self.apply_maps(i, map, &changes),
            (None, Some(damage)) => Err(damage),
            (None, None) => Ok(()),
        }
    }

    /// Moves what waits for one extent map there, and writes it. What leads to it is not changed.
    #[inline(never)]
    fn drain_to_map(
        &mut self,
        i: FileSlot,
        target: &MapTarget,
        waiting: &Waiting,
        changes: &mut Changes,
    ) -> Result<(), Fault> {
        let owner = self.files[i].file().file_ref(self.store.volume);
        self.load_target(EXTENT, target, owner.ino)?;
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: ExtentPage<&mut [u8]> = MapPage(page);
        page.set_owner(owner);
        page.set_range(target.first, target.end);
        page.uncover();
        let from = changes.len();
        let moved = self.merge_waiting(waiting, changes);
        let end = self.whole_or_stop(moved)?;
        self.write_extent_map(i, target, from, changes)?;
        changes.note_drained(target.first, end);
        Ok(())
    }

    /// Merges what waits into the map in the scratch page. Returns where it has come to: a map that
    /// was split does not cover it all.
    fn merge_waiting(&mut self, waiting: &Waiting, changes: &mut Changes) -> Result<u32, Fault> {
        let (mut from, mut chunk) = (0, Chunk::EMPTY);
        while from < waiting.count {
            let n = waiting.read(&mut self.store, from, &mut chunk)?;
            for e in chunk.extents() {
                let end = self.merge_extent(e, changes)?.unwrap_or(e.index);
                if end != e.end() {
                    return Ok(end);
                }
            }
            from += n;
        }
        Ok(ExtentPage::<&[u8]>::on(&*self.scratch).end_key())
    }

    /// Whether anything waits for the map that covers an index, from there on; and its index page
    /// is in the scratch page then. One read.
    fn waits_for_map(&mut self, i: FileSlot, index: u32) -> Result<Option<usize>, Fault> {
        let view = self.files[i].file();
        if view.levels() != 2 {
            return Ok(None);
        }
        let root = view.pointer_for(index);
        let (_, end) = self.load_index(i, root)?;
        let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
        let (_, end) = tree::index_range(&page, index, end);
        let waits = page.extents_in(index, end).next().is_some();
        Ok(waits.then_some(root))
    }

    /// Moves what waits for the map that covers an index there, if that goes on behind the index.
    pub(crate) fn drain_at(&mut self, i: FileSlot, index: u32) -> Result<(), Fault> {
        // A map that is split leaves the rest to the next time.
        while let Some(root) = self.waits_for_map(i, index)? {
            self.drain(i, root, Some(index))?;
        }
        Ok(())
    }

    /// Hands the runs to `each` that the extent map in the scratch page makes count as
    /// valid: all but those that what waits for it, or else the log, masks. A read for
    /// each 16 extents that wait.
    pub(crate) fn for_each_valid_run(
        &mut self,
        i: FileSlot,
        waiting: Option<&Waiting>,
        each: &mut dyn FnMut(&mut Store<'_, N>, Extent),
    ) -> Result<(), Fault> {
        let (mut at, mut from) = (0, 0);
        let mut chunk = Chunk::EMPTY;
        while let Some(waiting) = waiting.filter(|w| from < w.count) {
            let n = waiting.read(&mut self.store, from, &mut chunk)?;
            from += n;
            for above in chunk.extents() {
                self.for_each_valid_run_below_log(i, at, above.index, each);
                let page: ExtentPage<&[u8]> = MapPage(&*self.scratch);
                for e in page.extents_in(above.index, above.end()) {
                    if !above.masks {
                        each(&mut self.store, e);
                    }
                }
                at = above.end();
            }
        }
        self.for_each_valid_run_below_log(i, at, INDEX_END, each);
        Ok(())
    }

    fn for_each_valid_run_below_log(
        &mut self,
        i: FileSlot,
        from: u32,
        to: u32,
        each: &mut dyn FnMut(&mut Store<'_, N>, Extent),
    ) {
        let page: ExtentPage<&[u8]> = MapPage(&*self.scratch);
        let view = self.files[i].file();
        for e in page.extents_in(from, to) {
            for part in unmasked(&view, e) {
                each(&mut self.store, part);
            }
        }
    }

    /// The same for what waits in the index page in the scratch page.
    pub(crate) fn for_each_valid_run_waiting(
        &mut self,
        i: FileSlot,
        each: &mut dyn FnMut(&mut Store<'_, N>, Extent),
    ) {
        let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
        let view = self.files[i].file();
        for e in page.extents_in(0, INDEX_END) {
            for part in unmasked(&view, e) {
                each(&mut self.store, part);
            }
        }
    }

    /// Drops what waits for indexes from `end` on, and the pointers that begin there, from the
    /// index page in the scratch page; whether there was anything.
    pub(crate) fn cut_index(&mut self, i: FileSlot, end: u32, _: MayProgram) -> bool {
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: MapPage<&mut [u8], 8> = MapPage(page);
        let (store, view) = (&mut self.store, self.files[i].file());
        let before = page.len();
        while let Some(e) = page.extent_cut(end, INDEX_END) {
            for part in unmasked(&view, e) {
                store.invalidate_run(part.page, part.count, MayProgram);
            }
        }
        while page.count() > 1 && page.pointer(page.count() - 1).0 >= end {
            page.remove(page.count() - 1);
        }
        page.len() < before
    }
}

/// Puts an extent among those that wait.
fn add(index: &mut MapPage<&mut [u8], 8>, e: Extent) {
    let (key, n) = (index.search(e.index, 0), index.count());
    // The first pointers that may be where this, or what comes next, begins.
    let borders = [key, key + 1].map(|p| (p < n).then(|| index.pointer(p).0));
    index.extent_add(e, &|at| borders.contains(&Some(at)));
}

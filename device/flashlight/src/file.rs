//! Where a file's pages are: the extent log in the FileInode, and extent maps (paper, 4.2.3).
//!
//! The log is kept sorted and free of overlaps; what it says overrides the extent maps. A page
//! that only an extent map still names, overridden by the log, counts as valid until the record
//! moves there: an overwrite then needs no read of the map.

use crate::FlashLight;
use crate::error::{Error, sound};
use crate::extent::{self, Extent, FREED_MAP, FREED_RUN, INDEX_END, REPLACED_MAP};
use crate::header::Kind;
use crate::mappage::{ExtentPage, MapPage};
use crate::store::Area;
use crate::tree::{self, BATCH, Changes, EXTENT, MapTarget, Put};
use flashkit_nand::{Nand, PageAddr};

/// Records that a part of a truncation takes at most, beside those of whole maps that go.
const CUT_OTHERS: usize = 8;

/// Records that a part of a truncation takes at most. Beside the longest names, an inode of the
/// smallest page has room for few.
pub(crate) fn cut_notes(page_size: usize) -> usize {
    CUT_OTHERS + if page_size < 2048 { 4 } else { 16 }
}

/// What is at a page of a file, and for how many pages the same run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// The page on the chip; none in a hole.
    pub page: PageAddr,
    pub run: u32,
    /// Whether an extent map says so, not the log.
    pub in_map: bool,
}

impl<N: Nand> FlashLight<'_, N> {
    /// The pointer to the extent map that covers an index, if the file has any, and where its range
    /// ends: also when the index page that leads there cannot be read. At most one read.
    #[allow(clippy::type_complexity)]
    pub(crate) fn extent_map_for(
        &mut self,
        i: usize,
        index: u32,
    ) -> (Result<(u32, PageAddr), Error<N::Error>>, u32) {
        let view = self.files[i].file();
        let (levels, ino) = (view.levels(), view.ino());
        if levels == 0 {
            return (Ok((0, PageAddr::NONE)), INDEX_END);
        }
        let ((key, at), end) = tree::root_range(&view, index, INDEX_END);
        if levels == 1 {
            return (Ok((key, at)), end);
        }
        if let Err(e) = self.load_map_page(EXTENT.index, (key, at), ino, EXTENT.what_index) {
            return (Err(e), end);
        }
        let (pointer, end) = tree::index_range(&MapPage(&*self.scratch), index, end);
        (Ok(pointer), end)
    }

    /// Loads the extent map that covers an index into the scratch page; `false` if there is none.
    /// One read, two beyond the index level.
    pub(crate) fn load_extent_map(
        &mut self,
        i: usize,
        index: u32,
    ) -> Result<bool, Error<N::Error>> {
        let pointer = self.extent_map_for(i, index).0?;
        self.load_extent_map_at(i, pointer)
    }

    pub(crate) fn load_extent_map_at(
        &mut self,
        i: usize,
        pointer: (u32, PageAddr),
    ) -> Result<bool, Error<N::Error>> {
        if pointer.1.is_none() {
            return Ok(false);
        }
        self.load_map_page(EXTENT.map, pointer, self.files[i].ino, EXTENT.what)?;
        Ok(true)
    }

    /// Looks a page of a cached file up.
    pub(crate) fn map_lookup(&mut self, i: usize, index: u32) -> Result<Mapped, Error<N::Error>> {
        let view = self.files[i].file();
        let after = view.record_search(index + 1, 0);
        if after > 0 {
            let e = Extent::decode(view.record(after - 1));
            if e.is_mapping() && e.end() > index {
                let page = PageAddr(e.page.wrapping_add(index - e.index));
                return Ok(Mapped {
                    page,
                    run: e.end() - index,
                    in_map: false,
                });
            }
        }
        let mut next = INDEX_END;
        if after < view.records() {
            next = Extent::decode(view.record(after)).index.min(INDEX_END);
        }
        if !self.load_extent_map(i, index)? {
            return Ok(Mapped {
                page: PageAddr::NONE,
                run: next - index,
                in_map: false,
            });
        }
        let page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
        let after = page.search(index + 1, 0);
        if after > 0 {
            let e = Extent::decode(page.record(after - 1));
            if e.end() > index {
                let page = PageAddr(e.page.wrapping_add(index - e.index));
                return Ok(Mapped {
                    page,
                    run: e.end().min(next) - index,
                    in_map: true,
                });
            }
        }
        let end = if after < page.count() {
            Extent::decode(page.record(after)).index
        } else {
            page.end_key().max(index + 1)
        };
        Ok(Mapped {
            page: PageAddr::NONE,
            run: end.min(next) - index,
            in_map: false,
        })
    }

    /// Notes in the log that something is free with this inode's next page on flash.
    fn note_freed(&mut self, i: usize, note: Extent) {
        let mut view = self.files[i].file_mut();
        let n = view.records();
        if note.index == FREED_RUN && n > 0 {
            let last = Extent::decode(view.record(n - 1));
            if last.index == FREED_RUN && last.page.wrapping_add(last.count) == note.page {
                let joined = Extent {
                    count: last.count + note.count,
                    ..last
                };
                view.record_set(n - 1, &joined.encode());
                return;
            }
        }
        let at = if note.index == FREED_RUN {
            n
        } else {
            view.record_search(note.index, 0)
        };
        view.record_insert(at, &note.encode());
    }

    pub(crate) fn free_run(&mut self, i: usize, page: u32, count: u32) {
        self.store.invalidate_run(page, count);
        self.note_freed(
            i,
            Extent {
                index: FREED_RUN,
                page,
                count,
            },
        );
    }

    /// Removes a range of indexes from the log, and frees what it mapped.
    pub(crate) fn log_cut(&mut self, i: usize, from: u32, to: u32) {
        let mut r = self.files[i].file().record_search(from, 0);
        if r > 0 && Extent::decode(self.files[i].file().record(r - 1)).end() > from {
            r -= 1;
        }
        while r < self.files[i].file().records() {
            let rec = Extent::decode(self.files[i].file().record(r));
            if !rec.is_mapping() || rec.index >= to {
                break;
            }
            let Some(cut) = rec.clip(from, to) else {
                r += 1;
                continue;
            };
            let (left, right) = (rec.clip(0, from), rec.clip(to, INDEX_END));
            let mut view = self.files[i].file_mut();
            match (left, right) {
                (Some(l), Some(rest)) => {
                    view.record_set(r, &l.encode());
                    view.record_insert(r + 1, &rest.encode());
                    r += 1;
                }
                (Some(l), None) => {
                    view.record_set(r, &l.encode());
                    r += 1;
                }
                (None, Some(rest)) => view.record_set(r, &rest.encode()),
                (None, None) => view.record_remove(r),
            }
            self.free_run(i, cut.page, cut.count);
        }
    }

    /// Maps a run; what it overrides in the log is free.
    pub(crate) fn map_insert(&mut self, i: usize, e: Extent) -> Result<(), Error<N::Error>> {
        self.file_room(i, 4 * extent::SIZE)?;
        self.files[i].dirty = true;
        let view = self.files[i].file();
        let at = view.record_search(e.index, 0);
        let next = (at < view.records()).then(|| Extent::decode(view.record(at)));
        let prev = at.checked_sub(1).map(|p| Extent::decode(view.record(p)));
        if prev.is_some_and(|p| p.end() > e.index) || next.is_some_and(|n| n.index < e.end()) {
            self.log_cut(i, e.index, e.end());
        }
        let mut view = self.files[i].file_mut();
        let at = view.record_search(e.index, 0);
        if at > 0 {
            let prev = Extent::decode(view.record(at - 1));
            if prev.joins(&e) {
                let joined = Extent {
                    count: prev.count + e.count,
                    ..prev
                };
                view.record_set(at - 1, &joined.encode());
                return Ok(());
            }
        }
        view.record_insert(at, &e.encode());
        Ok(())
    }

    /// Makes room in a file's page: by writing it when it is full of notes of freed pages, by
    /// writing a large fragment to a page of its own, or by moving extents to an extent map.
    pub(crate) fn file_room(&mut self, i: usize, bytes: usize) -> Result<(), Error<N::Error>> {
        // A fragment over a page that cannot be found stays.
        let mut fragment_stays = false;
        // A migration of two records wins no more than its notes of freed pages take.
        for _ in 0..256 {
            let view = self.files[i].file();
            if view.room() >= bytes + tree::SLACK {
                return Ok(());
            }
            let mapping = view.record_search(INDEX_END, 0);
            let freed = view.records() - mapping;
            if freed > mapping / 4 {
                self.files[i].dirty = true;
                self.flush_file(i)?;
            } else if !fragment_stays
                && view
                    .fragment()
                    .is_some_and(|f| f.len > extent::SIZE * mapping)
            {
                fragment_stays = sound(self.write_out_fragment(i))?.is_none();
            } else {
                self.file_migrate_some(i)?;
            }
        }
        Err(Error::TooBig)
    }

    /// Moves the records of one range of indexes to its extent map: the range with the most of
    /// them, or, when that map cannot be read, the first that can.
    fn file_migrate_some(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        let mut damage = match self.file_migrate(i, &[]) {
            Err(e) if e.is_damage() && !self.store.nand.failed => e,
            r => return r,
        };
        let mut from = 0;
        loop {
            let view = self.files[i].file();
            let r = view.record_search(from, 0);
            if r >= view.record_search(INDEX_END, 0) {
                return Err(damage);
            }
            let index = Extent::decode(view.record(r)).index;
            match self.file_migrate(i, &[index]) {
                Err(e) if e.is_damage() && !self.store.nand.failed => damage = e,
                r => return r,
            }
            from = self.extent_map_for(i, index).1.max(index + 1);
        }
    }

    /// Frees the pages that only extent maps still name, of the files in the cache: their logs move
    /// there. A read and a program for each map.
    pub(crate) fn free_overridden(&mut self) -> Result<(), Error<N::Error>> {
        for i in 0..self.files.len() {
            loop {
                let slot = &self.files[i];
                if slot.ino == 0
                    || slot.file().levels() == 0
                    || slot.file().record_search(INDEX_END, 0) == 0
                    || sound(self.file_migrate(i, &[]))?.is_none()
                {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Moves the records of some ranges of indexes from the log to their extent maps: the ranges that `keys`
    /// are in, but those under one index page only, the first at least; without keys those with the most of
    /// them. For each map one read, one program, one program more when it is split; at the index level
    /// two reads and one program more for all of them.
    pub(crate) fn file_migrate(&mut self, i: usize, keys: &[u32]) -> Result<(), Error<N::Error>> {
        let view = self.files[i].file();
        if view.room() < tree::SLACK && view.record_search(INDEX_END, 0) < view.records() {
            // Notes of freed pages leave no room for those of this migration.
            self.files[i].dirty = true;
            self.flush_file(i)?;
        }
        self.store.scratch_at = PageAddr::NONE;
        let view = self.files[i].file();
        let (store, scratch) = (&mut self.store, &mut *self.scratch);
        let mut targets = [MapTarget::FIRST; BATCH];
        let n = tree::targets(store, EXTENT, scratch, &view, keys, INDEX_END, &mut targets)?;
        let mut changes = Changes::new();
        self.migrate_to(i, &targets[0], &mut changes)?;
        for target in &targets[1..n] {
            let room = self.files[i].file().room();
            if !changes.has_room() || room < extent::SIZE * (BATCH + 8) {
                break;
            }
            if sound(self.migrate_to(i, target, &mut changes))?.is_none() {
                // That is told when its turn comes.
                break;
            }
        }
        self.apply_maps(i, &targets[0], &changes)
    }

    /// Moves the records of the log to one extent map, and writes it. What leads to it is not changed.
    fn migrate_to(
        &mut self,
        i: usize,
        target: &MapTarget,
        changes: &mut Changes,
    ) -> Result<(), Error<N::Error>> {
        let owner = self.files[i].file().owner(self.store.volume);
        self.store.scratch_at = PageAddr::NONE;
        if target.page.is_none() {
            ExtentPage::<&mut [u8]>::on(self.scratch).init(owner, target.first, target.end);
        } else {
            self.load_target(EXTENT, target, owner.ino)?;
        }
        self.store.scratch_at = PageAddr::NONE;
        let mut page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
        page.set_owner(owner);
        page.set_range(target.first, target.end);
        let from = changes.len();
        let moved = self.merge_records(i, changes);
        self.missing_unless(moved)?;
        self.write_extent_map(i, target, from, changes)
    }

    /// After a step that has taken extents from the log: with an error, what is in RAM misses them.
    fn missing_unless<T>(
        &mut self,
        result: Result<T, Error<N::Error>>,
    ) -> Result<T, Error<N::Error>> {
        self.store.nand.failed |= result.is_err();
        result
    }

    /// Writes the extent map in the scratch page in place of the target's, with the pointers to it and
    /// to the maps split from it, and notes what is free by that.
    pub(crate) fn put_extent_map(
        &mut self,
        i: usize,
        target: &MapTarget,
        mut changes: Changes,
    ) -> Result<(), Error<N::Error>> {
        self.write_extent_map(i, target, 0, &mut changes)?;
        self.apply_maps(i, target, &changes)
    }

    /// Writes the extent map in the scratch page in place of the target's, and notes what is free when it
    /// and what has split from it, the changes from `from` on, are there.
    fn write_extent_map(
        &mut self,
        i: usize,
        target: &MapTarget,
        from: usize,
        changes: &mut Changes,
    ) -> Result<(), Error<N::Error>> {
        let view = self.files[i].file();
        // A note of each map, of the one replaced, and of its index page.
        let notes = extent::SIZE * (changes.len() - from + 3);
        if view.room() < notes + tree::pointers_need(view.levels(), target, changes) {
            return self.missing_unless(Err(Error::TooBig));
        }
        let page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
        let (len, key) = (page.len(), page.first_key());
        let written = self.store.append(
            Area::Extent,
            &mut self.scratch[..len],
            Kind::ExtentMap,
            target.page,
        );
        let page = self.missing_unless(written)?;
        changes.push(Put { key, page });
        self.files[i].dirty = true;
        if target.page.is_some() {
            for put in changes.iter().skip(from) {
                let note = Extent {
                    index: REPLACED_MAP,
                    page: target.page.0,
                    count: put.page.0,
                };
                self.note_freed(i, note);
            }
            self.free_run(i, target.page.0, 1);
        }
        Ok(())
    }

    /// Makes the maps just written what the file has.
    fn apply_maps(
        &mut self,
        i: usize,
        target: &MapTarget,
        changes: &Changes,
    ) -> Result<(), Error<N::Error>> {
        let owner = self.files[i].file().owner(self.store.volume);
        let mut inode = self.files[i].file_mut();
        let (store, scratch) = (&mut self.store, &mut *self.scratch);
        let index = tree::apply(store, EXTENT, scratch, &mut inode, owner, target, changes);
        if let Some(index) = self.missing_unless(index)? {
            self.free_run(i, index.0, 1);
        }
        Ok(())
    }

    /// Moves records of the log that fall into the range of the map in the scratch page there.
    fn merge_records(&mut self, i: usize, changes: &mut Changes) -> Result<(), Error<N::Error>> {
        let first = ExtentPage::<&mut [u8]>::on(self.scratch).first_key();
        let r = self.files[i].file().record_search(first, 0);
        while r < self.files[i].file().records() {
            let rec = Extent::decode(self.files[i].file().record(r));
            let page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
            if !rec.is_mapping() || rec.index >= page.end_key() || changes.is_full() {
                break;
            }
            let n = page.count();
            if n + 2 > page.capacity() {
                let last = Extent::decode(page.record(n - 1));
                let mid = if rec.index >= last.end() { n } else { n / 2 };
                let (store, page) = (&mut self.store, &mut *self.scratch);
                let put = tree::split::<{ extent::SIZE }, N>(store, EXTENT, page, rec.index, mid)?;
                changes.push(put);
            }
            let mut page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
            let end = page.end_key();
            let Some(part) = rec.clip(page.first_key(), end) else {
                break;
            };
            let store = &mut self.store;
            cut_extents(&mut page, part.index, part.end(), |page, n| {
                store.invalidate_run(page, n);
            });
            insert_extent(&mut page, part);
            let mut view = self.files[i].file_mut();
            match rec.clip(end, INDEX_END) {
                Some(rest) => view.record_set(r, &rest.encode()),
                None => view.record_remove(r),
            }
        }
        Ok(())
    }

    /// Frees everything a cached file has on flash, its own page included. The file is not to be
    /// used again; that it is gone is made durable by its directory's page.
    pub(crate) fn free_file(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        for r in 0..self.files[i].file().record_search(INDEX_END, 0) {
            let e = Extent::decode(self.files[i].file().record(r));
            self.store.invalidate_run(e.page, e.count);
        }
        let mut n = 0;
        while let Some(page) = self.files[i].file().names_page(n) {
            self.store.invalidate(page);
            n += 1;
        }
        self.store.invalidate(self.files[i].file().xattr());
        for p in 0..self.files[i].file().pointers() {
            let (_, at) = self.files[i].file().pointer(p);
            let view = self.files[i].file();
            self.free_map(at, view.levels(), view.ino())?;
        }
        self.store.invalidate(self.files[i].loc);
        self.files[i].clear();
        Ok(())
    }

    /// Frees an extent map (`levels` 1), or an index page with its maps (2), of the file `ino`. What
    /// one that cannot be read, or is another's, leads to goes on counting as valid.
    pub(crate) fn free_map(
        &mut self,
        at: PageAddr,
        levels: u8,
        ino: u32,
    ) -> Result<(), Error<N::Error>> {
        if levels == 2 {
            let mut p = 0;
            while sound(self.load_scratch(at, Kind::ExtentIndex, "extent index"))?.is_some() {
                let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
                if p >= page.count() || page.owner().ino != ino {
                    break;
                }
                let map = page.pointer(p).1;
                self.free_map(map, 1, ino)?;
                p += 1;
            }
        } else if sound(self.load_scratch(at, Kind::ExtentMap, "extent map"))?.is_some() {
            let page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
            let own = page.owner().ino == ino;
            for r in 0..if own { page.count() } else { 0 } {
                let e = Extent::decode(page.record(r));
                self.store.invalidate_run(e.page, e.count);
            }
        }
        self.store.invalidate(at);
        Ok(())
    }

    /// Makes sure that [`FlashLight::map_truncate`] will not fail for damage, also when a page is
    /// written before it: there is room, and the maps that are cut through can be read. Maps
    /// beyond `end` are dropped unread, if need be.
    pub(crate) fn prepare_truncate(&mut self, i: usize, end: u32) -> Result<(), Error<N::Error>> {
        if self.files[i].file().levels() == 0 {
            return Ok(());
        }
        let room = (cut_notes(self.store.page_size()) + 4) * extent::SIZE;
        if self.files[i].file().room() < room {
            self.file_room(i, room)?;
        }
        let view = self.files[i].file();
        let p = view.pointer_for(end);
        if view.pointer(p).0 >= end && (p > 0 || end == 0) {
            return Ok(());
        }
        self.load_extent_map(i, end).map(|_| ())
    }

    /// Makes room for the notes of a part of a truncation, which has begun: notes before them are
    /// written when nothing else can go.
    pub(crate) fn truncate_room(&mut self, i: usize, notes: usize) -> Result<(), Error<N::Error>> {
        match self.file_room(i, notes * extent::SIZE) {
            Err(e) if e.is_damage() && !self.store.nand.failed => {}
            r => return r,
        }
        self.files[i].dirty = true;
        self.flush_file(i)
    }

    /// Unmaps all pages from `end` on.
    pub(crate) fn map_truncate(&mut self, i: usize, end: u32) -> Result<(), Error<N::Error>> {
        let result = self.cut_maps(i, end);
        // Damage was looked for before. What is in RAM now may map pages that are free.
        self.store.nand.failed |= result.as_ref().is_err_and(Error::is_damage);
        result
    }

    fn cut_maps(&mut self, i: usize, end: u32) -> Result<(), Error<N::Error>> {
        self.truncate_room(i, 4)?;
        self.files[i].change();
        self.log_cut(i, end, INDEX_END);
        let notes = cut_notes(self.store.page_size());
        loop {
            self.truncate_room(i, notes)?;
            let view = self.files[i].file();
            let Some(last) = view.pointers().checked_sub(1) else {
                return Ok(());
            };
            let (key, at) = view.pointer(last);
            let levels = view.levels();
            if key >= end && (last > 0 || end == 0) {
                self.free_map(at, levels, self.files[i].ino)?;
                self.note_freed(
                    i,
                    Extent {
                        index: FREED_MAP,
                        page: at.0,
                        count: 0,
                    },
                );
                let mut view = self.files[i].file_mut();
                view.pointer_remove(last);
                if last == 0 {
                    view.set_levels(0);
                }
                continue;
            }
            if levels == 2 && self.truncate_index(i, last, end, notes - CUT_OTHERS)? {
                continue;
            }
            return self.truncate_map(i, end);
        }
    }

    /// Drops up to `batch` maps from `end` on from the last index page; `false` when there are none.
    fn truncate_index(
        &mut self,
        i: usize,
        last: usize,
        end: u32,
        batch: usize,
    ) -> Result<bool, Error<N::Error>> {
        let (key, at) = self.files[i].file().pointer(last);
        let ino = self.files[i].ino;
        let mut dropped = 0;
        loop {
            self.load_scratch(at, Kind::ExtentIndex, "extent index")?;
            let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
            if !page.belongs_to(ino, key) {
                return Err(Error::Corrupt(at, "extent index"));
            }
            if page.count() < dropped + 2 || dropped == batch {
                break;
            }
            let (first, map) = page.pointer(page.count() - 1 - dropped);
            if first < end {
                break;
            }
            self.free_map(map, 1, ino)?;
            self.note_freed(
                i,
                Extent {
                    index: FREED_MAP,
                    page: map.0,
                    count: 0,
                },
            );
            dropped += 1;
        }
        if dropped == 0 {
            return Ok(false);
        }
        self.load_scratch(at, Kind::ExtentIndex, "extent index")?;
        self.store.scratch_at = PageAddr::NONE;
        let mut page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
        page.truncate(page.count() - dropped);
        let len = page.len();
        let new = self.store.append(
            Area::Extent,
            &mut self.scratch[..len],
            Kind::ExtentIndex,
            at,
        )?;
        self.free_run(i, at.0, 1);
        self.files[i].file_mut().pointer_set(last, key, new);
        Ok(true)
    }

    /// Unmaps the pages from `end` on in the one map that `end` falls into.
    fn truncate_map(&mut self, i: usize, end: u32) -> Result<(), Error<N::Error>> {
        if !self.load_extent_map(i, end)? {
            return Ok(());
        }
        let old = self.store.scratch_at;
        self.store.scratch_at = PageAddr::NONE;
        let mut page: ExtentPage<&mut [u8]> = MapPage(self.scratch);
        let n = page.count();
        if n == 0 || Extent::decode(page.record(n - 1)).end() <= end {
            return Ok(());
        }
        let store = &mut self.store;
        cut_extents(&mut page, end, INDEX_END, |page, n| {
            store.invalidate_run(page, n);
        });
        let view = self.files[i].file();
        page.set_owner(view.owner(self.store.volume));
        let target = MapTarget {
            root: view.pointer_for(end),
            page: old,
            first: page.first_key(),
            end: INDEX_END,
        };
        self.put_extent_map(i, &target, Changes::new())
    }
}

/// Removes a range of indexes from an extent map and hands the runs it mapped to `free`. Needs
/// room for one record.
pub(crate) fn cut_extents(
    page: &mut ExtentPage<&mut [u8]>,
    from: u32,
    to: u32,
    mut free: impl FnMut(u32, u32),
) {
    let mut r = page.search(from, 0);
    if r > 0 && Extent::decode(page.record(r - 1)).end() > from {
        r -= 1;
    }
    while r < page.count() {
        let rec = Extent::decode(page.record(r));
        if rec.index >= to {
            break;
        }
        let Some(cut) = rec.clip(from, to) else {
            r += 1;
            continue;
        };
        free(cut.page, cut.count);
        match (rec.clip(0, from), rec.clip(to, INDEX_END)) {
            (Some(l), Some(rest)) => {
                page.set(r, &l.encode());
                page.insert(r + 1, &rest.encode());
                r += 2;
            }
            (Some(l), None) => {
                page.set(r, &l.encode());
                r += 1;
            }
            (None, Some(rest)) => {
                page.set(r, &rest.encode());
                r += 1;
            }
            (None, None) => page.remove(r),
        }
    }
}

/// Inserts a run that overlaps nothing.
fn insert_extent(page: &mut ExtentPage<&mut [u8]>, e: Extent) {
    let at = page.search(e.index, 0);
    let prev = at.checked_sub(1).map(|p| Extent::decode(page.record(p)));
    let next = (at < page.count()).then(|| Extent::decode(page.record(at)));
    match (prev.filter(|p| p.joins(&e)), next.filter(|n| e.joins(n))) {
        (Some(p), Some(n)) => {
            page.set(
                at - 1,
                &Extent {
                    count: p.count + e.count + n.count,
                    ..p
                }
                .encode(),
            );
            page.remove(at);
        }
        (Some(p), None) => page.set(
            at - 1,
            &Extent {
                count: p.count + e.count,
                ..p
            }
            .encode(),
        ),
        (None, Some(n)) => page.set(
            at,
            &Extent {
                count: e.count + n.count,
                ..e
            }
            .encode(),
        ),
        (None, None) => page.insert(at, &e.encode()),
    }
}

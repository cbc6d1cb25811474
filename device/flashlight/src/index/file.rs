//! Where a file's pages are: the extent log in the FileInode, and extent maps (paper, 4.2.3).
//!
//! The log is kept sorted and free of overlaps; what it says overrides the extent maps, and so does
//! what waits in their index pages ([`crate::index::waiting`]). A page
//! that only an extent map still names, overridden by the log, counts as valid until the record
//! moves there: an overwrite then needs no read of the map. Cleaning gives such a page
//! back at once, and the record says that it *masks* what the map goes on saying: that
//! page may be another's soon.

use crate::error::{Bool, Fault, sound};
use crate::format::area::LogArea;
use crate::format::extent::{self, Extent, FREED_RUN, INDEX_END, REPLACED_MAP, REPLACED_PAGE};
use crate::format::header::Kind;
use crate::format::inode::{FileView, POINTER};
use crate::format::mappage::{ExtentPage, MapPage};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::index::tree::{self, Changes, EXTENT, MapLead, MapTarget, Put};
use crate::space::latch::{MayProgram, Stopped};
use flashkit_nand::{Nand, PageAddr};

/// Records that a part of a truncation takes at most.
pub(crate) const CUT_NOTES: usize = 8;
/// Records that the cut of a log takes at most.
pub(crate) const LOG_CUT_NOTES: usize = 4;
/// Bytes of an inode that pointers to index pages leave to the log, so that the file can be cut and
/// removed, and its pages be moved, whatever it maps.
pub(crate) const KEPT: usize = tree::SLACK + 16 * extent::SIZE;
/// The same after a write: cleaning and holes divide extents as well.
pub(crate) const KEPT_BY_WRITES: usize = KEPT + 16 * POINTER;

/// What is at a page of a file, and for how many pages the same run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// The page on the chip; none in a hole.
    pub page: PageAddr,
    pub run: u32,
    /// Whether an extent says so that waits in an index page.
    pub waiting: bool,
}

impl<N: Nand> Index<'_, N> {
    /// The pointer to the extent map that covers an index, if the file has any, and where its range
    /// ends: also when the index page that leads there cannot be read. At most one read.
    #[allow(clippy::type_complexity)]
    pub(crate) fn extent_map_for(
        &mut self,
        i: FileSlot,
        index: u32,
    ) -> (Result<(u32, PageAddr), Fault>, u32) {
        let lead = MapLead::of(&self.files[i].file().any(), index, INDEX_END);
        self.map_for(&EXTENT, &lead)
    }

    /// Loads the extent map that covers an index into the scratch page; `false` if there is none.
    /// One read, two beyond the index level.
    pub(crate) fn load_extent_map(&mut self, i: FileSlot, index: u32) -> Result<Bool, Fault> {
        let pointer = self.extent_map_for(i, index).0?;
        self.load_extent_map_at(i, pointer)
    }

    pub(crate) fn load_extent_map_at(
        &mut self,
        i: FileSlot,
        pointer: (u32, PageAddr),
    ) -> Result<Bool, Fault> {
        self.load_map_at(&EXTENT, self.files[i].ino, pointer)
    }

    /// Looks a page of a cached file up.
    pub(crate) fn map_lookup(&mut self, i: FileSlot, index: u32) -> Result<Mapped, Fault> {
        let view = self.files[i].file();
        let after = view.record_search(index + 1, 0);
        if after > 0 {
            let e = Extent::decode(view.record(after - 1));
            if e.is_mapping() && e.end() > index {
                let page = PageAddr(e.page.wrapping_add(index - e.index));
                return Ok(Mapped {
                    page,
                    run: e.end() - index,
                    waiting: false,
                });
            }
        }
        let mut next = INDEX_END;
        if after < view.records() {
            next = Extent::decode(view.record(after)).index.min(INDEX_END);
        }
        let levels = view.levels();
        let (pointer, range_end) = self.extent_map_for(i, index);
        let pointer = pointer?;
        if levels == 2 {
            let waits: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            if let Some(e) = waits.extents_in(index, next).next() {
                if e.index == index {
                    return Ok(Mapped {
                        page: PageAddr(e.page),
                        run: e.count,
                        waiting: true,
                    });
                }
                next = e.index;
            }
        }
        if !self.load_extent_map_at(i, pointer)?.is_true() {
            return Ok(Mapped {
                page: PageAddr::NONE,
                run: next - index,
                waiting: false,
            });
        }
        let map: ExtentPage<&[u8]> = MapPage(&*self.scratch);
        let found = map.extents_in(index, INDEX_END).next();
        let end = next.min(range_end.max(index + 1));
        Ok(match found {
            Some(e) if e.index == index => Mapped {
                page: PageAddr(e.page),
                run: e.end().min(next) - index,
                waiting: false,
            },
            e => Mapped {
                page: PageAddr::NONE,
                run: e.map_or(end, |e| e.index.min(next)) - index,
                waiting: false,
            },
        })
    }

    /// Notes in the log that something is free with this inode's next page on flash.
    pub(crate) fn note_freed(&mut self, i: FileSlot, note: Extent) {
        self.files[i].dirty = true;
        let mut view = self.files[i].file_mut();
        let n = view.records();
        if note.index == FREED_RUN && n > 0 {
            let last = Extent::decode(view.record(n - 1));
            if last.index == FREED_RUN && last.page.wrapping_add(last.count) == note.page {
                view.record_set(n - 1, &last.longer(note.count).encode());
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

    pub(crate) fn free_run(&mut self, i: FileSlot, page: u32, count: u32, _: MayProgram) {
        self.store.invalidate_run(page, count, MayProgram);
        self.note_freed(i, Extent::new(FREED_RUN, page, count));
    }

    /// Frees a map, or an index page, and what it named and the one that has
    /// taken its place does not.
    pub(crate) fn note_replaced(
        &mut self,
        i: FileSlot,
        old: PageAddr,
        new: PageAddr,
        _: MayProgram,
    ) {
        self.store.invalidate(old, MayProgram);
        self.note_freed(i, Extent::new(REPLACED_PAGE, old.0, new.0));
    }

    /// Removes a range of indexes from the log, and frees what it mapped.
    pub(crate) fn log_cut(&mut self, i: FileSlot, from: u32, to: u32, _: MayProgram) {
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
            self.free_run(i, cut.page, cut.count, MayProgram);
        }
    }

    /// What the log says of one page.
    pub(crate) fn logged(&self, i: FileSlot, index: u32) -> Option<Extent> {
        self.log_place(i, index).1
    }

    /// The same, and behind what it says of that page and those before it.
    fn log_place(&self, i: FileSlot, index: u32) -> (usize, Option<Extent>) {
        let view = self.files[i].file();
        let next = view.record_search(index + 1, 0);
        let before = (next > 0).then(|| Extent::decode(view.record(next - 1)));
        (next, before.and_then(|e| e.clip(index, index + 1)))
    }

    /// Maps one page; what the log had there is free, and what it masked is masked still.
    pub(crate) fn map_insert(&mut self, i: FileSlot, e: Extent) -> Result<(), Fault> {
        self.file_room(i, 4 * extent::SIZE)?;
        self.files[i].dirty = true;
        match self.log_place(i, e.index) {
            (at, None) => self.log_insert_at(i, at, e),
            (_, Some(old)) => {
                self.log_cut(i, e.index, e.end(), MayProgram);
                let masks = e.masks | old.masks;
                self.log_insert(i, Extent { masks, ..e });
            }
        }
        Ok(())
    }

    /// Puts a run into the log, which says nothing of its indexes and has room.
    fn log_insert(&mut self, i: FileSlot, e: Extent) {
        let at = self.files[i].file().record_search(e.index, 0);
        self.log_insert_at(i, at, e);
    }

    /// The same where its place is known.
    fn log_insert_at(&mut self, i: FileSlot, at: usize, e: Extent) {
        let mut view = self.files[i].file_mut();
        if at > 0 {
            let prev = Extent::decode(view.record(at - 1));
            if prev.joins(&e) {
                view.record_set(at - 1, &prev.longer(e.count).encode());
                return;
            }
        }
        view.record_insert(at, &e.encode());
    }

    /// Gives back the page `at` that an extent map names for an index, and the log has elsewhere.
    /// Room for four records must be there.
    pub(crate) fn mask(&mut self, i: FileSlot, index: u32, at: PageAddr, _: MayProgram) {
        let mut view = self.files[i].file_mut();
        let Some(r) = view.record_search(index + 1, 0).checked_sub(1) else {
            return;
        };
        let rec = Extent::decode(view.record(r));
        view.record_remove(r);
        let here = rec
            .clip(index, index + 1)
            .map(|e| Extent { masks: true, ..e });
        let parts = [rec.clip(0, index), here, rec.clip(index + 1, INDEX_END)];
        for part in parts.into_iter().flatten() {
            self.log_insert(i, part);
        }
        self.files[i].dirty = true;
        self.free_run(i, at.0, 1, MayProgram);
    }

    /// Moves the records that mask anything of a range away from the log: before what they mask is
    /// cut or dropped, as then only pages say what is free. Where one cannot be read nothing will
    /// be given back that it names.
    pub(crate) fn move_masks(&mut self, i: FileSlot, from: u32, to: u32) -> Result<(), Fault> {
        let mut from = from;
        while let Some(key) = self.first_masked(i, from, to) {
            if sound(self.file_migrate(i, Some(key)))?.is_none() {
                from = self.extent_map_for(i, key).1.max(from + 1);
            }
        }
        Ok(())
    }

    /// Where the first record of the log begins that masks something of a range.
    fn first_masked(&self, i: FileSlot, from: u32, to: u32) -> Option<u32> {
        let view = self.files[i].file();
        // One that begins before it may reach into it.
        let first = view.record_search(from, 0).saturating_sub(1);
        for r in first..view.record_search(INDEX_END, 0) {
            let e = Extent::decode(view.record(r));
            if e.index >= to {
                break;
            }
            if e.masks && e.end() > from {
                return Some(e.index);
            }
        }
        None
    }

    /// Refuses a change that may add pointers to index pages where these leave less than
    /// so many bytes of the inode.
    ///
    /// # Errors
    /// [`Fault::TooBig`].
    pub(crate) fn need_place(&self, i: FileSlot, bytes: usize) -> Result<(), Fault> {
        let view = self.files[i].file();
        if view.levels() == 2 && view.fragment_at() + bytes > self.store.page_size() {
            return Err(Fault::TooBig);
        }
        Ok(())
    }

    /// Makes room in a file's page: by writing it when it is full of notes of freed pages, by
    /// writing a large fragment to a page of its own, or by moving extents to an extent map.
    pub(crate) fn file_room(&mut self, i: FileSlot, bytes: usize) -> Result<(), Fault> {
        self.room_in_inode(i, bytes, false)
    }

    /// The same; the fragment may be left where it is. One over a page that cannot
    /// be found stays in any case.
    pub(crate) fn room_in_inode(
        &mut self,
        i: FileSlot,
        bytes: usize,
        mut fragment_stays: bool,
    ) -> Result<(), Fault> {
        let mut damage = None;
        // A migration of two records wins no more than its notes of freed pages take.
        for _ in 0..256 {
            let view = self.files[i].file();
            let room = view.room();
            if room >= bytes + tree::SLACK {
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
                match self.write_out_fragment(i) {
                    Err(e) if e.is_damage() && !self.store.nand.is_stopped() => damage = Some(e),
                    r => r?,
                }
                fragment_stays = damage.is_some();
            } else {
                self.file_migrate_some(i)?;
                // Without records it makes room only when index pages take the pointers.
                if mapping == 0 && self.files[i].file().room() <= room {
                    break;
                }
            }
        }
        Err(damage.unwrap_or(Fault::TooBig))
    }

    /// Moves the records of one range of indexes to its extent map: the range with the most of
    /// them, or, when that map cannot be read, the first that can.
    fn file_migrate_some(&mut self, i: FileSlot) -> Result<(), Fault> {
        let mut damage = match self.file_migrate(i, None) {
            Err(e) if e.is_damage() && !self.store.nand.is_stopped() => e,
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
            match self.file_migrate(i, Some(index)) {
                Err(e) if e.is_damage() && !self.store.nand.is_stopped() => damage = e,
                r => return r,
            }
            from = self.extent_map_for(i, index).1.max(index + 1);
        }
    }

    /// Writes the inode if notes of freed pages leave no room for those of a migration.
    pub(crate) fn write_notes(&mut self, i: FileSlot) -> Result<(), Fault> {
        let view = self.files[i].file();
        if view.room() < tree::SLACK && view.record_search(INDEX_END, 0) < view.records() {
            self.files[i].dirty = true;
            self.flush_file(i)?;
        }
        Ok(())
    }

    /// Moves records from the log to an extent map, or at the index level to an index page: those
    /// of the one that covers `key`, or else of the one with the most of them. One read, one
    /// program, one program more when the map is split; at the index level see `waiting.rs`.
    pub(crate) fn file_migrate(&mut self, i: FileSlot, key: Option<u32>) -> Result<(), Fault> {
        self.write_notes(i)?;
        let view = self.files[i].file().any();
        if view.levels() == 2 {
            let root = tree::root_for(&view, EXTENT, key, INDEX_END);
            return self.gather(i, root);
        }
        self.migrate_to_map(i, key)
    }

    /// The same where no index page leads to the map. A call of its own, so that what comes before
    /// has its stack.
    #[inline(never)]
    fn migrate_to_map(&mut self, i: FileSlot, key: Option<u32>) -> Result<(), Fault> {
        let view = self.files[i].file();
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let target = tree::target(
            &mut self.store,
            EXTENT,
            scratch,
            &view.any(),
            key,
            INDEX_END,
        )?;
        let owner = view.file_ref(self.store.volume);
        if target.page.is_none() {
            ExtentPage::<&mut [u8]>::on(scratch).init(owner, target.first, target.end);
        } else {
            self.load_target(EXTENT, &target, owner.ino)?;
        }
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: ExtentPage<&mut [u8]> = MapPage(scratch);
        page.set_owner(owner);
        page.set_range(target.first, target.end);
        page.uncover();
        let mut changes = Changes::new();
        let moved = self.merge_records(i, &mut changes);
        self.whole_or_stop(moved)?;
        self.put_extent_map(i, &target, changes)
    }

    /// After a step that belongs to others before it, in RAM or on flash: with an error, what is in
    /// RAM is half of a change.
    pub(crate) fn whole_or_stop<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        if result.is_err() {
            self.store.nand.stop(Stopped::HalfDone);
        }
        result
    }

    /// What the rest of a change has come to of which a part has been made, in RAM or on flash.
    /// When there was no block for it, as the allocation log has failed several times, nothing more
    /// is written: the next mount goes by what is on flash.
    pub(crate) fn not_in_part<T>(&mut self, rest: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(rest, Err(Fault::NoSpace)) {
            self.store.nand.stop(Stopped::HalfDone);
        }
        rest
    }

    /// Writes the extent map in the scratch page in place of the target's, with the pointers to it
    /// and to the maps split from it, and notes what is free by that.
    pub(crate) fn put_extent_map(
        &mut self,
        i: FileSlot,
        target: &MapTarget,
        mut changes: Changes,
    ) -> Result<(), Fault> {
        self.write_extent_map(i, target, 0, &mut changes)?;
        self.apply_maps(i, target, &changes)
    }

    /// Writes the extent map in the scratch page in place of the target's, and notes what is free
    /// when it and what has split from it, the changes from `from` on, are there.
    pub(crate) fn write_extent_map(
        &mut self,
        i: FileSlot,
        target: &MapTarget,
        from: usize,
        changes: &mut Changes,
    ) -> Result<(), Fault> {
        let view = self.files[i].file();
        // A note of each map, of the one replaced, and of its index page.
        let notes = extent::SIZE * (changes.len() - from + 3);
        if view.room() < notes + tree::pointers_need(view.levels(), target, changes) {
            return self.whole_or_stop(Err(Fault::TooBig));
        }
        let page: ExtentPage<&[u8]> = MapPage(&self.scratch);
        let (len, key) = (page.len(), page.first_key());
        let written = self.append_scratch(LogArea::Extent, len, Kind::ExtentMap, target.page);
        let page = self.whole_or_stop(written)?;
        changes.push(Put { key, page });
        self.files[i].dirty = true;
        if target.page.is_none() {
            return Ok(());
        }
        if changes.len() - from == 1 {
            self.note_replaced(i, target.page, page, MayProgram);
            return Ok(());
        }
        for put in changes.iter().skip(from) {
            self.note_freed(i, Extent::new(REPLACED_MAP, target.page.0, put.page.0));
        }
        self.free_run(i, target.page.0, 1, MayProgram);
        Ok(())
    }

    /// Makes the maps just written what the file has.
    pub(crate) fn apply_maps(
        &mut self,
        i: FileSlot,
        target: &MapTarget,
        changes: &Changes,
    ) -> Result<(), Fault> {
        let owner = self.files[i].file().file_ref(self.store.volume);
        let mut inode = self.files[i].file_mut().any();
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let store = &mut self.store;
        let index = tree::apply(store, EXTENT, scratch, &mut inode, owner, target, changes);
        if let Some(index) = self.whole_or_stop(index)? {
            self.free_run(i, index.0, 1, MayProgram);
        }
        Ok(())
    }

    /// Moves records of the log that fall into the range of the map in the scratch page there.
    fn merge_records(&mut self, i: FileSlot, changes: &mut Changes) -> Result<(), Fault> {
        let first = ExtentPage::<&[u8]>::on(&self.scratch).first_key();
        let r = self.files[i].file().record_search(first, 0);
        while r < self.files[i].file().records() {
            let rec = Extent::decode(self.files[i].file().record(r));
            if !rec.is_mapping() {
                break;
            }
            let Some(end) = self.merge_extent(rec, changes)? else {
                break;
            };
            let mut view = self.files[i].file_mut();
            match rec.clip(end, INDEX_END) {
                Some(rest) => view.record_set(r, &rest.encode()),
                None => view.record_remove(r),
            }
        }
        Ok(())
    }

    /// Merges a run into the extent map in the scratch page, as far as that goes, and splits it if
    /// it is full. Returns where it has come to; none when nothing of it belongs there.
    pub(crate) fn merge_extent(
        &mut self,
        e: Extent,
        changes: &mut Changes,
    ) -> Result<Option<u32>, Fault> {
        let page: ExtentPage<&[u8]> = MapPage(&self.scratch);
        if e.index >= page.end_key() || changes.is_full() {
            return Ok(None);
        }
        let n = page.count();
        if n + 2 > page.capacity() {
            let mid = if e.index >= page.extent(n - 1).end() {
                n
            } else {
                n / 2
            };
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let store = &mut self.store;
            let put = tree::split::<{ extent::SIZE }, N>(store, EXTENT, page, e.index, mid)?;
            changes.push(put);
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: ExtentPage<&mut [u8]> = MapPage(page);
        let Some(part) = e.clip(page.first_key(), page.end_key()) else {
            return Ok(None);
        };
        while let Some(old) = page.extent_cut(part.index, part.end()) {
            if !part.masks {
                self.store.invalidate_run(old.page, old.count, MayProgram);
            }
        }
        let covering = Extent {
            masks: false,
            covers: part.masks,
            ..part
        };
        page.extent_add(covering, &|_| false);
        Ok(Some(part.end()))
    }
}

/// The parts of an extent of a map that a log does not mask.
pub(crate) fn unmasked<'a>(view: &'a FileView<'_>, e: Extent) -> impl Iterator<Item = Extent> + 'a {
    let mut from = e.index;
    let mut r = view.record_search(e.index, 0).saturating_sub(1);
    core::iter::from_fn(move || {
        let end = e.end();
        while from < end {
            let rec = (r < view.records()).then(|| Extent::decode(view.record(r)));
            let Some(rec) = rec.filter(|rec| rec.is_mapping() && rec.index < end) else {
                return e.clip(core::mem::replace(&mut from, end), end);
            };
            r += 1;
            if let Some(mask) = rec.clip(from, end).filter(|_| rec.masks) {
                let part = e.clip(from, mask.index);
                from = mask.end();
                if part.is_some() {
                    return part;
                }
            }
        }
        None
    })
}

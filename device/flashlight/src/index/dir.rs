//! Directories: the entry log in the DirInode, and hash maps (paper, 4.2.2).
//!
//! Up to a page full, all entries are in the log. Then the entries of one range of hashes move to
//! a hash map page, which holds them sorted; a full one is split in the middle of its hashes. The
//! DirInode points to the maps of consecutive ranges, or, beyond [`pointer_cap`], to index pages
//! that do. Names of one hash are in one hash map, next to each other. A directory that may have
//! such names in its maps says so ([`FLAG_SHARED`]): from then on its log tells entries of maps
//! apart by their pointers.

use crate::error::{Bool, Fault};
use crate::format::area::LogArea;
use crate::format::dirrec::{self, DirRec, HASH_SHIFT, NO_HASH, RecState, Target};
use crate::format::header::Kind;
use crate::format::inode::{DirView, FLAG_SHARED, NAME, NAME_MAX, POINTER};
use crate::format::mappage::{MapPage, Owner, RECORDS};
use crate::index::Index;
use crate::index::slots::{DirSlot, FileSlot};
use crate::index::tree::{self, Changes, HASH, MapLead, MapTarget, Put};
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

type HashPage<'a> = MapPage<&'a mut [u8], { dirrec::SIZE }>;

/// What a migration did.
enum Migrated {
    /// Records moved.
    Some,
    /// None did; the hash of the first record behind the range tried.
    None(Option<u32>),
}

/// What a hash map made of a record of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Merged {
    /// It stays in the log.
    No,
    Yes,
    /// There are several entries of its hash now.
    Shared,
}

impl DirView<'_> {
    /// Whether there is place for the pointers that more names may need. A part of the page is left
    /// for the log, so that names can always be removed.
    pub(crate) fn takes_names(&self) -> bool {
        let log = 32 * dirrec::SIZE + tree::SLACK;
        NAME + NAME_MAX + POINTER * self.pointers() + log <= self.0.len()
    }

    /// Whether it takes names, and what [`Index::dir_reserve`] makes sure of.
    pub(crate) fn has_room_for_more(&self) -> bool {
        self.takes_names() && self.room() >= RESERVE + tree::SLACK
    }
}

/// What an operation adds to the log of a directory at most, in bytes.
const RESERVE: usize = 6 * dirrec::SIZE;

/// Names of one hash that a directory takes. Half a hash map: so a full one can be
/// split between two hashes.
pub(crate) fn same_hash_max(page_size: usize) -> usize {
    (page_size - RECORDS) / dirrec::SIZE / 2
}

/// What a removal of an entry means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The object's life ends with the directory's next page on flash.
    Freed(Target, u32),
    /// The object never was on flash.
    Volatile,
    /// A page already on flash says so: that of the object that was renamed.
    Recorded,
}

impl<N: Nand> Index<'_, N> {
    /// Makes sure that a few records can be added to a directory without anything being written.
    pub(crate) fn dir_reserve(&mut self, dir: u32) -> Result<(), Fault> {
        self.dir_room(dir, RESERVE).map(|_| ())
    }

    /// The pointer to the hash map page that covers a hash, if the directory has any, and the hash
    /// where its range ends: also when the page that leads there cannot be read. At most one read.
    #[allow(clippy::type_complexity)]
    fn hash_map_for(&mut self, i: DirSlot, hash: u32) -> (Result<(u32, PageAddr), Fault>, u32) {
        let lead = MapLead::of(&self.dirs[i].dir().any(), hash, NO_HASH);
        self.map_for(&HASH, &lead)
    }

    /// Loads the hash map page of a pointer into the scratch page; `false` when there is none.
    fn load_hash_map_at(&mut self, i: DirSlot, pointer: (u32, PageAddr)) -> Result<Bool, Fault> {
        self.load_map_at(&HASH, self.dirs[i].ino, pointer)
    }

    /// The `n`-th entry of a hash. Reads the directory if it is not cached, and its hash map
    /// when neither the log nor a filter ([`crate::space::filters`]) answers.
    pub(crate) fn dir_nth(
        &mut self,
        dir: u32,
        hash: u32,
        n: usize,
    ) -> Result<Option<DirRec>, Fault> {
        let i = self.load_dir(dir)?;
        let view = self.dirs[i].dir();
        let (mut left, mut hides_all) = (n, false);
        for r in view.record_search(hash, HASH_SHIFT)..view.records() {
            let rec = DirRec::decode(view.record(r));
            if rec.hash != hash {
                break;
            }
            hides_all |= matches!(rec.state, RecState::Update | RecState::Delete);
            if rec.is_entry() {
                if left == 0 {
                    return Ok(Some(rec));
                }
                left -= 1;
            }
        }
        let shared = view.is_shared();
        if hides_all || left > 0 && !shared {
            return Ok(None);
        }
        let pointer = self.hash_map_for(i, hash).0?;
        if self.store.lacks_hash(pointer.1, hash) || !self.load_hash_map_at(i, pointer)?.is_true() {
            return Ok(None);
        }
        let view = self.dirs[i].dir();
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
        let from = page.search(hash, HASH_SHIFT);
        let all = (from..page.count())
            .map(|r| DirRec::decode(page.record(r)))
            .take_while(|rec| rec.hash == hash);
        let found = all.filter(|rec| !shared || !view.hides(rec)).nth(left);
        if found.is_none() && n == 0 {
            let hashes = (0..page.count()).map(|r| DirRec::decode(page.record(r)).hash);
            self.store.learn_hashes(pointer.1, hashes);
        }
        Ok(found)
    }

    /// The first entry, in the order of hashes, at or after `hash`: what `readdir` goes by. Hash
    /// maps that cannot be read are passed over; `damage` is then one of them.
    pub(crate) fn dir_next_hash(
        &mut self,
        dir: u32,
        hash: u32,
        damage: &mut Option<Fault>,
    ) -> Result<Option<u32>, Fault> {
        let mut from = hash;
        loop {
            let i = self.load_dir(dir)?;
            let view = self.dirs[i].dir();
            let in_log = (view.record_search(from, HASH_SHIFT)..view.records())
                .map(|r| DirRec::decode(view.record(r)))
                .find(DirRec::is_entry)
                .map(|rec| rec.hash);
            let (map, end) = self.hash_map_for(i, from);
            let in_map = match map.and_then(|pointer| self.load_hash_map_at(i, pointer)) {
                Ok(Bool::False) => return Ok(in_log),
                Ok(Bool::True) => self.next_in_map(i, from),
                Err(e) if e.is_damage() => {
                    *damage = Some(e);
                    None
                }
                Err(e) => return Err(e),
            };
            match (in_log, in_map) {
                (Some(a), Some(b)) => return Ok(Some(a.min(b))),
                (_, Some(b)) => return Ok(Some(b)),
                (a, None) if end >= NO_HASH || end <= from || a.is_some_and(|a| a < end) => {
                    return Ok(a);
                }
                _ => from = end,
            }
        }
    }

    /// The first hash from `from` on in the hash map in the scratch page
    /// that the log does not hide.
    fn next_in_map(&self, i: DirSlot, from: u32) -> Option<u32> {
        let view = self.dirs[i].dir();
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
        (page.search(from, HASH_SHIFT)..page.count())
            .map(|r| DirRec::decode(page.record(r)))
            .find(|rec| !view.hides(rec))
            .map(|rec| rec.hash)
    }

    /// Adds a record to the log of a directory. NEW sorts behind what hides another entry of its
    /// hash.
    fn dir_log(&mut self, dir: u32, rec: DirRec) -> Result<(), Fault> {
        let i = self.dir_room(dir, dirrec::SIZE)?;
        let slot = &mut self.dirs[i];
        let key = if rec.state == RecState::New {
            rec.hash + 1
        } else {
            rec.hash
        };
        let at = slot.dir().record_search(key, HASH_SHIFT);
        slot.dir_mut().record_insert(at, &rec.encode());
        slot.change_records(rec.hash);
        Ok(())
    }

    /// Makes room in a directory's page: by writing it, when it is full of notes of freed
    /// objects, else by moving entries to a hash map. Entries of hash maps that cannot be read
    /// stay; when they are all there is, so does what is kept free for pointers, as far as it goes.
    pub(crate) fn dir_room(&mut self, dir: u32, bytes: usize) -> Result<DirSlot, Fault> {
        // A migration of two entries wins no more than its notes of freed pages take.
        let (mut from, mut damage) = (None, None);
        for _ in 0..256 {
            let i = self.load_dir(dir)?;
            let view = self.dirs[i].dir();
            if view.room() >= bytes + tree::SLACK {
                return Ok(i);
            }
            let freed = view.records() - view.record_search(NO_HASH, HASH_SHIFT);
            // Without room for its notes a migration cannot be recorded.
            if freed > 0 && (freed >= view.records() / 4 || view.room() < tree::SLACK) {
                self.flush_dir(i)?;
                continue;
            }
            let migrated = self.dir_migrate(i, from);
            let next = match migrated {
                Ok(Migrated::Some) => {
                    from = None;
                    continue;
                }
                Ok(Migrated::None(next)) => next,
                Err(e) if e.is_damage() && !self.store.nand.is_stopped() => {
                    damage = Some(e);
                    // One range after another, from the first.
                    let behind = from.map_or(0, |hash| self.hash_map_for(i, hash).1);
                    self.name_from(i, behind)
                }
                Err(e) => return Err(e),
            };
            from = next;
            if next.is_some() {
                continue;
            }
            if self.files.0.iter().any(|f| f.ino != 0 && f.loc.is_none()) {
                // Entries of files that are only in RAM cannot move.
                for &slot in &FileSlot::ALL {
                    if self.files[slot].ino != 0 && self.files[slot].loc.is_none() {
                        self.flush_file_or_drop(slot)?;
                    }
                }
            } else if freed > 0 {
                self.flush_dir(i)?;
            } else if let Some(e) = damage {
                let room = self.dirs[i].dir().room();
                return if room >= bytes + tree::SLACK_LEAST {
                    Ok(i)
                } else {
                    Err(e)
                };
            } else {
                break;
            }
        }
        Err(Fault::TooBig)
    }

    /// The hash of the first record from `hash` on that is a name's.
    fn name_from(&self, i: DirSlot, hash: u32) -> Option<u32> {
        let view = self.dirs[i].dir();
        let at = view.record_search(hash, HASH_SHIFT);
        let end = view.record_search(NO_HASH, HASH_SHIFT);
        (at < end).then(|| DirRec::decode(view.record(at)).hash)
    }

    /// Adds an entry. The name is not there yet.
    pub(crate) fn dir_add(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        ptr: u32,
    ) -> Result<(), Fault> {
        self.dir_log(dir, DirRec::new(hash, RecState::New, target, ptr))?;
        let i = self.load_dir(dir)?;
        let mut view = self.dirs[i].dir_mut();
        view.set_size(view.size().saturating_add(1));
        if target == Target::Dir {
            view.set_nlink(view.nlink().saturating_add(1));
        }
        Ok(())
    }

    /// Removes the entry of an object.
    pub(crate) fn dir_remove(
        &mut self,
        dir: u32,
        entry: &DirRec,
        how: Removal,
    ) -> Result<(), Fault> {
        let DirRec {
            hash, target, ptr, ..
        } = *entry;
        if target == Target::Dir {
            self.names().forget(ptr);
        }
        let i = self.load_dir(dir)?;
        match self.dir_log_find(i, hash, target, ptr) {
            Some((r, RecState::New)) => self.dirs[i].dir_mut().record_remove(r),
            Some((r, _)) => {
                let rec = DirRec::new(hash, RecState::Delete, target, ptr);
                self.dirs[i].dir_mut().record_set(r, &rec.encode());
            }
            None => self.dir_hide(dir, hash, (target, ptr), None)?,
        }
        if let Removal::Freed(target, ptr) = how {
            self.dir_log(dir, DirRec::new(NO_HASH, RecState::Freed, target, ptr))?;
        }
        let i = self.load_dir(dir)?;
        let slot = &mut self.dirs[i];
        slot.change_records(hash);
        slot.removals |= how != Removal::Recorded;
        let mut view = slot.dir_mut();
        view.set_size(view.size().saturating_sub(1));
        if target == Target::Dir {
            view.set_nlink(view.nlink().saturating_sub(1));
        }
        Ok(())
    }

    /// The log record that is the entry of an object.
    fn dir_log_find(
        &self,
        i: DirSlot,
        hash: u32,
        target: Target,
        ptr: u32,
    ) -> Option<(usize, RecState)> {
        let view = self.dirs[i].dir();
        for r in view.record_search(hash, HASH_SHIFT)..view.records() {
            let rec = DirRec::decode(view.record(r));
            if rec.hash != hash {
                break;
            }
            if rec.is_entry() && rec.same_object(target, ptr) {
                return Some((r, rec.state));
            }
        }
        None
    }

    /// Makes sure that the entry of a file at `old` can be made to point elsewhere without
    /// the directory being written.
    pub(crate) fn repoint_reserve(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        old: PageAddr,
    ) -> Result<(), Fault> {
        let i = self.load_dir(dir)?;
        if self.dir_log_find_file(i, hash, target, old).is_none() {
            self.hide_room(dir, true)?;
        }
        Ok(())
    }

    /// Makes room to hide an entry of a hash map, or to show another for it. Returns whether that
    /// takes its pointer: a migration may just have put a second entry of its hash into the map.
    fn hide_room(&mut self, dir: u32, shows: bool) -> Result<Bool, Fault> {
        let i = self.dir_room(dir, dirrec::SIZE)?;
        let shared = self.dirs[i].dir().is_shared();
        if shared && shows {
            self.dir_room(dir, 2 * dirrec::SIZE)?;
        }
        Ok(shared.into())
    }

    /// Hides the entry of a hash map, or shows a new one for it. That needs no look at the map.
    pub(crate) fn dir_hide(
        &mut self,
        dir: u32,
        hash: u32,
        old: (Target, u32),
        new: Option<(Target, u32)>,
    ) -> Result<(), Fault> {
        let shared = self.hide_room(dir, new.is_some())?.is_true();
        let (target, ptr) = new.unwrap_or(old);
        if !shared {
            let state = if new.is_some() {
                RecState::Update
            } else {
                RecState::Delete
            };
            return self.dir_log(dir, DirRec::new(hash, state, target, ptr));
        }
        self.dir_log(dir, DirRec::new(hash, RecState::Gone, old.0, old.1))?;
        match new {
            Some(_) => self.dir_log(dir, DirRec::new(hash, RecState::New, target, ptr)),
            None => Ok(()),
        }
    }

    /// The log record that is the entry of a file, or of an orphan, at `old`.
    fn dir_log_find_file(
        &self,
        i: DirSlot,
        hash: u32,
        target: Target,
        old: PageAddr,
    ) -> Option<(usize, RecState)> {
        self.dir_log_find(i, hash, target, old.0)
            .or_else(|| self.dir_log_find(i, hash, other_target(target), old.0))
    }

    /// Makes the entry of a file that was at `old` point to `new`.
    pub(crate) fn dir_repoint(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        old: PageAddr,
        new: PageAddr,
    ) -> Result<(), Fault> {
        let i = self.load_dir(dir)?;
        let Some((r, state)) = self.dir_log_find_file(i, hash, target, old) else {
            return self.dir_hide(dir, hash, (target, old.0), Some((target, new.0)));
        };
        let slot = &mut self.dirs[i];
        slot.dir_mut()
            .record_set(r, &DirRec::new(hash, state, target, new.0).encode());
        slot.change_records(hash);
        Ok(())
    }

    /// Makes the entry of a file that was at `old` lead to its number.
    pub(crate) fn dir_make_indirect(
        &mut self,
        dir: u32,
        hash: u32,
        old: PageAddr,
        ino: u32,
    ) -> Result<(), Fault> {
        let i = self.load_dir(dir)?;
        let Some((r, state)) = self.dir_log_find(i, hash, Target::File, old.0) else {
            let new = (Target::Indirect, ino);
            return self.dir_hide(dir, hash, (Target::File, old.0), Some(new));
        };
        let slot = &mut self.dirs[i];
        slot.dir_mut()
            .record_set(r, &DirRec::new(hash, state, Target::Indirect, ino).encode());
        slot.change_records(hash);
        Ok(())
    }

    /// Moves the records of one range of hashes from the log to its hash map: the range with the
    /// most of them, or that of the first record from the hash `from` on. One read, one program; a
    /// split one more, an index page one more of each. Below an index page up to three ranges move
    /// at a time, as it is written once for all.
    #[inline(never)]
    fn dir_migrate(&mut self, i: DirSlot, from: Option<u32>) -> Result<Migrated, Fault> {
        let mut targets = [MapTarget::FIRST; tree::BATCH];
        let n = self.dir_migrate_targets(i, from, &mut targets)?;
        if n == 0 {
            return Ok(Migrated::None(None));
        }
        let names = |dir: DirView<'_>| dir.record_search(NO_HASH, HASH_SHIFT);
        let before = names(self.dirs[i].dir());
        let mut changes = Changes::new();
        let mut tried = 0;
        for (k, target) in targets[..n].iter_mut().enumerate() {
            let room = self.dirs[i].dir().room();
            if k > 0 && (!changes.has_room() || room < tree::SLACK_LEAST) {
                break;
            }
            tried += 1;
            match self.dir_load_target(i, target) {
                // It has a turn of its own, and is not replaced.
                Err(e) if k > 0 && e.is_damage() && !self.store.nand.is_stopped() => {
                    target.page = PageAddr::NONE;
                    continue;
                }
                r => r?,
            }
            let merged = self.dir_merge(i, target, &mut changes);
            self.whole_or_stop(merged)?;
        }
        self.apply_dir_changes(i, &targets[0], &changes)?;
        for target in &targets[..tried] {
            if target.page.is_some() {
                self.store.invalidate(target.page, MayProgram);
                self.dir_note_freed_page(i, target.page)?;
            }
        }
        if names(self.dirs[i].dir()) < before {
            return Ok(Migrated::Some);
        }
        // All of the range are only in RAM.
        Ok(Migrated::None(self.name_from(i, targets[0].end)))
    }

    /// Brings the map of a migration into the scratch page, or makes it there.
    fn dir_load_target(&mut self, i: DirSlot, target: &MapTarget) -> Result<(), Fault> {
        let ino = self.dirs[i].ino;
        let owner = Owner {
            ino,
            dir: 0,
            hash: 0,
        };
        if target.page.is_none() {
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            HashPage::on(page).init(owner, target.first, target.end);
        } else {
            self.load_target(HASH, target, ino)?;
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        HashPage::on(page).set_range(target.first, target.end);
        Ok(())
    }

    /// Moves the records of a range to the map in the scratch page, and writes it. What
    /// leads to it is not changed.
    #[inline(never)]
    fn dir_merge(
        &mut self,
        i: DirSlot,
        target: &MapTarget,
        changes: &mut Changes,
    ) -> Result<(), Fault> {
        let mut r = self.dirs[i].dir().record_search(target.first, HASH_SHIFT);
        while r < self.dirs[i].dir().records() {
            let rec = DirRec::decode(self.dirs[i].dir().record(r));
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let mut page: HashPage<'_> = MapPage(page);
            if rec.hash >= page.end_key() || changes.is_full() {
                break;
            }
            if page.count() == page.capacity() && is_insertion(&page, &rec) {
                let Some(mid) = split_point(&page, rec.hash) else {
                    r += 1;
                    continue;
                };
                let store = &mut self.store;
                changes.push(tree::split::<8, N>(store, HASH, page.0, rec.hash, mid)?);
            }
            let merged = merge(&mut page, rec);
            let mut view = self.dirs[i].dir_mut();
            match merged {
                Merged::No => r += 1,
                Merged::Yes => view.record_remove(r),
                Merged::Shared => {
                    view.record_remove(r);
                    view.set_flags(view.flags() | FLAG_SHARED);
                }
            }
        }
        let view = self.dirs[i].dir();
        if view.room() < tree::pointers_need(view.levels(), target, changes) {
            return Err(Fault::TooBig);
        }
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&self.scratch);
        let (len, key) = (page.len(), page.first_key());
        let page = self.append_scratch(LogArea::Hash, len, Kind::HashMap, target.page)?;
        changes.push(Put { key, page });
        self.dirs[i].change();
        Ok(())
    }

    /// The hash maps that most records of the log belong to, all below one index page. How many;
    /// none if no record can be moved.
    fn dir_migrate_targets(
        &mut self,
        i: DirSlot,
        from: Option<u32>,
        targets: &mut [MapTarget; tree::BATCH],
    ) -> Result<usize, Fault> {
        let view = self.dirs[i].dir();
        let movable = (0..view.record_search(NO_HASH, HASH_SHIFT))
            .any(|r| is_movable(&DirRec::decode(view.record(r))));
        if !movable {
            return Ok(0);
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let inode = view.any();
        tree::targets(&mut self.store, HASH, page, &inode, from, NO_HASH, targets)
    }

    #[inline(never)]
    pub(crate) fn apply_dir_changes(
        &mut self,
        i: DirSlot,
        target: &MapTarget,
        changes: &Changes,
    ) -> Result<(), Fault> {
        let owner = Owner {
            ino: self.dirs[i].ino,
            dir: 0,
            hash: 0,
        };
        let mut inode = self.dirs[i].dir_mut().any();
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let store = &mut self.store;
        let old = tree::apply(store, HASH, scratch, &mut inode, owner, target, changes);
        // With an error, what is in RAM now misses names.
        let old = self.whole_or_stop(old)?;
        if let Some(old) = old {
            self.store.invalidate(old, MayProgram);
            self.dir_note_freed_page(i, old)?;
        }
        Ok(())
    }

    /// Notes that a map page of the directory was replaced. There is room: at least one record
    /// has just left the log.
    pub(crate) fn dir_note_freed_page(&mut self, i: DirSlot, page: PageAddr) -> Result<(), Fault> {
        if self.dirs[i].dir().room() < dirrec::SIZE {
            return self.flush_dir(i);
        }
        let rec = DirRec::new(NO_HASH, RecState::Freed, Target::Orphan, page.0);
        let slot = &mut self.dirs[i];
        let n = slot.dir().records();
        slot.dir_mut().record_insert(n, &rec.encode());
        slot.change();
        Ok(())
    }
}

/// The entries of a hash in a hash map.
fn same_hash(page: &HashPage<'_>, hash: u32) -> core::ops::Range<usize> {
    page.search(hash, HASH_SHIFT)..page.search(hash + 1, HASH_SHIFT)
}

/// Whether a record of the log is not one of a file that is only in RAM.
fn is_movable(rec: &DirRec) -> bool {
    match rec.state {
        RecState::New | RecState::Update => rec.target != Target::File || rec.ptr != u32::MAX,
        RecState::Delete | RecState::Gone => true,
        RecState::Freed => false,
    }
}

/// Whether a log record becomes one more entry of the hash map.
fn is_insertion(page: &HashPage<'_>, rec: &DirRec) -> bool {
    let new = match rec.state {
        RecState::New => true,
        RecState::Update => same_hash(page, rec.hash).is_empty(),
        RecState::Delete | RecState::Freed | RecState::Gone => false,
    };
    new && is_movable(rec)
}

/// Where to split a full hash map into which an entry of `hash` is to go: near the middle, but
/// between two hashes. None if all entries are of that hash.
fn split_point(page: &HashPage<'_>, hash: u32) -> Option<usize> {
    let (n, mid) = (page.count(), page.count() / 2);
    let at = |r| DirRec::decode(page.record(r)).hash;
    let same = same_hash(page, at(mid));
    let nearest = if mid - same.start <= same.end - mid {
        same.start
    } else {
        same.end
    };
    match nearest {
        0 if same.end < n => Some(same.end),
        0 if hash < at(0) => Some(0),
        0 if hash > at(0) => Some(n),
        0 => None,
        _ if nearest == n => Some(same.start).filter(|&start| start > 0),
        _ => Some(nearest),
    }
}

/// Applies a log record to the hash map.
fn merge(page: &mut HashPage<'_>, rec: DirRec) -> Merged {
    let same = same_hash(page, rec.hash);
    let entry = DirRec {
        state: RecState::New,
        ..rec
    }
    .encode();
    if !is_movable(&rec) {
        return Merged::No;
    }
    match rec.state {
        RecState::Gone => {
            let mut entries = same.map(|r| (r, DirRec::decode(page.record(r))));
            if let Some((r, _)) = entries.find(|(_, entry)| entry.same_entry(&rec)) {
                page.remove(r);
            }
        }
        RecState::Delete if same.is_empty() => {}
        RecState::Delete => page.remove(same.start),
        RecState::Update if !same.is_empty() => page.set(same.start, &entry),
        _ => {
            page.insert(same.end, &entry);
            if !same.is_empty() {
                return Merged::Shared;
            }
        }
    }
    Merged::Yes
}

fn other_target(target: Target) -> Target {
    if target == Target::File {
        Target::Orphan
    } else {
        Target::File
    }
}

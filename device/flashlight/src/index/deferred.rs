//! Directories that leave their slots with few changes are not written: what has changed is kept
//! in a list ([`crate::format::deferred`]), and put into the page when the directory is read again.
//! So a page is written for many changes, though there are more directories than slots.
//!
//! Invariants:
//! * A directory's page is only written from what shows its group: from a slot, or from the page
//!   with the group put in. The group is gone then ([`Index::map_set`]).
//! * A slot that has not changed since its group was put together or put in is *saved*: it is
//!   dirty, and may be forgotten.
//! * The group with the most changes is written between operations only, never after the record of
//!   a change that its directory does not show yet.
//! * What a recovery needs is in the groups of the checkpoint: all changes before it that pages of
//!   directories do not show. Those after it are found as ever.

use crate::error::{Bool, Damaged, Fault};
use crate::format::area::LogArea;
use crate::format::deferred::{self, GROUP_LEAST, GROUP_MOST, Group, groups};
use crate::format::dirrec::{DirRec, NO_HASH};
use crate::format::header::Kind;
use crate::format::inode::{DirMut, DirView};
use crate::format::wellformed::is_entry;
use crate::index::Index;
use crate::index::cache::CachedDir;
use crate::index::slots::DirSlot;
use crate::space::latch::MayProgram;
use crate::space::limits::{deferred_least, urgent};
use crate::space::store::Store;
use core::ops::Range;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{Nand, PageAddr};

/// Bytes of the list that are kept free: the directories that an operation pushes out of their
/// slots find room.
const SPARE: usize = 40;

/// Directories that one operation writes at most when their changes may not lie in the page of the
/// map any more.
const AT_ONCE: usize = 4;

/// What a directory in a slot shows that its page does not. Small, as all that is not in the
/// caller's RAM.
pub(crate) struct Changes<'r> {
    /// The hashes of the records that have changed, in order, 4 bytes each; last, how many there
    /// are, and the flags. Without bytes a change is always of more.
    bytes: &'r mut [u8],
}

const LEN: u8 = 0x3f;
/// It was modified.
const STAMPED: u8 = 0x40;
/// More has changed than records and times, or too many of them: its page is to be written.
const WHOLE: u8 = 0x80;

impl<'r> Changes<'r> {
    pub fn new(bytes: &'r mut [u8]) -> Self {
        let mut changes = Changes { bytes };
        changes.clear();
        changes
    }

    fn state(&self) -> u8 {
        self.bytes.last().map_or(WHOLE, |state| *state)
    }

    fn set_state(&mut self, state: u8) {
        if let Some(last) = self.bytes.last_mut() {
            *last = state;
        }
    }

    pub fn clear(&mut self) {
        self.set_state(0);
    }

    pub fn hashes(&self) -> impl Iterator<Item = u32> + Clone {
        let len = usize::from(self.state() & LEN);
        let hashes = self.bytes.chunks_exact(4).take(len);
        hashes.map(|hash| get_u32(hash, 0))
    }

    /// The records of a hash have changed.
    pub fn add(&mut self, hash: u32) {
        let (len, state) = (self.hashes().count(), self.state());
        let at = self.hashes().take_while(|&h| h < hash).count();
        if self.hashes().nth(at) == Some(hash) {
            return;
        }
        if len < self.bytes.len().saturating_sub(1) / 4 {
            self.bytes.copy_within(4 * at..4 * len, 4 * (at + 1));
            put_u32(self.bytes, 4 * at, hash);
            self.set_state(state + 1);
        } else {
            self.add_all();
        }
    }

    /// It was modified.
    pub fn add_stamp(&mut self) {
        self.set_state(self.state() | STAMPED);
    }

    pub fn add_all(&mut self) {
        self.set_state(self.state() | WHOLE);
    }

    fn is_stamped(&self) -> bool {
        self.state() & STAMPED != 0
    }

    fn is_whole(&self) -> bool {
        self.state() & WHOLE != 0
    }
}

/// Where the group of a directory is in the list, and the group.
fn find(list: &[u8], dir: u32) -> Option<(Range<usize>, Group<'_>)> {
    groups(list).find(|(_, group)| group.dir() == dir)
}

/// The group of a directory in either list.
fn find_in<'a>(lists: [&'a [u8]; 2], dir: u32) -> Option<Group<'a>> {
    for list in lists {
        if let Some((_, group)) = find(list, dir) {
            return Some(group);
        }
    }
    None
}

impl<'r, N: Nand> Store<'r, N> {
    /// The lists of groups: that behind the DirInode map in its page, and that behind the dirty
    /// list.
    pub fn deferred_lists(&self) -> [&[u8]; 2] {
        [self.map_page.tail(), self.dirty.tail()]
    }

    fn deferred_list_mut(&mut self, list: usize) -> &mut [u8] {
        match list {
            0 => self.map_page.tail_mut(),
            _ => self.dirty.tail_mut(),
        }
    }

    fn deferred_remove(&mut self, list: usize, range: Range<usize>) {
        match list {
            0 => self.map_page.tail_remove(range),
            _ => self.dirty.tail_remove(range),
        }
    }

    /// Bytes of all deferred changes.
    pub fn deferred_len(&self) -> usize {
        self.map_page.tail().len() + self.dirty.tail().len()
    }

    /// The deferred changes of a directory, if there are any.
    pub fn deferred(&self, dir: u32) -> Option<Group<'_>> {
        find_in(self.deferred_lists(), dir)
    }

    /// Of all deferred changes, one after another.
    pub fn nth_deferred(&self, n: usize) -> Option<DirRec> {
        let mut left = n;
        for list in self.deferred_lists() {
            for (_, group) in groups(list) {
                for rec in group.records() {
                    if left == 0 {
                        return Some(rec);
                    }
                    left -= 1;
                }
            }
        }
        None
    }

    /// Forgets the deferred changes of a directory; whether there were any.
    pub fn forget_deferred(&mut self, dir: u32) -> bool {
        for list in 0..2 {
            if let Some((range, _)) = find(self.deferred_lists()[list], dir) {
                self.deferred_remove(list, range);
                return true;
            }
        }
        false
    }

    /// Whether there is room for a group of so many bytes of a directory, in place of what there
    /// is of it.
    fn has_deferred_room(&self, dir: u32, len: usize) -> bool {
        let most = [self.map_page.tail_most(), self.dirty.tail_most()];
        let mut lists = self.deferred_lists().into_iter().zip(most);
        lists.any(|(list, most)| {
            let freed = find(list, dir).map_or(0, |(range, _)| range.len());
            list.len() - freed + len <= most
        })
    }

    /// Adds a group, for which pages that are kept and entries of the dirty list go; `false` if
    /// there is no room for it.
    pub fn add_deferred(&mut self, group: &[u8]) -> bool {
        let list = if self.map_page.tail_grow(group.len()) {
            0
        } else if self.dirty.tail_grow(group.len()) {
            self.nand.pages.yield_tail(self.dirty.tail().len());
            1
        } else {
            return false;
        };
        self.deferred_list_mut(list)[..group.len()].copy_from_slice(group);
        true
    }

    /// Forgets all.
    pub fn forget_all_deferred(&mut self) {
        for list in 0..2 {
            let len = self.deferred_lists()[list].len();
            self.deferred_remove(list, 0..len);
        }
    }

    /// Takes a group from a snapshot; none when it cannot be believed, `false` when there is no
    /// room for it. What it has to say of removals the checkpoint has said.
    pub fn load_deferred(&mut self, bytes: &mut [u8]) -> Option<bool> {
        let len = deferred::forget_removals(bytes);
        let bytes = &bytes[..len];
        let is_sane = |group: &Group<'_>| group.is_sane(|rec| is_entry(&self.geo, rec));
        let group = Group::first(bytes).filter(is_sane)?;
        if self.deferred(group.dir()).is_some() {
            return None;
        }
        Some(self.add_deferred(bytes))
    }

    /// After a checkpoint: what it has freed is not freed by a directory's page again.
    pub fn forget_deferred_removals(&mut self) {
        for list in 0..2 {
            let mut at = 0;
            loop {
                let group = groups(&self.deferred_lists()[list][at..]).next();
                let Some(len) = group.map(|(range, _)| range.len()) else {
                    break;
                };
                let bytes = &mut self.deferred_list_mut(list)[at..at + len];
                let kept = deferred::forget_removals(bytes);
                self.deferred_remove(list, at + kept..at + len);
                at += kept;
            }
        }
    }
}

impl<'r, N: Nand> Index<'r, N> {
    /// After a checkpoint: all that has been removed is, and freed.
    pub(crate) fn forget_removals(&mut self) {
        self.store.forget_deferred_removals();
        self.deferred_since = false;
        self.begin_numbers_anew();
        for slot in self.dirs.0.iter_mut().filter(|slot| slot.ino != 0) {
            slot.dir_mut().strip_notes();
            slot.removals = false;
        }
    }

    /// Puts the deferred changes of the directory in a slot into its page there; whether there are
    /// any. `at`: where the page is.
    pub(crate) fn put_deferred_in(
        slot: &mut CachedDir<'_>,
        store: &mut Store<'_, N>,
        at: PageAddr,
    ) -> Result<Bool, Fault> {
        let Some(group) = store.deferred(slot.dir().ino()) else {
            return Ok(Bool::False);
        };
        if !group.apply(&mut slot.dir_mut()) {
            return Err(store.nand.damaged(at, Damaged::Deferred));
        }
        slot.removals = group.has_removals();
        if group.stamp().is_some() {
            slot.changes.add_stamp();
        }
        group.records().for_each(|rec| {
            if rec.hash < NO_HASH {
                slot.changes.add(rec.hash);
            }
        });
        Ok(Bool::True)
    }

    /// Puts the deferred changes of the directory in the scratch page, which is at `at`, in.
    pub(crate) fn show_deferred(&mut self, at: PageAddr) -> Result<(), Fault> {
        let ino = DirView::on(&*self.scratch).ino();
        let store = &mut self.store;
        let Some(group) = find_in([store.map_page.tail(), store.dirty.tail()], ino) else {
            return Ok(());
        };
        let held = store.scratch_holds.is(at);
        let page = self.scratch.overwrite(&mut store.scratch_holds);
        if !group.apply(&mut DirMut::on(page)) {
            return Err(store.nand.damaged(at, Damaged::Deferred));
        }
        if held {
            // Who takes the page from there puts them in again, which changes nothing.
            self.store.scratch_holds.set(at);
        }
        Ok(())
    }

    /// Makes sure that the directory in a slot may be forgotten: what has changed goes to the list,
    /// else its page is written. One program at most.
    pub(crate) fn save_dir(&mut self, i: DirSlot) -> Result<(), Fault> {
        if self.dirs[i].ino == 0 || !self.dirs[i].unsaved {
            return Ok(());
        }
        if self.defer(i) {
            return Ok(());
        }
        self.flush_dir(i)
    }

    /// The same of both.
    pub(crate) fn save_dirs(&mut self) -> Result<(), Fault> {
        self.save_dir(DirSlot::First)?;
        self.save_dir(DirSlot::Second)
    }

    /// Puts what has changed in a slot on the list, if it may be there and has room.
    #[inline(never)]
    fn defer(&mut self, i: DirSlot) -> bool {
        let slot = &mut self.dirs[i];
        if slot.changes.is_whole() || slot.loc.is_none() {
            return false;
        }
        let (view, changes) = (DirView::on(&*slot.buf), &slot.changes);
        let mut group = [0; GROUP_MOST];
        let (hashes, stamped) = (changes.hashes(), changes.is_stamped());
        let len = deferred::encode(&mut group, &view, hashes, stamped, slot.removals);
        let Some(len) = len else {
            return false;
        };
        if !self.store.has_deferred_room(slot.ino, len) {
            return false;
        }
        self.store.forget_deferred(slot.ino);
        let added = self.store.add_deferred(&group[..len]);
        debug_assert!(added, "there is room for it");
        slot.unsaved = false;
        self.deferred_since = true;
        true
    }

    /// Between operations: makes room on a list, so that directories that are pushed out of
    /// their slots need not be written for that. A read and a program for each that is written, of
    /// 12 bytes of changes at least: four at most, and those of pages of the directory map.
    pub(crate) fn make_deferred_room(&mut self) -> Result<(), Fault> {
        self.share_map_page(self.deferred_in_map_page());
        for _ in 0..AT_ONCE {
            if self.store.map_page.tail().len() <= self.store.map_page.tail_most()
                || !self.write_most_deferred(true)?.is_true()
            {
                break;
            }
        }
        for _ in 0..AT_ONCE {
            if self.any_mount_takes_deferred() || !self.write_most_deferred(false)?.is_true() {
                break;
            }
        }
        let spare = SPARE.min(self.store.dirty.tail_most() / 3);
        while self.store.dirty.tail_room() < spare
            && self.store.map_page.tail_room() < SPARE
            && self.write_most_deferred(false)?.is_true()
        {}
        Ok(())
    }

    /// Whether a mount with the least RAM has room for the deferred changes, or blocks to write the
    /// directories to that find none, a page for each.
    fn any_mount_takes_deferred(&self) -> bool {
        let store = &self.store;
        let least = deferred_least(&store.geo, store.table.paged.is_some());
        let blocks = store.available().saturating_sub(urgent(&store.geo));
        let pages = (blocks * store.ppb()) as usize;
        let beyond = store.deferred_len().saturating_sub(least);
        beyond <= GROUP_LEAST * pages
            || (store.deferred_lists().iter()).fold(0, |n, list| n + groups(list).count()) <= pages
    }

    /// Bytes of deferred changes that may lie in the page of the map: so many that a mount, which
    /// has no place for them, writes the directories to two blocks; none when free blocks are few.
    fn deferred_in_map_page(&self) -> usize {
        let store = &self.store;
        if store.recovery.is_some() || store.available() <= urgent(&store.geo) {
            return 0;
        }
        store.map_page.useful.into()
    }

    /// Writes the directory with the most deferred changes, of those in the page of the map or of
    /// all; whether there was one. What cannot be read now may be later: then another is written,
    /// and the changes wait where none can be.
    pub(crate) fn write_most_deferred(&mut self, in_map_page: bool) -> Result<Bool, Fault> {
        let mut below = u32::MAX;
        loop {
            let [first, second] = self.store.deferred_lists();
            let second = if in_map_page { &[] } else { second };
            // By their lengths, each once.
            let (mut next, mut number) = ((0, 0), 0);
            for (_, group) in groups(first).chain(groups(second)) {
                number += 1;
                let rank = (group.len() as u32) << 16 | number;
                if rank < below && rank > next.0 {
                    next = (rank, group.dir());
                }
            }
            let (rank, dir) = next;
            if rank == 0 {
                return Ok(Bool::False);
            }
            if self.write_deferred(dir)?.is_true() {
                return Ok(Bool::True);
            }
            below = rank;
        }
    }

    /// Writes the page of a directory with its deferred changes, if it can be read; whether these
    /// are gone then. Of one that does not exist or has no room for them, on a medium made to
    /// deceive, they mean nothing.
    fn write_deferred(&mut self, dir: u32) -> Result<Bool, Fault> {
        let written = match self.dir_slot(dir) {
            Some(i) => self.flush_dir(i),
            None => self.write_deferred_page(dir).or_else(|e| {
                if !e.is_damage() || self.store.nand.is_stopped() {
                    return Err(e);
                }
                // There may be a copy.
                let i = self.load_dir(dir)?;
                self.flush_dir(i)
            }),
        };
        match written {
            Ok(()) | Err(Fault::NotFound | Fault::Corrupt(Damaged::Deferred)) => {}
            Err(e) if !e.is_damage() || self.store.nand.is_stopped() => return Err(e),
            Err(_) => return Ok(Bool::False),
        }
        if self.store.forget_deferred(dir) {
            let at = self.map_get(dir).unwrap_or(PageAddr::NONE);
            self.note_damage(at, Damaged::Deferred);
        }
        Ok(Bool::True)
    }

    /// The same of one that is in no slot, in the scratch page.
    fn write_deferred_page(&mut self, dir: u32) -> Result<(), Fault> {
        let at = self.map_get(dir)?;
        if at.is_none() {
            return Err(self.store.nand.damaged(at, Damaged::Dir));
        }
        self.load_scratch(at, Kind::Dir)?;
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut view = DirMut::on(page);
        view.strip_notes();
        view.set_as_of(0);
        let group = self.store.deferred(dir).filter(|_| view.ino() == dir);
        if !group.is_some_and(|group| group.apply(&mut view)) {
            return Err(self.store.nand.damaged(at, Damaged::Dir));
        }
        let len = view.len();
        let new = self.append_scratch(LogArea::Dir, len, Kind::Dir, at)?;
        self.store.invalidate(at, MayProgram);
        let led = self.map_set(dir, new);
        self.not_in_part(led)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::dirrec::{RecState, Target};
    use crate::format::inode::MODE_DIR;
    use crate::{Config, FlashLight, New, ROOT_DIR, ram_needed, ram_useful};
    use flashkit_nand::Geometry;
    use flashkit_sim::{ChipSpec, Faults, SimNand, Weak, preset};

    /// A list made to deceive, of directories that do not exist or that have no room for it, is
    /// forgotten when there is need of its room; the volume goes on.
    #[test]
    fn changes_of_no_directory_are_forgotten() {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let ram = std::vec![0; ram_needed(&flashkit_nand::Nand::geometry(&chip))].leak();
        let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
        let ram = std::vec![0; ram.len()].leak();
        let mut fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
        let mut page = [0; 512];
        let mut dir = DirMut::on(&mut page[..]);
        let store = &mut fs.volume.durable.index.store;
        for ino in 600.. {
            dir.init(ino * 900, ROOT_DIR, MODE_DIR, b"none");
            // More of each than of those that there are: they go first.
            for hash in 5..9 {
                let rec = DirRec::new(hash, RecState::New, Target::File, 70);
                dir.record_insert(hash as usize - 5, &rec.encode());
            }
            let mut group = [0; GROUP_MOST];
            let len = deferred::encode(&mut group, &DirView::on(&*dir.0), 5..9, false, false);
            if store.load_deferred(&mut group[..len.unwrap()]) != Some(true) {
                break;
            }
        }
        assert!(store.dirty.tail_room() < 40);
        let name = |i: u8| [b'd', i / 64 + 1, i % 64 + b'0'];
        for i in 0..250 {
            let dir = fs.mkdir(ROOT_DIR, &name(i), &New::default()).unwrap();
            let crate::Node::Dir(dir) = dir else {
                panic!("a directory")
            };
            let file = fs.create(dir, b"f", &New::default()).unwrap();
            fs.fsync(file).unwrap();
        }
        let store = &fs.volume.durable.index.store;
        assert!(store.deferred(600 * 900).is_none());
        assert!(fs.lost_change().is_some());
        for i in 0..250 {
            assert!(fs.lookup(ROOT_DIR, &name(i)).is_ok());
        }
    }

    /// Room is made while the page of the only directory with changes cannot be read: they wait.
    #[test]
    fn changes_wait_where_no_directory_can_be_written() {
        let geo = Geometry::new(1024, 64, 16, 256).unwrap();
        let chip = SimNand::new(ChipSpec::new(geo, preset("slc-256m").unwrap().timing));
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let new = New::default();
        let chip = FlashLight::format(chip, ram, 7, &new).unwrap();
        let ram = std::vec![0; ram.len()].leak();
        let mut fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
        let dirs = [b"a", b"b", b"c"].map(|name| match fs.mkdir(ROOT_DIR, name, &new) {
            Ok(crate::Node::Dir(dir)) => dir,
            other => panic!("a directory, not {other:?}"),
        });
        for (dir, name) in [(0, b"f"), (0, b"g"), (1, b"f"), (2, b"f")] {
            let file = fs.create(dirs[dir], name, &new).unwrap();
            fs.fsync(file).unwrap();
        }
        fs.sync().unwrap();
        let at = fs.index_mut().map_get(dirs[0]).unwrap().0;
        let lose = |fs: &mut FlashLight<'_, SimNand>, good| {
            let faults = Faults {
                grave_pages: std::vec![Weak { at, good }],
                ..Faults::default()
            };
            fs.nand_mut().set_faults(faults).unwrap();
        };
        assert!(fs.store().deferred(dirs[0]).is_some());
        lose(&mut fs, 0);
        for _ in 0..8 {
            let _ = fs.index_mut().write_most_deferred(false).unwrap();
        }
        assert!(fs.store().deferred(dirs[1]).is_none());
        lose(&mut fs, u32::MAX);
        fs.sync().unwrap();
        for name in [b"f", b"g"] {
            assert!(fs.lookup(dirs[0], name).is_ok());
        }
    }

    /// The page of a directory is full, of notes of removed files among others. There is room for
    /// what has changed since where these have gone: the directory is found.
    #[test]
    fn a_directory_with_changes_is_found_though_its_page_was_full_of_notes() {
        let chip = preset("slc-256m").unwrap();
        let geo = Geometry::new(1024, 64, 16, 256).unwrap();
        let new = New::default();
        let mut tight = 0;
        for files in 80..115 {
            let chip = SimNand::new(ChipSpec::new(geo, chip.timing));
            let ram = std::vec![0; ram_useful(&geo)].leak();
            let chip = FlashLight::format(chip, ram, 7, &new).unwrap();
            let ram = std::vec![0; ram.len()].leak();
            let mut fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
            let mut mkdir = |name: &[u8]| fs.mkdir(ROOT_DIR, name, &new).unwrap();
            let nodes = [b"a", b"b", b"c"].map(|name| mkdir(name));
            let [dir, one, other] = nodes.map(|node| match node {
                crate::Node::Dir(dir) => dir,
                crate::Node::File(_) => panic!("a directory"),
            });
            let name = |n: u8| [b'a' + n % 26, b'a' + n / 26];
            let create = |fs: &mut FlashLight<'_, SimNand>, dir, n| {
                let file = fs.create(dir, &name(n), &new).unwrap();
                fs.fsync(file).unwrap();
            };
            (0..files).for_each(|n| create(&mut fs, dir, n));
            for n in 0..files / 3 {
                fs.unlink(dir, &name(n), &|_| false, new.now).unwrap();
            }
            fs.fsync(nodes[0]).unwrap();
            (files..files + 23).for_each(|n| create(&mut fs, dir, n));
            // It leaves its slot.
            create(&mut fs, one, 0);
            create(&mut fs, other, 0);
            let (mut page, at) = ([0; 1024], fs.index_mut().map_get(dir).unwrap());
            fs.nand_mut().read(at, 0, &mut page, &mut []).unwrap();
            let room = DirView::on(&page[..]).room();
            tight += u32::from(fs.store().deferred(dir).is_some_and(|it| it.len() > room));
            let found = fs.lookup(ROOT_DIR, b"a").map(|attr| attr.size);
            assert_eq!(found, Ok(u64::from(files - files / 3 + 23)), "{files}");
        }
        assert!(tight > 0);
    }
}

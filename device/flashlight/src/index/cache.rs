//! The page cache: two DirInodes, two FileInodes, one scratch page (paper, 4.5).
//!
//! An inode in a slot may be newer than its page on flash. Order of writing:
//! * A new file's page is written before the directory's page that points to it; the directory
//!   shows the file with an empty pointer until then, which means nothing on flash.
//! * A page that links a new name is written after those of names that are older in the same
//!   directory, and records earlier removals there as well, or else is written after the
//!   directory's page, which does. A name is removed only when the new ones before it have been
//!   written. So the changes of one directory survive a power cut in their order.

use crate::error::{Bool, Damaged, Fault};
use crate::format::area::LogArea;
use crate::format::dirrec::{DirRec, HASH_SHIFT, NO_HASH, RecState, Target};
use crate::format::extent::{self, Extent, REMOVED};
use crate::format::hash::ino_hash;
use crate::format::header::{KIND, Kind};
use crate::format::inode::{
    DirMut, DirView, FLAG_EXCHANGED, FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, FileMut, FileView,
    MODE_DIR, Time,
};
use crate::format::node::{FileRef, INDEX_DIR, Node, ROOT_DIR};
use crate::index::Index;
use crate::index::deferred::Changes;
use crate::index::slots::{DirSlot, Dirs, FileSlot, Files};
use crate::space::latch::{MayProgram, Stopped};
use flashkit_nand::{Nand, PageAddr};

/// A directory in a slot.
pub(crate) struct CachedDir<'r> {
    pub buf: &'r mut [u8],
    /// Number of the inode; 0: the slot is empty.
    pub ino: u32,
    /// Where its last version is on flash; none for one never written.
    pub loc: PageAddr,
    /// It shows more than that.
    pub dirty: bool,
    /// And more than its deferred changes ([`crate::index::deferred`]).
    pub unsaved: bool,
    pub changes: Changes<'r>,
    /// Names were removed that no page on flash shows as removed.
    pub removals: bool,
    /// It was used after the other.
    recent: bool,
}

impl<'r> CachedDir<'r> {
    pub fn new(buf: &'r mut [u8], hashes: &'r mut [u8]) -> Self {
        CachedDir {
            buf,
            ino: 0,
            loc: PageAddr::NONE,
            dirty: false,
            unsaved: false,
            changes: Changes::new(hashes),
            removals: false,
            recent: false,
        }
    }

    pub fn clear(&mut self) {
        self.ino = 0;
        self.loc = PageAddr::NONE;
        self.clean();
    }

    /// Its page shows all.
    fn clean(&mut self) {
        (self.dirty, self.unsaved, self.removals) = (false, false, false);
        self.changes.clear();
    }

    /// Notes a change that its page is to be written for.
    pub fn change(&mut self) {
        (self.dirty, self.unsaved) = (true, true);
        self.changes.add_all();
    }

    /// Notes a change of the log's records of a hash.
    pub fn change_records(&mut self, hash: u32) {
        (self.dirty, self.unsaved) = (true, true);
        if hash < NO_HASH {
            self.changes.add(hash);
        }
    }

    /// Notes when it was modified.
    pub fn stamp(&mut self, now: Time) {
        (self.dirty, self.unsaved) = (true, true);
        self.changes.add_stamp();
        self.dir_mut().set_modified(now);
    }

    pub fn dir(&self) -> DirView<'_> {
        DirView::on(self.buf)
    }

    pub fn dir_mut(&mut self) -> DirMut<'_> {
        DirMut::on(self.buf)
    }
}

/// A file in a slot.
pub(crate) struct CachedFile<'r> {
    pub buf: &'r mut [u8],
    /// As of a directory.
    pub ino: u32,
    pub loc: PageAddr,
    pub dirty: bool,
    /// And a change of a caller's is among that.
    pub changed: bool,
    /// Pages written since the last fsync, if all that has changed since the page at `loc` are
    /// pages that a recovery finds by their tags (`updates.rs`).
    pub updates: Option<u32>,
    /// Something may wait in its index pages.
    pub waits: bool,
    /// Of the slot: the block at its data head is shared with other files.
    pub shares: bool,
    /// It was used after the other.
    pub recent: bool,
    /// It was used since the last step of a path.
    pub used: bool,
    /// Of the slot: it holds names of directories, and no file ([`crate::index::lending`]).
    pub lent: bool,
}

impl<'r> CachedFile<'r> {
    pub fn new(buf: &'r mut [u8]) -> Self {
        CachedFile {
            buf,
            ino: 0,
            loc: PageAddr::NONE,
            dirty: false,
            changed: false,
            updates: None,
            waits: true,
            shares: false,
            recent: false,
            used: false,
            lent: false,
        }
    }

    pub fn clear(&mut self) {
        self.ino = 0;
        self.loc = PageAddr::NONE;
        (self.dirty, self.changed) = (false, false);
        self.updates = None;
        self.waits = true;
    }

    /// Notes a change that a recovery finds in a file's own page only. What merely moves pages or
    /// records elsewhere is none.
    pub fn change(&mut self) {
        (self.dirty, self.changed) = (true, true);
        self.updates = None;
    }

    pub fn file(&self) -> FileView<'_> {
        FileView::on(self.buf)
    }

    pub fn file_mut(&mut self) -> FileMut<'_> {
        FileMut::on(self.buf)
    }
}

impl FileView<'_> {
    /// The directory entry that points to this file's page: directory and hash.
    pub fn holder(&self, volume: u32) -> (u32, u32) {
        if self.flags() & FLAG_INDIRECT != 0 {
            (INDEX_DIR, ino_hash(volume, self.ino()))
        } else {
            self.own_place(volume)
        }
    }

    pub fn file_ref(&self, volume: u32) -> FileRef {
        let (dir, hash) = self.holder(volume);
        FileRef {
            ino: self.ino(),
            dir,
            hash,
        }
    }

    /// How many removed files the log notes.
    fn removals(&self) -> usize {
        self.record_search(REMOVED + 1, 0) - self.record_search(REMOVED, 0)
    }
}

impl FileMut<'_> {
    /// Forgets the removed files that it notes.
    fn forget_removals(&mut self) {
        let at = self.record_search(REMOVED, 0);
        while at < self.records() && Extent::decode(self.record(at)).index == REMOVED {
            self.record_remove(at);
        }
    }

    /// Forgets what only the page on flash had to say about the step before it.
    fn strip_notes(&mut self) {
        let mut n = self.records();
        while n > 0 && !Extent::decode(self.record(n - 1)).is_mapping() {
            n -= 1;
        }
        self.records_truncate(n);
        self.set_flags(self.flags() & !(FLAG_KEPT | FLAG_EXCHANGED));
        self.set_moved(0, 0);
        self.set_replaced(None);
    }
}

/// Removed files that the page of a new one notes at most: each is a change for a recovery to make.
pub(crate) const REMOVED_MOST: usize = 16;

impl DirView<'_> {
    /// The notes of files that have lost their names since the page before.
    fn removed(&self) -> impl Iterator<Item = DirRec> {
        (self.record_search(NO_HASH, HASH_SHIFT)..self.records())
            .map(|r| DirRec::decode(self.record(r)))
            .filter(is_removed_file)
    }
}

fn is_removed_file(rec: &DirRec) -> bool {
    rec.state == RecState::Freed && rec.target == Target::File
}

impl DirMut<'_> {
    /// Forgets the notes of files that have lost their names.
    fn forget_removals(&mut self) {
        let mut r = self.record_search(NO_HASH, HASH_SHIFT);
        while r < self.records() {
            if is_removed_file(&DirRec::decode(self.record(r))) {
                self.record_remove(r);
            } else {
                r += 1;
            }
        }
    }

    pub(crate) fn strip_notes(&mut self) {
        self.drop_notes();
        self.set_flags(self.flags() & !FLAG_EXCHANGED);
        self.set_moved(0, 0);
        self.set_replaced(None);
    }
}

/// Whether the second of two slots is to be used anew, not the first, by their inodes and by
/// whether the first was used last.
fn is_second_next(inos: [u32; 2], first_is_recent: bool) -> bool {
    match inos {
        [0, _] => false,
        [_, 0] => true,
        _ => first_is_recent,
    }
}

impl Dirs<'_> {
    /// The slot that was used least recently.
    fn least_recent(&self) -> DirSlot {
        let [a, b] = &self.0;
        if is_second_next([a.ino, b.ino], a.recent) {
            DirSlot::Second
        } else {
            DirSlot::First
        }
    }
}

impl Files<'_> {
    /// The slot that was used least recently.
    pub(crate) fn least_recent(&self) -> FileSlot {
        let [a, b] = &self.0;
        if is_second_next([a.ino, b.ino], a.recent) {
            FileSlot::Second
        } else {
            FileSlot::First
        }
    }
}

impl<N: Nand> Index<'_, N> {
    fn touch_dir(&mut self, i: DirSlot) {
        for other in DirSlot::ALL {
            self.dirs[other].recent = other == i;
        }
    }

    fn touch_file(&mut self, i: FileSlot) {
        for other in FileSlot::ALL {
            self.files[other].recent = other == i;
        }
        self.files[i].used = true;
    }

    /// The slot of a cached directory.
    pub(crate) fn dir_slot(&self, ino: u32) -> Option<DirSlot> {
        DirSlot::ALL
            .iter()
            .copied()
            .into_iter()
            .find(|&i| self.dirs[i].ino == ino && ino != 0)
    }

    /// The slot of a cached file.
    pub(crate) fn file_slot(&self, ino: u32) -> Option<FileSlot> {
        FileSlot::ALL
            .iter()
            .copied()
            .into_iter()
            .find(|&i| self.files[i].ino == ino && ino != 0)
    }

    /// Brings a directory into a slot. Two reads at most, and the write of what was there.
    pub(crate) fn load_dir(&mut self, ino: u32) -> Result<DirSlot, Fault> {
        if let Some(i) = self.dir_slot(ino) {
            self.touch_dir(i);
            return Ok(i);
        }
        let i = self.spare_dir_slot()?;
        // Known again when it leaves the slot.
        self.index_has_room &= ino != INDEX_DIR;
        let at = self.map_get(ino)?;
        if at.is_none() {
            return Err(Fault::NotFound);
        }
        let mut copied = false;
        if self.store.scratch_holds.is(at) {
            self.dirs[i].buf.copy_from_slice(&self.scratch);
        } else {
            let buf = &mut *self.dirs[i].buf;
            if let Err(e) = self.store.get_meta(at, buf, Kind::Dir) {
                copied = self.read_dir_copy(i, ino, at)?.is_true();
                if !copied {
                    let damaged = self.store.nand.damaged(at, Damaged::Dir);
                    return Err(if e.is_damage() { damaged } else { e });
                }
            }
        }
        let view = self.dirs[i].dir();
        if view.ino() != ino {
            return Err(self.store.nand.damaged(at, Damaged::Dir));
        }
        self.dirs[i].dir_mut().strip_notes();
        let deferred = Self::put_deferred_in(&mut self.dirs[i], &mut self.store, at)?.is_true();
        self.drop_stale_pending(i);
        let recovering = self.store.recovery.is_some();
        self.touch_dir(i);
        let slot = &mut self.dirs[i];
        (slot.ino, slot.loc) = (ino, at);
        let as_of = match (recovering, slot.dir().as_of()) {
            (false, _) => 0,
            // One that stands for an empty one has no number, and shows nothing.
            (true, 0) => flashkit_bytes::get_u64(slot.buf, crate::format::header::SEQ).max(1),
            (true, as_of) => as_of,
        };
        slot.dir_mut().set_as_of(as_of);
        slot.dirty = deferred;
        if copied && !self.read_only {
            slot.change();
        }
        Ok(i)
    }

    /// Reads the copy of a directory whose page at `at` cannot be read into a slot, if there
    /// is one: a checkpoint copies the two directories that everything hangs on. What is its
    /// own copy is empty. One read.
    fn read_dir_copy(&mut self, i: DirSlot, ino: u32, at: PageAddr) -> Result<Bool, Fault> {
        let copy = match ino {
            ROOT_DIR => self.dir_copies[0],
            INDEX_DIR => self.dir_copies[1],
            _ => PageAddr::NONE,
        };
        if copy == at && ino == INDEX_DIR {
            self.dirs[i].dir_mut().init(ino, ROOT_DIR, MODE_DIR, b"");
            return Ok(Bool::True);
        }
        self.store.read_dir(copy, at, self.dirs[i].buf)
    }

    /// Whether an entry of a directory is that of a file that was in RAM only when power failed.
    fn is_stale(&self, dir: u32, rec: &DirRec) -> bool {
        let has_it = |f: &CachedFile<'_>| {
            f.ino != 0 && f.loc.is_none() && f.file().holder(self.store.volume) == (dir, rec.hash)
        };
        rec.is_entry()
            && rec.target == Target::File
            && rec.ptr == u32::MAX
            && !self.files.0.iter().any(has_it)
    }

    /// Whether the directory in the scratch page has such entries: it is to be
    /// loaded, as its size counts them.
    pub(crate) fn has_stale_entries(&self) -> bool {
        let dir = DirView::on(&*self.scratch);
        let mut entries = (0..dir.records()).map(|r| DirRec::decode(dir.record(r)));
        entries.any(|rec| self.is_stale(dir.ino(), &rec))
    }

    /// Drops entries of files that were in RAM only when power failed.
    fn drop_stale_pending(&mut self, i: DirSlot) {
        let ino = self.dirs[i].dir().ino();
        let mut r = 0;
        while r < self.dirs[i].dir().records() {
            let rec = DirRec::decode(self.dirs[i].dir().record(r));
            if self.is_stale(ino, &rec) {
                let mut dir = self.dirs[i].dir_mut();
                dir.record_remove(r);
                dir.set_size(dir.size().saturating_sub(1));
            } else {
                r += 1;
            }
        }
    }

    /// Writes a file's page if it has changed, as [`Index::flush_file`] does. One that no entry
    /// can be made to lead to is given up: its directory, or its part of that, is damaged, and so
    /// are all further calls for the file told.
    pub(crate) fn flush_file_or_drop(&mut self, i: FileSlot) -> Result<(), Fault> {
        crate::error::sound(self.flush_file(i)).map(|_| ())
    }

    /// Notes damage for which a change may be lost, to be told at the next sync.
    pub(crate) fn note_damage(&mut self, at: PageAddr, what: Damaged) {
        self.lost_change = Some((at, what, false));
    }

    /// Says once that changes are lost.
    pub(crate) fn tell_lost_change(&mut self) -> Result<(), Fault> {
        match &mut self.lost_change {
            Some((at, what, told @ false)) => {
                *told = true;
                Err(self.store.nand.damaged(*at, *what))
            }
            _ => Ok(()),
        }
    }

    /// The same of both cached files.
    pub(crate) fn flush_files(&mut self) -> Result<(), Fault> {
        self.flush_file_or_drop(FileSlot::First)?;
        self.flush_file_or_drop(FileSlot::Second)
    }

    /// Writes a directory's page if it has changed. One program.
    pub(crate) fn flush_dir(&mut self, i: DirSlot) -> Result<(), Fault> {
        if self.dirs[i].ino == 0 || !self.dirs[i].dirty {
            return Ok(());
        }
        // The map must lead to it: a page of the map may have to be written for that.
        self.map_ready(self.dirs[i].ino)?;
        let slot = &mut self.dirs[i];
        let len = slot.dir().len();
        let at = self
            .store
            .append(LogArea::Dir, &mut slot.buf[..len], Kind::Dir, slot.loc)?;
        let old = core::mem::replace(&mut slot.loc, at);
        slot.dir_mut().strip_notes();
        slot.clean();
        let ino = slot.ino;
        self.store.invalidate(old, MayProgram);
        let led = self.map_set(ino, at);
        self.not_in_part(led)
    }

    /// Empties a file slot for reuse and returns it.
    pub(crate) fn spare_file_slot(&mut self) -> Result<FileSlot, Fault> {
        let i = self.next_file_slot();
        self.flush_file_or_drop(i)?;
        self.drop_file(i);
        Ok(i)
    }

    /// Forgets a cached file without writing it.
    pub(crate) fn drop_file(&mut self, i: FileSlot) {
        if self.files[i].ino != 0 && self.store.heads.data[i.data_head()].block != u32::MAX {
            let share = u64::from(self.store.geo.block_size() / 4);
            self.small_files = self.files[i].file().size() < share;
        }
        self.files[i].clear();
        self.store.save_remnant(i.data_head());
    }

    /// Takes a slot for a file that was put together in it.
    pub(crate) fn adopt_file(&mut self, i: FileSlot, loc: PageAddr) {
        self.touch_file(i);
        let slot = &mut self.files[i];
        slot.ino = slot.file().ino();
        slot.loc = loc;
    }

    /// Brings a file into a slot.
    pub(crate) fn load_file(&mut self, node: FileRef) -> Result<FileSlot, Fault> {
        self.want_file(node.ino);
        if let Some(i) = self.file_slot(node.ino) {
            self.touch_file(i);
            return Ok(i);
        }
        let at = self.find_file(node)?;
        self.load_file_at(at)
    }

    /// Brings the file at a known page, not cached, into a slot.
    pub(crate) fn load_file_at(&mut self, at: PageAddr) -> Result<FileSlot, Fault> {
        let i = self.next_file_slot();
        if self.files[i].dirty {
            self.flush_file_or_drop(i)?;
        }
        self.drop_file(i);
        if self.store.scratch_holds.is(at) {
            self.files[i].buf.copy_from_slice(&self.scratch);
        } else {
            self.store.get_meta(at, self.files[i].buf, Kind::File)?;
        }
        self.files[i].file_mut().strip_notes();
        self.adopt_file(i, at);
        Ok(i)
    }

    /// Finds the page of a file that is not cached; it is then in the scratch page.
    pub(crate) fn find_file(&mut self, node: FileRef) -> Result<PageAddr, Fault> {
        // An inode in the scratch page is current: what replaces it takes it from there.
        let at = self.store.scratch_holds.metadata();
        if at.is_some()
            && self.scratch[KIND] == Kind::File as u8
            && FileView::on(&*self.scratch).ino() == node.ino
        {
            return Ok(at);
        }
        let index = (INDEX_DIR, ino_hash(self.store.volume, node.ino));
        // What cannot be read may be another's.
        let mut damage = None;
        for (dir, hash) in [(node.dir, node.hash), index] {
            let mut n = 0;
            loop {
                let rec = match self.dir_nth(dir, hash, n) {
                    Ok(Some(rec)) => rec,
                    Ok(None) | Err(Fault::NotFound) => break,
                    Err(e) if e.is_damage() => {
                        damage = Some(e);
                        break;
                    }
                    Err(e) => return Err(e),
                };
                n += 1;
                if !matches!(rec.target, Target::File | Target::Orphan) || rec.ptr == u32::MAX {
                    continue;
                }
                let at = PageAddr(rec.ptr);
                match self.load_scratch(at, Kind::File) {
                    Err(e) if e.is_damage() => damage = Some(e),
                    r => {
                        r?;
                        if FileView::on(&self.scratch).ino() == node.ino {
                            return Ok(at);
                        }
                    }
                }
            }
        }
        Err(damage.unwrap_or(Fault::NotFound))
    }

    /// Writes a file's page if it has changed, and points its directory entry there. One
    /// program; more when the page is a new name's and its directory has an older new name, or more
    /// removals than it has room for, to record first.
    pub(crate) fn flush_file(&mut self, i: FileSlot) -> Result<(), Fault> {
        if self.files[i].ino == 0 || !self.files[i].dirty {
            return Ok(());
        }
        let (dir, hash) = self.files[i].file().holder(self.store.volume);
        if self.files[i].loc.is_none() {
            if self.is_new_in(i.other(), dir) && self.is_older_file(i.other(), i) {
                self.flush_file_or_drop(i.other())?;
            }
            self.note_removals(i, dir)?;
        }
        self.program_file(i, dir, hash)
    }

    /// Notes in the log of a new file which files of its directory were removed before it
    /// came, so that its page records that. Without room for it, or when they are many, the
    /// directory is written instead.
    fn note_removals(&mut self, i: FileSlot, dir: u32) -> Result<(), Fault> {
        let Some(d) = self.with_removals(dir)? else {
            return Ok(());
        };
        let (count, room) = (
            self.dirs[d].dir().removed().count(),
            self.files[i].file().room(),
        );
        if count > REMOVED_MOST || count * extent::SIZE > room {
            return self.flush_dir(d);
        }
        self.put_removals(i, d);
        Ok(())
    }

    /// Notes them; there is room.
    // A call of its own: its stack is not needed while a directory is written.
    #[inline(never)]
    fn put_removals(&mut self, i: FileSlot, d: DirSlot) {
        let mut view = self.files[i].file_mut();
        for rec in self.dirs[d].dir().removed() {
            let at = view.record_search(REMOVED, 0);
            view.record_insert(at, &Extent::new(REMOVED, rec.ptr, 0).encode());
        }
    }

    /// Whether a slot holds a file whose name in `dir` no page on flash shows.
    fn is_new_in(&self, i: FileSlot, dir: u32) -> bool {
        let slot = &self.files[i];
        slot.ino != 0 && slot.loc.is_none() && slot.file().holder(self.store.volume).0 == dir
    }

    /// Numbers are given in order, and begin again after the last.
    fn is_older_file(&self, i: FileSlot, than: FileSlot) -> bool {
        self.files[than].ino.wrapping_sub(self.files[i].ino) < u32::MAX / 2
    }

    /// Writes the files whose names in `dir` are new, but for `except`: what changes next in that
    /// directory must not be seen without them. A program for each, two at most.
    pub(crate) fn flush_new_files(&mut self, dir: u32, except: u32) -> Result<(), Fault> {
        for &i in &FileSlot::ALL {
            if self.is_new_in(i, dir) && self.files[i].ino != except {
                self.flush_file(i)?;
            }
        }
        Ok(())
    }

    /// Writes a directory's page if it has removals that no page on flash shows.
    pub(crate) fn flush_removals(&mut self, dir: u32) -> Result<(), Fault> {
        match self.with_removals(dir)? {
            Some(d) => self.flush_dir(d),
            None => Ok(()),
        }
    }

    /// Brings a directory that has such removals into a slot.
    fn with_removals(&mut self, dir: u32) -> Result<Option<DirSlot>, Fault> {
        let group = self.store.deferred(dir);
        let slot = match self.dir_slot(dir) {
            None if group.is_some_and(|group| group.has_removals()) => Some(self.load_dir(dir)?),
            slot => slot,
        };
        Ok(slot.filter(|&d| self.dirs[d].removals))
    }

    /// Programs a cached file's page. That the slot is at the new place, and the old one free, is
    /// the caller's to say, when the file's entry can be found by it.
    pub(crate) fn write_file_page(&mut self, i: FileSlot) -> Result<PageAddr, Fault> {
        let slot = &mut self.files[i];
        let (len, dir) = (slot.file().len(), slot.file().parent());
        let noted = slot.file().removals();
        let page = &mut slot.buf[..len];
        let written = self.store.append(LogArea::File, page, Kind::File, slot.loc);
        if written.is_err() {
            // The directory may be written first now.
            slot.file_mut().forget_removals();
            return written;
        }
        slot.file_mut().strip_notes();
        (slot.dirty, slot.changed) = (false, false);
        if let Some(d) = self.dir_slot(dir).filter(|_| noted > 0) {
            self.store.since.removals += noted as u32;
            let slot = &mut self.dirs[d];
            slot.dir_mut().forget_removals();
            (slot.removals, slot.unsaved) = (false, true);
        }
        written
    }

    /// Writes a file's page and points the entry of `hash` in `dir` to it. When the directory is
    /// damaged the file is given up.
    fn program_file(&mut self, i: FileSlot, dir: u32, hash: u32) -> Result<(), Fault> {
        let old = self.files[i].loc;
        let orphan = self.files[i].file().flags() & FLAG_ORPHAN != 0;
        let target = if orphan { Target::Orphan } else { Target::File };
        // The page is a record: a page of the directory that is written after it must show it.
        let ready = match old.is_some() {
            true => self.repoint_reserve(dir, hash, target, old),
            false => self.load_dir(dir).map(|_| ()),
        };
        if let Err(e) = ready {
            self.give_up_file(i, e);
            return Err(e);
        }
        let at = self.write_file_page(i)?;
        let led = self.dir_repoint(dir, hash, target, old, at);
        if let Err(e) = self.not_in_part(led) {
            if e.is_damage() {
                self.store.invalidate(at, MayProgram);
            }
            self.give_up_file(i, e);
            return Err(e);
        }
        self.files[i].loc = at;
        self.store.invalidate(old, MayProgram);
        Ok(())
    }

    /// Forgets a file that no entry can be made to lead to, if that is because of damage. What one
    /// has overwritten that is on flash counts as free, and is what a mount finds of it: nothing
    /// more is written then, nor is that erased.
    fn give_up_file(&mut self, i: FileSlot, e: Fault) {
        if let Fault::Corrupt(what) = e {
            if self.files[i].loc.is_some() {
                self.store.nand.stop(Stopped::HalfDone);
            }
            self.drop_file(i);
            self.note_damage(self.store.nand.damaged_at(), what);
        }
    }

    /// Empties a directory slot for reuse and returns it.
    pub(crate) fn spare_dir_slot(&mut self) -> Result<DirSlot, Fault> {
        let i = self.dirs.least_recent();
        self.save_dir(i)?;
        if self.dirs[i].ino == INDEX_DIR {
            self.index_has_room = self.dirs[i].dir().has_room_for_more();
        }
        self.dirs[i].clear();
        Ok(i)
    }

    /// Takes a slot for a directory that was put together in it.
    pub(crate) fn adopt_dir(&mut self, i: DirSlot) {
        self.touch_dir(i);
        let slot = &mut self.dirs[i];
        slot.ino = slot.dir().ino();
        slot.change();
    }

    /// Makes the cache one that a checkpoint may be taken of: files and the map are written, of
    /// directories what is not deferred.
    pub(crate) fn write_cached(&mut self) -> Result<(), Fault> {
        self.flush_files()?;
        self.save_dirs()?;
        self.write_map()
    }

    pub(crate) fn sync_node(&mut self, node: Node) -> Result<(), Fault> {
        self.store.nand.only_reads = false;
        match node {
            Node::File(file) => match self.file_slot(file.ino) {
                Some(i) => self.sync_file(i),
                // What is not in RAM has been written, but for what had no place to go.
                None if self.lost_change.is_some() => {
                    // What was read before says nothing of its directory.
                    self.store.scratch_holds.forget();
                    self.find_file(file).map(|_| ())
                }
                None => Ok(()),
            },
            Node::Dir(dir) => {
                self.flush_new_files(dir, 0)?;
                if self.dir_slot(dir).is_none() && self.store.deferred(dir).is_none() {
                    return Ok(());
                }
                let i = self.load_dir(dir)?;
                self.flush_dir(i)
            }
        }
    }
}

impl<'r, N: Nand> Index<'r, N> {
    pub(crate) fn is_dirty(&self) -> bool {
        self.deferred_since
            || self.dirs.0.iter().any(|dir| dir.unsaved)
            || self.files.0.iter().any(|file| file.dirty)
            || self.map.has_changed()
    }
}

//! Writes that are held back: several files that grow in turn by a few bytes are written a run of
//! bytes at a time and each page of flash once, and what is removed soon is never written.
//!
//! Names are not held back: what is created, renamed or removed is so in the file system at once,
//! in this order. Only bytes are.
//!
//! Nothing is taken that there may be no room for. A write is held back as long as the volume has
//! far more room than all that is held could take, and goes through at once otherwise; before
//! anything else that takes room, when there is little, what is held goes first. So an error of a
//! full volume comes from the write that meets it. What is held is written
//!
//! * by `fsync`, that of the directory of a new file as well, and by the commit every few seconds;
//! * when a new file is closed, unless it is long and others like it were removed soon after
//!   ([`young`]); and when one is closed that was cut to nothing before;
//! * before the file takes another's name, and before its holes are asked for or punched;
//! * the oldest first, when it is more than a share of the machine's memory, or of one file more
//!   than [`FILE_MAX`]: so much has one request to wait for at most.
//!
//! A commit goes through each file once, from its start. What is written meanwhile to where it has
//! been is of the next commit: so it ends, even with a file that is written on and on.

mod pieces;
mod serve;
#[cfg(test)]
mod tests;
mod young;

use std::collections::{BTreeMap, HashMap};

use flashkit_vfs::{Attr, FileKind, Ino, Result, SetAttr, Time};

use self::pieces::Pieces;
use self::young::Young;
use crate::Served;

/// A write up to this length makes a file longer by all of itself, or not at all.
pub(crate) const PIECE: usize = 4096;
/// A longer write goes through.
const WRITE_MAX: usize = 256 << 10;
/// What is held of one file, and the memory for what is kept of it once it is written.
const FILE_MAX: usize = 1 << 20;
/// Files of which something is kept.
const KEPT_FILES_MAX: usize = 4 << 10;
/// Of the machine's memory one part in so many is for all that is held, within these bounds.
const MEMORY_SHARE: u64 = 16;
const HELD_MIN: u64 = 1 << 20;
const HELD_MAX: u64 = 64 << 20;
/// Pieces of all files.
const PIECES_MAX: usize = 8 << 10;
/// A new file of up to so many pages is written when it is closed: its inode is still at hand then.
/// To write that once more costs as much as such a file is worth.
const SHORT_PAGES: u64 = 4;
/// Pages that a piece may take beside its own: what is left of those at both ends, and the index.
const PAGES_BESIDE: u64 = 4;
/// One part in so many of the volume stays free of what is held, which takes at most a quarter of
/// the rest that is free.
const FREE_SHARE: u64 = 16;
const HELD_SHARE: u64 = 4;
/// Writes that go through before it is asked again whether there is room.
const WAIT: u32 = 64;
/// What is further behind in a file goes through: no file system here ends before.
const OFFSET_MAX: u64 = 1 << 31;
/// A step of a commit ends after so many bytes or pieces.
const STEP_BYTES: usize = 64 << 10;
const STEP_PIECES: usize = 16;

/// A file that is open, or of which something is held or kept.
#[derive(Default)]
struct File {
    opens: u32,
    pieces: Pieces,
    /// What was held and is written: reads find it here.
    kept: Pieces,
    /// Its place among files of which something is kept.
    kept_turn: u64,
    /// Where to look for the next piece that is written.
    at: u64,
    /// Its place among files of which something is held.
    turn: u64,
    /// In the file system, if that is known.
    size: Option<u64>,
    /// Of the file as it is shown, while something is held.
    mtime: Time,
    ctime: Time,
    /// Created, and not closed since.
    is_new: bool,
    /// The directory that it was created in, or has been moved to since, if it was not synced yet.
    dir: Option<Ino>,
    /// Cut to nothing, and not closed since.
    is_cut: bool,
    /// Nobody can open it any more.
    is_nameless: bool,
    /// What is held could not be written the last time.
    has_failed: bool,
}

impl File {
    /// Whether all bytes of a range are held or kept.
    fn covers(&self, mut offset: u64, end: u64) -> bool {
        while offset < end {
            let held = self.pieces.end_of(offset);
            match held.or_else(|| self.kept.end_of(offset)) {
                Some(next) => offset = next,
                None => return false,
            }
        }
        true
    }

    /// As what has been set in the file system.
    fn set(&mut self, set: &SetAttr) {
        if let Some(size) = set.size {
            self.is_cut |= size == 0 && !self.is_new;
            self.pieces.cut(size);
            self.kept.cut(size);
            self.size = Some(size);
            self.mtime = set.now;
        }
        self.mtime = set.mtime.unwrap_or(self.mtime);
        self.ctime = set.now;
    }
}

/// Where a commit is.
#[derive(Default)]
struct Commit {
    /// Files with turns before this are due.
    until: u64,
    /// The file it is in.
    file: Option<Ino>,
    /// What is before has been written.
    at: u64,
    /// Where the file's last piece ended when it began with it.
    end: u64,
}

/// A file system whose writes are held back.
pub(crate) struct Gathered {
    fs: Box<Served>,
    files: HashMap<Ino, File>,
    /// Those of which something is held, by their turns: the oldest first.
    turns: BTreeMap<u64, Ino>,
    turn_next: u64,
    commit: Commit,
    /// Of all files.
    bytes: usize,
    pieces: usize,
    /// Files of which something is kept, by their turns, and the memory that takes.
    kept_turns: BTreeMap<u64, Ino>,
    kept_memory: usize,
    young: Young,
    /// What was looked up last and what there was, if no name has changed since.
    looked_up: Option<(Ino, Vec<u8>, Option<Attr>)>,
    /// What has been created and not opened since, and its directory.
    created: Option<(Ino, Ino)>,
    /// Bytes that may be held; 0: none are.
    bytes_max: usize,
    /// Bytes of a page of the file system; 0 before that is known.
    page: u64,
    /// Bytes that what is held may take, and how often not to ask again.
    free: u64,
    wait: u32,
}

/// Bytes that may be held on this machine.
fn bytes_max() -> usize {
    let get = |var| nix::unistd::sysconf(var).ok().flatten().unwrap_or(0);
    let [pages, page] = [
        nix::unistd::SysconfVar::_PHYS_PAGES,
        nix::unistd::SysconfVar::PAGE_SIZE,
    ]
    .map(|var| u64::try_from(get(var)).unwrap_or(0));
    let share = pages.saturating_mul(page) / MEMORY_SHARE;
    share.clamp(HELD_MIN, HELD_MAX) as usize
}

impl Gathered {
    /// What is held back is a share of this machine's memory at most.
    pub(crate) fn new(fs: Box<Served>) -> Gathered {
        Gathered::with_max(fs, bytes_max())
    }

    /// Every write goes through.
    pub(crate) fn through(fs: Box<Served>) -> Gathered {
        Gathered::with_max(fs, 0)
    }

    pub(crate) fn with_max(fs: Box<Served>, bytes_max: usize) -> Gathered {
        Gathered {
            fs,
            files: HashMap::new(),
            turns: BTreeMap::new(),
            turn_next: 0,
            commit: Commit::default(),
            bytes: 0,
            pieces: 0,
            kept_turns: BTreeMap::new(),
            kept_memory: 0,
            young: Young::default(),
            looked_up: None,
            created: None,
            bytes_max,
            page: 0,
            free: 0,
            wait: 0,
        }
    }

    /// Begins a commit of all that is held now: in so many steps at most that is written.
    pub(crate) fn begin_commit(&mut self) -> usize {
        self.commit = Commit {
            until: self.turn_next,
            ..Commit::default()
        };
        self.bytes / STEP_BYTES + self.pieces / STEP_PIECES + 1
    }

    /// A step of the commit: writes some of what is due, what has been held longest first. Whether
    /// there is more of that.
    pub(crate) fn write_some(&mut self) -> Result<bool> {
        let (bytes, pieces) = (self.bytes, self.pieces);
        loop {
            let next = self.named_before(self.commit.until).next();
            let Some(ino) = next else {
                return Ok(false);
            };
            if bytes - self.bytes >= STEP_BYTES || pieces - self.pieces >= STEP_PIECES {
                return Ok(true);
            }
            self.commit_some(ino)?;
        }
    }

    /// Ends the commit: what is due is durable then. The first error is returned, after all files
    /// have been tried.
    pub(crate) fn end_commit(&mut self) -> Result<()> {
        let until = self.commit.until;
        let files: Vec<Ino> = self.named_before(until).collect();
        let mut written = Ok(());
        for ino in files {
            let mut done = Ok(());
            while done.is_ok() && self.turn_of(ino).is_some_and(|turn| turn < until) {
                done = self.commit_some(ino);
            }
            written = written.and(done);
        }
        self.young.committed();
        self.fs.sync().and(written)
    }

    /// Goes on with the commit in a file: writes the next piece, or is through. What is held of it
    /// then was written since, and takes a new turn.
    fn commit_some(&mut self, ino: Ino) -> Result<()> {
        let held = self.files.get_mut(&ino);
        let Some(file) = held.filter(|file| !file.pieces.is_empty()) else {
            return Ok(());
        };
        if self.commit.file != Some(ino) {
            self.commit.file = Some(ino);
            (self.commit.at, self.commit.end) = (0, file.pieces.end());
        }
        match file.pieces.behind(self.commit.at) {
            Some(at) if at < self.commit.end => {
                let written = self.write_piece(ino, at);
                if written.is_err() {
                    self.commit.file = None;
                }
                self.commit.at = written?;
                Ok(())
            }
            _ => {
                self.turns.remove(&file.turn);
                file.turn = self.turn_next;
                let times = (file.mtime, file.ctime);
                self.turns.insert(file.turn, ino);
                self.turn_next += 1;
                self.set_times(ino, times)
            }
        }
    }

    /// The turn of a file of which something is held.
    fn turn_of(&self, ino: Ino) -> Option<u64> {
        let file = self.files.get(&ino)?;
        (!file.pieces.is_empty()).then_some(file.turn)
    }

    /// Writes all that is held. The first error is returned, after all files have been tried.
    fn write_held(&mut self) -> Result<()> {
        let files: Vec<Ino> = self.named_before(u64::MAX).collect();
        let mut written = Ok(());
        for ino in files {
            written = written.and(self.write_file(ino));
        }
        written
    }

    /// Files of which something is held, the oldest first. What is held of one that nobody can open
    /// any more need not be durable.
    fn named_before(&self, until: u64) -> impl Iterator<Item = Ino> {
        let files = self.turns.range(..until).map(|(_, ino)| *ino);
        files.filter(|ino| self.files.get(ino).is_some_and(|file| !file.is_nameless))
    }

    /// Writes the piece of a file that begins there, and the file's times after the last: where the
    /// piece ends. After an error it stays, and is tried again.
    fn write_piece(&mut self, ino: Ino, at: u64) -> Result<u64> {
        let held = self.files.get(&ino);
        let Some((file, piece)) = held.and_then(|file| Some((file, file.pieces.get(at)?))) else {
            return Ok(at);
        };
        let end = at + piece.len() as u64;
        let times = (file.mtime, file.ctime);
        self.free = (self.free).saturating_sub(takes(self.page, piece.len(), 1));
        if let Err(error) = self.fs.write(ino, at, piece, times.0) {
            self.change(ino, |file| file.has_failed = true);
            return Err(error);
        }
        self.change(ino, |file| {
            file.has_failed = false;
            let piece = file.pieces.remove(at);
            file.kept.put(at, &piece);
            file.at = end;
            file.size = file.size.map(|size| size.max(end));
        });
        self.keep_less();
        match self.holds(ino) {
            true => Ok(end),
            false => self.set_times(ino, times).map(|()| end),
        }
    }

    /// Sets a file's times, where those of the last write are not all.
    fn set_times(&mut self, ino: Ino, (mtime, ctime): (Time, Time)) -> Result<()> {
        if mtime == ctime {
            return Ok(());
        }
        let set = SetAttr {
            mtime: Some(mtime),
            now: ctime,
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).map(|_| ())
    }

    /// Drops what has been kept longest, until all that is held and kept is not too much.
    fn keep_less(&mut self) {
        while self.bytes + self.kept_memory > self.bytes_max
            || self.kept_turns.len() > KEPT_FILES_MAX
        {
            let Some(&oldest) = self.kept_turns.values().next() else {
                return;
            };
            self.change(oldest, |file| file.kept = Pieces::default());
        }
    }

    /// Changes what is held and kept of a file, and counts it. A file that is not open, and of
    /// which there is nothing, is not known any more.
    fn change(&mut self, ino: Ino, work: impl FnOnce(&mut File)) {
        let file = self.files.entry(ino).or_default();
        let (bytes, pieces) = (file.pieces.bytes(), file.pieces.count());
        let kept = file.kept.memory();
        work(file);
        if file.kept.memory() > FILE_MAX {
            file.kept = Pieces::default();
        }
        self.kept_memory = self.kept_memory + file.kept.memory() - kept;
        match (kept == 0, file.kept.is_empty()) {
            (true, false) => {
                file.kept_turn = self.turn_next;
                self.kept_turns.insert(file.kept_turn, ino);
                self.turn_next += 1;
            }
            (false, true) => {
                self.kept_turns.remove(&file.kept_turn);
            }
            _ => {}
        }
        self.bytes = self.bytes + file.pieces.bytes() - bytes;
        self.pieces = self.pieces + file.pieces.count() - pieces;
        match (pieces == 0, file.pieces.is_empty()) {
            (true, false) => {
                file.turn = self.turn_next;
                self.turns.insert(file.turn, ino);
                self.turn_next += 1;
            }
            (false, true) => {
                self.turns.remove(&file.turn);
            }
            _ => {}
        }
        if file.opens == 0 && file.pieces.is_empty() && file.kept.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Drops what is held of a file that is gone.
    fn drop_file(&mut self, ino: Ino) {
        if self.files.contains_key(&ino) {
            self.change(ino, |file| {
                (file.pieces, file.kept) = (Pieces::default(), Pieces::default());
                file.opens = 0;
            });
        }
    }

    /// Writes all that is held of a file.
    fn write_file(&mut self, ino: Ino) -> Result<()> {
        while let Some(at) = self.next_piece(ino) {
            self.write_piece(ino, at)?;
        }
        Ok(())
    }

    /// Where the piece of a file begins that is written next.
    fn next_piece(&self, ino: Ino) -> Option<u64> {
        let file = self.files.get(&ino)?;
        file.pieces.next(file.at)
    }

    /// Writes what is held of a part of a file, to its last piece's end.
    fn write_part(&mut self, ino: Ino, offset: u64, end: u64) -> Result<()> {
        loop {
            let file = self.files.get(&ino);
            match file.and_then(|file| file.pieces.behind(offset)) {
                Some(at) if at < end => self.write_piece(ino, at)?,
                _ => return Ok(()),
            };
        }
    }

    fn holds(&self, ino: Ino) -> bool {
        (self.files.get(&ino)).is_some_and(|file| !file.pieces.is_empty())
    }

    /// Whether so many bytes may be taken in so many pieces, beside what is held. What has been
    /// held longest is written for that, as far as it has to be.
    fn make_room(&mut self, bytes: usize, pieces: usize) -> bool {
        loop {
            let all = takes(self.page, self.bytes + bytes, self.pieces + pieces);
            if self.page > 0 && all <= self.free {
                return true;
            }
            if self.wait > 0 {
                self.wait -= 1;
                return false;
            }
            let Ok(space) = self.fs.statfs() else {
                return false;
            };
            self.page = space.block_size.into();
            let free = space.blocks_free.saturating_sub(space.blocks / FREE_SHARE);
            self.free = free / HELD_SHARE * self.page;
            if takes(self.page, self.bytes + bytes, self.pieces + pieces) <= self.free {
                return true;
            }
            if !self.write_oldest() {
                self.wait = WAIT;
                return false;
            }
        }
    }

    /// Before something that takes room for so many bytes: what is held goes first, unless there
    /// is plenty. That there is no room for it is met by what comes.
    fn yield_to(&mut self, len: usize) {
        if self.pieces > 0 {
            self.make_room(2 * len, 1);
        }
        self.free = (self.free).saturating_sub(takes(self.page, 2 * len, 1));
    }

    /// Writes a piece of what has been held longest; whether there was any that could be written.
    /// What could not is passed over from then on: nobody but those who sync that file, or all, is
    /// told.
    fn write_oldest(&mut self) -> bool {
        loop {
            let is_sound = |ino: &&Ino| self.files.get(ino).is_some_and(|file| !file.has_failed);
            let Some(&oldest) = self.turns.values().find(is_sound) else {
                return false;
            };
            let at = self.next_piece(oldest).unwrap_or(0);
            if self.write_piece(oldest, at).is_ok() {
                return true;
            }
        }
    }

    /// Whether a write is held back, which it is then.
    fn hold(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<bool> {
        let is_short = (1..=WRITE_MAX.min(self.bytes_max)).contains(&data.len());
        let pieces = 2 + data.len() / pieces::CHUNK as usize;
        // On a volume that takes no change it is this write that is told.
        let is_held = is_short && offset < OFFSET_MAX && self.fs.takes_removals();
        if !is_held || !self.make_room(data.len(), pieces) {
            return Ok(false);
        }
        let (size, end) = match self
            .files
            .get(&ino)
            .map(|file| (file.size, file.pieces.end()))
        {
            Some((Some(size), end)) => (size, end),
            _ => {
                let attr = self.fs.getattr(ino)?;
                if attr.kind != FileKind::File {
                    return Ok(false);
                }
                (attr.size, 0)
            }
        };
        // What would be in between may take room as well.
        if offset > size.max(end) {
            return Ok(false);
        }
        let held = |this: &Self| this.files.get(&ino).map_or(0, |file| file.pieces.bytes());
        while held(self) + data.len() > FILE_MAX {
            let at = self.next_piece(ino).unwrap_or(0);
            self.write_piece(ino, at)?;
        }
        while self.bytes + data.len() > self.bytes_max || self.pieces + pieces > PIECES_MAX {
            if !self.write_oldest() {
                return Ok(false);
            }
        }
        self.change(ino, |file| {
            file.pieces.put(offset, data);
            file.size.get_or_insert(size);
            (file.mtime, file.ctime) = (now, now);
        });
        self.keep_less();
        Ok(true)
    }

    /// The size of a file after a write that failed. Who is told that nothing was written must not
    /// find the file longer.
    fn left_of(&mut self, ino: Ino, before: u64, len: usize, now: Time) -> Option<u64> {
        let size = self.fs.getattr(ino).ok()?.size;
        if len > PIECE || size <= before {
            return Some(size);
        }
        let set = SetAttr {
            size: Some(before),
            now,
            ..SetAttr::default()
        };
        Some(self.fs.setattr(ino, &set).ok()?.size)
    }

    /// An attribute of a file has changed, or one of its names.
    fn touch(&mut self, ino: Ino, now: Time) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.ctime = now;
        }
    }

    /// Attributes with what is held.
    fn shown(&self, mut attr: Attr) -> Attr {
        let held = self.files.get(&attr.ino);
        if let Some(file) = held.filter(|file| !file.pieces.is_empty()) {
            let grown = file.pieces.end().saturating_sub(attr.size);
            attr.size += grown;
            attr.blocks += grown.div_ceil(512);
            (attr.mtime, attr.ctime) = (file.mtime, file.ctime);
        }
        attr
    }

    /// What a name refers to, where that matters: files are open, or something is held of them.
    fn named(&mut self, dir: Ino, name: &[u8]) -> Option<Attr> {
        if self.files.is_empty() && self.young.is_empty() {
            return None;
        }
        match &self.looked_up {
            Some((at, last, attr)) if (*at, &last[..]) == (dir, name) => *attr,
            _ => self.fs.lookup(dir, name).ok(),
        }
    }

    /// A file has a name in this directory instead of the one before.
    fn moved(&mut self, ino: Ino, dir: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.dir = file.dir.and(Some(dir));
        }
    }

    /// Files that are new in a directory, in the order of their numbers.
    fn new_in(&self, dir: Ino) -> Vec<Ino> {
        let is_in = |file: &File| file.dir == Some(dir) && !file.is_nameless;
        let new = self.files.iter().filter(|(_, file)| is_in(file));
        let mut new: Vec<Ino> = new.map(|(ino, _)| *ino).collect();
        new.sort_unstable();
        new
    }

    /// Before a change of names, which takes room, and may be of what was looked up.
    fn change_names(&mut self) {
        self.looked_up = None;
        self.yield_to(0);
    }

    /// A file has lost a name, maybe its last: what is held of one without is dropped, at once or
    /// when it is closed.
    fn lost_name(&mut self, gone: Option<Attr>, now: Time) {
        let Some(attr) = gone.filter(|attr| attr.kind == FileKind::File) else {
            return;
        };
        if attr.nlink > 1 {
            return self.touch(attr.ino, now);
        }
        self.young.remove(attr.ino);
        match self.files.get_mut(&attr.ino) {
            Some(file) if file.opens > 0 => file.is_nameless = true,
            _ => self.drop_file(attr.ino),
        }
    }

    /// Reads, and shows what is held over that.
    fn read_held(
        &mut self,
        ino: Ino,
        offset: u64,
        buf: &mut [u8],
        read: impl FnOnce(&mut Served, &mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        let some = self.files.get_mut(&ino);
        let some = some.filter(|file| !file.pieces.is_empty() || !file.kept.is_empty());
        let Some(file) = some else {
            return read(&mut *self.fs, buf);
        };
        let size = match file.size {
            Some(size) => size,
            None => self.fs.getattr(ino)?.size,
        };
        file.size = Some(size);
        let left = size.max(file.pieces.end()).saturating_sub(offset);
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = &mut buf[..len];
        if file.covers(offset, offset + len as u64) {
            file.kept.read(offset, buf);
        } else {
            let there = read(&mut *self.fs, buf)?;
            buf[there..].fill(0);
        }
        file.pieces.read(offset, buf);
        Ok(len)
    }
}

/// What so many bytes may take in so many pieces.
fn takes(page: u64, bytes: usize, pieces: usize) -> u64 {
    bytes as u64 + pieces as u64 * PAGES_BESIDE * page
}

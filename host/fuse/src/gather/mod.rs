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
//! * by `fsync`, and by the commit every few seconds;
//! * when a new file is closed, unless it is long and others like it were removed soon after
//!   ([`young`]); and when one is closed that was cut to nothing before;
//! * before the file takes another's name, and before its holes are asked for or punched;
//! * the oldest first, when it is more than a share of the machine's memory, or of one file more
//!   than [`FILE_MAX`].

mod pieces;
mod serve;
mod young;

use std::collections::{BTreeMap, HashMap};

use flashkit_vfs::{Attr, FileKind, Ino, Result, SetAttr, Time};

use self::pieces::Pieces;
use self::young::Young;
use crate::Served;

/// A longer write goes through.
const WRITE_MAX: usize = 256 << 10;
/// What is held of one file, and what is kept of it once it is written.
const FILE_MAX: usize = 1 << 20;
const KEPT_PIECES_MAX: usize = 512;
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
    /// In the file system, if that is known. It is while something is held.
    size: Option<u64>,
    /// Of the file as it is shown, while something is held.
    mtime: Time,
    ctime: Time,
    /// Created, and not closed since.
    is_new: bool,
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

/// A file system whose writes are held back.
pub(crate) struct Gathered {
    fs: Box<Served>,
    files: HashMap<Ino, File>,
    /// Those of which something is held, by their turns: the oldest first.
    turns: BTreeMap<u64, Ino>,
    turn_next: u64,
    /// Of all files.
    bytes: usize,
    pieces: usize,
    /// Files of which something is kept, by their turns, and bytes of all of these.
    kept_turns: BTreeMap<u64, Ino>,
    kept_bytes: usize,
    young: Young,
    /// What was looked up last and what there was, if no name has changed since.
    looked_up: Option<(Ino, Vec<u8>, Option<Attr>)>,
    /// What has been created and not opened since.
    created: Option<Ino>,
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

    fn with_max(fs: Box<Served>, bytes_max: usize) -> Gathered {
        Gathered {
            fs,
            files: HashMap::new(),
            turns: BTreeMap::new(),
            turn_next: 0,
            bytes: 0,
            pieces: 0,
            kept_turns: BTreeMap::new(),
            kept_bytes: 0,
            young: Young::default(),
            looked_up: None,
            created: None,
            bytes_max,
            page: 0,
            free: 0,
            wait: 0,
        }
    }

    /// What is held now has turns before this.
    pub(crate) fn turn(&self) -> u64 {
        self.turn_next
    }

    /// Steps at most to write what is held now.
    pub(crate) fn steps(&self) -> usize {
        self.bytes / STEP_BYTES + self.pieces / STEP_PIECES + 1
    }

    /// A step of a commit: writes some of what has been held longest, of turns before `until`.
    /// Whether there is more of that.
    pub(crate) fn write_some(&mut self, until: u64) -> Result<bool> {
        let (bytes, pieces) = (self.bytes, self.pieces);
        loop {
            let next = self.named_before(until).next();
            let Some(ino) = next else {
                return Ok(false);
            };
            if bytes - self.bytes >= STEP_BYTES || pieces - self.pieces >= STEP_PIECES {
                return Ok(true);
            }
            self.write_piece(ino)?;
        }
    }

    /// Makes everything durable that was held when a commit began.
    pub(crate) fn commit(&mut self, until: u64) -> Result<()> {
        let written = self.write_held(until);
        self.young.committed();
        self.fs.sync().and(written)
    }

    /// Writes what is held, of turns before `until`. The first error is returned, after all files
    /// have been tried.
    fn write_held(&mut self, until: u64) -> Result<()> {
        let files: Vec<Ino> = self.named_before(until).collect();
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

    /// Writes a piece of a file, if there is one, and its times after the last. After an error it
    /// stays, and is tried again.
    fn write_piece(&mut self, ino: Ino) -> Result<()> {
        let Some(file) = self.files.get(&ino) else {
            return Ok(());
        };
        let Some((at, piece)) = file.pieces.next(file.at) else {
            return Ok(());
        };
        let end = at + piece.len() as u64;
        let (mtime, ctime) = (file.mtime, file.ctime);
        self.free = (self.free).saturating_sub(takes(self.page, piece.len(), 1));
        let written = self.fs.write(ino, at, piece, mtime);
        if written.is_err() {
            self.change(ino, |file| file.has_failed = true);
            return written;
        }
        self.change(ino, |file| {
            file.has_failed = false;
            let piece = file.pieces.remove(at);
            file.kept.put(at, &piece);
            file.at = end;
            file.size = file.size.map(|size| size.max(end));
        });
        self.keep_less();
        if self.holds(ino) || ctime == mtime {
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
        while self.bytes + self.kept_bytes > self.bytes_max
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
        let kept = file.kept.bytes();
        work(file);
        if file.kept.bytes() > FILE_MAX || file.kept.count() > KEPT_PIECES_MAX {
            file.kept = Pieces::default();
        }
        self.kept_bytes = self.kept_bytes + file.kept.bytes() - kept;
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
        while self.holds(ino) {
            self.write_piece(ino)?;
        }
        Ok(())
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
            if self.write_piece(oldest).is_ok() {
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
            self.write_piece(ino)?;
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
        let file = self.files.get(&ino);
        let Some((file, size)) = file.and_then(|file| Some((file, file.size?))) else {
            return read(&mut *self.fs, buf);
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{files, flash};
    use flashkit_sim::Rng;
    use flashkit_vfs::{Error, FileSystem, Measured, MemoryFs, NewInode};

    /// What is counted, and in which order, is what there is.
    pub(super) fn check(fs: &Gathered) {
        let all = |of: fn(&File) -> usize| fs.files.values().map(of).sum::<usize>();
        assert_eq!(fs.bytes, all(|file| file.pieces.bytes()));
        assert_eq!(fs.pieces, all(|file| file.pieces.count()));
        assert_eq!(fs.kept_bytes, all(|file| file.kept.bytes()));
        assert!(fs.bytes + fs.kept_bytes <= fs.bytes_max);
        for (turn, ino) in &fs.turns {
            assert!(fs.holds(*ino) && fs.files[ino].turn == *turn);
        }
        for (turn, ino) in &fs.kept_turns {
            let file = &fs.files[ino];
            assert!(!file.kept.is_empty() && file.kept_turn == *turn);
        }
        let held = all(|file| usize::from(!file.pieces.is_empty()));
        let kept = all(|file| usize::from(!file.kept.is_empty()));
        assert_eq!((fs.turns.len(), fs.kept_turns.len()), (held, kept));
    }

    /// Programs for logs that grow in turn by 100 bytes, until all is durable.
    fn logs(fs: &mut dyn Measured, count: u32) -> u64 {
        let files = files(fs, count);
        let before = fs.cost().page_programs;
        for i in 0..2_000 {
            let file = files[i % files.len()];
            let at = (i / files.len() * 100) as u64;
            fs.write(file, at, &[i as u8; 100], Time::now()).unwrap();
        }
        fs.sync().unwrap();
        fs.cost().page_programs - before
    }

    #[test]
    fn logs_that_grow_in_turn_are_programmed_once() {
        let costs = [1, 2, 4, 16].map(|count| {
            let through = logs(&mut *flash("micron-20m"), count);
            let gathered = logs(&mut Gathered::new(flash("micron-20m")), count);
            (count, through, gathered)
        });
        // 200,000 bytes are 98 pages.
        let pinned = [
            (1, 272, 105),
            (2, 208, 105),
            (4, 2236, 108),
            (16, 2245, 122),
        ];
        assert_eq!(
            costs, pinned,
            "files, programs of writes that go through, and gathered"
        );
    }

    /// What has been taken has room, however the volume is filled: every byte is there in the end.
    #[test]
    fn nothing_is_taken_that_a_full_volume_has_no_room_for() {
        for seed in 0..6 {
            let mut rng = Rng::new(seed);
            let mut fs = Gathered::new(flash("micron-20m"));
            let files = files(&mut fs, 1 + 20 * (seed as u32 % 3));
            let mut held = vec![Vec::new(); files.len()];
            let (root, now) = (fs.root(), Time::default());
            let mut refused = 0;
            for i in 0..400_000u64 {
                let which = rng.below(files.len() as u64) as usize;
                let len = [100, 3_000, 16_000, 200_000][rng.below(4) as usize];
                let data = vec![i as u8; 1 + rng.below(len) as usize];
                let end = held[which].len() as u64;
                match fs.write(files[which], end, &data, now) {
                    Ok(()) => held[which].extend_from_slice(&data),
                    Err(Error::NoSpace) => {
                        refused += 1;
                        // A part of it may be there.
                        let there = fs.getattr(files[which]).unwrap().size;
                        held[which].extend_from_slice(&data[..(there - end) as usize]);
                    }
                    Err(error) => panic!("seed {seed}: {error}"),
                }
                if rng.one_in(500) {
                    let name = format!("more {i}").into_bytes();
                    let _ = fs.create(root, &name, &NewInode::default());
                }
                if refused > 40 {
                    break;
                }
            }
            assert!(refused > 40, "seed {seed}");
            let synced = fs.sync();
            assert!(matches!(synced, Ok(()) | Err(Error::NoSpace)), "{synced:?}");
            assert_eq!((fs.bytes, fs.pieces), (0, 0), "seed {seed}");
            for (file, held) in files.iter().zip(&held) {
                let mut read = vec![0; held.len() + 1];
                assert_eq!(fs.read(*file, 0, &mut read), Ok(held.len()), "seed {seed}");
                assert!(read[..held.len()] == held[..], "seed {seed}");
            }
        }
    }

    /// What a program may do to a file.
    #[derive(Clone, Copy)]
    enum Change {
        Write,
        Cut,
        SetTime,
        SetMode,
        Punch,
    }

    fn change(fs: &mut dyn FileSystem, ino: Ino, what: Change, at: (u64, u64), step: u32) {
        let (offset, len) = at;
        let time = |secs| Time { secs, nanos: 0 };
        let now = time(step.into());
        let set = SetAttr {
            now,
            ..SetAttr::default()
        };
        let set = match what {
            Change::Write => {
                let data = vec![step as u8; len as usize];
                return fs.write(ino, offset, &data, now).unwrap();
            }
            Change::Punch => return fs.punch_hole(ino, offset, len, now).unwrap(),
            Change::Cut => SetAttr {
                size: Some(offset),
                ..set
            },
            Change::SetTime => SetAttr {
                mtime: Some(time(3)),
                ..set
            },
            Change::SetMode => SetAttr {
                mode: Some(0o600),
                ..set
            },
        };
        fs.setattr(ino, &set).unwrap();
    }

    fn content(fs: &mut dyn FileSystem, ino: Ino, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![1; len as usize];
        let there = fs.read(ino, offset, &mut bytes).unwrap();
        bytes.truncate(there);
        bytes
    }

    /// Against a file system that holds nothing back: the same calls have the same answers, and
    /// what a sync leaves is the same.
    #[test]
    fn a_program_sees_no_difference() {
        use Change::{Cut, Punch, SetMode, SetTime, Write};
        const CHANGES: [Change; 9] = [
            Write, Write, Write, Write, Write, Cut, SetTime, SetMode, Punch,
        ];
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let mut held = Gathered::with_max(flash("micron-20m"), 200_000);
            let mut plain = MemoryFs::new();
            let inos = files(&mut held, 6);
            let twins = files(&mut plain, 6);
            for step in 0..400u32 {
                let which = rng.below(6) as usize;
                let (ino, twin) = (inos[which], twins[which]);
                let offset = rng.below(300_000);
                let longest = [20, 5_000, 90_000][rng.below(3) as usize];
                let len = 1 + rng.below(longest);
                match rng.below(12) {
                    0 => held.fsync(ino).unwrap(),
                    1 => while held.write_some(u64::MAX).unwrap() {},
                    2 => {
                        let read = content(&mut held, ino, offset, len);
                        let expected = content(&mut plain, twin, offset, len);
                        assert!(read == expected, "seed {seed}, step {step}");
                    }
                    n => {
                        let what = CHANGES[n as usize - 3];
                        change(&mut held, ino, what, (offset, len), step);
                        change(&mut plain, twin, what, (offset, len), step);
                    }
                }
                let shown = |attr: Attr| (attr.size, attr.mtime, attr.ctime, attr.mode);
                let is = shown(held.getattr(ino).unwrap());
                let expected = shown(plain.getattr(twin).unwrap());
                assert_eq!(is, expected, "seed {seed}, step {step}");
                check(&held);
            }
            held.sync().unwrap();
            assert_eq!((held.bytes, held.pieces), (0, 0), "seed {seed}");
            for (ino, twin) in inos.into_iter().zip(twins) {
                let is = held.fs.getattr(ino).unwrap();
                let expected = plain.getattr(twin).unwrap();
                let times = |attr: Attr| (attr.size, attr.mtime, attr.ctime);
                assert_eq!(times(is), times(expected), "seed {seed}");
                let read = content(&mut *held.fs, ino, 0, is.size);
                assert!(read == content(&mut plain, twin, 0, is.size), "seed {seed}");
            }
        }
    }

    /// Programs for files of so many bytes that are closed, and for those that are removed then.
    fn lives(bytes: usize, removed: bool) -> u64 {
        let mut fs = Gathered::new(flash("micron-20m"));
        let (root, now, new) = (fs.root(), Time::default(), NewInode::default());
        let before = fs.cost().page_programs;
        for n in 0..20 {
            let name = format!("f{n}").into_bytes();
            let file = fs.create(root, &name, &new).unwrap().ino;
            fs.open(file).unwrap();
            fs.write(file, 0, &vec![1; bytes], now).unwrap();
            fs.release(file).unwrap();
            if removed && n > 0 {
                fs.unlink(root, format!("f{}", n - 1).as_bytes(), now)
                    .unwrap();
            }
        }
        fs.sync().unwrap();
        check(&fs);
        fs.cost().page_programs - before
    }

    #[test]
    fn what_is_removed_soon_is_not_written() {
        let costs =
            [4_000, 20_000, 200_000].map(|bytes| (bytes, lives(bytes, false), lives(bytes, true)));
        let pinned = [(4_000, 71, 75), (20_000, 211, 68), (200_000, 1979, 421)];
        assert_eq!(
            costs, pinned,
            "bytes, programs of 20 files, and if 19 of them are removed"
        );
    }

    /// What the chip does to one file is told to those who sync it, and to nobody else.
    #[test]
    fn a_file_that_cannot_be_written_is_in_nobodys_way() {
        let mut fs = Gathered::with_max(flash("micron-20m"), 300_000);
        let [bad, good] = files(&mut fs, 2)[..] else {
            panic!()
        };
        let (root, now) = (fs.root(), Time::default());
        fs.write(bad, 0, &[1; 100], now).unwrap();
        // As if its inode were damaged.
        let gone = fs.fs.unlink(root, b"f0", now);
        assert_eq!(gone, Ok(()));
        for n in 0..200 {
            fs.write(good, n * 16_384, &[2; 16_384], now).unwrap();
        }
        assert!(fs.bytes <= 300_000);
        fs.fsync(good).unwrap();
        assert_eq!(fs.sync(), Err(Error::NotFound), "of the bad one");
        assert!(fs.holds(bad));
        fs.setattr(bad, &SetAttr::default()).unwrap_err();
        fs.drop_file(bad);
        assert_eq!(fs.sync(), Ok(()));
    }
}

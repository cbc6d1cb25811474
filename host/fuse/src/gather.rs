//! Small writes, gathered: several files that grow in turn by a few bytes are written a run of
//! bytes at a time, and each page of flash once.
//!
//! Nothing is taken that there may be no room for. A write is gathered as long as the volume has
//! far more room than all that is gathered could take, and goes through at once otherwise; before
//! anything else that takes room, when there is little, what is gathered goes first. So an error of
//! a full volume comes from the write that meets it. What is gathered is written by `fsync`, by the
//! commit every few seconds, and before anything that would make it matter: reading the file,
//! cutting it, removing it, renaming.

use flashkit_meter::Counters;
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result, SetAttr,
    SetXattr, StatFs, Time,
};

use crate::Served;

/// A longer write goes through.
const WRITE_MAX: usize = 16 << 10;
/// Longest run.
const RUN_MAX: usize = 64 << 10;
/// Runs, at most: each is of another file.
const RUNS: usize = 64;
/// Where a run that has grown too long is parted: pages of flash are as long as this, or it is a
/// multiple.
const ALIGNED: u64 = 16 << 10;
/// Pages that a run may take beside its own: what is left of those at both ends, and the index.
const PAGES_BESIDE: u64 = 8;
/// One part in so many of the volume stays free of what is gathered, which takes half as much at
/// most.
const FREE_SHARE: u64 = 16;
/// Writes that go through before it is asked again whether there is room.
const WAIT: u32 = 64;
/// What is further behind in a file goes through: no file system here ends before.
const OFFSET_MAX: u64 = 1 << 31;

/// Bytes of a file that are not written yet.
struct Run {
    ino: Ino,
    offset: u64,
    bytes: Vec<u8>,
    /// When the last of them came.
    now: Time,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Takes bytes up that begin in the run or right behind it; whether they do.
    fn take_up(&mut self, offset: u64, data: &[u8], now: Time) -> bool {
        if offset < self.offset || offset > self.end() {
            return false;
        }
        let at = (offset - self.offset) as usize;
        let over = data.len().min(self.bytes.len() - at);
        self.bytes[at..at + over].copy_from_slice(&data[..over]);
        self.bytes.extend_from_slice(&data[over..]);
        self.now = now;
        true
    }
}

/// A file system whose small writes are gathered.
pub(crate) struct Gathered {
    fs: Box<Served>,
    /// The oldest first.
    runs: Vec<Run>,
    /// Files that have been created and not closed since, the oldest first.
    fresh: Vec<Ino>,
    /// Bytes of a page of the file system; 0 before that is known.
    page: u64,
    /// Bytes that what is gathered may take, and how often not to ask again.
    free: u64,
    wait: u32,
}

impl Gathered {
    pub(crate) fn new(fs: Box<Served>) -> Gathered {
        Gathered {
            fs,
            runs: Vec::new(),
            fresh: Vec::new(),
            page: 0,
            free: 0,
            wait: 0,
        }
    }

    /// Writes what is gathered of a file. After an error it stays, and is tried again.
    fn write_run(&mut self, ino: Ino) -> Result<()> {
        let Some(at) = self.runs.iter().position(|run| run.ino == ino) else {
            return Ok(());
        };
        let run = &self.runs[at];
        self.free = (self.free).saturating_sub(self.takes(run.bytes.len(), 1));
        self.fs.write(ino, run.offset, &run.bytes, run.now)?;
        self.runs.remove(at);
        Ok(())
    }

    /// Writes all that is gathered. The first error is returned, after all have been tried.
    fn write_all(&mut self) -> Result<()> {
        let files: Vec<Ino> = self.runs.iter().map(|run| run.ino).collect();
        let mut first = Ok(());
        for ino in files {
            first = first.and(self.write_run(ino));
        }
        first
    }

    /// What so many bytes may take, in runs or in one that is written at once.
    fn takes(&self, bytes: usize, runs: usize) -> u64 {
        bytes as u64 + runs as u64 * PAGES_BESIDE * self.page
    }

    /// Whether there is so much room that something may be taken which takes so many bytes, beside
    /// what is gathered.
    fn has_room(&mut self, more: usize) -> Result<bool> {
        let gathered: usize = self.runs.iter().map(|run| run.bytes.len()).sum();
        let runs = self.runs.len() + 1;
        if self.page > 0 && self.takes(gathered + more, runs) <= self.free {
            return Ok(true);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return Ok(false);
        }
        let space = self.fs.statfs()?;
        self.page = space.block_size.into();
        let kept_free = space.blocks / FREE_SHARE * self.page;
        let free = (space.blocks_free * self.page).saturating_sub(kept_free);
        self.free = free.min(kept_free / 2);
        let fits = self.takes(gathered + more, runs) <= self.free;
        if !fits {
            self.wait = WAIT;
        }
        Ok(fits)
    }

    /// Before something that takes room for so many bytes: what is gathered goes first, unless
    /// there is plenty. That there is no room for it is met by what comes.
    fn yield_to(&mut self, len: usize) -> Result<()> {
        if !self.runs.is_empty() && !self.has_room(2 * len)? {
            match self.write_all() {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        self.free = self.free.saturating_sub(self.takes(2 * len, 1));
        Ok(())
    }

    /// Begins a run.
    fn begin(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        if self.runs.len() >= RUNS {
            self.write_run(self.runs[0].ino)?;
        }
        self.runs.push(Run {
            ino,
            offset,
            bytes: data.to_vec(),
            now,
        });
        Ok(())
    }

    /// Parts a run that has grown long: whole pages are written, the rest stays.
    fn shorten(&mut self, at: usize) -> Result<()> {
        let run = &self.runs[at];
        let cut = run.end() / ALIGNED * ALIGNED;
        if run.bytes.len() < RUN_MAX || cut <= run.offset {
            return Ok(());
        }
        let len = (cut - run.offset) as usize;
        self.free = (self.free).saturating_sub(self.takes(len, 1));
        let run = &self.runs[at];
        (self.fs).write(run.ino, run.offset, &run.bytes[..len], run.now)?;
        let run = &mut self.runs[at];
        run.bytes.drain(..len);
        run.offset = cut;
        if run.bytes.is_empty() {
            self.runs.remove(at);
        }
        Ok(())
    }

    /// Attributes with what is gathered.
    fn shown(&self, mut attr: Attr) -> Attr {
        if let Some(run) = self.runs.iter().find(|run| run.ino == attr.ino) {
            let grown = run.end().saturating_sub(attr.size);
            attr.size += grown;
            attr.blocks += grown.div_ceil(512);
            (attr.mtime, attr.ctime) = (run.now, run.now);
        }
        attr
    }

    /// Before a name is taken away, or given to another file: the file that it names now may go.
    fn write_named(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        match self.fs.lookup(dir, name) {
            Ok(attr) => self.write_run(attr.ino),
            Err(_) => Ok(()),
        }
    }
}

impl FileSystem for Gathered {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let attr = self.fs.lookup(dir, name)?;
        Ok(self.shown(attr))
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        let attr = self.fs.getattr(ino)?;
        Ok(self.shown(attr))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.write_run(ino)?;
        self.yield_to(0)?;
        self.fs.setattr(ino, set)
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.yield_to(0)?;
        let attr = self.fs.create(dir, name, new)?;
        if self.fresh.len() >= RUNS {
            self.fresh.remove(0);
        }
        self.fresh.push(attr.ino);
        Ok(attr)
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        self.yield_to(0)?;
        self.fs.mknod(dir, name, kind, device, new)
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.yield_to(0)?;
        self.fs.mkdir(dir, name, new)
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.yield_to(0)?;
        self.fs.symlink(dir, name, target, new)
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        self.write_run(ino)?;
        self.yield_to(0)?;
        self.fs.link(ino, dir, name, now)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.write_named(dir, name)?;
        self.yield_to(0)?;
        self.fs.unlink(dir, name, now)
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.yield_to(0)?;
        self.fs.rmdir(dir, name, now)
    }

    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        now: Time,
    ) -> Result<()> {
        // A file that takes another's name has its contents first.
        self.write_named(from_dir, from)?;
        self.write_named(to_dir, to)?;
        self.yield_to(0)?;
        (self.fs).rename(from_dir, from, to_dir, to, no_replace, now)
    }

    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        self.write_named(dir, name)?;
        self.write_named(other_dir, other)?;
        self.yield_to(0)?;
        self.fs.exchange(dir, name, other_dir, other, now)
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.fs.open(ino)
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        if !self.runs.iter().any(|run| run.ino == ino) {
            return self.fs.release(ino);
        }
        // Of a file without a name nothing may be left: its number may be another's. A new file
        // that is closed is whole, more often than not, and its inode is still at hand.
        let is_nameless = self.fs.getattr(ino)?.nlink == 0;
        let is_fresh = self.fresh.contains(&ino);
        self.fresh.retain(|fresh| *fresh != ino);
        let written = match is_nameless || is_fresh {
            true => self.write_run(ino),
            false => Ok(()),
        };
        if is_nameless {
            self.runs.retain(|run| run.ino != ino);
        }
        self.fs.release(ino).and(written)
    }

    fn forget(&mut self, ino: Ino) {
        self.fs.forget(ino);
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.write_run(ino)?;
        self.fs.read(ino, offset, buf)
    }

    fn read_aside(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.write_run(ino)?;
        self.fs.read_aside(ino, offset, buf)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let is_small = (1..=WRITE_MAX).contains(&data.len()) && offset < OFFSET_MAX;
        if is_small && self.has_room(data.len())? {
            let run = self.runs.iter().position(|run| run.ino == ino);
            if let Some(at) = run
                && self.runs[at].take_up(offset, data, now)
            {
                return self.shorten(at);
            }
            self.write_run(ino)?;
            let attr = self.fs.getattr(ino)?;
            if attr.kind == FileKind::File && offset <= attr.size {
                return self.begin(ino, offset, data, now);
            }
        }
        self.write_run(ino)?;
        self.yield_to(data.len())?;
        self.fs.write(ino, offset, data, now)
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.write_run(ino)?;
        self.yield_to(0)?;
        self.fs.punch_hole(ino, offset, len, now)
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.write_run(ino)?;
        self.fs.next_data(ino, offset)
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.write_run(ino)?;
        self.fs.next_hole(ino, offset)
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.xattr(ino, name)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.fs.xattrs(ino)
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.yield_to(value.len())?;
        self.fs.set_xattr(ino, name, value, how, now)
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        self.yield_to(0)?;
        self.fs.remove_xattr(ino, name, now)
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.write_run(ino)?;
        self.yield_to(0)?;
        self.fs.fsync(ino)
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.fs.readdir(dir, cookie, each)
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.fs.parent(dir)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.write_all()?;
        self.fs.statfs()
    }

    fn sync(&mut self) -> Result<()> {
        let written = self.write_all();
        self.fs.sync().and(written)
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.fs.gc(pages)
    }

    fn bytes_clean(&self) -> Option<u64> {
        self.fs.bytes_clean()
    }

    fn has_driver_failed(&self) -> bool {
        self.fs.has_driver_failed()
    }

    fn takes_removals(&self) -> bool {
        self.fs.takes_removals()
    }

    fn patrol(&mut self) -> Result<Patrol> {
        self.fs.patrol()
    }

    fn unmount(&mut self) -> Result<()> {
        let written = self.write_all();
        self.fs.unmount().and(written)
    }
}

impl Measured for Gathered {
    fn cost(&self) -> Counters {
        self.fs.cost()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.fs.erase_counts()
    }

    fn programs(&self) -> Vec<(&'static str, u64)> {
        self.fs.programs()
    }

    fn page_bytes(&self) -> u32 {
        self.fs.page_bytes()
    }

    fn ram_bytes(&self) -> usize {
        self.fs.ram_bytes()
    }

    fn idle(&mut self, ms: u64) -> Result<()> {
        self.fs.idle(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_flashlight::{Config, New, ram_needed};
    use flashkit_nand::Nand;
    use flashkit_sim::{Rng, SimNand, preset};
    use flashkit_vfs::MemoryFs;
    use flashkit_vfs::any::{self, AnyNand};

    fn flash(chip: &str) -> Box<Served> {
        let chip = SimNand::new(preset(chip).unwrap());
        let ram = vec![0; ram_needed(&chip.geometry())].leak();
        let (root, config) = (New::default(), Config::default());
        let chip = any::format(AnyNand::new(chip), ram, 1, &root, config).unwrap();
        Box::new(any::mount(chip, ram, config).unwrap())
    }

    fn files(fs: &mut dyn FileSystem, count: u32) -> Vec<Ino> {
        let root = fs.root();
        let new = NewInode::default();
        (0..count)
            .map(|n| {
                fs.create(root, format!("f{n}").as_bytes(), &new)
                    .unwrap()
                    .ino
            })
            .collect()
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
                    Ok(()) => held[which].extend(&data),
                    Err(Error::NoSpace) => {
                        refused += 1;
                        // A part of it may be there.
                        let there = fs.getattr(files[which]).unwrap().size;
                        held[which].extend(&data[..(there - end) as usize]);
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
            assert!(fs.runs.is_empty(), "seed {seed}");
            for (file, held) in files.iter().zip(&held) {
                let mut read = vec![0; held.len() + 1];
                assert_eq!(fs.read(*file, 0, &mut read), Ok(held.len()), "seed {seed}");
                assert!(read[..held.len()] == held[..], "seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_gathered_is_seen_and_is_there_before_it_matters() {
        let mut fs = Gathered::new(Box::new(MemoryFs::new()));
        let file = files(&mut fs, 1)[0];
        let (root, now) = (fs.root(), Time { secs: 7, nanos: 0 });
        fs.write(file, 0, b"some bytes", now).unwrap();
        fs.write(file, 5, b"words and more", now).unwrap();
        assert_eq!(fs.fs.getattr(file).unwrap().size, 0);
        assert_eq!(fs.getattr(file).unwrap().size, 19);
        assert_eq!(fs.lookup(root, b"f0").unwrap().mtime, now);
        let mut read = [0; 30];
        assert_eq!(fs.read(file, 0, &mut read), Ok(19));
        assert_eq!(&read[..19], b"some words and more");
        for matters in 0..5 {
            fs.write(file, 19, b"!", now).unwrap();
            assert!(!fs.runs.is_empty());
            match matters {
                0 => fs.fsync(file).unwrap(),
                1 => fs.rename(root, b"f0", root, b"f", false, now).unwrap(),
                2 => assert_eq!(fs.next_hole(file, 0), Ok(Some(20))),
                3 => fs.sync().unwrap(),
                _ => fs.unlink(root, b"f", now).unwrap(),
            }
            assert!(fs.runs.is_empty(), "{matters}");
        }
    }
}

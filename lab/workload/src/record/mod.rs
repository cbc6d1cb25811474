//! Records what is asked of a file system as a trace, so that a real program's
//! operations can be replayed.
//!
//! ```text
//! program ──> kernel ──> FUSE ──> Recorder ──> file system
//!                                    └──> trace
//! ```
//!
//! Recorded is what reaches the file system: behind a page cache writes come gathered, and what was
//! read before is not read again. The trace begins with what is there already (phase `before`), so
//! that it replays on a fresh volume, and has the pauses between operations. What the format cannot
//! say is left out and counted: attributes other than sizes, symbolic links, special files,
//! extended attributes, holes.
//!
//! | module | what it does |
//! | --- | --- |
//! | `names` | what inodes are called, and what becomes of a trace when names come and go |
//! | `script` | the trace being written |

mod names;
mod script;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flashkit_vfs::{
    Attr, Counters, DirEntry, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result,
    SetAttr, SetXattr, StatFs, Time, path,
};

use crate::trace::Op;
use names::Names;
use script::Script;

pub use script::Recorded;

/// A pause that is worth a line: shorter ones are a program's own work.
pub const PAUSE: Duration = Duration::from_millis(10);

/// A file system, and a trace of what is asked of it.
pub struct Recorder {
    inner: Box<dyn Measured + Send>,
    names: Names,
    script: Script,
    /// Pauses at least this long are recorded; `None`: none are.
    pause: Option<Duration>,
    /// Since the last recorded operation, nothing was asked for so long.
    idle: Duration,
    /// When the last request had been answered.
    last: Instant,
}

impl Recorder {
    /// Records to a new file, compressed when its name ends in `.gz`. What the file system holds
    /// already is read through once.
    ///
    /// # Errors
    /// The trace cannot be written, or the file system not be read.
    pub fn new(
        inner: Box<dyn Measured + Send>,
        to: &Path,
        pause: Option<Duration>,
    ) -> io::Result<Recorder> {
        let mut recorder = Recorder {
            names: Names::new(inner.root()),
            inner,
            script: Script::create(to)?,
            pause,
            idle: Duration::ZERO,
            last: Instant::now(),
        };
        recorder
            .before()
            .map_err(|error| io::Error::other(error.to_string()))?;
        recorder.last = Instant::now();
        Ok(recorder)
    }

    /// What was recorded so far; the holder can look once the file system is unmounted.
    pub fn recorded(&self) -> Arc<Mutex<Recorded>> {
        self.script.recorded.clone()
    }

    /// Writes what is there.
    fn before(&mut self) -> Result<()> {
        let root = self.inner.root();
        let mut found = Vec::new();
        path::walk(&mut *self.inner, root, &mut |_, path, attr| {
            found.push((path.to_vec(), *attr));
            Ok(())
        })?;
        let any = !found.is_empty();
        for (path, attr) in found {
            let (dir, name) = path::resolve_parent(&mut *self.inner, &path)?;
            if let Some(op) = self.born(dir, name, &attr) {
                self.script.write(op);
            }
        }
        if any {
            let name = "before".to_owned();
            self.script.write(Op::Phase { name });
        }
        Ok(())
    }

    /// What a name that is new is in a trace.
    fn born(&mut self, dir: Ino, name: &[u8], attr: &Attr) -> Option<Op> {
        if !matches!(attr.kind, FileKind::File | FileKind::Dir) {
            self.script.leave_out("symbolic links and special files");
            return None;
        }
        let Some(path) = self.names.add(dir, name, attr) else {
            self.script.leave_out("hard links");
            return None;
        };
        let size = attr.size;
        Some(match attr.kind {
            FileKind::Dir => Op::Mkdir { path },
            _ => Op::Create { path, size },
        })
    }

    /// A request comes in.
    fn begin(&mut self) {
        self.idle += self.last.elapsed();
    }

    /// A request has been answered; `ops` are what it is in a trace.
    fn end(&mut self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            if self.pause.is_some_and(|pause| self.idle >= pause) {
                let ms = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
                self.script.write(Op::Idle { ms });
            }
            self.idle = Duration::ZERO;
            self.script.write(op);
        }
        self.last = Instant::now();
    }

    /// A request that is nothing in a trace.
    fn pass<T>(&mut self, work: impl FnOnce(&mut dyn FileSystem) -> Result<T>) -> Result<T> {
        self.begin();
        let done = work(&mut *self.inner);
        self.end(None);
        done
    }

    /// A change that the format cannot say.
    fn unsaid<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut dyn FileSystem) -> Result<T>,
    ) -> Result<T> {
        let done = self.pass(work)?;
        self.script.leave_out(what);
        Ok(done)
    }

    /// A creation.
    fn make(
        &mut self,
        dir: Ino,
        name: &[u8],
        work: impl FnOnce(&mut dyn FileSystem) -> Result<Attr>,
    ) -> Result<Attr> {
        self.begin();
        let made = work(&mut *self.inner);
        let op = match &made {
            Ok(attr) => self.born(dir, name, attr),
            Err(_) => None,
        };
        self.end(op);
        made
    }

    /// A change that succeeded is so many operations.
    fn change<T>(
        &mut self,
        work: impl FnOnce(&mut dyn FileSystem) -> Result<T>,
        ops: impl FnOnce(&mut Names) -> Vec<Op>,
    ) -> Result<T> {
        self.begin();
        let done = work(&mut *self.inner);
        let ops = match &done {
            Ok(_) => ops(&mut self.names),
            Err(_) => Vec::new(),
        };
        self.end(ops);
        done
    }
}

impl FileSystem for Recorder {
    fn root(&self) -> Ino {
        self.inner.root()
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.pass(|fs| fs.lookup(dir, name))
    }

    fn lookup_dir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        self.pass(|fs| fs.lookup_dir(dir, name))
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.pass(|fs| fs.getattr(ino))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let Some(size) = set.size else {
            return self.unsaid("attributes", |fs| fs.setattr(ino, set));
        };
        self.change(
            |fs| fs.setattr(ino, set),
            |names| names.resized(ino, size).into_iter().collect(),
        )
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(dir, name, |fs| fs.create(dir, name, new))
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        self.make(dir, name, |fs| fs.mknod(dir, name, kind, device, new))
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(dir, name, |fs| fs.mkdir(dir, name, new))
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(dir, name, |fs| fs.symlink(dir, name, target, new))
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.pass(|fs| fs.readlink(ino))
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        self.make(dir, name, |fs| fs.link(ino, dir, name, now))
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.change(
            |fs| fs.unlink(dir, name, now),
            |names| names.unlinked(dir, name).into_iter().collect(),
        )
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.change(
            |fs| fs.rmdir(dir, name, now),
            |names| names.removed(dir, name).into_iter().collect(),
        )
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
        self.change(
            |fs| fs.rename(from_dir, from, to_dir, to, no_replace, now),
            |names| names.renamed((from_dir, from), (to_dir, to)),
        )
    }

    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        self.change(
            |fs| fs.exchange(dir, name, other_dir, other, now),
            |names| names.exchanged((dir, name), (other_dir, other)),
        )
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.pass(|fs| fs.open(ino))?;
        self.names.opened(ino);
        Ok(())
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        self.change(
            |fs| fs.release(ino),
            |names| names.released(ino).into_iter().collect(),
        )
    }

    fn has_driver_failed(&self) -> bool {
        self.inner.has_driver_failed()
    }

    fn count_blocks(&mut self) {
        self.inner.count_blocks();
    }

    fn forget(&mut self, ino: Ino) {
        self.inner.forget(ino);
    }

    fn read_aside(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.pass(|fs| fs.read(ino, offset, buf))
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.begin();
        let read = self.inner.read(ino, offset, buf);
        let size = read.as_ref().map_or(0, |n| *n as u64);
        let path = self.names.path(ino).filter(|_| size > 0);
        self.end(path.map(|path| Op::Read { path, offset, size }));
        read
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        self.change(
            |fs| fs.write(ino, offset, data, now),
            |names| {
                let op = names.written(ino, offset, data.len() as u64);
                op.into_iter().collect()
            },
        )
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.unsaid("holes", |fs| fs.punch_hole(ino, offset, len, now))
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.pass(|fs| fs.next_data(ino, offset))
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.pass(|fs| fs.next_hole(ino, offset))
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.pass(|fs| fs.xattr(ino, name))
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.pass(|fs| fs.xattrs(ino))
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.unsaid("extended attributes", |fs| {
            fs.set_xattr(ino, name, value, how, now)
        })
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        self.unsaid("extended attributes", |fs| fs.remove_xattr(ino, name, now))
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        // The format has no word for the root.
        if ino == self.inner.root() {
            return self.unsaid("fsyncs of the root directory", |fs| fs.fsync(ino));
        }
        self.change(
            |fs| fs.fsync(ino),
            |names| {
                let path = names.path(ino);
                path.map(|path| Op::Fsync { path }).into_iter().collect()
            },
        )
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.pass(|fs| fs.readdir(dir, cookie, each))
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.pass(|fs| fs.parent(dir))
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.pass(|fs| fs.statfs())
    }

    /// A mount's own, every few seconds; the trace on disk is as far then.
    fn sync(&mut self) -> Result<()> {
        self.script.flush();
        self.inner.sync()
    }

    /// Idle time is recorded as such, not what is done with it.
    fn patrol(&mut self) -> Result<Patrol> {
        self.inner.patrol()
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.inner.gc(pages)
    }

    fn bytes_clean(&self) -> Option<u64> {
        self.inner.bytes_clean()
    }

    fn unmount(&mut self) -> Result<()> {
        self.script.finish();
        self.inner.unmount()
    }
}

impl Measured for Recorder {
    fn cost(&self) -> Counters {
        self.inner.cost()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.inner.erase_counts()
    }

    fn ram_bytes(&self) -> usize {
        self.inner.ram_bytes()
    }

    fn idle(&mut self, ms: u64) -> Result<()> {
        self.script.write(Op::Idle { ms });
        self.inner.idle(ms)
    }
}

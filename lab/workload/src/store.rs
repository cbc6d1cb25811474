//! What a replay runs over: a file system in this process, a directory of the host, or anything
//! else that is a [`Store`].

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashkit_vfs::{Counters, Error, FileKind, Ino, Measured, NewInode, SetAttr, Time, path};

/// Why an operation failed.
#[derive(Debug)]
pub enum StoreError {
    /// The file system's error.
    Fs(Error),
    /// The host's error.
    Host(io::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Fs(error) => error.fmt(f),
            StoreError::Host(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        StoreError::Fs(error)
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        StoreError::Host(error)
    }
}

impl From<rustix::io::Errno> for StoreError {
    fn from(error: rustix::io::Errno) -> Self {
        StoreError::Host(error.into())
    }
}

impl From<StoreError> for String {
    fn from(error: StoreError) -> Self {
        error.to_string()
    }
}

impl StoreError {
    /// Whether no space is left.
    pub fn is_no_space(&self) -> bool {
        match self {
            StoreError::Fs(error) => *error == Error::NoSpace,
            StoreError::Host(error) => error.kind() == io::ErrorKind::StorageFull,
        }
    }
}

/// Counts the flash operations below a directory of the host.
pub trait Meter {
    /// What there was so far. Only grows.
    fn cost(&self) -> Counters;
    /// Erases of each block so far.
    fn erase_counts(&self) -> Vec<u32>;
    /// Whether the counts are right.
    ///
    /// # Errors
    /// What could not be counted.
    fn check(&self) -> io::Result<()>;
}

/// An outcome of an operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The operations of the trace format, by path, with open files.
pub trait Store {
    /// An open file. It must be closed with [`Store::close`].
    type File;

    /// Creates or truncates, and opens.
    fn create(&mut self, path: &str) -> Result<Self::File>;
    /// Opens a regular file.
    fn open(&mut self, path: &str) -> Result<Self::File>;
    /// Closes.
    fn close(&mut self, file: Self::File) -> Result<()>;
    /// Size in bytes.
    fn size(&mut self, file: &Self::File) -> Result<u64>;
    /// Truncates or extends (with zeros).
    fn resize(&mut self, file: &Self::File, size: u64) -> Result<()>;
    /// Writes all of it.
    fn write(&mut self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;
    /// Reads; returns 0 only at the end.
    fn read(&mut self, file: &Self::File, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Makes an open file durable.
    fn fsync(&mut self, file: &Self::File) -> Result<()>;
    /// Whether what was written to an open file has room, where a write alone does not tell.
    fn settle(&mut self, _file: &Self::File) -> Result<()> {
        Ok(())
    }
    /// Makes a file or directory durable.
    fn fsync_path(&mut self, path: &str) -> Result<()>;
    /// Removes a file.
    fn unlink(&mut self, path: &str) -> Result<()>;
    /// Creates a directory.
    fn mkdir(&mut self, path: &str) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&mut self, path: &str) -> Result<()>;
    /// Renames, replacing what has the new name.
    fn rename(&mut self, from: &str, to: &str) -> Result<()>;
    /// Makes everything durable.
    fn sync(&mut self) -> Result<()>;
    /// Lets time pass; returns how many nanoseconds of [`Store::cost`] were no work.
    fn idle(&mut self, ms: u64) -> Result<u64>;
    /// The last operation.
    fn finish(&mut self) -> Result<()>;

    /// Every path there is, and whether it is a directory.
    fn list(&mut self) -> Result<Vec<(String, bool)>>;
    /// What latencies are measured with, in nanoseconds.
    fn clock_ns(&self) -> u64;
    /// What was done to the chip so far.
    fn cost(&self) -> Counters;
    /// Erases of each block so far.
    fn erase_counts(&self) -> Vec<u32>;
    /// Pages programmed so far by what they were for. Empty where that is not counted.
    fn programs(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// Bytes of a page of the chip; 0 where there is none.
    fn page_bytes(&self) -> u32 {
        0
    }
    /// RAM of the file system proper, in bytes; 0 where that is unknown.
    fn ram_bytes(&self) -> usize;
}

/// Page operations that one step of idle cleaning may take; a small share of any idle time.
const IDLE_STEP_PAGES: u32 = 16;

/// A file system in this process.
pub struct FsStore<'a> {
    fs: &'a mut dyn Measured,
    /// Clean in idle time.
    idle_gc: bool,
    /// Counts operations that set timestamps: the same trace gives the same bytes every time.
    seconds: i64,
}

impl<'a> FsStore<'a> {
    /// One that cleans in idle time, or does not.
    pub fn new(fs: &'a mut dyn Measured, idle_gc: bool) -> Self {
        FsStore {
            fs,
            idle_gc,
            seconds: 1_000_000_000,
        }
    }

    fn now(&mut self) -> Time {
        self.seconds += 1;
        Time {
            secs: self.seconds,
            nanos: 0,
        }
    }

    fn new_inode(&mut self, mode: u16) -> NewInode {
        NewInode {
            mode,
            uid: 0,
            gid: 0,
            now: self.now(),
        }
    }
}

impl Store for FsStore<'_> {
    type File = Ino;

    fn create(&mut self, path: &str) -> Result<Ino> {
        let new = self.new_inode(0o644);
        let (dir, name) = path::resolve_parent(self.fs, path.as_bytes())?;
        let ino = path::create_or_truncate(self.fs, dir, name, &new)?.ino;
        self.fs.open(ino)?;
        Ok(ino)
    }

    fn open(&mut self, path: &str) -> Result<Ino> {
        let attr = path::resolve(self.fs, path.as_bytes())?;
        match attr.kind {
            FileKind::File => self.fs.open(attr.ino)?,
            FileKind::Dir => return Err(Error::IsDir.into()),
            _ => return Err(Error::Invalid.into()),
        }
        Ok(attr.ino)
    }

    fn close(&mut self, file: Ino) -> Result<()> {
        self.fs.release(file)?;
        self.fs.forget(file);
        Ok(())
    }

    fn size(&mut self, file: &Ino) -> Result<u64> {
        Ok(self.fs.getattr(*file)?.size)
    }

    fn resize(&mut self, file: &Ino, size: u64) -> Result<()> {
        let set = SetAttr {
            size: Some(size),
            now: self.now(),
            ..SetAttr::default()
        };
        self.fs.setattr(*file, &set)?;
        Ok(())
    }

    fn write(&mut self, file: &Ino, offset: u64, data: &[u8]) -> Result<()> {
        let now = self.now();
        Ok(self.fs.write(*file, offset, data, now)?)
    }

    fn read(&mut self, file: &Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.fs.read(*file, offset, buf)?)
    }

    fn fsync(&mut self, file: &Ino) -> Result<()> {
        Ok(self.fs.fsync(*file)?)
    }

    fn fsync_path(&mut self, path: &str) -> Result<()> {
        let ino = path::resolve(self.fs, path.as_bytes())?.ino;
        Ok(self.fs.fsync(ino)?)
    }

    fn unlink(&mut self, path: &str) -> Result<()> {
        let now = self.now();
        let (dir, name) = path::resolve_parent(self.fs, path.as_bytes())?;
        Ok(self.fs.unlink(dir, name, now)?)
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let new = self.new_inode(0o755);
        let (dir, name) = path::resolve_parent(self.fs, path.as_bytes())?;
        self.fs.mkdir(dir, name, &new)?;
        Ok(())
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        let now = self.now();
        let (dir, name) = path::resolve_parent(self.fs, path.as_bytes())?;
        Ok(self.fs.rmdir(dir, name, now)?)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let now = self.now();
        let (from_dir, from) = path::resolve_parent(self.fs, from.as_bytes())?;
        let (to_dir, to) = path::resolve_parent(self.fs, to.as_bytes())?;
        Ok(self.fs.rename(from_dir, from, to_dir, to, false, now)?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.fs.sync()?)
    }

    fn idle(&mut self, ms: u64) -> Result<u64> {
        let start = self.fs.cost().time_ns;
        let budget = ms.saturating_mul(1_000_000);
        let mut worked = 0;
        while self.idle_gc && worked < budget {
            let more = self.fs.gc(IDLE_STEP_PAGES)?;
            let now = self.fs.cost().time_ns - start;
            // Where cleaning takes no flash time there is no chip, and no end either.
            if !more || now == worked {
                break;
            }
            worked = now;
        }
        let before = self.fs.cost().time_ns;
        self.fs
            .idle(budget.saturating_sub(before - start) / 1_000_000)?;
        Ok(self.fs.cost().time_ns - before)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(self.fs.unmount()?)
    }

    fn list(&mut self) -> Result<Vec<(String, bool)>> {
        let mut found = Vec::new();
        let root = self.fs.root();
        path::walk(self.fs, root, &mut |_, path, attr| {
            found.push((
                String::from_utf8_lossy(path).into_owned(),
                attr.kind == FileKind::Dir,
            ));
            Ok(())
        })?;
        Ok(found)
    }

    fn clock_ns(&self) -> u64 {
        self.fs.cost().time_ns
    }

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
}

/// What `statfs` says of a file system behind FUSE.
const FUSE: rustix::fs::FsWord = 0x6573_5546;
/// Syncs of a full file system until none of its writes is on its way.
const SYNCS: u32 = 100;
/// Drops the host's clean pages when a 1 is written to it.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A directory of the host. Without a meter there is nothing to count but time on the wall.
pub struct DirStore {
    dir: PathBuf,
    start: Instant,
    meter: Option<Box<dyn Meter>>,
    cold: bool,
    /// A directory that is to be made may be there.
    force: bool,
    /// Behind FUSE the page cache takes what there is no room for.
    fuse: bool,
}

impl DirStore {
    pub fn new(dir: &Path, meter: Option<Box<dyn Meter>>, cold: bool, force: bool) -> DirStore {
        DirStore {
            dir: dir.to_owned(),
            start: Instant::now(),
            meter,
            cold,
            force,
            fuse: rustix::fs::statfs(dir).is_ok_and(|found| found.f_type == FUSE),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }
}

impl Store for DirStore {
    type File = File;

    fn create(&mut self, path: &str) -> Result<File> {
        let mut how = OpenOptions::new();
        Ok(how
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.at(path))?)
    }

    fn open(&mut self, path: &str) -> Result<File> {
        Ok(OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.at(path))?)
    }

    fn close(&mut self, file: File) -> Result<()> {
        drop(file);
        Ok(())
    }

    fn size(&mut self, file: &File) -> Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn resize(&mut self, file: &File, size: u64) -> Result<()> {
        Ok(file.set_len(size)?)
    }

    fn write(&mut self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        Ok(file.write_all_at(data, offset)?)
    }

    fn read(&mut self, file: &File, offset: u64, buf: &mut [u8]) -> Result<usize> {
        loop {
            match file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Ok(done?),
            }
        }
    }

    fn fsync(&mut self, file: &File) -> Result<()> {
        Ok(file.sync_all()?)
    }

    fn settle(&mut self, file: &File) -> Result<()> {
        if !self.fuse {
            return Ok(());
        }
        file.sync_data().map_err(|error| {
            // Some writes may be on their way yet: each that fails ends a sync. The next sync of
            // the whole would tell of them once more.
            let more = (0..SYNCS).find(|_| file.sync_data().is_ok());
            let whole = File::open(&self.dir).map(rustix::fs::syncfs);
            drop((more, whole));
            error.into()
        })
    }

    fn fsync_path(&mut self, path: &str) -> Result<()> {
        Ok(File::open(self.at(path))?.sync_all()?)
    }

    fn unlink(&mut self, path: &str) -> Result<()> {
        Ok(fs::remove_file(self.at(path))?)
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let path = self.at(path);
        match fs::create_dir(&path) {
            Err(error)
                if self.force && error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() =>
            {
                Ok(())
            }
            made => Ok(made?),
        }
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        Ok(fs::remove_dir(self.at(path))?)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        Ok(fs::rename(self.at(from), self.at(to))?)
    }

    fn sync(&mut self) -> Result<()> {
        rustix::fs::syncfs(File::open(&self.dir)?)?;
        if self.cold {
            fs::write(DROP_CACHES, "1")?;
        }
        Ok(())
    }

    fn idle(&mut self, ms: u64) -> Result<u64> {
        std::thread::sleep(Duration::from_millis(ms));
        Ok(0)
    }

    fn finish(&mut self) -> Result<()> {
        self.sync()?;
        match &self.meter {
            Some(meter) => Ok(meter.check()?),
            None => Ok(()),
        }
    }

    fn list(&mut self) -> Result<Vec<(String, bool)>> {
        let mut found = Vec::new();
        let mut pending = vec![String::new()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(self.at(&dir))? {
                let entry = entry?;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let path = if dir.is_empty() {
                    name.into_owned()
                } else {
                    format!("{dir}/{name}")
                };
                let is_dir = entry.file_type()?.is_dir();
                if is_dir {
                    pending.push(path.clone());
                }
                found.push((path, is_dir));
            }
        }
        Ok(found)
    }

    fn clock_ns(&self) -> u64 {
        if let Some(meter) = &self.meter {
            return meter.cost().time_ns;
        }
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn cost(&self) -> Counters {
        let meter = self.meter.as_ref();
        meter.map_or(Counters::default(), |meter| meter.cost())
    }

    fn erase_counts(&self) -> Vec<u32> {
        let meter = self.meter.as_ref();
        meter.map_or(Vec::new(), |meter| meter.erase_counts())
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}

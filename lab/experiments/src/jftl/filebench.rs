//! The seven loads of Filebench that the paper names, rebuilt from its Table I.
//!
//! The table gives numbers of files, files in a directory, sizes, threads and sizes of
//! requests. What each load does is Filebench's own; where that runs for a time, a number
//! of operations stands here.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use flashkit_sim::Rng;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Files are created and written.
    Createfiles,
    /// Files are deleted.
    Deletefiles,
    /// Files are copied to another tree.
    Copyfiles,
    /// A file is written at random, each write synchronous.
    Randomwrite,
    /// Mails come and go, each synced.
    Varmail,
    /// Files are created, read, and half of them deleted.
    Mongo,
    /// Files are read, and a log grows.
    Webserver,
}

impl Load {
    pub fn name(self) -> &'static str {
        match self {
            Load::Createfiles => "createfiles",
            Load::Deletefiles => "deletefiles",
            Load::Copyfiles => "copyfiles",
            Load::Randomwrite => "randomwrite",
            Load::Varmail => "varmail",
            Load::Mongo => "mongo",
            Load::Webserver => "webserver",
        }
    }

    fn shape(self) -> Shape {
        let (files, width, size, threads, operations) = match self {
            Load::Createfiles | Load::Deletefiles => (50_000, 50, 2 << 10, 16, 50_000),
            Load::Copyfiles => (25_000, 25, 2 << 10, 1, 25_000),
            Load::Randomwrite => (1, 1, 1 << 20, 1, 2_000),
            Load::Varmail => (1_000, 1_000_000, 16 << 10, 16, 4_000),
            Load::Mongo => (25_000, 50, 2 << 10, 1, 25_000),
            Load::Webserver => (1_000, 20, 16 << 10, 50, 20_000),
        };
        Shape {
            files,
            width,
            size,
            threads,
            operations,
        }
    }
}

/// Table I; `operations` are ours.
#[derive(Clone, Copy)]
struct Shape {
    files: u32,
    width: u32,
    size: usize,
    threads: u32,
    operations: u32,
}

/// A load of so much.
#[derive(Clone, Copy)]
pub struct Run {
    load: Load,
    shape: Shape,
}

impl Run {
    pub fn new(load: Load, quick: bool) -> Run {
        let mut shape = load.shape();
        if quick {
            shape.files = shape.files.div_ceil(100);
            shape.operations /= 100;
        }
        Run { load, shape }
    }

    fn path(&self, at: &Path, tree: &str, i: u32) -> PathBuf {
        at.join(format!("{tree}/d{}/f{i}", i / self.shape.width))
    }

    fn directories(&self, at: &Path, tree: &str) -> Result<()> {
        for i in 0..self.shape.files.div_ceil(self.shape.width) {
            fs::create_dir_all(at.join(format!("{tree}/d{i}")))?;
        }
        Ok(())
    }

    fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, vec![0x5A; self.shape.size])?)
    }

    /// What is there before the load begins.
    pub fn prepare(&self, at: &Path) -> Result<()> {
        self.directories(at, "a")?;
        match self.load {
            Load::Createfiles | Load::Mongo => return Ok(()),
            Load::Copyfiles => self.directories(at, "b")?,
            _ => {}
        }
        (0..self.shape.files).try_for_each(|i| self.write(&self.path(at, "a", i)))
    }

    /// Runs it on its threads.
    pub fn run(&self, at: &Path) -> Result<()> {
        let threads = self.shape.threads;
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|t| scope.spawn(move || self.thread(at, t)))
                .collect();
            for thread in running {
                let ended = thread.join();
                ended.map_err(|_| anyhow!("a thread has panicked"))??;
            }
            Ok(())
        })
    }

    fn thread(&self, at: &Path, thread: u32) -> Result<()> {
        let mut rng = Rng::keyed(7, u64::from(thread));
        let mine = (thread..self.shape.operations).step_by(self.shape.threads as usize);
        for i in mine {
            let file = self.path(at, "a", i % self.shape.files);
            match self.load {
                Load::Createfiles => self.write(&file)?,
                Load::Deletefiles => fs::remove_file(&file)?,
                Load::Copyfiles => {
                    let bytes = fs::read(&file)?;
                    fs::write(self.path(at, "b", i), bytes)?;
                }
                Load::Randomwrite => {
                    let file = OpenOptions::new()
                        .write(true)
                        .custom_flags(nix::libc::O_SYNC)
                        .open(&file)?;
                    let places = self.shape.size as u64 / 8192;
                    file.write_all_at(&[i as u8; 8192], rng.below(places) * 8192)?;
                }
                Load::Varmail => self.mail(at, thread, i)?,
                Load::Mongo => {
                    self.write(&file)?;
                    fs::read(&file)?;
                    if i % 2 == 1 {
                        fs::remove_file(&file)?;
                    }
                }
                Load::Webserver => {
                    let number = rng.below(u64::from(self.shape.files)) as u32;
                    fs::read(self.path(at, "a", number))?;
                    if i % 10 == 0 {
                        let log = at.join("log");
                        let mut log = OpenOptions::new().create(true).append(true).open(log)?;
                        log.write_all(&vec![0x4C; 16 << 10])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A mail is deleted and another written; one is read and grows. Each thread has its own.
    fn mail(&self, at: &Path, thread: u32, i: u32) -> Result<()> {
        let (threads, files) = (self.shape.threads, self.shape.files);
        let own = |n: u32| thread + n % (files / threads).max(1) * threads;
        let path = |n: u32| self.path(at, "a", own(n));
        let (other, path) = (path(i / threads + 7), path(i / threads));
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let mut file = File::create(&path)?;
        file.write_all(&vec![i as u8; self.shape.size])?;
        file.sync_all()?;
        if !other.exists() {
            return Ok(());
        }
        let mut file = OpenOptions::new().read(true).append(true).open(other)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // A mailbox does not grow for ever.
        if bytes.len() < 4 * self.shape.size {
            file.write_all(&vec![i as u8; self.shape.size])?;
        }
        Ok(file.sync_all()?)
    }
}

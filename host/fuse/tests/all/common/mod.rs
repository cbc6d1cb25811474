//! Mounts for tests: over a file system that counts what is asked of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_fuse::{MountError, MountOptions, Outcome, Served};
use flashkit_nand::Nand as _;
use flashkit_nanofs::NanoFs;
use flashkit_sim::{CardTiming, SimCard, SimNand, preset};
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::nanofs::NanoFsFs;
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, MemoryFs, NewInode, Patrol, Result,
    SetAttr, SetXattr, StatFs, Time,
};
use nix::errno::Errno;

/// Set to 1, tests that cannot mount fail instead of being skipped.
const REQUIRE: &str = "FLASHKIT_REQUIRE_FUSE";

/// What a [`Counting`] file system was asked.
#[derive(Default)]
pub struct Calls {
    pub unmounts: AtomicU32,
    pub cleanings: AtomicU32,
    pub patrols: AtomicU32,
    pub fsyncs: AtomicU32,
    pub syncs: AtomicU32,
    pub forgotten: Mutex<Vec<Ino>>,
    /// Opens without their release yet.
    pub opens: AtomicU32,
    /// Writes fail with an I/O error.
    pub fail_writes: AtomicBool,
    /// As do fsyncs.
    pub fail_fsyncs: AtomicBool,
    /// Attributes cannot be set.
    pub refuse_setattrs: Mutex<Option<Error>>,
}

/// [`MemoryFs`], counting.
pub struct Counting {
    inner: MemoryFs,
    calls: Arc<Calls>,
    /// Slices of cleaning that are left to do.
    to_clean: u32,
}

impl Measured for Counting {}

impl FileSystem for Counting {
    fn root(&self) -> Ino {
        self.inner.root()
    }
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.inner.lookup(dir, name)
    }
    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.inner.getattr(ino)
    }
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        match &*self.calls.refuse_setattrs.lock().unwrap() {
            Some(error) => Err(error.clone()),
            None => self.inner.setattr(ino, set),
        }
    }
    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.inner.create(dir, name, new)
    }
    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        self.inner.mknod(dir, name, kind, device, new)
    }
    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.inner.mkdir(dir, name, new)
    }
    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.inner.symlink(dir, name, target, new)
    }
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.inner.readlink(ino)
    }
    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        self.inner.link(ino, dir, name, now)
    }
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.inner.unlink(dir, name, now)
    }
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.inner.rmdir(dir, name, now)
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
        self.inner
            .rename(from_dir, from, to_dir, to, no_replace, now)
    }
    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        self.inner.exchange(dir, name, other_dir, other, now)
    }
    fn open(&mut self, ino: Ino) -> Result<()> {
        self.calls.opens.fetch_add(1, Ordering::SeqCst);
        self.inner.open(ino)
    }
    fn release(&mut self, ino: Ino) -> Result<()> {
        self.calls.opens.fetch_sub(1, Ordering::SeqCst);
        self.inner.release(ino)
    }
    fn forget(&mut self, ino: Ino) {
        self.calls.forgotten.lock().unwrap().push(ino);
        self.inner.forget(ino);
    }
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.inner.read(ino, offset, buf)
    }
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        if self.calls.fail_writes.load(Ordering::SeqCst) {
            return Err(Error::Io("page 17: told to fail".into()));
        }
        self.inner.write(ino, offset, data, now)
    }
    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.inner.punch_hole(ino, offset, len, now)
    }
    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.inner.next_data(ino, offset)
    }
    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.inner.next_hole(ino, offset)
    }
    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.inner.xattr(ino, name)
    }
    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.inner.xattrs(ino)
    }
    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.inner.set_xattr(ino, name, value, how, now)
    }
    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        self.inner.remove_xattr(ino, name, now)
    }
    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.calls.fsyncs.fetch_add(1, Ordering::SeqCst);
        if self.calls.fail_fsyncs.load(Ordering::SeqCst) {
            return Err(Error::Io("page 17: told to fail".into()));
        }
        self.inner.fsync(ino)
    }
    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.inner.readdir(dir, cookie, each)
    }
    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.inner.parent(dir)
    }
    fn statfs(&mut self) -> Result<StatFs> {
        self.inner.statfs()
    }
    fn sync(&mut self) -> Result<()> {
        self.calls.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync()
    }
    fn patrol(&mut self) -> Result<Patrol> {
        // Every tenth page leaves a slice of work.
        Ok(
            match self.calls.patrols.fetch_add(1, Ordering::SeqCst) % 10 {
                9 => {
                    self.to_clean += 1;
                    Patrol::Noted
                }
                _ => Patrol::Read,
            },
        )
    }
    fn gc(&mut self, _pages: u32) -> Result<bool> {
        self.calls.cleanings.fetch_add(1, Ordering::SeqCst);
        self.to_clean = self.to_clean.saturating_sub(1);
        Ok(self.to_clean > 0)
    }
    fn takes_removals(&self) -> bool {
        self.inner.takes_removals()
    }
    fn unmount(&mut self) -> Result<()> {
        self.calls.unmounts.fetch_add(1, Ordering::SeqCst);
        self.inner.unmount()
    }
}

pub fn counting() -> (Box<Counting>, Arc<Calls>) {
    let calls = Arc::new(Calls::default());
    (
        Box::new(Counting {
            inner: MemoryFs::new(),
            calls: calls.clone(),
            to_clean: 5,
        }),
        calls,
    )
}

/// A volume on a chip of 20 MiB, with pages of 2 KiB.
pub fn flash() -> Box<dyn Measured + Send> {
    let chip = SimNand::new(preset("micron-20m").unwrap());
    let ram = Box::leak(vec![0; ram_needed(&chip.geometry())].into_boxed_slice());
    let root = New {
        mode: 0o755,
        ..New::default()
    };
    let chip = any::format(AnyNand::new(chip), ram, 1, &root, Config::default()).unwrap();
    let mut chip: SimNand = chip.take();
    chip.clear_counters();
    Box::new(any::mount(AnyNand::new(chip), ram, Config::default()).unwrap())
}

/// A card of 4 MiB with Nano-FS, for 8 files.
pub fn nanofs() -> Box<dyn Measured + Send> {
    let mut fs = NanoFs::<_, 6>::new(SimCard::new(8_192, CardTiming::default()));
    fs.format(1, 8, 1).unwrap();
    Box::new(NanoFsFs::new(fs, (0, 0), false).unwrap())
}

/// A mount served by a thread of this process.
pub struct Mounted {
    pub dir: tempfile::TempDir,
    pub calls: Arc<Calls>,
    server: Option<JoinHandle<std::result::Result<Outcome, MountError>>>,
}

impl Mounted {
    /// `None`, with the reason on stdout, where mounting is not possible.
    pub fn new() -> Option<Mounted> {
        Mounted::with(&MountOptions {
            subtype: "flashtest".into(),
            ..MountOptions::default()
        })
    }

    pub fn with(options: &MountOptions) -> Option<Mounted> {
        let (fs, calls) = counting();
        Mounted::serve(fs, calls, options)
    }

    /// Over a file system of one's own; nothing is counted.
    pub fn over(fs: Box<Served>, options: &MountOptions) -> Option<Mounted> {
        Mounted::serve(fs, Arc::default(), options)
    }

    fn serve(fs: Box<Served>, calls: Arc<Calls>, options: &MountOptions) -> Option<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        let (ready, wait_ready) = channel();
        let (point, options) = (dir.path().to_owned(), options.clone());
        let server = std::thread::spawn(move || {
            flashkit_fuse::mount(fs, &point, &options, || ready.send(()).unwrap())
        });
        if wait_ready.recv().is_err() {
            match server.join().unwrap() {
                Ok(_) => panic!("ended without having been ready"),
                Err(error) => skip(&error.to_string()),
            }
            return None;
        }
        Some(Mounted {
            dir,
            calls,
            server: Some(server),
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits for the end of the mount.
    pub fn join(mut self) -> (Outcome, Arc<Calls>) {
        let outcome = self.server.take().unwrap().join().unwrap().unwrap();
        (outcome, self.calls.clone())
    }

    /// Unmounts as `umount` does.
    pub fn unmount(self) -> (Outcome, Arc<Calls>) {
        unmount(self.dir.path());
        self.join()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test failed: leave no mount behind.
        if self.server.is_some() {
            let _ = nix::mount::umount2(self.dir.path(), nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

/// `umount`, patient with indexers that look into every new mount.
pub fn unmount(path: &Path) {
    for _ in 0..100 {
        match nix::mount::umount(path) {
            Err(nix::errno::Errno::EBUSY) => std::thread::sleep(Duration::from_millis(20)),
            Err(nix::errno::Errno::EPERM) => {
                let done = std::process::Command::new("fusermount3")
                    .arg("-u")
                    .arg(path)
                    .status();
                assert!(done.unwrap().success());
                return;
            }
            result => return result.unwrap(),
        }
    }
    panic!("{} stays busy", path.display());
}

/// Says that a test cannot run here, or fails where it must.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os(REQUIRE).is_none_or(|v| v != "1"),
        "{REQUIRE}=1, but {why}"
    );
    println!("skipped: {why}");
}

/// The error that the kernel gives.
pub fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> Errno {
    Errno::from_raw(result.unwrap_err().raw_os_error().unwrap())
}

/// Waits until something has come about.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within 5 s: {what}");
}

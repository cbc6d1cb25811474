//! A disk of this process under a file system of the kernel: behind FUSE, behind a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use flashkit_disk::{Disk, DiskFs};
use flashkit_fuse::MountOptions;

/// How often to unmount again what is busy, and after which pause.
const UMOUNT_TRIES: u32 = 100;
const UMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// The disk, for FUSE and for its counters. It does nothing in idle time: figures must not depend
/// on how idle the machine was.
struct Shared<D>(Arc<Mutex<Option<D>>>);

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Shared<D> {
        Shared(self.0.clone())
    }
}

type Answer<T> = flashkit_disk::Result<T>;

impl<D> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, Option<D>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut D) -> Answer<T>) -> Answer<T> {
        match &mut *self.lock() {
            Some(disk) => work(disk),
            None => Err("the power has been cut".into()),
        }
    }
}

impl<D: Disk> Disk for Shared<D> {
    fn size(&self) -> u64 {
        self.with(|disk| Ok(disk.size())).unwrap_or(0)
    }
    fn block_size(&self) -> u32 {
        self.with(|disk| Ok(disk.block_size())).unwrap_or(512)
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Answer<()> {
        self.with(|disk| disk.read(offset, buf))
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Answer<()> {
        self.with(|disk| disk.write(offset, data))
    }
    fn zero(&mut self, offset: u64, len: u64) -> Answer<()> {
        self.with(|disk| disk.zero(offset, len))
    }
    fn flush(&mut self) -> Answer<()> {
        self.with(Disk::flush)
    }
}

/// Runs a tool of the system that must succeed; what it printed.
pub fn tool(name: &str, args: &[&str]) -> Result<String> {
    let ran = Command::new(name).args(args).output();
    let out = ran.with_context(|| name.to_owned())?;
    let text = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    if !out.status.success() {
        bail!("{name} {}: {}", args.join(" "), text.trim());
    }
    Ok(text.trim().to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not text")
}

/// Why there can be no rig here, if there can be none.
pub fn missing() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        Some("this needs root, for loop devices and mounts")
    } else if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        Some("this needs /dev/fuse and loop devices")
    } else {
        None
    }
}

/// A second hold on the disk of a [`Rig`].
pub struct Watch<D>(Shared<D>);

impl<D> Watch<D> {
    /// Looks at the disk, between what the kernel asks of it.
    pub fn with<T>(&self, work: impl FnOnce(&mut D) -> Answer<T>) -> Answer<T> {
        self.0.with(work)
    }
}

/// The disk under a loop device, and where its file system is mounted.
pub struct Rig<D> {
    shared: Shared<D>,
    device: Option<String>,
    fuse: PathBuf,
    mounted: bool,
    server: Option<JoinHandle<Result<(), String>>>,
    /// Directory of the file system.
    pub point: PathBuf,
    // Removed last.
    _here: tempfile::TempDir,
}

impl<D: Disk + Send + 'static> Rig<D> {
    /// Serves a disk.
    pub fn new(disk: D) -> Result<Rig<D>> {
        Rig::serve(disk, &[])
    }

    /// Serves a disk whose file the kernel does not cache: it is read as often as it would
    /// be without a loop device.
    pub fn uncached(disk: D) -> Result<Rig<D>> {
        Rig::serve(disk, &["--direct-io=on"])
    }

    fn serve(disk: D, options: &[&str]) -> Result<Rig<D>> {
        let here = tempfile::tempdir()?;
        let (fuse, point) = (here.path().join("fuse"), here.path().join("point"));
        std::fs::create_dir(&fuse)?;
        std::fs::create_dir(&point)?;
        let shared = Shared(Arc::new(Mutex::new(Some(disk))));
        let (ready, wait) = mpsc::channel();
        let (served, at) = (shared.clone(), fuse.clone());
        let server = std::thread::spawn(move || {
            let fs = Box::new(DiskFs::new(served, false));
            let mounted = flashkit_fuse::mount(fs, &at, &MountOptions::for_disk(), || {
                let _ = ready.send(());
            });
            mounted.map(|_| ()).map_err(|e| e.to_string())
        });
        let mut rig = Rig {
            shared,
            device: None,
            fuse,
            mounted: false,
            server: Some(server),
            point,
            _here: here,
        };
        if wait.recv().is_err() {
            let why = rig.join();
            bail!("FUSE: {}", why.err().unwrap_or_default());
        }
        let disk = rig.fuse.join("disk");
        let args = [&["--find", "--show"], options, &[text(&disk)?]].concat();
        rig.device = Some(tool("losetup", &args)?);
        Ok(rig)
    }

    /// The loop device.
    pub fn device(&self) -> &str {
        self.device.as_deref().unwrap_or("")
    }

    /// Mounts the file system on it; makes sure that it is this that is mounted there.
    pub fn mount(&mut self, kind: &str, options: &str) -> Result<()> {
        let at = text(&self.point)?;
        tool("mount", &["-t", kind, "-o", options, self.device(), at])?;
        self.mounted = true;
        let source = tool("findmnt", &["-n", "-o", "SOURCE", at])?;
        if source != self.device() {
            bail!("{at} is {source}, not {}", self.device());
        }
        Ok(())
    }

    /// Unmounts it, with everything written home. A process that another thread starts holds what
    /// this one has open until it runs its program: the mount is busy for that moment.
    pub fn unmount(&mut self) -> Result<()> {
        let at = text(&self.point)?;
        let mut done = tool("umount", &[at]);
        for _ in 0..UMOUNT_TRIES {
            if done.is_ok() {
                break;
            }
            std::thread::sleep(UMOUNT_PAUSE);
            done = tool("umount", &[at]);
        }
        done?;
        self.mounted = false;
        Ok(())
    }

    /// Works on the disk, between what the kernel asks of it.
    pub fn with<T>(&self, work: impl FnOnce(&mut D) -> Answer<T>) -> Result<T> {
        self.shared.with(work).map_err(|e| anyhow!(e))
    }

    /// A second hold on the disk, for its counters.
    pub fn watch(&self) -> Watch<D> {
        Watch(self.shared.clone())
    }

    /// Cuts the power: the disk as it is now. What the kernel still has to write is lost.
    pub fn cut(mut self) -> Result<D> {
        let disk = self.shared.lock().take().context("there is no disk")?;
        self.end();
        Ok(disk)
    }
}

impl<D> Rig<D> {
    fn join(&mut self) -> Result<(), String> {
        match self.server.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err("the server of the disk has panicked".into()),
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        let run = |name: &str, args: &[&str]| {
            let _ = Command::new(name).args(args).output();
        };
        if self.mounted {
            run("umount", &["-l", self.point.to_str().unwrap_or("")]);
            self.mounted = false;
        }
        if let Some(device) = self.device.take() {
            run("losetup", &["-d", &device]);
        }
        if self.server.is_some() {
            run("umount", &["-l", self.fuse.to_str().unwrap_or("")]);
            let _ = self.join();
        }
    }
}

impl<D> Drop for Rig<D> {
    fn drop(&mut self) {
        self.end();
    }
}

//! A real ext3 on a disk of this process: jftl behind FUSE behind a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use flashkit_disk::{Disk, DiskFs, OnNand, Sectors};
use flashkit_fuse::MountOptions;
use flashkit_jftl::{Jftl, MapCache, Stats, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Counters, Metered, SimNand, preset};

/// The chip of the paper's section 4.
pub const CHIP: &str = "small-256m";

/// A mode of ext3, in the paper's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Writeback,
    Ordered,
    Journal,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Writeback, Mode::Ordered, Mode::Journal];

    /// As the mount option.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Writeback => "writeback",
            Mode::Ordered => "ordered",
            Mode::Journal => "journal",
        }
    }
}

/// How often a transaction is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// Seconds, as the mount option has it.
    Seconds(u32),
    /// Another sync of the file system 1 ms after the last: the option has no part of a second.
    Millisecond,
}

impl Interval {
    pub fn name(self) -> String {
        match self {
            Interval::Seconds(s) => format!("{s} s"),
            Interval::Millisecond => "0.001 s".into(),
        }
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub counters: Counters,
    pub stats: Stats,
}

impl Cost {
    /// Time of the chip's operations alone, without what it waited.
    pub fn busy_s(&self) -> f64 {
        let Some(chip) = preset(CHIP) else { return 0.0 };
        let did = self.counters;
        let reads = did.page_reads + did.spare_reads;
        let ns = (chip.timing).total_ns(reads, did.page_programs, did.block_erases);
        ns as f64 / 1e9
    }
}

/// The disk, for FUSE and for its counters. It does nothing in idle time: figures must not depend on how idle
/// the machine was.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Sectors<OnNand>>>>);

type Answer<T> = flashkit_disk::Result<T>;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Sectors<OnNand>>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Sectors<OnNand>) -> Answer<T>) -> Answer<T> {
        match &mut *self.lock() {
            Some(disk) => work(disk),
            None => Err("the power has been cut".into()),
        }
    }
}

impl Disk for Shared {
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

/// Why ext3 cannot be had here, if it cannot.
pub fn missing() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        Some("this needs root, for loop devices and mounts")
    } else if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        Some("this needs /dev/fuse and loop devices")
    } else {
        None
    }
}

/// A new, empty disk.
pub fn formatted() -> Result<SimNand> {
    let preset = preset(CHIP).context("no such chip")?;
    let mut chip = SimNand::new(preset);
    let len = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(|why| anyhow!(why))?;
    Jftl::format(&mut chip, &mut vec![0; len], 1).map_err(|e| anyhow!("{e}"))?;
    Ok(chip)
}

/// The disk under a loop device, and where its file system is mounted.
pub struct Rig {
    shared: Shared,
    device: Option<String>,
    fuse: PathBuf,
    mounted: bool,
    server: Option<JoinHandle<Result<(), String>>>,
    /// Directory of the file system.
    pub point: PathBuf,
    // Removed last.
    _here: tempfile::TempDir,
}

impl Rig {
    /// Serves the disk on a chip.
    pub fn new(chip: SimNand, remaps: bool, real_time: bool) -> Result<Rig> {
        let here = tempfile::tempdir()?;
        let (fuse, point) = (here.path().join("fuse"), here.path().join("ext3"));
        std::fs::create_dir(&fuse)?;
        std::fs::create_dir(&point)?;
        let disk = OnNand::mount(chip, remaps, |_| (), |_| String::new());
        let mut sectors = Sectors::new(disk.map_err(|e| anyhow!("{e}"))?);
        if real_time {
            sectors = sectors.in_real_time();
        }
        let shared = Shared(Arc::new(Mutex::new(Some(sectors))));
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
        rig.device = Some(tool("losetup", &["--find", "--show", text(&disk)?])?);
        Ok(rig)
    }

    fn join(&mut self) -> Result<(), String> {
        match self.server.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err("the server of the disk has panicked".into()),
            None => Ok(()),
        }
    }

    /// The loop device.
    pub fn device(&self) -> &str {
        self.device.as_deref().unwrap_or("")
    }

    /// Makes the paper's ext3: blocks of 1 KiB, a journal of 4 MB.
    pub fn make_ext3(&self) -> Result<()> {
        let args = [
            "-q",
            "-t",
            "ext3",
            "-b",
            "1024",
            "-J",
            "size=4",
            self.device(),
        ];
        tool("mke2fs", &args).map(drop)
    }

    /// Mounts it; makes sure that it is this that is mounted there.
    pub fn mount(&mut self, mode: Mode, interval: Interval) -> Result<()> {
        let seconds = match interval {
            Interval::Seconds(s) => s,
            Interval::Millisecond => 5,
        };
        let options = format!("data={},commit={seconds},noatime", mode.name());
        let at = text(&self.point)?;
        tool("mount", &["-t", "ext3", "-o", &options, self.device(), at])?;
        self.mounted = true;
        let source = tool("findmnt", &["-n", "-o", "SOURCE", at])?;
        if source != self.device() {
            bail!("{at} is {source}, not {}", self.device());
        }
        Ok(())
    }

    /// Unmounts it, with everything written home.
    pub fn unmount(&mut self) -> Result<()> {
        tool("umount", &[text(&self.point)?])?;
        self.mounted = false;
        Ok(())
    }

    /// What the chip has done so far.
    pub fn cost(&self) -> Result<Cost> {
        let read = self.shared.with(|disk| {
            let disk = disk.device().disk();
            Ok(Cost {
                counters: disk.nand().counters(),
                stats: disk.stats(),
            })
        });
        read.map_err(|e| anyhow!(e))
    }

    /// Cuts the power: the chip as it is now. What the kernel still has to write is lost.
    pub fn cut(mut self) -> Result<SimNand> {
        let disk = self.shared.lock().take().context("there is no disk")?;
        self.end();
        Ok(disk.into_device().into_chip())
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

impl Drop for Rig {
    fn drop(&mut self) {
        self.end();
    }
}

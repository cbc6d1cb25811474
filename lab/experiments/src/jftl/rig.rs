//! A real ext3 on jftl.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use flashkit_disk::{Disk, OnNand, Remapping, Sectors};
use flashkit_jftl::{Jftl, MapCache, Stats, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Counters, Metered, SimNand, preset};

use super::record::{Event, Recorder};
use crate::rig::{self, tool};

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

    /// As the paper calls it.
    pub fn paper_name(self) -> &'static str {
        match self {
            Mode::Journal => "journaled",
            other => other.name(),
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

    /// In seconds.
    pub fn seconds(self) -> f64 {
        match self {
            Interval::Seconds(s) => f64::from(s),
            Interval::Millisecond => 0.001,
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
    /// Of a disk so far.
    pub fn of(disk: &Sectors<OnNand>) -> Cost {
        let disk = disk.device().disk();
        Cost {
            counters: disk.nand().counters(),
            stats: disk.stats(),
        }
    }
}

/// How a disk is to work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layer {
    /// Follows the journal.
    pub remaps: Remapping,
    /// Programs sectors of zeros.
    pub zeros: bool,
}

/// A disk on a chip.
pub fn disk(chip: SimNand, layer: Layer) -> Result<Sectors<OnNand>> {
    let disk = OnNand::mount(chip, layer.remaps, |_| (), |_| String::new());
    let disk = disk.map_err(|e| anyhow!("{e}"))?;
    Ok(Sectors::new(if layer.zeros {
        disk.with_zeros()
    } else {
        disk
    }))
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
    rig: rig::Rig<Recorder<Sectors<OnNand>>>,
    /// Directory of the file system.
    pub point: PathBuf,
}

impl Rig {
    /// Serves the disk on a chip.
    pub fn new(chip: SimNand, layer: Layer, real_time: bool) -> Result<Rig> {
        let mut sectors = disk(chip, layer)?;
        if real_time {
            sectors = sectors.in_real_time();
        }
        // A cache below the file system would spare reads, and many more in
        // one mode than in another.
        let rig = rig::Rig::uncached(Recorder::new(sectors))?;
        let point = rig.point.clone();
        Ok(Rig { rig, point })
    }

    /// The loop device.
    pub fn device(&self) -> &str {
        self.rig.device()
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

    /// Mounts it.
    pub fn mount(&mut self, mode: Mode, interval: Interval) -> Result<()> {
        self.mount_with(mode, interval, "")
    }

    /// Mounts it with more options, each after a comma.
    pub fn mount_with(&mut self, mode: Mode, interval: Interval, more: &str) -> Result<()> {
        let seconds = match interval {
            Interval::Seconds(s) => s,
            Interval::Millisecond => 5,
        };
        let options = format!("data={},commit={seconds},noatime{more}", mode.name());
        self.rig.mount("ext3", &options)
    }

    /// Unmounts it, with everything written home.
    pub fn unmount(&mut self) -> Result<()> {
        self.rig.unmount()
    }

    /// What the chip has done so far.
    pub fn cost(&self) -> Result<Cost> {
        self.rig.with(|disk| Ok(Cost::of(&disk.disk)))
    }

    /// Notes that the benchmark begins; what it has cost so far.
    pub fn begin(&self) -> Result<Cost> {
        self.rig.with(|disk| {
            disk.events.push(Event::Begin);
            Ok(Cost::of(&disk.disk))
        })
    }

    /// All that the kernel has asked for.
    pub fn events(&self) -> Result<Vec<Event>> {
        self.rig.with(|disk| Ok(std::mem::take(&mut disk.events)))
    }

    /// Bytes of the disk.
    pub fn size(&self) -> Result<u64> {
        self.rig.with(|disk| Ok(disk.size()))
    }

    /// Cuts the power: the chip as it is now. What the kernel still has to write is lost.
    pub fn cut(self) -> Result<SimNand> {
        Ok(self.rig.cut()?.disk.into_device().into_chip())
    }
}

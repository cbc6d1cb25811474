//! Cases over ext4 on JFTL: the disk in this process, behind FUSE and a loop device; the file
//! system is that of this machine's kernel. JFTL follows its journal.

use anyhow::{Result, anyhow};
use flashkit_disk::{OnNand, Sectors};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Metered, SimNand};
use flashkit_vfs::Counters;
use flashkit_workload::{Meter, Options, Report, replay_dir};

use super::Case;
use crate::rig::{Rig, Watch, tool};

type Disk = Sectors<OnNand>;

/// Runs a case. Formatting and mounting are not counted, but for the erase counts.
///
/// # Errors
/// What this machine lacks, or the operation that failed.
pub fn run(case: &Case, mut options: Options<'_>) -> Result<Report> {
    let mut chip = SimNand::new(case.chip);
    let ram = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(|why| anyhow!(why))?;
    Jftl::format(&mut chip, &mut vec![0; ram], 1).map_err(|error| anyhow!("format: {error}"))?;
    let disk = OnNand::mount(chip, true, |_| (), |_| String::new());
    let disk = disk.map_err(|error| anyhow!("mount: {error}"))?;
    let mut rig = Rig::new(Sectors::new(disk))?;
    // Nothing of the formatting is left for later.
    let lazy = "lazy_itable_init=0,lazy_journal_init=0";
    tool(
        "mke2fs",
        &["-q", "-t", "ext4", "-b", "4096", "-E", lazy, rig.device()],
    )?;
    rig.mount("ext4", "noatime")?;
    let meter = OfDisk {
        before: cost(&rig.watch()),
        disk: rig.watch(),
    };
    options.meter = Some(Box::new(meter));
    let replayed = replay_dir(&rig.point.clone(), (case.lines)(), options)?;
    rig.unmount()?;
    Ok(replayed.report)
}

/// What the chip below a disk does.
struct OfDisk {
    disk: Watch<Disk>,
    before: Counters,
}

fn cost(disk: &Watch<Disk>) -> Counters {
    let counters = disk.with(|disk| Ok(disk.device().disk().nand().counters()));
    counters.unwrap_or_default()
}

impl Meter for OfDisk {
    fn cost(&self) -> Counters {
        cost(&self.disk) - self.before
    }

    fn erase_counts(&self) -> Vec<u32> {
        let counts = self
            .disk
            .with(|disk| Ok(disk.device().disk().nand().erase_counts()));
        counts.unwrap_or_default()
    }

    fn check(&self) -> std::io::Result<()> {
        self.disk.with(|_| Ok(())).map_err(std::io::Error::other)
    }
}

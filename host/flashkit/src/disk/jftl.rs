//! `jftl` on a simulated NAND chip.

use std::path::Path;

use anyhow::{Context, anyhow};
use flashkit_block::BlockDevice;
use flashkit_disk::{Disk, Sectors, Translation};
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{DEFAULT_PRESET, Metered, SimError, SimNand, preset};

use crate::failure::{Usage, complain};
use crate::text;
use crate::volume::{Access, drawn_number, patiently};

/// Longest journal that is followed: 1 GiB of blocks of 4 KiB.
const JOURNAL_BLOCKS: usize = 1 << 18;

/// Makes an image with an empty disk; says what was made.
pub fn make(image: &Path, chip: Option<&str>) -> anyhow::Result<String> {
    let name = chip.unwrap_or(DEFAULT_PRESET);
    let Some(preset) = preset(name) else {
        let why = format!("{name}: no such NAND chip; `flashkit chips` lists them");
        return Err(Usage(why).into());
    };
    let named = || image.display().to_string();
    let mut ram = ram(&preset.geometry())?;
    let mut chip = SimNand::create(image, preset).with_context(named)?;
    let made = Jftl::format(&mut chip, &mut ram, drawn_number());
    made.map_err(|e| anyhow!("{e}")).with_context(named)?;
    let disk = Jftl::mount(chip, &mut ram).map_err(|e| anyhow!("{e}"))?;
    let bytes = u64::from(disk.sector_count()) * u64::from(disk.sector_size());
    Ok(format!(
        "{}: made, a disk of {} on a new {name}",
        named(),
        text::bytes(bytes)
    ))
}

fn ram(geometry: &flashkit_nand::Geometry) -> anyhow::Result<Vec<u8>> {
    let len = ram_bytes(geometry, MapCache::Whole).map_err(|why| Usage(why.into()))?;
    Ok(vec![0; len])
}

/// Opens the disk in an image.
pub fn open(
    image: &Path,
    access: Access,
    remaps: bool,
    real_time: bool,
) -> anyhow::Result<Box<dyn Disk + Send>> {
    let access = match access {
        Access::ReadWrite => flashkit_sim::Access::ReadWrite,
        Access::ReadOnly => flashkit_sim::Access::ReadOnlyCow,
    };
    let chip = patiently(|| SimNand::open(image, access))?;
    // One disk for the life of the process.
    let ram = Box::leak(ram(&chip.geometry())?.into_boxed_slice());
    let mut disk = Jftl::mount(chip, ram).map_err(|e: Error<SimError>| anyhow!("{e}"))?;
    if remaps {
        let len = disk.sector_size() as usize + 4 * JOURNAL_BLOCKS;
        disk.watch_journal(Box::leak(vec![0; len].into_boxed_slice()));
    }
    let mut device = OnChip {
        image: image.display().to_string(),
        told: JournalState::Off,
        disk,
    };
    device.tell();
    let sectors = Sectors::new(device);
    Ok(if real_time {
        Box::new(sectors.in_real_time())
    } else {
        Box::new(sectors)
    })
}

/// A disk and its chip.
struct OnChip {
    image: String,
    /// What the log says of the journal.
    told: JournalState,
    disk: Jftl<'static, SimNand>,
}

impl OnChip {
    /// Says in the log whether a journal is followed, when that has changed.
    fn tell(&mut self) {
        let state = self.disk.journal();
        if state == self.told {
            return;
        }
        self.told = state;
        match state {
            JournalState::Off => {}
            JournalState::None(why) => {
                complain(&format!("{}: plain translation: {why}", self.image));
            }
            JournalState::Watched { blocks, block_size } => complain(&format!(
                "{}: remaps a journal of {blocks} blocks of {block_size} bytes",
                self.image
            )),
        }
    }
}

impl BlockDevice for OnChip {
    type Error = Error<SimError>;
    const TRIM_ZEROES: bool = true;

    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }

    fn sector_count(&self) -> u32 {
        self.disk.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.disk.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        self.disk.write(first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        self.disk.trim(first, count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.disk.flush()?;
        self.tell();
        Ok(())
    }
}

impl Translation for OnChip {
    fn background(&mut self) -> Result<bool, Self::Error> {
        self.disk.background()
    }

    fn close(&mut self) -> Result<(), Self::Error> {
        self.disk.close()
    }

    fn summary(&self) -> String {
        let (stats, cost) = (self.disk.stats(), self.disk.nand().counters());
        let remapped = match self.disk.journal() {
            JournalState::Off => String::new(),
            _ => format!(
                ", {} of the journal, {} elided",
                text::count(stats.journal_sectors),
                text::count(stats.elided)
            ),
        };
        format!(
            "{} written{remapped}, {} copied, {} of log and map, {}, {}, {} of flash time",
            text::plural(stats.sectors_written, "sector"),
            text::count(stats.copies),
            text::count(stats.log_pages + stats.map_pages + stats.anchors + stats.tag_pages),
            text::plural(cost.page_programs, "program"),
            text::plural(cost.block_erases, "erase"),
            text::duration(cost.time_ns)
        )
    }

    fn now_ns(&self) -> u64 {
        self.disk.nand().now_ns()
    }

    fn pass(&mut self, ns: u64) {
        self.disk.nand_mut().idle(ns);
    }
}

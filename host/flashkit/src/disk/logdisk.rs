//! `logdisk` on a simulated NOR chip.

use std::path::Path;

use anyhow::{Context, anyhow};
use flashkit_block::BlockDevice;
use flashkit_disk::{Disk, Translation};
use flashkit_logdisk::{Config, Error, LogDisk, Shape, Step, ram_bytes};
use flashkit_nor::{BankedNorFlash, ReadNorFlash};
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, SimNorError, nor_preset};

use super::{Cleaning, serve};
use crate::failure::Usage;
use crate::text;
use crate::volume::{Access, drawn_number, patiently};

type Chip = SimNor;

/// A disk to be made.
pub struct New<'a> {
    pub chip: Option<&'a str>,
    pub size: Option<u64>,
    pub sector: usize,
    pub cleaning: Cleaning,
}

impl New<'_> {
    /// Makes the image; says what was made.
    pub fn make(&self, image: &Path) -> anyhow::Result<String> {
        let name = self.chip.unwrap_or(NOR_DEFAULT);
        let Some(spec) = nor_preset(name) else {
            let why = format!("{name}: no such NOR chip; `flashkit chips` lists them");
            return Err(Usage(why).into());
        };
        let shape = self.shape(&Chip::new(spec.clone()))?;
        // What is refused is refused before there is an image.
        let mut trial = Chip::new(spec.clone());
        LogDisk::format(&mut trial, &shape, 0)
            .and_then(|()| mount(trial, &shape, self.cleaning))
            .map_err(|e| match e {
                Error::Config(why) => anyhow::Error::from(Usage(why.into())),
                other => anyhow!("{other}"),
            })?;
        let named = || image.display().to_string();
        let mut chip = Chip::create(image, spec).with_context(named)?;
        let made = LogDisk::format(&mut chip, &shape, drawn_number());
        made.map_err(|e| anyhow!("{e}")).with_context(named)?;
        let bytes = u64::from(shape.sectors) * u64::from(shape.sector_size);
        Ok(format!(
            "{}: made, a disk of {} on a new {name}",
            named(),
            text::bytes(bytes)
        ))
    }

    fn shape(&self, chip: &Chip) -> anyhow::Result<Shape> {
        // 7/8 of the chip: 14 MiB on 16 MiB, the paper's 100 %.
        let size = self.size.unwrap_or(chip.capacity() as u64 / 8 * 7);
        let (sector_size, sector) = (self.sector as u32, self.sector as u64);
        let sectors = size.checked_div(sector).unwrap_or(0);
        if sector == 0 || !size.is_multiple_of(sector) {
            let why = format!("{size} bytes are not a whole number of sectors of {sector}");
            return Err(Usage(why).into());
        }
        Ok(Shape {
            sector_size,
            sectors: u32::try_from(sectors).unwrap_or(u32::MAX),
        })
    }
}

fn config(cleaning: Cleaning) -> Config {
    match cleaning {
        Cleaning::Paper => Config::paper(),
        Cleaning::Least => Config::new(),
        Cleaning::Bounded => Config::bounded(),
    }
}

/// Mounts the disk on a chip.
fn mount(
    chip: Chip,
    shape: &Shape,
    cleaning: Cleaning,
) -> Result<LogDisk<'static, Chip>, Error<SimNorError>> {
    let config = config(cleaning);
    let len = ram_bytes::<Chip>(chip.capacity(), chip.banks(), shape, &config);
    let len = len.map_err(Error::Config)?;
    // One disk for the life of the process, and one to see whether it can be.
    let ram = Box::leak(vec![0; len].into_boxed_slice());
    LogDisk::mount(chip, config, ram)
}

/// Opens the disk in an image.
pub fn open(
    image: &Path,
    access: Access,
    cleaning: Cleaning,
    real_time: bool,
) -> anyhow::Result<Box<dyn Disk + Send>> {
    let mut chip = patiently(|| Chip::open(image, access.into()))?;
    let told = |e: Error<SimNorError>| anyhow!("{e}");
    let shape = LogDisk::probe(&mut chip).map_err(told)?;
    let disk = mount(chip, &shape, cleaning).map_err(told)?;
    Ok(serve(OnChip { disk, real_time }, real_time))
}

/// A log disk and its chip.
struct OnChip {
    disk: LogDisk<'static, Chip>,
    real_time: bool,
}

impl OnChip {
    /// A kernel has no use for *busy*: what a disk of bounded latency refuses waits here.
    fn patiently(
        &mut self,
        work: impl Fn(&mut LogDisk<'static, Chip>) -> Result<(), Error<SimNorError>>,
    ) -> Result<(), Error<SimNorError>> {
        loop {
            match work(&mut self.disk) {
                Err(Error::Busy) if self.disk.clean_now()? == Step::Idle => {
                    return Err(Error::Full);
                }
                Err(Error::Busy) => {}
                ended => return ended,
            }
        }
    }
}

impl BlockDevice for OnChip {
    type Error = Error<SimNorError>;
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
        self.patiently(|disk| disk.write(first, data))
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        self.patiently(|disk| disk.trim(first, count))
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.disk.flush()?;
        Ok(self.disk.flash().sync()?)
    }
}

impl Translation for OnChip {
    fn background(&mut self) -> Result<bool, Self::Error> {
        match self.disk.clean_step()? {
            Step::Idle => Ok(false),
            // In real time the erase needs nothing but patience.
            Step::Waiting if !self.real_time => self.disk.finish_erases().map(|()| true),
            _ => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), Self::Error> {
        self.disk.finish_erases()?;
        BlockDevice::flush(self)
    }

    fn summary(&self) -> String {
        let (stats, cost) = (self.disk.stats(), self.disk.flash().counters());
        format!(
            "{} written, {} copied, {} erased, {} of flash time",
            text::plural(stats.sectors_written, "sector"),
            text::count(stats.blocks_copied),
            text::plural(stats.segments_erased, "segment"),
            text::duration(cost.time_ns)
        )
    }

    fn now_ns(&self) -> u64 {
        self.disk.flash().now_ns()
    }

    fn pass(&mut self, ns: u64) {
        self.disk.flash_mut().idle(ns);
    }
}

//! `logdisk` on a simulated NOR chip.

use std::path::Path;

use anyhow::{Context, anyhow};
use flashkit_disk::{Disk, OnNor};
use flashkit_logdisk::{Config, Error, LogDisk, Separate, Shape, Start, Step, Victim};
use flashkit_nor::ReadNorFlash;
use flashkit_sim::ImageError;
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, SimNorError, nor_preset};
use serde_json::{Map, Value, json};

use super::{Cleaning, serve};
use crate::failure::{Usage, complain};
use crate::held::Held;
use crate::output::Output;
use crate::text;
use crate::values;
use crate::volume::{Access, Finding, Fsck, Recovery, drawn_number, patiently, refuse_key};

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
            let known = std::iter::once(NOR_DEFAULT);
            let why = values::no_such("NOR chip", "chips", name, known);
            return Err(Usage(format!("{name}: {why}")).into());
        };
        let shape = self.shape(&Chip::new(spec.clone()))?;
        // What is refused is refused before there is an image.
        let mut trial = Chip::new(spec.clone());
        LogDisk::format(&mut trial, &shape, 0)
            .and_then(|()| OnNor::mount(trial, config(self.cleaning), false, describe))
            .map_err(|e| match e {
                Error::Config(why) => {
                    let size = u64::from(shape.sectors) * u64::from(shape.sector_size);
                    Usage(format!("--size {size}, --sector {}: {why}", self.sector)).into()
                }
                other => anyhow!("{other}"),
            })?;
        let image = Output::image(image)?;
        let named = || image.shown();
        let mut chip = Chip::create(image.path(), spec).with_context(named)?;
        let made = LogDisk::format(&mut chip, &shape, drawn_number());
        made.map_err(|e| anyhow!("{e}")).with_context(named)?;
        let bytes = u64::from(shape.sectors) * u64::from(shape.sector_size);
        let made = format!(
            "{}: made, a disk of {} on a new {name}",
            named(),
            text::bytes(bytes)
        );
        image.finish()?;
        Ok(made)
    }

    fn shape(&self, chip: &Chip) -> anyhow::Result<Shape> {
        // 7/8 of the chip: 14 MiB on 16 MiB, the paper's 100 %.
        let size = self.size.unwrap_or(chip.capacity() as u64 / 8 * 7);
        let (sector_size, sector) = (self.sector as u32, self.sector as u64);
        let sectors = size.checked_div(sector).unwrap_or(0);
        if sectors == 0 || !size.is_multiple_of(sector) {
            let why = format!(
                "--size {size}: not a whole number of sectors of {sector} bytes (--sector)"
            );
            return Err(Usage(why).into());
        }
        Ok(Shape {
            sector_size,
            sectors: u32::try_from(sectors).unwrap_or(u32::MAX),
        })
    }
}

fn config(cleaning: Cleaning) -> Config {
    // Ages are counted in sectors written: nothing here tells the disk the time.
    let by_age = |separate| Config {
        victim: Victim::CostBenefit,
        separate,
        start: Start::Threshold {
            segments: 12,
            account: 2_576,
            curve: 1,
        },
        ..Config::paper()
    };
    match cleaning {
        Cleaning::Paper => Config::paper(),
        Cleaning::CostBenefit => by_age(Separate::No),
        Cleaning::Separate => by_age(Separate::Cold),
        Cleaning::Least => Config::new(),
        Cleaning::Bounded => Config::bounded(),
    }
}

fn describe(disk: &LogDisk<'static, Chip>) -> String {
    let (stats, cost) = (disk.stats(), disk.flash().counters());
    format!(
        "{} written, {} copied, {} erased, {} of flash time",
        text::plural(stats.sectors_written, "sector"),
        text::count(stats.blocks_copied),
        text::plural(stats.segments_erased, "segment"),
        text::duration(cost.time_ns)
    )
}

/// Opens the disk in an image.
pub fn open(
    image: &Path,
    access: Access,
    barrier: bool,
    cleaning: Cleaning,
    real_time: bool,
) -> anyhow::Result<Box<dyn Disk + Send>> {
    let access = match access {
        Access::ReadWrite => flashkit_sim::Access::ReadWrite,
        Access::ReadOnly => flashkit_sim::Access::ReadOnlyCow,
    };
    let mut chip = patiently(|| Chip::open(image, access))?;
    chip.distrust();
    chip.set_barrier(barrier);
    let device = OnNor::mount(chip, config(cleaning), real_time, describe);
    let device = device.map_err(|e| anyhow!("{e}"))?;
    if let Some(damage) = device.disk().damage() {
        complain(&format!(
            "{}: {damage}; the disk is there for reading alone",
            text::path(image)
        ));
    }
    Ok(serve(device, real_time))
}

/// What a step of the cleaner has done.
pub struct CleanStep {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// Runs the cleaner of the disk in an image, step by step, until there is nothing to do or `each`
/// says that it is enough. With `now`, whatever the policy's threshold is.
pub fn clean(
    image: &Path,
    cleaning: Cleaning,
    now: bool,
    mut each: impl FnMut(&CleanStep) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let told = |e: Error<SimNorError>| of(image, anyhow!("{e}"));
    let chip = patiently(|| Chip::open(image, flashkit_sim::Access::ReadWrite));
    let mut chip = chip.with_context(|| text::path(image))?;
    chip.distrust();
    let mut device = OnNor::mount(chip, config(cleaning), false, describe).map_err(told)?;
    let disk = device.disk_mut();
    if let Some(damage) = disk.damage() {
        return Err(of(image, anyhow!("{damage}; nothing is cleaned")));
    }
    loop {
        let step = match now {
            true => disk.clean_now(),
            false => disk.clean_step(),
        };
        let step = step.map_err(told)?;
        let done = clean_step(disk, step);
        if !each(&done)? || step == Step::Idle {
            break;
        }
        if step == Step::Waiting {
            disk.finish_erases().map_err(told)?;
        }
    }
    disk.finish_erases().map_err(told)
}

fn clean_step(disk: &LogDisk<'static, Chip>, step: Step) -> CleanStep {
    let (blocks, free) = (disk.blocks_per_segment(), disk.free_segments());
    let ms = disk.flash().counters().time_ns as f64 / 1e6;
    let (what, mut json) = match step {
        Step::Idle => ("nothing to do".to_owned(), json!({ "step": "idle" })),
        Step::Selected { segment, cold } => {
            let info = disk.segment(segment);
            let kind = if cold { "cold" } else { "not cold" };
            (
                format!(
                    "segment {segment} chosen: {} of {blocks} blocks valid, {kind}, erased {} times",
                    info.valid, info.erases
                ),
                json!({
                    "step": "select", "segment": segment, "valid": info.valid,
                    "cold": cold, "erases": info.erases,
                }),
            )
        }
        Step::Copied { blocks } => (
            format!("{blocks} blocks copied"),
            json!({ "step": "copy", "blocks": blocks }),
        ),
        Step::EraseBegun { segment } => (
            format!("erase of segment {segment} begun"),
            json!({ "step": "erase", "segment": segment }),
        ),
        Step::Waiting => ("waits for an erase".to_owned(), json!({ "step": "wait" })),
    };
    json["free_segments"] = free.into();
    json["flash_ms"] = ms.into();
    CleanStep {
        text: format!("{ms:>10.1} ms, {free:>2} free  {what}"),
        json,
    }
}

/// An error with the image that it is of.
fn of(image: &Path, error: anyhow::Error) -> anyhow::Error {
    error.context(text::path(image))
}

/// What the NOR chip of an image holds; `None`: there is no such chip. Within: `None`: it is
/// erased.
pub fn held_on_nor(path: &Path) -> anyhow::Result<Option<Option<Held>>> {
    let mut chip = match patiently(|| Chip::open(path, flashkit_sim::Access::ReadOnlyCow)) {
        Ok(chip) => chip,
        Err(error @ (ImageError::InUse | ImageError::Io(_))) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    chip.distrust();
    let mut bytes = vec![0; 64 << 10];
    let mut at = 0;
    while at < chip.capacity() {
        let len = bytes.len().min(chip.capacity() - at);
        chip.read(at as u32, &mut bytes[..len])?;
        if bytes[..len].iter().any(|&byte| byte != 0xff) {
            let mounted = OnNor::mount(chip, config(Cleaning::Least), false, describe);
            let what = mounted.map_or(Held::Data, |_| Held::LogDisk);
            return Ok(Some(Some(what)));
        }
        at += len;
    }
    Ok(Some(None))
}

/// Checks the disk in an image. `None`: it is no image of a NOR chip.
pub fn fsck(image: &Path, access: Access) -> Option<anyhow::Result<Fsck>> {
    let opened = patiently(|| Chip::open(image, access.into()));
    let mut chip = match opened {
        Ok(chip) => chip,
        Err(ImageError::Io(_) | ImageError::NotAnImage | ImageError::OtherKind(_)) => return None,
        Err(error) => return Some(Err(of(image, error.into()))),
    };
    chip.distrust();
    let checked = refuse_key("logdisk").and_then(|()| checked(chip, access));
    Some(checked.map_err(|error| of(image, error)))
}

fn checked(chip: Chip, access: Access) -> anyhow::Result<Fsck> {
    let mut found = Fsck {
        mountable: true,
        recovery: Recovery::NotNeeded,
        findings: Vec::new(),
        repaired: Vec::new(),
        checked: Vec::new(),
    };
    let mut add = |error: Error<SimNorError>| {
        let (place, what) = ("disk".into(), error.to_string());
        found.findings.push(Finding { place, what });
    };
    let mut device = match OnNor::mount(chip, config(Cleaning::Least), false, describe) {
        Ok(device) => device,
        Err(error) => {
            add(error);
            found.mountable = false;
            return Ok(found);
        }
    };
    let disk = device.disk_mut();
    disk.each_damage(&mut add).map_err(|e| anyhow!("{e}"))?;
    if disk.damage().is_none() {
        disk.check().unwrap_or_else(&mut add);
    }
    if disk.flash().counters().word_programs > 0 {
        found.recovery = match access {
            Access::ReadOnly => Recovery::Simulated,
            Access::ReadWrite => Recovery::Done,
        };
    }
    let (segments, live) = (disk.segments(), disk.live());
    found.checked = vec![
        ("segment", "segments", u64::from(segments)),
        ("sector in use", "sectors in use", u64::from(live)),
    ];
    Ok(found)
}

/// What the image is. `None`: it is no image of a NOR chip.
pub fn info(image: &Path) -> Option<anyhow::Result<Map<String, Value>>> {
    let mut chip = match Chip::open(image, flashkit_sim::Access::ReadOnlyCow) {
        Ok(chip) => chip,
        Err(ImageError::Io(_) | ImageError::NotAnImage | ImageError::OtherKind(_)) => return None,
        Err(error) => return Some(Err(of(image, error.into()))),
    };
    chip.distrust();
    let name = chip.spec().name().to_owned();
    let device = match OnNor::mount(chip, config(Cleaning::Least), false, describe) {
        Ok(device) => device,
        Err(error) => return Some(Err(of(image, anyhow!("{error}")))),
    };
    let disk = device.disk();
    let shape = disk.shape();
    let damage = disk.damage().map(|damage| damage.to_string());
    let told = json!({
        "chip": name,
        "disk": "logdisk",
        "sector_size": shape.sector_size,
        "sectors": shape.sectors,
        "sectors_in_use": disk.live(),
        "segments": disk.segments(),
        "free_segments": disk.free_segments(),
        "damage": damage,
    });
    Some(Ok(told.as_object().cloned().unwrap_or_default()))
}

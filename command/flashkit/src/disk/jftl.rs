//! `jftl` on a NAND chip: in an image, or `/dev/mtdN`.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use flashkit_disk::{Disk, OnNand, Remapping};
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{DEFAULT_PRESET, Metered, SimNand, preset, presets};
use serde_json::{Map, Value, json};

use super::{Ftl, serve};
use crate::failure::{Usage, complain};
use crate::held::{Held, held};
use crate::output::Output;
use crate::text;
use crate::values::{self, BusOption};
use crate::volume::{Access, Medium, MediumError, drawn_number};

/// Makes an image with an empty disk; says what was made.
pub fn make(image: &Path, chip: Option<&str>, bus: BusOption) -> anyhow::Result<String> {
    let name = chip.unwrap_or(DEFAULT_PRESET);
    let Some(preset) = preset(name) else {
        let known = presets().iter().map(|preset| preset.name);
        let why = values::no_such("NAND chip", "chips", name, known);
        return Err(Usage(format!("{name}: {why}")).into());
    };
    let image = Output::image(image)?;
    let named = || image.shown();
    let chip = SimNand::create(image.path(), &bus.of(preset)).with_context(named)?;
    let bytes = format(Medium::new(chip)).with_context(named)?;
    let made = format!("{}: made, a disk of {bytes} on a new {name}", named());
    image.finish()?;
    Ok(made)
}

/// Whether a chip has a disk, of whatever state.
pub fn is_jftl(path: &Path) -> bool {
    let Ok(chip) = Medium::whole(path, Access::ReadOnly) else {
        return false;
    };
    let Ok(len) = ram_bytes(&chip.geometry(), MapCache::Whole) else {
        return false;
    };
    let mounted = Jftl::mount(chip, &mut vec![0; len]).map(drop);
    !matches!(mounted, Err(Error::NotFormatted))
}

/// What the disk on a NAND chip is. `None`: there is none, or it cannot be mounted.
pub fn info_on_nand(path: &Path) -> Option<Map<String, Value>> {
    let chip = Medium::whole(path, Access::ReadOnly).ok()?;
    let name = chip.name().to_owned();
    let len = ram_bytes(&chip.geometry(), MapCache::Whole).ok()?;
    let mut ram = vec![0; len];
    let disk = Jftl::mount(chip, &mut ram).ok()?;
    let told = json!({
        "chip": name,
        "disk": "jftl",
        "sector_size": disk.sector_size(),
        "sectors": disk.sector_count(),
    });
    told.as_object().cloned()
}

/// Makes an empty disk on a device that is erased; says what was made.
/// `None`: there is a disk already.
pub fn make_on(device: &Path) -> anyhow::Result<Option<String>> {
    let named = || text::path(device);
    match held(device)? {
        Some(Held::Jftl) => return Ok(None),
        Some(what) => bail!("{}: holds {what}; `flash_erase` clears it", named()),
        None => {}
    }
    let chip = Medium::whole(device, Access::ReadWrite).with_context(named)?;
    let name = chip.name().to_owned();
    let bytes = format(chip).with_context(named)?;
    Ok(Some(format!(
        "{}: made, a disk of {bytes} on {name}",
        named()
    )))
}

/// Makes an empty disk; its size, for people.
fn format(mut chip: Medium) -> anyhow::Result<String> {
    let len = ram_bytes(&chip.geometry(), MapCache::Whole);
    let mut ram = vec![0; len.map_err(|why| Usage(why.into()))?];
    let made = Jftl::format(&mut chip, &mut ram, drawn_number());
    made.map_err(|e| anyhow!("{e}"))?;
    let disk = Jftl::mount(chip, &mut ram).map_err(|e| anyhow!("{e}"))?;
    let bytes = u64::from(disk.sector_count()) * u64::from(disk.sector_size());
    Ok(text::bytes(bytes))
}

/// Opens the disk in an image or on a device.
pub fn open(
    image: &Path,
    access: Access,
    barrier: bool,
    ftl: Ftl,
    real_time: bool,
) -> anyhow::Result<Box<dyn Disk + Send>> {
    let mut chip = Medium::whole(image, access)?;
    chip.set_barrier(barrier);
    let remaps = match ftl {
        Ftl::Jftl => Remapping::Full,
        Ftl::Remap => Remapping::Alone,
        Ftl::Page | Ftl::Logdisk => Remapping::No,
    };
    let device = OnNand::mount(chip, remaps, complain, summary);
    let device = device.map_err(|e: Error<MediumError>| anyhow!("{e}"))?;
    Ok(serve(device, real_time))
}

fn summary(device: &OnNand<Medium>) -> String {
    let disk = device.disk();
    let (stats, cost) = (disk.stats(), disk.nand().counters());
    let remapped = match disk.journal() {
        JournalState::Off => String::new(),
        _ => format!(
            ", {} of the journal, {} of them unchanged, {} packed in {}, {} elided, up to {} shared",
            text::count(stats.journal_sectors),
            text::count(stats.unchanged),
            text::count(stats.packed),
            text::plural(stats.packed_pages, "page"),
            text::count(stats.elided),
            text::plural(device.shared_pages().into(), "page")
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

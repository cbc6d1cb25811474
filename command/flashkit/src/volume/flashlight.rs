//! FlashLight on a chip, simulated or real.

mod dump;
mod look;
mod record;

use std::hash::{BuildHasher, Hasher};
use std::path::Path;

use anyhow::bail;
use flashkit_flashlight::{Config, Error, New, Time, ram_needed, ram_useful};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{Cut as PowerLoss, EraseTear, Metered, PowerCut, Preset, SimNand, Tear};
use flashkit_vfs::Counters;
use flashkit_vfs::any::{self, AnyError, AnyFs, AnyNand};

use super::medium::Medium;
use super::{Access, Adapter, Birth, Cleaner, Cut, NoVolume, RAM_DEFAULT, Sent, Tuning};
use crate::failure::{Usage, complain};
use crate::text;

pub use dump::Dump;
pub use look::{fsck, info};

/// A chip whose power can be cut.
type Chip = PowerCut<Medium>;
/// The file system on it, over RAM that is never given back.
type Fs = AnyFs<'static, 'static>;

/// Number of volumes whose figures must come out the same every time. It keys the name hashes
/// and says where on the chip writing begins.
pub const FIXED_NUMBER: u32 = 1;

/// What geometry a chip must have, in words: the file system itself only says that it has not.
const SUITS: &str = "it takes pages of 1,024 bytes or more, 8 of them or more in a block, and 44 good blocks or \
    more";

/// A number that no earlier volume on the chip had, as far as chance can promise.
pub fn drawn_number() -> u32 {
    // The standard library seeds its hash tables from the system's randomness.
    let hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.finish() as u32
}

/// Finds whether a file system fits the chip and the RAM, before anything is changed, and how
/// much RAM that is.
pub fn check_fit(chip: &Preset, ram: Option<usize>, sent: Option<Sent>) -> anyhow::Result<usize> {
    // What the geometry must be like is known to the file system alone.
    let enough = ram_needed(&chip.geometry());
    let fits = format(
        Chip::never(blank(SimNand::new(chip), sent)?),
        enough,
        FIXED_NUMBER,
        &New::default(),
    );
    match fits {
        Err(Error::Geometry) => {
            let slack = sent.map_or(String::new(), |sent| {
                format!(" with --slack {}", sent.slack)
            });
            let name = chip.name;
            let why = format!(
                "{name}: its pages or blocks do not suit flashlight{slack}: {SUITS}; `flashkit chips` \
                 shows those of each"
            );
            Err(Usage(why).into())
        }
        _ => check_ram(chip.name, chip.geometry(), ram),
    }
}

/// The least RAM of a volume on a chip.
pub fn ram_least(chip: &Preset) -> usize {
    ram_needed(&chip.geometry())
}

/// The RAM to hand over.
fn check_ram(name: &str, geometry: Geometry, ram: Option<usize>) -> anyhow::Result<usize> {
    let needed = ram_needed(&geometry);
    match ram {
        None => Ok(RAM_DEFAULT.max(needed)),
        Some(ram) if ram < needed => {
            let why = format!("--ram {ram}: too small: {name} needs at least {needed} bytes");
            Err(Usage(why).into())
        }
        Some(ram) => Ok(ram),
    }
}

/// RAM for one mount. It is never freed: a mounted file system borrows it for as long as anyone
/// may hold that, and this command mounts a handful of times and ends.
fn leak_ram(ram: usize) -> &'static mut [u8] {
    Box::leak(vec![0; ram].into_boxed_slice())
}

fn format(chip: Chip, ram: usize, number: u32, root: &New) -> Result<Chip, Error<AnyError>> {
    let (chip, mut ram) = (AnyNand::new(chip), vec![0; ram]);
    // The chip comes back and the RAM is free again.
    let chip: Chip = any::format(chip, &mut ram, number, root, Config::default())?.take();
    Ok(PowerCut::never(chip.into_inner()))
}

/// The chip below a file system.
fn chip(fs: &mut Fs) -> &mut Chip {
    fs.volume().nand_mut().get_mut()
}

fn config(tuning: Tuning, read_only: bool) -> Config {
    Config {
        read_only,
        // A medium that is opened to be read keeps what is written in memory.
        discarded: read_only,
        cleaner: match tuning.cleaner {
            None => Config::default().cleaner,
            Some(Cleaner::Paper) => flashkit_flashlight::Cleaner::Paper,
            Some(Cleaner::Space) => flashkit_flashlight::Cleaner::Space,
        },
        ..Config::default()
    }
}

fn mount(chip: Chip, tuning: Tuning, read_only: bool) -> anyhow::Result<Fs> {
    mount_as(chip, tuning, config(tuning, read_only))
}

fn mount_as(mut chip: Chip, tuning: Tuning, config: Config) -> anyhow::Result<Fs> {
    let geometry = chip.geometry();
    let useful = ram_useful(&geometry);
    let asked = tuning.ram.or(tuning.roomy.then_some(useful));
    let ram = check_ram(chip.inner().name(), geometry, asked)?;
    // More would lie idle.
    let ram = ram.min(useful.max(RAM_DEFAULT));
    let after_transfer = !config.read_only && chip.inner_mut().transfer().place()?;
    let config = Config {
        after_transfer,
        ..config
    };
    let mut fs = match any::mount(AnyNand::new(chip), leak_ram(ram), config) {
        Err(Error::NotFormatted) => bail!(NoVolume),
        // Made before the block table of such a chip lay on flash.
        Err(Error::RamTooSmall(more)) => bail!("needs {more} bytes of RAM: --ram {more}"),
        mounted => mounted?,
    };
    if after_transfer {
        self::chip(&mut fs).inner_mut().transfer().settle()?;
    }
    Ok(fs)
}

/// A chip for a new volume.
fn blank(chip: SimNand, sent: Option<Sent>) -> anyhow::Result<Medium> {
    match sent {
        None => Ok(Medium::new(chip)),
        Some(sent) => Medium::new_to_send(chip, sent.slack, sent.spare),
    }
}

/// Makes an image; [`check_fit`] has given the RAM.
pub fn mkfs(
    image: &Path,
    chip: &Preset,
    ram: usize,
    birth: Birth,
    sent: Option<Sent>,
) -> anyhow::Result<Counters> {
    let mut medium = blank(SimNand::create(image, chip)?, sent)?.with_key()?;
    medium.set_barrier(false);
    let mut birth = birth;
    if sent.is_some() {
        // Writing begins at the first block, so that the raw image ends early.
        birth.number -= birth.number % medium.geometry().blocks();
    }
    make(medium, ram, birth)
}

/// Makes a volume on a device, whatever is there. Gives the chip's name, its size, and the cost.
pub fn mkfs_device(
    device: &Path,
    ram: Option<usize>,
    birth: Birth,
) -> anyhow::Result<(String, u64, Counters)> {
    let looked = Medium::whole(device, Access::ReadOnly)?;
    let (name, geometry) = (looked.name().to_owned(), looked.chip_geometry());
    let ram = check_ram(&name, geometry, ram)?;
    drop(looked);
    let chip = Medium::whole(device, Access::ReadWrite)?.with_key()?;
    let cost = make(chip, ram, birth)?;
    Ok((name, geometry.capacity(), cost))
}

/// Whether a chip has a volume, of whatever state.
pub fn is_volume(path: &Path) -> anyhow::Result<bool> {
    // A transfer record that does not suit the chip is of a volume too.
    let Ok(mut chip) = Medium::open(path, Access::ReadOnly) else {
        return Ok(true);
    };
    let ram = check_ram(chip.name(), chip.geometry(), None)?;
    let config = config(Tuning::from(None), true);
    let mounted = any::mount(AnyNand::lent(&mut chip), &mut vec![0; ram], config).map(drop);
    Ok(!matches!(
        mounted,
        Err(Error::NotFormatted | Error::Geometry)
    ))
}

fn make(chip: Medium, ram: usize, birth: Birth) -> anyhow::Result<Counters> {
    let root = New {
        mode: 0o755,
        uid: birth.owner.0,
        gid: birth.owner.1,
        now: Time {
            secs: birth.now.secs,
            nanos: birth.now.nanos,
        },
    };
    let mut made = format(Chip::never(chip), ram, birth.number, &root)?;
    made.inner_mut().set_barrier(true);
    made.flush()?;
    Ok(Metered::counters(&made))
}

pub fn in_ram(chip: &Preset, tuning: Tuning) -> anyhow::Result<Box<dyn Adapter>> {
    let ram = check_fit(chip, tuning.ram, None)?;
    let root = New {
        mode: 0o755,
        ..New::default()
    };
    let chip = Chip::never(Medium::new(SimNand::new(chip)));
    let chip = format(chip, ram, FIXED_NUMBER, &root)?;
    let mut fs = mount(chip, tuning, false)?;
    self::chip(&mut fs).inner_mut().clear_counters();
    Ok(Box::new(fs))
}

pub fn open(
    image: &Path,
    access: Access,
    tuning: Tuning,
    cut: Option<Cut>,
) -> anyhow::Result<(Box<dyn Adapter>, String)> {
    let read_only = access == Access::ReadOnly;
    let mut chip = Medium::open(image, access)?;
    chip.set_barrier(!tuning.no_barrier);
    let name = chip.name().to_owned();
    let chip = match cut {
        None => Chip::never(chip),
        Some(cut) => Chip::new(
            chip,
            PowerLoss {
                after: cut.after,
                program: Tear::Random,
                erase: EraseTear::Partial,
                seed: cut.seed,
            },
        ),
    };
    let mut fs = mount(chip, tuning, read_only)?;
    if !read_only && fs.volume().is_worn() {
        let image = text::path(image);
        complain(&format!(
            "{image}: too many blocks have gone bad: it can only be read"
        ));
    }
    Ok((Box::new(fs), name))
}

impl Adapter for Fs {
    fn remount(self: Box<Self>, tuning: Tuning) -> anyhow::Result<Box<dyn Adapter>> {
        // After a clean unmount, or without power, this writes nothing.
        let chip = match self.into_volume().unmount() {
            Ok(chip) => chip,
            Err((chip, _)) if chip.get::<Chip>().is_off() => chip,
            Err((_, error)) => return Err(error.into()),
        };
        let mut chip = chip.take::<Chip>().into_inner();
        chip.clear_counters();
        Ok(Box::new(mount(Chip::never(chip), tuning, false)?))
    }

    fn power_is_off(&mut self) -> bool {
        chip(self).is_off()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_that_nobody_asked_for() {
        let chip = flashkit_sim::preset("slc-256m").unwrap();
        for (roomy, bytes) in [(false, RAM_DEFAULT), (true, 4_254_080)] {
            let tuning = Tuning {
                roomy,
                ..Tuning::from(None)
            };
            let fs = in_ram(chip, tuning).unwrap();
            assert_eq!(fs.ram_bytes(), bytes);
            // As it was, after the next mount as well.
            assert_eq!(fs.remount(tuning).unwrap().ram_bytes(), bytes);
        }
        // More than is of use is not taken.
        let fs = in_ram(chip, Tuning::from(Some(1 << 30))).unwrap();
        assert_eq!(fs.ram_bytes(), 4_254_080);
    }
}

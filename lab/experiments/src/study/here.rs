//! Cases in this process, on a simulated chip.

use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_sim::{Preset, SimNand};
use flashkit_vfs::Measured;
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_workload::{Options, Report, replay_fs};

use super::{Case, System};

/// RAM handed to FlashLight where the chip does not need more, in bytes.
pub const RAM: usize = 16_384;
/// Volumes are laid out in the same way every time.
const NUMBER: u32 = 1;

/// Runs a case.
///
/// # Errors
/// The operation that failed, in words.
pub fn run(case: &Case) -> Result<Report, String> {
    match case.system {
        System::FlashLight => {
            let ram = RAM.max(ram_needed(&case.chip.geometry()));
            let mut memory = vec![0; ram];
            let mut fs = flashlight(case.chip, &mut memory)?;
            replay(case, &mut fs)
        }
        System::LittleFs => littlefs(case),
        System::Yaffs2 => yaffs2(case),
        System::Ext4Jftl => {
            super::disk::run(case, options(case)).map_err(|error| format!("{error:#}"))
        }
        System::FlashLightMtd | System::F2fsJftl | System::Ubifs | System::Jffs2 => {
            Err("runs in a guest, not in this program".into())
        }
    }
}

fn options(case: &Case) -> Options<'static> {
    Options {
        fs: case.system.name().into(),
        chip: Some(case.chip.name.into()),
        request: case.request,
        fsync: case.fsync,
        ..Options::default()
    }
}

fn replay(case: &Case, fs: &mut dyn Measured) -> Result<Report, String> {
    let replayed = replay_fs(fs, (case.lines)(), options(case));
    Ok(replayed.map_err(|error| error.to_string())?.report)
}

#[cfg(feature = "littlefs")]
fn littlefs(case: &Case) -> Result<Report, String> {
    // One operation may have no end that one would wait for.
    let fs = flashkit_rivals::LittleFs::new(SimNand::new(case.chip), 2 * case.flash_limit);
    let fs = fs.map_err(|error| format!("format: {error}"))?;
    let options = Options {
        limit_s: Some(case.flash_limit),
        ..options(case)
    };
    let replayed = flashkit_workload::replay_store(fs, (case.lines)(), options);
    Ok(replayed.map_err(|error| error.to_string())?.report)
}

#[cfg(not(feature = "littlefs"))]
fn littlefs(_: &Case) -> Result<Report, String> {
    Err("is not in this build".into())
}

#[cfg(feature = "yaffs2")]
fn yaffs2(case: &Case) -> Result<Report, String> {
    let fs = flashkit_rivals::Yaffs2::new(SimNand::new(case.chip));
    let fs = fs.map_err(|error| format!("mount: {error}"))?;
    let replayed = flashkit_workload::replay_store(fs, (case.lines)(), options(case));
    Ok(replayed.map_err(|error| error.to_string())?.report)
}

#[cfg(not(feature = "yaffs2"))]
fn yaffs2(_: &Case) -> Result<Report, String> {
    Err("is not in this build".into())
}

/// A fresh volume. Formatting and mounting are not counted, but for the erase counts.
pub fn flashlight<'m>(chip: &Preset, memory: &'m mut [u8]) -> Result<AnyFs<'m, 'static>, String> {
    let root = New {
        mode: 0o755,
        ..New::default()
    };
    let nand = AnyNand::new(SimNand::new(chip));
    let formatted = any::format(nand, memory, NUMBER, &root, Config::default());
    let mut nand = formatted.map_err(|error| format!("format: {error}"))?;
    nand.get_mut::<SimNand>().clear_counters();
    let mounted = any::mount(nand, memory, Config::default());
    let mut fs = mounted.map_err(|error| format!("mount: {error}"))?;
    fs.volume().nand_mut().get_mut::<SimNand>().clear_counters();
    Ok(fs)
}

//! What tests in here have in common.

use flashkit_flashlight::{Config, FlashLight, New, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::{Faults, SimNand, preset};
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::{FileSystem, Ino, NewInode};

use crate::Served;
use crate::gather::Gathered;

/// FlashLight on a fresh chip.
pub(crate) fn flash(chip: &str) -> Box<Served> {
    faulty(chip, Faults::default())
}

/// FlashLight on a chip that is sound while it is formatted, and has these faults then.
pub(crate) fn faulty(chip: &str, faults: Faults) -> Box<Served> {
    let chip = SimNand::new(preset(chip).unwrap());
    let ram = vec![0; ram_needed(&chip.geometry())].leak();
    let mut chip = FlashLight::format(chip, ram, 1, &New::default()).unwrap();
    chip.set_faults(faults).unwrap();
    Box::new(any::mount(AnyNand::new(chip), ram, Config::default()).unwrap())
}

/// Holds back 4 MiB, whatever machine this is.
pub(crate) fn held(fs: Box<Served>) -> Gathered {
    Gathered::with_max(fs, 4 << 20)
}

/// New files `f0`, `f1`, ... in the root.
pub(crate) fn files(fs: &mut dyn FileSystem, count: u32) -> Vec<Ino> {
    let (root, new) = (fs.root(), NewInode::default());
    let names = (0..count).map(|n| format!("f{n}").into_bytes());
    names
        .map(|name| fs.create(root, &name, &new).unwrap().ino)
        .collect()
}

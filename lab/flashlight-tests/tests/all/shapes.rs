//! A chip of any shape within the limits, mounted with other RAM and other choices each time, and
//! cut while it is: nothing that was synced is lost, and it mounts.
//!
//! A failure names the seed: `FLASHKIT_SHAPES=n` begins with it, and goes on for 400.

use std::collections::BTreeMap;

use flashkit_flashlight::{Cleaner, Config, ram_needed, ram_useful};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{Cut, EraseTear, PowerCut, Rng, SimNand, Tear};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{FileSystem, NewInode, SetAttr};

use crate::common::{Fs, LATER, NOW, chip, clean, format, try_mount_in, try_unmount};

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// A chip of 160 MiB at most.
fn any_chip(rng: &mut Rng) -> SimNand {
    let page = pick(rng, &[1024, 1024, 2048, 4096, 8192, 16_384]);
    let pages = pick(
        rng,
        &[8, 16, 32, 64, 120, 121, 128, 200, 256, 512, 1000, 1024],
    );
    let spare = pick(rng, &[0, 24, 37, 38, 64]);
    let most = ((160 << 20) / u64::from(page * pages)).clamp(46, 12_000);
    let blocks = 46 + rng.below(most - 45) as u32;
    chip(page, spare, pages, blocks)
}

/// The least RAM, the most of use, or between.
fn any_ram(rng: &mut Rng, geo: &Geometry) -> usize {
    let (least, most) = (ram_needed(geo), ram_useful(geo));
    match rng.below(4) {
        0 => least,
        1 => most,
        _ => least + rng.below((most - least) as u64 + 1) as usize,
    }
}

fn any_config(rng: &mut Rng) -> Config {
    Config {
        cleaner: pick(rng, &[Cleaner::Space, Cleaner::Space, Cleaner::Paper]),
        wear_interval: pick(rng, &[0, 1, 52, 52, 100_000]),
        dirty_entries: pick(rng, &[0, 0, 0, 7]),
        ..Config::default()
    }
}

/// Changes a file in each of some directories, and makes what is not there. The modes that are
/// synced.
fn change(fs: &mut Fs, rng: &mut Rng, dirs: u64, modes: &mut BTreeMap<String, u16>) {
    let (root, new) = (fs.root(), NewInode::default());
    for d in (0..dirs).filter(|_| !rng.one_in(3)).collect::<Vec<_>>() {
        let name = format!("d{d}");
        let dir = fs.lookup(root, name.as_bytes());
        let Ok(dir) = dir.or_else(|_| fs.mkdir(root, name.as_bytes(), &new)) else {
            return;
        };
        let file = fs.lookup(dir.ino, b"f");
        let Ok(file) = file.or_else(|_| fs.create(dir.ino, b"f", &new)) else {
            return;
        };
        let mode = 0o600 + rng.below(64) as u16;
        let set = SetAttr {
            mode: Some(mode),
            now: LATER,
            ..SetAttr::default()
        };
        fs.setattr(file.ino, &set).unwrap();
        fs.fsync(file.ino).unwrap();
        modes.insert(name, mode);
    }
}

/// Fills what is left with one file, or removes that.
fn fill_or_empty(fs: &mut Fs, page: u32) {
    let root = fs.root();
    if fs.unlink(root, b"big", NOW).is_ok() {
        return;
    }
    let Ok(big) = fs.create(root, b"big", &NewInode::default()) else {
        return;
    };
    let (data, mut at) = (vec![7; page as usize], 0);
    while fs.write(big.ino, at, &data, NOW).is_ok() {
        at += u64::from(page);
    }
}

fn lives(seed: u64) {
    let mut rng = Rng::new(seed);
    let chip = format(any_chip(&mut rng), seed as u32);
    let geo = chip.geometry();
    let mount = |chip, rng: &mut Rng| {
        let ram = any_ram(rng, &geo);
        try_mount_in(AnyNand::new(chip), ram, any_config(rng))
            .unwrap_or_else(|e| panic!("seed {seed}, {geo:?}, {ram} bytes: {e}"))
    };
    let mut fs = mount(chip, &mut rng);
    let most = fs.statfs().unwrap().blocks_free / 4;
    let wanted = pick(&mut rng, &[30, 300, 1500, 5000]);
    let dirs = 1 + rng.below(most.min(wanted));
    let mut modes = BTreeMap::new();
    for _ in 0..3 {
        change(&mut fs, &mut rng, dirs, &mut modes);
        if rng.one_in(2) {
            fill_or_empty(&mut fs, geo.page_size());
        }
        fs.sync().unwrap();
        let mut chip = match rng.one_in(2) {
            true => try_unmount(fs).unwrap_or_else(|e| panic!("seed {seed}, {geo:?}: {e}")),
            false => fs.into_volume().nand().get::<SimNand>().clone(),
        };
        for _ in 0..rng.below(3) {
            let cut = Cut {
                after: rng.below(200),
                program: Tear::Garbage,
                erase: EraseTear::Partial,
                seed,
            };
            let mut cut_chip = PowerCut::new(chip, cut);
            let ram = any_ram(&mut rng, &geo);
            let _ = try_mount_in(AnyNand::lent(&mut cut_chip), ram, any_config(&mut rng)).map(drop);
            chip = cut_chip.into_inner();
        }
        fs = mount(chip, &mut rng);
        let root = fs.root();
        for (name, mode) in &modes {
            let dir = fs.lookup(root, name.as_bytes()).unwrap().ino;
            let found = fs.lookup(dir, b"f").unwrap().mode;
            assert_eq!(found, *mode, "seed {seed}, {name}");
        }
        clean(&mut fs);
    }
}

#[test]
fn a_chip_of_any_shape_keeps_what_was_synced() {
    match std::env::var("FLASHKIT_SHAPES").map(|s| s.parse::<u64>().unwrap()) {
        Ok(first) => (first..first + 400).for_each(lives),
        // In the last an end writes more directories than a checkpoint names blocks for.
        Err(_) => (0..8).chain([197]).for_each(lives),
    }
}

//! What a mount costs after a power cut, at most, and what it shows of a directory.

use crate::common::{
    Fs, NOW, chip, clean, cut, file, format_with, formatted, reads_after_cut_with, remount,
    try_mount,
};
use flashkit_flashlight::{Config, Error, FlashLight, New, ROOT_DIR, Time, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::{Rng, SimNand, preset};
use flashkit_vfs::{FileSystem, NewInode, SetAttr};

/// A directory with so many small files.
fn directory(files: u64, config: Config) -> Fs {
    let chip = format_with(SimNand::new(preset("slc-256m").unwrap()), 1, config);
    let mut fs = try_mount(chip, config).unwrap();
    let root = fs.root();
    for n in 0..files {
        let (name, new) = (n.to_string(), NewInode::default());
        let ino = fs.create(root, name.as_bytes(), &new).unwrap().ino;
        fs.write(ino, 0, &[7; 700], NOW).unwrap();
    }
    fs.sync().unwrap();
    fs
}

/// The most reads of a mount while changes are made to files at random, if the power goes then.
fn most_reads(files: u64, config: Config, change: impl Fn(&mut Fs, &[u8], u64)) -> u64 {
    let mut fs = directory(files, config);
    let (mut rng, mut most) = (Rng::new(1), 0);
    for n in 0..1_200 {
        let name = rng.below(files).to_string();
        if fs.lookup(fs.root(), name.as_bytes()).is_ok() {
            change(&mut fs, name.as_bytes(), n);
        }
        if n % 24 == 23 {
            most = most.max(reads_after_cut_with(&mut fs, config));
        }
    }
    most
}

fn rewrite(fs: &mut Fs, name: &[u8], n: u64) {
    let ino = fs.lookup(fs.root(), name).unwrap().ino;
    fs.write(ino, 0, &[n as u8; 300], NOW).unwrap();
    fs.fsync(ino).unwrap();
}

fn rename(fs: &mut Fs, name: &[u8], n: u64) {
    let (root, to) = (fs.root(), format!("to {n}"));
    fs.rename(root, name, root, to.as_bytes(), false, NOW)
        .unwrap();
}

fn replace(fs: &mut Fs, name: &[u8], n: u64) {
    let root = fs.root();
    fs.unlink(root, name, NOW).unwrap();
    file(fs, root, format!("new {n}").as_bytes(), 300);
}

/// 5,000 names are in hash maps, 30,000 in hash maps under index pages.
#[test]
fn a_mount_after_changes_in_a_large_directory_reads_2_500_pages_at_most() {
    // In RAM, and in 16 pages on flash, one of which is in RAM.
    let tables = [0, 128].map(|table_page| {
        let config = Config {
            table_page,
            ..Config::default()
        };
        let most = |files, change| most_reads(files, config, change);
        [5_000, 30_000].map(|files| [rewrite, rename, replace].map(|change| most(files, change)))
    });
    let in_ram = [[1_781, 1_657, 1_390], [2_261, 2_178, 1_575]];
    let on_flash = [[1_554, 1_465, 1_202], [2_306, 2_175, 1_720]];
    assert_eq!(tables, [in_ram, on_flash]);
    assert!(tables.iter().flatten().flatten().all(|&n| n <= 2_500));
}

/// A directory was written with the name of a file that was in RAM only, and power
/// went: its size does not count that name, whether it is looked at alone, after it has
/// been listed, or after a sync.
#[test]
fn a_name_that_is_lost_does_not_count_in_the_size() {
    let mut fs = formatted(chip(2048, 40, 64, 128));
    let root = fs.root();
    let mode = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    let dir = fs.mkdir(root, b"d", &NewInode::default()).unwrap().ino;
    file(&mut fs, dir, b"kept", 1);
    fs.create(dir, b"in RAM", &NewInode::default()).unwrap();
    // Others push it from the cache.
    for name in [b"x", b"y", b"z"] {
        let other = fs.mkdir(root, name, &NewInode::default()).unwrap().ino;
        fs.setattr(other, &mode).unwrap();
    }
    let mut fs = cut(fs);
    let push = |fs: &mut Fs| {
        for name in [b"x", b"y", b"z"] {
            let other = fs.lookup(root, name).unwrap().ino;
            fs.setattr(other, &mode).unwrap();
        }
    };
    let empty = fs.lookup(root, b"x").unwrap().size;
    let one = fs.getattr(dir).unwrap().size;
    assert_eq!(one, empty + 1, "alone");
    push(&mut fs);
    assert_eq!(fs.getattr(dir).unwrap().size, one, "after others");
    fs.sync().unwrap();
    let mut fs = remount(fs);
    assert_eq!(fs.getattr(dir).unwrap().size, one, "after a sync");
    clean(&mut fs);
}

/// A mount in the caller's memory is a mount like others, and leaves nothing there that is none.
#[test]
fn a_volume_is_mounted_in_its_place_or_not_at_all() {
    let blank = chip(1024, 40, 8, 64);
    let ram = || vec![0; ram_needed(&chip(1024, 40, 8, 64).geometry())].leak();
    let config = Config::default();
    let mut place = None;
    let refused = FlashLight::mount_into(&mut place, blank.clone(), ram(), config);
    assert!(matches!(refused, Err(Error::NotFormatted)));
    assert!(place.is_none());
    let formatted = FlashLight::format(blank, ram(), 1, &New::default()).unwrap();
    FlashLight::mount_into(&mut place, formatted, ram(), config).unwrap();
    let mut fs = place.take().unwrap();
    fs.create(ROOT_DIR, b"file", &New::default()).unwrap();
    fs.sync().unwrap();
    // As if the power had gone.
    let left = fs.nand().clone();
    let short = &mut [0; 64];
    let refused = FlashLight::mount_into(&mut None, left.clone(), short, config);
    assert!(matches!(refused, Err(Error::RamTooSmall(_))));
    let mut place = None;
    FlashLight::mount_into(&mut place, left, ram(), config).unwrap();
    let found = place.as_mut().unwrap().lookup(ROOT_DIR, b"file");
    assert_eq!(found.unwrap().mtime, Time::default());
}

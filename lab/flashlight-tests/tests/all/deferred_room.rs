//! Deferred changes of directories are nobody's only copy of what a volume needs room for: where
//! they may lie, and how many there may be, follows from what a mount and a checkpoint can do.

use crate::common::{Fs, LATER, NOW, chip, clean, format, on_preset, try_mount_in, try_unmount};
use flashkit_flashlight::{Config, ram_needed, ram_useful};
use flashkit_nand::Nand;
use flashkit_sim::SimNand;
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{FileSystem, Ino, NewInode, SetAttr};

fn change(fs: &mut Fs, file: Ino) -> flashkit_vfs::Result<()> {
    let set = SetAttr {
        mode: Some(0o600),
        now: LATER,
        ..SetAttr::default()
    };
    fs.setattr(file, &set)?;
    fs.fsync(file)
}

/// Some directories with a file each; the numbers up to the last of the map's first page are taken,
/// and the last ones free again; `changes` in some directories; then the first directory of the
/// map's second page.
fn crossed(changes: usize) -> (Fs, Vec<Ino>) {
    let mut fs = on_preset("slc-256m");
    let (root, new) = (fs.root(), NewInode::default());
    let (mut files, mut last) = (Vec::new(), 0);
    for d in 0.. {
        last = fs
            .mkdir(root, format!("d{d}").as_bytes(), &new)
            .unwrap()
            .ino;
        if d < 20 {
            let ino = fs.create(last, b"f", &new).unwrap().ino;
            fs.fsync(ino).unwrap();
            files.push(ino);
        }
        if last >= 120 {
            break;
        }
    }
    fs.sync().unwrap();
    let mut made = 0;
    while last < 503 {
        last = fs
            .mkdir(root, format!("x{made}").as_bytes(), &new)
            .unwrap()
            .ino;
        made += 1;
    }
    for n in made - 40..made {
        fs.rmdir(root, format!("x{n}").as_bytes(), LATER).unwrap();
    }
    for n in 0..changes {
        change(&mut fs, files[n * 7 % 20]).unwrap();
    }
    let next = fs.mkdir(root, b"next", &new).unwrap().ino;
    assert_eq!(next, 504, "no checkpoint came in between");
    (fs, files)
}

/// Changes that lie in the page of the map keep all other pages of it out of RAM. A volume whose
/// map got its second page in the same call could not be synced, unmounted or changed any more.
#[test]
fn the_maps_second_page_comes_before_changes_that_would_keep_it_out() {
    for changes in 0..12 {
        let (mut fs, _) = crossed(changes);
        fs.sync().unwrap();
        clean(&mut fs);
        let (fs, _) = crossed(changes);
        try_unmount(fs).unwrap();
        let (mut fs, files) = crossed(changes);
        for n in 0..600 {
            change(&mut fs, files[n % 20]).unwrap();
        }
        clean(&mut fs);
    }
}

/// So many directories with a file each, a file that takes all other space, and a change of each of
/// the files, all of it synced, with much RAM.
fn full((page, pages, blocks): (u32, u32, u32), dirs: usize, ram: Option<usize>) -> Fs {
    let chip = format(chip(page, 64, pages, blocks), 1);
    let ram = ram.unwrap_or(ram_useful(&chip.geometry()));
    let mut fs = try_mount_in(AnyNand::new(chip), ram, Config::default()).unwrap();
    let (root, new) = (fs.root(), NewInode::default());
    let mut files = Vec::new();
    for d in 0..dirs {
        let dir = fs
            .mkdir(root, format!("d{d}").as_bytes(), &new)
            .unwrap()
            .ino;
        let file = fs.create(dir, b"f", &new).unwrap().ino;
        fs.write(file, 0, b"data", NOW).unwrap();
        files.push(file);
    }
    let big = fs.create(root, b"big", &new).unwrap().ino;
    let data = vec![7; page as usize];
    let mut at = 0;
    while fs.write(big, at, &data, NOW).is_ok() {
        at += u64::from(page);
    }
    for file in files {
        change(&mut fs, file).unwrap();
    }
    fs.sync().unwrap();
    fs
}

/// A mount with less RAM writes a page for each directory that it has no room for. So there are no
/// more of these than blocks for that.
#[test]
fn a_full_volume_mounts_with_less_ram_than_it_was_filled_with() {
    for (shape, dirs, ram) in [
        ((2048, 64, 300), 2700, None),
        ((2048, 64, 300), 2700, Some(65_536)),
        ((2048, 16, 600), 700, None),
        ((4096, 8, 700), 700, None),
    ] {
        for unmounted in [false, true] {
            let fs = full(shape, dirs, ram);
            let chip = match unmounted {
                true => try_unmount(fs).unwrap(),
                false => fs.into_volume().nand().get::<SimNand>().clone(),
            };
            let least = ram_needed(&chip.geometry());
            let only_read = Config {
                read_only: true,
                discarded: true,
                ..Config::default()
            };
            for config in [Config::default(), only_read] {
                let mounted = try_mount_in(AnyNand::new(chip.clone()), least, config);
                let mut fs = mounted
                    .unwrap_or_else(|e| panic!("{shape:?}, {ram:?}, unmounted: {unmounted}: {e}"));
                clean(&mut fs);
            }
        }
    }
}

/// The most changes that are deferred, on a chip of large blocks: a checkpoint has room for no more
/// than a mount believes.
#[test]
fn a_checkpoint_with_all_changes_that_are_deferred_is_believed() {
    let chip = format(chip(1024, 64, 256, 300), 1);
    let ram = ram_useful(&chip.geometry());
    let mut fs = try_mount_in(AnyNand::new(chip), ram, Config::default()).unwrap();
    let (root, new) = (fs.root(), NewInode::default());
    let mut files = Vec::new();
    for d in 0..3_500 {
        let dir = fs.mkdir(root, format!("d{d}").as_bytes(), &new).unwrap();
        let file = fs.create(dir.ino, b"f", &new).unwrap().ino;
        fs.write(file, 0, b"data", NOW).unwrap();
        files.push(file);
    }
    fs.sync().unwrap();
    for file in files {
        change(&mut fs, file).unwrap();
    }
    fs.sync().unwrap();
    let cut = fs.into_volume().nand().get::<SimNand>().clone();
    clean(&mut try_mount_in(AnyNand::new(cut), ram, Config::default()).unwrap());
}

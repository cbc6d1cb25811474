//! What changes in more directories than there are slots for is gathered, and none of it is lost:
//! by a cut, by a mount with less RAM, by a checkpoint that is cut.

use flashkit_flashlight::{Area, Config, Page, Visitor, ram_useful};
use flashkit_nand::{Nand as _, PageAddr};
use flashkit_sim::{Cut, EraseTear, Faults, PowerCut, Rng, SimNand, Tear, Weak};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, Time};
use std::collections::BTreeMap;

use crate::common::{
    Fs, LATER, NOW, chip, clean, cost, cut, file, format, formatted, of_paper, on_preset, remount,
    try_mount, try_mount_in, try_mount_lent, try_unmount,
};

/// The area of directories' pages.
const DIR: usize = 2;

/// Where a file is: the directory, and its number there.
type Names = BTreeMap<(usize, u64), Ino>;

fn dirs(fs: &mut Fs, n: usize) -> Vec<Ino> {
    let root = fs.root();
    let mut make = |i| fs.mkdir(root, format!("d{i}").as_bytes(), &NewInode::default());
    (0..n).map(|i| make(i).unwrap().ino).collect()
}

fn name(n: u64) -> String {
    format!("n{n}")
}

/// One change in one of the directories, durable when this returns but for the removals.
fn change(fs: &mut Fs, dirs: &[Ino], names: &mut Names, rng: &mut Rng) {
    let d = rng.below(dirs.len() as u64) as usize;
    let n = rng.below(6);
    match (rng.below(5), names.get(&(d, n)).copied()) {
        (0, Some(_)) => {
            fs.unlink(dirs[d], name(n).as_bytes(), NOW).unwrap();
            names.remove(&(d, n));
        }
        (1, Some(ino)) => {
            let (e, m) = (rng.below(dirs.len() as u64) as usize, rng.below(6));
            let (from, to) = (name(n), name(m));
            fs.rename(dirs[d], from.as_bytes(), dirs[e], to.as_bytes(), false, NOW)
                .unwrap();
            names.remove(&(d, n));
            names.insert((e, m), ino);
        }
        (_, Some(ino)) => {
            fs.lookup(dirs[d], name(n).as_bytes()).unwrap();
            fs.write(ino, rng.below(4000), &[7; 300], NOW).unwrap();
            fs.fsync(ino).unwrap();
        }
        (_, None) => {
            names.insert((d, n), file(fs, dirs[d], name(n).as_bytes(), 200));
        }
    }
}

/// Each name leads to its file.
fn compare(fs: &mut Fs, dirs: &[Ino], names: &Names, case: &str) {
    for (&(d, n), &ino) in names {
        let found = fs.lookup(dirs[d], name(n).as_bytes()).map(|attr| attr.ino);
        assert_eq!(found, Ok(ino), "{case}: {d}/{n}");
    }
}

/// A page of a directory for as many changes as there is room for: two dozen directories take
/// turns.
#[test]
fn a_page_is_written_for_several_changes() {
    let written = |ram: usize| {
        let chip = SimNand::new(flashkit_sim::preset("slc-256m").unwrap());
        let mut fs = try_mount_in(AnyNand::new(format(chip, 1)), ram, Config::default()).unwrap();
        let dirs = dirs(&mut fs, 24);
        fs.sync().unwrap();
        let before = fs.volume().written().areas[DIR];
        for i in 0..800 {
            let name = format!("file {i}");
            file(&mut fs, dirs[i * 7 % 24], name.as_bytes(), 100);
        }
        clean(&mut fs);
        fs.volume().written().areas[DIR] - before
    };
    assert_eq!([16_384, 65_536].map(written), [40, 24]);
}

/// Changes of many directories lie behind the map of them, in its page, and give way as more
/// directories come, until the map has a second page. Nothing is lost by that, nor by a cut while
/// there are more changes than a mount has room for. Numbers are used again after a checkpoint.
#[test]
fn changes_give_way_to_new_directories() {
    let mut rng = Rng::new(3);
    let mut fs = on_preset("slc-256m");
    let mut dirs = dirs(&mut fs, 100);
    let mut names = Names::new();
    for round in 0..30 {
        for _ in 0..150 {
            change(&mut fs, &dirs, &mut names, &mut rng);
        }
        let root = fs.root();
        for n in 0..20 {
            // One that goes again leaves its number to another.
            let gone = format!("gone {round} {n}");
            fs.mkdir(root, gone.as_bytes(), &NewInode::default())
                .unwrap();
            let new = format!("new {round} {n}");
            let new = fs
                .mkdir(root, new.as_bytes(), &NewInode::default())
                .unwrap();
            fs.rmdir(root, gone.as_bytes(), NOW).unwrap();
            names.insert((dirs.len(), 0), file(&mut fs, new.ino, b"n0", 100));
            dirs.push(new.ino);
        }
        compare(&mut fs, &dirs, &names, &format!("round {round}"));
        match round % 3 {
            // What a directory has lost is durable by that.
            0 => {
                fs.sync().unwrap();
                for _ in 0..40 {
                    let d = rng.below(dirs.len() as u64) as usize;
                    let n = 10 + names.len() as u64;
                    names.insert((d, n), file(&mut fs, dirs[d], name(n).as_bytes(), 100));
                }
                fs = cut(fs);
            }
            1 => fs = remount(fs),
            _ => {}
        }
        compare(&mut fs, &dirs, &names, &format!("after round {round}"));
    }
    assert!(
        dirs.iter().any(|dir| *dir > 504),
        "the map has a second page"
    );
    clean(&mut fs);
}

/// A directory's attributes and the order of its listing do not tell where its changes are.
#[test]
fn a_directory_with_deferred_changes_is_as_any() {
    let mut fs = of_paper();
    let root = fs.root();
    let dirs = dirs(&mut fs, 6);
    for &dir in &dirs {
        file(&mut fs, dir, b"a", 10);
        fs.mkdir(dir, b"sub", &NewInode::default()).unwrap();
    }
    fs.sync().unwrap();
    for &dir in &dirs {
        fs.create(
            dir,
            b"b",
            &NewInode {
                now: LATER,
                ..NewInode::default()
            },
        )
        .unwrap();
        fs.unlink(dir, b"a", LATER).unwrap();
        fs.rename(dir, b"b", dir, b"c", false, LATER).unwrap();
    }
    for round in 0..3 {
        for (i, &dir) in dirs.iter().enumerate() {
            let attr = fs.lookup(root, format!("d{i}").as_bytes()).unwrap();
            assert_eq!((attr.ino, attr.size, attr.nlink), (dir, 2, 3), "{round}");
            assert_eq!((attr.mtime, attr.ctime), (LATER, LATER), "{round}");
            assert_eq!(fs.lookup(dir, b"a").err(), Some(Error::NotFound));
            let mut names = vec![];
            fs.readdir(dir, 0, &mut |entry| {
                names.push(entry.name);
                true
            })
            .unwrap();
            names.sort();
            assert_eq!(names, [&b"c"[..], b"sub"], "{round}");
        }
        fs = if round == 0 { cut(fs) } else { remount(fs) };
        clean(&mut fs);
    }
}

/// What a cut leaves: all that was acknowledged, whatever is gathered, in pages or in a checkpoint.
#[test]
fn a_cut_loses_no_name() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut fs = crate::common::formatted(chip(2048, 40, 16, 256));
        let dirs = dirs(&mut fs, 3 + rng.below(40) as usize);
        let mut names = Names::new();
        for step in 0..600 {
            change(&mut fs, &dirs, &mut names, &mut rng);
            match rng.below(60) {
                0 => fs.sync().unwrap(),
                1 => fs = remount(fs),
                2 => {
                    fs = cut(fs);
                    clean(&mut fs);
                    compare(&mut fs, &dirs, &names, &format!("seed {seed}, step {step}"));
                    // What was removed last may be back.
                    for (d, &dir) in dirs.iter().enumerate() {
                        for n in 0..6 {
                            if let Ok(attr) = fs.lookup(dir, name(n).as_bytes()) {
                                names.insert((d, n), attr.ino);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

/// More RAM gathers more than the least has room for: a mount with the least, after a cut, writes
/// it, and may be cut in that; after an orderly end all has room, and nothing is written.
#[test]
fn the_least_ram_mounts_what_more_has_left() {
    let geo = chip(2048, 40, 16, 512).geometry();
    for seed in 0..6 {
        let mut rng = Rng::new(100 + seed);
        let new = AnyNand::new(format(chip(2048, 40, 16, 512), 1));
        let mut fs = try_mount_in(new, ram_useful(&geo), Config::default()).unwrap();
        let dirs = dirs(&mut fs, 150);
        let mut names = Names::new();
        for _ in 0..400 {
            change(&mut fs, &dirs, &mut names, &mut rng);
        }
        fs.sync().unwrap();
        for _ in 0..rng.below(60) {
            let (d, n) = (rng.below(150) as usize, 6 + rng.below(20));
            names
                .entry((d, n))
                .or_insert_with(|| file(&mut fs, dirs[d], name(n).as_bytes(), 100));
        }
        let left = fs.volume().nand().get::<SimNand>().clone();
        let case = format!("seed {seed}");
        let orderly = try_unmount(fs).unwrap();
        for after in [0, 3, 10, 40, 90] {
            let cut = Cut {
                after: after + rng.below(5),
                program: Tear::Random,
                erase: EraseTear::Partial,
                seed,
            };
            let mut chip = PowerCut::new(left.clone(), cut);
            let _ = try_mount_lent(&mut chip, Config::default());
            let mut fs = try_mount(chip.into_inner(), Config::default()).unwrap();
            clean(&mut fs);
            compare(&mut fs, &dirs, &names, &case);
        }
        let mut fs = try_mount(orderly, Config::default()).unwrap();
        let spent = cost(&mut fs, |fs| compare(fs, &dirs, &names, &case));
        assert_eq!(spent.1, 0);
        clean(&mut fs);
    }
}

/// A full volume leaves more changes than the least RAM has room for: there is no block to write
/// them to. It was unmounted in order all the same.
#[test]
fn a_full_volume_that_was_unmounted_is_not_taken_for_one_that_was_cut() {
    let geo = chip(2048, 40, 16, 512).geometry();
    let new = AnyNand::new(format(chip(2048, 40, 16, 512), 1));
    let mut fs = try_mount_in(new, ram_useful(&geo), Config::default()).unwrap();
    let dirs = dirs(&mut fs, 150);
    let mut names = Names::new();
    for n in 0..8 {
        for (d, &dir) in dirs.iter().enumerate() {
            let made = file(&mut fs, dir, name(n).as_bytes(), 100);
            names.insert((d, n), made);
        }
    }
    fs.sync().unwrap();
    let root = fs.root();
    let large = fs.create(root, b"large", &NewInode::default()).unwrap().ino;
    let mut at = 0;
    for n in 0..6 {
        for (d, &dir) in dirs.iter().enumerate() {
            if fs.unlink(dir, name(n).as_bytes(), NOW).is_ok() {
                names.remove(&(d, n));
            }
            while fs.write(large, at, &[5; 2048], NOW).is_ok() {
                at += 2048;
            }
        }
    }
    let orderly = try_unmount(fs).unwrap();
    let mut fs = try_mount(orderly, Config::default()).unwrap();
    assert!(!fs.volume().is_recovered());
    clean(&mut fs);
    compare(&mut fs, &dirs, &names, "full");
}

/// A time that is none is a caller's mistake, and not the end of the volume.
#[test]
fn a_time_of_too_many_nanoseconds_is_one_of_the_last() {
    for orderly in [false, true] {
        let mut fs = formatted(chip(2048, 40, 64, 256));
        let root = fs.root();
        file(&mut fs, root, b"keep", 100);
        fs.sync().unwrap();
        for nanos in [1_000_000_000, u32::MAX] {
            let now = Time { secs: 100, nanos };
            let new = NewInode {
                now,
                ..NewInode::default()
            };
            let name = nanos.to_string();
            let made = fs.create(root, name.as_bytes(), &new).unwrap();
            fs.write(made.ino, 0, &[1; 100], now).unwrap();
            fs.sync().unwrap();
            fs = if orderly { remount(fs) } else { cut(fs) };
            let found = fs.lookup(root, name.as_bytes()).unwrap();
            assert_eq!(found.mtime.nanos, 999_999_999);
            assert_eq!(fs.getattr(root).unwrap().mtime.nanos, 999_999_999);
        }
        fs.lookup(root, b"keep").unwrap();
        clean(&mut fs);
    }
}

/// A directory's page cannot be read for a while, and it is the one with the most changes: others
/// are written where room is needed. When it can be read again, all that was synced is there.
#[test]
fn changes_wait_for_a_page_that_cannot_be_read_now() {
    for cuts in [false, true] {
        let mut fs = formatted(chip(2048, 40, 64, 256));
        let dirs = dirs(&mut fs, 40);
        fs.sync().unwrap();
        let mut names = Names::new();
        for n in 0..8 {
            names.insert((0, n), file(&mut fs, dirs[0], name(n).as_bytes(), 100));
        }
        for d in [1, 2] {
            names.insert((d, 0), file(&mut fs, dirs[d], b"n0", 100));
        }
        let at = page_of(&mut fs, dirs[0]);
        let lose = |fs: &mut Fs, grave_pages| {
            let faults = Faults {
                grave_pages,
                ..Faults::default()
            };
            let chip = fs.volume().nand_mut().get_mut::<SimNand>();
            chip.set_faults(faults).unwrap();
        };
        lose(&mut fs, vec![Weak { at, good: 0 }]);
        let before = fs.volume().written().areas[DIR];
        for n in 1..9 {
            for (d, &dir) in dirs.iter().enumerate().skip(1) {
                names.insert((d, n), file(&mut fs, dir, name(n).as_bytes(), 100));
            }
        }
        assert!(fs.volume().written().areas[DIR] > before + 4);
        lose(&mut fs, vec![]);
        assert_eq!(page_of(&mut fs, dirs[0]), at);
        fs.sync().unwrap();
        if cuts {
            fs = cut(fs);
        }
        compare(&mut fs, &dirs, &names, &format!("{cuts}"));
        clean(&mut fs);
    }
}

/// Where a directory is, by the map.
fn page_of(fs: &mut Fs, dir: Ino) -> u32 {
    struct Find(u32, u32);
    impl Visitor for Find {
        fn page(&mut self, page: Page) {
            if page.area == Area::Dir && page.ino == self.0 {
                self.1 = page.page.0;
            }
        }
        fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
    }
    let mut find = Find(dir as u32, 0);
    fs.volume().walk(&mut find).unwrap();
    find.1
}

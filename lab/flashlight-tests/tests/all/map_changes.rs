//! Directories of several pages of the directory map change in turn: what no page of the map shows
//! yet comes back after a power cut, and is not lost with a page that cannot be read.

use flashkit_flashlight::Config;
use flashkit_sim::{Cut, EraseTear, PowerCut, Rng, Rot, SimNand, Tear};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode};

use crate::common::{
    Fs, NOW, chip, clean, formatted, map_pages, mount, ram_for, try_mount_in, try_unmount,
};

/// So many directories in the root.
fn directories(fs: &mut Fs, count: usize) -> Vec<Ino> {
    let (root, new) = (fs.root(), NewInode::default());
    (0..count)
        .map(|i| {
            let name = format!("d{i}");
            fs.mkdir(root, name.as_bytes(), &new).unwrap().ino
        })
        .collect()
}

/// With pages of 1 KiB each page of the map has 248 directories: these are of four.
const DIRS: usize = 900;

/// A volume with files in directories of four pages of the map.
fn made() -> SimNand {
    let mut fs = formatted(chip(1024, 40, 16, 400));
    let dirs = directories(&mut fs, DIRS);
    for i in 0..FILES {
        let (dir, name) = (dirs[place(i, 0)], format!("f{i}"));
        let ino = fs.create(dir, name.as_bytes(), &NewInode::default());
        fs.write(ino.unwrap().ino, 0, name.as_bytes(), NOW).unwrap();
    }
    try_unmount(fs).unwrap()
}

const FILES: usize = 12;

/// In which directory a file is after so many moves of it.
fn place(file: usize, moves: usize) -> usize {
    (file * 131 + moves * 257) % DIRS
}

/// Each move is durable when it returns. How many were made before the power went.
fn move_files(fs: &mut dyn FileSystem, steps: usize) -> usize {
    let root = fs.root();
    for step in 0..steps {
        let (file, moves) = (step % FILES, step / FILES);
        let name = format!("f{file}");
        let dirs = [0, 1].map(|more| {
            let dir = format!("d{}", place(file, moves + more));
            fs.lookup(root, dir.as_bytes()).map(|found| found.ino)
        });
        let [Ok(from), Ok(to)] = dirs else {
            return step;
        };
        if fs
            .rename(from, name.as_bytes(), to, name.as_bytes(), false, NOW)
            .is_err()
        {
            return step;
        }
    }
    steps
}

/// Each file is where it was after `done` moves of all files, or one more.
fn found_after(fs: &mut Fs, done: usize, why: &str) {
    let root = fs.root();
    for file in 0..FILES {
        let moves = done / FILES + usize::from(file < done % FILES);
        let name = format!("f{file}");
        let mut at = [moves, moves + 1].map(|moves| {
            let dir = format!("d{}", place(file, moves));
            let dir = fs.lookup(root, dir.as_bytes()).unwrap().ino;
            fs.lookup(dir, name.as_bytes()).ok()
        });
        let may_have_moved = file == done % FILES;
        let found = match (at[0].take(), at[1].take()) {
            (Some(found), None) => found,
            (None, Some(found)) if may_have_moved => found,
            other => panic!("{why}: {name} after {moves} moves: {other:?}"),
        };
        let mut bytes = [0; 8];
        let len = fs.read(found.ino, 0, &mut bytes).unwrap();
        assert_eq!(bytes[..len], *name.as_bytes(), "{why}");
    }
    clean(fs);
}

/// With the least RAM a handful of changes waits, with more of it 64.
#[test]
fn what_no_page_of_the_map_shows_comes_back_after_a_power_cut() {
    let made = made();
    for more in [0, 64 << 10] {
        let mut rng = Rng::new(more as u64);
        for after in (0..700).step_by(if more == 0 { 3 } else { 9 }) {
            let cut = Cut {
                after,
                program: [Tear::NotBegun, Tear::Garbage, Tear::Unstable { reads: 2 }]
                    [rng.below(3) as usize],
                erase: EraseTear::Partial,
                seed: after,
            };
            let why = format!("{more} bytes more, cut after {after} operations");
            let mut torn = PowerCut::new(made.clone(), cut);
            let mut done = 0;
            let bytes = ram_for(&made, Config::default()) + more;
            if let Ok(mut fs) = try_mount_in(AnyNand::lent(&mut torn), bytes, Config::default()) {
                done = move_files(&mut fs, 20 * FILES);
            }
            found_after(&mut mount(torn.into_inner()), done, &why);
        }
    }
}

#[test]
fn changes_are_not_lost_with_a_page_of_the_map() {
    let mut fs = mount(made());
    let pages = map_pages(&mut fs);
    assert_eq!(pages.len(), 4);
    for steps in [FILES, 2 * FILES] {
        for lost in &pages {
            let mut fs = mount(made());
            assert_eq!(move_files(&mut fs, steps), steps);
            let chip = fs.volume().nand_mut().get_mut::<SimNand>();
            assert!(chip.rot(*lost, Rot::Lost).unwrap());
            let why = format!("{lost:?} is lost after {steps} moves");
            let root = fs.root();
            for i in 0..DIRS {
                let name = format!("d{i}");
                let found = fs.lookup(root, name.as_bytes());
                assert!(
                    found.is_ok_and(|dir| fs.getattr(dir.ino).is_ok()),
                    "{why}: {name}"
                );
            }
            fs.sync().unwrap();
            found_after(&mut fs, steps, &why);
            let chip = try_unmount(fs).unwrap();
            found_after(&mut mount(chip), steps, &why);
        }
    }
}

/// What a recovery writes lies together: pages of directories between those of other kinds.
#[test]
fn directories_that_a_recovery_has_written_are_not_lost_with_a_page_of_the_map() {
    let new = NewInode::default();
    let changed = |i: usize| i.is_multiple_of(7);
    // More changes of directories than the mount that recovers them has room for.
    let mut fs = try_mount_in(AnyNand::new(made()), 128 << 10, Config::default()).unwrap();
    let root = fs.root();
    for i in (0..DIRS).filter(|&i| changed(i)) {
        let dir = fs.lookup(root, format!("d{i}").as_bytes()).unwrap().ino;
        let ino = fs.create(dir, b"new", &new).unwrap().ino;
        fs.fsync(ino).unwrap();
    }
    let cut = fs.volume().nand_mut().get_mut::<SimNand>().clone();
    let chip = try_unmount(mount(cut)).unwrap();
    let pages = map_pages(&mut mount(chip.clone()));
    assert_eq!(pages.len(), 4);
    for lost in pages {
        let mut chip = chip.clone();
        assert!(chip.rot(lost, Rot::Lost).unwrap());
        let mut fs = mount(chip);
        for i in 0..DIRS {
            let name = format!("d{i}");
            let dir = fs.lookup(root, name.as_bytes());
            let found = dir.and_then(|dir| fs.lookup(dir.ino, b"new"));
            let what = format!("{lost:?} is lost: {name} gives {found:?}");
            let is_right = match found {
                Ok(_) => changed(i),
                Err(e) => e == Error::NotFound && !changed(i),
            };
            assert!(is_right, "{what}");
        }
    }
}

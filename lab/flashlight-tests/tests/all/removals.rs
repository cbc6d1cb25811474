//! Files that come where others were removed: what the record of that costs, and what
//! is there after a power cut.

use crate::common::{
    Fs, NOW, chip, clean, cost, cut, file, formatted, of_paper, on_preset, pages_with,
    reads_after_cut, remount,
};
use flashkit_sim::{Faults, Rate, Rng, Rot, SimNand};
use flashkit_vfs::{FileSystem, NewInode, SetAttr};

fn small_chip() -> Fs {
    formatted(chip(2048, 64, 64, 128))
}

fn unlink(fs: &mut Fs, name: &str) {
    fs.unlink(fs.root(), name.as_bytes(), NOW).unwrap();
}

fn exists(fs: &mut Fs, name: &str) -> bool {
    fs.lookup(fs.root(), name.as_bytes()).is_ok()
}

/// Programs of an empty file with fsync, after `removed` others were removed.
fn programs_after(removed: usize, name_len: usize) -> u64 {
    let mut fs = small_chip();
    let root = fs.root();
    file(&mut fs, root, b"first of the session", 1);
    for i in 0..removed {
        file(&mut fs, root, format!("old {i}").as_bytes(), 100);
    }
    for i in 0..removed {
        unlink(&mut fs, &format!("old {i}"));
    }
    let name = vec![b'n'; name_len];
    let spent = cost(&mut fs, |fs| {
        let ino = fs.create(root, &name, &NewInode::default()).unwrap().ino;
        let mode = SetAttr {
            mode: Some(0o600),
            ..SetAttr::default()
        };
        fs.setattr(ino, &mode).unwrap();
        fs.fsync(ino).unwrap();
    });
    let mut fs = cut(fs);
    assert!(fs.lookup(root, &name).is_ok());
    assert_eq!(
        (0..removed).find(|i| exists(&mut fs, &format!("old {i}"))),
        None
    );
    clean(&mut fs);
    spent.1
}

#[test]
fn the_page_of_a_new_file_records_up_to_16_removals() {
    assert_eq!(programs_after(0, 4), 1);
    assert_eq!(programs_after(1, 4), 1);
    assert_eq!(programs_after(16, 4), 1);
    assert_eq!(programs_after(17, 4), 2);
}

#[test]
fn a_page_without_room_leaves_it_to_the_directory() {
    let mut fs = small_chip();
    let root = fs.root();
    for i in 0..16 {
        file(&mut fs, root, format!("old {i}").as_bytes(), 100);
    }
    for i in 0..16 {
        unlink(&mut fs, &format!("old {i}"));
    }
    // Name and fragment leave less than 192 bytes.
    let name = "n".repeat(250);
    let spent = cost(&mut fs, |fs| {
        file(fs, root, name.as_bytes(), 1480);
    });
    assert_eq!(spent.1, 2);
    let mut fs = cut(fs);
    assert!(exists(&mut fs, &name) && !exists(&mut fs, "old 15"));
    clean(&mut fs);
}

/// The space of what was removed is free after a cut, once.
#[test]
fn what_was_removed_is_free_after_a_cut() {
    let mut fs = small_chip();
    let root = fs.root();
    fs.sync().unwrap();
    let empty = fs.statfs().unwrap().blocks_free;
    for round in 0..6 {
        for i in 0..4 {
            file(&mut fs, root, format!("{round} {i}").as_bytes(), 100_000);
        }
        for i in 0..4 {
            unlink(&mut fs, &format!("{round} {i}"));
        }
        file(&mut fs, root, b"new", 10);
        fs = cut(fs);
        clean(&mut fs);
        unlink(&mut fs, "new");
    }
    fs = remount(fs);
    let free = fs.statfs().unwrap().blocks_free;
    assert!(empty - free <= 2, "{empty} pages were free, {free} are");
}

/// A removal that no page records is undone by a cut, and so is what came after it.
#[test]
fn the_order_of_a_directory_stays() {
    let mut fs = small_chip();
    let root = fs.root();
    for name in ["a", "b", "c"] {
        file(&mut fs, root, name.as_bytes(), 5000);
    }
    unlink(&mut fs, "a");
    file(&mut fs, root, b"d", 5000);
    unlink(&mut fs, "b");
    fs.create(root, b"e", &NewInode::default()).unwrap();
    let mut fs = cut(fs);
    let there = ["a", "b", "c", "d", "e"].map(|name| exists(&mut fs, name));
    assert_eq!(there, [false, true, true, true, false]);
    clean(&mut fs);
}

/// What a mount reads at most after a cut while files come and go, whatever the size of the chip.
#[test]
fn a_mount_after_removals_reads_a_bounded_number_of_pages() {
    for (name, reads) in [("slc-256m", 1210), ("slc-8g", 1086)] {
        let mut fs = if name == "slc-256m" {
            of_paper()
        } else {
            on_preset(name)
        };
        let (root, mut rng, mut most) = (fs.root(), Rng::new(1), 0);
        let mut names: Vec<u64> = (0..1300).collect();
        for n in &names {
            file(&mut fs, root, n.to_string().as_bytes(), 4096);
        }
        for n in 1300..2900 {
            for _ in 0..rng.below(3) {
                let gone = rng.below(names.len() as u64) as usize;
                unlink(&mut fs, &names.swap_remove(gone).to_string());
            }
            file(&mut fs, root, n.to_string().as_bytes(), 4096);
            names.push(n);
            if n % 64 == 63 {
                most = most.max(reads_after_cut(&mut fs));
            }
        }
        assert_eq!(most, reads, "{name}");
    }
}

/// The page that records the removal fails, and may read well; no other block can be had. What is
/// removed then is free once, not twice: nothing is written after that.
#[test]
fn a_record_that_failed_is_not_contradicted() {
    for seed in 0..24 {
        let mut fs = small_chip();
        let root = fs.root();
        let dirs = [&b"d"[..], b"e", b"f"]
            .map(|name| fs.mkdir(root, name, &NewInode::default()).unwrap().ino);
        for (dir, name, pages) in [(0, &b"a"[..], 30), (1, b"other", 30), (1, b"x", 20)] {
            file(&mut fs, dirs[dir], name, pages * 2048);
        }
        fs.sync().unwrap();
        fs.unlink(dirs[0], b"a", NOW).unwrap();
        let new = fs.create(dirs[0], b"b", &NewInode::default()).unwrap().ino;
        let faults = |program_fail| Faults {
            seed,
            program_fail,
            ..Faults::default()
        };
        let chip: &mut SimNand = fs.volume().nand_mut().get_mut();
        chip.set_faults(faults(Rate(1))).unwrap();
        assert!(fs.fsync(new).is_err());
        let chip: &mut SimNand = fs.volume().nand_mut().get_mut();
        chip.set_faults(faults(Rate::default())).unwrap();
        for dir in [dirs[1], dirs[2], root] {
            let _ = fs.lookup(dir, b"none");
        }
        let mut fs = cut(fs);
        // With the failed page, or as before the fsync.
        let left = [&b"a"[..], b"b"].map(|name| fs.lookup(dirs[0], name).is_ok());
        assert!(
            left == [false, true] || left == [true, false],
            "seed {seed}"
        );
        assert!(fs.lookup(dirs[1], b"other").is_ok());
        let found = flashkit_vfs::check::check(fs.volume()).unwrap().findings;
        assert_eq!(found, [], "seed {seed}");
    }
}

/// The inode of a removed file cannot be read when the removal is to be done again after a cut.
#[test]
fn what_was_removed_stays_so_when_its_page_is_lost() {
    for again in [false, true] {
        let mut fs = small_chip();
        let root = fs.root();
        file(&mut fs, root, b"the old one", 10 * 2048);
        let lost = pages_with(fs.volume().nand().get(), b"the old one");
        fs.sync().unwrap();
        unlink(&mut fs, "the old one");
        let name = if again { "the old one" } else { "another" };
        file(&mut fs, root, name.as_bytes(), 77);
        for page in lost {
            fs.volume()
                .nand_mut()
                .get_mut::<SimNand>()
                .rot(page, Rot::Lost)
                .unwrap();
        }
        let mut fs = cut(fs);
        assert_eq!(fs.volume().lost_change(), None);
        assert_eq!(fs.lookup(root, name.as_bytes()).unwrap().size, 77);
        assert_eq!(exists(&mut fs, "the old one"), again);
        let mut listed = 0;
        fs.readdir(root, 0, &mut |_| {
            listed += 1;
            true
        })
        .unwrap();
        assert_eq!(listed, 1, "{again}");
    }
}

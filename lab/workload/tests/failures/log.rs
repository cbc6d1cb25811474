//! Programs of the allocation log fail, several in a row, so that it cannot go on.

use flashkit_flashlight::{Config, FlashLight, Time};
use flashkit_vfs::{NewInode, path};
use flashkit_workload::model::Target;

use crate::common::{Volume, chip, clean, mount, try_mount, try_unmount};
use crate::fail_at::FailAt;
use crate::{store, volume};

/// A scrub writes blocks anew while three operations in a row fail, those of the allocation log among them: it goes on.
#[test]
fn the_allocation_log_fails_in_a_scrub() {
    for left in 0..60 {
        let fails = FailAt::new(chip(1024, 40, 8, 64), u64::MAX);
        let mut volume = Volume::new(fails, Config::default());
        for n in 0..30 {
            store(volume.fs(), &format!("f{n}"), &[n; 2500]).unwrap();
        }
        let flashlight = volume.flashlight();
        let chip = flashlight.nand_mut();
        (chip.left, chip.failures, chip.weak) = (chip.done + left, 3, true);
        for _ in 0..60 {
            let scrubbed = flashlight.scrub(16);
            assert!(scrubbed.is_ok(), "operation {left}: {scrubbed:?}");
        }
        flashlight.nand_mut().weak = false;
        volume.check().unwrap();
    }
}

/// A directory is made while three operations in a row fail, so that the allocation log cannot go on: it is there, or nothing of
/// it is.
#[test]
fn the_allocation_log_fails_in_a_mkdir() {
    for left in 0..100 {
        let fails = FailAt::new(chip(1024, 40, 8, 64), u64::MAX);
        let mut volume = Volume::new(fails, Config::default());
        let chip = volume.flashlight().nand_mut();
        (chip.left, chip.failures) = (chip.done + left, 3);
        let mut made = Vec::new();
        for n in 0..24 {
            let name = format!("d{n}");
            let root = volume.fs().root();
            let new = volume
                .fs()
                .mkdir(root, name.as_bytes(), &NewInode::default());
            if new.is_ok() {
                made.push(name);
            }
        }
        volume
            .check()
            .unwrap_or_else(|e| panic!("operation {left}: {e}"));
        volume.remount().unwrap();
        volume
            .check()
            .unwrap_or_else(|e| panic!("operation {left}: {e}"));
        for name in &made {
            let root = volume.fs().root();
            let found = volume.fs().lookup(root, name.as_bytes());
            assert!(found.is_ok(), "operation {left}: {name}");
        }
    }
}

/// A mount removes files that have lost their names while they were open, as some operations in a row fail, those of
/// the allocation log among them: it mounts, and removes them.
#[test]
fn the_allocation_log_fails_in_a_mount_that_removes_files() {
    let fails = FailAt::new(chip(1024, 64, 8, 64), u64::MAX);
    let mut volume = Volume::new(fails, Config::default());
    let free = |fs: &mut FlashLight<'static, FailAt>| fs.statfs().pages_free;
    for n in 0..40 {
        store(volume.fs(), &format!("f{n}"), &[n; 2500]).unwrap();
    }
    let before = free(volume.flashlight());
    for n in 0..40 {
        let name = format!("f{n}");
        volume
            .flashlight()
            .unlink(1, name.as_bytes(), &|_| true, Time::default())
            .unwrap();
    }
    volume.fs().sync().unwrap();
    let chip = volume.flashlight().nand().chip.clone();
    for (left, failures) in (0..150).flat_map(|left| (3..6).map(move |n| (left, n))) {
        let mut fails = FailAt::new(chip.clone(), left);
        fails.failures = failures;
        let mut after = try_mount(fails, Config::default())
            .unwrap_or_else(|e| panic!("operation {left}, {failures} fail: {e}"));
        let gained = free(after.volume()).saturating_sub(before);
        clean(&mut mount(try_unmount(after).unwrap().chip));
        // Three pages each, less blocks that are bad now.
        assert!(
            gained + 8 * failures as u32 >= 3 * 40 - 4,
            "operation {left}, {failures} fail: {gained} pages"
        );
    }
}

/// Pages of the allocation log fail one after another, records and snapshots, until there are more blocks of it than the checkpoint
/// lists: it begins another, and the volume mounts.
#[test]
fn the_allocation_log_fails_in_more_blocks_than_are_listed() {
    for (failures, from) in (5..8).flat_map(|n| (0..260).map(move |k| (n, k))) {
        let mut volume = volume(chip(1024, 64, 8, 400), u64::MAX);
        let dirs = ["a", "b", "c", "d"];
        for dir in dirs {
            path::mkdir_p(volume.fs(), dir.as_bytes(), &NewInode::default()).unwrap();
        }
        volume.fs().sync().unwrap();
        for n in 0..from + 40 {
            if n > from + 2 && volume.flashlight().nand().log == 0 {
                break;
            }
            if n == from {
                volume.flashlight().nand_mut().log = failures;
            }
            let path = format!("{}/f{n}", dirs[n % 4]);
            // May say that there is no space.
            let _ = path::write_file(
                volume.fs(),
                path.as_bytes(),
                &[1; 3000],
                0,
                &NewInode::default(),
            )
            .and_then(|attr| volume.fs().fsync(attr.ino));
        }
        if volume.fs().sync().is_ok() {
            let chip = volume.flashlight().nand().chip.clone();
            let after = try_mount(chip, Config::default());
            assert!(after.is_ok(), "{failures} failures from file {from} on");
        }
    }
}

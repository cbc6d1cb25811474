//! Programs of the allocation log fail, several in a row, so that it cannot go on.

use flashkit_flashlight::Error::{NoSpace, ReadOnly};
use flashkit_flashlight::{Config, FlashLight, Time};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, SetAttr, path};
use flashkit_workload::model::Target;

use super::fail_at::FailAt;
use super::{store, volume};
use crate::common::{Fs, NOW, Volume, chip, clean, format, mount, try_mount, try_unmount_from};

/// A scrub writes blocks anew while three operations in a row fail, those of the allocation log
/// among them: it goes on. Only when the page of a directory is one of them does the session end,
/// as that page may be a record.
#[test]
fn the_allocation_log_fails_in_a_scrub() {
    let mut ended = Vec::new();
    for left in 0..60 {
        let fails = FailAt::new(chip(1024, 40, 8, 64), u64::MAX);
        let mut volume = Volume::new(fails, Config::default());
        for n in 0..30 {
            store(volume.fs(), &format!("f{n}"), &[n; 2500]).unwrap();
        }
        let chip = volume.chip();
        (chip.left, chip.failures, chip.weak) = (chip.done + left, 3, true);
        let flashlight = volume.flashlight();
        for _ in 0..60 {
            let scrubbed = flashlight.scrub(16);
            if matches!(scrubbed, Err(NoSpace)) {
                assert!(matches!(flashlight.sync(), Err(ReadOnly)));
                ended.push(left);
                break;
            }
            assert!(scrubbed.is_ok(), "operation {left}: {scrubbed:?}");
        }
        flashlight.nand_mut().get_mut::<FailAt>().weak = false;
        let mut after = mount(volume.chip().chip.clone());
        clean(&mut after);
        for n in 0..30 {
            let found = path::read_file(&mut after, format!("f{n}").as_bytes()).unwrap();
            assert!(found == [n; 2500], "operation {left}: f{n}");
        }
    }
    assert_eq!(ended, [58, 59]);
}

/// A directory is made while three operations in a row fail, so that the allocation log cannot go
/// on: it is there, or nothing of it is.
#[test]
fn the_allocation_log_fails_in_a_mkdir() {
    for left in 0..100 {
        let fails = FailAt::new(chip(1024, 40, 8, 64), u64::MAX);
        let mut volume = Volume::new(fails, Config::default());
        let chip = volume.chip();
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

/// A mount removes files that have lost their names while they were open, as some operations in a
/// row fail, those of the allocation log among them: it mounts, and removes them.
#[test]
fn the_allocation_log_fails_in_a_mount_that_removes_files() {
    let fails = FailAt::new(chip(1024, 64, 8, 64), u64::MAX);
    let mut volume = Volume::new(fails, Config::default());
    let free = |fs: &mut FlashLight<'static, AnyNand<'static>>| fs.statfs().pages_free;
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
    let chip = volume.chip().chip.clone();
    for (left, failures) in (0..150).flat_map(|left| (3..6).map(move |n| (left, n))) {
        let mut fails = FailAt::new(chip.clone(), left);
        fails.failures = failures;
        let mut after = try_mount(fails, Config::default())
            .unwrap_or_else(|e| panic!("operation {left}, {failures} fail: {e}"));
        let gained = free(after.volume()).saturating_sub(before);
        clean(&mut mount(try_unmount_from::<FailAt>(after).unwrap().chip));
        // Three pages each, less blocks that are bad now.
        assert!(
            gained + 8 * failures as u32 >= 3 * 40 - 4,
            "operation {left}, {failures} fail: {gained} pages"
        );
    }
}

/// Pages of the allocation log fail one after another, records and snapshots, until there are more
/// blocks of it than the checkpoint lists: it begins another, and the volume mounts.
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
            if n > from + 2 && volume.chip().log == 0 {
                break;
            }
            if n == from {
                volume.chip().log = failures;
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
            let chip = volume.chip().chip.clone();
            let after = try_mount(chip, Config::default());
            assert!(after.is_ok(), "{failures} failures from file {from} on");
        }
    }
}

/// A volume in which several programs of the allocation log can be made to fail one after
/// another, so that it cannot go on.
struct Failing {
    fs: Fs,
    dirs: [Ino; 2],
}

impl Failing {
    /// Directories `d` and `e` and some files, so long before that a few more pages come before the
    /// log's next block. `stamps` is for where in the log that is.
    fn new(blocks: u32, stamps: u16) -> Failing {
        let fails = FailAt::new(format(chip(1024, 40, 8, blocks), 1), u64::MAX);
        let mut fs = try_mount(fails, Config::default()).unwrap();
        let root = fs.root();
        let dirs = [b"d", b"e"].map(|name| {
            let dir = fs.mkdir(root, name, &NewInode::default()).unwrap().ino;
            fs.mkdir(dir, b"s", &NewInode::default()).unwrap();
            dir
        });
        let mut new = Failing { fs, dirs };
        new.file(dirs[0], b"a");
        new.file(dirs[1], b"b");
        let two = new.file(dirs[0], b"m");
        new.fs.link(two, dirs[1], b"m2", NOW).unwrap();
        let once = new.file(dirs[0], b"i");
        new.fs.link(once, dirs[0], b"i2", NOW).unwrap();
        new.fs.unlink(dirs[0], b"i2", NOW).unwrap();
        new.fs.sync().unwrap();
        for n in 0..stamps {
            new.stamp(root, n);
            new.fs.fsync(root).unwrap();
        }
        new
    }

    fn file(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let new = self.fs.create(dir, name, &NewInode::default()).unwrap();
        self.fs.write(new.ino, 0, &[0x5a; 100], NOW).unwrap();
        self.fs.fsync(new.ino).unwrap();
        new.ino
    }

    fn stamp(&mut self, dir: Ino, n: u16) {
        let set = SetAttr {
            mode: Some(0o700 + n),
            ..SetAttr::default()
        };
        self.fs.setattr(dir, &set).unwrap();
    }

    /// Something is done while so many programs of the log fail. Whether they did.
    fn failing<T>(&mut self, failures: u32, what: impl FnOnce(&mut Failing) -> T) -> (T, bool) {
        self.fs.volume().nand_mut().get_mut::<FailAt>().log = failures;
        let done = what(self);
        let left = std::mem::take(&mut self.fs.volume().nand_mut().get_mut::<FailAt>().log);
        (done, left == 0)
    }

    /// The volume is checked as it is, and after a sync, whatever that says, with a cut and
    /// without. Returns what a mount finds in the end.
    fn check(mut self, case: &str) -> Fs {
        let at_once = self.fs.volume().nand().get::<FailAt>().chip.clone();
        clean(&mut mount(at_once));
        let _ = self.fs.create(1, b"later", &NewInode::default());
        let synced = self.fs.sync();
        assert!(
            matches!(synced, Ok(()) | Err(Error::ReadOnly)),
            "{case}: {synced:?}"
        );
        if synced.is_ok() {
            let found = check(self.fs.volume()).unwrap().findings;
            assert!(found.is_empty(), "{case}: {found:?}");
        }
        let mut after = mount(self.fs.volume().nand().get::<FailAt>().chip.clone());
        let found = check(after.volume()).unwrap().findings;
        assert!(found.is_empty(), "{case}, after a mount: {found:?}");
        after
    }
}

/// The allocation log cannot go on in the middle of a change of names: it has been made or
/// not, and no name is lost.
#[test]
fn the_allocation_log_fails_in_a_change_of_names() {
    type Change = fn(&mut dyn FileSystem, [Ino; 2]) -> Result<(), Error>;
    let changes: [(&str, Change); 14] = [
        ("link", |fs, [d, _]| {
            let a = fs.lookup(d, b"a")?.ino;
            fs.link(a, d, b"n", NOW).map(drop)
        }),
        ("link across", |fs, [d, e]| {
            let a = fs.lookup(d, b"a")?.ino;
            fs.link(a, e, b"n", NOW).map(drop)
        }),
        ("link again", |fs, [d, _]| {
            let m = fs.lookup(d, b"m")?.ino;
            fs.link(m, d, b"n", NOW).map(drop)
        }),
        ("unlink one of two", |fs, [_, e]| fs.unlink(e, b"m2", NOW)),
        ("unlink in use", |fs, [d, _]| {
            let m = fs.lookup(d, b"i")?.ino;
            fs.open(m)?;
            fs.unlink(d, b"i", NOW)
        }),
        ("rename", |fs, [d, _]| {
            fs.rename(d, b"a", d, b"n", false, NOW)
        }),
        ("rename across", |fs, [d, e]| {
            fs.rename(d, b"a", e, b"n", false, NOW)
        }),
        ("rename over", |fs, [d, e]| {
            fs.rename(d, b"a", e, b"b", false, NOW)
        }),
        ("rename over one of two", |fs, [d, e]| {
            fs.rename(d, b"a", e, b"m2", false, NOW)
        }),
        ("rename over one in use", |fs, [d, e]| {
            let b = fs.lookup(e, b"b")?.ino;
            fs.open(b)?;
            fs.rename(d, b"a", e, b"b", false, NOW)
        }),
        ("exchange", |fs, [d, e]| fs.exchange(d, b"a", e, b"b", NOW)),
        ("rename a directory", |fs, [d, e]| {
            fs.rename(d, b"s", e, b"n", false, NOW)
        }),
        ("rename a directory over one", |fs, [d, e]| {
            fs.rename(d, b"s", e, b"s", false, NOW)
        }),
        ("rmdir", |fs, [d, _]| fs.rmdir(d, b"s", NOW)),
    ];
    let mut hits = 0;
    for (name, change) in changes {
        for (stamps, failures) in (0..48).flat_map(|k| (3..6).map(move |n| (k, n))) {
            let mut volume = Failing::new(200, stamps);
            let dirs = volume.dirs;
            let a = volume.fs.lookup(dirs[0], b"a").unwrap().ino;
            let (changed, _) = volume.failing(failures, |v| change(&mut v.fs, dirs));
            if changed.is_ok() {
                continue;
            }
            hits += 1;
            let case = format!("{name}, {stamps} stamps, {failures} failures");
            let mut after = volume.check(&case);
            let [d, e] = dirs;
            let places = [(d, &b"a"[..]), (d, b"n"), (e, b"n"), (e, b"b"), (e, b"m2")];
            let mut names = places
                .into_iter()
                .filter(|&(dir, name)| after.lookup(dir, name).is_ok_and(|found| found.ino == a));
            assert!(names.next().is_some(), "{case}: the file has no name");
        }
    }
    assert!(hits > 50, "{hits} changes failed");
}

/// It cannot go on when a directory's log moves to hash maps: no name is lost.
#[test]
fn the_allocation_log_fails_as_names_move() {
    for (page, there, failures) in [
        (1024, 60, 3),
        (1024, 400, 3),
        (2048, 100, 3),
        (2048, 300, 4),
    ] {
        let fails = FailAt::new(format(chip(page, 40, 8, 400), 1), u64::MAX);
        let fs = try_mount(fails, Config::default()).unwrap();
        let mut volume = Failing { fs, dirs: [1; 2] };
        let name = |n: u32| format!("name {n}").into_bytes();
        let make = |v: &mut Failing, n| v.fs.create(1, &name(n), &NewInode::default()).map(drop);
        (0..there).for_each(|n| make(&mut volume, n).unwrap());
        volume.fs.sync().unwrap();
        let refused = (there..there + 2000).find(|&n| {
            let (made, _) = volume.failing(failures, |v| make(v, n));
            if made.is_ok() {
                volume.fs.sync().unwrap();
            }
            made.is_err()
        });
        let end = refused.expect("no change has failed");
        let case = format!("pages of {page}, {there} names");
        let mut after = volume.check(&case);
        for n in 0..end {
            assert!(
                after.lookup(1, &name(n)).is_ok(),
                "{case}: name {n} of {end}"
            );
        }
    }
}

/// It cannot go on when the page of a directory has been written, or a page of the directory map
/// must be before; in a call that changes the directory, and in one that needs its place in RAM.
#[test]
fn the_allocation_log_fails_as_a_directory_is_written() {
    let mut hits = 0;
    for (before, other) in (0..60).flat_map(|n| [(n, false), (n, true)]) {
        let fails = FailAt::new(format(chip(1024, 40, 8, 300), 1), u64::MAX);
        let fs = try_mount(fails, Config::default()).unwrap();
        let mut volume = Failing { fs, dirs: [1; 2] };
        let new = NewInode::default();
        let dirs: Vec<Ino> = (0..300)
            .map(|n| {
                let name = format!("d{n}");
                volume.fs.mkdir(1, name.as_bytes(), &new).unwrap().ino
            })
            .collect();
        let (low, high) = (dirs[2], dirs[280]);
        for n in 0..100 {
            volume.file(low, format!("old {n}").as_bytes());
        }
        volume.fs.sync().unwrap();
        for n in 0..before {
            let dir = if n % 2 == 0 { low } else { high };
            volume.stamp(dir, n);
            volume.fs.fsync(dir).unwrap();
        }
        volume.file(low, b"new");
        for n in 0..90 {
            let name = format!("old {n}");
            volume.fs.unlink(low, name.as_bytes(), NOW).unwrap();
        }
        volume.stamp(high, 0o77);
        volume.fs.fsync(high).unwrap();
        let (done, failed) = volume.failing(3, |v| match other {
            true => v.fs.lookup(dirs[5], b"none").map(drop),
            false => v.fs.fsync(low),
        });
        if !failed || !other && done.is_ok() {
            continue;
        }
        hits += 1;
        let case = format!("{before} pages before, {other}: {done:?}");
        // Removals are durable with the directory's next page alone.
        let is_synced = volume.fs.fsync(low).is_ok();
        for &dir in &dirs[5..9] {
            // The directories in the cache give way.
            let _ = volume.fs.fsync(dir);
            let _ = volume.fs.lookup(dir, b"none");
        }
        let mut after = volume.check(&case);
        assert!(after.lookup(low, b"new").is_ok(), "{case}");
        for n in 0..100 {
            let found = after.lookup(low, format!("old {n}").as_bytes());
            assert!(found.is_ok() || n < 90, "{case}: old {n}");
            assert!(found.is_err() || n >= 90 || !is_synced, "{case}: old {n}");
        }
    }
    assert!(hits > 5, "{hits} calls failed");
}

/// It cannot go on when a new file's page has been written, before its directory knows: in its
/// fsync, and in a read of others that pushes it from the cache. A later fsync that says
/// nothing has made it durable.
#[test]
fn the_allocation_log_fails_as_a_new_file_is_written() {
    let mut hits = 0;
    for (stamps, failures) in (0..24).flat_map(|k| (3..6).map(move |n| (k, n))) {
        for other in [false, true] {
            let mut volume = Failing::new(200, 0);
            let new = NewInode::default();
            let [d, e] = volume.dirs;
            let f = volume.fs.mkdir(1, b"f", &new).unwrap().ino;
            let others = [b"g1", b"g2"].map(|name| volume.file(e, name));
            volume.fs.sync().unwrap();
            for n in 0..stamps {
                volume.stamp(1, n);
                volume.fs.fsync(1).unwrap();
            }
            let file = volume.fs.create(d, b"new", &new).unwrap().ino;
            volume.fs.write(file, 0, &[7; 300], NOW).unwrap();
            // These take the places of directories in the cache.
            volume.stamp(e, 1);
            volume.stamp(f, 1);
            let (done, failed) = volume.failing(failures, |v| match other {
                true => others
                    .into_iter()
                    .try_for_each(|ino| v.fs.read(ino, 0, &mut [0; 10]).map(drop)),
                false => v.fs.fsync(file),
            });
            if !failed || !other && done.is_ok() {
                continue;
            }
            hits += 1;
            let case = format!("{stamps} stamps, {failures} failures, {other}: {done:?}");
            let is_synced = volume.fs.fsync(file).is_ok();
            let mut after = volume.check(&case);
            assert!(after.lookup(d, b"new").is_ok() || !is_synced, "{case}");
        }
    }
    assert!(hits > 5, "{hits} calls failed");
}

/// Operations in a row fail in a sync, those of the second of its two checkpoints among them, which
/// may find no block any more: what it has begun is not taken for begun by the next one.
#[test]
fn the_second_checkpoint_fails() {
    // Each block has been used: one that is not erased anew cannot be programmed.
    let mut first = volume(chip(1024, 40, 8, 160), u64::MAX);
    for n in (0..20).cycle().take(600) {
        store(first.fs(), &format!("f{n}"), &[n; 3000]).unwrap();
    }
    first.fs().sync().unwrap();
    let used = first.chip().chip.clone();
    for (failures, left) in (1..9).flat_map(|n| (0..24).map(move |left| (n, left))) {
        let case = format!("operation {left}, {failures} fail");
        let mut volume = Volume::found(FailAt::new(used.clone(), u64::MAX), Config::default());
        let chip = volume.chip();
        (chip.left, chip.failures) = (chip.done + left, failures);
        let mut synced = 20;
        for n in 20..60 {
            let stored = store(volume.fs(), &format!("f{n}"), &[n; 3000]);
            let done = stored.and_then(|()| volume.fs().sync());
            assert!(
                matches!(done, Ok(()) | Err(Error::NoSpace | Error::ReadOnly)),
                "{case}: {done:?}"
            );
            synced += u8::from(done.is_ok() && synced == n);
        }
        let mut after = mount(volume.chip().chip.clone());
        clean(&mut after);
        for n in 0..synced {
            let found = path::read_file(&mut after, format!("f{n}").as_bytes());
            assert_eq!(found, Ok(vec![n; 3000]), "{case}: f{n}");
        }
    }
}

/// It cannot go on as a file is synced, and leaves nothing that could be read: what the next syncs
/// call durable is there after a cut, and not in a block that no record names.
#[test]
fn the_allocation_log_fails_as_a_file_is_synced() {
    let (mut hits, mut synced) = (0, 0);
    for (pages, blocks) in [(8, 200), (64, 160)] {
        let fails = FailAt::new(format(chip(1024, 40, pages, blocks), 1), u64::MAX);
        let fs = try_mount(fails, Config::default()).unwrap();
        let mut volume = Failing { fs, dirs: [1; 2] };
        let files = [b"a", b"b"].map(|name| volume.file(1, name));
        volume.fs.sync().unwrap();
        volume
            .fs
            .volume()
            .nand_mut()
            .get_mut::<FailAt>()
            .log_looks_blank = true;
        // Each time some blocks fail for good.
        for n in 0..=254 {
            if volume.fs.volume().is_worn() {
                break;
            }
            for ino in files {
                volume.fs.write(ino, 0, &[n; 100], NOW).unwrap();
            }
            let case = format!("blocks of {pages} pages, change {n}");
            let (_, failed) = volume.failing(3, |v| v.fs.fsync(files[0]).is_ok());
            let again = [files[1], files[0]].map(|ino| volume.fs.fsync(ino).is_ok());
            assert!(again[0] && again[1], "{case}: {again:?}");
            if !failed {
                continue;
            }
            hits += 1;
            let mut after = mount(volume.fs.volume().nand().get::<FailAt>().chip.clone());
            clean(&mut after);
            for name in [&b"a"[..], b"b"] {
                let found = path::read_file(&mut after, name).unwrap();
                assert_eq!(found, [n; 100], "{case}");
                synced += 1;
            }
        }
    }
    assert!(hits > 1 && synced == 2 * hits, "{hits} failed");
}

/// It cannot go on as a directory is listed, a hole is looked for or a parent is asked for: these
/// change nothing, and are done.
#[test]
fn the_allocation_log_fails_in_a_call_that_reads() {
    type Read = fn(&mut Fs, [Ino; 2], Ino) -> Result<(), Error>;
    let reads: [(&str, Read); 3] = [
        ("readdir", |fs, [d, _], _| {
            let mut names = Vec::new();
            fs.readdir(d, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })?;
            names.sort();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
            Ok(())
        }),
        ("next_data", |fs, _, ino| fs.next_data(ino, 0).map(drop)),
        ("parent", |fs, [_, e], _| fs.parent(e).map(drop)),
    ];
    let mut hits = 0;
    for (name, read) in reads {
        for stamps in 0..56 {
            let mut volume = Failing::new(200, stamps);
            let (dirs, root) = (volume.dirs, volume.fs.root());
            let other = volume.file(root, b"other");
            // Three directories and two files that have changed: what is read
            // next takes the place of one.
            for dir in dirs {
                volume.stamp(dir, 1);
            }
            for ino in [b"a", b"i"].map(|name| volume.fs.lookup(dirs[0], name).unwrap().ino) {
                volume.fs.write(ino, 0, &[1; 100], NOW).unwrap();
            }
            volume.stamp(root, 77);
            let (done, failed) = volume.failing(3, |v| read(&mut v.fs, dirs, other));
            hits += u32::from(failed);
            let case = format!("{name}, {stamps} stamps");
            assert_eq!(done, Ok(()), "{case}");
            volume.check(&case);
        }
    }
    assert!(hits > 3, "{hits} reads met it");
}

/// It cannot go on as a file is synced whose directory cannot be read any more: the sync tells,
/// though a checkpoint has been taken.
#[test]
fn the_allocation_log_fails_as_a_lost_file_is_synced() {
    let mut hits = 0;
    for stamps in 0..28 {
        let mut volume = Failing::new(200, stamps);
        let ([d, e], root) = (volume.dirs, volume.fs.root());
        let a = volume.fs.lookup(d, b"a").unwrap().ino;
        volume.fs.write(a, 0, &[1; 100], NOW).unwrap();
        // Two others take the place of its directory in RAM.
        volume.stamp(root, 77);
        volume.stamp(e, 77);
        volume
            .fs
            .volume()
            .nand_mut()
            .get_mut::<FailAt>()
            .lose_dir(d as u32);
        let (synced, failed) = volume.failing(3, |v| v.fs.fsync(a));
        assert!(synced.is_err(), "{stamps} stamps, the log fails: {failed}");
        hits += u32::from(failed);
    }
    assert!(hits > 0);
}

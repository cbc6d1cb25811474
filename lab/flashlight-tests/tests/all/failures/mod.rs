//! Every program and every erase of a random load fails in turn: FlashLight goes on as the model
//! does, the block is marked bad, and nothing is lost.
//!
//! A failure names the seed and the operation: `FLASHKIT_FAIL=seed:operation` replays it,
//! `FLASHKIT_FAIL_FULL=1` lets every operation fail instead of a sample of them.

pub mod fail_at;
mod log;

use flashkit_vfs::any::AnyNand;
use std::collections::BTreeMap;

use crate::common::{NOW, Volume, chip, clean, try_mount};
use fail_at::FailAt;
use flashkit_flashlight::{Config, FlashLight};
use flashkit_sim::{Faults, Rng, SimNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr, path};
use flashkit_workload::model::{ModelRun, Target};

/// A small volume on a chip of which that operation fails.
fn volume(chip: SimNand, left: u64) -> Volume<FailAt> {
    Volume::new(FailAt::new(chip, left), Config::default())
}

/// Runs the load of a seed with operation `left` failing. Returns how many operations there were,
/// and whether a block is marked bad.
fn run(seed: u64, left: u64) -> (u64, bool) {
    let chip = chip(1024, [40, 0, 40][seed as usize], 8, 160);
    let config = Config {
        table_page: [0, 0, 16][seed as usize],
        ..Config::default()
    };
    let mut volume = Volume::new(FailAt::new(chip, left), config);
    let load = ModelRun {
        test: "-p flashkit-flashlight-tests failures".into(),
        ops: 400,
        space: 300 << 10,
        objects: 40,
        full: false,
        remount_every: 60,
        check_every: 100,
        compare_every: 100,
        ..ModelRun::new(seed)
    };
    let say = |what: String| format!("FLASHKIT_FAIL={seed}:{left} {what}");
    if let Err(failure) = load.run(&mut volume) {
        panic!("{}", say(failure.to_string()));
    }
    // What failed is out of use by now, but for a block found failing at the very end.
    volume.remount().map_err(say).unwrap();
    volume.check().map_err(say).unwrap();
    let chip = volume.chip();
    (chip.done, !chip.chip.bad_blocks().is_empty())
}

#[test]
fn every_operation_fails_in_turn() {
    if let Ok(id) = std::env::var("FLASHKIT_FAIL") {
        let (seed, left) = id.split_once(':').expect("FLASHKIT_FAIL=seed:operation");
        run(seed.parse().unwrap(), left.parse().unwrap());
        return;
    }
    let full = std::env::var("FLASHKIT_FAIL_FULL").is_ok();
    let every = if full { 1 } else { 37 };
    for seed in 0..3 {
        let total = run(seed, u64::MAX).0;
        let (mut runs, mut marked) = (0, 0);
        for left in (seed..total).step_by(every) {
            runs += 1;
            marked += u64::from(run(seed, left).1);
        }
        println!("seed {seed}: {total} programs and erases, {runs} failed, {marked} blocks marked");
        assert!(marked * 10 >= runs * 9, "{marked} of {runs}");
    }
}

/// A chip whose blocks stand a number of erases, until it is worn out: from then on it is
/// read-only, and everything that was synced is there, now and after another mount, which writes
/// nothing. A change that meets nothing but failing blocks has no space; the one after it finds
/// that the chip is worn out.
#[test]
fn the_end_of_a_chip() {
    for seed in 0..3u64 {
        let mut chip = chip(1024, 40, 8, 160);
        chip.set_faults(Faults {
            endurance: 20 + 7 * seed as u32,
            seed,
            ..Faults::default()
        })
        .unwrap();
        let mut volume = volume(chip, u64::MAX);
        let mut synced: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut rng = Rng::new(seed);
        let mut lost = false;
        let written = loop {
            let name = format!("file {}", rng.below(40));
            let data = vec![rng.below(256) as u8; rng.below(5000) as usize];
            match store(volume.fs(), &name, &data) {
                Ok(()) => synced.insert(name, data),
                Err(Error::ReadOnly) => break name,
                Err(Error::NoSpace) if !lost && volume.flashlight().is_worn() => {
                    lost = true;
                    synced.remove(&name)
                }
                Err(e) => panic!("seed {seed}: {e}"),
            };
        };
        assert!(volume.flashlight().is_worn(), "seed {seed}");
        for round in 0..2 {
            for (name, data) in synced.iter().filter(|(name, _)| **name != written) {
                let path = name.as_bytes();
                let found = path::read_file(volume.fs(), path).unwrap();
                assert!(found == *data, "seed {seed} round {round} {name}");
            }
            volume.check().unwrap();
            volume.remount().unwrap();
            let changes = volume.chip().done;
            assert_eq!(store(volume.fs(), "new", b"x"), Err(Error::ReadOnly));
            assert_eq!(volume.chip().done, changes);
        }
    }
}

/// The first change of a session is a block that is written anew, and the blocks that could show
/// the beginning of a session fail, one after the other.
#[test]
fn idle_work_begins_a_session_on_failing_blocks() {
    type Idle = fn(&mut FlashLight<'static, AnyNand<'static>>) -> bool;
    let idle: [Idle; 2] = [
        |fs| fs.gc(10).unwrap(),
        |fs| fs.scrub(10).unwrap().refreshed == 1,
    ];
    for (which, failures) in (0..idle.len()).flat_map(|i| (0..7).map(move |n| (i, n))) {
        let mut volume = volume(chip(1024, 40, 8, 160), u64::MAX);
        let data = vec![7; 20 << 10];
        store(volume.fs(), "file", &data).unwrap();
        volume.remount().unwrap();

        volume.chip().weak = true;
        assert!(path::read_file(volume.fs(), b"file").unwrap() == data);
        let chip = volume.chip();
        (chip.weak, chip.left, chip.failures) = (false, chip.done, failures);
        assert!(idle[which](volume.flashlight()), "{which} {failures}");
        volume.remount().unwrap();
        volume.check().unwrap();
        assert!(path::read_file(volume.fs(), b"file").unwrap() == data);
    }
}

fn store(fs: &mut dyn FileSystem, name: &str, data: &[u8]) -> Result<(), Error> {
    let attr = path::write_file(fs, name.as_bytes(), data, 0, &NewInode::default())?;
    fs.fsync(attr.ino)
}

/// A page whose program has failed is read well for a while. If it was a record, the next is the
/// same, written again: nothing is lost when power goes, and nothing is called damaged.
#[test]
fn a_record_whose_program_failed_is_no_damage() {
    let load = |volume: &mut Volume<FailAt>| {
        let fs = volume.fs();
        for n in 0..6u8 {
            let (name, new) = (format!("d{}", n % 2), NewInode::default());
            let dir = path::mkdir_p(fs, name.as_bytes(), &new).unwrap().ino;
            let name = format!("f{n}");
            let ino = fs.create(dir, name.as_bytes(), &new).unwrap().ino;
            fs.write(ino, 0, &[n; 300], NOW).unwrap();
            fs.fsync(ino).unwrap();
            fs.fsync(dir).unwrap();
        }
    };
    let mut untouched = volume(chip(1024, 40, 8, 160), u64::MAX);
    load(&mut untouched);
    let (done, began) = (untouched.chip().done, {
        let mut new = volume(chip(1024, 40, 8, 160), u64::MAX);
        new.chip().done
    });
    for (left, reads) in (began..done).flat_map(|left| (1..12).map(move |reads| (left, reads))) {
        let mut failing = volume(chip(1024, 40, 8, 160), left);
        failing.chip().reads = Some(reads);
        load(&mut failing);
        let chip = failing.chip().chip.clone();
        let mut after = try_mount(chip, Config::default()).unwrap();
        let lost = after.volume().lost_change();
        assert_eq!(lost, None, "operation {left}, {reads} reads");
        clean(&mut after);
        for n in 0..6u8 {
            let path = format!("d{}/f{n}", n % 2);
            let found = path::read_file(&mut after, path.as_bytes()).unwrap();
            assert_eq!(found, [n; 300], "operation {left}, {reads} reads");
        }
    }
}

/// Each program of a recovery and of what follows it fails in turn: the block is not erased to be
/// used again, and is marked bad in the end.
#[test]
fn a_block_that_fails_in_a_recovery_is_not_used_again() {
    for table_page in [0, 16] {
        let config = Config {
            table_page,
            ..Config::default()
        };
        let mut before = Volume::new(FailAt::new(chip(1024, 40, 8, 160), u64::MAX), config);
        for n in 0..150u64 {
            let data = vec![n as u8; 900 * (n as usize % 7 + 1)];
            store(before.fs(), &format!("f{}", n * 7 % 40), &data).unwrap();
        }
        let chip = before.chip().chip.clone();
        for left in 0..120 {
            let cut = FailAt::new(chip.clone(), left);
            let mut after = Volume::found(cut, config);
            for n in 0..30u64 {
                store(after.fs(), &format!("f{}", n * 11 % 40), &[n as u8; 2000]).unwrap();
            }
            after.remount().unwrap();
            after.check().unwrap();
        }
    }
}

/// A write of some pages over old ones, one of which fails and reads well all the same: after
/// a cut all of them are new.
#[test]
fn a_page_of_an_update_fails_and_reads_well() {
    const PAGE: usize = 2048;
    let overwrite = |volume: &mut Volume<FailAt>, ino, first: usize, byte: u8| {
        let fs = volume.fs();
        fs.write(ino, (first * PAGE) as u64, &[byte; 5 * PAGE], NOW)
            .unwrap();
        fs.fsync(ino).unwrap();
    };
    for left in 0..8 {
        let chip = FailAt::new(chip(PAGE as u32, 40, 16, 64), u64::MAX);
        let mut volume = Volume::new(chip, Config::default());
        store(volume.fs(), "file", &[1; 16 * PAGE]).unwrap();
        let root = volume.fs().root();
        let ino = volume.fs().lookup(root, b"file").unwrap().ino;
        // Blocks are reserved, and some pages of the first taken.
        overwrite(&mut volume, ino, 0, 2);
        let chip = volume.chip();
        (chip.left, chip.reads) = (chip.done + left, Some(1000));
        overwrite(&mut volume, ino, 4, 3);
        overwrite(&mut volume, ino, 10, 4);
        let chip = volume.chip().chip.clone();
        let mut fs = try_mount(chip, Config::default()).unwrap();
        let bytes = path::read_file(&mut fs, b"/file").unwrap();
        let found: Vec<u8> = bytes.chunks(PAGE).map(|page| page[0]).collect();
        let want = [2, 2, 2, 2, 3, 3, 3, 3, 3, 1, 4, 4, 4, 4, 4, 1];
        assert_eq!(found, want, "operation {left}");
        clean(&mut fs);
    }
}

/// The driver fails in each read of a change in turn. After a sync, whatever that says, and a
/// mount, the change has been made or not: nothing of it is in one structure only.
#[test]
fn the_driver_fails_in_a_read_of_a_change() {
    type Change = fn(&mut dyn FileSystem, Ino) -> Result<(), Error>;
    let changes: [(&str, Change); 9] = [
        ("link", |fs, dir| {
            let ino = path::resolve(fs, b"large")?.ino;
            fs.link(ino, dir, b"new", NOW).map(drop)
        }),
        ("unlink", |fs, _| fs.unlink(fs.root(), b"large", NOW)),
        ("unlink one of two", |fs, dir| {
            fs.unlink(dir, b"second", NOW)
        }),
        ("rename", |fs, dir| {
            fs.rename(fs.root(), b"large", dir, b"moved", false, NOW)
        }),
        ("rename over", |fs, dir| {
            fs.rename(dir, b"other", fs.root(), b"large", false, NOW)
        }),
        ("rename a directory", |fs, dir| {
            fs.rename(dir, b"sub", fs.root(), b"sub", false, NOW)
        }),
        ("rmdir", |fs, dir| fs.rmdir(dir, b"sub", NOW)),
        ("truncate", |fs, _| {
            let ino = path::resolve(fs, b"large")?.ino;
            let size = Some(70_000);
            fs.setattr(
                ino,
                &SetAttr {
                    size,
                    ..SetAttr::default()
                },
            )
            .map(drop)
        }),
        ("write", |fs, _| {
            let ino = path::resolve(fs, b"large")?.ino;
            fs.write(ino, 77_777, &[9; 5000], NOW).map(drop)
        }),
    ];
    let mut base = volume(chip(1024, 40, 8, 400), u64::MAX);
    let fs = base.fs();
    let root = fs.root();
    let dir = path::mkdir_p(fs, b"dir", &NewInode::default()).unwrap().ino;
    path::mkdir_p(fs, b"dir/sub", &NewInode::default()).unwrap();
    for n in 0..200 {
        store(fs, &format!("dir/f{n}"), b"small").unwrap();
    }
    store(fs, "dir/other", &[3; 3000]).unwrap();
    store(fs, "linked", &[4; 3000]).unwrap();
    let linked = fs.lookup(root, b"linked").unwrap().ino;
    fs.link(linked, dir, b"second", NOW).unwrap();
    let large = fs.create(root, b"large", &NewInode::default()).unwrap().ino;
    for n in 0..300 {
        fs.write(large, n * 7 % 300 * 2048, &[5; 1024], NOW)
            .unwrap();
    }
    fs.sync().unwrap();
    base.remount().unwrap();
    let chip = base.chip().chip.clone();
    for (what, change) in changes {
        let mut failed = 0;
        for reads in 0..200 {
            let mut volume = Volume::found(FailAt::new(chip.clone(), u64::MAX), Config::default());
            volume.chip().bus = Some(reads);
            let dir = volume.fs().lookup(root, b"dir").map(|node| node.ino);
            let done = dir.and_then(|dir| change(volume.fs(), dir));
            let met = volume.chip().bus.is_none();
            let _ = volume.fs().sync();
            let chip = volume.chip().chip.clone();
            let mut after = try_mount(chip, Config::default()).unwrap();
            let found = check(after.volume()).unwrap().findings;
            assert_eq!(found, [], "{what}, read {reads}, {done:?}");
            assert!(done.is_ok() || met, "{what}: {done:?}");
            failed += u32::from(done.is_err());
            if !met {
                break;
            }
        }
        assert!(failed > 0, "{what} reads nothing");
    }
}

/// The driver fails in a read of the patrol, of a scrub and of a walk in turn. None of these
/// changes anything: what is in RAM can still be written.
#[test]
fn the_driver_fails_in_a_read_of_the_background() {
    type Look = fn(&mut Volume<FailAt>) -> bool;
    let looks: [(&str, Look, u32); 3] = [
        ("patrol", |volume| volume.flashlight().patrol().is_ok(), 0),
        ("scrub", |volume| volume.flashlight().scrub(8).is_ok(), 0),
        // What is dirty is written first.
        ("walk", |volume| check(volume.flashlight()).is_ok(), 2),
    ];
    for (what, look, first) in looks {
        for bus in first..first + 5 {
            let mut volume = volume(chip(1024, 40, 8, 160), u64::MAX);
            store(volume.fs(), "one", &[3; 30_000]).unwrap();
            volume.fs().sync().unwrap();
            // One is not in RAM any more.
            for name in ["two", "three", "four"] {
                store(volume.fs(), name, &[5; 3000]).unwrap();
            }
            volume.chip().bus = Some(bus);
            while look(&mut volume) {}
            assert_eq!(volume.flashlight().stopped(), None, "{what}, read {bus}");
            volume.remount().unwrap();
            assert!(path::resolve(volume.fs(), b"four").is_ok());
        }
    }
}

/// What a tree shows: of each path all attributes.
fn shown(fs: &mut dyn FileSystem) -> BTreeMap<Vec<u8>, String> {
    let mut tree = BTreeMap::new();
    let root = fs.root();
    let mut left = vec![(Vec::new(), fs.getattr(root).unwrap())];
    while let Some((path, attr)) = left.pop() {
        if attr.kind == FileKind::Dir {
            let mut names = Vec::new();
            fs.readdir(attr.ino, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })
            .unwrap();
            for name in names {
                let attr = fs.lookup(attr.ino, &name).unwrap();
                left.push(([&path[..], b"/", &name].concat(), attr));
            }
        }
        tree.insert(path, format!("{attr:?}"));
    }
    tree
}

/// The last block that may fail does so in a change, in each operation of it in turn. What a sync
/// after that calls durable is there after a mount: also what the change did after the volume had
/// been found worn, and stopped.
#[test]
fn a_chip_is_worn_out_in_the_middle_of_a_change() {
    type Change = fn(&mut dyn FileSystem, Ino) -> Result<(), Error>;
    let changes: [(&str, Change); 9] = [
        ("link", |fs, dir| {
            let ino = path::resolve(fs, b"one")?.ino;
            fs.link(ino, dir, b"new", NOW).map(drop)
        }),
        ("unlink", |fs, _| fs.unlink(fs.root(), b"one", NOW)),
        ("unlink one of two", |fs, dir| fs.unlink(dir, b"two", NOW)),
        ("unlink the last of two", |fs, _| {
            fs.unlink(fs.root(), b"last", NOW)
        }),
        ("rename over the last of two", |fs, dir| {
            fs.rename(dir, b"other", fs.root(), b"last", false, NOW)
        }),
        ("rename a directory over one", |fs, dir| {
            fs.rename(dir, b"sub", fs.root(), b"sub", false, NOW)
        }),
        ("exchange", |fs, dir| {
            fs.exchange(dir, b"sub", fs.root(), b"one", NOW)
        }),
        ("rmdir", |fs, dir| fs.rmdir(dir, b"sub", NOW)),
        ("write", |fs, _| {
            let ino = path::resolve(fs, b"one")?.ino;
            fs.write(ino, 777, &[9; 5000], NOW).map(drop)
        }),
    ];
    let mut base = volume(chip(1024, 40, 8, 200), u64::MAX);
    let fs = base.fs();
    let root = fs.root();
    let dir = path::mkdir_p(fs, b"dir", &NewInode::default()).unwrap().ino;
    for path in ["dir/sub", "sub"] {
        path::mkdir_p(fs, path.as_bytes(), &NewInode::default()).unwrap();
    }
    for path in ["one", "two", "last", "dir/other"] {
        store(fs, path, &[3; 3000]).unwrap();
    }
    for (name, other) in [(b"two".as_slice(), b"two".as_slice()), (b"last", b"gone")] {
        let ino = fs.lookup(root, name).unwrap().ino;
        fs.link(ino, dir, other, NOW).unwrap();
    }
    fs.unlink(dir, b"gone", NOW).unwrap();
    // As many blocks as may fail do so, one after the other.
    while base.chip().chip.bad_blocks().len() < 12 {
        let chip = base.chip();
        (chip.left, chip.failures) = (chip.done, 1);
        store(base.fs(), "failing", b"x").unwrap();
        base.remount().unwrap();
    }
    let chip = base.chip().chip.clone();
    for (what, change) in changes {
        let mut hits = 0;
        for (pages, at) in (0..9).flat_map(|n| (0..16).map(move |at| (n, at))) {
            let mut volume = Volume::found(FailAt::new(chip.clone(), u64::MAX), Config::default());
            assert!(!volume.flashlight().is_worn());
            for _ in 0..pages {
                store(volume.fs(), "more", b"x").unwrap();
            }
            let chip = volume.chip();
            chip.left = chip.done + at;
            let changed = change(volume.fs(), dir);
            if !volume.flashlight().is_worn() || volume.fs().sync().is_err() {
                continue;
            }
            hits += 1;
            let case = format!("{what}, {pages} pages before, operation {at}: {changed:?}");
            let tree = shown(volume.fs());
            let refused = store(volume.fs(), "new", b"x");
            assert_eq!(refused, Err(Error::ReadOnly), "{case}");
            let chip = volume.chip().chip.clone();
            let mut after = try_mount(chip, Config::default()).unwrap();
            assert_eq!(shown(&mut after), tree, "{case}");
            clean(&mut after);
        }
        assert!(hits > 0, "{what}");
    }
}

/// A large chip is full when blocks begin to fail: there is room for all that may until the volume
/// is worn out. Nothing is refused before, nor when nobody syncs; and files are removed.
#[test]
fn a_full_volume_of_many_blocks_wears_out() {
    for (pages, blocks, every, syncs) in [
        (8, 4_096, 60, true),
        (16, 2_048, 60, false),
        (32, 2_048, 200, true),
    ] {
        let mut volume = volume(chip(1024, 40, pages, blocks), u64::MAX);
        let fs = volume.fs();
        let mut count = 0;
        while store(fs, &format!("f{count}"), &[0x5a; 64 << 10]).is_ok() {
            count += 1;
        }
        fs.sync().unwrap();
        let most = 8 + blocks as usize / 50;
        let (mut rng, mut changes) = (Rng::new(every), 0);
        while !volume.flashlight().is_worn() {
            let case = format!("{blocks} blocks of {pages} pages, change {changes}");
            let chip = volume.chip();
            (chip.left, chip.failures) = (chip.done + rng.below(2 * every), 1);
            for _ in 0..every / 4 {
                let name = format!("f{}", rng.below(count));
                let ino = path::resolve(volume.fs(), name.as_bytes()).unwrap().ino;
                let set = SetAttr {
                    mode: Some(0o600 + (changes & 63) as u16),
                    ..SetAttr::default()
                };
                let fs = volume.fs();
                let done = fs.setattr(ino, &set).and_then(|_| fs.fsync(ino));
                changes += 1;
                match done {
                    Err(Error::ReadOnly) => assert!(volume.flashlight().is_worn(), "{case}"),
                    done => done.unwrap_or_else(|e| panic!("{case}: {e:?}")),
                }
            }
            if syncs && !volume.flashlight().is_worn() {
                volume.fs().sync().unwrap();
            }
            let bad = volume.chip().chip.bad_blocks().len();
            if bad > most - 3 && !volume.flashlight().is_worn() {
                volume.chip().failures = 0;
                let names: Vec<_> = (0..count).map(|n| format!("f{n}")).collect();
                for name in names {
                    let gone = volume.fs().unlink(1, name.as_bytes(), NOW);
                    gone.unwrap_or_else(|e| panic!("{case}, {name} of {count}: {e:?}"));
                }
                break;
            }
        }
        volume.remount().unwrap();
    }
}

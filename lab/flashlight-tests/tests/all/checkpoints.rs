//! What a mount begins with is there twice, also after a power cut: any one page of
//! the last checkpoint, of its snapshot, and of the two directories without which
//! nothing is found may be lost.

use flashkit_flashlight::Config;
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{Faults, SimNand, Weak};
use flashkit_vfs::check::check;
use flashkit_vfs::{FileSystem, path};
use flashkit_workload::Rng;

use crate::common::try_mount;
use crate::damage::judge::judge;
use crate::damage::pages::{Loss, losses};
use crate::damage::rot::{WAYS, Way, newer, spoil};
use crate::damage::tree::{Shape, Volume, fill};

/// Numbers of the kinds of page.
const ROOT: u8 = 1;
const CHECKPOINT: u8 = 3;
const SNAPSHOT: u8 = 5;
const DIR: u8 = 7;

fn random_path(rng: &mut Rng) -> String {
    format!(
        "{}/f{}",
        ["a", "b", "c"][rng.below(3) as usize],
        rng.below(40)
    )
}

/// A random life, in which each change is synced.
fn live(v: &mut Volume, rng: &mut Rng, changes: u64) {
    for i in 0..changes {
        let path = random_path(rng);
        let done = match (v.tree.contains_key(&path), rng.below(8)) {
            (true, 0) => v.unlink(&path),
            (true, 1) => v.truncate(&path, rng.below(20_000) as usize),
            (true, 2) => {
                let to = random_path(rng);
                match v.tree.contains_key(&to) {
                    true => Ok(()),
                    false => v.rename(&path, &to),
                }
            }
            (false, _) => v.create(&path),
            _ => {
                let (at, len) = (rng.below(20) as usize * 1024, 1 + rng.below(3000) as usize);
                v.write(&path, at, &fill(i, 0, len))
            }
        };
        done.unwrap();
        if v.tree.contains_key(&path) {
            v.fsync(&path).unwrap();
        }
    }
}

/// A small volume that is rather full and has been cleaned, some changes after its last sync.
fn lived(seed: u64, changes: u64) -> Volume {
    lived_on((1024, 40, 16, 160), seed, changes)
}

fn lived_on(shape: Shape, seed: u64, changes: u64) -> Volume {
    let mut v = Volume::format(shape);
    let mut rng = Rng::new(seed);
    for dir in ["a", "b", "c"] {
        v.mkdir(dir).unwrap();
    }
    if seed % 2 == 1 {
        // One that is found by its number, so that the index directory is not empty.
        v.create("a/two").unwrap();
        v.hard_link("a/two", "b/two").unwrap();
    }
    live(&mut v, &mut rng, 2500);
    v.fs.sync().unwrap();
    live(&mut v, &mut rng, changes);
    for path in v.tree.clone().into_keys().rev() {
        v.fsync(&path).unwrap();
    }
    v
}

/// Power goes, and one page is lost: the volume mounts, and everything is there.
fn without(v: &Volume, chip: &SimNand, page: PageAddr, way: Way, case: &str) {
    let mut chip = chip.clone();
    spoil(&mut chip, page, way);
    let fs = try_mount(chip, Config::default()).unwrap_or_else(|e| panic!("{case}: {e}"));
    let mut after = Volume {
        fs,
        tree: v.tree.clone(),
        now: v.now,
        links: v.links.clone(),
    };
    assert_eq!(after.fs.volume().lost_change(), None, "{case}");
    let errors = judge(&mut after, &Loss::default()).unwrap_or_else(|e| panic!("{case}: {e}"));
    after.fs.sync().unwrap();
    let found = check(after.fs.volume()).unwrap().findings;
    assert_eq!(found, [], "{case}");
    assert!(!errors.any(), "{case}");
}

#[test]
fn the_last_checkpoint_is_there_twice() {
    let mut pages = 0;
    for (seed, changes) in (0..6).flat_map(|seed| [0, 5, 40, 150, 400].map(|n| (seed, n))) {
        let mut v = lived(seed, changes);
        let chip = v.fs.volume().nand().get::<SimNand>().clone();
        // Those of both, and of some before.
        let newest = |kind: u8| newer(&chip, kind, 0).into_iter().rev().take(5);
        let all = newest(CHECKPOINT).chain(newest(SNAPSHOT));
        for (page, way) in all.flat_map(|page| WAYS.map(|way| (page, way))) {
            let case = format!("seed {seed}, {changes} changes, page {}, {way:?}", page.0);
            without(&v, &chip, page, way, &case);
            pages += 1;
        }
    }
    assert!(pages > 400, "{pages}");
}

#[test]
fn the_first_directories_are_there_twice_after_a_sync() {
    for seed in 0..20 {
        let mut v = lived(seed, 0);
        v.fs.sync().unwrap();
        let chip = v.fs.volume().nand().get::<SimNand>().clone();
        let mut found = 0;
        for (page, loss) in losses(&mut v.fs, &v.tree) {
            if !["root directory", "index directory"].contains(&loss.kind) {
                continue;
            }
            found += 1;
            for way in WAYS {
                let case = format!("seed {seed}, {}, {way:?}", loss.kind);
                without(&v, &chip, page, way, &case);
            }
        }
        assert_eq!(found, 2, "seed {seed}");
    }
}

/// With few pages a block the log of the session goes on in other blocks soon: each must be found
/// by the first of the two checkpoints as well.
#[test]
fn a_session_goes_on_and_the_second_is_lost() {
    let mut cases = 0;
    for seed in 0..8 {
        let mut v = lived_on((1024, 40, 8, 320), seed, 0);
        let mut rng = Rng::new(seed);
        for round in 0..12 {
            v.fs.sync().unwrap();
            let checkpoints = v.fs.volume().written().checkpoints;
            for step in 0..8 {
                live(&mut v, &mut rng, 6);
                for dir in ["a", "b", "c"] {
                    v.fsync(dir).unwrap();
                }
                if v.fs.volume().written().checkpoints != checkpoints {
                    break;
                }
                let chip = v.fs.volume().nand().get::<SimNand>().clone();
                let page = newer(&chip, CHECKPOINT, 0).pop().unwrap();
                let case = format!("seed {seed}, round {round}, step {step}");
                without(&v, &chip, page, Way::Lost, &case);
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "{cases}");
}

/// Loses each of the newest checkpoints and snapshots, as after a cut now.
fn without_each(v: &mut Volume, case: &str) {
    let chip = v.fs.volume().nand().get::<SimNand>().clone();
    let newest = |kind: u8| newer(&chip, kind, 0).into_iter().rev().take(4);
    for page in newest(CHECKPOINT).chain(newest(SNAPSHOT)) {
        without(
            v,
            &chip,
            page,
            Way::Lost,
            &format!("{case}, page {}", page.0),
        );
    }
}

fn weak(page: Weak) -> Faults {
    Faults {
        weak_pages: vec![page],
        ..Faults::default()
    }
}

/// The block of the checkpoints fails at the first page of a sync or an unmount,
/// at the second, at the last.
#[test]
fn a_leaf_that_fails_does_not_leave_one_checkpoint_alone() {
    for (seed, good, unmount) in (0..4).flat_map(|seed| {
        [(0, false), (1, false), (0, true), (1, true), (2, true)].map(|(n, last)| (seed, n, last))
    }) {
        let case = format!("seed {seed}, {good} pages are good, unmount: {unmount}");
        let mut v = lived(seed, 20);
        let last = newer(v.fs.volume().nand().get(), CHECKPOINT, 0)
            .pop()
            .unwrap();
        let failing = Weak {
            at: last.0 + 1 + good,
            good: 0,
        };
        v.fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .set_faults(weak(failing))
            .unwrap();
        if unmount {
            v.fs.volume().close().unwrap();
        } else {
            v.fs.sync().unwrap();
        }
        let none = Faults::default();
        v.fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .set_faults(none)
            .unwrap();
        without_each(&mut v, &case);
    }
}

/// The newest root page is in one root block only, as power was cut in the program of the other,
/// or that page has rotted: the next checkpoint is followed by one that is in both, also where
/// the volume was unmounted.
#[test]
fn a_root_page_that_is_there_once_is_written_anew() {
    for (seed, unmount, side) in (0..6).flat_map(|seed| {
        [(false, 0), (false, 1), (true, 0), (true, 1)].map(|(last, side)| (seed, last, side))
    }) {
        let case = format!("seed {seed}, unmount: {unmount}, side {side}");
        let mut v = lived(seed, 20);
        if unmount {
            v.fs.volume().close().unwrap();
        }
        let mut chip = v.fs.volume().nand().get::<SimNand>().clone();
        let roots = newer(&chip, ROOT, 0);
        spoil(&mut chip, roots[roots.len() - 1 - side], Way::Lost);
        v.fs = try_mount(chip, Config::default()).unwrap();
        let mut rng = Rng::new(seed);
        for round in 0..12 {
            live(&mut v, &mut rng, 3);
            v.fs.sync().unwrap();
            let chip = v.fs.volume().nand().get::<SimNand>().clone();
            for &page in newer(&chip, ROOT, 0).iter().rev().take(2) {
                let case = format!("{case}, round {round}, page {}", page.0);
                without(&v, &chip, page, Way::Lost, &case);
            }
        }
    }
}

/// A root block fails when a page is written there: the page is written in the
/// block that takes its place.
#[test]
fn a_root_page_is_in_both_blocks_after_one_has_failed() {
    for (seed, side) in (0..4).flat_map(|seed| [0, 1].map(|side| (seed, side))) {
        let mut v = lived(seed, 20);
        let roots = newer(v.fs.volume().nand().get(), ROOT, 0);
        let last = roots.into_iter().rev().find(|page| page.0 / 16 == side);
        let failing = Weak {
            at: last.unwrap().0 + 1,
            good: 0,
        };
        v.fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .set_faults(weak(failing))
            .unwrap();
        let mut rng = Rng::new(seed);
        let is_bad = |v: &mut Volume| v.fs.volume().nand_mut().is_bad(BlockAddr(side)).unwrap();
        for round in 0..80 {
            live(&mut v, &mut rng, 1);
            v.fs.sync().unwrap();
            if !is_bad(&mut v) {
                continue;
            }
            let chip = v.fs.volume().nand().get::<SimNand>().clone();
            for &page in newer(&chip, ROOT, 0).iter().rev().take(2) {
                let case = format!("seed {seed}, side {side}, round {round}, page {}", page.0);
                without(&v, &chip, page, Way::Lost, &case);
            }
        }
        assert!(is_bad(&mut v));
    }
}

/// The page of a directory that showed a removal is lost, and another file has the name since: that
/// one is found, and that something is lost is told.
#[test]
fn a_removed_file_does_not_come_back_in_place_of_another() {
    let mut v = Volume::format((1024, 40, 16, 64));
    for dir in ["", "d"] {
        if !dir.is_empty() {
            v.mkdir(dir).unwrap();
        }
        let path = format!("{dir}/f").trim_start_matches('/').to_string();
        v.create(&path).unwrap();
        v.write(&path, 0, b"the old one").unwrap();
        v.fs.sync().unwrap();
        v.unlink(&path).unwrap();
        v.fsync(dir).unwrap();
        v.create(&path).unwrap();
        v.write(&path, 0, b"new").unwrap();
        v.fsync(&path).unwrap();
        let mut chip = v.fs.volume().nand().get::<SimNand>().clone();
        let page = newer(&chip, DIR, CHECKPOINT).pop().unwrap();
        spoil(&mut chip, page, Way::Lost);
        let mut fs = try_mount(chip, Config::default()).unwrap();
        assert_eq!(path::read_file(&mut fs, path.as_bytes()).unwrap(), b"new");
        assert!(fs.volume().lost_change().is_some());
        assert!(fs.sync().is_err(), "what is lost is told once");
        fs.sync().unwrap();
    }
}

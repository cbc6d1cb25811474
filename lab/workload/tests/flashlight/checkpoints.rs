//! What a mount begins with is there twice, also after a power cut: any one page of the last checkpoint, of its snapshot, and
//! of the two directories without which nothing is found may be lost.

use flashkit_flashlight::Config;
use flashkit_nand::PageAddr;
use flashkit_sim::SimNand;
use flashkit_vfs::FileSystem;
use flashkit_vfs::check::check;
use flashkit_workload::Rng;

use crate::common::try_mount;
use crate::damage::judge::judge;
use crate::damage::pages::{Loss, losses};
use crate::damage::rot::{WAYS, Way, newer, spoil};
use crate::damage::tree::{Shape, Volume, fill};

/// Numbers of the kinds of page.
const CHECKPOINT: u8 = 3;
const SNAPSHOT: u8 = 5;

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
        let chip = v.fs.volume().nand().clone();
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
        let chip = v.fs.volume().nand().clone();
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

/// With few pages a block the log of the session goes on in other blocks soon: each must be found by the first of the two checkpoints
/// as well.
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
                let chip = v.fs.volume().nand().clone();
                let page = newer(&chip, CHECKPOINT, 0).pop().unwrap();
                let case = format!("seed {seed}, round {round}, step {step}");
                without(&v, &chip, page, Way::Lost, &case);
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "{cases}");
}

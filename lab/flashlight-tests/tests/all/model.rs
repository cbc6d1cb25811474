//! FlashLight against the model, on small chips of several shapes, with remounts and checks.

use crate::common::{Volume, chip};
use flashkit_flashlight::{Cleaner, Config, ram_needed_for, ram_to_level, ram_useful};
use flashkit_nand::Nand;
use flashkit_powercut::Guard;
use flashkit_sim::SimNand;
use flashkit_workload::model::{self, ModelRun};
use flashkit_workload::{Options, replay_fs, trace};

struct Load {
    space: u64,
    objects: u64,
    full: bool,
}

const LIGHT: Load = Load {
    space: 3 << 20,
    objects: 200,
    full: false,
};

/// Returns how many blocks were bad at the end of a run, on average.
fn run(
    name: &str,
    seeds: std::ops::Range<u64>,
    make: impl Fn() -> SimNand,
    config: Config,
    load: &Load,
) -> usize {
    let make = || Volume::new(Guard::new(make(), Some(config)), config);
    run_in(name, seeds, make, load)
}

fn run_in(
    name: &str,
    seeds: std::ops::Range<u64>,
    make: impl Fn() -> Volume<Guard<SimNand>>,
    load: &Load,
) -> usize {
    let (mut bad, mut runs) = (0, 0);
    let Load {
        space,
        objects,
        full,
    } = *load;
    for seed in model::seeds(seeds) {
        let mut volume = make();
        let run = ModelRun {
            test: format!("-p flashkit-flashlight-tests {name}"),
            ops: 4000,
            space,
            objects,
            full,
            remount_every: 100,
            check_every: 50,
            compare_every: 200,
            ..ModelRun::new(seed)
        };
        if let Err(failure) = run.run(&mut volume) {
            panic!("{failure}");
        }
        assert!(volume.chip().checkpoints() > 0);
        bad += volume.chip().inner().bad_blocks().len();
        runs += 1;
    }
    bad / runs
}

#[test]
fn model_on_a_common_chip() {
    run(
        "model_on_a_common_chip",
        0..10,
        || chip(2048, 40, 64, 128),
        Config::default(),
        &LIGHT,
    );
}

#[test]
fn model_with_the_papers_cleaner() {
    let config = Config {
        cleaner: Cleaner::Paper,
        dirty_threshold: 10,
        gc_batch: 3,
        ..Config::default()
    };
    run(
        "model_with_the_papers_cleaner",
        10..16,
        || chip(2048, 40, 16, 512),
        config,
        &LIGHT,
    );
}

#[test]
fn model_without_spare_bytes() {
    run(
        "model_without_spare_bytes",
        20..24,
        || chip(2048, 0, 32, 256),
        Config::default(),
        &LIGHT,
    );
}

#[test]
fn model_on_small_pages() {
    run(
        "model_on_small_pages",
        30..36,
        || chip(1024, 24, 32, 1024),
        Config::default(),
        &LIGHT,
    );
}

#[test]
fn model_on_large_pages() {
    run(
        "model_on_large_pages",
        40..44,
        || chip(4096, 80, 128, 80),
        Config::default(),
        &LIGHT,
    );
}

#[test]
fn model_on_a_nearly_full_chip() {
    let load = Load {
        space: 9 << 20,
        objects: 1500,
        full: false,
    };
    let chip = || chip(2048, 40, 32, 256);
    run(
        "model_on_a_nearly_full_chip",
        50..56,
        chip,
        Config::default(),
        &load,
    );
}

#[test]
fn model_on_a_full_chip() {
    let load = Load {
        space: 40 << 20,
        objects: 3000,
        full: true,
    };
    let chip = || chip(2048, 40, 32, 160);
    run(
        "model_on_a_full_chip",
        60..66,
        chip,
        Config::default(),
        &load,
    );
}

#[test]
fn model_with_many_names() {
    let load = Load {
        space: 4 << 20,
        objects: 20_000,
        full: false,
    };
    let chip = || chip(1024, 40, 64, 512);
    run(
        "model_with_many_names",
        70..74,
        chip,
        Config::default(),
        &load,
    );
}

#[test]
fn model_with_factory_bad_blocks() {
    let make = || {
        let mut chip = chip(2048, 40, 32, 256);
        let faults = "seed=7;badblocks=0,2,3,17,255;badrate=1/40";
        chip.set_faults(faults.parse().unwrap()).unwrap();
        chip
    };
    let config = Config::default();
    let bad = run(
        "model_with_factory_bad_blocks",
        80..84,
        make,
        config,
        &LIGHT,
    );
    assert!(bad >= 5, "{bad}");
}

#[test]
fn model_with_failing_blocks() {
    let make = || {
        let mut chip = chip(2048, 40, 32, 512);
        let faults = "seed=9;badblocks=1;programfail=1/2000;erasefail=1/400";
        chip.set_faults(faults.parse().unwrap()).unwrap();
        chip
    };
    let config = Config::default();
    let bad = run("model_with_failing_blocks", 90..96, make, config, &LIGHT);
    assert!(bad > 1, "no block but the factory's one has failed");
}

/// `F` ends where space ends, and what the file holds is what was counted.
/// Pages are kept in RAM, few or many of them: a volume never shows what a
/// block held before its erase.
#[test]
fn model_with_pages_kept() {
    for (seeds, few) in [(100..104, true), (104..108, false)] {
        let make = || {
            let chip = chip(1024, 40, 16, 256);
            let geo = chip.geometry();
            let ram = if few {
                ram_to_level(&geo) + 8 * 1024
            } else {
                ram_useful(&geo)
            };
            let config = Config::default();
            Volume::in_ram(Guard::new(chip, Some(config)), ram, config)
        };
        let load = Load {
            space: 1 << 20,
            objects: 1000,
            full: false,
        };
        run_in("model_with_pages_kept", seeds, make, &load);
    }
}

/// The block table lies on flash, in 11 pages or 6, one or more of which are in RAM.
#[test]
fn model_with_a_table_on_flash() {
    let config = Config {
        table_page: 48,
        ..Config::default()
    };
    let make = || chip(1024, 40, 16, 512);
    let seeds = 110..116;
    run("model_with_a_table_on_flash", seeds, make, config, &LIGHT);
    let make = || {
        let chip = chip(2048, 40, 16, 256);
        let ram = ram_needed_for(&chip.geometry(), 48) + 10 * 1024;
        Volume::in_ram(Guard::new(chip, Some(config)), ram, config)
    };
    run_in("model_with_a_table_on_flash", 116..120, make, &LIGHT);
}

/// The same while blocks fail.
#[test]
fn model_with_a_table_on_flash_and_failing_blocks() {
    let config = Config {
        table_page: 96,
        ..Config::default()
    };
    let make = || {
        let mut chip = chip(2048, 40, 32, 512);
        let faults = "seed=9;badblocks=1;programfail=1/2000;erasefail=1/400";
        chip.set_faults(faults.parse().unwrap()).unwrap();
        chip
    };
    let name = "model_with_a_table_on_flash_and_failing_blocks";
    let bad = run(name, 120..126, make, config, &LIGHT);
    assert!(bad > 1, "no block but the factory's one has failed");
}

#[test]
fn filling_ends_where_space_ends() {
    let lines = |text: &str| trace::parse(text.as_bytes()).unwrap();
    for (text, full) in [
        ("F a 100000\nM fill\n", false),
        ("F a 99999999999\nM fill\n", true),
    ] {
        let mut volume = Volume::new(chip(2048, 40, 64, 160), Config::default());
        let options = Options {
            verify: true,
            ..Options::default()
        };
        let done = replay_fs(volume.mounted(), lines(text), options).unwrap();
        let fill = &done.report.phases[0];
        if full {
            assert!(fill.user_bytes > 12 << 20, "{}", fill.user_bytes);
            assert!(fill.user_bytes < 20 << 20, "{}", fill.user_bytes);
        } else {
            assert_eq!(fill.user_bytes, 100_000);
        }
        assert_eq!(done.verified_bytes, fill.user_bytes);
        assert_eq!(fill.erases.mean * 160.0, fill.block_erases as f64);
    }
}

//! How evenly the blocks of a chip wear when most of its data stays, and what that costs.
//!
//! `FLASHKIT_WEAR_FULL=1 cargo test --release -p flashkit-flashlight-tests wear --
//! --nocapture` goes to a mean of 1,000 erases on `slc-256m` and prints what it finds.

use crate::common::{self, Fs, format};
use flashkit_flashlight::{Config, ram_needed, ram_to_level};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{ChipSpec, Metered, Rng, SimNand, preset};
use flashkit_vfs::any::{self, AnyNand};

use flashkit_vfs::{FileSystem, Ino, Measured, NewInode};

/// Blocks at the start of the chip that hold the anchors: they are erased once in many thousand
/// checkpoints, and left out here.
const ROOTS: usize = 4;

#[derive(Clone, Copy)]
enum Order {
    Sequential,
    Random,
}

struct Load {
    chip: ChipSpec,
    order: Order,
    /// Bytes of one overwrite, and the size of a file that stays.
    request: u64,
    stays: u64,
    /// Erases of a block, in the mean, after which it ends.
    mean: u64,
    /// With RAM for counts.
    counted: bool,
}

/// What came of it.
struct Wear {
    mean: f64,
    sigma: f64,
    /// Erases for a thousand pages overwritten.
    erases: f64,
}

fn volume(load: &Load, wear_interval: u32) -> Fs {
    let config = Config {
        wear_interval,
        ..Config::default()
    };
    let chip = format(SimNand::new(load.chip.clone()), 7);
    let size = if load.counted {
        ram_to_level
    } else {
        ram_needed
    };
    let ram = vec![0; size(&chip.geometry())].leak();
    any::mount(AnyNand::new(chip), ram, config).unwrap()
}

/// Fills 60 % of the chip with what stays, and overwrites 20 % again and again.
fn run(load: &Load, wear_interval: u32) -> Wear {
    let mut fs = volume(load, wear_interval);
    let geo = fs.volume().nand().geometry();
    let (root, new, page) = (fs.root(), NewInode::default(), u64::from(geo.page_size()));
    let bytes = vec![0x5a; load.stays.max(load.request) as usize];
    for i in 0..geo.capacity() * 6 / 10 / load.stays {
        let file = fs
            .create(root, format!("stays{i}").as_bytes(), &new)
            .unwrap()
            .ino;
        fs.write(file, 0, &bytes[..load.stays as usize], new.now)
            .unwrap();
        fs.fsync(file).unwrap();
    }
    let places = geo.capacity() / 5 / 4 / load.request;
    let hot: Vec<Ino> = (0..4)
        .map(|i| {
            fs.create(root, format!("hot{i}").as_bytes(), &new)
                .unwrap()
                .ino
        })
        .collect();
    let mut rng = Rng::new(3);
    let (before, mut done) = (fs.volume().nand().counters().block_erases, 0);
    loop {
        let (file, at) = match load.order {
            Order::Sequential => (done / places % 4, done % places * load.request),
            Order::Random => (
                rng.below(4),
                rng.below((places - 1) * load.request / page + 1) * page,
            ),
        };
        let file = hot[file as usize];
        fs.write(file, at, &bytes[..load.request as usize], new.now)
            .unwrap();
        done += 1;
        if done % 16 == 0 {
            fs.fsync(file).unwrap();
            let erases = fs.volume().nand().counters().block_erases;
            if erases >= load.mean * u64::from(geo.blocks()) {
                let pages = (done * load.request / page) as f64;
                let erases = (erases - before) as f64 * 1000.0 / pages;
                return spread(&fs.erase_counts()[ROOTS..], erases);
            }
        }
    }
}

fn spread(counts: &[u32], erases: f64) -> Wear {
    let n = counts.len() as f64;
    let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / n;
    let squares = counts.iter().map(|&c| (f64::from(c) - mean).powi(2));
    let sigma = (squares.sum::<f64>() / n).sqrt();
    Wear {
        mean,
        sigma,
        erases,
    }
}

fn small(order: Order, counted: bool) -> Load {
    let timing = ChipSpec::from(preset("slc-256m").unwrap()).timing();
    let geo = Geometry::new(1024, 24, 32, 512).unwrap();
    Load {
        chip: ChipSpec::new(geo, timing),
        order,
        request: 32_768,
        stays: 131_072,
        mean: 80,
        counted,
    }
}

/// Without levelling most blocks are never erased; with it all are, about as often.
#[test]
fn data_that_stays_takes_its_share() {
    for order in [Order::Sequential, Order::Random] {
        let interval = Config::default().wear_interval;
        let load = small(order, false);
        let (with, without) = (run(&load, interval), run(&load, 0));
        let counted = run(&small(order, true), interval);
        println!("counted: sigma {:.2} of {:.1}", counted.sigma, counted.mean);
        assert!(
            counted.sigma < 12.0,
            "{} of {}",
            counted.sigma,
            counted.mean
        );
        let extra = with.erases / without.erases - 1.0;
        println!(
            "sigma {:.2} of {:.1}, without {:.1}, extra {:.4}",
            with.sigma, with.mean, without.sigma, extra
        );
        assert!(with.sigma < 15.2, "{} of {}", with.sigma, with.mean);
        assert!(
            without.sigma > without.mean,
            "{} of {}",
            without.sigma,
            without.mean
        );
        // On chips as small as this one metadata weighs more.
        assert!(extra < 0.06, "{extra}");
    }
}

#[test]
fn a_thousand_erases() {
    if std::env::var("FLASHKIT_WEAR_FULL").is_err() {
        println!("skipped: long; FLASHKIT_WEAR_FULL=1 runs it");
        return;
    }
    let orders = [
        ("sequential, 64 KiB", Order::Sequential),
        ("random, 64 KiB", Order::Random),
    ];
    std::thread::scope(|scope| {
        for (name, order) in orders {
            scope.spawn(move || to_a_thousand(name, order));
        }
    });
}

fn to_a_thousand(name: &str, order: Order) {
    let load = |counted| Load {
        chip: preset("slc-256m").unwrap().into(),
        order,
        request: 65_536,
        stays: 512 * 1024,
        mean: 1000,
        counted,
    };
    let interval = Config::default().wear_interval;
    let without = run(&load(false), 0);
    for (how, counted) in [("counted", true), ("by place", false)] {
        let with = run(&load(counted), interval);
        let extra = with.erases / without.erases - 1.0;
        println!(
            "{name}, {how}: mean {:.1}, sigma {:.2} = {:.2} % of it; erases {:+.2} %; without levelling sigma {:.0}",
            with.mean,
            with.sigma,
            100.0 * with.sigma / with.mean,
            100.0 * extra,
            without.sigma
        );
        assert!(!counted || with.sigma <= 0.01 * with.mean);
    }
}

/// Any interval, with erase counts and without: the longest moves nothing.
#[test]
fn every_interval_is_taken() {
    for interval in [1, 2, 1 << 20, 1 << 30, u32::MAX] {
        for extra in [0, 64] {
            let config = Config {
                wear_interval: interval,
                ..Config::default()
            };
            let chip = common::format(common::chip(1024, 40, 8, 64), 1);
            let ram = flashkit_flashlight::ram_needed(&chip.geometry()) + extra;
            let mut fs = common::try_mount_in(AnyNand::new(chip), ram, config).unwrap();
            let root = fs.root();
            for n in 0..200 {
                let name = (n % 10).to_string();
                let _ = fs.unlink(root, name.as_bytes(), common::NOW);
                common::file(&mut fs, root, name.as_bytes(), 4000);
            }
        }
    }
}

//! Bounded latency: what a write or a trim takes at most, whatever the erases do.

use crate::common::{self, Chip, Model, Op, SHAPE, content, ram};
use flashkit_logdisk::{Config, Error, LogDisk, Step};
use flashkit_nor::OneBank;
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorSpec, NorTiming};

const PROGRAM_NS: u64 = 10;
const READ_NS: u64 = 1;
/// Longer than anything else by far.
const ERASE_NS: u64 = 1_000_000_000;

fn bounded() -> Config {
    let config = common::configs()
        .into_iter()
        .find(|(name, _)| *name == "bounded");
    config.unwrap().1
}

fn chip() -> Chip {
    let timing = NorTiming {
        read_ns: READ_NS,
        program_ns: PROGRAM_NS,
        erase_ns: ERASE_NS,
        suspend_ns: 5,
    };
    let spec = NorSpec::new(common::BANKS, common::SEGMENTS / common::BANKS, timing);
    let mut chip = Chip::new(spec);
    LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
    chip
}

/// The bound for one sector: its own block and those that it moves, the flags of all pairs in the
/// queue, the ends and begins of erases, and the first erase of a bank after a mount.
fn bound_ns(config: &Config) -> u64 {
    let block = 134 * PROGRAM_NS + (128 + 7 * 2) * READ_NS + 2 * 5;
    let moves = u64::from(config.moves_max) + 1;
    let queue = u64::from(config.queue) * 3 * PROGRAM_NS;
    let erases = u64::from(common::BANKS) * (12 * PROGRAM_NS + 24 * 6 * READ_NS);
    let firm = 28 * (PROGRAM_NS + 2 * READ_NS);
    moves * block + queue + erases + firm
}

/// Single sectors written and trimmed at random; the longest, and how often one was refused.
fn longest_ns(config: Config, seed: u64) -> (u64, u64) {
    let mut memory = ram(&config);
    let mut disk = LogDisk::mount(chip(), config, &mut memory).unwrap();
    let mut model = Model::new();
    let mut rng = Rng::new(seed);
    let mut longest = 0;
    for version in 1..3_000 {
        let sector = rng.below(u64::from(SHAPE.sectors)) as u32;
        let op = match rng.below(8) {
            0 => Op::Trim(sector, 1),
            _ => Op::Write(sector, 1, version),
        };
        model.begin(op);
        loop {
            let start = disk.flash().now_ns();
            let done = match op {
                Op::Trim(..) => disk.trim(sector, 1),
                _ => disk.write(sector, &content(sector, version)),
            };
            longest = longest.max(disk.flash().now_ns() - start);
            match done {
                Ok(()) => break,
                // The caller waits, when it suits.
                Err(Error::Busy) => assert_ne!(disk.clean_now(), Ok(Step::Idle)),
                Err(error) => panic!("seed {seed}, version {version}: {error:?}"),
            }
        }
        model.end(op);
        if version % 50 == 0 {
            disk.check().unwrap();
            model.compare(&mut disk, false).unwrap();
        }
    }
    (longest, disk.stats().refused)
}

#[test]
fn what_would_wait_is_refused() {
    let mut refusals = 0;
    for seed in 0..8 {
        let config = bounded();
        let (longest, refused) = longest_ns(config, seed);
        assert!(
            longest <= bound_ns(&config),
            "seed {seed}: {longest} ns, the bound is {}",
            bound_ns(&config)
        );
        refusals += refused;
    }
    // An erase outlasts the whole room here, so there must be some.
    assert!(refusals > 100, "{refusals}");
    // Without the mode a write waits.
    let config = Config {
        moves_max: 0,
        ..bounded()
    };
    let (longest, refused) = longest_ns(config, 0);
    assert!(
        longest > ERASE_NS / 2 && refused == 0,
        "{longest} {refused}"
    );
}

#[test]
fn one_bank_cannot_be_bounded() {
    let mut one = OneBank::new(chip());
    LogDisk::format(&mut one, &SHAPE, 1).unwrap();
    let mut memory = ram(&bounded());
    let refused = LogDisk::mount(one, bounded(), &mut memory).map(|_| ());
    assert_eq!(
        refused,
        Err(Error::Config("bounded latency needs two banks at least"))
    );
}

//! The chips that inputs start from: small disks in every state, made by the disk itself.

use std::sync::OnceLock;

use flashkit_logdisk::{Config, Error, LogDisk, Separate, Shape, Start, Victim, ram_bytes};
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorCut, NorEraseTear, NorPowerCut, NorSpec, NorTiming, SimNor, WordTear};

use super::Held;

/// Bytes of a segment: 7 blocks.
pub const SEGMENT: usize = 4096;
pub const BANKS: u32 = 3;
pub const SEGMENTS: u32 = 12;
pub const SECTOR: usize = 512;
pub const SECTORS: u32 = 50;
pub const SHAPE: Shape = Shape {
    sector_size: SECTOR as u32,
    sectors: SECTORS,
};

/// 84 blocks.
pub type Chip = SimNor<SEGMENT>;

/// An erase takes as long as three sectors.
fn spec() -> NorSpec {
    let timing = NorTiming {
        read_ns: 1,
        program_ns: 10,
        erase_ns: 4_000,
        suspend_ns: 5,
    };
    NorSpec::new(BANKS, SEGMENTS / BANKS, timing)
}

/// Ways to clean, each of which takes another path.
pub fn configs() -> [Config; 6] {
    let best = Config {
        queue: 4,
        ..Config::new()
    };
    let paper = Config {
        start: Start::Threshold {
            segments: 4,
            account: 5,
            curve: 1,
        },
        queue: 4,
        ..Config::paper()
    };
    [
        best,
        paper,
        Config {
            victim: Victim::CostBenefit,
            separate: Separate::Cold,
            ..paper
        },
        Config {
            victim: Victim::CostAgeTimes,
            separate: Separate::Cleaner,
            wear_gap: 2,
            open_max: 3,
            caller_clock: true,
            ..best
        },
        Config {
            start: Start::Reserve { segments: 3 },
            erasing_max: 3,
            open_max: 4,
            choices: 3,
            ..best
        },
        Config {
            start: Start::Reserve { segments: 4 },
            moves_max: 12,
            erasing_max: 2,
            open_max: 3,
            ..best
        },
    ]
}

/// The contents of a sector in a version; version 0 is zeros.
pub fn content(sector: u32, version: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if version != 0 {
        Rng::keyed(u64::from(version), u64::from(sector)).fill(&mut bytes);
        bytes[..4].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// Disks, and what their sectors hold: empty, in use in each way, and cut in the middle.
pub fn stored() -> &'static [(Chip, Held)] {
    static STORED: OnceLock<Vec<(Chip, Held)>> = OnceLock::new();
    STORED.get_or_init(|| {
        let mut chip = Chip::new(spec());
        LogDisk::format(&mut chip, &SHAPE, 7).expect("a chip that fits");
        let empty = (chip, [Some(0); SECTORS as usize]);
        let mut all = vec![empty.clone()];
        for (seed, config) in (1..).zip(configs()) {
            let whole = used(&empty, config, seed, None);
            for n in 1..4 {
                let cut = NorCut {
                    after: 1_700 * n + 37 * seed,
                    program: WordTear::Partial,
                    erase: NorEraseTear::Partial,
                    seed: seed * 5 + n,
                };
                all.push(used(&empty, config, seed, Some(cut)));
            }
            all.push(whole);
        }
        all
    })
}

/// A disk after many writes and trims, up to a cut if there is one.
fn used(from: &(Chip, Held), config: Config, seed: u64, cut: Option<NorCut>) -> (Chip, Held) {
    let (chip, mut held) = from.clone();
    let chip = match cut {
        Some(cut) => NorPowerCut::new(chip, cut),
        None => NorPowerCut::never(chip),
    };
    let len = ram_bytes::<NorPowerCut<Chip>>(SEGMENTS as usize * SEGMENT, BANKS, &SHAPE, &config);
    let mut ram = vec![0; len.expect("a configuration that fits")];
    let mut disk = LogDisk::mount(chip, config, &mut ram).expect("a sound disk");
    let mut rng = Rng::new(seed);
    for version in 1..250 {
        let sector = rng.below(45) as u32;
        let (done, new) = match rng.below(8) {
            0 => (disk.trim(sector, 1), 0),
            _ => (disk.write(sector, &content(sector, version)), version),
        };
        let held = &mut held[sector as usize];
        match done {
            Ok(()) => *held = Some(new),
            Err(Error::Busy) => drop(disk.clean_now()),
            // Old or new.
            Err(_) => {
                *held = None;
                break;
            }
        }
    }
    if cut.is_none() {
        disk.finish_erases().expect("a chip with power");
        disk.flush().expect("a chip with power");
    } else {
        // A trim that has not been flushed may be undone.
        held.iter_mut()
            .filter(|held| **held == Some(0))
            .for_each(|held| *held = None);
    }
    let mut chip = disk.into_flash().into_inner();
    chip.set_power(true);
    (chip, held)
}

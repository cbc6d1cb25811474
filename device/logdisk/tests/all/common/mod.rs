//! A small chip, and a model of what its disk may hold.

use std::fmt::Debug;

use flashkit_logdisk::{Config, Error, LogDisk, Separate, Shape, Start, Step, Victim, ram_bytes};
use flashkit_nor::BankedNorFlash;
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorSpec, NorTiming, SimNor};

/// 3 banks of 4 segments of 4 KiB: 7 blocks a segment, 84 in all.
pub type Chip = SimNor<4096>;

pub const SECTOR: usize = 512;
pub const SHAPE: Shape = Shape {
    sector_size: SECTOR as u32,
    sectors: 50,
};
pub const BANKS: u32 = 3;
pub const SEGMENTS: u32 = 12;

/// An erase takes as long as three sectors.
pub fn spec() -> NorSpec {
    let timing = NorTiming {
        read_ns: 1,
        program_ns: 10,
        erase_ns: 4_000,
        suspend_ns: 5,
    };
    NorSpec::new(BANKS, SEGMENTS / BANKS, timing)
}

pub fn formatted() -> Chip {
    let mut chip = Chip::new(spec());
    LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
    chip
}

/// The ways to clean that the tests go through.
pub fn configs() -> [(&'static str, Config); 6] {
    let start = Start::Threshold {
        segments: 4,
        account: 5,
        curve: 1,
    };
    let queue = 4;
    let paper = Config {
        start,
        queue,
        ..Config::paper()
    };
    let best = Config {
        queue,
        ..Config::new()
    };
    [
        ("paper", paper),
        (
            "cold",
            Config {
                victim: Victim::CostBenefit,
                separate: Separate::Cold,
                ..paper
            },
        ),
        ("aged", best),
        (
            "levelled",
            Config {
                victim: Victim::CostAgeTimes,
                separate: Separate::Cleaner,
                wear_gap: 2,
                open_max: 3,
                ..best
            },
        ),
        (
            "concurrent",
            Config {
                start: Start::Reserve { segments: 3 },
                erasing_max: 3,
                open_max: 4,
                choices: 3,
                ..best
            },
        ),
        (
            "bounded",
            Config {
                start: Start::Reserve { segments: 4 },
                moves_max: 12,
                erasing_max: 2,
                open_max: 3,
                ..best
            },
        ),
    ]
}

pub fn ram(config: &Config) -> Vec<u8> {
    let len = ram_bytes::<Chip>(SEGMENTS as usize * 4096, BANKS, &SHAPE, config);
    // What was there before must not matter.
    vec![0xA5; len.unwrap()]
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

/// CRC-32 as in Ethernet and zlib.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

/// An operation on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes so many sectors in a version.
    Write(u32, u32, u32),
    Trim(u32, u32),
    Flush,
    /// Steps of the cleaner.
    Clean(u32),
}

/// A script: the disk is filled, then written here and there.
pub fn script(seed: u64, fill: u32, ops: u32) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mut script: Vec<Op> = (0..fill / 5).map(|i| Op::Write(i * 5, 5, 1)).collect();
    for version in 2..ops + 2 {
        script.push(match rng.below(12) {
            0 => Op::Trim(rng.below(48) as u32, 1 + rng.below(2) as u32),
            1 => Op::Flush,
            2 | 3 => Op::Clean(1 + rng.below(4) as u32),
            4 | 5 => Op::Write(rng.below(47) as u32, 3, version),
            // A few hot ones, so that pairs meet in the queue.
            6 | 7 => Op::Write(rng.below(4) as u32, 1, version),
            _ => Op::Write(rng.below(50) as u32, 1, version),
        });
    }
    script
}

/// What each sector may hold.
#[derive(Clone, Debug)]
pub struct Model {
    /// Versions, the newest last.
    may: Vec<Vec<u32>>,
    /// Trimmed and not flushed.
    trimmed: Vec<bool>,
    /// The version found after a cut whose trim, not flushed, may still come true.
    vanishing: Vec<Option<u32>>,
}

impl Model {
    pub fn new() -> Model {
        Model::of(SHAPE.sectors)
    }

    /// Of a disk with so many sectors.
    pub fn of(sectors: u32) -> Model {
        Model {
            may: vec![vec![0]; sectors as usize],
            trimmed: vec![false; sectors as usize],
            vanishing: vec![None; sectors as usize],
        }
    }

    pub fn sectors(&self) -> u32 {
        self.may.len() as u32
    }

    /// An operation begins: from now on either is right.
    pub fn begin(&mut self, op: Op) {
        match op {
            Op::Write(first, count, version) => {
                for sector in first..first + count {
                    self.may[sector as usize].push(version);
                }
            }
            Op::Trim(first, count) => {
                for sector in first..first + count {
                    if self.may[sector as usize] != [0] {
                        self.may[sector as usize].push(0);
                    }
                }
            }
            Op::Flush | Op::Clean(_) => {}
        }
    }

    /// It has returned.
    pub fn end(&mut self, op: Op) {
        match op {
            Op::Write(first, count, version) => {
                for sector in first..first + count {
                    self.may[sector as usize] = vec![version];
                    self.trimmed[sector as usize] = false;
                    self.vanishing[sector as usize] = None;
                }
            }
            Op::Trim(first, count) => {
                for sector in first..first + count {
                    self.trimmed[sector as usize] = true;
                }
            }
            Op::Flush => self.settle_trims(),
            Op::Clean(_) => {}
        }
    }

    fn settle_trims(&mut self) {
        for (may, trimmed) in self.may.iter_mut().zip(&mut self.trimmed) {
            if core::mem::take(trimmed) {
                *may = vec![0];
            }
        }
    }

    /// After a cut any of the versions may be the one there, so a sector that is trimmed or written
    /// next may hold that too.
    pub fn forget_order(&mut self) {
        self.trimmed.fill(false);
    }

    /// Whether every sector of a damaged disk holds what it may, or is an error.
    pub fn bears<F: BankedNorFlash>(&self, disk: &mut LogDisk<'_, F>) -> Result<(), String> {
        for (sector, may) in (0..).zip(&self.may) {
            let mut bytes = [0; SECTOR];
            let read = disk.read(sector, &mut bytes);
            let is_right = match read {
                Ok(()) => (may.iter()).any(|version| content(sector, *version) == bytes),
                Err(Error::Lost { .. }) => true,
                Err(_) => false,
            };
            if !is_right {
                let found = &bytes[..4];
                return Err(format!(
                    "damaged: sector {sector}, {may:?}: {read:?}, {found:x?}"
                ));
            }
        }
        Ok(())
    }

    /// Compares every sector with what it may hold. Without a cut it holds the newest. What was
    /// found is what it holds from now on; but a trim that was not flushed may come true later.
    pub fn compare<F: BankedNorFlash>(
        &mut self,
        disk: &mut LogDisk<'_, F>,
        cut: bool,
    ) -> Result<(), String> {
        for sector in 0..self.sectors() {
            let mut bytes = [0; SECTOR];
            disk.read(sector, &mut bytes)
                .map_err(|e| format!("sector {sector}: {e:?}"))?;
            let may = &mut self.may[sector as usize];
            let from = if cut { 0 } else { may.len() - 1 };
            let at = (from..may.len()).find(|i| content(sector, may[*i]) == bytes);
            let Some(at) = at else {
                return Err(format!(
                    "sector {sector} may hold versions {:?}, not {:x?}...",
                    &may[from..],
                    &bytes[..4]
                ));
            };
            if cut {
                let found = may[at];
                let vanishing = &mut self.vanishing[sector as usize];
                let later = found != 0 && (may[at..].contains(&0) || *vanishing == Some(found));
                *vanishing = later.then_some(found);
                *may = if later { vec![0, found] } else { vec![found] };
                if later {
                    self.trimmed[sector as usize] = false;
                }
            }
        }
        Ok(())
    }
}

/// What a disk of bounded latency refuses, it takes once it has cleaned.
fn patiently<F: BankedNorFlash>(
    disk: &mut LogDisk<'_, F>,
    work: impl Fn(&mut LogDisk<'_, F>) -> Result<(), Error<F::Error>>,
) -> Result<(), Error<F::Error>> {
    loop {
        match work(disk) {
            Err(Error::Busy) if disk.clean_now()? == Step::Idle => return Err(Error::Full),
            Err(Error::Busy) => {}
            ended => return ended,
        }
    }
}

pub fn apply<F: BankedNorFlash>(disk: &mut LogDisk<'_, F>, op: Op) -> Result<(), Error<F::Error>> {
    match op {
        // One by one: those before the one that was refused are not written again.
        Op::Write(first, count, version) => (first..first + count).try_for_each(|sector| {
            patiently(disk, |disk| disk.write(sector, &content(sector, version)))
        }),
        Op::Trim(first, count) => patiently(disk, |disk| disk.trim(first, count)),
        Op::Flush => disk.flush(),
        Op::Clean(steps) => (0..steps).try_for_each(|_| disk.clean_step().map(|_| ())),
    }
}

/// Runs a script until its end or the first error.
pub fn run<F: BankedNorFlash>(
    disk: &mut LogDisk<'_, F>,
    model: &mut Model,
    script: &[Op],
) -> Result<(), Error<F::Error>>
where
    F::Error: Debug,
{
    for op in script {
        model.begin(*op);
        apply(disk, *op)?;
        model.end(*op);
    }
    Ok(())
}

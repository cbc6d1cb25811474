//! Small chips, and a model of what a disk may hold.

#[cfg(feature = "journals")]
pub mod ext;

use std::fmt::Debug;
use std::ops::Range;

use flashkit_jftl::{Error, Jftl, MapCache, ram_bytes};
use flashkit_nand::{BlockAddr, Geometry, Nand};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{ChipSpec, Rng, SimNand, Timing};

/// A kind of chip and of RAM that the tests go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub name: &'static str,
    pub page: u32,
    pub spare: u32,
    pub pages: u32,
    pub blocks: u32,
    pub cache: MapCache,
    /// Between which pages the chip copies by itself.
    pub copies: CopyRange,
}

pub const SETUPS: [Setup; 5] = [
    Setup {
        name: "whole",
        page: 512,
        spare: 8,
        pages: 8,
        blocks: 48,
        cache: MapCache::Whole,
        copies: CopyRange::Nothing,
    },
    Setup {
        name: "pieces",
        page: 512,
        spare: 8,
        pages: 16,
        blocks: 72,
        cache: MapCache::Pieces(4),
        copies: CopyRange::Nothing,
    },
    Setup {
        name: "in-band",
        page: 512,
        spare: 0,
        pages: 16,
        blocks: 48,
        cache: MapCache::Whole,
        copies: CopyRange::Nothing,
    },
    Setup {
        name: "copies",
        page: 512,
        spare: 8,
        pages: 8,
        blocks: 52,
        cache: MapCache::Whole,
        copies: CopyRange::Parity,
    },
    Setup {
        name: "large",
        page: 2048,
        spare: 40,
        pages: 16,
        blocks: 200,
        cache: MapCache::Pieces(4),
        copies: CopyRange::Nothing,
    },
];

impl Setup {
    pub fn chip(&self) -> SimNand {
        let timing = Timing {
            read_ns: 25_000,
            program_ns: 200_000,
            erase_ns: 2_000_000,
        };
        let shape = Geometry::new(self.page, self.spare, self.pages, self.blocks).unwrap();
        let mut chip = SimNand::new(ChipSpec::new(shape, timing));
        chip.set_copies(self.copies);
        chip
    }

    pub fn ram(&self) -> Vec<u8> {
        let len = ram_bytes(&self.chip().geometry(), self.cache).unwrap();
        // What was there before must not matter.
        vec![0xA5; len]
    }

    pub fn formatted(&self) -> SimNand {
        self.formatted_with(&[])
    }

    /// Formatted with blocks that were bad from the beginning.
    pub fn formatted_with(&self, bad: &[u32]) -> SimNand {
        let mut chip = self.chip();
        for block in bad {
            chip.mark_bad(BlockAddr(*block)).unwrap();
        }
        Jftl::format(&mut chip, &mut self.ram(), 7).unwrap();
        chip
    }

    pub fn sectors(&self) -> u32 {
        let mut ram = self.ram();
        Jftl::mount(self.formatted(), &mut ram)
            .unwrap()
            .sector_count()
    }
}

/// What `make` makes of each setup: after an orderly end or none, and of the large one also with
/// blocks for anchors that are bad, so that three blocks take them, and roots lead there.
pub fn starts<T>(make: impl Fn(Setup, bool, &[u32]) -> T) -> Vec<(Setup, T)> {
    let [.., large] = SETUPS;
    let all = SETUPS.into_iter().map(|setup| (setup, &[][..]));
    all.chain([(large, &[2][..])])
        .flat_map(|(setup, bad)| [true, false].map(|orderly| (setup, make(setup, orderly, bad))))
        .collect()
}

/// The seeds of a search: so many, with `FLASHKIT_FULL=1` 100,000, or `FLASHKIT_REPLAY=seed` alone.
pub fn seeds(count: u64) -> Range<u64> {
    if let Ok(only) = std::env::var("FLASHKIT_REPLAY") {
        let seed = only.parse().expect("a seed, as a failure prints it");
        return seed..seed + 1;
    }
    let is_full = std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1");
    0..if is_full { 100_000 } else { count }
}

/// The contents of a sector in a version; version 0 is zeros.
pub fn content(sector: u32, version: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if version != 0 {
        Rng::keyed(u64::from(version), u64::from(sector)).fill(&mut bytes);
        bytes[..4].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// An operation on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes so many sectors in a version.
    Write(u32, u32, u32),
    Trim(u32, u32),
    Flush,
    Background,
    Close,
}

/// A script: the disk is filled, then written here and there.
pub fn script(seed: u64, sectors: u32, fill: u32, ops: u32) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mut draw = |n: u32| rng.below(u64::from(n)) as u32;
    let mut script = vec![Op::Write(0, fill, 1), Op::Flush];
    let hot = (sectors / 8).max(4);
    for version in 2..ops + 2 {
        script.push(match draw(24) {
            0 | 1 => Op::Trim(draw(sectors - 4), 1 + draw(4)),
            2..=4 => Op::Flush,
            5 => Op::Background,
            6 if draw(4) == 0 => Op::Close,
            7..=9 => Op::Write(draw(sectors - 8), 1 + draw(8), version),
            10..=18 => Op::Write(draw(hot), 1, version),
            _ => Op::Write(draw(sectors), 1, version),
        });
    }
    script
}

/// What each sector may hold.
#[derive(Clone, Debug)]
pub struct Model {
    /// Versions since the last flush, the newest last.
    may: Vec<Vec<u32>>,
}

impl Model {
    pub fn new(sectors: u32) -> Model {
        Model {
            may: vec![vec![0]; sectors as usize],
        }
    }

    /// An operation begins: from now on either is right.
    pub fn begin(&mut self, op: &Op) {
        match *op {
            Op::Write(first, count, version) => {
                for sector in first..first + count {
                    self.may[sector as usize].push(version);
                }
            }
            Op::Trim(first, count) => {
                for sector in first..first + count {
                    self.may[sector as usize].push(0);
                }
            }
            Op::Flush | Op::Background | Op::Close => {}
        }
    }

    /// It has returned.
    pub fn end(&mut self, op: &Op) {
        if matches!(op, Op::Flush | Op::Close) {
            for may in &mut self.may {
                *may = vec![*may.last().unwrap()];
            }
        }
    }

    /// Compares every sector with what it may hold. Without a cut it holds the newest. What was
    /// found is what it holds from now on.
    pub fn compare<N: Nand>(&mut self, disk: &mut Jftl<'_, N>, cut: bool) -> Result<(), String> {
        let len = disk.sector_size() as usize;
        for sector in 0..disk.sector_count() {
            let mut bytes = vec![0xEE; len];
            disk.read(sector, &mut bytes)
                .map_err(|e| format!("sector {sector}: {e:?}"))?;
            let may = &mut self.may[sector as usize];
            let from = if cut { 0 } else { may.len() - 1 };
            let found = (may[from..].iter()).find(|v| content(sector, **v, len) == bytes);
            let Some(found) = found.copied() else {
                return Err(format!(
                    "sector {sector} may hold versions {:?}, not {:x?}...",
                    &may[from..],
                    &bytes[..4]
                ));
            };
            if cut {
                *may = vec![found];
            }
        }
        Ok(())
    }
}

pub fn apply<N: Nand>(disk: &mut Jftl<'_, N>, op: &Op) -> Result<(), Error<N::Error>> {
    match *op {
        Op::Write(first, count, version) => {
            let len = disk.sector_size() as usize;
            let data: Vec<u8> = (first..first + count)
                .flat_map(|sector| content(sector, version, len))
                .collect();
            disk.write(first, &data)
        }
        Op::Trim(first, count) => disk.trim(first, count),
        Op::Flush => disk.flush(),
        Op::Background => disk.background().map(|_| ()),
        Op::Close => disk.close(),
    }
}

/// Runs a script until its end or the first error.
pub fn run<N: Nand>(
    disk: &mut Jftl<'_, N>,
    model: &mut Model,
    script: &[Op],
) -> Result<(), Error<N::Error>>
where
    N::Error: Debug,
{
    for op in script {
        model.begin(op);
        apply(disk, op)?;
        model.end(op);
    }
    Ok(())
}

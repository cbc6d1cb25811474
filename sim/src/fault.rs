//! Physics that goes wrong: seeded, each fault off by default.

use std::collections::HashMap;

use flashkit_nand::{Geometry, ReadStatus};

use crate::Rng;

/// A chance of one in this many; 0 is never, 1 is always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(pub u32);

impl Rate {
    /// It does not happen.
    pub const NEVER: Rate = Rate(0);

    /// `bitflips=` of nandsim: 64 reads of 65,536.
    pub const NANDSIM_BITFLIPS: Rate = Rate(1024);

    fn happens(self, rng: &mut Rng) -> bool {
        rng.one_in(u64::from(self.0))
    }
}

/// A block or a page that stands a number of operations and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weak {
    /// Number of the block or, counted over the whole chip, of the page.
    pub at: u32,
    /// Operations that succeed before the first one fails.
    pub good: u32,
}

/// What goes wrong on a chip. [`Faults::default`] is nothing.
///
/// What only concerns reads is never written into the chip: without the faults, the data is there
/// again. A block of which one program or erase has failed fails every later one, or those that
/// `fail_again` says, until it is marked bad and left alone. The page of a program that
/// failed reads as it should, for good or a few times, or with bits that are still 1, or
/// as erased, or not at all.
///
/// The counts behind `weak_pages`, `weak_blocks`, `failing_max`, `grave_pages`, `read_disturb` and
/// `retention_ns` begin anew when an image is opened; erase counts and failing blocks persist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Seed of every chance below.
    pub seed: u64,
    /// Blocks bad from the factory. Such a block holds nothing that can be read.
    pub bad_blocks: Vec<u32>,
    /// Chance of each other block, if never erased or programmed, to be bad from the factory.
    pub bad_rate: Rate,
    /// Wrong bits that the chip's ECC can correct in a page. 8 by default.
    pub ecc: u32,
    /// Most bits flipped at random in one read; 0 is none.
    pub bitflips: u32,
    /// Chance of a read to have such flips. One in 1,024 by default.
    pub bitflip_rate: Rate,
    /// Chance of a read to be uncorrectable. The next read of the page may well be good.
    pub uncorrectable: Rate,
    /// Chance of a program to fail.
    pub program_fail: Rate,
    /// Pages whose programs fail after some good ones.
    pub weak_pages: Vec<Weak>,
    /// Chance of an erase to fail.
    pub erase_fail: Rate,
    /// Blocks whose erases fail after some good ones.
    pub weak_blocks: Vec<Weak>,
    /// Chance of a program or an erase in a block that has failed to fail again. 1 by default.
    pub fail_again: Rate,
    /// Blocks that begin to fail, at most; 0 is no limit.
    pub failing_max: u32,
    /// Pages that are uncorrectable after some good reads, until programmed again.
    pub grave_pages: Vec<Weak>,
    /// Erases that a block stands in its life; 0 is no limit.
    pub endurance: u32,
    /// Reads of a block since its erase that flip one bit in each of its pages; 0 is none.
    pub read_disturb: u32,
    /// Virtual nanoseconds since the program that flip one bit of a page; 0 is none.
    pub retention_ns: u64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            seed: 0,
            bad_blocks: Vec::new(),
            bad_rate: Rate::NEVER,
            ecc: 8,
            bitflips: 0,
            bitflip_rate: Rate::NANDSIM_BITFLIPS,
            uncorrectable: Rate::NEVER,
            program_fail: Rate::NEVER,
            weak_pages: Vec::new(),
            erase_fail: Rate::NEVER,
            weak_blocks: Vec::new(),
            fail_again: Rate(1),
            failing_max: 0,
            grave_pages: Vec::new(),
            endurance: 0,
            read_disturb: 0,
            retention_ns: 0,
        }
    }
}

/// Why a set of faults was refused, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultsError(pub(crate) String);

impl core::fmt::Display for FaultsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultsError {}

impl Faults {
    /// Checks that every block and page named is on a chip of this shape.
    ///
    /// # Errors
    /// Names the first one that is not.
    pub fn check(&self, geometry: &Geometry) -> Result<(), FaultsError> {
        let weak = |list: &[Weak]| list.iter().map(|w| w.at).max();
        let (blocks, pages) = (geometry.blocks(), geometry.pages());
        let highest = [
            (
                "badblocks",
                "block",
                self.bad_blocks.iter().copied().max(),
                blocks,
            ),
            ("weakblocks", "block", weak(&self.weak_blocks), blocks),
            ("weakpages", "page", weak(&self.weak_pages), pages),
            ("gravepages", "page", weak(&self.grave_pages), pages),
        ];
        for (key, unit, at, limit) in highest {
            if let Some(at) = at.filter(|at| *at >= limit) {
                return Err(FaultsError(format!(
                    "{key}: no {unit} {at} on a chip of {limit} {unit}s"
                )));
            }
        }
        Ok(())
    }

    /// Whether a block that was never used is bad from the factory.
    pub(crate) fn is_factory_bad(&self, block: u32) -> bool {
        self.bad_rate
            .happens(&mut Rng::keyed(self.seed, u64::from(block)))
    }
}

/// Faults at work: the generator and what the weak ones have left.
#[derive(Clone, Debug)]
pub(crate) struct FaultState {
    pub faults: Faults,
    rng: Rng,
    weak_pages: HashMap<u32, u32>,
    weak_blocks: HashMap<u32, u32>,
    grave_pages: HashMap<u32, u32>,
    /// Blocks that have begun to fail.
    failing: u32,
}

/// Takes one operation from what a weak thing has left; true when nothing was left.
fn worn_out(left: &mut HashMap<u32, u32>, at: u32) -> bool {
    match left.get_mut(&at) {
        Some(0) => true,
        Some(n) => {
            *n -= 1;
            false
        }
        None => false,
    }
}

impl FaultState {
    pub fn new(faults: Faults) -> FaultState {
        let map = |list: &[Weak]| list.iter().map(|w| (w.at, w.good)).collect();
        FaultState {
            rng: Rng::keyed(faults.seed, u64::MAX),
            weak_pages: map(&faults.weak_pages),
            weak_blocks: map(&faults.weak_blocks),
            grave_pages: map(&faults.grave_pages),
            failing: 0,
            faults,
        }
    }

    /// Whether this program fails, in a block that has failed before or not.
    pub fn program_fails(&mut self, page: u32, failing: bool) -> bool {
        if let Some(weak) = self.faults.grave_pages.iter().find(|w| w.at == page) {
            self.grave_pages.insert(page, weak.good);
        }
        let fails =
            worn_out(&mut self.weak_pages, page) | self.faults.program_fail.happens(&mut self.rng);
        self.fails(fails, failing)
    }

    /// Whether this erase of a block erased `erase_count` times before fails, as above.
    pub fn erase_fails(&mut self, block: u32, erase_count: u32, failing: bool) -> bool {
        let old = self.faults.endurance != 0 && erase_count >= self.faults.endurance;
        let fails = old
            | worn_out(&mut self.weak_blocks, block)
            | self.faults.erase_fail.happens(&mut self.rng);
        self.fails(fails, failing)
    }

    /// Whether an operation fails that should by chance.
    fn fails(&mut self, by_chance: bool, failing: bool) -> bool {
        let max = self.faults.failing_max;
        if failing {
            self.faults.fail_again == Rate(1) || self.faults.fail_again.happens(&mut self.rng)
        } else if by_chance && (max == 0 || self.failing < max) {
            self.failing += 1;
            true
        } else {
            false
        }
    }

    /// How a read of a programmed page ends. `block_reads` counts the reads of the block since its
    /// erase, this one included.
    pub fn read(&mut self, page: u32, block_reads: u32, age_ns: u64) -> ReadStatus {
        let f = &self.faults;
        let mut flips = u64::from(block_reads)
            .checked_div(u64::from(f.read_disturb))
            .unwrap_or(0);
        flips += age_ns.checked_div(f.retention_ns).unwrap_or(0);
        if f.bitflips > 0 && f.bitflip_rate.happens(&mut self.rng) {
            flips += 1 + self.rng.below(u64::from(f.bitflips));
        }
        let lost = f.uncorrectable.happens(&mut self.rng) | worn_out(&mut self.grave_pages, page);
        if lost || flips > u64::from(f.ecc) {
            ReadStatus::Uncorrectable
        } else if flips > 0 {
            ReadStatus::Corrected(flips as u32)
        } else {
            ReadStatus::Clean
        }
    }

    /// A seed for one random outcome.
    pub fn seed(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

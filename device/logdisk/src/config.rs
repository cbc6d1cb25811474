//! What a disk is, and how it cleans.

/// How the segment to be cleaned is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The fewest valid blocks (paper, 2.8). The floor for uniform writes.
    Greedy,
    /// The greatest age x (1 - u) / 2u, with u the share of valid blocks and the age since the
    /// segment's last invalidation (paper, 2.8).
    CostBenefit,
    /// Cost-benefit with the age of the data: a segment that the cleaner fills is as old as what it
    /// took over, one that the host fills as its last write.
    CostBenefitData,
    /// [`Victim::CostBenefitData`], divided by the erases that the segment has seen more than the
    /// least worn one (Chiang, Lee, Chang 1999).
    CostAgeTimes,
}

/// Which blocks share a segment with the host's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separate {
    /// All: one open segment (paper, 2.7).
    No,
    /// Blocks from victims that are not cold. Cold is a victim less utilised than the disk is on
    /// average; its blocks go to a segment of their own (paper, 3.4).
    Cold,
    /// None that the cleaner moves.
    Cleaner,
    /// Blocks from victims whose data is young: since it was written the host has written less than
    /// 7/4 of what the disk has room for beside its data. Needs the disk's own clock.
    Aged,
}

/// When cleaning starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Below so many free segments, of segments whose account is above a threshold that falls with
    /// the free segments (paper, 2.8 and Figure 4).
    Threshold {
        /// N.
        segments: u16,
        /// Th: invalid blocks for the greedy policy, the policy's own value for the others.
        account: u32,
        /// How the threshold falls: account x (1 - (1 - free / N) ^ curve). 1 is a straight line.
        curve: u8,
    },
    /// Below so many free segments, whatever can be gained. 0: only once a write finds no room.
    Reserve {
        /// Segments.
        segments: u16,
    },
}

/// All that is fixed at format time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a sector and of a block: a power of two from 512 to 65,536.
    pub sector_size: u32,
    /// Sectors of the disk, 1 to 16,777,215.
    pub sectors: u32,
}

/// Choices of a mount. None of them changes what is on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The victim policy.
    pub victim: Victim,
    /// Looks at so many segments drawn by chance instead of at all; 0: at all.
    pub choices: u8,
    /// Segments written at the same time.
    pub separate: Separate,
    /// When to clean.
    pub start: Start,
    /// Segments that may be partly written at once, at least as many as [`Config::separate`] needs.
    /// When a bank under erase holds one of them, another is begun in another bank only below this
    /// limit; else the write waits.
    pub open_max: u8,
    /// Banks that may erase at once, at least 1.
    pub erasing_max: u8,
    /// Bounded latency, unless 0: a sector written moves at most so many blocks, and neither writes
    /// nor trims wait for an erase. What would have to is refused with [`crate::Error::Busy`].
    ///
    /// Below [`Start::Reserve`] each sector written pays for cleaning: v / (b - v) blocks, rounded
    /// up, of a victim with v of its b blocks valid, and twice as many when more than one
    /// segment is missing. No fuller victim is taken than this many pay for.
    /// [`Config::queue`] says how many sectors can be written during an erase: a bank erases
    /// only while others have room for as many.
    pub moves_max: u16,
    /// Moves the data of a segment that has been erased so many times less than another; 0: never
    /// (the paper has no wear levelling).
    pub wear_gap: u32,
    /// Ages are measured with [`crate::LogDisk::set_clock`], in units of the caller's choice,
    /// and not in sectors written.
    pub caller_clock: bool,
    /// Pairs of blocks in the flag update queue (paper, 2.4: 600), at least 1.
    pub queue: u16,
}

impl Config {
    /// The paper's driver: one segment cleaned at a time, the greedy policy, N = 12, Th = 455.
    pub const fn paper() -> Config {
        Config {
            victim: Victim::Greedy,
            choices: 0,
            separate: Separate::No,
            start: Start::Threshold {
                segments: 12,
                account: 455,
                curve: 1,
            },
            open_max: u8::MAX,
            erasing_max: 1,
            moves_max: 0,
            wear_gap: 0,
            caller_clock: false,
            queue: 600,
        }
    }

    /// The least copying that we know of for writes that differ in how often they come.
    pub const fn new() -> Config {
        Config {
            victim: Victim::CostBenefitData,
            choices: 0,
            separate: Separate::Aged,
            start: Start::Reserve { segments: 0 },
            open_max: 2,
            erasing_max: 1,
            moves_max: 0,
            wear_gap: 0,
            caller_clock: false,
            queue: 600,
        }
    }

    /// Bounded latency on a chip like `nor-16m`, for data up to 80 % of its blocks: a victim of
    /// average utilisation needs 14 moves there, and as many more are for catching up.
    pub const fn bounded() -> Config {
        Config {
            start: Start::Reserve { segments: 5 },
            moves_max: 28,
            erasing_max: 3,
            open_max: 9,
            queue: 800,
            ..Config::new()
        }
    }

    pub(crate) const fn is_bounded(&self) -> bool {
        self.moves_max > 0
    }

    /// Open segments that the placement itself needs.
    pub(crate) const fn frontiers(&self) -> u32 {
        match self.separate {
            Separate::No => 1,
            Separate::Cold | Separate::Cleaner | Separate::Aged => 2,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

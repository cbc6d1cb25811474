//! What a file system costs its chip.

use crate::{FileSystem, Result};

/// What a file system has cost its chip since the chip was made or opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCost {
    /// Reads of page data.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Programs.
    pub page_programs: u64,
    /// Erases.
    pub block_erases: u64,
    /// Flash time, in nanoseconds of the virtual clock.
    pub flash_ns: u64,
}

impl From<flashkit_meter::Counters> for FlashCost {
    fn from(counters: flashkit_meter::Counters) -> FlashCost {
        FlashCost {
            page_reads: counters.page_reads,
            spare_reads: counters.spare_reads,
            page_programs: counters.page_programs,
            block_erases: counters.block_erases,
            flash_ns: counters.time_ns,
        }
    }
}

impl std::ops::Add for FlashCost {
    type Output = FlashCost;

    fn add(self, more: FlashCost) -> FlashCost {
        FlashCost {
            page_reads: self.page_reads + more.page_reads,
            spare_reads: self.spare_reads + more.spare_reads,
            page_programs: self.page_programs + more.page_programs,
            block_erases: self.block_erases + more.block_erases,
            flash_ns: self.flash_ns + more.flash_ns,
        }
    }
}

impl std::ops::Sub for FlashCost {
    type Output = FlashCost;

    fn sub(self, before: FlashCost) -> FlashCost {
        FlashCost {
            page_reads: self.page_reads - before.page_reads,
            spare_reads: self.spare_reads - before.spare_reads,
            page_programs: self.page_programs - before.page_programs,
            block_erases: self.block_erases - before.block_erases,
            flash_ns: self.flash_ns - before.flash_ns,
        }
    }
}

/// A file system that tells what it costs, for replays, benchmarks and reports.
pub trait Measured: FileSystem {
    /// What has been done to the chip so far. Zero where there is no chip.
    fn cost(&self) -> FlashCost {
        FlashCost::default()
    }

    /// Erase count of each block. Empty where there is no chip.
    fn erase_counts(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Pages programmed so far by what they were for. Empty where that is not counted.
    fn programs(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Bytes of a page of the chip; 0 where there is none.
    fn page_bytes(&self) -> u32 {
        0
    }

    /// RAM of the file system proper, in bytes: what was handed to it. 0 where that is unknown.
    fn ram_bytes(&self) -> usize {
        0
    }

    /// Lets flash time pass without work. Does nothing where there is no chip.
    fn idle(&mut self, ms: u64) -> Result<()> {
        let _ = ms;
        Ok(())
    }
}

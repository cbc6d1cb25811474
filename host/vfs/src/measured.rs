//! What a file system costs its chip.

use crate::{FileSystem, Result};
use flashkit_meter::Counters;

/// A file system that tells what it costs, for replays, benchmarks and reports.
pub trait Measured: FileSystem {
    /// What has been done to the chip so far. Zero where there is no chip.
    fn cost(&self) -> Counters {
        Counters::default()
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

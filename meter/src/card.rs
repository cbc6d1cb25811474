//! What a card has been asked to do, and how long that takes.

use flashkit_block::BlockDevice;

/// What a card has been asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardCounters {
    /// Read commands.
    pub reads: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Write commands.
    pub writes: u64,
    /// Blocks written.
    pub blocks_written: u64,
    /// Trim commands.
    pub trims: u64,
    /// Blocks trimmed.
    pub blocks_trimmed: u64,
    /// Flushes.
    pub flushes: u64,
    /// Virtual time.
    pub time_ns: u64,
}

/// A card that tells what it has been asked to do.
pub trait MeteredCard: BlockDevice {
    /// What it has been asked to do so far.
    fn counters(&self) -> CardCounters;

    /// Lets time pass.
    fn idle(&mut self, ns: u64);
}

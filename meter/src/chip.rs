//! What a chip has been asked to do, and how long that takes.

use alloc::vec::Vec;

/// Operations of a chip since it was made, opened or cleared. Not persistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Reads of page data, with or without the spare bytes.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Programs, failed and torn ones included.
    pub page_programs: u64,
    /// Copies of pages that the chip has made by itself, failed and torn ones included. They are
    /// neither among the reads nor among the programs.
    pub page_copies: u64,
    /// Erases, failed and torn ones included.
    pub block_erases: u64,
    /// Virtual time in nanoseconds: all operations one after another, and
    /// [idle](Metered::idle) time.
    pub time_ns: u64,
    /// Of [`Counters::time_ns`] what the bus took; the rest is the array's, and idle. 0 where the
    /// bus is not counted.
    pub bus_ns: u64,
    /// Bytes over the bus in both directions, commands included.
    pub bus_bytes: u64,
}

impl core::ops::Sub for Counters {
    type Output = Counters;

    /// The cost between two readings; `before` must be the earlier one.
    fn sub(self, before: Counters) -> Counters {
        Counters {
            page_reads: self.page_reads - before.page_reads,
            spare_reads: self.spare_reads - before.spare_reads,
            page_programs: self.page_programs - before.page_programs,
            page_copies: self.page_copies - before.page_copies,
            block_erases: self.block_erases - before.block_erases,
            time_ns: self.time_ns - before.time_ns,
            bus_ns: self.bus_ns - before.bus_ns,
            bus_bytes: self.bus_bytes - before.bus_bytes,
        }
    }
}

impl core::ops::Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            page_reads: self.page_reads + other.page_reads,
            spare_reads: self.spare_reads + other.spare_reads,
            page_programs: self.page_programs + other.page_programs,
            page_copies: self.page_copies + other.page_copies,
            block_erases: self.block_erases + other.block_erases,
            time_ns: self.time_ns + other.time_ns,
            bus_ns: self.bus_ns + other.bus_ns,
            bus_bytes: self.bus_bytes + other.bus_bytes,
        }
    }
}

/// A chip, or a wrapper of one, that counts.
pub trait Metered {
    /// Operations so far. Costs nothing.
    fn counters(&self) -> Counters;

    /// Erases of each block, one number a block.
    fn erase_counts(&self) -> Vec<u32>;

    /// Lets this much virtual time pass with the chip idle.
    fn idle(&mut self, ns: u64);
}

impl<N: Metered + ?Sized> Metered for &mut N {
    fn counters(&self) -> Counters {
        (**self).counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        (**self).erase_counts()
    }

    fn idle(&mut self, ns: u64) {
        (**self).idle(ns);
    }
}

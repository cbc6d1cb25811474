//! The virtual time of a bus, and what goes over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use embedded_hal::delay::DelayNs;

/// What has gone over a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCount {
    /// Transactions: times that the chip was selected.
    pub transactions: u64,
    /// Bytes, in both directions, those of polling included.
    pub bytes: u64,
    /// Of them page and spare bytes.
    pub data_bytes: u64,
    /// How long the bus was clocked, in picoseconds.
    pub bus_ps: u64,
}

impl core::ops::Sub for BusCount {
    type Output = BusCount;

    /// What is between two readings; `before` must be the earlier one.
    fn sub(self, before: BusCount) -> BusCount {
        BusCount {
            transactions: self.transactions - before.transactions,
            bytes: self.bytes - before.bytes,
            data_bytes: self.data_bytes - before.data_bytes,
            bus_ps: self.bus_ps - before.bus_ps,
        }
    }
}

/// A delay on the virtual clock of a simulated chip.
#[derive(Clone, Debug)]
pub struct SpiDelay {
    now_ps: Arc<AtomicU64>,
}

impl SpiDelay {
    pub(crate) fn new() -> SpiDelay {
        SpiDelay {
            now_ps: Arc::new(AtomicU64::new(0)),
        }
    }

    pub(crate) fn now_ps(&self) -> u64 {
        self.now_ps.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self, ps: u64) {
        self.now_ps.fetch_add(ps, Ordering::Relaxed);
    }
}

impl DelayNs for SpiDelay {
    fn delay_ns(&mut self, ns: u32) {
        self.pass(u64::from(ns) * 1_000);
    }
}

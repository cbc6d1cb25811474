//! The figures of a replay, in the shape that `flashkit replay --json` prints.

use flashkit_vfs::Counters;
use serde::{Deserialize, Serialize};

/// What a replay cost.
///
/// Formatting and mounting come before the first phase and are not counted; unmounting is counted
/// in `total`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the file system.
    pub fs: String,
    /// Name of the chip, if there is one.
    pub chip: Option<String>,
    /// RAM of the file system proper, in bytes; 0 where unknown.
    pub ram_bytes: usize,
    /// Bytes in one read or write.
    pub request: usize,
    /// Whether every writing operation ended in an fsync.
    pub fsync: bool,
    /// One for each phase that the trace names, and `rest` when operations follow the last.
    pub phases: Vec<Phase>,
    /// The whole run; its name is `total`.
    pub total: Phase,
    /// Where it was stopped by its limit of flash time, if it was. The last of `phases` is
    /// the part that was done then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stopped: Option<Stopped>,
    /// What mounting again took. Zero until the caller, who has the chip, fills it in.
    pub remount: Remount,
}

/// How far a replay came within its limit of flash time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The phase.
    pub phase: String,
    /// Operations of that phase that were done.
    pub ops: u64,
    /// Operations that it has.
    pub of: u64,
}

/// One phase of a replay. Where there is no chip, all flash figures are 0 and latencies are time
/// on the wall.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// As the trace names it.
    pub name: String,
    /// Operations: lines other than `I`, `M` and `P`.
    pub ops: u64,
    /// Bytes that the operations wrote and read.
    pub user_bytes: u64,
    /// Reads of page data.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Programs.
    pub page_programs: u64,
    /// Copies of pages inside the chip: neither reads nor programs.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub page_copies: u64,
    /// Erases.
    pub block_erases: u64,
    /// Flash time in microseconds, without idle time.
    pub flash_us: u64,
    /// Of the flash time what the bus took, and what the array took, and the bytes over the bus;
    /// where the bus of the chip is counted.
    #[serde(skip_serializing_if = "Option::is_none", default, flatten)]
    pub bus: Option<BusFigures>,
    /// Energy of the chip's operations in microjoules, where it is known what
    /// they draw: [`Report::price`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub energy_uj: Option<u64>,
    /// CPU time of this process in microseconds, the simulator's and the verification of reads
    /// included.
    pub cpu_us: u64,
    /// Flash time of single operations. What happens between them is in `flash_us` alone: the sync
    /// at the end of a phase, and what a kernel does in the background.
    pub latency_us: Latency,
    /// Time on the wall of single operations, the simulator's included.
    #[serde(default)]
    pub host_us: Latency,
    /// Erase counts of the chip's blocks at the end of the phase.
    pub erase_count: EraseCount,
    /// Erases of the chip's blocks in this phase.
    #[serde(default)]
    pub erases: EraseCount,
    /// `page_programs` by what they were for. Metadata that cleaning has moved is among its kind.
    /// Empty where that is not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Purpose>,
    /// Bytes programmed, data of whole pages, for each byte that the operations wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
}

/// Flash time apart: array and bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusFigures {
    /// Time of the array in microseconds, without idle time.
    pub array_us: u64,
    /// Time of the bus in microseconds.
    pub bus_us: u64,
    /// Bytes over the bus in both directions, commands included.
    pub bus_bytes: u64,
}

impl BusFigures {
    /// Of what was counted, less `idle_ns`. `None` where no byte was.
    pub fn of(cost: Counters, idle_ns: u64) -> Option<BusFigures> {
        (cost.bus_bytes > 0).then(|| BusFigures {
            array_us: micros(cost.time_ns - idle_ns - cost.bus_ns),
            bus_us: micros(cost.bus_ns),
            bus_bytes: cost.bus_bytes,
        })
    }
}

/// Pages programmed for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purpose {
    /// What for.
    pub purpose: String,
    /// How many.
    pub pages: u64,
}

/// Mean and percentiles of the time of one operation, in microseconds to one decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Over all operations.
    #[serde(default)]
    pub mean: f64,
    /// Half of the operations took at most this.
    pub p50: f64,
    /// 99 % took at most this.
    pub p99: f64,
    /// 99.9 % took at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// How evenly the blocks are worn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EraseCount {
    /// The least worn block.
    pub min: u32,
    /// The most worn block.
    pub max: u32,
    /// Over all blocks.
    pub mean: f64,
    /// Of the whole population of blocks.
    pub stddev: f64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What mounting again took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remount {
    /// Reads of page data.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Flash time in microseconds.
    pub flash_us: u64,
    /// That apart, as in [`Phase::bus`].
    #[serde(skip_serializing_if = "Option::is_none", default, flatten)]
    pub bus: Option<BusFigures>,
}

impl From<Counters> for Remount {
    fn from(cost: Counters) -> Remount {
        Remount {
            page_reads: cost.page_reads,
            spare_reads: cost.spare_reads,
            flash_us: micros(cost.time_ns),
            bus: BusFigures::of(cost, 0),
        }
    }
}

impl Report {
    /// Fills in energy. `uj` has that of so many reads, programs and erases, in microjoules.
    pub fn price(&mut self, uj: impl Fn(u64, u64, u64) -> Option<u64>) {
        for phase in self.phases.iter_mut().chain([&mut self.total]) {
            let reads = phase.page_reads + phase.spare_reads + phase.page_copies;
            let programs = phase.page_programs + phase.page_copies;
            phase.energy_uj = uj(reads, programs, phase.block_erases);
        }
    }
}

/// Nanoseconds as microseconds, rounded.
pub(crate) fn micros(ns: u64) -> u64 {
    ns / 1000 + u64::from(ns % 1000 >= 500)
}

impl Latency {
    /// Exact percentiles by the nearest rank of latencies in nanoseconds, which are sorted.
    pub fn of(ns: &mut [u64]) -> Latency {
        ns.sort_unstable();
        let at = |per_mille: usize| {
            let rank = (ns.len() * per_mille).div_ceil(1000).max(1);
            ns.get(rank - 1)
                .map_or(0.0, |ns| micros(*ns * 10) as f64 / 10.0)
        };
        let sum: u128 = ns.iter().map(|ns| u128::from(*ns)).sum();
        let mean = sum as f64 / ns.len().max(1) as f64;
        Latency {
            mean: (mean / 100.0).round() / 10.0,
            p50: at(500),
            p99: at(990),
            p999: at(999),
            max: at(1000),
        }
    }
}

impl EraseCount {
    /// Of the erase counts of all blocks.
    pub fn of(counts: &[u32]) -> EraseCount {
        if counts.is_empty() {
            return EraseCount::default();
        }
        let n = counts.len() as f64;
        let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / n;
        let squares = counts
            .iter()
            .map(|count| (f64::from(*count) - mean).powi(2))
            .sum::<f64>();
        EraseCount {
            min: counts.iter().copied().min().unwrap_or(0),
            max: counts.iter().copied().max().unwrap_or(0),
            mean,
            stddev: (squares / n).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut ns: Vec<u64> = (1..=1000).rev().map(|us| us * 1000).collect();
        let latency = Latency::of(&mut ns);
        assert_eq!((latency.p50, latency.p99), (500.0, 990.0));
        assert_eq!(latency.mean, 500.5);
        assert_eq!((latency.p999, latency.max), (999.0, 1000.0));
        assert_eq!(Latency::of(&mut [77_840]).p50, 77.8);
        assert_eq!(Latency::of(&mut []), Latency::default());
    }

    #[test]
    fn every_phase_is_priced_and_what_is_unknown_left_out() {
        let phase = Phase {
            page_reads: 1,
            spare_reads: 2,
            page_copies: 0,
            page_programs: 10,
            block_erases: 100,
            ..Phase::default()
        };
        let mut report = Report {
            phases: vec![phase.clone()],
            total: phase,
            ..Report::default()
        };
        report.price(|reads, programs, erases| Some(reads + programs + erases));
        assert_eq!(report.phases[0].energy_uj, Some(113));
        assert_eq!(report.total.energy_uj, Some(113));
        report.price(|_, _, _| None);
        let text = serde_json::to_string(&report).unwrap();
        assert!(!text.contains("energy"), "{text}");
    }

    #[test]
    fn erase_counts_are_summed_up() {
        let count = EraseCount::of(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert_eq!(
            (count.min, count.max, count.mean, count.stddev),
            (2, 9, 5.0, 2.0)
        );
        assert_eq!(EraseCount::of(&[]), EraseCount::default());
    }
}

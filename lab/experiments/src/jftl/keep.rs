//! Results, as a folder keeps them.

use flashkit_sim::preset;
use serde::{Deserialize, Serialize};

use super::plan::Piece;
use super::rig::{CHIP, Cost};
use super::tally::Tally;
use crate::study::Made;

/// What identifies the code that these results are made by.
pub fn code() -> String {
    crate::code::of(&["workload", "jftl", "lab-jftl"])
}

/// What one layer did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Reads of pages.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Programs.
    pub page_programs: u64,
    /// Erases.
    pub block_erases: u64,
    /// Time of these operations, without what the chip waited.
    pub busy_ns: u64,
    /// Sectors that were mapped instead of being programmed.
    pub elided: u64,
    /// Sectors of the journal.
    pub journal_sectors: u64,
    /// Of these, sectors that were mapped to the page of an older copy.
    #[serde(default)]
    pub unchanged: u64,
    /// Of these, sectors that were packed.
    #[serde(default)]
    pub packed: u64,
    /// Pages of such sectors.
    #[serde(default)]
    pub packed_pages: u64,
    /// Sectors of zeros, which take no page.
    #[serde(default)]
    pub zeros: u64,
    /// Pages of the log.
    #[serde(default)]
    pub log_pages: u64,
    /// Pages of the map.
    #[serde(default)]
    pub map_pages: u64,
    /// Pages that cleaning moved.
    pub copies: u64,
    /// MB/s that the benchmark's programs have seen, where it runs for a time and says so itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
}

impl Ran {
    /// Of the cost between two moments.
    pub fn between(before: &Cost, after: &Cost, rate: Option<f64>) -> Ran {
        let did = after.counters - before.counters;
        let reads = did.page_reads + did.spare_reads;
        let busy_ns = preset(CHIP).map_or(0, |chip| {
            (chip.timing).total_ns(reads, did.page_programs, did.block_erases)
        });
        Ran {
            page_reads: did.page_reads,
            spare_reads: did.spare_reads,
            page_programs: did.page_programs,
            block_erases: did.block_erases,
            busy_ns,
            elided: after.stats.elided - before.stats.elided,
            journal_sectors: after.stats.journal_sectors - before.stats.journal_sectors,
            unchanged: after.stats.unchanged - before.stats.unchanged,
            packed: after.stats.packed - before.stats.packed,
            packed_pages: after.stats.packed_pages - before.stats.packed_pages,
            zeros: after.stats.zeros - before.stats.zeros,
            log_pages: after.stats.log_pages - before.stats.log_pages,
            map_pages: after.stats.map_pages - before.stats.map_pages,
            copies: after.stats.copies - before.stats.copies,
            rate,
        }
    }

    /// Seconds of the chip's operations.
    pub fn busy_s(&self) -> f64 {
        self.busy_ns as f64 / 1e9
    }
}

/// A benchmark in one mode on both layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// [`Piece::id`].
    pub id: String,
    /// The chip.
    pub chip: String,
    /// Without remapping.
    pub page: Ran,
    /// With remapping.
    pub jftl: Ran,
    /// With remapping, asked word by word for what the kernel asked of the first; none, if `jftl`
    /// is that. Two runs of a kernel differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub again: Option<Ran>,
    /// The same with remapping and no more: no sums, no packing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub alone: Option<Ran>,
    /// What was done, where the machine decides it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub input: String,
    /// What the kernel wrote on the second, in sectors.
    pub tally: Tally,
    /// Where and with what.
    pub made: Made,
}

impl Measured {
    /// Of a piece, here and now.
    pub fn new(
        piece: &Piece,
        [page, jftl]: [Ran; 2],
        again: Option<Ran>,
        tally: Tally,
    ) -> Measured {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        let kernel = release.map_or("unknown".into(), |text| text.trim().to_owned());
        Measured {
            id: piece.id(),
            chip: CHIP.into(),
            page,
            jftl,
            again,
            alone: None,
            input: String::new(),
            tally,
            made: Made::here(Some(kernel)).by(code()),
        }
    }
}

impl Measured {
    /// With what remapping alone has cost.
    #[must_use]
    pub fn with_alone(self, alone: Ran) -> Measured {
        Measured {
            alone: Some(alone),
            ..self
        }
    }

    /// Work of the benchmark for each second of a layer, in units that are the same for
    /// all modes and both layers.
    pub fn speed(&self, remaps: bool) -> f64 {
        let [page, jftl] = [&self.page, &self.jftl].map(Ran::busy_s);
        match (self.page.rate, remaps) {
            (Some(rate), false) => rate,
            // The same was asked of both, and took so long.
            (Some(rate), true) => rate * page / jftl,
            (None, false) => 1.0 / page,
            (None, true) => 1.0 / jftl,
        }
    }
}

/// A mount after a crash: flash time in ns, and the recovery's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The layer's own mount.
    pub mount_ns: u64,
    /// The file system's recovery.
    pub recovery_ns: u64,
    /// Programs of the recovery.
    pub programs: u64,
}

/// Table II.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mounts {
    /// Without remapping.
    pub plain: Recovery,
    /// With it, on a stock kernel.
    pub hints: Recovery,
    /// Through the paper's interface.
    pub explicit: Recovery,
    /// Mounts at 80 %, in ns: after an orderly end, and after a cut.
    pub orderly_ns: u64,
    /// After a cut.
    pub cut_ns: u64,
    /// Where and with what.
    #[serde(default)]
    pub made: Made,
}

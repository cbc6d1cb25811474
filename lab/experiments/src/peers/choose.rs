//! Which file system for which load and chip, from what was measured.
//!
//! All is measured on one chip. What a file system does on another of the same geometry is the
//! same, operation by operation; what that takes follows from the other chip's latencies and bus.

use flashkit_sim::{DEFAULT_PRESET, Preset, preset, presets};
use flashkit_workload::Phase;

use super::{LOADS, Set, TRACES};
use crate::study::{Outcome, System};

/// A load, and what it costs on each file system that was measured.
pub struct Choice {
    /// The load, in words.
    pub load: &'static str,
    counted: Vec<(System, Phase)>,
    /// One operation is the whole of a file.
    is_whole: bool,
}

/// What a load takes on a file system.
pub struct Taken {
    /// The file system.
    pub system: System,
    /// Seconds of flash time.
    pub seconds: f64,
    /// Milliseconds of the longest operation, where that was measured.
    pub longest_ms: Option<f64>,
}

impl Choice {
    /// What it takes on a chip of [`chips`], the fastest first.
    pub fn ranked(&self, chip: &Preset) -> Vec<Taken> {
        let is_measured = chip.name == DEFAULT_PRESET;
        let taken = |(system, phase): &(System, Phase)| Taken {
            system: *system,
            seconds: match is_measured {
                true => phase.flash_us as f64 / 1e6,
                false => seconds(phase, chip),
            },
            longest_ms: (is_measured && !self.is_whole).then_some(phase.latency_us.max / 1e3),
        };
        let mut all: Vec<_> = self.counted.iter().map(taken).collect();
        all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        all
    }
}

/// Chips on which what was counted holds: those of the geometry of the one that was measured on,
/// that one first.
pub fn chips() -> Vec<&'static Preset> {
    let Some(measured) = preset(DEFAULT_PRESET) else {
        return Vec::new();
    };
    let geometry = |chip: &Preset| (chip.page_size, chip.pages_per_block, chip.blocks);
    let others = presets()
        .iter()
        .filter(|chip| chip.name != measured.name && geometry(chip) == geometry(measured));
    [measured].into_iter().chain(others).collect()
}

/// Seconds that the operations of a phase take on a chip. Over a bus goes the whole of each page
/// that is read or programmed: how much of it was asked for is not counted.
fn seconds(phase: &Phase, chip: &Preset) -> f64 {
    let reads = phase.page_reads + phase.spare_reads;
    let array = chip
        .timing
        .total_ns(reads, phase.page_programs, phase.block_erases) as f64;
    let bus = chip.bus.map_or(0.0, |bus| {
        let bits = f64::from(8 * (chip.page_size + chip.raw_spare));
        let page_ns = bits * 1e3 / f64::from(bus.speed.mhz * bus.speed.lanes);
        (phase.page_reads + phase.page_programs) as f64 * page_ns
    });
    (array + bus) / 1e9
}

/// What traces and loads are like, in the words of somebody who has one.
const WORDS: [(&str, &str); 17] = [
    ("append", "a log: short records appended, each synced"),
    (
        "config",
        "settings: small files replaced by a rename, each synced",
    ),
    (
        "small",
        "many small files, made and rewritten, each write synced",
    ),
    ("randupd", "a database file: 4 KiB at random, each synced"),
    ("randupd75", "the same, on a chip three quarters full"),
    ("sqlite", "SQLite: inserts by its rollback journal"),
    ("sensor", "a sensor's readings, a record at a time"),
    ("mail", "mails in 40 directories, each synced"),
    ("tree", "deep directories, each change synced"),
    (
        "cache",
        "a cache of files that come and go, 80 % full, each synced",
    ),
    (
        "postmark",
        "small files that come and go by the thousand, each synced",
    ),
    ("varmail", "a mail server, synced as it does"),
    ("seq", "one large file, written once"),
    ("fileserver", "a file server, nothing synced"),
    ("webserver", "a web server: reads, and a log"),
    ("dbench", "clients of a file server"),
    ("compile", "a compiler's run, nothing synced"),
];

/// All loads of which two file systems or more were measured.
pub fn choices(outcomes: &[Outcome]) -> Vec<Choice> {
    let mut found = Vec::new();
    for (name, load) in WORDS {
        let of = |set: &'static Set| counted(set, name, outcomes);
        if let Some(counted) = of(&TRACES).or_else(|| of(&LOADS)) {
            found.push(Choice {
                load,
                counted,
                is_whole: name == "seq",
            });
        }
    }
    found
}

fn counted(set: &Set, name: &str, outcomes: &[Outcome]) -> Option<Vec<(System, Phase)>> {
    let run = set.runs.iter().find(|run| run.name == name)?;
    let of = |system: &System| {
        let id = set.id(run, *system);
        let phase = run.phase(outcomes.iter().find(|held| held.case == id)?)?;
        Some((*system, phase.clone()))
    };
    let counted: Vec<_> = set.systems.iter().filter_map(of).collect();
    (counted.len() >= 2).then_some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Results;
    use crate::study::Case;
    use crate::{Scale, studies};

    fn kept() -> Vec<Choice> {
        let results = Results::kept(None).unwrap();
        let cases: Vec<Case> = studies()
            .iter()
            .filter(|study| matches!(study.name, "peers" | "loads"))
            .flat_map(|study| (study.cases)(Scale::Full))
            .collect();
        choices(&results.load_all(&cases).unwrap())
    }

    /// What is computed for another chip is, for the one that was measured on, what was measured.
    #[test]
    fn counts_at_latencies_are_the_time_that_was_measured() {
        let chip = preset(DEFAULT_PRESET).unwrap();
        let mut seen = 0;
        for choice in kept() {
            for (system, phase) in &choice.counted {
                let (found, measured) = (seconds(phase, chip), phase.flash_us as f64 / 1e6);
                let off = (found / measured - 1.0).abs();
                assert!(off < 1e-4, "{} {system:?}: {found} {measured}", choice.load);
                seen += 1;
            }
        }
        assert_eq!(seen, 121);
    }

    #[test]
    fn chips_of_one_geometry_are_ranked_by_their_own_times() {
        let names: Vec<_> = chips().iter().map(|chip| chip.name).collect();
        assert_eq!(names, ["slc-256m", "micron-256m", "w25n02kv", "gd5f2gm7ue"]);
        for choice in kept() {
            for chip in chips() {
                let ranked = choice.ranked(chip);
                assert_eq!(ranked.len(), choice.counted.len());
                assert!(ranked.is_sorted_by(|a, b| a.seconds <= b.seconds));
                // Waits are known where they were measured.
                let waits = ranked.iter().filter(|taken| taken.longest_ms.is_some());
                let known = chip.name == DEFAULT_PRESET && !choice.is_whole;
                assert_eq!(waits.count(), if known { ranked.len() } else { 0 });
            }
        }
    }
}

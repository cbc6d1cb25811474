//! The papers' experiments: one module per paper, and what they have in common.

pub mod code;
pub mod inside;
pub mod jftl;
pub mod kept;
pub mod logdisk;
pub mod micro;
pub mod nanofs;
pub mod page;
mod parts;
pub mod peers;
pub mod picture;
pub mod report;
mod rig;
pub mod study;

use std::path::Path;

use inside::INSIDE;
use kept::{Marks, Results};
use nanofs::lab::NANOFS;
use report::Report;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As the paper did.
    Full,
    /// Enough to see that it works, in seconds.
    Quick,
}

/// Which tables and figures of an experiment are wanted: those whose titles contain one of these,
/// small or capital letters alike; all, if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Only<'a>(pub &'a [String]);

impl Only<'_> {
    /// Whether a title is among them.
    pub fn takes(&self, title: &str) -> bool {
        let title = title.to_lowercase();
        self.0.is_empty()
            || self
                .0
                .iter()
                .any(|only| title.contains(&only.to_lowercase()))
    }
}

/// Runs an experiment, or what is asked for of it; tells how many pieces are done. Results are kept
/// in the folder that is named, and what is there is not run again.
pub type Run = fn(Scale, Only<'_>, &Path, &(dyn Fn(u64) + Sync)) -> anyhow::Result<Report>;

/// The results that there are of an experiment.
pub struct Kept {
    /// What they say.
    pub report: Report,
    /// Each measurement on two layers.
    pub measured: Vec<jftl::Measured>,
    /// How many results there are.
    pub count: usize,
    /// How many there are when all is run.
    pub all: usize,
    /// Where they are from.
    pub marks: Marks,
    /// Where and with what they were made.
    pub made: Vec<study::Made>,
}

/// Looks for results of an experiment.
pub type Look = fn(&Results) -> anyhow::Result<Option<Kept>>;

/// An experiment that `flashkit lab` runs.
pub struct Experiment {
    /// How it is called.
    pub name: &'static str,
    /// What it measures, in one line.
    pub what: &'static str,
    /// The paper.
    pub source: &'static str,
    /// Pieces of work of about the same length.
    pub pieces: fn(Scale) -> u64,
    /// Runs it; tells how many pieces are done.
    pub run: Run,
    /// The results that there are of it.
    pub kept: Look,
}

/// A study that `flashkit lab` runs: many cases, each with a result of its own.
pub struct Study {
    /// How it is called.
    pub name: &'static str,
    /// What it measures, in one line.
    pub what: &'static str,
    /// The paper.
    pub source: &'static str,
    /// Its cases.
    pub cases: fn(Scale) -> Vec<study::Case>,
    /// What the results say, as far as there are any.
    pub report: fn(&[study::Outcome]) -> Report,
}

/// All studies.
pub fn studies() -> &'static [Study] {
    &[
        Study {
            name: "micro",
            what: "wear levelling and garbage collection under controlled initial state, as the paper of 2012",
            source: micro::SOURCE,
            cases: micro::cases,
            report: micro::report,
        },
        Study {
            name: "uflip",
            what: "the nine micro-benchmarks of uFLIP on a dirty partition",
            source: micro::UFLIP,
            cases: micro::uflip_cases,
            report: micro::uflip_report,
        },
        Study {
            name: "peers",
            what: peers::WHAT,
            source: peers::SOURCE,
            cases: peers::cases,
            report: peers::report,
        },
        Study {
            name: "loads",
            what: peers::LOADS_WHAT,
            source: peers::LOADS_SOURCE,
            cases: peers::load_cases,
            report: peers::load_report,
        },
        Study {
            name: "flashlight",
            what: peers::PAPER_WHAT,
            source: peers::PAPER_SOURCE,
            cases: peers::paper_cases,
            report: peers::paper_report,
        },
    ]
}

/// All experiments.
pub fn experiments() -> &'static [Experiment] {
    &[
        Experiment {
            name: "logdisk",
            what: "write loads on the 1995 flash disk: its tables and figures, and the policies since",
            source: logdisk::paper::SOURCE,
            pieces: logdisk::lab::pieces,
            run: logdisk::lab::run,
            kept: logdisk::lab::kept,
        },
        Experiment {
            name: "jftl",
            what: "a real ext3 with its journal written once and twice: benchmarks, recovery",
            source: jftl::SOURCE,
            pieces: jftl::lab::pieces,
            run: jftl::lab::run,
            kept: jftl::lab::kept,
        },
        Experiment {
            name: "nanofs",
            what: "Nano-FS on a card of class 4: mounts, throughput, kinds of lists, collector",
            source: nanofs::SOURCE,
            pieces: |_| NANOFS.pieces(),
            run: |scale, only, results, done| NANOFS.run(scale, only, results, done),
            kept: |results| NANOFS.kept(results),
        },
        Experiment {
            name: "inside",
            what: "what FlashLight's paper tells of its inside: names, space, remnants, cleaning on request",
            source: inside::SOURCE,
            pieces: |_| INSIDE.pieces(),
            run: |scale, only, results, done| INSIDE.run(scale, only, results, done),
            kept: |results| INSIDE.kept(results),
        },
    ]
}

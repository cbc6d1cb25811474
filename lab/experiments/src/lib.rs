//! The papers' experiments: one module per paper, and what they have in common.

pub mod logdisk;
pub mod nanofs;
pub mod report;

use report::Report;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As the paper did.
    Full,
    /// Enough to see that it works, in seconds.
    Quick,
}

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
    pub run: fn(Scale, done: &(dyn Fn(u64) + Sync)) -> anyhow::Result<Report>,
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
        },
        Experiment {
            name: "nanofs",
            what: "Nano-FS on a card of class 4: mounts, throughput, kinds of lists, collector",
            source: nanofs::SOURCE,
            pieces: nanofs::lab::pieces,
            run: nanofs::lab::run,
        },
    ]
}

//! What is measured: the paper's figures as benchmarks, modes and commit intervals.

use super::filebench::Load;
use super::load::Bench;
use super::paper;
use super::rig::{Interval, Mode};
use crate::{Only, Scale};

/// A figure of the paper.
pub struct Plan {
    pub title: &'static str,
    pub benches: &'static [Bench],
    pub intervals: &'static [Interval],
    /// How much faster the paper's JFTL is, by modes.
    pub papers: Option<[f64; 3]>,
    /// What the paper says.
    pub note: &'static str,
    /// What its x is; none, if it has bars.
    pub x: Option<&'static str>,
}

/// The mounts of Table II, as a folder names them.
pub const MOUNTS: &str = "jftl/mounts";

/// Garbage detection, as a folder names it.
pub const GARBAGE: &str = "jftl/garbage";

pub const GARBAGE_TITLE: &str =
    "Garbage detection (3.1.2): overwrites on a disk of which half was deleted";

pub const TABLE_2: &str = "Table II: mount after a crash with a full journal, ms of flash time";

const ALL: &[Interval] = &[
    Interval::Seconds(5),
    Interval::Seconds(1),
    Interval::Millisecond,
];
const FIVE: &[Interval] = &[Interval::Seconds(5)];

/// The figures.
pub const PLANS: [Plan; 8] = [
    Plan {
        title: "Figure 9: Tar",
        benches: &[Bench::Tar],
        intervals: ALL,
        papers: Some(paper::TAR),
        note: "jftl is 10 % faster than FTL in writeback mode, 5 % in ordered mode, 70 % in journaled mode, at \
               any interval (4.1.1)",
        x: Some("commit interval, s"),
    },
    Plan {
        title: "Figure 10: Postmark",
        benches: &[Bench::Postmark],
        intervals: ALL,
        papers: Some(paper::POSTMARK),
        note: "jftl is 20 % faster than FTL in writeback mode, 10 % in ordered mode, 60 % in journaled mode, at \
               any interval (4.1.2)",
        x: Some("commit interval, s"),
    },
    Plan {
        title: "Figure 11: Dbench by clients",
        benches: &[
            Bench::Dbench(1),
            Bench::Dbench(2),
            Bench::Dbench(3),
            Bench::Dbench(4),
            Bench::Dbench(5),
        ],
        intervals: FIVE,
        papers: None,
        note: "slightly better in writeback and ordered mode, vastly in journaled mode (4.1.3)",
        x: Some("clients"),
    },
    Plan {
        title: "Figure 12 (a): Filebench, micro",
        benches: &[
            Bench::Files(Load::Createfiles),
            Bench::Files(Load::Deletefiles),
            Bench::Files(Load::Copyfiles),
            Bench::Files(Load::Randomwrite),
        ],
        intervals: FIVE,
        papers: None,
        note: "over 10 % in writeback and ordered mode for createfiles and deletefiles, about the same for \
               randomwrite; journaled more than 50 % for most (4.1.4)",
        x: None,
    },
    Plan {
        title: "Figure 12 (b): Filebench, macro",
        benches: &[
            Bench::Files(Load::Varmail),
            Bench::Files(Load::Mongo),
            Bench::Files(Load::Webserver),
        ],
        intervals: FIVE,
        papers: None,
        note: "over 10 % in writeback and ordered mode for mongo, about the same for webserver; journaled more \
               than 50 % for most (4.1.4)",
        x: None,
    },
    Plan {
        title: "Figure 13: block writes by file size (Bonnie)",
        benches: &[
            Bench::Blocks(8),
            Bench::Blocks(16),
            Bench::Blocks(32),
            Bench::Blocks(64),
            Bench::Blocks(128),
        ],
        intervals: FIVE,
        papers: None,
        note: "ordered hardly differs; journaled is as fast as ordered, and much slower without remapping \
               (4.2.1)",
        x: Some("MiB of the file"),
    },
    Plan {
        title: "Figure 14: random writes of 4 KiB by threads (Tiobench)",
        benches: &[
            Bench::Random(1),
            Bench::Random(2),
            Bench::Random(4),
            Bench::Random(8),
            Bench::Random(16),
            Bench::Random(32),
        ],
        intervals: FIVE,
        papers: None,
        note: "as in Figure 13 (4.2.2). Here each write is synchronous",
        x: Some("threads"),
    },
    Plan {
        title: "Figure 15: 4 MiB by request size (IOzone)",
        benches: &[
            Bench::Request(4),
            Bench::Request(16),
            Bench::Request(64),
            Bench::Request(256),
            Bench::Request(1024),
            Bench::Request(4096),
        ],
        intervals: FIVE,
        papers: None,
        note: "throughput rises with the request, as fewer descriptors are written, and the gap of the \
               journaled modes widens (4.2.3). Here each write is synchronous",
        x: Some("KiB of a request"),
    },
];

impl Bench {
    /// As a row names it.
    pub fn label(self) -> String {
        match self {
            Bench::Tar => "Tar".into(),
            Bench::Postmark => "Postmark".into(),
            Bench::Dbench(1) => "Dbench, 1 client".into(),
            Bench::Dbench(n) => format!("Dbench, {n} clients"),
            Bench::Files(load) => load.name().into(),
            Bench::Blocks(n) => format!("block writes, {n} MiB"),
            Bench::Random(1) => "random writes, 1 thread".into(),
            Bench::Random(n) => format!("random writes, {n} threads"),
            Bench::Request(n) => format!("4 MiB by {n} KiB"),
        }
    }

    /// As a file names it.
    fn id(self) -> String {
        match self {
            Bench::Tar => "tar".into(),
            Bench::Postmark => "postmark".into(),
            Bench::Dbench(n) => format!("dbench-{n}"),
            Bench::Files(load) => load.name().into(),
            Bench::Blocks(n) => format!("blocks-{n}m"),
            Bench::Random(n) => format!("random-{n}"),
            Bench::Request(n) => format!("request-{n}k"),
        }
    }

    /// What varies over the figure's x.
    pub fn x(self) -> Option<f64> {
        match self {
            Bench::Tar | Bench::Postmark | Bench::Files(_) => None,
            Bench::Dbench(n) | Bench::Blocks(n) | Bench::Random(n) | Bench::Request(n) => {
                Some(f64::from(n))
            }
        }
    }
}

/// A benchmark in a mode at an interval, on both layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The figure, by its number in [`PLANS`].
    pub(super) plan: usize,
    pub(super) bench: Bench,
    pub(super) interval: Interval,
    pub(super) mode: Mode,
}

impl Piece {
    /// What names it and its result: words and slashes.
    pub fn id(&self) -> String {
        let interval = self.interval.name().replace(' ', "");
        format!("jftl/{}/{interval}/{}", self.bench.id(), self.mode.name())
    }

    /// The title of its figure.
    pub fn title(&self) -> &'static str {
        PLANS[self.plan].title
    }

    /// Whether it is asked for, by title or name.
    pub fn wanted(&self, only: Only<'_>) -> bool {
        let id = format!("={}", self.id());
        only.takes(self.title()) || only.0.contains(&id)
    }
}

/// All pieces of a figure.
pub fn of_plan(scale: Scale, plan: usize) -> Vec<Piece> {
    let Plan {
        benches, intervals, ..
    } = &PLANS[plan];
    let (benches, intervals) = match (scale, benches[0]) {
        (Scale::Full, _) => (*benches, *intervals),
        (Scale::Quick, Bench::Tar | Bench::Files(Load::Createfiles)) => {
            (&benches[..1], &intervals[..1])
        }
        (Scale::Quick, _) => (&[][..], &[][..]),
    };
    let mut pieces = Vec::new();
    for bench in benches {
        for interval in intervals {
            pieces.extend(Mode::ALL.map(|mode| Piece {
                plan,
                bench: *bench,
                interval: *interval,
                mode,
            }));
        }
    }
    pieces
}

/// All pieces.
pub fn pieces(scale: Scale) -> Vec<Piece> {
    (0..PLANS.len())
        .flat_map(|plan| of_plan(scale, plan))
        .collect()
}

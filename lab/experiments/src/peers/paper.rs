//! What FlashLight's paper says of its runs, beside what was measured here.

use flashkit_workload::Phase;

use super::PAPER;
use crate::report::{Bars, Cell, Figure, Table};
use crate::study::{Outcome, System};

/// The systems of the paper's tables, in the order of the columns here.
const SYSTEMS: [System; 4] = [
    System::FlashLight,
    System::Ubifs,
    System::Jffs2,
    System::Yaffs2,
];

/// Table V and VI of the paper: page reads, programs and erases of [`SYSTEMS`]. Erases of files
/// deleted before the test are among them.
const COUNTED: [(&str, &str, [[u64; 3]; 4]); 3] = [
    (
        "Table V",
        "sysbench-2k",
        [
            [1, 98_805, 1_544],
            [31, 104_782, 1_550],
            [224_859, 199_748, 3_146],
            [36_468, 110_112, 1_720],
        ],
    ),
    (
        "Table V",
        "sysbench-64k",
        [
            [1, 98_805, 1_544],
            [31, 104_794, 1_550],
            [49_365, 99_455, 1_542],
            [1, 98_047, 1_721],
        ],
    ),
    (
        "Table VI",
        "postmark-2k",
        [
            [68_464, 1_035_964, 15_816],
            [452_129, 1_117_270, 16_829],
            [12_444_884, 1_262_354, 19_144],
            [3_091_274, 2_304_888, 35_392],
        ],
    ),
];

/// Runs of which the paper draws how FlashLight does beside UBIFS: where, and what the text says.
const DRAWN: [(&str, &str, &str); 15] = [
    ("5.4.1", "filebench-createfiles", "faster"),
    ("5.4.1", "filebench-copyfiles", "faster"),
    ("5.4.1", "filebench-createdelete", "about 20 % faster"),
    ("5.4.2", "filebench-threads-1", "faster"),
    ("5.4.2", "filebench-threads-5", "faster"),
    ("5.4.2", "filebench-threads-10", "faster"),
    ("5.4.2", "filebench-threads-20", "faster"),
    ("5.4.3", "filebench-update-0", "faster"),
    ("5.4.3", "filebench-update-32", "faster"),
    ("5.4.3", "filebench-update-64", "faster"),
    ("5.4.3", "filebench-update-128", "faster"),
    ("5.4.3", "filebench-update-16x2", "slower the more pieces"),
    ("5.4.3", "filebench-update-8x4", "slower the more pieces"),
    ("5.4.3", "filebench-update-4x8", "slower the more pieces"),
    ("5.4.3", "filebench-update-2x16", "slowest"),
];

/// The longest wait for a write of 64 KiB, in ms.
const WAITS: [(&str, &str, f64); 2] = [
    ("5.4.4", "realtime", 512.1),
    ("5.4.4", "realtime-idle", 304.9),
];

/// The figures of the paper beside those of here, as far as they were measured.
pub(super) fn beside(outcomes: &[Outcome]) -> Table {
    let of = |name: &str, figure: &dyn Fn(&Phase) -> Cell| {
        SYSTEMS.map(|system| phase(outcomes, name, system).map_or(Cell::None, figure))
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut row = |place: &str, run: String, paper: [Cell; 4], here: [Cell; 4]| {
        let mut cells: Vec<Cell> = vec![place.into(), run.into()];
        cells.extend(paper);
        cells.extend(here);
        rows.push(cells);
    };
    for (place, name, counted) in COUNTED {
        for (i, what) in ["page reads", "programs", "erases"].into_iter().enumerate() {
            let here = of(name, &|p| {
                let reads = p.page_reads + p.spare_reads;
                Cell::Count([reads, p.page_programs, p.block_erases][i])
            });
            let paper = counted.map(|system| Cell::Count(system[i]));
            row(place, format!("{name}: {what}"), paper, here);
        }
    }
    for (place, name, says) in DRAWN {
        let here = of(name, &|p| Cell::Measure(p.flash_us as f64 / 1e6, 1));
        let paper = [says.into(), "1".into(), Cell::None, Cell::None];
        row(place, format!("{name}: flash s"), paper, here);
    }
    for (place, name, longest) in WAITS {
        let here = of(name, &|p| Cell::Measure(p.latency_us.max / 1e3, 1));
        let paper = [
            Cell::Measure(longest, 1),
            Cell::None,
            Cell::None,
            Cell::None,
        ];
        row(place, format!("{name}: longest wait, ms"), paper, here);
    }
    Table {
        title: "The paper's figures, and those of here".into(),
        columns: vec![
            "place", "run", "paper", "its UBIFS", "its JFFS2", "its YAFFS2", "FlashLight", "UBIFS",
            "JFFS2", "YAFFS2",
        ],
        keys: 2,
        rows,
        notes: vec![
            "Where the paper draws a figure and its text has no numbers, its words are told. Its Postmark has another \
             random stream; of this one the data alone is 1,044,352 programs. Its YAFFS2 had its tags in the page, \
             for its chip's driver had no place for them; that of here has them in the spare bytes."
                .into(),
        ],
    }
}

/// A figure of the paper: title, its x, and the runs at each.
type Drawn = (&'static str, &'static str, &'static [(f64, &'static str)]);

/// Those that have an axis, each in seconds of flash time.
const CURVES: [Drawn; 5] = [
    (
        "Figure 8 (a): SysBench, 190 MiB in sequence, by size of request",
        "KiB of a request",
        &[
            (2.0, "sysbench-2k"),
            (4.0, "sysbench-4k"),
            (16.0, "sysbench-16k"),
            (64.0, "sysbench-64k"),
        ],
    ),
    (
        "Figure 10 (a): Postmark by size of request",
        "KiB of a request",
        &[(2.0, "postmark-2k"), (64.0, "postmark-64k")],
    ),
    (
        "Figure 11 (c): Create/DeleteFiles by threads",
        "threads",
        &[
            (1.0, "filebench-threads-1"),
            (5.0, "filebench-threads-5"),
            (10.0, "filebench-threads-10"),
            (20.0, "filebench-threads-20"),
        ],
    ),
    (
        "Figure 11 (d): updates in one piece, by size",
        "KiB updated",
        &[
            (0.0, "filebench-update-0"),
            (32.0, "filebench-update-32"),
            (64.0, "filebench-update-64"),
            (128.0, "filebench-update-128"),
        ],
    ),
    (
        "Figure 11 (d): updates of 32 KiB, by pieces",
        "pieces",
        &[
            (1.0, "filebench-update-32"),
            (2.0, "filebench-update-16x2"),
            (4.0, "filebench-update-8x4"),
            (8.0, "filebench-update-4x8"),
            (16.0, "filebench-update-2x16"),
        ],
    ),
];

/// Figures 8 (a), 10 (a), 11 (c) and 11 (d), as far as they were measured.
pub(super) fn curves(outcomes: &[Outcome]) -> Vec<Figure> {
    let curve = |(title, x, runs): Drawn| {
        let seconds = |system: System| {
            let of = |run: &str| Some(phase(outcomes, run, system)?.flash_us as f64 / 1e6);
            let values: Vec<_> = runs.iter().map(|(_, run)| of(run)).collect();
            (system.title().to_owned(), values)
        };
        let series: Vec<_> = PAPER
            .systems
            .iter()
            .map(|system| seconds(*system))
            .collect();
        let any = series
            .iter()
            .any(|(_, values)| values.iter().flatten().count() > 1);
        any.then(|| Figure {
            title: title.into(),
            x,
            y: "s of flash time; lower is better",
            at: runs.iter().map(|(x, _)| *x).collect(),
            series,
            papers: "it draws throughput over that of UBIFS, without numbers; FlashLight is ahead (5.2 to 5.4)",
        })
    };
    CURVES.into_iter().filter_map(curve).collect()
}

/// Figures 8 (b), 10 (b) and 11 (b): what the time goes to.
pub(super) fn breakdowns(outcomes: &[Outcome]) -> Vec<Bars> {
    let runs = [
        (
            "Figure 8 (b): SysBench, requests of 2 KiB: where the time goes",
            "sysbench-2k",
        ),
        (
            "Figure 10 (b): Postmark, requests of 2 KiB: where the time goes",
            "postmark-2k",
        ),
        (
            "Figure 11 (b): Create/DeleteFiles: where the time goes",
            "filebench-createdelete",
        ),
    ];
    let Some(chip) = flashkit_sim::preset(flashkit_sim::DEFAULT_PRESET) else {
        return Vec::new();
    };
    let bars = |(title, run): (&str, &str)| {
        let groups = PAPER.systems.iter().filter_map(|system| {
            let p = phase(outcomes, run, *system)?;
            let time = |reads, programs, erases| {
                Some(chip.timing.total_ns(reads, programs, erases) as f64 / 1e9)
            };
            let parts = vec![
                time(p.page_reads + p.spare_reads, 0, 0),
                time(0, p.page_programs, 0),
                time(0, 0, p.block_erases),
            ];
            Some((system.title().to_owned(), parts))
        });
        let groups: Vec<_> = groups.collect();
        (!groups.is_empty()).then(|| Bars {
            title: title.into(),
            y: "s of flash time",
            series: ["reads", "programs", "erases"].map(str::to_owned).into(),
            groups,
            note: "The paper's parts are reads, writes and cleaning of its own measurement; the host is left out here.",
        })
    };
    runs.into_iter().filter_map(bars).collect()
}

pub(super) fn phase<'a>(outcomes: &'a [Outcome], name: &str, system: System) -> Option<&'a Phase> {
    let run = PAPER.runs.iter().find(|run| run.name == name)?;
    let id = PAPER.id(run, system);
    run.phase(outcomes.iter().find(|outcome| outcome.case == id)?)
}

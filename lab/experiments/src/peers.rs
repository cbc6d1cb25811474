//! The ten traces and the loads of everyday programs over all file systems on `slc-256m`.

use std::sync::Arc;

use flashkit_sim::{DEFAULT_PRESET, preset};
use flashkit_workload::{Line, Phase, generate, traces};
use serde_json::{Map, Value, json};

use crate::Scale;
use crate::report::{Bars, Cell, Report, Table};
use crate::study::{Case, Outcome, System, any_state};

mod choose;
mod paper;

pub use choose::{Choice, chips, choices};

/// What is studied.
pub const WHAT: &str =
    "ten traces over UBIFS, JFFS2 and FlashLight under a Linux kernel, same chip and counters";
/// Where the traces come from.
pub const SOURCE: &str =
    "the traces of lab/workload; sysbench and postmark as in Kim et al., FlashLight, 2012";
/// The same of the loads.
pub const LOADS_WHAT: &str = "loads of everyday programs over the same file systems";
/// Where the loads come from.
pub const LOADS_SOURCE: &str = "the loads of lab/workload, after Filebench's personalities, dbench, the Andrew benchmark and SQLite";

/// The same of the runs of FlashLight's paper.
pub const PAPER_WHAT: &str =
    "the runs of FlashLight's paper, over FlashLight, UBIFS, JFFS2 and YAFFS2";
/// Where they come from.
pub const PAPER_SOURCE: &str = "J. Kim et al., FlashLight, ACM TECS, 2012, section 5";

/// A trace as it is run.
struct Run {
    /// Name in the tables and in the results.
    name: &'static str,
    /// Name of the trace.
    trace: &'static str,
    fsync: bool,
    /// Bytes in one write.
    request: usize,
    /// The phase that counts; `None`: all of them.
    phase: Option<&'static str>,
}

const TRACES: Set = Set {
    name: "peers",
    title: "Flash operations of ten traces",
    bars: Some((
        "Ten traces: flash time over that of the best",
        "Chip slc-256m, an fsync after each writing operation but for seq.",
    )),
    systems: &System::ALL,
    runs: &[
        run("seq", "seq", false, 2048, None),
        run("small", "small", true, 4096, None),
        run("append", "append", true, 4096, None),
        run("randupd", "randupd", true, 4096, Some("update")),
        run("randupd75", "randupd75", true, 4096, Some("update")),
        run("config", "config", true, 4096, None),
        run("tree", "tree", true, 4096, None),
        run("mail", "mail", true, 4096, None),
        run("cache", "cache", true, 4096, None),
        run("postmark-cached", "postmark", false, 2048, None),
        run("postmark", "postmark", true, 2048, None),
    ],
};

const LOADS: Set = Set {
    name: "loads",
    title: "Flash operations of everyday loads",
    bars: Some((
        "Everyday loads: flash time over that of the best",
        "Chip slc-256m, synced where such programs do. FlashLight in this process, littlefs and YAFFS2 have no page cache, \
         the others have the kernel's: it takes what soon goes, and what is read again.",
    )),
    systems: &System::ALL,
    runs: &[
        load("fileserver", "serve"),
        load("varmail", "serve"),
        load("webserver", "serve"),
        load("dbench", "clients"),
        load("compile", "runs"),
        load("sqlite", "insert"),
        load("sensor", "log"),
    ],
};

const PAPER: Set = Set {
    name: "flashlight",
    title: "Flash operations of the runs of FlashLight's paper",
    // They are too many to be told apart in a plot.
    bars: None,
    systems: &[
        System::FlashLight,
        System::FlashLightMtd,
        System::Ubifs,
        System::Jffs2,
        System::Yaffs2,
    ],
    runs: &[
        run("sysbench-2k", "sysbench", false, 2 << 10, None),
        run("sysbench-4k", "sysbench", false, 4 << 10, None),
        run("sysbench-16k", "sysbench", false, 16 << 10, None),
        run("sysbench-64k", "sysbench", false, 64 << 10, None),
        run("postmark-2k", "postmark", true, 2 << 10, None),
        run("postmark-64k", "postmark", true, 64 << 10, None),
        filebench("filebench-createfiles", 4 << 10, "create"),
        filebench("filebench-copyfiles", 4 << 10, "copy"),
        filebench("filebench-createdelete", 64 << 10, "serve"),
        filebench("filebench-threads-1", 64 << 10, "serve"),
        filebench("filebench-threads-5", 64 << 10, "serve"),
        filebench("filebench-threads-10", 64 << 10, "serve"),
        filebench("filebench-threads-20", 64 << 10, "serve"),
        filebench("filebench-update-0", 64 << 10, "serve"),
        filebench("filebench-update-32", 64 << 10, "serve"),
        filebench("filebench-update-64", 64 << 10, "serve"),
        filebench("filebench-update-128", 64 << 10, "serve"),
        filebench("filebench-update-16x2", 64 << 10, "serve"),
        filebench("filebench-update-8x4", 64 << 10, "serve"),
        filebench("filebench-update-4x8", 64 << 10, "serve"),
        filebench("filebench-update-2x16", 64 << 10, "serve"),
        run("realtime", "realtime", true, 64 << 10, Some("stream")),
        run(
            "realtime-idle",
            "realtime-idle",
            true,
            64 << 10,
            Some("stream"),
        ),
    ],
};

/// Runs with a table, and a plot, of their own.
struct Set {
    /// Name of the study.
    name: &'static str,
    title: &'static str,
    /// Title of the plot, and what is said below it.
    bars: Option<(&'static str, &'static str)>,
    /// What it is run over.
    systems: &'static [System],
    runs: &'static [Run],
}

const fn run(
    name: &'static str,
    trace: &'static str,
    fsync: bool,
    request: usize,
    phase: Option<&'static str>,
) -> Run {
    Run {
        name,
        trace,
        fsync,
        request,
        phase,
    }
}

/// A load, of which the phase counts that comes after what prepares it.
const fn load(name: &'static str, phase: &'static str) -> Run {
    filebench(name, 4096, phase)
}

/// The same, with requests of some size.
const fn filebench(name: &'static str, request: usize, phase: &'static str) -> Run {
    run(name, name, false, request, Some(phase))
}

/// Figures of this project's first measurement of the peers, by another harness (virtme-ng, an
/// earlier 6.1 kernel): trace, system, page reads, page programs, erases.
const FIRST: [(&str, System, [u64; 3]); 17] = [
    ("seq", System::Ubifs, [528, 102_871, 41]),
    ("seq", System::Jffs2, [129_236, 194_372, 1_034]),
    ("small", System::Ubifs, [288, 57_677, 41]),
    ("small", System::Jffs2, [77_801, 48_217, 605]),
    ("append", System::Ubifs, [179, 53_559, 304]),
    ("append", System::Jffs2, [100_556, 43_950, 670]),
    ("randupd", System::Ubifs, [330, 64_129, 28]),
    ("randupd", System::Jffs2, [124_104, 84_100, 1_014]),
    ("randupd75", System::Ubifs, [236_603, 278_690, 3_865]),
    ("randupd75", System::Jffs2, [256_849, 169_771, 2_123]),
    ("config", System::Ubifs, [24_098, 41_286, 487]),
    ("tree", System::Ubifs, [8_426, 51_477, 154]),
    ("mail", System::Ubifs, [6_391, 121_906, 712]),
    ("cache", System::Ubifs, [214_351, 343_238, 3_352]),
    ("postmark-cached", System::Ubifs, [17_202, 618_804, 7_955]),
    ("postmark", System::Ubifs, [223_228, 1_173_925, 16_501]),
    ("postmark", System::Jffs2, [9_557_540, 2_389_990, 35_393]),
];

/// The cases of the traces. [`Scale::Quick`] leaves out the long ones.
pub fn cases(scale: Scale) -> Vec<Case> {
    TRACES.cases(scale)
}

/// The cases of the loads.
pub fn load_cases(scale: Scale) -> Vec<Case> {
    LOADS.cases(scale)
}

/// The cases of the paper's runs.
pub fn paper_cases(scale: Scale) -> Vec<Case> {
    PAPER.cases(scale)
}

/// The table of what there is of the traces.
pub fn report(outcomes: &[Outcome]) -> Report {
    TRACES.report(
        outcomes,
        "Formatting and mounting are not counted. Requests of 4 KiB, of seq and postmark of 2 KiB; an fsync after each \
         writing operation but for seq and postmark-cached. Of randupd and randupd75 the phase update.",
    )
}

/// The table of what there is of the loads.
pub fn load_report(outcomes: &[Outcome]) -> Report {
    LOADS.report(
        outcomes,
        "Formatting, mounting and the files that a load begins with are not counted. Requests of 4 KiB; an fsync where \
         such programs have one. What the kernel writes without one depends on how fast a machine is, as its timers do.",
    )
}

/// The tables of what there is of the paper's runs.
pub fn paper_report(outcomes: &[Outcome]) -> Report {
    let mut report = PAPER.report(
        outcomes,
        "Formatting, mounting and the files that a run begins with are not counted. All is synced but for sysbench; \
         Filebench's own choices are not known: sizes, how full the chip is and how long a run lasts are this project's.",
    );
    report.tables.push(paper::beside(outcomes));
    report.figures = paper::curves(outcomes);
    report.bars = paper::breakdowns(outcomes);
    report
}

/// The phase that counts of a run of the paper.
pub fn paper_phase<'a>(outcomes: &'a [Outcome], name: &str, system: System) -> Option<&'a Phase> {
    paper::phase(outcomes, name, system)
}

/// Flash time of each trace and of each load, as multiples of the least.
pub fn bars(outcomes: &[Outcome]) -> Vec<Bars> {
    let sets = [&TRACES, &LOADS];
    sets.into_iter()
        .filter_map(|set| set.bars(outcomes))
        .collect()
}

impl Set {
    fn cases(&self, scale: Scale) -> Vec<Case> {
        let Some(chip) = preset(DEFAULT_PRESET) else {
            return Vec::new();
        };
        let mut cases = Vec::new();
        for run in self.runs {
            if scale == Scale::Quick && run.is_long() {
                continue;
            }
            for &system in self.systems.iter().filter(|system| run.is_for(**system)) {
                // The mount makes all durable every five seconds: on a slow machine so much
                // more often to an operation.
                let timed = run.is_timed() || system == System::FlashLightMtd;
                cases.push(Case {
                    id: self.id(run, system),
                    system,
                    chip,
                    params: run.params(),
                    lines: run.lines(),
                    request: run.request,
                    fsync: run.fsync,
                    cold: false,
                    check: any_state(),
                    timed,
                    limit: if run.is_long() || timed { 5400 } else { 900 },
                    flash_limit: run.flash_limit(),
                });
            }
        }
        cases
    }

    fn id(&self, run: &Run, system: System) -> String {
        format!("{}/{}/{}", self.name, run.name, system.name())
    }

    fn report(&self, outcomes: &[Outcome], counted: &str) -> Report {
        let mut rows = Vec::new();
        let mut failures = Vec::new();
        for run in self.runs {
            for system in System::ALL {
                let id = self.id(run, system);
                let Some(outcome) = outcomes.iter().find(|outcome| outcome.case == id) else {
                    continue;
                };
                match run.phase(outcome) {
                    Some(phase) => rows.push(row(run, system, phase)),
                    None => failures.push(format!(
                        "{} on {}: {}",
                        run.name,
                        system.title(),
                        outcome.error.as_deref().unwrap_or("its phase is missing")
                    )),
                }
            }
        }
        let mut notes = Vec::new();
        let mut columns = vec![
            "trace",
            "system",
            "page reads",
            "programs",
            "erases",
            "flash s",
            "energy J",
            "p99 us",
            "max us",
        ];
        if rows.iter().any(|row| row.len() > columns.len()) {
            columns.extend(["first s", "change %"]);
            notes.push(
                "first: this project's first measurement of the peers, with another harness and an \
                 earlier kernel. Reads include those of spare bytes, programs JFFS2's clean markers; \
                 first has neither."
                    .to_owned(),
            );
        }
        let width = columns.len();
        for row in &mut rows {
            row.resize(width, Cell::None);
        }
        notes.extend(failures);
        Report {
            notes: vec![
                "Chip slc-256m: 2,048 blocks of 64 pages of 2,048 + 64 bytes; 77.8, 252.8 and 1,500 us. Energy: 10 mA at 3 V \
                 while it works, typical of such a chip (data sheet of the NAND02G-B2C, table 23)."
                    .into(),
                "UBIFS and JFFS2 run in a guest over nandsim, not compressing, with 768 MiB of RAM beside its root \
                 file system; operations are counted by kernel tracing and priced with the same latencies."
                    .into(),
                "YAFFS2 runs in this process by its direct interface: 28 of a page's spare bytes are its tags, it has 10 \
                 caches of a page and no page cache, and a sync writes its checkpoint."
                    .into(),
                counted.into(),
            ],
            tables: vec![Table {
                title: self.title.into(),
                columns,
                keys: 2,
                rows,
                notes,
            }],
            ..Report::default()
        }
    }

    /// `None` when nothing was measured, or there is no plot.
    fn bars(&self, outcomes: &[Outcome]) -> Option<Bars> {
        let (title, note) = self.bars?;
        let mut groups = Vec::new();
        for run in self.runs {
            let time = |system: System| {
                let id = self.id(run, system);
                let outcome = outcomes.iter().find(|outcome| outcome.case == id)?;
                Some(run.phase(outcome)?.flash_us as f64)
            };
            let times = System::ALL.map(time);
            // One alone compares with nothing.
            if times.iter().flatten().count() < 2 {
                continue;
            }
            let least = times
                .iter()
                .flatten()
                .copied()
                .fold(f64::INFINITY, f64::min);
            let relative = times.map(|time| time.map(|time| time / least));
            groups.push((run.name.to_owned(), relative.into()));
        }
        (!groups.is_empty()).then(|| Bars {
            title: title.into(),
            y: "1 is the best of each group",
            series: System::ALL.map(|system| system.title().to_owned()).into(),
            groups,
            note,
        })
    }
}

impl Run {
    /// Whether a guest may need more than a quarter of an hour for it.
    fn is_long(&self) -> bool {
        let macros = ["filebench-", "realtime"];
        ["postmark", "randupd75", "cache"].contains(&self.trace)
            || macros.iter().any(|name| self.trace.starts_with(name))
    }

    /// Twice what littlefs takes for the trace, or for others enough to know the cost of an
    /// overwrite: a second of its flash time takes the processor a tenth.
    fn flash_limit(&self) -> u64 {
        if self.trace == "postmark" {
            12_000
        } else {
            1000
        }
    }

    /// Whether a kernel's timers decide what is written.
    fn is_timed(&self) -> bool {
        !self.fsync && !["seq", "sysbench"].contains(&self.trace)
    }

    /// Whether it says anything of a system.
    fn is_for(&self, system: System) -> bool {
        // In this process there is no page cache, and JFFS2 writes through.
        let cached = self.name.ends_with("-cached");
        let no_cache = [
            System::FlashLight,
            System::LittleFs,
            System::Jffs2,
            System::Yaffs2,
        ];
        // Its pauses would be waited for.
        let waits = self.name == "sensor" && system == System::Ext4Jftl;
        !(cached && no_cache.contains(&system) || waits)
    }

    fn params(&self) -> Map<String, Value> {
        let mut params = Map::new();
        params.insert("trace".into(), json!(self.name));
        params.insert("fsync".into(), json!(self.fsync));
        params
    }

    fn lines(&self) -> Arc<dyn Fn() -> Vec<Line> + Send + Sync> {
        let trace = self.trace;
        Arc::new(move || {
            // The traces are as they were when the others were first measured.
            let stored = traces::open(trace);
            stored
                .or_else(|| Some(generate::find(trace)?.lines()))
                .unwrap_or_default()
        })
    }

    /// The figures that count of a result.
    fn phase<'a>(&self, outcome: &'a Outcome) -> Option<&'a Phase> {
        match self.phase {
            Some(name) => outcome.phase(name),
            None => outcome.whole().map(|report| &report.total),
        }
    }
}

/// Seconds that the first measurement's operations take on the chip.
fn first_s(run: &Run, system: System) -> Option<f64> {
    let mut figures = FIRST.iter();
    let found = figures.find(|(trace, of, _)| *trace == run.name && *of == system);
    let (_, _, [reads, programs, erases]) = *found?;
    let timing = preset(DEFAULT_PRESET)?.timing;
    Some(timing.total_ns(reads, programs, erases) as f64 / 1e9)
}

fn row(run: &Run, system: System, phase: &Phase) -> Vec<Cell> {
    let seconds = phase.flash_us as f64 / 1e6;
    let reads = phase.page_reads + phase.spare_reads;
    let chip = preset(DEFAULT_PRESET);
    let uj = chip.and_then(|c| c.energy_uj(reads, phase.page_programs, phase.block_erases));
    let mut row = vec![
        run.name.into(),
        system.title().into(),
        Cell::Count(reads),
        Cell::Count(phase.page_programs),
        Cell::Count(phase.block_erases),
        Cell::Measure(seconds, 1),
        uj.map_or(Cell::None, |uj| Cell::Measure(uj as f64 / 1e6, 2)),
        Cell::Measure(phase.latency_us.p99, 0),
        Cell::Measure(phase.latency_us.max, 0),
    ];
    if let Some(first) = first_s(run, system) {
        let change = (seconds / first - 1.0) * 100.0;
        row.extend([Cell::Measure(first, 1), Cell::Measure(change, 1)]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not others of the same shape: the figures of the first measurement are of these.
    #[test]
    fn the_traces_are_those_that_are_stored() {
        let all = cases(Scale::Full);
        for (name, id) in [
            ("append", "peers/append/ubifs"),
            ("cache", "peers/cache/ubifs"),
            ("config", "peers/config/ubifs"),
            ("mail", "peers/mail/ubifs"),
            ("postmark", "peers/postmark/ubifs"),
            ("postmark", "peers/postmark-cached/ubifs"),
            ("randupd", "peers/randupd/ubifs"),
            ("randupd75", "peers/randupd75/ubifs"),
            ("seq", "peers/seq/ubifs"),
            ("small", "peers/small/ubifs"),
            ("tree", "peers/tree/ubifs"),
        ] {
            let case = all.iter().find(|case| case.id == id).unwrap();
            assert!((case.lines)() == traces::open(name).unwrap(), "{id}");
        }
    }
}

//! The six traces over all file systems on `slc-256m`.

use std::sync::Arc;

use flashkit_sim::{DEFAULT_PRESET, preset};
use flashkit_workload::{Phase, generate};
use serde_json::{Map, json};

use crate::Scale;
use crate::report::{Bars, Cell, Report, Table};
use crate::study::{Case, Outcome, System, any_state};

/// What is studied.
pub const WHAT: &str =
    "six traces over UBIFS, JFFS2 and FlashLight under a Linux kernel, same chip and counters";
/// Where the traces come from.
pub const SOURCE: &str =
    "the traces of lab/workload; sysbench and postmark as in Kim et al., FlashLight, 2012";

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

const RUNS: [Run; 7] = [
    run("seq", "sysbench", false, 2048, None),
    run("small", "small", true, 4096, None),
    run("append", "append", true, 4096, None),
    run("randupd", "randupd", true, 4096, Some("update")),
    run("randupd75", "randupd75", true, 4096, Some("update")),
    run("postmark-cached", "postmark", false, 2048, None),
    run("postmark", "postmark", true, 2048, None),
];

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

/// Figures of this project's first measurement of the peers, by another harness (virtme-ng, an
/// earlier 6.1 kernel): trace, system, page reads, page programs, erases.
const FIRST: [(&str, System, [u64; 3]); 13] = [
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
    ("postmark-cached", System::Ubifs, [17_202, 618_804, 7_955]),
    ("postmark", System::Ubifs, [223_228, 1_173_925, 16_501]),
    ("postmark", System::Jffs2, [9_557_540, 2_389_990, 35_393]),
];

/// The cases. [`Scale::Quick`] leaves out the long ones.
pub fn cases(scale: Scale) -> Vec<Case> {
    let Some(chip) = preset(DEFAULT_PRESET) else {
        return Vec::new();
    };
    let mut cases = Vec::new();
    for run in &RUNS {
        let long = run.trace == "postmark" || run.trace == "randupd75";
        if scale == Scale::Quick && long {
            continue;
        }
        // In this process there is no page cache, and JFFS2 writes through.
        let cached = run.name.ends_with("-cached");
        let behind_cache = [System::Ubifs, System::FlashLightMtd, System::Ext4Jftl];
        for system in System::ALL
            .into_iter()
            .filter(|s| !cached || behind_cache.contains(s))
        {
            let trace = run.trace;
            let mut params = Map::new();
            params.insert("trace".into(), json!(run.name));
            params.insert("fsync".into(), json!(run.fsync));
            cases.push(Case {
                id: format!("peers/{}/{}", run.name, system.name()),
                system,
                chip,
                params,
                lines: Arc::new(move || {
                    generate::find(trace).map_or(Vec::new(), generate::Known::lines)
                }),
                request: run.request,
                fsync: run.fsync,
                cold: false,
                check: any_state(),
                timed: cached,
                limit: if long { 5400 } else { 900 },
            });
        }
    }
    cases
}

/// The figures that count of a result.
fn phase<'a>(run: &Run, outcome: &'a Outcome) -> Option<&'a Phase> {
    match run.phase {
        Some(name) => outcome.phase(name),
        None => outcome.report.as_ref().map(|report| &report.total),
    }
}

/// The table of what there is.
pub fn report(outcomes: &[Outcome]) -> Report {
    let mut rows = Vec::new();
    let mut failures = Vec::new();
    for run in &RUNS {
        for system in System::ALL {
            let id = format!("peers/{}/{}", run.name, system.name());
            let Some(outcome) = outcomes.iter().find(|outcome| outcome.case == id) else {
                continue;
            };
            match phase(run, outcome) {
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
    Report {
        notes: vec![
            "Chip slc-256m: 2,048 blocks of 64 pages of 2,048 + 64 bytes; 77.8, 252.8 and 1,500 us.".into(),
            "UBIFS and JFFS2 run in a guest over nandsim, not compressing, with 768 MiB of RAM; \
             operations are counted by kernel tracing and priced with the same latencies."
                .into(),
            "Formatting and mounting are not counted. Requests of 4 KiB, of seq and postmark of 2 KiB; an fsync after each writing \
             operation but for seq and postmark-cached. Of randupd and randupd75 the phase update."
                .into(),
        ],
        tables: vec![Table {
            title: "Flash operations of six traces".into(),
            columns: vec![
                "trace", "system", "page reads", "programs", "erases", "flash s", "p99 us", "max us",
                "first s", "change %",
            ],
            keys: 2,
            rows,
            notes: std::iter::once(
                "first: this project's first measurement of the peers, with another harness and an \
                 earlier kernel. Reads include those of spare bytes, programs JFFS2's clean markers; \
                 first has neither."
                    .to_owned(),
            )
            .chain(failures)
            .collect(),
        }],
        ..Report::default()
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
    let first = first_s(run, system);
    vec![
        run.name.into(),
        system.title().into(),
        Cell::Count(phase.page_reads + phase.spare_reads),
        Cell::Count(phase.page_programs),
        Cell::Count(phase.block_erases),
        Cell::Measure(seconds, 1),
        Cell::Measure(phase.latency_us.p99, 0),
        Cell::Measure(phase.latency_us.max, 0),
        first.map_or(Cell::None, |first| Cell::Measure(first, 1)),
        first.map_or(Cell::None, |first| {
            Cell::Measure((seconds / first - 1.0) * 100.0, 1)
        }),
    ]
}

/// Flash time of each trace, as multiples of the least; `None` when nothing was measured.
pub fn bars(outcomes: &[Outcome]) -> Option<Bars> {
    let mut groups = Vec::new();
    for run in &RUNS {
        let time = |system: System| {
            let id = format!("peers/{}/{}", run.name, system.name());
            let outcome = outcomes.iter().find(|outcome| outcome.case == id)?;
            Some(phase(run, outcome)?.flash_us as f64)
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
        title: "Six traces: flash time over that of the best".into(),
        y: "1 is the best of each trace",
        series: System::ALL.map(|system| system.title().to_owned()).into(),
        groups,
        note: "Chip slc-256m, an fsync after each writing operation but for seq.",
    })
}

//! The paper's figures from the results.

use flashkit_workload::Phase;

use super::data::{self, Curve, Data, Metric, Tests, deviation, erases, own_ms, response_ms};
use super::pattern::Baseline;
use super::{TEST, verdict};
use crate::report::{Cell, Figure, Report, Table};
use crate::study::{Outcome, System};

const SIZE: &str = "size of requests, KiB";
const RESPONSE: &str = "flash time per request, ms";
const OWN: &str = "flash time until a request returns, ms";
const ERASES: &str = "erases per block";
const DEVIATION: &str = "standard deviation of erases per block";

/// Tables and figures of the paper's groups and of ours.
pub fn report(outcomes: &[Outcome]) -> Report {
    let data = Data(outcomes);
    let mut figures = Vec::new();
    saturated(data, &mut figures);
    filled(data, &mut figures);
    pauses(data, &mut figures);
    Report {
        notes: vec![
            "Chips micron-20m and micron-100m: blocks of 64 pages of 2,048 + 64 bytes; 25, 200 and 500 us, as the \
             paper reports of its own. YAFFS2 is in no mainline kernel: it runs in this process, by its direct interface, \
             without a page cache and without a thread that cleans."
                .into(),
            "Requests of 20 MiB together go to a file of 12 MiB (of 20 MiB in the second group), which does not \
             exist before a test of writes; tests of reads read each byte of it once. The paper does not tell the size \
             of its file."
                .into(),
            "Flash time per request counts what a test leaves to do later as well, up to a sync at its end; time \
             until a request returns does not. Nothing is compressed."
                .into(),
            "Before each test the counters are asked whether its initial state was made. Between the deletion that ends \
             it and the test there is a sync, where UBIFS erases most of what was deleted; the paper has none. JFFS2 and \
             FlashLight erase next to nothing there."
                .into(),
        ],
        tables: vec![verdict::table(data), cases(outcomes)],
        figures,
        ..Report::default()
    }
}

/// The curve of every system, so that each has its colour; those that have none
/// are left out of the figure.
fn systems(data: Data<'_>, tests: Tests, metric: Metric) -> Vec<(String, Curve)> {
    let curve = |system: System| (system.title().to_owned(), data.curve(tests, system, metric));
    System::ALL.map(curve).into()
}

/// A figure; none when no series has anything.
fn figure(
    title: String,
    x: &'static str,
    y: &'static str,
    series: &[(String, Curve)],
    papers: &'static str,
) -> Option<Figure> {
    let places = series
        .iter()
        .flat_map(|(_, curve)| curve.iter().map(|(x, _)| *x));
    let mut at: Vec<f64> = places.collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    if at.is_empty() {
        return None;
    }
    let values = |curve: &Curve| at.iter().map(|x| data::at(curve, *x)).collect();
    let series = series
        .iter()
        .map(|(name, curve)| (name.clone(), values(curve)))
        .collect();
    Some(Figure {
        title,
        x,
        y,
        at,
        series,
        papers,
    })
}

fn saturated(data: Data<'_>, figures: &mut Vec<Figure>) {
    for kind in Baseline::ALL {
        let papers = match kind {
            Baseline::Sr | Baseline::Rr => {
                "reads cost about the same in all systems, in sequence or not, but for 2 KB"
            }
            Baseline::Sw => "JFFS2 takes 4 times as long as UBIFS, and 20 times as long as YAFFS2",
            Baseline::Rw => "JFFS2 takes more than twice as long as the others",
        };
        let title = format!("Figure 2: {} on a dirty partition of 20 MiB", kind.title());
        let series = systems(data, Tests::saturated(kind), response_ms);
        figures.extend(figure(title, SIZE, RESPONSE, &series, papers));
    }
    for kind in [Baseline::Sw, Baseline::Rw] {
        let papers = match kind {
            Baseline::Sw => "JFFS2 2.7 at 2 KB to 1.8 at 512 KB, UBIFS 1.4 to 0.3, YAFFS2 0.2",
            _ => "JFFS2 most for large requests; UBIFS least but for 2 KB",
        };
        for (metric, y) in [(erases as Metric, ERASES), (deviation, DEVIATION)] {
            let title = format!("Figure 4: {y}, {}", kind.title());
            let series = systems(data, Tests::saturated(kind), metric);
            figures.extend(figure(title, SIZE, y, &series, papers));
        }
    }
    for kind in [Baseline::Sw, Baseline::Rw] {
        for (metric, y) in [(response_ms as Metric, RESPONSE), (erases, ERASES)] {
            let title = format!(
                "Beyond the paper: {}, an fsync after each; {y}",
                kind.title()
            );
            let series = systems(data, Tests::durable(kind), metric);
            let papers =
                "not asked; a page cache hides what a small write costs, an fsync does not";
            figures.extend(figure(title, SIZE, y, &series, papers));
        }
    }
}

fn filled(data: Data<'_>, figures: &mut Vec<Figure>) {
    for (system, fsync) in System::RAW
        .into_iter()
        .flat_map(|s| [(s, false), (s, true)])
    {
        let papers = match system {
            System::Jffs2 => {
                "75 % costs 2.5 times as much as 30 % at 2 KB, 1.3 at 256 KB, 1.06 at 512 KB"
            }
            System::Ubifs => "75 % costs 5 times as much as 30 % at 2 KB, 1.1 at 512 KB",
            System::Yaffs2 => {
                "75 % costs 2.2 times as much as 60 % for small requests, 1.58 at 128 KB, the same from 256 KB on"
            }
            _ => "not measured there",
        };
        let how = if fsync { ", an fsync after each" } else { "" };
        let metrics = [
            (response_ms as Metric, RESPONSE),
            (erases, ERASES),
            (deviation, DEVIATION),
        ];
        for (metric, y) in metrics {
            let series = [30, 60, 75].map(|mib| {
                let curve = data.curve(Tests::fill(mib, fsync), system, metric);
                (format!("{mib} % filled"), curve)
            });
            let title = format!(
                "Figure 5: {}, random writes beside a file{how}; {y}",
                system.title()
            );
            figures.extend(figure(title, SIZE, y, &series, papers));
        }
    }
}

fn pauses(data: Data<'_>, figures: &mut Vec<Figure>) {
    for (system, fsync) in System::RAW
        .into_iter()
        .flat_map(|s| [(s, false), (s, true)])
    {
        let papers = match system {
            System::Jffs2 => {
                "1.67 ms without pauses and 0.84 with 100 ms at 2 KB, 173 and 148 at 512 KB; erases stay"
            }
            System::Ubifs => {
                "with pauses 8 to 12 times faster below 64 KB, above with 100 ms only; erases stay"
            }
            System::Yaffs2 => "the same with pauses and without, and so are erases",
            _ => "not measured there",
        };
        let how = if fsync { ", an fsync after each" } else { "" };
        for (metric, y) in [(own_ms as Metric, OWN), (erases, ERASES)] {
            let series = [0, 10, 100, 1000].map(|ms| {
                let curve = data.curve(Tests::pause(ms, fsync), system, metric);
                (format!("pauses of {ms} ms"), curve)
            });
            let title = format!("Figure 6: {}, random writes{how}; {y}", system.title());
            figures.extend(figure(title, SIZE, y, &series, papers));
        }
    }
}

/// Tables and figures of the nine micro-benchmarks.
pub fn uflip_report(outcomes: &[Outcome]) -> Report {
    let mut figures = Vec::new();
    let mut seen: Vec<(String, String)> = Vec::new();
    for outcome in outcomes {
        let names = outcome.param("benchmark").zip(outcome.param("kind"));
        let Some((benchmark, kind)) = names.map(|(b, k)| (b.to_owned(), k.to_owned())) else {
            continue;
        };
        if seen.contains(&(benchmark.clone(), kind.clone())) {
            continue;
        }
        let curve = |system: System| -> Curve {
            let of = outcomes.iter().filter(|o| {
                o.system == system
                    && o.param("benchmark") == Some(&benchmark)
                    && o.param("kind") == Some(&kind)
            });
            of.filter_map(|o| Some((o.number("value")?, own_ms(o.phase(TEST)?))))
                .collect()
        };
        let series = System::ALL.map(|system| (system.title().to_owned(), curve(system)));
        let parameter = outcome.param("parameter").unwrap_or_default();
        let title = format!("uFLIP {benchmark}, {kind}: by {parameter}");
        figures.extend(figure(
            title,
            "value of the parameter (K: 1,024)",
            OWN,
            &series,
            "",
        ));
        seen.push((benchmark, kind));
    }
    Report {
        notes: vec![
            "Chip micron-20m, dirty; a file of 12 MiB; 256 requests of 32 KiB where nothing else is varied. Reads \
             and writes go through the page cache of a kernel that has one."
                .into(),
        ],
        tables: vec![cases(outcomes)],
        figures,
        ..Report::default()
    }
}

/// Every figure of every case.
fn cases(outcomes: &[Outcome]) -> Table {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for outcome in outcomes {
        match outcome.phase(TEST) {
            Some(phase) => rows.push(row(outcome, phase)),
            None => {
                let why = outcome.error.as_deref().unwrap_or("it has no test");
                notes.push(format!("{}: {why}", outcome.case));
            }
        }
    }
    Table {
        title: "All cases".into(),
        columns: vec![
            "case", "requests", "ms", "own ms", "p50", "p99", "max", "host ms", "erases", "deviation", "WA",
            "reads", "programs",
            "erased before",
        ],
        keys: 1,
        rows,
        notes: std::iter::once(
            "ms: flash time per request, own ms: until it returns, and its percentiles; host ms: on this machine; \
             erases: per block; WA: bytes programmed for each written; reads and programs: per request; erased before: \
             blocks erased by the sync between the deletion that makes the state and the test."
                .to_owned(),
        )
        .chain(notes)
        .collect(),
    }
}

fn row(outcome: &Outcome, phase: &Phase) -> Vec<Cell> {
    let page = flashkit_sim::preset(&outcome.chip).map_or(0, |chip| chip.page_size);
    let programmed = phase.page_programs as f64 * f64::from(page);
    let writes = phase.user_bytes > 0
        && outcome
            .param("kind")
            .is_some_and(|kind| kind.ends_with('w'));
    let requests = phase.ops.max(1) as f64;
    let ms = |us: f64| Cell::Measure(us / 1e3, 3);
    vec![
        outcome.case.clone().into(),
        Cell::Count(phase.ops),
        Cell::Measure(response_ms(phase), 3),
        ms(phase.latency_us.mean),
        ms(phase.latency_us.p50),
        ms(phase.latency_us.p99),
        ms(phase.latency_us.max),
        ms(phase.host_us.mean),
        Cell::Measure(phase.erases.mean, 2),
        Cell::Measure(phase.erases.stddev, 2),
        match writes {
            true => Cell::Measure(programmed / phase.user_bytes as f64, 2),
            false => Cell::None,
        },
        Cell::Measure((phase.page_reads + phase.spare_reads) as f64 / requests, 2),
        Cell::Measure(phase.page_programs as f64 / requests, 2),
        outcome
            .phase("delete")
            .map_or(Cell::None, |phase| Cell::Count(phase.block_erases)),
    ]
}

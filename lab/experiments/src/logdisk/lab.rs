//! `flashkit lab run logdisk`: the paper's Tables 4 to 8 and Figures 5 to 10 beside ours, what was
//! fitted and what else it could have been, and the policies since.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::anyhow;
use flashkit_logdisk::{Config, Separate, Start, Victim};

use super::load::{Load, Outcome, Pattern, SECTOR, WRITTEN};
use super::paper::{self, AGED, Cleaner, STILL, TESTS, Test};
use super::{andrew, reads, unstated};
use crate::kept::{Held, Marks, Results, held_or};
use crate::report::{Cell, Figure, Report, Table};
use crate::study::Folder;
use crate::{Kept, Only, Scale, code};

/// Blocks of a segment.
const BLOCKS: f64 = 504.0;

/// Titles of what shows the paper's own tests.
const PAPERS: [&str; 10] = [
    "Table 4: sequential writes",
    "Table 5: random writes",
    "Table 6: hot-and-cold writes, 60 % to an eighth and 40 % to another",
    "Table 7: the separate segment for cold blocks",
    "Figure 5: sequential writes",
    "Figure 6: random writes",
    "Figure 7: hot-and-cold writes",
    "Figure 8: utilisation of the segments after 640-116, cost-benefit",
    "Figure 9: cold and other blocks of the segments after 640-116, cost-benefit",
    "Figure 10: the same with the separate segment",
];

const VARIANTS: &str = "What was fitted, and what else it could have been";

const POLICIES: &str =
    "Beyond the paper: write amplification of the disk alone, and the longest request of 4 KiB";

/// Loads to be run, each once.
#[derive(Default)]
pub struct Jobs {
    loads: Vec<Load>,
    names: Vec<String>,
}

/// What identifies the code that its results are made by.
fn made_by() -> String {
    code::of(&["workload", "logdisk", "lab-logdisk"])
}

/// As a folder names what was measured.
fn id(name: &str) -> String {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    format!("logdisk/{hash:016x}")
}

const ANDREW: &str = "logdisk/andrew";
const READS: &str = "logdisk/reads";

impl Jobs {
    /// Adds a load, or the small part of it; where its outcome will be.
    pub fn add(&mut self, scale: Scale, load: Load) -> usize {
        let load = match scale {
            Scale::Full => load,
            Scale::Quick => Load {
                written: WRITTEN / 16,
                aged: 0,
                ..load
            },
        };
        let name = format!("{load:?}");
        if let Some(at) = self.names.iter().position(|n| *n == name) {
            return at;
        }
        self.loads.push(load);
        self.names.push(name);
        self.loads.len() - 1
    }

    /// Runs all, on as many threads as there are processors. The outcomes do not depend on it.
    fn run(
        &self,
        folder: Option<&Folder>,
        done: &(dyn Fn(u64) + Sync),
    ) -> anyhow::Result<Vec<Option<Outcome>>> {
        let (next, finished) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || {
            let mut ended = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(load) = self.loads.get(at) else {
                    return ended;
                };
                let run = || load.run().map_err(|e| anyhow!("{e}"));
                let name = id(&self.names[at]);
                ended.push((at, held_or(folder, &name, &made_by(), run)));
                done(finished.fetch_add(1, Ordering::Relaxed) + 1);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut ended = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                ended.extend(thread.join().map_err(|_| anyhow!("a load panicked"))?);
            }
            anyhow::Ok(())
        })?;
        ended.sort_by_key(|(at, _)| *at);
        let outcomes = ended.into_iter().map(|(_, outcome)| outcome.map(Some));
        outcomes.collect()
    }
}

/// A test of the paper with other layouts or another threshold.
struct Variant {
    what: &'static str,
    test: &'static Test,
    load: Load,
    fitted: bool,
}

/// The tests of the paper that tell layouts apart.
fn telling() -> [&'static Test; 5] {
    [&TESTS[2], &TESTS[5], &TESTS[6], &TESTS[7], &TESTS[17]]
}

fn variants() -> Vec<Variant> {
    let mut variants = Vec::new();
    for test in telling() {
        let fitted = test.load();
        let mut add = |what, load, fitted| {
            variants.push(Variant {
                what,
                test,
                load,
                fitted,
            });
        };
        add("as fitted", fitted, true);
        for (what, aged) in [
            ("tidy layout", 0),
            ("written over once at random", 1),
            ("written over 15 times at random", AGED),
        ] {
            if aged != fitted.aged && (aged != AGED || test.pattern != Pattern::Sequential) {
                add(what, Load { aged, ..fitted }, false);
            }
        }
        for (what, still) in [
            ("nothing beside the data", 0),
            ("352 sectors beside it", STILL / 2),
            ("1,056 sectors beside it", STILL * 3 / 2),
        ] {
            add(what, Load { still, ..fitted }, false);
        }
        for (what, curve) in [("threshold falls by a square", 2), ("by a fourth power", 4)] {
            let Start::Threshold {
                segments, account, ..
            } = fitted.config.start
            else {
                continue;
            };
            let start = Start::Threshold {
                segments,
                account,
                curve,
            };
            let config = Config {
                start,
                ..fitted.config
            };
            add(what, Load { config, ..fitted }, false);
        }
        for (what, seed) in [("other choices of chance", 2), ("and others", 3)] {
            if test.pattern != Pattern::Sequential {
                add(what, Load { seed, ..fitted }, false);
            }
        }
        for (what, steps) in [("1 cleaner step a request", 1), ("4 cleaner steps", 4)] {
            add(what, Load { steps, ..fitted }, false);
        }
    }
    variants
}

/// Policies beyond the paper's, by name.
fn policies() -> [(&'static str, Config); 9] {
    let new = Config::new();
    [
        ("default: old blocks apart", new),
        (
            "greedy, one frontier",
            Config {
                victim: Victim::Greedy,
                separate: Separate::No,
                ..new
            },
        ),
        (
            "cost-benefit, one frontier",
            Config {
                separate: Separate::No,
                ..new
            },
        ),
        (
            "cost-benefit, two frontiers",
            Config {
                separate: Separate::Cleaner,
                ..new
            },
        ),
        (
            "cost-age-times, two frontiers",
            Config {
                victim: Victim::CostAgeTimes,
                separate: Separate::Cleaner,
                ..new
            },
        ),
        ("default, 10 choices", Config { choices: 10, ..new }),
        (
            "default, 3 banks erase at once",
            Config {
                start: Start::Reserve { segments: 3 },
                erasing_max: 3,
                open_max: 4,
                ..new
            },
        ),
        (
            "default, levelled to 16 erases",
            Config {
                wear_gap: 16,
                ..new
            },
        ),
        ("default, bounded latency", Config::bounded()),
    ]
}

/// What a policy is measured with: the disk alone.
fn alone() -> [(&'static str, Load); 6] {
    let load = |pattern, percent, aged| Load {
        still: 0,
        host_ns: 0,
        steps: 0,
        aged,
        ..paper::load(pattern, percent, Config::new())
    };
    [
        ("640-116 90 % tidy", load(Pattern::HotCold, 90, 0)),
        ("aged once", load(Pattern::HotCold, 90, 1)),
        ("aged 15 times", load(Pattern::HotCold, 90, AGED)),
        ("60 % aged", load(Pattern::HotCold, 60, AGED)),
        ("30 % aged", load(Pattern::HotCold, 30, AGED)),
        ("random 90 %", load(Pattern::Random, 90, 0)),
    ]
}

/// Where each load's outcome will be.
struct Plan {
    jobs: Jobs,
    tests: Vec<usize>,
    variants: Vec<(Variant, usize)>,
    policies: Vec<(&'static str, Vec<usize>)>,
    unstated: Vec<unstated::Choice>,
}

fn plan(scale: Scale, only: Only<'_>) -> Plan {
    let mut jobs = Jobs::default();
    let mut add = |load: Load| jobs.add(scale, load);
    let papers = PAPERS.iter().any(|title| only.takes(title));
    let tests = TESTS.iter().filter(|_| papers);
    let tests = tests.map(|test| add(test.load())).collect();
    let all = scale == Scale::Full;
    let fitted = |v: &Variant| only.takes(VARIANTS) && (all || v.fitted);
    let variants = variants().into_iter().filter(fitted);
    let variants = variants.map(|v| {
        let at = add(v.load);
        (v, at)
    });
    let variants = variants.collect();
    let most = match only.takes(POLICIES) {
        false => 0,
        true if all => usize::MAX,
        true => 1,
    };
    let policies = policies().into_iter().take(most);
    let policies = policies.map(|(name, config)| {
        let runs = alone().map(|(_, load)| add(Load { config, ..load }));
        (name, runs.to_vec())
    });
    let policies = policies.collect();
    let unstated = match only.takes(unstated::TITLE) {
        true => unstated::plan(&mut jobs, scale),
        false => Vec::new(),
    };
    Plan {
        jobs,
        tests,
        variants,
        policies,
        unstated,
    }
}

/// Loads that [`run`] runs, and those of Table 8.
pub fn pieces(scale: Scale) -> u64 {
    plan(scale, Only::default()).jobs.loads.len() as u64 + andrew::pieces(scale) + 1
}

/// Runs all, or what is asked for; tells how many loads are done.
///
/// # Errors
/// Of the disk; of the kernel where Table 8 can be had.
pub fn run(
    scale: Scale,
    only: Only<'_>,
    results: &Path,
    done: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Report> {
    // A small part of the work leaves no results.
    let folder = (scale == Scale::Full).then(|| Folder::at(results));
    let folder = folder.as_ref();
    let plan = plan(scale, only);
    let mut ended = plan.jobs.loads.len() as u64;
    let outcomes = plan.jobs.run(folder, done)?;
    let reads = match only.takes(reads::TITLE) {
        true => Some(held_or(folder, READS, &made_by(), reads::measure)?),
        false => None,
    };
    let mut end = || {
        ended += 1;
        done(ended);
    };
    end();
    let asked = andrew::TITLES.iter().any(|title| only.takes(title));
    let andrew = match (asked, andrew::missing()) {
        (false, _) => Vec::new(),
        (true, Some(why)) => andrew::skipped(why),
        (true, None) => {
            let run = || andrew::run(scale, &mut end);
            andrew::tables(&held_or(folder, ANDREW, &made_by(), run)?, scale)
        }
    };
    let mut report = report(&plan, &outcomes, andrew, reads);
    if let Scale::Quick = scale {
        report.notes.insert(
            0,
            "Quick: 12 MiB written instead of 192 on tidy layouts, few variants: not comparable with \
             the paper."
                .into(),
        );
    }
    Ok(report.keep(only))
}

/// What there is of it.
///
/// # Errors
/// A result cannot be read.
pub fn kept(results: &Results) -> anyhow::Result<Option<Kept>> {
    let plan = plan(Scale::Full, Only::default());
    let (mut marks, mut made) = (Marks::default(), Vec::new());
    let mut note = |id: &str, by: crate::study::Made| {
        marks.note(results, id, &by, &made_by());
        made.push(by);
    };
    let mut outcomes = Vec::new();
    for name in &plan.jobs.names {
        let held = results.load_as::<Held<Outcome>>(&id(name))?;
        outcomes.push(held.map(|held| {
            note(&id(name), held.made);
            held.found
        }));
    }
    let andrew = results.load_as::<Held<Vec<andrew::Done>>>(ANDREW)?;
    let andrew = andrew.map(|held| {
        note(ANDREW, held.made);
        andrew::tables(&held.found, Scale::Full)
    });
    let reads = results.load_as::<Held<reads::Reads>>(READS)?.map(|held| {
        note(READS, held.made);
        held.found
    });
    let count = made.len();
    if count == 0 {
        return Ok(None);
    }
    Ok(Some(Kept {
        report: report(&plan, &outcomes, andrew.unwrap_or_default(), reads),
        measured: Vec::new(),
        count,
        all: outcomes.len() + 2,
        marks,
        made,
    }))
}

/// What outcomes say, as far as they are there.
fn report(
    plan: &Plan,
    outcomes: &[Option<Outcome>],
    andrew: Vec<Table>,
    reads: Option<reads::Reads>,
) -> Report {
    let (mut tables, mut shown) = (Vec::new(), Vec::new());
    let of_tests: Option<Vec<&Outcome>> =
        plan.tests.iter().map(|&at| outcomes[at].as_ref()).collect();
    if let Some(of_tests) = of_tests.filter(|of| !of.is_empty()) {
        tables.extend((4..=7).map(|n| papers_table(n, &of_tests)));
        shown = figures(&of_tests);
    }
    tables.extend(reads.map(reads::table));
    tables.extend(andrew);
    tables.extend(unstated::table(&plan.unstated, outcomes));
    tables.push(variants_table(&plan.variants, outcomes));
    tables.push(policies_table(&plan.policies, outcomes));
    tables.retain(|table| {
        !table.rows.is_empty() || ![VARIANTS, POLICIES].contains(&&table.title[..])
    });
    Report {
        notes: notes(),
        tables,
        figures: shown,
        ..Report::default()
    }
}

fn notes() -> Vec<String> {
    vec![
        "Chip nor-16m, the paper's Table 3. MB is 2^20 bytes: 504 blocks for each segment erased, \
         less those copied, are 192 MiB once the free segments are counted."
            .into(),
        format!(
            "Fitted, for the paper does not say it: {STILL} sectors beside the data that no test \
             writes; a threshold that falls in a straight line from 455 invalid blocks at 12 free \
             segments to 0; {} cleaner steps after a request; {} ms of the host for a request; the \
             640-116 tests begin on what {AGED} times the data, written at random, leave.",
            paper::STEPS,
            paper::HOST_NS as f64 / 1e6
        ),
        "Of Table 7 the cells are out of order in the text at hand: what cannot be told is left \
         empty. Times are virtual and exact for the chip; those of the paper's host are one number."
            .into(),
    ]
}

/// Blocks programmed for each that the host wrote, in the paper.
fn papers_amplification(copied: u64) -> f64 {
    1.0 + copied as f64 / (WRITTEN / u64::from(SECTOR)) as f64
}

fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Sequential => "sequential",
        Pattern::Random => "random",
        Pattern::HotCold => "640-116",
    }
}

fn papers_table(number: u32, outcomes: &[&Outcome]) -> Table {
    let title = PAPERS[number as usize - 4];
    let note = match number {
        6 => "In the paper greedy is ahead of cost-benefit; here they are about equal.",
        _ => "",
    };
    let row = |(test, ours): (&Test, &&Outcome)| {
        vec![
            pattern(test.pattern).into(),
            test.cleaner.name().into(),
            format!("{} %", test.percent).into(),
            test.throughput.into(),
            Cell::Measure(ours.throughput(), 0),
            test.erased.into(),
            ours.erased.into(),
            test.copied.into(),
            ours.copied.into(),
            test.copied
                .map_or(Cell::None, |n| Cell::Measure(papers_amplification(n), 2)),
            Cell::Measure(ours.amplification(), 2),
        ]
    };
    let tests = TESTS.iter().zip(outcomes);
    let rows = tests.filter(|(test, _)| test.table == number).map(row);
    Table {
        title: title.into(),
        columns: vec![
            "test",
            "cleaner",
            "data",
            "KB/s, paper",
            "KB/s",
            "erased, paper",
            "erased",
            "copied, paper",
            "copied",
            "WA, paper",
            "WA",
        ],
        keys: 3,
        rows: rows.collect(),
        notes: [note]
            .iter()
            .filter(|n| !n.is_empty())
            .map(|n| (*n).into())
            .collect(),
    }
}

fn variants_table(variants: &[(Variant, usize)], outcomes: &[Option<Outcome>]) -> Table {
    let row = |(variant, at): &(Variant, usize)| {
        let (test, ours) = (variant.test, outcomes[*at].as_ref()?);
        let share = |ours: u64, papers: Option<u64>| match papers {
            Some(papers) if papers > 0 => {
                Cell::Measure((ours as f64 / papers as f64 - 1.0) * 100.0, 0)
            }
            _ => Cell::None,
        };
        let name = match test.cleaner {
            Cleaner::Greedy => format!("{} {} %", pattern(test.pattern), test.percent),
            other => format!(
                "{} {} %, {}",
                pattern(test.pattern),
                test.percent,
                other.name()
            ),
        };
        Some(vec![
            if variant.fitted {
                name.into()
            } else {
                "".into()
            },
            variant.what.into(),
            ours.erased.into(),
            share(ours.erased, test.erased),
            ours.copied.into(),
            share(ours.copied, test.copied),
            Cell::Measure(ours.amplification(), 2),
        ])
    };
    Table {
        title: VARIANTS.into(),
        columns: vec![
            "test",
            "layout or driver",
            "erased",
            "to the paper %",
            "copied",
            "copied, to the paper %",
            "WA",
        ],
        keys: 2,
        rows: variants.iter().filter_map(row).collect(),
        notes: vec![
            "On a tidy layout the hot eighths lie together: that alone saves most of what the \
             paper's policies copy."
                .into(),
        ],
    }
}

fn policies_table(policies: &[(&'static str, Vec<usize>)], outcomes: &[Option<Outcome>]) -> Table {
    let mut columns = vec!["policy"];
    columns.extend(alone().map(|(name, _)| name));
    columns.extend([
        "longest request ms",
        "of random ms",
        "random KB/s",
        "RAM bytes",
    ]);
    let row = |(name, runs): &(&'static str, Vec<usize>)| {
        let runs: Option<Vec<_>> = runs.iter().map(|&at| outcomes[at].as_ref()).collect();
        let runs = runs?;
        let mut row: Vec<Cell> = vec![(*name).into()];
        row.extend(runs.iter().map(|o| Cell::Measure(o.amplification(), 2)));
        let longest = |outcomes: &[&Outcome]| {
            let ns = outcomes.iter().map(|o| o.longest_ns).max().unwrap_or(0);
            Cell::Measure(ns as f64 / 1e6, 0)
        };
        row.push(longest(&runs[..5]));
        row.push(longest(&runs[5..]));
        row.push(Cell::Measure(runs[5].throughput(), 0));
        row.push((runs[0].ram as u64).into());
        Some(row)
    };
    Table {
        title: POLICIES.into(),
        columns,
        keys: 1,
        rows: policies.iter().filter_map(row).collect(),
        notes: vec![
            "The paper at 90 %: 640-116 2.84 at best, random 3.39, about 260 KB of RAM (section 4)."
                .into(),
        ],
    }
}

fn figures(outcomes: &[&Outcome]) -> Vec<Figure> {
    let find = |table, cleaner, percent| {
        let at = TESTS
            .iter()
            .position(|t| t.table == table && t.cleaner == cleaner && t.percent == percent);
        outcomes[at.unwrap_or_else(|| unreachable!("a test of the paper"))]
    };
    let sizes = |table| {
        [30, 60, 90].map(|percent| {
            let outcome = find(table, Cleaner::Greedy, percent);
            (format!("{percent} %"), outcome)
        })
    };
    let by_age = find(6, Cleaner::CostBenefit, 90);
    let apart = find(7, Cleaner::Separate, 90);
    let greedy = find(6, Cleaner::Greedy, 90);
    vec![
        curves(
            PAPERS[4],
            &sizes(4),
            "level curves; 30 % and 60 % alike, 90 % below them (Table 4)",
        ),
        curves(
            PAPERS[5],
            &sizes(5),
            "all begin alike and fall once the free segments are used up (Table 5)",
        ),
        curves(
            PAPERS[6],
            &[
                ("greedy".into(), greedy),
                ("cost-benefit".into(), by_age),
                ("separate segment".into(), apart),
            ],
            "between 30 and 60 KB/s, greedy above cost-benefit (Table 6)",
        ),
        utilisation(PAPERS[7], by_age),
        cold(
            PAPERS[8],
            by_age,
            "2,579 cold blocks where about 19,000 could be; some segments hold both kinds (3.4). Ours are \
             those judged cold at any cleaning and not written since",
        ),
        cold(PAPERS[9], apart, "many cold segments (3.4)"),
    ]
}

fn curves(title: &str, runs: &[(String, &Outcome)], papers: &'static str) -> Figure {
    let at = runs.first().map_or(&[][..], |(_, o)| &o.curve[..]);
    Figure {
        title: title.into(),
        x: "MiB written",
        y: "KB/s",
        at: at.iter().map(|(x, _)| *x).collect(),
        series: runs
            .iter()
            .map(|(name, o)| {
                (
                    name.clone(),
                    o.curve.iter().map(|(_, y)| Some(*y)).collect(),
                )
            })
            .collect(),
        papers,
    }
}

/// Which of so many equal parts of 0 to 1 a share lies in.
fn bin(share: f64, bins: usize) -> usize {
    ((share * bins as f64) as usize).min(bins - 1)
}

fn utilisation(title: &str, outcome: &Outcome) -> Figure {
    let mut counts = vec![0.0; 10];
    for valid in &outcome.valid {
        counts[bin(f64::from(*valid) / BLOCKS, 10)] += 1.0;
    }
    Figure {
        title: title.into(),
        x: "utilisation from",
        y: "segments",
        at: (0..10).map(|i| f64::from(i) / 10.0).collect(),
        series: vec![("segments".into(), counts.into_iter().map(Some).collect())],
        papers: "a weak second peak; more full segments were expected (3.3)",
    }
}

fn cold(title: &str, outcome: &Outcome, papers: &'static str) -> Figure {
    let mut counts = vec![vec![0.0; 5]; 5];
    for (cold, valid) in outcome.cold.iter().zip(&outcome.valid) {
        // A row for none at all, and four quarters.
        let part = |n: u32| match n {
            0 => 0,
            n => 1 + bin(f64::from(n - 1) / BLOCKS, 4),
        };
        counts[part(valid - cold)][part(*cold)] += 1.0;
    }
    let total: u32 = outcome.cold.iter().sum();
    let names = [
        "none other",
        "to 25 %",
        "to 50 %",
        "to 75 %",
        "to 100 % other",
    ];
    Figure {
        title: format!("{title}: {total} cold blocks"),
        x: "cold blocks up to",
        y: "segments",
        at: (0..5).map(|i| f64::from(i) / 4.0).collect(),
        series: names
            .iter()
            .zip(counts)
            .map(|(name, counts)| ((*name).into(), counts.into_iter().map(Some).collect()))
            .collect(),
        papers,
    }
}

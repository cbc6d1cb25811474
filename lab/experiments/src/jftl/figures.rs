//! Tables, figures and bars from the results.

use super::keep::{Measured, Mounts, Ran, Recovery};
use super::load::{Bench, DBENCH_SECONDS};
use super::paper;
use super::plan::{PLANS, Piece, Plan, TABLE_2};
use super::rig::Mode;
use crate::report::{Bars, Cell, Figure, Report, Table};

/// A piece and what was measured.
pub type Held = (Piece, Measured);

/// The layers and modes of a figure, in the order of the paper's legends.
const SERIES: [(&str, bool, Mode); 6] = [
    ("page, writeback", false, Mode::Writeback),
    ("jftl, writeback", true, Mode::Writeback),
    ("page, ordered", false, Mode::Ordered),
    ("jftl, ordered", true, Mode::Ordered),
    ("page, journaled", false, Mode::Journal),
    ("jftl, journaled", true, Mode::Journal),
];

const THROUGHPUT: &str = "throughput; jftl in writeback mode is 1, higher is better";
const FASTER: &str = "throughput of jftl over that of page; higher is better";

/// All that the results say.
pub fn report(held: &[Held], mounts: Option<&Mounts>, quick: bool) -> Report {
    let mut report = Report {
        notes: notes(quick),
        ..Report::default()
    };
    for (number, plan) in PLANS.iter().enumerate() {
        let of = held.iter().filter(|(piece, _)| piece.plan == number);
        let of: Vec<&Held> = of.collect();
        if of.is_empty() {
            continue;
        }
        report.tables.push(table(plan, &of));
        report.figures.extend(curves(plan, &of));
        report.bars.extend(factors(plan, &of));
        report.bars.extend(groups(plan, &of));
        if matches!(plan.benches[0], Bench::Random(_)) {
            report.figures.extend(latency(&of));
        }
    }
    if !held.is_empty() {
        report.tables.push(all(held));
        report.tables.extend(alone(held));
    }
    report.tables.extend(blocks(held));
    if let Some(mounts) = mounts {
        report.tables.push(table_2(mounts));
        report.bars.push(mount_bars(mounts));
    }
    report
}

fn notes(quick: bool) -> Vec<String> {
    let mut notes = vec![
        "A stock kernel, ext3 with blocks of 1 KiB and a journal of 4 MB, on the paper's chip, 256 MiB. \
         Counted from the mount until all is home after the unmount: programs, and the time of the \
         chip's operations."
            .into(),
        format!(
            "Tar and Postmark run in the chip's time on each layer, so that a commit interval holds as much as it \
             would on a board. dbench runs so on page, for {DBENCH_SECONDS} s (paper: 90), all others as fast as they \
             can; what the kernel asked of page is then asked of jftl."
        ),
        "An interval of 0.001 s is a sync, and the next 1 ms after it: the mount option takes whole seconds.".into(),
        "Filebench's loads are rebuilt from Table I at their full size. Where they run for a time, a fixed \
         number of operations stands here. Bonnie is bonnie++, up to the end of its block writes; Tiobench \
         and IOzone are fio."
            .into(),
    ];
    if quick {
        notes.insert(0, "Quick: a small part of the loads.".into());
    }
    notes
}

/// The columns of every table.
const COLUMNS: [&str; 18] = [
    "load",
    "commit",
    "mode",
    "page: programs",
    "s",
    "jftl: programs",
    "s ",
    "elided",
    "unchanged",
    "packed",
    "in pages",
    "log",
    "copies",
    "flushes",
    "fewer, %",
    "faster",
    "asked the same",
    "paper",
];

fn table(plan: &Plan, held: &[&Held]) -> Table {
    let timed = matches!(plan.benches[0], Bench::Dbench(_));
    let mut columns = COLUMNS.to_vec();
    if timed {
        columns.push("page: MB/s");
    }
    // Results that are older do not say.
    let known = |n: u64| Some(n).filter(|n| *n > 0).map_or(Cell::None, Cell::Count);
    let row = |(piece, measured): &&Held| {
        let Measured { page, jftl, .. } = measured;
        let same = measured.again.as_ref().unwrap_or(jftl);
        let paper = plan.papers.map(|factors| factors[piece.mode as usize]);
        let mut row = vec![
            piece.bench.label().into(),
            piece.interval.name().into(),
            piece.mode.name().into(),
            Cell::Count(page.page_programs),
            Cell::Measure(page.busy_s(), 2),
            Cell::Count(jftl.page_programs),
            Cell::Measure(jftl.busy_s(), 2),
            Cell::Count(jftl.elided),
            Cell::Count(jftl.unchanged),
            Cell::Count(jftl.packed),
            Cell::Count(jftl.packed_pages),
            known(jftl.log_pages),
            Cell::Count(jftl.copies),
            known(measured.tally.flushes),
            Cell::Measure(fewer(page, jftl), 1),
            Cell::Measure(page.busy_s() / jftl.busy_s(), 3),
            Cell::Measure(page.busy_s() / same.busy_s(), 3),
            paper.map_or(Cell::None, |x| Cell::Measure(x, 2)),
        ];
        if timed {
            row.push(page.rate.map_or(Cell::None, |x| Cell::Measure(x, 2)));
        }
        row
    };
    let mut notes = vec![format!("paper: {}", plan.note)];
    if held.iter().any(|(_, measured)| measured.again.is_some()) {
        notes.push(
            "Faster: the kernel ran on each layer, and on the faster one has deleted some data before it was old enough \
             to be written. Asked the same: both layers were, word by word."
                .into(),
        );
    }
    let inputs = held.iter().map(|(_, measured)| &measured.input);
    notes.extend(inputs.take(1).filter(|input| !input.is_empty()).cloned());
    if timed {
        notes.push(
            "MB/s: as dbench says; much of it is the page cache of a machine with more RAM than the paper's. Where \
             it is 0, nothing that dbench counts came to an end in its time."
                .into(),
        );
    }
    Table {
        title: plan.title.into(),
        columns,
        keys: 3,
        rows: held.iter().map(row).collect(),
        notes,
    }
}

/// How many programs fewer, in per cent.
fn fewer(page: &Ran, jftl: &Ran) -> f64 {
    let (page, jftl) = (page.page_programs as f64, jftl.page_programs as f64);
    100.0 * (1.0 - jftl / page.max(1.0))
}

/// What was measured in one mode, of pieces that differ in nothing else.
fn find<'a>(held: &[&'a Held], mode: Mode) -> Option<&'a Measured> {
    let found = held.iter().find(|(piece, _)| piece.mode == mode);
    found.map(|(_, measured)| measured)
}

/// Pieces that differ in their mode alone, together.
fn alike<'a>(held: &[&'a Held]) -> Vec<Vec<&'a Held>> {
    let mut together: Vec<Vec<&Held>> = Vec::new();
    for one in held {
        let same = |of: &&mut Vec<&Held>| {
            let (piece, _) = of[0];
            (piece.bench, piece.interval) == (one.0.bench, one.0.interval)
        };
        match together.iter_mut().find(same) {
            Some(of) => of.push(one),
            None => together.push(vec![one]),
        }
    }
    together
}

/// The six throughputs of pieces that differ in their mode alone; none if one is missing.
fn throughputs(held: &[&Held]) -> Option<[f64; 6]> {
    let base = find(held, Mode::Writeback)?.speed(true);
    let mut values = [0.0; 6];
    for (value, (_, remaps, mode)) in values.iter_mut().zip(SERIES) {
        *value = find(held, mode)?.speed(remaps) / base;
    }
    values.iter().all(|x| x.is_finite()).then_some(values)
}

/// The figure as the paper draws it.
fn curves(plan: &Plan, held: &[&Held]) -> Option<Figure> {
    let x = plan.x?;
    let mut at = Vec::new();
    let mut series = SERIES.map(|(name, _, _)| (name.to_owned(), Vec::new()));
    for of in alike(held) {
        let Some(values) = throughputs(&of) else {
            continue;
        };
        let (piece, _) = of[0];
        at.push(piece.bench.x().unwrap_or(piece.interval.seconds()));
        (series.iter_mut().zip(values)).for_each(|((_, held), value)| held.push(Some(value)));
    }
    (!at.is_empty()).then(|| Figure {
        title: plan.title.into(),
        x,
        y: THROUGHPUT,
        at,
        series: series.into(),
        papers: plan.note,
    })
}

/// A figure of bars as the paper draws it.
fn groups(plan: &Plan, held: &[&Held]) -> Option<Bars> {
    if plan.x.is_some() {
        return None;
    }
    let groups: Vec<_> = alike(held)
        .iter()
        .filter_map(|of| {
            let values = throughputs(of)?;
            Some((of[0].0.bench.label(), values.map(Some).to_vec()))
        })
        .collect();
    (!groups.is_empty()).then(|| Bars {
        title: plan.title.into(),
        y: THROUGHPUT,
        series: SERIES.map(|(name, _, _)| name.to_owned()).into(),
        groups,
        note: plan.note,
    })
}

/// How much faster jftl is, beside the paper's words.
fn factors(plan: &Plan, held: &[&Held]) -> Option<Bars> {
    let papers = plan.papers?;
    let together = alike(held);
    let mut series: Vec<String> = together
        .iter()
        .map(|of| format!("commits every {}", of[0].0.interval.name()))
        .collect();
    series.push("the paper".into());
    let groups = Mode::ALL.iter().zip(papers).map(|(mode, paper)| {
        let factor = |of: &Vec<&Held>| {
            let held = find(of, *mode)?;
            Some(held.speed(true) / held.speed(false))
        };
        let mut values: Vec<_> = together.iter().map(factor).collect();
        values.push(Some(paper));
        (mode.paper_name().to_owned(), values)
    });
    Some(Bars {
        title: format!("{}: ours beside the paper's", plan.title),
        y: FASTER,
        groups: groups.collect(),
        series,
        note: "The paper's factors are those of its text.",
    })
}

/// Figure 14 (b).
fn latency(held: &[&Held]) -> Option<Figure> {
    let mut at = Vec::new();
    let mut series = SERIES.map(|(name, _, _)| (name.to_owned(), Vec::new()));
    for of in alike(held) {
        let Some(x) = of[0].0.bench.x() else { continue };
        let found = SERIES.map(|(_, remaps, mode)| {
            let held = find(&of, mode)?;
            Some(if remaps { &held.jftl } else { &held.page })
        });
        if found.iter().any(Option::is_none) {
            continue;
        }
        at.push(x);
        for ((_, values), ran) in series.iter_mut().zip(found) {
            // Each thread waits for the others: 500 rounds.
            values.push(ran.map(|ran| ran.busy_s() * 1e3 / 500.0));
        }
    }
    (!at.is_empty()).then(|| Figure {
        title: "Figure 14 (b): latency of random writes of 4 KiB by threads".into(),
        x: "threads",
        y: "ms of flash time until a thread's write is done",
        at,
        series: series.into(),
        papers: "in proportion to the threads; jftl outperforms FTL, the more the more threads (4.2.2)",
    })
}

/// Every benchmark in a line: whether remapping ever costs, and what full journaling costs.
fn all(held: &[Held]) -> Table {
    let refs: Vec<&Held> = held.iter().collect();
    let mut worst = f64::NEG_INFINITY;
    let rows: Vec<Vec<Cell>> = alike(&refs)
        .iter()
        .map(|of| {
            let mut slower = |mode| {
                let held = find(of, mode)?;
                let same = held.again.as_ref().unwrap_or(&held.jftl);
                let slower = 100.0 * (same.busy_s() / held.page.busy_s() - 1.0);
                worst = worst.max(slower);
                Some(slower)
            };
            let [writeback, ordered] = [Mode::Writeback, Mode::Ordered].map(&mut slower);
            let journaled = find(of, Mode::Journal);
            let saved = journaled.map(|held| fewer(&held.page, &held.jftl));
            // What dbench has done in its time differs from mode to mode.
            let over = journaled
                .zip(find(of, Mode::Ordered))
                .filter(|(held, _)| held.page.rate.is_none());
            let programs = |held: &Measured| held.jftl.page_programs as f64;
            let slower = over.map(|(journaled, ordered)| {
                100.0 * (journaled.jftl.busy_s() / ordered.page.busy_s() - 1.0)
            });
            let over = over.map(|(journaled, ordered)| programs(journaled) / programs(ordered));
            let measure =
                |x: Option<f64>, digits| x.map_or(Cell::None, |x| Cell::Measure(x, digits));
            vec![
                of[0].0.bench.label().into(),
                of[0].0.interval.name().into(),
                measure(writeback, 2),
                measure(ordered, 2),
                measure(saved, 1),
                measure(over, 3),
                measure(slower, 2),
            ]
        })
        .collect();
    Table {
        title: "All benchmarks: jftl against page".into(),
        columns: vec![
            "load",
            "commit",
            "writeback: slower, %",
            "ordered: slower, %",
            "journaled: fewer programs, %",
            "journaled over ordered, programs",
            "slower than ordered on page, %",
        ],
        keys: 2,
        rows,
        notes: vec![
            format!("The worst of writeback and ordered: {worst:.2} %. Less than nothing is faster."),
            "Slower: both layers were asked for the same, word by word. Journaled: as in the figures, where the kernel \
             ran on each layer for Tar and Postmark."
                .into(),
        ],
    }
}

/// Remapping and no more, beside all that `jftl` does; both asked for the same.
fn alone(held: &[Held]) -> Option<Table> {
    let row = |(piece, measured): &Held| {
        let (page, alone) = (&measured.page, measured.alone.as_ref()?);
        let full = measured.again.as_ref().unwrap_or(&measured.jftl);
        let faster = |ran: &Ran| Cell::Measure(page.busy_s() / ran.busy_s(), 3);
        Some(vec![
            piece.bench.label().into(),
            piece.interval.name().into(),
            piece.mode.name().into(),
            Cell::Count(page.page_programs),
            Cell::Count(alone.page_programs),
            Cell::Measure(fewer(page, alone), 1),
            faster(alone),
            Cell::Count(full.page_programs),
            faster(full),
        ])
    };
    let rows: Vec<_> = held.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Remapping alone (3.1.1), without sums and packing".into(),
        columns: vec![
            "load",
            "commit",
            "mode",
            "page: programs",
            "remap: programs",
            "fewer, %",
            "remap: faster",
            "jftl: programs",
            "jftl: faster",
        ],
        keys: 3,
        rows,
        notes: vec![
            "`--ftl remap`: a home that is in the journal is mapped, and each comparison costs a read. `--ftl jftl` does not \
             journal again what has not changed, and packs what is short."
                .into(),
        ],
    })
}

/// What Postmark's programs are, block by block.
fn blocks(held: &[Held]) -> Option<Table> {
    let of = |mode| {
        let mut held = held.iter();
        let found = held.find(|(piece, _)| {
            let first = piece.interval == PLANS[piece.plan].intervals[0];
            piece.bench == Bench::Postmark && piece.mode == mode && first
        });
        found.map(|(_, measured)| measured)
    };
    let both = [of(Mode::Ordered)?, of(Mode::Journal)?];
    let mut names: Vec<&String> = both
        .iter()
        .flat_map(|m| m.tally.journal.keys().chain(m.tally.home.keys()))
        .collect();
    names.sort();
    names.dedup();
    let count = |held: Option<&u64>| held.map_or(Cell::None, |n| Cell::Count(*n));
    let mut rows: Vec<Vec<Cell>> = names
        .iter()
        .map(|name| {
            let mut row = vec![Cell::Text((*name).clone())];
            for measured in both {
                row.push(count(measured.tally.journal.get(*name)));
                row.push(count(measured.tally.home.get(*name)));
            }
            row
        })
        .collect();
    let mut line = |what: &str, value: &dyn Fn(&Measured) -> [Option<u64>; 2]| {
        let mut row = vec![what.into()];
        both.iter()
            .for_each(|m| row.extend(value(m).map(Cell::from)));
        rows.push(row);
    };
    line("all of these", &|m| {
        [&m.tally.journal, &m.tally.home].map(|kinds| Some(kinds.values().sum()))
    });
    line("elided, or unchanged", &|m| {
        [Some(m.jftl.unchanged), Some(m.jftl.elided)]
    });
    line("packed", &|m| [Some(m.jftl.packed), None]);
    line("pages of packed sectors", &|m| {
        [Some(m.jftl.packed_pages), None]
    });
    line("zeros, journal and home", &|m| [Some(m.jftl.zeros), None]);
    line("programs, with log, map and cleaning", &|m| {
        [Some(m.jftl.page_programs), None]
    });
    line("transactions", &|m| [Some(m.tally.commits), None]);
    Some(Table {
        title: "Figure 10, block by block: sectors that the kernel wrote in Postmark on jftl".into(),
        columns: vec![
            "what",
            "ordered: journal",
            "ordered: home",
            "journaled: journal",
            "journaled: home",
        ],
        keys: 1,
        rows,
        notes: vec![
            "In the journal, copies by what they are copies of. Commits every 5 s, or when a transaction has a \
             quarter of the journal: in journaled mode that is each megabyte."
                .into(),
        ],
    })
}

fn table_2(mounts: &Mounts) -> Table {
    let ms = |ns: u64| Cell::Measure(ns as f64 / 1e6, 1);
    let row = |what: &str, found: Recovery, paper: u64| {
        vec![
            what.into(),
            ms(found.mount_ns),
            Cell::Count(paper::MOUNT_MS),
            ms(found.recovery_ns),
            Cell::Count(found.programs),
            Cell::Count(paper),
        ]
    };
    let mount = |what: &str, ns: u64| {
        let none = [Cell::None, Cell::None, Cell::None, Cell::None];
        [vec![what.into(), ms(ns)], none.to_vec()].concat()
    };
    let (ftl, jftl) = (paper::RECOVERY_FTL_MS, paper::RECOVERY_JFTL_MS);
    Table {
        title: TABLE_2.into(),
        columns: vec!["disk", "map", "paper", "recovery", "programs", "paper "],
        keys: 1,
        rows: vec![
            row("page", mounts.plain, ftl),
            row("jftl, stock kernel", mounts.hints, jftl),
            row("jftl, the paper's interface", mounts.explicit, jftl),
            mount("80 % full, after an orderly end", mounts.orderly_ns),
            mount("80 % full, after a cut", mounts.cut_ns),
        ],
        notes: vec![
            "A stock kernel reads the whole log itself; through the interface only its descriptors are read."
                .into(),
        ],
    }
}

fn mount_bars(mounts: &Mounts) -> Bars {
    let ms = |ns: u64| Some(ns as f64 / 1e6);
    let paper = |ms: u64| Some(ms as f64);
    Bars {
        title: "Table II: recovery of a full journal of 4 MB, ours beside the paper's".into(),
        y: "ms of flash time beyond the mount",
        series: vec!["ours".into(), "the paper".into()],
        groups: vec![
            (
                "page".into(),
                vec![ms(mounts.plain.recovery_ns), paper(paper::RECOVERY_FTL_MS)],
            ),
            (
                "jftl, stock kernel".into(),
                vec![ms(mounts.hints.recovery_ns), None],
            ),
            (
                "jftl, interface".into(),
                vec![
                    ms(mounts.explicit.recovery_ns),
                    paper(paper::RECOVERY_JFTL_MS),
                ],
            ),
        ],
        note: "The paper's JFTL has a patched kernel; on a stock one there is nothing to compare.",
    }
}

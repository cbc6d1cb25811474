//! The paper's figures 9, 10, 12 to 15 and Table II.

use anyhow::{Result, bail};

use super::filebench::Load;
use super::load::{Bench, Inputs, is_there};
use super::rig::{Cost, Interval, Mode};
use super::{paper, recovery};
use crate::report::{Cell, Report, Table};
use crate::rig::missing;
use crate::{Only, Scale};

/// A figure: benchmarks at commit intervals, and the paper's factors.
struct Plan {
    title: &'static str,
    benches: &'static [Bench],
    intervals: &'static [Interval],
    papers: Option<[f64; 3]>,
    note: &'static str,
}

const TABLE_2: &str = "Table II: mount after a crash with a full journal, ms of flash time";

const ALL: &[Interval] = &[
    Interval::Seconds(5),
    Interval::Seconds(1),
    Interval::Millisecond,
];
const FIVE: &[Interval] = &[Interval::Seconds(5)];

const PLANS: [Plan; 6] = [
    Plan {
        title: "Figure 9: Tar",
        benches: &[Bench::Tar],
        intervals: ALL,
        papers: Some(paper::TAR),
        note: "the figure shows no other numbers; the factors hold at any interval",
    },
    Plan {
        title: "Figure 10: Postmark",
        benches: &[Bench::Postmark],
        intervals: ALL,
        papers: Some(paper::POSTMARK),
        note: "the figure shows no other numbers; the factors hold at any interval",
    },
    Plan {
        title: "Figure 12: Filebench",
        benches: &[
            Bench::Files(Load::Createfiles),
            Bench::Files(Load::Deletefiles),
            Bench::Files(Load::Copyfiles),
            Bench::Files(Load::Randomwrite),
            Bench::Files(Load::Varmail),
            Bench::Files(Load::Mongo),
            Bench::Files(Load::Webserver),
        ],
        intervals: FIVE,
        papers: None,
        note: "over 10 % in writeback and ordered for createfiles, deletefiles and mongo, about the same for \
               randomwrite and webserver; journaled more than 50 % for most",
    },
    Plan {
        title: "Figure 13: block writes by file size (Bonnie)",
        benches: &[Bench::Blocks(16), Bench::Blocks(64), Bench::Blocks(128)],
        intervals: FIVE,
        papers: None,
        note: "ordered hardly differs; journaled is as fast as ordered, and much slower without remapping",
    },
    Plan {
        title: "Figure 14: random writes of 4 KiB by threads (Tiobench)",
        benches: &[
            Bench::Random(1),
            Bench::Random(4),
            Bench::Random(16),
            Bench::Random(32),
        ],
        intervals: FIVE,
        papers: None,
        note: "as in Figure 13. Here each write is synchronous",
    },
    Plan {
        title: "Figure 15: 4 MiB by request size (IOzone)",
        benches: &[
            Bench::Request(4),
            Bench::Request(64),
            Bench::Request(1024),
            Bench::Request(4096),
        ],
        intervals: FIVE,
        papers: None,
        note: "journaled gains the more the larger the requests",
    },
];

impl Bench {
    /// As a row names it.
    fn label(self) -> String {
        match self {
            Bench::Tar | Bench::Postmark => String::new(),
            Bench::Files(load) => load.name().into(),
            Bench::Blocks(n) => format!("{n} MiB"),
            Bench::Random(n) => format!("{n} threads"),
            Bench::Request(n) => format!("{n} KiB"),
        }
    }
}

fn shown(scale: Scale, plan: &Plan) -> (&[Bench], &[Interval]) {
    match (scale, plan.benches[0]) {
        (Scale::Full, _) => (plan.benches, plan.intervals),
        (Scale::Quick, Bench::Tar | Bench::Files(_)) => (&plan.benches[..1], &plan.intervals[..1]),
        (Scale::Quick, _) => (&[], &[]),
    }
}

/// Pieces of work: pairs of runs, and the mounts.
pub fn pieces(scale: Scale) -> u64 {
    let runs = PLANS.iter().map(|plan| {
        let (benches, intervals) = shown(scale, plan);
        benches.len() * intervals.len() * Mode::ALL.len()
    });
    runs.sum::<usize>() as u64 + 1
}

/// Runs them all, or those that are asked for.
///
/// # Errors
/// Where there is no ext3 to be had, and what goes wrong there.
pub fn run(scale: Scale, only: Only<'_>, done: &(dyn Fn(u64) + Sync)) -> Result<Report> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let inputs = Inputs::new(scale == Scale::Quick)?;
    let mut report = Report {
        notes: vec![
            format!(
                "Tar extracts {} files of at most 16 KiB, {} KiB in all, of a real include tree (paper: \
                 7,117 files with a mean of 3 kB).",
                inputs.files,
                inputs.bytes >> 10
            ),
            "A stock kernel, ext3 with blocks of 1 KiB and a journal of 4 MB, on the paper's chip, 256 MiB. \
             Counted from the mount until all is home after the unmount: programs, and the time of the \
             chip's operations."
                .into(),
            "Tar and Postmark run in the chip's time, so that a commit interval holds as much as it would \
             on a board; the others as fast as they can. An interval of 0.001 s is a sync, and the next 1 \
             ms after it: the mount option takes whole seconds."
                .into(),
            "dbench (Figure 11) is not among them: it runs for a time, so that two layers are not given the \
             same work."
                .into(),
            "Filebench's loads are rebuilt from Table I. Where they run for a time, a fixed number of \
             operations stands here."
                .into(),
        ],
        ..Report::default()
    };
    let mut pieces = 0;
    for plan in PLANS.iter().filter(|plan| only.takes(plan.title)) {
        if shown(scale, plan).0.is_empty() {
            continue;
        }
        if !is_there(plan.benches[0]) {
            report
                .notes
                .push(format!("{}: its program is not installed.", plan.title));
            continue;
        }
        report.tables.push(figure(scale, plan, &inputs, &mut || {
            pieces += 1;
            done(pieces);
        })?);
    }
    if only.takes(TABLE_2) {
        report.tables.push(table_2(scale == Scale::Quick)?);
    }
    done(self::pieces(scale));
    Ok(report)
}

fn figure(scale: Scale, plan: &Plan, inputs: &Inputs, done: &mut dyn FnMut()) -> Result<Table> {
    let (benches, intervals) = shown(scale, plan);
    let mut rows = Vec::new();
    for bench in benches {
        for interval in intervals {
            for (i, mode) in Mode::ALL.into_iter().enumerate() {
                let page = inputs.measure(*bench, false, mode, *interval)?;
                let jftl = inputs.measure(*bench, true, mode, *interval)?;
                let papers = plan.papers.map(|factors| factors[i]);
                rows.push(row(&bench.label(), *interval, mode, [page, jftl], papers));
                done();
            }
        }
    }
    Ok(Table {
        title: plan.title.into(),
        columns: vec![
            "load",
            "commit",
            "mode",
            "page: programs",
            "s",
            "jftl: programs",
            "s ",
            "elided",
            "fewer, %",
            "faster",
            "paper",
        ],
        keys: 3,
        rows,
        notes: vec![format!("paper: {}", plan.note)],
    })
}

fn row(
    label: &str,
    interval: Interval,
    mode: Mode,
    [page, jftl]: [Cost; 2],
    papers: Option<f64>,
) -> Vec<Cell> {
    let (before, after) = (page.counters.page_programs, jftl.counters.page_programs);
    let fewer = 100.0 * (1.0 - after as f64 / before.max(1) as f64);
    vec![
        label.into(),
        interval.name().into(),
        mode.name().into(),
        Cell::Count(before),
        Cell::Measure(page.busy_s(), 2),
        Cell::Count(after),
        Cell::Measure(jftl.busy_s(), 2),
        Cell::Count(jftl.stats.elided),
        Cell::Measure(fewer, 1),
        Cell::Measure(page.busy_s() / jftl.busy_s(), 3),
        papers.map_or(Cell::None, |x| Cell::Measure(x, 2)),
    ]
}

fn table_2(quick: bool) -> Result<Table> {
    let (plain, hints) = (
        recovery::stock(false, quick)?,
        recovery::stock(true, quick)?,
    );
    let explicit = recovery::explicit()?;
    let (orderly, cut) = recovery::mounts(quick)?;
    let ms = |ns: u64| Cell::Measure(ns as f64 / 1e6, 1);
    let row = |what: &str, found: recovery::Recovery, paper: u64| {
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
    Ok(Table {
        title: TABLE_2.into(),
        columns: vec![
            "disk",
            "map",
            "paper",
            "recovery",
            "programs",
            "paper ",
        ],
        keys: 1,
        rows: vec![
            row("page", plain, paper::RECOVERY_FTL_MS),
            row("jftl, stock kernel", hints, paper::RECOVERY_JFTL_MS),
            row("jftl, the paper's interface", explicit, paper::RECOVERY_JFTL_MS),
            mount("80 % full, after an orderly end", orderly),
            mount("80 % full, after a cut", cut),
        ],
        notes: vec![
            "A stock kernel reads the whole log itself; through the interface only its descriptors are read."
                .into(),
        ],
    })
}

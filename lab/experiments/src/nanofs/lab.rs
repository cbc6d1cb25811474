//! Figures 2 to 8 of the paper, from the file system on a simulated card.

use std::path::Path;

use anyhow::Result;
use flashkit_nanofs::List;
use flashkit_sim::CardTiming;

use super::collect::{freed, streams};
use super::measure::{MB, mounts, throughput, volume, writes};
use super::streams::{Spent, prepare, run as run_streams};
use crate::report::{Cell, Report, Table};
use crate::{Only, Scale};

/// Pieces of work: tables.
pub fn pieces(_: Scale) -> u64 {
    7
}

/// Runs them all; those that are asked for are in the report.
///
/// # Errors
/// The file system's.
pub fn run(
    scale: Scale,
    only: Only<'_>,
    _results: &Path,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Report> {
    let quick = scale == Scale::Quick;
    let figures = [
        figure_2, figure_3, figure_4, figure_5, figure_6, figure_7, figure_8,
    ];
    let mut tables = Vec::new();
    for (i, figure) in (1..).zip(figures) {
        tables.push(figure(quick)?);
        done(i);
    }
    let notes = vec![
        "The card's time is that of the paper's (class 4: 10.7 MB/s of reads and 4.4 MB/s of writes \
         by single blocks, 12.1 and 5.0 MB/s by four)."
            .into(),
        "The paper does not say what erasing takes: a write of a block that was not erased before \
         is assumed to take twice as long, a trim 2 ms and 2 us a block."
            .into(),
        "The paper prints Figures 4 to 8 without numbers; what its text says of them stands below \
         each."
            .into(),
    ];
    let report = Report {
        notes,
        tables,
        ..Report::default()
    };
    Ok(report.keep(only))
}

fn table(title: &str, columns: &[&'static str], rows: Vec<Vec<Cell>>, note: &str) -> Table {
    Table {
        title: title.into(),
        columns: columns.to_vec(),
        keys: 0,
        rows,
        notes: vec![format!("paper: {note}")],
    }
}

fn mb(bytes: u64) -> Cell {
    Cell::Count(bytes / MB)
}

fn figure_2(quick: bool) -> Result<Table> {
    let (numbers, size): (&[u32], _) = match quick {
        true => (&[1, 10, 100], 5_000),
        false => (
            &[1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000],
            100_000,
        ),
    };
    let rows = mounts(numbers, size)?
        .into_iter()
        .map(|(files, reads, ms)| {
            vec![
                Cell::Count(files.into()),
                Cell::Count(reads),
                Cell::Measure(ms, 2),
            ]
        });
    Ok(table(
        "Figure 2: mount time by number of files",
        &["files", "block reads", "ms"],
        rows.collect(),
        "one block is read for each file; 1,000 files of 1 MB in less than 250 ms",
    ))
}

fn figure_3(quick: bool) -> Result<Table> {
    let size = if quick { 4 * MB } else { 256 * MB };
    let measured = [
        (1, throughput::<3>(size)?, Some((4.4, 10.7))),
        (2, throughput::<4>(size)?, None),
        (4, throughput::<6>(size)?, Some((5.0, 12.1))),
    ];
    let timing = CardTiming::CLASS_4;
    let rows = measured.into_iter().map(|(blocks, (write, read), paper)| {
        let medium = |command: u64, block: u64| {
            Cell::Measure(512e3 * blocks as f64 / (command + blocks * block) as f64, 2)
        };
        let papers = |of: fn((f64, f64)) -> f64| match paper {
            Some(paper) => Cell::Measure(of(paper), 1),
            None => Cell::None,
        };
        vec![
            Cell::Count(512 * blocks),
            medium(timing.write_ns, timing.write_block_ns),
            Cell::Measure(write, 2),
            papers(|p| p.0),
            medium(timing.read_ns, timing.read_block_ns),
            Cell::Measure(read, 2),
            papers(|p| p.1),
        ]
    });
    Ok(table(
        "Figure 3: throughput by buffer size, MB/s",
        &[
            "buffer",
            "card writes",
            "write",
            "paper",
            "card reads",
            "read",
            "paper ",
        ],
        rows.collect(),
        "nominal 4 and 10 MB/s; of a block's 512 bytes 500 are the file's",
    ))
}

/// Writes for files of these sizes, by each list.
fn by_list(title: &str, sizes: &[u64], note: &str) -> Result<Table> {
    let lists = [List::RollForward, List::Reverse, List::Conventional];
    let found: Vec<Vec<u64>> = lists
        .into_iter()
        .map(|list| writes(list, sizes))
        .collect::<Result<_>>()?;
    let rows = sizes.iter().enumerate().map(|(i, &size)| {
        let mut row = vec![mb(size)];
        row.extend(found.iter().map(|counts| Cell::Count(counts[i])));
        row.push(Cell::Measure(
            found[0][i] as f64 / size.div_ceil(500) as f64,
            3,
        ));
        row
    });
    Ok(table(
        title,
        &[
            "MB",
            "ours",
            "reverse list",
            "conventional list",
            "ours, per node",
        ],
        rows.collect(),
        note,
    ))
}

fn figure_4(quick: bool) -> Result<Table> {
    let step = if quick { MB / 2 } else { 38 * MB };
    let first = if quick { MB } else { 100 * MB };
    let sizes: Vec<u64> = (0..7).map(|i| first + i * step).collect();
    by_list(
        "Figure 4: block writes by file size, linear",
        &sizes,
        "linear; 2 writes a node by its reverse list (Algorithm 1), 3 by a conventional one",
    )
}

fn figure_5(quick: bool) -> Result<Table> {
    let last = if quick { 2 } else { 7 };
    let sizes: Vec<u64> = (0..=last).map(|x| MB << x).collect();
    by_list(
        "Figure 5: block writes by file size, exponential",
        &sizes,
        "they grow as the size does",
    )
}

fn sizes(quick: bool) -> &'static [u64] {
    if quick { &[1] } else { &[2, 4, 8, 16] }
}

fn figure_6(quick: bool) -> Result<Table> {
    fn spent<const N: usize>(size: u64) -> Result<Spent> {
        let mut fs = volume::<N>(2 * size + MB, 4)?;
        let files = prepare(&mut fs, size)?;
        run_streams(&mut fs, files, size, None)
    }
    let mut rows = Vec::new();
    for &n in sizes(quick) {
        let by_buffer = [
            spent::<3>(n * MB)?,
            spent::<4>(n * MB)?,
            spent::<6>(n * MB)?,
        ];
        for (buffer, spent) in [512, 1024, 2048].into_iter().zip(by_buffer) {
            rows.push(vec![
                Cell::Count(n),
                Cell::Count(buffer),
                Cell::Measure(spent.reads, 2),
                Cell::Measure(spent.writes, 2),
            ]);
        }
    }
    Ok(table(
        "Figure 6: reads of one file and appends to another, intertwined by 2 KB",
        &["MB each", "buffer", "reads, s", "writes, s"],
        rows,
        "writing takes much longer than reading; a larger buffer helps both. Here a read that \
         follows an append also pays for saving what the other file's last block holds",
    ))
}

fn figure_7(quick: bool) -> Result<Table> {
    let bytes = if quick { 8 * MB } else { 64 * MB };
    let seconds = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
    let rows = seconds
        .iter()
        .zip(freed(bytes, &seconds)?)
        .map(|(&s, blocks)| {
            vec![
                Cell::Count((s * 1e3) as u64),
                Cell::Count(blocks),
                Cell::Measure(blocks as f64 / (s * 1e3), 1),
            ]
        });
    Ok(table(
        "Figure 7: dirty blocks freed by idle time, 75 % of the card dirty",
        &["idle, ms", "blocks", "blocks a ms"],
        rows.collect(),
        "the longer the time, the more blocks for each part of it: longer runs are erased",
    ))
}

fn figure_8(quick: bool) -> Result<Table> {
    let mut rows = Vec::new();
    for &n in sizes(quick) {
        for (how, spent) in ["on", "off"].into_iter().zip(streams(n * MB)?) {
            rows.push(vec![
                Cell::Count(n),
                how.into(),
                Cell::Measure(spent.reads, 2),
                Cell::Measure(spent.writes, 2),
                Cell::Measure(spent.longest_ms, 1),
            ]);
        }
    }
    Ok(table(
        "Figure 8: the same on a card filled to 90 %, nearly all dirty, collector on (1 s idle in 5 s) and off",
        &[
            "MB each",
            "collector",
            "reads, s",
            "writes, s",
            "longest, ms",
        ],
        rows,
        "slower than on a clean card; much slower without the collector",
    ))
}

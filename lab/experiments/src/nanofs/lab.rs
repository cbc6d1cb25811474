//! Figures 2 to 8 of the paper and its footprint, from the file system on a simulated card.

use anyhow::Result;
use flashkit_nanofs::List;
use flashkit_sim::CardTiming;

use super::collect::{Dirt, freed, idle, streams};
use super::footprint;
use super::measure::{MB, mounts, throughput, volume, writes};
use super::streams::{REQUEST, Spent, prepare, run as run_streams};
use crate::parts::{Part, Parts, Rows};
use crate::report::Cell;

const PARTS: &[Part] = &[
    Part {
        id: "nanofs/figure-2",
        title: "Figure 2: mount time by number of files",
        columns: &["files", "block reads", "ms"],
        keys: 0,
        note: "paper: one block is read for each file; 1,000 files of 1 MB in less than 250 ms. Files are of 1 MB here \
               too",
        rows: figure_2,
        plot: None,
    },
    Part {
        id: "nanofs/figure-3",
        title: "Figure 3: throughput by buffer size, MB/s",
        columns: &[
            "buffer",
            "card writes",
            "write",
            "paper",
            "card reads",
            "read",
            "paper ",
        ],
        keys: 0,
        note: "paper: nominal 4 and 10 MB/s; of a block's 512 bytes 500 are the file's",
        rows: figure_3,
        plot: None,
    },
    Part {
        id: "nanofs/figure-4",
        title: "Figure 4: block writes by file size, linear",
        columns: BY_LIST,
        keys: 0,
        note: "paper: linear; 2 writes a node by its reverse list (Algorithm 1), 3 by a conventional one",
        rows: figure_4,
        plot: None,
    },
    Part {
        id: "nanofs/figure-5",
        title: "Figure 5: block writes by file size, exponential",
        columns: BY_LIST,
        keys: 0,
        note: "paper: they grow as the size does",
        rows: figure_5,
        plot: None,
    },
    Part {
        id: "nanofs/figure-6",
        title: "Figure 6: reads of one file and appends to another, intertwined",
        columns: &[
            "request",
            "MB each",
            "buffer",
            "reads, s",
            "writes, s",
            "both, s",
        ],
        keys: 0,
        note: "paper: writing takes much longer than reading; a larger buffer takes less time in all. It does not state \
               its requests. Here both streams together gain by a larger buffer with each of these. Reads alone do not: \
               one that follows an append finds none of its file's blocks in RAM, reads as many as the buffer holds, and \
               pays for saving what the other file's last block holds",
        rows: figure_6,
        plot: None,
    },
    Part {
        id: "nanofs/figure-7",
        title: "Figure 7: dirty blocks freed by idle time, 75 % of the card dirty",
        columns: &[
            "idle, ms",
            "blocks, whole files",
            "a ms",
            "blocks, fragmented",
            "a ms ",
        ],
        keys: 0,
        note: "paper: the longer the time, the more blocks for each part of it, because longer runs are found. Here the \
               longest runs come first, so that a short time is used as well as a long one; where dirt is fragmented, \
               what is left for the end are the short runs",
        rows: figure_7,
        plot: None,
    },
    Part {
        id: "nanofs/figure-8",
        title: "Figure 8: the same on a card filled to 90 %, nearly all dirty, with idle time for the collector and without",
        columns: &[
            "dirt",
            "collector",
            "MB each",
            "idle times",
            "reads, s",
            "writes, s",
            "longest, ms",
        ],
        keys: 2,
        note: "paper: slower than on a clean card; much slower without the collector. Its 1 s of idle time in 5 s of work \
               is scaled down with the work where that is shorter than 5 s",
        rows: figure_8,
        plot: None,
    },
    Part {
        id: "nanofs/footprint",
        title: "Footprint (4): RAM and code by size of the buffer, bytes",
        columns: &[
            "buffer",
            "RAM",
            "RAM, paper",
            "code, at most",
            "code, paper",
            "both, at most",
            "both, paper",
        ],
        keys: 0,
        note: "On a Cortex-M3: the build of the firmware fails if the code of all operations is larger. The paper's RAM is \
               a block each for header, handles, bitmap, collector and node, and the buffer; its code lacks what a power \
               cut asks for. Ours has no block for the collector, and the node is in the buffer",
        rows: |_| Ok(footprint::rows()),
        plot: None,
    },
    Part {
        id: "nanofs/buffers",
        title: "Buffers of 1, 2 and 4 blocks: one file in requests of 16 KB, s",
        columns: &["MB", "buffer", "write", "read"],
        keys: 0,
        note: "paper: reads gain much by a larger buffer, writes little (Figure 3)",
        rows: buffers,
        plot: None,
    },
];

const BY_LIST: &[&str] = &[
    "MB",
    "ours",
    "reverse list",
    "conventional list",
    "ours, per node",
];

/// The experiment.
pub const NANOFS: Parts = Parts {
    parts: PARTS,
    code: &["nanofs", "lab-nanofs", "workload"],
    notes: &[
        "The card's time is that of the paper's (class 4: 10.7 MB/s of reads and 4.4 MB/s of writes \
         by single blocks, 12.1 and 5.0 MB/s by four).",
        "The paper does not say what erasing takes: a write of a block that was not erased before \
         is assumed to take twice as long, a trim 2 ms and 2 us a block.",
        "The paper prints Figures 4 to 8 without numbers; what its text says of them stands below \
         each.",
    ],
};

fn mb(bytes: u64) -> Cell {
    Cell::Count(bytes / MB)
}

fn figure_2(quick: bool) -> Result<Rows> {
    let (numbers, size): (&[u32], _) = match quick {
        true => (&[1, 10, 100], 5_000),
        false => (
            &[1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000],
            1_000_000,
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
    Ok(rows.collect())
}

fn figure_3(quick: bool) -> Result<Rows> {
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
    Ok(rows.collect())
}

/// Writes for files of these sizes, by each list.
fn by_list(sizes: &[u64]) -> Result<Rows> {
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
    Ok(rows.collect())
}

fn figure_4(quick: bool) -> Result<Rows> {
    let step = if quick { MB / 2 } else { 38 * MB };
    let first = if quick { MB } else { 100 * MB };
    let sizes: Vec<u64> = (0..7).map(|i| first + i * step).collect();
    by_list(&sizes)
}

fn figure_5(quick: bool) -> Result<Rows> {
    let last = if quick { 2 } else { 7 };
    let sizes: Vec<u64> = (0..=last).map(|x| MB << x).collect();
    by_list(&sizes)
}

fn sizes(quick: bool) -> &'static [u64] {
    if quick { &[1] } else { &[2, 4, 8, 16] }
}

/// Requests of Figure 6: four nodes, what comes easy, and eight buffers of four blocks.
const REQUESTS: [usize; 3] = [2_000, REQUEST, 16_000];

fn figure_6(quick: bool) -> Result<Rows> {
    fn spent<const N: usize>(size: u64, request: usize) -> Result<Spent> {
        let mut fs = volume::<N>(2 * size + MB, 4)?;
        let files = prepare(&mut fs, size)?;
        run_streams(&mut fs, files, size, request, None)
    }
    let mut rows = Vec::new();
    for request in REQUESTS {
        for &n in sizes(quick) {
            let by_buffer = [
                spent::<3>(n * MB, request)?,
                spent::<4>(n * MB, request)?,
                spent::<6>(n * MB, request)?,
            ];
            for (buffer, spent) in [512, 1024, 2048].into_iter().zip(by_buffer) {
                rows.push(vec![
                    Cell::Count(request as u64),
                    Cell::Count(n),
                    Cell::Count(buffer),
                    Cell::Measure(spent.reads, 2),
                    Cell::Measure(spent.writes, 2),
                    Cell::Measure(spent.reads + spent.writes, 2),
                ]);
            }
        }
    }
    Ok(rows)
}

fn figure_7(quick: bool) -> Result<Rows> {
    let bytes = if quick { 8 * MB } else { 64 * MB };
    let seconds = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0];
    let [whole, fragmented] =
        [Dirt::Whole, Dirt::Fragmented].map(|dirt| freed(bytes, &seconds, dirt));
    let rows = seconds.iter().zip(whole?.into_iter().zip(fragmented?));
    let rows = rows.map(|(&s, (whole, fragmented))| {
        let rate = |blocks: u64| Cell::Measure(blocks as f64 / (s * 1e3), 1);
        vec![
            Cell::Count((s * 1e3) as u64),
            Cell::Count(whole),
            rate(whole),
            Cell::Count(fragmented),
            rate(fragmented),
        ]
    });
    Ok(rows.collect())
}

fn figure_8(quick: bool) -> Result<Rows> {
    let mut rows = Vec::new();
    for (dirt, name) in [
        (Dirt::Whole, "whole files"),
        (Dirt::Fragmented, "fragmented"),
    ] {
        for &n in sizes(quick) {
            let found = streams(n * MB, dirt, idle(n))?;
            for (how, spent) in ["on", "off"].into_iter().zip(found) {
                rows.push(vec![
                    name.into(),
                    how.into(),
                    Cell::Count(n),
                    Cell::Count(spent.idle),
                    Cell::Measure(spent.reads, 2),
                    Cell::Measure(spent.writes, 2),
                    Cell::Measure(spent.longest_ms, 1),
                ]);
            }
        }
    }
    Ok(rows)
}

fn buffers(quick: bool) -> Result<Rows> {
    let size = if quick { MB } else { 16 * MB };
    let found = [
        (1, throughput::<3>(size)?),
        (2, throughput::<4>(size)?),
        (4, throughput::<6>(size)?),
    ];
    let seconds = |rate: f64| Cell::Measure(size as f64 / 1e6 / rate, 2);
    let rows = found.map(|(blocks, (write, read))| {
        vec![
            mb(size),
            Cell::Count(512 * blocks),
            seconds(write),
            seconds(read),
        ]
    });
    Ok(rows.to_vec())
}

//! Werbet, Brayner: *A Flash File System for Resource Restricted Platforms*, 2012.

use super::{Item, Judged, Look, Paper, Verdict, better, column, holds, number, ratios};

pub const PAPER: Paper = Paper {
    name: "A Flash File System for Resource Restricted Platforms (JIDM 2012)",
    study: "nanofs",
    by_title: true,
    items: &[
        Item {
            place: "Figure 2",
            what: "a mount reads a block for each file: 1,000 files of 1 MB in less than 250 ms",
            ours: "Figure 2",
            judge: mounts,
        },
        Item {
            place: "Figure 3",
            what: "4.4 and 10.7 MB/s with a buffer of a block, 5.0 and 12.1 with four",
            ours: "Figure 3",
            judge: throughput,
        },
        Item {
            place: "Figure 4",
            what: "operations grow with the file, 2 a block by a reverse list and 3 by a conventional one",
            ours: "Figure 4",
            judge: |look| lists(look, "Figure 4"),
        },
        Item {
            place: "Figure 5",
            what: "the same for sizes that double",
            ours: "Figure 5",
            judge: |look| lists(look, "Figure 5"),
        },
        Item {
            place: "Figure 6",
            what: "of two streams in turn, writes take longer than reads; a larger buffer takes less time in all",
            ours: "Figure 6",
            judge: streams,
        },
        Item {
            place: "Figure 7",
            what: "the longer the collector may run, the more blocks it frees a millisecond",
            ours: "Figure 7",
            judge: collector,
        },
        Item {
            place: "Figure 8 (a)",
            what: "on a card full of dirty blocks the streams take longer, writes above all",
            ours: "Figure 8",
            judge: dirty,
        },
        Item {
            place: "Figure 8 (b)",
            what: "without the collector they take far longer",
            ours: "Figure 8",
            judge: without,
        },
        Item {
            place: "Section 4",
            what: "3 KB of code; 6 KB with its RAM, 8 KB with a buffer of 2 KB",
            ours: "Footprint",
            judge: footprint,
        },
    ],
};

fn mounts(look: &Look<'_>) -> Judged {
    let table = look.table("nanofs", "Figure 2")?;
    let last = table.rows.len() - 1;
    let (files, ms) = (number(table, last, "files")?, number(table, last, "ms")?);
    let reads = number(table, last, "block reads")?;
    better(
        reads <= files + 1.0 && ms < 250.0,
        false,
        format!("{files:.0} files: {reads:.0} blocks read, {ms:.1} ms"),
        "",
    )
}

fn throughput(look: &Look<'_>) -> Judged {
    let table = look.table("nanofs", "Figure 3")?;
    let (least, _) = ratios(table, "write", "paper")?;
    let (reads, _) = ratios(table, "read", "paper ")?;
    holds(
        least > 0.95 && reads > 0.95,
        format!(
            "at least {:.1} % of the paper's writes and {:.1} % of its reads: 12 of a block's 512 bytes are not the file's",
            100.0 * least,
            100.0 * reads
        ),
        "",
    )
}

fn lists(look: &Look<'_>, title: &str) -> Judged {
    let table = look.table("nanofs", title)?;
    let (ours, _) = ratios(table, "reverse list", "ours")?;
    let (conventional, _) = ratios(table, "conventional list", "ours")?;
    let per_node = column(table, "ours, per node");
    better(
        ours > 1.9 && conventional > 2.9,
        false,
        format!(
            "{:.3} writes a block, where the paper's list takes {ours:.2} times as many and a conventional one {conventional:.2}",
            per_node.first()?
        ),
        "",
    )
}

fn streams(look: &Look<'_>) -> Judged {
    let table = look.table("nanofs", "Figure 6")?;
    let rows = table.rows.len();
    let both = |row| Some(number(table, row, "reads, s")? + number(table, row, "writes, s")?);
    let (mut saved, mut always) = (f64::INFINITY, true);
    for first in (0..rows).step_by(3) {
        let (small, large): (f64, f64) = (both(first)?, both(first + 2)?);
        always &= large < small;
        saved = saved.min(1.0 - large / small);
    }
    let slower = (0..rows)
        .filter(|row| number(table, *row, "writes, s") > number(table, *row, "reads, s"))
        .count();
    let found = format!(
        "a buffer of four blocks takes at least {:.0} % less than one of one block, at all sizes and requests; writes \
         take longer than reads in {slower} of {rows}",
        100.0 * saved
    );
    holds(
        always && slower == rows,
        found,
        "Requests are not stated. Small ones of two files in turn find no block of their file in the one buffer, and a \
         read pays for saving what the other has appended; of 16,000 bytes writes take longer",
    )
}

fn collector(look: &Look<'_>) -> Judged {
    let table = look.table("nanofs", "Figure 7")?;
    let rates = column(table, "a ms ");
    let (first, last) = (rates.first()?, rates.iter().rev().nth(1)?);
    holds(
        *last > 1.1 * first,
        format!("{first:.1} blocks a ms in 50 ms, {last:.1} in 2 s"),
        "The longest runs of dirty blocks are freed first, so a short idle time is as good as a long one; the paper's \
         takes what it meets",
    )
}

fn on_and_off(look: &Look<'_>, column: &str) -> Option<Vec<(f64, f64)>> {
    let table = look.table("nanofs", "Figure 8")?;
    let rows = (0..table.rows.len()).step_by(2);
    let pairs =
        rows.map(|row| Some((number(table, row, column)?, number(table, row + 1, column)?)));
    pairs.collect()
}

fn dirty(look: &Look<'_>) -> Judged {
    let clean = look.table("nanofs", "Figure 6")?;
    let row = (0..clean.rows.len()).rev().find(|row| {
        number(clean, *row, "request") == Some(2_048.0)
            && number(clean, *row, "buffer") == Some(512.0)
    })?;
    let clean = number(clean, row, "writes, s")?;
    let dirty = on_and_off(look, "writes, s")?.last()?.0;
    if dirty < 1.05 * clean {
        let found = format!(
            "writes take {dirty:.2} s on the dirty card and {clean:.2} on a clean one: the idle time is enough for the \
             collector, and no write waits for it"
        );
        return Some((Verdict::Better, found));
    }
    holds(
        true,
        format!("writes take {dirty:.2} s, {clean:.2} on a clean card"),
        "",
    )
}

fn without(look: &Look<'_>) -> Judged {
    let writes = on_and_off(look, "writes, s")?;
    let longest = on_and_off(look, "longest, ms")?;
    let (on, off) = writes
        .iter()
        .fold((0.0, 0.0), |sum, two| (sum.0 + two.0, sum.1 + two.1));
    holds(
        off > 1.5 * on,
        format!(
            "writes take {:.2} times as long, and the longest request {:.0} ms in place of {:.1}",
            off / on,
            longest.last()?.1,
            longest.last()?.0
        ),
        "",
    )
}

fn footprint(look: &Look<'_>) -> Judged {
    let table = look.table("nanofs", "Footprint")?;
    let (ram, code) = (column(table, "RAM"), column(table, "code, at most"));
    let (least, most) = ratios(table, "RAM", "RAM, paper")?;
    holds(
        *code.first()? <= 3_072.0,
        format!(
            "{:.0} to {:.0} bytes of RAM, {least:.2} to {most:.2} times the paper's; code of at most {:.0} bytes, twice the paper's",
            ram.first()?,
            ram.last()?,
            code.first()?
        ),
        "The code has what the paper's lacks: checks of each block, recovery after a power cut, overwrites that are whole \
         or not at all",
    )
}

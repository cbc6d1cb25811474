//! Choi, Lim, Park: *JFTL: A Flash Translation Layer Based on a Journal Remapping*, 2009.

use super::{Item, Judged, Look, Paper, Verdict, holds, number, spread};
use crate::report::{Cell, Table};

pub const PAPER: Paper = Paper {
    name: "JFTL: A Flash Translation Layer Based on a Journal Remapping for Flash Memory (ACM TOS 2009)",
    study: "jftl",
    by_title: true,
    items: &[
        Item {
            place: "Figure 9",
            what: "Tar: 10, 5 and 70 % faster in writeback, ordered and journaled mode",
            ours: "Figure 9",
            judge: |look| factors(look, "Figure 9"),
        },
        Item {
            place: "Figure 10",
            what: "Postmark: 20, 10 and 60 % faster",
            ours: "Figure 10: Postmark",
            judge: |look| factors(look, "Figure 10: Postmark"),
        },
        Item {
            place: "Figure 11",
            what: "dbench by clients: slightly better, vastly in journaled mode",
            ours: "Figure 11",
            judge: |look| vastly(look, "Figure 11"),
        },
        Item {
            place: "Figure 12",
            what: "Filebench: never worse, over 10 % better with many files, journaled more than 50 %",
            ours: "Figure 12",
            judge: |look| vastly(look, "Figure 12"),
        },
        Item {
            place: "Figure 13",
            what: "Bonnie: journaled is as fast as ordered, and much slower without remapping",
            ours: "Figure 13",
            judge: |look| as_ordered(look, "Figure 13"),
        },
        Item {
            place: "Figure 14",
            what: "Tiobench: as in Figure 13; latency in proportion to the threads",
            ours: "Figure 14",
            judge: latency,
        },
        Item {
            place: "Figure 15",
            what: "IOzone: throughput rises with the request, and the gap of the journaled modes widens",
            ours: "Figure 15",
            judge: requests,
        },
        Item {
            place: "Table II",
            what: "recovery of a full journal takes 32 ms in place of 1,800",
            ours: "Table II",
            judge: recovery,
        },
        Item {
            place: "Section 3.1.1",
            what: "remapping alone is what makes it faster",
            ours: "Remapping alone",
            judge: alone,
        },
        Item {
            place: "Section 3.1.2",
            what: "garbage detection: cleaning copies less when the layer knows what is deleted",
            ours: "Garbage detection",
            judge: garbage,
        },
    ],
};

fn text(table: &Table, row: &[Cell], column: &str) -> Option<String> {
    let at = table.columns.iter().position(|held| *held == column)?;
    match row.get(at)? {
        Cell::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// Rows by mode: how much faster.
fn faster(table: &Table, mode: &str) -> Vec<f64> {
    let rows = 0..table.rows.len();
    rows.filter(|row| text(table, &table.rows[*row], "mode").as_deref() == Some(mode))
        .filter_map(|row| number(table, row, "faster"))
        .collect()
}

fn factors(look: &Look<'_>, title: &str) -> Judged {
    let table = look.table("jftl", title)?;
    let rows = 0..table.rows.len();
    let over = rows.filter_map(|row| {
        let paper = number(table, row, "paper")?;
        Some(number(table, row, "asked the same")? / paper)
    });
    let (least, most) = spread(over)?;
    let found = format!("asked for the same, {least:.2} to {most:.2} times the paper's factors");
    match least {
        x if x >= 1.0 => Some((Verdict::Better, found)),
        x => holds(
            x >= 0.95,
            found,
            "Unchanged sectors were not told in the paper",
        ),
    }
}

/// Never slower, and much faster where data is journalled.
fn vastly(look: &Look<'_>, title: &str) -> Judged {
    let table = look.table("jftl", title)?;
    let quick: Vec<f64> = ["writeback", "ordered"]
        .iter()
        .flat_map(|mode| faster(table, mode))
        .collect();
    let (least, _) = spread(quick.iter().copied())?;
    let (journaled, most) = spread(faster(table, "journal").into_iter())?;
    holds(
        least > 0.97 && journaled > 1.4,
        format!(
            "at least {least:.2} times as fast in writeback and ordered mode, {journaled:.2} to {most:.2} times journaled"
        ),
        "",
    )
}

/// A column by load, in the table's order, of one mode.
fn by_load(table: &Table, mode: &str, column: &str) -> Vec<(String, f64)> {
    let rows = 0..table.rows.len();
    rows.filter(|row| text(table, &table.rows[*row], "mode").as_deref() == Some(mode))
        .filter_map(|row| {
            let load = text(table, &table.rows[row], "load")?;
            Some((load, number(table, row, column)?))
        })
        .collect()
}

/// Full journaling with remapping takes as long as ordered mode without, and `page` far longer.
fn as_ordered(look: &Look<'_>, title: &str) -> Judged {
    let table = look.table("jftl", title)?;
    let ordered = by_load(table, "ordered", "s");
    let over = |of: &[(String, f64)]| {
        let quotient = |(load, s): &(String, f64)| {
            let (_, ordered) = ordered.iter().find(|(held, _)| held == load)?;
            Some(s / ordered)
        };
        spread(of.iter().filter_map(quotient))
    };
    let (_, jftl) = over(&by_load(table, "journal", "s "))?;
    let (page, _) = over(&by_load(table, "journal", "s"))?;
    holds(
        jftl < 1.05 && page > 1.4,
        format!(
            "journaled takes {jftl:.2} times as long as ordered mode without remapping at most; {page:.2} times at least \
             without it"
        ),
        "",
    )
}

/// Latency by threads: each round of so many writes takes longer in their proportion.
fn latency(look: &Look<'_>) -> Judged {
    let table = look.table("jftl", "Figure 14")?;
    let (judged, found) = vastly(look, "Figure 14")?;
    let growth = |mode, column| {
        let held = by_load(table, mode, column);
        Some(held.last()?.1 / held.first()?.1)
    };
    let grown = ["ordered", "journal"]
        .iter()
        .flat_map(|mode| [growth(mode, "s"), growth(mode, "s ")]);
    let (least, most) = spread(grown.flatten())?;
    holds(
        judged == Verdict::Repeated && least > 16.0,
        format!(
            "{found}; 32 threads wait {least:.0} to {most:.0} times as long as one (some writes share a transaction)"
        ),
        "",
    )
}

/// Requests of 4 KiB to 4 MiB.
fn requests(look: &Look<'_>) -> Judged {
    let table = look.table("jftl", "Figure 15")?;
    let ends = |mode, column| {
        let held = by_load(table, mode, column);
        Some((held.first()?.1, held.last()?.1))
    };
    let (small, large) = ends("journal", "s ")?;
    let (page_small, page_large) = ends("journal", "s")?;
    let [gap_small, gap_large] = [
        4096.0 / small - 4096.0 / page_small,
        4096.0 / large - 4096.0 / page_large,
    ];
    holds(
        small > 1.1 * large && gap_large > 1.1 * gap_small,
        format!(
            "journaled, 4 MiB in one request is {:.2} times as fast as by 4 KiB; jftl is ahead by {gap_small:.0} KiB/s by \
             4 KiB and by {gap_large:.0} in one",
            small / large
        ),
        "A transaction of the kernel takes what several requests write",
    )
}

fn recovery(look: &Look<'_>) -> Judged {
    let table = look.table("jftl", "Table II")?;
    let (page, stock, explicit) = (
        number(table, 0, "recovery")?,
        number(table, 1, "recovery")?,
        number(table, 2, "recovery")?,
    );
    let found = format!(
        "{explicit:.1} ms through the paper's interface, {stock:.0} with a stock kernel, {page:.0} without remapping"
    );
    match explicit <= 32.0 {
        true => Some((Verdict::Better, found)),
        false => holds(
            false,
            found,
            "The records of the remaps are programmed one page each",
        ),
    }
}

fn alone(look: &Look<'_>) -> Judged {
    let table = look.table("jftl", "Remapping alone")?;
    let rows = 0..table.rows.len();
    let journaled =
        rows.filter(|row| text(table, &table.rows[*row], "mode").as_deref() == Some("journal"));
    let (least, most) = spread(journaled.filter_map(|row| number(table, row, "remap: faster")))?;
    holds(
        least > 1.4,
        format!(
            "journaled, remapping alone is {least:.2} to {most:.2} times as fast as the layer without"
        ),
        "Where each write is synchronous, pages of the log and of the journal's own blocks are a part of it",
    )
}

fn garbage(look: &Look<'_>) -> Judged {
    let table = look.table("jftl", "Garbage detection")?;
    let (without, with) = (number(table, 0, "copies")?, number(table, 1, "copies")?);
    holds(
        with < 0.9 * without,
        format!("cleaning copies {with:.0} pages in place of {without:.0}"),
        "",
    )
}

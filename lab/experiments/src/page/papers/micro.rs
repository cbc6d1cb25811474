//! Olivier, Boukhobza, Senn: *Micro-benchmarking Flash Memory File-System Wear Leveling and Garbage
//! Collection*, 2012. Its observations have verdicts of their own; here they are counted by table
//! and figure.

use super::{Item, Judged, Look, Paper, Verdict};
use crate::report::Cell;

pub const PAPER: Paper = Paper {
    name: "Micro-benchmarking Flash Memory File-System Wear Leveling and Garbage Collection (2012)",
    study: "micro",
    by_title: false,
    items: &[
        Item {
            place: "Figure 2",
            what: "time of reads and writes, in sequence and at random, by size of request",
            ours: "saturated",
            judge: |look| place(look, "V.A", |what| !what.contains("erase")),
        },
        Item {
            place: "Figure 4",
            what: "erases of writes, and how they deviate",
            ours: "saturated",
            judge: |look| place(look, "V.A", |what| what.contains("erase")),
        },
        Item {
            place: "Figure 5",
            what: "random writes on a partition 30, 60 and 75 % full",
            ours: "fill",
            judge: |look| place(look, "V.B", |_| true),
        },
        Item {
            place: "Figure 6",
            what: "random writes with pauses between",
            ours: "pause",
            judge: |look| place(look, "V.C", |_| true),
        },
        Item {
            place: "Table I",
            what: "what each file system is good for",
            ours: "saturated",
            judge: |look| place(look, "Table I", |_| true),
        },
    ],
};

/// The verdicts on the observations of a place: repeated if most of those measured are confirmed.
fn place(look: &Look<'_>, place: &str, of: fn(&str) -> bool) -> Judged {
    let report = look.report("micro")?;
    let table = report.tables.iter().find(|table| {
        table
            .rows
            .iter()
            .any(|row| is(row, "confirmed") || is(row, "changed"))
    })?;
    let (mut confirmed, mut changed, mut open) = (0, 0, 0);
    for row in &table.rows {
        let [Cell::Text(at), ..] = &row[..] else {
            continue;
        };
        let text = |cell: &Cell| matches!(cell, Cell::Text(text) if of(text));
        if !at.starts_with(place) || !row.iter().skip(1).any(text) {
            continue;
        }
        confirmed += u32::from(is(row, "confirmed"));
        changed += u32::from(is(row, "changed"));
        open += u32::from(is(row, "not measured"));
    }
    let found = format!(
        "of its observations {confirmed} are confirmed, {changed} changed, {open} not measured yet: the table of \
         observations says each"
    );
    Some(match (confirmed, changed) {
        (0, 0) => (Verdict::NotMeasured, found),
        (_, 0) => (Verdict::Repeated, found),
        _ => (
            Verdict::Different,
            format!(
                "{found}. Most depend on whether writes are durable, which the paper does not state"
            ),
        ),
    })
}

fn is(row: &[Cell], word: &str) -> bool {
    row.iter()
        .any(|cell| matches!(cell, Cell::Text(text) if text == word))
}

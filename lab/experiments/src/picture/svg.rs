//! The picture as SVG: a row for each call, a bar for each flash operation, as long as it takes.

use std::fmt::Write;

use super::{Call, Does, Holds, Operation};

/// By it the picture is known again.
pub const TITLE: &str = "What FlashLight does on the chip, call by call";
/// Size in units that are pixels on a desktop; a phone shows it at little more than half of that.
const WIDTH: f64 = 640.0;
/// Where the bars begin, and where they go on in a line of their own.
const LEFT: f64 = 238.0;
const RIGHT: f64 = WIDTH - 12.0;
/// A millisecond of flash time.
const MS: f64 = 90.0;
const BAR: f64 = 18.0;
const LINE: f64 = 24.0;
const ROW: f64 = 44.0;
const TOP: f64 = 92.0;

/// Colour and name of what an operation is, in the order of the legend.
const KINDS: [(&str, &str); 7] = [
    ("#8c959f", "read"),
    ("#ffb3ad", "erase"),
    ("#0969da", "program: data"),
    ("#d4572a", "program: inode"),
    ("#2da44e", "program: directory"),
    ("#8250df", "program: allocation record"),
    ("#bf8700", "program: checkpoint"),
];

fn kind(does: Does) -> usize {
    match does {
        Does::Read => 0,
        Does::Erase => 1,
        Does::Program(Holds::Data) => 2,
        Does::Program(Holds::Inode) => 3,
        Does::Program(Holds::Directory) => 4,
        Does::Program(Holds::Allocation) => 5,
        Does::Program(Holds::Checkpoint) => 6,
    }
}

/// What a call costs, in words.
fn cost(operations: &[Operation]) -> String {
    let count = |wanted: fn(&Does) -> bool| {
        let found = operations.iter().filter(|op| wanted(&op.does));
        found.count()
    };
    let counts = [
        (count(|does| matches!(does, Does::Read)), "read"),
        (count(|does| matches!(does, Does::Program(..))), "program"),
        (count(|does| matches!(does, Does::Erase)), "erase"),
    ];
    let words: Vec<String> = counts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }))
        .collect();
    if words.is_empty() {
        return "nothing on flash".into();
    }
    words.join(", ")
}

fn text(out: &mut String, at: (f64, f64), class: &str, words: &str) {
    let (x, y) = at;
    let _ = writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{words}</text>"#
    );
}

fn bar(out: &mut String, at: (f64, f64), width: f64, kind: usize) {
    let ((x, y), colour) = (at, KINDS[kind].0);
    let _ = writeln!(
        out,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}" fill="{colour}"/>"#
    );
}

fn legend(out: &mut String) {
    let (mut x, mut y) = (12.0, 54.0);
    for (kind, (_, name)) in KINDS.iter().enumerate() {
        let width = 28.0 + 7.3 * name.len() as f64;
        if x + width > RIGHT {
            (x, y) = (12.0, y + 20.0);
        }
        let _ = writeln!(
            out,
            r#"<rect x="{x:.1}" y="{:.1}" width="12" height="12" fill="{}"/>"#,
            y - 10.0,
            KINDS[kind].0
        );
        text(out, (x + 16.0, y), "small", name);
        x += width;
    }
}

/// The bars of a call, and behind them their flash time; gives how far down they reach.
fn bars(out: &mut String, top: f64, operations: &[Operation]) -> f64 {
    let (mut x, mut y) = (LEFT, top);
    for op in operations {
        let mut left = op.ns as f64 / 1e6 * MS;
        // A hair of white between two operations.
        let gap = 1.0;
        while left > 0.0 {
            let width = left.min(RIGHT - x);
            bar(out, (x, y), (width - gap).max(0.5), kind(op.does));
            (x, left) = (x + width, left - width);
            if RIGHT - x < 0.05 {
                (x, y) = (LEFT, y + LINE);
            }
        }
    }
    if operations.is_empty() {
        return y;
    }
    let ns: u64 = operations.iter().map(|op| op.ns).sum();
    let time = format!("{:.2} ms", ns as f64 / 1e6);
    text(out, (x + 6.0, y + 14.0), "small", &time);
    y + LINE
}

/// Draws the calls.
pub fn draw(calls: &[Call]) -> String {
    let mut rows = String::new();
    let mut y = TOP;
    for call in calls {
        let below = bars(&mut rows, y, &call.operations);
        text(&mut rows, (12.0, y + 14.0), "call", call.what);
        text(
            &mut rows,
            (12.0, y + 30.0),
            "small",
            &cost(&call.operations),
        );
        y = below.max(y + ROW - 4.0) + 6.0;
    }
    let height = y + 6.0;
    let mut out = format!(
        concat!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1:.0}" viewBox="0 0 {0} {1:.0}" "#,
            r#"font-family="Helvetica, Arial, DejaVu Sans, sans-serif" role="img">"#,
            "\n<style>.title {{ font-size: 17px; font-weight: bold }} ",
            ".call {{ font-size: 15px; font-weight: bold }} .small {{ font-size: 13px }} ",
            "text {{ fill: #1f2328 }}</style>\n",
            r##"<rect width="100%" height="100%" fill="#ffffff"/>"##,
            "\n"
        ),
        WIDTH, height
    );
    text(&mut out, (12.0, 28.0), "title", TITLE);
    legend(&mut out);
    out.push_str(&rows);
    out.push_str("</svg>\n");
    out
}

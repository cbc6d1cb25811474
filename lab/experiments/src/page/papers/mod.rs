//! The five papers: each table and figure that shows a measurement, and what became of it here.
//!
//! A verdict is computed from the results, so it changes with them. Those that a paper only
//! draws, to explain, are not among them.

mod flashlight;
mod inside;
mod jftl;
mod logdisk;
mod micro;
mod nanofs;

use serde_json::{Value, json};

use super::Chapter;
use crate::experiments;
use crate::report::{Figure, Report, Table};

/// What became of a table or figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It comes out as in the paper.
    Repeated,
    /// It comes out as in the paper, and better.
    Better,
    /// It comes out otherwise; the text says why.
    Different,
    /// It cannot be measured here; the text says why.
    NotTestable,
    /// Its results are not there yet.
    NotMeasured,
}

impl Verdict {
    /// All, in the order they are counted in.
    pub const ALL: [Verdict; 5] = [
        Verdict::Repeated,
        Verdict::Better,
        Verdict::Different,
        Verdict::NotTestable,
        Verdict::NotMeasured,
    ];

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Verdict::Repeated => "repeated",
            Verdict::Better => "better",
            Verdict::Different => "different",
            Verdict::NotTestable => "not testable",
            Verdict::NotMeasured => "not measured yet",
        }
    }
}

/// A verdict, and what was found or why.
type Judged = Option<(Verdict, String)>;

/// A table or figure of a paper.
pub struct Item {
    /// Its number.
    pub place: &'static str,
    /// What the paper says with it, in our words.
    pub what: &'static str,
    /// What the title of ours begins with, and what runs it again: `--only` of its study. Of
    /// another experiment the name stands before it.
    pub ours: &'static str,
    judge: fn(&Look<'_>) -> Judged,
}

/// A paper.
pub struct Paper {
    /// What the project calls it.
    pub name: &'static str,
    /// The study that repeats it.
    pub study: &'static str,
    /// What `--only` chooses by: titles, or names of cases.
    by_title: bool,
    /// Its tables and figures.
    pub items: &'static [Item],
}

/// All papers, the newest first.
pub const PAPERS: [&Paper; 5] = [
    &flashlight::PAPER,
    &micro::PAPER,
    &nanofs::PAPER,
    &jftl::PAPER,
    &logdisk::PAPER,
];

/// A table or figure with what became of it.
pub struct Row {
    /// The table or figure.
    pub item: &'static Item,
    /// What became of it.
    pub verdict: Verdict,
    /// What was found, or why.
    pub found: String,
}

impl Paper {
    /// All of it, judged by the results.
    pub fn rows(&self, look: &Look<'_>) -> Vec<Row> {
        let row = |item: &'static Item| {
            let judged = (item.judge)(look);
            let (verdict, found) = judged.unwrap_or_else(|| {
                (
                    Verdict::NotMeasured,
                    "there are no results of it yet".into(),
                )
            });
            Row {
                item,
                verdict,
                found,
            }
        };
        self.items.iter().map(row).collect()
    }

    /// The command that runs a table or figure again.
    pub fn command(&self, item: &Item) -> String {
        let other = item.ours.split_once(' ').filter(|(name, _)| {
            let mut experiments = experiments().iter();
            experiments.any(|experiment| experiment.name == *name)
        });
        match (item.ours, other) {
            ("", _) => String::new(),
            (_, Some((name, title))) => format!("flashkit lab run {name} --only '{title}'"),
            (ours, None) if self.by_title => {
                format!("flashkit lab run {} --only '{ours}'", self.study)
            }
            (ours, None) => format!("flashkit lab run {} --only {ours}", self.study),
        }
    }

    /// As an object.
    pub fn json(&self, look: &Look<'_>) -> Value {
        let rows = self.rows(look).into_iter().map(|row| {
            json!({
                "place": row.item.place,
                "paper": row.item.what,
                "verdict": row.verdict.title(),
                "here": row.found,
                "command": self.command(row.item),
            })
        });
        json!({ "paper": self.name, "study": self.study, "items": rows.collect::<Vec<_>>() })
    }
}

/// How many there are of each verdict, in words.
pub fn counted(rows: &[Row]) -> String {
    let counts = Verdict::ALL.map(|verdict| {
        let n = rows.iter().filter(|row| row.verdict == verdict).count();
        (n > 0).then(|| format!("{n} {}", verdict.title()))
    });
    counts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The results, to be looked at.
pub struct Look<'a> {
    pub(super) chapters: &'a [Chapter],
}

impl Look<'_> {
    fn report(&self, study: &str) -> Option<&Report> {
        let held = self.chapters.iter().find(|chapter| chapter.name == study)?;
        Some(&held.report)
    }

    /// The table whose title begins so.
    fn table(&self, study: &str, title: &str) -> Option<&Table> {
        let mut tables = self.report(study)?.tables.iter();
        tables.find(|table| table.title.starts_with(title) && !table.rows.is_empty())
    }

    /// The figure whose title begins so.
    fn figure(&self, study: &str, title: &str) -> Option<&Figure> {
        let mut figures = self.report(study)?.figures.iter();
        figures.find(|figure| figure.title.starts_with(title))
    }
}

/// A number of a table.
fn number(table: &Table, row: usize, column: &str) -> Option<f64> {
    let at = table.columns.iter().position(|held| *held == column)?;
    table.rows.get(row)?.get(at)?.number()
}

/// A column's numbers, those that there are.
fn column(table: &Table, name: &str) -> Vec<f64> {
    let rows = 0..table.rows.len();
    rows.filter_map(|row| number(table, row, name)).collect()
}

/// Least and most of ratios of two columns, where both have a number.
fn ratios(table: &Table, over: &str, under: &str) -> Option<(f64, f64)> {
    let rows = 0..table.rows.len();
    let found = rows.filter_map(|row| {
        let under = number(table, row, under).filter(|x| *x > 0.0)?;
        Some(number(table, row, over)? / under)
    });
    spread(found)
}

/// Least and most.
fn spread(found: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let both = found.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| {
        (least.min(x), most.max(x))
    });
    both.0.is_finite().then_some(both)
}

/// Repeated, if it is so; different with a cause, if not.
fn holds(is_so: bool, found: String, cause: &str) -> Judged {
    Some(match is_so {
        true => (Verdict::Repeated, found),
        false => (Verdict::Different, format!("{found}. {cause}")),
    })
}

/// Better, if it is so; else as [`holds`].
fn better(is_better: bool, is_so: bool, found: String, cause: &str) -> Judged {
    match is_better {
        true => Some((Verdict::Better, found)),
        false => holds(is_so, found, cause),
    }
}

/// Not measured, with what is missing.
fn open(why: &str) -> Judged {
    Some((Verdict::NotMeasured, why.into()))
}

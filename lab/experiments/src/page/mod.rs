//! The results of all studies as one page: HTML that needs nothing beside it, and the same as CSV and
//! JSON.
//!
//! | module | what it does |
//! | --- | --- |
//! | `plot` | curves and bars as SVG |
//! | `html` | the page |
//! | `table` | every number as CSV |

mod html;
mod plot;
mod table;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::report::Report;
use crate::study::{Folder, Outcome};
use crate::{Scale, Study, peers, studies};

/// All that a page shows.
pub struct Page {
    chapters: Vec<Chapter>,
    bars: Vec<Bars>,
    made: Vec<String>,
}

/// A study on the page.
struct Chapter {
    study: &'static Study,
    report: Report,
    outcomes: Vec<Outcome>,
    /// Cases that there are.
    cases: usize,
}

/// Groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// What the values are.
    pub y: &'static str,
    /// Names of the bars of each group.
    pub series: Vec<String>,
    /// Name of a group, and a value for each bar; `None` where there is none.
    pub groups: Vec<(String, Vec<Option<f64>>)>,
    /// What is to be said of it.
    pub note: &'static str,
}

impl Page {
    /// Of all results in a folder.
    ///
    /// # Errors
    /// A result cannot be read, or there is none.
    pub fn of(folder: &Folder) -> anyhow::Result<Page> {
        let mut chapters = Vec::new();
        for study in studies() {
            let cases = (study.cases)(Scale::Full);
            let outcomes = folder.load_all(&cases)?;
            if !outcomes.is_empty() {
                chapters.push(Chapter {
                    study,
                    report: (study.report)(&outcomes),
                    outcomes,
                    cases: cases.len(),
                });
            }
        }
        let none = folder.dir().display();
        anyhow::ensure!(
            !chapters.is_empty(),
            "{none}: no results; `flashkit lab run micro` makes some"
        );
        let all = || chapters.iter().flat_map(|chapter| &chapter.outcomes);
        let made: BTreeSet<String> = all().map(made).collect();
        let bars = peers::bars(&all().cloned().collect::<Vec<_>>());
        Ok(Page {
            bars: bars.into_iter().collect(),
            made: made.into_iter().collect(),
            chapters,
        })
    }

    /// As a web page that loads nothing else.
    ///
    /// # Errors
    /// A plot cannot be drawn.
    pub fn html(&self) -> anyhow::Result<String> {
        html::page(self)
    }

    /// Every case with its figures, one a line.
    ///
    /// # Errors
    /// Never, but the writer says so.
    pub fn csv(&self) -> anyhow::Result<String> {
        table::csv(self.chapters.iter().flat_map(|chapter| &chapter.outcomes))
    }

    /// Tables, figures and cases.
    pub fn json(&self) -> Value {
        let chapters = self.chapters.iter().map(|chapter| {
            let mut object = chapter
                .report
                .json(chapter.study.name, chapter.study.source);
            object["cases"] = json!(chapter.outcomes);
            object
        });
        json!({ "made": self.made, "studies": chapters.collect::<Vec<_>>() })
    }
}

/// Where and with what a result was made, in a line.
fn made(outcome: &Outcome) -> String {
    let made = &outcome.made;
    match &made.kernel {
        Some(kernel) => format!(
            "flashkit {}, Linux {kernel} in a guest, on {}",
            made.flashkit, made.machine
        ),
        None => format!("flashkit {}, on {}", made.flashkit, made.machine),
    }
}

//! The results of all studies, and of experiments that keep theirs, as one page: HTML that needs
//! nothing beside it, and the same as CSV and JSON.
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

use crate::jftl::Measured;
use crate::report::{Bars, Report};
use crate::study::{Folder, Made, Outcome};
use crate::{Scale, experiments, peers, studies};

/// All that a page shows.
pub struct Page {
    chapters: Vec<Chapter>,
    bars: Vec<Bars>,
    made: Vec<String>,
}

/// A study, or an experiment that keeps its results, on the page.
struct Chapter {
    name: &'static str,
    what: &'static str,
    source: &'static str,
    report: Report,
    outcomes: Vec<Outcome>,
    measured: Vec<Measured>,
    /// Cases that there are.
    cases: usize,
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
                    name: study.name,
                    what: study.what,
                    source: study.source,
                    report: (study.report)(&outcomes),
                    outcomes,
                    measured: Vec::new(),
                    cases: cases.len(),
                });
            }
        }
        for experiment in experiments() {
            let Some(look) = experiment.kept else {
                continue;
            };
            if let Some(kept) = look(folder)? {
                chapters.push(Chapter {
                    name: experiment.name,
                    what: experiment.what,
                    source: experiment.source,
                    report: kept.report,
                    outcomes: Vec::new(),
                    measured: kept.measured,
                    cases: kept.all,
                });
            }
        }
        let none = folder.dir().display();
        anyhow::ensure!(
            !chapters.is_empty(),
            "{none}: no results; `flashkit lab run micro` makes some"
        );
        let all = || chapters.iter().flat_map(|chapter| &chapter.outcomes);
        let measured = || chapters.iter().flat_map(|chapter| &chapter.measured);
        let notes = all()
            .map(|outcome| &outcome.made)
            .chain(measured().map(|held| &held.made));
        let made: BTreeSet<String> = notes.map(made).collect();
        let bars = peers::bars(&all().cloned().collect::<Vec<_>>());
        Ok(Page {
            bars,
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
        let outcomes = self.chapters.iter().flat_map(|chapter| &chapter.outcomes);
        let measured = self.chapters.iter().flat_map(|chapter| &chapter.measured);
        table::csv(outcomes, measured)
    }

    /// Tables, figures and cases.
    pub fn json(&self) -> Value {
        let chapters = self.chapters.iter().map(|chapter| {
            let mut object = chapter.report.json(chapter.name, chapter.source);
            object["cases"] = match chapter.measured.is_empty() {
                true => json!(chapter.outcomes),
                false => json!(chapter.measured),
            };
            object
        });
        json!({ "made": self.made, "studies": chapters.collect::<Vec<_>>() })
    }
}

/// Where and with what a result was made, in a line.
fn made(made: &Made) -> String {
    let mut line = format!("flashkit {}", made.flashkit);
    if let Some(kernel) = &made.kernel {
        line += &format!(", Linux {kernel}");
    }
    if let Some(package) = &made.package {
        line += &format!(", {package}");
    }
    line + &format!(", on {}", made.machine)
}

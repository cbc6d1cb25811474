//! The results of all studies, and of experiments that keep theirs, as one page: HTML that needs
//! nothing beside it, and the same as CSV and JSON.
//!
//! | module | what it does |
//! | --- | --- |
//! | `papers` | the papers' tables and figures, each with a verdict |
//! | `plot` | curves and bars as SVG |
//! | `html` | the page |
//! | `choose` | its first screen: which file system for a load and a chip |
//! | `table` | every number as CSV |

mod choose;
mod html;
mod papers;
mod plot;
mod table;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::jftl::Measured;
use crate::kept::{Marks, Results};
use crate::report::{Bars, Report};
use crate::study::{Made, Outcome};
use crate::{Scale, code, experiments, peers, studies};

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
    /// Results that there are, and how many there are when all is run.
    count: usize,
    cases: usize,
    /// Where the results are from.
    marks: Marks,
    made: Vec<Made>,
}

impl Page {
    /// Of all results.
    ///
    /// # Errors
    /// A result cannot be read, or there is none.
    pub fn of(results: &Results) -> anyhow::Result<Page> {
        let mut chapters = Vec::new();
        for study in studies() {
            let cases = (study.cases)(Scale::Full);
            let (mut outcomes, mut marks) = (Vec::new(), Marks::default());
            for case in &cases {
                if let Some(outcome) = results.load_as::<Outcome>(&case.id)? {
                    marks.note(results, &case.id, &outcome.made, &code::of_case(case));
                    outcomes.push(outcome);
                }
            }
            if !outcomes.is_empty() {
                chapters.push(Chapter {
                    name: study.name,
                    what: study.what,
                    source: study.source,
                    report: (study.report)(&outcomes),
                    count: outcomes.len(),
                    made: outcomes.iter().map(|held| held.made.clone()).collect(),
                    outcomes,
                    measured: Vec::new(),
                    cases: cases.len(),
                    marks,
                });
            }
        }
        for experiment in experiments() {
            if let Some(kept) = (experiment.kept)(results)? {
                chapters.push(Chapter {
                    name: experiment.name,
                    what: experiment.what,
                    source: experiment.source,
                    report: kept.report,
                    outcomes: Vec::new(),
                    measured: kept.measured,
                    count: kept.count,
                    cases: kept.all,
                    marks: kept.marks,
                    made: kept.made,
                });
            }
        }
        anyhow::ensure!(
            !chapters.is_empty(),
            "no results; `flashkit lab run micro` makes some"
        );
        let all = || chapters.iter().flat_map(|chapter| &chapter.outcomes);
        let notes = chapters.iter().flat_map(|chapter| &chapter.made);
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
        table::csv(outcomes, measured, |id| self.origin(id))
    }

    /// How many of the papers' tables and figures there are of each verdict: a line for each paper,
    /// and one for all.
    pub fn verdicts(&self) -> Vec<String> {
        let look = self.look();
        let mut all = Vec::new();
        let mut lines = Vec::new();
        for paper in papers::PAPERS {
            let rows = paper.rows(&look);
            lines.push(format!("{}: {}", paper.study, papers::counted(&rows)));
            all.extend(rows);
        }
        lines.push(format!("all {}: {}", all.len(), papers::counted(&all)));
        lines
    }

    fn look(&self) -> papers::Look<'_> {
        papers::Look {
            chapters: &self.chapters,
        }
    }

    /// Whose a result is, and whether it is stale.
    fn origin(&self, id: &str) -> [&'static str; 2] {
        let mut marks = self.chapters.iter().map(|chapter| &chapter.marks);
        let own = marks.clone().any(|marks| marks.own.contains(id));
        let stale = marks.any(|marks| marks.stale.contains(id));
        [
            if own { "here" } else { "kept" },
            if stale { "stale" } else { "" },
        ]
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
        let look = self.look();
        let papers = papers::PAPERS.map(|paper| paper.json(&look));
        json!({ "made": self.made, "papers": papers, "studies": chapters.collect::<Vec<_>>() })
    }
}

/// Whether these are the bytes of a page, or of the same as CSV or JSON.
pub fn is_page(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let object = || serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    text.contains(html::TITLE)
        || text.starts_with(&table::HEAD.join(","))
        || ["made", "papers", "studies"]
            .iter()
            .all(|key| object().get(key).is_some())
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

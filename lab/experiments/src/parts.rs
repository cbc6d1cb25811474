//! An experiment whose tables are measured one by one, each with a result of its own.

use std::path::Path;

use anyhow::Result;

use crate::kept::{Held, Marks, Results, held_or};
use crate::report::{Cell, Figure, Report, Table};
use crate::study::Folder;
use crate::{Kept, Only, Scale, code};

/// Rows of a table.
pub type Rows = Vec<Vec<Cell>>;

/// A table of a paper, or one beside it.
pub struct Part {
    /// As a folder names its rows.
    pub id: &'static str,
    pub title: &'static str,
    pub columns: &'static [&'static str],
    /// How many of the first columns are text.
    pub keys: usize,
    /// What is to be said of it.
    pub note: &'static str,
    /// Measures its rows; of a small part of the work, if that is asked for.
    pub rows: fn(bool) -> Result<Rows>,
    /// What of it is drawn.
    pub plot: Option<Plot>,
}

/// Columns of a table as curves over another.
#[derive(Clone, Copy)]
pub struct Plot {
    pub x: &'static str,
    pub y: &'static str,
    /// Column of x.
    pub at: usize,
    /// Columns of the curves.
    pub curves: &'static [usize],
    /// What the paper says of its own.
    pub papers: &'static str,
}

/// All tables of an experiment.
pub struct Parts {
    pub parts: &'static [Part],
    /// Groups of sources that its results depend on.
    pub code: &'static [&'static str],
    /// What was assumed.
    pub notes: &'static [&'static str],
}

impl Parts {
    /// Pieces of work: tables.
    pub fn pieces(&self) -> u64 {
        self.parts.len() as u64
    }

    /// Runs what is asked for. A small part of the work leaves no results.
    pub fn run(
        &self,
        scale: Scale,
        only: Only<'_>,
        results: &Path,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Report> {
        let folder = (scale == Scale::Full).then(|| Folder::at(results));
        let made_by = code::of(self.code);
        let mut report = self.report();
        for (i, part) in (1..).zip(self.parts) {
            if only.takes(part.title) {
                let measure = || (part.rows)(scale == Scale::Quick);
                let rows = held_or(folder.as_ref(), part.id, &made_by, measure)?;
                part.add_to(&mut report, rows);
            }
            done(i);
        }
        Ok(report)
    }

    /// What there is of it.
    pub fn kept(&self, results: &Results) -> Result<Option<Kept>> {
        let (mut marks, mut made, mut report) = (Marks::default(), Vec::new(), self.report());
        let made_by = code::of(self.code);
        for part in self.parts {
            if let Some(held) = results.load_as::<Held<Rows>>(part.id)? {
                marks.note(results, part.id, &held.made, &made_by);
                made.push(held.made);
                part.add_to(&mut report, held.found);
            }
        }
        if made.is_empty() {
            return Ok(None);
        }
        Ok(Some(Kept {
            report,
            measured: Vec::new(),
            count: made.len(),
            all: self.parts.len(),
            marks,
            made,
        }))
    }

    fn report(&self) -> Report {
        Report {
            notes: self.notes.iter().map(|&note| note.into()).collect(),
            ..Report::default()
        }
    }
}

impl Part {
    fn add_to(&self, report: &mut Report, rows: Rows) {
        report
            .figures
            .extend(self.plot.map(|plot| self.figure(plot, &rows)));
        report.tables.push(Table {
            title: self.title.into(),
            columns: self.columns.to_vec(),
            keys: self.keys,
            rows,
            notes: vec![self.note.into()],
        });
    }

    fn figure(&self, plot: Plot, rows: &Rows) -> Figure {
        let value = |row: &[Cell], column: usize| row.get(column).and_then(Cell::number);
        let curve = |&column: &usize| {
            let values = rows.iter().map(|row| value(row, column)).collect();
            (self.columns[column].to_owned(), values)
        };
        Figure {
            title: self.title.into(),
            x: plot.x,
            y: plot.y,
            at: rows.iter().filter_map(|row| value(row, plot.at)).collect(),
            series: plot.curves.iter().map(curve).collect(),
            papers: plot.papers,
        }
    }
}

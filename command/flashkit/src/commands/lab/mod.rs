//! `flashkit lab`

pub mod guest;
mod keep;
mod page;
mod picture;
mod studies;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::builder::NonEmptyStringValueParser;
use flashkit_experiments::report::{Bars, Cell, Figure, Report, Table};
use flashkit_experiments::{Experiment, Only, Scale, experiments, studies};
use serde_json::json;

use crate::Outcome;
use crate::failure::Usage;
use crate::progress::Progress;
use crate::text;

/// Rows that a figure has at most as text; `--json` has all its points.
const FIGURE_ROWS: usize = 12;

/// Repeat the experiments of the papers.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  flashkit lab run logdisk --json > logdisk.json\n  flashkit lab run peers\n  flashkit lab report\n  flashkit lab guest run 'cat /proc/version'"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List the experiments
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run an experiment
    Run {
        /// Which, as `flashkit lab list` names it
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// A small part of the work, to see that it runs
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        choice: studies::Choice,
    },
    Report(page::Args),
    Keep(keep::Args),
    Picture(picture::Args),
    Guest(guest::Args),
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.what {
        What::List { json } => list(*json, out)?,
        What::Report(args) => page::run(args, out)?,
        What::Keep(args) => keep::run(args, out)?,
        What::Picture(args) => picture::run(args, out)?,
        What::Guest(args) => return guest::run(args, out),
        What::Run {
            name,
            quick,
            json,
            choice,
        } => {
            let scale = if *quick { Scale::Quick } else { Scale::Full };
            if let Some(study) = studies().iter().find(|study| study.name == name) {
                return studies::run(study, scale, choice, *json, out);
            }
            let found = experiments().iter().find(|e| e.name == name);
            let Some(experiment) = found else {
                let why = format!("{name}: no such experiment; `flashkit lab list` lists them");
                return Err(Usage(why).into());
            };
            choice.check_no_study(name)?;
            let report = measure(experiment, scale, choice)?;
            if report.tables.is_empty() && report.figures.is_empty() && report.bars.is_empty() {
                let why = format!("no table or figure of {name} is called so");
                return Err(Usage(why).into());
            }
            if *json {
                let object = report.json(experiment.name, experiment.source);
                writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
            } else {
                print(experiment.name, experiment.source, &report, out)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if json {
        let list: Vec<_> = listed()
            .map(|(name, what, source)| json!({ "name": name, "what": what, "source": source }))
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(());
    }
    let mut table = text::Table::new(&["name", "what"]);
    for (name, what, _) in listed() {
        table.row([name.into(), what.into()]);
    }
    table.ragged().print(out, 0)?;
    Ok(())
}

/// Name, what and source of all there are.
fn listed() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let experiments = experiments().iter().map(|e| (e.name, e.what, e.source));
    experiments.chain(studies().iter().map(|s| (s.name, s.what, s.source)))
}

fn measure(
    experiment: &Experiment,
    scale: Scale,
    choice: &studies::Choice,
) -> anyhow::Result<Report> {
    let pieces = (experiment.pieces)(scale);
    let progress = Mutex::new(Progress::of_pieces(experiment.name, pieces));
    (experiment.run)(scale, Only(&choice.only), &choice.results, &|done| {
        if let Ok(mut progress) = progress.lock() {
            progress.at(done);
        }
    })
}

fn print(name: &str, source: &str, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{name}: {source}")?;
    for note in &report.notes {
        writeln!(out, "* {note}")?;
    }
    for table in &report.tables {
        writeln!(out, "\n{}\n", table.title)?;
        text_table(table).print(out, 2)?;
        for note in &table.notes {
            writeln!(out, "  {note}")?;
        }
    }
    for figure in &report.figures {
        writeln!(out, "\n{}\n", figure.title)?;
        text_figure(figure).print(out, 2)?;
        writeln!(out, "  paper: {}", figure.papers)?;
    }
    for bars in &report.bars {
        writeln!(out, "\n{}\n", bars.title)?;
        text_bars(bars).print(out, 2)?;
        writeln!(out, "  {}; {}", bars.y, bars.note)?;
    }
    Ok(())
}

fn text_table(table: &Table) -> text::Table {
    let mut shown = text::Table::new(&table.columns).left(table.keys);
    for row in &table.rows {
        shown.row_of(row.iter().map(cell).collect());
    }
    shown
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => "-".into(),
        Cell::Text(text) => text.clone(),
        Cell::Count(n) => text::count(*n),
        Cell::Measure(x, digits) => format!("{x:.digits$}"),
    }
}

fn text_figure(figure: &Figure) -> text::Table {
    let mut headings = vec![figure.x];
    headings.extend(figure.shown().map(|(_, name, _)| name));
    let mut shown = text::Table::new(&headings);
    let every = figure.at.len().div_ceil(FIGURE_ROWS).max(1);
    for (i, x) in figure.at.iter().enumerate().skip(every - 1).step_by(every) {
        let mut row = vec![format!("{x}")];
        let value = |values: &[Option<f64>]| match values.get(i) {
            Some(Some(y)) => few_digits(*y),
            _ => "-".into(),
        };
        row.extend(figure.shown().map(|(_, _, values)| value(values)));
        shown.row_of(row);
    }
    shown
}

/// Three digits of a small number, all before the point of a large one.
fn few_digits(x: f64) -> String {
    let digits = match x.abs() {
        x if x >= 100.0 || x == 0.0 => 0,
        x if x >= 10.0 => 1,
        _ => 2,
    };
    format!("{x:.digits$}")
}

fn text_bars(bars: &Bars) -> text::Table {
    let mut headings = vec![""];
    headings.extend(bars.series.iter().map(|name| &name[..]));
    let mut shown = text::Table::new(&headings).left(1);
    for (name, values) in &bars.groups {
        let value = |value: &Option<f64>| value.map_or("-".into(), few_digits);
        let mut row = vec![name.clone()];
        row.extend(values.iter().map(value));
        shown.row_of(row);
    }
    shown
}

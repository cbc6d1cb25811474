//! `flashkit lab report`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use flashkit_experiments::kept::Results;
use flashkit_experiments::page::{Page, is_page};
use flashkit_experiments::study::Folder;

use crate::failure::Usage;
use crate::place::check_dir;
use crate::{output, text};

/// Write the results of all studies as a page, and the same as CSV and JSON beside it. Without
/// options it shows those that the project keeps, and in their place those of `lab-results`, if
/// there are any; that needs neither root nor time.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of results, shown alone
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// With --results: show what the project keeps where the folder has nothing
    #[arg(long, requires = "results")]
    kept: bool,
    /// The page; the other two have its name and end in .csv and .json
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Overwrite files that are no such pages, too
    #[arg(long)]
    force: bool,
    /// Say how many of the papers' tables and figures are repeated, better, different
    #[arg(long)]
    verdicts: bool,
}

/// Nothing is written unless all can be made.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let beside = ["csv", "json"].map(|end| args.output.with_extension(end));
    if beside.contains(&args.output) {
        let why = "--output: the page cannot end in .csv or .json, as the other two do";
        return Err(Usage(why.into()).into());
    }
    let [csv, json] = beside;
    let files = [args.output.clone(), csv, json];
    for path in &files {
        output::check_own(path, args.force, is_page)?;
    }
    output::clear_when_interrupted()?;
    let page = Page::of(&results(args)?)?;
    let json = serde_json::to_string_pretty(&page.json())?;
    let made = [page.html()?, page.csv()?, json];
    let all: Vec<_> = (files.iter().zip(&made))
        .map(|(path, made)| (path.as_path(), made.as_bytes()))
        .collect();
    output::write_all(&all)?;
    for path in &files {
        writeln!(out, "{}", text::path(path))?;
    }
    if args.verdicts {
        for line in page.verdicts() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// What is asked for.
fn results(args: &Args) -> anyhow::Result<Results> {
    let Some(dir) = &args.results else {
        let dir = Path::new("lab-results");
        let own = dir.is_dir().then(|| Folder::at(dir));
        return Results::kept(own.as_ref());
    };
    if dir.try_exists().is_ok_and(|there| !there) {
        bail!(
            "{}: no such folder; `flashkit lab run micro` makes one",
            text::path(dir)
        );
    }
    check_dir(dir)?;
    let folder = Folder::at(dir);
    match args.kept {
        true => Results::kept(Some(&folder)),
        false => Ok(Results::of(&folder)),
    }
}

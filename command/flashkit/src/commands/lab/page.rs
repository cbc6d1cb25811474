//! `flashkit lab report`

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use flashkit_experiments::page::Page;
use flashkit_experiments::study::Folder;

/// Write the results of all studies as a page, and the same as CSV and JSON beside it.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "lab-results")]
    results: PathBuf,
    /// The page; the other two have its name and end in .csv and .json
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

/// Nothing is written unless all can be made.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    if !args.results.is_dir() {
        bail!(
            "{}: no such folder; `flashkit lab run micro` makes one",
            args.results.display()
        );
    }
    let page = Page::of(&Folder::open(&args.results)?)?;
    let files = [
        (args.output.clone(), page.html()?),
        (args.output.with_extension("csv"), page.csv()?),
        (
            args.output.with_extension("json"),
            serde_json::to_string_pretty(&page.json())?,
        ),
    ];
    for (path, text) in files {
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

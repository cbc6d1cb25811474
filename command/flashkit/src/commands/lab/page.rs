//! `flashkit lab report`

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use flashkit_experiments::page::Page;
use flashkit_experiments::study::Folder;

use crate::place::check_dir;
use crate::{output, text};

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
    if args.results.try_exists().is_ok_and(|there| !there) {
        bail!(
            "{}: no such folder; `flashkit lab run micro` makes one",
            text::path(&args.results)
        );
    }
    check_dir(&args.results)?;
    let page = Page::of(&Folder::at(&args.results))?;
    let files = [
        (args.output.clone(), page.html()?),
        (args.output.with_extension("csv"), page.csv()?),
        (
            args.output.with_extension("json"),
            serde_json::to_string_pretty(&page.json())?,
        ),
    ];
    for (path, made) in files {
        output::write(&path, made.as_bytes())?;
        writeln!(out, "{}", text::path(&path))?;
    }
    Ok(())
}

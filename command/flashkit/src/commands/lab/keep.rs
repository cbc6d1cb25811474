//! `flashkit lab keep`

use std::io::Write;
use std::path::PathBuf;

use flashkit_experiments::kept;
use flashkit_experiments::study::Folder;

use crate::place::check_dir;
use crate::text;

/// Put results into the files that the project keeps, one a study: lab/results in its sources.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "lab-results")]
    results: PathBuf,
    /// Folder of the files
    #[arg(long, value_name = "FOLDER", default_value = "lab/results")]
    into: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    check_dir(&args.results)?;
    check_dir(&args.into)?;
    let done = kept::keep(&Folder::at(&args.results), &args.into)?;
    let mut table = text::Table::new(&["study", "put in", "kept"]).left(1);
    for (study, own, all) in done {
        table.row([
            study.into(),
            text::count(own as u64),
            text::count(all as u64),
        ]);
    }
    Ok(table.print(out, 0)?)
}

//! `flashkit lab picture`

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use flashkit_experiments::picture;

/// Draw what FlashLight does on a chip, call by call, as SVG.
#[derive(clap::Args)]
pub struct Args {
    /// A file, instead of the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let drawn = picture::draw(&picture::record()?);
    match &args.output {
        Some(path) => fs::write(path, drawn).with_context(|| path.display().to_string()),
        None => Ok(out.write_all(drawn.as_bytes())?),
    }
}

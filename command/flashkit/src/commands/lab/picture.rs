//! `flashkit lab picture`

use std::io::Write;
use std::path::PathBuf;

use flashkit_experiments::picture;

use crate::output;

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
        Some(path) => output::write(path, drawn.as_bytes()),
        None => Ok(out.write_all(drawn.as_bytes())?),
    }
}

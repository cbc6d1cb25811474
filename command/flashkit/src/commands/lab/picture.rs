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
    /// Overwrite a file that is no such picture, too
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        output::check_own(path, args.force, picture::is_picture)?;
    }
    output::clear_when_interrupted()?;
    let drawn = picture::draw(&picture::record()?);
    match &args.output {
        Some(path) => output::write_all(&[(path, drawn.as_bytes())]),
        None => Ok(out.write_all(drawn.as_bytes())?),
    }
}

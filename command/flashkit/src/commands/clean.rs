//! `flashkit clean`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::Outcome;
use crate::disk::{self, Cleaning};
use crate::values;

/// Run the cleaner of a logdisk image, step by step: choose a segment, copy up to 16 blocks, begin
/// an erase.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  flashkit clean --cleaning cost-benefit --steps 40 nor.img\n\n\
    Without --now the policy decides whether anything is to be cleaned."
)]
pub struct Args {
    /// Image of a NOR chip with a logdisk
    image: PathBuf,
    /// How it chooses
    #[arg(long, value_enum, default_value = "paper")]
    cleaning: Cleaning,
    /// Steps, at most; up to 16777216
    #[arg(long, value_name = "N", default_value = "1000",
          value_parser = values::number::<u32>("a number of steps", 1, 1 << 24))]
    steps: u32,
    /// Clean as if there were no room, whatever the policy's threshold
    #[arg(long)]
    now: bool,
    /// Print JSON, a line for each step
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut left = args.steps;
    disk::clean(&args.image, args.cleaning, args.now, |step| {
        match args.json {
            true => writeln!(out, "{}", step.json)?,
            false => writeln!(out, "{}", step.text)?,
        }
        left -= 1;
        Ok(left > 0)
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `flashkit gc`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use crate::{Outcome, text, values};

/// Asked for at once; requests of other programs go in between.
const PORTION: u64 = 1 << 20;

/// Have a mount clean now, so that writes that follow need not wait for it: what is valid in blocks
/// that hold little of it moves together, and these blocks are free then.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  flashkit gc --bytes 1MiB flash && cp clip.mp4 flash/\n\n\
    A mount cleans by itself in pauses of 50 ms and more: this is for programs that make none. For \
    root and the user that mounted it, on mounts of FlashLight. The mount is asked by FITRIM, as \
    fstrim does; whatever is not a mount of flashkit is refused, and asked nothing.\n\
    A block is emptied only if at least half of it is won, of metadata three quarters. So it costs two \
    programs for each page won at most, with their reads, and a checkpoint for each 8 blocks."
)]
pub struct Args {
    /// Where it is mounted
    mountpoint: PathBuf,
    /// Win so many bytes, in whole blocks, and no more; all that can be won, if not given
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    bytes: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let (point, most) = (&args.mountpoint, args.bytes.unwrap_or(u64::MAX));
    let mut won = 0;
    while won < most {
        let portion = PORTION.min(most - won);
        let more =
            flashkit_fuse::ask_for_cleaning(point, portion).with_context(|| text::path(point))?;
        won += more;
        if more < portion {
            break;
        }
    }
    match args.json {
        true => writeln!(out, "{}", json!({ "bytes_won": won }))?,
        false => writeln!(out, "{}: {} won", text::path(point), text::bytes(won))?,
    }
    Ok(ExitCode::SUCCESS)
}

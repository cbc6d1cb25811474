//! `flashkit fsck`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::failure::FAILED;
use crate::text;
use crate::values;
use crate::volume::{self, Fsck, Recovery};

/// Check every structure of an image against the others.
///
/// A volume that was not unmounted cleanly is recovered first, as a mount would: in RAM, or with
/// -a on the image. That alone is no damage.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 clean, 1 damaged.")]
pub struct Args {
    /// Only look (the default)
    #[arg(short = 'n', conflicts_with = "repair")]
    dry_run: bool,
    /// Recover a volume that was not unmounted cleanly, on the image
    #[arg(short = 'a')]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// Image file
    image: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let found = volume::fsck(&args.image, args.repair, args.ram)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report(&found))?)?;
    } else {
        print(args, &found, out)?;
    }
    Ok(match found.findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

fn report(found: &Fsck) -> Value {
    let findings: Vec<Value> = found
        .findings
        .iter()
        .map(|f| json!({ "place": f.place, "what": f.what }))
        .collect();
    let checked: Map<String, Value> = found
        .checked
        .iter()
        .map(|(_, many, n)| (many.replace(' ', "_"), json!(n)))
        .collect();
    let recovery = match found.recovery {
        Recovery::NotNeeded => "not needed",
        Recovery::Simulated => "simulated",
        Recovery::Done => "done",
    };
    json!({
        "clean": findings.is_empty(),
        "recovery": recovery,
        "findings": findings,
        "checked": checked,
    })
}

fn print(args: &Args, found: &Fsck, out: &mut dyn Write) -> std::io::Result<()> {
    let shown = args.image.display();
    match found.recovery {
        Recovery::NotNeeded => {}
        Recovery::Simulated => {
            writeln!(
                out,
                "{shown}: not unmounted cleanly; recovery was simulated"
            )?;
        }
        Recovery::Done => writeln!(out, "{shown}: not unmounted cleanly; recovered")?,
    }
    for finding in &found.findings {
        writeln!(out, "{shown}: {}: {}", finding.place, finding.what)?;
    }
    if !found.mountable {
        return Ok(());
    }
    let state = match found.findings.len() as u64 {
        0 => "clean".to_owned(),
        n => format!("damaged, {}", text::plural(n, "finding")),
    };
    writeln!(out, "{shown}: {state} ({} checked)", found.looked_at())
}

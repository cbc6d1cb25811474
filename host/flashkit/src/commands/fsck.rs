//! `flashkit fsck`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::failure::FAILED;
use crate::text;
use crate::values;
use crate::volume::{self, Fsck, RAM_DEFAULT_TEXT};

/// Check every structure of an image against the others.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 clean, 1 repaired or damaged.")]
pub struct Args {
    /// Only look (the default)
    #[arg(short = 'n', conflicts_with = "repair")]
    dry_run: bool,
    /// Repair what can be repaired
    #[arg(short = 'a')]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// RAM of the file system, in bytes
    #[arg(long, value_name = "BYTES", value_parser = values::memory, default_value = RAM_DEFAULT_TEXT)]
    ram: usize,
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
        .map(|f| json!({ "place": f.place, "what": f.what, "repaired": f.repaired }))
        .collect();
    let checked: Map<String, Value> = found
        .checked
        .iter()
        .map(|(what, n)| ((*what).to_owned(), json!(n)))
        .collect();
    json!({ "clean": findings.is_empty(), "findings": findings, "checked": checked })
}

fn print(args: &Args, found: &Fsck, out: &mut dyn Write) -> std::io::Result<()> {
    let shown = args.image.display();
    for finding in &found.findings {
        let repaired = if finding.repaired { " (repaired)" } else { "" };
        writeln!(
            out,
            "{shown}: {}: {}{repaired}",
            finding.place, finding.what
        )?;
    }
    let repaired = found.findings.iter().filter(|f| f.repaired).count();
    let state = match (found.findings.len(), repaired) {
        (0, _) => "clean".to_owned(),
        (all, repaired) if all == repaired => format!("repaired, {all} findings"),
        (all, 0) => format!("damaged, {}", text::plural(all as u64, "finding")),
        (all, repaired) => format!("damaged, {all} findings, {repaired} of them repaired"),
    };
    let checked: Vec<String> = found
        .checked
        .iter()
        .map(|(what, n)| format!("{} {what}", text::count(*n)))
        .collect();
    writeln!(out, "{shown}: {state} ({} checked)", checked.join(", "))
}

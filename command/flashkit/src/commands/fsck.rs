//! `flashkit fsck`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::disk;
use crate::failure::{Usage, complain, used_by};
use crate::text;
use crate::values;
use crate::volume::{self, Access, Finding, Fsck, KeyOption, Recovery, Repair};

/// Exit bits, as fsck(8) has them.
const REPAIRED: u8 = 1;
const LEFT: u8 = 4;
const NOT_CHECKED: u8 = 8;

/// Check every structure of an image against the others, and repair what can be.
///
/// A volume that was not unmounted cleanly is recovered first, as a mount would: in RAM, or with
/// -a or -y on the image. That alone is no damage. With -y, what the rest of the volume gives away
/// is put right: names, their numbers, counts of valid pages. An inode that cannot be read loses
/// its name. What it held, if it was a directory, or what no directory leads to any more for
/// another reason, is in /lost+found from then on, under # and its inode number. A second run finds
/// nothing more to repair. File data, and maps of it, that cannot be read stay as they are and are
/// told each time: nothing says what was there.
///
/// Of Nano-FS a file whose header is damaged is given up, and the bitmap is made as the others ask
/// for. Of a disk of logdisk each damaged segment, entry and lost sector is told. It cannot be
/// repaired. A disk of jftl is not checked.
#[derive(clap::Args)]
#[command(
    after_help = "Exit status, the sum of: 0 clean, 1 damage was repaired, 4 damage is left, 8 the check failed or\n\
    there is nothing to check; 2 alone: wrong usage."
)]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// Only look (the default)
    #[arg(short = 'n', conflicts_with_all = ["recover", "repair"])]
    dry_run: bool,
    /// Recover a volume that was not unmounted cleanly, on the image
    #[arg(short = 'a')]
    recover: bool,
    /// And repair what is damaged, if nothing has to be guessed for it
    #[arg(short = 'y', conflicts_with = "recover")]
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
    let found = match found(args) {
        Ok(found) => found,
        Err(error) if error.is::<Usage>() => return Err(error),
        Err(error) => {
            complain(&format!("{error:#}{}", used_by(&error)));
            return Ok(ExitCode::from(NOT_CHECKED));
        }
    };
    if args.json {
        let told = serde_json::to_string_pretty(&report(&found))?;
        writeln!(out, "{}", text::json(&told))?;
    } else {
        print(args, &found, out)?;
    }
    let repaired = if found.repaired.is_empty() {
        0
    } else {
        REPAIRED
    };
    let left = if found.findings.is_empty() { 0 } else { LEFT };
    Ok(ExitCode::from(repaired | left))
}

fn found(args: &Args) -> anyhow::Result<Fsck> {
    args.encryption.take()?;
    let repair = match (args.recover, args.repair) {
        (_, true) => Repair::All,
        (true, _) => Repair::Recovery,
        _ => Repair::Nothing,
    };
    let access = match repair {
        Repair::Nothing => Access::ReadOnly,
        Repair::Recovery | Repair::All => Access::ReadWrite,
    };
    // A disk of logdisk; anything else is a volume, or said not to be one.
    disk::fsck(&args.image, access).unwrap_or_else(|| volume::fsck(&args.image, repair, args.ram))
}

fn report(found: &Fsck) -> Value {
    let list = |findings: &[Finding]| -> Vec<Value> {
        let told = |f: &Finding| json!({ "place": f.place, "what": f.what });
        findings.iter().map(told).collect()
    };
    let findings = list(&found.findings);
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
        "repaired": list(&found.repaired),
        "checked": checked,
    })
}

fn print(args: &Args, found: &Fsck, out: &mut dyn Write) -> std::io::Result<()> {
    let shown = text::path(&args.image);
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
    for finding in &found.repaired {
        writeln!(
            out,
            "{shown}: {}: {}: repaired",
            finding.place,
            text::line(&finding.what)
        )?;
    }
    for finding in &found.findings {
        let what = text::line(&finding.what);
        writeln!(out, "{shown}: {}: {what}", finding.place)?;
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

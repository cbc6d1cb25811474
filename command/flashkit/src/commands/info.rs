//! `flashkit info`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::Outcome;
use crate::disk;
use crate::last_mount;
use crate::text;
use crate::values;
use crate::volume::{self, KeyOption};

/// Show what an image is: chip, superblock, areas, RAM, wear.
#[derive(clap::Args)]
#[command(after_help = "Sizes are in bytes, and `us` is microseconds of flash time.")]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
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
    args.encryption.take()?;
    let mut told = disk::info(&args.image).unwrap_or_else(|| on_nand(args))?;
    if let Some(lines) = last_mount::told(&args.image) {
        told.insert("last_mount".into(), lines.into());
    }
    if args.json {
        let told = serde_json::to_string_pretty(&told)?;
        writeln!(out, "{}", text::json(&told))?;
    } else {
        lines(&told, 0, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A volume, or else a disk.
fn on_nand(args: &Args) -> anyhow::Result<Map<String, Value>> {
    volume::info(&args.image, args.ram)
        .or_else(|error| disk::info_on_nand(&args.image).ok_or(error))
}

/// One line a value; what an object holds stands below its name, indented.
fn lines(told: &Map<String, Value>, indent: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let width = told.keys().map(String::len).max().unwrap_or(0) + 2;
    for (key, value) in told {
        let name = key.replace('_', " ");
        let pad = " ".repeat(indent);
        match value {
            Value::Object(inner) => {
                writeln!(out, "{pad}{name}")?;
                lines(inner, indent + 2, out)?;
            }
            _ => writeln!(out, "{pad}{name:width$}{}", plain(value))?,
        }
    }
    Ok(())
}

/// A value as a person reads it.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text::name(text.as_bytes()),
        Value::Number(number) => match number.as_u64() {
            Some(n) => text::count(n),
            None => number.to_string(),
        },
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Null => "-".into(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(_) => value.to_string(),
    }
}

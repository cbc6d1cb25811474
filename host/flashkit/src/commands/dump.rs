//! `flashkit dump`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::Outcome;
use crate::text;
use crate::volume;

/// Print every on-flash record of an image, one a line.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Image file
    image: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    volume::dump(&args.image, &mut |record| {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&record)?)?;
        } else {
            writeln!(out, "{}", line(&record))?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `   1234 kind key=value ...`
fn line(record: &Map<String, Value>) -> String {
    let of = |key| record.get(key).map(value).unwrap_or_default();
    let mut line = format!("{:>8} {:12}", of("page"), of("kind"));
    for (key, held) in record
        .iter()
        .filter(|(key, _)| !["page", "kind"].contains(&key.as_str()))
    {
        line.push_str(&format!(" {key}={}", value(held)));
    }
    line
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text::name(text.as_bytes()),
        _ => value.to_string(),
    }
}

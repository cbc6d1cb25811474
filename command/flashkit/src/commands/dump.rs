//! `flashkit dump`

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use flashkit_vfs::Time;
use serde_json::{Map, Value};

use crate::Outcome;
use crate::text;
use crate::volume::{self, KeyOption};

/// Print every on-flash record of an image.
///
/// A record is a line, page and kind first, and an indented line for each of its entries; with
/// --json it is one object a line. Data pages are told once a block, after its other pages, as
/// runs of pages of one file. Records that are not live are superseded and wait to be erased.
/// Numbers of 28 bits called `hash` are of names.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Tell each data page by itself
    #[arg(long)]
    data: bool,
    /// Image file
    image: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    volume::dump(&args.image, args.data, &mut |record| {
        if args.json {
            writeln!(out, "{}", text::json(&serde_json::to_string(&record)?))?;
        } else {
            print(&record, out)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A line for the record, and one for each of its entries.
fn print(record: &Map<String, Value>, out: &mut dyn Write) -> io::Result<()> {
    let of = |key| record.get(key).map(value).unwrap_or_default();
    let state = match record.get("live") {
        Some(Value::Bool(true)) => ", live",
        Some(Value::Bool(false)) => ", superseded",
        _ => "",
    };
    write!(
        out,
        "page {} in block {}: {}{state}",
        of("page"),
        of("block"),
        of("kind")
    )?;
    let mut lists = Vec::new();
    for (key, held) in record {
        match held {
            _ if ["page", "block", "kind", "live"].contains(&key.as_str()) => {}
            Value::Null => {}
            Value::Array(entries) => lists.push((key, entries)),
            _ => write!(out, ", {}", word(key, held))?,
        }
    }
    writeln!(out)?;
    for (key, entries) in lists {
        list(key, entries, out)?;
    }
    Ok(())
}

/// Objects get a line each, plain values share one.
fn list(key: &str, entries: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let name = key.replace('_', " ");
    let (objects, plain): (Vec<_>, Vec<_>) = entries.iter().partition(|e| e.is_object());
    for object in objects {
        writeln!(out, "    {}: {}", singular(&name), value(object))?;
    }
    if !plain.is_empty() {
        let plain: Vec<String> = plain.into_iter().map(value).collect();
        writeln!(out, "    {name}: {}", plain.join(" "))?;
    }
    Ok(())
}

/// `entries` as `entry`, `runs` as `run`.
fn singular(name: &str) -> String {
    match (name.strip_suffix("ies"), name.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (_, Some(stem)) => stem.to_owned(),
        _ => name.to_owned(),
    }
}

fn word(key: &str, held: &Value) -> String {
    let key = key.replace('_', " ");
    match held {
        Value::String(name) if key == "name" => {
            format!("{key} \"{}\"", text::name(name.as_bytes()))
        }
        Value::Number(secs) if ["atime", "mtime", "ctime"].contains(&&*key) => {
            let secs = secs.as_f64().unwrap_or_default().floor() as i64;
            format!("{key} {}", text::date(Time { secs, nanos: 0 }))
        }
        Value::Bool(true) => key,
        Value::Bool(false) => format!("not {key}"),
        Value::Object(_) => format!("{key} ({})", value(held)),
        _ => format!("{key} {}", value(held)),
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text::name(text.as_bytes()),
        Value::Object(fields) => {
            let told = fields.iter().filter(|(_, held)| !held.is_null());
            let words: Vec<String> = told.map(|(key, held)| word(key, held)).collect();
            words.join(", ")
        }
        _ => value.to_string(),
    }
}

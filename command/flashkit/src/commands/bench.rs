//! `flashkit bench`

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use flashkit_workload::generate;
use serde_json::json;

use super::replay::{How, run_lines};
use crate::Outcome;
use crate::failure::Usage;
use crate::text::Table;
use crate::values;

/// Run a named workload and show what it cost; without a name, list them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  flashkit bench sysbench --request 2048\n  \
    flashkit bench postmark --fsync --json")]
pub struct Args {
    /// Which; without one, list them
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    workload: Option<String>,
    #[command(flatten)]
    how: How,
    /// End every writing operation in an fsync
    #[arg(long)]
    fsync: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let Some(name) = &args.workload else {
        if args.how.json {
            let known = generate::KNOWN.iter();
            let list: Vec<_> = known
                .map(|known| json!({ "name": known.name, "what": known.about }))
                .collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = Table::new(&["workload", "what"]).left(2);
        for known in generate::KNOWN {
            table.row([known.name.into(), known.about.into()]);
        }
        table.print(out, 0)?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some(known) = generate::find(name) else {
        let known = generate::KNOWN.iter().map(|known| known.name);
        let why = values::no_such("workload", "bench", name, known);
        return Err(Usage(format!("{name}: {why}")).into());
    };
    args.how.check()?;
    run_lines(&known.lines(), &args.how, args.fsync, out).with_context(|| name.clone())
}

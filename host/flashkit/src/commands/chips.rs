//! `flashkit chips`

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use crate::Outcome;
use crate::text::{Table, bytes};

/// List the simulated chips.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let presets = flashkit_sim::presets();
    if args.json {
        let list: Vec<_> = presets
            .iter()
            .map(|p| {
                json!({
                    "name": p.name,
                    "what": p.what,
                    "capacity": p.geometry().capacity(),
                    "page_size": p.page_size,
                    "spare_size": p.raw_spare,
                    "usable_spare_size": p.spare_size,
                    "pages_per_block": p.pages_per_block,
                    "blocks": p.blocks,
                    "read_ns": p.timing.read_ns,
                    "program_ns": p.timing.program_ns,
                    "erase_ns": p.timing.erase_ns,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        "name",
        "size",
        "page + spare",
        "pages/block",
        "blocks",
        "read/program/erase us",
        "what",
    ];
    let us = |ns: u64| format!("{}", ns as f64 / 1_000.0);
    let mut table = Table::new(&headings);
    for p in presets {
        let t = p.timing;
        table.row([
            p.name.into(),
            bytes(p.geometry().capacity()),
            format!("{} + {}", p.page_size, p.raw_spare),
            p.pages_per_block.to_string(),
            p.blocks.to_string(),
            format!(
                "{} / {} / {}",
                us(t.read_ns),
                us(t.program_ns),
                us(t.erase_ns)
            ),
            p.what.into(),
        ]);
    }
    table.ragged().print(out, 0)?;
    Ok(ExitCode::SUCCESS)
}

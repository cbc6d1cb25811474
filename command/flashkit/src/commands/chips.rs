//! `flashkit chips`

use std::io::Write;
use std::process::ExitCode;

use flashkit_sim::Preset;
use flashkit_sim::nor::{NOR_SEGMENT, NOR_WORD, NorSpec, nor_presets};
use serde_json::{Value, json};

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
        let mut list: Vec<_> = presets.iter().map(nand_json).collect();
        list.extend(nor_presets().iter().map(nor_json));
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        "name",
        "size",
        "page + spare, B",
        "pages/block",
        "blocks",
        "read/program/erase us",
        "bus",
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
            p.bus.map_or(String::new(), |bus| bus.speed.to_string()),
            p.what.into(),
        ]);
    }
    table.ragged().print(out, 0)?;
    writeln!(out)?;
    nor_table().ragged().print(out, 0)?;
    Ok(ExitCode::SUCCESS)
}

fn nand_json(p: &Preset) -> Value {
    json!({
        "kind": "nand",
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
        "bus": p.bus.map(|bus| json!({
            "mhz": bus.speed.mhz,
            "lanes": bus.speed.lanes,
        })),
        "power": p.power.map(|power| json!({
            "supply_mv": power.supply_mv,
            "read_ua": power.read_ua,
            "program_ua": power.program_ua,
            "erase_ua": power.erase_ua,
        })),
    })
}

fn nor_json(spec: &NorSpec) -> Value {
    let t = spec.timing();
    json!({
        "kind": "nor",
        "name": spec.name(),
        "what": spec.what(),
        "capacity": u64::from(spec.segments()) * NOR_SEGMENT as u64,
        "word_size": NOR_WORD,
        "segment_size": NOR_SEGMENT,
        "banks": spec.banks(),
        "segments_per_bank": spec.segments_per_bank(),
        "endurance": spec.endurance(),
        "read_ns": t.read_ns,
        "program_ns": t.program_ns,
        "erase_ns": t.erase_ns,
        "suspend_ns": t.suspend_ns,
    })
}

fn nor_table() -> Table {
    let mut table = Table::new(&[
        "NOR",
        "size",
        "word, B",
        "segment",
        "banks x segments",
        "read/program us, erase s",
        "what",
    ]);
    for spec in nor_presets() {
        let t = spec.timing();
        table.row([
            spec.name().into(),
            bytes(u64::from(spec.segments()) * NOR_SEGMENT as u64),
            NOR_WORD.to_string(),
            bytes(NOR_SEGMENT as u64),
            format!("{} x {}", spec.banks(), spec.segments_per_bank()),
            format!(
                "{} / {}, {}",
                t.read_ns as f64 / 1e3,
                t.program_ns as f64 / 1e3,
                t.erase_ns as f64 / 1e9
            ),
            spec.what().into(),
        ]);
    }
    table
}

//! `flashkit soak`

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flashkit_powercut::{Chip, Soak, Soaked};
use serde_json::json;

use crate::Outcome;
use crate::failure::FAILED;
use crate::progress::Progress;
use crate::text;

/// Everything at once, chip after chip, each to its wear-out.
///
/// Random operations, power cuts, cuts in the recoveries, failing blocks, flipping bits, disturbing
/// reads and passing time on one simulated chip; after every session the whole tree is compared
/// with what docs/guarantees.md allows. When the chip is worn out it must be read-only, with
/// everything synced readable; then the next one follows.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 all was as guaranteed, 1 it was not.")]
pub struct Args {
    /// How long, in hours of this machine; parts of one are fine
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    hours: f64,
    /// What all chance follows from; each chip takes the next one
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// End after so many sessions; with the seed that a failure has printed, this replays it
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Erases that a block stands
    #[arg(long, value_name = "N", default_value_t = 300)]
    endurance: u32,
    /// Page and spare in bytes, pages of a block, blocks; with -paper behind it, the paper's cleaner
    #[arg(
        long,
        value_name = "PAGE+SPARExPAGESxBLOCKS",
        default_value = "2048+64x16x128"
    )]
    chip: Chip,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let soak = Soak {
        chip: args.chip.clone(),
        seed: args.seed,
        endurance: args.endurance,
    };
    let length = Duration::from_secs_f64((args.hours * 3600.0).clamp(0.0, 1e9));
    let begun = Instant::now();
    let mut bar = Progress::of_pieces("soaking", length.as_secs());
    let soaked = soak.run(&mut |soaked| {
        bar.at(begun.elapsed().as_secs());
        begun.elapsed() < length && args.rounds.is_none_or(|n| soaked.rounds < n)
    });
    drop(bar);
    if args.json {
        let told = report(&soaked);
        writeln!(out, "{}", serde_json::to_string_pretty(&told)?)?;
    } else {
        print(args, &soaked, out)?;
    }
    Ok(match soaked.violation {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(FAILED),
    })
}

fn report(soaked: &Soaked) -> serde_json::Value {
    let violation = soaked
        .violation
        .as_ref()
        .map(|(seed, round, what)| json!({ "seed": seed, "round": round, "what": what }));
    json!({
        "chips_worn_out": soaked.chips,
        "rounds": soaked.rounds,
        "ops": soaked.ops,
        "cuts": soaked.cuts,
        "files_compared": soaked.files,
        "reads": soaked.reads,
        "programs": soaked.programs,
        "erases": soaked.erases,
        "bad_blocks": soaked.bad_blocks,
        "simulated_hours": soaked.hours.round(),
        "violations": u64::from(soaked.violation.is_some()),
        "violation": violation,
    })
}

fn print(args: &Args, soaked: &Soaked, out: &mut dyn Write) -> std::io::Result<()> {
    let rows = [
        ("chips worn out", soaked.chips),
        ("sessions", soaked.rounds),
        ("operations", soaked.ops),
        ("power cuts", soaked.cuts),
        ("files compared", soaked.files),
        ("flash reads", soaked.reads),
        ("pages programmed", soaked.programs),
        ("blocks erased", soaked.erases),
        ("blocks gone bad", soaked.bad_blocks),
        ("hours simulated", soaked.hours as u64),
        ("violations", u64::from(soaked.violation.is_some())),
    ];
    for (what, n) in rows {
        writeln!(out, "{what:20} {:>14}", text::count(n))?;
    }
    if let Some((seed, round, what)) = &soaked.violation {
        writeln!(
            out,
            "\nsession {round} of the chip with seed {seed}: {what}"
        )?;
        writeln!(
            out,
            "    flashkit soak --seed {seed} --rounds {round} --endurance {} --chip {}",
            args.endurance, args.chip
        )?;
    }
    Ok(())
}

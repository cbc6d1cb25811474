//! `flashkit soak`

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use flashkit_powercut::{Chip, Histories, History, Soak, Soaked};
use serde_json::json;

use crate::Outcome;
use crate::failure::FAILED;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::{text, values};

/// A chip whose blocks stand fewer erases is worn out before it has been used.
const ENDURANCE_MIN: u64 = 32;

/// Everything at once, chip after chip, each to its wear-out.
///
/// Random operations, power cuts, cuts in the recoveries, failing blocks, flipping bits, disturbing
/// reads and passing time on one small simulated chip; after every session the whole tree is
/// compared with what docs/guarantees.md allows. When the chip is worn out it must be read-only,
/// with everything synced readable; then the next one follows.
///
/// With --in-use, chips of the shape of real parts instead, more than half full, with thousands of
/// names, each cut hundreds of times, filled and emptied in the end.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 all was as guaranteed, 1 it was not.")]
pub struct Args {
    /// How long, in hours of this machine, up to 100000; parts of one are fine
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = values::hours)]
    hours: f64,
    /// What all chance follows from; each chip takes the next one
    #[arg(long, value_name = "S", default_value_t = 1,
          value_parser = values::number::<u64>("a seed", 0, u64::MAX))]
    seed: u64,
    /// End after so many sessions; with the seed that a failure has printed, this replays it
    #[arg(long, value_name = "N",
          value_parser = values::number::<u64>("a number of sessions", 1, u64::MAX))]
    rounds: Option<u64>,
    /// Erases that a block stands, from 32
    #[arg(long, value_name = "N", default_value_t = 300,
          value_parser = values::number::<u32>("a number of erases", ENDURANCE_MIN, u32::MAX.into()))]
    endurance: u32,
    /// Page and spare in bytes, pages of a block, blocks; with -paper behind it, the paper's
    /// cleaner [default: what the seed says]
    #[arg(long, value_name = "PAGE+SPARExPAGESxBLOCKS", value_parser = values::shape)]
    chip: Option<Chip>,
    /// Long histories of chips in use
    #[arg(long, conflicts_with = "endurance")]
    in_use: bool,
    /// With --in-use: so many hundredths of the volume are full [default: what the seed says]
    #[arg(long, value_name = "PERCENT", requires = "in_use",
          value_parser = values::number::<u64>("a percentage", 1, 100))]
    fill: Option<u64>,
    /// With --in-use: no chip of more MiB than this, up to 1048576, if the seed says which
    #[arg(long, value_name = "MIB", requires = "in_use", default_value_t = 32,
          value_parser = values::number::<u64>("a number of MiB", 1, 1 << 20))]
    largest: u64,
    /// With --in-use: now and then a page cannot be read for a while. Not all that this finds is
    /// mended: a call that fails so may leave what only a repair puts right, or lose a page
    #[arg(long, requires = "in_use")]
    unread: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if args.in_use {
        return run_in_use(args, out);
    }
    let soak = Soak {
        chip: args.chip.clone(),
        seed: args.seed,
        endurance: args.endurance,
    };
    let length = Duration::from_secs_f64(args.hours * 3600.0);
    let begun = Instant::now();
    let mut bar = Progress::of_pieces("soaking", length.as_secs());
    let interrupt = Interrupt::noted()?;
    let soaked = soak.run(&mut |soaked| {
        bar.at(begun.elapsed().as_secs());
        !interrupt.is_here()
            && begun.elapsed() < length
            && args.rounds.is_none_or(|n| soaked.rounds < n)
    });
    drop(bar);
    if args.json {
        let told = report(&soaked);
        writeln!(out, "{}", serde_json::to_string_pretty(&told)?)?;
    } else {
        print(args, &soaked, out)?;
    }
    Ok(match soaked.violation {
        None => interrupt.or(ExitCode::SUCCESS),
        Some(_) => ExitCode::from(FAILED),
    })
}

fn run_in_use(args: &Args, out: &mut dyn Write) -> Outcome {
    let history = History {
        seed: args.seed,
        chip: args.chip.clone(),
        fill: args.fill,
        bytes_max: args.largest.saturating_mul(1 << 20),
        unread: args.unread,
    };
    let (length, begun) = (Duration::from_secs_f64(args.hours * 3600.0), Instant::now());
    let mut bar = Progress::of_pieces("soaking", length.as_secs());
    let interrupt = Interrupt::noted()?;
    let done = history.run(&mut |done| {
        bar.at(begun.elapsed().as_secs());
        !interrupt.is_here()
            && begun.elapsed() < length
            && args.rounds.is_none_or(|n| done.sessions < n)
    });
    drop(bar);
    let again =
        (done.violation.as_ref()).map(|(seed, session, _)| again(args, &done, *seed, *session));
    let rows = [
        ("histories_ended", "histories that ended", done.ended),
        ("worn_out", "  as they were worn out", done.worn),
        ("rounds", "sessions", done.sessions),
        ("mounts_cut", "  cut while they mounted", done.mounts_cut),
        ("cuts", "  cut later", done.cuts),
        ("unread", "    as a page was not read", done.unread),
        ("ops", "operations", done.ops),
        ("full", "  refused for want of space", done.full),
        ("reads_full", "  reads refused so", done.reads_full),
        ("names_compared", "names compared", done.names),
        ("files_compared", "files compared", done.files),
        ("bytes_compared", "bytes compared", done.bytes),
        ("boot_paths", "paths by the boot reader", done.boot_paths),
        ("programs", "pages programmed", done.programs),
        ("erases", "blocks erased", done.erases),
        ("bad_blocks", "blocks gone bad", done.bad_blocks),
        (
            "violations",
            "violations",
            u64::from(done.violation.is_some()),
        ),
    ];
    if args.json {
        let mut told: serde_json::Map<String, serde_json::Value> = rows
            .iter()
            .map(|(key, _, n)| ((*key).to_owned(), json!(n)))
            .collect();
        let violation = (done.violation.as_ref()).map(|(seed, round, what)| {
            json!({ "seed": seed, "round": round, "what": what, "replay": again })
        });
        told.insert("violation".into(), json!(violation));
        writeln!(out, "{}", serde_json::to_string_pretty(&told)?)?;
    } else {
        for (_, what, n) in rows {
            writeln!(out, "{what:28} {:>16}", text::count(n))?;
        }
        if let (Some((seed, session, what)), Some(again)) = (&done.violation, &again) {
            writeln!(
                out,
                "\nsession {session} of the history with seed {seed}: {what}"
            )?;
            writeln!(out, "    {again}")?;
        }
    }
    Ok(match done.violation {
        None => interrupt.or(ExitCode::SUCCESS),
        Some(_) => ExitCode::from(FAILED),
    })
}

/// The command that repeats a violation.
fn again(args: &Args, done: &Histories, seed: u64, session: u64) -> String {
    let mut line = format!("flashkit soak --in-use --seed {seed} --rounds {session}");
    if let Some(chip) = &done.chip {
        line += &format!(" --chip {chip}");
    }
    if let Some(fill) = args.fill {
        line += &format!(" --fill {fill}");
    }
    if args.unread {
        line += " --unread";
    }
    line
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
        let endurance = args.endurance;
        let mut line =
            format!("flashkit soak --seed {seed} --rounds {round} --endurance {endurance}");
        if let Some(chip) = &args.chip {
            line += &format!(" --chip {chip}");
        }
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

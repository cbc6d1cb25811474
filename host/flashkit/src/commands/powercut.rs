//! `flashkit powercut`

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::anyhow;
use flashkit_powercut::{
    Budget, Chip, Found, Id, SMALL_CHIP, Script, Verdict, Violation, catalogue, replay, search_all,
    search_scripts, shrink,
};
use serde_json::{Value, json};

use crate::Outcome;
use crate::failure::{FAILED, Usage};
use crate::progress::Progress;
use crate::text;

/// Search for a power cut that FlashLight does not survive as docs/guarantees.md says.
///
/// Scripts of operations run on simulated chips and are cut at every program and erase, each with
/// every outcome that a cut may have, and in the recoveries from that. What is found is compared
/// with what may be seen. Without arguments a fixed part of the search that takes some minutes.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 all is as guaranteed, 1 it is not.")]
pub struct Args {
    /// The whole search
    #[arg(long)]
    full: bool,
    /// Only the scripts whose names begin with this, as wide and deep as in the whole search
    #[arg(conflicts_with = "full")]
    script: Vec<String>,
    /// A script of your own, such as "create a; write a 0 3000; fsync a"
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["full", "script"])]
    given: Option<String>,
    /// The chip of --given: PAGE+SPARExPAGESxBLOCKS
    #[arg(long, requires = "given", default_value_t = SMALL_CHIP)]
    chip: Chip,
    /// Show step by step what one id of a violation stands for
    #[arg(long, value_name = "ID", conflicts_with_all = ["full", "script", "given"])]
    replay: Option<Id>,
    /// With --replay: look for a shorter script with the same violation
    #[arg(long, requires = "replay")]
    shrink: bool,
    /// List the scripts
    #[arg(long, conflicts_with_all = ["full", "given", "replay"])]
    list: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["replay", "list"])]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if let Some(id) = &args.replay {
        return replay_one(id, args.shrink, out);
    }
    let named = |script: &Script| {
        args.script.is_empty() || args.script.iter().any(|name| script.name.starts_with(name))
    };
    let scripts: Vec<Script> = match &args.given {
        Some(text) => vec![Script::given(text, args.chip.clone()).map_err(Usage)?],
        None if args.script.is_empty() && !args.list => Vec::new(),
        None => catalogue().into_iter().filter(named).collect(),
    };
    if args.list {
        for script in scripts {
            writeln!(out, "{:16} {}", script.chip.to_string(), script.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.script.is_empty() && scripts.is_empty() {
        return Err(Usage(format!(
            "no script's name begins so: {}",
            args.script.join(" ")
        ))
        .into());
    }
    let bar: Mutex<Option<Progress>> = Mutex::new(None);
    let progress = |done: usize, all: usize| {
        if let Ok(mut bar) = bar.lock() {
            bar.get_or_insert_with(|| Progress::of_pieces("cutting", all as u64))
                .at(done as u64);
        }
    };
    let found = match (args.full, scripts.is_empty()) {
        (_, false) => search_scripts(scripts, &progress),
        (true, _) => search_all(Budget::Full, &progress),
        (false, _) => search_all(Budget::Usual, &progress),
    };
    drop(bar);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report(&found))?)?;
    } else {
        print(&found, out)?;
    }
    Ok(match found.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

fn replay_one(id: &Id, shorter: bool, out: &mut dyn Write) -> Outcome {
    match replay(id, out)? {
        Verdict::Allowed => {
            writeln!(out, "as guaranteed")?;
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Violation(what) => {
            writeln!(out, "violation: {what}")?;
            if shorter {
                let violation = Violation {
                    id: id.clone(),
                    what,
                };
                writeln!(out, "the same: {}", shrink(&violation).id)?;
            }
            Ok(ExitCode::from(FAILED))
        }
        Verdict::NoSuchCut(what) => {
            out.flush()?;
            Err(anyhow!("{what}"))
        }
    }
}

fn report(found: &Found) -> Value {
    let examples: Vec<Value> = found
        .classes()
        .iter()
        .map(|(_, v, n)| json!({ "id": v.id.to_string(), "what": v.what, "count": n }))
        .collect();
    json!({
        "scripts": found.scripts,
        "cut_points": found.cut_points,
        "states": found.states,
        "double_cuts": found.double_cuts,
        "triple_cuts": found.triple_cuts,
        "unstable_states": found.unstable_states,
        "cuts_in_a_row": found.loop_cuts,
        "violations": found.violations,
        "examples": examples,
    })
}

fn print(found: &Found, out: &mut dyn Write) -> std::io::Result<()> {
    let rows = [
        ("scripts", found.scripts),
        ("cut points", found.cut_points),
        ("states: chips that cuts have left", found.states),
        ("  by two cuts", found.double_cuts),
        ("  by three cuts", found.triple_cuts),
        ("  that read well only for a while", found.unstable_states),
        ("  by cuts in a row on one chip", found.loop_cuts),
        ("violations", found.violations),
    ];
    for (what, n) in rows {
        writeln!(out, "{what:36} {:>12}", text::count(n))?;
    }
    for (_, violation, n) in found.classes() {
        writeln!(out, "\n{}: {}", text::plural(n, "time"), violation.what)?;
        writeln!(out, "    flashkit powercut --replay '{}'", violation.id)?;
    }
    Ok(())
}

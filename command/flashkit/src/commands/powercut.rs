//! `flashkit powercut`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, anyhow};
use clap::builder::NonEmptyStringValueParser;
use flashkit_powercut::{
    Budget, Chip, Found, Id, Part, SMALL_CHIP, Script, TREE_CHIP, Tree, TreeCuts, TreeFound,
    Verdict, Violation, Waits, catalogue, replay, search_all, search_boot, search_scripts, shrink,
};
use serde_json::{Value, json};

use crate::Outcome;
use crate::failure::{FAILED, Usage};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::{text, values};

/// Search for a power cut that FlashLight does not survive as docs/guarantees.md says
#[derive(clap::Args)]
#[command(after_help = "\
Scripts of operations run on simulated chips and are cut at every program and erase, each with every
outcome that a cut may have, and in the recoveries from that. What is found is compared with what may
be seen. Without arguments a fixed part of the search that takes some minutes.

A script of --given has operations with ; between them, on paths P and Q from the root:
    create P           write P OFFSET LENGTH   truncate P SIZE    punch P OFFSET LENGTH
    mkdir P            rmdir P                 rename P Q         exchange P Q
    link P Q           unlink P                symlink P LENGTH   mknod P NUMBER
    chmod P MODE       chown P UID GID         utimes P ATIME MTIME
    setxattr P NAME LENGTH                     rmxattr P NAME
    open P             close                   read P             list P
    fsync P            sync                    gc                 scrub
    remount            weak-read N             fail-program N SEED    fail-erase N SEED
A file ends within 16 MiB. weak-read, fail-program and fail-erase are of the N-th read, program or
erase from there on. MODE is octal.

An ID of --replay is CHIP:SCRIPT:CUT[:CUT...], as a violation is printed. SCRIPT is a name of --list,
or = and a text with _ for spaces and , for semicolons. A CUT is POINT.OUTCOME: a program or
erase of the script, the next of its recovery, and so on; the first may be @STEP, after an operation.

A chip may have, besides those of --chip, -badN for a bad block N, -copies where it copies pages by
itself, and -tableN for a block table on flash, of N blocks a page.

Exit status: 0 all is as guaranteed, 1 it is not.")]
pub struct Args {
    /// The whole search
    #[arg(long)]
    full: bool,
    /// Only the scripts whose names begin with this, as wide and deep as in the whole search
    #[arg(conflicts_with = "full", value_parser = NonEmptyStringValueParser::new())]
    script: Vec<String>,
    /// On encrypted chips: all scripts, or those that are named
    #[arg(long, conflicts_with_all = ["tree", "replay", "full"])]
    xts: bool,
    /// Compare the boot reader with the mount of every state, not of one in 16
    #[arg(long, conflicts_with_all = ["script", "xts", "given", "tree", "replay", "list"])]
    boot: bool,
    /// A part of the search, to be run apart from the others: 1/8, to 8/8
    #[arg(long, value_name = "N/OF", default_value = "1/1", conflicts_with_all = ["given", "tree", "replay", "list"])]
    part: Part,
    /// A script of your own, such as "create a; write a 0 3000; fsync a"
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["full", "script"])]
    given: Option<String>,
    /// The chip of --given or --tree: page and spare in bytes, pages of a block, blocks; with
    /// -paper behind it, the paper's cleaner, with -kept RAM for metadata pages, with -xts an
    /// encrypted volume, with -dirtyN a dirty list of N entries [default: a small one, or slc-256m]
    #[arg(long, value_name = "PAGE+SPARExPAGESxBLOCKS", value_parser = values::shape)]
    chip: Option<Chip>,
    /// Copy this directory to one chip, cut after cut, and compare what was fsync'd with it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["full", "script", "given"])]
    tree: Option<PathBuf>,
    /// With --tree: so many cuts, and those in recoveries
    #[arg(long, value_name = "N", requires = "tree", default_value_t = 1000,
          value_parser = values::number::<u64>("a number of cuts", 1, u64::MAX))]
    cuts: u64,
    /// With --tree: what all chance follows from
    #[arg(long, value_name = "S", requires = "tree", default_value_t = 1,
          value_parser = values::number::<u64>("a seed", 0, u64::MAX))]
    seed: u64,
    /// With --tree: no more than so many MiB of it
    #[arg(long, value_name = "MIB", requires = "tree", default_value_t = 16,
          value_parser = values::number::<u64>("a number of MiB", 1, 1 << 20))]
    limit: u64,
    /// Show step by step what one ID of a violation stands for, in the form below
    #[arg(long, value_name = "ID", conflicts_with_all = ["full", "script", "given", "tree"])]
    replay: Option<Id>,
    /// With --replay: look for a shorter script with the same violation
    #[arg(long, requires = "replay")]
    shrink: bool,
    /// List the scripts
    #[arg(long, conflicts_with_all = ["full", "given", "replay", "tree"])]
    list: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["replay", "list"])]
    json: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    if let Some(id) = &args.replay {
        return replay_one(id, args.shrink, out);
    }
    if let Some(top) = &args.tree {
        return cut_tree(top, args, out);
    }
    if args.chip.is_some() && args.given.is_none() {
        return Err(Usage("--chip goes with --given or --tree".into()).into());
    }
    let scripts = scripts(args)?;
    if args.list {
        for script in scripts {
            writeln!(out, "{:16} {}", script.chip.to_string(), script.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bar: Mutex<Option<Progress>> = Mutex::new(None);
    let interrupt = Interrupt::noted()?;
    let progress = |done: usize, all: usize| {
        if let Ok(mut bar) = bar.lock() {
            bar.get_or_insert_with(|| Progress::of_pieces("cutting", all as u64))
                .at(done as u64);
        }
    };
    let waits = Waits {
        progress: &progress,
        enough: &|| interrupt.is_here(),
    };
    let found = match (args.full, scripts.is_empty()) {
        (_, false) => search_scripts(scripts, args.part, waits),
        (full, _) => {
            let budget = if full { Budget::Full } else { Budget::Usual };
            let search = if args.boot { search_boot } else { search_all };
            search(budget, args.part, waits)
        }
    };
    drop(bar);
    if found.scripts == 0 && found.states == 0 && !interrupt.is_here() {
        let why = "--part: there are fewer pieces than parts, and none is in this one";
        return Err(Usage(why.into()).into());
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report(&found))?)?;
    } else {
        print(&found, out)?;
    }
    Ok(match found.violations {
        0 => interrupt.or(ExitCode::SUCCESS),
        _ => ExitCode::from(FAILED),
    })
}

/// The scripts that were asked for; none where it is the whole search.
fn scripts(args: &Args) -> anyhow::Result<Vec<Script>> {
    let named = |script: &Script| {
        args.script.is_empty() || args.script.iter().any(|name| script.name.starts_with(name))
    };
    let scripts: Vec<Script> = match &args.given {
        Some(text) => {
            let chip = args.chip.clone().unwrap_or(SMALL_CHIP);
            let script = Script::given(text, chip);
            vec![script.map_err(|why| Usage(format!("--given: {why}")))?]
        }
        None if args.script.is_empty() && !args.list && !args.xts => Vec::new(),
        None => catalogue().into_iter().filter(named).collect(),
    };
    let on_xts = |script: Script| Script {
        chip: if args.xts {
            script.chip.xts()
        } else {
            script.chip
        },
        ..script
    };
    if !args.script.is_empty() && scripts.is_empty() {
        return Err(Usage(format!(
            "no script's name begins so: {}",
            args.script.join(" ")
        ))
        .into());
    }
    Ok(scripts.into_iter().map(on_xts).collect())
}

fn replay_one(id: &Id, shorter: bool, out: &mut dyn Write) -> Outcome {
    let made = id.chip.formatted();
    made.map_err(|why| Usage(format!("--replay: {}: {why}", id.chip)))?;
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

fn cut_tree(top: &Path, args: &Args, out: &mut dyn Write) -> Outcome {
    let tree = Tree::read(top, args.limit.saturating_mul(1 << 20));
    let tree = tree.with_context(|| format!("cannot read {}", text::path(top)))?;
    if tree.files.is_empty() {
        return Err(anyhow!("no files to copy in {}", text::path(top)));
    }
    let cuts = TreeCuts {
        chip: args.chip.clone().unwrap_or(TREE_CHIP),
        seed: args.seed,
        cuts: args.cuts,
    };
    let mut bar = Progress::of_pieces("cutting", args.cuts);
    let interrupt = Interrupt::noted()?;
    let found = cuts.run(&tree, &mut |found| {
        bar.at(found.cuts);
        !interrupt.is_here()
    });
    drop(bar);
    let again = found.violation.as_ref().map(|(cut, _)| {
        format!(
            "flashkit powercut --tree '{}' --limit {} --chip {} --seed {} --cuts {cut}",
            text::path(top),
            args.limit,
            cuts.chip,
            cuts.seed
        )
    });
    if args.json {
        let told = tree_report(&tree, &found, again.as_deref());
        writeln!(out, "{}", serde_json::to_string_pretty(&told)?)?;
    } else {
        print_tree(&tree, &found, again.as_deref(), out)?;
    }
    Ok(match found.violation {
        None => interrupt.or(ExitCode::SUCCESS),
        Some(_) => ExitCode::from(FAILED),
    })
}

fn tree_report(tree: &Tree, found: &TreeFound, again: Option<&str>) -> Value {
    let violation = (found.violation.as_ref())
        .map(|(cut, what)| json!({ "cut": cut, "what": what, "replay": again }));
    json!({
        "tree_files": tree.files.len(),
        "tree_bytes": tree.bytes(),
        "cuts": found.cuts,
        "cuts_in_recoveries": found.recovery_cuts,
        "durable_files_compared": found.durable_files,
        "durable_bytes_compared": found.durable_bytes,
        "files_compared": found.files,
        "programs": found.counters.page_programs,
        "erases": found.counters.block_erases,
        "violations": u64::from(found.violation.is_some()),
        "violation": violation,
    })
}

fn print_tree(
    tree: &Tree,
    found: &TreeFound,
    again: Option<&str>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let rows = [
        ("files of the tree", tree.files.len() as u64),
        ("  bytes", tree.bytes()),
        ("cuts in a row", found.cuts),
        ("  in recoveries besides", found.recovery_cuts),
        ("durable files compared", found.durable_files),
        ("  bytes", found.durable_bytes),
        ("files compared, durable or not", found.files),
        ("pages programmed", found.counters.page_programs),
        ("blocks erased", found.counters.block_erases),
        ("violations", u64::from(found.violation.is_some())),
    ];
    for (what, n) in rows {
        writeln!(out, "{what:36} {:>16}", text::count(n))?;
    }
    if let (Some((cut, what)), Some(again)) = (&found.violation, again) {
        writeln!(out, "\ncut {cut}: {what}")?;
        writeln!(out, "    {again}")?;
    }
    Ok(())
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
        "boot_states": found.boot_states,
        "boot_paths": found.boot_paths,
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
        ("  read by the boot reader as well", found.boot_states),
        ("    paths that it was asked for", found.boot_paths),
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

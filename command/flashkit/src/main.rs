//! The `flashkit` command: file systems and block devices for raw flash, on
//! simulated chips and real ones.
//!
//! | module | what it does |
//! | --- | --- |
//! | `commands` | one module per subcommand: its arguments and its work |
//! | `volume` | opens, makes and checks file systems on chips; the only part that knows which |
//! | `disk` | opens and makes block devices on chips; the only part that knows which |
//! | `held` | what is overwritten by --force alone |
//! | `output` | files that appear whole or not at all |
//! | `place` | `IMAGE:/path` |
//! | `values` | values of options: sizes, chips |
//! | `monitored` | the flash operations of this machine's chips, for a replay |
//! | `text` | aligned tables, numbers and times as people read them |
//! | `last_mount` | what the last mount of an image had to say |
//! | `holder` | who uses an image that is in use |
//! | `interrupt` | Ctrl-C in work whose figures so far are of use |
//! | `progress` | a bar on stderr for work longer than two seconds |
//! | `failure` | exit statuses and one-line errors |

#![forbid(unsafe_code)]

mod commands;
mod disk;
mod failure;
mod held;
mod holder;
mod interrupt;
mod last_mount;
mod monitored;
mod output;
mod place;
mod progress;
mod text;
mod values;
mod volume;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{
    attach, bench, cat, chips, clean, cp, demo, dump, fsck, gc, info, lab, ls, manual, mkfs,
    monitor, mount, powercut, raw, replay, serve, soak, sync, umount,
};

/// What a subcommand gives back; an error is one line on stderr.
type Outcome = anyhow::Result<ExitCode>;

/// File systems and block devices for raw flash and cards: simulated chips in
/// image files, and real chips.
#[derive(Parser)]
#[command(
    name = "flashkit",
    version,
    after_help = "Exit status: 0 done, 1 failed or damage found, 2 usage."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Chips(chips::Args),
    Mkfs(mkfs::Args),
    Mount(mount::Args),
    Umount(umount::Args),
    Sync(sync::Args),
    Gc(gc::Args),
    Fsck(fsck::Args),
    Info(info::Args),
    Dump(dump::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Cp(cp::Args),
    Export(raw::Export),
    Import(raw::Import),
    Replay(replay::Args),
    Bench(bench::Args),
    Soak(soak::Args),
    Powercut(powercut::Args),
    Attach(attach::Args),
    Clean(clean::Args),
    Serve(serve::Args),
    Lab(lab::Args),
    Monitor(monitor::Args),
    Man(manual::Man),
    Completions(manual::Completions),
}

impl Command {
    /// Whether what is printed is a report of what was done, and not what was asked for.
    fn only_reports(&self) -> bool {
        use Command::{Attach, Export, Fsck, Import, Man, Mkfs, Mount, Serve};
        matches!(
            self,
            Attach(_) | Export(_) | Fsck(_) | Import(_) | Man(_) | Mkfs(_) | Mount(_) | Serve(_)
        )
    }

    fn run(self, out: &mut dyn Write) -> Outcome {
        match self {
            Command::Demo(args) => demo::run(&args, out),
            Command::Chips(args) => chips::run(&args, out),
            Command::Mkfs(args) => mkfs::run(&args, out),
            Command::Mount(args) => mount::run(&args, out),
            Command::Umount(args) => umount::run(&args),
            Command::Sync(args) => sync::run(&args, out),
            Command::Gc(args) => gc::run(&args, out),
            Command::Fsck(args) => fsck::run(&args, out),
            Command::Info(args) => info::run(&args, out),
            Command::Dump(args) => dump::run(&args, out),
            Command::Ls(args) => ls::run(&args, out),
            Command::Cat(args) => cat::run(&args, out),
            Command::Cp(args) => cp::run(&args),
            Command::Export(args) => raw::export(&args, out),
            Command::Import(args) => raw::import(&args, out),
            Command::Replay(args) => replay::run(&args, out),
            Command::Bench(args) => bench::run(&args, out),
            Command::Soak(args) => soak::run(&args, out),
            Command::Powercut(args) => powercut::run(&args, out),
            Command::Attach(args) => attach::run(&args, out),
            Command::Clean(args) => clean::run(&args, out),
            Command::Serve(args) => serve::run(&args, out),
            Command::Lab(args) => lab::run(&args, out),
            Command::Monitor(args) => monitor::run(&args, out),
            Command::Man(args) => manual::write_manual(&args, out),
            Command::Completions(args) => manual::complete(&args, out),
        }
    }
}

/// The name that this program was called by.
fn own_name() -> Option<String> {
    let path = std::path::PathBuf::from(std::env::args_os().next()?);
    Some(path.file_name()?.to_str()?.to_owned())
}

/// The subcommand that was called, as its help is asked for.
fn called() -> String {
    let (root, mut words) = (Cli::command(), vec!["flashkit".to_owned()]);
    let mut at = &root;
    for word in std::env::args_os().skip(1) {
        let Some(below) = at.find_subcommand(&word) else {
            break;
        };
        words.push(below.get_name().to_owned());
        at = below;
    }
    words.join(" ")
}

/// Lets `-1` be the value of an option, so that whoever parses it says what is wrong with it.
fn with_numbers(command: clap::Command) -> clap::Command {
    let value = |arg: clap::Arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(value).mut_subcommands(with_numbers)
}

/// Does what mount(8) or umount(8) asks of a helper, by whose name this program was called.
fn help<Helper: Parser>(name: &str, work: fn(&Helper, &mut dyn Write) -> Outcome) -> ExitCode {
    match Helper::try_parse() {
        Ok(helper) => {
            work(&helper, &mut std::io::stdout()).unwrap_or_else(|error| failure::report(&error))
        }
        Err(error) => failure::usage(error, name),
    }
}

fn main() -> ExitCode {
    if let Err(error) = output::outlive_limits() {
        return failure::report(&error);
    }
    match own_name().as_deref() {
        Some(name @ "mount.flashkit") => return help(name, mount::help_mount),
        Some(name @ ("umount.flashkit" | "umount.fuse.flashlight" | "umount.fuse.nanofs")) => {
            return help(name, umount::help_umount);
        }
        _ => {}
    }
    let parsed = with_numbers(Cli::command())
        .try_get_matches()
        .and_then(|m| Cli::from_arg_matches(&m));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return failure::usage(error, &called()),
    };
    let only_reports = cli.command.only_reports();
    let mut out = std::io::BufWriter::new(failure::Stdout(std::io::stdout().lock()));
    let done = cli
        .command
        .run(&mut out)
        .and_then(|code| match out.flush() {
            // What it was asked for is done.
            Err(error) if only_reports && error.kind() == ErrorKind::BrokenPipe => Ok(code),
            flushed => Ok(flushed.map(|()| code)?),
        });
    // A writer that is dropped would try once more to write what could not be written.
    let _ = out.into_parts();
    done.unwrap_or_else(|error| failure::report(&error))
}

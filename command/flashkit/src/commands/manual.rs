//! `flashkit man` and `flashkit completions`: made from the definition of the command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, Outcome};

/// Write the manual pages of this command and of each of its subcommands.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  flashkit man /usr/local/share/man/man1 && man flashkit-mount")]
pub struct Man {
    /// Folder for them, made if absent
    folder: PathBuf,
}

/// Print what makes a shell complete this command.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  flashkit completions bash > /usr/share/bash-completion/completions/flashkit"
)]
pub struct Completions {
    /// Which shell
    shell: Shell,
}

pub fn write_manual(args: &Man, out: &mut dyn Write) -> Outcome {
    std::fs::create_dir_all(&args.folder).with_context(|| shown(&args.folder))?;
    clap_mangen::generate_to(Cli::command(), &args.folder).with_context(|| shown(&args.folder))?;
    writeln!(
        out,
        "{}: flashkit.1 and those of its subcommands",
        shown(&args.folder)
    )?;
    Ok(ExitCode::SUCCESS)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub fn complete(args: &Completions, out: &mut dyn Write) -> Outcome {
    // Made first: what makes it does not take an error of the output.
    let mut made = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "flashkit", &mut made);
    out.write_all(&made)?;
    Ok(ExitCode::SUCCESS)
}

//! `flashkit man` and `flashkit completions`: made from the definition of the command.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, Outcome, output, text};

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
    let shown = || text::path(&args.folder);
    if std::fs::metadata(&args.folder).is_ok_and(|found| !found.is_dir()) {
        bail!("{}: is not a folder", shown());
    }
    std::fs::create_dir_all(&args.folder).with_context(shown)?;
    output::clear_when_interrupted()?;
    // Each page takes its place whole.
    let made = tempfile::tempdir().context("a temporary folder")?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    clap_mangen::generate_to(with_synopsis(command), &made).with_context(shown)?;
    for page in std::fs::read_dir(&made).with_context(shown)? {
        let page = page.with_context(shown)?;
        let made = std::fs::read_to_string(page.path()).with_context(shown)?;
        let page = args.folder.join(page.file_name());
        output::write_all(&[(&page, unfilled(&made).as_bytes())])?;
    }
    writeln!(out, "{}: flashkit.1 and those of its subcommands", shown())?;
    Ok(ExitCode::SUCCESS)
}

/// Lines that begin with blanks are examples: they stay lines, and are not made a paragraph.
fn unfilled(page: &str) -> String {
    let (mut out, mut within) = (String::new(), false);
    for line in page.lines() {
        let is_example = line.starts_with("  ");
        if is_example != within {
            out.push_str(if is_example { ".nf\n" } else { ".fi\n" });
            within = is_example;
        }
        out.push_str(line);
        out.push('\n');
    }
    if within {
        out.push_str(".fi\n");
    }
    out
}

/// Of itself the maker of pages names no values of options there.
fn with_synopsis(command: Command) -> Command {
    let name = command.get_bin_name().unwrap_or("flashkit");
    let mut words = vec![name.to_owned()];
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    words.extend(options.map(|arg| match arg.is_required_set() {
        true => arg.to_string(),
        false => format!("[{arg}]"),
    }));
    words.extend(command.get_positionals().map(ToString::to_string));
    if command.has_subcommands() {
        words.push("<COMMAND>".into());
    }
    let usage = words.join(" ");
    command.override_usage(usage).mut_subcommands(with_synopsis)
}

pub fn complete(args: &Completions, out: &mut dyn Write) -> Outcome {
    // Made first: what makes it does not take an error of the output.
    let mut made = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "flashkit", &mut made);
    out.write_all(&made)?;
    Ok(ExitCode::SUCCESS)
}

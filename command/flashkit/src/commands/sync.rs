//! `flashkit sync`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::{Outcome, text};

/// Make everything durable that was written to a mount: sync(1) does not reach it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cp -r config flash/ && flashkit sync flash\n\n\
    Linux hands neither sync(2) nor syncfs(2) to a file system of FUSE. What is written to a mount is \
    durable 5 seconds later (-o commit=S; with 0 not by itself), and at once what a program calls fsync for, as \
    `sync FILE` does. Other requests wait until all is written."
)]
pub struct Args {
    /// Where it is mounted
    mountpoint: PathBuf,
}

pub fn run(args: &Args, _: &mut dyn Write) -> Outcome {
    let point = &args.mountpoint;
    flashkit_fuse::ask_for_sync(point).with_context(|| text::path(point))?;
    Ok(ExitCode::SUCCESS)
}

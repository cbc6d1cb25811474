//! `flashkit umount`, and the helper of umount(8).

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::{Outcome, failure, text};

/// Unmount, and return when all is durable and the image is closed: umount(8) returns before.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cp -r config flash/ && flashkit umount flash && cp flash.img backup.img\n\n\
    umount(8) takes the mount away and does not wait for the process that serves it, which may have \
    megabytes to write then. With a link to this program it does:\n  \
    ln -s $(which flashkit) /sbin/umount.fuse.flashlight\n\n\
    While another mount namespace (a container, a service) has the mount too, this waits, and says \
    so after two seconds."
)]
pub struct Args {
    /// Where it is mounted
    mountpoint: PathBuf,
}

/// What umount(8) asks of a helper: `umount.fuse.flashlight DIRECTORY [-flnrv] [-N NS] [-t TYPE]`.
#[derive(clap::Parser)]
#[command(name = "umount.fuse.flashlight", about = "Unmount, for umount(8)")]
pub struct Helper {
    /// Where it is mounted
    directory: PathBuf,
    /// Though it does not answer: what is not durable is lost
    #[arg(short = 'f')]
    force: bool,
    /// Though it is in use; nobody waits for its end
    #[arg(short = 'l')]
    lazy: bool,
    /// Accepted: there is no mtab to write
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Accepted: nothing is made read-only
    #[arg(short = 'r')]
    read_only: bool,
    /// Say what is done
    #[arg(short = 'v')]
    verbose: bool,
    /// Accepted: the namespace is that of umount(8)
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The type
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

pub fn run(args: &Args) -> Outcome {
    let point = &args.mountpoint;
    told(point, unmount(point))?;
    Ok(ExitCode::SUCCESS)
}

/// Unmounts, and says on stderr why that takes long.
fn unmount(point: &Path) -> io::Result<()> {
    flashkit_fuse::unmount(point, &mut |waiting| {
        let server = waiting.server;
        let why = match waiting.holder {
            Some(pid) => format!("process {pid} has it in another mount namespace"),
            None => "its server goes on, maybe for another mount namespace".into(),
        };
        let point = text::path(point);
        failure::complain(&format!(
            "{point}: unmounted here and durable, but {why}. Waiting for that to end. \
            `kill {server}` ends it now and closes the image."
        ));
    })
}

/// Unmounts as the helper of umount(8). What needs no answer of the mount, or has none, is left to
/// umount(8) itself.
pub fn help_umount(helper: &Helper, out: &mut dyn Write) -> Outcome {
    let point = &helper.directory;
    if helper.force || helper.lazy {
        return unmount_plainly(helper);
    }
    match unmount(point) {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            return unmount_plainly(helper);
        }
        done => told(point, done)?,
    }
    if helper.verbose {
        writeln!(out, "{} unmounted", text::path(point))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unmount_plainly(helper: &Helper) -> Outcome {
    let mut plain = Command::new("umount");
    plain.arg("-i").args(helper.force.then_some("-f"));
    plain.args(helper.lazy.then_some("-l"));
    let done = plain.arg(&helper.directory).status()?;
    Ok(ExitCode::from(u8::from(!done.success())))
}

/// What went wrong, as people are told it.
fn told(point: &Path, done: io::Result<()>) -> anyhow::Result<()> {
    let done = done.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            io::Error::other("in use: it is durable, and mounted as before")
        }
        _ => error,
    });
    done.with_context(|| text::path(point))
}

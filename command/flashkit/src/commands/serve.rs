//! `flashkit serve`

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use flashkit_disk::Disk;
use flashkit_nbd::Export;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::Outcome;
use crate::disk;
use crate::failure::complain;
use crate::text;
use crate::volume::Access;

/// How long to wait for a client before looking for signals and cleaning.
const IDLE: Duration = Duration::from_millis(20);

/// Export a block device in an image over NBD, to one client after another, until Ctrl-C.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  flashkit serve --ftl logdisk nor.img --socket nor.sock &\n  \
    nbdinfo nbd+unix:///?socket=nor.sock\n  nbd-client -unix nor.sock /dev/nbd0"
)]
pub struct Args {
    /// Image file, made if absent
    image: PathBuf,
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    disk: disk::Choice,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Nothing waits for the host's disk before the end; if the host crashes, the image may be
    /// lost
    #[arg(long)]
    no_barrier: bool,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let access = if args.read_only {
        Access::ReadOnly
    } else {
        Access::ReadWrite
    };
    let named = || args.socket.display().to_string();
    remove_stale(&args.socket)?;
    let listener = UnixListener::bind(&args.socket).with_context(named)?;
    let served = serve(args, access, &listener, out);
    let _ = std::fs::remove_file(&args.socket);
    served
}

/// Removes a socket that nobody listens on any more.
fn remove_stale(socket: &Path) -> anyhow::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(socket) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() || UnixStream::connect(socket).is_ok() {
        bail!("{}: in the way, or in use", socket.display());
    }
    std::fs::remove_file(socket).with_context(|| socket.display().to_string())
}

fn serve(args: &Args, access: Access, listener: &UnixListener, out: &mut dyn Write) -> Outcome {
    let opened = args.disk.open(&args.image, access, !args.no_barrier)?;
    if let Some(made) = opened.made {
        writeln!(out, "{made}")?;
    }
    let mut disk = opened.disk;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("signals")?;
    }
    writeln!(
        out,
        "{} is at nbd+unix:///?socket={}, {}; Ctrl-C ends it",
        args.image.display(),
        args.socket.display(),
        text::bytes(disk.size())
    )?;
    out.flush()?;
    let export = Export {
        read_only: args.read_only,
    };
    listener.set_nonblocking(true).context("socket")?;
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => client(&stream, &mut *disk, export, &stop),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if args.read_only || !clean(&mut *disk).map_err(anyhow::Error::msg)? {
                    std::thread::sleep(IDLE);
                }
            }
            Err(error) => return Err(error).context("socket"),
        }
    }
    if !args.read_only {
        disk.close().map_err(anyhow::Error::msg)?;
    }
    let _ = writeln!(out, "session: {}", disk.summary());
    Ok(ExitCode::SUCCESS)
}

/// Serves one client until it goes or a signal comes.
fn client(stream: &UnixStream, disk: &mut dyn Disk, export: Export, stop: &AtomicBool) {
    let ready = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(IDLE)));
    if let Err(error) = ready {
        return complain(&format!("client: {error}"));
    }
    let mut host = Server {
        stop,
        cleans: !export.read_only,
    };
    match flashkit_nbd::serve(stream, disk, export, &mut host) {
        Ok(()) => {}
        Err(_) if stop.load(Ordering::Relaxed) => {}
        Err(error) if has_gone(error.kind()) => {}
        Err(error) => complain(&format!("client: {error}")),
    }
}

/// Clients may leave without a word.
fn has_gone(why: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(why, BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Cleans while the client is silent, and stops at a signal.
struct Server<'a> {
    stop: &'a AtomicBool,
    cleans: bool,
}

impl flashkit_nbd::Host for Server<'_> {
    fn idle(&mut self, disk: &mut dyn Disk) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.cleans {
            clean(disk).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn report(&mut self, why: &str) {
        complain(why);
    }
}

/// Cleans for a while; whether there is more to do.
fn clean(disk: &mut dyn Disk) -> flashkit_disk::Result<bool> {
    let start = Instant::now();
    while start.elapsed() < IDLE {
        if !disk.background()? {
            return Ok(false);
        }
    }
    Ok(true)
}

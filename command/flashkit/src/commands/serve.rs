//! `flashkit serve`

use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use flashkit_nbd::{Export, Shared};

use crate::Outcome;
use crate::disk;
use crate::failure::{Usage, complain};
use crate::output::check_no_device;
use crate::text;
use crate::volume::Access;

/// How long to wait for clients before looking for signals and cleaning.
const IDLE: Duration = Duration::from_millis(20);
/// Clients at a time. Who comes then is refused.
const CLIENTS: usize = 16;
/// Bytes of the path of a Unix socket.
const SOCKET_MAX: usize = 107;
/// Between two lines about what goes wrong.
const QUIET: Duration = Duration::from_secs(1);

/// Export a block device in an image over NBD, to 16 clients at a time, until Ctrl-C.
///
/// A client must end its handshake within 10 seconds. One that leaves a request half sent, or a
/// reply half taken, for a minute is let go. The name of the export is empty.
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
    let named = || text::path(&args.socket);
    check_no_device(&args.socket).with_context(named)?;
    let len = args.socket.as_os_str().len();
    if len > SOCKET_MAX {
        let why = format!("--socket: a path of {len} bytes; Linux takes {SOCKET_MAX} at most");
        return Err(Usage(why).into());
    }
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
        bail!("{}: in the way, or in use", text::path(socket));
    }
    std::fs::remove_file(socket).with_context(|| text::path(socket))
}

fn serve(args: &Args, access: Access, listener: &UnixListener, out: &mut dyn Write) -> Outcome {
    let opened = args.disk.open(&args.image, access, !args.no_barrier)?;
    if let Some(made) = opened.made {
        writeln!(out, "{made}")?;
    }
    let size = opened.disk.size();
    let disk = Shared::new(opened.disk);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in flashkit_fuse::ending_signals() {
        signal_hook::flag::register(signal, stop.clone()).context("signals")?;
    }
    writeln!(
        out,
        "{} is at nbd+unix:///?socket={}, {}; Ctrl-C ends it",
        text::path(&args.image),
        text::percent(&args.socket),
        text::bytes(size)
    )?;
    out.flush()?;
    let export = Export {
        read_only: args.read_only,
        ..Export::default()
    };
    let server = Server {
        disk,
        export,
        stop,
        clients: AtomicUsize::new(0),
        told: Mutex::new(Told::default()),
    };
    listener.set_nonblocking(true).context("socket")?;
    // The end of the scope waits for the clients: each looks at the flag every 20 ms.
    let served = std::thread::scope(|scope| {
        let served = server.accept(listener, |stream| {
            scope.spawn(|| server.client(stream));
        });
        server.stop.store(true, Ordering::Relaxed);
        served
    });
    served?;
    let mut disk = server.disk.lock().context(PANICKED)?;
    if !args.read_only {
        disk.close().map_err(anyhow::Error::msg)?;
    }
    let _ = writeln!(out, "session: {}", disk.summary());
    Ok(ExitCode::SUCCESS)
}

const PANICKED: &str = "the disk panicked; it needs recovery";

/// What went wrong in cleaning. It is tried again after the next command.
#[derive(Default)]
struct Failed {
    /// Commands until then.
    at: Option<u64>,
    why: String,
}

/// The disk and its clients.
struct Server {
    disk: Shared,
    export: Export,
    stop: Arc<AtomicBool>,
    clients: AtomicUsize,
    told: Mutex<Told>,
}

impl Server {
    /// Takes clients in until a signal comes; cleans while there are no commands. What goes wrong
    /// in that is told, and the clients are served on.
    fn accept(&self, listener: &UnixListener, begin: impl Fn(UnixStream)) -> anyhow::Result<()> {
        let (mut seen, mut failed) = (0, Failed::default());
        while !self.stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if self.clients.fetch_add(1, Ordering::Relaxed) < CLIENTS {
                        begin(stream);
                    } else {
                        self.clients.fetch_sub(1, Ordering::Relaxed);
                        self.tell("client: refused, as there are 16 already");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let now = self.disk.commands();
                    let idle = !self.export.read_only && now == seen;
                    seen = now;
                    if !idle || failed.at == Some(now) || !self.clean(&mut failed)? {
                        std::thread::sleep(IDLE);
                    }
                }
                // One client is lost, or has to wait for a descriptor.
                Err(error) => {
                    self.tell(&format!("client: {error}"));
                    std::thread::sleep(IDLE);
                }
            }
        }
        Ok(())
    }

    /// Cleans for a while, a step at a time, so that a command waits for one step at most. Whether
    /// there is more to do. An error is told when it is a new one.
    fn clean(&self, failed: &mut Failed) -> anyhow::Result<bool> {
        let (start, seen) = (Instant::now(), self.disk.commands());
        while start.elapsed() < IDLE && self.disk.commands() == seen {
            let done = self.disk.lock().context(PANICKED)?.background();
            match done {
                Ok(true) => {}
                Ok(false) => {
                    *failed = Failed::default();
                    return Ok(false);
                }
                Err(why) => {
                    if failed.why != why {
                        self.tell(&why);
                    }
                    (failed.at, failed.why) = (Some(seen), why);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Serves one client until it goes or a signal comes.
    fn client(&self, stream: UnixStream) {
        let served = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(IDLE)))
            .and_then(|()| stream.set_write_timeout(Some(IDLE)))
            .and_then(|()| flashkit_nbd::serve(&stream, &self.disk, self.export, &mut &*self));
        match served {
            Ok(()) => {}
            Err(_) if self.stop.load(Ordering::Relaxed) => {}
            Err(error) if has_gone(error.kind()) => {}
            Err(error) => self.tell(&format!("client: {error}")),
        }
        drop(stream);
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    fn tell(&self, what: &str) {
        if let Ok(mut told) = self.told.lock() {
            told.tell(what, Instant::now());
        }
    }
}

/// Clients may leave without a word.
fn has_gone(why: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(why, BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl flashkit_nbd::Host for &Server {
    fn waiting(&mut self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn report(&mut self, why: &str) {
        self.tell(why);
    }
}

/// Says one line a second at most, and how many were left out: clients can make as many as they
/// like.
#[derive(Default)]
struct Told {
    last: Option<Instant>,
    left_out: u64,
}

impl Told {
    fn tell(&mut self, what: &str, now: Instant) {
        if self.last.is_some_and(|last| now < last + QUIET) {
            self.left_out += 1;
            return;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.left_out) {
            0 => complain(what),
            n => complain(&format!("{what} ({n} lines before were left out)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_disk::{Disk, Result};
    use std::io::Read;

    /// A disk that can be read, and not be cleaned any more.
    struct Latched(Arc<AtomicUsize>);

    impl Disk for Latched {
        fn size(&self) -> u64 {
            4096
        }
        fn block_size(&self) -> u32 {
            512
        }
        fn read(&mut self, _: u64, _: &mut [u8]) -> Result<()> {
            Ok(())
        }
        fn write(&mut self, _: u64, _: &[u8]) -> Result<()> {
            Err("latched".into())
        }
        fn zero(&mut self, _: u64, _: u64) -> Result<()> {
            Err("latched".into())
        }
        fn flush(&mut self) -> Result<()> {
            Err("latched".into())
        }
        fn background(&mut self) -> Result<bool> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err("latched".into())
        }
    }

    /// Else all clients lose a disk that can still be read.
    #[test]
    fn a_disk_that_cannot_be_cleaned_is_served_on() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let cleanings = Arc::new(AtomicUsize::new(0));
        let server = Server {
            disk: Shared::new(Box::new(Latched(cleanings.clone()))),
            export: Export::default(),
            stop: Arc::default(),
            clients: AtomicUsize::new(0),
            told: Mutex::default(),
        };
        std::thread::scope(|scope| {
            let accepting =
                scope.spawn(|| server.accept(&listener, |stream| server.client(stream)));
            while cleanings.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(IDLE);
            }
            std::thread::sleep(10 * IDLE);
            let asked = cleanings.load(Ordering::Relaxed);
            let mut client = UnixStream::connect(&socket).unwrap();
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let mut greeting = [0; 8];
            let greeted = client.read_exact(&mut greeting);
            drop(client);
            server.stop.store(true, Ordering::Relaxed);
            assert!(accepting.join().unwrap().is_ok());
            greeted.unwrap();
            assert_eq!(asked, 1, "until the next command nothing is tried again");
        });
    }
}

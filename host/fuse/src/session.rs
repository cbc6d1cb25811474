//! The life of a mount: serve, clean while idle, and end in one way whatever ends it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashkit_vfs::Error;
use fuser::{Session, SessionUnmounter};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::bridge::Bridge;
use crate::state::Shared;
use crate::{EndedBy, MountError, MountOptions, Outcome, Served, mountpoint};

/// No request for so long: the file system is idle.
const IDLE: Duration = Duration::from_millis(50);
/// Between two slices of cleaning, so that a request that came meanwhile goes first.
const SLICE_PAUSE: Duration = Duration::from_millis(1);
/// Page moves of one slice of cleaning: a request waits for one slice at most.
const SLICE_PAGES: u32 = 16;
/// How long users of a detached mount may take to finish. A second signal cuts it short.
const GRACE: Duration = Duration::from_secs(2);

const PANICKED: &str = "the file system panicked";

/// What the waiting thread hears of.
pub(crate) enum Event {
    /// A request changed something while the waiting thread slept.
    Changed,
    /// A signal arrived.
    Signal(i32),
    /// The kernel closed the connection, or it failed.
    Ended(io::Result<()>),
}

/// Mounts `fs` at `point`, calls `ready` once it can be used, and serves it until it is unmounted
/// from outside or SIGINT, SIGTERM or SIGHUP arrives. In all cases the mount point is free again
/// and [`flashkit_vfs::FileSystem::unmount`] has been called, once, when this returns.
///
/// A mount that is busy when the signal comes is detached at once; its users get 2 seconds,
/// then I/O errors. Further signals only shorten that time. The process keeps ignoring these
/// three signals afterwards.
///
/// While idle, [`flashkit_vfs::FileSystem::gc`] is called in slices until there is nothing more to do.
///
/// # Errors
/// Nothing was mounted; the file system has been unmounted all the same.
pub fn mount(
    fs: Box<Served>,
    point: &Path,
    options: &MountOptions,
    ready: impl FnOnce(),
) -> Result<Outcome, MountError> {
    let (events, inbox) = channel();
    let root = fs.root();
    let shared = Shared::new(fs, events.clone(), options.syslog, options.fall_back);
    let session = Running::start(&shared, root, point, options, &events);
    let running = match session {
        Ok(running) => running,
        Err(error) => {
            if let Some(mut fs) = shared.take() {
                let _ = fs.unmount();
            }
            return Err(error);
        }
    };
    ready();
    let ended_by = wait(&shared, &inbox, options);
    Ok(running.finish(&shared, &inbox, ended_by))
}

/// Checks that something can be mounted at `point`, without mounting.
///
/// # Errors
/// As [`mount`] would give.
pub fn check(point: &Path) -> Result<(), MountError> {
    mountpoint::check(point).map(|_| ())
}

/// A mount being served.
struct Running {
    point: std::path::PathBuf,
    /// Number of the kernel's connection, where it is known.
    connection: Option<u64>,
    unmounter: SessionUnmounter,
    server: JoinHandle<()>,
    signals: Handle,
    listener: JoinHandle<()>,
}

impl Running {
    fn start(
        shared: &Arc<Shared>,
        root: u64,
        point: &Path,
        options: &MountOptions,
        events: &Sender<Event>,
    ) -> Result<Running, MountError> {
        let point = mountpoint::check(point)?;
        // Before mounting: a signal from now on is an orderly end.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(MountError::Os)?;
        let handle = signals.handle();
        let bridge = Bridge::new(shared.clone(), root, options);
        let mut session = Session::new(bridge, &point, &options.to_config())
            .map_err(|error| mountpoint::explain(&error))?;
        let unmounter = session.unmount_callable();
        let to_inbox = events.clone();
        let server = spawn("fuse-server", move || {
            let _ = to_inbox.send(Event::Ended(session.run()));
        })?;
        let to_inbox = events.clone();
        let listener = spawn("signals", move || {
            for signal in signals.forever() {
                let _ = to_inbox.send(Event::Signal(signal));
            }
        })?;
        let connection = std::fs::metadata(&point)
            .ok()
            .map(|m| nix::sys::stat::minor(m.dev()));
        Ok(Running {
            point,
            connection,
            unmounter,
            server,
            signals: handle,
            listener,
        })
    }

    /// Takes the mount away, unmounts the file system and stops the threads.
    fn finish(
        mut self,
        shared: &Shared,
        inbox: &Receiver<Event>,
        mut ended_by: EndedBy,
    ) -> Outcome {
        let mut was_busy = false;
        let mut serving = !matches!(ended_by, EndedBy::Unmount);
        if serving {
            match mountpoint::unmount(&self.point, self.unmounter.unmount()) {
                Ok(busy) => was_busy = busy,
                Err(error) => ended_by = EndedBy::Failure(format!("cannot unmount: {error}")),
            }
            serving = !ends_within(inbox, GRACE);
            was_busy |= serving;
        }
        let mut fs = shared.take();
        if serving {
            if let Some(connection) = self.connection {
                mountpoint::abort(connection);
            }
        } else {
            let _ = self.server.join();
        }
        let unmounted = match &mut fs {
            Some(fs) => fs.unmount(),
            None => Err(Error::Io(
                "the file system panicked; its volume needs recovery".into(),
            )),
        };
        self.signals.close();
        let _ = self.listener.join();
        Outcome {
            fs,
            ended_by,
            unmounted,
            was_busy,
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MountError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(MountError::Os)
}

/// Waits for the end of a mount; cleans while it is idle, and makes changes durable in time.
fn wait(shared: &Shared, inbox: &Receiver<Event>, options: &MountOptions) -> EndedBy {
    let clean = !options.read_only;
    let commits = clean && !options.commit.is_zero();
    // When what has changed is made durable.
    let mut due: Option<Instant> = None;
    let mut seen = shared.requests();
    // How long without a request until cleaning goes on; `None`: nothing to clean.
    let mut pause = clean.then_some(IDLE);
    loop {
        if commits && shared.take_changed() && due.is_none() {
            due = Some(Instant::now() + options.commit);
        }
        if due.is_some_and(|due| due <= Instant::now()) {
            due = None;
            if shared.commit() == Err(()) {
                return EndedBy::Failure(PANICKED.into());
            }
        }
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let event = match [pause, left].into_iter().flatten().min() {
            Some(pause) => inbox.recv_timeout(pause),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Ended(Ok(()))) => return EndedBy::Unmount,
            Ok(Event::Ended(Err(error))) => return EndedBy::Failure(error.to_string()),
            Ok(Event::Signal(signal)) => return EndedBy::Signal(signal),
            Ok(Event::Changed) => pause = clean.then_some(IDLE),
            Err(RecvTimeoutError::Disconnected) => return EndedBy::Unmount,
            // It is time to make changes durable.
            Err(RecvTimeoutError::Timeout) if pause.is_none_or(|p| left.is_some_and(|l| l < p)) => {
            }
            Err(RecvTimeoutError::Timeout) => {
                let now = shared.requests();
                if now != seen {
                    seen = now;
                    pause = Some(IDLE);
                    continue;
                }
                // Asked for before the last look, so that no change falls in between.
                shared.fall_asleep();
                pause = match shared.clean(SLICE_PAGES) {
                    Ok(true) => Some(SLICE_PAUSE),
                    Ok(false) if shared.requests() != seen => Some(IDLE),
                    Ok(false) => None,
                    Err(()) => return EndedBy::Failure(PANICKED.into()),
                };
            }
        }
    }
}

/// Waits for the kernel to close the connection; whether it did.
fn ends_within(inbox: &Receiver<Event>, grace: Duration) -> bool {
    let deadline = Instant::now() + grace;
    loop {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Ended(_)) => return true,
            Ok(Event::Changed) => {}
            Ok(Event::Signal(_)) | Err(_) => return false,
        }
    }
}

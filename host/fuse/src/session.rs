//! The life of a mount: serve, clean and patrol while idle, and end in one way whatever ends it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashkit_vfs::{Error, Patrol};
use fuser::{Session, SessionUnmounter};
use nix::sys::stat;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::bridge::Bridge;
use crate::gather::Gathered;
use crate::pace::Pace;
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
/// from outside or one of [`ending_signals`] arrives. In all cases the mount point is free again
/// and [`flashkit_vfs::FileSystem::unmount`] has been called, once, when this returns.
///
/// A mount that is busy when the signal comes is detached at once; its users get 2 seconds,
/// then I/O errors. Further signals only shorten that time. The process keeps ignoring these
/// three signals afterwards.
///
/// While idle, [`flashkit_vfs::FileSystem::gc`] is called in slices until there is nothing more to
/// do, and [`flashkit_vfs::FileSystem::patrol`] as often as `scrub` asks for.
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
    let fs = prepared(fs, options);
    let shared = Shared::new(fs, events.clone(), options);
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

/// What is served of a file system, by the options.
pub(crate) fn prepared(mut fs: Box<Served>, options: &MountOptions) -> Gathered {
    fs.count_blocks();
    match options.writeback && !options.sync && !options.read_only {
        true => Gathered::new(fs),
        false => Gathered::through(fs),
    }
}

/// The signals that end what serves until it is told to stop: SIGINT, SIGTERM, and SIGHUP unless
/// this process was started with that ignored, as `nohup` does.
pub fn ending_signals() -> Vec<i32> {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
    let hangup = (!is_ignored).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
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
    /// Major and minor number of its device, where they are known; the second is the number of the
    /// kernel's connection.
    device: Option<(u64, u64)>,
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
        let mut signals = Signals::new(ending_signals()).map_err(MountError::Os)?;
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
        let device = std::fs::metadata(&point).ok().map(|found| found.dev());
        Ok(Running {
            point,
            device: device.map(|number| (stat::major(number), stat::minor(number))),
            unmounter,
            server,
            signals: handle,
            listener,
        })
    }

    /// Takes the mount from its point; whether it is still in use. Somebody may have detached it,
    /// and mounted something else there, which stays.
    fn unmount(&mut self) -> io::Result<bool> {
        let there = mountpoint::mounted_at(&self.point).map(|at| at.device);
        match there.is_some() && self.device.is_some() && there != self.device {
            true => Ok(true),
            false => mountpoint::unmount(&self.point, self.unmounter.unmount()),
        }
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
            match self.unmount() {
                Ok(busy) => was_busy = busy,
                Err(error) => ended_by = EndedBy::Failure(format!("cannot unmount: {error}")),
            }
            serving = !ends_within(inbox, GRACE);
            was_busy |= serving;
        }
        let mut fs = shared.take();
        let met_errors = shared.has_reported();
        if serving {
            if let Some((_, connection)) = self.device {
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
            met_errors,
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, MountError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(MountError::Os)
}

/// What is to be done when nothing has happened for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Commit,
    Clean,
    Patrol,
}

/// Waits for the end of a mount; cleans and patrols while it is idle, and makes changes durable in
/// time.
fn wait(shared: &Shared, inbox: &Receiver<Event>, options: &MountOptions) -> EndedBy {
    let mut chores = Chores::new(shared, options);
    loop {
        let event = match chores.next() {
            Some((pause, turn)) => inbox.recv_timeout(pause).map_err(|e| (e, Some(turn))),
            None => inbox
                .recv()
                .map_err(|_| (RecvTimeoutError::Disconnected, None)),
        };
        let done = match event {
            Ok(Event::Ended(Ok(()))) => return EndedBy::Unmount,
            Ok(Event::Ended(Err(error))) => return EndedBy::Failure(error.to_string()),
            Ok(Event::Signal(signal)) => return EndedBy::Signal(signal),
            Ok(Event::Changed) => {
                chores.clean_in(IDLE);
                Ok(())
            }
            Err((RecvTimeoutError::Timeout, Some(turn))) => chores.run(turn),
            Err(_) => return EndedBy::Unmount,
        };
        if done == Err(()) {
            return EndedBy::Failure(PANICKED.into());
        }
    }
}

/// What is done while no request asks for anything.
struct Chores<'a> {
    shared: &'a Shared,
    /// Changes are made durable so long after the first.
    commit: Duration,
    /// Nothing is written: there is nothing to do.
    read_only: bool,
    /// When what has changed is made durable.
    due: Option<Instant>,
    /// Requests at the last look.
    seen: u64,
    /// When cleaning goes on, if there are no requests before; `None`: nothing to clean.
    clean_at: Option<Instant>,
    /// `None`: nothing to patrol.
    pace: Option<Pace>,
}

impl<'a> Chores<'a> {
    fn new(shared: &'a Shared, options: &MountOptions) -> Chores<'a> {
        let pace = match options.read_only || options.scrub.is_zero() {
            true => None,
            false => Pace::new(options.scrub, shared.pages(), Instant::now()),
        };
        let mut chores = Chores {
            shared,
            commit: options.commit,
            read_only: options.read_only,
            due: None,
            seen: shared.requests(),
            clean_at: None,
            pace,
        };
        chores.clean_in(IDLE);
        chores
    }

    fn clean_in(&mut self, pause: Duration) {
        self.clean_at = (!self.read_only).then(|| Instant::now() + pause);
    }

    /// How long to wait, and for what.
    fn next(&mut self) -> Option<(Duration, Turn)> {
        let now = Instant::now();
        let commits = !self.read_only && !self.commit.is_zero();
        if commits && self.shared.take_changed() && self.due.is_none() {
            self.due = Some(now + self.commit);
        }
        let left = |at: Instant| at.saturating_duration_since(now);
        [
            (self.due.map(left), Turn::Commit),
            (self.clean_at.map(left), Turn::Clean),
            (self.pace.as_ref().map(|pace| pace.left(now)), Turn::Patrol),
        ]
        .into_iter()
        .filter_map(|(left, turn)| Some((left?, turn)))
        .min_by_key(|(left, _)| *left)
    }

    /// Whether there were requests since the last look.
    fn is_busy(&mut self) -> bool {
        let now = self.shared.requests();
        now != std::mem::replace(&mut self.seen, now)
    }

    fn run(&mut self, turn: Turn) -> Result<(), ()> {
        match turn {
            Turn::Commit => {
                // What comes meanwhile may miss it.
                let next = Instant::now() + self.commit;
                self.shared.take_changed();
                let done = self.shared.commit();
                self.due = self.shared.take_changed().then_some(next);
                done
            }
            Turn::Clean => self.clean(),
            Turn::Patrol => self.patrol(),
        }
    }

    fn clean(&mut self) -> Result<(), ()> {
        if self.is_busy() {
            self.clean_in(IDLE);
            return Ok(());
        }
        // Asked for before the last look, so that no change falls in between.
        self.shared.fall_asleep();
        match self.shared.clean(SLICE_PAGES)? {
            true => self.clean_in(SLICE_PAUSE),
            false if self.shared.requests() != self.seen => self.clean_in(IDLE),
            false => self.clean_at = None,
        }
        Ok(())
    }

    fn patrol(&mut self) -> Result<(), ()> {
        let busy = self.is_busy();
        let Some(pace) = &mut self.pace else {
            return Ok(());
        };
        if busy {
            pace.put_off(Instant::now(), IDLE);
            return Ok(());
        }
        match self.shared.patrol()? {
            Some(Patrol::Nothing) => self.pace = None,
            met => {
                pace.stepped(Instant::now());
                if met == Some(Patrol::Noted) {
                    self.clean_in(SLICE_PAUSE);
                }
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_vfs::MemoryFs;

    fn shared() -> Arc<Shared> {
        let (events, _) = channel();
        Shared::new(
            Gathered::through(Box::new(MemoryFs::new())),
            events,
            &MountOptions::default(),
        )
    }

    /// However often the patrol has its turn, cleaning has its own when it is time.
    #[test]
    fn the_patrol_does_not_keep_cleaning_away() {
        let shared = shared();
        let blocks = shared.pages();
        let options = MountOptions {
            // A page in a tenth of what cleaning waits for.
            scrub: IDLE / 10 * u32::try_from(blocks).unwrap(),
            ..MountOptions::default()
        };
        let mut chores = Chores::new(&shared, &options);
        let begun = Instant::now();
        let mut patrols = 0;
        loop {
            let (left, turn) = chores.next().unwrap();
            std::thread::sleep(left);
            if turn == Turn::Clean {
                break;
            }
            // As if there were something to read.
            chores.pace.as_mut().unwrap().stepped(Instant::now());
            patrols += 1;
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{patrols} turns of the patrol"
            );
        }
        assert!(patrols > 0);
    }

    #[test]
    fn what_has_nothing_to_patrol_is_not_asked_again() {
        let shared = shared();
        let mut chores = Chores::new(&shared, &MountOptions::default());
        assert!(chores.pace.is_some());
        chores.patrol().unwrap();
        assert!(chores.pace.is_none());
    }
}

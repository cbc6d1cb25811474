//! The file system behind its lock, with what FUSE needs to know beside it.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flashkit_vfs::{Error, FileSystem, Ino, Patrol};
use fuser::Errno;

use crate::gather::Gathered;
use crate::kept::Kept;
use crate::session::Event;
use crate::{Log, MountOptions, Served};

/// Distinct I/O errors that are reported before a mount falls silent.
const REPORTED_MAX: usize = 100;

/// What is said when a change is refused: the kernel lets none through to a mount that is
/// read-only by its options.
const READ_ONLY: &str = "the volume can only be read from now on: its records are damaged, or too many \
    blocks have gone bad";
/// The same, where it was the chip or what stands for it.
const DRIVER_FAILED: &str = "the volume can only be read from now on: after the error of the chip or its \
    image its state is not known; a mount anew recovers it";

/// What is said behind the damage that makes a mount read-only.
const FALLEN: &str = "; the mount is read-only from now on, see `flashkit fsck`";

/// What is at work when a removal fails that has been answered, or the freeing of a file.
const REMOVAL: &str = "removing a file";

/// What is at work when an error of it is reported.
const COMMIT: &str = "making changes durable";
/// Between two steps of a commit, so that a request that came meanwhile goes first.
const STEP_PAUSE: Duration = Duration::from_millis(1);

/// Why a request is refused once the file system has been taken away.
const GONE: &str = "the file system has been unmounted";

/// Shared between the thread that serves the kernel and the one that waits and cleans.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Requests so far: no change over a while means idle.
    requests: AtomicU64,
    /// Something has changed since this was asked last.
    changed: AtomicBool,
    /// The waiting thread sleeps without a timeout and wants to hear of the next change.
    asleep: AtomicBool,
    events: Sender<Event>,
}

/// What the lock protects.
pub(crate) struct Inner {
    /// `None` once taken for the unmount.
    fs: Option<Kept>,
    /// For reads.
    pub(crate) buf: Vec<u8>,
    reported: HashSet<String>,
    log: Log,
    /// Whether damaged records make the mount read-only, and whether they have.
    fall_back: bool,
    pub(crate) read_only: bool,
}

/// What a request does, and so whether it may leave work for cleaning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The kernel's word that it knows an inode no more, or less often. A removal that waits goes
    /// on waiting, unless it is of this one.
    Forgets,
    Reads,
    Changes,
    /// Ends or makes durable what has been changed before.
    Settles,
}

impl Shared {
    pub(crate) fn new(fs: Gathered, events: Sender<Event>, options: &MountOptions) -> Arc<Shared> {
        let inner = Inner {
            fs: Some(Kept::new(fs, !options.sync)),
            buf: Vec::new(),
            reported: HashSet::new(),
            log: options.log.clone(),
            fall_back: options.fall_back,
            read_only: false,
        };
        Arc::new(Shared {
            inner: Mutex::new(inner),
            requests: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            events,
        })
    }

    /// Serves one request. An error comes back as what the kernel is told.
    pub(crate) fn serve<T>(
        &self,
        effect: Effect,
        work: impl FnOnce(&mut Inner) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let result = match self.inner.lock() {
            Ok(mut inner) => inner.serve(effect, work),
            // It panicked in an earlier request.
            Err(_) => Err(Errno::EIO),
        };
        self.requests.fetch_add(1, Ordering::Relaxed);
        if matches!(effect, Effect::Changes | Effect::Settles) {
            self.note_change();
        }
        result
    }

    /// A request may have left work for cleaning.
    pub(crate) fn note_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
        if self.asleep.swap(false, Ordering::Relaxed) {
            let _ = self.events.send(Event::Changed);
        }
    }

    /// Requests served so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Asks for an [`Event::Changed`] at the next change.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
    }

    /// Whether something has changed since this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Makes everything durable that there is now, in steps: a request that comes meanwhile waits
    /// for one of them. `Err`: the file system panicked.
    pub(crate) fn commit(&self) -> Result<(), ()> {
        let steps = self.by_itself(COMMIT, true, |fs| Ok(fs.begin_commit()))?;
        let Some(steps) = steps else {
            return Ok(());
        };
        for _ in 0..steps {
            if self.by_itself(COMMIT, true, Gathered::write_some)? != Some(true) {
                break;
            }
            std::thread::sleep(STEP_PAUSE);
        }
        self.by_itself(COMMIT, true, Gathered::end_commit)
            .map(|_| ())
    }

    /// Cleans a little; whether more could be done. `Err`: the file system panicked.
    pub(crate) fn clean(&self, pages: u32) -> Result<bool, ()> {
        let more = self.by_itself("cleaning", false, |fs| fs.gc(pages))?;
        Ok(more.unwrap_or(false))
    }

    /// Reads a page for the patrol; what it meets is reported, an error too, which is `None`.
    /// `Err`: the file system panicked.
    pub(crate) fn patrol(&self) -> Result<Option<Patrol>, ()> {
        let met = self.by_itself("patrol", false, FileSystem::patrol)?;
        if let Some(Patrol::Lost(what) | Patrol::Done(Some(what))) = &met {
            let mut inner = self.inner.lock().map_err(|_| ())?;
            inner.report(&format!("patrol: {what}"));
        }
        Ok(met)
    }

    /// Pages that a patrol has to read at most.
    pub(crate) fn pages(&self) -> u64 {
        let space = self.by_itself("patrol", true, FileSystem::statfs);
        space.ok().flatten().map_or(0, |space| space.blocks)
    }

    /// Has the file system do what no request asks for; an error is reported, and there is no
    /// result. `Err`: the file system panicked.
    fn by_itself<T>(
        &self,
        what: &str,
        settles: bool,
        work: impl FnOnce(&mut Gathered) -> Result<T, Error>,
    ) -> Result<Option<T>, ()> {
        let mut inner = self.inner.lock().map_err(|_| ())?;
        if inner.read_only && !settles || inner.fs.is_none() {
            return Ok(None);
        }
        let work = || {
            inner.remove_held();
            match inner.read_only && !settles {
                true => Ok(None),
                false => work(inner.fs()?.inner()).map(Some),
            }
        };
        match std::panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                inner.meet(what, &error);
                Ok(None)
            }
            // The lock is not poisoned by a panic that is caught, so the file system is dropped.
            Err(_) => {
                inner.fs = None;
                Err(())
            }
        }
    }

    /// Whether something wrong with the medium has been reported.
    pub(crate) fn has_reported(&self) -> bool {
        (self.inner.lock()).is_ok_and(|inner| !inner.reported.is_empty())
    }

    /// Takes the file system; every later request fails. `None` when it panicked.
    pub(crate) fn take(&self) -> Option<Box<Served>> {
        let mut inner = self.inner.lock().ok()?;
        inner.remove_held();
        Some(inner.fs.take()?.into_inner())
    }
}

impl Inner {
    fn serve<T>(
        &mut self,
        effect: Effect,
        work: impl FnOnce(&mut Inner) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        if effect != Effect::Forgets {
            self.remove_held();
        }
        if self.read_only && effect == Effect::Changes {
            return Err(Errno::EROFS);
        }
        work(self).map_err(|error| match effect {
            Effect::Forgets => {
                self.meet(REMOVAL, &error);
                Errno::from_i32(error.errno())
            }
            _ => self.answer(&error),
        })
    }

    /// Makes the removal that has been answered for. An error of it is reported.
    fn remove_held(&mut self) {
        if let Some(Err(error)) = self.fs.as_mut().map(Kept::remove_held) {
            self.meet(REMOVAL, &error);
        }
    }

    /// Reports an error that nobody is told of by an answer.
    pub(crate) fn meet(&mut self, what: &str, error: &Error) {
        match error {
            Error::Damaged(damage) => self.meet_damage(&format!("{what}: {damage}")),
            error => self.report(&format!("I/O error: {what}: {error}")),
        }
    }

    pub(crate) fn fs(&mut self) -> Result<&mut Kept, Error> {
        self.fs.as_mut().ok_or_else(|| Error::Io(GONE.into()))
    }

    /// The file system and the buffer for reads.
    pub(crate) fn fs_and_buf(&mut self) -> Result<(&mut Kept, &mut Vec<u8>), Error> {
        match self.fs.as_mut() {
            Some(fs) => Ok((fs, &mut self.buf)),
            None => Err(Error::Io(GONE.into())),
        }
    }

    /// The kernel takes back `count` of the references it was handed; whether it knows
    /// the inode no more.
    pub(crate) fn forget(&mut self, ino: Ino, count: u64) -> Result<bool, Error> {
        self.fs()?.forget(ino, count)
    }

    /// What the kernel is told of an error; what is wrong with the medium is reported.
    fn answer(&mut self, error: &Error) -> Errno {
        match error {
            Error::Damaged(what) => self.meet_damage(what),
            Error::Io(what) => self.report(&format!("I/O error: {what}")),
            Error::ReadOnly => {
                // The file system is as it was; it is the medium that fails.
                if self.fs.as_ref().is_some_and(Kept::has_driver_failed) {
                    self.say_once(DRIVER_FAILED);
                    return Errno::EIO;
                }
                self.say_once(READ_ONLY);
            }
            _ => {}
        }
        Errno::from_i32(error.errno())
    }

    /// Records of the file system are damaged: what is changed now might make it worse.
    fn meet_damage(&mut self, what: &str) {
        let told = format!("I/O error: {what}");
        if !self.fall_back || self.read_only {
            return self.report(&told);
        }
        self.read_only = true;
        self.say_once(&format!("{told}{FALLEN}"));
        // The same damage is not told again.
        self.reported.insert(told);
    }

    /// Says what was wrong with the medium, once for each text, and no more than so many of them.
    fn report(&mut self, what: &str) {
        if !what.ends_with(GONE) && self.reported.len() < REPORTED_MAX {
            self.say_once(what);
        }
    }

    /// The same, however much has been said: nothing else tells why changes are refused.
    fn say_once(&mut self, what: &str) {
        if self.reported.insert(what.to_owned()) {
            self.log.tell(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_vfs::{MemoryFs, NewInode};

    #[test]
    fn a_taken_file_system_refuses_every_request() {
        let (events, _) = std::sync::mpsc::channel();
        let shared = Shared::new(
            Gathered::through(Box::new(MemoryFs::new())),
            events,
            &MountOptions::default(),
        );
        assert!(shared.take().is_some());
        assert!(shared.take().is_none());
        let refused = shared.serve(Effect::Reads, |inner| inner.fs()?.statfs());
        assert_eq!(refused.unwrap_err(), Errno::EIO);
        assert_eq!(shared.clean(64), Ok(false));
    }

    #[test]
    fn damaged_records_make_a_mount_read_only() {
        for fall_back in [true, false] {
            let (events, _) = std::sync::mpsc::channel();
            let options = MountOptions {
                fall_back,
                ..MountOptions::default()
            };
            let shared = Shared::new(
                Gathered::through(Box::new(MemoryFs::new())),
                events,
                &options,
            );
            let create = |name: &[u8]| {
                shared.serve(Effect::Changes, |inner| {
                    let root = inner.fs()?.root();
                    inner.fs()?.create(root, name, &NewInode::default())
                })
            };
            create(b"before").unwrap();
            // A file's data concerns that file alone.
            let data: Result<(), Errno> =
                shared.serve(Effect::Reads, |_| Err(Error::Io("page 7".into())));
            assert_eq!(data, Err(Errno::EIO));
            create(b"between").unwrap();
            let met: Result<(), Errno> =
                shared.serve(Effect::Reads, |_| Err(Error::Damaged("page 8".into())));
            assert_eq!(met, Err(Errno::EIO));
            let refused = create(b"after").err();
            assert_eq!(refused, fall_back.then_some(Errno::EROFS));
            let root = shared.inner.lock().unwrap().fs().unwrap().root();
            for (name, there) in [("before", true), ("between", true), ("after", !fall_back)] {
                let found = shared.serve(Effect::Reads, |inner| {
                    inner.fs()?.lookup(root, name.as_bytes())
                });
                assert_eq!(found.is_ok(), there, "{name}");
            }
            // What was accepted is still made durable.
            assert!(
                shared
                    .serve(Effect::Settles, |inner| inner.fs()?.sync())
                    .is_ok()
            );
            assert_eq!(shared.commit(), Ok(()));
            let told = &shared.inner.lock().unwrap().reported;
            let lines = told.iter().filter(|line| line.contains("read-only"));
            assert_eq!(lines.count(), usize::from(fall_back), "{told:?}");
        }
    }

    /// Else nobody learns why changes are refused.
    #[test]
    fn that_a_mount_is_read_only_is_said_however_much_was_said_before() {
        let dir = tempfile::tempdir().unwrap();
        let (events, _) = std::sync::mpsc::channel();
        let mut options = MountOptions::default();
        options.log.file = Some(dir.path().join("log"));
        let fs = Gathered::through(Box::new(MemoryFs::new()));
        let shared = Shared::new(fs, events, &options);
        let meet = |error: Error| {
            let met: Result<(), Errno> = shared.serve(Effect::Reads, |_| Err(error));
            assert!(met.is_err());
        };
        for page in 0..2 * REPORTED_MAX {
            meet(Error::Io(format!("page {page}")));
        }
        for page in [8, 8, 9] {
            meet(Error::Damaged(format!("inode page {page}")));
        }
        let said = std::fs::read_to_string(dir.path().join("log")).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), REPORTED_MAX + 1);
        assert!(lines[REPORTED_MAX].starts_with("I/O error: inode page 8; the mount is read-only"));
    }
}

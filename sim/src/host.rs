//! The file behind an image, and what the host would have of it after a crash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::Rng;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// A file that can tell what it was asked.
#[derive(Debug)]
pub(crate) struct HostFile {
    file: File,
    told: Option<TestHost>,
    /// Why nothing more is written: after a failed sync nobody knows what the disk has, and the
    /// next one would not say so again.
    failed: OnceLock<(io::ErrorKind, String)>,
}

impl HostFile {
    /// A file, and a host that is told of each change. What the file holds when the host hears of
    /// it first is on the disk.
    pub fn new(file: File, told: Option<&TestHost>) -> io::Result<HostFile> {
        let host = HostFile {
            file,
            told: told.cloned(),
            failed: OnceLock::new(),
        };
        if let Some(told) = told {
            let mut known = told.host();
            if known.durable.is_empty() {
                known.durable = vec![0; host.len()? as usize];
                host.read_exact_at(&mut known.durable, 0)?;
            }
        }
        Ok(host)
    }

    fn check(&self) -> io::Result<()> {
        match self.failed.get() {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }

    fn tell(&self, change: impl FnOnce() -> Change) {
        if let Some(told) = &self.told {
            told.host().note(change());
        }
    }

    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    pub fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.check()?;
        self.file.write_all_at(bytes, at)?;
        self.tell(|| Change::Write(at as usize, bytes.to_vec()));
        Ok(())
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.tell(|| Change::Len(len as usize));
        Ok(())
    }

    /// Waits for the disk, the real one if there is no other.
    pub fn sync(&self) -> io::Result<()> {
        self.check()?;
        if self.told.is_some() {
            self.tell(|| Change::Sync);
            return Ok(());
        }
        let synced = self.file.sync_data();
        if let Err(e) = &synced {
            let _ = self.failed.set((e.kind(), e.to_string()));
        }
        synced
    }
}

/// What is asked of a file.
#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
    Sync,
}

/// A host with one file and a disk, for tests of what its crash leaves of an image or a card.
/// Clones are the same host.
#[derive(Clone, Debug, Default)]
pub struct TestHost(Arc<Mutex<Host>>);

#[derive(Debug, Default)]
struct Host {
    /// The file as it was at the last sync.
    durable: Vec<u8>,
    /// Changes since then.
    pending: Vec<Change>,
    writes: u64,
    syncs: u64,
    /// After how many more changes it crashes, and how.
    crash: Option<(u64, Rng)>,
    left: Option<Vec<u8>>,
}

impl TestHost {
    fn host(&self) -> MutexGuard<'_, Host> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs so far.
    pub fn counts(&self) -> (u64, u64) {
        let host = self.host();
        (host.writes, host.syncs)
    }

    /// Has the host crash after so many more changes, syncs among them; a seed says what is left.
    /// The running program does not notice.
    pub fn crash_after(&self, changes: u64, seed: u64) {
        self.host().crash = Some((changes, Rng::new(seed)));
    }

    /// What the disk has of the file after the crash, once: all that came before the last sync,
    /// and of the later changes what chance picks, in any order, each sector of 512 bytes for
    /// itself. `None`: there was no crash since this was asked last.
    pub fn left(&self) -> Option<Vec<u8>> {
        self.host().left.take()
    }
}

impl Host {
    fn note(&mut self, change: Change) {
        match &change {
            Change::Sync => self.syncs += 1,
            Change::Write(..) => self.writes += 1,
            Change::Len(_) => {}
        }
        if let Change::Sync = change {
            for change in self.pending.drain(..) {
                apply(&mut self.durable, &change, &mut || true);
            }
        } else {
            self.pending.push(change);
        }
        match &mut self.crash {
            Some((0, rng)) => {
                let mut rng = rng.clone();
                self.crash = None;
                self.left = Some(self.after_crash(&mut rng));
            }
            Some((more, _)) => *more -= 1,
            None => {}
        }
    }

    fn after_crash(&self, rng: &mut Rng) -> Vec<u8> {
        let mut image = self.durable.clone();
        let mut order: Vec<&Change> = self.pending.iter().collect();
        if rng.one_in(2) {
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        // Of a hundred; nearly none and nearly all are the hard ones.
        let kept = rng.one_of(&[0, 3, 25, 50, 75, 97, 100]);
        let torn = rng.one_in(2);
        for change in order {
            let whole = rng.below(100) < kept;
            apply(&mut image, change, &mut || match torn {
                true => rng.below(100) < kept,
                false => whole,
            });
        }
        image
    }
}

/// Makes a change, of each sector for which `keeps` says so.
fn apply(image: &mut Vec<u8>, change: &Change, keeps: &mut dyn FnMut() -> bool) {
    match change {
        Change::Sync => {}
        Change::Len(len) => {
            if keeps() {
                image.resize(*len, 0);
            }
        }
        Change::Write(at, bytes) => {
            let (mut at, mut rest) = (*at, &bytes[..]);
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                if keeps() {
                    image.resize(image.len().max(at + part.len()), 0);
                    image[at..at + part.len()].copy_from_slice(part);
                }
                at += part.len();
                rest = after;
            }
        }
    }
}

//! A removal that waits for the kernel's next word.
//!
//! The kernel forgets a file only after it has been told that the name is gone, and then at once if
//! nobody uses it. So the server answers first. If the kernel forgets the file next, the name is
//! taken and the file freed; what is kept for those who know it would have been for nobody. Before
//! any request that is no forget, and before what the server does by itself, the name is taken with
//! what is kept (`Kept::remove`). So nobody sees the difference.
//!
//! The answer is given before the work is done, so only where the file system says that it will
//! succeed ([`FileSystem::takes_removals`]). If it fails yet, as the chip does, the error is
//! logged, the next `fsync` gives it, and no removal waits any more: others are answered with what
//! comes of them.
//!
//! [`FileSystem::takes_removals`]: flashkit_vfs::FileSystem::takes_removals

use flashkit_vfs::{Error, FileKind, FileSystem, Ino, Result, Time};

use super::Kept;

/// The removal that waits, and what became of earlier ones.
pub(super) struct Held {
    waits: Option<Removal>,
    /// Removals may wait: the mount is not synchronous, and none has failed.
    allowed: bool,
    /// Of a removal that failed after its answer, until somebody is told.
    failed: Option<Error>,
}

/// The last name of a file that the kernel knows and nobody has open.
struct Removal {
    node: Ino,
    /// Its number, and its directory's, in the file system.
    ino: Ino,
    dir: Ino,
    name: Vec<u8>,
    /// When it was asked for.
    now: Time,
}

impl Held {
    pub(super) fn new(allowed: bool) -> Held {
        Held {
            waits: None,
            allowed,
            failed: None,
        }
    }

    /// Notes what became of a removal.
    fn ended(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.allowed = false;
            self.failed = Some(error.clone());
        }
        done
    }
}

impl Kept {
    /// Holds a removal back; whether it can wait. What cannot is done at once: it may be refused,
    /// or nothing would be kept.
    pub(super) fn hold(&mut self, dir: Ino, name: &[u8], now: Time) -> bool {
        debug_assert!(self.held.waits.is_none(), "each request makes it first");
        if !self.held.allowed || !self.fs.takes_removals() {
            return false;
        }
        let Some((node, attr)) = self.last_name(dir, name) else {
            return false;
        };
        let is_open = self.known.get(&node).is_none_or(|known| known.opens > 0);
        if is_open || attr.kind == FileKind::Dir {
            return false;
        }
        self.held.waits = Some(Removal {
            node,
            ino: attr.ino,
            dir,
            name: name.to_vec(),
            now,
        });
        true
    }

    /// Makes the removal that waits, if there is one, and keeps what the kernel knows.
    pub(crate) fn remove_held(&mut self) -> Result<()> {
        let Some(removal) = self.held.waits.take() else {
            return Ok(());
        };
        let done = self.remove_file(removal.dir, &removal.name, removal.now);
        self.held.ended(done)
    }

    /// Makes the removal that waits if it is this file's, which the kernel has just forgotten:
    /// there is nothing to keep.
    pub(super) fn remove_forgotten(&mut self, node: Ino) -> Option<Result<()>> {
        let removal = self.held.waits.take_if(|held| held.node == node)?;
        self.known.remove(&node);
        self.renumbered.remove(&removal.ino);
        self.generation += 1;
        let Removal { dir, name, now, .. } = &removal;
        let done = self.in_room(|kept| kept.fs.unlink(*dir, name, *now));
        self.fs.forget(removal.ino);
        Some(self.held.ended(done))
    }

    /// The error of a removal that failed after its answer, once.
    pub(super) fn told_late(&mut self) -> Result<()> {
        self.held.failed.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::through;
    use crate::testing::{faulty, flash};
    use flashkit_sim::{Faults, Rate};
    use flashkit_vfs::{Measured, MemoryFs, NewInode};

    /// A file of so many bytes, that the kernel has looked up.
    fn file(kept: &mut Kept, name: &[u8], size: usize) -> Ino {
        let root = kept.root();
        let file = kept.create(root, name, &NewInode::default()).unwrap().ino;
        kept.write(file, 0, &vec![5; size], Time::default())
            .unwrap();
        kept.looked_up(file);
        file
    }

    /// Reads and programs of a removal that the kernel's forget follows at once, or other requests.
    fn cost(may_hold: bool, size: usize, forgets: bool) -> (u64, u64) {
        let mut kept = through(flash("micron-20m"), may_hold);
        let (root, now) = (kept.root(), Time::default());
        let gone = file(&mut kept, b"gone", size);
        kept.sync().unwrap();
        let before = kept.inner().cost();
        kept.unlink(root, b"gone", now).unwrap();
        if !forgets {
            kept.remove_held().unwrap();
        }
        assert_eq!(kept.forget(gone, 1), Ok(true));
        let after = kept.inner().cost();
        assert_eq!(kept.lookup(root, b"gone").unwrap_err(), Error::NotFound);
        (
            after.page_reads - before.page_reads,
            after.page_programs - before.page_programs,
        )
    }

    #[test]
    fn what_the_kernel_forgets_at_once_costs_nothing_to_keep() {
        let costs = [30_000, 100_000].map(|size| {
            [(true, true), (true, false), (false, true)]
                .map(|(held, forgets)| cost(held, size, forgets))
        });
        // A copy of 15 pages, one of them at hand; and a file kept on flash.
        let pinned = [[(0, 0), (14, 0), (14, 0)], [(0, 0), (1, 1), (1, 1)]];
        assert_eq!(
            costs, pinned,
            "held and forgotten; held, another request; not held"
        );
    }

    #[test]
    fn a_directory_an_open_file_and_one_with_two_names_do_not_wait() {
        let mut kept = through(Box::new(MemoryFs::new()), true);
        let (root, now, new) = (kept.root(), Time::default(), NewInode::default());
        let dir = kept.mkdir(root, b"d", &new).unwrap().ino;
        kept.looked_up(dir);
        kept.create(dir, b"f", &new).unwrap();
        assert_eq!(kept.rmdir(root, b"d", now), Err(Error::NotEmpty));
        assert_eq!(kept.unlink(root, b"d", now), Err(Error::IsDir));
        assert_eq!(kept.unlink(root, b"none", now), Err(Error::NotFound));
        let open = file(&mut kept, b"open", 10);
        kept.open(open).unwrap();
        let two = file(&mut kept, b"two", 10);
        kept.link(two, root, b"names", now).unwrap();
        for name in [&b"open"[..], b"two"] {
            kept.unlink(root, name, now).unwrap();
            assert_eq!(kept.lookup(root, name).unwrap_err(), Error::NotFound);
        }
    }

    /// A volume that takes no change, as it is worn out, says so at once.
    #[test]
    fn a_removal_that_will_be_refused_does_not_wait() {
        let faults = Faults {
            program_fail: Rate(100),
            ..Faults::default()
        };
        let mut kept = through(faulty("micron-20m", faults), true);
        let (root, now) = (kept.root(), Time::default());
        let kept_file = file(&mut kept, b"kept", 10);
        kept.fsync(kept_file).unwrap();
        assert!(kept.inner().takes_removals());
        let other = file(&mut kept, b"other", 10);
        let worn = (0..100_000).find_map(|i| {
            let at = i % 1000 * 2000;
            kept.write(other, at, &[i as u8; 2000], now).err()
        });
        assert_eq!(worn, Some(Error::ReadOnly));
        assert_eq!(kept.unlink(root, b"kept", now), Err(Error::ReadOnly));
        assert!(kept.lookup(root, b"kept").is_ok());
    }

    /// Who is told that a file is gone while it is not hears of it when it asks for its durability.
    #[test]
    fn a_removal_that_fails_after_its_answer_is_told_by_the_next_fsync() {
        for forgets in [true, false] {
            let mut kept = through(Box::new(MemoryFs::new()), true);
            let (root, now) = (kept.root(), Time::default());
            let gone = file(&mut kept, b"gone", 10);
            kept.unlink(root, b"gone", now).unwrap();
            // As if the chip failed now.
            kept.inner().unlink(root, b"gone", now).unwrap();
            match forgets {
                true => assert_eq!(kept.forget(gone, 1), Err(Error::NotFound)),
                false => assert_eq!(kept.remove_held(), Err(Error::NotFound)),
            }
            assert_eq!(kept.fsync(root), Err(Error::NotFound));
            assert_eq!(kept.fsync(root), Ok(()));
            file(&mut kept, b"next", 10);
            kept.unlink(root, b"next", now).unwrap();
            assert_eq!(kept.lookup(root, b"next").unwrap_err(), Error::NotFound);
        }
    }
}

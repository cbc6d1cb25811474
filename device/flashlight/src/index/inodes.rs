//! Inodes come and go: a new directory, a record of a name, a directory that is freed.

use crate::error::Fault;
use crate::format::header::Kind;
use crate::format::inode::{MODE_DIR, MODE_TYPE, Stamp, Time};
use crate::format::mappage::MapPage;
use crate::index::Index;
use crate::index::slots::{DirSlot, FileSlot};
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

/// The times of a directory that a change of its names sets.
pub(crate) const CHANGED: [Stamp; 2] = [Stamp::Modify, Stamp::Change];

/// Who creates an inode, and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct New {
    /// Permission bits (07777).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Its timestamps, and those of its directory.
    pub now: Time,
}

impl<N: Nand> Index<'_, N> {
    /// Notes when a directory has changed, after the change. Where another must be written for it
    /// to be loaded, and there is no room, it keeps the time it had.
    pub(crate) fn stamp_dir(&mut self, dir: u32, now: Time) -> Result<(), Fault> {
        let i = match self.load_dir(dir) {
            Err(Fault::NoSpace) => return Ok(()),
            loaded => loaded?,
        };
        self.dirs[i].stamp(now);
        Ok(())
    }

    /// Makes an empty directory and writes it.
    pub(crate) fn new_dir(
        &mut self,
        ino: u32,
        parent: u32,
        name: &[u8],
        new: &New,
    ) -> Result<(), Fault> {
        let i = self.spare_dir_slot()?;
        let mut view = self.dirs[i].dir_mut();
        view.init(ino, parent, MODE_DIR | (new.mode & !MODE_TYPE), name);
        view.set_uid(new.uid);
        view.set_gid(new.gid);
        for stamp in [Stamp::Access, Stamp::Modify, Stamp::Change] {
            view.set_time(stamp, new.now);
        }
        self.adopt_dir(i);
        let written = self.flush_dir(i);
        if written.is_err() && self.dirs[i].dirty {
            // Nothing will lead to it.
            self.dirs[i].clear();
        }
        written
    }

    /// Programs a cached file's page as the record of a change of names; the entries are the
    /// caller's business.
    pub(crate) fn append_file(&mut self, i: FileSlot) -> Result<PageAddr, Fault> {
        let view = self.files[i].file();
        self.save_dirs_for([view.parent(), view.moved().0])?;
        let at = self.write_file_page(i)?;
        let old = core::mem::replace(&mut self.files[i].loc, at);
        self.store.invalidate(old, MayProgram);
        Ok(at)
    }

    /// Before the record of a change in these directories. All cached ones are saved: one that is
    /// pushed from the cache before it shows the change must not be newer than the record. What
    /// was removed in these before is recorded before.
    pub(crate) fn save_dirs_for(&mut self, dirs: [u32; 2]) -> Result<(), Fault> {
        for dir in dirs {
            self.flush_removals(dir)?;
        }
        self.save_dirs()
    }

    /// Frees everything a cached, empty directory has on flash.
    pub(crate) fn free_dir(&mut self, i: DirSlot) -> Result<(), Fault> {
        for p in 0..self.dirs[i].dir().pointers() {
            let (_, at) = self.dirs[i].dir().pointer(p);
            if self.dirs[i].dir().levels() == 2 {
                self.free_hash_index(at)?;
            }
            self.store.invalidate(at, MayProgram);
        }
        let ino = self.dirs[i].ino;
        self.store
            .invalidate(self.dirs[i].dir().xattr(), MayProgram);
        self.store.invalidate(self.dirs[i].loc, MayProgram);
        self.dirs[i].clear();
        self.map_set(ino, PageAddr::NONE)
    }

    /// Frees the hash maps that an index page leads to; if it cannot be read,
    /// they go on counting as valid.
    pub(crate) fn free_hash_index(&mut self, at: PageAddr) -> Result<(), Fault> {
        if crate::error::sound(self.load_scratch(at, Kind::HashIndex))?.is_some() {
            let page: MapPage<&[u8], 8> = MapPage(&self.scratch);
            for r in 0..page.count().min(page.capacity()) {
                self.store.invalidate(page.pointer(r).1, MayProgram);
            }
        }
        Ok(())
    }
}

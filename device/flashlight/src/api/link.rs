//! Hard links: names of a file beyond its first (further names are in [`crate::format::names`]).
//!
//! Each change is one page, the file's own: it shows all names and their number, and says which
//! entry is new, is gone, or leads to the file's number from now on. The directories follow in
//! RAM.

use crate::FlashLight;
use crate::cleaning::Volume;
use crate::error::{Damaged, Error, Fault};
use crate::format::dirrec::{DirRec, Target};
use crate::format::hash::ino_hash;
use crate::format::inode::{FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, Stamp, Time};
use crate::format::names::Which;
use crate::format::node::{FileRef, INDEX_DIR, Node};
use crate::index::Index;
use crate::index::dir::Removal;
use crate::index::file::KEPT;
use crate::index::slots::FileSlot;
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> FlashLight<'_, N> {
    /// Gives a file or symbolic link one more name. Durable when this returns, with what has been
    /// written to the file. Returns where the file is to be looked for from now on.
    ///
    /// One program; before it, pages of new files and of removals in that directory; and when the
    /// inode holds too many names, a read and a program once in several links. The second name of
    /// a file concerns three directories, of which two are in the cache: up to three programs more
    /// when the first name is in another directory.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::NotFound`] of a file without a name; [`Error::TooManyLinks`].
    pub fn link(
        &mut self,
        file: FileRef,
        dir: u32,
        name: &[u8],
        now: Time,
    ) -> Result<Node, Error<N::Error>> {
        self.told(|fs| fs.volume.link(file, dir, name, now))
    }
}

impl<N: Nand> Volume<'_, N> {
    pub(crate) fn link(
        &mut self,
        file: FileRef,
        dir: u32,
        name: &[u8],
        now: Time,
    ) -> Result<Node, Fault> {
        self.index_mut().load_dir(dir)?;
        let hash = self.vacant(dir, name)?;
        self.index().need_page()?;
        if self
            .index_mut()
            .has_entry(dir, hash, Target::Indirect, file.ino)?
            .is_true()
        {
            // Directory and hash would not tell the two names apart.
            return Err(Fault::TooManyLinks);
        }
        let i = self.index_mut().load_file(file)?;
        let view = self.durable.index.files[i].file();
        if view.flags() & FLAG_ORPHAN != 0 {
            return Err(Fault::NotFound);
        }
        if view.nlink() == u32::MAX {
            return Err(Fault::TooManyLinks);
        }
        let direct = view.flags() & FLAG_INDIRECT == 0;
        let (from, from_hash) = view.holder(self.durable.index.store.volume);
        if direct && (from, from_hash) == (dir, hash) {
            return Err(Fault::TooManyLinks);
        }
        for dir in [from, dir] {
            self.index_mut().flush_new_files(dir, 0)?;
        }
        self.index_mut().reserve_index(direct)?;
        for dir in [from, dir] {
            self.index_mut().dir_reserve(dir)?;
        }
        self.index_mut().flush_removals(dir)?;
        let growth = self.index().names_growth(i, name.len());
        self.index().need_place(i, growth + KEPT)?;
        self.index_mut().file_room(i, growth)?;
        self.index_mut().load_dir(if direct { from } else { dir })?;
        self.index_mut().load_dir(INDEX_DIR)?;
        self.index_mut().demote_name(i)?;
        let mut view = self.index_mut().files[i].file_mut();
        view.set_parent(dir);
        view.set_name(name);
        view.set_nlink(view.nlink() + 1);
        view.set_time(Stamp::Change, now);
        if direct {
            view.set_flags(FLAG_INDIRECT | FLAG_KEPT);
            view.set_moved(from, from_hash);
        }
        let linked = self
            .index_mut()
            .record_link(i, (from, from_hash), (dir, hash), direct);
        self.index_mut().not_in_part(linked)?;
        self.index_mut().stamp_dir(dir, now)?;
        Ok(Node::File(
            self.durable.index.files[i]
                .file()
                .file_ref(self.durable.index.store.volume),
        ))
    }
}

impl<N: Nand> Index<'_, N> {
    /// Writes the record of a link in the page of a cached file, which was found `direct`ly by its
    /// entry in one directory, and changes the directories.
    fn record_link(
        &mut self,
        i: FileSlot,
        (from, from_hash): (u32, u32),
        (dir, hash): (u32, u32),
        direct: bool,
    ) -> Result<(), Fault> {
        let ino = self.files[i].ino;
        let (old, at) = self.write_record(i)?;
        let by_number = ino_hash(self.store.volume, ino);
        if direct {
            self.dir_add(INDEX_DIR, by_number, Target::File, at.0)?;
            self.dir_make_indirect(from, from_hash, old, ino)?;
        } else {
            self.dir_repoint(INDEX_DIR, by_number, Target::File, old, at)?;
        }
        self.dir_add(dir, hash, Target::Indirect, ino)
    }

    /// Programs a cached file's page as the record of a change of its names. Returns where it was
    /// and is. The directories that the change concerns, but for those not cached, are changed
    /// next, with nothing brought into the cache between: a page of theirs is either older than the
    /// record or shows the change.
    fn write_record(&mut self, i: FileSlot) -> Result<(PageAddr, PageAddr), Fault> {
        let at = self.write_file_page(i)?;
        let old = core::mem::replace(&mut self.files[i].loc, at);
        self.store.invalidate(old, MayProgram);
        Ok((old, at))
    }

    /// Takes one of several names from a cached file; `rec` is its entry. One program, which makes
    /// it durable; one more when the name is in a names page.
    pub(crate) fn unlink_name(
        &mut self,
        i: FileSlot,
        dir: u32,
        name: &[u8],
        rec: &DirRec,
        now: Time,
    ) -> Result<(), Fault> {
        self.dir_reserve(INDEX_DIR)?;
        self.dir_reserve(dir)?;
        self.flush_removals(dir)?;
        self.file_room(i, self.names_growth(i, 0))?;
        self.load_dir(dir)?;
        self.load_dir(INDEX_DIR)?;
        self.forget_name(i, dir, name, now)?;
        self.files[i].file_mut().set_moved(dir, rec.hash);
        let by_number = ino_hash(self.store.volume, self.files[i].ino);
        let gone = self
            .write_record(i)
            .and_then(|(old, at)| self.dir_repoint(INDEX_DIR, by_number, Target::File, old, at))
            .and_then(|()| self.dir_remove(dir, rec, Removal::Recorded));
        self.not_in_part(gone)
    }

    /// In RAM, but for a names page: one of several names of a cached file goes. There must be room
    /// for [`Index::names_growth`].
    pub(crate) fn forget_name(
        &mut self,
        i: FileSlot,
        dir: u32,
        name: &[u8],
        now: Time,
    ) -> Result<(), Fault> {
        let Some(spot) = self.find_spot(i, dir, Which::Name(name))? else {
            let at = self.files[i].loc;
            return Err(self.store.nand.damaged(at, Damaged::Names));
        };
        self.drop_name(i, spot)?;
        let mut view = self.files[i].file_mut();
        view.set_nlink(view.nlink().saturating_sub(1));
        view.set_time(Stamp::Change, now);
        Ok(())
    }
}

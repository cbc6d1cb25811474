//! Names and attributes: what a file system is asked for.

use crate::FlashLight;
use crate::api::attributes::{Attr, SetAttr, StatFs, TARGET_MAX, Unlinked, apply};
use crate::cleaning::Volume;
use crate::error::{Error, Fault};
use crate::format::dirrec::{DirRec, Target};
use crate::format::hash::{ino_hash, name_hash};
use crate::format::inode::{
    AnyView, DirView, FLAG_INDIRECT, FLAG_ORPHAN, MODE_FILE, MODE_SYMLINK, MODE_TYPE, Stamp, Time,
};
use crate::format::node::{FIRST_FILE, FileRef, INDEX_DIR, Node, ROOT_DIR};
use crate::format::special::Special;
use crate::index::Index;
use crate::index::dir::Removal;
use crate::index::inodes::{CHANGED, New};
use crate::index::lookup::{Place, check_name};
use crate::index::slots::FileSlot;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> FlashLight<'_, N> {
    /// Finds a name in a directory and reads its attributes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameTooLong`].
    pub fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<Attr, Error<N::Error>> {
        self.told(|fs| fs.volume.lookup(dir, name))
    }

    /// The number of a directory, by its name in another. No read if it was found lately, as what
    /// leads to many files is.
    ///
    /// # Errors
    /// As [`FlashLight::lookup`]; [`Error::NotDir`].
    pub fn lookup_dir(&mut self, dir: u32, name: &[u8]) -> Result<u32, Error<N::Error>> {
        self.told(|fs| {
            fs.volume
                .reading(|volume| volume.index_mut().find_dir(dir, name))
        })
    }

    /// Follows a path from the root; components are separated by slashes, symbolic links are not
    /// followed.
    pub fn resolve(&mut self, path: &[u8]) -> Result<Attr, Error<N::Error>> {
        let mut names = path.split(|&b| b == b'/').filter(|name| !name.is_empty());
        let last = names.next_back();
        let dir = names.try_fold(ROOT_DIR, |dir, name| self.lookup_dir(dir, name))?;
        match last {
            Some(name) => self.lookup(dir, name),
            None => self.getattr(Node::Dir(dir)),
        }
    }

    /// Attributes of an inode. No read when it is cached, at most three when not.
    pub fn getattr(&mut self, node: Node) -> Result<Attr, Error<N::Error>> {
        self.told(|fs| fs.volume.getattr(node))
    }

    /// Changes attributes; durable as other changes of the inode are.
    pub fn setattr(&mut self, node: Node, set: &SetAttr) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.make_room()?;
            match node {
                Node::Dir(ino) => {
                    let i = fs.index_mut().load_dir(ino)?;
                    apply(&mut fs.index_mut().dirs[i].dir_mut().any(), set);
                    fs.index_mut().dirs[i].change();
                }
                Node::File(file) => {
                    let i = fs.index_mut().load_file(file)?;
                    apply(&mut fs.index_mut().files[i].file_mut().any(), set);
                    fs.index_mut().files[i].change();
                }
            }
            Ok(())
        })
    }

    /// Creates a file. In RAM only until it is written out, synced or pushed from the cache.
    pub fn create(&mut self, dir: u32, name: &[u8], new: &New) -> Result<Node, Error<N::Error>> {
        self.told(|fs| {
            fs.volume
                .create_file(dir, name, MODE_FILE, new)
                .map(Node::File)
        })
    }

    /// Creates a special file. In RAM only, as [`FlashLight::create`]; it can be neither read,
    /// written nor truncated ([`Error::Invalid`]).
    pub fn create_special(
        &mut self,
        dir: u32,
        name: &[u8],
        special: Special,
        new: &New,
    ) -> Result<Node, Error<N::Error>> {
        self.told(|fs| {
            let file = fs.volume.create_file(dir, name, special.mode(), new)?;
            let i = fs.index_mut().load_file(file)?;
            fs.index_mut().files[i]
                .file_mut()
                .set_size(special.device().into());
            Ok(Node::File(file))
        })
    }

    /// Creates a symbolic link, with its target at once. In RAM only, as [`FlashLight::create`].
    ///
    /// # Errors
    /// [`Error::NameTooLong`]: a target longer than [`TARGET_MAX`].
    pub fn symlink(
        &mut self,
        dir: u32,
        name: &[u8],
        target: &[u8],
        new: &New,
    ) -> Result<Node, Error<N::Error>> {
        self.told(|fs| {
            if target.len() > TARGET_MAX {
                return Err(Fault::NameTooLong);
            }
            // Room for both steps, so that a full chip shows before the first.
            let pages = target.len().div_ceil(fs.store().page_size()) as u32;
            fs.volume.make_room()?;
            if fs.store().tally.live + 8 + pages > fs.index().usable_pages() {
                return Err(Fault::NoSpace);
            }
            let i = fs.index_mut().load_dir(dir)?;
            let before = CHANGED.map(|stamp| fs.index().dirs[i].dir().time(stamp));
            let file = fs.volume.create_file(dir, name, MODE_SYMLINK, new)?;
            // No checkpoint may come in between: a symbolic link without its target is none.
            if let Err(e) = fs.volume.write_pages(file, 0, target, new.now, false) {
                fs.index_mut().take_back(file, name, before)?;
                return Err(e);
            }
            Ok(Node::File(file))
        })
    }

    /// Creates a directory; durable when this returns. One program, and at times the parent's
    /// before it.
    pub fn mkdir(&mut self, dir: u32, name: &[u8], new: &New) -> Result<Node, Error<N::Error>> {
        self.told(|fs| fs.volume.mkdir(dir, name, new))
    }

    /// Removes a name of a file or symbolic link. A file whose number is in use, as `in_use`
    /// says, stays usable without a name by its [`FileRef`] until [`FlashLight::reap`], or the next
    /// mount.
    ///
    /// In RAM until the directory's next write; of a file in use, or with other names, durable when
    /// this returns: one program.
    pub fn unlink(
        &mut self,
        dir: u32,
        name: &[u8],
        in_use: &dyn Fn(u32) -> bool,
        now: Time,
    ) -> Result<Unlinked, Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.make_room()?;
            let (unlinked, doomed) = fs.index_mut().unlink(dir, name, in_use, now)?;
            if let Some(file) = doomed {
                fs.volume.reap_now(file)?;
            }
            Ok(unlinked)
        })
    }

    /// Removes an empty directory; durable when this returns. One or two programs.
    pub fn rmdir(&mut self, dir: u32, name: &[u8], now: Time) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.make_room()?;
            fs.index_mut().rmdir(dir, name, now)
        })
    }

    /// The parent of a directory; the root's is the root.
    pub fn parent(&mut self, dir: u32) -> Result<u32, Error<N::Error>> {
        self.told(|fs| fs.volume.parent(dir))
    }

    /// The target of a symbolic link, as far as `buf` reaches.
    pub fn readlink(&mut self, file: FileRef, buf: &mut [u8]) -> Result<usize, Error<N::Error>> {
        self.told(|fs| {
            let i = fs
                .volume
                .reading(|volume| volume.index_mut().load_file(file))?;
            if fs.index().files[i].file().mode() & MODE_TYPE != MODE_SYMLINK {
                return Err(Fault::Invalid);
            }
            fs.volume.read(file, 0, buf)
        })
    }

    /// Makes a file's data, size and name durable (one program, if anything has changed), or a
    /// directory's entries. Where the allocation log has failed, a checkpoint does it.
    pub fn fsync(&mut self, node: Node) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            if fs.store().log.lost && fs.index().is_writable() {
                fs.volume.checkpoint(false)?;
            }
            // After a checkpoint it still tells of what was lost.
            fs.volume
                .reading(|volume| volume.index_mut().sync_node(node))
        })
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            if fs.index().read_only || !(fs.store().log.session || fs.index().is_dirty()) {
                return Ok(());
            }
            fs.index_mut().writable()?;
            fs.volume.checkpoint(false)?;
            fs.index_mut().tell_lost_change()
        })
    }

    /// Space. Reads nothing.
    pub fn statfs(&self) -> StatFs {
        let pages = self.index().usable_pages();
        StatFs {
            pages,
            pages_free: pages.saturating_sub(self.store().tally.live),
        }
    }
}

impl<N: Nand> Volume<'_, N> {
    pub(crate) fn parent(&mut self, dir: u32) -> Result<u32, Fault> {
        let place = self.reading(|volume| volume.index_mut().peek_dir(dir))?;
        Ok(match place {
            Place::Dir(i) => self.index().dirs[i].dir().parent(),
            _ => DirView::on(&self.index().scratch).parent(),
        })
    }

    pub(crate) fn mkdir(&mut self, dir: u32, name: &[u8], new: &New) -> Result<Node, Fault> {
        self.index_mut().load_dir(dir)?;
        let hash = self.vacant(dir, name)?;
        self.index().need_page()?;
        let ino = self.index_mut().map_vacant()?;
        self.index_mut().flush_new_files(dir, 0)?;
        self.index_mut().dir_reserve(dir)?;
        self.index_mut().flush_removals(dir)?;
        self.index_mut().new_dir(ino, dir, name, new)?;
        self.index_mut().dir_add(dir, hash, Target::Dir, ino)?;
        self.index_mut().stamp_dir(dir, new.now)?;
        Ok(Node::Dir(ino))
    }

    pub(crate) fn getattr(&mut self, node: Node) -> Result<Attr, Fault> {
        let place = self.reading(|volume| match node {
            Node::Dir(ino) => volume.index_mut().peek_dir(ino),
            Node::File(file) => volume.index_mut().peek_file(file),
        })?;
        Ok(self.index().attr_at(node, place))
    }

    pub(crate) fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<Attr, Fault> {
        let found = self.reading(|volume| volume.index_mut().find(dir, name))?;
        Ok(self.index().attr_at(found.node, found.place))
    }

    /// Makes sure that a name can be added to a directory.
    pub(crate) fn vacant(&mut self, dir: u32, name: &[u8]) -> Result<u32, Fault> {
        self.index_mut().writable()?;
        check_name(name)?;
        self.make_room()?;
        match self.index_mut().find_or_place(dir, name)? {
            Some(_) => Err(Fault::Exists),
            None => Ok(name_hash(self.store().volume, name)),
        }
    }

    fn create_file(
        &mut self,
        dir: u32,
        name: &[u8],
        kind: u16,
        new: &New,
    ) -> Result<FileRef, Fault> {
        // A directory that is gone has no page any more.
        self.index_mut().load_dir(dir)?;
        let hash = self.vacant(dir, name)?;
        self.index().need_page()?;
        let i = self.index_mut().spare_file_slot()?;
        self.index_mut().dir_reserve(dir)?;
        let ino = self.index().next_ino;
        self.index_mut().next_ino = if ino == u32::MAX { FIRST_FILE } else { ino + 1 };
        let mut view = self.index_mut().files[i].file_mut();
        view.init(ino, dir, kind | (new.mode & !MODE_TYPE), name);
        view.set_uid(new.uid);
        view.set_gid(new.gid);
        for stamp in [Stamp::Access, Stamp::Modify, Stamp::Change] {
            view.set_time(stamp, new.now);
        }
        self.index_mut().adopt_file(i, PageAddr::NONE);
        self.index_mut().files[i].change();
        self.index_mut()
            .dir_add(dir, hash, Target::File, u32::MAX)?;
        self.index_mut().stamp_dir(dir, new.now)?;
        Ok(FileRef { ino, dir, hash })
    }

    /// [`FlashLight::reap`] of a file that has just lost its name. That has been made durable;
    /// where the file cannot be removed now, the next mount does it.
    pub(crate) fn reap_now(&mut self, file: FileRef) -> Result<(), Fault> {
        match self.reap(file) {
            Err(Fault::NoSpace | Fault::ReadOnly | Fault::TooBig) => Ok(()),
            reaped => reaped,
        }
    }
}

impl<N: Nand> Index<'_, N> {
    /// [`FlashLight::unlink`] when there is room; and the file, if that is to be ended now.
    // A call of its own: its stack is not needed while room is made, or the file is ended.
    #[inline(never)]
    fn unlink(
        &mut self,
        dir: u32,
        name: &[u8],
        in_use: &dyn Fn(u32) -> bool,
        now: Time,
    ) -> Result<(Unlinked, Option<FileRef>), Fault> {
        self.dir_reserve(dir)?;
        let found = self.find(dir, name)?;
        let Node::File(file) = found.node else {
            return Err(Fault::IsDir);
        };
        let keep = in_use(file.ino);
        let seq = self.store.seq;
        self.flush_new_files(dir, if keep { 0 } else { file.ino })?;
        let i = self.load_file(file)?;
        let rec = if self.store.seq == seq {
            found.rec
        } else {
            // Loading has written files, and moved their entries.
            self.find(dir, name)?.rec
        };
        if self.files[i].file().nlink() > 1 {
            self.unlink_name(i, dir, name, &rec, now)?;
            self.stamp_dir(dir, now)?;
            return Ok((Unlinked::Named, None));
        }
        if keep || rec.target == Target::Indirect {
            self.make_orphan(i, dir, &rec)?;
            let file = self.files[i].file().file_ref(self.store.volume);
            // Reaping makes room, which may be the last that a worn volume writes.
            self.stamp_dir(dir, now)?;
            return Ok(match keep {
                true => (Unlinked::InUse, None),
                false => (Unlinked::Gone, Some(file)),
            });
        }
        let loc = self.files[i].loc;
        let how = if loc.is_some() {
            Removal::Freed(Target::File, loc.0)
        } else {
            Removal::Volatile
        };
        self.dir_remove(dir, &rec, how)?;
        self.free_file(i)?;
        self.store.save_remnant(i.data_head());
        self.stamp_dir(dir, now)?;
        Ok((Unlinked::Gone, None))
    }

    /// [`FlashLight::rmdir`] when there is room.
    #[inline(never)]
    fn rmdir(&mut self, dir: u32, name: &[u8], now: Time) -> Result<(), Fault> {
        self.flush_new_files(dir, 0)?;
        self.dir_reserve(dir)?;
        let found = self.find(dir, name)?;
        let Node::Dir(ino) = found.node else {
            return Err(Fault::NotDir);
        };
        let i = self.load_dir(ino)?;
        if self.dirs[i].dir().size() > 0 {
            return Err(Fault::NotEmpty);
        }
        if self.dirs[i].removals {
            // What its files left must be free also after a power cut.
            self.flush_dir(i)?;
        }
        let gone = self
            .free_dir(i)
            .and_then(|()| self.dir_remove(dir, &found.rec, Removal::Freed(Target::Dir, ino)))
            .and_then(|()| self.stamp_dir(dir, now))
            .and_then(|()| {
                // Before the number can be given to another directory.
                let i = self.load_dir(dir)?;
                self.flush_dir(i)
            });
        self.not_in_part(gone)
    }

    fn attr_at(&self, node: Node, place: Place) -> Attr {
        let inode = match place {
            Place::Dir(i) => self.dirs[i].dir().any(),
            Place::File(i) => self.files[i].file().any(),
            Place::Scratch => AnyView::on(&self.scratch),
        };
        Attr::of(&inode, node)
    }

    /// Takes the creation of a file back that has just been made, in RAM only as that was. The
    /// directory's times are those `before` again.
    fn take_back(&mut self, file: FileRef, name: &[u8], before: [Time; 2]) -> Result<(), Fault> {
        let rec = self.find(file.dir, name)?.rec;
        let i = self.load_file(file)?;
        self.dir_remove(file.dir, &rec, Removal::Volatile)?;
        self.free_file(i)?;
        self.store.save_remnant(i.data_head());
        let i = self.load_dir(file.dir)?;
        for (stamp, time) in CHANGED.into_iter().zip(before) {
            self.dirs[i].dir_mut().set_time(stamp, time);
        }
        self.dirs[i].change();
        Ok(())
    }

    /// Takes the name `rec` in `dir` from a cached file and hands it to the index directory. One
    /// program, which makes it durable.
    fn make_orphan(&mut self, i: FileSlot, dir: u32, rec: &DirRec) -> Result<(), Fault> {
        self.dir_reserve(INDEX_DIR)?;
        let volume = self.store.volume;
        let was_indirect = self.files[i].file().flags() & FLAG_INDIRECT != 0;
        let mut view = self.files[i].file_mut();
        view.set_flags(FLAG_INDIRECT | FLAG_ORPHAN);
        view.set_nlink(0);
        view.set_moved(dir, rec.hash);
        let hash = ino_hash(volume, view.ino());
        let old = self.files[i].loc;
        let gone = self
            .append_file(i)
            .and_then(|at| {
                self.orphans = self.orphans.saturating_add(1);
                match was_indirect {
                    true => self.dir_repoint(INDEX_DIR, hash, Target::Orphan, old, at),
                    false => self.dir_add(INDEX_DIR, hash, Target::Orphan, at.0),
                }
            })
            .and_then(|()| self.dir_remove(dir, rec, Removal::Recorded));
        self.not_in_part(gone)
    }
}

//! Rename: one page, that of the renamed inode, is the whole change on flash. It says where the
//! inode came from and what it replaced; both directories follow in RAM.

use crate::FlashLight;
use crate::error::{Bool, Error, Fault};
use crate::format::dirrec::Target;
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::Kind;
use crate::format::inode::{FLAG_INDIRECT, FLAG_ORPHAN, FileView, Stamp, Time};
use crate::format::names::Which;
use crate::format::node::{FileRef, INDEX_DIR, Node, ROOT_DIR};
use crate::index::Index;
use crate::index::dir::Removal;
use crate::index::lookup::{Found, check_name};
use crate::index::slots::FileSlot;
use flashkit_nand::{Nand, PageAddr};

/// What a rename has come to.
struct Renamed {
    /// Where the renamed inode is to be looked for from now on.
    node: Node,
    /// The number of a replaced file that is in use.
    kept: Option<u32>,
    /// A replaced file that is to be ended.
    doomed: Option<FileRef>,
}

impl<N: Nand> FlashLight<'_, N> {
    /// Renames, atomically replacing a file by a file, or an empty directory by a directory.
    /// Durable when this returns. A replaced file that is in use stays usable until
    /// [`FlashLight::reap`]. Returns where the renamed inode is to be looked for from now on, and
    /// the number of such a replaced file. From one name of a file to another: nothing.
    ///
    /// One program, and at times those of the two directories before it.
    #[allow(clippy::too_many_arguments)]
    pub fn rename(
        &mut self,
        from_dir: u32,
        from: &[u8],
        to_dir: u32,
        to: &[u8],
        no_replace: bool,
        in_use: &dyn Fn(u32) -> bool,
        now: Time,
    ) -> Result<(Node, Option<u32>), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            check_name(to)?;
            fs.volume.make_room()?;
            let (from, to) = ((from_dir, from), (to_dir, to));
            let renamed = fs.rename_in_room(from, to, no_replace, in_use, now)?;
            if let Some(file) = renamed.doomed {
                let file = FileRef::by_number(fs.store().volume, file.ino);
                fs.volume.reap_now(file)?;
            }
            Ok((renamed.node, renamed.kept))
        })
    }

    /// A rename when there is room for it.
    // A call of its own: its stack is not needed while room is made, or a file is ended.
    #[inline(never)]
    fn rename_in_room(
        &mut self,
        (from_dir, from): (u32, &[u8]),
        (to_dir, to): (u32, &[u8]),
        no_replace: bool,
        in_use: &dyn Fn(u32) -> bool,
        now: Time,
    ) -> Result<Renamed, Fault> {
        let index = self.index_mut();
        let source = index.find(from_dir, from)?;
        // While it is where it was found: it is looked at again and again.
        if let Node::File(file) = source.node {
            index.load_file(file)?;
        }
        index.load_dir(to_dir)?;
        let target = index.find_or_place(to_dir, to)?;
        if no_replace && target.is_some() {
            return Err(Fault::Exists);
        }
        let (mut kept, mut doomed) = (None, None);
        if target.is_some_and(|t| t.node == source.node) {
            let node = source.node;
            return Ok(Renamed { node, kept, doomed });
        }
        self.check_replace(source.node, target.map(|t| t.node), to_dir)?;
        let index = self.index_mut();
        index.check_hash(&source, from_dir, to_dir, to)?;
        index.reserve_index(source.rec.target == Target::File)?;
        for dir in [from_dir, to_dir] {
            index.dir_reserve(dir)?;
        }
        if let Some(Node::File(file)) = target.map(|t| t.node) {
            let is_doomed;
            (kept, is_doomed) = index.detach_replaced(file, to_dir, to, in_use)?;
            doomed = is_doomed.then_some(file);
        }
        // Pending pages are written so that no entry moves under our hands below.
        index.flush_files()?;
        index.reserve_index(false)?;
        for dir in [from_dir, to_dir] {
            index.dir_reserve(dir)?;
        }
        let source = index.find(from_dir, from)?;
        let target = match target {
            Some(_) => Some(index.find(to_dir, to)?),
            None => None,
        };
        let node = match source.node {
            Node::File(file) => {
                index.rename_file(file, &source, from_dir, from, to_dir, to, target, now)
            }
            Node::Dir(ino) => index.rename_dir(ino, &source, from_dir, to_dir, to, target, now),
        };
        let node = index.not_in_part(node)?;
        for dir in [from_dir, to_dir] {
            index.stamp_dir(dir, now)?;
        }
        Ok(Renamed { node, kept, doomed })
    }

    /// A directory cannot go into itself, or what is below it.
    pub(crate) fn check_above(&mut self, node: Node, to_dir: u32) -> Result<(), Fault> {
        let Node::Dir(ino) = node else {
            return Ok(());
        };
        let (mut dir, mut steps) = (to_dir, 0);
        while dir != ROOT_DIR {
            // More steps than directories: damaged, they lead in a circle.
            if dir == ino || steps > self.index().map.end() {
                return Err(Fault::Invalid);
            }
            dir = self.volume.parent(dir)?;
            steps += 1;
        }
        Ok(())
    }

    fn check_replace(
        &mut self,
        source: Node,
        target: Option<Node>,
        to_dir: u32,
    ) -> Result<(), Fault> {
        self.check_above(source, to_dir)?;
        match (source, target) {
            (Node::Dir(_), Some(Node::File(_))) => Err(Fault::NotDir),
            (Node::File(_), Some(Node::Dir(_))) => Err(Fault::IsDir),
            (_, Some(Node::Dir(ino))) => {
                let i = self.index_mut().load_dir(ino)?;
                if self.index().dirs[i].dir().size() > 0 {
                    return Err(Fault::NotEmpty);
                }
                // What its files left must be free also after a power cut.
                if self.index().dirs[i].removals {
                    self.index_mut().flush_dir(i)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}

impl<N: Nand> Index<'_, N> {
    /// Makes a file that is to be replaced, and has no other name, one that is found by its number,
    /// where that is needed. Its number, if it is in use, and whether it is to be ended afterwards.
    fn detach_replaced(
        &mut self,
        file: FileRef,
        dir: u32,
        name: &[u8],
        in_use: &dyn Fn(u32) -> bool,
    ) -> Result<(Option<u32>, bool), Fault> {
        if self.keeps_names(file)?.is_true() {
            return Ok((None, false));
        }
        let kept = Some(file.ino).filter(|&ino| in_use(ino));
        let detached = self
            .detach_target(file, dir, name, kept.is_some())?
            .is_true();
        Ok((kept, detached && kept.is_none()))
    }

    /// Makes sure that the index directory can be changed, and takes a `new` file. It does not come
    /// into a slot for that, where it would push out one of the two directories of the operation,
    /// when it had room when it left one.
    pub(crate) fn reserve_index(&mut self, new: bool) -> Result<(), Fault> {
        if self.index_has_room && self.dir_slot(INDEX_DIR).is_none() {
            return Ok(());
        }
        self.dir_reserve(INDEX_DIR)?;
        let i = self.load_dir(INDEX_DIR)?;
        if new && !self.dirs[i].dir().takes_names() {
            return Err(Fault::TooBig);
        }
        Ok(())
    }

    /// A file's names in one directory must differ in their hashes.
    pub(crate) fn check_hash(
        &mut self,
        source: &Found,
        from_dir: u32,
        to_dir: u32,
        to: &[u8],
    ) -> Result<(), Fault> {
        let hash = name_hash(self.store.volume, to);
        if source.rec.target == Target::Indirect
            && (to_dir, hash) != (from_dir, source.rec.hash)
            && self
                .has_entry(to_dir, hash, Target::Indirect, source.rec.ptr)?
                .is_true()
        {
            return Err(Fault::TooManyLinks);
        }
        Ok(())
    }

    /// Before one name of a file is replaced: whether others stay. Nothing of such a file may be
    /// written between the rename's page and the file's loss of the name, so room for that is made
    /// here.
    fn keeps_names(&mut self, file: FileRef) -> Result<Bool, Fault> {
        let place = self.peek_file(file)?;
        if self.file_at(place).nlink() <= 1 {
            return Ok(Bool::False);
        }
        let i = self.load_file(file)?;
        self.file_room(i, self.names_growth(i, 0))?;
        Ok(Bool::True)
    }

    /// Before a file is replaced that stays in use, or that is in the index directory: makes
    /// sure that it is there, so that the rename can turn it into an orphan. Returns whether it is.
    pub(crate) fn detach_target(
        &mut self,
        file: FileRef,
        dir: u32,
        name: &[u8],
        keep: bool,
    ) -> Result<Bool, Fault> {
        let place = self.peek_file(file)?;
        if self.file_at(place).flags() & FLAG_INDIRECT != 0 {
            return Ok(Bool::True);
        }
        if !keep {
            return Ok(Bool::False);
        }
        let i = self.load_file(file)?;
        self.flush_file(i)?;
        let rec = self.find(dir, name)?.rec;
        let i = self.load_file(file)?;
        let hash = ino_hash(self.store.volume, file.ino);
        let moved = self
            .make_indirect(i, dir, rec.hash)
            .and_then(|at| self.dir_add(INDEX_DIR, hash, Target::File, at.0))
            .and_then(|()| self.dir_remove(dir, &rec, Removal::Recorded))
            .and_then(|()| self.dir_add(dir, rec.hash, Target::Indirect, file.ino));
        self.not_in_part(moved).map(|()| Bool::True)
    }

    /// Writes a cached file's page as that of a file found by its number.
    fn make_indirect(&mut self, i: FileSlot, dir: u32, hash: u32) -> Result<PageAddr, Fault> {
        let mut view = self.files[i].file_mut();
        let flags = view.flags() | FLAG_INDIRECT;
        view.set_flags(flags);
        view.set_moved(dir, hash);
        self.append_file(i)
    }

    #[allow(clippy::too_many_arguments)]
    fn rename_file(
        &mut self,
        file: FileRef,
        source: &Found,
        from_dir: u32,
        from: &[u8],
        to_dir: u32,
        to: &[u8],
        target: Option<Found>,
        now: Time,
    ) -> Result<Node, Fault> {
        self.room_for_name(Node::File(file), to.len())?;
        let i = self.load_file(file)?;
        self.flush_file(i)?;
        let rec = self.find(from_dir, from)?.rec;
        if let Some(target) = &target {
            self.hold_replaced(target)?;
        }
        // This one stays if the index directory is brought in: its entry goes first.
        self.load_dir(from_dir)?;
        let replaced = target.map(|t| (t.rec.target, t.rec.ptr));
        let from = (from_dir, source.rec.hash, from);
        let (entry, node) = self.record_file_move(file, from, (to_dir, to), replaced, 0, now)?;
        // Nothing may come between these: a directory's page that shows only some of them would
        // be newer than the page that records the rename.
        self.dir_remove(from_dir, &rec, Removal::Recorded)?;
        if let Some(target) = &target {
            self.dir_remove(to_dir, &target.rec, Removal::Recorded)?;
        }
        let to_hash = name_hash(self.store.volume, to);
        self.dir_add(to_dir, to_hash, entry.0, entry.1)?;
        if let Some(target) = target {
            self.drop_replaced(&target, to_dir, to, now)?;
        }
        Ok(node)
    }

    /// Programs a file's page as the record of its move from one directory, hash and name
    /// to another, and brings its entry in the index directory up to date. The file is
    /// written otherwise, and has room for the name. Returns what its entry must be, and
    /// where it is to be looked for.
    #[allow(clippy::type_complexity)]
    pub(crate) fn record_file_move(
        &mut self,
        file: FileRef,
        (from_dir, from_hash, from): (u32, u32, &[u8]),
        (to_dir, to): (u32, &[u8]),
        replaced: Option<(Target, u32)>,
        more: u8,
        now: Time,
    ) -> Result<((Target, u32), Node), Fault> {
        let volume = self.store.volume;
        let i = self.load_file(file)?;
        self.free_own_name(i, from_dir, Which::Name(from))?;
        let old = self.files[i].loc;
        let flags = self.files[i].file().flags();
        let was_indirect = flags & FLAG_INDIRECT != 0;
        // Pages of data and of attributes name the entry they were written under: from
        // now on that is the number's.
        let indirect = was_indirect || self.files[i].file().is_referred_to();
        if indirect {
            self.load_dir(INDEX_DIR)?;
        }
        let mut view = self.files[i].file_mut();
        let by_number = if indirect { FLAG_INDIRECT } else { 0 };
        view.set_flags(flags | by_number | more);
        view.set_moved(from_dir, from_hash);
        view.set_parent(to_dir);
        view.set_name(to);
        view.set_time(Stamp::Change, now);
        view.set_replaced(replaced.map(|(target, ptr)| (target as u8, ptr)));
        let at = self.append_file(i)?;
        let node = Node::File(self.files[i].file().file_ref(volume));
        if !indirect {
            return Ok(((Target::File, at.0), node));
        }
        let hash = ino_hash(volume, file.ino);
        if was_indirect {
            self.dir_repoint(INDEX_DIR, hash, Target::File, old, at)?;
        } else {
            self.dir_add(INDEX_DIR, hash, Target::File, at.0)?;
        }
        Ok(((Target::Indirect, file.ino), node))
    }

    /// Brings a file that is to be replaced into a slot: without its entry it is not found. Not one
    /// that can be freed by its page alone, or that is found by its number when a slot is lent: it
    /// would push out what is still of use.
    fn hold_replaced(&mut self, target: &Found) -> Result<(), Fault> {
        let Node::File(file) = target.node else {
            return Ok(());
        };
        if target.rec.target == Target::File && self.file_slot(file.ino).is_none() {
            self.load_scratch(PageAddr(target.rec.ptr), Kind::File)?;
            if FileView::on(&*self.scratch).pointers() == 0 {
                return Ok(());
            }
        }
        if target.rec.target == Target::Indirect && self.files.lent().is_some() {
            return Ok(());
        }
        self.load_file(file).map(|_| ())
    }

    /// In RAM: the file that a rename has replaced loses its name; one that was found directly
    /// ends its life.
    fn drop_replaced(
        &mut self,
        target: &Found,
        dir: u32,
        name: &[u8],
        now: Time,
    ) -> Result<(), Fault> {
        let Node::File(file) = target.node else {
            return Ok(());
        };
        if target.rec.target == Target::File && self.file_slot(file.ino).is_none() {
            return self.free_plain_file(PageAddr(target.rec.ptr));
        }
        // The renamed file makes place for it, if not all have place.
        self.begin_step();
        let i = self.load_file(file)?;
        if self.files[i].file().nlink() > 1 {
            return self.forget_name(i, dir, name, now);
        }
        if target.rec.target == Target::Indirect {
            let mut view = self.files[i].file_mut();
            view.set_flags(FLAG_INDIRECT | FLAG_ORPHAN);
            view.set_nlink(0);
            let (loc, ino) = (self.files[i].loc, self.files[i].ino);
            self.files[i].change();
            self.orphans = self.orphans.saturating_add(1);
            let hash = ino_hash(self.store.volume, ino);
            return self.dir_repoint(INDEX_DIR, hash, Target::Orphan, loc, loc);
        }
        self.free_file(i)?;
        self.store.save_remnant(i.data_head());
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn rename_dir(
        &mut self,
        ino: u32,
        source: &Found,
        from_dir: u32,
        to_dir: u32,
        to: &[u8],
        target: Option<Found>,
        now: Time,
    ) -> Result<Node, Fault> {
        let to_hash = name_hash(self.store.volume, to);
        self.room_for_name(Node::Dir(ino), to.len())?;
        let replaced = target.map(|t| (t.rec.target, t.rec.ptr));
        let from = (from_dir, source.rec.hash);
        self.record_dir_move(ino, from, (to_dir, to), replaced, 0, now)?;
        self.dir_remove(from_dir, &source.rec, Removal::Recorded)?;
        if let Some(found) = &target {
            self.dir_remove(to_dir, &found.rec, Removal::Recorded)?;
        }
        self.dir_add(to_dir, to_hash, Target::Dir, ino)?;
        if let Some(Node::Dir(replaced)) = target.map(|t| t.node) {
            let i = self.load_dir(replaced)?;
            self.free_dir(i)?;
        }
        Ok(Node::Dir(ino))
    }

    /// Programs a directory's page as the record of its move. It has room for the name.
    pub(crate) fn record_dir_move(
        &mut self,
        ino: u32,
        (from_dir, from_hash): (u32, u32),
        (to_dir, to): (u32, &[u8]),
        replaced: Option<(Target, u32)>,
        flags: u8,
        now: Time,
    ) -> Result<(), Fault> {
        self.save_dirs_for([from_dir, to_dir])?;
        let i = self.load_dir(ino)?;
        let mut view = self.dirs[i].dir_mut();
        view.set_flags(view.flags() | flags);
        view.set_moved(from_dir, from_hash);
        view.set_parent(to_dir);
        view.set_name(to);
        view.set_time(Stamp::Change, now);
        view.set_replaced(replaced.map(|(target, ptr)| (target as u8, ptr)));
        self.dirs[i].change();
        self.flush_dir(i)
    }
}

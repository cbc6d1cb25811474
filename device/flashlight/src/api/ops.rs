//! Names and attributes: what a file system is asked for.

use crate::error::Error;
use crate::format::dirrec::{DirRec, State, Target};
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::Kind;
use crate::format::inode::{
    DirView, FLAG_INDIRECT, FLAG_ORPHAN, FileView, Inode, MODE_BLOCK, MODE_CHAR, MODE_DIR,
    MODE_FIFO, MODE_FILE, MODE_SOCKET, MODE_SYMLINK, MODE_TYPE, NAME_MAX, Stamp, Time,
};
use crate::format::mappage::MapPage;
use crate::format::wellformed::is_name;
use crate::index::dir::{Removal, same_hash_max};
use crate::index::names::{Spot, Which};
use crate::{FIRST_FILE, FileRef, FlashLight, INDEX_DIR, Node, ROOT_DIR};
use flashkit_nand::{Nand, PageAddr};

/// Length of a symbolic link's target at most, bytes (Linux's `PATH_MAX` without its NUL).
pub const TARGET_MAX: usize = 4095;

/// Attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which inode.
    pub node: Node,
    /// Type and permissions as in `stat`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; of a directory, 2 and its subdirectories.
    pub nlink: u32,
    /// Size in bytes; of a directory, its number of entries; of a special file 0.
    pub size: u64,
    /// Of a device, its number as the caller gave it; else 0.
    pub device: u32,
    /// Last access, as set by the caller.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

impl Attr {
    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & MODE_TYPE == MODE_DIR
    }

    /// Whether this is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & MODE_TYPE == MODE_SYMLINK
    }

    fn of<B: AsRef<[u8]>, const REC: usize>(view: &Inode<B, REC>, node: Node) -> Attr {
        let special = Special::of(view.mode(), view.size());
        Attr {
            node,
            mode: view.mode(),
            uid: view.uid(),
            gid: view.gid(),
            nlink: view.nlink(),
            size: if special.is_some() { 0 } else { view.size() },
            device: special.map_or(0, Special::device),
            atime: view.time(Stamp::Access),
            mtime: view.time(Stamp::Modify),
            ctime: view.time(Stamp::Change),
        }
    }
}

/// A file that holds no data of its own: what it stands for is the user's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device, by its number. What the number means is between the caller and its
    /// system; Linux packs major and minor into 32 bits.
    Char(u32),
    /// A block device, by its number.
    Block(u32),
}

impl Special {
    /// What an inode's mode and size say.
    pub(crate) fn of(mode: u16, size: u64) -> Option<Special> {
        Some(match mode & MODE_TYPE {
            MODE_FIFO => Special::Fifo,
            MODE_SOCKET => Special::Socket,
            MODE_CHAR => Special::Char(size as u32),
            MODE_BLOCK => Special::Block(size as u32),
            _ => return None,
        })
    }

    fn mode(self) -> u16 {
        match self {
            Special::Fifo => MODE_FIFO,
            Special::Socket => MODE_SOCKET,
            Special::Char(_) => MODE_CHAR,
            Special::Block(_) => MODE_BLOCK,
        }
    }

    pub(crate) fn device(self) -> u32 {
        match self {
            Special::Fifo | Special::Socket => 0,
            Special::Char(number) | Special::Block(number) => number,
        }
    }
}

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

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (07777).
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the contents.
    pub mtime: Option<Time>,
    /// Becomes ctime.
    pub now: Time,
}

/// Space, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// For data and metadata together.
    pub pages: u32,
    /// Of them, free.
    pub pages_free: u32,
}

/// What an unlinked file is after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlinked {
    /// Gone.
    Gone,
    /// Without a name, but in use: to be ended by [`FlashLight::reap`].
    InUse,
    /// Known by other names.
    Named,
}

/// Where an inode page was found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Dir(usize),
    File(usize),
    Scratch,
}

/// A directory entry and its inode.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub rec: DirRec,
    pub node: Node,
    place: Place,
}

/// The times of a directory that a change of its names sets.
const CHANGED: [Stamp; 2] = [Stamp::Modify, Stamp::Change];

impl<N: Nand> FlashLight<'_, N> {
    pub(crate) fn check_name(name: &[u8]) -> Result<(), Error<N::Error>> {
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if is_name(name) {
            Ok(())
        } else {
            Err(Error::Invalid)
        }
    }

    /// Finds a name. With cold caches at most three reads after the directory's own page: hash map,
    /// DirInode map, inode; in a directory of some ten thousand names one more, of an index page.
    pub(crate) fn find(&mut self, dir: u32, name: &[u8]) -> Result<Found, Error<N::Error>> {
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        let hash = name_hash(self.store.volume, name);
        match self.find_cached(dir, hash, name) {
            Some(found) => Ok(found),
            None => self.find_entry(dir, hash, name),
        }
    }

    /// Finds a name of this hash by the entries of its directory alone.
    pub(crate) fn find_entry(
        &mut self,
        dir: u32,
        hash: u32,
        name: &[u8],
    ) -> Result<Found, Error<N::Error>> {
        self.find_among(dir, hash, name, &mut 0)
    }

    /// The same; `n` is then how many entries of this hash there are, if none is of the name.
    fn find_among(
        &mut self,
        dir: u32,
        hash: u32,
        name: &[u8],
        n: &mut usize,
    ) -> Result<Found, Error<N::Error>> {
        let mut damage = None;
        while let Some(rec) = self.dir_nth(dir, hash, *n)? {
            *n += 1;
            let (node, place) = match self.peek(dir, &rec, name) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                // It may be another name of this hash.
                Err(e) if e.is_damage() => {
                    damage = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let page: &[u8] = match place {
                Place::Scratch => self.scratch,
                Place::File(i) => self.files[i].buf,
                Place::Dir(i) => self.dirs[i].buf,
            };
            let view = DirView::on(page);
            if view.parent() == dir && view.name() == name {
                return Ok(Found { rec, node, place });
            }
            if rec.target != Target::Indirect {
                continue;
            }
            match self.named(place, dir, Which::Name(name)) {
                Ok(Some((place, _))) => return Ok(Found { rec, node, place }),
                Ok(None) => {}
                Err(e) if e.is_damage() => damage = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(damage.unwrap_or(Error::NotFound))
    }

    /// Finds a name of a file that is in a slot or, intact, in the scratch page. A file with names
    /// pages is in a slot afterwards, and one read is made for each until the name is found.
    pub(crate) fn named(
        &mut self,
        place: Place,
        dir: u32,
        which: Which<'_>,
    ) -> Result<Option<(Place, Spot)>, Error<N::Error>> {
        let view = match place {
            Place::Dir(_) => return Ok(None),
            Place::File(i) => self.files[i].file(),
            Place::Scratch => FileView::on(&*self.scratch),
        };
        if let Some(spot) = view.spot(self.store.volume, dir, which) {
            return Ok(Some((place, spot)));
        }
        if view.names().pages().next().is_none() {
            return Ok(None);
        }
        let i = match place {
            Place::File(i) => i,
            _ => self.load_file_at(self.store.scratch_at)?,
        };
        let spot = self.find_spot(i, dir, which)?;
        Ok(spot.map(|spot| (Place::File(i), spot)))
    }

    /// Finds a name among the cached inodes. No read.
    fn find_cached(&self, dir: u32, hash: u32, name: &[u8]) -> Option<Found> {
        for i in 0..2 {
            let view = self.files[i].file();
            let which = Which::Name(name);
            if self.files[i].ino == 0 || view.spot(self.store.volume, dir, which).is_none() {
                continue;
            }
            let (target, ptr) = match view.flags() {
                0 => (Target::File, self.files[i].loc.0),
                FLAG_INDIRECT => (Target::Indirect, view.ino()),
                _ => continue,
            };
            return Some(Found {
                rec: DirRec::new(hash, State::New, target, ptr),
                node: Node::File(view.file_ref(self.store.volume)),
                place: Place::File(i),
            });
        }
        for i in 0..2 {
            let (ino, view) = (self.dirs[i].ino, self.dirs[i].dir());
            if ino > INDEX_DIR && view.parent() == dir && view.name() == name {
                return Some(Found {
                    rec: DirRec::new(hash, State::New, Target::Dir, ino),
                    node: Node::Dir(ino),
                    place: Place::Dir(i),
                });
            }
        }
        None
    }

    /// Brings the inode that an entry leads to where it can be looked at. `name` tells entries of
    /// files apart that are only in RAM.
    pub(crate) fn peek(
        &mut self,
        dir: u32,
        rec: &DirRec,
        name: &[u8],
    ) -> Result<Option<(Node, Place)>, Error<N::Error>> {
        let volume = self.store.volume;
        match rec.target {
            Target::Dir => match self.peek_dir(rec.ptr) {
                Err(Error::NotFound) => Err(self.bad_entry(dir)),
                place => Ok(Some((Node::Dir(rec.ptr), place?))),
            },
            Target::Indirect => {
                let file = FileRef::by_number(volume, rec.ptr);
                match self.peek_file(file) {
                    Ok(place) => Ok(Some((Node::File(file), place))),
                    Err(Error::NotFound) => Ok(None),
                    Err(e) => Err(e),
                }
            }
            Target::File | Target::Orphan => {
                let cached = (0..2).find(|&i| {
                    let slot = &self.files[i];
                    slot.ino != 0
                        && slot.loc.0 == rec.ptr
                        && (slot.loc.is_some()
                            || (slot.file().holder(volume) == (dir, rec.hash)
                                && (name.is_empty() || slot.file().name() == name)))
                });
                let place = match cached {
                    Some(i) => Place::File(i),
                    None if rec.ptr == u32::MAX => return Ok(None),
                    None => {
                        self.load_scratch(PageAddr(rec.ptr), Kind::File, "file inode")?;
                        Place::Scratch
                    }
                };
                let file = match place {
                    Place::File(i) => self.files[i].file().file_ref(volume),
                    _ => FileView::on(self.scratch).file_ref(volume),
                };
                Ok(Some((Node::File(file), place)))
            }
        }
    }

    /// An entry of a directory leads nowhere.
    pub(crate) fn bad_entry(&self, dir: u32) -> Error<N::Error> {
        let at = self
            .dir_slot(dir)
            .map_or(PageAddr::NONE, |i| self.dirs[i].loc);
        Error::Corrupt(at, "directory entry")
    }

    pub(crate) fn peek_dir(&mut self, ino: u32) -> Result<Place, Error<N::Error>> {
        if let Some(i) = self.dir_slot(ino) {
            return Ok(Place::Dir(i));
        }
        let at = self.map_get(ino)?;
        if at.is_none() {
            return Err(Error::NotFound);
        }
        match self.load_scratch(at, Kind::Dir, "directory") {
            // There may be a copy.
            Err(Error::Corrupt(..)) => return self.load_dir(ino).map(Place::Dir),
            r => r?,
        }
        if DirView::on(self.scratch).ino() != ino {
            return Err(Error::Corrupt(at, "directory"));
        }
        if self.has_stale_entries() {
            return self.load_dir(ino).map(Place::Dir);
        }
        Ok(Place::Scratch)
    }

    pub(crate) fn peek_file(&mut self, file: FileRef) -> Result<Place, Error<N::Error>> {
        if let Some(i) = self.file_slot(file.ino) {
            return Ok(Place::File(i));
        }
        let at = self.find_file(file)?;
        if !FileView::on(&*self.scratch).is_sane() {
            return Err(Error::Corrupt(at, "file inode"));
        }
        Ok(Place::Scratch)
    }

    fn attr_at(&self, node: Node, place: Place) -> Attr {
        match place {
            Place::Dir(i) => Attr::of(&self.dirs[i].dir(), node),
            Place::File(i) => Attr::of(&self.files[i].file(), node),
            Place::Scratch => Attr::of(&DirView::on(self.scratch), node),
        }
    }

    /// Finds a name in a directory and reads its attributes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NameTooLong`].
    pub fn lookup(&mut self, dir: u32, name: &[u8]) -> Result<Attr, Error<N::Error>> {
        let found = self.reading(|fs| fs.find(dir, name))?;
        Ok(self.attr_at(found.node, found.place))
    }

    /// Follows a path from the root; components are separated by slashes, symbolic links are not
    /// followed.
    pub fn resolve(&mut self, path: &[u8]) -> Result<Attr, Error<N::Error>> {
        let mut at = self.getattr(Node::Dir(ROOT_DIR))?;
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            let Node::Dir(dir) = at.node else {
                return Err(Error::NotDir);
            };
            at = self.lookup(dir, name)?;
        }
        Ok(at)
    }

    /// Attributes of an inode. No read when it is cached, at most three when not.
    pub fn getattr(&mut self, node: Node) -> Result<Attr, Error<N::Error>> {
        let place = self.reading(|fs| match node {
            Node::Dir(ino) => fs.peek_dir(ino),
            Node::File(file) => fs.peek_file(file),
        })?;
        Ok(self.attr_at(node, place))
    }

    /// Changes attributes; durable as other changes of the inode are.
    pub fn setattr(&mut self, node: Node, set: &SetAttr) -> Result<(), Error<N::Error>> {
        self.writable()?;
        self.make_room()?;
        match node {
            Node::Dir(ino) => {
                let i = self.load_dir(ino)?;
                apply(&mut self.dirs[i].dir_mut(), set);
                self.dirs[i].dirty = true;
            }
            Node::File(file) => {
                let i = self.load_file(file)?;
                apply(&mut self.files[i].file_mut(), set);
                self.files[i].change();
            }
        }
        Ok(())
    }

    /// Notes when a directory has changed, after the change. Where another must be written for it to be loaded, and there is no
    /// room, it keeps the time it had.
    pub(crate) fn stamp_dir(&mut self, dir: u32, now: Time) -> Result<(), Error<N::Error>> {
        let i = match self.load_dir(dir) {
            Err(Error::NoSpace) => return Ok(()),
            loaded => loaded?,
        };
        let mut view = self.dirs[i].dir_mut();
        view.set_modified(now);
        self.dirs[i].dirty = true;
        Ok(())
    }

    /// Makes sure that a name can be added to a directory.
    pub(crate) fn vacant(&mut self, dir: u32, name: &[u8]) -> Result<u32, Error<N::Error>> {
        self.writable()?;
        Self::check_name(name)?;
        self.make_room()?;
        match self.find_or_place(dir, name)? {
            Some(_) => Err(Error::Exists),
            None => Ok(name_hash(self.store.volume, name)),
        }
    }

    /// Finds a name; none when there is none and the directory has place for it.
    pub(crate) fn find_or_place(
        &mut self,
        dir: u32,
        name: &[u8],
    ) -> Result<Option<Found>, Error<N::Error>> {
        let (hash, mut n) = (name_hash(self.store.volume, name), 0);
        if let Some(found) = self.find_cached(dir, hash, name) {
            return Ok(Some(found));
        }
        match self.find_among(dir, hash, name, &mut n) {
            Ok(found) => return Ok(Some(found)),
            Err(Error::NotFound) => {}
            Err(e) => return Err(e),
        }
        let i = self.load_dir(dir)?;
        if n < same_hash_max(self.store.page_size()) && self.dirs[i].dir().takes_names() {
            Ok(None)
        } else {
            Err(Error::TooBig)
        }
    }

    /// Creates a file. In RAM only until it is written out, synced or pushed from the cache.
    pub fn create(&mut self, dir: u32, name: &[u8], new: &New) -> Result<Node, Error<N::Error>> {
        self.create_file(dir, name, MODE_FILE, new).map(Node::File)
    }

    /// Creates a special file. In RAM only, as [`FlashLight::create`]; it can be neither read, written
    /// nor truncated ([`Error::Invalid`]).
    pub fn create_special(
        &mut self,
        dir: u32,
        name: &[u8],
        special: Special,
        new: &New,
    ) -> Result<Node, Error<N::Error>> {
        let file = self.create_file(dir, name, special.mode(), new)?;
        let i = self.load_file(file)?;
        self.files[i].file_mut().set_size(special.device().into());
        Ok(Node::File(file))
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
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        // Room for both steps, so that a full chip shows before the first.
        let pages = target.len().div_ceil(self.store.page_size()) as u32;
        self.make_room()?;
        if self.store.live + 8 + pages > self.usable_pages() {
            return Err(Error::NoSpace);
        }
        let i = self.load_dir(dir)?;
        let before = CHANGED.map(|stamp| self.dirs[i].dir().time(stamp));
        let file = self.create_file(dir, name, MODE_SYMLINK, new)?;
        // No checkpoint may come in between: a symbolic link without its target is none.
        if let Err(e) = self.write_pages(file, 0, target, new.now, false) {
            self.take_back(file, name, before)?;
            return Err(e);
        }
        Ok(Node::File(file))
    }

    /// Takes the creation of a file back that has just been made, in RAM only as that was. The directory's times
    /// are those `before` again.
    fn take_back(
        &mut self,
        file: FileRef,
        name: &[u8],
        before: [Time; 2],
    ) -> Result<(), Error<N::Error>> {
        let rec = self.find(file.dir, name)?.rec;
        let i = self.load_file(file)?;
        self.dir_remove(file.dir, &rec, Removal::Volatile)?;
        self.free_file(i)?;
        self.store.park(i);
        let i = self.load_dir(file.dir)?;
        for (stamp, time) in CHANGED.into_iter().zip(before) {
            self.dirs[i].dir_mut().set_time(stamp, time);
        }
        Ok(())
    }

    fn create_file(
        &mut self,
        dir: u32,
        name: &[u8],
        kind: u16,
        new: &New,
    ) -> Result<FileRef, Error<N::Error>> {
        // A directory that is gone has no page any more.
        self.load_dir(dir)?;
        let hash = self.vacant(dir, name)?;
        self.need_page()?;
        let i = self.spare_file_slot()?;
        self.dir_reserve(dir)?;
        let ino = self.next_ino;
        self.next_ino = if ino == u32::MAX { FIRST_FILE } else { ino + 1 };
        let mut view = self.files[i].file_mut();
        view.init(ino, dir, kind | (new.mode & !MODE_TYPE), name);
        view.set_uid(new.uid);
        view.set_gid(new.gid);
        for stamp in [Stamp::Access, Stamp::Modify, Stamp::Change] {
            view.set_time(stamp, new.now);
        }
        self.adopt_file(i, PageAddr::NONE);
        self.files[i].change();
        self.dir_add(dir, hash, Target::File, u32::MAX)?;
        self.stamp_dir(dir, new.now)?;
        Ok(FileRef { ino, dir, hash })
    }

    /// Creates a directory; durable when this returns. One program, and at times the parent's
    /// before it.
    pub fn mkdir(&mut self, dir: u32, name: &[u8], new: &New) -> Result<Node, Error<N::Error>> {
        self.load_dir(dir)?;
        let hash = self.vacant(dir, name)?;
        self.need_page()?;
        let ino = self.map_vacant()?;
        self.settle_creations(dir, 0)?;
        self.dir_reserve(dir)?;
        self.settle_removals(dir)?;
        self.new_dir(ino, dir, name, new)?;
        self.dir_add(dir, hash, Target::Dir, ino)?;
        self.stamp_dir(dir, new.now)?;
        Ok(Node::Dir(ino))
    }

    /// Makes an empty directory and writes it.
    pub(crate) fn new_dir(
        &mut self,
        ino: u32,
        parent: u32,
        name: &[u8],
        new: &New,
    ) -> Result<(), Error<N::Error>> {
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
        self.writable()?;
        self.make_room()?;
        self.dir_reserve(dir)?;
        let found = self.find(dir, name)?;
        let Node::File(file) = found.node else {
            return Err(Error::IsDir);
        };
        let keep = in_use(file.ino);
        let seq = self.store.seq;
        self.settle_creations(dir, if keep { 0 } else { file.ino })?;
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
            return Ok(Unlinked::Named);
        }
        if keep || rec.target == Target::Indirect {
            self.make_orphan(i, dir, &rec)?;
            let file = self.files[i].file().file_ref(self.store.volume);
            // Reaping makes room, which may be the last that a worn volume writes.
            self.stamp_dir(dir, now)?;
            if !keep {
                self.reap_now(file)?;
            }
        } else {
            let loc = self.files[i].loc;
            let how = if loc.is_some() {
                Removal::Freed(Target::File, loc.0)
            } else {
                Removal::Volatile
            };
            self.dir_remove(dir, &rec, how)?;
            self.free_file(i)?;
            self.store.park(i);
            self.stamp_dir(dir, now)?;
        }
        Ok(if keep {
            Unlinked::InUse
        } else {
            Unlinked::Gone
        })
    }

    /// Takes the name `rec` in `dir` from a cached file and hands it to the index directory. One
    /// program, which makes it durable.
    fn make_orphan(&mut self, i: usize, dir: u32, rec: &DirRec) -> Result<(), Error<N::Error>> {
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

    /// Programs a cached file's page as the record of a change of names; the entries are the
    /// caller's business. The cached directories are written first: one that is pushed from the
    /// cache before it shows the change must not be newer than the record.
    pub(crate) fn append_file(&mut self, i: usize) -> Result<PageAddr, Error<N::Error>> {
        self.flush_dir(0)?;
        self.flush_dir(1)?;
        let at = self.write_file_page(i)?;
        let old = core::mem::replace(&mut self.files[i].loc, at);
        self.store.invalidate(old);
        Ok(at)
    }

    /// [`FlashLight::reap`] of a file that has just lost its name. That has been made durable; where the file cannot be removed now, the
    /// next mount does it.
    pub(crate) fn reap_now(&mut self, file: FileRef) -> Result<(), Error<N::Error>> {
        match self.reap(file) {
            Err(Error::NoSpace | Error::ReadOnly | Error::TooBig) => Ok(()),
            reaped => reaped,
        }
    }

    /// Ends the life of a file that lost its name while in use.
    pub fn reap(&mut self, file: FileRef) -> Result<(), Error<N::Error>> {
        self.writable()?;
        self.make_room()?;
        self.dir_reserve(INDEX_DIR)?;
        let i = self.load_file(file)?;
        if self.files[i].file().flags() & FLAG_ORPHAN == 0 {
            return Err(Error::Invalid);
        }
        let (loc, hash) = (self.files[i].loc.0, ino_hash(self.store.volume, file.ino));
        let rec = DirRec::new(hash, State::New, Target::Orphan, loc);
        self.dir_remove(INDEX_DIR, &rec, Removal::Freed(Target::File, loc))?;
        self.free_file(i)?;
        self.store.park(i);
        self.orphans = self.orphans.saturating_sub(1);
        Ok(())
    }

    /// Removes an empty directory; durable when this returns. One or two programs.
    pub fn rmdir(&mut self, dir: u32, name: &[u8], now: Time) -> Result<(), Error<N::Error>> {
        self.writable()?;
        self.make_room()?;
        self.settle_creations(dir, 0)?;
        self.dir_reserve(dir)?;
        let found = self.find(dir, name)?;
        let Node::Dir(ino) = found.node else {
            return Err(Error::NotDir);
        };
        let i = self.load_dir(ino)?;
        if self.dirs[i].dir().size() > 0 {
            return Err(Error::NotEmpty);
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

    /// Frees everything a cached, empty directory has on flash.
    pub(crate) fn free_dir(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        for p in 0..self.dirs[i].dir().pointers() {
            let (_, at) = self.dirs[i].dir().pointer(p);
            if self.dirs[i].dir().levels() == 2 {
                self.free_hash_index(at)?;
            }
            self.store.invalidate(at);
        }
        let ino = self.dirs[i].ino;
        self.store.invalidate(self.dirs[i].dir().xattr());
        self.store.invalidate(self.dirs[i].loc);
        self.dirs[i].clear();
        self.map_set(ino, PageAddr::NONE)
    }

    /// Frees the hash maps that an index page leads to; if it cannot be read, they go on counting as
    /// valid.
    pub(crate) fn free_hash_index(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        if crate::error::sound(self.load_scratch(at, Kind::HashIndex, "hash index"))?.is_some() {
            let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
            for r in 0..page.count().min(page.capacity()) {
                self.store.invalidate(page.pointer(r).1);
            }
        }
        Ok(())
    }

    /// The parent of a directory; the root's is the root.
    pub fn parent(&mut self, dir: u32) -> Result<u32, Error<N::Error>> {
        let place = self.reading(|fs| fs.peek_dir(dir))?;
        Ok(match place {
            Place::Dir(i) => self.dirs[i].dir().parent(),
            _ => DirView::on(self.scratch).parent(),
        })
    }

    /// The target of a symbolic link, as far as `buf` reaches.
    pub fn readlink(&mut self, file: FileRef, buf: &mut [u8]) -> Result<usize, Error<N::Error>> {
        let i = self.reading(|fs| fs.load_file(file))?;
        if self.files[i].file().mode() & MODE_TYPE != MODE_SYMLINK {
            return Err(Error::Invalid);
        }
        self.read(file, 0, buf)
    }

    /// Makes a file's data, size and name durable (one program, if anything has changed), or a
    /// directory's entries. Where the allocation log has failed, a checkpoint does it.
    pub fn fsync(&mut self, node: Node) -> Result<(), Error<N::Error>> {
        if self.store.log_lost && self.is_writable() {
            self.checkpoint(false)?;
        }
        // After a checkpoint it still tells of what was lost.
        self.reading(|fs| fs.sync_node(node))
    }

    fn sync_node(&mut self, node: Node) -> Result<(), Error<N::Error>> {
        self.store.nand.only_reads = false;
        match node {
            Node::File(file) => match self.file_slot(file.ino) {
                Some(i) => self.sync_file(i),
                // What is not in RAM has been written, but for what had no place to go.
                None if self.given_up.is_some() => {
                    // What was read before says nothing of its directory.
                    self.store.scratch_at = PageAddr::NONE;
                    self.find_file(file).map(|_| ())
                }
                None => Ok(()),
            },
            Node::Dir(dir) => {
                self.settle_creations(dir, 0)?;
                match self.dir_slot(dir) {
                    Some(i) => self.flush_dir(i),
                    None => Ok(()),
                }
            }
        }
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<(), Error<N::Error>> {
        if self.read_only || !(self.store.session || self.is_dirty()) {
            return Ok(());
        }
        self.writable()?;
        self.checkpoint(false)?;
        self.tell_given_up()
    }

    /// Space. Reads nothing.
    pub fn statfs(&self) -> StatFs {
        let pages = self.usable_pages();
        StatFs {
            pages,
            pages_free: pages.saturating_sub(self.store.live),
        }
    }
}

fn apply<const REC: usize>(view: &mut Inode<&mut [u8], REC>, set: &SetAttr) {
    if let Some(mode) = set.mode {
        let kind = view.mode() & MODE_TYPE;
        view.set_mode(kind | (mode & !MODE_TYPE));
    }
    if let Some(uid) = set.uid {
        view.set_uid(uid);
    }
    if let Some(gid) = set.gid {
        view.set_gid(gid);
    }
    if let Some(t) = set.atime {
        view.set_time(Stamp::Access, t);
    }
    if let Some(t) = set.mtime {
        view.set_time(Stamp::Modify, t);
    }
    view.set_time(Stamp::Change, set.now);
}

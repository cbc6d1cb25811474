//! Inodes that live until the kernel forgets them.
//!
//! The kernel speaks of inodes by number, and goes on to do so after their last name is gone: a
//! program that opens a file has looked its name up before, another may have replaced it since, and
//! still the open must succeed. So what the kernel knows is kept when it loses its last name:
//!
//! | what it is | how it is kept | cost on flash |
//! | --- | --- | --- |
//! | a file that is open | by the file system: it is open there once more | none |
//! | a file up to [`COPY_MAX`], what is no file | by a copy in RAM | reads of the file |
//! | a larger file | by the file system, opened for this | a program or two |
//! | a larger file, and no room for that | not: `ESTALE` | none |
//!
//! The kernel forgets a file that nobody uses right after it is told that the name is gone. So a
//! removal waits for the next word of the kernel ([`held`]): mostly it is that, and nothing need be
//! kept. A crash ends all of these: the file system frees what has no name at the next mount.
//!
//! The file system may give the number of what it has removed to a new inode. As long as the kernel
//! knows the old one under that number, the new one has another for the kernel. And what the kernel
//! comes to know after a removal has another generation than what it knew before.

mod held;

use std::collections::HashMap;

use self::held::Held;
use crate::Served;
use crate::gather::Gathered;
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, MemoryFs, NewInode, Patrol, Result, SetAttr,
    SetXattr, StatFs, Time,
};

/// The largest file that is kept as a copy. To read 16 pages of 2 KiB takes a chip as long as it
/// takes for the program and a half that it saves.
pub(crate) const COPY_MAX: u64 = 32 << 10;
/// RAM for all copies, and for what is written to them: somebody may have opened one.
const COPIES_MAX: u64 = 16 << 20;
/// The first number for an inode whose own is taken. No file system has such numbers.
const NUMBER_FIRST: Ino = 1 << 48;

/// A file system, and what the kernel knows of it. Inode numbers are the kernel's here.
pub(crate) struct Kept {
    fs: Gathered,
    known: HashMap<Ino, Known>,
    /// Inodes of the file system whose own numbers are taken: the numbers that they have instead.
    renumbered: HashMap<Ino, Ino>,
    number_next: Ino,
    copies: MemoryFs,
    /// Counts removals.
    generation: u64,
    held: Held,
}

/// The kernel's claims on an inode. It may send the last forget before the last release.
struct Known {
    lookups: u64,
    opens: u64,
    generation: u64,
    place: Place,
}

/// Where an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the file system, with a name.
    Named(Ino),
    /// There without one, held open.
    Nameless(Ino),
    /// Among the copies.
    Copied(Ino),
    Lost,
}

/// Calls a method where an inode is. What the file system does not find by number is gone.
macro_rules! at {
    ($self:ident, $node:expr, $call:ident $(, $arg:expr)*) => {
        match $self.place($node) {
            Place::Named(ino) | Place::Nameless(ino) => {
                $self.fs.$call(ino $(, $arg)*).map_err(stale)
            }
            Place::Copied(ino) => $self.copies.$call(ino $(, $arg)*),
            Place::Lost => Err(Error::Stale),
        }
    };
}

fn stale(error: Error) -> Error {
    match error {
        Error::NotFound => Error::Stale,
        error => error,
    }
}

impl Kept {
    /// What the kernel will know of `fs`; `may_hold`: removals may wait for its next word.
    pub(crate) fn new(fs: Gathered, may_hold: bool) -> Kept {
        Kept {
            fs,
            known: HashMap::new(),
            renumbered: HashMap::new(),
            number_next: NUMBER_FIRST,
            copies: MemoryFs::with_capacity(COPIES_MAX),
            generation: 0,
            held: Held::new(may_hold),
        }
    }

    /// The file system itself, for what concerns no inode.
    pub(crate) fn inner(&mut self) -> &mut Gathered {
        &mut self.fs
    }

    /// Gives the file system back. What has no name ends.
    pub(crate) fn into_inner(mut self) -> Box<Served> {
        for known in self.known.into_values() {
            if let Place::Nameless(ino) = known.place {
                // The next mount does what fails here.
                let _ = self.fs.release(ino);
            }
        }
        Box::new(self.fs)
    }

    /// The kernel is handed this number. Returns the generation.
    pub(crate) fn looked_up(&mut self, node: Ino) -> u64 {
        let known = self.know(node);
        known.lookups += 1;
        known.generation
    }

    /// The kernel takes back `count` of the references it was handed. Whether it knows the inode no
    /// more.
    pub(crate) fn forget(&mut self, node: Ino, count: u64) -> Result<bool> {
        if let Some(known) = self.known.get_mut(&node) {
            known.lookups = known.lookups.saturating_sub(count);
        }
        if !self.is_unused(node) {
            return Ok(false);
        }
        match self.remove_forgotten(node) {
            Some(done) => done.map(|()| true),
            None => self.let_go(node),
        }
    }

    fn is_unused(&self, node: Ino) -> bool {
        let known = self.known.get(&node);
        known.is_some_and(|known| known.lookups == 0 && known.opens == 0)
    }

    /// Whether the kernel refers to an inode.
    #[cfg(test)]
    fn knows(&self, node: Ino) -> bool {
        self.known.contains_key(&node)
    }

    fn know(&mut self, node: Ino) -> &mut Known {
        let generation = self.generation;
        self.known.entry(node).or_insert(Known {
            lookups: 0,
            opens: 0,
            generation,
            place: Place::Named(node),
        })
    }

    /// Ends what nobody refers to any more; whether that is so.
    fn let_go(&mut self, node: Ino) -> Result<bool> {
        if !self.is_unused(node) {
            return Ok(false);
        }
        let Some(known) = self.known.remove(&node) else {
            return Ok(false);
        };
        match known.place {
            Place::Named(ino) => {
                self.renumbered.remove(&ino);
                if ino != self.fs.root() {
                    self.fs.forget(ino);
                }
            }
            Place::Nameless(ino) => {
                let released = self.fs.release(ino);
                self.fs.forget(ino);
                released?;
            }
            Place::Copied(copy) => self.copies.release(copy)?,
            Place::Lost => {}
        }
        Ok(true)
    }

    /// Ends what has no name and is not open, for the room that it takes: the kernel's word that it
    /// knows it no more may still be on its way. Whether there was any.
    fn give_up_unopened(&mut self) -> Result<bool> {
        let mut any = false;
        for known in self.known.values_mut().filter(|known| known.opens == 0) {
            if let Place::Nameless(ino) = known.place {
                known.place = Place::Lost;
                any = true;
                let released = self.fs.release(ino);
                self.fs.forget(ino);
                released?;
            }
        }
        Ok(any)
    }

    /// Does what takes room; where there is none, once more without what nobody has open.
    fn in_room<T>(&mut self, mut work: impl FnMut(&mut Kept) -> Result<T>) -> Result<T> {
        match work(self) {
            Err(Error::NoSpace | Error::TooManyFiles) if self.give_up_unopened()? => work(self),
            done => done,
        }
    }

    fn place(&self, node: Ino) -> Place {
        let known = self.known.get(&node);
        known.map_or(Place::Named(node), |known| known.place)
    }

    /// A directory's number in the file system.
    fn dir(&self, node: Ino) -> Result<Ino> {
        match self.place(node) {
            Place::Named(ino) | Place::Nameless(ino) => Ok(ino),
            // Nothing can be in a directory that is gone.
            Place::Copied(_) => Err(Error::NotFound),
            Place::Lost => Err(Error::Stale),
        }
    }

    /// The kernel's number of an inode of the file system, if the kernel knows it.
    fn number(&self, ino: Ino) -> Option<Ino> {
        let node = self.renumbered.get(&ino).copied().unwrap_or(ino);
        let known = self.known.get(&node)?;
        (known.place == Place::Named(ino)).then_some(node)
    }

    /// An inode for the kernel, which is about to know it.
    fn out(&mut self, attr: Attr) -> Attr {
        let ino = attr.ino;
        let node = match self.number(ino) {
            Some(node) => node,
            None if !self.known.contains_key(&ino) => ino,
            None => {
                let node = self.number_next;
                self.number_next += 1;
                self.renumbered.insert(ino, node);
                self.know(node).place = Place::Named(ino);
                node
            }
        };
        Attr { ino: node, ..attr }
    }

    /// The attributes of an inode that the kernel knows. Nano-FS does not count names.
    fn shown(&self, node: Ino, mut attr: Attr) -> Attr {
        attr.ino = node;
        if matches!(self.place(node), Place::Nameless(_)) {
            attr.nlink = 0;
        }
        attr
    }

    /// Does what may take the last name from what `name` refers to, and keeps that if the
    /// kernel knows it.
    fn remove(
        &mut self,
        dir: Ino,
        name: &[u8],
        now: Time,
        mut work: impl FnMut(&mut Gathered) -> Result<()>,
    ) -> Result<()> {
        let Some((node, ino, place)) = self.prepare(dir, name, now) else {
            return work(&mut self.fs);
        };
        let mut place = place;
        let mut done = work(&mut self.fs);
        if done == Err(Error::NoSpace) && place == Place::Nameless(ino) {
            // To keep it takes room that there is not.
            let opens = self.known.get(&node).map_or(0, |known| known.opens);
            if opens == 0 {
                self.fs.release(ino)?;
                place = Place::Lost;
                done = work(&mut self.fs);
            }
        }
        if done.is_ok() {
            self.generation += 1;
            self.renumbered.remove(&ino);
            if !matches!(place, Place::Nameless(_)) {
                self.fs.forget(ino);
            }
            self.know(node).place = place;
            return done;
        }
        match place {
            Place::Nameless(ino) => self.fs.release(ino)?,
            Place::Copied(copy) => self.copies.release(copy)?,
            _ => {}
        }
        done
    }

    /// Takes a name that is no directory's, at once.
    fn remove_file(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.in_room(|kept| kept.remove(dir, name, now, |fs| fs.unlink(dir, name, now)))
    }

    /// What is to be kept when a name goes: its number to the kernel, that in the file system, and
    /// where it will be. `None`: nothing, or the file system will say what is wrong.
    fn prepare(&mut self, dir: Ino, name: &[u8], now: Time) -> Option<(Ino, Ino, Place)> {
        let (node, attr) = self.last_name(dir, name)?;
        let opens = self.known.get(&node)?.opens;
        if opens == 0 && (attr.kind != FileKind::File || attr.size <= COPY_MAX) {
            // What cannot be copied may still be kept as it is.
            if let Ok(copy) = self.copy(&attr, now) {
                return Some((node, attr.ino, Place::Copied(copy)));
            }
        }
        let place = match attr.kind {
            FileKind::File if self.fs.open(attr.ino).is_ok() => Place::Nameless(attr.ino),
            _ => Place::Lost,
        };
        Some((node, attr.ino, place))
    }

    /// What a name refers to, if it is the last name of what the kernel knows.
    fn last_name(&mut self, dir: Ino, name: &[u8]) -> Option<(Ino, Attr)> {
        let attr = self.fs.lookup(dir, name).ok()?;
        let node = self.number(attr.ino)?;
        let is_last = attr.kind == FileKind::Dir || attr.nlink <= 1;
        is_last.then_some((node, attr))
    }

    /// Makes a copy in RAM of what is about to lose its name, held open and without a name.
    fn copy(&mut self, attr: &Attr, now: Time) -> Result<Ino> {
        const NAME: &[u8] = b"copy";
        let new = NewInode {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            now: attr.ctime,
        };
        let (copies, fs) = (&mut self.copies, &mut self.fs);
        let root = copies.root();
        let copy = match attr.kind {
            FileKind::File => copies.create(root, NAME, &new),
            FileKind::Dir => copies.mkdir(root, NAME, &new),
            FileKind::Symlink => copies.symlink(root, NAME, &fs.readlink(attr.ino)?, &new),
            kind => copies.mknod(root, NAME, kind, attr.device, &new),
        }?
        .ino;
        copies.open(copy)?;
        let filled = fill(copies, copy, fs, attr);
        match attr.kind {
            FileKind::Dir => copies.rmdir(root, NAME, now),
            _ => copies.unlink(root, NAME, now),
        }?;
        if let Err(error) = filled {
            copies.release(copy)?;
            return Err(error);
        }
        Ok(copy)
    }
}

/// Gives a copy the contents and attributes of what it is a copy of.
fn fill(copies: &mut MemoryFs, copy: Ino, fs: &mut Gathered, attr: &Attr) -> Result<()> {
    let mut set = SetAttr {
        atime: Some(attr.atime),
        mtime: Some(attr.mtime),
        now: attr.ctime,
        ..SetAttr::default()
    };
    if attr.kind == FileKind::File {
        let mut data = vec![0; attr.size as usize];
        let read = fs.read_aside(attr.ino, 0, &mut data)?;
        copies.write(copy, 0, &data[..read], attr.mtime)?;
        set.size = Some(attr.size);
    }
    for name in fs.xattrs(attr.ino)? {
        let value = fs.xattr(attr.ino, &name)?;
        copies.set_xattr(copy, &name, &value, SetXattr::Any, attr.ctime)?;
    }
    copies.setattr(copy, &set).map(|_| ())
}

impl FileSystem for Kept {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let attr = self.fs.lookup(self.dir(dir)?, name)?;
        Ok(self.out(attr))
    }

    fn getattr(&mut self, node: Ino) -> Result<Attr> {
        let attr = at!(self, node, getattr)?;
        Ok(self.shown(node, attr))
    }

    fn setattr(&mut self, node: Ino, set: &SetAttr) -> Result<Attr> {
        let attr = self.in_room(|kept| at!(kept, node, setattr, set))?;
        Ok(self.shown(node, attr))
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let attr = self.in_room(|kept| kept.fs.create(dir, name, new))?;
        Ok(self.out(attr))
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let attr = self.in_room(|kept| kept.fs.mknod(dir, name, kind, device, new))?;
        Ok(self.out(attr))
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let attr = self.in_room(|kept| kept.fs.mkdir(dir, name, new))?;
        Ok(self.out(attr))
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let attr = self.in_room(|kept| kept.fs.symlink(dir, name, target, new))?;
        Ok(self.out(attr))
    }

    fn readlink(&mut self, node: Ino) -> Result<Vec<u8>> {
        at!(self, node, readlink)
    }

    fn link(&mut self, node: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let Place::Named(ino) = self.place(node) else {
            return Err(Error::NotFound);
        };
        let dir = self.dir(dir)?;
        let attr = self.in_room(|kept| kept.fs.link(ino, dir, name, now))?;
        Ok(self.out(attr))
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let dir = self.dir(dir)?;
        match self.hold(dir, name, now) {
            true => Ok(()),
            false => self.remove_file(dir, name, now),
        }
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let dir = self.dir(dir)?;
        self.in_room(|kept| kept.remove(dir, name, now, |fs| fs.rmdir(dir, name, now)))
    }

    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        now: Time,
    ) -> Result<()> {
        let (from_dir, to_dir) = (self.dir(from_dir)?, self.dir(to_dir)?);
        let work = |fs: &mut Gathered| fs.rename(from_dir, from, to_dir, to, no_replace, now);
        let replaces = !no_replace && (from_dir, from) != (to_dir, to);
        self.in_room(|kept| match replaces {
            true => kept.remove(to_dir, to, now, work),
            false => work(&mut kept.fs),
        })
    }

    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        let (dir, other_dir) = (self.dir(dir)?, self.dir(other_dir)?);
        self.in_room(|kept| kept.fs.exchange(dir, name, other_dir, other, now))
    }

    fn open(&mut self, node: Ino) -> Result<()> {
        at!(self, node, open)?;
        self.know(node).opens += 1;
        Ok(())
    }

    fn release(&mut self, node: Ino) -> Result<()> {
        let released = at!(self, node, release);
        if let Some(known) = self.known.get_mut(&node) {
            known.opens = known.opens.saturating_sub(1);
        }
        self.let_go(node)?;
        released
    }

    fn forget(&mut self, node: Ino) {
        // The counts decide: `Kept::forget`.
        let _ = node;
    }

    fn read(&mut self, node: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        at!(self, node, read, offset, buf)
    }

    fn write(&mut self, node: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        self.in_room(|kept| at!(kept, node, write, offset, data, now))
    }

    fn punch_hole(&mut self, node: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.in_room(|kept| at!(kept, node, punch_hole, offset, len, now))
    }

    fn next_data(&mut self, node: Ino, offset: u64) -> Result<Option<u64>> {
        at!(self, node, next_data, offset)
    }

    fn next_hole(&mut self, node: Ino, offset: u64) -> Result<Option<u64>> {
        at!(self, node, next_hole, offset)
    }

    fn xattr(&mut self, node: Ino, name: &[u8]) -> Result<Vec<u8>> {
        at!(self, node, xattr, name)
    }

    fn xattrs(&mut self, node: Ino) -> Result<Vec<Vec<u8>>> {
        at!(self, node, xattrs)
    }

    fn set_xattr(
        &mut self,
        node: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.in_room(|kept| at!(kept, node, set_xattr, name, value, how, now))
    }

    fn remove_xattr(&mut self, node: Ino, name: &[u8], now: Time) -> Result<()> {
        self.in_room(|kept| at!(kept, node, remove_xattr, name, now))
    }

    fn fsync(&mut self, node: Ino) -> Result<()> {
        self.in_room(|kept| at!(kept, node, fsync))?;
        self.told_late()
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let numbers = &self.renumbered;
        let mut each = |mut entry: DirEntry| {
            entry.ino = numbers.get(&entry.ino).copied().unwrap_or(entry.ino);
            each(entry)
        };
        match self.place(dir) {
            Place::Named(ino) | Place::Nameless(ino) => {
                self.fs.readdir(ino, cookie, &mut each).map_err(stale)
            }
            Place::Copied(ino) => self.copies.readdir(ino, cookie, &mut each),
            Place::Lost => Err(Error::Stale),
        }
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        let Place::Named(ino) = self.place(dir) else {
            return Err(Error::Stale);
        };
        let parent = self.fs.parent(ino).map_err(stale)?;
        Ok(self.number(parent).unwrap_or(parent))
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.fs.statfs()
    }

    fn sync(&mut self) -> Result<()> {
        self.in_room(|kept| kept.fs.sync())?;
        self.told_late()
    }

    fn has_driver_failed(&self) -> bool {
        self.fs.has_driver_failed()
    }

    fn patrol(&mut self) -> Result<Patrol> {
        self.fs.patrol()
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.fs.gc(pages)
    }

    fn bytes_clean(&self) -> Option<u64> {
        self.fs.bytes_clean()
    }

    fn unmount(&mut self) -> Result<()> {
        self.fs.unmount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::flash;

    /// What is kept of a file system to which every write goes through.
    pub(super) fn through(fs: Box<Served>, may_hold: bool) -> Kept {
        Kept::new(Gathered::through(fs), may_hold)
    }

    /// A file system with a file that the kernel has looked up twice.
    fn with_file(size: usize) -> (Kept, Ino) {
        let mut kept = through(Box::new(MemoryFs::new()), false);
        let root = kept.root();
        let file = kept.create(root, b"f", &NewInode::default()).unwrap().ino;
        let (now, data) = (Time::default(), vec![5; size]);
        kept.write(file, 0, &data, now).unwrap();
        kept.looked_up(file);
        kept.looked_up(file);
        (kept, file)
    }

    /// On a full chip a removed file that the kernel has not forgotten yet is in nobody's way,
    /// unless somebody has it open.
    #[test]
    fn what_nobody_has_open_makes_room_for_whatever_needs_some() {
        for open in [false, true] {
            let mut kept = through(full_flash(), false);
            let (root, now, new) = (kept.root(), Time::default(), NewInode::default());
            let large = kept.lookup(root, b"large").unwrap().ino;
            kept.looked_up(large);
            if open {
                kept.open(large).unwrap();
            }
            kept.unlink(root, b"large", now).unwrap();
            let mut made = Vec::new();
            for n in 0..200 {
                let name = format!("new {n}").into_bytes();
                let done = kept
                    .create(root, &name, &new)
                    .and_then(|attr| kept.write(attr.ino, 0, &[7; 2000], now).map(|()| attr.ino))
                    .and_then(|ino| kept.fsync(ino));
                made.push(done);
            }
            let full = made.contains(&Err(Error::NoSpace));
            assert_eq!(full, open, "{made:?}");
        }
    }

    /// One file takes nearly all, and other files the rest.
    fn full_flash() -> Box<Served> {
        let mut fs = flash("micron-20m");
        let (root, now) = (fs.root(), Time::default());
        let large = fs.create(root, b"large", &NewInode::default()).unwrap().ino;
        for n in 0.. {
            let at = n * 65_536;
            if fs.write(large, at, &[5; 65_536], now).is_err() {
                break;
            }
        }
        fs.sync().unwrap();
        for n in 0.. {
            let name = format!("small {n}").into_bytes();
            let made = fs.create(root, &name, &NewInode::default());
            if made.and_then(|attr| fs.fsync(attr.ino)).is_err() {
                break;
            }
        }
        fs
    }

    #[test]
    fn an_inode_is_let_go_after_its_last_forget_and_release_in_either_order() {
        for forget_first in [true, false] {
            let (mut kept, file) = with_file(10);
            kept.open(file).unwrap();
            assert_eq!(kept.forget(file, 1), Ok(false));
            if forget_first {
                assert_eq!(kept.forget(file, 1), Ok(false));
                kept.release(file).unwrap();
            } else {
                kept.release(file).unwrap();
                assert!(kept.knows(file));
                assert_eq!(kept.forget(file, 1), Ok(true));
            }
            assert!(!kept.knows(file));
        }
    }

    #[test]
    fn what_has_lost_its_name_is_there_until_the_last_forget() {
        for (size, open) in [(10, false), (10, true), (COPY_MAX as usize + 1, false)] {
            let (mut kept, file) = with_file(size);
            let (root, now) = (kept.root(), Time::default());
            if open {
                kept.open(file).unwrap();
            }
            kept.unlink(root, b"f", now).unwrap();
            // A new one in its place is another.
            let new = kept.create(root, b"f", &NewInode::default()).unwrap().ino;
            assert_ne!(new, file);
            if open {
                kept.release(file).unwrap();
            }
            assert_eq!(kept.forget(file, 1), Ok(false));
            kept.open(file).unwrap();
            let mut read = vec![0; size + 1];
            assert_eq!(kept.read(file, 0, &mut read), Ok(size));
            assert!(read[..size].iter().all(|&byte| byte == 5));
            kept.release(file).unwrap();
            let is = kept.getattr(file).unwrap();
            assert_eq!((is.ino, is.nlink, is.size), (file, 0, size as u64));
            assert_eq!(kept.forget(file, 1), Ok(true));
            assert_eq!(kept.getattr(file), Err(Error::Stale));
            let left = [kept.copies.statfs(), kept.inner().statfs()].map(Result::unwrap);
            assert!(
                left.iter().all(|left| left.blocks == left.blocks_free),
                "{left:?}"
            );
        }
    }

    #[test]
    fn a_taken_number_is_another_to_the_kernel() {
        let (mut kept, file) = with_file(10);
        let (root, now) = (kept.root(), Time::default());
        let generation = kept.looked_up(file);
        kept.rename(root, b"f", root, b"g", false, now).unwrap();
        let new = kept.create(root, b"f", &NewInode::default()).unwrap();
        kept.looked_up(new.ino);
        kept.rename(root, b"f", root, b"g", false, now).unwrap();
        // As if the file system gave the number of the first to the second.
        let again = kept.out(Attr { ino: file, ..new });
        assert_ne!(again.ino, file);
        assert!(kept.looked_up(again.ino) > generation);
        assert_eq!(kept.number(file), Some(again.ino));
        assert_eq!(kept.forget(again.ino, 1), Ok(true));
        assert_eq!(kept.number(file), None);
        assert_eq!(kept.getattr(file).unwrap().size, 10);
    }

    #[test]
    fn a_refused_removal_leaves_all_as_it_was() {
        let mut kept = through(Box::new(MemoryFs::new()), false);
        let (root, now) = (kept.root(), Time::default());
        let dir = kept.mkdir(root, b"d", &NewInode::default()).unwrap().ino;
        kept.looked_up(dir);
        kept.create(dir, b"f", &NewInode::default()).unwrap();
        assert_eq!(kept.rmdir(root, b"d", now), Err(Error::NotEmpty));
        assert_eq!(kept.place(dir), Place::Named(dir));
        kept.unlink(dir, b"f", now).unwrap();
        kept.rmdir(root, b"d", now).unwrap();
        assert_eq!(kept.getattr(dir).unwrap().nlink, 0);
        let refused = kept.create(dir, b"f", &NewInode::default());
        assert_eq!(refused.unwrap_err(), Error::NotFound);
        let left = kept.copies.statfs().unwrap();
        kept.forget(dir, 1).unwrap();
        assert_eq!(
            kept.copies.statfs().unwrap().files_free,
            left.files_free + 1
        );
    }
}

//! FlashLight as a [`FileSystem`].

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight as fl;
use flashkit_flashlight::{FileRef, FlashLight, Node, ROOT_DIR};
use flashkit_meter::Metered;
use flashkit_nand::Nand;

use crate::{
    Attr, Counters, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result,
    SetAttr, SetXattr, StatFs, Time,
};

/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// A FlashLight volume and the inodes that its user knows.
pub struct FlashLightFs<'r, N: Nand> {
    fs: FlashLight<'r, N>,
    ram: usize,
    /// Where files are to be looked for.
    files: BTreeMap<Ino, FileRef>,
    opens: BTreeMap<Ino, u32>,
    orphans: BTreeSet<Ino>,
    /// Directories of which a listing has passed entries that cannot be read.
    damaged: BTreeSet<u32>,
    /// Files with extent maps whose stored pages have been counted, if any are to be.
    counted: BTreeMap<Ino, Counted>,
    counts: bool,
    /// Pages that the patrol could not read in this round, and that may be of no use.
    doubtful: u32,
}

/// Files of which the count of stored pages is kept.
const COUNTED: usize = 4096;
/// Free blocks with which a removal finds room for what it writes.
const ROOM_FOR_REMOVALS: u32 = 16;

/// What is stored of a file.
#[derive(Clone, Copy)]
struct Counted {
    pages: u32,
    size: u64,
}

impl Counted {
    /// What is stored after a change that leaves a file without holes without any.
    fn resized(self, size: u64, page: u64) -> Option<Counted> {
        let is_dense = u64::from(self.pages) == self.size.div_ceil(page);
        let pages = u32::try_from(size.div_ceil(page)).ok()?;
        is_dense.then_some(Counted { pages, size })
    }
}

fn error<E: std::fmt::Debug>(e: fl::Error<E>) -> Error {
    match e {
        fl::Error::NoSpace => Error::NoSpace,
        fl::Error::TooBig => Error::TooBig,
        fl::Error::ReadOnly => Error::ReadOnly,
        fl::Error::NotFound => Error::NotFound,
        fl::Error::Exists => Error::Exists,
        fl::Error::NoAttribute => Error::NoAttribute,
        fl::Error::NotDir => Error::NotDir,
        fl::Error::IsDir => Error::IsDir,
        fl::Error::NotEmpty => Error::NotEmpty,
        fl::Error::NameTooLong => Error::NameTooLong,
        fl::Error::TooManyLinks => Error::TooManyLinks,
        fl::Error::Invalid => Error::Invalid,
        e if e.is_metadata() => Error::Damaged(e.to_string()),
        e => Error::Io(e.to_string()),
    }
}

fn time_in(t: Time) -> fl::Time {
    fl::Time {
        secs: t.secs,
        nanos: t.nanos,
    }
}

fn time_out(t: fl::Time) -> Time {
    Time {
        secs: t.secs,
        nanos: t.nanos,
    }
}

fn new_in(new: &NewInode) -> fl::New {
    fl::New {
        mode: new.mode,
        uid: new.uid,
        gid: new.gid,
        now: time_in(new.now),
    }
}

fn kind(mode: u16) -> FileKind {
    FileKind::of_mode(mode.into()).unwrap_or(FileKind::File)
}

/// Attributes of an inode on a chip with pages of `page` bytes. Of a file whose pages are not
/// counted all of its size counts as stored.
fn attr_out(a: &fl::Attr, page: u32) -> Attr {
    let stored = a.pages.map_or(u64::MAX, |n| u64::from(n) * u64::from(page));
    Attr {
        ino: Ino::from(a.node.ino()),
        kind: kind(a.mode),
        size: a.size,
        blocks: a.size.min(stored).div_ceil(512),
        mode: a.mode & 0xfff,
        nlink: a.nlink,
        uid: a.uid,
        gid: a.gid,
        device: a.device,
        atime: time_out(a.atime),
        mtime: time_out(a.mtime),
        ctime: time_out(a.ctime),
    }
}

impl<'r, N: Nand> FlashLightFs<'r, N> {
    /// Takes a mounted volume; `ram` is the size of the slice it was given.
    pub fn new(fs: FlashLight<'r, N>, ram: usize) -> Self {
        FlashLightFs {
            fs,
            ram,
            files: BTreeMap::new(),
            opens: BTreeMap::new(),
            orphans: BTreeSet::new(),
            damaged: BTreeSet::new(),
            counted: BTreeMap::new(),
            counts: false,
            doubtful: 0,
        }
    }

    /// The volume.
    pub fn volume(&mut self) -> &mut FlashLight<'r, N> {
        &mut self.fs
    }

    /// Gives the volume back.
    pub fn into_volume(self) -> FlashLight<'r, N> {
        self.fs
    }

    fn node(&self, ino: Ino) -> Result<Node> {
        let dir = u32::try_from(ino).ok().and_then(Node::dir);
        let file = || self.files.get(&ino).map(|&file| Node::File(file));
        dir.or_else(file).ok_or(Error::NotFound)
    }

    fn dir(&self, ino: Ino) -> Result<u32> {
        match self.node(ino)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(Error::NotDir),
        }
    }

    fn file(&self, ino: Ino) -> Result<FileRef> {
        match self.node(ino)? {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(Error::IsDir),
        }
    }

    fn know(&mut self, node: Node) {
        if let Node::File(file) = node {
            self.files.insert(Ino::from(file.ino), file);
        }
    }

    fn attr(&mut self, attr: &fl::Attr) -> Attr {
        let counted = match attr.node {
            Node::File(file) if attr.pages.is_none() && self.counts => self.count(file, attr.size),
            _ => attr.pages,
        };
        let attr = fl::Attr {
            pages: counted,
            ..*attr
        };
        attr_out(&attr, self.fs.nand().geometry().page_size())
    }

    /// The stored pages of a file with extent maps.
    fn count(&mut self, file: FileRef, size: u64) -> Option<u32> {
        let ino = Ino::from(file.ino);
        if let Some(counted) = self.counted.get(&ino).filter(|c| c.size == size) {
            return Some(counted.pages);
        }
        // Damage is for its reader to meet.
        let pages = self.fs.pages_stored(file).ok()??;
        if self.counted.len() >= COUNTED {
            self.counted.clear();
        }
        self.counted.insert(ino, Counted { pages, size });
        Some(pages)
    }

    /// Notes a change of what is stored of a file: it has this size now, or has holes.
    fn recount(&mut self, ino: Ino, size: impl FnOnce(Counted) -> Option<u64>) {
        let Some(counted) = self.counted.remove(&ino) else {
            return;
        };
        let page = u64::from(self.fs.nand().geometry().page_size());
        if let Some(now) = size(counted).and_then(|size| counted.resized(size, page)) {
            self.counted.insert(ino, now);
        }
    }

    /// What the file system has made durable on its chip is so for the host's disk, where the chip
    /// is in an image.
    fn flush_chip(&mut self) -> Result<()> {
        let flushed = self.fs.nand_mut().flush();
        flushed.map_err(|e| error(fl::Error::Driver(e)))
    }

    fn made(&mut self, node: Node) -> Result<Attr> {
        self.know(node);
        // The number may have been another file's.
        self.counted.remove(&Ino::from(node.ino()));
        let attr = self.fs.getattr(node).map_err(error)?;
        Ok(self.attr(&attr))
    }
}

impl<N: Nand> FileSystem for FlashLightFs<'_, N> {
    fn root(&self) -> Ino {
        Ino::from(ROOT_DIR)
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let attr = self.fs.lookup(dir, name).map_err(error)?;
        self.know(attr.node);
        Ok(self.attr(&attr))
    }

    fn lookup_dir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        let dir = self.dir(dir)?;
        self.fs.lookup_dir(dir, name).map(Ino::from).map_err(error)
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        let node = self.node(ino)?;
        let attr = self.fs.getattr(node).map_err(error)?;
        Ok(self.attr(&attr))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let node = self.node(ino)?;
        if let Some(size) = set.size {
            let file = self.file(ino)?;
            let done = self.fs.truncate(file, size, time_in(set.now));
            let is_dense = |is: Counted| done.is_ok() && size <= is.size;
            self.recount(ino, |is| is_dense(is).then_some(size));
            done.map_err(error)?;
        }
        let set = fl::SetAttr {
            mode: set.mode,
            uid: set.uid,
            gid: set.gid,
            atime: set.atime.map(time_in),
            mtime: set.mtime.map(time_in),
            now: time_in(set.now),
        };
        self.fs.setattr(node, &set).map_err(error)?;
        self.getattr(ino)
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let node = self.fs.create(dir, name, &new_in(new)).map_err(error)?;
        self.made(node)
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        let special = match kind {
            FileKind::Fifo => fl::Special::Fifo,
            FileKind::Socket => fl::Special::Socket,
            FileKind::Char => fl::Special::Char(device),
            FileKind::Block => fl::Special::Block(device),
            FileKind::File | FileKind::Dir | FileKind::Symlink => return Err(Error::Invalid),
        };
        let dir = self.dir(dir)?;
        let node = self
            .fs
            .create_special(dir, name, special, &new_in(new))
            .map_err(error)?;
        self.made(node)
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = self.dir(dir)?;
        let node = self.fs.mkdir(dir, name, &new_in(new)).map_err(error)?;
        self.made(node)
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        let dir = self.dir(dir)?;
        let node = self
            .fs
            .symlink(dir, name, target, &new_in(new))
            .map_err(error)?;
        self.made(node)
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        let Node::File(file) = self.node(ino)? else {
            return Err(Error::Invalid);
        };
        let mut target = vec![0; TARGET_MAX];
        let n = self.fs.readlink(file, &mut target).map_err(error)?;
        target.truncate(n);
        Ok(target)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let Node::File(file) = self.node(ino)? else {
            return Err(Error::NotPermitted);
        };
        let dir = self.dir(dir)?;
        let node = self.fs.link(file, dir, name, time_in(now)).map_err(error)?;
        self.made(node)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let dir = self.dir(dir)?;
        let opens = &self.opens;
        let last = std::cell::Cell::new(0);
        let in_use = |ino: u32| {
            last.set(ino);
            opens.contains_key(&Ino::from(ino))
        };
        let unlinked = self
            .fs
            .unlink(dir, name, &in_use, time_in(now))
            .map_err(error)?;
        let ino = Ino::from(last.get());
        match unlinked {
            fl::Unlinked::Gone => {
                self.files.remove(&ino);
            }
            fl::Unlinked::InUse => {
                self.orphans.insert(ino);
            }
            fl::Unlinked::Named => {}
        }
        Ok(())
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let dir = self.dir(dir)?;
        self.fs.rmdir(dir, name, time_in(now)).map_err(error)
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
        let opens = &self.opens;
        let in_use = |ino: u32| opens.contains_key(&Ino::from(ino));
        let (node, kept) = self
            .fs
            .rename(
                from_dir,
                from,
                to_dir,
                to,
                no_replace,
                &in_use,
                time_in(now),
            )
            .map_err(error)?;
        self.know(node);
        self.orphans.extend(kept.map(Ino::from));
        Ok(())
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
        let nodes = self
            .fs
            .exchange((dir, name), (other_dir, other), time_in(now))
            .map_err(error)?;
        nodes.into_iter().for_each(|node| self.know(node));
        Ok(())
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.node(ino)?;
        *self.opens.entry(ino).or_default() += 1;
        Ok(())
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        let Some(count) = self.opens.get_mut(&ino) else {
            return Err(Error::NotFound);
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.opens.remove(&ino);
        if self.orphans.remove(&ino) {
            let file = self.file(ino)?;
            self.files.remove(&ino);
            return self.fs.reap(file).map_err(error);
        }
        Ok(())
    }

    fn has_driver_failed(&self) -> bool {
        self.fs.stopped() == Some(fl::Stopped::Driver)
    }

    fn takes_removals(&self) -> bool {
        let fs = &self.fs;
        fs.stopped().is_none() && !fs.is_worn() && fs.free_blocks() > ROOM_FOR_REMOVALS
    }

    fn count_blocks(&mut self) {
        self.counts = true;
    }

    fn forget(&mut self, ino: Ino) {
        if !self.opens.contains_key(&ino) {
            self.files.remove(&ino);
        }
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let file = self.file(ino)?;
        self.fs.read(file, offset, buf).map_err(error)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let file = self.file(ino)?;
        let end = offset.saturating_add(data.len() as u64);
        let written = self.fs.write(file, offset, data, time_in(now));
        let is_dense = |is: Counted| written.is_ok() && offset <= is.size;
        self.recount(ino, |is| is_dense(is).then_some(end.max(is.size)));
        written.map_err(error)
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        let file = self.file(ino)?;
        self.counted.remove(&ino);
        self.fs
            .punch(file, offset, len, time_in(now))
            .map_err(error)
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let file = self.file(ino)?;
        self.fs.next_data(file, offset).map_err(error)
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let file = self.file(ino)?;
        self.fs.next_hole(file, offset).map_err(error)
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let node = self.node(ino)?;
        let mut value = vec![0; self.fs.nand().geometry().page_size() as usize];
        let n = self.fs.xattr(node, name, &mut value).map_err(error)?;
        value.truncate(n);
        Ok(value)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let node = self.node(ino)?;
        let mut names = Vec::new();
        self.fs
            .xattrs(node, &mut |name| names.push(name.to_vec()))
            .map_err(error)?;
        Ok(names)
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        let node = self.node(ino)?;
        let how = match how {
            SetXattr::Any => fl::SetXattr::Any,
            SetXattr::Create => fl::SetXattr::Create,
            SetXattr::Replace => fl::SetXattr::Replace,
        };
        self.fs
            .set_xattr(node, name, value, how, time_in(now))
            .map_err(error)
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        let node = self.node(ino)?;
        self.fs
            .remove_xattr(node, name, time_in(now))
            .map_err(error)
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        let node = self.node(ino)?;
        self.fs.fsync(node).map_err(error)?;
        self.flush_chip()
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let dir = self.dir(dir)?;
        // Any program may seek to any place in a directory. That there is damage before it is not
        // to be taken from its word: a mount is read-only from then on.
        let cookie = match self.damaged.contains(&dir) {
            true => cookie,
            false => cookie & !fl::PASSED_DAMAGE,
        };
        let mut passed = cookie & fl::PASSED_DAMAGE;
        let listed = self.fs.readdir(dir, cookie, &mut |e| {
            passed |= e.cookie & fl::PASSED_DAMAGE;
            each(DirEntry {
                ino: Ino::from(e.node.ino()),
                kind: kind(e.mode),
                name: e.name.to_vec(),
                cookie: e.cookie,
            })
        });
        if passed != 0 {
            self.damaged.insert(dir);
        }
        listed.map_err(error)
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        let dir = self.dir(dir)?;
        self.fs.parent(dir).map(Ino::from).map_err(error)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let space = self.fs.statfs();
        Ok(StatFs {
            block_size: self.fs.nand().geometry().page_size(),
            blocks: space.pages.into(),
            blocks_free: space.pages_free.into(),
            files: space.pages.into(),
            files_free: space.pages_free.into(),
            name_max: fl::NAME_MAX as u32,
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.fs.sync().map_err(error)?;
        self.flush_chip()
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.fs.gc(pages).map_err(error)
    }

    fn bytes_clean(&self) -> Option<u64> {
        let geo = self.fs.nand().geometry();
        let block = u64::from(geo.pages_per_block()) * u64::from(geo.page_size());
        Some(u64::from(self.fs.free_blocks()) * block)
    }

    fn patrol(&mut self) -> Result<Patrol> {
        Ok(match self.fs.patrol().map_err(error)? {
            fl::Patrol::Read => Patrol::Read,
            fl::Patrol::Noted => Patrol::Noted,
            fl::Patrol::Unreadable { page, in_use: true } => Patrol::Lost(format!(
                "page {} cannot be read: a file has lost data, `flashkit fsck -n` names it",
                page.0
            )),
            // Power cuts leave such pages, and no harm is done.
            fl::Patrol::Unreadable { in_use: false, .. } => {
                self.doubtful += 1;
                Patrol::Read
            }
            fl::Patrol::Done => Patrol::Done(match std::mem::take(&mut self.doubtful) {
                0 => None,
                n => Some(format!(
                    "{n} pages cannot be read that may be in use; `flashkit fsck -n` tells"
                )),
            }),
        })
    }

    fn unmount(&mut self) -> Result<()> {
        self.fs.close().map_err(error)?;
        self.flush_chip()
    }
}

impl<N: Nand + Metered> Measured for FlashLightFs<'_, N> {
    fn cost(&self) -> Counters {
        self.fs.nand().counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.fs.nand().erase_counts()
    }

    fn programs(&self) -> Vec<(&'static str, u64)> {
        let written = self.fs.written();
        let [allocation, map, dir, hash, file, extent] = written.areas;
        vec![
            ("data", written.data),
            ("data moved by cleaning", written.moved_data),
            ("file inodes", file),
            ("extent maps", extent),
            ("directories", dir),
            ("hash maps", hash),
            ("directory map", map),
            ("valid pages", written.validity),
            ("allocation", allocation),
            ("checkpoints", written.checkpoint),
        ]
    }

    fn page_bytes(&self) -> u32 {
        self.fs.nand().geometry().page_size()
    }

    fn ram_bytes(&self) -> usize {
        self.ram
    }

    fn idle(&mut self, ms: u64) -> Result<()> {
        self.fs.nand_mut().idle(ms.saturating_mul(1_000_000));
        Ok(())
    }
}

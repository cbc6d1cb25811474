//! A file system in the memory of the host: the reference that the others are compared with.
//!
//! It does what POSIX says wherever [`FileSystem`] leaves a choice, and checks in a fixed order,
//! so that a call with several faults has one answer: first the inode of the directory
//! ([`Error::NotFound`], [`Error::NotDir`]), then the name ([`Error::Invalid`],
//! [`Error::NameTooLong`]), then what the name refers to, then space. For a rename this means, in
//! turn: no `from`; `to` taken under `no_replace`; `from` an ancestor of `to_dir`
//! ([`Error::Invalid`]); `to` an ancestor of `from_dir` ([`Error::NotEmpty`]); both the same inode
//! (nothing happens); a directory onto a non-directory ([`Error::NotDir`]) and the reverse
//! ([`Error::IsDir`]); `to` not empty.
//!
//! Reading does not touch atime. Setting a size sets mtime even when the size stays. A write of
//! no bytes does nothing.

use std::collections::{BTreeMap, HashMap};

use crate::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Result, SetAttr,
    SetXattr, StatFs, Time,
};

/// Unit of storage; holes of at least this size take no memory.
const CHUNK: usize = 4096;
/// Largest file: what a signed 64-bit offset can name.
const SIZE_MAX: u64 = i64::MAX as u64;
/// Longest name in bytes.
const NAME_MAX: usize = 255;
/// Longest symbolic link target in bytes.
const TARGET_MAX: usize = 4095;
/// Inodes that [`FileSystem::statfs`] speaks of.
const FILES_MAX: u64 = 1 << 32;
const ROOT: Ino = 1;

/// A file system in memory.
pub struct MemoryFs {
    inodes: HashMap<Ino, Inode>,
    next_ino: Ino,
    chunks_max: u64,
    chunks_used: u64,
}

struct Inode {
    mode: u16,
    nlink: u32,
    uid: u32,
    gid: u32,
    atime: Time,
    mtime: Time,
    ctime: Time,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Users noted by `open`.
    users: u64,
    body: Body,
}

enum Body {
    File(Data),
    Dir(Dir),
    Symlink(Vec<u8>),
    Special(FileKind, u32),
}

/// A directory. Cookies count up and are never used again, so a listing that goes on after one
/// of them neither repeats nor skips what stayed.
struct Dir {
    parent: Ino,
    cookies: HashMap<Vec<u8>, u64>,
    entries: BTreeMap<u64, (Vec<u8>, Ino)>,
    next_cookie: u64,
}

impl Dir {
    fn new(parent: Ino) -> Dir {
        Dir {
            parent,
            cookies: HashMap::new(),
            entries: BTreeMap::new(),
            next_cookie: 1,
        }
    }

    fn get(&self, name: &[u8]) -> Option<Ino> {
        self.cookies.get(name).map(|cookie| self.entries[cookie].1)
    }

    /// Adds a name, or lets an existing one refer to another inode.
    fn set(&mut self, name: &[u8], ino: Ino) {
        if let Some(cookie) = self.cookies.get(name) {
            self.entries.insert(*cookie, (name.to_vec(), ino));
        } else {
            self.cookies.insert(name.to_vec(), self.next_cookie);
            self.entries.insert(self.next_cookie, (name.to_vec(), ino));
            self.next_cookie += 1;
        }
    }

    fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.entries.remove(&cookie);
        }
    }
}

/// Sparse file contents. Bytes at and beyond `size` are zero in every chunk.
#[derive(Default)]
struct Data {
    size: u64,
    chunks: BTreeMap<u64, Box<[u8; CHUNK]>>,
}

impl Data {
    fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = buf
            .len()
            .min(usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < len {
            let (chunk, at, n) = step(offset + done as u64, len - done);
            match self.chunks.get(&chunk) {
                Some(data) => buf[done..done + n].copy_from_slice(&data[at..at + n]),
                None => buf[done..done + n].fill(0),
            }
            done += n;
        }
        len
    }

    /// Chunks that a write would add.
    fn missing(&self, offset: u64, len: usize) -> u64 {
        let (first, last) = (
            offset / CHUNK as u64,
            (offset + len as u64 - 1) / CHUNK as u64,
        );
        last - first + 1 - self.chunks.range(first..=last).count() as u64
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (chunk, at, n) = step(offset + done as u64, data.len() - done);
            let held = self
                .chunks
                .entry(chunk)
                .or_insert_with(|| Box::new([0; CHUNK]));
            held[at..at + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Makes a range zero; returns how many chunks went.
    fn punch(&mut self, offset: u64, end: u64) -> u64 {
        let (mut at, mut gone) = (offset, 0);
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let (chunk, from, n) = step(at, left);
            // What lies behind the end of the file is zero.
            if from == 0 && (n == CHUNK || end == self.size) {
                gone += u64::from(self.chunks.remove(&chunk).is_some());
            } else if let Some(held) = self.chunks.get_mut(&chunk) {
                held[from..from + n].fill(0);
            }
            at += n as u64;
        }
        gone
    }

    /// Sets the size; returns how many chunks went.
    fn resize(&mut self, size: u64) -> u64 {
        let mut gone = 0;
        if size < self.size {
            gone = self.chunks.split_off(&size.div_ceil(CHUNK as u64)).len() as u64;
            if let Some(last) = self.chunks.get_mut(&(size / CHUNK as u64)) {
                last[step(size, 0).1..].fill(0);
            }
        }
        self.size = size;
        gone
    }
}

/// The chunk that holds `offset`, the place within it, and how many of `len` bytes it takes.
fn step(offset: u64, len: usize) -> (u64, usize, usize) {
    // A remainder of CHUNK, so it fits whatever the width of usize.
    let at = (offset % CHUNK as u64) as usize;
    (offset / CHUNK as u64, at, len.min(CHUNK - at))
}

/// Refuses what can never be a name.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|b| matches!(b, 0 | b'/'))
    {
        Err(Error::Invalid)
    } else if name.len() > NAME_MAX {
        Err(Error::NameTooLong)
    } else {
        Ok(())
    }
}

impl Inode {
    fn new(new: &NewInode, body: Body) -> Inode {
        Inode {
            mode: new.mode & 0o7777,
            nlink: if matches!(body, Body::Dir(_)) { 2 } else { 1 },
            uid: new.uid,
            gid: new.gid,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            xattrs: BTreeMap::new(),
            users: 0,
            body,
        }
    }

    fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Dir(_) => FileKind::Dir,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special(kind, _) => kind,
        }
    }

    fn attr(&self, ino: Ino) -> Attr {
        let (size, chunks) = match &self.body {
            Body::File(data) => (data.size, data.chunks.len() as u64),
            Body::Dir(_) => (0, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Special(..) => (0, 0),
        };
        let device = match self.body {
            Body::Special(_, device) => device,
            _ => 0,
        };
        Attr {
            ino,
            kind: self.kind(),
            size,
            blocks: chunks * (CHUNK as u64 / 512),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            device,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    /// The contents of a regular file.
    fn data(&mut self) -> Result<&mut Data> {
        match &mut self.body {
            Body::File(data) => Ok(data),
            Body::Dir(_) => Err(Error::IsDir),
            Body::Symlink(_) | Body::Special(..) => Err(Error::Invalid),
        }
    }
}

impl Default for MemoryFs {
    fn default() -> Self {
        MemoryFs::new()
    }
}

impl MemoryFs {
    /// An empty file system for up to 1 GiB.
    pub fn new() -> MemoryFs {
        MemoryFs::with_capacity(1 << 30)
    }

    /// An empty file system for so many bytes of file contents, counted in units of 4 KiB.
    pub fn with_capacity(bytes: u64) -> MemoryFs {
        let new = NewInode {
            mode: 0o755,
            ..NewInode::default()
        };
        MemoryFs {
            inodes: HashMap::from([(ROOT, Inode::new(&new, Body::Dir(Dir::new(ROOT))))]),
            next_ino: ROOT + 1,
            chunks_max: bytes / CHUNK as u64,
            chunks_used: 0,
        }
    }

    fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(Error::NotFound)
    }

    fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Error::NotFound)
    }

    fn dir(&self, ino: Ino) -> Result<&Dir> {
        match &self.inode(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDir),
        }
    }

    /// The inode a name refers to.
    fn find(&self, dir: Ino, name: &[u8]) -> Result<Ino> {
        let entries = self.dir(dir)?;
        check_name(name)?;
        entries.get(name).ok_or(Error::NotFound)
    }

    /// Changes the entries of a directory, and with them its times.
    fn change(&mut self, dir: Ino, now: Time, subdirs: i32, edit: impl FnOnce(&mut Dir)) {
        if let Some(inode) = self.inodes.get_mut(&dir) {
            if let Body::Dir(entries) = &mut inode.body {
                edit(entries);
            }
            inode.nlink = inode.nlink.saturating_add_signed(subdirs);
            inode.mtime = now;
            inode.ctime = now;
        }
    }

    fn add(&mut self, dir: Ino, name: &[u8], new: &NewInode, body: Body) -> Result<Attr> {
        let entries = self.dir(dir)?;
        check_name(name)?;
        if entries.get(name).is_some() {
            return Err(Error::Exists);
        }
        if self.inode(dir)?.nlink == 0 {
            return Err(Error::NotFound);
        }
        let ino = self.next_ino;
        self.next_ino += 1;
        let inode = Inode::new(new, body);
        let attr = inode.attr(ino);
        self.inodes.insert(ino, inode);
        let subdirs = i32::from(attr.kind == FileKind::Dir);
        self.change(dir, new.now, subdirs, |entries| entries.set(name, ino));
        Ok(attr)
    }

    /// Takes a name from an inode; without another it goes, unless it is open.
    fn unname(&mut self, ino: Ino, now: Time) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.nlink = match inode.body {
                Body::Dir(_) => 0,
                _ => inode.nlink - 1,
            };
            inode.ctime = now;
        }
        self.reap(ino);
    }

    /// Drops an inode without names and users.
    fn reap(&mut self, ino: Ino) {
        if self
            .inodes
            .get(&ino)
            .is_some_and(|inode| inode.nlink == 0 && inode.users == 0)
            && let Some(Inode {
                body: Body::File(data),
                ..
            }) = self.inodes.remove(&ino)
        {
            self.chunks_used -= data.chunks.len() as u64;
        }
    }

    /// Whether `dir` is `above` or somewhere below it.
    fn is_within(&self, mut dir: Ino, above: Ino) -> Result<bool> {
        loop {
            if dir == above {
                return Ok(true);
            }
            if dir == ROOT {
                return Ok(false);
            }
            dir = self.dir(dir)?.parent;
        }
    }
}

impl FileSystem for MemoryFs {
    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let ino = self.find(dir, name)?;
        self.getattr(ino)
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        Ok(self.inode(ino)?.attr(ino))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.inode_mut(ino)?;
        let mut gone = 0;
        if let Some(size) = set.size {
            let data = inode.data()?;
            if size > SIZE_MAX {
                return Err(Error::TooBig);
            }
            gone = data.resize(size);
            inode.mtime = set.now;
        }
        inode.mode = set.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.atime = set.atime.unwrap_or(inode.atime);
        inode.mtime = set.mtime.unwrap_or(inode.mtime);
        inode.ctime = set.now;
        let attr = inode.attr(ino);
        self.chunks_used -= gone;
        Ok(attr)
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.add(dir, name, new, Body::File(Data::default()))
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        if !kind.is_special() {
            return Err(Error::Invalid);
        }
        self.add(dir, name, new, Body::Special(kind, device))
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.add(dir, name, new, Body::Dir(Dir::new(dir)))
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid);
        }
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        self.add(dir, name, new, Body::Symlink(target.to_vec()))
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        match &self.inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Error::Invalid),
        }
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let inode = self.inode(ino)?;
        let (kind, nlink) = (inode.kind(), inode.nlink);
        let entries = self.dir(dir)?;
        check_name(name)?;
        if kind == FileKind::Dir {
            return Err(Error::NotPermitted);
        }
        if entries.get(name).is_some() {
            return Err(Error::Exists);
        }
        if nlink == 0 || self.inode(dir)?.nlink == 0 {
            return Err(Error::NotFound);
        }
        let inode = self.inode_mut(ino)?;
        inode.nlink = nlink.checked_add(1).ok_or(Error::TooManyLinks)?;
        inode.ctime = now;
        let attr = inode.attr(ino);
        self.change(dir, now, 0, |entries| entries.set(name, ino));
        Ok(attr)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let ino = self.find(dir, name)?;
        if self.inode(ino)?.kind() == FileKind::Dir {
            return Err(Error::IsDir);
        }
        self.change(dir, now, 0, |entries| entries.remove(name));
        self.unname(ino, now);
        Ok(())
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let ino = self.find(dir, name)?;
        if !self.dir(ino)?.entries.is_empty() {
            return Err(Error::NotEmpty);
        }
        self.change(dir, now, -1, |entries| entries.remove(name));
        self.unname(ino, now);
        Ok(())
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
        self.dir(from_dir)?;
        self.dir(to_dir)?;
        check_name(from)?;
        check_name(to)?;
        let moved = self.find(from_dir, from)?;
        let replaced = self.dir(to_dir)?.get(to);
        let is_dir = self.inode(moved)?.kind() == FileKind::Dir;
        if replaced.is_some() && no_replace {
            return Err(Error::Exists);
        }
        if is_dir && self.is_within(to_dir, moved)? {
            return Err(Error::Invalid);
        }
        if let Some(old) = replaced {
            if old != moved && self.is_within(from_dir, old)? {
                return Err(Error::NotEmpty);
            }
            match (is_dir, &self.inode(old)?.body) {
                _ if old == moved => return Ok(()),
                (true, Body::Dir(dir)) if !dir.entries.is_empty() => return Err(Error::NotEmpty),
                (false, Body::Dir(_)) => return Err(Error::IsDir),
                (true, Body::File(_) | Body::Symlink(_) | Body::Special(..)) => {
                    return Err(Error::NotDir);
                }
                _ => {}
            }
        } else if self.inode(to_dir)?.nlink == 0 {
            return Err(Error::NotFound);
        }
        let subdirs = i32::from(is_dir);
        self.change(from_dir, now, -subdirs, |entries| entries.remove(from));
        let added = if replaced.is_some() { 0 } else { subdirs };
        self.change(to_dir, now, added, |entries| entries.set(to, moved));
        if let Some(old) = replaced {
            self.unname(old, now);
        }
        let inode = self.inode_mut(moved)?;
        inode.ctime = now;
        if let Body::Dir(dir) = &mut inode.body {
            dir.parent = to_dir;
        }
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
        let pair = [
            (dir, name, self.find(dir, name)?),
            (other_dir, other, self.find(other_dir, other)?),
        ];
        let inos = pair.map(|(.., ino)| ino);
        if inos[0] == inos[1] {
            return Ok(());
        }
        for (ino, to) in [(inos[0], other_dir), (inos[1], dir)] {
            if self.inode(ino)?.kind() == FileKind::Dir && self.is_within(to, ino)? {
                return Err(Error::Invalid);
            }
        }
        for ((dir, name, leaves), comes) in pair.into_iter().zip([inos[1], inos[0]]) {
            let [come, leave] = [self.inode(comes)?, self.inode(leaves)?]
                .map(|inode| i32::from(inode.kind() == FileKind::Dir));
            let subdirs = come - leave;
            self.change(dir, now, subdirs, |entries| entries.set(name, comes));
            let inode = self.inode_mut(comes)?;
            inode.ctime = now;
            if let Body::Dir(body) = &mut inode.body {
                body.parent = dir;
            }
        }
        Ok(())
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.inode_mut(ino)?.users += 1;
        Ok(())
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        inode.users = inode.users.checked_sub(1).ok_or(Error::Invalid)?;
        self.reap(ino);
        Ok(())
    }

    fn forget(&mut self, _ino: Ino) {}

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.inode_mut(ino)?.data()?.read(offset, buf))
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let free = self.chunks_max - self.chunks_used;
        let inode = self.inode_mut(ino)?;
        let held = inode.data()?;
        if data.is_empty() {
            return Ok(());
        }
        if offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| end > SIZE_MAX)
        {
            return Err(Error::TooBig);
        }
        let added = held.missing(offset, data.len());
        if added > free {
            return Err(Error::NoSpace);
        }
        held.write(offset, data);
        inode.mtime = now;
        inode.ctime = now;
        self.chunks_used += added;
        Ok(())
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        let data = inode.data()?;
        let end = offset.saturating_add(len).min(data.size);
        if offset >= end {
            return Ok(());
        }
        let gone = data.punch(offset, end);
        inode.mtime = now;
        inode.ctime = now;
        self.chunks_used -= gone;
        Ok(())
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let data = self.inode_mut(ino)?.data()?;
        let held = data.chunks.range(offset / CHUNK as u64..).next();
        let at = held.map(|(chunk, _)| offset.max(chunk * CHUNK as u64));
        Ok(at.filter(|at| *at < data.size))
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let data = self.inode_mut(ino)?.data()?;
        let mut chunk = offset / CHUNK as u64;
        while data.chunks.contains_key(&chunk) {
            chunk += 1;
        }
        let at = offset.max(chunk * CHUNK as u64).min(data.size);
        Ok((offset < data.size).then_some(at))
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let found = self.inode(ino)?.xattrs.get(name);
        found.cloned().ok_or(Error::NoAttribute)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(self.inode(ino)?.xattrs.keys().cloned().collect())
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::Invalid);
        }
        match (how, inode.xattrs.contains_key(name)) {
            (SetXattr::Create, true) => return Err(Error::Exists),
            (SetXattr::Replace, false) => return Err(Error::NoAttribute),
            _ => {}
        }
        inode.xattrs.insert(name.to_vec(), value.to_vec());
        inode.ctime = now;
        Ok(())
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        inode.xattrs.remove(name).ok_or(Error::NoAttribute)?;
        inode.ctime = now;
        Ok(())
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.inode(ino).map(|_| ())
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let after = cookie.saturating_add(1);
        for (cookie, (name, ino)) in self.dir(dir)?.entries.range(after..) {
            let kind = self.inode(*ino)?.kind();
            if !each(DirEntry {
                ino: *ino,
                kind,
                name: name.clone(),
                cookie: *cookie,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        Ok(self.dir(dir)?.parent)
    }

    fn takes_removals(&self) -> bool {
        true
    }

    fn statfs(&mut self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: CHUNK as u32,
            blocks: self.chunks_max,
            blocks_free: self.chunks_max - self.chunks_used,
            files: FILES_MAX,
            files_free: FILES_MAX - self.inodes.len() as u64,
            name_max: NAME_MAX as u32,
        })
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Measured for MemoryFs {}

//! The kernel's requests, one function each, over [`flashkit_vfs::FileSystem`].
//!
//! What is not here (locks) is answered with `ENOSYS` by the library; the kernel then does without,
//! and does not ask again.
//!
//! Permissions are the kernel's business (`default_permissions`). Directories are listed by plain
//! `readdir`: `readdirplus` would read every inode of a listing that asks for names alone.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flashkit_vfs::{Attr, Error, FileKind, FileSystem, Ino, NewInode, SetAttr, SetXattr, Time};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::convert::{self, InoMap};
use crate::gather::PIECE;
use crate::state::{Effect, Inner, Shared};
use crate::{AccessTimes, MountOptions, gc, sync};

/// Largest write in one request.
const WRITE_MAX: u32 = 1 << 20;

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o010;
/// The attribute that holds what a program may do beyond its user.
const CAPABILITIES: &[u8] = b"security.capability";

/// Flags of `fallocate(2)`.
const FALLOC_KEEP_SIZE: i32 = 1;
const FALLOC_PUNCH_HOLE: i32 = 2;
const FALLOC_ZERO_RANGE: i32 = 0x10;
/// Flags of `setxattr(2)`.
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;
/// What is at work when an access time cannot be kept.
const ACCESS: &str = "noting an access";
/// What `lseek(2)` looks for.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The kernel need not drop cached pages at `open`: nothing changes behind its back.
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE;
const NO_HANDLE: FileHandle = FileHandle(0);
/// Of a name that is not there.
const NO_GENERATION: Generation = Generation(0);

/// `readdir` positions: 0 is before `.`, 1 before `..`, 2 before the first entry, and the
/// file system's cookies follow, moved up by 2.
const POSITION_DOTDOT: u64 = 1;
const POSITION_ENTRIES: u64 = 2;

/// An inode that the kernel is handed, and its generation.
type Entry = (Attr, Generation);

/// Counts that the kernel is handed an inode.
fn entry(inner: &mut Inner, attr: Attr) -> Result<Entry, Error> {
    let generation = inner.fs()?.looked_up(attr.ino);
    Ok((attr, Generation(generation)))
}

/// Serves the kernel.
pub(crate) struct Bridge {
    shared: Arc<Shared>,
    inos: InoMap,
    options: MountOptions,
    /// It is here that set-ID bits go when a file is written, cut or given away.
    kills_privileges: bool,
}

impl Bridge {
    pub(crate) fn new(shared: Arc<Shared>, root: Ino, options: &MountOptions) -> Bridge {
        Bridge {
            shared,
            inos: InoMap::new(root),
            options: options.clone(),
            kills_privileges: false,
        }
    }

    fn reads<T>(&self, work: impl FnOnce(&mut Inner) -> Result<T, Error>) -> Result<T, Errno> {
        self.shared.serve(Effect::Reads, work)
    }

    fn settles<T>(&self, work: impl FnOnce(&mut Inner) -> Result<T, Error>) -> Result<T, Errno> {
        self.shared.serve(Effect::Settles, work)
    }

    fn changes<T>(&self, work: impl FnOnce(&mut Inner) -> Result<T, Error>) -> Result<T, Errno> {
        self.shared.serve(Effect::Changes, work)
    }

    /// How long the kernel may keep attributes. Those of a file with set-ID bits it must ask for
    /// each time: it is not told when a hole or a direct write takes the bits.
    fn attr_ttl(&self, attr: &Attr) -> Duration {
        if attr.kind == FileKind::File && attr.mode & (SETUID | SETGID) != 0 {
            return Duration::ZERO;
        }
        self.options.attr_timeout
    }

    fn reply_entry(&self, result: Result<Entry, Errno>, reply: ReplyEntry) {
        match result {
            Ok((attr, generation)) => {
                let (attr_ttl, entry_ttl) = (self.attr_ttl(&attr), &self.options.entry_timeout);
                let attr = self.inos.attr(&attr);
                reply.entry_with_ttls(&attr_ttl, entry_ttl, &attr, generation);
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// Runs a creation in `parent`: `make` gets the directory and the new inode's owner.
    fn create_in(
        &self,
        req: &Request,
        parent: INodeNo,
        mode: u32,
        make: impl FnOnce(&mut Inner, Ino, &mut NewInode, bool) -> Result<Attr, Error>,
    ) -> Result<Entry, Errno> {
        let dir = self.inos.ours(parent);
        self.changes(|inner| {
            let mut new = NewInode {
                mode: (mode & 0o7777) as u16,
                uid: req.uid(),
                gid: req.gid(),
                now: Time::now(),
            };
            // A set-group-ID directory hands its group down.
            let parent = inner.fs()?.getattr(dir)?;
            let inherit = parent.mode & SETGID != 0;
            if inherit {
                new.gid = parent.gid;
            }
            let attr = make(inner, dir, &mut new, inherit)?;
            self.settle(inner, dir)?;
            entry(inner, attr)
        })
    }
}

impl Bridge {
    /// On a synchronous mount: makes what has changed durable.
    fn settle(&self, inner: &mut Inner, ino: Ino) -> Result<(), Error> {
        if self.options.sync {
            inner.fs()?.fsync(ino)?;
        }
        Ok(())
    }

    /// Takes set-ID bits and capabilities from what is written to, cut or given away: that of the
    /// group where the group may execute it, as `chown(2)` says.
    fn kill_privileges(inner: &mut Inner, ino: Ino, now: Time) -> Result<(), Error> {
        let fs = inner.fs()?;
        let attr = fs.getattr(ino)?;
        if matches!(attr.kind, FileKind::Dir | FileKind::Symlink) {
            return Ok(());
        }
        let set_gid = if attr.mode & GROUP_EXEC != 0 {
            SETGID
        } else {
            0
        };
        let mode = attr.mode & !(SETUID | set_gid);
        if mode != attr.mode {
            let set = SetAttr {
                mode: Some(mode),
                now,
                ..SetAttr::default()
            };
            fs.setattr(ino, &set)?;
        }
        match fs.remove_xattr(ino, CAPABILITIES, now) {
            Ok(()) | Err(Error::NoAttribute | Error::Unsupported) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Notes that an inode was read. What was read is there all the same if that fails, as on a
    /// full volume, or one that can only be read.
    fn accessed(&self, inner: &mut Inner, ino: Ino) {
        if let Err(error @ (Error::Io(_) | Error::Damaged(_))) = self.set_accessed(inner, ino) {
            inner.meet(ACCESS, &error);
        }
    }

    fn set_accessed(&self, inner: &mut Inner, ino: Ino) -> Result<(), Error> {
        const DAY: i64 = 24 * 3600;
        let read_only = self.options.read_only || inner.read_only;
        if read_only || self.options.atime == AccessTimes::Never {
            return Ok(());
        }
        let (fs, now) = (inner.fs()?, Time::now());
        let attr = fs.getattr(ino)?;
        let due = attr.atime <= attr.mtime
            || attr.atime <= attr.ctime
            || attr.atime.secs.saturating_add(DAY) <= now.secs;
        if due || self.options.atime == AccessTimes::Always {
            let set = SetAttr {
                atime: Some(now),
                // It is no change of the inode.
                now: attr.ctime,
                ..SetAttr::default()
            };
            fs.setattr(ino, &set)?;
        }
        Ok(())
    }

    /// Makes a range zero; without `keep_size` the file reaches to its end then.
    fn zero(
        &self,
        req: &Request,
        ino: INodeNo,
        (offset, len): (u64, u64),
        keep_size: bool,
    ) -> Result<(), Errno> {
        let ino = self.inos.ours(ino);
        let kills = self.kills_privileges && req.uid() != 0;
        self.changes(|inner| {
            let (fs, now) = (inner.fs()?, Time::now());
            fs.punch_hole(ino, offset, len, now)?;
            let end = offset.checked_add(len).ok_or(Error::TooBig)?;
            if !keep_size && end > fs.getattr(ino)?.size {
                let set = SetAttr {
                    size: Some(end),
                    now,
                    ..SetAttr::default()
                };
                fs.setattr(ino, &set)?;
            }
            if kills {
                Self::kill_privileges(inner, ino, now)?;
            }
            self.settle(inner, ino)
        })
    }
}

/// Whether extended attributes of such names are kept. Access control lists, which are attributes
/// of the namespace `system`, are not: nobody would heed them.
fn has_namespace(name: &[u8]) -> bool {
    let namespaces = [&b"user."[..], b"trusted.", b"security."];
    namespaces.iter().any(|space| name.starts_with(space))
}

/// Answers with a value or a list; to a request for 0 bytes with its length.
fn reply_xattr(result: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(errno),
    }
}

fn reply_empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Bridge {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The nearest value that the kernel takes is good enough each time.
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.add_capabilities(InitFlags::FUSE_CACHE_SYMLINKS);
        // The kernel need not ask for capabilities before every write.
        self.kills_privileges = config
            .add_capabilities(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
            .is_ok();
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let dir = self.inos.ours(parent);
        let result = self.reads(|inner| {
            let attr = inner.fs()?.lookup(dir, name.as_bytes())?;
            entry(inner, attr)
        });
        if matches!(result, Err(Errno::ENOENT)) {
            reply.entry(
                &self.options.entry_timeout,
                &convert::no_entry(),
                NO_GENERATION,
            );
            return;
        }
        self.reply_entry(result, reply);
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let ino = self.inos.ours(ino);
        let forgotten = self
            .shared
            .serve(Effect::Forgets, |inner| inner.forget(ino, nlookup));
        if forgotten == Ok(true) {
            // What had no name has left work for cleaning.
            self.shared.note_change();
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.reads(|inner| inner.fs()?.getattr(self.inos.ours(ino))) {
            Ok(attr) => reply.attr(&self.attr_ttl(&attr), &self.inos.attr(&attr)),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let clock = Time::now();
        // A kernel may have a time of its own for the change.
        let now = ctime.map_or(clock, |time| {
            convert::time(TimeOrNow::SpecificTime(time), clock)
        });
        let set = SetAttr {
            size,
            mode: mode.map(|m| (m & 0o7777) as u16),
            uid,
            gid,
            atime: atime.map(|t| convert::time(t, clock)),
            mtime: mtime.map(|t| convert::time(t, clock)),
            now,
        };
        let ino = self.inos.ours(ino);
        // Who cuts a file may keep the bits; who gives it away may not.
        let kills = self.kills_privileges
            && mode.is_none()
            && (uid.is_some() || gid.is_some() || size.is_some() && req.uid() != 0);
        let result = self.changes(|inner| {
            let mut attr = inner.fs()?.setattr(ino, &set)?;
            if kills {
                Self::kill_privileges(inner, ino, now)?;
                attr = inner.fs()?.getattr(ino)?;
            }
            self.settle(inner, ino)?;
            Ok(attr)
        });
        match result {
            Ok(attr) => reply.attr(&self.attr_ttl(&attr), &self.inos.attr(&attr)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let ino = self.inos.ours(ino);
        let result = self.reads(|inner| {
            let target = inner.fs()?.readlink(ino)?;
            self.accessed(inner, ino);
            Ok(target)
        });
        match result {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = convert::kind_to_make(mode) else {
            reply.error(Errno::EINVAL);
            return;
        };
        let result = self.create_in(req, parent, mode, |inner, dir, new, _| {
            let (fs, name) = (inner.fs()?, name.as_bytes());
            match kind {
                FileKind::File => fs.create(dir, name, new),
                kind => {
                    let device = if kind.is_device() { rdev } else { 0 };
                    fs.mknod(dir, name, kind, device, new)
                }
            }
        });
        self.reply_entry(result, reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let result = self.create_in(req, parent, mode, |inner, dir, new, inherit| {
            if inherit {
                new.mode |= SETGID;
            }
            inner.fs()?.mkdir(dir, name.as_bytes(), new)
        });
        self.reply_entry(result, reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let result = self.create_in(req, parent, 0o777, |inner, dir, new, _| {
            inner.fs()?.symlink(
                dir,
                link_name.as_bytes(),
                target.as_os_str().as_bytes(),
                new,
            )
        });
        self.reply_entry(result, reply);
    }

    fn link(
        &self,
        _req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (ino, dir) = (self.inos.ours(ino), self.inos.ours(newparent));
        let result = self.changes(|inner| {
            let attr = inner
                .fs()?
                .link(ino, dir, newname.as_bytes(), Time::now())?;
            self.settle(inner, dir)?;
            entry(inner, attr)
        });
        self.reply_entry(result, reply);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = self.inos.ours(parent);
        let result = self.changes(|inner| {
            inner.fs()?.unlink(dir, name.as_bytes(), Time::now())?;
            self.settle(inner, dir)
        });
        reply_empty(result, reply);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = self.inos.ours(parent);
        let result = self.changes(|inner| {
            inner.fs()?.rmdir(dir, name.as_bytes(), Time::now())?;
            self.settle(inner, dir)
        });
        reply_empty(result, reply);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let no_replace = flags.contains(RenameFlags::RENAME_NOREPLACE);
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let known = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
        if !(flags - known).is_empty() || no_replace && exchange {
            reply.error(Errno::EINVAL);
            return;
        }
        let (from, to) = (self.inos.ours(parent), self.inos.ours(newparent));
        let result = self.changes(|inner| {
            let (name, newname, now) = (name.as_bytes(), newname.as_bytes(), Time::now());
            let fs = inner.fs()?;
            if exchange {
                fs.exchange(from, name, to, newname, now)?;
            } else {
                fs.rename(from, name, to, newname, no_replace, now)?;
            }
            self.settle(inner, from)?;
            self.settle(inner, to)
        });
        reply_empty(result, reply);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let opened = Cell::new(None);
        let result = self.create_in(req, parent, mode, |inner, dir, new, _| {
            let attr = inner.fs()?.create(dir, name.as_bytes(), new)?;
            inner.fs()?.open(attr.ino)?;
            opened.set(Some(attr.ino));
            Ok(attr)
        });
        if let (Err(_), Some(ino)) = (&result, opened.get()) {
            // It is there, and not durable. The kernel has opened nothing that it would close.
            let _ = self.settles(|inner| inner.fs()?.release(ino));
        }
        match result {
            Ok((attr, generation)) => {
                let ttl = self.attr_ttl(&attr).min(self.options.entry_timeout);
                reply.created(&ttl, &self.inos.attr(&attr), generation, NO_HANDLE, OPENED);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.reads(|inner| inner.fs()?.open(self.inos.ours(ino))) {
            Ok(()) => reply.opened(NO_HANDLE, OPENED),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(
            self.settles(|inner| inner.fs()?.release(self.inos.ours(ino))),
            reply,
        );
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut reply = Some(reply);
        let result = self.reads(|inner| {
            let (fs, buf) = inner.fs_and_buf()?;
            let size = size as usize;
            if buf.len() < size {
                buf.resize(size, 0);
            }
            let read = fs.read(self.inos.ours(ino), offset, &mut buf[..size])?;
            if let Some(reply) = reply.take() {
                reply.data(&buf[..read]);
            }
            self.accessed(inner, self.inos.ours(ino));
            Ok(())
        });
        if let (Err(errno), Some(reply)) = (result, reply) {
            reply.error(errno);
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ino = self.inos.ours(ino);
        let result = self.changes(|inner| {
            let now = Time::now();
            let fs = inner.fs()?;
            let size = match data.len() > PIECE {
                true => fs.getattr(ino)?.size,
                false => u64::MAX,
            };
            let mut written = data.len();
            match fs.write(ino, offset, data, now) {
                // A file grows page by page: what there was room for is written.
                Err(Error::NoSpace) if data.len() > PIECE => {
                    let grown = fs.getattr(ino)?.size;
                    if grown <= size.max(offset) {
                        return Err(Error::NoSpace);
                    }
                    let there = usize::try_from(grown - offset);
                    written = there.map_or(written, |there| there.min(written));
                }
                done => done?,
            }
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                Self::kill_privileges(inner, ino, now)?;
            }
            self.settle(inner, ino)?;
            Ok(written)
        });
        match result {
            Ok(written) => reply.written(written as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            0 => SetXattr::Any,
            XATTR_CREATE => SetXattr::Create,
            XATTR_REPLACE => SetXattr::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let (ino, name) = (self.inos.ours(ino), name.as_bytes());
        let result = match has_namespace(name) {
            true => self.changes(|inner| {
                let fs = inner.fs()?;
                fs.set_xattr(ino, name, value, how, Time::now())?;
                self.settle(inner, ino)
            }),
            false => Err(Errno::EOPNOTSUPP),
        };
        reply_empty(result, reply);
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes();
        let result = match has_namespace(name) {
            true => self.reads(|inner| inner.fs()?.xattr(self.inos.ours(ino), name)),
            false => Err(Errno::EOPNOTSUPP),
        };
        reply_xattr(result, size, reply);
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.reads(|inner| inner.fs()?.xattrs(self.inos.ours(ino)));
        // As other file systems do: what only root may read only root is told of.
        let shown = |name: &Vec<u8>| req.uid() == 0 || !name.starts_with(b"trusted.");
        let list = names.map(|names| {
            let names = names.into_iter().filter(shown);
            names.flat_map(|name| name.into_iter().chain([0])).collect()
        });
        reply_xattr(list, size, reply);
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (ino, name) = (self.inos.ours(ino), name.as_bytes());
        let result = match has_namespace(name) {
            true => self.changes(|inner| {
                inner.fs()?.remove_xattr(ino, name, Time::now())?;
                self.settle(inner, ino)
            }),
            false => Err(Errno::EOPNOTSUPP),
        };
        reply_empty(result, reply);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Every write has been handed over already; close(2) promises no more than that.
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(
            self.settles(|inner| inner.fs()?.fsync(self.inos.ours(ino))),
            reply,
        );
    }

    /// Punches holes and zeroes ranges. Space cannot be set aside: what is written over needs new
    /// pages whatever was there.
    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & FALLOC_KEEP_SIZE != 0;
        let result = match mode & !FALLOC_KEEP_SIZE {
            FALLOC_PUNCH_HOLE if keep_size => self.zero(req, ino, (offset, length), true),
            FALLOC_ZERO_RANGE => self.zero(req, ino, (offset, length), keep_size),
            _ => Err(Errno::EOPNOTSUPP),
        };
        reply_empty(result, reply);
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let ino = self.inos.ours(ino);
        let result = match (u64::try_from(offset), whence) {
            (Ok(offset), SEEK_DATA) => self.reads(|inner| inner.fs()?.next_data(ino, offset)),
            (Ok(offset), SEEK_HOLE) => self.reads(|inner| inner.fs()?.next_hole(ino, offset)),
            _ => Err(Errno::EINVAL),
        };
        match result {
            Ok(Some(at)) => reply.offset(at.cast_signed()),
            Ok(None) => reply.error(Errno::ENXIO),
            Err(errno) => reply.error(errno),
        }
    }

    fn ioctl(
        &self,
        req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        let result = match cmd {
            gc::FITRIM if !gc::may_ask(req.uid()) => Err(Errno::EPERM),
            gc::FITRIM if self.options.read_only => Err(Errno::EROFS),
            gc::FITRIM => (self.changes(|inner| gc::serve(inner, in_data))).map(Vec::from),
            sync::SYNC => self
                .settles(|inner| inner.fs()?.sync())
                .map(|()| Vec::new()),
            sync::SERVER => Ok(std::process::id().to_ne_bytes().to_vec()),
            _ => Err(Errno::ENOTTY),
        };
        match result {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let dir = self.inos.ours(ino);
        let result = self.reads(|inner| {
            let fs = inner.fs()?;
            let directory = fuser::FileType::Directory;
            if offset < POSITION_DOTDOT && reply.add(ino, POSITION_DOTDOT, directory, ".") {
                return Ok(());
            }
            if offset < POSITION_ENTRIES {
                let parent = self.inos.kernels(fs.parent(dir)?);
                if reply.add(parent, POSITION_ENTRIES, directory, "..") {
                    return Ok(());
                }
            }
            let mut any = false;
            let listed = fs.readdir(dir, offset.saturating_sub(POSITION_ENTRIES), &mut |entry| {
                let next = entry.cookie + POSITION_ENTRIES;
                let name = OsStr::from_bytes(&entry.name);
                let kind = convert::kind(entry.kind);
                let is_full = reply.add(self.inos.kernels(entry.ino), next, kind, name);
                any |= !is_full;
                !is_full
            });
            // What could be read is listed. Who asks for what is behind is told of the rest.
            match listed {
                Err(Error::Damaged(_)) if any => {}
                listed => listed?,
            }
            self.accessed(inner, dir);
            Ok(())
        });
        match result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(
            self.settles(|inner| inner.fs()?.fsync(self.inos.ours(ino))),
            reply,
        );
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.reads(|inner| inner.fs()?.statfs()) {
            Ok(s) => reply.statfs(
                s.blocks,
                s.blocks_free,
                s.blocks_free,
                s.files,
                s.files_free,
                s.block_size,
                s.name_max,
                s.block_size,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn access(&self, _req: &Request, ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel checks permissions itself; what is left to say is whether it exists.
        let result = self.reads(|inner| inner.fs()?.getattr(self.inos.ours(ino)).map(|_| ()));
        reply_empty(result, reply);
    }
}

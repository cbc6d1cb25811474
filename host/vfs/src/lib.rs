//! The one file-system interface of the host side.
//!
//! FUSE mounts, trace replay, the model tests and the power-cut search all drive a
//! [`FileSystem`]; FlashLight and Nano-FS adapt to it. It works on inode numbers, as FUSE does;
//! [`path`] adds paths on top, [`tree`] copies between a file system and a directory of the host.
//! What a file system costs its chip is asked by another trait, [`Measured`]: a mount does without.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`flashlight`] | FlashLight as a [`FileSystem`] |
//! | [`any`] | chips of any sort as one type |
//! | [`nanofs`] | Nano-FS as one |
//! | [`MemoryFs`] | one in RAM: what the others are compared with |
//! | [`path`] | paths over inode numbers |
//! | [`tree`] | copies between a file system and a directory of the host |
//! | [`check`] | walks all structures of a volume: `fsck` |
//! | [`device`] | numbers of devices, as Linux packs them |
//!
//! ```
//! use flashkit_vfs::{FileSystem, MemoryFs, NewInode, Time, path};
//!
//! let mut fs = MemoryFs::new();
//! let now = Time::now();
//! let dir = fs.root();
//! let file = fs.create(dir, b"log", &NewInode::default()).unwrap();
//! fs.write(file.ino, 0, b"up\n", now).unwrap();
//! fs.fsync(file.ino).unwrap();
//! assert_eq!(path::read_file(&mut fs, b"/log").unwrap(), b"up\n");
//! ```

#![forbid(unsafe_code)]

pub mod any;
pub mod check;
pub mod device;
mod error;
pub mod flashlight;
mod measured;
mod memory;
pub mod nanofs;
pub mod path;
pub mod tree;

pub use error::{Error, Result};
pub use flashkit_meter::Counters;
pub use measured::Measured;
pub use memory::MemoryFs;

/// Inode number as `stat` shows it: stable for the life of the object.
pub type Ino = u64;

/// A point in time; nanoseconds are below 1,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since the epoch.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

impl Time {
    /// The machine's clock.
    pub fn now() -> Time {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(d) => Time {
                secs: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
                nanos: d.subsec_nanos(),
            },
            Err(_) => Time::default(),
        }
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Char,
    /// A block device.
    Block,
}

impl FileKind {
    /// The bits of a mode, as `stat` and `mknod` have it, that say what an inode is.
    pub const MODE_MASK: u32 = 0o170_000;

    /// What a mode says that an inode is; `None`: nothing that there is.
    pub fn of_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & FileKind::MODE_MASK {
            0o010_000 => FileKind::Fifo,
            0o020_000 => FileKind::Char,
            0o040_000 => FileKind::Dir,
            0o060_000 => FileKind::Block,
            0o100_000 => FileKind::File,
            0o120_000 => FileKind::Symlink,
            0o140_000 => FileKind::Socket,
            _ => return None,
        })
    }

    /// Whether this is a device, which has a number ([`device`]).
    pub fn is_device(self) -> bool {
        matches!(self, FileKind::Char | FileKind::Block)
    }

    /// Whether this is neither file, directory nor symbolic link: it has no contents.
    pub fn is_special(self) -> bool {
        !matches!(self, FileKind::File | FileKind::Dir | FileKind::Symlink)
    }
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Space taken on flash, in units of 512 bytes.
    pub blocks: u64,
    /// Permission bits (07777).
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device, its number ([`device`]); else 0.
    pub device: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

/// Who creates an inode, and when.
#[derive(Clone, Copy, Debug)]
pub struct NewInode {
    /// Permission bits (07777).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// All three timestamps of the new inode, and mtime and ctime of its directory.
    pub now: Time,
}

impl Default for NewInode {
    fn default() -> Self {
        NewInode {
            mode: 0o644,
            uid: 0,
            gid: 0,
            now: Time::default(),
        }
    }
}

/// Changes to attributes; `None` leaves one alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Truncates or extends (with zeros).
    pub size: Option<u64>,
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
    /// The time of this change: becomes ctime, and mtime when the size changes.
    pub now: Time,
}

/// Whether an extended attribute may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// It may.
    Any,
    /// It must not ([`Error::Exists`]).
    Create,
    /// It must ([`Error::NoAttribute`]).
    Replace,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Inode number of what the name refers to.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// The name; no slash, not empty, never `.` or `..`.
    pub name: Vec<u8>,
    /// Hand this to [`FileSystem::readdir`] to go on after this entry. Never 0.
    pub cookie: u64,
}

/// Space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the next two, in bytes: the page size.
    pub block_size: u32,
    /// Space for user data and metadata together.
    pub blocks: u64,
    /// Of it, free.
    pub blocks_free: u64,
    /// Inodes that can exist.
    pub files: u64,
    /// Of them, free.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// What a step of a patrol has met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patrol {
    /// There is nothing to patrol.
    Nothing,
    /// A page was read.
    Read,
    /// A page was read, and something waits to be written anew.
    Noted,
    /// A page cannot be read, in one line.
    Lost(String),
    /// Everything has been read; the next step begins another round. What is to be said of this
    /// one, if anything.
    Done(Option<String>),
}

/// A mounted file system.
///
/// Names are bytes without `/` and NUL, 1 to 255 long. Operations are durable after
/// [`FileSystem::fsync`] or [`FileSystem::sync`], or as the file system itself says.
pub trait FileSystem {
    /// The root directory's inode number.
    fn root(&self) -> Ino;

    /// Finds a name in a directory.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDir`], [`Error::NameTooLong`].
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr>;

    /// The number of a directory, by its name in another: a step of a path, for which a file
    /// system may need less than for attributes. No inode is known by it that was not.
    ///
    /// # Errors
    /// As [`FileSystem::lookup`]; [`Error::NotDir`].
    fn lookup_dir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        match self.lookup(dir, name)? {
            attr if attr.kind == FileKind::Dir => Ok(attr.ino),
            _ => Err(Error::NotDir),
        }
    }

    /// Attributes of an inode that a lookup or a creation has returned.
    fn getattr(&mut self, ino: Ino) -> Result<Attr>;

    /// Changes attributes and returns the new ones.
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr>;

    /// Creates a regular file.
    ///
    /// # Errors
    /// [`Error::Exists`] when the name is taken.
    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;

    /// Creates a special file; `device` is the number of a device, else 0.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], the default, by a file system that has none;
    /// [`Error::Invalid`] when `kind` is none.
    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        let _ = (dir, name, kind, device, new);
        Err(Error::NotPermitted)
    }

    /// Creates a directory.
    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;

    /// Creates a symbolic link.
    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr>;

    /// The target of a symbolic link.
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>>;

    /// Gives a file or symbolic link one more name: a hard link. Returns its attributes.
    ///
    /// # Errors
    /// [`Error::Exists`] when the name is taken; [`Error::NotPermitted`] for a directory, and by a
    /// file system without hard links; [`Error::NotFound`] for a file that has lost its last name;
    /// [`Error::TooManyLinks`].
    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let _ = (ino, dir, name, now);
        Err(Error::NotPermitted)
    }

    /// Removes a name of a file or symbolic link. When it was the last, what is open
    /// ([`FileSystem::open`]) stays readable and writable until its last release.
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()>;

    /// Renames, atomically replacing what `to` names (a file by a non-directory, an empty
    /// directory by a directory). With `no_replace`, an existing `to` is [`Error::Exists`]. When
    /// both are names of one file, nothing happens, and both stay.
    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        now: Time,
    ) -> Result<()>;

    /// Lets two names change places at once, whatever they are names of. When both are names of one
    /// file, nothing happens.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is a directory that the other is below, and, the default, by a
    /// file system that cannot do it.
    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        let _ = (dir, name, other_dir, other, now);
        Err(Error::Invalid)
    }

    /// Notes one more user of an inode.
    fn open(&mut self, ino: Ino) -> Result<()>;

    /// Notes one user less; an unlinked file goes with its last user.
    fn release(&mut self, ino: Ino) -> Result<()>;

    /// From now on what is stored of files in many pieces is counted, for a caller who shows
    /// [`Attr::blocks`]. That takes reads, once for each. Until then all of their size may count.
    fn count_blocks(&mut self) {}

    /// The caller no longer refers to this inode number (FUSE's forget). It can be looked up
    /// again. Does nothing to the medium.
    fn forget(&mut self, ino: Ino);

    /// Reads; returns fewer bytes than asked only at the end of the file.
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The same for what no program has asked for: it is in no record of what programs do.
    fn read_aside(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read(ino, offset, buf)
    }

    /// Writes all of `data`, extending the file (with zeros, up to `offset`) as needed.
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()>;

    /// Makes a range of a file read as zeros and gives its space back; the size stays, and what
    /// lies beyond it is left alone.
    ///
    /// # Errors
    /// [`Error::Unsupported`], the default.
    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        let _ = (ino, offset, len, now);
        Err(Error::Unsupported)
    }

    /// The first byte from `offset` on that is stored; none when there is none up to the end. What
    /// is not stored reads as zeros. The default knows of no holes.
    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let size = self.getattr(ino)?.size;
        Ok((offset < size).then_some(offset))
    }

    /// The first byte from `offset` on that is not stored, or the end of the
    /// file; none from the end on.
    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        let size = self.getattr(ino)?.size;
        Ok((offset < size).then_some(size))
    }

    /// The value of an extended attribute. Names have their namespace before them (`user.x`); which
    /// may be used is not looked at here.
    ///
    /// # Errors
    /// [`Error::NoAttribute`]; [`Error::Unsupported`], the default, by a file system that has none.
    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (ino, name);
        Err(Error::Unsupported)
    }

    /// The names of all extended attributes, in no order.
    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let _ = ino;
        Ok(Vec::new())
    }

    /// Gives an inode an extended attribute.
    ///
    /// # Errors
    /// As [`SetXattr`] says; [`Error::NoSpace`] also when those of the inode
    /// are too many or too long.
    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        let _ = (ino, name, value, how, now);
        Err(Error::Unsupported)
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// [`Error::NoAttribute`].
    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        let _ = (ino, name, now);
        Err(Error::Unsupported)
    }

    /// Makes a file (data, size and name) or a directory (its entries) durable.
    fn fsync(&mut self, ino: Ino) -> Result<()>;

    /// Calls `each` with the entries after `cookie` (0: from the first) until it returns false.
    /// Entries that stay throughout are seen exactly once, whatever comes and goes meanwhile.
    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()>;

    /// The directory that holds a directory (the root holds itself).
    fn parent(&mut self, dir: Ino) -> Result<Ino>;

    /// Space.
    fn statfs(&mut self) -> Result<StatFs>;

    /// Makes everything durable.
    fn sync(&mut self) -> Result<()>;

    /// Whether the driver of the medium has failed, so that nothing can be changed any more:
    /// [`Error::ReadOnly`] is for that reason then.
    fn has_driver_failed(&self) -> bool {
        false
    }

    /// Whether the next removal of a file is sure to succeed, unless the medium fails in it: it is
    /// not where nothing may be changed, or where room for it may be lacking. `false`, the default:
    /// that is not known.
    fn takes_removals(&self) -> bool {
        false
    }

    /// Cleans in idle time, for at most about `pages` page operations; returns whether more
    /// could be done.
    fn gc(&mut self, pages: u32) -> Result<bool> {
        let _ = pages;
        Ok(false)
    }

    /// Bytes of the medium that are free to be written, or will be without any more cleaning: what
    /// [`FileSystem::gc`] wins adds to them. `None`, the default: that is not known, and nobody can
    /// ask for cleaning. No operation on the medium.
    fn bytes_clean(&self) -> Option<u64> {
        None
    }

    /// Reads on through all that is stored, a page a call, so that what rots is noticed in time.
    /// What is to be written anew [`FileSystem::gc`] does. By default there is nothing that rots.
    fn patrol(&mut self) -> Result<Patrol> {
        Ok(Patrol::Nothing)
    }

    /// Makes everything durable and leaves a cleanly unmounted volume. No other call is allowed
    /// afterwards, but [`Measured::cost`] and [`Measured::erase_counts`].
    fn unmount(&mut self) -> Result<()>;
}

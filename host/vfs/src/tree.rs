//! Whole trees between a file system and a directory of the host.

mod compare;
mod devtable;
mod out;
mod xattr;

pub use compare::{Difference, compare};
pub use devtable::{DevEntry, apply_devtable, read_devtable};
pub use out::copy_out;
pub use xattr::XattrsLeft;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat;
use siphasher::sip::SipHasher13;

use crate::{
    Attr, Error, FileKind, FileSystem, Ino, NewInode, SetAttr, SetXattr, Time, device, path,
};

/// Which permission bits what is copied out has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// Those of the original, set-ID bits as well.
    All,
    /// Those of the original but for set-ID bits.
    NoSetId,
    /// Those of the original that this process' umask leaves to new files; neither set-ID bits nor
    /// the sticky bit.
    Umask,
}

/// A file of the host: device and inode number.
pub type FileId = (u64, u64);

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Bytes in one read or write.
    pub request: usize,
    /// Keep owner and group. When copying out this needs the right to give files away.
    pub owner: bool,
    /// Out: which permission bits.
    pub modes: Modes,
    /// Out: make devices, which needs root. Else they are left out.
    pub devices: bool,
    /// Out: extended attributes that may bear rights, `trusted.` and `security.`, too. Else those
    /// of `user.` alone.
    pub privileged_xattrs: bool,
    /// Files of the host that are neither copied nor replaced: the image itself.
    pub apart: [Option<FileId>; 2],
    /// In: ends the copy once it says so, with an error of the host. What is not whole goes.
    pub stop: Option<fn() -> bool>,
}

impl CopyOptions {
    fn is_apart(&self, meta: &Metadata) -> bool {
        self.apart.contains(&Some(file_id(meta)))
    }
}

/// The file that this is of.
pub fn file_id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

impl Default for CopyOptions {
    fn default() -> Self {
        CopyOptions {
            request: 128 << 10,
            owner: true,
            modes: Modes::NoSetId,
            devices: false,
            privileged_xattrs: false,
            apart: [None; 2],
            stop: None,
        }
    }
}

/// What a copy did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// FIFOs, sockets and devices.
    pub specials: u64,
    /// Further names of what has been counted already: hard links.
    pub links: u64,
    /// Bytes of file contents, holes not counted.
    pub bytes: u64,
    /// What was left out, and why: FIFOs, sockets and devices that may not be made, the image
    /// itself.
    pub skipped: Vec<(PathBuf, &'static str)>,
    /// Out: what of a tree cannot be read, and is not there therefore.
    pub damaged: Vec<(PathBuf, Error)>,
    /// Extended attributes that the other side does not take.
    pub xattrs_left: XattrsLeft,
}

/// What stopped a copy or a comparison, and where.
#[derive(Debug)]
pub enum TreeError {
    /// The file system said no.
    Fs(PathBuf, Error),
    /// The host said no.
    Host(PathBuf, io::Error),
    /// The file system has none of these.
    Without(PathBuf, &'static str),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Fs(at, error) => write!(f, "{}: {error}", at.display()),
            TreeError::Host(at, error) => write!(f, "{}: {error}", at.display()),
            TreeError::Without(at, what) => {
                write!(f, "{}: this file system has no {what}", at.display())
            }
        }
    }
}

// No source: the error is said already.
impl std::error::Error for TreeError {}

/// Attaches the place to an error.
trait At<T> {
    fn at(self, at: &Path) -> Result<T, TreeError>;
}

impl<T> At<T> for crate::Result<T> {
    fn at(self, at: &Path) -> Result<T, TreeError> {
        self.map_err(|error| TreeError::Fs(at.to_owned(), error))
    }
}

impl<T> At<T> for io::Result<T> {
    fn at(self, at: &Path) -> Result<T, TreeError> {
        self.map_err(|error| TreeError::Host(at.to_owned(), error))
    }
}

fn host_path(path: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path))
}

/// How much of what is left goes through a buffer at once.
fn piece(buf: &[u8], left: u64) -> usize {
    usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()))
}

/// The names of a host directory, sorted, so that a copy is the same every time.
fn host_names(dir: &Path) -> Result<Vec<std::ffi::OsString>, TreeError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).at(dir)? {
        names.push(entry.at(dir)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// What is below a host path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTree {
    /// Bytes of regular files, of hard links once: the length of a progress bar for [`copy_in`].
    pub bytes: u64,
    /// Follows from the names, attributes and sizes: from what [`copy_in`] copies, but for the
    /// contents.
    pub digest: u64,
}

/// Looks at all that is below a host path, but for one file.
pub fn host_tree(host: &Path, apart: Option<FileId>) -> Result<HostTree, TreeError> {
    fn below(
        host: &Path,
        apart: Option<FileId>,
        seen: &mut HashSet<FileId>,
        to: &mut SipHasher13,
    ) -> Result<u64, TreeError> {
        let meta = fs::symlink_metadata(host).at(host)?;
        if apart == Some(file_id(&meta)) {
            return Ok(0);
        }
        let owner = (meta.uid(), meta.gid());
        (meta.mode(), owner, meta.mtime(), meta.mtime_nsec()).hash(to);
        let xattrs = xattr::read(host, &mut XattrsLeft::default()).at(host)?;
        if !xattrs.is_empty() {
            xattrs.hash(to);
        }
        if meta.is_dir() {
            let names = host_names(host)?;
            names.len().hash(to);
            return names.iter().try_fold(0, |sum, name| {
                name.hash(to);
                Ok(sum + below(&host.join(name), apart, seen, to)?)
            });
        }
        meta.len().hash(to);
        let first = meta.nlink() == 1 || seen.insert(file_id(&meta));
        Ok(if meta.is_file() && first {
            meta.len()
        } else {
            0
        })
    }
    let mut hasher = SipHasher13::new();
    let bytes = below(host, apart, &mut HashSet::new(), &mut hasher)?;
    Ok(HostTree {
        bytes,
        digest: hasher.finish(),
    })
}

/// Copies a host file to the path `to`, or what a host directory holds into the directory `to`,
/// which is created along with those above it. Modes, mtimes, owners, extended attributes, symbolic
/// and hard links are kept, and holes as the host tells of them. Files in the way are replaced once
/// what replaces them is whole; a file that cannot be copied to its end is not there. Nothing is
/// synced.
///
/// `progress` is called with the bytes copied so far.
pub fn copy_in(
    fs: &mut dyn FileSystem,
    host: &Path,
    to: &[u8],
    options: CopyOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Copied, TreeError> {
    let buf = vec![0; options.request.max(1)];
    let mut copy = CopyIn {
        fs,
        options,
        buf,
        done: Copied::default(),
        linked: HashMap::new(),
        progress,
    };
    let meta = fs::symlink_metadata(host).at(host)?;
    let new = copy.new_inode(&meta);
    if meta.is_dir() {
        let dir = match path::mkdir_p(copy.fs, to, &new) {
            Err(Error::NotPermitted) => {
                return Err(TreeError::Without(host.to_owned(), "directories"));
            }
            made => made.at(host_path(to))?,
        };
        copy.dir(host, dir.ino, &meta)?;
    } else {
        let (dir, name) = path::resolve_parent(copy.fs, to).at(host_path(to))?;
        copy.entry(host, dir, name)?;
    }
    Ok(copy.done)
}

struct CopyIn<'a> {
    fs: &'a mut dyn FileSystem,
    options: CopyOptions,
    buf: Vec<u8>,
    done: Copied,
    /// Files of the host with several names, by device and inode number, that are copied.
    linked: HashMap<FileId, Ino>,
    progress: &'a mut dyn FnMut(u64),
}

impl CopyIn<'_> {
    /// Everything happens at the mtime of the original, which spares setting it afterwards.
    fn new_inode(&self, meta: &Metadata) -> NewInode {
        let (uid, gid) = if self.options.owner {
            (meta.uid(), meta.gid())
        } else {
            (0, 0)
        };
        let nanos = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
        let now = Time {
            secs: meta.mtime(),
            nanos,
        };
        NewInode {
            mode: (meta.mode() & 0o7777) as u16,
            uid,
            gid,
            now,
        }
    }

    /// Attributes of what was there already, or of a directory that its entries have touched.
    fn set_attributes(&mut self, ino: Ino, new: &NewInode) -> crate::Result<Attr> {
        let set = SetAttr {
            mode: Some(new.mode),
            uid: self.options.owner.then_some(new.uid),
            gid: self.options.owner.then_some(new.gid),
            mtime: Some(new.now),
            now: new.now,
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set)
    }

    fn dir(&mut self, host: &Path, dir: Ino, meta: &Metadata) -> Result<(), TreeError> {
        for name in host_names(host)? {
            self.entry(&host.join(&name), dir, name.as_bytes())?;
        }
        let new = self.new_inode(meta);
        self.xattrs(host, dir, new.now)?;
        self.set_attributes(dir, &new).at(host)?;
        self.done.dirs += 1;
        Ok(())
    }

    /// Extended attributes; one that the file system does not take is left out.
    fn xattrs(&mut self, host: &Path, ino: Ino, now: Time) -> Result<(), TreeError> {
        let left = &mut self.done.xattrs_left;
        for (name, value) in xattr::read(host, left).at(host)? {
            match self.fs.set_xattr(ino, &name, &value, SetXattr::Any, now) {
                Err(error) if xattr::is_left(&error) => left.add(host, &name, error),
                set => set.at(host)?,
            }
        }
        Ok(())
    }

    /// Whether to go on.
    fn check(&self, host: &Path) -> Result<(), TreeError> {
        match self.options.stop.is_some_and(|stop| stop()) {
            true => Err(io::Error::from(io::ErrorKind::Interrupted)).at(host),
            false => Ok(()),
        }
    }

    fn entry(&mut self, host: &Path, dir: Ino, name: &[u8]) -> Result<(), TreeError> {
        self.check(host)?;
        let meta = fs::symlink_metadata(host).at(host)?;
        if self.options.is_apart(&meta) {
            self.done.skipped.push((host.to_owned(), ITSELF));
            return Ok(());
        }
        let new = self.new_inode(&meta);
        if meta.is_dir() {
            let made = match self.fs.mkdir(dir, name, &new) {
                Err(Error::Exists) => self.fs.lookup(dir, name).at(host)?,
                Err(Error::NotPermitted) => {
                    return Err(TreeError::Without(host.to_owned(), "directories"));
                }
                made => made.at(host)?,
            };
            if made.kind != FileKind::Dir {
                return Err(TreeError::Fs(host.to_owned(), Error::NotDir));
            }
            self.dir(host, made.ino, &meta)
        } else if meta.is_symlink() || meta.is_file() {
            let id = file_id(&meta);
            if let Some(ino) = self.linked.get(&id).copied() {
                return self.link(host, ino, dir, name, &new);
            }
            let ino = if meta.is_symlink() {
                self.symlink(host, dir, name, &new)?
            } else {
                self.file(host, dir, name, &new)?
            };
            if meta.nlink() > 1 {
                self.linked.insert(id, ino);
            }
            Ok(())
        } else {
            self.special(host, dir, name, &meta, &new)
        }
    }

    /// A FIFO, socket or device; where the file system has none, it is left out.
    fn special(
        &mut self,
        host: &Path,
        dir: Ino,
        name: &[u8],
        meta: &Metadata,
        new: &NewInode,
    ) -> Result<(), TreeError> {
        let id = file_id(meta);
        if let Some(ino) = self.linked.get(&id).copied() {
            return self.link(host, ino, dir, name, new);
        }
        let Some((kind, device)) = special_of(meta) else {
            self.done.skipped.push((host.to_owned(), SPECIAL));
            return Ok(());
        };
        let made = match self.fs.mknod(dir, name, kind, device, new) {
            Err(Error::Exists) => {
                self.fs.unlink(dir, name, new.now).at(host)?;
                self.fs.mknod(dir, name, kind, device, new)
            }
            made => made,
        };
        match made {
            Err(Error::NotPermitted) => self.done.skipped.push((host.to_owned(), SPECIAL)),
            made => {
                let ino = made.at(host)?.ino;
                self.xattrs(host, ino, new.now)?;
                if meta.nlink() > 1 {
                    self.linked.insert(id, ino);
                }
                self.done.specials += 1;
            }
        }
        Ok(())
    }

    fn symlink(
        &mut self,
        host: &Path,
        dir: Ino,
        name: &[u8],
        new: &NewInode,
    ) -> Result<Ino, TreeError> {
        let target = fs::read_link(host).at(host)?.into_os_string().into_vec();
        let made = match self.fs.symlink(dir, name, &target, new) {
            Err(Error::Exists) => {
                self.fs.unlink(dir, name, new.now).at(host)?;
                self.fs.symlink(dir, name, &target, new).at(host)?
            }
            Err(Error::NotPermitted) => {
                return Err(TreeError::Without(host.to_owned(), "symbolic links"));
            }
            made => made.at(host)?,
        };
        self.xattrs(host, made.ino, new.now)?;
        self.done.symlinks += 1;
        Ok(made.ino)
    }

    /// One more name for what has been copied.
    fn link(
        &mut self,
        host: &Path,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        new: &NewInode,
    ) -> Result<(), TreeError> {
        self.done.links += 1;
        match self.fs.lookup(dir, name) {
            Ok(there) if there.ino == ino => return Ok(()),
            Ok(_) => self.fs.unlink(dir, name, new.now).at(host)?,
            Err(Error::NotFound) => {}
            Err(error) => return Err(TreeError::Fs(host.to_owned(), error)),
        }
        self.fs.link(ino, dir, name, new.now).at(host)?;
        Ok(())
    }

    fn file(
        &mut self,
        host: &Path,
        dir: Ino,
        name: &[u8],
        new: &NewInode,
    ) -> Result<Ino, TreeError> {
        let from = File::open(host).at(host)?;
        let replaces = match self.fs.lookup(dir, name) {
            Err(Error::NotFound) => false,
            Ok(old) if old.kind == FileKind::Dir => {
                return Err(TreeError::Fs(host.to_owned(), Error::IsDir));
            }
            found => found.map(|_| true).at(host)?,
        };
        let (made, ino) = if replaces {
            self.create_aside(dir, new).at(host)?
        } else {
            let made = self.fs.create(dir, name, new).at(host)?;
            (name.to_vec(), made.ino)
        };
        let written = self.contents(host, &from, ino, new.now).and_then(|()| {
            self.xattrs(host, ino, new.now)?;
            if replaces {
                let renamed = self.fs.rename(dir, &made, dir, name, false, new.now);
                renamed.at(host)?;
            }
            Ok(())
        });
        if written.is_err() {
            // What stopped it is what is told.
            let _ = self.fs.unlink(dir, &made, new.now);
        }
        written?;
        self.done.files += 1;
        Ok(ino)
    }

    /// A new file under a name that nothing has: what it is to replace stays until it is whole.
    fn create_aside(&mut self, dir: Ino, new: &NewInode) -> crate::Result<(Vec<u8>, Ino)> {
        let mut number = 0_u32;
        loop {
            let name = format!(".flashkit-{number}.part").into_bytes();
            match self.fs.create(dir, &name, new) {
                Err(Error::Exists) => number += 1,
                made => return Ok((name, made?.ino)),
            }
        }
    }

    /// Writes what is stored of a file, and sets its size where it ends in a hole.
    fn contents(&mut self, host: &Path, from: &File, ino: Ino, now: Time) -> Result<(), TreeError> {
        let len = from.metadata().at(host)?.len();
        let (mut offset, mut end) = (0, 0);
        loop {
            if offset == end {
                let Some(data) = next_data(from, offset, len).at(host)? else {
                    break;
                };
                (offset, end) = data;
            }
            let most = piece(&self.buf, end - offset);
            let n = from.read_at(&mut self.buf[..most], offset).at(host)?;
            if n == 0 {
                // Somebody cuts it at this moment.
                return Ok(());
            }
            self.fs.write(ino, offset, &self.buf[..n], now).at(host)?;
            offset += n as u64;
            self.done.bytes += n as u64;
            (self.progress)(self.done.bytes);
            self.check(host)?;
        }
        if offset < len {
            let set = SetAttr {
                size: Some(len),
                mtime: Some(now),
                now,
                ..SetAttr::default()
            };
            self.fs.setattr(ino, &set).at(host)?;
        }
        Ok(())
    }
}

/// The next bytes of a file from an offset on that are stored, up to where the host says that they
/// end; none up to the end of the file. A host that knows of no holes has one piece.
fn next_data(file: &File, offset: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    use nix::errno::Errno;
    use nix::unistd::{Whence, lseek};
    let seek = |offset: u64, whence| {
        let at = i64::try_from(offset).map_err(|_| Errno::EOVERFLOW)?;
        lseek(file, at, whence).map(|at| u64::try_from(at).unwrap_or(0))
    };
    if offset >= len {
        return Ok(None);
    }
    let data = match seek(offset, Whence::SeekData) {
        Ok(data) => data,
        Err(Errno::ENXIO) => return Ok(None),
        Err(_) => return Ok(Some((offset, len))),
    };
    let end = seek(data, Whence::SeekHole).unwrap_or(len).min(len);
    Ok((data < end).then_some((data, end)))
}

/// Why something is left out.
const ITSELF: &str = "the image itself, left out";
const SPECIAL: &str = "special file, left out";

/// The kind of special file that the host has, and the number of a device.
fn special_of(meta: &Metadata) -> Option<(FileKind, u32)> {
    let kind = FileKind::of_mode(meta.mode()).filter(|kind| kind.is_special())?;
    let number = if kind.is_device() {
        let (major, minor) = (stat::major(meta.rdev()), stat::minor(meta.rdev()));
        device::pack(major as u32, minor as u32)
    } else {
        0
    };
    Some((kind, number))
}

//! Whole trees between a file system and a directory of the host.

mod compare;
mod devtable;

pub use compare::{Difference, compare};
pub use devtable::{DevEntry, apply_devtable, read_devtable};

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::stat;
use siphasher::sip::SipHasher13;

use crate::{Attr, Error, FileKind, FileSystem, Ino, NewInode, SetAttr, Time, device, path};

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Bytes in one read or write.
    pub request: usize,
    /// Keep owner and group. When copying out this needs the right to give files away.
    pub owner: bool,
}

impl Default for CopyOptions {
    fn default() -> Self {
        CopyOptions {
            request: 128 << 10,
            owner: true,
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
    /// Bytes of file contents.
    pub bytes: u64,
    /// FIFOs, sockets and devices that could not be made, and were left out.
    pub skipped: Vec<PathBuf>,
}

/// What stopped a copy or a comparison, and where.
#[derive(Debug)]
pub enum TreeError {
    /// The file system said no.
    Fs(PathBuf, Error),
    /// The host said no.
    Host(PathBuf, io::Error),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeError::Fs(at, error) => write!(f, "{}: {error}", at.display()),
            TreeError::Host(at, error) => write!(f, "{}: {error}", at.display()),
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

/// Looks at all that is below a host path.
pub fn host_tree(host: &Path) -> Result<HostTree, TreeError> {
    fn below(
        host: &Path,
        seen: &mut HashSet<(u64, u64)>,
        to: &mut SipHasher13,
    ) -> Result<u64, TreeError> {
        let meta = fs::symlink_metadata(host).at(host)?;
        let owner = (meta.uid(), meta.gid());
        (meta.mode(), owner, meta.mtime(), meta.mtime_nsec()).hash(to);
        if meta.is_dir() {
            let names = host_names(host)?;
            names.len().hash(to);
            return names.iter().try_fold(0, |sum, name| {
                name.hash(to);
                Ok(sum + below(&host.join(name), seen, to)?)
            });
        }
        meta.len().hash(to);
        let first = meta.nlink() == 1 || seen.insert((meta.dev(), meta.ino()));
        Ok(if meta.is_file() && first {
            meta.len()
        } else {
            0
        })
    }
    let mut hasher = SipHasher13::new();
    let bytes = below(host, &mut HashSet::new(), &mut hasher)?;
    Ok(HostTree {
        bytes,
        digest: hasher.finish(),
    })
}

/// Copies a host file to the path `to`, or what a host directory holds into the directory `to`,
/// which is created along with those above it. Modes, mtimes, owners, symbolic and hard links are
/// kept. Files in the way are overwritten, or removed if they have other names. Nothing is synced.
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
        let dir = path::mkdir_p(copy.fs, to, &new).at(host_path(to))?.ino;
        copy.dir(host, dir, &meta)?;
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
    linked: HashMap<(u64, u64), Ino>,
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
        self.set_attributes(dir, &new).at(host)?;
        self.done.dirs += 1;
        Ok(())
    }

    fn entry(&mut self, host: &Path, dir: Ino, name: &[u8]) -> Result<(), TreeError> {
        let meta = fs::symlink_metadata(host).at(host)?;
        let new = self.new_inode(&meta);
        if meta.is_dir() {
            let made = match self.fs.mkdir(dir, name, &new) {
                Err(Error::Exists) => self.fs.lookup(dir, name).at(host)?,
                made => made.at(host)?,
            };
            if made.kind != FileKind::Dir {
                return Err(TreeError::Fs(host.to_owned(), Error::NotDir));
            }
            self.dir(host, made.ino, &meta)
        } else if meta.is_symlink() || meta.is_file() {
            let id = (meta.dev(), meta.ino());
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
        let id = (meta.dev(), meta.ino());
        if let Some(ino) = self.linked.get(&id).copied() {
            return self.link(host, ino, dir, name, new);
        }
        let Some((kind, device)) = special_of(meta) else {
            self.done.skipped.push(host.to_owned());
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
            Err(Error::NotPermitted) => self.done.skipped.push(host.to_owned()),
            made => {
                let ino = made.at(host)?.ino;
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
            made => made.at(host)?,
        };
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
        let mut from = File::open(host).at(host)?;
        let existed = match self.fs.lookup(dir, name) {
            Err(Error::NotFound) => false,
            // What is written must not show under other names.
            Ok(old)
                if old.kind == FileKind::Symlink
                    || old.kind.is_special()
                    || old.kind == FileKind::File && old.nlink > 1 =>
            {
                self.fs.unlink(dir, name, new.now).at(host)?;
                false
            }
            found => found.map(|_| true).at(host)?,
        };
        let ino = path::create_or_truncate(self.fs, dir, name, new)
            .at(host)?
            .ino;
        let mut offset = 0;
        loop {
            let n = read_full(&mut from, &mut self.buf).at(host)?;
            if n > 0 {
                self.fs
                    .write(ino, offset, &self.buf[..n], new.now)
                    .at(host)?;
                offset += n as u64;
                self.done.bytes += n as u64;
                (self.progress)(self.done.bytes);
            }
            if n < self.buf.len() {
                break;
            }
        }
        if existed {
            self.set_attributes(ino, new).at(host)?;
        }
        self.done.files += 1;
        Ok(ino)
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(from: &mut File, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match from.read(&mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Copies the file `from` to the host path, or what the directory `from` holds into the host
/// directory, which is created if absent. Modes, symbolic and hard links and the mtimes of files
/// and directories are kept. Files in the way are replaced; symbolic links in the way are never
/// written through. Where the host has no hard links, the file is copied again.
///
/// `progress` is called with the bytes copied so far.
pub fn copy_out(
    fs: &mut dyn FileSystem,
    from: &[u8],
    host: &Path,
    options: CopyOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Copied, TreeError> {
    let attr = path::resolve(fs, from).at(host_path(from))?;
    let buf = vec![0; options.request.max(1)];
    let mut copy = CopyOut {
        fs,
        options,
        buf,
        done: Copied::default(),
        linked: HashMap::new(),
        progress,
    };
    copy.inode(&attr, host)?;
    Ok(copy.done)
}

struct CopyOut<'a> {
    fs: &'a mut dyn FileSystem,
    options: CopyOptions,
    buf: Vec<u8>,
    done: Copied,
    /// Where files with several names are on the host.
    linked: HashMap<Ino, PathBuf>,
    progress: &'a mut dyn FnMut(u64),
}

impl CopyOut<'_> {
    fn inode(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        let there = fs::symlink_metadata(host).ok();
        if attr.kind == FileKind::Dir {
            if !there.is_some_and(|meta| meta.is_dir()) {
                fs::create_dir(host).at(host)?;
            }
            return self.dir(attr, host);
        }
        if there.is_some_and(|meta| !meta.is_dir()) {
            fs::remove_file(host).at(host)?;
        }
        if let Some(first) = self.linked.get(&attr.ino)
            && fs::hard_link(first, host).is_ok()
        {
            self.done.links += 1;
            return Ok(());
        }
        if attr.nlink > 1 {
            self.linked.insert(attr.ino, host.to_owned());
        }
        if attr.kind == FileKind::Symlink {
            let target = self.fs.readlink(attr.ino).at(host)?;
            std::os::unix::fs::symlink(host_path(&target), host).at(host)?;
            if self.options.owner {
                std::os::unix::fs::lchown(host, Some(attr.uid), Some(attr.gid)).at(host)?;
            }
            self.done.symlinks += 1;
            return Ok(());
        }
        if attr.kind.is_special() {
            return self.special(attr, host);
        }
        self.file(attr, host)
    }

    fn dir(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        for entry in path::list(self.fs, attr.ino).at(host)? {
            // The names come from a medium: none may lead out of the directory.
            let name = host_path(&entry.name);
            if entry.name.contains(&0) || name.file_name() != Some(name.as_os_str()) {
                let error = Error::Io("a name that is no name".into());
                return Err(TreeError::Fs(
                    host.join(name.file_name().unwrap_or_default()),
                    error,
                ));
            }
            let below = host.join(name);
            let attr = self.fs.lookup(attr.ino, &entry.name).at(&below)?;
            self.inode(&attr, &below)?;
        }
        let dir = File::open(host).at(host)?;
        self.finish(attr, &dir).at(host)?;
        self.done.dirs += 1;
        Ok(())
    }

    /// A FIFO, socket or device; left out where this user may not make it.
    fn special(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        use stat::{Mode, SFlag};
        let kind = match attr.kind {
            FileKind::Fifo => SFlag::S_IFIFO,
            FileKind::Socket => SFlag::S_IFSOCK,
            FileKind::Char => SFlag::S_IFCHR,
            _ => SFlag::S_IFBLK,
        };
        let mode = Mode::from_bits_truncate(u32::from(attr.mode));
        let (major, minor) = device::unpack(attr.device);
        let device = stat::makedev(major.into(), minor.into());
        match stat::mknod(host, kind, mode, device) {
            Err(nix::errno::Errno::EPERM) => {
                self.done.skipped.push(host.to_owned());
                return Ok(());
            }
            made => made.map_err(io::Error::from).at(host)?,
        }
        if self.options.owner {
            std::os::unix::fs::lchown(host, Some(attr.uid), Some(attr.gid)).at(host)?;
        }
        // Not through a descriptor: to open a FIFO is to wait for its other end.
        fs::set_permissions(host, Permissions::from_mode(u32::from(attr.mode))).at(host)?;
        self.done.specials += 1;
        Ok(())
    }

    fn file(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        let mut to = File::create_new(host).at(host)?;
        let mut offset = 0;
        while offset < attr.size {
            let n = self.fs.read(attr.ino, offset, &mut self.buf).at(host)?;
            if n == 0 {
                break;
            }
            to.write_all(&self.buf[..n]).at(host)?;
            offset += n as u64;
            self.done.bytes += n as u64;
            (self.progress)(self.done.bytes);
        }
        self.finish(attr, &to).at(host)?;
        self.done.files += 1;
        Ok(())
    }

    /// Owner, mode and mtime, in the order in which none undoes another.
    fn finish(&self, attr: &Attr, file: &File) -> io::Result<()> {
        if self.options.owner {
            std::os::unix::fs::fchown(file, Some(attr.uid), Some(attr.gid))?;
        }
        file.set_permissions(Permissions::from_mode(u32::from(attr.mode)))?;
        match system_time(attr.mtime) {
            Some(mtime) => file.set_modified(mtime),
            None => Ok(()),
        }
    }
}

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

fn system_time(time: Time) -> Option<SystemTime> {
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    let base = if time.secs < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(secs)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(secs)
    };
    base?.checked_add(Duration::from_nanos(u64::from(time.nanos)))
}

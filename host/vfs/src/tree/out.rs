//! From a file system to the host.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown,
    lchown, symlink,
};
use std::path::{Path, PathBuf};

use nix::sys::stat;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::{At, Copied, CopyOptions, Modes, TreeError, host_path, piece, xattr};
use crate::{Attr, Error, FileKind, FileSystem, Ino, device, path};

const SET_ID: u32 = 0o6000;
const PERMISSIONS: u32 = 0o777;
const OWNER_WRITES: u32 = 0o200;
/// Of what is being made.
const PRIVATE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// Copies the file `from` to the host path, or what the directory `from` holds into the host
/// directory, which is created if absent. Symbolic and hard links, holes, mtimes and extended
/// attributes of `user.` are kept; owners, modes, devices and other attributes as the options
/// say. Nobody may open a file or directory meanwhile who may not in the end. A directory that
/// was there keeps its attributes. Files in the way are replaced, but devices and what is locked,
/// as an image in use is. Symbolic links in the way are never written through. Where the host has
/// no hard links, the file is copied again. What cannot be read below `from` is passed over and
/// told; of a file nothing is there then. Nothing is synced.
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
        dirs: HashSet::new(),
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
    /// Directories that have been begun.
    dirs: HashSet<Ino>,
    progress: &'a mut dyn FnMut(u64),
}

impl CopyOut<'_> {
    fn inode(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        let there = fs::symlink_metadata(host).ok();
        if attr.kind == FileKind::Dir {
            return self.dir(attr, host, there.is_some_and(|meta| meta.is_dir()));
        }
        if attr.kind.is_device() && !self.options.devices {
            self.done
                .skipped
                .push((host.to_owned(), "a device, left out"));
            return Ok(());
        }
        if let Some(meta) = there.filter(|meta| !meta.is_dir()) {
            self.check_replaceable(host, &meta).at(host)?;
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
            symlink(host_path(&target), host).at(host)?;
            if self.options.owner {
                lchown(host, Some(attr.uid), Some(attr.gid)).at(host)?;
            }
            self.xattrs(attr, host)?;
            touch(attr, host).at(host)?;
            self.done.symlinks += 1;
            return Ok(());
        }
        if attr.kind.is_special() {
            return self.special(attr, host);
        }
        self.file(attr, host)
    }

    /// Refuses to take away a device, the image that is read, and what another program has locked.
    fn check_replaceable(&self, host: &Path, meta: &Metadata) -> io::Result<()> {
        let kind = meta.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return Err(io::Error::other("a device is in the way"));
        }
        if self.options.is_apart(meta) {
            return Err(io::Error::other("the image itself is in the way"));
        }
        // What may not be opened may still be replaced; a lock cannot be looked at then.
        if meta.is_file()
            && let Ok(file) = File::open(host)
            && let Err(TryLockError::WouldBlock) = file.try_lock()
        {
            return Err(io::Error::other("a file that is in use is in the way"));
        }
        Ok(())
    }

    fn dir(&mut self, attr: &Attr, host: &Path, existed: bool) -> Result<(), TreeError> {
        // A volume may have been made to deceive: each has one place, and none is in itself.
        if !self.dirs.insert(attr.ino) {
            return Err(TreeError::Fs(host.to_owned(), path::seen_before()));
        }
        // Which of the bits this process leaves to new directories is seen in one.
        let mut mode = self.mode(attr);
        if !existed {
            let umask = self.options.modes == Modes::Umask;
            let at_first = if umask {
                mode | PRIVATE_DIR
            } else {
                PRIVATE_DIR
            };
            DirBuilder::new().mode(at_first).create(host).at(host)?;
            if umask {
                mode &= fs::symlink_metadata(host).at(host)?.mode();
            }
        }
        let (entries, listed) = path::list_readable(self.fs, attr.ino);
        if let Err(error) = listed {
            self.done.damaged.push((host.to_owned(), error));
        }
        for entry in entries {
            // The names come from a medium: none may lead out of the directory.
            let name = host_path(&entry.name);
            if entry.name.contains(&0) || name.file_name() != Some(name.as_os_str()) {
                let error = Error::Io("a name that is no name".into());
                let shown = host.join(name.file_name().unwrap_or_default());
                self.done.damaged.push((shown, error));
                continue;
            }
            let below = host.join(name);
            let found = self.fs.lookup(attr.ino, &entry.name).at(&below);
            match found.and_then(|attr| self.inode(&attr, &below)) {
                // The others may be whole.
                Err(TreeError::Fs(at, error)) => self.done.damaged.push((at, error)),
                done => done?,
            }
        }
        if !existed {
            let dir = File::open(host).at(host)?;
            self.finish(attr, host, &dir, Some(mode))?;
        }
        self.done.dirs += 1;
        Ok(())
    }

    /// The bits of the mode that are asked for, before the umask.
    fn mode(&self, attr: &Attr) -> u32 {
        let mode = u32::from(attr.mode);
        match self.options.modes {
            Modes::All => mode,
            Modes::NoSetId => mode & !SET_ID,
            Modes::Umask => mode & PERMISSIONS,
        }
    }

    /// The mode to make something with, and the one to give it in the end: the host has applied the
    /// umask to the first.
    fn modes(&self, attr: &Attr) -> (u32, Option<u32>) {
        match self.options.modes {
            Modes::Umask => (self.mode(attr), None),
            Modes::All | Modes::NoSetId => (PRIVATE, Some(self.mode(attr))),
        }
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
        let (at_first, at_last) = self.modes(attr);
        let (major, minor) = device::unpack(attr.device);
        let device = stat::makedev(major.into(), minor.into());
        match stat::mknod(host, kind, Mode::from_bits_truncate(at_first), device) {
            Err(nix::errno::Errno::EPERM) => {
                self.done.skipped.push((host.to_owned(), super::SPECIAL));
                return Ok(());
            }
            made => made.map_err(io::Error::from).at(host)?,
        }
        if self.options.owner {
            lchown(host, Some(attr.uid), Some(attr.gid)).at(host)?;
        }
        self.xattrs(attr, host)?;
        // Not through a descriptor: to open a FIFO is to wait for its other end.
        if let Some(mode) = at_last {
            fs::set_permissions(host, Permissions::from_mode(mode)).at(host)?;
        }
        touch(attr, host).at(host)?;
        self.done.specials += 1;
        Ok(())
    }

    fn file(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        let (at_first, at_last) = self.modes(attr);
        let mut how = OpenOptions::new();
        let how = how.write(true).create_new(true).mode(at_first);
        let to = how.open(host).at(host)?;
        let copied = self.contents(attr, host, &to);
        let copied = copied.and_then(|()| self.finish(attr, host, &to, at_last));
        if copied.is_err() {
            // What stopped it is what is told. Who comes to it by another name begins anew.
            let _ = fs::remove_file(host);
            self.linked.remove(&attr.ino);
        }
        copied?;
        self.done.files += 1;
        Ok(())
    }

    /// Writes what is stored, and sets the size.
    fn contents(&mut self, attr: &Attr, host: &Path, to: &File) -> Result<(), TreeError> {
        let mut offset = 0;
        while let Some(data) = self.fs.next_data(attr.ino, offset).at(host)? {
            let end = self.fs.next_hole(attr.ino, data).at(host)?;
            let end = end.unwrap_or(attr.size).min(attr.size);
            offset = data;
            while offset < end {
                let most = piece(&self.buf, end - offset);
                let n = self
                    .fs
                    .read(attr.ino, offset, &mut self.buf[..most])
                    .at(host)?;
                if n == 0 {
                    break;
                }
                to.write_all_at(&self.buf[..n], offset).at(host)?;
                offset += n as u64;
                self.done.bytes += n as u64;
                (self.progress)(self.done.bytes);
            }
            if offset < end || end <= data {
                break;
            }
        }
        // What is left is a hole.
        to.set_len(attr.size).at(host)
    }

    /// Owner, extended attributes, mode and mtime, in the order in which none undoes another.
    fn finish(
        &mut self,
        attr: &Attr,
        host: &Path,
        file: &File,
        mode: Option<u32>,
    ) -> Result<(), TreeError> {
        if self.options.owner {
            fchown(file, Some(attr.uid), Some(attr.gid)).at(host)?;
        }
        let now = file.metadata().at(host)?.permissions();
        // Who may not write to a file may not give it attributes.
        let closed = now.mode() & OWNER_WRITES == 0;
        if closed {
            let open = Permissions::from_mode(now.mode() | OWNER_WRITES);
            file.set_permissions(open).at(host)?;
        }
        self.xattrs(attr, host)?;
        match mode {
            Some(mode) => file.set_permissions(Permissions::from_mode(mode)),
            None if closed => file.set_permissions(now),
            None => Ok(()),
        }
        .at(host)?;
        touch(attr, host).at(host)
    }

    /// Extended attributes; one that the host does not take is left out.
    fn xattrs(&mut self, attr: &Attr, host: &Path) -> Result<(), TreeError> {
        let mut found = Vec::new();
        for name in self.fs.xattrs(attr.ino).at(host)? {
            let value = self.fs.xattr(attr.ino, &name).at(host)?;
            found.push((name, value));
        }
        let rights = self.options.privileged_xattrs;
        xattr::write(host, &found, rights, &mut self.done.xattrs_left);
        Ok(())
    }
}

/// Gives what is at a place of the host the mtime of the original, a symbolic link its own.
fn touch(attr: &Attr, host: &Path) -> io::Result<()> {
    let mtime = Timespec {
        tv_sec: attr.mtime.secs,
        // A volume may say anything, and larger numbers have meanings of their own.
        tv_nsec: attr.mtime.nanos.min(999_999_999).into(),
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: mtime,
    };
    Ok(utimensat(CWD, host, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

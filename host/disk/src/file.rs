//! A disk as a file system with one file, `disk`, for FUSE.

use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Result, SetAttr, StatFs,
    Time,
};

use crate::Disk;

const ROOT: Ino = 1;
const DISK: Ino = 2;
/// The file's name.
const NAME: &[u8] = b"disk";

/// The file system.
pub struct DiskFs<D> {
    disk: D,
    read_only: bool,
    since: Time,
}

impl<D: Disk> DiskFs<D> {
    /// Shows a disk as a file. Read-only, it cannot be written.
    pub fn new(disk: D, read_only: bool) -> DiskFs<D> {
        DiskFs {
            disk,
            read_only,
            since: Time::now(),
        }
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        let (kind, size, mode, nlink) = match ino {
            ROOT => (FileKind::Dir, 0, 0o555, 2),
            DISK if self.read_only => (FileKind::File, self.disk.size(), 0o400, 1),
            DISK => (FileKind::File, self.disk.size(), 0o600, 1),
            _ => return Err(Error::NotFound),
        };
        Ok(Attr {
            ino,
            kind,
            size,
            blocks: size.div_ceil(512),
            mode,
            nlink,
            uid: 0,
            gid: 0,
            device: 0,
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
        })
    }

    fn change(&mut self, ino: Ino) -> Result<&mut D> {
        match ino {
            DISK if self.read_only => Err(Error::ReadOnly),
            DISK => Ok(&mut self.disk),
            _ => Err(Error::IsDir),
        }
    }
}

/// What a disk has cost, [`Disk::summary`] says.
impl<D: Disk> Measured for DiskFs<D> {}

impl<D: Disk> FileSystem for DiskFs<D> {
    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        match (dir, name) {
            (ROOT, NAME) => self.attr(DISK),
            (ROOT, _) => Err(Error::NotFound),
            _ => Err(Error::NotDir),
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.attr(ino)
    }

    /// Times and modes stay as they are; so does the size, but asking for just that is no error.
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        if ino == DISK && set.size.is_some_and(|size| size != self.disk.size()) {
            return Err(Error::Unsupported);
        }
        self.attr(ino)
    }

    fn create(&mut self, _dir: Ino, name: &[u8], _new: &NewInode) -> Result<Attr> {
        Err(if name == NAME {
            Error::Exists
        } else {
            Error::NotPermitted
        })
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.create(dir, name, new)
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], _target: &[u8], new: &NewInode) -> Result<Attr> {
        self.create(dir, name, new)
    }

    fn readlink(&mut self, _ino: Ino) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }

    fn unlink(&mut self, _dir: Ino, _name: &[u8], _now: Time) -> Result<()> {
        Err(Error::NotPermitted)
    }

    fn rmdir(&mut self, _dir: Ino, _name: &[u8], _now: Time) -> Result<()> {
        Err(Error::NotPermitted)
    }

    fn rename(
        &mut self,
        _from_dir: Ino,
        _from: &[u8],
        _to_dir: Ino,
        _to: &[u8],
        _no_replace: bool,
        _now: Time,
    ) -> Result<()> {
        Err(Error::NotPermitted)
    }

    fn open(&mut self, _ino: Ino) -> Result<()> {
        Ok(())
    }

    fn release(&mut self, _ino: Ino) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, _ino: Ino) {}

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if ino != DISK {
            return Err(Error::IsDir);
        }
        let len = self
            .disk
            .size()
            .saturating_sub(offset)
            .min(buf.len() as u64) as usize;
        self.disk
            .read(offset.min(self.disk.size()), &mut buf[..len])
            .map_err(Error::Io)?;
        Ok(len)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], _now: Time) -> Result<()> {
        let disk = self.change(ino)?;
        if offset.saturating_add(data.len() as u64) > disk.size() {
            return Err(Error::NoSpace);
        }
        disk.write(offset, data).map_err(Error::Io)
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, _now: Time) -> Result<()> {
        let disk = self.change(ino)?;
        let len = len.min(disk.size().saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        disk.zero(offset, len).map_err(Error::Io)
    }

    fn fsync(&mut self, _ino: Ino) -> Result<()> {
        self.sync()
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        if dir != ROOT {
            return Err(Error::NotDir);
        }
        if cookie == 0 {
            each(DirEntry {
                ino: DISK,
                kind: FileKind::File,
                name: NAME.to_vec(),
                cookie: 1,
            });
        }
        Ok(())
    }

    fn parent(&mut self, _dir: Ino) -> Result<Ino> {
        Ok(ROOT)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let block_size = self.disk.block_size();
        Ok(StatFs {
            block_size,
            blocks: self.disk.size() / u64::from(block_size),
            blocks_free: 0,
            files: 1,
            files_free: 0,
            name_max: 255,
        })
    }

    fn sync(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.disk.flush().map_err(Error::Io)
    }

    fn gc(&mut self, _pages: u32) -> Result<bool> {
        self.disk.background().map_err(Error::Io)
    }

    fn unmount(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.disk.close().map_err(Error::Io)
    }
}

//! A disk as a file system with one file, `disk`, for FUSE.
//!
//! A program that keeps a journal on the disk tells of a transaction by one `setxattr` of the file:
//! the kernel hands the value over whole, at once and past its cache, and the call fails with what
//! went wrong. What the homes held may still be in the cache of the file: who remaps goes past that
//! with `O_DIRECT`.

use std::os::unix::fs::MetadataExt;

use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result, SetAttr,
    SetXattr, StatFs, Time,
};

use crate::{Disk, Remapped};

const ROOT: Ino = 1;
const DISK: Ino = 2;
/// The file's name.
const NAME: &[u8] = b"disk";
/// The extended attribute that takes the entries of a transaction, as [`Disk::remap`] does.
const REMAP: &[u8] = b"user.flashkit.remap";

/// The file system.
pub struct DiskFs<D> {
    disk: D,
    read_only: bool,
    /// Whoever serves it: others may not use it, as they may not use the image.
    owner: (u32, u32),
    since: Time,
    /// The block that the patrol has read last; behind the blocks, pages that the device keeps for
    /// itself.
    patrol_at: u64,
}

impl<D: Disk> DiskFs<D> {
    /// Shows a disk as a file. Read-only, it cannot be written.
    pub fn new(disk: D, read_only: bool) -> DiskFs<D> {
        let blocks = disk.size() / u64::from(disk.block_size());
        let process = std::fs::metadata("/proc/self");
        DiskFs {
            disk,
            read_only,
            owner: process.map_or((0, 0), |own| (own.uid(), own.gid())),
            since: Time::now(),
            // Nothing keeps the place over an unmount: from somewhere else each time.
            patrol_at: u64::from(Time::now().nanos) % blocks.max(1),
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
            uid: self.owner.0,
            gid: self.owner.1,
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

    /// Nothing is stored: the value is a transaction, which is carried out.
    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        _how: SetXattr,
        _now: Time,
    ) -> Result<()> {
        if (ino, name) != (DISK, REMAP) {
            return Err(Error::Unsupported);
        }
        match self.change(ino)?.remap(value) {
            Ok(Remapped::Done) => Ok(()),
            Ok(Remapped::Unable) => Err(Error::Unsupported),
            Ok(Remapped::Refused(_)) => Err(Error::Invalid),
            Err(why) => Err(Error::Io(why)),
        }
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

    /// Reads a block: the device below notes what had to be corrected.
    fn patrol(&mut self) -> Result<Patrol> {
        let size = u64::from(self.disk.block_size());
        let blocks = self.disk.size() / size;
        self.patrol_at += 1;
        if let Some(own) = self.patrol_at.checked_sub(blocks) {
            match self.disk.patrol(u32::try_from(own).unwrap_or(u32::MAX)) {
                Ok(true) => return Ok(Patrol::Noted),
                Ok(false) => self.patrol_at = 0,
                Err(why) => return Ok(Patrol::Lost(why)),
            }
        }
        let mut block = vec![0; size as usize];
        Ok(match self.disk.read(self.patrol_at * size, &mut block) {
            Ok(()) if self.patrol_at == 0 => Patrol::Done(None),
            Ok(()) => Patrol::Noted,
            Err(why) => Patrol::Lost(format!(
                "bytes {} to {} of the disk: {why}",
                self.patrol_at * size,
                (self.patrol_at + 1) * size - 1
            )),
        })
    }

    fn unmount(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.disk.close().map_err(Error::Io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnNand, Sectors};
    use flashkit_nand::Geometry;
    use flashkit_sim::{ChipSpec, Faults, SimNand, Timing};

    /// Flash time that an image of a chip is looked at for: it is short, as time here passes by
    /// what is read.
    const LIFE_NS: u64 = 16_000_000_000;

    /// A disk, a third of it written, on a chip that loses a page within 3.6 s unless it is written
    /// anew.
    fn decaying() -> DiskFs<Sectors<OnNand>> {
        let timing = Timing {
            read_ns: 77_800,
            program_ns: 252_800,
            erase_ns: 1_500_000,
        };
        let geometry = Geometry::new(2048, 64, 32, 64).unwrap();
        let mut chip = SimNand::new(ChipSpec::new(geometry, timing));
        chip.set_faults(Faults {
            ecc: 8,
            retention_ns: 400_000_000,
            ..Faults::default()
        })
        .unwrap();
        let mut ram =
            vec![0; flashkit_jftl::ram_bytes(&geometry, flashkit_jftl::MapCache::Whole).unwrap()];
        flashkit_jftl::Jftl::format(&mut chip, &mut ram, 1).unwrap();
        let mut disk = Sectors::new(OnNand::mount(chip, false, |_| (), |_| String::new()).unwrap());
        for n in 0..600 {
            disk.write(n * 2048, &[n as u8; 2048]).unwrap();
        }
        disk.flush().unwrap();
        DiskFs::new(disk, false)
    }

    fn lost(fs: &mut DiskFs<Sectors<OnNand>>) -> usize {
        let mut block = [0; 2048];
        (0..600)
            .filter(|n| {
                let read = fs.disk.read(n * 2048, &mut block);
                read.is_err() || block != [*n as u8; 2048]
            })
            .count()
    }

    /// Else who is not root has no use of the disk that he has attached.
    #[test]
    fn a_disk_is_of_whoever_serves_it() {
        let own = tempfile::tempfile().unwrap().metadata().unwrap();
        let disk = decaying().getattr(DISK).unwrap();
        assert_eq!((disk.uid, disk.gid), (own.uid(), own.gid()));
    }

    #[test]
    fn a_disk_that_is_patrolled_loses_nothing() {
        let mut fs = decaying();
        let (mut rounds, mut steps) = (0, 0);
        while fs.disk.flash_ns() < LIFE_NS {
            steps += 1;
            match fs.patrol().unwrap() {
                Patrol::Done(None) => rounds += 1,
                Patrol::Noted => while fs.gc(16).unwrap() {},
                met => panic!("{met:?}"),
            }
        }
        let blocks = fs.statfs().unwrap().blocks;
        assert!(
            rounds > 5 && steps / rounds <= 2 * blocks,
            "{rounds}, {steps}"
        );
        assert_eq!(lost(&mut fs), 0);
    }

    /// After an orderly end, and a start at which nothing is written. Nobody reads the log and the
    /// anchors but a mount: they are patrolled as well, or the next one would find no disk.
    #[test]
    fn a_disk_that_is_patrolled_and_not_written_mounts_again() {
        let mut disk = decaying().disk;
        disk.close().unwrap();
        let mount = |chip| OnNand::mount(chip, false, |_| (), |_| String::new());
        let chip = disk.into_device().into_chip();
        let mut fs = DiskFs::new(Sectors::new(mount(chip).unwrap()), false);
        while fs.disk.flash_ns() < 2 * LIFE_NS {
            match fs.patrol().unwrap() {
                Patrol::Noted => while fs.gc(16).unwrap() {},
                Patrol::Done(None) => {}
                met => panic!("{met:?}"),
            }
        }
        let chip = fs.disk.into_device().into_chip();
        let again = mount(chip).unwrap();
        assert_eq!(again.disk().damage(), None);
        assert_eq!(lost(&mut DiskFs::new(Sectors::new(again), false)), 0);
    }

    #[test]
    fn a_disk_that_is_not_patrolled_loses_what_nobody_reads() {
        let mut fs = decaying();
        let mut block = [0; 2048];
        for n in 0.. {
            if fs.disk.flash_ns() > LIFE_NS {
                break;
            }
            // Two in turn: of the last one that was read, a copy may be in RAM.
            let _ = fs.disk.read(n % 2 * 2048, &mut block);
            while fs.gc(16).unwrap() {}
        }
        assert!(lost(&mut fs) > 500);
    }
}

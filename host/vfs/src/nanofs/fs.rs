//! Nano-FS as a [`FileSystem`]: one directory of files.
//!
//! What Nano-FS does not store is made up: times are 0, the mode is 0644, the owner is who mounted
//! it. Changes of these are accepted and forgotten, as on a FAT volume, so that copying works.
//! A file that is replaced by a rename is gone before the other one has its name: after a power cut
//! in between the name may be missing.

use std::collections::{HashMap, HashSet, VecDeque};

use flashkit_block::BlockDevice;
use flashkit_meter::MeteredCard;
use flashkit_nanofs as nano;
use flashkit_nanofs::{Handle, NAME_MAX, NanoFs, SEEK_END};

use crate::{
    Attr, Counters, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Result,
    SetAttr, StatFs, Time,
};

const ROOT: Ino = 1;
/// The inode number of the file with the id 0.
const FIRST: Ino = 2;
/// Files that are kept open, of the 64 that can be.
pub const KEEP_HANDLES: usize = 60;
/// What the name of a file without a name begins with: no name of the host does.
const HIDDEN: u8 = 0;
/// Bytes of zeros that are written at a time.
const ZEROS: usize = 64 << 10;

/// A Nano-FS volume and the files that its user knows.
pub struct NanoFsFs<D: BlockDevice> {
    fs: NanoFs<D, 6>,
    owner: (u32, u32),
    names: HashMap<Ino, Vec<u8>>,
    /// Open files; the one used last is at the end.
    handles: VecDeque<(Ino, Handle)>,
    opens: HashMap<Ino, u32>,
    orphans: HashSet<Ino>,
}

fn error(e: nano::Error) -> Error {
    match e {
        nano::Error::Full => Error::NoSpace,
        nano::Error::TooManyFiles => Error::TooManyFiles,
        nano::Error::NameTooLong => Error::NameTooLong,
        nano::Error::BadName => Error::Invalid,
        nano::Error::Exists => Error::Exists,
        nano::Error::NotFound => Error::NotFound,
        e => Error::Io(e.to_string()),
    }
}

impl<D: BlockDevice> NanoFsFs<D> {
    /// Takes a mounted volume. Files that had lost their names when power failed are deleted, if
    /// `read_only` does not forbid it.
    ///
    /// # Errors
    /// As those of the volume.
    pub fn new(fs: NanoFs<D, 6>, owner: (u32, u32), read_only: bool) -> Result<Self> {
        let mut fs = NanoFsFs {
            fs,
            owner,
            names: HashMap::new(),
            handles: VecDeque::new(),
            opens: HashMap::new(),
            orphans: HashSet::new(),
        };
        for (_, name, _) in fs.list()? {
            if name.first() == Some(&HIDDEN) && !read_only {
                fs.fs.delete(&name).map_err(error)?;
            }
        }
        Ok(fs)
    }

    /// The volume.
    pub fn volume(&mut self) -> &mut NanoFs<D, 6> {
        &mut self.fs
    }

    /// Gives the volume back.
    pub fn into_volume(self) -> NanoFs<D, 6> {
        self.fs
    }

    /// All files: inode number, name, size.
    fn list(&mut self) -> Result<Vec<(Ino, Vec<u8>, u64)>> {
        let mut files = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = self.fs.next_file(cursor).map_err(error)?;
            if cursor == 0 {
                break;
            }
            let entry = self.fs.entry();
            files.push((
                FIRST + Ino::from(entry.id),
                entry.name.to_vec(),
                entry.size.into(),
            ));
        }
        files.sort_unstable();
        Ok(files)
    }

    fn check_dir(&self, dir: Ino) -> Result<()> {
        match dir {
            ROOT => Ok(()),
            _ if self.names.contains_key(&dir) => Err(Error::NotDir),
            _ => Err(Error::NotFound),
        }
    }

    /// The handle of a file, opened if it is not.
    fn handle(&mut self, ino: Ino) -> Result<Handle> {
        if ino == ROOT {
            return Err(Error::IsDir);
        }
        if let Some(at) = self.handles.iter().position(|h| h.0 == ino) {
            let Some(kept) = self.handles.remove(at) else {
                return Err(Error::NotFound);
            };
            self.handles.push_back(kept);
            return Ok(kept.1);
        }
        let name = self.names.get(&ino).ok_or(Error::NotFound)?;
        if self.handles.len() == KEEP_HANDLES
            && let Some((_, oldest)) = self.handles.pop_front()
        {
            self.fs.close(oldest).map_err(error)?;
        }
        let handle = self.fs.open(name).map_err(error)?;
        self.handles.push_back((ino, handle));
        Ok(handle)
    }

    fn close(&mut self, ino: Ino) -> Result<()> {
        if let Some(at) = self.handles.iter().position(|h| h.0 == ino)
            && let Some((_, handle)) = self.handles.remove(at)
        {
            self.fs.close(handle).map_err(error)?;
        }
        Ok(())
    }

    fn attr(&self, ino: Ino, size: u64) -> Attr {
        let is_root = ino == ROOT;
        Attr {
            ino,
            kind: if is_root {
                FileKind::Dir
            } else {
                FileKind::File
            },
            size,
            blocks: size.div_ceil(500),
            mode: if is_root { 0o755 } else { 0o644 },
            nlink: if is_root { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            device: 0,
            atime: Time::default(),
            mtime: Time::default(),
            ctime: Time::default(),
        }
    }

    /// Deletes a file without a name in the directory.
    fn delete(&mut self, ino: Ino) -> Result<()> {
        self.close(ino)?;
        let name = self.names.remove(&ino).ok_or(Error::NotFound)?;
        self.fs.delete(&name).map_err(error)
    }

    /// Takes the name of a file away: it goes now, or with its last user.
    fn remove(&mut self, ino: Ino) -> Result<()> {
        if !self.opens.contains_key(&ino) {
            return self.delete(ino);
        }
        let mut hidden = vec![HIDDEN];
        hidden.extend(ino.to_string().bytes());
        let name = self.names.get_mut(&ino).ok_or(Error::NotFound)?;
        self.fs.rename(name, &hidden).map_err(error)?;
        *name = hidden;
        self.orphans.insert(ino);
        Ok(())
    }

    /// Appends zeros up to a size.
    fn extend(&mut self, handle: Handle, size: u64) -> Result<()> {
        let size = u32::try_from(size).map_err(|_| Error::TooBig)?;
        let mut held = self.fs.size(handle).map_err(error)?;
        let zeros = [0; ZEROS];
        while held < size {
            let n = (size - held).min(ZEROS as u32);
            self.fs
                .append(handle, &zeros[..n as usize])
                .map_err(error)?;
            held += n;
        }
        Ok(())
    }
}

impl<D: BlockDevice> FileSystem for NanoFsFs<D> {
    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.check_dir(dir)?;
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        let found = self.list()?.into_iter().find(|(_, held, _)| held == name);
        match found {
            Some((ino, name, size)) if name.first() != Some(&HIDDEN) => {
                self.names.insert(ino, name);
                Ok(self.attr(ino, size))
            }
            _ => Err(Error::NotFound),
        }
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        if ino == ROOT {
            return Ok(self.attr(ROOT, 0));
        }
        let handle = self.handle(ino)?;
        let size = self.fs.size(handle).map_err(error)?;
        Ok(self.attr(ino, size.into()))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            let handle = self.handle(ino)?;
            let held = u64::from(self.fs.size(handle).map_err(error)?);
            match size < held {
                true => self.fs.truncate(handle, size as u32).map_err(error)?,
                false => self.extend(handle, size)?,
            }
        }
        self.getattr(ino)
    }

    fn create(&mut self, dir: Ino, name: &[u8], _: &NewInode) -> Result<Attr> {
        self.check_dir(dir)?;
        if name.first() == Some(&HIDDEN) {
            return Err(Error::Invalid);
        }
        if self.handles.len() == KEEP_HANDLES
            && let Some((_, oldest)) = self.handles.pop_front()
        {
            self.fs.close(oldest).map_err(error)?;
        }
        let mut made = self.fs.create(name);
        if made == Err(nano::Error::TooManyFiles) {
            // Deleted files count until they are cleaned.
            while self.fs.clean(u32::MAX).map_err(error)? {}
            made = self.fs.create(name);
        }
        let handle = made.map_err(error)?;
        // The new file is the one in RAM.
        let ino = FIRST + Ino::from(self.fs.entry().id);
        self.names.insert(ino, name.to_vec());
        self.handles.push_back((ino, handle));
        Ok(self.attr(ino, 0))
    }

    fn mkdir(&mut self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Error::NotPermitted)
    }

    fn symlink(&mut self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Error::NotPermitted)
    }

    fn readlink(&mut self, _: Ino) -> Result<Vec<u8>> {
        Err(Error::Invalid)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], _: Time) -> Result<()> {
        let ino = self.lookup(dir, name)?.ino;
        self.remove(ino)
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], _: Time) -> Result<()> {
        self.lookup(dir, name)?;
        Err(Error::NotDir)
    }

    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        _: Time,
    ) -> Result<()> {
        let moved = self.lookup(from_dir, from)?.ino;
        if to.first() == Some(&HIDDEN) {
            return Err(Error::Invalid);
        }
        match self.lookup(to_dir, to) {
            Ok(_) if no_replace => return Err(Error::Exists),
            Ok(there) if there.ino == moved => return Ok(()),
            Ok(there) => self.remove(there.ino)?,
            Err(Error::NotFound) => {}
            Err(e) => return Err(e),
        }
        self.fs.rename(from, to).map_err(error)?;
        self.names.insert(moved, to.to_vec());
        Ok(())
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        if ino != ROOT && !self.names.contains_key(&ino) {
            return Err(Error::NotFound);
        }
        *self.opens.entry(ino).or_default() += 1;
        Ok(())
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        let count = self.opens.get_mut(&ino).ok_or(Error::NotFound)?;
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.opens.remove(&ino);
        match self.orphans.remove(&ino) {
            true => self.delete(ino),
            false => self.close(ino),
        }
    }

    fn forget(&mut self, ino: Ino) {
        let is_kept = self.handles.iter().any(|h| h.0 == ino);
        if !self.opens.contains_key(&ino) && !is_kept {
            self.names.remove(&ino);
        }
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let handle = self.handle(ino)?;
        let Some(offset) = u32::try_from(offset).ok().filter(|&at| at != SEEK_END) else {
            return Ok(0);
        };
        self.fs.seek(handle, offset).map_err(error)?;
        let read = self.fs.read(handle, buf).map_err(error)?;
        Ok(read as usize)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], _: Time) -> Result<()> {
        let handle = self.handle(ino)?;
        let end = offset.saturating_add(data.len() as u64);
        if end >= SEEK_END.into() {
            return Err(Error::TooBig);
        }
        self.extend(handle, offset)?;
        self.fs.seek(handle, offset as u32).map_err(error)?;
        self.fs.write(handle, data).map_err(error)
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        if ino != ROOT {
            // Another file's turn saves what was written to one; its own turn has come now.
            let handle = self.handle(ino)?;
            self.fs.size(handle).map_err(error)?;
        }
        self.fs.sync().map_err(error)
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.check_dir(dir)?;
        for (ino, name, _) in self.list()? {
            if ino <= cookie || name.first() == Some(&HIDDEN) {
                continue;
            }
            let kind = FileKind::File;
            let cookie = ino;
            if !each(DirEntry {
                ino,
                kind,
                name,
                cookie,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.check_dir(dir).map(|()| ROOT)
    }

    fn takes_removals(&self) -> bool {
        true
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let used = self.list()?.len() as u64;
        let files = u64::from(self.fs.files_max());
        Ok(StatFs {
            block_size: 512,
            blocks: self.fs.data_blocks().into(),
            blocks_free: u64::from(self.fs.space_left().map_err(error)?) / 500,
            files,
            files_free: files.saturating_sub(used),
            name_max: NAME_MAX as u32,
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.fs.sync().map_err(error)
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.fs.clean(pages).map_err(error)
    }

    fn unmount(&mut self) -> Result<()> {
        for ino in std::mem::take(&mut self.orphans) {
            self.delete(ino)?;
        }
        while let Some((_, handle)) = self.handles.pop_front() {
            self.fs.close(handle).map_err(error)?;
        }
        self.fs.sync().map_err(error)
    }
}

impl<D: MeteredCard> Measured for NanoFsFs<D> {
    fn cost(&self) -> Counters {
        let c = self.fs.device_ref().counters();
        Counters {
            page_reads: c.blocks_read,
            spare_reads: 0,
            page_programs: c.blocks_written,
            page_copies: 0,
            block_erases: c.trims,
            time_ns: c.time_ns,
            ..Counters::default()
        }
    }

    fn ram_bytes(&self) -> usize {
        size_of::<NanoFs<D, 6>>()
    }

    fn idle(&mut self, ms: u64) -> Result<()> {
        self.fs.device().idle(ms.saturating_mul(1_000_000));
        Ok(())
    }
}

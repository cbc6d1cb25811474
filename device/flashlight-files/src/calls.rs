//! What a path call does, for any holder of open files.

use core::cell::Cell;

use flashkit_flashlight::{
    Attr, Error as VolumeError, FileRef, FlashLight, NAME_MAX, New, Node, Time, Unlinked,
};
use flashkit_nand::Nand;

use crate::error::Error;
use crate::open::{OpenFile, OpenOptions};
use crate::path;

const MODE_TYPE: u16 = 0o170_000;
const MODE_FILE: u16 = 0o100_000;
const MODE_DIR: u16 = 0o040_000;
const MODE_SYMLINK: u16 = 0o120_000;

/// Permissions of what is made here: nothing on a board asks for them, a mount on Linux does.
const FILE_PERMISSIONS: u16 = 0o644;
const DIR_PERMISSIONS: u16 = 0o755;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, made by another program.
    Symlink,
    /// A device, a pipe or a socket, made by another program.
    Special,
}

impl Kind {
    /// Of an inode's mode, as in `stat`.
    pub const fn of_mode(mode: u16) -> Kind {
        match mode & MODE_TYPE {
            MODE_FILE => Kind::File,
            MODE_DIR => Kind::Dir,
            MODE_SYMLINK => Kind::Symlink,
            _ => Kind::Special,
        }
    }
}

/// All files that are open on a volume, wherever they are kept.
pub trait OpenFiles {
    /// Shows each of them until `visit` returns false.
    fn visit(&self, visit: &mut dyn FnMut(&OpenFile) -> bool);

    /// Hands each of them over to be changed.
    fn change(&mut self, change: &mut dyn FnMut(&mut OpenFile));
}

impl OpenFiles for &mut [Option<OpenFile>] {
    fn visit(&self, visit: &mut dyn FnMut(&OpenFile) -> bool) {
        self.iter().flatten().all(visit);
    }

    fn change(&mut self, change: &mut dyn FnMut(&mut OpenFile)) {
        self.iter_mut().flatten().for_each(change);
    }
}

fn is_open(open: &dyn OpenFiles, ino: u32) -> bool {
    let mut found = false;
    open.visit(&mut |file| {
        found |= file.file.ino == ino;
        !found
    });
    found
}

/// Says of an inode that it has lost its last name.
fn orphan(open: &mut dyn OpenFiles, ino: u32) {
    open.change(&mut |file| file.is_orphan |= file.file.ino == ino);
}

/// A volume, its open files, and when it is: what path calls need.
pub struct Calls<'a, 'r, N: Nand> {
    /// The volume.
    pub fs: &'a mut FlashLight<'r, N>,
    /// The files that are open on it.
    pub open: &'a mut dyn OpenFiles,
    /// The time of a change.
    pub now: Time,
}

impl<N: Nand> Calls<'_, '_, N> {
    fn new_inode(&self, mode: u16) -> New {
        New {
            mode,
            now: self.now,
            ..New::default()
        }
    }

    /// What a path names. Of each directory on the way at most two reads, none if it was found
    /// lately; at most three for the last name.
    ///
    /// # Errors
    /// [`VolumeError::NotFound`], [`VolumeError::NotDir`], [`VolumeError::Corrupt`].
    pub fn stat(&mut self, path: &[u8]) -> Result<Attr, Error<N::Error>> {
        Ok(path::resolve(self.fs, path)?)
    }

    /// Opens a file. Nothing is written but for a file that is made or cut, which is durable after
    /// its sync.
    ///
    /// # Errors
    /// Those of [`Calls::stat`]. [`VolumeError::Exists`] with `create_new`, [`VolumeError::IsDir`],
    /// [`VolumeError::Invalid`] for a symbolic link or special file, and for options that do not
    /// go together; [`VolumeError::ReadOnly`], [`VolumeError::NoSpace`].
    pub fn open(
        &mut self,
        path: &[u8],
        options: &OpenOptions,
    ) -> Result<OpenFile, Error<N::Error>> {
        if !options.are_valid() {
            return Err(VolumeError::Invalid.into());
        }
        if let Some((file, is_empty)) = self.existing(path, options)? {
            if options.truncate && !is_empty {
                self.fs.truncate(file, 0, self.now)?;
            }
            return Ok(OpenFile::new(file, options));
        }
        let (dir, name) = path::parent(self.fs, path)?;
        let new = self.new_inode(FILE_PERMISSIONS);
        let Node::File(file) = self.fs.create(dir, name, &new)? else {
            return Err(VolumeError::IsDir.into());
        };
        Ok(OpenFile::new(file, options))
    }

    /// The file that is to be opened, and whether it is empty; none if it is to be made.
    // A call of its own: its stack is not needed while room is made.
    #[inline(never)]
    fn existing(
        &mut self,
        path: &[u8],
        options: &OpenOptions,
    ) -> Result<Option<(FileRef, bool)>, Error<N::Error>> {
        let found = match path::resolve(self.fs, path) {
            Ok(_) if options.create_new => return Err(VolumeError::Exists.into()),
            Err(VolumeError::NotFound)
                if (options.create || options.create_new) && !path::asks_for_dir(path) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let Node::File(file) = found.node else {
            return Err(VolumeError::IsDir.into());
        };
        if Kind::of_mode(found.mode) != Kind::File {
            return Err(VolumeError::Invalid.into());
        }
        Ok(Some((file, found.size == 0)))
    }

    /// Ends an open file that is no longer among [`Calls::open`]. One that has no name any more is
    /// given back, if no other has it open; where that fails, the next mount does it.
    pub fn close(&mut self, file: &OpenFile) -> Result<(), Error<N::Error>> {
        if file.is_orphan && !is_open(self.open, file.file.ino) {
            self.fs.reap(file.file)?;
        }
        Ok(())
    }

    /// Makes a directory; durable when this returns. Two programs.
    ///
    /// # Errors
    /// [`VolumeError::Exists`]; those of [`FlashLight::mkdir`].
    pub fn mkdir(&mut self, path: &[u8]) -> Result<(), Error<N::Error>> {
        if path::is_root(path) {
            return Err(VolumeError::Exists.into());
        }
        let (dir, name) = path::parent(self.fs, path)?;
        let new = self.new_inode(DIR_PERMISSIONS);
        self.fs.mkdir(dir, name, &new)?;
        Ok(())
    }

    /// Removes a file or an empty directory. A directory is gone for good when this returns, a
    /// file after the next [`FlashLight::sync`], or when anything else of its directory is written.
    /// A file that is open stays usable until it is closed, and its name is gone for good.
    ///
    /// # Errors
    /// Those of [`FlashLight::unlink`] and [`FlashLight::rmdir`]; [`VolumeError::Invalid`] for the
    /// root.
    pub fn remove(&mut self, path: &[u8]) -> Result<(), Error<N::Error>> {
        let (dir, name) = path::parent(self.fs, path)?;
        if path::asks_for_dir(path) {
            return Ok(self.fs.rmdir(dir, name, self.now)?);
        }
        let last = Cell::new(0);
        let open = &*self.open;
        let in_use = |ino| {
            last.set(ino);
            is_open(open, ino)
        };
        match self.fs.unlink(dir, name, &in_use, self.now) {
            Err(VolumeError::IsDir) => return Ok(self.fs.rmdir(dir, name, self.now)?),
            Ok(Unlinked::InUse) => orphan(self.open, last.get()),
            Ok(Unlinked::Gone | Unlinked::Named) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Renames a file or a directory, and replaces what has the name: a file by a file, an empty
    /// directory by a directory. Atomic, and durable when this returns. One program, and at times
    /// those of the two directories before it.
    ///
    /// # Errors
    /// Those of [`FlashLight::rename`].
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Error<N::Error>> {
        let (from_dir, from_name) = path::parent(self.fs, from)?;
        let (to_dir, to_name) = path::parent(self.fs, to)?;
        if path::asks_for_dir(from) || path::asks_for_dir(to) {
            self.fs.lookup_dir(from_dir, from_name)?;
        }
        let open = &*self.open;
        let in_use = |ino| is_open(open, ino);
        let (node, kept) = self.fs.rename(
            from_dir, from_name, to_dir, to_name, false, &in_use, self.now,
        )?;
        if let Node::File(moved) = node {
            self.open.change(&mut |file| {
                if file.file.ino == moved.ino {
                    file.file = moved;
                }
            });
        }
        if let Some(ino) = kept {
            orphan(self.open, ino);
        }
        Ok(())
    }

    /// A listing of a directory, from its first entry on.
    ///
    /// # Errors
    /// Those of [`Calls::stat`].
    pub fn list(&mut self, path: &[u8]) -> Result<Listing, Error<N::Error>> {
        let dir = path::directory(self.fs, path)?;
        Ok(Listing { dir, cookie: 0 })
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The inode.
    pub node: Node,
    /// What it is.
    pub kind: Kind,
    /// Its name, 1 to 255 bytes.
    pub name: &'a [u8],
}

/// How far a directory has been listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    dir: u32,
    cookie: u64,
}

impl Listing {
    /// The next entry, in no order that means anything; none at the end. What stays is listed once,
    /// whatever comes and goes meanwhile. Its name is put into `name`. Two reads at most, and those
    /// of the directory itself. A directory that is removed may leave its number to a new one: then
    /// the listing goes on in that.
    ///
    /// # Errors
    /// [`VolumeError::Corrupt`] at the end, when there are entries that cannot be read;
    /// [`VolumeError::NotFound`] or another when the directory is gone, and none has its number.
    pub fn next<'b, N: Nand>(
        &mut self,
        fs: &mut FlashLight<'_, N>,
        name: &'b mut [u8; NAME_MAX],
    ) -> Result<Option<Entry<'b>>, Error<N::Error>> {
        let (mut found, mut cookie) = (None, self.cookie);
        fs.readdir(self.dir, self.cookie, &mut |entry| {
            name[..entry.name.len()].copy_from_slice(entry.name);
            found = Some((entry.node, entry.mode, entry.name.len()));
            cookie = entry.cookie;
            false
        })?;
        self.cookie = cookie;
        Ok(found.map(|(node, mode, len)| Entry {
            node,
            kind: Kind::of_mode(mode),
            name: &name[..len],
        }))
    }

    /// Goes back to the first entry.
    pub fn rewind(&mut self) {
        self.cookie = 0;
    }
}

//! The state of an open file. It holds no reference to its volume: every call is given that.

use embedded_io::SeekFrom;
use flashkit_flashlight::{Error as VolumeError, FileRef, FlashLight, Node, Time};
use flashkit_nand::Nand;

use crate::error::Error;

/// How a file is to be opened. As in `std::fs`, all choices are off at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
}

impl OpenOptions {
    /// None of the choices.
    pub const fn new() -> Self {
        OpenOptions {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
        }
    }

    /// For reading.
    pub const fn read(mut self, on: bool) -> Self {
        self.read = on;
        self
    }

    /// For writing.
    pub const fn write(mut self, on: bool) -> Self {
        self.write = on;
        self
    }

    /// For writing, each time at the end.
    pub const fn append(mut self, on: bool) -> Self {
        self.append = on;
        self
    }

    /// Cuts a file that is there to nothing; for writing.
    pub const fn truncate(mut self, on: bool) -> Self {
        self.truncate = on;
        self
    }

    /// Makes the file if there is none; for writing.
    pub const fn create(mut self, on: bool) -> Self {
        self.create = on;
        self
    }

    /// Makes the file, and fails if there is one; for writing.
    pub const fn create_new(mut self, on: bool) -> Self {
        self.create_new = on;
        self
    }

    pub(crate) fn writes(&self) -> bool {
        self.write || self.append
    }

    /// Whether they make sense together: something is to be done, and what changes the file is for
    /// writing.
    pub(crate) fn are_valid(&self) -> bool {
        let changes = self.truncate || self.create || self.create_new;
        (self.read || self.writes()) && (self.writes() || !changes)
    }
}

/// The state of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    pub(crate) file: FileRef,
    pos: u64,
    reads: bool,
    writes: bool,
    appends: bool,
    /// It has no name any more: to be ended when it is closed.
    pub(crate) is_orphan: bool,
}

impl OpenFile {
    pub(crate) fn new(file: FileRef, options: &OpenOptions) -> Self {
        OpenFile {
            file,
            pos: 0,
            reads: options.read,
            writes: options.writes(),
            appends: options.append,
            is_orphan: false,
        }
    }

    /// The inode.
    pub fn node(&self) -> Node {
        Node::File(self.file)
    }

    /// Where the next read or write begins, in bytes.
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// The file's size in bytes. At most three reads.
    pub fn size<N: Nand>(&self, fs: &mut FlashLight<'_, N>) -> Result<u64, Error<N::Error>> {
        Ok(fs.getattr(self.node())?.size)
    }

    /// Reads from the position on; fewer bytes than asked for only at the end of the file. Costs
    /// as [`FlashLight::read`].
    ///
    /// # Errors
    /// [`Error::NotOpenedSo`]; those of [`FlashLight::read`]. The position stays.
    pub fn read<N: Nand>(
        &mut self,
        fs: &mut FlashLight<'_, N>,
        buf: &mut [u8],
    ) -> Result<usize, Error<N::Error>> {
        if !self.reads {
            return Err(Error::NotOpenedSo);
        }
        let n = fs.read(self.file, self.pos, buf)?;
        self.pos += n as u64;
        Ok(n)
    }

    /// Writes all of `data` at the position, or at the end of a file opened to append. Costs as
    /// [`FlashLight::write`].
    ///
    /// # Errors
    /// [`Error::NotOpenedSo`]; those of [`FlashLight::write`]. The position stays; of a full
    /// volume the pages before may be written.
    pub fn write<N: Nand>(
        &mut self,
        fs: &mut FlashLight<'_, N>,
        data: &[u8],
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        if !self.writes {
            return Err(Error::NotOpenedSo);
        }
        let at = match self.appends {
            true => self.size(fs)?,
            false => self.pos,
        };
        if data.is_empty() {
            return Ok(());
        }
        fs.write(self.file, at, data, now)?;
        self.pos = at + data.len() as u64;
        Ok(())
    }

    /// Sets the position, which may be beyond the end; a write there leaves a hole, which reads as
    /// zeros. Gives the position. A read or so from the end, else none.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] before the first byte, or beyond what a file can hold.
    pub fn seek<N: Nand>(
        &mut self,
        fs: &mut FlashLight<'_, N>,
        to: SeekFrom,
    ) -> Result<u64, Error<N::Error>> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.pos.checked_add_signed(by),
            SeekFrom::End(by) => self.size(fs)?.checked_add_signed(by),
        };
        match at.filter(|at| *at <= fs.file_size_max()) {
            Some(at) => self.pos = at,
            None => return Err(VolumeError::Invalid.into()),
        }
        Ok(self.pos)
    }

    /// Cuts the file to `size` bytes, or extends it by a hole. The position stays.
    ///
    /// # Errors
    /// [`Error::NotOpenedSo`]; those of [`FlashLight::truncate`].
    pub fn truncate<N: Nand>(
        &mut self,
        fs: &mut FlashLight<'_, N>,
        size: u64,
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        if !self.writes {
            return Err(Error::NotOpenedSo);
        }
        Ok(fs.truncate(self.file, size, now)?)
    }

    /// Makes the file's data, size and name durable: one program, if anything has changed.
    ///
    /// # Errors
    /// Those of [`FlashLight::fsync`].
    pub fn sync<N: Nand>(&mut self, fs: &mut FlashLight<'_, N>) -> Result<(), Error<N::Error>> {
        // What has no name has nothing to keep.
        match self.is_orphan {
            true => Ok(()),
            false => Ok(fs.fsync(self.node())?),
        }
    }
}

//! A mounted volume that several open files share.

use core::cell::{RefCell, RefMut};

use embedded_io::SeekFrom;
use flashkit_flashlight::{Attr, Config, Error as VolumeError, FlashLight, NAME_MAX, StatFs, Time};
use flashkit_nand::Nand;

use crate::calls::{Calls, Entry, Listing};
use crate::error::Error;
use crate::open::{OpenFile, OpenOptions};

/// A mounted volume. Its calls take a shared reference, so that files can be open meanwhile; they
/// are for one thread.
pub struct Files<'r, N: Nand> {
    inner: RefCell<Inner<'r, N>>,
}

struct Inner<'r, N: Nand> {
    fs: FlashLight<'r, N>,
    open: &'r mut [Option<OpenFile>],
    now: Time,
}

impl<'r, N: Nand> Inner<'r, N> {
    fn calls(&mut self) -> Calls<'_, 'r, N> {
        Calls {
            fs: &mut self.fs,
            open: &mut self.open,
            now: self.now,
        }
    }
}

impl<'r, N: Nand> Files<'r, N> {
    /// Mounts a volume, as [`FlashLight::mount`] does. `open` has a place for each file that can be
    /// open at a time.
    ///
    /// # Errors
    /// Those of [`FlashLight::mount`].
    pub fn mount(
        nand: N,
        ram: &'r mut [u8],
        open: &'r mut [Option<OpenFile>],
        config: Config,
    ) -> Result<Self, Error<N::Error>> {
        let mut place = None;
        Self::mount_into(&mut place, nand, ram, open, config)?;
        place.ok_or(Error::Volume(VolumeError::NotFormatted))
    }

    /// The same, in the caller's memory, as [`FlashLight::mount_into`]: on the stack of the mount
    /// there is no copy of the volume, and none on that of who keeps `place` elsewhere. After an
    /// error `place` is empty.
    ///
    /// # Errors
    /// Those of [`FlashLight::mount`].
    pub fn mount_into(
        place: &mut Option<Self>,
        nand: N,
        ram: &'r mut [u8],
        open: &'r mut [Option<OpenFile>],
        config: Config,
    ) -> Result<(), Error<N::Error>> {
        open.fill(None);
        let now = Time::default();
        let files = FlashLight::place_into(place, nand, ram, &config, |fs| Files {
            inner: RefCell::new(Inner { fs, open, now }),
        })?;
        let mounted = files.volume().mount_placed(&config);
        if mounted.is_err() {
            *place = None;
        }
        Ok(mounted?)
    }

    /// Makes everything durable and marks the volume as cleanly unmounted, as
    /// [`FlashLight::close`] does. Nothing may be changed afterwards. Where it fails, the next
    /// mount recovers what was durable.
    ///
    /// # Errors
    /// Those of [`FlashLight::unmount`].
    pub fn close(&mut self) -> Result<(), Error<N::Error>> {
        Ok(self.volume().close()?)
    }

    /// Makes everything durable, marks the volume as cleanly unmounted and gives the chip back.
    /// Where it fails, the next mount recovers what was durable.
    ///
    /// # Errors
    /// Those of [`FlashLight::unmount`].
    #[allow(clippy::type_complexity)]
    pub fn unmount(self) -> Result<N, (N, Error<N::Error>)> {
        let inner = self.inner.into_inner();
        inner.fs.unmount().map_err(|(nand, e)| (nand, e.into()))
    }

    /// The volume, for the calls of FlashLight that are not here, and for its figures. No file is
    /// open while it is lent.
    pub fn volume(&mut self) -> &mut FlashLight<'r, N> {
        &mut self.inner.get_mut().fs
    }

    fn inner(&self) -> Result<RefMut<'_, Inner<'r, N>>, Error<N::Error>> {
        self.inner.try_borrow_mut().map_err(|_| Error::InUse)
    }

    /// What time it is: the times of all that is changed from now on. There is no clock here;
    /// 1970 before the first call.
    pub fn set_time(&self, now: Time) {
        if let Ok(mut inner) = self.inner() {
            inner.now = now;
        }
    }

    /// Opens a file; see [`Calls::open`].
    ///
    /// # Errors
    /// Those of [`Calls::open`], and [`Error::TooManyOpen`], before anything is made.
    pub fn open(
        &self,
        path: impl AsRef<[u8]>,
        options: OpenOptions,
    ) -> Result<File<'_, 'r, N>, Error<N::Error>> {
        let mut inner = self.inner()?;
        let free = inner.open.iter().position(Option::is_none);
        let place = free.ok_or(Error::TooManyOpen)?;
        let file = inner.calls().open(path.as_ref(), &options)?;
        inner.open[place] = Some(file);
        Ok(File { files: self, place })
    }

    /// Makes a file, or cuts the one that has the name to nothing, and opens it for writing.
    ///
    /// # Errors
    /// Those of [`Files::open`].
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<File<'_, 'r, N>, Error<N::Error>> {
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        self.open(path, options)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// Those of [`Calls::list`].
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Dir<'_, 'r, N>, Error<N::Error>> {
        let listing = self.inner()?.calls().list(path.as_ref())?;
        let name = [0; NAME_MAX];
        Ok(Dir {
            files: self,
            listing,
            name,
        })
    }

    /// What a path names; see [`Calls::stat`].
    ///
    /// # Errors
    /// Those of [`Calls::stat`].
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Attr, Error<N::Error>> {
        self.inner()?.calls().stat(path.as_ref())
    }

    /// Makes a directory, durable when this returns; see [`Calls::mkdir`].
    ///
    /// # Errors
    /// Those of [`Calls::mkdir`].
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<(), Error<N::Error>> {
        self.inner()?.calls().mkdir(path.as_ref())
    }

    /// Removes a file or an empty directory; see [`Calls::remove`].
    ///
    /// # Errors
    /// Those of [`Calls::remove`].
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error<N::Error>> {
        self.inner()?.calls().remove(path.as_ref())
    }

    /// Renames, durable when this returns; see [`Calls::rename`].
    ///
    /// # Errors
    /// Those of [`Calls::rename`].
    pub fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error<N::Error>> {
        self.inner()?.calls().rename(from.as_ref(), to.as_ref())
    }

    /// Makes everything durable: a checkpoint, if anything has changed.
    ///
    /// # Errors
    /// Those of [`FlashLight::sync`].
    pub fn sync(&self) -> Result<(), Error<N::Error>> {
        Ok(self.inner()?.fs.sync()?)
    }

    /// Space, in pages. No flash operation.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub fn space(&self) -> Result<StatFs, Error<N::Error>> {
        Ok(self.inner()?.fs.statfs())
    }

    /// Cleans in idle time; whether more could be won by going on. See [`FlashLight::gc`].
    ///
    /// # Errors
    /// Those of [`FlashLight::gc`].
    pub fn gc(&self, pages: u32) -> Result<bool, Error<N::Error>> {
        Ok(self.inner()?.fs.gc(pages)?)
    }
}

/// An open file. Dropping it closes it.
pub struct File<'v, 'r, N: Nand> {
    files: &'v Files<'r, N>,
    place: usize,
}

impl<'r, N: Nand> File<'_, 'r, N> {
    /// Does something with the file's state and its volume.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut OpenFile, &mut FlashLight<'r, N>, Time) -> Result<T, Error<N::Error>>,
    ) -> Result<T, Error<N::Error>> {
        let inner = &mut *self.files.inner()?;
        match inner.open.get_mut(self.place) {
            Some(Some(file)) => work(file, &mut inner.fs, inner.now),
            // It is there as long as this value is.
            _ => Err(Error::InUse),
        }
    }

    /// Reads from the position on; see [`OpenFile::read`].
    ///
    /// # Errors
    /// Those of [`OpenFile::read`].
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error<N::Error>> {
        self.with(|file, fs, _| file.read(fs, buf))
    }

    /// Writes all of `data`; see [`OpenFile::write`].
    ///
    /// # Errors
    /// Those of [`OpenFile::write`].
    pub fn write(&mut self, data: &[u8]) -> Result<(), Error<N::Error>> {
        self.with(|file, fs, now| file.write(fs, data, now))
    }

    /// Sets the position; see [`OpenFile::seek`].
    ///
    /// # Errors
    /// Those of [`OpenFile::seek`].
    pub fn seek(&mut self, to: SeekFrom) -> Result<u64, Error<N::Error>> {
        self.with(|file, fs, _| file.seek(fs, to))
    }

    /// Where the next read or write begins.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub fn position(&self) -> Result<u64, Error<N::Error>> {
        self.with(|file, _, _| Ok(file.position()))
    }

    /// The file's size in bytes.
    ///
    /// # Errors
    /// Those of [`OpenFile::size`].
    pub fn size(&self) -> Result<u64, Error<N::Error>> {
        self.with(|file, fs, _| file.size(fs))
    }

    /// Cuts the file to `size` bytes, or extends it by a hole.
    ///
    /// # Errors
    /// Those of [`OpenFile::truncate`].
    pub fn truncate(&mut self, size: u64) -> Result<(), Error<N::Error>> {
        self.with(|file, fs, now| file.truncate(fs, size, now))
    }

    /// Durable when this returns: data, size and name. One program, if anything has changed.
    ///
    /// # Errors
    /// Those of [`OpenFile::sync`].
    pub fn sync(&mut self) -> Result<(), Error<N::Error>> {
        self.with(|file, fs, _| file.sync(fs))
    }

    /// Closes the file. Makes nothing durable.
    ///
    /// # Errors
    /// What giving back a file without a name met; it is closed all the same.
    pub fn close(self) -> Result<(), Error<N::Error>> {
        let mut file = core::mem::ManuallyDrop::new(self);
        file.end()
    }

    fn end(&mut self) -> Result<(), Error<N::Error>> {
        let mut inner = self.files.inner()?;
        match inner.open.get_mut(self.place).and_then(Option::take) {
            Some(file) => inner.calls().close(&file),
            None => Ok(()),
        }
    }
}

impl<N: Nand> Drop for File<'_, '_, N> {
    fn drop(&mut self) {
        // What could not be given back is for the next mount.
        let _ = self.end();
    }
}

/// A directory that is being listed.
pub struct Dir<'v, 'r, N: Nand> {
    files: &'v Files<'r, N>,
    listing: Listing,
    name: [u8; NAME_MAX],
}

impl<N: Nand> Dir<'_, '_, N> {
    /// The next entry; none at the end. See [`Listing::next`].
    ///
    /// # Errors
    /// Those of [`Listing::next`].
    #[allow(clippy::should_implement_trait)] // An entry borrows its name.
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error<N::Error>> {
        let fs = &mut self.files.inner()?.fs;
        self.listing.next(fs, &mut self.name)
    }
}

//! Open files with the traits of `embedded-io` 0.7.

use core::fmt::Debug;

use embedded_io::{Error as IoError, ErrorKind, ErrorType, Read, Seek, SeekFrom, Write};
use flashkit_flashlight::Error as VolumeError;
use flashkit_nand::Nand;

use crate::error::Error;
use crate::files::File;

impl<E: Debug> IoError for Error<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::TooManyOpen => ErrorKind::OutOfMemory,
            Error::NotOpenedSo => ErrorKind::PermissionDenied,
            Error::InUse => ErrorKind::Other,
            Error::Volume(error) => match error {
                VolumeError::NotFound | VolumeError::NoAttribute => ErrorKind::NotFound,
                VolumeError::Exists => ErrorKind::AlreadyExists,
                VolumeError::ReadOnly => ErrorKind::PermissionDenied,
                VolumeError::Corrupt(..) => ErrorKind::InvalidData,
                VolumeError::NoSpace | VolumeError::RamTooSmall(_) => ErrorKind::OutOfMemory,
                VolumeError::Version(_) => ErrorKind::Unsupported,
                VolumeError::Invalid | VolumeError::NameTooLong | VolumeError::TooBig => {
                    ErrorKind::InvalidInput
                }
                _ => ErrorKind::Other,
            },
        }
    }
}

impl<N: Nand> ErrorType for File<'_, '_, N> {
    type Error = Error<N::Error>;
}

impl<N: Nand> Read for File<'_, '_, N> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Self::Error> {
        File::read(self, buf)
    }
}

impl<N: Nand> Write for File<'_, '_, N> {
    /// All of the bytes, or an error.
    fn write(&mut self, data: &[u8]) -> Result<usize, Self::Error> {
        File::write(self, data).map(|()| data.len())
    }

    /// Durable when this returns, as after [`File::sync`].
    fn flush(&mut self) -> Result<(), Self::Error> {
        self.sync()
    }
}

impl<N: Nand> Seek for File<'_, '_, N> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, Self::Error> {
        File::seek(self, to)
    }
}

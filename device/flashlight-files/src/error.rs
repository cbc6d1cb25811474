//! What can go wrong, beyond what the volume says.

use core::fmt;

/// What went wrong. `E` is the driver's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The volume's own.
    Volume(flashkit_flashlight::Error<E>),
    /// All places of open files are taken: close one, or hand over more at the mount.
    TooManyOpen,
    /// The file was opened without reading, or without writing.
    NotOpenedSo,
    /// A call was made while another is under way.
    InUse,
}

impl<E> From<flashkit_flashlight::Error<E>> for Error<E> {
    fn from(error: flashkit_flashlight::Error<E>) -> Self {
        Error::Volume(error)
    }
}

impl<E: fmt::Debug> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Volume(error) => return error.fmt(f),
            Error::TooManyOpen => "too many open files",
            Error::NotOpenedSo => "the file was not opened for that",
            Error::InUse => "a call is under way",
        })
    }
}

impl<E: fmt::Debug> core::error::Error for Error<E> {}

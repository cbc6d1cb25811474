//! What can be missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why flash operations cannot be counted.
#[derive(Debug)]
pub enum Error {
    /// tracefs is for root alone.
    NotRoot,
    /// No tracefs is mounted.
    NoTracefs,
    /// The kernel has no kprobe events.
    NoKprobes,
    /// The kernel has no raw NAND driver, or it is not loaded.
    NoNand,
    /// A file of tracefs or sysfs.
    Io(PathBuf, io::Error),
    /// A file does not say what it should.
    Unexpected(PathBuf, &'static str),
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Error::NotRoot;
        }
        Error::Io(path.to_owned(), error)
    }

    pub(crate) fn unexpected(path: &Path, what: &'static str) -> Error {
        Error::Unexpected(path.to_owned(), what)
    }

    /// A tracefs that only root may look into cannot be told from none.
    pub(crate) fn no_tracefs() -> Error {
        match std::fs::read_dir("/sys/kernel/tracing") {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Error::NotRoot,
            _ => Error::NoTracefs,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotRoot => f.write_str("only root may trace the kernel"),
            Error::NoTracefs => f.write_str(
                "no tracefs; `mount -t tracefs tracefs /sys/kernel/tracing` mounts it \
                 where the kernel has one",
            ),
            Error::NoKprobes => f.write_str("this kernel has no kprobe events"),
            Error::NoNand => f.write_str(
                "no raw NAND chip: this kernel's NAND driver is not there or not loaded",
            ),
            Error::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Unexpected(path, what) => {
                write!(f, "{}: {what} was expected there", path.display())
            }
        }
    }
}

impl std::error::Error for Error {}

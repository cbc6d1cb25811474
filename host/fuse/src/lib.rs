//! Exports a [`flashkit_vfs::FileSystem`] as a FUSE mount.
//!
//! ```text
//!  kernel ──/dev/fuse──> bridge ──lock──> FileSystem <──lock── session (idle cleaning, signals)
//! ```
//!
//! | module | what it does |
//! | --- | --- |
//! | [`options`](MountOptions) | what `-o` says |
//! | `bridge` | one function per kernel request |
//! | `state` | the file system behind its lock, error reporting |
//! | `gather` | writes that are held back until somebody wants them durable |
//! | `gc` | cleaning that a program asks for; has `unsafe`, for its request |
//! | `sync` | making all durable, and unmounting; has `unsafe` as well |
//! | `kept` | inodes that the kernel knows, with or without a name |
//! | `convert` | numbers, times and attributes, both ways |
//! | `log` | lines on stderr and in the system's log |
//! | `mountpoint` | checks before mounting; unmounting, busy or not |
//! | `played` | a mount without a kernel, for tests |
//! | `session` | waits for `umount`, SIGINT, SIGTERM or SIGHUP, and ends all of them alike |
//!
//! Requests are served one at a time: the device code below is one state machine with fixed RAM.
//! What is written is held back in RAM where there is room for it, so that a full chip is told to
//! who writes; what the file system promises after `fsync` holds here too. What has changed is made
//! durable some seconds later ([`MountOptions::commit`]). `sync(2)` does not reach a FUSE file
//! system, and `umount(2)` does not wait for one: [`ask_for_sync`], [`unmount`].
//!
//! ```no_run
//! use std::path::Path;
//!
//! use flashkit_fuse::{MountOptions, mount};
//! use flashkit_vfs::MemoryFs;
//!
//! let fs = Box::new(MemoryFs::new());
//! let options = MountOptions::default();
//! // Returns when somebody has unmounted it, or a signal has come.
//! let outcome = mount(fs, Path::new("/mnt/flash"), &options, || println!("mounted"));
//! assert!(outcome.is_ok());
//! ```

#![deny(unsafe_code)]

mod bridge;
mod convert;
mod gather;
mod gc;
mod kept;
mod log;
mod mountpoint;
mod options;
mod pace;
mod played;
mod session;
mod state;
mod sync;
#[cfg(test)]
mod testing;

use flashkit_vfs::Measured;

pub use gc::ask as ask_for_cleaning;
pub use log::Log;
pub use options::{AccessTimes, MountFlag, MountOptions};
#[doc(hidden)]
pub use played::{Played, PlayedOut};
pub use session::{check, ending_signals, mount};
pub use sync::{Waiting, ask as ask_for_sync, unmount};

/// What ended a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Somebody unmounted it (`umount`, `fusermount3 -u`).
    Unmount,
    /// This signal.
    Signal(i32),
    /// The connection to the kernel failed, or the file system panicked.
    Failure(String),
}

/// What is mounted. One type, so that the server is compiled once, here.
pub type Served = dyn Measured + Send;

/// How a mount ended.
pub struct Outcome {
    /// The file system, unmounted. `None` when it panicked.
    pub fs: Option<Box<Served>>,
    /// What ended it.
    pub ended_by: EndedBy,
    /// What the file system's own unmount said.
    pub unmounted: flashkit_vfs::Result<()>,
    /// Whether files were still in use when a signal came; their users get I/O errors.
    pub was_busy: bool,
    /// Whether errors of the medium, or damage, were reported meanwhile.
    pub met_errors: bool,
}

/// Why a mount did not come about. One line each.
#[derive(Debug)]
pub enum MountError {
    /// The mount point cannot be used; the text says why.
    MountPoint(String),
    /// FUSE is missing or may not be used here.
    Fuse(String),
    /// Signal handlers or threads could not be made.
    Os(std::io::Error),
}

impl std::fmt::Display for MountError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MountError::MountPoint(why) | MountError::Fuse(why) => f.write_str(why),
            MountError::Os(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for MountError {}

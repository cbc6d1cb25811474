//! What can go wrong with a guest.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no guest, or no result of one.
#[derive(Debug)]
pub enum Error {
    /// No such program on this machine.
    Missing {
        /// The program.
        program: &'static str,
        /// What brings it.
        package: &'static str,
    },
    /// Packages could not be fetched: the last line of what the script says.
    Fetch(String),
    /// The folder of packages does not hold what it should.
    Incomplete(PathBuf, String),
    /// The job did not end in time and was stopped, guest and all.
    TimedOut {
        /// Seconds that it had.
        seconds: u64,
    },
    /// The guest ended, its job did not: the last lines of its console.
    Died(String),
    /// The job ended with a failure: its exit status, and the last line of its errors.
    Failed(i32, String),
    /// A file of the host.
    Io(PathBuf, io::Error),
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Error {
        Error::Io(path.to_owned(), error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing { program, package } => {
                write!(
                    f,
                    "{program} is not here; Debian's package {package} brings it"
                )
            }
            Error::Fetch(why) => write!(f, "guest: {why}"),
            Error::Incomplete(folder, what) => write!(
                f,
                "{}: {what}; remove the folder to have it fetched again",
                folder.display()
            ),
            Error::TimedOut { seconds } => {
                write!(
                    f,
                    "the guest did not finish within {seconds} s and was stopped"
                )
            }
            Error::Died(console) if console.is_empty() => {
                f.write_str("the guest died and said nothing")
            }
            Error::Died(console) => write!(f, "the guest died; its last words: {console}"),
            Error::Failed(status, said) if said.is_empty() => {
                write!(f, "the job in the guest ended with status {status}")
            }
            Error::Failed(status, said) => {
                write!(f, "the job in the guest ended with status {status}: {said}")
            }
            Error::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

//! Errors of the simulated driver. Faults of the medium are not among them.

use std::io;

use crate::FaultsError;

/// Why a simulated chip could not do something, through no fault of its medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The chip has no power.
    PowerOff,
    /// A file could not be read or written.
    Io {
        /// What kind of error.
        kind: io::ErrorKind,
        /// The system's own words.
        message: String,
    },
    /// The faults asked for do not fit the chip.
    Faults(FaultsError),
    /// A promise of the contract was broken on a chip whose file may be damaged.
    Promise(String),
}

impl core::fmt::Display for SimError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SimError::PowerOff => f.write_str("the chip has no power"),
            SimError::Io { message, .. } => f.write_str(message),
            SimError::Faults(e) => e.fmt(f),
            SimError::Promise(what) => write!(f, "the image is damaged: {what}"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<io::Error> for SimError {
    fn from(e: io::Error) -> SimError {
        SimError::Io {
            kind: e.kind(),
            message: e.to_string(),
        }
    }
}

impl From<FaultsError> for SimError {
    fn from(e: FaultsError) -> SimError {
        SimError::Faults(e)
    }
}

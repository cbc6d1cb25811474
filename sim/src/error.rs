//! Errors of the simulated driver. Faults of the medium are not among them.

use std::io;

/// Why a simulated chip could not be reached.
#[derive(Debug)]
pub enum SimError {
    /// The chip has no power.
    PowerOff,
    /// The image file behind the chip could not be read or written.
    Io(io::Error),
}

impl core::fmt::Display for SimError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SimError::PowerOff => f.write_str("the chip has no power"),
            SimError::Io(e) => write!(f, "image file: {e}"),
        }
    }
}

impl std::error::Error for SimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SimError::PowerOff => None,
            SimError::Io(e) => Some(e),
        }
    }
}

impl From<io::Error> for SimError {
    fn from(e: io::Error) -> SimError {
        SimError::Io(e)
    }
}

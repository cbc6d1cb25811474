//! Simulated NOR chips: banks of erase segments whose bits are cleared without an erase.
//!
//! [`SimNor`] is strict about the promises of [`flashkit_nor`], tears operations apart where the
//! power is cut ([`NorPowerCut`]), and counts every word on a virtual clock on which banks erase
//! while others are read and programmed.

mod chip;
mod image;
mod powercut;
mod spec;
mod tear;

pub use chip::SimNor;
pub(crate) use image::MAGIC as IMAGE_MAGIC;
pub use powercut::{NorCut, NorCutError, NorPowerCut};
pub use spec::{
    NOR_DEFAULT, NOR_SEGMENT, NOR_WORD, NorCounters, NorSpec, NorTiming, nor_preset, nor_presets,
};
pub use tear::{NorEraseTear, NorTearable, WordTear};

/// Why a simulated NOR chip could not do something, through no fault of its medium.
#[derive(Clone, PartialEq, Eq)]
pub enum SimNorError {
    /// The chip has no power.
    PowerOff,
    /// An offset or a length is not a multiple of what the operation asks for.
    NotAligned,
    /// Part of the range is beyond the chip's end.
    OutOfBounds,
    /// A blocking erase failed: the segment is worn out.
    EraseFailed,
    /// A promise of the contract was broken on a chip whose file may be damaged.
    Promise(String),
    /// The image file could not be read or written.
    Io {
        /// What kind of error.
        kind: std::io::ErrorKind,
        /// The system's own words.
        message: String,
    },
}

impl core::fmt::Display for SimNorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SimNorError::PowerOff => f.write_str("the chip has no power"),
            SimNorError::NotAligned => f.write_str("offset or length is not aligned"),
            SimNorError::OutOfBounds => f.write_str("beyond the end of the chip"),
            SimNorError::EraseFailed => f.write_str("the segment could not be erased"),
            SimNorError::Promise(what) => write!(f, "the image is damaged: {what}"),
            SimNorError::Io { message, .. } => f.write_str(message),
        }
    }
}

/// In words as well: a disk shows errors of a driver in this way.
impl core::fmt::Debug for SimNorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SimNorError {}

impl From<std::io::Error> for SimNorError {
    fn from(e: std::io::Error) -> SimNorError {
        SimNorError::Io {
            kind: e.kind(),
            message: e.to_string(),
        }
    }
}

impl From<flashkit_nor::NorFlashErrorKind> for SimNorError {
    fn from(kind: flashkit_nor::NorFlashErrorKind) -> SimNorError {
        match kind {
            flashkit_nor::NorFlashErrorKind::NotAligned => SimNorError::NotAligned,
            _ => SimNorError::OutOfBounds,
        }
    }
}

impl flashkit_nor::NorFlashError for SimNorError {
    fn kind(&self) -> flashkit_nor::NorFlashErrorKind {
        match self {
            SimNorError::NotAligned => flashkit_nor::NorFlashErrorKind::NotAligned,
            SimNorError::OutOfBounds => flashkit_nor::NorFlashErrorKind::OutOfBounds,
            _ => flashkit_nor::NorFlashErrorKind::Other,
        }
    }
}

//! Simulated NAND chips: strict about their callers, nasty in their physics, exact in their
//! costs.
//!
//! [`SimNand`] is a chip in RAM or in an image file. It panics when the software above breaks a promise of the
//! [`flashkit_nand`] contract, and only then; faults of the medium are
//! reported as the contract says. A virtual clock advances by the chip's [`Timing`], so that a
//! run has a flash time that no noise of the machine changes.

#![forbid(unsafe_code)]

mod backing;
mod block;
mod chip;
mod count;
mod error;
mod fault;
mod fault_text;
mod image;
mod meter;
mod powercut;
mod preset;
mod raw;
mod rng;
mod tear;
mod trace;

pub use chip::SimNand;
pub use count::Count;
pub use error::SimError;
pub use fault::{Faults, FaultsError, Rate, Weak};
pub use image::{Access, ImageError};
pub use meter::{Counters, Metered};
pub use powercut::{Cut, CutError, PowerCut};
pub use preset::{ChipSpec, DEFAULT_PRESET, Preset, Timing, preset, presets};
pub use rng::Rng;
pub use tear::{EraseTear, Tear, Tearable};
pub use trace::{OpKind, Outcome, Trace, TraceOp};

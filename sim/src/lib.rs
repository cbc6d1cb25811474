//! Simulated NAND chips: strict about their callers, nasty in their physics, exact in their
//! costs.
//!
//! [`SimNand`] is a chip in RAM. It panics when the software above breaks a promise of the
//! [`flashkit_nand`] contract, and only then; faults of the medium are
//! reported as the contract says. A virtual clock advances by the chip's [`Timing`], so that a
//! run has a flash time that no noise of the machine changes.

#![forbid(unsafe_code)]

mod block;
mod chip;
mod error;
mod meter;
mod preset;
mod rng;

pub use chip::SimNand;
pub use error::SimError;
pub use meter::{Counters, Metered};
pub use preset::{ChipSpec, DEFAULT_PRESET, Preset, Timing, preset, presets};
pub use rng::Rng;

//! Counts of flash operations, and who tells them.
//!
//! A [`Metered`] chip or a [`MeteredCard`] may be simulated, real, or a wrapper of either: what
//! measures one needs to know no more of it than this crate.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod card;
mod chip;

pub use card::{CardCounters, MeteredCard};
pub use chip::{Counters, Metered};

//! The translation layer on simulated chips. One program, which is linked once.

mod common;
mod cost;
mod damage;
mod failing;
mod hostile;
mod life;
mod model;
#[cfg(feature = "journals")]
mod nonsense;
#[cfg(feature = "journals")]
mod pack;
mod powercut;
#[cfg(feature = "journals")]
mod remap;
mod rough;
mod vanish;

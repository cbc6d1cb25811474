//! The translation layer on simulated chips. One program, which is linked once.

mod common;
mod cost;
mod damage;
mod failing;
mod hostile;
mod model;
mod nonsense;
mod pack;
mod powercut;
mod remap;
mod vanish;

//! The rules of the house, checked on its own sources: which floor may use which, which layer of
//! FlashLight which, how long files, functions and comment lines may be. `tests/house.rs` runs
//! them all; each has unit tests with made-up sources that break it.
//!
//! A rule gives its findings as lines for a person, sorted; none is good.

#![forbid(unsafe_code)]

pub mod allowed;
pub mod columns;
pub mod floors;
pub mod layers;
pub mod lexer;
pub mod programs;
pub mod sizes;
pub mod tree;

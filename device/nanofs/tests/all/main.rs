//! Nano-FS on simulated cards. One program, which is linked once.

mod bad_input;
mod basics;
mod common;
mod costs;
mod history;
mod model;
mod powercut;
mod read_errors;
mod rescue;

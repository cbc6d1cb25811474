//! Media made to deceive: what the fuzz targets do with their input.
//!
//! One module for each target, each with a function `run(&[u8])` that returns whatever the bytes,
//! or panics: that is a finding. The targets in `fuzz/` call these and nothing else, and the tests
//! here run the stored inputs through the same functions without a fuzzer.
//!
//! * [`volume`]: mount, check, read and change a volume of which pages have been changed.
//! * [`record`]: the decoders of single pages.
//! * [`trace`]: the parser of traces.
//! * [`operations`]: operations and power cuts, against the model.
//! * [`mod@file`]: the simulator's image files.
//! * [`nor`]: a log disk on a chip of which records have been changed.
//! * [`nbd`]: the NBD server, and clients that say anything.
//! * [`mount`]: requests to a mount, in any order, of a volume that is sound or not.
//! * [`cp`]: a volume copied out to the host, whatever names it has.

#![forbid(unsafe_code)]

pub mod cp;
pub mod edit;
pub mod file;
mod guard;
pub mod image;
mod input;
pub mod mount;
pub mod nbd;
pub mod nor;
pub mod operations;
pub mod record;
pub mod seal;
pub mod trace;
pub mod volume;

pub use guard::Guard;
pub use input::mutate;

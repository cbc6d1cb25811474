//! Nano-FS on the host.

pub mod check;
mod fs;

pub use fs::{KEEP_HANDLES, NanoFsFs};

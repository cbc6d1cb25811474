//! Nano-FS on the host.

pub mod check;

//! A Linux guest with simulated NAND, for the file systems that live in a kernel: UBIFS and JFFS2.
//!
//! Kernel and tools are Debian's own packages. They are fetched once and kept in the user's cache
//! folder; nothing is installed, and neither fetching nor running needs root. The guest has no
//! disk and no network: an archive in RAM that is made for each run, and one folder of the host,
//! where a job finds its files and leaves its results.
//!
//! | module | what it does |
//! | --- | --- |
//! | `image` | `fetch.sh`: packages to a folder; which modules a job needs |
//! | `archive` | the initial RAM disk |
//! | `run` | QEMU, with a time limit |
//!
//! A guest takes about 10 seconds and does not need KVM, so it runs where containers run.

#![forbid(unsafe_code)]

mod archive;
mod error;
mod image;
mod run;

pub use error::Error;
pub use image::{Image, LIBRARIES, MODULES, TOOLS};
pub use run::{Finished, Job, version as qemu_version};

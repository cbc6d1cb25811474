//! The file-system interface, its paths, and the reference in memory.
//! One program, which is linked once.

mod memory;
mod paths;

//! The file-system interface, its paths, the reference in memory, and images when the host crashes.
//! One program, which is linked once.

mod crashes;
mod listings;
mod memory;
mod paths;

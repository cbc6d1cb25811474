//! The simulated chips against their contract. One program, which is linked once.

mod common;
mod crashes;
mod faults;
mod images;
mod nor;
mod strict;
mod tears;

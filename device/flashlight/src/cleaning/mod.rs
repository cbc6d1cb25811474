//! Room: blocks with few valid pages are emptied, levelled by wear, written anew when their bits age.
//!
//! Knows `checkpoint` and what is below.
//!
//! Invariants: cleaning wins more than it takes, or is not begun; each path may take free blocks only down to a
//! floor of its own, which `room` says; what cannot be moved stays where it is.

pub(crate) mod gc;
pub(crate) mod levelling;
pub(crate) mod moves;
pub(crate) mod overridden;
pub(crate) mod refresh;
pub(crate) mod room;
pub(crate) mod spill;
pub(crate) mod sweep;

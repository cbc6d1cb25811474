//! The state of the volume on flash in one or two pages, and where a mount finds it.
//!
//! Knows `index`, whose caches it writes out first, and what is below.
//!
//! Invariants:
//! * A checkpoint names every block in use and every root.
//! * The one before it stays readable until the new one is.
//! * What it frees is erased only after it.

pub(crate) mod anchor;
pub(crate) mod consistency;
pub(crate) mod encode;
pub(crate) mod root;
pub(crate) mod take;

use crate::checkpoint::anchor::Anchor;
use crate::index::Index;
use flashkit_nand::Nand;

/// The index, and where the checkpoint lies from which a mount comes back to it.
pub(crate) struct Durable<'r, N: Nand> {
    pub index: Index<'r, N>,
    pub anchor: Anchor,
    /// Bytes that the caller has given.
    pub ram: usize,
}

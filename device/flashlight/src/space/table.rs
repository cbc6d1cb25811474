//! State of every erase block, one byte each (two where a block has more than 120 pages).
//!
//! The paper's bitmap holds one bit a block: free or not. Here the same page holds the number of
//! valid pages, so that a victim is found without reading, a block whose last page becomes
//! invalid is known at once, and no cap on the number of dirty blocks is needed for correctness.

use crate::format::blockstate::Entries;
use crate::format::wellformed::blocks;
use crate::space::paged::Paged;
use flashkit_nand::Geometry;

/// The table, in the caller's RAM: all of it, or a part of what is on flash
/// ([`crate::space::paged`]).
pub(crate) struct Table<'r> {
    /// All of the table, or pages of it.
    pub bytes: &'r mut [u8],
    pub entries: Entries,
    pub blocks: u32,
    /// What the table on flash needs besides.
    pub paged: Option<Paged<'r>>,
}

impl<'r> Table<'r> {
    pub fn new(bytes: &'r mut [u8], geo: &Geometry) -> Self {
        Table {
            bytes,
            entries: Entries::of(geo.pages_per_block()),
            blocks: blocks(geo),
            paged: None,
        }
    }
}

impl Table<'_> {
    /// Bytes of what a snapshot holds of it.
    pub fn snapshot_len(&self) -> usize {
        match self.paged {
            Some(_) => 0,
            None => self.blocks as usize * self.entries.size(),
        }
    }

    #[inline]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

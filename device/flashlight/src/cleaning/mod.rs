//! Room: blocks with few valid pages are emptied, levelled by wear, written anew when their bits
//! age.
//!
//! Knows `checkpoint` and what is below.
//!
//! Invariants:
//! * Cleaning wins more than it takes, or is not begun.
//! * Each path may take free blocks only down to a floor of its own, which `room` says.
//! * What cannot be moved stays where it is.

pub(crate) mod gc;
pub(crate) mod job;
pub(crate) mod levelling;
pub(crate) mod moves;
pub(crate) mod overridden;
pub(crate) mod refresh;
pub(crate) mod room;
pub(crate) mod spill;

use crate::checkpoint::Durable;
use crate::cleaning::gc::DirtyLimit;
use crate::cleaning::job::CleanJob;
use crate::index::Index;
use crate::space::store::Store;
use flashkit_nand::Nand;

/// A volume that makes room for what is written to it.
pub(crate) struct Volume<'r, N: Nand> {
    pub durable: Durable<'r, N>,
    /// How long the dirty list may be, with the paper's policy.
    pub dirty_limit: Option<DirtyLimit>,
    /// The block that is being cleaned.
    pub job: Option<CleanJob>,
    /// What cleaning may cost now, in reads; negative when it has cost more than its share.
    pub credit: i32,
    /// Pages of data written when pages that files do not show any more were looked for last in
    /// vain, and a block's worth.
    pub looked_for_overridden: u64,
}

impl<'r, N: Nand> Volume<'r, N> {
    #[inline]
    pub(crate) fn index(&self) -> &Index<'r, N> {
        &self.durable.index
    }

    #[inline]
    pub(crate) fn index_mut(&mut self) -> &mut Index<'r, N> {
        &mut self.durable.index
    }

    #[inline]
    pub(crate) fn store(&self) -> &Store<'r, N> {
        &self.durable.index.store
    }

    #[inline]
    pub(crate) fn store_mut(&mut self) -> &mut Store<'r, N> {
        &mut self.durable.index.store
    }
}

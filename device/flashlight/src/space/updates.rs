//! Blocks of updates: how many there are, and whether another may be taken.

use crate::format::area::{LogArea, UPDATE};
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::tag;
use crate::space::store::Store;
use flashkit_nand::Nand;

/// Pages at the end of a file at most: with more of them the inode page weighs little, and they had
/// better lie in the file's own block than among what is overwritten.
pub(crate) const GROWTH: usize = 4;

/// Blocks that one update may have reserved, with some to spare for programs that fail.
pub(crate) const BLOCKS_MARGIN: usize = 12;

/// Free blocks that recoveries may need beside those for what the updates have changed: for each
/// page of them a map page, an index page and a quarter of an inode page at most.
pub(crate) const FOR_REPLAY: u32 = 15;

impl<N: Nand> Store<'_, N> {
    /// Whether a recovery could replay more updates.
    pub(crate) fn takes_updates(&self) -> bool {
        self.has_updates()
            && self.update_blocks + BLOCKS_MARGIN <= UPDATE_BLOCKS
            && self.spent() + FOR_REPLAY + self.updates * 3 / (2 * self.ppb())
                <= self.free_at_checkpoint
    }

    /// Counts what is reserved for updates, after a checkpoint.
    pub fn count_updates(&mut self) {
        self.updates = 0;
        let reserved = self.log.reserves[..self.log.reserved].iter();
        let reserved = reserved.filter(|r| r.1 == LogArea::Update as u8).count();
        self.update_blocks = reserved + usize::from(self.data_heads[UPDATE].block != u32::MAX);
    }

    /// Whether there is room for the tags of updates.
    pub fn has_updates(&self) -> bool {
        self.geo.spare_size() as usize >= tag::UPDATE_SIZE
    }

    /// Blocks that a recovery from the last checkpoint cannot have, though they were free: those
    /// taken since, and those reserved.
    pub(crate) fn spent(&self) -> u32 {
        self.taken + self.log.reserved as u32
    }
}

//! Blocks of updates: how many there are, and whether another may be taken.

use crate::format::area::{LogArea, UPDATE};
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::tag::{self, Form};
use crate::space::block_list::BlockList;
use crate::space::since::SinceCheckpoint;
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

/// Blocks of updates that a recovery has not looked through yet, in the order in which they were
/// taken.
#[derive(Clone, Copy, Default)]
pub(crate) struct UpdateBlocks {
    pub blocks: BlockList<UPDATE_BLOCKS>,
    /// The page of the first of them from which on updates are looked for.
    pub from: u32,
}

impl UpdateBlocks {
    /// Adds a block. If it is the first, it holds updates from this page on.
    pub fn add(&mut self, block: u32, from: u32) {
        if self.blocks.len() == 0 {
            self.from = from;
        }
        self.blocks.push(block as u16);
    }
}

impl<N: Nand> Store<'_, N> {
    /// Whether a recovery could replay more updates.
    pub(crate) fn takes_updates(&self) -> bool {
        self.has_updates()
            && self.since.update_blocks as usize + BLOCKS_MARGIN <= UPDATE_BLOCKS
            && self.spent() + FOR_REPLAY + self.since.updates * 3 / (2 * self.ppb())
                <= self.since.free_before
    }

    /// After a checkpoint: nothing has been written since. What is reserved for updates counts as
    /// theirs.
    pub fn begin_since(&mut self) {
        let reserved = self.log.reserves[..self.log.reserved].iter();
        let reserved = reserved.filter(|r| r.1 == LogArea::Update as u8).count();
        let open = self.heads.data[UPDATE].block != u32::MAX;
        self.since = SinceCheckpoint {
            free_before: self.since.free_before,
            update_blocks: reserved as u32 + u32::from(open),
            ..SinceCheckpoint::default()
        };
    }

    /// Whether there is room for the tags of updates.
    pub fn has_updates(&self) -> bool {
        match self.tags {
            Some(Form::Short) => true,
            Some(Form::Wide) => self.geo.spare_size() as usize >= tag::UPDATE_SIZE,
            None => false,
        }
    }

    /// Blocks that a recovery from the last checkpoint cannot have, though they were free: those
    /// taken since, and those reserved.
    pub(crate) fn spent(&self) -> u32 {
        self.since.taken + self.log.reserved as u32
    }
}

//! Giving up blocks: what files list as trash becomes dirty, what is dirty becomes free.
//!
//! A block becomes dirty while the file's header still names it as trash, and that header is
//! replaced before any dirty block is cleaned. So a cut at any point finds the block either named
//! or dirty, and a block that is named was never written by someone else.

use flashkit_block::BlockDevice;

use crate::header::{COPIES_MAX, TRASH_COUNT, TRASH_HEAD, TRASH_NEXT, TRASH_TOP};
use crate::map::{DIRTY, TO_DIRTY, TO_FREE};
use crate::{Error, NanoFs, Result};

/// Blocks that a trim command may have for the price of one operation.
pub const TRIM: u32 = 64;
/// Operations that another block of the bitmap takes at most.
const MAP_COST: u32 = 4;
/// Operations that a node of a list that is given up takes at most, and the header that follows.
const NODE_COST: u32 = 1 + MAP_COST + 2;
/// Operations that a file with trash takes at most, with one node of its list.
const FILE_COST: u32 = 1 + (COPIES_MAX + 1) * (MAP_COST + 2) + NODE_COST;
/// Operations that a run of blocks takes at most, told of by two blocks of the bitmap, and what has
/// changed there.
const RUN_COST: u32 = 4 * MAP_COST + 2;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// Settles the file in RAM: brings overwritten nodes home, and gives up what it lists as trash;
    /// of its list so many nodes that they take at most `budget` operations. `left` is what is left
    /// of it.
    #[inline(never)]
    pub(crate) fn settle(&mut self, budget: u32) {
        self.left = budget;
        if !self.has_trash() || !self.ok() {
            return;
        }
        self.put_away();
        self.bring_home();
        let next = self.get(TRASH_NEXT);
        if next != 0 {
            self.mark(next, TO_DIRTY);
            self.set(TRASH_NEXT, 0);
        }
        while self.get(TRASH_COUNT) != 0 && self.left >= NODE_COST && self.ok() {
            let index = self.get(TRASH_TOP).wrapping_sub(1);
            self.load_node(index, self.get(TRASH_HEAD));
            self.mark(self.node_block(), TO_DIRTY);
            self.set(TRASH_HEAD, self.pointer(0));
            self.set(TRASH_TOP, index);
            self.set(TRASH_COUNT, self.get(TRASH_COUNT) - 1);
            if self.forgive(Error::BadNode) {
                // Nothing leads to the rest: it is lost until the volume is made anew.
                self.set(TRASH_COUNT, 0);
            }
        }
        self.dirty_left = 2 * (self.blocks - self.data) as i32;
        // What is there is no node of the file any more.
        self.forget_buffer();
        self.map_store();
        self.write_header();
    }

    /// Cleans, with at most `budget` operations (reads of a block, writes of a block, trims of 64
    /// blocks): brings overwritten nodes home and gives up the blocks of deleted data, then trims
    /// dirty blocks and makes them free, long runs first. Whether more is left. Less than 140
    /// operations do nothing.
    ///
    /// To be called when there is nothing else to do. A write that finds no free block does it
    /// itself, without limit.
    pub fn clean(&mut self, budget: u32) -> Result<bool> {
        let more = self.clean_some(budget);
        self.end().map(|()| more)
    }

    /// Cleans with at most `budget` operations; whether more is left to be done.
    #[inline(never)]
    pub(crate) fn clean_some(&mut self, budget: u32) -> bool {
        self.evict();
        self.left = budget;
        while self.trash_slot != 0 && self.ok() {
            if self.left < FILE_COST {
                return true;
            }
            let slot = self.trash_slot.into();
            self.trash_slot += 1;
            if slot >= self.end {
                self.trash_slot = 0;
            } else if slot != self.spare {
                self.fetch_slot(slot);
                self.slot = slot;
                self.settle(self.left);
                self.forget();
            }
        }
        let more = self.clean_dirty();
        if !more {
            self.map_store();
        }
        more
    }

    /// Trims dirty blocks and makes them free, with at most `left`
    /// operations; whether more is left.
    ///
    /// All blocks are looked at twice, the first time for long runs only.
    fn clean_dirty(&mut self) -> bool {
        while self.dirty_left > 0 {
            if self.left < RUN_COST || !self.ok() {
                return true;
            }
            if self.dirty_at >= self.blocks {
                self.dirty_at = self.data;
            }
            let first = self.dirty_at;
            let mut n = 0;
            while n < TRIM && first + n < self.blocks && self.state(first + n) == DIRTY {
                n += 1;
            }
            if n == TRIM || n > 0 && self.dirty_left as u32 <= self.blocks - self.data {
                self.clean_run(first, n);
            }
            let seen = n.max(1);
            self.dirty_at += seen;
            self.dirty_left -= seen as i32;
        }
        false
    }

    /// Cleans dirty blocks in a row.
    #[inline(always)]
    fn clean_run(&mut self, first: u32, n: u32) {
        self.barrier();
        self.left = self.left.wrapping_sub(1);
        if self.ok()
            && let Err(error) = self.dev.trim(first, n)
        {
            self.device_failed(error);
        }
        for block in first..first + n {
            self.mark(block, TO_FREE);
        }
    }
}

//! Giving up blocks: what files list as trash becomes dirty, what is dirty becomes free.
//!
//! A block becomes dirty while the file's header still names it as trash, and that header is
//! replaced before any dirty block is cleaned. So a cut at any point finds the block either named
//! or dirty, and a block that is named was never written by someone else.

use flashkit_block::BlockDevice;

use crate::header::{COPIES_MAX, DELETED, FLAGS, TRASH_HEAD, TRASH_NEXT, TRASH_TOP};
use crate::map::{DIRTY, FREE, MAPPED};
use crate::{Error, NONE, NanoFs, Result};

/// Blocks that a trim command may have for the price of one operation.
pub const TRIM: u32 = 64;
/// Operations that another block of the bitmap takes at most.
const MAP_COST: u32 = 4;
/// Operations that a node of a list that is given up takes at most.
const NODE_COST: u32 = 1 + MAP_COST;
/// Operations that a file with trash takes at most, with one node of its list.
const FILE_COST: u32 = 5 + (COPIES_MAX + 1) * (MAP_COST + 2) + NODE_COST;

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
            self.mark(next, DIRTY);
            self.set(TRASH_NEXT, 0);
        }
        while self.has_chain() && self.left >= NODE_COST {
            let index = self.get(TRASH_TOP) - 1;
            self.left -= NODE_COST;
            self.load_node(index, self.get(TRASH_HEAD));
            self.mark(self.read_at + self.node_at, DIRTY);
            self.set(TRASH_HEAD, self.pointer(0));
            self.set(TRASH_TOP, index);
            if self.forgive(Error::BadNode) {
                // Nothing leads to the rest: it is lost until the volume is made anew.
                self.set(TRASH_TOP, 0);
            }
            if !self.ok() {
                return;
            }
        }
        if !self.has_chain() {
            if self.get(FLAGS) & DELETED != 0 {
                self.set(FLAGS, 0);
            }
            self.dirty_left = 2 * self.maps;
        }
        // What is there is no node of the file any more.
        self.forget_buffer();
        self.map_store();
        self.write_header();
    }

    /// Cleans, with at most `budget` operations (reads of a block, writes of a block, trims of 64
    /// blocks): brings overwritten nodes home and gives up the blocks of deleted data, then trims
    /// dirty blocks and makes them free, long runs first. Whether more is left. Less than 142
    /// operations do nothing.
    ///
    /// To be called when there is nothing else to do. A write that finds no free block does it
    /// itself, without limit.
    pub fn clean(&mut self, budget: u32) -> Result<bool> {
        self.evict();
        self.left = budget;
        let more = self.clean_some();
        self.end().map(|()| more)
    }

    /// Cleans all there is.
    #[inline(never)]
    pub(crate) fn reclaim(&mut self) {
        self.evict();
        self.left = NONE;
        while self.clean_some() && self.ok() {
            self.left = NONE;
        }
    }

    /// Cleans with at most `left` operations; whether more is left to be done.
    fn clean_some(&mut self) -> bool {
        while self.trash_slot != 0 && self.ok() {
            if self.left < FILE_COST {
                return true;
            }
            let slot = self.trash_slot;
            self.trash_slot += 1;
            if slot >= self.end {
                self.trash_slot = 0;
            } else if slot != self.spare {
                self.fetch_slot(slot);
                self.slot = slot;
                self.settle(self.left - FILE_COST + NODE_COST);
                self.forget();
            }
        }
        while self.dirty_left > 0 && self.ok() {
            if self.left < MAP_COST {
                return true;
            }
            self.left -= MAP_COST;
            if self.dirty_at >= self.blocks {
                self.dirty_at = self.data;
            }
            // Long runs first.
            let length = if self.dirty_left > self.maps { TRIM } else { 1 };
            if !self.clean_runs(length) {
                return true;
            }
            self.dirty_left -= 1;
            self.dirty_at += MAPPED;
        }
        self.map_store();
        false
    }

    /// Cleans runs of at least so many dirty blocks that one block of the bitmap tells of; whether
    /// the budget was enough.
    fn clean_runs(&mut self, length: u32) -> bool {
        let mut block = self.dirty_at;
        let end = self.blocks.min(block + MAPPED);
        let mut n = 0;
        while block < end && self.ok() {
            let is_dirty = self.state(block) == DIRTY;
            block += 1;
            n += u32::from(is_dirty);
            if n == 0 || is_dirty && block < end && n < TRIM {
                continue;
            }
            if n >= length {
                if self.left == 0 {
                    return false;
                }
                self.left -= 1;
                self.clean_run(block - n - u32::from(!is_dirty), n);
            }
            n = 0;
        }
        true
    }

    /// Cleans dirty blocks in a row.
    fn clean_run(&mut self, first: u32, n: u32) {
        self.barrier();
        if self.ok()
            && let Err(error) = self.dev.trim(first, n)
        {
            self.device_failed(error);
        }
        for block in first..first + n {
            self.mark(block, FREE);
        }
    }
}

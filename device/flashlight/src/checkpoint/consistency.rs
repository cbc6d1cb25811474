//! Whether what a checkpoint says of blocks agrees in itself: each block has one use.

use crate::checkpoint::Durable;
use crate::error::{Damaged, Fault};
use crate::format::area::{HEADS, Head, LogArea, UPDATE};
use crate::format::blockstate::BlockState;
use crate::format::limits::{BITMAP_BLOCKS, CHAIN};
use crate::space::latch::Stopped;
use flashkit_nand::{Nand, PageAddr};

/// Blocks of the checkpoint and of the allocation log at most, but the roots'.
const SYSTEM_MOST: usize = 4 + CHAIN + BITMAP_BLOCKS;

/// Blocks met so far, beyond those kept for roots.
pub(crate) struct SeenBlocks {
    pub(crate) roots: u32,
    pub(crate) blocks: u32,
    pub(crate) list: [u32; 128],
    pub(crate) len: usize,
}

impl<N: Nand> Durable<'_, N> {
    /// Whether the checkpoint and the block table that have been loaded agree with each other: each
    /// block has one use, which is that of its state. No reads.
    ///
    /// A table that lies on flash is asked when something is to be written for the first time
    /// ([`Durable::compare_states`]).
    pub(crate) fn is_consistent(&mut self) -> bool {
        self.has_one_use_each() && (self.index.store.table.paged.is_some() || self.states_agree())
    }

    /// Compares what the checkpoint names with a block table that lies on flash, once. Some reads.
    pub(crate) fn compare_states(&mut self) -> Result<(), Fault> {
        if self
            .index
            .store
            .table
            .paged
            .as_ref()
            .is_none_or(|p| p.compared)
        {
            return Ok(());
        }
        self.own_system_blocks();
        if !self.states_agree() {
            self.index.store.nand.stop(Stopped::BlockTable);
            return Err(self
                .index
                .store
                .nand
                .damaged(PageAddr::NONE, Damaged::Table));
        }
        if let Some(p) = &mut self.index.store.table.paged {
            p.compared = true;
        }
        Ok(())
    }

    /// Blocks that lead to the checkpoint are its own, also where it says that they are over.
    fn own_system_blocks(&mut self) {
        let mut named = [0; SYSTEM_MOST];
        for &block in self.system_blocks(&mut named) {
            let s = &mut self.index.store;
            match s.state(block) {
                BlockState::Free | BlockState::Clean => {
                    s.tally.free = s.tally.free.saturating_sub(1);
                }
                BlockState::Dead => s.tally.dead = s.tally.dead.saturating_sub(1),
                _ => continue,
            }
            s.set_state(block, BlockState::System);
        }
    }

    /// Whether no block is named twice by what has been loaded, and none that there is not.
    fn has_one_use_each(&self) -> bool {
        let (s, a) = (&self.index.store, &self.anchor);
        let mut seen = SeenBlocks::new(a.last_root, s.table.blocks());
        let log = s.heads.log[LogArea::Bitmap as usize];
        let bitmap = s.log.blocks.as_slice();
        let pages = (0..self.index.map.roots.len() / 4).map(|i| self.index.map.root(i));
        let mut named = [0; SYSTEM_MOST];
        let may_be = |h: Head, seen: &mut SeenBlocks| h.next <= s.ppb() && seen.note(h.block);
        a.last_root < s.table.blocks()
            && (self.system_blocks(&mut named).iter()).all(|&block| seen.note(block))
            && (log.block == u32::MAX || bitmap.iter().any(|&b| u32::from(b) == log.block))
            && s.heads.log[1..]
                .iter()
                .filter(|h| h.block != u32::MAX)
                .all(|h| seen.note(h.block))
            && (0..s.remnants.len).all(|i| may_be(s.remnants.get(i), &mut seen))
            && [s.heads.data[UPDATE], s.table.head()]
                .iter()
                .all(|h| h.block == u32::MAX || may_be(*h, &mut seen))
            && s.heads.log.iter().all(|h| h.next <= s.ppb())
            && s.log.reserves[..s.log.reserved]
                .iter()
                .all(|&(block, area)| area <= LogArea::Update as u8 && seen.note(block.into()))
            && (s.failing.0.iter().map(|b| u32::from(*b)))
                .all(|b| b == u16::MAX.into() || b < s.table.blocks())
            && { pages }.all(|page| page.is_none() || page.0 < s.table.blocks() * s.ppb())
    }

    /// Blocks of the checkpoint but the roots', and of the allocation log.
    fn system_blocks<'a>(&self, named: &'a mut [u32; SYSTEM_MOST]) -> &'a [u32] {
        let (s, a) = (&self.index.store, &self.anchor);
        let mut len = 0;
        let mut push = |block: u32| {
            if let Some(place) = named.get_mut(len) {
                *place = block;
                len += 1;
            }
        };
        push(a.second);
        push(a.leaf.block);
        a.chain[..a.chained].iter().for_each(|&block| push(block));
        for &block in &a.next_leaves {
            if block != u32::MAX {
                push(block);
            }
        }
        for &block in s.log.blocks.as_slice() {
            push(block.into());
        }
        &named[..len]
    }

    /// Whether the states of the blocks that the checkpoint names are those of their uses.
    #[inline(never)]
    fn states_agree(&mut self) -> bool {
        let mut named = [0; SYSTEM_MOST];
        let named = self.system_blocks(&mut named);
        let (last_root, s) = (self.anchor.last_root, &mut self.index.store);
        let ppb = s.ppb();
        // Those of a page of the table have been looked at when that was read.
        let counts_fit = s.table.paged.is_some()
            || (0..s.table.blocks()).all(|block| s.valid_pages(block) <= ppb);
        // What was taken while the checkpoint was being written is not in its table.
        let is_used = |state| matches!(state, BlockState::Meta(_) | BlockState::Data(_));
        let is_log = |state, next| matches!(state, BlockState::Meta(n) if n <= next);
        let is_tail = |state, next| matches!(state, BlockState::Data(n) if n <= next);
        counts_fit
            && !(0..=last_root).any(|block| is_used(s.state(block)))
            && !named.iter().any(|&block| is_used(s.state(block)))
            && (1..HEADS).all(|i| {
                let Head { block, next } = s.heads.log[i];
                block == u32::MAX || is_log(s.state(block), next)
            })
            && {
                let Head { block, next } = s.table.head();
                block == u32::MAX || is_log(s.state(block), next)
            }
            && (0..s.remnants.len).all(|i| {
                let Head { block, next } = s.remnants.get(i);
                is_tail(s.state(block), next)
            })
            && {
                let Head { block, next } = s.heads.data[UPDATE];
                block == u32::MAX || is_tail(s.state(block), next)
            }
            && (0..s.log.reserved).all(|i| s.is_free(s.log.reserves[i].0.into()))
    }
}

impl SeenBlocks {
    /// None but the blocks up to this one, of so many.
    fn new(last_root: u32, blocks: u32) -> Self {
        SeenBlocks {
            roots: last_root,
            blocks,
            list: [0; 128],
            len: 0,
        }
    }

    /// Notes a block; `false` if it was met before, or there is no such.
    fn note(&mut self, block: u32) -> bool {
        let is_new = block > self.roots
            && block < self.blocks
            && self.len < self.list.len()
            && !self.list[..self.len].contains(&block);
        if is_new {
            self.list[self.len] = block;
            self.len += 1;
        }
        is_new
    }
}

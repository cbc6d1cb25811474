//! Pages that are valid, and those that are so no more.

use crate::error::Fault;
use crate::format::area::{Head, LogArea};
use crate::format::blockstate::BlockState;
use crate::format::checkpoint::FAILING_BLOCKS;
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

impl<N: Nand> Store<'_, N> {
    /// Valid pages of a block of metadata or file data.
    pub fn valid_pages(&mut self, block: u32) -> u32 {
        match self.state(block) {
            BlockState::Meta(n) | BlockState::Data(n) => n,
            _ => 0,
        }
    }

    /// Pages of maps that files' or directories' inodes name, written since the mount.
    pub fn map_writes(&self) -> u64 {
        self.written.areas[LogArea::Hash as usize] + self.written.areas[LogArea::Extent as usize]
    }

    /// Whether a block belongs to the allocation log.
    pub fn is_log(&self, block: u32) -> bool {
        self.log.blocks.contains(block)
    }

    /// A block is not written any more, and not continued. One of which nothing is valid is dead.
    pub fn let_go(&mut self, block: u32) {
        self.heads.let_go(block);
        if self.table.head().block == block {
            self.table.set_head(Head::NONE);
        }
        if let Some(i) = self.remnants.find(block) {
            self.remnants.remove(i);
        }
        self.close(block);
    }

    /// Pages of a block that have been programmed, all of them if it is closed.
    pub fn programmed(&self, block: u32) -> u32 {
        let table = Some(self.table.head()).filter(|head| head.block == block);
        if let Some(head) = self.heads.find(block).or(table) {
            return head.next;
        }
        self.remnants
            .find(block)
            .map_or(self.ppb(), |i| self.remnants.get(i).next)
    }

    /// Counts a page as valid.
    pub fn validate(&mut self, at: PageAddr) {
        let block = self.geo.block_of(at).0;
        match self.state(block) {
            BlockState::Meta(n) if n < self.ppb() => self.set_state(block, BlockState::Meta(n + 1)),
            BlockState::Data(n) if n < self.ppb() => self.set_state(block, BlockState::Data(n + 1)),
            _ => return,
        }
        self.tally.live += 1;
        if let Some(i) = self.dirty.find(block) {
            self.dirty.set(i, self.geo.index_of(at), true);
        }
    }

    /// Counts a page as invalid. A block whose last valid page this was is dead. At times what
    /// [`Store::table_write_back`] costs.
    pub fn invalidate(&mut self, at: PageAddr, _: MayProgram) {
        self.invalidate_run(at.0, 1, MayProgram);
    }

    /// The same with a run of pages, by blocks. What is not on the chip is left out.
    pub fn invalidate_run(&mut self, page: u32, count: u32, _: MayProgram) {
        self.scratch_holds.forget_if_in(PageAddr(page), count);
        let (mut at, end) = (page, page.saturating_add(count).min(self.geo.pages()));
        loop {
            self.table_write_back(MayProgram);
            if at >= end {
                return;
            }
            let place = PageAddr(at);
            let (block, index) = (self.geo.block_of(place).0, self.geo.index_of(place));
            let left = (self.ppb() - index).min(end - at);
            at += match self.recovery.as_ref().map(|r| r.lost_from(block)) {
                None => self.invalidate_in_block(place, left),
                Some(lost) if index < lost && self.valid_pages(block) > 0 => {
                    self.invalidate_in_block(place, left.min(lost - index))
                }
                // None of these counts.
                Some(_) => left,
            };
            if at >= end {
                return;
            }
        }
    }

    /// Counts so many pages of a block as invalid; gives their number.
    fn invalidate_in_block(&mut self, at: PageAddr, pages: u32) -> u32 {
        let all = pages;
        let (block, index) = (self.geo.block_of(at).0, self.geo.index_of(at));
        let (count, state): (u32, fn(u32) -> BlockState) = match self.state(block) {
            BlockState::Meta(n) if n > 0 => {
                self.nand.pages.forget(at, pages);
                (n, BlockState::Meta)
            }
            BlockState::Data(n) if n > 0 => (n, BlockState::Data),
            _ => return all,
        };
        let pages = pages.min(count);
        self.set_state(block, state(count - pages));
        self.tally.live = self.tally.live.saturating_sub(pages);
        if count == pages
            && !self.is_open(block)
            && !self.table.is_own(block)
            && !self.recovery.as_ref().is_some_and(|r| r.is_opened(block))
        {
            self.kill(block);
            return all;
        }
        let listed = match self.dirty.find(block) {
            None if count == self.programmed(block) || self.validity.has(block) => {
                Some(self.list(block, self.programmed(block)))
            }
            listed => listed,
        };
        if let Some(i) = listed {
            for page in index..index + pages {
                self.dirty.set(i, page, false);
            }
        }
        all
    }

    /// Puts a block on the dirty list whose first `programmed` pages are all valid,
    /// or not known to be invalid.
    pub fn list(&mut self, block: u32, programmed: u32) -> usize {
        let i = self.dirty.add(block, programmed);
        self.nand.pages.yield_to(self.dirty.spare().len());
        i
    }

    /// After a checkpoint: dead blocks are free. Those that have failed are bad; without `marking`,
    /// which writes, they stay dead until the next checkpoint.
    pub fn free_dead(&mut self, marking: bool) -> Result<(), Fault> {
        self.wear.ready = true;
        if marking {
            self.mark_failed()?;
        }
        self.since.free_before = self.unreserved();
        if self.tally.dead == 0 && self.table.paged.is_none() {
            return Ok(());
        }
        let mut failed = self.failing.0;
        for slot in 0..failed.len() {
            let block = failed[slot];
            let is_dead = block != u16::MAX && self.state(block.into()) == BlockState::Dead;
            if !is_dead || failed[..slot].contains(&block) {
                failed[slot] = u16::MAX;
            }
        }
        self.table.free_dead();
        let freed = core::mem::take(&mut self.tally.dead);
        self.tally.free += freed;
        for (slot, block) in failed.into_iter().enumerate() {
            if block == u16::MAX {
                continue;
            }
            self.set_state(block.into(), BlockState::Dead);
            self.tally.free = self.tally.free.saturating_sub(1);
            if marking {
                self.failing.0[slot] = u16::MAX;
                self.mark_bad(block.into())?;
            } else {
                self.tally.dead += 1;
            }
        }
        Ok(())
    }

    /// Blocks that the checkpoint calls bad because they have failed, or free, because they had
    /// been taken when its block table was on flash: whoever wrote it may not have come to mark
    /// them, and they wait no longer.
    fn mark_failed(&mut self) -> Result<(), Fault> {
        for slot in 0..FAILING_BLOCKS {
            let block = u32::from(self.failing.0[slot]);
            if block == u16::MAX.into() || self.is_reserved(block) {
                continue;
            }
            match self.state(block) {
                BlockState::Bad if self.nand.is_bad(BlockAddr(block))?.is_true() => {}
                BlockState::Bad => self.nand.mark_bad(BlockAddr(block))?,
                BlockState::Free | BlockState::Clean => {
                    self.tally.free = self.tally.free.saturating_sub(1);
                    self.mark_bad(block)?;
                }
                _ => continue,
            }
            self.failing.0[slot] = u16::MAX;
        }
        Ok(())
    }

    /// An open block has not failed, whatever a checkpoint says: it could until commit 50e3ca0,
    /// which took blocks that had failed again.
    pub fn forget_open_failed(&mut self) {
        for slot in 0..FAILING_BLOCKS {
            let block = u32::from(self.failing.0[slot]);
            if block != u16::MAX.into()
                && (self.is_open(block) || self.remnants.find(block).is_some())
            {
                self.failing.0[slot] = u16::MAX;
            }
        }
    }

    /// A block of the checkpoint or of the allocation log, free now: where nothing is kept, a mount
    /// that has read them does without.
    pub(crate) fn of_the_checkpoint(&mut self) -> Option<u32> {
        let mut blocks = 0..self.table.blocks();
        let block = blocks.find(|&block| {
            self.state(block) == BlockState::System
                && !self.is_open(block)
                && !self.is_spoken_for(block)
        })?;
        self.set_state(block, BlockState::Free);
        self.tally.free += 1;
        Some(block)
    }

    /// Counts good, free and dead blocks, and valid pages, anew.
    pub fn recount(&mut self) {
        (
            self.tally.good,
            self.tally.free,
            self.tally.dead,
            self.tally.live,
        ) = (0, 0, 0, 0);
        for block in 0..self.table.blocks() {
            let state = self.state(block);
            self.tally.good += u32::from(state != BlockState::Bad);
            match state {
                BlockState::Meta(n) | BlockState::Data(n) => self.tally.live += n,
                BlockState::Free | BlockState::Clean => self.tally.free += 1,
                BlockState::Dead => self.tally.dead += 1,
                _ => {}
            }
        }
    }
}

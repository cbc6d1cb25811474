//! Cleaning: making free blocks of blocks with invalid pages (paper, 4.3).
//!
//! A victim's valid pages are moved, each to the log of its area, file data to a data head of its
//! own (the blocks that it fills are the paper's compaction list: they are left alone until their
//! pages become invalid). The victim is then dead, and free after the next checkpoint. Remnants are
//! candidates like other blocks: taking one is the paper's compaction.

use crate::checkpoint::Durable;
use crate::cleaning::Volume;
use crate::cleaning::job::{CleanJob, LOOK, MOVE, Why};
use crate::config::{Cleaner, Config};
use crate::error::{Bool, Fault};
use crate::format::blockstate::BlockState;
use crate::index::Index;
use crate::space::limits::{
    CLEANING, FLOOR, FOR_CHECKPOINT, cost, cost_of_gain, grown_max, last, urgent,
};
use crate::space::paged::share;
use flashkit_nand::Nand;

/// Blocks tried in vain, at a few reads each, before a round of cleaning ends.
const FUTILE: u32 = 512;
/// Rounds of cleaning that one change waits for at most.
const ROUNDS: u32 = 16;
/// What a step of cleaning in idle time costs, in reads, between two looks at whether it
/// is time for a checkpoint.
const IDLE_STEP: u32 = 400;
/// Dead blocks that are worth a checkpoint.
pub(crate) const CHECKPOINT_WORTH: u32 = 8;

/// The paper's policy: how many blocks on the dirty list start cleaning, and how many are cleaned
/// then.
pub(crate) struct DirtyLimit {
    threshold: usize,
    batch: usize,
}

impl DirtyLimit {
    /// None with another policy.
    pub fn of(config: &Config) -> Option<Self> {
        (config.cleaner == Cleaner::Paper).then_some(DirtyLimit {
            threshold: config.dirty_threshold,
            batch: config.gc_batch,
        })
    }
}

impl<N: Nand> Volume<'_, N> {
    /// Moves what is valid out of blocks that fail. They are marked bad by the next checkpoint.
    #[inline(never)]
    pub(crate) fn clean_failing(&mut self) -> Result<(), Fault> {
        for block in self.store().failing.0 {
            if block == u16::MAX || self.store().available() <= FLOOR {
                continue;
            }
            let valid = matches!(
                self.store_mut().state(u32::from(block)),
                BlockState::Meta(1..) | BlockState::Data(1..)
            );
            if valid && !self.store().unmovable.contains(block.into()) {
                self.clean_block(u32::from(block), CLEANING)?;
            }
        }
        Ok(())
    }

    /// The paper's policy: when the list is over its threshold, the blocks on it with the fewest
    /// valid pages go. The paper's list can be no longer; here it can, so a block waits until that
    /// wins more than it takes.
    #[inline(never)]
    pub(crate) fn clean_dirty_list(&mut self) -> Result<(), Fault> {
        let Some(DirtyLimit { threshold, batch }) = self.dirty_limit else {
            return Ok(());
        };
        // The list cannot grow beyond its end.
        if self.store().dirty.len() <= threshold.min(self.store().dirty.most() - 1) {
            return Ok(());
        }
        for _ in 0..batch {
            let Some(block) = self.index_mut().dirty_victim() else {
                return Ok(());
            };
            if self.store().available() <= FLOOR {
                return Ok(());
            }
            self.clean_block(block, CLEANING)?;
        }
        Ok(())
    }

    /// Goes on until more blocks than that are free, or no more can be won, as
    /// long as a change may wait.
    pub(crate) fn reclaim_above(&mut self, free: u32) -> Result<(), Fault> {
        for _ in 0..ROUNDS {
            if self.store().available() > free || !self.reclaim()?.is_true() {
                break;
            }
        }
        Ok(())
    }

    /// Makes dead blocks free, cleaning some first if there are few; `false` when there are none.
    pub(crate) fn reclaim(&mut self) -> Result<Bool, Fault> {
        let (mut tries, mut futile) = (64, FUTILE);
        let cursor = self.store().cursor;
        self.store_mut().unmovable.begin(cursor);
        while self.store().tally.dead < CHECKPOINT_WORTH && tries > 0 && futile > 0 {
            if self.index_mut().is_due()?.is_true() {
                self.checkpoint(false)?;
            }
            let Some(block) = self.index_mut().victim() else {
                break;
            };
            // With nothing dead, one victim may dip into the floor: else nothing would ever be won.
            // A page that moves takes the page that points to it along, and at times one of its
            // directory. One of which little is valid takes a block at most.
            let (valid, pages) = (self.store_mut().valid_pages(block), self.store().ppb());
            let few = valid <= (pages / 8).max(2);
            let (floor, takes) = match self.store().tally.dead {
                0 if few => (FOR_CHECKPOINT, 0),
                0 => (CLEANING, 3 * valid / pages),
                // The more of these before a checkpoint, the less that takes of what they win.
                _ if few => (CLEANING, 0),
                _ => (FLOOR, 0),
            };
            if self.store().available() <= floor + takes {
                break;
            }
            let moved = self.store().written.moved();
            if self.clean_block(block, floor)?.is_true() || self.store().written.moved() != moved {
                tries -= 1;
            } else {
                futile -= 1;
            }
        }
        if futile > 0 {
            // Some may have lost what was in the way, and others have become cheaper.
            self.store_mut().unmovable.forget_rank();
        }
        let table = &self.store().table;
        let kept = table.blocks_for_recovery() - table.least_for_recovery();
        if self.store().tally.dead == 0 && kept == 0 && !self.index().is_worth_a_checkpoint() {
            return Ok(Bool::False);
        }
        self.checkpoint(false)?;
        Ok(Bool::True)
    }

    /// Cleans in idle time: at most what the moves of `pages` pages cost.
    /// Whether more could be won.
    pub(crate) fn gc(&mut self, pages: u32) -> Result<Bool, Fault> {
        if !self.index().is_writable() {
            return Ok(Bool::False);
        }
        self.store_mut().nand.only_reads = false;
        if self.refresh()?.is_true() {
            return Ok(Bool::True);
        }
        if !self.store().log.session {
            return Ok(Bool::False);
        }
        let mut left = (LOOK + MOVE).saturating_mul(pages);
        let cursor = self.store().cursor;
        self.store_mut().unmovable.begin(cursor);
        while left > 0 {
            if self.index_mut().is_due()?.is_true() {
                self.checkpoint(false)?;
            }
            let Some(mut job) = self.job.take().or_else(|| self.index_mut().idle_job()) else {
                // Not before: more blocks than are remembered may have pages that cannot be read.
                self.store_mut().unmovable.forget_rank();
                break;
            };
            if !self.job_step(&mut job, left.min(IDLE_STEP))?.is_true() {
                self.job = Some(job);
            }
            left = left.saturating_sub(job.cost.max(LOOK));
        }
        if self.store().tally.dead >= CHECKPOINT_WORTH {
            self.checkpoint(false)?;
        }
        Ok(Bool::from(left == 0))
    }
}

impl<N: Nand> Durable<'_, N> {
    /// Whether more blocks have gone bad in use than one in fifty and eight, or all but one of
    /// those kept for roots. Then nothing is changed any more: the rest will follow soon, and what
    /// is stored can still be read.
    pub(crate) fn is_worn(&self) -> bool {
        let grown = self.anchor.good.saturating_sub(self.index.store.tally.good);
        grown > grown_max(self.index.store.geo.blocks()) || self.anchor.has_one_root()
    }
}

impl<N: Nand> Index<'_, N> {
    /// Whether a checkpoint makes blocks free that it and the allocation log have
    /// used, and these are needed.
    fn is_worth_a_checkpoint(&self) -> bool {
        let retired = self.store.log.blocks.len().saturating_sub(1) + self.store.retiring.len();
        retired > 1 && self.store.available() <= last(self.store.ppb())
    }

    /// The closed block that is the cheapest to clean.
    ///
    /// A metadata page moves with the page that points to it, a data page often with an extent
    /// map and its index. Metadata blocks are young and lose their pages by themselves: they wait
    /// until a quarter is left, unless nothing else can be had. Of two that cost the same it is the
    /// one that was filled earlier, as free blocks are taken in turn: so no block is erased more
    /// often for its number.
    ///
    /// Blocks that could not be won were tried in the order of their rank: one below the last of
    /// them is not tried again until [`Volume::reclaim`] begins anew.
    fn victim(&mut self) -> Option<u32> {
        let mut best: Option<((u32, u32), u32)> = None;
        let (mut looked_at, full) = (0, self.store.ppb());
        while let Some((blocks, least)) = self.store.table.next_to_look_at(&mut looked_at) {
            if !self.is_urgent()
                && best.is_some_and(|b| share(self.store.state(b.1), full) <= least)
            {
                break;
            }
            let mut cheapest = 255;
            for block in blocks.clone() {
                let Some(rank) = self.rank(block) else {
                    continue;
                };
                cheapest = cheapest.min(share(self.store.state(block), full));
                if best.is_none_or(|b| rank < b.0)
                    && self.store.unmovable.is_behind(rank)
                    && self.store.may_be_cleaned(block)
                {
                    best = Some((rank, block));
                }
            }
            self.store.table.note_cost(&blocks, cheapest);
        }
        best.map(|b| b.1)
    }

    /// The block to clean when there is time to look at all of them.
    pub(crate) fn next_victim(&mut self) -> Option<u32> {
        self.store.unmovable.begin(self.store.cursor);
        let victim = self.victim();
        if victim.is_none() {
            // Some may have lost what was in the way.
            self.store.unmovable.forget_rank();
        }
        victim
    }

    /// Whether free blocks are so few that what counts is what each one costs.
    pub(crate) fn is_urgent(&self) -> bool {
        self.store.available() <= urgent(&self.store.geo)
    }

    /// What cleaning a block costs, and how late it was filled, from 1; `None` where nothing can be
    /// won.
    pub(crate) fn rank(&mut self, block: u32) -> Option<(u32, u32)> {
        let blocks = self.store.table.blocks();
        let cost = if self.is_urgent() { cost_of_gain } else { cost };
        let cost = cost(self.store.state(block), self.store.ppb())?;
        Some((
            cost,
            (block + blocks - self.store.unmovable.oldest) % blocks + 1,
        ))
    }

    /// The block on the dirty list with the fewest valid pages that is worth cleaning.
    fn dirty_victim(&mut self) -> Option<u32> {
        let mut best: Option<(u32, u32)> = None;
        for i in 0..self.store.dirty.len() {
            let (block, valid) = (self.store.dirty.block(i), self.store.dirty.valid(i));
            if best.is_none_or(|b| valid < b.0)
                && self.store.may_be_cleaned(block)
                && self.is_worth_cleaning(block)
            {
                best = Some((valid, block));
            }
        }
        best.map(|b| b.1)
    }

    /// Whether a block is worth cleaning though free blocks are not few: half of it at least is
    /// won, of metadata three quarters. A page of metadata may move with two more, of its map
    /// and of the index above: those are the next to be won, and with more of them than are
    /// won there would be no end.
    fn is_worth_cleaning(&mut self, block: u32) -> bool {
        let share = match self.store.state(block) {
            BlockState::Meta(_) => 4,
            _ => 2,
        };
        self.store.valid_pages(block) <= self.store.ppb() / share
    }

    /// A block to clean when nothing else is to be done.
    fn idle_job(&mut self) -> Option<CleanJob> {
        let block = self.victim()?;
        let worth = self.is_worth_cleaning(block);
        (worth && self.store.available() > FLOOR).then(|| self.begin_job(block, Why::Space))
    }
}

//! Anchors: which blocks are the log's. They are where a mount begins.
//!
//! The chip's first four blocks take them in turn. When one of those has gone bad, an anchor in
//! another of them, a *root*, names three blocks elsewhere, and from then on those take the
//! anchors. When one of the three goes bad, the next root names three again. So the first four are
//! seldom written from then on, and each anchor says which blocks take them.

use flashkit_bytes::put_u32;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

use crate::clean::FREE_MIN;
use crate::error::Error;
use crate::layout::{ANCHOR_HEADER, ANCHORS, NONE};
use crate::ram::State;
use crate::record::{AHEAD, Anchor, FIRST_BLOCKS};
use crate::state::{Anchors, Jftl};

/// Blocks that a root names: for the newest anchor, the one before, and the next.
pub(crate) const NAMED: usize = 3;

impl<N: Nand> Jftl<'_, N> {
    /// Gives back blocks that no recovery needs, sets others aside, and says so in an anchor.
    pub(crate) fn anchor(&mut self) -> Result<(), Error<N::Error>> {
        let drop = self.log_droppable();
        for i in 0..drop {
            let (block, _) = self.ram.log(i);
            if self.ram.state(block) == State::Log {
                // Free once the next log page is there, which is after the anchor.
                self.set_dying(block);
            }
        }
        self.ram.drop_log(drop, self.log.len);
        self.log.len -= drop;
        self.log.at = self.log.at.wrapping_sub(drop);
        self.log.ordinal += drop;
        self.set_aside()?;
        let is_written = self.write_anchor()?;
        // It can wait until there is room again for cleaning.
        if is_written && self.free < FREE_MIN + NAMED as u32 {
            return Ok(());
        }
        if self.renew_anchors()? || is_written {
            return Ok(());
        }
        Err(Error::Full)
    }

    /// Takes blocks that have gone bad out of those ahead, and sets others aside.
    pub(crate) fn set_aside(&mut self) -> Result<(), Error<N::Error>> {
        let ahead = self.log.at.wrapping_add(1)..self.log.len;
        self.log.len = ahead.start;
        for i in ahead {
            let (block, _) = self.ram.log(i);
            let is_stale = self.ram.is_log_stale(i);
            if self.ram.state(block) == State::Log {
                self.ram.set_log(self.log.len, block, NONE);
                if is_stale {
                    self.ram.set_log_stale(self.log.len);
                }
                self.log.len += 1;
            }
        }
        while self.log_ahead() <= self.lay.log_ahead && self.log.len < self.lay.log_list() {
            let Some(block) = self.pick()? else { break };
            self.ram.set_state(block, State::Log);
            self.ram.set_log(self.log.len, block, NONE);
            self.log.len += 1;
        }
        Ok(())
    }

    /// Puts the next anchor together in the scratch page; its length.
    fn fill_anchor(&mut self, set: [u32; 4]) -> usize {
        self.anchors.seq = self.anchors.seq.saturating_add(1);
        let anchor = Anchor {
            volume: self.volume,
            seq: self.anchors.seq,
            ordinal: self.log.ordinal,
            count: self.log.len,
            set,
        };
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        for i in 0..self.log.len {
            let at = ANCHOR_HEADER + 4 * i as usize;
            let (block, first) = self.ram.log(i);
            let ahead = if first == NONE { AHEAD } else { 0 };
            put_u32(self.ram.scratch, at, block | ahead);
        }
        anchor.seal(&self.lay, self.ram.scratch)
    }

    /// Writes an anchor to the blocks that take them in turn; whether one of them took it.
    fn write_anchor(&mut self) -> Result<bool, Error<N::Error>> {
        let (mut is_written, mut failed) = (false, NONE);
        for turn in 0..3 * ANCHORS {
            let round = turn / ANCHORS;
            if self.anchors.page >= self.lay.pages && !self.next_anchor_block(round)? {
                continue;
            }
            let block = self.anchors.set[self.anchors.at];
            let page = self.anchors.page;
            self.anchors.page += 1;
            is_written = self.program_anchor(block, page, self.anchors.set)?;
            if is_written {
                self.anchors.home = block;
                if block < ANCHORS {
                    self.anchors.root = block;
                }
                break;
            }
            failed = block;
            self.anchors.page = self.lay.pages;
        }
        // Only now: until here it may have held the newest anchor.
        if failed != NONE && failed != self.anchors.home {
            self.mark_bad(failed)?;
        }
        Ok(is_written)
    }

    /// Programs an anchor; whether it is there. One that failed may be there as well: the next has
    /// another number.
    fn program_anchor(
        &mut self,
        block: u32,
        page: u32,
        set: [u32; 4],
    ) -> Result<bool, Error<N::Error>> {
        let len = self.fill_anchor(set);
        let at = PageAddr(block * self.lay.pages + page);
        let status = self.nand.program(at, &self.ram.scratch[..len], &[])?;
        self.stats.anchors += 1;
        if status == OpStatus::Failed {
            return Ok(false);
        }
        self.anchors.name = Anchor::name(self.ram.scratch);
        self.anchors.newer = NONE;
        Ok(true)
    }

    /// Goes on to the next block that takes anchors. In the first round those stay that should.
    fn next_anchor_block(&mut self, round: u32) -> Result<bool, Error<N::Error>> {
        self.anchors.at = (self.anchors.at + 1) % self.anchors.set.len();
        let block = self.anchors.set[self.anchors.at];
        // What holds the newest one stays until there is another.
        let is_free = block != NONE && block != self.anchors.home;
        let is_free = is_free && self.worth(block) <= round;
        if !is_free || !self.erase_for_anchors(block)? {
            return Ok(false);
        }
        self.anchors.page = 0;
        Ok(true)
    }

    /// Erases a block for anchors, unless it is a bad one; whether it can take some.
    fn erase_for_anchors(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        if self.ram.state(block) == State::Bad || self.nand.is_bad(BlockAddr(block))? {
            self.ram.set_state(block, State::Bad);
            return Ok(false);
        }
        self.erase(block)
    }

    /// Whether a block for anchors should stay: the one with the newest that a page of the log
    /// names counts until a page names a newer one. No other should get the number of the newest.
    fn worth(&self, block: u32) -> u32 {
        let Anchors { named, newer, .. } = self.anchors;
        u32::from(block == newer).max(2 * u32::from(block == named))
    }

    fn takes_anchors(&self, block: u32) -> bool {
        block != NONE && self.ram.state(block) == State::Anchor
    }

    /// Whether enough of the blocks for anchors are good.
    fn are_enough(&self) -> bool {
        let good = self
            .anchors
            .set
            .iter()
            .filter(|block| self.takes_anchors(**block));
        // A root needs three as well. On small chips, which may lose few, blocks are dear.
        let is_large = self.lay.blocks >= 200;
        let is_first = self.anchors.set == FIRST_BLOCKS;
        good.count() >= if is_first && is_large { 4 } else { NAMED }
    }

    /// Where too few of the blocks for anchors are good, others take their place, and a root says
    /// so; whether one was written. What comes first here makes the newest anchor complete, if it
    /// is of this session.
    fn renew_anchors(&mut self) -> Result<bool, Error<N::Error>> {
        let mut others = (1..ANCHORS).map(|i| (self.anchors.root + i) % ANCHORS);
        let has_place = others.any(|block| self.takes_anchors(block)) || self.can_go_on();
        if self.are_enough() || !has_place {
            return Ok(false);
        }
        let old = self.anchors.set;
        let mut set = [NONE; 4];
        let mut is_whole = true;
        for i in 0..NAMED {
            let stays = old != FIRST_BLOCKS && self.takes_anchors(old[i]);
            set[i] = if stays {
                old[i]
            } else {
                self.take_for_anchors()?
            };
            is_whole &= set[i] != NONE;
        }
        if is_whole && self.write_root(set)? {
            return Ok(true);
        }
        for block in set {
            if self.takes_anchors(block) && !old.contains(&block) {
                self.ram.set_state(block, State::Used(0));
                self.free += 1;
            }
        }
        Ok(false)
    }

    /// A block, erased, that holds nothing: what lay in it could look like an anchor. [`NONE`]:
    /// there is none.
    fn take_for_anchors(&mut self) -> Result<u32, Error<N::Error>> {
        while let Some(block) = self.pick()? {
            if self.erase(block)? {
                self.ram.set_state(block, State::Anchor);
                return Ok(block);
            }
        }
        Ok(NONE)
    }

    /// Whether the block of the newest anchor is one of the first four, and has pages left that
    /// this session knows to be erased.
    fn can_go_on(&self) -> bool {
        self.anchors.home == self.anchors.root && self.anchors.page < self.lay.pages
    }

    /// Writes an anchor that names the blocks to take others, to the next of the first four that is
    /// good, but not over the newest. The last good one takes it behind the newest. Returns whether
    /// there was one to take it.
    pub(crate) fn write_root(&mut self, set: [u32; 4]) -> Result<bool, Error<N::Error>> {
        let root = self.anchors.root;
        for turn in 0..3 * ANCHORS {
            let block = (root + turn) % ANCHORS;
            let is_turn = block != root && self.worth(block) == turn / ANCHORS;
            if !is_turn || !self.erase_for_anchors(block)? {
                continue;
            }
            if self.program_anchor(block, 0, set)? {
                self.take_root(block, set);
                return Ok(true);
            }
            self.mark_bad(block)?;
        }
        if !self.can_go_on() {
            return Ok(false);
        }
        let (block, page) = (self.anchors.root, self.anchors.page);
        self.anchors.page += 1;
        let is_written = self.program_anchor(block, page, set)?;
        if is_written {
            self.take_root(block, set);
        }
        Ok(is_written)
    }

    /// A root is there.
    fn take_root(&mut self, block: u32, set: [u32; 4]) {
        if self.anchors.set == FIRST_BLOCKS {
            self.anchors.at = set.len() - 1;
        }
        (self.anchors.root, self.anchors.home) = (block, block);
        (self.anchors.set, self.anchors.page) = (set, self.lay.pages);
    }
}

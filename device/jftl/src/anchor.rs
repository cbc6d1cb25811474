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
use crate::record::{Anchor, FIRST_BLOCKS};
use crate::state::Jftl;

/// Blocks that a root names: for the newest anchor, the one before, and the next.
const NAMED: usize = 3;

/// The newest anchor in a set of blocks.
struct Found {
    anchor: Anchor,
    page: u32,
    /// Which block of the set.
    at: usize,
}

impl<N: Nand> Jftl<'_, N> {
    /// The anchor in a page, if it is one of a disk of this shape; notes one of another.
    fn read_anchor(
        &mut self,
        page: u32,
        is_other: &mut bool,
    ) -> Result<Option<Anchor>, Error<N::Error>> {
        if !self.load_page(page)? {
            return Ok(None);
        }
        let found = Anchor::parse(&self.lay, self.ram.scratch);
        *is_other |= found.is_some_and(|(_, fits)| !fits);
        Ok(found.filter(|(_, fits)| *fits).map(|(anchor, _)| anchor))
    }

    /// The newest anchor in a set of blocks.
    fn newest_in(
        &mut self,
        set: [u32; 4],
        is_other: &mut bool,
    ) -> Result<Option<Found>, Error<N::Error>> {
        let mut best: Option<Found> = None;
        // A block whose first page is lost may hold the newest all the same.
        let mut lost = [false; 4];
        for (at, block) in set
            .into_iter()
            .enumerate()
            .filter(|(_, block)| *block != NONE)
        {
            let page = block * self.lay.pages;
            match self.read_anchor(page, is_other)? {
                Some(anchor) if best.as_ref().is_none_or(|b| anchor.seq > b.anchor.seq) => {
                    best = Some(Found { anchor, page, at });
                }
                Some(_) => {}
                None => lost[at] = !self.ram.scratch.iter().all(|byte| *byte == 0xFF),
            }
        }
        let newest = best.as_ref().map(|found| found.at);
        for at in 0..set.len() {
            if newest != Some(at) && !lost[at] {
                continue;
            }
            let first = set[at] * self.lay.pages;
            for page in first + 1..first + self.lay.pages {
                if let Some(anchor) = self.read_anchor(page, is_other)?
                    && best.as_ref().is_none_or(|b| anchor.seq > b.anchor.seq)
                {
                    best = Some(Found { anchor, page, at });
                }
            }
        }
        Ok(best)
    }

    /// Finds the newest anchor and takes up its list; whether it stayed what it was.
    pub(crate) fn find_anchor(&mut self) -> Result<bool, Error<N::Error>> {
        let mut is_other = false;
        let Some(mut newest) = self.newest_in(FIRST_BLOCKS, &mut is_other)? else {
            return Err(if is_other {
                Error::Geometry
            } else {
                Error::NotFormatted
            });
        };
        self.anchors.root = self.lay.block_of(newest.page);
        // Each set leads to a newer anchor, or is the last one.
        let mut set = FIRST_BLOCKS;
        while newest.anchor.set != set {
            set = newest.anchor.set;
            let volume = newest.anchor.volume;
            let found = self.newest_in(set, &mut is_other)?;
            match found.filter(|found| found.anchor.volume == volume) {
                Some(found) if found.anchor.seq > newest.anchor.seq => newest = found,
                // A root: the one before it is in that block, or there is none yet.
                found => newest.at = found.map_or(set.len() - 1, |found| found.at),
            }
        }
        self.take_up(&newest)
    }

    fn take_up(&mut self, newest: &Found) -> Result<bool, Error<N::Error>> {
        let page = newest.page;
        let readable = self.load_page(page)?;
        let found = Anchor::parse(&self.lay, self.ram.scratch).filter(|_| readable);
        if found.is_none_or(|(anchor, _)| anchor != newest.anchor) {
            return Ok(false);
        }
        let anchor = newest.anchor;
        self.volume = anchor.volume;
        self.log.ordinal = anchor.ordinal;
        self.log.len = anchor.count;
        self.anchors.set = anchor.set;
        self.anchors.at = newest.at;
        self.anchors.home = self.lay.block_of(page);
        self.anchors.is_root_old = self.anchors.home < ANCHORS && anchor.set != FIRST_BLOCKS;
        // Pages behind it may have been cut, and it may be of a cut itself: the next one goes to
        // another block, and the block with the one before it stays.
        self.anchors.page = self.lay.pages;
        self.anchors.seq = anchor.seq;
        for i in 0..anchor.count {
            let block = Anchor::block(self.ram.scratch, i);
            if block < ANCHORS || block >= self.lay.blocks {
                return Err(Error::Damaged {
                    what: "an anchor",
                    page,
                });
            }
            self.ram.set_log(i, block, NONE);
        }
        Ok(true)
    }

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
        self.drop_bad_ahead();
        while self.log_ahead() <= self.lay.log_ahead && self.log.len < self.lay.log_list() {
            let Some(block) = self.pick()? else { break };
            self.ram.set_state(block, State::Log);
            self.ram.set_log(self.log.len, block, NONE);
            self.log.len += 1;
        }
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

    /// Takes blocks that have gone bad out of those set aside. What is behind them changes its
    /// number in the life of the log by that, and must hold nothing of it.
    fn drop_bad_ahead(&mut self) {
        let ahead = self.log.at.wrapping_add(1)..self.log.len;
        let is_good = |i: u32| self.ram.state(self.ram.log(i).0) == State::Log;
        let last_stale = (ahead.clone().rev()).find(|i| self.ram.is_log_stale(*i) && is_good(*i));
        let begin = last_stale.map_or(ahead.start, |i| i + 1);
        self.log.len = begin;
        for i in begin..ahead.end {
            let (block, _) = self.ram.log(i);
            if self.ram.state(block) == State::Log {
                self.ram.set_log(self.log.len, block, NONE);
                self.log.len += 1;
            }
        }
    }

    /// Puts the next anchor together in the scratch page; its length.
    fn fill_anchor(&mut self, set: [u32; 4]) -> usize {
        self.anchors.seq += 1;
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
            let (block, _) = self.ram.log(i);
            put_u32(self.ram.scratch, at, block);
        }
        anchor.seal(&self.lay, self.ram.scratch)
    }

    /// Writes an anchor to the blocks that take them in turn; whether one of them took it.
    fn write_anchor(&mut self) -> Result<bool, Error<N::Error>> {
        // A root of an earlier session may not last. Only another one can lead to the others.
        if self.anchors.is_root_old && self.write_root(self.anchors.set)? {
            return Ok(true);
        }
        let len = self.fill_anchor(self.anchors.set);
        let (mut is_written, mut failed) = (false, NONE);
        for _ in 0..2 * ANCHORS {
            if self.anchors.page >= self.lay.pages && !self.next_anchor_block()? {
                continue;
            }
            let block = self.anchors.set[self.anchors.at];
            let page = self.anchors.page;
            self.anchors.page += 1;
            is_written = self.program_anchor(block, page, len)?;
            if is_written {
                self.anchors.home = block;
                self.anchors.is_root_old = false;
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

    /// Programs the anchor in the scratch page; whether it is there.
    fn program_anchor(
        &mut self,
        block: u32,
        page: u32,
        len: usize,
    ) -> Result<bool, Error<N::Error>> {
        let at = PageAddr(block * self.lay.pages + page);
        let status = self.nand.program(at, &self.ram.scratch[..len], &[])?;
        self.stats.anchors += 1;
        Ok(status == OpStatus::Done)
    }

    fn next_anchor_block(&mut self) -> Result<bool, Error<N::Error>> {
        self.anchors.at = (self.anchors.at + 1) % self.anchors.set.len();
        let block = self.anchors.set[self.anchors.at];
        // What holds the newest one stays until there is another.
        let is_free = block != NONE && block != self.anchors.home;
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
    fn write_root(&mut self, set: [u32; 4]) -> Result<bool, Error<N::Error>> {
        let len = self.fill_anchor(set);
        for i in 1..ANCHORS {
            let block = (self.anchors.root + i) % ANCHORS;
            if !self.erase_for_anchors(block)? {
                continue;
            }
            if self.program_anchor(block, 0, len)? {
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
        let is_written = self.program_anchor(block, page, len)?;
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
        self.anchors.is_root_old = false;
    }
}

//! Anchors: which blocks are the log's. They are where a mount begins.

use flashkit_bytes::put_u32;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

use crate::error::Error;
use crate::layout::{ANCHOR_HEADER, ANCHORS, NONE};
use crate::ram::State;
use crate::record::Anchor;
use crate::state::Jftl;

impl<N: Nand> Jftl<'_, N> {
    /// The number of the anchor in a page, if it is one of a disk of this
    /// shape; notes one of another.
    fn anchor_seq(
        &mut self,
        page: u32,
        is_other: &mut bool,
    ) -> Result<Option<u32>, Error<N::Error>> {
        if !self.load_page(page)? {
            return Ok(None);
        }
        let found = Anchor::parse(&self.lay, self.ram.scratch);
        *is_other |= found.is_some_and(|(_, fits)| !fits);
        Ok(found.filter(|(_, fits)| *fits).map(|(a, _)| a.seq))
    }

    /// The page of the newest anchor.
    fn newest_anchor(&mut self) -> Result<u32, Error<N::Error>> {
        let mut best: Option<(u32, u32)> = None;
        let mut is_other = false;
        // A block whose first page is lost may hold the newest all the same.
        let mut lost = [false; ANCHORS as usize];
        for block in 0..ANCHORS {
            let page = block * self.lay.pages;
            match self.anchor_seq(page, &mut is_other)? {
                Some(seq) if best.is_none_or(|(newest, _)| seq > newest) => {
                    best = Some((seq, page));
                }
                Some(_) => {}
                None => {
                    let blank = self.ram.scratch.iter().all(|byte| *byte == 0xFF);
                    lost[block as usize] = !blank;
                }
            }
        }
        let newest = best.map(|(_, page)| page);
        for block in 0..ANCHORS {
            let first = block * self.lay.pages;
            if newest != Some(first) && !lost[block as usize] {
                continue;
            }
            for page in first + 1..first + self.lay.pages {
                if let Some(seq) = self.anchor_seq(page, &mut is_other)?
                    && best.is_none_or(|(newest, _)| seq > newest)
                {
                    best = Some((seq, page));
                }
            }
        }
        match best {
            Some((_, page)) => Ok(page),
            None if is_other => Err(Error::Geometry),
            None => Err(Error::NotFormatted),
        }
    }

    /// Finds the newest anchor and takes up its list; whether it stayed what it was.
    pub(crate) fn find_anchor(&mut self) -> Result<bool, Error<N::Error>> {
        let page = self.newest_anchor()?;
        let readable = self.load_page(page)?;
        let found = Anchor::parse(&self.lay, self.ram.scratch).filter(|_| readable);
        let Some((anchor, _)) = found else {
            return Ok(false);
        };
        self.volume = anchor.volume;
        self.log.ordinal = anchor.ordinal;
        self.log.len = anchor.count;
        self.log.anchor = self.lay.block_of(page);
        self.log.anchor_home = self.log.anchor;
        // Pages behind it may have been cut, and it may be of a cut itself: the next one goes to
        // another block, and the block with the one before it stays.
        self.log.anchor_page = self.lay.pages;
        self.log.anchor_seq = anchor.seq;
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
        while self.log_ahead() <= self.lay.log_ahead && self.log.len < self.lay.log_list() {
            let Some(block) = self.pick()? else { break };
            self.ram.set_state(block, State::Log);
            self.ram.set_log(self.log.len, block, NONE);
            self.log.len += 1;
        }
        self.write_anchor()
    }

    pub(crate) fn write_anchor(&mut self) -> Result<(), Error<N::Error>> {
        self.log.anchor_seq += 1;
        let anchor = Anchor {
            volume: self.volume,
            seq: self.log.anchor_seq,
            ordinal: self.log.ordinal,
            count: self.log.len,
        };
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        for i in 0..self.log.len {
            let at = ANCHOR_HEADER + 4 * i as usize;
            let (block, _) = self.ram.log(i);
            put_u32(self.ram.scratch, at, block);
        }
        let len = anchor.seal(&self.lay, self.ram.scratch);
        let mut failed = NONE;
        for _ in 0..2 * ANCHORS {
            if self.log.anchor_page >= self.lay.pages && !self.next_anchor_block()? {
                continue;
            }
            let at = PageAddr(self.log.anchor * self.lay.pages + self.log.anchor_page);
            self.log.anchor_page += 1;
            let status = self.nand.program(at, &self.ram.scratch[..len], &[])?;
            self.stats.anchors += 1;
            if status == OpStatus::Done {
                self.log.anchor_home = self.log.anchor;
                // Only now: until here it held the newest anchor.
                if failed != NONE && failed != self.log.anchor {
                    self.mark_bad(failed)?;
                }
                return Ok(());
            }
            failed = self.log.anchor;
            self.log.anchor_page = self.lay.pages;
        }
        Err(Error::Full)
    }

    fn next_anchor_block(&mut self) -> Result<bool, Error<N::Error>> {
        self.log.anchor = (self.log.anchor + 1) % ANCHORS;
        let block = self.log.anchor;
        if block == self.log.anchor_home {
            return Err(Error::Full);
        }
        if self.ram.state(block) == State::Bad || self.nand.is_bad(BlockAddr(block))? {
            self.ram.set_state(block, State::Bad);
            return Ok(false);
        }
        if !self.erase(block)? {
            return Ok(false);
        }
        self.log.anchor_page = 0;
        Ok(true)
    }
}

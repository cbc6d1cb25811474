//! Where pages are written: heads, free blocks, erases, tags.
//!
//! A block is erased when it is taken, not when it becomes free: a torn erase concerns a block that
//! holds nothing.

use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr, ReadStatus};

use crate::disk::Jftl;
use crate::error::Error;
use crate::layout::{HEADS, TAG};
use crate::ram::State;
use crate::record::{NONE, get, put};

/// Head of what the host writes.
pub(crate) const HOST: usize = 0;
/// Head of what cleaning moves.
pub(crate) const COLD: usize = 1;
/// Head of map pages.
pub(crate) const MAP: usize = 2;

/// Head of data at rest that is moved for the sake of wear.
pub(crate) const REST: usize = 3;

/// A block being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// [`NONE`]: none.
    pub block: u32,
    /// The next page.
    pub next: u32,
}

impl Head {
    pub const CLOSED: Head = Head {
        block: NONE,
        next: 0,
    };
}

impl<N: Nand> Jftl<'_, N> {
    pub(crate) fn is_head(&self, block: u32) -> bool {
        self.heads.iter().any(|head| head.block == block)
    }

    /// Makes sure that a head has a page to be written. May use the scratch page.
    pub(crate) fn head_room(&mut self, head: usize) -> Result<(), Error<N::Error>> {
        if head == HOST && self.pack.count > 0 && self.heads[HOST].next + 1 >= self.lay.usable {
            // The last page is kept for it.
            self.emit()?;
        }
        let open = self.heads[head];
        if open.block != NONE && open.next < self.lay.usable {
            return Ok(());
        }
        self.close_head(head)?;
        loop {
            // Data at rest goes to the far end of the blocks in rotation, so that those shift.
            let from = (head == REST).then_some(self.wear);
            if let Some(block) = self.pick_from(from)? {
                if !self.erase(block)? {
                    continue;
                }
                self.heads[head] = Head { block, next: 0 };
                if self.lay.in_band {
                    self.ram.tags(head).fill(0xFF);
                }
                return Ok(());
            }
            // What is dying becomes free with the next page of the log.
            let cannot = self.log.tx != 0 || self.recovering.is_some() || self.pack.is_busy;
            if self.dying == 0 || cannot {
                return Err(Error::Full);
            }
            self.commit()?;
        }
    }

    /// Ends a head's block, with its tags where they are in band.
    pub(crate) fn close_head(&mut self, head: usize) -> Result<(), Error<N::Error>> {
        let block = self.heads[head].block;
        if block == NONE {
            return Ok(());
        }
        self.heads[head] = Head::CLOSED;
        if self.lay.in_band && !self.is_failing(block) {
            let at = self.lay.tag_page(block);
            let Self { nand, ram, .. } = self;
            if nand.program(PageAddr(at), ram.tags(head), &[])? == OpStatus::Failed {
                self.note_failing(block);
            }
            self.stats.tag_pages += 1;
        }
        if self.ram.state(block) == State::Used(0) {
            self.set_dying(block);
        }
        Ok(())
    }

    /// Programs a page at a head that has room: `data`, or the scratch page. `None`: the block
    /// failed, and the head needs room again.
    pub(crate) fn try_program(
        &mut self,
        head: usize,
        data: Option<&[u8]>,
        owners: [u32; 2],
    ) -> Result<Option<u32>, Error<N::Error>> {
        let Head { block, next } = self.heads[head];
        let page = block * self.lay.pages + next;
        self.heads[head].next += 1;
        let tag = Self::tag(owners);
        let spare: &[u8] = if self.lay.in_band { &[] } else { &tag };
        let bytes = data.unwrap_or(self.ram.scratch);
        if self.nand.program(PageAddr(page), bytes, spare)? == OpStatus::Failed {
            self.note_failing(block);
            self.close_head(head)?;
            return Ok(None);
        }
        if self.lay.in_band {
            self.ram.tags(head)[next as usize * TAG..][..TAG].copy_from_slice(&tag);
        }
        Ok(Some(page))
    }

    /// A page's tag.
    pub(crate) fn tag(owners: [u32; 2]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        put(&mut tag, 0, owners[0]);
        put(&mut tag, 4, owners[1]);
        tag
    }

    /// The owners that a page's tag names.
    pub(crate) fn parse_tag(tag: &[u8]) -> [u32; 2] {
        [get(tag, 0), get(tag, 4)]
    }

    /// The next free block, in turn; it is the caller's to erase.
    pub(crate) fn pick(&mut self) -> Result<Option<u32>, Error<N::Error>> {
        self.pick_from(None)
    }

    /// The first free block from one on, or the next in turn.
    fn pick_from(&mut self, from: Option<u32>) -> Result<Option<u32>, Error<N::Error>> {
        let begin = from.unwrap_or(self.cursor);
        for step in 0..self.lay.blocks {
            let block = (begin + step) % self.lay.blocks;
            if from.is_none() {
                self.cursor = (block + 1) % self.lay.blocks;
            }
            if self.ram.state(block) != State::Used(0) || self.is_head(block) {
                continue;
            }
            self.free = self.free.saturating_sub(1);
            if !self.nand.is_bad(BlockAddr(block))? {
                return Ok(Some(block));
            }
            self.ram.set_state(block, State::Bad);
        }
        Ok(None)
    }

    /// Erases a block; a bad one is marked.
    pub(crate) fn erase(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        let first = block * self.lay.pages;
        self.memory.forget(first..first + self.lay.pages);
        self.stats.erases += 1;
        self.erases = self.erases.saturating_add(1);
        if self.nand.erase(BlockAddr(block))? == OpStatus::Done {
            return Ok(true);
        }
        self.mark_bad(block)?;
        Ok(false)
    }

    pub(crate) fn mark_bad(&mut self, block: u32) -> Result<(), Error<N::Error>> {
        self.nand.mark_bad(BlockAddr(block))?;
        self.ram.set_state(block, State::Bad);
        self.stats.gone_bad += 1;
        for listed in &mut self.failing {
            if *listed == block {
                *listed = NONE;
            }
        }
        Ok(())
    }

    /// A program failed: what the block holds is moved, and then it is marked. A full list forgets;
    /// the block's next failure is noticed again.
    pub(crate) fn note_failing(&mut self, block: u32) {
        if !self.is_failing(block)
            && let Some(place) = self.failing.iter_mut().find(|listed| **listed == NONE)
        {
            *place = block;
        }
    }

    pub(crate) fn is_failing(&self, block: u32) -> bool {
        self.failing.contains(&block)
    }

    /// Puts a block whose bits rot on the list of those to be moved.
    pub(crate) fn note_read(&mut self, page: u32, status: ReadStatus) {
        let ReadStatus::Corrected(bits) = status else {
            return;
        };
        let limit = (self.nand.correctable_bits() * 3 / 4).max(1);
        let block = self.lay.block_of(page);
        if bits >= limit
            && !self.refresh.contains(&block)
            && let Some(place) = self.refresh.iter_mut().find(|listed| **listed == NONE)
        {
            *place = block;
        }
    }

    /// What was dying is free: the log says so.
    pub(crate) fn settle(&mut self) -> Result<(), Error<N::Error>> {
        if self.dying == 0 {
            return Ok(());
        }
        for block in 0..self.lay.blocks {
            if self.ram.state(block) != State::Dying {
                continue;
            }
            if self.is_failing(block) {
                self.mark_bad(block)?;
            } else {
                self.ram.set_state(block, State::Used(0));
                self.free += 1;
            }
        }
        self.dying = 0;
        Ok(())
    }
}

const _: () = assert!(REST + 1 == HEADS as usize);

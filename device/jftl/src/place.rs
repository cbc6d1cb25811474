//! Where pages are written: heads, free blocks, erases, tags.
//!
//! A block is erased when it is taken, not when it becomes free: a torn erase concerns a block that
//! holds nothing.

use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{BlockAddr, Copied, Nand, OpStatus, PageAddr, ReadStatus};

use crate::clean::FREE_MIN;
use crate::error::Error;
use crate::layout::{NONE, TAG, page_of, slot_of};
use crate::packed;
use crate::ram::State;
use crate::state::{COLD, HOST, Head, Jftl, MAP, REST};

/// How the chip's copy of a page ended.
pub(crate) enum Moved {
    To(u32),
    /// The block failed, and the head needs room again.
    Failed,
    /// The page cannot be read, and nothing was programmed.
    Unreadable,
}

impl<N: Nand> Jftl<'_, N> {
    pub(crate) fn is_head(&self, block: u32) -> bool {
        self.heads.iter().any(|head| head.block == block)
    }

    /// Makes sure that a head has a page to be written. May use the scratch page.
    pub(crate) fn head_room(&mut self, head: usize) -> Result<(), Error<N::Error>> {
        if head == HOST && self.packed() > 0 && self.heads[HOST].next + 1 >= self.lay.usable {
            // The last page is kept for it.
            self.emit()?;
        }
        let open = self.heads[head];
        if open.block != NONE && open.next < self.lay.usable {
            return Ok(());
        }
        self.close_head(head)?;
        if self.take_over(head) {
            return Ok(());
        }
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

    /// With few blocks free a head of cleaning goes on in the block of another: a mount that is cut
    /// leaves one block that is written in part then, and not one for each. Whether there was one.
    fn take_over(&mut self, head: usize) -> bool {
        let has_room = |other: &usize| {
            let Head { block, next } = self.heads[*other];
            block != NONE && next < self.lay.usable
        };
        let other = [COLD, MAP, REST].into_iter().find(has_room);
        let Some(other) = other.filter(|_| head != HOST && self.free < FREE_MIN) else {
            return false;
        };
        self.heads.swap(head, other);
        if self.lay.in_band {
            self.ram.move_tags(other, head);
        }
        true
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
        let (page, tag) = (self.next_page(head), Self::tag(owners));
        self.heads[head].next += 1;
        let bytes = data.unwrap_or(self.ram.scratch);
        let spare = self.lay.spare(&tag);
        let status = self.nand.program(PageAddr(page), bytes, spare)?;
        self.has_programmed(head, page, &tag, status)
    }

    /// Whether the chip itself copies a page to a head that has room.
    pub(crate) fn copies_to(&self, page: u32, head: usize) -> bool {
        let to = self.next_page(head);
        self.nand.copies(PageAddr(page), PageAddr(to))
    }

    /// Has the chip copy a page to a head that has room. The scratch page holds none then.
    pub(crate) fn try_copy(
        &mut self,
        from: u32,
        head: usize,
        owners: [u32; 2],
    ) -> Result<Moved, Error<N::Error>> {
        let (page, tag) = (self.next_page(head), Self::tag(owners));
        self.heads[head].next += 1;
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let Self { nand, ram, lay, .. } = self;
        let spare = lay.spare(&tag);
        let status = match nand.copy(PageAddr(from), PageAddr(page), spare, ram.scratch)? {
            Copied::Done(_) => OpStatus::Done,
            Copied::Failed => OpStatus::Failed,
            Copied::Uncorrectable => {
                self.heads[head].next -= 1;
                return Ok(Moved::Unreadable);
            }
        };
        let moved = self.has_programmed(head, page, &tag, status)?;
        Ok(moved.map_or(Moved::Failed, Moved::To))
    }

    /// The page of a head that has room which is programmed next.
    fn next_page(&self, head: usize) -> u32 {
        let Head { block, next } = self.heads[head];
        block * self.lay.pages + next
    }

    /// After a program at a head: its page, or `None` if the block failed.
    fn has_programmed(
        &mut self,
        head: usize,
        page: u32,
        tag: &[u8; TAG],
        status: OpStatus,
    ) -> Result<Option<u32>, Error<N::Error>> {
        if status == OpStatus::Failed {
            self.note_failing(self.lay.block_of(page));
            self.close_head(head)?;
            return Ok(None);
        }
        if self.lay.in_band {
            let at = self.lay.index_of(page) * TAG;
            self.ram.tags(head)[at..at + TAG].copy_from_slice(tag);
        }
        Ok(Some(page))
    }

    /// A page's tag.
    pub(crate) fn tag(owners: [u32; 2]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        put_u32(&mut tag, 0, owners[0]);
        put_u32(&mut tag, 4, owners[1]);
        tag
    }

    /// The owners that a page's tag names.
    pub(crate) fn parse_tag(tag: &[u8]) -> [u32; 2] {
        [get_u32(tag, 0), get_u32(tag, 4)]
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

    /// Erases a block that is not marked bad; one that cannot be erased is marked.
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

    /// Whether so much had to be corrected that a page is to be written anew.
    pub(crate) fn rots(&self, status: ReadStatus) -> bool {
        let limit = (self.nand.correctable_bits() * 3 / 4).max(1);
        matches!(status, ReadStatus::Corrected(bits) if bits >= limit)
    }

    /// Puts a block whose bits rot on the list of those to be moved.
    pub(crate) fn note_read(&mut self, page: u32, status: ReadStatus) {
        let block = self.lay.block_of(page);
        if self.rots(status)
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

    /// Reads a page with its tag into the scratch page.
    pub(crate) fn read_page(&mut self, page: u32, tag: &mut [u8]) -> Result<bool, Error<N::Error>> {
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let Self { nand, ram, .. } = self;
        let tag = if self.lay.in_band { &mut [] } else { tag };
        let status = nand.read(PageAddr(page), 0, ram.scratch, tag)?;
        Ok(status.is_readable())
    }

    /// Reads a tag where they are in band: of an open block in RAM, else in the block's last page.
    pub(crate) fn load_tag(
        &mut self,
        page: u32,
        tag: &mut [u8; TAG],
    ) -> Result<(), Error<N::Error>> {
        let (block, at) = (self.lay.block_of(page), self.lay.index_of(page) * TAG);
        if let Some(head) = self.heads.iter().position(|head| head.block == block) {
            tag.copy_from_slice(&self.ram.tags(head)[at..at + TAG]);
            return Ok(());
        }
        let last = PageAddr(self.lay.tag_page(block));
        if !self.nand.read(last, at as u32, tag, &mut [])?.is_readable() {
            tag.fill(0xFF);
        }
        Ok(())
    }

    /// Whether a page's tag, or a slot, names a number. Without spare bytes the tags of blocks that
    /// a cut found open are not known, and so is nothing in them.
    pub(crate) fn is_owned(&mut self, place: u32, number: u32) -> Result<bool, Error<N::Error>> {
        if slot_of(place) != 0 {
            let readable = self.read_page(page_of(place), &mut [0; TAG])?;
            let owners = packed::owners(self.ram.scratch, slot_of(place));
            return Ok(readable && owners.contains(&number));
        }
        let mut tag = [0xFF; TAG];
        if self.lay.in_band {
            self.load_tag(place, &mut tag)?;
        } else {
            self.nand.read(PageAddr(place), 0, &mut [], &mut tag)?;
        }
        let owners = Self::parse_tag(&tag);
        Ok(owners.contains(&number))
    }

    /// A block whose count says that it has owners, where the map has none, stays as it is.
    pub(crate) fn note_stuck(&mut self, block: u32) {
        if let Some(place) = self.stuck.iter_mut().find(|listed| **listed == NONE) {
            *place = block;
        } else {
            self.stuck[block as usize % self.stuck.len()] = block;
        }
    }

    pub(crate) fn count_free(&mut self) {
        let free = (0..self.lay.blocks)
            .filter(|block| self.ram.state(*block) == State::Used(0) && !self.is_head(*block));
        self.free = free.count() as u32;
    }
}

//! Free blocks: which is taken next, for what, and what becomes of one that fails.

use crate::error::{Bool, Fault};
use crate::format::area::{Head, LogArea, UPDATE, WEAR};
use crate::format::blockstate::BlockState;
use crate::format::header::{self, HEADER};
use crate::format::limits::RESERVES;
use crate::format::tag::{self, Tag};
use crate::space::log::LOG_AHEAD;
use crate::space::newer::SILENT;
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, OpStatus};

/// Of them, those that batches leave for a block of any area that is needed at once.
pub(crate) const SINGLES: usize = 5;

/// Data blocks reserved by one allocation record.
pub(crate) const DATA_BATCH: u32 = 16;

/// The same, for updates and for FileInodes.
pub(crate) const UPDATE_BATCH: u32 = 8;

pub(crate) const FILE_BATCH: u32 = 8;

impl<N: Nand> Store<'_, N> {
    /// Takes a block for a data head.
    pub(crate) fn take_data_head(&mut self, front: usize) -> Result<u32, Fault> {
        while front == WEAR && self.log.reserved + LOG_AHEAD + 1 < RESERVES {
            let block = self.pick_at_rest();
            let block = self.if_any(block)?;
            self.push_reserve(block, LogArea::Data);
            self.record_reserves()?;
            let taken = self.take_reserved(LogArea::Data, Some(block))?;
            if let Some(block) = taken {
                return Ok(block);
            }
        }
        self.take_block(if front == UPDATE {
            LogArea::Update
        } else {
            LogArea::Data
        })
    }

    /// Takes a reserved block of an area for writing.
    pub fn take_block(&mut self, area: LogArea) -> Result<u32, Fault> {
        loop {
            if let Some(block) = self.take_reserved(area, None)? {
                return Ok(block);
            }
            self.reserve(Some(area))?;
        }
    }

    /// Takes a reserved block, or else the first of an area, that can be erased.
    fn take_reserved(&mut self, area: LogArea, block: Option<u32>) -> Result<Option<u32>, Fault> {
        loop {
            let Some(i) = self.log.reserves[..self.log.reserved]
                .iter()
                .position(|&(at, of)| {
                    block.map_or(of == area as u8, |block| block == u32::from(at))
                })
            else {
                return Ok(None);
            };
            // What is in a block that no page names would not be found, nor records in one in which
            // a mount does not look for them, or that no checkpoint can list.
            let any = self.log.naming || self.log.formatting || self.log.together;
            let next = u32::from(self.log.reserves[i].0);
            let unnamed = i >= self.log.reserved - self.log.unnamed;
            let unfound = self
                .log
                .beginning
                .is_some_and(|named| !named.contains(&next));
            let unlisted = area == LogArea::Bitmap && self.log.blocks.is_full();
            if unlisted || !any && (unnamed || area == LogArea::Bitmap && unfound) {
                self.log.lost = true;
                return Err(Fault::NoSpace);
            }
            self.log.took_unnamed |= unnamed && self.log.naming;
            let block = self.unreserve(i);
            let clean = self.log.beginning.is_none() && self.is_clean(block)?.is_true();
            let erased = clean || self.log.ready == block;
            if self.log.ready == block {
                // Once only: the block may be taken again, for another area.
                self.log.ready = u32::MAX;
            }
            if !self.prepare(block, !erased)?.is_true() {
                continue;
            }
            self.since.taken += 1;
            self.set_state(
                block,
                match area {
                    LogArea::Bitmap => BlockState::System,
                    LogArea::Data | LogArea::Update => BlockState::Data(0),
                    _ => BlockState::Meta(0),
                },
            );
            if area == LogArea::Bitmap {
                self.log.blocks.push(block as u16);
            }
            if let Some(recovery) = &mut self.recovery
                && !recovery.note_fresh(block)
            {
                return Err(Fault::NoSpace);
            }
            return Ok(Some(block));
        }
    }

    /// Takes a block from the list of reserved ones.
    pub fn unreserve(&mut self, i: usize) -> u32 {
        let block = u32::from(self.log.reserves[i].0);
        if i >= self.log.reserved - self.log.unnamed {
            self.log.unnamed -= 1;
        }
        self.log.reserves.copy_within(i + 1..self.log.reserved, i);
        self.log.reserved -= 1;
        self.tally.free = self.tally.free.saturating_sub(1);
        block
    }

    /// Whether a block is not marked bad; the chip's word counts, not the block table's.
    pub fn is_good(&mut self, block: u32) -> Result<Bool, Fault> {
        if !self.nand.is_bad(BlockAddr(block))?.is_true() {
            return Ok(Bool::True);
        }
        if matches!(
            self.state(block),
            BlockState::Free | BlockState::Clean | BlockState::System
        ) {
            self.set_state(block, BlockState::Bad);
            self.tally.good = self.tally.good.saturating_sub(1);
        }
        Ok(Bool::False)
    }

    /// Makes sure that a block can be programmed: erases it when it is `fresh`.
    pub fn prepare(&mut self, block: u32, fresh: bool) -> Result<Bool, Fault> {
        if fresh {
            self.erase(block)
        } else {
            self.is_good(block)
        }
    }

    /// Erases a block; one that fails is marked bad.
    pub fn erase(&mut self, block: u32) -> Result<Bool, Fault> {
        // A session that was cut may have marked it, and no checkpoint says so.
        if !self.is_good(block)?.is_true() {
            self.drawn = self.drawn.saturating_sub(1);
            return Ok(Bool::False);
        }
        self.written.erases += 1;
        self.note_erase(block);
        self.validity.forget(block);
        let first = self.geo.page(BlockAddr(block), 0);
        self.scratch_holds.forget_if_in(first, self.ppb());
        if self.nand.erase(BlockAddr(block))? == OpStatus::Done {
            return Ok(Bool::True);
        }
        self.drawn = self.drawn.saturating_sub(1);
        self.mark_bad(block)?;
        Ok(Bool::False)
    }

    /// Marks a block bad that holds nothing of use, if it is not.
    pub fn mark_bad(&mut self, block: u32) -> Result<(), Fault> {
        if !self.nand.is_bad(BlockAddr(block))?.is_true() {
            self.nand.mark_bad(BlockAddr(block))?;
        }
        self.set_state(block, BlockState::Bad);
        self.tally.good = self.tally.good.saturating_sub(1);
        Ok(())
    }

    /// Free blocks that are not reserved, nor kept for pages of the block
    /// table that a recovery writes.
    pub fn available(&self) -> u32 {
        let kept = self.table.blocks_for_recovery();
        self.unreserved().saturating_sub(kept)
    }

    /// Free blocks that are not reserved.
    pub fn unreserved(&self) -> u32 {
        self.tally.free.saturating_sub(self.log.reserved as u32)
    }

    /// Finds the next free block that is not reserved.
    pub fn pick(&mut self) -> Result<u32, Fault> {
        let mut found = self.free_from(self.cursor);
        if found.is_none() && self.discarded {
            found = self.of_the_checkpoint();
        }
        let block = self.if_any(found)?;
        self.cursor = (block + 1) % self.table.blocks();
        Ok(self.pick_lagging(block))
    }

    /// A block that was looked for. When there is none since the driver has failed, that is told.
    pub fn if_any(&mut self, found: Option<u32>) -> Result<u32, Fault> {
        match found {
            Some(block) => Ok(block),
            None => self.nand.may_write().and(Err(Fault::NoSpace)),
        }
    }

    /// The first block from one on that is free and not reserved. One that says which pages of
    /// others are valid only when there is no other, or it lags in wear; then one that does not
    /// tell whether it is left alone ([`Newer`]), and a spared one at last.
    pub fn free_from(&mut self, from: u32) -> Option<u32> {
        let n = self.table.blocks();
        let mut last = None;
        let silent = self.newer.is_silent();
        for step in 0..n {
            // Of those that do not tell the one that a session from the
            // checkpoint on would come to last.
            let step = if silent { n - 1 - step } else { step };
            let block = (from + step) % n;
            if !self.is_free(block) || self.is_spoken_for(block) {
                continue;
            }
            let rank = match self.is_left_alone(block) {
                Some(true) => continue,
                _ if block == self.spared => 3,
                None => 2,
                _ => u8::from(self.validity.is_in(block) && !self.lags(block)),
            };
            if rank == 0 {
                return Some(block);
            }
            if last.is_none_or(|(least, _)| rank < least) {
                last = Some((rank, block));
            }
        }
        if last.is_some_and(|(rank, _)| rank == 2) {
            self.newer.span |= SILENT;
            return self.free_from(from);
        }
        last.map(|(_, block)| block)
    }

    /// Whether a free block is left alone, as a newer checkpoint may need it; none if it does not
    /// tell. One read, of its first page, in a recovery that is not durable.
    #[inline(never)] // Its buffers are not on the stack of who asks what is free.
    fn is_left_alone(&mut self, block: u32) -> Option<bool> {
        let newer = self.newer;
        if newer.span == 0 {
            return Some(false);
        }
        let (mut data, mut spare) = ([0; HEADER], [0xff; tag::SIZE]);
        let len = if self.has_tags() { spare.len() } else { 0 };
        let at = self.geo.page(BlockAddr(block), 0);
        let told = match self.nand.read(at, 0, &mut data, &mut spare[..len]) {
            Ok(status) if !status.is_readable() => None,
            Ok(_) => match (
                header::seq(&data),
                self.tags.and_then(|form| Tag::decode(form, &spare)),
            ) {
                (Some(seq), _) => Some(newer.has(seq as u32)),
                (None, Some(tag)) => Some(newer.has(tag.seq)),
                (None, None) if header::is_blank(&data) => Some(false),
                (None, None) => None,
            },
            Err(_) => Some(true),
        };
        told.or(newer.is_silent().then_some(false))
    }

    /// Whether nothing is in a block, and nothing must have been.
    pub fn is_free(&mut self, block: u32) -> bool {
        matches!(self.state(block), BlockState::Free | BlockState::Clean)
    }

    /// Whether a free block is reserved, or was when power failed; or has
    /// failed, and is to be marked bad.
    pub fn is_spoken_for(&self, block: u32) -> bool {
        self.is_reserved(block)
            || self.failing.contains(block)
            || self.recovery.as_ref().is_some_and(|r| r.is_opened(block))
    }

    pub(crate) fn is_reserved(&self, block: u32) -> bool {
        let mut reserves = self.log.reserves[..self.log.reserved].iter();
        reserves.any(|r| u32::from(r.0) == block)
    }

    /// A block is not written any more.
    pub fn close(&mut self, block: u32) {
        if block == u32::MAX {
            return;
        }
        if matches!(self.state(block), BlockState::Meta(0) | BlockState::Data(0)) {
            self.kill(block);
        }
    }

    pub(crate) fn kill(&mut self, block: u32) {
        if let Some(i) = self.dirty.find(block) {
            self.dirty.remove(i);
        }
        if let Some(i) = self.remnants.find(block) {
            self.remnants.remove(i);
        }
        self.unmovable.forget(block);
        self.set_state(block, BlockState::Dead);
        self.tally.dead += 1;
    }

    /// Retires a block of the checkpoint or the allocation log.
    pub fn retire_system(&mut self, block: u32) {
        if self.state(block) == BlockState::System {
            self.set_state(block, BlockState::Dead);
            self.tally.dead += 1;
        }
    }

    /// Gives up a data head; what is left of its block is remembered as a remnant.
    pub fn save_remnant(&mut self, front: usize) {
        let head = core::mem::replace(&mut self.heads.data[front], Head::NONE);
        if head.block == u32::MAX {
            return;
        }
        if head.next >= self.ppb() || self.state(head.block) == BlockState::Data(0) {
            self.close(head.block);
            return;
        }
        if self.remnants.is_full() {
            let Head { block, next } = self.remnants.remove(0);
            // Its tail is not known from what is written to be empty.
            if self.valid_pages(block) == next && self.dirty.find(block).is_none() {
                self.list(block, next);
            }
        }
        self.remnants.push(head);
    }

    /// Continues a remnant at a data head.
    pub fn resume_remnant(&mut self, front: usize, remnant: usize) -> Result<(), Fault> {
        self.save_remnant(front);
        // Parking may have pushed the list's first entry out.
        if remnant < self.remnants.len {
            let is_unseen = self.remnants.is_unseen(remnant);
            let head = self.remnants.remove(remnant);
            if !self.is_good(head.block)?.is_true() {
                return Ok(());
            }
            if is_unseen && !self.goes_on(head)?.is_true() {
                self.give_up(head.block);
                return Ok(());
            }
            self.heads.data[front] = head;
        }
        Ok(())
    }

    /// Whether a block is being written.
    pub fn is_open(&self, block: u32) -> bool {
        self.heads.find(block).is_some()
            || self.table.head().block == block
            || self.updates_to_replay.blocks.contains(block)
    }

    /// Whether cleaning may take a block: it is not being written, and not
    /// one that could not be won.
    pub fn may_be_cleaned(&self, block: u32) -> bool {
        !self.is_open(block) && !self.unmovable.contains(block)
    }
}

//! Blocks whose bits had to be corrected are written anew.

use crate::cleaning::Volume;
use crate::cleaning::job::Why;
use crate::error::{Bool, Fault};
use crate::format::area::{Head, LogArea};
use crate::format::blockstate::BlockState;
use crate::format::limits::ANCHOR_PAGES;
use crate::space::limits::FLOOR;
use flashkit_nand::Nand;

impl<N: Nand> Volume<'_, N> {
    /// Writes the first block of the list anew, if there is one and there is room; whether it has
    /// done so. Moves of a block's pages, a checkpoint, or both.
    pub(crate) fn refresh(&mut self) -> Result<Bool, Fault> {
        let Some(block) = self.begin_refresh()? else {
            return Ok(Bool::False);
        };
        if !self.index_mut().is_stored(block) {
            return self.refresh_system(block);
        }
        let mut job = self.index_mut().begin_job(block, Why::Rot);
        // Pages that stay are looked at again: till then the block stays first on the list.
        while !self.job_step(&mut job, u32::MAX)?.is_true() {}
        Ok((!self.index_mut().is_stored(block)).into())
    }

    /// The first block of the list, if there is room to write it anew.
    pub(crate) fn begin_refresh(&mut self) -> Result<Option<u32>, Fault> {
        let Some(block) = self.store().nand.refresh.first() else {
            return Ok(None);
        };
        if self.store().available() <= FLOOR {
            return Ok(None);
        }
        self.durable.begin()?;
        // Many blocks may be written anew before the next change.
        if self.index_mut().is_due()?.is_true() {
            self.checkpoint(false)?;
        }
        Ok(Some(block))
    }

    /// Writes a block of the list anew that holds neither files nor metadata in use.
    pub(crate) fn refresh_system(&mut self, block: u32) -> Result<Bool, Fault> {
        let in_use = block < self.store().table.blocks()
            && self.store_mut().state(block) == BlockState::System;
        let result = if in_use {
            self.renew(block)
        } else {
            Ok(Bool::False)
        };
        self.store_mut().nand.refresh.remove(block);
        self.store_mut().written.refreshed += u64::from(matches!(result, Ok(Bool::True)));
        result
    }

    /// Writes what a block of the checkpoint or the allocation log holds anew, elsewhere or, of a
    /// root block, after an erase; `false` when it holds nothing.
    fn renew(&mut self, block: u32) -> Result<Bool, Fault> {
        let anchor = &mut self.durable.anchor;
        if anchor.is_written(block) {
            if block != anchor.leaf.block {
                if anchor.has_one_root() {
                    // The last root block is not erased, and its pages are few.
                    return Ok(Bool::False);
                }
                if anchor.roots.contains(&block) {
                    // Another round, in both root blocks.
                    anchor.root_next = ANCHOR_PAGES;
                }
                anchor.second_next = ANCHOR_PAGES;
            }
            anchor.leaf.next = self.durable.index.store.ppb();
        } else if self.store().is_log(block) {
            if self.store().heads.log[LogArea::Bitmap as usize].block == block {
                self.store_mut().heads.log[LogArea::Bitmap as usize] = Head::NONE;
            }
        } else {
            return Ok(Bool::False);
        }
        self.checkpoint(false)?;
        Ok(Bool::True)
    }

    pub(crate) fn refresh_in_room(&mut self) -> Result<Bool, Fault> {
        if self.store().log.session {
            self.make_room()?;
        }
        self.refresh()
    }
}

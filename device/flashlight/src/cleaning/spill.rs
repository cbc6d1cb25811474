//! Bits of valid pages that RAM has no place for go to pages of their own,
//! and come back from there.

use crate::cleaning::Volume;
use crate::error::Error;
use crate::format::validity::ROOM;
use crate::index::Index;
use crate::space::limits::FLOOR;
use flashkit_nand::Nand;

impl<N: Nand> Volume<'_, N> {
    /// Makes room on the dirty list. A read and a program mostly, and what
    /// the taking of a block costs.
    pub(crate) fn spill(&mut self) -> Result<(), Error<N::Error>> {
        let dirty = &self.durable.index.store.dirty;
        let room = dirty.most() - dirty.len();
        if self.durable.index.store.validity.known.is_empty() || room >= ROOM.min(dirty.most() / 4)
        {
            return Ok(());
        }
        // Not as long as cleaning is far, nor when every block is needed.
        let free = self.store().available();
        if free <= FLOOR || free > self.store().table.blocks() * 2 / 3 {
            return Ok(());
        }
        let kept = self.job.map(|job| job.block);
        let Some(range) = self.store().fullest_range(kept) else {
            return Ok(());
        };
        match self
            .durable
            .index
            .store
            .write_validity(range, kept, self.durable.index.scratch)
        {
            Err(Error::NoSpace) => {}
            done => done?,
        }
        if self.store().log_lost {
            self.checkpoint(false)?;
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// Gets what is known of a block that is to be cleaned. One read at most; its cost in reads.
    pub(crate) fn recall(&mut self, block: u32) -> Result<u32, Error<N::Error>> {
        self.store.recall(block, self.scratch).map(u32::from)
    }
}

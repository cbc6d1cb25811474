//! Bits of valid pages that RAM has no place for go to pages of their own, and come back from there.

use crate::FlashLight;
use crate::error::Error;
use crate::format::validity::ROOM;
use crate::space::limits::FLOOR;
use crate::space::store::Store;
use flashkit_nand::Nand;

impl<N: Nand> FlashLight<'_, N> {
    /// Makes room on the dirty list. A read and a program mostly, and what the taking of a block costs.
    pub(crate) fn spill(&mut self) -> Result<(), Error<N::Error>> {
        let dirty = &self.store.dirty;
        let room = dirty.most() - dirty.len();
        if self.store.validity.known.is_empty() || room >= ROOM.min(dirty.most() / 4) {
            return Ok(());
        }
        // Not as long as cleaning is far, nor when every block is needed.
        let free = self.store.available();
        if free <= FLOOR || free > self.store.table.blocks() * 2 / 3 {
            return Ok(());
        }
        let kept = self.sweep.map(|sweep| sweep.block);
        let Some(range) = self.store.fullest_range(kept) else {
            return Ok(());
        };
        match self.store.write_validity(range, kept, self.scratch) {
            Err(Error::NoSpace) => {}
            done => done?,
        }
        if self.store.log_lost {
            self.checkpoint(false)?;
        }
        Ok(())
    }
}

impl<N: Nand> Store<'_, N> {
    /// Puts together on the list what is known of a block, if it says which pages are valid; at most one
    /// read, and whether it was made.
    pub(crate) fn recall(&mut self, block: u32, page: &mut [u8]) -> Result<bool, Error<N::Error>> {
        if !self.validity.has(block) {
            return Ok(false);
        }
        let there = self.load_validity(self.validity.range(block), page)?;
        self.validity.drop(block);
        let bits = &mut page[self.validity.bits(block)];
        if !there {
            bits.fill(0xff);
        }
        let listed = self.dirty.find(block);
        if let Some(i) = listed {
            self.dirty.mask(i, bits);
        }
        let valid: u32 = bits.iter().map(|b| b.count_ones()).sum();
        match listed {
            _ if valid == self.valid_pages(block) => {
                let i = listed.unwrap_or_else(|| self.list(block, self.ppb()));
                self.dirty.set_bits(i, bits);
            }
            Some(i) => self.dirty.remove(i),
            None => {}
        }
        Ok(true)
    }
}

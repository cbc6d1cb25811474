//! Validity beyond the dirty list: entries that the list has no room for go to flash, as
//! the buffer of Logarithmic Gecko does (N. Dayan and others, 2016), to pages that are
//! merged as they are written.
//!
//! The blocks of a chip are divided into ranges. Each has a page with a bit for each page of its
//! blocks; when the list is nearly full, the entries of the range that has the most of them go
//! there: a read, and a program. What becomes invalid in such a block later begins a new entry;
//! the entry and the page on flash together say what is known. When the block is cleaned they are
//! put together, for a read.
//!
//! ```text
//! 32 first block u32
//! 36 for each block of the range a bit a page, least significant first; clear: not valid
//! ```
//!
//! Invariants:
//! * A clear bit on flash is right as long as the block is not erased:
//!   [`Validity::forget`]. So it is in an entry.
//! * Nothing rests on these pages. They count as invalid as soon as they are written, no checkpoint
//!   names them, and a mount does without. A block they are in is the last to be taken of those
//!   that are free; should it be erased, the pages of blocks that they knew of are looked at one by
//!   one, as those of a block without an entry are.
//! * What is put together counts only if it leaves as many valid pages as the block table says.
//! * Only blocks that are not written any more go there: all their pages have been
//!   programmed, or never will be.

use crate::error::{Bool, Fault};
use crate::format::area::LogArea;
use crate::format::header::{HEADER, Kind};
use crate::format::validity::{BITS, RANGES, WORTH, entry_bits, len, per_range};
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{Geometry, Nand, PageAddr};

/// Which blocks flash knows of, and where.
pub(crate) struct Validity<'r> {
    /// A bit a block, in the caller's RAM, set: flash knows of invalid pages in it, or did, and an
    /// entry on the list has those found since. Empty: nothing goes to flash.
    pub(crate) known: &'r mut [u8],
    pub places: [PageAddr; RANGES],
    geo: Geometry,
}

impl<'r> Validity<'r> {
    pub fn new(known: &'r mut [u8], geo: Geometry) -> Self {
        Validity {
            known,
            places: [PageAddr::NONE; RANGES],
            geo,
        }
    }

    /// Whether the entry of a block, if it has one, is a part of what is known of it.
    pub fn has(&self, block: u32) -> bool {
        let byte = self.known.get(block as usize / 8);
        byte.is_some_and(|byte| byte & 1 << (block % 8) != 0)
    }

    fn note(&mut self, block: u32) {
        self.known[block as usize / 8] |= 1 << (block % 8);
    }

    pub(crate) fn drop(&mut self, block: u32) {
        if let Some(byte) = self.known.get_mut(block as usize / 8) {
            *byte &= !(1 << (block % 8));
        }
    }

    /// Whether a block holds one of these pages.
    pub fn is_in(&self, block: u32) -> bool {
        let mut places = self.places.iter().filter(|at| at.is_some());
        places.any(|at| self.geo.block_of(*at).0 == block)
    }

    /// A block is erased.
    pub fn forget(&mut self, block: u32) {
        self.drop(block);
        for at in &mut self.places {
            if at.is_some() && self.geo.block_of(*at).0 == block {
                *at = PageAddr::NONE;
            }
        }
    }

    /// Pages may be valid that were not.
    pub fn forget_all(&mut self) {
        self.known.fill(0);
    }

    pub(crate) fn range(&self, block: u32) -> usize {
        (block / per_range(&self.geo)) as usize
    }

    /// Where the bits of a block are in the page of its range.
    pub(crate) fn bits(&self, block: u32) -> core::ops::Range<usize> {
        let size = entry_bits(self.geo.pages_per_block());
        let at = BITS + (block % per_range(&self.geo)) as usize * size;
        at..at + size
    }
}

impl<N: Nand> Store<'_, N> {
    /// The entry of a block on the dirty list, if it says all that is known of the block.
    pub fn listed(&self, block: u32) -> Option<usize> {
        self.dirty.find(block).filter(|_| !self.validity.has(block))
    }

    /// Whether the entry at `i` may go to flash: not that of a block which may still
    /// be written, or is `kept`.
    fn may_go(&self, i: usize, kept: Option<u32>) -> bool {
        let block = self.dirty.block(i);
        Some(block) != kept && !self.is_open(block) && self.remnants.find(block).is_none()
    }

    /// The range with the most entries that may go.
    pub(crate) fn fullest_range(&self, kept: Option<u32>) -> Option<usize> {
        let mut counts = [0; RANGES];
        for i in (0..self.dirty.len()).filter(|&i| self.may_go(i, kept)) {
            counts[self.validity.range(self.dirty.block(i))] += 1;
        }
        let range = (0..RANGES).max_by_key(|&range| counts[range])?;
        (counts[range] >= WORTH).then_some(range)
    }

    /// Loads the page of a range; `false` when there is none any more.
    pub(crate) fn load_validity(&mut self, range: usize, page: &mut [u8]) -> Result<Bool, Fault> {
        let header = self.read_meta(self.validity.places[range], page)?;
        Ok(Bool::from(
            header.is_some_and(|h| h.kind == Kind::Validity)
                && get_u32(page, HEADER) == range as u32 * per_range(&self.geo),
        ))
    }

    /// Moves the entries of a range to its page, but for those that must
    /// stay. One read, one program.
    pub(crate) fn write_validity(
        &mut self,
        range: usize,
        kept: Option<u32>,
        page: &mut [u8],
    ) -> Result<(), Fault> {
        if !self.load_validity(range, page)?.is_true() {
            page.fill(0xff);
        }
        let first = range as u32 * per_range(&self.geo);
        put_u32(page, HEADER, first);
        let mut i = 0;
        while i < self.dirty.len() {
            let block = self.dirty.block(i);
            if self.validity.range(block) != range || !self.may_go(i, kept) {
                i += 1;
                continue;
            }
            let bits = &mut page[self.validity.bits(block)];
            if !self.validity.has(block) {
                bits.fill(0xff);
            }
            self.dirty.mask(i, bits);
            self.validity.note(block);
            self.dirty.remove(i);
        }
        // What is there of blocks that have been erased since is not theirs, should
        // this page not come to be.
        self.validity.places[range] = PageAddr::NONE;
        let page = &mut page[..len(&self.geo, first)];
        let at = self.append(LogArea::Extent, page, Kind::Validity, PageAddr::NONE)?;
        self.validity.places[range] = at;
        self.invalidate(at, MayProgram);
        Ok(())
    }

    /// Puts together on the list what is known of a block of which flash says more, if that says
    /// which pages are valid. One read at most.
    pub(crate) fn recall(&mut self, block: u32, page: &mut [u8]) -> Result<(), Fault> {
        let there = self
            .load_validity(self.validity.range(block), page)?
            .is_true();
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::validity::{BITS, room};
    use flashkit_nand::Geometry;

    #[test]
    fn an_erase_forgets_the_block_and_the_pages_in_it() {
        let geo = Geometry::new(2048, 64, 64, 2048).unwrap();
        let mut known = [0; 256];
        assert_eq!(room(&geo, 1_610), known.len());
        let mut validity = Validity::new(&mut known, geo);
        validity.note(5);
        validity.note(300);
        validity.places[1] = PageAddr(5 * 64 + 3);
        assert!(validity.has(5) && validity.has(300) && !validity.has(4));
        assert!(validity.is_in(5) && !validity.is_in(6));
        validity.forget(5);
        assert!(!validity.has(5) && validity.has(300) && !validity.is_in(5));
        validity.forget_all();
        assert!(!validity.has(300));
        assert_eq!((validity.range(250), validity.range(251)), (0, 1));
        assert_eq!(validity.bits(251), BITS..BITS + 8);
        let large = Geometry::new(2048, 64, 64, 65_535).unwrap();
        assert_eq!(room(&large, 1_610), 0);
        assert_eq!(room(&geo, 1_000), 0, "the list is worth more");
        assert!(!Validity::new(&mut [], large).has(7));
    }
}

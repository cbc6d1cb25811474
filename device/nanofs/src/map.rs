//! The bitmap: two bits for each block of data, and two copies of each of its blocks.
//!
//! A block of the bitmap is sealed (numbers: 0, 0, its version) and holds the states of 2,000
//! blocks, 16 in a word. Of the two copies the older is written, so that a torn one costs nothing.

use flashkit_block::BlockDevice;

use crate::block::{NODE_DATA, NUMBER};
use crate::store::MAP;
use crate::{Error, NanoFs};

/// Blocks that a block of the bitmap tells of.
pub(crate) const MAPPED: u32 = NODE_DATA * 4;

/// Free: may be taken.
pub(crate) const FREE: u32 = 0;
/// Holds a node.
pub(crate) const USED: u32 = 1;
/// Given up, not yet clean.
pub(crate) const DIRTY: u32 = 2;
/// Promised to a file: its next node, or the second block of one.
pub(crate) const RESERVED: u32 = 3;

/// Which state a block comes to, above four bits for those that it may come from.
pub(crate) const TO_FREE: u32 = FREE << 4 | 1 << DIRTY;
pub(crate) const TO_USED: u32 = USED << 4 | 1 << USED | 1 << RESERVED;
pub(crate) const TO_DIRTY: u32 = DIRTY << 4 | TO_USED & 15 | 1 << DIRTY;
pub(crate) const TO_RESERVED: u32 = RESERVED << 4 | ANY;
/// From any state.
pub(crate) const ANY: u32 = 15;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// What the check of the block of the bitmap in RAM starts from, and its first copy.
    #[inline(never)]
    fn map_copy(&self) -> (u32, u32) {
        (self.init(0, self.map_at), 2 * self.map_at + 3 * self.files)
    }

    /// Brings the block of the bitmap to RAM that tells of a block; gives the word that holds its
    /// state there, and the first bit.
    /// Costs two reads if it is not there, three if the first copy is the newer one, and a write if
    /// the one in RAM has changed.
    #[inline(never)]
    fn map_load(&mut self, block: u32) -> (u32, u32) {
        let i = block.wrapping_sub(self.data);
        if i < self.blocks - self.data {
            let at = i / MAPPED + 1;
            if self.map_at != at {
                self.map_store();
                if self.ok() {
                    self.map_at = at;
                    let (init, copy) = self.map_copy();
                    if !self.fetch_newer(MAP, copy, init) {
                        self.map_at = 0;
                    }
                }
            }
            if self.map_at == at {
                let i = i % MAPPED;
                return (3 + i / 16, i % 16 * 2);
            }
        }
        self.fail(Error::BadBitmap);
        (0, 0)
    }

    #[inline(always)]
    fn map_word(&mut self, word: u32) -> &mut u32 {
        &mut self.mem[MAP][(word & 127) as usize]
    }

    /// Writes the block of the bitmap in RAM if it has changed.
    #[inline(never)]
    pub(crate) fn map_store(&mut self) {
        if self.map_changed && self.ok() {
            let version = (self.number(MAP, 2) + 1) & NUMBER;
            self.set_number(MAP, 2, version);
            let (init, copy) = self.map_copy();
            self.put(MAP, copy + (version & 1), init);
            self.map_changed = !self.ok();
        }
    }

    /// Writes the block of the bitmap that tells of a block anew: all that it tells of are used.
    #[cfg(feature = "rescue")]
    pub(crate) fn remake_map(&mut self, block: u32) {
        self.map_store();
        self.map_at = (block - self.data) / MAPPED + 1;
        crate::block::clear(&mut self.mem[MAP]);
        let first = self.data + (self.map_at - 1) * MAPPED;
        for i in 0..MAPPED.min(self.blocks - first) {
            *self.map_word(3 + i / 16) |= (USED << (i % 16 * 2)).to_le();
        }
        self.map_changed = true;
        self.map_store();
    }

    /// The state of a block.
    #[inline(never)]
    pub(crate) fn state(&mut self, block: u32) -> u32 {
        let (word, bit) = self.map_load(block);
        self.map_state(word, bit)
    }

    #[inline(always)]
    fn map_state(&mut self, word: u32, bit: u32) -> u32 {
        u32::from_le(*self.map_word(word)) >> (bit & 31) & 3
    }

    /// Sets the state of a block: `TO_` one. `BadBitmap` if it cannot come to that from the one it
    /// is in.
    #[inline(never)]
    pub(crate) fn mark(&mut self, block: u32, to: u32) {
        let (word, bit) = self.map_load(block);
        let was = self.map_state(word, bit);
        let change = was ^ to >> 4;
        if to >> was & 1 == 0 {
            self.fail(Error::BadBitmap);
        }
        if self.ok() && change != 0 {
            *self.map_word(word) ^= (change << (bit & 31)).to_le();
            self.map_changed = true;
        }
    }

    /// Finds a free block from the rotor on, which moves behind it, and does not mark it. `Full`
    /// when `looks` blocks have been looked at.
    #[inline(never)]
    pub(crate) fn find_free(&mut self) -> u32 {
        loop {
            if self.rotor.wrapping_sub(self.data) >= self.blocks - self.data {
                self.rotor = self.data;
            }
            if self.looks == 0 {
                self.fail(Error::Full);
            }
            self.looks = self.looks.wrapping_sub(1);
            let block = self.rotor;
            self.rotor += 1;
            if !self.ok() || self.state(block) == FREE {
                return block;
            }
        }
    }

    /// All blocks of data may be looked at.
    #[inline(always)]
    pub(crate) fn look_at_all(&mut self) {
        self.looks = self.blocks - self.data;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The change as [`NanoFs::mark`] allows it.
    fn allows(to: u32) -> [bool; 4] {
        [FREE, USED, DIRTY, RESERVED].map(|was| to >> was & 1 == 1)
    }

    #[test]
    fn a_block_that_holds_something_becomes_free_only_by_way_of_dirty() {
        assert_eq!(allows(TO_FREE), [false, false, true, false]);
        assert_eq!(allows(TO_USED), [false, true, false, true]);
        assert_eq!(allows(TO_DIRTY), [false, true, true, true]);
        assert_eq!(allows(TO_RESERVED), [true; 4]);
        let ends = [TO_FREE, TO_USED, TO_DIRTY, TO_RESERVED].map(|to| to >> 4);
        assert_eq!(ends, [FREE, USED, DIRTY, RESERVED]);
    }
}

//! The bitmap: two bits for each block of data, and two copies of each of its blocks.
//!
//! A block of the bitmap is sealed (numbers: its place from 1 on, 0, its version) and holds the states of 2,000
//! blocks, 16 in a word. Of the two copies the older is written, so that a torn one costs nothing.

use flashkit_block::BlockDevice;

use crate::block::NODE_DATA;
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

/// The states, as bits, that a block may come from: to free, used, dirty, reserved, four bits each.
const FROM: u32 = 0b1111_1110_1010_0100;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// What the check of the block of the bitmap in RAM starts from, and its first copy.
    #[inline(never)]
    fn map_copy(&self) -> (u32, u32) {
        (self.init(0, self.map_at), 2 * self.map_at + 3 * self.files)
    }

    /// Brings the block of the bitmap to RAM that tells of a block; gives the block's place there.
    /// Costs two reads if it is not there, three if the first copy is the newer one, and a write if
    /// the one in RAM has changed.
    #[inline(never)]
    fn map_load(&mut self, block: u32) -> u32 {
        let i = block.wrapping_sub(self.data);
        if i >= self.blocks - self.data {
            self.fail(Error::BadBitmap);
            return 0;
        }
        let at = i / MAPPED + 1;
        if self.map_at != at {
            self.map_store();
            if self.ok() {
                self.map_at = at;
                self.expected = at;
                let (init, copy) = self.map_copy();
                if !self.fetch_newer(MAP, copy, init) {
                    self.map_at = 0;
                    self.fail(Error::BadBitmap);
                }
            }
        }
        i % MAPPED
    }

    /// The word with the `i`-th state, 16 to a word.
    #[inline(always)]
    fn map_word(&mut self, i: u32) -> &mut u32 {
        &mut self.mem[MAP][((3 + i / 16) & 127) as usize]
    }

    /// Writes the block of the bitmap in RAM if it has changed.
    #[inline(never)]
    pub(crate) fn map_store(&mut self) {
        if self.map_changed && self.ok() {
            self.barrier();
            let version = self.number(MAP, 2) + 1;
            self.set_number(MAP, 0, self.map_at);
            self.set_number(MAP, 2, version);
            let (init, copy) = self.map_copy();
            self.put(MAP, copy + (version & 1), init);
            self.map_changed = !self.ok();
        }
    }

    /// The state of a block.
    #[inline(never)]
    pub(crate) fn state(&mut self, block: u32) -> u32 {
        let i = self.map_load(block);
        u32::from_le(*self.map_word(i)) >> (i % 16 * 2) & 3
    }

    /// Sets the state of a block. `BadBitmap` if it cannot come to that from the one it is in.
    #[inline(never)]
    pub(crate) fn mark(&mut self, block: u32, to: u32) {
        let i = self.map_load(block);
        let bit = i % 16 * 2;
        let was = u32::from_le(*self.map_word(i)) >> bit & 3;
        if FROM >> (4 * to + was) & 1 == 0 {
            self.fail(Error::BadBitmap);
        }
        if self.ok() && was != to {
            *self.map_word(i) ^= ((was ^ to) << bit).to_le();
            self.map_changed = true;
        }
    }

    /// Finds a free block from the rotor on, which moves behind it, and does not mark it. `Full`
    /// when `left` blocks have been looked at.
    #[inline(never)]
    pub(crate) fn find_free(&mut self) -> u32 {
        loop {
            if self.rotor >= self.blocks {
                self.rotor = self.data;
            }
            if self.left == 0 {
                self.fail(Error::Full);
            }
            self.left = self.left.wrapping_sub(1);
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
        self.left = self.blocks - self.data;
    }
}

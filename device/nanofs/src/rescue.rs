//! A volume with damaged headers: the files that have them are given up, so that the others are
//! there. For tools on a host.
//!
//! After a cut one slot may be damaged, the spare one. Any other one has lost a file, or that there
//! was none. It gets a header of no file, in the order of any other header: to the spare slot, and
//! the damaged slot is spare then.
//!
//! A tool that checks the volume then says which blocks the bitmap is wrong about.

use flashkit_block::BlockDevice;

use crate::header::{FILES_MAX, ID, SALT};
use crate::map::{ANY, MAPPED};
use crate::store::{HEADER, HEADER_INIT, META_INIT};
use crate::volume::META;
use crate::{Error, NanoFs, Result};

/// A set of slots, or of ids.
#[derive(Clone, Copy)]
struct Set([u64; FILES_MAX as usize / 64 + 1]);

impl Set {
    fn new() -> Set {
        Set([0; FILES_MAX as usize / 64 + 1])
    }

    fn add(&mut self, n: u32) {
        if let Some(word) = self.0.get_mut(n as usize / 64) {
            *word |= 1 << (n % 64);
        }
    }

    fn has(&self, n: u32) -> bool {
        let word = self.0.get(n as usize / 64);
        word.is_none_or(|word| word >> (n % 64) & 1 == 1)
    }
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// [`NanoFs::mount`] of a volume that it gives `BadHeader` for: files whose headers are damaged
    /// are given up. How many those are. Their blocks stay in use, and so do all that a damaged
    /// block of the bitmap tells of, until [`NanoFs::mend`] is told better.
    ///
    /// Costs two reads for each file the volume was made for, two or three for each block of the
    /// bitmap, a write for each damaged one of both, and what a mount costs.
    ///
    /// # Errors
    /// As [`NanoFs::mount`]; `BadHeader` when no header is left, nor what block 0 says.
    pub fn mount_damaged(&mut self, key: u32) -> Result<u32> {
        self.reset(key);
        self.read_figures();
        let lost = self.replace_damaged();
        self.remake_bitmap();
        for slot in 1..self.end {
            if slot != self.spare {
                self.recover(slot);
            }
        }
        if !self.ok() {
            self.end = 0;
        }
        self.value(lost)
    }

    /// Takes the volume's figures from block 0, or from any header.
    fn read_figures(&mut self) {
        let mut found = self.fetch(HEADER, META, META_INIT) == 0;
        let mut slot = 0;
        while !found && self.ok() && slot <= FILES_MAX && slot + 1 < self.dev.sector_count() {
            slot += 1;
            found = self.fetch(HEADER, slot, HEADER_INIT) == 0;
        }
        if !found {
            self.fail(Error::BadHeader);
        }
        if self.ok() {
            self.adopt();
        }
    }

    /// Whether a slot holds a header of the volume, which is in RAM then.
    fn is_header(&mut self, slot: u32) -> bool {
        self.fetch(HEADER, slot, HEADER_INIT) == 0 && self.get(SALT) == self.salt
    }

    /// Writes a header of no file for each damaged one; how many those are.
    fn replace_damaged(&mut self) -> u32 {
        let (mut valid, mut ids) = (Set::new(), Set::new());
        let mut slot = 0;
        while slot <= self.files && self.ok() {
            slot += 1;
            if self.is_header(slot) {
                valid.add(slot);
                self.note_slots();
            }
        }
        if self.seq == 0 || self.spare >= self.end {
            self.fail(Error::BadHeader);
        }
        let is_lost = |slot, spare| slot != spare && !valid.has(slot);
        for slot in 1..self.end {
            // That of the spare one is its file's, which has a newer header.
            if slot != self.spare && !is_lost(slot, self.spare) && self.is_header(slot) {
                ids.add(self.number(HEADER, ID));
            }
        }
        let (mut lost, mut id, spare) = (0, 0, self.spare);
        for slot in 1..self.end {
            if is_lost(slot, spare) && self.ok() {
                while ids.has(id) && id < self.end {
                    id += 1;
                }
                self.set_number(HEADER, ID, id);
                self.new_header();
                self.slot = slot;
                self.write_header();
                self.forget();
                (lost, id) = (lost + 1, id + 1);
            }
        }
        lost
    }

    /// Writes blocks of the bitmap anew of which neither copy is sound, as if all blocks that they
    /// tell of were in use: nothing of theirs is overwritten before [`NanoFs::mend`] knows better.
    fn remake_bitmap(&mut self) {
        let mut block = self.data;
        while block < self.blocks && self.ok() {
            self.state(block);
            if self.forgive(Error::BadBitmap) {
                self.remake_map(block);
            }
            block += MAPPED;
        }
    }

    /// Puts blocks into the state that the files ask for: 0 free, 1 used, 2 dirty, 3 reserved. And
    /// writes block 0 anew. Costs a write for that, and what the blocks of the bitmap cost: two or
    /// three reads and a write each.
    ///
    /// # Errors
    /// `BadBitmap`: one is no block of data, or what tells of it is damaged.
    pub fn mend(&mut self, states: &[(u32, u8)]) -> Result<()> {
        self.evict();
        for &(block, state) in states {
            self.mark(block, u32::from(state & 3) << 4 | ANY);
        }
        self.dirty_left = 2 * (self.blocks - self.data) as i32;
        self.map_store();
        self.new_header();
        self.put(HEADER, META, META_INIT);
        self.barrier();
        self.end()
    }
}

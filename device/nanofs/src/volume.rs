//! The volume: making it, mounting it, and what is left of it.
//!
//! ```text
//!  0          1               F + 2        3F + 2       3F + 2 + 2M
//!  +----------+---------------+------------+------------+----------------------------+
//!  | metadata | F + 1 slots   | 2F tails   | 2M bitmap  | data                       |
//!  +----------+---------------+------------+------------+----------------------------+
//! ```
//!
//! F files, M blocks of the bitmap. A file's header is in any of the slots: it is written to the
//! one that is spare, and its old slot is spare from then on.

use flashkit_block::BlockDevice;

use crate::block::{BLOCK, NODE_DATA, clear};
use crate::header::{
    BLOCKS, END, FILES, FILES_MAX, FLAGS, FORMAT_VERSION, KEY, MAGIC, NAFS, NEXT, OPEN, SALT, SEQ,
    SPARE, VERSION,
};
use crate::map::{MAPPED, TO_RESERVED};
use crate::store::{HEADER, HEADER_INIT, MAP, META_INIT};
use crate::{Error, NanoFs, Result};

/// Place of the metadata block.
pub(crate) const META: u32 = 0;
/// Blocks of a volume at most: 4 GiB.
const BLOCKS_MAX: u32 = 1 << 23;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// Lays a volume out; whether it holds any data.
    #[inline(never)]
    fn lay_out(&mut self, blocks: u32, files: u32) -> bool {
        // Where the figures are out of range these are, too.
        let fixed = files.wrapping_mul(3).wrapping_add(2);
        self.blocks = blocks;
        self.files = files;
        let maps = blocks.wrapping_sub(fixed).wrapping_add(MAPPED + 1) / (MAPPED + 2);
        self.maps = maps as u16;
        self.data = fixed.wrapping_add(2 * maps);
        self.rotor = self.data;
        self.dirty_at = self.data;
        self.dirty_left = blocks.wrapping_sub(self.data).wrapping_mul(2) as i32;
        files.wrapping_sub(1) < FILES_MAX && blocks <= BLOCKS_MAX && self.data < blocks
    }

    /// Forgets everything.
    #[inline(never)]
    pub(crate) fn reset(&mut self, key: u32) {
        self.key = key;
        self.forget();
        self.error = None;
        self.map_at = 0;
        self.map_changed = false;
        self.unflushed = false;
        for open in &mut self.open {
            open.slot = 0;
        }
        self.seq = 0;
        self.end = 0;
        self.trash_slot = 1;
        if self.dev.sector_size() != BLOCK as u32 {
            self.fail(Error::Geometry);
        }
    }

    /// Makes an empty volume for at most `files` files, as large as the device but 4 GiB at most,
    /// and mounts it. What the device held is lost.
    ///
    /// A mount must give the same `key`. `seed` should be a number that no earlier volume on this
    /// device had, best a random one: blocks of an earlier volume are told by it. (A volume that
    /// can still be recognised, or the making of which was cut, is told from the new one in any
    /// case.) Costs at most two reads, 5 writes, and one more for each 2,000 blocks.
    ///
    /// # Errors
    /// `Geometry`: the device has other sectors, or is too small for so many files.
    pub fn format(&mut self, key: u32, files: u32, seed: u32) -> Result<()> {
        self.reset(key);
        if !self.lay_out(self.dev.sector_count().min(BLOCKS_MAX), files) {
            self.fail(Error::Geometry);
        }
        self.salt = seed;
        // An earlier attempt may have been cut while it wrote block 0.
        if self.fetch(HEADER, META, META_INIT) == 0 || self.fetch(HEADER, 1, HEADER_INIT) == 0 {
            self.salt = self.get(SALT).wrapping_add(1);
        }
        // From here on there is no volume, until the first header is written; what block 0 holds
        // is none, and tells another attempt of the salt.
        clear(&mut self.mem[HEADER]);
        self.set(SALT, self.salt);
        for block in META..3 {
            self.put(HEADER, block, META_INIT);
        }
        let mut at = 0;
        while at < self.maps.into() && self.ok() {
            at += 1;
            clear(&mut self.mem[MAP]);
            self.map_at = at;
            self.map_changed = true;
            self.map_store();
        }
        // A free header in the first slot; the second is spare.
        self.new_header();
        self.slot = 2;
        self.spare = 1;
        self.end = 3;
        self.write_header();
        self.forget();
        self.put(HEADER, META, META_INIT);
        self.barrier();
        self.end()
    }

    /// Mounts the volume. Files that were open when power failed are brought to what was synced,
    /// or later; handles of an earlier mount are closed.
    ///
    /// Costs one read for each file and one more; each file that was open costs in addition a
    /// read for each node after its header, up to 40 more, the bitmap of what it holds, and four
    /// writes.
    ///
    /// # Errors
    /// `NotFormatted`, `Version`, `WrongKey`, `DeviceTooSmall`, `BadHeader`, `BadBitmap`.
    pub fn mount(&mut self, key: u32) -> Result<()> {
        self.reset(key);
        if self.read_slots() != 0 {
            for slot in 1..self.end {
                if slot != self.spare {
                    self.recover(slot);
                }
            }
        }
        if !self.ok() {
            self.end = 0;
        }
        self.end()
    }

    /// Takes the volume's figures from the header in RAM, or says why they are none.
    #[inline(never)]
    pub(crate) fn adopt(&mut self) {
        self.salt = self.get(SALT);
        let suits = self.lay_out(self.get(BLOCKS), self.get(FILES));
        let error = if self.get(MAGIC) != NAFS {
            Error::NotFormatted
        } else if self.get(VERSION) != FORMAT_VERSION {
            Error::Version
        } else if self.get(KEY) != self.key {
            Error::WrongKey
        } else if self.blocks > self.dev.sector_count() {
            Error::DeviceTooSmall
        } else if !suits {
            Error::BadHeader
        } else {
            return;
        };
        self.fail(error);
    }

    /// Looks at every slot in use; not 0 if a file was open.
    ///
    /// One slot may be damaged: the spare one, by a cut. It may have been the one that tells of
    /// the last slot, so one more is looked at then.
    fn read_slots(&mut self) -> u32 {
        // The last two slots of files that were open.
        let mut opens = 0;
        let mut bad = 0;
        let mut slot = 1;
        while slot < self.end.max(2) + u32::from(bad != 0) && self.ok() {
            let mut valid = self.fetch(HEADER, slot, HEADER_INIT) == 0;
            if valid && self.end == 0 {
                self.adopt();
            }
            valid &= self.ok() && self.get(SALT) == self.salt;
            if valid {
                self.note_slots();
                if self.get(FLAGS) & OPEN != 0 {
                    opens = opens << 16 | slot;
                }
            } else if bad == 0 {
                bad = slot;
            } else if slot < self.end {
                self.fail(Error::BadHeader);
            }
            slot += 1;
        }
        if self.end == 0 {
            // Block 0 says what is wrong.
            if self.fetch(HEADER, META, META_INIT) != 0 {
                self.fail(Error::NotFormatted);
            }
            self.adopt();
            self.fail(Error::BadHeader);
        }
        if bad != 0 && bad < self.end && bad != self.spare || self.spare >= self.end {
            self.fail(Error::BadHeader);
        }
        // What the spare slot holds does not count.
        if opens == self.spare { 0 } else { opens }
    }

    /// Takes what the header in RAM, of any slot, says of all of them.
    #[inline(always)]
    pub(crate) fn note_slots(&mut self) {
        let end = self.number(HEADER, END).min(self.files + 2);
        self.end = self.end.max(end);
        if self.get(SEQ) > self.seq {
            self.seq = self.get(SEQ);
            self.spare = self.number(HEADER, SPARE);
            self.rotor = self.get(NEXT);
        }
    }

    /// Brings a file that was open when power failed to a state that needs no second look.
    pub(crate) fn recover(&mut self, slot: u32) {
        self.load(slot);
        if !self.forgive(Error::NotFound) && self.ok() && self.get(FLAGS) & OPEN != 0 {
            // What the header names was perhaps never called so in the bitmap.
            self.mark_copies(TO_RESERVED);
            // Nodes and tails that were written before others that are missing must not be found
            // later.
            self.load_tail();
            self.begin_epoch();
            self.write_tail();
            self.write_closed();
        }
    }

    /// Makes everything written so far durable. Costs one write if the last file written has a
    /// tail that changed.
    pub fn sync(&mut self) -> Result<()> {
        self.save();
        self.barrier();
        self.end()
    }

    /// Bytes that can still be written: of blocks that are free or dirty. Costs two or three reads
    /// for each 2,000 blocks.
    pub fn space_left(&mut self) -> Result<u32> {
        let mut space = 0;
        for block in self.data..self.blocks {
            // Free and dirty are even.
            if self.state(block) & 1 == 0 {
                space += NODE_DATA;
            }
        }
        self.value(space)
    }
}

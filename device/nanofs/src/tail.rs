//! The file in RAM: its header, what was written since, and its tail.
//!
//! The *tail* is what does not fill a node yet. It is kept in the buffer; [`NanoFs::sync`], or
//! another file's turn, writes it to one of the file's two tail blocks, in turn, so that a torn
//! one costs nothing that was durable. A tail block is sealed; its numbers are the index of the
//! node that it will be, with the header's epoch mixed in, the bytes used, and a version. It is
//! valid for that index and in that epoch only.

use flashkit_block::BlockDevice;

use crate::block::{BLOCK, EPOCH_BITS, HEAD, NODE_DATA, NUMBER, bytes, clear};
use crate::header::{
    COPIES, COPIES_MAX, COPY, COUNT, EPOCH, FILE, FLAGS, ID, NEXT, OPEN, SALT, USED,
};
use crate::map::TO_RESERVED;
use crate::store::{BUFFER, HEADER, HEADER_INIT, MAP};
use crate::{Error, HANDLES, NONE, NanoFs};

/// Nodes that are left to be read again when another file has its turn; with more the header is
/// written.
const LEAVE: u32 = 3;
/// What a handle keeps of it: the bytes used of the tail, a bit, and the nodes above.
const USED_LEFT: u32 = IS_LEFT - 1;
const IS_LEFT: u32 = 1 << 9;
const LEFT_BITS: u32 = 10;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// What the check of a tail starts from, and the first of its two blocks.
    #[inline(never)]
    fn tail(&self) -> (u32, u32) {
        let (count, epoch) = (self.get(COUNT), self.get(EPOCH));
        (
            self.node_init(count) ^ !epoch,
            2 + self.files + 2 * (self.number(HEADER, ID) & NUMBER),
        )
    }

    /// Makes the file of a slot the one in RAM. Costs one read, and one for each node written since
    /// the header: three at most.
    #[inline(never)]
    pub(crate) fn load(&mut self, slot: u32) {
        if self.slot != slot && self.ok() {
            self.evict();
            self.fetch_slot(slot);
            if self.get(FLAGS) & FILE == 0 {
                self.fail(Error::NotFound);
            }
            self.slot = slot;
            self.since = 0;
            if self.get(FLAGS) & OPEN != 0 {
                self.roll_forward();
            }
        }
    }

    /// Reads the header in a slot. What was in RAM is gone.
    #[inline(never)]
    pub(crate) fn fetch_slot(&mut self, slot: u32) {
        if self.fetch(HEADER, slot, HEADER_INIT) != 0
            || self.get(SALT) != self.salt
            || self.get(COUNT) >= self.blocks
            || self.get(NEXT) >= self.blocks
            || self.get(USED) > NODE_DATA
            || self.get(COPIES) > COPY * COPIES_MAX
        {
            // Nothing may go by its numbers.
            clear(&mut self.mem[HEADER]);
            self.fail(Error::BadHeader);
        }
    }

    /// Takes in the nodes and the tail that were written after the header: what a handle says was
    /// left, else all there are.
    #[inline(always)]
    fn roll_forward(&mut self) {
        let left = self.left_by(self.slot);
        let epoch = self.get(EPOCH) & EPOCH_BITS;
        while self.get(NEXT) != 0 && (left == 0 || self.since < left >> LEFT_BITS) {
            let at = self.get(NEXT);
            // It is free if the bitmap in RAM was lost.
            self.mark(at, TO_RESERVED);
            if self.fetch_node(BUFFER, self.get(COUNT), at) != epoch {
                if left != 0 {
                    self.fail(Error::BadNode);
                }
                break;
            }
            self.take_next(self.number(BUFFER, 2));
        }
        if left != 0 {
            self.set(USED, left & USED_LEFT);
        } else {
            self.set(USED, NONE);
            self.load_tail();
        }
    }

    /// What the handles of a slot say was left; 0 if there is none.
    #[inline(always)]
    pub(crate) fn left_by(&self, slot: u32) -> u32 {
        self.open[self.handle_of(slot).min(HANDLES)].left.into()
    }

    /// The first handle of a slot, of 0 the first that is not in use; `HANDLES` if there is none.
    #[inline(never)]
    pub(crate) fn handle_of(&self, slot: u32) -> usize {
        let mut i = 0;
        while i < HANDLES && u32::from(self.open[i].slot) != slot {
            i += 1;
        }
        i
    }

    /// The handles of the file in RAM are told where its header is, and what is left.
    #[inline(never)]
    pub(crate) fn tell_handles(&mut self, slot: u32, left: u32) {
        for open in &mut self.open {
            if u32::from(open.slot) == self.slot {
                open.slot = slot as u16;
                open.left = left as u16;
            }
        }
    }

    /// Brings the tail to the buffer. Costs two or three reads if it is not there.
    #[inline(never)]
    pub(crate) fn load_tail(&mut self) {
        if !self.has_tail && self.ok() {
            self.forget_buffer();
            let (init, block) = self.tail();
            let mut used = 0;
            if self.fetch_newer(BUFFER, block, init) {
                used = self.number(BUFFER, 1);
            }
            let expected = self.get(USED);
            if used > NODE_DATA || expected != NONE && expected != used {
                self.fail(Error::BadNode);
            }
            self.set(USED, used);
            self.tail_version = self.number(BUFFER, 2);
            self.has_tail = true;
        }
        if Self::BUF > 1 {
            self.node_at = self.waiting;
        }
    }

    /// Writes the tail, which is in the buffer, to the older of its two blocks.
    #[inline(never)]
    pub(crate) fn write_tail(&mut self) {
        // Of 23 bits on the medium; a tail that could not be read has left anything.
        self.tail_version = self.tail_version.wrapping_add(1);
        let (init, block) = self.tail();
        self.set_number(BUFFER, 1, self.get(USED));
        self.set_number(BUFFER, 2, self.tail_version);
        self.put(BUFFER, block + (self.tail_version & 1), init);
        self.tail_changed = false;
    }

    /// Writes what the buffer holds and the medium does not: waiting nodes, and the tail as it is.
    #[inline(never)]
    pub(crate) fn save_tail(&mut self) {
        self.write_waiting();
        if self.tail_changed {
            self.write_tail();
        }
    }

    /// The same, but a full tail becomes a node if there is room for one.
    #[inline(never)]
    pub(crate) fn save(&mut self) {
        if self.tail_changed && self.get(USED) == NODE_DATA {
            self.push();
            self.forgive(Error::Full);
        }
        self.save_tail();
    }

    /// Frees the buffer for nodes that are to be read.
    #[inline(never)]
    pub(crate) fn put_away(&mut self) {
        if self.has_tail && self.ok() {
            self.save_tail();
            self.forget_buffer();
        }
    }

    /// Writes the header if there are too many nodes since.
    #[inline(never)]
    pub(crate) fn shorten(&mut self) {
        if self.since > LEAVE && self.ok() {
            self.write_header();
        }
    }

    /// Leaves the file in RAM: another one comes. `NotFormatted` if no volume is mounted.
    #[inline(never)]
    pub(crate) fn evict(&mut self) {
        if self.end == 0 {
            self.error = Some(Error::NotFormatted);
        }
        if self.slot != 0 {
            self.save();
            self.shorten();
            let left = IS_LEFT | self.since << LEFT_BITS | self.get(USED);
            self.tell_handles(self.slot, left);
        }
        self.forget();
    }

    /// Forgets the file in RAM and what is not saved of it.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.slot = 0;
        self.forget_buffer();
    }

    /// Forgets the file in RAM, which may disagree with the medium: it is read again as after a
    /// power cut.
    #[inline(never)]
    pub(crate) fn lose(&mut self) {
        self.tell_handles(self.slot, 0);
        self.forget();
    }

    /// Begins another epoch: what was written in earlier ones is not found any more. That is seen
    /// in [`EPOCH_BITS`] of it only, so the block where the next node goes must not hold one that
    /// looks like it; nodes that were brought home look like epoch 0. Costs a read.
    #[inline(never)]
    pub(crate) fn begin_epoch(&mut self) {
        self.map_store();
        if !self.ok() {
            return;
        }
        self.map_at = 0;
        let held = self.fetch_node(MAP, self.get(COUNT), self.get(NEXT));
        let mut epoch = self.get(EPOCH);
        loop {
            epoch = epoch.wrapping_add(1);
            let seen = epoch & EPOCH_BITS;
            if seen != 0 && seen != held {
                break;
            }
        }
        self.set(EPOCH, epoch);
    }

    /// The buffer holds nothing.
    #[inline(always)]
    pub(crate) fn forget_buffer(&mut self) {
        self.has_tail = false;
        self.tail_changed = false;
        self.node = 0;
        if Self::BUF > 1 {
            self.node_at = 0;
            self.read = 0;
            self.waiting = 0;
        }
    }

    /// The block of the buffer that is in use.
    #[inline(always)]
    fn in_use(&mut self) -> &mut [u8; BLOCK] {
        let which = self.buffer(self.node_at());
        bytes(&mut self.mem[which])
    }

    /// A byte of its payload.
    #[inline(always)]
    pub(crate) fn byte(&mut self, at: u32) -> u8 {
        self.in_use()[(HEAD + at as usize) % BLOCK]
    }

    /// Copies bytes there, up to `end`, and drops them from `data`; gives how many.
    #[inline(never)]
    pub(crate) fn patch(&mut self, from: u32, end: u32, data: &mut &[u8]) -> u32 {
        let mut at = from;
        let to = self.in_use();
        while at < end
            && let Some((byte, rest)) = data.split_first()
        {
            to[(HEAD + at as usize) % BLOCK] = *byte;
            *data = rest;
            at += 1;
        }
        at - from
    }
}

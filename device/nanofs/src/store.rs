//! Blocks from and to the device, in the order that crashes ask for.
//!
//! Nodes are written without order among each other. Every other write (headers, tails, blocks of
//! the bitmap) is preceded by a flush, and a header is followed by one. What a header names is
//! therefore durable before it, and it before whatever relies on it.
//!
//! Errors are latched: after the first one nothing is read, written or marked until the call ends,
//! so that not every step needs a branch. The call gives the error and the latch opens.

use flashkit_block::BlockDevice;

use crate::block::{NUMBER, seal, unseal};
use crate::header::{COPIES, END, LAST, SEQ, SPARE, TRASH_COUNT, TRASH_NEXT, UID};
use crate::{Error, NanoFs, Result};

/// Which block in RAM: the header,
pub(crate) const HEADER: usize = 0;
/// the block of the bitmap,
pub(crate) const MAP: usize = 1;
/// the first one of the buffer.
pub(crate) const BUFFER: usize = 2;

/// What the check of a header starts from.
pub(crate) const HEADER_INIT: u32 = b'H' as u32;
/// What the check of the metadata block starts from.
pub(crate) const META_INIT: u32 = b'M' as u32;

/// How often a block is read before it counts as one that cannot be read.
const TRIES: u32 = 3;

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// A word of the header in RAM.
    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> u32 {
        u32::from_le(self.mem[HEADER][at])
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, at: usize, value: u32) {
        self.mem[HEADER][at] = value.to_le();
    }

    /// A word of an array in the header in RAM.
    #[inline(always)]
    pub(crate) fn cell(&self, array: usize, i: u32) -> u32 {
        u32::from_le(self.mem[HEADER][(array + i as usize) & 127])
    }

    #[inline(always)]
    pub(crate) fn set_cell(&mut self, array: usize, i: u32, value: u32) {
        self.mem[HEADER][(array + i as usize) & 127] = value.to_le();
    }

    /// A number of a block in RAM: the check is above it if the block was written since.
    #[inline(always)]
    pub(crate) fn number(&self, which: usize, i: usize) -> u32 {
        u32::from_le(self.mem[which.min(N - 1)][i])
    }

    #[inline(always)]
    pub(crate) fn set_number(&mut self, which: usize, i: usize, value: u32) {
        self.mem[which.min(N - 1)][i] = value.to_le();
    }

    /// Of a place in the buffer, which block in RAM it is.
    #[inline(always)]
    pub(crate) fn buffer(&self, at: u32) -> usize {
        (BUFFER + at as usize).min(N - 1)
    }

    /// The place in the buffer of the node last looked at, or of the tail.
    #[inline(always)]
    pub(crate) fn node_at(&self) -> u32 {
        if Self::BUF > 1 {
            self.node_at.into()
        } else {
            0
        }
    }

    /// Full nodes that wait in the buffer.
    #[inline(always)]
    pub(crate) fn waiting(&self) -> u32 {
        if Self::BUF > 1 {
            self.waiting.into()
        } else {
            0
        }
    }

    /// The block of the node last looked at.
    #[inline(always)]
    pub(crate) fn node_block(&self) -> u32 {
        self.read_at + self.node_at()
    }

    /// What the check of a block starts from: different for every file and index.
    #[inline(never)]
    pub(crate) fn init(&self, uid: u32, index: u32) -> u32 {
        (uid.rotate_right(10) ^ index)
            .wrapping_mul(0x9e37_79b1)
            .rotate_left(16)
            ^ uid
            ^ self.salt
    }

    /// What the check of a node of the file in RAM starts from.
    #[inline(always)]
    pub(crate) fn node_init(&self, index: u32) -> u32 {
        self.init(self.get(UID), index)
    }

    /// Reads the node `index` of the file in RAM; gives how its check differs.
    #[inline(never)]
    pub(crate) fn fetch_node(&mut self, which: usize, index: u32, block: u32) -> u32 {
        let init = self.node_init(index);
        self.fetch(which, block, init)
    }

    /// Latches an error. Not what a caller may wait for: false.
    #[inline(always)]
    pub(crate) fn fail(&mut self, error: Error) -> bool {
        if self.ok() {
            self.error = Some(error);
        }
        false
    }

    /// Whether no error is latched.
    #[inline(always)]
    pub(crate) fn ok(&self) -> bool {
        self.error.is_none()
    }

    /// Opens the latch if it holds this error; whether it does.
    #[inline(always)]
    pub(crate) fn forgive(&mut self, error: Error) -> bool {
        let is = self.error.is_some_and(|held| held as u32 == error as u32);
        if is {
            self.error = None;
        }
        is
    }

    /// Ends a call that gives a value.
    #[inline(never)]
    pub(crate) fn value(&mut self, value: u32) -> Result<u32> {
        self.end().map(|()| value)
    }

    /// Ends a call.
    #[inline(never)]
    pub(crate) fn end(&mut self) -> Result<()> {
        match self.error.take() {
            None => Ok(()),
            Some(error) => {
                if error as u32 <= Error::BadNode as u32 {
                    self.lose();
                }
                Err(error)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn device_failed(&mut self, error: D::Error) {
        self.failed = Some(error);
        self.fail(Error::Device);
    }

    /// Everything written so far is durable.
    #[inline(never)]
    pub(crate) fn barrier(&mut self) {
        self.write_waiting();
        if self.unflushed && self.ok() {
            self.unflushed = false;
            if let Err(error) = self.dev.flush() {
                self.device_failed(error);
            }
        }
    }

    /// Reads a block; gives how its check differs from what `init` says. What fails once may have
    /// failed on the way, so it is read again. One that cannot be read is no block, where a cut may
    /// leave such; what it holds then is anything.
    #[inline(never)]
    pub(crate) fn fetch(&mut self, which: usize, block: u32, init: u32) -> u32 {
        self.left = self.left.wrapping_sub(1);
        let mut tries = TRIES;
        while tries > 0 && self.ok() {
            tries -= 1;
            let to = &mut self.mem[which.min(N - 1)];
            match self.dev.read(block, bytemuck::cast_slice_mut(to)) {
                Ok(()) => {
                    let (crc, held) = unseal(to, init);
                    return crc ^ held;
                }
                Err(_) if D::TEARS || tries > 0 => {}
                Err(error) => self.device_failed(error),
            }
        }
        u32::MAX
    }

    /// Of two blocks in a row that are written in turn, reads the newer one; whether there is one.
    /// The version is their third number, and its lowest bit says which of them it is.
    #[inline(never)]
    pub(crate) fn fetch_newer(&mut self, which: usize, block: u32, init: u32) -> bool {
        let first = self.fetch(which, block, init) == 0;
        let version = self.number(which, 2);
        let second = self.fetch(which, block + 1, init) == 0;
        let newer = version.wrapping_sub(self.number(which, 2)) & NUMBER;
        if first && (!second || newer <= NUMBER / 2) {
            return self.fetch(which, block, init) == 0;
        }
        second
    }

    /// Writes a block.
    #[inline(never)]
    pub(crate) fn write_block(&mut self, which: usize, block: u32) {
        self.left = self.left.wrapping_sub(1);
        if self.ok() {
            self.unflushed = true;
            let from = &self.mem[which.min(N - 1)];
            if let Err(error) = self.dev.write(block, bytemuck::cast_slice(from)) {
                self.device_failed(error);
            }
        }
    }

    /// Seals a block and writes it, when everything before is durable.
    #[inline(never)]
    pub(crate) fn put(&mut self, which: usize, block: u32, init: u32) {
        self.barrier();
        seal(&mut self.mem[which.min(N - 1)], init, 0);
        self.write_block(which, block);
    }

    /// Writes the header in RAM to the spare slot; its old slot is spare from now on.
    ///
    /// Nodes that it takes in are not looked for any more after a cut, so the bitmap must call
    /// them used before.
    #[inline(never)]
    pub(crate) fn write_header(&mut self) {
        if self.since > 0 {
            self.map_store();
        }
        let (from, to) = (self.slot, self.spare);
        self.seq = self.seq.wrapping_add(1);
        self.set(SEQ, self.seq);
        self.set(SPARE, from);
        self.set(END, self.end);
        // The second half tells of the first, so that the halves of two torn headers make none.
        let (unlike, _) = unseal(&mut self.mem[HEADER], HEADER_INIT);
        self.set(LAST, unlike);
        self.put(HEADER, to, HEADER_INIT);
        self.barrier();
        if self.ok() {
            self.tell_handles(to, 0);
            self.slot = to;
            self.spare = from;
            self.since = 0;
            if self.has_trash() {
                self.trash_slot = 1;
            }
        }
    }

    /// Whether the file in RAM has blocks to be given up.
    #[inline(always)]
    pub(crate) fn has_trash(&self) -> bool {
        self.get(TRASH_NEXT) | self.get(COPIES) | self.get(TRASH_COUNT) != 0
    }
}

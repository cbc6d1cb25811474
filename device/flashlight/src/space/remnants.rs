//! Closed blocks with an unwritten tail.

use crate::format::area::{Head, UNSEEN};
use flashkit_bytes::{get_u16, put_u16};

/// Blocks with an unwritten tail, least recently used first: 4 bytes each in the caller's RAM.
pub(crate) struct Remnants<'r> {
    pub(crate) bytes: &'r mut [u8],
    pub len: usize,
}

impl<'r> Remnants<'r> {
    pub fn new(bytes: &'r mut [u8]) -> Self {
        Remnants { bytes, len: 0 }
    }
    pub fn get(&self, i: usize) -> Head {
        Head {
            block: u32::from(get_u16(self.bytes, 4 * i)),
            next: u32::from(get_u16(self.bytes, 4 * i + 2)) & !UNSEEN,
        }
    }
    pub fn is_unseen(&self, i: usize) -> bool {
        u32::from(get_u16(self.bytes, 4 * i + 2)) & UNSEEN != 0
    }
    pub fn find(&self, block: u32) -> Option<usize> {
        (0..self.len).find(|&i| self.get(i).block == block)
    }
    pub fn remove(&mut self, i: usize) -> Head {
        let head = self.get(i);
        self.bytes.copy_within(4 * (i + 1)..4 * self.len, 4 * i);
        self.len -= 1;
        head
    }
    /// Adds the most recently used; the caller has made room.
    pub fn push(&mut self, head: Head) {
        put_u16(self.bytes, 4 * self.len, head.block as u16);
        put_u16(self.bytes, 4 * self.len + 2, head.next as u16);
        self.len += 1;
    }
    pub fn is_full(&self) -> bool {
        4 * (self.len + 1) > self.bytes.len()
    }
}

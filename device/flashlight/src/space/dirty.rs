//! The dirty list: which pages are valid in blocks that hold invalid ones (paper, 4.3).
//!
//! ```text
//! 0  block u16    2  one bit a page, set: valid
//! ```
//!
//! An entry spares the cleaner every read of an obsolete page. The list is bounded; a block that
//! lost its entry, or never had one, is still cleaned: each page's owner is then asked.
//!
//! The same bytes hold, from their end, what cannot be done without: the changes of directories
//! that are in no page of them yet ([`crate::format::deferred`]). The list takes what these leave.

use crate::format::validity::entry_bits;
use crate::space::tail::Tail;
use core::cell::Cell;
use core::ops::Range;
use flashkit_bytes::{get_u16, put_u16};

/// Entries of the list (paper: 161 at 2 KiB pages).
pub(crate) const ENTRIES: usize = 161;
/// Entries at most, with more RAM: it is searched from its beginning.
pub(crate) const MOST: usize = 4096;

/// Bytes of an entry.
pub(crate) const fn entry_size(pages_per_block: u32) -> usize {
    2 + entry_bits(pages_per_block)
}

/// The list, in the caller's RAM, oldest entry first. What it does not need yet is spare.
pub(crate) struct DirtyList<'r> {
    bytes: &'r mut [u8],
    size: usize,
    len: usize,
    most: usize,
    pages: u32,
    /// Bytes at the end that are not the list's.
    tail: Tail,
    /// The block last looked for in vain: mostly the one that is written, page after page.
    absent: Cell<Option<u32>>,
}

impl<'r> DirtyList<'r> {
    /// A list of `most` entries at most, if there are bytes for them; `tail_most` bytes may become
    /// the deferred changes'.
    pub fn new(bytes: &'r mut [u8], pages_per_block: u32, most: usize, tail_most: u16) -> Self {
        let size = entry_size(pages_per_block);
        DirtyList {
            most: most.min(bytes.len() / size),
            bytes,
            size,
            len: 0,
            pages: pages_per_block,
            tail: Tail::new(tail_most),
            absent: Cell::new(None),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the list, and of what is spare.
    pub fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Entries at most, beside what there is of deferred changes.
    pub fn most(&self) -> usize {
        self.most
            .min((self.bytes.len() - self.tail.len()) / self.size)
    }

    /// The deferred changes.
    pub fn tail(&self) -> &[u8] {
        self.tail.of(self.bytes)
    }

    /// Bytes that the deferred changes can take, all together.
    pub fn tail_most(&self) -> usize {
        self.tail.most.into()
    }

    /// The same, to be changed.
    pub fn tail_mut(&mut self) -> &mut [u8] {
        self.tail.of_mut(self.bytes)
    }

    /// Puts so many bytes in front of the deferred changes, for which entries go where need be.
    /// They are to be written. `false` if there is no room for them.
    pub fn tail_grow(&mut self, n: usize) -> bool {
        let has_room = self.tail.grow(n);
        while self.len > self.most() {
            self.give_up_one();
        }
        has_room
    }

    /// Bytes that there are for more deferred changes.
    pub fn tail_room(&self) -> usize {
        self.tail.room()
    }

    /// Takes bytes out of the deferred changes, by their place there.
    pub fn tail_remove(&mut self, range: Range<usize>) {
        self.tail.remove(self.bytes, range);
    }

    /// The entries as they go to flash.
    pub fn raw(&self) -> &[u8] {
        &self.bytes[..self.len * self.size]
    }

    /// Takes entries from flash; `raw` must be whole entries and fit.
    pub fn load(&mut self, raw: &[u8]) {
        self.absent.set(None);
        self.len = (raw.len() / self.size).min(self.most());
        let n = self.len * self.size;
        self.bytes[..n].copy_from_slice(&raw[..n]);
    }

    /// The bytes behind the list, which may be used until it grows; the last are the deferred
    /// changes.
    pub fn spare(&self) -> &[u8] {
        &self.bytes[self.len * self.size..]
    }

    /// The same, to be written.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len * self.size..]
    }

    #[inline]
    pub fn block(&self, i: usize) -> u32 {
        u32::from(get_u16(self.bytes, i * self.size))
    }

    #[inline]
    pub fn find(&self, block: u32) -> Option<usize> {
        if self.absent.get() == Some(block) {
            return None;
        }
        let number = u16::try_from(block).ok()?.to_le_bytes();
        let mut entries = self.raw().chunks_exact(self.size);
        let found = entries.position(|entry| entry[..2] == number);
        if found.is_none() {
            self.absent.set(Some(block));
        }
        found
    }

    /// Whether a page is valid by the entry at `i`.
    #[inline]
    pub fn is_valid(&self, i: usize, page: u32) -> bool {
        self.bytes[i * self.size + 2 + page as usize / 8] & 1 << (page % 8) != 0
    }

    #[inline]
    pub fn set(&mut self, i: usize, page: u32, valid: bool) {
        let byte = &mut self.bytes[i * self.size + 2 + page as usize / 8];
        if valid {
            *byte |= 1 << (page % 8);
        } else {
            *byte &= !(1 << (page % 8));
        }
    }

    fn bits(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.size + 2..(i + 1) * self.size]
    }

    pub fn valid(&self, i: usize) -> u32 {
        self.bits(i).iter().map(|b| b.count_ones()).sum()
    }

    /// Clears in `bits` those of pages that are not valid by the entry at `i`.
    pub fn mask(&self, i: usize, bits: &mut [u8]) {
        for (bits, own) in bits.iter_mut().zip(self.bits(i)) {
            *bits &= own;
        }
    }

    /// Takes these bits for the entry at `i`.
    pub fn set_bits(&mut self, i: usize, bits: &[u8]) {
        self.bytes[i * self.size + 2..(i + 1) * self.size].copy_from_slice(bits);
    }

    /// Adds a block whose first `programmed` pages are all valid, giving up the entry with the
    /// most valid pages when the list is full.
    pub fn add(&mut self, block: u32, programmed: u32) -> usize {
        while self.len >= self.most() {
            self.give_up_one();
        }
        let i = self.len;
        self.len += 1;
        self.absent.set(None);
        put_u16(self.bytes, i * self.size, block as u16);
        self.bytes[i * self.size + 2..(i + 1) * self.size].fill(0);
        for page in 0..programmed.min(self.pages) {
            self.set(i, page, true);
        }
        i
    }

    /// Gives up the entry with the most valid pages.
    fn give_up_one(&mut self) {
        let most = (0..self.len).max_by_key(|&i| self.valid(i)).unwrap_or(0);
        self.remove(most);
    }

    pub fn remove(&mut self, i: usize) {
        self.bytes
            .copy_within((i + 1) * self.size..self.len * self.size, i * self.size);
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_bits_and_the_list_its_bound() {
        let mut bytes = [0u8; 39];
        let mut l = DirtyList::new(&mut bytes, 64, 4, 0);
        assert_eq!(l.spare().len(), 39);
        let a = l.add(7, 64);
        l.set(a, 5, false);
        l.add(8, 3);
        l.add(9, 0);
        assert_eq!((l.valid(0), l.valid(1), l.valid(2)), (63, 3, 0));
        assert!(!l.is_valid(0, 5) && l.is_valid(0, 6));
        l.add(10, 1);
        assert_eq!(l.find(7), None, "the entry with the most valid pages went");
        assert_eq!((l.len(), l.spare().len()), (3, 9));
        l.remove(0);
        assert_eq!(l.find(9), Some(0));
        assert_eq!(l.find(11), None);
        assert_eq!(l.add(11, 1), 2);
        assert_eq!(l.find(11), Some(2));
        let raw: [u8; 10] = l.raw()[..10].try_into().unwrap();
        l.remove(0);
        assert_eq!(l.find(9), None);
        l.load(&raw);
        assert_eq!((l.find(9), l.find(11)), (Some(0), None));
    }

    /// Deferred changes push out entries, never the other way round; what they leave is the list's.
    #[test]
    fn deferred_changes_come_before_entries() {
        let mut bytes = [0u8; 40];
        let mut l = DirtyList::new(&mut bytes, 64, 4, 25);
        assert_eq!((l.most(), l.spare().len()), (4, 40));
        for block in 1..=4 {
            l.add(block, block);
        }
        let push = |l: &mut DirtyList<'_>, bytes: &[u8]| {
            let has_room = l.tail_grow(bytes.len());
            l.tail_mut()[..bytes.len()].copy_from_slice(bytes);
            has_room
        };
        assert!(push(&mut l, &[7; 10]));
        assert_eq!((l.len(), l.most(), l.spare().len()), (3, 3, 10));
        assert_eq!(l.find(4), None, "the entry with the most valid pages went");
        assert!(push(&mut l, &[8; 5]) && push(&mut l, &[9; 10]));
        assert_eq!((l.len(), l.most()), (1, 1));
        assert!(!l.tail_grow(1), "no more than may be");
        assert_eq!(l.tail(), [[9; 10].as_slice(), &[8; 5], &[7; 10]].concat());
        l.tail_remove(10..15);
        assert_eq!(l.tail(), [[9; 10].as_slice(), &[7; 10]].concat());
        l.add(5, 0);
        assert_eq!((l.len(), l.valid(0)), (2, 1));
        l.tail_remove(0..10);
        assert_eq!((l.tail(), l.most()), ([7; 10].as_slice(), 3));
    }
}

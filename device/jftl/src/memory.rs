//! RAM that saves reads: sums of what homes hold, and copies of pages of the journal.
//!
//! A sum is a hint, and may be another sector's. A copy is what its page holds, from the program
//! to the erase of its block.

use flashkit_bytes::{crc32c, get_u32, put_u32};

use crate::layout::{NONE, TAG};

/// Bytes that a copy takes beside its page's: the page's number, and its tag.
const KEY: usize = 4 + TAG;

/// What is remembered; nothing, if no RAM was handed over.
#[derive(Default)]
pub(crate) struct Memory<'a> {
    /// The CRC-32C of what each home was last known to hold; 0: not known.
    sums: &'a mut [u8],
    /// The page and its owners, of each copy.
    keys: &'a mut [u8],
    copies: &'a mut [u8],
    page: usize,
}

/// What a sum says of a sector and its new bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likely {
    Unknown,
    Same,
    Other,
}

impl<'a> Memory<'a> {
    pub fn new(page: usize, sums: &'a mut [u8], copies: &'a mut [u8]) -> Memory<'a> {
        let count = copies.len() / (KEY + page);
        let (keys, copies) = copies.split_at_mut(count * KEY);
        sums.fill(0);
        keys.fill(0xFF);
        let len = sums.len() / 4 * 4;
        Memory {
            sums: &mut sums[..len],
            keys,
            copies: &mut copies[..count * page],
            page,
        }
    }

    /// Notes what a home is about to hold, and says whether it is likely to hold that already.
    pub fn note(&mut self, home: u32, data: &[u8]) -> Likely {
        let Some(at) = slot(home, self.sums.len() / 4) else {
            return Likely::Unknown;
        };
        let (old, new) = (get_u32(self.sums, 4 * at), crc32c(data).max(1));
        put_u32(self.sums, 4 * at, new);
        match old {
            0 => Likely::Unknown,
            _ if old == new => Likely::Same,
            _ => Likely::Other,
        }
    }

    /// Keeps what was programmed.
    pub fn keep(&mut self, page: u32, tag: &[u8; TAG], data: &[u8]) {
        let Some(at) = slot(page, self.keys.len() / KEY) else {
            return;
        };
        put_u32(self.keys, at * KEY, page);
        self.keys[at * KEY + 4..][..TAG].copy_from_slice(tag);
        self.copies[at * self.page..][..self.page].copy_from_slice(data);
    }

    /// The tag and the bytes of a page.
    pub fn copy(&self, page: u32) -> Option<([u8; TAG], &[u8])> {
        let at = slot(page, self.keys.len() / KEY)?;
        if get_u32(self.keys, at * KEY) != page {
            return None;
        }
        let mut tag = [0; TAG];
        tag.copy_from_slice(&self.keys[at * KEY + 4..][..TAG]);
        Some((tag, &self.copies[at * self.page..][..self.page]))
    }

    /// Forgets pages that are erased.
    pub fn forget(&mut self, pages: core::ops::Range<u32>) {
        for page in pages {
            if let Some(at) = slot(page, self.keys.len() / KEY)
                && get_u32(self.keys, at * KEY) == page
            {
                put_u32(self.keys, at * KEY, NONE);
            }
        }
    }
}

fn slot(number: u32, count: usize) -> Option<usize> {
    (number as usize).checked_rem(count)
}

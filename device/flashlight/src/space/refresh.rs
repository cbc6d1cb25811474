//! Blocks of which bits had to be corrected when they were read.

use flashkit_nand::{PageAddr, ReadStatus};

/// Blocks that are remembered at most.
pub(crate) const LIST: usize = 8;

/// Blocks to be written anew, the first noticed first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefreshList {
    pub(crate) blocks: [u32; LIST],
    pub(crate) len: usize,
    /// Corrected bits of a page from which on its block is listed.
    pub(crate) bits: u32,
    pub(crate) pages_per_block: u32,
}

impl RefreshList {
    pub fn new(bits: u32, pages_per_block: u32) -> Self {
        RefreshList {
            blocks: [0; LIST],
            len: 0,
            bits: bits.max(1),
            pages_per_block,
        }
    }

    pub fn note(&mut self, page: PageAddr, status: ReadStatus) {
        if matches!(status, ReadStatus::Corrected(n) if n >= self.bits) {
            self.add(page.0 / self.pages_per_block);
        }
    }

    pub fn add(&mut self, block: u32) {
        if self.len < LIST && !self.blocks[..self.len].contains(&block) {
            self.blocks[self.len] = block;
            self.len += 1;
        }
    }

    pub fn remove(&mut self, block: u32) {
        if let Some(i) = self.blocks[..self.len].iter().position(|&b| b == block) {
            self.blocks.copy_within(i + 1..self.len, i);
            self.len -= 1;
        }
    }

    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.blocks[..self.len].first().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

//! What is known of the journal of an ext3 or ext4 file system: where it lies, and which home each
//! of its blocks belongs to.
//!
//! ```text
//! table: | sector | homes: 4 a block of the journal | pieces: 8 each |
//! ```

use flashkit_bytes::{get_u32, put_u32};

use crate::layout::{NONE, PER_SEGMENT};

/// The first word of the journal's own blocks.
const MAGIC: u32 = 0xC03B_3998;
const DESCRIPTOR: u32 = 1;

/// Blocks of the journal that lie in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// First block in the file system.
    pub block: u32,
    /// Its number in the journal.
    pub index: u32,
    pub len: u32,
}

/// Bytes of a piece in the table: its first block, and that block's number in the journal.
pub(crate) const RUN: usize = 8;

/// The pieces of a journal of so many blocks, as the table has them behind the homes.
pub(crate) fn runs(table: &[u8], blocks: u32, count: usize) -> impl Iterator<Item = Run> {
    let at = move |i: usize| 4 * blocks as usize + RUN * i;
    (0..count).map(move |i| {
        let index = get_u32(table, at(i) + 4);
        let last = i + 1 == count;
        let end = if last {
            blocks
        } else {
            get_u32(table, at(i + 1) + 4)
        };
        Run {
            block: get_u32(table, at(i)),
            index,
            len: end - index,
        }
    })
}

/// Whether a journal is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// Remapping is off: no table has been handed over.
    Off,
    /// Plain translation; the text says why.
    None(&'static str),
    /// A journal of so many blocks.
    Watched {
        /// Blocks.
        blocks: u32,
        /// Bytes of a block.
        block_size: u32,
    },
}

/// What is known of a journal.
pub(crate) struct Watch<'a> {
    /// For each block of the journal the home of what it holds, or
    /// [`NONE`]; behind them the pieces.
    pub table: &'a mut [u8],
    /// One sector.
    pub buf: &'a mut [u8],
    pub state: JournalState,
    /// A superblock was written: to be looked at with the next flush.
    pub stale: bool,
    pub base: u32,
    pub per_block: u32,
    pub blocks: u32,
    pub run_count: usize,
    pub digest: u32,
    /// The log proper: its first block, and the one behind its last.
    pub first: u32,
    pub end: u32,
    pub tag_len: usize,
    /// Tags hold more than their home's number in 4 bytes.
    pub v3: bool,
    pub tail: usize,
    /// Behind the newest block described, and that descriptor's number.
    pub head: u32,
    pub sequence: Option<u32>,
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    get_u32(bytes, at).swap_bytes()
}

impl<'a> Watch<'a> {
    pub fn new(sector_size: usize, table: &'a mut [u8]) -> Watch<'a> {
        let (buf, table) = table.split_at_mut(sector_size.min(table.len()));
        Watch {
            table,
            buf,
            state: JournalState::None("not looked for yet"),
            stale: true,
            base: 0,
            per_block: 1,
            blocks: 0,
            run_count: 0,
            digest: 0,
            first: 0,
            end: 0,
            tag_len: 8,
            v3: false,
            tail: 0,
            head: 0,
            sequence: None,
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.state, JournalState::Watched { .. })
    }

    pub fn home(&self, index: u32) -> u32 {
        get_u32(self.table, 4 * index as usize)
    }

    pub fn set_home(&mut self, index: u32, home: u32) {
        put_u32(self.table, 4 * index as usize, home);
    }

    /// Takes up the journal's superblock.
    pub fn learn(&mut self, sb: &[u8]) -> bool {
        let JournalState::Watched { blocks, block_size } = self.state else {
            return false;
        };
        let (size, most, first) = (be32(sb, 0xC), be32(sb, 0x10), be32(sb, 0x14));
        let kind = be32(sb, 4);
        if be32(sb, 0) != MAGIC || !(3..=4).contains(&kind) || size != block_size {
            return false;
        }
        let features = if kind == 4 { be32(sb, 0x28) } else { 0 };
        let fast = match (features & 0x20 != 0, be32(sb, 0x54)) {
            (false, _) => 0,
            (true, 0) => 256,
            (true, n) => n,
        };
        let end = most.min(blocks).saturating_sub(fast);
        if first == 0 || first >= end {
            return false;
        }
        (self.first, self.end) = (first, end);
        self.v3 = features & 0x10 != 0;
        let v2 = features & 0x8 != 0;
        let wide = if features & 0x2 != 0 { 4 } else { 0 };
        self.tag_len = match (self.v3, v2) {
            (true, _) => 16,
            (false, true) => 10 + wide,
            (false, false) => 8 + wide,
        };
        self.tail = if self.v3 || v2 { 4 } else { 0 };
        true
    }

    pub fn runs(&self) -> impl Iterator<Item = Run> {
        runs(self.table, self.blocks, self.run_count)
    }

    /// The number in the journal of a block of the file system.
    pub fn index_of(&self, block: u32) -> Option<u32> {
        let run = self
            .runs()
            .find(|run| block >= run.block && block - run.block < run.len)?;
        Some(run.index + block - run.block)
    }

    pub fn block_at(&self, index: u32) -> Option<u32> {
        let run = self
            .runs()
            .find(|run| index >= run.index && index - run.index < run.len)?;
        Some(run.block + index - run.index)
    }

    /// Whether a piece of the map holds sectors of the journal.
    pub fn is_journal(&self, segment: u32) -> bool {
        let sector =
            |block: u32| u64::from(self.base) + u64::from(block) * u64::from(self.per_block);
        let (from, to) = (segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT);
        self.is_active()
            && self.runs().any(|run| {
                sector(run.block) < u64::from(to) && sector(run.block + run.len) > u64::from(from)
            })
    }

    /// The first sector of a block of the file system, if all of it is on a disk of so many.
    pub fn sector_of(&self, block: u32, sectors: u32) -> Option<u32> {
        let sector = u64::from(self.base) + u64::from(block) * u64::from(self.per_block);
        let end = sector + u64::from(self.per_block);
        (end <= u64::from(sectors)).then_some(sector as u32)
    }

    /// Takes notice of a block of the journal.
    pub fn follow(&mut self, index: u32, bytes: &[u8]) {
        if be32(bytes, 0) != MAGIC {
            return;
        }
        self.set_home(index, NONE);
        if index == 0 {
            self.learn(&bytes[..256]);
        } else if be32(bytes, 4) == DESCRIPTOR && (self.first..self.end).contains(&index) {
            self.describe(index, bytes);
        }
    }

    /// Notes where the blocks behind a descriptor have their homes.
    pub fn describe(&mut self, index: u32, bytes: &[u8]) {
        let (mut at, mut next) = (12, index);
        let end = bytes.len() - self.tail;
        while at + self.tag_len <= end {
            next = if next + 1 >= self.end {
                self.first
            } else {
                next + 1
            };
            if next == index {
                break;
            }
            let low = be32(bytes, at);
            let flags = if self.v3 {
                be32(bytes, at + 4)
            } else {
                be32(bytes, at + 4) & 0xFFFF
            };
            let wide = self.tag_len >= 12;
            let high = if wide { be32(bytes, at + 8) } else { 0 };
            // An escaped block is not as its home.
            let known = high == 0 && flags & 1 == 0;
            self.set_home(next, if known { low } else { NONE });
            at += self.tag_len;
            if flags & 2 == 0 {
                at += 16;
            }
            if flags & 8 != 0 {
                break;
            }
        }
        let sequence = be32(bytes, 8);
        let newer = |last: u32| sequence.wrapping_sub(last) as i32 >= 0;
        if self.sequence.is_none_or(newer) {
            self.head = next;
            self.sequence = Some(sequence);
        }
    }

    /// The newest block of the journal whose home this is, one aside.
    pub fn newest(&self, block: u32, but: Option<u32>) -> Option<u32> {
        let before = (self.first..=self.head.min(self.end - 1)).rev();
        let behind = (self.head.max(self.first)..self.end).rev();
        let mut order = before.chain(behind);
        order.find(|index| self.home(*index) == block && Some(*index) != but)
    }

    /// The first sector of the newest copy of a block in the journal, one aside.
    pub fn copy_of(&self, block: u32, but: Option<u32>, sectors: u32) -> Option<u32> {
        let newest = self.newest(block, but)?;
        self.sector_of(self.block_at(newest)?, sectors)
    }
}

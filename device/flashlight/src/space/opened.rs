//! Blocks that were taken or open when power failed, and what else a recovery knows of pages.

use crate::format::header::{Header, Kind};
pub(crate) use crate::format::limits::NEWER;
use crate::space::limits::{ENTRY, OWN};
use crate::space::store::Store;
use flashkit_bytes::{get_u16, put_u16};
use flashkit_nand::{Nand, PageAddr};

pub(crate) const FRESH: u16 = 1 << 15;

/// "Area" of a data block with an unwritten tail.
pub(crate) const PARTIAL: u16 = 8;

/// "Area" of a block for inodes of which nothing counts: it was not begun, or
/// its first program was cut.
const NOT_BEGUN: u16 = 9;

/// For each of the two logs of inodes, the last page, and one before it.
pub(crate) const SUSPECTS: usize = 4;

/// The blocks that recovery must know.
pub(crate) struct Recovery<'r> {
    pub(crate) list: &'r mut [u8],
    pub(crate) len: usize,
    pub(crate) pages_per_block: u32,
    /// Pages with larger numbers were written after the checkpoint.
    pub since: u64,
    /// Pages that may be read well now and not later, or the other way round: not to be looked at
    /// again.
    pub(crate) suspects: [PageAddr; SUSPECTS],
    /// Number, replaced page, and place of the last DirInode and of the last FileInode. A page that
    /// replaces the same is that record written again, after its program had failed.
    pub(crate) last: [(u32, PageAddr, PageAddr); 2],
    /// The newest record of all, written anew, and the number that it had before.
    pub(crate) copy: Option<(PageAddr, Header, u64)>,
    /// The inode of that.
    pub(crate) copy_of: u32,
    /// Whether a rename has replaced a file in the index directory that is not known to know.
    pub(crate) mend: bool,
    /// A page cannot be read that may have been a record.
    pub(crate) doubt: bool,
    /// Pages of files of which a truncation has not come to its end, of the two at most that were
    /// in RAM when power failed.
    pub(crate) half_cut: [PageAddr; 2],
    /// The last exchange, while its second inode is not known to know.
    pub exchange: Option<Pending>,
    /// Pages that may yet be looked into for what they name ([`Recovery::look_into`]).
    pub(crate) left: u32,
}

/// An exchange whose second inode has not been seen to know its new name.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// The first inode, and its page with the name that it has left.
    pub(crate) first: (Kind, u32, PageAddr),
    /// The second.
    pub second: u32,
    /// Where the first has been and the second is.
    pub(crate) left: NamePlace,
    /// Where the first is and the second has been.
    pub(crate) taken: NamePlace,
}

/// Where a name is: directory, hash.
pub(crate) type NamePlace = (u32, u32);

impl Recovery<'_> {
    pub(crate) fn entry(&self, i: usize) -> (u32, u16) {
        (
            u32::from(get_u16(self.list, ENTRY * i)),
            get_u16(self.list, ENTRY * i + 2),
        )
    }

    /// Lists a block, once: a record whose program failed may be there twice.
    pub(crate) fn add(&mut self, block: u32, info: u16) {
        if !self.is_full() && !self.is_opened(block) {
            put_u16(self.list, ENTRY * self.len, block as u16);
            put_u16(self.list, ENTRY * self.len + 2, info);
            self.len += 1;
        }
    }

    pub(crate) fn area(info: u16) -> u16 {
        info >> 11 & 15
    }

    fn is_full(&self) -> bool {
        ENTRY * (self.len + 1) > self.list.len()
    }

    pub(crate) fn set_not_begun(&mut self, i: usize) {
        let info = self.entry(i).1 & !(15 << 11) | NOT_BEGUN << 11;
        put_u16(self.list, ENTRY * i + 2, info);
    }

    /// Moves the block listed last before another.
    pub(crate) fn move_last_to(&mut self, place: usize) {
        if place < self.len {
            self.list[ENTRY * place..ENTRY * self.len].rotate_right(ENTRY);
        }
    }

    /// Notes a block taken during recovery. `false` when there is no place: what
    /// is in it would not count.
    pub fn note_fresh(&mut self, block: u32) -> bool {
        let has_room = !self.is_full();
        self.add(block, FRESH);
        has_room
    }

    /// Whether there are places but for the blocks that the recovery takes.
    pub(crate) fn has_room(&self) -> bool {
        ENTRY * (self.len + 1 + OWN) <= self.list.len()
    }

    /// Whether a block was taken, or open, when power failed.
    pub fn is_opened(&self, block: u32) -> bool {
        (0..self.len).any(|i| self.entry(i).0 == block)
    }

    /// Whether a page was written after the checkpoint and before power failed.
    pub fn is_lost(&self, at: PageAddr) -> bool {
        at.0 % self.pages_per_block >= self.lost_from(at.0 / self.pages_per_block)
    }

    /// The page of a block from which on all were written after the
    /// checkpoint and before power failed.
    pub fn lost_from(&self, block: u32) -> u32 {
        (0..self.len)
            .map(|i| self.entry(i))
            .find(|&(b, info)| b == block && info & FRESH == 0)
            .map_or(u32::MAX, |(_, info)| u32::from(info & 0x7ff))
    }

    /// Counts a page that is looked into for the pages that it names, to free or to count
    /// these. What is on flash at once is freed once and counted once; `false` when more is
    /// asked for than there can be.
    pub(crate) fn look_into(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

pub(crate) fn is_lost<N: Nand>(store: &Store<'_, N>, at: PageAddr) -> bool {
    at.is_some() && store.recovery.as_ref().is_some_and(|r| r.is_lost(at))
}

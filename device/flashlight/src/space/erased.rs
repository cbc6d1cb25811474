//! Whether what a checkpoint calls erased is so.
//!
//! A checkpoint that a clean unmount has left is believed: the blocks that it calls open are
//! written from where they had got to, and those that were never written since the volume was made
//! are not erased first. It may be a forged one, or older than what is in these blocks. So the page
//! that is programmed first in such a block is read before. Unless it reads as erased, an open
//! block is given up, another is erased first, and nothing is believed to be erased any more. One
//! read for each block, when it comes to be written.
//!
//! What reads as erased, and is not, no read tells: after an unclean stop no such block is used.

use crate::error::{Bool, Fault};
use crate::format::area::{HEADS, Head, LogArea, UPDATE};
use crate::format::blockstate::BlockState;
use crate::format::header::{HEADER, is_blank};
use crate::format::tag;
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Bytes of a page that are looked at, and its tag.
const LOOK: usize = 4 * HEADER;
const _: () = assert!(LOOK <= 1024);

/// An open block that a checkpoint names, other than one with an unwritten tail: of the log of
/// an area, or one of these.
pub(crate) const OF_UPDATES: usize = HEADS;
/// Of the block table.
pub(crate) const OF_TABLE: usize = HEADS + 1;
/// Of the checkpoint's own leaf.
pub(crate) const OF_LEAF: usize = HEADS + 2;

/// The open blocks that have not been looked at since the mount: a bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unseen(u16);

impl Unseen {
    /// All of them.
    pub fn all() -> Self {
        Unseen(u16::MAX)
    }

    /// Whether one has not been looked at; it has from now on.
    pub fn take(&mut self, open: usize) -> bool {
        let was = self.0 >> open & 1 == 1;
        self.0 &= !(1 << open);
        was
    }
}

impl<N: Nand> Store<'_, N> {
    /// Whether a page reads as erased, from its first bytes and its tag. One read.
    fn reads_erased(&mut self, at: PageAddr) -> Result<Bool, Fault> {
        let (mut data, mut spare) = ([0; LOOK], [0xff; tag::SIZE]);
        let spare = if self.has_tags() {
            &mut spare[..]
        } else {
            &mut []
        };
        let status = self.nand.read(at, 0, &mut data, spare)?;
        Ok(Bool::from(
            status.is_readable() && is_blank(&data) && spare.iter().all(|byte| *byte == 0xff),
        ))
    }

    /// Whether a block may be written from where it had got to. One read, unless it is full.
    pub fn goes_on(&mut self, head: Head) -> Result<Bool, Fault> {
        if head.block == u32::MAX || head.next >= self.ppb() {
            return Ok(Bool::True);
        }
        let next = self.geo.page(BlockAddr(head.block), head.next);
        self.reads_erased(next)
    }

    /// Whether a block need not be erased before it is written. One read, if it has not been
    /// written since the volume was made.
    pub fn is_clean(&mut self, block: u32) -> Result<Bool, Fault> {
        if self.state(block) != BlockState::Clean {
            return Ok(Bool::False);
        }
        let clean = self.log.formatting
            || self
                .reads_erased(self.geo.page(BlockAddr(block), 0))?
                .is_true();
        if !clean {
            self.table.forget_clean();
        }
        Ok(clean.into())
    }

    /// Before an open block is written: looks at it when that is the first time since the mount,
    /// and gives it up if something is in its next page.
    pub fn see(&mut self, open: usize) -> Result<(), Fault> {
        if !self.heads.unseen.take(open) {
            return Ok(());
        }
        let head = match open {
            OF_UPDATES => self.heads.data[UPDATE],
            OF_TABLE => self.table.head(),
            area => self.heads.log[area],
        };
        // The log of allocation records goes on in a block that is erased.
        if open != LogArea::Bitmap as usize && !self.goes_on(head)?.is_true() {
            self.give_up(head.block);
        }
        Ok(())
    }

    /// Gives up a block that is not as the checkpoint says; blocks that this
    /// calls erased are erased again.
    pub fn give_up(&mut self, block: u32) {
        self.let_go(block);
        self.table.forget_clean();
    }
}

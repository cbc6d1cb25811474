//! Checkpoints (paper, 4.4): where everything is, in one page and the snapshot of the block table.
//!
//! ```text
//! root page, in both of the first two good blocks (the first 8 pages of each):
//!   32 page size u32   36 spare size u32   40 pages per block u32   44 blocks u32
//!   48 second-level block u32   52 last block kept for roots u32   56 round u32
//!   60 blocks that were good at format time u32
//! second-level page, each twice (the first 8 pages of its block):
//!   32 leaf block u32
//! ```
//! The checkpoint page, in the leaf block, is in `format/checkpoint.rs`, the pages of the snapshot
//! in `format/snapshot.rs`.
//!
//! Within a session, checkpoints fill the leaf block. A new leaf is the block that the last
//! checkpoint in the old one names, so that it is found even when the second-level page that should
//! point to it was cut. After an unclean stop only freshly erased blocks are written: never a page
//! that an interrupted program may have touched. For the second level and the root, which are not
//! erased each time, the checkpoint claims the page before it is programmed.
//!
//! A page whose program was cut may read well, and fail later. So the newest checkpoint found after
//! an unclean stop may fail yet, and the one before it be needed again. Hence
//! * a recovery begins with a *copy* of the checkpoint in a new leaf, and points the anchors there.
//!   Until they do, the copy says nothing but what it has claimed, and nothing is erased that the
//!   checkpoint before needs: a snapshot shows as dead, not as free, the blocks that its own
//!   checkpoint is to make free. When that is cut, the next copy goes to another leaf, so that the
//!   claims of the last survive: hence two leaves are named in advance;
//! * the last checkpoint of an unmount is written in two equal pages: while the second is
//!   programmed, the first is complete. Only the second says that the unmount is over. When it is
//!   not there, or no more, the first is where a recovery starts.
//!
//! Pages rot. So everything here is there twice: root pages in two blocks, second-level pages, and
//! the checkpoint with its snapshot. Both snapshots are written before the first of the checkpoint
//! pages, and with the second copies of the two directories that everything hangs on. Two good
//! blocks after the root blocks are kept to replace them: a root block that fails is marked bad,
//! and the next one counts among the first two.

use crate::checkpoint::Durable;
use crate::checkpoint::encode::Start;
use crate::error::{Bool, Damaged, Fault};
use crate::format::area::{Head, LogArea, UPDATE};
use crate::format::blockstate::BlockState;
use crate::format::checkpoint::{CONFIRMED, REPEATED, TOLD, UNMOUNTED};
use crate::format::header::Kind;
use crate::format::inode::DirView;
use crate::format::limits::{ANCHOR_PAGES, SNAPSHOT_PAGES};
use crate::format::node::{INDEX_DIR, ROOT_DIR};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::space::store::Store;
use crate::space::wear::{LEAF, SECOND};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Pages of a root block that a round uses. The others are for when one root block is
/// left, which is not erased.
pub(crate) const ROUND_PAGES: u32 = 6;

/// Checkpoint pages of an unmount and of others: the last repeat the first, and all are
/// in one leaf if none fails.
const UNMOUNT_PAGES: u32 = 3;
const PAGES: u32 = 2;
/// Blocks of the allocation log at most that hold the snapshot of the first of two checkpoints:
/// both, and some records, must find place in the list of these blocks.
const KEPT: usize = 2;
/// Leaves tried for one checkpoint before it is given up.
const TRIES: usize = 9;

/// Bit of the next page of a block with an unwritten tail: it holds updates, and goes on with them.
pub(crate) const OF_UPDATES: u16 = 1 << 15;

impl<N: Nand> Durable<'_, N> {
    /// Begins the session, if that has not been done: two programs. Where the blocks for that fail,
    /// it begins with a checkpoint of what is on flash, that names others. To be called before the
    /// first change.
    pub(crate) fn begin(&mut self) -> Result<(), Fault> {
        if !self.index.store.log.session {
            self.compare_states()?;
        }
        match self.index.store.begin_session() {
            Err(Fault::NoSpace) if self.index.store.log.lost => {}
            r => r?,
        }
        if self.index.store.log.beginning.is_none() {
            return Ok(());
        }
        let before = core::mem::replace(&mut self.index.store.log.naming, true);
        // In another leaf: this one's next page must not be written, the other is erased first.
        let another = self.index.store.ppb() + 1;
        let written = self
            .index
            .store
            .reserve_bitmap()
            .and_then(|()| self.write_checkpoint(0, another));
        self.index.store.log.naming = before;
        written?;
        self.index.all_is_named();
        self.index.store.log.beginning = None;
        Ok(())
    }

    pub(crate) fn take_checkpoint(&mut self, clean: bool) -> Result<(), Fault> {
        self.begin()?;
        self.index.write_cached()?;
        if clean {
            for &i in &FileSlot::ALL {
                self.index.drop_file(i);
            }
            self.index.store.save_remnant(UPDATE);
        }
        self.index.store.reserve_bitmap()?;
        for &block in self.index.store.retiring.take().as_slice() {
            self.index.store.retire_system(block.into());
        }
        let (flags, pages) = if clean {
            (UNMOUNTED, UNMOUNT_PAGES)
        } else {
            (0, PAGES)
        };
        self.write_checkpoint(flags, pages)?;
        self.index.forget_removals();
        self.index.all_is_named();
        self.index.store.free_dead(true)?;
        self.index.store.begin_since();
        self.index.store.written.checkpoints += 1;
        self.index.store.nand.flush()
    }

    /// Writes two snapshots, with copies of two directories, then a checkpoint page for each, and
    /// what points to a new leaf, in a leaf with so many `pages_left`: any one page may be lost.
    /// The last of an unmount once more, to say that the others are complete.
    fn write_checkpoint(&mut self, flags: u8, pages_left: u32) -> Result<(), Fault> {
        let flags = flags | TOLD;
        let last = flags & UNMOUNTED != 0;
        for _ in 0..TRIES {
            if self.index.store.log.beginning.is_none() {
                self.index.store.table_write_back_for_checkpoint()?;
            }
            self.index.store.release_own();
            let switch = self.plan_leaf(pages_left)?.is_true();
            self.index.retire_bitmap_blocks();
            let (mut first, mut second) = ([0; SNAPSHOT_PAGES], [0; SNAPSHOT_PAGES]);
            let pages = self.index.write_snapshot(&mut first)?;
            let copied = self.index.write_copies(pages, &mut second)?;
            let twice = copied.is_some();
            let first = &first[..pages];
            let second = copied.map_or(first, |pages| &second[..pages]);
            self.index.store.reserve_bitmap()?;
            let mut done = self.begin_leaf(switch)?.is_true();
            let both = [(0, first), (REPEATED, second)];
            let count = 1 + usize::from(last || twice);
            for (flag, snapshot) in &both[..count] {
                if done {
                    let len = self.encode(flags | flag, 0, snapshot);
                    done = self.program_leaf(len, switch)?.is_true();
                }
            }
            done = self.end_leaf(done, switch)?.is_true();
            if done && last {
                // Behind what leads to it: that may not fail any more when the unmount counts.
                let len = self.encode(flags | REPEATED | CONFIRMED, 0, second);
                let confirmed = self.program_leaf(len, false)?.is_true();
                done = self.end_leaf(confirmed, false)?.is_true();
            }
            if done {
                return Ok(());
            }
        }
        Err(self
            .index
            .store
            .nand
            .damaged(PageAddr::NONE, Damaged::CheckpointBlock))
    }

    /// What a recovery has come to that makes it durable. `false` when the last root block is full,
    /// and a root page is needed: then the volume is only read when the recovery is over.
    pub(crate) fn unless_roots_are_full(
        &mut self,
        result: Result<(), Fault>,
    ) -> Result<Bool, Fault> {
        match result {
            Err(Fault::ReadOnly)
                if self.anchor.has_one_root() && !self.index.store.nand.is_stopped() =>
            {
                self.index.read_only = true;
                Ok(Bool::False)
            }
            r => r.map(|()| Bool::True),
        }
    }

    /// Begins a recovery: repeats the checkpoint it starts from in a new leaf, where it cannot fail
    /// any more. Nothing that it says has changed yet. Four programs and an erase, more when the
    /// second level is full.
    pub(crate) fn repeat_checkpoint(&mut self, from: &Start) -> Result<(), Fault> {
        self.anchor.push_chain(self.anchor.leaf.block);
        self.anchor.leaf = Head::NONE;
        if self.anchor.next_leaves[0] == from.copy {
            self.anchor.next_leaves.swap(0, 1);
        }
        self.index.store.forget_vain_changes()?;
        self.erase_unreadable_copy(from)?;
        for _ in 0..TRIES {
            let switch = self.plan_leaf(1)?.is_true();
            let told = if from.told { TOLD } else { 0 };
            let mut done = self.begin_leaf(switch)?.is_true();
            let len = self.encode(told, from.since, &from.snapshot[..from.snapshot_len]);
            // What it claims is used behind the second only: a mount that finds nothing there knows
            // that nothing of it was used.
            for _ in 0..2 {
                done = done && self.program_leaf(len, switch)?.is_true();
            }
            if self.end_leaf(done, switch)?.is_true() {
                return Ok(());
            }
        }
        Err(self
            .index
            .store
            .nand
            .damaged(PageAddr::NONE, Damaged::CheckpointBlock))
    }

    /// Whether there is a switch to a new leaf, as there are not so many `pages` left in the one in
    /// use: then the pages that will point to it are claimed.
    fn plan_leaf(&mut self, pages: u32) -> Result<Bool, Fault> {
        let named = !self.anchor.next_leaves.contains(&u32::MAX);
        let leaf = self.anchor.leaf;
        // One without a page was planned for a checkpoint that came to nothing: it has not been
        // erased, nor does anything lead to it.
        let planned = leaf.block != u32::MAX && leaf.next == 0;
        let root_alone = core::mem::take(&mut self.anchor.root_alone);
        if !planned
            && !root_alone
            && leaf.block != u32::MAX
            && leaf.next + pages <= self.index.store.ppb()
            && (named || self.index.store.unreserved() < 4)
        {
            return Ok(Bool::False);
        }
        if !planned {
            let [mut block, next] = self.anchor.next_leaves;
            if block == u32::MAX {
                block = match self.index.take_system(LEAF) {
                    Err(Fault::NoSpace) => self.index.take_from_log()?,
                    taken => taken?,
                };
            }
            self.anchor.leaf = Head { block, next: 0 };
            if leaf.block != u32::MAX {
                self.anchor.push_chain(leaf.block);
            }
            self.anchor.next_leaves = [next, u32::MAX];
        }
        for i in 0..2 {
            // The names of a leaf do not change: with less than two, another is begun soon.
            if self.anchor.next_leaves[i] == u32::MAX && self.index.store.unreserved() > 0 {
                match self.index.take_named_leaf() {
                    Err(Fault::NoSpace) => break,
                    leaf => self.anchor.next_leaves[i] = leaf?,
                }
            }
        }
        if root_alone {
            self.anchor.second_next = ANCHOR_PAGES;
        }
        if self.anchor.second_next + 2 > ANCHOR_PAGES {
            self.begin_second()?;
        } else if self.anchor.new_second {
            // The root pages do not lead to it yet: it begins anew.
            self.anchor.second_next = 0;
        }
        self.anchor.second_next += 2;
        if self.anchor.new_second && self.anchor.is_stale() {
            // Behind the root page as well.
            self.anchor.second_next += 2;
        }
        Ok(Bool::True)
    }

    /// Takes another second-level block, and claims the root page that will lead there.
    fn begin_second(&mut self) -> Result<(), Fault> {
        // One whose program has not been tried will lead to this block instead.
        let claimed = self.anchor.new_second && !self.anchor.root_tried;
        if !claimed && self.anchor.has_one_root() && self.anchor.root_next >= ANCHOR_PAGES {
            return Err(Fault::ReadOnly);
        }
        let second = match self.index.take_system(SECOND) {
            // Recoveries that are cut one after another may have taken all: one of
            // the leaves to come will do.
            Err(Fault::NoSpace) => {
                let mut named = self.anchor.next_leaves.iter_mut().rev();
                match named.find(|leaf| **leaf != u32::MAX) {
                    Some(leaf) => core::mem::replace(leaf, u32::MAX),
                    None => self.index.take_from_log()?,
                }
            }
            taken => taken?,
        };
        let before = core::mem::replace(&mut self.anchor.second, second);
        if self.anchor.new_second {
            // Nothing has led to it.
            self.index.store.retire_at_checkpoint(before);
        } else {
            self.anchor.old_second = before;
        }
        self.anchor.new_second = true;
        self.anchor.second_next = 0;
        if !claimed {
            self.anchor.claim_root();
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// After a checkpoint: it names all blocks that are reserved.
    fn all_is_named(&mut self) {
        (self.store.log.unnamed, self.store.log.lost) = (0, false);
    }

    /// Writes copies of two directories and the second snapshot, if the log has room for
    /// them and as many `pages` as the first takes. Gives its pages; none if it has not:
    /// then the first is all there is.
    fn write_copies(&mut self, pages: usize, second: &mut [u32]) -> Result<Option<usize>, Fault> {
        let needed = pages + self.dir_copies.len();
        if self.store.log.blocks.len() > KEPT || (self.store.log_room() as usize) < needed {
            return Ok(None);
        }
        let copied = self.copy_dirs();
        match copied.and_then(|()| self.write_snapshot(second)) {
            Err(Fault::NoSpace) => Ok(None),
            written => written.map(Some),
        }
    }

    /// Copies the two directories without which nothing is found. An index directory that is empty
    /// is not copied: that its copy is in its own place says so. Two programs at most, and two
    /// reads of what is not in the cache.
    fn copy_dirs(&mut self) -> Result<(), Fault> {
        for (i, ino) in [ROOT_DIR, INDEX_DIR].into_iter().enumerate() {
            let (at, before) = (self.map_get(ino)?, self.dir_copies[i]);
            if ino == INDEX_DIR && at == before {
                continue;
            }
            self.dir_copies[i] = PageAddr::NONE;
            let cached = self.dir_slot(ino).filter(|&i| !self.dirs[i].dirty);
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            match cached {
                Some(i) => page.copy_from_slice(self.dirs[i].buf),
                None if self.store.read_dir(at, at, page)?.is_true() => {}
                None if self.store.read_dir(before, at, page)?.is_true() => {}
                None => continue,
            }
            let view = DirView::on(&*page);
            self.dir_copies[i] = if ino == INDEX_DIR && view.is_empty() {
                at
            } else {
                let len = view.len();
                self.append_scratch(LogArea::Bitmap, len, Kind::Dir, at)?
            };
        }
        Ok(())
    }

    /// Takes a block for a leaf to come. Whoever looks there finds nothing newer than what names
    /// it: a page that only damage or malice can have left there is erased. One read.
    fn take_named_leaf(&mut self) -> Result<u32, Fault> {
        loop {
            let block = self.take_system(LEAF)?;
            let at = self.store.geo.page(BlockAddr(block), 0);
            let newest = self.store.seq;
            if self.read_checkpoint(at, newest)?.is_none() || self.store.erase(block)?.is_true() {
                return Ok(block);
            }
        }
    }

    /// In a recovery that finds no free block: takes one for a leaf or the second level that is
    /// kept for the allocation log and in which there is no record since the checkpoint. One
    /// read for each that is kept.
    fn take_from_log(&mut self) -> Result<u32, Fault> {
        let since = match &self.store.recovery {
            Some(recovery) => recovery.since,
            None => return Err(Fault::NoSpace),
        };
        for i in (0..self.store.log.reserved).rev() {
            let (block, area) = self.store.log.reserves[i];
            let at = self.store.geo.page(BlockAddr(block.into()), 0);
            if area != LogArea::Bitmap as u8 {
                continue;
            }
            let header = self.read_scratch(at)?;
            if header.is_none_or(|h| h.seq <= since) {
                let block = self.store.unreserve(i);
                self.store.set_state(block, BlockState::System);
                self.store.drawn += 1;
                return Ok(block);
            }
        }
        Err(Fault::NoSpace)
    }

    /// Takes a block for a leaf or the second level ([`LEAF`], [`SECOND`]).
    fn take_system(&mut self, sort: usize) -> Result<u32, Fault> {
        let block = self.store.pick_for(sort)?;
        self.store.set_state(block, BlockState::System);
        self.store.tally.free = self.store.tally.free.saturating_sub(1);
        self.store.drawn += 1;
        Ok(block)
    }

    /// Blocks of the allocation log that this checkpoint makes obsolete.
    fn retire_bitmap_blocks(&mut self) {
        let head = self.store.heads.log[LogArea::Bitmap as usize];
        if head.block != u32::MAX && !self.store.is_log(head.block) {
            // Where many have failed, there was no place for it in the list.
            self.store.retire_system(head.block);
            self.store.heads.log[LogArea::Bitmap as usize] = Head::NONE;
        }
        for &block in self.store.log.blocks.take().as_slice() {
            let block = u32::from(block);
            if block == head.block && head.next < self.store.ppb() {
                self.store.log.blocks.push(block as u16);
            } else {
                self.store.retire_system(block);
                if block == head.block {
                    self.store.heads.log[LogArea::Bitmap as usize] = Head::NONE;
                }
            }
        }
    }
}

impl<N: Nand> Store<'_, N> {
    /// Retires a block after the checkpoint that no longer needs it.
    pub(crate) fn retire_at_checkpoint(&mut self, block: u32) {
        if block != u32::MAX && self.state(block) == BlockState::System {
            // Only the next checkpoint may free it: this one still calls it in use.
            self.retiring.push(block as u16);
        }
    }
}

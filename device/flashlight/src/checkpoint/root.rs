//! Programs of a leaf, of the second level and of a root, one after another, so that one of them
//! always leads to a checkpoint.

use crate::checkpoint::Durable;
use crate::checkpoint::encode::Start;
use crate::error::{Bool, Fault};
use crate::format::area::Head;
use crate::format::blockstate::BlockState;
use crate::format::checkpoint::{CheckpointView, root_name};
use crate::format::header::{HEADER, Kind};
use crate::format::limits::{ANCHOR_PAGES, ROOT_BLOCKS};
use crate::index::Index;
use crate::space::erased::OF_LEAF;
use flashkit_bytes::put_u32;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

impl<N: Nand> Durable<'_, N> {
    /// Makes sure that the leaf can be programmed; `false` when it cannot.
    pub(crate) fn begin_leaf(&mut self, switch: bool) -> Result<Bool, Fault> {
        let leaf = self.anchor.leaf;
        let mut done = self.index.store.prepare(leaf.block, switch)?.is_true();
        if self.index.store.heads.unseen.take(OF_LEAF) && !switch {
            done &= self.index.store.goes_on(leaf)?.is_true();
        }
        Ok(done.into())
    }

    /// Programs the checkpoint page in the scratch page; `false` when the block fails.
    pub(crate) fn program_leaf(&mut self, len: usize, switch: bool) -> Result<Bool, Fault> {
        let Head { block, next } = self.anchor.leaf;
        self.anchor.leaf.next += 1;
        self.index.store.written.checkpoint += 1;
        let at = self.index.store.geo.page(BlockAddr(block), next);
        let page = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
        let (page, kind) = (&mut page[..len], Kind::Checkpoint);
        let done = (self.index.store)
            .program_at(at, page, kind, PageAddr::NONE)?
            .is_true();
        if !done && switch {
            // Nothing leads to it: a mount is to know at once that this leaf is none.
            self.index.store.mark_bad(block)?;
        } else if !done {
            self.index.store.note_failing(block);
        }
        Ok(done.into())
    }

    /// Writes what points to a new leaf, when its pages are `done`; `false` when a block failed,
    /// and another leaf is to be tried.
    pub(crate) fn end_leaf(&mut self, done: bool, switch: bool) -> Result<Bool, Fault> {
        let block = self.anchor.leaf.block;
        let done = done && (!switch || self.anchor_leaf()?.is_true());
        if !done {
            // Given up, for good once another is anchored.
            self.anchor.push_chain(block);
            self.anchor.leaf = Head::NONE;
        }
        Ok(done.into())
    }

    /// Points the second level, and if that is new the root, to the leaf just begun. What they
    /// pointed to before is dead then. `false` when the second-level block fails.
    fn anchor_leaf(&mut self) -> Result<Bool, Fault> {
        let second = self.anchor.second;
        if !self
            .index
            .store
            .prepare(second, self.anchor.new_second)?
            .is_true()
        {
            self.anchor.second_next = ANCHOR_PAGES;
            return Ok(Bool::False);
        }
        let pair = match self.anchor.new_second {
            true => 0,
            false => self.anchor.second_next - 2,
        };
        if !self.write_second(pair)?.is_true() {
            return Ok(Bool::False);
        }
        if self.anchor.new_second {
            if !self.write_root()?.is_true() {
                self.anchor.second_next = ANCHOR_PAGES;
                return Ok(Bool::False);
            }
            self.index
                .store
                .retire_at_checkpoint(self.anchor.old_second);
            self.anchor.old_second = u32::MAX;
            self.anchor.new_second = false;
        }
        for i in 0..core::mem::take(&mut self.anchor.chained) {
            self.index.store.retire_at_checkpoint(self.anchor.chain[i]);
        }
        Ok(Bool::True)
    }

    /// Writes two pages of the second-level block that lead to the leaf. `false` when it fails.
    fn write_second(&mut self, pair: u32) -> Result<Bool, Fault> {
        let second = self.anchor.second;
        let mut page = [0u8; HEADER + 4];
        put_u32(&mut page, HEADER, self.anchor.leaf.block);
        for index in pair..pair + 2 {
            let at = self.index.store.geo.page(BlockAddr(second), index);
            self.index.store.written.checkpoint += 1;
            if !self
                .index
                .store
                .program_at(at, &mut page, Kind::Second, PageAddr::NONE)?
                .is_true()
            {
                self.index.store.note_failing(second);
                self.anchor.second_next = ANCHOR_PAGES;
                return Ok(Bool::False);
            }
        }
        Ok(Bool::True)
    }

    /// Writes the root page that was claimed in both root blocks: first where the page is not that
    /// counts, so that it counts until this one cannot fail any more. If the other is to be erased
    /// then, what this one leads to is written once more before: that shows that it is complete. A
    /// block that fails is replaced. `false` when there is nothing that counts.
    fn write_root(&mut self) -> Result<Bool, Fault> {
        let geo = self.index.store.geo;
        let mut page = [0u8; HEADER + 32];
        let fields = [
            geo.page_size(),
            geo.spare_size(),
            geo.pages_per_block(),
            geo.blocks(),
            self.anchor.second,
            self.anchor.last_root,
            u32::from(self.anchor.round),
            self.anchor.good,
        ];
        for (i, v) in fields.into_iter().enumerate() {
            put_u32(&mut page, HEADER + 4 * i, v);
        }
        let (first, roots) = (self.anchor.first, self.anchor.roots);
        let is_last = self.anchor.has_one_root();
        let begin = if roots[1 - first] == u32::MAX {
            first
        } else {
            1 - first
        };
        if !self.write_root_page(begin, &mut page)?.is_true() {
            if !is_last {
                self.replace_root(begin)?;
            }
            return Ok(Bool::False);
        }
        let other = 1 - begin;
        if !is_last && self.anchor.stale[other] && !self.write_second(2)?.is_true() {
            return Ok(Bool::False);
        }
        self.anchor.counts = root_name(self.anchor.round.into(), self.anchor.root_next - 1);
        self.anchor.first = begin;
        if !is_last && !self.write_root_page(other, &mut page)?.is_true() {
            self.replace_root(other)?;
            let new = 1 - self.anchor.first;
            if !self.anchor.has_one_root() && !self.write_root_page(new, &mut page)?.is_true() {
                self.replace_root(new)?;
                self.anchor.root_alone = true;
            }
        }
        Ok(Bool::True)
    }

    /// Writes the page in one root block; `false` when that fails.
    fn write_root_page(&mut self, side: usize, page: &mut [u8]) -> Result<Bool, Fault> {
        let block = BlockAddr(self.anchor.roots[side]);
        self.index.store.written.checkpoint += 1;
        self.anchor.root_tried = true;
        if self.anchor.stale[side] && self.index.store.nand.erase(block)? == OpStatus::Failed {
            return Ok(Bool::False);
        }
        self.anchor.stale[side] = false;
        self.anchor.rounds[side] = self.anchor.round.into();
        self.anchor.ends[side] = self.anchor.root_next as u8;
        let at = self.index.store.geo.page(block, self.anchor.root_next - 1);
        self.index
            .store
            .program_at(at, page, Kind::Root, PageAddr::NONE)
    }

    /// Marks a root block bad; the next good one takes its place.
    fn replace_root(&mut self, side: usize) -> Result<(), Fault> {
        let (before, stale) = (self.anchor.roots, self.anchor.stale);
        let (first, rounds, ends) = (
            before[self.anchor.first],
            self.anchor.rounds,
            self.anchor.ends,
        );
        self.index.store.mark_bad(before[side])?;
        self.anchor.roots = self.index.root_blocks()?;
        self.anchor.limit_roots();
        for side in 0..2 {
            let same = (0..2).find(|&i| before[i] == self.anchor.roots[side]);
            self.anchor.stale[side] = same.is_none_or(|i| stale[i]);
            self.anchor.rounds[side] = same.map_or(u32::MAX, |i| rounds[i]);
            self.anchor.ends[side] = same.map_or(0, |i| ends[i]);
            if self.anchor.roots[side] == first {
                self.anchor.first = side;
            }
        }
        self.anchor.go_on_alone();
        Ok(())
    }

    /// A root block may have been marked bad since the checkpoint.
    pub(crate) fn find_bad_roots(&mut self) -> Result<(), Fault> {
        for block in 0..=self.anchor.last_root {
            if self.index.store.nand.is_bad(BlockAddr(block))?.is_true()
                && self.index.store.state(block) != BlockState::Bad
            {
                self.index.store.set_state(block, BlockState::Bad);
                self.index.store.tally.good = self.index.store.tally.good.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The leaf that stays named may hold a copy whose program was cut, and which can be read later
    /// and not now. One read, and an erase if there is one.
    pub(crate) fn erase_unreadable_copy(&mut self, from: &Start) -> Result<(), Fault> {
        let block = self.anchor.next_leaves[1];
        if block >= self.index.store.table.blocks() || block == from.copy {
            return Ok(());
        }
        let at = self.index.store.geo.page(BlockAddr(block), 0);
        let status = self.index.store.nand.read(at, 0, &mut [0], &mut [])?;
        if !status.is_readable() && !self.index.store.erase(block)?.is_true() {
            self.anchor.next_leaves[1] = u32::MAX;
        }
        Ok(())
    }
}

/// The first two good blocks: the anchors of the volume; all ones for a second that is missing.
pub(crate) fn root_blocks<N: Nand>(nand: &mut N) -> Result<[u32; 2], N::Error> {
    let mut roots = [u32::MAX; 2];
    let mut found = 0;
    for block in 0..nand.geometry().blocks().min(ROOT_BLOCKS) {
        if !nand.is_bad(BlockAddr(block))? {
            roots[found] = block;
            found += 1;
            if found == 2 {
                break;
            }
        }
    }
    Ok(roots)
}

impl<'r, N: Nand> Index<'r, N> {
    /// The blocks for roots as they are now.
    pub(crate) fn root_blocks(&mut self) -> Result<[u32; 2], Fault> {
        let found = root_blocks(&mut self.store.nand.inner);
        match self.store.nand.kept(found)? {
            [u32::MAX, _] => Err(Fault::NotFormatted),
            roots => Ok(roots),
        }
    }

    /// Reads a checkpoint page into the scratch page: its sequence number, if that is above
    /// `after`, and the next leaves.
    #[allow(clippy::type_complexity)]
    pub(crate) fn read_checkpoint(
        &mut self,
        at: PageAddr,
        after: u64,
    ) -> Result<Option<(u64, [u32; 2])>, Fault> {
        let header = self.read_scratch(at)?;
        Ok(header
            .filter(|h| h.kind == Kind::Checkpoint && h.seq > after)
            .map(|h| (h.seq, CheckpointView::on(&self.scratch).next_leaves())))
    }
}

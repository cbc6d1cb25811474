//! From the root blocks to the newest checkpoint that is whole.

use crate::checkpoint::Durable;
use crate::checkpoint::encode::Start;
use crate::error::{Bool, Damaged, Fault};
use crate::format::anchors::{Found, Names, Root, RootBlock, Second, SecondPages, note_newest};
use crate::format::area::{Head, LogArea};
use crate::format::checkpoint::{CheckpointView, UNMOUNTED, root_name};
use crate::format::header::{self, Bad, HEADER, Header, Kind, SHORT_TAGS};
use crate::format::limits::ANCHOR_PAGES;
use crate::format::tag::Form;
use crate::format::wellformed::is_well_formed;
use crate::index::Index;
use flashkit_bytes::get_u32;
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};

/// The newest checkpoint.
pub(crate) struct Leaf {
    pub(crate) head: Head,
    /// The blocks with the newest copy of it that no anchor points to, and with the newest that is
    /// complete for sure; all ones: none.
    pub(crate) copy: Option<(u32, u32)>,
    /// What points to it cannot fail any more.
    pub(crate) firm: bool,
    /// The root page that counted when the newest of them was written, if that was
    /// after the newest root page.
    pub(crate) counted: Option<u16>,
}

impl<'r, N: Nand> Durable<'r, N> {
    /// Puts the first of two checkpoints that say the same in the place of the second, which has
    /// led to an error.
    #[inline(never)]
    pub(crate) fn take_first_of_two(&mut self, start: &mut Start, e: Fault) -> Result<(), Fault> {
        let Head { block, next } = self.anchor.leaf;
        let (clean, copy) = (start.clean, start.copy);
        // An unmount's second is there twice.
        let next = next.saturating_sub(if clean { 2 } else { 1 });
        if next == 0 || !clean && !start.repeated {
            return Err(e);
        }
        let at = self.index.store.geo.page(BlockAddr(block), next - 1);
        if self.index.read_checkpoint(at, 0)?.is_none()
            || clean && !CheckpointView::on(&self.index.scratch).has(UNMOUNTED)
        {
            return Err(e);
        }
        if !self.decode(Head { block, next }, start)?.is_true() {
            return Err(e);
        }
        start.copy = copy;
        Ok(())
    }

    /// Takes what the checkpoint page in the scratch page has claimed.
    pub(crate) fn load_claims(&mut self, root: &Root) {
        let page = CheckpointView::on(&self.index.scratch);
        let meant = u32::from(page.second());
        self.anchor.meant = meant;
        let (root_next, second_next) = (page.root_next(), page.second_next());
        // The second-level block that the root leads to may not be the one that was meant to be
        // used: then that one was never reached, and the next switch takes another.
        self.anchor.second_next = if meant == self.anchor.second {
            self.anchor.second_next.max(second_next.into())
        } else {
            ANCHOR_PAGES
        };
        if !root.twice && self.anchor.counts != root.blocks[root.side].name {
            // A newer root page must replace the one that does not count.
            self.anchor.second_next = ANCHOR_PAGES;
        }
        self.anchor.root_next = u32::from(root_next).min(ANCHOR_PAGES);
        self.anchor.round = page.round();
        for side in 0..2 {
            let RootBlock { round, end, .. } = root.blocks[side];
            self.anchor.rounds[side] = round.unwrap_or(u32::MAX);
            self.anchor.stale[side] = round != Some(self.anchor.round.into());
            self.anchor.root_next = self.anchor.root_next.max(end);
        }
        self.anchor.load_ends(root.blocks.map(|block| block.end));
        self.anchor.go_on_alone();
    }

    /// Whether a recovery may have claimed pages that nothing found here tells of: it started from
    /// a checkpoint that is not readable any more, and had to copy it to a leaf that only that one
    /// named, because a leaf named before was bad.
    #[inline(never)]
    pub(crate) fn claims_may_be_lost(&mut self) -> Result<Bool, Fault> {
        let blocks = self.index.store.table.blocks();
        for name in self.anchor.next_leaves {
            if name < blocks && self.index.store.nand.is_bad(BlockAddr(name))?.is_true() {
                return Ok(Bool::True);
            }
        }
        Ok(Bool::False)
    }

    /// Finds the newest root page and checks that the volume is for this chip. 16 reads.
    #[inline(never)]
    pub(crate) fn find_root(&mut self) -> Result<Root, Fault> {
        let geo = self.index.store.geo;
        let mut best: Option<(Header, u32, u32)> = None;
        let (mut newest, mut before) = (None, None);
        let (mut version, mut fits, mut unreadable) = (None, true, true);
        let (mut blocks, mut good) = ([RootBlock::default(); 2], 0);
        for (side, seen) in blocks.iter_mut().enumerate() {
            let block = self.anchor.roots[side];
            let mut lost = block == u32::MAX;
            for index in (0..ANCHOR_PAGES).filter(|_| block != u32::MAX) {
                let at = geo.page(BlockAddr(block), index);
                let Index { store, scratch, .. } = &mut self.index;
                let page = scratch.overwrite(&mut store.scratch_holds);
                let status = store.nand.read_meta(at, page)?;
                if !header::is_blank(page) {
                    seen.end = index + 1;
                }
                match header::parse(page, at) {
                    _ if !status.is_readable() => lost = true,
                    Err(Bad::Version(v)) => version = Some(v),
                    Ok(h) if h.kind == Kind::Root && is_well_formed(&geo, page, &h) => {
                        let word = |i: usize| get_u32(page, HEADER + 4 * i);
                        let short = page[7] == SHORT_TAGS;
                        seen.round = Some(word(6));
                        let page = Some((h.seq, index, word(4)));
                        if page > seen.newest {
                            (seen.newest, seen.name) = (page, root_name(word(6), index));
                        }
                        note_newest(&mut newest, &mut before, Some((h.seq, word(4))));
                        if best.is_none_or(|b| h.seq > b.0.seq) {
                            let form = if short { Form::Short } else { Form::Wide };
                            store.tags = store.tags.and(Some(form));
                            fits = shape(&geo) == [word(0), word(1), word(2), word(3)]
                                && (!short || store.has_tags());
                            best = Some((h, word(4), word(5)));
                            good = word(7);
                        }
                    }
                    _ => {}
                }
            }
            unreadable &= lost;
        }
        let Some((header, second, last_root)) = best else {
            return Err(self.no_volume(version, unreadable));
        };
        if !fits {
            return Err(Fault::Geometry);
        }
        self.index.store.volume = header.volume;
        (self.anchor.last_root, self.anchor.good) = (last_root, good);
        self.anchor.limit_roots();
        for (block, seen) in self.anchor.roots.into_iter().zip(&mut blocks) {
            if block == u32::MAX {
                // A block of something else was looked at.
                *seen = RootBlock::default();
            }
        }
        self.anchor.second = second;
        let side = usize::from(blocks[1].newest > blocks[0].newest);
        let page = |block: RootBlock| block.newest.map(|(_, index, second)| (index, second));
        Ok(Root {
            second,
            before: before.map_or(u32::MAX, |page| page.1),
            seq: header.seq,
            blocks,
            side,
            twice: page(blocks[0]) == page(blocks[1]),
        })
    }

    /// What is said of a chip without a root page. Where pages of each root block are `unreadable`
    /// there may be a volume, which who is told of none would format. A first format that was cut
    /// once leaves such pages in one of them at most.
    #[cold]
    fn no_volume(&mut self, version: Option<u8>, unreadable: bool) -> Fault {
        let nand = &mut self.index.store.nand;
        match version {
            Some(version) => nand.version(version),
            None if unreadable => nand.damaged(PageAddr::NONE, Damaged::Root),
            None => Fault::NotFormatted,
        }
    }

    /// Reads the second-level block. Notes where what was programmed ends,
    /// whoever claimed it. 8 reads.
    fn find_second(&mut self, second: u32) -> Result<Second, Fault> {
        let geo = self.index.store.geo;
        let mut pages = SecondPages::default();
        self.anchor.second_next = 0;
        for index in 0..ANCHOR_PAGES {
            let at = geo.page(BlockAddr(second), index);
            let header = self.index.read_scratch(at)?;
            let is_blank = header::is_blank(&self.index.scratch);
            pages.note(&geo, index, header.map(|h| h.kind), &self.index.scratch);
            if !is_blank {
                self.anchor.second_next = index / 2 * 2 + 2;
            }
        }
        pages.read().ok_or_else(|| {
            let at = geo.page(BlockAddr(second), 0);
            self.index.store.nand.damaged(at, Damaged::Second)
        })
    }

    /// Finds the newest checkpoint; whether the newest root page `counts` may have been decided. 8
    /// reads, 7 for a leaf, 2 for the leaves that it names, one more for a copy.
    pub(crate) fn find_leaf(&mut self, root: &Root, counts: Option<bool>) -> Result<Leaf, Fault> {
        let geo = self.index.store.geo;
        let (firm, (mut leaf, mut seq, names)) = self.find_anchored(root, counts)?;
        let mut last = (seq, CheckpointView::on(&self.index.scratch).counting_root());
        let mut copy: Option<(u64, u32, u64)> = None;
        let mut complete = (0, u32::MAX);
        // The leaves named may go on from here. Copies only lead to other copies, and
        // what one of them names may not be what the leaf names: it was made by a
        // mount that found another leaf.
        let mut names = Names::new(names);
        let mut i = 0;
        while let Some(name) = names.get(i) {
            i += 1;
            if name >= geo.blocks() {
                continue;
            }
            let at = geo.page(BlockAddr(name), 0);
            let Some((s, next)) = self.index.read_checkpoint(at, seq)? else {
                continue;
            };
            let page = CheckpointView::on(&self.index.scratch);
            let says = (s, page.counting_root());
            if page.copy_of() != 0 {
                names.add(next);
                if copy.is_none_or(|(newest, ..)| s > newest) {
                    copy = Some((s, name, page.since()));
                }
                if s > complete.0 && self.index.is_complete_copy(name)?.is_true() {
                    complete = (s, name);
                    last = last.max(says);
                }
            } else if let Some((head, s, next)) = self.index.last_checkpoint(name)?
                && s > seq
            {
                // Each of a forged ring of leaves could be newer than the last of the one before.
                self.anchor.push_chain(leaf.block);
                (leaf, seq) = (head, s);
                last = (s, CheckpointView::on(&self.index.scratch).counting_root());
                (names, i) = (Names::new(next), 0);
                copy = None;
                complete = (0, u32::MAX);
            }
        }
        let counted = Some(last.1).filter(|&page| page != 0 && last.0 > root.seq);
        // What could not be read when the copy was made is out of date, though it may be readable
        // now: what it needs may have been erased since.
        if let Some((.., of)) = copy {
            for index in (0..leaf.next).rev() {
                let at = geo.page(BlockAddr(leaf.block), index);
                if self.index.read_checkpoint(at, 0)?.is_some()
                    && CheckpointView::on(&self.index.scratch).since() == of
                {
                    leaf.next = index + 1;
                    break;
                }
            }
        }
        Ok(Leaf {
            head: leaf,
            copy: copy.map(|(_, block, _)| (block, complete.1)),
            firm,
            counted,
        })
    }

    /// Whether what leads to the leaf that the anchors lead to cannot fail any more, and
    /// the last checkpoint there.
    ///
    /// A root page or second-level page that may fail yet does not count: nothing has been done
    /// behind it, so what the one before it leads to is as it was. Where there is no checkpoint, a
    /// mount in between did not count the page that leads there, and has used the block for a copy
    /// of a checkpoint: then the one before counts again.
    fn find_anchored(&mut self, root: &Root, counts: Option<bool>) -> Result<(bool, Found), Fault> {
        let counts = match counts {
            Some(counts) => counts,
            None => root.is_complete() || self.is_behind(root)?.is_true(),
        };
        let candidates = root.candidates(counts);
        let mut corrupt = None;
        for (i, block) in candidates.into_iter().enumerate() {
            if block == u32::MAX {
                continue;
            }
            let second = match self.find_second(block) {
                Err(Fault::Corrupt(what)) => {
                    let at = self.index.store.nand.damaged_at();
                    corrupt = corrupt.or(Some((at, what)));
                    continue;
                }
                second => second?,
            };
            self.index.store.seq = self.index.store.seq.max(second.seq + 1);
            let mut found = None;
            for leaf in second.leaves() {
                if found.is_none() && leaf != u32::MAX {
                    found = self.index.last_checkpoint(leaf)?;
                }
            }
            if let Some(found) = found {
                self.anchor.second = block;
                // The other block is written first.
                let is_other = root.twice || counts == (i > 0);
                self.anchor.first = if is_other { 1 - root.side } else { root.side };
                self.anchor.counts = root.blocks[self.anchor.first].name;
                let firm = i == 0 && (second.firm || second.before != u32::MAX);
                return Ok((firm && (!root.is_in_one() || root.seq < second.seq), found));
            }
            let at = self.index.store.geo.page(BlockAddr(second.leaf), 0);
            corrupt = corrupt.or(Some((at, Damaged::Checkpoint)));
            if counts && !root.is_in_one() && second.before != u32::MAX {
                // Other leaves have followed: what counted before is out of date.
                break;
            }
        }
        let (at, what) = corrupt.unwrap_or((PageAddr::NONE, Damaged::Second));
        Err(self.index.store.nand.damaged(at, what))
    }

    /// Whether what the newest root page leads to shows that it is complete. 8 reads.
    fn is_behind(&mut self, root: &Root) -> Result<Bool, Fault> {
        match self.find_second(root.second) {
            Ok(second) => Ok(Bool::from(second.is_behind(root.seq))),
            Err(Fault::Corrupt(_)) => Ok(Bool::False),
            Err(e) => Err(e),
        }
    }

    /// Whether the newest root page has counted once, as a checkpoint says that it leads to: then
    /// it was complete, and what shows that in the other block may be lost in an erase that was
    /// cut. As many reads as [`Durable::find_leaf`].
    pub(crate) fn has_counted(&mut self, root: &Root, name: u16) -> Result<Bool, Fault> {
        match self.find_leaf(root, Some(true)) {
            Ok(found) => Ok(Bool::from(found.counted == Some(name))),
            Err(Fault::Corrupt(_)) => Ok(Bool::False),
            Err(e) => Err(e),
        }
    }
}

impl<'r, N: Nand> Index<'r, N> {
    /// Whether a session has begun after a clean unmount: its first writes are two allocation
    /// records in the block that the checkpoint reserved for the log. The first alone may fail yet,
    /// and then nothing has happened.
    #[inline(never)]
    pub(crate) fn was_written(&mut self, since: u64) -> Result<Bool, Fault> {
        for i in 0..self.store.log.reserved {
            let (block, area) = self.store.log.reserves[i];
            if area != LogArea::Bitmap as u8 {
                continue;
            }
            let block = BlockAddr(u32::from(block));
            let at = self.store.geo.page(block, 0);
            let is_record =
                |h: Option<Header>| h.is_some_and(|h| h.kind == Kind::Alloc && h.seq > since);
            let first = is_record(self.read_scratch(at)?);
            if !first && self.scratch[..HEADER].iter().any(|&b| b != 0) {
                // Not this one; it may have failed when it was erased.
                continue;
            }
            // One that cannot be read may be the first.
            let at = self.store.geo.page(block, 1);
            let second = self.read_scratch(at)?;
            if is_record(second) || first && !header::is_blank(&self.scratch) {
                return Ok(Bool::True);
            }
        }
        Ok(Bool::False)
    }

    /// Whether the copy of a checkpoint in a block is complete for sure: there is
    /// something behind it. If not, its program may have been cut, and nothing has been
    /// done that it claims. One read.
    fn is_complete_copy(&mut self, block: u32) -> Result<Bool, Fault> {
        let behind = self.store.geo.page(BlockAddr(block), 1);
        self.read_scratch(behind)?;
        Ok(Bool::from(!header::is_blank(&self.scratch)))
    }

    /// The last checkpoint of a leaf block.
    fn last_checkpoint(&mut self, block: u32) -> Result<Option<Found>, Fault> {
        let (mut lo, mut hi) = (0, self.store.ppb());
        let geo = self.store.geo;
        let page = |index| geo.page(BlockAddr(block), index);
        // The first page that was never programmed.
        while lo < hi {
            let mid = u32::midpoint(lo, hi);
            let found = self.read_checkpoint(page(mid), 0)?;
            if found.is_none() && header::is_blank(&self.scratch) {
                hi = mid;
            } else {
                lo = mid + 1;
            }
        }
        // The last may have been torn.
        for index in (0..lo).rev() {
            if let Some((seq, names)) = self.read_checkpoint(page(index), 0)? {
                let next = index + 1;
                return Ok(Some((Head { block, next }, seq, names)));
            }
        }
        Ok(None)
    }
}

/// What a root page says of the chip.
fn shape(geo: &Geometry) -> [u32; 4] {
    [
        geo.page_size(),
        geo.spare_size(),
        geo.pages_per_block(),
        geo.blocks(),
    ]
}

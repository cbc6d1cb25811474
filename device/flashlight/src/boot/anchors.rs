//! From the root blocks to the checkpoint that counts, as a mount finds it.

use crate::boot::{Boot, Error};
use crate::format::anchors::{Names, Root, RootBlock, Second, SecondPages, note_newest};
use crate::format::area::{Head, LogArea};
use crate::format::checkpoint::{CONFIRMED, CheckpointView, REPEATED, UNMOUNTED, root_name};
use crate::format::fields::get_u32;
use crate::format::header::{self, Bad, HEADER, Header, Kind, SHORT_TAGS};
use crate::format::limits::{ANCHOR_PAGES, CHAIN, ROOT_BLOCKS, TRANSFER};
use crate::format::tag::Form;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// What root blocks say whose newest page is this, and the newest that leads to another block.
fn root_of(blocks: [RootBlock; 2], newest: (u64, u32), before: Option<(u64, u32)>) -> Root {
    let [one, two] = blocks;
    let page = |block: RootBlock| block.newest.map(|(_, index, second)| (index, second));
    Root {
        second: newest.1,
        before: before.map_or(u32::MAX, |page| page.1),
        seq: newest.0,
        blocks,
        side: usize::from(two.newest > one.newest),
        twice: page(one) == page(two),
    }
}

/// The newest checkpoint.
struct Leaf {
    head: Head,
    /// It was found by what another leaf names.
    chained: bool,
    /// The root page that counted when the newest of them was written, if that was after the
    /// newest root page.
    counted: Option<u16>,
    /// The root page that has led here.
    followed: u16,
}

impl<N: Nand> Boot<'_, N> {
    fn page(&self, block: u32, index: u32) -> PageAddr {
        self.chip.geo.page(BlockAddr(block), index)
    }

    /// Finds the checkpoint and what was written after it.
    #[inline(never)]
    pub(super) fn load(&mut self) -> Result<(), Error> {
        let root = self.find_root()?;
        let leaf = self.find_checkpoint(&root)?;
        let Head { block, next } = leaf.head;
        let at = self.page(block, next.wrapping_sub(1));
        let mut clean = self.load_checkpoint(at)?;
        if let Err(e) = self.load_snapshot(at) {
            clean = self.load_first_of_two(leaf.head, e)?;
        }
        self.recovers = !clean || leaf.chained || self.was_written()?;
        if self.recovers {
            self.list_opened()?;
            self.look_through()?;
        } else {
            self.opened = 0;
        }
        Ok(())
    }

    /// The first of two checkpoints that say the same, when the second has led to an error.
    fn load_first_of_two(&mut self, leaf: Head, e: Error) -> Result<bool, Error> {
        if e != Error::Damaged {
            return Err(e);
        }
        let at = self.page(leaf.block, leaf.next.wrapping_sub(1));
        self.chip.expect(at, self.a, Kind::Checkpoint)?;
        let page = CheckpointView::on(self.a);
        let clean = page.has(CONFIRMED);
        // An unmount's second is there twice.
        let back = if clean { 2 } else { 1 };
        let next = leaf.next.saturating_sub(back);
        if next == 0 || !clean && !page.has(REPEATED) {
            return Err(e);
        }
        let at = self.page(leaf.block, next - 1);
        let found = self.load_checkpoint(at)?;
        if clean && !CheckpointView::on(self.a).has(UNMOUNTED) {
            return Err(e);
        }
        self.load_snapshot(at)?;
        Ok(found)
    }

    /// The first two good blocks.
    fn root_blocks(&mut self) -> Result<[u32; 2], Error> {
        let mut roots = [u32::MAX; 2];
        let mut places = roots.iter_mut();
        let mut place = places.next();
        for block in 0..self.chip.geo.blocks().min(ROOT_BLOCKS) {
            let Some(root) = &mut place else { break };
            let is_bad = self.chip.nand.is_bad(BlockAddr(block));
            if !self.chip.kept(is_bad)? {
                **root = block;
                place = places.next();
            }
        }
        Ok(roots)
    }

    /// Finds the newest root page. 16 reads.
    fn find_root(&mut self) -> Result<Root, Error> {
        let geo = self.chip.geo;
        let (mut newest, mut before) = (None, None);
        let (mut version, mut transferred, mut last_root) = (false, false, 0);
        let mut best: Option<(u64, bool)> = None;
        let mut blocks = [RootBlock::default(); 2];
        let mut unreadable = true;
        let names = self.root_blocks()?;
        for (seen, block) in blocks.iter_mut().zip(names) {
            let mut lost = block == u32::MAX;
            for index in (0..ANCHOR_PAGES).filter(|_| block != u32::MAX) {
                let at = geo.page(BlockAddr(block), index);
                let readable = self.chip.read_raw(at, self.a)?;
                if !header::is_blank(self.a) {
                    seen.end = index + 1;
                }
                let parsed = header::parse(self.a, at);
                if !readable {
                    lost = true;
                    continue;
                }
                version |= matches!(parsed, Err(Bad::Version(_)));
                transferred |= index == 0 && get_u32(self.a, 4) == TRANSFER;
                let leads = get_u32(self.a, HEADER + 16) < geo.blocks();
                let is_root = |h: &Header| h.kind == Kind::Root && leads;
                let Some(h) = parsed.ok().filter(is_root) else {
                    continue;
                };
                let word = |i: usize| get_u32(self.a, HEADER + 4 * i);
                seen.round = Some(word(6));
                let page = Some((h.seq, index, word(4)));
                if page > seen.newest {
                    (seen.newest, seen.name) = (page, root_name(word(6), index));
                }
                note_newest(&mut newest, &mut before, Some((h.seq, word(4))));
                if best.is_none_or(|b| h.seq > b.0) {
                    let short = header::version(self.a) == SHORT_TAGS;
                    let form = if short { Form::Short } else { Form::Wide };
                    let shape = [0, 1, 2, 3].map(word);
                    let fits = shape
                        == [
                            geo.page_size(),
                            geo.spare_size(),
                            geo.pages_per_block(),
                            geo.blocks(),
                        ];
                    self.chip.tags = Form::new(geo.spare_size()).map(|_| form);
                    best = Some((h.seq, fits && (!short || self.chip.tags.is_some())));
                    (self.chip.volume, last_root) = (h.volume, word(5));
                }
            }
            unreadable &= lost;
        }
        match best {
            None if version => return Err(Error::Version),
            None if transferred => return Err(Error::Transferred),
            None if unreadable => return Err(Error::Damaged),
            None => return Err(Error::NotFormatted),
            Some((_, false)) => return Err(Error::Geometry),
            Some(_) => {}
        }
        for (block, seen) in names.into_iter().zip(&mut blocks) {
            if block > last_root {
                // A block of something else was looked at.
                *seen = RootBlock::default();
            }
        }
        let newest = newest.ok_or(Error::NotFormatted)?;
        Ok(root_of(blocks, newest, before))
    }

    /// The newest checkpoint; its block and the page behind it.
    fn find_checkpoint(&mut self, root: &Root) -> Result<Leaf, Error> {
        let mut counts = None;
        // A page whose program was cut may fail between two reads: then the one before it counts.
        for _ in 0..5 {
            let found = self.find_leaf(root, counts)?.ok_or(Error::Damaged)?;
            if counts.is_none() && !root.is_one_lead() {
                let [newest, other] = root.names();
                // What a mount has decided stays so: it may have erased what the other root page
                // leads to.
                let followed = found.followed == newest;
                let decided = match found.counted {
                    Some(page) => page != other,
                    None if followed => true,
                    None => {
                        let leaf = self.find_leaf(root, Some(true))?;
                        leaf.is_some_and(|leaf| leaf.counted == Some(newest))
                    }
                };
                if decided != followed || found.counted.is_none() && !followed {
                    counts = Some(decided);
                    continue;
                }
            }
            let at = self.page(found.head.block, found.head.next.wrapping_sub(1));
            if self.read_checkpoint(at, 0)? {
                return Ok(found);
            }
        }
        Err(Error::Damaged)
    }

    /// What a second-level block says. 8 reads.
    fn find_second(&mut self, second: u32) -> Result<Option<Second>, Error> {
        let mut pages = SecondPages::default();
        for index in 0..ANCHOR_PAGES {
            let at = self.page(second, index);
            let kind = self.chip.read_meta(at, self.a)?;
            pages.note(&self.chip.geo, index, kind, self.a);
        }
        Ok(pages.read())
    }

    /// The checkpoint that the anchors lead to, which is then in the first buffer, and which root
    /// page has.
    fn find_anchored(
        &mut self,
        root: &Root,
        counts: Option<bool>,
    ) -> Result<Option<(Head, u16)>, Error> {
        let counts = match counts {
            Some(counts) => counts,
            None => {
                root.is_complete()
                    || (self.find_second(root.second)?).is_some_and(|s| s.is_behind(root.seq))
            }
        };
        for (i, block) in root.candidates(counts).into_iter().enumerate() {
            if block == u32::MAX {
                continue;
            }
            let Some(second) = self.find_second(block)? else {
                continue;
            };
            let mut found = None;
            for leaf in second.leaves() {
                if found.is_none() && leaf != u32::MAX {
                    found = self.last_checkpoint(leaf)?;
                }
            }
            if let Some(found) = found {
                let is_other = root.twice || counts == (i > 0);
                let [newest, other] = root.names();
                return Ok(Some((found, if is_other { other } else { newest })));
            }
            if counts && !root.is_in_one() && second.before != u32::MAX {
                // Other leaves have followed: what counted before is out of date.
                break;
            }
        }
        Ok(None)
    }

    /// Finds the newest checkpoint; whether the newest root page `counts` may have been decided.
    fn find_leaf(&mut self, root: &Root, counts: Option<bool>) -> Result<Option<Leaf>, Error> {
        let Some((mut leaf, followed)) = self.find_anchored(root, counts)? else {
            return Ok(None);
        };
        let mut seq = header::number(self.a);
        let mut last = (seq, CheckpointView::on(self.a).counting_root());
        let mut copy: Option<(u64, u64)> = None;
        let mut complete = 0;
        let mut names = Names::new(CheckpointView::on(self.a).next_leaves());
        let (mut i, mut chained) = (0, 0);
        while let Some(name) = names.get(i) {
            i += 1;
            if name >= self.chip.geo.blocks() {
                continue;
            }
            let at = self.page(name, 0);
            if !self.read_checkpoint(at, seq)? {
                continue;
            }
            let (s, page) = (header::number(self.a), CheckpointView::on(self.a));
            let (says, since) = ((s, page.counting_root()), page.since());
            if page.copy_of() != 0 {
                names.add(page.next_leaves());
                if copy.is_none_or(|(newest, _)| s > newest) {
                    copy = Some((s, since));
                }
                let behind = self.page(name, 1);
                self.chip.read_meta(behind, self.a)?;
                if s > complete && !header::is_blank(self.a) {
                    complete = s;
                    last = last.max(says);
                }
            } else if let Some(head) = self.last_checkpoint(name)?
                && header::number(self.a) > seq
                && chained < CHAIN
            {
                (leaf, seq) = (head, header::number(self.a));
                let page = CheckpointView::on(self.a);
                last = (seq, page.counting_root());
                names = Names::new(page.next_leaves());
                (i, copy, complete) = (0, None, 0);
                chained += 1;
            }
        }
        if let Some((_, of)) = copy {
            self.go_back_to(&mut leaf, of)?;
        }
        Ok(Some(Leaf {
            head: leaf,
            chained: chained > 0,
            counted: Some(last.1).filter(|&page| page != 0 && last.0 > root.seq),
            followed,
        }))
    }

    /// What could not be read when a copy was made is out of date, though it may be readable now:
    /// the checkpoint is the one that was copied.
    fn go_back_to(&mut self, leaf: &mut Head, of: u64) -> Result<(), Error> {
        for next in (1..=leaf.next).rev() {
            let at = self.page(leaf.block, next - 1);
            if self.read_checkpoint(at, 0)? && CheckpointView::on(self.a).since() == of {
                leaf.next = next;
                break;
            }
        }
        Ok(())
    }

    /// Reads a page into the first buffer; whether it is a checkpoint with a number above `after`.
    fn read_checkpoint(&mut self, at: PageAddr, after: u64) -> Result<bool, Error> {
        let kind = self.chip.read_meta(at, self.a)?;
        Ok(kind == Some(Kind::Checkpoint) && header::number(self.a) > after)
    }

    /// The last checkpoint of a leaf block, which is then in the first buffer.
    fn last_checkpoint(&mut self, block: u32) -> Result<Option<Head>, Error> {
        let (mut lo, mut hi) = (0, self.chip.geo.pages_per_block());
        // The first page that was never programmed.
        while lo < hi {
            let mid = u32::midpoint(lo, hi);
            let found = self.read_checkpoint(self.page(block, mid), 0)?;
            if !found && header::is_blank(self.a) {
                hi = mid;
            } else {
                lo = mid + 1;
            }
        }
        // The last may have been torn.
        for next in (1..=lo).rev() {
            if self.read_checkpoint(self.page(block, next - 1), 0)? {
                return Ok(Some(Head { block, next }));
            }
        }
        Ok(None)
    }

    /// Reads a page into the second buffer; whether it is a record of the allocation log since the
    /// checkpoint.
    fn is_record(&mut self, at: PageAddr) -> Result<bool, Error> {
        let kind = self.chip.read_meta(at, self.b)?;
        Ok(kind == Some(Kind::Alloc) && self.chip.is_since(self.b))
    }

    /// Whether a session has begun after a clean unmount. The checkpoint is in the first buffer.
    fn was_written(&mut self) -> Result<bool, Error> {
        for i in 0..usize::from(CheckpointView::on(self.a).reserved()) {
            let (block, area) = CheckpointView::on(self.a).reserve(i);
            if area != LogArea::Bitmap as u8 {
                continue;
            }
            let at = self.page(block.into(), 0);
            let first = self.is_record(at)?;
            if !first && self.b.iter().take(HEADER).any(|&b| b != 0) {
                // Not this one; it may have failed when it was erased.
                continue;
            }
            // One that cannot be read may be the first.
            let at = self.page(block.into(), 1);
            if self.is_record(at)? || first && !header::is_blank(self.b) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! Pages of the block table on flash: read, changed, written.

use crate::error::{Bool, Damaged, Fault};
use crate::format::area::{Head, LogArea};
use crate::format::blockstate::{BlockState, Entries};
use crate::format::header::{HEADER, Kind};
use crate::format::table_page::{ENTRIES, FIELDS, OWN, PLACE, TableFields, put_fields};
use crate::format::wellformed::blocks;
use crate::space::erased::OF_TABLE;
use crate::space::latch::{MayProgram, Stopped};
use crate::space::paged::Paged;
use crate::space::store::Store;
use core::mem::replace;
use flashkit_bytes::get_u16;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Pages written in one step at most.
pub(crate) const STEP: usize = 4;

/// Copies of pages that a recovery may write besides those that have been
/// written since the checkpoint.
pub(crate) const AT_ONCE: u32 = 32;

impl<N: Nand> Store<'_, N> {
    /// What a block is used for. At most a read, two when one copy of the page of the table
    /// cannot be read; none when the page, or the whole table, is in RAM. When neither copy can
    /// be read, nothing more is written.
    pub fn state(&mut self, block: u32) -> BlockState {
        if let Some(state) = self.table.known(block) {
            return state;
        }
        let Some(p) = (self.table.paged.as_ref()).filter(|_| block < self.table.blocks) else {
            return BlockState::Bad;
        };
        if p.writing && self.table.bytes.is_empty() {
            return self.state_on_flash(block);
        }
        let number = p.page_of(block).0;
        let loaded = self.load_table_page(number);
        if !matches!(loaded, Ok(Some(_))) {
            self.nand.stop(Stopped::BlockTable);
            return BlockState::Bad;
        }
        self.table.known(block).unwrap_or(BlockState::Bad)
    }

    /// Notes what a block is used for. No flash operation.
    pub fn set_state(&mut self, block: u32, state: BlockState) {
        if !self.table.note(block, state) {
            // Never seen: there is room for more changes than one step makes.
            self.nand.stop(Stopped::BlockTable);
        }
    }

    /// Reads a page of the table to RAM, if it is not there; where it is.
    fn load_table_page(&mut self, number: usize) -> Result<Option<usize>, Fault> {
        if let Some(i) = self.table.frame_of(number) {
            return Ok(Some(i));
        }
        let frames = self.table.frames();
        let Some(p) = self.table.paged.as_mut().filter(|_| frames > 0) else {
            return Ok(None);
        };
        let i = p.hand % frames;
        p.hand = i + 1;
        let (places, is_new) = (p.places(number), p.is_new(number));
        if places[0].is_none() {
            self.table.fill(i, number);
            return Ok(Some(i));
        }
        for at in places {
            match self.read_table_page(i, number, at) {
                Ok(Bool::True) => {
                    self.table.translate(i, is_new);
                    return Ok(Some(i));
                }
                Ok(Bool::False) => self.nand.refresh.add(self.geo.block_of(at).0),
                Err(e) => {
                    self.table.drop_frame(i);
                    return Err(e);
                }
            }
        }
        self.table.drop_frame(i);
        Ok(None)
    }

    /// Reads a copy of a page of the table, which must be that page. One read.
    fn read_table_page(&mut self, i: usize, number: usize, at: PageAddr) -> Result<Bool, Fault> {
        let size = self.table.page_size();
        let frames = core::mem::take(&mut self.table.bytes);
        let header = self.read_meta(at, &mut frames[i * size..(i + 1) * size]);
        self.table.bytes = frames;
        let page = self.table.frame(i);
        Ok(Bool::from(
            header?.is_some_and(|header| header.kind == Kind::Table)
                && usize::from(get_u16(page, HEADER)) == number
                && usize::from(get_u16(page, HEADER + 2)) == self.table.count(number),
        ))
    }

    /// A block's state, read alone: the RAM for pages is in use. A read.
    fn state_on_flash(&mut self, block: u32) -> BlockState {
        let Some(p) = &self.table.paged else {
            return BlockState::Bad;
        };
        let (number, entry) = p.page_of(block);
        let (places, is_new) = (p.places(number), p.is_new(number));
        let (entries, mut bytes) = (self.table.entries, [0; 2]);
        let bytes = &mut bytes[..entries.size()];
        let offset = (ENTRIES + entry * entries.size()) as u32;
        for at in places {
            match (
                self.nand.read(at, offset, bytes, &mut []),
                &self.table.paged,
            ) {
                (Ok(status), Some(p)) if status.is_readable() => {
                    return p.meant(entries.get(bytes, 0), is_new);
                }
                _ => {}
            }
        }
        self.nand.stop(Stopped::BlockTable);
        BlockState::Bad
    }

    /// Writes pages of the table when there are many changes, at most four: for each
    /// a read, two programs, and at times what taking a block costs. To be called
    /// where anything may be written.
    pub fn table_write_back(&mut self, _: MayProgram) {
        for _ in 0..STEP {
            if !self.log.session || self.nand.is_stopped() || !self.table.is_full() {
                break;
            }
            let Some(number) = self.table.paged.as_ref().and_then(Paged::fullest) else {
                break;
            };
            // What went wrong shows again: the changes are still there. The error of
            // a driver that has failed is kept.
            if self.write_table_page(number).is_err() {
                break;
            }
        }
    }

    /// Writes pages of the table until what a checkpoint holds leaves room for the
    /// changes of the session after it.
    pub fn table_write_back_for_checkpoint(&mut self) -> Result<(), Fault> {
        for _ in 0..2 * blocks(&self.geo) {
            let Some(p) = &self.table.paged else { break };
            let most = p.layout.full() * 3 / 4;
            let (fits, fullest) = (!p.is_full(), p.fullest());
            let Some(number) = fullest.filter(|_| p.len >= most) else {
                break;
            };
            match self.write_table_page(number) {
                // The checkpoint is what makes blocks free.
                Err(Fault::NoSpace) if fits => break,
                done => done?,
            }
        }
        Ok(())
    }

    /// Forgets changes that come to what pages of the table say anyway, as recoveries make them
    /// that are cut one after another; when there are many. A read for each page.
    pub fn forget_vain_changes(&mut self) -> Result<(), Fault> {
        let Some(layout) = self
            .table
            .paged
            .as_ref()
            .filter(|p| p.is_full())
            .map(|p| p.layout)
        else {
            return Ok(());
        };
        for number in 0..layout.pages {
            if let Some(i) = self.load_table_page(number)? {
                self.table.forget_shown(i, number);
            }
        }
        Ok(())
    }

    /// Writes a page of the table, as it is now, twice.
    pub fn write_table_page(&mut self, number: usize) -> Result<(), Fault> {
        if self.table.paged.as_ref().is_none_or(|p| p.writing) {
            return Ok(());
        }
        self.set_writing(true);
        let written = self
            .rewrite_table_page(number)
            .and_then(|()| self.empty_own());
        self.set_writing(false);
        written
    }

    /// Writes anew what is left in one of the blocks taken since the last checkpoint, so that
    /// it can be filled again, when there are so many that in one of them less than half is. A
    /// page that is written often leaves copies of others behind, and each block would keep one
    /// that is not written any more.
    fn empty_own(&mut self) -> Result<(), Fault> {
        let (block, pages) = self.own_to_empty();
        for n in 0..pages {
            if self.is_copy_in(n, block) {
                self.rewrite_table_page(n)?;
            }
        }
        Ok(())
    }

    /// The block to be emptied, and how many pages the table has; no pages: none.
    // A call of its own: its stack is not needed below the writing.
    #[inline(never)]
    fn own_to_empty(&self) -> (u32, usize) {
        const NONE: (u32, usize) = (u32::MAX, 0);
        let Some(p) = &self.table.paged else {
            return NONE;
        };
        let most = 1 + (4 * p.layout.pages).div_ceil(p.layout.pages_per_block as usize);
        let is_closed = |b: &u32| *b != u32::from(u16::MAX) && *b != p.head.block;
        let closed = p.own.into_iter().map(u32::from).filter(is_closed);
        if closed.clone().count() < most.min(OWN - 1) {
            return NONE;
        }
        let pages = p.layout.pages;
        let left = |block| (0..pages).filter(|&n| self.is_copy_in(n, block)).count();
        let Some((left, block)) = closed.map(|block| (left(block), block)).min() else {
            return NONE;
        };
        let room = self.ppb() - self.table.head().next.min(self.ppb());
        if left == 0 || 4 * left > self.ppb() as usize || 2 * left > room as usize {
            return NONE;
        }
        (block, pages)
    }

    /// Whether a copy of page `n` of the table is in a block.
    fn is_copy_in(&self, n: usize, block: u32) -> bool {
        let is_here = |at: &PageAddr| at.is_some() && self.geo.block_of(*at).0 == block;
        let paged = self.table.paged.as_ref();
        paged.is_some_and(|p| p.places(n).iter().any(is_here))
    }

    /// Makes sure that there is a block for both copies of a page.
    fn make_table_head(&mut self) -> Result<(), Fault> {
        self.begin_session()?;
        let head = self.table.head();
        if head.block != u32::MAX && head.next + 2 <= self.ppb() {
            return Ok(());
        }
        self.table.set_head(Head::NONE);
        if !self.table.is_own(head.block) {
            self.close(head.block);
        }
        let block = match self.take_own()? {
            Some(block) => block,
            None => {
                let block = self.take_block(LogArea::Map)?;
                let own = self.table.paged.as_mut().map(|p| &mut p.own);
                if let Some(place) = own.and_then(|own| own.iter_mut().find(|b| **b == u16::MAX)) {
                    *place = block as u16;
                }
                block
            }
        };
        self.table.set_head(Head { block, next: 0 });
        Ok(())
    }

    /// Takes a block that was taken before, and is not needed any more.
    fn take_own(&mut self) -> Result<Option<u32>, Fault> {
        let own = self.table.paged.as_ref().map_or([u16::MAX; OWN], |p| p.own);
        for block in own.into_iter().filter(|b| *b != u16::MAX).map(u32::from) {
            if self.state(block) != BlockState::Meta(0) {
                continue;
            }
            // On a damaged volume something else may have claimed its pages, and given them back.
            let is_here = |at: PageAddr| self.geo.block_of(at).0 == block;
            if self.table.copies().any(is_here) {
                continue;
            }
            if let Some(i) = self.dirty.find(block) {
                self.dirty.remove(i);
            }
            if self.prepare(block, true)?.is_true() {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Before a checkpoint: what was taken since the last is as other blocks from here on.
    pub fn release_own(&mut self) {
        let Some(p) = &mut self.table.paged else {
            return;
        };
        let (own, head) = (replace(&mut p.own, [u16::MAX; OWN]), p.head.block);
        for block in own.into_iter().map(u32::from) {
            if block != u32::from(u16::MAX) && block != head {
                self.close(block);
            }
        }
    }

    /// Programs a copy of a page of the table.
    fn append_table_page(&mut self, page: &mut [u8]) -> Result<PageAddr, Fault> {
        self.see(OF_TABLE)?;
        loop {
            if self.table.head().next >= self.ppb() || self.table.head().block == u32::MAX {
                self.table.set_head(Head::NONE);
                self.make_table_head()?;
            }
            let Head { block, next } = self.table.head();
            let at = self.geo.page(BlockAddr(block), next);
            self.table.set_head(Head {
                block,
                next: next + 1,
            });
            if self
                .program_at(at, page, Kind::Table, PageAddr::NONE)?
                .is_true()
            {
                self.written.areas[LogArea::Map as usize] += 1;
                self.validate(at);
                return Ok(at);
            }
            self.table.set_head(Head::NONE);
            self.note_failing(block);
        }
    }

    fn set_writing(&mut self, writing: bool) {
        if let Some(p) = &mut self.table.paged {
            p.writing = writing;
        }
    }

    fn rewrite_table_page(&mut self, number: usize) -> Result<(), Fault> {
        // That asks for states: the RAM for pages is needed for this one after that.
        self.make_table_head()?;
        let Some(i) = self.load_table_page(number)? else {
            self.nand.stop(Stopped::BlockTable);
            return Err(self.nand.damaged(PageAddr::NONE, Damaged::Table));
        };
        self.table.apply(i, number);
        let size = self.table.page_size();
        let count = usize::from(get_u16(self.table.frame(i), HEADER + 2));
        let len = ENTRIES + count * self.table.entries.size();
        let frames = core::mem::take(&mut self.table.bytes);
        let page = &mut frames[i * size..i * size + len];
        let mut new = [PageAddr::NONE; 2];
        let mut written = Ok(());
        for place in &mut new {
            match self.append_table_page(page) {
                Ok(at) => *place = at,
                Err(e) => {
                    written = Err(e);
                    break;
                }
            }
        }
        self.table.bytes = frames;
        if written.is_err() {
            // It shows what is not on flash.
            self.table.drop_frame(i);
            self.invalidate(new[0], MayProgram);
            return written;
        }
        let old = (self.table.paged.as_ref()).map_or([PageAddr::NONE; 2], |p| p.places(number));
        if let Some(p) = &mut self.table.paged {
            p.set_places(number, new);
            p.written += 2;
        }
        self.table.forget_shown(i, number);
        for at in old {
            self.invalidate(at, MayProgram);
        }
        Ok(())
    }

    /// Puts what a checkpoint page says of the table behind its other fields; where that ends.
    /// Blocks of the checkpoint that are `over`, which only this one still calls its own, are dead
    /// for whoever starts from it.
    ///
    /// ```text
    /// places of the pages' copies: u32 each, bit 31 of the first: written after the checkpoint
    ///     before
    /// good u32, free u32, dead u32   changes u16   erased means free u16
    /// block being filled u16, next page u16
    /// changes: block u16, entry
    /// ```
    pub fn encode_table(&mut self, page: &mut [u8], at: usize, over: &[u32]) -> usize {
        if self.table.paged.is_none() {
            return at;
        }
        for &block in over {
            if self.state(block) == BlockState::System {
                self.set_state(block, BlockState::System);
            }
        }
        let Some(p) = &self.table.paged else {
            return at;
        };
        let (places, size) = (PLACE * p.layout.pages, p.layout.change);
        if at + places + FIELDS + p.len * size > page.len() {
            // Never seen: pages of the table are written first. The program is refused.
            self.nand.stop(Stopped::BlockTable);
            return at;
        }
        page[at..at + places].copy_from_slice(&p.places[..places]);
        let (mut dead, first) = (self.tally.dead, at + places + FIELDS);
        let changes = &mut page[first..first + p.len * size];
        changes.copy_from_slice(&p.changes[..p.len * size]);
        for change in changes.chunks_exact_mut(size) {
            let is_ours = self.table.entries.get(&change[2..], 0) == BlockState::System;
            if is_ours && over.contains(&u32::from(get_u16(change, 0))) {
                self.table
                    .entries
                    .set(&mut change[2..], 0, BlockState::Dead);
                dead += 1;
            }
        }
        let counts = [self.tally.good, self.tally.free, dead];
        put_fields(page, at + places, counts, p.len, p.erased_untrusted, p.head);
        first + p.len * size
    }

    /// Takes what a checkpoint page says of the table, of which it has begun to use the pages;
    /// where that ends. `None`: it means nothing.
    pub fn decode_table(&mut self, page: &[u8], at: usize) -> Option<usize> {
        let p = self.table.paged.as_mut()?;
        let layout = p.layout;
        let said = TableFields::on(&self.geo, page, at, layout.per_page)?;
        p.places[..said.places.len()].copy_from_slice(said.places);
        [self.tally.good, self.tally.free, self.tally.dead] = said.counts();
        let sane = |n: u32| n <= self.table.blocks;
        let changes = said.changes;
        let len = changes.len() / layout.change;
        if len > layout.changes_most() {
            return None;
        }
        p.erased_untrusted = said.erased_untrusted();
        p.head = said.head();
        p.changes.get_mut(..changes.len())?.copy_from_slice(changes);
        p.len = len;
        let in_order = (1..len).all(|i| p.block(i - 1) < p.block(i));
        let last = len.checked_sub(1).map_or(0, |i| p.block(i));
        let most = self.geo.pages_per_block();
        let entries: Entries = self.table.entries;
        let counts = changes.chunks_exact(layout.change).all(|change| {
            !matches!(entries.get(&change[2..], 0), BlockState::Meta(n) | BlockState::Data(n) if n > most)
        });
        let pages = self.table.blocks * most;
        let has = |at: PageAddr| at.0 < pages;
        let places = (0..layout.pages).all(|number| match p.places(number) {
            [PageAddr::NONE, PageAddr::NONE] => true,
            [first, second] => has(first) && has(second),
        });
        let sane = sane(self.tally.good)
            && sane(self.tally.free)
            && sane(self.tally.dead)
            && self.tally.live <= pages;
        (in_order && last < self.table.blocks && counts && places && sane).then_some(said.end)
    }
}

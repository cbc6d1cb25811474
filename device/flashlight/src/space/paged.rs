//! The block table of a chip with more blocks than a page has room for: it lies on flash, and a
//! page of it, or some, in RAM. So RAM and the reads of a mount do not grow with the chip.
//!
//! ```text
//! a page of the table: 32 number u16   34 entries u16   36 entries
//! ```
//!
//! A change is noted in a list in RAM, sorted by block. When that grows long, the page with the
//! most changes is read, changed and written, twice: the list is the buffer of a tree of two
//! levels. A checkpoint holds the list and the places of the pages, and writes none.
//!
//! Invariants:
//! * The state of a block is what the list says, else what the page says, else (a page that
//!   was never written) erased.
//! * *Dead* in a page that was written before the last checkpoint means free: a bit of its place
//!   says that it was written since. So a checkpoint makes blocks free without writing their pages.
//!   Once a recovery has begun, *erased* means free everywhere.
//! * Pages of the table are metadata as others are: counted as valid, not erased before the
//!   checkpoint after the one that does not name them any more, moved by cleaning. What was written
//!   of them since the checkpoint counts for nothing when power goes.
//! * They fill blocks of their own. One that was taken since the last checkpoint, and all pages
//!   of which have been written anew, is erased and filled again: no checkpoint names it. When
//!   there are several of them, what is left in one is written anew for that. So the blocks that
//!   pages take between two checkpoints are few, however many are written: with pages for half
//!   of a block's at most, four.
//! * Pages are written between other pages, by [`Store::table_write_back`], never while an area's
//!   head or a reservation is being changed, and not before a session, or a recovery, may write.
//! * A page that cannot be read is read from the other copy, and both are written anew. With both
//!   lost, nothing is written any more in this session.

use crate::format::area::Head;
use crate::format::blockstate::BlockState;
use crate::format::header::HEADER;
use crate::format::table_page::{ENTRIES, Layout, OWN, PLACE, SINCE, SLACK};
use crate::space::limits::cost;
use crate::space::table::Table;
use crate::space::table_page::AT_ONCE;
use core::mem::replace;
use core::ops::Range;
use flashkit_bytes::{get_u16, get_u32, put_u16, put_u32};
use flashkit_nand::{Geometry, PageAddr};

/// Entries of the dirty list that a chip with such a table has.
pub(crate) const DIRTY_ENTRIES: usize = 65;

/// What cleaning a block costs, in parts of a block; 255: nothing can be won.
pub(crate) fn share(state: BlockState, pages_per_block: u32) -> u8 {
    cost(state, pages_per_block).map_or(255, |cost| (cost * 50 / pages_per_block) as u8)
}

/// What a table on flash has in RAM beside its pages.
pub(crate) struct Paged<'r> {
    pub layout: Layout,
    pub(crate) places: &'r mut [u8],
    pub(crate) changes: &'r mut [u8],
    pub(crate) len: usize,
    /// Blocks that the table calls erased may not be so.
    pub erased_untrusted: bool,
    /// Where the next page is read to.
    pub(crate) hand: usize,
    /// A page is being written.
    pub(crate) writing: bool,
    /// Whether what the checkpoint names has been compared with the table.
    pub compared: bool,
    /// Copies of pages written since the last checkpoint.
    pub(crate) written: u32,
    /// The block that is being filled.
    pub head: Head,
    /// Blocks taken since the last checkpoint; all ones: none.
    pub(crate) own: [u16; OWN],
    /// For each page what cleaning the cheapest of its blocks costs at least, in parts of a block.
    costs: &'r mut [u8],
}

impl Paged<'_> {
    /// Whether there are so many changes that a page is to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.len + SLACK >= self.changes.len() / self.layout.change
    }

    pub(crate) fn block(&self, i: usize) -> u32 {
        u32::from(get_u16(self.changes, i * self.layout.change))
    }

    /// Where the change of a block is, or would be.
    fn find(&self, block: u32) -> Result<usize, usize> {
        let (mut lo, mut hi) = (0, self.len);
        while lo < hi {
            let mid = usize::midpoint(lo, hi);
            match self.block(mid) {
                b if b == block => return Ok(mid),
                b if b < block => lo = mid + 1,
                _ => hi = mid,
            }
        }
        Err(lo)
    }

    fn remove(&mut self, i: usize) {
        let size = self.layout.change;
        self.changes
            .copy_within((i + 1) * size..self.len * size, i * size);
        self.len -= 1;
    }

    /// The page with the most changes.
    pub(crate) fn fullest(&self) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let mut i = 0;
        while i < self.len {
            let number = self.block(i) / self.layout.per_page;
            let from = i;
            while i < self.len && self.block(i) / self.layout.per_page == number {
                i += 1;
            }
            if best.is_none_or(|b| i - from > b.1) {
                best = Some((number as usize, i - from));
            }
        }
        best.map(|b| b.0)
    }

    pub fn places(&self, number: usize) -> [PageAddr; 2] {
        let first = get_u32(self.places, PLACE * number);
        let second = get_u32(self.places, PLACE * number + 4);
        let first = if first == u32::MAX {
            first
        } else {
            first & !SINCE
        };
        [PageAddr(first), PageAddr(second)]
    }

    pub(crate) fn set_places(&mut self, number: usize, places: [PageAddr; 2]) {
        put_u32(self.places, PLACE * number, places[0].0 | SINCE);
        put_u32(self.places, PLACE * number + 4, places[1].0);
    }

    /// Whether a page was written after the last checkpoint.
    pub(crate) fn is_new(&self, number: usize) -> bool {
        get_u32(self.places, PLACE * number) & SINCE != 0
    }

    /// What a state that is read in a page means.
    pub(crate) fn meant(&self, state: BlockState, is_new: bool) -> BlockState {
        match state {
            BlockState::Dead if !is_new => BlockState::Free,
            BlockState::Clean if self.erased_untrusted => BlockState::Free,
            state => state,
        }
    }

    /// The page that holds a block's entry, and which of its entries that is.
    pub(crate) fn page_of(&self, block: u32) -> (usize, usize) {
        let n = self.layout.per_page;
        ((block / n) as usize, (block % n) as usize)
    }

    /// Blocks for so many copies, and a part of one.
    fn blocks_for(&self, copies: u32) -> u32 {
        copies / self.layout.pages_per_block + 1
    }

    /// Which page of the table a place is of.
    pub fn page_at(&self, at: PageAddr) -> Option<usize> {
        (0..self.layout.pages).find(|&number| self.places(number).contains(&at))
    }
}

impl<'r> Table<'r> {
    /// The bytes that are missing for a table that lies on flash so, or is in RAM whole.
    pub fn has_room(&self, layout: Option<Layout>, geo: &Geometry) -> Result<(), usize> {
        let need = match layout {
            Some(layout) => layout.room(),
            None => crate::format::blockstate::size(geo),
        };
        match need.checked_sub(self.bytes.len()) {
            Some(more @ 1..) if self.paged.is_none() => Err(more),
            _ => Ok(()),
        }
    }

    /// The table lies on flash from here on, and is empty: all blocks are erased. `false` when
    /// there is too little RAM, or it lies there in another way.
    pub fn begin_paging(&mut self, layout: Layout) -> bool {
        if self.paged.is_none() && self.bytes.len() >= layout.room() {
            let changes = layout.changes_most();
            let bytes = core::mem::take(&mut self.bytes);
            let (changes, bytes) = bytes.split_at_mut(changes * layout.change);
            let (places, bytes) = bytes.split_at_mut(PLACE * layout.pages);
            let (costs, bytes) = bytes.split_at_mut(layout.pages);
            self.bytes = bytes;
            self.paged = Some(Paged {
                layout,
                places,
                changes,
                len: 0,
                erased_untrusted: false,
                hand: 0,
                writing: false,
                compared: false,
                written: 0,
                head: Head::NONE,
                own: [u16::MAX; OWN],
                costs,
            });
        }
        let frames = self.frames();
        let Some(p) = self.paged.as_mut().filter(|p| p.layout == layout) else {
            return false;
        };
        p.places.fill(0xff);
        p.costs.fill(0);
        (p.len, p.erased_untrusted, p.compared) = (0, false, false);
        (p.head, p.own) = (Head::NONE, [u16::MAX; OWN]);
        for i in 0..frames {
            self.drop_frame(i);
        }
        true
    }

    pub(crate) fn page_size(&self) -> usize {
        self.paged.as_ref().map_or(1, |p| p.layout.page_size)
    }

    /// Pages in RAM at most.
    pub(crate) fn frames(&self) -> usize {
        match &self.paged {
            Some(p) => (self.bytes.len() / p.layout.page_size).min(p.layout.pages),
            None => 0,
        }
    }

    pub(crate) fn frame(&self, i: usize) -> &[u8] {
        let size = self.page_size();
        &self.bytes[i * size..(i + 1) * size]
    }

    fn frame_mut(&mut self, i: usize) -> &mut [u8] {
        let size = self.page_size();
        &mut self.bytes[i * size..(i + 1) * size]
    }

    pub(crate) fn drop_frame(&mut self, i: usize) {
        put_u16(self.frame_mut(i), HEADER, u16::MAX);
    }

    /// Entries of a page: the last has the rest.
    pub(crate) fn count(&self, number: usize) -> usize {
        let per_page = self.paged.as_ref().map_or(0, |p| p.layout.per_page);
        (self.blocks - number as u32 * per_page).min(per_page) as usize
    }

    /// Where a page of the table is in RAM.
    pub(crate) fn frame_of(&self, number: usize) -> Option<usize> {
        (0..self.frames()).find(|&i| usize::from(get_u16(self.frame(i), HEADER)) == number)
    }

    /// The copies of the pages that have been written.
    pub fn copies(&self) -> impl Iterator<Item = PageAddr> {
        let pages = self.paged.as_ref().map_or(0, |p| p.layout.pages);
        (0..2 * pages).filter_map(|n| self.copy(n))
    }

    /// A copy, of the two that each page has, if it has been written.
    fn copy(&self, n: usize) -> Option<PageAddr> {
        let places = self.paged.as_ref()?.places(n / 2);
        Some(places[n % 2]).filter(|at| at.is_some())
    }

    /// Blocks among which the cheapest to clean is, of those that have not been `looked_at` yet, a
    /// bit for each page, and what that costs at least; with none left `None`.
    pub fn next_to_look_at(&self, looked_at: &mut u128) -> Option<(Range<u32>, u8)> {
        let Some(p) = &self.paged else {
            return (replace(looked_at, 1) == 0).then_some((0..self.blocks, 0));
        };
        let number = (0..p.layout.pages)
            .filter(|number| *looked_at & 1 << number == 0)
            .min_by_key(|&number| p.costs[number])?;
        *looked_at |= 1 << number;
        let first = number as u32 * p.layout.per_page;
        let end = (first + p.layout.per_page).min(self.blocks);
        Some((first..end, p.costs[number]))
    }

    /// What cleaning the cheapest of some blocks costs, [`Table::next_to_look_at`] has given them.
    pub fn note_cost(&mut self, blocks: &Range<u32>, cost: u8) {
        if let Some(p) = &mut self.paged {
            p.costs[(blocks.start / p.layout.per_page) as usize] = cost;
        }
    }

    /// The state of a block, if RAM says it.
    #[inline]
    pub fn known(&self, block: u32) -> Option<BlockState> {
        if block >= self.blocks {
            return Some(BlockState::Bad);
        }
        let Some(p) = &self.paged else {
            return Some(self.entries.get(self.bytes, block as usize));
        };
        if let Ok(i) = p.find(block) {
            let size = p.layout.change;
            return Some(
                self.entries
                    .get(&p.changes[i * size + 2..(i + 1) * size], 0),
            );
        }
        let (number, entry) = p.page_of(block);
        if p.places(number)[0].is_none() {
            return Some(p.meant(BlockState::Clean, false));
        }
        let i = self.frame_of(number)?;
        Some(self.entries.get(&self.frame(i)[ENTRIES..], entry))
    }

    /// Notes the state of a block; `false` when there is no room for it.
    #[inline]
    pub fn note(&mut self, block: u32, state: BlockState) -> bool {
        let Some(p) = &mut self.paged else {
            self.entries.set(self.bytes, block as usize, state);
            return true;
        };
        let size = p.layout.change;
        let i = match p.find(block) {
            Ok(i) => i,
            Err(_) if (p.len + 1) * size > p.changes.len() => return false,
            Err(i) => {
                p.changes
                    .copy_within(i * size..p.len * size, (i + 1) * size);
                put_u16(p.changes, i * size, block as u16);
                p.len += 1;
                i
            }
        };
        let entry = &mut p.changes[i * size + 2..(i + 1) * size];
        self.entries.set(entry, 0, state);
        let cost = &mut p.costs[(block / p.layout.per_page) as usize];
        *cost = (*cost).min(share(state, p.layout.pages_per_block));
        true
    }

    /// Blocks that a recovery from the last checkpoint may take for pages of the table: it makes
    /// the changes that have been made since, in another order.
    #[inline]
    pub fn blocks_for_recovery(&self) -> u32 {
        self.paged.as_ref().map_or(0, |p| {
            // Blocks of pages that have been written anew are filled again.
            let most = 4 * (p.layout.pages_per_block + p.layout.pages as u32);
            p.blocks_for(AT_ONCE + most.min(2 * p.written))
        })
    }

    /// The same, right after a checkpoint.
    #[inline]
    pub fn least_for_recovery(&self) -> u32 {
        (self.paged.as_ref()).map_or(0, |p| p.blocks_for(AT_ONCE))
    }

    /// A block is as others from here on: it has failed, and is not to be erased for another use.
    pub fn disown(&mut self, block: u32) {
        let Some(p) = &mut self.paged else {
            return;
        };
        for own in &mut p.own {
            if u32::from(*own) == block {
                *own = u16::MAX;
            }
        }
    }

    /// Whether a block was taken for pages of the table since the last checkpoint.
    pub fn is_own(&self, block: u32) -> bool {
        (self.paged.as_ref()).is_some_and(|p| p.own.iter().any(|&b| u32::from(b) == block))
    }

    /// The block of pages of the table that is being filled.
    pub fn head(&self) -> Head {
        self.paged.as_ref().map_or(Head::NONE, |p| p.head)
    }

    pub fn set_head(&mut self, head: Head) {
        if let Some(p) = &mut self.paged {
            p.head = head;
        }
    }

    /// Whether changes are to be written.
    pub(crate) fn is_full(&self) -> bool {
        (self.paged.as_ref()).is_some_and(|p| p.is_full() && !p.writing)
    }

    /// What is in RAM of a page, which is `is_new` or not, says what it means.
    pub(crate) fn translate(&mut self, i: usize, is_new: bool) {
        let Some(p) = &self.paged else { return };
        let (entries, size) = (self.entries, p.layout.page_size);
        let page = &mut self.bytes[i * size..(i + 1) * size];
        let count = usize::from(get_u16(page, HEADER + 2));
        for k in 0..count {
            let state = entries.get(&page[ENTRIES..], k);
            let meant = p.meant(state, is_new);
            if meant != state {
                entries.set(&mut page[ENTRIES..], k, meant);
            }
        }
    }

    /// Dead blocks are free: a checkpoint does not need them.
    pub fn free_dead(&mut self) {
        self.replace(BlockState::Dead);
        let Some(p) = &mut self.paged else { return };
        p.written = 0;
        for number in 0..p.layout.pages {
            let places = p.places(number);
            if places[0].is_some() {
                put_u32(p.places, PLACE * number, places[0].0);
            }
        }
    }

    /// Blocks called erased may not be so: they are free.
    pub fn forget_clean(&mut self) {
        if let Some(p) = &mut self.paged {
            p.erased_untrusted = true;
        }
        self.replace(BlockState::Clean);
    }

    /// Makes blocks of a state free, in all that is in RAM.
    fn replace(&mut self, state: BlockState) {
        let entries = self.entries;
        let free = |bytes: &mut [u8], count: usize| {
            for i in 0..count {
                if entries.get(bytes, i) == state {
                    entries.set(bytes, i, BlockState::Free);
                }
            }
        };
        let frames = self.frames();
        let Some(p) = &mut self.paged else {
            return free(self.bytes, self.blocks as usize);
        };
        let layout = p.layout;
        for i in 0..p.len {
            free(&mut p.changes[i * layout.change + 2..][..entries.size()], 1);
        }
        for page in self.bytes.chunks_mut(layout.page_size).take(frames) {
            if get_u16(page, HEADER) != u16::MAX {
                free(&mut page[ENTRIES..], layout.per_page as usize);
            }
        }
    }

    /// Puts a page that is not yet on flash together, of erased blocks.
    pub(crate) fn fill(&mut self, i: usize, number: usize) {
        let Some(p) = &self.paged else { return };
        let (entries, state) = (self.entries, p.meant(BlockState::Clean, false));
        let count = self.count(number);
        let page = self.frame_mut(i);
        put_u16(page, HEADER, number as u16);
        put_u16(page, HEADER + 2, count as u16);
        for k in 0..count {
            entries.set(&mut page[ENTRIES..], k, state);
        }
    }

    /// Brings the changes of a page into it.
    pub(crate) fn apply(&mut self, i: usize, number: usize) {
        let Some(p) = &self.paged else { return };
        let (layout, entries) = (p.layout, self.entries);
        let page = &mut self.bytes[i * layout.page_size..(i + 1) * layout.page_size];
        for k in 0..p.len {
            let (of, entry) = p.page_of(p.block(k));
            if of == number {
                let state = entries.get(&p.changes[k * layout.change + 2..], 0);
                entries.set(&mut page[ENTRIES..], entry, state);
            }
        }
    }

    /// Forgets changes that a page shows.
    pub(crate) fn forget_shown(&mut self, i: usize, number: usize) {
        let entries = self.entries;
        let Some(p) = &mut self.paged else { return };
        let page = &self.bytes[i * p.layout.page_size..(i + 1) * p.layout.page_size];
        for k in (0..p.len).rev() {
            let (of, entry) = p.page_of(p.block(k));
            let state = entries.get(&p.changes[k * p.layout.change + 2..], 0);
            if of == number && entries.get(&page[ENTRIES..], entry) == state {
                p.remove(k);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::blockstate::Entries;

    fn layout(page: u32, ppb: u32, blocks: u32) -> Option<Layout> {
        Layout::of(&Geometry::new(page, 64, ppb, blocks).unwrap(), 0)
    }

    #[test]
    fn tables_longer_than_a_page_lie_on_flash() {
        assert_eq!(layout(2048, 64, 2_048), None);
        let pages = |layout: Option<Layout>| layout.map(|l| (l.per_page, l.pages));
        assert_eq!(pages(layout(2048, 64, 2_049)), Some((2_012, 2)));
        assert_eq!(pages(layout(2048, 64, 65_536)), Some((2_012, 33)));
        assert_eq!(pages(layout(2048, 128, 65_536)), Some((1_006, 66)));
        assert_eq!(pages(layout(4096, 128, 65_536)), Some((2_030, 33)));
        // What a checkpoint page cannot hold stays in RAM.
        assert_eq!(pages(layout(1024, 64, 12_000)), Some((988, 13)));
        assert_eq!(layout(1024, 64, 65_536), None);
        let geo = Geometry::new(2048, 64, 64, 96).unwrap();
        assert_eq!(pages(Layout::of(&geo, 24)), Some((24, 4)));
        assert_eq!(Layout::of(&geo, 2_013), None);
        assert_eq!(Layout::of(&geo, u32::MAX), None);
    }

    fn on_flash(bytes: &mut [u8]) -> Table<'_> {
        let geo = Geometry::new(1024, 64, 64, 96).unwrap();
        let mut table = Table {
            bytes,
            entries: Entries::of(64),
            blocks: 96,
            paged: None,
        };
        let layout = Layout::of(&geo, 24).unwrap();
        assert!(table.has_room(Some(layout), &geo).is_ok());
        assert!(table.begin_paging(layout));
        table
    }

    #[test]
    fn changes_count_before_the_pages() {
        let mut bytes = [0; 4_096];
        let mut table = on_flash(&mut bytes);
        assert_eq!(table.known(95), Some(BlockState::Clean));
        for block in [50, 3, 95, 49, 3] {
            assert!(table.note(block, BlockState::Data(block % 7)));
        }
        for block in [3, 49, 50, 95] {
            assert_eq!(table.known(block), Some(BlockState::Data(block % 7)));
        }
        assert!(table.note(4, BlockState::Dead));
        table.forget_clean();
        table.free_dead();
        assert_eq!(table.known(94), Some(BlockState::Free));
        assert_eq!(table.known(4), Some(BlockState::Free));
        let p = table.paged.as_ref().unwrap();
        assert_eq!((p.len, p.fullest()), (5, Some(0)));
        assert_eq!([3, 4, 49, 50, 95], [0, 1, 2, 3, 4].map(|i| p.block(i)));
    }

    #[test]
    fn a_list_without_room_says_so() {
        let mut bytes = [0; 4_096];
        let mut table = on_flash(&mut bytes);
        let room = table.paged.as_ref().map(|p| p.changes.len() / 3).unwrap();
        let noted = (0..96)
            .filter(|&block| table.note(block, BlockState::Bad))
            .count();
        assert_eq!(noted, room.min(96));
        assert!(table.is_full());
        // What is there can still change.
        assert!(table.note(0, BlockState::Free));
        assert_eq!(table.known(0), Some(BlockState::Free));
    }

    #[test]
    fn a_page_shows_the_changes_that_it_was_given() {
        let mut bytes = [0; 4_096];
        let mut table = on_flash(&mut bytes);
        for (block, state) in [
            (24, BlockState::Meta(9)),
            (47, BlockState::Dead),
            (48, BlockState::Bad),
        ] {
            table.note(block, state);
        }
        table.fill(0, 1);
        table.apply(0, 1);
        table.note(24, BlockState::Meta(8));
        table.forget_shown(0, 1);
        let p = table.paged.as_mut().unwrap();
        assert_eq!((p.len, p.block(0), p.block(1)), (2, 24, 48));
        // From flash, before and after a checkpoint.
        p.set_places(1, [PageAddr(7), PageAddr(8)]);
        assert_eq!(p.page_at(PageAddr(8)), Some(1));
        assert!(p.is_new(1));
        assert_eq!(table.known(47), Some(BlockState::Dead));
        table.free_dead();
        assert_eq!(table.known(47), Some(BlockState::Free));
        let p = table.paged.as_ref().unwrap();
        assert!(!p.is_new(1));
        assert_eq!(p.meant(BlockState::Dead, false), BlockState::Free);
        assert_eq!(p.places(1), [PageAddr(7), PageAddr(8)]);
        assert!(table.copies().eq([PageAddr(7), PageAddr(8)]));
    }

    #[test]
    fn the_page_that_promises_most_comes_first() {
        let mut bytes = [0; 4_096];
        let mut table = on_flash(&mut bytes);
        let mut looked_at = 0;
        // Nothing is known yet.
        for _ in 0..4 {
            let (blocks, least) = table.next_to_look_at(&mut looked_at).unwrap();
            assert_eq!(least, 0);
            table.note_cost(&blocks, 200 - blocks.start as u8);
        }
        assert_eq!(table.next_to_look_at(&mut looked_at), None);
        table.note(30, BlockState::Data(10));
        let mut looked_at = 0;
        let mut next = || {
            table
                .next_to_look_at(&mut looked_at)
                .map(|n| (n.0.start, n.1))
        };
        assert_eq!(next(), Some((24, share(BlockState::Data(10), 64))));
        assert_eq!([next(), next()], [Some((72, 128)), Some((48, 152))]);
    }
}

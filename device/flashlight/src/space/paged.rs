//! The block table of a chip with more blocks than a page has room for: it lies on flash, and a page of
//! it, or some, in RAM. So RAM and the reads of a mount do not grow with the chip.
//!
//! ```text
//! a page of the table: 32 number u16   34 entries u16   36 entries
//! ```
//!
//! A change is noted in a list in RAM, sorted by block. When that grows long, the page with the most
//! changes is read, changed and written, twice: the list is the buffer of a tree of two levels. A checkpoint holds the list and the places of the pages, and writes none.
//!
//! Invariants:
//! * The state of a block is what the list says, else what the page says, else (a page that was never
//!   written) erased.
//! * *Dead* in a page that was written before the last checkpoint means free: a bit of its place says
//!   that it was written since. So a checkpoint makes blocks free without writing their pages. Once a
//!   recovery has begun, *erased* means free everywhere.
//! * Pages of the table are metadata as others are: counted as valid, not erased before the checkpoint
//!   after the one that does not name them any more, moved by cleaning. What was written of them since the
//!   checkpoint counts for nothing when power goes.
//! * They fill blocks of their own. One that was taken since the last checkpoint, and all pages of which have been
//!   written anew, is erased and filled again: no checkpoint names it. When there are several of them, what is left in one is
//!   written anew for that. So the blocks that pages take between two checkpoints are few, however many are written: with
//!   pages for half of a block's at most, four.
//! * Pages are written between other pages, by [`Store::settle_table`], never while an area's head or
//!   a reservation is being changed, and not before a session, or a recovery, may write.
//! * A page that cannot be read is read from the other copy, and both are written anew. With both lost,
//!   nothing is written any more in this session.

use crate::checkpoint::take::block_number;
use crate::cleaning::gc::cost;
use crate::error::Error;
use crate::format::bytes::{get_u16, get_u32, put_u16, put_u32};
use crate::format::header::{HEADER, Kind};
use crate::format::wellformed::blocks;
use crate::space::erased::OF_TABLE;
use crate::space::store::{Area, Head, RESERVES, Store};
use crate::space::table::{self, Entries, State, Table};
use core::mem::replace;
use core::ops::Range;
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};

/// Where a page's entries begin.
pub(crate) const ENTRIES: usize = HEADER + 4;
/// Bytes of the places of a page's copies.
const PLACE: usize = 8;
/// Bit of a page's first place: it was written after the checkpoint before the one that says so.
const SINCE: u32 = 1 << 31;
/// Fields of a checkpoint page besides places and changes.
const FIELDS: usize = 20;
/// Blocks taken for pages since the last checkpoint that are remembered.
const OWN: usize = 8;
/// Changes that there is room for above those that let a page be written: of one step, and of the begin of
/// a session.
const SLACK: usize = 96;
/// Pages of a table at most.
const PAGES_MOST: usize = 128;
/// Copies of pages that a recovery may write besides those that have been written since the checkpoint.
const AT_ONCE: u32 = 32;
/// Pages written in one step at most.
const STEP: usize = 4;
/// Entries of the dirty list that a chip with such a table has.
pub(crate) const DIRTY_ENTRIES: usize = 65;

/// How a table is divided into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Entries of a page.
    pub per_page: u32,
    pub pages: usize,
    /// Bytes of a change: block u16, and an entry.
    change: usize,
    page_size: usize,
    pages_per_block: u32,
}

impl Layout {
    /// `None` when a page cannot hold so many, or a checkpoint page not the places.
    pub const fn new(geo: &Geometry, per_page: u32) -> Option<Self> {
        let entry = table::entry_size(geo.pages_per_block());
        let page_size = geo.page_size() as usize;
        if per_page == 0 || ENTRIES + per_page as usize * entry > page_size {
            return None;
        }
        let layout = Layout {
            per_page,
            pages: blocks(geo).div_ceil(per_page) as usize,
            change: 2 + entry,
            page_size,
            pages_per_block: geo.pages_per_block(),
        };
        let fixed = crate::checkpoint::take::FIELDS + 4 * RESERVES + 4 + FIELDS;
        // Writing a page makes up to three changes.
        if layout.full() < 3 * layout.pages
            || layout.pages > PAGES_MOST
            || fixed + PLACE * layout.pages + layout.change * layout.changes_most() > page_size
        {
            return None;
        }
        Some(layout)
    }

    /// That of a new volume; `None`: all of the table is in RAM. `per_page` as [`crate::Config::table_page`] says: 0
    /// stands for as many entries as a page holds, of a table that is longer than a page.
    pub const fn of(geo: &Geometry, per_page: u32) -> Option<Self> {
        let entry = table::entry_size(geo.pages_per_block());
        let page_size = geo.page_size() as usize;
        if per_page == u32::MAX {
            return None;
        }
        if per_page > 0 {
            return Layout::new(geo, per_page);
        }
        if table::size(geo) <= page_size {
            return None;
        }
        Layout::new(geo, ((page_size - ENTRIES) / entry) as u32)
    }

    /// Changes above which a page is written: several for each page.
    const fn full(&self) -> usize {
        let many = 72 + 2 * self.pages;
        if many < self.per_page as usize {
            many
        } else {
            self.per_page as usize
        }
    }

    const fn changes_most(&self) -> usize {
        self.full() + SLACK
    }

    /// Bytes of RAM at least.
    pub const fn room(&self) -> usize {
        self.page_size + (PLACE + 1) * self.pages + self.change * self.changes_most()
    }

    /// Bytes of RAM for a table that is in RAM with all its pages.
    pub const fn room_for_all(&self) -> usize {
        self.room() + (self.pages - 1) * self.page_size
    }
}

/// What cleaning a block costs, in parts of a block; 255: nothing can be won.
pub(crate) fn share(state: State, pages_per_block: u32) -> u8 {
    cost(state, pages_per_block).map_or(255, |cost| (cost * 50 / pages_per_block) as u8)
}

/// What a table on flash has in RAM beside its pages.
pub(crate) struct Paged<'r> {
    pub layout: Layout,
    places: &'r mut [u8],
    changes: &'r mut [u8],
    len: usize,
    /// Blocks that the table calls erased may not be so.
    pub void: bool,
    /// Where the next page is read to.
    hand: usize,
    /// A page is being written.
    writing: bool,
    /// Whether what the checkpoint names has been compared with the table.
    pub compared: bool,
    /// Copies of pages written since the last checkpoint.
    written: u32,
    /// The block that is being filled.
    pub head: Head,
    /// Blocks taken since the last checkpoint; all ones: none.
    own: [u16; OWN],
    /// For each page what cleaning the cheapest of its blocks costs at least, in parts of a block.
    costs: &'r mut [u8],
}

impl Paged<'_> {
    /// Whether there are so many changes that a page is to be written.
    fn is_full(&self) -> bool {
        self.len + SLACK >= self.changes.len() / self.layout.change
    }

    fn block(&self, i: usize) -> u32 {
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
    fn fullest(&self) -> Option<usize> {
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

    fn set_places(&mut self, number: usize, places: [PageAddr; 2]) {
        put_u32(self.places, PLACE * number, places[0].0 | SINCE);
        put_u32(self.places, PLACE * number + 4, places[1].0);
    }

    /// Whether a page was written after the last checkpoint.
    fn is_new(&self, number: usize) -> bool {
        get_u32(self.places, PLACE * number) & SINCE != 0
    }

    /// What a state that is read in a page means.
    fn meant(&self, state: State, is_new: bool) -> State {
        match state {
            State::Dead if !is_new => State::Free,
            State::Clean if self.void => State::Free,
            state => state,
        }
    }

    /// The page that holds a block's entry, and which of its entries that is.
    fn page_of(&self, block: u32) -> (usize, usize) {
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
            None => table::size(geo),
        };
        match need.checked_sub(self.bytes.len()) {
            Some(more @ 1..) if self.paged.is_none() => Err(more),
            _ => Ok(()),
        }
    }

    /// The table lies on flash from here on, and is empty: all blocks are erased. `false` when there is
    /// too little RAM, or it lies there in another way.
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
                void: false,
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
        (p.len, p.void, p.compared) = (0, false, false);
        (p.head, p.own) = (Head::NONE, [u16::MAX; OWN]);
        for i in 0..frames {
            self.drop_frame(i);
        }
        true
    }

    fn page_size(&self) -> usize {
        self.paged.as_ref().map_or(1, |p| p.layout.page_size)
    }

    /// Pages in RAM at most.
    fn frames(&self) -> usize {
        match &self.paged {
            Some(p) => (self.bytes.len() / p.layout.page_size).min(p.layout.pages),
            None => 0,
        }
    }

    fn frame(&self, i: usize) -> &[u8] {
        let size = self.page_size();
        &self.bytes[i * size..(i + 1) * size]
    }

    fn frame_mut(&mut self, i: usize) -> &mut [u8] {
        let size = self.page_size();
        &mut self.bytes[i * size..(i + 1) * size]
    }

    fn drop_frame(&mut self, i: usize) {
        put_u16(self.frame_mut(i), HEADER, u16::MAX);
    }

    /// Entries of a page: the last has the rest.
    fn count(&self, number: usize) -> usize {
        let per_page = self.paged.as_ref().map_or(0, |p| p.layout.per_page);
        (self.blocks - number as u32 * per_page).min(per_page) as usize
    }

    /// Where a page of the table is in RAM.
    fn frame_of(&self, number: usize) -> Option<usize> {
        (0..self.frames()).find(|&i| usize::from(get_u16(self.frame(i), HEADER)) == number)
    }

    /// The copies of the pages that have been written.
    pub fn copies(&self) -> impl Iterator<Item = PageAddr> {
        (self.paged.iter())
            .flat_map(|p| (0..p.layout.pages).flat_map(|number| p.places(number)))
            .filter(|at| at.is_some())
    }

    /// Blocks among which the cheapest to clean is, of those that have not been `looked_at` yet, a bit for each
    /// page, and what that costs at least; with none left `None`.
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
    pub fn known(&self, block: u32) -> Option<State> {
        if block >= self.blocks {
            return Some(State::Bad);
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
            return Some(p.meant(State::Clean, false));
        }
        let i = self.frame_of(number)?;
        Some(self.entries.get(&self.frame(i)[ENTRIES..], entry))
    }

    /// Notes the state of a block; `false` when there is no room for it.
    #[inline]
    pub fn note(&mut self, block: u32, state: State) -> bool {
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

    /// Blocks that a recovery from the last checkpoint may take for pages of the table: it makes the changes that
    /// have been made since, in another order.
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
        for own in self.paged.iter_mut().flat_map(|p| &mut p.own) {
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
    fn is_full(&self) -> bool {
        (self.paged.as_ref()).is_some_and(|p| p.is_full() && !p.writing)
    }

    /// What is in RAM of a page, which is `is_new` or not, says what it means.
    fn translate(&mut self, i: usize, is_new: bool) {
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
        self.replace(State::Dead);
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
            p.void = true;
        }
        self.replace(State::Clean);
    }

    /// Makes blocks of a state free, in all that is in RAM.
    fn replace(&mut self, state: State) {
        let entries = self.entries;
        let free = |bytes: &mut [u8], count: usize| {
            for i in 0..count {
                if entries.get(bytes, i) == state {
                    entries.set(bytes, i, State::Free);
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
    fn fill(&mut self, i: usize, number: usize) {
        let Some(p) = &self.paged else { return };
        let (entries, state) = (self.entries, p.meant(State::Clean, false));
        let count = self.count(number);
        let page = self.frame_mut(i);
        put_u16(page, HEADER, number as u16);
        put_u16(page, HEADER + 2, count as u16);
        for k in 0..count {
            entries.set(&mut page[ENTRIES..], k, state);
        }
    }

    /// Brings the changes of a page into it.
    fn apply(&mut self, i: usize, number: usize) {
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
    fn forget_shown(&mut self, i: usize, number: usize) {
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

impl<N: Nand> Store<'_, N> {
    /// What a block is used for. At most a read, two when one copy of the page of the table cannot be read;
    /// none when the page, or the whole table, is in RAM. When neither copy can be read, nothing more is written.
    pub fn state(&mut self, block: u32) -> State {
        if let Some(state) = self.table.known(block) {
            return state;
        }
        let Some(p) = (self.table.paged.as_ref()).filter(|_| block < self.table.blocks) else {
            return State::Bad;
        };
        if p.writing && self.table.bytes.is_empty() {
            return self.state_on_flash(block);
        }
        let number = p.page_of(block).0;
        let loaded = self.load_table_page(number);
        if !matches!(loaded, Ok(Some(_))) {
            self.nand.failed = true;
            loaded.map_err(|e| self.nand.tell_later(e)).ok();
            return State::Bad;
        }
        self.table.known(block).unwrap_or(State::Bad)
    }

    /// Notes what a block is used for. No flash operation.
    pub fn set_state(&mut self, block: u32, state: State) {
        if !self.table.note(block, state) {
            // Never seen: there is room for more changes than one step makes.
            self.nand.failed = true;
        }
    }

    /// Reads a page of the table to RAM, if it is not there; where it is.
    fn load_table_page(&mut self, number: usize) -> Result<Option<usize>, Error<N::Error>> {
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
                Ok(true) => {
                    self.table.translate(i, is_new);
                    return Ok(Some(i));
                }
                Ok(false) => self.nand.refresh.add(self.geo.block_of(at).0),
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
    fn read_table_page(
        &mut self,
        i: usize,
        number: usize,
        at: PageAddr,
    ) -> Result<bool, Error<N::Error>> {
        let size = self.table.page_size();
        let frames = core::mem::take(&mut self.table.bytes);
        let header = self.read_meta(at, &mut frames[i * size..(i + 1) * size]);
        self.table.bytes = frames;
        let page = self.table.frame(i);
        Ok(header?.is_some_and(|header| header.kind == Kind::Table)
            && usize::from(get_u16(page, HEADER)) == number
            && usize::from(get_u16(page, HEADER + 2)) == self.table.count(number))
    }

    /// A block's state, read alone: the RAM for pages is in use. A read.
    fn state_on_flash(&mut self, block: u32) -> State {
        let Some(p) = &self.table.paged else {
            return State::Bad;
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
                (Err(e), _) => self.nand.tell_later(e),
                _ => {}
            }
        }
        self.nand.failed = true;
        State::Bad
    }

    /// Writes pages of the table when there are many changes, at most four: for each a read, two programs, and at
    /// times what taking a block costs. To be called where anything may be written.
    pub fn settle_table(&mut self) {
        for _ in 0..STEP {
            if !self.session || self.nand.failed || !self.table.is_full() {
                break;
            }
            let Some(number) = self.table.paged.as_ref().and_then(Paged::fullest) else {
                break;
            };
            // What went wrong shows again: the changes are still there. But not the error of a driver that has failed.
            if let Err(e) = self.write_table_page(number) {
                if self.nand.failed {
                    self.nand.tell_later(e);
                }
                break;
            }
        }
    }

    /// Writes pages of the table until what a checkpoint holds leaves room for the changes of the session after
    /// it.
    pub fn settle_for_checkpoint(&mut self) -> Result<(), Error<N::Error>> {
        for _ in 0..2 * blocks(&self.geo) {
            let Some(p) = &self.table.paged else { break };
            let most = p.layout.full() * 3 / 4;
            let (fits, fullest) = (!p.is_full(), p.fullest());
            let Some(number) = fullest.filter(|_| p.len >= most) else {
                break;
            };
            match self.write_table_page(number) {
                // The checkpoint is what makes blocks free.
                Err(Error::NoSpace) if fits => break,
                done => done?,
            }
        }
        Ok(())
    }

    /// Forgets changes that come to what pages of the table say anyway, as recoveries make them that are cut one after
    /// another; when there are many. A read for each page.
    pub fn forget_vain_changes(&mut self) -> Result<(), Error<N::Error>> {
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
    pub fn write_table_page(&mut self, number: usize) -> Result<(), Error<N::Error>> {
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

    /// Writes anew what is left in one of the blocks taken since the last checkpoint, so that it can be filled again, when there
    /// are so many that in one of them less than half is. A page that is written often leaves copies of others behind, and each
    /// block would keep one that is not written any more.
    fn empty_own(&mut self) -> Result<(), Error<N::Error>> {
        let Some(p) = &self.table.paged else {
            return Ok(());
        };
        let most = 1 + (4 * p.layout.pages).div_ceil(p.layout.pages_per_block as usize);
        let is_closed = |b: &u32| *b != u32::from(u16::MAX) && *b != p.head.block;
        let closed = p.own.into_iter().map(u32::from).filter(is_closed);
        if closed.clone().count() < most.min(OWN - 1) {
            return Ok(());
        }
        let pages = p.layout.pages;
        let geo = self.geo;
        let is_in = |store: &Self, n: usize, block: u32| {
            let paged = store.table.paged.as_ref();
            paged.is_some_and(|p| {
                p.places(n)
                    .iter()
                    .any(|at| at.is_some() && geo.block_of(*at).0 == block)
            })
        };
        let left = |block| (0..pages).filter(|&n| is_in(self, n, block)).count();
        let Some((left, block)) = closed.map(|block| (left(block), block)).min() else {
            return Ok(());
        };
        let room = self.ppb() - self.table.head().next.min(self.ppb());
        if left == 0 || 4 * left > self.ppb() as usize || 2 * left > room as usize {
            return Ok(());
        }
        for n in 0..pages {
            if is_in(self, n, block) {
                self.rewrite_table_page(n)?;
            }
        }
        Ok(())
    }

    /// Makes sure that there is a block for both copies of a page.
    fn make_table_head(&mut self) -> Result<(), Error<N::Error>> {
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
                let block = self.take_block(Area::Map)?;
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
    fn take_own(&mut self) -> Result<Option<u32>, Error<N::Error>> {
        let own = self.table.paged.as_ref().map_or([u16::MAX; OWN], |p| p.own);
        for block in own.into_iter().filter(|b| *b != u16::MAX).map(u32::from) {
            if self.state(block) != State::Meta(0) {
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
            if self.prepare(block, true)? {
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
    fn append_table_page(&mut self, page: &mut [u8]) -> Result<PageAddr, Error<N::Error>> {
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
            if self.program_at(at, page, Kind::Table, PageAddr::NONE)? {
                self.written.areas[Area::Map as usize] += 1;
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

    fn rewrite_table_page(&mut self, number: usize) -> Result<(), Error<N::Error>> {
        // That asks for states: the RAM for pages is needed for this one after that.
        self.make_table_head()?;
        let Some(i) = self.load_table_page(number)? else {
            self.nand.failed = true;
            return Err(Error::Corrupt(PageAddr::NONE, "block table"));
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
            self.invalidate(new[0]);
            return written;
        }
        let old = (self.table.paged.as_ref()).map_or([PageAddr::NONE; 2], |p| p.places(number));
        if let Some(p) = &mut self.table.paged {
            p.set_places(number, new);
            p.written += 2;
        }
        self.table.forget_shown(i, number);
        for at in old {
            self.invalidate(at);
        }
        Ok(())
    }

    /// Puts what a checkpoint page says of the table behind its other fields; where that ends. Blocks of the
    /// checkpoint that are `over`, which only this one still calls its own, are dead for whoever starts from it.
    ///
    /// ```text
    /// places of the pages' copies: u32 each, bit 31 of the first: written after the checkpoint before this
    /// good u32, free u32, dead u32   changes u16   erased means free u16   block being filled u16, next page u16
    /// changes: block u16, entry
    /// ```
    pub fn encode_table(&mut self, page: &mut [u8], at: usize, over: &[u32]) -> usize {
        if self.table.paged.is_none() {
            return at;
        }
        for &block in over {
            if self.state(block) == State::System {
                self.set_state(block, State::System);
            }
        }
        let Some(p) = &self.table.paged else {
            return at;
        };
        let (places, size) = (PLACE * p.layout.pages, p.layout.change);
        if at + places + FIELDS + p.len * size > page.len() {
            // Never seen: pages of the table are written first. The program is refused.
            self.nand.failed = true;
            return at;
        }
        page[at..at + places].copy_from_slice(&p.places[..places]);
        let at = at + places;
        put_u32(page, at, self.good);
        put_u32(page, at + 4, self.free);
        put_u16(page, at + 12, p.len as u16);
        put_u16(page, at + 14, u16::from(p.void));
        put_u16(page, at + 16, p.head.block as u16);
        put_u16(page, at + 18, p.head.next as u16);
        let (mut dead, first) = (self.dead, at + FIELDS);
        let changes = &mut page[first..first + p.len * size];
        changes.copy_from_slice(&p.changes[..p.len * size]);
        for change in changes.chunks_exact_mut(size) {
            let is_ours = self.table.entries.get(&change[2..], 0) == State::System;
            if is_ours && over.contains(&u32::from(get_u16(change, 0))) {
                self.table.entries.set(&mut change[2..], 0, State::Dead);
                dead += 1;
            }
        }
        put_u32(page, at + 8, dead);
        first + p.len * size
    }

    /// Takes what a checkpoint page says of the table, of which it has begun to use the pages; where that
    /// ends. `None`: it means nothing.
    pub fn decode_table(&mut self, page: &[u8], at: usize) -> Option<usize> {
        let layout = self.table.paged.as_ref()?.layout;
        let p = self.table.paged.as_mut()?;
        let places = PLACE * layout.pages;
        p.places[..places].copy_from_slice(page.get(at..at + places)?);
        let at = at + places;
        let fields = page.get(at..at + FIELDS)?;
        (self.good, self.free, self.dead) =
            (get_u32(fields, 0), get_u32(fields, 4), get_u32(fields, 8));
        let sane = |n: u32| n <= self.table.blocks;
        let len = usize::from(get_u16(fields, 12));
        if len > layout.changes_most() {
            return None;
        }
        p.void = get_u16(fields, 14) != 0;
        p.head = Head {
            block: block_number(get_u16(fields, 16)),
            next: u32::from(get_u16(fields, 18)),
        };
        let at = at + FIELDS;
        let changes = page.get(at..at + len * layout.change)?;
        p.changes.get_mut(..changes.len())?.copy_from_slice(changes);
        p.len = len;
        let in_order = (1..len).all(|i| p.block(i - 1) < p.block(i));
        let last = len.checked_sub(1).map_or(0, |i| p.block(i));
        let most = self.geo.pages_per_block();
        let entries: Entries = self.table.entries;
        let counts = changes.chunks_exact(layout.change).all(|change| {
            !matches!(entries.get(&change[2..], 0), State::Meta(n) | State::Data(n) if n > most)
        });
        let pages = self.table.blocks * most;
        let has = |at: PageAddr| at.0 < pages;
        let places = (0..layout.pages).all(|number| match p.places(number) {
            [PageAddr::NONE, PageAddr::NONE] => true,
            [first, second] => has(first) && has(second),
        });
        let sane = sane(self.good) && sane(self.free) && sane(self.dead) && self.live <= pages;
        (in_order && last < self.table.blocks && counts && places && sane)
            .then_some(at + changes.len())
    }
}

/// What a checkpoint page says of the table, for [`crate::api::inspect`].
pub(crate) struct TableFields<'a> {
    places: &'a [u8],
    changes: &'a [u8],
    change: usize,
    entries: Entries,
    /// Where it ends.
    pub end: usize,
}

impl<'a> TableFields<'a> {
    pub fn on(geo: &Geometry, page: &'a [u8], at: usize, per_page: u32) -> Option<Self> {
        let layout = Layout::new(geo, per_page)?;
        let fields = at + PLACE * layout.pages;
        let places = page.get(at..fields)?;
        let count = get_u16(page.get(fields..fields + FIELDS)?, 12);
        let end = fields + FIELDS + usize::from(count) * layout.change;
        Some(TableFields {
            places,
            changes: page.get(fields + FIELDS..end)?,
            change: layout.change,
            entries: Entries::of(geo.pages_per_block()),
            end,
        })
    }

    pub fn pages(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        let words = self.places.chunks_exact(4).enumerate();
        words.filter_map(|(i, word)| {
            let place = get_u32(word, 0);
            let place = if i % 2 == 0 { place & !SINCE } else { place };
            let written = get_u32(word, 0) != u32::MAX;
            written.then_some(((i / 2) as u32, PageAddr(place)))
        })
    }

    pub fn changes(&self) -> impl Iterator<Item = (u32, State)> + '_ {
        self.changes.chunks_exact(self.change).map(|change| {
            (
                u32::from(get_u16(change, 0)),
                self.entries.get(&change[2..], 0),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(table.known(95), Some(State::Clean));
        for block in [50, 3, 95, 49, 3] {
            assert!(table.note(block, State::Data(block % 7)));
        }
        for block in [3, 49, 50, 95] {
            assert_eq!(table.known(block), Some(State::Data(block % 7)));
        }
        assert!(table.note(4, State::Dead));
        table.forget_clean();
        table.free_dead();
        assert_eq!(table.known(94), Some(State::Free));
        assert_eq!(table.known(4), Some(State::Free));
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
            .filter(|&block| table.note(block, State::Bad))
            .count();
        assert_eq!(noted, room.min(96));
        assert!(table.is_full());
        // What is there can still change.
        assert!(table.note(0, State::Free));
        assert_eq!(table.known(0), Some(State::Free));
    }

    #[test]
    fn a_page_shows_the_changes_that_it_was_given() {
        let mut bytes = [0; 4_096];
        let mut table = on_flash(&mut bytes);
        for (block, state) in [(24, State::Meta(9)), (47, State::Dead), (48, State::Bad)] {
            table.note(block, state);
        }
        table.fill(0, 1);
        table.apply(0, 1);
        table.note(24, State::Meta(8));
        table.forget_shown(0, 1);
        let p = table.paged.as_mut().unwrap();
        assert_eq!((p.len, p.block(0), p.block(1)), (2, 24, 48));
        // From flash, before and after a checkpoint.
        p.set_places(1, [PageAddr(7), PageAddr(8)]);
        assert_eq!(p.page_at(PageAddr(8)), Some(1));
        assert!(p.is_new(1));
        assert_eq!(table.known(47), Some(State::Dead));
        table.free_dead();
        assert_eq!(table.known(47), Some(State::Free));
        let p = table.paged.as_ref().unwrap();
        assert!(!p.is_new(1));
        assert_eq!(p.meant(State::Dead, false), State::Free);
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
        table.note(30, State::Data(10));
        let mut looked_at = 0;
        let mut next = || {
            table
                .next_to_look_at(&mut looked_at)
                .map(|n| (n.0.start, n.1))
        };
        assert_eq!(next(), Some((24, share(State::Data(10), 64))));
        assert_eq!([next(), next()], [Some((72, 128)), Some((48, 152))]);
    }
}

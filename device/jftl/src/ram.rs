//! The caller's RAM.
//!
//! ```text
//! | block table | places of map pages | log list: 8 each | pending log page | scratch page |
//! | marks: a bit a map page | tags of open blocks, where there are no spare bytes |
//! | slots: 12 + 512 each |
//! ```

use flashkit_bytes::{get_u32, put_u32};

use crate::layout::{HEADER, HEADS, Layout, NONE, PER_SEGMENT, SEGMENT, TAG};
use crate::record::RECORD;

/// Bytes of a slot's record: its segment, the log page of its first change or 0, its last use.
const META: usize = 12;
/// Fewest slots: one for each of two owners of a page, and one to work with.
pub(crate) const SLOTS_MIN: usize = 4;

/// Stands for the number of the first page of a block of the log whose page may have to do for the
/// last one, until that is written again.
const STALE: u32 = NONE - 1;
/// The same of a block that no page was in when the newest anchor was written.
const AHEAD: u32 = NONE - 2;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// So many numbers are mapped to pages of it; 0: it can be taken.
    Used(u32),
    /// Named by a record that recovery has not applied yet.
    Held,
    /// Nothing is mapped to it, which is not durable yet.
    Dying,
    /// Holds anchors.
    Anchor,
    /// The log's.
    Log,
    /// Bad.
    Bad,
}

/// Views of the caller's slice.
pub(crate) struct Ram<'a> {
    table: &'a mut [u8],
    width: usize,
    places: &'a mut [u8],
    place_width: usize,
    log: &'a mut [u8],
    /// A log page under construction.
    pub pending: &'a mut [u8],
    /// A page; holds nothing between two operations.
    pub scratch: &'a mut [u8],
    /// Map pages that a recovery has seen written later.
    marks: &'a mut [u8],
    tags: &'a mut [u8],
    tags_len: usize,
    meta: &'a mut [u8],
    slots: &'a mut [u8],
    /// Each segment has its own slot.
    pub direct: bool,
    clock: u32,
}

/// Bytes of each part, and of a slot.
fn parts(lay: &Layout, log_page: usize) -> [usize; 7] {
    let tags = if lay.in_band {
        (HEADS as usize + 1) * lay.pages as usize * TAG
    } else {
        0
    };
    [
        lay.blocks as usize * lay.table_width(),
        lay.map_pages as usize * place_width(lay),
        lay.log_list() as usize * 8,
        log_page,
        lay.page,
        (lay.map_pages as usize).div_ceil(8),
        tags,
    ]
}

fn place_width(lay: &Layout) -> usize {
    if lay.blocks * lay.pages < 0xFF_FFFF {
        3
    } else {
        4
    }
}

/// Bytes of RAM with so many slots.
pub(crate) fn bytes_needed(lay: &Layout, log_page: usize, slots: usize) -> usize {
    parts(lay, log_page).iter().sum::<usize>() + slots * (META + SEGMENT)
}

impl<'a> Ram<'a> {
    /// Divides a slice; what is left beside the fixed parts becomes slots.
    pub fn new(lay: &Layout, log_page: usize, slice: &'a mut [u8]) -> Ram<'a> {
        let [table, places, log, pending, scratch, marks, tags] = parts(lay, log_page);
        let (table, rest) = slice.split_at_mut(table);
        let (places, rest) = rest.split_at_mut(places);
        let (log, rest) = rest.split_at_mut(log);
        let (pending, rest) = rest.split_at_mut(pending);
        let (scratch, rest) = rest.split_at_mut(scratch);
        let (marks, rest) = rest.split_at_mut(marks);
        let (tags, rest) = rest.split_at_mut(tags);
        let count = (rest.len() / (META + SEGMENT)).min(lay.segments as usize);
        let (meta, rest) = rest.split_at_mut(count * META);
        let slots = &mut rest[..count * SEGMENT];
        let mut ram = Ram {
            table,
            width: lay.table_width(),
            places,
            place_width: place_width(lay),
            log,
            pending,
            scratch,
            marks,
            tags,
            tags_len: lay.pages as usize * TAG,
            meta,
            slots,
            direct: count == lay.segments as usize,
            clock: 0,
        };
        ram.reset();
        ram
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.table.fill(0);
        self.places.fill(0xFF);
        self.marks.fill(0);
        self.tags.fill(0xFF);
        self.meta.fill(0);
        (0..self.slots()).for_each(|slot| self.set_segment(slot, NONE));
    }

    pub fn state(&self, block: u32) -> State {
        let (value, top) = match self.width {
            1 => (u32::from(self.table[block as usize]), 0xFF),
            _ => {
                let at = 2 * block as usize;
                let bytes = [self.table[at], self.table[at + 1]];
                (u32::from(u16::from_le_bytes(bytes)), 0xFFFF)
            }
        };
        match top - value {
            0 => State::Bad,
            1 => State::Log,
            2 => State::Anchor,
            3 => State::Dying,
            4 => State::Held,
            _ => State::Used(value),
        }
    }

    pub fn set_state(&mut self, block: u32, state: State) {
        let top = if self.width == 1 { 0xFF } else { 0xFFFF };
        let value = match state {
            State::Bad => top,
            State::Log => top - 1,
            State::Anchor => top - 2,
            State::Dying => top - 3,
            State::Held => top - 4,
            State::Used(n) => n.min(top - 5),
        };
        let at = self.width * block as usize;
        self.table[at..at + self.width].copy_from_slice(&value.to_le_bytes()[..self.width]);
    }

    /// What [`State::Used`] counts to; more looks the same.
    pub fn count_max(&self) -> u32 {
        if self.width == 1 {
            0xFF - 5
        } else {
            0xFFFF - 5
        }
    }

    /// The table, and the scratch page to copy it to or from.
    pub fn table_and_scratch(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.table, self.scratch)
    }

    pub fn place(&self, map_page: u32) -> u32 {
        let at = map_page as usize * self.place_width;
        let mut word = [0; 4];
        word[..self.place_width].copy_from_slice(&self.places[at..at + self.place_width]);
        let value = u32::from_le_bytes(word);
        if value == NONE >> (8 * (4 - self.place_width)) {
            NONE
        } else {
            value
        }
    }

    pub fn set_place(&mut self, map_page: u32, page: u32) {
        let at = map_page as usize * self.place_width;
        let bytes = &page.to_le_bytes()[..self.place_width];
        self.places[at..at + self.place_width].copy_from_slice(bytes);
    }

    pub fn mark(&mut self, map_page: u32) {
        self.marks[map_page as usize / 8] |= 1 << (map_page % 8);
    }

    pub fn is_marked(&self, map_page: u32) -> bool {
        self.marks[map_page as usize / 8] >> (map_page % 8) & 1 == 1
    }

    /// A block of the log's list, and the number of its first page; [`NONE`]: it has none.
    pub fn log(&self, i: u32) -> (u32, u32) {
        let at = i as usize * 8;
        let first = match get_u32(self.log, at + 4) {
            STALE | AHEAD => NONE,
            first => first,
        };
        (get_u32(self.log, at), first)
    }

    /// Notes of a block of the list that it holds a copy of the log's last page.
    pub fn set_log_stale(&mut self, i: u32) {
        put_u32(self.log, i as usize * 8 + 4, STALE);
    }

    pub fn is_log_stale(&self, i: u32) -> bool {
        get_u32(self.log, i as usize * 8 + 4) == STALE
    }

    /// Notes of a block of the list that what it holds counts only if it names the anchor.
    pub fn set_log_ahead(&mut self, i: u32) {
        put_u32(self.log, i as usize * 8 + 4, AHEAD);
    }

    pub fn is_log_ahead(&self, i: u32) -> bool {
        get_u32(self.log, i as usize * 8 + 4) == AHEAD
    }

    pub fn set_log(&mut self, i: u32, block: u32, first: u32) {
        put_u32(self.log, i as usize * 8, block);
        put_u32(self.log, i as usize * 8 + 4, first);
    }

    /// Drops the first `n` of `len` blocks of the list.
    pub fn drop_log(&mut self, n: u32, len: u32) {
        self.log.copy_within(n as usize * 8..len as usize * 8, 0);
    }

    /// Records that a log page takes.
    pub fn records_max(&self) -> usize {
        (self.pending.len() - HEADER) / RECORD
    }

    /// Tags of an open block, by head; the last is the cleaner's.
    pub fn tags(&mut self, head: usize) -> &mut [u8] {
        &mut self.tags[head * self.tags_len..][..self.tags_len]
    }

    /// A head goes on in the block of another.
    pub fn move_tags(&mut self, from: usize, to: usize) {
        let len = self.tags_len;
        self.tags
            .copy_within(from * len..(from + 1) * len, to * len);
    }

    pub fn slots(&self) -> usize {
        self.slots.len() / SEGMENT
    }

    pub fn slot_bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.slots[slot * SEGMENT..][..SEGMENT]
    }

    /// Caches a segment from the scratch page, where each has its slot.
    pub fn fill_slot_from_scratch(&mut self, segment: u32, at: usize) {
        let to = &mut self.slots[segment as usize * SEGMENT..][..SEGMENT];
        to.copy_from_slice(&self.scratch[at..at + SEGMENT]);
        self.set_segment(segment as usize, segment);
    }

    pub fn entry(&self, slot: usize, i: u32) -> u32 {
        get_u32(self.slots, slot * SEGMENT + 4 * i as usize)
    }

    pub fn set_entry(&mut self, slot: usize, i: u32, page: u32) {
        put_u32(self.slots, slot * SEGMENT + 4 * i as usize, page);
    }

    /// The segment in a slot, or [`NONE`].
    pub fn segment(&self, slot: usize) -> u32 {
        get_u32(self.meta, slot * META)
    }

    pub fn set_segment(&mut self, slot: usize, segment: u32) {
        put_u32(self.meta, slot * META, segment);
    }

    /// Number of the log page with the slot's oldest change that is in no
    /// map page; 0: there is none.
    pub fn dirty(&self, slot: usize) -> u32 {
        get_u32(self.meta, slot * META + 4)
    }

    pub fn set_dirty(&mut self, slot: usize, seq: u32) {
        put_u32(self.meta, slot * META + 4, seq);
    }

    /// The slot of a segment, if it is cached.
    pub fn find(&self, segment: u32) -> Option<usize> {
        if self.direct {
            let slot = segment as usize;
            return (self.segment(slot) == segment).then_some(slot);
        }
        (0..self.slots()).find(|slot| self.segment(*slot) == segment)
    }

    pub fn touch(&mut self, slot: usize) {
        if !self.direct {
            self.clock = self.clock.wrapping_add(1);
            put_u32(self.meta, slot * META + 8, self.clock);
        }
    }

    /// The slot to use for a segment that is not cached: its own, an empty one, or that least
    /// recently used.
    pub fn victim(&self, segment: u32) -> usize {
        if self.direct {
            return segment as usize;
        }
        let age = |slot: &usize| match self.segment(*slot) {
            NONE => u32::MAX,
            _ => self.clock.wrapping_sub(get_u32(self.meta, slot * META + 8)),
        };
        (0..self.slots()).max_by_key(age).unwrap_or(0)
    }

    /// The oldest change that is in no map page.
    pub fn oldest(&self) -> Option<u32> {
        let dirty = (0..self.slots()).map(|slot| self.dirty(slot));
        dirty.filter(|seq| *seq != 0).min()
    }
}

const _: () = assert!(PER_SEGMENT as usize * 4 == SEGMENT);

//! The caller's RAM: translation table, segments, banks and the flag update queue.
//!
//! ```text
//! | table: width x sectors | segments: 16 each | banks: 5 each | queue: (4 + 2 x width) each |
//! ```
//!
//! The width is the bytes that count every block of the chip and two values more: 2 up to 65,534
//! blocks. One says that a sector holds nothing, the other that what it held is lost.

use crate::layout::Layout;

/// Bytes of a segment's record.
const SEGMENT_LEN: usize = 16;
/// Bytes of a bank's record.
const BANK_LEN: usize = 5;
/// No segment.
pub(crate) const NONE: u32 = 0xFFFF;
/// Marks a queued pair whose sector has been trimmed.
const TRIMMED: u32 = 1 << 31;

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Erased, with a header.
    Free,
    /// Partly written; what is left of it can be written.
    Open,
    /// Written to its end.
    Closed,
    /// Its erase did not complete.
    Torn,
    /// Under erase.
    Erasing,
    /// Could not be erased; at a mount, has no header.
    Retired,
}

impl State {
    /// Whether its last erase is complete, so that it may be programmed and what it holds counts.
    pub fn is_in_use(self) -> bool {
        matches!(self, State::Free | State::Open | State::Closed)
    }
}

/// A segment's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Blocks that the table points to.
    pub valid: u32,
    /// Blocks written, dead ones included.
    pub used: u32,
    /// Erases in its life.
    pub erases: u32,
    /// When it changed last, on the disk's clock.
    pub stamp: u32,
    /// Intents written in its header.
    pub intents: u32,
    /// Whose header announces an erase of it, begun or not, that has not come to its end; or
    /// [`NONE`].
    pub host: u32,
    pub state: State,
}

/// A pair of blocks whose flags wait for the end of an erase (paper, 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub sector: u32,
    /// Pre-valid; none when the sector was only trimmed.
    pub new: Option<u32>,
    /// Still valid on flash, in a bank under erase.
    pub old: u32,
    /// The sector reads as zeros.
    pub trimmed: bool,
}

/// An erase under way in a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BankErase {
    pub segment: u32,
    /// Blocks written when it began, the low bits.
    pub begun: u16,
}

/// Views of the caller's slice.
pub(crate) struct Ram<'a> {
    table: &'a mut [u8],
    segments: &'a mut [u8],
    banks: &'a mut [u8],
    queue: &'a mut [u8],
    width: usize,
    queued: usize,
}

const fn width(layout: &Layout) -> usize {
    match layout.total_blocks() {
        0..=0xFFFE => 2,
        0xFFFF..=0xFF_FFFE => 3,
        _ => 4,
    }
}

/// Bytes of RAM that a disk needs.
pub(crate) const fn bytes_needed(layout: &Layout, queue: u16) -> usize {
    let width = width(layout);
    layout.sectors as usize * width
        + layout.segments as usize * SEGMENT_LEN
        + layout.banks as usize * BANK_LEN
        + queue as usize * (4 + 2 * width)
}

fn get(bytes: &[u8], at: usize, width: usize) -> u32 {
    let mut word = [0; 4];
    word[..width].copy_from_slice(&bytes[at..at + width]);
    u32::from_le_bytes(word)
}

fn put(bytes: &mut [u8], at: usize, width: usize, value: u32) {
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

impl<'a> Ram<'a> {
    /// Divides a slice of at least [`bytes_needed`] bytes; the table is empty.
    pub fn new(layout: &Layout, queue: u16, slice: &'a mut [u8]) -> Ram<'a> {
        let width = width(layout);
        let (table, rest) = slice.split_at_mut(layout.sectors as usize * width);
        let (segments, rest) = rest.split_at_mut(layout.segments as usize * SEGMENT_LEN);
        let (banks, rest) = rest.split_at_mut(layout.banks as usize * BANK_LEN);
        let queue = &mut rest[..queue as usize * (4 + 2 * width)];
        table.fill(0xFF);
        banks.fill(0xFF);
        Ram {
            table,
            segments,
            banks,
            queue,
            width,
            queued: 0,
        }
    }

    fn none(&self) -> u32 {
        u32::MAX >> (32 - 8 * self.width)
    }

    fn block(&self, value: u32) -> Option<u32> {
        (value < self.none() - 1).then_some(value)
    }

    /// Whether what a sector held is lost. It has no block then.
    pub fn is_lost(&self, sector: u32) -> bool {
        get(self.table, sector as usize * self.width, self.width) == self.none() - 1
    }

    pub fn set_lost(&mut self, sector: u32) {
        let at = sector as usize * self.width;
        put(self.table, at, self.width, self.none() - 1);
    }

    /// The block that holds a sector.
    pub fn lookup(&self, sector: u32) -> Option<u32> {
        self.block(get(self.table, sector as usize * self.width, self.width))
    }

    pub fn map(&mut self, sector: u32, block: Option<u32>) {
        let value = block.unwrap_or(self.none());
        put(self.table, sector as usize * self.width, self.width, value);
    }

    pub fn segment(&self, segment: u32) -> Segment {
        let at = segment as usize * SEGMENT_LEN;
        Segment {
            valid: get(self.segments, at, 2),
            used: get(self.segments, at + 2, 2),
            erases: get(self.segments, at + 4, 4),
            stamp: get(self.segments, at + 8, 4),
            intents: get(self.segments, at + 12, 1),
            host: get(self.segments, at + 14, 2),
            state: match self.segments[at + 13] {
                0 => State::Free,
                1 => State::Open,
                2 => State::Closed,
                3 => State::Torn,
                4 => State::Erasing,
                _ => State::Retired,
            },
        }
    }

    pub fn set_segment(&mut self, segment: u32, record: Segment) {
        let at = segment as usize * SEGMENT_LEN;
        put(self.segments, at, 2, record.valid);
        put(self.segments, at + 2, 2, record.used);
        put(self.segments, at + 4, 4, record.erases);
        put(self.segments, at + 8, 4, record.stamp);
        put(self.segments, at + 12, 1, record.intents);
        self.segments[at + 13] = record.state as u8;
        put(self.segments, at + 14, 2, record.host);
    }

    /// Changes a segment's record.
    pub fn update(&mut self, segment: u32, change: impl FnOnce(&mut Segment)) {
        let mut record = self.segment(segment);
        change(&mut record);
        self.set_segment(segment, record);
    }

    /// The erase under way in a bank.
    pub fn bank(&self, bank: u32) -> Option<BankErase> {
        let at = bank as usize * BANK_LEN;
        let segment = get(self.banks, at, 2);
        (segment != NONE).then(|| BankErase {
            segment,
            begun: get(self.banks, at + 2, 2) as u16,
        })
    }

    pub fn set_bank(&mut self, bank: u32, erase: Option<BankErase>) {
        let at = bank as usize * BANK_LEN;
        put(self.banks, at, 2, erase.map_or(NONE, |e| e.segment));
        if let Some(erase) = erase {
            put(self.banks, at + 2, 2, u32::from(erase.begun));
        }
    }

    /// Whether every *valid* flag of a bank is known to stand: see `erase::firm_up`.
    pub fn is_firm(&self, bank: u32) -> bool {
        self.banks[bank as usize * BANK_LEN + 4] == 0
    }

    pub fn set_firm(&mut self, bank: u32) {
        self.banks[bank as usize * BANK_LEN + 4] = 0;
    }

    fn pair_len(&self) -> usize {
        4 + 2 * self.width
    }

    /// Pairs in the queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    pub fn queue_is_full(&self) -> bool {
        (self.queued + 1) * self.pair_len() > self.queue.len()
    }

    pub fn pair(&self, index: usize) -> Pair {
        let at = index * self.pair_len();
        let word = get(self.queue, at, 4);
        Pair {
            sector: word & !TRIMMED,
            new: self.block(get(self.queue, at + 4, self.width)),
            old: get(self.queue, at + 4 + self.width, self.width),
            trimmed: word & TRIMMED != 0,
        }
    }

    pub fn set_pair(&mut self, index: usize, pair: Pair) {
        let at = index * self.pair_len();
        let mark = if pair.trimmed { TRIMMED } else { 0 };
        put(self.queue, at, 4, pair.sector | mark);
        put(
            self.queue,
            at + 4,
            self.width,
            pair.new.unwrap_or(self.none()),
        );
        put(self.queue, at + 4 + self.width, self.width, pair.old);
    }

    /// Adds a pair to a queue that is not full.
    pub fn push_pair(&mut self, pair: Pair) {
        self.queued += 1;
        self.set_pair(self.queued - 1, pair);
    }

    /// Removes a pair; the last one takes its place.
    pub fn remove_pair(&mut self, index: usize) {
        let last = self.pair(self.queued - 1);
        self.set_pair(index, last);
        self.queued -= 1;
    }

    /// The pair of a sector.
    pub fn find_pair(&self, sector: u32) -> Option<usize> {
        (0..self.queued).find(|index| self.pair(*index).sector == sector)
    }
}

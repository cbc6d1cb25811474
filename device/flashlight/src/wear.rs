//! Static wear levelling: data that stays is moved, so that its blocks take their share of erases.
//!
//! Blocks whose data changes are erased in turn by themselves, as free blocks are taken in the
//! order of their numbers. A block whose data stays is never erased unless something moves it. One
//! pointer goes over the blocks; once in [`INTERVAL`] erases the next block in use is moved to the
//! first free block behind the pointer.
//!
//! ```text
//!        pointer                                   first free block
//!           v                                         v
//! ..rotation | data that stays  ....................... | rotation ..       (a ring)
//!            +--- moved by one ---------------------------^
//! ```
//!
//! So the blocks in rotation are a window that travels round the chip, a block at each move: every
//! block is in rotation for as long as every other, and rests for as long. No counter is needed.
//! With a share `s` of blocks at rest and `k` erases between two moves a block falls behind by
//! `s * k` erases while it rests and catches up while it is in rotation: the erase counts deviate
//! by `s * k / sqrt(12)` from their mean, however many they are.
//!
//! That holds when no block leaves the window early and none late:
//! * Moves are made right after a checkpoint, when all of the window that nobody uses is free, and
//!   put off when the window's end is in use.
//! * Blocks that are long in use without being data, as those of a log that is seldom written, are
//!   taken where data at rest goes to.
//! * A block with a few valid pages only is cleaned, half a round after the search for free ones
//!   has passed it.
//! * All counts are 0 at first, where they should fall along the window: the intervals of the first
//!   round grow from `k` to `2 * k`.

use crate::FlashLight;
use crate::error::Error;
use crate::store::{HEADS, Store};
use crate::table::State;
use flashkit_nand::Nand;

/// Erases between two moves, by default: `0.6 * 52 / sqrt(12)` is 9, less than one in a hundred of a
/// thousand erases, with 60 % of the data at rest; and each move is one erase more in 51.
pub(crate) const INTERVAL: u32 = 52;
/// Blocks beyond the end of the window's last place that its next place may be: some at the end
/// are in use.
const NEAR: u32 = 8;
/// Intervals that a move is put off at least for that; on most chips for as many erases as there are
/// blocks: what changes at all has gone by then.
const PATIENCE: u32 = 8;
/// Blocks that one change looks at for nearly empty ones.
const SWEEP: u32 = 64;
/// Sorts of blocks that may last long: the heads of the areas, leaf and second-level blocks.
const SORTS: usize = HEADS + 2;
pub(crate) const LEAF: usize = HEADS;
pub(crate) const SECOND: usize = HEADS + 1;

/// Where levelling is. The first four are part of every checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wear {
    /// The block to look at next.
    pub at: u32,
    /// The last place that data at rest was moved to, as far as it is ahead.
    pub to: u32,
    /// Erases since the last move that was due.
    pub erases: u32,
    /// Moves since the volume was made, up to the number of its blocks: the first round.
    pub moves: u32,
    /// Erases between two moves; 0: there are none.
    pub interval: u32,
    /// A checkpoint has made blocks free, and moves may be due.
    pub ready: bool,
    /// Where the search for nearly empty blocks goes on.
    swept: u32,
    /// Erases since the mount, and their number when a block of each sort was last taken.
    clock: u32,
    taken: [u32; SORTS],
}

impl Wear {
    pub fn new(interval: u32) -> Self {
        Wear {
            interval,
            ..Wear::default()
        }
    }

    /// Begins at a block, at format time.
    pub fn begin(&mut self, block: u32) {
        (self.at, self.to, self.erases, self.moves) = (block, block, 0, 0);
    }

    /// Takes up what a checkpoint says: next block, last place, moves, erases. The search for free
    /// blocks is at `cursor`.
    pub fn load(&mut self, fields: [u32; 4], cursor: u32, blocks: u32) {
        let [at, to, moves, erases] = fields;
        (self.at, self.to) = (at % blocks, to % blocks);
        (self.moves, self.erases) = (moves.min(blocks), erases);
        self.swept = across(cursor, blocks);
    }

    pub fn note_erase(&mut self) {
        self.erases = self.erases.saturating_add(1);
        self.clock = self.clock.wrapping_add(1);
    }

    /// Erases until the next move.
    fn current_interval(&self, blocks: u32) -> u32 {
        if self.moves < blocks {
            self.interval
                + (u64::from(self.interval) * u64::from(self.moves) / u64::from(blocks)) as u32
        } else {
            self.interval
        }
    }
}

/// The block half a round from where free ones are looked for: what is still in use there has had
/// time to go by itself.
fn across(cursor: u32, blocks: u32) -> u32 {
    (cursor + blocks / 2) % blocks
}

impl<N: Nand> FlashLight<'_, N> {
    /// The block at rest to move now, if one is due and the window has a place for it.
    pub(crate) fn due(&mut self) -> Option<u32> {
        let blocks = self.store.table.blocks();
        let wear = self.store.wear;
        let interval = wear.current_interval(blocks);
        if !wear.ready || interval == 0 {
            return None;
        }
        self.store.wear.ready = false;
        if wear.erases < interval {
            return None;
        }
        let ahead = |block: u32| (block + blocks - wear.at) % blocks;
        let to = self.store.place_at_rest()?;
        let patience = blocks.max(PATIENCE * interval);
        if wear.moves > 0 && ahead(to) > ahead(wear.to) + NEAR && wear.erases < patience {
            return None;
        }
        if wear.moves == 0 || ahead(to) > ahead(wear.to) {
            self.store.wear.to = to;
        }
        let block = (0..blocks)
            .map(|step| (wear.at + step) % blocks)
            .find(|&b| {
                let at_rest = match self.store.table.get(b) {
                    // A log's block is closed soon; that of a file that is open may stay so for ever.
                    State::Meta(1..) => !self.store.is_open(b),
                    State::Data(n) => n > 0 || self.store.is_open(b),
                    _ => false,
                };
                at_rest && !self.store.stuck.contains(&(b as u16))
            })?;
        let next = (block + 1) % blocks;
        if ahead(block) >= ahead(self.store.wear.to) {
            self.store.wear.to = next;
        }
        self.store.wear.at = next;
        self.store.wear.moves = (wear.moves + 1).min(blocks);
        // More may be due.
        (self.store.wear.erases, self.store.wear.ready) = (wear.erases - interval, true);
        Some(block)
    }

    /// A block with few valid pages, half a round behind the search for free blocks: it would take
    /// no erases until these are gone.
    pub(crate) fn nearly_empty(&mut self) -> Option<u32> {
        if self.store.wear.interval == 0 {
            return None;
        }
        let few = self.store.ppb() / 16;
        let blocks = self.store.table.blocks();
        for _ in 0..SWEEP {
            let block = self.store.wear.swept;
            if block == across(self.store.cursor, blocks) {
                break;
            }
            self.store.wear.swept = (block + 1) % blocks;
            let nearly = match self.store.table.get(block) {
                State::Meta(n) => (1..=4 * few).contains(&n),
                State::Data(n) => (1..=few).contains(&n),
                _ => false,
            };
            if nearly
                && !self.store.is_open(block)
                && self.store.remnants.find(block).is_none()
                && !self.store.stuck.contains(&(block as u16))
            {
                return Some(block);
            }
        }
        None
    }
}

impl<N: Nand> Store<'_, N> {
    /// Where data at rest goes to: the end of the window.
    pub fn place_at_rest(&self) -> Option<u32> {
        self.free_from(self.wear.at)
    }

    /// Picks a free block of a sort that may last long. One that follows its predecessor after more
    /// erases than there are blocks would miss one in each of its own.
    pub fn pick_for(&mut self, sort: usize) -> Result<u32, Error<N::Error>> {
        let before = core::mem::replace(&mut self.wear.taken[sort], self.wear.clock);
        let lasting = self.wear.clock.wrapping_sub(before) > self.table.blocks();
        if self.wear.interval > 0 && lasting {
            self.place_at_rest().ok_or(Error::NoSpace)
        } else {
            self.pick()
        }
    }
}

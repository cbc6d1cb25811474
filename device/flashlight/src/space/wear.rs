//! Static wear levelling: data that stays is moved, so that its blocks take their share of erases.
//!
//! Blocks whose data changes are erased in turn by themselves, as free blocks are taken in the
//! order of their numbers. A block whose data stays is never erased unless something moves it. One
//! pointer goes over the blocks; once in [`INTERVAL`] erases the next block at rest is moved to the
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
//! * Only what rests is moved. A block is at rest when it is in use while the search for free
//!   blocks, which goes round all of them, comes by and still is at the checkpoint after that: what
//!   is written and deleted has gone by then. Until the search comes by the moves that are due
//!   wait, at most as many as a round of it takes.
//! * A block with a few valid pages only is cleaned, half a round after the search for free ones
//!   has passed it.
//! * All counts are 0 at first, where they should fall along the window: the intervals of the first
//!   round grow from `k` to `2 * k`.
//!
//! Chance remains: a block whose data lives longer than that of others misses some of its turns,
//! and nothing makes up for it; from round to round that adds up. With a byte of RAM more for each
//! block ([`ram_to_level`](crate::ram_to_level)) erases are counted from the mount on, and each
//! block should be ahead of the mean, or behind it, as its place on the ring says. Of the next free
//! blocks the one is taken that lags most; what rests goes to the one that has been erased most.
//! The counts are not stored: a mount takes every block to be where it should be.

use crate::error::Fault;
use crate::format::area::HEADS;
use crate::format::blockstate::BlockState;
use crate::space::store::Store;
use flashkit_nand::Nand;

/// Blocks beyond the end of the window's last place that its next place may be: some at the end
/// are in use.
pub(crate) const NEAR: u32 = 8;
/// Intervals that a move is put off at least for that; on most chips for as many erases as there
/// are blocks: what changes at all has gone by then.
pub(crate) const PATIENCE: u32 = 8;
/// Blocks that one change looks at for nearly empty ones.
pub(crate) const SWEEP: u32 = 64;
/// Free blocks that one is chosen from by its erases.
const CHOICE: u32 = 32;
/// Erases by which an interval is shorter for each that the window is ahead in the mean.
const PULL: i32 = 2;
/// Blocks ahead of the search for free ones that count as passed by it.
const SOON: u32 = 8;
/// Blocks that are watched at most.
const WATCHED: u32 = 64;
/// Erases behind what is due at which a log that is open is moved as well, and a free block
/// is taken whatever is in it.
const LAGS: i32 = 40;
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
    pub(crate) watch: Watch,
    /// Where the search for nearly empty blocks goes on.
    pub(crate) swept: u32,
    /// Erases since the mount, and their number when a block of each sort was last taken.
    pub(crate) clock: u32,
    taken: [u32; SORTS],
}

impl Wear {
    pub fn new(interval: u32) -> Self {
        Wear {
            // As many as a checkpoint can count.
            interval: interval.min(0xffff),
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

/// Blocks in a row, none of them free, and where the search for free blocks was then. None of them
/// is taken until a checkpoint makes it free. So what is still in use when the search has come by
/// was in use all the way round: it is at rest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    from: u32,
    count: u32,
    cursor: u32,
}

impl Watch {
    /// The pointer has gone on to this block.
    pub(crate) fn pass(&mut self, next: u32, blocks: u32) {
        let past = (next + blocks - self.from) % blocks;
        (self.from, self.count) = (next, self.count.saturating_sub(past));
    }
}

/// The block half a round from where free ones are looked for: what is still in use there has had
/// time to go by itself.
pub(crate) fn across(cursor: u32, blocks: u32) -> u32 {
    (cursor + blocks / 2) % blocks
}

/// Erase counts as far as they differ, a byte a block: modulo 256, as their mean is. None where the
/// caller's RAM has no room for them, and without levelling.
pub(crate) struct Counts<'r> {
    pub(crate) of: &'r mut [u8],
    mean: u8,
    /// Erases since the mean has grown.
    since: u32,
}

impl<'r> Counts<'r> {
    pub fn new(of: &'r mut [u8]) -> Self {
        Counts {
            of,
            mean: 0,
            since: 0,
        }
    }

    /// Blocks that are counted: all or none.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    fn note_erase(&mut self, block: u32) {
        if let Some(count) = self.of.get_mut(block as usize) {
            *count = count.wrapping_add(1);
            self.since += 1;
            if self.since as usize == self.of.len() {
                (self.since, self.mean) = (0, self.mean.wrapping_add(1));
            }
        }
    }

    /// Erases of a block above the mean.
    fn above(&self, block: u32) -> i32 {
        i32::from(self.of[block as usize].wrapping_sub(self.mean) as i8)
    }
}

impl<N: Nand> Store<'_, N> {
    pub fn note_erase(&mut self, block: u32) {
        self.wear.note_erase();
        self.counts.note_erase(block);
    }

    /// Takes every block to be worn as its place says, after a mount.
    pub fn begin_counts(&mut self) {
        for block in 0..self.counts.of.len() as u32 {
            self.counts.of[block as usize] = self.due_above(block) as u8;
        }
    }

    /// Erases above the mean that a block should have at its place: it falls behind evenly while it
    /// rests; in the window it catches up fast, is worn as others are, and goes ahead at the end.
    fn due_above(&self, block: u32) -> i32 {
        let (wear, blocks) = (&self.wear, i64::from(self.table.blocks()));
        let behind = |from: u32| (i64::from(block) - i64::from(from)).rem_euclid(blocks);
        let rest = behind(wear.at) - behind(wear.to) + blocks;
        let (rest, interval) = (rest % blocks, i64::from(wear.interval));
        let window = blocks - rest;
        let range = interval * rest / blocks;
        let above = if behind(wear.at) < rest {
            range * (2 * behind(wear.at) - rest) / rest
        } else {
            let from_middle = window - 2 * behind(wear.to);
            range * from_middle.pow(3) / window.pow(3)
        };
        (above / 2) as i32
    }

    /// Whether there is something in a block that could be moved.
    pub fn is_in_use(&mut self, block: u32) -> bool {
        let in_use = match self.state(block) {
            // A log's block is closed soon, mostly: not where it is of a log that nothing is
            // written to any more, and then nothing in it may be valid. That of a file that is
            // open may stay so for ever.
            BlockState::Meta(_) if self.is_open(block) => self.lags(block),
            BlockState::Meta(n) => n > 0,
            BlockState::Data(n) => n > 0 || self.is_open(block),
            _ => false,
        };
        in_use && !self.unmovable.contains(block)
    }

    /// The first watched block that is at rest.
    pub(crate) fn at_rest(&mut self) -> Option<u32> {
        let (watch, blocks) = (self.wear.watch, self.table.blocks());
        let behind = |b: u32| (b + blocks - watch.cursor) % blocks;
        let come = behind(self.cursor) + SOON;
        (0..watch.count)
            .map(|step| (watch.from + step) % blocks)
            .find(|&b| behind(b) < come && self.is_in_use(b))
    }

    /// The next block in use from the pointer on.
    pub(crate) fn next_in_use(&mut self) -> Option<u32> {
        let blocks = self.table.blocks();
        let at = self.wear.at;
        let mut ahead = (0..blocks).map(|step| (at + step) % blocks);
        ahead.find(|&b| self.is_in_use(b))
    }

    /// Watches the blocks from the next one in use on.
    pub(crate) fn watch(&mut self) {
        let blocks = self.table.blocks();
        let Some(from) = self.next_in_use() else {
            return;
        };
        let free = (1..WATCHED).find(|step| self.is_free((from + step) % blocks));
        self.wear.watch = Watch {
            from,
            count: free.unwrap_or(WATCHED),
            cursor: self.cursor,
        };
    }

    /// Erases between two moves. Fewer when the window has been worn more than is due: which of its
    /// blocks is taken does not change how much all of them are.
    pub(crate) fn interval(&self) -> u32 {
        if self.counts.of.is_empty() {
            return self.wear.current_interval(self.table.blocks());
        }
        let interval = self.wear.interval;
        let pull = interval as i32 - PULL * self.window_ahead();
        pull.clamp(interval as i32 / 2, 2 * interval as i32) as u32
    }

    /// Mean of the erases by which the blocks of the window are ahead of
    /// what is due at their places.
    fn window_ahead(&self) -> i32 {
        let (wear, blocks) = (&self.wear, self.table.blocks());
        let window = (wear.at + blocks - wear.to) % blocks;
        let ahead = |i| -self.lag((wear.to + i) % blocks);
        (0..window).map(ahead).sum::<i32>() / window.max(1) as i32
    }

    /// Erases that a block is behind what is due at its place; 0 without counts.
    fn lag(&self, block: u32) -> i32 {
        if self.counts.of.is_empty() {
            return 0;
        }
        // Modulo 256, as the counts are: with a long interval as much as that may be due.
        let due = self.due_above(block) as u8;
        i32::from(due.wrapping_sub(self.counts.above(block) as u8) as i8)
    }

    /// Whether a block is so far behind that what would keep it where it is counts for less.
    pub fn lags(&self, block: u32) -> bool {
        self.lag(block) > LAGS
    }

    /// The free block from `first` on, which is one, that lags most, of a few.
    pub fn pick_lagging(&mut self, first: u32) -> u32 {
        self.pick_by(first, CHOICE, &Self::lag)
    }

    /// Of `choice` free blocks from the first on the one with the highest key.
    fn pick_by(&mut self, first: u32, choice: u32, key: &dyn Fn(&Self, u32) -> i32) -> u32 {
        if self.counts.of.is_empty() {
            return first;
        }
        let blocks = self.table.blocks();
        let ahead = |block: u32| (block + blocks - first) % blocks;
        let (mut best, mut at) = (first, first);
        for _ in 1..choice {
            match self.free_from((at + 1) % blocks) {
                Some(next) if ahead(next) > ahead(at) => at = next,
                _ => break,
            }
            if key(self, at) > key(self, best) {
                best = at;
            }
        }
        best
    }

    /// Where data at rest goes to: the end of the window.
    pub fn place_at_rest(&mut self) -> Option<u32> {
        self.free_from(self.wear.at)
    }

    /// Where a block at rest is moved to: of some at the window's end the one erased most.
    pub fn pick_at_rest(&mut self) -> Option<u32> {
        let first = self.place_at_rest()?;
        Some(self.pick_by(first, NEAR, &|store, block| store.counts.above(block)))
    }

    /// Picks a free block of a sort that may last long. One that follows its predecessor after more
    /// erases than there are blocks would miss one in each of its own.
    pub fn pick_for(&mut self, sort: usize) -> Result<u32, Fault> {
        let before = core::mem::replace(&mut self.wear.taken[sort], self.wear.clock);
        let lasting = self.wear.clock.wrapping_sub(before) > self.table.blocks();
        if self.wear.interval > 0 && lasting && !self.discarded {
            let found = self.place_at_rest();
            self.if_any(found)
        } else {
            self.pick()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, FlashLight, New, ram_needed, ram_to_level};
    use flashkit_nand::Geometry;
    use flashkit_sim::{ChipSpec, SimNand, Timing};

    /// A mount takes every block to be where it should be, whatever the interval is.
    #[test]
    fn no_block_lags_after_a_mount() {
        let timing = Timing {
            read_ns: 1,
            program_ns: 1,
            erase_ns: 1,
        };
        for (blocks, interval) in [(96, 52), (96, 1_000), (96, u32::MAX), (60_000, u32::MAX)] {
            let geo = Geometry::new(2048, 64, 64, blocks).unwrap();
            let chip = SimNand::new(ChipSpec::new(geo, timing));
            let ram = std::vec![0; ram_needed(&geo)].leak();
            let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
            let config = Config {
                wear_interval: interval,
                ..Config::default()
            };
            let ram = std::vec![0; ram_to_level(&geo)].leak();
            let mut fs = FlashLight::mount(chip, ram, config).unwrap();
            let store = &mut fs.volume.durable.index.store;
            for (at, to) in [(10, 90), (10, 40), (40, 30), (20, 20)] {
                (store.wear.at, store.wear.to) = (at, to);
                store.begin_counts();
                let lagging = (0..blocks).find(|&block| store.lag(block) != 0);
                assert_eq!(lagging, None, "{blocks} blocks, {interval}, {at}, {to}");
            }
        }
    }
}

//! Which block it is time to move for the sake of wear.

use crate::format::blockstate::BlockState;
use crate::index::Index;
use crate::space::wear::{NEAR, PATIENCE, SWEEP, across};
use flashkit_nand::Nand;

impl<N: Nand> Index<'_, N> {
    /// The block at rest to move now, if one is due and the window has a place for it.
    pub(crate) fn due(&mut self) -> Option<u32> {
        let blocks = self.store.table.blocks();
        let wear = self.store.wear;
        if !wear.ready || wear.interval == 0 {
            return None;
        }
        self.store.wear.ready = false;
        let interval = self.store.interval();
        let patience = blocks.max(PATIENCE * interval).min(0xffff);
        // A session may end before the search comes by.
        let is_late = wear.erases >= patience && wear.clock < blocks;
        let found = match self.store.at_rest() {
            None if is_late => self.store.next_in_use(),
            found => found,
        };
        let Some(block) = found else {
            self.store.watch();
            self.store.wear.erases = wear.erases.min(patience);
            return None;
        };
        if wear.erases < interval {
            return None;
        }
        let ahead = |block: u32| (block + blocks - wear.at) % blocks;
        let to = self.store.place_at_rest()?;
        if wear.moves > 0 && ahead(to) > ahead(wear.to) + NEAR && wear.erases < patience {
            return None;
        }
        if wear.moves == 0 || ahead(to) > ahead(wear.to) {
            self.store.wear.to = to;
        }
        let next = (block + 1) % blocks;
        if ahead(block) >= ahead(self.store.wear.to) {
            self.store.wear.to = next;
        }
        self.store.wear.at = next;
        self.store.wear.watch.pass(next, blocks);
        self.store.wear.moves = (wear.moves + 1).min(blocks);
        // More may be due.
        (self.store.wear.erases, self.store.wear.ready) = (wear.erases - interval, true);
        Some(block)
    }

    /// A block with few valid pages, half a round behind the search for free blocks: it would take
    /// no erases until these are gone. Where erases are counted that does not matter, and it is
    /// cleaned for its space alone, when free blocks run low. Of metadata the victims leave what a
    /// quarter is valid of to the last, and with changes in many directories there is always such;
    /// at a quarter, blocks with the maps of files that are overwritten still die by themselves.
    pub(crate) fn nearly_empty(&mut self, is_low: bool) -> Option<u32> {
        let is_counted = !self.store.counts.of.is_empty();
        if self.store.wear.interval == 0 || is_counted && !is_low {
            return None;
        }
        let few = self.store.ppb() / 16;
        let of_metadata = if is_counted {
            4 * few - few / 2
        } else {
            4 * few
        };
        let blocks = self.store.table.blocks();
        for _ in 0..SWEEP {
            let block = self.store.wear.swept;
            if block == across(self.store.cursor, blocks) {
                break;
            }
            self.store.wear.swept = (block + 1) % blocks;
            let nearly = match self.store.state(block) {
                BlockState::Meta(n) => (1..=of_metadata).contains(&n),
                BlockState::Data(n) => (1..=few).contains(&n),
                _ => false,
            };
            if nearly
                && self.store.may_be_cleaned(block)
                && self.store.remnants.find(block).is_none()
            {
                return Some(block);
            }
        }
        None
    }
}

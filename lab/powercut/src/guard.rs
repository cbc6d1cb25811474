//! A chip that watches the file system on it: what the last checkpoint needs, and what was written since, is not
//! erased before the next one.
//!
//! When a checkpoint has been programmed, a copy of the chip is mounted read-only and walked. The blocks of the pages
//! in use are needed until another checkpoint is there. Pages that the recovery on the copy has written itself are not
//! counted: their blocks were erased for that, or the chip holds something else in their place.

use std::collections::BTreeSet;

use flashkit_flashlight::{Config, FlashLight, Kind, Page, Visitor, ram_needed_for};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, Metered, PowerCut, SimNand};

use crate::recorder::kind_of;

/// A chip of which a copy can be had.
pub(crate) trait Copied {
    fn copy(&self) -> SimNand;
}

impl Copied for SimNand {
    fn copy(&self) -> SimNand {
        self.clone()
    }
}

impl<N: Copied> Copied for &mut N {
    fn copy(&self) -> SimNand {
        (**self).copy()
    }
}

impl<N: Copied + flashkit_sim::Tearable> Copied for PowerCut<N> {
    fn copy(&self) -> SimNand {
        self.inner().copy()
    }
}

/// See the module's text.
pub(crate) struct Guard<N> {
    inner: N,
    /// How the copies are mounted; without one nothing is watched.
    config: Option<Config>,
    needed: BTreeSet<u32>,
    /// Blocks written since, those of the anchors left out.
    since: BTreeSet<u32>,
    /// Checkpoints that have been walked.
    pub checkpoints: u64,
}

#[derive(Default)]
struct InUse(Vec<PageAddr>);

impl Visitor for InUse {
    fn page(&mut self, page: Page) {
        self.0.push(page.page);
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

/// What a page reads as.
fn bytes(chip: &mut SimNand, page: PageAddr) -> Option<(ReadStatus, Vec<u8>)> {
    let mut data = vec![0; chip.geometry().page_size() as usize];
    let status = chip.read(page, 0, &mut data, &mut []).ok()?;
    Some((status, data))
}

impl<N: Nand + Copied> Guard<N> {
    pub fn new(inner: N, config: Option<Config>) -> Guard<N> {
        let mut guard = Guard {
            inner,
            config,
            needed: BTreeSet::new(),
            since: BTreeSet::new(),
            checkpoints: 0,
        };
        guard.walk();
        guard
    }

    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// Notes the blocks that the volume on the chip needs as it is.
    fn walk(&mut self) {
        let Some(config) = self.config else {
            return;
        };
        let mut before = self.inner.copy();
        let mut ram = vec![0; ram_needed_for(&before.geometry(), config.table_page)];
        let read_only = Config {
            read_only: true,
            ..config
        };
        let mut in_use = InUse::default();
        // What fails here fails in the mount that follows a cut, and is told there.
        let Ok(mut volume) = FlashLight::mount(before.clone(), &mut ram, read_only) else {
            return;
        };
        if volume.walk(&mut in_use).is_err() {
            return;
        }
        let mut after = volume.nand().clone();
        self.checkpoints += 1;
        self.needed.clear();
        self.since.clear();
        let (erased, erased_after) = (before.erase_counts(), after.erase_counts());
        for page in in_use.0 {
            let block = before.geometry().block_of(page).0;
            let stays = erased[block as usize] == erased_after[block as usize];
            if stays
                && !self.needed.contains(&block)
                && bytes(&mut before, page) == bytes(&mut after, page)
            {
                self.needed.insert(block);
            }
        }
    }
}

impl<N: Nand + Copied> Nand for Guard<N> {
    type Error = N::Error;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.inner.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, N::Error> {
        self.inner.read(page, offset, data, spare)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, N::Error> {
        let status = self.inner.program(page, data, spare)?;
        match kind_of(data) {
            _ if status == OpStatus::Failed || self.config.is_none() => {}
            Some(Kind::Checkpoint) => self.walk(),
            Some(Kind::Root | Kind::Second | Kind::Snapshot | Kind::Alloc) => {}
            _ => {
                self.since.insert(self.geometry().block_of(page).0);
            }
        }
        Ok(status)
    }

    /// # Panics
    /// The last checkpoint needs the block.
    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, N::Error> {
        assert!(
            !self.needed.contains(&block.0),
            "erase of block {}, which the last checkpoint needs",
            block.0
        );
        assert!(
            !self.since.contains(&block.0),
            "erase of block {}, which was written since the last checkpoint",
            block.0
        );
        self.inner.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, N::Error> {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), N::Error> {
        self.inner.mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), N::Error> {
        self.inner.flush()
    }
}

impl<N: Metered + Copied> Metered for Guard<N> {
    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.inner.erase_counts()
    }

    fn idle(&mut self, ns: u64) {
        self.inner.idle(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::SMALL_CHIP;

    #[test]
    #[should_panic(expected = "which the last checkpoint needs")]
    fn a_needed_block_is_not_erased() {
        let chip = SMALL_CHIP.formatted().unwrap();
        let mut guard = Guard::new(chip, Some(SMALL_CHIP.config()));
        assert_eq!(guard.checkpoints, 1);
        let needed = guard.needed.first().copied().unwrap();
        let _ = guard.erase(BlockAddr(needed));
    }
}

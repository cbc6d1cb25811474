//! A chip that watches the file system on it. What the last checkpoint needs, and what was
//! written since, is not erased before the next one. What a mount would find after each
//! checkpoint is checked: counts and valid pages against a walk; and it finds the same however
//! pages read that a cut has left unsettled.
//!
//! When a checkpoint has been programmed, a copy of the chip is mounted read-only and walked. The
//! blocks of the pages in use are needed until another checkpoint is there. Pages that the recovery
//! on the copy has written itself are not counted: their blocks were erased for that, or the chip
//! holds something else in their place.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::{Area, Config, FlashLight, Kind, Page, Visitor, ram_needed_for};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, Faults, Metered, PowerCut, SimNand};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;

use crate::recorder::{Recorder, kind_of};

/// Where a checkpoint says what it is a copy of (docs/format.md).
const COPY_OF: usize = 104;

/// A chip of which a copy can be had.
pub trait Copied {
    /// As it is now.
    fn copy(&self) -> SimNand;
}

impl Copied for SimNand {
    fn copy(&self) -> SimNand {
        self.clone()
    }
}

impl<N: Copied + flashkit_sim::Tearable> Copied for PowerCut<N> {
    fn copy(&self) -> SimNand {
        self.inner().copy()
    }
}

/// What is watched on a chip.
pub(crate) struct Invariants {
    /// How the copies are mounted.
    config: Config,
    pages_per_block: u32,
    needed: BTreeSet<u32>,
    /// Blocks written since, those of the anchors left out, with what was written last.
    since: BTreeMap<u32, Option<Kind>>,
    /// Checkpoints that have been walked.
    checkpoints: u64,
    /// The program of a checkpoint page has failed, and nothing leads yet to the one in its place:
    /// a mount may find the one or the state before, as long as the call has not ended.
    failed: bool,
}

#[derive(Default)]
struct InUse(Vec<Page>);

impl Visitor for InUse {
    fn page(&mut self, page: Page) {
        self.0.push(page);
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

/// What a page reads as.
fn bytes(chip: &mut SimNand, page: PageAddr) -> Option<(ReadStatus, Vec<u8>)> {
    let mut data = vec![0; chip.geometry().page_size() as usize];
    let status = chip.read(page, 0, &mut data, &mut []).ok()?;
    Some((status, data))
}

/// Where two mounts differ in what is in use: pages of which area, of which inode, where,
/// and the bytes of files. Where blocks fail, one may have written to others than the other:
/// then pages may be elsewhere.
fn differs(a: &mut (Vec<Page>, SimNand), b: &mut (Vec<Page>, SimNand)) -> Option<String> {
    if a.0.len() != b.0.len() {
        return Some(format!("{} and {} pages", a.0.len(), b.0.len()));
    }
    let written = |chip: &SimNand| (chip.counters().page_programs, chip.erase_counts());
    let moved = written(&a.1) != written(&b.1);
    for (&of_a, &of_b) in a.0.iter().zip(&b.0) {
        let same = match moved {
            true => (of_a.area, of_a.ino) == (of_b.area, of_b.ino),
            false => of_a == of_b,
        };
        let is_data = of_a.area == Area::Data;
        if !same || is_data && bytes(&mut a.1, of_a.page) != bytes(&mut b.1, of_b.page) {
            return Some(format!("{of_a:?} and {of_b:?}"));
        }
    }
    None
}

impl Invariants {
    /// Begins with what is on the chip, if that is a volume.
    pub fn new(chip: &impl Copied, config: Config) -> Invariants {
        let chip = chip.copy();
        let mut kept = Invariants {
            config: Config {
                read_only: true,
                ..config
            },
            pages_per_block: chip.geometry().pages_per_block(),
            needed: BTreeSet::new(),
            since: BTreeMap::new(),
            checkpoints: 0,
            failed: false,
        };
        if let Ok(found) = kept.look(chip.clone()) {
            kept.note(chip, found);
        }
        kept
    }

    /// What a mount of the chip finds in use, and the chip then.
    fn look(&self, mut chip: SimNand) -> Result<(Vec<Page>, SimNand), String> {
        // What fails by chance would tell one copy from another. Blocks that fail go on to fail.
        chip.set_faults(Faults::default())
            .map_err(|e| e.to_string())?;
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), self.config.table_page)];
        let mut chip = Recorder::new(chip);
        chip.recording = false;
        let mut volume = FlashLight::mount(AnyNand::new(chip), &mut ram, self.config)
            .map_err(|e| e.to_string())?;
        if let Some(first) = check(&mut volume)?.findings.first() {
            return Err(format!("check: {} (page {:?})", first.what, first.page));
        }
        let mut in_use = InUse::default();
        volume.walk(&mut in_use).map_err(|e| e.to_string())?;
        Ok((in_use.0, volume.nand().get::<Recorder>().chip().clone()))
    }

    fn note(&mut self, mut before: SimNand, (in_use, mut after): (Vec<Page>, SimNand)) {
        self.checkpoints += 1;
        self.needed.clear();
        self.since.clear();
        let (erased, erased_after) = (before.erase_counts(), after.erase_counts());
        for page in in_use {
            let block = before.geometry().block_of(page.page).0;
            let stays = erased[block as usize] == erased_after[block as usize];
            if stays
                && !self.needed.contains(&block)
                && bytes(&mut before, page.page) == bytes(&mut after, page.page)
            {
                self.needed.insert(block);
            }
        }
    }

    /// A page has been programmed on that chip, or that has failed: then it may read one way and
    /// another way.
    ///
    /// # Panics
    /// It is a checkpoint, and what a mount finds then is not as it must be.
    pub fn programmed(
        &mut self,
        status: OpStatus,
        page: PageAddr,
        data: &[u8],
        chip: &impl Copied,
    ) {
        let kind = kind_of(data);
        if status == OpStatus::Failed {
            self.failed |= kind == Some(Kind::Checkpoint);
            return;
        }
        match kind {
            Some(Kind::Checkpoint) => self.checkpoint(data, chip.copy()),
            // These lead to a checkpoint that is elsewhere.
            Some(Kind::Root | Kind::Second) => self.failed = false,
            // A recovery makes the changes of the block table again.
            Some(Kind::Snapshot | Kind::Alloc | Kind::Table) => {}
            kind => {
                let block = page.0 / self.pages_per_block;
                self.since.insert(block, kind);
            }
        }
    }

    fn checkpoint(&mut self, page: &[u8], chip: SimNand) {
        let found = self.look(chip.clone());
        if self.checkpoints == 0 && found.is_err() {
            // That of a format, which nothing leads to yet.
            return;
        }
        let mut found = found.unwrap_or_else(|e| panic!("a mount after this checkpoint: {e}"));
        // A recovery begins with a copy of the checkpoint that it begins from: until another,
        // what was cut is not settled.
        let is_copy = page[COPY_OF..COPY_OF + 8] != [0; 8];
        if !is_copy && !self.failed {
            for well in [true, false] {
                let mut settled = chip.clone();
                if !settled.settle(well).expect("no file") {
                    break;
                }
                let seen = self.look(settled);
                let differs = match seen {
                    Ok(mut seen) => differs(&mut found, &mut seen),
                    Err(e) => Some(e),
                };
                if let Some(differs) = differs {
                    panic!(
                        "a mount after this checkpoint depends on pages that are not settled ({well}): {differs}"
                    );
                }
            }
        }
        self.note(chip, found);
    }

    /// # Panics
    /// The last checkpoint needs the block.
    pub fn erasing(&self, block: BlockAddr) {
        assert!(
            !self.needed.contains(&block.0),
            "erase of block {}, which the last checkpoint needs",
            block.0
        );
        let since = self.since.get(&block.0);
        assert!(
            since.is_none(),
            "erase of block {}, which was written since the last checkpoint ({since:?})",
            block.0
        );
    }
}

/// See the module's text.
pub struct Guard<N> {
    inner: N,
    /// Without one nothing is watched.
    invariants: Option<Invariants>,
}

impl<N: Nand + Copied> Guard<N> {
    /// Watches the chip, copies of which are mounted so; without a configuration it does not.
    pub fn new(inner: N, config: Option<Config>) -> Guard<N> {
        let mut guard = Guard {
            inner,
            invariants: None,
        };
        guard.watch(config);
        guard
    }

    /// From now on, as of [`Guard::new`].
    pub fn watch(&mut self, config: Option<Config>) {
        self.invariants = config.map(|config| Invariants::new(&self.inner, config));
    }

    /// The chip.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The chip, to be changed behind the wrapper's back.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// Checkpoints that have been looked at.
    pub fn checkpoints(&self) -> u64 {
        self.invariants.as_ref().map_or(0, |kept| kept.checkpoints)
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

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, N::Error> {
        self.inner.read_used(page, data, head, used)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, N::Error> {
        let status = self.inner.program(page, data, spare)?;
        if let Some(kept) = &mut self.invariants {
            kept.programmed(status, page, data, &self.inner);
        }
        Ok(status)
    }

    /// The copy itself is a read and a program, as by default: those are what is looked at.
    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.inner.copies(from, to)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, N::Error> {
        if let Some(kept) = &self.invariants {
            kept.erasing(block);
        }
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
        assert_eq!(guard.checkpoints(), 1);
        let needed = *guard.invariants.as_ref().unwrap().needed.first().unwrap();
        let _ = guard.erase(BlockAddr(needed));
    }
}

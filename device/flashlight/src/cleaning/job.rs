//! Cleaning a block in steps, so that no change waits for a whole block.
//!
//! One block at a time is being cleaned: the victim that wins the most, the block whose data is to
//! rest elsewhere (`wear.rs`), or one that is to be written anew (`scrub.rs`). Before each change a
//! few of its pages are moved. Between two steps the block is one of those that are closed, with
//! fewer valid pages; nothing on flash says that it is being cleaned, and after an unclean stop
//! another may be chosen.
//!
//! What cleaning may cost follows from the victim: of a block with `v` valid pages of `p` each page
//! that is won costs `v / (p - v)` moves. Every page that is written adds so much to a credit, less
//! when free blocks only begin to run low, more when they are nearly gone. A step is made when the
//! credit is worth one, and what it has cost is taken off: so a write of one page waits for one
//! step at most, and one of many pages for its share.

use crate::cleaning::Volume;
use crate::cleaning::gc::CHECKPOINT_WORTH;
use crate::error::{Bool, Fault, sound};
use crate::format::area::{COLD, WEAR};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::space::limits::{FLOOR, Purpose, low, urgent};
use flashkit_nand::Nand;

/// Cost of looking at a page, in reads: its tag, and at times its inode or its map.
pub(crate) const LOOK: u32 = 1;
/// Cost of moving a page, in reads: it is looked up in maps, read and programmed.
pub(crate) const MOVE: u32 = 6;
/// Cost of a page of a map, in reads: it is read twice and programmed.
pub(crate) const MAP: u32 = 5;
/// What a step costs, in reads, but for what its last page adds; three times that
/// when the free blocks run out.
const STEP: u32 = 12;
/// What cleaning a whole block costs, in reads, between two looks at whether it
/// leaves a recovery enough.
const AT_ONCE: u32 = 64;
/// How often the pages of a block that stay in it are looked at after the first time, if they have
/// tags.
pub(crate) const AGAIN: u8 = 2;
/// Records in a file's log from which on they are taken for overwrites.
const SCATTERED: usize = 4;

/// Why a block is being cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// For its space.
    Space,
    /// To spread the wear.
    Wear,
    /// Bits in it had to be corrected.
    Rot,
}

/// The block that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CleanJob {
    pub block: u32,
    pub why: Why,
    /// The next page to look at, and the end of those that have been programmed.
    pub next: u32,
    pub end: u32,
    /// How often the pages that stay are looked at after this time: at first as costs least, then
    /// whole, then by their tags alone.
    pub again: u8,
    /// What cleaning it seemed to cost (see `rank`).
    pub rank: Option<(u32, u32)>,
    /// What cleaning should cost for each page written, when free blocks are a little short. In
    /// reads.
    rate: u32,
    /// What the last step has cost, in reads.
    pub cost: u32,
}

impl<N: Nand> Volume<'_, N> {
    /// A change's share of the cleaning; one that has waited for a checkpoint leaves it to those
    /// that follow. With few free blocks left, all that it takes.
    #[inline(never)]
    pub(crate) fn clean_some(&mut self, has_waited: bool) -> Result<(), Fault> {
        let (low, urgent) = (low(&self.store().geo), urgent(&self.store().geo));
        if self.job.is_none()
            && let Some((block, why)) = self.next_job()?
        {
            self.job = Some(self.index_mut().begin_job(block, why));
        }
        let Some(job) = &self.job else {
            return Ok(());
        };
        let short = low
            .saturating_sub(self.durable.index.store.available())
            .max(2);
        self.credit += (job.rate * 4 * short / (low - urgent)) as i32;
        let credit = u32::try_from(self.credit).unwrap_or(0);
        let Some(mut job) = self.job.take_if(|_| credit >= STEP && !has_waited) else {
            return Ok(());
        };
        let most = STEP + 2 * STEP * short / (low - urgent);
        let ended = self.job_step(&mut job, credit.min(most))?.is_true();
        self.credit -= job.cost.min(i32::MAX as u32) as i32;
        if ended {
            self.credit = self.credit.min(0);
        } else {
            self.job = Some(job);
        }
        Ok(())
    }

    /// The block to clean next, if there is one. At times a checkpoint.
    #[inline(never)]
    fn next_job(&mut self) -> Result<Option<(u32, Why)>, Fault> {
        let is_low = self.store().available() < low(&self.store().geo);
        if is_low && self.store().tally.dead >= self.index().dead_worth_a_checkpoint() {
            self.checkpoint(false)?;
            return Ok(None);
        }
        if self.store().available() <= FLOOR {
            return Ok(None);
        }
        if let Some(block) = self.store().nand.refresh.first() {
            if self.index_mut().is_stored(block) {
                return Ok(Some((block, Why::Rot)));
            }
            if let Some(block) = self.begin_refresh()? {
                self.refresh_system(block)?;
            }
        }
        if let Some(block) = self.index_mut().due() {
            return Ok(Some((block, Why::Wear)));
        }
        let block = match self.index_mut().nearly_empty(is_low) {
            None if is_low => {
                self.index_mut().count_overwritten()?;
                self.index_mut().next_victim()
            }
            block => block,
        };
        Ok(block.map(|block| (block, Why::Space)))
    }

    /// Moves what is valid in a block elsewhere, all of it, but for pages that damage keeps there:
    /// then the block is not won, and the result is `false`. So it is when free blocks run down to
    /// the `floor` before; what has been moved by then stays moved.
    pub(crate) fn clean_block(&mut self, block: u32, floor: u32) -> Result<Bool, Fault> {
        let mut job = self.index_mut().begin_job(block, Why::Space);
        while self.store().available() > floor {
            let at_once = match self.store().available() {
                0..=FLOOR => LOOK + MOVE,
                _ => AT_ONCE,
            };
            if self.job_step(&mut job, at_once)?.is_true() {
                break;
            }
            if self.index_mut().is_due()?.is_true() {
                self.checkpoint(false)?;
            }
        }
        Ok(Bool::from(self.store_mut().valid_pages(block) == 0))
    }

    /// Goes on with a block at a cost of about `limit` reads; whether it has come to its end.
    pub(crate) fn job_step(&mut self, job: &mut CleanJob, limit: u32) -> Result<Bool, Fault> {
        let before = self.store().written.cleaning();
        if job.why == Why::Wear {
            self.store_mut().heads.mover = WEAR;
        }
        let result = self.account(Purpose::Step, |volume| {
            volume.durable.index.move_some(job, limit)
        });
        self.store_mut().heads.mover = COLD;
        let written = &mut self.store_mut().written;
        match job.why {
            Why::Space => {}
            Why::Wear => written.levelled_pages += written.set_apart(before),
            Why::Rot => written.refreshed_pages += written.set_apart(before),
        }
        if job.why == Why::Rot && !matches!(result, Ok(Bool::False)) {
            // The moves have read it too.
            self.store_mut().nand.refresh.remove(job.block);
        }
        result
    }

    /// After a checkpoint, which makes dead blocks free: the block that was being cleaned may be
    /// one of them.
    pub(crate) fn end_job_if_dead(&mut self) {
        if self
            .job
            .is_some_and(|s| !self.index_mut().is_stored(s.block))
        {
            self.job = None;
        }
    }
}

impl<N: Nand> Index<'_, N> {
    /// Moves records from the log of a cached file to one of its extent maps, if they map a block's
    /// worth of pages for each map: what they have overwritten counts as valid until then, and a
    /// block may seem worse than it is. One read, one program.
    fn count_overwritten(&mut self) -> Result<(), Fault> {
        for &i in &FileSlot::ALL {
            let (ino, view) = (self.files[i].ino, self.files[i].file());
            // The pages of a file that grows are one record, and overwrite nothing.
            if ino == 0 || view.levels() != 1 || view.records() < SCATTERED {
                continue;
            }
            if view.pages_in_log() >= self.store.ppb() * view.pointers() as u32 {
                sound(self.file_migrate(i, None))?;
                break;
            }
        }
        Ok(())
    }

    /// Dead blocks that are worth a checkpoint while free blocks are only a little short. Each page
    /// of deferred changes is two of the snapshot. And blocks of metadata die by themselves: the
    /// more of it is written, the fewer are cleaned if that waits.
    fn dead_worth_a_checkpoint(&self) -> u32 {
        let deferred = self.store.deferred_len() / self.store.page_size();
        let metadata = self.store.since.index_pages / 16;
        CHECKPOINT_WORTH + deferred as u32 + metadata.min(CHECKPOINT_WORTH)
    }

    /// Whether a block holds files or metadata that are in use.
    pub(crate) fn is_stored(&mut self, block: u32) -> bool {
        block < self.store.table.blocks() && self.store.valid_pages(block) > 0
    }

    /// Begins to clean a block: it is not written any more.
    pub(crate) fn begin_job(&mut self, block: u32, why: Why) -> CleanJob {
        let (full, valid) = (self.store.ppb(), self.store.valid_pages(block));
        let job = CleanJob {
            block,
            why,
            next: 0,
            end: self.store.programmed(block),
            again: AGAIN,
            rank: self.rank(block),
            rate: match why {
                Why::Space => {
                    4 * LOOK + (LOOK + MOVE + MAP / 2) * valid / (full - valid).max(full / 8)
                }
                _ => 2 * (LOOK + MOVE),
            },
            cost: 0,
        };
        let written = &mut self.store.written;
        match why {
            Why::Space => {
                written.cleaned += 1;
                written.compacted += u64::from(self.store.remnants.find(block).is_some());
            }
            Why::Wear => written.levelled += 1,
            Why::Rot => written.refreshed += 1,
        }
        self.store.let_go(block);
        job
    }
}

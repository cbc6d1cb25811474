//! Room: what free blocks are for, and who may take them (docs/design.md, section 15).

use crate::cleaning::Volume;
use crate::cleaning::job::Why;
use crate::error::{Bool, Fault};
use crate::format::blockstate::BlockState;
use crate::format::limits::BITMAP_BLOCKS;
use crate::index::Index;
use crate::space::limits::{
    CLEANING, FLOOR, FOR_CLEANING, FOR_RECOVERY, INODE_PAGES_MAX, INODE_PAGES_PAGED, Purpose,
    TAKEN_MAX, deferred_least, last, low, reserve_blocks, urgent,
};
use crate::space::opened::NEWER;
use flashkit_nand::Nand;

impl<N: Nand> Volume<'_, N> {
    /// Does something that takes free blocks, and asserts that they are not more than it may take.
    pub(crate) fn account<T>(&mut self, purpose: Purpose, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = core::mem::replace(&mut self.store_mut().drawn, 0);
        let result = f(self);
        self.index().assert_drawn(purpose);
        self.store_mut().drawn = before;
        result
    }

    /// Makes everything durable for the last time, while there are blocks that can be erased.
    fn retire(&mut self) -> Result<(), Fault> {
        let result = self.checkpoint(true);
        self.index_mut().read_only = true;
        result
    }

    /// The same for a volume that is as it was left: it stays so where there is no
    /// room for another checkpoint.
    #[inline(never)]
    pub(crate) fn retire_if_possible(&mut self) -> Result<(), Fault> {
        match self.retire() {
            Err(Fault::NoSpace | Fault::ReadOnly) => Ok(()),
            r => r,
        }
    }

    /// Called before every change: takes a checkpoint or cleans when it is time.
    pub(crate) fn make_room(&mut self) -> Result<(), Fault> {
        self.store_mut().nand.only_reads = false;
        self.index().assert_drawn(Purpose::Change);
        if self.durable.is_worn() {
            self.retire()?;
            return Err(Fault::ReadOnly);
        }
        self.durable.begin()?;
        let due = self.index_mut().is_due()?.is_true();
        if due {
            self.checkpoint(false)?;
        }
        self.clean_failing()?;
        self.spill()?;
        self.clean_dirty_list()?;
        let urgent = urgent(&self.store().geo);
        self.reclaim_above(urgent)?;
        self.clean_some(due)?;
        self.make_deferred_room()?;
        if self.index().need_page().is_err() {
            self.free_overridden()?;
            if self.store().available() <= FOR_CLEANING {
                // The last step of cleaning took several blocks at once.
                self.reclaim()?;
            }
        }
        let last = last(self.store().ppb());
        self.reclaim_above(last)?;
        if self.store().available() <= last {
            return Err(Fault::NoSpace);
        }
        self.store_mut().drawn = 0;
        Ok(())
    }

    /// Before an orderly end: leaves no more deferred changes than any mount has room for, as long
    /// as there are blocks for it. What is left beyond that is written by a mount without room.
    fn leave_least_deferred(&mut self) -> Result<(), Fault> {
        let paged = self.store().table.paged.is_some();
        let least = deferred_least(&self.store().geo, paged);
        if self.store().dirty.tail_most() <= least && self.store().map_page.tail().is_empty() {
            return Ok(());
        }
        self.durable.begin()?;
        loop {
            self.account(Purpose::Checkpoint, |volume| {
                volume.index_mut().write_cached()
            })?;
            if self.store().deferred_len() <= least || !self.has_room_for_step()?.is_true() {
                return Ok(());
            }
            let written = self.account(Purpose::Step, |volume| {
                volume.index_mut().write_most_deferred(false)
            });
            match written {
                Err(Fault::NoSpace) | Ok(Bool::False) => return Ok(()),
                written => written?,
            };
        }
    }

    /// Writes a directory that many deferred changes are of, if there is no room for more, and
    /// there are blocks for it.
    #[inline(never)]
    fn make_deferred_room(&mut self) -> Result<(), Fault> {
        if self.store().available() <= FLOOR {
            return Ok(());
        }
        self.account(Purpose::Step, |volume| {
            volume.index_mut().make_deferred_room()
        })
    }

    /// Whether there are blocks for another step of what makes room, above what
    /// cleaning leaves alone. A checkpoint comes before, if a recovery might not find
    /// enough or what is dead is needed.
    pub(crate) fn has_room_for_step(&mut self) -> Result<Bool, Fault> {
        if self.index_mut().is_due()?.is_true()
            || self.store().tally.dead > 0 && self.store().available() <= FLOOR
        {
            self.checkpoint(false)?;
        }
        Ok(Bool::from(self.store().available() > FLOOR))
    }

    /// Before the checkpoint that ends a recovery: moves what is valid out of blocks that are
    /// hardly written, as long as free blocks are not many. Each session that is cut leaves such
    /// blocks, one for each log that it has written; so as many become free as were taken, and the
    /// next recovery does not find fewer.
    #[inline(never)]
    pub(crate) fn clean_hardly_written(&mut self) -> Result<(), Fault> {
        let enough = 2 * low(&self.store().geo);
        for is_data in [false, true] {
            let (mut next, mut alone) = (0, is_data);
            loop {
                let free = self.store().available();
                if free <= CLEANING || free + self.store().tally.dead > enough {
                    break;
                }
                let Some(block) = self.index_mut().hardly_written(next, is_data) else {
                    break;
                };
                next = block + 1;
                // One of data alone would move to a block like it; metadata moves to that
                // which the recovery writes.
                if alone && self.index_mut().hardly_written(next, is_data).is_none() {
                    break;
                }
                alone = false;
                let mut job = self.index_mut().begin_job(block, Why::Space);
                match self.job_step(&mut job, u32::MAX) {
                    Ok(_) | Err(Fault::NoSpace) => {}
                    Err(e) if e.is_damage() && !self.store().nand.is_stopped() => {}
                    Err(e) => return Err(e),
                }
            }
        }
        self.store_mut().unmovable.forget_rank();
        Ok(())
    }

    /// After a recovery: cleans until there are as many free blocks as a change
    /// wants. What it writes is still the recovery's: a mount that is cut has taken
    /// no free block from the next one.
    #[inline(never)]
    pub(crate) fn restore_room(&mut self) -> Result<(), Fault> {
        let mut named = self.store().seq;
        for _ in 0..self.store().table.blocks() {
            if self.store().available() > urgent(&self.store().geo) {
                break;
            }
            match self.reclaim() {
                Ok(Bool::True) => named = self.store().seq,
                Ok(Bool::False) | Err(Fault::NoSpace) => break,
                Err(e) if e.is_damage() && !self.store().nand.is_stopped() => break,
                Err(e) => return Err(e),
            }
        }
        self.store_mut().unmovable.forget_rank();
        if self.store().seq == named {
            return Ok(());
        }
        // No change may build on what no checkpoint names.
        match self.checkpoint(false) {
            Err(e)
                if matches!(e, Fault::NoSpace)
                    || e.is_damage() && !self.store().nand.is_stopped() =>
            {
                self.index_mut().read_only = true;
                Ok(())
            }
            r => r,
        }
    }

    /// Does what only reads, though it may have to write an inode that is cached to make
    /// place for another, or what may be done again. Where it finds no block, as failing
    /// ones have taken those that the allocation log was to go on in, a checkpoint names
    /// others, and it is done again.
    pub(crate) fn reading<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.store_mut().nand.only_reads = true;
        match read(self) {
            Err(Fault::NoSpace) if self.index().is_writable() => {
                self.checkpoint(false)?;
                read(self)
            }
            done => done,
        }
    }

    /// Makes everything durable: writes what is dirty, then the checkpoint. Dead blocks are free
    /// afterwards.
    pub(crate) fn checkpoint(&mut self, clean: bool) -> Result<(), Fault> {
        if clean {
            self.leave_least_deferred()?;
        }
        (
            self.store_mut().log.naming,
            self.store_mut().log.took_unnamed,
        ) = (true, false);
        let result = self.account(Purpose::Checkpoint, |volume| {
            volume.durable.take_checkpoint(clean)
        });
        if result.is_ok() {
            self.end_job_if_dead();
        }
        self.store_mut().log.naming = false;
        if result.is_err() && self.store().log.took_unnamed {
            // What goes on in a block that it would have named counts only with another checkpoint.
            self.store_mut().log.lost = true;
        }
        if result.is_ok() && self.store().log.together {
            // What a mount that is cut writes from here on does not count: its
            // numbers are those of a recovery.
            self.store_mut().seq += NEWER;
        }
        result
    }
}

impl<N: Nand> Index<'_, N> {
    /// With many free blocks, reservations are made ahead in batches: only few are counted.
    fn assert_drawn(&self, purpose: Purpose) {
        let (drawn, most) = (self.store.drawn, self.takes(purpose));
        debug_assert!(
            drawn <= most || self.store.tally.free >= 64,
            "{purpose:?} takes {drawn} blocks, not {most} at most"
        );
    }

    /// The blocks that something takes at most: one of each log that it writes, one of data, those
    /// that the allocation log and the checkpoint keep ahead; and with few pages a block, what it
    /// writes fills more. Each that fails is one more, and is not counted.
    fn takes(&self, purpose: Purpose) -> u32 {
        let pages = self.store.ppb();
        match purpose {
            Purpose::Change => last(pages),
            Purpose::Step => 6 + 32 / pages,
            Purpose::Checkpoint => 12 + 32 / pages,
            Purpose::Recovery => 8 + (64 + self.store.since.index_pages) / pages,
        }
    }

    pub(crate) fn is_writable(&self) -> bool {
        !self.read_only && !self.store.nand.is_stopped()
    }

    /// # Errors
    /// [`Fault::ReadOnly`], or that of the driver if it has failed where no call could say so.
    pub(crate) fn writable(&mut self) -> Result<(), Fault> {
        if self.read_only {
            return Err(Fault::ReadOnly);
        }
        self.store.nand.only_reads = false;
        self.store.nand.may_write()
    }

    /// Pages that files and metadata may fill.
    pub(crate) fn usable_pages(&self) -> u32 {
        let kept = self.store.table.least_for_recovery();
        self.store
            .tally
            .good
            .saturating_sub(reserve_blocks(self.store.geo.blocks()) + kept)
            * self.store.ppb()
    }

    /// Makes sure that one more page of user data or a new inode fits.
    pub(crate) fn need_page(&self) -> Result<(), Fault> {
        if self.store.tally.live + 2 > self.usable_pages() || self.store.available() <= FOR_CLEANING
        {
            Err(Fault::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Whether it is time for a checkpoint: before every change, and every step of cleaning, of
    /// which many may come before the next change. Else a recovery could not list the blocks taken,
    /// nor the checkpoint those of the allocation log.
    pub(crate) fn is_due(&mut self) -> Result<Bool, Fault> {
        if self.store.log.together {
            // There are no records.
            return Ok(self.is_spent().into());
        }
        // Those of the directories that a recovery writes.
        let more = self.store.since.index_pages / self.store.ppb();
        Ok(Bool::from(
            !self.store.ready_log()?.is_true()
                || self.store.since.taken >= TAKEN_MAX
                || self.store.since.taken + more
                    >= crate::space::limits::opened_max(self.store.page_size())
                || self.is_spent()
                || self.store.since.to_replay() >= self.replay_max()
                || self.store.log.blocks.len() + 3 >= BITMAP_BLOCKS,
        ))
    }

    /// The first closed block from one on, of data or of metadata, of which one page
    /// in eight at most is valid.
    fn hardly_written(&mut self, from: u32, is_data: bool) -> Option<u32> {
        let few = self.store.ppb() / 8;
        (from..self.store.table.blocks()).find(|&block| {
            let valid = match self.store.state(block) {
                BlockState::Meta(n) if !is_data => n,
                BlockState::Data(n) if is_data => n,
                _ => 0,
            };
            (1..=few).contains(&valid) && self.store.may_be_cleaned(block)
        })
    }

    /// Whether a recovery from the last checkpoint might not find enough free blocks, and would
    /// with another: of those that a checkpoint makes free, none is free for it.
    fn is_spent(&self) -> bool {
        // What has been taken without a record is free for it.
        let taken = if self.store.log.together {
            0
        } else {
            self.store.since.taken
        };
        let left = self.store.since.free_before.saturating_sub(taken);
        left < self.for_recovery() && left < self.store.unreserved()
    }

    pub(crate) fn replay_max(&self) -> u32 {
        match self.store.table.paged {
            Some(_) => INODE_PAGES_PAGED,
            None => INODE_PAGES_MAX,
        }
    }

    /// Blocks that stay free for recoveries, and for a change that begins just before: it takes
    /// more of them where they have few pages. It writes pages of directories about as often as
    /// they were written since the checkpoint.
    fn for_recovery(&self) -> u32 {
        let pages = 32 + self.store.since.index_pages;
        FOR_RECOVERY + pages / self.store.ppb() + self.store.table.blocks_for_recovery()
    }
}

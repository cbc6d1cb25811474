//! The cleaner, in steps that the caller drives.
//!
//! The paper's daemon uses three ioctls (Table 2): wait until a segment is selected, copy 16 valid
//! blocks, start the erase. They are [`LogDisk::clean_select`], [`LogDisk::clean_copy`] and
//! [`LogDisk::clean_erase`]; [`LogDisk::clean_step`] takes whichever is next. A write that finds no
//! room takes them itself.

use flashkit_nor::BankedNorFlash;

use crate::entry::{ENTRY_LEN, Entry, PRE_VALID, SET};
use crate::{Error, LogDisk, Separate, Start, Victim};

/// Blocks that one step copies (paper, Table 2).
pub const CLEAN_BLOCKS: u32 = 16;

/// Bytes copied at a time, on the stack.
const CHUNK: usize = 128;

/// What a step of the cleaner has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to do.
    Idle,
    /// A segment was chosen.
    Selected {
        /// Which.
        segment: u32,
        /// Whether it is less utilised than the disk on average (paper, 3.4).
        cold: bool,
    },
    /// So many valid blocks were copied.
    Copied {
        /// Blocks.
        blocks: u32,
    },
    /// The chosen segment, which holds nothing valid, is being erased.
    EraseBegun {
        /// Which.
        segment: u32,
    },
    /// Nothing can be done before an erase under way is complete.
    Waiting,
}

/// A segment being cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub segment: u32,
    /// The next block to look at.
    next: u32,
    cold: bool,
    /// Blocks to move for each one that the host writes, so that the free space does not fall.
    rate: u32,
    /// Its bank could be spared when it was chosen.
    spared: bool,
}

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// Chooses a segment to clean, if the policy asks for one. Without cost on flash.
    ///
    /// # Errors
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn clean_select(&mut self) -> Result<Option<u32>, Error<F::Error>> {
        self.changing(|disk| {
            disk.collect_erases()?;
            Ok(disk.choose(false))
        })
    }

    /// Copies up to `blocks` valid blocks of the chosen segment; how many. 0: none is left.
    ///
    /// Costs for each a block's read and write, and the flags.
    ///
    /// # Errors
    /// As [`LogDisk::write`].
    pub fn clean_copy(&mut self, blocks: u32) -> Result<u32, Error<F::Error>> {
        self.changing(|disk| disk.copy(blocks))
    }

    /// Begins to erase the chosen segment, when it holds nothing valid. False: there is none, or an
    /// erase under way is in the way; or so many segments are worn out that it cannot be.
    ///
    /// # Errors
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn clean_erase(&mut self) -> Result<bool, Error<F::Error>> {
        self.changing(|disk| {
            disk.collect_erases()?;
            disk.finish_job(true)
        })
    }

    /// Does what is next: finishes erases that are complete, then chooses, copies
    /// [`CLEAN_BLOCKS`], or begins an erase.
    ///
    /// # Errors
    /// As [`LogDisk::write`].
    pub fn clean_step(&mut self) -> Result<Step, Error<F::Error>> {
        if self.is_damaged() {
            return Ok(Step::Idle);
        }
        self.changing(|disk| disk.step(false))
    }

    /// As [`LogDisk::clean_step`], whatever the policy's threshold is, as a write does that finds
    /// no room; waits where that would be [`Step::Waiting`].
    ///
    /// # Errors
    /// As [`LogDisk::write`].
    pub fn clean_now(&mut self) -> Result<Step, Error<F::Error>> {
        if self.is_damaged() {
            return Ok(Step::Idle);
        }
        self.changing(LogDisk::step_now)
    }

    /// Waits for every erase under way.
    ///
    /// # Errors
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn finish_erases(&mut self) -> Result<(), Error<F::Error>> {
        if self.is_damaged() {
            return Ok(());
        }
        self.changing(|disk| {
            while disk.wait_any()? {}
            Ok(())
        })
    }

    fn step(&mut self, forced: bool) -> Result<Step, Error<F::Error>> {
        let collected = self.collect_erases()?;
        if let Some(job) = self.job {
            if self.ram.segment(job.segment).valid > 0 {
                let blocks = self.copy(CLEAN_BLOCKS)?;
                return Ok(Step::Copied { blocks });
            }
            let segment = job.segment;
            if self.finish_job(forced)? {
                return Ok(Step::EraseBegun { segment });
            }
            if self.job.is_some() {
                return Ok(Step::Waiting);
            }
        } else if forced && collected {
            // With what has just been erased the policy may be content.
            return Ok(Step::Waiting);
        }
        Ok(match self.choose(forced) {
            Some(segment) => Step::Selected {
                segment,
                cold: self.job.is_some_and(|job| job.cold),
            },
            None if self.erasing > 0 => Step::Waiting,
            None => Step::Idle,
        })
    }

    /// One step towards a free block for the host; false when nothing can be done.
    pub(crate) fn clean_forced(&mut self) -> Result<bool, Error<F::Error>> {
        Ok(self.step_now()? != Step::Idle)
    }

    fn step_now(&mut self) -> Result<Step, Error<F::Error>> {
        let step = self.step(true)?;
        if step == Step::Waiting {
            self.wait_any()?;
        }
        Ok(step)
    }

    /// Pays for a sector written: see [`crate::Config::bounded`].
    pub(crate) fn pay(&mut self) -> Result<(), Error<F::Error>> {
        self.collect_erases()?;
        if self.job.is_none() && self.choose(false).is_none() {
            return Ok(());
        }
        let rate = self.job.map_or(0, |job| job.rate) * (1 + u32::from(self.is_short()));
        let moves = rate.min(u32::from(self.config.moves_max));
        for _ in 0..moves {
            if !self.cleaner_has_place() || self.copy(1)? == 0 {
                break;
            }
        }
        self.finish_job(false)?;
        Ok(())
    }

    /// Whether more than one segment is missing in the reserve.
    pub(crate) fn is_short(&self) -> bool {
        let (Start::Reserve { segments } | Start::Threshold { segments, .. }) = self.config.start;
        self.free + self.erasing + 1 < u32::from(segments)
    }

    fn choose(&mut self, forced: bool) -> Option<u32> {
        if self.job.is_some() || self.erasing >= u32::from(self.config.erasing_max) {
            return None;
        }
        let segment = self.select(forced)?;
        self.close(segment);
        let record = self.ram.segment(segment);
        let blocks = self.layout.blocks;
        let rate = record.valid.div_ceil((blocks - record.valid).max(1));
        self.job = Some(Job {
            segment,
            next: 0,
            cold: u64::from(record.valid) * u64::from(self.layout.total_blocks())
                < u64::from(self.live) * u64::from(blocks),
            rate,
            spared: self.can_spare(self.layout.bank_of(segment)),
        });
        Some(segment)
    }

    /// Erases the segment that has been cleaned. Not in haste, a bounded disk does so only if
    /// writes can go on elsewhere, or if nothing else brings room.
    fn finish_job(&mut self, in_haste: bool) -> Result<bool, Error<F::Error>> {
        let Some(job) = self.job else {
            return Ok(false);
        };
        if self.ram.segment(job.segment).valid > 0 {
            return Ok(false);
        }
        let bank = self.layout.bank_of(job.segment);
        let calm = self.config.is_bounded() && !in_haste;
        if calm && !self.can_spare(bank) && (self.erasing > 0 || job.spared) {
            if self.erasing == 0 {
                // The room has come to be in its bank. It keeps, and another victim may do.
                self.job = None;
            }
            return Ok(false);
        }
        let begun = self.begin_erase(job.segment)?;
        // Without one under way, waiting would not change that.
        if begun || self.erasing == 0 {
            self.job = None;
        }
        Ok(begun)
    }

    fn copy(&mut self, blocks: u32) -> Result<u32, Error<F::Error>> {
        let mut copied = 0;
        while let Some(job) = self.job {
            if copied == blocks || self.ram.segment(job.segment).valid == 0 {
                break;
            }
            if job.next < self.layout.blocks {
                let block = job.segment * self.layout.blocks + job.next;
                let mut entry = [0; ENTRY_LEN as usize];
                self.flash.read(self.layout.entry_at(block), &mut entry)?;
                let sector = Entry::sector(&entry);
                if self.is_mapped(block, sector) {
                    copied += u32::from(self.copy_block(&job, block, sector)?);
                }
                self.job = Some(Job {
                    next: job.next + 1,
                    ..job
                });
                continue;
            }
            // An entry does not say any more what it said at the mount; the table does.
            let Some((sector, block)) = self.stray(job.segment) else {
                break;
            };
            copied += u32::from(self.copy_block(&job, block, sector)?);
        }
        Ok(copied)
    }

    /// Whether a segment's data is older than what passes through the room that the disk has left:
    /// 7/4 of it has been written since. Measured: with less, blocks that are about to die are laid
    /// to rest among those that stay; from about 10/4 on nothing ever counts as old.
    fn is_aged(&self, segment: u32) -> bool {
        let room = u64::from(self.layout.total_blocks() - self.live);
        let age = self.clock.saturating_sub(self.ram.segment(segment).stamp);
        u64::from(age) * 4 > room * 7
    }

    /// A sector that the table finds in this segment.
    fn stray(&self, segment: u32) -> Option<(u32, u32)> {
        let found = (0..self.layout.sectors).map(|sector| (sector, self.ram.lookup(sector)));
        found
            .filter_map(|(sector, block)| Some((sector, block?)))
            .find(|(_, block)| self.layout.segment_of(*block) == segment)
    }

    /// Moves what is in the blocks whose invalidation a cut has begun in part: the next mount might
    /// read it as begun wholly. Where there is no room they wait for another mount.
    pub(crate) fn settle(&mut self) -> Result<(), Error<F::Error>> {
        for block in core::mem::take(&mut self.shaken).into_iter().flatten() {
            let mut entry = [0; ENTRY_LEN as usize];
            self.flash.read(self.layout.entry_at(block), &mut entry)?;
            let sector = Entry::sector(&entry);
            if !self.is_mapped(block, sector) || !self.cleaner_has_place() {
                continue;
            }
            let job = Job {
                segment: self.layout.segment_of(block),
                next: 0,
                cold: false,
                rate: 0,
                spared: false,
            };
            self.copy_block(&job, block, sector)?;
        }
        Ok(())
    }

    /// Moves a block; false if it has lost its sector on the way.
    fn copy_block(&mut self, job: &Job, from: u32, sector: u32) -> Result<bool, Error<F::Error>> {
        let apart = match self.config.separate {
            Separate::No => false,
            Separate::Cold => job.cold,
            Separate::Cleaner => true,
            Separate::Aged => self.is_aged(job.segment),
        };
        let to = self.allocate(usize::from(apart), true)?;
        if !self.is_mapped(from, sector) {
            // An erase was found done, and a trim that waited for it has come true. The block that
            // was taken stays blank until its segment is erased.
            return Ok(false);
        }
        self.begin_block(to, sector)?;
        let mut chunk = [0; CHUNK];
        for offset in (0..self.layout.sector_size).step_by(CHUNK) {
            self.flash
                .read(self.layout.data_at(from) + offset, &mut chunk)?;
            self.flash.write(self.layout.data_at(to) + offset, &chunk)?;
        }
        self.set_flag(to, PRE_VALID, SET)?;
        let (stamp, now) = (self.ram.segment(job.segment).stamp, self.clock);
        let ages_with_data = self.config.victim != Victim::CostBenefit;
        self.ram.update(self.layout.segment_of(to), |record| {
            record.stamp = if ages_with_data {
                record.stamp.max(stamp)
            } else {
                now
            };
        });
        self.publish(sector, to, true)?;
        self.stats.blocks_copied += 1;
        Ok(true)
    }
}

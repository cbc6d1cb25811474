//! The disk: read, write, trim, flush.

use flashkit_block::BlockDevice;
use flashkit_nor::BankedNorFlash;

use crate::clean::Job;
use crate::damage::Damage;
use crate::entry::{ALLOCATED, BEGUN, INVALID, PRE_VALID, SET, VALID, encode_sector};
use crate::layout::Layout;
use crate::ram::{Pair, Ram, State};
use crate::{Config, Error, Shape, Victim};

/// What a disk has done since it was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sectors that the host wrote.
    pub sectors_written: u64,
    /// Sectors that the host read.
    pub sectors_read: u64,
    /// Sectors that the host trimmed, of those that held something.
    pub sectors_trimmed: u64,
    /// Blocks that the cleaner moved.
    pub blocks_copied: u64,
    /// Segments erased.
    pub segments_erased: u64,
    /// Segments chosen for their low wear.
    pub segments_levelled: u64,
    /// Segments that could not be erased any more.
    pub segments_retired: u64,
    /// Times that an operation waited for an erase.
    pub erase_waits: u64,
    /// Times that an operation was refused with [`Error::Busy`].
    pub refused: u64,
    /// Most pairs that were in the flag update queue.
    pub queue_peak: u64,
}

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Erased.
    Free,
    /// Partly written.
    Open,
    /// Written to its end.
    Closed,
    /// Under erase, or to be erased because an erase was cut.
    Erasing,
    /// Worn out.
    Retired,
}

/// A segment as [`LogDisk::segment`] tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// What it is for.
    pub state: SegmentState,
    /// Blocks that hold a sector.
    pub valid: u32,
    /// Blocks written, dead ones included.
    pub used: u32,
    /// Erases in its life.
    pub erases: u32,
}

/// A mounted log disk over a NOR chip.
///
/// Calls are synchronous. A write costs a block (data, sector number and five flag programs) and,
/// when no block is free, as much cleaning as makes one; [`LogDisk::clean_step`] lets the caller
/// clean before that.
pub struct LogDisk<'a, F> {
    pub(crate) flash: F,
    pub(crate) layout: Layout,
    pub(crate) config: Config,
    pub(crate) volume: u32,
    pub(crate) ram: Ram<'a>,
    /// Segments being written: by the host, and by the cleaner where that is apart.
    pub(crate) frontier: [Option<u32>; 2],
    /// Where each frontier was last.
    pub(crate) active_bank: [u32; 2],
    pub(crate) job: Option<Job>,
    /// Segments free, open, under erase.
    pub(crate) free: u32,
    pub(crate) open: u32,
    pub(crate) erasing: u32,
    /// Blocks not written in open segments.
    pub(crate) open_room: u32,
    /// Sectors that hold something.
    pub(crate) live: u32,
    /// Trims that wait in the queue.
    pub(crate) trims: u32,
    pub(crate) clock: u32,
    /// Blocks written since the mount, the cleaner's included; it wraps.
    pub(crate) programmed: u32,
    pub(crate) chance: u32,
    pub(crate) stats: Stats,
    /// The last victim was chosen for its low wear.
    pub(crate) levelled: bool,
    pub(crate) latched: bool,
    pub(crate) damage: Damage,
    /// Blocks whose invalidation was begun in part, as the mount has found.
    pub(crate) shaken: [Option<u32>; 2],
}

impl<'a, F: BankedNorFlash> LogDisk<'a, F> {
    /// Size and number of sectors.
    pub fn shape(&self) -> Shape {
        Shape {
            sector_size: self.layout.sector_size,
            sectors: self.layout.sectors,
        }
    }

    /// The number that the volume was formatted with.
    pub fn volume(&self) -> u32 {
        self.volume
    }

    /// Blocks of a segment.
    pub fn blocks_per_segment(&self) -> u32 {
        self.layout.blocks
    }

    /// Segments of the chip.
    pub fn segments(&self) -> u32 {
        self.layout.segments
    }

    /// Sectors that hold something.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Segments that are erased and wait to be written.
    pub fn free_segments(&self) -> u32 {
        self.free
    }

    /// What has been done since the mount.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How the disk cleans.
    pub fn config(&self) -> Config {
        self.config
    }

    /// A segment's state.
    ///
    /// # Panics
    /// When there is no such segment.
    pub fn segment(&self, segment: u32) -> SegmentInfo {
        assert!(segment < self.layout.segments, "no segment {segment}");
        let record = self.ram.segment(segment);
        SegmentInfo {
            state: match record.state {
                State::Free => SegmentState::Free,
                State::Open => SegmentState::Open,
                State::Closed => SegmentState::Closed,
                State::Torn | State::Erasing => SegmentState::Erasing,
                State::Retired => SegmentState::Retired,
            },
            valid: record.valid,
            used: record.used,
            erases: record.erases,
        }
    }

    /// The segment that holds a sector. `None`: the sector holds nothing, or there is no such one.
    pub fn segment_of_sector(&self, sector: u32) -> Option<u32> {
        let in_range = sector < self.layout.sectors;
        let block = in_range.then(|| self.ram.lookup(sector)).flatten();
        block.map(|block| self.layout.segment_of(block))
    }

    /// The chip below.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    /// The chip below, to let its time pass or read its counters. Changing its contents breaks the
    /// disk.
    pub fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    /// Gives the chip back. Nothing is to be written first; an erase under way goes on, and is
    /// finished by the next mount.
    pub fn into_flash(self) -> F {
        self.flash
    }

    /// Sets the clock that ages are measured with, under [`Config::caller_clock`]. It does not go
    /// back.
    pub fn set_clock(&mut self, now: u32) {
        if self.config.caller_clock {
            self.clock = self.clock.max(now);
        }
    }

    /// Reads whole sectors from `first` on. What was never written, or trimmed, reads as zeros.
    ///
    /// Costs one flash read a sector, wherever it is; a bank under erase is suspended for it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BufferLength`], [`Error::Flash`]. [`Error::Lost`] on a
    /// damaged disk, of a sector that may have been in the damage.
    pub fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Error<F::Error>> {
        self.check_range(first, buf.len())?;
        for (sector, out) in (first..).zip(buf.chunks_exact_mut(self.layout.sector_size as usize)) {
            let trimmed = self.trims > 0
                && (self.ram.find_pair(sector)).is_some_and(|at| self.ram.pair(at).trimmed);
            match self.ram.lookup(sector).filter(|_| !trimmed) {
                Some(block) => self.flash.read(self.layout.data_at(block), out)?,
                None if self.is_lost(sector) => return Err(Error::Lost { sector }),
                None => out.fill(0),
            }
            self.stats.sectors_read += 1;
        }
        Ok(())
    }

    /// Writes whole sectors from `first` on, each for itself. A sector is durable when its write is
    /// done; what was done before an error stays.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BufferLength`], [`Error::Full`], [`Error::Busy`],
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Error<F::Error>> {
        self.check_range(first, data.len())?;
        self.changing(|disk| {
            for (sector, bytes) in
                (first..).zip(data.chunks_exact(disk.layout.sector_size as usize))
            {
                disk.write_sector(sector, bytes)?;
            }
            Ok(())
        })
    }

    /// Forgets the contents of `count` sectors from `first` on: they read as zeros. Durable after
    /// the next flush.
    ///
    /// Costs two flag programs a sector that held something.
    ///
    /// # Errors
    /// As [`LogDisk::write`].
    pub fn trim(&mut self, first: u32, count: u32) -> Result<(), Error<F::Error>> {
        let len = u64::from(count) * u64::from(self.layout.sector_size);
        self.check_range(first, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.changing(|disk| (first..first + count).try_for_each(|sector| disk.trim_sector(sector)))
    }

    /// Returns when everything written or trimmed before is durable. Waits only for trims of
    /// sectors in a bank under erase.
    ///
    /// # Errors
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn flush(&mut self) -> Result<(), Error<F::Error>> {
        if self.is_damaged() {
            return Ok(());
        }
        self.changing(|disk| {
            while disk.trims > 0 {
                let trimmed = (0..disk.ram.queued()).find(|at| disk.ram.pair(*at).trimmed);
                let Some(at) = trimmed else { break };
                let block = disk.ram.pair(at).old;
                disk.wait_bank(disk.bank_of_block(block))?;
            }
            Ok(())
        })
    }

    fn check_range(&self, first: u32, len: usize) -> Result<(), Error<F::Error>> {
        let size = self.layout.sector_size as usize;
        if !len.is_multiple_of(size) {
            return Err(Error::BufferLength { len });
        }
        let end = first as usize + len / size;
        let sectors = self.layout.sectors;
        if first > sectors || end > sectors as usize {
            let sector = first.max(sectors);
            return Err(Error::OutOfRange { sector });
        }
        Ok(())
    }

    /// Runs an operation that changes the flash; after a driver error there is no other.
    pub(crate) fn changing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error<F::Error>>,
    ) -> Result<T, Error<F::Error>> {
        if self.latched {
            return Err(Error::Latched);
        }
        if self.is_damaged() {
            return Err(Error::Damaged);
        }
        let result = work(self);
        match result {
            Err(Error::Flash(_)) => self.latched = true,
            Err(Error::Busy) => self.stats.refused += 1,
            _ => {}
        }
        result
    }

    pub(crate) fn bank_of_block(&self, block: u32) -> u32 {
        self.layout.bank_of(self.layout.segment_of(block))
    }

    /// Whether the table finds a sector in this block.
    pub(crate) fn is_mapped(&self, block: u32, sector: u32) -> bool {
        sector < self.layout.sectors && self.ram.lookup(sector) == Some(block)
    }

    fn write_sector(&mut self, sector: u32, data: &[u8]) -> Result<(), Error<F::Error>> {
        if self.config.is_bounded() {
            self.check_flags(sector)?;
        }
        let block = self.allocate(0, false)?;
        self.begin_block(block, sector)?;
        self.flash.write(self.layout.data_at(block), data)?;
        self.set_flag(block, PRE_VALID, SET)?;
        if !self.config.caller_clock {
            self.clock = self.clock.saturating_add(1);
        }
        let now = self.clock;
        let segment = self.layout.segment_of(block);
        self.ram.update(segment, |record| record.stamp = now);
        self.publish(sector, block, false)?;
        self.stats.sectors_written += 1;
        if self.config.is_bounded() {
            self.pay()?;
        }
        Ok(())
    }

    /// Whether the flags of a sector written anew, or trimmed, can be updated or queued at once.
    fn check_flags(&mut self, sector: u32) -> Result<(), Error<F::Error>> {
        self.collect_erases()?;
        let waits = match (self.waiting_pair(sector), self.ram.lookup(sector)) {
            (Some(at), _) => {
                let between = self.ram.pair(at).new;
                between.is_some_and(|block| self.is_erasing(self.bank_of_block(block)))
            }
            (None, Some(old)) => {
                self.ram.queue_is_full() && self.is_erasing(self.bank_of_block(old))
            }
            (None, None) => false,
        };
        if waits { Err(Error::Busy) } else { Ok(()) }
    }

    /// Steps 1 and 2 of a block's flags (paper, 2.4), but for the data.
    pub(crate) fn begin_block(&mut self, block: u32, sector: u32) -> Result<(), Error<F::Error>> {
        self.set_flag(block, ALLOCATED, SET)?;
        let entry = self.layout.entry_at(block);
        Ok(self.flash.write(entry, &encode_sector(sector))?)
    }

    /// Programs one flag byte of a block's entry.
    pub(crate) fn set_flag(
        &mut self,
        block: u32,
        flag: u32,
        value: u8,
    ) -> Result<(), Error<F::Error>> {
        // A word of filler around it where the chip programs no single bytes.
        let at = self.layout.entry_at(block) + flag;
        let within = at as usize % F::WRITE_SIZE;
        let mut word = [0xFF; 4];
        word[within] = value;
        Ok(self
            .flash
            .write(at - within as u32, &word[..F::WRITE_SIZE])?)
    }

    /// Marks a block invalid, in two steps.
    pub(crate) fn invalidate(&mut self, block: u32) -> Result<(), Error<F::Error>> {
        self.set_flag(block, INVALID, BEGUN)?;
        self.set_flag(block, INVALID, SET)
    }

    /// Makes a pre-valid block the sector's: steps 4 and 5, now or once a bank has erased. A block
    /// that was only moved stays trimmed, if that waits.
    pub(crate) fn publish(
        &mut self,
        sector: u32,
        new: u32,
        moved: bool,
    ) -> Result<(), Error<F::Error>> {
        loop {
            // A pair that waits already: its new block has not become valid, and need not.
            if let Some(at) = self.waiting_pair(sector) {
                let pair = self.ram.pair(at);
                if let Some(between) = pair.new {
                    if self.is_erasing(self.bank_of_block(between)) {
                        self.wait_bank(self.bank_of_block(between))?;
                        continue;
                    }
                    self.invalidate(between)?;
                }
                let trimmed = pair.trimmed && moved;
                self.trims -= u32::from(pair.trimmed && !moved);
                let new = Some(new);
                self.ram.set_pair(
                    at,
                    Pair {
                        new,
                        trimmed,
                        ..pair
                    },
                );
                break;
            }
            match self.ram.lookup(sector) {
                None => self.set_flag(new, VALID, SET)?,
                Some(old) if self.is_erasing(self.bank_of_block(old)) => {
                    if self.ram.queue_is_full() {
                        self.wait_bank(self.bank_of_block(old))?;
                        continue;
                    }
                    self.enqueue(sector, Some(new), old, false);
                }
                Some(old) => {
                    self.invalidate(old)?;
                    self.set_flag(new, VALID, SET)?;
                }
            }
            break;
        }
        self.remap(sector, Some(new));
        Ok(())
    }

    pub(crate) fn waiting_pair(&self, sector: u32) -> Option<usize> {
        (self.ram.queued() > 0)
            .then(|| self.ram.find_pair(sector))
            .flatten()
    }

    fn enqueue(&mut self, sector: u32, new: Option<u32>, old: u32, trimmed: bool) {
        self.ram.push_pair(Pair {
            sector,
            new,
            old,
            trimmed,
        });
        self.trims += u32::from(trimmed);
        self.stats.queue_peak = self.stats.queue_peak.max(self.ram.queued() as u64);
    }

    /// Points the table to another block, and counts.
    pub(crate) fn remap(&mut self, sector: u32, block: Option<u32>) {
        let now = self.clock;
        if let Some(old) = self.ram.lookup(sector) {
            let counts_age = self.config.victim == Victim::CostBenefit;
            let segment = self.layout.segment_of(old);
            self.ram.update(segment, |record| {
                record.valid -= 1;
                if counts_age {
                    record.stamp = now;
                }
            });
            self.live -= 1;
        }
        if let Some(new) = block {
            let segment = self.layout.segment_of(new);
            self.ram.update(segment, |record| record.valid += 1);
            self.live += 1;
        }
        self.ram.map(sector, block);
    }

    fn trim_sector(&mut self, sector: u32) -> Result<(), Error<F::Error>> {
        let Some(block) = self.ram.lookup(sector) else {
            return Ok(());
        };
        loop {
            // The table keeps pointing there while the trim waits: the block is still valid on
            // flash, so its segment must not go.
            if let Some(at) = self.waiting_pair(sector) {
                let pair = self.ram.pair(at);
                if !pair.trimmed {
                    self.trims += 1;
                    self.stats.sectors_trimmed += 1;
                    self.ram.set_pair(
                        at,
                        Pair {
                            trimmed: true,
                            ..pair
                        },
                    );
                }
                return Ok(());
            }
            if !self.is_erasing(self.bank_of_block(block)) {
                break;
            }
            if !self.ram.queue_is_full() {
                self.enqueue(sector, None, block, true);
                self.stats.sectors_trimmed += 1;
                return Ok(());
            }
            if self.config.is_bounded() {
                self.collect_erases()?;
                if self.is_erasing(self.bank_of_block(block)) {
                    return Err(Error::Busy);
                }
                continue;
            }
            self.wait_bank(self.bank_of_block(block))?;
        }
        self.invalidate(block)?;
        self.remap(sector, None);
        self.stats.sectors_trimmed += 1;
        Ok(())
    }
}

impl<F: BankedNorFlash> BlockDevice for LogDisk<'_, F> {
    type Error = Error<F::Error>;

    const TRIM_ZEROES: bool = true;

    fn sector_size(&self) -> u32 {
        self.layout.sector_size
    }

    fn sector_count(&self) -> u32 {
        self.layout.sectors
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        LogDisk::read(self, first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        LogDisk::write(self, first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        LogDisk::trim(self, first, count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        LogDisk::flush(self)
    }
}

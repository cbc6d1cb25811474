//! The disk: read, write, trim, flush.

use flashkit_block::BlockDevice;
use flashkit_nand::{Nand, PageAddr};

use crate::clean::Job;
use crate::error::Error;
use crate::layout::{Layout, PER_SEGMENT};
use crate::log::Log;
use crate::memory::Memory;
use crate::pack::Pack;
use crate::packed::slot_of;
use crate::place::{HOST, Head};
use crate::ram::Ram;
use crate::record::NONE;
use crate::watch::Watch;

/// What a disk has done since it was mounted. Pages are programs, failed ones left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sectors that the host wrote, elided ones included.
    pub sectors_written: u64,
    /// Of these, sectors of a journal.
    pub journal_sectors: u64,
    /// Of these, homes that were mapped to a page of the journal instead of being programmed.
    pub elided: u64,
    /// Of these, sectors of a journal that were mapped to the page of an older copy instead.
    pub unchanged: u64,
    /// Of these, sectors of a journal that were packed, several in a page.
    pub packed: u64,
    /// Pages of such sectors.
    pub packed_pages: u64,
    /// Of these, sectors of zeros, which have no page.
    pub zeros: u64,
    /// Sectors that [`Jftl::remap`] has mapped.
    pub remapped: u64,
    /// Sectors that the host read.
    pub sectors_read: u64,
    /// Sectors that the host trimmed, of those that held something.
    pub sectors_trimmed: u64,
    /// Pages of the log.
    pub log_pages: u64,
    /// Pages of the map.
    pub map_pages: u64,
    /// Pages of tags, where there are no spare bytes.
    pub tag_pages: u64,
    /// Anchors.
    pub anchors: u64,
    /// Pages that cleaning moved, those of the map included.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks cleaned because their bits rot.
    pub refreshed: u64,
    /// Blocks cleaned because their data rested.
    pub levelled: u64,
    /// Blocks marked bad.
    pub gone_bad: u64,
    /// Blocks with pages whose owners had to be searched for in the map.
    pub searches: u64,
}

/// What a mount needed and could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub what: &'static str,
    /// The page.
    pub page: u32,
}

/// A mounted disk over a NAND chip.
///
/// Calls are synchronous; what a call costs in flash operations is bounded by the chip and the
/// configuration alone.
pub struct Jftl<'a, N> {
    pub(crate) nand: N,
    pub(crate) lay: Layout,
    pub(crate) volume: u32,
    pub(crate) ram: Ram<'a>,
    pub(crate) log: Log,
    pub(crate) heads: [Head; 4],
    pub(crate) job: Option<Job>,
    /// Where the next free block is looked for.
    pub(crate) cursor: u32,
    pub(crate) free: u32,
    pub(crate) dying: u32,
    /// The block at rest to be moved next, and the erases since the last one.
    pub(crate) wear: u32,
    pub(crate) erases: u32,
    /// The slot that was looked at last for old changes.
    pub(crate) hand: usize,
    /// How often the scratch page has been used, to see whether it still holds a page.
    pub(crate) scratch_uses: u32,
    pub(crate) failing: [u32; 8],
    pub(crate) refresh: [u32; 8],
    pub(crate) stuck: [u32; 8],
    /// Where a recovery under way began.
    pub(crate) recovering: Option<u32>,
    /// The log does not say yet that this session writes.
    pub(crate) untouched: bool,
    pub(crate) latched: bool,
    pub(crate) programs_zeros: bool,
    /// What was lost; then nothing is written.
    pub(crate) damage: Option<Damage>,
    pub(crate) stats: Stats,
    pub(crate) watch: Option<Watch<'a>>,
    pub(crate) memory: Memory<'a>,
    pub(crate) pack: Pack<'a>,
}

impl<'a, N: Nand> Jftl<'a, N> {
    /// Bytes of a sector: those of a page.
    pub fn sector_size(&self) -> u32 {
        self.lay.page as u32
    }

    /// Sectors of the disk: 93 % of the chip's pages on chips that are not tiny.
    pub fn sector_count(&self) -> u32 {
        self.lay.sectors
    }

    /// Blocks that can be erased and written.
    pub fn free_blocks(&self) -> u32 {
        self.free
    }

    /// What the mount needed and could not read. Then nothing can be written: a sector
    /// holds what it held after the newest change that can be read, or is
    /// [`Error::Unreadable`]. Copy it, and format.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// What has been done since the mount.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The chip below.
    pub fn nand(&self) -> &N {
        &self.nand
    }

    /// The chip below, to let its time pass or read its counters. Changing its contents breaks the
    /// disk.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }

    /// Gives the chip back as it is; [`Jftl::close`] before makes the next mount short.
    pub fn into_nand(self) -> N {
        self.nand
    }

    /// Reads whole sectors from `first` on. What was never written, or trimmed, reads as zeros.
    ///
    /// Costs one flash read a sector, and one for each piece of the map that is not cached.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BufferLength`], [`Error::Unreadable`], [`Error::Damaged`],
    /// [`Error::Flash`].
    pub fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Error<N::Error>> {
        self.check_range(first, buf.len())?;
        for (sector, out) in (first..).zip(buf.chunks_exact_mut(self.lay.page)) {
            self.stats.sectors_read += 1;
            self.read_plain(sector, out)?;
        }
        if self.watch.is_some() {
            self.note_journal_read(first, buf);
        }
        Ok(())
    }

    /// Reads a sector, and takes no notice of what it is.
    pub(crate) fn read_plain(
        &mut self,
        sector: u32,
        out: &mut [u8],
    ) -> Result<(), Error<N::Error>> {
        let page = self.lookup(sector)?;
        if page == NONE {
            out.fill(0);
            return Ok(());
        }
        if self.is_open(page) {
            return self.read_open(sector, slot_of(page), out);
        }
        if !self.lay.contains(page) {
            return Err(Error::Unreadable { sector });
        }
        if slot_of(page) != 0 {
            return self.read_packed(sector, page, out);
        }
        let status = self.nand.read(PageAddr(page), 0, out, &mut [])?;
        self.note_read(page, status);
        if self.damage.is_some() && !self.is_owned(page, sector)? {
            return Err(Error::Unreadable { sector });
        }
        if status.is_readable() {
            Ok(())
        } else {
            Err(Error::Unreadable { sector })
        }
    }

    /// Writes whole sectors from `first` on, each for itself. Durable after the next flush.
    ///
    /// Costs one program a sector, unless it is all zeros, and its share of log, map and cleaning.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::BufferLength`], [`Error::Full`], [`Error::Damaged`],
    /// [`Error::Flash`], [`Error::Latched`].
    pub fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Error<N::Error>> {
        self.check_range(first, data.len())?;
        self.changing(|disk| {
            if disk.watch.is_some() {
                return disk.write_watched(first, data);
            }
            let sectors = (first..).zip(data.chunks_exact(disk.lay.page));
            sectors
                .into_iter()
                .try_for_each(|(sector, bytes)| disk.write_one(sector, bytes, NONE))
        })
    }

    /// Programs a sector's new page, tagged with a second owner, and does its share of the work.
    pub(crate) fn write_one(
        &mut self,
        sector: u32,
        data: &[u8],
        home: u32,
    ) -> Result<(), Error<N::Error>> {
        self.write_sector(sector, data, home, false)
    }

    /// Does so, or packs it with others if it can be, and if that is `allowed`.
    pub(crate) fn write_sector(
        &mut self,
        sector: u32,
        data: &[u8],
        home: u32,
        allowed: bool,
    ) -> Result<(), Error<N::Error>> {
        self.prepare()?;
        self.stats.sectors_written += 1;
        if self.is_absence(data) {
            self.stats.zeros += 1;
            self.unmap(sector)?;
            return self.maintain();
        }
        let owners = [sector, home];
        if allowed && self.pack_one(owners, data)? {
            return self.maintain();
        }
        let page = loop {
            self.head_room(HOST)?;
            if let Some(page) = self.try_program(HOST, Some(data), owners)? {
                break page;
            }
        };
        if home != NONE {
            self.memory.keep(page, &Self::tag(owners), data);
        }
        self.set(sector, page)?;
        self.maintain()
    }

    /// From now on, whether a sector of zeros is programmed as any other is, instead of being
    /// mapped to no page: to measure with programs whose data is nothing but zeros.
    pub fn program_zeros(&mut self, on: bool) {
        self.programs_zeros = on;
    }

    /// Whether a sector is to have no page, because that reads the same.
    pub(crate) fn is_absence(&self, data: &[u8]) -> bool {
        !self.programs_zeros && data.iter().all(|byte| *byte == 0)
    }

    /// Maps a sector to no page; whether it had one.
    pub(crate) fn unmap(&mut self, sector: u32) -> Result<bool, Error<N::Error>> {
        if self.is_absent(sector / PER_SEGMENT) || self.lookup(sector)? == NONE {
            return Ok(false);
        }
        self.set(sector, NONE)?;
        Ok(true)
    }

    /// Forgets the contents of `count` sectors from `first` on: they read as zeros,
    /// after the next flush for good.
    ///
    /// Costs a record of 8 bytes for each 16 sectors in a row that held something.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn trim(&mut self, first: u32, count: u32) -> Result<(), Error<N::Error>> {
        let len = u64::from(count) * self.lay.page as u64;
        self.check_range(first, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.changing(|disk| {
            let mut sector = first;
            while sector < first + count {
                if disk.is_absent(sector / PER_SEGMENT) {
                    sector = (sector / PER_SEGMENT + 1) * PER_SEGMENT;
                    continue;
                }
                if disk.lookup(sector)? != NONE {
                    disk.prepare()?;
                    disk.set(sector, NONE)?;
                    disk.sweep()?;
                    disk.stats.sectors_trimmed += 1;
                }
                sector += 1;
            }
            Ok(())
        })
    }

    /// Returns when everything written or trimmed before is durable: one program, unless there is
    /// nothing to say, and now and then an erase or two.
    ///
    /// # Errors
    /// [`Error::Flash`], [`Error::Full`], [`Error::Latched`].
    pub fn flush(&mut self) -> Result<(), Error<N::Error>> {
        if self.log.fill > 0 || self.latched {
            self.changing(Self::commit)?;
        }
        self.nand.flush()?;
        self.probe_journal();
        Ok(())
    }

    /// Cleans for a moment ahead of need; whether there is more to do.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn background(&mut self) -> Result<bool, Error<N::Error>> {
        if self.untouched || self.latched || (self.free >= self.lay.low && !self.is_urgent()) {
            return Ok(false);
        }
        self.changing(|disk| {
            disk.prepare()?;
            disk.clean_step(4)
        })
    }

    pub(crate) fn check_range(&self, first: u32, len: usize) -> Result<(), Error<N::Error>> {
        if !len.is_multiple_of(self.lay.page) {
            return Err(Error::BufferLength { len });
        }
        let end = first as usize + len / self.lay.page;
        if first > self.lay.sectors || end > self.lay.sectors as usize {
            let sector = first.max(self.lay.sectors);
            return Err(Error::OutOfRange { sector });
        }
        Ok(())
    }

    /// Runs an operation that changes the flash; after an error there is no other.
    pub(crate) fn changing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error<N::Error>>,
    ) -> Result<T, Error<N::Error>> {
        if let Some(Damage { what, page }) = self.damage {
            return Err(Error::Damaged { what, page });
        }
        if self.latched {
            return Err(Error::Latched);
        }
        let result = if self.untouched {
            self.begin_session().and_then(|()| work(self))
        } else {
            work(self)
        };
        // What is in RAM may be ahead of the log.
        self.latched = matches!(
            result,
            Err(Error::Flash(_) | Error::Damaged { .. } | Error::Full)
        );
        result
    }

    /// Says in the log, before anything else is changed, that the orderly end before is past. The
    /// newest anchor may be that of a session that was cut before it came so far, and not last.
    fn begin_session(&mut self) -> Result<(), Error<N::Error>> {
        self.anchor()?;
        self.commit()?;
        self.untouched = false;
        Ok(())
    }
}

impl<N: Nand> BlockDevice for Jftl<'_, N> {
    type Error = Error<N::Error>;
    const TRIM_ZEROES: bool = true;

    fn sector_size(&self) -> u32 {
        self.sector_size()
    }

    fn sector_count(&self) -> u32 {
        self.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        self.write(first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        self.trim(first, count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.flush()
    }
}

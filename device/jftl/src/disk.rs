//! The disk: read, write, trim, flush.

use flashkit_block::BlockDevice;
use flashkit_nand::Nand;

use crate::error::Error;
use crate::layout::{NONE, PER_SEGMENT};
#[cfg(feature = "journals")]
use crate::memory::Memory;
use crate::state::{Damage, Jftl, Stats};

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

    /// What the mount needed and could not read, or could not write. Then nothing can be written: a
    /// sector holds what it held after the newest change that can be read, or is
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

    /// Lends RAM to the following of a journal, that saves programs and
    /// reads. It may be of any length.
    ///
    /// `sums`: 4 bytes for each sector of the disk; of fewer, sectors share. With them a sector of
    /// the journal that holds what its home's newest copy does is mapped to that copy's page.
    /// `copies`: so many of the journal's pages as last programmed, for 12 bytes and a page each;
    /// what is found there is compared without a read.
    #[cfg(feature = "journals")]
    pub fn remember(&mut self, sums: &'a mut [u8], copies: &'a mut [u8]) {
        self.memory = Memory::new(self.lay.page, sums, copies);
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
        if self.watch().is_some() {
            self.note_journal_read(first, buf);
        }
        Ok(())
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
            if disk.watch().is_some() {
                return disk.write_watched(first, data);
            }
            let sectors = (first..).zip(data.chunks_exact(disk.lay.page));
            sectors
                .into_iter()
                .try_for_each(|(sector, bytes)| disk.write_one(sector, bytes, NONE))
        })
    }

    /// From now on, whether a sector of zeros is programmed as any other is, instead of being
    /// mapped to no page: to measure with programs whose data is nothing but zeros.
    pub fn program_zeros(&mut self, on: bool) {
        self.programs_zeros = on;
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

    /// Cleans for a moment ahead of need; whether there is more to do. Where nothing was written
    /// since the mount, only blocks whose bits rot are cleaned.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn background(&mut self) -> Result<bool, Error<N::Error>> {
        let is_needed = if self.untouched {
            self.has_rot()
        } else {
            self.free < self.lay.low || self.is_urgent()
        };
        if self.damage.is_some() || self.latched || !is_needed {
            return Ok(false);
        }
        self.changing(|disk| {
            disk.prepare()?;
            disk.clean_step(4)
        })
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

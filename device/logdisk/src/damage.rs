//! What a mount has found damaged, and what can be read beside it.
//!
//! A damaged disk is mounted for reading alone: nothing is programmed or erased, and what a cut has
//! left between two flags is made up for in RAM. Invariants:
//!
//! * A sector is read from a block whose entry checks, or not at all. Of two valid blocks of a
//!   sector nothing says which is right: it is lost.
//! * A segment without its header gives the blocks whose entries check, where no segment with a
//!   header has the sector.
//! * A damaged entry that names its sector makes that one lost, if no other block holds it. After
//!   one that does not, every sector that has no block may be lost, and is not read as zeros.

use flashkit_nor::BankedNorFlash;

use crate::entry::{ENTRY_LEN, Entry};
use crate::header::{FIXED_LEN, HeaderError};
use crate::ram::State;
use crate::{Error, LogDisk};

/// What a mount has found damaged: counts. [`LogDisk::each_damage`] tells one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Segments without a header of this disk that checks, and not under erase.
    pub segments: u32,
    /// Entries that no power cut can leave, of blocks in other segments.
    pub entries: u32,
    /// Sectors that two valid blocks hold.
    pub copies: u32,
    /// Sectors that are known to be lost, those of two blocks among them.
    pub lost: u32,
    /// Something is lost that does not name its sector: every sector without a block may be lost,
    /// and reading one is [`Error::Lost`].
    pub unnamed: bool,
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Damage {
            segments,
            entries,
            copies,
            lost,
            ..
        } = self;
        write!(
            f,
            "damaged headers {segments}, damaged entries {entries}, sectors with two copies \
             {copies}; sectors lost {lost}"
        )?;
        if self.unnamed {
            f.write_str(", and perhaps any that holds nothing")?;
        }
        Ok(())
    }
}

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// What the mount has found damaged. The disk is then there for reading alone: a change is
    /// [`Error::Damaged`], and reading a lost sector [`Error::Lost`].
    pub fn damage(&self) -> Option<Damage> {
        self.is_damaged().then_some(self.damage)
    }

    pub(crate) fn is_damaged(&self) -> bool {
        let Damage {
            segments,
            entries,
            copies,
            ..
        } = self.damage;
        segments + entries + copies > 0
    }

    /// Whether a sector without a block may have held something.
    pub(crate) fn is_lost(&self, sector: u32) -> bool {
        self.damage.unnamed || self.ram.is_lost(sector)
    }

    /// Marks a sector as lost.
    pub(crate) fn lose(&mut self, sector: u32) {
        if self.ram.lookup(sector).is_some() {
            self.remap(sector, None);
        }
        self.ram.set_lost(sector);
        self.damage.lost += 1;
    }

    /// Completes the table of a damaged disk.
    pub(crate) fn salvage(&mut self) -> Result<(), Error<F::Error>> {
        // What waited between two flags is newer than what it was to replace.
        self.each_entry(|disk, block, entry| {
            if let Entry::PreValid(sector) = entry
                && !disk.ram.is_lost(sector)
            {
                disk.remap(sector, Some(block));
            }
            Ok(())
        })?;
        for segment in 0..self.layout.segments {
            if self.ram.segment(segment).state == State::Retired {
                self.salvage_segment(segment)?;
            }
        }
        for segment in 0..self.layout.segments {
            if self.holds_own_entries(segment)? {
                self.each_entry_in(segment, |disk, block, entry| {
                    if entry == Entry::Damaged {
                        disk.lose_block(block)?;
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Whether the entries of a segment are this disk's: not if its erase was cut, or its header
    /// says that it is another's.
    fn holds_own_entries(&mut self, segment: u32) -> Result<bool, Error<F::Error>> {
        Ok(match self.ram.segment(segment).state {
            State::Torn => false,
            State::Retired => self.header_of(segment)?.is_err(),
            _ => true,
        })
    }

    /// Takes what a segment without a header has.
    fn salvage_segment(&mut self, segment: u32) -> Result<(), Error<F::Error>> {
        if !self.holds_own_entries(segment)? {
            // What this disk had here nothing says.
            self.damage.unnamed = true;
            return Ok(());
        }
        let mut header = [0; FIXED_LEN];
        let at = self.layout.segment_at(segment);
        self.flash.read(at, &mut header)?;
        // Wiped, its summary as well: nothing says what was there.
        self.damage.unnamed |= header == [0xFF; FIXED_LEN] || header == [0; FIXED_LEN];
        self.each_entry_in(segment, |disk, block, entry| {
            if let Entry::Valid(sector) | Entry::PreValid(sector) = entry
                && disk.ram.lookup(sector).is_none()
                && !disk.ram.is_lost(sector)
            {
                disk.remap(sector, Some(block));
            }
            Ok(())
        })
    }

    /// A block whose entry is damaged: its sector is lost, if no other block holds it.
    fn lose_block(&mut self, block: u32) -> Result<(), Error<F::Error>> {
        let mut bytes = [0; ENTRY_LEN as usize];
        self.flash.read(self.layout.entry_at(block), &mut bytes)?;
        match Entry::named(&bytes, self.layout.sectors) {
            None => self.damage.unnamed = true,
            Some(sector) => {
                if self.ram.lookup(sector).is_none() && !self.ram.is_lost(sector) {
                    self.lose(sector);
                }
            }
        }
        Ok(())
    }

    /// Tells each damage once: [`Error::Magic`], [`Error::Header`], [`Error::Geometry`] and
    /// [`Error::Volume`] of a segment, [`Error::Entry`], [`Error::TwoCopies`], and
    /// [`Error::Lost`] of each sector that is known to be lost.
    ///
    /// Costs a read of all summaries; for each sector with two copies one more. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Flash`].
    pub fn each_damage(
        &mut self,
        mut each: impl FnMut(Error<F::Error>),
    ) -> Result<(), Error<F::Error>> {
        if !self.is_damaged() {
            return Ok(());
        }
        for segment in 0..self.layout.segments {
            let state = self.ram.segment(segment).state;
            if state == State::Retired {
                each(self.header_damage(segment)?);
            }
            if !self.holds_own_entries(segment)? {
                continue;
            }
            self.each_entry_in(segment, |disk, block, entry| {
                match entry {
                    Entry::Damaged => each(Error::Entry {
                        segment,
                        block: block % disk.layout.blocks,
                    }),
                    Entry::Valid(sector) if disk.ram.is_lost(sector) => {
                        if let Some(first) = disk.first_copy(sector, block)? {
                            let second = block;
                            each(Error::TwoCopies {
                                sector,
                                first,
                                second,
                            });
                        }
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        let lost = (0..self.layout.sectors).filter(|sector| self.ram.is_lost(*sector));
        lost.for_each(|sector| each(Error::Lost { sector }));
        Ok(())
    }

    /// What is wrong with a segment's header.
    fn header_damage(&mut self, segment: u32) -> Result<Error<F::Error>, Error<F::Error>> {
        Ok(match self.header_of(segment)? {
            Err(HeaderError::Magic) => Error::Magic { segment },
            Err(_) => Error::Header { segment },
            Ok(header) => match self.check_header(segment, &header) {
                Err(error) => error,
                Ok(()) => Error::Volume { segment },
            },
        })
    }

    /// A valid block of a sector before another one.
    fn first_copy(&mut self, sector: u32, before: u32) -> Result<Option<u32>, Error<F::Error>> {
        let mut first = None;
        for segment in 0..=self.layout.segment_of(before) {
            if !self.ram.segment(segment).state.is_in_use() {
                continue;
            }
            self.each_entry_in(segment, |_, block, entry| {
                if block < before && entry == Entry::Valid(sector) {
                    first = first.or(Some(block));
                }
                Ok(())
            })?;
        }
        Ok(first)
    }
}

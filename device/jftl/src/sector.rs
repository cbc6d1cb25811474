//! One sector: read, written, or mapped to no page.

use flashkit_nand::{Nand, PageAddr};

use crate::error::Error;
use crate::layout::{NONE, PER_SEGMENT, slot_of};
use crate::state::{HOST, Jftl};

impl<N: Nand> Jftl<'_, N> {
    pub(crate) fn check_range(&self, first: u32, len: usize) -> Result<(), Error<N::Error>> {
        if !len.is_multiple_of(self.lay.page) {
            return Err(Error::BufferLength { len });
        }
        // No sum: where addresses have 32 bits it could be too large.
        let left = self.lay.sectors.checked_sub(first);
        if left.is_none_or(|left| len / self.lay.page > left as usize) {
            let sector = first.max(self.lay.sectors);
            return Err(Error::OutOfRange { sector });
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
        if self.is_salvaged() && !self.is_owned(page, sector)? {
            return Err(Error::Unreadable { sector });
        }
        if status.is_readable() {
            Ok(())
        } else {
            Err(Error::Unreadable { sector })
        }
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
}

//! Reads, and what is believed of them.

use crate::boot::Error;
use crate::format::header::{self, HEADER, Kind};
use crate::format::tag::{self, Form, Tag};
use flashkit_nand::{Geometry, Nand, PageAddr, ReadStatus};

/// More numbers than are given between two checkpoints.
const MANY: u64 = 1 << 28;

/// The chip, and what must be known of the volume to believe a page.
pub(super) struct Chip<N: Nand> {
    pub nand: N,
    pub geo: Geometry,
    pub volume: u32,
    pub tags: Option<Form>,
    /// The number of the checkpoint: pages with larger ones are changes since.
    pub since: u64,
    pub failure: Option<N::Error>,
}

impl<N: Nand> Chip<N> {
    pub fn new(nand: N) -> Self {
        let geo = nand.geometry();
        Chip {
            nand,
            geo,
            volume: 0,
            tags: Form::new(geo.spare_size()),
            since: 0,
            failure: None,
        }
    }

    /// What the driver gave.
    pub fn kept<T>(&mut self, result: Result<T, N::Error>) -> Result<T, Error> {
        result.map_err(|e| {
            self.failure = Some(e);
            Error::Driver
        })
    }

    /// Numbers from here on were not given yet.
    pub fn end(&self) -> u64 {
        self.since.saturating_add(MANY)
    }

    /// Reads a metadata page, as far as it is used. One that cannot be read, or is not on the chip,
    /// begins with zeros. A page that is uncorrectable is read once more.
    pub fn read_raw(&mut self, at: PageAddr, page: &mut [u8]) -> Result<bool, Error> {
        let mut readable = false;
        for _ in 0..2 {
            if readable || !self.geo.contains(at) {
                break;
            }
            let read = self.nand.read_used(at, page, HEADER, &header::used);
            readable = self.kept(read)?.is_readable();
        }
        if !readable {
            page.iter_mut().take(HEADER).for_each(|byte| *byte = 0);
        }
        let used = header::used(page).max(HEADER);
        page.iter_mut().skip(used).for_each(|byte| *byte = 0xff);
        Ok(readable)
    }

    /// The same; its kind if it is a page of this volume. What it says is not looked at: views
    /// read no further than the page, and what leads nowhere is an error where it is followed.
    pub fn read_meta(&mut self, at: PageAddr, page: &mut [u8]) -> Result<Option<Kind>, Error> {
        if !self.read_raw(at, page)? {
            return Ok(None);
        }
        Ok(header::parse(page, at)
            .ok()
            .filter(|h| h.volume == self.volume)
            .map(|h| h.kind))
    }

    /// Reads a metadata page that must be of one kind.
    pub fn expect(&mut self, at: PageAddr, page: &mut [u8], kind: Kind) -> Result<(), Error> {
        match self.read_meta(at, page)? {
            Some(found) if found == kind => Ok(()),
            _ => Err(Error::Damaged),
        }
    }

    /// Whether a metadata page is a change since the checkpoint.
    pub fn is_since(&self, page: &[u8]) -> bool {
        header::number(page) > self.since
    }

    pub fn read(
        &mut self,
        at: PageAddr,
        page: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Error> {
        let read = self.nand.read(at, 0, page, spare);
        self.kept(read)
    }

    /// Reads a whole page of data, which must be page `index` of a file.
    pub fn read_data(
        &mut self,
        at: PageAddr,
        page: &mut [u8],
        ino: u32,
        index: u32,
    ) -> Result<(), Error> {
        if !self.geo.contains(at) {
            return Err(Error::Damaged);
        }
        let mut tag = [0; tag::SIZE];
        let Some(form) = self.tags else {
            let status = self.read(at, page, &mut [])?;
            return if status.is_readable() {
                Ok(())
            } else {
                Err(Error::Damaged)
            };
        };
        let status = self.read(at, page, &mut tag)?;
        let read = tag;
        let is_it = status.is_readable()
            && Tag::check(form, &mut tag, page, self.end()).is_some()
            && Tag::is_of(form, &tag, &read, (ino, index));
        if is_it { Ok(()) } else { Err(Error::Damaged) }
    }
}

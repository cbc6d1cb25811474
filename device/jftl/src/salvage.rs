//! A mount where a page of the log, or of the map, cannot be read: for reading alone.
//!
//! All of the log that can be read is applied, in order. A page that a sector is then thought to be
//! in may hold another's data by now, because the record that says so is lost: tags tell.

use flashkit_nand::Nand;

use crate::error::Error;
use crate::layout::{HEADER, NONE, PER_SEGMENT, SEGMENT};
use crate::record::{Anchor, Header, Kind, OPEN, RECORD, Record};
use crate::recover::Walk;
use crate::state::{Damage, Jftl};

/// Stands in the map for a page that is not known; it is beyond any chip.
const LOST: u32 = NONE - 1;

impl<N: Nand> Jftl<'_, N> {
    /// Fills the whole map with what can be read, and has nothing written from now on.
    pub(crate) fn salvage(&mut self, damage: Damage) -> Result<(), Error<N::Error>> {
        self.untouched = true;
        let mut end = self.find_anchor()?.ok_or_else(|| damage.error())?;
        if end.flags & OPEN != 0 {
            // A transaction that has no end.
            end.seq = end.part.wrapping_sub(1);
        }
        self.log.start = 1;
        self.load(end, false)?;
        for map_page in 0..self.lay.map_pages {
            self.reload(map_page)?;
        }
        let mut walk = self.walk(1, end.seq)?;
        while let Some(header) = self.walk_on(&mut walk)? {
            if header.kind == Kind::Records {
                self.apply(&walk, header.len)?;
            }
        }
        self.count_free();
        Ok(())
    }

    /// The newest page of the log that can be read; what counts of each block begins where its
    /// first readable page says. As in [`Jftl::find_end`], what names an older anchor than what is
    /// before it in the list is left from before.
    pub(crate) fn last_readable(&mut self) -> Result<Option<Header>, Error<N::Error>> {
        let (mut name, mut end) = (0, NONE);
        for i in 0..self.log.len {
            for page in 0..self.lay.pages {
                let header = self.load_log_page(i, page)?;
                let Some(header) = header.filter(|h| !Anchor::is_older(h.anchor, name)) else {
                    continue;
                };
                if self.log.at != i {
                    self.begin_block(i, header.seq);
                    self.log.at = i;
                }
                name = header.anchor;
                end = self.ram.log(i).0 * self.lay.pages + page;
            }
        }
        match end {
            NONE => Ok(None),
            end => self.load_log_end(end),
        }
    }

    /// Takes a map page up, or notes that it is lost.
    fn reload(&mut self, map_page: u32) -> Result<(), Error<N::Error>> {
        let place = self.ram.place(map_page);
        let is_known = self.ram.is_marked(map_page);
        let mut is_there = false;
        if self.lay.is_page(place) {
            let owner = self.lay.sectors + map_page;
            is_there = self.load_page(place)? && self.is_owned(place, owner)?;
        }
        if !is_there {
            let fill = if is_known && place == NONE {
                NONE
            } else {
                LOST
            };
            for bytes in self.ram.scratch.chunks_exact_mut(4) {
                bytes.copy_from_slice(&fill.to_le_bytes());
            }
        }
        for i in 0..self.lay.per_page {
            let segment = map_page * self.lay.per_page + i;
            self.ram
                .fill_slot_from_scratch(segment, i as usize * SEGMENT);
        }
        Ok(())
    }

    /// Applies the page of records that a walk has come to. A map page holds all changes before the
    /// record of its place: what an older record says of its sectors is void there.
    fn apply(&mut self, walk: &Walk, len: usize) -> Result<(), Error<N::Error>> {
        for i in 0..len / RECORD {
            let record = Record::get(self.ram.scratch, HEADER + i * RECORD);
            if !record.is_sound(&self.lay) {
                continue;
            }
            if record.number >= self.lay.sectors {
                let first = record.number - self.lay.sectors;
                (first..first + record.run).try_for_each(|map_page| self.reload(map_page))?;
                let (block, page) = walk.before(self.log.ordinal);
                if self.load_log_page(block, page)?.is_none() {
                    return Ok(());
                }
                continue;
            }
            for i in 0..record.run {
                let sector = record.number + i;
                if let Some(slot) = self.ram.find(sector / PER_SEGMENT) {
                    let entry = sector % PER_SEGMENT;
                    self.ram.set_entry(slot, entry, record.page_at(i));
                }
            }
        }
        Ok(())
    }
}

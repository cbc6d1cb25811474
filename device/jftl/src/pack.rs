//! Several sectors of the journal in a page.
//!
//! Metadata is journalled with each transaction that changes it, a sector for a few changed
//! bytes. Such sectors are collected in RAM as [`packed`] has them, and programmed as one page
//! when the next one has no room, before a log page or a map page is written, and before the
//! head's last page is taken. Until then the map and the records that wait say [`OPEN_PAGE`];
//! no page on flash ever does.

use flashkit_nand::{Nand, PageAddr};

use crate::error::Error;
use crate::layout::{NONE, PER_SEGMENT, SLOTS, TAG, page_of, place_of, slot_of};
use crate::packed::{self, Added, MARK, OPEN_PAGE};
use crate::record::Record;
use crate::squeeze;
use crate::state::{HOST, JOURNALS, Jftl};

impl<'a, N: Nand> Jftl<'a, N> {
    /// Lends a page of RAM to pack sectors of the journal in that can be coded in three quarters of
    /// their bytes: inodes, directories, bitmaps, descriptors, and ends of files. Several of them
    /// take one program then, and a read each. A flush programs the page too.
    ///
    /// Needs the whole map in RAM. Nothing is packed with less, or with a shorter `page`; a page
    /// lent before stays in use. What has been packed is read and cleaned without.
    #[cfg(feature = "journals")]
    pub fn pack(&mut self, page: &'a mut [u8]) {
        let len = self.lay.page;
        if self.ram.direct && self.pack.page.is_empty() && page.len() >= len {
            self.pack.page = &mut page[..len];
            packed::clear(self.pack.page);
        }
    }

    /// Packs a sector if that can be done.
    pub(crate) fn pack_one(
        &mut self,
        owners: [u32; 2],
        data: &[u8],
    ) -> Result<bool, Error<N::Error>> {
        if !JOURNALS || self.pack.page.is_empty() {
            return Ok(false);
        }
        if self.log.fill == self.ram.records_max() {
            // Not between the sector's slot and its record.
            self.commit()?;
        }
        if !self.has_room_to_pack() {
            self.emit()?;
            self.head_room(HOST)?;
            if !self.has_room_to_pack() {
                return Ok(false);
            }
        }
        let mut added = packed::add(self.pack.page, owners, data);
        if added == Added::NoRoom {
            self.emit()?;
            self.head_room(HOST)?;
            if !self.has_room_to_pack() {
                return Ok(false);
            }
            added = packed::add(self.pack.page, owners, data);
        }
        let Added::Slot(slot) = added else {
            return Ok(false);
        };
        self.pack.count = slot;
        self.stats.packed += 1;
        self.set(owners[0], place_of(OPEN_PAGE, slot))?;
        Ok(true)
    }

    /// Whether the head's block can count another slot: all owners that it may have got when the
    /// page is there, and later two for each slot, so that homes can still be mapped to them.
    fn has_room_to_pack(&self) -> bool {
        let count = self.pack.count + 1;
        let is_same = self.pack.block == self.heads[HOST].block;
        let (pages, slots) = if is_same {
            (self.pack.pages, self.pack.slots)
        } else {
            (0, 0)
        };
        let others = self.lay.usable.saturating_sub(pages + 1);
        self.has_room_for(HOST, count) && 2 * (slots + count + others) < self.ram.count_max()
    }

    /// Programs the page under construction, if there is anything in it, and tells the map
    /// and the records that wait.
    pub(crate) fn emit(&mut self) -> Result<(), Error<N::Error>> {
        if self.packed() == 0 {
            return Ok(());
        }
        let page = core::mem::take(&mut self.pack.page);
        let count = core::mem::take(&mut self.pack.count);
        self.pack.is_busy = true;
        let programmed = self.program_packed(page);
        self.pack.is_busy = false;
        if programmed.is_ok() {
            packed::clear(page);
        } else {
            self.pack.count = count;
        }
        self.pack.page = page;
        programmed
    }

    fn program_packed(&mut self, bytes: &[u8]) -> Result<(), Error<N::Error>> {
        let owners = [MARK, NONE];
        let page = loop {
            self.head_room(HOST)?;
            if let Some(page) = self.try_program(HOST, Some(bytes), owners)? {
                break page;
            }
        };
        self.stats.packed_pages += 1;
        let block = self.lay.block_of(page);
        if self.pack.block != block {
            (self.pack.block, self.pack.pages, self.pack.slots) = (block, 0, 0);
        }
        self.pack.pages += 1;
        self.pack.slots += packed::count(bytes);
        self.memory.keep(page, &Self::tag(owners), bytes);
        for slot in 1..=packed::count(bytes) {
            let [sector, _] = packed::owners(bytes, slot);
            let i = sector % PER_SEGMENT;
            // Nobody else can have got it: it is beyond the chip, and so nothing shares it.
            if let Some(cached) = self.ram.find(sector / PER_SEGMENT)
                && self.ram.entry(cached, i) == place_of(OPEN_PAGE, slot)
            {
                let place = place_of(page, slot);
                self.ram.set_entry(cached, i, place);
                self.gain(place);
            }
        }
        for i in 0..self.log.fill {
            let mut record = Record::waiting(self.ram.pending, i);
            if page_of(record.page) == OPEN_PAGE {
                record.page = place_of(page, slot_of(record.page));
                record.put_waiting(self.ram.pending, i);
            }
        }
        Ok(())
    }

    /// Whether a place is a slot of the page under construction. A damaged map may
    /// say so when there is none.
    pub(crate) fn is_open(&self, place: u32) -> bool {
        page_of(place) == OPEN_PAGE && (1..=self.packed()).contains(&slot_of(place))
    }

    /// Reads a sector from the page under construction.
    pub(crate) fn read_open(
        &mut self,
        sector: u32,
        slot: u32,
        out: &mut [u8],
    ) -> Result<(), Error<N::Error>> {
        match packed::bytes(self.pack.page, slot) {
            Some(code) if squeeze::decode(code, out) => Ok(()),
            _ => Err(Error::Unreadable { sector }),
        }
    }

    /// Reads a sector from its slot.
    pub(crate) fn read_packed(
        &mut self,
        sector: u32,
        place: u32,
        out: &mut [u8],
    ) -> Result<(), Error<N::Error>> {
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let page = page_of(place);
        let Self { nand, ram, .. } = self;
        let status = nand.read(PageAddr(page), 0, ram.scratch, &mut [])?;
        self.note_read(page, status);
        let slot = slot_of(place);
        let is_known =
            !self.is_salvaged() || packed::owners(self.ram.scratch, slot).contains(&sector);
        let code = packed::bytes(self.ram.scratch, slot).filter(|_| is_known);
        match code.filter(|_| status.is_readable()) {
            Some(code) if squeeze::decode(code, out) => Ok(()),
            _ => Err(Error::Unreadable { sector }),
        }
    }

    /// Moves a packed page, if an owner that it names still has a slot of it: as it is, or, where
    /// the head's block cannot count as many owners, slot by slot. Returns the pages programmed.
    pub(crate) fn move_packed(&mut self, page: u32, head: usize) -> Result<u32, Error<N::Error>> {
        if !self.read_page(page, &mut [0; TAG])? {
            return Ok(0);
        }
        let mut owners = [[NONE; 2]; SLOTS as usize];
        for (slot, owners) in (1..).zip(&mut owners) {
            *owners = packed::owners(self.ram.scratch, slot);
        }
        let (mut owns, mut count) = ([[false; 2]; SLOTS as usize], 0);
        for i in 0..owners.len() {
            let place = place_of(page, i as u32 + 1);
            for side in 0..2 {
                owns[i][side] = self.owns(owners[i][side], place)?;
                count += u32::from(owns[i][side]);
            }
        }
        if count == 0 {
            return Ok(0);
        }
        if !self.has_room_for(head, count) {
            let mut moved = 0;
            for i in 0..owners.len() {
                if owns[i] != [false; 2] {
                    let place = place_of(page, i as u32 + 1);
                    moved += self.move_slot(place, head, owners[i], owns[i])?;
                }
            }
            return Ok(moved);
        }
        let Some(moved) = self.move_page(page, head, [MARK, NONE], false)? else {
            return Ok(0);
        };
        self.stats.copies += 1;
        let is_held = self.hold(moved);
        for i in 0..owners.len() {
            let place = place_of(moved, i as u32 + 1);
            for side in 0..2 {
                if owns[i][side] {
                    self.set(owners[i][side], place)?;
                }
            }
        }
        if is_held {
            self.lose(moved);
        }
        Ok(1)
    }

    /// Moves a slot, or a page that could not be read, to a page of its own, for those of its
    /// owners that have it. Returns the pages programmed.
    pub(crate) fn move_slot(
        &mut self,
        place: u32,
        head: usize,
        owners: [u32; 2],
        owns: [bool; 2],
    ) -> Result<u32, Error<N::Error>> {
        let moved = self.extract(place, head, owners)?;
        self.stats.copies += 1;
        let is_held = self.hold(moved);
        for side in 0..2 {
            if owns[side] {
                self.set(owners[side], moved)?;
            }
        }
        if is_held {
            self.lose(moved);
        }
        Ok(1)
    }

    /// Programs what is in a place once more, in a page of its own; its place there. What cannot be
    /// read, and could not before, is lost there as well: its owners stay errors.
    pub(crate) fn extract(
        &mut self,
        place: u32,
        head: usize,
        owners: [u32; 2],
    ) -> Result<u32, Error<N::Error>> {
        loop {
            self.head_room(head)?;
            let (from, slot) = (page_of(place), slot_of(place));
            let readable = self.read_page(from, &mut [0; TAG])?;
            let is_whole = readable && slot == 0;
            let is_slot = readable && packed::keep_one(self.ram.scratch, slot, owners);
            if !is_whole && !is_slot {
                packed::lose(self.ram.scratch, owners);
            }
            let (tag, slot) = if is_whole {
                (owners, 0)
            } else {
                ([MARK, NONE], 1)
            };
            if let Some(page) = self.try_program(head, None, tag)? {
                return Ok(place_of(page, slot));
            }
        }
    }
}

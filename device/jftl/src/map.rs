//! The map from sectors to pages: pages of it on flash, pieces of them cached.

use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{Nand, PageAddr, ReadStatus};

use crate::error::Error;
use crate::layout::{NONE, PER_SEGMENT, SEGMENT};
use crate::ram::State;
use crate::state::{HOST, Head, Jftl, MAP};

impl<N: Nand> Jftl<'_, N> {
    /// The page that holds a sector, or [`NONE`]. A flash read when its segment is not cached; a
    /// program when that pushes out a changed one.
    pub(crate) fn lookup(&mut self, sector: u32) -> Result<u32, Error<N::Error>> {
        let segment = sector / PER_SEGMENT;
        if self.ram.find(segment).is_none() && self.is_absent(segment) {
            return Ok(NONE);
        }
        // What has changed in RAM is not written any more, and stays there.
        let is_fixed = self.latched || self.damage.is_some();
        if is_fixed && self.ram.find(segment).is_none() {
            self.fill_map_page(segment / self.lay.per_page)?;
            let at = segment % self.lay.per_page * SEGMENT as u32 + sector % PER_SEGMENT * 4;
            return Ok(get_u32(self.ram.scratch, at as usize));
        }
        let slot = self.slot_of(segment)?;
        Ok(self.ram.entry(slot, sector % PER_SEGMENT))
    }

    /// Whether a segment is neither cached nor on flash, though its map page may be.
    pub(crate) fn is_absent(&self, segment: u32) -> bool {
        self.ram.place(segment / self.lay.per_page) == NONE && self.ram.find(segment).is_none()
    }

    /// Caches a segment.
    pub(crate) fn slot_of(&mut self, segment: u32) -> Result<usize, Error<N::Error>> {
        if let Some(slot) = self.ram.find(segment) {
            self.ram.touch(slot);
            return Ok(slot);
        }
        let slot = self.ram.victim(segment);
        if self.ram.dirty(slot) != 0 {
            let pushed = self.ram.segment(slot);
            // A read may come here too: what fails then is a change all the same.
            let written = self.map_write(pushed / self.lay.per_page);
            self.latched |= written.is_err();
            written?;
        }
        self.ram.set_segment(slot, NONE);
        let place = self.ram.place(segment / self.lay.per_page);
        if place == NONE {
            self.ram.slot_bytes(slot).fill(0xFF);
        } else {
            let offset = segment % self.lay.per_page * SEGMENT as u32;
            let Self { nand, ram, .. } = self;
            let bytes = ram.slot_bytes(slot);
            let status = nand.read(PageAddr(place), offset, bytes, &mut [])?;
            self.check_map(place, status)?;
        }
        self.ram.set_segment(slot, segment);
        self.ram.set_dirty(slot, 0);
        self.ram.touch(slot);
        Ok(slot)
    }

    fn check_map(&mut self, place: u32, status: ReadStatus) -> Result<(), Error<N::Error>> {
        self.note_read(place, status);
        if status.is_readable() {
            return Ok(());
        }
        Err(Error::Damaged {
            what: "a page of the map",
            page: place,
        })
    }

    /// Maps a sector to a page, or to none, and logs it. Durable with the log page.
    pub(crate) fn set(&mut self, sector: u32, page: u32) -> Result<(), Error<N::Error>> {
        let slot = self.slot_of(sector / PER_SEGMENT)?;
        let i = sector % PER_SEGMENT;
        if self.ram.entry(slot, i) == page {
            return Ok(());
        }
        self.append(sector, page)?;
        self.change(slot, i, page, self.log.next);
        Ok(())
    }

    /// Changes an entry in RAM; `seq` is the log page that has its record.
    pub(crate) fn change(&mut self, slot: usize, i: u32, page: u32, seq: u32) {
        let old = self.ram.entry(slot, i);
        self.ram.set_entry(slot, i, page);
        if self.ram.dirty(slot) == 0 {
            self.ram.set_dirty(slot, seq);
        }
        self.gain(page);
        self.lose(old);
    }

    /// One more number is mapped to a page.
    pub(crate) fn gain(&mut self, page: u32) {
        if page == NONE || !self.lay.contains(page) {
            return;
        }
        let block = self.lay.block_of(page);
        match self.ram.state(block) {
            State::Used(n) => self.ram.set_state(block, State::Used(n + 1)),
            State::Held => self.ram.set_state(block, State::Used(1)),
            State::Dying => {
                self.dying -= 1;
                self.ram.set_state(block, State::Used(1));
            }
            // A damaged map; the block is left alone.
            State::Anchor | State::Log | State::Bad => {}
        }
    }

    /// Keeps the block of a page that was programmed, and that nothing is mapped to yet, from
    /// counting as empty: a map page that is written in between may end it. Whether that is to be
    /// undone by [`Jftl::lose`].
    pub(crate) fn hold(&mut self, page: u32) -> bool {
        // Where there are more, they do not go meanwhile.
        let is_held = matches!(self.ram.state(self.lay.block_of(page)), State::Used(0..=1));
        if is_held {
            self.gain(page);
        }
        is_held
    }

    /// Whether the table can count one number more that is mapped to a page, and all that the rest
    /// of its block may still get. What is being cleaned gets no more.
    pub(crate) fn can_gain(&self, page: u32) -> bool {
        if !self.lay.contains(page) {
            return false;
        }
        let block = self.lay.block_of(page);
        let open = self.heads.iter().find(|head| head.block == block);
        let left = open.map_or(0, |head| self.lay.usable.saturating_sub(head.next));
        let is_cleaned = self.job.is_some_and(|job| job.block == block);
        let packed = if self.heads[HOST].block == block {
            self.pack.count
        } else {
            0
        };
        match self.ram.state(block) {
            State::Used(n) if !is_cleaned => n + 1 + packed + 2 * left < self.ram.count_max(),
            _ => false,
        }
    }

    /// Whether the next page of a head may get so many owners, and those behind it two each.
    pub(crate) fn has_room_for(&self, head: usize, owners: u32) -> bool {
        let Head { block, next } = self.heads[head];
        if block == NONE || next >= self.lay.usable {
            return false;
        }
        match self.ram.state(block) {
            State::Used(n) => n + owners + 2 * (self.lay.usable - next - 1) < self.ram.count_max(),
            _ => false,
        }
    }

    /// One number less is mapped to a page. A count at its limit may be too low: it stays
    /// until all are counted anew.
    pub(crate) fn lose(&mut self, page: u32) {
        if page == NONE || !self.lay.contains(page) {
            return;
        }
        let block = self.lay.block_of(page);
        if let State::Used(n) = self.ram.state(block)
            && n < self.ram.count_max()
        {
            self.ram.set_state(block, State::Used(n.saturating_sub(1)));
            if n <= 1 && !self.is_head(block) {
                self.set_dying(block);
            }
        }
    }

    pub(crate) fn set_dying(&mut self, block: u32) {
        self.ram.set_state(block, State::Dying);
        self.dying += 1;
        if self.job.is_some_and(|job| job.block == block) {
            self.job = None;
        }
    }

    /// Writes a map page with what is cached of it, and logs its place.
    ///
    /// A program, and a read where not all of it is cached.
    pub(crate) fn map_write(&mut self, map_page: u32) -> Result<(), Error<N::Error>> {
        self.emit()?;
        let first = map_page * self.lay.per_page;
        let page = loop {
            self.head_room(MAP)?;
            self.fill_map_page(map_page)?;
            let owner = self.lay.sectors + map_page;
            if let Some(page) = self.try_program(MAP, None, [owner, NONE])? {
                break page;
            }
        };
        self.stats.map_pages += 1;
        // First, as in `set`: this may write a log page that has no room for the record. Until the
        // record is there, a recovery needs the page before, and what was logged since.
        self.append(self.lay.sectors + map_page, page)?;
        for segment in first..first + self.lay.per_page {
            if let Some(slot) = self.ram.find(segment) {
                self.ram.set_dirty(slot, 0);
            }
        }
        let old = self.ram.place(map_page);
        self.ram.set_place(map_page, page);
        self.gain(page);
        self.lose(old);
        Ok(())
    }

    /// Puts a map page together in the scratch page.
    pub(crate) fn fill_map_page(&mut self, map_page: u32) -> Result<(), Error<N::Error>> {
        let first = map_page * self.lay.per_page;
        let place = self.ram.place(map_page);
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let all = (0..self.lay.per_page).all(|i| self.ram.find(first + i).is_some());
        if all || place == NONE {
            self.ram.scratch.fill(0xFF);
        } else {
            let Self { nand, ram, .. } = self;
            let status = nand.read(PageAddr(place), 0, ram.scratch, &mut [])?;
            self.check_map(place, status)?;
        }
        for i in 0..self.lay.per_page {
            if let Some(slot) = self.ram.find(first + i) {
                let at = i as usize * SEGMENT;
                for entry in 0..PER_SEGMENT {
                    let page = self.ram.entry(slot, entry);
                    put_u32(self.ram.scratch, at + 4 * entry as usize, page);
                }
            }
        }
        Ok(())
    }

    /// Writes a map page if one of the next few slots has had changes for long.
    pub(crate) fn sweep(&mut self) -> Result<(), Error<N::Error>> {
        let slots = self.ram.slots();
        for _ in 0..slots.min(32) {
            self.hand = (self.hand + 1) % slots;
            let since = self.ram.dirty(self.hand);
            if since != 0 && self.log.next.wrapping_sub(since) > self.age_max() {
                let segment = self.ram.segment(self.hand);
                return self.map_write(segment / self.lay.per_page);
            }
        }
        Ok(())
    }

    /// Log pages after which a changed segment is written. A small cache is written often, so that
    /// a recovery with it has little to do.
    pub(crate) fn age_max(&self) -> u32 {
        let most = self.lay.window() * 5 / 8;
        if self.ram.direct { most } else { most.min(32) }
    }

    /// Whether a number is mapped to a page.
    pub(crate) fn owns(&mut self, number: u32, page: u32) -> Result<bool, Error<N::Error>> {
        let map_page = number.wrapping_sub(self.lay.sectors);
        if number < self.lay.sectors {
            Ok(self.lookup(number)? == page)
        } else {
            Ok(map_page < self.lay.map_pages && self.ram.place(map_page) == page)
        }
    }
}

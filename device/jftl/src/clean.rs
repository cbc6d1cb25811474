//! Cleaning in bounded steps: what is valid in a block is moved, and the block is free once the log
//! says so.
//!
//! The tags tell who may own a page; the map decides. A block is given up only when the table
//! counts nobody in it, so a tag that is wrong or lost costs a search, never data.

use flashkit_nand::{Nand, PageAddr};

use crate::error::Error;
use crate::layout::{HEADS, NONE, PER_SEGMENT, TAG, slot_of};
use crate::packed::MARK;
use crate::place::Moved;
use crate::ram::State;
use crate::state::{COLD, HOST, Jftl, Job, REST};

/// Erases between two moves of data at rest; see `wear` in `docs/jftl.md`.
const WEAR_INTERVAL: u32 = 52;
/// The host waits for cleaning below so many free blocks.
pub(crate) const FREE_MIN: u32 = 4;
/// Pages that a step looks at for each one that it may move.
const LOOKS: u32 = 8;

impl<N: Nand> Jftl<'_, N> {
    /// Waits until blocks are free, and until the log has room.
    pub(crate) fn prepare(&mut self) -> Result<(), Error<N::Error>> {
        self.make_room(0)?;
        self.shorten_log()
    }

    /// Cleans until as many blocks are free as are kept, and at least so many.
    pub(crate) fn make_room(&mut self, least: u32) -> Result<(), Error<N::Error>> {
        // Each block cleaned gains a page at least.
        let mut patience = 4 * self.lay.blocks;
        while self.free < self.reserve().max(least) {
            if patience == 0 {
                return Err(Error::Full);
            }
            patience -= 1;
            if self.dying > 0 {
                self.commit()?;
            } else if !self.clean_step(self.lay.pages)? {
                // Nothing can be gained; what is free may do.
                break;
            }
        }
        Ok(())
    }

    /// Writes map pages and a snapshot until the log is short enough. Sessions that end early make
    /// it long; while one lasts, `maintain` does the work in time, unless flushes after single
    /// sectors fill the log faster. The map pages may need more blocks than are kept free: there is
    /// cleaning in between.
    pub(crate) fn shorten_log(&mut self) -> Result<(), Error<N::Error>> {
        let mut patience = 2 * self.ram.slots() + 4;
        while self.log.at - self.log_droppable() >= self.lay.log_max && patience > 0 {
            patience -= 1;
            match self.ram.oldest() {
                Some(oldest) if oldest <= self.log.snap => {
                    self.make_room(0)?;
                    // None: cleaning has written it.
                    let slot = (0..self.ram.slots()).find(|slot| self.ram.dirty(*slot) == oldest);
                    let Some(slot) = slot else { continue };
                    self.map_write(self.ram.segment(slot) / self.lay.per_page)?;
                    if self.ram.oldest().is_none_or(|next| next > self.log.snap) {
                        self.commit()?;
                    }
                }
                _ => {
                    self.commit()?;
                    let [places, bad, _] = self.snapshot_parts();
                    self.snapshot(places + bad)?;
                    self.commit()?;
                }
            }
        }
        // What is written next is the end of the log, and needs a block to be repeated in.
        if self.log_ahead() < 2 && self.log_droppable() > 0 {
            self.anchor()?;
        }
        Ok(())
    }

    /// Blocks that are kept free: for the heads, and for the log, which grows with each
    /// session that a cut ends early.
    fn reserve(&self) -> u32 {
        let growth = self.lay.log_list().saturating_sub(self.log.len);
        FREE_MIN + growth.min(2 * self.lay.log_ahead + 1)
    }

    /// What a sector that the host wrote pays for: a map page, and its part of the cleaning.
    pub(crate) fn maintain(&mut self) -> Result<(), Error<N::Error>> {
        self.sweep()?;
        if self.free >= self.lay.low && !self.is_urgent() {
            return Ok(());
        }
        let rate = self.job.map_or(1, |job| job.rate);
        self.clean_step(rate)?;
        Ok(())
    }

    /// Whether a block waits that is not cleaned for its room.
    pub(crate) fn is_urgent(&self) -> bool {
        self.job.is_some()
            || self.has_rot()
            || self.failing.iter().any(|block| self.can_clean(*block))
            || self.erases >= WEAR_INTERVAL
    }

    /// Whether a block waits whose bits rot.
    pub(crate) fn has_rot(&self) -> bool {
        self.refresh.iter().any(|block| *block != NONE)
    }

    fn can_clean(&self, block: u32) -> bool {
        block < self.lay.blocks
            && matches!(self.ram.state(block), State::Used(1..))
            && !self.is_head(block)
            && !self.stuck.contains(&block)
    }

    /// The next block to clean: one that fails, one that rots, one at rest whose turn it is, or the
    /// one with the fewest owners.
    fn victim(&mut self) -> Option<(u32, usize)> {
        let failing = self.failing.iter().copied();
        if let Some(block) = failing.into_iter().find(|block| self.can_clean(*block)) {
            return Some((block, COLD));
        }
        for i in 0..self.refresh.len() {
            let block = core::mem::replace(&mut self.refresh[i], NONE);
            if self.can_clean(block) {
                self.stats.refreshed += 1;
                return Some((block, COLD));
            }
        }
        if self.erases >= WEAR_INTERVAL && self.free >= self.reserve() {
            self.erases -= WEAR_INTERVAL;
            for _ in 0..self.lay.blocks {
                let block = self.wear % self.lay.blocks;
                self.wear = (block + 1) % self.lay.blocks;
                if self.can_clean(block) {
                    self.stats.levelled += 1;
                    return Some((block, REST));
                }
            }
        }
        if self.free >= self.lay.low {
            return None;
        }
        let owners = |block: &u32| match self.ram.state(*block) {
            State::Used(n) => n,
            _ => u32::MAX,
        };
        (0..self.lay.blocks)
            .filter(|block| self.can_clean(*block))
            .min_by_key(owners)
            .map(|block| (block, COLD))
    }

    /// Moves up to so many pages of the block under work; whether there is one.
    pub(crate) fn clean_step(&mut self, pages: u32) -> Result<bool, Error<N::Error>> {
        let mut job = match self.job {
            Some(job) if self.can_clean(job.block) => job,
            _ => match self.begin_job()? {
                Some(job) => job,
                None => return Ok(false),
            },
        };
        let mut moved = 0;
        for _ in 0..pages.saturating_mul(LOOKS) {
            if moved >= pages || !self.can_clean(job.block) {
                break;
            }
            if job.searching {
                moved += self.search(&mut job)?;
            } else if job.next < self.lay.usable {
                let page = job.block * self.lay.pages + job.next;
                job.next += 1;
                moved += self.move_owned(page, job.head)?;
            } else {
                // Owners that no tag names.
                (job.searching, job.next) = (true, 0);
                self.stats.searches += 1;
            }
        }
        self.job = self.can_clean(job.block).then_some(job);
        Ok(true)
    }

    /// Ends blocks being written whose bits rot, so that they can be cleaned: a disk that is only
    /// read would never fill them.
    fn close_rotting_heads(&mut self) -> Result<(), Error<N::Error>> {
        for head in 0..self.heads.len() {
            let block = self.heads[head].block;
            if block == NONE || !self.refresh.contains(&block) {
                continue;
            }
            if head == HOST && self.pack.is_busy {
                continue;
            }
            if head == HOST {
                self.emit()?;
            }
            self.close_head(head)?;
        }
        Ok(())
    }

    fn begin_job(&mut self) -> Result<Option<Job>, Error<N::Error>> {
        self.close_rotting_heads()?;
        let Some((block, head)) = self.victim() else {
            return Ok(None);
        };
        let State::Used(owners) = self.ram.state(block) else {
            return Ok(None);
        };
        if self.lay.in_band {
            let at = PageAddr(self.lay.tag_page(block));
            let Self { nand, ram, .. } = self;
            let tags = ram.tags(HEADS as usize);
            if !nand.read(at, 0, tags, &mut [])?.is_readable() {
                tags.fill(0xFF);
            }
        }
        let usable = self.lay.usable;
        let valid = owners.min(usable - 1);
        let job = Job {
            block,
            next: 0,
            searching: false,
            rate: 2 * valid / (usable - valid) + 1,
            head,
        };
        self.job = Some(job);
        Ok(Some(job))
    }

    /// Moves a page if an owner that its tag names still has it.
    fn move_owned(&mut self, page: u32, head: usize) -> Result<u32, Error<N::Error>> {
        self.head_room(head)?;
        let mut tag = [0xFF; TAG];
        let mut is_loaded = !self.lay.in_band;
        if self.lay.in_band {
            let at = self.lay.index_of(page) * TAG;
            tag.copy_from_slice(&self.ram.tags(HEADS as usize)[at..at + TAG]);
            if tag == [0xFF; TAG] {
                return Ok(0);
            }
        } else if self.copies_to(page, head) {
            // The chip copies what it holds: who owns it is all that need be known.
            let status = self.nand.read(PageAddr(page), 0, &mut [], &mut tag)?;
            if !status.is_readable() {
                return Ok(0);
            }
            is_loaded = false;
        } else if !self.read_page(page, &mut tag)? {
            return Ok(0);
        }
        let uses = self.scratch_uses;
        let owners = Self::parse_tag(&tag);
        if owners[0] == MARK {
            return self.move_packed(page, head);
        }
        let [first, second] = [self.owns(owners[0], page)?, self.owns(owners[1], page)?];
        if !first && !second {
            return Ok(0);
        }
        is_loaded &= self.scratch_uses == uses;
        // A second owner that is not mapped yet may be: a journal page's home.
        let tag = if first { owners } else { [owners[1], NONE] };
        let owns = [first, second];
        let moved = self.relocate(page, head, owns, owners, tag, is_loaded)?;
        Ok(u32::from(moved))
    }

    /// Moves a page, and maps those of its owners to the new one that still have it.
    fn relocate(
        &mut self,
        page: u32,
        head: usize,
        owns: [bool; 2],
        owners: [u32; 2],
        tag: [u32; 2],
        is_loaded: bool,
    ) -> Result<bool, Error<N::Error>> {
        for i in 0..2 {
            // Only the number that has the page is one: what else a tag names may be nonsense.
            if owns[i] && owners[i] >= self.lay.sectors {
                self.map_write(owners[i] - self.lay.sectors)?;
                self.stats.copies += 1;
                return Ok(true);
            }
        }
        let Some(moved) = self.move_page(page, head, tag, is_loaded)? else {
            return Ok(false);
        };
        self.stats.copies += 1;
        for i in 0..2 {
            if owns[i] {
                self.set(owners[i], moved)?;
            }
        }
        Ok(true)
    }

    /// Programs a page once more as it is, with this tag; its new place. `None`: it cannot be read.
    /// `is_loaded`: the scratch page holds it.
    pub(crate) fn move_page(
        &mut self,
        page: u32,
        head: usize,
        tag: [u32; 2],
        mut is_loaded: bool,
    ) -> Result<Option<u32>, Error<N::Error>> {
        loop {
            if !is_loaded {
                self.head_room(head)?;
                if self.copies_to(page, head) {
                    match self.try_copy(page, head, tag)? {
                        Moved::To(moved) => return Ok(Some(moved)),
                        Moved::Failed => continue,
                        Moved::Unreadable => break,
                    }
                }
                if !self.read_page(page, &mut [0; TAG])? {
                    break;
                }
            }
            if let Some(moved) = self.try_program(head, None, tag)? {
                return Ok(Some(moved));
            }
            is_loaded = false;
        }
        Ok(None)
    }

    /// Searches a segment of the map, or the places of map pages, for
    /// owners in the block under work.
    fn search(&mut self, job: &mut Job) -> Result<u32, Error<N::Error>> {
        let (segments, mut moved) = (self.lay.segments, 0);
        while job.next < segments && !self.is_journal(job.next) {
            job.next += 1;
        }
        let in_journal = job.next < segments;
        let segment = job.next - if in_journal { 0 } else { segments };
        job.next += 1;
        if segment >= segments {
            for map_page in 0..self.lay.map_pages {
                let place = self.ram.place(map_page);
                if place != NONE && self.lay.block_of(place) == job.block {
                    self.map_write(map_page)?;
                    self.stats.copies += 1;
                    moved += 1;
                }
            }
            if matches!(self.ram.state(job.block), State::Used(1..)) {
                // The count is wrong: a damaged volume.
                self.note_stuck(job.block);
            }
            return Ok(moved);
        }
        if self.is_absent(segment) {
            return Ok(0);
        }
        for i in 0..PER_SEGMENT {
            if !self.can_clean(job.block) {
                break;
            }
            let sector = segment * PER_SEGMENT + i;
            let page = if sector < self.lay.sectors {
                self.lookup(sector)?
            } else {
                NONE
            };
            if page != NONE && self.lay.block_of(page) == job.block {
                let tag = [sector, self.home_of(sector)];
                let owns = [true, false];
                if slot_of(page) == 0 && self.relocate(page, job.head, owns, tag, tag, false)? {
                    moved += 1;
                } else {
                    moved += self.move_slot(page, job.head, tag, owns)?;
                }
            }
        }
        Ok(moved)
    }

    /// Whether a piece of the map holds sectors of the journal that is followed.
    fn is_journal(&self, segment: u32) -> bool {
        let watch = self.watch();
        watch.is_some_and(|watch| watch.is_journal(segment))
    }

    /// The home of a sector of the journal, or [`NONE`].
    fn home_of(&self, sector: u32) -> u32 {
        let watch = self.watch().filter(|watch| watch.is_active());
        let home = watch.and_then(|watch| {
            let relative = sector.checked_sub(watch.base)?;
            let index = watch.index_of(relative / watch.per_block)?;
            let home = Some(watch.home(index)).filter(|home| *home != NONE)?;
            let home = watch.sector_of(home, self.lay.sectors)?;
            Some(home + relative % watch.per_block)
        });
        home.unwrap_or(NONE)
    }
}

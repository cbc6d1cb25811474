//! Which block is written next.
//!
//! A *frontier* is an open segment that takes new blocks; there is one, or one for the host and one
//! for the cleaner. It stays in its bank, the *active bank*, while there is room; then it moves to
//! the bank with the most free blocks (paper, 2.5). A bank under erase, and if possible the one
//! whose segment is being cleaned, is on no list: a frontier there moves elsewhere and its
//! segment stays open for later.
//!
//! Invariant: the host leaves as many blocks as the cleaner may have to move: those still valid in
//! the segment being cleaned, or those of any segment that has something to gain; and a reserve,
//! for each power cut in the middle of a block wastes that block, and until the next erase is done
//! no room comes back. Where the cleaner has a frontier of its own the host also leaves it the last
//! free segment; in need it writes to the host's.

use flashkit_nor::BankedNorFlash;

use crate::layout::RESERVE;
use crate::ram::State;
use crate::{Error, LogDisk, Separate};

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// Takes the next block of a frontier. For the host it cleans and waits until there is one.
    pub(crate) fn allocate(
        &mut self,
        frontier: usize,
        cleaning: bool,
    ) -> Result<u32, Error<F::Error>> {
        while !cleaning && !self.host_has_room() {
            if self.config.is_bounded() {
                return Err(Error::Busy);
            }
            if !self.clean_forced()? {
                return Err(Error::Full);
            }
        }
        let segment = self.place(frontier, cleaning)?;
        let blocks = self.layout.blocks;
        let mut record = self.ram.segment(segment);
        let block = segment * blocks + record.used;
        record.used += 1;
        self.open_room -= 1;
        self.programmed = self.programmed.wrapping_add(1);
        self.ram.set_segment(segment, record);
        if record.used == blocks {
            self.close(segment);
        }
        Ok(block)
    }

    /// Writes no more to an open segment, before its next erase.
    pub(crate) fn close(&mut self, segment: u32) {
        let record = self.ram.segment(segment);
        if record.state != State::Open {
            return;
        }
        self.open -= 1;
        self.open_room -= self.layout.blocks - record.used;
        self.ram
            .update(segment, |record| record.state = State::Closed);
        for frontier in &mut self.frontier {
            *frontier = frontier.filter(|open| *open != segment);
        }
    }

    /// Blocks that the host must leave to the cleaner.
    fn cleaners_share(&self) -> u32 {
        let valid = match self.job {
            Some(job) => self.ram.segment(job.segment).valid,
            None => self.layout.blocks - 1,
        };
        // A bounded disk keeps enough to go on calmly once an erase is done.
        let calm = if self.config.is_bounded() {
            self.layout.blocks
        } else {
            0
        };
        valid + self.reserve() + calm
    }

    /// Blocks that the host leaves beyond those that the cleaner has to move: so many cuts in a
    /// row, each in the middle of a block, leave enough to clean with. [`RESERVE`] at least, but
    /// for disks of before, which may be so large that there is not as much beside two segments.
    fn reserve(&self) -> u32 {
        let segments = if self.config.is_bounded() { 3 } else { 2 };
        let beside = self.layout.total_blocks() - self.layout.sectors;
        let spare = beside.saturating_sub(segments * self.layout.blocks);
        RESERVE.min(spare).max(self.layout.blocks / 16 + 2)
    }

    /// Whether cuts, or segments that have worn out, have taken from the reserve: without them the
    /// host never does.
    pub(crate) fn is_reserve_begun(&self) -> bool {
        self.total_room() + 1 < self.layout.blocks + self.reserve()
    }

    /// Whether the host may take a block and leaves the cleaner enough.
    fn host_has_room(&self) -> bool {
        self.total_room() > self.cleaners_share()
    }

    /// Sectors that can be written before a write has to clean, or to wait for an erase. A caller
    /// that has time cleans ([`LogDisk::clean_step`], [`LogDisk::clean_now`]) while this is small.
    pub fn room(&self) -> u32 {
        let others = self.frontier[1].map_or(0, |s| self.layout.blocks - self.ram.segment(s).used);
        let kept = self.segments_kept() - 1;
        let segments = (self.free + self.erasing).saturating_sub(kept);
        let own = self.open_room - others + segments * self.layout.blocks;
        own.min(self.total_room().saturating_sub(self.cleaners_share()))
    }

    /// Free segments there must be for the host to take one.
    fn segments_kept(&self) -> u32 {
        if self.config.separate == Separate::No {
            1
        } else {
            2
        }
    }

    /// Blocks that can be written before a segment is cleaned, those under erase included.
    pub(crate) fn total_room(&self) -> u32 {
        self.open_room + (self.free + self.erasing) * self.layout.blocks
    }

    fn place(&mut self, frontier: usize, cleaning: bool) -> Result<u32, Error<F::Error>> {
        loop {
            self.collect_erases()?;
            let current = self.frontier[frontier];
            let is_idle = |s: &u32| !self.is_erasing(self.layout.bank_of(*s));
            let here = current.filter(is_idle);
            let leave = here.is_none_or(|s| self.is_victims_bank(self.layout.bank_of(s)));
            if (!leave || self.open >= u32::from(self.config.open_max))
                && let Some(segment) = here
            {
                return Ok(segment);
            }
            if let Some(segment) = self.pick(frontier, cleaning) {
                return Ok(self.begin_segment(frontier, segment));
            }
            if let Some(segment) = here {
                return Ok(segment);
            }
            let others = self.frontier[1 - frontier].filter(is_idle);
            if self.config.is_bounded() && !cleaning {
                // What was meant for the cleaner, before a wait.
                if let Some(segment) = others {
                    return Ok(segment);
                }
                let Some(last) = self.pick(frontier, true) else {
                    return Err(Error::Busy);
                };
                return Ok(self.begin_segment(frontier, last));
            }
            if self.config.is_bounded()
                && let Some(segment) = others
            {
                return Ok(segment);
            }
            if let Some(segment) = current {
                // Its bank erases, and no other segment may be begun.
                self.wait_bank(self.layout.bank_of(segment))?;
                continue;
            }
            if let Some(segment) = others.filter(|_| cleaning) {
                return Ok(segment);
            }
            let freed = !cleaning && self.clean_forced()?;
            if !freed && !self.wait_any()? {
                return Err(Error::Full);
            }
        }
    }

    /// Whether the cleaner can write a block without a wait.
    pub(crate) fn cleaner_has_place(&self) -> bool {
        let mut open = self.frontier.iter().flatten();
        open.any(|s| !self.is_erasing(self.layout.bank_of(*s))) || self.pick(1, true).is_some()
    }

    /// Whether a bank may erase without a wait: until it is done, as many blocks as the queue has
    /// pairs can be written elsewhere, and no block in it waits for another bank, to be overwritten
    /// perhaps. Erases under way end in the order in which they began, and bring room.
    pub(crate) fn can_spare(&self, bank: u32) -> bool {
        let is_here = |at| {
            let new = self.ram.pair(at).new;
            new.is_some_and(|new| self.bank_of_block(new) == bank)
        };
        if (0..self.ram.queued()).any(is_here) {
            return false;
        }
        let need = u32::from(self.config.queue);
        let (mut room, mut last) = (0, None);
        for other in (0..self.layout.banks).filter(|other| *other != bank) {
            if !self.is_erasing(other) {
                room += self.room_in(other);
            }
        }
        loop {
            // When each is done, in blocks written from now on, and the next one after the last.
            let ends = (0..self.layout.banks).filter(|other| *other != bank);
            let ends = ends.filter_map(|other| Some((self.erase_lasts(other)?, other)));
            let next = ends.filter(|end| last.is_none_or(|last| *end > last)).min();
            match next {
                Some((at, _)) if room < at.min(need) => return false,
                Some((_, other)) => room += self.layout.blocks + self.room_in(other),
                None => return room >= need,
            }
            last = next;
        }
    }

    /// Blocks at most that are written before the erase in a bank is done.
    fn erase_lasts(&self, bank: u32) -> Option<u32> {
        let erase = self.ram.bank(bank)?;
        let age = (self.programmed as u16).wrapping_sub(erase.begun);
        Some(u32::from(self.config.queue.saturating_sub(age)))
    }

    /// Blocks of a bank that can be written.
    fn room_in(&self, bank: u32) -> u32 {
        let per_bank = self.layout.segments_per_bank();
        let all = (bank * per_bank..(bank + 1) * per_bank).map(|s| self.ram.segment(s));
        let usable = all.filter(|record| matches!(record.state, State::Free | State::Open));
        usable.map(|record| self.layout.blocks - record.used).sum()
    }

    /// Whether the cleaner works on a segment of this bank.
    fn is_victims_bank(&self, bank: u32) -> bool {
        self.job
            .is_some_and(|job| self.layout.bank_of(job.segment) == bank)
    }

    /// Makes a segment a frontier's.
    fn begin_segment(&mut self, frontier: usize, segment: u32) -> u32 {
        let record = self.ram.segment(segment);
        if record.state == State::Free {
            self.free -= 1;
            self.open += 1;
            self.open_room += self.layout.blocks;
            self.ram.update(segment, |record| {
                record.state = State::Open;
                record.stamp = 0;
            });
        }
        self.frontier[frontier] = Some(segment);
        self.active_bank[frontier] = self.layout.bank_of(segment);
        segment
    }

    /// The next segment for a frontier, from the active bank or else from the bank with the most
    /// room; the victim's bank comes last.
    fn pick(&self, frontier: usize, cleaning: bool) -> Option<u32> {
        let spare = if cleaning { 1 } else { self.segments_kept() };
        let may_begin =
            self.free + self.erasing >= spare && self.open < u32::from(self.config.open_max);
        let other = self.frontier[1 - frontier];
        let mut best: Option<(u64, u32)> = None;
        for bank in 0..self.layout.banks {
            if self.is_erasing(bank) {
                continue;
            }
            let Some((room, segment)) = self.bank_room(bank, frontier, may_begin, other) else {
                continue;
            };
            let rank = if self.is_victims_bank(bank) {
                u64::from(room)
            } else if bank == self.active_bank[frontier] && !self.config.is_bounded() {
                u64::MAX
            } else {
                u64::from(room) | 1 << 40
            };
            if best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, segment));
            }
        }
        best.map(|(_, segment)| segment)
    }

    /// Free blocks of a bank that this frontier may write, and the segment to begin with: an open
    /// one, or an erased one.
    fn bank_room(
        &self,
        bank: u32,
        frontier: usize,
        may_begin: bool,
        other: Option<u32>,
    ) -> Option<(u32, u32)> {
        let per_bank = self.layout.segments_per_bank();
        let (mut room, mut open, mut free) = (0, None, None);
        for segment in bank * per_bank..(bank + 1) * per_bank {
            let record = self.ram.segment(segment);
            match record.state {
                State::Open if other != Some(segment) => {
                    open = open.or(Some(segment));
                    room += self.layout.blocks - record.used;
                }
                State::Free if may_begin => {
                    room += self.layout.blocks;
                    // What the cleaner moves is colder: it goes where the wear is.
                    let better = |best: u32| {
                        let best = self.ram.segment(best).erases;
                        if frontier == 0 {
                            record.erases < best
                        } else {
                            record.erases > best
                        }
                    };
                    if free.is_none_or(better) {
                        free = Some(segment);
                    }
                }
                _ => {}
            }
        }
        Some((room, open.or(free)?))
    }
}

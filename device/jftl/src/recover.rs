//! Recovery: what the log says since the map pages were written.

use flashkit_bytes::get_u32;
use flashkit_nand::Nand;

use crate::error::Error;
use crate::layout::{HEADER, NONE, PER_SEGMENT, SEGMENT};
use crate::log::Source;
use crate::ram::State;
use crate::record::{Header, Kind, OPEN, RECORD, Record, SECOND};
use crate::scan::End;
use crate::state::Jftl;

/// Walks over the log.
pub(crate) struct Walk {
    /// Block, by its number in the life of the log.
    ordinal: u32,
    page: u32,
    /// The first number that is wanted, and the last.
    from: u32,
    to: u32,
    /// The last one seen.
    seen: u32,
}

impl Walk {
    /// The page that the last step came to: the block's place in the list, and its number there.
    pub fn before(&self, ordinal: u32) -> (u32, u32) {
        (self.ordinal - ordinal, self.page - 1)
    }
}

impl<N: Nand> Jftl<'_, N> {
    pub(crate) fn walk(&self, from: u32, to: u32) -> Result<Walk, Error<N::Error>> {
        let at = (0..=self.log.at).rev().find(|i| {
            let first = self.ram.log(*i).1;
            first != NONE && first <= from
        });
        // Where some is lost, from the oldest there is.
        let at = if self.is_salvaged() { Some(0) } else { at };
        let Some(at) = at else {
            return Err(self.damaged_log(0, 0));
        };
        Ok(Walk {
            ordinal: self.log.ordinal + at,
            page: 0,
            from,
            to,
            seen: from.wrapping_sub(1),
        })
    }

    /// The next page of a walk, in the scratch page. A page that a later block repeats is left out.
    pub(crate) fn walk_on(&mut self, walk: &mut Walk) -> Result<Option<Header>, Error<N::Error>> {
        loop {
            let i = walk.ordinal - self.log.ordinal;
            if i > self.log.at || walk.seen >= walk.to {
                return Ok(None);
            }
            let (_, first) = self.ram.log(i);
            let follows = (i + 1..=self.log.at).map(|j| self.ram.log(j).1);
            let limit = follows.into_iter().find(|f| *f != NONE).unwrap_or(NONE);
            let header = if first != NONE && walk.page < self.lay.pages {
                self.load_log_page(i, walk.page)?
            } else {
                None
            };
            match header {
                Some(header) if header.seq < limit && header.seq <= walk.to => {
                    walk.page += 1;
                    if header.seq < walk.from {
                        continue;
                    }
                    if header.seq.wrapping_sub(walk.seen) > 1 && !self.is_salvaged() {
                        return Err(self.damaged_log(i, walk.page - 1));
                    }
                    walk.seen = header.seq;
                    return Ok(Some(header));
                }
                None if self.is_salvaged() && walk.page + 1 < self.lay.pages => walk.page += 1,
                _ => {
                    walk.ordinal += 1;
                    walk.page = 0;
                }
            }
        }
    }

    /// Loads places, bad blocks and, after an orderly end, the block
    /// table; holds what records name.
    pub(crate) fn load(&mut self, end: Header, clean: bool) -> Result<bool, Error<N::Error>> {
        let from = self.log.start.min(end.seq);
        let mut walk = self.walk(from, end.seq)?;
        let [places, bad, table] = self.snapshot_parts();
        let room = self.lay.page - HEADER;
        while let Some(header) = self.walk_on(&mut walk)? {
            let part = header.part;
            match header.kind {
                Kind::Records => self.load_records(header, end.redo)?,
                Kind::Places if (header.seq >= end.snap || self.is_salvaged()) && part < places => {
                    let first = part * (room as u32 / 4);
                    for i in 0..header.len as u32 / 4 {
                        let place = get_u32(self.ram.scratch, HEADER + 4 * i as usize);
                        if first + i < self.lay.map_pages
                            && (place == NONE || self.lay.is_page(place))
                        {
                            self.ram.set_place(first + i, place);
                            self.note_known(first + i);
                        }
                    }
                }
                Kind::Bad if header.seq >= end.snap && part < places + bad => {
                    let first = part.saturating_sub(places) * room as u32 * 8;
                    for i in 0..8 * header.len as u32 {
                        let is_bad = self.ram.scratch[HEADER + i as usize / 8] >> (i % 8) & 1 == 1;
                        if is_bad && first + i < self.lay.blocks {
                            self.ram.set_state(first + i, State::Bad);
                        }
                    }
                }
                Kind::Table if clean && part < places + bad + table => {
                    let first = part.saturating_sub(places + bad) as usize * room;
                    let (bytes, scratch) = self.ram.table_and_scratch();
                    if let Some(to) = bytes.get_mut(first..first + header.len) {
                        to.copy_from_slice(&scratch[HEADER..HEADER + header.len]);
                    }
                }
                _ => {}
            }
        }
        Ok(walk.seen == end.seq)
    }

    /// Where some is lost, the marks say of which map pages the places are known.
    fn note_known(&mut self, map_page: u32) {
        if self.is_salvaged() {
            self.ram.mark(map_page);
        }
    }

    fn load_records(&mut self, header: Header, redo: u32) -> Result<(), Error<N::Error>> {
        for i in 0..header.len / RECORD {
            let record = Record::get(self.ram.scratch, HEADER + i * RECORD);
            if !record.is_sound(&self.lay) {
                if self.is_salvaged() {
                    continue;
                }
                return Err(Error::Damaged {
                    what: "a record of the log",
                    page: header.seq,
                });
            }
            if record.number >= self.lay.sectors {
                for i in 0..record.run {
                    let map_page = record.number - self.lay.sectors + i;
                    self.ram.set_place(map_page, record.page_at(i));
                    self.note_known(map_page);
                }
            } else if header.seq >= redo && record.page != NONE {
                // Small blocks may be in the middle of a run.
                for i in 0..record.run {
                    let block = self.lay.block_of(record.page_at(i));
                    if self.ram.state(block) == State::Used(0) {
                        self.ram.set_state(block, State::Held);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the owners of every block's pages by reading the map.
    pub(crate) fn count_owners(&mut self) -> Result<(), Error<N::Error>> {
        for map_page in 0..self.lay.map_pages {
            let place = self.ram.place(map_page);
            if place == NONE {
                continue;
            }
            self.gain(place);
            self.fill_map_page(map_page)?;
            for i in 0..self.lay.per_page {
                let at = i as usize * SEGMENT;
                for entry in 0..PER_SEGMENT {
                    let page = get_u32(self.ram.scratch, at + 4 * entry as usize);
                    self.gain(page);
                }
                if self.ram.direct {
                    let segment = map_page * self.lay.per_page + i;
                    self.ram.fill_slot_from_scratch(segment, at);
                }
            }
        }
        Ok(())
    }

    /// Writes the last page of the log again: it may not last.
    pub(crate) fn repeat_end(&mut self, end: &End) -> Result<bool, Error<N::Error>> {
        // Nothing is given up on the word of a page that may not last.
        self.log.start = 0;
        let page = self.go_back(end)?;
        // Pages that name it are of this session, and of none that a cut has ended and that is not
        // seen any more.
        self.anchor()?;
        let Header {
            seq,
            kind,
            flags,
            len,
            part,
            ..
        } = end.header;
        loop {
            self.log_advance()?;
            let same = self
                .load_log_end(page)?
                .is_some_and(|header| header.seq == seq && header.len == len);
            if !same {
                return Ok(false);
            }
            self.log.next = seq;
            if self.log_page(Source::Scratch, kind, flags & !SECOND, part, len)? {
                break;
            }
        }
        for i in self.log.at + 1..self.log.len {
            let (block, _) = self.ram.log(i);
            self.ram.set_log(i, block, NONE);
        }
        Ok(true)
    }

    /// Caches the segments with records that no map page has. There are no more than the cache of
    /// the session before could hold: a changed segment that is pushed out is written.
    fn cache_changed(&mut self, end: Header) -> Result<bool, Error<N::Error>> {
        if self.ram.direct {
            return Ok(true);
        }
        let mut cached = 0;
        for seq in (end.redo..=end.seq).rev() {
            let at = (0..=self.log.at).rev().find(|i| self.ram.log(*i).1 <= seq);
            let Some(at) = at else {
                return Err(self.damaged_log(0, 0));
            };
            let page = seq - self.ram.log(at).1;
            let header = if page < self.lay.pages {
                self.load_log_page(at, page)?
            } else {
                None
            };
            let Some(header) = header.filter(|header| header.seq == seq) else {
                return Ok(false);
            };
            if header.kind != Kind::Records {
                continue;
            }
            for i in (0..header.len / RECORD).rev() {
                let record = Record::get(self.ram.scratch, HEADER + i * RECORD);
                if record.number >= self.lay.sectors {
                    (0..record.run)
                        .for_each(|i| self.ram.mark(record.number - self.lay.sectors + i));
                    continue;
                }
                for sector in [record.number, record.number + record.run - 1] {
                    let segment = sector / PER_SEGMENT;
                    if self.ram.is_marked(segment / self.lay.per_page)
                        || self.ram.find(segment).is_some()
                    {
                        continue;
                    }
                    cached += 1;
                    if cached > self.ram.slots() {
                        return Err(Error::CacheTooSmall);
                    }
                    self.slot_of(segment)?;
                }
            }
        }
        Ok(true)
    }

    /// Applies the records that the map pages may not have.
    pub(crate) fn redo_records(&mut self, end: Header) -> Result<bool, Error<N::Error>> {
        if end.redo > end.seq {
            return Ok(true);
        }
        if !self.cache_changed(end)? {
            return Ok(false);
        }
        let mut walk = self.walk(end.redo, end.seq)?;
        let mut is_open = false;
        while let Some(header) = self.walk_on(&mut walk)? {
            // What a page before this one gave up is free, whether this one lasts or not; of a
            // transaction, when it has ended.
            if !is_open {
                self.settle()?;
            }
            is_open = header.flags & OPEN != 0;
            if header.kind != Kind::Records {
                continue;
            }
            for i in 0..header.len / RECORD {
                let record = Record::get(self.ram.scratch, HEADER + i * RECORD);
                if record.number >= self.lay.sectors {
                    continue;
                }
                for i in 0..record.run {
                    let sector = record.number + i;
                    let (segment, page) = (sector / PER_SEGMENT, record.page_at(i));
                    if self.ram.direct && !(page == NONE && self.is_absent(segment)) {
                        self.slot_of(segment)?;
                    }
                    // What is not cached is in its map page.
                    if let Some(slot) = self.ram.find(segment) {
                        let entry = sector % PER_SEGMENT;
                        if self.ram.entry(slot, entry) != page {
                            self.change(slot, entry, page, header.seq);
                        }
                    }
                }
            }
        }
        Ok(walk.seen == end.seq)
    }
}

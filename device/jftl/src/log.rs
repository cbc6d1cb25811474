//! The log: every change of the map, in order, in blocks of its own.

use flashkit_bytes::put_u32;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

use crate::error::Error;
use crate::layout::{HEADER, NONE};
use crate::ram::State;
use crate::record::{Header, Kind, OPEN, RECORD, RUN_MAX, Record};
use crate::state::Jftl;

/// Where a log page's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Pending,
    Scratch,
}

impl<N: Nand> Jftl<'_, N> {
    /// Adds a record: the number is in that page, or in none.
    pub(crate) fn append(&mut self, number: u32, page: u32) -> Result<(), Error<N::Error>> {
        if self.log.fill > 0 {
            let at = HEADER + (self.log.fill - 1) * RECORD;
            let mut last = Record::get(self.ram.pending, at);
            let follows = number == last.number + last.run
                && number < self.lay.sectors
                && last.run < RUN_MAX
                && page == last.page_at(last.run);
            if follows {
                last.run += 1;
                last.put(self.ram.pending, at);
                return Ok(());
            }
        }
        if self.log.fill == self.ram.records_max() {
            self.commit()?;
        }
        let record = Record {
            number,
            run: 1,
            page,
        };
        record.put(self.ram.pending, HEADER + self.log.fill * RECORD);
        self.log.fill += 1;
        Ok(())
    }

    /// Writes the records that wait: one program; an erase more when the log's block is full, and
    /// at times an anchor and a part of a snapshot.
    pub(crate) fn commit(&mut self) -> Result<(), Error<N::Error>> {
        self.emit()?;
        let open = self.log.tx != 0;
        let flags = if open { OPEN } else { 0 };
        let len = self.log.fill * RECORD;
        loop {
            self.log_room()?;
            if self.log_page(Source::Pending, Kind::Records, flags, self.log.tx, len)? {
                break;
            }
        }
        self.log.fill = 0;
        if open || self.recovering.is_some() {
            return Ok(());
        }
        self.settle()?;
        self.snapshot_step()
    }

    /// Programs a log page in the room that the caller has made; whether it is there. If not, the
    /// block has failed: the page needs room again, and what was in the scratch page may be gone
    /// by then.
    pub(crate) fn log_page(
        &mut self,
        source: Source,
        kind: Kind,
        flags: u8,
        part: u32,
        len: usize,
    ) -> Result<bool, Error<N::Error>> {
        let (block, _) = self.ram.log(self.log.at);
        let header = Header {
            seq: self.log.next,
            ordinal: self.log.ordinal + self.log.at,
            kind,
            flags,
            len,
            redo: self.redo(),
            snap: self.log.snap,
            part,
            cursor: self.cursor,
            wear: self.wear,
            anchor: self.anchors.name,
        };
        let Self { nand, ram, .. } = self;
        let bytes: &mut [u8] = match source {
            Source::Pending => ram.pending,
            Source::Scratch => ram.scratch,
        };
        header.seal(self.volume, bytes);
        let at = PageAddr(block * self.lay.pages + self.log.page);
        let status = nand.program(at, &bytes[..HEADER + len], &[])?;
        self.stats.log_pages += 1;
        if status == OpStatus::Failed {
            if self.log.page == 0 {
                // It holds no page, and must not take another's place in the list.
                self.mark_bad(block)?;
                self.log.at = self.log.at.wrapping_sub(1);
            } else {
                self.note_failing(block);
            }
            self.log.page = self.lay.pages;
            return Ok(false);
        }
        if self.log.page == 0 {
            ram.set_log(self.log.at, block, header.seq);
        }
        self.anchors.named = self.anchors.home;
        self.log.page += 1;
        self.log.next += 1;
        if flags & OPEN == 0 {
            self.log.start = header.redo.min(header.snap);
        }
        Ok(true)
    }

    /// The first log page whose records may not be in map pages, when the next one is written.
    fn redo(&self) -> u32 {
        let oldest = self.ram.oldest().unwrap_or(self.log.next + 1);
        self.recovering.map_or(oldest, |from| oldest.min(from))
    }

    /// Makes room for a log page. Uses the scratch page when that takes an anchor.
    pub(crate) fn log_room(&mut self) -> Result<(), Error<N::Error>> {
        if self.log.page >= self.lay.pages {
            self.log_advance()?;
        }
        if self.log_ahead() < 2 {
            self.anchor()?;
        }
        Ok(())
    }

    /// Blocks set aside beyond the one being written.
    pub(crate) fn log_ahead(&self) -> u32 {
        self.log.len - self.log.at.wrapping_add(1)
    }

    /// Goes on to the next block that is set aside. Uses the scratch page when all of them have
    /// gone bad: then others are set aside.
    pub(crate) fn log_advance(&mut self) -> Result<(), Error<N::Error>> {
        loop {
            // Before the first block of a new disk there is none. What holds a page that may have
            // to do for the last one comes last.
            let ahead = self.log.at.wrapping_add(1)..self.log.len;
            for (i, stale) in ahead
                .clone()
                .map(|i| (i, false))
                .chain(ahead.map(|i| (i, true)))
            {
                let (block, _) = self.ram.log(i);
                if self.ram.state(block) != State::Log || self.ram.is_log_stale(i) != stale {
                    continue;
                }
                // The anchor may be older than the mark.
                if self.nand.is_bad(BlockAddr(block))? {
                    self.ram.set_state(block, State::Bad);
                } else if self.erase(block)? {
                    (self.log.at, self.log.page) = (i, 0);
                    return Ok(());
                }
            }
            self.anchor()?;
            if self.log_ahead() == 0 {
                return Err(Error::Full);
            }
        }
    }

    /// Blocks at the front of the list that no recovery needs.
    pub(crate) fn log_droppable(&self) -> u32 {
        let start = self.log.start;
        let used = self.log.at.wrapping_add(1);
        let needed = (0..used).rev().find(|i| {
            let first = self.ram.log(*i).1;
            first != NONE && first <= start
        });
        needed.unwrap_or(0)
    }

    /// Parts of a snapshot: the places of map pages, the bad blocks, and the block table.
    pub(crate) fn snapshot_parts(&self) -> [u32; 3] {
        let room = (self.lay.page - HEADER) as u32;
        let table = self.lay.blocks * self.lay.table_width() as u32;
        [
            self.lay.map_pages.div_ceil(room / 4),
            self.lay.blocks.div_ceil(8).div_ceil(room),
            table.div_ceil(room),
        ]
    }

    /// Writes a part of a snapshot when one is under way or due. Nothing waits to be logged.
    fn snapshot_step(&mut self) -> Result<(), Error<N::Error>> {
        if self.log.snap_new == 0 {
            if self.log.next - self.log.snap <= self.lay.window() / 4 {
                return Ok(());
            }
            self.log.snap_new = self.log.next;
            self.log.part = 0;
        }
        let [places, bad, _] = self.snapshot_parts();
        self.snapshot_part(self.log.part)?;
        self.log.part += 1;
        if self.log.part == places + bad {
            self.log.snap = self.log.snap_new;
            self.log.snap_new = 0;
        }
        Ok(())
    }

    /// Writes the first `parts` parts of a snapshot, the newest from then on.
    /// Nothing waits to be logged.
    pub(crate) fn snapshot(&mut self, parts: u32) -> Result<(), Error<N::Error>> {
        self.log.snap_new = 0;
        self.log_room()?;
        let snap = self.log.next;
        (0..parts).try_for_each(|part| self.snapshot_part(part))?;
        self.log.snap = snap;
        Ok(())
    }

    /// Writes the given part of a snapshot.
    pub(crate) fn snapshot_part(&mut self, part: u32) -> Result<(), Error<N::Error>> {
        loop {
            self.log_room()?;
            let (kind, len) = self.fill_snapshot_part(part);
            if self.log_page(Source::Scratch, kind, 0, part, len)? {
                return Ok(());
            }
        }
    }

    /// Puts a part of a snapshot together in the scratch page; its kind and length.
    fn fill_snapshot_part(&mut self, part: u32) -> (Kind, usize) {
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let room = self.lay.page - HEADER;
        let [places, bad, _] = self.snapshot_parts();
        let (kind, len) = if part < places {
            let per = room as u32 / 4;
            let first = part * per;
            let count = per.min(self.lay.map_pages - first);
            for i in 0..count {
                let place = self.ram.place(first + i);
                put_u32(self.ram.scratch, HEADER + 4 * i as usize, place);
            }
            (Kind::Places, 4 * count as usize)
        } else if part < places + bad {
            let first = (part - places) as usize * room;
            let len = room.min((self.lay.blocks as usize).div_ceil(8) - first);
            self.ram.scratch[HEADER..HEADER + len].fill(0);
            for i in 0..8 * len as u32 {
                let block = 8 * first as u32 + i;
                if block < self.lay.blocks && self.ram.state(block) == State::Bad {
                    self.ram.scratch[HEADER + i as usize / 8] |= 1 << (i % 8);
                }
            }
            (Kind::Bad, len)
        } else {
            let first = (part - places - bad) as usize * room;
            let (table, scratch) = self.ram.table_and_scratch();
            let len = room.min(table.len() - first);
            scratch[HEADER..HEADER + len].copy_from_slice(&table[first..first + len]);
            (Kind::Table, len)
        };
        (kind, len)
    }
}

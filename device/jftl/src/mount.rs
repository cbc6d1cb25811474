//! Format, mount, and the orderly end.

use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};

use crate::disk::{Damage, Jftl, Stats};
use crate::error::Error;
use crate::layout::{ANCHORS, HEADER, Layout};
use crate::log::{Log, Source};
use crate::memory::Memory;
use crate::pack::Pack;
use crate::packed::page_of;
use crate::place::Head;
use crate::ram::{Ram, SLOTS_MIN, State, bytes_needed};
use crate::record::{Anchor, Header, Kind, NONE, OPEN, SECOND, get, put};

/// How much of the map is kept in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapCache {
    /// All of it: 4 bytes a page of the chip and a little more.
    Whole,
    /// So many pieces of 128 entries, 524 bytes each; 4 at least.
    Pieces(u32),
}

/// Log pages are short where RAM is.
const SMALL_LOG_PAGE: usize = 512;

/// Bytes of RAM that a disk on such a chip needs.
///
/// # Errors
/// Why there can be no disk on such a chip.
pub fn ram_bytes(geometry: &Geometry, cache: MapCache) -> Result<usize, &'static str> {
    let lay = Layout::new(geometry)?;
    Ok(match cache {
        MapCache::Whole => bytes_needed(&lay, lay.page, lay.segments as usize),
        MapCache::Pieces(n) => {
            let slots = (n as usize).max(SLOTS_MIN).min(lay.segments as usize);
            bytes_needed(&lay, SMALL_LOG_PAGE, slots)
        }
    })
}

/// What the newest page of the log says.
pub(crate) struct End {
    pub header: Header,
    pub page: u32,
}

impl<'a, N: Nand> Jftl<'a, N> {
    fn new(nand: N, ram: &'a mut [u8]) -> Result<Self, Error<N::Error>> {
        let geometry = nand.geometry();
        let lay = Layout::new(&geometry).map_err(Error::Config)?;
        let whole = bytes_needed(&lay, lay.page, lay.segments as usize);
        let log_page = if ram.len() >= whole {
            lay.page
        } else {
            SMALL_LOG_PAGE
        };
        let least = SLOTS_MIN.min(lay.segments as usize);
        let need = bytes_needed(&lay, log_page, least);
        if ram.len() < need {
            return Err(Error::RamTooSmall { need });
        }
        Ok(Jftl {
            nand,
            lay,
            volume: 0,
            ram: Ram::new(&lay, log_page, ram),
            log: Log::EMPTY,
            heads: [Head::CLOSED; 4],
            job: None,
            cursor: 0,
            free: 0,
            dying: 0,
            wear: 0,
            erases: 0,
            hand: 0,
            scratch_uses: 0,
            failing: [NONE; 8],
            refresh: [NONE; 8],
            stuck: [NONE; 8],
            recovering: None,
            untouched: false,
            latched: false,
            programs_zeros: false,
            damage: None,
            stats: Stats::default(),
            watch: None,
            memory: Memory::default(),
            pack: Pack::default(),
        })
    }

    /// Makes an empty disk; `volume` should differ from format to format. Whatever the chip held is
    /// lost. Costs some erases and, for 256 MiB, about a hundred programs.
    ///
    /// # Errors
    /// [`Error::Config`], [`Error::RamTooSmall`], [`Error::Full`] on a chip with too many bad
    /// blocks, [`Error::Flash`].
    pub fn format(nand: N, ram: &'a mut [u8], volume: u32) -> Result<(), Error<N::Error>> {
        let mut disk = Self::new(nand, ram)?;
        disk.volume = volume;
        for block in 0..disk.lay.blocks {
            if disk.nand.is_bad(BlockAddr(block))? {
                disk.ram.set_state(block, State::Bad);
            } else if block < ANCHORS {
                disk.ram.set_state(block, State::Anchor);
                disk.erase(block)?;
            }
        }
        let anchors = (0..ANCHORS).filter(|b| disk.ram.state(*b) == State::Anchor);
        if anchors.count() < 3 {
            return Err(Error::Config(
                "fewer than three good blocks among the first four",
            ));
        }
        disk.log.anchor = ANCHORS - 1;
        disk.count_free();
        disk.anchor()?;
        disk.close()
    }

    /// Opens the disk on a chip. `ram` has [`ram_bytes`] bytes at least; what is
    /// beyond goes to the cache.
    ///
    /// After an orderly end this only reads: the anchors, the last block of the log and its
    /// snapshot. After anything else it reads all pages of the map and what has been logged lately,
    /// and programs two pages or a few more.
    ///
    /// Where a page of the log or of the map cannot be read, and RAM has the whole map, the disk is
    /// there for reading: see [`Jftl::damage`].
    ///
    /// # Errors
    /// [`Error::Config`], [`Error::RamTooSmall`], [`Error::CacheTooSmall`],
    /// [`Error::NotFormatted`], [`Error::Geometry`], [`Error::Damaged`],
    /// [`Error::Full`], [`Error::Flash`].
    pub fn mount(nand: N, ram: &'a mut [u8]) -> Result<Self, Error<N::Error>> {
        let mut disk = Self::new(nand, ram)?;
        // The page that a cut has hit may go between two reads; then the one before is the last.
        for _ in 0..4 {
            disk.forget();
            match disk.try_mount() {
                Ok(true) => return Ok(disk),
                Ok(false) => {}
                Err(Error::Damaged { what, page }) if disk.ram.direct => {
                    disk.forget();
                    disk.salvage(Damage { what, page })?;
                    return Ok(disk);
                }
                Err(e) => return Err(e),
            }
        }
        Err(Error::Damaged {
            what: "the end of the log",
            page: NONE,
        })
    }

    fn forget(&mut self) {
        self.ram.reset();
        self.log = Log::EMPTY;
        (self.dying, self.free, self.recovering) = (0, 0, None);
        self.heads = [Head::CLOSED; 4];
    }

    /// Whether the log's end stayed what it was.
    fn try_mount(&mut self) -> Result<bool, Error<N::Error>> {
        if !self.find_anchor()? {
            return Ok(false);
        }
        let Some(end) = self.find_end()? else {
            return Ok(false);
        };
        let header = end.header;
        let clean = header.kind == Kind::Clean && header.flags & SECOND != 0;
        if clean {
            for (i, head) in self.heads.iter_mut().enumerate() {
                let at = HEADER + 8 * i;
                *head = Head {
                    block: get(self.ram.scratch, at),
                    next: get(self.ram.scratch, at + 4),
                };
            }
        }
        self.log.next = header.seq.wrapping_add(1);
        self.log.snap = header.snap;
        self.log.start = header.redo.min(header.snap);
        self.cursor = header.cursor % self.lay.blocks;
        self.wear = header.wear % self.lay.blocks;
        if !self.load(header, clean)? {
            return Ok(false);
        }
        self.mark_own_blocks()?;
        if clean {
            self.untouched = true;
            self.log.page = self.lay.pages;
            self.check_heads()?;
            self.count_free();
            return Ok(true);
        }
        self.count_owners()?;
        self.count_free();
        self.recovering = Some(header.redo);
        self.log.page = self.lay.pages;
        if !self.repeat_end(&end)? {
            return Ok(false);
        }
        self.anchor()?;
        if !self.redo_records(header)? {
            return Ok(false);
        }
        self.recovering = None;
        if self.log.fill > 0 {
            self.commit()?;
        }
        self.settle()?;
        for block in 0..self.lay.blocks {
            if self.ram.state(block) == State::Held {
                self.ram.set_state(block, State::Used(0));
            }
        }
        self.untouched = false;
        self.count_free();
        // The next cut may come before the next write.
        self.prepare()?;
        Ok(true)
    }

    pub(crate) fn count_free(&mut self) {
        let free = (0..self.lay.blocks)
            .filter(|block| self.ram.state(*block) == State::Used(0) && !self.is_head(*block));
        self.free = free.count() as u32;
    }

    /// Reads a page into the scratch page; whether that could be.
    fn load_page(&mut self, page: u32) -> Result<bool, Error<N::Error>> {
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let Self { nand, ram, .. } = self;
        let status = nand.read(PageAddr(page), 0, ram.scratch, &mut [])?;
        Ok(status.is_readable())
    }

    /// Finds the newest anchor and takes up its list; whether it stayed what it was.
    pub(crate) fn find_anchor(&mut self) -> Result<bool, Error<N::Error>> {
        let mut best: Option<(u32, u32)> = None;
        let mut is_other = false;
        let mut look = |disk: &mut Self, page: u32| -> Result<Option<u32>, Error<N::Error>> {
            if !disk.load_page(page)? {
                return Ok(None);
            }
            let found = Anchor::parse(&disk.lay, disk.ram.scratch);
            is_other |= found.is_some_and(|(_, fits)| !fits);
            Ok(found.filter(|(_, fits)| *fits).map(|(a, _)| a.seq))
        };
        // A block whose first page is lost may hold the newest all the same.
        let mut lost = [false; ANCHORS as usize];
        for block in 0..ANCHORS {
            let page = block * self.lay.pages;
            match look(self, page)? {
                Some(seq) if best.is_none_or(|(newest, _)| seq > newest) => {
                    best = Some((seq, page));
                }
                Some(_) => {}
                None => {
                    let blank = self.ram.scratch.iter().all(|byte| *byte == 0xFF);
                    lost[block as usize] = !blank;
                }
            }
        }
        let newest = best.map(|(_, page)| page);
        for block in 0..ANCHORS {
            let first = block * self.lay.pages;
            if newest != Some(first) && !lost[block as usize] {
                continue;
            }
            for page in first + 1..first + self.lay.pages {
                if let Some(seq) = look(self, page)?
                    && best.is_none_or(|(newest, _)| seq > newest)
                {
                    best = Some((seq, page));
                }
            }
        }
        let Some((_, page)) = best else {
            return Err(if is_other {
                Error::Geometry
            } else {
                Error::NotFormatted
            });
        };
        let readable = self.load_page(page)?;
        let found = Anchor::parse(&self.lay, self.ram.scratch).filter(|_| readable);
        let Some((anchor, _)) = found else {
            return Ok(false);
        };
        self.volume = anchor.volume;
        self.log.ordinal = anchor.ordinal;
        self.log.len = anchor.count;
        self.log.anchor = self.lay.block_of(page);
        self.log.anchor_home = self.log.anchor;
        // Pages behind it may have been cut, and it may be of a cut itself: the next one goes to
        // another block, and the block with the one before it stays.
        self.log.anchor_page = self.lay.pages;
        self.log.anchor_seq = anchor.seq;
        for i in 0..anchor.count {
            let block = Anchor::block(self.ram.scratch, i);
            if block < ANCHORS || block >= self.lay.blocks {
                return Err(Error::Damaged {
                    what: "an anchor",
                    page,
                });
            }
            self.ram.set_log(i, block, NONE);
        }
        Ok(true)
    }

    /// Reads a page of the log's list into the scratch page.
    pub(crate) fn load_log_page(
        &mut self,
        i: u32,
        page: u32,
    ) -> Result<Option<Header>, Error<N::Error>> {
        let (block, _) = self.ram.log(i);
        if !self.load_page(block * self.lay.pages + page)? {
            return Ok(None);
        }
        let header = Header::parse(self.volume, self.ram.scratch);
        Ok(header.filter(|h| h.ordinal == self.log.ordinal.wrapping_add(i)))
    }

    /// Finds the last page that counts, and leaves it in the scratch page.
    fn find_end(&mut self) -> Result<Option<End>, Error<N::Error>> {
        let mut last = None;
        for i in 0..self.log.len {
            let Some(header) = self.load_log_page(i, 0)? else {
                self.nothing_behind(i, 0, 0)?;
                continue;
            };
            self.begin_block(i, header.seq);
            last = Some(i);
        }
        let Some(at) = last else {
            return Err(Error::NotFormatted);
        };
        self.log.at = at;
        let mut end = None;
        for page in 0..self.lay.pages {
            match self.load_log_page(at, page)? {
                Some(header) if end.is_none_or(|(s, _, _)| header.seq.wrapping_sub(s) <= 1) => {
                    end = Some((header.seq, header, page));
                }
                _ => {
                    self.nothing_behind(at, page, end.map_or(0, |(seq, _, _)| seq))?;
                    break;
                }
            }
        }
        let Some((_, header, page)) = end else {
            return Ok(None);
        };
        if header.flags & OPEN != 0 {
            return self.find_before(header.part.wrapping_sub(1));
        }
        let (block, _) = self.ram.log(at);
        let page = block * self.lay.pages + page;
        Ok(self.load_log_end(page)?.map(|header| End { header, page }))
    }

    /// Notes the number of a block's first page.
    pub(crate) fn begin_block(&mut self, i: u32, first: u32) {
        // A transaction that had no end may have gone on into blocks of its own.
        for void in 0..i {
            let (block, began) = self.ram.log(void);
            if began != NONE && began > first {
                self.ram.set_log(void, block, NONE);
            }
        }
        let (block, _) = self.ram.log(i);
        self.ram.set_log(i, block, first);
    }

    /// What a cut has torn is the last page of its block. If there is a newer one behind a page
    /// that cannot be read, it is lost, and the log does not end there.
    fn nothing_behind(&mut self, i: u32, page: u32, seq: u32) -> Result<(), Error<N::Error>> {
        let (block, _) = self.ram.log(i);
        let is_torn = |disk: &mut Self| {
            let readable = disk.load_page(block * disk.lay.pages + page)?;
            Ok::<_, Error<N::Error>>(!readable)
        };
        if page + 1 >= self.lay.pages || !is_torn(self)? {
            return Ok(());
        }
        match self.load_log_page(i, page + 1)? {
            Some(header) if header.seq > seq => Err(self.damaged_log(i, page)),
            _ => Ok(()),
        }
    }

    /// When many mounts in a row were cut, each after it had repeated the last page, and no
    /// block is left to do so again: the page that the newest block repeats, so that this
    /// block can be taken once more.
    pub(crate) fn find_repeated(&mut self, seq: u32) -> Result<Option<u32>, Error<N::Error>> {
        let newest = self.log.at;
        for at in (newest.saturating_sub(3)..newest).rev() {
            for page in 0..self.lay.pages {
                let (block, _) = self.ram.log(at);
                match self.load_log_page(at, page)? {
                    Some(header) if header.seq == seq => {
                        (at + 1..self.log.len).for_each(|i| {
                            let (block, _) = self.ram.log(i);
                            self.ram.set_log(i, block, NONE);
                        });
                        self.log.at = at;
                        return Ok(Some(block * self.lay.pages + page));
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn load_log_end(&mut self, page: u32) -> Result<Option<Header>, Error<N::Error>> {
        let readable = self.load_page(page)?;
        Ok(Header::parse(self.volume, self.ram.scratch).filter(|_| readable))
    }

    /// Finds the page before a transaction that has no end.
    fn find_before(&mut self, seq: u32) -> Result<Option<End>, Error<N::Error>> {
        let at = (0..=self.log.at).rev().find(|i| {
            let first = self.ram.log(*i).1;
            first != NONE && first <= seq
        });
        let Some(at) = at else {
            return Err(self.damaged_log(0, 0));
        };
        let mut end = None;
        for page in 0..self.lay.pages {
            match self.load_log_page(at, page)? {
                Some(header) if header.seq <= seq => end = Some(page),
                _ => break,
            }
        }
        let Some(page) = end else {
            return Err(self.damaged_log(at, 0));
        };
        let (block, _) = self.ram.log(at);
        let page = block * self.lay.pages + page;
        match self.load_log_end(page)? {
            Some(header) if header.seq == seq => Ok(Some(End { header, page })),
            _ => Err(self.damaged_log(at, 0)),
        }
    }

    pub(crate) fn damaged_log(&self, i: u32, page: u32) -> Error<N::Error> {
        Error::Damaged {
            what: "a page of the log",
            page: self.ram.log(i).0 * self.lay.pages + page,
        }
    }

    /// Blocks of the log and of the anchors, whatever the table says of them.
    fn mark_own_blocks(&mut self) -> Result<(), Error<N::Error>> {
        for block in 0..self.lay.blocks {
            let state = match self.ram.state(block) {
                State::Log | State::Dying | State::Anchor => State::Used(0),
                state => state,
            };
            self.ram.set_state(block, state);
        }
        for block in 0..ANCHORS {
            let bad = self.nand.is_bad(BlockAddr(block))?;
            let state = if bad { State::Bad } else { State::Anchor };
            self.ram.set_state(block, state);
        }
        for i in 0..self.log.len {
            let (block, _) = self.ram.log(i);
            if self.ram.state(block) != State::Bad {
                self.ram.set_state(block, State::Log);
            }
        }
        Ok(())
    }

    /// Heads as an orderly end left them must be blocks in use.
    fn check_heads(&mut self) -> Result<(), Error<N::Error>> {
        for i in 0..self.heads.len() {
            let Head { block, next } = self.heads[i];
            let twice = self.heads[..i].iter().any(|head| head.block == block);
            if block == NONE {
                continue;
            }
            let sound = block < self.lay.blocks
                && next <= self.lay.usable
                && !twice
                && matches!(self.ram.state(block), State::Used(_))
                && !self.nand.is_bad(BlockAddr(block))?;
            if !sound {
                self.heads[i] = Head::CLOSED;
            }
        }
        Ok(())
    }

    /// Ends in good order: the next mount is short. Costs a program for each changed map page and
    /// for each part of the snapshot. The disk can be used on.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn close(&mut self) -> Result<(), Error<N::Error>> {
        if self.untouched && !self.latched {
            return Ok(self.nand.flush()?);
        }
        self.changing(|disk| {
            for slot in 0..disk.ram.slots() {
                if disk.ram.dirty(slot) != 0 {
                    disk.prepare()?;
                    disk.map_write(disk.ram.segment(slot) / disk.lay.per_page)?;
                }
            }
            if disk.lay.in_band {
                for head in 0..disk.heads.len() {
                    disk.close_head(head)?;
                }
            }
            // What dies from here on is free again at the next mount.
            disk.commit()?;
            disk.snapshot(disk.snapshot_parts().iter().sum())?;
            for flags in [0, SECOND] {
                disk.log_room()?;
                disk.scratch_uses = disk.scratch_uses.wrapping_add(1);
                for (i, head) in disk.heads.iter().enumerate() {
                    put(disk.ram.scratch, HEADER + 8 * i, head.block);
                    put(disk.ram.scratch, HEADER + 8 * i + 4, head.next);
                }
                let len = 8 * disk.heads.len();
                disk.log_page(Source::Scratch, Kind::Clean, flags, 0, len)?;
                disk.log.next -= 1;
            }
            disk.log.next += 1;
            // Within a block the numbers of pages follow from its first.
            disk.log.page = disk.lay.pages;
            disk.untouched = true;
            Ok(disk.nand.flush()?)
        })
    }

    /// The page that holds a sector, or a part of which does; none, too, as long
    /// as that is not programmed.
    ///
    /// # Errors
    /// As [`Jftl::read`].
    pub fn page_of(&mut self, sector: u32) -> Result<Option<PageAddr>, Error<N::Error>> {
        self.check_range(sector, self.lay.page)?;
        let place = self.lookup(sector)?;
        let is_there = self.lay.contains(place);
        Ok(is_there.then_some(PageAddr(page_of(place))))
    }
}

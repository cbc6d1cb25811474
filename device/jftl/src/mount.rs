//! Format, mount, and the orderly end.

use core::mem::MaybeUninit;

use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};

use crate::error::Error;
use crate::find::Search;
use crate::layout::{ANCHORS, HEADER, Layout, NONE, page_of};
use crate::log::Source;
use crate::memory::Memory;
use crate::ram::{Ram, SLOTS_MIN, State, bytes_needed};
use crate::record::{Header, Kind, SECOND};
use crate::state::{Anchors, Damage, Head, Jftl, Log, Pack, Stats};

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
            anchors: Anchors::EMPTY,
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
    /// lost. Costs a read of 12 bytes a block, some erases and, for 256 MiB, about a hundred
    /// programs.
    ///
    /// # Errors
    /// [`Error::Config`], [`Error::RamTooSmall`]; [`Error::Full`] on a chip with too many bad
    /// blocks for all sectors, before anything is changed; [`Error::Flash`].
    pub fn format(nand: N, ram: &'a mut [u8], volume: u32) -> Result<(), Error<N::Error>> {
        let mut disk = Self::new(nand, ram)?;
        disk.begin_empty(volume)
    }

    /// As [`Jftl::format`], in the caller's memory: less stack. As of [`Jftl::mount_into`], nothing
    /// drops what is left there.
    ///
    /// # Errors
    /// As [`Jftl::format`].
    pub fn format_into(
        place: &mut MaybeUninit<Self>,
        nand: N,
        ram: &'a mut [u8],
        volume: u32,
    ) -> Result<(), Error<N::Error>> {
        Self::put_new(place, nand, ram)?.begin_empty(volume)
    }

    fn begin_empty(&mut self, volume: u32) -> Result<(), Error<N::Error>> {
        self.volume = volume;
        let mut bad = 0;
        for block in 0..self.lay.blocks {
            if self.nand.is_bad(BlockAddr(block))? {
                self.ram.set_state(block, State::Bad);
                bad += 1;
            }
        }
        if !self.lay.bears(bad) {
            return Err(Error::Full);
        }
        for block in 0..self.lay.blocks {
            let is_bad = self.ram.state(block) == State::Bad;
            if block < ANCHORS && is_bad {
                // Its anchors stay: those of the new disk get higher numbers.
                if let Err(e @ Error::Flash(_)) = self.next_anchor(&mut Search::Newest) {
                    return Err(e);
                }
            } else if block < ANCHORS || !is_bad && self.is_old_log(block)? {
                self.erase(block)?;
            }
        }
        let mut anchors = 0;
        for block in 0..ANCHORS {
            if self.ram.state(block) != State::Bad {
                self.ram.set_state(block, State::Anchor);
                anchors += 1;
            }
        }
        if anchors < 3 {
            return Err(Error::Config(
                "fewer than three good blocks among the first four",
            ));
        }
        self.count_free();
        self.anchor()?;
        self.close()
    }

    /// Whether a block has to be erased before its turn: what it holds could be taken for the log
    /// of the new disk, if one before had the same number.
    fn is_old_log(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        let mut start = [0; 12];
        let first = PageAddr(block * self.lay.pages);
        let status = self.nand.read(first, 0, &mut start, &mut [])?;
        Ok(!status.is_readable() || Header::is_of(self.volume, &start))
    }

    /// Opens the disk on a chip. `ram` has [`ram_bytes`] bytes at least; what is
    /// beyond goes to the cache.
    ///
    /// After an orderly end this only reads: the anchors, the last block of the log and its
    /// snapshot. After anything else it reads all pages of the map and what has been logged lately,
    /// and programs three pages or a few more.
    ///
    /// Where no good block is left to write what a recovery must, or a page of the log or of the
    /// map cannot be read and RAM has the whole map, the disk is there for reading: see
    /// [`Jftl::damage`].
    ///
    /// # Errors
    /// [`Error::Config`], [`Error::RamTooSmall`], [`Error::CacheTooSmall`],
    /// [`Error::NotFormatted`], [`Error::Geometry`], [`Error::Damaged`],
    /// [`Error::Full`], [`Error::Flash`].
    pub fn mount(nand: N, ram: &'a mut [u8]) -> Result<Self, Error<N::Error>> {
        let mut disk = Self::new(nand, ram)?;
        disk.find()?;
        Ok(disk)
    }

    /// As [`Jftl::mount`], where the disk is to stay: less stack, as it is not moved there. Nothing
    /// drops what is in `place`, after an error either: lend the chip (`&mut chip`) where that
    /// matters.
    ///
    /// # Errors
    /// As [`Jftl::mount`].
    pub fn mount_into<'p>(
        place: &'p mut MaybeUninit<Self>,
        nand: N,
        ram: &'a mut [u8],
    ) -> Result<&'p mut Self, Error<N::Error>> {
        let disk = Self::put_new(place, nand, ram)?;
        disk.find()?;
        Ok(disk)
    }

    /// Apart, for the stack that the disk takes on its way to its place.
    #[inline(never)]
    fn put_new<'p>(
        place: &'p mut MaybeUninit<Self>,
        nand: N,
        ram: &'a mut [u8],
    ) -> Result<&'p mut Self, Error<N::Error>> {
        Ok(place.write(Self::new(nand, ram)?))
    }

    /// Finds what is on the chip, for a mount.
    fn find(&mut self) -> Result<(), Error<N::Error>> {
        // The page that a cut has hit may go between two reads; then the one before is the last,
        // and nothing is missing.
        let mut seen = None;
        for turn in 0..8 {
            self.forget();
            let damage = match self.try_mount(turn == 0) {
                Ok(true) => return Ok(()),
                Ok(false) => continue,
                Err(Error::Damaged { what, page }) => Damage::Page { what, page },
                Err(Error::Full) => Damage::NoBlock,
                Err(e) => return Err(e),
            };
            let is_page = matches!(damage, Damage::Page { .. });
            if is_page && seen.replace(damage) != Some(damage) {
                continue;
            }
            if is_page && !self.ram.direct {
                return Err(damage.error());
            }
            self.damage = Some(damage);
            if !is_page {
                // Once more, without what writes.
                continue;
            }
            self.forget();
            return self.salvage(damage);
        }
        Err(Error::Damaged {
            what: "the end of the log",
            page: NONE,
        })
    }

    fn forget(&mut self) {
        self.ram.reset();
        (self.log, self.anchors) = (Log::EMPTY, Anchors::EMPTY);
        (self.dying, self.free, self.recovering) = (0, 0, None);
        self.heads = [Head::CLOSED; 4];
    }

    /// Whether the log's end stayed what it was.
    fn try_mount(&mut self, is_first: bool) -> Result<bool, Error<N::Error>> {
        let Some(end) = self.find_log(is_first)? else {
            return Ok(false);
        };
        let header = end.header;
        let clean = header.kind == Kind::Clean && header.flags & SECOND != 0;
        if clean {
            for (i, head) in self.heads.iter_mut().enumerate() {
                let at = HEADER + 8 * i;
                *head = Head {
                    block: get_u32(self.ram.scratch, at),
                    next: get_u32(self.ram.scratch, at + 4),
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
        self.recovering = Some(header.redo);
        // In RAM. What the map pages still name and the log does not is free for what follows.
        if !self.redo_records(header)? {
            return Ok(false);
        }
        self.count_free();
        if self.damage.is_some() {
            (self.untouched, self.recovering) = (true, None);
            return Ok(true);
        }
        self.log.page = self.lay.pages;
        if !self.repeat_end(&end)? {
            return Ok(false);
        }
        self.recovering = None;
        debug_assert_eq!(self.log.fill, 0);
        self.settle()?;
        for block in 0..self.lay.blocks {
            if self.ram.state(block) == State::Held {
                self.ram.set_state(block, State::Used(0));
            }
        }
        self.count_free();
        self.anchor()?;
        self.untouched = false;
        self.count_free();
        // The next cut may come before the next write.
        self.prepare()?;
        self.shorten_list()?;
        Ok(true)
    }

    /// Each mount that is cut takes a block for the page that it repeats, and gives none back. What
    /// is not needed any more goes from the list here, while there is room in it: an anchor, and a
    /// page that names it, or it does not count after the next cut.
    fn shorten_list(&mut self) -> Result<(), Error<N::Error>> {
        let is_long = self.log.len + self.lay.log_ahead > self.lay.log_list();
        if is_long && self.log_droppable() > 0 {
            self.anchor()?;
            self.commit()?;
        }
        Ok(())
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
        let set = self.anchors.set;
        let others = set
            .into_iter()
            .filter(|block| !(0..ANCHORS).contains(block));
        for block in (0..ANCHORS).chain(others.filter(|block| *block != NONE)) {
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

    /// Heads as an orderly end left them must be blocks in use, with nothing where they go on. A
    /// read each, with tags in band two.
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
                && !self.nand.is_bad(BlockAddr(block))?
                && (next == self.lay.usable || self.is_blank(block * self.lay.pages + next)?)
                && (!self.lay.in_band || self.is_blank(self.lay.tag_page(block))?);
            if !sound {
                self.heads[i] = Head::CLOSED;
            }
        }
        Ok(())
    }

    /// Whether a page reads as erased.
    fn is_blank(&mut self, page: u32) -> Result<bool, Error<N::Error>> {
        let is_readable = self.load_page(page)?;
        Ok(is_readable && self.ram.scratch.iter().all(|byte| *byte == 0xFF))
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
            disk.write_changed()?;
            if disk.lay.in_band {
                for head in 0..disk.heads.len() {
                    disk.close_head(head)?;
                }
            }
            // What dies from here on is free again at the next mount, which applies no record.
            debug_assert_eq!(disk.ram.oldest(), None);
            disk.commit()?;
            disk.snapshot(disk.snapshot_parts().iter().sum())?;
            for flags in [0, SECOND] {
                disk.end_page(flags)?;
                disk.log.next -= 1;
            }
            disk.log.next += 1;
            // Within a block the numbers of pages follow from its first.
            disk.log.page = disk.lay.pages;
            disk.untouched = true;
            Ok(disk.nand.flush()?)
        })
    }

    /// Writes all changed map pages. Cleaning in between changes others, before and behind.
    pub(crate) fn write_changed(&mut self) -> Result<(), Error<N::Error>> {
        let mut patience = 2 * self.ram.slots();
        while self.ram.oldest().is_some() {
            if patience > 0 {
                patience -= 1;
                self.prepare()?;
            }
            let changed = (0..self.ram.slots()).find(|slot| self.ram.dirty(*slot) != 0);
            if let Some(slot) = changed {
                self.map_write(self.ram.segment(slot) / self.lay.per_page)?;
            }
        }
        Ok(())
    }

    /// Writes the page of an orderly end.
    fn end_page(&mut self, flags: u8) -> Result<(), Error<N::Error>> {
        loop {
            self.log_room()?;
            self.scratch_uses = self.scratch_uses.wrapping_add(1);
            for (i, head) in self.heads.iter().enumerate() {
                put_u32(self.ram.scratch, HEADER + 8 * i, head.block);
                put_u32(self.ram.scratch, HEADER + 8 * i + 4, head.next);
            }
            let len = 8 * self.heads.len();
            if self.log_page(Source::Scratch, Kind::Clean, flags, 0, len)? {
                return Ok(());
            }
        }
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

//! Follows the journal of an ext3 or ext4 file system as it is written, as a hint.
//!
//! A descriptor block says for each block of the journal behind it where its home is. So a page of
//! the journal is tagged with its home when it is programmed. When the home is written, with the
//! same bytes, it is mapped to that page instead of being programmed. A block that is journalled
//! again is mapped to the pages of its older copy as far as it is the same. The bytes are compared
//! with those of the page: whatever was misread here, a sector holds what was written to it.
//!
//! ```text
//! table: | sector | homes: 4 a block of the journal | pieces: 8 each |
//! ```

use flashkit_nand::{Nand, PageAddr};

use crate::disk::Jftl;
use crate::error::Error;
use crate::ext::{self, Reader, SUPER, SUPER_AT};
use crate::layout::{PER_SEGMENT, TAG};
use crate::memory::Likely;
use crate::packed::{self, page_of, slot_of};
use crate::record::{NONE, get, put};
use crate::squeeze;

/// The first word of the journal's own blocks.
const MAGIC: u32 = 0xC03B_3998;
const DESCRIPTOR: u32 = 1;

/// Blocks of the journal that lie in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// First block in the file system.
    pub block: u32,
    /// Its number in the journal.
    pub index: u32,
    pub len: u32,
}

/// Bytes of a piece in the table: its first block, and that block's number in the journal.
pub(crate) const RUN: usize = 8;

/// The pieces of a journal of so many blocks, as the table has them behind the homes.
pub(crate) fn runs(table: &[u8], blocks: u32, count: usize) -> impl Iterator<Item = Run> {
    let at = move |i: usize| 4 * blocks as usize + RUN * i;
    (0..count).map(move |i| {
        let index = get(table, at(i) + 4);
        let last = i + 1 == count;
        let end = if last {
            blocks
        } else {
            get(table, at(i + 1) + 4)
        };
        Run {
            block: get(table, at(i)),
            index,
            len: end - index,
        }
    })
}

/// Whether a journal is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// Remapping is off: no table has been handed over.
    Off,
    /// Plain translation; the text says why.
    None(&'static str),
    /// A journal of so many blocks.
    Watched {
        /// Blocks.
        blocks: u32,
        /// Bytes of a block.
        block_size: u32,
    },
}

/// What is known of a journal.
pub(crate) struct Watch<'a> {
    /// For each block of the journal the home of what it holds, or
    /// [`NONE`]; behind them the pieces.
    table: &'a mut [u8],
    /// One sector.
    buf: &'a mut [u8],
    state: JournalState,
    /// A superblock was written: to be looked at with the next flush.
    stale: bool,
    base: u32,
    per_block: u32,
    blocks: u32,
    run_count: usize,
    digest: u32,
    /// The log proper: its first block, and the one behind its last.
    first: u32,
    end: u32,
    tag_len: usize,
    /// Tags hold more than their home's number in 4 bytes.
    v3: bool,
    tail: usize,
    /// Behind the newest block described, and that descriptor's number.
    head: u32,
    sequence: Option<u32>,
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    get(bytes, at).swap_bytes()
}

impl<'a> Watch<'a> {
    pub fn new(sector_size: usize, table: &'a mut [u8]) -> Watch<'a> {
        let (buf, table) = table.split_at_mut(sector_size.min(table.len()));
        Watch {
            table,
            buf,
            state: JournalState::None("not looked for yet"),
            stale: true,
            base: 0,
            per_block: 1,
            blocks: 0,
            run_count: 0,
            digest: 0,
            first: 0,
            end: 0,
            tag_len: 8,
            v3: false,
            tail: 0,
            head: 0,
            sequence: None,
        }
    }

    fn is_active(&self) -> bool {
        matches!(self.state, JournalState::Watched { .. })
    }

    fn home(&self, index: u32) -> u32 {
        get(self.table, 4 * index as usize)
    }

    fn set_home(&mut self, index: u32, home: u32) {
        put(self.table, 4 * index as usize, home);
    }

    /// Looks for a journal.
    fn probe<N: Nand>(&mut self, disk: &mut Jftl<'_, N>) {
        self.stale = false;
        (self.head, self.sequence) = (0, None);
        // The table is written over before it is known whether there is a journal.
        (self.run_count, self.first, self.end) = (0, 0, 0);
        let mut reader = Reader {
            disk,
            buf: self.buf,
            holds: None,
        };
        let found = match reader.find(self.table) {
            Ok(found) => found,
            Err(why) => {
                self.state = JournalState::None(why);
                return;
            }
        };
        self.base = found.base;
        self.per_block = found.per_block;
        (self.blocks, self.run_count) = (found.blocks, found.run_count);
        self.table[..4 * found.blocks as usize].fill(0xFF);
        self.digest = found.digest;
        let block_size = found.per_block * disk.sector_size();
        self.state = JournalState::Watched {
            blocks: found.blocks,
            block_size,
        };
        let first = self.block_at(0);
        let first = first.and_then(|block| self.sector_of(block, disk.sector_count()));
        let is_sound = match first.map(|sector| disk.read_plain(sector, self.buf)) {
            Some(Ok(())) => {
                let mut start = [0; 256];
                start.copy_from_slice(&self.buf[..256]);
                self.learn(&start)
            }
            _ => false,
        };
        if !is_sound {
            self.state = JournalState::None("the journal's superblock is not sound");
        }
    }

    /// Takes up the journal's superblock.
    fn learn(&mut self, sb: &[u8]) -> bool {
        let JournalState::Watched { blocks, block_size } = self.state else {
            return false;
        };
        let (size, most, first) = (be32(sb, 0xC), be32(sb, 0x10), be32(sb, 0x14));
        let kind = be32(sb, 4);
        if be32(sb, 0) != MAGIC || !(3..=4).contains(&kind) || size != block_size {
            return false;
        }
        let features = if kind == 4 { be32(sb, 0x28) } else { 0 };
        let fast = match (features & 0x20 != 0, be32(sb, 0x54)) {
            (false, _) => 0,
            (true, 0) => 256,
            (true, n) => n,
        };
        let end = most.min(blocks).saturating_sub(fast);
        if first == 0 || first >= end {
            return false;
        }
        (self.first, self.end) = (first, end);
        self.v3 = features & 0x10 != 0;
        let v2 = features & 0x8 != 0;
        let wide = if features & 0x2 != 0 { 4 } else { 0 };
        self.tag_len = match (self.v3, v2) {
            (true, _) => 16,
            (false, true) => 10 + wide,
            (false, false) => 8 + wide,
        };
        self.tail = if self.v3 || v2 { 4 } else { 0 };
        true
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        runs(self.table, self.blocks, self.run_count)
    }

    /// The number in the journal of a block of the file system.
    fn index_of(&self, block: u32) -> Option<u32> {
        let run = self
            .runs()
            .find(|run| block >= run.block && block - run.block < run.len)?;
        Some(run.index + block - run.block)
    }

    fn block_at(&self, index: u32) -> Option<u32> {
        let run = self
            .runs()
            .find(|run| index >= run.index && index - run.index < run.len)?;
        Some(run.block + index - run.index)
    }

    /// Whether a piece of the map holds sectors of the journal.
    fn is_journal(&self, segment: u32) -> bool {
        let sector =
            |block: u32| u64::from(self.base) + u64::from(block) * u64::from(self.per_block);
        let (from, to) = (segment * PER_SEGMENT, (segment + 1) * PER_SEGMENT);
        self.is_active()
            && self.runs().any(|run| {
                sector(run.block) < u64::from(to) && sector(run.block + run.len) > u64::from(from)
            })
    }

    /// The first sector of a block of the file system, if all of it is on a disk of so many.
    fn sector_of(&self, block: u32, sectors: u32) -> Option<u32> {
        let sector = u64::from(self.base) + u64::from(block) * u64::from(self.per_block);
        let end = sector + u64::from(self.per_block);
        (end <= u64::from(sectors)).then_some(sector as u32)
    }

    /// Takes notice of a block of the journal.
    fn follow(&mut self, index: u32, bytes: &[u8]) {
        if be32(bytes, 0) != MAGIC {
            return;
        }
        self.set_home(index, NONE);
        if index == 0 {
            self.learn(&bytes[..256]);
        } else if be32(bytes, 4) == DESCRIPTOR && (self.first..self.end).contains(&index) {
            self.describe(index, bytes);
        }
    }

    /// Notes where the blocks behind a descriptor have their homes.
    fn describe(&mut self, index: u32, bytes: &[u8]) {
        let (mut at, mut next) = (12, index);
        let end = bytes.len() - self.tail;
        while at + self.tag_len <= end {
            next = if next + 1 >= self.end {
                self.first
            } else {
                next + 1
            };
            if next == index {
                break;
            }
            let low = be32(bytes, at);
            let flags = if self.v3 {
                be32(bytes, at + 4)
            } else {
                be32(bytes, at + 4) & 0xFFFF
            };
            let wide = self.tag_len >= 12;
            let high = if wide { be32(bytes, at + 8) } else { 0 };
            // An escaped block is not as its home.
            let known = high == 0 && flags & 1 == 0;
            self.set_home(next, if known { low } else { NONE });
            at += self.tag_len;
            if flags & 2 == 0 {
                at += 16;
            }
            if flags & 8 != 0 {
                break;
            }
        }
        let sequence = be32(bytes, 8);
        let newer = |last: u32| sequence.wrapping_sub(last) as i32 >= 0;
        if self.sequence.is_none_or(newer) {
            self.head = next;
            self.sequence = Some(sequence);
        }
    }

    /// The newest block of the journal whose home this is, one aside.
    fn newest(&self, block: u32, but: Option<u32>) -> Option<u32> {
        let before = (self.first..=self.head.min(self.end - 1)).rev();
        let behind = (self.head.max(self.first)..self.end).rev();
        let mut order = before.chain(behind);
        order.find(|index| self.home(*index) == block && Some(*index) != but)
    }

    /// The first sector of the newest copy of a block in the journal, one aside.
    fn copy_of(&self, block: u32, but: Option<u32>, sectors: u32) -> Option<u32> {
        let newest = self.newest(block, but)?;
        self.sector_of(self.block_at(newest)?, sectors)
    }

    /// Whether a written sector means that the journal has to be looked for.
    fn looks_new(&self, sector: u32, data: &[u8]) -> bool {
        let offset = (SUPER_AT % data.len() as u64) as usize;
        let Some(sb) = data.get(offset..offset + SUPER) else {
            return false;
        };
        if !self.is_active() {
            return ext::is_super(sb);
        }
        let own = self.base + (SUPER_AT / data.len() as u64) as u32;
        sector == own && (!ext::is_super(sb) || ext::digest(sb) != self.digest)
    }
}

impl<'a, N: Nand> Jftl<'a, N> {
    /// Begins to remap: looks for the journal of an ext3 or ext4 file system, and follows it from
    /// now on. Looks again when a superblock has been written.
    ///
    /// `table` is a sector, 4 bytes for each block of a journal, and 8 for each of its pieces; a
    /// journal that takes more is not followed. One of ext3 has a piece more for each indirect
    /// block, of a block's bytes / 4 blocks. Costs some ten reads, and one for each sector of the
    /// journal's indirect blocks.
    pub fn watch_journal(&mut self, table: &'a mut [u8]) {
        let mut watch = Watch::new(self.lay.page, table);
        if watch.buf.len() == self.lay.page {
            watch.probe(self);
        }
        self.watch = Some(watch);
    }

    /// Whether a journal is followed, and why not.
    pub fn journal(&self) -> JournalState {
        self.watch
            .as_ref()
            .map_or(JournalState::Off, |watch| watch.state)
    }

    /// Looks for the journal again if that is due.
    pub(crate) fn probe_journal(&mut self) {
        if self.watch.as_ref().is_none_or(|watch| !watch.stale) {
            return;
        }
        if let Some(mut watch) = self.watch.take() {
            watch.probe(self);
            self.watch = Some(watch);
        }
    }

    /// The block of the file system that begins at a sector, if all of it is in what is left.
    fn whole_block(&self, sector: u32, left: usize) -> Option<(u32, u32)> {
        let watch = self.watch.as_ref().filter(|watch| watch.is_active())?;
        let relative = sector.checked_sub(watch.base)?;
        let per_block = watch.per_block;
        let whole = relative.is_multiple_of(per_block) && left >= per_block as usize;
        whole.then(|| (relative / per_block, per_block))
    }

    /// Takes notice of blocks of the journal that are read: the kernel's recovery reads them all.
    pub(crate) fn note_journal_read(&mut self, first: u32, data: &[u8]) {
        let page = self.lay.page;
        let count = data.len() / page;
        let mut i = 0;
        while i < count {
            let Some((block, len)) = self.whole_block(first + i as u32, count - i) else {
                i += 1;
                continue;
            };
            let bytes = &data[i * page..(i + len as usize) * page];
            if let Some(watch) = &mut self.watch
                && let Some(index) = watch.index_of(block)
            {
                watch.follow(index, bytes);
            }
            i += len as usize;
        }
    }

    /// Writes sectors with an eye on the journal.
    pub(crate) fn write_watched(&mut self, first: u32, data: &[u8]) -> Result<(), Error<N::Error>> {
        let page = self.lay.page;
        let count = data.len() / page;
        let mut i = 0;
        while i < count {
            let sector = first + i as u32;
            let bytes = &data[i * page..];
            if let Some(watch) = &mut self.watch
                && watch.looks_new(sector, &bytes[..page])
            {
                watch.stale = true;
            }
            let Some((block, len)) = self.whole_block(sector, count - i) else {
                self.write_one(sector, &bytes[..page], NONE)?;
                i += 1;
                continue;
            };
            self.write_block(sector, block, &bytes[..len as usize * page])?;
            i += len as usize;
        }
        Ok(())
    }

    fn write_block(&mut self, sector: u32, block: u32, data: &[u8]) -> Result<(), Error<N::Error>> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        let sectors = self.lay.sectors;
        if let Some(index) = watch.index_of(block) {
            watch.follow(index, data);
            let home = Some(watch.home(index)).filter(|home| *home != NONE);
            let home = home.and_then(|home| watch.sector_of(home, sectors));
            return self.write_journal(sector, index, home, data);
        }
        let journal = watch.copy_of(block, None, sectors);
        for (i, bytes) in (0..).zip(data.chunks_exact(self.lay.page)) {
            let home = sector + i;
            let likely = self.memory.note(home, bytes);
            if let Some(journal) = journal
                && likely != Likely::Other
                && self.share(home, journal + i, home, bytes)?
            {
                self.stats.elided += 1;
                continue;
            }
            self.write_one(home, bytes, NONE)?;
        }
        Ok(())
    }

    /// Writes a block of the journal, and what is as in its home's newest copy only to the map.
    fn write_journal(
        &mut self,
        sector: u32,
        index: u32,
        home: Option<u32>,
        data: &[u8],
    ) -> Result<(), Error<N::Error>> {
        let mut newest = None;
        for (i, bytes) in (0..).zip(data.chunks_exact(self.lay.page)) {
            self.stats.journal_sectors += 1;
            let Some(home) = home else {
                self.write_sector(sector + i, bytes, NONE, true)?;
                continue;
            };
            if self.memory.note(home + i, bytes) == Likely::Same {
                // One walk along the table for all sectors of the block.
                let first = *newest.get_or_insert_with(|| {
                    let watch = self.watch.as_ref();
                    let older = watch.and_then(|watch| {
                        watch.copy_of(watch.home(index), Some(index), self.lay.sectors)
                    });
                    older.unwrap_or(home)
                });
                let source = first + i;
                if self.share(sector + i, source, home + i, bytes)? {
                    self.stats.unchanged += 1;
                    continue;
                }
            }
            self.write_sector(sector + i, bytes, home + i, true)?;
        }
        Ok(())
    }

    /// Maps a sector to the page of another if that holds the same bytes,
    /// and its tag names the home.
    fn share(
        &mut self,
        sector: u32,
        source: u32,
        home: u32,
        data: &[u8],
    ) -> Result<bool, Error<N::Error>> {
        let page = self.lookup(source)?;
        if page == NONE || !self.lay.contains(page) || self.is_absence(data) {
            return Ok(false);
        }
        self.prepare()?;
        if self.lookup(source)? != page || !self.can_gain(page) {
            return Ok(false);
        }
        let (same, owners) = match self.memory.copy(page_of(page)) {
            Some((tag, copy)) => Self::compare(copy, slot_of(page), Self::parse_tag(&tag), data),
            None => self.is_same(page, data)?,
        };
        if !same || !owners.contains(&home) {
            return Ok(false);
        }
        self.set(sector, page)?;
        self.stats.sectors_written += 1;
        self.maintain()?;
        Ok(true)
    }

    /// Whether a place on flash holds these bytes, and the owners that it names.
    fn is_same(&mut self, place: u32, data: &[u8]) -> Result<(bool, [u32; 2]), Error<N::Error>> {
        let mut tag = [0xFF; TAG];
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let readable = self.read_page(page_of(place), &mut tag)?;
        let owners = Self::parse_tag(&tag);
        let (same, owners) = Self::compare(self.ram.scratch, slot_of(place), owners, data);
        let same = readable && same;
        if same && self.lay.in_band && slot_of(place) == 0 {
            self.load_tag(place, &mut tag)?;
            return Ok((same, Self::parse_tag(&tag)));
        }
        Ok((same, owners))
    }

    /// Whether a page, or a slot of it, holds these bytes, and the owners that it names.
    fn compare(page: &[u8], slot: u32, owners: [u32; 2], data: &[u8]) -> (bool, [u32; 2]) {
        if slot == 0 {
            return (page == data, owners);
        }
        let code = packed::bytes(page, slot);
        let same = code.is_some_and(|code| squeeze::is_code_of(code, data));
        (same, packed::owners(page, slot))
    }

    /// Whether a piece of the map holds sectors of the journal that is followed.
    pub(crate) fn is_journal(&self, segment: u32) -> bool {
        let watch = self.watch.as_ref();
        watch.is_some_and(|watch| watch.is_journal(segment))
    }

    /// The home of a sector of the journal, or [`NONE`].
    pub(crate) fn home_of(&self, sector: u32) -> u32 {
        let watch = self.watch.as_ref().filter(|watch| watch.is_active());
        let home = watch.and_then(|watch| {
            let relative = sector.checked_sub(watch.base)?;
            let index = watch.index_of(relative / watch.per_block)?;
            let home = Some(watch.home(index)).filter(|home| *home != NONE)?;
            let home = watch.sector_of(home, self.lay.sectors)?;
            Some(home + relative % watch.per_block)
        });
        home.unwrap_or(NONE)
    }

    /// Reads a tag where they are in band: of an open block in RAM, else in the block's last page.
    pub(crate) fn load_tag(
        &mut self,
        page: u32,
        tag: &mut [u8; TAG],
    ) -> Result<(), Error<N::Error>> {
        let (block, at) = (self.lay.block_of(page), self.lay.index_of(page) * TAG);
        if let Some(head) = self.heads.iter().position(|head| head.block == block) {
            tag.copy_from_slice(&self.ram.tags(head)[at..at + TAG]);
            return Ok(());
        }
        let last = PageAddr(self.lay.tag_page(block));
        if !self.nand.read(last, at as u32, tag, &mut [])?.is_readable() {
            tag.fill(0xFF);
        }
        Ok(())
    }

    /// Pages that are a block of the journal and its home at once, as far as the journal has been
    /// followed since the mount. Reads the map.
    ///
    /// # Errors
    /// As [`Jftl::read`].
    pub fn shared_pages(&mut self) -> Result<u32, Error<N::Error>> {
        let Some(watch) = self.watch.take() else {
            return Ok(0);
        };
        let shared = self.count_shared(&watch);
        self.watch = Some(watch);
        shared
    }

    fn count_shared(&mut self, watch: &Watch<'_>) -> Result<u32, Error<N::Error>> {
        let (mut shared, sectors) = (0, self.lay.sectors);
        for index in watch.first..watch.end {
            let home = Some(watch.home(index)).filter(|home| *home != NONE);
            let home = home.and_then(|home| watch.sector_of(home, sectors));
            let block = watch.block_at(index);
            let journal = block.and_then(|block| watch.sector_of(block, sectors));
            let (Some(home), Some(journal)) = (home, journal) else {
                continue;
            };
            for i in 0..watch.per_block {
                let page = self.lookup(journal + i)?;
                shared += u32::from(page != NONE && self.lookup(home + i)? == page);
            }
        }
        Ok(shared)
    }
}

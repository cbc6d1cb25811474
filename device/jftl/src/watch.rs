//! Follows the journal of an ext3 or ext4 file system as it is written, as a hint.
//!
//! A descriptor block says for each block of the journal behind it where its home is. So a page of
//! the journal is tagged with its home when it is programmed. When the home is written, with the
//! same bytes, it is mapped to that page instead of being programmed. A block that is journalled
//! again is mapped to the pages of its older copy as far as it is the same. The bytes are compared
//! with those of the page: whatever was misread here, a sector holds what was written to it.

use flashkit_nand::Nand;

use crate::error::Error;
use crate::ext::{self, Reader, SUPER, SUPER_AT};
use crate::journal::{JournalState, Watch};
use crate::layout::{NONE, TAG, page_of, slot_of};
use crate::memory::Likely;
use crate::packed;
use crate::squeeze;
use crate::state::Jftl;

impl<'a, N: Nand> Jftl<'a, N> {
    /// Begins to remap: looks for the journal of an ext3 or ext4 file system, and follows it from
    /// now on. Looks again when a superblock has been written.
    ///
    /// `table` is a sector, 4 bytes for each block of a journal, and 8 for each of its pieces; a
    /// journal that takes more is not followed. One of ext3 has a piece more for each indirect
    /// block, of a block's bytes / 4 blocks. Costs some ten reads, and one for each sector of the
    /// journal's indirect blocks.
    #[cfg(feature = "journals")]
    pub fn watch_journal(&mut self, table: &'a mut [u8]) {
        let mut watch = Watch::new(self.lay.page, table);
        self.probe(&mut watch);
        self.watch = Some(watch);
    }

    /// Whether a journal is followed, and why not.
    pub fn journal(&self) -> JournalState {
        self.watch().map_or(JournalState::Off, |watch| watch.state)
    }

    /// Looks for the journal again if that is due.
    pub(crate) fn probe_journal(&mut self) {
        if self.watch().is_none_or(|watch| !watch.stale) {
            return;
        }
        if let Some(mut watch) = self.watch.take() {
            self.probe(&mut watch);
            self.watch = Some(watch);
        }
    }

    /// Looks for a journal.
    fn probe(&mut self, watch: &mut Watch<'_>) {
        watch.stale = false;
        if watch.buf.len() < self.lay.page {
            watch.state = JournalState::None("the table has no room for a sector");
            return;
        }
        (watch.head, watch.sequence) = (0, None);
        // The table is written over before it is known whether there is a journal.
        (watch.run_count, watch.first, watch.end) = (0, 0, 0);
        let mut reader = Reader {
            disk: self,
            buf: watch.buf,
            holds: None,
        };
        let found = match reader.find(watch.table) {
            Ok(found) => found,
            Err(why) => {
                watch.state = JournalState::None(why);
                return;
            }
        };
        watch.base = found.base;
        watch.per_block = found.per_block;
        (watch.blocks, watch.run_count) = (found.blocks, found.run_count);
        watch.table[..4 * found.blocks as usize].fill(0xFF);
        watch.digest = found.digest;
        let block_size = found.per_block * self.lay.page as u32;
        watch.state = JournalState::Watched {
            blocks: found.blocks,
            block_size,
        };
        let first = watch.block_at(0);
        let first = first.and_then(|block| watch.sector_of(block, self.lay.sectors));
        let is_sound = match first.map(|sector| self.read_plain(sector, watch.buf)) {
            Some(Ok(())) => {
                let mut start = [0; 256];
                start.copy_from_slice(&watch.buf[..256]);
                watch.learn(&start)
            }
            _ => false,
        };
        if !is_sound {
            watch.state = JournalState::None("the journal's superblock is not sound");
        }
    }

    /// Whether a written sector means that the journal has to be looked for.
    fn looks_new(watch: &Watch<'_>, sector: u32, data: &[u8]) -> bool {
        let offset = (SUPER_AT % data.len() as u64) as usize;
        let Some(sb) = data.get(offset..offset + SUPER) else {
            return false;
        };
        if !watch.is_active() {
            return ext::is_super(sb);
        }
        let own = watch.base + (SUPER_AT / data.len() as u64) as u32;
        sector == own && (!ext::is_super(sb) || ext::digest(sb) != watch.digest)
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
                && Self::looks_new(watch, sector, &bytes[..page])
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

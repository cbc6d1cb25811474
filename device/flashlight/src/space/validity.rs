//! Validity beyond the dirty list: entries that the list has no room for go to flash, as
//! the buffer of Logarithmic Gecko does (N. Dayan and others, 2016), to pages that are
//! merged as they are written.
//!
//! The blocks of a chip are divided into ranges. Each has a page with a bit for each page of its
//! blocks; when the list is nearly full, the entries of the range that has the most of them go
//! there: a read, and a program. What becomes invalid in such a block later begins a new entry;
//! the entry and the page on flash together say what is known. When the block is cleaned they are
//! put together, for a read.
//!
//! ```text
//! 32 first block u32   36 for each block of the range a bit a page, least significant first, clear: not valid
//! ```
//!
//! Invariants:
//! * A clear bit on flash is right as long as the block is not erased:
//!   [`Validity::forget`]. So it is in an entry.
//! * Nothing rests on these pages. They count as invalid as soon as they are written, no checkpoint
//!   names them, and a mount does without. A block they are in is the last to be taken of those
//!   that are free; should it be erased, the pages of blocks that they knew of are looked at one by
//!   one, as those of a block without an entry are.
//! * What is put together counts only if it leaves as many valid pages as the block table says.
//! * Only blocks that are not written any more go there: all their pages have been
//!   programmed, or never will be.

use crate::error::Error;
use crate::format::area::LogArea;
use crate::format::header::{HEADER, Kind};
use crate::format::validity::{BITS, RANGES, WORTH, entry_bits, len, per_range};
use crate::space::store::Store;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{Geometry, Nand, PageAddr};

/// Which blocks flash knows of, and where.
pub(crate) struct Validity<'r> {
    /// A bit a block, in the caller's RAM, set: flash knows of invalid pages in it, or did, and an
    /// entry on the list has those found since. Empty: nothing goes to flash.
    pub(crate) known: &'r mut [u8],
    places: [PageAddr; RANGES],
    geo: Geometry,
}

impl<'r> Validity<'r> {
    pub fn new(known: &'r mut [u8], geo: Geometry) -> Self {
        Validity {
            known,
            places: [PageAddr::NONE; RANGES],
            geo,
        }
    }

    /// Whether the entry of a block, if it has one, is a part of what is known of it.
    pub fn has(&self, block: u32) -> bool {
        let byte = self.known.get(block as usize / 8);
        byte.is_some_and(|byte| byte & 1 << (block % 8) != 0)
    }

    fn note(&mut self, block: u32) {
        self.known[block as usize / 8] |= 1 << (block % 8);
    }

    pub(crate) fn drop(&mut self, block: u32) {
        if let Some(byte) = self.known.get_mut(block as usize / 8) {
            *byte &= !(1 << (block % 8));
        }
    }

    /// Whether a block holds one of these pages.
    pub fn is_in(&self, block: u32) -> bool {
        let mut places = self.places.iter().filter(|at| at.is_some());
        places.any(|at| self.geo.block_of(*at).0 == block)
    }

    /// A block is erased.
    pub fn forget(&mut self, block: u32) {
        self.drop(block);
        for at in &mut self.places {
            if at.is_some() && self.geo.block_of(*at).0 == block {
                *at = PageAddr::NONE;
            }
        }
    }

    /// Pages may be valid that were not.
    pub fn forget_all(&mut self) {
        self.known.fill(0);
    }

    pub(crate) fn range(&self, block: u32) -> usize {
        (block / per_range(&self.geo)) as usize
    }

    /// Where the bits of a block are in the page of its range.
    pub(crate) fn bits(&self, block: u32) -> core::ops::Range<usize> {
        let size = entry_bits(self.geo.pages_per_block());
        let at = BITS + (block % per_range(&self.geo)) as usize * size;
        at..at + size
    }
}

impl<N: Nand> Store<'_, N> {
    /// The entry of a block on the dirty list, if it says all that is known of the block.
    pub fn listed(&self, block: u32) -> Option<usize> {
        self.dirty.find(block).filter(|_| !self.validity.has(block))
    }

    /// Whether the entry at `i` may go to flash: not that of a block which may still
    /// be written, or is `kept`.
    fn may_go(&self, i: usize, kept: Option<u32>) -> bool {
        let block = self.dirty.block(i);
        Some(block) != kept && !self.is_open(block) && self.remnants.find(block).is_none()
    }

    /// The range with the most entries that may go.
    pub(crate) fn fullest_range(&self, kept: Option<u32>) -> Option<usize> {
        let mut counts = [0; RANGES];
        for i in (0..self.dirty.len()).filter(|&i| self.may_go(i, kept)) {
            counts[self.validity.range(self.dirty.block(i))] += 1;
        }
        let range = (0..RANGES).max_by_key(|&range| counts[range])?;
        (counts[range] >= WORTH).then_some(range)
    }

    /// Loads the page of a range; `false` when there is none any more.
    pub(crate) fn load_validity(
        &mut self,
        range: usize,
        page: &mut [u8],
    ) -> Result<bool, Error<N::Error>> {
        self.scratch_at = PageAddr::NONE;
        let header = self.read_meta(self.validity.places[range], page)?;
        Ok(header.is_some_and(|h| h.kind == Kind::Validity)
            && get_u32(page, HEADER) == range as u32 * per_range(&self.geo))
    }

    /// Moves the entries of a range to its page, but for those that must
    /// stay. One read, one program.
    pub(crate) fn write_validity(
        &mut self,
        range: usize,
        kept: Option<u32>,
        page: &mut [u8],
    ) -> Result<(), Error<N::Error>> {
        if !self.load_validity(range, page)? {
            page.fill(0xff);
        }
        let first = range as u32 * per_range(&self.geo);
        put_u32(page, HEADER, first);
        let mut i = 0;
        while i < self.dirty.len() {
            let block = self.dirty.block(i);
            if self.validity.range(block) != range || !self.may_go(i, kept) {
                i += 1;
                continue;
            }
            let bits = &mut page[self.validity.bits(block)];
            if !self.validity.has(block) {
                bits.fill(0xff);
            }
            self.dirty.mask(i, bits);
            self.validity.note(block);
            self.dirty.remove(i);
        }
        // What is there of blocks that have been erased since is not theirs, should
        // this page not come to be.
        self.validity.places[range] = PageAddr::NONE;
        let page = &mut page[..len(&self.geo, first)];
        let at = self.append(LogArea::Extent, page, Kind::Validity, PageAddr::NONE)?;
        self.validity.places[range] = at;
        self.invalidate(at);
        Ok(())
    }

    /// Puts together on the list what is known of a block, if it says which pages are valid; at
    /// most one read, and whether it was made.
    pub(crate) fn recall(&mut self, block: u32, page: &mut [u8]) -> Result<bool, Error<N::Error>> {
        if !self.validity.has(block) {
            return Ok(false);
        }
        let there = self.load_validity(self.validity.range(block), page)?;
        self.validity.drop(block);
        let bits = &mut page[self.validity.bits(block)];
        if !there {
            bits.fill(0xff);
        }
        let listed = self.dirty.find(block);
        if let Some(i) = listed {
            self.dirty.mask(i, bits);
        }
        let valid: u32 = bits.iter().map(|b| b.count_ones()).sum();
        match listed {
            _ if valid == self.valid_pages(block) => {
                let i = listed.unwrap_or_else(|| self.list(block, self.ppb()));
                self.dirty.set_bits(i, bits);
            }
            Some(i) => self.dirty.remove(i),
            None => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::*;
    use crate::cleaning::job::Why;
    use crate::format::blockstate::BlockState;
    use crate::format::validity::room;
    use crate::{
        Config, FileRef, FlashLight, New, Node, Page, ROOT_DIR, Visitor, ram_needed, ram_to_level,
    };
    use flashkit_nand::BlockAddr;
    use flashkit_sim::{ChipSpec, Metered, Rng, SimNand, Timing};

    const PAGE: usize = 1024;
    /// 55 % of the chip.
    const PAGES: u64 = 840;

    #[derive(Default)]
    struct InUse(HashSet<u32>);

    impl Visitor for InUse {
        fn page(&mut self, page: Page) {
            self.0.insert(page.page.0);
        }
        fn problem(&mut self, at: PageAddr, _: u32, what: &'static str) {
            panic!("{at:?}: {what}");
        }
    }

    type Fs = FlashLight<'static, SimNand>;

    fn blank(geo: Geometry) -> SimNand {
        let timing = Timing {
            read_ns: 1,
            program_ns: 1,
            erase_ns: 1,
        };
        SimNand::new(ChipSpec::new(geo, timing))
    }

    fn overwritten(dirty_entries: usize, writes: u64) -> (Fs, FileRef) {
        let geo = Geometry::new(PAGE as u32, 24, 16, 96).unwrap();
        let chip = blank(geo);
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
        let config = Config {
            dirty_entries,
            ..Config::default()
        };
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let mut fs = FlashLight::mount(chip, ram, config).unwrap();
        let Node::File(file) = fs.create(ROOT_DIR, b"f", &New::default()).unwrap() else {
            panic!("a file");
        };
        for n in 0..PAGES + writes {
            let mut rng = Rng::new(n);
            let at = if n < PAGES { n } else { rng.below(PAGES) };
            let page = [at as u8; PAGE];
            fs.write(file, at * PAGE as u64, &page, Default::default())
                .unwrap();
            if n % 40 == 0 {
                fs.fsync(Node::File(file)).unwrap();
            }
        }
        (fs, file)
    }

    fn in_use(fs: &mut Fs) -> HashSet<u32> {
        let mut in_use = InUse::default();
        fs.walk(&mut in_use).unwrap();
        in_use.0
    }

    fn is_whole(fs: &mut Fs, file: FileRef) {
        let mut page = [0; PAGE];
        for at in 0..PAGES {
            fs.read(file, at * PAGE as u64, &mut page).unwrap();
            assert_eq!(page, [at as u8; PAGE], "{at}");
        }
    }

    /// What flash and the list say of a block: a byte a page.
    fn said(fs: &mut Fs, block: u32) -> Vec<bool> {
        let (store, page) = (
            &mut fs.volume.durable.index.store,
            &mut *fs.volume.durable.index.scratch,
        );
        let range = store.validity.range(block);
        assert!(store.load_validity(range, page).unwrap());
        let mut bits = page[store.validity.bits(block)].to_vec();
        if let Some(i) = store.dirty.find(block) {
            store.dirty.mask(i, &mut bits);
        }
        (0..16)
            .map(|index| bits[index / 8] & 1 << (index % 8) != 0)
            .collect()
    }

    #[test]
    fn no_page_in_use_is_called_invalid_and_most_others_are() {
        let (mut blocks, mut whole) = (0, 0);
        for writes in (1_000..3_000).step_by(100) {
            let entries = if writes % 200 == 0 { 8 } else { 32 };
            let (mut fs, file) = overwritten(entries, writes);
            let in_use = in_use(&mut fs);
            for block in (0..96)
                .filter(|&b| fs.volume.durable.index.store.validity.has(b))
                .collect::<Vec<_>>()
            {
                if fs.volume.durable.index.store.valid_pages(block) == 0 {
                    continue;
                }
                let said = said(&mut fs, block);
                for (index, valid) in (0..).zip(&said) {
                    let page = block * 16 + index;
                    assert!(*valid || !in_use.contains(&page), "{writes}: {page}");
                }
                // With 8 entries there is no room for what one change makes invalid.
                if entries > 8 {
                    let valid = said.iter().filter(|valid| **valid).count() as u32;
                    blocks += 1;
                    whole += u32::from(valid == fs.volume.durable.index.store.valid_pages(block));
                }
            }
            is_whole(&mut fs, file);
        }
        assert!(
            blocks > 200 && whole * 10 > blocks * 9,
            "{whole} of {blocks}"
        );
    }

    /// Cleaning reads the tags of fewer pages.
    #[test]
    fn what_is_known_spares_reads() {
        let spare_reads = |entries| {
            let (fs, _) = overwritten(entries, 6_000);
            (fs.nand().counters().spare_reads, fs.written().validity)
        };
        let (short, long) = (spare_reads(32), spare_reads(0));
        assert_eq!(long.1, 0, "the list has room for every block");
        assert!(short.1 > 100, "{short:?}");
        assert!(short.0 < 6_000, "{short:?} {long:?}");
    }

    /// The pages are a help: without them everything goes on as with blocks that have no entry.
    #[test]
    fn lost_pages_are_done_without() {
        let (mut fs, file) = overwritten(8, 2_000);
        let places = fs.volume.durable.index.store.validity.places;
        assert!(places[0].is_some());
        assert!(
            fs.volume
                .durable
                .index
                .store
                .validity
                .is_in(fs.volume.durable.index.store.geo.block_of(places[0]).0)
        );
        for n in 0..2_000u64 {
            if n % 50 == 0 {
                for at in places {
                    let block = fs.volume.durable.index.store.geo.block_of(at).0;
                    fs.volume.durable.index.store.validity.forget(block);
                }
                fs.volume.durable.index.store.validity.places = [PageAddr::NONE; RANGES];
            }
            let at = n * 7_919 % PAGES;
            let page = [at as u8; PAGE];
            fs.write(file, at * PAGE as u64, &page, Default::default())
                .unwrap();
        }
        in_use(&mut fs);
        is_whole(&mut fs, file);
    }

    /// A block's bits on flash may be from before its last erase, as long as
    /// its new entry is not there.
    #[test]
    fn a_page_that_could_not_be_written_leaves_none() {
        let (mut fs, _) = overwritten(32, 2_000);
        assert!(fs.volume.durable.index.store.validity.places[0].is_some());
        fs.volume.durable.index.store.nand.failed = true;
        let done =
            fs.volume
                .durable
                .index
                .store
                .write_validity(0, None, fs.volume.durable.index.scratch);
        assert_eq!(done, Err(Error::ReadOnly));
        assert!(fs.volume.durable.index.store.validity.places[0].is_none());
    }

    /// One that counts erases.
    fn levelled() -> Fs {
        let geo = Geometry::new(PAGE as u32, 24, 16, 96).unwrap();
        let ram = &mut *std::vec![0; ram_to_level(&geo)].leak();
        let chip = FlashLight::format(blank(geo), ram, 7, &New::default()).unwrap();
        FlashLight::mount(chip, ram, Config::default()).unwrap()
    }

    /// All others have been erased more often.
    fn fall_behind(fs: &mut Fs, block: u32) {
        for _ in 0..60 {
            (0..96)
                .filter(|&other| other != block)
                .for_each(|other| fs.volume.durable.index.store.note_erase(other));
        }
    }

    /// A log that nothing is written to any more, and of which nothing is
    /// valid, gives its block back.
    #[test]
    fn an_idle_log_of_nothing_valid() {
        let mut fs = levelled();
        fs.volume.durable.begin().unwrap();
        let mut page = std::vec![0; len(&fs.volume.durable.index.store.geo, 0)];
        let (kind, none) = (Kind::Validity, PageAddr::NONE);
        let at = fs
            .volume
            .durable
            .index
            .store
            .append(LogArea::Extent, &mut page, kind, none);
        let at = at.unwrap();
        fs.volume.durable.index.store.invalidate(at);
        let block = fs.volume.durable.index.store.geo.block_of(at).0;
        assert_eq!(
            fs.volume.durable.index.store.state(block),
            BlockState::Meta(0)
        );
        assert!(!fs.volume.durable.index.store.is_in_use(block));
        fall_behind(&mut fs, block);
        assert!(fs.volume.durable.index.store.is_in_use(block));
        let job = fs.volume.durable.index.begin_job(block, Why::Wear);
        fs.volume.job = Some(job);
        assert_eq!(fs.volume.durable.index.store.state(block), BlockState::Dead);
        fs.sync().unwrap();
        assert!(fs.volume.durable.index.store.is_free(block) && fs.volume.job.is_none());
    }

    /// A free block that says which pages of others are valid is taken last, but not for ever.
    #[test]
    fn in_a_free_block() {
        let mut fs = levelled();
        let block = fs.volume.durable.index.store.free_from(20).unwrap();
        fs.volume.durable.index.store.validity.places[0] =
            fs.volume.durable.index.store.geo.page(BlockAddr(block), 0);
        assert_ne!(fs.volume.durable.index.store.free_from(block), Some(block));
        fall_behind(&mut fs, block);
        assert_eq!(fs.volume.durable.index.store.free_from(block), Some(block));
    }

    /// A bit a block would leave nothing of the list.
    #[test]
    fn many_blocks_of_few_pages() {
        for (page, pages, blocks) in [(4096, 8, 4_000), (4096, 8, 3_850), (16_384, 64, 13_000)] {
            let geo = Geometry::new(page, 24, pages, blocks).unwrap();
            let chip = blank(geo);
            let ram = &mut *std::vec![0; ram_needed(&geo)].leak();
            let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
            let fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
            assert!(fs.ram_use().dirty_entries > 100);
        }
    }

    #[test]
    fn an_erase_forgets_the_block_and_the_pages_in_it() {
        let geo = Geometry::new(2048, 64, 64, 2048).unwrap();
        let mut known = [0; 256];
        assert_eq!(room(&geo, 1_610), known.len());
        let mut validity = Validity::new(&mut known, geo);
        validity.note(5);
        validity.note(300);
        validity.places[1] = PageAddr(5 * 64 + 3);
        assert!(validity.has(5) && validity.has(300) && !validity.has(4));
        assert!(validity.is_in(5) && !validity.is_in(6));
        validity.forget(5);
        assert!(!validity.has(5) && validity.has(300) && !validity.is_in(5));
        validity.forget_all();
        assert!(!validity.has(300));
        assert_eq!((validity.range(250), validity.range(251)), (0, 1));
        assert_eq!(validity.bits(251), BITS..BITS + 8);
        let large = Geometry::new(2048, 64, 64, 65_535).unwrap();
        assert_eq!(room(&large, 1_610), 0);
        assert_eq!(room(&geo, 1_000), 0, "the list is worth more");
        assert!(!Validity::new(&mut [], large).has(7));
    }
}

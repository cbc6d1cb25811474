//! Bits of valid pages that RAM has no place for go to pages of their own,
//! and come back from there.

use crate::cleaning::Volume;
use crate::error::Fault;
use crate::format::validity::ROOM;
use crate::index::Index;
use crate::space::limits::FLOOR;
use flashkit_nand::Nand;

impl<N: Nand> Volume<'_, N> {
    /// Makes room on the dirty list. A read and a program mostly, and what
    /// the taking of a block costs.
    #[inline(never)]
    pub(crate) fn spill(&mut self) -> Result<(), Fault> {
        let dirty = &self.durable.index.store.dirty;
        let room = dirty.most() - dirty.len();
        if self.durable.index.store.validity.known.is_empty() || room >= ROOM.min(dirty.most() / 4)
        {
            return Ok(());
        }
        // Not as long as cleaning is far, nor when every block is needed.
        let free = self.store().available();
        if free <= FLOOR || free > self.store().table.blocks() * 2 / 3 {
            return Ok(());
        }
        let kept = self.job.map(|job| job.block);
        let Some(range) = self.store().fullest_range(kept) else {
            return Ok(());
        };
        let Index { store, scratch, .. } = &mut self.durable.index;
        let page = scratch.overwrite(&mut store.scratch_holds);
        match store.write_validity(range, kept, page) {
            Err(Fault::NoSpace) => {}
            done => done?,
        }
        if self.store().log.lost {
            self.checkpoint(false)?;
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// Gets what is known of a block that is to be cleaned. One read at most; its cost in reads.
    pub(crate) fn recall(&mut self, block: u32) -> Result<u32, Fault> {
        if !self.store.validity.has(block) {
            return Ok(0);
        }
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        self.store.recall(block, page)?;
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::vec::Vec;

    use super::*;
    use crate::Kind;
    use crate::cleaning::job::Why;
    use crate::format::area::LogArea;
    use crate::format::blockstate::BlockState;
    use crate::format::validity::{RANGES, len};
    use crate::space::latch::{MayProgram, Stopped};
    use crate::{
        Config, FileRef, FlashLight, New, Node, Page, ROOT_DIR, Visitor, ram_needed, ram_to_level,
    };
    use flashkit_nand::BlockAddr;
    use flashkit_nand::{Geometry, PageAddr};
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
        let Index { store, scratch, .. } = &mut fs.volume.durable.index;
        let page = scratch.overwrite(&mut store.scratch_holds);
        let range = store.validity.range(block);
        assert!(store.load_validity(range, page).unwrap().is_true());
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
        for writes in (1_000..3_000).step_by(50) {
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
        fs.volume.durable.index.store.nand.stop(Stopped::Driver);
        let Index { store, scratch, .. } = &mut fs.volume.durable.index;
        let page = scratch.overwrite(&mut store.scratch_holds);
        let done = store.write_validity(0, None, page);
        assert_eq!(done, Err(Fault::ReadOnly));
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
        fs.volume.durable.index.store.invalidate(at, MayProgram);
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
}

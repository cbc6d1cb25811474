//! Formatting and mounting: from the anchors to a volume that can be used.

use crate::checkpoint::Durable;
use crate::checkpoint::anchor::Anchor;
use crate::checkpoint::encode::Start;
use crate::checkpoint::root::root_blocks;
use crate::cleaning::Volume;
use crate::cleaning::gc::DirtyLimit;
use crate::config::Config;
use crate::error::{Damaged, Error, Fault};
use crate::format::anchors::Root;
use crate::format::area::{Head, LogArea};
use crate::format::blockstate::BlockState;
use crate::format::limits::{ANCHOR_PAGES, ROOT_BLOCKS, ROOTS};
use crate::format::node::{INDEX_DIR, ROOT_DIR};
use crate::format::table_page::Layout;
use crate::index::Index;
use crate::index::inodes::New;
use crate::recovery::memory::{LEAST, fits, log_fits, ram_needed_for, store_parts};
use crate::recovery::recover::Replayed;
use crate::recovery::roots::Leaf;
use crate::space::erased::Unseen;
use crate::space::latch::MayProgram;
use crate::space::limits::Purpose;
use crate::space::opened::NEWER;
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

impl<'r, N: Nand> Volume<'r, N> {
    /// Makes a volume of which nothing has been read yet, in `place`.
    // A call of its own, so that the copies it makes of the volume are gone from the stack when
    // the recovery begins.
    #[inline(never)]
    pub(crate) fn make<'p, T>(
        place: &'p mut Option<T>,
        mut nand: N,
        ram: &'r mut [u8],
        config: &Config,
        wrap: impl FnOnce(Self) -> T,
    ) -> Result<&'p mut T, Error<N::Error>> {
        *place = None;
        let roots = root_blocks(&mut nand).map_err(Error::Driver)?;
        if roots == [u32::MAX; 2] {
            return Err(Error::NotFormatted);
        }
        let geo = nand.geometry();
        let needed = ram_needed_for(&geo, config.table_page);
        if ram.len() < needed {
            return Err(Error::RamTooSmall(needed));
        }
        let layout = Layout::of(&geo, config.table_page);
        if !fits(&geo, layout) {
            return Err(Error::Geometry);
        }
        let bytes = ram.len();
        ram.fill(0);
        let mut ram = ram;
        let (parts, [known_dirs, hashes]) = store_parts(&geo, config, layout, &mut ram);
        let store = Store::new(nand, config, parts);
        Ok(place.insert(wrap(Volume {
            durable: Durable {
                index: Index::new(store, config.read_only, known_dirs, hashes, ram),
                anchor: Anchor::new(roots),
                ram: bytes,
            },
            dirty_limit: DirtyLimit::of(config),
            job: None,
            credit: 0,
            looked_for_overridden: 0,
        })))
    }

    /// Erases all good blocks, and writes the first checkpoint.
    #[inline(never)]
    pub(crate) fn begin(&mut self, number: u32, root: &New, config: &Config) -> Result<(), Fault> {
        let fs = self;
        let geo = fs.durable.index.store.geo;
        let (store, anchor) = (&mut fs.durable.index.store, &mut fs.durable.anchor);
        let layout = Layout::of(&geo, config.table_page);
        if !log_fits(&geo, layout) {
            return Err(Fault::Geometry);
        }
        if let Some(layout) = layout {
            store.table.begin_paging(layout);
        }
        store.volume = number;
        let mut spare_roots = 0;
        for block in 0..store.table.blocks() {
            if store.nand.is_bad(BlockAddr(block))?.is_true() {
                continue;
            }
            if store.nand.erase(BlockAddr(block))? == OpStatus::Failed {
                store.nand.mark_bad(BlockAddr(block))?;
                continue;
            }
            store.tally.good += 1;
            if spare_roots < ROOTS {
                spare_roots += 1;
                anchor.last_root = block;
            }
        }
        if spare_roots < ROOTS || anchor.last_root >= ROOT_BLOCKS {
            // No mount would find them.
            return Err(Fault::Geometry);
        }
        store.tally.free = store.tally.good - spare_roots;
        anchor.good = store.tally.good;
        store.cursor = number % store.table.blocks();
        store.wear.begin(store.cursor);
        (store.log.formatting, store.log.session) = (true, true);
        fs.durable.begin_table()?;
        let (index, anchor) = (&mut fs.durable.index, &mut fs.durable.anchor);
        index.store.recount();
        if index.usable_pages() < LEAST * index.store.ppb() {
            return Err(Fault::Geometry);
        }
        anchor.roots = index.root_blocks()?;
        anchor.limit_roots();
        index.new_dir(ROOT_DIR, ROOT_DIR, b"", root)?;
        index.new_dir(INDEX_DIR, ROOT_DIR, b"", &New::default())?;
        fs.checkpoint(true)
    }

    /// Finds the newest checkpoint, and brings the volume from there to where it was.
    #[inline(never)]
    pub(crate) fn bring_back(&mut self, config: &Config) -> Result<(), Fault> {
        let volume = self;
        let ended = volume.account(Purpose::Recovery, |volume| {
            let mut replayed = None;
            volume.take_up(config, &mut replayed)?;
            match &replayed {
                Some(replayed) => volume.end_recovery(replayed).map(Some),
                None => Ok(None),
            }
        })?;
        if let Some(lasts) = ended {
            let lasts = lasts.is_true();
            match (lasts, volume.durable.is_worn()) {
                (false, _) => {}
                (true, true) => volume.retire_if_possible()?,
                (true, false) => volume.restore_room()?,
            }
            volume.durable.index.store.log.together = !lasts;
            if lasts && !volume.durable.index.read_only {
                // Nothing has been written since the last checkpoint.
                volume.durable.index.store.seq -= NEWER;
            }
        }
        volume.durable.index.read_only |= volume.durable.is_worn();
        if volume.durable.index.orphans > 0 && !volume.durable.index.read_only {
            match volume.reading(Self::reap_orphans) {
                // The next mount goes on.
                Err(Fault::NoSpace) => {}
                // Worn out meanwhile.
                Err(Fault::ReadOnly) if volume.durable.index.read_only => {}
                reaped => reaped?,
            }
        }
        volume.durable.index.store.nand.pages.begin();
        Ok(())
    }

    /// Takes up the newest checkpoint, and what came after it; what is left to be done of a
    /// recovery. A call of its own, so that the checkpoint is gone from the stack by then.
    #[inline(never)]
    fn take_up(&mut self, config: &Config, replayed: &mut Option<Replayed>) -> Result<(), Fault> {
        let volume = self;
        let mut start = Start::NONE;
        volume.durable.load_start(&mut start)?;
        // The program of the other was cut or failed, or its page has rotted.
        volume.durable.anchor.root_alone =
            !start.root_twice && !volume.durable.anchor.has_one_root();
        let transferred = config.after_transfer;
        let was_cut = !start.clean
            || volume.durable.anchor.chained > 0
            || transferred
            || volume.durable.index.was_written(start.since)?.is_true();
        // A mount with more RAM may have left more deferred changes than there is room for.
        if was_cut || volume.durable.index.deferred_left_out {
            let unknown = transferred || volume.durable.claims_may_be_lost()?.is_true();
            if start.root_seq > start.since && start.root_in_one || unknown {
                // The root page may be the newest of all pages and fail yet: it is written anew.
                volume.durable.anchor.second_next = ANCHOR_PAGES;
            }
            if unknown {
                // Erased before its next page as well.
                volume.durable.anchor.root_next = ANCHOR_PAGES;
            }
            volume.durable.index.recovered = was_cut;
            return volume.recover(&start, replayed);
        }
        volume.durable.index.store.heads.log[LogArea::Bitmap as usize] = Head::NONE;
        volume.durable.index.store.heads.unseen = Unseen::all();
        volume.durable.index.store.free_dead(false)?;
        volume.durable.index.store.begin_since();
        Ok(())
    }
}

impl<'r, N: Nand> Durable<'r, N> {
    /// The block table of an empty volume, all blocks of which are erased.
    fn begin_table(&mut self) -> Result<(), Fault> {
        let on_flash = self.index.store.table.paged.is_some();
        for block in 0..self.index.store.table.blocks() {
            let state = if self.index.store.nand.is_bad(BlockAddr(block))?.is_true() {
                BlockState::Bad
            } else if block <= self.anchor.last_root {
                BlockState::System
            } else if on_flash {
                continue;
            } else {
                BlockState::Clean
            };
            self.index.store.set_state(block, state);
            self.index.store.table_write_back(MayProgram);
        }
        Ok(())
    }

    /// Finds the newest checkpoint, and takes its snapshot.
    // A call of its own: the root page is not needed below.
    #[inline(never)]
    fn load_start(&mut self, start: &mut Start) -> Result<(), Fault> {
        let root = self.find_root()?;
        self.index.store.seq = root.seq + 1;
        start.root_seq = root.seq;
        (start.root_twice, start.root_in_one) = (root.twice, root.is_in_one());
        self.load_checkpoint(&root, start)?;
        let Err(e) = self.load_snapshot(&start.snapshot[..start.snapshot_len]) else {
            return Ok(());
        };
        self.take_first_of_two(start, e)?;
        self.load_snapshot(&start.snapshot[..start.snapshot_len])
    }

    /// Finds and unpacks the newest checkpoint.
    #[inline(never)]
    fn load_checkpoint(&mut self, root: &Root, start: &mut Start) -> Result<(), Fault> {
        let mut at = PageAddr::NONE;
        let mut counts = None;
        // A page whose program was cut may fail between two reads: then the one before it counts.
        for _ in 0..5 {
            self.anchor.chained = 0;
            let found = self.find_leaf(root, counts)?;
            if counts.is_none() && !root.is_one_lead() {
                let [newest, other] = root.names();
                // What a mount has decided stays so: it may have erased what the
                // other root page leads to.
                let followed = self.anchor.counts == newest;
                let decided = match found.counted {
                    Some(page) => page != other,
                    None if followed => true,
                    None => self.has_counted(root, newest)?.is_true(),
                };
                if decided != followed || found.counted.is_none() && !followed {
                    counts = Some(decided);
                    continue;
                }
            }
            let Leaf {
                head: leaf,
                copy,
                firm,
                ..
            } = found;
            at = self
                .index
                .store
                .geo
                .page(BlockAddr(leaf.block), leaf.next - 1);
            let Some((seq, _)) = self.index.read_checkpoint(at, 0)? else {
                continue;
            };
            if !self.decode(leaf, start)?.is_true() {
                break;
            }
            self.index.store.seq = self.index.store.seq.max(seq + 1);
            start.firm = firm && start.is_copy;
            if let Some((block, complete)) = copy {
                start.copy = complete;
                at = self.index.store.geo.page(BlockAddr(block), 0);
                let Some((seq, _)) = self.index.read_checkpoint(at, seq)? else {
                    continue;
                };
                self.index.store.seq = self.index.store.seq.max(seq + 1);
            }
            self.load_claims(root);
            return Ok(());
        }
        Err(self.index.store.nand.damaged(at, Damaged::Checkpoint))
    }
}

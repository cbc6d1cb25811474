//! Formatting, mounting, unmounting, and how the caller's RAM is divided.

use crate::checkpoint::Durable;
use crate::checkpoint::anchor::Anchor;
use crate::checkpoint::encode::Start;
use crate::checkpoint::root::root_blocks;
use crate::cleaning::Volume;
use crate::config::{Cleaner, Config};
use crate::error::Error;
use crate::format::area::{COLD, DATA_HEADS, HEADS, Head, LogArea};
use crate::format::blockstate::{BlockState, Entries};
use crate::format::limits::{
    ANCHOR_PAGES, BITMAP_BLOCKS, MAP_PAGES, REMNANTS, RESERVES, RETIRING, ROOT_BLOCKS, ROOTS,
    SNAPSHOT_PAGES, UPDATE_BLOCKS,
};
use crate::format::node::{FIRST_FILE, INDEX_DIR, ROOT_DIR};
use crate::format::snapshot::PIECE;
use crate::format::table_page::Layout;
use crate::format::wellformed::blocks;
use crate::index::Index;
use crate::index::cache::Slot;
use crate::index::dirmap::DirMap;
use crate::index::inodes::New;
use crate::recovery::memory::{LEAST, carve, dirty_blocks, more_for_table, ram_needed_for};
use crate::recovery::roots::{Leaf, Root};
use crate::space::dirty::{self, DirtyList};
use crate::space::erased::Unseen;
use crate::space::latch::Latch;
use crate::space::limits::Purpose;
use crate::space::newer::Newer;
use crate::space::opened::NEWER;
use crate::space::paged;
use crate::space::pages::{self, Pages};
use crate::space::refresh::RefreshList;
use crate::space::remnants::Remnants;
use crate::space::store::Store;
use crate::space::table::Table;
use crate::space::validity::Validity;
use crate::space::wear::{Counts, Wear};
use crate::space::written::Written;
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

impl<'r, N: Nand> Volume<'r, N> {
    fn new(
        nand: N,
        ram: &'r mut [u8],
        config: Config,
        roots: [u32; 2],
    ) -> Result<Self, Error<N::Error>> {
        let geo = nand.geometry();
        let needed = ram_needed_for(&geo, config.table_page);
        if ram.len() < needed {
            return Err(Error::RamTooSmall(needed));
        }
        let usable = geo
            .blocks()
            .saturating_sub(crate::space::limits::reserve_blocks(geo.blocks()));
        let layout = Layout::of(&geo, config.table_page);
        let in_snapshot = layout.map_or(crate::format::blockstate::size(&geo), |_| 0);
        let snapshot = in_snapshot / (geo.page_size() as usize - PIECE) + 2;
        if geo.page_size() < 1024
            || geo.pages_per_block() < 8
            || usable < LEAST
            || snapshot > SNAPSHOT_PAGES
        {
            return Err(Error::Geometry);
        }
        let (ps, ppb) = (geo.page_size() as usize, geo.pages_per_block());
        let for_table = more_for_table(layout).min(ram.len() - needed);
        let to_level = needed + more_for_table(layout) + blocks(&geo) as usize;
        let counted = config.wear_interval > 0 && ram.len() >= to_level;
        let more = ram.len().saturating_sub(to_level);
        let pages = pages::entries_size(more, geo.page_size());
        let entries = layout.map_or(dirty::ENTRIES, |_| paged::DIRTY_ENTRIES);
        let mut dirty = entries * dirty::entry_size(ppb) + more - pages;
        let most = match config.dirty_entries {
            0 => dirty_blocks(&geo).max(dirty::ENTRIES),
            most => most.max(4),
        };
        let holds_all = most.min(dirty / dirty::entry_size(ppb)) >= blocks(&geo) as usize;
        let known = if holds_all || layout.is_some() || config.cleaner == Cleaner::Paper {
            0
        } else {
            crate::format::validity::room(&geo, dirty)
        };
        dirty -= known;
        let table = layout.map_or(crate::format::blockstate::size(&geo), |layout| {
            layout.room()
        }) + for_table;
        let mut ram = ram;
        let bytes = ram.len();
        ram.fill(0);
        let table = carve(&mut ram, table);
        let dirty = carve(&mut ram, dirty);
        let known = carve(&mut ram, known);
        let pages = carve(&mut ram, pages);
        let map_roots = carve(&mut ram, 4 * MAP_PAGES);
        map_roots.fill(0xff);
        let remnants = carve(&mut ram, 4 * REMNANTS);
        let counts = carve(&mut ram, if counted { blocks(&geo) as usize } else { 0 });
        let correctable = nand.correctable_bits();
        let refresh_bits = config.refresh_bits.unwrap_or(correctable - correctable / 4);
        let store = Store {
            nand: Latch {
                inner: nand,
                failed: false,
                only_reads: false,
                untold: None,
                refresh: RefreshList::new(refresh_bits, ppb),
                pages: Pages::new(pages, geo.page_size()),
            },
            geo,
            volume: 0,
            seq: 1,
            table: Table {
                bytes: table,
                entries: Entries::of(ppb),
                blocks: blocks(&geo),
                paged: None,
            },
            dirty: DirtyList::new(dirty, ppb, most),
            validity: Validity::new(known, geo),
            remnants: Remnants::new(remnants),
            heads: [Head::NONE; HEADS],
            data_heads: [Head::NONE; DATA_HEADS],
            reserves: [(0, 0); RESERVES],
            reserved: 0,
            unnamed: 0,
            log_ready: u32::MAX,
            beginning: None,
            log_lost: false,
            naming: false,
            took_unnamed: false,
            bitmap_blocks: [u16::MAX; BITMAP_BLOCKS],
            bitmap_count: 0,
            good: 0,
            free: 0,
            dead: 0,
            live: 0,
            cursor: 0,
            drawn: 0,
            spared: u32::MAX,
            newer: Newer::NONE,
            wear: Wear::new(config.wear_interval),
            counts: Counts::new(counts),
            mover: COLD,
            scrub_at: 0,
            taken: 0,
            free_at_checkpoint: 0,
            inode_pages: 0,
            index_pages: 0,
            removals: 0,
            updates: 0,
            update_blocks: 0,
            blocks_to_replay: [0; UPDATE_BLOCKS],
            blocks_to_replay_count: 0,
            replay_from: 0,
            unseen: Unseen::default(),
            session: false,
            recovery: None,
            together: false,
            written: Written::default(),
            formatting: false,
            discarded: config.read_only && config.discarded,
            failing: [u16::MAX; 8],
            unmovable: [u16::MAX; 8],
            unmovable_next: 0,
            unmovable_rank: (0, 0),
            oldest: 0,
            retiring: [0; RETIRING],
            retiring_count: 0,
            scratch_at: PageAddr::NONE,
        };
        let index = Index {
            store,
            map: DirMap {
                wide: false,
                loc: PageAddr::NONE,
                buf: carve(&mut ram, ps),
                index: None,
                dirty: false,
                roots: map_roots,
                next: INDEX_DIR + 1,
            },
            dirs: [
                Slot::new(carve(&mut ram, ps)),
                Slot::new(carve(&mut ram, ps)),
            ],
            files: [
                Slot::new(carve(&mut ram, ps)),
                Slot::new(carve(&mut ram, ps)),
            ],
            scratch: carve(&mut ram, ps),
            dir_copies: [PageAddr::NONE; 2],
            tick: 0,
            next_ino: FIRST_FILE,
            orphans: 0,
            shared: [false; 2],
            small_files: false,
            interleaved: 0,
            read_only: config.read_only,
            lost_change: None,
        };
        Ok(Volume {
            durable: Durable {
                index,
                anchor: Anchor::new(roots),
                ram: bytes,
            },
            config,
            job: None,
            credit: 0,
            looked_for_overridden: 0,
            recovered: false,
        })
    }

    /// Makes an empty volume.
    pub(crate) fn format(
        mut nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
        config: Config,
    ) -> Result<N, Error<N::Error>> {
        let roots = root_blocks(&mut nand)?;
        let geo = nand.geometry();
        let mut fs = Volume::new(nand, ram, config, roots)?;
        if let Some(layout) = Layout::of(&geo, config.table_page) {
            fs.durable.index.store.table.begin_paging(layout);
        }
        fs.durable.index.store.volume = volume;
        let mut spare_roots = 0;
        for block in 0..fs.durable.index.store.table.blocks() {
            if fs.durable.index.store.nand.is_bad(BlockAddr(block))? {
                continue;
            }
            if fs.durable.index.store.nand.erase(BlockAddr(block))? == OpStatus::Failed {
                fs.durable.index.store.nand.mark_bad(BlockAddr(block))?;
                continue;
            }
            fs.durable.index.store.good += 1;
            if spare_roots < ROOTS {
                spare_roots += 1;
                fs.durable.anchor.last_root = block;
            }
        }
        if spare_roots < ROOTS || fs.durable.anchor.last_root >= ROOT_BLOCKS {
            // No mount would find them.
            return Err(Error::Geometry);
        }
        fs.durable.index.store.free = fs.durable.index.store.good - spare_roots;
        fs.durable.anchor.good = fs.durable.index.store.good;
        fs.durable.index.store.cursor = volume % fs.durable.index.store.table.blocks();
        fs.durable
            .index
            .store
            .wear
            .begin(fs.durable.index.store.cursor);
        (
            fs.durable.index.store.formatting,
            fs.durable.index.store.session,
        ) = (true, true);
        fs.durable.begin_table()?;
        fs.durable.index.store.recount();
        if fs.durable.index.usable_pages() < LEAST * fs.durable.index.store.ppb() {
            return Err(Error::Geometry);
        }
        fs.durable.anchor.roots = root_blocks(&mut fs.durable.index.store.nand.inner)?;
        fs.durable.anchor.limit_roots();
        fs.durable.index.new_dir(ROOT_DIR, ROOT_DIR, b"", root)?;
        fs.durable
            .index
            .new_dir(INDEX_DIR, ROOT_DIR, b"", &New::default())?;
        fs.checkpoint(true)?;
        Ok(fs.durable.index.store.nand.inner)
    }

    /// Finds the newest checkpoint, and brings the volume from there to where it was.
    pub(crate) fn mount(
        mut nand: N,
        ram: &'r mut [u8],
        config: Config,
    ) -> Result<Self, Error<N::Error>> {
        let roots = root_blocks(&mut nand)?;
        let mut volume = Volume::new(nand, ram, config, roots)?;
        let root = volume.durable.find_root()?;
        volume.durable.index.store.seq = root.seq + 1;
        let mut start = volume.durable.load_checkpoint(&root)?;
        if let Err(e) = volume
            .durable
            .load_snapshot(&start.snapshot[..start.snapshot_len])
        {
            start = volume.durable.first_of_two(&start, e)?;
            volume
                .durable
                .load_snapshot(&start.snapshot[..start.snapshot_len])?;
        }
        // The program of the other was cut or failed, or its page has rotted.
        volume.durable.anchor.root_alone = !root.twice && !volume.durable.anchor.has_one_root();
        let transferred = config.after_transfer;
        if !start.clean
            || volume.durable.anchor.chained > 0
            || transferred
            || volume.durable.index.was_written(start.since)?
        {
            let unknown = transferred || volume.durable.claims_may_be_lost()?;
            if root.seq > start.since && root.is_in_one() || unknown {
                // The root page may be the newest of all pages and fail yet: it is written anew.
                volume.durable.anchor.second_next = ANCHOR_PAGES;
            }
            if unknown {
                // Erased before its next page as well.
                volume.durable.anchor.root_next = ANCHOR_PAGES;
            }
            let lasts = volume.account(Purpose::Recovery, |volume| volume.recover(&start))?;
            volume.recovered = true;
            match (lasts, volume.durable.is_worn()) {
                (false, _) => {}
                (true, true) => volume.retire_if_possible()?,
                (true, false) => volume.restore_room()?,
            }
            volume.durable.index.store.together = !lasts;
            if lasts && !volume.durable.index.read_only {
                // Nothing has been written since the last checkpoint.
                volume.durable.index.store.seq -= NEWER;
            }
        } else {
            volume.durable.index.store.heads[LogArea::Bitmap as usize] = Head::NONE;
            volume.durable.index.store.unseen = Unseen::all();
            volume.durable.index.store.free_dead(false)?;
            volume.durable.index.store.count_updates();
        }
        volume.durable.index.read_only |= volume.durable.is_worn();
        if volume.durable.index.orphans > 0 && !volume.durable.index.read_only {
            match volume.reading(Self::reap_orphans) {
                // The next mount goes on.
                Err(Error::NoSpace) => {}
                // Worn out meanwhile.
                Err(Error::ReadOnly) if volume.durable.index.read_only => {}
                reaped => reaped?,
            }
        }
        volume.durable.index.store.nand.pages.begin();
        Ok(volume)
    }
}

impl<'r, N: Nand> Durable<'r, N> {
    /// The block table of an empty volume, all blocks of which are erased.
    fn begin_table(&mut self) -> Result<(), Error<N::Error>> {
        let on_flash = self.index.store.table.paged.is_some();
        for block in 0..self.index.store.table.blocks() {
            let state = if self.index.store.nand.is_bad(BlockAddr(block))? {
                BlockState::Bad
            } else if block <= self.anchor.last_root {
                BlockState::System
            } else if on_flash {
                continue;
            } else {
                BlockState::Clean
            };
            self.index.store.set_state(block, state);
            self.index.store.table_write_back();
        }
        Ok(())
    }

    /// Finds and unpacks the newest checkpoint.
    fn load_checkpoint(&mut self, root: &Root) -> Result<Start, Error<N::Error>> {
        let mut at = PageAddr::NONE;
        let mut counts = None;
        // A page whose program was cut may fail between two reads: then the one before it counts.
        for _ in 0..5 {
            self.anchor.chained = 0;
            let found = self.find_leaf(root, counts)?;
            if counts.is_none() && !root.is_one_lead() {
                let [newest, other] = [root.side, 1 - root.side].map(|side| root.blocks[side].name);
                // What a mount has decided stays so: it may have erased what the other root page leads to.
                let followed = self.anchor.counts == newest;
                let decided = match found.counted {
                    Some(page) => page != other,
                    None if followed => true,
                    None => self.has_counted(root, newest)?,
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
            let mut start = self.decode(leaf)?.ok_or(Error::Corrupt(at, "checkpoint"))?;
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
            return Ok(start);
        }
        Err(Error::Corrupt(at, "checkpoint"))
    }
}

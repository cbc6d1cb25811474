//! Formatting, mounting, unmounting, and how the caller's RAM is divided.

use crate::api::ops::New;
use crate::api::scrub::RefreshList;
use crate::api::updates::UPDATE_BLOCKS;
use crate::checkpoint::take::{
    ANCHOR_PAGES, Anchor, COPY_OF, SNAPSHOT_PAGES, Start, counted, is_unmounted, next_leaves,
    root_name, since,
};
use crate::cleaning::room::Purpose;
use crate::error::Error;
use crate::format::bytes::get_u32;
use crate::format::header::{self, Bad, HEADER, Header, Kind};
use crate::format::snapshot::PIECE;
use crate::format::wellformed::{blocks, is_well_formed};
use crate::index::cache::Slot;
use crate::index::dirmap::{DirMap, MAP_PAGES};
use crate::recovery::recover::NEWER;
use crate::space::dirty::{self, DirtyList};
use crate::space::erased::Unseen;
use crate::space::paged::{self, Layout};
use crate::space::pages::{self, Pages};
use crate::space::store::{
    Area, BITMAP_BLOCKS, COLD, FRONTS, HEADS, Head, LATE, Latch, Newer, REMNANTS, RESERVES,
    Remnants, Store, Written,
};
use crate::space::table::{self, Entries, State, Table};
use crate::space::validity::{self, Validity};
use crate::space::wear::{Counts, INTERVAL, Wear};
use crate::{FIRST_FILE, FlashLight, INDEX_DIR, ROOT_DIR};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr};

/// What the root pages say.
struct Root {
    /// The second-level block that the newest leads to.
    second: u32,
    /// That which the newest page leads to that leads to another; all ones: none.
    before: u32,
    seq: u64,
    blocks: [RootBlock; 2],
    /// The root block that has the newest.
    side: usize,
    /// The newest is in both root blocks.
    twice: bool,
}

/// What is seen in a root block.
#[derive(Clone, Copy, Default)]
struct RootBlock {
    /// The newest page: its sequence number, index and second-level block.
    newest: Option<(u64, u32, u32)>,
    /// What checkpoints call it.
    name: u16,
    round: Option<u32>,
    /// Where what was programmed ends: of a page whose program was cut no checkpoint may be left that has claimed
    /// it.
    end: u32,
}

impl Root {
    /// Whether the newest page cannot fail any more: it is in both blocks, or the other has been written behind it. Or there is no other
    /// to count. If not, what it leads to may show that it is complete ([`Second::is_behind`]).
    fn is_complete(&self) -> bool {
        let (own, other) = (self.blocks[self.side], self.blocks[1 - self.side]);
        let index = own.newest.map_or(0, |page| page.1);
        self.is_one_lead() || other.round == own.round && other.end > index
    }

    /// Whether there is no choice between the blocks.
    fn is_one_lead(&self) -> bool {
        self.twice || self.is_in_one()
    }

    /// Whether only one block has pages that can be read.
    fn is_in_one(&self) -> bool {
        self.blocks[1 - self.side].newest.is_none()
    }
}

/// What the second-level block says.
struct Second {
    /// The numbers of its oldest and its newest page, and the leaf that the newest leads to.
    oldest: u64,
    seq: u64,
    leaf: u32,
    /// The leaf that the newest page leads to which leads to another; all ones: none.
    before: u32,
    /// The newest page cannot fail any more: there is something behind it, or one before it leads to the same leaf.
    firm: bool,
    /// It is the only one that leads there.
    alone: bool,
}

impl Second {
    /// The leaf that counts, and that which counts where there is no checkpoint.
    fn leaves(&self) -> [u32; 2] {
        match (self.firm, self.alone) {
            (true, false) => [self.leaf, u32::MAX],
            (true, true) => [self.leaf, self.before],
            _ if self.before == u32::MAX => [self.leaf, u32::MAX],
            _ => [self.before, self.leaf],
        }
    }

    /// Whether it has pages of before the root page with this number and of after it.
    fn is_behind(&self, root: u64) -> bool {
        self.oldest < root && root < self.seq
    }
}

/// Blocks that are named as leaves to come, each once.
struct Names {
    list: [u32; 12],
    len: usize,
}

impl Names {
    fn new(names: [u32; 2]) -> Names {
        let mut all = Names {
            list: [0; 12],
            len: 0,
        };
        all.add(names);
        all
    }

    fn add(&mut self, names: [u32; 2]) {
        for name in names {
            if self.len < self.list.len() && !self.list[..self.len].contains(&name) {
                self.list[self.len] = name;
                self.len += 1;
            }
        }
    }
}

/// Takes an anchor for the newest, if it is: its number and the block that it leads to. Keeps the newest of those that lead to
/// another block.
fn note_newest(newest: &mut Lead, before: &mut Lead, page: Lead) {
    let leads = |lead: Lead| lead.map(|page| page.1);
    if page > *newest {
        if leads(page) != leads(*newest) {
            *before = *newest;
        }
        *newest = page;
    } else if leads(page) != leads(*newest) {
        *before = page.max(*before);
    }
}

/// A checkpoint: its place, its number, and the leaves to come that it names.
type Found = (Head, u64, [u32; 2]);

/// The newest checkpoint.
struct Leaf {
    head: Head,
    /// The blocks with the newest copy of it that no anchor points to, and with the newest that is complete for sure; all ones:
    /// none.
    copy: Option<(u32, u32)>,
    /// What points to it cannot fail any more.
    firm: bool,
    /// The root page that counted when the newest of them was written, if that was after the newest root page.
    counted: Option<u16>,
}

/// The number of an anchor page, and the block that it leads to.
type Lead = Option<(u64, u32)>;

/// When blocks with obsolete pages are cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleaner {
    /// The paper's: as soon as the dirty list is longer than a threshold.
    Paper,
    /// When free blocks run low.
    #[default]
    Space,
}

/// Choices of a mount. Any choice mounts any volume.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Refuses every change. A volume that was not unmounted needs its recovery all the same,
    /// so the chip is written then.
    pub read_only: bool,
    /// Nothing of what is written is kept: the chip is a copy, or one laid over an image that is to stay as it is.
    /// A recovery makes nothing durable then and needs no free block: where there is none, it takes those of the
    /// checkpoint that it began from. Only with `read_only`, and never on the chip itself: that loses the volume.
    pub discarded: bool,
    /// Default: [`Cleaner::Space`].
    pub cleaner: Cleaner,
    /// [`Cleaner::Paper`]: blocks on the dirty list that start cleaning (paper: 140).
    pub dirty_threshold: usize,
    /// [`Cleaner::Paper`]: blocks cleaned at a time (paper: 9).
    pub gc_batch: usize,
    /// Erases between two moves of a block whose data stays, for the sake of wear; 0: none is
    /// moved. Fewer erases level more and cost more: the erase counts deviate by about a sixth of
    /// this number, and one erase in as many is for levelling. Default: 52.
    pub wear_interval: u32,
    /// Corrected bits of a page from which on its block is written anew; `None`: three quarters of
    /// those that the chip corrects ([`Nand::correctable_bits`]), rounded up. `u32::MAX`: never.
    pub refresh_bits: Option<u32>,
    /// Pages that look erased may have been programmed, by a programmer that wrote the volume to the chip
    /// (`transfer.rs`): only blocks that are erased first are written, as after an unclean stop.
    pub after_transfer: bool,
    /// Blocks that a page of the block table has entries for, on a volume that is made so ([`FlashLight::format_with`])
    /// or was. 0: as many as fit, on a chip whose table is longer than a page; on others all of it is in RAM. Small
    /// numbers let small chips have tables of many pages, for tests; with more of them than half of those of a block, a change may
    /// take more blocks than room is kept for. `u32::MAX`: all of it is in RAM on any chip, as on volumes
    /// that were made before there was a choice; a mount finds out by itself, and says what RAM it needs.
    pub table_page: u32,
    /// Entries of the dirty list at most, 4 or more; 0: as many as there is RAM for. With small numbers small chips do what
    /// others do when it is full.
    pub dirty_entries: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            read_only: false,
            discarded: false,
            cleaner: Cleaner::default(),
            dirty_threshold: 140,
            gc_batch: 9,
            wear_interval: INTERVAL,
            refresh_bits: None,
            after_transfer: false,
            table_page: 0,
            dirty_entries: 0,
        }
    }
}

/// Bytes of RAM that a volume on a chip of this geometry needs: six pages, the block table of one byte a block (two
/// where a block has more than 120 pages), those of 161 dirty-list entries of 2 bytes and a bit a page, of which a bit a
/// block may be used for what goes to flash of the list, and 384 bytes. 16,330 for 2,048 blocks of 64 pages of 2 KiB.
///
/// Of a block table that is longer than a page, one page is in RAM; besides 8 bytes for each of its
/// pages, a list of changes and a shorter dirty list: 16,369 bytes for 65,535 such blocks.
pub const fn ram_needed(geo: &Geometry) -> usize {
    ram_needed_for(geo, 0)
}

/// The same, for a volume with so many entries a page of the block table ([`Config::table_page`]).
pub const fn ram_needed_for(geo: &Geometry, table_page: u32) -> usize {
    let (table, dirty) = match Layout::of(geo, table_page) {
        Some(layout) => (layout.room(), paged::DIRTY_ENTRIES),
        None => (table::size(geo), dirty::ENTRIES),
    };
    6 * geo.page_size() as usize
        + table
        + dirty * dirty::entry_size(geo.pages_per_block())
        + 4 * MAP_PAGES
        + 4 * REMNANTS
}

/// Bytes of RAM with which all of a block table that lies on flash is in RAM too: [`ram_needed`] where it does not.
/// Less than that, and more than [`ram_needed`], holds more of its pages.
pub const fn ram_for_table(geo: &Geometry) -> usize {
    ram_needed(geo) + more_for_table(Layout::of(geo, 0))
}

/// Bytes above the least for all of a table that lies on flash.
const fn more_for_table(layout: Option<Layout>) -> usize {
    match layout {
        Some(layout) => layout.room_for_all() - layout.room(),
        None => 0,
    }
}

/// Bytes of RAM with which levelling also counts erases, a byte a block more: those of the blocks then
/// deviate by some nine erases from their mean, whatever that is.
pub const fn ram_to_level(geo: &Geometry) -> usize {
    ram_for_table(geo) + blocks(geo) as usize
}

/// Bytes of RAM beyond which more is of no use. What there is above [`ram_to_level`] holds more of the dirty
/// list, up to an entry for each of 4,096 blocks: cleaning then knows which pages are valid without reading the
/// others' tags. What the list does not need keeps up to 64 metadata pages, which are then not read again.
/// 168,832 for 2,048 blocks of 64 pages of 2 KiB, 37,248 of them without room for the pages beside a whole list.
pub const fn ram_useful(geo: &Geometry) -> usize {
    let more = dirty_blocks(geo).saturating_sub(dirty::ENTRIES);
    ram_to_level(geo)
        + more * dirty::entry_size(geo.pages_per_block())
        + pages::MOST * pages::room_for_one(geo.page_size())
}

/// Blocks that the dirty list could have entries for.
const fn dirty_blocks(geo: &Geometry) -> usize {
    let blocks = blocks(geo) as usize;
    if blocks > dirty::MOST {
        dirty::MOST
    } else {
        blocks
    }
}

fn carve<'r>(ram: &mut &'r mut [u8], n: usize) -> &'r mut [u8] {
    let (part, rest) = core::mem::take(ram).split_at_mut(n);
    *ram = rest;
    part
}

impl<'r, N: Nand> FlashLight<'r, N> {
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
            .saturating_sub(crate::cleaning::room::reserve_blocks(geo.blocks()));
        let layout = Layout::of(&geo, config.table_page);
        let in_snapshot = layout.map_or(table::size(&geo), |_| 0);
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
            validity::room(&geo, dirty)
        };
        dirty -= known;
        let table = layout.map_or(table::size(&geo), |layout| layout.room()) + for_table;
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
            fronts: [Head::NONE; FRONTS],
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
            sure: 0,
            inode_pages: 0,
            index_pages: 0,
            removals: 0,
            updates: 0,
            update_blocks: 0,
            looked_through: [0; UPDATE_BLOCKS],
            looked_count: 0,
            looked_from: 0,
            unseen: Unseen::default(),
            session: false,
            recovery: None,
            together: false,
            written: Written::default(),
            formatting: false,
            discarded: config.read_only && config.discarded,
            failing: [u16::MAX; 8],
            stuck: [u16::MAX; 8],
            stuck_next: 0,
            stuck_rank: (0, 0),
            oldest: 0,
            late: [0; LATE],
            late_count: 0,
            scratch_at: PageAddr::NONE,
        };
        Ok(FlashLight {
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
            anchor: Anchor::new(roots),
            config,
            ram: bytes,
            tick: 0,
            next_ino: FIRST_FILE,
            orphans: 0,
            looked_for_overridden: 0,
            shared: [false; 2],
            small_files: false,
            apart: 0,
            read_only: config.read_only,
            recovered: false,
            sweep: None,
            credit: 0,
            given_up: None,
        })
    }

    /// Makes an empty volume, erasing all good blocks. `volume` should differ from those of earlier
    /// volumes on the chip: it keys the name hashes, and pages of other volumes are not believed.
    ///
    /// # Errors
    /// [`Error::Geometry`] when the chip is too small, or has too few good blocks: 44 on one of less than 64, and
    /// one more for each 64 blocks, good or not. [`Error::RamTooSmall`].
    pub fn format(
        nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
    ) -> Result<N, Error<N::Error>> {
        FlashLight::format_with(nand, ram, volume, root, Config::default())
    }

    /// The same with a choice: [`Config::table_page`]; no other matters here.
    ///
    /// # Errors
    /// As of [`FlashLight::format`].
    pub fn format_with(
        mut nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
        config: Config,
    ) -> Result<N, Error<N::Error>> {
        let roots = root_blocks(&mut nand)?;
        let geo = nand.geometry();
        let mut fs = FlashLight::new(nand, ram, config, roots)?;
        if let Some(layout) = Layout::of(&geo, config.table_page) {
            fs.store.table.begin_paging(layout);
        }
        fs.store.volume = volume;
        let mut spare_roots = 0;
        for block in 0..fs.store.table.blocks() {
            if fs.store.nand.is_bad(BlockAddr(block))? {
                continue;
            }
            if fs.store.nand.erase(BlockAddr(block))? == OpStatus::Failed {
                fs.store.nand.mark_bad(BlockAddr(block))?;
                continue;
            }
            fs.store.good += 1;
            if spare_roots < ROOTS {
                spare_roots += 1;
                fs.anchor.last_root = block;
            }
        }
        if spare_roots < ROOTS || fs.anchor.last_root >= ROOT_BLOCKS {
            // No mount would find them.
            return Err(Error::Geometry);
        }
        fs.store.free = fs.store.good - spare_roots;
        fs.anchor.good = fs.store.good;
        fs.store.cursor = volume % fs.store.table.blocks();
        fs.store.wear.begin(fs.store.cursor);
        (fs.store.formatting, fs.store.session) = (true, true);
        fs.begin_table()?;
        fs.store.recount();
        if fs.usable_pages() < LEAST * fs.store.ppb() {
            return Err(Error::Geometry);
        }
        fs.anchor.roots = root_blocks(&mut fs.store.nand.inner)?;
        fs.anchor.limit_roots();
        fs.new_dir(ROOT_DIR, ROOT_DIR, b"", root)?;
        fs.new_dir(INDEX_DIR, ROOT_DIR, b"", &New::default())?;
        fs.checkpoint(true)?;
        Ok(fs.store.nand.inner)
    }

    /// The block table of an empty volume, all blocks of which are erased.
    fn begin_table(&mut self) -> Result<(), Error<N::Error>> {
        let on_flash = self.store.table.paged.is_some();
        for block in 0..self.store.table.blocks() {
            let state = if self.store.nand.is_bad(BlockAddr(block))? {
                State::Bad
            } else if block <= self.anchor.last_root {
                State::System
            } else if on_flash {
                continue;
            } else {
                State::Clean
            };
            self.store.set_state(block, state);
            self.store.settle_table();
        }
        Ok(())
    }

    /// Mounts a volume. After a clean unmount 37 reads on a chip of 64 pages a block, one more for each
    /// doubling of these and for each page more than one of the snapshot of the block table; after an unclean
    /// stop also three to five reads for each inode page written since the last checkpoint (at most some 500),
    /// and the writes of a checkpoint.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Version`], [`Error::Geometry`], [`Error::RamTooSmall`],
    /// [`Error::Corrupt`].
    pub fn mount(mut nand: N, ram: &'r mut [u8], config: Config) -> Result<Self, Error<N::Error>> {
        let roots = root_blocks(&mut nand)?;
        let mut fs = FlashLight::new(nand, ram, config, roots)?;
        let root = fs.find_root()?;
        fs.store.seq = root.seq + 1;
        let mut start = fs.load_checkpoint(&root)?;
        if let Err(e) = fs.load_snapshot(&start.snapshot[..start.snapshot_len]) {
            start = fs.first_of_two(&start, e)?;
            fs.load_snapshot(&start.snapshot[..start.snapshot_len])?;
        }
        // The program of the other was cut or failed, or its page has rotted.
        fs.anchor.root_alone = !root.twice && !fs.anchor.has_one_root();
        let transferred = config.after_transfer;
        if !start.clean || fs.anchor.chained > 0 || transferred || fs.was_written(start.since)? {
            let unknown = transferred || fs.claims_may_be_lost()?;
            if root.seq > start.since && root.is_in_one() || unknown {
                // The root page may be the newest of all pages and fail yet: it is written anew.
                fs.anchor.second_next = ANCHOR_PAGES;
            }
            if unknown {
                // Erased before its next page as well.
                fs.anchor.root_next = ANCHOR_PAGES;
            }
            let lasts = fs.account(Purpose::Recovery, |fs| fs.recover(&start))?;
            fs.recovered = true;
            match (lasts, fs.is_worn()) {
                (false, _) => {}
                (true, true) => fs.retire_if_possible()?,
                (true, false) => fs.restore_room()?,
            }
            fs.store.together = !lasts;
            if lasts && !fs.read_only {
                // Nothing has been written since the last checkpoint.
                fs.store.seq -= NEWER;
            }
        } else {
            fs.store.heads[Area::Bitmap as usize] = Head::NONE;
            fs.store.unseen = Unseen::all();
            fs.store.free_dead(false)?;
            fs.store.count_updates();
        }
        fs.read_only |= fs.is_worn();
        if fs.orphans > 0 && !fs.read_only {
            match fs.reading(Self::reap_orphans) {
                // The next mount goes on.
                Err(Error::NoSpace) => {}
                // Worn out meanwhile.
                Err(Error::ReadOnly) if fs.read_only => {}
                reaped => reaped?,
            }
        }
        fs.store.nand.pages.begin();
        Ok(fs)
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
            at = self.store.geo.page(BlockAddr(leaf.block), leaf.next - 1);
            let Some((seq, _)) = self.read_checkpoint(at, 0)? else {
                continue;
            };
            let mut start = self.decode(leaf)?.ok_or(Error::Corrupt(at, "checkpoint"))?;
            self.store.seq = self.store.seq.max(seq + 1);
            start.firm = firm && start.is_copy;
            if let Some((block, complete)) = copy {
                start.copy = complete;
                at = self.store.geo.page(BlockAddr(block), 0);
                let Some((seq, _)) = self.read_checkpoint(at, seq)? else {
                    continue;
                };
                self.store.seq = self.store.seq.max(seq + 1);
            }
            self.load_claims(root);
            return Ok(start);
        }
        Err(Error::Corrupt(at, "checkpoint"))
    }

    /// The first of two checkpoints that say the same, when the second has led to an error.
    fn first_of_two(
        &mut self,
        second: &Start,
        e: Error<N::Error>,
    ) -> Result<Start, Error<N::Error>> {
        let Head { block, next } = self.anchor.leaf;
        // An unmount's second is there twice.
        let next = next.saturating_sub(if second.clean { 2 } else { 1 });
        if next == 0 || !second.clean && !second.repeated {
            return Err(e);
        }
        let at = self.store.geo.page(BlockAddr(block), next - 1);
        if self.read_checkpoint(at, 0)?.is_none() || second.clean && !is_unmounted(self.scratch) {
            return Err(e);
        }
        let first = self.decode(Head { block, next })?.ok_or(e)?;
        Ok(Start {
            copy: second.copy,
            ..first
        })
    }

    /// Takes what the checkpoint page in the scratch page has claimed.
    fn load_claims(&mut self, root: &Root) {
        let meant = u32::from(crate::format::bytes::get_u16(self.scratch, 36));
        self.anchor.meant = meant;
        let (root_next, second_next) = (self.scratch[34], self.scratch[35]);
        // The second-level block that the root leads to may not be the one that was meant to be
        // used: then that one was never reached, and the next switch takes another.
        self.anchor.second_next = if meant == self.anchor.second {
            self.anchor.second_next.max(second_next.into())
        } else {
            ANCHOR_PAGES
        };
        if !root.twice && self.anchor.counts != root.blocks[root.side].name {
            // A newer root page must replace the one that does not count.
            self.anchor.second_next = ANCHOR_PAGES;
        }
        self.anchor.root_next = u32::from(root_next).min(ANCHOR_PAGES);
        self.anchor.round = self.scratch[33];
        for side in 0..2 {
            let RootBlock { round, end, .. } = root.blocks[side];
            self.anchor.rounds[side] = round.unwrap_or(u32::MAX);
            self.anchor.stale[side] = round != Some(self.anchor.round.into());
            self.anchor.root_next = self.anchor.root_next.max(end);
        }
        self.anchor.load_ends(root.blocks.map(|block| block.end));
        self.anchor.go_on_alone();
    }

    /// Whether a recovery may have claimed pages that nothing found here tells of: it started from a
    /// checkpoint that is not readable any more, and had to copy it to a leaf that only that one named,
    /// because a leaf named before was bad.
    fn claims_may_be_lost(&mut self) -> Result<bool, Error<N::Error>> {
        let blocks = self.store.table.blocks();
        for name in self.anchor.next_leaves {
            if name < blocks && self.store.nand.is_bad(BlockAddr(name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a session has begun after a clean unmount: its first writes are two allocation
    /// records in the block that the checkpoint reserved for the log. The first alone may fail yet,
    /// and then nothing has happened.
    fn was_written(&mut self, since: u64) -> Result<bool, Error<N::Error>> {
        for i in 0..self.store.reserved {
            let (block, area) = self.store.reserves[i];
            if area != Area::Bitmap as u8 {
                continue;
            }
            let block = BlockAddr(u32::from(block));
            let at = self.store.geo.page(block, 0);
            let is_record =
                |h: Option<Header>| h.is_some_and(|h| h.kind == Kind::Alloc && h.seq > since);
            let first = is_record(self.store.read_meta(at, self.scratch)?);
            if !first && self.scratch[..HEADER].iter().any(|&b| b != 0) {
                // Not this one; it may have failed when it was erased.
                continue;
            }
            // One that cannot be read may be the first.
            let at = self.store.geo.page(block, 1);
            let second = self.store.read_meta(at, self.scratch)?;
            if is_record(second) || first && !header::is_blank(self.scratch) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the newest root page and checks that the volume is for this chip. 16 reads.
    fn find_root(&mut self) -> Result<Root, Error<N::Error>> {
        let geo = self.store.geo;
        let mut best: Option<(Header, u32, u32)> = None;
        let (mut newest, mut before) = (None, None);
        let (mut version, mut fits) = (None, true);
        let (mut blocks, mut good) = ([RootBlock::default(); 2], 0);
        for (side, seen) in blocks.iter_mut().enumerate() {
            let block = self.anchor.roots[side];
            for index in (0..ANCHOR_PAGES).filter(|_| block != u32::MAX) {
                let at = geo.page(BlockAddr(block), index);
                let status = self.store.nand.read(at, 0, self.scratch, &mut [])?;
                if !header::is_blank(self.scratch) {
                    seen.end = index + 1;
                }
                if !status.is_readable() {
                    continue;
                }
                match header::parse(self.scratch, at) {
                    Err(Bad::Version(v)) => version = Some(v),
                    Ok(h) if h.kind == Kind::Root && is_well_formed(&geo, self.scratch, &h) => {
                        let word = |i: usize| get_u32(self.scratch, HEADER + 4 * i);
                        seen.round = Some(word(6));
                        let page = Some((h.seq, index, word(4)));
                        if page > seen.newest {
                            (seen.newest, seen.name) = (page, root_name(word(6), index));
                        }
                        note_newest(&mut newest, &mut before, Some((h.seq, word(4))));
                        if best.is_none_or(|b| h.seq > b.0.seq) {
                            fits = [
                                geo.page_size(),
                                geo.spare_size(),
                                geo.pages_per_block(),
                                geo.blocks(),
                            ] == [word(0), word(1), word(2), word(3)];
                            best = Some((h, word(4), word(5)));
                            good = word(7);
                        }
                    }
                    _ => {}
                }
            }
        }
        let Some((header, second, last_root)) = best else {
            return Err(version.map_or(Error::NotFormatted, Error::Version));
        };
        if !fits {
            return Err(Error::Geometry);
        }
        self.store.volume = header.volume;
        (self.anchor.last_root, self.anchor.good) = (last_root, good);
        self.anchor.limit_roots();
        for (block, seen) in self.anchor.roots.into_iter().zip(&mut blocks) {
            if block == u32::MAX {
                // A block of something else was looked at.
                *seen = RootBlock::default();
            }
        }
        self.anchor.second = second;
        let side = usize::from(blocks[1].newest > blocks[0].newest);
        let page = |block: RootBlock| block.newest.map(|(_, index, second)| (index, second));
        Ok(Root {
            second,
            before: before.map_or(u32::MAX, |page| page.1),
            seq: header.seq,
            blocks,
            side,
            twice: page(blocks[0]) == page(blocks[1]),
        })
    }

    /// Reads the second-level block. Notes where what was programmed ends, whoever claimed it. 8 reads.
    fn find_second(&mut self, second: u32) -> Result<Second, Error<N::Error>> {
        let geo = self.store.geo;
        let (mut newest, mut before, mut oldest) = (None, None, u64::MAX);
        let mut newest_at = ANCHOR_PAGES;
        let (mut firm, mut alone) = (false, false);
        self.anchor.second_next = 0;
        for index in 0..ANCHOR_PAGES {
            let at = geo.page(BlockAddr(second), index);
            let header = self.store.read_meta(at, self.scratch)?;
            let leaf = get_u32(self.scratch, HEADER);
            let page = header
                .filter(|h| h.kind == Kind::Second && leaf < geo.blocks())
                .map(|h| (h.seq, leaf));
            let is_blank = header::is_blank(self.scratch);
            // They are written in twos.
            let is_second = index % 2 == 1;
            if page > newest {
                newest_at = index;
                let again = newest.is_some_and(|page: (u64, u32)| page.1 == leaf);
                (firm, alone) = (is_second || again && firm, !again);
            } else if is_second && newest_at + 1 == index {
                firm |= !is_blank;
            }
            oldest = oldest.min(page.map_or(u64::MAX, |page| page.0));
            note_newest(&mut newest, &mut before, page);
            if !is_blank {
                self.anchor.second_next = index / 2 * 2 + 2;
            }
        }
        let corrupt = Error::Corrupt(geo.page(BlockAddr(second), 0), "second-level checkpoint");
        let (seq, leaf) = newest.ok_or(corrupt)?;
        Ok(Second {
            oldest,
            seq,
            leaf,
            before: before.map_or(u32::MAX, |page| page.1),
            firm,
            alone,
        })
    }

    /// Finds the newest checkpoint; whether the newest root page `counts` may have been decided. 8 reads, 7 for a leaf, 2 for
    /// the leaves that it names, one more for a copy.
    fn find_leaf(&mut self, root: &Root, counts: Option<bool>) -> Result<Leaf, Error<N::Error>> {
        let geo = self.store.geo;
        let (firm, (mut leaf, mut seq, names)) = self.find_anchored(root, counts)?;
        let mut last = (seq, counted(self.scratch));
        let mut copy: Option<(u64, u32, u64)> = None;
        let mut complete = (0, u32::MAX);
        // The leaves named may go on from here. Copies only lead to other copies, and what one of them names may not be
        // what the leaf names: it was made by a mount that found another leaf.
        let mut names = Names::new(names);
        let mut i = 0;
        while let Some(&name) = names.list[..names.len].get(i) {
            i += 1;
            if name >= geo.blocks() {
                continue;
            }
            let at = geo.page(BlockAddr(name), 0);
            let Some((s, next)) = self.read_checkpoint(at, seq)? else {
                continue;
            };
            let says = (s, counted(self.scratch));
            if crate::format::bytes::get_u64(self.scratch, COPY_OF) != 0 {
                names.add(next);
                if copy.is_none_or(|(newest, ..)| s > newest) {
                    copy = Some((s, name, since(self.scratch)));
                }
                if s > complete.0 && self.is_complete_copy(name)? {
                    complete = (s, name);
                    last = last.max(says);
                }
            } else if let Some((head, s, next)) = self.last_checkpoint(name)?
                && s > seq
            {
                // Each of a forged ring of leaves could be newer than the last of the one before.
                self.anchor.push_chain(leaf.block);
                (leaf, seq) = (head, s);
                last = (s, counted(self.scratch));
                (names, i) = (Names::new(next), 0);
                copy = None;
                complete = (0, u32::MAX);
            }
        }
        let counted = Some(last.1).filter(|&page| page != 0 && last.0 > root.seq);
        // What could not be read when the copy was made is out of date, though it may be readable now: what it needs
        // may have been erased since.
        if let Some((.., of)) = copy {
            for index in (0..leaf.next).rev() {
                let at = geo.page(BlockAddr(leaf.block), index);
                if self.read_checkpoint(at, 0)?.is_some() && since(self.scratch) == of {
                    leaf.next = index + 1;
                    break;
                }
            }
        }
        Ok(Leaf {
            head: leaf,
            copy: copy.map(|(_, block, _)| (block, complete.1)),
            firm,
            counted,
        })
    }

    /// Whether what leads to the leaf that the anchors lead to cannot fail any more, and the last checkpoint there.
    ///
    /// A root page or second-level page that may fail yet does not count: nothing has been done behind it, so what the one before it leads
    /// to is as it was. Where there is no checkpoint, a mount in between did not count the page that leads there, and has used the
    /// block for a copy of a checkpoint: then the one before counts again.
    fn find_anchored(
        &mut self,
        root: &Root,
        counts: Option<bool>,
    ) -> Result<(bool, Found), Error<N::Error>> {
        let other = root.blocks[1 - root.side].newest;
        let counts = match counts {
            Some(counts) => counts,
            None => root.is_complete() || self.is_behind(root)?,
        };
        let candidates = match other {
            _ if root.twice => [root.second, u32::MAX],
            Some((.., second)) if counts => [root.second, second],
            Some((.., second)) => [second, root.second],
            None => [root.second, root.before],
        };
        let mut corrupt = None;
        for (i, block) in candidates.into_iter().enumerate() {
            if block == u32::MAX {
                continue;
            }
            let second = match self.find_second(block) {
                Err(e @ Error::Corrupt(..)) => {
                    corrupt = corrupt.or(Some(e));
                    continue;
                }
                second => second?,
            };
            self.store.seq = self.store.seq.max(second.seq + 1);
            let mut found = None;
            for leaf in second.leaves() {
                if found.is_none() && leaf != u32::MAX {
                    found = self.last_checkpoint(leaf)?;
                }
            }
            if let Some(found) = found {
                self.anchor.second = block;
                // The other block is written first.
                let is_other = root.twice || counts == (i > 0);
                self.anchor.first = if is_other { 1 - root.side } else { root.side };
                self.anchor.counts = root.blocks[self.anchor.first].name;
                let firm = i == 0 && (second.firm || second.before != u32::MAX);
                return Ok((firm && (!root.is_in_one() || root.seq < second.seq), found));
            }
            let at = self.store.geo.page(BlockAddr(second.leaf), 0);
            corrupt = corrupt.or(Some(Error::Corrupt(at, "checkpoint")));
            if counts && !root.is_in_one() && second.before != u32::MAX {
                // Other leaves have followed: what counted before is out of date.
                break;
            }
        }
        Err(corrupt.unwrap_or(Error::Corrupt(PageAddr::NONE, "second-level checkpoint")))
    }

    /// Whether what the newest root page leads to shows that it is complete. 8 reads.
    fn is_behind(&mut self, root: &Root) -> Result<bool, Error<N::Error>> {
        match self.find_second(root.second) {
            Ok(second) => Ok(second.is_behind(root.seq)),
            Err(Error::Corrupt(..)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the newest root page has counted once, as a checkpoint says that it leads to: then it was complete, and what shows
    /// that in the other block may be lost in an erase that was cut. As many reads as [`FlashLight::find_leaf`].
    fn has_counted(&mut self, root: &Root, name: u16) -> Result<bool, Error<N::Error>> {
        match self.find_leaf(root, Some(true)) {
            Ok(found) => Ok(found.counted == Some(name)),
            Err(Error::Corrupt(..)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether the copy of a checkpoint in a block is complete for sure: there is something behind it. If not, its program
    /// may have been cut, and nothing has been done that it claims. One read.
    fn is_complete_copy(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        let behind = self.store.geo.page(BlockAddr(block), 1);
        self.store.scratch_at = PageAddr::NONE;
        self.store.read_meta(behind, self.scratch)?;
        Ok(!header::is_blank(self.scratch))
    }

    /// The last checkpoint of a leaf block.
    fn last_checkpoint(&mut self, block: u32) -> Result<Option<Found>, Error<N::Error>> {
        let (mut lo, mut hi) = (0, self.store.ppb());
        let geo = self.store.geo;
        let page = |index| geo.page(BlockAddr(block), index);
        // The first page that was never programmed.
        while lo < hi {
            let mid = u32::midpoint(lo, hi);
            let found = self.read_checkpoint(page(mid), 0)?;
            if found.is_none() && header::is_blank(self.scratch) {
                hi = mid;
            } else {
                lo = mid + 1;
            }
        }
        // The last may have been torn.
        for index in (0..lo).rev() {
            if let Some((seq, names)) = self.read_checkpoint(page(index), 0)? {
                let next = index + 1;
                return Ok(Some((Head { block, next }, seq, names)));
            }
        }
        Ok(None)
    }

    /// Reads a checkpoint page into the scratch page: its sequence number, if that is above
    /// `after`, and the next leaves.
    #[allow(clippy::type_complexity)]
    pub(crate) fn read_checkpoint(
        &mut self,
        at: PageAddr,
        after: u64,
    ) -> Result<Option<(u64, [u32; 2])>, Error<N::Error>> {
        self.store.scratch_at = PageAddr::NONE;
        let header = self.store.read_meta(at, self.scratch)?;
        Ok(header
            .filter(|h| h.kind == Kind::Checkpoint && h.seq > after)
            .map(|h| (h.seq, next_leaves(self.scratch))))
    }

    /// Makes everything durable and marks the volume as cleanly unmounted. Writes nothing when
    /// nothing was written since the mount. Returns the chip.
    #[allow(clippy::type_complexity)]
    pub fn unmount(mut self) -> Result<N, (N, Error<N::Error>)> {
        let result = self.close();
        match result {
            Ok(()) => Ok(self.store.nand.inner),
            Err(e) => Err((self.store.nand.inner, e)),
        }
    }

    /// What [`FlashLight::unmount`] does, keeping the value: nothing may be changed afterwards.
    pub fn close(&mut self) -> Result<(), Error<N::Error>> {
        if self.read_only || !(self.store.session || self.is_dirty()) {
            self.read_only = true;
            return Ok(());
        }
        self.writable()?;
        self.checkpoint(true)?;
        self.read_only = true;
        self.tell_given_up()
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirs.iter().chain(&self.files).any(|s| s.dirty) || self.map.dirty
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        &self.store.nand.inner
    }

    /// The chip, for what does not change its contents.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.store.nand.inner
    }

    /// Whether the mount found that the volume had not been unmounted, and brought it to where it was.
    pub fn is_recovered(&self) -> bool {
        self.recovered
    }

    /// Whether what the mount has recovered is durable. It is not when one root block is left and full, or with
    /// [`Config::discarded`]: then the next mount does it again.
    pub fn recovery_lasts(&self) -> bool {
        !self.recovered || !self.store.together
    }

    /// The volume's number.
    pub fn volume(&self) -> u32 {
        self.store.volume
    }

    /// What has been written since the mount.
    pub fn written(&self) -> Written {
        self.store.written
    }
}

/// Blocks that files have at least, when a volume is made.
const LEAST: u32 = 8;

/// Root blocks are among the first so many.
pub(crate) const ROOT_BLOCKS: u32 = 64;
/// Good blocks that are kept for roots: the first two of them are in use.
const ROOTS: u32 = 4;

/// The first two good blocks: the anchors of the volume; all ones for a second that is missing.
pub(crate) fn root_blocks<N: Nand>(nand: &mut N) -> Result<[u32; 2], Error<N::Error>> {
    let mut roots = [u32::MAX; 2];
    let mut found = 0;
    for block in 0..nand.geometry().blocks().min(ROOT_BLOCKS) {
        if !nand.is_bad(BlockAddr(block)).map_err(Error::Driver)? {
            roots[found] = block;
            found += 1;
            if found == 2 {
                break;
            }
        }
    }
    if found == 0 {
        return Err(Error::NotFormatted);
    }
    Ok(roots)
}

//! How the caller's bytes are divided, and how many are needed.

use crate::config::{Cleaner, Config};
use crate::format::deferred::{HASHES_LEAST, HASHES_USEFUL};
use crate::format::limits::{DEFERRED_MOST, MAP_PAGES, REMNANTS, SNAPSHOT_PAGES};
use crate::format::snapshot::{self, PIECE};
use crate::format::table_page::Layout;
use crate::format::wellformed::blocks;
use crate::format::{blockstate, validity};
use crate::space::limits::{deferred_least, known_dirs_least, least_list, reserve_blocks};
use crate::space::store::Parts;
use crate::space::{dirty, pages};
use flashkit_nand::Geometry;

/// Bytes of RAM that a volume on a chip of this geometry needs: six pages, the block table of one
/// byte a block (two where a block has more than 120 pages), those of 161 dirty-list entries of 2
/// bytes and a bit a page, and 384 bytes. Of the list's a sixteenth keeps names of directories, and
/// a bit a block may be used for what goes to flash of it. 16,330 for 2,048 blocks of 64 pages of 2
/// KiB.
///
/// Of a block table that is longer than a page, one page is in RAM; besides 8 bytes for each of its
/// pages, a list of changes and a shorter dirty list: 16,369 bytes for 65,535 such blocks.
pub const fn ram_needed(geo: &Geometry) -> usize {
    ram_needed_for(geo, 0)
}

/// The same, for a volume with so many entries a page of the block table
/// ([`Config::table_page`](crate::Config::table_page)).
pub const fn ram_needed_for(geo: &Geometry, table_page: u32) -> usize {
    let (table, is_paged) = match Layout::of(geo, table_page) {
        Some(layout) => (layout.room(), true),
        None => (blockstate::size(geo), false),
    };
    6 * geo.page_size() as usize
        + table
        + least_list(geo, is_paged)
        + known_dirs_least(geo, is_paged)
        + 2 * HASHES_LEAST
        + 4 * MAP_PAGES
        + 4 * REMNANTS
}

/// Bytes of RAM with which all of a block table that lies on flash is in RAM too: [`ram_needed`]
/// where it does not. Less than that, and more than [`ram_needed`], holds more of its pages.
pub const fn ram_for_table(geo: &Geometry) -> usize {
    ram_needed(geo) + more_for_table(Layout::of(geo, 0))
}

/// Bytes above the least for all of a table that lies on flash.
pub(crate) const fn more_for_table(layout: Option<Layout>) -> usize {
    match layout {
        Some(layout) => layout.room_for_all() - layout.room(),
        None => 0,
    }
}

/// Bytes of RAM with which levelling also counts erases, a byte a block more: those of the blocks
/// then deviate by some nine erases from their mean, whatever that is.
pub const fn ram_to_level(geo: &Geometry) -> usize {
    ram_for_table(geo) + blocks(geo) as usize
}

/// Bytes of RAM beyond which more is of no use. What there is above [`ram_to_level`] holds more of
/// the dirty list, up to an entry for each of 4,096 blocks: cleaning then knows which pages are
/// valid without reading the others' tags. What the list does not need keeps up to 2,048 metadata
/// pages, up to 4 MiB of them or 512 pages, which are then not read again; an eighth, up to 6 KiB,
/// keeps names of directories, for paths. 4,254,080 for 2,048 blocks of 64 pages of 2 KiB, 37,248
/// of them without room for the pages beside a whole list. Most of the gain is there with 65,536.
pub const fn ram_useful(geo: &Geometry) -> usize {
    let more = dirty_blocks(geo).saturating_sub(dirty::ENTRIES);
    ram_to_level(geo)
        + more * dirty::entry_size(geo.pages_per_block())
        + pages::most(geo.page_size()) * pages::room_for_one(geo.page_size())
        + KNOWN_DIRS_MOST
}

/// Blocks that the dirty list could have entries for.
pub(crate) const fn dirty_blocks(geo: &Geometry) -> usize {
    let blocks = blocks(geo) as usize;
    if blocks > dirty::MOST {
        dirty::MOST
    } else {
        blocks
    }
}

/// Bytes of deferred changes that are of use beyond the least, and that a snapshot has room for.
const fn deferred_bytes(geo: &Geometry) -> usize {
    let page = geo.page_size() as usize - PIECE;
    let others = snapshot::longest(geo) / page + 2;
    let pages = SNAPSHOT_PAGES.saturating_sub(others);
    // The blocks of the allocation log hold two snapshots and much else.
    let few = geo.pages_per_block() as usize / 4;
    let room = page * if pages < few { pages } else { few };
    if room < DEFERRED_MOST {
        room
    } else {
        DEFERRED_MOST
    }
}

/// Bytes for the names of directories that are of use, beyond the least.
const KNOWN_DIRS_MOST: usize = 6144;

pub(crate) fn carve<'r>(ram: &mut &'r mut [u8], n: usize) -> &'r mut [u8] {
    let (part, rest) = core::mem::take(ram).split_at_mut(n);
    *ram = rest;
    part
}

/// Blocks that files have at least, when a volume is made.
pub(crate) const LEAST: u32 = 8;

/// Pages of a snapshot at most, without deferred changes.
fn snapshot_pages(geo: &Geometry, layout: Option<Layout>) -> usize {
    let in_snapshot = layout.map_or(blockstate::size(geo), |_| 0);
    in_snapshot / (geo.page_size() as usize - PIECE) + 2
}

/// Whether a chip of this shape can hold a volume.
pub(crate) fn fits(geo: &Geometry, layout: Option<Layout>) -> bool {
    let usable = geo.blocks().saturating_sub(reserve_blocks(geo.blocks()));
    geo.page_size() >= 1024
        && geo.pages_per_block() >= 8
        && usable >= LEAST
        && snapshot_pages(geo, layout) <= SNAPSHOT_PAGES
}

/// Whether a new volume can be made on it: of the blocks of the allocation log three are enough for
/// a snapshot with all deferred changes. With more a checkpoint would be due after each checkpoint.
pub(crate) fn log_fits(geo: &Geometry, layout: Option<Layout>) -> bool {
    let pages = geo.pages_per_block() as usize;
    snapshot_pages(geo, layout) + pages / 4 <= 3 * pages
}

/// How many bytes each part of a store has.
struct Shares {
    table: usize,
    dirty: usize,
    known: usize,
    pages: usize,
    /// Bytes of a place for pages that are kept.
    place: usize,
    counts: usize,
    /// Names of directories that were found lately.
    known_dirs: usize,
    /// Hashes that have changed of the two directories in RAM.
    hashes: usize,
    /// Entries of the dirty list at most.
    dirty_most: usize,
    /// Bytes of deferred changes at most, of those of the dirty list.
    deferred_most: u16,
    /// And of the page of the DirInode map.
    deferred_in_map_page: u16,
}

impl Shares {
    /// Of so many bytes of the caller's, no fewer than are needed. What is above that goes to erase
    /// counts, pages that are kept, and a longer dirty list.
    fn of(geo: &Geometry, config: &Config, layout: Option<Layout>, ram: usize) -> Shares {
        let ppb = geo.pages_per_block();
        let above = ram - ram_needed_for(geo, config.table_page);
        let for_table = more_for_table(layout).min(above);
        let to_level = for_table + blocks(geo) as usize;
        let counted = config.wear_interval > 0 && above >= to_level;
        let more = above.saturating_sub(to_level);
        let known_least = known_dirs_least(geo, layout.is_some());
        let free = if counted { more } else { above - for_table };
        let for_names = free.min(known_least).max(more / 8).min(KNOWN_DIRS_MOST);
        let more = more.saturating_sub(for_names);
        let for_hashes = 2 * (HASHES_USEFUL - HASHES_LEAST).min(for_names / 8 * 4);
        let for_names = for_names - for_hashes;
        let for_changes = (more / 2).min(deferred_bytes(geo));
        // A mount writes the directories of these: of 12 bytes at least, in two blocks.
        let in_map_page = (24 * ppb as usize)
            .min(geo.page_size() as usize)
            .min(deferred_bytes(geo) - for_changes);
        let (pages, place) = pages::divide(more, geo.page_size());
        let dirty = least_list(geo, layout.is_some()) + more - pages;
        let dirty_most = match config.dirty_entries {
            0 => dirty_blocks(geo).max(dirty::ENTRIES),
            most => most.max(4),
        };
        let alone = (dirty - for_changes) / dirty::entry_size(ppb);
        let holds_all = dirty_most.min(alone) >= blocks(geo) as usize;
        let known = if holds_all || layout.is_some() || config.cleaner == Cleaner::Paper {
            0
        } else {
            validity::room(geo, dirty)
        };
        Shares {
            table: layout.map_or(blockstate::size(geo), |layout| layout.room()) + for_table,
            dirty: dirty - known,
            known,
            pages,
            place,
            counts: if counted { blocks(geo) as usize } else { 0 },
            known_dirs: known_least + for_names,
            hashes: 2 * HASHES_LEAST + for_hashes,
            dirty_most,
            deferred_most: (deferred_least(geo, layout.is_some()) + for_changes) as u16,
            deferred_in_map_page: in_map_page as u16,
        }
    }
}

/// Takes a store's parts of the caller's bytes, and those for the names of directories and for the
/// hashes of what has changed.
pub(crate) fn store_parts<'r>(
    geo: &Geometry,
    config: &Config,
    layout: Option<Layout>,
    ram: &mut &'r mut [u8],
) -> (Parts<'r>, [&'r mut [u8]; 2]) {
    let shares = Shares::of(geo, config, layout, ram.len());
    let parts = Parts {
        table: carve(ram, shares.table),
        dirty: carve(ram, shares.dirty),
        known: carve(ram, shares.known),
        pages: carve(ram, shares.pages),
        place: shares.place,
        remnants: carve(ram, 4 * REMNANTS),
        map_page: carve(ram, geo.page_size() as usize),
        counts: carve(ram, shares.counts),
        dirty_most: shares.dirty_most,
        deferred_most: shares.deferred_most,
        deferred_in_map_page: shares.deferred_in_map_page,
    };
    let names = carve(ram, shares.known_dirs);
    (parts, [names, carve(ram, shares.hashes)])
}

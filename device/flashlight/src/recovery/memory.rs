//! How the caller's bytes are divided, and how many are needed.

use crate::format::blockstate;
use crate::format::limits::{MAP_PAGES, REMNANTS};
use crate::format::table_page::Layout;
use crate::format::wellformed::blocks;
use crate::recovery::roots::Names;
use crate::space::{dirty, paged, pages};
use flashkit_nand::Geometry;

/// Bytes of RAM that a volume on a chip of this geometry needs: six pages, the block table of one byte a block (two
/// where a block has more than 120 pages), those of 161 dirty-list entries of 2 bytes and a bit a page, of which a bit a
/// block may be used for what goes to flash of the list, and 384 bytes. 16,330 for 2,048 blocks of 64 pages of 2 KiB.
///
/// Of a block table that is longer than a page, one page is in RAM; besides 8 bytes for each of its
/// pages, a list of changes and a shorter dirty list: 16,369 bytes for 65,535 such blocks.
pub const fn ram_needed(geo: &Geometry) -> usize {
    ram_needed_for(geo, 0)
}

/// The same, for a volume with so many entries a page of the block table ([`Config::table_page`](crate::Config::table_page)).
pub const fn ram_needed_for(geo: &Geometry, table_page: u32) -> usize {
    let (table, dirty) = match Layout::of(geo, table_page) {
        Some(layout) => (layout.room(), paged::DIRTY_ENTRIES),
        None => (blockstate::size(geo), dirty::ENTRIES),
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
pub(crate) const fn more_for_table(layout: Option<Layout>) -> usize {
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
pub(crate) const fn dirty_blocks(geo: &Geometry) -> usize {
    let blocks = blocks(geo) as usize;
    if blocks > dirty::MOST {
        dirty::MOST
    } else {
        blocks
    }
}

pub(crate) fn carve<'r>(ram: &mut &'r mut [u8], n: usize) -> &'r mut [u8] {
    let (part, rest) = core::mem::take(ram).split_at_mut(n);
    *ram = rest;
    part
}

/// Blocks that files have at least, when a volume is made.
pub(crate) const LEAST: u32 = 8;

impl Names {
    pub(crate) fn new(names: [u32; 2]) -> Names {
        let mut all = Names {
            list: [0; 12],
            len: 0,
        };
        all.add(names);
        all
    }
}

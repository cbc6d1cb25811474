//! A page of the block table, where the table is longer than the checkpoint has room for.

use crate::format::area::{Head, block_number};
use crate::format::blockstate::{self, BlockState, Entries};
use crate::format::header::HEADER;
use crate::format::limits::RESERVES;
use crate::format::wellformed::blocks;
use flashkit_bytes::{get_u16, get_u32, put_u16, put_u32};
use flashkit_nand::{Geometry, PageAddr};

/// How a table is divided into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Entries of a page.
    pub per_page: u32,
    pub pages: usize,
    /// Bytes of a change: block u16, and an entry.
    pub(crate) change: usize,
    pub(crate) page_size: usize,
    pub(crate) pages_per_block: u32,
}

/// What a checkpoint page says of the table.
///
/// ```text
///  0 places: for each page two of u32   then: good blocks u32, free u32, dead u32, changes u16,
///    erased blocks are not trusted u16, block being filled u16, its next page u16
///    changes: block u16, its entry
/// ```
pub(crate) struct TableFields<'a> {
    pub places: &'a [u8],
    fields: &'a [u8; FIELDS],
    pub changes: &'a [u8],
    change: usize,
    entries: Entries,
    /// Where it ends.
    pub end: usize,
}

/// Where a page's entries begin.
pub(crate) const ENTRIES: usize = HEADER + 4;

/// Bytes of the places of a page's copies.
pub(crate) const PLACE: usize = 8;

/// Bit of a page's first place: it was written after the checkpoint before the one that says so.
pub(crate) const SINCE: u32 = 1 << 31;

/// Fields of a checkpoint page besides places and changes.
pub(crate) const FIELDS: usize = 20;

const GOOD: usize = 0;
const FREE: usize = 4;
const DEAD: usize = 8;
const CHANGES: usize = 12;
const UNTRUSTED: usize = 14;
const HEAD: usize = 16;

/// Blocks taken for pages since the last checkpoint that are remembered.
pub(crate) const OWN: usize = 8;

/// Changes that there is room for above those that let a page be written: of one step, and
/// of the begin of a session.
pub(crate) const SLACK: usize = 96;

/// Pages of a table at most.
pub(crate) const PAGES_MOST: usize = 128;

impl Layout {
    /// `None` when a page cannot hold so many, or a checkpoint page not the places.
    pub const fn new(geo: &Geometry, per_page: u32) -> Option<Self> {
        let entry = blockstate::entry_size(geo.pages_per_block());
        let page_size = geo.page_size() as usize;
        if per_page == 0 || ENTRIES + per_page as usize * entry > page_size {
            return None;
        }
        let layout = Layout {
            per_page,
            pages: blocks(geo).div_ceil(per_page) as usize,
            change: 2 + entry,
            page_size,
            pages_per_block: geo.pages_per_block(),
        };
        let fixed = crate::format::checkpoint::FIELDS + 4 * RESERVES + 4 + FIELDS;
        // Writing a page makes up to three changes.
        if layout.full() < 3 * layout.pages
            || layout.pages > PAGES_MOST
            || fixed + PLACE * layout.pages + layout.change * layout.changes_most() > page_size
        {
            return None;
        }
        Some(layout)
    }

    /// That of a new volume; `None`: all of the table is in RAM. `per_page` as
    /// [`crate::Config::table_page`] says: 0 stands for as many entries as a page holds, of a table
    /// that is longer than a page.
    pub const fn of(geo: &Geometry, per_page: u32) -> Option<Self> {
        let entry = blockstate::entry_size(geo.pages_per_block());
        let page_size = geo.page_size() as usize;
        if per_page == u32::MAX {
            return None;
        }
        if per_page > 0 {
            return Layout::new(geo, per_page);
        }
        if blockstate::size(geo) <= page_size {
            return None;
        }
        Layout::new(geo, ((page_size - ENTRIES) / entry) as u32)
    }

    /// Changes above which a page is written: several for each page.
    pub(crate) const fn full(&self) -> usize {
        let many = 72 + 2 * self.pages;
        if many < self.per_page as usize {
            many
        } else {
            self.per_page as usize
        }
    }

    pub(crate) const fn changes_most(&self) -> usize {
        self.full() + SLACK
    }

    /// Bytes of RAM at least.
    pub const fn room(&self) -> usize {
        self.page_size + (PLACE + 1) * self.pages + self.change * self.changes_most()
    }

    /// Bytes of RAM for a table that is in RAM with all its pages.
    pub const fn room_for_all(&self) -> usize {
        self.room() + (self.pages - 1) * self.page_size
    }
}

/// Puts these fields at `at` of a checkpoint page.
pub(crate) fn put_fields(
    page: &mut [u8],
    at: usize,
    counts: [u32; 3],
    changes: usize,
    erased_untrusted: bool,
    head: Head,
) {
    for (field, count) in [GOOD, FREE, DEAD].into_iter().zip(counts) {
        put_u32(page, at + field, count);
    }
    put_u16(page, at + CHANGES, changes as u16);
    put_u16(page, at + UNTRUSTED, erased_untrusted.into());
    put_u16(page, at + HEAD, head.block as u16);
    put_u16(page, at + HEAD + 2, head.next as u16);
}

impl<'a> TableFields<'a> {
    /// Those at `at` of a checkpoint page.
    pub fn on(geo: &Geometry, page: &'a [u8], at: usize, per_page: u32) -> Option<Self> {
        let layout = Layout::new(geo, per_page)?;
        let (places, rest) = page.get(at..)?.split_at_checked(PLACE * layout.pages)?;
        let (fields, rest) = rest.split_first_chunk()?;
        let changes = rest.get(..usize::from(get_u16(fields, CHANGES)) * layout.change)?;
        let end = at + places.len() + FIELDS + changes.len();
        Some(TableFields {
            places,
            fields,
            changes,
            change: layout.change,
            entries: Entries::of(geo.pages_per_block()),
            end,
        })
    }

    /// Blocks that are good, free, dead.
    pub fn counts(&self) -> [u32; 3] {
        [GOOD, FREE, DEAD].map(|at| get_u32(self.fields, at))
    }

    /// Whether blocks that it calls erased may not be.
    pub fn erased_untrusted(&self) -> bool {
        get_u16(self.fields, UNTRUSTED) != 0
    }

    /// The block that pages of the table fill.
    pub fn head(&self) -> Head {
        Head {
            block: block_number(get_u16(self.fields, HEAD)),
            next: u32::from(get_u16(self.fields, HEAD + 2)),
        }
    }

    pub fn pages(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        let words = self.places.chunks_exact(4).enumerate();
        words.filter_map(|(i, word)| {
            let place = get_u32(word, 0);
            let place = if i % 2 == 0 { place & !SINCE } else { place };
            let written = get_u32(word, 0) != u32::MAX;
            written.then_some(((i / 2) as u32, PageAddr(place)))
        })
    }

    pub fn changes(&self) -> impl Iterator<Item = (u32, BlockState)> + '_ {
        self.changes.chunks_exact(self.change).map(|change| {
            (
                u32::from(get_u16(change, 0)),
                self.entries.get(&change[2..], 0),
            )
        })
    }
}

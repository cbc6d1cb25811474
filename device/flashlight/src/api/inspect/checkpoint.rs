//! Pages of the checkpoint and of the allocation log.

use crate::format::area::HEADS;
use crate::format::blockstate::{self, BlockState, Entries};
use crate::format::checkpoint::{CONFIRMED, CheckpointView, FAILING_BLOCKS, UNMOUNTED, WIDE};
use crate::format::deferred::{Assembly, Group};
use crate::format::header::HEADER;
use crate::format::limits::MAP_PAGES;
use crate::format::snapshot::Piece;
use crate::format::table_page::{self, TableFields};
use crate::space::dirty;
use flashkit_bytes::{get_u16, get_u32};
use flashkit_nand::{Geometry, PageAddr};

/// A root page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Root {
    pub page_size: u32,
    pub spare_size: u32,
    pub pages_per_block: u32,
    pub blocks: u32,
    /// Block of the second-level pages.
    pub second: u32,
    /// Good blocks up to this one are kept for roots.
    pub last_root: u32,
    /// How often the root blocks have been filled.
    pub round: u32,
    /// Blocks that were good at format time.
    pub good: u32,
}

/// Name of a log area by its number on flash.
fn area_name(area: u8) -> &'static str {
    let names = [
        "bitmap", "map", "dir", "hash", "file", "extent", "data", "update",
    ];
    names.get(usize::from(area)).copied().unwrap_or("?")
}

/// A block taken, or to be taken, for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The block.
    pub block: u32,
    /// The area's name.
    pub area: &'static str,
}

fn reserved(b: &[u8], at: usize) -> Reserved {
    Reserved {
        block: u32::from(get_u16(b, at)),
        area: area_name(b[at + 2]),
    }
}

/// An allocation record.
pub struct Alloc<'a>(&'a [u8]);

impl<'a> Alloc<'a> {
    pub(super) fn on(b: &'a [u8]) -> Option<Self> {
        let count = usize::from(get_u16(b, HEADER));
        b.get(HEADER + 4..HEADER + 4 + 4 * count).map(Alloc)
    }

    /// The blocks taken.
    pub fn blocks(&self) -> impl Iterator<Item = Reserved> + '_ {
        self.0.chunks_exact(4).map(|entry| reserved(entry, 0))
    }
}

/// An area's block that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The area's name.
    pub area: &'static str,
    /// The block.
    pub block: u32,
    /// Its next page.
    pub next: u32,
}

/// A checkpoint page.
pub struct Checkpoint<'a> {
    page: CheckpointView<'a>,
    table: Option<TableFields<'a>>,
    dirty: &'a [u8],
    dirty_size: usize,
}

impl<'a> Checkpoint<'a> {
    pub(super) fn on(geometry: &Geometry, b: &'a [u8], used: usize) -> Option<Self> {
        let b = b.get(..used)?;
        let page = CheckpointView::on(b);
        if !page.lists_fit() {
            return None;
        }
        let mut dirty = page.table_at();
        let mut table = None;
        if page.per_page() > 0 {
            let fields = TableFields::on(geometry, b, dirty, page.per_page().into())?;
            dirty = fields.end;
            table = Some(fields);
        }
        let dirty_size = dirty::entry_size(geometry.pages_per_block());
        let end = dirty + usize::from(page.dirty_entries()) * dirty_size;
        Some(Checkpoint {
            page,
            table,
            dirty: b.get(dirty..end)?,
            dirty_size,
        })
    }

    /// Whether the volume was unmounted then.
    pub fn is_clean(&self) -> bool {
        self.page.has(UNMOUNTED)
    }
    /// Whether the page before says so too, and nothing has to be recovered.
    pub fn is_confirmed(&self) -> bool {
        self.page.has(CONFIRMED)
    }
    /// Whether the last two places of the DirInode map are of pages of places.
    pub fn is_wide(&self) -> bool {
        self.page.has(WIDE)
    }
    /// The sequence number of the checkpoint that a recovery has repeated here.
    pub fn copy_of(&self) -> Option<u64> {
        Some(self.page.copy_of()).filter(|&seq| seq != 0)
    }
    /// The round of the root blocks, and how many of their pages are claimed.
    pub fn root(&self) -> (u8, u8) {
        (self.page.round(), self.page.root_next())
    }
    /// The second-level block, and how many of its pages are claimed.
    pub fn second(&self) -> (u32, u8) {
        (self.page.second().into(), self.page.second_next())
    }
    /// Copies of the DirInodes of the root and of the index directory.
    pub fn dir_copies(&self) -> impl Iterator<Item = PageAddr> {
        let copies = self.page.dir_copies();
        copies.into_iter().filter(|page| page.is_some())
    }
    /// Blocks whose programs have failed.
    pub fn failing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..FAILING_BLOCKS)
            .map(|i| u32::from(self.page.failing(i)))
            .filter(|block| *block != u32::from(u16::MAX))
    }
    /// The blocks that follow when this leaf block is full.
    pub fn next_leaves(&self) -> impl Iterator<Item = u32> {
        let leaves = self.page.next_leaves();
        leaves.into_iter().filter(|&b| b != u32::MAX)
    }
    /// Number of the next file.
    pub fn next_file(&self) -> u32 {
        self.page.next_ino()
    }
    /// Pages in use.
    pub fn live_pages(&self) -> u32 {
        self.page.live()
    }
    /// Files without a name.
    pub fn orphans(&self) -> u32 {
        self.page.orphans()
    }
    /// Block where the search for a free one goes on.
    pub fn cursor(&self) -> u32 {
        self.page.cursor()
    }
    /// Number from which on a free directory number is looked for.
    pub fn next_dir(&self) -> u32 {
        self.page.next_dir()
    }
    /// The areas' blocks that are being filled.
    pub fn heads(&self) -> impl Iterator<Item = LogHead> + '_ {
        let heads = (0..HEADS).map(|area| (area, self.page.head(area)));
        let open = heads.filter(|(_, head)| head.block != u32::MAX);
        open.map(|(area, head)| LogHead {
            area: area_name(area as u8),
            block: head.block,
            next: head.next,
        })
    }
    /// Blocks of the allocation log.
    pub fn bitmap_blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.page.bitmap_blocks().map(u32::from)
    }
    /// Blocks reserved ahead.
    pub fn reserved(&self) -> impl Iterator<Item = Reserved> + '_ {
        let reserves = (0..self.page.reserved().into()).map(|i| self.page.reserve(i));
        reserves.map(|(block, area)| Reserved {
            block: block.into(),
            area: area_name(area),
        })
    }
    /// The pages of the block table, in order.
    pub fn snapshot_pages(&self) -> impl Iterator<Item = PageAddr> + '_ {
        (0..self.page.snapshot_pages().into()).map(|i| self.page.snapshot_page(i))
    }
    /// The copies of the pages of a block table that lies on flash, in order, of
    /// those that were ever written.
    pub fn table_pages(&self) -> impl Iterator<Item = (u32, PageAddr)> + '_ {
        self.table.iter().flat_map(TableFields::pages)
    }
    /// States of blocks that such a page does not show yet.
    pub fn table_changes(&self) -> impl Iterator<Item = (u32, BlockState)> + '_ {
        self.table.iter().flat_map(TableFields::changes)
    }
    /// The dirty list: blocks, and how many of their pages are valid.
    pub fn dirty_list(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.dirty.chunks_exact(self.dirty_size).map(|entry| {
            let valid = entry[2..].iter().map(|bits| bits.count_ones()).sum();
            (u32::from(get_u16(entry, 0)), valid)
        })
    }
}

/// A page of a block table that lies on flash.
pub struct TablePage<'a> {
    b: &'a [u8],
    entries: Entries,
}

impl<'a> TablePage<'a> {
    pub(super) fn on(geometry: &Geometry, b: &'a [u8], used: usize) -> Option<Self> {
        let entries = Entries::of(geometry.pages_per_block());
        let b = b.get(..used)?;
        let count = usize::from(get_u16(b, HEADER + 2));
        (used == table_page::ENTRIES + count * entries.size()).then_some(TablePage { b, entries })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        u32::from(get_u16(self.b, HEADER))
    }

    /// States of the blocks in it, in order.
    pub fn states(&self) -> impl Iterator<Item = BlockState> + '_ {
        let count = usize::from(get_u16(self.b, HEADER + 2));
        (0..count).map(|i| self.entries.get(&self.b[table_page::ENTRIES..], i))
    }
}

/// A piece of the block table and of what follows it.
pub struct Snapshot<'a> {
    geometry: Geometry,
    piece: Piece<'a>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn on(geometry: &Geometry, b: &'a [u8], used: usize) -> Option<Self> {
        let piece = Piece::on(geometry, b, used).filter(|piece| piece.is_sane(geometry))?;
        let geometry = *geometry;
        Some(Snapshot { geometry, piece })
    }

    /// The first byte of the whole that this piece holds.
    pub fn from(&self) -> usize {
        self.piece.from
    }

    /// Whether it is coded.
    pub fn is_coded(&self) -> bool {
        self.piece.coded
    }

    /// Whether the block table is in the whole: else it lies on flash.
    pub fn has_table(&self) -> bool {
        !self.piece.tableless
    }

    /// Where the map's places begin in the whole, and where they end.
    fn bounds(&self) -> (usize, usize) {
        let table = if self.piece.tableless {
            0
        } else {
            blockstate::size(&self.geometry)
        };
        (table, table + 4 * MAP_PAGES)
    }

    /// Whole entries of `size` bytes in this piece of what lies in `from..to`, each with its
    /// number.
    fn entries(
        &self,
        from: usize,
        to: usize,
        size: usize,
    ) -> impl Iterator<Item = (u32, [u8; 4])> + use<'a> {
        let (mut entry, mut have) = ([0; 4], 0);
        (self.piece.from..to)
            .zip(self.piece.bytes())
            .filter(move |(n, _)| *n >= from)
            .filter_map(move |(n, byte)| {
                let (number, k) = ((n - from) / size, (n - from) % size);
                // The first may have begun in the piece before.
                if k != have {
                    return None;
                }
                entry[k] = *byte;
                have = (have + 1) % size;
                (have == 0).then_some((number as u32, entry))
            })
    }

    /// States of the blocks in this piece.
    pub fn states(&self) -> impl Iterator<Item = (u32, BlockState)> + use<'a> {
        let pages_per_block = self.geometry.pages_per_block();
        let size = blockstate::entry_size(pages_per_block);
        self.entries(0, self.bounds().0, size)
            .map(move |(block, entry)| {
                let state = Entries::of(pages_per_block).get(&entry, 0);
                (block, state)
            })
    }

    /// Places of the DirInode map's pages: number and page, of those that exist.
    pub fn map_pages(&self) -> impl Iterator<Item = (u32, PageAddr)> + use<'a> {
        let (table, end) = self.bounds();
        self.entries(table, end, 4)
            .map(|(number, entry)| (number, PageAddr(get_u32(&entry, 0))))
            .filter(|(_, page)| page.is_some())
    }

    /// Where the blocks with an unwritten tail end, and the deferred changes begin: where the piece
    /// ends, unless their number is in this piece.
    fn tails_end(&self) -> usize {
        let from = self.bounds().1;
        let number = self.entries(from, from + 4, 4).next();
        number.map_or(usize::MAX, |(_, word)| {
            from + 4 + 4 * usize::from(get_u16(&word, 0))
        })
    }

    /// Blocks with an unwritten tail: block, and next page. In a piece that begins behind their
    /// number, what is deferred is taken for such blocks as well.
    pub fn partial_blocks(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let from = self.bounds().1 + 4;
        self.entries(from, self.tails_end(), 4)
            .map(|(_, entry)| (u32::from(get_u16(&entry, 0)), u32::from(get_u16(&entry, 2))))
    }

    /// Directories with deferred changes, and how many records these have: those that end in this
    /// piece, if it says where they begin.
    pub fn deferred(&self) -> impl Iterator<Item = (u32, usize)> + use<'a> {
        let skipped = self.tails_end().saturating_sub(self.piece.from);
        let mut bytes = self.piece.bytes().skip(skipped);
        let mut assembly = Assembly::EMPTY;
        core::iter::from_fn(move || {
            loop {
                let group = assembly.push(*bytes.next()?);
                if let Some(group) = group.and_then(|bytes| Group::first(bytes)) {
                    return Some((group.dir(), group.records().count()));
                }
            }
        })
    }
}

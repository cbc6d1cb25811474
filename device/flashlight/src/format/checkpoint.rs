//! The checkpoint page: where everything is. A root leads to the block it is in, the leaf.
//!
//! ```text
//!  32 flags u8 (1: unmounted, 2: and that is over, 4: the DirInode map is wide, 8: what is newer
//!     is told by its numbers, 16: the checkpoint page before, in this block, says the same)
//!  33 round u8   34 root pages u8   35 second-level pages u8
//!  36 second-level block u16   38 next leaf u16
//!  40 next file number u32   44 live pages u32   48 orphans u32   52 cursor u32
//!  56 next directory number u32
//!  60 heads: block u16, next u16, of Bitmap, Map, Dir, Hash, File, Extent
//!  84 bitmap blocks: u16 each, 8; all ones: none
//! 100 reserved u8, snapshot pages u8, dirty entries u16
//! 104 copy of u64: 0, or the number of the checkpoint that this one repeats
//! 112 leaf after that u16     114 root page that counts u16
//! 116 copies of the DirInodes of the root and of the index directory: u32 each, all ones: none
//! 124 failing blocks: u16 each, 8; all ones: none
//! 140 wear levelling: next block u16, last place u16, moves u16, erases u16
//! 148 block where scrubbing goes on u16
//! 150 entries of a page of the block table, if that lies on flash, else 0
//! 152 reserved blocks: block u16, area u8, 0; snapshot pages: u32 each; block table; dirty list
//! ```
//!
//! Every field is at a fixed place, so that a mount and the tools that look at an image read them
//! alike. The lists behind them begin where [`CheckpointView`] says. A page is believed when
//! [`crate::format::wellformed`] has seen it; the numbers of blocks in it may be any.

use crate::format::area::{HEADS, Head, block_number};
use crate::format::fields::{get_u16, get_u32, get_u64};
use crate::format::header::SEQ;
use crate::format::limits::{BITMAP_BLOCKS, RESERVES, SNAPSHOT_PAGES};
use flashkit_bytes::{put_u16, put_u32, put_u64};
use flashkit_nand::PageAddr;

/// Bytes of the page before its lists.
pub(crate) const FIELDS: usize = 152;

/// Blocks whose programs have failed that a checkpoint remembers.
pub(crate) const FAILING_BLOCKS: usize = 8;

/// Flags of a checkpoint page.
pub(crate) const UNMOUNTED: u8 = 1;

pub(crate) const CONFIRMED: u8 = 2;

pub(crate) const WIDE: u8 = 4;

/// What a mount has cleaned after its recovery, and was cut in, has numbers of a recovery.
pub(crate) const TOLD: u8 = 8;

/// The checkpoint before, in the same leaf, says the same.
pub(crate) const REPEATED: u8 = 16;

const FLAGS: u8 = UNMOUNTED | CONFIRMED | WIDE | TOLD | REPEATED;

/// What a checkpoint page calls the root page of that round and index: 0 for none.
pub(crate) fn root_name(round: u32, index: u32) -> u16 {
    1 << 15 | (index as u16 & 7) << 8 | round as u16 & 0xff
}

/// The same place in a page, to read and to write. A field is named once.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident $set:ident $type:ident $get:ident $put:ident $at:literal;)*) => {
        impl CheckpointView<'_> {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self) -> $type {
                $get(self.fields, $at)
            })*
        }
        impl CheckpointMut<'_> {
            $(#[inline]
            pub fn $set(&mut self, v: $type) {
                $put(self.0, $at, v);
            })*
        }
    };
}

fields! {
    flags set_flags u8 get_u8 put_u8 32;
    /// How often the root blocks have been filled.
    round set_round u8 get_u8 put_u8 33;
    /// Root pages that are claimed.
    root_next set_root_next u8 get_u8 put_u8 34;
    /// Pages of the second-level block that are claimed.
    second_next set_second_next u8 get_u8 put_u8 35;
    /// The second-level block.
    second set_second u16 get_u16 put_u16 36;
    /// Number of the next file.
    next_ino set_next_ino u32 get_u32 put_u32 40;
    /// Pages in use.
    live set_live u32 get_u32 put_u32 44;
    /// Files without a name.
    orphans set_orphans u32 get_u32 put_u32 48;
    /// Block where the search for a free one goes on.
    cursor set_cursor u32 get_u32 put_u32 52;
    /// Number from which on a free directory number is looked for.
    next_dir set_next_dir u32 get_u32 put_u32 56;
    /// How many blocks are reserved.
    reserved set_reserved u8 get_u8 put_u8 100;
    /// Pages of the snapshot.
    snapshot_pages set_snapshot_pages u8 get_u8 put_u8 101;
    /// Entries of the dirty list.
    dirty_entries set_dirty_entries u16 get_u16 put_u16 102;
    /// The number of the checkpoint that this one repeats; 0: none.
    copy_of set_copy_of u64 get_u64 put_u64 104;
    /// The root page that counted when this was written.
    counting_root set_counting_root u16 get_u16 put_u16 114;
    /// Block where scrubbing goes on.
    scrub_block set_scrub_block u16 get_u16 put_u16 148;
    /// Entries of a page of the block table, if that lies on flash, else 0.
    per_page set_per_page u16 get_u16 put_u16 150;
}

const NEXT_LEAVES: [usize; 2] = [38, 112];
const HEADS_AT: usize = 60;
const BITMAP_BLOCKS_AT: usize = 84;
const DIR_COPIES: usize = 116;
const FAILING: usize = 124;
const LEVELLING: usize = 140;

const _: () = assert!(HEADS_AT + 4 * HEADS == BITMAP_BLOCKS_AT);
const _: () = assert!(BITMAP_BLOCKS_AT + 2 * BITMAP_BLOCKS == 100);
const _: () = assert!(FAILING + 2 * FAILING_BLOCKS == LEVELLING);

fn get_u8(b: &[u8; FIELDS], at: usize) -> u8 {
    b[at]
}

fn put_u8(b: &mut [u8; FIELDS], at: usize, v: u8) {
    b[at] = v;
}

/// A checkpoint page.
#[derive(Clone, Copy)]
pub(crate) struct CheckpointView<'a> {
    fields: &'a [u8; FIELDS],
    page: &'a [u8],
}

impl<'a> CheckpointView<'a> {
    /// Of a whole page; one too short for the fields is taken for zeros.
    pub fn on(page: &'a [u8]) -> Self {
        let fields = page.first_chunk().unwrap_or(&[0; FIELDS]);
        CheckpointView { fields, page }
    }

    /// The number of the checkpoint that this one repeats, or its own: pages with larger ones are
    /// changes since.
    pub fn since(&self) -> u64 {
        // What it is a copy of is older.
        match self.copy_of() {
            seq if (1..self.seq()).contains(&seq) => seq,
            _ => self.seq(),
        }
    }

    fn seq(&self) -> u64 {
        get_u64(self.fields, SEQ)
    }

    /// Whether it repeats an older checkpoint, from which a recovery began.
    pub fn is_copy(&self) -> bool {
        self.since() != self.seq()
    }

    /// Whether the flags agree: there are no others, and only an unmount is confirmed.
    pub fn flags_agree(&self) -> bool {
        self.flags() & !FLAGS == 0 && (!self.has(CONFIRMED) || self.has(UNMOUNTED))
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    /// The blocks that follow when the leaf is full; all ones: none.
    pub fn next_leaves(&self) -> [u32; 2] {
        NEXT_LEAVES.map(|at| block_number(get_u16(self.fields, at)))
    }

    /// The block that a log area fills.
    pub fn head(&self, area: usize) -> Head {
        Head {
            block: block_number(get_u16(self.fields, HEADS_AT + 4 * area)),
            next: u32::from(get_u16(self.fields, HEADS_AT + 4 * area + 2)),
        }
    }

    /// Blocks of the allocation log.
    pub fn bitmap_blocks(&self) -> impl Iterator<Item = u16> + use<'a> {
        let fields = self.fields;
        let blocks = (0..BITMAP_BLOCKS).map(|i| get_u16(fields, BITMAP_BLOCKS_AT + 2 * i));
        blocks.filter(|&block| block != u16::MAX)
    }

    /// Copies of the DirInodes of the root and of the index directory.
    pub fn dir_copies(&self) -> [PageAddr; 2] {
        [0, 4].map(|i| PageAddr(get_u32(self.fields, DIR_COPIES + i)))
    }

    /// A block whose program has failed; all ones: none.
    pub fn failing(&self, i: usize) -> u16 {
        get_u16(self.fields, FAILING + 2 * i)
    }

    /// Wear levelling: next block, last place, moves, erases.
    pub fn levelling(&self) -> [u32; 4] {
        [0, 2, 4, 6].map(|i| u32::from(get_u16(self.fields, LEVELLING + i)))
    }

    /// Whether the lists of reserved blocks and of snapshot pages are within their bounds.
    pub fn lists_fit(&self) -> bool {
        usize::from(self.reserved()) <= RESERVES
            && usize::from(self.snapshot_pages()) <= SNAPSHOT_PAGES
            && self.table_at() <= self.page.len()
    }

    /// A reserved block and its area.
    pub fn reserve(&self, i: usize) -> (u16, u8) {
        let v = get_u32(self.page, FIELDS + 4 * i);
        (v as u16, (v >> 16) as u8)
    }

    /// A page of the snapshot.
    pub fn snapshot_page(&self, i: usize) -> PageAddr {
        PageAddr(get_u32(self.page, self.snapshot_at() + 4 * i))
    }

    fn snapshot_at(&self) -> usize {
        FIELDS + 4 * usize::from(self.reserved())
    }

    /// Where the block table's fields begin, or the dirty list if the table is not on flash.
    pub fn table_at(&self) -> usize {
        self.snapshot_at() + 4 * usize::from(self.snapshot_pages())
    }
}

/// The fields of a checkpoint page that is being put together.
pub(crate) struct CheckpointMut<'a>(&'a mut [u8; FIELDS]);

impl<'a> CheckpointMut<'a> {
    /// `None`: the page is too short for them.
    pub fn on(page: &'a mut [u8]) -> Option<Self> {
        page.first_chunk_mut().map(CheckpointMut)
    }

    pub fn set_next_leaves(&mut self, leaves: [u32; 2]) {
        for (at, leaf) in NEXT_LEAVES.into_iter().zip(leaves) {
            put_u16(self.0, at, leaf as u16);
        }
    }

    pub fn set_head(&mut self, area: usize, head: Head) {
        put_u16(self.0, HEADS_AT + 4 * area, head.block as u16);
        put_u16(self.0, HEADS_AT + 4 * area + 2, head.next as u16);
    }

    /// All ones: none.
    pub fn set_bitmap_block(&mut self, i: usize, block: u16) {
        put_u16(self.0, BITMAP_BLOCKS_AT + 2 * i, block);
    }

    pub fn set_dir_copies(&mut self, copies: [PageAddr; 2]) {
        for (i, copy) in copies.into_iter().enumerate() {
            put_u32(self.0, DIR_COPIES + 4 * i, copy.0);
        }
    }

    pub fn set_failing(&mut self, i: usize, block: u16) {
        put_u16(self.0, FAILING + 2 * i, block);
    }

    pub fn set_levelling(&mut self, fields: [u32; 4]) {
        for (i, v) in fields.into_iter().enumerate() {
            put_u16(self.0, LEVELLING + 2 * i, v.min(0xffff) as u16);
        }
    }
}

/// Puts the lists of reserved blocks and of snapshot pages behind the fields; where they end.
pub(crate) fn put_lists(page: &mut [u8], reserves: &[(u16, u8)], snapshot: &[u32]) -> usize {
    let mut at = FIELDS;
    for &(block, area) in reserves {
        put_u32(page, at, u32::from(block) | u32::from(area) << 16);
        at += 4;
    }
    for &place in snapshot {
        put_u32(page, at, place);
        at += 4;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with another value in each field.
    fn filled() -> ([u8; 512], usize) {
        let mut page = [0u8; 512];
        let mut fields = CheckpointMut::on(&mut page).unwrap();
        fields.set_flags(0x81);
        fields.set_round(0x82);
        fields.set_root_next(0x83);
        fields.set_second_next(0x84);
        fields.set_second(0x0102);
        fields.set_next_leaves([0x0304, 0x0506]);
        fields.set_next_ino(0x0708_090a);
        fields.set_live(0x0b0c_0d0e);
        fields.set_orphans(0x1112_1314);
        fields.set_cursor(0x1516_1718);
        fields.set_next_dir(0x191a_1b1c);
        for area in 0..HEADS {
            let (block, next) = (0x2000 + area as u32, 0x2100 + area as u32);
            fields.set_head(area, Head { block, next });
        }
        for i in 0..BITMAP_BLOCKS {
            fields.set_bitmap_block(i, 0x2200 + i as u16);
        }
        fields.set_reserved(2);
        fields.set_snapshot_pages(1);
        fields.set_dirty_entries(0x2324);
        fields.set_copy_of(0x3132_3334_3536_3738);
        fields.set_counting_root(0x4142);
        fields.set_dir_copies([PageAddr(0x4344_4546), PageAddr(0x4748_494a)]);
        for i in 0..FAILING_BLOCKS {
            fields.set_failing(i, 0x5000 + i as u16);
        }
        fields.set_levelling([0x5152, 0x5354, 0x5556, 0x1_0000]);
        fields.set_scrub_block(0x5758);
        fields.set_per_page(0x595a);
        let end = put_lists(&mut page, &[(0x6162, 7), (0x6364, 1)], &[0x6566_6768]);

        (page, end)
    }

    /// Another place for a field, or two fields in one place, and no older volume is mounted.
    #[test]
    fn every_field_is_where_the_format_says() {
        let (page, end) = filled();
        let u16_at = |at| get_u16(&page, at);
        let u32_at = |at| get_u32(&page, at);
        assert_eq!(page[32..36], [0x81, 0x82, 0x83, 0x84]);
        assert_eq!([36, 38, 112].map(u16_at), [0x0102, 0x0304, 0x0506]);
        assert_eq!(
            [40, 44, 48, 52, 56].map(u32_at),
            [
                0x0708_090a,
                0x0b0c_0d0e,
                0x1112_1314,
                0x1516_1718,
                0x191a_1b1c
            ]
        );
        assert_eq!(
            [60, 62, 80, 82].map(u16_at),
            [0x2000, 0x2100, 0x2005, 0x2105]
        );
        assert_eq!([84, 98].map(u16_at), [0x2200, 0x2207]);
        assert_eq!((page[100], page[101], u16_at(102)), (2, 1, 0x2324));
        assert_eq!(get_u64(&page, 104), 0x3132_3334_3536_3738);
        assert_eq!(u16_at(114), 0x4142);
        assert_eq!([116, 120].map(u32_at), [0x4344_4546, 0x4748_494a]);
        assert_eq!([124, 138].map(u16_at), [0x5000, 0x5007]);
        assert_eq!(
            [140, 142, 144, 146].map(u16_at),
            [0x5152, 0x5354, 0x5556, 0xffff]
        );
        assert_eq!([148, 150].map(u16_at), [0x5758, 0x595a]);
        assert_eq!(
            [152, 156, 160].map(u32_at),
            [0x07_6162, 0x01_6364, 0x6566_6768]
        );
        assert_eq!(end, 164);
    }

    /// A mount reads what a checkpoint has written.
    #[test]
    fn what_was_written_is_read_back() {
        let (page, end) = filled();
        let view = CheckpointView::on(&page);
        assert_eq!(view.table_at(), end);
        assert_eq!(view.reserve(1), (0x6364, 1));
        assert_eq!(view.snapshot_page(0), PageAddr(0x6566_6768));
        assert_eq!(view.next_leaves(), [0x0304, 0x0506]);
        let head = Head {
            block: 0x2003,
            next: 0x2103,
        };
        assert_eq!(view.head(3), head);
        assert_eq!(view.levelling(), [0x5152, 0x5354, 0x5556, 0xffff]);
        assert!(view.bitmap_blocks().eq(0x2200..0x2208));
    }

    /// Lists longer than the page, or than there is room for in RAM, are none.
    #[test]
    fn lists_beyond_the_page_do_not_fit() {
        let mut page = [0u8; 256];
        let mut fields = CheckpointMut::on(&mut page).unwrap();
        fields.set_reserved(20);
        fields.set_snapshot_pages(6);
        assert!(CheckpointView::on(&page).lists_fit());
        CheckpointMut::on(&mut page).unwrap().set_snapshot_pages(7);
        assert!(!CheckpointView::on(&page).lists_fit());
        let mut page = [0u8; 2048];
        CheckpointMut::on(&mut page)
            .unwrap()
            .set_reserved(RESERVES as u8 + 1);
        assert!(!CheckpointView::on(&page).lists_fit());
    }

    /// Only what is older than the page itself can be what it repeats.
    #[test]
    fn a_checkpoint_repeats_an_older_one_or_none() {
        let mut page = [0u8; 256];
        put_u64(&mut page, SEQ, 9);
        for (of, since) in [(0, 9), (5, 5), (8, 8), (9, 9), (10, 9), (u64::MAX, 9)] {
            CheckpointMut::on(&mut page).unwrap().set_copy_of(of);
            let view = CheckpointView::on(&page);
            assert_eq!((view.since(), view.is_copy()), (since, since != 9));
        }
    }

    /// Only an unmount is confirmed, and there are no other flags.
    #[test]
    fn flags_that_contradict_each_other_do_not_agree() {
        let agrees = |flags| {
            let mut page = [0u8; 256];
            CheckpointMut::on(&mut page).unwrap().set_flags(flags);
            CheckpointView::on(&page).flags_agree()
        };
        assert!(agrees(0) && agrees(UNMOUNTED | CONFIRMED) && agrees(WIDE | TOLD | REPEATED));
        assert!(!agrees(CONFIRMED) && !agrees(32) && !agrees(128));
    }
}

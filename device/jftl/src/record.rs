//! The pages of the log and the anchors, as bytes.
//!
//! ```text
//! log page:  | magic | crc | volume | seq | ordinal | kind flags count | redo | snap | part |
//!            | cursor | wear | anchor |  8 bytes a record ...
//! record:    | number 0..27, run - 1 28..31 | page |
//! anchor:    | magic | crc | volume | seq | page size | pages | blocks | sectors | ordinal |
//!            | count | block for anchors, three times |  block 0..30, ahead 31 ...
//! ```
//!
//! All words are 32 bits, little-endian. The CRC-32C is of all that follows
//! it, as far as it is in use.
//!
//! * `seq` grows by one with every page of the log. A page that repeats the number of
//!   the one before replaces it.
//! * `ordinal` counts the blocks of the log, so that a page of a block's
//!   earlier life is not believed.
//! * `anchor` is the name of the anchor that was the newest one when the page was programmed: in
//!   the upper half its `seq`, in the lower its CRC, 16 bits of each; 0 in what older programs
//!   have written. So an anchor that a page names is complete, and only such an anchor counts. A
//!   block is *ahead* when no page of the log was in it as the anchor was written: only pages that
//!   name this anchor count there.
//! * `redo`: the first page of the log whose records may not be in the map pages yet; `snap`: the
//!   first of the newest whole snapshot.
//! * A record says that `run` sectors from `number` on are in the pages from `page` on; all ones:
//!   nowhere. Where the 4 bits above the page's number are not 0, they are in its slots from that
//!   one on (`packed.rs`). Numbers from the count of sectors on are map pages.

use flashkit_bytes::{crc32c, get_u32, put_u32};

use crate::layout::{ANCHOR_HEADER, ANCHORS, HEADER, Layout, NONE, PAGE_BITS, SLOTS, slot_of};

const MAGIC: u32 = u32::from_le_bytes(*b"JFT1");
const ANCHOR_MAGIC: u32 = u32::from_le_bytes(*b"JFTA");
/// Numbers of pages, of blocks in the life of the log and of anchors that are believed. A chip is
/// worn out long before.
const NUMBER_MAX: u32 = u32::MAX / 2;
/// Longest run of a record.
pub(crate) const RUN_MAX: u32 = 16;
/// Bytes of a record.
pub(crate) const RECORD: usize = 8;

/// What a log page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records.
    Records = 1,
    /// Part of the places of map pages.
    Places = 2,
    /// Part of the list of bad blocks, a bit each.
    Bad = 3,
    /// Part of the block table; only before [`Kind::Clean`].
    Table = 4,
    /// An orderly end; holds the heads.
    Clean = 5,
}

/// The page is within a transaction and does not end it; `part` is its first page's number.
pub(crate) const OPEN: u8 = 1;
/// The second of two equal pages: the first is complete.
pub(crate) const SECOND: u8 = 2;

/// A log page's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub seq: u32,
    pub ordinal: u32,
    pub kind: Kind,
    pub flags: u8,
    /// Bytes behind the header.
    pub len: usize,
    pub redo: u32,
    pub snap: u32,
    pub part: u32,
    pub cursor: u32,
    pub wear: u32,
    /// The name of the newest anchor when it was programmed.
    pub anchor: u32,
}

impl Header {
    /// Puts the header before what is behind it, and seals both.
    pub fn seal(&self, volume: u32, page: &mut [u8]) {
        put_u32(page, 0, MAGIC);
        put_u32(page, 8, volume);
        put_u32(page, 12, self.seq);
        put_u32(page, 16, self.ordinal);
        let kind = self.kind as u32 | u32::from(self.flags) << 8 | (self.len as u32) << 16;
        let rest = [
            kind,
            self.redo,
            self.snap,
            self.part,
            self.cursor,
            self.wear,
            self.anchor,
        ];
        for (i, word) in rest.into_iter().enumerate() {
            put_u32(page, 20 + 4 * i, word);
        }
        let crc = crc32c(&page[8..HEADER + self.len]);
        put_u32(page, 4, crc);
    }

    /// Whether a page of the log of this volume begins so: with 12 bytes.
    pub fn is_of(volume: u32, start: &[u8]) -> bool {
        get_u32(start, 0) == MAGIC && get_u32(start, 8) == volume
    }

    /// Reads a page of the log of this volume.
    pub fn parse(volume: u32, page: &[u8]) -> Option<Header> {
        let word = |at| get_u32(page, at);
        let kind = word(20);
        let len = (kind >> 16) as usize;
        if !Self::is_of(volume, page) || HEADER + len > page.len() {
            return None;
        }
        if word(4) != crc32c(&page[8..HEADER + len]) {
            return None;
        }
        let (seq, redo, snap) = (word(12), word(24), word(28));
        // Whoever wrote such words: no later number follows from them.
        if seq > NUMBER_MAX || word(16) > NUMBER_MAX || redo > seq + 1 || snap > seq {
            return None;
        }
        Some(Header {
            seq,
            ordinal: word(16),
            kind: match kind & 0xFF {
                1 => Kind::Records,
                2 => Kind::Places,
                3 => Kind::Bad,
                4 => Kind::Table,
                5 => Kind::Clean,
                _ => return None,
            },
            flags: (kind >> 8) as u8,
            len,
            redo,
            snap,
            part: word(32),
            cursor: word(36),
            wear: word(40),
            anchor: word(44),
        })
    }
}

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub number: u32,
    pub run: u32,
    pub page: u32,
}

impl Record {
    pub fn put(&self, bytes: &mut [u8], at: usize) {
        put_u32(bytes, at, self.number | (self.run - 1) << 28);
        put_u32(bytes, at + 4, self.page);
    }

    /// The `i`-th record of a log page.
    pub fn waiting(page: &[u8], i: usize) -> Record {
        Record::get(page, HEADER + i * RECORD)
    }

    pub fn put_waiting(&self, page: &mut [u8], i: usize) {
        self.put(page, HEADER + i * RECORD);
    }

    pub fn get(bytes: &[u8], at: usize) -> Record {
        let word = get_u32(bytes, at);
        Record {
            number: word & 0x0FFF_FFFF,
            run: (word >> 28) + 1,
            page: get_u32(bytes, at + 4),
        }
    }

    /// Whether it names what there is.
    pub fn is_sound(&self, lay: &Layout) -> bool {
        let end = self.number + self.run;
        let slot = slot_of(self.page);
        let known = end <= lay.sectors
            || (self.number >= lay.sectors
                && end <= lay.sectors + lay.map_pages
                && (slot == 0 || self.page == NONE));
        let fits = slot == 0 || slot + self.run - 1 <= SLOTS;
        let last = self.page_at(self.run - 1);
        known && (self.page == NONE || fits && lay.contains(self.page) && lay.contains(last))
    }

    /// The `i`-th place of the run.
    pub fn page_at(&self, i: u32) -> u32 {
        match self.page {
            NONE => NONE,
            page if slot_of(page) == 0 => page + i,
            place => place.wrapping_add(i << PAGE_BITS),
        }
    }
}

/// What an anchor says, its list of blocks aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub volume: u32,
    pub seq: u32,
    /// Number of the list's first block in the life of the log.
    pub ordinal: u32,
    pub count: u32,
    /// The blocks that take anchors: [`FIRST_BLOCKS`], or three others and [`NONE`].
    pub set: [u32; 4],
}

/// In an anchor's list: no page was in the block when the anchor was written.
pub(crate) const AHEAD: u32 = 1 << 31;

/// The chip's first blocks take anchors as long as enough of them are good.
pub(crate) const FIRST_BLOCKS: [u32; 4] = [0, 1, 2, 3];

impl Anchor {
    /// Seals an anchor whose list is in place; returns its length.
    pub fn seal(&self, lay: &Layout, page: &mut [u8]) -> usize {
        let shape = [lay.page as u32, lay.pages, lay.blocks, lay.sectors];
        put_u32(page, 0, ANCHOR_MAGIC);
        put_u32(page, 8, self.volume);
        put_u32(page, 12, self.seq);
        for (i, word) in shape.into_iter().enumerate() {
            put_u32(page, 16 + 4 * i, word);
        }
        put_u32(page, 32, self.ordinal);
        put_u32(page, 36, self.count);
        page[40..ANCHOR_HEADER].fill(0);
        if self.set != FIRST_BLOCKS {
            for (i, block) in self.set[..3].iter().enumerate() {
                put_u32(page, 40 + 4 * i, *block);
            }
        }
        let len = ANCHOR_HEADER + 4 * self.count as usize;
        let crc = crc32c(&page[8..len]);
        put_u32(page, 4, crc);
        len
    }

    /// Reads an anchor, and whether it is of a disk of this shape.
    pub fn parse(lay: &Layout, page: &[u8]) -> Option<(Anchor, bool)> {
        let count = get_u32(page, 36);
        let len = ANCHOR_HEADER + 4 * count as usize;
        if get_u32(page, 0) != ANCHOR_MAGIC || count > lay.log_list().max(256) || len > page.len() {
            return None;
        }
        if get_u32(page, 4) != crc32c(&page[8..len]) {
            return None;
        }
        let shape = [lay.page as u32, lay.pages, lay.blocks, lay.sectors];
        let same = (0..4).all(|i| get_u32(page, 16 + 4 * i) == shape[i]);
        let named = [40, 44, 48].map(|at| get_u32(page, at));
        let [a, b, c] = named;
        let is_first = named == [0; 3];
        let others = named
            .iter()
            .all(|block| (ANCHORS..lay.blocks).contains(block));
        let are_three = others && a != b && b != c && c != a;
        let anchor = Anchor {
            volume: get_u32(page, 8),
            seq: get_u32(page, 12),
            ordinal: get_u32(page, 32),
            count,
            set: if is_first {
                FIRST_BLOCKS
            } else {
                [a, b, c, NONE]
            },
        };
        let fits = count > 0 && count <= lay.log_list() && (is_first || are_three);
        let fits = fits && anchor.seq <= NUMBER_MAX && anchor.ordinal <= NUMBER_MAX;
        Some((anchor, same && fits))
    }

    /// The `i`-th block of the list, and whether it was ahead.
    pub fn block(page: &[u8], i: u32) -> (u32, bool) {
        let entry = get_u32(page, ANCHOR_HEADER + 4 * i as usize);
        (entry & !AHEAD, entry & AHEAD != 0)
    }

    /// By what pages of the log name a sealed anchor; never 0.
    pub fn name(page: &[u8]) -> u32 {
        (get_u32(page, 12) << 16 | get_u32(page, 4) & 0xFFFF).max(1)
    }

    /// How far the number of an anchor that is named is above another number; 0: it is not.
    pub fn number_above(name: u32, seq: u32) -> u32 {
        let above = (name >> 16).wrapping_sub(seq) & 0xFFFF;
        if above < 0x8000 { above } else { 0 }
    }

    /// Whether of two names the first is that of an older anchor. 0 is none: pages of programs that
    /// wrote no names have it.
    pub fn is_older(name: u32, other: u32) -> bool {
        name != 0 && other != 0 && Self::number_above(other, name >> 16) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: u32 = 77;
    const PLACES: Header = Header {
        seq: 9,
        ordinal: 2,
        kind: Kind::Places,
        flags: OPEN | SECOND,
        len: 40,
        redo: 3,
        snap: 4,
        part: 5,
        cursor: 6,
        wear: 7,
        anchor: 8,
    };

    fn layout() -> Layout {
        Layout::new(&flashkit_nand::Geometry::new(512, 8, 16, 96).unwrap()).unwrap()
    }

    #[test]
    fn no_changed_bit_of_a_log_page_is_believed() {
        let mut page = [0x5A; 512];
        PLACES.seal(VOLUME, &mut page);
        assert_eq!(Header::parse(VOLUME, &page), Some(PLACES));
        assert_eq!(Header::parse(VOLUME + 1, &page), None, "of another volume");
        for bit in 0..8 * (HEADER + PLACES.len) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(VOLUME, &page), None, "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        page[HEADER + PLACES.len] ^= 1;
        assert_eq!(
            Header::parse(VOLUME, &page),
            Some(PLACES),
            "behind what is in use"
        );
    }

    #[test]
    fn a_log_page_longer_than_its_page_and_of_no_kind_is_refused() {
        let mut page = [0x5A; 512];
        let most = Header {
            len: 512 - HEADER,
            ..PLACES
        };
        most.seal(VOLUME, &mut page);
        assert_eq!(Header::parse(VOLUME, &page), Some(most));
        assert_eq!(Header::parse(VOLUME, &page[..511]), None);
        for kind in [0, 6, 0xFF] {
            page[20] = kind;
            let crc = crc32c(&page[8..]);
            put_u32(&mut page, 4, crc);
            assert_eq!(Header::parse(VOLUME, &page), None, "{kind}");
        }
    }

    #[test]
    fn the_longest_run_and_the_largest_number_come_back() {
        for (run, page) in [(1, 0), (RUN_MAX, NONE), (RUN_MAX, 9)] {
            let record = Record {
                number: 0x0FFF_FFFF,
                run,
                page,
            };
            let mut bytes = [0; RECORD];
            record.put(&mut bytes, 0);
            assert_eq!(Record::get(&bytes, 0), record);
        }
    }

    #[test]
    fn a_record_beyond_the_disk_or_the_chip_is_refused() {
        let lay = layout();
        let pages = lay.blocks * lay.pages;
        let sound = |number, run, page| Record { number, run, page }.is_sound(&lay);
        assert!(sound(lay.sectors - 2, 2, pages - 2));
        assert!(!sound(lay.sectors - 2, 2, pages - 1), "behind the chip");
        assert!(!sound(lay.sectors - 1, 2, 0), "a sector and a map page");
        let (first, maps) = (lay.sectors, lay.map_pages);
        assert!(sound(first, maps, 0) && !sound(first, maps + 1, 0));
        assert!(sound(0, 2, NONE) && sound(first, 1, NONE));
        // Sectors may be in slots, map pages may not.
        let slot = |slot| 5 | slot << PAGE_BITS;
        assert!(sound(0, 2, slot(SLOTS - 1)) && !sound(0, 3, slot(SLOTS - 1)));
        assert!(!sound(first, 1, slot(1)));
    }

    #[test]
    fn a_run_goes_on_by_pages_or_by_slots() {
        let at = |page, i| {
            let (number, run) = (0, 3);
            Record { number, run, page }.page_at(i)
        };
        assert_eq!((at(7, 2), at(NONE, 2)), (9, NONE));
        assert_eq!(at(7 | 1 << PAGE_BITS, 2), 7 | 3 << PAGE_BITS);
    }

    #[test]
    fn an_anchor_of_another_shape_is_told_from_a_damaged_one() {
        let (lay, mut page) = (layout(), [0; 512]);
        let anchor = Anchor {
            volume: VOLUME,
            seq: 8,
            ordinal: 9,
            count: 2,
            set: FIRST_BLOCKS,
        };
        put_u32(&mut page, ANCHOR_HEADER, 32);
        put_u32(&mut page, ANCHOR_HEADER + 4, 33 | AHEAD);
        let len = anchor.seal(&lay, &mut page);
        assert_eq!(len, ANCHOR_HEADER + 8);
        assert_eq!(Anchor::block(&page, 0), (32, false));
        assert_eq!(Anchor::block(&page, 1), (33, true));
        assert_eq!(Anchor::parse(&lay, &page), Some((anchor, true)));
        let other = Layout {
            sectors: lay.sectors - 8,
            ..lay
        };
        assert_eq!(Anchor::parse(&other, &page), Some((anchor, false)));
        for bit in 0..8 * len {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Anchor::parse(&lay, &page), None, "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        for (set, fits) in [
            ([33, 95, 4, NONE], true),
            ([33, 95, 3, NONE], false),
            ([33, 96, 4, NONE], false),
            ([33, 33, 4, NONE], false),
        ] {
            let moved = Anchor { set, ..anchor };
            moved.seal(&lay, &mut page);
            assert_eq!(Anchor::parse(&lay, &page), Some((moved, fits)), "{set:?}");
        }
        let empty = Anchor { count: 0, ..anchor };
        empty.seal(&lay, &mut page);
        assert_eq!(
            Anchor::parse(&lay, &page),
            Some((empty, false)),
            "a log has a block"
        );
    }
}

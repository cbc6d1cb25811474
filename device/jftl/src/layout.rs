//! What a geometry makes of a disk: sizes that never change, all derived from the chip.

use flashkit_nand::Geometry;

/// Bytes of a piece of the map that is cached as one.
pub(crate) const SEGMENT: usize = 512;
/// Entries of a segment.
pub(crate) const PER_SEGMENT: u32 = (SEGMENT / 4) as u32;
/// The first blocks of the chip, which hold the anchors.
pub(crate) const ANCHORS: u32 = 4;
/// Spare bytes that a tag needs: two owners.
pub(crate) const TAG: usize = 8;
/// Bytes of the header of a log page.
pub(crate) const HEADER: usize = 48;
/// Bytes of the header of an anchor.
pub(crate) const ANCHOR_HEADER: usize = 52;
/// Blocks written at the same time: the host's, what cleaning moves, the map, data at rest.
pub(crate) const HEADS: u32 = 4;
/// Numbers of sectors and map pages have so many bits in the log, and numbers of pages in the map.
pub(crate) const PAGE_BITS: u32 = 28;
/// No page, no owner.
pub(crate) const NONE: u32 = u32::MAX;
/// Most slots; 15 is in places that are none.
pub(crate) const SLOTS: u32 = 14;
/// Some numbers stand for no page.
const NUMBERS: u32 = (1 << PAGE_BITS) - 32;

/// The place of a slot: the page's number, and above it the slot's.
pub(crate) fn place_of(page: u32, slot: u32) -> u32 {
    page | slot << PAGE_BITS
}

/// The page of a place.
pub(crate) fn page_of(place: u32) -> u32 {
    place & ((1 << PAGE_BITS) - 1)
}

/// The slot of a place; 0: the page is the sector.
pub(crate) fn slot_of(place: u32) -> u32 {
    place >> PAGE_BITS
}

/// Sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub page: usize,
    /// Pages of a block.
    pub pages: u32,
    /// Pages of a block that hold data: all, or one fewer where that holds the tags.
    pub usable: u32,
    pub blocks: u32,
    /// No spare bytes for tags.
    pub in_band: bool,
    pub sectors: u32,
    /// Segments of a map page.
    pub per_page: u32,
    pub segments: u32,
    pub map_pages: u32,
    /// Blocks that the log may need at once.
    pub log_max: u32,
    /// Blocks that are set aside for it beyond its end.
    pub log_ahead: u32,
    /// Cleaning begins below so many free blocks.
    pub low: u32,
}

impl Layout {
    pub const fn new(g: &Geometry) -> Result<Layout, &'static str> {
        let (page, pages, blocks) = (g.page_size() as usize, g.pages_per_block(), g.blocks());
        if blocks < 40 {
            return Err("fewer than 40 blocks");
        }
        if g.pages() >= NUMBERS {
            return Err("2^28 - 32 pages or more");
        }
        let in_band = (g.spare_size() as usize) < TAG;
        if in_band && pages as usize * TAG > page {
            return Err("blocks of that many pages need 8 spare bytes a page");
        }
        let usable = if in_band { pages - 1 } else { pages };
        let longest = (page - ANCHOR_HEADER) as u32 / 4;
        let log_max = clamp(blocks / 256, 4, 64);
        let log_ahead = clamp(log_max / 4, 2, 8);
        if longest < log_max + 3 * log_ahead {
            return Err("pages too small for the anchor");
        }
        let low = clamp(blocks / 64, 12, 24);
        let apart = ANCHORS + log_max + 3 * log_ahead + HEADS + low;
        // What the chip may lose is one block in fifty.
        let data = data_pages(blocks - apart - blocks / 50, usable) as u64;
        let entries = page as u64 / 4;
        let fits = data * entries / (entries + 1);
        let wanted = (g.pages() as u64 * usable as u64).div_ceil(pages as u64) * 93 / 100 + 8;
        let sectors = (if fits < wanted { fits } else { wanted }) / 8 * 8;
        let per_page = (page / SEGMENT) as u32;
        let map_pages = (sectors as u32).div_ceil(per_page * PER_SEGMENT);
        Ok(Layout {
            page,
            pages,
            usable,
            blocks,
            in_band,
            sectors: sectors as u32,
            per_page,
            segments: map_pages * per_page,
            map_pages,
            log_max,
            log_ahead,
            low,
        })
    }

    /// Whether there is room for all sectors on a chip with so many bad blocks.
    pub fn bears(&self, bad: u32) -> bool {
        let apart = ANCHORS + self.log_list() + HEADS + self.low;
        let good = self.blocks.saturating_sub(apart + bad);
        data_pages(good, self.usable) >= self.sectors + self.map_pages
    }

    /// Blocks that an anchor lists at most.
    pub fn log_list(&self) -> u32 {
        self.log_max + 3 * self.log_ahead
    }

    /// Pages of the log that a recovery may have to read, as the disk plans it.
    pub fn window(&self) -> u32 {
        (self.log_max - 2) * self.pages
    }

    /// Bytes of a block's record: it counts to two owners a page.
    pub const fn table_width(&self) -> usize {
        if 2 * self.pages < 0xF0 { 1 } else { 2 }
    }

    /// The block of a page, or of a place.
    pub fn block_of(&self, place: u32) -> u32 {
        page_of(place) / self.pages
    }

    /// The spare bytes of a page with a tag.
    pub fn spare<'t>(&self, tag: &'t [u8; TAG]) -> &'t [u8] {
        if self.in_band { &[] } else { tag }
    }

    /// The number of a page within its block.
    pub fn index_of(&self, page: u32) -> usize {
        (page % self.pages) as usize
    }

    /// The page of a block that holds the tags of the others, where they are in band.
    pub fn tag_page(&self, block: u32) -> u32 {
        block * self.pages + self.pages - 1
    }

    /// Whether a place is on the chip.
    pub fn contains(&self, place: u32) -> bool {
        slot_of(place) <= SLOTS && self.is_page(page_of(place))
    }

    /// Whether this is the number of a page.
    pub fn is_page(&self, page: u32) -> bool {
        page < self.blocks * self.pages
    }
}

/// Pages for data in so many blocks. One in a hundred and a block's besides are garbage that there
/// always is.
const fn data_pages(blocks: u32, usable: u32) -> u32 {
    let pages = blocks * usable;
    (pages - pages / 100).saturating_sub(usable)
}

const fn clamp(x: u32, low: u32, high: u32) -> u32 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(page: u32, spare: u32, pages: u32, blocks: u32) -> Result<Layout, &'static str> {
        Layout::new(&Geometry::new(page, spare, pages, blocks).unwrap())
    }

    #[test]
    fn a_chip_on_which_no_disk_works_is_refused() {
        assert!(layout(512, 8, 16, 40).is_ok());
        assert_eq!(layout(512, 8, 16, 39), Err("fewer than 40 blocks"));
        let tags = "blocks of that many pages need 8 spare bytes a page";
        assert_eq!(layout(512, 7, 128, 96), Err(tags));
        assert!(layout(512, 7, 64, 96).is_ok() && layout(512, 8, 128, 96).is_ok());
        let pages = "2^28 - 32 pages or more";
        assert_eq!(layout(16_384, 64, 1024, 1 << 18), Err(pages));
    }

    /// A disk that promises more than its chip has could be written until nothing can be cleaned.
    #[test]
    fn no_disk_is_larger_than_what_is_left_for_data() {
        for (page, pages) in [(512, 16), (2048, 64), (4096, 128)] {
            for blocks in [40, 64, 96, 1000, 4096] {
                for spare in [0, 8] {
                    let Ok(lay) = layout(page, spare, pages, blocks) else {
                        continue;
                    };
                    let apart = ANCHORS + lay.log_list() + HEADS + lay.low + blocks / 50;
                    let data = (blocks - apart) * lay.usable;
                    assert!(lay.sectors > 0 && lay.sectors % 8 == 0, "{lay:?}");
                    assert!(lay.sectors + lay.map_pages < data, "{lay:?}");
                    let mapped = lay.map_pages * lay.per_page * PER_SEGMENT;
                    assert!(mapped >= lay.sectors, "{lay:?}");
                    assert!(
                        4 * lay.log_list() as usize <= lay.page - ANCHOR_HEADER,
                        "{lay:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_page_and_slots_beyond_the_last_are_nowhere() {
        let lay = layout(512, 8, 16, 96).unwrap();
        let last = 96 * 16 - 1;
        assert!(lay.contains(last) && lay.contains(place_of(last, SLOTS)));
        assert!(!lay.contains(last + 1) && !lay.contains(place_of(last + 1, 1)));
        assert!(!lay.contains(place_of(0, SLOTS + 1)) && !lay.contains(NONE));
        let place = place_of(last, 9);
        assert_eq!(
            (page_of(place), slot_of(place), lay.block_of(place)),
            (last, 9, 95)
        );
    }
}

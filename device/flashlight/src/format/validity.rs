//! A page that says which pages of some blocks are valid.

use crate::format::header::HEADER;
use crate::format::wellformed::blocks;
use flashkit_bytes::get_u32;
use flashkit_nand::Geometry;

/// Bytes of a block's bits, one for each page.
pub(crate) const fn entry_bits(pages_per_block: u32) -> usize {
    pages_per_block.div_ceil(8) as usize
}

/// Ranges at most: a chip that would need more has too few entries for each to be worth a page.
/// With default choices chips of pages below 4 KiB have their block table on flash before.
pub(crate) const RANGES: usize = 16;

/// Where the bits begin.
pub(crate) const BITS: usize = HEADER + 4;

/// Places on the list that are free before a change.
pub(crate) const ROOM: usize = 32;

/// Entries that are worth a page.
pub(crate) const WORTH: usize = 4;

/// Blocks of a range.
pub(crate) const fn per_range(geo: &Geometry) -> u32 {
    ((geo.page_size() as usize - BITS) / entry_bits(geo.pages_per_block())) as u32
}

/// Bytes of RAM for a chip, of those that the list has: a bit a block. None
/// for one of too many blocks.
pub(crate) const fn room(geo: &Geometry, list: usize) -> usize {
    let room = blocks(geo).div_ceil(8) as usize;
    if blocks(geo).div_ceil(per_range(geo)) as usize > RANGES || room > list / 4 {
        return 0;
    }
    room
}

/// Whether a page that is in use up to `used` is one of a range of a chip.
pub(crate) fn is_well_formed(geo: &Geometry, page: &[u8], used: usize) -> bool {
    let first = get_u32(page, HEADER);
    used >= BITS
        && first.is_multiple_of(per_range(geo))
        && first < blocks(geo)
        && used == len(geo, first)
}

/// Bytes of the page of the range from a block on.
pub(crate) fn len(geo: &Geometry, first: u32) -> usize {
    let count = per_range(geo).min(blocks(geo) - first) as usize;
    BITS + count * entry_bits(geo.pages_per_block())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_no_range_of_the_chip_is_refused() {
        let geo = Geometry::new(2048, 64, 64, 100).unwrap();
        let of = |first: u32, used: usize| {
            let mut page = [0u8; 2048];
            page[HEADER..HEADER + 4].copy_from_slice(&first.to_le_bytes());
            is_well_formed(&geo, &page, used)
        };
        let (range, whole) = (per_range(&geo), len(&geo, 0));
        assert!(of(0, whole) && whole <= 2048);
        assert!(!of(0, whole - 1) && !of(0, whole + 1) && !of(0, BITS - 1));
        assert!(!of(1, whole), "a range begins at a multiple of its blocks");
        assert!(!of(u32::MAX - u32::MAX % range, whole), "beyond the chip");
        let last = 99 - 99 % range;
        assert!(of(last, len(&geo, last)), "the last range is shorter");
        assert!(range >= 100 || len(&geo, last) < whole);
    }
}

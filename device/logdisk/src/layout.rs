//! Where things are on the chip.
//!
//! ```text
//! segment:  | header 64 | entry 8 x blocks | unused < sector + 8 | block | block | ... |
//! ```
//!
//! With segments of 256 KiB and sectors of 512 bytes there are 504 blocks and nothing is unused, as
//! in the paper's Table 3.

use crate::Shape;
use crate::entry::ENTRY_LEN;
use crate::header::{HEADER_LEN, Header};

/// Blocks that must be left beside the sectors and two segments, and that cuts may waste: each one
/// in the middle of a block wastes that block until its segment is erased. Segments of 224
/// blocks and more have a reserve as large, or larger.
pub(crate) const RESERVE: u32 = 16;

/// Sizes of a disk on its chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub segment_size: u32,
    pub segments: u32,
    pub banks: u32,
    pub sector_size: u32,
    pub sectors: u32,
    /// Blocks of a segment.
    pub blocks: u32,
}

impl Layout {
    /// The layout, or why there is none.
    pub const fn new(
        capacity: usize,
        segment_size: usize,
        banks: u32,
        shape: &Shape,
    ) -> Result<Layout, &'static str> {
        let size = shape.sector_size;
        if !size.is_power_of_two() || size < 512 || size > 65_536 {
            return Err("the sector size is not a power of two from 512 to 65,536");
        }
        if segment_size > 1 << 30 || capacity > u32::MAX as usize {
            return Err("the chip is larger than 4 GiB, or its segments than 1 GiB");
        }
        let segments = capacity / segment_size;
        if banks == 0 || segments == 0 || !segments.is_multiple_of(banks as usize) {
            return Err("the banks are not of equal whole segments");
        }
        if segments > 65_535 {
            return Err("the chip has more than 65,535 segments");
        }
        let blocks = (segment_size as u32).saturating_sub(HEADER_LEN) / (size + ENTRY_LEN);
        if blocks == 0 || blocks > 65_535 {
            return Err("a segment does not hold 1 to 65,535 blocks");
        }
        if shape.sectors == 0 || shape.sectors >= 1 << 24 {
            return Err("the disk does not have 1 to 16,777,215 sectors");
        }
        Ok(Layout {
            segment_size: segment_size as u32,
            segments: segments as u32,
            banks,
            sector_size: size,
            sectors: shape.sectors,
            blocks,
        })
    }

    /// The header of a segment.
    pub const fn header(&self, segment: u32, volume: u32, erases: u32) -> Header {
        Header {
            sector_size: self.sector_size,
            blocks: self.blocks,
            segment,
            segments: self.segments,
            banks: self.banks,
            sectors: self.sectors,
            volume,
            erases,
        }
    }

    pub const fn segments_per_bank(&self) -> u32 {
        self.segments / self.banks
    }

    pub const fn bank_of(&self, segment: u32) -> u32 {
        segment / self.segments_per_bank()
    }

    /// Blocks of the chip.
    pub const fn total_blocks(&self) -> u32 {
        self.segments * self.blocks
    }

    pub const fn segment_of(&self, block: u32) -> u32 {
        block / self.blocks
    }

    pub const fn segment_at(&self, segment: u32) -> u32 {
        segment * self.segment_size
    }

    /// Offset of a block's information entry.
    pub const fn entry_at(&self, block: u32) -> u32 {
        let index = block % self.blocks;
        self.segment_at(self.segment_of(block)) + HEADER_LEN + index * ENTRY_LEN
    }

    /// Offset of a block's data.
    pub const fn data_at(&self, block: u32) -> u32 {
        let after = self.blocks - block % self.blocks;
        self.segment_at(self.segment_of(block) + 1) - after * self.sector_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Shape = Shape {
        sector_size: 512,
        sectors: 30_000,
    };

    fn layout(capacity: usize, segment: usize, banks: u32, shape: Shape) -> Option<Layout> {
        Layout::new(capacity, segment, banks, &shape).ok()
    }

    /// Sizes of the paper's Table 3.
    #[test]
    fn the_papers_segments_are_full() {
        let lay = layout(16 << 20, 256 << 10, 8, PAPER).unwrap();
        assert_eq!(
            (lay.blocks, lay.segments, lay.segments_per_bank()),
            (504, 64, 8)
        );
        assert_eq!(lay.data_at(0), HEADER_LEN + 504 * ENTRY_LEN);
    }

    #[test]
    fn no_block_lies_over_another_or_over_an_entry() {
        for (segment, sector_size) in [(64 << 10, 512), (128 << 10, 4096), (256 << 10, 65_536)] {
            let shape = Shape {
                sector_size,
                ..PAPER
            };
            let lay = layout(4 * segment, segment, 2, shape).unwrap();
            for block in 0..lay.total_blocks() {
                let (first, end) = (
                    lay.segment_at(lay.segment_of(block)),
                    lay.segment_of(block) + 1,
                );
                let end = lay.segment_at(end);
                let (entry, data) = (lay.entry_at(block), lay.data_at(block));
                assert!(entry >= first + HEADER_LEN && data + sector_size <= end);
                assert!(entry + ENTRY_LEN <= lay.data_at(block - block % lay.blocks));
                if block % lay.blocks > 0 {
                    assert_eq!(entry, lay.entry_at(block - 1) + ENTRY_LEN);
                    assert_eq!(data, lay.data_at(block - 1) + sector_size);
                }
            }
            assert_eq!(lay.bank_of(lay.segments - 1), lay.banks - 1);
        }
    }

    #[test]
    fn what_is_no_disk_is_refused() {
        let (mib, kib) = (1 << 20, 1 << 10);
        assert!(layout(mib, 64 * kib, 4, PAPER).is_some());
        for sector_size in [0, 256, 513, 131_072] {
            let shape = Shape {
                sector_size,
                ..PAPER
            };
            assert_eq!(layout(mib, 64 * kib, 4, shape), None, "{sector_size}");
        }
        for sectors in [0, 1 << 24, u32::MAX] {
            assert_eq!(
                layout(mib, 64 * kib, 4, Shape { sectors, ..PAPER }),
                None,
                "{sectors}"
            );
        }
        for banks in [0, 3, 32] {
            assert_eq!(layout(mib, 64 * kib, banks, PAPER), None, "{banks} banks");
        }
        assert_eq!(layout(mib, 512, 4, PAPER), None, "no block in a segment");
        assert_eq!(
            layout(1 << 30, 8 * kib, 4, PAPER),
            None,
            "too many segments"
        );
    }
}

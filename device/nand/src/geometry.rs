//! The shape of a chip, validated once.

use crate::{BlockAddr, PageAddr};

/// The shape of a NAND chip. Every value of this type is within the ranges below.
///
/// | quantity | range |
/// | --- | --- |
/// | page size | 512 B to 16 KiB, a power of two |
/// | usable spare bytes | 0 to a quarter of the page size |
/// | pages per block | 4 to 1,024 |
/// | blocks | 8 to 2^24, and fewer than 2^31 pages in all |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    page_size: u32,
    spare_size: u32,
    pages_per_block: u32,
    blocks: u32,
}

/// Why a geometry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The page size is not a power of two from 512 to 16,384.
    PageSize,
    /// More usable spare bytes than a quarter of the page.
    SpareSize,
    /// Not 4 to 1,024 pages a block.
    PagesPerBlock,
    /// Fewer than 8 blocks, or more blocks or pages than can be addressed.
    Blocks,
}

impl core::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::PageSize => "page size must be a power of two from 512 to 16384",
            Self::SpareSize => "more usable spare bytes than a quarter of the page",
            Self::PagesPerBlock => "pages per block must be from 4 to 1024",
            Self::Blocks => "number of blocks must be from 8 to 2^24, below 2^31 pages in all",
        })
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// Checks and makes a geometry. `spare_size` counts only the bytes that the layers above may
    /// use: what ECC and the bad-block marker need is not among them.
    pub const fn new(
        page_size: u32,
        spare_size: u32,
        pages_per_block: u32,
        blocks: u32,
    ) -> Result<Geometry, GeometryError> {
        if !page_size.is_power_of_two() || page_size < 512 || page_size > 16_384 {
            return Err(GeometryError::PageSize);
        }
        if spare_size > page_size / 4 {
            return Err(GeometryError::SpareSize);
        }
        if pages_per_block < 4 || pages_per_block > 1_024 {
            return Err(GeometryError::PagesPerBlock);
        }
        if blocks < 8 || blocks > 1 << 24 || blocks as u64 * pages_per_block as u64 >= 1 << 31 {
            return Err(GeometryError::Blocks);
        }
        Ok(Geometry {
            page_size,
            spare_size,
            pages_per_block,
            blocks,
        })
    }

    /// Data bytes of a page.
    pub const fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Spare bytes of a page that the software above the driver may use.
    pub const fn spare_size(&self) -> u32 {
        self.spare_size
    }

    /// Pages of an erase block.
    pub const fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Erase blocks, bad ones included.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Pages of the whole chip.
    pub const fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// Data bytes of an erase block.
    pub const fn block_size(&self) -> u32 {
        self.page_size * self.pages_per_block
    }

    /// Data bytes of the whole chip.
    pub const fn capacity(&self) -> u64 {
        self.blocks as u64 * self.block_size() as u64
    }

    /// The `index`-th page of a block.
    pub const fn page(&self, block: BlockAddr, index: u32) -> PageAddr {
        PageAddr(block.0 * self.pages_per_block + index)
    }

    /// The block a page is in.
    pub const fn block_of(&self, page: PageAddr) -> BlockAddr {
        BlockAddr(page.0 / self.pages_per_block)
    }

    /// The number of a page within its block.
    pub const fn index_of(&self, page: PageAddr) -> u32 {
        page.0 % self.pages_per_block
    }

    /// Whether a page address is on the chip.
    pub const fn contains(&self, page: PageAddr) -> bool {
        page.0 < self.pages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_enforced() {
        assert!(Geometry::new(2048, 40, 64, 2048).is_ok());
        assert_eq!(
            Geometry::new(1000, 0, 64, 2048),
            Err(GeometryError::PageSize)
        );
        assert_eq!(
            Geometry::new(256, 0, 64, 2048),
            Err(GeometryError::PageSize)
        );
        assert_eq!(
            Geometry::new(32_768, 0, 64, 2048),
            Err(GeometryError::PageSize)
        );
        assert_eq!(
            Geometry::new(2048, 513, 64, 2048),
            Err(GeometryError::SpareSize)
        );
        assert_eq!(
            Geometry::new(2048, 0, 3, 2048),
            Err(GeometryError::PagesPerBlock)
        );
        assert_eq!(Geometry::new(2048, 0, 64, 7), Err(GeometryError::Blocks));
        assert_eq!(
            Geometry::new(2048, 0, 1024, 1 << 22),
            Err(GeometryError::Blocks)
        );
    }

    #[test]
    fn addresses_round_trip() {
        let g = Geometry::new(2048, 40, 64, 2048).unwrap();
        let page = g.page(BlockAddr(3), 5);
        assert_eq!(page, PageAddr(197));
        assert_eq!(g.block_of(page), BlockAddr(3));
        assert_eq!(g.index_of(page), 5);
        assert!(g.contains(PageAddr(g.pages() - 1)));
        assert!(!g.contains(PageAddr(g.pages())));
        assert!(!g.contains(PageAddr::NONE));
        assert_eq!(g.capacity(), 256 << 20);
    }
}

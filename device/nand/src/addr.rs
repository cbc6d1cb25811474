//! Addresses of blocks and pages.

/// Number of an erase block, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockAddr(pub u32);

/// Number of a page on the whole chip, from 0: `block * pages_per_block + page in block`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddr(pub u32);

impl PageAddr {
    /// No page. Larger than every page of every valid [`crate::Geometry`].
    pub const NONE: PageAddr = PageAddr(u32::MAX);

    /// Whether this is an address at all.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// Whether this is [`PageAddr::NONE`].
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl core::fmt::Debug for PageAddr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_none() {
            f.write_str("PageAddr(none)")
        } else {
            write!(f, "PageAddr({})", self.0)
        }
    }
}

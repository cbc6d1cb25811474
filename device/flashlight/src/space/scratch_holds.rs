//! Which page on flash the scratch page of the layer above is a copy of.
//!
//! The store keeps that, as it knows when the copy is out of date: when the page is given back, or
//! its block is erased.

use flashkit_nand::PageAddr;

/// The page on flash that the scratch page is an exact copy of, if there is one: of metadata a
/// valid page, so that an inode found there is the current one, of a directory with its deferred
/// changes put in or not; while data is moved, a page of
/// data, which nobody may take for metadata.
pub(crate) struct ScratchHolds(PageAddr);

/// What tells a page of data from one of metadata: no page has so high a number.
const DATA: u32 = 1 << 31;

impl ScratchHolds {
    pub const NOTHING: Self = ScratchHolds(PageAddr::NONE);

    pub fn forget(&mut self) {
        *self = Self::NOTHING;
    }

    /// Forgets the page if it is one of so many.
    pub fn forget_if_in(&mut self, first: PageAddr, count: u32) {
        if self.0.0.wrapping_sub(first.0) < count {
            self.forget();
        }
    }

    /// The scratch page is now what is at `at`, a valid page of metadata.
    pub fn set(&mut self, at: PageAddr) {
        *self = ScratchHolds(at);
    }

    /// Whether it is the page of metadata at `at`.
    pub fn is(&self, at: PageAddr) -> bool {
        self.0 == at && at.0 < DATA
    }

    /// The page of metadata that it is; none when it is something else.
    pub fn metadata(&self) -> PageAddr {
        if self.0.0 < DATA {
            self.0
        } else {
            PageAddr::NONE
        }
    }

    /// The scratch page is now the page of data at `at`.
    pub fn set_data(&mut self, at: PageAddr) {
        *self = ScratchHolds(PageAddr(at.0 | DATA));
    }

    /// Whether it is the page of data at `at`.
    pub fn is_data(&self, at: PageAddr) -> bool {
        self.0.0 == at.0 | DATA
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_never_taken_for_metadata() {
        let (mut holds, at) = (ScratchHolds::NOTHING, PageAddr(5));
        assert!(!holds.is(PageAddr::NONE) && holds.metadata().is_none());
        holds.set(at);
        assert!(holds.is(at) && !holds.is_data(at) && holds.metadata() == at);
        holds.set_data(at);
        assert!(holds.is_data(at) && !holds.is(at) && holds.metadata().is_none());
        assert!(!holds.is(PageAddr(at.0 | DATA)), "no page of a chip");
    }

    #[test]
    fn what_is_given_back_is_forgotten() {
        let mut holds = ScratchHolds::NOTHING;
        holds.set(PageAddr(5));
        holds.forget_if_in(PageAddr(3), 2);
        holds.forget_if_in(PageAddr(6), 2);
        assert!(holds.is(PageAddr(5)));
        holds.forget_if_in(PageAddr(4), 2);
        assert!(holds.metadata().is_none());
    }
}

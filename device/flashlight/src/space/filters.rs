//! Bloom filters of hash maps: which hashes a map does not have, without a read of it. A name that
//! is to be created is looked for in the map of its hash, mostly in vain.
//!
//! ```text
//! 0  the map's page u32, all ones: no filter    4 bits, three set for each hash
//! ```
//!
//! Filters lie where nothing else needs the bytes, and are lost when something does.
//!
//! Invariant: a filter is of what its page was found to hold. That changes when the page is
//! programmed again, which drops the filter ([`Filters::forget`]).

use core::ops::Range;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::PageAddr;

/// Bits set for each hash.
const PROBES: u32 = 3;

/// Where in a page's bytes filters are.
pub(crate) struct Filters {
    from: u16,
    end: u16,
}

/// Bytes of one: four bits for each hash of a full map.
fn size(page: usize) -> usize {
    page / 16
}

/// The byte, and the bit in it, of a hash in a filter, behind the page's number.
fn bit(filter: usize, hash: u32, probe: u32) -> (usize, u8) {
    let bits = 8 * (filter as u32 - 4);
    let drawn = hash.wrapping_mul(0x9e37_79b1).rotate_left(11 * probe) >> 16;
    let bit = (drawn * bits) >> 16;
    (4 + bit as usize / 8, 1 << (bit % 8))
}

impl Filters {
    pub const NONE: Filters = Filters { from: 0, end: 0 };

    fn range(&self) -> Range<usize> {
        self.from.into()..self.end.into()
    }

    /// The whole ones of a range of a page's bytes.
    fn whole(page: usize, free: Range<usize>) -> Filters {
        let size = size(page);
        Filters {
            from: (free.start.next_multiple_of(size)) as u16,
            end: (free.end / size * size) as u16,
        }
    }

    /// Only these bytes are free for filters any more.
    pub fn cut(&mut self, page: usize, free: Range<usize>) {
        let whole = Filters::whole(page, free);
        self.from = self.from.max(whole.from);
        self.end = self.end.min(whole.end).max(self.from);
    }

    fn find(&self, page: &[u8], at: PageAddr) -> Option<usize> {
        let mut places = self.range().step_by(size(page.len()));
        places.find(|&place| get_u32(page, place) == at.0 && at.is_some())
    }

    /// Whether the map in a page is known not to have a hash.
    pub fn lacks(&self, page: &[u8], at: PageAddr, hash: u32) -> bool {
        let Some(place) = self.find(page, at) else {
            return false;
        };
        (0..PROBES).any(|probe| {
            let (byte, bit) = bit(size(page.len()), hash, probe);
            page[place + byte] & bit == 0
        })
    }

    /// Makes the filter of a map that has been read, in a part of the page that is free.
    pub fn learn(
        &mut self,
        page: &mut [u8],
        free: Range<usize>,
        at: PageAddr,
        hashes: impl Iterator<Item = u32>,
    ) {
        if self.find(page, at).is_some() {
            return;
        }
        let (old, size) = (self.range(), size(page.len()));
        *self = Filters::whole(page.len(), free);
        let all = self.range();
        if all.is_empty() {
            return;
        }
        let drawn = (at.0.wrapping_mul(0x9e37_79b1) >> 16) as usize;
        let mut place = all.start + drawn % (all.len() / size) * size;
        for other in all.step_by(size) {
            if !old.contains(&other) {
                put_u32(page, other, PageAddr::NONE.0);
            }
            if get_u32(page, other) == PageAddr::NONE.0 {
                place = other;
            }
        }
        let filter = &mut page[place..place + size];
        filter.fill(0);
        put_u32(filter, 0, at.0);
        for hash in hashes {
            for probe in 0..PROBES {
                let (byte, bit) = bit(size, hash, probe);
                filter[byte] |= bit;
            }
        }
    }

    /// A page is programmed.
    pub fn forget(&self, page: &mut [u8], at: PageAddr) {
        if let Some(place) = self.find(page, at) {
            put_u32(page, place, PageAddr::NONE.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::area::LogArea;
    use crate::{Config, FlashLight, New, ROOT_DIR, ram_needed};
    use flashkit_nand::{BlockAddr, Nand};
    use flashkit_sim::{Metered, SimNand, preset};
    use std::vec::Vec;

    const PAGE: usize = 2048;

    /// Hashes of a range, as a map has them, drawn from a number.
    fn hashes(seed: u32, n: usize) -> Vec<u32> {
        let mut x = seed;
        let drawn = core::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            seed << 20 | x >> 12
        });
        drawn.take(n).collect()
    }

    #[test]
    fn a_hash_that_a_map_has_is_never_missed_and_most_others_are() {
        let (mut page, mut filters) = ([7; PAGE], Filters::NONE);
        assert!(!filters.lacks(&page, PageAddr(3), 5), "nothing is known");
        for (at, n) in [(1, 249), (2, 124), (3, 0)] {
            let all = hashes(at, n).into_iter();
            filters.learn(&mut page, 100..2000, PageAddr(at), all);
        }
        for (at, n, found) in [(1, 249, 1400..1600), (2, 124, 250..400), (3, 0, 0..1)] {
            let lacks = |hash: &u32| filters.lacks(&page, PageAddr(at), *hash);
            assert!(!hashes(at, n).iter().any(lacks), "of map {at}");
            let others = hashes(at, 10_249);
            let wrong = others[249..].iter().filter(|hash| !lacks(hash)).count();
            assert!(found.contains(&wrong), "{wrong} of 10,000, map {at}");
        }
        assert!(!filters.lacks(&page, PageAddr(4), 5));
        assert!(!filters.lacks(&page, PageAddr::NONE, 5), "a free place");
        assert_eq!(
            (&page[..128], &page[1920..]),
            (&[7; 128][..], &[7; 128][..])
        );
        filters.forget(&mut page, PageAddr(3));
        assert!(!filters.lacks(&page, PageAddr(3), 5));
    }

    /// A filter whose bytes were something else's meanwhile is none.
    #[test]
    fn what_lay_where_filters_lie_is_not_believed() {
        let (mut page, mut filters) = ([0; PAGE], Filters::NONE);
        let learn = |filters: &mut Filters, page: &mut [u8], free: Range<usize>, at| {
            filters.learn(page, free, PageAddr(at), core::iter::empty());
        };
        let known = |filters: &Filters, page: &[u8]| {
            let known = |at: &u32| filters.lacks(page, PageAddr(*at), 5);
            (0..40).filter(known).collect::<Vec<_>>()
        };
        for at in 1..=16 {
            learn(&mut filters, &mut page, 0..PAGE, at);
        }
        assert_eq!(known(&filters, &page), (1..=16).collect::<Vec<_>>());
        learn(&mut filters, &mut page, 0..PAGE, 17);
        assert_eq!(known(&filters, &page).len(), 16, "one went for another");
        // Bytes are taken at both ends, used, and given back.
        filters.cut(PAGE, 129..1663);
        let left = known(&filters, &page);
        assert_eq!(left.len(), 10);
        for place in [0, 128, 1664, 1920] {
            put_u32(&mut page, place, 30);
            page[place + 4..place + 128].fill(0);
        }
        assert_eq!(known(&filters, &page), left);
        learn(&mut filters, &mut page, 0..PAGE, left[9]);
        assert_eq!(known(&filters, &page), left, "one that is known");
        learn(&mut filters, &mut page, 0..PAGE, 18);
        assert_eq!(known(&filters, &page), [&left[..], &[18]].concat());
        let turned = Range {
            start: 1500,
            end: 1000,
        };
        for free in [1000..1100, turned, PAGE..PAGE] {
            filters.cut(PAGE, free.clone());
            learn(&mut filters, &mut page, free, 19);
            assert_eq!(known(&filters, &page), [], "no room");
        }
    }

    fn mounted() -> FlashLight<'static, SimNand> {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let ram = std::vec![0; ram_needed(&chip.geometry())].leak();
        let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
        let ram = std::vec![0; ram.len()].leak();
        FlashLight::mount(chip, ram, Config::default()).unwrap()
    }

    /// The second new name of a map's range is not looked for in the map.
    #[test]
    fn a_new_name_costs_no_read_of_a_hash_map_that_is_known() {
        let mut fs = mounted();
        let create = |fs: &mut FlashLight<'_, _>, n: u32| {
            let name = std::format!("{n}");
            let file = fs.create(ROOT_DIR, name.as_bytes(), &New::default());
            fs.fsync(file.unwrap()).unwrap();
        };
        let reads = |fs: &FlashLight<'_, SimNand>| {
            let store = &fs.volume.durable.index.store;
            store.nand.inner.counters().page_reads
        };
        (0..1000).for_each(|n| create(&mut fs, n));
        let before = reads(&fs);
        (1000..1100).for_each(|n| create(&mut fs, n));
        let reads = reads(&fs) - before;
        assert!((1..30).contains(&reads), "{reads} for 100 names");
        for n in [0, 1050, 1099] {
            let name = std::format!("{n}");
            let found = fs.lookup(ROOT_DIR, name.as_bytes());
            assert!(found.is_ok());
            let again = fs.create(ROOT_DIR, name.as_bytes(), &New::default());
            assert!(matches!(again, Err(crate::Error::Exists)));
        }
    }

    /// A page that is programmed again holds another map than the one that was known there.
    #[test]
    fn what_was_known_of_a_page_ends_when_it_is_programmed() {
        let mut fs = mounted();
        let name = |n: u32| std::format!("{n}").into_bytes();
        let mut known = 0;
        for n in 0..1000 {
            let store = &mut fs.volume.durable.index.store;
            let head = store.heads.log[LogArea::Hash as usize];
            if head.block != u32::MAX && head.next < store.geo.pages_per_block() {
                let next = store.geo.page(BlockAddr(head.block), head.next);
                store.learn_hashes(next, core::iter::empty());
                known += u32::from(store.lacks_hash(next, 5));
            }
            let file = fs.create(ROOT_DIR, &name(n), &New::default()).unwrap();
            fs.fsync(file).unwrap();
        }
        assert!(known > 100, "{known}");
        for n in 0..1000 {
            assert!(fs.lookup(ROOT_DIR, &name(n)).is_ok(), "{n}");
        }
    }
}

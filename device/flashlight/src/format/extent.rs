//! Extents: records of a FileInode's log and of extent maps.
//!
//! ```text
//! 0  page index in the file u32    4  page on the chip u32    8  number of pages u32, and flags
//! ```
//!
//! The two highest bits of the number are flags. Bit 31, *masks*, in a log or an index page: what
//! the next page below says of these indexes has been given back, and may be another's by now. Bit
//! 30, *covers*, in an index page or an extent map: so it was with what the page that this one
//! replaces said of them. A recovery asks for it, that compares the two.
//!
//! Five index values are no extents but say, in the FileInode page that makes it durable, what
//! is free since the page before:
//! * all ones: the pages of this run;
//! * all ones - 1: this extent map and all pages it maps;
//! * all ones - 2: the pages of this extent map that the one named by the third word, of the
//!   same range of the file, no longer maps;
//! * all ones - 4: the same, and the page of that extent map itself;
//! * all ones - 3, in the first page of a file: the file whose last page this is, which has lost
//!   its name in the same directory.

use crate::format::fields::get_u32;
use flashkit_bytes::put_u32;

/// Bytes of a record.
pub(crate) const SIZE: usize = 12;
/// Index of a freed run.
pub(crate) const FREED_RUN: u32 = u32::MAX;
/// Index of a dropped extent map.
pub(crate) const FREED_MAP: u32 = u32::MAX - 1;
/// Index of a replaced extent map.
pub(crate) const REPLACED_MAP: u32 = u32::MAX - 2;
/// Index of an extent map that one other has replaced.
pub(crate) const REPLACED_PAGE: u32 = u32::MAX - 4;
/// Index of a file removed in the directory of a new one.
pub(crate) const REMOVED: u32 = u32::MAX - 3;
/// Indexes from here on are no extents.
pub(crate) const INDEX_END: u32 = u32::MAX - 15;
/// In the word that holds the number of pages.
const MASKS: u32 = 1 << 31;
const COVERS: u32 = 1 << 30;

/// A run of pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub index: u32,
    pub page: u32,
    pub count: u32,
    /// See the module's text.
    pub masks: bool,
    pub covers: bool,
}

impl Extent {
    /// A run that masks nothing, or a note.
    pub fn new(index: u32, page: u32, count: u32) -> Extent {
        Extent {
            index,
            page,
            count,
            masks: false,
            covers: false,
        }
    }

    #[inline]
    pub fn decode(b: &[u8]) -> Extent {
        let count = get_u32(b, 8);
        Extent {
            index: get_u32(b, 0),
            page: get_u32(b, 4),
            count: count & !(MASKS | COVERS),
            masks: count & MASKS != 0,
            covers: count & COVERS != 0,
        }
    }

    #[inline]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u32(&mut b, 0, self.index);
        put_u32(&mut b, 4, self.page);
        let masks = if self.masks { MASKS } else { 0 };
        let covers = if self.covers { COVERS } else { 0 };
        put_u32(&mut b, 8, self.count | masks | covers);
        b
    }

    /// Whether this maps file pages (and is no note of freed ones).
    #[inline]
    pub fn is_mapping(&self) -> bool {
        self.index < INDEX_END
    }

    /// First index after the run.
    #[inline]
    pub fn end(&self) -> u32 {
        self.index.saturating_add(self.count)
    }

    /// The part of the run within `from..to`, if any.
    #[cfg_attr(target_os = "none", inline(never))]
    pub fn clip(&self, from: u32, to: u32) -> Option<Extent> {
        let (a, b) = (self.index.max(from), self.end().min(to));
        (a < b).then(|| Extent {
            index: a,
            page: self.page.wrapping_add(a - self.index),
            count: b - a,
            ..*self
        })
    }

    /// Whether `next` goes on where this ends, in the file and on the chip.
    #[inline]
    pub fn joins(&self, next: &Extent) -> bool {
        self.end() == next.index
            && self.page.wrapping_add(self.count) == next.page
            && (self.masks, self.covers) == (next.masks, next.covers)
    }

    /// This run with as many pages more.
    pub fn longer(&self, count: u32) -> Extent {
        Extent {
            count: self.count + count,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_and_join() {
        let e = Extent::new(10, 100, 5);
        let masking = Extent { masks: true, ..e };
        assert_eq!(Extent::decode(&e.encode()), e);
        assert_eq!(Extent::decode(&masking.encode()), masking);
        assert_eq!(e.clip(12, 14), Some(Extent::new(12, 102, 2)));
        assert_eq!(masking.clip(12, 14).map(|e| e.masks), Some(true));
        assert_eq!(e.clip(0, 10), None);
        assert_eq!(e.clip(15, 20), None);
        assert!(e.joins(&Extent::new(15, 105, 1)));
        assert!(!e.joins(&Extent::new(15, 106, 1)));
        assert!(!masking.joins(&Extent::new(15, 105, 1)));
    }

    #[test]
    fn flags_do_not_reach_into_the_number_of_pages() {
        for count in [1, COVERS - 1] {
            for (masks, covers) in [(false, false), (false, true), (true, false), (true, true)] {
                let e = Extent {
                    masks,
                    covers,
                    ..Extent::new(u32::MAX, u32::MAX, count)
                };
                assert_eq!(Extent::decode(&e.encode()), e);
            }
        }
    }

    #[test]
    fn words_are_where_the_drawing_says() {
        let e = Extent {
            masks: true,
            ..Extent::new(0x0403_0201, 0x0807_0605, 0x000b_0a09)
        };
        assert_eq!(e.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x80]);
        let covers = Extent {
            masks: false,
            covers: true,
            ..e
        };
        assert_eq!(covers.encode()[11], 0x40);
    }

    #[test]
    fn notes_of_what_is_freed_map_nothing() {
        for index in [FREED_RUN, FREED_MAP, REPLACED_MAP, REPLACED_PAGE, REMOVED] {
            assert!(!Extent::new(index, 0, 1).is_mapping(), "{index:x}");
        }
        assert!(Extent::new(INDEX_END - 1, 0, 1).is_mapping());
    }

    /// A page made to deceive has runs beyond all numbers.
    #[test]
    fn a_run_beyond_all_indexes_ends_with_them() {
        let e = Extent::new(u32::MAX - 2, u32::MAX, COVERS - 1);
        assert_eq!(e.end(), u32::MAX);
        let last = e.clip(u32::MAX - 1, u32::MAX).unwrap();
        assert_eq!((last.index, last.page, last.count), (u32::MAX - 1, 0, 1));
    }

    #[test]
    fn the_parts_of_a_cut_run_join_to_the_run() {
        let e = Extent {
            covers: true,
            ..Extent::new(10, 100, 7)
        };
        for at in 11..17 {
            let (a, b) = (e.clip(0, at).unwrap(), e.clip(at, INDEX_END).unwrap());
            assert!(a.joins(&b) && !b.joins(&a), "{at}");
            assert_eq!(a.longer(b.count), e, "{at}");
        }
        assert_eq!(e.clip(10, 17), Some(e));
        assert_eq!(e.clip(12, 12), None);
    }
}

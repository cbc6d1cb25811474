//! Extents: records of a FileInode's log and of extent maps.
//!
//! ```text
//! 0  page index in the file u32    4  page on the chip u32    8  number of pages u32
//! ```
//!
//! Three index values are no extents but say, in the FileInode page that makes it durable, what
//! is free since the page before:
//! * all ones: the pages of this run;
//! * all ones - 1: this extent map and all pages it maps;
//! * all ones - 2: the pages of this extent map that the one named by the third word, of the
//!   same range of the file, no longer maps.

use crate::bytes::{get_u32, put_u32};

/// Bytes of a record.
pub(crate) const SIZE: usize = 12;
/// Index of a freed run.
pub(crate) const FREED_RUN: u32 = u32::MAX;
/// Index of a dropped extent map.
pub(crate) const FREED_MAP: u32 = u32::MAX - 1;
/// Index of a replaced extent map.
pub(crate) const REPLACED_MAP: u32 = u32::MAX - 2;
/// Indexes from here on are no extents.
pub(crate) const INDEX_END: u32 = u32::MAX - 15;

/// A run of pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub index: u32,
    pub page: u32,
    pub count: u32,
}

impl Extent {
    pub fn decode(b: &[u8]) -> Extent {
        Extent {
            index: get_u32(b, 0),
            page: get_u32(b, 4),
            count: get_u32(b, 8),
        }
    }

    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u32(&mut b, 0, self.index);
        put_u32(&mut b, 4, self.page);
        put_u32(&mut b, 8, self.count);
        b
    }

    /// Whether this maps file pages (and is no note of freed ones).
    pub fn is_mapping(&self) -> bool {
        self.index < INDEX_END
    }

    /// First index after the run.
    pub fn end(&self) -> u32 {
        self.index.saturating_add(self.count)
    }

    /// The part of the run within `from..to`, if any.
    pub fn clip(&self, from: u32, to: u32) -> Option<Extent> {
        let (a, b) = (self.index.max(from), self.end().min(to));
        (a < b).then(|| Extent {
            index: a,
            page: self.page.wrapping_add(a - self.index),
            count: b - a,
        })
    }

    /// Whether `next` goes on where this ends, in the file and on the chip.
    pub fn joins(&self, next: &Extent) -> bool {
        self.end() == next.index && self.page.wrapping_add(self.count) == next.page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_and_join() {
        let e = Extent {
            index: 10,
            page: 100,
            count: 5,
        };
        assert_eq!(Extent::decode(&e.encode()), e);
        assert_eq!(
            e.clip(12, 14),
            Some(Extent {
                index: 12,
                page: 102,
                count: 2
            })
        );
        assert_eq!(e.clip(0, 10), None);
        assert_eq!(e.clip(15, 20), None);
        assert!(e.joins(&Extent {
            index: 15,
            page: 105,
            count: 1
        }));
        assert!(!e.joins(&Extent {
            index: 15,
            page: 106,
            count: 1
        }));
    }
}

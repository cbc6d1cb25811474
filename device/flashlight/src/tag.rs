//! The tag in the spare bytes of a data page, on chips with at least 24 of them.
//!
//! ```text
//! 0 crc u32   4 file number u32   8 page index u32   12 sequence u32   16 directory u32   20 hash u32
//! ```
//!
//! The CRC-32C covers the page's data and tag bytes 4 to 23. Directory and hash are those by which the
//! file was found when the page was written; the sequence is the low half of the number that the
//! next metadata page was to have.

use crate::bytes::{get_u32, put_u32};
use crate::hash::crc32c;
use crate::mappage::Owner;

/// Bytes of a tag.
pub(crate) const SIZE: usize = 24;

/// A data page's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub owner: Owner,
    pub index: u32,
    pub seq: u32,
}

impl Tag {
    pub fn encode(&self, data: &[u8]) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u32(&mut b, 4, self.owner.ino);
        put_u32(&mut b, 8, self.index);
        put_u32(&mut b, 12, self.seq);
        put_u32(&mut b, 16, self.owner.dir);
        put_u32(&mut b, 20, self.owner.hash);
        let crc = crc32c(data, &b[4..]);
        put_u32(&mut b, 0, crc);
        b
    }

    /// The tag without checking it; `None` for erased spare bytes.
    pub fn decode(b: &[u8; SIZE]) -> Option<Tag> {
        b.iter().any(|&x| x != 0xff).then(|| Tag {
            owner: Owner {
                ino: get_u32(b, 4),
                dir: get_u32(b, 16),
                hash: get_u32(b, 20),
            },
            index: get_u32(b, 8),
            seq: get_u32(b, 12),
        })
    }

    /// Whether data and tag are as they were written.
    pub fn matches(b: &[u8; SIZE], data: &[u8]) -> bool {
        get_u32(b, 0) == crc32c(data, &b[4..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let t = Tag {
            owner: Owner {
                ino: 1,
                dir: 2,
                hash: 3,
            },
            index: 4,
            seq: 5,
        };
        let b = t.encode(b"data");
        assert_eq!(Tag::decode(&b), Some(t));
        assert!(Tag::matches(&b, b"data"));
        assert!(!Tag::matches(&b, b"date"));
        assert_eq!(Tag::decode(&[0xff; SIZE]), None);
    }
}

//! The tag in the spare bytes of a data page, on chips with at least 24 of them.
//!
//! ```text
//!  0 crc u32   4 file number u32   8 page index u32   12 sequence u32
//! 16 directory u32   20 hash u32
//! of an update besides, on chips with at least 38 spare bytes (what Linux leaves free of 64):
//! 24 crc u32  28 seconds, low u32  32 nanoseconds u32  36 seconds, high i8  37 left u8
//! ```
//!
//! The first CRC-32C covers the page's data and tag bytes 4 to 23, the second tag bytes 0 to 23 and
//! 28 to 37. Directory and hash are those by which the file was found when the page was written;
//! the sequence is the low half of the number that the next metadata page was to have. The time is
//! that of the write, `left` the number of its pages that follow; from 16 on, that the page is the
//! file's last and not full: the file ends with `left` - 16 zeros, of those that fill the page.

use crate::format::hash::crc32c;
use crate::format::inode::Time;
use crate::format::mappage::Owner;
use flashkit_bytes::{get_u32, put_u32};

/// Bytes of a tag.
pub(crate) const SIZE: usize = 24;

/// Bytes of the tag of an update.
pub(crate) const UPDATE_SIZE: usize = 38;
const STAMP: usize = SIZE + 4;
/// Nanoseconds of a second.
const NANOS: u32 = 1_000_000_000;

/// A data page's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub owner: Owner,
    pub index: u32,
    pub seq: u32,
}

impl Tag {
    #[inline]
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

    /// The number that the tag says, if it was given after this one: far fewer are given between
    /// two checkpoints than are told apart.
    pub fn seq_after(&self, since: u64) -> Option<u64> {
        let after = self.seq.wrapping_sub(since as u32);
        (1..1 << 28)
            .contains(&after)
            .then(|| since.saturating_add(after.into()))
    }

    /// Whether data and tag are as they were written.
    pub fn matches(b: &[u8; SIZE], data: &[u8]) -> bool {
        get_u32(b, 0) == crc32c(data, &b[4..])
    }
}

/// What the tag of an update says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub time: Time,
    /// Pages of the same write that follow, below [`PAGES_MOST`]; above, the page is a tail.
    pub left: u8,
}

/// Pages of an update at most.
pub(crate) const PAGES_MOST: usize = 16;

impl Update {
    /// That of a page that begins with `piece` and is filled with zeros; `None` when the end of
    /// the piece cannot be told.
    pub fn tail(time: Time, piece: &[u8]) -> Option<Update> {
        let zeros = piece.iter().rev().take_while(|&&b| b == 0).count();
        let left = u8::try_from(PAGES_MOST + zeros).ok()?;
        (zeros < piece.len()).then_some(Update { time, left })
    }

    /// Bytes of the page that belong to the file.
    pub fn len(&self, page: &[u8]) -> usize {
        match usize::from(self.left).checked_sub(PAGES_MOST) {
            Some(zeros) => {
                let end = page
                    .iter()
                    .rposition(|&b| b != 0)
                    .map_or(0, |last| last + 1);
                (end + zeros).min(page.len())
            }
            None => page.len(),
        }
    }

    /// Whether no page of the same write follows.
    pub fn is_last(&self) -> bool {
        self.left == 0 || usize::from(self.left) >= PAGES_MOST
    }

    /// Whether a time can be told.
    pub fn holds(time: Time) -> bool {
        i8::try_from(time.secs >> 32).is_ok() && time.nanos < NANOS
    }

    /// Puts it behind a tag. The upper half of the number is in the checksum: a page that has been
    /// at rest for as many numbers as a tag tells apart is none.
    pub fn encode(&self, tag: &[u8; SIZE], seq: u64) -> [u8; UPDATE_SIZE] {
        let mut b = [0; UPDATE_SIZE];
        b[..SIZE].copy_from_slice(tag);
        put_u32(&mut b, STAMP, self.time.secs as u32);
        put_u32(&mut b, STAMP + 4, self.time.nanos);
        b[STAMP + 8] = (self.time.secs >> 32) as u8;
        b[STAMP + 9] = self.left;
        let crc = crc32c(tag, &b[STAMP..]) ^ (seq >> 32) as u32;
        put_u32(&mut b, SIZE, crc);
        b
    }

    /// `None` for the spare bytes of a page that is no update with that number.
    pub fn decode(b: &[u8; UPDATE_SIZE], seq: u64) -> Option<Update> {
        let high = i64::from(b[STAMP + 8] as i8);
        let time = Time {
            secs: high << 32 | i64::from(get_u32(b, STAMP)),
            nanos: get_u32(b, STAMP + 4),
        };
        let crc = crc32c(&b[..SIZE], &b[STAMP..]) ^ (seq >> 32) as u32;
        let sound = get_u32(b, SIZE) == crc && time.nanos < NANOS;
        sound.then(|| Update {
            time,
            left: b[STAMP + 9],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_round_trip_and_damage() {
        for (secs, left) in [(-1, 0), (0, 15), ((1 << 39) - 1, 1), (-(1 << 39), 3)] {
            let time = Time {
                secs,
                nanos: 999_999_999,
            };
            let update = Update { time, left };
            assert!(Update::holds(time));
            let seq = 9 << 32 | 5;
            let mut b = update.encode(&[7; SIZE], seq);
            assert_eq!(Update::decode(&b, seq), Some(update));
            assert_eq!(Update::decode(&b, seq + (1 << 32)), None);
            for i in 0..UPDATE_SIZE {
                b[i] ^= 1;
                assert_eq!(Update::decode(&b, seq), None, "byte {i}");
                b[i] ^= 1;
            }
        }
        let secs = 1 << 39;
        assert!(!Update::holds(Time { secs, nanos: 0 }));
        assert_eq!(Update::decode(&[0xff; UPDATE_SIZE], 5), None);
    }

    #[test]
    fn the_end_of_a_tail_is_told() {
        let time = Time { secs: 1, nanos: 2 };
        let mut page = [0; 512];
        page[..3].copy_from_slice(b"abc");
        for len in [3, 4, 100, 242] {
            let update = Update::tail(time, &page[..len]).unwrap();
            assert_eq!((update.len(&page), update.is_last()), (len, true));
        }
        assert_eq!(Update::tail(time, &page[..243]), None);
        assert_eq!(Update::tail(time, &[0; 9]), None);
        let whole = |left| Update { time, left };
        assert_eq!((whole(0).len(&page), whole(15).len(&page)), (512, 512));
        assert_eq!(
            [0, 1, 15, 16].map(|left| whole(left).is_last()),
            [true, false, false, true]
        );
        // Nobody writes that.
        assert_eq!(whole(255).len(&[1; 8]), 8);
    }

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

    #[test]
    fn no_changed_bit_of_data_or_tag_is_believed() {
        let tag = Tag {
            owner: Owner {
                ino: 1,
                dir: 2,
                hash: 3,
            },
            index: 4,
            seq: 5,
        };
        let mut data = *b"what a file holds";
        let mut b = tag.encode(&data);
        for bit in 0..8 * SIZE {
            b[bit / 8] ^= 1 << (bit % 8);
            assert!(!Tag::matches(&b, &data), "bit {bit} of the tag");
            b[bit / 8] ^= 1 << (bit % 8);
        }
        for bit in 0..8 * data.len() {
            data[bit / 8] ^= 1 << (bit % 8);
            assert!(!Tag::matches(&b, &data), "bit {bit} of the data");
            data[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Tag::matches(&b, &data));
    }

    #[test]
    fn a_number_is_told_only_from_those_shortly_before() {
        let tag = |seq: u64| Tag {
            owner: Owner {
                ino: 1,
                dir: 2,
                hash: 3,
            },
            index: 4,
            seq: seq as u32,
        };
        let since = (7 << 32) - 2;
        for after in [1, 2, 3, (1 << 28) - 1] {
            let seq = since + after;
            assert_eq!(
                tag(seq).seq_after(since),
                Some(seq),
                "over the edge of 32 bits"
            );
        }
        assert_eq!(tag(since).seq_after(since), None, "it is not after itself");
        assert_eq!(tag(since - 1).seq_after(since), None);
        assert_eq!(
            tag(since + (1 << 28)).seq_after(since),
            None,
            "too long ago"
        );
        assert_eq!(
            tag(0).seq_after(u64::MAX),
            Some(u64::MAX),
            "no number is beyond all"
        );
    }

    #[test]
    fn a_tag_of_another_page_is_not_taken_for_an_update() {
        let time = Time { secs: 1, nanos: 2 };
        let update = Update { time, left: 0 };
        let mut b = update.encode(&[7; SIZE], 9);
        b[..SIZE].fill(8);
        assert_eq!(Update::decode(&b, 9), None);
        let nanos = Time {
            nanos: NANOS,
            ..time
        };
        assert!(!Update::holds(nanos));
        let of_no_second = Update {
            time: nanos,
            left: 0,
        };
        assert_eq!(Update::decode(&of_no_second.encode(&[7; SIZE], 9), 9), None);
    }
}

//! The tag in the spare bytes of a data page, on chips with at least 24 of them.
//!
//! ```text
//! wide: 0 crc u32   4 file number u32   8 page index u32   12 sequence u32
//!      16 directory u32   20 hash u32
//! of an update besides, on chips with at least 38 spare bytes (what Linux leaves free of 64):
//!      24 crc u32  28 seconds, low u32  32 nanoseconds u32  36 seconds, high i8  37 left u8
//!
//! short:    0           2             6           8             12           14
//!           | crc, low  | file number | crc, high | page index  | seq., low  |
//!          14           18        20                            24
//!           | hash, dir | 2 below | dir, high u16 | seq., high u16 |
//! ```
//!
//! The first CRC-32C covers the page's data and tag bytes 4 to 23, the second tag bytes 0 to 23 and
//! 28 to 37. Directory and hash are those by which the file was found when the page was written;
//! the sequence is the low half of the number that the next metadata page was to have. The time is
//! that of the write, `left` the number of its pages that follow; from 16 on, that the page is the
//! file's last and not full: the file ends with `left` - 16 zeros, of those that fill the page.
//!
//! A short tag holds an update as well. It has the time as 256ths of a second since the file's
//! change before it: an index of 20 bits leaves room for 12 of them, and the last two bytes of its
//! run, which are all ones otherwise, have the other 7 and `left`. Each run of six begins with two
//! bytes that the ECC of some chips does not cover: what is believed without the checksum is in
//! the other four.
//!
//! Spare bytes may be outside of any ECC, so one bit of a tag that has flipped is mended.

use crate::format::fields::{get_u8, get_u16, get_u32, put_u16, put_u32};
use crate::format::hash::crc32c;
use crate::format::inode::Time;
use crate::format::mappage::Owner;

/// Bytes of a tag.
pub(crate) const SIZE: usize = 24;

/// Bytes of the wide tag of an update.
pub(crate) const UPDATE_SIZE: usize = 38;
const STAMP: usize = SIZE + 4;
/// Nanoseconds of a second.
const NANOS: u32 = Time::SECOND;

/// CRC-32C's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What tags of a volume look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An update takes [`UPDATE_SIZE`] bytes, so on chips with fewer there are none.
    Wide,
    /// An update takes no more than another page.
    Short,
}

impl Form {
    /// That of a new volume on a chip with so many spare bytes, if there is room for tags.
    pub fn new(spare: u32) -> Option<Form> {
        match spare as usize {
            ..SIZE => None,
            SIZE..UPDATE_SIZE => Some(Form::Short),
            _ => Some(Form::Wide),
        }
    }

    /// Spare bytes of a page of an update.
    pub fn update_size(self) -> usize {
        match self {
            Form::Wide => UPDATE_SIZE,
            Form::Short => SIZE,
        }
    }

    /// Puts the bytes of a tag from the order on flash into that in which they are looked at: the
    /// checksum, then all that it covers.
    fn sorted(self, b: &[u8; SIZE]) -> [u8; SIZE] {
        let mut sorted = *b;
        if self == Form::Short {
            for (&at, &byte) in ON_FLASH.iter().zip(b) {
                if let Some(place) = sorted.get_mut(usize::from(at)) {
                    *place = byte;
                }
            }
        }
        sorted
    }

    fn on_flash(self, sorted: &[u8; SIZE]) -> [u8; SIZE] {
        match self {
            Form::Wide => *sorted,
            Form::Short => ON_FLASH.map(|at| get_u8(sorted, at.into())),
        }
    }
}

/// Where the bytes of a short tag are when they are sorted: checksum 0, file number 4, page index
/// 8, hash and the low bits of the directory 12, its high bits 16, sequence 18 (high) and 20 (low),
/// what an update says 22.
#[rustfmt::skip]
const ON_FLASH: [u8; SIZE] = [
    0, 1,    4, 5, 6, 7,
    2, 3,    8, 9, 10, 11,
    20, 21,  12, 13, 14, 15,
    22, 23,  16, 17, 18, 19,
];
const SAYS: usize = 22;
/// Bits of the page index in the short tag of an update, of which the others have the low bits of
/// the time.
const INDEX_BITS: u32 = 20;
/// Bits of the time in the first two bytes and the last two.
const TICK_BITS: u32 = 32 - INDEX_BITS;
/// With more, what the tag says would be all ones but for the bit that makes it an update's.
const TICKS: u32 = 0x7f << TICK_BITS;
/// Set in a short tag that is no update's.
const NO_UPDATE: u16 = 1 << 15;
const TICK_NS: u32 = NANOS / 256;

/// A data page's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub owner: Owner,
    pub index: u32,
    pub seq: u32,
}

/// What a tag that belongs to its data says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// High half of the number of a short tag; 0 for a wide one.
    pub high: u32,
    /// One bit had flipped.
    pub mended: bool,
}

impl Tag {
    /// `seq` is the whole number.
    #[inline]
    pub fn encode(&self, form: Form, data: &[u8], seq: u64) -> [u8; SIZE] {
        let mut b = self.fields(form);
        let crc = checksum(form, data, &b, (seq >> 32) as u32);
        put_u32(&mut b, 0, crc);
        form.on_flash(&b)
    }

    /// All but the checksum, sorted.
    fn fields(&self, form: Form) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        let Owner { ino, dir, hash } = self.owner;
        put_u32(&mut b, 4, ino);
        put_u32(&mut b, 8, self.index);
        match form {
            Form::Wide => {
                put_u32(&mut b, 12, self.seq);
                put_u32(&mut b, 16, dir);
                put_u32(&mut b, 20, hash);
            }
            Form::Short => {
                put_u32(&mut b, 12, hash | dir << 28);
                put_u16(&mut b, 16, (dir >> 4) as u16);
                put_u16(&mut b, 18, (self.seq >> 16) as u16);
                put_u16(&mut b, 20, self.seq as u16);
                put_u16(&mut b, SAYS, u16::MAX);
            }
        }
        b
    }

    /// The tag without checking it; `None` for erased spare bytes.
    pub fn decode(form: Form, b: &[u8; SIZE]) -> Option<Tag> {
        if b.iter().all(|&x| x == 0xff) {
            return None;
        }
        let b = &form.sorted(b);
        let (dir, hash, seq, index_bits) = match form {
            Form::Wide => (get_u32(b, 16), get_u32(b, 20), get_u32(b, 12), 32),
            Form::Short => (
                get_u32(b, 12) >> 28 | u32::from(get_u16(b, 16)) << 4,
                get_u32(b, 12) & ((1 << 28) - 1),
                u32::from(get_u16(b, 18)) << 16 | u32::from(get_u16(b, 20)),
                if get_u16(b, SAYS) & NO_UPDATE == 0 {
                    INDEX_BITS
                } else {
                    32
                },
            ),
        };
        let ino = get_u32(b, 4);
        Some(Tag {
            owner: Owner { ino, dir, hash },
            index: get_u32(b, 8) & u32::MAX >> (32 - index_bits),
            seq,
        })
    }

    /// Its bytes where the data is that of a page with the tag `old`, and was not looked at: the
    /// checksums differ by what is in the tags. What was wrong is wrong by as much: of a tag that
    /// had a flipped bit the new one has a checksum as if that bit had flipped in it.
    pub fn encode_anew(&self, form: Form, old: &[u8; SIZE]) -> [u8; SIZE] {
        let (old, mut b) = (form.sorted(old), self.fields(form));
        let of_fields = |b| checksum(form, &[], b, 0);
        let crc = get_u32(&old, 0) ^ of_fields(&old) ^ of_fields(&b);
        put_u32(&mut b, 0, crc);
        form.on_flash(&b)
    }

    /// Whether a tag that was checked is that of a page of a file, mended or as it was `read`: the
    /// chip may have copied the page when one bit was wrong ([`Tag::encode_anew`]).
    pub fn is_of(
        form: Form,
        mended: &[u8; SIZE],
        read: &[u8; SIZE],
        (ino, index): (u32, u32),
    ) -> bool {
        [mended, read].iter().any(|tag| {
            Tag::decode(form, tag).is_some_and(|t| (t.owner.ino, t.index) == (ino, index))
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

    /// Whether data and tag are as they were written, but for one bit of the tag, which is mended.
    /// No number was as large as `seq` yet.
    pub fn check(form: Form, b: &mut [u8; SIZE], data: &[u8], seq: u64) -> Option<Checked> {
        let mut sorted = form.sorted(b);
        let differs = get_u32(&sorted, 0) ^ checksum(form, data, &sorted, 0);
        let (bits, highest) = match form {
            Form::Wide => (0, 0),
            Form::Short => (HIGH_BITS, (seq >> 32) as u32),
        };
        let high = unstep(differs, bits);
        if high <= highest {
            let mended = false;
            return Some(Checked { high, mended });
        }
        let says = get_u16(&sorted, SAYS);
        let high = mend(&mut sorted, high, bits, highest)?;
        if form == Form::Short && says == u16::MAX {
            // That is wrong in the checksum alone, of a copy: no update says it.
            put_u16(&mut sorted, SAYS, says);
        }
        *b = form.on_flash(&sorted);
        Some(Checked { high, mended: true })
    }
}

/// The checksum of a page and its tag, sorted. In a short one it covers the upper half of the
/// number as well: that takes no room.
fn checksum(form: Form, data: &[u8], b: &[u8; SIZE], high: u32) -> u32 {
    match form {
        Form::Wide => crc32c(data, &b[4..]),
        Form::Short => {
            let mut b = *b;
            put_u32(&mut b, 0, high);
            crc32c(data, &b)
        }
    }
}

/// Bits of the upper half of a number in a short tag and of what its checksum covers behind it.
const HIGH_BITS: u32 = 8 * SIZE as u32;

/// What becomes of a CRC-32C by a bit more.
fn step(crc: u32) -> u32 {
    crc >> 1 ^ POLYNOMIAL & (crc & 1).wrapping_neg()
}

/// What was a CRC-32C before so many bits of zeros. Checksums are linear, so where they differ by
/// this, what they cover differs by that, so many bits before its end.
fn unstep(crc: u32, bits: u32) -> u32 {
    (0..bits).fold(crc, |crc, _| match crc >> 31 {
        0 => crc << 1,
        _ => (crc ^ POLYNOMIAL) << 1 | 1,
    })
}

/// Flips the bit back with which a checksum, which is before what it covers last, comes out right,
/// and says for which upper half of a number: the highest that is possible. `high` is the one with
/// which it does as it is, [`unstep`] so many bits. `None` if there is none. A changed bit of data
/// is never taken for one of those: with fewer than four changed bits CRC-32C never is right.
fn mend(b: &mut [u8], high: u32, bits: u32, highest: u32) -> Option<u32> {
    let mut best = None;
    let mut look = |bit: usize, effect: u32| {
        let high = high ^ effect;
        if high <= highest {
            best = best.max(Some((high, bit)));
        }
    };
    for bit in 0..32 {
        look(bit, unstep(1 << bit, bits));
    }
    let mut effect = unstep(POLYNOMIAL, bits);
    for bit in (32..8 * b.len()).rev() {
        look(bit, effect);
        effect = step(effect);
    }
    let (high, bit) = best?;
    *b.get_mut(bit / 8)? ^= 1 << (bit % 8);
    Some(high)
}

/// When an update was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Time),
    /// So many 256ths of a second after the file's change before.
    After(u32),
}

impl When {
    /// What a tag can say of a time, if it can, after a file's change `before`.
    pub fn of(form: Form, now: Time, before: Time) -> Option<When> {
        if now.nanos >= NANOS || before.nanos >= NANOS {
            return None;
        }
        if form == Form::Wide {
            return i8::try_from(now.secs >> 32)
                .is_ok()
                .then_some(When::At(now));
        }
        let secs = now.secs.checked_sub(before.secs)?;
        let secs = (0..=i64::from(TICKS / 256))
            .contains(&secs)
            .then_some(secs)?;
        let ns = secs * i64::from(NANOS) + i64::from(now.nanos) - i64::from(before.nanos);
        let ticks = u32::try_from(u64::try_from(ns).ok()? / u64::from(TICK_NS)).ok()?;
        (ticks < TICKS).then_some(When::After(ticks))
    }

    pub fn time(self, before: Time) -> Time {
        match self {
            When::At(time) => time,
            When::After(ticks) => {
                let ns = u64::from(ticks) * u64::from(TICK_NS) + u64::from(before.nanos);
                let secs = (ns / u64::from(NANOS)) as i64;
                Time {
                    secs: before.secs.saturating_add(secs),
                    nanos: (ns % u64::from(NANOS)) as u32,
                }
            }
        }
    }

    /// That of the pages of a write behind its first one.
    pub fn again(self) -> When {
        match self {
            When::At(time) => When::At(time),
            When::After(_) => When::After(0),
        }
    }
}

/// What the tag of an update says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub when: When,
    /// Pages of the same write that follow, below [`PAGES_MOST`]; above, the page is a tail.
    pub left: u8,
}

/// Pages of an update at most.
pub(crate) const PAGES_MOST: usize = 16;

impl Update {
    /// That of a page that begins with `piece` and is filled with zeros; `None` when the end of
    /// the piece cannot be told.
    pub fn tail(when: When, piece: &[u8]) -> Option<Update> {
        let zeros = piece.iter().rev().take_while(|&&b| b == 0).count();
        let left = u8::try_from(PAGES_MOST + zeros).ok()?;
        (zeros < piece.len()).then_some(Update { when, left })
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

    /// Whether a page of a file so far from its begin has room for it in its tag.
    pub fn holds(form: Form, index: u64) -> bool {
        form == Form::Wide || index < 1 << INDEX_BITS
    }

    /// The spare bytes of its page: [`Form::update_size`] of them. The upper half of the number is
    /// in the checksum: a page that has been at rest for as many numbers as a tag tells apart is
    /// none.
    pub fn encode(&self, form: Form, tag: &Tag, data: &[u8], seq: u64) -> [u8; UPDATE_SIZE] {
        let mut b = [0xff; UPDATE_SIZE];
        match self.when {
            When::At(time) => {
                let tag = tag.encode(form, data, seq);
                b[..SIZE].copy_from_slice(&tag);
                put_u32(&mut b, STAMP, time.secs as u32);
                put_u32(&mut b, STAMP + 4, time.nanos);
                b[STAMP + 8] = (time.secs >> 32) as u8;
                b[STAMP + 9] = self.left;
                let crc = crc32c(&tag, &b[STAMP..]) ^ (seq >> 32) as u32;
                put_u32(&mut b, SIZE, crc);
            }
            When::After(ticks) => {
                let mut short = tag.fields(form);
                put_u32(&mut short, 8, tag.index | ticks << INDEX_BITS);
                let says = (ticks >> TICK_BITS) << 8 | u32::from(self.left);
                put_u16(&mut short, SAYS, says as u16);
                let crc = checksum(form, data, &short, (seq >> 32) as u32);
                put_u32(&mut short, 0, crc);
                b[..SIZE].copy_from_slice(&form.on_flash(&short));
            }
        }
        b
    }

    /// What spare bytes say whose first [`SIZE`] were mended; `None` for those of a page that is no
    /// update with that number. One bit that has flipped is mended.
    pub fn decode(form: Form, b: &[u8; UPDATE_SIZE], seq: u64) -> Option<Update> {
        let (mut b, tag) = (*b, b.first_chunk()?);
        if form == Form::Short {
            let sorted = form.sorted(tag);
            let says = get_u16(&sorted, SAYS);
            let ticks = get_u32(&sorted, 8) >> INDEX_BITS | u32::from(says >> 8) << TICK_BITS;
            let (when, left) = (When::After(ticks), says as u8);
            return (says & NO_UPDATE == 0).then_some(Update { when, left });
        }
        let crc = crc32c(tag, &b[STAMP..]) ^ (seq >> 32) as u32;
        let differs = get_u32(&b, SIZE) ^ crc;
        if differs != 0 && mend(&mut b[SIZE..], differs, 0, 0).is_none() {
            return None;
        }
        let high = i64::from(b[STAMP + 8] as i8);
        let time = Time {
            secs: high << 32 | i64::from(get_u32(&b, STAMP)),
            nanos: get_u32(&b, STAMP + 4),
        };
        let (when, left) = (When::At(time), b[STAMP + 9]);
        (time.nanos < NANOS).then_some(Update { when, left })
    }
}

#[cfg(test)]
mod tests;

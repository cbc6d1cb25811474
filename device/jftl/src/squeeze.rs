//! A code that makes journalled metadata short, without another sector to refer to.
//!
//! Inodes repeat every 128 or 256 bytes, directory entries every few words, and descriptors count
//! block numbers up, big-endian. So each word of 32 bits is coded with one of eight that it is
//! likely to be: the words 64, 32, 4, 3, 2 and 1 before it, and those 4 and 2 before it plus one,
//! big-endian; 0 where there are none.
//!
//! | bits, the first ones lowest | the word |
//! | --- | --- |
//! | `0` | 0 |
//! | `10 ppp` | the `p`-th of those |
//! | `110 ppp bb x` | the `p`-th of those, but byte `b` is `x`, 8 bits |
//! | `111 x` | `x`, 32 bits |

use flashkit_bytes::{get_u32, put_u32};

/// Distances in words, and what is added.
const LIKELY: [(usize, u32); 8] = [
    (64, 0),
    (32, 0),
    (2, 0),
    (1, 0),
    (3, 0),
    (4, 0),
    (2, 1),
    (4, 1),
];

/// The `p`-th word that the one at `i` is likely to be.
fn likely(before: &[u8], i: usize, p: usize) -> u32 {
    let (distance, add) = LIKELY[p];
    let word = i
        .checked_sub(distance)
        .map_or(0, |i| get_u32(before, 4 * i));
    if add == 0 {
        return word;
    }
    word.swap_bytes().wrapping_add(add).swap_bytes()
}

/// Writes bits; those beyond the end are only counted.
struct Writer<'a> {
    out: &'a mut [u8],
    bits: usize,
}

impl Writer<'_> {
    fn put(&mut self, value: u32, count: usize) {
        for i in 0..count {
            let (at, bit) = (self.bits / 8, self.bits % 8);
            if let Some(byte) = self.out.get_mut(at) {
                *byte &= !(u8::MAX << bit);
                *byte |= ((value >> i & 1) as u8) << bit;
            }
            self.bits += 1;
        }
    }
}

/// Writes what codes a sector, as far as there is room for it; the bytes that it takes.
pub(crate) fn encode(data: &[u8], out: &mut [u8]) -> usize {
    let mut to = Writer { out, bits: 0 };
    for i in 0..data.len() / 4 {
        let word = get_u32(data, 4 * i);
        if word == 0 {
            to.put(0, 1);
            continue;
        }
        let differs = |p: &usize| word ^ likely(data, i, *p);
        let in_one_byte = |x: u32| x.leading_zeros() / 8 + x.trailing_zeros() / 8 >= 3;
        if let Some(p) = (0..8).find(|p| differs(p) == 0) {
            to.put(0b01 | (p as u32) << 2, 5);
        } else if let Some(p) = (0..8).find(|p| in_one_byte(differs(p))) {
            let byte = differs(&p).trailing_zeros() / 8;
            to.put(0b011 | (p as u32) << 3 | byte << 6, 8);
            to.put(word >> (8 * byte) & 0xFF, 8);
        } else {
            to.put(0b111, 3);
            to.put(word, 32);
        }
    }
    to.bits.div_ceil(8)
}

struct Reader<'a> {
    bytes: &'a [u8],
    bits: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for i in 0..count {
            let byte = self.bytes.get(self.bits / 8)?;
            value |= u32::from(byte >> (self.bits % 8) & 1) << i;
            self.bits += 1;
        }
        Some(value)
    }

    /// The `i`-th word behind those before.
    fn word(&mut self, before: &[u8], i: usize) -> Option<u32> {
        if self.take(1)? == 0 {
            return Some(0);
        }
        if self.take(1)? == 0 {
            return Some(likely(before, i, self.take(3)? as usize));
        }
        if self.take(1)? == 1 {
            return self.take(32);
        }
        let word = likely(before, i, self.take(3)? as usize);
        let at = 8 * self.take(2)?;
        Some(word & !(0xFF << at) | self.take(8)? << at)
    }
}

/// Reads a sector back; whether there is one.
pub(crate) fn decode(bytes: &[u8], out: &mut [u8]) -> bool {
    let mut from = Reader { bytes, bits: 0 };
    for i in 0..out.len() / 4 {
        let Some(word) = from.word(out, i) else {
            return false;
        };
        put_u32(out, 4 * i, word);
    }
    true
}

/// Whether a sector reads back as this.
pub(crate) fn is_code_of(bytes: &[u8], data: &[u8]) -> bool {
    let mut from = Reader { bytes, bits: 0 };
    // As far as it was the same, what is before is too.
    (0..data.len() / 4).all(|i| from.word(data, i) == Some(get_u32(data, 4 * i)))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use flashkit_sim::Rng;
    use std::vec;
    use std::vec::Vec;

    /// Bytes of zeros, repetitions, counts and noise.
    fn sector(rng: &mut Rng, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        for i in 0..len / 4 {
            let p = rng.below(8) as usize;
            let word = match rng.below(6) {
                0 => rng.below(1 << 32) as u32,
                1 => likely(&data, i, p) ^ (1 << rng.below(32)),
                2 => likely(&data, i, p),
                _ => 0,
            };
            put_u32(&mut data, 4 * i, word);
        }
        data
    }

    #[test]
    fn a_sector_comes_back() {
        let mut rng = Rng::new(1);
        for round in 0..400 {
            let len = [512, 2048][round % 2];
            let data = sector(&mut rng, len);
            let mut out = vec![0xA5; 2 * len];
            let size = encode(&data, &mut out);
            assert_eq!(encode(&data, &mut out[..size / 2]), size, "round {round}");
            encode(&data, &mut out[..size]);
            let mut back = vec![0x5A; len];
            assert!(decode(&out[..size], &mut back) && back == data, "{round}");
            assert!(is_code_of(&out[..size], &data), "round {round}");
            assert!(!decode(&out[..size - 1], &mut back), "round {round}");
            back.copy_from_slice(&data);
            back[rng.below(len as u64) as usize] ^= 0x40;
            assert!(!is_code_of(&out[..size], &back), "round {round}");
        }
    }

    /// The code in bits: 0, a literal, the word before, one byte of it, the count of two before.
    #[test]
    fn the_code_is_this() {
        let words = [0, 0x0102_0304, 0x0102_0304, 0x0199_0304, 0x0202_0304];
        let data: Vec<u8> = words.iter().flat_map(|w| u32::to_le_bytes(*w)).collect();
        let mut out = [0; 16];
        let size = encode(&data, &mut out);
        let mut bits = Writer {
            out: &mut [0; 16],
            bits: 0,
        };
        bits.put(0, 1);
        bits.put(0b111, 3);
        bits.put(0x0102_0304, 32);
        bits.put(0b01 | 3 << 2, 5);
        // The word two before differs in one byte, and so it does behind it.
        bits.put(0b011 | 2 << 3 | 2 << 6, 8);
        bits.put(0x99, 8);
        bits.put(0b01 | 6 << 2, 5);
        assert_eq!((size, &out[..]), (bits.bits.div_ceil(8), &bits.out[..]));
    }

    /// Whatever the bytes are, reading ends.
    #[test]
    fn noise_is_borne() {
        let mut rng = Rng::new(2);
        for _ in 0..1_000 {
            let mut bytes = vec![0; rng.below(300) as usize];
            rng.fill(&mut bytes);
            let mut out = vec![0; 512];
            let read = decode(&bytes, &mut out);
            assert_eq!(read && is_code_of(&bytes, &out), read);
        }
    }
}

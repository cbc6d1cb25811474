//! The cipher: bytes of a page, as they are on flash and as they are.
//!
//! A page is cut into units of 64 bytes, each with a tweak of its own, its number on the chip:
//! `page * (page size / 64) + unit`, 16 bytes little-endian. So a few bytes of a page are read
//! without the rest. Bytes that a program does not give are not encrypted, and stay erased.
//!
//! A unit that is all ones is erased, and reads as that. That a unit which was written comes out so
//! has a chance of 1 in 2 to the power of 512 for a random one.

use aes::cipher::consts::{U16, U32};
use aes::cipher::{Array, KeyInit};
use aes::{Aes128, Aes256};
use flashkit_nand::{Geometry, PageAddr};
use xts_mode::{Xts128, get_tweak_default};

/// Bytes of a unit. Pages are a multiple of it.
pub const UNIT: usize = 64;

/// Why there is no cipher of a key, or no chip with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XtsError {
    /// The key has this many bytes, and neither 32 nor 64.
    KeyLength(usize),
    /// The halves of the key are the same, which XTS must not have.
    KeyHalves,
    /// The page of RAM is smaller than a page of the chip.
    RamTooSmall,
}

impl core::fmt::Display for XtsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            XtsError::KeyLength(len) => write!(f, "a key of {len} bytes, not of 32 or 64"),
            XtsError::KeyHalves => f.write_str("a key whose halves are the same"),
            XtsError::RamTooSmall => f.write_str("less RAM than a page of the chip"),
        }
    }
}

impl core::error::Error for XtsError {}

// There is one of it, and no heap to put the larger on.
#[allow(clippy::large_enum_variant)]
enum Cipher {
    Aes128(Xts128<Aes128>),
    Aes256(Xts128<Aes256>),
}

/// XTS-AES-128 or XTS-AES-256, by the length of the key. It takes about 1 KB of RAM, for the
/// round keys of both halves.
pub struct Xts(Cipher);

impl Xts {
    /// Of a key of 32 or 64 bytes.
    ///
    /// # Errors
    /// It has another length, or its halves are the same.
    pub fn new(key: &[u8]) -> Result<Xts, XtsError> {
        let (first, second) = key.split_at(key.len() / 2);
        if let (Ok(a), Ok(b)) = (<&Array<u8, U16>>::try_from(first), second.try_into()) {
            distinct(first, second)?;
            let of = |key: &Array<u8, U16>| Aes128::new(key);
            return Ok(Xts(Cipher::Aes128(Xts128::new(of(a), of(b)))));
        }
        if let (Ok(a), Ok(b)) = (<&Array<u8, U32>>::try_from(first), second.try_into()) {
            distinct(first, second)?;
            let of = |key: &Array<u8, U32>| Aes256::new(key);
            return Ok(Xts(Cipher::Aes256(Xts128::new(of(a), of(b)))));
        }
        Err(XtsError::KeyLength(key.len()))
    }

    /// Encrypts bytes of a page: from byte `offset` on. Both are multiples of [`UNIT`].
    pub fn seal(&self, geometry: &Geometry, page: PageAddr, offset: usize, bytes: &mut [u8]) {
        for (number, unit) in units(geometry, page, offset, bytes) {
            let tweak = get_tweak_default(number);
            match &self.0 {
                Cipher::Aes128(xts) => xts.encrypt_sector(unit, tweak),
                Cipher::Aes256(xts) => xts.encrypt_sector(unit, tweak),
            }
        }
    }

    /// Decrypts them. What is erased stays so.
    pub fn open(&self, geometry: &Geometry, page: PageAddr, offset: usize, bytes: &mut [u8]) {
        for (number, unit) in units(geometry, page, offset, bytes) {
            if unit.iter().all(|byte| *byte == 0xFF) {
                continue;
            }
            let tweak = get_tweak_default(number);
            match &self.0 {
                Cipher::Aes128(xts) => xts.decrypt_sector(unit, tweak),
                Cipher::Aes256(xts) => xts.decrypt_sector(unit, tweak),
            }
        }
    }
}

impl core::fmt::Debug for Xts {
    /// Not the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self.0 {
            Cipher::Aes128(_) => "Xts(AES-128)",
            Cipher::Aes256(_) => "Xts(AES-256)",
        })
    }
}

fn distinct(first: &[u8], second: &[u8]) -> Result<(), XtsError> {
    if first == second {
        return Err(XtsError::KeyHalves);
    }
    Ok(())
}

/// The units of bytes of a page, with their numbers.
fn units<'b>(
    geometry: &Geometry,
    page: PageAddr,
    offset: usize,
    bytes: &'b mut [u8],
) -> impl Iterator<Item = (u128, &'b mut [u8])> {
    let of_page = geometry.page_size() as usize / UNIT;
    let first = u128::from(page.0) * of_page as u128 + (offset / UNIT) as u128;
    (first..).zip(bytes.chunks_exact_mut(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{format, vec, vec::Vec};

    fn geometry() -> Geometry {
        Geometry::new(2048, 24, 64, 1024).unwrap()
    }

    fn key(len: u8) -> Vec<u8> {
        (0..len).map(|i| i.wrapping_mul(37) ^ 0x5A).collect()
    }

    /// Vector 2 of IEEE Std 1619-2007, annex B: its two blocks are the first half of a unit.
    #[test]
    fn agrees_with_the_standard() {
        let mut key = [0x11; 32];
        key[16..].fill(0x22);
        let xts = Xts::new(&key).unwrap();
        let tweak = get_tweak_default(0x33_3333_3333);
        let mut bytes = [0x44; UNIT];
        let Cipher::Aes128(inner) = &xts.0 else {
            panic!("{xts:?}");
        };
        inner.encrypt_sector(&mut bytes, tweak);
        let expected = [
            0xC4, 0x54, 0x18, 0x5E, 0x6A, 0x16, 0x93, 0x6E, 0x39, 0x33, 0x40, 0x38, 0xAC, 0xEF,
            0x83, 0x8B, 0xFB, 0x18, 0x6F, 0xFF, 0x74, 0x80, 0xAD, 0xC4, 0x28, 0x93, 0x82, 0xEC,
            0xD6, 0xD3, 0x94, 0xF0,
        ];
        assert_eq!(bytes[..32], expected);
    }

    #[test]
    fn a_unit_has_the_tweak_of_its_number() {
        for len in [32, 64] {
            let xts = Xts::new(&key(len)).unwrap();
            let mut page = vec![7; 2048];
            xts.seal(&geometry(), PageAddr(5), 0, &mut page);
            // Page 5 has the units 160 to 191.
            for unit in 0..32u128 {
                let mut alone = [7; UNIT];
                let tweak = get_tweak_default(160 + unit);
                match &xts.0 {
                    Cipher::Aes128(xts) => xts.encrypt_sector(&mut alone, tweak),
                    Cipher::Aes256(xts) => xts.encrypt_sector(&mut alone, tweak),
                }
                assert_eq!(page[unit as usize * UNIT..][..UNIT], alone);
            }
            let mut part = page[128..320].to_vec();
            xts.open(&geometry(), PageAddr(5), 128, &mut part);
            assert_eq!(part, [7; 192]);
        }
    }

    /// As docs/encryption.md says.
    #[test]
    fn round_keys_take_about_a_kilobyte() {
        let size = core::mem::size_of::<Xts>();
        assert!((900..1100).contains(&size), "{size}");
    }

    #[test]
    fn keys_that_are_none() {
        for len in [0, 1, 16, 31, 33, 48, 63, 65, 128] {
            let refused = Xts::new(&key(len)).map(drop);
            assert_eq!(refused, Err(XtsError::KeyLength(len.into())));
        }
        for len in [32, 64] {
            let refused = Xts::new(&vec![3; len]).map(drop);
            assert_eq!(refused, Err(XtsError::KeyHalves));
        }
        assert_eq!(format!("{:?}", Xts::new(&key(64)).unwrap()), "Xts(AES-256)");
    }
}

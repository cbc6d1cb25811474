//! Little-endian fields in byte slices, and their CRC-32C: what the formats on NAND are made of.
//!
//! nanofs has none of it: its blocks are words, with a CRC of 27 bits that needs no table.

#![no_std]
#![forbid(unsafe_code)]

/// The field of 2 bytes at `at`.
#[inline]
pub fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

/// The field of 4 bytes at `at`.
#[inline]
pub fn get_u32(b: &[u8], at: usize) -> u32 {
    let b = &b[at..at + 4];
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

/// The field of 8 bytes at `at`.
#[inline]
pub fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::from(get_u32(b, at)) | u64::from(get_u32(b, at + 4)) << 32
}

/// Sets the field of 2 bytes at `at`.
#[inline]
pub fn put_u16(b: &mut [u8], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_le_bytes());
}

/// Sets the field of 4 bytes at `at`.
#[inline]
pub fn put_u32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// Sets the field of 8 bytes at `at`.
#[inline]
pub fn put_u64(b: &mut [u8], at: usize, v: u64) {
    b[at..at + 8].copy_from_slice(&v.to_le_bytes());
}

/// Copies bytes to the beginning of `to`; behind them it is erased. `to` is as long at least.
pub fn copy_erasing(to: &mut [u8], from: &[u8]) {
    let (written, rest) = to.split_at_mut(from.len());
    written.copy_from_slice(from);
    rest.fill(0xff);
}

/// CRC-32C.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_of_two(bytes, &[])
}

/// CRC-32C of two slices in sequence.
#[inline]
pub fn crc32c_of_two(a: &[u8], b: &[u8]) -> u32 {
    #[cfg(feature = "std")]
    let crc = ::crc32c::crc32c_append(::crc32c::crc32c(a), b);
    #[cfg(all(not(feature = "std"), not(feature = "small-table")))]
    let crc = by_table(a, b);
    #[cfg(all(not(feature = "std"), feature = "small-table"))]
    let crc = by_small_table(a, b);
    crc
}

#[cfg(any(test, not(any(feature = "std", feature = "small-table"))))]
const LANES: usize = if cfg!(feature = "wide-table") { 16 } else { 1 };
/// For processors without an instruction for it, or of which that is not known.
#[cfg(any(test, not(any(feature = "std", feature = "small-table"))))]
static CRC32C: crc::Crc<u32, crc::Table<LANES>> =
    crc::Crc::<u32, crc::Table<LANES>>::new(&crc::CRC_32_ISCSI);

#[cfg(any(test, not(any(feature = "std", feature = "small-table"))))]
fn by_table(a: &[u8], b: &[u8]) -> u32 {
    let mut digest = CRC32C.digest();
    digest.update(a);
    digest.update(b);
    digest.finalize()
}

/// What becomes of a CRC-32C by half a byte.
#[cfg(any(test, all(not(feature = "std"), feature = "small-table")))]
static OF_HALF: [u32; 16] = {
    let mut table = [0; 16];
    let mut n = 0;
    while n < 16 {
        let (mut crc, mut bit) = (n as u32, 0);
        while bit < 4 {
            // The polynomial, reflected.
            crc = crc >> 1 ^ 0x82f6_3b78 & (crc & 1).wrapping_neg();
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

#[cfg(any(test, all(not(feature = "std"), feature = "small-table")))]
fn by_small_table(a: &[u8], b: &[u8]) -> u32 {
    let half = |crc: u32, n: u32| crc >> 4 ^ OF_HALF[((crc ^ n) & 15) as usize];
    let crc = a.iter().chain(b).fold(u32::MAX, |crc, &byte| {
        let byte = u32::from(byte);
        half(half(crc, byte), byte >> 4)
    });
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value is the catalogue's
    /// (<https://reveng.sourceforge.io/crc-catalogue/17plus.htm>).
    #[test]
    fn the_instruction_and_the_tables_agree() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let bytes: [u8; 300] = core::array::from_fn(|i| (i * 7) as u8);
        for n in 0..300 {
            let (a, b) = bytes.split_at(n);
            assert_eq!(crc32c_of_two(a, b), by_table(a, b), "{n}");
            assert_eq!(by_small_table(a, b), by_table(a, b), "{n}");
            assert_eq!(crc32c_of_two(a, b), crc32c(&bytes), "{n}");
            assert_eq!(crc32c(a), CRC32C.checksum(a), "{n}");
        }
    }

    #[test]
    fn fields_come_back() {
        let mut bytes = [0; 15];
        put_u16(&mut bytes, 0, 0x0201);
        put_u32(&mut bytes, 2, 0x0605_0403);
        put_u64(&mut bytes, 6, 0x0e0d_0c0b_0a09_0807);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0]);
        assert_eq!(get_u16(&bytes, 0), 0x0201);
        assert_eq!(get_u32(&bytes, 2), 0x0605_0403);
        assert_eq!(get_u64(&bytes, 6), 0x0e0d_0c0b_0a09_0807);
    }
}

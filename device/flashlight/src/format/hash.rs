//! Checksums and name hashes.

use core::hash::Hasher;
use siphasher::sip::SipHasher13;

/// CRC-32C of two slices in sequence.
#[inline]
pub(crate) fn crc32c(a: &[u8], b: &[u8]) -> u32 {
    #[cfg(feature = "std")]
    let crc = ::crc32c::crc32c_append(::crc32c::crc32c(a), b);
    #[cfg(not(feature = "std"))]
    let crc = by_table(a, b);
    crc
}

/// The same on processors without an instruction for it, or of which that is not known.
#[cfg(any(test, not(feature = "std")))]
fn by_table(a: &[u8], b: &[u8]) -> u32 {
    use crc::{CRC_32_ISCSI, Crc, Table};
    static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    let mut digest = CRC32C.digest();
    digest.update(a);
    digest.update(b);
    digest.finalize()
}

/// Largest name hash. The value above it sorts records without a name behind all names.
pub(crate) const HASH_MAX: u32 = (1 << 28) - 2;

/// 28-bit hash of a name, keyed by the volume so that collisions cannot be prepared.
#[inline]
pub(crate) fn name_hash(volume: u32, name: &[u8]) -> u32 {
    let mut h = SipHasher13::new_with_keys(u64::from(volume), 0x6c69_6768_7466_6c61);
    h.write(name);
    few((h.finish() % (u64::from(HASH_MAX) + 1)) as u32)
}

/// For tests: so few hashes that most names share theirs with others.
#[cfg(feature = "few-hashes")]
fn few(hash: u32) -> u32 {
    const FEW: u32 = 61;
    hash % FEW * (HASH_MAX / FEW)
}

#[cfg(not(feature = "few-hashes"))]
fn few(hash: u32) -> u32 {
    hash
}

/// Key of an inode number in the index directory.
pub(crate) fn ino_hash(volume: u32, ino: u32) -> u32 {
    name_hash(volume, &ino.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value is the catalogue's (<https://reveng.sourceforge.io/crc-catalogue/17plus.htm>).
    #[test]
    fn the_instruction_and_the_table_agree() {
        assert_eq!(crc32c(b"1234", b"56789"), 0xe306_9283);
        let bytes: [u8; 300] = core::array::from_fn(|i| (i * 7) as u8);
        for n in 0..300 {
            let (a, b) = bytes.split_at(n);
            assert_eq!(crc32c(a, b), by_table(a, b), "{n}");
            assert_eq!(crc32c(a, &[]), by_table(a, &[]), "{n}");
        }
    }
}

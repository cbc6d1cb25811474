//! Checksums and name hashes.

use core::hash::Hasher;
use crc::{Crc, Table};
use siphasher::sip::SipHasher13;

static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&crc::CRC_32_ISCSI);

/// CRC-32C of two slices in sequence.
pub(crate) fn crc32c(a: &[u8], b: &[u8]) -> u32 {
    let mut digest = CRC32C.digest();
    digest.update(a);
    digest.update(b);
    digest.finalize()
}

/// Largest name hash. The value above it sorts records without a name behind all names.
pub(crate) const HASH_MAX: u32 = (1 << 28) - 2;

/// 28-bit hash of a name, keyed by the volume so that collisions cannot be prepared.
pub(crate) fn name_hash(volume: u32, name: &[u8]) -> u32 {
    let mut h = SipHasher13::new_with_keys(u64::from(volume), 0x6c69_6768_7466_6c61);
    h.write(name);
    (h.finish() % (u64::from(HASH_MAX) + 1)) as u32
}

/// Key of an inode number in the index directory.
pub(crate) fn ino_hash(volume: u32, ino: u32) -> u32 {
    name_hash(volume, &ino.to_le_bytes())
}

//! Checksums and name hashes.

use core::hash::Hasher;
use siphasher::sip::SipHasher13;

pub(crate) use flashkit_bytes::crc32c_of_two as crc32c;

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

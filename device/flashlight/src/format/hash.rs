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
    few(folded(h.finish()))
}

/// The rest of a division by 2^28 - 1, without one: on a small processor that is a long routine.
fn folded(hash: u64) -> u32 {
    const ALL: u64 = HASH_MAX as u64 + 1;
    let once = (hash & ALL) + (hash >> 28 & ALL) + (hash >> 56);
    let twice = (once & ALL) + (once >> 28);
    if twice == ALL { 0 } else { twice as u32 }
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

    /// The hash is of the format: with another one no name of an older volume is found.
    #[test]
    #[cfg(not(feature = "few-hashes"))]
    fn names_of_older_volumes_are_found() {
        assert_eq!(name_hash(0, b""), 63_511_188);
        assert_eq!(name_hash(0x0123_4567, b"name"), 35_659_222);
        assert_eq!(ino_hash(0x0123_4567, 7), 210_981_355);
        assert_eq!(ino_hash(1, 7), name_hash(1, &[7, 0, 0, 0]));
    }

    #[test]
    fn a_folded_hash_is_the_rest_of_the_division() {
        let all = u64::from(HASH_MAX) + 1;
        let mut hash = 0x9e37_79b9_7f4a_7c15u64;
        let edges = [
            0,
            1,
            all - 1,
            all,
            all + 1,
            2 * all,
            1 << 56,
            u64::MAX - 1,
            u64::MAX,
        ];
        let drawn = (0..10_000).map(|_| {
            hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            hash
        });
        for hash in edges.into_iter().chain(drawn) {
            assert_eq!(u64::from(folded(hash)), hash % all, "{hash:x}");
        }
    }

    #[test]
    fn the_volume_decides_on_the_hash() {
        let alike = |name: &[u8]| name_hash(1, name) == name_hash(2, name);
        let names = (0..100u32).map(u32::to_le_bytes);
        assert!(names.filter(|name| alike(name)).count() < 10);
    }

    #[test]
    fn no_name_has_the_hash_of_a_record_without_one() {
        for n in 0..10_000u32 {
            assert!(name_hash(n, &n.to_le_bytes()) <= HASH_MAX);
        }
    }
}

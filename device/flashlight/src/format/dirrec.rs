//! Directory entries: records of a DirInode's log and of hash maps.
//!
//! ```text
//! 0  hash (28 bits) << 4 | state (2 bits) << 2 | kind (2 bits)
//! 4  pointer u32
//! ```
//!
//! The hash is of the name; the name itself is in the inode. In the log, NEW is a name that no
//! hash map holds, UPDATE and DELETE change or hide the one entry of that hash in the hash map;
//! GONE hides the entry of that hash there that has its pointer, where there may be several.
//! In a hash map every state is NEW. FREED is no entry: it says, in the page that makes it
//! durable, that an object's life has ended since the page before; its hash is above all hashes.
//! GONE is the same code with a hash of a name.

use crate::format::fields::get_u32;
use crate::format::inode::{DirView, FLAG_SHARED};
use flashkit_bytes::put_u32;

/// Bytes of a record.
pub(crate) const SIZE: usize = 8;
/// Shift from a record's first word to its hash.
pub(crate) const HASH_SHIFT: u32 = 4;
/// Hash of a record that is no entry.
pub(crate) const NO_HASH: u32 = (1 << 28) - 1;

/// What the pointer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Target {
    /// A FileInode's page, directly; all ones while it is only in RAM.
    File = 0,
    /// A directory's number: found through the DirInode map.
    Dir = 1,
    /// A file's number: found through the index directory.
    Indirect = 2,
    /// In the index directory: the page of a file without a name. In FREED: a map page.
    Orphan = 3,
}

/// RecState of a log record (paper, Figure 6a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RecState {
    New = 0,
    Update = 1,
    Delete = 2,
    Freed = 3,
    Gone = 7,
}

/// Bits of a state on flash.
const STATE_MASK: u32 = 3;

/// A directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirRec {
    pub hash: u32,
    pub state: RecState,
    pub target: Target,
    pub ptr: u32,
}

impl DirRec {
    pub fn new(hash: u32, state: RecState, target: Target, ptr: u32) -> DirRec {
        DirRec {
            hash,
            state,
            target,
            ptr,
        }
    }

    #[inline]
    pub fn decode(b: &[u8]) -> DirRec {
        let word = get_u32(b, 0);
        let hash = word >> HASH_SHIFT;
        DirRec {
            hash,
            state: match word >> 2 & 3 {
                0 => RecState::New,
                1 => RecState::Update,
                2 => RecState::Delete,
                _ if hash == NO_HASH => RecState::Freed,
                _ => RecState::Gone,
            },
            target: match word & 3 {
                0 => Target::File,
                1 => Target::Dir,
                2 => Target::Indirect,
                _ => Target::Orphan,
            },
            ptr: get_u32(b, 4),
        }
    }

    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        put_u32(
            &mut b,
            0,
            self.hash << HASH_SHIFT | (self.state as u32 & STATE_MASK) << 2 | self.target as u32,
        );
        put_u32(&mut b, 4, self.ptr);
        b
    }

    /// Whether this is a name.
    pub fn is_entry(&self) -> bool {
        matches!(self.state, RecState::New | RecState::Update)
    }

    /// Whether two records mean the same object.
    pub fn same_object(&self, target: Target, ptr: u32) -> bool {
        self.target == target && self.ptr == ptr
    }

    /// Whether two records of one hash mean the same entry: a file's page is one, with a name or
    /// without.
    pub fn same_entry(&self, other: &DirRec) -> bool {
        let kind = |target| match target {
            Target::Orphan => Target::File,
            target => target,
        };
        self.hash == other.hash && self.ptr == other.ptr && kind(self.target) == kind(other.target)
    }
}

impl DirView<'_> {
    /// Whether the log says that an entry of a hash map is not one any more, or is another.
    pub(crate) fn hides(&self, entry: &DirRec) -> bool {
        (self.record_search(entry.hash, HASH_SHIFT)..self.records())
            .map(|r| DirRec::decode(self.record(r)))
            .take_while(|rec| rec.hash == entry.hash)
            .any(|rec| match rec.state {
                RecState::New | RecState::Freed => false,
                RecState::Update | RecState::Delete => true,
                RecState::Gone => rec.same_entry(entry),
            })
    }

    /// Whether a hash map may hold several entries of one hash.
    pub(crate) fn is_shared(&self) -> bool {
        self.flags() & FLAG_SHARED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let r = DirRec::new(0xabc_def0, RecState::Update, Target::Indirect, 77);
        assert_eq!(r.encode(), [0x06, 0xef, 0xcd, 0xab, 77, 0, 0, 0]);
        assert_eq!(DirRec::decode(&r.encode()), r);
        for (hash, state) in [(5, RecState::Gone), (NO_HASH, RecState::Freed)] {
            let r = DirRec::new(hash, state, Target::File, 9);
            assert_eq!(DirRec::decode(&r.encode()), r);
        }
        assert_eq!(NO_HASH, crate::format::hash::HASH_MAX + 1);
    }

    const TARGETS: [Target; 4] = [Target::File, Target::Dir, Target::Indirect, Target::Orphan];

    #[test]
    fn no_state_and_no_target_is_taken_for_another() {
        for target in TARGETS {
            for state in [
                RecState::New,
                RecState::Update,
                RecState::Delete,
                RecState::Gone,
            ] {
                let r = DirRec::new(NO_HASH - 1, state, target, u32::MAX);
                assert_eq!(DirRec::decode(&r.encode()), r);
            }
            let freed = DirRec::new(NO_HASH, RecState::Freed, target, 3);
            assert_eq!(DirRec::decode(&freed.encode()), freed);
        }
    }

    #[test]
    fn an_end_of_life_and_a_hidden_name_differ_by_the_hash_alone() {
        let bytes = |hash| DirRec::new(hash, RecState::Freed, Target::File, 9).encode();
        assert_eq!(DirRec::decode(&bytes(NO_HASH)).state, RecState::Freed);
        assert_eq!(DirRec::decode(&bytes(NO_HASH - 1)).state, RecState::Gone);
    }

    /// What a damaged page says is written back as it was: a record moved is not changed.
    #[test]
    fn any_bytes_come_back() {
        let mut word = 0x9e37_79b9u32;
        for _ in 0..1000 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut b = [0x5a; SIZE];
            put_u32(&mut b, 0, word);
            assert_eq!(DirRec::decode(&b).encode(), b, "{word:x}");
        }
    }

    #[test]
    fn what_hides_a_name_is_none() {
        let is = |state| DirRec::new(1, state, Target::File, 2).is_entry();
        assert!(is(RecState::New) && is(RecState::Update));
        assert!(!is(RecState::Delete) && !is(RecState::Gone) && !is(RecState::Freed));
    }

    #[test]
    fn a_file_that_lost_its_name_is_the_same_entry_and_nothing_else_is() {
        let r = |hash, target, ptr| DirRec::new(hash, RecState::New, target, ptr);
        let file = r(1, Target::File, 2);
        assert!(file.same_entry(&r(1, Target::Orphan, 2)));
        assert!(!file.same_object(Target::Orphan, 2));
        for other in [
            r(1, Target::Dir, 2),
            r(1, Target::Indirect, 2),
            r(1, Target::File, 3),
            r(2, Target::File, 2),
        ] {
            assert!(
                !file.same_entry(&other) && !other.same_entry(&file),
                "{other:?}"
            );
        }
    }
}

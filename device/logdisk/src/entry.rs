//! Block information entry: whose data a block holds, and how far its writing has got.
//!
//! ```text
//! 0      3         4           5           6         7
//! | sector | check | allocated | pre-valid | invalid | valid |
//! ```
//!
//! All `0xFF` is a free block. The sector is little-endian; the check is a CRC-8 of it. A flag is
//! set by programming its byte from `0xFF` to 0; *invalid* in two steps, high nibble first.
//!
//! The order is the paper's (2.4): allocated; sector, then data; pre-valid; *invalid* of the block
//! that held the sector before; valid. What a power cut leaves of a flag is neither set nor clear:
//!
//! | what is read | what it is | what a mount does |
//! | --- | --- | --- |
//! | all `0xFF` | free | |
//! | *invalid* set | a dead block | |
//! | *invalid* begun, its high nibble 0 | an invalidation that was cut | finishes it |
//! | *invalid* begun in part | not invalid | moves what is valid elsewhere |
//! | *pre-valid* and *valid* set | the sector's data | |
//! | *pre-valid* set, *valid* not | new data, whole | steps 4 and 5 |
//! | anything before | a write that was cut | *invalid* |
//!
//! Why two steps: a bit that a cut left between 0 and 1 may read as 0 at one mount and as 1 at the
//! next. An *invalid* byte that reads as wholly 0 was cut in its second step at the earliest, so
//! its first step stands for good. Some of the high nibble's bits may have read as 1 at the mount
//! before, which took the block for valid; so does this one, and moves it to one that is.
//! *Pre-valid* is programmed again before anything follows from it. *Valid* that is lost again
//! leaves a block that the next mount completes once more.

/// Bytes of an entry.
pub(crate) const ENTRY_LEN: u32 = 8;

/// Offsets of the flags.
pub(crate) const ALLOCATED: u32 = 4;
pub(crate) const PRE_VALID: u32 = 5;
pub(crate) const INVALID: u32 = 6;
pub(crate) const VALID: u32 = 7;

/// A flag's byte, set.
pub(crate) const SET: u8 = 0;
/// The *invalid* flag after its first step.
pub(crate) const BEGUN: u8 = 0x0F;
const CLEAR: u8 = 0xFF;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Free,
    /// Its write was cut before *pre-valid*, or its invalidation was: to be invalidated.
    Dying,
    /// Invalid.
    Dead,
    /// Holds whole data of this sector; steps 4 and 5 are to be done.
    PreValid(u32),
    /// Holds this sector.
    Valid(u32),
    /// Nothing that this driver writes.
    Damaged,
}

/// The bytes of the sector number.
pub(crate) fn encode_sector(sector: u32) -> [u8; 4] {
    let [a, b, c, _] = sector.to_le_bytes();
    [a, b, c, crc8(&[a, b, c])]
}

/// CRC-8 with polynomial x^8 + x^2 + x + 1, inverted, so that zeros do not check.
fn crc8(bytes: &[u8]) -> u8 {
    let mut crc = 0xFF;
    for byte in bytes {
        crc ^= byte;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x80 != 0 { 0x07 } else { 0 };
        }
    }
    !crc
}

impl Entry {
    /// Reads an entry of a disk with so many sectors.
    pub fn decode(bytes: &[u8; ENTRY_LEN as usize], sectors: u32) -> Entry {
        let [a, b, c, check, allocated, pre_valid, invalid, valid] = *bytes;
        if *bytes == [CLEAR; ENTRY_LEN as usize] {
            return Entry::Free;
        }
        // Each step begins only when the one before it is complete.
        let untouched = [a, b, c, check] == [CLEAR; 4];
        let in_order = (allocated == SET || untouched && pre_valid == CLEAR)
            && (pre_valid == SET || valid == CLEAR);
        if !in_order {
            return Entry::Damaged;
        }
        match invalid {
            SET => return Entry::Dead,
            CLEAR => {}
            _ if Entry::is_begun_in_part(bytes) => {}
            _ => return Entry::Dying,
        }
        if pre_valid != SET {
            return Entry::Dying;
        }
        let sector = u32::from_le_bytes([a, b, c, 0]);
        if check != crc8(&[a, b, c]) || sector >= sectors {
            return Entry::Damaged;
        }
        if valid == SET {
            Entry::Valid(sector)
        } else {
            Entry::PreValid(sector)
        }
    }

    /// Whether some bits of the first step of *invalid* are programmed, and others are not.
    pub fn is_begun_in_part(bytes: &[u8; ENTRY_LEN as usize]) -> bool {
        let invalid = bytes[INVALID as usize];
        invalid != CLEAR && invalid | BEGUN != BEGUN && invalid & BEGUN == BEGUN
    }

    /// The sector that a damaged entry names, if its check says so.
    pub fn named(bytes: &[u8; ENTRY_LEN as usize], sectors: u32) -> Option<u32> {
        let sector = Entry::sector(bytes);
        (encode_sector(sector) == bytes[..4] && sector < sectors).then_some(sector)
    }

    /// The sector that an entry names, for the blocks that the translation table points to.
    pub fn sector(bytes: &[u8; ENTRY_LEN as usize]) -> u32 {
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sector: u32, flags: [u8; 4]) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&encode_sector(sector));
        bytes[4..].copy_from_slice(&flags);
        bytes
    }

    #[test]
    fn every_step_of_a_write_decodes() {
        let decode = |flags| Entry::decode(&entry(0x1234, flags), 0x2000);
        assert_eq!(Entry::decode(&[0xFF; 8], 9), Entry::Free);
        let mut allocated = [0xFF; 8];
        allocated[4] = 0x3C;
        assert_eq!(Entry::decode(&allocated, 9), Entry::Dying);
        assert_eq!(decode([0, 0xFF, 0xFF, 0xFF]), Entry::Dying);
        assert_eq!(decode([0, 0x10, 0xFF, 0xFF]), Entry::Dying);
        assert_eq!(decode([0, 0, 0xFF, 0xFF]), Entry::PreValid(0x1234));
        assert_eq!(decode([0, 0, 0xFF, 0x80]), Entry::PreValid(0x1234));
        assert_eq!(decode([0, 0, 0xFF, 0]), Entry::Valid(0x1234));
        assert_eq!(decode([0, 0, 0x4F, 0]), Entry::Valid(0x1234));
        assert_eq!(decode([0, 0, 0xEF, 0xFF]), Entry::PreValid(0x1234));
        assert_eq!(decode([0, 0, 0x0F, 0]), Entry::Dying);
        assert_eq!(decode([0, 0, 0x05, 0]), Entry::Dying);
        assert_eq!(decode([0, 0xFF, 0x4F, 0xFF]), Entry::Dying);
        assert_eq!(decode([0, 0, 0, 0]), Entry::Dead);
        assert_eq!(decode([0, 0xFF, 0, 0xFF]), Entry::Dead);
    }

    #[test]
    fn what_no_cut_leaves_is_damage() {
        let decode = |flags| Entry::decode(&entry(7, flags), 8);
        assert_eq!(decode([0xFF, 0xFF, 0xFF, 0xFF]), Entry::Damaged);
        assert_eq!(decode([0, 0xFF, 0xFF, 0]), Entry::Damaged);
        assert_eq!(decode([0x7F, 0, 0xFF, 0]), Entry::Damaged);
        assert_eq!(Entry::decode(&entry(8, [0, 0, 0xFF, 0]), 8), Entry::Damaged);
        let mut flipped = entry(7, [0, 0, 0xFF, 0]);
        for bit in 0..32 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Entry::decode(&flipped, 1 << 24),
                Entry::Damaged,
                "bit {bit}"
            );
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Entry::decode(&[0; 8], 8), Entry::Dead);
    }
}

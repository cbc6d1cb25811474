//! Changes of a chip that know where a log disk has its records, with checks made right again.
//!
//! An edit is ten bytes: what to do, in which segment, which entry or intent of it, which field,
//! which kind of value, and five more for that.

use flashkit_nor::ReadNorFlash;

use super::chip::{Chip, SEGMENT, SEGMENTS};
use crate::input::EDIT;

const HEADER: usize = 32;
const CRC_AT: usize = 28;
const ENTRIES_AT: usize = 64;
const ENTRY: usize = 8;
const INTENT: usize = 12;
/// Entries of a segment.
const BLOCKS: usize = 7;
/// Fields of a header, and their bytes.
const FIELDS: [(usize, usize); 10] = [
    (0, 4),
    (4, 1),
    (5, 1),
    (6, 2),
    (8, 2),
    (10, 2),
    (12, 2),
    (16, 4),
    (20, 4),
    (24, 4),
];

/// Applies an edit.
pub fn apply(chip: &mut Chip, edit: &[u8; EDIT]) {
    let segment = usize::from(edit[1]) % SEGMENTS as usize;
    let mut bytes = vec![0; SEGMENT];
    let at = (segment * SEGMENT) as u32;
    chip.read(at, &mut bytes).expect("no bank erases");
    let args = u32::from_le_bytes([edit[6], edit[7], edit[8], edit[9]]);
    match edit[0] % 12 {
        0..=2 => set_field(&mut bytes, edit, args),
        3 | 4 => set_intent(&mut bytes, edit, args, segment),
        5 | 6 => set_flags(entry(&mut bytes, edit[2]), edit),
        7 | 8 => set_sector(entry(&mut bytes, edit[2]), edit, args),
        9 => {
            // Another segment's bytes, in whole or up to its entries.
            let from = usize::from(edit[6]) % SEGMENTS as usize;
            let len = [HEADER, ENTRIES_AT, ENTRIES_AT + ENTRY * BLOCKS, SEGMENT];
            let len = len[usize::from(edit[3]) % len.len()];
            let read = chip.read((from * SEGMENT) as u32, &mut bytes[..len]);
            read.expect("no bank erases");
        }
        10 => {
            let from = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % SEGMENT;
            let len = 1 + usize::from(edit[5]) * 16;
            let to = (from + len).min(SEGMENT);
            bytes[from..to].fill(edit[4]);
        }
        // Not made right again: what rots.
        _ => {
            let bit = usize::from(u16::from_le_bytes([edit[2], edit[3]])) % (8 * 128);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    for (at, byte) in (at..).zip(bytes) {
        chip.corrupt(at, |_| byte);
    }
}

fn entry(bytes: &mut [u8], n: u8) -> &mut [u8] {
    let at = ENTRIES_AT + usize::from(n) % BLOCKS * ENTRY;
    &mut bytes[at..at + ENTRY]
}

fn value(edit: &[u8; EDIT], args: u32, now: u32) -> u32 {
    match edit[5] % 10 {
        0 => 0,
        1 => 1,
        2 => u32::MAX,
        3 => u32::MAX - 1,
        4 => now.wrapping_add(1),
        5 => now.wrapping_sub(1),
        6 => now ^ 1 << (args % 32),
        7 => args & 0xff,
        8 => now.wrapping_add(args & 0xff),
        _ => args,
    }
}

fn set_field(bytes: &mut [u8], edit: &[u8; EDIT], args: u32) {
    let (at, width) = FIELDS[usize::from(edit[3]) % FIELDS.len()];
    let mut word = [0; 4];
    word[..width].copy_from_slice(&bytes[at..at + width]);
    let new = value(edit, args, u32::from_le_bytes(word)).to_le_bytes();
    bytes[at..at + width].copy_from_slice(&new[..width]);
    let crc = crc32(&bytes[..CRC_AT]);
    bytes[CRC_AT..HEADER].copy_from_slice(&crc.to_le_bytes());
}

/// An intent: of which erase, of which segment, done or not.
fn set_intent(bytes: &mut [u8], edit: &[u8; EDIT], args: u32, segment: usize) {
    let at = HEADER + usize::from(edit[2]) % 2 * INTENT;
    let intent = &mut bytes[at..at + INTENT];
    let now = u32::from_le_bytes([intent[0], intent[1], intent[2], intent[3]]);
    intent[..4].copy_from_slice(&value(edit, args, now).to_le_bytes());
    let target = match edit[3] {
        0xf0.. => u16::from_le_bytes([edit[3], edit[4]]),
        n => u16::from(n) % (SEGMENTS as u16 + 2),
    };
    intent[4..6].copy_from_slice(&target.to_le_bytes());
    let keyed = [&intent[..6], &(segment as u16).to_le_bytes()].concat();
    intent[6..8].copy_from_slice(&(crc32(&keyed) as u16).to_le_bytes());
    intent[8..].fill(if edit[4].is_multiple_of(4) { 0 } else { 0xff });
}

fn set_flags(entry: &mut [u8], edit: &[u8; EDIT]) {
    let values = [0, 0xff, 0x0f, 0x4f, 0x7f, 0xf0, edit[6], edit[7]];
    match edit[3] % 8 {
        // One of them, or all.
        n @ 0..4 => entry[4 + usize::from(n)] = values[usize::from(edit[5]) % values.len()],
        4 => entry[4..].copy_from_slice(&[0, 0, 0xff, 0]),
        5 => entry[4..].copy_from_slice(&[0, 0, 0xff, 0xff]),
        6 => entry.fill(0xff),
        _ => entry[4..].copy_from_slice(&edit[6..]),
    }
}

fn set_sector(entry: &mut [u8], edit: &[u8; EDIT], args: u32) {
    let now = u32::from_le_bytes([entry[0], entry[1], entry[2], 0]);
    let sector = match edit[3] % 2 {
        0 => u32::from(edit[4]) % 52,
        _ => value(edit, args, now),
    };
    entry[..3].copy_from_slice(&sector.to_le_bytes()[..3]);
    entry[3] = crc8(&entry[..3]);
}

/// CRC-32 as in Ethernet and zlib.
fn crc32(bytes: &[u8]) -> u32 {
    crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(bytes)
}

/// CRC-8 with polynomial x^8 + x^2 + x + 1 from all ones on, inverted.
fn crc8(bytes: &[u8]) -> u8 {
    const LOGDISK: crc::Algorithm<u8> = crc::Algorithm {
        init: 0xff,
        xorout: 0xff,
        check: 0,
        ..crc::CRC_8_SMBUS
    };
    crc::Crc::<u8>::new(&LOGDISK).checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nor::chip::stored;

    /// An edit that sets what is there already changes no byte: so the checks are the disk's.
    #[test]
    fn checks_are_made_as_the_disk_makes_them() {
        let (chip, _) = stored().last().unwrap();
        let mut edited = chip.clone();
        for segment in 0..SEGMENTS as u8 {
            let keeps = [0, segment, 0, 1, 0, 8, 0, 0, 0, 0];
            apply(&mut edited, &keeps);
            for n in 0..BLOCKS as u8 {
                let mut old = [0; ENTRY];
                let at = usize::from(segment) * SEGMENT + ENTRIES_AT + usize::from(n) * ENTRY;
                edited.read(at as u32, &mut old).unwrap();
                if old[4] == 0 && old[5] == 0 {
                    apply(&mut edited, &[7, segment, n, 1, 0, 8, 0, 0, 0, 0]);
                }
            }
        }
        assert_eq!(edited.digest(), chip.digest());
    }
}

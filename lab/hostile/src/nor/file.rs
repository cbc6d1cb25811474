//! The image file of a NOR chip, changed: header, table and journal.

use std::io::Write;

use flashkit_sim::Access;

use super::chip::{Chip, SEGMENT, SEGMENTS};
use crate::input::EDIT;

const HEADER: usize = 128;
const CRC_AT: usize = 124;
const TABLE_AT: usize = 4096;
/// Where the segments begin, and the journal.
const BODY_AT: usize = 2 * 4096;
const JOURNAL_AT: usize = BODY_AT + SEGMENTS as usize * SEGMENT;
/// Fields of the header, and their bytes.
const FIELDS: [(usize, usize); 12] = [
    (8, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 8),
    (56, 4),
    (60, 4),
    (64, 8),
    (120, 4),
];

/// The chip, stored in a file that edits have changed, and opened again, to be distrusted like any
/// that comes from a file. `None`: it is refused.
pub fn reopened(chip: &Chip, edits: &[&[u8; EDIT]]) -> Option<Chip> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut bytes = stored(chip);
    edits.iter().for_each(|edit| change(&mut bytes, edit));
    file.as_file().write_all(&bytes).expect("room");
    let access = match edits.first() {
        Some(edit) if edit[9] % 2 == 1 => Access::ReadWrite,
        _ => Access::ReadOnlyCow,
    };
    let opened = Chip::open(file.path(), access);
    assert!(opened.is_ok() || !edits.is_empty(), "{opened:?}");
    let mut chip = opened.ok()?;
    if !edits.is_empty() {
        chip.distrust();
    }
    Some(chip)
}

/// What the file of a chip holds that is closed.
fn stored(chip: &Chip) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    drop(Chip::create(file.path(), chip.spec().clone()).expect("room"));
    let mut bytes = std::fs::read(file.path()).expect("an image");
    assert_eq!(bytes.len(), JOURNAL_AT);
    let mut held = vec![0; SEGMENT * SEGMENTS as usize];
    let read = flashkit_nor::ReadNorFlash::read(&mut chip.clone(), 0, &mut held);
    // A segment that was being erased when the power was cut is read as it was left.
    read.expect("no bank erases");
    for (to, byte) in bytes[BODY_AT..].iter_mut().zip(held) {
        *to = !byte;
    }
    for (n, erases) in chip.erase_counts().into_iter().enumerate() {
        bytes[TABLE_AT + 8 * n..][..4].copy_from_slice(&erases.to_le_bytes());
    }
    bytes
}

/// One change: where, which field or byte, which value.
fn change(bytes: &mut Vec<u8>, edit: &[u8; EDIT]) {
    let args = u64::from_le_bytes([edit[4], edit[5], edit[6], edit[7], 0, 0, 0, 0]);
    let value = match edit[3] % 6 {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> (args % 64),
        3 => 1 << (args % 64),
        4 => args % 16,
        _ => args,
    };
    let at = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
    match edit[0] % 8 {
        0 | 1 => {
            let (at, width) = FIELDS[at % FIELDS.len()];
            set(bytes, at, &value.to_le_bytes()[..width]);
            seal(bytes);
        }
        2 => set(bytes, TABLE_AT + at % (8 * SEGMENTS as usize), &[edit[4]]),
        3 => set(bytes, at % HEADER, &[edit[4]]),
        4 | 5 => set(bytes, BODY_AT + at % (JOURNAL_AT - BODY_AT), &[edit[4]]),
        6 => journal(bytes, edit, value as u32),
        _ => bytes.truncate(at.max(HEADER)),
    }
}

fn set(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + new.len()) {
        to.copy_from_slice(new);
    }
}

fn seal(bytes: &mut [u8]) {
    if bytes.len() >= HEADER {
        let crc = crc32(&bytes[..CRC_AT]);
        bytes[CRC_AT..HEADER].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Puts a record into the journal, behind those that are there, with a chain that holds.
fn journal(bytes: &mut Vec<u8>, edit: &[u8; EDIT], place: u32) {
    if bytes.len() < JOURNAL_AT {
        return;
    }
    set(bytes, 8, &2u32.to_le_bytes());
    seal(bytes);
    let mut chain = word(bytes, 96);
    let mut at = JOURNAL_AT;
    while at + 16 <= bytes.len() {
        chain = word(bytes, at);
        at += 16 + word(bytes, at + 12) as usize;
    }
    let kind = u32::from(edit[8] % 5);
    let len = match edit[9] % 4 {
        0 | 1 => 8,
        2 => usize::from(edit[4]),
        _ => SEGMENT + usize::from(edit[4] % 2),
    };
    let place = match edit[8] >> 6 {
        0 => u32::from(edit[1]) % SEGMENTS,
        1 => u32::from(u16::from_le_bytes([edit[1], edit[2]])),
        2 => SEGMENTS * SEGMENT as u32 - u32::from(edit[1]),
        _ => place,
    };
    let mut record = Vec::new();
    for number in [kind, place, len as u32] {
        record.extend(number.to_le_bytes());
    }
    record.resize(12 + len, edit[5]);
    let chain = crc32_on(chain, &record);
    bytes.extend(chain.to_le_bytes());
    bytes.extend(record);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn crc32(bytes: &[u8]) -> u32 {
    crc32_on(0, bytes)
}

/// The CRC-32 of Ethernet and zlib, continued.
fn crc32_on(crc: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!crc, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nor::chip::stored;

    #[test]
    fn a_chip_comes_back_and_a_journal_counts() {
        for (chip, _) in stored() {
            let again = reopened(chip, &[]).unwrap();
            assert_eq!(again.erase_counts(), chip.erase_counts());
        }
        let (chip, _) = &stored()[0];
        // Bytes 3 of the chip on, and a second erase of segment 2.
        let edits = [
            [6, 3, 0, 0, 9, 7, 0, 0, 1, 2],
            [6, 2, 0, 0, 5, 0, 0, 0, 3, 0],
        ];
        let mut again = reopened(chip, &edits.each_ref()).unwrap();
        let mut held = [0; 12];
        flashkit_nor::ReadNorFlash::read(&mut again, 2, &mut held).unwrap();
        assert_eq!(held[1..10], [7; 9]);
        assert_ne!((held[0], held[10]), (7, 7));
    }
}

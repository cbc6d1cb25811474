//! Words of 32 bits in bytes, little-endian, and their CRC.

use crc::{CRC_32_ISCSI, Crc};

static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    CRC32C.checksum(bytes)
}

pub(crate) fn get(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

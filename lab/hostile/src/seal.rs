//! Checksums of changed pages, made right again: a fuzzer that had to guess them would see nothing
//! of what is behind them.

use crc::{CRC_32_ISCSI, Crc};

const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Bytes of a metadata page's header.
pub const HEADER: usize = 32;
/// Bytes of a data page's tag.
pub const TAG: usize = 24;

/// The 2 bytes at `at`.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The 4 bytes at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// Whether a page begins as a metadata page does.
pub fn is_metadata(page: &[u8]) -> bool {
    page.len() > HEADER && page[4..6] == *b"FL"
}

/// Bytes in use by a metadata page's own word, if that is possible.
pub fn used(page: &[u8]) -> usize {
    usize::from(u16_at(page, 24)).clamp(HEADER, page.len())
}

/// Makes the checksum of a metadata page right.
pub fn seal(page: &mut [u8]) {
    let used = used(page);
    let crc = CRC32C.checksum(&page[4..used]);
    page[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the checksum of a data page's tag right.
pub fn seal_data(page: &[u8], spare: &mut [u8]) {
    let Some((tag, _)) = spare.split_at_mut_checked(TAG) else {
        return;
    };
    let mut digest = CRC32C.digest();
    digest.update(page);
    digest.update(&tag[4..]);
    tag[..4].copy_from_slice(&digest.finalize().to_le_bytes());
}

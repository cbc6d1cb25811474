//! The header of a segment, and the erase intents in it.
//!
//! ```text
//!  0  magic "LOGD", u32           16  sectors of the disk, u32
//!  4  version, u8                 20  volume, u32
//!  5  log2 of the sector size, u8 24  erases of the segment, u32
//!  6  blocks of a segment, u16    28  CRC-32 of the 28 bytes before, u32
//!  8  this segment, u16           32  two intents of 12 bytes
//! 10  segments, u16               56  unused, 0xFF
//! 12  banks, u16
//! 14  0, u16
//!
//! intent:  0  erases of that segment when the erase is done, u32
//!          4  the segment to be erased, u16
//!          6  CRC-16 of the 6 bytes before and this segment's number, u16
//!          8  0xFFFFFFFF: under way; anything else: done
//! ```
//!
//! All little-endian. The paper's summary has magic, block count and erase count (2.3); the
//! checksum, the geometry and the volume are ours, so that damage and mistaken chips are told.
//!
//! An erase that is cut leaves anything in its segment, so before it begins an *intent* is written
//! to the header of another segment, in another bank if there is one. A header that does not check
//! is a torn erase if an intent names it, else damage. The intent also keeps the erase count. It is
//! under way while the named segment's count is below the intent's.

/// Bytes of the header, intents included.
pub(crate) const HEADER_LEN: u32 = 64;
/// Bytes of the header proper.
pub(crate) const FIXED_LEN: usize = 32;
/// Intents of a header.
pub(crate) const INTENTS: u32 = 2;
/// Bytes of an intent.
pub(crate) const INTENT_LEN: u32 = 12;
/// Offset of the byte of an intent that is programmed first: the highest of the count, 0 in all.
pub(crate) const FIRST_AT: usize = 3;
/// Offset of the part that says that an intent is done.
pub(crate) const DONE_AT: u32 = 8;

/// Greatest erase count, of which one more can be counted. No chip comes near it.
pub(crate) const ERASES_MAX: u32 = u32::MAX - 1;

const MAGIC: [u8; 4] = *b"LOGD";
const VERSION: u8 = 1;
const CRC_AT: usize = 28;

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub sector_size: u32,
    pub blocks: u32,
    pub segment: u32,
    pub segments: u32,
    pub banks: u32,
    pub sectors: u32,
    pub volume: u32,
    pub erases: u32,
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Magic,
    Checksum,
    Version(u8),
}

impl Header {
    pub fn encode(&self) -> [u8; FIXED_LEN] {
        let mut out = [0; FIXED_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.sector_size.trailing_zeros() as u8;
        for (at, value) in [
            (6, self.blocks),
            (8, self.segment),
            (10, self.segments),
            (12, self.banks),
        ] {
            out[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
        }
        for (at, value) in [(16, self.sectors), (20, self.volume), (24, self.erases)] {
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; FIXED_LEN]) -> Result<Header, HeaderError> {
        if bytes[..4] != MAGIC {
            return Err(HeaderError::Magic);
        }
        if u32_at(bytes, CRC_AT) != crc32(&bytes[..CRC_AT]) {
            return Err(HeaderError::Checksum);
        }
        if bytes[4] != VERSION {
            return Err(HeaderError::Version(bytes[4]));
        }
        if u32_at(bytes, 24) > ERASES_MAX {
            return Err(HeaderError::Checksum);
        }
        Ok(Header {
            sector_size: 1u32.checked_shl(u32::from(bytes[5])).unwrap_or(0),
            blocks: u16_at(bytes, 6),
            segment: u16_at(bytes, 8),
            segments: u16_at(bytes, 10),
            banks: u16_at(bytes, 12),
            sectors: u32_at(bytes, 16),
            volume: u32_at(bytes, 20),
            erases: u32_at(bytes, 24),
        })
    }
}

/// An intent as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Not used yet.
    Blank,
    /// Done, or of no meaning.
    Done,
    /// Torn: to be marked done.
    Torn,
    /// The segment is under erase, unless its count says that the erase is done.
    Open { segment: u32, erases: u32 },
}

impl Intent {
    /// The bytes that announce an erase, in the header of segment `host`.
    pub fn encode(segment: u32, erases: u32, host: u32) -> [u8; DONE_AT as usize] {
        let mut out = [0; DONE_AT as usize];
        out[..4].copy_from_slice(&erases.to_le_bytes());
        out[4..6].copy_from_slice(&(segment as u16).to_le_bytes());
        let crc = Intent::crc(&out, host);
        out[6..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; INTENT_LEN as usize], host: u32) -> Intent {
        if *bytes == [0xFF; INTENT_LEN as usize] {
            return Intent::Blank;
        }
        if bytes[DONE_AT as usize..] != [0xFF; 4] {
            return Intent::Done;
        }
        if u16_at(bytes, 6) != u32::from(Intent::crc(bytes, host)) {
            return Intent::Torn;
        }
        Intent::Open {
            segment: u16_at(bytes, 4),
            erases: u32_at(bytes, 0),
        }
    }

    fn crc(bytes: &[u8], host: u32) -> u16 {
        let mut keyed = [0; 8];
        keyed[..6].copy_from_slice(&bytes[..6]);
        keyed[6..].copy_from_slice(&(host as u16).to_le_bytes());
        crc32(&keyed) as u16
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// CRC-32 as in Ethernet and zlib.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        sector_size: 512,
        blocks: 504,
        segment: 63,
        segments: 64,
        banks: 8,
        sectors: 28_672,
        volume: 0xABCD,
        erases: 77,
    };

    #[test]
    fn header_bytes_are_pinned() {
        let bytes = HEADER.encode();
        assert_eq!(&bytes[..8], b"LOGD\x01\x09\xF8\x01");
        assert_eq!(bytes[8..16], [63, 0, 64, 0, 8, 0, 0, 0]);
        assert_eq!(bytes[16..20], 28_672u32.to_le_bytes());
        assert_eq!(bytes[24..28], 77u32.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
        for bit in 0..FIXED_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn intents_round_trip_and_belong_to_their_segment() {
        let mut bytes = [0xFF; 12];
        assert_eq!(Intent::decode(&bytes, 5), Intent::Blank);
        bytes[..8].copy_from_slice(&Intent::encode(9, 1000, 5));
        let open = Intent::Open {
            segment: 9,
            erases: 1000,
        };
        assert_eq!(Intent::decode(&bytes, 5), open);
        assert_eq!(Intent::decode(&bytes, 6), Intent::Torn);
        bytes[10] = 0;
        assert_eq!(Intent::decode(&bytes, 5), Intent::Done);
    }
}

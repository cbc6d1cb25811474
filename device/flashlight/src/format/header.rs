//! The header of every metadata page.
//!
//! ```text
//!  0      4     6    7      8              16        20       24    26       28       32
//!  +------+-----+----+------+--------------+---------+--------+-----+--------+--------+
//!  | crc  | "FL"|kind| vers | sequence     | address | volume | len | 0      | prev   |
//!  +------+-----+----+------+--------------+---------+--------+-----+--------+--------+
//! ```
//!
//! * `crc`: CRC-32C of bytes 4 to `len`.
//! * `sequence`: grows with every metadata page of the volume. After a clean unmount the numbers
//!   of the anchors written behind the last checkpoint are used again.
//! * `address`: the page the header is in, so that a misplaced page is not believed.
//! * `volume`: drawn at format time; pages of an earlier volume are not believed.
//! * `len`: bytes of the page in use, header included; the rest is not programmed.
//! * `prev`: the page that this one replaces, or all ones.

use crate::error::Damaged;
use crate::format::fields::{get_u8, get_u16, get_u32, get_u64, part};
use crate::format::hash::crc32c;
use flashkit_bytes::{put_u16, put_u32, put_u64};
use flashkit_nand::PageAddr;

/// Bytes of the header.
pub(crate) const HEADER: usize = 32;
/// Where the kind is.
pub(crate) const KIND: usize = 6;
/// Where the sequence number is.
pub(crate) const SEQ: usize = 8;
/// Where the page is that it replaces.
const PREV: usize = 28;
/// Version of the on-flash format.
pub const FORMAT_VERSION: u8 = 1;
/// That of the root pages of a volume whose tags are short: programs that do not know them refuse
/// it. Its other pages are of [`FORMAT_VERSION`].
pub(crate) const SHORT_TAGS: u8 = 2;
/// Largest sequence number that is believed: no volume lives to reach it, and what is added to it
/// does not overflow.
const SEQ_MAX: u64 = 1 << 62;
const MAGIC: u16 = u16::from_le_bytes(*b"FL");

/// What a metadata page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Root = 1,
    Second = 2,
    Checkpoint = 3,
    Alloc = 4,
    Snapshot = 5,
    DirMap = 6,
    Dir = 7,
    HashMap = 8,
    HashIndex = 9,
    File = 10,
    ExtentMap = 11,
    ExtentIndex = 12,
    Names = 13,
    Attributes = 14,
    Places = 15,
    Table = 16,
    Validity = 17,
}

impl Kind {
    /// What is damaged where such a page cannot be read.
    pub const fn damaged(self) -> Damaged {
        match self {
            Kind::Root => Damaged::Root,
            Kind::Second => Damaged::Second,
            Kind::Checkpoint => Damaged::Checkpoint,
            Kind::Alloc | Kind::Snapshot => Damaged::Snapshot,
            Kind::DirMap => Damaged::DirMap,
            Kind::Dir => Damaged::Dir,
            Kind::HashMap => Damaged::HashMap,
            Kind::HashIndex => Damaged::HashIndex,
            Kind::File => Damaged::File,
            Kind::ExtentMap => Damaged::ExtentMap,
            Kind::ExtentIndex => Damaged::ExtentIndex,
            Kind::Names => Damaged::Names,
            Kind::Attributes => Damaged::Attributes,
            Kind::Places => Damaged::Places,
            Kind::Table => Damaged::Table,
            Kind::Validity => Damaged::Validity,
        }
    }

    /// Every kind, by its number on flash.
    pub const ALL: [Kind; 17] = {
        use Kind::*;
        [
            Root,
            Second,
            Checkpoint,
            Alloc,
            Snapshot,
            DirMap,
            Dir,
            HashMap,
            HashIndex,
            File,
            ExtentMap,
            ExtentIndex,
            Names,
            Attributes,
            Places,
            Table,
            Validity,
        ]
    };

    fn from_u8(v: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| *k as u8 == v)
    }
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the page is.
    pub kind: Kind,
    /// Sequence number.
    pub seq: u64,
    /// The volume it belongs to.
    pub volume: u32,
    /// Bytes in use.
    pub len: usize,
    /// The page it replaces.
    pub prev: PageAddr,
}

#[cfg(test)]
pub(crate) fn seal(
    page: &mut [u8],
    kind: Kind,
    seq: u64,
    at: PageAddr,
    volume: u32,
    prev: PageAddr,
) {
    seal_as(FORMAT_VERSION, page, kind, seq, at, volume, prev);
}

/// Writes the header over the first bytes of `page`; `page.len()` is what will be programmed.
pub(crate) fn seal_as(
    version: u8,
    page: &mut [u8],
    kind: Kind,
    seq: u64,
    at: PageAddr,
    volume: u32,
    prev: PageAddr,
) {
    put_u16(page, 4, MAGIC);
    page[KIND] = kind as u8;
    page[7] = version;
    put_u64(page, SEQ, seq);
    put_u32(page, 16, at.0);
    put_u32(page, 20, volume);
    put_u16(page, 24, page.len() as u16);
    put_u16(page, 26, 0);
    put_u32(page, PREV, prev.0);
    let crc = crc32c(&page[4..], &[]);
    put_u32(page, 0, crc);
}

/// Whether a page, as it was read, looks erased.
pub(crate) fn is_blank(page: &[u8]) -> bool {
    part(page, 0, HEADER).iter().all(|&b| b == 0xff)
}

/// The number that the first bytes of a page say, if it is a metadata page, whatever its checksum.
pub(crate) fn seq(page: &[u8]) -> Option<u64> {
    (get_u16(page, 4) == MAGIC).then(|| get_u64(page, SEQ))
}

/// The number of a metadata page.
pub(crate) fn number(page: &[u8]) -> u64 {
    get_u64(page, SEQ)
}

/// The page that a metadata page replaces.
pub(crate) fn prev(page: &[u8]) -> PageAddr {
    PageAddr(get_u32(page, PREV))
}

/// The version of the format that a page says it has.
pub(crate) fn version(page: &[u8]) -> u8 {
    get_u8(page, 7)
}

/// Bytes of a page that its header says are used; of one that is no metadata page, those of a
/// header. The checksum of that covers no others.
pub(crate) fn used(page: &[u8]) -> usize {
    if get_u16(page, 4) == MAGIC {
        usize::from(get_u16(page, 24))
    } else {
        HEADER
    }
}

/// Why a page has no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Not a metadata page, or damaged.
    Invalid,
    /// Intact, of another format version.
    Version(u8),
}

/// Checks the header of a whole page read from `at`.
pub(crate) fn parse(page: &[u8], at: PageAddr) -> Result<Header, Bad> {
    let len = usize::from(get_u16(page, 24));
    if get_u16(page, 4) != MAGIC || len < HEADER || len > page.len() {
        return Err(Bad::Invalid);
    }
    let covered = page.get(4..len).unwrap_or_default();
    if get_u32(page, 0) != crc32c(covered, &[]) || get_u32(page, 16) != at.0 {
        return Err(Bad::Invalid);
    }
    let (kind, version) = (get_u8(page, 6), version(page));
    let is_root = kind == Kind::Root as u8;
    if version != FORMAT_VERSION && !(is_root && version == SHORT_TAGS) {
        return Err(Bad::Version(version));
    }
    let seq = number(page);
    if seq > SEQ_MAX {
        return Err(Bad::Invalid);
    }
    Ok(Header {
        kind: Kind::from_u8(kind).ok_or(Bad::Invalid)?,
        seq,
        volume: get_u32(page, 20),
        len,
        prev: prev(page),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let mut page = [0u8; 64];
        page[40] = 7;
        seal(&mut page, Kind::Dir, 99, PageAddr(5), 0xabcd, PageAddr(3));
        let h = parse(&page, PageAddr(5)).unwrap();
        assert_eq!(
            h,
            Header {
                kind: Kind::Dir,
                seq: 99,
                volume: 0xabcd,
                len: 64,
                prev: PageAddr(3)
            }
        );
        assert_eq!(parse(&page, PageAddr(6)), Err(Bad::Invalid));
        for i in 0..64 {
            let mut broken = page;
            broken[i] ^= 1;
            assert!(parse(&broken, PageAddr(5)).is_err(), "byte {i}");
        }
    }

    #[test]
    fn a_longer_page_may_follow_the_used_bytes() {
        let mut page = [0xffu8; 128];
        seal(
            &mut page[..48],
            Kind::Alloc,
            1,
            PageAddr(0),
            1,
            PageAddr::NONE,
        );
        assert_eq!(parse(&page, PageAddr(0)).unwrap().len, 48);
    }

    #[test]
    fn another_version_is_told_apart_from_damage() {
        let mut page = [0u8; 64];
        seal(&mut page, Kind::Root, 1, PageAddr(0), 1, PageAddr::NONE);
        page[7] = 9;
        let crc = crc32c(&page[4..], &[]);
        put_u32(&mut page, 0, crc);
        assert_eq!(parse(&page, PageAddr(0)), Err(Bad::Version(9)));
    }

    #[test]
    fn bytes_of_the_header_are_where_the_drawing_says() {
        let mut page = [0u8; 32];
        seal(
            &mut page,
            Kind::File,
            0x0102_0304_0506_0708,
            PageAddr(0x11),
            0x22,
            PageAddr(0x33),
        );
        assert_eq!(&page[4..8], b"FL\x0a\x01");
        assert_eq!(&page[8..16], &[8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(&page[16..20], &[0x11, 0, 0, 0]);
        assert_eq!(&page[20..24], &[0x22, 0, 0, 0]);
        assert_eq!(&page[24..28], &[32, 0, 0, 0]);
        assert_eq!(&page[28..32], &[0x33, 0, 0, 0]);
    }

    /// A sealed page, changed and sealed over again: a CRC says nothing of what it covers.
    fn changed(change: impl FnOnce(&mut [u8; 64])) -> Result<Header, Bad> {
        let mut page = [0u8; 64];
        seal(&mut page, Kind::Dir, 9, PageAddr(5), 1, PageAddr::NONE);
        change(&mut page);
        let len = usize::from(get_u16(&page, 24)).clamp(4, 64);
        let crc = crc32c(&page[4..len], &[]);
        put_u32(&mut page, 0, crc);
        parse(&page, PageAddr(5))
    }

    #[test]
    fn every_kind_comes_back_and_no_other_number_is_one() {
        for number in 0..=255 {
            let kind = changed(|page| page[6] = number).map(|h| h.kind);
            let known = Kind::ALL.into_iter().find(|kind| *kind as u8 == number);
            assert_eq!(kind, known.ok_or(Bad::Invalid), "{number}");
        }
        assert_eq!(
            Kind::ALL.map(|kind| kind as u8),
            core::array::from_fn(|i| i as u8 + 1)
        );
    }

    #[test]
    fn a_length_beyond_the_page_or_within_the_header_is_refused() {
        for len in [0, 31, 65, 0xffff] {
            assert_eq!(
                changed(|page| put_u16(page, 24, len)),
                Err(Bad::Invalid),
                "{len}"
            );
        }
        for len in [32, 63, 64] {
            let found = changed(|page| put_u16(page, 24, len)).map(|h| h.len);
            assert_eq!(found, Ok(usize::from(len)));
        }
    }

    #[test]
    fn a_number_that_no_volume_reaches_is_refused() {
        let with = |seq| changed(|page| put_u64(page, SEQ, seq)).map(|h| h.seq);
        assert_eq!(with(SEQ_MAX), Ok(SEQ_MAX));
        assert_eq!(with(SEQ_MAX + 1), Err(Bad::Invalid));
        assert_eq!(with(u64::MAX), Err(Bad::Invalid));
    }

    #[test]
    fn a_page_cut_short_is_not_blank_and_still_tells_its_number() {
        let mut page = [0xff; 64];
        assert!(is_blank(&page));
        assert_eq!(
            (seq(&page), parse(&page, PageAddr(5))),
            (None, Err(Bad::Invalid))
        );
        seal(&mut page, Kind::Dir, 9, PageAddr(5), 1, PageAddr::NONE);
        page[40..].fill(0xff);
        page[50] = 0;
        assert!(!is_blank(&page));
        assert_eq!(
            (seq(&page), parse(&page, PageAddr(5))),
            (Some(9), Err(Bad::Invalid))
        );
    }
}

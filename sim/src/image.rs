//! The image file: a chip on disk.
//!
//! All numbers are little-endian. The file is sparse: a hole is an erased chip.
//!
//! ```text
//! 0      header, 128 bytes
//!          0  magic, 8 bytes            40  read_ns, u64
//!          8  version, u32              48  program_ns, u64
//!         12  header length, u32        56  erase_ns, u64
//!         16  page size, u32            64  name, 32 bytes, padded with 0
//!         20  usable spare bytes, u32   96  0, 28 bytes
//!         24  raw spare bytes, u32     124  CRC-32 of the 124 bytes before, u32
//!         28  pages per block, u32
//!         32  blocks, u32
//!         36  0, u32
//! 4096   block table: a record of 16 + pages per block bytes for each block
//!          0  erase count, u32
//!          4  flags, u8: 1 bad, 2 bad from the factory, 4 failing, 8 half erased
//!          5  0, 11 bytes
//!         16  the state of each page, u8: 0 blank, 1 written, 2 looks blank, 3 garbage,
//!             0x20 + n uncorrectable n more times and readable then, 0x40 + n reads as blank n
//!             more times, 0x80 + n readable n more times
//! ...    pages, from the next multiple of 4096 on: for each one data, then raw spare
//! ```
//!
//! Of the raw spare, bytes 0 and 1 are the bad-block marker and the usable bytes come next.
//! What is stored for a page counts only where its state says so. The last attempted page of a
//! block is the last whose state is not blank.
//!
//! Invariant: a page's bytes are in the file before its state is, and an erase is one write of
//! one record; a process killed at any moment leaves a chip that a power cut might have left.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashkit_nand::{Geometry, PageAddr};

use crate::{ChipSpec, Timing};

pub(crate) const MAGIC: [u8; 8] = *b"FLKNAND\x1A";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 128;
const CRC_AT: usize = HEADER_LEN - 4;
const NAME_AT: usize = 64;
const TABLE_AT: u64 = 4096;
/// Bytes of a block record before its page states.
pub(crate) const RECORD_HEAD: usize = 16;
const FLAGS_AT: u64 = 4;
/// No operation of a chip takes longer than a minute: with more, the clock would run over.
const TIME_MAX_NS: u64 = 60_000_000_000;
/// Four times the blocks and pages of the largest preset. What an open image takes in RAM follows
/// from these two: a byte a page, and 40 a block, 26 MB at most.
const BLOCKS_MAX: u32 = 1 << 18;
const PAGES_MAX: u32 = 1 << 24;

/// How an image file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Operations write through to the file. No other process may have it open meanwhile.
    ReadWrite,
    /// Nothing is ever written to the file; changes stay in RAM. Any number of processes may
    /// have it open in this way.
    ReadOnlyCow,
}

/// Why an image file could not be created or opened, in one line.
#[derive(Debug)]
pub enum ImageError {
    /// The system said no.
    Io(io::Error),
    /// The file does not begin as an image does.
    NotAnImage,
    /// It is an image, but of this.
    OtherKind(&'static str),
    /// The file ends too early.
    TooShort {
        /// Bytes there are.
        have: u64,
        /// Bytes there should be.
        need: u64,
    },
    /// The image is of a version that this program does not know.
    UnsupportedVersion(u32),
    /// The header's checksum is wrong, or what it says is impossible.
    DamagedHeader,
    /// The chip has more than 262,144 blocks or 16,777,216 pages.
    TooLarge(Geometry),
    /// Another process (or another part of this one) has the image open.
    InUse,
}

impl core::fmt::Display for ImageError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ImageError::Io(e) => e.fmt(f),
            ImageError::NotAnImage => f.write_str("not a flashkit image"),
            ImageError::OtherKind(what) => write!(f, "the image is of {what}"),
            ImageError::TooShort { have, need } => {
                write!(f, "image is too short: {have} bytes of {need}")
            }
            ImageError::UnsupportedVersion(version) => {
                write!(
                    f,
                    "unsupported image version {version} (this program reads {VERSION})"
                )
            }
            ImageError::DamagedHeader => f.write_str("image header is damaged"),
            ImageError::TooLarge(chip) => {
                write!(
                    f,
                    "a chip of {} blocks and {} pages: an image has {BLOCKS_MAX} and {PAGES_MAX} \
                     at most",
                    chip.blocks(),
                    chip.pages()
                )
            }
            ImageError::InUse => f.write_str("image is in use"),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImageError::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for ImageError {
    fn from(e: io::Error) -> ImageError {
        ImageError::Io(e)
    }
}

impl From<TryLockError> for ImageError {
    fn from(e: TryLockError) -> ImageError {
        match e {
            TryLockError::WouldBlock => ImageError::InUse,
            TryLockError::Error(e) => ImageError::Io(e),
        }
    }
}

/// CRC-32 as in Ethernet and zlib.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Refuses a chip that is too large for an image.
fn check_size(geometry: Geometry) -> Result<(), ImageError> {
    if geometry.blocks() > BLOCKS_MAX || geometry.pages() > PAGES_MAX {
        return Err(ImageError::TooLarge(geometry));
    }
    Ok(())
}

fn encode_header(spec: &ChipSpec) -> [u8; HEADER_LEN] {
    let geometry = spec.geometry();
    let timing = spec.timing();
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    let words = [
        VERSION,
        HEADER_LEN as u32,
        geometry.page_size(),
        geometry.spare_size(),
        spec.raw_spare(),
        geometry.pages_per_block(),
        geometry.blocks(),
    ];
    for (to, word) in header[8..36].chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let times = [timing.read_ns, timing.program_ns, timing.erase_ns];
    for (to, time) in header[40..64].chunks_exact_mut(8).zip(times) {
        to.copy_from_slice(&time.to_le_bytes());
    }
    header[NAME_AT..NAME_AT + spec.name().len()].copy_from_slice(spec.name().as_bytes());
    let crc = crc32(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn decode_header(header: &[u8]) -> Result<ChipSpec, ImageError> {
    if header.starts_with(&crate::nor::IMAGE_MAGIC) {
        return Err(ImageError::OtherKind("a NOR chip, not of a NAND chip"));
    }
    if !header.starts_with(&MAGIC) {
        return Err(ImageError::NotAnImage);
    }
    if header.len() < HEADER_LEN {
        let (have, need) = (header.len() as u64, HEADER_LEN as u64);
        return Err(ImageError::TooShort { have, need });
    }
    match u32_at(header, 8) {
        VERSION => {}
        version => return Err(ImageError::UnsupportedVersion(version)),
    }
    if crc32(&header[..CRC_AT]) != u32_at(header, CRC_AT) {
        return Err(ImageError::DamagedHeader);
    }
    let word = |at| u32_at(header, at);
    let geometry = Geometry::new(word(16), word(20), word(28), word(32));
    let geometry = geometry.map_err(|_| ImageError::DamagedHeader)?;
    check_size(geometry)?;
    let timing = Timing {
        read_ns: u64_at(header, 40),
        program_ns: u64_at(header, 48),
        erase_ns: u64_at(header, 56),
    };
    let name = &header[NAME_AT..NAME_AT + ChipSpec::NAME_MAX];
    let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let times = [timing.read_ns, timing.program_ns, timing.erase_ns];
    if times.iter().any(|ns| *ns > TIME_MAX_NS) {
        return Err(ImageError::DamagedHeader);
    }
    let name = std::str::from_utf8(name).map_err(|_| ImageError::DamagedHeader)?;
    let spec = ChipSpec::new(geometry, timing).with_raw_spare(word(24));
    spec.and_then(|spec| spec.with_name(name))
        .ok_or(ImageError::DamagedHeader)
}

/// An open image file.
#[derive(Debug)]
pub(crate) struct ImageFile {
    file: File,
    geometry: Geometry,
    raw_spare: u32,
}

impl ImageFile {
    /// Makes an erased image in place of whatever file is there.
    pub fn create(path: &Path, spec: &ChipSpec) -> Result<ImageFile, ImageError> {
        check_size(spec.geometry())?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.try_lock()?;
        let image = ImageFile {
            file,
            geometry: spec.geometry(),
            raw_spare: spec.raw_spare(),
        };
        image.file.set_len(0)?;
        image.file.set_len(image.len())?;
        image.file.write_all_at(&encode_header(spec), 0)?;
        Ok(image)
    }

    /// Opens and checks an image.
    pub fn open(path: &Path, access: Access) -> Result<(ImageFile, ChipSpec), ImageError> {
        let writable = access == Access::ReadWrite;
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        let have = file.metadata()?.len();
        let mut header = vec![0; have.min(HEADER_LEN as u64) as usize];
        file.read_exact_at(&mut header, 0)?;
        let spec = decode_header(&header)?;
        if writable {
            file.try_lock()?;
        } else {
            file.try_lock_shared()?;
        }
        let image = ImageFile {
            file,
            geometry: spec.geometry(),
            raw_spare: spec.raw_spare(),
        };
        let need = image.len();
        if have < need {
            return Err(ImageError::TooShort { have, need });
        }
        Ok((image, spec))
    }

    /// Bytes of a block record.
    pub fn record_len(&self) -> usize {
        RECORD_HEAD + self.geometry.pages_per_block() as usize
    }

    fn record_at(&self, block: u32) -> u64 {
        TABLE_AT + u64::from(block) * self.record_len() as u64
    }

    fn page_at(&self, page: PageAddr) -> u64 {
        let pages_at = self
            .record_at(self.geometry.blocks())
            .next_multiple_of(4096);
        let stride = self.geometry.page_size() + self.raw_spare;
        pages_at + u64::from(page.0) * u64::from(stride)
    }

    fn len(&self) -> u64 {
        self.page_at(PageAddr(self.geometry.pages()))
    }

    /// The whole block table.
    pub fn read_table(&self) -> io::Result<Vec<u8>> {
        let mut table = vec![0; self.record_len() * self.geometry.blocks() as usize];
        self.file.read_exact_at(&mut table, TABLE_AT)?;
        Ok(table)
    }

    pub fn read_record(&self, block: u32) -> io::Result<Vec<u8>> {
        let mut record = vec![0; self.record_len()];
        self.file
            .read_exact_at(&mut record, self.record_at(block))?;
        Ok(record)
    }

    pub fn write_record(&self, block: u32, record: &[u8]) -> io::Result<()> {
        self.file.write_all_at(record, self.record_at(block))
    }

    pub fn write_flags(&self, block: u32, flags: u8) -> io::Result<()> {
        self.file
            .write_all_at(&[flags], self.record_at(block) + FLAGS_AT)
    }

    pub fn write_state(&self, block: u32, index: u32, state: u8) -> io::Result<()> {
        let at = self.record_at(block) + RECORD_HEAD as u64 + u64::from(index);
        self.file.write_all_at(&[state], at)
    }

    pub fn read_page(
        &self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> io::Result<()> {
        let at = self.page_at(page);
        self.file.read_exact_at(data, at + u64::from(offset))?;
        let spare_at = at + u64::from(self.geometry.page_size() + ChipSpec::MARKER);
        self.file.read_exact_at(spare, spare_at)
    }

    pub fn write_page(&self, page: PageAddr, data: &[u8], spare: &[u8]) -> io::Result<()> {
        let page_size = self.geometry.page_size() as usize;
        let mut raw = vec![0xFF; page_size + self.raw_spare as usize];
        raw[..data.len()].copy_from_slice(data);
        let spare_at = page_size + ChipSpec::MARKER as usize;
        raw[spare_at..spare_at + spare.len()].copy_from_slice(spare);
        self.file.write_all_at(&raw, self.page_at(page))
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Erase count and flags of a block record.
pub(crate) fn record_head(record: &[u8]) -> (u32, u8) {
    (u32_at(record, 0), record[FLAGS_AT as usize])
}

/// A block record: its head, then the states of the pages there are, then blank ones.
pub(crate) fn encode_record(
    len: usize,
    erase_count: u32,
    flags: u8,
    states: impl Iterator<Item = u8>,
) -> Vec<u8> {
    let mut record = vec![0; len];
    record[..4].copy_from_slice(&erase_count.to_le_bytes());
    record[FLAGS_AT as usize] = flags;
    for (to, state) in record[RECORD_HEAD..].iter_mut().zip(states) {
        *to = state;
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_PRESET, preset};

    fn header() -> [u8; HEADER_LEN] {
        encode_header(&ChipSpec::from(preset(DEFAULT_PRESET).unwrap()))
    }

    #[test]
    fn crc_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn header_bytes_are_pinned() {
        let header = header();
        assert_eq!(&header[..12], b"FLKNAND\x1A\x01\0\0\0");
        assert_eq!(u32_at(&header, 16), 2048);
        assert_eq!(u32_at(&header, 20), 40);
        assert_eq!(u32_at(&header, 24), 64);
        assert_eq!(u32_at(&header, 28), 64);
        assert_eq!(u32_at(&header, 32), 2048);
        assert_eq!(u64_at(&header, 56), 1_500_000);
        assert_eq!(&header[64..73], b"slc-256m\0");
        assert_eq!(
            decode_header(&header).unwrap(),
            preset(DEFAULT_PRESET).unwrap().into()
        );
    }

    #[test]
    fn every_flipped_header_bit_is_noticed() {
        let good = header();
        for bit in 0..HEADER_LEN * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_chip_that_would_take_too_much_memory_is_refused() {
        let header = |pages, blocks| {
            let geometry = Geometry::new(512, 16, pages, blocks).unwrap();
            let timing = Timing {
                read_ns: 1,
                program_ns: 1,
                erase_ns: 1,
            };
            decode_header(&encode_header(&ChipSpec::new(geometry, timing)))
        };
        assert!(header(64, BLOCKS_MAX).is_ok());
        assert!(header(1_024, PAGES_MAX / 1_024).is_ok());
        for (pages, blocks) in [
            (4, 1 << 24),
            (4, BLOCKS_MAX + 1),
            (1_024, PAGES_MAX / 1_024 + 1),
        ] {
            let refused = header(pages, blocks);
            assert!(matches!(refused, Err(ImageError::TooLarge(_))));
        }
    }

    #[test]
    fn headers_that_are_not_ones() {
        assert!(matches!(decode_header(b""), Err(ImageError::NotAnImage)));
        assert!(matches!(
            decode_header(&[0; 200]),
            Err(ImageError::NotAnImage)
        ));
        assert!(matches!(
            decode_header(&header()[..50]),
            Err(ImageError::TooShort { .. })
        ));
        let mut newer = header();
        newer[8] = 9;
        assert!(matches!(
            decode_header(&newer),
            Err(ImageError::UnsupportedVersion(9))
        ));
        // A page size, and times that no chip has.
        for (at, byte) in [(17, 0), (47, 1), (53, 1), (61, 1)] {
            let mut impossible = header();
            impossible[at] = byte;
            let crc = crc32(&impossible[..CRC_AT]);
            impossible[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
            assert!(matches!(
                decode_header(&impossible),
                Err(ImageError::DamagedHeader)
            ));
        }
    }
}

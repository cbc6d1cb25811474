//! The image file: a chip on disk.
//!
//! All numbers are little-endian. The file is sparse: a hole is an erased chip.
//!
//! ```text
//! 0      header, 128 bytes
//!          0  magic, 8 bytes            40  read_ns, u64
//!          8  version, u32: 1 or 2      48  program_ns, u64
//!         12  header length, u32        56  erase_ns, u64
//!         16  page size, u32            64  name, 32 bytes, padded with 0
//!         20  usable spare bytes, u32   96  0, 28 bytes
//!         24  raw spare bytes, u32          (version 2: first the generation of the journal, u32)
//!         28  pages per block, u32     124  CRC-32 of the 124 bytes before, u32
//!         32  blocks, u32
//!         36  the bus: MHz, u16 (0: it is left out); lanes, u8, and 0x80 where a program load
//!             clears the cache; spare bytes in a row, u8
//! 4096   block table: a record of 16 + pages per block bytes for each block
//!          0  erase count, u32
//!          4  flags, u8: 1 bad, 2 bad from the factory, 4 failing, 8 half erased
//!          5  0, 11 bytes
//!         16  the state of each page, u8: 0 blank, 1 written, 2 looks blank, 3 garbage,
//!             0x20 + n uncorrectable n more times and readable then, 0x40 + n reads as blank n
//!             more times, 0x80 + n readable n more times
//! ...    pages, from the next multiple of 4096 on: for each one data, then raw spare
//! ...    version 2: the journal, 256 KiB at most
//! ```
//!
//! Of the raw spare, bytes 0 and 1 are the bad-block marker and the usable bytes come next.
//! What is stored for a page counts only where its state says so. The last attempted page of a
//! block is the last whose state is not blank.
//!
//! An image that is closed has version 1, and its table says all. While it is open for writing,
//! the table is what it was, and the [journal](crate::journal) says what has changed since. Its
//! records:
//!
//! | what | where | bytes |
//! | --- | --- | --- |
//! | 1, a page has a state | page | the state, u8; if its bytes were written, their CRC-32, u32 |
//! | 2, a block has changed | block | its record of the table, without zeros at the end |
//!
//! Programs that know version 1 alone refuse an image of version 2; one that knows both makes it
//! version 1 again by opening it for writing.
//!
//! Invariants: a page's bytes are in the file before the record that says so. A process killed at
//! any moment leaves a chip that a power cut might have left.
//!
//! So does a crash of the host. Records whose chain holds may still speak of pages whose bytes are
//! not on the disk: the chip is then what it was before the first of these. What that state needs
//! was not written over. Where a block held pages, the record that says that they are gone is on
//! the disk before others take their place.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;

use flashkit_nand::{BlockAddr, Geometry, PageAddr};

use crate::block::PageState;
use crate::host::HostFile;
use crate::journal::{self, CRC_AT, Entry, HEADER_LEN, Journal, VERSION, VERSION_JOURNAL, seal};
use crate::{Bus, ChipSpec, SpiSpeed, TestHost, Timing};

pub(crate) const MAGIC: [u8; 8] = *b"FLKNAND\x1A";
const NAME_AT: usize = 64;
/// Bit of the lanes: a program load clears the cache.
const CLEARS: u8 = 0x80;
const TABLE_AT: u64 = 4096;
/// Bytes of a block record before its page states.
pub(crate) const RECORD_HEAD: usize = 16;
const FLAGS_AT: u64 = 4;
/// Bytes of the journal at most.
const JOURNAL_ROOM: usize = 256 << 10;
/// Records of the journal.
const PAGE: u32 = 1;
const BLOCK: u32 = 2;
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
                    "unsupported image version {version} (this program reads up to {VERSION_JOURNAL})"
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

// No source: the error is said already.
impl std::error::Error for ImageError {}

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
    if let Some(bus) = spec.bus() {
        // As `ChipSpec::with_bus` has made sure, these fit.
        header[36..38].copy_from_slice(&(bus.speed.mhz as u16).to_le_bytes());
        header[38] = bus.speed.lanes as u8 | if bus.load_clears { CLEARS } else { 0 };
        header[39] = bus.spare_run as u8;
    }
    for (to, time) in header[40..64].chunks_exact_mut(8).zip(times) {
        to.copy_from_slice(&time.to_le_bytes());
    }
    header[NAME_AT..NAME_AT + spec.name().len()].copy_from_slice(spec.name().as_bytes());
    seal(&mut header);
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
        VERSION | VERSION_JOURNAL => {}
        version => return Err(ImageError::UnsupportedVersion(version)),
    }
    if crc32fast::hash(&header[..CRC_AT]) != u32_at(header, CRC_AT) {
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
        .and_then(|spec| spec.with_bus(decode_bus(&header[36..40])))
        .ok_or(ImageError::DamagedHeader)
}

fn decode_bus(bytes: &[u8]) -> Option<Bus> {
    let mhz = u32::from(bytes[0]) | u32::from(bytes[1]) << 8;
    let speed = SpiSpeed {
        mhz,
        lanes: u32::from(bytes[2] & !CLEARS),
    };
    (mhz > 0).then_some(Bus {
        speed,
        spare_run: bytes[3].into(),
        load_clears: bytes[2] & CLEARS != 0,
    })
}

/// Opens and locks an image of any sort of chip. Gives its header too, and what that says.
pub(crate) fn open_locked<T>(
    path: &Path,
    access: Access,
    decode: impl Fn(&[u8]) -> Result<T, ImageError>,
) -> Result<(File, Vec<u8>, T), ImageError> {
    let writable = access == Access::ReadWrite;
    check_no_pipe(path)?;
    let file = OpenOptions::new().read(true).write(writable).open(path)?;
    let have = file.metadata()?.len();
    let mut header = vec![0; have.min(HEADER_LEN as u64) as usize];
    file.read_exact_at(&mut header, 0)?;
    decode(&header)?;
    if writable {
        file.try_lock()?;
    } else {
        file.try_lock_shared()?;
    }
    // Whoever had it open may just have ended its journal.
    file.read_exact_at(&mut header, 0)?;
    let said = decode(&header)?;
    Ok((file, header, said))
}

/// To open a pipe would wait for somebody at its other end.
pub(crate) fn check_no_pipe(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.file_type().is_fifo() {
        true => Err(io::Error::other("a pipe, not an image")),
        false => Ok(()),
    }
}

/// What a record of the journal changes in a block.
#[derive(Clone, Debug)]
enum Change {
    State {
        index: u32,
        state: u8,
    },
    /// All of its record in the table, without zeros at the end.
    Record(Vec<u8>),
}

/// An open image file.
#[derive(Debug)]
pub(crate) struct ImageFile {
    host: Arc<HostFile>,
    geometry: Geometry,
    raw_spare: u32,
    /// What the journal says of blocks, where it is not to be ended.
    changes: HashMap<u32, Vec<Change>>,
}

impl ImageFile {
    /// Makes an erased image in place of whatever file is there.
    pub fn create(path: &Path, spec: &ChipSpec) -> Result<(ImageFile, Journal), ImageError> {
        check_size(spec.geometry())?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.try_lock()?;
        file.set_len(0)?;
        let image = ImageFile {
            host: Arc::new(HostFile::new(file, None)?),
            geometry: spec.geometry(),
            raw_spare: spec.raw_spare(),
            changes: HashMap::new(),
        };
        image.host.set_len(image.len())?;
        let header = encode_header(spec);
        image.host.write_all_at(&header, 0)?;
        let journal = image.journal(&header);
        Ok((image, journal))
    }

    /// Opens and checks an image. For writing there is a journal, empty; for reading, what one
    /// that is there says is kept in RAM.
    pub fn open(
        path: &Path,
        access: Access,
        host: Option<&TestHost>,
    ) -> Result<(ImageFile, ChipSpec, Option<Journal>), ImageError> {
        let (file, header, spec) = open_locked(path, access, decode_header)?;
        let have = file.metadata()?.len();
        let mut image = ImageFile {
            host: Arc::new(HostFile::new(file, host)?),
            geometry: spec.geometry(),
            raw_spare: spec.raw_spare(),
            changes: HashMap::new(),
        };
        let need = image.len();
        if have < need {
            return Err(ImageError::TooShort { have, need });
        }
        let entries = journal::read(&image.host, &header, need, JOURNAL_ROOM)?;
        let mut journal = (access == Access::ReadWrite).then(|| image.journal(&header));
        if let Some(entries) = entries {
            image.replay(&entries)?;
            if let Some(journal) = &mut journal {
                image.take_over(journal)?;
            }
        }
        Ok((image, spec, journal))
    }

    fn journal(&self, header: &[u8]) -> Journal {
        Journal::new(self.host.clone(), header, self.len(), JOURNAL_ROOM)
    }

    /// Bytes of a block record.
    pub fn record_len(&self) -> usize {
        RECORD_HEAD + self.geometry.pages_per_block() as usize
    }

    fn record_at(&self, block: u32) -> u64 {
        TABLE_AT + u64::from(block) * self.record_len() as u64
    }

    fn stride(&self) -> usize {
        (self.geometry.page_size() + self.raw_spare) as usize
    }

    fn page_at(&self, page: PageAddr) -> u64 {
        let pages_at = self
            .record_at(self.geometry.blocks())
            .next_multiple_of(4096);
        pages_at + u64::from(page.0) * self.stride() as u64
    }

    /// Where the pages end.
    fn len(&self) -> u64 {
        self.page_at(PageAddr(self.geometry.pages()))
    }

    /// The whole block table.
    pub fn read_table(&self) -> io::Result<Vec<u8>> {
        let len = self.record_len();
        let mut table = vec![0; len * self.geometry.blocks() as usize];
        self.host.read_exact_at(&mut table, TABLE_AT)?;
        for (block, changes) in &self.changes {
            make(changes, &mut table[*block as usize * len..][..len]);
        }
        Ok(table)
    }

    pub fn read_record(&self, block: u32) -> io::Result<Vec<u8>> {
        let mut record = vec![0; self.record_len()];
        self.host
            .read_exact_at(&mut record, self.record_at(block))?;
        if let Some(changes) = self.changes.get(&block) {
            make(changes, &mut record);
        }
        Ok(record)
    }

    /// Writes a record of the table; the journal is about to end.
    pub fn write_record(&self, journal: &mut Journal, block: u32, record: &[u8]) -> io::Result<()> {
        journal.write(record, self.record_at(block))
    }

    /// Whether the journal still takes what one change of a block needs.
    pub fn has_room(&self, journal: &Journal) -> bool {
        journal.fits(2, 2 * self.record_len())
    }

    /// A block has changed as a whole.
    pub fn note_block(&self, journal: &mut Journal, block: u32, record: &[u8]) -> io::Result<()> {
        let end = record.iter().rposition(|byte| *byte != 0);
        journal.append(BLOCK, block, &record[..end.map_or(0, |last| last + 1)])
    }

    /// A page's state has changed, and nothing else.
    pub fn note_state(&self, journal: &mut Journal, page: PageAddr, state: u8) -> io::Result<()> {
        journal.append(PAGE, page.0, &[state])
    }

    pub fn read_page(
        &self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> io::Result<()> {
        let at = self.page_at(page);
        self.host.read_exact_at(data, at + u64::from(offset))?;
        let spare_at = at + u64::from(self.geometry.page_size() + ChipSpec::MARKER);
        self.host.read_exact_at(spare, spare_at)
    }

    /// A page has got bytes and a state.
    pub fn write_page(
        &self,
        journal: &mut Journal,
        page: PageAddr,
        (data, spare): (&[u8], &[u8]),
        state: u8,
    ) -> io::Result<()> {
        let mut raw = vec![0xFF; self.stride()];
        raw[..data.len()].copy_from_slice(data);
        let spare_at = (self.geometry.page_size() + ChipSpec::MARKER) as usize;
        raw[spare_at..spare_at + spare.len()].copy_from_slice(spare);
        journal.write(&raw, self.page_at(page))?;
        let [a, b, c, d] = crc32fast::hash(&raw).to_le_bytes();
        journal.append(PAGE, page.0, &[state, a, b, c, d])
    }

    /// What a record of the journal changes, and in which block.
    fn change(&self, entry: &Entry) -> Option<(u32, Change)> {
        match (entry.kind, &entry.payload[..]) {
            (PAGE, [state] | [state, _, _, _, _]) if entry.place < self.geometry.pages() => {
                let (page, state) = (PageAddr(entry.place), *state);
                let index = self.geometry.index_of(page);
                Some((
                    self.geometry.block_of(page).0,
                    Change::State { index, state },
                ))
            }
            (BLOCK, record)
                if entry.place < self.geometry.blocks() && record.len() <= self.record_len() =>
            {
                Some((entry.place, Change::Record(record.to_vec())))
            }
            _ => None,
        }
    }

    /// Keeps what the journal says of the state that the chip is in.
    fn replay(&mut self, entries: &[Entry]) -> io::Result<()> {
        let changes: Vec<_> = entries.iter().map_while(|e| self.change(e)).collect();
        let kept = self.kept(&entries[..changes.len()], &changes)?;
        for (block, change) in changes.into_iter().take(kept) {
            self.changes.entry(block).or_default().push(change);
        }
        Ok(())
    }

    /// How many records lead to a state of which every page is there: as many as can be. Reads the
    /// pages that the journal says were programmed.
    fn kept(&self, entries: &[Entry], changes: &[(u32, Change)]) -> io::Result<usize> {
        // Of the states after 0, 1, 2 ... records: pages that are missing from there on.
        let mut missing = vec![0i64; changes.len() + 2];
        // From which state on a page is missing, if it is.
        let mut since: HashMap<u32, usize> = HashMap::new();
        let mut raw = vec![0; self.stride()];
        for (n, (entry, (block, change))) in entries.iter().zip(changes).enumerate() {
            let state = n + 1;
            let first = self.geometry.page(BlockAddr(*block), 0).0;
            let mut gone = |page: u32| {
                if let Some(from) = since.remove(&page) {
                    missing[from] += 1;
                    missing[state] -= 1;
                }
            };
            match change {
                Change::Record(record) => {
                    for index in 0..self.geometry.pages_per_block() {
                        let byte = record.get(RECORD_HEAD + index as usize).copied();
                        if !PageState::decode(byte.unwrap_or(0)).has_bytes() {
                            gone(first + index);
                        }
                    }
                }
                Change::State { state: byte, .. } => {
                    let crc = entry.payload.get(1..);
                    if !PageState::decode(*byte).has_bytes() || crc.is_some_and(|c| !c.is_empty()) {
                        gone(entry.place);
                    }
                    if let Some(crc) = crc.filter(|crc| !crc.is_empty()) {
                        self.host
                            .read_exact_at(&mut raw, self.page_at(PageAddr(entry.place)))?;
                        if crc32fast::hash(&raw).to_le_bytes() != crc {
                            since.insert(entry.place, state);
                        }
                    }
                }
            }
        }
        for from in since.into_values() {
            missing[from] += 1;
        }
        let mut now = 0;
        let whole = missing[..=changes.len()].iter().map(|more| {
            now += more;
            now == 0
        });
        let whole: Vec<bool> = whole.collect();
        Ok(whole.iter().rposition(|whole| *whole).unwrap_or(0))
    }

    /// Ends the journal of whoever had the image open before.
    fn take_over(&mut self, journal: &mut Journal) -> io::Result<()> {
        journal.end(|journal| {
            for block in self.changes.keys() {
                self.write_record(journal, *block, &self.read_record(*block)?)?;
            }
            Ok(())
        })?;
        self.changes.clear();
        Ok(())
    }
}

/// Makes changes in a record of the table.
fn make(changes: &[Change], record: &mut [u8]) {
    for change in changes {
        match change {
            Change::State { index, state } => record[RECORD_HEAD + *index as usize] = *state,
            Change::Record(all) => {
                record[..all.len()].copy_from_slice(all);
                record[all.len()..].fill(0);
            }
        }
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
    fn the_bus_is_kept() {
        for name in ["w25n01gv", "mx35lf1ge4ab"] {
            let speed = SpiSpeed { mhz: 133, lanes: 4 };
            let spec = ChipSpec::from(&preset(name).unwrap().with_bus(Some(speed)));
            assert_eq!(decode_header(&encode_header(&spec)).unwrap(), spec);
        }
        let mut odd = encode_header(&preset("w25n01gv").unwrap().into());
        assert_eq!(odd[36..40], [104, 0, 0x81, 6]);
        odd[38] = 3;
        seal(&mut odd);
        assert!(matches!(
            decode_header(&odd),
            Err(ImageError::DamagedHeader)
        ));
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
            seal(&mut impossible);
            assert!(matches!(
                decode_header(&impossible),
                Err(ImageError::DamagedHeader)
            ));
        }
    }
}

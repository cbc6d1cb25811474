//! The image file of a NOR chip.
//!
//! All numbers are little-endian. Contents are stored complemented, so that a hole in the sparse
//! file is an erased chip.
//!
//! ```text
//! 0      header, 128 bytes
//!          0  magic, 8 bytes            24  read_ns of a word, u64
//!          8  version, u32: 1 or 2      32  program_ns of a word, u64
//!         12  segment size, u32         40  erase_ns, u64
//!         16  banks, u32                48  suspend_ns, u64
//!         20  segments per bank, u32    56  endurance, u32
//!         60  0, u32                    64  name, 32 bytes, padded with 0
//!         96  0, 28 bytes              124  CRC-32 of the 124 bytes before, u32
//!             (version 2: first the generation of the journal, u32)
//! 4096   a record of 8 bytes for each segment: erase count, u32; flags, u8: 1 half erased; 0
//! ...    the segments, complemented, from the next multiple of 4096 on
//! ...    version 2: the journal, 1 MiB or two segments at most
//! ```
//!
//! An image that is closed has version 1. While it is open for writing, all of that is what it was,
//! and the [journal](crate::journal) says what has changed since. Its records:
//!
//! | what | where | bytes |
//! | --- | --- | --- |
//! | 1, bytes are | offset on the chip | these bytes, not complemented |
//! | 2, a segment has a record | segment | its record of the table |
//! | 3, a segment was erased | segment | its record of the table |
//!
//! They are of 256 segments at most.
//!
//! Invariant: a segment is marked half erased while it erases, so a process killed at any moment
//! leaves a chip that a power cut might have left, and so does a crash of the host. Bits left
//! unstable by a simulated cut are not stored: in the file they are as before the torn program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::chip::Segment;
use super::{NorSpec, NorTiming, SimNor};
use crate::host::HostFile;
use crate::image::{open_locked, u32_at, u64_at};
use crate::journal::{self, CRC_AT, Entry, HEADER_LEN, Journal, VERSION, VERSION_JOURNAL, seal};
use crate::{Access, ImageError, TestHost};

/// How the file begins.
pub(crate) const MAGIC: [u8; 8] = *b"FLKNOR\0\x1A";
const NAME_AT: usize = 64;
const TABLE_AT: u64 = 4096;
const RECORD_LEN: usize = 8;
/// Segments of which a journal tells at most: each of them takes RAM.
const SEGMENTS_MAX: usize = 256;
/// Records of the journal.
const BYTES: u32 = 1;
const RECORD: u32 = 2;
const ERASED: u32 = 3;

fn body_at(spec: &NorSpec) -> u64 {
    (TABLE_AT + u64::from(spec.segments()) * RECORD_LEN as u64).next_multiple_of(4096)
}

fn encode_header(spec: &NorSpec, segment_size: usize) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    let words = [
        VERSION,
        segment_size as u32,
        spec.banks,
        spec.segments_per_bank,
    ];
    for (to, word) in header[8..24].chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let t = spec.timing;
    let times = [t.read_ns, t.program_ns, t.erase_ns, t.suspend_ns];
    for (to, time) in header[24..56].chunks_exact_mut(8).zip(times) {
        to.copy_from_slice(&time.to_le_bytes());
    }
    header[56..60].copy_from_slice(&spec.endurance.to_le_bytes());
    header[NAME_AT..NAME_AT + spec.name.len()].copy_from_slice(spec.name.as_bytes());
    seal(&mut header);
    header
}

fn decode_header(header: &[u8], segment_size: usize) -> Result<NorSpec, ImageError> {
    if header.starts_with(&crate::image::MAGIC) {
        return Err(ImageError::OtherKind("a NAND chip, not of a NOR chip"));
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
    if u32_at(header, 12) as usize != segment_size {
        return Err(ImageError::OtherKind("a NOR chip with other segments"));
    }
    let name = &header[NAME_AT..NAME_AT + NorSpec::NAME_MAX];
    let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let name = std::str::from_utf8(name).map_err(|_| ImageError::DamagedHeader)?;
    let (banks, segments_per_bank) = (u32_at(header, 16), u32_at(header, 20));
    let segments = banks.checked_mul(segments_per_bank);
    // Offsets on a NOR chip have 32 bits.
    let fits = |n: &u32| u64::from(*n) * segment_size as u64 <= 1 << 32;
    if !segments
        .filter(fits)
        .is_some_and(|n| (1..=65_536).contains(&n))
    {
        return Err(ImageError::DamagedHeader);
    }
    Ok(NorSpec {
        name: name.into(),
        banks,
        segments_per_bank,
        timing: NorTiming {
            read_ns: u64_at(header, 24),
            program_ns: u64_at(header, 32),
            erase_ns: u64_at(header, 40),
            suspend_ns: u64_at(header, 48),
        },
        endurance: u32_at(header, 56),
    })
}

fn encode_record(state: &Segment) -> [u8; RECORD_LEN] {
    let mut record = [0; RECORD_LEN];
    record[..4].copy_from_slice(&state.erase_count.to_le_bytes());
    record[4] = state.flags;
    record
}

fn decode_record(state: &mut Segment, record: &[u8]) {
    state.erase_count = u32_at(record, 0);
    state.flags = record[4];
}

/// The image file that the changes of a chip go to.
pub(crate) struct Stored<const SEGMENT: usize> {
    pub journal: Journal,
    body_at: u64,
    /// Segments that have changed since the table was written.
    changed: BTreeSet<u32>,
    /// Bytes that have changed since they were written to where they belong: offset and length.
    bytes: BTreeMap<u32, usize>,
}

impl<const SEGMENT: usize> Stored<SEGMENT> {
    fn new(spec: &NorSpec, header: &[u8], host: Arc<HostFile>) -> Stored<SEGMENT> {
        let (at, room) = (len::<SEGMENT>(spec), room::<SEGMENT>());
        Stored {
            journal: Journal::new(host, header, at, room),
            body_at: body_at(spec),
            changed: BTreeSet::new(),
            bytes: BTreeMap::new(),
        }
    }

    /// Makes room in the journal for a change of a segment, before it is made.
    pub fn prepare(&mut self, segment: u32, segments: &[Segment]) -> io::Result<()> {
        let more = !self.changed.contains(&segment);
        let fits = self.journal.fits(4, SEGMENT + 2 * RECORD_LEN);
        if !fits || more && self.changed.len() >= SEGMENTS_MAX {
            self.write_table(segments)?;
        }
        self.changed.insert(segment);
        Ok(())
    }

    /// Bytes of a segment have changed.
    pub fn note_bytes(&mut self, segment: u32, at: usize, bytes: &[u8]) -> io::Result<()> {
        let offset = segment * SEGMENT as u32 + at as u32;
        self.journal.append(BYTES, offset, bytes)?;
        self.note_range(offset, bytes.len());
        Ok(())
    }

    fn note_range(&mut self, offset: u32, len: usize) {
        // Mostly they are appended to what was written last.
        if let Some((before, n)) = self.bytes.range_mut(..=offset).next_back()
            && (offset - *before) as usize <= *n
        {
            *n = (*n).max((offset - *before) as usize + len);
        } else {
            self.bytes.insert(offset, len);
        }
    }

    /// A segment's record has changed; its bytes have too, where it was `erased`.
    pub fn note_record(&mut self, segment: u32, state: &Segment, erased: bool) -> io::Result<()> {
        let kind = if erased { ERASED } else { RECORD };
        self.journal.append(kind, segment, &encode_record(state))?;
        if erased {
            self.note_range(segment * SEGMENT as u32, SEGMENT);
        }
        Ok(())
    }

    /// What a journal that was read says has changed in a segment.
    fn know(&mut self, segment: u32, entry: &Entry) {
        match entry.kind {
            BYTES => self.note_range(entry.place, entry.payload.len()),
            ERASED => self.note_range(segment * SEGMENT as u32, SEGMENT),
            _ => {}
        }
        self.changed.insert(segment);
    }

    /// Writes what has changed to where it belongs, so that the journal begins anew.
    fn write_table(&mut self, segments: &[Segment]) -> io::Result<()> {
        let (changed, bytes, body_at) = (&self.changed, &self.bytes, self.body_at);
        self.journal.end(|journal| {
            for (offset, len) in bytes {
                // A range may go on in the next segments.
                let (mut offset, end) = (*offset as usize, *offset as usize + len);
                while offset < end {
                    let (segment, at) = (offset / SEGMENT, offset % SEGMENT);
                    let to = (at + end - offset).min(SEGMENT);
                    let changed = &segments[segment].bytes[at..to];
                    let stored: Vec<u8> = changed.iter().map(|byte| !byte).collect();
                    journal.write(&stored, body_at + offset as u64)?;
                    offset += to - at;
                }
            }
            for segment in changed {
                let record = encode_record(&segments[*segment as usize]);
                let at = TABLE_AT + u64::from(*segment) * RECORD_LEN as u64;
                journal.write(&record, at)?;
            }
            Ok(())
        })?;
        self.changed.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Leaves an image without a journal.
    pub fn close(&mut self, segments: &[Segment]) -> io::Result<()> {
        if self.journal.is_unused() {
            return Ok(());
        }
        self.write_table(segments)?;
        self.journal.close()
    }
}

/// Where the chip's bytes end in the file.
fn len<const SEGMENT: usize>(spec: &NorSpec) -> u64 {
    body_at(spec) + u64::from(spec.segments()) * SEGMENT as u64
}

/// Bytes of the journal at most.
fn room<const SEGMENT: usize>() -> usize {
    (2 * SEGMENT).max(1 << 20)
}

/// Makes the changes that a journal tells of, up to one that no chip could have made.
fn replay<const SEGMENT: usize>(
    entries: &[Entry],
    segments: &mut [Segment],
    mut changed: impl FnMut(u32, &Entry),
) {
    let mut seen = BTreeSet::new();
    for entry in entries {
        let (kind, place) = (entry.kind, entry.place as usize);
        let (segment, at) = match kind {
            BYTES => (place / SEGMENT, place % SEGMENT),
            _ => (place, 0),
        };
        let Some(state) = segments.get_mut(segment) else {
            return;
        };
        seen.insert(segment);
        if seen.len() > SEGMENTS_MAX {
            return;
        }
        match kind {
            BYTES if at + entry.payload.len() <= SEGMENT => {
                state.bytes_mut()[at..][..entry.payload.len()].copy_from_slice(&entry.payload);
            }
            RECORD | ERASED if entry.payload.len() == RECORD_LEN => {
                decode_record(state, &entry.payload);
                if kind == ERASED {
                    state.bytes_mut().fill(0xFF);
                }
            }
            _ => return,
        }
        changed(segment as u32, entry);
    }
}

impl<const SEGMENT: usize> SimNor<SEGMENT> {
    /// Makes an image file of an erased chip, in place of any file at `path`, and opens it for
    /// reading and writing.
    ///
    /// # Errors
    /// [`ImageError::InUse`] when the file is an image that is open, [`ImageError::Io`].
    pub fn create(path: impl AsRef<Path>, spec: NorSpec) -> Result<SimNor<SEGMENT>, ImageError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        file.try_lock()?;
        file.set_len(0)?;
        file.set_len(len::<SEGMENT>(&spec))?;
        let header = encode_header(&spec, SEGMENT);
        file.write_all_at(&header, 0)?;
        let stored = Stored::new(&spec, &header, Arc::new(HostFile::new(file, None)?));
        let mut nor = SimNor::new(spec);
        nor.stored = Some(stored);
        Ok(nor)
    }

    /// Opens an image file and reads it into RAM. Erased segments share theirs: what an image takes
    /// is bounded by what was written to it, whatever size its header names.
    ///
    /// # Errors
    /// See [`ImageError`]; the chip in the file is not changed.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<SimNor<SEGMENT>, ImageError> {
        SimNor::open_on(path.as_ref(), access, None)
    }

    /// [`SimNor::open`] on a host that may crash.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        path: &Path,
        access: Access,
        host: Option<&TestHost>,
    ) -> Result<SimNor<SEGMENT>, ImageError> {
        let decode = |header: &[u8]| decode_header(header, SEGMENT);
        let (file, header, spec) = open_locked(path, access, decode)?;
        let have = file.metadata()?.len();
        let need = len::<SEGMENT>(&spec);
        if have < need {
            return Err(ImageError::TooShort { have, need });
        }
        let mut segments = Vec::with_capacity(spec.segments() as usize);
        let blank = Segment::new(vec![0xFF; SEGMENT], 0, 0);
        let mut bytes = vec![0; SEGMENT];
        for segment in 0..spec.segments() {
            let mut record = [0; RECORD_LEN];
            file.read_exact_at(
                &mut record,
                TABLE_AT + u64::from(segment) * RECORD_LEN as u64,
            )?;
            file.read_exact_at(
                &mut bytes,
                body_at(&spec) + u64::from(segment) * SEGMENT as u64,
            )?;
            let mut state = blank.clone();
            if bytes.iter().any(|byte| *byte != 0) {
                state = Segment::new(bytes.iter().map(|byte| !byte).collect(), 0, 0);
            }
            decode_record(&mut state, &record);
            segments.push(state);
        }
        let host = Arc::new(HostFile::new(file, host)?);
        let entries = journal::read(&host, &header, need, room::<SEGMENT>())?;
        let writable = access == Access::ReadWrite;
        let mut stored = writable.then(|| Stored::new(&spec, &header, host));
        if let Some(entries) = entries {
            replay::<SEGMENT>(&entries, &mut segments, |segment, entry| {
                if let Some(stored) = &mut stored {
                    stored.know(segment, entry);
                }
            });
            if let Some(stored) = &mut stored {
                stored.write_table(&segments)?;
            }
        }
        Ok(SimNor::with_segments(spec, segments, stored))
    }

    /// Whether [`SimNor::sync`] waits for the disk of the host (as it does at first), and whatever
    /// else keeps an image whole when the host crashes. Without, nothing waits before the chip is
    /// dropped.
    pub fn set_barrier(&mut self, on: bool) {
        if let Some(stored) = &mut self.stored {
            stored.journal.set_barrier(on);
        }
    }
}

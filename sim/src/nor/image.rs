//! The image file of a NOR chip.
//!
//! All numbers are little-endian. Contents are stored complemented, so that a hole in the sparse
//! file is an erased chip.
//!
//! ```text
//! 0      header, 128 bytes
//!          0  magic, 8 bytes            24  read_ns of a word, u64
//!          8  version, u32              32  program_ns of a word, u64
//!         12  segment size, u32         40  erase_ns, u64
//!         16  banks, u32                48  suspend_ns, u64
//!         20  segments per bank, u32    56  endurance, u32
//!         60  0, u32                    64  name, 32 bytes, padded with 0
//!         96  0, 28 bytes              124  CRC-32 of the 124 bytes before, u32
//! 4096   a record of 8 bytes for each segment: erase count, u32; flags, u8: 1 half erased; 0
//! ...    the segments, complemented, from the next multiple of 4096 on
//! ```
//!
//! Invariant: a segment is marked half erased while it erases, so a process killed at any moment
//! leaves a chip that a power cut might have left. Bits left unstable by a simulated cut are not
//! stored: in the file they are as before the torn program.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::chip::Segment;
use super::{NorSpec, NorTiming, SimNor};
use crate::image::{crc32, u32_at, u64_at};
use crate::{Access, ImageError};

/// How the file begins.
pub(crate) const MAGIC: [u8; 8] = *b"FLKNOR\0\x1A";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 128;
const CRC_AT: usize = HEADER_LEN - 4;
const NAME_AT: usize = 64;
const TABLE_AT: u64 = 4096;
const RECORD_LEN: usize = 8;

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
    let crc = crc32(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
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
        VERSION => {}
        version => return Err(ImageError::UnsupportedVersion(version)),
    }
    if crc32(&header[..CRC_AT]) != u32_at(header, CRC_AT) {
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

/// Writes a segment's erase count and flags through.
pub(crate) fn write_record(file: &File, segment: u32, state: &Segment) -> io::Result<()> {
    let mut record = [0; RECORD_LEN];
    record[..4].copy_from_slice(&state.erase_count.to_le_bytes());
    record[4] = state.flags;
    file.write_all_at(&record, TABLE_AT + u64::from(segment) * RECORD_LEN as u64)
}

/// Writes bytes of a segment through.
pub(crate) fn write_bytes<const SEGMENT: usize>(
    file: &File,
    spec: &NorSpec,
    segment: u32,
    at: usize,
    bytes: &[u8],
) -> io::Result<()> {
    let stored: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let offset = body_at(spec) + u64::from(segment) * SEGMENT as u64 + at as u64;
    file.write_all_at(&stored, offset)
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
        file.set_len(body_at(&spec) + u64::from(spec.segments()) * SEGMENT as u64)?;
        file.write_all_at(&encode_header(&spec, SEGMENT), 0)?;
        let mut nor = SimNor::new(spec);
        nor.file = Some(Arc::new(file));
        Ok(nor)
    }

    /// Opens an image file and reads it into RAM. Erased segments share theirs: what an image takes
    /// is bounded by what was written to it, whatever size its header names.
    ///
    /// # Errors
    /// See [`ImageError`]; the file is not changed.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<SimNor<SEGMENT>, ImageError> {
        let writable = access == Access::ReadWrite;
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        let have = file.metadata()?.len();
        let mut header = vec![0; have.min(HEADER_LEN as u64) as usize];
        file.read_exact_at(&mut header, 0)?;
        let spec = decode_header(&header, SEGMENT)?;
        if writable {
            file.try_lock()?;
        } else {
            file.try_lock_shared()?;
        }
        let need = body_at(&spec) + u64::from(spec.segments()) * SEGMENT as u64;
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
            state.erase_count = u32_at(&record, 0);
            state.flags = record[4];
            segments.push(state);
        }
        let file = writable.then(|| Arc::new(file));
        Ok(SimNor::with_segments(spec, segments, file))
    }
}

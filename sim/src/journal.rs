//! The journal of an image: what the chip was asked since its table was last written.
//!
//! All numbers are little-endian. It is behind the chip's bytes in the file, and is cut off when
//! the image is closed.
//!
//! ```text
//! 0   the chain, u32: CRC-32 of all that follows in the record, continued from the record before;
//!     of the first record from the generation in the header
//! 4   what was done, u32      8  where, u32      12  bytes that follow, u32      16  those bytes
//! ```
//!
//! The header of an image says whether there is one: its version is 2 then, in place of 1, and its
//! bytes 96 to 99 are the generation, a number that no journal at this place had before. The
//! journal ends where the chain does. So records of earlier generations, and those behind one that
//! a crash of the host has lost, do not count: what is left is what was asked first, and nothing
//! else.
//!
//! The host may write to its disk in any order what it was not told to sync. A table is written
//! only when the whole journal is on the disk, and the journal ends (version 1) only when the table
//! is: made anew over any mixture of both tables, a journal gives the new one.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;

use crate::host::HostFile;
use crate::image::u32_at;

/// Bytes of the header of an image, for every sort of chip.
pub(crate) const HEADER_LEN: usize = 128;
/// Where its checksum is.
pub(crate) const CRC_AT: usize = HEADER_LEN - 4;
/// Version of an image whose table says all.
pub(crate) const VERSION: u32 = 1;
/// Version of an image with a journal.
pub(crate) const VERSION_JOURNAL: u32 = 2;
const VERSION_AT: usize = 8;
const GENERATION_AT: usize = 96;
const HEAD: usize = 16;

/// The CRC-32 of Ethernet and zlib, continued.
fn crc_on(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// Puts the checksum into a header.
pub(crate) fn seal(header: &mut [u8; HEADER_LEN]) {
    let crc = crc32fast::hash(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

/// One thing a chip was asked.
pub(crate) struct Entry {
    pub kind: u32,
    pub place: u32,
    pub payload: Vec<u8>,
}

/// The journal that a header speaks of, as far as its chain holds; at most `room` bytes.
/// `None`: the table says all.
pub(crate) fn read(
    host: &HostFile,
    header: &[u8],
    at: u64,
    room: usize,
) -> io::Result<Option<Vec<Entry>>> {
    if u32_at(header, VERSION_AT) != VERSION_JOURNAL {
        return Ok(None);
    }
    let there = host.len()?.saturating_sub(at).min(room as u64);
    let mut bytes = vec![0; there as usize];
    host.read_exact_at(&mut bytes, at)?;
    let mut entries = Vec::new();
    let (mut chain, mut rest) = (u32_at(header, GENERATION_AT), &bytes[..]);
    while rest.len() >= HEAD {
        let len = u32_at(rest, 12) as usize;
        let Some(record) = rest.get(4..HEAD.saturating_add(len)) else {
            break;
        };
        let next = crc_on(chain, record);
        if next != u32_at(rest, 0) {
            break;
        }
        entries.push(Entry {
            kind: u32_at(rest, 4),
            place: u32_at(rest, 8),
            payload: record[HEAD - 4..].to_vec(),
        });
        chain = next;
        rest = &rest[HEAD + len..];
    }
    Ok(Some(entries))
}

/// The journal of an image that is open for writing, and the one way to write to its file.
#[derive(Debug)]
pub(crate) struct Journal {
    host: Arc<HostFile>,
    /// As it is where there is no journal.
    header: [u8; HEADER_LEN],
    at: u64,
    room: usize,
    used: usize,
    /// The header in the file speaks of a journal.
    begun: bool,
    /// Nothing was written yet.
    unused: bool,
    chain: u32,
    /// Something was written that may not be on the disk.
    unsynced: bool,
    /// Whether anything waits for the disk before the end.
    barrier: bool,
}

impl Journal {
    /// The journal of a file that has none, or whose journal is to be [ended](Journal::end) first.
    pub fn new(host: Arc<HostFile>, header: &[u8], at: u64, room: usize) -> Journal {
        let mut rest = [0; HEADER_LEN];
        rest.copy_from_slice(&header[..HEADER_LEN]);
        let mut journal = Journal {
            host,
            header: rest,
            at,
            room,
            used: 0,
            begun: u32_at(header, VERSION_AT) == VERSION_JOURNAL,
            unused: true,
            chain: 0,
            unsynced: true,
            barrier: true,
        };
        journal.stamp(VERSION, 0);
        journal
    }

    pub fn set_barrier(&mut self, on: bool) {
        self.barrier = on;
    }

    fn stamp(&mut self, version: u32, generation: u32) {
        self.header[VERSION_AT..VERSION_AT + 4].copy_from_slice(&version.to_le_bytes());
        self.header[GENERATION_AT..GENERATION_AT + 4].copy_from_slice(&generation.to_le_bytes());
        seal(&mut self.header);
    }

    /// Writes to the file, outside of the journal.
    pub fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.unused = false;
        self.unsynced = true;
        self.host.write_all_at(bytes, at)
    }

    /// Whether records with so many bytes in all, and so many of them, still fit.
    pub fn fits(&self, records: usize, bytes: usize) -> bool {
        self.used + records * HEAD + bytes <= self.room
    }

    /// Whether nothing was ever written.
    pub fn is_unused(&self) -> bool {
        self.unused
    }

    /// Adds a record; the caller has made [room](Journal::fits). The first begins a generation.
    pub fn append(&mut self, kind: u32, place: u32, payload: &[u8]) -> io::Result<()> {
        if !self.begun {
            // The standard library seeds its hash tables from the system's randomness.
            let hasher = std::collections::hash_map::RandomState::new().build_hasher();
            self.chain = hasher.finish() as u32;
            self.stamp(VERSION_JOURNAL, self.chain);
            self.write(&self.header.clone(), 0)?;
            self.begun = true;
        }
        let mut record = Vec::with_capacity(HEAD + payload.len());
        for word in [0, kind, place, payload.len() as u32] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend_from_slice(payload);
        let chain = crc_on(self.chain, &record[4..]);
        record[..4].copy_from_slice(&chain.to_le_bytes());
        self.write(&record, self.at + self.used as u64)?;
        self.used += record.len();
        self.chain = chain;
        Ok(())
    }

    /// Everything written is on the disk when this returns, unless there are no barriers.
    pub fn sync(&mut self) -> io::Result<()> {
        match self.barrier {
            true => self.sync_now(),
            false => Ok(()),
        }
    }

    fn sync_now(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.host.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Begins anew once `write_table` has written what the records say to where it belongs.
    pub fn end(
        &mut self,
        write_table: impl FnOnce(&mut Journal) -> io::Result<()>,
    ) -> io::Result<()> {
        self.sync()?;
        if !self.begun {
            return Ok(());
        }
        write_table(self)?;
        self.sync()?;
        self.stamp(VERSION, 0);
        self.write(&self.header.clone(), 0)?;
        // Before a record takes the place of one of this generation.
        self.sync()?;
        (self.used, self.begun) = (0, false);
        Ok(())
    }

    /// Cuts the journal off the file; it has been ended.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync_now()?;
        match self.host.len()? > self.at {
            true => self.host.set_len(self.at),
            false => Ok(()),
        }
    }
}

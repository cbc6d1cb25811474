//! A raw image of a card as a block device: `dd` of an SD card, or a file that is to become one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use flashkit_block::BlockDevice;
use flashkit_meter::{CardCounters, MeteredCard};

use crate::TestHost;
use crate::card::{CARD_BLOCK, CardTiming};
use crate::host::HostFile;
use crate::image::check_no_pipe;

type Block = [u8; CARD_BLOCK];

/// A file of 512-byte blocks. It is locked for as long as it is open.
pub struct CardFile {
    file: HostFile,
    blocks: u32,
    /// What was written and must not reach the file.
    kept: Option<HashMap<u32, Box<Block>>>,
    /// Whether a flush waits for the disk.
    barrier: bool,
    /// Something was written that a flush did not wait for.
    owed: bool,
    timing: CardTiming,
    counters: CardCounters,
}

impl CardFile {
    /// Opens an image; with `read_only` the file stays as it is, whatever is written. A flush waits
    /// for the disk of the host; see [`CardFile::set_barrier`].
    ///
    /// # Errors
    /// `WouldBlock`: it is open elsewhere. `InvalidData`: it has no block, or too many.
    pub fn open(path: &Path, read_only: bool) -> Result<CardFile> {
        CardFile::open_on(path, read_only, None)
    }

    /// [`CardFile::open`] on a host that may crash.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(path: &Path, read_only: bool, host: Option<&TestHost>) -> Result<CardFile> {
        check_no_pipe(path)?;
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        CardFile::new(file, read_only, host)
    }

    /// Makes an image of zeros in place of any file of that name.
    ///
    /// # Errors
    /// As [`CardFile::open`]; the file is left alone then.
    pub fn create(path: &Path, blocks: u32) -> Result<CardFile> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        lock(&file, false)?;
        file.set_len(0)?;
        file.set_len(u64::from(blocks) * CARD_BLOCK as u64)?;
        CardFile::new(file, false, None)
    }

    fn new(file: File, read_only: bool, host: Option<&TestHost>) -> Result<CardFile> {
        lock(&file, read_only)?;
        let blocks = file.metadata()?.len() / CARD_BLOCK as u64;
        let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks > 0);
        Ok(CardFile {
            file: HostFile::new(file, host)?,
            blocks: blocks.ok_or_else(|| Error::new(ErrorKind::InvalidData, "no card's size"))?,
            kept: read_only.then(HashMap::new),
            barrier: true,
            owed: false,
            timing: CardTiming::CLASS_4,
            counters: CardCounters::default(),
        })
    }

    /// Whether a flush waits for the disk of the host, as it does at first. Without, nothing waits
    /// before the card is dropped, and a crash of the host may leave anything. Killing the process
    /// does no harm either way.
    pub fn set_barrier(&mut self, on: bool) {
        self.barrier = on;
    }

    /// A block as it is now; none beyond the end, or when it cannot be read.
    pub fn block(&self, block: u32) -> Option<Block> {
        let mut bytes = [0; CARD_BLOCK];
        let range = self.range(block, CARD_BLOCK).ok()?;
        self.fetch(range.start, &mut bytes).ok()?;
        Some(bytes)
    }

    fn range(&self, first: u32, len: usize) -> Result<std::ops::Range<u32>> {
        let n = (len / CARD_BLOCK) as u64;
        let end = u64::from(first) + n;
        if !len.is_multiple_of(CARD_BLOCK) || end > self.blocks.into() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "beyond the end of the card",
            ));
        }
        Ok(first..end as u32)
    }

    fn fetch(&self, first: u32, buf: &mut [u8]) -> Result<()> {
        self.file
            .read_exact_at(buf, u64::from(first) * CARD_BLOCK as u64)?;
        if let Some(kept) = self.kept.as_ref().filter(|kept| !kept.is_empty()) {
            for (block, to) in (first..).zip(buf.chunks_exact_mut(CARD_BLOCK)) {
                if let Some(from) = kept.get(&block) {
                    to.copy_from_slice(&from[..]);
                }
            }
        }
        Ok(())
    }
}

fn lock(file: &File, shared: bool) -> Result<()> {
    let locked = if shared {
        file.try_lock_shared()
    } else {
        file.try_lock()
    };
    locked.map_err(|e| match e {
        TryLockError::WouldBlock => Error::new(ErrorKind::WouldBlock, "is in use"),
        TryLockError::Error(e) => e,
    })
}

impl MeteredCard for CardFile {
    fn counters(&self) -> CardCounters {
        self.counters
    }

    fn idle(&mut self, ns: u64) {
        self.counters.time_ns = self.counters.time_ns.saturating_add(ns);
    }
}

impl BlockDevice for CardFile {
    type Error = Error;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        CARD_BLOCK as u32
    }

    fn sector_count(&self) -> u32 {
        self.blocks
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<()> {
        let range = self.range(first, buf.len())?;
        self.timing
            .count_read(&mut self.counters, range.len() as u64);
        self.fetch(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<()> {
        let range = self.range(first, data.len())?;
        self.timing
            .count_write(&mut self.counters, range.len() as u64);
        let Some(kept) = &mut self.kept else {
            return self
                .file
                .write_all_at(data, u64::from(first) * CARD_BLOCK as u64);
        };
        for (block, from) in range.zip(data.chunks_exact(CARD_BLOCK)) {
            let to = kept
                .entry(block)
                .or_insert_with(|| Box::new([0; CARD_BLOCK]));
            to.copy_from_slice(from);
        }
        Ok(())
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<()> {
        let range = self.range(first, count as usize * CARD_BLOCK)?;
        self.timing
            .count_trim(&mut self.counters, range.len() as u64);
        // The file keeps what it held: a trim is a hint.
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.counters.flushes += 1;
        match self.kept {
            None if self.barrier => self.file.sync(),
            None => {
                self.owed = true;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}

impl Drop for CardFile {
    fn drop(&mut self) {
        if self.owed {
            let _ = self.file.sync();
        }
    }
}

//! A raw image of a card as a block device: `dd` of an SD card, or a file that is to become one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flashkit_block::BlockDevice;
use flashkit_meter::{CardCounters, MeteredCard};

use crate::card::{CARD_BLOCK, CardTiming};

type Block = [u8; CARD_BLOCK];

/// A file of 512-byte blocks. It is locked for as long as it is open.
pub struct CardFile {
    file: File,
    blocks: u32,
    /// What was written and must not reach the file.
    kept: Option<HashMap<u32, Box<Block>>>,
    /// Whether a flush waits for the disk.
    durable: bool,
    timing: CardTiming,
    counters: CardCounters,
}

impl CardFile {
    /// Opens an image; with `read_only` the file stays as it is, whatever is written. A flush waits
    /// for the disk of the host; see [`CardFile::lazy`].
    ///
    /// # Errors
    /// `WouldBlock`: it is open elsewhere. `InvalidData`: it has no block, or too many.
    pub fn open(path: &Path, read_only: bool) -> Result<CardFile> {
        let file = OpenOptions::new().read(true).write(!read_only).open(path)?;
        Self::new(file, read_only)
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
        Self::new(file, false)
    }

    fn new(file: File, read_only: bool) -> Result<CardFile> {
        lock(&file, read_only)?;
        let blocks = file.metadata()?.len() / CARD_BLOCK as u64;
        let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks > 0);
        Ok(CardFile {
            file,
            blocks: blocks.ok_or_else(|| Error::new(ErrorKind::InvalidData, "no card's size"))?,
            kept: read_only.then(HashMap::new),
            durable: true,
            timing: CardTiming::CLASS_4,
            counters: CardCounters::default(),
        })
    }

    /// A flush does not wait for the disk: for a program whose end does not mean the machine's.
    #[must_use]
    pub fn lazy(mut self) -> CardFile {
        self.durable = false;
        self
    }

    /// Writes everything to the disk of the host.
    pub fn sync_all(&self) -> Result<()> {
        match self.kept {
            None => self.file.sync_all(),
            Some(_) => Ok(()),
        }
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
        self.counters.time_ns += ns;
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
        match self.durable && self.kept.is_none() {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }
}

//! Raw images, as nanddump writes and nandwrite reads them: pages one after another, each with
//! or without its raw spare bytes.
//!
//! Bytes 0 and 1 of the raw spare are the bad-block marker, `0xFF` on good blocks; the usable
//! bytes follow; what ECC would take is `0xFF`. Nothing here is counted or takes virtual time.

use std::fs::File;
use std::io::{BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::path::Path;

use crate::block::{BAD, FACTORY, PageState};
use crate::{ChipSpec, SimError, SimNand};

/// Pages at the start of a block whose markers tell whether it is bad.
const MARKED_PAGES: u32 = 2;

impl SimNand {
    /// Writes every page of the chip, of bad blocks too, as `nanddump --bb=dumpbad` does;
    /// with `with_spare`, as with its `--oob`.
    ///
    /// The first two pages of a bad block have a marker of zeros. An uncorrectable page is written
    /// as zeros, and neither it nor a torn program or erase can be told from the file.
    ///
    /// # Errors
    /// [`SimError::Io`].
    pub fn export_raw(&mut self, path: impl AsRef<Path>, with_spare: bool) -> Result<(), SimError> {
        let mut out = BufWriter::new(File::create(path)?);
        let (page_size, raw_spare) = self.raw_sizes(with_spare);
        let mut raw = vec![0; page_size + raw_spare];
        for b in 0..self.geometry.blocks() {
            for index in 0..self.geometry.pages_per_block() {
                self.export_page(b, index, &mut raw)?;
                out.write_all(&raw)?;
            }
        }
        out.flush()?;
        Ok(())
    }

    fn raw_sizes(&self, with_spare: bool) -> (usize, usize) {
        let raw_spare = if with_spare { self.spec.raw_spare() } else { 0 };
        (self.geometry.page_size() as usize, raw_spare as usize)
    }

    /// Fills `raw` with a page and, if there is room, its raw spare.
    fn export_page(&mut self, b: u32, index: u32, raw: &mut [u8]) -> Result<(), SimError> {
        self.load(b)?;
        raw.fill(0xFF);
        let (data, raw_spare) = raw.split_at_mut(self.geometry.page_size() as usize);
        let usable = if raw_spare.is_empty() {
            0
        } else {
            self.geometry.spare_size() as usize
        };
        let marker = (ChipSpec::MARKER as usize).min(raw_spare.len());
        let (marker, rest) = raw_spare.split_at_mut(marker);
        let block = &self.blocks[b as usize];
        match block.page(index).state {
            PageState::Blank | PageState::LooksBlank | PageState::UnstableBlank(_) => {}
            PageState::Garbage => {
                data.fill(0);
                rest[..usable].fill(0);
            }
            PageState::Written | PageState::Unstable(_) => {
                self.fetch(b, index, 0, data, &mut rest[..usable])?;
            }
        }
        if block.has(BAD) && index < MARKED_PAGES {
            marker.fill(0);
        }
        Ok(())
    }

    /// Replaces the chip's contents by a file of pages, from page 0 on; pages that the file
    /// does not have become blank, and so do pages of nothing but `0xFF`. With `with_spare`, each
    /// page is followed by its raw spare, and blocks whose marker is not `0xFF` in either of
    /// their first two pages become bad, the others good. Without, bad blocks stay so.
    ///
    /// Erase counts stay. After an error the contents are undefined.
    ///
    /// # Errors
    /// [`SimError::Io`]: of the kind `InvalidData` when the file is larger than the chip or is
    /// not of whole pages.
    pub fn import_raw(&mut self, path: impl AsRef<Path>, with_spare: bool) -> Result<(), SimError> {
        let file = File::open(path)?;
        let (page_size, raw_spare) = self.raw_sizes(with_spare);
        let stride = page_size + raw_spare;
        let len = file.metadata()?.len();
        let most = stride as u64 * u64::from(self.geometry.pages());
        if len > most || len % stride as u64 != 0 {
            let what = format!("{len} bytes are not up to {most} in pages of {stride}");
            return Err(Error::new(ErrorKind::InvalidData, what).into());
        }
        let mut pages_left = len / stride as u64;
        let mut input = BufReader::new(file);
        let mut raw = vec![0; stride];
        for b in 0..self.geometry.blocks() {
            let mut bad = false;
            self.start_import(b, with_spare)?;
            for index in 0..self.geometry.pages_per_block() {
                if pages_left == 0 {
                    break;
                }
                pages_left -= 1;
                input.read_exact(&mut raw)?;
                bad |= index < MARKED_PAGES && raw.get(page_size).is_some_and(|m| *m != 0xFF);
                self.import_page(b, index, &raw)?;
            }
            if bad {
                self.set_flags(b, BAD)?;
            }
        }
        Ok(())
    }

    /// Empties a block without an erase.
    fn start_import(&mut self, b: u32, with_spare: bool) -> Result<(), SimError> {
        let block = &mut self.blocks[b as usize];
        block.flags &= if with_spare { 0 } else { BAD | FACTORY };
        block.clear();
        self.save_block(b)
    }

    fn import_page(&mut self, b: u32, index: u32, raw: &[u8]) -> Result<(), SimError> {
        let (data, raw_spare) = raw.split_at(self.geometry.page_size() as usize);
        let marker = ChipSpec::MARKER as usize;
        let usable = marker..marker + self.geometry.spare_size() as usize;
        let spare = raw_spare.get(usable).unwrap_or(&[]);
        if data.iter().all(|byte| *byte == 0xFF) && spare.iter().all(|byte| *byte == 0xFF) {
            return Ok(());
        }
        self.put(b, index, PageState::Written, data, spare)
    }
}

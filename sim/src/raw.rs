//! Raw images, as nanddump writes and nandwrite reads them: pages one after another, each with
//! or without its raw spare bytes.
//!
//! Bytes 0 and 1 of the raw spare are the bad-block marker, `0xFF` on good blocks; the usable
//! bytes follow; what ECC would take is `0xFF`. Nothing here is counted or takes virtual time.

use std::fs::File;
use std::io::{BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::path::Path;

use flashkit_nand::PageAddr;

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
        let mut raw = vec![0; self.raw_page_len(with_spare)];
        for page in (0..self.geometry.pages()).map(PageAddr) {
            self.export_page(page, &mut raw)?;
            out.write_all(&raw)?;
        }
        out.flush()?;
        Ok(())
    }

    fn raw_sizes(&self, with_spare: bool) -> (usize, usize) {
        let raw_spare = if with_spare { self.spec.raw_spare() } else { 0 };
        (self.geometry.page_size() as usize, raw_spare as usize)
    }

    /// Bytes of a page in a raw image.
    pub fn raw_page_len(&self, with_spare: bool) -> usize {
        let (page_size, raw_spare) = self.raw_sizes(with_spare);
        page_size + raw_spare
    }

    /// Fills `raw`, of the length of [`SimNand::raw_page_len`], with a page and, if there is room,
    /// its raw spare, as [`SimNand::export_raw`] writes them.
    ///
    /// # Errors
    /// [`SimError::Io`].
    pub fn export_page(&mut self, page: PageAddr, raw: &mut [u8]) -> Result<(), SimError> {
        let (b, index) = (self.geometry.block_of(page).0, self.geometry.index_of(page));
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
            PageState::Garbage | PageState::Late(_) | PageState::Fitful(..) => {
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
        self.import(path.as_ref(), with_spare, false)
    }

    /// The same as nandwrite does it: bad blocks are passed over, stay bad, and get nothing.
    /// Markers in the file are not looked at.
    ///
    /// # Errors
    /// As [`SimNand::import_raw`]; the file must fit the good blocks.
    pub fn import_raw_around_bad(
        &mut self,
        path: impl AsRef<Path>,
        with_spare: bool,
    ) -> Result<(), SimError> {
        self.import(path.as_ref(), with_spare, true)
    }

    fn import(&mut self, path: &Path, with_spare: bool, around_bad: bool) -> Result<(), SimError> {
        let file = File::open(path)?;
        let (page_size, _) = self.raw_sizes(with_spare);
        let stride = self.raw_page_len(with_spare);
        let len = file.metadata()?.len();
        let passed_over = if around_bad {
            self.bad_blocks().len() as u32
        } else {
            0
        };
        let blocks = self.geometry.blocks() - passed_over;
        let most = stride as u64 * u64::from(blocks * self.geometry.pages_per_block());
        if len > most || !len.is_multiple_of(stride as u64) {
            let what = format!("{len} bytes are not up to {most} in pages of {stride}");
            return Err(Error::new(ErrorKind::InvalidData, what).into());
        }
        let mut pages_left = len / stride as u64;
        let mut input = BufReader::new(file);
        let mut raw = vec![0; stride];
        let has_markers = with_spare && !around_bad;
        for b in 0..self.geometry.blocks() {
            let mut bad = false;
            self.start_import(b, has_markers)?;
            if around_bad && self.blocks[b as usize].has(BAD) {
                continue;
            }
            for index in 0..self.geometry.pages_per_block() {
                if pages_left == 0 {
                    break;
                }
                pages_left -= 1;
                input.read_exact(&mut raw)?;
                let marker = raw.get(page_size).filter(|_| has_markers);
                bad |= index < MARKED_PAGES && marker.is_some_and(|m| *m != 0xFF);
                self.import_page(b, index, &raw)?;
            }
            if bad {
                self.set_flags(b, BAD)?;
            }
        }
        Ok(())
    }

    /// Empties a block without an erase.
    fn start_import(&mut self, b: u32, forget_bad: bool) -> Result<(), SimError> {
        self.prepare_to_empty(b)?;
        let block = &mut self.blocks[b as usize];
        block.flags &= if forget_bad { 0 } else { BAD | FACTORY };
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

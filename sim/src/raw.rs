//! Raw images, as nanddump writes and nandwrite reads them: pages one after another, each with
//! or without its raw spare bytes.
//!
//! Bytes 0 and 1 of the raw spare are the bad-block marker, `0xFF` on good blocks. The usable bytes
//! follow, or are where the chip has them: one that is named as a SPI NAND of [`crate::spi`], in
//! whatever case, has that part's layout. What ECC would take is `0xFF`. Nothing here is counted or
//! takes virtual time.

use std::fs::File;
use std::io::{BufReader, BufWriter, Error, ErrorKind, Read, Write};
use std::ops::Range;
use std::path::Path;

use flashkit_nand::PageAddr;

use crate::block::{BAD, FACTORY, PageState};
use crate::spi::spi_part;
use crate::{ChipSpec, SimError, SimNand};

/// Pages at the start of a block whose markers tell whether it is bad.
const MARKED_PAGES: u32 = 2;

impl ChipSpec {
    /// Where the usable spare bytes are among the raw ones, run after run. `None`: a SPI NAND of
    /// this name has not so many, or another spare area.
    pub fn spare_map(&self) -> Option<Vec<Range<usize>>> {
        let usable = self.geometry().spare_size();
        let part = spi_part(&self.name().to_uppercase());
        let runs_of = part.map_or(&[(Self::MARKER, u32::MAX)][..], |part| part.runs);
        let mut left = usable;
        let mut runs = Vec::new();
        for &(first, len) in runs_of {
            let len = len.min(left);
            left -= len;
            runs.push(first as usize..(first + len) as usize);
        }
        let is_that = part.is_none_or(|part| {
            let geometry = self.geometry();
            (part.page_size, part.raw_spare) == (geometry.page_size(), self.raw_spare())
        });
        let fits = left == 0 && is_that;
        fits.then_some(runs)
    }
}

impl SimNand {
    /// The layout of raw images with spare bytes.
    fn spare_map(&self) -> Result<Vec<Range<usize>>, SimError> {
        self.spec.spare_map().ok_or_else(|| {
            let (name, spare) = (self.spec.name(), self.geometry.spare_size());
            let what = format!(
                "{name} has no {spare} usable spare bytes in {}",
                self.spec.raw_spare()
            );
            Error::new(ErrorKind::InvalidInput, what).into()
        })
    }

    /// Writes every page of the chip, of bad blocks too, as `nanddump --bb=dumpbad` does;
    /// with `with_spare`, as with its `--oob`.
    ///
    /// The first two pages of a bad block have a marker of zeros. An uncorrectable page is written
    /// as zeros, and neither it nor a torn program or erase can be told from the file.
    ///
    /// # Errors
    /// [`SimError::Io`]: of the kind `InvalidInput` when a chip of this name has not as many usable
    /// spare bytes.
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
    /// As [`SimNand::export_raw`].
    pub fn export_page(&mut self, page: PageAddr, raw: &mut [u8]) -> Result<(), SimError> {
        let (b, index) = (self.geometry.block_of(page).0, self.geometry.index_of(page));
        self.load(b)?;
        raw.fill(0xFF);
        let (data, raw_spare) = raw.split_at_mut(self.geometry.page_size() as usize);
        let (mut usable, map) = if raw_spare.is_empty() {
            (Vec::new(), Vec::new())
        } else {
            (
                vec![0xFF; self.geometry.spare_size() as usize],
                self.spare_map()?,
            )
        };
        let block = &self.blocks[b as usize];
        match block.page(index).state {
            PageState::Blank | PageState::LooksBlank | PageState::UnstableBlank(_) => {}
            PageState::Garbage | PageState::Late(_) | PageState::Fitful(..) => {
                data.fill(0);
                usable.fill(0);
            }
            PageState::Written | PageState::Unstable(_) => {
                self.fetch(b, index, 0, data, &mut usable)?;
            }
        }
        let mut rest = &usable[..];
        for run in map {
            let (now, later) = rest.split_at(run.len());
            raw_spare[run].copy_from_slice(now);
            rest = later;
        }
        let marked = (ChipSpec::MARKER as usize).min(raw_spare.len());
        let marker = &mut raw_spare[..marked];
        let block = &self.blocks[b as usize];
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
    /// not of whole pages, and as [`SimNand::export_raw`].
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
        let map = if with_spare {
            self.spare_map()?
        } else {
            Vec::new()
        };
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
                self.import_page(b, index, &raw, &map)?;
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

    fn import_page(
        &mut self,
        b: u32,
        index: u32,
        raw: &[u8],
        map: &[Range<usize>],
    ) -> Result<(), SimError> {
        let (data, raw_spare) = raw.split_at(self.geometry.page_size() as usize);
        let usable = map.iter().flat_map(|run| &raw_spare[run.clone()]);
        let spare = &usable.copied().collect::<Vec<u8>>();
        if data.iter().all(|byte| *byte == 0xFF) && spare.iter().all(|byte| *byte == 0xFF) {
            return Ok(());
        }
        self.put(b, index, PageState::Written, data, spare)
    }
}

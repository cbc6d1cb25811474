//! Where a chip's pages are: in RAM, or in an image file.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use crate::block::{Block, Page, PageBytes, PageState, Pages, copy_padded};
use crate::image::{self, ImageFile, RECORD_HEAD};
use crate::journal::Journal;
use crate::{Access, ChipSpec, ImageError, SimError, SimNand, TestHost};

use flashkit_nand::BlockAddr;

/// The image file behind a chip.
#[derive(Debug)]
pub(crate) struct Backing {
    file: Arc<ImageFile>,
    writer: Option<Writer>,
}

impl Clone for Backing {
    /// To read from the same file.
    fn clone(&self) -> Backing {
        Backing {
            file: self.file.clone(),
            writer: None,
        }
    }
}

/// How changes go to the image file.
#[derive(Debug)]
struct Writer {
    journal: Journal,
    /// Blocks that have changed since the table was written.
    changed: BTreeSet<u32>,
    /// Blocks that held pages which are gone now. The disk may not know that yet.
    emptied: BTreeSet<u32>,
}

impl Writer {
    fn new(journal: Journal) -> Writer {
        Writer {
            journal,
            changed: BTreeSet::new(),
            emptied: BTreeSet::new(),
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.journal.sync()?;
        self.emptied.clear();
        Ok(())
    }

    /// Writes what has changed to the table, so that the journal begins anew.
    fn write_table(&mut self, file: &ImageFile, blocks: &[Block]) -> std::io::Result<()> {
        let changed = &self.changed;
        self.journal.end(|journal| {
            changed.iter().try_for_each(|b| {
                let record = record(file, &blocks[*b as usize]);
                file.write_record(journal, *b, &record)
            })
        })?;
        self.changed.clear();
        self.emptied.clear();
        Ok(())
    }
}

/// The record of a loaded block.
fn record(file: &ImageFile, block: &Block) -> Vec<u8> {
    let pages = block.pages.as_ref().map_or(&[][..], |pages| &pages.0);
    let states = pages.iter().map(|page| page.state.encode());
    image::encode_record(file.record_len(), block.erase_count, block.flags, states)
}

impl SimNand {
    /// Makes an image file of an erased chip, in place of any file at `path`, and opens it
    /// for reading and writing.
    ///
    /// # Errors
    /// [`ImageError::InUse`] when the file is an image that is open, [`ImageError::Io`],
    /// [`ImageError::TooLarge`].
    pub fn create(
        path: impl AsRef<Path>,
        spec: impl Into<ChipSpec>,
    ) -> Result<SimNand, ImageError> {
        let spec = spec.into();
        let (file, journal) = ImageFile::create(path.as_ref(), &spec)?;
        let mut nand = SimNand::new(spec);
        nand.backing = Some(Backing {
            file: Arc::new(file),
            writer: Some(Writer::new(journal)),
        });
        Ok(nand)
    }

    /// Opens an image file. Reads the block table and no page: a byte a page. A header that names
    /// more blocks or pages than an image may have is refused before that. Where a process was
    /// killed or its host crashed, the pages of which the image's journal tells are read as well,
    /// 12,000 at most.
    ///
    /// # Errors
    /// See [`ImageError`]; the chip in the file is not changed.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<SimNand, ImageError> {
        SimNand::open_on(path.as_ref(), access, None)
    }

    /// [`SimNand::open`] on a host that may crash.
    ///
    /// # Errors
    /// As there.
    pub fn open_on(
        path: &Path,
        access: Access,
        host: Option<&TestHost>,
    ) -> Result<SimNand, ImageError> {
        let (file, spec, journal) = ImageFile::open(path, access, host)?;
        let mut nand = SimNand::new(spec);
        let table = file.read_table()?;
        for (block, record) in nand
            .blocks
            .iter_mut()
            .zip(table.chunks_exact(file.record_len()))
        {
            (block.erase_count, block.flags) = image::record_head(record);
            block.unloaded = record[RECORD_HEAD..].iter().any(|state| *state != 0);
        }
        nand.backing = Some(Backing {
            file: Arc::new(file),
            writer: journal.map(Writer::new),
        });
        Ok(nand)
    }

    /// Whether [`flush`](flashkit_nand::Nand::flush) waits for the disk of the host (as it does at
    /// first), and whatever else keeps an image whole when the host crashes. Without, nothing waits
    /// before the chip is dropped, and a crash of the host may leave anything. Killing the process
    /// does no harm either way.
    pub fn set_barrier(&mut self, on: bool) {
        if let Some(writer) = self.writer() {
            writer.journal.set_barrier(on);
        }
    }

    /// A copy in RAM that later changes of this chip do not reach, nor its changes this one.
    ///
    /// Costs a reference count for each block in use; but of a chip that writes through to an
    /// image file every programmed page is read.
    ///
    /// # Errors
    /// [`SimError::Io`], never for a chip without an image file.
    pub fn snapshot(&self) -> Result<SimNand, SimError> {
        let mut copy = SimNand {
            spec: self.spec.clone(),
            geometry: self.geometry,
            timing: self.timing,
            blocks: self.blocks.clone(),
            counters: self.counters,
            now_ns: self.now_ns,
            powered: self.powered,
            first_erase: self.first_erase,
            distrusted: self.distrusted,
            faults: self.faults.clone(),
            backing: self.backing.clone(),
            copies: self.copies,
        };
        if self.is_written_through() {
            for b in 0..self.geometry.blocks() {
                copy.fill_from_file(b)?;
            }
            copy.backing = None;
        }
        Ok(copy)
    }

    /// A number that stands for all that later operations depend on: the pages' bytes and
    /// states, and which blocks are bad, failing or half erased. Chips with equal contents have
    /// equal numbers, others (but for one in 2^64 by chance) different ones. Erase counts, counters
    /// and the clock are left out.
    ///
    /// Costs some nanoseconds a page that was ever attempted. The bytes of a page that was
    /// programmed in RAM are looked at once in the page's life, however many snapshots hold it.
    ///
    /// # Errors
    /// [`SimError::Io`], never for a chip without an image file.
    pub fn digest(&self) -> Result<u64, SimError> {
        let copy;
        let chip = match &self.backing {
            None => self,
            Some(_) => {
                let mut loaded = self.snapshot()?;
                for b in 0..self.geometry.blocks() {
                    loaded.fill_from_file(b)?;
                }
                copy = loaded;
                &copy
            }
        };
        let mut hasher = DefaultHasher::new();
        for block in &chip.blocks {
            // Behind the last attempted page of a half erased block there are more in RAM.
            let pages = block.pages.as_ref().map_or(&[][..], |pages| &pages.0);
            let last = pages.iter().rposition(|p| p.state != PageState::Blank);
            let next = last.map_or(0, |last| last as u32 + 1);
            (block.flags, next).hash(&mut hasher);
            for index in 0..next {
                let page = block.page(index);
                hasher.write_u8(page.state.encode());
                if let Some(bytes) = page.bytes.as_ref().filter(|_| page.state.has_bytes()) {
                    hasher.write_u64(bytes.digest());
                }
            }
        }
        Ok(hasher.finish())
    }

    /// Whether changes go to an image file.
    fn is_written_through(&self) -> bool {
        self.backing.as_ref().is_some_and(|b| b.writer.is_some())
    }

    fn writer(&mut self) -> Option<&mut Writer> {
        self.backing.as_mut()?.writer.as_mut()
    }

    /// Before a change of a block: the journal has room, and the block's states are known.
    fn prepare(&mut self, b: u32) -> Result<(), SimError> {
        self.load(b)?;
        if let Some(Backing { file, writer }) = &mut self.backing
            && let Some(writer) = writer
        {
            if !file.has_room(&writer.journal) {
                writer.write_table(file, &self.blocks)?;
            }
            writer.changed.insert(b);
        }
        Ok(())
    }

    /// Before pages of a block go, or some of them.
    pub(crate) fn prepare_to_empty(&mut self, b: u32) -> Result<(), SimError> {
        self.prepare(b)?;
        if self.blocks[b as usize].next() > 0
            && let Some(writer) = self.writer()
        {
            writer.emptied.insert(b);
        }
        Ok(())
    }

    /// Brings an image file to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), SimError> {
        match self.writer() {
            Some(writer) => Ok(writer.sync()?),
            None => Ok(()),
        }
    }

    /// Leaves an image without a journal.
    fn close(&mut self) -> Result<(), SimError> {
        if let Some(Backing { file, writer }) = &mut self.backing
            && let Some(mut writer) = writer.take()
            && !writer.journal.is_unused()
        {
            writer.write_table(file, &self.blocks)?;
            writer.journal.close()?;
        }
        Ok(())
    }

    /// Loads the page states of a block, if they are not.
    pub(crate) fn load(&mut self, b: u32) -> Result<(), SimError> {
        let block = &mut self.blocks[b as usize];
        if !block.unloaded {
            return Ok(());
        }
        let backing = self
            .backing
            .as_ref()
            .expect("only an image has unloaded blocks");
        let record = backing.file.read_record(b)?;
        let states = &record[RECORD_HEAD..];
        let next = states
            .iter()
            .rposition(|state| *state != 0)
            .map_or(0, |last| last + 1);
        let page = |state: &u8| Page {
            state: PageState::decode(*state),
            ..Page::BLANK
        };
        block.pages = Some(Arc::new(Pages(states[..next].iter().map(page).collect())));
        block.unloaded = false;
        Ok(())
    }

    /// Brings the bytes of every programmed page of a block into RAM.
    fn fill_from_file(&mut self, b: u32) -> Result<(), SimError> {
        self.load(b)?;
        let mut data = vec![0; self.geometry.page_size() as usize];
        let mut spare = vec![0; self.geometry.spare_size() as usize];
        for index in 0..self.blocks[b as usize].next() {
            let page = self.blocks[b as usize].page(index);
            if page.state.has_bytes() && page.bytes.is_none() {
                self.fetch(b, index, 0, &mut data, &mut spare)?;
                let bytes = Arc::new(PageBytes::new(&data, &spare));
                let pages_per_block = self.geometry.pages_per_block();
                self.blocks[b as usize]
                    .page_mut(index, pages_per_block)
                    .bytes = Some(bytes);
            }
        }
        Ok(())
    }

    /// Copies the bytes of a page into the caller's buffers.
    pub(crate) fn fetch(
        &self,
        b: u32,
        index: u32,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<(), SimError> {
        match (&self.blocks[b as usize].page(index).bytes, &self.backing) {
            (Some(bytes), _) => {
                copy_padded(data, bytes.data(), offset as usize);
                copy_padded(spare, bytes.spare(), 0);
            }
            (None, Some(backing)) => {
                let page = self.geometry.page(BlockAddr(b), index);
                backing.file.read_page(page, offset, data, spare)?;
            }
            (None, None) => unreachable!("a page without a file has its bytes in RAM"),
        }
        Ok(())
    }

    /// Gives a page a state, and its bytes when the state has any.
    pub(crate) fn put(
        &mut self,
        b: u32,
        index: u32,
        state: PageState,
        data: &[u8],
        spare: &[u8],
    ) -> Result<(), SimError> {
        let mut bytes = None;
        if self.is_written_through() {
            self.put_through(b, index, state, data, spare)?;
        } else if state.has_bytes() {
            bytes = Some(Arc::new(PageBytes::new(data, spare)));
        }
        let at_ns = self.now_ns;
        let page = self.blocks[b as usize].page_mut(index, self.geometry.pages_per_block());
        *page = Page {
            state,
            bytes,
            at_ns,
        };
        Ok(())
    }

    fn put_through(
        &mut self,
        b: u32,
        index: u32,
        state: PageState,
        data: &[u8],
        spare: &[u8],
    ) -> Result<(), SimError> {
        if state.has_bytes() && self.blocks[b as usize].page(index).state.has_bytes() {
            // What is there goes first.
            self.put_state(b, index, PageState::Garbage)?;
        }
        self.prepare(b)?;
        let page = self.geometry.page(BlockAddr(b), index);
        let Some(Backing { file, writer }) = &mut self.backing else {
            return Ok(());
        };
        let Some(writer) = writer else { return Ok(()) };
        let state_byte = state.encode();
        if !state.has_bytes() {
            return Ok(file.note_state(&mut writer.journal, page, state_byte)?);
        }
        if writer.emptied.contains(&b) {
            // An earlier state may need what these bytes take the place of.
            writer.sync()?;
        }
        Ok(file.write_page(&mut writer.journal, page, (data, spare), state_byte)?)
    }

    /// Changes the state of a page that keeps its bytes, or loses them.
    pub(crate) fn put_state(
        &mut self,
        b: u32,
        index: u32,
        state: PageState,
    ) -> Result<(), SimError> {
        if state.has_bytes() {
            self.prepare(b)?;
        } else {
            self.prepare_to_empty(b)?;
        }
        let page = self.geometry.page(BlockAddr(b), index);
        if let Some(Backing { file, writer }) = &mut self.backing
            && let Some(writer) = writer
        {
            file.note_state(&mut writer.journal, page, state.encode())?;
        }
        self.blocks[b as usize]
            .page_mut(index, self.geometry.pages_per_block())
            .state = state;
        Ok(())
    }

    /// Writes a loaded block's erase count, flags and page states through;
    /// [`SimNand::prepare_to_empty`] comes before what has changed them.
    pub(crate) fn save_block(&mut self, b: u32) -> Result<(), SimError> {
        if let Some(Backing { file, writer }) = &mut self.backing
            && let Some(writer) = writer
        {
            let record = record(file, &self.blocks[b as usize]);
            file.note_block(&mut writer.journal, b, &record)?;
        }
        Ok(())
    }

    /// Sets flags of a block, and writes them through.
    pub(crate) fn set_flags(&mut self, b: u32, flags: u8) -> Result<(), SimError> {
        self.prepare(b)?;
        self.blocks[b as usize].flags |= flags;
        self.save_block(b)
    }
}

impl Drop for SimNand {
    /// What cannot be written now is in the journal.
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Clone for SimNand {
    /// As [`SimNand::snapshot`].
    ///
    /// # Panics
    /// When the chip writes through to an image file and that cannot be read.
    fn clone(&self) -> SimNand {
        self.snapshot()
            .expect("the image file behind the chip can be read")
    }
}

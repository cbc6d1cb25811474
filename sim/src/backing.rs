//! Where a chip's pages are: in RAM, or in an image file.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use crate::block::{Block, Page, PageBytes, PageState, Pages, copy_padded};
use crate::image::{self, ImageFile, RECORD_HEAD};
use crate::{Access, ChipSpec, ImageError, SimError, SimNand};

use flashkit_nand::BlockAddr;

/// The image file behind a chip.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    pub file: Arc<ImageFile>,
    pub writable: bool,
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
        let file = Arc::new(ImageFile::create(path.as_ref(), &spec)?);
        let mut nand = SimNand::new(spec);
        nand.backing = Some(Backing {
            file,
            writable: true,
        });
        Ok(nand)
    }

    /// Opens an image file. Reads the block table and no page: a byte a page. A header that names
    /// more blocks or pages than an image may have is refused before that.
    ///
    /// # Errors
    /// See [`ImageError`]; the file is not changed.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<SimNand, ImageError> {
        let (file, spec) = ImageFile::open(path.as_ref(), access)?;
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
        let writable = access == Access::ReadWrite;
        nand.backing = Some(Backing {
            file: Arc::new(file),
            writable,
        });
        Ok(nand)
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
        };
        if self.writable_file().is_some() {
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
            (block.flags, block.next()).hash(&mut hasher);
            for index in 0..block.next() {
                let page = block.page(index);
                hasher.write_u8(page.state.encode());
                if let Some(bytes) = page.bytes.as_ref().filter(|_| page.state.has_bytes()) {
                    hasher.write_u64(bytes.digest());
                }
            }
        }
        Ok(hasher.finish())
    }

    /// The image file, if changes are to go there.
    pub(crate) fn writable_file(&self) -> Option<&ImageFile> {
        self.backing
            .as_ref()
            .filter(|backing| backing.writable)
            .map(|backing| &*backing.file)
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
        if let Some(file) = self.writable_file() {
            if state.has_bytes() {
                file.write_page(self.geometry.page(BlockAddr(b), index), data, spare)?;
            }
            file.write_state(b, index, state.encode())?;
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

    /// Changes the state of a page that keeps its bytes.
    pub(crate) fn put_state(
        &mut self,
        b: u32,
        index: u32,
        state: PageState,
    ) -> Result<(), SimError> {
        if let Some(file) = self.writable_file() {
            file.write_state(b, index, state.encode())?;
        }
        self.blocks[b as usize]
            .page_mut(index, self.geometry.pages_per_block())
            .state = state;
        Ok(())
    }

    /// Writes a loaded block's erase count, flags and page states through.
    pub(crate) fn save_block(&mut self, b: u32) -> Result<(), SimError> {
        let Some(file) = self.writable_file() else {
            return Ok(());
        };
        let Block {
            erase_count,
            flags,
            ref pages,
            ..
        } = self.blocks[b as usize];
        let pages = pages.as_ref().map_or(&[][..], |pages| &pages.0);
        let states = pages.iter().map(|page| page.state.encode());
        let record = image::encode_record(file.record_len(), erase_count, flags, states);
        Ok(file.write_record(b, &record)?)
    }

    /// Sets flags of a block, and writes them through.
    pub(crate) fn set_flags(&mut self, b: u32, flags: u8) -> Result<(), SimError> {
        self.blocks[b as usize].flags |= flags;
        if let Some(file) = self.writable_file() {
            file.write_flags(b, self.blocks[b as usize].flags)?;
        }
        Ok(())
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

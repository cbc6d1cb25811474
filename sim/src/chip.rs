//! The simulated chip.

use std::sync::Arc;

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

use crate::block::{BAD, Block, FACTORY, FAILING, HALF_ERASED, PageBytes, PageState, copy_padded};
use crate::{ChipSpec, Counters, Metered, Rng, SimError, Timing};

/// A simulated NAND chip.
///
/// # Panics
/// Its operations panic when the caller breaks a promise of the [`flashkit_nand`] contract:
/// a page programmed at or below the last attempted one of its block since the erase (an attempt
/// that was cut or failed counts), a program after an erase that did not complete, a program or
/// erase of a block marked bad, an address or a length out of range.
///
/// # Snapshots
/// `clone()` is a snapshot that shares all pages until one side changes them; it costs a
/// reference count for each block in use.
#[derive(Clone, Debug)]
pub struct SimNand {
    pub(crate) spec: Arc<ChipSpec>,
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) blocks: Vec<Block>,
    pub(crate) counters: Counters,
    pub(crate) now_ns: u64,
    pub(crate) powered: bool,
    pub(crate) first_erase: bool,
}

impl SimNand {
    /// A new, wholly erased chip in RAM. It takes no more RAM than what is programmed.
    pub fn new(spec: impl Into<ChipSpec>) -> SimNand {
        let spec = spec.into();
        let geometry = spec.geometry();
        SimNand {
            geometry,
            timing: spec.timing(),
            blocks: vec![Block::default(); geometry.blocks() as usize],
            counters: Counters::default(),
            now_ns: 0,
            powered: true,
            first_erase: false,
            spec: Arc::new(spec),
        }
    }

    /// What kind of chip it is.
    pub fn spec(&self) -> &ChipSpec {
        &self.spec
    }

    /// Also panics, from now on, when a block is programmed that was never erased in its life.
    /// Off by default, for chips leave the factory erased.
    pub fn require_first_erase(&mut self, on: bool) {
        self.first_erase = on;
    }

    /// Cuts or restores the power between operations. Without power every operation returns
    /// [`SimError::PowerOff`].
    pub fn set_power(&mut self, on: bool) {
        self.powered = on;
    }

    /// Virtual time in nanoseconds since the chip was made or opened.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Sets all counters to zero, [`Counters::time_ns`] included. Erase counts stay.
    pub fn clear_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// The blocks that are marked bad, ascending. Costs nothing on the virtual clock.
    pub fn bad_blocks(&self) -> Vec<BlockAddr> {
        let bad = self
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.has(BAD));
        bad.map(|(i, _)| BlockAddr(i as u32)).collect()
    }

    pub(crate) fn check_power(&self) -> Result<(), SimError> {
        if self.powered {
            Ok(())
        } else {
            Err(SimError::PowerOff)
        }
    }

    fn advance(&mut self, ns: u64) {
        self.now_ns += ns;
        self.counters.time_ns += ns;
    }

    /// Block and index of a page. Panics when it is not on the chip.
    fn locate(&self, page: PageAddr, what: &str) -> (u32, u32) {
        assert!(
            self.geometry.contains(page),
            "{what} of {page:?}: the chip has {} pages",
            self.geometry.pages()
        );
        (self.geometry.block_of(page).0, self.geometry.index_of(page))
    }

    fn check_block(&self, block: BlockAddr, what: &str) {
        assert!(
            block.0 < self.geometry.blocks(),
            "{what} of block {}: the chip has {} blocks",
            block.0,
            self.geometry.blocks()
        );
    }

    fn check_lengths(&self, page: PageAddr, what: &str, data: usize, spare: usize) {
        let (page_size, spare_size) = (self.geometry.page_size(), self.geometry.spare_size());
        assert!(
            data <= page_size as usize,
            "{what} of page {}: up to data byte {data} of a page of {page_size}",
            page.0
        );
        assert!(
            spare <= spare_size as usize,
            "{what} of page {}: {spare} spare bytes, of which {spare_size} are usable",
            page.0
        );
    }

    /// Checks every promise about a program, and counts it.
    pub(crate) fn admit_program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<(u32, u32), SimError> {
        self.check_power()?;
        let (b, index) = self.locate(page, "program");
        self.check_lengths(page, "program", data.len(), spare.len());
        let block = &self.blocks[b as usize];
        assert!(
            !block.has(BAD),
            "program of block {b}, page {index}: the block is marked bad"
        );
        assert!(
            !block.has(HALF_ERASED),
            "program of block {b}, page {index}: the block's last erase did not complete"
        );
        assert!(
            !self.first_erase || block.erase_count > 0,
            "program of block {b}, page {index}: the block was never erased"
        );
        let next = block.next();
        assert!(
            index >= next,
            "program of block {b}, page {index}: page {} of the block was already attempted \
             since its erase",
            next.saturating_sub(1)
        );
        self.counters.page_programs += 1;
        self.advance(self.timing.program_ns);
        Ok((b, index))
    }

    /// Checks every promise about an erase, and counts it.
    pub(crate) fn admit_erase(&mut self, block: BlockAddr) -> Result<u32, SimError> {
        self.check_power()?;
        self.check_block(block, "erase");
        let b = block.0;
        assert!(
            !self.blocks[b as usize].has(BAD),
            "erase of block {b}: the block is marked bad"
        );
        self.counters.block_erases += 1;
        self.advance(self.timing.erase_ns);
        Ok(b)
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
        let bytes = state
            .has_bytes()
            .then(|| Arc::new(PageBytes::new(data, spare)));
        let at_ns = self.now_ns;
        let page = self.blocks[b as usize].page_mut(index, self.geometry.pages_per_block());
        *page = crate::block::Page {
            state,
            bytes,
            at_ns,
        };
        Ok(())
    }

    /// Copies a page's bytes into the caller's buffers.
    pub(crate) fn fetch(
        &self,
        b: u32,
        index: u32,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<(), SimError> {
        match &self.blocks[b as usize].page(index).bytes {
            Some(bytes) => {
                copy_padded(data, bytes.data(), offset as usize);
                copy_padded(spare, bytes.spare(), 0);
            }
            None => {
                data.fill(0xFF);
                spare.fill(0xFF);
            }
        }
        Ok(())
    }

    /// Takes one of the reads that an unstable page has left, and returns the state in which
    /// this read finds it.
    fn use_up(&mut self, b: u32, index: u32) -> Result<PageState, SimError> {
        let state = self.blocks[b as usize].page(index).state;
        let after = match state {
            PageState::Unstable(0) | PageState::UnstableBlank(0) => PageState::Garbage,
            PageState::Unstable(n) => PageState::Unstable(n - 1),
            PageState::UnstableBlank(n) => PageState::UnstableBlank(n - 1),
            stable => return Ok(stable),
        };
        let page = self.blocks[b as usize].page_mut(index, self.geometry.pages_per_block());
        page.state = after;
        Ok(if after == PageState::Garbage {
            after
        } else {
            state
        })
    }
}

/// What an uncorrectable read leaves in the buffers: noise, the same on every run.
fn noise(page: PageAddr, data: &mut [u8], spare: &mut [u8]) -> ReadStatus {
    let mut rng = Rng::keyed(0x6761_7262_6167_6521, u64::from(page.0));
    rng.fill(data);
    rng.fill(spare);
    ReadStatus::Uncorrectable
}

impl Nand for SimNand {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        self.check_power()?;
        let (b, index) = self.locate(page, "read");
        let end = (offset as usize).saturating_add(data.len());
        self.check_lengths(page, "read", end, spare.len());
        if data.is_empty() {
            self.counters.spare_reads += 1;
        } else {
            self.counters.page_reads += 1;
        }
        self.advance(self.timing.read_ns);
        let block = &mut self.blocks[b as usize];
        block.reads = block.reads.saturating_add(1);
        if block.has(FACTORY) {
            return Ok(noise(page, data, spare));
        }
        match self.use_up(b, index)? {
            PageState::Blank | PageState::LooksBlank | PageState::UnstableBlank(_) => {
                data.fill(0xFF);
                spare.fill(0xFF);
            }
            PageState::Written | PageState::Unstable(_) => {
                self.fetch(b, index, offset, data, spare)?;
            }
            PageState::Garbage => return Ok(noise(page, data, spare)),
        }
        Ok(ReadStatus::Clean)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        let (b, index) = self.admit_program(page, data, spare)?;
        if self.blocks[b as usize].has(FAILING) {
            self.put(b, index, PageState::Garbage, &[], &[])?;
            return Ok(OpStatus::Failed);
        }
        self.put(b, index, PageState::Written, data, spare)?;
        Ok(OpStatus::Done)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        let b = self.admit_erase(block)?;
        let block = &mut self.blocks[b as usize];
        block.erase_count = block.erase_count.saturating_add(1);
        block.flags &= !HALF_ERASED;
        block.clear();
        Ok(OpStatus::Done)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, SimError> {
        self.check_power()?;
        self.check_block(block, "bad-block query");
        Ok(self.blocks[block.0 as usize].has(BAD))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), SimError> {
        self.check_power()?;
        self.check_block(block, "bad-block mark");
        self.blocks[block.0 as usize].flags |= BAD;
        Ok(())
    }
}

impl Metered for SimNand {
    fn counters(&self) -> Counters {
        self.counters
    }

    /// Erases of each block in its life; persistent in an image file.
    fn erase_counts(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.erase_count).collect()
    }

    fn idle(&mut self, ns: u64) {
        self.advance(ns);
    }
}

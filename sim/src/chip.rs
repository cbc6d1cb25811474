//! The simulated chip.

use std::sync::Arc;

use flashkit_nand::{
    BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus, copy_over_bus,
};

use crate::backing::Backing;
use crate::block::{BAD, Block, FACTORY, FAILING, HALF_ERASED, PageState};
use crate::bus::Moved;
use crate::fault::FaultState;
use crate::spi::{CopyRange, spi_part};
use crate::{Bus, ChipSpec, Counters, EraseTear, Faults, Metered, Rng, SimError, Timing};

/// A simulated NAND chip.
///
/// # Panics
/// Its operations panic when the caller breaks a promise of the [`flashkit_nand`] contract:
/// a page programmed at or below the last attempted one of its block since the erase (an attempt
/// that was cut or failed counts), a program after an erase that did not complete, a program or
/// erase of a block marked bad, an address or a length out of range.
///
/// # Copies
/// A chip that is named as a SPI NAND of [`crate::spi`], in whatever case, copies pages by itself
/// where that part does; see [`SimNand::set_copies`]. It takes the time of a read and of a program.
///
/// # Snapshots
/// `clone()` is a snapshot that shares all pages until one side changes them; it costs a
/// reference count for each block in use. See [`SimNand::snapshot`] for chips in image files.
pub struct SimNand {
    pub(crate) spec: Arc<ChipSpec>,
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) blocks: Vec<Block>,
    pub(crate) counters: Counters,
    pub(crate) now_ns: u64,
    pub(crate) powered: bool,
    pub(crate) first_erase: bool,
    pub(crate) distrusted: bool,
    pub(crate) faults: Option<Box<FaultState>>,
    pub(crate) backing: Option<Backing>,
    pub(crate) copies: CopyRange,
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
            distrusted: false,
            faults: None,
            backing: None,
            copies: spi_part(&spec.name().to_uppercase())
                .map_or(CopyRange::Nothing, |part| part.copies),
            spec: Arc::new(spec),
        }
    }

    /// What kind of chip it is.
    pub fn spec(&self) -> &ChipSpec {
        &self.spec
    }

    /// Between which pages the chip copies by itself from now on. Not persistent.
    pub fn set_copies(&mut self, copies: CopyRange) {
        self.copies = copies;
    }

    /// Also panics, from now on, when a block is programmed that was never erased in its life.
    /// Off by default, for chips leave the factory erased.
    pub fn require_first_erase(&mut self, on: bool) {
        self.first_erase = on;
    }

    /// For a chip in a file that may be damaged: a program or an erase that breaks a promise
    /// of the contract is an error from now on, [`SimError::Promise`], and no panic. The
    /// file may be what is wrong.
    pub fn distrust(&mut self) {
        self.distrusted = true;
    }

    /// A promise of the software above.
    fn demand(&self, kept: bool, broken: impl FnOnce() -> String) -> Result<(), SimError> {
        if kept {
            return Ok(());
        }
        let broken = broken();
        assert!(self.distrusted, "{broken}");
        Err(SimError::Promise(broken))
    }

    /// Cuts or restores the power between operations. Without power every operation returns
    /// [`SimError::PowerOff`].
    pub fn set_power(&mut self, on: bool) {
        self.powered = on;
    }

    /// Replaces the faults at work, and marks the blocks that they make bad from the factory:
    /// those listed, and of the never used ones those that chance picks.
    ///
    /// # Errors
    /// [`SimError::Faults`] when they name blocks or pages that the chip does not have,
    /// [`SimError::Io`].
    pub fn set_faults(&mut self, faults: Faults) -> Result<(), SimError> {
        faults.check(&self.geometry)?;
        for b in faults.bad_blocks.iter().copied() {
            self.set_flags(b, BAD | FACTORY)?;
        }
        for b in 0..self.geometry.blocks() {
            let block = &self.blocks[b as usize];
            let unused = block.erase_count == 0 && !block.unloaded && block.next() == 0;
            if unused && faults.is_factory_bad(b) {
                self.set_flags(b, BAD | FACTORY)?;
            }
        }
        self.faults = Some(Box::new(FaultState::new(faults)));
        Ok(())
    }

    /// The faults at work.
    pub fn faults(&self) -> Faults {
        self.faults
            .as_ref()
            .map(|state| state.faults.clone())
            .unwrap_or_default()
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

    /// The clock stops at its end, after 584 years.
    fn advance(&mut self, ns: u64) {
        self.now_ns = self.now_ns.saturating_add(ns);
        self.counters.time_ns = self.counters.time_ns.saturating_add(ns);
    }

    /// What an operation takes on the bus, where that is counted.
    fn over_bus(&mut self, moved: impl FnOnce(Bus) -> Moved) {
        if let Some(bus) = self.spec.bus() {
            let moved = moved(bus);
            self.advance(moved.ns);
            self.counters.bus_ns += moved.ns;
            self.counters.bus_bytes += moved.bytes;
        }
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
        self.load(b)?;
        let block = &self.blocks[b as usize];
        let program = || format!("program of block {b}, page {index}");
        self.demand(!block.has(BAD), || {
            format!("{}: the block is marked bad", program())
        })?;
        self.demand(!block.has(HALF_ERASED), || {
            format!("{}: the block's last erase did not complete", program())
        })?;
        self.demand(!self.first_erase || block.erase_count > 0, || {
            format!("{}: the block was never erased", program())
        })?;
        let next = block.next();
        self.demand(index >= next, || {
            format!(
                "{}: page {} of the block was already attempted since its erase",
                program(),
                next.saturating_sub(1)
            )
        })?;
        self.counters.page_programs += 1;
        self.advance(self.timing.program_ns);
        let (page_size, raw_spare) = (self.geometry.page_size(), self.spec.raw_spare());
        self.over_bus(|bus| bus.program(data.len(), spare.len(), page_size, raw_spare));
        Ok((b, index))
    }

    /// Checks every promise about an erase, and counts it.
    pub(crate) fn admit_erase(&mut self, block: BlockAddr) -> Result<u32, SimError> {
        self.check_power()?;
        self.check_block(block, "erase");
        let b = block.0;
        self.demand(!self.blocks[b as usize].has(BAD), || {
            format!("erase of block {b}: the block is marked bad")
        })?;
        self.counters.block_erases += 1;
        self.advance(self.timing.erase_ns);
        self.over_bus(Bus::erase);
        Ok(b)
    }

    /// Counts an erase in a block's life.
    pub(crate) fn wear(&mut self, b: u32) {
        let count = &mut self.blocks[b as usize].erase_count;
        *count = count.saturating_add(1);
    }

    pub(crate) fn erase_fully(&mut self, b: u32) -> Result<(), SimError> {
        self.prepare_to_empty(b)?;
        self.wear(b);
        let block = &mut self.blocks[b as usize];
        block.flags &= !HALF_ERASED;
        block.clear();
        self.save_block(b)
    }

    /// Takes one of the reads that an unstable page has left, and returns the state in which
    /// this read finds it.
    fn use_up(&mut self, b: u32, index: u32) -> Result<PageState, SimError> {
        let state = self.blocks[b as usize].page(index).state;
        let after = match state {
            PageState::Unstable(0) | PageState::UnstableBlank(0) => PageState::Garbage,
            PageState::Unstable(n) => PageState::Unstable(n - 1),
            PageState::UnstableBlank(n) => PageState::UnstableBlank(n - 1),
            PageState::Late(0) => PageState::Written,
            PageState::Late(n) => PageState::Late(n - 1),
            PageState::Fitful(0, n) => PageState::Unstable((1 << n) - 1),
            PageState::Fitful(late, n) => PageState::Fitful(late - 1, n),
            stable => return Ok(stable),
        };
        self.put_state(b, index, after)?;
        Ok(
            if matches!(
                after,
                PageState::Garbage | PageState::Written | PageState::Unstable(_)
            ) {
                after
            } else {
                state
            },
        )
    }
}

impl core::fmt::Debug for SimNand {
    /// The chip's kind and its counters, not its contents.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SimNand")
            .field("spec", &self.spec)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// What an uncorrectable read leaves in the buffers: noise, the same on every run.
fn noise(page: PageAddr, data: &mut [u8], spare: &mut [u8]) {
    let mut rng = Rng::keyed(0x6761_7262_6167_6521, u64::from(page.0));
    rng.fill(data);
    rng.fill(spare);
}

/// What the array has of a page that it was asked to read.
#[derive(Clone, Copy)]
enum Found {
    /// It is erased.
    Blank,
    /// Its bytes.
    Written(ReadStatus),
    /// More wrong bits than can be corrected.
    Lost,
}

impl Found {
    fn status(self) -> ReadStatus {
        match self {
            Found::Blank => ReadStatus::Clean,
            Found::Written(status) => status,
            Found::Lost => ReadStatus::Uncorrectable,
        }
    }
}

impl SimNand {
    /// Reads the array: checks every promise about a read, and counts it.
    fn sense(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: usize,
        spare: usize,
    ) -> Result<Found, SimError> {
        self.check_power()?;
        let (b, index) = self.locate(page, "read");
        let end = (offset as usize).saturating_add(data);
        self.check_lengths(page, "read", end, spare);
        if data == 0 {
            self.counters.spare_reads += 1;
        } else {
            self.counters.page_reads += 1;
        }
        self.advance(self.timing.read_ns);
        self.load(b)?;
        let block = &mut self.blocks[b as usize];
        block.reads = block.reads.saturating_add(1);
        if block.has(FACTORY) {
            return Ok(Found::Lost);
        }
        match self.use_up(b, index)? {
            PageState::Blank | PageState::LooksBlank | PageState::UnstableBlank(_) => {
                return Ok(Found::Blank);
            }
            PageState::Garbage | PageState::Late(_) | PageState::Fitful(..) => {
                return Ok(Found::Lost);
            }
            PageState::Written | PageState::Unstable(_) => {}
        }
        let mut status = ReadStatus::Clean;
        if let Some(faults) = &mut self.faults {
            let block = &self.blocks[b as usize];
            status = faults.read(
                page.0,
                block.reads,
                self.now_ns.saturating_sub(block.page(index).at_ns),
            );
        }
        Ok(match status {
            ReadStatus::Uncorrectable => Found::Lost,
            _ => Found::Written(status),
        })
    }

    /// Hands over bytes of a page that was read.
    fn deliver(
        &self,
        page: PageAddr,
        found: Found,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        match found {
            Found::Blank => {
                data.fill(0xFF);
                spare.fill(0xFF);
            }
            Found::Written(_) => {
                let (b, index) = (self.geometry.block_of(page).0, self.geometry.index_of(page));
                self.fetch(b, index, offset, data, spare)?;
            }
            Found::Lost => noise(page, data, spare),
        }
        Ok(found.status())
    }
}

impl Nand for SimNand {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn correctable_bits(&self) -> u32 {
        self.faults
            .as_ref()
            .map_or(Faults::default().ecc, |state| state.faults.ecc)
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        let found = self.sense(page, offset, data.len(), spare.len())?;
        let is_readable = found.status().is_readable();
        let fetched = if is_readable { data.len() } else { 0 };
        let fetched_spare = if is_readable { spare.len() } else { 0 };
        self.over_bus(|bus| bus.read([fetched, 0], fetched_spare));
        self.deliver(page, found, offset, data, spare)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, SimError> {
        let found = self.sense(page, 0, data.len(), 0)?;
        let (first, rest) = data.split_at_mut(head);
        let status = self.deliver(page, found, 0, first, &mut [])?;
        if !status.is_readable() {
            self.over_bus(|bus| bus.read([0, 0], 0));
            return Ok(status);
        }
        let more = used(first).saturating_sub(head).min(rest.len());
        self.over_bus(|bus| bus.read([head, more], 0));
        self.deliver(page, found, head as u32, &mut rest[..more], &mut [])
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        let (b, index) = self.admit_program(page, data, spare)?;
        let failing = self.blocks[b as usize].has(FAILING);
        let fails = match &mut self.faults {
            Some(faults) => faults.program_fails(page.0, failing),
            None => failing,
        };
        if fails {
            let seed = self.faults.as_mut().map_or(0, |faults| faults.seed());
            self.leave_failed(b, index, data, spare, seed)?;
            self.set_flags(b, FAILING)?;
            return Ok(OpStatus::Failed);
        }
        self.put(b, index, PageState::Written, data, spare)?;
        Ok(OpStatus::Done)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        let block = |page| self.geometry.block_of(page).0;
        let blocks = self.geometry.blocks();
        self.copies.has(blocks, block(from), block(to))
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, SimError> {
        let before = self.counters;
        let copied = copy_over_bus(self, from, to, spare, page)?;
        if self.copies(from, to) {
            // What has gone over the bus has not, but for the spare bytes.
            let over_bus = self.counters.bus_ns - before.bus_ns;
            self.now_ns -= over_bus;
            self.counters = Counters {
                page_copies: before.page_copies + 1,
                time_ns: self.counters.time_ns - over_bus,
                ..before
            };
            let spare_size = self.geometry.spare_size();
            self.over_bus(|bus| bus.copy(spare.len(), spare_size));
        }
        Ok(copied)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        let b = self.admit_erase(block)?;
        let erase_count = self.blocks[b as usize].erase_count;
        let failing = self.blocks[b as usize].has(FAILING);
        let fails = match &mut self.faults {
            Some(faults) => faults.erase_fails(b, erase_count, failing),
            None => failing,
        };
        if fails {
            let seed = self.faults.as_mut().map_or(0, |faults| faults.seed());
            self.prepare_to_empty(b)?;
            self.wear(b);
            self.blocks[b as usize].flags |= FAILING;
            let left = if seed.is_multiple_of(2) {
                EraseTear::Partial
            } else {
                EraseTear::Mixed
            };
            self.leave_half_erased(b, left, seed)?;
            return Ok(OpStatus::Failed);
        }
        self.erase_fully(b)?;
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
        self.set_flags(block.0, BAD)
    }

    /// Brings an image file to the disk, for the machine's own crashes: what has been done so far
    /// is not lost then. Costs a sync of the file, if anything has been done since the last. A
    /// killed process needs no flush.
    fn flush(&mut self) -> Result<(), SimError> {
        self.check_power()?;
        self.sync()
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

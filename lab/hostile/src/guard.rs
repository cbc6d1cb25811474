//! A chip that watches its user, and behaves as a real one where the simulated one panics.

use std::collections::HashSet;

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, Metered, SimError, SimNand};

use crate::image::Image;

/// A chip around a chip. It panics when its user
///
/// * takes more flash operations for one call than [`Guard::allow`] allows,
/// * programs a page twice or out of order that it has itself programmed or passed over,
/// * programs a page that can be seen to have been programmed before the mount, if it
///   is [strict](Guard::strict),
/// * programs or erases a block that is marked bad,
/// * names an address that is not on the chip.
///
/// What it does not blame its user for is programming a page that was attempted before the mount,
/// or stands before one that was, and reads as erased: to find out would take a read for each page.
/// (One that is not strict does not blame its user for any page that the volume's own records call
/// erased.) Such a page holds garbage from then on, as it would on a real chip.
#[derive(Debug)]
pub struct Guard {
    chip: SimNand,
    /// For each block the pages that the image came with.
    before: Vec<u32>,
    /// For each block the pages that the user has passed.
    passed: Vec<u32>,
    spoilt: HashSet<u32>,
    left: u64,
    call: &'static str,
    is_strict: bool,
}

impl Guard {
    /// The chip of an image.
    pub fn new(image: &Image) -> Guard {
        let chip = image.chip();
        let blocks = image.geometry.blocks();
        Guard {
            before: (0..blocks).map(|block| image.attempted(block)).collect(),
            passed: vec![0; blocks as usize],
            chip,
            spoilt: HashSet::new(),
            left: 0,
            call: "before any call",
            is_strict: false,
        }
    }

    /// The same, and it reads a page before that is programmed.
    pub fn strict(self) -> Guard {
        Guard {
            is_strict: true,
            ..self
        }
    }

    /// A call begins, which may take so many flash operations.
    pub fn allow(&mut self, call: &'static str, operations: u64) {
        (self.call, self.left) = (call, operations);
    }

    /// The chip has been mounted anew: what its user knew is gone.
    pub fn forget(&mut self) {
        for (before, passed) in self.before.iter_mut().zip(&mut self.passed) {
            *before = (*before).max(std::mem::take(passed));
        }
    }

    /// Whether the chip has lost what was programmed: see [`Guard`].
    pub fn is_spoilt(&self) -> bool {
        !self.spoilt.is_empty()
    }

    fn spend(&mut self) {
        assert!(self.left > 0, "{}: too many flash operations", self.call);
        self.left -= 1;
    }

    fn reads_erased(&mut self, page: PageAddr) -> bool {
        let geo = self.geometry();
        let mut data = vec![0; geo.page_size() as usize];
        let mut spare = vec![0; geo.spare_size() as usize];
        let status = self.chip.read(page, 0, &mut data, &mut spare);
        let mut bytes = data.iter().chain(&spare);
        status.expect("in RAM").is_readable() && bytes.all(|byte| *byte == 0xff)
    }

    fn check_good(&mut self, block: BlockAddr, what: &str) {
        assert!(
            block.0 < self.geometry().blocks(),
            "{what} of block {}: not on the chip",
            block.0
        );
        let bad = self.chip.is_bad(block).expect("in RAM");
        assert!(!bad, "{what} of block {}, which is marked bad", block.0);
    }
}

impl Nand for Guard {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.chip.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        self.spend();
        let status = self.chip.read(page, offset, data, spare)?;
        if self.spoilt.contains(&page.0) {
            data.fill(0x5a);
            spare.fill(0x5a);
            return Ok(ReadStatus::Uncorrectable);
        }
        Ok(status)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        self.spend();
        let geo = self.geometry();
        assert!(geo.contains(page), "program of {page:?}: not on the chip");
        let (block, index) = (geo.block_of(page), geo.index_of(page));
        self.check_good(block, "program");
        let passed = &mut self.passed[block.0 as usize];
        assert!(
            index >= *passed,
            "program of block {}, page {index}: it was attempted in this session",
            block.0
        );
        *passed = index + 1;
        if index < self.before[block.0 as usize] {
            assert!(
                !self.is_strict || self.reads_erased(page) && !self.spoilt.contains(&page.0),
                "program of block {}, page {index}: something is in it",
                block.0
            );
            self.spoilt.insert(page.0);
            return Ok(OpStatus::Done);
        }
        self.chip.program(page, data, spare)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        self.spend();
        self.check_good(block, "erase");
        (self.before[block.0 as usize], self.passed[block.0 as usize]) = (0, 0);
        let geo = self.geometry();
        self.spoilt
            .retain(|page| geo.block_of(PageAddr(*page)) != block);
        self.chip.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, SimError> {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), SimError> {
        self.chip.mark_bad(block)
    }
}

impl Metered for Guard {
    fn counters(&self) -> Counters {
        self.chip.counters()
    }
    fn erase_counts(&self) -> Vec<u32> {
        self.chip.erase_counts()
    }
    fn idle(&mut self, ns: u64) {
        self.chip.idle(ns);
    }
}

//! A chip of which chosen operations fail.

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, Faults, Metered, Rot, SimError, SimNand, Tear, Tearable, Weak};

/// A chip of which some operations fail, and from then on all in the block of the last.
pub struct FailAt {
    pub chip: SimNand,
    /// Programs and erases until then.
    pub left: u64,
    /// How many fail.
    pub failures: u64,
    pub done: u64,
    /// Every read needs as many bits corrected as can be.
    pub weak: bool,
    /// A page whose program fails is read well so many times.
    pub reads: Option<u32>,
    /// The block in which a program failed last.
    pub unfit: Option<BlockAddr>,
    /// Reads until one in which the driver fails.
    pub bus: Option<u32>,
    /// So many programs of the allocation log fail, and read well, or look blank.
    pub log: u32,
    pub log_looks_blank: bool,
}

impl FailAt {
    pub fn new(chip: SimNand, left: u64) -> FailAt {
        FailAt {
            chip,
            left,
            failures: 1,
            done: 0,
            weak: false,
            reads: None,
            unfit: None,
            bus: None,
            log: 0,
            log_looks_blank: false,
        }
    }

    /// Whether this operation fails.
    fn due(&mut self) -> bool {
        self.done += 1;
        (self.done - 1)
            .checked_sub(self.left)
            .is_some_and(|n| n < self.failures)
    }

    /// No page of a directory can be read any more.
    pub fn lose_dir(&mut self, dir: u32) {
        let mut page = vec![0; self.geometry().page_size() as usize];
        for at in (0..self.geometry().pages()).map(PageAddr) {
            self.chip.read(at, 0, &mut page, &mut []).unwrap();
            if page[4..7] == *b"FL\x07" && page[32..36] == dir.to_le_bytes() {
                assert!(self.chip.rot(at, Rot::Lost).unwrap());
            }
        }
    }

    fn set(&mut self, faults: Faults) {
        self.chip.set_faults(faults).unwrap();
    }
}

impl Nand for FailAt {
    type Error = <SimNand as Nand>::Error;

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
    ) -> Result<ReadStatus, Self::Error> {
        match &mut self.bus {
            Some(0) => {
                self.bus = None;
                return Err(SimError::Promise("the driver fails".into()));
            }
            Some(reads) => *reads -= 1,
            None => {}
        }
        match self.chip.read(page, offset, data, spare)? {
            ReadStatus::Clean if self.weak => Ok(ReadStatus::Corrected(self.correctable_bits())),
            status => Ok(status),
        }
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        let is_log = data.len() > 32 && &data[4..6] == b"FL" && [4, 5].contains(&data[6]);
        if is_log && self.log > 0 {
            self.log -= 1;
            if self.log_looks_blank {
                self.chip
                    .program_torn(page, data, spare, Tear::LooksBlank, 1)?;
            } else {
                self.chip.program(page, data, spare)?;
            }
            return Ok(OpStatus::Failed);
        }
        let due = self.due();
        if due {
            self.unfit = Some(self.geometry().block_of(page));
        }
        if let Some(reads) = self.reads.filter(|_| due) {
            let tear = Tear::Unstable { reads };
            self.chip.program_torn(page, data, spare, tear, 0)?;
            return Ok(OpStatus::Failed);
        }
        if due {
            let (at, good, seed) = (page.0, 0, self.done);
            self.set(Faults {
                weak_pages: vec![Weak { at, good }],
                seed,
                ..Faults::default()
            });
        }
        self.chip.program(page, data, spare)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        assert_ne!(self.unfit, Some(block), "erased to be used again");
        if self.due() {
            let (at, good, seed) = (block.0, 0, self.done);
            self.set(Faults {
                weak_blocks: vec![Weak { at, good }],
                seed,
                ..Faults::default()
            });
        }
        self.chip.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        self.chip.mark_bad(block)
    }
}

impl Metered for FailAt {
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

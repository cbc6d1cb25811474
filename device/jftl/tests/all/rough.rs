//! A chip of which much goes wrong at once: reads fail for a while, or need all that the ECC can
//! do, the driver returns errors, blocks go bad.

use std::collections::BTreeSet;
use std::ops::Range;

use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{CutError, PowerCut, Rng, SimError, SimNand};

/// Why an operation did not happen, or so the driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    Off,
    Driver,
}

/// What goes wrong in a session. Windows are of operations, reads among them.
#[derive(Clone, Debug, Default)]
pub struct Wrong {
    /// One read in so many is uncorrectable, in the window.
    pub unreadable: Option<(u64, Range<u64>)>,
    /// One read in so many is uncorrectable, and not when that page is read again.
    pub once: Option<u64>,
    /// One read in so many needs all that the ECC can do.
    pub rots: Option<u64>,
    /// The driver returns errors.
    pub errors: Range<u64>,
    /// One program, and one erase, in so many fails.
    pub fails: Option<u64>,
}

/// A chip with all of that.
pub struct Rough {
    pub nand: PowerCut<SimNand>,
    pub wrong: Wrong,
    rng: Rng,
    pub done: u64,
    /// Blocks that may still go bad, and that have.
    budget: usize,
    pub failed: Vec<BlockAddr>,
    /// Programs and erases since the driver's first error.
    pub after: u32,
    pub has_erred: bool,
    /// No block can be erased any more.
    pub is_worn: bool,
    /// Pages of which a read has failed once.
    again: BTreeSet<u32>,
}

impl Rough {
    pub fn new(nand: PowerCut<SimNand>, wrong: Wrong, seed: u64, budget: usize) -> Rough {
        Rough {
            nand,
            wrong,
            rng: Rng::new(seed),
            done: 0,
            budget,
            failed: Vec::new(),
            after: 0,
            has_erred: false,
            is_worn: false,
            again: BTreeSet::new(),
        }
    }

    /// Whether the driver returns an error for this operation.
    fn errs(&mut self) -> bool {
        self.done += 1;
        let errs = self.wrong.errors.contains(&self.done);
        self.has_erred |= errs;
        errs
    }

    /// Whether a program or an erase in a block fails.
    fn fails(&mut self, block: BlockAddr) -> bool {
        self.after += u32::from(self.has_erred);
        let Some(rate) = self.wrong.fails else {
            return false;
        };
        if self.failed.contains(&block) {
            return self.rng.one_in(2);
        }
        let fails = self.failed.len() < self.budget && self.rng.one_in(rate);
        if fails {
            self.failed.push(block);
        }
        fails
    }
}

fn of<T>(done: Result<T, CutError<SimError>>) -> Result<T, Gone> {
    done.map_err(|e| match e {
        CutError::PowerOff => Gone::Off,
        CutError::Inner(e) => panic!("{e:?}"),
    })
}

impl Nand for Rough {
    type Error = Gone;

    fn geometry(&self) -> Geometry {
        self.nand.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        4
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Gone> {
        if self.errs() {
            return Err(Gone::Driver);
        }
        let status = of(self.nand.read(page, offset, data, spare))?;
        if let Some((rate, window)) = &self.wrong.unreadable
            && window.contains(&self.done)
            && self.rng.one_in(*rate)
        {
            self.rng.fill(data);
            self.rng.fill(spare);
            return Ok(ReadStatus::Uncorrectable);
        }
        if let Some(rate) = self.wrong.once
            && self.rng.one_in(rate)
            && self.again.insert(page.0)
        {
            self.rng.fill(data);
            self.rng.fill(spare);
            return Ok(ReadStatus::Uncorrectable);
        }
        match self.wrong.rots {
            Some(rate) if status.is_readable() && self.rng.one_in(rate) => {
                Ok(ReadStatus::Corrected(4))
            }
            _ => Ok(status),
        }
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, Gone> {
        let errs = self.errs();
        let fails = self.fails(self.geometry().block_of(page));
        // What is said not to be there may be there.
        if !errs && !fails || self.rng.one_in(2) {
            of(self.nand.program(page, data, spare))?;
        }
        match (errs, fails) {
            (true, _) => Err(Gone::Driver),
            (_, true) => Ok(OpStatus::Failed),
            _ => Ok(OpStatus::Done),
        }
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Gone> {
        let errs = self.errs();
        let fails = self.is_worn || self.fails(block);
        if !errs && !fails || self.rng.one_in(2) {
            of(self.nand.erase(block))?;
        }
        match (errs, fails) {
            (true, _) => Err(Gone::Driver),
            (_, true) => Ok(OpStatus::Failed),
            _ => Ok(OpStatus::Done),
        }
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Gone> {
        of(self.nand.is_bad(block))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Gone> {
        of(self.nand.mark_bad(block))
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.nand.copies(from, to)
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        buffer: &mut [u8],
    ) -> Result<Copied, Gone> {
        if self.errs() {
            return Err(Gone::Driver);
        }
        if self.fails(self.geometry().block_of(to)) {
            return Ok(Copied::Failed);
        }
        of(self.nand.copy(from, to, spare, buffer))
    }
}

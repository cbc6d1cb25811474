//! A chip of which a page cannot be read for a while, as when the supply is low or a bus hangs.
//! What it holds is there again when that is over.

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, CutError, Metered, PowerCut, Rng, SimError, SimNand};

use crate::guard::Copied;

/// A page that cannot be read.
struct While {
    rng: Rng,
    /// Chance of a page that is read to be the one.
    one_in: u64,
    page: Option<PageAddr>,
    /// It is the driver that fails.
    driver: bool,
}

/// See the module's text.
pub(super) struct Unread {
    chip: PowerCut<SimNand>,
    now: Option<While>,
}

impl Unread {
    pub fn new(chip: PowerCut<SimNand>) -> Unread {
        Unread { chip, now: None }
    }

    pub fn chip(&self) -> &PowerCut<SimNand> {
        &self.chip
    }

    pub fn chip_mut(&mut self) -> &mut PowerCut<SimNand> {
        &mut self.chip
    }

    /// From now on one of the pages that are read cannot be: that may be lost for good as well.
    pub fn begin(&mut self, rng: &mut Rng) {
        self.now = Some(While {
            one_in: rng.one_of(&[2, 10, 50, 250]),
            driver: rng.one_in(4),
            page: None,
            rng: Rng::new(rng.next_u64()),
        });
    }

    /// All can be read again.
    pub fn end(&mut self) {
        self.now = None;
    }

    /// What comes of a read of the page, if it cannot be read.
    fn fails(&mut self, page: PageAddr) -> Option<Result<ReadStatus, CutError<SimError>>> {
        let now = self.now.as_mut().filter(|_| !self.chip.is_off())?;
        if now.page.is_none() && now.rng.one_in(now.one_in) {
            now.page = Some(page);
        }
        if now.page != Some(page) {
            return None;
        }
        Some(match now.driver {
            true => Err(CutError::Inner(SimError::Io {
                kind: std::io::ErrorKind::TimedOut,
                message: "the bus hangs".into(),
            })),
            false => Ok(ReadStatus::Uncorrectable),
        })
    }
}

impl Copied for Unread {
    fn copy(&self) -> SimNand {
        self.chip.copy()
    }
}

impl Metered for Unread {
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

impl Nand for Unread {
    type Error = CutError<SimError>;

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
        let Some(failed) = self.fails(page) else {
            return self.chip.read(page, offset, data, spare);
        };
        data.fill(0x5a);
        spare.fill(0x5a);
        failed
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        let Some(failed) = self.fails(page) else {
            return self.chip.read_used(page, data, head, used);
        };
        data.fill(0x5a);
        failed
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        self.chip.program(page, data, spare)
    }

    /// The copy itself is a read and a program, as by default.
    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.chip.copies(from, to)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        self.chip.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        self.chip.mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.chip.flush()
    }
}

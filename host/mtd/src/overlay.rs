//! A chip whose changes stay in RAM.

use std::collections::{HashMap, HashSet};

use flashkit_meter::{Counters, Metered};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

/// A chip that is read and never changed: programs, erases and marks are kept in RAM, as much of it
/// as they need.
pub struct Overlay<N> {
    inner: N,
    pages: HashMap<u32, (Vec<u8>, Vec<u8>)>,
    erased: HashSet<u32>,
    bad: HashSet<u32>,
    /// Operations that did not reach the chip.
    kept: Counters,
}

impl<N: Nand> Overlay<N> {
    /// Covers a chip.
    pub fn new(inner: N) -> Overlay<N> {
        Overlay {
            inner,
            pages: HashMap::new(),
            erased: HashSet::new(),
            bad: HashSet::new(),
            kept: Counters::default(),
        }
    }

    /// The chip below.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    fn block_of(&self, page: PageAddr) -> u32 {
        page.0 / self.inner.geometry().pages_per_block()
    }
}

/// What is not there reads as erased.
fn fill(to: &mut [u8], from: &[u8], offset: usize) {
    let from = from.get(offset..).unwrap_or_default();
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    to[n..].fill(0xff);
}

impl<N: Nand> Nand for Overlay<N> {
    type Error = N::Error;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.inner.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, N::Error> {
        if let Some((kept_data, kept_spare)) = self.pages.get(&page.0) {
            fill(data, kept_data, offset as usize);
            fill(spare, kept_spare, 0);
        } else if self.erased.contains(&self.block_of(page)) {
            data.fill(0xff);
            spare.fill(0xff);
        } else {
            return self.inner.read(page, offset, data, spare);
        }
        if data.is_empty() {
            self.kept.spare_reads += 1;
        } else {
            self.kept.page_reads += 1;
        }
        Ok(ReadStatus::Clean)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, N::Error> {
        self.kept.page_programs += 1;
        self.pages.insert(page.0, (data.to_vec(), spare.to_vec()));
        Ok(OpStatus::Done)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, N::Error> {
        self.kept.block_erases += 1;
        let per_block = self.geometry().pages_per_block();
        let first = block.0 * per_block;
        for page in first..first + per_block {
            self.pages.remove(&page);
        }
        self.erased.insert(block.0);
        Ok(OpStatus::Done)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, N::Error> {
        Ok(self.bad.contains(&block.0) || self.inner.is_bad(block)?)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), N::Error> {
        self.bad.insert(block.0);
        Ok(())
    }
}

impl<N: Nand + Metered> Metered for Overlay<N> {
    fn counters(&self) -> Counters {
        self.inner.counters() + self.kept
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.inner.erase_counts()
    }

    fn idle(&mut self, ns: u64) {
        self.inner.idle(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_sim::{SimNand, preset};

    #[test]
    fn the_chip_below_stays_as_it_is() {
        let mut chip = SimNand::new(preset("slc-256m").unwrap());
        chip.erase(BlockAddr(0)).unwrap();
        chip.program(PageAddr(0), &[1, 2, 3], &[4]).unwrap();
        let mut over = Overlay::new(chip);
        let read = |over: &mut Overlay<SimNand>, page: u32| {
            let (mut data, mut spare) = ([0; 3], [0; 2]);
            let status = over.read(PageAddr(page), 1, &mut data, &mut spare);
            assert_eq!(status.unwrap(), ReadStatus::Clean);
            (data, spare)
        };
        assert_eq!(read(&mut over, 0), ([2, 3, 255], [4, 255]));
        over.program(PageAddr(1), &[5, 6], &[7]).unwrap();
        assert_eq!(read(&mut over, 1), ([6, 255, 255], [7, 255]));
        over.erase(BlockAddr(0)).unwrap();
        assert_eq!(read(&mut over, 0), ([255; 3], [255; 2]));
        assert_eq!(read(&mut over, 1), ([255; 3], [255; 2]));
        over.mark_bad(BlockAddr(3)).unwrap();
        assert!(over.is_bad(BlockAddr(3)).unwrap());
        let programs = over.counters().page_programs;
        assert_eq!((programs, over.inner().counters().page_programs), (2, 1));
        assert_eq!(over.inner().erase_counts()[0], 1);
    }
}

//! Counts of any chip's operations.

use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

use crate::{Counters, EraseTear, Metered, Tear, Tearable, Timing};

/// A chip with counters and a virtual clock of its own; the chip below need not have any.
///
/// Operations that end in a driver error are counted too. [`Metered::idle`] moves this clock
/// only.
#[derive(Clone, Debug)]
pub struct Count<N> {
    inner: N,
    timing: Timing,
    counters: Counters,
    erase_counts: Vec<u32>,
}

impl<N: Nand> Count<N> {
    /// Counts from zero, erases of each block too, as if the chip had these latencies. The bus is
    /// not counted.
    pub fn new(inner: N, timing: Timing) -> Count<N> {
        let erase_counts = vec![0; inner.geometry().blocks() as usize];
        Count {
            inner,
            timing,
            counters: Counters::default(),
            erase_counts,
        }
    }

    /// Sets all counts to zero.
    pub fn clear(&mut self) {
        self.counters = Counters::default();
        self.erase_counts.fill(0);
    }

    /// The chip below.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The chip below, to be used without being counted.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// The chip below.
    pub fn into_inner(self) -> N {
        self.inner
    }

    /// Time goes on, to the end of the clock.
    fn pass(&mut self, ns: u64) {
        self.counters.time_ns = self.counters.time_ns.saturating_add(ns);
    }

    fn count_read(&mut self, data: usize) {
        if data == 0 {
            self.counters.spare_reads += 1;
        } else {
            self.counters.page_reads += 1;
        }
        self.pass(self.timing.read_ns);
    }

    fn count_program(&mut self) {
        self.counters.page_programs += 1;
        self.pass(self.timing.program_ns);
    }

    fn count_erase(&mut self, block: BlockAddr) {
        self.counters.block_erases += 1;
        self.pass(self.timing.erase_ns);
        // An address that is not on the chip is for the chip to refuse.
        if let Some(count) = self.erase_counts.get_mut(block.0 as usize) {
            *count += 1;
        }
    }
}

impl<N: Nand> Nand for Count<N> {
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
    ) -> Result<ReadStatus, Self::Error> {
        self.count_read(data.len());
        self.inner.read(page, offset, data, spare)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        self.count_read(data.len());
        self.inner.read_used(page, data, head, used)
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        self.count_program();
        self.inner.program(page, data, spare)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.inner.copies(from, to)
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Self::Error> {
        if self.inner.copies(from, to) {
            self.counters.page_copies += 1;
        } else {
            self.counters.page_reads += 1;
            self.counters.page_programs += 1;
        }
        self.pass(self.timing.read_ns + self.timing.program_ns);
        self.inner.copy(from, to, spare, page)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        self.count_erase(block);
        self.inner.erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        self.inner.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        self.inner.mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.inner.flush()
    }
}

impl<N: Tearable> Tearable for Count<N> {
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        self.count_program();
        self.inner.program_torn(page, data, spare, tear, seed)
    }

    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        self.count_erase(block);
        self.inner.erase_torn(block, tear, seed)
    }
}

impl<N: Nand> Metered for Count<N> {
    fn counters(&self) -> Counters {
        self.counters
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.erase_counts.clone()
    }

    fn idle(&mut self, ns: u64) {
        self.pass(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SimNand, preset};

    /// The wrapper's counts of a random run are the chip's own.
    #[test]
    fn agrees_with_the_chip() {
        let preset = preset("micron-20m").unwrap();
        let mut nand = Count::new(SimNand::new(preset), preset.timing);
        let mut rng = crate::Rng::new(3);
        for block in 0..20 {
            let at = nand.geometry().page(BlockAddr(block), 0);
            for index in 0..rng.below(64) as u32 {
                nand.program(PageAddr(at.0 + index), b"x", b"y").unwrap();
            }
            for _ in 0..rng.below(9) {
                nand.read(at, 0, &mut [0; 8], &mut []).unwrap();
                nand.read(at, 0, &mut [], &mut [0; 8]).unwrap();
                nand.read_used(at, &mut [0; 8], 4, &|_| 6).unwrap();
            }
            for _ in 0..rng.below(3) {
                nand.erase(BlockAddr(block)).unwrap();
            }
        }
        nand.program_torn(PageAddr(5000), b"x", &[], Tear::Garbage, 0)
            .unwrap();
        nand.erase_torn(BlockAddr(99), EraseTear::Partial, 0)
            .unwrap();
        nand.is_bad(BlockAddr(7)).unwrap();
        nand.flush().unwrap();
        assert!(nand.counters().page_programs > 100);
        assert_eq!(nand.counters(), nand.inner().counters());
        assert_eq!(nand.erase_counts(), nand.inner().erase_counts());

        nand.idle(5);
        assert_eq!(nand.counters().time_ns, nand.inner().counters().time_ns + 5);
        nand.clear();
        assert_eq!(nand.counters(), Counters::default());
        assert!(nand.erase_counts().iter().all(|count| *count == 0));
        assert!(nand.into_inner().counters().page_programs > 100);
    }

    #[test]
    #[should_panic(expected = "erase of block 160: the chip has 160 blocks")]
    fn an_address_out_of_range_reaches_the_chip() {
        let preset = preset("micron-20m").unwrap();
        let _ = Count::new(SimNand::new(preset), preset.timing).erase(BlockAddr(160));
    }
}

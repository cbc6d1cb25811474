//! A power cut at a chosen operation.

use flashkit_nand::{
    BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus, copy_over_bus,
};

use crate::{Counters, EraseTear, Metered, Tear, Tearable};

/// Which operation is cut, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Modifying operations (programs, erases and bad-block marks) that still
    /// complete before the torn one.
    pub after: u64,
    /// What is left if the torn operation is a program.
    pub program: Tear,
    /// What is left if the torn operation is an erase.
    pub erase: EraseTear,
    /// Seed of the tear.
    pub seed: u64,
}

/// Why an operation behind a [`PowerCut`] did not happen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CutError<E> {
    /// The power has been cut. Of the operation that reports this first, the tear is left.
    PowerOff,
    /// The chip below reports this.
    Inner(E),
}

impl<E: core::fmt::Display> core::fmt::Display for CutError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CutError::PowerOff => f.write_str("the power was cut"),
            CutError::Inner(e) => e.fmt(f),
        }
    }
}

/// Of the chip below as that shows it: the file systems show errors of a driver in this way.
impl<E: core::fmt::Debug> core::fmt::Debug for CutError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CutError::PowerOff => f.write_str("PowerOff"),
            CutError::Inner(e) => e.fmt(f),
        }
    }
}

impl<E: core::fmt::Debug + core::fmt::Display> std::error::Error for CutError<E> {}

/// A chip that loses power in its k-th modifying operation. That one is torn, and from then on
/// every call returns [`CutError::PowerOff`].
///
/// [`PowerCut::into_inner`] gives the chip back as the next mount will find it. A run that is
/// [never cut](PowerCut::never) tells by [`PowerCut::ops`] how many points there are to cut at.
#[derive(Clone, Debug)]
pub struct PowerCut<N> {
    inner: N,
    cut: Option<Cut>,
    ops: u64,
    off: bool,
}

impl<N: Tearable> PowerCut<N> {
    /// A chip that will be cut as configured.
    pub fn new(inner: N, cut: Cut) -> PowerCut<N> {
        PowerCut {
            inner,
            cut: Some(cut),
            ops: 0,
            off: false,
        }
    }

    /// A chip that is not cut, only counted.
    pub fn never(inner: N) -> PowerCut<N> {
        PowerCut {
            inner,
            cut: None,
            ops: 0,
            off: false,
        }
    }

    /// Modifying operations begun, the torn one included.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// Whether the cut has happened.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// The power is back, and is cut so the next time. Operations are counted anew.
    pub fn power_on(&mut self, cut: Option<Cut>) {
        (self.cut, self.ops, self.off) = (cut, 0, false);
    }

    /// Cuts the power now, between two operations.
    pub fn cut_now(&mut self) {
        self.off = true;
    }

    /// The chip below.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The chip below, to be changed behind the wrapper's back.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// The chip below, with its power back.
    pub fn into_inner(self) -> N {
        self.inner
    }

    fn check(&self) -> Result<(), CutError<N::Error>> {
        if self.off {
            Err(CutError::PowerOff)
        } else {
            Ok(())
        }
    }

    /// Counts a modifying operation; returns the cut if it is this one's turn.
    fn begin(&mut self) -> Result<Option<Cut>, CutError<N::Error>> {
        self.check()?;
        let cut = self.cut.filter(|cut| cut.after == self.ops);
        self.ops += 1;
        self.off = cut.is_some();
        Ok(cut)
    }
}

impl<N: Tearable> Nand for PowerCut<N> {
    type Error = CutError<N::Error>;

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
        self.check()?;
        self.inner
            .read(page, offset, data, spare)
            .map_err(CutError::Inner)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        self.check()?;
        self.inner
            .read_used(page, data, head, used)
            .map_err(CutError::Inner)
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        match self.begin()? {
            None => self
                .inner
                .program(page, data, spare)
                .map_err(CutError::Inner),
            Some(Cut { program, seed, .. }) => {
                let torn = self.inner.program_torn(page, data, spare, program, seed);
                torn.map_err(CutError::Inner)?;
                Err(CutError::PowerOff)
            }
        }
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.inner.copies(from, to)
    }

    /// One operation, as a program is. A copy that is cut is a program that is.
    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Self::Error> {
        self.check()?;
        if self.cut.is_some_and(|cut| cut.after == self.ops) {
            return copy_over_bus(self, from, to, spare, page);
        }
        let copied = self.inner.copy(from, to, spare, page);
        let copied = copied.map_err(CutError::Inner)?;
        self.ops += u64::from(copied != Copied::Uncorrectable);
        Ok(copied)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        match self.begin()? {
            None => self.inner.erase(block).map_err(CutError::Inner),
            Some(Cut { erase, seed, .. }) => {
                self.inner
                    .erase_torn(block, erase, seed)
                    .map_err(CutError::Inner)?;
                Err(CutError::PowerOff)
            }
        }
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        self.check()?;
        self.inner.is_bad(block).map_err(CutError::Inner)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        let cut = self.begin()?;
        // A mark is there or not: a block reads as bad by one bit of a few bytes.
        let happens = cut.is_none_or(|cut| match cut.program {
            Tear::NotBegun => false,
            Tear::Complete => true,
            _ => cut.seed.is_multiple_of(2),
        });
        if happens {
            self.inner.mark_bad(block).map_err(CutError::Inner)?;
        }
        cut.map_or(Ok(()), |_| Err(CutError::PowerOff))
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.check()?;
        self.inner.flush().map_err(CutError::Inner)
    }
}

impl<N: Metered> Metered for PowerCut<N> {
    fn counters(&self) -> Counters {
        self.inner.counters()
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
    use crate::spi::CopyRange;
    use crate::{SimNand, preset};

    const CUT: Cut = Cut {
        after: 2,
        program: Tear::Garbage,
        erase: EraseTear::LooksErased,
        seed: 1,
    };

    fn chip() -> SimNand {
        SimNand::new(preset("micron-20m").unwrap())
    }

    /// What a chip does by itself costs a copy, and no bytes over the bus; and it is cut as a
    /// program is.
    #[test]
    fn a_copy_is_the_chips_own_and_can_be_cut() {
        let mut chip = chip();
        chip.set_copies(CopyRange::All);
        let mut nand = PowerCut::new(chip, CUT);
        let page_size = nand.geometry().page_size() as usize;
        let data = vec![7; page_size];
        nand.program(PageAddr(0), &data, &[]).unwrap();
        let copy = |nand: &mut PowerCut<SimNand>, to| {
            nand.copy(PageAddr(0), PageAddr(to), &[], &mut vec![0; page_size])
        };
        assert_eq!(copy(&mut nand, 1), Ok(Copied::Done(ReadStatus::Clean)));
        let counters = nand.counters();
        assert_eq!((counters.page_copies, counters.page_programs), (1, 1));
        assert_eq!(copy(&mut nand, 2), Err(CutError::PowerOff));
        assert!(nand.is_off());
        let mut torn = vec![0; page_size];
        let status = nand.into_inner().read(PageAddr(2), 0, &mut torn, &mut []);
        assert!(status != Ok(ReadStatus::Clean) || torn != data);
    }

    #[test]
    fn tears_the_chosen_program_and_is_off_from_then_on() {
        let mut nand = PowerCut::new(chip(), CUT);
        assert_eq!(nand.program(PageAddr(0), b"a", &[]), Ok(OpStatus::Done));
        assert_eq!(nand.erase(BlockAddr(1)), Ok(OpStatus::Done));
        assert!(!nand.is_off());
        assert_eq!(
            nand.program(PageAddr(1), b"b", &[]),
            Err(CutError::PowerOff)
        );
        assert!(nand.is_off());
        assert_eq!(
            nand.program(PageAddr(2), b"c", &[]),
            Err(CutError::PowerOff)
        );
        assert_eq!(nand.erase(BlockAddr(2)), Err(CutError::PowerOff));
        assert_eq!(
            nand.read(PageAddr(0), 0, &mut [0], &mut []),
            Err(CutError::PowerOff)
        );
        assert_eq!(nand.is_bad(BlockAddr(0)), Err(CutError::PowerOff));
        assert_eq!(nand.mark_bad(BlockAddr(0)), Err(CutError::PowerOff));
        assert_eq!(nand.flush(), Err(CutError::PowerOff));
        assert_eq!(nand.ops(), 3);

        let mut chip = nand.into_inner();
        let mut byte = [0];
        assert!(
            chip.read(PageAddr(0), 0, &mut byte, &mut [])
                .unwrap()
                .is_readable()
        );
        assert_eq!(&byte, b"a");
        assert!(
            !chip
                .read(PageAddr(1), 0, &mut byte, &mut [])
                .unwrap()
                .is_readable()
        );
        chip.read(PageAddr(2), 0, &mut byte, &mut []).unwrap();
        assert_eq!(byte, [0xFF]);
    }

    #[test]
    #[should_panic(expected = "the block's last erase did not complete")]
    fn tears_the_chosen_erase() {
        let mut nand = PowerCut::new(chip(), Cut { after: 0, ..CUT });
        assert_eq!(nand.erase(BlockAddr(1)), Err(CutError::PowerOff));
        let page = nand.geometry().page(BlockAddr(1), 0);
        let _ = nand.into_inner().program(page, b"a", &[]);
    }

    #[test]
    fn a_mark_is_cut_as_well() {
        for (program, bad) in [(Tear::NotBegun, false), (Tear::Complete, true)] {
            let cut = Cut { program, ..CUT };
            let mut nand = PowerCut::new(chip(), Cut { after: 1, ..cut });
            nand.mark_bad(BlockAddr(1)).unwrap();
            assert_eq!(nand.mark_bad(BlockAddr(2)), Err(CutError::PowerOff));
            let mut chip = nand.into_inner();
            assert!(chip.is_bad(BlockAddr(1)).unwrap());
            assert_eq!(chip.is_bad(BlockAddr(2)).unwrap(), bad);
        }
    }

    #[test]
    fn never_only_counts() {
        let mut nand = PowerCut::never(chip());
        for page in 0..10 {
            nand.program(PageAddr(page), b"a", &[]).unwrap();
        }
        nand.erase(BlockAddr(0)).unwrap();
        nand.read(PageAddr(0), 0, &mut [0], &mut []).unwrap();
        assert_eq!(nand.ops(), 11);
        assert_eq!(nand.counters().page_programs, 10);
        nand.cut_now();
        assert_eq!(nand.erase(BlockAddr(0)), Err(CutError::PowerOff));
    }

    /// The wrapper hides no breach of the contract, not even in the torn operation.
    #[test]
    #[should_panic(expected = "already attempted")]
    fn a_breach_in_the_torn_operation_panics() {
        let mut nand = PowerCut::new(
            chip(),
            Cut {
                after: 1,
                program: Tear::NotBegun,
                ..CUT
            },
        );
        nand.program(PageAddr(1), b"a", &[]).unwrap();
        let _ = nand.program(PageAddr(0), b"a", &[]);
    }
}

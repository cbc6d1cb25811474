//! A record of a chip's last operations.

use std::collections::VecDeque;

use flashkit_nand::{
    BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus, copy_over_bus,
};

use crate::{Counters, EraseTear, Metered, Tear, Tearable};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// [`Nand::read`] from a byte offset, of so many data and spare bytes.
    Read {
        /// The page.
        page: PageAddr,
        /// First byte.
        offset: u32,
        /// Data bytes.
        data: u32,
        /// Spare bytes.
        spare: u32,
    },
    /// [`Nand::program`] of so many data and spare bytes.
    Program {
        /// The page.
        page: PageAddr,
        /// Data bytes.
        data: u32,
        /// Spare bytes.
        spare: u32,
    },
    /// [`Nand::copy`] that the chip makes by itself, with so many spare bytes.
    Copy {
        /// The page that is copied.
        from: PageAddr,
        /// The page that is programmed.
        to: PageAddr,
        /// Spare bytes.
        spare: u32,
    },
    /// [`Nand::erase`].
    Erase(BlockAddr),
    /// [`Nand::is_bad`].
    IsBad(BlockAddr),
    /// [`Nand::mark_bad`].
    MarkBad(BlockAddr),
    /// [`Nand::flush`].
    Flush,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A read.
    Read(ReadStatus),
    /// A program or an erase.
    Op(OpStatus),
    /// A copy.
    Copied(Copied),
    /// A program or an erase that was torn.
    Torn,
    /// The answer of [`Nand::is_bad`].
    Bad(bool),
    /// A mark or a flush.
    Ok,
    /// The driver's error.
    Error,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOp {
    /// What was asked for.
    pub kind: OpKind,
    /// How it ended.
    pub outcome: Outcome,
    /// [`Counters::time_ns`] at its end.
    pub time_ns: u64,
}

impl core::fmt::Display for TraceOp {
    /// One line: microseconds, operation, outcome.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{:>12}.{:03} us  ",
            self.time_ns / 1000,
            self.time_ns % 1000
        )?;
        match self.kind {
            OpKind::Read {
                page,
                offset,
                data,
                spare,
            } => {
                write!(
                    f,
                    "read    page {} offset {offset} data {data} spare {spare}",
                    page.0
                )?;
            }
            OpKind::Program { page, data, spare } => {
                write!(f, "program page {} data {data} spare {spare}", page.0)?;
            }
            OpKind::Copy { from, to, spare } => {
                write!(f, "copy    page {} to {} spare {spare}", from.0, to.0)?;
            }
            OpKind::Erase(block) => write!(f, "erase   block {}", block.0)?,
            OpKind::IsBad(block) => write!(f, "is-bad  block {}", block.0)?,
            OpKind::MarkBad(block) => write!(f, "mark    block {}", block.0)?,
            OpKind::Flush => write!(f, "flush")?,
        }
        match self.outcome {
            Outcome::Read(ReadStatus::Clean)
            | Outcome::Copied(Copied::Done(ReadStatus::Clean))
            | Outcome::Op(OpStatus::Done)
            | Outcome::Ok => Ok(()),
            Outcome::Read(ReadStatus::Corrected(bits))
            | Outcome::Copied(Copied::Done(ReadStatus::Corrected(bits))) => {
                write!(f, ": {bits} bits corrected")
            }
            Outcome::Read(ReadStatus::Uncorrectable)
            | Outcome::Copied(Copied::Uncorrectable | Copied::Done(ReadStatus::Uncorrectable)) => {
                f.write_str(": uncorrectable")
            }
            Outcome::Op(OpStatus::Failed) | Outcome::Copied(Copied::Failed) => {
                f.write_str(": failed")
            }
            Outcome::Torn => f.write_str(": torn"),
            Outcome::Bad(bad) => f.write_str(if bad { ": bad" } else { ": good" }),
            Outcome::Error => f.write_str(": driver error"),
        }
    }
}

/// A chip that remembers its last operations. The clock is that of the chip below; put a
/// [`Count`](crate::Count) around a chip that has none.
#[derive(Clone, Debug)]
pub struct Trace<N> {
    inner: N,
    ring: VecDeque<TraceOp>,
    capacity: usize,
    total: u64,
}

impl<N: Nand + Metered> Trace<N> {
    /// Remembers the last `capacity` operations.
    pub fn new(inner: N, capacity: usize) -> Trace<N> {
        Trace {
            inner,
            ring: VecDeque::new(),
            capacity,
            total: 0,
        }
    }

    /// The operations remembered, oldest first.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = &TraceOp> {
        self.ring.iter()
    }

    /// Operations since the beginning, forgotten ones included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes the operations remembered, oldest first.
    pub fn take(&mut self) -> Vec<TraceOp> {
        self.ring.drain(..).collect()
    }

    /// The chip below.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// The chip below, to be used without being traced.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// The chip below.
    pub fn into_inner(self) -> N {
        self.inner
    }

    fn note<T, E>(
        &mut self,
        kind: OpKind,
        result: Result<T, E>,
        outcome: impl Fn(&T) -> Outcome,
    ) -> Result<T, E> {
        self.total += 1;
        if self.capacity > 0 {
            if self.ring.len() == self.capacity {
                self.ring.pop_front();
            }
            let outcome = result.as_ref().map_or(Outcome::Error, outcome);
            let time_ns = self.inner.counters().time_ns;
            self.ring.push_back(TraceOp {
                kind,
                outcome,
                time_ns,
            });
        }
        result
    }
}

fn program_kind(page: PageAddr, data: &[u8], spare: &[u8]) -> OpKind {
    OpKind::Program {
        page,
        data: data.len() as u32,
        spare: spare.len() as u32,
    }
}

impl<N: Nand + Metered> Nand for Trace<N> {
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
        let (data_len, spare_len) = (data.len() as u32, spare.len() as u32);
        let kind = OpKind::Read {
            page,
            offset,
            data: data_len,
            spare: spare_len,
        };
        let result = self.inner.read(page, offset, data, spare);
        self.note(kind, result, |status| Outcome::Read(*status))
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        let kind = OpKind::Read {
            page,
            offset: 0,
            data: data.len() as u32,
            spare: 0,
        };
        let result = self.inner.read_used(page, data, head, used);
        self.note(kind, result, |status| Outcome::Read(*status))
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        let result = self.inner.program(page, data, spare);
        self.note(program_kind(page, data, spare), result, |status| {
            Outcome::Op(*status)
        })
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
        if !self.inner.copies(from, to) {
            return copy_over_bus(self, from, to, spare, page);
        }
        let result = self.inner.copy(from, to, spare, page);
        let spare = spare.len() as u32;
        self.note(OpKind::Copy { from, to, spare }, result, |copied| {
            Outcome::Copied(*copied)
        })
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        let result = self.inner.erase(block);
        self.note(OpKind::Erase(block), result, |status| Outcome::Op(*status))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        let result = self.inner.is_bad(block);
        self.note(OpKind::IsBad(block), result, |bad| Outcome::Bad(*bad))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        let result = self.inner.mark_bad(block);
        self.note(OpKind::MarkBad(block), result, |()| Outcome::Ok)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        let result = self.inner.flush();
        self.note(OpKind::Flush, result, |()| Outcome::Ok)
    }
}

impl<N: Tearable + Metered> Tearable for Trace<N> {
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        let result = self.inner.program_torn(page, data, spare, tear, seed);
        self.note(program_kind(page, data, spare), result, |()| Outcome::Torn)
    }

    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        let result = self.inner.erase_torn(block, tear, seed);
        self.note(OpKind::Erase(block), result, |()| Outcome::Torn)
    }
}

impl<N: Metered> Metered for Trace<N> {
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
    use crate::{Count, Cut, CutError, PowerCut, SimNand, preset};

    fn chip() -> SimNand {
        SimNand::new(preset("micron-20m").unwrap())
    }

    #[test]
    fn records_what_happened() {
        let mut nand = Trace::new(chip(), 100);
        nand.erase(BlockAddr(1)).unwrap();
        nand.program(PageAddr(64), b"abc", b"d").unwrap();
        nand.read(PageAddr(64), 1, &mut [0; 2], &mut []).unwrap();
        nand.mark_bad(BlockAddr(2)).unwrap();
        nand.is_bad(BlockAddr(2)).unwrap();
        nand.flush().unwrap();
        nand.program_torn(PageAddr(65), b"abc", &[], Tear::Garbage, 0)
            .unwrap();
        nand.read(PageAddr(65), 0, &mut [], &mut [0; 4]).unwrap();
        nand.inner_mut().set_power(false);
        nand.erase(BlockAddr(0)).unwrap_err();
        let lines: Vec<String> = nand
            .ops()
            .map(|op| op.to_string().trim().to_owned())
            .collect();
        assert_eq!(
            lines,
            [
                "500.000 us  erase   block 1",
                "700.000 us  program page 64 data 3 spare 1",
                "725.000 us  read    page 64 offset 1 data 2 spare 0",
                "725.000 us  mark    block 2",
                "725.000 us  is-bad  block 2: bad",
                "725.000 us  flush",
                "925.000 us  program page 65 data 3 spare 0: torn",
                "950.000 us  read    page 65 offset 0 data 0 spare 4: uncorrectable",
                "950.000 us  erase   block 0: driver error",
            ]
        );
    }

    #[test]
    fn the_ring_is_bounded() {
        let mut nand = Trace::new(chip(), 3);
        for page in 0..10 {
            nand.program(PageAddr(page), &[], &[]).unwrap();
        }
        assert_eq!((nand.ops().len(), nand.total()), (3, 10));
        let kept: Vec<OpKind> = nand.take().into_iter().map(|op| op.kind).collect();
        assert_eq!(
            kept[0],
            OpKind::Program {
                page: PageAddr(7),
                data: 0,
                spare: 0
            }
        );
        assert_eq!(nand.ops().len(), 0);

        let mut none = Trace::new(nand.into_inner(), 0);
        none.flush().unwrap();
        assert_eq!((none.ops().len(), none.total()), (0, 1));
    }

    #[test]
    fn wrappers_stack() {
        let timing = preset("micron-20m").unwrap().timing;
        let cut = Cut {
            after: 1,
            program: Tear::LooksBlank,
            erase: EraseTear::Partial,
            seed: 0,
        };
        let mut nand = PowerCut::new(Trace::new(Count::new(chip(), timing), 10), cut);
        nand.program(PageAddr(0), b"a", &[]).unwrap();
        assert_eq!(
            nand.program(PageAddr(1), b"b", &[]),
            Err(CutError::PowerOff)
        );
        let trace = nand.into_inner();
        assert_eq!(trace.ops().last().unwrap().outcome, Outcome::Torn);
        assert_eq!(trace.inner().counters(), trace.inner().inner().counters());
    }
}

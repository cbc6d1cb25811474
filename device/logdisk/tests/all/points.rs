//! A chip that notes which of its modifying operations are worth a cut.

use flashkit_nor::{
    BankedNorFlash, EraseStatus, ErrorType, MultiwriteNorFlash, NorFlash, ReadNorFlash,
};
use flashkit_sim::nor::NOR_WORD;

/// Longer writes are data; the words in the middle of those are alike.
const DATA: usize = 64;

pub struct Points<N> {
    pub inner: N,
    ops: u64,
    /// Operations, counted as a power cut counts them: all, or of data the first, one in the middle
    /// and the last word.
    pub points: Vec<u64>,
    all: bool,
}

impl<N> Points<N> {
    pub fn new(inner: N, all: bool) -> Points<N> {
        Points {
            inner,
            ops: 0,
            points: Vec::new(),
            all,
        }
    }
}

impl<N: ErrorType> ErrorType for Points<N> {
    type Error = N::Error;
}

impl<N: BankedNorFlash> ReadNorFlash for Points<N> {
    const READ_SIZE: usize = N::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), N::Error> {
        self.inner.read(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.inner.capacity()
    }
}

impl<N: BankedNorFlash> NorFlash for Points<N> {
    const WRITE_SIZE: usize = N::WRITE_SIZE;
    const ERASE_SIZE: usize = N::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), N::Error> {
        self.inner.erase(from, to)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), N::Error> {
        let words = (bytes.len().div_ceil(NOR_WORD)) as u64;
        let (first, last) = (self.ops, self.ops + words - 1);
        if self.all || bytes.len() < DATA {
            self.points.extend(first..=last);
        } else {
            self.points.extend([first, first + words / 2, last]);
        }
        self.ops += words;
        self.inner.write(offset, bytes)
    }
}

impl<N: BankedNorFlash> MultiwriteNorFlash for Points<N> {}

impl<N: BankedNorFlash> BankedNorFlash for Points<N> {
    fn banks(&self) -> u32 {
        self.inner.banks()
    }

    fn erase_start(&mut self, offset: u32) -> Result<(), N::Error> {
        self.points.push(self.ops);
        self.ops += 1;
        self.inner.erase_start(offset)
    }

    fn erase_status(&mut self, bank: u32) -> Result<EraseStatus, N::Error> {
        self.inner.erase_status(bank)
    }

    fn erase_wait(&mut self, bank: u32) -> Result<EraseStatus, N::Error> {
        self.inner.erase_wait(bank)
    }
}

//! A power cut at a chosen word program or erase of a NOR chip.

use flashkit_nor::{
    BankedNorFlash, EraseStatus, ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError,
    NorFlashErrorKind, ReadNorFlash,
};

use super::{NOR_WORD, NorEraseTear, NorTearable, WordTear};

/// Which operation is cut, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NorCut {
    /// Modifying operations (word programs, erases begun) that still complete before the torn one.
    pub after: u64,
    /// What is left if the torn operation is a program.
    pub program: WordTear,
    /// What is left of every erase under way, the one that the cut meets beginning included.
    pub erase: NorEraseTear,
    /// Seed of the tear.
    pub seed: u64,
}

/// Why an operation behind a [`NorPowerCut`] did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NorCutError<E> {
    /// The power has been cut. Of the operation that reports this first, the tear is left.
    PowerOff,
    /// The chip below reports this.
    Inner(E),
}

impl<E: NorFlashError> NorFlashError for NorCutError<E> {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            NorCutError::PowerOff => NorFlashErrorKind::Other,
            NorCutError::Inner(e) => e.kind(),
        }
    }
}

/// A NOR chip that loses power in its k-th modifying operation. That one is torn, and so are the
/// erases under way; from then on every call returns [`NorCutError::PowerOff`].
#[derive(Clone, Debug)]
pub struct NorPowerCut<N> {
    inner: N,
    cut: Option<NorCut>,
    ops: u64,
    off: bool,
}

impl<N: NorTearable> NorPowerCut<N> {
    /// A chip that will be cut as configured.
    pub fn new(inner: N, cut: NorCut) -> NorPowerCut<N> {
        NorPowerCut {
            inner,
            cut: Some(cut),
            ops: 0,
            off: false,
        }
    }

    /// A chip that is not cut, only counted.
    pub fn never(inner: N) -> NorPowerCut<N> {
        NorPowerCut {
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

    fn check(&self) -> Result<(), NorCutError<N::Error>> {
        if self.off {
            Err(NorCutError::PowerOff)
        } else {
            Ok(())
        }
    }

    /// Operations that complete before the cut.
    fn left(&self) -> u64 {
        self.cut.map_or(u64::MAX, |cut| cut.after - self.ops)
    }
}

impl<N: ErrorType> ErrorType for NorPowerCut<N> {
    type Error = NorCutError<N::Error>;
}

impl<N: NorTearable> ReadNorFlash for NorPowerCut<N> {
    const READ_SIZE: usize = N::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.check()?;
        self.inner.read(offset, bytes).map_err(NorCutError::Inner)
    }

    fn capacity(&self) -> usize {
        self.inner.capacity()
    }
}

impl<N: NorTearable> NorFlash for NorPowerCut<N> {
    const WRITE_SIZE: usize = N::WRITE_SIZE;
    const ERASE_SIZE: usize = N::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.check()?;
        let per_bank = self.capacity() as u32 / self.banks();
        for offset in (from..to).step_by(N::ERASE_SIZE) {
            self.erase_start(offset)?;
            self.erase_wait(offset / per_bank)?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.check()?;
        let (first, len) = (offset as usize, bytes.len());
        if len == 0 {
            return Ok(());
        }
        let words = ((first + len).div_ceil(NOR_WORD) - first / NOR_WORD) as u64;
        let left = self.left();
        if words <= left {
            self.ops += words;
            return self.inner.write(offset, bytes).map_err(NorCutError::Inner);
        }
        // Where a word of the range begins and ends, counted from its start.
        let edge = |word: u64| ((first / NOR_WORD + word as usize) * NOR_WORD).max(first) - first;
        let (whole, end) = (edge(left), edge(left + 1).min(len));
        self.inner
            .write(offset, &bytes[..whole])
            .map_err(NorCutError::Inner)?;
        self.ops += left + 1;
        self.off = true;
        if let Some(cut) = self.cut {
            let torn = offset + whole as u32;
            self.inner
                .write_torn(torn, &bytes[whole..end], cut.program, cut.seed)
                .and_then(|()| self.inner.tear_erases(cut.erase, cut.seed))
                .map_err(NorCutError::Inner)?;
        }
        Err(NorCutError::PowerOff)
    }
}

impl<N: NorTearable> MultiwriteNorFlash for NorPowerCut<N> {}

impl<N: NorTearable> BankedNorFlash for NorPowerCut<N> {
    fn banks(&self) -> u32 {
        self.inner.banks()
    }

    fn erase_start(&mut self, offset: u32) -> Result<(), Self::Error> {
        self.check()?;
        let cut = self.cut.filter(|cut| cut.after == self.ops);
        self.ops += 1;
        self.inner.erase_start(offset).map_err(NorCutError::Inner)?;
        if let Some(cut) = cut {
            self.off = true;
            self.inner
                .tear_erases(cut.erase, cut.seed)
                .map_err(NorCutError::Inner)?;
            return Err(NorCutError::PowerOff);
        }
        Ok(())
    }

    fn erase_status(&mut self, bank: u32) -> Result<EraseStatus, Self::Error> {
        self.check()?;
        self.inner.erase_status(bank).map_err(NorCutError::Inner)
    }

    fn erase_wait(&mut self, bank: u32) -> Result<EraseStatus, Self::Error> {
        self.check()?;
        self.inner.erase_wait(bank).map_err(NorCutError::Inner)
    }
}

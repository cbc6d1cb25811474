//! Operations that a power cut tears apart.

use flashkit_nand::{BlockAddr, Nand, PageAddr};

use crate::block::{HALF_ERASED, PageState};
use crate::{Rng, SimError, SimNand};

/// What a cut leaves of a program. In every case but [`Tear::NotBegun`] the page counts as
/// attempted: programming it again before an erase is a breach of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// Nothing happened: the page may still be programmed.
    NotBegun,
    /// The first bytes, data before spare; the rest is `0xFF`. By the seed, the page reads as
    /// just that or as uncorrectable. 0 bytes is [`Tear::LooksBlank`], all is [`Tear::Complete`].
    Prefix(u32),
    /// Bits that should be 0 are still 1, here and there. By the seed, the page reads as just
    /// that or as uncorrectable.
    Random,
    /// Reads as erased.
    LooksBlank,
    /// Uncorrectable.
    Garbage,
    /// The power held just long enough.
    Complete,
    /// Reads as complete this many times (at most 127), then uncorrectable until erased.
    Unstable {
        /// Clean reads.
        reads: u32,
    },
    /// Reads as erased this many times (at most 63), then uncorrectable until erased.
    UnstableBlank {
        /// Reads as erased.
        reads: u32,
    },
    /// Some bits that should be 0 are still 1, and it reads as just that this many times (at most
    /// 127), then uncorrectable until erased.
    UnstableMixed {
        /// Clean reads.
        reads: u32,
    },
    /// Uncorrectable this many times (at most 31), then it reads as complete.
    Late {
        /// Failing reads.
        reads: u32,
    },
    /// Uncorrectable this many times (at most 3), then it reads as complete for 2 to the power of
    /// this many times (at most 3), then it is uncorrectable until erased.
    Fitful {
        /// Failing reads.
        late: u32,
        /// The power.
        reads: u32,
    },
}

/// What a cut leaves of an erase. In every case but [`EraseTear::NotBegun`] and
/// [`EraseTear::Complete`] the block must be erased before it is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraseTear {
    /// Nothing happened.
    NotBegun,
    /// By the seed, each page holds what it held, reads as erased, or is uncorrectable.
    Partial,
    /// Every page reads as erased, one to three times by the seed, and is uncorrectable then.
    LooksErased,
    /// By the seed, each page holds what it held, for good or for one to eight more reads, or
    /// some of its bits are 1 that were 0, or it reads as erased, for good or one to eight
    /// times, or is uncorrectable.
    Mixed,
    /// The power held just long enough.
    Complete,
}

/// A chip whose operations can be torn on demand.
///
/// Both operations cost and are counted as if they had been complete, check the promises of the
/// contract in the same way, and are exempt from other faults. Equal seeds tear alike.
pub trait Tearable: Nand {
    /// Programs a page, and tears it.
    ///
    /// # Errors
    /// As [`Nand::program`].
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), Self::Error>;

    /// Erases a block, and tears that.
    ///
    /// # Errors
    /// As [`Nand::erase`].
    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), Self::Error>;
}

impl<N: Tearable + ?Sized> Tearable for &mut N {
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        (**self).program_torn(page, data, spare, tear, seed)
    }

    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        (**self).erase_torn(block, tear, seed)
    }
}

/// Leaves some of the bits that a program should have cleared set: a quarter, half or three
/// quarters of them.
fn program_some_bits(rng: &mut Rng, bytes: &mut [u8]) {
    let density = rng.below(3);
    for byte in bytes {
        let word = rng.next_u64();
        let (a, b) = (word as u8, (word >> 8) as u8);
        *byte |= match density {
            0 => a & b,
            1 => a,
            _ => a | b,
        };
    }
}

impl SimNand {
    /// Ends what is not settled: every page that reads one way for a while and another way then
    /// reads for good as it was meant to when `well`, and as uncorrectable otherwise. A later
    /// power-up may find either. Returns whether there was such a page.
    ///
    /// # Errors
    /// The image file cannot be read or written.
    pub fn settle(&mut self, well: bool) -> Result<bool, SimError> {
        let mut any = false;
        for b in 0..self.geometry.blocks() {
            self.load(b)?;
            for index in 0..self.blocks[b as usize].next() {
                let settled = match self.blocks[b as usize].page(index).state {
                    PageState::Unstable(_) | PageState::Late(_) | PageState::Fitful(..) => {
                        PageState::Written
                    }
                    PageState::UnstableBlank(_) => PageState::LooksBlank,
                    _ => continue,
                };
                any = true;
                let state = if well { settled } else { PageState::Garbage };
                self.put_state(b, index, state)?;
            }
        }
        Ok(any)
    }

    /// Leaves what a failed program may: see [`Faults`](crate::Faults).
    pub(crate) fn leave_failed(
        &mut self,
        b: u32,
        index: u32,
        data: &[u8],
        spare: &[u8],
        seed: u64,
    ) -> Result<(), SimError> {
        let mut rng = Rng::new(seed);
        let reads = 1 + rng.below(8) as u8;
        match rng.below(5) {
            0 => self.put(b, index, PageState::Garbage, &[], &[]),
            1 => self.put(b, index, PageState::LooksBlank, &[], &[]),
            2 => self.put(b, index, PageState::Written, data, spare),
            3 => self.put(b, index, PageState::Unstable(reads), data, spare),
            _ => self.put_some_bits(b, index, PageState::Written, data, spare, &mut rng),
        }
    }

    /// Puts a page of which bits that should be 0 are still 1.
    fn put_some_bits(
        &mut self,
        b: u32,
        index: u32,
        state: PageState,
        data: &[u8],
        spare: &[u8],
        rng: &mut Rng,
    ) -> Result<(), SimError> {
        let (mut data, mut spare) = (data.to_vec(), spare.to_vec());
        program_some_bits(rng, &mut data);
        program_some_bits(rng, &mut spare);
        self.put(b, index, state, &data, &spare)
    }

    /// Leaves a half-erased block behind, as a torn or failed erase does.
    pub(crate) fn leave_half_erased(
        &mut self,
        b: u32,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), SimError> {
        self.load(b)?;
        if tear == EraseTear::Mixed {
            return self.leave_mixed(b, seed);
        }
        let mut rng = Rng::new(seed);
        let pages_per_block = self.geometry.pages_per_block();
        let block = &mut self.blocks[b as usize];
        block.flags |= HALF_ERASED;
        for index in 0..pages_per_block {
            let state = match (tear, rng.below(3)) {
                (EraseTear::LooksErased, more) => PageState::UnstableBlank(1 + more as u8),
                (_, 0) => continue,
                (_, 1) => PageState::Blank,
                _ => PageState::Garbage,
            };
            let page = block.page_mut(index, pages_per_block);
            page.state = state;
            page.bytes = None;
        }
        self.save_block(b)
    }

    /// See [`EraseTear::Mixed`].
    fn leave_mixed(&mut self, b: u32, seed: u64) -> Result<(), SimError> {
        let mut rng = Rng::new(seed);
        self.blocks[b as usize].flags |= HALF_ERASED;
        for index in 0..self.geometry.pages_per_block() {
            let before = self.blocks[b as usize].page(index).state;
            let (case, reads) = (rng.below(6), 1 + rng.below(8) as u8);
            let state = match case {
                0 => continue,
                1 | 2 if before != PageState::Written => continue,
                1 => PageState::Unstable(reads),
                2 => {
                    let mut data = vec![0; self.geometry.page_size() as usize];
                    let mut spare = vec![0; self.geometry.spare_size() as usize];
                    self.fetch(b, index, 0, &mut data, &mut spare)?;
                    program_some_bits(&mut rng, &mut data);
                    program_some_bits(&mut rng, &mut spare);
                    self.put(b, index, PageState::Written, &data, &spare)?;
                    continue;
                }
                3 => PageState::Blank,
                4 => PageState::UnstableBlank(reads),
                _ => PageState::Garbage,
            };
            self.put_state(b, index, state)?;
            if !state.has_bytes() {
                let pages_per_block = self.geometry.pages_per_block();
                let page = self.blocks[b as usize].page_mut(index, pages_per_block);
                page.bytes = None;
            }
        }
        self.save_block(b)
    }
}

impl Tearable for SimNand {
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), SimError> {
        let (b, index) = self.admit_program(page, data, spare)?;
        let mut rng = Rng::new(seed);
        let mixed = |readable: bool| {
            if readable {
                PageState::Written
            } else {
                PageState::Garbage
            }
        };
        let total = data.len() + spare.len();
        match tear {
            Tear::NotBegun => Ok(()),
            Tear::Prefix(n) if n as usize >= total => {
                self.put(b, index, PageState::Written, data, spare)
            }
            Tear::Prefix(0) | Tear::LooksBlank => {
                self.put(b, index, PageState::LooksBlank, &[], &[])
            }
            Tear::Prefix(n) => {
                let n = n as usize;
                let spare_len = n.saturating_sub(data.len());
                let data = &data[..n.min(data.len())];
                self.put(b, index, mixed(rng.one_in(2)), data, &spare[..spare_len])
            }
            Tear::Random => {
                let state = mixed(rng.one_in(2));
                self.put_some_bits(b, index, state, data, spare, &mut rng)
            }
            Tear::Garbage => self.put(b, index, PageState::Garbage, &[], &[]),
            Tear::Complete => self.put(b, index, PageState::Written, data, spare),
            Tear::Unstable { reads } => {
                let reads = reads.min(u32::from(PageState::READS_MAX)) as u8;
                self.put(b, index, PageState::Unstable(reads), data, spare)
            }
            Tear::UnstableBlank { reads } => {
                let reads = reads.min(u32::from(PageState::BLANK_READS_MAX)) as u8;
                self.put(b, index, PageState::UnstableBlank(reads), &[], &[])
            }
            Tear::UnstableMixed { reads } => {
                let reads = reads.min(u32::from(PageState::READS_MAX)) as u8;
                let state = PageState::Unstable(reads);
                self.put_some_bits(b, index, state, data, spare, &mut rng)
            }
            Tear::Late { reads } => {
                let reads = reads.min(u32::from(PageState::LATE_READS_MAX)) as u8;
                self.put(b, index, PageState::Late(reads), data, spare)
            }
            Tear::Fitful { late, reads } => {
                let most = u32::from(PageState::FITFUL_MAX);
                let state = PageState::Fitful(late.min(most) as u8, reads.min(most) as u8);
                self.put(b, index, state, data, spare)
            }
        }
    }

    fn erase_torn(&mut self, block: BlockAddr, tear: EraseTear, seed: u64) -> Result<(), SimError> {
        let b = self.admit_erase(block)?;
        match tear {
            EraseTear::NotBegun => Ok(()),
            EraseTear::Complete => self.erase_fully(b),
            EraseTear::Partial | EraseTear::LooksErased | EraseTear::Mixed => {
                self.prepare_to_empty(b)?;
                self.wear(b);
                self.leave_half_erased(b, tear, seed)
            }
        }
    }
}

//! The contract of a NOR chip with banks, over the `embedded-storage` traits.
//!
//! [`MultiwriteNorFlash`] says what a program does: it clears bits, and may be repeated on the same
//! word. Its `erase` blocks. [`BankedNorFlash`] is for a driver that does not want to stand still
//! for the second that an erase takes. It adds erases that are begun and asked about, one in each
//! bank.
//!
//! # What a chip may do (the fault model)
//!
//! * A cut during a program leaves the words before the one at work programmed and those after it
//!   untouched. Of the one at work, bits that were 0 or are programmed to 1 stay. Each bit on its
//!   way from 1 to 0 may read as either, and differently from read to read. It does until it is
//!   programmed to 0 again or the segment is erased.
//! * A cut during an erase leaves anything in that segment, all zeros and what reads as erased
//!   included. Nothing else changes.
//! * An erase may fail for wear. The segment then holds anything.
//!
//! # What the caller promises
//!
//! * No program, and no second erase, in a bank while it erases; no read of the segment that is
//!   being erased. Reads of the bank's other segments are served (the chip suspends the erase).
//! * Nothing is programmed in a segment whose erase was cut or failed before it was erased again.
//! * A byte that is not `0xFF` is programmed only where it clears bits, never where
//!   it would have to set one.
//!
//! # Example
//!
//! An erase that is begun, and what can be done before it is over:
//!
//! ```
//! use flashkit_nor::{BankedNorFlash, EraseStatus};
//!
//! /// Erases the first unit of the chip and meanwhile reads from the bank behind it.
//! fn erase_and_read<F: BankedNorFlash>(chip: &mut F, word: &mut [u8]) -> Result<bool, F::Error> {
//!     let bank = (chip.capacity() / chip.banks() as usize) as u32;
//!     chip.erase_start(0)?;
//!     while chip.erase_status(0)? == EraseStatus::Busy {
//!         chip.read(bank, word)?;
//!     }
//!     Ok(chip.erase_wait(0)? == EraseStatus::Done)
//! }
//! ```

#![no_std]
#![forbid(unsafe_code)]

pub use embedded_storage::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash,
};

/// How an erase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EraseStatus {
    /// The bank erases.
    Busy,
    /// The bank does not erase; the last erase, if there was one, is complete.
    Done,
    /// The last erase failed. Said once.
    Failed,
}

/// A NOR chip of equal banks that erase independently of each other.
///
/// Banks are consecutive ranges of `capacity() / banks()` bytes, each a whole number of erase units
/// of `ERASE_SIZE` bytes.
pub trait BankedNorFlash: MultiwriteNorFlash {
    /// Banks, at least 1. Constant for the life of the value.
    fn banks(&self) -> u32;

    /// Begins to erase the unit at this offset, a multiple of `ERASE_SIZE`.
    fn erase_start(&mut self, offset: u32) -> Result<(), Self::Error>;

    /// Asks how the erase in a bank stands. Does not wait.
    fn erase_status(&mut self, bank: u32) -> Result<EraseStatus, Self::Error>;

    /// Waits until the bank does not erase; never [`EraseStatus::Busy`].
    fn erase_wait(&mut self, bank: u32) -> Result<EraseStatus, Self::Error> {
        loop {
            match self.erase_status(bank)? {
                EraseStatus::Busy => core::hint::spin_loop(),
                ended => return Ok(ended),
            }
        }
    }
}

impl<F: BankedNorFlash> BankedNorFlash for &mut F {
    fn banks(&self) -> u32 {
        F::banks(self)
    }

    fn erase_start(&mut self, offset: u32) -> Result<(), Self::Error> {
        F::erase_start(self, offset)
    }

    fn erase_status(&mut self, bank: u32) -> Result<EraseStatus, Self::Error> {
        F::erase_status(self, bank)
    }

    fn erase_wait(&mut self, bank: u32) -> Result<EraseStatus, Self::Error> {
        F::erase_wait(self, bank)
    }
}

/// Any [`MultiwriteNorFlash`] as a chip of one bank whose erases block.
///
/// A driver has no name of its own for an erase that has failed for wear: whatever it reports as
/// [`NorFlashErrorKind::Other`] is [`EraseStatus::Failed`].
#[derive(Clone, Debug)]
pub struct OneBank<F> {
    flash: F,
    failed: bool,
}

impl<F> OneBank<F> {
    /// Over a driver.
    pub fn new(flash: F) -> OneBank<F> {
        OneBank {
            flash,
            failed: false,
        }
    }

    /// The driver.
    pub fn into_inner(self) -> F {
        self.flash
    }
}

impl<F: ErrorType> ErrorType for OneBank<F> {
    type Error = F::Error;
}

impl<F: ReadNorFlash> ReadNorFlash for OneBank<F> {
    const READ_SIZE: usize = F::READ_SIZE;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.flash.read(offset, bytes)
    }

    fn capacity(&self) -> usize {
        self.flash.capacity()
    }
}

impl<F: NorFlash> NorFlash for OneBank<F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        self.flash.erase(from, to)
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.flash.write(offset, bytes)
    }
}

impl<F: MultiwriteNorFlash> MultiwriteNorFlash for OneBank<F> {}

impl<F: MultiwriteNorFlash> BankedNorFlash for OneBank<F> {
    fn banks(&self) -> u32 {
        1
    }

    fn erase_start(&mut self, offset: u32) -> Result<(), Self::Error> {
        let erased = self.flash.erase(offset, offset + F::ERASE_SIZE as u32);
        self.failed = (erased.as_ref()).is_err_and(|e| e.kind() == NorFlashErrorKind::Other);
        if self.failed { Ok(()) } else { erased }
    }

    fn erase_status(&mut self, _bank: u32) -> Result<EraseStatus, Self::Error> {
        Ok(match core::mem::take(&mut self.failed) {
            true => EraseStatus::Failed,
            false => EraseStatus::Done,
        })
    }
}

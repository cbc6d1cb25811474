//! The contract of a block device: sectors that are read, written, trimmed and flushed.
//!
//! # What a cut may leave (the fault model)
//!
//! * A sector whose write returned before the last [`BlockDevice::flush`] that returned holds what
//!   was written.
//! * A sector written, but not flushed, holds its old contents or the new ones, each sector for
//!   itself and in no order. A device that cannot promise even that for the sector in flight says
//!   so by [`BlockDevice::TEARS`]. That one sector may then hold any mixture of both, or be
//!   unreadable until it is written again.
//! * A trimmed sector reads as its old contents or as zeros, until it is written.
//!
//! # Example
//!
//! A disk in RAM. Whatever is written is there at once, so `flush` has nothing to do:
//!
//! ```
//! use flashkit_block::BlockDevice;
//!
//! struct InRam(Vec<u8>);
//!
//! impl BlockDevice for InRam {
//!     type Error = &'static str;
//!
//!     fn sector_size(&self) -> u32 {
//!         512
//!     }
//!
//!     fn sector_count(&self) -> u32 {
//!         (self.0.len() / 512) as u32
//!     }
//!
//!     fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
//!         let at = first as usize * 512;
//!         let sectors = self.0.get(at..at + buf.len()).ok_or("beyond the end")?;
//!         buf.copy_from_slice(sectors);
//!         Ok(())
//!     }
//!
//!     fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
//!         let at = first as usize * 512;
//!         let sectors = self.0.get_mut(at..at + data.len()).ok_or("beyond the end")?;
//!         sectors.copy_from_slice(data);
//!         Ok(())
//!     }
//!
//!     fn flush(&mut self) -> Result<(), Self::Error> {
//!         Ok(())
//!     }
//! }
//!
//! let mut disk = InRam(vec![0; 8 * 512]);
//! disk.write(7, &[0x55; 512]).unwrap();
//! assert!(disk.write(8, &[0x55; 512]).is_err());
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "embedded-sdmmc")]
pub mod sdmmc;

/// A device of equal sectors, numbered from 0.
///
/// All calls are synchronous. Buffers hold a whole number of sectors; what the caller asks for
/// lies within the device. An implementation answers a breach of either with an error, never with
/// another sector's data.
pub trait BlockDevice {
    /// The device's error.
    type Error: core::fmt::Debug;

    /// Whether a write that a power cut interrupts may leave a sector that is neither old nor new.
    ///
    /// Of such a device, a sector that cannot be read counts as one that a cut has torn, and what
    /// was there before it is believed. So what fails on the way (a wrong CRC on the bus, a card
    /// that has not answered in time) is for the driver to do again, not to report. Nano-FS reads
    /// a sector three times before it takes it for torn.
    const TEARS: bool = false;

    /// Whether a trimmed sector reads as zeros at once, and for good after the next
    /// [`BlockDevice::flush`].
    const TRIM_ZEROES: bool = false;

    /// Bytes in a sector: a power of two from 512 to 65,536. Constant for the life of the value.
    fn sector_size(&self) -> u32;

    /// Sectors of the device. Constant for the life of the value.
    fn sector_count(&self) -> u32;

    /// Reads `buf.len() / sector_size` sectors from `first` on. A sector never written reads as
    /// anything, and as the same each time.
    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes `data.len() / sector_size` sectors from `first` on. Durable after the next
    /// [`BlockDevice::flush`].
    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error>;

    /// Says that the contents of `count` sectors from `first` on are no longer needed. A hint; the
    /// default does nothing.
    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        let _ = (first, count);
        Ok(())
    }

    /// Returns when everything written before is durable.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

impl<B: BlockDevice + ?Sized> BlockDevice for &mut B {
    type Error = B::Error;

    const TEARS: bool = B::TEARS;
    const TRIM_ZEROES: bool = B::TRIM_ZEROES;

    fn sector_size(&self) -> u32 {
        (**self).sector_size()
    }

    fn sector_count(&self) -> u32 {
        (**self).sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        (**self).read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        (**self).write(first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        (**self).trim(first, count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        (**self).flush()
    }
}

//! The block devices of the `embedded-sdmmc` crate, such as its SD card over SPI.

use embedded_sdmmc::{Block, BlockDevice as Sdmmc, BlockIdx};

use crate::BlockDevice;

/// Bytes in a sector.
const SECTOR: usize = 512;

/// A block device of `embedded-sdmmc` as a device. Each sector passes through 512 bytes of stack.
///
/// That crate has neither a trim nor a flush: a write is durable when it returns,
/// which is so for an SD card.
pub struct FromSdmmc<D: Sdmmc> {
    device: D,
    sectors: u32,
}

impl<D: Sdmmc> FromSdmmc<D> {
    /// Asks the device for its size.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: D) -> Result<Self, D::Error> {
        let sectors = device.num_blocks()?.0;
        Ok(FromSdmmc { device, sectors })
    }

    /// Gives the device back.
    pub fn into_inner(self) -> D {
        self.device
    }
}

/// Why a device of `embedded-sdmmc` does not do what it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdmmcError<E> {
    /// Beyond the end, or no whole number of sectors.
    Range,
    /// The device's own error.
    Device(E),
}

impl<D: Sdmmc> FromSdmmc<D> {
    fn check(&self, first: u32, len: usize) -> Result<(), SdmmcError<D::Error>> {
        let n = (len / SECTOR) as u64;
        let fits = len.is_multiple_of(SECTOR) && u64::from(first) + n <= u64::from(self.sectors);
        if fits { Ok(()) } else { Err(SdmmcError::Range) }
    }
}

impl<D: Sdmmc> BlockDevice for FromSdmmc<D> {
    type Error = SdmmcError<D::Error>;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        SECTOR as u32
    }

    fn sector_count(&self) -> u32 {
        self.sectors
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.check(first, buf.len())?;
        let mut block = [Block::new()];
        for (at, to) in (first..).zip(buf.chunks_exact_mut(SECTOR)) {
            let read = self.device.read(&mut block, BlockIdx(at));
            read.map_err(SdmmcError::Device)?;
            to.copy_from_slice(&block[0].contents);
        }
        Ok(())
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        self.check(first, data.len())?;
        let mut block = [Block::new()];
        for (at, from) in (first..).zip(data.chunks_exact(SECTOR)) {
            block[0].contents.copy_from_slice(from);
            let written = self.device.write(&block, BlockIdx(at));
            written.map_err(SdmmcError::Device)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

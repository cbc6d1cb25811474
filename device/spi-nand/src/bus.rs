//! Commands of a SPI NAND, one transaction each, and the wait for their end.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Operation, SpiDevice};

use crate::part::{CacheRead, IdRead};
use crate::{Doing, Error, ID_BYTES, WhileBusy};

const RESET: u8 = 0xFF;
const GET_FEATURE: u8 = 0x0F;
const SET_FEATURE: u8 = 0x1F;
const READ_ID: u8 = 0x9F;
const ECC_STATUS: u8 = 0x7C;
const WRITE_ENABLE: u8 = 0x06;
const PAGE_READ: u8 = 0x13;
const READ_CACHE: u8 = 0x03;
const PROGRAM_LOAD: u8 = 0x02;
const PROGRAM_LOAD_MORE: u8 = 0x84;
const PROGRAM_EXECUTE: u8 = 0x10;
const BLOCK_ERASE: u8 = 0xD8;

/// Which blocks may be written.
pub(crate) const PROTECTION: u8 = 0xA0;
/// What the chip does: ECC, the OTP area, and more by maker.
pub(crate) const CONFIG: u8 = 0xB0;
/// How the last operation ended.
const STATUS: u8 = 0xC0;

/// Bit of the configuration: the chip's ECC is on.
pub(crate) const ECC_ON: u8 = 1 << 4;
/// Bit of the configuration: reads are of the OTP area, where the parameter page is.
pub(crate) const OTP: u8 = 1 << 6;

const BUSY: u8 = 1 << 0;
const WRITE_ENABLED: u8 = 1 << 1;
/// Bit of the status: the erase failed.
pub(crate) const ERASE_FAILED: u8 = 1 << 2;
/// Bit of the status: the program failed.
pub(crate) const PROGRAM_FAILED: u8 = 1 << 3;

/// The longest reset, in microseconds: that which ends an erase.
const RESET_US: u32 = 2_000;

/// The bus, what counts the time, and what else there is to do.
pub(crate) struct Bus<SPI, D, H> {
    pub(crate) spi: SPI,
    pub(crate) delay: D,
    pub(crate) hook: H,
}

impl<SPI: SpiDevice, D: DelayNs, H: WhileBusy> Bus<SPI, D, H> {
    fn send(&mut self, command: &[u8]) -> Result<(), Error<SPI::Error>> {
        self.spi.write(command).map_err(Error::Bus)
    }

    fn send_then_read(&mut self, command: &[u8], into: &mut [u8]) -> Result<(), Error<SPI::Error>> {
        let mut operations = [Operation::Write(command), Operation::Read(into)];
        self.spi.transaction(&mut operations).map_err(Error::Bus)
    }

    pub(crate) fn get_feature(&mut self, register: u8) -> Result<u8, Error<SPI::Error>> {
        let mut value = [0];
        self.send_then_read(&[GET_FEATURE, register], &mut value)?;
        Ok(value[0])
    }

    pub(crate) fn set_feature(&mut self, register: u8, value: u8) -> Result<(), Error<SPI::Error>> {
        self.send(&[SET_FEATURE, register, value])
    }

    /// Sets a feature, and looks whether the chip has taken it.
    pub(crate) fn fix_feature(&mut self, register: u8, value: u8) -> Result<(), Error<SPI::Error>> {
        self.set_feature(register, value)?;
        let found = self.get_feature(register)?;
        if found == value {
            return Ok(());
        }
        Err(Error::Register {
            register,
            wanted: value,
            found,
        })
    }

    pub(crate) fn status(&mut self) -> Result<u8, Error<SPI::Error>> {
        self.get_feature(STATUS)
    }

    /// The Macronix register of corrected bits.
    pub(crate) fn ecc_status(&mut self) -> Result<u8, Error<SPI::Error>> {
        let mut value = [0];
        self.send_then_read(&[ECC_STATUS, 0], &mut value)?;
        Ok(value[0])
    }

    pub(crate) fn read_id(&mut self, how: IdRead) -> Result<[u8; ID_BYTES], Error<SPI::Error>> {
        let mut id = [0; ID_BYTES];
        match how {
            IdRead::AfterByte => self.send_then_read(&[READ_ID, 0], &mut id)?,
            IdRead::Direct => self.send_then_read(&[READ_ID], &mut id)?,
        }
        Ok(id)
    }

    pub(crate) fn reset(&mut self) -> Result<(), Error<SPI::Error>> {
        self.send(&[RESET])?;
        // Some chips do not answer at once.
        self.delay.delay_us(1_000);
        self.wait(Doing::Reset, RESET_US).map(drop)
    }

    /// Waits until the chip has done what it does, for at most twice as long as it may take and a
    /// millisecond, and returns the status. Only delays count: on a slow bus, or with a hook that
    /// takes its time, the wait is longer. The last look comes behind the last delay.
    pub(crate) fn wait(&mut self, doing: Doing, us: u32) -> Result<u8, Error<SPI::Error>> {
        let step = (us >> 4).clamp(5, 500);
        let mut left = us.saturating_mul(2).saturating_add(1_000);
        loop {
            let status = self.status()?;
            if status & BUSY == 0 {
                return Ok(status);
            }
            if left == 0 {
                return Err(Error::TimedOut(doing));
            }
            self.hook.busy(doing);
            let now = step.min(left);
            self.delay.delay_us(now);
            left -= now;
        }
    }

    /// Has a page read into the chip's cache; gives the status.
    pub(crate) fn load_page(&mut self, row: u32, us: u32) -> Result<u8, Error<SPI::Error>> {
        self.send(&with_row(PAGE_READ, row))?;
        self.wait(Doing::Read, us)
    }

    pub(crate) fn read_cache(
        &mut self,
        how: CacheRead,
        column: u16,
        into: &mut [u8],
    ) -> Result<(), Error<SPI::Error>> {
        let [high, low] = column.to_be_bytes();
        let command = match how {
            CacheRead::DummyLast => [READ_CACHE, high, low, 0],
            CacheRead::DummyFirst => [READ_CACHE, 0, high, low],
        };
        self.send_then_read(&command, into)
    }

    /// Begins to fill the cache for a program.
    pub(crate) fn load_first(&mut self, column: u16, data: &[u8]) -> Result<(), Error<SPI::Error>> {
        self.load(PROGRAM_LOAD, column, data)
    }

    /// Puts more into the cache, and leaves the rest of it as it is.
    pub(crate) fn load_more(&mut self, column: u16, data: &[u8]) -> Result<(), Error<SPI::Error>> {
        self.load(PROGRAM_LOAD_MORE, column, data)
    }

    fn load(&mut self, command: u8, column: u16, data: &[u8]) -> Result<(), Error<SPI::Error>> {
        let [high, low] = column.to_be_bytes();
        let command = [command, high, low];
        let mut operations = [Operation::Write(&command), Operation::Write(data)];
        self.spi.transaction(&mut operations).map_err(Error::Bus)
    }

    /// Allows one program or erase.
    pub(crate) fn write_enable(&mut self) -> Result<(), Error<SPI::Error>> {
        self.send(&[WRITE_ENABLE])
    }

    /// Programs the page from the cache; gives the status.
    pub(crate) fn execute(&mut self, row: u32, us: u32) -> Result<u8, Error<SPI::Error>> {
        self.expect_write_enabled()?;
        self.send(&with_row(PROGRAM_EXECUTE, row))?;
        self.wait(Doing::Program, us)
    }

    /// Erases the block of a page; gives the status.
    pub(crate) fn erase(&mut self, row: u32, us: u32) -> Result<u8, Error<SPI::Error>> {
        self.write_enable()?;
        self.expect_write_enabled()?;
        self.send(&with_row(BLOCK_ERASE, row))?;
        self.wait(Doing::Erase, us)
    }

    /// A chip that is gone, on a bus that reads as 0, has no failure to tell of: without this look
    /// every program would seem to be done.
    fn expect_write_enabled(&mut self) -> Result<(), Error<SPI::Error>> {
        let status = self.status()?;
        if status & WRITE_ENABLED == 0 {
            return Err(Error::WriteDisabled);
        }
        Ok(())
    }
}

fn with_row(command: u8, row: u32) -> [u8; 4] {
    let [_, high, middle, low] = row.to_be_bytes();
    [command, high, middle, low]
}

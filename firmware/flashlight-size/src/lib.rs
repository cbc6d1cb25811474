//! What the measured programs share: a chip behind registers, RAM for a volume, and values that
//! the compiler cannot know, so that it leaves nothing out.

#![no_std]

use core::hint::black_box;
use core::panic::PanicInfo;
use core::ptr::{read_volatile, write_volatile};

use flashkit_flashlight::ram_needed;
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

const GEOMETRY: Geometry = match Geometry::new(2048, 40, 64, 2048) {
    Ok(geometry) => geometry,
    Err(_) => panic!("not a geometry"),
};
const RAM: usize = ram_needed(&GEOMETRY);
const PAGE: usize = 2048;

/// Where the chip's registers would be.
const REGISTERS: *mut u32 = 0x4000_0000 as *mut u32;

/// The least that a driver can be: its code is part of what is measured.
pub struct Chip;

impl Chip {
    fn command(&mut self, command: u32, at: u32) -> u32 {
        // SAFETY: registers of a device; nothing here runs.
        unsafe {
            write_volatile(REGISTERS, at);
            write_volatile(REGISTERS, command);
            read_volatile(REGISTERS)
        }
    }

    fn write(&mut self, command: u32, at: u32) -> OpStatus {
        if self.command(command, at) == 0 {
            OpStatus::Done
        } else {
            OpStatus::Failed
        }
    }
}

/// The bus does not answer.
#[derive(Debug)]
pub struct BusError;

impl Nand for Chip {
    type Error = BusError;

    fn geometry(&self) -> Geometry {
        GEOMETRY
    }

    fn correctable_bits(&self) -> u32 {
        8
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, BusError> {
        let status = self.command(0, page.0);
        let from = black_box(offset) as u8;
        data.fill(from);
        spare.fill(from);
        match status {
            0 => Ok(ReadStatus::Clean),
            bits @ 1..8 => Ok(ReadStatus::Corrected(bits)),
            8 => Ok(ReadStatus::Uncorrectable),
            _ => Err(BusError),
        }
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, BusError> {
        black_box((data, spare));
        Ok(self.write(1, page.0))
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, BusError> {
        Ok(self.write(2, block.0))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, BusError> {
        Ok(self.command(3, block.0) != 0)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), BusError> {
        self.command(4, block.0);
        Ok(())
    }
}

/// RAM for a volume, and a page more: the same each time.
pub fn ram() -> (&'static mut [u8], &'static mut [u8]) {
    static mut VOLUME: [u8; RAM] = [0; RAM];
    static mut RECORD: [u8; PAGE] = [0; PAGE];
    // SAFETY: nothing here runs.
    unsafe { (&mut *&raw mut VOLUME, &mut *&raw mut RECORD) }
}

/// Uses a result, so that what makes it stays in the program; gives what is in it.
pub fn keep<T, E>(result: Result<T, E>) -> T {
    match black_box(result) {
        Ok(value) => value,
        Err(_) => stop(),
    }
}

/// The end of a program.
pub fn stop() -> ! {
    loop {
        black_box(());
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    stop()
}

//! The driver of SPI NAND with the table of one maker, without a file system.

#![no_std]
#![no_main]

use core::convert::Infallible;
use core::hint::black_box;
use core::ptr::{read_volatile, write_volatile};

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_spi_nand::{Idle, SpiNand, parts};
use flashlight_size::{keep, stop};

/// Where the bus would have its data register, and the chip's select line.
const DATA: *mut u32 = 0x4000_0000 as *mut u32;
const SELECT: *mut u32 = 0x4000_0004 as *mut u32;

/// The least that a bus can be: its code is part of what is measured.
struct Bus;

impl ErrorType for Bus {
    type Error = Infallible;
}

fn exchange(byte: u8) -> u8 {
    // SAFETY: registers of a device; nothing here runs.
    unsafe {
        write_volatile(DATA, u32::from(byte));
        read_volatile(DATA) as u8
    }
}

fn select(on: bool) {
    // SAFETY: registers of a device; nothing here runs.
    unsafe { write_volatile(SELECT, u32::from(on)) }
}

impl SpiDevice for Bus {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        select(true);
        for operation in operations {
            match operation {
                Operation::Write(bytes) => {
                    for byte in *bytes {
                        exchange(*byte);
                    }
                }
                Operation::Read(bytes) => {
                    for byte in bytes.iter_mut() {
                        *byte = exchange(0);
                    }
                }
                // The driver has no others.
                _ => {}
            }
        }
        select(false);
        Ok(())
    }
}

struct Delay;

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        black_box(ns);
    }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let (mut data, mut spare) = (black_box([0; 64]), black_box([0; 24]));
    let mut chip = keep(SpiNand::open(Bus, Delay, Idle, &[&parts::WINBOND]));
    let (page, block) = (black_box(PageAddr(1)), black_box(BlockAddr(1)));
    black_box(chip.geometry());
    black_box(chip.correctable_bits());
    keep(chip.is_bad(block));
    keep(chip.erase(block));
    keep(chip.program(page, &data, &spare));
    let to = black_box(PageAddr(2));
    black_box(chip.copies(page, to));
    keep(chip.copy(page, to, &spare, &mut data));
    keep(chip.read(page, black_box(0), &mut data, &mut spare));
    keep(chip.mark_bad(block));
    black_box((data, spare));
    stop()
}

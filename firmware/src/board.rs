//! The LM3S6965 evaluation board: serial line, SPI with one device on it, a clock of one second.

use core::arch::asm;
use core::ptr::{read_volatile, write_volatile};

const RCGC1: u32 = 0x400f_e104;
const RCGC2: u32 = 0x400f_e108;
const UART0: u32 = 0x4000_c000;
const SSI0: u32 = 0x4000_8000;
const GPIO_A: u32 = 0x4000_4000;
const GPIO_D: u32 = 0x4000_7000;
const SYSTICK: u32 = 0xe000_e010;
const ICSR: u32 = 0xe000_ed04;

/// Ticks of the clock in a second: 12.5 MHz after reset.
const SECOND: u32 = 12_500_000;
/// The clock has 24 bits.
const LONGEST: u32 = 0xff_ffff;
/// Instructions of a tick, as the emulator counts.
const PER_TICK: u32 = 80;

fn write(register: u32, value: u32) {
    // SAFETY: the callers name registers of this chip, and nobody else has them.
    unsafe { write_volatile(register as *mut u32, value) }
}

fn read(register: u32) -> u32 {
    // SAFETY: as above.
    unsafe { read_volatile(register as *const u32) }
}

/// Everything on; the device on the SPI bus is not selected.
pub fn start() {
    write(RCGC1, 1 << 0 | 1 << 4);
    write(RCGC2, 1 << 0 | 1 << 3);
    // UART0 on A0 and A1, SSI0 on A2, A4 and A5: their alternate function.
    write(GPIO_A + 0x420, 0x37);
    write(GPIO_A + 0x51c, 0x37);
    // The select line is D0.
    write(GPIO_D + 0x400, 1);
    write(GPIO_D + 0x51c, 1);
    select(false);
    write(UART0 + 0x24, 6);
    write(UART0 + 0x28, 50);
    write(UART0 + 0x2c, 0x70);
    write(UART0 + 0x30, 0x301);
    // 8 bits, SPI mode 0, 12.5 MHz / 2.
    write(SSI0, 0x7);
    write(SSI0 + 0x10, 2);
    write(SSI0 + 0x4, 2);
    write(SYSTICK + 4, SECOND - 1);
    write(SYSTICK + 8, 0);
    write(SYSTICK, 7);
    // The clock wakes the core and is not served.
    // SAFETY: masks interrupts.
    unsafe { asm!("cpsid i") };
}

/// Selects the device on the SPI bus, or no one.
pub fn select(on: bool) {
    write(GPIO_D + (1 << 2), u32::from(!on));
}

/// Sends a byte over SPI and gives the one that came back.
pub fn exchange(byte: u8) -> u8 {
    write(SSI0 + 8, byte.into());
    while read(SSI0 + 0xc) & 4 == 0 {}
    read(SSI0 + 8) as u8
}

/// Waits for the next second.
pub fn next_second() {
    while read(SYSTICK) & 1 << 16 == 0 {
        // SAFETY: sleeps until the clock or anything else wants attention.
        unsafe { asm!("wfi") };
    }
    write(ICSR, 1 << 25);
}

/// Has the clock count down from its largest number instead, for [`instructions`]. Needs no
/// [`start`] of the bus, and replaces its seconds.
pub fn count_instructions() {
    write(SYSTICK, 0);
    write(SYSTICK + 4, LONGEST);
    write(SYSTICK + 8, 0);
    write(SYSTICK, 5);
}

/// A reading of the clock, for [`instructions`].
pub fn clock() -> u32 {
    read(SYSTICK + 8)
}

/// Instructions that were executed since a reading of the clock, if it has not gone round since:
/// that takes 1.3 thousand millions. Exact to 80.
///
/// The emulator has each take a nanosecond (`-icount shift=0`), and a tick of the clock is 80. They
/// are no cycles: a Cortex-M3 takes more than one for many of them, and waits for a slow flash.
pub fn instructions(since: u32) -> u32 {
    (since.wrapping_sub(clock()) & LONGEST) * PER_TICK
}

/// What the emulator was told to hand over, as words with spaces between.
pub fn command_line(words: &mut [u8]) -> &[u8] {
    let block = [words.as_mut_ptr() as u32, words.len() as u32];
    let failed = semihost(0x15, block.as_ptr() as u32) != 0;
    // SAFETY: the emulator has written the length.
    let len = unsafe { read_volatile(&raw const block[1]) } as usize;
    if failed {
        &[]
    } else {
        &words[..len.min(words.len())]
    }
}

/// A call of the emulator.
pub fn semihost(call: u32, argument: u32) -> u32 {
    let result: u32;
    // SAFETY: the callers hand over what the call takes. It may write to memory.
    unsafe { asm!("bkpt 0xab", inout("r0") call => result, in("r1") argument) };
    result
}

/// Parts of this second that are over, in millionths.
pub fn spent() -> u32 {
    (SECOND - read(SYSTICK + 8)) * 2 / 25
}

/// Prints words and numbers in a line.
pub fn print(text: &str, numbers: &[u32]) {
    text.bytes().for_each(print_byte);
    for &number in numbers {
        print_byte(b' ');
        print_number(number);
    }
    print_byte(b'\n');
}

fn print_byte(byte: u8) {
    while read(UART0 + 0x18) & 1 << 5 != 0 {}
    write(UART0, byte.into());
}

fn print_number(mut number: u32) {
    let mut digits = [0; 10];
    let mut n = 0;
    for digit in &mut digits {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        n += 1;
        if number == 0 {
            break;
        }
    }
    digits.iter().take(n).rev().copied().for_each(print_byte);
}

/// Ends the emulation: semihosting's exit.
pub fn exit(good: bool) -> ! {
    let reason = if good { 0x2_0026 } else { 0x2_0023 };
    loop {
        semihost(0x18, reason);
    }
}

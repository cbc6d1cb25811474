//! How much stack has been used: it is painted before, and looked at after.

use core::arch::asm;
use core::ptr::{read_volatile, write_volatile};

const PAINT: u32 = 0x5afe_57ac;
/// Bytes that are painted, from the stack pointer of `main` down.
const PAINTED: u32 = 4096;

static mut TOP: u32 = 0;

/// Where the stack ends now.
fn pointer() -> u32 {
    let at: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) at) };
    at
}

/// Paints what lies below the caller's frame.
#[inline(always)]
pub fn paint() {
    let top = pointer() & !3;
    let mut at = top - PAINTED;
    while at < top {
        // SAFETY: RAM below the stack, which nobody uses.
        unsafe { write_volatile(at as *mut u32, PAINT) };
        at += 4;
    }
    // SAFETY: only here, and before it is read.
    unsafe { write_volatile(&raw mut TOP, top) };
}

/// Bytes below the caller of [`paint`] that have been used since.
pub fn used() -> u32 {
    // SAFETY: was written by `paint`.
    let top = unsafe { read_volatile(&raw const TOP) };
    let mut at = top - PAINTED;
    // SAFETY: RAM; what is there is a number.
    while at < top && unsafe { read_volatile(at as *const u32) } == PAINT {
        at += 4;
    }
    top - at
}

//! How much stack has been used: it is painted before, and looked at after.

use core::arch::asm;
use core::ptr::{read_volatile, write_volatile};

const PAINT: u32 = 0x5afe_57ac;

static mut TOP: u32 = 0;
static mut PAINTED: u32 = 0;

/// Where the stack ends now.
fn pointer() -> u32 {
    let at: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) at) };
    at
}

/// Paints so many bytes below the caller's frame: more than will be used, and no more than the RAM
/// has that nothing else is in.
#[inline(always)]
pub fn paint(bytes: u32) {
    let top = pointer() & !3;
    let mut at = top - (bytes & !3);
    while at < top {
        // SAFETY: RAM below the stack, which nobody uses.
        unsafe { write_volatile(at as *mut u32, PAINT) };
        at += 4;
    }
    // SAFETY: only here, and before it is read.
    unsafe {
        write_volatile(&raw mut TOP, top);
        write_volatile(&raw mut PAINTED, bytes & !3);
    }
}

/// Bytes below the caller of [`paint`] that have been used since.
pub fn used() -> u32 {
    let (top, lowest) = lowest();
    top - lowest
}

/// Bytes of the whole stack that have been used since [`paint`], the frame of `main` among them.
pub fn deepest() -> u32 {
    unsafe extern "C" {
        static _stack_start: u32;
    }
    let (_, lowest) = lowest();
    (&raw const _stack_start) as u32 - lowest
}

/// Where the paint begins above, and where it ends.
fn lowest() -> (u32, u32) {
    // SAFETY: was written by `paint`.
    let (top, painted) = unsafe {
        (
            read_volatile(&raw const TOP),
            read_volatile(&raw const PAINTED),
        )
    };
    let mut at = top - painted;
    // SAFETY: RAM; what is there is a number.
    while at < top && unsafe { read_volatile(at as *const u32) } == PAINT {
        at += 4;
    }
    (top, at)
}

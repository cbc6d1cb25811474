//! jftl for C: the interface that `include/jftl.h` declares, over pointers from C.
//!
//! The header is made by `cbindgen`; `.ci/run` checks that it is up to date. The guide is
//! `docs/jftl-c.md`. In short:
//!
//! ```c
//! static jftl disk;
//! static uint8_t ram[8467];
//! int e = jftl_mount(&disk, &chip, ram, sizeof ram, NULL);
//! if (e == JFTL_E_NOTFORMATTED)
//!     e = jftl_format(&disk, &chip, ram, sizeof ram, random_number);
//! jftl_write(&disk, 7, sector, 1);
//! jftl_sync(&disk); /* durable from here on */
//! ```
//!
//! # Safety
//!
//! Every function may be called with null pointers, before a mount, and from inside a callback: it
//! answers with a code. What it cannot know is whether memory that C points to is there.

#![cfg_attr(feature = "bare", no_std)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types)]

mod chip;
mod codes;
mod disk;

pub use chip::*;
pub use codes::*;
pub use disk::*;

#[cfg(feature = "bare")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    #[cfg(not(feature = "panic-handler"))]
    extern "C" {
        fn jftl_panic() -> !;
    }
    #[cfg(feature = "panic-handler")]
    #[no_mangle]
    extern "C" fn jftl_panic() -> ! {
        loop {}
    }
    #[cfg_attr(feature = "panic-handler", allow(unused_unsafe))]
    // SAFETY: the firmware's, if it is not the one above.
    unsafe {
        jftl_panic()
    }
}

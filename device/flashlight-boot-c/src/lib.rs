//! The boot reader for C: the interface that `include/flashlight_boot.h` declares, over pointers
//! from C.
//!
//! The header is made by `cbindgen`; `.ci/run` checks that it is up to date, and that the library
//! exports nothing but `flashlight_boot_*`. The guide is `docs/boot.md`. In short:
//!
//! ```c
//! static flashlight_boot boot;
//! static uint8_t ram[FLASHLIGHT_BOOT_RAM(2048)];
//! flashlight_boot_file kernel;
//! int e = flashlight_boot_open(&boot, &chip, ram, sizeof ram);
//! if (e == 0)
//!     e = flashlight_boot_find(&boot, "boot/kernel", &kernel);
//! if (e == 0)
//!     e = flashlight_boot_read(&boot, &kernel, 0, LOAD_ADDRESS, kernel.size);
//! ```
//!
//! # Safety
//!
//! Every function may be called with null pointers, before an open, and from inside a callback: it
//! answers with a code. What it cannot know is whether memory that C points to is there.

#![cfg_attr(feature = "bare", no_std)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types)]

mod chip;
mod codes;
mod volume;

pub use chip::*;
pub use codes::*;
pub use volume::*;

#[cfg(feature = "bare")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    #[cfg(not(feature = "panic-handler"))]
    extern "C" {
        fn flashlight_boot_panic() -> !;
    }
    #[cfg(feature = "panic-handler")]
    #[no_mangle]
    extern "C" fn flashlight_boot_panic() -> ! {
        loop {}
    }
    #[cfg_attr(feature = "panic-handler", allow(unused_unsafe))]
    // SAFETY: the firmware's, if it is not the one above.
    unsafe {
        flashlight_boot_panic()
    }
}

//! FlashLight for C: the interface that `include/flashlight.h` declares, over pointers from C.
//!
//! The crates with a C interface, and `device/nand-c`, are those of the device floor with `unsafe`
//! code: what C hands over cannot be checked by the compiler. What lies below has none.
//! The header is made by `cbindgen`; `.ci/run` checks that it is up to date, and that the library
//! exports nothing but `flashlight_*`.
//!
//! | module | what it is |
//! | --- | --- |
//! | `codes` | `FLASHLIGHT_E_*`: what went wrong; negative |
//! | `chip` | `flashlight_chip`: functions of yours that drive the chip (`device/nand-c`) |
//! | `state` | `flashlight`, `flashlight_file`, `flashlight_dir`: the caller's memory, and checks |
//! | `volume` | format, mount, unmount, sync, and what keeps a volume healthy |
//! | `file` | open, read, write, seek, truncate, sync, close |
//! | `names` | directories, rename, remove, stat |
//!
//! A whole program is `examples/flashlight/boot_log.c`; `.ci/run` compiles and runs it. The guide
//! is `docs/flashlight-c.md`. In short:
//!
//! ```c
//! static flashlight fs;
//! static flashlight_file log;
//! static uint8_t ram[FLASHLIGHT_RAM(2048, 64, 1024)];
//! int e = flashlight_mount(&fs, &chip, ram, sizeof ram, NULL);
//! if (e == FLASHLIGHT_E_NOTFORMATTED)
//!     e = flashlight_format(&fs, &chip, ram, sizeof ram, random_number);
//! flashlight_open(&fs, &log, "boot.log", FLASHLIGHT_O_APPEND | FLASHLIGHT_O_CREAT);
//! flashlight_write(&fs, &log, "up\n", 3);
//! flashlight_fsync(&fs, &log); /* durable from here on */
//! ```
//!
//! # Safety
//!
//! Every function may be called with null pointers, with handles that are closed or of another
//! volume, before a mount, and from inside a callback: it answers with a code. What it cannot know
//! is whether memory that C points to is there: each function says what must be.

#![cfg_attr(feature = "bare", no_std)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types)]

mod chip;
mod codes;
mod file;
mod names;
mod state;
mod volume;

pub use chip::*;
pub use codes::*;
pub use file::*;
pub use names::*;
pub use state::{
    flashlight, flashlight_dir, flashlight_file, flashlight_options, FLASHLIGHT_DIR_WORDS,
    FLASHLIGHT_FILE_WORDS, FLASHLIGHT_NUMBERS, FLASHLIGHT_POINTERS,
};
pub use volume::*;

#[cfg(feature = "bare")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    #[cfg(not(feature = "panic-handler"))]
    extern "C" {
        fn flashlight_panic() -> !;
    }
    #[cfg(feature = "panic-handler")]
    #[no_mangle]
    extern "C" fn flashlight_panic() -> ! {
        loop {}
    }
    #[cfg_attr(feature = "panic-handler", allow(unused_unsafe))]
    // SAFETY: the firmware's, if it is not the one above.
    unsafe {
        flashlight_panic()
    }
}

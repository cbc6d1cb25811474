//! The boot reader: opens a volume, finds a file by its path and reads it.

#![no_std]
#![no_main]

use core::hint::black_box;

use flashkit_flashlight::boot::Boot;
use flashlight_size::{Chip, ram, stop};

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let (memory, _) = ram();
    let path: &[u8] = black_box(b"boot/kernel");
    if let Ok(mut boot) = Boot::open(Chip, memory)
        && let Ok(file) = boot.find(path)
    {
        let mut bytes = black_box([0; 64]);
        let read = boot.read(&file, black_box(0), &mut bytes);
        black_box((read.ok(), file.size(), bytes));
    }
    stop()
}

//! The calls that nearly every program needs.

#![no_std]
#![no_main]

use core::hint::black_box;

use flashkit_flashlight::{Config, FlashLight, New, Node, ROOT_DIR, Time};
use flashlight_size::{Chip, keep, ram, stop};

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let now: Time = black_box(Time::default());
    let name: &[u8] = black_box(b"name");
    let mut bytes = black_box([0; 100]);
    let mut fs = keep(FlashLight::mount(Chip, ram().0, Config::default()));
    let node = keep(fs.create(ROOT_DIR, name, &black_box(New::default())));
    let Node::File(file) = node else { stop() };
    keep(fs.write(file, black_box(0), &bytes, now));
    keep(fs.fsync(node));
    keep(fs.read(file, black_box(0), &mut bytes));
    keep(fs.unlink(ROOT_DIR, name, &|ino| black_box(ino) == 0, now));
    keep(fs.unmount());
    stop()
}

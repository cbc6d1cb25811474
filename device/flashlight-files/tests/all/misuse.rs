//! More open files than places, and places that are used again.

use crate::{formatted, mount, put, reading};
use flashkit_flashlight::Config;
use flashkit_flashlight_files::{Error, Files};

#[test]
fn a_place_is_free_again_after_a_close() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    put(&fs, "f", b"f");
    let mut open: Vec<_> = (0..5).map(|_| fs.open("f", reading()).unwrap()).collect();
    assert_eq!(fs.create("new").err(), Some(Error::TooManyOpen));
    assert!(fs.stat("new").is_err(), "nothing was made");
    open.pop().unwrap().close().unwrap();
    let last = fs.create("new").unwrap();
    drop(open);
    drop(last);
    for _ in 0..9 {
        fs.open("f", reading()).unwrap();
    }
}

#[test]
fn without_places_nothing_can_be_open() {
    let (chip, mut room) = formatted();
    let fs = Files::mount(chip, &mut room.ram, &mut [], Config::default()).unwrap();
    assert_eq!(fs.create("f").err(), Some(Error::TooManyOpen));
    fs.mkdir("d").unwrap();
}

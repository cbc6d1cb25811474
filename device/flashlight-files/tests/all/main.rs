//! Files by path, over simulated chips.

mod cost;
mod dirs;
mod misuse;
mod open_files;

use flashkit_flashlight::{Config, FlashLight, New, ram_needed};
use flashkit_flashlight_files::{Error, File, Files, OpenFile, OpenOptions};
use flashkit_nand::Nand;
use flashkit_sim::{SimError, SimNand, preset};

pub(crate) type Volume<'r> = Files<'r, SimNand>;

/// RAM for a volume, and places for five open files.
pub(crate) struct Room {
    ram: Vec<u8>,
    open: [Option<OpenFile>; 5],
}

pub(crate) fn chip() -> SimNand {
    SimNand::new(preset("w25n01gv").unwrap())
}

/// A formatted chip and room for its volume.
pub(crate) fn formatted() -> (SimNand, Room) {
    let chip = chip();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let chip = FlashLight::format(chip, &mut ram, 7, &New::default()).unwrap();
    let open = [None; 5];
    (chip, Room { ram, open })
}

pub(crate) fn mount(chip: SimNand, room: &mut Room) -> Volume<'_> {
    Files::mount(chip, &mut room.ram, &mut room.open, Config::default()).unwrap()
}

pub(crate) fn volume_error(error: Error<SimError>) -> flashkit_flashlight::Error<SimError> {
    match error {
        Error::Volume(error) => error,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn reading() -> OpenOptions {
    OpenOptions::new().read(true)
}

/// What is in a file from its position on.
pub(crate) fn rest(file: &mut File<'_, '_, SimNand>) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), [0; 300]);
    loop {
        match file.read(&mut buf).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

pub(crate) fn content(fs: &Volume<'_>, path: &str) -> Vec<u8> {
    rest(&mut fs.open(path, reading()).unwrap())
}

pub(crate) fn put(fs: &Volume<'_>, path: &str, data: &[u8]) {
    fs.create(path).unwrap().write(data).unwrap();
}

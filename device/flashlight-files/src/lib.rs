//! Files and directories of a [FlashLight](flashkit_flashlight) volume by their paths.
//!
//! FlashLight's own calls name inodes, as a kernel does. This crate has what a program on a board
//! wants instead: open a path, read and write at a position, list a directory. There is no heap:
//! the volume lives in the caller's RAM, and so do the places of open files.
//!
//! # In ten lines
//!
//! ```
//! use embedded_io::{Read, Write};
//! use flashkit_flashlight::{Config, FlashLight, New, ram_needed};
//! use flashkit_flashlight_files::{Error, Files, OpenOptions};
//! # use flashkit_nand::Nand;
//! # use flashkit_sim::{SimError, SimNand, preset};
//!
//! # fn main() -> Result<(), Error<SimError>> {
//! # let chip = SimNand::new(preset("w25n01gv").unwrap());
//! let mut ram = vec![0; ram_needed(&chip.geometry())];
//! let mut places = [None; 4]; // files that can be open at a time
//! let chip = FlashLight::format(chip, &mut ram, 1, &New::default())?; // once in a chip's life
//! let fs = Files::mount(chip, &mut ram, &mut places, Config::default())?;
//! fs.mkdir("logs")?;
//! let mut log = fs.open("logs/boot", OpenOptions::new().append(true).create(true))?;
//! writeln!(log, "up").unwrap();
//! log.sync()?; // durable from here on: one page program
//! log.close()?;
//! let mut line = [0; 3];
//! fs.open("logs/boot", OpenOptions::new().read(true))?.read_exact(&mut line).unwrap();
//! let chip = fs.unmount().map_err(|(_, error)| error)?;
//! # assert_eq!(&line, b"up\n");
//! # drop(chip);
//! # Ok(())
//! # }
//! ```
//!
//! # Paths
//!
//! A path is bytes. Slashes separate its names, and it starts at the root, with or without a
//! leading slash. Empty names and `.` stand for nothing, `..` for the directory above. A name has
//! 255 bytes at most. A slash at the end asks for a directory. Symbolic links are not followed:
//! [`Files::stat`] and [`Files::remove`] take them, [`Files::open`] does not.
//!
//! # What is durable when
//!
//! | after | durable |
//! | --- | --- |
//! | [`File::sync`], or [`embedded_io::Write::flush`] | the file's data, size and name |
//! | [`Files::rename`], [`Files::mkdir`], removing a directory | the change itself |
//! | [`Files::sync`], [`Files::unmount`] | everything |
//! | closing or dropping a [`File`] | no more than before |
//!
//! Writes are not buffered here: a write of less than a page goes to the page in RAM or to flash
//! as [`FlashLight::write`](flashkit_flashlight::FlashLight::write) says. So a sync costs as much
//! as there: one program for what was appended.
//!
//! # Open files
//!
//! Several files can be open at a time, each through a shared reference to [`Files`]. A file that
//! is renamed stays open. One that is removed or replaced stays usable until it is closed; its
//! pages are free from then on, or from the next mount.
//!
//! | module | what it is |
//! | --- | --- |
//! | `path` | the names of a path, and the directory that they lead to |
//! | `open` | the state of an open file, which any holder can keep |
//! | `calls` | what a path call does, for any holder of open files |
//! | `files` | [`Files`], [`File`] and [`Dir`]: holders for Rust |
//! | `io` | the traits of `embedded-io` |
//! | `error` | [`Error`] |
//!
//! `open` and `calls` are public for those who keep open files in another way, as the C interface
//! does (`device/flashlight-c`).

#![no_std]
#![forbid(unsafe_code)]

mod calls;
mod error;
mod files;
mod io;
mod open;
mod path;

pub use calls::{Calls, Entry, Kind, Listing, OpenFiles};
pub use error::Error;
pub use files::{Dir, File, Files};
pub use open::{OpenFile, OpenOptions};

//! A driver for SPI NAND chips: [`flashkit_nand::Nand`] over `embedded-hal` 1.0.
//!
//! It reads the chip's id, looks it up in a [table](parts) of parts, and checks the row against the
//! chip's own parameter page. A row says what data sheets say and differ in: where the spare bytes
//! are that ECC and the bad-block mark leave, what the ECC bits of the status mean, between which
//! pages the chip copies by itself, how long it may work.
//!
//! There is no heap, no `unsafe`, and no panic. A value of [`SpiNand`] takes 64 bytes at most
//! besides the bus, the delay and the hook.
//!
//! # What it asks of the board
//! * The chip's own ECC is on, and is the only one.
//! * One lane: the commands are the same with every chip then. On chips with a hold and a
//!   write-protect line, both must be high.
//! * A [`WhileBusy`] hook lets others run while the chip works, which takes milliseconds for an
//!   erase.
//!
//! # When it is durable
//! A program, an erase and a copy are durable when the call returns. Each has first looked whether
//! the chip allows it to write, so that a chip that is gone is an error.
//!
//! # Example
//!
//! ```
//! use flashkit_nand::{BlockAddr, Copied, Nand, OpStatus, PageAddr};
//! use flashkit_sim::spi::SpiNandChip;
//! use flashkit_spi_nand::{Idle, SpiNand, parts};
//!
//! // On a board: the bus with the chip's select line, and a delay.
//! let spi = SpiNandChip::new("W25N01GV");
//! let delay = spi.delay();
//!
//! let mut chip = SpiNand::open(spi, delay, Idle, &[&parts::WINBOND]).unwrap();
//! assert_eq!(chip.part().name, "W25N01GV");
//! assert_eq!(chip.geometry().spare_size(), 24);
//! assert_eq!(chip.erase(BlockAddr(7)), Ok(OpStatus::Done));
//! let page = chip.geometry().page(BlockAddr(7), 0);
//! assert_eq!(chip.program(page, b"data", b"tag 1"), Ok(OpStatus::Done));
//!
//! // A move inside the chip: the tag goes over the bus, the data does not.
//! let to = PageAddr(page.0 + 1);
//! assert!(chip.copies(page, to));
//! let copied = chip.copy(page, to, b"tag 2", &mut [0; 2048]);
//! assert!(matches!(copied, Ok(Copied::Done(_))));
//! let (mut data, mut tag) = ([0; 4], [0; 5]);
//! assert!(chip.read(to, 0, &mut data, &mut tag).unwrap().is_readable());
//! assert_eq!((&data, &tag), (b"data", b"tag 2"));
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | `driver` | [`SpiNand`]: opening a chip, the contract, copies |
//! | `bus` | the commands, and the wait for their end |
//! | `part` | [`Part`]: what is known of a chip |
//! | [`parts`] | the table |
//! | `ecc` | [`Ecc`]: what the bits of the status mean |
//! | `onfi` | [`Onfi`]: the parameter page |
//! | `error` | [`Error`] |
//!
//! `docs/spi-nand.md` has the table on one page, and how to bring a chip up.

#![no_std]
#![forbid(unsafe_code)]

mod bus;
mod driver;
mod ecc;
mod error;
mod onfi;
mod part;
pub mod parts;

pub use driver::SpiNand;
pub use ecc::Ecc;
pub use error::{Doing, Error, ID_BYTES};
pub use onfi::Onfi;
pub use part::{CacheRead, Config, CopyRule, IdRead, Part, Run, Times};

/// What is done while the chip is busy: let another task run, feed a watchdog.
///
/// A closure that takes a [`Doing`] is one.
pub trait WhileBusy {
    /// The chip was asked and is not done yet. The driver delays for a moment next, and asks again.
    /// The time that this takes does not count as the chip's.
    fn busy(&mut self, doing: Doing) {
        let _ = doing;
    }
}

/// Nothing is done while the chip is busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl WhileBusy for Idle {}

impl<F: FnMut(Doing)> WhileBusy for F {
    fn busy(&mut self, doing: Doing) {
        self(doing);
    }
}

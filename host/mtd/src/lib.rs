//! Real NAND chips on Linux: `/dev/mtdN` as a [`Nand`](flashkit_nand::Nand).
//!
//! The kernel's MTD driver has the ECC and the table of bad blocks; everything above is the
//! volume's. Spare bytes are those that the driver leaves free (`oobavail`), read and written in
//! the places that it assigns.
//!
//! | module | what it does |
//! | --- | --- |
//! | `chip` | the device as a chip |
//! | `ioctl` | the kernel's requests (`mtd/mtd-abi.h`): the only part with `unsafe` |
//! | `sysfs` | what `/sys/class/mtd` says of a device |
//! | `overlay` | a chip whose changes stay in RAM, to look at one without changing it |
//!
//! ```no_run
//! use std::path::Path;
//!
//! use flashkit_mtd::{MtdNand, Overlay};
//! use flashkit_nand::Nand;
//!
//! // To be read only; what is written over it stays in RAM.
//! let chip = Overlay::new(MtdNand::open(Path::new("/dev/mtd0"), false)?);
//! println!("{} blocks", chip.geometry().blocks());
//! # Ok::<(), flashkit_mtd::MtdError>(())
//! ```

#![deny(unsafe_code)]

mod chip;
mod error;
mod ioctl;
mod overlay;
mod sysfs;

pub use chip::{MtdNand, is_device};
pub use error::MtdError;
pub use overlay::Overlay;

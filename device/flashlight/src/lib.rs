//! FlashLight: a flash file system for raw NAND with a small, fixed amount of RAM.
//!
//! After J. Kim, H. Shim, S.-Y. Park, S. Maeng, J.-S. Kim: *FlashLight: A Lightweight Flash File
//! System for Embedded Systems*, ACM Transactions on Embedded Computing Systems 11S(1), 2012.
//!
//! A volume is mounted over a chip ([`flashkit_nand::Nand`]) and one byte slice from the caller.
//! [`ram_needed`] tells its size. There is no heap and no clock. Operations name inodes by [`Node`]
//! values; [`FlashLight::resolve`] follows a path to one.
//!
//! # Layers
//! A folder each, the lowest first; a layer knows those below it and none above. The types carry
//! it, so that a call upwards does not compile:
//! `FlashLight { volume: Volume { durable: Durable { index: Index { store: Store } } } }`.
//!
//! | layer | what it is for | its type |
//! | --- | --- | --- |
//! | `format` | bytes of records; whether a page is well-formed; knows no chip | views |
//! | [`boot`] | files by path for a boot loader: only reads, without a mount | [`boot::Boot`] |
//! | `space` | blocks: taken, valid, worn; the allocation log | `Store` |
//! | `index` | names and extents: directories, files, their maps, the pages in RAM | `Index` |
//! | `checkpoint` | the state that a mount starts from, and what leads to it | `Durable` |
//! | `cleaning` | free blocks: victims, moves, wear levelling, refresh | `Volume` |
//! | `recovery` | mount, and roll-forward after a power cut | `Volume` |
//! | `api` | what a program calls | [`FlashLight`] |
//!
//! `docs/design.md` says why, `docs/format.md` has the bytes.
//!
//! # What is durable when
//! * Everything, after a [`FlashLight::sync`], a [`FlashLight::gc`] that cleaned, or an
//!   [`FlashLight::unmount`].
//! * A file's data, size and names, after its [`FlashLight::fsync`].
//! * A rename, an exchange, a link and a new directory, when the call returns.
//!
//! After a power cut, [`FlashLight::mount`] rolls forward.
//!
//! # Example
//!
//! ```
//! use flashkit_flashlight::{Config, Error, FlashLight, New, Node, ROOT_DIR, Time, ram_needed};
//! use flashkit_nand::Nand;
//! use flashkit_sim::{SimError, SimNand, preset};
//!
//! # fn main() -> Result<(), Error<SimError>> {
//! let chip = SimNand::new(preset("slc-256m").unwrap());
//! let mut ram = vec![0; ram_needed(&chip.geometry())];
//! assert_eq!(ram.len(), 16_330);
//! let now = Time { secs: 1_700_000_000, nanos: 0 };
//! let new = New { mode: 0o644, now, ..New::default() };
//!
//! let chip = FlashLight::format(chip, &mut ram, 1, &New { mode: 0o755, ..new })?;
//! let mut fs = FlashLight::mount(chip, &mut ram, Config::default())?;
//! let node = fs.create(ROOT_DIR, b"boot.log", &new)?;
//! let Node::File(file) = node else { return Err(Error::Invalid) };
//! fs.write(file, 0, b"up\n", now)?;
//! fs.fsync(node)?; // durable from here on: one page program
//! let chip = fs.unmount().map_err(|(_, error)| error)?;
//!
//! let mut fs = FlashLight::mount(chip, &mut ram, Config::default())?;
//! let mut bytes = [0; 3];
//! assert_eq!(fs.read(file, 0, &mut bytes)?, 3);
//! assert_eq!(&bytes, b"up\n");
//! assert_eq!(fs.lookup(ROOT_DIR, b"boot.log")?.node, node);
//! # Ok(())
//! # }
//! ```

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

mod api;
pub mod boot;
mod checkpoint;
mod cleaning;
mod config;
mod error;
mod format;
mod index;
mod recovery;
mod space;

pub use api::adopt::LOST_FOUND;
pub use api::attributes::{Attr, SetAttr, StatFs, TARGET_MAX, Unlinked};
pub use api::scrub::{Patrol, Scrub};
pub use api::walk::{Area, Page, RamUse, Visitor};
pub use api::xattr::SetXattr;
pub use api::{inspect, transfer};
pub use config::{Cleaner, Config};
pub use error::{Damaged, Error};
pub use format::attributes::XATTR_NAME_MAX;
pub use format::blockstate::BlockState;
pub use format::header::{FORMAT_VERSION, Header, Kind};
pub use format::inode::{NAME_MAX, Time};
pub use format::node::{FIRST_FILE, FileRef, Node, ROOT_DIR};
pub use format::special::Special;
pub use index::inodes::New;
pub use index::readdir::{Entry, PASSED_DAMAGE};
pub use recovery::memory::{ram_for_table, ram_needed, ram_needed_for, ram_to_level, ram_useful};
pub use space::latch::Stopped;
pub use space::written::Written;

use cleaning::Volume;
use error::Fault;
use flashkit_nand::Nand;
use index::Index;
use space::store::Store;

/// A mounted volume.
pub struct FlashLight<'r, N: Nand> {
    pub(crate) volume: Volume<'r, N>,
}

impl<'r, N: Nand> FlashLight<'r, N> {
    /// Makes a call, and of the fault that it may end with an error for its caller.
    pub(crate) fn told<T>(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Error<N::Error>> {
        call(self).map_err(|fault| self.store_mut().nand.error(fault))
    }

    #[inline]
    pub(crate) fn index(&self) -> &Index<'r, N> {
        &self.volume.durable.index
    }

    #[inline]
    pub(crate) fn index_mut(&mut self) -> &mut Index<'r, N> {
        &mut self.volume.durable.index
    }

    #[inline]
    pub(crate) fn store(&self) -> &Store<'r, N> {
        &self.volume.durable.index.store
    }

    #[inline]
    pub(crate) fn store_mut(&mut self) -> &mut Store<'r, N> {
        &mut self.volume.durable.index.store
    }
}

//! FlashLight: a flash file system for raw NAND with a small, fixed amount of RAM.
//!
//! After J. Kim, H. Shim, S.-Y. Park, S. Maeng, J.-S. Kim: *FlashLight: A Lightweight Flash File
//! System for Embedded Systems*, ACM Transactions on Embedded Computing Systems 11S(1), 2012.
//!
//! A volume is mounted over a chip ([`flashkit_nand::Nand`]) and one byte slice from the caller
//! ([`ram_needed`] tells its size); there is no heap and no clock. Operations name inodes by
//! [`Node`] values; [`FlashLight::resolve`] follows a path to one.
//!
//! # What is durable when
//! Everything before a [`FlashLight::sync`], a [`FlashLight::gc`] that cleaned, or an
//! [`FlashLight::unmount`]; a file's data, size and names after [`FlashLight::fsync`]; a rename, an
//! exchange, a link and a new directory when the call returns. After a power cut, [`FlashLight::mount`] rolls forward.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate std;

mod api;
mod checkpoint;
mod cleaning;
mod config;
mod error;
mod format;
mod index;
mod recovery;
mod space;

pub use api::attributes::{Attr, SetAttr, StatFs, TARGET_MAX, Unlinked};
pub use api::scrub::Scrub;
pub use api::walk::{Area, Page, RamUse, Visitor};
pub use api::xattr::SetXattr;
pub use api::{inspect, transfer};
pub use config::{Cleaner, Config};
pub use error::Error;
pub use format::attributes::XATTR_NAME_MAX;
pub use format::blockstate::State as BlockState;
pub use format::header::{FORMAT_VERSION, Header, Kind};
pub use format::inode::{NAME_MAX, Time};
pub use format::node::{FIRST_FILE, FileRef, Node, ROOT_DIR};
pub use format::special::Special;
pub use index::inodes::New;
pub use index::readdir::Entry;
pub use recovery::memory::{ram_for_table, ram_needed, ram_needed_for, ram_to_level, ram_useful};
pub use space::written::Written;

use checkpoint::anchor::Anchor;
use flashkit_nand::{Nand, PageAddr};
use index::cache::Slot;
use index::dirmap::DirMap;
use space::store::Store;

/// A mounted volume.
pub struct FlashLight<'r, N: Nand> {
    pub(crate) store: Store<'r, N>,
    pub(crate) map: DirMap<'r>,
    pub(crate) dirs: [Slot<'r>; 2],
    pub(crate) files: [Slot<'r>; 2],
    pub(crate) scratch: &'r mut [u8],
    pub(crate) anchor: Anchor,
    pub(crate) config: Config,
    /// Bytes that the caller has given.
    pub(crate) ram: usize,
    /// Copies of the DirInodes of the root and of the index directory, as they were at the
    /// unmount.
    pub(crate) dir_copies: [PageAddr; 2],
    pub(crate) tick: u32,
    pub(crate) next_ino: u32,
    /// Files in the index directory that have no name any more.
    pub(crate) orphans: u32,
    /// Pages of data written when pages that files do not show any more were looked for last in vain, and a block's worth.
    pub(crate) looked_for_overridden: u64,
    /// Whether the frontier of a file slot is a block shared with other files.
    pub(crate) shared: [bool; 2],
    /// Whether the last file written was small.
    pub(crate) small_files: bool,
    /// How many files write in turn, each in a block of its own, times [`data::APART`].
    pub(crate) apart: u16,
    pub(crate) read_only: bool,
    recovered: bool,
    /// The block that is being cleaned.
    pub(crate) sweep: Option<cleaning::sweep::Sweep>,
    /// What cleaning may cost now, in reads; negative when it has cost more than its share.
    pub(crate) credit: i32,
    /// The damage for which a change was lost last, and whether a sync has told of it.
    pub(crate) given_up: Option<(PageAddr, &'static str, bool)>,
}

//! The boot reader: files of a volume, by path, from an image as any cut has left it. Only reads.
//!
//! It links without the rest: what a boot loader needs is a small part of what a mount does. A
//! mount brings the whole volume to where it was, and writes that. [`Boot`] answers one question at
//! a time: which page does this path lead to, and what is in it. It comes to what a mount of the
//! same image comes to (`docs/boot.md` says how, and what it costs).
//!
//! Knows `format` alone: what it reads it judges by the same views and checks as the volume.
//!
//! Invariants:
//! * Nothing is programmed, erased or marked.
//! * What cannot be read, and would be needed, is an error or what a mount falls back on.
//! * Each loop is bounded by the chip, the page or the path, whatever the image says.

mod anchors;
mod chip;
mod dir;
mod file;
mod log;
mod names;
mod replay;
mod snapshot;
mod updates;

use crate::boot::chip::Chip;
use crate::boot::log::Pending;
use crate::format::limits::SNAPSHOT_PAGES;
use flashkit_nand::{Geometry, Nand, PageAddr};

pub use file::{File, FileKind};

/// Bytes of a path, and of what symbolic links on the way make of it.
pub const PATH_MAX: usize = 512;

/// Symbolic links that are followed for one path.
pub const LINKS_MAX: usize = 8;

/// Bytes of RAM that the boot reader takes on a chip of this geometry: three pages and 800 bytes.
/// 6,944 with pages of 2 KiB.
pub const fn ram_needed(geo: &Geometry) -> usize {
    3 * geo.page_size() as usize + 4 * SNAPSHOT_PAGES + PATH_MAX
}

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Error {
    /// Nothing has this name.
    NotFound = 1,
    /// A name on the way is not a directory's.
    NotDir,
    /// It is a directory, or a file without data.
    NoData,
    /// A path with `..`, or none.
    Invalid,
    /// A name, or a path with what links on the way make of it, is too long.
    TooLong,
    /// More symbolic links than [`LINKS_MAX`].
    Links,
    /// There is no volume.
    NotFormatted,
    /// A programmer has written the volume: it is to be opened over
    /// [`Transferred`](crate::transfer::Transferred).
    Transferred,
    /// The volume has another version of the format.
    Version,
    /// The volume is of a chip of another shape.
    Geometry,
    /// Less RAM than [`ram_needed`].
    RamTooSmall,
    /// A page that is needed cannot be read, or is not what it should be.
    Damaged,
    /// More names of one directory share a hash than the reader keeps: 12.
    Crowded,
    /// The driver has failed ([`Boot::driver_error`]).
    Driver,
    /// What a cut has left reads one way now and another then. Repeated a few times before it is
    /// told.
    Changing,
}

/// What the page in the first buffer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Nothing,
    /// A directory as it was written last; up to which number it shows all, and whether it is newer
    /// than the checkpoint.
    Dir(u32, u64, bool),
    /// The page of a file.
    File(PageAddr),
}

/// A volume that is only read.
pub struct Boot<'r, N: Nand> {
    chip: Chip<N>,
    /// Two pages.
    a: &'r mut [u8],
    b: &'r mut [u8],
    /// The places of the pages of the snapshot, then the blocks taken since the checkpoint.
    list: &'r mut [u8],
    /// A path while it is looked for; else updates of the file that is read.
    spare: &'r mut [u8],
    held: Held,
    snapshot: usize,
    opened: usize,
    /// Whether there is something after the checkpoint.
    recovers: bool,
    /// The map of directories is wide.
    wide: bool,
    /// The block table is not in the snapshot.
    tableless: bool,
    /// The snapshot has deferred changes of directories.
    deferred: bool,
    /// Copies of the pages of the root and of the index directory.
    dir_copies: [PageAddr; 2],
    /// The number of the newest record, and the last exchange if it has not come to its end.
    newest: u64,
    pending: Option<Pending>,
    /// Of which file's page, and which indexes, `spare` has all updates; and how many.
    window: (PageAddr, u32, u32),
    kept: usize,
}

impl<'r, N: Nand> Boot<'r, N> {
    /// Finds the newest checkpoint, and what was written after it. Of `ram` [`ram_needed`] bytes
    /// are used; they need no alignment.
    ///
    /// Reads: 16 root pages, 8 of the second level, 7 to 12 in the leaf and those that it names,
    /// the snapshot. After a cut also the allocation log and the inode pages since the checkpoint,
    /// 464 at most; and where a page of that log was cut two for each block of the chip.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Transferred`], [`Error::Version`], [`Error::Geometry`],
    /// [`Error::RamTooSmall`], [`Error::Damaged`], [`Error::Driver`]: then the chip is gone; open
    /// again.
    pub fn open(nand: N, ram: &'r mut [u8]) -> Result<Self, Error> {
        let geo = nand.geometry();
        let page = geo.page_size() as usize;
        let ram = ram.get_mut(..ram_needed(&geo)).ok_or(Error::RamTooSmall)?;
        let (a, ram) = split(ram, page);
        let (b, ram) = split(ram, page);
        let (list, spare) = split(ram, 4 * SNAPSHOT_PAGES + page);
        let mut boot = Boot {
            chip: Chip::new(nand),
            a,
            b,
            list,
            spare,
            held: Held::Nothing,
            snapshot: 0,
            opened: 0,
            recovers: false,
            wide: false,
            tableless: false,
            deferred: false,
            dir_copies: [PageAddr::NONE; 2],
            newest: 0,
            pending: None,
            window: (PageAddr::NONE, 0, 0),
            kept: 0,
        };
        boot.load()?;
        Ok(boot)
    }

    /// The number that was drawn for the volume when it was made.
    pub fn volume(&self) -> u32 {
        self.chip.volume
    }

    /// Whether changes after the checkpoint are looked at: the volume was not unmounted.
    pub fn is_recovering(&self) -> bool {
        self.recovers
    }

    /// The error of the driver behind the last [`Error::Driver`], once.
    pub fn driver_error(&mut self) -> Option<N::Error> {
        self.chip.failure.take()
    }

    /// Gives the chip back.
    pub fn close(self) -> N {
        self.chip.nand
    }
}

/// The first bytes of a slice, as many as there are at most, and the others.
fn split(bytes: &mut [u8], n: usize) -> (&mut [u8], &mut [u8]) {
    let n = n.min(bytes.len());
    bytes.split_at_mut(n)
}

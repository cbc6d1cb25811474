//! Nano-FS: a file system in 8 KB, code included, for SD cards and other managed media of
//! 512-byte blocks.
//!
//! After E. Werbet, A. Brayner: *A Flash File System for Resource Restricted Platforms*, Journal
//! of Information and Data Management, 2012. A file is a list of nodes, the newest first; only one
//! block of each kind is in RAM. Where this one goes further, `docs/nanofs.md` says how and why.
//!
//! A [`NanoFs`] is all the RAM there is. It is made by a `const fn` and is all zeros then. So it
//! can be a `static` that takes no room in the image; [`NanoFs::mount`] fills it.
//!
//! # What is durable when
//! * Everything, after a [`NanoFs::sync`].
//! * A new file, a deletion, another name, an overwrite of whole nodes and a cut that removes
//!   nodes, when the call returns.
//!
//! After a power cut, [`NanoFs::mount`] finds each file as it was at the last sync or at some
//! moment later.
//!
//! # Modules
//!
//! All are methods of one type.
//!
//! | module | what it is |
//! | --- | --- |
//! | `block` | a sealed block: the form of every block on the medium |
//! | `store` | blocks from and to the device, in the order that crashes ask for |
//! | `map` | the bitmap: two bits for each block of data |
//! | `header` | the header of a file: one block, written whole |
//! | `chain` | the list of a file's nodes, the newest first |
//! | `tail` | the file in RAM: its header, what was written since, and its tail |
//! | `rewrite` | overwriting: nodes written anew, which a header makes valid together |
//! | `file` | what a program does with files |
//! | `clean` | giving up blocks that are not in use any more |
//! | `volume` | making a volume, mounting it, and what is left of it |
//! | `rescue` | a volume with damaged headers, for tools (feature `rescue`) |
//!
//! # Example
//!
//! ```
//! use flashkit_nanofs::NanoFs;
//! use flashkit_sim::{CardTiming, SimCard};
//!
//! let mut fs: NanoFs<SimCard> = NanoFs::new(SimCard::new(4096, CardTiming::CLASS_4));
//! fs.format(0x5e45, 16, 1).unwrap();
//! let log = fs.create(b"log").unwrap();
//! fs.append(log, b"up\n").unwrap();
//! fs.sync().unwrap(); // durable from here on
//! let mut bytes = [0; 8];
//! fs.seek(log, 0).unwrap();
//! assert_eq!(fs.read(log, &mut bytes).unwrap(), 3);
//! assert_eq!(&bytes[..3], b"up\n");
//! ```

#![no_std]
#![forbid(unsafe_code)]

mod block;
mod chain;
mod clean;
mod error;
mod file;
mod header;
mod map;
#[cfg(feature = "rescue")]
mod rescue;
mod rewrite;
mod store;
mod tail;
mod volume;

use flashkit_block::BlockDevice;

pub use block::{BLOCK, NODE_DATA};
#[cfg(feature = "compare")]
pub use chain::List;
pub use error::{Error, Result};
pub use file::{Entry, Handle};
pub use header::{FILES_MAX, FORMAT_VERSION, NAME_MAX};

use block::Block;

/// Files that can be open at a time.
pub const HANDLES: usize = 64;

/// The end of a file, for [`NanoFs::seek`].
pub const SEEK_END: u32 = NONE;

/// As large as can be.
const NONE: u32 = u32::MAX;

/// What an open file is to its user: 8 bytes.
#[derive(Clone, Copy)]
struct Open {
    /// Where the next byte is read or written.
    pos: u32,
    /// Slot of the header; 0: the handle is not in use.
    slot: u16,
    /// What was written and is not in the header.
    left: u16,
}

/// A volume on a device, with all the RAM it needs: `N` blocks, 3, 4 or 6, of which two less are
/// the buffer for reads and writes; 64 handles; and some words.
// The order of the fields lets short instructions reach what is used most. A slot is the block
// that it is.
#[repr(C)]
pub struct NanoFs<D: BlockDevice, const N: usize = 3> {
    /// The first error of this call.
    error: Option<Error>,
    /// The buffer holds the tail; it is newer than what the medium holds.
    has_tail: bool,
    tail_changed: bool,
    map_changed: bool,
    /// Something has been written since the last flush.
    unflushed: bool,
    /// Slot of the file in RAM; 0: none.
    slot: u32,
    /// One more than the index of the node last looked at, 0: none.
    node: u32,
    /// Where the search for free blocks goes on, and how many it may still look at.
    rotor: u32,
    looks: u32,
    /// Operations that cleaning may still take.
    left: u32,
    /// Blocks of the volume, and the first one of data.
    blocks: u32,
    data: u32,
    /// One more than the place of the block of the bitmap in RAM; 0: none.
    map_at: u32,
    /// The slot that the next header goes to, and the block behind the slots in use.
    spare: u32,
    end: u32,
    /// Nodes appended since the header was written.
    since: u32,
    /// Number of the last header written.
    seq: u32,
    /// A slot with a free header; 0: none.
    free: u16,
    /// The slot where the search for trash goes on; 0: there is none.
    trash_slot: u16,
    /// Blocks of data that may be dirty: so many, from this one on; each counts twice.
    dirty_at: u32,
    dirty_left: i32,

    /// The header of one file, one block of the bitmap, and the buffer: nodes that have been
    /// read; or full nodes that wait to be written and, behind them, the tail of the file.
    mem: [Block; N],

    /// Version of the tail.
    tail_version: u32,
    /// The block that the buffer begins with.
    read_at: u32,
    key: u32,
    files: u32,
    salt: u32,
    /// Blocks of the bitmap.
    maps: u16,
    /// Place in the buffer of the node last looked at, or of the tail.
    node_at: u8,
    /// Blocks in the buffer that were read in one command.
    read: u8,
    /// Where the first of the full nodes goes that wait.
    waiting_at: u32,
    #[cfg(feature = "compare")]
    list: List,

    /// The last one is what a wrong handle stands for.
    open: [Open; HANDLES + 1],
    /// Full nodes that wait.
    waiting: u8,
    failed: Option<D::Error>,
    dev: D,
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// Blocks of the buffer.
    const BUF: u32 = {
        assert!(N == 3 || N == 4 || N == 6);
        N as u32 - 2
    };

    /// A file system without a volume: [`NanoFs::format`] or [`NanoFs::mount`] comes next.
    pub const fn new(dev: D) -> Self {
        NanoFs {
            error: None,
            has_tail: false,
            tail_changed: false,
            map_changed: false,
            unflushed: false,
            slot: 0,
            node: 0,
            node_at: 0,
            read_at: 0,
            read: 0,
            rotor: 0,
            looks: 0,
            left: 0,
            blocks: 0,
            data: 0,
            map_at: 0,
            spare: 0,
            end: 0,
            mem: [[0; BLOCK / 4]; N],
            tail_version: 0,
            since: 0,
            seq: 0,
            salt: 0,
            key: 0,
            files: 0,
            maps: 0,
            free: 0,
            trash_slot: 0,
            dirty_at: 0,
            dirty_left: 0,
            waiting: 0,
            waiting_at: 0,
            #[cfg(feature = "compare")]
            list: List::RollForward,
            open: [Open {
                pos: 0,
                slot: 0,
                left: 0,
            }; HANDLES + 1],
            failed: None,
            dev,
        }
    }

    /// The device.
    pub fn device(&mut self) -> &mut D {
        &mut self.dev
    }

    /// The device, to look at.
    pub fn device_ref(&self) -> &D {
        &self.dev
    }

    /// Files that the volume can hold.
    pub fn files_max(&self) -> u32 {
        self.files
    }

    /// Blocks of the volume for data: nodes of 500 bytes.
    pub fn data_blocks(&self) -> u32 {
        self.blocks - self.data
    }

    /// Gives the device back. What was not synced may be lost.
    pub fn into_device(self) -> D {
        self.dev
    }

    /// What the device said when it failed last.
    pub fn device_error(&self) -> Option<&D::Error> {
        self.failed.as_ref()
    }
}

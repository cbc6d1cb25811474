//! The areas of the log, and a block that one of them fills.

use crate::format::header::Kind;

/// The log areas (paper, Table III) other than the checkpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogArea {
    Bitmap = 0,
    Map = 1,
    Dir = 2,
    Hash = 3,
    File = 4,
    Extent = 5,
    Data = 6,
    /// Data that a recovery finds by its tags (`updates.rs`).
    Update = 7,
}

/// Areas with one log head each: all but the data.
pub(crate) const HEADS: usize = 6;

/// Data heads: one for each cached file, one for migrated pages, one for those moved
/// for wear, one for updates.
pub(crate) const DATA_HEADS: usize = 5;

/// The data head of migrated pages.
pub(crate) const COLD: usize = 2;

/// The data head of pages moved for the sake of wear.
pub(crate) const WEAR: usize = 3;

/// The data head of updates.
pub(crate) const UPDATE: usize = 4;

/// With the place of a remnant: it is the checkpoint's word, and nobody has looked since the mount.
pub(crate) const UNSEEN: u32 = 1 << 15;

/// The number of a block in a field of 2 bytes; all ones: none.
pub(crate) fn block_number(v: u16) -> u32 {
    match v {
        u16::MAX => u32::MAX,
        v => u32::from(v),
    }
}

/// A block being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub block: u32,
    pub next: u32,
}

impl Head {
    pub const NONE: Head = Head {
        block: u32::MAX,
        next: 0,
    };
}

/// The log that pages of a kind are written to.
pub(crate) fn area_of(kind: Kind) -> Option<LogArea> {
    Some(match kind {
        Kind::Root | Kind::Second | Kind::Checkpoint => return None,
        Kind::Alloc | Kind::Snapshot => LogArea::Bitmap,
        Kind::DirMap | Kind::Places | Kind::Table => LogArea::Map,
        Kind::Dir => LogArea::Dir,
        Kind::HashMap | Kind::HashIndex => LogArea::Hash,
        Kind::File => LogArea::File,
        Kind::ExtentMap | Kind::ExtentIndex | Kind::Names | Kind::Attributes | Kind::Validity => {
            LogArea::Extent
        }
    })
}

//! Names and extents: directories, inodes, their maps, and the few of them that are cached.
//!
//! Knows `format` and `space`. It never cleans and never takes a checkpoint: who calls it has made room.
//!
//! Invariants: an entry is written after what it names; an inode page is the newest word on its file; what a change
//! needs is reserved before its first program, so that it happens whole or not at all.
//!
//! `cache`, `dir` and `dirmap` are one thing (the order in which what is cached is written), and so are `file` and
//! `waiting` (one tree of extents with buffers): these circles of imports are meant.

pub(crate) mod attributes;
pub(crate) mod cache;
pub(crate) mod data;
pub(crate) mod dir;
pub(crate) mod dirmap;
pub(crate) mod file;
pub(crate) mod inodes;
pub(crate) mod links;
pub(crate) mod lookup;
pub(crate) mod names;
pub(crate) mod own_name;
pub(crate) mod placement;
pub(crate) mod readdir;
pub(crate) mod rebuild;
pub(crate) mod tree;
pub(crate) mod truncate;
pub(crate) mod updates;
pub(crate) mod waiting;

use crate::index::cache::Slot;
use crate::index::dirmap::DirMap;
use crate::space::store::Store;
use flashkit_nand::{Nand, PageAddr};

/// Names and extents on flash, and the few of them that are cached.
pub(crate) struct Index<'r, N: Nand> {
    pub store: Store<'r, N>,
    pub map: DirMap<'r>,
    pub dirs: [Slot<'r>; 2],
    pub files: [Slot<'r>; 2],
    pub scratch: &'r mut [u8],
    /// Copies of the DirInodes of the root and of the index directory, as they were at the
    /// unmount.
    pub dir_copies: [PageAddr; 2],
    pub tick: u32,
    pub next_ino: u32,
    /// Files in the index directory that have no name any more.
    pub orphans: u32,
    /// Whether the data head of a file slot is a block shared with other files.
    pub shared: [bool; 2],
    /// Whether the last file written was small.
    pub small_files: bool,
    /// How many files write in turn, each in a block of its own, times [`placement::INTERLEAVED`].
    pub interleaved: u16,
    pub read_only: bool,
    /// The damage for which a change was lost last, and whether a sync has told of it.
    pub lost_change: Option<(PageAddr, &'static str, bool)>,
}

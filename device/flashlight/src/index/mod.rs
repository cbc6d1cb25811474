//! Names and extents: directories, inodes, their maps, and the few of them that are cached.
//!
//! Knows `format` and `space`. It never cleans and never takes a checkpoint: who calls it has made
//! room.
//!
//! Invariants:
//! * An entry is written after what it names.
//! * An inode page is the newest word on its file.
//! * What a change needs is reserved before its first program, so that it happens whole or not at
//!   all.
//!
//! Two circles of imports are meant. `cache`, `dir` and `dirmap` are one thing: the order in which
//! what is cached is written. `file` and `waiting` are one tree of extents with buffers.

pub(crate) mod attributes;
pub(crate) mod cache;
pub(crate) mod data;
pub(crate) mod deferred;
pub(crate) mod dir;
pub(crate) mod dirmap;
pub(crate) mod file;
pub(crate) mod inodes;
pub(crate) mod known_dirs;
pub(crate) mod lending;
pub(crate) mod links;
pub(crate) mod lookup;
pub(crate) mod lost_maps;
pub(crate) mod map_changes;
pub(crate) mod names;
pub(crate) mod own_name;
pub(crate) mod placement;
pub(crate) mod readdir;
pub(crate) mod rebuild;
pub(crate) mod scratch;
pub(crate) mod slots;
pub(crate) mod tree;
pub(crate) mod truncate;
pub(crate) mod updates;
pub(crate) mod waiting;

use crate::error::Damaged;
use crate::format::header::HEADER;
use crate::format::limits::MAP_PAGES;
use crate::format::node::{FIRST_FILE, INDEX_DIR};
use crate::index::cache::{CachedDir, CachedFile};
use crate::index::dirmap::DirMap;
use crate::index::known_dirs::KnownDirs;
use crate::index::lending::Lending;
use crate::index::map_changes::MapChanges;
use crate::index::scratch::Scratch;
use crate::index::slots::{Dirs, Files};
use crate::space::store::Store;
use flashkit_nand::{Nand, PageAddr};

/// Names and extents on flash, and the few of them that are cached.
///
/// The fields are in this order for small code: what is used most is within reach of a short
/// instruction, from here and, of the store, from there.
#[repr(C)]
pub(crate) struct Index<'r, N: Nand> {
    pub scratch: Scratch<'r>,
    pub files: Files<'r>,
    pub store: Store<'r, N>,
    pub dirs: Dirs<'r>,
    pub map: DirMap<'r>,
    pub known_dirs: KnownDirs<'r>,
    /// Copies of the DirInodes of the root and of the index directory, as they were at the
    /// unmount.
    pub dir_copies: [PageAddr; 2],
    pub next_ino: u32,
    /// Files in the index directory that have no name any more.
    pub orphans: u32,
    /// The damage for which a change was lost last, and whether a sync has told of it.
    pub lost_change: Option<(PageAddr, Damaged, bool)>,
    pub lending: Lending,
    /// How many files write in turn, each in a block of its own, times [`placement::INTERLEAVED`].
    pub interleaved: u16,
    /// The list of deferred changes is another than that of the last checkpoint.
    pub deferred_since: bool,
    /// There was no room for all of those of the checkpoint.
    pub deferred_left_out: bool,
    /// The index directory, which is in no slot, has room for what an operation adds.
    pub index_has_room: bool,
    /// Whether the last file written was small.
    pub small_files: bool,
    pub read_only: bool,
    /// The mount found that the volume had not been unmounted.
    pub recovered: bool,
}

impl<'r, N: Nand> Index<'r, N> {
    /// Names and extents of which nothing has been read yet, over a store, in what it has left of
    /// the caller's bytes.
    // As a call it would leave another copy on the stack of a mount.
    #[inline(always)]
    pub fn new(
        store: Store<'r, N>,
        read_only: bool,
        known_dirs: &'r mut [u8],
        hashes: &'r mut [u8],
        ram: &'r mut [u8],
    ) -> Self {
        let (map_roots, ram) = ram.split_at_mut(4 * MAP_PAGES);
        map_roots.fill(0xff);
        let (first, second) = hashes.split_at_mut(hashes.len() / 2);
        let per_page = (store.page_size() - HEADER) / 4;
        let changes = MapChanges::new(per_page as u32, store.ppb());
        let mut pages = ram.chunks_exact_mut(store.page_size());
        let mut page = || pages.next().unwrap_or_default();
        Index {
            map: DirMap {
                wide: false,
                loc: PageAddr::NONE,
                index: None,
                dirty: false,
                changes,
                roots: map_roots,
                next: INDEX_DIR + 1,
            },
            dirs: Dirs([
                CachedDir::new(page(), first),
                CachedDir::new(page(), second),
            ]),
            files: Files([CachedFile::new(page()), CachedFile::new(page())]),
            scratch: Scratch::new(page()),
            known_dirs: KnownDirs::new(known_dirs),
            lending: Lending::default(),
            store,
            dir_copies: [PageAddr::NONE; 2],
            next_ino: FIRST_FILE,
            deferred_since: false,
            deferred_left_out: false,
            orphans: 0,
            index_has_room: false,
            small_files: false,
            interleaved: 0,
            read_only,
            recovered: false,
            lost_change: None,
        }
    }
}

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

//! What stands on flash, byte by byte: records, pages, checksums, and what a well-formed page is.
//!
//! Knows no chip and no other layer: every function here takes bytes and gives bytes or values. What is written
//! is described in `docs/format.md`; a field that changes here changes there.
//!
//! Invariants: a page that is not well-formed is never believed, whatever its checksum says; each count that is
//! read from flash is bounded by what the page can hold.

pub(crate) mod bytes;
pub(crate) mod dirrec;
pub(crate) mod extent;
pub(crate) mod hash;
pub(crate) mod header;
pub(crate) mod inode;
pub(crate) mod mappage;
pub(crate) mod snapshot;
pub(crate) mod tag;
pub(crate) mod wellformed;

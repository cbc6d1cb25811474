//! What stands on flash, byte by byte: records, pages, checksums, and what a well-formed page is.
//!
//! Knows no chip and no other layer: every function here takes bytes and gives bytes or values.
//! What is written is described in `docs/format.md`; a field that changes here changes there.
//!
//! Invariants:
//! * A page that is not well-formed is never believed, whatever its checksum says.
//! * Each count that is read from flash is bounded by what the page can hold.

pub(crate) mod anchors;
pub(crate) mod area;
pub(crate) mod attributes;
pub(crate) mod blockstate;
pub(crate) mod checkpoint;
pub(crate) mod deferred;
pub(crate) mod dirrec;
pub(crate) mod extent;
pub(crate) mod fields;
pub(crate) mod hash;
pub(crate) mod header;
pub(crate) mod inode;
pub(crate) mod limits;
pub(crate) mod mappage;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod snapshot;
pub(crate) mod special;
pub(crate) mod table_page;
pub(crate) mod tag;
pub(crate) mod update_run;
pub(crate) mod validity;
pub(crate) mod wellformed;

//! A mount: the last checkpoint is found, and what was written after it is rolled forward.
//!
//! Knows `cleaning`, as a recovery may need room, and what is below.
//!
//! Invariants:
//! * A recovery that is cut, and begun again, comes to the same.
//! * Nothing is programmed before it has counted what it needs.
//! * What is read here is believed only if every later mount reads the same.

pub(crate) mod count;
pub(crate) mod exchange;
pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod memory;
pub(crate) mod mount;
pub(crate) mod orphans;
pub(crate) mod records;
pub(crate) mod recover;
pub(crate) mod roots;
pub(crate) mod updates;

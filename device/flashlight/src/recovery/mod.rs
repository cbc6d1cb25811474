//! A mount: the last checkpoint is found, and what was written after it is rolled forward.
//!
//! Knows `cleaning`, as a recovery may need room, and what is below.
//!
//! Invariants: a recovery that is cut, and begun again, comes to the same; nothing is programmed before it has counted
//! what it needs; what is read here is believed only if every later mount reads the same.

pub(crate) mod mount;
pub(crate) mod recover;

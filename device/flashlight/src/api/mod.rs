//! What a caller sees: one method for each file-system call, and those that look inside.
//!
//! Knows all layers; none knows it.
//!
//! Invariants: a method checks its arguments before it changes anything; what it promises to be
//! durable is on flash when it returns.

pub(crate) mod adopt;
pub(crate) mod attributes;
pub(crate) mod data;
pub(crate) mod exchange;
pub(crate) mod hole;
pub mod inspect;
pub(crate) mod link;
pub(crate) mod ops;
pub(crate) mod readdir;
pub(crate) mod rename;
pub(crate) mod repair;
pub(crate) mod scrub;
pub mod transfer;
pub(crate) mod updates;
pub(crate) mod volume;
pub(crate) mod walk;
pub(crate) mod xattr;

//! Mounts as programs see them. One program, which is linked once.

mod appends;
mod common;
mod full;
mod host;
mod kept;
mod mount;
mod names;
mod signals;

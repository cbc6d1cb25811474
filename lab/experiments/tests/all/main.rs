//! The experiments, and the page of their results. One program, which is linked once.

mod common;
mod inside;
mod jftl;
mod logdisk;
mod nanofs;
mod page;
mod picture;
mod study;

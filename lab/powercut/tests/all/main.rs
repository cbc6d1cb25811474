//! What is tested from outside: one program, so that all is linked once.

mod boot;
mod history;
mod search;
mod sequence;
mod soak;
mod tree;

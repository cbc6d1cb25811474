//! Encrypted chips. One program, which is linked once.

mod cuts;
mod pages;

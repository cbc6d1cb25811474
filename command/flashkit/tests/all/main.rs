//! `flashkit` as people call it. One program, which is linked once.

mod command;
mod common;
mod disk;
mod encrypted;
mod guest;
mod image;
mod mount;
mod nanofs;
mod output;
mod powercut;
mod raw;
mod refused;

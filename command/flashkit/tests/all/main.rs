//! `flashkit` as people call it. One program, which is linked once.

mod command;
mod common;
mod disk;
mod encrypted;
mod foreign;
mod guest;
mod host;
mod image;
mod inside;
mod lost;
mod mount;
mod nanofs;
mod output;
mod powercut;
mod raw;
mod refused;
mod umount;

//! What the tests of rotting pages share.
#![allow(dead_code)] // each test file uses some of it

pub mod judge;
pub mod pages;
pub mod rot;
pub mod tree;

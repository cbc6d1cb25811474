//! What the tests of rotting pages share.

pub mod judge;
pub mod pages;
pub mod rot;
pub mod tree;

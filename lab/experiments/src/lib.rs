//! The papers' experiments: one module per paper.

pub mod logdisk;

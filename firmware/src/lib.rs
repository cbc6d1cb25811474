//! What the images share: the board, a painted stack, and the link to a chip that the host has.

#![no_std]

pub mod board;
pub mod link;
pub mod stack;

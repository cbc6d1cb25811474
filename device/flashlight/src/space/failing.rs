//! Blocks whose program has failed, until a checkpoint has marked them bad.

use crate::format::checkpoint::FAILING_BLOCKS;

/// What is valid in these blocks is moved, then they are marked bad. One that finds no place here
/// is marked when it fails again.
#[derive(Clone, Copy)]
pub(crate) struct Failing(pub [u16; FAILING_BLOCKS]);

impl Failing {
    pub const NONE: Failing = Failing([u16::MAX; FAILING_BLOCKS]);

    pub fn contains(&self, block: u32) -> bool {
        self.0.iter().any(|&failing| u32::from(failing) == block)
    }

    pub fn add(&mut self, block: u32) {
        if let Some(slot) = self.0.iter_mut().find(|slot| **slot == u16::MAX) {
            *slot = block as u16;
        }
    }
}

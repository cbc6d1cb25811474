//! Where the next page goes: a block of each log area, and of each kind of data.

use crate::format::area::{COLD, DATA_HEADS, HEADS, Head};
use crate::space::erased::Unseen;

/// The blocks being filled, that of the block table aside.
pub(crate) struct WriteHeads {
    /// By the number of the area.
    pub log: [Head; HEADS],
    pub data: [Head; DATA_HEADS],
    /// The data head that pages are moved to.
    pub mover: usize,
    /// Blocks that have not been looked at since the mount.
    pub unseen: Unseen,
}

impl WriteHeads {
    pub fn new() -> Self {
        WriteHeads {
            log: [Head::NONE; HEADS],
            data: [Head::NONE; DATA_HEADS],
            mover: COLD,
            unseen: Unseen::default(),
        }
    }

    /// The head in a block.
    pub fn find(&self, block: u32) -> Option<Head> {
        for heads in [&self.log[..], &self.data] {
            if let Some(head) = heads.iter().find(|head| head.block == block) {
                return Some(*head);
            }
        }
        None
    }

    /// Writes a block no more.
    pub fn let_go(&mut self, block: u32) {
        for heads in [&mut self.log[..], &mut self.data] {
            for head in heads {
                if head.block == block {
                    *head = Head::NONE;
                }
            }
        }
    }

    /// The data heads that have a block.
    pub fn open_data(&self) -> impl Iterator<Item = Head> + '_ {
        let heads = self.data.iter().copied();
        heads.filter(|head| head.block != u32::MAX)
    }
}

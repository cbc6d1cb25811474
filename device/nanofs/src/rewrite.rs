//! Overwriting: the node is written anew in another block, and a header makes all new nodes valid
//! at once. It has two blocks then, and the header says which of them holds it; overwriting it
//! again takes the other. When the file is settled, it goes home: to the block that its neighbours
//! point to.

use flashkit_block::BlockDevice;

use crate::block::NODE_DATA;
use crate::header::{AWAY, COPIES, COPIES_MAX, COPY, COUNT, HOME, INDEX, SECOND, USED};
use crate::map::{TO_DIRTY, TO_RESERVED};
use crate::{Error, NONE, NanoFs};

/// The words of a copy, behind those of the first one.
#[inline(always)]
pub(crate) fn copy_at(copy: u32) -> usize {
    copy.min(COPY * (COPIES_MAX - 1)) as usize
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// Overwrites nodes from `pos` on, as many as have room for copies, and what `data` has for
    /// the tail.
    #[inline(always)]
    pub(crate) fn rewrite(&mut self, pos: u32, data: &mut &[u8]) {
        let mut index = pos / NODE_DATA;
        let mut offset = pos % NODE_DATA;
        self.put_away();
        // Nodes that it needs, at most.
        let needed = data.len() as u32 / 512 + 3;
        if self.get(COPIES) + COPY * needed > COPY * COPIES_MAX {
            self.settle(NONE);
        }
        self.look_at_all();
        while index < self.get(COUNT) && !data.is_empty() && self.get(COPIES) < COPY * COPIES_MAX {
            self.find_node(index);
            if !self.ok() {
                break;
            }
            let place = self.node_block();
            self.move_to_front();
            self.patch(offset, NODE_DATA, data);
            offset = 0;
            let copy = self.find_copy(index);
            let at = copy_at(copy);
            if copy == self.get(COPIES) {
                self.set(COPIES, copy + COPY);
                self.set(INDEX + at, index);
                self.set(HOME + at, place);
                let second = self.find_free();
                self.set(SECOND + at, second);
            }
            self.set(INDEX + at, self.get(INDEX + at) ^ AWAY);
            let to = self.place(copy);
            self.put_node(index, to, 0);
            // The node that follows is found from this one. What was read with it was behind the
            // block that it is not in any more.
            self.read_at = to;
            if Self::BUF > 1 {
                self.read = 1;
            }
            index += 1;
        }
        if self.ok() && !data.is_empty() && index == self.get(COUNT) && self.get(USED) > 0 {
            // The tail is valid with the header that comes next.
            self.load_tail();
            self.patch(0, self.get(USED), data);
            self.begin_epoch();
            self.write_tail();
        }
        self.write_header();
        self.mark_copies(TO_RESERVED);
        if !self.ok() {
            self.lose();
        }
    }

    /// Marks the second blocks of nodes.
    #[inline(never)]
    pub(crate) fn mark_copies(&mut self, to: u32) {
        let mut i = 0;
        while i < self.get(COPIES) {
            self.mark(self.cell(SECOND, i), to);
            i += COPY;
        }
    }

    /// Brings nodes home; their second blocks are dirty then, in the bitmap. A damaged one goes
    /// home as that: it is in the way of who reads it alone.
    #[inline(always)]
    pub(crate) fn bring_home(&mut self) {
        let mut i = 0;
        while i < self.get(COPIES) {
            let at = copy_at(i);
            let index = self.get(INDEX + at) ^ AWAY;
            if index & AWAY == 0 {
                self.load_node(index, 0);
                // A damaged one under another number: it stays an error to who reads it.
                let wrong = u32::from(self.forgive(Error::BadNode)) * AWAY;
                self.put_node(index ^ wrong, self.get(HOME + at), 0);
            }
            i += COPY;
        }
        self.mark_copies(TO_DIRTY);
        self.set(COPIES, 0);
    }
}

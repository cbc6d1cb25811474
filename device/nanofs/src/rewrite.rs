//! Overwriting: the node is written anew in another block, and a header makes all new nodes valid
//! at once. It has two blocks then, and the header says which of them holds it; overwriting it
//! again takes the other. When the file is settled, it goes home: to the block that its neighbours
//! point to.

use flashkit_block::BlockDevice;

use crate::block::{NODE_DATA, NUMBER};
use crate::header::{COPIES, COPIES_MAX, COUNT, HOME, INDEX, OTHER, PLACE, UID, USED};
use crate::map::{DIRTY, RESERVED};
use crate::store::BUFFER;
use crate::{NONE, NanoFs};

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// Overwrites nodes from `pos` on, as many as have room for copies, and what `data` has for
    /// the tail.
    #[inline(never)]
    pub(crate) fn rewrite(&mut self, pos: u32, data: &mut &[u8]) {
        let mut index = pos / NODE_DATA;
        let mut offset = pos % NODE_DATA;
        self.put_away();
        if self.get(COPIES) as usize + data.len() / NODE_DATA as usize + 2 > COPIES_MAX as usize {
            self.settle(NONE);
        }
        self.look_at_all();
        while index < self.get(COUNT)
            && !data.is_empty()
            && self.get(COPIES) < COPIES_MAX
            && self.find_node(index)
        {
            let place = self.read_at + self.node_at;
            self.move_to_front(self.node_at);
            self.node_at = 0;
            self.patch(offset, NODE_DATA, data);
            offset = 0;
            let copy = self.find_copy(index);
            let mut other = self.cell(OTHER, copy);
            let mut first = self.cell(INDEX, copy) ^ HOME;
            if copy == self.get(COPIES) {
                other = self.find_free();
                first = index;
                self.set(COPIES, copy + 1);
            }
            self.set_cell(INDEX, copy, first);
            self.set_cell(PLACE, copy, other);
            self.set_cell(OTHER, copy, place);
            let init = self.init(self.get(UID), index);
            self.put(BUFFER, other, init);
            // The node that follows is found from this one.
            self.read_at = other;
            self.read = 1;
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
        self.mark_copies();
        if !self.ok() {
            self.lose();
        }
    }

    /// The second blocks of nodes are reserved, for the bitmap.
    #[inline(never)]
    pub(crate) fn mark_copies(&mut self) {
        let mut i = 0;
        while i < self.get(COPIES) && self.ok() {
            self.mark(self.second(i), RESERVED);
            i += 1;
        }
    }

    /// The second block of a node: that which is not its home.
    #[inline(never)]
    fn second(&self, i: u32) -> u32 {
        let column = if self.cell(INDEX, i) & HOME != 0 {
            OTHER
        } else {
            PLACE
        };
        self.cell(column, i) & NUMBER
    }

    /// Brings nodes home; their second blocks are dirty then, in the bitmap.
    #[inline(never)]
    pub(crate) fn bring_home(&mut self) {
        self.forget_buffer();
        let mut i = 0;
        while i < self.get(COPIES) && self.ok() {
            let index = self.cell(INDEX, i);
            if index & HOME == 0 && self.load_node(index, 0) {
                let init = self.init(self.get(UID), index);
                self.put(BUFFER, self.cell(OTHER, i), init);
            }
            self.mark(self.second(i), DIRTY);
            i += 1;
        }
        self.set(COPIES, 0);
        self.forget_buffer();
    }
}

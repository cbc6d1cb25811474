//! The list of a file's nodes, the newest first, with one jump pointer in each.
//!
//! A node is a sealed block of 500 bytes of the file; its numbers are the blocks of the node
//! before it (`prev`), of a node further back (`jump`), and of the one that comes next (`next`),
//! which is promised before it is written.
//!
//! The nodes form trees of 2^k - 1 nodes (a skew-binary list): the node with index `i` that is the
//! root of a tree of `s` nodes covers the indexes from `i - s + 1` to `i`, `prev` is the root of
//! the newer half, and the jump of that is the root of the older half. The jump of a root leads to
//! the root of the tree before. The oldest tree is as large as can be, and so is each behind it.
//! The header keeps the roots, the oldest first. So any node is reached in two reads a level, and
//! an append needs no read.

use flashkit_block::BlockDevice;

use crate::block::{EPOCH_BITS, NUMBER, seal, unseal};
use crate::header::{
    AWAY, COPIES, COPY, COUNT, EPOCH, HOME, INDEX, LAST, NEXT, ROOTS, SECOND, USED,
};
use crate::map::{FREE, TO_RESERVED, TO_USED};
use crate::rewrite::copy_at;
use crate::store::BUFFER;
use crate::{Error, NanoFs};

/// Nodes that may be written without a header.
const SINCE_MAX: u32 = 512;
/// Blocks left free behind one that does not follow the one before it.
const APART: u32 = 63;

/// How appended nodes are linked: for the comparison with the paper.
#[cfg(feature = "compare")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// As the format says: the header is written once in 512 nodes.
    RollForward,
    /// The paper's Algorithm 1: the header is written with every node.
    Reverse,
    /// The paper's Algorithm 2: the header and the node before are written with every node.
    Conventional,
}

/// Nodes in the oldest tree of a list: the most, 2^k - 1, that `count` has room for.
fn tree(count: u32) -> u32 {
    (u32::MAX >> 1) >> (count + 1).leading_zeros()
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// The tree that holds the `n`-th node, 1 the oldest one: the place of its root, and the nodes
    /// before it. 0 of none is there, too.
    #[inline(never)]
    fn tree_of(&self, n: u32) -> (u32, u32) {
        let (mut i, mut before) = (0, 0);
        loop {
            let size = tree(self.get(COUNT) - before);
            if n - before <= size {
                return (i, before);
            }
            before += size;
            i += 1;
        }
    }

    /// The newest node, if there is one.
    #[inline(always)]
    pub(crate) fn newest(&self) -> u32 {
        self.cell(ROOTS, self.tree_of(self.get(COUNT)).0)
    }

    /// Takes the node at `NEXT` into the list, and `next` becomes that; its pointers become the
    /// numbers of the block where the tail is.
    #[inline(never)]
    pub(crate) fn take_next(&mut self, next: u32) {
        let at = self.get(NEXT);
        let count = self.get(COUNT) + 1;
        self.set(COUNT, count);
        let (i, before) = self.tree_of(count);
        let root = (ROOTS - 1 + i as usize) % 64;
        let jump = self.get(root);
        let mut prev = jump;
        if count - before > 1 {
            // The two newest trees become one.
            prev = self.get(root + 2);
        }
        self.set(root + 1, at);
        let which = self.buffer(self.waiting());
        self.set_number(which, 0, prev);
        self.set_number(which, 1, jump);
        self.set_number(which, 2, next);
        self.set(NEXT, next);
        self.since += 1;
        self.mark(at, TO_USED);
        self.mark(next, TO_RESERVED);
    }

    /// Makes the full tail a node. `Full`: no block can be promised to the next node; the tail
    /// stays as it is.
    #[inline(never)]
    pub(crate) fn push(&mut self) {
        if self.get(NEXT) == 0 {
            let block = self.promise();
            if self.ok() {
                // The header says so before it is used.
                self.set(NEXT, block);
                self.write_header();
                self.mark(block, TO_RESERVED);
            }
        }
        let next = self.promise();
        if !self.ok() {
            return;
        }
        let at = self.get(NEXT);
        let index = self.get(COUNT);
        self.take_next(next);
        self.set(USED, 0);
        self.tail_changed = false;
        self.put_node(index, at, self.get(EPOCH));
        if self.since >= SINCE_MAX {
            self.write_header();
        }
        #[cfg(feature = "compare")]
        self.write_as_the_paper();
    }

    /// Writes the block of the buffer that was last looked at as the node `index`. A new one has an
    /// epoch; it may wait.
    #[inline(never)]
    pub(crate) fn put_node(&mut self, index: u32, block: u32, epoch: u32) {
        let init = self.node_init(index);
        let which = self.buffer(self.node_at());
        let node = &mut self.mem[which];
        seal(node, init, epoch & EPOCH_BITS);
        if Self::BUF > 1 && epoch != 0 {
            self.wait(block);
        } else {
            self.write_block(which, block);
        }
    }

    /// A node is to be written with those before it.
    fn wait(&mut self, at: u32) {
        if self.waiting == 0 {
            self.waiting_at = at;
        }
        self.waiting += 1;
        if self.waiting() >= Self::BUF || self.get(NEXT) != at + 1 {
            self.write_waiting();
        }
    }

    #[cfg(feature = "compare")]
    fn write_as_the_paper(&mut self) {
        if self.list == List::RollForward {
            return;
        }
        self.write_waiting();
        let prev = self.number(BUFFER, 0) & NUMBER;
        if self.list == List::Conventional && prev != 0 {
            // The pointer to the new node is there already; what counts is the write.
            let node = bytemuck::cast_slice_mut(&mut self.mem[BUFFER]);
            let read = self.dev.read(prev, node);
            if read.and_then(|()| self.dev.write(prev, node)).is_err() {
                self.fail(Error::Device);
            }
        }
        // The paper's count leaves the bitmap out.
        self.since = 0;
        self.write_header();
    }

    /// How appended nodes are linked from now on.
    #[cfg(feature = "compare")]
    pub fn set_list(&mut self, list: List) {
        self.list = list;
    }

    /// A free block for the node behind `NEXT`: the one behind it, or one with free ones behind
    /// it, so that files that grow at the same time do not mix.
    #[inline(never)]
    fn promise(&mut self) -> u32 {
        let block = self.get(NEXT) + 1;
        self.look_at_all();
        if block.wrapping_sub(self.data) < self.looks && self.state(block) == FREE {
            return block;
        }
        let block = self.find_free();
        self.rotor += APART;
        block
    }

    /// Writes the full nodes that wait in the buffer.
    #[inline(always)]
    pub(crate) fn write_waiting(&mut self) {
        if Self::BUF > 1 {
            self.write_all_waiting();
        }
    }

    #[inline(never)]
    fn write_all_waiting(&mut self) {
        let n = self.waiting();
        if n > 0 && self.ok() {
            self.waiting = 0;
            self.unflushed = true;
            let from = self
                .mem
                .get(BUFFER..BUFFER + n as usize)
                .unwrap_or_default();
            let from = bytemuck::cast_slice(from.as_flattened());
            if let Err(error) = self.dev.write(self.waiting_at, from) {
                self.device_failed(error);
            }
            self.node_at = n as u8;
            self.move_to_front();
        }
    }

    /// Makes the block of the buffer that was last looked at its first one.
    #[inline(always)]
    pub(crate) fn move_to_front(&mut self) {
        if Self::BUF > 1 {
            self.mem[BUFFER] = self.mem[self.buffer(self.node_at())];
            self.node_at = 0;
        }
    }

    /// Where the words of the copy of a node begin; `COPIES` if it has none.
    #[inline(always)]
    pub(crate) fn find_copy(&self, index: u32) -> u32 {
        let mut i = 0;
        while i < self.get(COPIES) && self.cell(INDEX, i) & !AWAY != index {
            i += COPY;
        }
        i
    }

    /// The block that holds a node that has two.
    #[inline(always)]
    pub(crate) fn place(&self, copy: u32) -> u32 {
        let copy = copy_at(copy);
        let is_away = self.get(INDEX + copy) & AWAY != 0;
        self.get(if is_away { SECOND } else { HOME } + copy)
    }

    /// Brings the node `index` to the buffer, which the node that led there says to be at `block`.
    #[inline(never)]
    pub(crate) fn load_node(&mut self, index: u32, mut block: u32) {
        let copy = self.find_copy(index);
        if copy < self.get(COPIES) {
            block = self.place(copy);
        }
        let at = block.wrapping_sub(self.read_at);
        let differs = if Self::BUF > 1 && at < self.read.into() {
            self.node_at = at as u8;
            let init = self.node_init(index);
            // It may be looked at again.
            let which = self.buffer(at);
            let (crc, held) = unseal(&mut self.mem[which], init);
            seal(&mut self.mem[which], init, crc ^ held);
            crc ^ held
        } else {
            self.forget_buffer();
            self.read_at = block;
            self.fetch_node(BUFFER, index, block)
        };
        self.node = index.wrapping_add(1);
        if differs > EPOCH_BITS {
            self.fail(Error::BadNode);
        }
    }

    /// Brings the blocks of the group that `block` is in to the buffer, from it on, in one command;
    /// not more than there are nodes from `index` on.
    #[inline(never)]
    fn read_ahead(&mut self, index: u32, block: u32) {
        let n = (Self::BUF - block % Self::BUF).min(self.get(COUNT).wrapping_sub(index));
        if n < 2 || block.wrapping_sub(self.read_at) < self.read.into() || block >= self.blocks - n
        {
            return;
        }
        self.forget_buffer();
        let to = self
            .mem
            .get_mut(BUFFER..BUFFER + n as usize)
            .unwrap_or_default();
        // What is wrong with one of them is seen when it is looked at.
        let to = bytemuck::cast_slice_mut(to.as_flattened_mut());
        if self.dev.read(block, to).is_ok() {
            self.read = n as u8;
            self.read_at = block;
        }
    }

    /// A pointer of the node last looked at: 0 `prev`, 1 `jump`, 2 `next`.
    #[inline(always)]
    pub(crate) fn pointer(&self, i: u32) -> u32 {
        let word = self.mem[self.buffer(self.node_at())][i as usize & 127];
        u32::from_le(word) & NUMBER
    }

    /// Brings the node `index` to the buffer. Costs no read if it was there,
    /// one if it follows the one that was, else at most two for each level of its tree.
    #[inline(never)]
    pub(crate) fn find_node(&mut self, index: u32) {
        if self.node == index + 1 {
            return;
        }
        if self.node == index && index > 0 {
            let block = self.pointer(2);
            if Self::BUF > 1 {
                self.read_ahead(index, block);
            }
            return self.load_node(index, block);
        }
        self.put_away();
        self.walk(index, false);
    }

    /// Brings the node `index`, which is in the list, to the buffer, from the root of its tree on.
    /// With `cut`, the roots become those of a list that ends with it.
    #[inline(never)]
    pub(crate) fn walk(&mut self, index: u32, cut: bool) {
        let (i, before) = self.tree_of(index + 1);
        let mut size = tree(self.get(COUNT) - before);
        let mut block = self.cell(ROOTS, i);
        // Otherwise they go where it does not matter.
        let mut root = if cut { ROOTS as u32 + i } else { LAST as u32 };
        // Each step goes to a lower index.
        let mut at = before + size - 1;
        self.load_node(at, block);
        while at != index && self.ok() {
            at -= 1;
            size >>= 1;
            block = self.pointer(0);
            self.load_node(at, block);
            let older = self.pointer(1);
            if at - index >= size {
                at -= size;
                block = older;
                self.load_node(at, block);
            } else {
                // The older half stays as a whole.
                self.set_cell(0, root, older);
                root += u32::from(cut);
            }
        }
        self.set_cell(0, root, block);
    }
}

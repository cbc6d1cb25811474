//! The list of a file's nodes, the newest first, with one jump pointer in each.
//!
//! A node is a sealed block of 500 bytes of the file; its numbers are the blocks of the node
//! before it (`prev`), of a node further back (`jump`), and of the one that comes next (`next`),
//! which is promised before it is written.
//!
//! The nodes form trees of 2^k - 1 nodes (a skew-binary list): the node with index `i` that is the
//! root of a tree of `s` nodes covers the indexes from `i - s + 1` to `i`, `prev` is the root of
//! the newer half, and the jump of that is the root of the older half. The header keeps the roots.
//! So any node is reached in two reads a level, and an append needs no read.

use flashkit_block::BlockDevice;

use crate::block::{CHECK, NUMBER, NUMBER_BITS, copy, seal};
use crate::header::{COPIES, COUNT, DEPTH, EPOCH, HOME, INDEX, NEXT, PLACE, ROOTS, UID, USED};
use crate::map::{FREE, RESERVED, USED as TAKEN};
use crate::store::BUFFER;
use crate::{Error, NanoFs};

/// Nodes that may be written without a header.
const SINCE_MAX: u32 = 512;
/// The epoch's place in the third word of a node.
const EPOCH_TOP: u32 = NUMBER_BITS;
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

/// Nodes in the tree of a root.
pub(crate) fn tree(root: u32) -> u32 {
    (1 << (root >> 24 & 31)) - 1
}

impl<D: BlockDevice, const N: usize> NanoFs<D, N> {
    /// A root, counted from the newest, 0; 0 if there is just one less.
    #[inline(never)]
    pub(crate) fn root(&self, from_top: u32) -> u32 {
        self.cell(ROOTS - 1, self.get(DEPTH).wrapping_sub(from_top))
    }

    #[inline(never)]
    pub(crate) fn push_root(&mut self, block: u32, level: u32) {
        let depth = self.get(DEPTH);
        self.set(DEPTH, depth + 1);
        self.set_cell(ROOTS, depth, block | level << 24);
    }

    /// Takes the node at `NEXT` into the list, and `next` becomes that; its pointers become the
    /// numbers of a block in RAM.
    #[inline(never)]
    pub(crate) fn take_next(&mut self, which: usize, next: u32) {
        let at = self.get(NEXT);
        let prev = self.root(0);
        let mut jump = prev;
        let mut level = prev >> 24;
        if level != 0 && level == self.root(1) >> 24 {
            jump = self.root(2);
            self.set(DEPTH, self.get(DEPTH) - 2);
        } else {
            level = 0;
        }
        self.set_number(which, 0, prev);
        self.set_number(which, 1, jump);
        self.set_number(which, 2, next);
        self.push_root(at, level + 1);
        self.set(COUNT, self.get(COUNT) + 1);
        self.set(NEXT, next);
        self.since += 1;
        self.mark(at, TAKEN);
        self.mark(next, RESERVED);
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
                self.mark(block, RESERVED);
            }
        }
        let next = self.promise();
        if !self.ok() {
            return;
        }
        let at = self.get(NEXT);
        let init = self.init(self.get(UID), self.get(COUNT));
        self.take_next(BUFFER + self.waiting as usize, next);
        self.set(USED, 0);
        self.tail_changed = false;
        let epoch = self.get(EPOCH) << EPOCH_TOP;
        let node = &mut self.mem[(BUFFER + self.waiting as usize).min(N - 1)];
        seal(node, init);
        node[2] ^= epoch.to_le();
        if Self::BUF == 1 {
            self.write_block(BUFFER, at);
        } else {
            self.wait(at);
        }
        if self.since >= SINCE_MAX {
            self.write_header();
        }
        #[cfg(feature = "compare")]
        self.write_as_the_paper();
    }

    /// A node is to be written with those before it.
    fn wait(&mut self, at: u32) {
        if self.waiting == 0 {
            self.waiting_at = at;
        }
        self.waiting += 1;
        if self.waiting >= Self::BUF || self.get(NEXT) != at + 1 {
            self.write_waiting();
        }
    }

    #[cfg(feature = "compare")]
    fn write_as_the_paper(&mut self) {
        if self.list == List::RollForward {
            return;
        }
        self.write_waiting();
        let prev = self.number(BUFFER, 0);
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
        if block > self.data && block < self.blocks && self.state(block) == FREE {
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
        let n = self.waiting;
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
            self.move_to_front(n);
        }
    }

    /// Makes a block of the buffer its first one.
    #[inline(always)]
    pub(crate) fn move_to_front(&mut self, at: u32) {
        if Self::BUF > 1
            && at > 0
            && let Some((first, rest)) = self.mem.get_mut(BUFFER..).and_then(<[_]>::split_first_mut)
            && let Some(from) = rest.get(at as usize - 1)
        {
            copy(bytemuck::cast_slice_mut(first), bytemuck::cast_slice(from));
        }
    }

    /// Which of the copies is of a node; `COPIES` if none is.
    #[inline(never)]
    pub(crate) fn find_copy(&self, index: u32) -> u32 {
        let mut i = 0;
        while i < self.get(COPIES) && self.cell(INDEX, i) & !HOME != index {
            i += 1;
        }
        i
    }

    /// Brings the node `index` to the buffer, which the node that led there says to be at `block`;
    /// whether it is one.
    #[inline(never)]
    pub(crate) fn load_node(&mut self, index: u32, mut block: u32) -> bool {
        let copy = self.find_copy(index);
        if copy < self.get(COPIES) {
            block = self.cell(PLACE, copy);
        }
        let init = self.init(self.get(UID), index);
        let at = block.wrapping_sub(self.read_at);
        let differs = if Self::BUF > 1 && at < self.read {
            self.node_at = at;
            seal(&mut self.mem[(BUFFER + at as usize).min(N - 1)], init)
        } else {
            self.forget_buffer();
            self.read_at = block;
            self.read = 1;
            self.fetch(BUFFER, block, init)
        };
        self.node = index + 1;
        differs & CHECK == 0 || self.fail(Error::BadNode)
    }

    /// Brings the blocks of the group that `block` is in to the buffer, from it on, in one command;
    /// not more than there are nodes from `index` on.
    #[inline(never)]
    fn read_ahead(&mut self, index: u32, block: u32) {
        let n = (Self::BUF - block % Self::BUF).min(self.get(COUNT).wrapping_sub(index));
        if n < 2 || block.wrapping_sub(self.read_at) < self.read || block >= self.blocks - n {
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
            self.read = n;
            self.read_at = block;
        }
    }

    /// A pointer of the node last looked at: 0 `prev`, 1 `jump`, 2 `next`.
    #[inline(never)]
    pub(crate) fn pointer(&self, i: u32) -> u32 {
        let word = self.mem[(BUFFER + self.node_at as usize).min(N - 1)][i as usize & 127];
        u32::from_le(word) & NUMBER
    }

    /// Brings the node `index` to the buffer; whether it is there. Costs no read if it was there,
    /// one if it follows the one that was, else at most two for each level of its tree.
    #[inline(never)]
    pub(crate) fn find_node(&mut self, index: u32) -> bool {
        if self.node == index + 1 {
            return true;
        }
        if self.node == index && index > 0 {
            let block = self.pointer(2);
            if Self::BUF > 1 {
                self.read_ahead(index, block);
            }
            return self.load_node(index, block);
        }
        self.put_away();
        // The root of the tree that holds it.
        let mut at = self.get(COUNT);
        let mut root;
        let mut depth = 0;
        loop {
            root = self.root(depth);
            depth += 1;
            let below = at.wrapping_sub(tree(root));
            if below >= at {
                return self.fail(Error::BadNode);
            }
            if below <= index {
                break;
            }
            at = below;
        }
        let mut size = tree(root);
        let mut block = root & NUMBER;
        // Each step goes to a lower index.
        at -= 1;
        while self.load_node(at, block) && at != index {
            let is_older = at - index >= size;
            block = self.pointer(is_older.into());
            if is_older {
                at -= size;
            } else {
                at -= 1;
                size >>= 1;
            }
        }
        self.ok()
    }
}

//! A short list of blocks, in RAM that is there for it.

/// At most `N` blocks.
#[derive(Clone, Copy)]
pub(crate) struct BlockList<const N: usize> {
    blocks: [u16; N],
    len: u8,
}

impl<const N: usize> Default for BlockList<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> BlockList<N> {
    pub const fn new() -> Self {
        BlockList {
            blocks: [0; N],
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_full(&self) -> bool {
        self.len() >= N
    }

    /// Adds a block; `false` when there is no room for it.
    pub fn push(&mut self, block: u16) -> bool {
        let room = self.blocks.get_mut(usize::from(self.len));
        if let Some(place) = room {
            *place = block;
            self.len += 1;
            return true;
        }
        false
    }

    pub fn as_slice(&self) -> &[u16] {
        self.blocks.get(..self.len()).unwrap_or_default()
    }

    pub fn contains(&self, block: u32) -> bool {
        self.as_slice().contains(&(block as u16))
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> Self {
        core::mem::take(self)
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }
}

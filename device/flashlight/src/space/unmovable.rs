//! Blocks with pages that could not be moved: no victims in this session.

/// The last of them, and from which rank on victims are looked for.
pub(crate) struct Unmovable {
    blocks: [u16; 8],
    next: u8,
    /// The highest rank that one of them had; zeros before the first.
    rank: (u32, u32),
    /// The block from which on ranks count as long as there is such a rank: the one filled
    /// earliest.
    pub oldest: u32,
}

impl Unmovable {
    pub fn new() -> Self {
        Unmovable {
            blocks: [u16::MAX; 8],
            next: 0,
            rank: (0, 0),
            oldest: 0,
        }
    }

    pub fn contains(&self, block: u32) -> bool {
        self.blocks.contains(&(block as u16))
    }

    /// Notes a block, and the rank that it was found with.
    pub fn add(&mut self, block: u32, rank: Option<(u32, u32)>) {
        let n = usize::from(self.next) % self.blocks.len();
        self.blocks[n] = block as u16;
        self.next = n as u8 + 1;
        self.rank = self.rank.max(rank.unwrap_or_default());
    }

    /// All that was in a block is gone, and so is what kept it there.
    pub fn forget(&mut self, block: u32) {
        let mut noted = self.blocks.iter_mut();
        if let Some(noted) = noted.find(|noted| u32::from(**noted) == block) {
            *noted = u16::MAX;
        }
    }

    /// Whether a rank is behind those of all that were given up.
    pub fn is_behind(&self, rank: (u32, u32)) -> bool {
        rank > self.rank
    }

    /// Before victims are looked for: ranks count from where free blocks are taken.
    pub fn begin(&mut self, cursor: u32) {
        if self.rank == (0, 0) {
            self.oldest = cursor;
        }
    }

    /// All ranks are looked at again.
    pub fn forget_rank(&mut self) {
        self.rank = (0, 0);
    }
}

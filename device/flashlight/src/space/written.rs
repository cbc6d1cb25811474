//! Counts of what has been written.

use crate::format::area::HEADS;

/// What has been written since the mount, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Pages of file data written for the caller.
    pub data: u64,
    /// Of them, those that a recovery would find by their tags.
    pub updates: u64,
    /// Pages of file data moved by cleaning.
    pub moved_data: u64,
    /// Metadata pages moved by cleaning.
    pub moved_meta: u64,
    /// Pages of each metadata area: bitmap, DirInode map, DirInode, hash
    /// map, FileInode, extent map.
    pub areas: [u64; HEADS],
    /// Pages that say which pages of blocks are valid, in the blocks of
    /// extent maps and not among them.
    pub validity: u64,
    /// Checkpoint pages with their anchors.
    pub checkpoint: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Blocks cleaned.
    pub cleaned: u64,
    /// Of them, those that had an unwritten tail (the paper's compaction).
    pub compacted: u64,
    /// Blocks moved for the sake of wear, and the pages of data and metadata in them; not among
    /// those above.
    pub levelled: u64,
    /// See there.
    pub levelled_pages: u64,
    /// Blocks written anew because bits of their pages had to be corrected, and the pages moved
    /// for that; not among those above.
    pub refreshed: u64,
    /// See there.
    pub refreshed_pages: u64,
}

impl Written {
    /// Pages moved by cleaning.
    pub(crate) fn moved(&self) -> u64 {
        self.moved_data + self.moved_meta
    }

    /// What cleaning has done: pages of data and metadata moved, blocks cleaned and compacted.
    pub(crate) fn cleaning(&self) -> [u64; 4] {
        [
            self.moved_data,
            self.moved_meta,
            self.cleaned,
            self.compacted,
        ]
    }

    /// Takes what has been done since `before` out of what cleaning has done, to be counted apart;
    /// gives the pages.
    pub(crate) fn set_apart(&mut self, before: [u64; 4]) -> u64 {
        let pages = self.moved() - before[0] - before[1];
        [
            self.moved_data,
            self.moved_meta,
            self.cleaned,
            self.compacted,
        ] = before;
        pages
    }
}

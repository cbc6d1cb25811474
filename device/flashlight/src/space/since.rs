//! What has been written and taken since the last checkpoint: what a recovery would have to read
//! again, and could not have.

/// Counts that a checkpoint sets back.
#[derive(Default)]
pub(crate) struct SinceCheckpoint {
    /// Blocks taken.
    pub taken: u32,
    /// Blocks that were free before the checkpoint made more of them so. A recovery from it has
    /// these alone, less those taken since, until it has a checkpoint of its own.
    pub free_before: u32,
    /// Pages of inodes.
    pub inode_pages: u32,
    /// Pages of directories, their maps and the map of them.
    pub index_pages: u32,
    /// Removals that inode pages have recorded.
    pub removals: u32,
    /// Pages of updates.
    pub updates: u32,
    /// Blocks reserved for updates; those reserved at the checkpoint included.
    pub update_blocks: u32,
    /// The patrol has come to another sixteenth of the chip.
    pub patrolled: bool,
}

impl SinceCheckpoint {
    /// What a recovery would have to replay, in inode pages.
    pub fn to_replay(&self) -> u32 {
        self.inode_pages + self.updates / 2 + self.removals * 3 / 4
    }
}

//! How many blocks and pages there are of each kind.

/// Follows from the block table, and is kept beside it.
#[derive(Default)]
pub(crate) struct Tally {
    /// Blocks that are not bad.
    pub good: u32,
    /// Blocks in state free or clean.
    pub free: u32,
    /// Blocks in state dead: free after the next checkpoint.
    pub dead: u32,
    /// Pages in use for file data and metadata (checkpoints and allocation log apart).
    pub live: u32,
}

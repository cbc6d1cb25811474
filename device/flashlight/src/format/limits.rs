//! How much of each kind the checkpoint page and its anchors have room for.

/// Blocks reserved ahead at most: the batches of all areas, the allocation log's, and one
/// each of some areas in turn.
pub(crate) const RESERVES: usize = 36;

/// Blocks of the allocation log between two checkpoints at most.
pub(crate) const BITMAP_BLOCKS: usize = 8;

/// Blocks of the checkpoint that the next one makes free, at most.
pub(crate) const RETIRING: usize = 24;

/// Blocks with an unwritten tail that are remembered at most.
pub(crate) const REMNANTS: usize = 32;

/// Root blocks are among the first so many.
pub(crate) const ROOT_BLOCKS: u32 = 64;

/// Good blocks that are kept for roots: the first two of them are in use.
pub(crate) const ROOTS: u32 = 4;

/// Places in a checkpoint.
pub(crate) const MAP_PAGES: usize = 64;

/// Blocks reserved for updates between two checkpoints at most.
pub(crate) const UPDATE_BLOCKS: usize = 40;

/// Leaf blocks that one after another could not be anchored, at most.
pub(crate) const CHAIN: usize = 16;

/// Bytes of deferred changes beyond those that the least RAM has room for.
pub(crate) const DEFERRED_MOST: usize = 32_768;
/// Pages of a snapshot at most.
pub(crate) const SNAPSHOT_PAGES: usize = 72;

/// Pages used of a root block and of a second-level block.
pub(crate) const ANCHOR_PAGES: u32 = 8;

/// By so much the numbers of a recovery's pages are above those of what it began from: more than a
/// recovery before, whose checkpoint could not be read, had gone on by.
pub(crate) const NEWER: u64 = 1 << 17;

/// Bytes 4 to 7 of a transfer record (`api/transfer.rs`), which a boot reader tells as well.
pub(crate) const TRANSFER: u32 = u32::from_le_bytes(*b"FLtr");

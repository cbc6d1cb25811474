//! Limits of free blocks: who may take them down to where (docs/design.md, section 15).

use crate::format::area::{DATA_HEADS, HEADS};
use crate::format::blockstate::BlockState;
use crate::format::deferred::HASHES_LEAST;
use crate::format::limits::{REMNANTS, RESERVES};
use crate::format::snapshot::PIECE;
use crate::format::validity;
use crate::space::{dirty, paged};
use flashkit_nand::Geometry;

/// Bytes of the paper's dirty list, or of a shorter one beside a table that is on flash.
const fn entries_size(geo: &Geometry, is_paged: bool) -> usize {
    let entries = if is_paged {
        paged::DIRTY_ENTRIES
    } else {
        dirty::ENTRIES
    };
    entries * dirty::entry_size(geo.pages_per_block())
}

/// Bytes of names of directories with the least RAM, of those that the entries had.
pub(crate) const fn known_dirs_least(geo: &Geometry, is_paged: bool) -> usize {
    entries_size(geo, is_paged) / 16
}

/// Bytes of the dirty list with the least RAM: names of directories and the hashes of two
/// directories take some of those that the entries had.
pub(crate) const fn least_list(geo: &Geometry, is_paged: bool) -> usize {
    entries_size(geo, is_paged) - known_dirs_least(geo, is_paged) - 2 * HASHES_LEAST
}

/// Bytes of deferred changes at most with the least RAM: half of those of the dirty list, and what
/// two pages of a snapshot hold. So much is reckoned there beside what is deferred with more RAM.
pub(crate) const fn deferred_least(geo: &Geometry, is_paged: bool) -> usize {
    let bytes = least_list(geo, is_paged);
    let half = (bytes - validity::room(geo, bytes)) / 2;
    let pages = 2 * (geo.page_size() as usize - PIECE);
    if half < pages { half } else { pages }
}

/// Free blocks below which writing waits for cleaning. A victim's pages may each need a page of an
/// extent map and of its index, so a round of cleaning takes more blocks than it empties, until
/// the checkpoint that ends it.
pub(crate) fn low(geo: &Geometry) -> u32 {
    urgent(geo) + 4 + (geo.blocks() / 96).min(24)
}

/// Free blocks at which a change waits for as much cleaning as it takes: as many above those that
/// no write takes as a change takes before it knows how many pages it writes.
pub(crate) fn urgent(geo: &Geometry) -> u32 {
    FOR_CLEANING + 2 + 32 / geo.pages_per_block()
}

/// Free blocks that cleaning itself leaves alone: a checkpoint and a recovery need them.
pub(crate) const FLOOR: u32 = 10;

/// Free blocks with which a change begins at least, a removal as well, less one: as many as it may
/// take, so that it does not end halfway. What it leaves is for cleaning.
pub(crate) fn last(pages_per_block: u32) -> u32 {
    8 + 16 / pages_per_block
}

/// Blocks that cleaning leaves when nothing is dead, but for a block of which little is valid.
pub(crate) const CLEANING: u32 = 4;

/// Blocks that cleaning leaves in any case, to the checkpoint that makes free what it has won.
pub(crate) const FOR_CHECKPOINT: u32 = 2;

/// Free blocks that no write takes: above what cleaning leaves alone, so that it can always begin.
pub(crate) const FOR_CLEANING: u32 = FLOOR + 2;

/// Blocks that stay free for recoveries between two checkpoints: one for each area, those
/// that the allocation log and the checkpoint keep ahead, and leaves of recoveries that
/// are cut one after another.
pub(crate) const FOR_RECOVERY: u32 = 12;

/// Blocks that what is stored leaves in any case: those that no write takes, those of open logs and
/// data heads, of the allocation log and of the checkpoint.
const FOR_SYSTEM: u32 = 27;

/// Blocks taken between two checkpoints at most.
pub(crate) const TAKEN_MAX: u32 = 256;

/// Inode pages written between two checkpoints at most: recovery reads them. A page of an update
/// counts as a half, and a removal that a page records as three quarters.
pub(crate) const INODE_PAGES_MAX: u32 = 464;

/// The same where a recovery reads pages of the block table besides.
pub(crate) const INODE_PAGES_PAGED: u32 = 400;

/// Blocks that go bad in use before the volume is worn out: one in fifty, as data sheets allow, and
/// some, because fifty is more than small chips have to spare.
pub(crate) fn grown_max(blocks: u32) -> u32 {
    8 + blocks / 50
}

/// Blocks that no file gets: for cleaning, checkpoints and recovery, also when as many have gone
/// bad as may on a full volume.
pub(crate) fn reserve_blocks(blocks: u32) -> u32 {
    (36 + blocks / 64).max(FOR_SYSTEM + grown_max(blocks))
}

/// What free blocks are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A change, between two calls of [`Volume::make_room`].
    Change,
    /// A step of cleaning: one page, the maps of one index page, or what
    /// [`Volume::job_step`] is allowed.
    Step,
    /// A checkpoint, with what it makes durable.
    Checkpoint,
    /// All of a recovery.
    Recovery,
}

/// What cleaning a block costs; `None` where nothing can be won. A block of metadata that is young
/// dies by itself, so data goes first.
pub(crate) fn cost(state: BlockState, pages_per_block: u32) -> Option<u32> {
    match state {
        BlockState::Meta(n) if n <= pages_per_block / 16 => Some(2 * n),
        BlockState::Meta(n) if n < pages_per_block => Some(4 * pages_per_block + n),
        BlockState::Data(n) if n < pages_per_block => Some(3 * n),
        _ => None,
    }
}

/// What each page costs that cleaning a block wins, when free blocks are few: up to the pages of a
/// block; `None` where nothing can be won.
pub(crate) fn cost_of_gain(state: BlockState, pages_per_block: u32) -> Option<u32> {
    let (moves, won) = match state {
        BlockState::Meta(n) if n < pages_per_block => (6 * n, pages_per_block - n),
        BlockState::Data(n) if n < pages_per_block => (3 * n, pages_per_block - n),
        _ => return None,
    };
    Some(pages_per_block * moves / (moves + 8 * won))
}

/// Blocks that may be taken between checkpoints, and by a recovery for the pages of directories, so
/// that it can list them in a page.
pub(crate) fn opened_max(page_size: usize) -> u32 {
    (page_size / ENTRY) as u32 - (RESERVES + REMNANTS + HEADS + DATA_HEADS + OWN) as u32
}

/// Blocks that a recovery takes at most, but for those with the pages of directories.
pub(crate) const OWN: usize = 16;

/// `block u16, info u16`: bits 0 to 10 the first lost page, 11 to 14 the area, 15 fresh.
pub(crate) const ENTRY: usize = 4;

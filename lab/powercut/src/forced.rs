//! What a script forces to happen, told by what is programmed and counted, so that a script which
//! does not do what it is for is a failure.

use flashkit_flashlight::{Kind, Written};

/// Something that happens only when a script goes far enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forced {
    /// A block was cleaned.
    Cleaning,
    /// A block with an unwritten tail was cleaned.
    Compaction,
    /// Cleaning moved a page of file data.
    DataMove,
    /// Cleaning moved a page of metadata.
    MetaMove,
    /// A block at rest was moved for the sake of wear.
    WearMove,
    /// A block was written anew because of corrected bits.
    Refresh,
    /// A page was written that a recovery finds by its tag.
    Update,
    /// The page of a new file recorded what was removed before.
    Removal,
    /// Names moved to a hash map.
    HashMap,
    /// A hash map was split.
    HashSplit,
    /// An index page of hash maps was written.
    HashIndex,
    /// Extents moved to an extent map.
    ExtentMap,
    /// An extent map was split.
    ExtentSplit,
    /// An index page of extent maps was written.
    ExtentIndex,
    /// A page of names of a file was written.
    NamesPage,
    /// A page of the DirInode map came into being.
    MapPage,
    /// A page of a block table on flash was written.
    TablePage,
    /// Entries of a full dirty list were written.
    ValidityPage,
    /// A checkpoint was taken.
    Checkpoint,
    /// A checkpoint began a leaf block.
    Leaf,
    /// A second-level page was written.
    SecondLevel,
    /// A second-level block was begun.
    SecondLevelBlock,
    /// A root page was written.
    Root,
    /// The other root block was begun.
    RootBlock,
    /// The allocation log went on in a new block.
    AllocationBlock,
    /// A program failed.
    ProgramFailure,
    /// An erase failed.
    EraseFailure,
    /// A block was marked bad.
    BlockRetired,
    /// An operation found no space.
    Full,
}

/// What the program of a page shows, which is page `index` of its block.
pub(crate) fn forced_by(kind: Option<Kind>, page: &[u8], index: u32) -> Vec<Forced> {
    let word = |at: usize| {
        page.get(at..at + 4)
            .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    // A map that replaces none and does not begin at key 0 came of a split; nor does one that
    // begins there and ends before the last key. Only the first map of an inode covers all.
    let (prev, first, end) = (word(28), word(44), word(48));
    let is_split = |last: u32| prev == u32::MAX && (first > 0 || end < last);
    let first_of = |what: Forced| (index == 0).then_some(what);
    // A file's records are the last in its page, 12 bytes each.
    let notes_removal = || {
        let records = (word(116) & 0xffff) as usize;
        (1..=records).any(|r| word(page.len().saturating_sub(12 * r)) == u32::MAX - 3)
    };
    let all = match kind {
        Some(Kind::File) => [notes_removal().then_some(Forced::Removal), None],
        Some(Kind::HashMap) => [
            Some(Forced::HashMap),
            is_split((1 << 28) - 1).then_some(Forced::HashSplit),
        ],
        Some(Kind::ExtentMap) => [
            Some(Forced::ExtentMap),
            is_split(u32::MAX - 15).then_some(Forced::ExtentSplit),
        ],
        Some(Kind::HashIndex) => [Some(Forced::HashIndex), None],
        Some(Kind::ExtentIndex) => [Some(Forced::ExtentIndex), None],
        Some(Kind::Checkpoint) => [Some(Forced::Checkpoint), first_of(Forced::Leaf)],
        Some(Kind::Second) => [
            Some(Forced::SecondLevel),
            first_of(Forced::SecondLevelBlock),
        ],
        Some(Kind::Root) => [Some(Forced::Root), first_of(Forced::RootBlock)],
        Some(Kind::DirMap) => [(prev == u32::MAX).then_some(Forced::MapPage), None],
        Some(Kind::Names) => [Some(Forced::NamesPage), None],
        Some(Kind::Table) => [Some(Forced::TablePage), None],
        Some(Kind::Validity) => [Some(Forced::ValidityPage), None],
        Some(Kind::Alloc) => [first_of(Forced::AllocationBlock), None],
        _ => [None, None],
    };
    all.into_iter().flatten().collect()
}

/// What the counters of a session show.
pub(crate) fn forced_in(written: &Written) -> Vec<(Forced, u64)> {
    vec![
        (Forced::Cleaning, written.cleaned),
        (Forced::Compaction, written.compacted),
        (Forced::DataMove, written.moved_data),
        (Forced::MetaMove, written.moved_meta),
        (Forced::WearMove, written.levelled),
        (Forced::Refresh, written.refreshed),
        (Forced::Update, written.updates),
    ]
}

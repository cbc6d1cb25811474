//! The disk's state, and what its mechanisms keep there.

use crate::error::Error;
use crate::journal::Watch;
use crate::layout::{HEADS, Layout, NONE};
use crate::memory::Memory;
use crate::ram::Ram;
use crate::record::FIRST_BLOCKS;

/// What a disk has done since it was mounted. Pages are programs, failed ones left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sectors that the host wrote, elided ones included.
    pub sectors_written: u64,
    /// Of these, sectors of a journal.
    pub journal_sectors: u64,
    /// Of these, homes that were mapped to a page of the journal instead of being programmed.
    pub elided: u64,
    /// Of these, sectors of a journal that were mapped to the page of an older copy instead.
    pub unchanged: u64,
    /// Of these, sectors of a journal that were packed, several in a page.
    pub packed: u64,
    /// Pages of such sectors.
    pub packed_pages: u64,
    /// Of these, sectors of zeros, which have no page.
    pub zeros: u64,
    /// Sectors that [`Jftl::remap`] has mapped.
    pub remapped: u64,
    /// Sectors that the host read.
    pub sectors_read: u64,
    /// Sectors that the host trimmed, of those that held something.
    pub sectors_trimmed: u64,
    /// Pages of the log.
    pub log_pages: u64,
    /// Pages of the map.
    pub map_pages: u64,
    /// Pages of tags, where there are no spare bytes.
    pub tag_pages: u64,
    /// Anchors.
    pub anchors: u64,
    /// Pages that cleaning moved, those of the map included.
    pub copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks cleaned because their bits rot.
    pub refreshed: u64,
    /// Blocks cleaned because their data rested.
    pub levelled: u64,
    /// Blocks marked bad.
    pub gone_bad: u64,
    /// Blocks with pages whose owners had to be searched for in the map.
    pub searches: u64,
}

/// Why a mounted disk can only be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The mount needed a page, and could not read it.
    Page {
        /// What it is.
        what: &'static str,
        /// The page.
        page: u32,
    },
    /// No block is left for the log, or for its anchors: too many have gone bad. Nothing is lost.
    NoBlock,
}

impl Damage {
    /// What a mount, or a change, ends with for it.
    pub(crate) fn error<E>(self) -> Error<E> {
        match self {
            Damage::Page { what, page } => Error::Damaged { what, page },
            Damage::NoBlock => Error::Full,
        }
    }
}

impl core::fmt::Display for Damage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Damage::Page { what, page } => write!(
                f,
                "page {page}, {what}, cannot be read: the disk is there for reading alone, some of it as it was earlier"
            ),
            Damage::NoBlock => f.write_str(
                "no good block is left for the log: the disk is there for reading alone, nothing of it is lost",
            ),
        }
    }
}

/// Head of what the host writes.
pub(crate) const HOST: usize = 0;
/// Head of what cleaning moves.
pub(crate) const COLD: usize = 1;
/// Head of map pages.
pub(crate) const MAP: usize = 2;
/// Head of data at rest that is moved for the sake of wear.
pub(crate) const REST: usize = 3;

const _: () = assert!(REST + 1 == HEADS as usize);

/// A block being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// [`NONE`]: none.
    pub block: u32,
    /// The next page.
    pub next: u32,
}

impl Head {
    pub const CLOSED: Head = Head {
        block: NONE,
        next: 0,
    };
}

/// Where the log is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// Number of the list's first block in the life of the log.
    pub ordinal: u32,
    /// Blocks in the list.
    pub len: u32,
    /// The one being written.
    pub at: u32,
    /// Its next page.
    pub page: u32,
    /// Number of the next log page.
    pub next: u32,
    /// Records that wait.
    pub fill: usize,
    /// First page of the newest whole snapshot.
    pub snap: u32,
    /// First page of the snapshot under way; 0: there is none.
    pub snap_new: u32,
    /// Its next part.
    pub part: u32,
    /// Where a recovery begins, as the last page says that no transaction can take back.
    pub start: u32,
    /// First page of the transaction under way; 0: there is none.
    pub tx: u32,
}

impl Log {
    pub const EMPTY: Log = Log {
        ordinal: 1,
        len: 0,
        at: u32::MAX,
        page: u32::MAX,
        next: 1,
        fill: 0,
        snap: 1,
        snap_new: 0,
        part: 0,
        start: 1,
        tx: 0,
    };
}

/// Where anchors go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchors {
    /// The blocks that take them in turn; [`NONE`]: none.
    pub set: [u32; 4],
    /// Which of them is being written, and its next page.
    pub at: usize,
    pub page: u32,
    /// The highest number that was seen.
    pub seq: u32,
    /// The name of the newest complete one, and its block.
    pub name: u32,
    pub home: u32,
    /// The block among the chip's first four that leads to it.
    pub root: u32,
    /// The block with a newer one, which no page of the log names.
    pub newer: u32,
    /// The block with the newest one that a page of the log names.
    pub named: u32,
}

impl Anchors {
    /// Before there is one.
    pub const EMPTY: Anchors = Anchors {
        set: FIRST_BLOCKS,
        at: FIRST_BLOCKS.len() - 1,
        page: u32::MAX,
        seq: 0,
        name: 0,
        home: NONE,
        root: 0,
        newer: NONE,
        named: NONE,
    };
}

/// A block that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub block: u32,
    /// Its next page, or behind the last one the next segment of the map to search: first those
    /// of the journal, then all.
    pub next: u32,
    /// The search through the map is on.
    pub searching: bool,
    /// Pages to move for each sector that the host writes.
    pub rate: u32,
    /// Where they go.
    pub head: usize,
}

/// Whether this build follows journals.
pub(crate) const JOURNALS: bool = cfg!(feature = "journals");

/// The page under construction.
#[derive(Default)]
pub(crate) struct Pack<'a> {
    /// A page, or nothing: then nothing is packed.
    pub page: &'a mut [u8],
    /// Its slots.
    pub count: u32,
    /// It is being programmed.
    pub is_busy: bool,
    /// The block that the last one went to, its packed pages, and their slots.
    pub block: u32,
    pub pages: u32,
    pub slots: u32,
}

/// A mounted disk over a NAND chip.
///
/// Calls are synchronous; what a call costs in flash operations is bounded by the chip and the
/// configuration alone.
pub struct Jftl<'a, N> {
    pub(crate) nand: N,
    pub(crate) lay: Layout,
    pub(crate) volume: u32,
    pub(crate) ram: Ram<'a>,
    pub(crate) log: Log,
    pub(crate) anchors: Anchors,
    pub(crate) heads: [Head; 4],
    pub(crate) job: Option<Job>,
    /// Where the next free block is looked for.
    pub(crate) cursor: u32,
    pub(crate) free: u32,
    pub(crate) dying: u32,
    /// The block at rest to be moved next, and the erases since the last one.
    pub(crate) wear: u32,
    pub(crate) erases: u32,
    /// The slot that was looked at last for old changes.
    pub(crate) hand: usize,
    /// How often the scratch page has been used, to see whether it still holds a page.
    pub(crate) scratch_uses: u32,
    pub(crate) failing: [u32; 8],
    pub(crate) refresh: [u32; 8],
    pub(crate) stuck: [u32; 8],
    /// Where a recovery under way began.
    pub(crate) recovering: Option<u32>,
    /// The log does not say yet that this session writes.
    pub(crate) untouched: bool,
    pub(crate) latched: bool,
    pub(crate) programs_zeros: bool,
    /// What was lost; then nothing is written.
    pub(crate) damage: Option<Damage>,
    pub(crate) stats: Stats,
    pub(crate) watch: Option<Watch<'a>>,
    pub(crate) memory: Memory<'a>,
    pub(crate) pack: Pack<'a>,
}

impl<'a, N> Jftl<'a, N> {
    /// What is known of a journal that is followed.
    pub(crate) fn watch(&self) -> Option<&Watch<'a>> {
        self.watch.as_ref().filter(|_| JOURNALS)
    }

    /// Whether a page that the mount needed is lost: then the map may lead to pages that hold
    /// another's data by now.
    pub(crate) fn is_salvaged(&self) -> bool {
        matches!(self.damage, Some(Damage::Page { .. }))
    }

    /// Slots of the page under construction.
    pub(crate) fn packed(&self) -> u32 {
        if JOURNALS { self.pack.count } else { 0 }
    }
}

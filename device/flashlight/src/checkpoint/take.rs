//! Checkpoints (paper, 4.4): where everything is, in one page and the snapshot of the block table.
//!
//! ```text
//! root page, in both of the first two good blocks (the first 8 pages of each):
//!   32 page size u32   36 spare size u32   40 pages per block u32   44 blocks u32
//!   48 second-level block u32   52 last block kept for roots u32   56 round u32
//!   60 blocks that were good at format time u32
//! second-level page, each twice (the first 8 pages of its block):
//!   32 leaf block u32
//! checkpoint page, in the leaf block:
//!   32 flags u8 (1: unmounted, 2: the page before says the same, 4: the DirInode map is wide)  33 round u8  34 root pages u8  35 second-level pages u8
//!   36 second-level block u16   38 next leaf u16
//!   40 next file number u32   44 live pages u32   48 orphans u32   52 cursor u32
//!   56 next directory number u32
//!   60 heads: block u16, next u16, of Bitmap, Map, Dir, Hash, File, Extent
//!   84 bitmap blocks: u16 each, 8; all ones: none
//!  100 reserved u8, snapshot pages u8, dirty entries u16
//!  104 copy of u64: 0, or the number of the checkpoint that this one repeats
//!  112 leaf after that u16     114 root page that counts u16
//!  116 copies of the DirInodes of the root and of the index directory: u32 each, all ones: none
//!  124 failing blocks: u16 each, 8; all ones: none
//!  140 wear levelling: next block u16, last place u16, moves u16, erases u16
//!  148 block where scrubbing goes on u16
//!  150 entries of a page of the block table, if that lies on flash, else 0
//!  152 reserved blocks: block u16, area u8, 0; snapshot pages: u32 each; block table; dirty list
//! ```
//! The pages of the snapshot: `snapshot.rs`. What is here of a block table on flash: `paged.rs`.
//!
//! Within a session, checkpoints fill the leaf block. A new leaf is the block that the last
//! checkpoint in the old one names, so that it is found even when the second-level page that should
//! point to it was cut. After an unclean stop only freshly erased blocks are written: never a page
//! that an interrupted program may have touched. For the second level and the root, which are not
//! erased each time, the checkpoint claims the page before it is programmed.
//!
//! A page whose program was cut may read well, and fail later. So the newest checkpoint found after
//! an unclean stop may fail yet, and the one before it be needed again. Hence
//! * a recovery begins with a *copy* of the checkpoint in a new leaf, and points the anchors there.
//!   Until they do, the copy says nothing but what it has claimed, and nothing is erased that the
//!   checkpoint before needs: a snapshot shows as dead, not as free, the blocks that its own
//!   checkpoint is to make free. When that is cut, the next copy goes to another leaf, so that the
//!   claims of the last survive: hence two leaves are named in advance;
//! * the last checkpoint of an unmount is written in two equal pages: while the second is
//!   programmed, the first is complete. Only the second says that the unmount is over. When it is not
//!   there, or no more, the first is where a recovery starts.
//!
//! Pages rot. So everything here is there twice: root pages in two blocks, second-level pages, and the
//! checkpoint with its snapshot. Both snapshots are written before the first of the checkpoint pages, and
//! with the second copies of the two directories that everything hangs on. Two good blocks after the root
//! blocks are kept to replace them: a root block that fails is marked bad, and the next one counts among
//! the first two.

use crate::cleaning::room::Purpose;
use crate::error::Error;
use crate::format::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::format::header::{HEADER, Kind, SEQ};
use crate::format::inode::DirView;
use crate::format::snapshot::{self, Piece};
use crate::index::dirmap::DirMap;
use crate::recovery::mount::root_blocks;
use crate::recovery::recover::NEWER;
use crate::space::erased::OF_LEAF;
use crate::space::paged::Layout;
use crate::space::store::{
    Area, BITMAP_BLOCKS, FRONTS, HEADS, Head, LATE, RESERVES, Store, UNSEEN, UPDATE,
};
use crate::space::table::State;
use crate::space::wear::{LEAF, SECOND};
use crate::{FIRST_FILE, FlashLight, INDEX_DIR, ROOT_DIR};
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};

/// Pages used of a root block and of a second-level block.
pub(crate) const ANCHOR_PAGES: u32 = 8;
/// Pages of a root block that a round uses. The others are for when one root block is left, which is not erased.
const ROUND_PAGES: u32 = 6;
/// Leaf blocks that one after another could not be anchored, at most.
pub(crate) const CHAIN: usize = 16;
/// Pages of a snapshot at most.
pub(crate) const SNAPSHOT_PAGES: usize = 72;
pub(crate) const COPY_OF: usize = 104;
const AFTER_NEXT: usize = 112;
const COUNTS: usize = 114;
pub(crate) const DIR_COPIES: usize = 116;
pub(crate) const FAILING: usize = 124;
pub(crate) const LEVELLING: usize = 140;
pub(crate) const SCRUB: usize = 148;
pub(crate) const PER_PAGE: usize = 150;
pub(crate) const FIELDS: usize = 152;
/// Checkpoint pages of an unmount and of others: the last repeat the first, and all are in one leaf if none fails.
const UNMOUNT_PAGES: u32 = 3;
const PAGES: u32 = 2;
/// Blocks of the allocation log at most that hold the snapshot of the first of two checkpoints: both, and some records, must find place in
/// the list of these blocks.
const KEPT: usize = 2;
/// Leaves tried for one checkpoint before it is given up.
const TRIES: usize = 9;
/// Flags of a checkpoint page.
const UNMOUNTED: u8 = 1;
const CONFIRMED: u8 = 2;
pub(crate) const WIDE: u8 = 4;
/// What a mount has cleaned after its recovery, and was cut in, has numbers of a recovery.
const TOLD: u8 = 8;
/// The checkpoint before, in the same leaf, says the same.
const REPEATED: u8 = 16;
const FLAGS: u8 = UNMOUNTED | CONFIRMED | WIDE | TOLD | REPEATED;
/// Bit of the next page of a block with an unwritten tail: it holds updates, and goes on with them.
const OF_UPDATES: u16 = 1 << 15;

/// Where the checkpoint's own pages are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    /// The first two good blocks, all ones for one that is missing, and the last block that may
    /// become one of them.
    pub roots: [u32; 2],
    pub last_root: u32,
    /// Blocks that were good at format time.
    pub good: u32,
    /// Pages of the root blocks that are claimed, and in which round: both root blocks are erased before
    /// their first page of a round, and never but for a new round.
    pub root_next: u32,
    pub round: u8,
    /// The rounds of which there are pages in the root blocks, whatever has left them; all ones: none.
    pub rounds: [u32; 2],
    /// Pages of each root block that are claimed, in the round that it shows.
    ends: [u8; 2],
    /// Root blocks that have no page of this round yet.
    pub stale: [bool; 2],
    /// The root block with the page that counts; if that is in both, the one that had it first.
    pub first: usize,
    /// That page ([`root_name`]).
    pub counts: u16,
    pub second: u32,
    pub second_next: u32,
    /// The second-level block that the root pages lead to, while `second` is being begun.
    pub old_second: u32,
    pub new_second: bool,
    /// Whether a program of the root page claimed last has been tried.
    root_tried: bool,
    /// The second-level block that the checkpoint found meant to be anchored in.
    pub meant: u32,
    pub leaf: Head,
    /// The leaves to come; all ones: none.
    pub next_leaves: [u32; 2],
    /// Leaves that lead from the anchored one to the current one.
    pub chain: [u32; CHAIN],
    pub chained: usize,
    /// The newest root page is in one of two root blocks only: the next checkpoint leads to one that is in both.
    pub root_alone: bool,
    /// Copies of the DirInodes of the root and of the index directory, as they were at the
    /// unmount.
    pub dir_copies: [PageAddr; 2],
}

impl Anchor {
    pub fn new(roots: [u32; 2]) -> Self {
        Anchor {
            roots,
            last_root: 0,
            good: 0,
            root_next: ANCHOR_PAGES,
            round: 0,
            rounds: [u32::MAX; 2],
            ends: [0; 2],
            stale: [true; 2],
            first: 0,
            counts: 0,
            second: u32::MAX,
            second_next: ANCHOR_PAGES,
            old_second: u32::MAX,
            new_second: false,
            root_tried: false,
            meant: u32::MAX,
            leaf: Head::NONE,
            next_leaves: [u32::MAX; 2],
            chain: [0; CHAIN],
            chained: 0,
            root_alone: false,
            dir_copies: [PageAddr::NONE; 2],
        }
    }

    pub fn push_chain(&mut self, leaf: u32) {
        if self.chained < CHAIN {
            self.chain[self.chained] = leaf;
            self.chained += 1;
        }
    }

    /// Whether one root block is left. It is never erased, nor given up.
    pub fn has_one_root(&self) -> bool {
        self.roots[1] == u32::MAX
    }

    /// With one root block left its round goes on, whatever has been claimed of another.
    pub fn go_on_alone(&mut self) {
        if self.has_one_root() {
            (self.round, self.root_next) = (self.rounds[0] as u8, self.ends[0].into());
            self.stale[0] = false;
        }
    }

    /// At a mount: pages of the root blocks that are claimed, if they show another round than the newest checkpoint as well.
    pub fn load_ends(&mut self, programmed: [u32; 2]) {
        for (side, programmed) in programmed.into_iter().enumerate() {
            self.ends[side] = match programmed {
                _ if !self.stale[side] => self.root_next,
                0..=ROUND_PAGES => ROUND_PAGES,
                _ => ANCHOR_PAGES,
            } as u8;
        }
    }

    /// Claims a root page. A round begins when a root block is to be erased, also if that has been so before and was cut: so
    /// what shows the round of the newest checkpoint has not been left by an erase.
    fn claim_root(&mut self) {
        if !self.has_one_root() && (self.root_next >= ROUND_PAGES || self.is_stale()) {
            self.root_next = 0;
            self.stale = [true; 2];
            loop {
                self.round = self.round.wrapping_add(1);
                if !self.rounds.contains(&self.round.into()) {
                    break;
                }
            }
        }
        self.root_next += 1;
        self.root_tried = false;
        for side in 0..2 {
            if !self.stale[side] {
                self.ends[side] = self.root_next as u8;
            }
        }
    }

    /// Whether a root block is to be erased before its next page.
    fn is_stale(&self) -> bool {
        (0..2).any(|side| self.stale[side] && self.roots[side] != u32::MAX)
    }

    /// Forgets root blocks beyond those kept for roots.
    pub fn limit_roots(&mut self) {
        for root in &mut self.roots {
            if *root > self.last_root {
                *root = u32::MAX;
            }
        }
    }

    /// Whether a block holds something of the checkpoint now.
    pub fn is_written(&self, block: u32) -> bool {
        self.roots.contains(&block) || [self.second, self.leaf.block].contains(&block)
    }

    /// Whether a block belongs to the checkpoint.
    pub fn owns(&self, block: u32) -> bool {
        block <= self.last_root
            || [self.second, self.old_second, self.leaf.block].contains(&block)
            || self.next_leaves.contains(&block)
            || self.chain[..self.chained].contains(&block)
    }
}

/// The checkpoint that a mount starts from.
pub(crate) struct Start {
    /// Unmounted, and said so twice.
    pub clean: bool,
    /// The checkpoint before says the same.
    pub repeated: bool,
    /// What no record names and is newer than it, but not by far, is a session's: not so until commit 4eab370.
    pub told: bool,
    /// Pages with larger numbers are changes since.
    pub since: u64,
    pub snapshot: [u32; SNAPSHOT_PAGES],
    pub snapshot_len: usize,
    /// The block with the newest copy that is complete and came to nothing; all ones: none.
    pub copy: u32,
    /// It is such a copy itself, of a checkpoint that an earlier recovery began from.
    pub is_copy: bool,
    /// It is, and what leads to it cannot fail any more.
    pub firm: bool,
}

pub(crate) fn block_number(v: u16) -> u32 {
    if v == u16::MAX {
        u32::MAX
    } else {
        u32::from(v)
    }
}

/// What a checkpoint page calls the root page of that round and index: 0 for none.
pub(crate) fn root_name(round: u32, index: u32) -> u16 {
    1 << 15 | (index as u16 & 7) << 8 | round as u16 & 0xff
}

/// The root page that counted when a checkpoint page was written.
pub(crate) fn counted(page: &[u8]) -> u16 {
    get_u16(page, COUNTS)
}

/// The leaves that a checkpoint page names.
pub(crate) fn next_leaves(page: &[u8]) -> [u32; 2] {
    [38, AFTER_NEXT].map(|at| block_number(get_u16(page, at)))
}

/// The number of the checkpoint that a checkpoint page repeats, or its own: pages with larger ones are changes since.
pub(crate) fn since(page: &[u8]) -> u64 {
    // What it is a copy of is older.
    let own = get_u64(page, SEQ);
    match get_u64(page, COPY_OF) {
        seq if (1..own).contains(&seq) => seq,
        _ => own,
    }
}

/// Whether the flags of a checkpoint page agree: there are no others, and only an unmount is confirmed.
pub(crate) fn flags_agree(page: &[u8]) -> bool {
    page[32] & !FLAGS == 0 && (page[32] & CONFIRMED == 0 || is_unmounted(page))
}

/// Whether a checkpoint page says that the volume was unmounted.
pub(crate) fn is_unmounted(page: &[u8]) -> bool {
    page[32] & UNMOUNTED != 0
}

impl<N: Nand> FlashLight<'_, N> {
    /// Makes everything durable: writes what is dirty, then the checkpoint. Dead blocks are free
    /// afterwards.
    pub(crate) fn checkpoint(&mut self, clean: bool) -> Result<(), Error<N::Error>> {
        (self.store.naming, self.store.took_unnamed) = (true, false);
        let result = self.account(Purpose::Checkpoint, |fs| fs.take_checkpoint(clean));
        self.store.naming = false;
        if result.is_err() && self.store.took_unnamed {
            // What goes on in a block that it would have named counts only with another checkpoint.
            self.store.log_lost = true;
        }
        if result.is_ok() && self.store.together {
            // What a mount that is cut writes from here on does not count: its numbers are those of a recovery.
            self.store.seq += NEWER;
        }
        result
    }

    /// Begins the session, if that has not been done: two programs. Where the blocks for that fail,
    /// it begins with a checkpoint of what is on flash, that names others. To be called before the
    /// first change.
    pub(crate) fn begin(&mut self) -> Result<(), Error<N::Error>> {
        if !self.store.session {
            self.compare_states()?;
        }
        match self.store.begin_session() {
            Err(Error::NoSpace) if self.store.log_lost => {}
            r => r?,
        }
        if self.store.beginning.is_none() {
            return Ok(());
        }
        let before = core::mem::replace(&mut self.store.naming, true);
        // In another leaf: this one's next page must not be written, the other is erased first.
        let another = self.store.ppb() + 1;
        let written = self
            .store
            .reserve_bitmap()
            .and_then(|()| self.write_checkpoint(0, another));
        self.store.naming = before;
        written?;
        self.all_is_named();
        self.store.beginning = None;
        Ok(())
    }

    fn take_checkpoint(&mut self, clean: bool) -> Result<(), Error<N::Error>> {
        self.begin()?;
        self.write_cached()?;
        if clean {
            for i in 0..2 {
                self.drop_file(i);
            }
            self.store.park(UPDATE);
        }
        self.store.reserve_bitmap()?;
        for i in 0..core::mem::take(&mut self.store.late_count) {
            self.store.retire_system(u32::from(self.store.late[i]));
        }
        let (flags, pages) = if clean {
            (UNMOUNTED, UNMOUNT_PAGES)
        } else {
            (0, PAGES)
        };
        self.write_checkpoint(flags, pages)?;
        self.all_is_named();
        self.store.free_dead(true)?;
        self.end_sweep_of_dead();
        (self.store.taken, self.store.index_pages) = (0, 0);
        (self.store.inode_pages, self.store.removals) = (0, 0);
        self.store.count_updates();
        self.store.written.checkpoints += 1;
        self.store.nand.flush()
    }

    /// After a checkpoint: it names all blocks that are reserved.
    fn all_is_named(&mut self) {
        (self.store.unnamed, self.store.log_lost) = (0, false);
    }

    /// Writes two snapshots, with copies of two directories, then a checkpoint page for each, and what points to a new leaf, in a
    /// leaf with so many `pages_left`: any one page may be lost. The last of an unmount once more, to say that the others are complete.
    fn write_checkpoint(&mut self, flags: u8, pages_left: u32) -> Result<(), Error<N::Error>> {
        let flags = flags | TOLD;
        let last = flags & UNMOUNTED != 0;
        for _ in 0..TRIES {
            if self.store.beginning.is_none() {
                self.store.settle_for_checkpoint()?;
            }
            self.store.release_own();
            let switch = self.plan_leaf(pages_left)?;
            self.retire_bitmap_blocks();
            let (mut first, mut second) = ([0; SNAPSHOT_PAGES], [0; SNAPSHOT_PAGES]);
            let pages = self.write_snapshot(&mut first)?;
            let copied = self.write_copies(pages, &mut second)?;
            let twice = copied.is_some();
            let first = &first[..pages];
            let second = copied.map_or(first, |pages| &second[..pages]);
            self.store.reserve_bitmap()?;
            self.store.scratch_at = PageAddr::NONE;
            let mut done = self.begin_leaf(switch)?;
            let both = [(0, first), (REPEATED, second)];
            let count = 1 + usize::from(last || twice);
            for (flag, snapshot) in &both[..count] {
                if done {
                    let len = self.encode(flags | flag, 0, snapshot);
                    done = self.program_leaf(len, switch)?;
                }
            }
            done = self.end_leaf(done, switch)?;
            if done && last {
                // Behind what leads to it: that may not fail any more when the unmount counts.
                let len = self.encode(flags | REPEATED | CONFIRMED, 0, second);
                let confirmed = self.program_leaf(len, false)?;
                done = self.end_leaf(confirmed, false)?;
            }
            if done {
                return Ok(());
            }
        }
        Err(Error::Corrupt(PageAddr::NONE, "checkpoint block"))
    }

    /// Writes copies of two directories and the second snapshot, if the log has room for them and as many `pages` as the first takes.
    /// Gives its pages; none if it has not: then the first is all there is.
    fn write_copies(
        &mut self,
        pages: usize,
        second: &mut [u32],
    ) -> Result<Option<usize>, Error<N::Error>> {
        let needed = pages + self.anchor.dir_copies.len();
        if self.store.bitmap_count > KEPT || (self.store.log_room() as usize) < needed {
            return Ok(None);
        }
        let copied = self.copy_dirs();
        match copied.and_then(|()| self.write_snapshot(second)) {
            Err(Error::NoSpace) => Ok(None),
            written => written.map(Some),
        }
    }

    /// What a recovery has come to that makes it durable. `false` when the last root block is full, and a root page is
    /// needed: then the volume is only read when the recovery is over.
    pub(crate) fn unless_roots_are_full(
        &mut self,
        result: Result<(), Error<N::Error>>,
    ) -> Result<bool, Error<N::Error>> {
        match result {
            Err(Error::ReadOnly) if self.anchor.has_one_root() && !self.store.nand.failed => {
                self.read_only = true;
                Ok(false)
            }
            r => r.map(|()| true),
        }
    }

    /// Begins a recovery: repeats the checkpoint it starts from in a new leaf, where it cannot fail
    /// any more. Nothing that it says has changed yet. Four programs and an erase, more when the
    /// second level is full.
    pub(crate) fn repeat_checkpoint(&mut self, from: &Start) -> Result<(), Error<N::Error>> {
        self.anchor.push_chain(self.anchor.leaf.block);
        self.anchor.leaf = Head::NONE;
        if self.anchor.next_leaves[0] == from.copy {
            self.anchor.next_leaves.swap(0, 1);
        }
        self.store.forget_vain_changes()?;
        self.erase_unreadable_copy(from)?;
        for _ in 0..TRIES {
            let switch = self.plan_leaf(1)?;
            self.store.scratch_at = PageAddr::NONE;
            let told = if from.told { TOLD } else { 0 };
            let mut done = self.begin_leaf(switch)?;
            let len = self.encode(told, from.since, &from.snapshot[..from.snapshot_len]);
            // What it claims is used behind the second only: a mount that finds nothing there knows that nothing of it was used.
            for _ in 0..2 {
                done = done && self.program_leaf(len, switch)?;
            }
            if self.end_leaf(done, switch)? {
                return Ok(());
            }
        }
        Err(Error::Corrupt(PageAddr::NONE, "checkpoint block"))
    }

    /// The leaf that stays named may hold a copy whose program was cut, and which can be read later and not now. One read,
    /// and an erase if there is one.
    fn erase_unreadable_copy(&mut self, from: &Start) -> Result<(), Error<N::Error>> {
        let block = self.anchor.next_leaves[1];
        if block >= self.store.table.blocks() || block == from.copy {
            return Ok(());
        }
        let at = self.store.geo.page(BlockAddr(block), 0);
        self.store.scratch_at = PageAddr::NONE;
        let status = self.store.nand.read(at, 0, self.scratch, &mut [])?;
        if !status.is_readable() && !self.store.erase(block)? {
            self.anchor.next_leaves[1] = u32::MAX;
        }
        Ok(())
    }

    /// Copies the two directories without which nothing is found. An index directory that is empty is not copied: that its
    /// copy is in its own place says so. Two programs at most, and two reads of what is not in the cache.
    fn copy_dirs(&mut self) -> Result<(), Error<N::Error>> {
        for (i, ino) in [ROOT_DIR, INDEX_DIR].into_iter().enumerate() {
            let (at, before) = (self.map_get(ino)?, self.anchor.dir_copies[i]);
            if ino == INDEX_DIR && at == before {
                continue;
            }
            self.anchor.dir_copies[i] = PageAddr::NONE;
            self.store.scratch_at = PageAddr::NONE;
            match self.dir_slot(ino).filter(|&i| !self.dirs[i].dirty) {
                Some(i) => self.scratch.copy_from_slice(self.dirs[i].buf),
                None if self.store.read_dir(at, at, self.scratch)? => {}
                None if self.store.read_dir(before, at, self.scratch)? => {}
                None => continue,
            }
            let view = DirView::on(&*self.scratch);
            self.anchor.dir_copies[i] = if ino == INDEX_DIR && view.is_empty() {
                at
            } else {
                let len = view.len();
                let page = &mut self.scratch[..len];
                self.store.append(Area::Bitmap, page, Kind::Dir, at)?
            };
        }
        Ok(())
    }

    /// Whether there is a switch to a new leaf, as there are not so many `pages` left in the one in use: then the
    /// pages that will point to it are claimed.
    fn plan_leaf(&mut self, pages: u32) -> Result<bool, Error<N::Error>> {
        let named = !self.anchor.next_leaves.contains(&u32::MAX);
        let leaf = self.anchor.leaf;
        // One without a page was planned for a checkpoint that came to nothing: it has not been erased, nor does anything lead to it.
        let planned = leaf.block != u32::MAX && leaf.next == 0;
        let root_alone = core::mem::take(&mut self.anchor.root_alone);
        if !planned
            && !root_alone
            && leaf.block != u32::MAX
            && leaf.next + pages <= self.store.ppb()
            && (named || self.store.unreserved() < 4)
        {
            return Ok(false);
        }
        if !planned {
            let [mut block, next] = self.anchor.next_leaves;
            if block == u32::MAX {
                block = match self.take_system(LEAF) {
                    Err(Error::NoSpace) => self.take_from_log()?,
                    taken => taken?,
                };
            }
            self.anchor.leaf = Head { block, next: 0 };
            if leaf.block != u32::MAX {
                self.anchor.push_chain(leaf.block);
            }
            self.anchor.next_leaves = [next, u32::MAX];
        }
        for i in 0..2 {
            // The names of a leaf do not change: with less than two, another is begun soon.
            if self.anchor.next_leaves[i] == u32::MAX && self.store.unreserved() > 0 {
                match self.take_named_leaf() {
                    Err(Error::NoSpace) => break,
                    leaf => self.anchor.next_leaves[i] = leaf?,
                }
            }
        }
        if root_alone {
            self.anchor.second_next = ANCHOR_PAGES;
        }
        if self.anchor.second_next + 2 > ANCHOR_PAGES {
            self.begin_second()?;
        } else if self.anchor.new_second {
            // The root pages do not lead to it yet: it begins anew.
            self.anchor.second_next = 0;
        }
        self.anchor.second_next += 2;
        if self.anchor.new_second && self.anchor.is_stale() {
            // Behind the root page as well.
            self.anchor.second_next += 2;
        }
        Ok(true)
    }

    /// Takes another second-level block, and claims the root page that will lead there.
    fn begin_second(&mut self) -> Result<(), Error<N::Error>> {
        // One whose program has not been tried will lead to this block instead.
        let claimed = self.anchor.new_second && !self.anchor.root_tried;
        if !claimed && self.anchor.has_one_root() && self.anchor.root_next >= ANCHOR_PAGES {
            return Err(Error::ReadOnly);
        }
        let second = match self.take_system(SECOND) {
            // Recoveries that are cut one after another may have taken all: one of the leaves to come will do.
            Err(Error::NoSpace) => {
                let mut named = self.anchor.next_leaves.iter_mut().rev();
                match named.find(|leaf| **leaf != u32::MAX) {
                    Some(leaf) => core::mem::replace(leaf, u32::MAX),
                    None => self.take_from_log()?,
                }
            }
            taken => taken?,
        };
        let before = core::mem::replace(&mut self.anchor.second, second);
        if self.anchor.new_second {
            // Nothing has led to it.
            self.store.retire_late(before);
        } else {
            self.anchor.old_second = before;
        }
        self.anchor.new_second = true;
        self.anchor.second_next = 0;
        if !claimed {
            self.anchor.claim_root();
        }
        Ok(())
    }

    /// Takes a block for a leaf to come. Whoever looks there finds nothing newer than what names it: a
    /// page that only damage or malice can have left there is erased. One read.
    fn take_named_leaf(&mut self) -> Result<u32, Error<N::Error>> {
        loop {
            let block = self.take_system(LEAF)?;
            let at = self.store.geo.page(BlockAddr(block), 0);
            let newest = self.store.seq;
            if self.read_checkpoint(at, newest)?.is_none() || self.store.erase(block)? {
                return Ok(block);
            }
        }
    }

    /// In a recovery that finds no free block: takes one for a leaf or the second level that is kept for the allocation
    /// log and in which there is no record since the checkpoint. One read for each that is kept.
    fn take_from_log(&mut self) -> Result<u32, Error<N::Error>> {
        let since = match &self.store.recovery {
            Some(recovery) => recovery.since,
            None => return Err(Error::NoSpace),
        };
        for i in (0..self.store.reserved).rev() {
            let (block, area) = self.store.reserves[i];
            let at = self.store.geo.page(BlockAddr(block.into()), 0);
            self.store.scratch_at = PageAddr::NONE;
            if area != Area::Bitmap as u8 {
                continue;
            }
            let header = self.store.read_meta(at, self.scratch)?;
            if header.is_none_or(|h| h.seq <= since) {
                let block = self.store.unreserve(i);
                self.store.set_state(block, State::System);
                self.store.drawn += 1;
                return Ok(block);
            }
        }
        Err(Error::NoSpace)
    }

    /// Takes a block for a leaf or the second level ([`LEAF`], [`SECOND`]).
    fn take_system(&mut self, sort: usize) -> Result<u32, Error<N::Error>> {
        let block = self.store.pick_for(sort)?;
        self.store.set_state(block, State::System);
        self.store.free = self.store.free.saturating_sub(1);
        self.store.drawn += 1;
        Ok(block)
    }

    /// Blocks of the allocation log that this checkpoint makes obsolete.
    fn retire_bitmap_blocks(&mut self) {
        let head = self.store.heads[Area::Bitmap as usize];
        let mut kept = 0;
        if head.block != u32::MAX && !self.store.is_log(head.block) {
            // Where many have failed, there was no place for it in the list.
            self.store.retire_system(head.block);
            self.store.heads[Area::Bitmap as usize] = Head::NONE;
        }
        for i in 0..self.store.bitmap_count {
            let block = u32::from(self.store.bitmap_blocks[i]);
            if block == head.block && head.next < self.store.ppb() {
                self.store.bitmap_blocks[kept] = self.store.bitmap_blocks[i];
                kept += 1;
            } else {
                self.store.retire_system(block);
                if block == head.block {
                    self.store.heads[Area::Bitmap as usize] = Head::NONE;
                }
            }
        }
        self.store.bitmap_count = kept;
    }

    fn write_snapshot(&mut self, pages: &mut [u32]) -> Result<usize, Error<N::Error>> {
        // All must fit into the list when the snapshot is loaded.
        let open = self
            .store
            .fronts
            .iter()
            .filter(|f| f.block != u32::MAX)
            .count();
        while self.store.remnants.len + open > crate::space::store::REMNANTS {
            self.store.remnants.remove(0);
        }
        let total = self.store.table.snapshot_len() + self.map.roots.len() + 4;
        let partials = self.store.remnants.len
            + self
                .store
                .fronts
                .iter()
                .filter(|f| f.block != u32::MAX)
                .count();
        let total = total + 4 * partials;
        self.store.scratch_at = PageAddr::NONE;
        let (geo, mut from, mut count) = (self.store.geo, 0, 0);
        let tableless = self.store.table.paged.is_some();
        while from < total {
            let (len, end) = snapshot::fill(&geo, self.scratch, (from, total), tableless, |k| {
                snapshot_byte(&mut self.store, &self.map, partials, k)
            });
            let page = &mut self.scratch[..len];
            let at = self
                .store
                .append(Area::Bitmap, page, Kind::Snapshot, PageAddr::NONE)?;
            pages[count] = at.0;
            (from, count) = (end, count + 1);
        }
        Ok(count)
    }

    /// Puts the checkpoint page together in the scratch page.
    fn encode(&mut self, flags: u8, copy_of: u64, pages: &[u32]) -> usize {
        let (a, s, b) = (&self.anchor, &mut self.store, &mut *self.scratch);
        b[HEADER..].fill(0);
        b[32] = flags | if self.map.wide { WIDE } else { 0 };
        b[33] = a.round;
        b[34] = a.root_next as u8;
        b[35] = a.second_next as u8;
        put_u16(b, 36, a.second as u16);
        put_u16(b, 38, a.next_leaves[0] as u16);
        put_u16(b, AFTER_NEXT, a.next_leaves[1] as u16);
        put_u16(b, COUNTS, a.counts);
        put_u32(b, 40, self.next_ino);
        put_u32(b, 44, s.live);
        put_u32(b, 48, self.orphans);
        put_u32(b, 52, s.cursor);
        put_u32(b, 56, self.map.next);
        for (i, head) in s.heads.iter().enumerate() {
            put_u16(b, 60 + 4 * i, head.block as u16);
            put_u16(b, 62 + 4 * i, head.next as u16);
        }
        for i in 0..BITMAP_BLOCKS {
            let block = if i < s.bitmap_count {
                s.bitmap_blocks[i]
            } else {
                u16::MAX
            };
            put_u16(b, 84 + 2 * i, block);
        }
        b[100] = s.reserved as u8;
        b[101] = pages.len() as u8;
        put_u64(b, COPY_OF, copy_of);
        for (i, &block) in s.failing.iter().enumerate() {
            put_u16(b, FAILING + 2 * i, block);
        }
        for (i, copy) in a.dir_copies.into_iter().enumerate() {
            put_u32(b, DIR_COPIES + 4 * i, copy.0);
        }
        let wear = [s.wear.at, s.wear.to, s.wear.moves, s.wear.erases];
        for (i, v) in wear.into_iter().enumerate() {
            put_u16(b, LEVELLING + 2 * i, v.min(0xffff) as u16);
        }
        put_u16(b, SCRUB, (s.scrub_at / s.ppb()) as u16);
        let per_page = s.table.paged.as_ref().map_or(0, |p| p.layout.per_page);
        put_u16(b, PER_PAGE, per_page as u16);
        let mut at = FIELDS;
        for &(block, area) in &s.reserves[..s.reserved] {
            put_u32(b, at, u32::from(block) | u32::from(area) << 16);
            at += 4;
        }
        for &page in pages {
            put_u32(b, at, page);
            at += 4;
        }
        // Those that lead to this one, or have led to the one before.
        let mut over = [u32::MAX; LATE + CHAIN + 1];
        let late = s.late[..s.late_count].iter().map(|&b| u32::from(b));
        let led = a.chain[..a.chained].iter().copied();
        let old = Some(a.old_second).filter(|&b| b != u32::MAX);
        let count = (over.iter_mut().zip(late.chain(led).chain(old)))
            .map(|(place, block)| *place = block)
            .count();
        at = s.encode_table(b, at, &over[..count]);
        // As many entries as fit; the list is a help, not a need.
        let size = crate::space::dirty::entry_size(s.ppb());
        let whole = (0..).zip(s.dirty.raw().chunks_exact(size));
        let whole = whole.filter(|(i, _)| !s.validity.has(s.dirty.block(*i)));
        let mut n = 0;
        for (place, (_, entry)) in b[at..].chunks_exact_mut(size).zip(whole) {
            place.copy_from_slice(entry);
            n += 1;
        }
        put_u16(b, 102, n);
        at + usize::from(n) * size
    }

    /// Makes sure that the leaf can be programmed; `false` when it cannot.
    fn begin_leaf(&mut self, switch: bool) -> Result<bool, Error<N::Error>> {
        let leaf = self.anchor.leaf;
        let mut done = self.store.prepare(leaf.block, switch)?;
        if self.store.unseen.take(OF_LEAF) && !switch {
            done &= self.store.goes_on(leaf)?;
        }
        Ok(done)
    }

    /// Programs the checkpoint page in the scratch page; `false` when the block fails.
    fn program_leaf(&mut self, len: usize, switch: bool) -> Result<bool, Error<N::Error>> {
        let Head { block, next } = self.anchor.leaf;
        self.anchor.leaf.next += 1;
        self.store.written.checkpoint += 1;
        let at = self.store.geo.page(BlockAddr(block), next);
        let page = &mut self.scratch[..len];
        let done = self
            .store
            .program_at(at, page, Kind::Checkpoint, PageAddr::NONE)?;
        if !done && switch {
            // Nothing leads to it: a mount is to know at once that this leaf is none.
            self.store.mark_bad(block)?;
        } else if !done {
            self.store.note_failing(block);
        }
        Ok(done)
    }

    /// Writes what points to a new leaf, when its pages are `done`; `false` when a block failed, and another leaf is to be tried.
    fn end_leaf(&mut self, done: bool, switch: bool) -> Result<bool, Error<N::Error>> {
        let block = self.anchor.leaf.block;
        let done = done && (!switch || self.anchor_leaf()?);
        if !done {
            // Given up, for good once another is anchored.
            self.anchor.push_chain(block);
            self.anchor.leaf = Head::NONE;
        }
        Ok(done)
    }

    /// Points the second level, and if that is new the root, to the leaf just begun. What they
    /// pointed to before is dead then. `false` when the second-level block fails.
    fn anchor_leaf(&mut self) -> Result<bool, Error<N::Error>> {
        let second = self.anchor.second;
        if !self.store.prepare(second, self.anchor.new_second)? {
            self.anchor.second_next = ANCHOR_PAGES;
            return Ok(false);
        }
        let pair = match self.anchor.new_second {
            true => 0,
            false => self.anchor.second_next - 2,
        };
        if !self.write_second(pair)? {
            return Ok(false);
        }
        if self.anchor.new_second {
            if !self.write_root()? {
                self.anchor.second_next = ANCHOR_PAGES;
                return Ok(false);
            }
            self.store.retire_late(self.anchor.old_second);
            self.anchor.old_second = u32::MAX;
            self.anchor.new_second = false;
        }
        for i in 0..core::mem::take(&mut self.anchor.chained) {
            self.store.retire_late(self.anchor.chain[i]);
        }
        Ok(true)
    }

    /// Writes two pages of the second-level block that lead to the leaf. `false` when it fails.
    fn write_second(&mut self, pair: u32) -> Result<bool, Error<N::Error>> {
        let second = self.anchor.second;
        let mut page = [0u8; HEADER + 4];
        put_u32(&mut page, HEADER, self.anchor.leaf.block);
        for index in pair..pair + 2 {
            let at = self.store.geo.page(BlockAddr(second), index);
            self.store.written.checkpoint += 1;
            if !self
                .store
                .program_at(at, &mut page, Kind::Second, PageAddr::NONE)?
            {
                self.store.note_failing(second);
                self.anchor.second_next = ANCHOR_PAGES;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the root page that was claimed in both root blocks: first where the page is not that counts, so that it counts until this one
    /// cannot fail any more. If the other is to be erased then, what this one leads to is written once more before: that
    /// shows that it is complete. A block that fails is replaced. `false` when there is nothing that counts.
    fn write_root(&mut self) -> Result<bool, Error<N::Error>> {
        let geo = self.store.geo;
        let mut page = [0u8; HEADER + 32];
        let fields = [
            geo.page_size(),
            geo.spare_size(),
            geo.pages_per_block(),
            geo.blocks(),
            self.anchor.second,
            self.anchor.last_root,
            u32::from(self.anchor.round),
            self.anchor.good,
        ];
        for (i, v) in fields.into_iter().enumerate() {
            put_u32(&mut page, HEADER + 4 * i, v);
        }
        let (first, roots) = (self.anchor.first, self.anchor.roots);
        let is_last = self.anchor.has_one_root();
        let begin = if roots[1 - first] == u32::MAX {
            first
        } else {
            1 - first
        };
        if !self.write_root_page(begin, &mut page)? {
            if !is_last {
                self.replace_root(begin)?;
            }
            return Ok(false);
        }
        let other = 1 - begin;
        if !is_last && self.anchor.stale[other] && !self.write_second(2)? {
            return Ok(false);
        }
        self.anchor.counts = root_name(self.anchor.round.into(), self.anchor.root_next - 1);
        self.anchor.first = begin;
        if !is_last && !self.write_root_page(other, &mut page)? {
            self.replace_root(other)?;
            let new = 1 - self.anchor.first;
            if !self.anchor.has_one_root() && !self.write_root_page(new, &mut page)? {
                self.replace_root(new)?;
                self.anchor.root_alone = true;
            }
        }
        Ok(true)
    }

    /// Writes the page in one root block; `false` when that fails.
    fn write_root_page(&mut self, side: usize, page: &mut [u8]) -> Result<bool, Error<N::Error>> {
        let block = BlockAddr(self.anchor.roots[side]);
        self.store.written.checkpoint += 1;
        self.anchor.root_tried = true;
        if self.anchor.stale[side] && self.store.nand.erase(block)? == OpStatus::Failed {
            return Ok(false);
        }
        self.anchor.stale[side] = false;
        self.anchor.rounds[side] = self.anchor.round.into();
        self.anchor.ends[side] = self.anchor.root_next as u8;
        let at = self.store.geo.page(block, self.anchor.root_next - 1);
        self.store.program_at(at, page, Kind::Root, PageAddr::NONE)
    }

    /// Marks a root block bad; the next good one takes its place.
    fn replace_root(&mut self, side: usize) -> Result<(), Error<N::Error>> {
        let (before, stale) = (self.anchor.roots, self.anchor.stale);
        let (first, rounds, ends) = (
            before[self.anchor.first],
            self.anchor.rounds,
            self.anchor.ends,
        );
        self.store.mark_bad(before[side])?;
        self.anchor.roots = root_blocks(&mut self.store.nand.inner)?;
        self.anchor.limit_roots();
        for side in 0..2 {
            let same = (0..2).find(|&i| before[i] == self.anchor.roots[side]);
            self.anchor.stale[side] = same.is_none_or(|i| stale[i]);
            self.anchor.rounds[side] = same.map_or(u32::MAX, |i| rounds[i]);
            self.anchor.ends[side] = same.map_or(0, |i| ends[i]);
            if self.anchor.roots[side] == first {
                self.anchor.first = side;
            }
        }
        self.anchor.go_on_alone();
        Ok(())
    }

    /// Unpacks the checkpoint page in the scratch page, found in `leaf`. `None`: it means nothing.
    pub(crate) fn decode(&mut self, leaf: Head) -> Result<Option<Start>, Error<N::Error>> {
        let per_page = u32::from(get_u16(self.scratch, PER_PAGE));
        let layout = Layout::new(&self.store.geo, per_page);
        if layout.is_none() && (per_page > 0 || self.store.table.paged.is_some()) {
            return Ok(None);
        }
        let fits = self.store.table.has_room(layout, &self.store.geo);
        fits.map_err(|more| Error::RamTooSmall(self.ram + more))?;
        if layout.is_some_and(|layout| !self.store.table.begin_paging(layout)) {
            return Ok(None);
        }
        Ok(self.unpack(leaf))
    }

    fn unpack(&mut self, leaf: Head) -> Option<Start> {
        let (b, s) = (&*self.scratch, &mut self.store);
        self.anchor.leaf = leaf;
        self.next_ino = get_u32(b, 40).max(FIRST_FILE);
        self.orphans = get_u32(b, 48);
        s.live = get_u32(b, 44);
        s.cursor = get_u32(b, 52) % s.geo.blocks();
        self.map.next = get_u32(b, 56);
        self.map.wide = b[32] & WIDE != 0;
        self.anchor.next_leaves = next_leaves(b);
        self.anchor.dir_copies = [0, 4].map(|i| PageAddr(get_u32(b, DIR_COPIES + i)));
        for i in 0..HEADS {
            s.heads[i] = Head {
                block: block_number(get_u16(b, 60 + 4 * i)),
                next: u32::from(get_u16(b, 62 + 4 * i)),
            };
        }
        for (i, block) in s.failing.iter_mut().enumerate() {
            *block = get_u16(b, FAILING + 2 * i);
        }
        let wear = [0, 2, 4, 6].map(|i| u32::from(get_u16(b, LEVELLING + i)));
        s.wear.load(wear, s.cursor, s.table.blocks());
        s.begin_counts();
        s.scrub_at = u32::from(get_u16(b, SCRUB)).min(s.table.blocks()) * s.ppb();
        s.bitmap_count = 0;
        for i in 0..BITMAP_BLOCKS {
            let v = get_u16(b, 84 + 2 * i);
            if v != u16::MAX {
                s.bitmap_blocks[s.bitmap_count] = v;
                s.bitmap_count += 1;
            }
        }
        let (reserved, count) = (usize::from(b[100]), usize::from(b[101]));
        let size = crate::space::dirty::entry_size(s.geo.pages_per_block());
        let dirty = usize::from(get_u16(b, 102)) * size;
        let mut end = FIELDS + 4 * reserved + 4 * count;
        if reserved > RESERVES || count > SNAPSHOT_PAGES || end > b.len() {
            return None;
        }
        if s.table.paged.is_some() {
            end = s.decode_table(b, end)?;
        }
        end += dirty;
        if end > b.len() {
            return None;
        }
        (s.reserved, s.unnamed) = (reserved, 0);
        for i in 0..reserved {
            let v = get_u32(b, FIELDS + 4 * i);
            s.reserves[i] = (v as u16, (v >> 16) as u8);
        }
        let mut pages = [0; SNAPSHOT_PAGES];
        for (i, page) in pages.iter_mut().enumerate().take(count) {
            *page = get_u32(b, FIELDS + 4 * reserved + 4 * i);
        }
        s.dirty.load(&b[end - dirty..end]);
        let sane = (0..s.dirty.len()).all(|i| s.dirty.block(i) < s.table.blocks());
        let since = since(b);
        sane.then_some(Start {
            clean: b[32] & CONFIRMED != 0,
            repeated: b[32] & REPEATED != 0,
            told: b[32] & TOLD != 0,
            since,
            snapshot: pages,
            snapshot_len: count,
            copy: u32::MAX,
            is_copy: since != get_u64(b, SEQ),
            firm: false,
        })
    }

    /// Loads the snapshot of the block table.
    pub(crate) fn load_snapshot(&mut self, pages: &[u32]) -> Result<(), Error<N::Error>> {
        let geo = self.store.geo;
        let (table, roots) = (self.store.table.snapshot_len(), self.map.roots.len());
        let tableless = self.store.table.paged.is_some();
        let corrupt = |at| Err(Error::Corrupt(at, "block table"));
        let (mut n, mut partials) = (0, 0);
        let mut tail = [0u8; 4];
        self.store.remnants.len = 0;
        self.store.fronts[UPDATE] = Head::NONE;
        for at in pages.iter().copied().map(PageAddr) {
            self.store.scratch_at = PageAddr::NONE;
            let header = self
                .store
                .expect_meta(at, self.scratch, Kind::Snapshot, "block table")?;
            let Some(piece) = Piece::on(&geo, self.scratch, header.len)
                .filter(|piece| piece.from == n && piece.tableless == tableless)
            else {
                return corrupt(at);
            };
            for &byte in piece.bytes() {
                if n < table {
                    self.store.table.bytes[n] = byte;
                } else if n < table + roots {
                    self.map.roots[n - table] = byte;
                } else {
                    tail[(n - table - roots) % 4] = byte;
                    if (n - table - roots) % 4 == 3 {
                        let (a, b) = (get_u16(&tail, 0), get_u16(&tail, 2));
                        if n - table - roots == 3 {
                            partials = usize::from(a);
                        } else if !self.store.remnants.is_full() {
                            let head = Head {
                                block: u32::from(a),
                                next: u32::from(b & !OF_UPDATES),
                            };
                            if b & OF_UPDATES == 0 {
                                let next = head.next | UNSEEN;
                                self.store.remnants.push(Head { next, ..head });
                            } else {
                                self.store.fronts[UPDATE] = head;
                            }
                        }
                    }
                }
                n += 1;
            }
        }
        self.store.forget_open_failed();
        if n != table + roots + 4 + 4 * partials || !self.is_consistent() {
            return corrupt(PageAddr::NONE);
        }
        if tableless {
            return self.find_bad_roots();
        }
        // System blocks that nothing leads to are left over from an interrupted switch.
        for block in 0..self.store.table.blocks() {
            let ours = self.anchor.owns(block) || self.store.is_log(block);
            if ours {
                // A root block may have been marked bad since.
                let bad =
                    block <= self.anchor.last_root && self.store.nand.is_bad(BlockAddr(block))?;
                let state = if bad { State::Bad } else { State::System };
                self.store.set_state(block, state);
            } else if self.store.state(block) == State::System {
                self.store.set_state(block, State::Dead);
            }
        }
        self.store.recount();
        Ok(())
    }

    /// A root block may have been marked bad since the checkpoint.
    fn find_bad_roots(&mut self) -> Result<(), Error<N::Error>> {
        for block in 0..=self.anchor.last_root {
            if self.store.nand.is_bad(BlockAddr(block))? && self.store.state(block) != State::Bad {
                self.store.set_state(block, State::Bad);
                self.store.good = self.store.good.saturating_sub(1);
            }
        }
        Ok(())
    }
}

impl<N: Nand> Store<'_, N> {
    /// Retires a block after the checkpoint that no longer needs it.
    fn retire_late(&mut self, block: u32) {
        if block != u32::MAX && self.state(block) == State::System {
            // Only the next checkpoint may free it: this one still calls it in use.
            if self.late_count < self.late.len() {
                self.late[self.late_count] = block as u16;
                self.late_count += 1;
            }
        }
    }
}

/// Byte `k` of what a snapshot consists of. Of dead blocks those that failed are bad.
fn snapshot_byte<N: Nand>(
    store: &mut Store<'_, N>,
    map: &DirMap<'_>,
    partials: usize,
    k: usize,
) -> u8 {
    let (table, roots) = (store.table.snapshot_len(), map.roots.len());
    if k < table {
        let entries = store.table.entries;
        let (block, byte) = ((k / entries.size()) as u32, k % entries.size());
        if store.state(block) == State::Dead && store.failing.iter().any(|&b| u32::from(b) == block)
        {
            let mut entry = [0; 2];
            entries.set(&mut entry, 0, State::Bad);
            return entry[byte];
        }
        return store.table.bytes[k];
    }
    if k < table + roots {
        return map.roots[k - table];
    }
    let (entry, byte) = ((k - table - roots) / 4, (k - table - roots) % 4);
    let word = match entry {
        0 => partials as u32,
        e if e <= store.remnants.len => {
            let head = store.remnants.get(e - 1);
            head.block | head.next << 16
        }
        e => {
            let n = e - 1 - store.remnants.len;
            let open: &[Head; FRONTS] = &store.fronts;
            let head = open.iter().filter(|f| f.block != u32::MAX).nth(n).copied();
            let bit = if head == Some(open[UPDATE]) {
                OF_UPDATES
            } else {
                0
            };
            head.map_or(u32::MAX, |h| {
                (h.block & 0xffff) | (h.next | u32::from(bit)) << 16
            })
        }
    };
    (word >> (8 * byte)) as u8
}

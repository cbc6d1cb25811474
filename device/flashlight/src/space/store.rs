//! Pages and blocks: allocation, programs, validity. Everything above sees pages of areas.
//!
//! Invariants:
//! * Nothing that was valid at the last checkpoint, and no page written since, is erased before
//!   the next checkpoint: a block without valid pages is *dead* until then. Recovery rests on it.
//! * A block is taken only after an allocation record (or the checkpoint) that names it, with
//!   its area, is durable. Blocks are reserved in batches so that records are few.
//! * A block is erased when it is taken, except one that was erased at format time.

use crate::api::scrub::RefreshList;
use crate::api::updates::UPDATE_BLOCKS;
use crate::error::Error;
use crate::format::bytes::{get_u16, put_u16, put_u32};
use crate::format::header::{self, HEADER, Header, Kind};
use crate::format::mappage::Owner;
use crate::format::tag::{self, Tag};
use crate::format::wellformed::{self, is_well_formed};
use crate::recovery::recover::Recovery;
use crate::space::dirty::DirtyList;
use crate::space::erased::{OF_UPDATES, Unseen};
use crate::space::pages::Pages;
use crate::space::table::{State, Table};
use crate::space::validity::Validity;
use crate::space::wear::{Counts, Wear};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

/// The log areas (paper, Table III) other than the checkpoint's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    Bitmap = 0,
    Map = 1,
    Dir = 2,
    Hash = 3,
    File = 4,
    Extent = 5,
    Data = 6,
    /// Data that a recovery finds by its tags (`updates.rs`).
    Update = 7,
}

/// Areas with one log head each: all but the data.
pub(crate) const HEADS: usize = 6;
/// Data frontiers: one for each cached file, one for migrated pages, one for those moved for wear, one
/// for updates.
pub(crate) const FRONTS: usize = 5;
/// The frontier of migrated pages.
pub(crate) const COLD: usize = 2;
/// The frontier of pages moved for the sake of wear.
pub(crate) const WEAR: usize = 3;
/// The frontier of updates.
pub(crate) const UPDATE: usize = 4;
/// Blocks reserved ahead at most: the batches of all areas, the allocation log's, and one each of some
/// areas in turn.
pub(crate) const RESERVES: usize = 36;
/// Of them, those that batches leave for a block of any area that is needed at once.
const SINGLES: usize = 5;
/// Data blocks reserved by one allocation record.
const DATA_BATCH: u32 = 16;
/// The same, for updates and for FileInodes.
const UPDATE_BATCH: u32 = 8;
const FILE_BATCH: u32 = 8;
/// Blocks of the allocation log between two checkpoints at most.
pub(crate) const BITMAP_BLOCKS: usize = 8;
/// Blocks reserved ahead for the allocation log: one may fail when it is erased or programmed.
const LOG_AHEAD: usize = 2;
/// Pages left in a block of the allocation log when the next one is erased: more than the records
/// of one change.
const LOG_MARGIN: u32 = 8;
/// Blocks of the checkpoint that the next one makes free, at most.
pub(crate) const LATE: usize = 24;
/// Blocks with an unwritten tail that are remembered at most.
pub(crate) const REMNANTS: usize = 32;

/// A block being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub block: u32,
    pub next: u32,
}

/// With the place of a remnant: it is the checkpoint's word, and nobody has looked since the mount.
pub(crate) const UNSEEN: u32 = 1 << 15;

impl Head {
    pub const NONE: Head = Head {
        block: u32::MAX,
        next: 0,
    };
}

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
    /// Pages of each metadata area: bitmap, DirInode map, DirInode, hash map, FileInode, extent map.
    pub areas: [u64; HEADS],
    /// Pages that say which pages of blocks are valid, in the blocks of extent maps and not among them.
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

    /// Takes what has been moved since `before` out of what cleaning has done, to be counted apart;
    /// gives the pages.
    pub(crate) fn set_apart(&mut self, before: &Written) -> u64 {
        let pages = self.moved() - before.moved();
        (self.moved_data, self.moved_meta) = (before.moved_data, before.moved_meta);
        (self.cleaned, self.compacted) = (before.cleaned, before.compacted);
        pages
    }
}

/// Blocks with an unwritten tail, least recently used first: 4 bytes each in the caller's RAM.
pub(crate) struct Remnants<'r> {
    bytes: &'r mut [u8],
    pub len: usize,
}

impl<'r> Remnants<'r> {
    pub fn new(bytes: &'r mut [u8]) -> Self {
        Remnants { bytes, len: 0 }
    }
    pub fn get(&self, i: usize) -> Head {
        Head {
            block: u32::from(get_u16(self.bytes, 4 * i)),
            next: u32::from(get_u16(self.bytes, 4 * i + 2)) & !UNSEEN,
        }
    }
    pub fn is_unseen(&self, i: usize) -> bool {
        u32::from(get_u16(self.bytes, 4 * i + 2)) & UNSEEN != 0
    }
    pub fn find(&self, block: u32) -> Option<usize> {
        (0..self.len).find(|&i| self.get(i).block == block)
    }
    pub fn remove(&mut self, i: usize) -> Head {
        let head = self.get(i);
        self.bytes.copy_within(4 * (i + 1)..4 * self.len, 4 * i);
        self.len -= 1;
        head
    }
    /// Adds the most recently used; the caller has made room.
    pub fn push(&mut self, head: Head) {
        put_u16(self.bytes, 4 * self.len, head.block as u16);
        put_u16(self.bytes, 4 * self.len + 2, head.next as u16);
        self.len += 1;
    }
    pub fn is_full(&self) -> bool {
        4 * (self.len + 1) > self.bytes.len()
    }
}

/// A chip that remembers that its driver has failed, or that a page could not be read between two
/// steps that belong together: what is in RAM may then not be what is on flash, and nothing more is
/// written. And which blocks it is time to write anew, and what of the chip is kept in RAM.
pub(crate) struct Latch<'r, N: Nand> {
    pub inner: N,
    pub failed: bool,
    /// A call is under way that only reads, and nothing has been programmed in it: if the driver fails in a read, no more
    /// is lost than this call.
    pub only_reads: bool,
    /// The driver's error, as long as no call has had it as its result.
    pub untold: Option<N::Error>,
    pub refresh: RefreshList,
    pub pages: Pages<'r>,
}

impl<N: Nand> Latch<'_, N> {
    /// Nothing is written after a failure, not even what a lookup would push from the cache.
    pub fn may_write(&mut self) -> Result<(), Error<N::Error>> {
        if self.failed {
            return Err(self.untold.take().map_or(Error::ReadOnly, Error::Driver));
        }
        Ok(())
    }

    /// What a step has come to that cannot say so itself: the next that can does.
    pub fn tell_later(&mut self, error: Error<N::Error>) {
        if let Error::Driver(e) = error {
            self.untold = Some(e);
        }
    }

    fn note<T>(&mut self, result: Result<T, N::Error>) -> Result<T, Error<N::Error>> {
        self.failed |= result.is_err();
        result.map_err(Error::Driver)
    }
    pub fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Error<N::Error>> {
        let result = self.inner.read(page, offset, data, spare);
        self.failed |= result.is_err() && !self.only_reads;
        let status = result.map_err(Error::Driver)?;
        self.refresh.note(page, status);
        Ok(status)
    }
    pub fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Error<N::Error>> {
        self.may_write()?;
        self.only_reads = false;
        let result = self.inner.program(page, data, spare);
        self.note(result)
    }
    pub fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Error<N::Error>> {
        self.may_write()?;
        let n = self.inner.geometry().pages_per_block();
        self.pages.forget(PageAddr(block.0 * n), n);
        let result = self.inner.erase(block);
        self.note(result)
    }
    pub fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Error<N::Error>> {
        self.inner.is_bad(block).map_err(Error::Driver)
    }
    pub fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Error<N::Error>> {
        self.may_write()?;
        let result = self.inner.mark_bad(block);
        self.note(result)
    }
    pub fn flush(&mut self) -> Result<(), Error<N::Error>> {
        let result = self.inner.flush();
        self.note(result)
    }
}

/// What a recovery that is not durable leaves alone: free blocks in which a checkpoint may have something that cannot be read
/// now, and can be by a later mount. Their first pages tell: they are newer than the checkpoint found, and older than what such a
/// recovery writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newer {
    /// The number of the checkpoint found, but for its upper half.
    since: u32,
    /// So far above it the numbers of such a recovery begin, below 2^31; 0: nothing is left alone. And [`SILENT`].
    span: u32,
}

/// No block is left that tells: any other is taken.
const SILENT: u32 = 1 << 31;

impl Newer {
    pub const NONE: Newer = Newer { since: 0, span: 0 };

    /// Newer than the checkpoint of one number, and older than what is written from another on.
    pub fn between(since: u64, own: u64) -> Newer {
        let span = (own - since).min(u64::from(SILENT - 1));
        Newer {
            since: since as u32,
            span: span as u32,
        }
    }

    fn is_silent(self) -> bool {
        self.span & SILENT != 0
    }

    /// Whether a page of this number, but for its upper half, is.
    fn has(self, seq: u32) -> bool {
        (1..self.span & !SILENT).contains(&seq.wrapping_sub(self.since))
    }
}

/// See the module's text.
pub(crate) struct Store<'r, N: Nand> {
    pub nand: Latch<'r, N>,
    pub geo: Geometry,
    pub volume: u32,
    /// Number of the next metadata page.
    pub seq: u64,
    pub table: Table<'r>,
    pub dirty: DirtyList<'r>,
    pub validity: Validity<'r>,
    pub remnants: Remnants<'r>,
    pub heads: [Head; HEADS],
    pub fronts: [Head; FRONTS],
    pub reserves: [(u16, u8); RESERVES],
    pub reserved: usize,
    /// How many of them, the last ones, no page on flash names yet.
    pub unnamed: usize,
    /// The reserved block of the allocation log that has been erased already.
    pub log_ready: u32,
    /// While a session begins: the blocks of the allocation log in which a mount looks for that.
    pub beginning: Option<[u32; LOG_AHEAD]>,
    /// No block that a page on flash names is left for the allocation log: only a checkpoint helps.
    pub log_lost: bool,
    /// A checkpoint is being written, that will name the block of the log.
    pub naming: bool,
    /// It has taken blocks that no page names yet.
    pub took_unnamed: bool,
    pub bitmap_blocks: [u16; BITMAP_BLOCKS],
    pub bitmap_count: usize,
    /// Blocks that are not bad.
    pub good: u32,
    /// Blocks in state free or clean, and dead.
    pub free: u32,
    pub dead: u32,
    /// Pages in use for file data and metadata (checkpoints and allocation log apart).
    pub live: u32,
    /// Where the search for a free block goes on.
    pub cursor: u32,
    /// Free blocks taken or reserved for one purpose ([`FlashLight::account`](crate::FlashLight::account)).
    pub drawn: u32,
    /// In a recovery, a free block that is taken when there is no other; all ones: none.
    pub spared: u32,
    pub newer: Newer,
    pub wear: Wear,
    pub counts: Counts<'r>,
    /// The frontier that pages are moved to.
    pub mover: usize,
    /// The page where scrubbing goes on.
    pub scrub_at: u32,
    /// Blocks taken, and inode pages written, since the last checkpoint.
    pub taken: u32,
    /// Blocks that were free before the last checkpoint made more of them so. A recovery from it
    /// has these alone, less those taken since, until it has a checkpoint of its own.
    pub sure: u32,
    pub inode_pages: u32,
    /// Pages of directories, their maps and the map of them, written since the last checkpoint.
    pub index_pages: u32,
    /// Removals that inode pages have recorded since the last checkpoint.
    pub removals: u32,
    /// Pages of updates, and blocks reserved for them, since the last checkpoint; those reserved then
    /// included.
    pub updates: u32,
    pub update_blocks: usize,
    /// At the end of a recovery: blocks of updates that are still being looked through.
    pub looked_through: [u16; UPDATE_BLOCKS],
    pub looked_count: usize,
    /// The page of the first of them from which on they are looked for.
    pub looked_from: u32,
    /// Open blocks that have not been looked at since the mount.
    pub unseen: Unseen,
    /// Whether this session has written yet (see [`Store::begin_session`]).
    pub session: bool,
    pub recovery: Option<Recovery<'r>>,
    /// In a recovery, and while the mount restores room after it: the checkpoint that ends it names all blocks that it
    /// takes, so there are no records of them, and nobody looks for inode pages among what it writes. So metadata of all
    /// areas, little of each, goes to one block.
    pub together: bool,
    pub written: Written,
    /// Nothing of what is written is kept: see [`Config::discarded`](crate::Config::discarded).
    pub discarded: bool,
    /// Set while formatting: no allocation records.
    pub formatting: bool,
    /// Blocks whose program failed: what is valid in them is moved, then they are marked bad. One
    /// that finds no place here is marked when it fails again.
    pub failing: [u16; 8],
    /// Blocks with pages that could not be moved: no victims in this session.
    pub stuck: [u16; 8],
    pub stuck_next: u8,
    /// The highest rank that one of them had; zeros before the first.
    pub stuck_rank: (u32, u32),
    /// The block from which on ranks count as long as one is stuck: the one filled earliest.
    pub oldest: u32,
    /// Blocks of the checkpoint that the next one makes free.
    pub late: [u16; LATE],
    pub late_count: usize,
    /// The metadata page that the scratch page is an exact copy of: a valid page, so that an inode
    /// found there is the current one. While data is moved, with the highest bit set, the page of data there.
    pub scratch_at: PageAddr,
}

impl<N: Nand> Store<'_, N> {
    /// Pages per block.
    pub fn ppb(&self) -> u32 {
        self.geo.pages_per_block()
    }

    pub fn page_size(&self) -> usize {
        self.geo.page_size() as usize
    }

    /// Whether data pages carry tags.
    pub fn has_tags(&self) -> bool {
        self.geo.spare_size() as usize >= tag::SIZE
    }

    /// Reads the page of a directory at `at`, or a `page` that may be its copy. Whether it is that. One read.
    pub fn read_dir(
        &mut self,
        page: PageAddr,
        at: PageAddr,
        buf: &mut [u8],
    ) -> Result<bool, Error<N::Error>> {
        let header = self.read_meta(page, buf)?;
        Ok(header.is_some_and(|h| h.kind == Kind::Dir && (page == at || h.prev == at)))
    }

    /// Reads a whole page and checks that it is a metadata page of this volume, and well-formed. One
    /// read; a page that is uncorrectable is read once more, for it may be at its limit.
    pub fn read_meta(
        &mut self,
        at: PageAddr,
        buf: &mut [u8],
    ) -> Result<Option<Header>, Error<N::Error>> {
        if !self.geo.contains(at) {
            return Ok(None);
        }
        let mut status = self.nand.read(at, 0, buf, &mut [])?;
        if !status.is_readable() {
            status = self.nand.read(at, 0, buf, &mut [])?;
        }
        if !status.is_readable() {
            // Whatever the buffer holds: not a page that looks erased. Zeros are no header, and say that it could not be read.
            buf[..HEADER].fill(0);
            return Ok(None);
        }
        Ok(header::parse(buf, at)
            .ok()
            .filter(|h| h.volume == self.volume && is_well_formed(&self.geo, buf, h)))
    }

    /// Reads a metadata page that must be of one kind.
    pub fn expect_meta(
        &mut self,
        at: PageAddr,
        buf: &mut [u8],
        kind: Kind,
        what: &'static str,
    ) -> Result<Header, Error<N::Error>> {
        match self.read_meta(at, buf)? {
            Some(h) if h.kind == kind => Ok(h),
            _ => Err(Error::Corrupt(at, what)),
        }
    }

    /// The metadata page at a place, if it is kept in RAM ([`crate::space::pages`]).
    pub fn kept(&mut self, at: PageAddr, kind: Kind) -> Option<&[u8]> {
        let page = self.nand.pages.get(self.dirty.spare(), at)?;
        (page[6] == kind as u8).then_some(page)
    }

    /// Gets a metadata page that must be of one kind. One read, unless the page is kept in RAM: then what it
    /// was found to hold before.
    pub fn get_meta(
        &mut self,
        at: PageAddr,
        buf: &mut [u8],
        kind: Kind,
        what: &'static str,
    ) -> Result<(), Error<N::Error>> {
        if let Some(page) = self.kept(at, kind) {
            buf.copy_from_slice(page);
            return Ok(());
        }
        self.expect_meta(at, buf, kind, what)?;
        self.keep(at, kind, buf);
        Ok(())
    }

    fn keep(&mut self, at: PageAddr, kind: Kind, page: &[u8]) {
        self.nand.pages.put(self.dirty.spare_mut(), at, kind, page);
    }

    /// What a recovery would have to replay, in inode pages.
    pub fn to_replay(&self) -> u32 {
        self.inode_pages + self.updates / 2 + self.removals * 3 / 4
    }

    /// Seals and programs a metadata page at a fixed place; `false` when the chip reports failure.
    pub fn program_at(
        &mut self,
        at: PageAddr,
        page: &mut [u8],
        kind: Kind,
        prev: PageAddr,
    ) -> Result<bool, Error<N::Error>> {
        header::seal(page, kind, self.seq, at, self.volume, prev);
        debug_assert!(
            wellformed::is_believed(&self.geo, page, at),
            "a page of kind {kind:?} that would not be believed"
        );
        self.seq += 1;
        Ok(self.nand.program(at, page, &[])? == OpStatus::Done)
    }

    /// Appends a metadata page to the log of its area. `page` is exactly what is to be programmed.
    /// One program, and at times an erase and an allocation record before it.
    pub fn append(
        &mut self,
        area: Area,
        page: &mut [u8],
        kind: Kind,
        prev: PageAddr,
    ) -> Result<PageAddr, Error<N::Error>> {
        if area != Area::Bitmap {
            self.settle_table();
        }
        let mut failed = false;
        let log = if self.together && area != Area::Bitmap {
            Area::Extent
        } else {
            area
        };
        loop {
            let at = self.next_page(log);
            if at.is_err() && failed && matches!(area, Area::Dir | Area::File) {
                // The page whose program failed may read well, and is a record then: nothing may contradict it.
                self.nand.failed = true;
            }
            let at = at?;
            if self.program_at(at, page, kind, prev)? {
                if kind == Kind::Validity {
                    self.written.validity += 1;
                } else {
                    self.written.areas[area as usize] += 1;
                }
                if matches!(area, Area::Dir | Area::File) {
                    self.inode_pages += 1;
                }
                if matches!(area, Area::Map | Area::Dir | Area::Hash) {
                    self.index_pages += 1;
                }
                if area != Area::Bitmap {
                    self.validate(at);
                    // What is replaced will not be asked for any more, and an extent map not soon: a file that
                    // changes in order has few, and one that changes at random many.
                    self.nand.pages.forget(prev, 1);
                    self.keep(at, kind, page);
                    if kind == Kind::ExtentMap {
                        self.nand.pages.set_old(at);
                    }
                }
                return Ok(at);
            }
            failed = true;
            let block = core::mem::replace(&mut self.heads[log as usize], Head::NONE).block;
            self.note_failing(block);
        }
    }

    fn next_page(&mut self, area: Area) -> Result<PageAddr, Error<N::Error>> {
        self.begin_session()?;
        self.see(area as usize)?;
        let head = self.heads[area as usize];
        if head.block == u32::MAX || head.next >= self.ppb() {
            // The head is given up first: taking a block may write to this very log.
            self.heads[area as usize] = Head::NONE;
            self.close(head.block);
            let block = self.take_block(area)?;
            self.heads[area as usize] = Head { block, next: 0 };
        }
        let head = &mut self.heads[area as usize];
        head.next += 1;
        Ok(self.geo.page(BlockAddr(head.block), head.next - 1))
    }

    /// Programs a page of file data at a frontier, with its tag where there is room for one.
    pub fn append_data(
        &mut self,
        front: usize,
        data: &[u8],
        owner: Owner,
        index: u32,
    ) -> Result<PageAddr, Error<N::Error>> {
        self.begin_session()?;
        self.settle_table();
        if !self.has_tags() {
            return self.program_data(front, data, &[]);
        }
        let tag = self.tag(data, owner, index);
        self.program_data(front, data, &tag)
    }

    fn tag(&self, data: &[u8], owner: Owner, index: u32) -> [u8; tag::SIZE] {
        let seq = self.seq as u32;
        Tag { owner, index, seq }.encode(data)
    }

    /// Programs a page of an update, with its tag.
    pub fn append_update(
        &mut self,
        data: &[u8],
        owner: Owner,
        index: u32,
        update: tag::Update,
    ) -> Result<PageAddr, Error<N::Error>> {
        self.begin_session()?;
        self.settle_table();
        let tag = self.tag(data, owner, index);
        let at = self.program_data(UPDATE, data, &update.encode(&tag, self.seq))?;
        self.updates += 1;
        self.written.updates += 1;
        Ok(at)
    }

    fn program_data(
        &mut self,
        front: usize,
        data: &[u8],
        spare: &[u8],
    ) -> Result<PageAddr, Error<N::Error>> {
        if front == UPDATE {
            self.see(OF_UPDATES)?;
        }
        loop {
            let head = self.fronts[front];
            if head.block == u32::MAX || head.next >= self.ppb() {
                self.fronts[front] = Head::NONE;
                self.close(head.block);
                let block = self.take_front(front)?;
                self.fronts[front] = Head { block, next: 0 };
            }
            let head = &mut self.fronts[front];
            let at = self.geo.page(BlockAddr(head.block), head.next);
            head.next += 1;
            if self.nand.program(at, data, spare)? == OpStatus::Done {
                if front == self.mover {
                    self.written.moved_data += 1;
                } else {
                    self.written.data += 1;
                }
                self.validate(at);
                return Ok(at);
            }
            let block = core::mem::replace(&mut self.fronts[front], Head::NONE).block;
            self.note_failing(block);
        }
    }

    pub fn note_failing(&mut self, block: u32) {
        self.drawn = self.drawn.saturating_sub(1);
        if let Some(slot) = self.failing.iter_mut().find(|b| **b == u16::MAX) {
            *slot = block as u16;
        }
        self.table.disown(block);
        self.close(block);
    }

    /// The first write of a session goes to a freshly erased block of the allocation log: an
    /// unclean stop before it leaves the volume as the clean unmount did, and no page that an
    /// interrupted program may have touched is ever programmed.
    ///
    /// The session has begun with the *second* record: when that is being programmed, the first is
    /// complete and stays readable. Two programs.
    pub fn begin_session(&mut self) -> Result<(), Error<N::Error>> {
        if self.session {
            return Ok(());
        }
        self.session = true;
        let mut named = [u32::MAX; LOG_AHEAD];
        let mut count = 0;
        for i in 0..self.reserved {
            let block = u32::from(self.reserves[i].0);
            if self.reserves[i].1 == Area::Bitmap as u8 && count < LOG_AHEAD {
                named[count] = block;
                count += 1;
            }
            if self.state(block) == State::Clean {
                self.set_state(block, State::Free);
            }
        }
        self.heads[Area::Bitmap as usize] = Head::NONE;
        for area in 0..HEADS {
            let block = self.heads[area].block;
            if block != u32::MAX && !self.is_good(block)? {
                self.heads[area] = Head::NONE;
            }
        }
        let block = self.table.head().block;
        if block != u32::MAX && !self.is_good(block)? {
            self.table.set_head(Head::NONE);
        }
        if self.formatting || self.together {
            return self.reserve(None);
        }
        self.beginning = Some(named);
        let mut shown = self.reserve(None).and_then(|()| self.write_alloc_record());
        if shown.is_ok() && self.heads[Area::Bitmap as usize].next < 2 {
            // A program has failed between the two, and they do not show that the session began.
            shown = self.write_alloc_record();
        }
        let head = self.heads[Area::Bitmap as usize];
        if matches!(shown, Err(Error::NoSpace)) || (shown.is_ok() && head.next < 2) {
            return self.miss_beginning(named);
        }
        self.beginning = None;
        shown
    }

    /// None of the blocks that could show the beginning of the session can be written. A mount that
    /// follows a cut finds the volume as it was unmounted, and trusts it: what the block table calls
    /// erased must be so, and the open blocks must not have been written. What may be done then is to
    /// write another checkpoint, at once ([`FlashLight::begin`]). Marking the blocks bad makes that
    /// mount do the same as this one does now, with the same blocks, which it erases first.
    fn miss_beginning(&mut self, named: [u32; LOG_AHEAD]) -> Result<(), Error<N::Error>> {
        for block in named {
            if block != u32::MAX && self.is_good(block)? {
                self.mark_bad(block)?;
            }
        }
        self.heads[Area::Bitmap as usize] = Head::NONE;
        self.log_lost = true;
        Err(Error::NoSpace)
    }

    /// Takes a block for a data frontier.
    fn take_front(&mut self, front: usize) -> Result<u32, Error<N::Error>> {
        while front == WEAR && self.reserved + LOG_AHEAD + 1 < RESERVES {
            let block = self.pick_at_rest();
            let block = self.if_any(block)?;
            self.push_reserve(block, Area::Data);
            self.record_reserves()?;
            let taken = self.take_reserved(Area::Data, |r| u32::from(r.0) == block)?;
            if let Some(block) = taken {
                return Ok(block);
            }
        }
        self.take_block(if front == UPDATE {
            Area::Update
        } else {
            Area::Data
        })
    }

    /// Takes a reserved block of an area for writing.
    pub fn take_block(&mut self, area: Area) -> Result<u32, Error<N::Error>> {
        loop {
            if let Some(block) = self.take_reserved(area, |r| r.1 == area as u8)? {
                return Ok(block);
            }
            self.reserve(Some(area))?;
        }
    }

    /// Takes the first of some reserved blocks that can be erased.
    fn take_reserved(
        &mut self,
        area: Area,
        suits: impl Fn(&(u16, u8)) -> bool,
    ) -> Result<Option<u32>, Error<N::Error>> {
        loop {
            let Some(i) = self.reserves[..self.reserved].iter().position(&suits) else {
                return Ok(None);
            };
            // What is in a block that no page names would not be found, nor records in one in which a mount does not look for them.
            let any = self.naming || self.formatting || self.together;
            let next = u32::from(self.reserves[i].0);
            let unnamed = i >= self.reserved - self.unnamed;
            let unfound = self.beginning.is_some_and(|named| !named.contains(&next));
            if !any && (unnamed || area == Area::Bitmap && unfound) {
                self.log_lost = true;
                return Err(Error::NoSpace);
            }
            self.took_unnamed |= unnamed && self.naming;
            let block = self.unreserve(i);
            let clean = self.beginning.is_none() && self.is_clean(block)?;
            let erased = clean || self.log_ready == block;
            if self.log_ready == block {
                // Once only: the block may be taken again, for another area.
                self.log_ready = u32::MAX;
            }
            if !self.prepare(block, !erased)? {
                continue;
            }
            self.taken += 1;
            self.set_state(
                block,
                match area {
                    Area::Bitmap => State::System,
                    Area::Data | Area::Update => State::Data(0),
                    _ => State::Meta(0),
                },
            );
            if area == Area::Bitmap && self.bitmap_count < BITMAP_BLOCKS {
                self.bitmap_blocks[self.bitmap_count] = block as u16;
                self.bitmap_count += 1;
            }
            if let Some(recovery) = &mut self.recovery
                && !recovery.note_fresh(block)
            {
                return Err(Error::NoSpace);
            }
            return Ok(Some(block));
        }
    }

    /// Takes a block from the list of reserved ones.
    pub fn unreserve(&mut self, i: usize) -> u32 {
        let block = u32::from(self.reserves[i].0);
        if i >= self.reserved - self.unnamed {
            self.unnamed -= 1;
        }
        self.reserves.copy_within(i + 1..self.reserved, i);
        self.reserved -= 1;
        self.free = self.free.saturating_sub(1);
        block
    }

    /// Makes sure, while the block of the allocation log has room for it to be named, that the next
    /// one can be erased. `false` when only a checkpoint can name another.
    pub fn ready_log(&mut self) -> Result<bool, Error<N::Error>> {
        if self.log_lost {
            return Ok(false);
        }
        while self.session && self.heads[Area::Bitmap as usize].block != u32::MAX {
            let room = self.ppb() - self.heads[Area::Bitmap as usize].next;
            if room > LOG_MARGIN {
                break;
            }
            let next = (0..self.reserved - self.unnamed)
                .find(|&i| self.reserves[i].1 == Area::Bitmap as u8);
            match next {
                Some(i) if u32::from(self.reserves[i].0) == self.log_ready => break,
                Some(i) => {
                    let block = u32::from(self.reserves[i].0);
                    let erased = self.is_clean(block)?;
                    if self.prepare(block, !erased)? {
                        self.log_ready = block;
                    } else {
                        self.unreserve(i);
                    }
                }
                None if room < 2 => return Ok(false),
                None => self.reserve(None)?,
            }
        }
        Ok(true)
    }

    /// Whether a block is not marked bad; the chip's word counts, not the block table's.
    pub fn is_good(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        if !self.nand.is_bad(BlockAddr(block))? {
            return Ok(true);
        }
        if matches!(
            self.state(block),
            State::Free | State::Clean | State::System
        ) {
            self.set_state(block, State::Bad);
            self.good = self.good.saturating_sub(1);
        }
        Ok(false)
    }

    /// Makes sure that a block can be programmed: erases it when it is `fresh`.
    pub fn prepare(&mut self, block: u32, fresh: bool) -> Result<bool, Error<N::Error>> {
        if fresh {
            self.erase(block)
        } else {
            self.is_good(block)
        }
    }

    /// Erases a block; one that fails is marked bad.
    pub fn erase(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        // A session that was cut may have marked it, and no checkpoint says so.
        if !self.is_good(block)? {
            self.drawn = self.drawn.saturating_sub(1);
            return Ok(false);
        }
        self.written.erases += 1;
        self.note_erase(block);
        self.validity.forget(block);
        if self.geo.block_of(self.scratch_at).0 == block {
            self.scratch_at = PageAddr::NONE;
        }
        if self.nand.erase(BlockAddr(block))? == OpStatus::Done {
            return Ok(true);
        }
        self.drawn = self.drawn.saturating_sub(1);
        self.mark_bad(block)?;
        Ok(false)
    }

    /// Marks a block bad that holds nothing of use, if it is not.
    pub fn mark_bad(&mut self, block: u32) -> Result<(), Error<N::Error>> {
        if !self.nand.is_bad(BlockAddr(block))? {
            self.nand.mark_bad(BlockAddr(block))?;
        }
        self.set_state(block, State::Bad);
        self.good = self.good.saturating_sub(1);
        Ok(())
    }

    /// Free blocks that are not reserved, nor kept for pages of the block table that a recovery writes.
    pub fn available(&self) -> u32 {
        let kept = self.table.blocks_for_recovery();
        self.unreserved().saturating_sub(kept)
    }

    /// Free blocks that are not reserved.
    pub fn unreserved(&self) -> u32 {
        self.free.saturating_sub(self.reserved as u32)
    }

    /// Finds the next free block that is not reserved.
    pub fn pick(&mut self) -> Result<u32, Error<N::Error>> {
        let mut found = self.free_from(self.cursor);
        if found.is_none() && self.discarded {
            found = self.of_the_checkpoint();
        }
        let block = self.if_any(found)?;
        self.cursor = (block + 1) % self.table.blocks();
        Ok(self.pick_lagging(block))
    }

    /// A block that was looked for. When there is none since the driver has failed, that is told.
    pub fn if_any(&mut self, found: Option<u32>) -> Result<u32, Error<N::Error>> {
        match found {
            Some(block) => Ok(block),
            None => self.nand.may_write().and(Err(Error::NoSpace)),
        }
    }

    /// The first block from one on that is free and not reserved. One that says which pages of others are valid
    /// only when there is no other, or it lags in wear; then one that does not tell whether it is left alone
    /// ([`Newer`]), and a spared one at last.
    pub fn free_from(&mut self, from: u32) -> Option<u32> {
        let n = self.table.blocks();
        let mut last = None;
        let silent = self.newer.is_silent();
        for step in 0..n {
            // Of those that do not tell the one that a session from the checkpoint on would come to last.
            let step = if silent { n - 1 - step } else { step };
            let block = (from + step) % n;
            if !self.is_free(block) || self.is_spoken_for(block) {
                continue;
            }
            let rank = match self.is_left_alone(block) {
                Some(true) => continue,
                _ if block == self.spared => 3,
                None => 2,
                _ => u8::from(self.validity.is_in(block) && !self.lags(block)),
            };
            if rank == 0 {
                return Some(block);
            }
            if last.is_none_or(|(least, _)| rank < least) {
                last = Some((rank, block));
            }
        }
        if last.is_some_and(|(rank, _)| rank == 2) {
            self.newer.span |= SILENT;
            return self.free_from(from);
        }
        last.map(|(_, block)| block)
    }

    /// Whether a free block is left alone, as a newer checkpoint may need it; none if it does not tell. One read, of its first page, in
    /// a recovery that is not durable.
    fn is_left_alone(&mut self, block: u32) -> Option<bool> {
        let newer = self.newer;
        if newer.span == 0 {
            return Some(false);
        }
        let (mut data, mut spare) = ([0; HEADER], [0xff; tag::SIZE]);
        let len = if self.has_tags() { spare.len() } else { 0 };
        let at = self.geo.page(BlockAddr(block), 0);
        let told = match self.nand.read(at, 0, &mut data, &mut spare[..len]) {
            Ok(status) if !status.is_readable() => None,
            Ok(_) => match (header::seq(&data), Tag::decode(&spare)) {
                (Some(seq), _) => Some(newer.has(seq as u32)),
                (None, Some(tag)) => Some(newer.has(tag.seq)),
                (None, None) if header::is_blank(&data) => Some(false),
                (None, None) => None,
            },
            Err(e) => {
                self.nand.tell_later(e);
                Some(true)
            }
        };
        told.or(newer.is_silent().then_some(false))
    }

    /// Whether nothing is in a block, and nothing must have been.
    pub fn is_free(&mut self, block: u32) -> bool {
        matches!(self.state(block), State::Free | State::Clean)
    }

    /// Whether a free block is reserved, or was when power failed; or has failed, and is to be marked bad.
    pub fn is_spoken_for(&self, block: u32) -> bool {
        self.is_reserved(block)
            || self.failing.iter().any(|&b| u32::from(b) == block)
            || self.recovery.as_ref().is_some_and(|r| r.is_opened(block))
    }

    fn is_reserved(&self, block: u32) -> bool {
        let mut reserves = self.reserves[..self.reserved].iter();
        reserves.any(|r| u32::from(r.0) == block)
    }

    fn reserve_one(&mut self, area: Area) -> Result<(), Error<N::Error>> {
        let block = match area {
            Area::Data | Area::Update => self.pick()?,
            _ => self.pick_for(area as usize)?,
        };
        self.push_reserve(block, area);
        Ok(())
    }

    fn push_reserve(&mut self, block: u32, area: Area) {
        self.reserves[self.reserved] = (block as u16, area as u8);
        self.reserved += 1;
        self.unnamed += 1;
        self.drawn += 1;
        self.update_blocks += usize::from(area == Area::Update);
    }

    /// Reserves blocks for an area, and two for the allocation log when it has none ahead, and
    /// makes the reservation durable by one allocation record.
    fn reserve(&mut self, area: Option<Area>) -> Result<(), Error<N::Error>> {
        if let Some(area) = area.filter(|&a| a != Area::Bitmap) {
            let want = match area {
                Area::Data => (self.free / 32).clamp(1, DATA_BATCH),
                Area::Update => (self.free / 32).clamp(1, UPDATE_BATCH),
                Area::File => (self.free / 64).clamp(1, FILE_BATCH),
                _ => 1,
            };
            for i in 0..want {
                if i > 0 && self.reserved + LOG_AHEAD + 1 + SINGLES >= RESERVES {
                    break;
                }
                match self.reserve_one(area) {
                    Err(Error::NoSpace) if i > 0 => break,
                    r => r?,
                }
            }
        }
        if self.formatting || self.together {
            if area == Some(Area::Bitmap) {
                self.reserve_one(Area::Bitmap)?;
            }
            return Ok(());
        }
        self.record_reserves()
    }

    /// Makes reservations durable, and some for the allocation log when it has none ahead.
    fn record_reserves(&mut self) -> Result<(), Error<N::Error>> {
        let head = self.heads[Area::Bitmap as usize];
        let full = head.block == u32::MAX || head.next >= self.ppb();
        for i in self.log_ahead()..LOG_AHEAD + usize::from(full) {
            match self.reserve_one(Area::Bitmap) {
                // The checkpoint names those ahead itself.
                Err(Error::NoSpace) if self.naming && i >= usize::from(full) => break,
                r => r?,
            }
        }
        self.write_alloc_record()
    }

    /// Makes sure that blocks for the allocation log are reserved; the checkpoint that follows
    /// names them.
    pub fn reserve_bitmap(&mut self) -> Result<(), Error<N::Error>> {
        for i in self.log_ahead()..LOG_AHEAD {
            match self.reserve_one(Area::Bitmap) {
                Err(Error::NoSpace) if i > 0 => break,
                r => r?,
            }
        }
        Ok(())
    }

    /// Pages that the allocation log has in the block being written and in those kept for it, but the last of them.
    pub fn log_room(&self) -> u32 {
        let head = self.heads[Area::Bitmap as usize];
        let open = match head.block {
            u32::MAX => 0,
            _ => self.ppb() - head.next,
        };
        open + (self.log_ahead() as u32).saturating_sub(1) * self.ppb()
    }

    /// Blocks kept for the allocation log.
    fn log_ahead(&self) -> usize {
        let kept = self.reserves[..self.reserved].iter();
        kept.filter(|r| r.1 == Area::Bitmap as u8).count()
    }

    /// ```text
    /// 32 count u16   34 written by a checkpoint u16   36 entries: block u16, area u8, 0
    /// ```
    fn write_alloc_record(&mut self) -> Result<(), Error<N::Error>> {
        let mut page = [0u8; HEADER + 4 + 4 * RESERVES];
        let new = &self.reserves[self.reserved - self.unnamed..self.reserved];
        put_u16(&mut page, HEADER, new.len() as u16);
        put_u16(&mut page, HEADER + 2, self.naming.into());
        let mut len = HEADER + 4;
        for &(block, area) in new {
            put_u32(&mut page, len, u32::from(block) | u32::from(area) << 16);
            len += 4;
        }
        self.append(Area::Bitmap, &mut page[..len], Kind::Alloc, PageAddr::NONE)?;
        self.unnamed = 0;
        Ok(())
    }

    /// A block is not written any more.
    pub fn close(&mut self, block: u32) {
        if block == u32::MAX {
            return;
        }
        if matches!(self.state(block), State::Meta(0) | State::Data(0)) {
            self.kill(block);
        }
    }

    fn kill(&mut self, block: u32) {
        if let Some(i) = self.dirty.find(block) {
            self.dirty.remove(i);
        }
        if let Some(i) = self.remnants.find(block) {
            self.remnants.remove(i);
        }
        self.set_state(block, State::Dead);
        self.dead += 1;
    }

    /// Retires a block of the checkpoint or the allocation log.
    pub fn retire_system(&mut self, block: u32) {
        if self.state(block) == State::System {
            self.set_state(block, State::Dead);
            self.dead += 1;
        }
    }

    /// Gives up a data frontier; what is left of its block is remembered as a remnant.
    pub fn park(&mut self, front: usize) {
        let head = core::mem::replace(&mut self.fronts[front], Head::NONE);
        if head.block == u32::MAX {
            return;
        }
        if head.next >= self.ppb() || self.state(head.block) == State::Data(0) {
            self.close(head.block);
            return;
        }
        if self.remnants.is_full() {
            let Head { block, next } = self.remnants.remove(0);
            // Its tail is not known from what is written to be empty.
            if self.valid_pages(block) == next && self.dirty.find(block).is_none() {
                self.list(block, next);
            }
        }
        self.remnants.push(head);
    }

    /// Continues a remnant at a frontier.
    pub fn unpark(&mut self, front: usize, remnant: usize) -> Result<(), Error<N::Error>> {
        self.park(front);
        // Parking may have pushed the list's first entry out.
        if remnant < self.remnants.len {
            let is_unseen = self.remnants.is_unseen(remnant);
            let head = self.remnants.remove(remnant);
            if !self.is_good(head.block)? {
                return Ok(());
            }
            if is_unseen && !self.goes_on(head)? {
                self.give_up(head.block);
                return Ok(());
            }
            self.fronts[front] = head;
        }
        Ok(())
    }

    /// Whether a block is being written.
    pub fn is_open(&self, block: u32) -> bool {
        self.heads
            .iter()
            .chain(&self.fronts)
            .any(|h| h.block == block)
            || self.table.head().block == block
            || self.looked_through[..self.looked_count].contains(&(block as u16))
    }

    /// Whether cleaning may take a block: it is not being written, and not one that could not be won.
    pub fn may_be_cleaned(&self, block: u32) -> bool {
        !self.is_open(block) && !self.stuck.contains(&(block as u16))
    }

    /// Valid pages of a block of metadata or file data.
    pub fn valid_pages(&mut self, block: u32) -> u32 {
        match self.state(block) {
            State::Meta(n) | State::Data(n) => n,
            _ => 0,
        }
    }

    /// Pages of maps that files' or directories' inodes name, written since the mount.
    pub fn map_writes(&self) -> u64 {
        self.written.areas[Area::Hash as usize] + self.written.areas[Area::Extent as usize]
    }

    /// Whether a block belongs to the allocation log.
    pub fn is_log(&self, block: u32) -> bool {
        self.bitmap_blocks[..self.bitmap_count].contains(&(block as u16))
    }

    /// A block is not written any more, and not continued. One of which nothing is valid is dead.
    pub fn let_go(&mut self, block: u32) {
        for head in self.heads.iter_mut().chain(&mut self.fronts) {
            if head.block == block {
                *head = Head::NONE;
            }
        }
        if self.table.head().block == block {
            self.table.set_head(Head::NONE);
        }
        if let Some(i) = self.remnants.find(block) {
            self.remnants.remove(i);
        }
        self.close(block);
    }

    /// Pages of a block that have been programmed, all of them if it is closed.
    pub fn programmed(&self, block: u32) -> u32 {
        if let Some(h) = self
            .heads
            .iter()
            .chain(&self.fronts)
            .chain([&self.table.head()])
            .find(|h| h.block == block)
        {
            return h.next;
        }
        self.remnants
            .find(block)
            .map_or(self.ppb(), |i| self.remnants.get(i).next)
    }

    /// Counts a page as valid.
    pub fn validate(&mut self, at: PageAddr) {
        let block = self.geo.block_of(at).0;
        match self.state(block) {
            State::Meta(n) if n < self.ppb() => self.set_state(block, State::Meta(n + 1)),
            State::Data(n) if n < self.ppb() => self.set_state(block, State::Data(n + 1)),
            _ => return,
        }
        self.live += 1;
        if let Some(i) = self.dirty.find(block) {
            self.dirty.set(i, self.geo.index_of(at), true);
        }
    }

    /// Counts a page as invalid. A block whose last valid page this was is dead. At times what
    /// [`Store::settle_table`] costs.
    pub fn invalidate(&mut self, at: PageAddr) {
        self.invalidate_run(at.0, 1);
    }

    /// The same with a run of pages, by blocks. What is not on the chip is left out.
    pub fn invalidate_run(&mut self, page: u32, count: u32) {
        if self.scratch_at.0.wrapping_sub(page) < count {
            self.scratch_at = PageAddr::NONE;
        }
        let (mut at, end) = (page, page.saturating_add(count).min(self.geo.pages()));
        loop {
            self.settle_table();
            if at >= end {
                return;
            }
            let place = PageAddr(at);
            let (block, index) = (self.geo.block_of(place).0, self.geo.index_of(place));
            let left = (self.ppb() - index).min(end - at);
            at += match self.recovery.as_ref().map(|r| r.lost_from(block)) {
                None => self.invalidate_in_block(place, left),
                Some(lost) if index < lost && self.valid_pages(block) > 0 => {
                    self.invalidate_in_block(place, 1)
                }
                // None of these counts.
                Some(_) => left,
            };
            if at >= end {
                return;
            }
        }
    }

    /// Counts so many pages of a block as invalid; gives their number.
    fn invalidate_in_block(&mut self, at: PageAddr, pages: u32) -> u32 {
        let all = pages;
        let (block, index) = (self.geo.block_of(at).0, self.geo.index_of(at));
        let (count, state): (u32, fn(u32) -> State) = match self.state(block) {
            State::Meta(n) if n > 0 => {
                self.nand.pages.forget(at, pages);
                (n, State::Meta)
            }
            State::Data(n) if n > 0 => (n, State::Data),
            _ => return all,
        };
        let pages = pages.min(count);
        self.set_state(block, state(count - pages));
        self.live = self.live.saturating_sub(pages);
        if count == pages
            && !self.is_open(block)
            && !self.table.is_own(block)
            && !self.recovery.as_ref().is_some_and(|r| r.is_opened(block))
        {
            self.kill(block);
            return all;
        }
        let listed = match self.dirty.find(block) {
            None if count == self.programmed(block) || self.validity.has(block) => {
                Some(self.list(block, self.programmed(block)))
            }
            listed => listed,
        };
        if let Some(i) = listed {
            for page in index..index + pages {
                self.dirty.set(i, page, false);
            }
        }
        all
    }

    /// Puts a block on the dirty list whose first `programmed` pages are all valid, or not known to be invalid.
    pub fn list(&mut self, block: u32, programmed: u32) -> usize {
        let i = self.dirty.add(block, programmed);
        self.nand.pages.yield_to(self.dirty.spare().len());
        i
    }

    /// After a checkpoint: dead blocks are free. Those that have failed are bad; without `marking`,
    /// which writes, they stay dead until the next checkpoint.
    pub fn free_dead(&mut self, marking: bool) -> Result<(), Error<N::Error>> {
        self.wear.ready = true;
        if marking {
            self.mark_failed()?;
        }
        self.sure = self.unreserved();
        if self.dead == 0 && self.table.paged.is_none() {
            return Ok(());
        }
        let mut failed = self.failing;
        for slot in 0..failed.len() {
            let block = failed[slot];
            let is_dead = block != u16::MAX && self.state(block.into()) == State::Dead;
            if !is_dead || failed[..slot].contains(&block) {
                failed[slot] = u16::MAX;
            }
        }
        self.table.free_dead();
        let freed = core::mem::take(&mut self.dead);
        self.free += freed;
        for (slot, block) in failed.into_iter().enumerate() {
            if block == u16::MAX {
                continue;
            }
            self.set_state(block.into(), State::Dead);
            self.free = self.free.saturating_sub(1);
            if marking {
                self.failing[slot] = u16::MAX;
                self.mark_bad(block.into())?;
            } else {
                self.dead += 1;
            }
        }
        Ok(())
    }

    /// Blocks that the checkpoint calls bad because they have failed, or free, because they had been taken when its block
    /// table was on flash: whoever wrote it may not have come to mark them, and they wait no longer.
    fn mark_failed(&mut self) -> Result<(), Error<N::Error>> {
        for slot in 0..self.failing.len() {
            let block = u32::from(self.failing[slot]);
            if block == u16::MAX.into() || self.is_reserved(block) {
                continue;
            }
            match self.state(block) {
                State::Bad if self.nand.is_bad(BlockAddr(block))? => {}
                State::Bad => self.nand.mark_bad(BlockAddr(block))?,
                State::Free | State::Clean => {
                    self.free = self.free.saturating_sub(1);
                    self.mark_bad(block)?;
                }
                _ => continue,
            }
            self.failing[slot] = u16::MAX;
        }
        Ok(())
    }

    /// An open block has not failed, whatever a checkpoint says: it could until commit 50e3ca0, which took blocks that had
    /// failed again.
    pub fn forget_open_failed(&mut self) {
        for slot in 0..self.failing.len() {
            let block = u32::from(self.failing[slot]);
            if block != u16::MAX.into()
                && (self.is_open(block) || self.remnants.find(block).is_some())
            {
                self.failing[slot] = u16::MAX;
            }
        }
    }

    /// A block of the checkpoint or of the allocation log, free now: where nothing is kept, a mount that has read them
    /// does without.
    fn of_the_checkpoint(&mut self) -> Option<u32> {
        let mut blocks = 0..self.table.blocks();
        let block = blocks.find(|&block| {
            self.state(block) == State::System && !self.is_open(block) && !self.is_spoken_for(block)
        })?;
        self.set_state(block, State::Free);
        self.free += 1;
        Some(block)
    }

    /// Counts good, free and dead blocks, and valid pages, anew.
    pub fn recount(&mut self) {
        (self.good, self.free, self.dead, self.live) = (0, 0, 0, 0);
        for block in 0..self.table.blocks() {
            let state = self.state(block);
            self.good += u32::from(state != State::Bad);
            match state {
                State::Meta(n) | State::Data(n) => self.live += n,
                State::Free | State::Clean => self.free += 1,
                State::Dead => self.dead += 1,
                _ => {}
            }
        }
    }
}

//! Pages and blocks: allocation, programs, validity. Everything above sees pages of areas.
//!
//! Invariants:
//! * Nothing that was valid at the last checkpoint, and no page written since, is erased before
//!   the next checkpoint: a block without valid pages is *dead* until then. Recovery rests on it.
//! * A block is taken only after an allocation record (or the checkpoint) that names it, with
//!   its area, is durable. Blocks are reserved in batches so that records are few.
//! * A block is erased when it is taken, except one that was erased at format time.

use crate::config::Config;
use crate::error::{Bool, Damaged, Fault};
use crate::format::area::{Head, LogArea, UPDATE};
use crate::format::header::{self, Header, KIND, Kind};
use crate::format::limits::RETIRING;
use crate::format::mappage::Owner;
use crate::format::tag::{self, Form, Tag};
use crate::format::wellformed::{self, is_well_formed};
use crate::space::block_list::BlockList;
use crate::space::dirty::DirtyList;
use crate::space::erased::OF_UPDATES;
use crate::space::failing::Failing;
use crate::space::heads::WriteHeads;
use crate::space::latch::{Latch, MayProgram, Stopped};
use crate::space::log::AllocLog;
use crate::space::newer::Newer;
use crate::space::opened::Recovery;
use crate::space::pages::Pages;
use crate::space::remnants::Remnants;
use crate::space::scratch_holds::ScratchHolds;
use crate::space::shared_page::SharedPage;
use crate::space::since::SinceCheckpoint;
use crate::space::table::Table;
use crate::space::tally::Tally;
use crate::space::unmovable::Unmovable;
use crate::space::updates::UpdateBlocks;
use crate::space::validity::Validity;
use crate::space::wear::{Counts, Wear};
use crate::space::written::Written;
use flashkit_bytes::copy_erasing;
use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr};

/// See the module's text.
#[repr(C)]
pub(crate) struct Store<'r, N: Nand> {
    pub scratch_holds: ScratchHolds,
    pub volume: u32,
    /// Number of the next metadata page.
    pub seq: u64,
    pub geo: Geometry,
    /// Free blocks taken or reserved for one purpose
    /// ([`Volume::account`](crate::cleaning::Volume::account)).
    pub drawn: u32,
    /// Where the search for a free block goes on.
    pub cursor: u32,
    pub map_page: SharedPage<'r>,
    pub dirty: DirtyList<'r>,
    pub tally: Tally,
    pub table: Table<'r>,
    pub remnants: Remnants<'r>,
    /// In a recovery, a free block that is taken when there is no other; all ones: none.
    pub spared: u32,
    /// The page where scrubbing goes on.
    pub scrub_at: u32,
    pub heads: WriteHeads,
    pub log: AllocLog,
    pub newer: Newer,
    pub counts: Counts<'r>,
    pub since: SinceCheckpoint,
    pub recovery: Option<Recovery<'r>>,
    pub written: Written,
    pub validity: Validity<'r>,
    pub wear: Wear,
    /// At the end of a recovery: blocks of updates that are still being looked through.
    pub updates_to_replay: UpdateBlocks,
    pub failing: Failing,
    pub unmovable: Unmovable,
    /// Blocks of the checkpoint that the next one makes free.
    pub retiring: BlockList<RETIRING>,
    /// Nothing of what is written is kept: see [`Config::discarded`](crate::Config::discarded).
    pub discarded: bool,
    /// What tags data pages carry, if there is room for any.
    pub tags: Option<Form>,
    pub nand: Latch<'r, N>,
}

/// What a store has of the caller's bytes.
pub(crate) struct Parts<'r> {
    pub table: &'r mut [u8],
    pub dirty: &'r mut [u8],
    pub known: &'r mut [u8],
    pub pages: &'r mut [u8],
    /// Bytes of a place for pages.
    pub place: usize,
    pub remnants: &'r mut [u8],
    /// The page of the DirInode map.
    pub map_page: &'r mut [u8],
    pub counts: &'r mut [u8],
    /// Entries of the dirty list at most.
    pub dirty_most: usize,
    /// Bytes of deferred changes at most, in those of the dirty list.
    pub deferred_most: u16,
    /// And in the page of the map.
    pub deferred_in_map_page: u16,
}

impl<'r, N: Nand> Store<'r, N> {
    /// A store of which nothing has been read yet.
    // As a call it would leave another copy on the stack of a mount.
    #[inline(always)]
    pub fn new(nand: N, config: &Config, parts: Parts<'r>) -> Self {
        let Parts {
            table,
            dirty,
            known,
            pages,
            place,
            remnants,
            map_page,
            counts,
            dirty_most,
            deferred_most,
            deferred_in_map_page,
        } = parts;
        let geo = nand.geometry();
        let ppb = geo.pages_per_block();
        let correctable = nand.correctable_bits();
        let refresh_bits = config.refresh_bits.unwrap_or(correctable - correctable / 4);
        Store {
            nand: Latch::new(nand, refresh_bits, Pages::new(pages, place)),
            geo,
            tags: Form::new(geo.spare_size()),
            volume: 0,
            seq: 1,
            table: Table::new(table, &geo),
            dirty: DirtyList::new(dirty, ppb, dirty_most, deferred_most),
            map_page: SharedPage::new(map_page, deferred_in_map_page),
            validity: Validity::new(known, geo),
            remnants: Remnants::new(remnants),
            heads: WriteHeads::new(),
            log: AllocLog::new(),
            tally: Tally::default(),
            cursor: 0,
            drawn: 0,
            spared: u32::MAX,
            newer: Newer::NONE,
            wear: Wear::new(config.wear_interval),
            counts: Counts::new(counts),
            scrub_at: 0,
            since: SinceCheckpoint::default(),
            updates_to_replay: UpdateBlocks::default(),
            recovery: None,
            written: Written::default(),
            discarded: config.read_only && config.discarded,
            failing: Failing::NONE,
            unmovable: Unmovable::new(),
            retiring: BlockList::new(),
            scratch_holds: ScratchHolds::NOTHING,
        }
    }
}

impl<N: Nand> Store<'_, N> {
    /// Pages per block.
    pub fn ppb(&self) -> u32 {
        self.geo.pages_per_block()
    }

    pub fn page_size(&self) -> usize {
        self.geo.page_size() as usize
    }

    /// The page of a file that has a byte, and which of its bytes that is. Pages are powers of two:
    /// no division of 64 bits.
    pub fn place_of(&self, at: u64) -> (u32, usize) {
        let size = self.geo.page_size();
        let index = (at >> size.trailing_zeros()) as u32;
        (index, at as usize & (size as usize - 1))
    }

    /// The pages of a file of so many bytes.
    pub fn pages_of(&self, size: u64) -> u32 {
        let (whole, rest) = self.place_of(size);
        whole + u32::from(rest > 0)
    }

    /// Whether data pages carry tags.
    pub fn has_tags(&self) -> bool {
        self.tags.is_some()
    }

    /// Whether a data page is as it was written, by its tag, if it has one. One flipped bit of that
    /// is mended, and the page moved before there are two.
    pub fn check_tag(&mut self, at: PageAddr, tag: &mut [u8; tag::SIZE], data: &[u8]) -> bool {
        let Some(form) = self.tags else { return true };
        let checked = Tag::check(form, tag, data, self.seq);
        if checked.is_some_and(|checked| checked.mended) {
            self.nand.refresh.add(self.geo.block_of(at).0);
        }
        checked.is_some()
    }

    /// Reads the page of a directory at `at`, or a `page` that may be its copy.
    /// Whether it is that. One read.
    pub fn read_dir(
        &mut self,
        page: PageAddr,
        at: PageAddr,
        buf: &mut [u8],
    ) -> Result<Bool, Fault> {
        let header = self.read_meta(page, buf)?;
        Ok(Bool::from(header.is_some_and(|h| {
            h.kind == Kind::Dir && (page == at || h.prev == at)
        })))
    }

    /// Reads a page as far as it is used and checks that it is a metadata page of this volume, and
    /// well-formed. One read; a page that is uncorrectable is read once more, for it may be at its
    /// limit.
    pub fn read_meta(&mut self, at: PageAddr, buf: &mut [u8]) -> Result<Option<Header>, Fault> {
        if !self.geo.contains(at) {
            return Ok(None);
        }
        let mut status = self.nand.read_meta(at, buf)?;
        if !status.is_readable() {
            status = self.nand.read_meta(at, buf)?;
        }
        if !status.is_readable() {
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
    ) -> Result<Header, Fault> {
        match self.read_meta(at, buf)? {
            Some(h) if h.kind == kind => Ok(h),
            _ => Err(self.nand.damaged(at, kind.damaged())),
        }
    }

    /// Does something with the page of the map, all bytes of which are the map's.
    pub fn with_map_page<T>(&mut self, what: impl FnOnce(&mut Self, &mut [u8]) -> T) -> T {
        let bytes = core::mem::take(&mut self.map_page.bytes);
        let done = what(self, bytes);
        self.map_page.bytes = bytes;
        done
    }

    /// The metadata page at a place, if it is kept in RAM ([`crate::space::pages`]), without what
    /// is erased at its end.
    pub fn kept(&mut self, at: PageAddr, kind: Kind) -> Option<&[u8]> {
        let page = self.nand.pages.get(self.dirty.spare(), at)?;
        (page[KIND] == kind as u8).then_some(page)
    }

    /// Gets a metadata page that must be of one kind. One read, unless the page is kept in RAM:
    /// then what it was found to hold before.
    pub fn get_meta(&mut self, at: PageAddr, buf: &mut [u8], kind: Kind) -> Result<(), Fault> {
        if let Some(page) = self.kept(at, kind) {
            copy_erasing(buf, page);
            return Ok(());
        }
        self.expect_meta(at, buf, kind)?;
        self.keep(at, kind, &buf[..header::used(buf)]);
        Ok(())
    }

    /// Forgets all that is known of pages without a read.
    pub fn forget_kept(&mut self) {
        self.nand.pages.yield_to(0);
        self.map_page.forget_filters();
    }

    fn keep(&mut self, at: PageAddr, kind: Kind, page: &[u8]) {
        let tail = self.dirty.tail().len();
        let room = (self.dirty.spare_mut(), tail);
        self.nand.pages.put(room, at, kind, page);
    }

    /// Whether it is known of the hash map at a place that it does not have a hash.
    pub fn lacks_hash(&self, map: PageAddr, hash: u32) -> bool {
        self.nand.pages.is_ready() && self.map_page.lacks(map, hash)
    }

    /// Notes which hashes the hash map at a place has.
    pub fn learn_hashes(&mut self, map: PageAddr, hashes: impl Iterator<Item = u32>) {
        if self.nand.pages.is_ready() {
            self.map_page.learn(map, hashes);
        }
    }

    /// Seals and programs a metadata page at a fixed place; `false` when the chip reports failure.
    pub fn program_at(
        &mut self,
        at: PageAddr,
        page: &mut [u8],
        kind: Kind,
        prev: PageAddr,
    ) -> Result<Bool, Fault> {
        let version = match (kind, self.tags) {
            (Kind::Root, Some(Form::Short)) => header::SHORT_TAGS,
            _ => header::FORMAT_VERSION,
        };
        header::seal_as(version, page, kind, self.seq, at, self.volume, prev);
        debug_assert!(
            wellformed::is_believed(&self.geo, page, at),
            "a page of kind {kind:?} that would not be believed"
        );
        self.seq += 1;
        Ok(Bool::from(
            self.nand.program(at, page, &[])? == OpStatus::Done,
        ))
    }

    /// Appends a metadata page to the log of its area. `page` is exactly what is to be programmed.
    /// One program, and at times an erase and an allocation record before it.
    pub fn append(
        &mut self,
        area: LogArea,
        page: &mut [u8],
        kind: Kind,
        prev: PageAddr,
    ) -> Result<PageAddr, Fault> {
        if area != LogArea::Bitmap {
            self.table_write_back(MayProgram);
        }
        let mut failed = false;
        let log = if self.log.together && area != LogArea::Bitmap {
            LogArea::Extent
        } else {
            area
        };
        loop {
            let at = self.next_page(log);
            if at.is_err() && failed && matches!(area, LogArea::Dir | LogArea::File) {
                // The page whose program failed may read well, and is a record then:
                // nothing may contradict it.
                self.nand.stop(Stopped::HalfDone);
            }
            let at = at?;
            if self.program_at(at, page, kind, prev)?.is_true() {
                if kind == Kind::Validity {
                    self.written.validity += 1;
                } else {
                    self.written.areas[area as usize] += 1;
                }
                if matches!(area, LogArea::Dir | LogArea::File) {
                    self.since.inode_pages += 1;
                }
                if matches!(area, LogArea::Map | LogArea::Dir | LogArea::Hash) {
                    self.since.index_pages += 1;
                }
                if area != LogArea::Bitmap {
                    self.validate(at);
                    // What is replaced will not be asked for any more, and an extent map not soon:
                    // a file that changes in order has few, and one that changes at random many.
                    self.nand.pages.forget(prev, 1);
                    self.keep(at, kind, page);
                    if kind == Kind::HashMap {
                        self.map_page.forget_filter(at);
                    }
                    if kind == Kind::ExtentMap {
                        self.nand.pages.set_old(at);
                    }
                }
                return Ok(at);
            }
            failed = true;
            let block = core::mem::replace(&mut self.heads.log[log as usize], Head::NONE).block;
            self.note_failing(block);
        }
    }

    fn next_page(&mut self, area: LogArea) -> Result<PageAddr, Fault> {
        self.begin_session()?;
        self.see(area as usize)?;
        let head = self.heads.log[area as usize];
        if head.block == u32::MAX || head.next >= self.ppb() {
            // The head is given up first: taking a block may write to this very log.
            self.heads.log[area as usize] = Head::NONE;
            self.close(head.block);
            let block = self.take_block(area)?;
            self.heads.log[area as usize] = Head { block, next: 0 };
        }
        let head = &mut self.heads.log[area as usize];
        head.next += 1;
        Ok(self.geo.page(BlockAddr(head.block), head.next - 1))
    }

    /// Programs a page of file data at a data head, with its tag where there is room for one.
    pub fn append_data(
        &mut self,
        front: usize,
        data: &[u8],
        owner: Owner,
        index: u32,
    ) -> Result<PageAddr, Fault> {
        self.begin_session()?;
        self.table_write_back(MayProgram);
        let Some(form) = self.tags else {
            return self.program_data(front, data, &[]);
        };
        let tag = self.tag(owner, index).encode(form, data, self.seq);
        self.program_data(front, data, &tag)
    }

    fn tag(&self, owner: Owner, index: u32) -> Tag {
        let seq = self.seq as u32;
        Tag { owner, index, seq }
    }

    /// Programs a page of an update, with its tag; there must be room for such.
    pub fn append_update(
        &mut self,
        data: &[u8],
        owner: Owner,
        index: u32,
        update: tag::Update,
    ) -> Result<PageAddr, Fault> {
        self.begin_session()?;
        self.table_write_back(MayProgram);
        let form = self.tags.unwrap_or(Form::Short);
        let spare = update.encode(form, &self.tag(owner, index), data, self.seq);
        let at = self.program_data(UPDATE, data, &spare[..form.update_size()])?;
        self.since.updates += 1;
        self.written.updates += 1;
        Ok(at)
    }

    fn program_data(&mut self, front: usize, data: &[u8], spare: &[u8]) -> Result<PageAddr, Fault> {
        if front == UPDATE {
            self.see(OF_UPDATES)?;
        }
        loop {
            let at = self.next_data_page(front)?;
            let status = self.nand.program(at, data, spare)?;
            if self.has_programmed(front, at, status) {
                return Ok(at);
            }
        }
    }

    fn next_data_page(&mut self, front: usize) -> Result<PageAddr, Fault> {
        let head = self.heads.data[front];
        if head.block == u32::MAX || head.next >= self.ppb() {
            self.heads.data[front] = Head::NONE;
            self.close(head.block);
            let block = self.take_data_head(front)?;
            self.heads.data[front] = Head { block, next: 0 };
        }
        let head = &mut self.heads.data[front];
        head.next += 1;
        Ok(self.geo.page(BlockAddr(head.block), head.next - 1))
    }

    /// Whether a page at a data head is there now; if not, its block is given up.
    fn has_programmed(&mut self, front: usize, at: PageAddr, status: OpStatus) -> bool {
        if status == OpStatus::Failed {
            let block = core::mem::replace(&mut self.heads.data[front], Head::NONE).block;
            self.note_failing(block);
            return false;
        }
        if front == self.heads.mover {
            self.written.moved_data += 1;
        } else {
            self.written.data += 1;
        }
        self.validate(at);
        true
    }

    /// Whether the chip may copy a page to where cleaning moves data. Of a block that is not taken
    /// yet it is not known.
    pub fn may_copy(&self, from: PageAddr) -> bool {
        let Head { block, next } = self.heads.data[self.heads.mover];
        let is_open = block != u32::MAX && next < self.ppb();
        let to = if is_open {
            self.geo.page(BlockAddr(block), next)
        } else {
            from
        };
        self.nand.inner.copies(from, to)
    }

    /// Has the chip copy a page of data, with this tag, to where cleaning moves data; none if it
    /// does not copy there. `page` is room for one.
    pub fn copy_data(
        &mut self,
        from: PageAddr,
        tag: &[u8],
        page: &mut [u8],
    ) -> Result<Option<PageAddr>, Fault> {
        self.begin_session()?;
        self.table_write_back(MayProgram);
        let front = self.heads.mover;
        loop {
            let at = self.next_data_page(front)?;
            let status = match self.nand.inner.copies(from, at) {
                true => Some(self.nand.copy(from, at, tag, page)?),
                false => None,
            };
            let status = match status {
                Some(Copied::Done(_)) => OpStatus::Done,
                Some(Copied::Failed) => OpStatus::Failed,
                other => {
                    // Nothing was programmed.
                    self.heads.data[front].next -= 1;
                    let lost = Err(self.nand.damaged(from, Damaged::Data));
                    return other.map_or(Ok(None), |_| lost);
                }
            };
            if self.has_programmed(front, at, status) {
                return Ok(Some(at));
            }
        }
    }

    /// The tag for a page of data that is copied, whose tag this is.
    pub fn tag_anew(&self, owner: Owner, index: u32, old: &[u8; tag::SIZE]) -> [u8; tag::SIZE] {
        self.tags
            .map_or(*old, |form| self.tag(owner, index).encode_anew(form, old))
    }

    pub fn note_failing(&mut self, block: u32) {
        self.drawn = self.drawn.saturating_sub(1);
        self.failing.add(block);
        self.table.disown(block);
        self.close(block);
    }

    /// Reads a whole data page, which must be page `index` of file `ino`, and checks it against its
    /// tag.
    pub fn read_data(
        &mut self,
        at: PageAddr,
        out: &mut [u8],
        ino: u32,
        index: u32,
    ) -> Result<(), Fault> {
        if !self.geo.contains(at) {
            return Err(self.nand.damaged(at, Damaged::Extent));
        }
        let mut spare = [0u8; tag::SIZE];
        let n = if self.has_tags() { tag::SIZE } else { 0 };
        let status = self.nand.read(at, 0, out, &mut spare[..n])?;
        if !status.is_readable() || !self.is_page(at, &mut spare, out, ino, index) {
            return Err(self.nand.damaged(at, Damaged::Data));
        }
        Ok(())
    }

    /// Whether a page that was read is, by its tag, a page of a file.
    fn is_page(
        &mut self,
        at: PageAddr,
        tag: &mut [u8; tag::SIZE],
        data: &[u8],
        ino: u32,
        index: u32,
    ) -> bool {
        let Some(form) = self.tags else { return true };
        let read = *tag;
        self.check_tag(at, tag, data) && Tag::is_of(form, tag, &read, (ino, index))
    }
}

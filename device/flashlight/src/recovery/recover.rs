//! Roll-forward after an unclean stop.
//!
//! Nothing that the last checkpoint needs, and no page written since, has been erased. So the
//! state is rebuilt from the checkpoint and the inode pages written since, in the order of their
//! sequence numbers; every one of them is a record of a change that was complete:
//!
//! 0. The checkpoint itself may be the page whose program was cut: it is written once more
//!    (`checkpoint.rs`) before anything else, without the blocks that only it makes free.
//! 1. The allocation log tells which blocks were taken since. Their pages, and those of blocks
//!    that were open at the checkpoint beyond the place they had reached, are *lost*: not valid
//!    unless step 5 finds them in use.
//! 2. The newest inode page may be the one that was being programmed when power failed: it may read
//!    well now and fail later. It is written anew and taken from there; the page itself is not
//!    looked at again. (Of other pages only those matter that an inode page written later refers
//!    to; these were complete by then.)
//! 3. DirInode pages: the DirInode map points to the newest; what they note as freed is invalid.
//! 4. DirInode and FileInode pages, in order: what they replace is invalid; a name that a
//!    directory's own newest page does not show is linked, one that was moved away, or noted in the page of a
//!    newer name, is removed.
//! 5. Of lost pages, those are valid that an inode refers to now.
//!    A file that a rename has taken a name from, and no page of its own says so, is written.
//! 6. All blocks that were open are closed: only freshly erased ones are written.
//! 7. Overwrites that no inode page shows yet are found by the tags of their pages (`updates.rs`).
//!    A checkpoint makes it durable; until then a second stop finds the volume as the first did.

use crate::api::exchange::Pending;
use crate::api::updates::UPDATE_BLOCKS;
use crate::checkpoint::take::Start;
use crate::error::{Error, sound};
use crate::format::bytes::{get_u16, get_u32, get_u64, put_u16};
use crate::format::dirrec::{self, DirRec, State as RecState, Target};
use crate::format::extent::{
    self, Extent, FREED_MAP, FREED_RUN, INDEX_END, REMOVED, REPLACED_MAP, REPLACED_PAGE,
};
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::{HEADER, Header, Kind, SEQ, is_blank};
use crate::format::inode::{
    DirView, FLAG_EXCHANGED, FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, FileView,
};
use crate::format::mappage::{ExtentPage, MapPage, RECORDS};
use crate::format::tag::{self, Tag, Update};
use crate::index::cache::REMOVED_MOST;
use crate::index::dir::Removal;
use crate::index::waiting::{CHUNK, Waiting};
use crate::space::store::{Area, FRONTS, HEADS, Head, Newer, REMNANTS, RESERVES, Store, UPDATE};
use crate::space::table::State;
use crate::{FlashLight, INDEX_DIR, ROOT_DIR};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Blocks that may be taken between checkpoints, and by a recovery for the pages of directories, so that it can list them in a page.
pub(crate) fn opened_max(page_size: usize) -> u32 {
    (page_size / ENTRY) as u32 - (RESERVES + REMNANTS + HEADS + FRONTS + OWN) as u32
}

/// Blocks that a recovery takes at most, but for those with the pages of directories.
const OWN: usize = 16;

/// `block u16, info u16`: bits 0 to 10 the first lost page, 11 to 14 the area, 15 fresh.
const ENTRY: usize = 4;
const FRESH: u16 = 1 << 15;
/// By so much the numbers of a recovery's pages are above those of what it began from: more than a recovery before,
/// whose checkpoint could not be read, had gone on by.
pub(crate) const NEWER: u64 = 1 << 17;
/// "Area" of a data block with an unwritten tail.
const PARTIAL: u16 = 8;

/// "Area" of a block for inodes of which nothing counts: it was not begun, or its first program was cut.
const NOT_BEGUN: u16 = 9;

/// For each of the two logs of inodes, the last page, and one before it.
const SUSPECTS: usize = 4;

/// The blocks that recovery must know.
pub(crate) struct Recovery<'r> {
    list: &'r mut [u8],
    len: usize,
    pages_per_block: u32,
    /// Pages with larger numbers were written after the checkpoint.
    pub since: u64,
    /// Pages that may be read well now and not later, or the other way round: not to be looked at
    /// again.
    suspects: [PageAddr; SUSPECTS],
    /// Number, replaced page, and place of the last DirInode and of the last FileInode. A page that replaces
    /// the same is that record written again, after its program had failed.
    last: [(u32, PageAddr, PageAddr); 2],
    /// The newest record of all, written anew, and the number that it had before.
    copy: Option<(PageAddr, Header, u64)>,
    /// The inode of that.
    copy_of: u32,
    /// Whether a rename has replaced a file in the index directory that is not known to know.
    mend: bool,
    /// A page of a directory cannot be read that may have been a record.
    doubt: bool,
    /// Pages of files of which a truncation has not come to its end, of the two at most that were in RAM when power failed.
    half_cut: [PageAddr; 2],
    /// The last exchange, while its second inode is not known to know.
    pub exchange: Option<Pending>,
    /// Pages that may yet be looked into for what they name ([`Recovery::look_into`]).
    left: u32,
}

impl Recovery<'_> {
    fn entry(&self, i: usize) -> (u32, u16) {
        (
            u32::from(get_u16(self.list, ENTRY * i)),
            get_u16(self.list, ENTRY * i + 2),
        )
    }

    /// Lists a block, once: a record whose program failed may be there twice.
    fn add(&mut self, block: u32, info: u16) {
        if !self.is_full() && !self.is_opened(block) {
            put_u16(self.list, ENTRY * self.len, block as u16);
            put_u16(self.list, ENTRY * self.len + 2, info);
            self.len += 1;
        }
    }

    fn area(info: u16) -> u16 {
        info >> 11 & 15
    }

    fn is_full(&self) -> bool {
        ENTRY * (self.len + 1) > self.list.len()
    }

    fn set_not_begun(&mut self, i: usize) {
        let info = self.entry(i).1 & !(15 << 11) | NOT_BEGUN << 11;
        put_u16(self.list, ENTRY * i + 2, info);
    }

    /// Moves the block listed last before another.
    fn move_last_to(&mut self, place: usize) {
        if place < self.len {
            self.list[ENTRY * place..ENTRY * self.len].rotate_right(ENTRY);
        }
    }

    /// Notes a block taken during recovery. `false` when there is no place: what is in it would not count.
    pub fn note_fresh(&mut self, block: u32) -> bool {
        let has_room = !self.is_full();
        self.add(block, FRESH);
        has_room
    }

    /// Whether there are places but for the blocks that the recovery takes.
    fn has_room(&self) -> bool {
        ENTRY * (self.len + 1 + OWN) <= self.list.len()
    }

    /// Whether a block was taken, or open, when power failed.
    pub fn is_opened(&self, block: u32) -> bool {
        (0..self.len).any(|i| self.entry(i).0 == block)
    }

    /// Whether a page was written after the checkpoint and before power failed.
    pub fn is_lost(&self, at: PageAddr) -> bool {
        at.0 % self.pages_per_block >= self.lost_from(at.0 / self.pages_per_block)
    }

    /// The page of a block from which on all were written after the checkpoint and before power failed.
    pub fn lost_from(&self, block: u32) -> u32 {
        (0..self.len)
            .map(|i| self.entry(i))
            .find(|&(b, info)| b == block && info & FRESH == 0)
            .map_or(u32::MAX, |(_, info)| u32::from(info & 0x7ff))
    }

    /// Counts a page that is looked into for the pages that it names, to free or to count these. What is on
    /// flash at once is freed once and counted once; `false` when more is asked for than there can be.
    fn look_into(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// What is damaged when an inode page written since the checkpoint cannot be read: what it concerns
/// may be as it was before.
pub(crate) const CHANGE: &str = "record of a change before the last stop";

/// What has been seen of the allocation log.
#[derive(Default)]
struct LogSeen {
    /// A record of a change: the checkpoint before it was complete.
    changed: bool,
    /// A page that may have been a record.
    gap: bool,
    /// One that was, as others follow.
    lost: bool,
}

/// A position in the pages of one area written since the checkpoint.
struct Cursor {
    area: Area,
    entry: usize,
    page: u32,
    /// The page found: place, header.
    at: Option<(PageAddr, Header)>,
    /// The inode of that page.
    ino: u32,
    /// The last page of this block that was no such page, nor erased.
    gap: PageAddr,
    /// That page could not be read when it was to be replayed.
    missed: bool,
}

/// What the header part of an inode page says, copied out of it.
pub(crate) struct Record {
    at: PageAddr,
    pub seq: u64,
    pub prev: PageAddr,
    pub ino: u32,
    pub parent: u32,
    pub hash: u32,
    pub flags: u8,
    pub moved: (u32, u32),
    pub replaced: Option<(u8, u32)>,
    /// No page before it is this inode's.
    is_first: bool,
    /// The page of the same record whose program failed, and that has been replayed.
    failed: PageAddr,
}

/// A run of data, or a note, that a page of an inode or of a map has.
fn nth_run(kind: Kind, page: &[u8], n: usize) -> Option<Extent> {
    match kind {
        Kind::File => {
            let view = FileView::on(page);
            (n < view.records()).then(|| Extent::decode(view.record(n)))
        }
        Kind::ExtentMap => {
            let map = ExtentPage::on(page);
            (n < map.count()).then(|| map.extent(n))
        }
        Kind::ExtentIndex => {
            let index: MapPage<&[u8], 8> = MapPage(page);
            (n < index.waiting()).then(|| index.extent(n))
        }
        _ => None,
    }
}

/// The log that pages of a kind are written to.
fn area_of(kind: Kind) -> Option<Area> {
    Some(match kind {
        Kind::Root | Kind::Second | Kind::Checkpoint => return None,
        Kind::Alloc | Kind::Snapshot => Area::Bitmap,
        Kind::DirMap | Kind::Places | Kind::Table => Area::Map,
        Kind::Dir => Area::Dir,
        Kind::HashMap | Kind::HashIndex => Area::Hash,
        Kind::File => Area::File,
        Kind::ExtentMap | Kind::ExtentIndex | Kind::Names | Kind::Attributes | Kind::Validity => {
            Area::Extent
        }
    })
}

/// Whether pages of a kind are the records of an area.
fn is_record(kind: Kind, area: u16) -> bool {
    match kind {
        Kind::Dir => area == Area::Dir as u16,
        Kind::File => area == Area::File as u16,
        _ => false,
    }
}

fn is_lost<N: Nand>(store: &Store<'_, N>, at: PageAddr) -> bool {
    at.is_some() && store.recovery.as_ref().is_some_and(|r| r.is_lost(at))
}

/// A page that is in use is valid after all, if it counts as lost.
fn count<N: Nand>(store: &mut Store<'_, N>, at: PageAddr) -> bool {
    let lost = is_lost(store, at);
    if lost {
        store.validate(at);
        store.settle_table();
    }
    lost
}

/// The same with a run of pages, in steps of a block.
fn count_run<N: Nand>(store: &mut Store<'_, N>, run: Extent) {
    let mut at = run.page;
    let end = run.page.saturating_add(run.count).min(store.geo.pages());
    while at < end {
        let (block, index) = (
            store.geo.block_of(PageAddr(at)),
            store.geo.index_of(PageAddr(at)),
        );
        let next = end.min(at + (store.ppb() - index));
        let from = store
            .recovery
            .as_ref()
            .map_or(u32::MAX, |r| r.lost_from(block.0));
        for page in at.saturating_add(from.saturating_sub(index))..next {
            count(store, PageAddr(page));
        }
        at = next;
    }
}

impl<N: Nand> Store<'_, N> {
    /// In a recovery, before a page is looked into for what it names: see [`Recovery::look_into`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] when that has been done more often than there are pages.
    pub fn look_into(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let may = self.recovery.as_mut().is_none_or(Recovery::look_into);
        if may {
            Ok(())
        } else {
            Err(Error::Corrupt(at, CHANGE))
        }
    }
}

impl<'r, N: Nand> FlashLight<'r, N> {
    fn lost(&self, at: PageAddr) -> bool {
        is_lost(&self.store, at)
    }

    /// Brings the volume from the checkpoint just loaded to where it was. Returns whether that is durable: it is not where the
    /// last root block is full. Then what is written is in blocks that are free for the next mount as well, which does
    /// it again.
    pub(crate) fn recover(&mut self, start: &Start) -> Result<bool, Error<N::Error>> {
        let since = start.since;
        self.store.session = true;
        // A recovery that was cut may have written any of them.
        self.store.table.forget_clean();
        self.compare_states()?;
        self.give_up_meant();
        // A page written after the checkpoint shows that it was complete; but what leads to a copy of it may be
        // the last page of the recovery before, and fail yet: then what led to the one before is needed.
        let changed = self.list_opened(start)?;
        if start.firm || changed && !start.is_copy {
            self.store.free_dead(true)?;
        }
        // A page that cannot be read now may be read by the next mount: a newer checkpoint, or a root page that
        // leads to the second-level block that was meant. What is written now is newer, and that block stays.
        self.store.together = true;
        self.store.seq += NEWER;
        self.store.spared = self.anchor.meant;
        let mut lasts = !self.store.discarded;
        if lasts {
            let own = self.store.seq;
            let repeated = self.repeat_checkpoint(start);
            lasts = self.unless_roots_are_full(repeated)?;
            if !lasts {
                self.store.newer = Newer::between(since, own);
            }
        }
        if lasts || self.store.discarded {
            self.store.spared = u32::MAX;
            self.store.free_dead(true)?;
        }
        self.close_at_checkpoint();
        self.copy_suspects(since)?;
        let copy = self.store.recovery.as_ref().and_then(|r| r.copy);
        self.look_anew();
        let mut dirs = self.cursor(Area::Dir, since)?;
        while let Some((at, _)) = dirs.at {
            let replayed = self.replay_dir_map(at);
            self.noted(replayed)?;
            self.advance(&mut dirs, since)?;
        }
        if let Some((at, ..)) = copy.filter(|c| c.1.kind == Kind::Dir) {
            let replayed = self.replay_dir_map(at);
            self.noted(replayed)?;
        }
        self.replay_all(since)?;
        // Pages that are no records may have later numbers.
        self.store.seq += 1 << 16;
        for i in 0..2 {
            self.flush_dir(i)?;
            self.dirs[i].clear();
        }
        self.look_anew();
        self.count_lost(since)?;
        let mend = self.store.recovery.as_ref().is_some_and(|r| r.mend);
        let exchange = self.store.recovery.as_ref().and_then(|r| r.exchange);
        let half_cut = self.store.recovery.as_ref().map(|r| r.half_cut);
        self.close_opened();
        for slot in &mut self.dirs {
            if slot.ino != 0 {
                slot.dir_mut().set_as_of(0);
            }
        }
        self.store.scratch_at = PageAddr::NONE;
        self.orphans = 1;
        self.replay_updates(since, copy.map(|c| (c.0, c.2)))?;
        if let Some(pending) = exchange {
            self.finish_exchange(pending)?;
        }
        if mend {
            self.mend_replaced()?;
        }
        if lasts {
            for at in half_cut.into_iter().flatten() {
                self.finish_half_cut(at)?;
            }
            self.clean_hardly_written()?;
            let named = self.checkpoint(false);
            lasts = self.unless_roots_are_full(named)?;
        }
        Ok(lasts)
    }

    /// Step 4: DirInode and FileInode pages in the order of their numbers, the copy of the newest last.
    fn replay_all(&mut self, since: u64) -> Result<(), Error<N::Error>> {
        let (mut dirs, mut files) = (
            self.cursor(Area::Dir, since)?,
            self.cursor(Area::File, since)?,
        );
        // The page that was read last.
        let mut held = files.at;
        loop {
            let dir_first = match (dirs.at, files.at) {
                (None, None) => break,
                (Some(d), Some(f)) => d.1.seq < f.1.seq,
                (d, _) => d.is_some(),
            };
            let cursor = if dir_first { &mut dirs } else { &mut files };
            if let Some((at, header)) = cursor.at {
                self.store.seq = self.store.seq.max(header.seq + 1);
                cursor.missed = !self.replay_sound(at, &header, held.is_some_and(|h| h.0 == at))?;
            }
            let cursor = if dir_first { &mut dirs } else { &mut files };
            self.advance(cursor, since)?;
            held = cursor.at;
        }
        let copy = self.store.recovery.as_ref().and_then(|r| r.copy);
        if let Some((at, header, _)) = copy
            && !self.replay_sound(at, &header, false)?
        {
            self.note_damage(at, CHANGE);
        }
        Ok(())
    }

    /// Pages may be looked into again.
    fn look_anew(&mut self) {
        let pages = self.store.geo.pages();
        if let Some(rec) = &mut self.store.recovery {
            rec.left = 2 * pages;
        }
    }

    /// A second-level block that was never reached is not needed any more.
    fn give_up_meant(&mut self) {
        let meant = self.anchor.meant;
        if self.store.table.paged.is_some()
            && meant < self.store.table.blocks()
            && !self.anchor.owns(meant)
            && !self.store.is_log(meant)
            && self.store.state(meant) == State::System
        {
            self.anchor.push_chain(meant);
        }
    }

    /// Step 1: reads the allocation log and lists the blocks. Returns whether there are records.
    fn list_opened(&mut self, start: &Start) -> Result<bool, Error<N::Error>> {
        let since = start.since;
        self.files[1].clear();
        let list = core::mem::take(&mut self.files[1].buf);
        let mut rec = Recovery {
            list,
            len: 0,
            pages_per_block: self.store.ppb(),
            since,
            suspects: [PageAddr::NONE; SUSPECTS],
            last: [(0, PageAddr::NONE, PageAddr::NONE); 2],
            copy: None,
            copy_of: 0,
            mend: false,
            doubt: false,
            half_cut: [PageAddr::NONE; 2],
            exchange: None,
            left: 0,
        };
        for (i, head) in self.store.heads.iter().enumerate().skip(1) {
            if head.block != u32::MAX && head.next < self.store.ppb() {
                rec.add(head.block, (i as u16) << 11 | head.next as u16);
            }
        }
        for i in 0..self.store.remnants.len {
            let head = self.store.remnants.get(i);
            rec.add(head.block, PARTIAL << 11 | head.next as u16);
        }
        let head = self.store.fronts[UPDATE];
        if head.block != u32::MAX && head.next < self.store.ppb() {
            rec.add(head.block, (Area::Update as u16) << 11 | head.next as u16);
        }
        for &(block, area) in &self.store.reserves[..self.store.reserved] {
            rec.add(u32::from(block), u16::from(area & 7) << 11);
        }
        let mut log = self.store.heads[Area::Bitmap as usize];
        let (mut read, mut seen) = (0, LogSeen::default());
        loop {
            if log.block != u32::MAX {
                self.read_log(log, &mut rec, &mut seen)?;
            }
            // The log goes on in the blocks reserved for it, in their order.
            let on = |rec: &Recovery<'_>, read| {
                (read..rec.len).find(|&i| {
                    let info = rec.entry(i).1;
                    info & FRESH == 0 && Recovery::area(info) == Area::Bitmap as u16
                })
            };
            let mut next = on(&rec, read);
            if next.is_none() && core::mem::take(&mut seen.gap) && start.told {
                self.list_unrecorded(&mut rec, seen.lost)?;
                next = on(&rec, read);
            }
            let Some(i) = next else { break };
            read = i + 1;
            log = Head {
                block: rec.entry(i).0,
                next: 0,
            };
        }
        self.store.recovery = Some(rec);
        Ok(seen.changed)
    }

    /// Reads a block of the allocation log from a place on, and lists what its records name. A page that is none may have been one:
    /// what follows it tells, or it is where power was cut, or where the block has not been erased yet.
    fn read_log(
        &mut self,
        mut log: Head,
        rec: &mut Recovery<'_>,
        seen: &mut LogSeen,
    ) -> Result<(), Error<N::Error>> {
        let (mut gap, mut begun) = (false, log.next > 0);
        while log.next < self.store.ppb() {
            let at = self.store.geo.page(BlockAddr(log.block), log.next);
            self.store.scratch_at = PageAddr::NONE;
            let header = self.store.read_meta(at, self.scratch)?;
            log.next += 1;
            match header {
                Some(h) if h.seq > rec.since => {
                    self.store.seq = self.store.seq.max(h.seq + 1);
                    seen.gap |= gap;
                    seen.lost |= gap;
                    (gap, begun) = (false, true);
                    if h.kind == Kind::Alloc {
                        seen.changed |= get_u16(self.scratch, HEADER + 2) == 0;
                        list_record(rec, self.scratch, self.store.geo.blocks());
                    }
                }
                None if is_blank(self.scratch) => {
                    seen.gap |= gap;
                    return Ok(());
                }
                _ if gap => break,
                _ => gap = true,
            }
        }
        seen.gap |= gap && begun;
        Ok(())
    }

    /// Where a record of the allocation log cannot be read: lists the blocks that show by what is in them that they have been taken
    /// since the checkpoint. Those of one log in the order in which they were written. A read for each free block, two for those with data;
    /// for each that is found with inodes or updates as much for those listed of its log. Without tags data does not tell: one more for each
    /// page of inodes and maps since the checkpoint.
    fn list_unrecorded(
        &mut self,
        rec: &mut Recovery<'_>,
        lost: bool,
    ) -> Result<(), Error<N::Error>> {
        for block in 0..self.store.table.blocks() {
            if !self.may_be_unrecorded(rec, block) {
                continue;
            }
            let Some((area, seq)) = self.taken_for(block, rec.since)? else {
                continue;
            };
            let mut place = rec.len;
            // Blocks of the allocation log are read from where the list has been read to: they come last.
            if matches!(area, Area::Dir | Area::File | Area::Update) {
                for i in 0..rec.len {
                    let (other, info) = rec.entry(i);
                    if Recovery::area(info) == area as u16
                        && info & 0x7ff == 0
                        && self.taken_for(other, rec.since)?.is_none_or(|o| o.1 > seq)
                    {
                        place = i;
                        break;
                    }
                }
            }
            if self.add_unrecorded(rec, block, area, lost) {
                rec.move_last_to(place);
            }
        }
        if !self.store.has_tags() {
            self.list_named(rec, lost)?;
        }
        Ok(())
    }

    /// Whether a block may have been taken by a record that is lost.
    fn may_be_unrecorded(&mut self, rec: &Recovery<'_>, block: u32) -> bool {
        let state = self.store.state(block);
        matches!(state, State::Free | State::Clean | State::Dead)
            && !rec.is_opened(block)
            && !self.anchor.owns(block)
    }

    /// Lists such a block last, if there is a place.
    fn add_unrecorded(
        &mut self,
        rec: &mut Recovery<'_>,
        block: u32,
        area: Area,
        lost: bool,
    ) -> bool {
        let has_room = rec.has_room();
        if has_room {
            rec.add(block, (area as u16) << 11);
        } else if lost {
            self.note_damage(self.store.geo.page(BlockAddr(block), 0), CHANGE);
        }
        has_room
    }

    /// Lists the blocks with data that pages of inodes and maps written since the checkpoint lead to, and no record.
    fn list_named(&mut self, rec: &mut Recovery<'_>, lost: bool) -> Result<(), Error<N::Error>> {
        // Forged pages could name all blocks in each record.
        let in_page = (self.store.page_size() / extent::SIZE) as u32 + self.store.table.blocks();
        let mut left = u64::from(2 * self.replay_max()) * u64::from(in_page);
        for i in 0..rec.len {
            let (block, info) = rec.entry(i);
            let area = Recovery::area(info);
            if area != Area::File as u16 && area != Area::Extent as u16 {
                continue;
            }
            for index in u32::from(info & 0x7ff)..self.store.ppb() {
                let at = self.store.geo.page(BlockAddr(block), index);
                self.store.scratch_at = PageAddr::NONE;
                let header = self.store.read_meta(at, self.scratch)?;
                let Some(header) = header.filter(|h| h.seq > rec.since) else {
                    if is_blank(self.scratch) {
                        break;
                    }
                    continue;
                };
                for n in 0.. {
                    let Some(run) = nth_run(header.kind, self.scratch, n) else {
                        break;
                    };
                    self.list_run(rec, run, lost, &mut left);
                }
            }
        }
        Ok(())
    }

    /// Lists the blocks that a run of data is in, if they are not more than are `left`.
    fn list_run(&mut self, rec: &mut Recovery<'_>, run: Extent, lost: bool, left: &mut u64) {
        if !run.is_mapping() || run.count == 0 {
            return;
        }
        let pages = self.store.ppb();
        let last = run.page.saturating_add(run.count - 1) / pages;
        for block in run.page / pages..=last.min(self.store.table.blocks() - 1) {
            *left = left.saturating_sub(1);
            if *left > 0 && self.may_be_unrecorded(rec, block) {
                self.add_unrecorded(rec, block, Area::Data, lost);
            }
        }
    }

    /// The area that a session has taken a block for since the checkpoint, by the first of its pages that can be read, and the number
    /// of that. Recoveries that were cut have taken blocks as well, and their numbers are larger.
    fn taken_for(
        &mut self,
        block: u32,
        since: u64,
    ) -> Result<Option<(Area, u64)>, Error<N::Error>> {
        for index in 0..2 {
            let at = self.store.geo.page(BlockAddr(block), index);
            self.store.scratch_at = PageAddr::NONE;
            if let Some(h) = self.store.read_meta(at, self.scratch)? {
                let is_new = h.seq > since && h.seq - since < NEWER;
                return Ok(area_of(h.kind).filter(|_| is_new).map(|a| (a, h.seq)));
            }
            let is_blank = is_blank(self.scratch);
            let mut spare = [0xff; tag::UPDATE_SIZE];
            let len = spare.len().min(self.store.geo.spare_size() as usize);
            if self.store.has_tags() {
                let status = self.store.nand.read(at, 0, &mut [], &mut spare[..len])?;
                let tag = spare.first_chunk().and_then(Tag::decode);
                if let Some(tag) = tag.filter(|_| status.is_readable()) {
                    let Some(seq) = tag.seq_after(since).filter(|seq| seq - since < NEWER) else {
                        return Ok(None);
                    };
                    let area = match Update::decode(&spare, seq) {
                        Some(_) => Area::Update,
                        None => Area::Data,
                    };
                    return Ok(Some((area, seq)));
                }
            }
            // What data looks like, its tag does not.
            if is_blank && spare.iter().all(|&b| b == 0xff) {
                break;
            }
        }
        Ok(None)
    }

    /// Takes the checkpoint's open blocks out of use.
    fn close_at_checkpoint(&mut self) {
        (self.store.reserved, self.store.unnamed) = (0, 0);
        self.store.remnants.len = 0;
        self.store.heads = [Head::NONE; HEADS];
        self.store.fronts[UPDATE] = Head::NONE;
        let table = self.store.table.head().block;
        self.store.table.set_head(Head::NONE);
        self.store.close(table);
        let listed = self.store.recovery.as_ref().map_or(0, |r| r.len);
        for i in 0..listed {
            let entry = self.store.recovery.as_ref().map(|r| r.entry(i));
            let Some((block, info)) = entry else { break };
            match self.store.state(block) {
                State::Free | State::Clean => self.store.free = self.store.free.saturating_sub(1),
                State::Dead => self.store.dead = self.store.dead.saturating_sub(1),
                _ => continue,
            }
            let state = match Recovery::area(info) {
                a if a == Area::Bitmap as u16 => State::System,
                a if a == Area::Data as u16 || a == Area::Update as u16 => State::Data(0),
                _ => State::Meta(0),
            };
            self.store.set_state(block, state);
            if state == State::System {
                self.store.retire_system(block);
            }
            self.store.settle_table();
        }
        for i in 0..core::mem::take(&mut self.store.bitmap_count) {
            self.store
                .retire_system(u32::from(self.store.bitmap_blocks[i]));
        }
        // About as many blocks have been erased since the checkpoint.
        self.store.wear.erases = self.store.wear.erases.saturating_add(listed as u32);
    }

    /// Step 2: writes anew the newest record of all, the only one whose program may have been cut;
    /// unless one is found that was.
    fn copy_suspects(&mut self, since: u64) -> Result<(), Error<N::Error>> {
        let mut newest: Option<(PageAddr, Header)> = None;
        let mut torn = false;
        for area in [Area::Dir, Area::File] {
            let Some(mut at) = self.last_record(area, since)? else {
                continue;
            };
            let mut found = self.read_record(at, area, since)?;
            if found.is_none() && self.store.geo.index_of(at) == 0 {
                // The one before it, in another block, may be this record as well: its program may have failed.
                self.suspect(at);
                let Some(before) = self.last_record(area, since)? else {
                    continue;
                };
                at = before;
                found = self.read_record(at, area, since)?;
            }
            match found {
                Some(h) if newest.is_none_or(|n| h.seq > n.1.seq) => {
                    self.files[0].buf.copy_from_slice(self.scratch);
                    newest = Some((at, h));
                }
                Some(_) => {}
                None => {
                    self.suspect(at);
                    self.doubt(area);
                    torn = true;
                }
            }
        }
        let Some((from, mut header)) = newest.filter(|_| !torn) else {
            return Ok(());
        };
        self.store.seq = self.store.seq.max(header.seq + 1);
        let before = core::mem::replace(&mut header.seq, self.store.seq);
        let area = if header.kind == Kind::Dir {
            Area::Dir
        } else {
            Area::File
        };
        let page = &mut self.files[0].buf[..header.len];
        let ino = FileView::on(&*page).ino();
        let at = self.store.append(area, page, header.kind, header.prev)?;
        self.suspect(from);
        if let Some(rec) = &mut self.store.recovery {
            (rec.copy, rec.copy_of) = (Some((at, header, before)), ino);
        }
        Ok(())
    }

    /// A record of an area may be lost.
    fn doubt(&mut self, area: Area) {
        if let Some(rec) = &mut self.store.recovery {
            rec.doubt |= area == Area::Dir;
        }
    }

    /// Notes a page that is not to be looked at again.
    fn suspect(&mut self, at: PageAddr) {
        if let Some(rec) = &mut self.store.recovery {
            rec.suspects.rotate_right(1);
            rec.suspects[0] = at;
        }
    }

    /// Reads the inode page at `at` into the scratch page, if there is one of an area newer than `since`. A page
    /// of another kind is none, whatever led here.
    fn read_record(
        &mut self,
        at: PageAddr,
        area: Area,
        since: u64,
    ) -> Result<Option<Header>, Error<N::Error>> {
        self.store.scratch_at = PageAddr::NONE;
        let header = self.store.read_meta(at, self.scratch)?;
        Ok(header.filter(|h| h.seq > since && is_record(h.kind, area as u16)))
    }

    /// The last page of an area that was programmed since the checkpoint. Some ten reads.
    fn last_record(&mut self, area: Area, since: u64) -> Result<Option<PageAddr>, Error<N::Error>> {
        let entries = self.store.recovery.as_ref().map_or(0, |r| r.len);
        for i in (0..entries).rev() {
            let Some(rec) = &self.store.recovery else {
                break;
            };
            let (block, info) = rec.entry(i);
            if info & FRESH != 0 || Recovery::area(info) != area as u16 {
                continue;
            }
            let (block, mut first) = (BlockAddr(block), u32::from(info & 0x7ff));
            let at = self.store.geo.page(block, first);
            if self.read_record(at, area, since)?.is_none() {
                let blank = is_blank(self.scratch);
                first += 1;
                let next = self.store.geo.page(block, first);
                if blank
                    || first == self.store.ppb()
                    || self.read_record(next, area, since)?.is_none()
                {
                    if !blank {
                        self.doubt(area);
                    }
                    // Not even erased perhaps. What it shows may change: it is not looked into again.
                    if let Some(rec) = &mut self.store.recovery {
                        rec.set_not_begun(i);
                    }
                    continue;
                }
                // It has become unreadable since.
            }
            let (mut lo, mut hi) = (first + 1, self.store.ppb());
            while lo < hi {
                let mid = u32::midpoint(lo, hi);
                let at = self.store.geo.page(block, mid);
                if self.read_record(at, area, since)?.is_none() && is_blank(self.scratch) {
                    hi = mid;
                } else {
                    lo = mid + 1;
                }
            }
            return Ok(Some(self.store.geo.page(block, lo - 1)));
        }
        Ok(None)
    }

    fn cursor(&mut self, area: Area, since: u64) -> Result<Cursor, Error<N::Error>> {
        let mut cursor = Cursor {
            area,
            entry: usize::MAX,
            page: u32::MAX,
            at: None,
            ino: 0,
            gap: PageAddr::NONE,
            missed: false,
        };
        self.advance(&mut cursor, since)?;
        Ok(cursor)
    }

    /// Moves a cursor to the next page of its area. A block ends with its first erased page.
    fn advance(&mut self, cursor: &mut Cursor, since: u64) -> Result<(), Error<N::Error>> {
        loop {
            if cursor.page >= self.store.ppb() {
                let Some(rec) = &self.store.recovery else {
                    return Ok(());
                };
                let from = cursor.entry.wrapping_add(1);
                let next = (from..rec.len).find(|&i| {
                    rec.entry(i).1 & FRESH == 0
                        && Recovery::area(rec.entry(i).1) == cursor.area as u16
                });
                let Some(i) = next else {
                    let copy = rec.copy.filter(|c| is_record(c.1.kind, cursor.area as u16));
                    let last = copy.map(|c| (rec.copy_of, c.1.prev));
                    self.note_missed(cursor, last);
                    cursor.at = None;
                    return Ok(());
                };
                (cursor.entry, cursor.page) = (i, u32::from(rec.entry(i).1 & 0x7ff));
                cursor.gap = PageAddr::NONE;
            }
            let Some(rec) = &self.store.recovery else {
                return Ok(());
            };
            let at = self
                .store
                .geo
                .page(BlockAddr(rec.entry(cursor.entry).0), cursor.page);
            cursor.page += 1;
            if rec.suspects.contains(&at) {
                // The newest, of which a copy comes later, is a page as well.
                if rec.copy.is_some() && rec.suspects[0] == at {
                    self.note_gap(cursor);
                }
                continue;
            }
            match self.read_record(at, cursor.area, since)? {
                Some(h) => {
                    let ino = FileView::on(&*self.scratch).ino();
                    self.note_gap(cursor);
                    self.note_missed(cursor, Some((ino, h.prev)));
                    (cursor.at, cursor.ino) = (Some((at, h)), ino);
                    return Ok(());
                }
                None if is_blank(self.scratch) => {
                    cursor.page = u32::MAX;
                }
                None => cursor.gap = at,
            }
        }
    }

    /// Notes the page before one that is sound, if it is none: neither was power cut then nor did its program fail.
    fn note_gap(&mut self, cursor: &mut Cursor) {
        let gap = core::mem::replace(&mut cursor.gap, PageAddr::NONE);
        if gap.is_some() {
            self.doubt(cursor.area);
            self.note_damage(gap, CHANGE);
        }
    }

    /// Notes a page that was read once only, unless the next record, which says what it said, is the same written
    /// again because its program had failed: of this inode, in the place of the same page.
    fn note_missed(&mut self, cursor: &mut Cursor, next: Option<(u32, PageAddr)>) {
        if !core::mem::replace(&mut cursor.missed, false) {
            return;
        }
        if let Some((at, header)) = cursor.at
            && next != Some((cursor.ino, header.prev))
        {
            self.doubt(cursor.area);
            self.note_damage(at, CHANGE);
        }
    }

    /// Step 3, for one DirInode page.
    fn replay_dir_map(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        // A raw copy in a slot that no lookup sees.
        let i = self.spare_dir_slot()?;
        let read = self
            .store
            .expect_meta(at, self.dirs[i].buf, Kind::Dir, "directory");
        let view = self.dirs[i].dir();
        let Some(header) = sound(read)?.filter(|_| view.is_sane()) else {
            return Ok(());
        };
        let exchanged = view.flags() & FLAG_EXCHANGED != 0;
        let (ino, replaced) = (view.ino(), view.replaced().filter(|_| !exchanged));
        if !self.map_reach(ino)? {
            return Ok(());
        }
        let old = match self.map_get(ino) {
            Err(e) => return self.noted(Err(e)),
            Ok(old) => old,
        };
        if self.is_retry(0, ino, header.prev, at).is_some() {
            return self.map_set(ino, at);
        }
        self.store.invalidate(old);
        self.map_set(ino, at)?;
        for r in 0..self.dirs[i].dir().records() {
            let rec = DirRec::decode(self.dirs[i].dir().record(r));
            if rec.state != RecState::Freed {
                continue;
            }
            match rec.target {
                Target::File => self.free_file_at(PageAddr(rec.ptr))?,
                Target::Dir => self.free_dir_at(rec.ptr)?,
                Target::Orphan => self.store.invalidate(PageAddr(rec.ptr)),
                Target::Indirect => {}
            }
        }
        if let Some((kind, dir)) = replaced
            && kind == Target::Dir as u8
        {
            self.free_dir_at(dir)?;
        }
        Ok(())
    }

    /// Whether a record is the last one of its log (0 directories, 1 files) once more, written again
    /// because its program had failed, though that page was read well: what it frees is free already. Gives
    /// that page.
    fn is_retry(&mut self, log: usize, ino: u32, prev: PageAddr, at: PageAddr) -> Option<PageAddr> {
        let last = &mut self.store.recovery.as_mut()?.last[log];
        let before = core::mem::replace(last, (ino, prev, at));
        ((before.0, before.1) == (ino, prev)).then_some(before.2)
    }

    /// Invalidates what a file's page refers to, and that page.
    fn free_file_at(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        self.files[0].clear();
        self.store.look_into(at)?;
        match self.store.read_meta(at, self.files[0].buf)? {
            Some(h) if h.kind == Kind::File && self.files[0].file().is_sane() => {
                self.files[0].loc = at;
                return self.free_file(0);
            }
            _ => {}
        }
        self.store.invalidate(at);
        Ok(())
    }

    fn free_dir_at(&mut self, ino: u32) -> Result<(), Error<N::Error>> {
        let at = self.map_get(ino)?;
        if at.is_none() {
            return Ok(());
        }
        self.files[0].clear();
        self.store.look_into(at)?;
        let header = self.store.read_meta(at, self.files[0].buf)?;
        let page = |fs: &Self, p: usize| DirView::on(fs.files[0].buf).pointer(p).1;
        let view = DirView::on(self.files[0].buf);
        let whole = header.is_some_and(|h| h.kind == Kind::Dir) && view.is_sane();
        let (pointers, levels) = (view.pointers(), view.levels());
        if whole {
            self.store.invalidate(view.xattr());
        }
        for p in 0..if whole { pointers } else { 0 } {
            let map = page(self, p);
            if levels == 2 {
                self.store.look_into(map)?;
                self.free_hash_index(map)?;
            }
            self.store.invalidate(map);
        }
        self.store.invalidate(at);
        self.map_set(ino, PageAddr::NONE)
    }

    /// Step 4, for one inode page, which the scratch page may hold: as far as what it concerns can be read. `false`
    /// when the page cannot be read any more.
    fn replay_sound(
        &mut self,
        at: PageAddr,
        header: &Header,
        held: bool,
    ) -> Result<bool, Error<N::Error>> {
        self.files[0].clear();
        let buf = &mut *self.files[0].buf;
        if held {
            buf.copy_from_slice(self.scratch);
        } else if sound(self.store.expect_meta(at, buf, header.kind, "inode"))?.is_none() {
            return Ok(false);
        }
        let replayed = self.replay(at, header);
        self.noted(replayed).map(|()| true)
    }

    /// What a step has come to that ended so: damage is noted.
    fn noted(&mut self, result: Result<(), Error<N::Error>>) -> Result<(), Error<N::Error>> {
        match result {
            Err(Error::Corrupt(page, what)) if !self.store.nand.failed => {
                self.note_damage(page, what);
                Ok(())
            }
            r => r,
        }
    }

    /// The same for the page in slot 0.
    fn replay(&mut self, at: PageAddr, header: &Header) -> Result<(), Error<N::Error>> {
        let view = self.files[0].file();
        let volume = self.store.volume;
        let mut rec = Record {
            at,
            seq: header.seq,
            prev: header.prev,
            ino: view.ino(),
            parent: view.parent(),
            hash: name_hash(volume, view.name()),
            flags: view.flags(),
            moved: view.moved(),
            replaced: view.replaced(),
            is_first: header.prev.is_none(),
            failed: PageAddr::NONE,
        };
        if let Some(recovery) = &mut self.store.recovery {
            // Its page shows the name that it has taken.
            recovery.exchange.take_if(|e| e.second == rec.ino);
        }
        if header.kind == Kind::Dir {
            return self.replay_dir_links(&rec);
        }
        if !view.is_sane() {
            return Ok(());
        }
        self.next_ino = self.next_ino.max(rec.ino.saturating_add(1));
        let retried = self.is_retry(1, rec.ino, rec.prev, at);
        rec.failed = retried.unwrap_or(PageAddr::NONE);
        self.note_half_cut(&rec);
        if retried.is_some() {
            (rec.moved, rec.replaced, rec.is_first) = ((0, 0), None, false);
            return self.replay_file_links(&rec);
        }
        self.store.invalidate(rec.prev);
        self.replay_freed()?;
        self.replay_removed(&rec)?;
        self.replay_file_links(&rec)
    }

    /// Notes whether the FileInode in slot 0 is of a truncation that has not come to its end.
    fn note_half_cut(&mut self, record: &Record) {
        let half = self.is_half_cut(0);
        let Some(rec) = &mut self.store.recovery else {
            return;
        };
        for old in &mut rec.half_cut {
            if [record.prev, record.failed].contains(old) {
                *old = PageAddr::NONE;
            }
        }
        if half && let Some(place) = rec.half_cut.iter_mut().find(|at| at.is_none()) {
            *place = record.at;
        }
    }

    /// Brings a truncation of the file that was at `at` to its end, before anything else changes the file: what is left of its maps
    /// must not go into index pages with others, nor what they map be moved by cleaning. What cannot be done now is done when the
    /// file grows.
    fn finish_half_cut(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        if at.is_none() || sound(self.load_scratch(at, Kind::File, "file inode"))?.is_none() {
            return Ok(());
        }
        let file = FileView::on(&*self.scratch).file_ref(self.store.volume);
        let loaded = self.load_file(file);
        let done = loaded.and_then(|i| self.drop_maps_beyond(i));
        match self.noted(done) {
            Err(Error::NotFound | Error::NoSpace) => Ok(()),
            done => done,
        }
    }

    /// Removes the files that the FileInode in slot 0 notes, whose record is `rec`. Each costs a read, those of
    /// its maps, and those of a lookup.
    fn replay_removed(&mut self, rec: &Record) -> Result<(), Error<N::Error>> {
        let view = self.files[0].file();
        let mut removed = [PageAddr::NONE; REMOVED_MOST];
        let notes = (0..view.records()).map(|r| Extent::decode(view.record(r)));
        for (to, note) in removed.iter_mut().zip(notes.filter(|e| e.index == REMOVED)) {
            *to = PageAddr(note.page);
        }
        for at in removed.into_iter().filter(|at| at.is_some()) {
            self.files[0].clear();
            self.store.look_into(at)?;
            let header = self.store.read_meta(at, self.files[0].buf)?;
            let view = self.files[0].file();
            let sane = header.is_some_and(|h| h.kind == Kind::File) && view.is_sane();
            let hash = (sane && view.parent() == rec.parent)
                .then(|| name_hash(self.store.volume, view.name()));
            if hash.is_some() {
                self.files[0].loc = at;
                self.free_file(0)?;
            } else {
                // What it leads to goes on counting as valid.
                self.store.invalidate(at);
            }
            if self.is_older(rec.parent, rec.seq)? {
                self.unlink_page(rec.parent, hash, at)?;
            }
        }
        Ok(())
    }

    /// Removes the entry of a file at a page, if it is there and can be read. Without the hash of its name all
    /// entries of the directory are looked at.
    fn unlink_page(
        &mut self,
        dir: u32,
        hash: Option<u32>,
        at: PageAddr,
    ) -> Result<(), Error<N::Error>> {
        let is = |r: &DirRec| r.same_object(Target::File, at.0);
        if let Some(hash) = hash {
            return self.unlink_if(dir, hash, is);
        }
        let (mut from, mut damage) = (0, None);
        while let Some(hash) = self.dir_next_hash(dir, from, &mut damage)? {
            self.unlink_if(dir, hash, is)?;
            from = hash + 1;
        }
        Ok(())
    }

    /// Invalidates what the FileInode in slot 0 notes as freed.
    fn replay_freed(&mut self) -> Result<(), Error<N::Error>> {
        for r in 0..self.files[0].file().records() {
            let note = Extent::decode(self.files[0].file().record(r));
            match note.index {
                FREED_RUN => self.store.invalidate_run(note.page, note.count),
                FREED_MAP => {
                    let at = PageAddr(note.page);
                    self.store.look_into(at)?;
                    let header = self.store.read_meta(at, self.scratch)?;
                    self.store.scratch_at = PageAddr::NONE;
                    match header.map(|h| h.kind) {
                        Some(Kind::ExtentMap) => self.free_map(0, at, 1)?,
                        Some(Kind::ExtentIndex) => self.free_map(0, at, 2)?,
                        _ => self.store.invalidate(at),
                    }
                }
                REPLACED_MAP | REPLACED_PAGE => {
                    // What cannot be known to be free goes on counting as valid.
                    let (old, new) = (PageAddr(note.page), PageAddr(note.count));
                    sound(self.free_difference(old, new))?;
                    if note.index == REPLACED_PAGE {
                        self.store.invalidate(old);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Invalidates the pages that `old` names and `new`, of a part of its range, does not, but for those
    /// that were masked: they had been given back before. Of two index pages also the maps, and
    /// what these name.
    fn free_difference(&mut self, old: PageAddr, new: PageAddr) -> Result<(), Error<N::Error>> {
        self.store.look_into(old)?;
        let header = self.store.read_meta(old, self.scratch)?;
        self.store.scratch_at = PageAddr::NONE;
        match header.map(|h| h.kind) {
            Some(Kind::ExtentMap) => {
                let count = ExtentPage::<&[u8]>::on(&*self.scratch).count();
                let waiting = Waiting {
                    page: old,
                    offset: RECORDS,
                    count,
                };
                self.load_scratch(new, Kind::ExtentMap, "extent map")?;
                self.free_other_runs::<{ extent::SIZE }>(&waiting)
            }
            Some(Kind::ExtentIndex) => {
                let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                let waiting = Waiting::of(&index, old, 0, INDEX_END);
                self.load_scratch(new, Kind::ExtentIndex, "extent index")?;
                self.free_other_runs::<8>(&waiting)?;
                self.free_other_maps(old, new)
            }
            _ => Ok(()),
        }
    }

    /// The same for the runs of `old`; the other page is in the scratch page.
    fn free_other_runs<const REC: usize>(&mut self, old: &Waiting) -> Result<(), Error<N::Error>> {
        let page: MapPage<&[u8], REC> = MapPage(&*self.scratch);
        let (first, end) = (page.first_key(), page.end_key());
        let mut from = 0;
        let mut chunk = [Extent::new(0, 0, 0); CHUNK];
        while from < old.count {
            let n = old.read(&mut self.store, from, &mut chunk)?;
            for e in chunk[..n].iter().filter_map(|e| e.clip(first, end)) {
                for k in 0..e.count {
                    let page: MapPage<&[u8], REC> = MapPage(&*self.scratch);
                    let now = page.extent_of(e.index + k);
                    if !now.is_some_and(|now| now.covers || now.page == e.page + k) {
                        self.store.invalidate(PageAddr(e.page + k));
                    }
                }
            }
            from += n;
        }
        Ok(())
    }

    /// Frees the maps that an index page points to and the one that replaced it does not.
    fn free_other_maps(&mut self, old: PageAddr, new: PageAddr) -> Result<(), Error<N::Error>> {
        let mut p = 0;
        loop {
            self.load_scratch(old, Kind::ExtentIndex, "extent index")?;
            let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            let mut maps = [(0, PageAddr::NONE); CHUNK];
            let n = CHUNK.min(index.count() - p.min(index.count()));
            for (k, map) in maps[..n].iter_mut().enumerate() {
                *map = index.pointer(p + k);
            }
            if n == 0 {
                return Ok(());
            }
            for (k, &(key, map)) in maps[..n].iter().enumerate() {
                self.load_scratch(new, Kind::ExtentIndex, "extent index")?;
                let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                let at = index.search(key, 0);
                let kept = at < index.count() && index.pointer(at).0 == key;
                if kept || key < index.first_key() || key >= index.end_key() {
                    continue;
                }
                self.load_scratch(old, Kind::ExtentIndex, "extent index")?;
                let waiting = Waiting::below(&MapPage(&*self.scratch), old, p + k);
                self.free_map_below(0, map, Some(&waiting))?;
            }
            p += n;
        }
    }

    /// Whether a directory exists, and can be read, whose own page is older than a record.
    pub(crate) fn is_older(&mut self, dir: u32, seq: u64) -> Result<bool, Error<N::Error>> {
        match self.load_dir(dir) {
            Ok(i) => Ok(self.dirs[i].dir().as_of() < seq),
            Err(Error::NotFound | Error::Corrupt(..)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Removes the entry of an object, if it is there and can be read.
    pub(crate) fn unlink_if(
        &mut self,
        dir: u32,
        hash: u32,
        is: impl Fn(&DirRec) -> bool,
    ) -> Result<(), Error<N::Error>> {
        let mut n = 0;
        while let Some(Some(rec)) = sound(self.dir_nth(dir, hash, n))? {
            if is(&rec) {
                return self.dir_remove(dir, &rec, Removal::Recorded);
            }
            n += 1;
        }
        Ok(())
    }

    /// Adds an entry that an inode's page asks for, unless it is there.
    pub(crate) fn link_if(
        &mut self,
        rec: &Record,
        (dir, hash): (u32, u32),
        target: Target,
        ptr: u32,
    ) -> Result<(), Error<N::Error>> {
        if !self.is_older(dir, rec.seq)? {
            return Ok(());
        }
        let mut n = 0;
        loop {
            match self.dir_nth(dir, hash, n) {
                Ok(Some(r)) if r.same_object(target, ptr) => return Ok(()),
                Ok(Some(_)) => n += 1,
                Ok(None) => return self.dir_add(dir, hash, target, ptr),
                Err(e) if e.is_damage() => return self.link_over(dir, hash, target, ptr, rec),
                Err(e) => return Err(e),
            }
        }
    }

    /// Adds an entry whose hash map cannot be read. That of an inode that was there before may be
    /// in that map: it is hidden.
    fn link_over(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        ptr: u32,
        rec: &Record,
    ) -> Result<(), Error<N::Error>> {
        let kept = (dir, hash) == rec.moved && rec.flags & FLAG_KEPT != 0
            || rec.flags & FLAG_EXCHANGED != 0;
        if rec.prev.is_none() || rec.moved.0 != 0 && !kept {
            return self.dir_add(dir, hash, target, ptr);
        }
        let old = match target {
            Target::File | Target::Orphan => (target, rec.prev.0),
            Target::Dir | Target::Indirect => (target, ptr),
        };
        self.dir_hide(dir, hash, old, Some((target, ptr)))
    }

    fn replay_dir_links(&mut self, rec: &Record) -> Result<(), Error<N::Error>> {
        if rec.ino == ROOT_DIR || rec.ino == INDEX_DIR {
            return Ok(());
        }
        if rec.moved.0 != 0 && self.is_older(rec.moved.0, rec.seq)? {
            self.unlink_if(rec.moved.0, rec.moved.1, |r| {
                r.same_object(Target::Dir, rec.ino)
            })?;
        }
        if rec.flags & FLAG_EXCHANGED != 0 {
            self.replay_exchange(rec, Kind::Dir)?;
        } else if let Some((kind, dir)) = rec.replaced
            && kind == Target::Dir as u8
            && self.is_older(rec.parent, rec.seq)?
        {
            self.unlink_if(rec.parent, rec.hash, |r| r.same_object(Target::Dir, dir))?;
        }
        self.link_if(rec, (rec.parent, rec.hash), Target::Dir, rec.ino)
    }

    fn replay_file_links(&mut self, rec: &Record) -> Result<(), Error<N::Error>> {
        if rec.moved.0 != 0 && self.is_older(rec.moved.0, rec.seq)? {
            self.unlink_if(rec.moved.0, rec.moved.1, |r| {
                r.same_object(Target::File, rec.prev.0) || r.same_object(Target::Indirect, rec.ino)
            })?;
        }
        if rec.flags & FLAG_EXCHANGED != 0 {
            self.replay_exchange(rec, Kind::File)?;
        } else if let Some((kind, ptr)) = rec.replaced {
            self.replay_replaced(rec, kind, ptr)?;
        }
        let indirect = rec.flags & FLAG_INDIRECT != 0;
        let orphan = rec.flags & FLAG_ORPHAN != 0;
        let (dir, hash) = if indirect {
            (INDEX_DIR, ino_hash(self.store.volume, rec.ino))
        } else {
            (rec.parent, rec.hash)
        };
        let target = if orphan { Target::Orphan } else { Target::File };
        if self.is_older(dir, rec.seq)? {
            let mut n = 0;
            let found = loop {
                if rec.is_first {
                    break None;
                }
                match sound(self.dir_nth(dir, hash, n))? {
                    Some(Some(r))
                        if matches!(r.target, Target::File | Target::Orphan)
                            && (r.ptr == rec.prev.0
                                || r.ptr == rec.at.0
                                || rec.failed.is_some() && r.ptr == rec.failed.0
                                || self.is_failed_program(PageAddr(r.ptr), rec.ino)?) =>
                    {
                        break Some(r);
                    }
                    Some(Some(_)) => n += 1,
                    Some(None) => break None,
                    None => return self.link_over(dir, hash, target, rec.at.0, rec),
                }
            };
            match found {
                Some(r) if r.ptr == rec.at.0 => {}
                Some(r) => self.dir_repoint(dir, hash, target, PageAddr(r.ptr), rec.at)?,
                None => {
                    if rec.is_first && self.store.recovery.as_ref().is_some_and(|r| r.doubt) {
                        self.unlink_same_name(rec)?;
                    }
                    self.dir_add(dir, hash, target, rec.at.0)?;
                }
            }
        }
        if indirect && !orphan {
            let (target, ino) = (Target::Indirect, rec.ino);
            self.link_if(rec, (rec.parent, rec.hash), target, ino)?;
            if rec.flags & FLAG_KEPT != 0 {
                self.link_if(rec, rec.moved, target, ino)?;
            }
        }
        Ok(())
    }

    /// Before the entry of a new file, the page of which is in slot 0, is added: what has its name was removed or renamed before, and
    /// what said so is lost. One read for each other file or directory with this hash.
    fn unlink_same_name(&mut self, rec: &Record) -> Result<(), Error<N::Error>> {
        let mut n = 0;
        while let Some(Some(r)) = sound(self.dir_nth(rec.parent, rec.hash, n))? {
            n += 1;
            let (at, kind) = match r.target {
                Target::File => (PageAddr(r.ptr), Kind::File),
                Target::Dir => match sound(self.map_get(r.ptr))? {
                    Some(at) => (at, Kind::Dir),
                    None => continue,
                },
                Target::Orphan | Target::Indirect => continue,
            };
            self.store.scratch_at = PageAddr::NONE;
            let header = self.store.read_meta(at, self.scratch)?;
            let (old, new) = (FileView::on(&*self.scratch), self.files[0].file());
            if header.is_none_or(|h| h.kind != kind)
                || old.ino() == rec.ino
                || (old.parent(), old.name()) != (rec.parent, new.name())
            {
                continue;
            }
            self.note_damage(at, CHANGE);
            return self.dir_remove(rec.parent, &r, Removal::Recorded);
        }
        Ok(())
    }

    /// Whether a page is an inode's whose program failed, though it reads well: then it was
    /// written again elsewhere, and that page replaces the same one as this.
    fn is_failed_program(&mut self, at: PageAddr, ino: u32) -> Result<bool, Error<N::Error>> {
        if !self.lost(at) {
            return Ok(false);
        }
        self.store.scratch_at = PageAddr::NONE;
        let header = self.store.read_meta(at, self.scratch)?;
        Ok(header.is_some_and(|h| h.kind == Kind::File) && FileView::on(self.scratch).ino() == ino)
    }

    /// A rename has replaced a file: a direct one ends its life, one in the index directory
    /// loses a name. It is marked there, until a page of its own says which are left.
    fn replay_replaced(&mut self, rec: &Record, kind: u8, ptr: u32) -> Result<(), Error<N::Error>> {
        let target = if kind == Target::File as u8 {
            Target::File
        } else {
            Target::Indirect
        };
        if self.is_older(rec.parent, rec.seq)? {
            self.unlink_if(rec.parent, rec.hash, |r| r.same_object(target, ptr))?;
        }
        if target == Target::File {
            return self.free_file_at(PageAddr(ptr));
        }
        let hash = ino_hash(self.store.volume, ptr);
        let mut n = 0;
        while let Some(Some(r)) = sound(self.dir_nth(INDEX_DIR, hash, n))? {
            n += 1;
            let at = PageAddr(r.ptr);
            if !matches!(r.target, Target::File | Target::Orphan) {
                continue;
            }
            let found = sound(self.load_scratch(at, Kind::File, "file inode"))?;
            if found.is_some() && FileView::on(self.scratch).ino() == ptr {
                if get_u64(self.scratch, SEQ) > rec.seq {
                    return Ok(());
                }
                if let Some(recovery) = &mut self.store.recovery {
                    recovery.mend = true;
                }
                // A page of the index directory may have it marked already.
                if r.target == Target::Orphan {
                    return Ok(());
                }
                return self.dir_repoint(INDEX_DIR, hash, Target::Orphan, at, at);
            }
        }
        Ok(())
    }

    /// Step 5: counts the lost pages that inodes refer to.
    fn count_lost(&mut self, since: u64) -> Result<(), Error<N::Error>> {
        let mut entry = 0;
        loop {
            let Some(rec) = self.store.recovery.as_ref().filter(|r| entry < r.len) else {
                return Ok(());
            };
            let (block, info) = rec.entry(entry);
            let copy = rec.copy.map_or(PageAddr::NONE, |c| c.0);
            entry += 1;
            let fresh = info & FRESH != 0;
            let area = Recovery::area(info);
            if !fresh && area != Area::Dir as u16 && area != Area::File as u16 {
                continue;
            }
            for index in u32::from(info & 0x7ff)..self.store.ppb() {
                let at = self.store.geo.page(BlockAddr(block), index);
                self.files[0].clear();
                let header = self.store.read_meta(at, self.files[0].buf)?;
                let is_one = |h: &Header| h.seq > since && (fresh || is_record(h.kind, area));
                let counted = match header.filter(is_one) {
                    Some(h) if h.kind == Kind::Dir => self.count_dir(at),
                    Some(h) if h.kind == Kind::File && (!fresh || copy == at) => {
                        self.count_file(at)
                    }
                    None if is_blank(self.files[0].buf) => break,
                    _ => Ok(()),
                };
                self.noted(counted)?;
            }
        }
    }

    fn count(&mut self, at: PageAddr) -> bool {
        count(&mut self.store, at)
    }

    /// Whether a map page was written since the checkpoint: then it may refer to lost pages.
    pub(crate) fn is_new(&self, at: PageAddr) -> bool {
        let block = self.store.geo.block_of(at).0;
        self.lost(at)
            || self.store.recovery.as_ref().is_some_and(|r| {
                (0..r.len).any(|i| r.entry(i).0 == block && r.entry(i).1 & FRESH != 0)
            })
    }

    fn count_dir(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let view = DirView::on(self.files[0].buf);
        if !view.is_sane() {
            return Ok(());
        }
        let (ino, pointers, levels) = (view.ino(), view.pointers(), view.levels());
        if self.map_get(ino).ok() != Some(at) {
            return Ok(());
        }
        self.count(at);
        let xattr = DirView::on(self.files[0].buf).xattr();
        self.count(xattr);
        for r in 0..DirView::on(self.files[0].buf).records() {
            let entry = DirRec::decode(DirView::on(self.files[0].buf).record(r));
            self.count_entry(&entry);
        }
        for p in 0..pointers {
            let page = DirView::on(self.files[0].buf).pointer(p).1;
            self.count(page);
            if levels == 1 {
                self.count_hash_map(page)?;
                continue;
            }
            let (mut r, new) = (0, self.is_new(page));
            while new && sound(self.load_scratch(page, Kind::HashIndex, "hash index"))?.is_some() {
                let index: MapPage<&[u8], 8> = MapPage(self.scratch);
                if r >= index.count().min(index.capacity()) {
                    break;
                }
                let map = index.pointer(r).1;
                self.store.look_into(map)?;
                self.count(map);
                self.count_hash_map(map)?;
                r += 1;
            }
        }
        Ok(())
    }

    /// Counts the page that an entry leads to: also one that cannot be read, which must not become
    /// another file's.
    fn count_entry(&mut self, entry: &DirRec) {
        if entry.is_entry() && matches!(entry.target, Target::File | Target::Orphan) {
            self.count(PageAddr(entry.ptr));
        }
    }

    /// Counts what the entries lead to in a hash map of the directory in slot 0.
    fn count_hash_map(&mut self, map: PageAddr) -> Result<(), Error<N::Error>> {
        if !self.is_new(map) || sound(self.load_scratch(map, Kind::HashMap, "hash map"))?.is_none()
        {
            return Ok(());
        }
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(self.scratch);
        for r in 0..page.count().min(page.capacity()) {
            let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(self.scratch);
            let entry = DirRec::decode(page.record(r));
            if !DirView::on(self.files[0].buf).hides(&entry) {
                self.count_entry(&entry);
            }
        }
        Ok(())
    }

    fn count_file(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let view = self.files[0].file();
        if !view.is_sane() {
            return Ok(());
        }
        let (dir, hash) = view.holder(self.store.volume);
        let (pointers, levels) = (view.pointers(), view.levels());
        let mut n = 0;
        loop {
            match self.dir_nth(dir, hash, n) {
                Ok(Some(rec)) if rec.ptr == at.0 && rec.target != Target::Indirect => break,
                Ok(Some(_)) => n += 1,
                // Without its entry nobody can reach it.
                Ok(None) | Err(Error::NotFound | Error::Corrupt(..)) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        let mut n = 0;
        while let Some(page) = self.files[0].file().names_page(n) {
            self.count(page);
            n += 1;
        }
        let xattr = self.files[0].file().xattr();
        self.count(xattr);
        for r in 0..self.files[0].file().record_search(INDEX_END, 0) {
            let e = Extent::decode(self.files[0].file().record(r));
            for k in 0..e.count {
                self.count(PageAddr(e.page + k));
            }
        }
        for p in 0..pointers {
            let page = self.files[0].file().pointer(p).1;
            if levels == 2 && self.count(page) {
                let mut r = 0;
                while sound(self.load_scratch(page, Kind::ExtentIndex, "extent index"))?.is_some() {
                    let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                    if r >= index.count().min(index.capacity()) {
                        break;
                    }
                    let (map, waiting) = (index.pointer(r).1, Waiting::below(&index, page, r));
                    if r == 0 {
                        self.counted_waiting(0, count_run);
                    }
                    self.store.look_into(map)?;
                    self.count_extent_map(map, Some(&waiting))?;
                    r += 1;
                }
            } else if levels == 1 {
                self.count_extent_map(page, None)?;
            }
        }
        Ok(())
    }

    fn count_extent_map(
        &mut self,
        at: PageAddr,
        waiting: Option<&Waiting>,
    ) -> Result<(), Error<N::Error>> {
        if !self.count(at) || sound(self.load_scratch(at, Kind::ExtentMap, "extent map"))?.is_none()
        {
            return Ok(());
        }
        sound(self.counted(0, waiting, count_run))?;
        Ok(())
    }

    /// Step 6: blocks without valid pages are dead, but for those that may hold updates.
    fn close_opened(&mut self) {
        let listed = self.store.recovery.as_ref().map_or(0, |r| r.len);
        for i in 0..listed {
            let entry = self.store.recovery.as_ref().map(|r| r.entry(i));
            let Some((block, info)) = entry else { break };
            self.store.settle_table();
            let n = self.store.looked_count;
            let may_hold = info & FRESH == 0 && Recovery::area(info) == Area::Update as u16;
            if may_hold && n < UPDATE_BLOCKS && self.store.has_updates() {
                if n == 0 {
                    self.store.looked_from = u32::from(info & 0x7ff);
                }
                self.store.looked_through[n] = block as u16;
                self.store.looked_count += 1;
            } else if info & FRESH == 0 || !self.store.is_open(block) {
                self.store.close(block);
            }
        }
        self.files[0].clear();
        if let Some(rec) = self.store.recovery.take() {
            self.files[1].buf = rec.list;
        }
        self.files[1].clear();
    }
}

fn list_record(rec: &mut Recovery<'_>, page: &[u8], blocks: u32) {
    for i in 0..usize::from(get_u16(page, HEADER)).min(RESERVES) {
        let v = get_u32(page, HEADER + 4 + 4 * i);
        if (v & 0xffff) < blocks {
            rec.add(v & 0xffff, (v >> 16 & 7) as u16 * (1 << 11));
        }
    }
}

//! Which blocks were taken, and which were open, when power failed.

use crate::checkpoint::Durable;
use crate::checkpoint::encode::Start;
use crate::error::{Bool, Damaged, Fault};
use crate::format::area::{HEADS, Head, LogArea, UPDATE, area_of};
use crate::format::blockstate::BlockState;
use crate::format::extent::{self, Extent};
use crate::format::header::{HEADER, Header, Kind, is_blank};
use crate::format::inode::FileView;
use crate::format::limits::RESERVES;
use crate::format::tag::{self, Tag, Update};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::recovery::count::nth_run;
use crate::space::latch::MayProgram;
use crate::space::opened::{FRESH, NEWER, PARTIAL, Recovery, SUSPECTS};
use flashkit_bytes::{get_u16, get_u32};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// What has been seen of the allocation log.
#[derive(Default)]
struct LogSeen {
    /// A record of a change: the checkpoint before it was complete.
    pub(crate) changed: bool,
    /// A page that may have been a record.
    pub(crate) gap: bool,
    /// One that was, as others follow.
    pub(crate) lost: bool,
}

impl<'r, N: Nand> Durable<'r, N> {
    /// Step 1: reads the allocation log and lists the blocks. Returns whether there are records.
    #[inline(never)]
    pub(crate) fn list_opened(&mut self, start: &Start) -> Result<Bool, Fault> {
        let since = start.since;
        self.index.files[FileSlot::Second].clear();
        let list = core::mem::take(&mut self.index.files[FileSlot::Second].buf);
        let mut rec = Recovery {
            list,
            len: 0,
            pages_per_block: self.index.store.ppb(),
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
        for (i, head) in self.index.store.heads.log.iter().enumerate().skip(1) {
            if head.block != u32::MAX && head.next < self.index.store.ppb() {
                rec.add(head.block, (i as u16) << 11 | head.next as u16);
            }
        }
        for i in 0..self.index.store.remnants.len {
            let head = self.index.store.remnants.get(i);
            rec.add(head.block, PARTIAL << 11 | head.next as u16);
        }
        let head = self.index.store.heads.data[UPDATE];
        if head.block != u32::MAX && head.next < self.index.store.ppb() {
            rec.add(
                head.block,
                (LogArea::Update as u16) << 11 | head.next as u16,
            );
        }
        for &(block, area) in &self.index.store.log.reserves[..self.index.store.log.reserved] {
            rec.add(u32::from(block), u16::from(area & 7) << 11);
        }
        let mut log = self.index.store.heads.log[LogArea::Bitmap as usize];
        let (mut read, mut seen) = (0, LogSeen::default());
        loop {
            if log.block != u32::MAX {
                self.index.read_log(log, &mut rec, &mut seen)?;
            }
            // The log goes on in the blocks reserved for it, in their order.
            let on = |rec: &Recovery<'_>, read| {
                (read..rec.len).find(|&i| {
                    let info = rec.entry(i).1;
                    info & FRESH == 0 && Recovery::area(info) == LogArea::Bitmap as u16
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
        self.index.store.recovery = Some(rec);
        Ok(seen.changed.into())
    }

    /// Where a record of the allocation log cannot be read: lists the blocks that show by what is
    /// in them that they have been taken since the checkpoint. Those of one log in the order in
    /// which they were written. A read for each free block, two for those with data; for each that
    /// is found with inodes or updates as much for those listed of its log. Without tags data does
    /// not tell: one more for each page of inodes and maps since the checkpoint.
    fn list_unrecorded(&mut self, rec: &mut Recovery<'_>, lost: bool) -> Result<(), Fault> {
        for block in 0..self.index.store.table.blocks() {
            if !self.may_be_unrecorded(rec, block) {
                continue;
            }
            let Some((area, seq)) = self.index.taken_for(block, rec.since)? else {
                continue;
            };
            let mut place = rec.len;
            // Blocks of the allocation log are read from where the list has
            // been read to: they come last.
            if matches!(area, LogArea::Dir | LogArea::File | LogArea::Update) {
                for i in 0..rec.len {
                    let (other, info) = rec.entry(i);
                    if Recovery::area(info) == area as u16
                        && info & 0x7ff == 0
                        && self
                            .index
                            .taken_for(other, rec.since)?
                            .is_none_or(|o| o.1 > seq)
                    {
                        place = i;
                        break;
                    }
                }
            }
            if self.index.add_unrecorded(rec, block, area, lost) {
                rec.move_last_to(place);
            }
        }
        if !self.index.store.has_tags() {
            self.list_named(rec, lost)?;
        }
        Ok(())
    }

    /// Whether a block may have been taken by a record that is lost.
    fn may_be_unrecorded(&mut self, rec: &Recovery<'_>, block: u32) -> bool {
        let state = self.index.store.state(block);
        matches!(
            state,
            BlockState::Free | BlockState::Clean | BlockState::Dead
        ) && !rec.is_opened(block)
            && !self.anchor.owns(block)
    }

    /// Lists the blocks with data that pages of inodes and maps written since the
    /// checkpoint lead to, and no record.
    fn list_named(&mut self, rec: &mut Recovery<'_>, lost: bool) -> Result<(), Fault> {
        // Forged pages could name all blocks in each record.
        let in_page =
            (self.index.store.page_size() / extent::SIZE) as u32 + self.index.store.table.blocks();
        let mut left = u64::from(2 * self.index.replay_max()) * u64::from(in_page);
        for i in 0..rec.len {
            let (block, info) = rec.entry(i);
            let area = Recovery::area(info);
            if area != LogArea::File as u16 && area != LogArea::Extent as u16 {
                continue;
            }
            for index in u32::from(info & 0x7ff)..self.index.store.ppb() {
                let at = self.index.store.geo.page(BlockAddr(block), index);
                let header = self.index.read_scratch(at)?;
                let Some(header) = header.filter(|h| h.seq > rec.since) else {
                    if is_blank(&self.index.scratch) {
                        break;
                    }
                    continue;
                };
                for n in 0.. {
                    let Some(run) = nth_run(header.kind, &self.index.scratch, n) else {
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
        let pages = self.index.store.ppb();
        let last = run.page.saturating_add(run.count - 1) / pages;
        for block in run.page / pages..=last.min(self.index.store.table.blocks() - 1) {
            *left = left.saturating_sub(1);
            if *left > 0 && self.may_be_unrecorded(rec, block) {
                self.index.add_unrecorded(rec, block, LogArea::Data, lost);
            }
        }
    }
}

impl<'r, N: Nand> Index<'r, N> {
    /// Reads a block of the allocation log from a place on, and lists what its records name. A page
    /// that is none may have been one: what follows it tells, or it is where power was cut, or
    /// where the block has not been erased yet.
    fn read_log(
        &mut self,
        mut log: Head,
        rec: &mut Recovery<'_>,
        seen: &mut LogSeen,
    ) -> Result<(), Fault> {
        let (mut gap, mut begun) = (false, log.next > 0);
        while log.next < self.store.ppb() {
            let at = self.store.geo.page(BlockAddr(log.block), log.next);
            let header = self.read_scratch(at)?;
            log.next += 1;
            match header {
                Some(h) if h.seq > rec.since => {
                    self.store.seq = self.store.seq.max(h.seq + 1);
                    seen.gap |= gap;
                    seen.lost |= gap;
                    (gap, begun) = (false, true);
                    if h.kind == Kind::Alloc {
                        seen.changed |= get_u16(&self.scratch, HEADER + 2) == 0;
                        list_record(rec, &self.scratch, self.store.geo.blocks());
                    }
                }
                None if is_blank(&self.scratch) => {
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

    /// Lists such a block last, if there is a place.
    fn add_unrecorded(
        &mut self,
        rec: &mut Recovery<'_>,
        block: u32,
        area: LogArea,
        lost: bool,
    ) -> bool {
        let has_room = rec.has_room();
        if has_room {
            rec.add(block, (area as u16) << 11);
        } else if lost {
            self.note_damage(self.store.geo.page(BlockAddr(block), 0), Damaged::Change);
        }
        has_room
    }

    /// The area that a session has taken a block for since the checkpoint, by the first of its
    /// pages that can be read, and the number of that. Recoveries that were cut have taken blocks
    /// as well, and their numbers are larger.
    fn taken_for(&mut self, block: u32, since: u64) -> Result<Option<(LogArea, u64)>, Fault> {
        for index in 0..2 {
            let at = self.store.geo.page(BlockAddr(block), index);
            if let Some(h) = self.read_scratch(at)? {
                let is_new = h.seq > since && h.seq - since < NEWER;
                return Ok(area_of(h.kind).filter(|_| is_new).map(|a| (a, h.seq)));
            }
            let is_blank = is_blank(&self.scratch);
            let mut spare = [0xff; tag::UPDATE_SIZE];
            let len = spare.len().min(self.store.geo.spare_size() as usize);
            if let Some(form) = self.store.tags {
                let status = self.store.nand.read(at, 0, &mut [], &mut spare[..len])?;
                let read = spare;
                if let Some(tag) = spare.first_chunk_mut() {
                    // For a bit that has flipped, here or before the chip copied the page; whether
                    // the page is whole does not matter here.
                    self.store.check_tag(at, tag, &self.scratch);
                }
                let tag_of = |spare: &[u8]| Tag::decode(form, spare.first_chunk()?);
                if status.is_readable()
                    && let Some(tag) = tag_of(&spare)
                {
                    let newer = |tag: Tag| tag.seq_after(since).filter(|seq| seq - since < NEWER);
                    let Some(seq) = newer(tag).or_else(|| newer(tag_of(&read)?)) else {
                        return Ok(None);
                    };
                    let area = match Update::decode(form, &spare, seq) {
                        Some(_) => LogArea::Update,
                        None => LogArea::Data,
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
    pub(crate) fn close_at_checkpoint(&mut self, _: MayProgram) {
        (self.store.log.reserved, self.store.log.unnamed) = (0, 0);
        self.store.remnants.len = 0;
        self.store.heads.log = [Head::NONE; HEADS];
        self.store.heads.data[UPDATE] = Head::NONE;
        let table = self.store.table.head().block;
        self.store.table.set_head(Head::NONE);
        self.store.close(table);
        let listed = self.store.recovery.as_ref().map_or(0, |r| r.len);
        for i in 0..listed {
            let entry = self.store.recovery.as_ref().map(|r| r.entry(i));
            let Some((block, info)) = entry else { break };
            match self.store.state(block) {
                BlockState::Free | BlockState::Clean => {
                    self.store.tally.free = self.store.tally.free.saturating_sub(1);
                }
                BlockState::Dead => self.store.tally.dead = self.store.tally.dead.saturating_sub(1),
                _ => continue,
            }
            let state = match Recovery::area(info) {
                a if a == LogArea::Bitmap as u16 => BlockState::System,
                a if a == LogArea::Data as u16 || a == LogArea::Update as u16 => {
                    BlockState::Data(0)
                }
                _ => BlockState::Meta(0),
            };
            self.store.set_state(block, state);
            if state == BlockState::System {
                self.store.retire_system(block);
            }
            self.store.table_write_back(MayProgram);
        }
        for &block in self.store.log.blocks.take().as_slice() {
            self.store.retire_system(block.into());
        }
        // About as many blocks have been erased since the checkpoint.
        self.store.wear.erases = self.store.wear.erases.saturating_add(listed as u32);
    }

    /// Step 2: writes anew the newest record of all, the only one whose program may have been cut;
    /// unless one is found that was.
    #[inline(never)]
    pub(crate) fn copy_suspects(&mut self, since: u64) -> Result<(), Fault> {
        let mut newest: Option<(PageAddr, Header)> = None;
        let mut torn = false;
        for area in [LogArea::Dir, LogArea::File] {
            let Some(mut at) = self.last_record(area, since)? else {
                continue;
            };
            let mut found = self.read_record(at, area, since)?;
            if found.is_none() && self.store.geo.index_of(at) == 0 {
                // The one before it, in another block, may be this record as well:
                // its program may have failed.
                self.suspect(at);
                let Some(before) = self.last_record(area, since)? else {
                    continue;
                };
                at = before;
                found = self.read_record(at, area, since)?;
            }
            match found {
                Some(h) if newest.is_none_or(|n| h.seq > n.1.seq) => {
                    self.files[FileSlot::First]
                        .buf
                        .copy_from_slice(&self.scratch);
                    newest = Some((at, h));
                }
                Some(_) => {}
                None => {
                    self.suspect(at);
                    self.doubt();
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
            LogArea::Dir
        } else {
            LogArea::File
        };
        let page = &mut self.files[FileSlot::First].buf[..header.len];
        let ino = FileView::on(&*page).ino();
        let at = self.store.append(area, page, header.kind, header.prev)?;
        self.suspect(from);
        if let Some(rec) = &mut self.store.recovery {
            (rec.copy, rec.copy_of) = (Some((at, header, before)), ino);
        }
        Ok(())
    }

    /// A record of an inode may be lost.
    pub(crate) fn doubt(&mut self) {
        if let Some(rec) = &mut self.store.recovery {
            rec.doubt = true;
        }
    }

    /// Notes a page that is not to be looked at again.
    fn suspect(&mut self, at: PageAddr) {
        if let Some(rec) = &mut self.store.recovery {
            rec.suspects.rotate_right(1);
            rec.suspects[0] = at;
        }
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

/// Whether pages of a kind are the records of an area.
pub(crate) fn is_record(kind: Kind, area: u16) -> bool {
    match kind {
        Kind::Dir => area == LogArea::Dir as u16,
        Kind::File => area == LogArea::File as u16,
        _ => false,
    }
}

//! Which blocks were taken since the checkpoint, and the records in them, in their order.

use crate::boot::chip::Chip;
use crate::boot::{Boot, Error, Held};
use crate::format::area::{LogArea, area_of};
use crate::format::checkpoint::{CheckpointView, TOLD};
use crate::format::fields::{get_u16, get_u32, put_u16, put_u32};
use crate::format::header::{self, HEADER, Kind, is_blank};
use crate::format::inode::{FileView, second_of_exchange};
use crate::format::limits::{NEWER, RESERVES, SNAPSHOT_PAGES};
use crate::format::tag::{self, Tag, Update};
use crate::format::wellformed::blocks;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Bytes of a block that was taken: its number, area and first page.
const ENTRY: usize = 4;

/// An exchange whose second inode has not been seen to know its new name.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    /// The second inode's number.
    pub second: u32,
    /// Where the first has been and the second is: directory, hash.
    pub left: (u32, u32),
    /// The first inode, and its page with the name that it has left.
    pub first: (Kind, u32, PageAddr),
}

/// A place in the records of a kind.
pub(super) struct Cursor {
    kind: Kind,
    entry: usize,
    page: u32,
    /// The place of the record found.
    pub at: PageAddr,
}

/// The block at a place of the list, its area and first page.
fn entry(list: &[u8], i: usize) -> (u32, u16, u32) {
    let at = ENTRY * (SNAPSHOT_PAGES + i);
    let info = get_u16(list, at + 2);
    (
        get_u16(list, at).into(),
        info >> 11 & 15,
        u32::from(info & 0x7ff),
    )
}

/// Lists a block, once: a record whose program failed may be there twice.
pub(super) fn add(list: &mut [u8], len: &mut usize, block: u32, info: u16) -> bool {
    let at = ENTRY * (SNAPSHOT_PAGES + *len);
    let is_new = (0..*len).all(|i| entry(list, i).0 != block) && at + ENTRY <= list.len();
    if is_new {
        put_u16(list, at, block as u16);
        put_u16(list, at + 2, info);
        *len += 1;
    }
    is_new
}

/// Swaps the block at a place with the one before it.
fn swap_before(list: &mut [u8], i: usize) {
    let at = ENTRY * (SNAPSHOT_PAGES + i);
    let (one, two) = (get_u32(list, at - ENTRY), get_u32(list, at));
    put_u32(list, at - ENTRY, two);
    put_u32(list, at, one);
}

/// The next block of an area from a place on.
pub(super) fn next_of(list: &[u8], len: usize, from: usize, area: LogArea) -> Option<usize> {
    (from..len).find(|&i| entry(list, i).1 == area as u16)
}

/// The block at a place and its first page.
pub(super) fn block_at(list: &[u8], i: usize) -> (u32, u32) {
    let (block, _, first) = entry(list, i);
    (block, first)
}

impl Cursor {
    pub fn new(kind: Kind) -> Cursor {
        Cursor {
            kind,
            entry: 0,
            page: u32::MAX,
            at: PageAddr::NONE,
        }
    }

    /// Moves to the next record of its kind, which is then in `page`. A block ends with its first
    /// erased page; pages that are neither erased nor valid are passed over.
    pub fn advance<N: Nand>(
        &mut self,
        chip: &mut Chip<N>,
        (list, len): (&[u8], usize),
        page: &mut [u8],
    ) -> Result<(), Error> {
        let area = if self.kind == Kind::Dir {
            LogArea::Dir
        } else {
            LogArea::File
        };
        self.at = PageAddr::NONE;
        loop {
            let next = self.page == u32::MAX;
            let from = self.entry;
            let Some(i) = next_of(list, len, from, area) else {
                return Ok(());
            };
            let (block, first) = block_at(list, i);
            if next {
                self.page = first;
            }
            if self.page >= chip.geo.pages_per_block() {
                (self.entry, self.page) = (i + 1, u32::MAX);
                continue;
            }
            let at = chip.geo.page(BlockAddr(block), self.page);
            self.entry = i;
            self.page += 1;
            match chip.read_meta(at, page)? {
                Some(kind) if kind == self.kind && chip.is_since(page) => {
                    self.at = at;
                    return Ok(());
                }
                None if is_blank(page) => (self.entry, self.page) = (i + 1, u32::MAX),
                _ => {}
            }
        }
    }
}

impl<N: Nand> Boot<'_, N> {
    /// Lists the blocks that were taken since the checkpoint, which is in the first buffer. What
    /// was open is listed already.
    pub(super) fn list_opened(&mut self) -> Result<(), Error> {
        let page = CheckpointView::on(self.a);
        let told = page.has(TOLD);
        for i in 0..usize::from(page.reserved()) {
            let (block, area) = page.reserve(i);
            add(
                self.list,
                &mut self.opened,
                block.into(),
                u16::from(area & 7) << 11,
            );
        }
        let mut log = page.head(LogArea::Bitmap as usize);
        let (mut read, mut gap) = (0, false);
        loop {
            if log.block != u32::MAX {
                self.read_log(log.block, log.next, &mut gap)?;
            }
            // The log goes on in the blocks reserved for it, in their order.
            let mut next = next_of(self.list, self.opened, read, LogArea::Bitmap);
            if next.is_none() && core::mem::take(&mut gap) && told {
                self.list_unrecorded()?;
                next = next_of(self.list, self.opened, read, LogArea::Bitmap);
            }
            let Some(i) = next else { return Ok(()) };
            read = i + 1;
            (log.block, log.next) = (block_at(self.list, i).0, 0);
        }
    }

    /// Reads a block of the allocation log from a page on, and lists what its records name. A page
    /// that is none may have been one: what follows it tells, or it is where power was cut, or
    /// where the block has not been erased yet.
    fn read_log(&mut self, block: u32, from: u32, seen: &mut bool) -> Result<(), Error> {
        let (mut gap, mut begun) = (false, from > 0);
        for index in from..self.chip.geo.pages_per_block() {
            let at = self.chip.geo.page(BlockAddr(block), index);
            match self.chip.read_meta(at, self.b)? {
                Some(kind) if self.chip.is_since(self.b) => {
                    *seen |= gap;
                    (gap, begun) = (false, true);
                    if kind == Kind::Alloc {
                        self.list_record();
                    }
                }
                None if is_blank(self.b) => {
                    *seen |= gap;
                    return Ok(());
                }
                _ if gap => break,
                _ => gap = true,
            }
        }
        *seen |= gap && begun;
        Ok(())
    }

    /// Lists what the record in the second buffer names.
    fn list_record(&mut self) {
        for i in 0..usize::from(get_u16(self.b, HEADER)).min(RESERVES) {
            let v = get_u32(self.b, HEADER + 4 + 4 * i);
            let (block, area) = (v & 0xffff, (v >> 16 & 7) as u16);
            if block < self.chip.geo.blocks() {
                add(self.list, &mut self.opened, block, area << 11);
            }
        }
    }

    /// Where a record cannot be read: lists the blocks that show by what is in them that they have
    /// been taken since. Those of one log in the order in which they were written. Blocks of no use
    /// to a reader are left out. Up to two reads for each block of the chip, and as much for each
    /// that is listed.
    #[inline(never)]
    fn list_unrecorded(&mut self) -> Result<(), Error> {
        for block in 0..blocks(&self.chip.geo) {
            if (0..self.opened).any(|i| entry(self.list, i).0 == block) {
                continue;
            }
            let Some((area, seq)) = self.taken_for(block)? else {
                continue;
            };
            let mut place = self.opened;
            // Blocks of the allocation log are read from where the list has been read to.
            for i in 0..if area == LogArea::Bitmap {
                0
            } else {
                self.opened
            } {
                let (other, of, first) = entry(self.list, i);
                if of == area as u16
                    && first == 0
                    && self.taken_for(other)?.is_none_or(|o| o.1 > seq)
                {
                    place = i;
                    break;
                }
            }
            if add(self.list, &mut self.opened, block, (area as u16) << 11) {
                // It is the last.
                for i in (place + 1..self.opened).rev() {
                    swap_before(self.list, i);
                }
            }
        }
        Ok(())
    }

    /// The log that a session has taken a block for since the checkpoint, if it is of use to a
    /// reader, by the first of its pages that can be read, and the number of that. Recoveries that
    /// were cut have taken blocks as well, and their numbers are larger.
    fn taken_for(&mut self, block: u32) -> Result<Option<(LogArea, u64)>, Error> {
        let since = self.chip.since;
        for index in 0..2 {
            let at = self.chip.geo.page(BlockAddr(block), index);
            if let Some(kind) = self.chip.read_meta(at, self.b)? {
                let seq = header::number(self.b);
                let is_new = seq > since && seq - since < NEWER;
                let area = area_of(kind)
                    .filter(|_| is_new)
                    .filter(|area| matches!(area, LogArea::Bitmap | LogArea::Dir | LogArea::File));
                return Ok(area.map(|area| (area, seq)));
            }
            let is_blank = is_blank(self.b);
            let mut spare = [0xff; tag::UPDATE_SIZE];
            if let Some(form) = self.chip.tags {
                let len = spare.len().min(self.chip.geo.spare_size() as usize);
                let (used, _) = spare.split_at_mut(len);
                let status = self.chip.read(at, self.b, used)?;
                if let Some(tag) = spare.first_chunk_mut() {
                    // For a bit that has flipped.
                    Tag::check(form, tag, self.b, self.chip.end());
                }
                let tag = spare.first_chunk().and_then(|tag| Tag::decode(form, tag));
                if let Some(tag) = tag.filter(|_| status.is_readable()) {
                    let seq = tag.seq_after(since).filter(|seq| seq - since < NEWER);
                    return Ok(seq
                        .filter(|&seq| Update::decode(form, &spare, seq).is_some())
                        .map(|seq| (LogArea::Update, seq)));
                }
            }
            // What data looks like, its tag does not.
            if is_blank && spare.iter().all(|&b| b == 0xff) {
                break;
            }
        }
        Ok(None)
    }

    /// Looks through all records: which is the newest, and whether the last exchange has come to
    /// its end.
    pub(super) fn look_through(&mut self) -> Result<(), Error> {
        (self.newest, self.pending) = (0, None);
        self.held = Held::Nothing;
        let (mut newest, mut pending) = (0, None);
        self.each_record(&mut |page, _, kind, retry| {
            newest = header::number(page);
            note_exchange(&mut pending, page, kind, retry);
            Ok(())
        })?;
        (self.newest, self.pending) = (newest, pending);
        Ok(())
    }
}

/// Notes the exchange of a record, and the end of one.
fn note_exchange(pending: &mut Option<Pending>, page: &[u8], kind: Kind, retry: PageAddr) {
    let view = FileView::on(page);
    pending.take_if(|p| p.second == view.ino());
    if retry.is_some() {
        return;
    }
    if let Some((_, second)) =
        second_of_exchange(view.ino(), view.flags(), view.moved(), view.replaced())
    {
        *pending = Some(Pending {
            second,
            left: view.moved(),
            first: (kind, view.ino(), header::prev(page)),
        });
    }
}

//! The inode pages written since the checkpoint, in their order.

use crate::error::{Damaged, Fault};
use crate::format::area::LogArea;
use crate::format::header::{Header, is_blank};
use crate::format::inode::FileView;
use crate::index::Index;
use crate::recovery::listing::is_record;
use crate::space::opened::{FRESH, Recovery};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// A position in the pages of one area written since the checkpoint.
pub(crate) struct Cursor {
    pub(crate) area: LogArea,
    pub(crate) entry: usize,
    pub(crate) page: u32,
    /// The page found: place, header.
    pub(crate) at: Option<(PageAddr, Header)>,
    /// The inode of that page.
    pub(crate) ino: u32,
    /// The last page of this block that was no such page, nor erased.
    pub(crate) gap: PageAddr,
    /// That page could not be read when it was to be replayed.
    pub(crate) missed: bool,
}

/// What the header part of an inode page says, copied out of it.
pub(crate) struct Record {
    pub(crate) at: PageAddr,
    pub seq: u64,
    pub prev: PageAddr,
    pub ino: u32,
    pub parent: u32,
    pub hash: u32,
    pub flags: u8,
    pub moved: (u32, u32),
    pub replaced: Option<(u8, u32)>,
    /// No page before it is this inode's.
    pub(crate) is_first: bool,
    /// The page of the same record whose program failed, and that has been replayed.
    pub(crate) failed: PageAddr,
}

impl<'r, N: Nand> Index<'r, N> {
    /// Reads the inode page at `at` into the scratch page, if there is one of an area newer than
    /// `since`. A page of another kind is none, whatever led here.
    pub(crate) fn read_record(
        &mut self,
        at: PageAddr,
        area: LogArea,
        since: u64,
    ) -> Result<Option<Header>, Fault> {
        let header = self.read_scratch(at)?;
        Ok(header.filter(|h| h.seq > since && is_record(h.kind, area as u16)))
    }

    /// The last page of an area that was programmed since the checkpoint. Some ten reads.
    pub(crate) fn last_record(
        &mut self,
        area: LogArea,
        since: u64,
    ) -> Result<Option<PageAddr>, Fault> {
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
                let blank = is_blank(&self.scratch);
                first += 1;
                let next = self.store.geo.page(block, first);
                if blank
                    || first == self.store.ppb()
                    || self.read_record(next, area, since)?.is_none()
                {
                    if !blank {
                        self.doubt();
                    }
                    // Not even erased perhaps. What it shows may change: it
                    // is not looked into again.
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
                if self.read_record(at, area, since)?.is_none() && is_blank(&self.scratch) {
                    hi = mid;
                } else {
                    lo = mid + 1;
                }
            }
            return Ok(Some(self.store.geo.page(block, lo - 1)));
        }
        Ok(None)
    }

    pub(crate) fn cursor(&mut self, area: LogArea, since: u64) -> Result<Cursor, Fault> {
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
    pub(crate) fn advance(&mut self, cursor: &mut Cursor, since: u64) -> Result<(), Fault> {
        loop {
            if cursor.page >= self.store.ppb() {
                // The last page of a block: its program may have failed.
                if cursor.gap.is_some() {
                    self.doubt();
                }
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
                None if is_blank(&self.scratch) => {
                    cursor.page = u32::MAX;
                }
                None => cursor.gap = at,
            }
        }
    }

    /// Notes the page before one that is sound, if it is none: neither was power cut then
    /// nor did its program fail.
    fn note_gap(&mut self, cursor: &mut Cursor) {
        let gap = core::mem::replace(&mut cursor.gap, PageAddr::NONE);
        if gap.is_some() {
            self.doubt();
            self.note_damage(gap, Damaged::Change);
        }
    }

    /// Notes a page that was read once only, unless the next record, which says what it
    /// said, is the same written again because its program had failed: of this inode, in
    /// the place of the same page.
    fn note_missed(&mut self, cursor: &mut Cursor, next: Option<(u32, PageAddr)>) {
        if !core::mem::replace(&mut cursor.missed, false) {
            return;
        }
        if let Some((at, header)) = cursor.at
            && next != Some((cursor.ino, header.prev))
        {
            self.doubt();
            self.note_damage(at, Damaged::Change);
        }
    }

    /// Whether a record is the last one of its log (0 directories, 1 files) once more, written
    /// again because its program had failed, though that page was read well: what it frees is free
    /// already. Gives that page.
    pub(crate) fn is_retry(
        &mut self,
        log: usize,
        ino: u32,
        prev: PageAddr,
        at: PageAddr,
    ) -> Option<PageAddr> {
        let last = &mut self.store.recovery.as_mut()?.last[log];
        let before = core::mem::replace(last, (ino, prev, at));
        ((before.0, before.1) == (ino, prev)).then_some(before.2)
    }
}

//! What a checkpoint and its snapshot say: where the pages of directories are, which blocks were
//! open, what of directories is in no page of theirs.

use crate::boot::dir::Logged;
use crate::boot::log::add;
use crate::boot::{Boot, Error};
use crate::format::area::LogArea;
use crate::format::blockstate;
use crate::format::checkpoint::{CONFIRMED, CheckpointView, WIDE};
use crate::format::deferred::{Group, is_none};
use crate::format::fields::{get_u16, get_u32, put_u32};
use crate::format::header::{self, Kind};
use crate::format::limits::MAP_PAGES;
use crate::format::snapshot::{Part, Parts, Piece};
use flashkit_nand::{Nand, PageAddr};

/// What a pass over the snapshot is for.
#[derive(Clone, Copy)]
pub(super) enum Want {
    /// Whether all of it is sound; blocks with an unwritten tail are listed.
    Open,
    /// The place of a page of the map, and of the next.
    Place(usize),
    /// The deferred records of a directory and a hash, for those of its log.
    Group(u32, u32),
}

/// More bytes than any snapshot stands for.
const STRING_MOST: usize = 1 << 18;

/// Where updates go on, with the place of an open block.
const OF_UPDATES: u16 = 1 << 15;

/// "Area" of a data block with an unwritten tail.
const PARTIAL: u16 = 8;

impl<N: Nand> Boot<'_, N> {
    /// Takes what a checkpoint page says, which is then in the first buffer; whether the volume was
    /// unmounted.
    pub(super) fn load_checkpoint(&mut self, at: PageAddr) -> Result<bool, Error> {
        self.chip.expect(at, self.a, Kind::Checkpoint)?;
        let page = CheckpointView::on(self.a);
        if !page.lists_fit() {
            return Err(Error::Damaged);
        }
        self.chip.since = page.since();
        self.wide = page.has(WIDE);
        self.tableless = page.per_page() > 0;
        self.dir_copies = page.dir_copies();
        self.snapshot = usize::from(page.snapshot_pages());
        for i in 0..self.snapshot {
            put_u32(self.list, 4 * i, page.snapshot_page(i).0);
        }
        Ok(page.has(CONFIRMED))
    }

    /// Looks whether the snapshot is sound. The checkpoint at a page is in the first buffer, before
    /// and after.
    pub(super) fn load_snapshot(&mut self, at: PageAddr) -> Result<(), Error> {
        self.opened = 0;
        let page = CheckpointView::on(self.a);
        for area in LogArea::Map as u16..=LogArea::Extent as u16 {
            let head = page.head(area.into());
            if head.block != u32::MAX && head.next < self.chip.geo.pages_per_block() {
                add(
                    self.list,
                    &mut self.opened,
                    head.block,
                    area << 11 | head.next as u16,
                );
            }
        }
        self.pass(Want::Open, &mut Logged::new())?;
        self.chip.expect(at, self.a, Kind::Checkpoint)
    }

    /// Reads the snapshot. Gives two places.
    pub(super) fn pass(&mut self, want: Want, logged: &mut Logged) -> Result<[PageAddr; 2], Error> {
        let geo = self.chip.geo;
        let table = if self.tableless {
            0
        } else {
            blockstate::size(&geo)
        };
        let mut parts = Parts::new(table, 4 * MAP_PAGES);
        let mut places = [0; 8];
        let mut groups = false;
        for i in 0..self.snapshot {
            let at = PageAddr(get_u32(self.list, 4 * i));
            self.chip.expect(at, self.b, Kind::Snapshot)?;
            let piece = Piece::on(&geo, self.b, header::used(self.b))
                .filter(|p| p.from == parts.at && p.tableless == self.tableless)
                .ok_or(Error::Damaged)?;
            piece.try_each(&mut |byte| {
                if parts.at > STRING_MOST {
                    return Err(Error::Damaged);
                }
                match (parts.next(byte), want) {
                    (Part::Place(n, byte), Want::Place(k)) => {
                        let place = n.checked_sub(4 * k).and_then(|n| places.get_mut(n));
                        place.into_iter().for_each(|place| *place = byte);
                    }
                    (Part::Open(entry), Want::Open) => {
                        let (block, next) = (get_u16(&entry, 0), get_u16(&entry, 2));
                        let place = next & !OF_UPDATES;
                        let area = match next & OF_UPDATES {
                            0 => PARTIAL,
                            _ if u32::from(place) >= geo.pages_per_block() => return Ok(()),
                            _ => LogArea::Update as u16,
                        };
                        add(
                            self.list,
                            &mut self.opened,
                            block.into(),
                            area << 11 | place & 0x7ff,
                        );
                    }
                    (Part::Deferred(_), Want::Open) => groups = true,
                    (Part::Deferred(bytes), Want::Group(dir, hash)) => {
                        let group = Group::first(bytes).filter(|g| g.dir() == dir);
                        let Some(group) = group else {
                            return Ok(());
                        };
                        for rec in group.records().filter(|rec| rec.hash == hash) {
                            if !core::mem::replace(&mut groups, true) {
                                logged.clear();
                            }
                            if !is_none(&rec) {
                                logged.push(rec)?;
                            }
                        }
                    }
                    _ => {}
                }
                Ok(())
            })?;
        }
        if !parts.is_whole() {
            return Err(Error::Damaged);
        }
        if let Want::Open = want {
            self.deferred = groups;
        }
        Ok([0, 4].map(|i| PageAddr(get_u32(&places, i))))
    }
}

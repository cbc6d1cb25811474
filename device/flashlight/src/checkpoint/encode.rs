//! The checkpoint page and the snapshot of the block table, from the volume and back.

use crate::checkpoint::Durable;
use crate::checkpoint::take::OF_UPDATES;
use crate::error::{Bool, Damaged, Fault};
use crate::format::area::{HEADS, Head, LogArea, UNSEEN, UPDATE};
use crate::format::blockstate::BlockState;
use crate::format::checkpoint::{
    CONFIRMED, CheckpointMut, CheckpointView, REPEATED, TOLD, WIDE, put_lists,
};
use crate::format::header::{HEADER, Kind};
use crate::format::limits::{BITMAP_BLOCKS, CHAIN, RETIRING, SNAPSHOT_PAGES};
use crate::format::node::FIRST_FILE;
use crate::format::snapshot::{self, Part, Parts, Piece};
use crate::format::table_page::Layout;
use crate::index::Index;
use crate::index::dirmap::DirMap;
use crate::space::store::Store;
use flashkit_bytes::get_u16;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// The checkpoint that a mount starts from.
// Large, and on the stack of all that a recovery does: there is one, and others fill it in.
pub(crate) struct Start {
    /// The newest root page: its number, whether both root blocks have it, and whether only one of
    /// these has pages that can be read.
    pub root_seq: u64,
    pub root_twice: bool,
    pub root_in_one: bool,
    /// Unmounted, and said so twice.
    pub clean: bool,
    /// The checkpoint before says the same.
    pub repeated: bool,
    /// What no record names and is newer than it, but not by far, is a session's:
    /// not so until commit 4eab370.
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

impl Start {
    /// Nothing has been read yet.
    pub const NONE: Start = Start {
        root_seq: 0,
        root_twice: false,
        root_in_one: false,
        clean: false,
        repeated: false,
        told: false,
        since: 0,
        snapshot: [0; SNAPSHOT_PAGES],
        snapshot_len: 0,
        copy: u32::MAX,
        is_copy: false,
        firm: false,
    };
}

impl<N: Nand> Durable<'_, N> {
    /// Puts the checkpoint page together in the scratch page.
    pub(crate) fn encode(&mut self, flags: u8, copy_of: u64, pages: &[u32]) -> usize {
        self.encode_fields(flags, copy_of, pages.len());
        let b = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
        let (a, s) = (&self.anchor, &mut self.index.store);
        let mut at = put_lists(b, &s.log.reserves[..s.log.reserved], pages);
        // Those that lead to this one, or have led to the one before.
        let mut over = [u32::MAX; RETIRING + CHAIN + 1];
        let mut count = 0;
        let mut push = |block: u32| {
            if let Some(place) = over.get_mut(count) {
                *place = block;
                count += 1;
            }
        };
        for &block in s.retiring.as_slice() {
            push(block.into());
        }
        a.chain[..a.chained].iter().for_each(|&block| push(block));
        if a.old_second != u32::MAX {
            push(a.old_second);
        }
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
        if let Some(mut fields) = CheckpointMut::on(b) {
            fields.set_dirty_entries(n);
        }
        at + usize::from(n) * size
    }

    /// Its fields, each of which has a place of its own.
    fn encode_fields(&mut self, flags: u8, copy_of: u64, pages: usize) {
        let page = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
        let (a, s, map) = (&self.anchor, &mut self.index.store, &self.index.map);
        page[HEADER..].fill(0);
        let Some(mut b) = CheckpointMut::on(page) else {
            return;
        };
        b.set_flags(flags | if map.wide { WIDE } else { 0 });
        b.set_round(a.round);
        b.set_root_next(a.root_next as u8);
        b.set_second_next(a.second_next as u8);
        b.set_second(a.second as u16);
        b.set_next_leaves(a.next_leaves);
        b.set_counting_root(a.counts);
        b.set_next_ino(self.index.next_ino);
        b.set_live(s.tally.live);
        b.set_orphans(self.index.orphans);
        b.set_cursor(s.cursor);
        b.set_next_dir(map.next);
        for (area, &head) in s.heads.log.iter().enumerate() {
            b.set_head(area, head);
        }
        for i in 0..BITMAP_BLOCKS {
            let block = s.log.blocks.as_slice().get(i);
            b.set_bitmap_block(i, block.copied().unwrap_or(u16::MAX));
        }
        b.set_reserved(s.log.reserved as u8);
        b.set_snapshot_pages(pages as u8);
        b.set_copy_of(copy_of);
        for (i, &block) in s.failing.0.iter().enumerate() {
            b.set_failing(i, block);
        }
        b.set_dir_copies(self.index.dir_copies);
        b.set_levelling([s.wear.at, s.wear.to, s.wear.moves, s.wear.erases]);
        b.set_scrub_block((s.scrub_at / s.ppb()) as u16);
        let per_page = s.table.paged.as_ref().map_or(0, |p| p.layout.per_page);
        b.set_per_page(per_page as u16);
    }

    /// Unpacks the checkpoint page in the scratch page, found in `leaf`, into `start`; whether it
    /// means something.
    pub(crate) fn decode(&mut self, leaf: Head, start: &mut Start) -> Result<Bool, Fault> {
        let per_page = u32::from(CheckpointView::on(&self.index.scratch).per_page());
        let layout = Layout::new(&self.index.store.geo, per_page);
        if layout.is_none() && (per_page > 0 || self.index.store.table.paged.is_some()) {
            return Ok(Bool::False);
        }
        let fits = self
            .index
            .store
            .table
            .has_room(layout, &self.index.store.geo);
        if let Err(more) = fits {
            return Err(self.index.store.nand.too_small(self.ram + more));
        }
        if layout.is_some_and(|layout| !self.index.store.table.begin_paging(layout)) {
            return Ok(Bool::False);
        }
        Ok(Bool::from(self.unpack(leaf, start).is_some()))
    }

    fn unpack(&mut self, leaf: Head, start: &mut Start) -> Option<()> {
        let (page, s) = (
            CheckpointView::on(&self.index.scratch),
            &mut self.index.store,
        );
        self.anchor.leaf = leaf;
        self.index.next_ino = page.next_ino().max(FIRST_FILE);
        self.index.orphans = page.orphans();
        s.tally.live = page.live();
        s.cursor = page.cursor() % s.geo.blocks();
        self.index.map.next = page.next_dir();
        self.index.map.wide = page.has(WIDE);
        self.anchor.next_leaves = page.next_leaves();
        self.index.dir_copies = page.dir_copies();
        for area in 0..HEADS {
            s.heads.log[area] = page.head(area);
        }
        for (i, block) in s.failing.0.iter_mut().enumerate() {
            *block = page.failing(i);
        }
        s.wear.load(page.levelling(), s.cursor, s.table.blocks());
        s.begin_counts();
        s.scrub_at = u32::from(page.scrub_block()).min(s.table.blocks()) * s.ppb();
        s.log.blocks.clear();
        for block in page.bitmap_blocks() {
            s.log.blocks.push(block);
        }
        if !page.lists_fit() {
            return None;
        }
        let mut end = page.table_at();
        if s.table.paged.is_some() {
            end = s.decode_table(&self.index.scratch, end)?;
        }
        let size = crate::space::dirty::entry_size(s.geo.pages_per_block());
        let dirty = usize::from(page.dirty_entries()) * size;
        let dirty = self.index.scratch.get(end..end + dirty)?;
        (s.log.reserved, s.log.unnamed) = (page.reserved().into(), 0);
        for i in 0..s.log.reserved {
            s.log.reserves[i] = page.reserve(i);
        }
        start.snapshot_len = page.snapshot_pages().into();
        for (i, place) in start
            .snapshot
            .iter_mut()
            .enumerate()
            .take(start.snapshot_len)
        {
            *place = page.snapshot_page(i).0;
        }
        start.clean = page.has(CONFIRMED);
        start.repeated = page.has(REPEATED);
        start.told = page.has(TOLD);
        start.since = page.since();
        start.is_copy = page.is_copy();
        (start.copy, start.firm) = (u32::MAX, false);
        s.dirty.load(dirty);
        let sane = (0..s.dirty.len()).all(|i| s.dirty.block(i) < s.table.blocks());
        sane.then_some(())
    }

    /// Loads the snapshot of the block table.
    pub(crate) fn load_snapshot(&mut self, pages: &[u32]) -> Result<(), Fault> {
        let geo = self.index.store.geo;
        let mut parts = self.index.parts();
        let tableless = self.index.store.table.paged.is_some();
        self.index.store.forget_all_deferred();
        self.index.deferred_left_out = false;
        self.index.store.remnants.len = 0;
        self.index.store.heads.data[UPDATE] = Head::NONE;
        for at in pages.iter().copied().map(PageAddr) {
            let page = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
            let header = (self.index.store).expect_meta(at, page, Kind::Snapshot)?;
            let Some(piece) = Piece::on(&geo, page, header.len)
                .filter(|piece| piece.from == parts.at && piece.tableless == tableless)
            else {
                return Err(self.index.store.nand.damaged(at, Damaged::Table));
            };
            piece.try_each(&mut |byte| {
                match parts.next(byte) {
                    Part::Table(n, byte) => self.index.store.table.bytes[n] = byte,
                    Part::Place(n, byte) => self.index.map.roots[n] = byte,
                    Part::Open(entry) => self.index.store.load_partial(&entry),
                    Part::Deferred(group) => match self.index.store.load_deferred(group) {
                        None => return Err(self.index.store.nand.damaged(at, Damaged::Table)),
                        Some(has_room) => self.index.deferred_left_out |= !has_room,
                    },
                    Part::Nothing => {}
                }
                Ok(())
            })?;
        }
        self.index.store.forget_open_failed();
        if !parts.is_whole() || !self.is_consistent() {
            return Err(self
                .index
                .store
                .nand
                .damaged(PageAddr::NONE, Damaged::Table));
        }
        if tableless {
            return self.find_bad_roots();
        }
        self.give_system_blocks_back()?;
        self.index.store.recount();
        Ok(())
    }

    /// System blocks that nothing leads to are left over from an interrupted switch.
    fn give_system_blocks_back(&mut self) -> Result<(), Fault> {
        for block in 0..self.index.store.table.blocks() {
            let ours = self.anchor.owns(block) || self.index.store.is_log(block);
            if ours {
                // A root block may have been marked bad since.
                let bad = block <= self.anchor.last_root
                    && self.index.store.nand.is_bad(BlockAddr(block))?.is_true();
                let state = if bad {
                    BlockState::Bad
                } else {
                    BlockState::System
                };
                self.index.store.set_state(block, state);
            } else if self.index.store.state(block) == BlockState::System {
                self.index.store.set_state(block, BlockState::Dead);
            }
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// What takes a snapshot of this volume apart.
    pub(crate) fn parts(&self) -> Parts {
        Parts::new(self.store.table.snapshot_len(), self.map.roots.len())
    }

    pub(crate) fn write_snapshot(&mut self, pages: &mut [u32]) -> Result<usize, Fault> {
        // All must fit into the list when the snapshot is loaded.
        let open = self.store.heads.open_data().count();
        while self.store.remnants.len + open > crate::format::limits::REMNANTS {
            self.store.remnants.remove(0);
        }
        let total = self.store.table.snapshot_len() + self.map.roots.len() + 4;
        let partials = self.store.remnants.len + open;
        let total = total + 4 * partials + self.store.deferred_len();
        let (geo, mut from, mut count) = (self.store.geo, 0, 0);
        let tableless = self.store.table.paged.is_some();
        while from < total {
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let (len, end) = snapshot::fill(&geo, page, (from, total), tableless, |k| {
                snapshot_byte(&mut self.store, &self.map, partials, k)
            });
            let at = self.append_scratch(LogArea::Bitmap, len, Kind::Snapshot, PageAddr::NONE)?;
            pages[count] = at.0;
            (from, count) = (end, count + 1);
        }
        Ok(count)
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
        if store.state(block) == BlockState::Dead && store.failing.contains(block) {
            let mut entry = [0; 2];
            entries.set(&mut entry, 0, BlockState::Bad);
            return entry[byte];
        }
        return store.table.bytes[k];
    }
    if k < table + roots {
        return map.roots[k - table];
    }
    if let Some(place) = k.checked_sub(table + roots + 4 + 4 * partials) {
        let [first, second] = store.deferred_lists();
        let behind = place.checked_sub(first.len());
        return behind.map_or_else(|| first[place], |place| second[place]);
    }
    let (entry, byte) = ((k - table - roots) / 4, (k - table - roots) % 4);
    let word = match entry {
        0 => partials as u32 | (store.deferred_len() as u32) << 16,
        e if e <= store.remnants.len => {
            let head = store.remnants.get(e - 1);
            head.block | head.next << 16
        }
        e => {
            let n = e - 1 - store.remnants.len;
            let head = store.heads.open_data().nth(n);
            let bit = if head == Some(store.heads.data[UPDATE]) {
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

impl<N: Nand> Store<'_, N> {
    /// Notes a closed block with an unwritten tail, or the open one of updates.
    fn load_partial(&mut self, entry: &[u8; 4]) {
        let (block, next) = (get_u16(entry, 0), get_u16(entry, 2));
        if self.remnants.is_full() {
            return;
        }
        let head = Head {
            block: u32::from(block),
            next: u32::from(next & !OF_UPDATES),
        };
        if next & OF_UPDATES == 0 {
            let next = head.next | UNSEEN;
            self.remnants.push(Head { next, ..head });
        } else {
            self.heads.data[UPDATE] = head;
        }
    }
}

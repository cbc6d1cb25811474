//! The checkpoint page and the snapshot of the block table, from the volume and back.

use crate::checkpoint::Durable;
use crate::checkpoint::take::OF_UPDATES;
use crate::error::Error;
use crate::format::area::{DATA_HEADS, HEADS, Head, LogArea, UNSEEN, UPDATE};
use crate::format::blockstate::BlockState;
use crate::format::header::{HEADER, Kind, SEQ};
use crate::format::leaf::{
    AFTER_NEXT, CONFIRMED, COPY_OF, COUNTS, DIR_COPIES, FAILING, FIELDS, LEVELLING, PER_PAGE,
    REPEATED, SCRUB, TOLD, WIDE, block_number, next_leaves, since,
};
use crate::format::limits::{BITMAP_BLOCKS, CHAIN, RESERVES, RETIRING, SNAPSHOT_PAGES};
use crate::format::node::FIRST_FILE;
use crate::format::snapshot::{self, Piece};
use crate::format::table_page::Layout;
use crate::index::Index;
use crate::index::dirmap::DirMap;
use crate::space::store::Store;
use flashkit_bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// The checkpoint that a mount starts from.
pub(crate) struct Start {
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

impl<N: Nand> Durable<'_, N> {
    /// Puts the checkpoint page together in the scratch page.
    pub(crate) fn encode(&mut self, flags: u8, copy_of: u64, pages: &[u32]) -> usize {
        self.encode_fields(flags, copy_of, pages.len());
        let b = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
        let (a, s) = (&self.anchor, &mut self.index.store);
        let mut at = FIELDS;
        for &(block, area) in &s.log.reserves[..s.log.reserved] {
            put_u32(b, at, u32::from(block) | u32::from(area) << 16);
            at += 4;
        }
        for &page in pages {
            put_u32(b, at, page);
            at += 4;
        }
        // Those that lead to this one, or have led to the one before.
        let mut over = [u32::MAX; RETIRING + CHAIN + 1];
        let retiring = s.retiring[..s.retiring_count].iter().map(|&b| u32::from(b));
        let led = a.chain[..a.chained].iter().copied();
        let old = Some(a.old_second).filter(|&b| b != u32::MAX);
        let count = (over.iter_mut().zip(retiring.chain(led).chain(old)))
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

    /// Its fields, each of which has a place of its own.
    fn encode_fields(&mut self, flags: u8, copy_of: u64, pages: usize) {
        let b = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
        let (a, s) = (&self.anchor, &mut self.index.store);
        b[HEADER..].fill(0);
        b[32] = flags | if self.index.map.wide { WIDE } else { 0 };
        b[33] = a.round;
        b[34] = a.root_next as u8;
        b[35] = a.second_next as u8;
        put_u16(b, 36, a.second as u16);
        put_u16(b, 38, a.next_leaves[0] as u16);
        put_u16(b, AFTER_NEXT, a.next_leaves[1] as u16);
        put_u16(b, COUNTS, a.counts);
        put_u32(b, 40, self.index.next_ino);
        put_u32(b, 44, s.live);
        put_u32(b, 48, self.index.orphans);
        put_u32(b, 52, s.cursor);
        put_u32(b, 56, self.index.map.next);
        for (i, head) in s.heads.iter().enumerate() {
            put_u16(b, 60 + 4 * i, head.block as u16);
            put_u16(b, 62 + 4 * i, head.next as u16);
        }
        for i in 0..BITMAP_BLOCKS {
            let block = if i < s.log.count {
                s.log.blocks[i]
            } else {
                u16::MAX
            };
            put_u16(b, 84 + 2 * i, block);
        }
        b[100] = s.log.reserved as u8;
        b[101] = pages as u8;
        put_u64(b, COPY_OF, copy_of);
        for (i, &block) in s.failing.iter().enumerate() {
            put_u16(b, FAILING + 2 * i, block);
        }
        for (i, copy) in self.index.dir_copies.into_iter().enumerate() {
            put_u32(b, DIR_COPIES + 4 * i, copy.0);
        }
        let wear = [s.wear.at, s.wear.to, s.wear.moves, s.wear.erases];
        for (i, v) in wear.into_iter().enumerate() {
            put_u16(b, LEVELLING + 2 * i, v.min(0xffff) as u16);
        }
        put_u16(b, SCRUB, (s.scrub_at / s.ppb()) as u16);
        let per_page = s.table.paged.as_ref().map_or(0, |p| p.layout.per_page);
        put_u16(b, PER_PAGE, per_page as u16);
    }

    /// Unpacks the checkpoint page in the scratch page, found in `leaf`. `None`: it means nothing.
    pub(crate) fn decode(&mut self, leaf: Head) -> Result<Option<Start>, Error<N::Error>> {
        let per_page = u32::from(get_u16(&self.index.scratch, PER_PAGE));
        let layout = Layout::new(&self.index.store.geo, per_page);
        if layout.is_none() && (per_page > 0 || self.index.store.table.paged.is_some()) {
            return Ok(None);
        }
        let fits = self
            .index
            .store
            .table
            .has_room(layout, &self.index.store.geo);
        fits.map_err(|more| Error::RamTooSmall(self.ram + more))?;
        if layout.is_some_and(|layout| !self.index.store.table.begin_paging(layout)) {
            return Ok(None);
        }
        Ok(self.unpack(leaf))
    }

    fn unpack(&mut self, leaf: Head) -> Option<Start> {
        let (b, s) = (&*self.index.scratch, &mut self.index.store);
        self.anchor.leaf = leaf;
        self.index.next_ino = get_u32(b, 40).max(FIRST_FILE);
        self.index.orphans = get_u32(b, 48);
        s.live = get_u32(b, 44);
        s.cursor = get_u32(b, 52) % s.geo.blocks();
        self.index.map.next = get_u32(b, 56);
        self.index.map.wide = b[32] & WIDE != 0;
        self.anchor.next_leaves = next_leaves(b);
        self.index.dir_copies = [0, 4].map(|i| PageAddr(get_u32(b, DIR_COPIES + i)));
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
        s.log.count = 0;
        for i in 0..BITMAP_BLOCKS {
            let v = get_u16(b, 84 + 2 * i);
            if v != u16::MAX {
                s.log.blocks[s.log.count] = v;
                s.log.count += 1;
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
        (s.log.reserved, s.log.unnamed) = (reserved, 0);
        for i in 0..reserved {
            let v = get_u32(b, FIELDS + 4 * i);
            s.log.reserves[i] = (v as u16, (v >> 16) as u8);
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
        let geo = self.index.store.geo;
        let (table, roots) = (
            self.index.store.table.snapshot_len(),
            self.index.map.roots.len(),
        );
        let tableless = self.index.store.table.paged.is_some();
        let corrupt = |at| Err(Error::Corrupt(at, "block table"));
        let (mut n, mut partials) = (0, 0);
        let mut tail = [0u8; 4];
        self.index.store.remnants.len = 0;
        self.index.store.data_heads[UPDATE] = Head::NONE;
        for at in pages.iter().copied().map(PageAddr) {
            let page = (self.index.scratch).overwrite(&mut self.index.store.scratch_holds);
            let header = (self.index.store).expect_meta(at, page, Kind::Snapshot, "block table")?;
            let Some(piece) = Piece::on(&geo, page, header.len)
                .filter(|piece| piece.from == n && piece.tableless == tableless)
            else {
                return corrupt(at);
            };
            for &byte in piece.bytes() {
                if n < table {
                    self.index.store.table.bytes[n] = byte;
                } else if n < table + roots {
                    self.index.map.roots[n - table] = byte;
                } else {
                    let behind = n - table - roots;
                    tail[behind % 4] = byte;
                    if behind == 3 {
                        partials = usize::from(get_u16(&tail, 0));
                    } else if behind % 4 == 3 {
                        self.index.store.load_partial(&tail);
                    }
                }
                n += 1;
            }
        }
        self.index.store.forget_open_failed();
        if n != table + roots + 4 + 4 * partials || !self.is_consistent() {
            return corrupt(PageAddr::NONE);
        }
        if tableless {
            return self.find_bad_roots();
        }
        self.give_system_blocks_back()?;
        self.index.store.recount();
        Ok(())
    }

    /// System blocks that nothing leads to are left over from an interrupted switch.
    fn give_system_blocks_back(&mut self) -> Result<(), Error<N::Error>> {
        for block in 0..self.index.store.table.blocks() {
            let ours = self.anchor.owns(block) || self.index.store.is_log(block);
            if ours {
                // A root block may have been marked bad since.
                let bad = block <= self.anchor.last_root
                    && self.index.store.nand.is_bad(BlockAddr(block))?;
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
    pub(crate) fn write_snapshot(&mut self, pages: &mut [u32]) -> Result<usize, Error<N::Error>> {
        // All must fit into the list when the snapshot is loaded.
        let open = self
            .store
            .data_heads
            .iter()
            .filter(|f| f.block != u32::MAX)
            .count();
        while self.store.remnants.len + open > crate::format::limits::REMNANTS {
            self.store.remnants.remove(0);
        }
        let total = self.store.table.snapshot_len() + self.map.roots.len() + 4;
        let partials = self.store.remnants.len
            + self
                .store
                .data_heads
                .iter()
                .filter(|f| f.block != u32::MAX)
                .count();
        let total = total + 4 * partials;
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
        if store.state(block) == BlockState::Dead
            && store.failing.iter().any(|&b| u32::from(b) == block)
        {
            let mut entry = [0; 2];
            entries.set(&mut entry, 0, BlockState::Bad);
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
            let open: &[Head; DATA_HEADS] = &store.data_heads;
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
            self.data_heads[UPDATE] = head;
        }
    }
}

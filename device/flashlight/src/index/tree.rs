//! What hash maps and extent maps have in common: an inode points to maps of consecutive ranges
//! of keys, directly or through index pages; a full map is split; pointers follow.

use crate::error::{Bool, Fault};
use crate::format::area::LogArea;
use crate::format::dirrec::HASH_SHIFT;
use crate::format::extent;
use crate::format::header::Kind;
use crate::format::inode::{AnyMut, AnyView, POINTER};
use crate::format::mappage::{MapPage, Owner, RECORDS};
use crate::index::Index;
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::{Nand, PageAddr};

/// Bytes of an inode page that stay free for the pointers that a migration may add.
pub(crate) const SLACK: usize = 112;
/// What of it one migration takes at most: three pointers, and notes of two pages.
pub(crate) const SLACK_LEAST: usize = 48;

/// Which of the two kinds of maps.
#[derive(Clone, Copy)]
pub(crate) struct MapKind {
    pub area: LogArea,
    pub map: Kind,
    pub index: Kind,
    /// From a record's first word to its key.
    pub shift: u32,
    /// Whether extents wait in its index pages.
    pub has_waiting: bool,
}

pub(crate) const HASH: MapKind = MapKind {
    area: LogArea::Hash,
    map: Kind::HashMap,
    index: Kind::HashIndex,
    shift: HASH_SHIFT,
    has_waiting: false,
};

pub(crate) const EXTENT: MapKind = MapKind {
    area: LogArea::Extent,
    map: Kind::ExtentMap,
    index: Kind::ExtentIndex,
    shift: 0,
    has_waiting: true,
};

/// What an inode says of where the map is that covers a key.
pub(crate) struct MapLead {
    ino: u32,
    key: u32,
    levels: u8,
    pointer: (u32, PageAddr),
    /// Where the range of what the pointer leads to ends.
    end: u32,
}

impl MapLead {
    /// Of an inode whose keys are all below `end`.
    pub fn of(view: &AnyView<'_>, key: u32, end: u32) -> MapLead {
        let levels = view.levels();
        let (pointer, end) = match levels {
            0 => ((0, PageAddr::NONE), end),
            _ => root_range(view, key, end),
        };
        MapLead {
            ino: view.ino(),
            key,
            levels,
            pointer,
            end,
        }
    }
}

impl<N: Nand> Index<'_, N> {
    /// The pointer to the map page that covers a key, if there is any, and where its range ends:
    /// also when the index page that leads there cannot be read. At most one read.
    #[allow(clippy::type_complexity)]
    pub fn map_for(
        &mut self,
        kind: &MapKind,
        lead: &MapLead,
    ) -> (Result<(u32, PageAddr), Fault>, u32) {
        if lead.levels < 2 {
            return (Ok(lead.pointer), lead.end);
        }
        if let Err(e) = self.load_map_page(kind.index, lead.pointer, lead.ino) {
            return (Err(e), lead.end);
        }
        let (pointer, end) = index_range(&MapPage(&*self.scratch), lead.key, lead.end);
        (Ok(pointer), end)
    }

    /// Loads the map page that a pointer leads to into the scratch page;
    /// `false` when there is none.
    pub fn load_map_at(
        &mut self,
        kind: &MapKind,
        ino: u32,
        pointer: (u32, PageAddr),
    ) -> Result<Bool, Fault> {
        if pointer.1.is_none() {
            return Ok(Bool::False);
        }
        self.load_map_page(kind.map, pointer, ino)?;
        Ok(Bool::True)
    }
}

/// The map page that a migration changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapTarget {
    /// Which pointer of the inode leads to it.
    pub root: usize,
    /// Its page; none for the inode's first map.
    pub page: PageAddr,
    /// The keys it covers: from `first` to before `end`.
    pub first: u32,
    pub end: u32,
}

impl MapTarget {
    /// That of an inode without maps, but for its end.
    pub const FIRST: MapTarget = MapTarget {
        root: 0,
        page: PageAddr::NONE,
        first: 0,
        end: 0,
    };

    /// The map that a pointer of the index page leads to, which this one is.
    pub fn below<B: AsRef<[u8]>>(&self, index: &MapPage<B, 8>, p: usize) -> MapTarget {
        let (first, end) = range_below(index, p, (self.first, self.end));
        MapTarget {
            page: index.pointer(p).1,
            first,
            end,
            ..*self
        }
    }
}

/// A map written by a migration: it covers the keys from `key` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub key: u32,
    pub page: PageAddr,
}

/// Maps of one index page that one migration writes at most.
pub(crate) const BATCH: usize = 3;
/// Maps of one index page that cleaning copies at a time at most.
pub(crate) const COPIES: usize = 16;
/// Maps that one becomes at most, split as records move to it.
const PARTS: usize = 4;

/// What a migration does to the pointers: of a few maps, and their splits.
pub(crate) struct Changes {
    list: [Put; BATCH + PARTS],
    len: usize,
    /// Ranges of which nothing waits in the index page any more.
    drained: [(u32, u32); BATCH],
    drained_len: usize,
}

impl Changes {
    pub fn new() -> Self {
        Changes {
            list: [Put {
                key: 0,
                page: PageAddr::NONE,
            }; BATCH + PARTS],
            len: 0,
            drained: [(0, 0); BATCH],
            drained_len: 0,
        }
    }
    pub fn push(&mut self, put: Put) {
        self.list[self.len] = put;
        self.len += 1;
    }
    /// One place is kept for the map that remains.
    pub fn is_full(&self) -> bool {
        self.len + 2 > self.list.len()
    }
    /// Whether there is place for all that another map may become.
    pub fn has_room(&self) -> bool {
        self.len + PARTS <= self.list.len()
    }
    pub fn note_drained(&mut self, from: u32, to: u32) {
        self.drained[self.drained_len] = (from, to);
        self.drained_len += 1;
    }
    pub fn drained(&self) -> &[(u32, u32)] {
        &self.drained[..self.drained_len]
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn iter(&self) -> impl Iterator<Item = Put> + '_ {
        self.list[..self.len].iter().copied()
    }
}

/// Bytes of an inode page that the pointers to the maps of a migration take: to those split off so
/// far, and to the first of all. At the index level that is looked after
/// when an index page is split.
pub(crate) fn pointers_need(levels: u8, target: &MapTarget, changes: &Changes) -> usize {
    let maps = changes.len + usize::from(target.page.is_none());
    if levels < 2 { POINTER * maps } else { 0 }
}

/// Pointers in an inode before they move to an index page.
pub(crate) fn pointer_cap(page_size: usize) -> usize {
    (page_size / 32).max(4)
}

pub(crate) fn pointer_record(key: u32, page: PageAddr) -> [u8; 8] {
    let mut rec = [0; 8];
    put_u32(&mut rec, 0, key);
    put_u32(&mut rec, 4, page.0);
    rec
}

/// Of `n` ranges, those with the most records, the most first; none that has less than half as many
/// as the first. Gives how many, one at least.
pub(crate) fn pick_most(n: usize, records: &dyn Fn(usize) -> usize, picked: &mut [usize]) -> usize {
    let (mut counts, mut len) = ([0; BATCH], 0);
    for p in 0..n {
        let records = records(p);
        let place = counts[..len]
            .iter()
            .position(|&c| records > c)
            .unwrap_or(len);
        if place < picked.len() && (records > 0 || len == 0) {
            len = (len + 1).min(picked.len());
            picked[place..len].rotate_right(1);
            counts[place..len].rotate_right(1);
            (picked[place], counts[place]) = (p, records);
        }
    }
    let worth = counts[..len].iter().take_while(|&&c| 2 * c >= counts[0]);
    worth.count()
}

/// Of `n` consecutive ranges that start at `key(0..n)` and end before `end`, the one that most
/// records of the log fall into.
fn densest(
    inode: &AnyView<'_>,
    kind: MapKind,
    n: usize,
    end: u32,
    key: &dyn Fn(usize) -> u32,
) -> usize {
    let records = |p| {
        let from = inode.record_search(key(p), kind.shift);
        let to = inode.record_search(if p + 1 < n { key(p + 1) } else { end }, kind.shift);
        to.saturating_sub(from)
    };
    let mut picked = [0];
    pick_most(n, &records, &mut picked);
    picked[0]
}

/// The pointer of an inode that leads to where `key` belongs, or else to where most records of the
/// log do.
pub(crate) fn root_for(inode: &AnyView<'_>, kind: MapKind, key: Option<u32>, limit: u32) -> usize {
    let start = |p| if p == 0 { 0 } else { inode.pointer(p).0 };
    match key {
        Some(key) => inode.pointer_for(key),
        None => densest(inode, kind, inode.pointers(), limit, &start),
    }
}

/// The pointer for `key` in an inode, and the key where its range ends; `limit` ends the keys. The
/// inode has pointers.
pub(crate) fn root_range(inode: &AnyView<'_>, key: u32, limit: u32) -> ((u32, PageAddr), u32) {
    let p = inode.pointer_for(key);
    let end = if p + 1 < inode.pointers() {
        inode.pointer(p + 1).0
    } else {
        limit
    };
    (inode.pointer(p), forward(key, end, limit))
}

/// The same for an index page, of a range that ends at `end`. It has pointers.
pub(crate) fn index_range(index: &MapPage<&[u8], 8>, key: u32, end: u32) -> ((u32, PageAddr), u32) {
    let p = index.pointer_for(key);
    let next = if p + 1 < index.count() {
        index.pointer(p + 1).0.min(end)
    } else {
        end
    };
    (index.pointer(p), forward(key, next, end))
}

/// A range that holds `key` ends behind it; where the medium says otherwise, its last word is
/// `limit`.
fn forward(key: u32, end: u32, limit: u32) -> u32 {
    if end > key { end } else { limit }
}

/// What a pointer of an inode leads to.
fn root_target(inode: &AnyView<'_>, root: usize, limit: u32) -> MapTarget {
    let end = if root + 1 < inode.pointers() {
        inode.pointer(root + 1).0
    } else {
        limit
    };
    MapTarget {
        root,
        page: inode.pointer(root).1,
        first: if root == 0 { 0 } else { inode.pointer(root).0 },
        end,
    }
}

/// The map that covers `key`, or else the one that most records of the log belong to; `limit`
/// ends the keys. At the index level one read, into `scratch`.
pub(crate) fn target<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &AnyView<'_>,
    key: Option<u32>,
    limit: u32,
) -> Result<MapTarget, Fault> {
    if inode.levels() == 0 {
        return Ok(MapTarget {
            end: limit,
            ..MapTarget::FIRST
        });
    }
    let target = root_target(inode, root_for(inode, kind, key, limit), limit);
    let (page, first, end) = (target.page, target.first, target.end);
    if inode.levels() == 1 {
        return Ok(target);
    }
    store.get_meta(page, scratch, kind.index)?;
    let index: MapPage<&mut [u8], 8> = MapPage(scratch);
    if !index.belongs_to(inode.ino(), first) {
        return Err(store.nand.damaged(page, kind.index.damaged()));
    }
    let start = |p| index_start(&index, p, first);
    let p = match key {
        Some(key) => index.pointer_for(key),
        None => densest(inode, kind, index.count(), end, &start),
    };
    Ok(target.below(&index, p))
}

/// The same, and more maps of that index page that most records of the log belong to: these
/// cost only one write of it. Gives how many, one at least.
pub(crate) fn targets<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &AnyView<'_>,
    key: Option<u32>,
    limit: u32,
    targets: &mut [MapTarget; BATCH],
) -> Result<usize, Fault> {
    targets[0] = target(store, kind, scratch, inode, key, limit)?;
    if inode.levels() < 2 || key.is_some() {
        return Ok(1);
    }
    // The index page is in the scratch page.
    let index: MapPage<&mut [u8], 8> = MapPage(scratch);
    if index.count() + BATCH + PARTS > index.capacity() {
        // It may have to be split, and the pointers of one map only are in one half for certain.
        return Ok(1);
    }
    let all = root_target(inode, targets[0].root, limit);
    let records = |p| {
        let map = all.below(&index, p);
        let from = inode.record_search(map.first, kind.shift);
        inode
            .record_search(map.end, kind.shift)
            .saturating_sub(from)
    };
    let mut picked = [0; BATCH];
    let n = pick_most(index.count(), &records, &mut picked);
    for (target, &p) in targets.iter_mut().zip(&picked[..n]) {
        *target = all.below(&index, p);
    }
    Ok(n)
}

/// Where the range of a pointer of an index page begins, which begins at `first` itself.
fn index_start<B: AsRef<[u8]>>(index: &MapPage<B, 8>, p: usize, first: u32) -> u32 {
    if p == 0 { first } else { index.pointer(p).0 }
}

/// The range of a pointer of an index page, which covers `first` to before `end` itself.
pub(crate) fn range_below<B: AsRef<[u8]>>(
    index: &MapPage<B, 8>,
    p: usize,
    (first, end): (u32, u32),
) -> (u32, u32) {
    let next = if p + 1 < index.count() {
        index.pointer(p + 1).0
    } else {
        end
    };
    (index_start(index, p, first), next)
}

/// Splits the map in `page` at record `mid` (at the end: at `key`), writes the half that `key` is
/// not in and leaves the other in `page`. One program.
pub(crate) fn split<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    buf: &mut [u8],
    key: u32,
    mid: usize,
) -> Result<Put, Fault> {
    let mut page: MapPage<&mut [u8], REC> = MapPage(buf);
    let (n, first, end) = (page.count(), page.first_key(), page.end_key());
    let border = if mid == n {
        key
    } else {
        get_u32(page.record(mid), 0) >> kind.shift
    };
    let lower_goes = key >= border;
    if lower_goes {
        page.truncate(mid);
        page.set_range(first, border);
    } else {
        page.rotate(mid);
        page.truncate(n - mid);
        page.set_range(border, end);
    }
    let len = page.len();
    let at = store.append(kind.area, &mut page.0[..len], kind.map, PageAddr::NONE)?;
    page.grow_to(n);
    if lower_goes {
        page.drop_first(mid);
        page.set_range(border, end);
        Ok(Put {
            key: first,
            page: at,
        })
    } else {
        page.rotate(n - mid);
        page.truncate(mid);
        page.set_range(first, border);
        Ok(Put {
            key: border,
            page: at,
        })
    }
}

/// The same for an index page, at its middle, with what waits in it.
pub(crate) fn split_index<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    buf: &mut [u8],
    key: u32,
) -> Result<Put, Fault> {
    let mut page: MapPage<&mut [u8], 8> = MapPage(buf);
    let (n, first, end) = (page.count(), page.first_key(), page.end_key());
    let (mid, waiting) = (n / 2, page.waiting());
    let border = page.pointer(mid).0;
    let (below, used) = (page.extent_search(border), page.len());
    // The pointers and extents of each half next to each other.
    let (lower, upper) = ((mid, below), (n - mid, waiting - below));
    let bytes = |half: (usize, usize)| POINTER * half.0 + extent::SIZE * half.1;
    let from = RECORDS + POINTER * mid;
    page.0[from..RECORDS + POINTER * n + extent::SIZE * below].rotate_left(POINTER * upper.0);
    let halves = [(lower, first, border), (upper, border, end)];
    let [goes, stays] = if key >= border {
        halves
    } else {
        page.0[RECORDS..used].rotate_left(bytes(lower));
        [halves[1], halves[0]]
    };
    let set = |page: &mut MapPage<&mut [u8], 8>, (half, first, end): ((usize, usize), u32, u32)| {
        page.set_count(half.0);
        page.set_waiting(half.1);
        page.set_range(first, end);
    };
    set(&mut page, goes);
    let len = page.len();
    let at = store.append(kind.area, &mut page.0[..len], kind.index, PageAddr::NONE)?;
    page.0.copy_within(len..used, RECORDS);
    set(&mut page, stays);
    Ok(Put {
        key: goes.1,
        page: at,
    })
}

/// Applies changes of pointers to an inode, or to the index page that it points to. Returns the
/// index page that was replaced. No flash operation below the index level; there one read and one
/// program, one more when an index page is split or first made.
pub(crate) fn apply<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut AnyMut<'_>,
    owner: Owner,
    target: &MapTarget,
    changes: &Changes,
) -> Result<Option<PageAddr>, Fault> {
    if inode.levels() < 2 {
        for put in changes.iter() {
            put_in_inode(inode, put);
        }
        inode.set_levels(u8::from(inode.pointers() > 0));
        if inode.pointers() >= pointer_cap(inode.0.len()) {
            make_index(store, kind, scratch, inode, owner)?;
        }
        return Ok(None);
    }
    let (first, old) = inode.pointer(target.root);
    store.get_meta(old, scratch, kind.index)?;
    if !MapPage::<&mut [u8], 8>::on(scratch).belongs_to(inode.ino(), first) {
        return Err(store.nand.damaged(old, kind.index.damaged()));
    }
    for &(from, to) in changes.drained() {
        while MapPage::<&mut [u8], 8>::on(scratch)
            .extent_cut(from, to)
            .is_some()
        {}
    }
    for (k, put) in changes.iter().enumerate() {
        let page: MapPage<&mut [u8], 8> = MapPage(scratch);
        let is_full = if kind.has_waiting {
            page.count() == page.capacity()
        } else {
            // Before the pointers that one map becomes are there, as they go to one half.
            k == 0 && page.count() + changes.len() > page.capacity()
        };
        if is_full {
            if inode.room() < POINTER {
                return Err(Fault::TooBig);
            }
            let half = split_index(store, kind, page.0, put.key)?;
            let root = root_of(inode, old).unwrap_or(target.root);
            if half.key == first {
                let rest = MapPage::<&mut [u8], 8>(scratch).first_key();
                inode.pointer_set(root, rest, old);
                inode.pointer_insert(root, half.key, half.page);
            } else {
                inode.pointer_insert(root + 1, half.key, half.page);
            }
        }
        put_in_index(&mut MapPage(scratch), put);
    }
    let page: MapPage<&mut [u8], 8> = MapPage(scratch);
    let (len, key) = (page.len(), page.first_key());
    let at = store.append(kind.area, &mut scratch[..len], kind.index, old)?;
    let root = root_of(inode, old).unwrap_or(target.root);
    inode.pointer_set(root, key, at);
    Ok(Some(old))
}

/// A map page, or index page, that cleaning has copied.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    pub from: PageAddr,
    pub to: PageAddr,
}

/// Makes the pointers to maps below one pointer of the inode, `root`, or the one to an index page,
/// lead to their copies. Returns the index page that was replaced. At the index level one read and
/// one program. With an error nothing leads to the copies, and they are given back.
pub(crate) fn repoint<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut AnyMut<'_>,
    root: usize,
    copies: &[Copied],
) -> Result<Option<PageAddr>, Fault> {
    let replaced = try_repoint(store, kind, scratch, inode, root, copies);
    if replaced.is_err() {
        for copy in copies {
            store.invalidate(copy.to, MayProgram);
        }
    }
    replaced
}

fn try_repoint<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut AnyMut<'_>,
    root: usize,
    copies: &[Copied],
) -> Result<Option<PageAddr>, Fault> {
    let (first, old) = inode.pointer(root);
    if let Some(copy) = copies.iter().find(|c| c.from == old) {
        inode.pointer_set(root, first, copy.to);
        return Ok(None);
    }
    store.get_meta(old, scratch, kind.index)?;
    let mut index: MapPage<&mut [u8], 8> = MapPage(scratch);
    if !index.belongs_to(inode.ino(), first) {
        return Err(store.nand.damaged(old, kind.index.damaged()));
    }
    for p in 0..index.count() {
        let (key, page) = index.pointer(p);
        if let Some(copy) = copies.iter().find(|c| c.from == page) {
            index.set(p, &pointer_record(key, copy.to));
        }
    }
    let len = index.len();
    let at = store.append(kind.area, &mut scratch[..len], kind.index, old)?;
    inode.pointer_set(root, first, at);
    Ok(Some(old))
}

fn root_of(inode: &AnyMut<'_>, page: PageAddr) -> Option<usize> {
    (0..inode.pointers()).find(|&p| inode.pointer(p).1 == page)
}

/// Puts a pointer in its place, or in that of the one of the same key.
fn put_in_inode(inode: &mut AnyMut<'_>, put: Put) {
    let n = inode.pointers();
    let at = (0..n).find(|&p| inode.pointer(p).0 >= put.key).unwrap_or(n);
    if at < n && inode.pointer(at).0 == put.key {
        inode.pointer_set(at, put.key, put.page);
    } else {
        inode.pointer_insert(at, put.key, put.page);
    }
}

/// As [`put_in_inode`].
fn put_in_index(index: &mut MapPage<&mut [u8], 8>, put: Put) {
    let rec = pointer_record(put.key, put.page);
    let at = index.search(put.key, 0);
    if at < index.count() && index.pointer(at).0 == put.key {
        index.set(at, &rec);
    } else {
        index.insert(at, &rec);
    }
}

/// Moves all pointers of an inode to new index pages.
fn make_index<N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut AnyMut<'_>,
    owner: Owner,
) -> Result<(), Fault> {
    let all = inode.pointers();
    // The rest is for extents that wait.
    let most = if kind.has_waiting {
        scratch.len() / 128
    } else {
        all
    };
    let mut made = 0;
    // What is left behind the index pages made so far are the pointers not yet in one.
    while made < inode.pointers() {
        let n = most.min(inode.pointers() - made);
        let first = if made == 0 { 0 } else { inode.pointer(made).0 };
        let end = if made + n < inode.pointers() {
            inode.pointer(made + n).0
        } else {
            u32::MAX
        };
        let mut index: MapPage<&mut [u8], 8> = MapPage(scratch);
        index.init(owner, first, end);
        for p in 0..n {
            let (key, page) = inode.pointer(made + p);
            index.insert(p, &pointer_record(key, page));
        }
        let len = index.len();
        let at = store.append(kind.area, &mut scratch[..len], kind.index, PageAddr::NONE)?;
        for _ in 1..n {
            inode.pointer_remove(made + 1);
        }
        inode.pointer_set(made, first, at);
        made += 1;
    }
    inode.set_levels(2);
    Ok(())
}

//! What hash maps and extent maps have in common: an inode points to maps of consecutive ranges
//! of keys, directly or through index pages; a full map is split; pointers follow.

use crate::bytes::{get_u32, put_u32};
use crate::dirrec::HASH_SHIFT;
use crate::error::Error;
use crate::header::Kind;
use crate::inode::{Inode, POINTER};
use crate::mappage::{MapPage, Owner};
use crate::store::{Area, Store};
use flashkit_nand::{Nand, PageAddr};

/// Bytes of an inode page that stay free for the pointers that a migration may add.
pub(crate) const SLACK: usize = 112;
/// What of it one migration takes at most: three pointers, and notes of two pages.
pub(crate) const SLACK_LEAST: usize = 48;

/// Which of the two kinds of maps.
#[derive(Clone, Copy)]
pub(crate) struct MapKind {
    pub area: Area,
    pub map: Kind,
    pub index: Kind,
    /// From a record's first word to its key.
    pub shift: u32,
    pub what: &'static str,
    pub what_index: &'static str,
}

pub(crate) const HASH: MapKind = MapKind {
    area: Area::Hash,
    map: Kind::HashMap,
    index: Kind::HashIndex,
    shift: HASH_SHIFT,
    what: "hash map",
    what_index: "hash index",
};

pub(crate) const EXTENT: MapKind = MapKind {
    area: Area::Extent,
    map: Kind::ExtentMap,
    index: Kind::ExtentIndex,
    shift: 0,
    what: "extent map",
    what_index: "extent index",
};

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
}

/// A map written by a migration: it covers the keys from `key` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub key: u32,
    pub page: PageAddr,
}

/// Maps of one index page that one migration writes at most.
pub(crate) const BATCH: usize = 8;
/// Maps that one becomes at most, split as records move to it.
const PARTS: usize = 4;

/// What a migration does to the pointers: of a few maps, and their splits.
pub(crate) struct Changes {
    list: [Put; BATCH + PARTS],
    len: usize,
}

impl Changes {
    pub fn new() -> Self {
        Changes {
            list: [Put {
                key: 0,
                page: PageAddr::NONE,
            }; BATCH + PARTS],
            len: 0,
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
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn iter(&self) -> impl Iterator<Item = Put> + '_ {
        self.list[..self.len].iter().copied()
    }
}

/// Bytes of an inode page that the pointers to the maps of a migration take: to those split off so
/// far, and to the first of all. At the index level that is looked after when an index page is split.
pub(crate) fn pointers_need(levels: u8, target: &MapTarget, changes: &Changes) -> usize {
    let maps = changes.len + usize::from(target.page.is_none());
    if levels < 2 { POINTER * maps } else { 0 }
}

/// Pointers in an inode before they move to an index page.
pub(crate) fn pointer_cap(page_size: usize) -> usize {
    (page_size / 32).max(4)
}

fn pointer_record(key: u32, page: PageAddr) -> [u8; 8] {
    let mut rec = [0; 8];
    put_u32(&mut rec, 0, key);
    put_u32(&mut rec, 4, page.0);
    rec
}

/// Of `n` consecutive ranges that start at `key(0..n)` and end before `end`, the one that most
/// records of the log fall into.
pub(crate) fn densest<const REC: usize>(
    inode: &Inode<&[u8], REC>,
    kind: MapKind,
    n: usize,
    end: u32,
    key: impl Fn(usize) -> u32,
) -> usize {
    let mut best = (0, 0);
    for p in 0..n {
        let from = inode.record_search(key(p), kind.shift);
        let to = inode.record_search(if p + 1 < n { key(p + 1) } else { end }, kind.shift);
        if to.saturating_sub(from) > best.1 {
            best = (p, to - from);
        }
    }
    best.0
}

/// The pointer for `key` in an inode, and the key where its range ends; `limit` ends the keys. The
/// inode has pointers.
pub(crate) fn root_range<const REC: usize>(
    inode: &Inode<&[u8], REC>,
    key: u32,
    limit: u32,
) -> ((u32, PageAddr), u32) {
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

/// The map that covers `key`, or else the one that most records of the log belong to; `limit`
/// ends the keys. At the index level one read, into `scratch`.
pub(crate) fn target<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &Inode<&[u8], REC>,
    key: Option<u32>,
    limit: u32,
) -> Result<MapTarget, Error<N::Error>> {
    let mut one = [MapTarget::FIRST];
    targets(store, kind, scratch, inode, key.as_slice(), limit, &mut one)?;
    Ok(one[0])
}

/// The maps that cover the first of `keys`, and others of them under the same pointer of the inode. Without
/// keys those that the most records of the log belong to: under one pointer, and none with less than half
/// as many as the first. More than one only at the index level, which is read then, into `scratch`.
/// Gives how many, one at least.
pub(crate) fn targets<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &Inode<&[u8], REC>,
    keys: &[u32],
    limit: u32,
    out: &mut [MapTarget],
) -> Result<usize, Error<N::Error>> {
    let n = inode.pointers();
    if inode.levels() == 0 {
        out[0] = MapTarget {
            end: limit,
            ..MapTarget::FIRST
        };
        return Ok(1);
    }
    let root = match keys.first() {
        Some(&key) => inode.pointer_for(key),
        None => densest(inode, kind, n, limit, |p| {
            if p == 0 { 0 } else { inode.pointer(p).0 }
        }),
    };
    let first = if root == 0 { 0 } else { inode.pointer(root).0 };
    let end = if root + 1 < n {
        inode.pointer(root + 1).0
    } else {
        limit
    };
    let page = inode.pointer(root).1;
    let target = MapTarget {
        root,
        page,
        first,
        end,
    };
    if inode.levels() == 1 {
        out[0] = target;
        return Ok(1);
    }
    store.expect_meta(page, scratch, kind.index, kind.what_index)?;
    let index: MapPage<&mut [u8], 8> = MapPage(scratch);
    if !index.belongs_to(inode.ino(), first) {
        return Err(Error::Corrupt(page, kind.what_index));
    }
    let count = index.count();
    // An index page that may have to be split takes one map at a time.
    let most = if count + PARTS * BATCH > index.capacity() {
        1
    } else {
        out.len().min(BATCH)
    };
    let start = |p: usize| if p == 0 { first } else { index.pointer(p).0 };
    let mut picked = [0; BATCH];
    let len = if keys.is_empty() {
        pick_densest(inode, kind, count, end, start, &mut picked[..most])
    } else {
        let mut len = 0;
        for &key in keys.iter().filter(|&&key| first <= key && key < end) {
            let p = index.pointer_for(key);
            if len < most && !picked[..len].contains(&p) {
                picked[len] = p;
                len += 1;
            }
        }
        len
    };
    for (out, &p) in out.iter_mut().zip(&picked[..len]) {
        *out = MapTarget {
            page: index.pointer(p).1,
            first: start(p),
            end: if p + 1 < count { start(p + 1) } else { end },
            ..target
        };
    }
    Ok(len)
}

/// As [`densest`], the first few, and none with less than half as many records as the first.
fn pick_densest<const REC: usize>(
    inode: &Inode<&[u8], REC>,
    kind: MapKind,
    n: usize,
    end: u32,
    key: impl Fn(usize) -> u32,
    picked: &mut [usize],
) -> usize {
    let (mut counts, mut len) = ([0; BATCH], 0);
    for p in 0..n {
        let from = inode.record_search(key(p), kind.shift);
        let to = inode.record_search(if p + 1 < n { key(p + 1) } else { end }, kind.shift);
        let records = to.saturating_sub(from);
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

/// Splits the map in `page` at record `mid` (at the end: at `key`), writes the half that `key` is
/// not in and leaves the other in `page`. One program.
pub(crate) fn split<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    buf: &mut [u8],
    key: u32,
    mid: usize,
) -> Result<Put, Error<N::Error>> {
    let kind_of_page = if REC == 8 && kind.shift == 0 {
        kind.index
    } else {
        kind.map
    };
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
    let at = store.append(kind.area, &mut page.0[..len], kind_of_page, PageAddr::NONE)?;
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

/// Applies changes of pointers to an inode, or to the index page that it points to. Returns the
/// index page that was replaced. No flash operation below the index level; there one read and one
/// program, one more when an index page is split or first made.
pub(crate) fn apply<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut Inode<&mut [u8], REC>,
    owner: Owner,
    target: &MapTarget,
    changes: &Changes,
) -> Result<Option<PageAddr>, Error<N::Error>> {
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
    store.expect_meta(old, scratch, kind.index, kind.what_index)?;
    if !MapPage::<&mut [u8], 8>::on(scratch).belongs_to(inode.ino(), first) {
        return Err(Error::Corrupt(old, kind.what_index));
    }
    for put in changes.iter() {
        let page: MapPage<&mut [u8], 8> = MapPage(scratch);
        if page.count() == page.capacity() {
            if inode.room() < POINTER {
                return Err(Error::TooBig);
            }
            let mid = page.count() / 2;
            let index = MapKind { shift: 0, ..kind };
            let half = split::<8, N>(store, index, page.0, put.key, mid)?;
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

/// Makes the pointer to a map, or index page, that was copied from `old` lead to the copy. `root` is
/// the pointer of the inode that leads there. Returns the index page that was replaced.
#[allow(clippy::too_many_arguments)]
pub(crate) fn repoint<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut Inode<&mut [u8], REC>,
    owner: Owner,
    root: usize,
    old: PageAddr,
    copy: Put,
) -> Result<Option<PageAddr>, Error<N::Error>> {
    let (key, page) = inode.pointer(root);
    if page == old {
        inode.pointer_set(root, key, copy.page);
        return Ok(None);
    }
    let mut changes = Changes::new();
    changes.push(copy);
    let target = MapTarget {
        root,
        page: old,
        first: key,
        end: 0,
    };
    apply(store, kind, scratch, inode, owner, &target, &changes)
}

fn root_of<const REC: usize>(inode: &Inode<&mut [u8], REC>, page: PageAddr) -> Option<usize> {
    (0..inode.pointers()).find(|&p| inode.pointer(p).1 == page)
}

/// Puts a pointer in its place, or in that of the one of the same key.
fn put_in_inode<const REC: usize>(inode: &mut Inode<&mut [u8], REC>, put: Put) {
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

/// Moves all pointers of an inode to a new index page.
fn make_index<const REC: usize, N: Nand>(
    store: &mut Store<'_, N>,
    kind: MapKind,
    scratch: &mut [u8],
    inode: &mut Inode<&mut [u8], REC>,
    owner: Owner,
) -> Result<(), Error<N::Error>> {
    let mut index: MapPage<&mut [u8], 8> = MapPage(scratch);
    index.init(owner, 0, u32::MAX);
    for p in 0..inode.pointers() {
        let (key, page) = inode.pointer(p);
        index.insert(p, &pointer_record(key, page));
    }
    let len = index.len();
    let at = store.append(kind.area, &mut scratch[..len], kind.index, PageAddr::NONE)?;
    while inode.pointers() > 1 {
        inode.pointer_remove(1);
    }
    inode.pointer_set(0, 0, at);
    inode.set_levels(2);
    Ok(())
}

//! The inode page: DirInode and FileInode (paper, Figures 5 and 7).
//!
//! ```text
//!  32 ino u32        36 parent u32     40 mode u16   42 flags u8   43 name length u8
//!  44 uid u32        48 gid u32        52 nlink u32  56 size u64
//!  64 atime s i64    72 mtime s i64    80 ctime s i64
//!  88 atime ns u32   92 mtime ns u32   96 ctime ns u32
//! 100 moved-from directory u32        104 moved-from hash u32
//! 108 replaced u32                    112 extended attributes u32: their page
//! 116 records u16   118 pointers u16  120 levels u8  121 kind of replaced u8
//! 122 fragment length u16
//! 124 of a file: fragment page index u32, fragment offset u16, bytes of further names u16;
//!     of a directory: as-of u64
//! 132 name, then further names, pointers (8 bytes each), fragment bytes, records
//! ```
//!
//! *Further names* are the other hard links of a file ([`crate::format::names`]); none for a
//! directory. *Pointers* are (first key, page) pairs, sorted: the hash maps of a directory,
//! the extent maps of a file, or index pages of them (`levels` 0: none, 1: maps, 2: index
//! pages). *Records* are the intra-inode log: directory entries of 8 bytes
//! ([`crate::format::dirrec`]) or extents of 12 bytes ([`crate::format::extent`]), sorted. The
//! *fragment* is a piece of one data page of a file that has not been written to a page of its
//! own: it lies over that page's contents.
//!
//! `mode` holds the type as `stat` does, in the top four bits (4: directory, 8: file, 10: symbolic
//! link; 1: FIFO, 2: character device, 6: block device, 12: socket). `size` of a directory is its
//! number of entries, of a device its number. Times are as given by the caller.
//!
//! A page whose `moved-from directory` is not 0 also removes the name of that hash there. A page
//! whose `replaced` is not all ones also ends the life of that inode (a file's page, or a
//! directory's number, by `kind of replaced` as in [`crate::format::dirrec::Target`]): a rename is
//! this one page; with the flag KEPT the name that was moved from stays, and only its entry
//! changes, to the file's number: a first hard link is this one page. With the flag EXCHANGED,
//! `replaced` (a directory's or a file's number) lives on under the name that was moved from
//! ([`crate::api::exchange`]). `as-of` is 0 but during recovery: the sequence number up to which
//! the directory shows all changes, when it is not that of its page.

use crate::format::dirrec::{self, NO_HASH, Target};
use crate::format::extent::{self, Extent};
use crate::format::fields::{get_u8, get_u16, get_u32, get_u64, part, search};
use crate::format::hash::name_hash;
use crate::format::header::HEADER;
use crate::format::names::{self, Names};
use crate::format::node::{FIRST_FILE, INDEX_DIR};
use flashkit_bytes::{put_u16, put_u32, put_u64};
use flashkit_nand::PageAddr;

/// First byte of the name.
pub(crate) const NAME: usize = 132;
/// Longest name.
pub const NAME_MAX: usize = 255;
/// The file is found through the index directory, by its number.
pub(crate) const FLAG_INDIRECT: u8 = 1;
/// The file has no name any more and goes when it is closed.
pub(crate) const FLAG_ORPHAN: u8 = 2;
/// With `moved-from`: the entry there is only another from this page on, of the file's number.
pub(crate) const FLAG_KEPT: u8 = 4;
/// With `moved-from` and `replaced`: what is replaced goes on under the name that was moved from.
pub(crate) const FLAG_EXCHANGED: u8 = 8;
/// Of a directory: a hash map of it may hold several entries of one hash.
pub(crate) const FLAG_SHARED: u8 = 16;

pub(crate) const MODE_FIFO: u16 = 0x1000;
pub(crate) const MODE_CHAR: u16 = 0x2000;
pub(crate) const MODE_DIR: u16 = 0x4000;
pub(crate) const MODE_BLOCK: u16 = 0x6000;
pub(crate) const MODE_FILE: u16 = 0x8000;
pub(crate) const MODE_SYMLINK: u16 = 0xa000;
pub(crate) const MODE_SOCKET: u16 = 0xc000;
pub(crate) const MODE_TYPE: u16 = 0xf000;

const INO: usize = HEADER;
const PARENT: usize = 36;
const MODE: usize = 40;
const FLAGS: usize = 42;
const NAME_LEN: usize = 43;
const UID: usize = 44;
const GID: usize = 48;
const NLINK: usize = 52;
const SIZE: usize = 56;
const TIMES: usize = 64;
const NANOS: usize = 88;
const MOVED_DIR: usize = 100;
const MOVED_HASH: usize = 104;
const REPLACED: usize = 108;
const XATTR: usize = 112;
const RECORDS: usize = 116;
const POINTERS: usize = 118;
const LEVELS: usize = 120;
const REPLACED_KIND: usize = 121;
const FRAG_LEN: usize = 122;
const FRAG_PAGE: usize = 124;
const FRAG_OFF: usize = 128;
const NAMES_LEN: usize = 130;
const AS_OF: usize = 124;

/// Bytes of a pointer: first key, page.
pub(crate) const POINTER: usize = 8;

/// A point in time as the caller gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds, below 1,000,000,000; more are stored as 999,999,999.
    pub nanos: u32,
}

impl Time {
    /// Nanoseconds.
    pub(crate) const SECOND: u32 = 1_000_000_000;
}

/// Which timestamp.
#[derive(Clone, Copy)]
pub(crate) enum Stamp {
    Access = 0,
    Modify = 1,
    Change = 2,
}

/// The second inode of an exchange, by what its entry is, from what the page of the first says of
/// itself; none where it cannot be the record of one.
pub(crate) fn second_of_exchange(
    ino: u32,
    flags: u8,
    moved: (u32, u32),
    replaced: Option<(u8, u32)>,
) -> Option<(Target, u32)> {
    let (kind, number) = replaced.filter(|_| flags & FLAG_EXCHANGED != 0)?;
    let target = match number {
        FIRST_FILE.. => Target::Indirect,
        _ if number > INDEX_DIR => Target::Dir,
        _ => return None,
    };
    let is_hash = moved.0 != 0 && moved.1 < NO_HASH;
    (kind == target as u8 && is_hash && number != ino).then_some((target, number))
}

/// The fragment's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub page: u32,
    pub off: usize,
    pub len: usize,
}

/// View of an inode page in RAM. `REC` is the size of a record, or [`BY_MODE`].
pub(crate) struct Inode<B, const REC: usize>(pub B);

/// A file's inode.
pub(crate) type FileView<'a> = Inode<&'a [u8], 12>;
/// A file's inode, to change.
pub(crate) type FileMut<'a> = Inode<&'a mut [u8], 12>;
/// A directory's inode.
pub(crate) type DirView<'a> = Inode<&'a [u8], 8>;
/// A directory's inode, to change.
pub(crate) type DirMut<'a> = Inode<&'a mut [u8], 8>;

/// A record is as large as the inode's mode says: of a directory, or of a file.
const BY_MODE: usize = 0;
/// An inode of either kind.
pub(crate) type AnyView<'a> = Inode<&'a [u8], BY_MODE>;
/// An inode of either kind, to change.
pub(crate) type AnyMut<'a> = Inode<&'a mut [u8], BY_MODE>;

impl<B, const REC: usize> Inode<B, REC> {
    /// Looks at bytes as an inode page.
    pub fn on(bytes: B) -> Self {
        Inode(bytes)
    }
}

impl<B: AsRef<[u8]>, const REC: usize> Inode<B, REC> {
    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }
    /// Bytes of a record.
    pub fn rec(&self) -> usize {
        match REC {
            BY_MODE if self.mode() & MODE_TYPE == MODE_DIR => dirrec::SIZE,
            BY_MODE => extent::SIZE,
            _ => REC,
        }
    }
    pub fn ino(&self) -> u32 {
        get_u32(self.b(), INO)
    }
    pub fn parent(&self) -> u32 {
        get_u32(self.b(), PARENT)
    }
    /// Where its own name is: the directory, and the name's hash.
    pub fn own_place(&self, volume: u32) -> (u32, u32) {
        (self.parent(), name_hash(volume, self.name()))
    }
    pub fn mode(&self) -> u16 {
        get_u16(self.b(), MODE)
    }
    pub fn flags(&self) -> u8 {
        get_u8(self.b(), FLAGS)
    }
    pub fn uid(&self) -> u32 {
        get_u32(self.b(), UID)
    }
    pub fn gid(&self) -> u32 {
        get_u32(self.b(), GID)
    }
    pub fn nlink(&self) -> u32 {
        get_u32(self.b(), NLINK)
    }
    pub fn size(&self) -> u64 {
        get_u64(self.b(), SIZE)
    }
    pub fn time(&self, stamp: Stamp) -> Time {
        Time {
            secs: get_u64(self.b(), TIMES + 8 * stamp as usize).cast_signed(),
            nanos: get_u32(self.b(), NANOS + 4 * stamp as usize),
        }
    }
    pub fn moved(&self) -> (u32, u32) {
        (get_u32(self.b(), MOVED_DIR), get_u32(self.b(), MOVED_HASH))
    }
    /// What this inode's page replaced: a kind as in
    /// [`crate::format::dirrec::Target`], and its pointer.
    pub fn replaced(&self) -> Option<(u8, u32)> {
        let ptr = get_u32(self.b(), REPLACED);
        (ptr != u32::MAX).then(|| (get_u8(self.b(), REPLACED_KIND), ptr))
    }
    /// The page of the extended attributes ([`crate::api::xattr`]); none: there are none.
    pub fn xattr(&self) -> PageAddr {
        PageAddr(get_u32(self.b(), XATTR))
    }
    /// Of a directory in recovery: see the module's text.
    pub fn as_of(&self) -> u64 {
        get_u64(self.b(), AS_OF)
    }
    pub fn name(&self) -> &[u8] {
        let b = self.b();
        part(b, NAME, usize::from(get_u8(b, NAME_LEN)))
    }
    /// Bytes of the further names of a file.
    pub fn names_len(&self) -> usize {
        // In a directory's inode, a part of `as-of` is there.
        if self.rec() == extent::SIZE {
            usize::from(get_u16(self.b(), NAMES_LEN))
        } else {
            0
        }
    }
    fn names_at(&self) -> usize {
        NAME + usize::from(get_u8(self.b(), NAME_LEN))
    }
    /// The further names of a file; none when they do not fit the page.
    pub fn names(&self) -> Names<'_> {
        let (at, len) = (self.names_at(), self.names_len());
        Names::on(self.b().get(at..at + len).unwrap_or(&[]))
    }
    pub fn levels(&self) -> u8 {
        get_u8(self.b(), LEVELS)
    }
    pub fn records(&self) -> usize {
        usize::from(get_u16(self.b(), RECORDS))
    }
    pub fn pointers(&self) -> usize {
        usize::from(get_u16(self.b(), POINTERS))
    }
    /// Whether there is nothing in it, nor a record of what was.
    pub fn is_empty(&self) -> bool {
        self.size() == 0 && self.records() == 0 && self.pointers() == 0
    }
    pub fn fragment(&self) -> Option<Fragment> {
        let len = usize::from(get_u16(self.b(), FRAG_LEN));
        (len > 0).then(|| Fragment {
            page: get_u32(self.b(), FRAG_PAGE),
            off: usize::from(get_u16(self.b(), FRAG_OFF)),
            len,
        })
    }
    /// How many bytes the fragment takes if it belongs to a page from `index` on.
    pub fn fragment_from(&self, index: u32) -> usize {
        self.fragment()
            .map_or(0, |f| if f.page >= index { f.len } else { 0 })
    }
    fn frag_len(&self) -> usize {
        usize::from(get_u16(self.b(), FRAG_LEN))
    }
    fn pointers_at(&self) -> usize {
        self.names_at() + self.names_len()
    }
    pub(crate) fn fragment_at(&self) -> usize {
        self.pointers_at() + POINTER * self.pointers()
    }
    fn records_at(&self) -> usize {
        self.fragment_at() + self.frag_len()
    }
    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.records_at() + self.rec() * self.records()
    }
    /// Bytes not in use.
    pub fn room(&self) -> usize {
        self.b().len() - self.len()
    }
    /// The bytes of the fragment; empty without one.
    pub fn fragment_bytes(&self) -> &[u8] {
        part(self.b(), self.fragment_at(), self.frag_len())
    }
    pub fn pointer(&self, i: usize) -> (u32, PageAddr) {
        let at = self.pointers_at() + POINTER * i;
        (get_u32(self.b(), at), PageAddr(get_u32(self.b(), at + 4)))
    }
    /// The pointer whose range holds `key`: the last that starts at or before it, else the first.
    pub fn pointer_for(&self, key: u32) -> usize {
        let pointers = self.b().get(self.pointers_at()..).unwrap_or_default();
        let behind = key.saturating_add(1);
        search(pointers, POINTER, self.pointers(), behind, 0).saturating_sub(1)
    }
    pub fn record(&self, i: usize) -> &[u8] {
        part(self.b(), self.records_at() + self.rec() * i, self.rec())
    }
    /// All records.
    pub fn record_bytes(&self) -> &[u8] {
        part(self.b(), self.records_at(), self.rec() * self.records())
    }
    /// First record whose leading word, shifted right by `shift`, is at least `key`.
    pub fn record_search(&self, key: u32, shift: u32) -> usize {
        let records = self.b().get(self.records_at()..).unwrap_or_default();
        search(records, self.rec(), self.records(), key, shift)
    }
    /// Pages that hold data, of a file without extent maps.
    pub fn pages_stored(&self) -> u32 {
        // The fragment may lie over a page that is mapped.
        let alone = self.fragment().is_some_and(|f| {
            let after = self.record_search(f.page.saturating_add(1), 0);
            after == 0 || Extent::decode(self.record(after - 1)).end() <= f.page
        });
        self.pages_in_log().saturating_add(u32::from(alone))
    }
    /// Pages that the log maps.
    pub fn pages_in_log(&self) -> u32 {
        let records = (0..self.records()).map(|r| Extent::decode(self.record(r)));
        let mappings = records.filter(Extent::is_mapping);
        mappings.map(|e| e.count).fold(0, u32::saturating_add)
    }
    /// Whether the counts are consistent with a page of this size: what an intact CRC cannot
    /// promise of an image made to deceive.
    pub fn is_sane(&self) -> bool {
        let b = self.b();
        self.len() <= b.len()
            && self.names().are_sane()
            && self.levels() <= 2
            && (self.levels() == 0) == (self.pointers() == 0)
    }
}

impl<'a, const REC: usize> Inode<&'a [u8], REC> {
    /// For code that directories and files share.
    pub fn any(&self) -> AnyView<'a> {
        debug_assert_eq!(Inode::<_, BY_MODE>(self.0).rec(), REC);
        Inode(self.0)
    }
    /// The name, for as long as the page is borrowed.
    pub fn into_name(self) -> &'a [u8] {
        self.0.get(NAME..self.names_at()).unwrap_or_default()
    }
    /// The further names, for as long as the page is borrowed.
    pub fn into_names(self) -> Names<'a> {
        let (at, len) = (self.names_at(), self.names_len());
        Names::on(self.0.get(at..at + len).unwrap_or(&[]))
    }
}

impl<'a, const REC: usize> Inode<&'a mut [u8], REC> {
    /// For code that directories and files share.
    pub fn any(self) -> AnyMut<'a> {
        debug_assert_eq!(Inode::<_, BY_MODE>(&*self.0).rec(), REC);
        Inode(self.0)
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const REC: usize> Inode<B, REC> {
    fn m(&mut self) -> &mut [u8] {
        self.0.as_mut()
    }
    /// Makes an empty inode.
    pub fn init(&mut self, ino: u32, parent: u32, mode: u16, name: &[u8]) {
        let b = self.m();
        b[..NAME].fill(0);
        put_u32(b, INO, ino);
        put_u32(b, PARENT, parent);
        put_u16(b, MODE, mode);
        put_u32(b, NLINK, if mode & MODE_TYPE == MODE_DIR { 2 } else { 1 });
        put_u32(b, REPLACED, u32::MAX);
        put_u32(b, XATTR, u32::MAX);
        b[NAME_LEN] = name.len() as u8;
        b[NAME..NAME + name.len()].copy_from_slice(name);
    }
    pub fn set_parent(&mut self, v: u32) {
        put_u32(self.m(), PARENT, v);
    }
    pub fn set_mode(&mut self, v: u16) {
        put_u16(self.m(), MODE, v);
    }
    pub fn set_flags(&mut self, v: u8) {
        self.m()[FLAGS] = v;
    }
    pub fn set_uid(&mut self, v: u32) {
        put_u32(self.m(), UID, v);
    }
    pub fn set_gid(&mut self, v: u32) {
        put_u32(self.m(), GID, v);
    }
    pub fn set_nlink(&mut self, v: u32) {
        put_u32(self.m(), NLINK, v);
    }
    pub fn set_size(&mut self, v: u64) {
        put_u64(self.m(), SIZE, v);
    }
    /// What has been written reaches to there.
    pub fn end_at_least(&mut self, end: u64) {
        let size = self.size().max(end);
        self.set_size(size);
    }
    pub fn set_time(&mut self, stamp: Stamp, t: Time) {
        put_u64(self.m(), TIMES + 8 * stamp as usize, t.secs.cast_unsigned());
        // A caller's mistake, that nobody who reads it has to know of.
        let nanos = t.nanos.min(Time::SECOND - 1);
        put_u32(self.m(), NANOS + 4 * stamp as usize, nanos);
    }
    /// Its contents change at that time.
    pub fn set_modified(&mut self, t: Time) {
        self.set_time(Stamp::Modify, t);
        self.set_time(Stamp::Change, t);
    }
    pub fn set_moved(&mut self, dir: u32, hash: u32) {
        put_u32(self.m(), MOVED_DIR, dir);
        put_u32(self.m(), MOVED_HASH, hash);
    }
    pub fn set_replaced(&mut self, what: Option<(u8, u32)>) {
        let (kind, ptr) = what.unwrap_or((0, u32::MAX));
        put_u32(self.m(), REPLACED, ptr);
        self.m()[REPLACED_KIND] = kind;
    }
    pub fn set_xattr(&mut self, v: PageAddr) {
        put_u32(self.m(), XATTR, v.0);
    }
    pub fn set_as_of(&mut self, v: u64) {
        put_u64(self.m(), AS_OF, v);
    }
    pub fn set_levels(&mut self, v: u8) {
        self.m()[LEVELS] = v;
    }
    /// Changes the name; the caller has made sure that there is room.
    pub fn set_name(&mut self, name: &[u8]) {
        let (from, end) = (self.names_at(), self.len());
        let to = NAME + name.len();
        let b = self.m();
        b.copy_within(from..end, to);
        b[NAME_LEN] = name.len() as u8;
        b[NAME..to].copy_from_slice(name);
    }
    /// Makes the name the first of the further names, and the file one without a name of its own;
    /// needs [`names::HEAD`] bytes of room.
    pub fn name_demote(&mut self) {
        let (len, parent) = (self.name().len(), self.parent());
        let names = self.names_len() + names::HEAD + len;
        self.shift(NAME, names::HEAD, true);
        let b = self.m();
        names::put_head(&mut b[NAME..], parent, len);
        b[NAME_LEN] = 0;
        put_u16(b, NAMES_LEN, names as u16);
        self.set_parent(0);
    }
    /// Inserts bytes before the further names; there is room.
    pub fn names_insert(&mut self, bytes: &[u8]) {
        let (at, names) = (self.names_at(), self.names_len() + bytes.len());
        self.shift(at, bytes.len(), true);
        let b = self.m();
        b[at..at + bytes.len()].copy_from_slice(bytes);
        put_u16(b, NAMES_LEN, names as u16);
    }
    /// Replaces bytes of the further names, from byte `from` of them.
    pub fn names_set(&mut self, from: usize, bytes: &[u8]) {
        let at = self.names_at() + from;
        self.m()[at..at + bytes.len()].copy_from_slice(bytes);
    }
    /// Removes `n` bytes of the further names, from byte `from` of them.
    pub fn names_remove(&mut self, from: usize, n: usize) {
        let (at, names) = (self.names_at() + from, self.names_len() - n);
        self.shift(at, n, false);
        put_u16(self.m(), NAMES_LEN, names as u16);
    }
    /// Opens (`grow`) or closes a gap of `n` bytes at `at`.
    fn shift(&mut self, at: usize, n: usize, grow: bool) {
        let end = self.len();
        if grow {
            self.m().copy_within(at..end, at + n);
        } else {
            self.m().copy_within(at + n..end, at);
        }
    }
    pub fn pointer_set(&mut self, i: usize, key: u32, page: PageAddr) {
        let at = self.pointers_at() + POINTER * i;
        put_u32(self.m(), at, key);
        put_u32(self.m(), at + 4, page.0);
    }
    /// Inserts a pointer; needs [`POINTER`] bytes of room.
    pub fn pointer_insert(&mut self, i: usize, key: u32, page: PageAddr) {
        let at = self.pointers_at() + POINTER * i;
        self.shift(at, POINTER, true);
        let n = self.pointers() as u16 + 1;
        put_u16(self.m(), POINTERS, n);
        self.pointer_set(i, key, page);
    }
    pub fn pointer_remove(&mut self, i: usize) {
        let at = self.pointers_at() + POINTER * i;
        self.shift(at, POINTER, false);
        let n = self.pointers() as u16 - 1;
        put_u16(self.m(), POINTERS, n);
    }
    /// Inserts a record; needs `REC` bytes of room.
    pub fn record_insert(&mut self, i: usize, rec: &[u8; REC]) {
        let at = self.records_at() + REC * i;
        self.shift(at, REC, true);
        let n = self.records() as u16 + 1;
        let b = self.m();
        put_u16(b, RECORDS, n);
        b[at..at + REC].copy_from_slice(rec);
    }
    pub fn record_set(&mut self, i: usize, rec: &[u8; REC]) {
        let at = self.records_at() + REC * i;
        self.m()[at..at + REC].copy_from_slice(rec);
    }
    pub fn record_remove(&mut self, i: usize) {
        let at = self.records_at() + REC * i;
        self.shift(at, REC, false);
        let n = self.records() as u16 - 1;
        put_u16(self.m(), RECORDS, n);
    }
    /// Keeps only the first `n` records.
    pub fn records_truncate(&mut self, n: usize) {
        put_u16(self.m(), RECORDS, n as u16);
    }
    /// Makes the fragment `len` bytes long, keeping its first bytes; new ones are zero. Room for
    /// growth is the caller's business.
    pub fn fragment_resize(&mut self, page: u32, off: usize, len: usize) {
        let old = self.frag_len();
        let at = self.fragment_at();
        if len > old {
            self.shift(at + old, len - old, true);
        } else {
            self.shift(at + len, old - len, false);
        }
        let b = self.m();
        put_u16(b, FRAG_LEN, len as u16);
        put_u32(b, FRAG_PAGE, page);
        put_u16(b, FRAG_OFF, off as u16);
        if len > old {
            b[at + old..at + len].fill(0);
        }
    }
    pub fn fragment_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.fragment_at(), self.records_at());
        &mut self.m()[from..to]
    }
}

#[cfg(test)]
mod tests;

//! Deferred changes: what directories show that is in no page of theirs yet.
//!
//! ```text
//! a group, of one directory, and one after another:
//!   0  directory's number (20 bits) | records (8 bits) << 20 | flags (4 bits) << 28
//!      flags: 1 stamped, 2 removals
//!   4  if stamped: modified s u32, ns u32
//!   then records of 8 bytes (`dirrec.rs`), sorted by their hashes
//! ```
//!
//! The records of a hash are all that the directory's log has of that hash; a single one of a
//! directory with the number 2^32 - 1 says that it has none. Notes of freed objects are those that
//! the log has. How many entries and subdirectories there are follows. *Stamped*: the directory was
//! modified then, and changed. *Removals*: names were removed that no page shows as removed; that
//! and the notes mean nothing in a group that is read from flash.
//!
//! In RAM they are the tail of the dirty list's bytes (`space/dirty.rs`), on flash the end of the
//! snapshot (`snapshot.rs`). Invariants:
//! * Put into the directory's page, a group gives what the directory shows. It does so however
//!   often.
//! * There is one group of a directory at most, and none that its newest page shows already.

use crate::format::dirrec::{self, DirRec, HASH_SHIFT, NO_HASH, RecState, Target};
use crate::format::fields::{get_u32, part};
use crate::format::inode::{DirMut, DirView, Stamp, Time};
use crate::format::node::FIRST_FILE;
use core::ops::Range;
use flashkit_bytes::put_u32;

const STAMPED: u32 = 1 << 28;
const REMOVALS: u32 = 1 << 29;
const DIR: u32 = FIRST_FILE - 1;
const COUNT_SHIFT: u32 = 20;
const COUNT: u32 = 0xff;

/// Bytes before a group's records at most.
const HEAD_MOST: usize = 12;
/// Records of a group at most: more are worth a page.
pub(crate) const RECORDS_MOST: usize = 48;
/// Bytes of a group at most.
pub(crate) const GROUP_MOST: usize = HEAD_MOST + RECORDS_MOST * dirrec::SIZE;

/// Bytes of a group at least.
pub(crate) const GROUP_LEAST: usize = 4 + dirrec::SIZE;

/// Bytes of the hashes that are kept in mind of a directory in RAM, with one that says how many:
/// ten of them with the least RAM, and as many as are of use.
pub(crate) const HASHES_LEAST: usize = 4 * 10 + 1;
pub(crate) const HASHES_USEFUL: usize = 4 * 24 + 1;

/// That a log has no record of a hash.
fn none(hash: u32) -> DirRec {
    DirRec::new(hash, RecState::New, Target::Dir, u32::MAX)
}

/// Whether a record of a group says that.
pub(crate) fn is_none(rec: &DirRec) -> bool {
    *rec == none(rec.hash)
}

/// The changes of one directory.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a>(&'a [u8]);

impl<'a> Group<'a> {
    /// The group that bytes begin with; none if they do not reach to its end.
    pub fn first(bytes: &'a [u8]) -> Option<Self> {
        let word = bytes.first_chunk().map(|&b| u32::from_le_bytes(b))?;
        let head = if word & STAMPED != 0 { HEAD_MOST } else { 4 };
        let count = (word >> COUNT_SHIFT & COUNT) as usize;
        bytes.get(..head + count * dirrec::SIZE).map(Group)
    }

    fn word(&self) -> u32 {
        get_u32(self.0, 0)
    }

    pub fn dir(&self) -> u32 {
        self.word() & DIR
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn has_removals(&self) -> bool {
        self.word() & REMOVALS != 0
    }

    /// When the directory was modified, if that is another time than its page's.
    pub fn stamp(&self) -> Option<Time> {
        (self.word() & STAMPED != 0).then(|| Time {
            secs: i64::from(get_u32(self.0, 4)),
            nanos: get_u32(self.0, 8),
        })
    }

    pub fn records(&self) -> impl Iterator<Item = DirRec> + use<'a> {
        let head = self.stamp().map_or(4, |_| HEAD_MOST);
        self.0
            .get(head..)
            .unwrap_or_default()
            .chunks_exact(dirrec::SIZE)
            .map(DirRec::decode)
    }

    /// Whether it can be believed: its records are in order, and each is one that a log may have by
    /// `is_entry`.
    pub fn is_sane(&self, is_entry: impl Fn(&DirRec) -> bool) -> bool {
        let follow = self.records().zip(self.records().skip(1));
        self.dir() > 0
            && self.stamp().is_none_or(|time| time.nanos < Time::SECOND)
            && self
                .records()
                .all(|rec| is_entry(&rec) || rec == none(rec.hash) && rec.hash < NO_HASH)
            && { follow }.all(|(a, b)| a.hash <= b.hash)
    }

    /// Makes the directory's page show these changes; `false` when they do not fit. What the page
    /// notes as freed goes: where there was room for the changes, it had gone.
    pub fn apply(&self, dir: &mut DirMut<'_>) -> bool {
        dir.drop_notes();
        let mut last = None;
        for rec in self.records() {
            if last != Some(rec.hash) && !self.apply_hash(dir, rec.hash) {
                return false;
            }
            last = Some(rec.hash);
        }
        if let Some(time) = self.stamp() {
            dir.set_modified(time);
        }
        true
    }

    fn apply_hash(&self, dir: &mut DirMut<'_>, hash: u32) -> bool {
        let before = tally(&DirView::on(&*dir.0), hash);
        let at = dir.record_search(hash, HASH_SHIFT);
        while at < dir.records() && DirRec::decode(dir.record(at)).hash == hash {
            dir.record_remove(at);
        }
        let is_there = |rec: &DirRec| rec.hash == hash && *rec != none(hash);
        for rec in self.records().filter(is_there) {
            if dir.room() < dirrec::SIZE {
                return false;
            }
            let at = dir.record_search(hash + 1, HASH_SHIFT);
            dir.record_insert(at, &rec.encode());
        }
        let after = tally(&DirView::on(&*dir.0), hash);
        dir.set_size(
            dir.size()
                .saturating_add_signed((after.0 - before.0).into()),
        );
        dir.set_nlink(dir.nlink().saturating_add_signed(after.1 - before.1));
        true
    }
}

impl DirMut<'_> {
    /// Forgets the notes of freed objects.
    pub fn drop_notes(&mut self) {
        self.records_truncate(self.record_search(NO_HASH, HASH_SHIFT));
    }
}

/// What the records of a hash add to the entries of hash maps: names, and names of directories.
fn tally(dir: &DirView<'_>, hash: u32) -> (i32, i32) {
    let from = dir.record_search(hash, HASH_SHIFT);
    (from..dir.records())
        .map(|r| DirRec::decode(dir.record(r)))
        .take_while(|rec| rec.hash == hash)
        .fold((0, 0), |(names, dirs), rec| {
            let n = match rec.state {
                RecState::New => 1,
                RecState::Delete | RecState::Gone => -1,
                RecState::Update | RecState::Freed => 0,
            };
            let of_dir = i32::from(rec.target == Target::Dir);
            (names + n, dirs + n * of_dir)
        })
}

/// Puts a group together from its bytes.
pub(crate) struct Assembly {
    bytes: [u8; GROUP_MOST],
    len: usize,
}

impl Assembly {
    pub const EMPTY: Assembly = Assembly {
        bytes: [0; GROUP_MOST],
        len: 0,
    };

    /// Whether no group has begun that has not ended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a byte; the group, if that was the last of one. One too long never ends.
    pub fn push(&mut self, byte: u8) -> Option<&mut [u8]> {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        let len = Group::first(part(&self.bytes, 0, self.len))?.len();
        if len != self.len {
            return None;
        }
        self.len = 0;
        self.bytes.get_mut(..len)
    }
}

/// The groups in `bytes`, each with its place; they end where one is not whole.
pub(crate) fn groups(bytes: &[u8]) -> impl Iterator<Item = (Range<usize>, Group<'_>)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let group = Group::first(&bytes[at..])?;
        let range = at..at + group.len();
        at = range.end;
        Some((range, group))
    })
}

/// Puts a group together of what a directory shows of `hashes`, which are in order, and of its
/// notes of freed objects. Its length; none when it is too long, or the time is none that it can
/// have.
pub(crate) fn encode(
    out: &mut [u8; GROUP_MOST],
    dir: &DirView<'_>,
    hashes: impl Iterator<Item = u32>,
    stamped: bool,
    removals: bool,
) -> Option<usize> {
    let (mut at, mut count) = (4, 0);
    let mut word = dir.ino() & DIR | if removals { REMOVALS } else { 0 };
    if stamped {
        let time = dir.time(Stamp::Modify);
        word |= STAMPED;
        put_u32(out, 4, u32::try_from(time.secs).ok()?);
        put_u32(
            out,
            8,
            Some(time.nanos).filter(|nanos| *nanos < Time::SECOND)?,
        );
        at = HEAD_MOST;
    }
    let mut push = |rec: DirRec| {
        let place = out.get_mut(at..at + dirrec::SIZE)?;
        place.copy_from_slice(&rec.encode());
        (at, count) = (at + dirrec::SIZE, count + 1);
        Some(())
    };
    let mut hashes = hashes;
    loop {
        let hash = hashes.next().unwrap_or(NO_HASH);
        let from = dir.record_search(hash, HASH_SHIFT);
        let mut r = from;
        while r < dir.records() {
            let rec = DirRec::decode(dir.record(r));
            if rec.hash != hash {
                break;
            }
            push(rec)?;
            r += 1;
        }
        if hash == NO_HASH {
            break;
        }
        if r == from {
            push(none(hash))?;
        }
    }
    put_u32(out, 0, word | count << COUNT_SHIFT);
    Some(at)
}

/// Takes the notes of freed objects out of a group, and that names were removed: a checkpoint has
/// said so. Its new length.
pub(crate) fn forget_removals(group: &mut [u8]) -> usize {
    let Some(whole) = Group::first(group) else {
        return group.len();
    };
    let notes = whole.records().filter(|rec| rec.hash == NO_HASH).count();
    let (len, word) = (whole.len() - notes * dirrec::SIZE, whole.word());
    let word = (word & !REMOVALS) - ((notes as u32) << COUNT_SHIFT);
    put_u32(group, 0, word);
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::inode::MODE_DIR;
    use std::vec::Vec;

    const NOW: Time = Time { secs: 77, nanos: 5 };

    fn rec(hash: u32, state: RecState, ptr: u32) -> DirRec {
        DirRec::new(hash, state, Target::File, ptr)
    }

    /// A directory's page of these records, so many names among them.
    fn page(size: u64, records: &[DirRec]) -> [u8; 512] {
        page_of(size, records)
    }

    fn page_of<const BYTES: usize>(size: u64, records: &[DirRec]) -> [u8; BYTES] {
        let mut page = [0; BYTES];
        let mut dir = DirMut::on(&mut page[..]);
        dir.init(9, 1, MODE_DIR | 0o755, b"dir");
        for rec in records {
            let at = dir.record_search(rec.hash + 1, HASH_SHIFT);
            dir.record_insert(at, &rec.encode());
        }
        dir.set_size(size);
        page
    }

    fn group(page: &[u8], hashes: &[u32], stamped: bool) -> Vec<u8> {
        let mut out = [0; GROUP_MOST];
        let hashes = hashes.iter().copied();
        let len = encode(&mut out, &DirView::on(page), hashes, stamped, true).unwrap();
        out[..len].to_vec()
    }

    /// Every way in which a log changes, put into the page that shows nothing of it.
    #[test]
    fn a_page_with_its_group_shows_what_the_slot_showed() {
        use RecState::{Delete, Freed, Gone, New, Update};
        let before = page(7, &[rec(1, New, 10), rec(2, New, 20), rec(3, Update, 30)]);
        let dir = DirRec::new(6, New, Target::Dir, 44);
        let after = [
            rec(2, New, 21),
            rec(3, Delete, 30),
            rec(4, Delete, 40),
            rec(4, New, 41),
            rec(5, Gone, 50),
            dir,
            rec(NO_HASH, Freed, 10),
        ];
        // One name less of 1, of 3 and of 5, one more of 6.
        let mut shown = page(5, &after);
        let mut view = DirMut::on(&mut shown[..]);
        view.set_modified(NOW);
        view.set_nlink(view.nlink() + 1);
        let bytes = group(&shown, &[1, 2, 3, 4, 5, 6], true);
        let group = Group::first(&bytes).unwrap();
        assert_eq!((group.dir(), group.has_removals()), (9, true));
        assert_eq!(group.len(), bytes.len());
        assert!(group.is_sane(|rec| rec.ptr < 1000));
        let mut page = before;
        for _ in 0..2 {
            assert!(group.apply(&mut DirMut::on(&mut page[..])));
            assert!(page == shown);
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let many: Vec<_> = (0..42).map(|i| rec(2 * i, RecState::New, i)).collect();
        let mut full = page(42, &many);
        let shown = page(
            7,
            &[1, 3, 5, 7, 9, 11, 13].map(|h| rec(h, RecState::New, 0)),
        );
        let bytes = group(&shown, &[1, 3, 5, 7, 9, 11, 13], false);
        let mut view = DirMut::on(&mut full[..]);
        assert!(view.room() < 7 * dirrec::SIZE);
        assert!(!Group::first(&bytes).unwrap().apply(&mut view));
    }

    /// A page full of notes: they had gone where the changes were made. A recovery sees these too,
    /// and does not count what they hide.
    #[test]
    fn changes_fit_where_the_page_notes_what_was_freed() {
        let many = (0..20).map(|i| rec(2 * i, RecState::New, i));
        let notes = (0..22).map(|i| rec(NO_HASH, RecState::Freed, i));
        let mut full = page(20, &many.chain(notes).collect::<Vec<_>>());
        let shown = page(
            7,
            &[1, 3, 5, 7, 9, 11, 13].map(|h| rec(h, RecState::Update, 70)),
        );
        let bytes = group(&shown, &[1, 3, 5, 7, 9, 11, 13], false);
        let mut view = DirMut::on(&mut full[..]);
        assert!(view.room() < 7 * dirrec::SIZE);
        assert!(Group::first(&bytes).unwrap().apply(&mut view));
        assert_eq!((view.size(), view.records()), (20, 27));
    }

    /// More records than a group takes, and a time before 1970, are written in a page.
    #[test]
    fn what_is_too_much_is_no_group() {
        let many: Vec<_> = (0..52).map(|i| rec(i, RecState::New, i)).collect();
        let mut shown: [u8; 1024] = page_of(52, &many);
        let of = |page: &[u8], n: u32, stamped| {
            encode(
                &mut [0; GROUP_MOST],
                &DirView::on(page),
                0..n,
                stamped,
                false,
            )
        };
        assert_eq!(of(&shown, 48, false), Some(4 + 48 * 8));
        assert_eq!(of(&shown, 48, true), Some(GROUP_MOST));
        assert_eq!(of(&shown, 50, false), None);
        DirMut::on(&mut shown[..]).set_modified(Time { secs: -1, nanos: 0 });
        assert_eq!(
            (of(&shown, 1, true), of(&shown, 1, false)),
            (None, Some(12))
        );
    }

    #[test]
    fn a_checkpoint_ends_removals() {
        let shown = page(
            0,
            &[
                rec(5, RecState::Delete, 50),
                rec(NO_HASH, RecState::Freed, 50),
            ],
        );
        let mut bytes = group(&shown, &[5], false);
        let len = forget_removals(&mut bytes);
        bytes.truncate(len);
        let left = Group::first(&bytes).unwrap();
        assert!(!left.has_removals());
        assert!(left.records().eq([rec(5, RecState::Delete, 50)]));
    }

    /// Groups one after another, whole or by their bytes; one that does not end is none.
    #[test]
    fn groups_come_one_after_another() {
        let first = group(&page(1, &[rec(5, RecState::New, 50)]), &[4, 5], true);
        let second = group(&page(0, &[]), &[8], false);
        let list = [first.clone(), second.clone()].concat();
        let places: Vec<_> = groups(&list).map(|(range, _)| range).collect();
        assert_eq!(places, [0..first.len(), first.len()..list.len()]);
        assert_eq!(groups(&list[..list.len() - 1]).count(), 1);
        let (mut assembly, mut found) = (Assembly::EMPTY, Vec::new());
        for &byte in &list {
            found.extend(assembly.push(byte).map(|group| group.to_vec()));
        }
        assert!(assembly.is_empty());
        assert_eq!(found, [first, second]);
        // More records than there may be.
        let endless = [&[9, 0, 0xf0, 0x0f][..], &[0; 4000]].concat();
        assert!(endless.iter().all(|&byte| assembly.push(byte).is_none()));
        assert!(!assembly.is_empty());
    }

    #[test]
    fn records_out_of_order_are_not_believed() {
        let any = |_: &DirRec| true;
        let shown = page(2, &[rec(5, RecState::New, 50), rec(6, RecState::New, 60)]);
        let mut bytes = group(&shown, &[5, 6], false);
        assert!(Group::first(&bytes).unwrap().is_sane(any));
        assert!(!Group::first(&bytes).unwrap().is_sane(|rec| rec.ptr == 50));
        bytes[4..20].rotate_left(8);
        assert!(!Group::first(&bytes).unwrap().is_sane(any));
        bytes[..4].copy_from_slice(&[0, 0, 0x20, 0]);
        bytes[4..20].rotate_left(8);
        assert!(
            !Group::first(&bytes).unwrap().is_sane(any),
            "of no directory"
        );
    }
}

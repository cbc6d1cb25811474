//! Hash maps, extent maps and their index pages: sorted records of one range of keys; names pages.
//!
//! ```text
//! 32 owner u32   36 owner's directory u32   40 owner's hash u32
//! 44 first key u32   48 end key u32 (exclusive; of the last map one above all keys)
//! 52 count u16   54 waiting u16   56 records
//! ```
//!
//! The owner is a directory's number, or a file's number with the directory and hash by which it
//! was found when the page was written, so that cleaning finds the inode that points here.
//! Records are directory entries (8 bytes), extents (12 bytes), pointers to maps (8 bytes), or the
//! bytes of further names ([`crate::format::names`]). Behind the pointers of an index
//! page of extent maps so many extents follow as *waiting* says
//! ([`crate::index::waiting`]); elsewhere that is 0.

use crate::format::extent::{self, Extent};
use crate::format::fields::{get_u16, get_u32, part, search};
use flashkit_bytes::{put_u16, put_u32};
use flashkit_nand::PageAddr;

/// Who points to a page: see the module's text.
pub(crate) use crate::format::node::FileRef as Owner;

/// First byte of the records.
pub(crate) const RECORDS: usize = 56;

/// View of a map page in RAM.
pub(crate) struct MapPage<B, const REC: usize>(pub B);

/// An extent map.
pub(crate) type ExtentPage<B> = MapPage<B, { extent::SIZE }>;

impl<B, const REC: usize> MapPage<B, REC> {
    /// Looks at bytes as a map page.
    pub fn on(bytes: B) -> Self {
        MapPage(bytes)
    }
}

impl<B: AsRef<[u8]>, const REC: usize> MapPage<B, REC> {
    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }
    pub fn owner(&self) -> Owner {
        Owner {
            ino: get_u32(self.b(), 32),
            dir: get_u32(self.b(), 36),
            hash: get_u32(self.b(), 40),
        }
    }
    pub fn first_key(&self) -> u32 {
        get_u32(self.b(), 44)
    }
    pub fn end_key(&self) -> u32 {
        get_u32(self.b(), 48)
    }
    pub fn count(&self) -> usize {
        usize::from(get_u16(self.b(), 52))
    }
    /// Extents behind the pointers of an index page.
    pub fn waiting(&self) -> usize {
        usize::from(get_u16(self.b(), 54))
    }
    /// Records that there is room for beside what waits.
    pub fn capacity(&self) -> usize {
        (self.b().len() - RECORDS).saturating_sub(extent::SIZE * self.waiting()) / REC
    }
    pub fn len(&self) -> usize {
        RECORDS + REC * self.count() + extent::SIZE * self.waiting()
    }
    /// Whether this is the page that a pointer of `key` of the inode `ino` must lead to. So every
    /// map page is reached in one way, whatever a damaged volume says.
    pub fn belongs_to(&self, ino: u32, key: u32) -> bool {
        self.owner().ino == ino && self.first_key() == key
    }
    pub fn is_sane(&self) -> bool {
        self.len() <= self.b().len()
    }
    pub fn record(&self, i: usize) -> &[u8] {
        part(self.b(), RECORDS + REC * i, REC)
    }
    /// First record whose leading word, shifted right by `shift`, is at least `key`.
    pub fn search(&self, key: u32, shift: u32) -> usize {
        let records = self.b().get(RECORDS..).unwrap_or_default();
        search(records, REC, self.count(), key, shift)
    }
    /// Of an index page: the pointer whose range holds `key`.
    pub fn pointer_for(&self, key: u32) -> usize {
        self.search(key.saturating_add(1), 0).saturating_sub(1)
    }
    /// Of an index page: a pointer.
    pub fn pointer(&self, i: usize) -> (u32, PageAddr) {
        (
            get_u32(self.record(i), 0),
            PageAddr(get_u32(self.record(i), 4)),
        )
    }
}

/// Where a page has its extents: an extent map as its records, an index page behind its pointers.
impl<B: AsRef<[u8]>, const REC: usize> MapPage<B, REC> {
    /// First byte of an extent.
    pub fn extent_at(&self, i: usize) -> usize {
        let pointers = if REC == extent::SIZE {
            0
        } else {
            REC * self.count()
        };
        RECORDS + pointers + extent::SIZE * i
    }
    pub fn extents(&self) -> usize {
        if REC == extent::SIZE {
            self.count()
        } else {
            self.waiting()
        }
    }
    pub fn extent(&self, i: usize) -> Extent {
        Extent::decode(part(self.b(), self.extent_at(i), extent::SIZE))
    }
    /// All of them.
    fn extent_list(&self) -> Extents<'_> {
        MapPage::<_, REC>(self.b()).into_extents()
    }
    /// First extent that begins at `index` or behind it.
    pub fn extent_search(&self, index: u32) -> usize {
        self.extent_list().search(index)
    }
    /// What the page says of one index.
    pub fn extent_of(&self, index: u32) -> Option<Extent> {
        self.extent_list().of(index)
    }
    /// What it says of a range.
    pub fn extents_in(&self, from: u32, to: u32) -> impl Iterator<Item = Extent> + '_ {
        self.extent_list().within(from, to)
    }
}

impl<'a, const REC: usize> MapPage<&'a [u8], REC> {
    /// Its extents, whichever kind of page it is, for as long as the page is borrowed.
    pub fn into_extents(self) -> Extents<'a> {
        let len = extent::SIZE * self.extents();
        Extents(part(self.0, self.extent_at(0), len))
    }
}

/// Extents as a page has them, sorted.
#[derive(Clone, Copy)]
pub(crate) struct Extents<'a>(&'a [u8]);

impl<'a> Extents<'a> {
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }
    fn get(self, i: usize) -> Extent {
        Extent::decode(part(self.0, extent::SIZE * i, extent::SIZE))
    }
    fn search(self, index: u32) -> usize {
        search(self.0, extent::SIZE, self.0.len() / extent::SIZE, index, 0)
    }
    /// What they say of one index.
    pub fn of(self, index: u32) -> Option<Extent> {
        let i = self.search(index + 1).checked_sub(1)?;
        self.get(i).clip(index, index + 1)
    }
    fn within(self, from: u32, to: u32) -> impl Iterator<Item = Extent> + 'a {
        (self.search(from).saturating_sub(1)..self.0.len() / extent::SIZE)
            .map(move |i| self.get(i))
            .take_while(move |e| e.index < to)
            .filter_map(move |e| e.clip(from, to))
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>, const REC: usize> MapPage<B, REC> {
    fn set_extents(&mut self, n: usize) {
        if REC == extent::SIZE {
            self.set_count(n);
        } else {
            self.set_waiting(n);
        }
    }
    pub fn extent_set(&mut self, i: usize, e: &Extent) {
        let at = self.extent_at(i);
        self.0.as_mut()[at..at + extent::SIZE].copy_from_slice(&e.encode());
    }
    /// Inserts; there must be room.
    pub fn extent_insert(&mut self, i: usize, e: &Extent) {
        let (at, end) = (self.extent_at(i), self.len());
        self.0.as_mut().copy_within(at..end, at + extent::SIZE);
        self.extent_set(i, e);
        self.set_extents(self.extents() + 1);
    }
    pub fn extent_remove(&mut self, i: usize) {
        let (at, end) = (self.extent_at(i), self.len());
        self.0.as_mut().copy_within(at + extent::SIZE..end, at);
        self.set_extents(self.extents() - 1);
    }
    /// Removes the first run of a range of indexes, or the part of it that is in the range, and
    /// gives it; none is left where there is none. Needs room for one extent.
    pub fn extent_cut(&mut self, from: u32, to: u32) -> Option<Extent> {
        let mut r = self.extent_search(from).saturating_sub(1);
        let (e, cut) = loop {
            if r >= self.extents() {
                return None;
            }
            let e = self.extent(r);
            if e.index >= to {
                return None;
            }
            match e.clip(from, to) {
                Some(cut) => break (e, cut),
                None => r += 1,
            }
        };
        match (e.clip(0, from), e.clip(to, extent::INDEX_END)) {
            (Some(left), Some(right)) => {
                self.extent_set(r, &left);
                self.extent_insert(r + 1, &right);
            }
            (Some(rest), None) | (None, Some(rest)) => self.extent_set(r, &rest),
            (None, None) => self.extent_remove(r),
        }
        Some(cut)
    }
    /// Inserts a run that overlaps nothing. It joins with others where they go on on the chip, and
    /// `border` does not begin where the second does.
    pub fn extent_add(&mut self, e: Extent, border: &dyn Fn(u32) -> bool) {
        let at = self.extent_search(e.index);
        let prev = at.checked_sub(1).map(|p| self.extent(p));
        let next = (at < self.extents()).then(|| self.extent(at));
        let prev = prev.filter(|p| p.joins(&e) && !border(e.index));
        let next = next.filter(|n| e.joins(n) && !border(n.index));
        match (prev, next) {
            (Some(p), Some(n)) => {
                self.extent_set(at - 1, &p.longer(e.count + n.count));
                self.extent_remove(at);
            }
            (Some(p), None) => self.extent_set(at - 1, &p.longer(e.count)),
            (None, Some(n)) => self.extent_set(at, &e.longer(n.count)),
            (None, None) => self.extent_insert(at, &e),
        }
    }
    /// Of a page that replaces the one it was: what that covered is no news.
    pub fn uncover(&mut self) {
        for i in 0..self.extents() {
            let e = self.extent(i);
            self.extent_set(i, &Extent { covers: false, ..e });
        }
        for i in (1..self.count()).rev().filter(|_| REC == extent::SIZE) {
            let (e, next) = (self.extent(i - 1), self.extent(i));
            if e.joins(&next) {
                self.extent_set(i - 1, &e.longer(next.count));
                self.extent_remove(i);
            }
        }
    }
    pub fn init(&mut self, owner: Owner, first: u32, end: u32) {
        let b = self.0.as_mut();
        b[..RECORDS].fill(0);
        put_u32(b, 32, owner.ino);
        put_u32(b, 36, owner.dir);
        put_u32(b, 40, owner.hash);
        put_u32(b, 44, first);
        put_u32(b, 48, end);
    }
    pub fn set_range(&mut self, first: u32, end: u32) {
        put_u32(self.0.as_mut(), 44, first);
        put_u32(self.0.as_mut(), 48, end);
    }
    pub fn set_owner(&mut self, owner: Owner) {
        put_u32(self.0.as_mut(), 32, owner.ino);
        put_u32(self.0.as_mut(), 36, owner.dir);
        put_u32(self.0.as_mut(), 40, owner.hash);
    }
    pub fn set_waiting(&mut self, n: usize) {
        put_u16(self.0.as_mut(), 54, n as u16);
    }
    pub fn set_count(&mut self, n: usize) {
        put_u16(self.0.as_mut(), 52, n as u16);
    }
    pub fn set(&mut self, i: usize, rec: &[u8; REC]) {
        let at = RECORDS + REC * i;
        self.0.as_mut()[at..at + REC].copy_from_slice(rec);
    }
    /// Inserts; the caller has checked [`MapPage::capacity`].
    pub fn insert(&mut self, i: usize, rec: &[u8; REC]) {
        let (at, end) = (RECORDS + REC * i, self.len());
        self.0.as_mut().copy_within(at..end, at + REC);
        self.set(i, rec);
        self.set_count(self.count() + 1);
    }
    pub fn remove(&mut self, i: usize) {
        let (at, end) = (RECORDS + REC * i, self.len());
        self.0.as_mut().copy_within(at + REC..end, at);
        self.set_count(self.count() - 1);
    }
    /// Keeps only the first `n` records.
    pub fn truncate(&mut self, n: usize) {
        self.set_count(n);
    }
    /// Takes back records that [`MapPage::truncate`] hid.
    pub fn grow_to(&mut self, n: usize) {
        self.set_count(n);
    }
    /// Drops the first `n` records.
    pub fn drop_first(&mut self, n: usize) {
        let (at, end) = (RECORDS + REC * n, self.len());
        self.0.as_mut().copy_within(at..end, RECORDS);
        self.set_count(self.count() - n);
    }
    /// Brings the records from `mid` on to the front; undone by the same call with
    /// `count - mid`.
    pub fn rotate(&mut self, mid: usize) {
        let end = self.len();
        self.0.as_mut()[RECORDS..end].rotate_left(REC * mid);
    }
}

/// Records of one byte: a names page.
impl MapPage<&mut [u8], 1> {
    /// Adds bytes; the caller has checked [`MapPage::capacity`].
    pub fn append_bytes(&mut self, bytes: &[u8]) {
        let (at, n) = (self.len(), self.count() + bytes.len());
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self.set_count(n);
    }
    /// Removes `n` bytes from byte `at` of the records on.
    pub fn cut_bytes(&mut self, at: usize, n: usize) {
        let (from, end) = (RECORDS + at, self.len());
        self.0.copy_within(from + n..end, from);
        self.set_count(end - RECORDS - n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rec(key: u32) -> [u8; 8] {
        let mut r = [0; 8];
        put_u32(&mut r, 0, key);
        put_u32(&mut r, 4, key + 1000);
        r
    }

    #[test]
    fn records_stay_sorted_through_edits() {
        let mut page = [0u8; 512];
        let mut m: MapPage<_, 8> = MapPage(&mut page[..]);
        m.init(
            Owner {
                ino: 9,
                dir: 1,
                hash: 5,
            },
            0,
            u32::MAX,
        );
        for key in [30, 10, 20, 40] {
            let at = m.search(key, 0);
            m.insert(at, &rec(key));
        }
        assert_eq!(m.capacity(), 57);
        assert_eq!(m.pointer_for(5), 0);
        assert_eq!(m.pointer_for(20), 1);
        assert_eq!(m.pointer_for(25), 1);
        assert_eq!(m.pointer(3), (40, PageAddr(1040)));
        m.rotate(1);
        assert_eq!(m.pointer(0).0, 20);
        m.rotate(3);
        assert_eq!(m.pointer(0).0, 10);
        m.remove(0);
        m.drop_first(1);
        m.truncate(1);
        assert_eq!((m.count(), m.pointer(0).0), (1, 30));
        assert_eq!(
            m.owner(),
            Owner {
                ino: 9,
                dir: 1,
                hash: 5
            }
        );
    }

    const OWNER: Owner = Owner {
        ino: 0x0403_0201,
        dir: 0x0807_0605,
        hash: 0x0c0b_0a09,
    };

    fn empty<const REC: usize>() -> MapPage<[u8; 512], REC> {
        let mut page = MapPage([0xaa; 512]);
        page.init(OWNER, 5, 0x1110_0f0e);
        page
    }

    #[test]
    fn fields_are_where_the_drawing_says() {
        let mut m = empty::<8>();
        m.set_count(0x0102);
        m.set_waiting(0x0304);
        assert_eq!(m.0[32..44], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(m.0[44..52], [5, 0, 0, 0, 0x0e, 0x0f, 0x10, 0x11]);
        assert_eq!(m.0[52..56], [2, 1, 4, 3]);
        assert_eq!(m.0[56], 0xaa, "records are the caller's");
    }

    #[test]
    fn a_page_belongs_to_one_inode_and_one_key() {
        let m = empty::<8>();
        assert!(m.belongs_to(OWNER.ino, 5));
        assert!(!m.belongs_to(OWNER.ino, 6) && !m.belongs_to(OWNER.ino + 1, 5));
    }

    #[test]
    fn counts_beyond_the_page_are_refused() {
        let mut m = empty::<8>();
        m.set_count(57);
        assert!(m.is_sane());
        m.set_waiting(1);
        assert!(!m.is_sane(), "no room for what waits");
        for (count, waiting) in [(58, 0), (0, 39), (0xffff, 0xffff), (0, 0xffff)] {
            m.set_count(count);
            m.set_waiting(waiting);
            assert!(!m.is_sane(), "{count} {waiting}");
        }
        assert_eq!(m.capacity(), 0, "more waits than there is room for");
        m.set_waiting(2);
        assert_eq!(m.capacity(), 54);
    }

    /// Runs added and cut at random: each index has the page that was put there last, and exactly
    /// what was there is handed back.
    fn extents_against_an_array<const REC: usize>(mut m: MapPage<[u8; 512], REC>) {
        let (mut model, mut state) = ([None; 24], 7u32);
        let mut below = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % n
        };
        for round in 0..2_000u32 {
            let from = below(24);
            let to = from + 1 + below(24 - from);
            let page = 100 * (1 + round % 9) + from;
            let mut freed = vec![];
            while let Some(e) = m.extent_cut(from, to) {
                freed.extend((0..e.count).map(|k| (e.index + k, e.page + k)));
            }
            let had = (from..to).filter_map(|i| Some((i, model[i as usize].take()?)));
            assert_eq!(freed, had.collect::<std::vec::Vec<_>>(), "round {round}");
            if round % 3 < 2 {
                // Never more runs than there is room for: 24 in 512 bytes.
                m.extent_add(Extent::new(from, page, to - from), &|index| index % 8 == 0);
                (from..to).for_each(|i| model[i as usize] = Some(page + i - from));
            }
            assert!(m.is_sane());
            for (i, page) in (0..).zip(model) {
                assert_eq!(
                    m.extent_of(i).map(|e| e.page),
                    page,
                    "index {i}, round {round}"
                );
            }
            let all: u32 = m.extents_in(0, 24).map(|e| e.count).sum();
            assert_eq!(all as usize, model.iter().flatten().count());
        }
    }

    #[test]
    fn an_extent_map_keeps_what_was_put_last() {
        extents_against_an_array(empty::<{ extent::SIZE }>());
    }

    #[test]
    fn extents_that_wait_keep_what_was_put_last_and_leave_the_pointers() {
        let mut m = empty::<8>();
        m.insert(0, &rec(1));
        m.insert(1, &rec(70));
        extents_against_an_array(m);
        let mut m = empty::<8>();
        m.insert(0, &rec(70));
        m.extent_add(Extent::new(3, 33, 2), &|_| false);
        m.insert(0, &rec(1));
        assert_eq!((m.pointer(0).0, m.pointer(1).0), (1, 70));
        assert_eq!(m.extent(0), Extent::new(3, 33, 2));
        m.remove(0);
        assert_eq!((m.pointer(0).0, m.extent(0)), (70, Extent::new(3, 33, 2)));
    }

    #[test]
    fn a_border_keeps_runs_apart() {
        let mut m = empty::<{ extent::SIZE }>();
        m.extent_add(Extent::new(6, 60, 2), &|index| index == 8);
        m.extent_add(Extent::new(8, 62, 2), &|index| index == 8);
        assert_eq!(m.extents(), 2);
        m.extent_add(Extent::new(10, 64, 1), &|index| index == 8);
        assert_eq!((m.extents(), m.extent(1)), (2, Extent::new(8, 62, 3)));
    }

    #[test]
    fn a_page_that_replaces_another_covers_nothing() {
        let mut m = empty::<{ extent::SIZE }>();
        let covers = |index, page| Extent {
            covers: true,
            ..Extent::new(index, page, 1)
        };
        for (i, e) in [covers(1, 11), Extent::new(2, 12, 1), covers(9, 90)]
            .iter()
            .enumerate()
        {
            m.extent_insert(i, e);
        }
        m.uncover();
        assert_eq!(m.extents(), 2);
        assert_eq!(m.extent(0), Extent::new(1, 11, 2));
        assert_eq!(m.extent(1), Extent::new(9, 90, 1));
    }

    #[test]
    fn a_name_cut_from_a_names_page_leaves_the_others() {
        let mut page = [0u8; 512];
        let mut m: MapPage<_, 1> = MapPage(&mut page[..]);
        m.init(OWNER, 0, 0);
        for bytes in [&b"one"[..], b"three", b"two"] {
            m.append_bytes(bytes);
        }
        m.cut_bytes(3, 5);
        assert_eq!((m.count(), &m.0[RECORDS..RECORDS + 6]), (6, &b"onetwo"[..]));
    }
}

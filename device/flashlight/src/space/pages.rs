//! Metadata pages kept in RAM that nothing else needs: one that is kept is not read again.
//!
//! They lie behind the dirty list, from the end of its bytes on. That list is as long
//! as there are blocks with invalid pages; what it does not need yet holds pages, and
//! they give way when it grows.
//!
//! Most of them are short: a directory of twenty names takes an eighth of its page. So they lie in
//! *places* of an eighth of a page, as many as each needs, one next to the other. Where there is
//! room for more places than are searched through, they are longer, up to a page.
//!
//! ```text
//! entries, 8 bytes a place    0 page number u32, all ones: none    4 when it was used last u32
//! ```
//!
//! Invariants:
//! * A page that is kept is what its place on flash was found to hold, whole and checked, or what
//!   has been programmed there. What a page's number means changes only by an erase of its block,
//!   and that drops what is kept of the block.
//! * Whoever must know what the medium holds asks the chip: a mount with its recovery, for
//!   nothing is kept before that has ended; scrubbing, and cleaning of the pages that it moves,
//!   which read past this (`Store::read_meta`); walks, during which nothing is kept; and
//!   repairs, which drop all first.
//!
//! FileInodes are kept only where there is room that nothing else has taken, and are the first to
//! go: there are as many as files, and most are read once to be brought into a slot, where each map
//! serves many files or pages. So is an extent map that has just been written: its turn comes
//! after that of many others.

use crate::format::header::{KIND, Kind};
use core::ops::Range;
use flashkit_bytes::{copy_erasing, get_u32, put_u32};
use flashkit_nand::PageAddr;

/// Pages kept at most, and places for them: of 4 MiB where that is less, but not below 512. They
/// are searched from the first on.
pub(crate) const fn most(page_size: u32) -> usize {
    let pages = (4 << 20) / page_size as usize;
    if pages < 512 {
        512
    } else if pages > 2048 {
        2048
    } else {
        pages
    }
}

/// Bytes of an entry.
const ENTRY: usize = 8;
/// The age that makes a page go before those that have been used.
const OLD: u32 = u32::MAX / 4;
/// And that of a FileInode, which goes before these.
const OF_FILE: u32 = u32::MAX / 2;

/// Bytes that a page takes, with its entry.
pub(crate) const fn room_for_one(page_size: u32) -> usize {
    page_size as usize + ENTRY
}

/// Places of a page at most.
const PARTS: usize = 8;

/// How `bytes` are divided: the bytes of the entries, and those of a place.
pub(crate) fn divide(bytes: usize, page_size: u32) -> (usize, usize) {
    let (page, most) = (page_size as usize, most(page_size));
    let mut place = page / PARTS;
    while place < page && bytes / (place + ENTRY) > most {
        place *= 2;
    }
    (ENTRY * (bytes / (place + ENTRY)).min(most), place)
}

/// Which pages are kept, in the caller's RAM. The pages are elsewhere: `room` in what follows.
pub(crate) struct Pages<'r> {
    entries: &'r mut [u8],
    /// Bytes of a place. A page takes places next to each other, as many as it has bytes for.
    place: u16,
    tick: u32,
    ready: bool,
}

impl<'r> Pages<'r> {
    pub fn new(entries: &'r mut [u8], place: usize) -> Self {
        entries.fill(0xff);
        Pages {
            entries,
            place: place as u16,
            tick: 0,
            ready: false,
        }
    }

    /// From here on pages are kept.
    pub fn begin(&mut self) {
        self.ready = true;
    }

    /// Whether what was found before counts.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Drops all, and keeps nothing until it begins again.
    pub fn end(&mut self) {
        self.yield_to(0);
        self.ready = false;
    }

    /// Places, if there is room for them.
    fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    fn place(&self) -> usize {
        self.place.into()
    }

    /// Bytes of all places.
    pub fn room(&self) -> usize {
        self.len() * self.place()
    }

    fn page(&self, i: usize) -> PageAddr {
        PageAddr(get_u32(self.entries, ENTRY * i))
    }

    /// The places of a page, if it is kept.
    fn find(&self, at: PageAddr) -> Option<Range<usize>> {
        if at.is_none() {
            return None;
        }
        let from = (0..self.len()).find(|&i| self.page(i) == at)?;
        let end = (from..self.len()).find(|&i| self.page(i) != at);
        Some(from..end.unwrap_or(self.len()))
    }

    /// Notes that a page has been used; one of a file stays the first to go.
    fn set(&mut self, places: Range<usize>, at: PageAddr, of_file: bool) {
        self.tick = self.tick.wrapping_add(1);
        for i in places.clone() {
            put_u32(self.entries, ENTRY * i, at.0);
        }
        self.make_old(places, if of_file { OF_FILE } else { 0 });
    }

    /// A page that is kept goes before those that have been used.
    pub fn set_old(&mut self, at: PageAddr) {
        if let Some(places) = self.find(at) {
            self.make_old(places, OLD);
        }
    }

    fn make_old(&mut self, places: Range<usize>, age: u32) {
        for i in places {
            put_u32(self.entries, ENTRY * i + 4, self.tick.wrapping_sub(age));
        }
    }

    /// How long a page has not been used; an empty place was never.
    fn age(&self, i: usize) -> u32 {
        if self.page(i).is_none() {
            return u32::MAX;
        }
        self.tick.wrapping_sub(get_u32(self.entries, ENTRY * i + 4))
    }

    /// So many places next to each other, all of which have not been used for as long as may be:
    /// the last of those that are alike. And how long that is.
    fn oldest(&self, all: Range<usize>, n: usize) -> Option<(u32, Range<usize>)> {
        let (mut oldest, mut from) = (None, all.start);
        while from + n <= all.end {
            let places = from..from + n;
            let age = oldest.as_ref().map_or(0, |&(age, _)| age);
            // None that has this place is as old.
            if let Some(i) = places.clone().rev().find(|&i| self.age(i) < age) {
                from = i + 1;
                continue;
            }
            let youngest = places.clone().map(|i| self.age(i)).min();
            oldest = youngest.map(|age| (age, places));
            from += 1;
        }
        oldest
    }

    /// The bytes of places, by their distance from the end of the room.
    fn bytes(&self, room: usize, places: &Range<usize>) -> Range<usize> {
        room - self.place() * places.end..room - self.place() * places.start
    }

    /// A page, if it is kept, without what a program leaves erased. It counts as used now.
    pub fn get<'p>(&mut self, room: &'p [u8], at: PageAddr) -> Option<&'p [u8]> {
        let places = self.find(at)?;
        let page = &room[self.bytes(room.len(), &places)];
        self.set(places, at, page[KIND] == Kind::File as u8);
        Some(page)
    }

    /// Keeps a page, which comes without what a program leaves erased, for those used least
    /// recently when there is no place for all. The last `tail` bytes of the room are taken.
    pub fn put(&mut self, (room, tail): (&mut [u8], usize), at: PageAddr, kind: Kind, page: &[u8]) {
        if !self.ready || matches!(kind, Kind::Table | Kind::Validity) {
            return;
        }
        self.forget(at, 1);
        let n = page.len().div_ceil(self.place());
        let end = self.len().min(room.len() / self.place());
        let Some((age, places)) = self.oldest(tail.div_ceil(self.place())..end, n) else {
            return;
        };
        let of_file = kind == Kind::File;
        if of_file && age < OF_FILE {
            return;
        }
        for i in places.clone() {
            self.forget(self.page(i), 1);
        }
        let bytes = self.bytes(room.len(), &places);
        copy_erasing(&mut room[bytes], page);
        self.set(places, at, of_file);
    }

    /// Drops the pages that are not in the last `room` bytes.
    pub fn yield_to(&mut self, room: usize) {
        for i in room / self.place()..self.len() {
            self.forget(self.page(i), 1);
        }
    }

    /// Drops the pages that are in the last `tail` bytes.
    pub fn yield_tail(&mut self, tail: usize) {
        for i in 0..tail.div_ceil(self.place()).min(self.len()) {
            self.forget(self.page(i), 1);
        }
    }

    /// Drops the pages from one on, so many.
    pub fn forget(&mut self, from: PageAddr, count: u32) {
        if from.is_none() {
            return;
        }
        for i in 0..self.len() {
            if self.page(i).0.wrapping_sub(from.0) < count {
                put_u32(self.entries, ENTRY * i, PageAddr::NONE.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, FlashLight, New, Node, ROOT_DIR, ram_useful};
    use flashkit_nand::Nand;
    use flashkit_sim::{Metered, SimNand, preset};
    use std::vec;

    const SIZE: usize = 16;

    fn put(pages: &mut Pages<'_>, room: &mut [u8], at: u32) {
        let page = [at as u8; SIZE];
        pages.put((room, 0), PageAddr(at), Kind::HashMap, &page);
    }

    fn kept(pages: &Pages<'_>) -> std::vec::Vec<u32> {
        let mut all: std::vec::Vec<u32> = (0..pages.len())
            .map(|i| pages.page(i).0)
            .filter(|&p| p != u32::MAX)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let (mut entries, mut room) = ([0; 3 * ENTRY], [0; 3 * SIZE + 5]);
        let mut pages = Pages::new(&mut entries, SIZE);
        put(&mut pages, &mut room, 1);
        assert_eq!(kept(&pages), [], "not before the mount has ended");
        pages.begin();
        for at in [1, 2, 3] {
            put(&mut pages, &mut room, at);
        }
        assert_eq!(pages.get(&room, PageAddr(1)), Some(&[1; SIZE][..]));
        put(&mut pages, &mut room, 4);
        assert_eq!(kept(&pages), [1, 3, 4]);
        assert_eq!(pages.get(&room, PageAddr(2)), None);
        assert_eq!(pages.get(&room, PageAddr::NONE), None);
        for at in [1, 3, 4] {
            assert_eq!(pages.get(&room, PageAddr(at)), Some(&[at as u8; SIZE][..]));
        }
        assert_eq!(room[..5], [0; 5], "what is before the pages is not theirs");
    }

    #[test]
    fn an_old_page_goes_before_others_but_not_for_an_empty_place() {
        let (mut entries, mut room) = ([0; 3 * ENTRY], [0; 3 * SIZE]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        put(&mut pages, &mut room, 1);
        put(&mut pages, &mut room, 2);
        pages.set_old(PageAddr(2));
        put(&mut pages, &mut room, 3);
        assert_eq!(kept(&pages), [1, 2, 3]);
        put(&mut pages, &mut room, 4);
        assert_eq!(kept(&pages), [1, 3, 4]);
        pages.set_old(PageAddr(3));
        pages.set_old(PageAddr(9));
        assert!(pages.get(&room, PageAddr(3)).is_some(), "used again");
        put(&mut pages, &mut room, 5);
        assert_eq!(kept(&pages), [3, 4, 5]);
    }

    #[test]
    fn a_page_takes_one_place_and_is_kept_as_a_read_would_have_it() {
        let (mut entries, mut room) = ([0; 2 * ENTRY], [0; 2 * SIZE]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        put(&mut pages, &mut room, 7);
        pages.put((&mut room, 0), PageAddr(7), Kind::Dir, &[1, 2]);
        assert_eq!(kept(&pages), [7]);
        let mut whole = [0xff; SIZE];
        whole[..2].copy_from_slice(&[1, 2]);
        assert_eq!(pages.get(&room, PageAddr(7)), Some(&whole[..]));
        pages.put((&mut room, 0), PageAddr(8), Kind::Table, &[0; SIZE]);
        assert_eq!(kept(&pages), [7], "the block table is read past this");
    }

    #[test]
    fn inodes_of_files_take_what_nothing_else_has() {
        let (mut entries, mut room) = ([0; 3 * ENTRY], [0; 3 * SIZE]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        let file = |pages: &mut Pages<'_>, room: &mut [u8], at: u32| {
            let page = [Kind::File as u8; SIZE];
            pages.put((room, 0), PageAddr(at), Kind::File, &page);
        };
        put(&mut pages, &mut room, 1);
        for at in [20, 21] {
            file(&mut pages, &mut room, at);
        }
        assert!(pages.get(&room, PageAddr(20)).is_some());
        file(&mut pages, &mut room, 22);
        assert_eq!(kept(&pages), [1, 20, 22], "21 was not used as late as 20");
        assert!(pages.get(&room, PageAddr(20)).is_some());
        for at in [2, 3] {
            put(&mut pages, &mut room, at);
        }
        file(&mut pages, &mut room, 23);
        assert_eq!(
            kept(&pages),
            [1, 2, 3],
            "those of files go first, used or not"
        );
    }

    #[test]
    fn what_is_dropped_is_not_found() {
        let (mut entries, mut room) = ([0; 4 * ENTRY], [0; 4 * SIZE]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        let fill = |pages: &mut Pages<'_>, room: &mut [u8]| {
            for at in [15, 16, 23, 24] {
                put(pages, room, at);
            }
        };
        fill(&mut pages, &mut room);
        pages.forget(PageAddr(16), 8);
        assert_eq!(kept(&pages), [15, 24]);
        fill(&mut pages, &mut room);
        assert_eq!(kept(&pages), [15, 16, 23, 24]);
        // Two places are left; what was in the others is gone though there is room again.
        pages.yield_to(3 * SIZE - 1);
        assert_eq!(kept(&pages).len(), 2);
        for at in [30, 31, 32] {
            put(&mut pages, &mut room[2 * SIZE..], at);
        }
        assert_eq!(kept(&pages), [31, 32]);
        put(&mut pages, &mut [], 1);
        assert_eq!(kept(&pages), [31, 32], "no room");
        pages.end();
        assert_eq!(kept(&pages), []);
        put(&mut pages, &mut room, 1);
        assert_eq!(kept(&pages), []);
    }
    #[test]
    fn short_pages_lie_in_parts_of_a_page() {
        let (mut entries, mut room) = ([0; 6 * ENTRY], [7; 6 * SIZE + 5]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        let put = |pages: &mut Pages<'_>, room: &mut [u8], at: u32, len: usize| {
            let page = std::vec![at as u8; len];
            pages.put((room, 0), PageAddr(at), Kind::Dir, &page);
        };
        for (at, len) in [(1, SIZE), (2, 2 * SIZE - 1), (3, 3 * SIZE)] {
            put(&mut pages, &mut room, at, len);
        }
        assert_eq!(kept(&pages), [1, 2, 3]);
        let whole = [vec![2; 2 * SIZE - 1], vec![0xff]].concat();
        assert_eq!(pages.get(&room, PageAddr(2)), Some(&whole[..]));
        assert_eq!(pages.get(&room, PageAddr(3)), Some(&[3; 3 * SIZE][..]));
        // A page of which a part is in the way goes whole; one written again takes what it needs.
        put(&mut pages, &mut room, 4, 2 * SIZE);
        assert_eq!(kept(&pages), [3, 4]);
        put(&mut pages, &mut room, 3, SIZE);
        for at in [5, 6, 7] {
            put(&mut pages, &mut room, at, SIZE);
        }
        assert_eq!(kept(&pages), [3, 4, 5, 6, 7]);
        for (at, len) in [(3, SIZE), (4, 2 * SIZE), (7, SIZE)] {
            let page = std::vec![at as u8; len];
            assert_eq!(pages.get(&room, PageAddr(at)), Some(&page[..]));
        }
        put(&mut pages, &mut room, 8, 6 * SIZE + 1);
        assert_eq!(kept(&pages), [3, 4, 5, 6, 7], "one that has no room");
        put(&mut pages, &mut room, 8, 6 * SIZE);
        assert_eq!((kept(&pages), &room[..5]), (vec![8], &[7; 5][..]));
        pages.yield_tail(1);
        assert_eq!(kept(&pages), []);
    }

    /// With more bytes there are never fewer of them, nor do pages have less room.
    #[test]
    fn places_are_as_many_as_can_be_searched() {
        let mut before = 0;
        for bytes in (0..6 << 20).step_by(1000) {
            let (entries, place) = divide(bytes, 2048);
            let room = entries / ENTRY * place;
            assert!(room + entries <= bytes && room >= before && entries <= 2048 * ENTRY);
            assert!(bytes < 600_000 || entries >= 1024 * ENTRY);
            before = room - room / 50;
        }
        assert_eq!(divide(1000, 2048), (3 * ENTRY, 256));
        assert_eq!(divide(6 << 20, 2048), (2048 * ENTRY, 2048));
    }

    /// Deferred changes at the end take places of pages, and give them back.
    #[test]
    fn pages_give_way_to_what_is_at_the_end() {
        let (mut entries, mut room) = ([0; 3 * ENTRY], [0; 3 * SIZE]);
        let mut pages = Pages::new(&mut entries, SIZE);
        pages.begin();
        for at in [1, 2, 3] {
            put(&mut pages, &mut room, at);
        }
        pages.yield_tail(SIZE + 1);
        room[2 * SIZE - 1..].fill(99);
        let left = kept(&pages);
        assert_eq!(left.len(), 1);
        for at in [4, 5] {
            let page = [at as u8; SIZE];
            pages.put((&mut room, SIZE + 1), PageAddr(at), Kind::HashMap, &page);
        }
        assert_eq!(kept(&pages), [5]);
        assert_eq!(room[2 * SIZE - 1..], [99; SIZE + 1]);
        put(&mut pages, &mut room, 6);
        assert_eq!(kept(&pages), [5, 6], "there is place again");
    }

    #[test]
    fn an_erase_drops_what_was_in_the_block() {
        let chip = SimNand::new(preset("slc-256m").unwrap());
        let mut ram = std::vec![0; ram_useful(&chip.geometry())];
        let chip = FlashLight::format(chip, &mut ram, 7, &New::default()).unwrap();
        let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
        for n in 0u32..2 {
            let name = [b'a' + n as u8];
            let made = fs.mkdir(ROOT_DIR, &name, &New::default()).unwrap();
            assert!(matches!(made, Node::Dir(_)));
        }
        fs.sync().unwrap();
        let geo = fs.volume.durable.index.store.geo;
        let all: std::vec::Vec<_> = (0..geo.pages())
            .map(PageAddr)
            .filter(|&at| fs.volume.durable.index.store.kept(at, Kind::Dir).is_some())
            .collect();
        assert!(all.len() > 1, "{all:?}");
        let mut buf = std::vec![0; geo.page_size() as usize];
        for &at in &all {
            fs.volume.durable.index.store.nand.inner.clear_counters();
            fs.volume
                .durable
                .index
                .store
                .get_meta(at, &mut buf, Kind::Dir)
                .unwrap();
            assert_eq!(
                fs.volume
                    .durable
                    .index
                    .store
                    .nand
                    .inner
                    .counters()
                    .page_reads,
                0
            );
        }
        let block = geo.block_of(all[0]);
        assert!(
            fs.volume
                .durable
                .index
                .store
                .erase(block.0)
                .unwrap()
                .is_true()
        );
        for &at in &all {
            let gone = geo.block_of(at) == block;
            assert_eq!(
                fs.volume.durable.index.store.kept(at, Kind::Dir).is_none(),
                gone
            );
            assert_eq!(
                fs.volume
                    .durable
                    .index
                    .store
                    .get_meta(at, &mut buf, Kind::Dir)
                    .is_err(),
                gone
            );
        }
    }
}

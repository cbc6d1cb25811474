//! Changes of the DirInode map that its pages on flash do not show yet. Of the map one page is
//! cached. Directories of several of its pages change in turn: each would be written for an entry.
//!
//! ```text
//! 0  directory u24    3  its page u32; all ones: none
//! ```
//!
//! In the order of the directories' numbers.
//!
//! Invariants:
//! * A change goes when a page of the map shows it that is on flash, or cached and dirty.
//! * None is left at a checkpoint. After a cut the DirInodes since then tell of them.

use crate::format::node::FIRST_FILE;
use core::ops::Range;
use flashkit_bytes::{get_u32, put_u32};
use flashkit_nand::PageAddr;

/// Bytes of a change.
const SIZE: usize = 7;
/// Changes that are of use: with as many the pages of the map are few beside those of directories.
const MOST: usize = 64;
/// Pages of the map that they are of, at most: a checkpoint writes them all.
const PAGES_MOST: u32 = 16;
const _: () = assert!(FIRST_FILE <= 1 << 24);

/// The changes, in the caller's RAM.
pub(crate) struct MapChanges<'r> {
    /// Empty until directories of more than one page of the map have changed.
    bytes: &'r mut [u8],
    len: u16,
    /// Directories of a page of the map.
    per_page: u16,
    /// Pages of the map at most.
    pages: u8,
}

impl<'r> MapChanges<'r> {
    pub fn new(per_page: u32, pages_per_block: u32) -> Self {
        MapChanges {
            bytes: &mut [],
            len: 0,
            per_page: per_page as u16,
            pages: (pages_per_block / 4).min(PAGES_MOST) as u8,
        }
    }

    /// Directories of a page of the map.
    pub fn per_page(&self) -> u32 {
        self.per_page.into()
    }

    /// Whether all are of the first page of the map.
    pub fn are_of_first(&self) -> bool {
        self.of_page(0).len() == self.len()
    }

    /// Bytes that are of use, of so many that names of directories have.
    pub fn share(names: usize) -> usize {
        (names / 3).min(MOST * SIZE) / SIZE * SIZE
    }

    /// Whether it has its bytes.
    pub fn has_place(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub fn place(&mut self, bytes: &'r mut [u8]) {
        self.bytes = bytes;
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn len(&self) -> usize {
        self.len.into()
    }

    /// One of them.
    pub fn change(&self, n: usize) -> (u32, PageAddr) {
        let b = &self.bytes[n * SIZE..][..SIZE];
        (get_u32(b, 0) & 0xff_ffff, PageAddr(get_u32(b, 3)))
    }

    /// How many come before that of a directory, or would.
    fn before(&self, dir: u32) -> usize {
        (0..self.len())
            .find(|&n| self.change(n).0 >= dir)
            .unwrap_or(self.len())
    }

    /// Those of a page of the map.
    pub fn of_page(&self, page: usize) -> Range<usize> {
        let first = page as u32 * u32::from(self.per_page);
        self.before(first)..self.before(first + u32::from(self.per_page))
    }

    fn page_of(&self, dir: u32) -> usize {
        (dir / u32::from(self.per_page)) as usize
    }

    pub fn get(&self, dir: u32) -> Option<PageAddr> {
        let n = self.before(dir);
        let found = (n < self.len()).then(|| self.change(n));
        found
            .filter(|&(other, _)| other == dir)
            .map(|(_, page)| page)
    }

    /// Whether there is a place for a directory's.
    pub fn may_set(&self, dir: u32) -> bool {
        let room = (self.len() + 1) * SIZE <= self.bytes.len();
        self.get(dir).is_some()
            || room
                && (!self.of_page(self.page_of(dir)).is_empty()
                    || self.pages().0 < self.pages.into())
    }

    /// There is a place for it ([`MapChanges::may_set`]).
    pub fn set(&mut self, dir: u32, page: PageAddr) {
        let n = self.before(dir);
        if self.get(dir).is_none() {
            let end = self.len() * SIZE;
            self.bytes.copy_within(n * SIZE..end, (n + 1) * SIZE);
            self.len += 1;
        }
        let b = &mut self.bytes[n * SIZE..][..SIZE];
        b[..3].copy_from_slice(&dir.to_le_bytes()[..3]);
        put_u32(b, 3, page.0);
    }

    /// Forgets those of a page of the map.
    pub fn forget(&mut self, page: usize) {
        let gone = self.of_page(page);
        let end = self.len() * SIZE;
        self.bytes
            .copy_within(gone.end * SIZE..end, gone.start * SIZE);
        self.len -= gone.len() as u16;
    }

    /// How many pages of the map they are of, and one that most are of.
    fn pages(&self) -> (usize, Option<usize>) {
        let (mut count, mut n, mut fullest) = (0, 0, (0, None));
        while n < self.len() {
            let page = self.page_of(self.change(n).0);
            let of_page = self.of_page(page);
            if of_page.len() >= fullest.0 {
                fullest = (of_page.len(), Some(page));
            }
            (count, n) = (count + 1, of_page.end);
        }
        (count, fullest.1)
    }

    /// The page of the map that has most.
    pub fn fullest(&self) -> Option<usize> {
        self.pages().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn changes_come_and_go_as_in_a_map() {
        let mut ram = vec![0; MapChanges::share(3 * 20 * SIZE + 5)];
        assert_eq!(ram.len(), 20 * SIZE);
        let mut changes = MapChanges::new(10, 16);
        assert!(!changes.has_place() && !changes.may_set(5) && changes.fullest().is_none());
        changes.place(&mut ram);
        let mut model = BTreeMap::new();
        let mut x = 1u32;
        for _ in 0..4000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (dir, page) = ((x >> 8) % 90, PageAddr(x >> 3));
            let pages = |model: &BTreeMap<u32, PageAddr>| {
                let mut pages: Vec<_> = model.keys().map(|dir| dir / 10).collect();
                pages.dedup();
                pages
            };
            let known = pages(&model);
            let room = model.len() < 20 && (known.contains(&(dir / 10)) || known.len() < 4);
            assert_eq!(changes.may_set(dir), room || model.contains_key(&dir));
            if changes.may_set(dir) {
                changes.set(dir, page);
                model.insert(dir, page);
            } else {
                let full = changes.fullest().unwrap();
                let count = |page: u32| model.keys().filter(|dir| **dir / 10 == page).count();
                let most = known.iter().map(|&page| count(page)).max().unwrap();
                assert_eq!(count(full as u32), most);
                assert_eq!(changes.of_page(full).len(), most);
                changes.forget(full);
                model.retain(|dir, _| *dir / 10 != full as u32);
            }
            let all: Vec<_> = (0..changes.len()).map(|n| changes.change(n)).collect();
            assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(changes.get(dir), model.get(&dir).copied());
            assert_eq!(changes.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn the_largest_number_and_no_page_have_room() {
        let mut ram = [0; SIZE];
        let mut changes = MapChanges::new(504, 64);
        changes.place(&mut ram);
        changes.set(FIRST_FILE - 1, PageAddr::NONE);
        assert_eq!(changes.get(FIRST_FILE - 1), Some(PageAddr::NONE));
        assert!(!changes.may_set(7));
    }
}

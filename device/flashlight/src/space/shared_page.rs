//! The page of the DirInode map that is in RAM. Directories are numbered from the first on. So a
//! volume with few of them needs the beginning of the page only, and deferred changes of
//! directories ([`crate::format::deferred`]) lie at its end. What is between holds filters of hash
//! maps ([`crate::space::filters`]).

use crate::space::filters::Filters;
use crate::space::tail::Tail;
use core::ops::Range;
use flashkit_nand::PageAddr;

pub(crate) struct SharedPage<'r> {
    /// All bytes: those of the map, then the changes.
    pub bytes: &'r mut [u8],
    /// Bytes that are the map's. All, while nothing else is known.
    shown: u16,
    changes: Tail,
    /// Bytes of changes that are of use.
    pub useful: u16,
    filters: Filters,
}

impl<'r> SharedPage<'r> {
    pub fn new(bytes: &'r mut [u8], useful: u16) -> Self {
        SharedPage {
            shown: bytes.len() as u16,
            bytes,
            changes: Tail::new(0),
            useful,
            filters: Filters::NONE,
        }
    }

    /// So many bytes are the map's. No change lies there.
    pub fn show(&mut self, shown: usize) {
        self.shown = shown as u16;
        self.let_grow(self.changes.most.into());
        self.cut_filters();
    }

    /// Changes may take so many bytes of what is not the map's.
    pub fn let_grow(&mut self, most: usize) {
        self.changes.most = most.min(self.bytes.len() - self.shown()) as u16;
    }

    /// Bytes in which no changes lie.
    pub fn free(&self) -> usize {
        self.bytes.len() - self.tail().len()
    }

    /// More bytes are the map's, without an entry. No change lies there.
    pub fn show_more(&mut self, shown: usize) {
        let more = self.shown()..shown;
        self.bytes[more].fill(0xff);
        self.show(shown);
    }

    /// What is the map's.
    pub fn map(&self) -> &[u8] {
        &self.bytes[..self.shown()]
    }

    /// All bytes are the map's. There are no changes.
    pub fn give_back(&mut self) {
        self.changes = Tail::new(0);
        self.show_more(self.bytes.len());
    }

    /// Bytes that are neither the map's nor of changes.
    fn between(&self) -> Range<usize> {
        self.shown()..self.free()
    }

    fn cut_filters(&mut self) {
        self.filters.cut(self.bytes.len(), self.between());
    }

    /// Whether a hash map is known not to have a hash.
    pub fn lacks(&self, at: PageAddr, hash: u32) -> bool {
        self.filters.lacks(self.bytes, at, hash)
    }

    /// Notes which hashes the hash map at a place has.
    pub fn learn(&mut self, at: PageAddr, hashes: impl Iterator<Item = u32>) {
        let free = self.between();
        self.filters.learn(self.bytes, free, at, hashes);
    }

    /// Nothing is known of any hash map.
    pub fn forget_filters(&mut self) {
        self.filters = Filters::NONE;
    }

    /// Nothing is known of the hash map at a place.
    pub fn forget_filter(&mut self, at: PageAddr) {
        self.filters.forget(self.bytes, at);
    }

    /// Bytes that are the map's.
    pub fn shown(&self) -> usize {
        self.shown.into()
    }

    /// The changes.
    pub fn tail(&self) -> &[u8] {
        self.changes.of(self.bytes)
    }

    /// The same, to be changed.
    pub fn tail_mut(&mut self) -> &mut [u8] {
        self.changes.of_mut(self.bytes)
    }

    /// Bytes that they may take.
    pub fn tail_most(&self) -> usize {
        self.changes.most.into()
    }

    /// Bytes that there are for more.
    pub fn tail_room(&self) -> usize {
        self.changes.room()
    }

    /// Puts so many bytes in front of the changes, which are to be written. `false` if there is no
    /// room for them.
    pub fn tail_grow(&mut self, n: usize) -> bool {
        let grown = self.changes.grow(n);
        self.cut_filters();
        grown
    }

    /// Takes bytes out of the changes, by their place there.
    pub fn tail_remove(&mut self, range: Range<usize>) {
        self.changes.remove(self.bytes, range);
    }
}

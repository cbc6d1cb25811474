//! The page of the DirInode map that is in RAM. Directories are numbered from the first on. So a
//! volume with few of them needs the beginning of the page only, and deferred changes of
//! directories ([`crate::format::deferred`]) lie at its end.

use crate::space::tail::Tail;
use core::ops::Range;

pub(crate) struct SharedPage<'r> {
    /// All bytes: those of the map, then the changes.
    pub bytes: &'r mut [u8],
    /// Bytes that are the map's. All, while nothing else is known.
    shown: u16,
    changes: Tail,
    /// Bytes of changes that are of use.
    pub useful: u16,
}

impl<'r> SharedPage<'r> {
    pub fn new(bytes: &'r mut [u8], useful: u16) -> Self {
        SharedPage {
            shown: bytes.len() as u16,
            bytes,
            changes: Tail::new(0),
            useful,
        }
    }

    /// So many bytes are the map's. No change lies there.
    pub fn show(&mut self, shown: usize) {
        self.shown = shown as u16;
        self.let_grow(self.changes.most.into());
    }

    /// Changes may take so many bytes of what is not the map's.
    pub fn let_grow(&mut self, most: usize) {
        self.changes.most = most.min(self.bytes.len() - self.shown()) as u16;
    }

    /// Bytes in which no changes lie.
    pub fn free(&self) -> usize {
        self.bytes.len() - self.tail().len()
    }

    /// What no changes lie in has no entry behind what is the map's.
    pub fn blank(&mut self) -> &mut [u8] {
        let free = self.free();
        self.bytes[self.shown.into()..free].fill(0xff);
        &mut self.bytes[..free]
    }

    /// All bytes are the map's. There are no changes.
    pub fn give_back(&mut self) {
        self.blank();
        (self.shown, self.changes) = (self.bytes.len() as u16, Tail::new(0));
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
        self.changes.grow(n)
    }

    /// Takes bytes out of the changes, by their place there.
    pub fn tail_remove(&mut self, range: Range<usize>) {
        self.changes.remove(self.bytes, range);
    }
}

//! Two slots of cached directories and two of cached files. Each has a type of its own: a slot of
//! a directory does not pass for one of a file, and none is out of range, so that the compiler
//! leaves out the checks. They are as wide as a register, for small code.

use crate::index::cache::{CachedDir, CachedFile};
use core::ops::{Index, IndexMut};

/// A slot of a cached directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum DirSlot {
    First,
    Second,
}

impl DirSlot {
    pub const ALL: [Self; 2] = [Self::First, Self::Second];
}

/// A slot of a cached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum FileSlot {
    First,
    Second,
}

impl FileSlot {
    pub const ALL: [Self; 2] = [Self::First, Self::Second];

    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    /// The data head that the file in this slot is written at
    /// ([`DATA_HEADS`](crate::format::area::DATA_HEADS)).
    pub fn data_head(self) -> usize {
        self as usize
    }
}

/// A slot of either kind.
#[derive(Clone, Copy)]
pub(crate) enum AnySlot {
    Dir(DirSlot),
    File(FileSlot),
}

/// What the slots of directories hold.
pub(crate) struct Dirs<'r>(pub [CachedDir<'r>; 2]);

/// What the slots of files hold.
pub(crate) struct Files<'r>(pub [CachedFile<'r>; 2]);

impl<'r> Index<DirSlot> for Dirs<'r> {
    type Output = CachedDir<'r>;

    fn index(&self, slot: DirSlot) -> &CachedDir<'r> {
        &self.0[slot as usize]
    }
}

impl IndexMut<DirSlot> for Dirs<'_> {
    fn index_mut(&mut self, slot: DirSlot) -> &mut Self::Output {
        &mut self.0[slot as usize]
    }
}

impl<'r> Index<FileSlot> for Files<'r> {
    type Output = CachedFile<'r>;

    fn index(&self, slot: FileSlot) -> &CachedFile<'r> {
        &self.0[slot as usize]
    }
}

impl IndexMut<FileSlot> for Files<'_> {
    fn index_mut(&mut self, slot: FileSlot) -> &mut Self::Output {
        &mut self.0[slot as usize]
    }
}

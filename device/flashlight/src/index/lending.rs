//! A slot of a file is lent to names of directories ([`crate::index::known_dirs`]) while paths need
//! more of them than have room in their own bytes.
//!
//! An operation by path mostly needs one file, and the next one another. So while one slot is lent,
//! files take turns in the other. Whether that is better is found out: each step of a path to a
//! directory whose name has no room in their own bytes is for it, each file that would still be
//! in its slot is against it.
//!
//! Invariants:
//! * No file is in a lent slot. Who needs it for a file takes it back ([`Index::next_file_slot`]):
//!   names may go at any time.
//! * What an operation brings into a slot stays there as long as without this: only a file that was
//!   not used since the last step of a path makes place for another while a slot is lent. One that
//!   only cleaning has changed stays: it is written when more of it has moved.

use crate::index::Index;
use crate::index::known_dirs::KnownDirs;
use crate::index::slots::{FileSlot, Files};
use flashkit_nand::Nand;

/// From when on names are worth more than a file, of [`MOST`].
const ENOUGH: u8 = 8;
const MOST: u8 = 15;

/// Whether names are worth a slot.
#[derive(Default)]
pub(crate) struct Lending {
    /// How much names were of use of late, and files were not.
    worth: u8,
    /// Of the number of the file that last made place because a slot is lent.
    left: u16,
}

impl Files<'_> {
    /// The slot that is lent.
    pub(crate) fn lent(&self) -> Option<FileSlot> {
        let mut slots = FileSlot::ALL.iter().copied();
        slots.find(|&i| self[i].lent)
    }
}

impl<N: Nand> Index<'_, N> {
    /// The names of directories that are kept.
    pub(crate) fn names(&mut self) -> KnownDirs<'_> {
        match self.files.lent() {
            Some(i) => KnownDirs::new(self.files[i].buf),
            None => self.known_dirs.again(),
        }
    }

    /// A step of a path begins: no file is in use.
    pub(crate) fn begin_step(&mut self) {
        self.files.0.iter_mut().for_each(|file| file.used = false);
    }

    /// A directory's name was looked for that their own bytes have no room for. A slot is lent
    /// when one is free, or has a file that need not be written.
    pub(crate) fn want_names(&mut self) {
        self.lending.worth = MOST.min(self.lending.worth + 1);
        if self.files.lent().is_some()
            || self.lending.worth < ENOUGH
            || self.known_dirs.size() >= self.store.page_size()
        {
            return;
        }
        let last = self.files.least_recent();
        let mut slots = [last, last.other()].into_iter();
        let Some(i) = slots.find(|&i| !self.files[i].dirty) else {
            return;
        };
        self.drop_file(i);
        self.files[i].lent = true;
        KnownDirs::new(self.files[i].buf).take(&mut self.known_dirs);
    }

    /// A file is used, by its number: it tells whether two slots for files are of use.
    pub(crate) fn want_file(&mut self, ino: u32) {
        let is_of_use = match self.file_slot(ino).map(|i| &self.files[i]) {
            Some(file) => !file.used && !file.recent,
            None => ino as u16 == self.lending.left,
        };
        if is_of_use {
            self.lending.worth = self.lending.worth.saturating_sub(2);
            if self.lending.worth == 0 {
                self.take_slot_back();
            }
        }
    }

    /// The slot for another file.
    pub(crate) fn next_file_slot(&mut self) -> FileSlot {
        let Some(lent) = self.files.lent() else {
            return self.files.least_recent();
        };
        let other = &self.files[lent.other()];
        if other.ino == 0 || !other.used && (!other.dirty || other.changed) {
            self.lending.left = other.ino as u16;
            return lent.other();
        }
        self.take_slot_back();
        lent
    }

    /// The lent slot is one for files again. The names that come first stay.
    fn take_slot_back(&mut self) {
        if let Some(i) = self.files.lent() {
            self.files[i].lent = false;
            self.known_dirs.take(&mut KnownDirs::new(self.files[i].buf));
        }
    }
}

//! Data that an fsync makes durable without its inode: pages that a recovery finds by their tags.

use crate::error::Fault;
use crate::format::inode::{Stamp, Time};
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::node::FileRef;
use crate::format::tag::{PAGES_MOST, Update, When};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::space::updates::GROWTH;
use flashkit_nand::{Nand, PageAddr};

/// Pages written to a file without an fsync in between, from which on they are no updates.
pub(crate) const UNSYNCED_MAX: u32 = 64;

impl<N: Nand> Index<'_, N> {
    /// When a write was, as its tags say it, if it can be an update.
    pub(crate) fn update(&self, node: FileRef, offset: u64, len: usize, now: Time) -> Option<When> {
        let ps = self.store.page_size();
        let i = (self.file_slot(node.ino)).filter(|&i| self.files[i].updates.is_some())?;
        let (pages, end) = (len / ps, offset.saturating_add(len as u64));
        let view = self.files[i].file();
        let ((first, rest), (last, _)) = (self.store.place_of(offset), self.store.place_of(end));
        let can_be = (1..=PAGES_MOST).contains(&pages)
            && len.is_multiple_of(ps)
            && rest == 0
            && (end <= view.size()
                || offset == view.size() && pages <= GROWTH && !self.is_half_cut(i))
            && view
                .fragment()
                .is_none_or(|f| !(first..last).contains(&f.page));
        self.takes_updates(i, pages as u32, last.into(), now)
            .filter(|_| can_be)
    }

    /// Maps a page of an update that has just been written.
    pub(crate) fn put_update(
        &mut self,
        i: FileSlot,
        index: u32,
        at: PageAddr,
    ) -> Result<(), Fault> {
        self.put_page(i, index, at)?;
        // Cleaning may have needed the slot meanwhile: then an fsync writes the inode.
        let slot = &mut self.files[i];
        slot.updates = slot.updates.map(|n| n + 1);
        Ok(())
    }

    /// Writes the scratch page, which ends with a piece that was appended, as an update. A program.
    pub(crate) fn write_tail(
        &mut self,
        i: FileSlot,
        index: u32,
        update: Update,
    ) -> Result<(), Fault> {
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self
            .store
            .append_update(&self.scratch, owner, index, update)?;
        self.put_update(i, index, at)
    }

    /// Whether the write of a piece of one page can be a tail.
    pub(crate) fn tail(&self, i: FileSlot, offset: u64, data: &[u8], now: Time) -> Option<Update> {
        let can_be = offset == self.files[i].file().size() && !self.is_half_cut(i);
        let index = offset / self.store.page_size() as u64;
        let when = self.takes_updates(i, 1, index, now).filter(|_| can_be)?;
        Update::tail(when, data)
    }

    /// Makes a cached file durable: writes its page, unless a recovery finds all that has changed.
    /// Writes that follow can be updates.
    pub(crate) fn sync_file(&mut self, i: FileSlot) -> Result<(), Fault> {
        if self.files[i].updates.is_none() || self.store.since.update_blocks > UPDATE_BLOCKS as u32
        {
            self.flush_file(i)?;
        }
        self.files[i].updates = Some(0);
        Ok(())
    }

    /// When a write of so many pages was, up to an index, if they can be updates.
    fn takes_updates(&self, i: FileSlot, pages: u32, index: u64, now: Time) -> Option<When> {
        let slot = &self.files[i];
        let form = self.store.tags?;
        let can_be = slot.updates.is_some_and(|n| n + pages <= UNSYNCED_MAX)
            && Update::holds(form, index)
            && self.store.takes_updates();
        let before = slot.file().time(Stamp::Modify);
        can_be.then(|| When::of(form, now, before)).flatten()
    }
}

//! Data that an fsync makes durable without its inode: pages that a recovery finds by their tags.

use crate::error::Fault;
use crate::format::inode::Time;
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::node::FileRef;
use crate::format::tag::{PAGES_MOST, Update};
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::space::updates::GROWTH;
use flashkit_nand::{Nand, PageAddr};

/// Pages written to a file without an fsync in between, from which on they are no updates.
pub(crate) const UNSYNCED_MAX: u32 = 64;

impl<N: Nand> Index<'_, N> {
    /// Whether a write can be an update.
    pub(crate) fn is_update(&self, node: FileRef, offset: u64, len: usize, now: Time) -> bool {
        let ps = self.store.page_size();
        let Some(i) = (self.file_slot(node.ino)).filter(|&i| self.files[i].updates.is_some())
        else {
            return false;
        };
        let (pages, end) = (len / ps, offset.saturating_add(len as u64));
        let view = self.files[i].file();
        let indexes = offset / ps as u64..end / ps as u64;
        (1..=PAGES_MOST).contains(&pages)
            && len.is_multiple_of(ps)
            && offset.is_multiple_of(ps as u64)
            && (end <= view.size()
                || offset == view.size() && pages <= GROWTH && !self.is_half_cut(i))
            && view
                .fragment()
                .is_none_or(|f| !indexes.contains(&u64::from(f.page)))
            && self.takes_updates(i, pages as u32, now)
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
        let can_be = offset == self.files[i].file().size()
            && !self.is_half_cut(i)
            && self.takes_updates(i, 1, now);
        can_be.then(|| Update::tail(now, data)).flatten()
    }

    /// Makes a cached file durable: writes its page, unless a recovery finds all that has changed.
    /// Writes that follow can be updates.
    pub(crate) fn sync_file(&mut self, i: FileSlot) -> Result<(), Fault> {
        if self.files[i].updates.is_none() || self.store.since.update_blocks > UPDATE_BLOCKS {
            self.flush_file(i)?;
        }
        self.files[i].updates = Some(0);
        Ok(())
    }

    /// Whether so many pages more of a file can be updates.
    pub(crate) fn takes_updates(&self, i: FileSlot, pages: u32, now: Time) -> bool {
        (self.files[i].updates).is_some_and(|n| n + pages <= UNSYNCED_MAX)
            && Update::holds(now)
            && self.store.takes_updates()
    }
}

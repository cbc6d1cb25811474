//! Updates: pages overwritten or appended so that an fsync has nothing more to write.
//!
//! A FileInode page for each fsync doubles what the overwrite of a page costs. An update is a write
//! of a few whole pages of a file that has just been synced, within it or at its end, or of a *tail*: a piece that
//! is appended to its last page and does not fit the inode. Its pages go to blocks that are
//! reserved for updates in the allocation log, and their tags say besides when that was, and how many
//! pages of the write follow. As long as nothing but updates has changed a file since its page on
//! flash was written, these pages are all that an fsync has to see on flash.
//!
//! After a cut ([`FlashLight::replay_updates`]) the blocks of updates taken since the checkpoint are
//! read. An update counts if all its pages are there and its file's inode page is older; the file is
//! changed as the write changed it. Invariants:
//! * The page of the inode that a recovery finds, with the updates after it, is a state of the file: other
//!   changes wait for an inode page, and from there on the file's writes are no updates until it is synced
//!   again.
//! * Where a page has been moved to since, or which map names it, needs no inode page: nothing that
//!   the inode page or the update named is erased before the next checkpoint, which writes the inode.
//! * The last update of all may be the page whose program was cut: what reads well now may fail
//!   later. It counts when it reads well again, and is written anew.

use crate::FlashLight;
use crate::error::Error;
use crate::format::area::{Area, UPDATE};
use crate::format::extent;
use crate::format::inode::Time;
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::node::FileRef;
use crate::format::tag::{self, PAGES_MOST, Update};
use crate::index::file::KEPT_BY_WRITES;
use crate::space::store::Store;
use flashkit_nand::{Nand, PageAddr};

/// Pages at the end of a file at most: with more of them the inode page weighs little, and they had better lie in the
/// file's own block than among what is overwritten.
const GROWTH: usize = 4;
/// Pages written to a file without an fsync in between, from which on they are no updates.
const UNSYNCED_MAX: u32 = 64;

/// Blocks that one update may have reserved, with some to spare for programs that fail.
const BLOCKS_MARGIN: usize = 12;
/// Free blocks that recoveries may need beside those for what the updates have changed: for each page of
/// them a map page, an index page and a quarter of an inode page at most.
const FOR_REPLAY: u32 = 15;

impl<N: Nand> Store<'_, N> {
    /// Counts what is reserved for updates, after a checkpoint.
    pub fn count_updates(&mut self) {
        self.updates = 0;
        let reserved = self.reserves[..self.reserved].iter();
        let reserved = reserved.filter(|r| r.1 == Area::Update as u8).count();
        self.update_blocks = reserved + usize::from(self.fronts[UPDATE].block != u32::MAX);
    }

    /// Whether there is room for the tags of updates.
    pub fn has_updates(&self) -> bool {
        self.geo.spare_size() as usize >= tag::UPDATE_SIZE
    }

    /// Blocks that a recovery from the last checkpoint cannot have, though they were free: those taken since,
    /// and those reserved.
    fn spent(&self) -> u32 {
        self.taken + self.reserved as u32
    }

    /// Whether a recovery could replay more updates.
    fn takes_updates(&self) -> bool {
        self.has_updates()
            && self.update_blocks + BLOCKS_MARGIN <= UPDATE_BLOCKS
            && self.spent() + FOR_REPLAY + self.updates * 3 / (2 * self.ppb()) <= self.sure
    }
}

impl<N: Nand> FlashLight<'_, N> {
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

    /// Writes whole pages, within the file or at its end. A program for each.
    pub(crate) fn write_update(
        &mut self,
        node: FileRef,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        let ps = self.store.page_size();
        let (first, pages) = ((offset / ps as u64) as u32, data.len() / ps);
        for (k, page) in data.chunks_exact(ps).enumerate() {
            let update = Update {
                time: now,
                left: (pages - 1 - k) as u8,
            };
            let written = self.write_update_page(node, first + k as u32, page, update);
            if let Err(e) = written {
                if let Some(i) = self.file_slot(node.ino) {
                    self.files[i].change();
                }
                return Err(e);
            }
        }
        Ok(())
    }

    fn write_update_page(
        &mut self,
        node: FileRef,
        index: u32,
        data: &[u8],
        update: Update,
    ) -> Result<(), Error<N::Error>> {
        self.make_room()?;
        let i = self.load_data_file(node)?;
        self.need_page()?;
        self.need_place(i, KEPT_BY_WRITES)?;
        self.file_room(i, 4 * extent::SIZE)?;
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self.store.append_update(data, owner, index, update)?;
        self.put_update(i, index, at)?;
        let mut view = self.files[i].file_mut();
        view.end_at_least((u64::from(index) + 1) * data.len() as u64);
        view.set_modified(update.time);
        Ok(())
    }

    /// Maps a page of an update that has just been written.
    fn put_update(&mut self, i: usize, index: u32, at: PageAddr) -> Result<(), Error<N::Error>> {
        self.put_page(i, index, at)?;
        // Cleaning may have needed the slot meanwhile: then an fsync writes the inode.
        let slot = &mut self.files[i];
        slot.updates = slot.updates.map(|n| n + 1);
        Ok(())
    }

    /// Writes the scratch page, which ends with a piece that was appended, as an update. A program.
    pub(crate) fn write_tail(
        &mut self,
        i: usize,
        index: u32,
        update: Update,
    ) -> Result<(), Error<N::Error>> {
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self
            .store
            .append_update(self.scratch, owner, index, update)?;
        self.put_update(i, index, at)
    }

    /// Whether the write of a piece of one page can be a tail.
    pub(crate) fn tail(&self, i: usize, offset: u64, data: &[u8], now: Time) -> Option<Update> {
        let can_be = offset == self.files[i].file().size()
            && !self.is_half_cut(i)
            && self.takes_updates(i, 1, now);
        can_be.then(|| Update::tail(now, data)).flatten()
    }

    /// Whether so many pages more of a file can be updates.
    fn takes_updates(&self, i: usize, pages: u32, now: Time) -> bool {
        (self.files[i].updates).is_some_and(|n| n + pages <= UNSYNCED_MAX)
            && Update::holds(now)
            && self.store.takes_updates()
    }

    /// Makes a cached file durable: writes its page, unless a recovery finds all that has changed.
    /// Writes that follow can be updates.
    pub(crate) fn sync_file(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        if self.files[i].updates.is_none() || self.store.update_blocks > UPDATE_BLOCKS {
            self.flush_file(i)?;
        }
        self.files[i].updates = Some(0);
        Ok(())
    }
}

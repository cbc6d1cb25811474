//! Updates: pages overwritten or appended so that an fsync has nothing more to write.
//!
//! A FileInode page for each fsync doubles what the overwrite of a page costs. An update is a write
//! of a few whole pages of a file that has just been synced, within it or at its end, or of a
//! *tail*: a piece that is appended to its last page and does not fit the inode. Its pages go to
//! blocks that are reserved for updates in the allocation log, and their tags say besides when that
//! was, and how many pages of the write follow. As long as nothing but updates has changed a file
//! since its page on flash was written, these pages are all that an fsync has to see on flash.
//!
//! After a cut ([`Index::replay_updates`]) the blocks of updates taken since the checkpoint are
//! read. An update counts if all its pages are there and its file's inode page is older; the file
//! is changed as the write changed it. Invariants:
//! * The page of the inode that a recovery finds, with the updates after it, is a state of the
//!   file: other changes wait for an inode page, and from there on the file's writes are no updates
//!   until it is synced again.
//! * Where a page has been moved to since, or which map names it, needs no inode page: nothing that
//!   the inode page or the update named is erased before the next
//!   checkpoint, which writes the inode.
//! * The last update of all may be the page whose program was cut: what reads well now may fail
//!   later. It counts when it reads well again, and is written anew.

use crate::cleaning::Volume;
use crate::error::Fault;
use crate::format::extent;
use crate::format::inode::Stamp;
use crate::format::node::FileRef;
use crate::format::tag::{Update, When};
use crate::index::file::KEPT_BY_WRITES;
use flashkit_nand::Nand;

impl<N: Nand> Volume<'_, N> {
    /// Writes whole pages, within the file or at its end. A program for each.
    pub(crate) fn write_update(
        &mut self,
        node: FileRef,
        offset: u64,
        data: &[u8],
        mut when: When,
    ) -> Result<(), Fault> {
        let ps = self.store().page_size();
        let (first, pages) = (self.store().place_of(offset).0, data.len() / ps);
        for (k, page) in data.chunks_exact(ps).enumerate() {
            let left = (pages - 1 - k) as u8;
            let update = Update { when, left };
            when = when.again();
            let written = self.write_update_page(node, first + k as u32, page, update);
            if let Err(e) = written {
                if let Some(i) = self.index().file_slot(node.ino) {
                    self.index_mut().files[i].change();
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
    ) -> Result<(), Fault> {
        self.make_room()?;
        let i = self.index_mut().load_data_file(node)?;
        self.index().need_page()?;
        self.index().need_place(i, KEPT_BY_WRITES)?;
        self.index_mut().file_room(i, 4 * extent::SIZE)?;
        let owner = self.durable.index.files[i]
            .file()
            .file_ref(self.durable.index.store.volume);
        let at = self.store_mut().append_update(data, owner, index, update)?;
        self.index_mut().put_update(i, index, at)?;
        let mut view = self.index_mut().files[i].file_mut();
        view.end_at_least((u64::from(index) + 1) * data.len() as u64);
        let time = update.when.time(view.time(Stamp::Modify));
        view.set_modified(time);
        Ok(())
    }
}

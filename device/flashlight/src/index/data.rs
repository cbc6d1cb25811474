//! Pages of a file's data, and the fragment in its inode that stands for part of one.

use crate::error::Fault;
use crate::format::extent::{self, Extent};
use crate::format::inode::{Fragment, Time};
use crate::format::node::FileRef;
use crate::format::special::Special;
use crate::index::Index;
use crate::index::slots::FileSlot;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Index<'_, N> {
    /// Brings a file into a slot that can have data.
    pub(crate) fn load_data_file(&mut self, node: FileRef) -> Result<FileSlot, Fault> {
        let i = self.load_file(node)?;
        let view = self.files[i].file();
        match Special::of(view.mode(), view.size()) {
            None => Ok(i),
            Some(_) => Err(Fault::Invalid),
        }
    }

    /// Puts the whole contents of one page of a cached file into the scratch page.
    pub(crate) fn assemble(&mut self, i: FileSlot, index: u32) -> Result<(), Fault> {
        let (view, ino) = (self.files[i].file(), self.files[i].ino);
        let fragment = view.fragment().filter(|f| f.page == index);
        let start = u64::from(index) * self.store.page_size() as u64;
        let is_all = |f: &Fragment| f.off == 0 && start + f.len as u64 >= view.size();
        let page = if fragment.as_ref().is_some_and(is_all) {
            // Nothing else needs to be looked up.
            PageAddr::NONE
        } else {
            self.map_lookup(i, index)?.page
        };
        let bytes = self.scratch.overwrite(&mut self.store.scratch_holds);
        if page.is_none() {
            bytes.fill(0);
        } else {
            self.store.read_data(page, bytes, ino, index)?;
        }
        let view = self.files[i].file();
        if let Some(f) = fragment {
            bytes[f.off..f.off + f.len].copy_from_slice(view.fragment_bytes());
        }
        Ok(())
    }

    /// Maps a page of a cached file that has just been written whole: what the inode kept of
    /// it is in there. Making room may write the inode: before that goes, as what of it was
    /// synced would be in neither.
    pub(crate) fn put_page(&mut self, i: FileSlot, index: u32, at: PageAddr) -> Result<(), Fault> {
        let view = self.files[i].file();
        let need = 4 * extent::SIZE;
        if let Some(f) = view.fragment().filter(|f| f.page == index) {
            if view.room() + f.len < need + crate::index::tree::SLACK {
                self.room_in_inode(i, need, true)?;
            }
            self.files[i].file_mut().fragment_resize(0, 0, 0);
        }
        self.map_insert(i, Extent::new(index, at.0, 1))
    }

    /// Writes the scratch page as one page of a cached file.
    pub(crate) fn write_scratch(&mut self, i: FileSlot, index: u32) -> Result<(), Fault> {
        if self.store.heads.data[i.data_head()].block == u32::MAX {
            // No lookup of the last extent here: the scratch page is in use.
            self.open_shared(i)?;
        }
        debug_assert!(self.store.scratch_holds.metadata().is_none());
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self
            .store
            .append_data(i.data_head(), &self.scratch, owner, index)?;
        self.put_page(i, index, at)
    }

    /// Writes the fragment to a page of its own. One read at most, one program.
    pub(crate) fn write_out_fragment(&mut self, i: FileSlot) -> Result<(), Fault> {
        match self.files[i].file().fragment() {
            Some(f) => self.write_out(i, f),
            None => Ok(()),
        }
    }

    pub(crate) fn write_out(&mut self, i: FileSlot, f: Fragment) -> Result<(), Fault> {
        self.assemble(i, f.page)?;
        self.write_scratch(i, f.page)
    }

    /// Makes the fragment cover `from..to` of its page; new bytes are zero.
    pub(crate) fn grow_fragment(&mut self, i: FileSlot, index: u32, from: usize, to: usize) {
        let mut view = self.files[i].file_mut();
        let old = view.fragment();
        view.fragment_resize(index, from, to - from);
        if let Some(shift) = old.map(|f| f.off - from).filter(|&s| s > 0) {
            let bytes = view.fragment_mut();
            let len = old.map_or(0, |f| f.len);
            bytes.copy_within(..len, shift);
            bytes[..shift].fill(0);
        }
    }

    /// The same for a cached file.
    #[inline(never)]
    pub(crate) fn truncate_cached(
        &mut self,
        i: FileSlot,
        size: u64,
        now: Time,
    ) -> Result<(), Fault> {
        self.files[i].change();
        let old = self.files[i].file().size();
        if size < old {
            let (index, off) = self.store.place_of(size);
            // Damage is met before anything has changed.
            self.prepare_truncate(i, size)?;
            if off > 0 && self.map_lookup(i, index)?.page.is_some() {
                self.assemble(i, index)?;
                self.scratch.overwrite(&mut self.store.scratch_holds)[off..].fill(0);
                self.write_scratch(i, index)?;
            }
            if let Some(f) = self.files[i].file().fragment() {
                self.cut_fragment(i, f, index, off);
            }
        }
        if size > old {
            self.finish_truncate(i)?;
        }
        let mut view = self.files[i].file_mut();
        view.set_size(size);
        view.set_modified(now);
        if size < old {
            self.map_truncate(i, self.store.pages_of(size))?;
        }
        Ok(())
    }

    fn cut_fragment(&mut self, i: FileSlot, f: Fragment, index: u32, off: usize) {
        let keep = match f.page.cmp(&index) {
            core::cmp::Ordering::Less => f.len,
            core::cmp::Ordering::Equal => f.len.min(off.saturating_sub(f.off)),
            core::cmp::Ordering::Greater => 0,
        };
        self.files[i]
            .file_mut()
            .fragment_resize(f.page, f.off, keep);
    }

    pub(crate) fn pages_stored(&mut self, node: FileRef) -> Result<Option<u32>, Fault> {
        let i = self.load_data_file(node)?;
        let view = self.files[i].file();
        match view.levels() {
            0 => return Ok(Some(view.pages_stored())),
            1 => {}
            _ => return Ok(None),
        }
        let pages = self.store.pages_of(view.size());
        let fragment = view.fragment().map(|f| f.page);
        let (mut index, mut stored) = (0u32, 0u32);
        while index < pages {
            let mapped = self.map_lookup(i, index)?;
            let end = index.saturating_add(mapped.run.max(1)).min(pages);
            stored += if mapped.page.is_some() {
                end - index
            } else {
                // The inode may hold a page of a hole.
                u32::from(fragment.is_some_and(|page| (index..end).contains(&page)))
            };
            index = end;
        }
        Ok(Some(stored))
    }

    pub(crate) fn next_edge(
        &mut self,
        node: FileRef,
        offset: u64,
        data: bool,
    ) -> Result<Option<u64>, Fault> {
        let i = self.load_data_file(node)?;
        let (size, ps) = (self.files[i].file().size(), self.store.page_size() as u64);
        let pages = self.store.pages_of(size);
        if offset >= size {
            return Ok(None);
        }
        let mut index = self.store.place_of(offset).0;
        while index < pages {
            let mapped = self.map_lookup(i, index)?;
            let end = index.saturating_add(mapped.run.max(1)).min(pages);
            let fragment = self.files[i].file().fragment().map(|f| f.page);
            let in_run = fragment.filter(|page| (index..end).contains(page));
            index = match (mapped.page.is_some(), data, in_run) {
                (true, true, _) => break,
                (true, false, _) => end,
                // A hole, with a page of it that the inode holds.
                (false, true, Some(page)) => {
                    index = page;
                    break;
                }
                (false, false, Some(page)) if page == index => index + 1,
                (false, true, None) => end,
                (false, false, _) => break,
            };
        }
        let at = offset.max(u64::from(index) * ps);
        Ok(if at < size {
            Some(at)
        } else {
            (!data).then_some(size)
        })
    }
}

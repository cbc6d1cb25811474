//! Holes: pages of a file that are given back, and where there are any.

use crate::FlashLight;
use crate::error::{Error, Fault};
use crate::format::extent::{self, Extent, INDEX_END};
use crate::format::inode::Time;
use crate::format::mappage::{ExtentPage, MapPage};
use crate::format::node::FileRef;
use crate::index::Index;
use crate::index::file::{CUT_NOTES, KEPT};
use crate::index::slots::FileSlot;
use crate::index::tree::{self, Changes, EXTENT};
use crate::space::latch::MayProgram;
use flashkit_nand::Nand;

/// How often room is made for the notes of a part of a hole: once, but
/// where draining has used it up.
const TRIES: usize = 4;

impl<N: Nand> FlashLight<'_, N> {
    /// Makes a range of a file read as zeros, and gives back the pages that are in it as a whole.
    /// The size stays; what lies beyond it is left alone. Durable as data is; after a power cut
    /// each page is as it was, or zeros.
    ///
    /// A page at either end of the range that is in it in part costs a read and a program, if it is
    /// stored. Each extent map of the range costs a read and a program, and a split one more.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a special file.
    pub fn punch(
        &mut self,
        node: FileRef,
        offset: u64,
        len: u64,
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            let i = fs.index_mut().load_data_file(node)?;
            let (size, ps) = (
                fs.index().files[i].file().size(),
                fs.store().page_size() as u64,
            );
            let end = offset.saturating_add(len).min(size);
            let mut at = offset;
            while at < end {
                fs.volume.make_room()?;
                let i = fs.index_mut().load_data_file(node)?;
                fs.index().need_place(i, KEPT)?;
                let (index, off) = fs.store().place_of(at);
                // Beyond the end of the file a page holds zeros.
                let whole = if end == size {
                    fs.store().pages_of(end)
                } else {
                    fs.store().place_of(end).0
                };
                if off == 0 && index < whole {
                    at = u64::from(fs.index_mut().punch_pages(i, index, whole)?) * ps;
                } else {
                    let n = (ps - off as u64).min(end - at);
                    fs.index_mut().zero_part(i, index, off, off + n as usize)?;
                    at += n;
                }
                // Making room may have written the inode without this.
                fs.index_mut().files[i].file_mut().set_modified(now);
                fs.index_mut().files[i].change();
            }
            Ok(())
        })
    }

    /// The first byte from `offset` on that is stored, page by page; none when there is none up to
    /// the end. A read for each extent map on the way.
    pub fn next_data(
        &mut self,
        node: FileRef,
        offset: u64,
    ) -> Result<Option<u64>, Error<N::Error>> {
        self.told(|fs| {
            fs.volume
                .reading(|volume| volume.index_mut().next_edge(node, offset, true))
        })
    }

    /// The first byte from `offset` on that is not stored, or the end of the file; none from the
    /// end on. A read for each extent map on the way.
    pub fn next_hole(
        &mut self,
        node: FileRef,
        offset: u64,
    ) -> Result<Option<u64>, Error<N::Error>> {
        self.told(|fs| {
            fs.volume
                .reading(|volume| volume.index_mut().next_edge(node, offset, false))
        })
    }

    /// How many pages hold data of a file; none of one with so many extent maps that index pages
    /// lead to them. A read for each extent map.
    pub fn pages_stored(&mut self, node: FileRef) -> Result<Option<u32>, Error<N::Error>> {
        self.told(|fs| {
            fs.volume
                .reading(|volume| volume.index_mut().pages_stored(node))
        })
    }
}

impl<N: Nand> Index<'_, N> {
    /// Writes zeros to a piece of one page of a cached file.
    fn zero_part(&mut self, i: FileSlot, index: u32, from: usize, to: usize) -> Result<(), Fault> {
        self.file_room(i, 4 * extent::SIZE)?;
        if self.map_lookup(i, index)?.page.is_some() {
            self.assemble(i, index)?;
            self.scratch.overwrite(&mut self.store.scratch_holds)[from..to].fill(0);
            return self.write_scratch(i, index);
        }
        let mut view = self.files[i].file_mut();
        if let Some(f) = view.fragment().filter(|f| f.page == index) {
            let (a, b) = (from.max(f.off), to.min(f.off + f.len));
            if a < b {
                view.fragment_mut()[a - f.off..b - f.off].fill(0);
                self.files[i].change();
            }
        }
        Ok(())
    }

    /// Unmaps pages of a cached file from `first` to before `last` at most: those that one extent
    /// map covers. Returns where it has come to.
    fn punch_pages(&mut self, i: FileSlot, first: u32, last: u32) -> Result<u32, Fault> {
        // For both steps: what makes room moves records from the log to the map.
        for _ in 0..TRIES {
            self.truncate_room(i, CUT_NOTES)?;
            // Making room may have moved records to the index page.
            self.move_masks(i, first, last)?;
            self.drain_at(i, first)?;
            if self.files[i].file().room() >= CUT_NOTES * extent::SIZE {
                break;
            }
        }
        self.files[i].change();
        let end = self.punch_map(i, first, last)?.min(last);
        self.log_cut(i, first, end, MayProgram);
        let mut view = self.files[i].file_mut();
        if view
            .fragment()
            .is_some_and(|f| (first..end).contains(&f.page))
        {
            view.fragment_resize(0, 0, 0);
        }
        Ok(end)
    }

    /// Unmaps pages in the one extent map that covers `first`, where the log goes on
    /// mapping what it does. Returns where that map ends. Before the log, so that
    /// nothing shows that it overrides.
    fn punch_map(&mut self, i: FileSlot, first: u32, last: u32) -> Result<u32, Fault> {
        let view = self.files[i].file();
        if view.levels() == 0 {
            return Ok(INDEX_END);
        }
        let owner = view.file_ref(self.store.volume);
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let store = &mut self.store;
        let target = tree::target(store, EXTENT, scratch, &view.any(), Some(first), INDEX_END)?;
        self.load_target(EXTENT, &target, owner.ino)?;
        let page: ExtentPage<&[u8]> = MapPage(&*self.scratch);
        let r = page.search(first, 0);
        let before = r.checked_sub(1).map(|r| Extent::decode(page.record(r)));
        let after = (r < page.count()).then(|| Extent::decode(page.record(r)));
        if before.is_none_or(|e| e.end() <= first) && after.is_none_or(|e| e.index >= last) {
            return Ok(target.end);
        }
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: ExtentPage<&mut [u8]> = MapPage(scratch);
        page.set_owner(owner);
        page.set_range(target.first, target.end);
        let mut changes = Changes::new();
        if page.count() == page.capacity() {
            let (store, mid) = (&mut self.store, page.count() / 2);
            let put = tree::split::<{ extent::SIZE }, N>(store, EXTENT, page.0, first, mid)?;
            changes.push(put);
        }
        let end = page.end_key();
        while let Some(e) = page.extent_cut(first, last.min(end)) {
            self.store.invalidate_run(e.page, e.count, MayProgram);
        }
        self.put_extent_map(i, &target, changes)?;
        Ok(end)
    }
}

//! A file becomes shorter, or ends: its pages and maps are free.

use crate::error::{Bool, Fault, sound};
use crate::format::area::LogArea;
use crate::format::extent::{self, Extent, FREED_MAP, INDEX_END};
use crate::format::header::Kind;
use crate::format::inode::FileView;
use crate::format::mappage::{ExtentPage, MapPage};
use crate::index::Index;
use crate::index::file::{CUT_NOTES, LOG_CUT_NOTES};
use crate::index::slots::FileSlot;
use crate::index::tree::{self, Changes, EXTENT, MapTarget};
use crate::index::waiting::Waiting;
use crate::space::latch::{MayProgram, Stopped};
use crate::space::store::Store;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Store<'_, N> {
    /// Frees what a file's page names itself, but for maps.
    fn free_named(&mut self, file: &FileView<'_>, may: MayProgram) {
        for r in 0..file.record_search(INDEX_END, 0) {
            let e = Extent::decode(file.record(r));
            self.invalidate_run(e.page, e.count, may);
        }
        let mut n = 0;
        while let Some(page) = file.names_page(n) {
            self.invalidate(page, may);
            n += 1;
        }
        self.invalidate(file.xattr(), may);
    }
}

impl<N: Nand> Index<'_, N> {
    /// Frees everything a cached file has on flash, its own page included. The file is not to be
    /// used again; that it is gone is made durable by its directory's page.
    pub(crate) fn free_file(&mut self, i: FileSlot) -> Result<(), Fault> {
        self.store.free_named(&self.files[i].file(), MayProgram);
        for p in 0..self.files[i].file().pointers() {
            let view = self.files[i].file();
            self.free_map(i, view.pointer(p).1, view.levels())?;
        }
        self.store.invalidate(self.files[i].loc, MayProgram);
        self.files[i].clear();
        Ok(())
    }

    /// The same for a file in no slot, without extent maps, by the place of its page.
    /// One read; what a page that cannot be read names goes on counting as valid.
    pub(crate) fn free_plain_file(&mut self, at: PageAddr) -> Result<(), Fault> {
        if sound(self.load_scratch(at, Kind::File))?.is_some() {
            self.store
                .free_named(&FileView::on(&*self.scratch), MayProgram);
        }
        self.store.invalidate(at, MayProgram);
        Ok(())
    }

    /// Frees an extent map (`levels` 1), or an index page with what waits there and its maps (2),
    /// of a cached file, but for what records above them mask. What one that cannot be read, or is
    /// another's, leads to goes on counting as valid.
    pub(crate) fn free_map(&mut self, i: FileSlot, at: PageAddr, levels: u8) -> Result<(), Fault> {
        if levels != 2 {
            return self.free_map_below(i, at, None);
        }
        let mut p = 0;
        while sound(self.load_scratch(at, Kind::ExtentIndex))?.is_some() {
            let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            if p >= page.count() || page.owner().ino != self.files[i].file().ino() {
                break;
            }
            let ((_, map), waiting) = (page.pointer(p), Waiting::below(&page, at, p));
            if p == 0 {
                self.for_each_valid_run_waiting(i, &mut |store, e| {
                    store.invalidate_run(e.page, e.count, MayProgram);
                });
            }
            self.free_map_below(i, map, Some(&waiting))?;
            p += 1;
        }
        self.store.invalidate(at, MayProgram);
        Ok(())
    }

    /// The same for an extent map that so much waits for.
    pub(crate) fn free_map_below(
        &mut self,
        i: FileSlot,
        at: PageAddr,
        waiting: Option<&Waiting>,
    ) -> Result<(), Fault> {
        self.store.look_into(at)?;
        if sound(self.load_scratch(at, Kind::ExtentMap))?.is_some() {
            let page: ExtentPage<&[u8]> = MapPage(&*self.scratch);
            if page.owner().ino == self.files[i].file().ino() {
                sound(self.for_each_valid_run(i, waiting, &mut |store, e| {
                    store.invalidate_run(e.page, e.count, MayProgram);
                }))?;
            }
        }
        self.store.invalidate(at, MayProgram);
        Ok(())
    }

    /// Makes sure that [`Index::map_truncate`] will not fail for damage, also when a page is
    /// written before it: there is room, and the maps that are cut through can be read. Maps
    /// beyond `size` are dropped unread, if need be.
    pub(crate) fn prepare_truncate(&mut self, i: FileSlot, size: u64) -> Result<(), Fault> {
        let (end, is_whole) = (self.store.pages_of(size), self.store.place_of(size).1 == 0);
        if self.files[i].file().levels() > 0 {
            self.move_masks(i, end, INDEX_END)?;
            self.drain_at(i, end)?;
        }
        // Making room may give a file its first map.
        for _ in 0..2 {
            // For a page of data and the cut: between the size and the cut the
            // inode is not to be written.
            let need = (4 + self.cut_notes(i)) * extent::SIZE;
            let view = self.files[i].file();
            let cut = if is_whole { view.fragment_from(end) } else { 0 };
            if view.room() + cut < need + tree::SLACK {
                self.file_room(i, need)?;
            }
        }
        if self.files[i].file().levels() == 0 {
            return Ok(());
        }
        let view = self.files[i].file();
        let p = view.pointer_for(end);
        if is_beyond(p, view.pointer(p).0, end) {
            return Ok(());
        }
        self.load_extent_map(i, end).map(|_| ())
    }

    /// Records that a truncation takes at most until what is left of it are whole maps
    /// beyond the size: the cut of the log, and in a file with maps an index page and
    /// the map that is cut through.
    fn cut_notes(&self, i: FileSlot) -> usize {
        match self.files[i].file().levels() {
            0 => LOG_CUT_NOTES,
            _ => LOG_CUT_NOTES + CUT_NOTES,
        }
    }

    /// Makes room for the notes of a part of a truncation, which has begun: notes before them are
    /// written when nothing else can go.
    pub(crate) fn truncate_room(&mut self, i: FileSlot, notes: usize) -> Result<(), Fault> {
        match self.file_room(i, notes * extent::SIZE) {
            Err(e) if e.is_damage() && !self.store.nand.is_stopped() => {}
            r => return r,
        }
        self.files[i].dirty = true;
        self.flush_file(i)
    }

    /// Unmaps all pages from `end` on.
    pub(crate) fn map_truncate(&mut self, i: FileSlot, end: u32) -> Result<(), Fault> {
        let cut = self.cut_maps(i, end);
        self.cut_in_part(cut)
    }

    /// Of a truncation that has not come to its end, what is in RAM may map pages that are free:
    /// nothing more is written. Damage was looked for before.
    fn cut_in_part(&mut self, cut: Result<(), Fault>) -> Result<(), Fault> {
        if cut.is_err_and(Fault::is_damage) {
            self.store.nand.stop(Stopped::HalfDone);
        }
        self.not_in_part(cut)
    }

    /// The inode may be written before all is done, with the new size: then whole maps beyond it
    /// tell what is left ([`Index::finish_truncate`]). So the map that `end` falls into is cut
    /// first, and until then there is room for all notes.
    fn cut_maps(&mut self, i: FileSlot, end: u32) -> Result<(), Fault> {
        self.truncate_room(i, self.cut_notes(i))?;
        self.files[i].change();
        // Making room may have moved records to where the cut goes through.
        self.move_masks(i, end, INDEX_END)?;
        self.log_cut(i, end, INDEX_END, MayProgram);
        self.drain_at(i, end)?;
        let view = self.files[i].file();
        if view.levels() > 0 {
            let p = view.pointer_for(end);
            let (key, levels) = (view.pointer(p).0, view.levels());
            if !is_beyond(p, key, end) {
                if levels == 2 {
                    self.truncate_index(i, p, end)?;
                }
                self.truncate_map(i, end)?;
            }
        }
        self.drop_maps(i, end)
    }

    /// Drops the maps that cover nothing before `end`, the last first.
    fn drop_maps(&mut self, i: FileSlot, end: u32) -> Result<(), Fault> {
        while self.has_maps_from(i, end) {
            self.notes_room(i)?;
            // Making room may have written the inode.
            self.files[i].change();
            let view = self.files[i].file();
            let (last, levels) = (view.pointers() - 1, view.levels());
            let (_, at) = view.pointer(last);
            self.free_map(i, at, levels)?;
            self.note_freed(i, Extent::new(FREED_MAP, at.0, 0));
            let mut view = self.files[i].file_mut();
            view.pointer_remove(last);
            if last == 0 {
                view.set_levels(0);
            }
        }
        Ok(())
    }

    /// Makes room for the notes of a map that is dropped: those before them are written,
    /// before records are moved to maps. That may split these, and put those that are left
    /// into an index page with others.
    fn notes_room(&mut self, i: FileSlot) -> Result<(), Fault> {
        if self.files[i].file().room() < CUT_NOTES * extent::SIZE + tree::SLACK {
            self.files[i].dirty = true;
            self.flush_file(i)?;
        }
        self.truncate_room(i, CUT_NOTES)
    }

    /// Whether the last of a file's maps covers nothing before `end`.
    fn has_maps_from(&self, i: FileSlot, end: u32) -> bool {
        let view = self.files[i].file();
        let last = view.pointers().checked_sub(1);
        last.is_some_and(|last| is_beyond(last, view.pointer(last).0, end))
    }

    /// Whether a truncation of a file has not come to its end when power was cut: maps
    /// are left beyond its size.
    pub(crate) fn is_half_cut(&self, i: FileSlot) -> bool {
        self.has_maps_from(i, self.pages_of(i))
    }

    /// Pages that a file's size covers.
    fn pages_of(&self, i: FileSlot) -> u32 {
        self.store.pages_of(self.files[i].file().size())
    }

    /// Before a file grows: the rest of a truncation that was cut. What it has left would be seen.
    pub(crate) fn finish_truncate(&mut self, i: FileSlot) -> Result<(), Fault> {
        let dropped = self.drop_maps_beyond(i);
        self.cut_in_part(dropped)
    }

    /// Drops the maps beyond a file's size. An error has left some: they are as they were.
    pub(crate) fn drop_maps_beyond(&mut self, i: FileSlot) -> Result<(), Fault> {
        self.drop_maps(i, self.pages_of(i))
    }

    /// Drops the maps from `end` on from an index page, and what waits there for them; `false` when
    /// there is nothing.
    fn truncate_index(&mut self, i: FileSlot, root: usize, end: u32) -> Result<Bool, Fault> {
        let (key, at) = self.files[i].file().pointer(root);
        let ino = self.files[i].ino;
        let mut p = 1;
        loop {
            self.load_map_page(EXTENT.index, (key, at), ino)?;
            let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            if p >= page.count() {
                break;
            }
            let ((first, map), waiting) = (page.pointer(p), Waiting::below(&page, at, p));
            if first >= end {
                self.free_map_below(i, map, Some(&waiting))?;
            }
            p += 1;
        }
        if !self.cut_index(i, end, MayProgram) {
            return Ok(Bool::False);
        }
        let len = MapPage::<&[u8], 8>::on(&self.scratch).len();
        let new = self.append_scratch(LogArea::Extent, len, Kind::ExtentIndex, at)?;
        self.note_replaced(i, at, new, MayProgram);
        self.files[i].file_mut().pointer_set(root, key, new);
        Ok(Bool::True)
    }

    /// Unmaps the pages from `end` on in the one map that `end` falls into.
    fn truncate_map(&mut self, i: FileSlot, end: u32) -> Result<(), Fault> {
        if !self.load_extent_map(i, end)?.is_true() {
            return Ok(());
        }
        let old = self.store.scratch_holds.metadata();
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: ExtentPage<&mut [u8]> = MapPage(page);
        let n = page.count();
        if n == 0 || Extent::decode(page.record(n - 1)).end() <= end {
            return Ok(());
        }
        while let Some(e) = page.extent_cut(end, INDEX_END) {
            self.store.invalidate_run(e.page, e.count, MayProgram);
        }
        let view = self.files[i].file();
        page.set_owner(view.file_ref(self.store.volume));
        let target = MapTarget {
            root: view.pointer_for(end),
            page: old,
            first: page.first_key(),
            end: INDEX_END,
        };
        self.put_extent_map(i, &target, Changes::new())
    }
}

/// Whether a map, of this place in its file and with this key, covers nothing before `end`.
fn is_beyond(place: usize, key: u32, end: u32) -> bool {
    key >= end && (place > 0 || end == 0)
}

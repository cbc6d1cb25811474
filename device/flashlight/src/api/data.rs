//! Reading, writing and truncating file data.
//!
//! Whole pages go from the caller's buffer to flash and back without a copy. A piece of a page
//! is kept in the inode as its fragment while it fits, so that a small file, or a short append
//! with fsync, costs no page but the inode's. Bytes of a page beyond the end of its file are zero.

use crate::api::ops::Special;
use crate::error::{Error, FILE_DATA, sound};
use crate::format::extent::{self, Extent, INDEX_END};
use crate::format::inode::{Fragment, Time};
use crate::format::tag::{self, Tag, Update};
use crate::index::file::KEPT_BY_WRITES;
use crate::space::store::{Head, REMNANTS};
use crate::{FileRef, FlashLight};
use flashkit_nand::{Nand, PageAddr};

/// Blocks of others that files go on in, until one block fewer is kept for who left it.
const APART: u16 = 16;

impl<N: Nand> FlashLight<'_, N> {
    /// Largest file in bytes.
    pub fn file_size_max(&self) -> u64 {
        u64::from(INDEX_END) * u64::from(self.store.geo.page_size())
    }

    /// Reads from a file; returns fewer bytes than asked only at its end. One page read for each
    /// page touched, and one for each extent map on the way.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a page is unreadable or fails its checksum; [`Error::Invalid`] for a
    /// special file.
    pub fn read(
        &mut self,
        node: FileRef,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, Error<N::Error>> {
        let i = self.reading(|fs| fs.load_data_file(node))?;
        let size = self.files[i].file().size();
        if offset >= size {
            return Ok(0);
        }
        let want = (buf.len() as u64).min(size - offset) as usize;
        let ps = self.store.page_size();
        let mut done = 0;
        while done < want {
            let at = offset + done as u64;
            let (index, off) = ((at / ps as u64) as u32, (at % ps as u64) as usize);
            let n = (ps - off).min(want - done);
            self.read_part(i, index, off, &mut buf[done..done + n])?;
            done += n;
        }
        Ok(want)
    }

    /// Brings a file into a slot that can have data.
    pub(crate) fn load_data_file(&mut self, node: FileRef) -> Result<usize, Error<N::Error>> {
        let i = self.load_file(node)?;
        let view = self.files[i].file();
        match Special::of(view.mode(), view.size()) {
            None => Ok(i),
            Some(_) => Err(Error::Invalid),
        }
    }

    /// Reads a piece of one page of a cached file.
    fn read_part(
        &mut self,
        i: usize,
        index: u32,
        off: usize,
        out: &mut [u8],
    ) -> Result<(), Error<N::Error>> {
        let ps = self.store.page_size();
        let fragment = self.files[i].file().fragment().filter(|f| f.page == index);
        if let Some(f) = fragment.filter(|f| f.off <= off && f.off + f.len >= off + out.len()) {
            let bytes = self.files[i].file();
            out.copy_from_slice(&bytes.fragment_bytes()[off - f.off..off - f.off + out.len()]);
            return Ok(());
        }
        let (page, ino) = (self.map_lookup(i, index)?.page, self.files[i].ino);
        if page.is_none() {
            out.fill(0);
        } else if out.len() == ps {
            self.store.read_data(page, out, ino, index)?;
        } else if self.store.has_tags() {
            // The checksum covers the whole page.
            self.store.scratch_at = PageAddr::NONE;
            self.store.read_data(page, self.scratch, ino, index)?;
            out.copy_from_slice(&self.scratch[off..off + out.len()]);
        } else {
            let status = self.store.nand.read(page, off as u32, out, &mut [])?;
            if !status.is_readable() {
                return Err(Error::Corrupt(page, FILE_DATA));
            }
        }
        if let Some(f) = fragment {
            let (a, b) = (off.max(f.off), (off + out.len()).min(f.off + f.len));
            if a < b {
                let bytes = self.files[i].file();
                out[a - off..b - off]
                    .copy_from_slice(&bytes.fragment_bytes()[a - f.off..b - f.off]);
            }
        }
        Ok(())
    }

    /// Puts the whole contents of one page of a cached file into the scratch page.
    pub(crate) fn assemble(&mut self, i: usize, index: u32) -> Result<(), Error<N::Error>> {
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
        self.store.scratch_at = PageAddr::NONE;
        if page.is_none() {
            self.scratch.fill(0);
        } else {
            self.store.read_data(page, self.scratch, ino, index)?;
        }
        let view = self.files[i].file();
        if let Some(f) = fragment {
            self.scratch[f.off..f.off + f.len].copy_from_slice(view.fragment_bytes());
        }
        Ok(())
    }

    /// Writes all of `data` at `offset`, extending the file as needed. Durable after
    /// [`FlashLight::fsync`]; a program for each whole page, and for a piece of a page at most
    /// one read and one program. An fsync of whole pages that are overwritten, in writes of up to 16
    /// pages, after another fsync of the same file, costs nothing more (`updates.rs`).
    ///
    /// # Errors
    /// [`Error::NoSpace`] when full: the pages before are written. [`Error::TooBig`] beyond
    /// [`FlashLight::file_size_max`]. [`Error::Invalid`] for a special file.
    pub fn write(
        &mut self,
        node: FileRef,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.writable()?;
        match offset.checked_add(data.len() as u64) {
            Some(end) if end <= self.file_size_max() => {}
            _ => return Err(Error::TooBig),
        }
        if self.is_update(node, offset, data.len(), now) {
            return self.write_update(node, offset, data, now);
        }
        self.write_pages(node, offset, data, now, true)
    }

    /// Writes page after page, making `room` before each. Without that nothing but data pages goes
    /// to flash in between, which must be few.
    pub(crate) fn write_pages(
        &mut self,
        node: FileRef,
        offset: u64,
        data: &[u8],
        now: Time,
        room: bool,
    ) -> Result<(), Error<N::Error>> {
        let ps = self.store.page_size();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, off) = ((at / ps as u64) as u32, (at % ps as u64) as usize);
            let n = (ps - off).min(data.len() - done);
            if room {
                self.make_room()?;
            }
            let i = self.load_data_file(node)?;
            self.need_page()?;
            self.need_place(i, KEPT_BY_WRITES)?;
            if at + n as u64 > self.files[i].file().size() {
                self.finish_truncate(i)?;
            }
            let piece = &data[done..done + n];
            if n == ps {
                self.files[i].change();
                self.write_page(i, index, piece)?;
            } else {
                let alone = room && n == data.len();
                let tail = alone.then(|| self.tail(i, at, piece, now)).flatten();
                if let Err(e) = self.write_part(i, index, off, piece, tail) {
                    self.files[i].change();
                    return Err(e);
                }
            }
            let mut view = self.files[i].file_mut();
            view.end_at_least(at + n as u64);
            view.set_modified(now);
            done += n;
        }
        Ok(())
    }

    /// Writes one whole page of a cached file.
    fn write_page(&mut self, i: usize, index: u32, data: &[u8]) -> Result<(), Error<N::Error>> {
        self.file_room(i, 4 * extent::SIZE)?;
        self.choose_front(i, index)?;
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self.store.append_data(i, data, owner, index)?;
        self.put_page(i, index, at)
    }

    /// Maps a page of a cached file that has just been written whole: what the inode kept of it is in there. Making room may
    /// write the inode: before that goes, as what of it was synced would be in neither.
    pub(crate) fn put_page(
        &mut self,
        i: usize,
        index: u32,
        at: PageAddr,
    ) -> Result<(), Error<N::Error>> {
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
    pub(crate) fn write_scratch(&mut self, i: usize, index: u32) -> Result<(), Error<N::Error>> {
        let scratch = core::mem::take(&mut self.scratch);
        let result = self.write_scratch_front(i, index, scratch);
        self.scratch = scratch;
        let at = result?;
        self.put_page(i, index, at)
    }

    fn write_scratch_front(
        &mut self,
        i: usize,
        index: u32,
        scratch: &[u8],
    ) -> Result<PageAddr, Error<N::Error>> {
        if self.store.fronts[i].block == u32::MAX {
            // No lookup of the last extent here: the scratch page is in use.
            self.open_shared(i)?;
        }
        let owner = self.files[i].file().file_ref(self.store.volume);
        self.store.append_data(i, scratch, owner, index)
    }

    /// Writes a piece of one page: into the fragment when it fits, else with the rest of its page, which can
    /// be a tail.
    fn write_part(
        &mut self,
        i: usize,
        index: u32,
        off: usize,
        data: &[u8],
        tail: Option<Update>,
    ) -> Result<(), Error<N::Error>> {
        if let Some(f) = self.files[i].file().fragment().filter(|f| f.page != index)
            && sound(self.write_out(i, f))?.is_none()
        {
            // What it lies over cannot be read: it stays.
            return self.write_over(i, index, off, data, None);
        }
        let view = self.files[i].file();
        let old = view.fragment().unwrap_or(Fragment {
            page: index,
            off,
            len: 0,
        });
        let (from, to) = (old.off.min(off), (old.off + old.len).max(off + data.len()));
        let gap = old.len > 0 && (off > old.off + old.len || off + data.len() < old.off);
        // A quarter of the page beside many extents keeps their log useful. What is appended is worth more: in two
        // pieces a page is written twice.
        let ps = self.store.page_size();
        let appends = u64::from(index) * ps as u64 + (off + data.len()) as u64 >= view.size();
        let most = match (view.records() < 16, appends) {
            (true, _) => ps,
            (_, true) => ps * 5 / 8,
            (_, false) => ps / 4,
        };
        let need = to - from + crate::index::tree::SLACK + 4 * extent::SIZE;
        if appends
            && (ps / 4 + 1..=most).contains(&(to - from))
            && need > view.room() + old.len
            && view.record_search(INDEX_END, 0) >= 16
        {
            self.file_migrate(i, None)?;
        }
        let fits = to - from <= most && need <= self.files[i].file().room() + old.len;
        if fits && (!gap || self.map_lookup(i, index)?.page.is_none()) {
            self.files[i].change();
            self.grow_fragment(i, index, from, to);
            let mut view = self.files[i].file_mut();
            view.fragment_mut()[off - from..off - from + data.len()].copy_from_slice(data);
            return Ok(());
        }
        self.write_over(i, index, off, data, tail)
    }

    /// Writes one page anew with a piece of it changed.
    fn write_over(
        &mut self,
        i: usize,
        index: u32,
        off: usize,
        data: &[u8],
        tail: Option<Update>,
    ) -> Result<(), Error<N::Error>> {
        if tail.is_none() {
            self.files[i].change();
        }
        self.file_room(i, 4 * extent::SIZE)?;
        self.assemble(i, index)?;
        self.scratch[off..off + data.len()].copy_from_slice(data);
        match tail {
            Some(update) => self.write_tail(i, index, update),
            None => self.write_scratch(i, index),
        }
    }

    /// Makes the fragment cover `from..to` of its page; new bytes are zero.
    fn grow_fragment(&mut self, i: usize, index: u32, from: usize, to: usize) {
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

    /// Writes the fragment to a page of its own. One read at most, one program.
    pub(crate) fn write_out_fragment(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        match self.files[i].file().fragment() {
            Some(f) => self.write_out(i, f),
            None => Ok(()),
        }
    }

    fn write_out(&mut self, i: usize, f: Fragment) -> Result<(), Error<N::Error>> {
        self.assemble(i, f.page)?;
        self.write_scratch(i, f.page)
    }

    /// Changes a file's size: cuts it, or extends it by a hole.
    pub fn truncate(&mut self, node: FileRef, size: u64, now: Time) -> Result<(), Error<N::Error>> {
        self.writable()?;
        if size > self.file_size_max() {
            return Err(Error::TooBig);
        }
        self.make_room()?;
        let i = self.load_data_file(node)?;
        self.truncate_cached(i, size, now)
    }

    /// The same for a cached file.
    pub(crate) fn truncate_cached(
        &mut self,
        i: usize,
        size: u64,
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.files[i].change();
        let ps = self.store.page_size() as u64;
        let old = self.files[i].file().size();
        if size < old {
            let off = (size % ps) as usize;
            let index = (size / ps) as u32;
            // Damage is met before anything has changed.
            self.prepare_truncate(i, size)?;
            if off > 0 && self.map_lookup(i, index)?.page.is_some() {
                self.assemble(i, index)?;
                self.scratch[off..].fill(0);
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
            self.map_truncate(i, size.div_ceil(ps) as u32)?;
        }
        Ok(())
    }

    fn cut_fragment(&mut self, i: usize, f: Fragment, index: u32, off: usize) {
        let keep = match f.page.cmp(&index) {
            core::cmp::Ordering::Less => f.len,
            core::cmp::Ordering::Equal => f.len.min(off.saturating_sub(f.off)),
            core::cmp::Ordering::Greater => 0,
        };
        self.files[i]
            .file_mut()
            .fragment_resize(f.page, f.off, keep);
    }

    /// Chooses the block that a file's next page goes to (paper, 4.3: erase-unit allocation).
    ///
    /// A file goes on in the block where its last page is. A new file gets a block of its own,
    /// unless the file before it was small: then the two share one, until the file has grown past
    /// a quarter of a block. Overwrites of files in turn share blocks too.
    fn choose_front(&mut self, i: usize, index: u32) -> Result<(), Error<N::Error>> {
        let share = self.store.ppb() / 4;
        let head = self.store.fronts[i];
        if head.block != u32::MAX {
            if self.has_many_tails() {
                if head.next >= self.store.ppb() {
                    return self.open_roomiest(i);
                }
            } else if self.shared[i] && index >= share {
                self.store.park(i);
                self.shared[i] = false;
            }
            return Ok(());
        }
        self.shared[i] = false;
        if index > 0 && self.store.remnants.len > 0 {
            let last = sound(self.map_lookup(i, index - 1))?.map_or(PageAddr::NONE, |m| m.page);
            if last.is_some() {
                let geo = self.store.geo;
                let head = Head {
                    block: geo.block_of(last).0,
                    next: geo.index_of(last) + 1,
                };
                let found = self.store.remnants.find(head.block);
                if let Some(r) = found.filter(|&r| self.store.remnants.get(r) == head) {
                    let others = (self.store.remnants.len - r) as u16;
                    self.apart = self.apart.max(APART * others);
                    return self.store.unpark(i, r);
                }
            }
        }
        let page_size = self.store.page_size() as u64;
        if index < share || self.has_many_tails() {
            self.open_shared(i)?;
        } else if u64::from(index) * page_size < self.files[i].file().size() {
            // An overwrite. The tails of many files' blocks would stay unwritten.
            let n = self.store.remnants.len;
            if n > 0 {
                self.store.unpark(i, n - 1)?;
            }
        }
        Ok(())
    }

    /// Lets a file that is probably small share a block with others.
    fn open_shared(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        if self.has_many_tails() {
            return self.open_roomiest(i);
        }
        let n = self.store.remnants.len;
        if n > 0 && self.small_files {
            self.store.unpark(i, n - 1)?;
            self.shared[i] = true;
        }
        Ok(())
    }

    /// Whether there are more blocks with an unwritten tail than a chip of this size can afford, beside those that files
    /// come back to. Before the list is full, of which the oldest would be forgotten.
    fn has_many_tails(&self) -> bool {
        let few = (self.store.geo.blocks() as usize / 64).clamp(2, 3 * REMNANTS / 4);
        self.store.remnants.len > (few + self.files_apart()).min(REMNANTS - 2)
    }

    /// How many files write in turn, each in a block of its own.
    fn files_apart(&self) -> usize {
        usize::from(self.apart.div_ceil(APART))
    }

    /// Goes on in the block with the longest unwritten tail, but for those left last by as many files as come back to
    /// theirs.
    fn open_roomiest(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        let all = &self.store.remnants;
        let apart = self.files_apart().min(all.len.saturating_sub(1));
        self.apart = self.apart.saturating_sub(1);
        if let Some(r) = (0..all.len - apart).min_by_key(|&r| all.get(r).next) {
            self.store.unpark(i, r)?;
            self.shared[i] = true;
        }
        Ok(())
    }
}

impl<N: Nand> crate::space::store::Store<'_, N> {
    /// Reads a whole data page, which must be page `index` of file `ino`, and checks it against its
    /// tag.
    pub fn read_data(
        &mut self,
        at: PageAddr,
        out: &mut [u8],
        ino: u32,
        index: u32,
    ) -> Result<(), Error<N::Error>> {
        if !self.geo.contains(at) {
            return Err(Error::Corrupt(at, "extent"));
        }
        let mut spare = [0u8; tag::SIZE];
        let n = if self.has_tags() { tag::SIZE } else { 0 };
        let status = self.nand.read(at, 0, out, &mut spare[..n])?;
        let ours = n == 0
            || Tag::matches(&spare, out)
                && Tag::decode(&spare).is_some_and(|t| (t.owner.ino, t.index) == (ino, index));
        if !status.is_readable() || !ours {
            return Err(Error::Corrupt(at, FILE_DATA));
        }
        Ok(())
    }
}

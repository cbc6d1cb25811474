//! Reading, writing and truncating file data.
//!
//! Whole pages go from the caller's buffer to flash and back without a copy. A piece of a page
//! is kept in the inode as its fragment while it fits, so that a small file, or a short append
//! with fsync, costs no page but the inode's. Bytes of a page beyond the end of its file are zero.

use crate::FlashLight;
use crate::cleaning::Volume;
use crate::error::{Damaged, Error, Fault, sound};
use crate::format::extent::{self, INDEX_END};
use crate::format::inode::{Fragment, Stamp, Time};
use crate::format::node::FileRef;
use crate::format::tag::Update;
use crate::index::Index;
use crate::index::file::KEPT_BY_WRITES;
use crate::index::slots::FileSlot;
use flashkit_nand::Nand;

impl<N: Nand> FlashLight<'_, N> {
    /// Largest file in bytes.
    pub fn file_size_max(&self) -> u64 {
        u64::from(INDEX_END) * u64::from(self.store().geo.page_size())
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
        self.told(|fs| fs.volume.read(node, offset, buf))
    }

    /// Writes all of `data` at `offset`, extending the file as needed. Durable after
    /// [`FlashLight::fsync`]; a program for each whole page, and for a piece of a page at most
    /// one read and one program. An fsync of whole pages that are overwritten, in writes of up to
    /// 16 pages, after another fsync of the same file, costs nothing more (`updates.rs`).
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
        self.told(|fs| {
            fs.index_mut().writable()?;
            match offset.checked_add(data.len() as u64) {
                Some(end) if end <= fs.file_size_max() => {}
                _ => return Err(Fault::TooBig),
            }
            if let Some(when) = fs.index().update(node, offset, data.len(), now) {
                return fs.volume.write_update(node, offset, data, when);
            }
            fs.volume.write_pages(node, offset, data, now, true)
        })
    }

    /// Changes a file's size: cuts it, or extends it by a hole.
    pub fn truncate(&mut self, node: FileRef, size: u64, now: Time) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            if size > fs.file_size_max() {
                return Err(Fault::TooBig);
            }
            fs.volume.make_room()?;
            let i = fs.index_mut().load_data_file(node)?;
            fs.index_mut().truncate_cached(i, size, now)
        })
    }
}

impl<N: Nand> Volume<'_, N> {
    pub(crate) fn read(
        &mut self,
        node: FileRef,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, Fault> {
        let i = self.reading(|volume| volume.index_mut().load_data_file(node))?;
        let size = self.index().files[i].file().size();
        if offset >= size {
            return Ok(0);
        }
        let want = (buf.len() as u64).min(size - offset) as usize;
        let ps = self.store().page_size();
        let mut done = 0;
        while done < want {
            let at = offset + done as u64;
            let (index, off) = self.store().place_of(at);
            let n = (ps - off).min(want - done);
            self.index_mut()
                .read_part(i, index, off, &mut buf[done..done + n])?;
            done += n;
        }
        Ok(want)
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
    ) -> Result<(), Fault> {
        let ps = self.store().page_size();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let n = (ps - self.store().place_of(at).1).min(data.len() - done);
            if room {
                self.make_room()?;
            }
            let (piece, alone) = (&data[done..done + n], room && n == data.len());
            self.index_mut().write_piece(node, at, piece, now, alone)?;
            done += n;
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// Writes a page or a piece of one; `alone`: all of a write that made room before. A call of
    /// its own, so that making room has its stack.
    #[inline(never)]
    fn write_piece(
        &mut self,
        node: FileRef,
        at: u64,
        piece: &[u8],
        now: Time,
        alone: bool,
    ) -> Result<(), Fault> {
        let (index, off) = self.store.place_of(at);
        let end = at + piece.len() as u64;
        let i = self.load_data_file(node)?;
        self.need_page()?;
        self.need_place(i, KEPT_BY_WRITES)?;
        if end > self.files[i].file().size() {
            self.finish_truncate(i)?;
        }
        let mut time = now;
        if piece.len() == self.store.page_size() {
            self.files[i].change();
            self.write_page(i, index, piece)?;
        } else {
            let tail = alone.then(|| self.tail(i, at, piece, now)).flatten();
            if let Some(update) = tail {
                let before = self.files[i].file().time(Stamp::Modify);
                time = update.when.time(before);
            }
            if let Err(e) = self.write_part(i, index, off, piece, tail) {
                self.files[i].change();
                return Err(e);
            }
        }
        let mut view = self.files[i].file_mut();
        view.end_at_least(end);
        view.set_modified(time);
        Ok(())
    }

    /// Reads a piece of one page of a cached file.
    fn read_part(
        &mut self,
        i: FileSlot,
        index: u32,
        off: usize,
        out: &mut [u8],
    ) -> Result<(), Fault> {
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
            let whole = self.scratch.overwrite(&mut self.store.scratch_holds);
            self.store.read_data(page, whole, ino, index)?;
            out.copy_from_slice(&whole[off..off + out.len()]);
        } else {
            let status = self.store.nand.read(page, off as u32, out, &mut [])?;
            if !status.is_readable() {
                return Err(self.store.nand.damaged(page, Damaged::Data));
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

    /// Writes one whole page of a cached file.
    fn write_page(&mut self, i: FileSlot, index: u32, data: &[u8]) -> Result<(), Fault> {
        self.file_room(i, 4 * extent::SIZE)?;
        self.choose_data_head(i, index)?;
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self.store.append_data(i.data_head(), data, owner, index)?;
        self.put_page(i, index, at)
    }

    /// Writes a piece of one page: into the fragment when it fits, else with the rest of its
    /// page, which can be a tail.
    fn write_part(
        &mut self,
        i: FileSlot,
        index: u32,
        off: usize,
        data: &[u8],
        tail: Option<Update>,
    ) -> Result<(), Fault> {
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
        // A quarter of the page beside many extents keeps their log useful. What is appended is
        // worth more: in two pieces a page is written twice.
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
        i: FileSlot,
        index: u32,
        off: usize,
        data: &[u8],
        tail: Option<Update>,
    ) -> Result<(), Fault> {
        if tail.is_none() {
            self.files[i].change();
        }
        self.file_room(i, 4 * extent::SIZE)?;
        self.assemble(i, index)?;
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        page[off..off + data.len()].copy_from_slice(data);
        match tail {
            Some(update) => self.write_tail(i, index, update),
            None => self.write_scratch(i, index),
        }
    }
}

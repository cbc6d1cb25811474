//! What a file holds.

use crate::boot::{Boot, Error, Held};
use crate::format::extent::{Extent, INDEX_END};
use crate::format::header::{self, Kind};
use crate::format::inode::{FileView, MODE_FILE, MODE_SYMLINK, MODE_TYPE};
use crate::format::mappage::{ExtentPage, MapPage};
use flashkit_nand::{Nand, PageAddr};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileKind {
    /// A file with data.
    File = 1,
    /// A directory.
    Dir,
    /// A symbolic link, found by [`Boot::find_link`]; its data is its target.
    Link,
    /// A device, a pipe or a socket.
    Special,
}

/// What was found by a path. It is of use to the [`Boot`] that has found it, as long as nobody
/// writes to the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    kind: FileKind,
    pub(super) size: u64,
    /// What its inode says of that.
    pub(super) base: u64,
    pub(super) ino: u32,
    /// Its page, and the number of that.
    pub(super) page: PageAddr,
    pub(super) seq: u64,
    /// Pages of updates that are newer, and the number of the last.
    pub(super) updates: u32,
    pub(super) last: u64,
}

/// Where a page of a file is, and for how many the same run goes on.
#[derive(Clone, Copy)]
struct Mapped {
    page: PageAddr,
    run: u32,
}

impl File {
    pub(super) fn dir(ino: u32) -> File {
        File {
            kind: FileKind::Dir,
            size: 0,
            base: 0,
            ino,
            page: PageAddr::NONE,
            seq: 0,
            updates: 0,
            last: 0,
        }
    }

    /// What it is.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Bytes of data; 0 of a directory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The inode's number.
    pub fn ino(&self) -> u32 {
        self.ino
    }
}

impl<N: Nand> Boot<'_, N> {
    /// Reads the page of a file into the first buffer, unless it is there.
    pub(super) fn load_file(&mut self, at: PageAddr) -> Result<(), Error> {
        if self.held == Held::File(at) {
            return Ok(());
        }
        self.held = Held::Nothing;
        self.chip.expect(at, self.a, Kind::File)?;
        self.held = Held::File(at);
        Ok(())
    }

    /// The file whose page is in the first buffer, with its updates.
    pub(super) fn file_here(&mut self) -> Result<File, Error> {
        let Held::File(page) = self.held else {
            return Err(Error::Damaged);
        };
        let view = FileView::on(&*self.a);
        let kind = match view.mode() & MODE_TYPE {
            MODE_FILE => FileKind::File,
            MODE_SYMLINK => FileKind::Link,
            _ => FileKind::Special,
        };
        let size = match kind {
            FileKind::Special => 0,
            _ => view.size(),
        };
        let mut file = File {
            kind,
            size,
            base: size,
            ino: view.ino(),
            page,
            seq: header::number(self.a),
            updates: 0,
            last: 0,
        };
        let found = self.scan_updates(&file, None)?;
        (file.size, file.updates, file.last) = (found.size, found.pages, found.last);
        Ok(file)
    }

    /// Reads from a file; fewer bytes than asked for only at its end. A read for each page, one or
    /// two for each run of pages on the chip that a map tells of. Of a file with updates since its
    /// inode was written, a read for each page of updates besides, again for each 64 of them.
    ///
    /// # Errors
    /// [`Error::NoData`] of what is no file; [`Error::Damaged`], [`Error::Driver`]. After that
    /// there is anything in `buf`.
    pub fn read(&mut self, file: &File, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        if !matches!(file.kind, FileKind::File | FileKind::Link) {
            return Err(Error::NoData);
        }
        let want = file.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        // A page is a power of two.
        let page = self.chip.geo.page_size();
        let (mut done, mut mapped) = (
            0,
            Mapped {
                page: PageAddr::NONE,
                run: 0,
            },
        );
        while done < want {
            let at = offset + done as u64;
            let index = (at >> page.trailing_zeros()) as u32;
            let off = (at as u32 & (page - 1)) as usize;
            let n = (page as usize - off).min(want - done);
            if mapped.run == 0 {
                mapped = self.lookup(file, index)?;
            }
            let part = buf.get_mut(done..done + n).unwrap_or_default();
            self.read_part(file, index, off, mapped.page, part)?;
            if mapped.page.is_some() {
                mapped.page.0 = mapped.page.0.wrapping_add(1);
            }
            mapped.run -= 1;
            done += n;
        }
        Ok(want)
    }

    /// Reads a part of a page that is at a place on the chip, or nowhere.
    fn read_part(
        &mut self,
        file: &File,
        index: u32,
        off: usize,
        at: PageAddr,
        part: &mut [u8],
    ) -> Result<(), Error> {
        if at.is_none() {
            part.iter_mut().for_each(|byte| *byte = 0);
        } else if part.len() == self.b.len() {
            self.chip.read_data(at, part, file.ino, index)?;
        } else {
            self.chip.read_data(at, self.b, file.ino, index)?;
            for (to, from) in part.iter_mut().zip(self.b.iter().skip(off)) {
                *to = *from;
            }
        }
        if file.updates > 0 && self.update_of(file, index)?.is_some() {
            return Ok(());
        }
        let view = FileView::on(&*self.a);
        if let Some(f) = view.fragment().filter(|f| f.page == index) {
            // What the inode keeps of the page lies over it.
            for (i, &byte) in view.fragment_bytes().iter().enumerate() {
                let place = (f.off + i).checked_sub(off).and_then(|at| part.get_mut(at));
                place.into_iter().for_each(|place| *place = byte);
            }
        }
        Ok(())
    }

    /// Where a page of a file is. The file's page is in the first buffer afterwards.
    fn lookup(&mut self, file: &File, index: u32) -> Result<Mapped, Error> {
        let update = match file.updates {
            0 => None,
            _ => self.update_of(file, index)?,
        };
        self.load_file(file.page)?;
        let view = FileView::on(&*self.a);
        if (header::number(self.a), view.ino()) != (file.seq, file.ino) {
            self.held = Held::Nothing;
            return Err(Error::Damaged);
        }
        if let Some(page) = update {
            return Ok(Mapped { page, run: 1 });
        }
        let mut mapped = self.mapped(index)?;
        if file.updates > 0 {
            // The next may be one.
            mapped.run = 1;
        }
        Ok(mapped)
    }

    /// The same, of what the inode in the first buffer and its maps say.
    fn mapped(&mut self, index: u32) -> Result<Mapped, Error> {
        let view = FileView::on(&*self.a);
        let (ino, levels) = (view.ino(), view.levels());
        let after = view.record_search(index.saturating_add(1), 0);
        let mut next = INDEX_END;
        if after < view.records() {
            next = Extent::decode(view.record(after)).index.min(INDEX_END);
        }
        let logged = after.checked_sub(1).map(|r| Extent::decode(view.record(r)));
        let found = logged.filter(|e| e.is_mapping() && e.end() > index);
        if let Some(mapped) = found.and_then(|e| at_index(&e, index, INDEX_END)) {
            return Ok(mapped);
        }
        let hole = Mapped {
            page: PageAddr::NONE,
            run: 1,
        };
        if levels == 0 {
            return Ok(hole);
        }
        let mut pointer = view.pointer(view.pointer_for(index));
        if levels == 2 {
            self.load_map(pointer, ino, Kind::ExtentIndex)?;
            let page: MapPage<&[u8], 8> = MapPage(&*self.b);
            pointer = page.pointer(page.pointer_for(index));
            if let Some(e) = page.extents_in(index, next).next() {
                if let Some(mapped) = at_index(&e, index, next) {
                    return Ok(mapped);
                }
                next = e.index;
            }
        }
        self.load_map(pointer, ino, Kind::ExtentMap)?;
        let page: ExtentPage<&[u8]> = MapPage(&*self.b);
        let found = page.extents_in(index, INDEX_END).next();
        Ok(found
            .and_then(|e| at_index(&e, index, next))
            .unwrap_or(hole))
    }
}

/// What an extent says of an index, up to another.
fn at_index(e: &Extent, index: u32, next: u32) -> Option<Mapped> {
    let e = e.clip(index, next).filter(|e| e.index == index)?;
    Some(Mapped {
        page: PageAddr(e.page),
        run: e.count,
    })
}

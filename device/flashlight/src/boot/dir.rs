//! Directories: from a number to its page, from a name or a file's number to entries.

use crate::boot::log::Cursor;
use crate::boot::replay::{Entries, Entry, Query};
use crate::boot::snapshot::Want;
use crate::boot::{Boot, Error, Held};
use crate::format::dirrec::{self, DirRec, HASH_SHIFT, RecState, Target};
use crate::format::fields::{get_u32, put_u32};
use crate::format::header::{self, HEADER, Kind};
use crate::format::inode::{DirView, FileView};
use crate::format::limits::MAP_PAGES;
use crate::format::mappage::MapPage;
use crate::format::node::{INDEX_DIR, ROOT_DIR};
use flashkit_nand::{Nand, PageAddr};

/// Of a wide map, places of pages of the map: the last two lead to pages of places.
const NEAR: usize = MAP_PAGES - 2;

/// Records of one hash in the log of a directory.
pub(super) struct Logged {
    list: [DirRec; LOGGED],
    len: usize,
}

/// So many at most.
const LOGGED: usize = 12;

impl Logged {
    pub fn new() -> Logged {
        Logged {
            list: [DirRec::new(0, RecState::Gone, Target::File, u32::MAX); LOGGED],
            len: 0,
        }
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn push(&mut self, rec: DirRec) -> Result<(), Error> {
        *self.list.get_mut(self.len).ok_or(Error::Crowded)? = rec;
        self.len += 1;
        Ok(())
    }

    fn as_slice(&self) -> &[DirRec] {
        self.list.get(..self.len).unwrap_or_default()
    }
}

impl<N: Nand> Boot<'_, N> {
    /// Brings a directory into the first buffer as it was written last. Gives up to which number it
    /// shows all; none: there is no such directory. A read for each page of a
    /// directory since the checkpoint, four to eight more; none if it is there already.
    pub(super) fn load_dir(&mut self, dir: u32) -> Result<Option<u64>, Error> {
        if let Held::Dir(held, as_of, _) = self.held
            && held == dir
        {
            return Ok(Some(as_of));
        }
        self.held = Held::Nothing;
        let newer = self.newest_page(dir)?;
        let at = match newer {
            Some(at) => at,
            None => self.mapped_page(dir)?,
        };
        if at.is_none() {
            return Ok(None);
        }
        if !self.read_dir(at, at)? && !self.read_dir_copy(dir, at)? {
            return Err(Error::Damaged);
        }
        if DirView::on(&*self.a).ino() != dir {
            return Err(Error::Damaged);
        }
        let as_of = match DirView::on(&*self.a).as_of() {
            // One that stands for an empty one has no number, and shows nothing.
            0 => header::number(self.a).max(1),
            as_of => as_of,
        };
        self.held = Held::Dir(dir, as_of, newer.is_some());
        Ok(Some(as_of))
    }

    /// The last page of a directory written since the checkpoint.
    fn newest_page(&mut self, dir: u32) -> Result<Option<PageAddr>, Error> {
        let mut dirs = Cursor::new(Kind::Dir);
        let mut newest = None;
        loop {
            dirs.advance(&mut self.chip, (self.list, self.opened), self.b)?;
            if dirs.at.is_none() {
                return Ok(newest);
            }
            if DirView::on(&*self.b).ino() == dir {
                newest = Some(dirs.at);
            }
        }
    }

    /// The page of a directory by the checkpoint's map.
    fn mapped_page(&mut self, dir: u32) -> Result<PageAddr, Error> {
        let per_page = (self.a.len().saturating_sub(HEADER) / 4).max(1);
        let (i, place) = (
            dir as usize / per_page,
            HEADER + 4 * (dir as usize % per_page),
        );
        let at = if self.wide && i >= NEAR {
            if i - NEAR >= per_page {
                return Ok(PageAddr::NONE);
            }
            let [first, copy] = self.pass(Want::Place(NEAR), &mut Logged::new())?;
            if let Err(Error::Damaged) = self.chip.expect(first, self.b, Kind::Places) {
                self.chip.expect(copy, self.b, Kind::Places)?;
            }
            PageAddr(get_u32(self.b, HEADER + 4 * (i - NEAR)))
        } else if i >= MAP_PAGES {
            return Ok(PageAddr::NONE);
        } else {
            self.pass(Want::Place(i), &mut Logged::new())?[0]
        };
        if at.is_none() {
            return Ok(at);
        }
        self.chip.expect(at, self.b, Kind::DirMap)?;
        Ok(PageAddr(get_u32(self.b, place)))
    }

    /// Reads the page of a directory at `at`, or a `page` that may be its copy; whether it is that.
    fn read_dir(&mut self, page: PageAddr, at: PageAddr) -> Result<bool, Error> {
        let kind = self.chip.read_meta(page, self.a)?;
        Ok(kind == Some(Kind::Dir) && (page == at || header::prev(self.a) == at))
    }

    /// Reads the copy of a directory whose page at `at` cannot be read. What is its own copy is
    /// empty.
    fn read_dir_copy(&mut self, dir: u32, at: PageAddr) -> Result<bool, Error> {
        let [root, index] = self.dir_copies;
        let copy = match dir {
            ROOT_DIR => root,
            INDEX_DIR => index,
            _ => return Ok(false),
        };
        if copy == at && dir == INDEX_DIR {
            self.a.fill(0);
            put_u32(self.a, HEADER, dir);
            return Ok(true);
        }
        self.read_dir(copy, at)
    }

    /// The entries that may be what is looked for, the newest last. Whether others are in a page
    /// that cannot be read.
    pub(super) fn entries(&mut self, query: &Query<'_>) -> Result<(Entries, bool), Error> {
        let mut entries = Entries::new();
        let as_of = self.load_dir(query.dir)?.ok_or(Error::NotFound)?;
        let logged = self.logged(query.dir, query.hash)?;
        let is_entry = |rec: &&DirRec| rec.is_entry();
        for rec in logged.as_slice().iter().filter(is_entry) {
            entries.push(entry_of(rec))?;
        }
        let hides = |rec: &DirRec| matches!(rec.state, RecState::Update | RecState::Delete);
        let damaged = match logged.as_slice().iter().any(hides) {
            true => false,
            false => match self.mapped_entries(query.hash, &logged, &mut entries) {
                Err(Error::Damaged) => true,
                read => read.map(|()| false)?,
            },
        };
        self.find_inodes(query, &mut entries)?;
        if self.recovers {
            let mut newest = 0;
            self.each_record(&mut |page, at, kind, retry| {
                newest = header::number(page);
                if newest <= as_of {
                    return Ok(());
                }
                entries.apply(query, page, at, kind, retry)
            })?;
            if newest != self.newest {
                return Err(Error::Changing);
            }
        }
        Ok((entries, damaged))
    }

    /// The records of a hash in the log of the directory in the first buffer, as its deferred
    /// changes make them. The snapshot is read if there are any of any directory.
    fn logged(&mut self, dir: u32, hash: u32) -> Result<Logged, Error> {
        let mut logged = Logged::new();
        let view = DirView::on(&*self.a);
        for r in view.record_search(hash, HASH_SHIFT)..view.records() {
            let rec = DirRec::decode(view.record(r));
            if rec.hash != hash {
                break;
            }
            logged.push(rec)?;
        }
        let is_old = matches!(self.held, Held::Dir(_, _, false));
        if is_old && self.deferred {
            self.pass(Want::Group(dir, hash), &mut logged)?;
        }
        Ok(logged)
    }

    /// Takes those of its hash map. One read, two beyond the index level.
    fn mapped_entries(
        &mut self,
        hash: u32,
        logged: &Logged,
        entries: &mut Entries,
    ) -> Result<(), Error> {
        let view = DirView::on(&*self.a);
        let (dir, levels, shared) = (view.ino(), view.levels(), view.is_shared());
        if levels == 0 {
            return Ok(());
        }
        let mut pointer = view.pointer(view.pointer_for(hash));
        if levels == 2 {
            self.load_map(pointer, dir, Kind::HashIndex)?;
            let index: MapPage<&[u8], 8> = MapPage(&*self.b);
            pointer = index.pointer(index.pointer_for(hash));
        }
        self.load_map(pointer, dir, Kind::HashMap)?;
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(&*self.b);
        for r in page.search(hash, HASH_SHIFT)..page.count() {
            let rec = DirRec::decode(page.record(r));
            if rec.hash != hash {
                break;
            }
            let gone = |log: &DirRec| log.state == RecState::Gone && log.same_entry(&rec);
            if !shared || !logged.as_slice().iter().any(gone) {
                entries.push(entry_of(&rec))?;
            }
            if !shared {
                break;
            }
        }
        Ok(())
    }

    /// Reads the map page, or index page, that a pointer of an inode leads to into the second
    /// buffer.
    pub(super) fn load_map(
        &mut self,
        (key, at): (u32, PageAddr),
        ino: u32,
        kind: Kind,
    ) -> Result<(), Error> {
        self.chip.expect(at, self.b, kind)?;
        let belongs = MapPage::<&[u8], 8>::on(&*self.b).belongs_to(ino, key);
        if belongs { Ok(()) } else { Err(Error::Damaged) }
    }

    /// Looks which inodes the pages of files are of, and drops those that are not what is looked
    /// for. A read for each.
    fn find_inodes(&mut self, query: &Query<'_>, entries: &mut Entries) -> Result<(), Error> {
        let mut found = Entries::new();
        for entry in entries.as_slice() {
            let mut entry = *entry;
            if entry.is_file() {
                let kind = self.chip.read_meta(PageAddr(entry.ptr), self.b)?;
                let view = FileView::on(&*self.b);
                if kind == Some(Kind::File) {
                    let is_it = match query.name.is_empty() {
                        true => view.ino() == query.ino,
                        false => (view.parent(), view.name()) == (query.dir, query.name),
                    };
                    if !is_it {
                        continue;
                    }
                    entry.ino = view.ino();
                }
                if entry.ptr == u32::MAX {
                    // It was only in RAM.
                    continue;
                }
            }
            found.push(entry)?;
        }
        *entries = found;
        Ok(())
    }
}

fn entry_of(rec: &DirRec) -> Entry {
    Entry {
        target: rec.target,
        ptr: rec.ptr,
        ino: 0,
    }
}

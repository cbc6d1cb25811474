//! What the records since the checkpoint make of one name, or of one file's number.
//!
//! A mount replays each record on the directories. Here the question comes first: the entries that
//! a directory's page has for it are taken, and each newer record adds to them, changes or removes
//! one, as the mount's replay does.

use crate::boot::log::Cursor;
use crate::boot::{Boot, Error, Held};
use crate::format::dirrec::Target;
use crate::format::extent::{Extent, REMOVED};
use crate::format::header::{self, Kind};
use crate::format::inode::{
    FLAG_EXCHANGED, FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, FileView, second_of_exchange,
};
use flashkit_nand::{Nand, PageAddr};

/// Entries at most.
const ENTRIES: usize = 12;

/// What is looked for: a name in a directory, or in the index directory a file.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub dir: u32,
    pub hash: u32,
    /// Empty: a file is looked for by its number.
    pub name: &'a [u8],
    pub ino: u32,
}

/// An entry that may be what is looked for.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub target: Target,
    /// A file's page; else a number.
    pub ptr: u32,
    /// The inode that the page is of; 0: it cannot be read.
    pub ino: u32,
}

/// Entries, the newest last.
pub(super) struct Entries {
    list: [Entry; ENTRIES],
    len: usize,
}

impl Entry {
    pub fn is_file(&self) -> bool {
        matches!(self.target, Target::File | Target::Orphan)
    }
}

impl Entries {
    pub fn new() -> Entries {
        let none = Entry {
            target: Target::File,
            ptr: u32::MAX,
            ino: 0,
        };
        Entries {
            list: [none; ENTRIES],
            len: 0,
        }
    }

    pub fn as_slice(&self) -> &[Entry] {
        self.list.get(..self.len).unwrap_or_default()
    }

    pub fn push(&mut self, entry: Entry) -> Result<(), Error> {
        let place = self.list.get_mut(self.len).ok_or(Error::Crowded)?;
        *place = entry;
        self.len += 1;
        Ok(())
    }

    /// Keeps those of which this holds.
    #[inline(never)]
    pub fn retain(&mut self, keep: &mut dyn FnMut(&Entry) -> bool) {
        let mut kept = 0;
        for i in 0..self.len {
            let Some(&entry) = self.list.get(i) else {
                break;
            };
            if keep(&entry)
                && let Some(place) = self.list.get_mut(kept)
            {
                // Field by field: as a whole it would be copied by a `memmove` of 600 bytes, which
                // nothing else here needs.
                (place.target, place.ptr, place.ino) = (entry.target, entry.ptr, entry.ino);
                kept += 1;
            }
        }
        self.len = kept;
    }

    fn remove(&mut self, target: Target, ptr: u32) {
        self.retain(&mut |e| e.target != target || e.ptr != ptr);
    }

    /// Adds an entry by number, unless it is there.
    fn add(&mut self, target: Target, ptr: u32) -> Result<(), Error> {
        let is_there = |e: &Entry| e.target == target && e.ptr == ptr;
        if self.as_slice().iter().any(is_there) {
            return Ok(());
        }
        self.push(Entry {
            target,
            ptr,
            ino: 0,
        })
    }

    /// The entry of a file of which one of these was a page.
    fn of_file(&mut self, ino: u32, pages: [PageAddr; 2]) -> Option<usize> {
        self.as_slice().iter().position(|e| {
            let known = pages.iter().any(|page| page.is_some() && page.0 == e.ptr);
            e.is_file() && (known || e.ino == ino)
        })
    }

    /// Has the entry of a file lead to its new page.
    fn repoint(&mut self, i: Option<usize>, entry: Entry) -> Result<(), Error> {
        match i.and_then(|i| self.list.get_mut(i)) {
            Some(place) => {
                *place = entry;
                Ok(())
            }
            None => self.push(entry),
        }
    }

    /// Changes the entries as a record does. `retry` is the page before of the same record, whose
    /// program had failed.
    pub fn apply(
        &mut self,
        query: &Query<'_>,
        page: &[u8],
        at: PageAddr,
        kind: Kind,
        retry: PageAddr,
    ) -> Result<(), Error> {
        let view = FileView::on(page);
        let (ino, flags, is_file) = (view.ino(), view.flags(), kind == Kind::File);
        let own = if is_file {
            Target::Indirect
        } else {
            Target::Dir
        };
        let by_name = !query.name.is_empty();
        let is_here = by_name && view.parent() == query.dir && view.name() == query.name;
        let pages = [header::prev(page), retry];
        if retry.is_none() {
            if is_file && view.parent() == query.dir {
                self.remove_noted(&view);
            }
            let (moved, replaced) = (view.moved(), view.replaced());
            let was_here = moved == (query.dir, query.hash);
            if was_here {
                self.leave(own, ino, pages);
            }
            let second = second_of_exchange(ino, flags, moved, replaced);
            match (second, replaced) {
                (Some((target, number)), _) => {
                    if is_here {
                        self.remove(target, number);
                    }
                    if was_here {
                        self.add(target, number)?;
                    }
                }
                (None, Some(replaced)) if is_here && flags & FLAG_EXCHANGED == 0 => {
                    self.end(is_file, replaced);
                }
                _ => {}
            }
            if was_here
                && is_file
                && flags & (FLAG_KEPT | FLAG_INDIRECT | FLAG_ORPHAN) == FLAG_KEPT | FLAG_INDIRECT
            {
                self.add(own, ino)?;
            }
        }
        if !is_file {
            return if is_here { self.add(own, ino) } else { Ok(()) };
        }
        let indirect = flags & FLAG_INDIRECT != 0;
        let orphan = flags & FLAG_ORPHAN != 0;
        let holds = match indirect {
            true => !by_name && ino == query.ino,
            false => is_here,
        };
        if holds {
            let i = self.of_file(ino, pages);
            let target = if orphan { Target::Orphan } else { Target::File };
            let ptr = at.0;
            self.repoint(i, Entry { target, ptr, ino })?;
        }
        if indirect && !orphan && is_here {
            self.add(own, ino)?;
        }
        Ok(())
    }

    /// Removes the entry of an inode that has left: that of a file, or by its number.
    fn leave(&mut self, own: Target, ino: u32, pages: [PageAddr; 2]) {
        match self.of_file(ino, pages).filter(|_| own != Target::Dir) {
            Some(i) => {
                let mut n = 0..;
                self.retain(&mut |_| n.next() != Some(i));
            }
            None => self.remove(own, ino),
        }
    }

    /// Removes the entry of what a file, or a directory, has replaced.
    fn end(&mut self, by_file: bool, (kind, ptr): (u8, u32)) {
        match kind {
            _ if !by_file && kind == Target::Dir as u8 => self.remove(Target::Dir, ptr),
            _ if !by_file => {}
            _ if kind == Target::File as u8 => self.remove(Target::File, ptr),
            _ => self.remove(Target::Indirect, ptr),
        }
    }

    /// Removes the files that the first page of one in their directory notes.
    fn remove_noted(&mut self, view: &FileView<'_>) {
        for r in view.record_search(REMOVED, 0)..view.records() {
            let note = Extent::decode(view.record(r));
            if note.index != REMOVED {
                break;
            }
            self.remove(Target::File, note.page);
        }
    }
}

/// What is done with each record: its page, where that is, its kind, and the page before of the
/// same record, if the program of that had failed and it can be read all the same.
pub(super) type EachRecord<'f> =
    &'f mut dyn FnMut(&[u8], PageAddr, Kind, PageAddr) -> Result<(), Error>;

impl<N: Nand> Boot<'_, N> {
    /// Goes through the records since the checkpoint in the order of their numbers. A read for each
    /// page of an inode since.
    pub(super) fn each_record(&mut self, each: EachRecord<'_>) -> Result<(), Error> {
        self.held = Held::Nothing;
        let list = (&*self.list, self.opened);
        let (mut dirs, mut files) = (Cursor::new(Kind::Dir), Cursor::new(Kind::File));
        dirs.advance(&mut self.chip, list, self.a)?;
        files.advance(&mut self.chip, list, self.b)?;
        let mut last = (0, PageAddr::NONE, PageAddr::NONE);
        loop {
            let is_first = || header::number(self.a) < header::number(self.b);
            if dirs.at.is_some() && (files.at.is_none() || is_first()) {
                each(self.a, dirs.at, Kind::Dir, PageAddr::NONE)?;
                dirs.advance(&mut self.chip, list, self.a)?;
                continue;
            }
            let at = files.at;
            if at.is_none() {
                return Ok(());
            }
            let (ino, prev) = (FileView::on(&*self.b).ino(), header::prev(self.b));
            let is_retry = (last.0, last.1) == (ino, prev);
            let retry = if is_retry { last.2 } else { PageAddr::NONE };
            last = (ino, prev, at);
            each(self.b, at, Kind::File, retry)?;
            files.advance(&mut self.chip, list, self.b)?;
        }
    }
}

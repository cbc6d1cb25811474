//! Further names of a file: those of its hard links that are not in its inode's name field.
//!
//! They stand behind the name in the FileInode, one after another, and in *names pages*, when there
//! are too many for that:
//!
//! ```text
//! 0  directory u32   4  length u8   5  name
//! 0  page u32        4  0           a names page
//! ```
//!
//! A names page has the layout of a map ([`crate::format::mappage`]): its records are single bytes,
//! those of names as above, and no page. The inode's own name is the one added last, or empty when
//! that one has been removed.
//!
//! Invariant: a directory has an entry for the file's number under the hash of each of these names
//! and of the own one, and no other; their number is the link count. No two names of a file in one
//! directory have the same hash, so that directory and hash tell which one an entry is.

use crate::error::{Fault, sound};
use crate::format::area::LogArea;
use crate::format::extent;
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::Kind;
use crate::format::inode::{FileMut, NAME_MAX};
use crate::format::mappage::{self, MapPage, Owner};
use crate::format::names::{
    HEAD, Item, Names, NamesPage, PagedPlace, Spot, Which, names_max, page_names, pointer_to,
    put_head,
};
use crate::format::node::INDEX_DIR;
use crate::index::Index;
use crate::index::slots::FileSlot;
use crate::index::tree::SLACK;
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Index<'_, N> {
    /// Loads a names page of a cached file into the scratch page. One read.
    pub(crate) fn load_names(&mut self, i: FileSlot, at: PageAddr) -> Result<(), Fault> {
        let ino = self.files[i].ino;
        self.load_map_page(Kind::Names, (0, at), ino)
    }

    /// Finds a name of a cached file. One read for each names page until it is found; that page is
    /// in the scratch page then.
    pub(crate) fn find_spot(
        &mut self,
        i: FileSlot,
        dir: u32,
        which: Which<'_>,
    ) -> Result<Option<Spot>, Fault> {
        let volume = self.store.volume;
        if let Some(spot) = self.files[i].file().spot(volume, dir, which) {
            return Ok(Some(spot));
        }
        let (mut n, mut damage) = (0, None);
        loop {
            let Some((pointer, page)) = self.files[i].file().names().pages().nth(n) else {
                return damage.map_or(Ok(None), Err);
            };
            n += 1;
            match self.load_names(i, page) {
                // The name may be in another.
                Err(e) if e.is_damage() => damage = Some(e),
                r => {
                    r?;
                    if let Some(at) = page_names(&self.scratch).find(volume, dir, which) {
                        return Ok(Some(Spot::Paged { pointer, at }));
                    }
                }
            }
        }
    }

    /// Bytes of room that [`Index::demote_name`], a new own name of `len` bytes and then
    /// [`Index::drop_name`] need in a cached file's page, what they note as freed included.
    pub(crate) fn names_growth(&self, i: FileSlot, len: usize) -> usize {
        let view = self.files[i].file();
        let own = view.name().len();
        let notes = 2 * extent::SIZE;
        if view.names_len() + HEAD + own <= names_max(self.store.page_size()) {
            return len + HEAD + notes;
        }
        let pointers = HEAD * view.names().pages().count();
        let leaving = own + view.names_len() - pointers;
        (len + HEAD + notes).saturating_sub(leaving)
    }

    /// Where a cached file's own name would go as one of the further ones. At times a read, which
    /// brings the names page into the scratch page.
    ///
    /// # Errors
    /// [`Fault::TooManyLinks`] when there is no place.
    pub(crate) fn place_for_own_name(&mut self, i: FileSlot) -> Result<PagedPlace, Fault> {
        let max = names_max(self.store.page_size());
        let view = self.files[i].file();
        if view.name().is_empty() {
            return Ok(PagedPlace::None);
        }
        let bytes = view.names_len() + HEAD + view.name().len();
        if bytes <= max {
            return Ok(PagedPlace::Inode);
        }
        let pages = view.names().pages().count();
        let more = HEAD * (pages + 1) <= max;
        let old =
            self.names_page_with_room(i, bytes - HEAD * pages, if more { 1 } else { pages })?;
        if old.is_none() && !more {
            return Err(Fault::TooManyLinks);
        }
        Ok(PagedPlace::Page(old))
    }

    /// Makes a cached file's own name one of the further ones, so that another can take its place.
    /// No flash operation; when the inode holds too many, one program, and at times a read, which
    /// move them to a names page. An error leaves everything as it was.
    pub(crate) fn demote_name(&mut self, i: FileSlot) -> Result<(), Fault> {
        let old = match self.place_for_own_name(i)? {
            PagedPlace::None => return Ok(()),
            PagedPlace::Inode => {
                self.files[i].file_mut().name_demote();
                self.files[i].change();
                return Ok(());
            }
            PagedPlace::Page(old) => old,
        };
        let ino = self.files[i].ino;
        let owner = Owner {
            ino,
            dir: INDEX_DIR,
            hash: ino_hash(self.store.volume, ino),
        };
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: NamesPage<'_> = MapPage(page);
        if old.is_none() {
            page.init(owner, 0, 0);
        }
        let view = self.files[i].file();
        let mut head = [0; HEAD];
        put_head(&mut head, view.parent(), view.name().len());
        page.append_bytes(&head);
        page.append_bytes(view.name());
        for (_, item) in view.names().iter() {
            if let Item::Name { dir, name } = item {
                put_head(&mut head, dir, name.len());
                page.append_bytes(&head);
                page.append_bytes(name);
            }
        }
        self.put_names_page(i, old)?;
        let mut view = self.files[i].file_mut();
        view.set_name(b"");
        view.set_parent(0);
        let mut at = 0;
        while let Some((item, next)) = view.names().item(at) {
            match item {
                Item::Page(_) => at = next,
                Item::Name { .. } => view.names_remove(at, next - at),
            }
        }
        Ok(())
    }

    /// The first of up to `tries` names pages, the newest first, that has room for so many bytes;
    /// it is in the scratch page then.
    fn names_page_with_room(
        &mut self,
        i: FileSlot,
        bytes: usize,
        tries: usize,
    ) -> Result<Option<(usize, PageAddr)>, Fault> {
        for n in 0..tries {
            let Some((pointer, at)) = self.files[i].file().names().pages().nth(n) else {
                break;
            };
            // One that cannot be read stays for its names to be told of.
            if sound(self.load_names(i, at))?.is_none() {
                continue;
            }
            let page: MapPage<&[u8], 1> = MapPage(&self.scratch);
            if page.count() + bytes <= page.capacity() {
                return Ok(Some((pointer, at)));
            }
        }
        Ok(None)
    }

    /// Writes the names page in the scratch page, in place of the one that `old` points to.
    pub(crate) fn put_names_page(
        &mut self,
        i: FileSlot,
        old: Option<(usize, PageAddr)>,
    ) -> Result<(), Fault> {
        let len = MapPage::<&[u8], 1>::on(&self.scratch).len();
        let prev = old.map_or(PageAddr::NONE, |old| old.1);
        let at = self.append_scratch(LogArea::Extent, len, Kind::Names, prev)?;
        self.files[i].dirty = true;
        let mut view = self.files[i].file_mut();
        match old {
            Some((pointer, page)) => {
                view.names_set(pointer, &pointer_to(at));
                self.free_run(i, page.0, 1, MayProgram);
            }
            None => view.names_insert(&pointer_to(at)),
        }
        Ok(())
    }

    /// Takes the name at a spot just found from a cached file. No flash operation; one program when
    /// it is in a names page, unless that page's names fit the inode now. An error leaves
    /// everything as it was. Room for a note of a freed page is the caller's business.
    pub(crate) fn drop_name(&mut self, i: FileSlot, spot: Spot) -> Result<(), Fault> {
        self.files[i].change();
        let mut view = self.files[i].file_mut();
        let (pointer, at) = match spot {
            Spot::Own => {
                view.set_name(b"");
                view.set_parent(0);
                return Ok(());
            }
            Spot::Further(at) => {
                let n = HEAD + view.names().name(at).len();
                view.names_remove(at, n);
                return Ok(());
            }
            Spot::Paged { pointer, at } => (pointer, at),
        };
        let (names_len, page) = (view.names_len(), view.names().page(pointer));
        let n = HEAD + page_names(&self.scratch).name(at).len();
        let page_bytes = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut names: NamesPage<'_> = MapPage(page_bytes);
        names.cut_bytes(at, n);
        let left = names.count();
        let view = self.files[i].file();
        let fits = names_len - HEAD + left <= names_max(view.0.len()) / 2
            && view.room() + HEAD >= left + NAME_MAX + SLACK;
        if left > 0 && !fits {
            return self.put_names_page(i, Some((pointer, page)));
        }
        let mut view = FileMut::on(&mut *self.files[i].buf);
        view.names_remove(pointer, HEAD);
        view.names_insert(&self.scratch[mappage::RECORDS..mappage::RECORDS + left]);
        self.free_run(i, page.0, 1, MayProgram);
        Ok(())
    }

    /// Directory and hash of a cached file's names from number `skip` on; how many there are. One
    /// read for each names page.
    pub(crate) fn names_from(
        &mut self,
        i: FileSlot,
        skip: usize,
        out: &mut [(u32, u32)],
    ) -> Result<usize, Fault> {
        let volume = self.store.volume;
        let mut batch = Batch { skip, len: 0, out };
        let view = self.files[i].file();
        if !view.name().is_empty() {
            batch.add(volume, view.parent(), view.name());
        }
        batch.add_all(volume, view.names());
        let mut n = 0;
        loop {
            let Some(page) = self.files[i].file().names_page(n) else {
                return Ok(batch.len);
            };
            self.load_names(i, page)?;
            batch.add_all(volume, page_names(&self.scratch));
            n += 1;
        }
    }
}

/// A part of a list of names.
struct Batch<'a> {
    skip: usize,
    len: usize,
    out: &'a mut [(u32, u32)],
}

impl Batch<'_> {
    fn add(&mut self, volume: u32, dir: u32, name: &[u8]) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if self.len < self.out.len() {
            self.out[self.len] = (dir, name_hash(volume, name));
            self.len += 1;
        }
    }

    fn add_all(&mut self, volume: u32, names: Names<'_>) {
        for (_, item) in names.iter() {
            if let Item::Name { dir, name } = item {
                self.add(volume, dir, name);
            }
        }
    }
}

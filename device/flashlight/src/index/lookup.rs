//! From a name in a directory to its inode.

use crate::error::{Damaged, Fault};
use crate::format::dirrec::{DirRec, RecState, Target};
use crate::format::hash::name_hash;
use crate::format::header::Kind;
use crate::format::inode::{DirView, FLAG_INDIRECT, FileView, NAME_MAX};
use crate::format::names::{Spot, Which};
use crate::format::node::{FileRef, INDEX_DIR, Node};
use crate::format::wellformed::is_name;
use crate::index::Index;
use crate::index::dir::same_hash_max;
use crate::index::slots::{DirSlot, FileSlot};
use flashkit_nand::{Nand, PageAddr};

/// Where an inode page was found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Dir(DirSlot),
    File(FileSlot),
    Scratch,
}

/// A directory entry and its inode.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub rec: DirRec,
    pub node: Node,
    pub(crate) place: Place,
}

/// Whether a name may be given.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Fault> {
    if name.len() > NAME_MAX {
        return Err(Fault::NameTooLong);
    }
    if is_name(name) {
        Ok(())
    } else {
        Err(Fault::Invalid)
    }
}

impl<N: Nand> Index<'_, N> {
    /// Finds a name. With cold caches at most three reads after the directory's own page: hash map,
    /// DirInode map, inode; in a directory of some ten thousand names one more, of an index page.
    pub(crate) fn find(&mut self, dir: u32, name: &[u8]) -> Result<Found, Fault> {
        if name.len() > NAME_MAX {
            return Err(Fault::NameTooLong);
        }
        let hash = name_hash(self.store.volume, name);
        match self.find_cached(dir, hash, name) {
            Some(found) => Ok(found),
            None => self.find_entry(dir, hash, name),
        }
    }

    /// Finds a directory by its name. No read if it was found lately.
    pub(crate) fn find_dir(&mut self, dir: u32, name: &[u8]) -> Result<u32, Fault> {
        self.begin_step();
        let known = self.names().find(dir, name);
        if known.is_none() || self.files.lent().is_some() {
            self.want_names();
        }
        if let Some(found) = known {
            return Ok(found);
        }
        let Node::Dir(found) = self.find(dir, name)?.node else {
            return Err(Fault::NotDir);
        };
        self.names().add(found, dir, name);
        Ok(found)
    }

    /// Finds a name of this hash by the entries of its directory alone.
    pub(crate) fn find_entry(&mut self, dir: u32, hash: u32, name: &[u8]) -> Result<Found, Fault> {
        self.find_among(dir, hash, name, &mut 0)
    }

    /// The same; `n` is then how many entries of this hash there are, if none is of the name.
    fn find_among(
        &mut self,
        dir: u32,
        hash: u32,
        name: &[u8],
        n: &mut usize,
    ) -> Result<Found, Fault> {
        let mut damage = None;
        while let Some(rec) = self.dir_nth(dir, hash, *n)? {
            *n += 1;
            let (node, place) = match self.peek(dir, &rec, name) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                // It may be another name of this hash.
                Err(e) if e.is_damage() => {
                    damage = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let page: &[u8] = match place {
                Place::Scratch => &self.scratch,
                Place::File(i) => self.files[i].buf,
                Place::Dir(i) => self.dirs[i].buf,
            };
            let view = DirView::on(page);
            if view.parent() == dir && view.name() == name {
                return Ok(Found { rec, node, place });
            }
            if rec.target != Target::Indirect {
                continue;
            }
            match self.named(place, dir, Which::Name(name)) {
                Ok(Some((place, _))) => return Ok(Found { rec, node, place }),
                Ok(None) => {}
                Err(e) if e.is_damage() => damage = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(damage.unwrap_or(Fault::NotFound))
    }

    /// Finds a name of a file that is in a slot or, intact, in the scratch page. A file with names
    /// pages is in a slot afterwards, and one read is made for each until the name is found.
    pub(crate) fn named(
        &mut self,
        place: Place,
        dir: u32,
        which: Which<'_>,
    ) -> Result<Option<(Place, Spot)>, Fault> {
        if matches!(place, Place::Dir(_)) {
            return Ok(None);
        }
        let view = self.file_at(place);
        if let Some(spot) = view.spot(self.store.volume, dir, which) {
            return Ok(Some((place, spot)));
        }
        if view.names().pages().next().is_none() {
            return Ok(None);
        }
        let i = match place {
            Place::File(i) => i,
            _ => self.load_file_at(self.store.scratch_holds.metadata())?,
        };
        let spot = self.find_spot(i, dir, which)?;
        Ok(spot.map(|spot| (Place::File(i), spot)))
    }

    /// Finds a name among the cached inodes. No read.
    fn find_cached(&self, dir: u32, hash: u32, name: &[u8]) -> Option<Found> {
        for &i in &FileSlot::ALL {
            let view = self.files[i].file();
            let which = Which::Name(name);
            if self.files[i].ino == 0 || view.spot(self.store.volume, dir, which).is_none() {
                continue;
            }
            let (target, ptr) = match view.flags() {
                0 => (Target::File, self.files[i].loc.0),
                FLAG_INDIRECT => (Target::Indirect, view.ino()),
                _ => continue,
            };
            return Some(Found {
                rec: DirRec::new(hash, RecState::New, target, ptr),
                node: Node::File(view.file_ref(self.store.volume)),
                place: Place::File(i),
            });
        }
        for &i in &DirSlot::ALL {
            let (ino, view) = (self.dirs[i].ino, self.dirs[i].dir());
            if ino > INDEX_DIR && view.parent() == dir && view.name() == name {
                return Some(Found {
                    rec: DirRec::new(hash, RecState::New, Target::Dir, ino),
                    node: Node::Dir(ino),
                    place: Place::Dir(i),
                });
            }
        }
        None
    }

    /// Brings the inode that an entry leads to where it can be looked at. `name` tells entries of
    /// files apart that are only in RAM.
    pub(crate) fn peek(
        &mut self,
        dir: u32,
        rec: &DirRec,
        name: &[u8],
    ) -> Result<Option<(Node, Place)>, Fault> {
        let volume = self.store.volume;
        match rec.target {
            Target::Dir => match self.peek_dir(rec.ptr) {
                Err(Fault::NotFound) => Err(self.bad_entry(dir)),
                place => Ok(Some((Node::Dir(rec.ptr), place?))),
            },
            Target::Indirect => {
                let file = FileRef::by_number(volume, rec.ptr);
                match self.peek_file(file) {
                    Ok(place) => Ok(Some((Node::File(file), place))),
                    Err(Fault::NotFound) => Ok(None),
                    Err(e) => Err(e),
                }
            }
            Target::File | Target::Orphan => {
                let cached = FileSlot::ALL.iter().copied().find(|&i| {
                    let slot = &self.files[i];
                    slot.ino != 0
                        && slot.loc.0 == rec.ptr
                        && (slot.loc.is_some()
                            || (slot.file().holder(volume) == (dir, rec.hash)
                                && (name.is_empty() || slot.file().name() == name)))
                });
                let place = match cached {
                    Some(i) => Place::File(i),
                    None if rec.ptr == u32::MAX => return Ok(None),
                    None => {
                        self.load_scratch(PageAddr(rec.ptr), Kind::File)?;
                        Place::Scratch
                    }
                };
                let file = match place {
                    Place::File(i) => self.files[i].file().file_ref(volume),
                    _ => FileView::on(&self.scratch).file_ref(volume),
                };
                Ok(Some((Node::File(file), place)))
            }
        }
    }

    /// An entry of a directory leads nowhere.
    pub(crate) fn bad_entry(&mut self, dir: u32) -> Fault {
        let at = self
            .dir_slot(dir)
            .map_or(PageAddr::NONE, |i| self.dirs[i].loc);
        self.store.nand.damaged(at, Damaged::Entry)
    }

    pub(crate) fn peek_dir(&mut self, ino: u32) -> Result<Place, Fault> {
        if let Some(i) = self.dir_slot(ino) {
            return Ok(Place::Dir(i));
        }
        let at = self.map_get(ino)?;
        if at.is_none() {
            return Err(Fault::NotFound);
        }
        match self.load_scratch(at, Kind::Dir) {
            // There may be a copy.
            Err(Fault::Corrupt(_)) => return self.load_dir(ino).map(Place::Dir),
            r => r?,
        }
        if DirView::on(&self.scratch).ino() != ino {
            return Err(self.store.nand.damaged(at, Damaged::Dir));
        }
        self.show_deferred(at)?;
        if self.has_stale_entries() {
            return self.load_dir(ino).map(Place::Dir);
        }
        Ok(Place::Scratch)
    }

    pub(crate) fn peek_file(&mut self, file: FileRef) -> Result<Place, Fault> {
        if let Some(i) = self.file_slot(file.ino) {
            return Ok(Place::File(i));
        }
        let at = self.find_file(file)?;
        if !FileView::on(&*self.scratch).is_sane() {
            return Err(self.store.nand.damaged(at, Damaged::File));
        }
        Ok(Place::Scratch)
    }

    /// A file that was brought where it can be looked at.
    pub(crate) fn file_at(&self, place: Place) -> FileView<'_> {
        match place {
            Place::File(i) => self.files[i].file(),
            _ => FileView::on(&*self.scratch),
        }
    }

    /// Finds a name; none when there is none and the directory has place for it.
    pub(crate) fn find_or_place(&mut self, dir: u32, name: &[u8]) -> Result<Option<Found>, Fault> {
        let (hash, mut n) = (name_hash(self.store.volume, name), 0);
        if let Some(found) = self.find_cached(dir, hash, name) {
            return Ok(Some(found));
        }
        match self.find_among(dir, hash, name, &mut n) {
            Ok(found) => return Ok(Some(found)),
            Err(Fault::NotFound) => {}
            Err(e) => return Err(e),
        }
        let i = self.load_dir(dir)?;
        if n < same_hash_max(self.store.page_size()) && self.dirs[i].dir().takes_names() {
            Ok(None)
        } else {
            Err(Fault::TooBig)
        }
    }
}

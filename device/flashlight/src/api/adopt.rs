//! What no directory leads to any more gets a name in `lost+found`: `#` and its number. Where
//! something else has one of these names, `.2` to `.9` come behind it.
//!
//! A repair does so with directories and with files found by their numbers. Files that were found
//! by a directory alone that is lost are found by a look at all pages, which takes more RAM than a
//! device has: a tool of the host does that, and hands them to [`FlashLight::adopt`].

use crate::FlashLight;
use crate::error::{Bool, Damaged, Error, Fault, sound};
use crate::format::dirrec::Target;
use crate::format::hash::ino_hash;
use crate::format::header::Kind;
use crate::format::inode::{FLAG_INDIRECT, FLAG_ORPHAN, FileView, MODE_DIR, NAME_MAX, Stamp};
use crate::format::node::{FileRef, INDEX_DIR, Node, ROOT_DIR};
use crate::index::inodes::New;
use flashkit_nand::{Nand, PageAddr};

/// The directory, in the root.
pub const LOST_FOUND: &[u8] = b"lost+found";

/// How often a name is tried that something else has.
const TRIES: u8 = 9;

/// `lost+found`, or `#` and a number of 32 bits, and from the second try on which it is.
struct Name {
    bytes: [u8; 13],
    len: usize,
}

impl Name {
    fn lost_found() -> Name {
        let mut bytes = [0; 13];
        bytes[..LOST_FOUND.len()].copy_from_slice(LOST_FOUND);
        let len = LOST_FOUND.len();
        Name { bytes, len }
    }

    fn of(ino: u32) -> Name {
        let (mut bytes, mut len) = ([b'#'; 13], 1);
        let digits = ino.checked_ilog10().map_or(1, |log| log + 1);
        for digit in (0..digits).rev() {
            bytes[len] = b'0' + (ino / 10u32.pow(digit) % 10) as u8;
            len += 1;
        }
        Name { bytes, len }
    }

    fn attempt(mut self, attempt: u8) -> Name {
        if attempt > 1 {
            self.bytes[self.len..self.len + 2].copy_from_slice(&[b'.', b'0' + attempt]);
            self.len += 2;
        }
        self
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// Gives a file a name in `lost+found`, which is made if it is not there. The page is the
    /// newest of its inode, the directory that the file says it is in cannot be read or is none,
    /// and nothing else leads to the file: whoever calls this has found that out. A file that was
    /// removed is given back what it had, if that has not been erased since.
    ///
    /// Durable with the next checkpoint. Some programs.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: the page holds no file. [`Error::Exists`]: the names are others'.
    /// [`Error::ReadOnly`]; [`Error::NoSpace`]; the driver's.
    pub fn adopt(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            let lost = fs.lost_found()?;
            fs.index_mut().load_scratch(at, Kind::File)?;
            let view = FileView::on(&*fs.index().scratch);
            let (ino, flags) = (view.ino(), view.flags());
            if flags & (FLAG_INDIRECT | FLAG_ORPHAN) != 0 {
                return Err(fs.store_mut().nand.damaged(at, Damaged::File));
            }
            let (name, hash) = fs.vacant_name(lost, ino)?;
            fs.index().need_page()?;
            fs.index_mut().reserve_index(true)?;
            fs.index_mut().flush_files()?;
            for dir in [INDEX_DIR, lost] {
                fs.index_mut().dir_reserve(dir)?;
            }
            let index = fs.index_mut();
            let i = match index.file_slot(ino) {
                Some(i) if index.files[i].loc == at => i,
                Some(_) => return Err(Fault::Exists),
                None => index.load_file_at(at)?,
            };
            let file = index.files[i].file().file_ref(index.store.volume);
            index.room_for_name(Node::File(file), name.len)?;
            // As for a rename: pages of data and of attributes name the entry that they were
            // written under.
            let referred = index.files[i].file().is_referred_to();
            let mut view = index.files[i].file_mut();
            if referred {
                view.set_flags(flags | FLAG_INDIRECT);
            }
            view.set_parent(lost);
            view.set_name(name.as_bytes());
            let placed = index.append_file(i).and_then(|at| {
                if !referred {
                    return index.dir_add(lost, hash, Target::File, at.0);
                }
                let by_number = ino_hash(index.store.volume, ino);
                index.dir_add(INDEX_DIR, by_number, Target::File, at.0)?;
                index.dir_add(lost, hash, Target::Indirect, ino)
            });
            index.not_in_part(placed)
        })
    }

    /// The number of `lost+found`, which is made if it is not there.
    fn lost_found(&mut self) -> Result<u32, Fault> {
        for attempt in 1..=TRIES {
            let name = Name::lost_found().attempt(attempt);
            let node = match self.volume.lookup(ROOT_DIR, name.as_bytes()) {
                Err(Fault::NotFound) => self.make_lost_found(name.as_bytes())?,
                found => found?.node,
            };
            if let Node::Dir(ino) = node {
                return Ok(ino);
            }
        }
        Err(Fault::NotDir)
    }

    fn make_lost_found(&mut self, name: &[u8]) -> Result<Node, Fault> {
        let root = self.volume.getattr(Node::Dir(ROOT_DIR))?;
        let new = New {
            mode: MODE_DIR | 0o700,
            uid: root.uid,
            gid: root.gid,
            now: root.ctime,
        };
        self.volume.mkdir(ROOT_DIR, name, &new)
    }

    /// The name that a number gets there, and its hash.
    fn vacant_name(&mut self, lost: u32, ino: u32) -> Result<(Name, u32), Fault> {
        let mut attempt = 1;
        loop {
            let name = Name::of(ino).attempt(attempt);
            match self.volume.vacant(lost, name.as_bytes()) {
                Err(Fault::Exists) if attempt < TRIES => attempt += 1,
                hash => return Ok((name, hash?)),
            }
        }
    }

    /// Gives a directory a name there that its parent has no entry for, or that has no parent.
    pub(crate) fn adopt_dir(&mut self, ino: u32) -> Result<(), Fault> {
        if ino <= INDEX_DIR || !self.is_stranded(ino)?.is_true() {
            return Ok(());
        }
        let lost = self.lost_found()?;
        let (name, hash) = self.vacant_name(lost, ino)?;
        let index = self.index_mut();
        index.dir_reserve(lost)?;
        index.room_for_name(Node::Dir(ino), name.len)?;
        index.load_dir(lost)?;
        let i = index.load_dir(ino)?;
        let mut view = index.dirs[i].dir_mut();
        view.set_parent(lost);
        view.set_name(name.as_bytes());
        index.dirs[i].change();
        index.dir_add(lost, hash, Target::Dir, ino)
    }

    /// Whether a directory is known to be in no other.
    fn is_stranded(&mut self, ino: u32) -> Result<Bool, Fault> {
        let index = self.index_mut();
        let i = index.load_dir(ino)?;
        let view = index.dirs[i].dir();
        let (parent, hash) = view.own_place(index.store.volume);
        match sound(index.map_get(parent)) {
            Ok(Some(page)) if page.is_some() => {
                let there = index.has_entry(parent, hash, Target::Dir, ino)?.is_true();
                Ok((!there).into())
            }
            // What cannot be read may lead to it.
            Ok(None) => Ok(Bool::False),
            Ok(_) | Err(Fault::NotFound) => Ok(Bool::True),
            Err(e) => Err(e),
        }
    }

    /// Gives a file found by its number a name there: no directory has an entry of it.
    pub(crate) fn adopt_by_number(&mut self, file: FileRef) -> Result<(), Fault> {
        let lost = self.lost_found()?;
        let (name, _) = self.vacant_name(lost, file.ino)?;
        let i = self.index_mut().load_file(file)?;
        let ctime = self.index().files[i].file().time(Stamp::Change);
        self.volume.link(file, lost, name.as_bytes(), ctime)?;
        // The others go.
        self.index_mut().repair_names(file).map(drop)
    }
}

const _: () = assert!(NAME_MAX >= 13 && LOST_FOUND.len() + 2 <= NAME_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_names() {
        for (ino, name) in [(0, "#0"), (7, "#7"), (10, "#10"), (u32::MAX, "#4294967295")] {
            assert_eq!(Name::of(ino).attempt(1).as_bytes(), name.as_bytes());
        }
        assert_eq!(Name::of(u32::MAX).attempt(9).as_bytes(), b"#4294967295.9");
    }
}

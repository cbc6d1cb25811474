//! Exchange: two names change places, files or directories.
//!
//! As a rename, it is one page: the first inode's, with its new name and parent, which says what name
//! it leaves and which inode takes that. The other inode's page, with its own new name, is the next
//! that is written of any inode but directories that show the exchange. A recovery that does not find
//! it writes it: the name is in the page that the record replaces. A file that is the other one is
//! found by its number from before the record on.

use crate::api::ops::Found;
use crate::error::Error;
use crate::format::dirrec::{NO_HASH, Target};
use crate::format::hash::name_hash;
use crate::format::header::Kind;
use crate::format::inode::{DirView, FLAG_EXCHANGED, FileView, NAME_MAX, Stamp, Time};
use crate::index::dir::Removal;
use crate::index::names::{Spot, Which, name_at, page_names, paged_name};
use crate::recovery::recover::{CHANGE, Record};
use crate::{FIRST_FILE, FileRef, FlashLight, INDEX_DIR, Node};
use flashkit_nand::{Nand, PageAddr};

/// Where a name is: directory, hash.
type Place = (u32, u32);

/// An exchange whose second inode has not been seen to know its new name.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// The first inode, and its page with the name that it has left.
    first: (Kind, u32, PageAddr),
    /// The second.
    pub second: u32,
    /// Where the first has been and the second is.
    left: Place,
    /// Where the first is and the second has been.
    taken: Place,
}

/// The second inode of an exchange, by what its entry is; none where the record cannot be one.
fn second(rec: &Record) -> Option<(Target, u32)> {
    let (kind, number) = rec.replaced.filter(|_| rec.flags & FLAG_EXCHANGED != 0)?;
    let target = match number {
        FIRST_FILE.. => Target::Indirect,
        _ if number > INDEX_DIR => Target::Dir,
        _ => return None,
    };
    let is_hash = rec.moved.0 != 0 && rec.moved.1 < NO_HASH;
    (kind == target as u8 && is_hash && number != rec.ino).then_some((target, number))
}

impl<N: Nand> FlashLight<'_, N> {
    /// Lets two names change places, whatever kinds of inodes they are of. Durable when this
    /// returns, and after a power cut both have or neither has. Returns where the two inodes are to be
    /// looked for from now on. Two names of one file: nothing.
    ///
    /// Two programs, one more for a second file that was not found by its number before, and at
    /// times those of the two directories before.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is a directory and the other below it; [`Error::TooManyLinks`] when
    /// a file has another name of the same hash in the other's directory.
    pub fn exchange(
        &mut self,
        (dir, name): (u32, &[u8]),
        (other_dir, other_name): (u32, &[u8]),
        now: Time,
    ) -> Result<[Node; 2], Error<N::Error>> {
        self.writable()?;
        self.make_room()?;
        let (first, other) = (self.find(dir, name)?, self.find(other_dir, other_name)?);
        if first.node == other.node {
            return Ok([first.node; 2]);
        }
        self.check_above(first.node, other_dir)?;
        self.check_above(other.node, dir)?;
        self.check_hash(&first, dir, other_dir, other_name)?;
        self.check_hash(&other, other_dir, dir, name)?;
        self.exchange_room(dir, other_dir)?;
        if let Node::File(file) = other.node {
            self.detach_target(file, other_dir, other_name, true)?;
        }
        self.settle_file(0)?;
        self.settle_file(1)?;
        let other = self.find(other_dir, other_name)?;
        self.room_for_name(first.node, other_name.len())?;
        self.room_for_name(other.node, name.len())?;
        self.settle_file(0)?;
        self.settle_file(1)?;
        self.exchange_room(dir, other_dir)?;
        let (first, other) = (self.find(dir, name)?, self.find(other_dir, other_name)?);
        self.check_own_name(first.node, dir, name)?;
        self.check_own_name(other.node, other_dir, other_name)?;
        let nodes = self.record_exchange((dir, name, first), (other_dir, other_name, other), now);
        let nodes = self.not_in_part(nodes)?;
        for dir in [dir, other_dir] {
            self.stamp_dir(dir, now)?;
        }
        Ok(nodes)
    }

    /// Asks before the record whether an inode can give this name up for another: see [`FlashLight::free_own_name`].
    fn check_own_name(&mut self, node: Node, dir: u32, name: &[u8]) -> Result<(), Error<N::Error>> {
        let Node::File(file) = node else {
            return Ok(());
        };
        let i = self.load_file(file)?;
        let own = self.files[i]
            .file()
            .spot(self.store.volume, dir, Which::Name(name));
        if own == Some(Spot::Own) {
            return Ok(());
        }
        self.place_for_own_name(i).map(|_| ())
    }

    fn exchange_room(&mut self, dir: u32, other_dir: u32) -> Result<(), Error<N::Error>> {
        for dir in [INDEX_DIR, dir, other_dir] {
            self.dir_reserve(dir)?;
        }
        Ok(())
    }

    /// Writes the record and changes the directories; then writes the second inode. When that fails,
    /// nothing more is written, and the next mount does it.
    fn record_exchange(
        &mut self,
        (dir, name, first): (u32, &[u8], Found),
        (other_dir, other_name, other): (u32, &[u8], Found),
        now: Time,
    ) -> Result<[Node; 2], Error<N::Error>> {
        let (left, taken) = ((dir, first.rec.hash), (other_dir, other.rec.hash));
        let (second, to) = ((other.rec.target, other.rec.ptr), (other_dir, other_name));
        let (entry, node) = match first.node {
            Node::File(file) => {
                let from = (dir, left.1, name);
                self.record_file_move(file, from, to, Some(second), FLAG_EXCHANGED, now)?
            }
            Node::Dir(ino) => {
                self.record_dir_move(ino, left, to, Some(second), FLAG_EXCHANGED, now)?;
                ((Target::Dir, ino), first.node)
            }
        };
        let done = self
            .dir_remove(dir, &first.rec, Removal::Recorded)
            .and_then(|()| self.dir_add(dir, left.1, second.0, second.1))
            .and_then(|()| self.dir_remove(other_dir, &other.rec, Removal::Recorded))
            .and_then(|()| self.dir_add(other_dir, taken.1, entry.0, entry.1))
            .and_then(|()| self.take_name(other.node, taken, (dir, name), Some(now)));
        self.store.nand.failed |= done.is_err();
        done?;
        Ok([node, other.node])
    }

    /// Gives the second inode of an exchange the name that the first has left, in place of the one of
    /// that directory and hash, and writes it.
    fn take_name(
        &mut self,
        node: Node,
        (old_dir, old_hash): Place,
        (dir, name): (u32, &[u8]),
        now: Option<Time>,
    ) -> Result<(), Error<N::Error>> {
        self.room_for_name(node, name.len())?;
        match node {
            Node::Dir(ino) => {
                let i = self.load_dir(ino)?;
                let mut view = self.dirs[i].dir_mut();
                view.set_parent(dir);
                view.set_name(name);
                now.into_iter()
                    .for_each(|now| view.set_time(Stamp::Change, now));
                self.dirs[i].dirty = true;
                self.flush_dir(i)
            }
            Node::File(file) => {
                let i = self.load_file(file)?;
                self.free_own_name(i, old_dir, Which::Hash(old_hash))?;
                let mut view = self.files[i].file_mut();
                view.set_parent(dir);
                view.set_name(name);
                now.into_iter()
                    .for_each(|now| view.set_time(Stamp::Change, now));
                self.files[i].change();
                self.flush_file(i)
            }
        }
    }

    /// In a recovery, for the record of an exchange: the directories that do not show it get to. What
    /// the record's own inode is, and its own new entry, is the caller's business, and so is that its
    /// old entry is gone.
    pub(crate) fn replay_exchange(
        &mut self,
        rec: &Record,
        kind: Kind,
    ) -> Result<(), Error<N::Error>> {
        let Some((target, number)) = second(rec) else {
            return Ok(());
        };
        let taken = (rec.parent, rec.hash);
        if self.is_older(taken.0, rec.seq)? {
            self.unlink_if(taken.0, taken.1, |r| r.same_object(target, number))?;
        }
        self.link_if(rec, rec.moved, target, number)?;
        if let Some(recovery) = &mut self.store.recovery {
            recovery.exchange = Some(Pending {
                first: (kind, rec.ino, rec.prev),
                second: number,
                left: rec.moved,
                taken,
            });
        }
        Ok(())
    }

    /// At the end of a recovery: the last exchange is finished when its second page was not written.
    /// Up to three reads and two programs.
    pub(crate) fn finish_exchange(&mut self, pending: Pending) -> Result<(), Error<N::Error>> {
        let mut buf = [0; NAME_MAX];
        let Some(len) = self.name_left(&pending, &mut buf)? else {
            self.note_damage(pending.first.2, CHANGE);
            return Ok(());
        };
        let node = if pending.second < FIRST_FILE {
            Node::Dir(pending.second)
        } else {
            Node::File(FileRef::by_number(self.store.volume, pending.second))
        };
        let new = (pending.left.0, &buf[..len]);
        match self.take_name(node, pending.taken, new, None) {
            Err(Error::Corrupt(page, what)) if !self.store.nand.failed => {
                self.note_damage(page, what);
                Ok(())
            }
            // It has as many names as it takes: builds until commit 40772d6 made such records.
            Err(Error::TooManyLinks) => {
                self.note_damage(pending.first.2, CHANGE);
                Ok(())
            }
            Err(Error::NotFound) => Ok(()),
            r => r,
        }
    }

    /// The name that the first inode of an exchange has left; none if it cannot be read.
    fn name_left(
        &mut self,
        pending: &Pending,
        buf: &mut [u8; NAME_MAX],
    ) -> Result<Option<usize>, Error<N::Error>> {
        let ((kind, ino, at), (dir, hash)) = (pending.first, pending.left);
        let volume = self.store.volume;
        let mut copy = |name: &[u8]| {
            buf[..name.len()].copy_from_slice(name);
            Ok(Some(name.len()))
        };
        for n in 0.. {
            self.store.scratch_at = PageAddr::NONE;
            let header = self.store.read_meta(at, self.scratch)?;
            let dir_view = DirView::on(&*self.scratch);
            if header.is_none_or(|h| h.kind != kind) || dir_view.ino() != ino {
                break;
            }
            if kind == Kind::Dir {
                let is_it = ino > INDEX_DIR
                    && dir_view.parent() == dir
                    && name_hash(volume, dir_view.name()) == hash;
                return if is_it {
                    copy(dir_view.name())
                } else {
                    Ok(None)
                };
            }
            let view = FileView::on(&*self.scratch);
            if let Some(spot) = view.spot(volume, dir, Which::Hash(hash)) {
                return copy(name_at(self.scratch, spot, &[]));
            }
            let Some(page) = view.names_page(n) else {
                break;
            };
            let found = self.load_map_page(Kind::Names, (0, page), ino, "names page");
            if crate::error::sound(found)?.is_some()
                && let Some(at) = page_names(self.scratch).find(volume, dir, Which::Hash(hash))
            {
                return copy(paged_name(self.scratch, at));
            }
        }
        Ok(None)
    }
}

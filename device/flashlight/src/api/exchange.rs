//! Exchange: two names change places, files or directories.
//!
//! As a rename, it is one page: the first inode's, with its new name and parent, which says what
//! name it leaves and which inode takes that. The other inode's page, with its own new name, is the
//! next that is written of any inode but directories that show the exchange. A recovery that does
//! not find it writes it: the name is in the page that the record replaces. A file that is the
//! other one is found by its number from before the record on.

use crate::FlashLight;
use crate::error::{Error, Fault};
use crate::format::dirrec::Target;
use crate::format::inode::{FLAG_EXCHANGED, Time};
use crate::format::names::{Spot, Which};
use crate::format::node::Node;
use crate::index::Index;
use crate::index::dir::Removal;
use crate::index::lookup::Found;
use flashkit_nand::Nand;

impl<N: Nand> FlashLight<'_, N> {
    /// Lets two names change places, whatever kinds of inodes they are of. Durable when this
    /// returns, and after a power cut both have or neither has. Returns where the two inodes are to
    /// be looked for from now on. Two names of one file: nothing.
    ///
    /// Two programs, one more for a second file that was not found by its number before, and at
    /// times those of the two directories before.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is a directory and the other below it; [`Error::TooManyLinks`]
    /// when a file has another name of the same hash in the other's directory.
    pub fn exchange(
        &mut self,
        (dir, name): (u32, &[u8]),
        (other_dir, other_name): (u32, &[u8]),
        now: Time,
    ) -> Result<[Node; 2], Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.make_room()?;
            let (first, other) = (
                fs.index_mut().find(dir, name)?,
                fs.index_mut().find(other_dir, other_name)?,
            );
            if first.node == other.node {
                return Ok([first.node; 2]);
            }
            fs.check_above(first.node, other_dir)?;
            fs.check_above(other.node, dir)?;
            fs.index_mut()
                .check_hash(&first, dir, other_dir, other_name)?;
            fs.index_mut().check_hash(&other, other_dir, dir, name)?;
            fs.index_mut().exchange_room(dir, other_dir)?;
            if let Node::File(file) = other.node {
                fs.index_mut()
                    .detach_target(file, other_dir, other_name, true)?;
            }
            fs.index_mut().flush_files()?;
            let other = fs.index_mut().find(other_dir, other_name)?;
            fs.index_mut().room_for_name(first.node, other_name.len())?;
            fs.index_mut().room_for_name(other.node, name.len())?;
            fs.index_mut().flush_files()?;
            fs.index_mut().exchange_room(dir, other_dir)?;
            let (first, other) = (
                fs.index_mut().find(dir, name)?,
                fs.index_mut().find(other_dir, other_name)?,
            );
            fs.index_mut().check_own_name(first.node, dir, name)?;
            fs.index_mut()
                .check_own_name(other.node, other_dir, other_name)?;
            let nodes = fs.index_mut().record_exchange(
                (dir, name, first),
                (other_dir, other_name, other),
                now,
            );
            let nodes = fs.index_mut().not_in_part(nodes)?;
            for dir in [dir, other_dir] {
                fs.index_mut().stamp_dir(dir, now)?;
            }
            Ok(nodes)
        })
    }
}

impl<N: Nand> Index<'_, N> {
    /// Asks before the record whether an inode can give this name up for another: see
    /// [`Index::free_own_name`].
    fn check_own_name(&mut self, node: Node, dir: u32, name: &[u8]) -> Result<(), Fault> {
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

    fn exchange_room(&mut self, dir: u32, other_dir: u32) -> Result<(), Fault> {
        self.reserve_index(false)?;
        self.dir_reserve(dir)?;
        self.dir_reserve(other_dir)
    }

    /// Writes the record and changes the directories; then writes the second inode. When that
    /// fails, nothing more is written, and the next mount does it.
    fn record_exchange(
        &mut self,
        (dir, name, first): (u32, &[u8], Found),
        (other_dir, other_name, other): (u32, &[u8], Found),
        now: Time,
    ) -> Result<[Node; 2], Fault> {
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
        self.whole_or_stop(done)?;
        Ok([node, other.node])
    }
}

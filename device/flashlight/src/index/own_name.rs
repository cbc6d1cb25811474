//! The name that stands in an inode itself: another takes its place.

use crate::error::{Damaged, Fault};
use crate::format::inode::{Stamp, Time};
use crate::format::names::{Spot, Which};
use crate::format::node::Node;
use crate::index::Index;
use crate::index::file::KEPT;
use crate::index::slots::FileSlot;
use crate::space::opened::NamePlace;
use flashkit_nand::Nand;

impl<N: Nand> Index<'_, N> {
    /// Gives the second inode of an exchange the name that the first has left, in place of the one
    /// of that directory and hash, and writes it.
    pub(crate) fn take_name(
        &mut self,
        node: Node,
        (old_dir, old_hash): NamePlace,
        (dir, name): (u32, &[u8]),
        now: Option<Time>,
    ) -> Result<(), Fault> {
        self.room_for_name(node, name.len())?;
        match node {
            Node::Dir(ino) => {
                let i = self.load_dir(ino)?;
                let mut view = self.dirs[i].dir_mut();
                view.set_parent(dir);
                view.set_name(name);
                now.into_iter()
                    .for_each(|now| view.set_time(Stamp::Change, now));
                self.dirs[i].change();
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

    /// Makes room in an inode's page for another name in place of one of those it has.
    pub(crate) fn room_for_name(&mut self, node: Node, len: usize) -> Result<(), Fault> {
        let file = match node {
            Node::Dir(ino) => return self.dir_room(ino, len).map(|_| ()),
            Node::File(file) => file,
        };
        let i = self.load_file(file)?;
        let growth = if self.files[i].file().names_len() == 0 {
            len
        } else {
            self.names_growth(i, len)
        };
        self.need_place(i, growth + KEPT)?;
        self.file_room(i, growth)
    }

    /// In RAM, but for names pages: a file that gets another name for this one has it as its own
    /// name, or no own name.
    pub(crate) fn free_own_name(
        &mut self,
        i: FileSlot,
        dir: u32,
        name: Which<'_>,
    ) -> Result<(), Fault> {
        let volume = self.store.volume;
        if self.files[i].file().spot(volume, dir, name) == Some(Spot::Own) {
            return Ok(());
        }
        self.demote_name(i)?;
        match self.find_spot(i, dir, name)? {
            Some(spot) => self.drop_name(i, spot),
            None => {
                let at = self.files[i].loc;
                Err(self.store.nand.damaged(at, Damaged::Names))
            }
        }
    }
}

//! Extended attributes: the page that a file or directory keeps them in.

use crate::error::{Bool, Fault};
use crate::format::area::LogArea;
use crate::format::attributes::AttributesPage;
use crate::format::extent;
use crate::format::header::Kind;
use crate::format::inode::{DirView, Stamp, Time};
use crate::format::mappage::{MapPage, Owner};
use crate::format::node::Node;
use crate::index::Index;
use crate::index::lookup::Place;
use crate::index::slots::AnySlot;
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Index<'_, N> {
    /// Brings the extended attributes of an inode into the scratch page; `false` when there are
    /// none. A read, and the inode's.
    pub(crate) fn load_attributes(&mut self, node: Node) -> Result<Bool, Fault> {
        let place = match node {
            Node::Dir(ino) => self.peek_dir(ino)?,
            Node::File(file) => self.peek_file(file)?,
        };
        let at = match place {
            Place::Dir(i) => self.dirs[i].dir().xattr(),
            Place::File(i) => self.files[i].file().xattr(),
            Place::Scratch => DirView::on(&*self.scratch).xattr(),
        };
        self.load_attributes_at(at, node.ino())
    }

    pub(crate) fn load_attributes_at(&mut self, at: PageAddr, ino: u32) -> Result<Bool, Fault> {
        if at.is_none() {
            return Ok(Bool::False);
        }
        self.load_map_page(Kind::Attributes, (0, at), ino)?;
        Ok(Bool::True)
    }

    /// Brings an inode into its slot, with room for a note of a freed page. Returns the slot, the
    /// owner of its attributes, and where they are.
    pub(crate) fn attributes_of(
        &mut self,
        node: Node,
    ) -> Result<(AnySlot, Owner, PageAddr), Fault> {
        match node {
            Node::Dir(ino) => {
                self.dir_reserve(ino)?;
                let i = self.load_dir(ino)?;
                let owner = Owner {
                    ino,
                    dir: 0,
                    hash: 0,
                };
                Ok((AnySlot::Dir(i), owner, self.dirs[i].dir().xattr()))
            }
            Node::File(file) => {
                let i = self.load_file(file)?;
                self.file_room(i, extent::SIZE)?;
                let view = self.files[i].file();
                let owner = view.file_ref(self.store.volume);
                Ok((AnySlot::File(i), owner, view.xattr()))
            }
        }
    }

    /// Writes the attributes in the scratch page, in place of those at `old`.
    pub(crate) fn put_attributes(
        &mut self,
        owner: Owner,
        old: PageAddr,
    ) -> Result<PageAddr, Fault> {
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut page: AttributesPage<'_> = MapPage(page);
        page.set_owner(owner);
        let len = page.len();
        self.append_scratch(LogArea::Extent, len, Kind::Attributes, old)
    }

    /// Makes an inode in its slot lead to its attributes at a new place, or to none;
    /// what was at the old one is free with its next page. `changed`: when the user did
    /// it, unless it is cleaning.
    pub(crate) fn replace_attributes(
        &mut self,
        slot: AnySlot,
        (old, new): (PageAddr, PageAddr),
        changed: Option<Time>,
    ) -> Result<(), Fault> {
        match slot {
            AnySlot::Dir(i) => {
                let mut view = self.dirs[i].dir_mut();
                view.set_xattr(new);
                if let Some(now) = changed {
                    view.set_time(Stamp::Change, now);
                }
                self.dirs[i].change();
                if old.is_some() {
                    self.store.invalidate(old, MayProgram);
                    self.dir_note_freed_page(i, old)?;
                }
            }
            AnySlot::File(i) => {
                let mut view = self.files[i].file_mut();
                view.set_xattr(new);
                if let Some(now) = changed {
                    view.set_time(Stamp::Change, now);
                }
                self.files[i].change();
                if old.is_some() {
                    self.free_run(i, old.0, 1, MayProgram);
                }
            }
        }
        Ok(())
    }

    /// Moves the attributes at `at`, which are in the scratch page, if their inode leads there.
    pub(crate) fn move_attributes(&mut self, at: PageAddr) -> Result<(), Fault> {
        let owner = MapPage::<&[u8], 1>::on(&self.scratch).owner();
        let node = if owner.ino < crate::FIRST_FILE {
            Node::Dir(owner.ino)
        } else {
            Node::File(owner)
        };
        let (slot, owner, there) = self.attributes_of(node)?;
        if there != at || !self.load_attributes_at(at, owner.ino)?.is_true() {
            return Ok(());
        }
        let new = self.put_attributes(owner, at)?;
        self.replace_attributes(slot, (at, new), None)
    }
}

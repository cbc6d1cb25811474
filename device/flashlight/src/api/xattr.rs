//! Extended attributes: names with values that the user gives to files and directories.
//!
//! All of an inode are in one page of their own, which the inode leads to. It has the layout of a map
//! ([`crate::format::mappage`]) with keys 0; its records are bytes, in no order:
//!
//! ```text
//! 0  length of the name u8   1  length of the value u16   3  name, value
//! ```
//!
//! What names may be used, and by whom, is the caller's business. A change writes the page anew, and
//! counts with the inode's next page: so it is durable as other changes of the inode are.

use crate::api::ops::Place;
use crate::error::Error;
use crate::format::bytes::{get_u16, put_u16};
use crate::format::extent;
use crate::format::header::Kind;
use crate::format::inode::{DirView, FileView, Stamp, Time};
use crate::format::mappage::{self, MapPage, Owner};
use crate::space::store::Area;
use crate::{FlashLight, Node};
use flashkit_nand::{Nand, PageAddr};

/// Bytes before a name.
const HEAD: usize = 3;
/// Longest name of an extended attribute.
pub const XATTR_NAME_MAX: usize = 255;
/// What damage is called.
pub(crate) const WHAT: &str = "extended attributes";

type AttributesPage<'a> = MapPage<&'a mut [u8], 1>;

/// Whether an extended attribute may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// It may.
    Any,
    /// It must not ([`Error::Exists`]).
    Create,
    /// It must ([`Error::NoAttribute`]).
    Replace,
}

/// Names and values as bytes; whatever they are, reading them ends.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those of a page.
    pub fn on(page: &'a [u8]) -> Self {
        let n = MapPage::<_, 1>(page).count();
        Attributes(
            page.get(mappage::RECORDS..mappage::RECORDS + n)
                .unwrap_or(&[]),
        )
    }

    /// The attribute at a byte, and where the next one is.
    fn item(self, at: usize) -> Option<(&'a [u8], &'a [u8], usize)> {
        let rest = self.0.get(at..)?;
        let (name, value) = (usize::from(*rest.first()?), rest.get(1..HEAD)?);
        let (name, value) = (HEAD + name, usize::from(get_u16(value, 0)));
        let item = rest.get(..name + value)?;
        Some((&item[HEAD..name], &item[name..], at + name + value))
    }

    /// Names and values, with the byte at which each is.
    pub fn iter(self) -> impl Iterator<Item = (usize, &'a [u8], &'a [u8])> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (name, value, next) = self.item(at)?;
            Some((core::mem::replace(&mut at, next), name, value))
        })
    }

    fn find(self, name: &[u8]) -> Option<(usize, &'a [u8])> {
        let is = |item: &(usize, &[u8], &[u8])| item.1 == name;
        self.iter().find(is).map(|(at, _, value)| (at, value))
    }

    /// Whether the attributes fill the bytes exactly, there are any, and they have names, each
    /// another.
    pub fn are_sane(self) -> bool {
        let mut end = 0;
        let named = self.iter().all(|(at, name, value)| {
            end = at + HEAD + name.len() + value.len();
            !name.is_empty() && !name.contains(&0) && self.find(name).map(|f| f.0) == Some(at)
        });
        named && end == self.0.len() && end > 0
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// Brings the extended attributes of an inode into the scratch page; `false` when there are none.
    /// A read, and the inode's.
    fn load_attributes(&mut self, node: Node) -> Result<bool, Error<N::Error>> {
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

    pub(crate) fn load_attributes_at(
        &mut self,
        at: PageAddr,
        ino: u32,
    ) -> Result<bool, Error<N::Error>> {
        if at.is_none() {
            return Ok(false);
        }
        self.load_map_page(Kind::Attributes, (0, at), ino, WHAT)?;
        Ok(true)
    }

    /// Reads the value of an extended attribute, as far as `value` reaches, and returns its length. A
    /// read, and the inode's.
    ///
    /// # Errors
    /// [`Error::NoAttribute`].
    pub fn xattr(
        &mut self,
        node: Node,
        name: &[u8],
        value: &mut [u8],
    ) -> Result<usize, Error<N::Error>> {
        if !self.reading(|fs| fs.load_attributes(node))? {
            return Err(Error::NoAttribute);
        }
        let found = Attributes::on(self.scratch).find(name);
        let (_, found) = found.ok_or(Error::NoAttribute)?;
        let n = found.len().min(value.len());
        value[..n].copy_from_slice(&found[..n]);
        Ok(found.len())
    }

    /// Calls `each` with the name of every extended attribute. A read, and the inode's.
    pub fn xattrs(
        &mut self,
        node: Node,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error<N::Error>> {
        if self.reading(|fs| fs.load_attributes(node))? {
            for (_, name, _) in Attributes::on(self.scratch).iter() {
                each(name);
            }
        }
        Ok(())
    }

    /// Gives an inode an extended attribute. One program, and a read when it has some already;
    /// durable as other changes of the inode are.
    ///
    /// # Errors
    /// [`Error::Exists`] and [`Error::NoAttribute`] as [`SetXattr`] says; [`Error::NoSpace`] when all
    /// of the inode's no longer fit a page: of 2,048 bytes they may have 1,992, with three bytes for
    /// each; [`Error::Invalid`] for a name that is empty or has a NUL, [`Error::NameTooLong`].
    pub fn set_xattr(
        &mut self,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.writable()?;
        if name.len() > XATTR_NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::Invalid);
        }
        let new = HEAD + name.len() + value.len();
        if new > self.store.page_size() - mappage::RECORDS {
            return Err(Error::NoSpace);
        }
        self.make_room()?;
        self.need_page()?;
        let (i, owner, old) = self.attributes_of(node)?;
        let there = self.load_attributes_at(old, owner.ino)?;
        let found = there
            .then(|| Attributes::on(self.scratch).find(name))
            .flatten();
        match (how, found) {
            (SetXattr::Create, Some(_)) => return Err(Error::Exists),
            (SetXattr::Replace, None) => return Err(Error::NoAttribute),
            _ => {}
        }
        let gone = found.map(|(at, value)| (at, HEAD + name.len() + value.len()));
        let used = if there {
            Attributes::on(self.scratch).0.len()
        } else {
            0
        };
        if used - gone.map_or(0, |(_, n)| n) + new > self.store.page_size() - mappage::RECORDS {
            return Err(Error::NoSpace);
        }
        self.store.scratch_at = PageAddr::NONE;
        let mut page: AttributesPage<'_> = MapPage(self.scratch);
        if !there {
            page.init(owner, 0, 0);
        }
        if let Some((at, n)) = gone {
            page.cut_bytes(at, n);
        }
        let mut head = [name.len() as u8, 0, 0];
        put_u16(&mut head, 1, value.len() as u16);
        page.append_bytes(&head);
        page.append_bytes(name);
        page.append_bytes(value);
        let at = self.put_attributes(owner, old)?;
        self.replace_attributes(node, i, (old, at), Some(now))
    }

    /// Takes an extended attribute away. A read and one program; of the last one a read. Durable as
    /// other changes of the inode are.
    ///
    /// # Errors
    /// [`Error::NoAttribute`].
    pub fn remove_xattr(
        &mut self,
        node: Node,
        name: &[u8],
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.writable()?;
        self.make_room()?;
        let (i, owner, old) = self.attributes_of(node)?;
        if !self.load_attributes_at(old, owner.ino)? {
            return Err(Error::NoAttribute);
        }
        let all = Attributes::on(self.scratch);
        let (at, value) = all.find(name).ok_or(Error::NoAttribute)?;
        let n = HEAD + name.len() + value.len();
        let last = n == all.0.len();
        let mut new = PageAddr::NONE;
        if !last {
            self.store.scratch_at = PageAddr::NONE;
            AttributesPage::on(self.scratch).cut_bytes(at, n);
            new = self.put_attributes(owner, old)?;
        }
        self.replace_attributes(node, i, (old, new), Some(now))
    }

    /// Brings an inode into its slot, with room for a note of a freed page. Returns the slot, the
    /// owner of its attributes, and where they are.
    fn attributes_of(&mut self, node: Node) -> Result<(usize, Owner, PageAddr), Error<N::Error>> {
        match node {
            Node::Dir(ino) => {
                self.dir_reserve(ino)?;
                let i = self.load_dir(ino)?;
                let owner = Owner {
                    ino,
                    dir: 0,
                    hash: 0,
                };
                Ok((i, owner, self.dirs[i].dir().xattr()))
            }
            Node::File(file) => {
                let i = self.load_file(file)?;
                self.file_room(i, extent::SIZE)?;
                let view = self.files[i].file();
                Ok((i, view.file_ref(self.store.volume), view.xattr()))
            }
        }
    }

    /// Writes the attributes in the scratch page, in place of those at `old`.
    fn put_attributes(&mut self, owner: Owner, old: PageAddr) -> Result<PageAddr, Error<N::Error>> {
        let mut page: AttributesPage<'_> = MapPage(self.scratch);
        page.set_owner(owner);
        let len = page.len();
        let page = &mut self.scratch[..len];
        self.store.append(Area::Extent, page, Kind::Attributes, old)
    }

    /// Makes an inode in its slot lead to its attributes at a new place, or to none; what was at the
    /// old one is free with its next page. `changed`: when the user did it, unless it is cleaning.
    fn replace_attributes(
        &mut self,
        node: Node,
        i: usize,
        (old, new): (PageAddr, PageAddr),
        changed: Option<Time>,
    ) -> Result<(), Error<N::Error>> {
        match node {
            Node::Dir(_) => {
                let mut view = self.dirs[i].dir_mut();
                view.set_xattr(new);
                if let Some(now) = changed {
                    view.set_time(Stamp::Change, now);
                }
                self.dirs[i].dirty = true;
                if old.is_some() {
                    self.store.invalidate(old);
                    self.dir_note_freed_page(i, old)?;
                }
            }
            Node::File(_) => {
                let mut view = self.files[i].file_mut();
                view.set_xattr(new);
                if let Some(now) = changed {
                    view.set_time(Stamp::Change, now);
                }
                self.files[i].change();
                if old.is_some() {
                    self.free_run(i, old.0, 1);
                }
            }
        }
        Ok(())
    }

    /// Moves the attributes at `at`, which are in the scratch page, if their inode leads there.
    pub(crate) fn move_attributes(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let owner = AttributesPage::on(self.scratch).owner();
        let node = if owner.ino < crate::FIRST_FILE {
            Node::Dir(owner.ino)
        } else {
            Node::File(owner)
        };
        let (i, owner, there) = self.attributes_of(node)?;
        if there != at || !self.load_attributes_at(at, owner.ino)? {
            return Ok(());
        }
        self.store.scratch_at = PageAddr::NONE;
        let new = self.put_attributes(owner, at)?;
        self.replace_attributes(node, i, (at, new), None)
    }
}

impl FileView<'_> {
    /// Whether something but the file's own page names the entry that it is found by.
    pub(crate) fn is_referred_to(&self) -> bool {
        self.records() > 0 || self.pointers() > 0 || self.xattr().is_some()
    }
}

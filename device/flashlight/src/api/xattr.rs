//! Extended attributes: names with values that the user gives to files and directories.
//!
//! All of an inode are in one page of their own, which the inode leads to. It has the layout of a
//! map ([`crate::format::mappage`]) with keys 0; its records are bytes, in no order:
//!
//! ```text
//! 0  length of the name u8   1  length of the value u16   3  name, value
//! ```
//!
//! What names may be used, and by whom, is the caller's business. A change writes the page anew,
//! and counts with the inode's next page: so it is durable as other changes of the inode are.

use crate::FlashLight;
use crate::error::{Error, Fault};
use crate::format::attributes::{Attributes, AttributesPage, HEAD, XATTR_NAME_MAX};
use crate::format::inode::Time;
use crate::format::mappage::{self, MapPage};
use crate::format::node::Node;
use crate::format::wellformed::has_none;
use flashkit_bytes::put_u16;
use flashkit_nand::{Nand, PageAddr};

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

impl<N: Nand> FlashLight<'_, N> {
    /// Reads the value of an extended attribute, as far as `value` reaches, and returns its
    /// length. A read, and the inode's.
    ///
    /// # Errors
    /// [`Error::NoAttribute`].
    pub fn xattr(
        &mut self,
        node: Node,
        name: &[u8],
        value: &mut [u8],
    ) -> Result<usize, Error<N::Error>> {
        self.told(|fs| {
            if !fs
                .volume
                .reading(|volume| volume.index_mut().load_attributes(node))?
                .is_true()
            {
                return Err(Fault::NoAttribute);
            }
            let found = Attributes::on(&fs.index().scratch).find(name);
            let (_, found) = found.ok_or(Fault::NoAttribute)?;
            let n = found.len().min(value.len());
            value[..n].copy_from_slice(&found[..n]);
            Ok(found.len())
        })
    }

    /// Calls `each` with the name of every extended attribute. A read, and the inode's.
    pub fn xattrs(
        &mut self,
        node: Node,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            if fs
                .volume
                .reading(|volume| volume.index_mut().load_attributes(node))?
                .is_true()
            {
                for (_, name, _) in Attributes::on(&fs.index().scratch).iter() {
                    each(name);
                }
            }
            Ok(())
        })
    }

    /// Gives an inode an extended attribute. One program, and a read when it has some already;
    /// durable as other changes of the inode are.
    ///
    /// # Errors
    /// [`Error::Exists`] and [`Error::NoAttribute`] as [`SetXattr`] says;
    /// [`Error::NoSpace`] when all of the inode's no longer fit a page: of 2,048 bytes they
    /// may have 1,992, with three bytes for each; [`Error::Invalid`] for a name that is
    /// empty or has a NUL, [`Error::NameTooLong`].
    pub fn set_xattr(
        &mut self,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            if name.len() > XATTR_NAME_MAX {
                return Err(Fault::NameTooLong);
            }
            if name.is_empty() || !has_none(name, 0) {
                return Err(Fault::Invalid);
            }
            let new = HEAD + name.len() + value.len();
            if new > fs.store().page_size() - mappage::RECORDS {
                return Err(Fault::NoSpace);
            }
            fs.volume.make_room()?;
            fs.index().need_page()?;
            let (slot, owner, old) = fs.index_mut().attributes_of(node)?;
            let there = fs.index_mut().load_attributes_at(old, owner.ino)?.is_true();
            let found = there
                .then(|| Attributes::on(&fs.index().scratch).find(name))
                .flatten();
            match (how, found) {
                (SetXattr::Create, Some(_)) => return Err(Fault::Exists),
                (SetXattr::Replace, None) => return Err(Fault::NoAttribute),
                _ => {}
            }
            let gone = found.map(|(at, value)| (at, HEAD + name.len() + value.len()));
            let used = if there {
                Attributes::on(&fs.index().scratch).0.len()
            } else {
                0
            };
            if used - gone.map_or(0, |(_, n)| n) + new > fs.store().page_size() - mappage::RECORDS {
                return Err(Fault::NoSpace);
            }
            let index = fs.index_mut();
            let page = index.scratch.overwrite(&mut index.store.scratch_holds);
            let mut page: AttributesPage<'_> = MapPage(page);
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
            let at = fs.index_mut().put_attributes(owner, old)?;
            fs.index_mut()
                .replace_attributes(slot, (old, at), Some(now))
        })
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
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.make_room()?;
            let (slot, owner, old) = fs.index_mut().attributes_of(node)?;
            if !fs.index_mut().load_attributes_at(old, owner.ino)?.is_true() {
                return Err(Fault::NoAttribute);
            }
            let all = Attributes::on(&fs.index().scratch);
            let (at, value) = all.find(name).ok_or(Fault::NoAttribute)?;
            let n = HEAD + name.len() + value.len();
            let last = n == all.0.len();
            let mut new = PageAddr::NONE;
            if !last {
                let index = fs.index_mut();
                let page = index.scratch.overwrite(&mut index.store.scratch_holds);
                AttributesPage::on(page).cut_bytes(at, n);
                new = index.put_attributes(owner, old)?;
            }
            fs.index_mut()
                .replace_attributes(slot, (old, new), Some(now))
        })
    }
}

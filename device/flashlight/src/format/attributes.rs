//! The page of extended attributes: items of a name and a value.

use crate::format::bytes::get_u16;
use crate::format::inode::FileView;
use crate::format::mappage::{self, MapPage};

/// Bytes before a name.
pub(crate) const HEAD: usize = 3;

/// Longest name of an extended attribute.
pub const XATTR_NAME_MAX: usize = 255;

/// What damage is called.
pub(crate) const WHAT: &str = "extended attributes";

pub(crate) type AttributesPage<'a> = MapPage<&'a mut [u8], 1>;

/// Names and values as bytes; whatever they are, reading them ends.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

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

    pub(crate) fn find(self, name: &[u8]) -> Option<(usize, &'a [u8])> {
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

impl FileView<'_> {
    /// Whether something but the file's own page names the entry that it is found by.
    pub(crate) fn is_referred_to(&self) -> bool {
        self.records() > 0 || self.pointers() > 0 || self.xattr().is_some()
    }
}

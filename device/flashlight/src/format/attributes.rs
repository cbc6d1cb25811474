//! The page of extended attributes: items of a name and a value.

use crate::format::inode::FileView;
use crate::format::mappage::{self, MapPage};
use crate::format::wellformed::has_none;
use flashkit_bytes::get_u16;

/// Bytes before a name.
pub(crate) const HEAD: usize = 3;

/// Longest name of an extended attribute.
pub const XATTR_NAME_MAX: usize = 255;

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
            !name.is_empty() && has_none(name, 0) && self.find(name).map(|f| f.0) == Some(at)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with these attributes.
    fn page(attributes: &[(&[u8], &[u8])]) -> std::vec::Vec<u8> {
        let mut page = vec![0; mappage::RECORDS];
        for (name, value) in attributes {
            page.push(name.len() as u8);
            page.extend((value.len() as u16).to_le_bytes());
            page.extend([*name, *value].concat());
        }
        let n = page.len() - mappage::RECORDS;
        MapPage::<_, 1>(&mut page[..]).set_count(n);
        page
    }

    #[test]
    fn attributes_come_back_with_their_values() {
        let long = [7; 300];
        let page = page(&[(b"user.a", b""), (b"user.b", &long)]);
        let found = Attributes::on(&page);
        assert!(found.are_sane());
        let all: std::vec::Vec<_> = found.iter().collect();
        assert_eq!(all, [(0, &b"user.a"[..], &b""[..]), (9, b"user.b", &long)]);
        assert_eq!(found.find(b"user.b"), Some((9, &long[..])));
        assert_eq!(found.find(b"user"), None);
    }

    #[test]
    fn a_value_longer_than_its_page_is_refused() {
        let mut page = page(&[(b"a", b"one"), (b"b", b"two")]);
        for (len, at) in [(4, 56), (0xff, 63), (2, 64), (0xff, 65)] {
            let was = std::mem::replace(&mut page[at], len);
            assert!(!Attributes::on(&page).are_sane(), "{len} at {at}");
            page[at] = was;
        }
        assert!(Attributes::on(&page).are_sane());
        page.truncate(page.len() - 1);
        assert_eq!(
            Attributes::on(&page).iter().count(),
            0,
            "more bytes than the page has"
        );
    }

    #[test]
    fn attributes_without_a_name_or_with_the_same_are_refused() {
        let sane = |attributes: &[(&[u8], &[u8])]| Attributes::on(&page(attributes)).are_sane();
        assert!(sane(&[(b"a", b"1"), (b"b", b"1")]));
        assert!(!sane(&[]));
        assert!(!sane(&[(b"", b"1")]));
        assert!(!sane(&[(b"a\0", b"1")]));
        assert!(!sane(&[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]));
    }
}

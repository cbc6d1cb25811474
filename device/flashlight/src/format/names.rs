//! Names beyond an inode's first: in the inode, and in pages of their own.

use crate::format::fields::get_u32;
use crate::format::hash::name_hash;
use crate::format::inode::FileView;
use crate::format::mappage::{self, MapPage};
use flashkit_bytes::put_u32;
use flashkit_nand::PageAddr;

/// Bytes before a name.
pub(crate) const HEAD: usize = 5;

pub(crate) type NamesPage<'a> = MapPage<&'a mut [u8], 1>;

/// Bytes that the further names in an inode may take. Beside the longest name and all pointers to
/// maps, the smallest page has little room.
pub(crate) fn names_max(page_size: usize) -> usize {
    if page_size < 2048 {
        page_size / 16
    } else {
        page_size / 8
    }
}

/// Writes what stands before a name.
pub(crate) fn put_head(at: &mut [u8], dir: u32, len: usize) {
    put_u32(at, 0, dir);
    at[4] = len as u8;
}

pub(crate) fn pointer_to(page: PageAddr) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    put_head(&mut bytes, page.0, 0);
    bytes
}

/// A further name, or where more are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Name { dir: u32, name: &'a [u8] },
    Page(PageAddr),
}

/// Which name of a directory is meant.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    Name(&'a [u8]),
    Hash(u32),
}

/// Where a name of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// In the name field.
    Own,
    /// At this byte of the further names in the inode.
    Further(usize),
    /// At byte `at` of a names page, the one in the scratch page; `pointer` is where the inode's
    /// further names have it.
    Paged { pointer: usize, at: usize },
}

/// Further names as bytes; whatever they are, reading them ends.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a>(&'a [u8]);

/// Where an own name goes that becomes one of the further ones.
pub(crate) enum PagedPlace {
    /// There is none.
    None,
    Inode,
    /// A names page, in place of the one named here.
    Page(Option<(usize, PageAddr)>),
}

impl Which<'_> {
    fn is(&self, volume: u32, name: &[u8]) -> bool {
        match self {
            Which::Name(want) => *want == name,
            Which::Hash(hash) => name_hash(volume, name) == *hash,
        }
    }
}

impl<'a> Names<'a> {
    pub fn on(bytes: &'a [u8]) -> Self {
        Names(bytes)
    }

    /// The item at a byte, and where the next one is.
    pub(crate) fn item(self, at: usize) -> Option<(Item<'a>, usize)> {
        let rest = self.0.get(at..)?;
        let len = usize::from(*rest.get(HEAD - 1)?);
        let name = rest.get(HEAD..HEAD + len)?;
        let word = get_u32(rest, 0);
        let item = if len == 0 {
            Item::Page(PageAddr(word))
        } else {
            Item::Name { dir: word, name }
        };
        Some((item, at + HEAD + len))
    }

    /// The items, with the byte at which each is.
    pub fn iter(self) -> impl Iterator<Item = (usize, Item<'a>)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (item, next) = self.item(at)?;
            Some((core::mem::replace(&mut at, next), item))
        })
    }

    /// The names pages, with the byte at which each pointer is.
    pub fn pages(self) -> impl Iterator<Item = (usize, PageAddr)> {
        self.iter().filter_map(|(at, item)| match item {
            Item::Page(page) => Some((at, page)),
            Item::Name { .. } => None,
        })
    }

    pub fn find(self, volume: u32, dir: u32, which: Which<'_>) -> Option<usize> {
        let is = |item: Item<'_>| matches!(item, Item::Name { dir: d, name } if d == dir && which.is(volume, name));
        self.iter().find(|(_, item)| is(*item)).map(|(at, _)| at)
    }

    /// The name at a byte.
    pub fn name(self, at: usize) -> &'a [u8] {
        match self.item(at) {
            Some((Item::Name { name, .. }, _)) => name,
            _ => &[],
        }
    }

    pub(crate) fn page(self, at: usize) -> PageAddr {
        match self.item(at) {
            Some((Item::Page(page), _)) => page,
            _ => PageAddr::NONE,
        }
    }

    /// Whether the items fill the bytes exactly.
    pub fn are_sane(self) -> bool {
        let mut at = 0;
        while let Some((_, next)) = self.item(at) {
            at = next;
        }
        at == self.0.len()
    }
}

impl FileView<'_> {
    /// The names page number `n`.
    pub fn names_page(&self, n: usize) -> Option<PageAddr> {
        self.names().pages().nth(n).map(|(_, page)| page)
    }

    /// Where the inode itself has a name.
    pub fn spot(&self, volume: u32, dir: u32, which: Which<'_>) -> Option<Spot> {
        if self.parent() == dir && !self.name().is_empty() && which.is(volume, self.name()) {
            return Some(Spot::Own);
        }
        self.names().find(volume, dir, which).map(Spot::Further)
    }
}

/// The names of a names page.
pub(crate) fn page_names(page: &[u8]) -> Names<'_> {
    let n = MapPage::<_, 1>(page).count();
    Names(
        page.get(mappage::RECORDS..mappage::RECORDS + n)
            .unwrap_or(&[]),
    )
}

/// The name at a byte of a names page.
pub(crate) fn paged_name(page: &[u8], at: usize) -> &[u8] {
    page_names(page).name(at)
}

/// The name at a spot of a file: its inode's page, and the names page that the spot may be in.
pub(crate) fn name_at<'p>(inode: &'p [u8], spot: Spot, names: &'p [u8]) -> &'p [u8] {
    let view = FileView::on(inode);
    match spot {
        Spot::Own => view.into_name(),
        Spot::Further(at) => view.into_names().name(at),
        Spot::Paged { at, .. } => paged_name(names, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: u32 = 5;

    /// Two names and a page between them.
    fn bytes() -> std::vec::Vec<u8> {
        let mut bytes = vec![];
        for (dir, name) in [(1, &b"a"[..]), (77, b""), (2, b"longer")] {
            let mut head = [0; HEAD];
            put_head(&mut head, dir, name.len());
            bytes.extend(head);
            bytes.extend(name);
        }
        bytes
    }

    #[test]
    fn names_and_pages_come_back_where_they_are() {
        let (bytes, page) = (bytes(), PageAddr(77));
        let names = Names::on(&bytes);
        let name = |dir, name| Item::Name { dir, name };
        let all: std::vec::Vec<_> = names.iter().collect();
        assert_eq!(
            all,
            [
                (0, name(1, b"a")),
                (6, Item::Page(page)),
                (11, name(2, b"longer"))
            ]
        );
        assert_eq!(names.pages().collect::<std::vec::Vec<_>>(), [(6, page)]);
        assert_eq!((names.name(11), names.page(6)), (&b"longer"[..], page));
        assert_eq!(
            (names.name(6), names.page(0)),
            (&b""[..], PageAddr::NONE),
            "the other kind"
        );
        assert_eq!(pointer_to(page), bytes[6..11]);
    }

    #[test]
    fn a_name_is_found_in_its_own_directory_alone() {
        let bytes = bytes();
        let names = Names::on(&bytes);
        assert_eq!(names.find(VOLUME, 2, Which::Name(b"longer")), Some(11));
        let hash = Which::Hash(name_hash(VOLUME, b"longer"));
        assert_eq!(names.find(VOLUME, 2, hash), Some(11));
        assert_eq!(names.find(VOLUME, 1, Which::Name(b"longer")), None);
        assert_eq!(names.find(VOLUME, 2, Which::Name(b"longe")), None);
        assert_eq!(
            names.find(VOLUME, 77, Which::Name(b"")),
            None,
            "a page is no name"
        );
    }

    #[test]
    fn a_name_longer_than_its_bytes_is_refused() {
        let whole = bytes();
        assert!(Names::on(&whole).are_sane() && Names::on(&[]).are_sane());
        for len in (0..whole.len()).filter(|len| ![0, 6, 11].contains(len)) {
            assert!(!Names::on(&whole[..len]).are_sane(), "{len}");
        }
        let mut longer = whole.clone();
        longer[15] += 1;
        assert!(!Names::on(&longer).are_sane());
        assert_eq!(Names::on(&longer).name(11), b"");
    }

    #[test]
    fn a_names_page_of_more_bytes_than_it_has_holds_none() {
        let mut page = [0u8; 512];
        page[52..54].copy_from_slice(&22u16.to_le_bytes());
        page[56..78].copy_from_slice(&bytes());
        assert_eq!(paged_name(&page, 11), b"longer");
        page[52..54].copy_from_slice(&457u16.to_le_bytes());
        assert_eq!(page_names(&page).iter().count(), 0);
        assert_eq!(paged_name(&page, 11), b"");
    }
}

//! What files hold.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// The contents of a file: its size, and its pages that are not all zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub size: u64,
    pages: BTreeMap<u32, Page>,
}

/// A page and its digest.
#[derive(Clone, Debug)]
struct Page {
    bytes: Rc<[u8]>,
    digest: u64,
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        self.size == other.size && self.pages().eq(other.pages())
    }
}

fn digest_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Content {
    /// So many zeros.
    pub fn of_zeros(size: u64) -> Content {
        Content {
            size,
            ..Content::default()
        }
    }

    /// Sets a page; bytes beyond the end of the file must be 0.
    pub fn set_page(&mut self, index: u32, bytes: &[u8]) {
        if bytes.iter().all(|&b| b == 0) {
            self.pages.remove(&index);
        } else {
            let page = Page {
                bytes: bytes.into(),
                digest: digest_of(bytes),
            };
            self.pages.insert(index, page);
        }
    }

    /// A page's bytes.
    pub fn page(&self, index: u32, page_size: usize) -> Vec<u8> {
        match self.pages.get(&index) {
            Some(page) => page.bytes.to_vec(),
            None => vec![0; page_size],
        }
    }

    /// A page's digest; none for zeros.
    pub fn page_digest(&self, index: u32) -> Option<u64> {
        self.pages.get(&index).map(|page| page.digest)
    }

    /// The pages that are not zero, with their digests.
    pub fn pages(&self) -> impl Iterator<Item = (u32, u64)> {
        self.pages.iter().map(|(index, page)| (*index, page.digest))
    }

    /// Drops the pages from `first` on.
    pub fn drop_pages(&mut self, first: u32) {
        self.pages.split_off(&first);
    }

    /// Whether these are the contents, byte by byte.
    pub fn is(&self, bytes: &[u8], page_size: usize) -> bool {
        let pages = bytes.chunks(page_size).zip(0..);
        self.size == bytes.len() as u64 && { pages }.all(|(bytes, index)| {
            match self.pages.get(&index) {
                Some(page) => page.bytes[..bytes.len()] == *bytes,
                None => bytes.iter().all(|&b| b == 0),
            }
        })
    }

    /// A number for all of it.
    pub fn digest(&self) -> u64 {
        let pages: Vec<(u32, u64)> = self.pages().collect();
        digest_of((self.size, pages))
    }
}

/// The bytes that write number `n` puts at `offset`; never 0.
pub(crate) fn fill(n: u64, offset: u64, len: usize) -> Vec<u8> {
    let bytes = (offset..offset + len as u64).map(|at| {
        let x = (at ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((x >> 40) % 255 + 1) as u8
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_holes() {
        let mut a = Content {
            size: 100,
            ..Content::default()
        };
        let empty = a.digest();
        a.set_page(3, &[1, 0]);
        assert_ne!(a.digest(), empty);
        assert_eq!((a.page(3, 2), a.page(4, 2)), (vec![1, 0], vec![0, 0]));
        a.set_page(3, &[0, 0]);
        assert_eq!(a.digest(), empty);
        a.set_page(5, &[1]);
        a.drop_pages(5);
        assert_eq!((a.digest(), a.pages().count()), (empty, 0));
    }

    #[test]
    fn contents_are_compared_byte_by_byte() {
        let mut a = Content::of_zeros(5);
        a.set_page(1, &[1, 2]);
        assert!(a.is(&[0, 0, 1, 2, 0], 2));
        for other in [&[0, 0, 1, 2][..], &[0, 0, 1, 3, 0], &[0, 0, 1, 2, 1]] {
            assert!(!a.is(other, 2), "{other:?}");
        }
    }

    #[test]
    fn writes_differ_and_hold_no_zero() {
        let (a, b) = (fill(1, 0, 5000), fill(2, 0, 5000));
        assert!(a.iter().zip(&b).filter(|(x, y)| x == y).count() < 100);
        assert!(!a.contains(&0));
        assert_eq!(a[700..900], fill(1, 700, 200));
    }
}

//! Names of directories that were found lately. What leads to a file is looked up with each path;
//! every step would read the page of a directory, for its name is there.
//!
//! ```text
//! 0  directory u24    3  its parent u24    6  length of its name    7  its name
//! ```
//!
//! They follow one another; behind them all bytes are 0, and no name has no byte.
//!
//! Invariant: what is here is so in the index too. A name goes when its entry does
//! ([`Index::dir_remove`]), before another can lead there.
//!
//! [`Index::dir_remove`]: crate::index::Index::dir_remove

use crate::format::node::{FIRST_FILE, ROOT_DIR};
use core::ops::Range;

/// Bytes before a name.
const HEAD: usize = 7;
const _: () = assert!(FIRST_FILE <= 1 << 24);

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rfold(0, |n, &b| n << 8 | u32::from(b))
}

/// A name, and where it is.
struct Known<'a> {
    at: Range<usize>,
    dir: u32,
    parent: u32,
    name: &'a [u8],
}

/// The names, in the caller's RAM, the one that was asked for last first, but behind that of its
/// parent: as all paths begin above, those above stay when a path is longer than there is room for.
pub(crate) struct KnownDirs<'r> {
    bytes: &'r mut [u8],
}

impl<'r> KnownDirs<'r> {
    /// `bytes`: the place for them, all 0 where there are none.
    pub fn new(bytes: &'r mut [u8]) -> Self {
        KnownDirs { bytes }
    }

    /// The same names, for less long.
    pub fn again(&mut self) -> KnownDirs<'_> {
        KnownDirs { bytes: self.bytes }
    }

    /// Takes the names that lie in other bytes for its own, as many as there is room for, the first
    /// first; there are none in the other bytes then.
    pub fn take(&mut self, other: &mut KnownDirs<'_>) {
        let kept = other.end_within(self.bytes.len());
        self.bytes.fill(0);
        self.bytes[..kept].copy_from_slice(&other.bytes[..kept]);
        other.bytes.fill(0);
    }

    /// Bytes that there are for names.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Gives so many of its bytes away. Names that have no room any more go.
    pub fn give(&mut self, count: usize) -> &'r mut [u8] {
        let left = self.bytes.len() - count;
        let kept = self.end_within(left);
        let (names, given) = core::mem::take(&mut self.bytes).split_at_mut(left);
        names[kept..].fill(0);
        self.bytes = names;
        given
    }

    fn all(&self) -> impl Iterator<Item = Known<'_>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let head = self.bytes.get(from..from + HEAD)?;
            let to = from + HEAD + usize::from(head[6]);
            let known = Known {
                at: from..to,
                dir: number(&head[..3]),
                parent: number(&head[3..6]),
                name: self.bytes.get(from + HEAD..to)?,
            };
            from = to;
            (!known.name.is_empty()).then_some(known)
        })
    }

    /// Where those end that lie whole in so many first bytes.
    fn end_within(&self, left: usize) -> usize {
        let ends = self.all().map(|known| known.at.end);
        ends.take_while(|&end| end <= left).last().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.all().last().map_or(0, |known| known.at.end)
    }

    /// Where the name of a directory's child comes: first below the root, last if that of the
    /// directory is not here.
    fn behind(&self, parent: u32) -> usize {
        let mut all = self.all();
        match all.find(|known| known.dir == parent) {
            _ if parent == ROOT_DIR => 0,
            Some(known) => known.at.end,
            None => self.end(),
        }
    }

    /// The directory of this name.
    pub fn find(&mut self, parent: u32, name: &[u8]) -> Option<u32> {
        let mut all = self.all();
        let Known { at, dir, .. } =
            all.find(|known| (known.parent, known.name) == (parent, name))?;
        drop(all);
        let behind = self.behind(parent);
        if behind < at.start {
            self.bytes[behind..at.end].rotate_right(at.len());
        }
        Some(dir)
    }

    /// Takes a directory's name. The last go where need be.
    pub fn add(&mut self, dir: u32, parent: u32, name: &[u8]) {
        let size = HEAD + name.len();
        self.forget(dir);
        let Some(left) = self.bytes.len().checked_sub(size) else {
            return;
        };
        let kept = self.end_within(left);
        let at = self.behind(parent).min(kept);
        self.bytes.copy_within(at..kept, at + size);
        self.bytes[kept + size..].fill(0);
        let known = &mut self.bytes[at..at + size];
        known[..3].copy_from_slice(&dir.to_le_bytes()[..3]);
        known[3..6].copy_from_slice(&parent.to_le_bytes()[..3]);
        known[6] = name.len() as u8;
        known[HEAD..].copy_from_slice(name);
    }

    /// A directory has lost its name.
    pub fn forget(&mut self, dir: u32) {
        let found = self.all().find(|known| known.dir == dir);
        if let Some(at) = found.map(|known| known.at) {
            let end = self.bytes.len() - at.len();
            self.bytes.copy_within(at.end.., at.start);
            self.bytes[end..].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_last_stays() {
        let mut bytes = [0; 3 * HEAD + 4];
        let mut known = KnownDirs::new(&mut bytes);
        assert_eq!(known.find(1, b"a"), None);
        known.add(3, 1, b"a");
        known.add(4, 3, b"bc");
        known.add(5, 3, b"d");
        assert_eq!((known.find(1, b"a"), known.find(3, b"a")), (Some(3), None));
        known.add(6, 1, b"e");
        assert_eq!((known.find(3, b"bc"), known.find(1, b"a")), (None, Some(3)));
        assert_eq!(
            (known.find(3, b"d"), known.find(1, b"e")),
            (Some(5), Some(6))
        );
        known.forget(5);
        known.forget(7);
        assert_eq!((known.find(1, b"e"), known.find(3, b"d")), (Some(6), None));
        known.add(6, 1, b"another");
        assert_eq!(
            (known.find(1, b"e"), known.find(1, b"another")),
            (None, Some(6))
        );
        known.add(8, 1, &[b'n'; 255]);
        assert_eq!(
            known.find(1, b"another"),
            Some(6),
            "what has no room is not taken"
        );
    }

    #[test]
    fn those_above_stay() {
        let mut bytes = [0; 3 * (HEAD + 1)];
        let mut known = KnownDirs::new(&mut bytes);
        for round in 0..3 {
            let mut found = 0;
            for dir in 2..12 {
                match known.find(dir - 1, b"a") {
                    Some(same) => found += u32::from(same == dir),
                    None => known.add(dir, dir - 1, b"a"),
                }
            }
            assert_eq!(found, if round == 0 { 0 } else { 2 });
        }
    }

    #[test]
    fn names_stay_that_have_room_when_bytes_are_given_away() {
        let mut bytes = [0; 4 * (HEAD + 1)];
        let mut known = KnownDirs::new(&mut bytes);
        for dir in 3..7 {
            known.add(dir, 1, &[dir as u8]);
        }
        let given = known.give(HEAD + 2);
        assert_eq!((given.len(), known.size()), (HEAD + 2, 3 * HEAD + 2));
        let found = [3, 4, 5, 6].map(|dir| known.find(1, &[dir as u8]));
        assert_eq!(found, [None, None, Some(5), Some(6)]);
        known.add(7, 1, b"a");
        assert_eq!(known.find(1, b"a"), Some(7));
    }

    #[test]
    fn without_room_nothing_is_known() {
        let mut known = KnownDirs::new(&mut []);
        known.add(3, 1, b"a");
        assert_eq!(known.find(1, b"a"), None);
        known.forget(3);
    }
}

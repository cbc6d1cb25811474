//! What inodes are called. A trace knows files by one path: of several hard links it
//! shows one after another, and a file that is open when its last name goes lives on
//! under a name of this module's.

use std::collections::HashMap;

use flashkit_vfs::{Attr, FileKind, Ino};

use crate::trace::Op;

/// A directory and a name in it.
type Place = (Ino, Vec<u8>);

struct Known {
    /// The first is what the trace calls it.
    names: Vec<Place>,
    is_dir: bool,
    size: u64,
    opens: u32,
    /// It has lost its last name while it was open.
    hidden: bool,
}

/// The names of files and directories.
pub struct Names {
    root: Ino,
    known: HashMap<Ino, Known>,
    places: HashMap<Place, Ino>,
}

impl Names {
    pub fn new(root: Ino) -> Names {
        Names {
            root,
            known: HashMap::new(),
            places: HashMap::new(),
        }
    }

    /// A new name. Its path, if it is the first of its inode.
    pub fn add(&mut self, dir: Ino, name: &[u8], attr: &Attr) -> Option<String> {
        let place = (dir, name.to_vec());
        self.places.insert(place.clone(), attr.ino);
        let known = self.known.entry(attr.ino).or_insert_with(|| Known {
            names: Vec::new(),
            is_dir: attr.kind == FileKind::Dir,
            size: attr.size,
            opens: 0,
            hidden: false,
        });
        known.names.push(place);
        if known.names.len() > 1 {
            return None;
        }
        self.path(attr.ino)
    }

    /// What the trace calls an inode; `None` for the root, and for what the trace does not know.
    pub fn path(&self, ino: Ino) -> Option<String> {
        let (dir, name) = self.known.get(&ino)?.names.first()?;
        self.path_of(*dir, name)
    }

    fn path_of(&self, dir: Ino, name: &[u8]) -> Option<String> {
        let mut path = word(name);
        let mut at = dir;
        // No path is longer than there are directories.
        for _ in 0..=self.known.len() {
            if at == self.root {
                return Some(path);
            }
            let (dir, name) = self.known.get(&at)?.names.first()?;
            path = format!("{}/{path}", word(name));
            at = *dir;
        }
        None
    }

    pub fn resized(&mut self, ino: Ino, size: u64) -> Option<Op> {
        let path = self.path(ino)?;
        self.known.get_mut(&ino)?.size = size;
        Some(Op::Truncate { path, size })
    }

    pub fn written(&mut self, ino: Ino, offset: u64, size: u64) -> Option<Op> {
        let path = self.path(ino).filter(|_| size > 0)?;
        let known = self.known.get_mut(&ino)?;
        let appends = offset == known.size;
        known.size = known.size.max(offset + size);
        Some(match appends {
            true => Op::Append { path, size },
            false => Op::Update { path, offset, size },
        })
    }

    pub fn opened(&mut self, ino: Ino) {
        if let Some(known) = self.known.get_mut(&ino) {
            known.opens += 1;
        }
    }

    pub fn released(&mut self, ino: Ino) -> Option<Op> {
        let known = self.known.get_mut(&ino)?;
        known.opens = known.opens.saturating_sub(1);
        if !known.hidden || known.opens > 0 {
            return None;
        }
        let path = self.path(ino)?;
        self.known.remove(&ino);
        Some(Op::Unlink { path })
    }

    /// A file has lost a name.
    pub fn unlinked(&mut self, dir: Ino, name: &[u8]) -> Option<Op> {
        let path = self.path_of(dir, name)?;
        match self.lose(dir, name) {
            Lost::Unknown | Lost::Another => None,
            Lost::Moved(to) => Some(Op::Rename { from: path, to }),
            Lost::Gone => Some(Op::Unlink { path }),
        }
    }

    /// A directory is gone.
    pub fn removed(&mut self, dir: Ino, name: &[u8]) -> Option<Op> {
        let path = self.path_of(dir, name)?;
        let ino = self.places.remove(&(dir, name.to_vec()))?;
        self.known.remove(&ino);
        Some(Op::Rmdir { path })
    }

    pub fn renamed(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8])) -> Vec<Op> {
        let (old, new) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let moved = self.places.get(&old).copied();
        // Two names of one file: nothing happens.
        if moved.is_some() && moved == self.places.get(&new).copied() {
            return Vec::new();
        }
        let (Some(from), Some(to)) = (self.path_of(old.0, &old.1), self.path_of(new.0, &new.1))
        else {
            return Vec::new();
        };
        let mut ops = Vec::new();
        let shown = moved.is_some_and(|ino| self.is_shown_as(ino, &old));
        match self.lose(new.0, &new.1) {
            Lost::Unknown | Lost::Another => {}
            Lost::Moved(away) => ops.push(Op::Rename {
                from: to.clone(),
                to: away,
            }),
            // A rename replaces a file; where it shows none, the file still goes.
            Lost::Gone if shown => {}
            Lost::Gone => ops.push(Op::Unlink { path: to.clone() }),
        }
        if shown {
            ops.push(Op::Rename { from, to });
        }
        if let Some(ino) = moved {
            self.places.remove(&old);
            self.places.insert(new.clone(), ino);
            if let Some(known) = self.known.get_mut(&ino) {
                for place in known.names.iter_mut().filter(|place| **place == old) {
                    place.clone_from(&new);
                }
            }
        }
        ops
    }

    /// Two names have changed places: three renames, by way of a name of this module's.
    pub fn exchanged(&mut self, one: (Ino, &[u8]), other: (Ino, &[u8])) -> Vec<Op> {
        let held = |(dir, name): (Ino, &[u8])| self.places.get(&(dir, name.to_vec())).copied();
        // Two names of one file: nothing happens.
        if held(one).is_some() && held(one) == held(other) {
            return Vec::new();
        }
        let between = (self.root, &b".exchanged"[..]);
        let steps = [(one, between), (other, one), (between, other)];
        let renamed = steps.map(|(from, to)| self.renamed(from, to));
        renamed.concat()
    }

    fn is_shown_as(&self, ino: Ino, place: &Place) -> bool {
        let known = self.known.get(&ino);
        known.is_some_and(|known| known.names.first() == Some(place))
    }

    /// Takes a name away.
    fn lose(&mut self, dir: Ino, name: &[u8]) -> Lost {
        let place = (dir, name.to_vec());
        let Some(ino) = self.places.remove(&place) else {
            return Lost::Unknown;
        };
        let shown = self.is_shown_as(ino, &place);
        let Some(known) = self.known.get_mut(&ino) else {
            return Lost::Unknown;
        };
        known.names.retain(|held| *held != place);
        if !shown {
            return Lost::Another;
        }
        if known.names.is_empty() {
            if known.is_dir || known.opens == 0 {
                self.known.remove(&ino);
                return Lost::Gone;
            }
            known.hidden = true;
            let hidden = format!(".unlinked-{ino}").into_bytes();
            known.names.push((self.root, hidden));
        }
        self.path(ino).map_or(Lost::Unknown, Lost::Moved)
    }
}

/// What becomes of a file that loses a name.
enum Lost {
    /// The trace does not know it.
    Unknown,
    /// The trace calls it by another.
    Another,
    /// The trace calls it so from now on.
    Moved(String),
    /// It goes.
    Gone,
}

/// A name as a word of a trace: blanks, `%` and what is no UTF-8 as `%` and two hexadecimal digits.
fn word(name: &[u8]) -> String {
    let mut word = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '%' | '\0'..=' ' | '\x7f' => word += &format!("%{:02x}", char as u32),
                char => word.push(char),
            }
        }
        for byte in chunk.invalid() {
            word += &format!("%{byte:02x}");
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn names_are_words() {
        assert_eq!(word(b"plain-1.txt"), "plain-1.txt");
        assert_eq!(word(b"a b\t%\n"), "a%20b%09%25%0a");
        assert_eq!(word("grün".as_bytes()), "grün");
        assert_eq!(word(b"x\xff\xfey"), "x%ff%fey");
    }
}

//! Numbers of inodes, and what names one.

use crate::format::hash;

/// Number of the root directory.
pub const ROOT_DIR: u32 = 1;
/// Number of the directory, without a name, that holds files found by their number.
pub(crate) const INDEX_DIR: u32 = 2;
/// First number of a file. Directories have smaller ones.
pub const FIRST_FILE: u32 = 1 << 20;

/// A file or symbolic link: its number, and where to look for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileRef {
    /// Number; used again only after 2^32 files have been created.
    pub ino: u32,
    /// The directory that holds its entry.
    pub dir: u32,
    /// The hash its entry is under.
    pub hash: u32,
}

impl FileRef {
    /// A file that is found by its number.
    pub(crate) fn by_number(volume: u32, ino: u32) -> FileRef {
        FileRef {
            ino,
            dir: INDEX_DIR,
            hash: hash::ino_hash(volume, ino),
        }
    }
}

/// An inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A directory, by its number.
    Dir(u32),
    /// A file or symbolic link.
    File(FileRef),
}

impl Node {
    /// The directory of a number that a directory may have which names lead to. There need not be
    /// one. The directory of files found by their number is none: what is in it has no name.
    pub fn dir(number: u32) -> Option<Node> {
        (number > 0 && number != INDEX_DIR && number < FIRST_FILE).then_some(Node::Dir(number))
    }

    /// The inode number, unique on the volume.
    pub fn ino(&self) -> u32 {
        match self {
            Node::Dir(ino) => *ino,
            Node::File(file) => file.ino,
        }
    }
}

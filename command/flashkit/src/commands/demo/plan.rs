//! Which files the demo stores.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flashkit_vfs::{NewInode, Time};

use crate::text;

/// Trees that a machine has, the first to be tried first.
const DEFAULT_TREES: [&str; 4] = ["/usr/include", "/usr/share/doc", "/usr/share", "/etc"];
/// More entries than this are not stored.
const ITEMS_MAX: usize = 20_000;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Dir,
    File,
    Symlink,
    /// A further name of the item with this number: a hard link.
    Link(usize),
}

/// Something to store.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where it is on the host.
    pub host: PathBuf,
    /// Path inside the image, without a leading slash.
    pub path: Vec<u8>,
    pub kind: Kind,
    /// Bytes of a file, else 0.
    pub len: u64,
    pub new: NewInode,
}

impl Item {
    fn new(host: PathBuf, path: Vec<u8>, metadata: &Metadata) -> Option<Item> {
        let kind = match metadata.file_type() {
            t if t.is_dir() => Kind::Dir,
            t if t.is_symlink() => Kind::Symlink,
            t if t.is_file() => Kind::File,
            _ => return None,
        };
        let len = if kind == Kind::File {
            metadata.len()
        } else {
            0
        };
        let new = NewInode {
            mode: (metadata.mode() & 0o7777) as u16,
            uid: metadata.uid(),
            gid: metadata.gid(),
            now: mtime(metadata),
        };
        Some(Item {
            host,
            path,
            kind,
            len,
            new,
        })
    }

    /// Whether the host's original is no longer what was planned.
    pub fn has_changed(&self) -> bool {
        match fs::symlink_metadata(&self.host) {
            Ok(now) => {
                mtime(&now) != self.new.now || self.kind == Kind::File && now.len() != self.len
            }
            Err(_) => true,
        }
    }
}

fn mtime(metadata: &Metadata) -> Time {
    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Time {
        secs: metadata.mtime(),
        nanos,
    }
}

/// What to store, a directory before what it holds.
pub struct Plan {
    pub source: PathBuf,
    pub items: Vec<Item>,
    pub files: u64,
    pub bytes: u64,
    /// Whether the source has more than fits.
    pub truncated: bool,
    /// Items with several names on the host, by device and inode number.
    linked: HashMap<(u64, u64), usize>,
}

impl Plan {
    /// Plans to store `dir`, or a tree that is there, in at most about `bytes_max`; an entry
    /// takes a page of `page` bytes and its contents.
    pub fn new(dir: Option<&Path>, bytes_max: u64, page: u64) -> anyhow::Result<Plan> {
        let source = match dir {
            Some(dir) => dir.to_owned(),
            None => DEFAULT_TREES
                .iter()
                .map(PathBuf::from)
                .find(|tree| fs::read_dir(tree).is_ok_and(|mut entries| entries.next().is_some()))
                .context("none of the usual directories is there: name one")?,
        };
        let mut plan = Plan {
            source,
            items: Vec::new(),
            files: 0,
            bytes: 0,
            truncated: false,
            linked: HashMap::new(),
        };
        let top = plan.source.clone();
        let mut left = bytes_max;
        plan.directory(&top, &[], page, &mut left)
            .with_context(|| text::path(&top))?;
        Ok(plan)
    }

    fn directory(
        &mut self,
        host: &Path,
        path: &[u8],
        page: u64,
        left: &mut u64,
    ) -> std::io::Result<()> {
        let mut names = fs::read_dir(host)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            let host = host.join(&name);
            let Ok(metadata) = fs::symlink_metadata(&host) else {
                continue;
            };
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            let below = [path, slash, name.as_bytes()].concat();
            let Some(mut item) = Item::new(host, below, &metadata) else {
                continue;
            };
            let id = (metadata.dev(), metadata.ino());
            let several = item.kind != Kind::Dir && metadata.nlink() > 1;
            if let Some(first) = self.linked.get(&id) {
                (item.kind, item.len) = (Kind::Link(*first), 0);
            }
            // Another file that is smaller may still fit.
            let takes = page + item.len.next_multiple_of(page);
            if takes > *left || self.items.len() >= ITEMS_MAX {
                self.truncated = true;
                continue;
            }
            if item.kind == Kind::File && fs::File::open(&item.host).is_err() {
                continue;
            }
            *left -= takes;
            self.bytes += item.len;
            self.files += u64::from(item.kind == Kind::File);
            let (kind, host, below) = (item.kind, item.host.clone(), item.path.clone());
            if several {
                self.linked.entry(id).or_insert(self.items.len());
            }
            self.items.push(item);
            if kind == Kind::Dir {
                // Not for us to read: stored empty.
                let _ = self.directory(&host, &below, page, left);
            }
        }
        Ok(())
    }

    /// Leaves out everything from this item on.
    pub fn truncate(&mut self, items: usize) {
        self.items.truncate(items);
        self.files = self.items.iter().filter(|i| i.kind == Kind::File).count() as u64;
        self.bytes = self.items.iter().map(|i| i.len).sum();
        self.truncated = true;
    }

    /// Pages that the contents of the files fill.
    pub fn data_pages(&self, page: u64) -> u64 {
        self.items.iter().map(|i| i.len.div_ceil(page)).sum()
    }
}

//! A tree as it was found on a volume.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use flashkit_nand::Nand;
use flashkit_vfs::any::AnyFs;
use flashkit_vfs::{Attr, Error, FileKind, FileSystem, Ino, Time};

use crate::content::Content;

/// Digests of extended attributes' values, by name.
pub(crate) type Xattrs = Arc<BTreeMap<Vec<u8>, u64>>;

/// Attributes that a script can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attrs {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub xattrs: Xattrs,
}

/// What [`Attrs::xattrs`] holds of a value.
pub(crate) fn xattr_digest(value: &[u8]) -> u64 {
    digest_of(&value)
}

fn digest_of(what: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Attrs {
    /// Those of an inode, with its extended ones.
    pub fn read(fs: &mut dyn FileSystem, attr: &Attr) -> Result<Attrs, Error> {
        let mut xattrs = BTreeMap::new();
        for name in fs.xattrs(attr.ino)? {
            let value = fs.xattr(attr.ino, &name)?;
            xattrs.insert(name, xattr_digest(&value));
        }
        Ok(Attrs {
            xattrs: Arc::new(xattrs),
            ..Attrs::of(attr)
        })
    }

    fn of(attr: &Attr) -> Attrs {
        Attrs {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            atime: attr.atime,
            mtime: attr.mtime,
            ctime: attr.ctime,
            xattrs: Xattrs::default(),
        }
    }

    pub fn text(&self) -> String {
        format!(
            "mode {:04o} owner {}:{} times {}/{}/{} attributes {:08x}",
            self.mode,
            self.uid,
            self.gid,
            self.atime.secs,
            self.mtime.secs,
            self.ctime.secs,
            digest_of(&self.xattrs) as u32
        )
    }
}

/// A kind of file, and the number of a device.
pub(crate) type What = (FileKind, u32);

/// Anything but a directory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenFile {
    pub ino: Ino,
    pub what: What,
    pub attrs: Attrs,
    pub content: Content,
}

/// A directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeenDir {
    pub attrs: Attrs,
    pub names: BTreeMap<String, Seen>,
}

/// What a name refers to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    File(SeenFile),
    Dir(SeenDir),
}

impl SeenFile {
    pub fn text(&self) -> String {
        let kind = match self.what {
            (FileKind::File, _) => "file".to_owned(),
            (FileKind::Symlink, _) => "link".to_owned(),
            (kind, device) => format!("{kind:?} {device}").to_lowercase(),
        };
        let (size, digest) = (self.content.size, self.content.digest() as u32);
        format!(
            "{kind} {} of {size} bytes ({digest:08x}), {}",
            self.ino,
            self.attrs.text()
        )
    }
}

impl SeenDir {
    /// Files and symbolic links in the tree.
    pub fn files(&self) -> u64 {
        let count = |seen: &Seen| match seen {
            Seen::File(_) => 1,
            Seen::Dir(dir) => dir.files(),
        };
        self.names.values().map(count).sum()
    }

    /// One line for each path.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.list("", &mut out);
        out
    }

    fn list(&self, at: &str, out: &mut Vec<String>) {
        out.push(format!("{at}/ {}", self.attrs.text()));
        for (name, seen) in &self.names {
            match seen {
                Seen::File(file) => out.push(format!("{at}/{name} {}", file.text())),
                Seen::Dir(dir) => dir.list(&format!("{at}/{name}"), out),
            }
        }
    }
}

/// The inodes of a tree, and how many names lead to each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inodes {
    pub files: BTreeMap<Ino, u32>,
    pub dirs: BTreeMap<Ino, u32>,
}

impl Inodes {
    pub fn contains(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino) || self.dirs.contains_key(&ino)
    }
}

/// Reads a file.
pub(crate) fn read_file(fs: &mut AnyFs<'_, '_>, ino: Ino, size: u64) -> Result<Content, Error> {
    let mut buf = vec![0; fs.volume().nand().geometry().page_size() as usize];
    let ps = buf.len() as u64;
    let mut content = Content::of_zeros(size);
    for index in 0..size.div_ceil(ps) {
        buf.fill(0);
        let want = ps.min(size - index * ps) as usize;
        let n = fs.read(ino, index * ps, &mut buf)?;
        if n != want {
            return Err(Error::Io(format!("read of {want} bytes gives {n}")));
        }
        content.set_page(index as u32, &buf);
    }
    Ok(content)
}

fn read_link(fs: &mut AnyFs<'_, '_>, attr: &Attr) -> Result<Content, String> {
    let target = fs
        .readlink(attr.ino)
        .map_err(|e| format!("readlink fails with {e}"))?;
    if target.len() as u64 != attr.size {
        return Err(format!(
            "a target of {} bytes has {}",
            attr.size,
            target.len()
        ));
    }
    let ps = fs.volume().nand().geometry().page_size() as usize;
    let mut content = Content::of_zeros(attr.size);
    for (i, part) in target.chunks(ps).enumerate() {
        let mut page = part.to_vec();
        page.resize(ps, 0);
        content.set_page(i as u32, &page);
    }
    Ok(content)
}

/// Reads the whole tree: names, attributes, contents. Numbers of names, inode numbers and
/// sizes that contradict one another are errors.
pub(crate) fn observe(fs: &mut AnyFs<'_, '_>) -> Result<(SeenDir, Inodes), String> {
    let mut inodes = Inodes::default();
    let root = fs.root();
    inodes.dirs.insert(root, 1);
    let seen = observe_dir(fs, root, "", &mut inodes)?;
    Ok((seen, inodes))
}

fn observe_dir(
    fs: &mut AnyFs<'_, '_>,
    dir: Ino,
    at: &str,
    inodes: &mut Inodes,
) -> Result<SeenDir, String> {
    let mut entries = Vec::new();
    let listed = fs.readdir(dir, 0, &mut |e| {
        entries.push(e);
        entries.len() < 100_000
    });
    listed.map_err(|e| format!("listing fails with {e}: {at}/"))?;
    let attr = fs.getattr(dir).map_err(|e| format!("{e}: {at}/"))?;
    if attr.size != entries.len() as u64 {
        let (says, shows) = (attr.size, entries.len());
        return Err(format!("directory says {says} names, shows {shows}: {at}/"));
    }
    let subdirs = entries.iter().filter(|e| e.kind == FileKind::Dir).count() as u32;
    if attr.nlink != 2 + subdirs {
        let says = attr.nlink;
        return Err(format!(
            "directory says {says} links, has {subdirs} directories: {at}/"
        ));
    }
    let mut names = BTreeMap::new();
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let path = format!("{at}/{name}");
        let attr = fs
            .lookup(dir, &entry.name)
            .map_err(|e| format!("lookup of a listed name fails with {e}: {path}"))?;
        if attr.ino != entry.ino || attr.kind != entry.kind {
            return Err(format!("listing and lookup differ: {path}"));
        }
        let seen = if attr.kind == FileKind::Dir {
            if inodes.dirs.insert(attr.ino, 1).is_some() {
                return Err(format!("directory found twice: {path}"));
            }
            if fs.parent(attr.ino) != Ok(dir) {
                return Err(format!(
                    "the parent of a directory is not where it is: {path}"
                ));
            }
            Seen::Dir(observe_dir(fs, attr.ino, &path, inodes)?)
        } else {
            *inodes.files.entry(attr.ino).or_default() += 1;
            Seen::File(observe_file(fs, &attr).map_err(|e| format!("{e}: {path}"))?)
        };
        if names.insert(name, seen).is_some() {
            return Err(format!("listed twice: {path}"));
        }
    }
    Ok(SeenDir {
        attrs: Attrs::read(fs, &attr).map_err(|e| format!("attributes fail with {e}: {at}/"))?,
        names,
    })
}

fn observe_file(fs: &mut AnyFs<'_, '_>, attr: &Attr) -> Result<SeenFile, String> {
    let content = match attr.kind {
        FileKind::Symlink => read_link(fs, attr)?,
        FileKind::File => {
            read_file(fs, attr.ino, attr.size).map_err(|e| format!("reading fails with {e}"))?
        }
        _ => Content::of_zeros(attr.size),
    };
    Ok(SeenFile {
        ino: attr.ino,
        what: (attr.kind, attr.device),
        attrs: Attrs::read(fs, attr).map_err(|e| format!("attributes fail with {e}"))?,
        content,
    })
}

/// Whether every file has as many names as it says.
pub(crate) fn check_links(fs: &mut AnyFs<'_, '_>, inodes: &Inodes) -> Result<(), String> {
    for (&ino, &names) in &inodes.files {
        let says = fs
            .getattr(ino)
            .map_err(|e| format!("{e}: file {ino}"))?
            .nlink;
        if says != names {
            return Err(format!("file {ino} says {says} names, has {names}"));
        }
    }
    Ok(())
}

//! Paths on top of inode numbers.
//!
//! A path is bytes; slashes separate its names, and it always starts at the root, with or
//! without a leading slash. Empty names and `.` stand for nothing, `..` for the directory above.

use std::collections::HashSet;

use crate::{Attr, DirEntry, Error, FileKind, FileSystem, Ino, NewInode, Result, SetAttr, Time};

/// Symbolic links that [`follow`] goes through before it gives up.
const LINKS_MAX: usize = 40;

/// The names of a path that mean something.
fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|b| *b == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}

/// One step down, or up for `..`.
fn step(fs: &mut dyn FileSystem, dir: Ino, name: &[u8]) -> Result<Attr> {
    if name == b".." {
        let parent = fs.parent(dir)?;
        fs.getattr(parent)
    } else {
        fs.lookup(dir, name)
    }
}

/// The directory that these names lead to, of which the number is enough.
fn descend<'p>(fs: &mut dyn FileSystem, mut names: impl Iterator<Item = &'p [u8]>) -> Result<Ino> {
    let root = fs.root();
    names.try_fold(root, |dir, name| match name {
        b".." => fs.parent(dir),
        _ => fs.lookup_dir(dir, name),
    })
}

/// Attributes of what a path names; symbolic links are not followed.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::NotDir`] when the path goes on below a file or a symbolic link.
pub fn resolve(fs: &mut dyn FileSystem, path: &[u8]) -> Result<Attr> {
    let mut names = names(path);
    let last = names.next_back();
    let dir = descend(fs, names)?;
    let at = match last {
        Some(name) => step(fs, dir, name)?,
        None => fs.getattr(dir)?,
    };
    // `file/` asks for a directory.
    if path.ends_with(b"/") && at.kind != FileKind::Dir {
        return Err(Error::NotDir);
    }
    Ok(at)
}

/// What becomes of a symbolic link that the last name of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// It is followed.
    Follow,
    /// It is what the path leads to, unless a slash follows it.
    Keep,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path without symbolic links, `.` and `..`; the root is `/`.
    pub path: Vec<u8>,
    /// What is there; `None`: nothing has the last name.
    pub attr: Option<Attr>,
}

impl Place {
    /// What is there.
    ///
    /// # Errors
    /// [`Error::NotFound`]: nothing.
    pub fn found(&self) -> Result<Attr> {
        self.attr.ok_or(Error::NotFound)
    }
}

/// Follows the symbolic links of a path, as the system calls do. An absolute target starts at the
/// root of this file system. The last name need not be there.
///
/// # Errors
/// [`Error::NotFound`] for a name before the last one; [`Error::NotDir`] when the path goes on
/// below a file, with a slash alone too; [`Error::Loop`] after too many links.
pub fn follow(fs: &mut dyn FileSystem, path: &[u8], last: Last) -> Result<Place> {
    let root = fs.root();
    let mut at = fs.getattr(root)?;
    let mut above: Vec<(Vec<u8>, Attr)> = Vec::new();
    let mut links = 0;
    // Names still to go, the next one last.
    let mut ahead: Vec<Vec<u8>> = names(path).map(<[u8]>::to_vec).collect();
    ahead.reverse();
    let mut dir_asked = asks_for_dir(path);
    while let Some(name) = ahead.pop() {
        if at.kind != FileKind::Dir {
            return Err(Error::NotDir);
        }
        if name == b".." {
            at = above.pop().map_or(at, |(_, dir)| dir);
            continue;
        }
        let is_last = ahead.is_empty();
        let next = match fs.lookup(at.ino, &name) {
            Err(Error::NotFound) if is_last => {
                let path = joined(above.iter().map(|(name, _)| name).chain([&name]));
                return Ok(Place { path, attr: None });
            }
            found => found?,
        };
        let kept = is_last && last == Last::Keep && !dir_asked;
        if next.kind != FileKind::Symlink || kept {
            above.push((name, at));
            at = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Error::Loop);
        }
        let target = fs.readlink(next.ino)?;
        if target.starts_with(b"/") {
            at = above.first().map_or(at, |(_, root)| *root);
            above.clear();
        }
        dir_asked |= is_last && asks_for_dir(&target);
        let behind = ahead.len();
        ahead.extend(names(&target).map(<[u8]>::to_vec));
        ahead[behind..].reverse();
    }
    if dir_asked && at.kind != FileKind::Dir {
        return Err(Error::NotDir);
    }
    let path = joined(above.iter().map(|(name, _)| name));
    let attr = Some(at);
    Ok(Place { path, attr })
}

/// Whether a path can be that of a directory alone: `dir/`, `dir/.`, `dir/..`.
fn asks_for_dir(path: &[u8]) -> bool {
    let last = path.rsplit(|b| *b == b'/').next();
    matches!(last, Some(b"" | b"." | b".."))
}

fn joined<'n>(names: impl Iterator<Item = &'n Vec<u8>>) -> Vec<u8> {
    let path = names.fold(Vec::new(), |path, name| [&path[..], b"/", name].concat());
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// Splits a path into what comes before its last name, and that name.
///
/// # Errors
/// [`Error::Invalid`] when the path has no last name to create or remove: the root, or a path
/// that ends in `.` or `..`.
pub fn split(path: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = path
        .iter()
        .rposition(|b| *b != b'/')
        .map_or(0, |last| last + 1);
    let start = path[..end]
        .iter()
        .rposition(|b| *b == b'/')
        .map_or(0, |slash| slash + 1);
    match &path[start..end] {
        b"" | b"." | b".." => Err(Error::Invalid),
        name => Ok((&path[..start], name)),
    }
}

/// The directory of a path's last name, and that name, which need not exist.
pub fn resolve_parent<'p>(fs: &mut dyn FileSystem, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
    let (parent, name) = split(path)?;
    Ok((descend(fs, names(parent))?, name))
}

/// Creates a directory and those above it; what is there already stays as it is.
///
/// # Errors
/// [`Error::NotDir`] when something else has one of the names.
pub fn mkdir_p(fs: &mut dyn FileSystem, path: &[u8], new: &NewInode) -> Result<Attr> {
    let root = fs.root();
    let mut at = fs.getattr(root)?;
    for name in names(path) {
        at = match step(fs, at.ino, name) {
            Err(Error::NotFound) => fs.mkdir(at.ino, name, new)?,
            found => found?,
        };
        if at.kind != FileKind::Dir {
            return Err(Error::NotDir);
        }
    }
    Ok(at)
}

/// All of a file.
pub fn read_file(fs: &mut dyn FileSystem, path: &[u8]) -> Result<Vec<u8>> {
    let attr = resolve(fs, path)?;
    read_all(fs, attr.ino)
}

/// All of a file, by its inode number.
///
/// # Errors
/// [`Error::TooBig`] when it does not fit into memory's addresses.
pub fn read_all(fs: &mut dyn FileSystem, ino: Ino) -> Result<Vec<u8>> {
    const STEP: usize = 1 << 20;
    let size = usize::try_from(fs.getattr(ino)?.size).map_err(|_| Error::TooBig)?;
    let mut data = Vec::new();
    // Grows with what is really there: a damaged file system may show any size.
    while data.len() < size {
        let done = data.len();
        data.resize(size.min(done + STEP), 0);
        let n = fs.read(ino, done as u64, &mut data[done..])?;
        data.truncate(done + n);
        if n == 0 {
            break;
        }
    }
    Ok(data)
}

/// Creates a file, or empties the one that has the name, and writes `data` in requests of
/// `request` bytes (0: in one). Does not sync.
///
/// An existing file keeps its mode and owner. The attributes returned are those at the end.
///
/// # Errors
/// [`Error::IsDir`] for a directory, [`Error::Invalid`] for a symbolic link or a special file.
pub fn write_file(
    fs: &mut dyn FileSystem,
    path: &[u8],
    data: &[u8],
    request: usize,
    new: &NewInode,
) -> Result<Attr> {
    let (dir, name) = resolve_parent(fs, path)?;
    let ino = create_or_truncate(fs, dir, name, new)?.ino;
    let request = if request == 0 {
        data.len().max(1)
    } else {
        request
    };
    let mut offset = 0;
    for part in data.chunks(request) {
        fs.write(ino, offset, part, new.now)?;
        offset += part.len() as u64;
    }
    fs.getattr(ino)
}

/// Creates a file, or truncates the one that has the name to nothing.
///
/// # Errors
/// [`Error::IsDir`] for a directory, [`Error::Invalid`] for a symbolic link or a special file.
pub fn create_or_truncate(
    fs: &mut dyn FileSystem,
    dir: Ino,
    name: &[u8],
    new: &NewInode,
) -> Result<Attr> {
    match fs.create(dir, name, new) {
        Err(Error::Exists) => {
            let old = fs.lookup(dir, name)?;
            match old.kind {
                FileKind::Dir => Err(Error::IsDir),
                FileKind::File => {
                    let set = SetAttr {
                        size: Some(0),
                        now: new.now,
                        ..SetAttr::default()
                    };
                    fs.setattr(old.ino, &set)
                }
                _ => Err(Error::Invalid),
            }
        }
        made => made,
    }
}

/// All entries of a directory, in its order.
pub fn list(fs: &mut dyn FileSystem, dir: Ino) -> Result<Vec<DirEntry>> {
    let (entries, listed) = list_readable(fs, dir);
    listed.map(|()| entries)
}

/// The entries of a directory that can be read, in its order, and what is wrong if there are
/// others.
pub fn list_readable(fs: &mut dyn FileSystem, dir: Ino) -> (Vec<DirEntry>, Result<()>) {
    let mut entries = Vec::new();
    let listed = fs.readdir(dir, 0, &mut |entry| {
        entries.push(entry);
        true
    });
    (entries, listed)
}

/// What is wrong where a directory is met a second time.
pub(crate) fn seen_before() -> Error {
    Error::Damaged("a directory has two places".into())
}

/// What [`walk`] calls with the path and the attributes of each object.
pub type Visit<'a> = dyn FnMut(&mut dyn FileSystem, &[u8], &Attr) -> Result<()> + 'a;

/// Visits everything below a directory, a directory before what it holds, with paths relative to
/// where the walk began.
///
/// # Errors
/// [`Error::Damaged`] where a directory is met a second time; that of a visit.
pub fn walk(fs: &mut dyn FileSystem, dir: Ino, each: &mut Visit<'_>) -> Result<()> {
    let (mut pending, mut seen) = (vec![(dir, Vec::new())], HashSet::new());
    while let Some((dir, path)) = pending.pop() {
        if !seen.insert(dir) {
            return Err(seen_before());
        }
        for entry in list(fs, dir)? {
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(&entry.name);
            let attr = fs.lookup(dir, &entry.name)?;
            each(fs, &below, &attr)?;
            if entry.kind == FileKind::Dir {
                pending.push((entry.ino, below));
            }
        }
    }
    Ok(())
}

/// Removes a file, or a directory with all that it holds. The root is only emptied.
///
/// # Errors
/// [`Error::Damaged`] where a directory is met a second time.
pub fn remove_all(fs: &mut dyn FileSystem, path: &[u8], now: Time) -> Result<()> {
    let top = resolve(fs, path)?;
    if top.kind != FileKind::Dir {
        let (dir, name) = resolve_parent(fs, path)?;
        return fs.unlink(dir, name, now);
    }
    let mut dirs = Vec::new();
    let (mut pending, mut seen) = (vec![top.ino], HashSet::new());
    while let Some(dir) = pending.pop() {
        if !seen.insert(dir) {
            return Err(seen_before());
        }
        for entry in list(fs, dir)? {
            if entry.kind == FileKind::Dir {
                pending.push(entry.ino);
                dirs.push((dir, entry.name));
            } else {
                fs.unlink(dir, &entry.name, now)?;
            }
        }
    }
    for (dir, name) in dirs.iter().rev() {
        fs.rmdir(*dir, name, now)?;
    }
    if top.ino == fs.root() {
        return Ok(());
    }
    let (dir, name) = resolve_parent(fs, path)?;
    fs.rmdir(dir, name, now)
}

//! Compares what a volume shows with what it must hold.

use std::collections::BTreeMap;

use flashkit_vfs::{Error, FileKind, FileSystem, Ino};

use super::pages::Loss;
use super::tree::{Object, Tree, Volume, parent};

/// How much gave an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    pub objects: usize,
    pub pages: usize,
    pub lists: usize,
}

impl Errors {
    pub fn any(&self) -> bool {
        self.objects + self.pages + self.lists > 0
    }
}

/// Whether an error is one that damage may give.
pub fn is_damage(e: &Error) -> bool {
    matches!(e, Error::Io(_) | Error::Damaged(_))
}

/// Looks at everything, in order and again by batches. Everything that `loss` does not name must be
/// as in the tree; what it names may give errors, but nothing else.
pub fn judge(volume: &mut Volume, loss: &Loss) -> Result<Errors, String> {
    let tree = std::mem::take(&mut volume.tree);
    let result = judge_tree(volume, &tree, loss);
    volume.tree = tree;
    result
}

fn judge_tree(volume: &mut Volume, tree: &Tree, loss: &Loss) -> Result<Errors, String> {
    let mut errors = Errors::default();
    for (path, object) in tree {
        let attr = match volume.at(path) {
            Ok(attr) => attr,
            Err(e) if is_damage(&e) && loss.has(path) => {
                errors.objects += 1;
                continue;
            }
            Err(Error::NotFound) if loss.older && loss.has(path) => continue,
            Err(e) => return Err(format!("{path}: {e}")),
        };
        match object {
            Object::File(_) if loss.older && loss.has(path) => {}
            Object::Dir if attr.kind == FileKind::Dir => {
                let failed = list(volume, tree, loss, path, attr.ino, usize::MAX)?;
                errors.lists += usize::from(failed);
                if list(volume, tree, loss, path, attr.ino, 3)? != failed {
                    return Err(format!("{path}/ is listed differently in parts"));
                }
                absent(volume, loss, path, attr.ino)?;
            }
            Object::File(bytes) if attr.kind == FileKind::File => {
                if attr.size != bytes.len() as u64 {
                    return Err(format!("{path}: {} bytes, not {}", attr.size, bytes.len()));
                }
                errors.pages += content(volume, loss, path, attr.ino, bytes)?;
            }
            Object::Link(target) if attr.kind == FileKind::Symlink => {
                match volume.fs.readlink(attr.ino) {
                    Ok(found) if found == *target => {}
                    Err(e) if is_damage(&e) && loss.has_page(path, 0) => errors.objects += 1,
                    other => return Err(format!("{path}: target {other:?}")),
                }
            }
            _ => return Err(format!("{path} is a {:?}", attr.kind)),
        }
    }
    Ok(errors)
}

/// Lists a directory. Returns whether that ended with an error.
fn list(
    volume: &mut Volume,
    tree: &Tree,
    loss: &Loss,
    path: &str,
    dir: Ino,
    batch: usize,
) -> Result<bool, String> {
    let mut found = BTreeMap::new();
    let (mut cookie, mut failed) = (0, false);
    loop {
        let (mut n, from) = (0, cookie);
        let result = volume.fs.readdir(dir, from, &mut |entry| {
            n += 1;
            cookie = entry.cookie;
            found.insert(entry.name, entry.kind).is_none() && n < batch
        });
        match result {
            Ok(()) => {}
            Err(e) if is_damage(&e) => failed = true,
            Err(e) => return Err(format!("listing of {path}/ fails with {e}")),
        }
        // An error ends a listing, unless there was something to hand out before.
        if n == 0 || batch == usize::MAX {
            break;
        }
        failed = false;
        if found.len() > tree.len() {
            return Err(format!("listing of {path}/ does not end"));
        }
    }
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("{path}/")
    };
    let mut missing = 0;
    for (child, object) in tree.range(prefix.clone()..) {
        if !child.starts_with(&prefix) {
            break;
        }
        if child.is_empty() || parent(child) != path {
            continue;
        }
        let kind = match object {
            Object::Dir => FileKind::Dir,
            Object::File(_) => FileKind::File,
            Object::Link(_) => FileKind::Symlink,
        };
        let name = child.as_bytes()[prefix.len()..].to_vec();
        if found.remove(&name) != Some(kind) {
            missing += 1;
            if !loss.has(child) {
                return Err(format!("{child} is not listed"));
            }
        }
    }
    if let Some((name, kind)) = found.first_key_value()
        && !loss.stale
    {
        let name = String::from_utf8_lossy(name);
        return Err(format!(
            "{path}/{name}, a {kind:?}, is listed and not there"
        ));
    }
    if failed != (missing > 0) && !loss.older && !(failed && loss.dirs.contains(path)) {
        return Err(format!(
            "listing of {path}/ lacks {missing} names, and ends with an error: {failed}"
        ));
    }
    Ok(failed)
}

/// Names that do not exist are not found.
fn absent(volume: &mut Volume, loss: &Loss, path: &str, dir: Ino) -> Result<(), String> {
    for i in 0..8 {
        match volume.fs.lookup(dir, format!("absent {i}").as_bytes()) {
            Err(Error::NotFound) => {}
            Err(e) if is_damage(&e) && loss.dirs.contains(path) => {}
            other => return Err(format!("{path}/absent {i}: {other:?}")),
        }
    }
    Ok(())
}

/// Reads a file page by page. Returns how many gave errors.
fn content(
    volume: &mut Volume,
    loss: &Loss,
    path: &str,
    ino: Ino,
    bytes: &[u8],
) -> Result<usize, String> {
    let ps = volume.page_size();
    let mut failed = 0;
    let mut buf = vec![0; ps];
    for (index, due) in bytes.chunks(ps).enumerate() {
        match volume.fs.read(ino, (index * ps) as u64, &mut buf) {
            Ok(n) if buf[..n] == *due => {}
            Err(e) if is_damage(&e) && loss.has_page(path, index as u32) => failed += 1,
            Ok(n) => return Err(format!("{path}, page {index}: {n} bytes, and wrong ones")),
            Err(e) => return Err(format!("{path}, page {index}: {e}")),
        }
    }
    Ok(failed)
}

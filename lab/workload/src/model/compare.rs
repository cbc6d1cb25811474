//! Comparisons of the whole tree.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_vfs::{Attr, DirEntry, FileKind, FileSystem, Ino};

use super::choose::show;
use super::driver::Driver;

/// Names of a directory with what they refer to.
pub(super) type Names = BTreeMap<Vec<u8>, (FileKind, Ino)>;

/// What is wrong with attributes, if anything.
pub(super) fn attr_differs(model: &Attr, target: &Attr) -> Option<String> {
    let dir = model.kind == FileKind::Dir;
    let nlink_ok = model.nlink == target.nlink || dir && target.nlink == 1;
    let same = model.kind == target.kind
        && (dir || model.size == target.size)
        && model.mode == target.mode
        && model.device == target.device
        && (model.uid, model.gid) == (target.uid, target.gid)
        && nlink_ok
        && model.mtime == target.mtime;
    (!same).then(|| format!("attributes: expected {model:?}, found {target:?}"))
}

impl Driver<'_> {
    /// Lists a directory of the file system under test in batches of `batch` entries.
    pub(super) fn target_names(&mut self, dir: Ino, batch: usize) -> Result<Names, String> {
        let mut names = Names::new();
        let mut cookie = 0;
        loop {
            let entries = self.target_batch(dir, cookie, batch)?;
            let Some(last) = entries.last() else {
                return Ok(names);
            };
            cookie = last.cookie;
            for entry in entries {
                if names
                    .insert(entry.name.clone(), (entry.kind, entry.ino))
                    .is_some()
                {
                    return Err(format!("{} is listed twice", show(&entry.name)));
                }
            }
        }
    }

    /// Up to `batch` entries after a cookie.
    pub(super) fn target_batch(
        &mut self,
        dir: Ino,
        cookie: u64,
        batch: usize,
    ) -> Result<Vec<DirEntry>, String> {
        let mut entries = Vec::new();
        let listed = self.target.fs().readdir(dir, cookie, &mut |entry| {
            entries.push(entry);
            entries.len() < batch
        });
        listed.map_err(|error| format!("readdir: {error}"))?;
        if entries.len() > batch || entries.iter().any(|entry| entry.cookie == 0) {
            return Err("readdir goes on after it was told to stop, or gives a cookie 0".into());
        }
        Ok(entries)
    }

    pub(super) fn model_names(&mut self, dir: Ino) -> Result<Names, String> {
        let mut names = Names::new();
        let listed = self.model.readdir(dir, 0, &mut |entry| {
            names.insert(entry.name, (entry.kind, entry.ino));
            true
        });
        listed.map_err(|error| format!("the model's readdir: {error}"))?;
        Ok(names)
    }

    /// Compares the names of one directory, with the inodes behind them.
    pub(super) fn compare_names(&mut self, dir: Ino, batch: usize) -> Result<Names, String> {
        let at = self.touch(dir)?;
        let found = self.target_names(at, batch)?;
        let expected = self.model_names(dir)?;
        for (name, (kind, ino)) in &found {
            let shown = show(name);
            match expected.get(name) {
                None => return Err(format!("{shown} is listed and should not be")),
                Some((due, _)) if due != kind => {
                    return Err(format!("{shown} is listed as {kind:?}"));
                }
                Some((_, model)) if self.nodes[model].target != *ino => {
                    return Err(format!(
                        "{shown} is listed with another inode number, {ino}"
                    ));
                }
                _ => {}
            }
        }
        match expected.keys().find(|name| !found.contains_key(*name)) {
            Some(name) => Err(format!("{} is not listed", show(name))),
            None => Ok(expected),
        }
    }

    /// Compares everything: names, attributes, contents, targets, and what is open without a name.
    pub(super) fn compare_all(&mut self) -> Result<(), String> {
        self.stats.compares += 1;
        let (mut pending, mut seen) = (vec![self.model.root()], BTreeSet::new());
        while let Some(dir) = pending.pop() {
            self.compare_inode(dir)?;
            let batch = self.rng.between(1, 40) as usize;
            let names = self
                .compare_names(dir, batch)
                .map_err(|what| self.in_dir(dir, &what))?;
            for (name, (kind, ino)) in names {
                if kind == FileKind::Dir {
                    pending.push(ino);
                    continue;
                }
                if !seen.insert(ino) {
                    continue;
                }
                self.compare_inode(ino)
                    .map_err(|what| self.in_dir(dir, &format!("{}: {what}", show(&name))))?;
            }
        }
        for ino in self.orphans.clone() {
            self.compare_inode(ino)
                .map_err(|what| format!("an open file without name: {what}"))?;
        }
        Ok(())
    }

    fn in_dir(&self, dir: Ino, what: &str) -> String {
        format!("in {}: {what}", self.path(dir))
    }

    fn compare_inode(&mut self, ino: Ino) -> Result<(), String> {
        let at = self.touch(ino)?;
        let attr = self.target.fs().getattr(at);
        let attr = attr.map_err(|error| format!("getattr: {error}"))?;
        let expected = self
            .model
            .getattr(ino)
            .map_err(|error| format!("the model: {error}"))?;
        if let Some(what) = attr_differs(&expected, &attr) {
            return Err(what);
        }
        self.compare_xattrs(ino, at)?;
        match expected.kind {
            FileKind::File => self.compare_content(ino, expected.size),
            FileKind::Fifo | FileKind::Socket | FileKind::Char | FileKind::Block => Ok(()),
            FileKind::Symlink => {
                let (due, is) = (self.model.readlink(ino), self.target.fs().readlink(at));
                if due == is {
                    Ok(())
                } else {
                    Err(format!("target: expected {due:?}, found {is:?}"))
                }
            }
            FileKind::Dir => {
                let above = self.parent(ino);
                let above = self.touch(above)?;
                match self.target.fs().parent(at) {
                    Ok(parent) if parent == above => Ok(()),
                    other => Err(format!(
                        "parent of {}: expected {above}, found {other:?}",
                        self.path(ino)
                    )),
                }
            }
        }
    }

    fn compare_xattrs(&mut self, ino: Ino, at: Ino) -> Result<(), String> {
        let told = |fs: &mut dyn FileSystem, ino| -> flashkit_vfs::Result<BTreeMap<_, _>> {
            let names = fs.xattrs(ino)?;
            names
                .into_iter()
                .map(|name| Ok((name.clone(), fs.xattr(ino, &name)?)))
                .collect()
        };
        let (due, is) = (told(&mut self.model, ino), told(self.target.fs(), at));
        if due == is {
            Ok(())
        } else {
            Err(format!(
                "extended attributes: expected {due:?}, found {is:?}"
            ))
        }
    }

    fn compare_content(&mut self, ino: Ino, size: u64) -> Result<(), String> {
        let step = *self.rng.pick(&[1000, 2048, 4096, 65_536]).unwrap_or(&4096);
        let mut offset = 0;
        // One step beyond the end shows that the file ends there.
        while offset <= size {
            self.compare_read(ino, offset, step)?;
            offset += step as u64;
        }
        Ok(())
    }

    /// Reads the same from both.
    pub(super) fn compare_read(&mut self, ino: Ino, offset: u64, len: usize) -> Result<(), String> {
        let at = self.touch(ino)?;
        let (mut due, mut is) = (vec![0; len], vec![0xee; len]);
        let n = self.model.read(ino, offset, &mut due);
        let m = self.target.fs().read(at, offset, &mut is);
        if n != m {
            return Err(format!(
                "read of {len} at {offset}: expected {n:?}, found {m:?}"
            ));
        }
        let n = n.unwrap_or(0);
        if due[..n] == is[..n] {
            return Ok(());
        }
        match due[..n].iter().zip(&is[..n]).position(|(a, b)| a != b) {
            Some(place) => Err(format!(
                "byte {}: expected {:#04x}, found {:#04x}",
                offset + place as u64,
                due[place],
                is[place]
            )),
            None => Ok(()),
        }
    }
}

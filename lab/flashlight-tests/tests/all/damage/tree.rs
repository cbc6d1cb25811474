//! A volume, and what it must hold.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::Config;
use flashkit_vfs::{Attr, Error, FileSystem, NewInode, SetAttr, Time, path};
use flashkit_workload::Rng;

use crate::common::{Fs, chip, format, mount, try_mount, try_unmount};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Dir,
    File(Vec<u8>),
    Link(Vec<u8>),
}

/// Objects by path; the root's is empty.
pub type Tree = BTreeMap<String, Object>;

/// Page size, usable spare bytes, pages a block, blocks.
pub type Shape = (u32, u32, u32, u32);

/// Bytes that tell a file, a place in it and a version apart.
pub fn fill(key: u64, offset: usize, len: usize) -> Vec<u8> {
    let word = |n: usize| Rng::new(key.wrapping_mul(0x1_0001) ^ (n as u64) << 20).next_u64();
    let words = offset / 8..(offset + len).div_ceil(8);
    let mut bytes: Vec<u8> = words.flat_map(|n| word(n).to_le_bytes()).collect();
    bytes.drain(..offset % 8);
    bytes.truncate(len);
    bytes
}

pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |p| p.0)
}

/// A mounted volume with the tree that it must hold: changes are made to both, to the tree when the
/// volume accepts them.
pub struct Volume {
    pub fs: Fs,
    pub tree: Tree,
    pub now: Time,
    /// Names of one file each: its hard links.
    pub links: Vec<BTreeSet<String>>,
}

impl Volume {
    pub fn format(shape: Shape) -> Volume {
        let (page, spare, pages, blocks) = shape;
        Volume {
            fs: mount(format(chip(page, spare, pages, blocks), 0x1234)),
            tree: Tree::from([(String::new(), Object::Dir)]),
            now: Time::default(),
            links: Vec::new(),
        }
    }

    fn tick(&mut self) -> Time {
        self.now.secs += 1;
        self.now
    }

    fn new_inode(&mut self) -> NewInode {
        NewInode {
            mode: 0o755,
            now: self.tick(),
            ..NewInode::default()
        }
    }

    pub fn page_size(&mut self) -> usize {
        self.fs.statfs().unwrap().block_size as usize
    }

    pub fn at(&mut self, path: &str) -> Result<Attr, Error> {
        path::resolve(&mut self.fs, path.as_bytes())
    }

    pub fn mkdir(&mut self, path: &str) -> Result<(), Error> {
        let new = self.new_inode();
        let (dir, name) = path::resolve_parent(&mut self.fs, path.as_bytes())?;
        self.fs.mkdir(dir, name, &new)?;
        self.tree.insert(path.into(), Object::Dir);
        Ok(())
    }

    pub fn link(&mut self, path: &str, target: &[u8]) -> Result<(), Error> {
        let new = self.new_inode();
        let (dir, name) = path::resolve_parent(&mut self.fs, path.as_bytes())?;
        self.fs.symlink(dir, name, target, &new)?;
        self.tree.insert(path.into(), Object::Link(target.into()));
        Ok(())
    }

    pub fn create(&mut self, path: &str) -> Result<(), Error> {
        let new = self.new_inode();
        let (dir, name) = path::resolve_parent(&mut self.fs, path.as_bytes())?;
        self.fs.create(dir, name, &new)?;
        self.tree.insert(path.into(), Object::File(Vec::new()));
        Ok(())
    }

    /// Writes to a file that is there.
    pub fn write(&mut self, path: &str, offset: usize, data: &[u8]) -> Result<(), Error> {
        let now = self.tick();
        let ino = self.at(path)?.ino;
        self.fs.write(ino, offset as u64, data, now)?;
        self.change(path, |bytes| {
            if bytes.len() < offset + data.len() {
                bytes.resize(offset + data.len(), 0);
            }
            bytes[offset..offset + data.len()].copy_from_slice(data);
        });
        Ok(())
    }

    /// Changes what a file must hold, under all its names.
    fn change(&mut self, path: &str, mut with: impl FnMut(&mut Vec<u8>)) {
        let one = BTreeSet::from([path.to_owned()]);
        let names = self.links.iter().find(|names| names.contains(path));
        for path in names.unwrap_or(&one) {
            let Some(Object::File(bytes)) = self.tree.get_mut(path) else {
                panic!("{path} is no file")
            };
            with(bytes);
        }
    }

    /// Gives a file one more name.
    pub fn hard_link(&mut self, path: &str, to: &str) -> Result<(), Error> {
        let now = self.tick();
        let ino = self.at(path)?.ino;
        let (dir, name) = path::resolve_parent(&mut self.fs, to.as_bytes())?;
        self.fs.link(ino, dir, name, now)?;
        self.tree.insert(to.into(), self.tree[path].clone());
        match self.links.iter_mut().find(|names| names.contains(path)) {
            Some(names) => {
                names.insert(to.into());
            }
            None => self.links.push(BTreeSet::from([path.into(), to.into()])),
        }
        Ok(())
    }

    pub fn truncate(&mut self, path: &str, size: usize) -> Result<(), Error> {
        let set = SetAttr {
            size: Some(size as u64),
            now: self.tick(),
            ..SetAttr::default()
        };
        let ino = self.at(path)?.ino;
        self.fs.setattr(ino, &set)?;
        self.change(path, |bytes| bytes.resize(size, 0));
        Ok(())
    }

    pub fn fsync(&mut self, path: &str) -> Result<(), Error> {
        let ino = self.at(path)?.ino;
        self.fs.fsync(ino)
    }

    pub fn unlink(&mut self, path: &str) -> Result<(), Error> {
        let now = self.tick();
        let (dir, name) = path::resolve_parent(&mut self.fs, path.as_bytes())?;
        self.fs.unlink(dir, name, now)?;
        self.tree.remove(path);
        for names in &mut self.links {
            names.remove(path);
        }
        Ok(())
    }

    pub fn rmdir(&mut self, path: &str) -> Result<(), Error> {
        let now = self.tick();
        let (dir, name) = path::resolve_parent(&mut self.fs, path.as_bytes())?;
        self.fs.rmdir(dir, name, now)?;
        self.tree.remove(path);
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), Error> {
        let now = self.tick();
        let (from_dir, from_name) = path::resolve_parent(&mut self.fs, from.as_bytes())?;
        let (to_dir, to_name) = path::resolve_parent(&mut self.fs, to.as_bytes())?;
        self.fs
            .rename(from_dir, from_name, to_dir, to_name, false, now)?;
        let below = format!("{from}/");
        let moved: Vec<String> = self
            .tree
            .keys()
            .filter(|path| *path == from || path.starts_with(&below))
            .cloned()
            .collect();
        for path in moved {
            let object = self.tree.remove(&path).unwrap();
            let new = format!("{to}{}", &path[from.len()..]);
            for names in &mut self.links {
                if names.remove(&path) {
                    names.insert(new.clone());
                }
            }
            self.tree.insert(new, object);
        }
        Ok(())
    }

    /// Unmounts and mounts again.
    pub fn remount(self, config: Config) -> Result<Volume, String> {
        let fs = try_mount(try_unmount(self.fs)?, config)?;
        Ok(Volume { fs, ..self })
    }
}

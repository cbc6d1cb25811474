//! Operations on names.

use flashkit_vfs::{Attr, FileSystem, SetAttr};

use super::{At, Done, Stop, Work, time};
use crate::history::bytes::{Bytes, What};
use crate::history::model::{Entry, Id, ROOT};

impl Work<'_, '_, '_> {
    pub(super) fn unlink(&mut self) -> Done {
        match self.pick() {
            Some((at, Entry::File(f))) => self.unlink_at(&at, f).map(drop),
            _ => Ok(()),
        }
    }

    /// Removes a name. Returns whether there was space for that.
    pub fn unlink_at(&mut self, at: &At, f: Id) -> Result<bool, Stop> {
        let op = self.begin(format_args!("unlink {}/{}", at.0, at.1));
        self.model.edit(at.0, &at.1, None);
        self.model.change(f, What::Nothing, |_| {});
        let gone = self.fs.unlink(self.ino(at.0), at.1.as_bytes(), time(op));
        let gone = self.came(gone)?.is_some();
        self.stuck = if gone { 0 } else { self.stuck + 1 };
        if self.stuck > 100 {
            return Err(Stop::Bad("nothing can be removed any more".into()));
        }
        Ok(gone)
    }

    pub(super) fn rename(&mut self, dir: bool) -> Done {
        let Some((from, entry)) = self.pick() else {
            return Ok(());
        };
        let to = match self.pick() {
            Some((to, _)) if self.rng.one_in(3) => to,
            _ => self.any_name(),
        };
        let target = self.model.dir(to.0).names.get(&to.1).copied();
        let fits = match (entry, target) {
            (Entry::File(_), None) => !dir,
            (Entry::File(a), Some(Entry::File(b))) => !dir && a != b,
            (Entry::Dir(a), None) => !self.model.is_below(to.0, a),
            (Entry::Dir(a), Some(Entry::Dir(b))) => {
                a != b && self.model.dir(b).names.is_empty() && !self.model.is_below(to.0, a)
            }
            _ => false,
        };
        if !fits {
            return Ok(());
        }
        let op = self.begin(format_args!(
            "rename {}/{} {}/{}",
            from.0, from.1, to.0, to.1
        ));
        self.model.edit(from.0, &from.1, None);
        self.model.edit(to.0, &to.1, Some(entry));
        for entry in [Some(entry), target] {
            if let Some(Entry::File(f)) = entry {
                self.model.change(f, What::Nothing, |_| {});
            }
        }
        let (a, b) = (self.ino(from.0), self.ino(to.0));
        let (old, new) = (from.1.as_bytes(), to.1.as_bytes());
        let renamed = self.fs.rename(a, old, b, new, false, time(op));
        if self.came(renamed)?.is_some() {
            self.model.settle_dir(from.0);
            self.model.settle_dir(to.0);
            self.settle(entry);
        }
        self.list_if_dir(entry);
        Ok(())
    }

    fn settle(&mut self, entry: Entry) {
        if let Entry::File(f) = entry {
            self.model.file_mut(f).settle();
        }
    }

    fn list_if_dir(&mut self, entry: Entry) {
        if let Entry::Dir(_) = entry {
            self.list_dirs();
        }
    }

    pub(super) fn exchange(&mut self) -> Done {
        let (Some((a, one)), Some((b, other))) = (self.pick(), self.pick()) else {
            return Ok(());
        };
        let below = |entry, d| matches!(entry, Entry::Dir(top) if self.model.is_below(d, top));
        if one == other || below(one, b.0) || below(other, a.0) {
            return Ok(());
        }
        let op = self.begin(format_args!("exchange {}/{} {}/{}", a.0, a.1, b.0, b.1));
        self.model.edit(a.0, &a.1, Some(other));
        self.model.edit(b.0, &b.1, Some(one));
        for entry in [one, other] {
            if let Entry::File(f) = entry {
                self.model.change(f, What::Nothing, |_| {});
            }
        }
        let (dir, other_dir) = (self.ino(a.0), self.ino(b.0));
        let (name, other_name) = (a.1.as_bytes(), b.1.as_bytes());
        let changed = self.fs.exchange(dir, name, other_dir, other_name, time(op));
        if self.came(changed)?.is_some() {
            self.model.settle_dir(a.0);
            self.model.settle_dir(b.0);
            self.settle(one);
            self.settle(other);
        }
        self.list_if_dir(one);
        self.list_if_dir(other);
        Ok(())
    }

    pub(super) fn link(&mut self) -> Done {
        let to = self.any_name();
        if self.model.dir(to.0).names.contains_key(&to.1) {
            return Ok(());
        }
        let Some((at, f, attr)) = self.pick_of_many_names()? else {
            return Ok(());
        };
        let op = self.begin(format_args!("link {}/{} {}/{}", at.0, at.1, to.0, to.1));
        self.model.edit(to.0, &to.1, Some(Entry::File(f)));
        self.model.change(f, What::Nothing, |_| {});
        let linked = self
            .fs
            .link(attr.ino, self.ino(to.0), to.1.as_bytes(), time(op));
        self.came(linked).map(drop)
    }

    /// A file, half of the time the oldest, which comes to have names in many pages so.
    fn pick_of_many_names(&mut self) -> Result<Option<(At, Id, Attr)>, Stop> {
        let oldest = self.model.files.keys().next().copied();
        let (Some(f), true) = (oldest, self.rng.one_in(2)) else {
            return self.pick_known();
        };
        let name_in = |d: &Id| {
            let mut names = self.model.dir(*d).names.iter();
            let name = names.find(|e| *e.1 == Entry::File(f))?.0;
            Some((*d, name.clone()))
        };
        let Some(at) = self.dirs.iter().find_map(name_in) else {
            return self.pick_known();
        };
        let found = self.fs.lookup(self.ino(at.0), at.1.as_bytes());
        Ok(self.came(found)?.map(|attr| (at, f, attr)))
    }

    pub(super) fn symlink(&mut self) -> Done {
        let (d, name) = self.any_name();
        if self.model.dir(d).names.contains_key(&name) {
            return Ok(());
        }
        let len = 1 + self.rng.below(300);
        let op = self.begin(format_args!("symlink {d}/{name}"));
        let mut bytes = Bytes::default();
        bytes.put(0, len, op);
        bytes.size = len;
        let mut target = vec![0; len as usize];
        bytes.read(0, &mut target);
        let f = self.model.new_file(true, bytes);
        self.model.edit(d, &name, Some(Entry::File(f)));
        let new = Self::new_inode(op);
        let made = self.fs.symlink(self.ino(d), name.as_bytes(), &target, &new);
        if let Some(attr) = self.came(made)? {
            let mode = attr.mode;
            if mode != new.mode {
                return Err(Stop::Bad(format!("a new link has mode {mode:o}")));
            }
            self.model.file_mut(f).ino = Some(attr.ino);
        }
        Ok(())
    }

    pub(super) fn mkdir(&mut self) -> Done {
        let (d, name) = self.any_name();
        let known = self.model.dir(d).names.contains_key(&name);
        if known || self.dirs.len() as u64 >= self.plan.dirs {
            return Ok(());
        }
        let op = self.begin(format_args!("mkdir {d}/{name}"));
        let new = Self::new_inode(op);
        let child = self.model.new_dir(d, new.mode);
        self.model.edit(d, &name, Some(Entry::Dir(child)));
        let made = self.fs.mkdir(self.ino(d), name.as_bytes(), &new);
        if let Some(attr) = self.came(made)? {
            self.model.dir_mut(child).ino = Some(attr.ino);
            self.model.settle_dir(d);
        }
        self.list_dirs();
        Ok(())
    }

    /// Gives a directory another mode or attribute.
    pub(super) fn dir_attrs(&mut self) -> Done {
        let d = self.pick_dir();
        let (ino, mut attrs) = (self.ino(d), self.model.dir(d).attrs().clone());
        let op = self.begin(format_args!("attributes of directory {d}"));
        let set = if self.rng.one_in(2) {
            attrs.mode = self.rng.below(0o1000) as u16;
            let set = SetAttr {
                mode: Some(attrs.mode),
                now: time(op),
                ..SetAttr::default()
            };
            self.fs.setattr(ino, &set).map(drop)
        } else {
            self.set_xattr(ino, op, &mut attrs.xattrs)
        };
        self.model.dir_mut(d).attrs.push(attrs);
        if self.came(set)?.is_none() {
            self.model.dir_mut(d).attrs.pop();
        }
        match self.rng.one_in(2) {
            true => self.fsync_dir(d),
            false => Ok(()),
        }
    }

    pub(super) fn rmdir(&mut self) -> Done {
        let empty = |d: &&Id| **d != ROOT && self.model.dir(**d).names.is_empty();
        let Some(&child) = self.dirs.iter().find(empty) else {
            return Ok(());
        };
        self.rmdir_of(child).map(drop)
    }

    /// Removes an empty directory. Returns whether there was space for that.
    pub fn rmdir_of(&mut self, child: Id) -> Result<bool, Stop> {
        let d = self.model.dir(child).parent;
        let names = &self.model.dir(d).names;
        let found = names.iter().find(|e| *e.1 == Entry::Dir(child));
        let name = found.map(|e| e.0.clone()).unwrap_or_default();
        let op = self.begin(format_args!("rmdir {d}/{name}"));
        self.model.edit(d, &name, None);
        let gone = self.fs.rmdir(self.ino(d), name.as_bytes(), time(op));
        let gone = self.came(gone)?.is_some();
        if gone {
            self.model.settle_dir(d);
        }
        self.list_dirs();
        Ok(gone)
    }
}

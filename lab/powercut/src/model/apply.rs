//! What operations do, and what is durable when they return.

use std::sync::Arc;

use flashkit_vfs::{FileKind, Time};

use super::{Entry, File, Model, Names, State, attrs_of, time_of};
use crate::content::{Content, fill};
use crate::op::{Op, special};
use crate::seen::{Attrs, SeenFile, xattr_digest};

impl File {
    /// Notes the present contents with changed attributes.
    fn note(&mut self, op: usize, change: impl FnOnce(&mut Attrs)) {
        let mut state = State {
            size: self.content.size,
            digest: self.content.digest(),
            attrs: self.states.now().attrs.clone(),
        };
        change(&mut state.attrs);
        self.states.push(op, state);
    }

    fn put_page(&mut self, index: u32, bytes: &[u8]) {
        self.content.set_page(index, bytes);
        if let Some(digest) = self.content.page_digest(index) {
            self.ever.entry(index).or_default().insert(digest);
        }
    }

    fn truncate(&mut self, size: u64, page_size: usize) {
        let ps = page_size as u64;
        if size < self.content.size {
            self.content.drop_pages(size.div_ceil(ps) as u32);
            let index = (size / ps) as u32;
            if !size.is_multiple_of(ps) {
                let mut page = self.content.page(index, page_size);
                page[(size % ps) as usize..].fill(0);
                self.put_page(index, &page);
            }
        }
        self.content.size = size;
    }
}

fn modified(now: Time) -> impl Fn(&mut Attrs) {
    move |attrs| {
        attrs.mtime = now;
        attrs.ctime = now;
    }
}

impl Model {
    /// Changes the names of a directory, and with them its times.
    fn change(&mut self, dir: usize, with: impl FnOnce(&mut Names)) {
        with(self.dirs[dir].names.change(self.op));
        modified(time_of(self.op))(self.dirs[dir].attrs.change(self.op));
    }

    fn insert(&mut self, dir: usize, name: &str, entry: Entry) {
        self.change(dir, |names| {
            names.insert(name.to_owned(), entry);
        });
    }

    fn remove(&mut self, dir: usize, name: &str) {
        self.change(dir, |names| {
            names.remove(name);
        });
    }

    /// A write: each page of it is a state.
    fn write(&mut self, f: usize, offset: u64, bytes: &[u8]) {
        let ps = self.page_size as u64;
        let end = offset + bytes.len() as u64;
        let mut at = offset;
        while at < end {
            let index = (at / ps) as u32;
            let stop = end.min((u64::from(index) + 1) * ps);
            let file = &mut self.files[f];
            let mut page = file.content.page(index, self.page_size);
            let from = (at % ps) as usize;
            let piece = &bytes[(at - offset) as usize..(stop - offset) as usize];
            page[from..from + piece.len()].copy_from_slice(piece);
            file.put_page(index, &page);
            file.content.size = file.content.size.max(stop);
            file.note(self.op, modified(time_of(self.op)));
            at = stop;
        }
    }

    /// A symbolic link's target is there with its name or not at all.
    fn target(&self, len: usize) -> Content {
        let mut content = Content::of_zeros(len as u64);
        for (i, piece) in fill(self.op as u64, 0, len)
            .chunks(self.page_size)
            .enumerate()
        {
            let mut page = piece.to_vec();
            page.resize(self.page_size, 0);
            content.set_page(i as u32, &page);
        }
        content
    }

    fn is_below(&self, dir: usize, top: usize) -> bool {
        dir == top
            || self.dirs[top].names.now().values().any(|e| match e {
                Entry::Dir(d) => self.is_below(dir, *d),
                Entry::File(_) => false,
            })
    }

    /// Puts a change of attributes into the history of what a path names.
    fn set_attrs(&mut self, path: &str, with: impl FnOnce(&mut Attrs)) -> Option<()> {
        let (op, now) = (self.op, time_of(self.op));
        let change = |attrs: &mut Attrs| {
            with(attrs);
            attrs.ctime = now;
        };
        match self.find(path)?.2? {
            Entry::File(f) => self.files[f].note(op, change),
            Entry::Dir(d) => change(self.dirs[d].attrs.change(op)),
        }
        Some(())
    }

    /// Sets an extended attribute, or removes it if it is there.
    fn set_xattr(&mut self, path: &str, name: &str, digest: Option<u64>) -> Option<()> {
        let attrs = match self.find(path)?.2? {
            Entry::File(f) => &self.files[f].states.now().attrs,
            Entry::Dir(d) => self.dirs[d].attrs.now(),
        };
        let mut xattrs = attrs.xattrs.clone();
        let by_name = Arc::make_mut(&mut xattrs);
        match digest {
            Some(digest) => {
                by_name.insert(name.into(), digest);
            }
            None => {
                by_name.remove(name.as_bytes())?;
            }
        }
        self.set_attrs(path, |attrs| attrs.xattrs = xattrs)
    }

    pub(super) fn plan(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Create(p) | Op::Mkdir(p) | Op::Symlink(p, _) | Op::Mknod(p, _) => {
                self.plan_new(op, p)?;
            }
            Op::Unlink(p) => {
                let (dir, name, Some(Entry::File(f))) = self.find(p)? else {
                    return None;
                };
                self.remove(dir, name);
                let now = time_of(self.op);
                self.files[f].note(self.op, |attrs| attrs.ctime = now);
            }
            Op::Link(p, q) => {
                let f = self.find_file(p)?;
                let (dir, name, None) = self.find(q)? else {
                    return None;
                };
                self.insert(dir, name, Entry::File(f));
                let now = time_of(self.op);
                self.files[f].note(self.op, |attrs| attrs.ctime = now);
            }
            Op::Rmdir(p) => {
                let (dir, name, Some(Entry::Dir(d))) = self.find(p)? else {
                    return None;
                };
                if name.is_empty() || !self.dirs[d].names.now().is_empty() {
                    return None;
                }
                self.remove(dir, name);
            }
            Op::Rename(p, q) => self.plan_rename(p, q)?,
            Op::Exchange(p, q) => self.plan_exchange(p, q)?,
            Op::Write(p, offset, len) => {
                let f = self.find_regular(p)?;
                let bytes = fill(self.op as u64, *offset, *len);
                self.write(f, *offset, &bytes);
            }
            Op::Copy(p, piece) => {
                let f = self.find_regular(p)?;
                self.write(f, piece.range.start as u64, piece.bytes());
            }
            Op::Truncate(p, size) => {
                let f = self.find_regular(p)?;
                let (op, page_size) = (self.op, self.page_size);
                self.files[f].truncate(*size, page_size);
                self.files[f].note(op, modified(time_of(op)));
            }
            Op::Punch(p, offset, len) => {
                let f = self.find_regular(p)?;
                let end = offset.saturating_add(*len).min(self.files[f].content.size);
                let zeros = vec![0; end.saturating_sub(*offset) as usize];
                self.write(f, *offset, &zeros);
            }
            Op::SetXattr(p, name, len) => {
                let value = fill(self.op as u64, 0, *len);
                let digest = xattr_digest(&value);
                self.set_xattr(p, name, Some(digest))?;
            }
            Op::RemoveXattr(p, name) => self.set_xattr(p, name, None)?,
            Op::Chmod(p, mode) => self.set_attrs(p, |attrs| attrs.mode = mode & 0o7777)?,
            Op::Chown(p, uid, gid) => {
                self.set_attrs(p, |attrs| (attrs.uid, attrs.gid) = (*uid, *gid))?;
            }
            Op::Utimes(p, atime, mtime) => self.set_attrs(p, |attrs| {
                attrs.atime = Time {
                    secs: *atime,
                    nanos: 0,
                };
                attrs.mtime = Time {
                    secs: *mtime,
                    nanos: 0,
                };
            })?,
            Op::Open(p) => {
                let f = self.find_regular(p)?;
                self.files[f].users += 1;
                self.open.push_back(f);
            }
            Op::Close => {
                let f = self.open.pop_front()?;
                self.files[f].users -= 1;
            }
            Op::Fsync(p) | Op::Read(p) => {
                self.find(p)?.2?;
            }
            Op::List(p) => {
                let Some(Entry::Dir(_)) = self.find(p)?.2 else {
                    return None;
                };
            }
            Op::Sync
            | Op::Gc
            | Op::Scrub
            | Op::WeakRead(_)
            | Op::FailProgram(..)
            | Op::FailErase(..) => {}
            Op::Remount => {
                self.open.clear();
                for file in &mut self.files {
                    file.users = 0;
                }
            }
        }
        Some(())
    }

    fn plan_new(&mut self, op: &Op, path: &str) -> Option<()> {
        let (dir, name, None) = self.find(path)? else {
            return None;
        };
        let attrs = attrs_of(self.op);
        let entry = match op {
            Op::Mkdir(_) => {
                self.dirs.push(super::Dir {
                    names: super::History::new(self.op, Names::new()),
                    attrs: super::History::new(self.op, attrs),
                });
                Entry::Dir(self.dirs.len() - 1)
            }
            Op::Symlink(_, len) => {
                let target = self.target(*len);
                Entry::File(self.new_file((FileKind::Symlink, 0), target, attrs))
            }
            Op::Mknod(_, number) => {
                Entry::File(self.new_file(special(*number), Content::default(), attrs))
            }
            _ => Entry::File(self.new_file((FileKind::File, 0), Content::default(), attrs)),
        };
        self.insert(dir, name, entry);
        Some(())
    }

    fn plan_rename(&mut self, p: &str, q: &str) -> Option<()> {
        let (from, old, Some(source)) = self.find(p)? else {
            return None;
        };
        let (to, new, target) = self.find(q)?;
        if old.is_empty() || new.is_empty() {
            return None;
        }
        let fits = match (source, target) {
            // Two names of one file: nothing happens.
            (Entry::File(a), Some(Entry::File(b))) if a == b => return Some(()),
            (Entry::File(_), None | Some(Entry::File(_))) => true,
            (Entry::Dir(a), Some(Entry::Dir(b))) => {
                a != b && self.dirs[b].names.now().is_empty() && !self.is_below(to, a)
            }
            (Entry::Dir(a), None) => !self.is_below(to, a),
            _ => false,
        };
        if !fits {
            return None;
        }
        self.remove(from, old);
        self.insert(to, new, source);
        let (op, now) = (self.op, time_of(self.op));
        match source {
            Entry::File(f) => self.files[f].note(op, |attrs| attrs.ctime = now),
            Entry::Dir(d) => self.dirs[d].attrs.change(op).ctime = now,
        }
        if let Some(Entry::File(f)) = target {
            self.files[f].note(op, |attrs| attrs.ctime = now);
        }
        Some(())
    }

    fn plan_exchange(&mut self, p: &str, q: &str) -> Option<()> {
        let (dir, name, Some(one)) = self.find(p)? else {
            return None;
        };
        let (other_dir, other_name, Some(other)) = self.find(q)? else {
            return None;
        };
        if name.is_empty() || other_name.is_empty() {
            return None;
        }
        if one == other {
            return Some(());
        }
        for (entry, to) in [(one, other_dir), (other, dir)] {
            if matches!(entry, Entry::Dir(d) if self.is_below(to, d)) {
                return None;
            }
        }
        self.insert(dir, name, other);
        self.insert(other_dir, other_name, one);
        let (op, now) = (self.op, time_of(self.op));
        for entry in [one, other] {
            match entry {
                Entry::File(f) => self.files[f].note(op, |attrs| attrs.ctime = now),
                Entry::Dir(d) => self.dirs[d].attrs.change(op).ctime = now,
            }
        }
        Some(())
    }

    pub(super) fn promise(&mut self, op: &Op) {
        match op {
            Op::Mkdir(p) | Op::Rmdir(p) => {
                if let Some((dir, ..)) = self.find(p) {
                    self.dirs[dir].names.settle();
                }
            }
            Op::Rename(p, q) => self.promise_rename(p, q),
            Op::Exchange(p, q) => {
                self.promise_rename(p, q);
                self.promise_rename(q, p);
            }
            Op::Unlink(p) => {
                let Some((dir, name, _)) = self.find(p) else {
                    return;
                };
                let names = &self.dirs[dir].names.versions;
                let before = names[names.len() - 2].1.get(name).copied();
                if matches!(before, Some(Entry::File(f)) if self.files[f].users > 0) {
                    self.dirs[dir].names.settle();
                }
            }
            Op::Fsync(p) => match self.find(p) {
                Some((dir, name, Some(Entry::File(f)))) => {
                    self.files[f].states.settle();
                    self.promise_name(dir, name, f);
                }
                Some((_, _, Some(Entry::Dir(d)))) => {
                    self.dirs[d].names.settle();
                    self.dirs[d].attrs.settle();
                }
                _ => {}
            },
            Op::Sync | Op::Remount => {
                self.files.iter_mut().for_each(|file| file.states.settle());
                for dir in &mut self.dirs {
                    dir.names.settle();
                    dir.attrs.settle();
                }
            }
            _ => {}
        }
    }

    fn promise_rename(&mut self, p: &str, q: &str) {
        let Some((to, _, Some(entry))) = self.find(q) else {
            return;
        };
        if self.find(p).is_some_and(|found| found.2 == Some(entry)) {
            return;
        }
        self.dirs[to].names.settle();
        match entry {
            Entry::File(f) => self.files[f].states.settle(),
            Entry::Dir(d) => self.dirs[d].attrs.settle(),
        }
        // The old path may lead through what was renamed.
        if let Some((from, ..)) = self.find(p) {
            self.dirs[from].names.settle();
        }
    }

    /// A file's name survives, and what its directory was before it got it is not seen any more.
    fn promise_name(&mut self, dir: usize, name: &str, f: usize) {
        let names = &mut self.dirs[dir].names;
        let mut k = names.versions.len() - 1;
        while k > 0 && names.versions[k - 1].1.get(name) == Some(&Entry::File(f)) {
            k -= 1;
        }
        names.floor = names.floor.max(k);
    }

    /// The operation has failed for lack of space: names are as before, of a write only whole
    /// pages count, of which `found` tells how many.
    ///
    /// # Errors
    /// What was found is not that.
    pub fn fail(&mut self, op: &Op, found: Option<&SeenFile>) -> Result<(), String> {
        self.at_work = false;
        for dir in &mut self.dirs {
            dir.names.undo(self.op);
            dir.attrs.undo(self.op);
        }
        let written = match op {
            Op::Write(p, ..) | Op::Copy(p, _) | Op::Truncate(p, _) | Op::Punch(p, ..) => {
                self.find_file(p)
            }
            _ => None,
        };
        for (f, file) in self.files.iter_mut().enumerate() {
            if Some(f) != written {
                file.states.undo(self.op);
            }
        }
        let (Some(f), Some(found)) = (written, found) else {
            return Ok(());
        };
        let file = &mut self.files[f];
        let state = State {
            size: found.content.size,
            digest: found.content.digest(),
            attrs: found.attrs.clone(),
        };
        let at = file.states.versions.iter().rposition(|v| v.1 == state);
        let at = at.ok_or("an operation that found no space leaves a part of a page")?;
        if at < file.states.floor {
            return Err("an operation that found no space undoes earlier ones".into());
        }
        file.states.versions.truncate(at + 1);
        file.content = found.content.clone();
        Ok(())
    }
}

//! What a volume of thousands of names may show after a cut. The rules are those of the
//! search's model (`crate::model`), which keeps all of a directory for each of its changes:
//! here only the changes are kept.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{Attrs, Bytes, File, State, What};

pub(super) type Id = u32;
pub(super) const ROOT: Id = 0;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(Id),
    Dir(Id),
}

pub(super) type Names = BTreeMap<String, Entry>;

/// Names that one operation gives another meaning: name, before, after.
#[derive(Clone)]
struct Change {
    op: u64,
    edits: Vec<(String, Option<Entry>, Option<Entry>)>,
}

#[derive(Clone)]
pub(super) struct Dir {
    /// Its number on the volume, once that is known.
    pub ino: Option<u64>,
    pub parent: Id,
    pub names: Names,
    /// Those that may be seen, the newest last; without times.
    pub attrs: Vec<Attrs>,
    /// Since it was last made durable.
    changes: Vec<Change>,
}

impl Dir {
    pub fn attrs(&self) -> &Attrs {
        self.attrs.last().expect("never empty")
    }

    /// The attributes are durable.
    pub fn settle_attrs(&mut self) {
        self.attrs.drain(..self.attrs.len() - 1);
    }
}

/// The names of a directory as they are listed: number, and whether it is a directory.
pub(super) type Listed = BTreeMap<String, (u64, bool)>;

/// See the module's text.
#[derive(Clone)]
pub(super) struct Model {
    pub dirs: BTreeMap<Id, Dir>,
    pub files: BTreeMap<Id, File>,
    pub page: u64,
    /// Number of the operation at work, or of the last one.
    pub op: u64,
    at_work: bool,
    next: Id,
}

impl Model {
    /// An empty volume.
    pub fn new(page: u32, root: u64) -> Model {
        let mut model = Model {
            dirs: BTreeMap::new(),
            files: BTreeMap::new(),
            page: page.into(),
            op: 0,
            at_work: false,
            next: 0,
        };
        model.new_dir(ROOT, 0o755);
        model.dir_mut(ROOT).ino = Some(root);
        model
    }

    pub fn dir(&self, d: Id) -> &Dir {
        &self.dirs[&d]
    }

    pub fn dir_mut(&mut self, d: Id) -> &mut Dir {
        self.dirs.get_mut(&d).expect("a directory of the model")
    }

    pub fn file(&self, f: Id) -> &File {
        &self.files[&f]
    }

    pub fn file_mut(&mut self, f: Id) -> &mut File {
        self.files.get_mut(&f).expect("a file of the model")
    }

    pub fn begin(&mut self) -> u64 {
        self.op += 1;
        self.at_work = true;
        self.op
    }

    /// The operation has returned.
    pub fn finish(&mut self) {
        self.at_work = false;
    }

    pub fn is_at_work(&self) -> bool {
        self.at_work
    }

    pub fn new_dir(&mut self, parent: Id, mode: u16) -> Id {
        let dir = Dir {
            ino: None,
            parent,
            names: Names::new(),
            attrs: vec![Attrs {
                mode,
                ..Attrs::of(0)
            }],
            changes: Vec::new(),
        };
        self.dirs.insert(self.next, dir);
        self.next += 1;
        self.next - 1
    }

    pub fn new_file(&mut self, symlink: bool, bytes: Bytes) -> Id {
        let file = File::new(symlink, bytes, Attrs::of(self.op));
        self.files.insert(self.next, file);
        self.next += 1;
        self.next - 1
    }

    /// Gives a name another meaning.
    pub fn edit(&mut self, d: Id, name: &str, entry: Option<Entry>) {
        let op = self.op;
        let dir = self.dir_mut(d);
        let before = match entry {
            Some(entry) => dir.names.insert(name.to_owned(), entry),
            None => dir.names.remove(name),
        };
        if dir.changes.last().is_none_or(|c| c.op != op) {
            let edits = Vec::new();
            dir.changes.push(Change { op, edits });
        }
        if let Some(change) = dir.changes.last_mut() {
            change.edits.push((name.to_owned(), before, entry));
        }
        if let Some(Entry::Dir(child)) = entry {
            self.dir_mut(child).parent = d;
        }
    }

    /// Changes a file; the attributes are those of now with what `with` does to them.
    pub fn change(&mut self, f: Id, what: What, with: impl FnOnce(&mut Attrs)) {
        let (op, page) = (self.op, self.page);
        let file = self.file_mut(f);
        let mut attrs = file.attrs().clone();
        attrs.ctime = op;
        if !matches!(what, What::Nothing) {
            attrs.mtime = op;
        }
        with(&mut attrs);
        file.change(op, page, what, attrs);
    }

    pub fn settle_dir(&mut self, d: Id) {
        self.dir_mut(d).changes.clear();
    }

    pub fn settle_all(&mut self) {
        for dir in self.dirs.values_mut() {
            dir.changes.clear();
            dir.settle_attrs();
        }
        self.files.values_mut().for_each(File::settle);
        self.forget();
    }

    /// What the directory was before this name was given can not be seen any more.
    pub fn settle_name(&mut self, d: Id, name: &str) {
        let changes = &mut self.dir_mut(d).changes;
        let gives = |c: &Change| c.edits.iter().any(|edit| edit.0 == name);
        if let Some(k) = changes.iter().rposition(gives) {
            changes.drain(..=k);
        }
    }

    /// The operation found no space: names are as before.
    pub fn undo(&mut self) {
        self.at_work = false;
        let (op, page) = (self.op, self.page);
        let mut moved = Vec::new();
        for (&d, dir) in &mut self.dirs {
            if dir.changes.last().is_none_or(|c| c.op != op) {
                continue;
            }
            for (name, before, _) in dir.changes.pop().into_iter().flat_map(|c| c.edits).rev() {
                if let Some(Entry::Dir(child)) = before {
                    moved.push((child, d));
                }
                match before {
                    Some(entry) => dir.names.insert(name, entry),
                    None => dir.names.remove(&name),
                };
            }
        }
        for (child, parent) in moved {
            self.dir_mut(child).parent = parent;
        }
        for file in self.files.values_mut() {
            file.undo(op, page);
        }
    }

    /// Drops what no name can lead to any more.
    fn forget(&mut self) {
        let mut named: (BTreeSet<Id>, BTreeSet<Id>) = (BTreeSet::from([ROOT]), BTreeSet::new());
        for dir in self.dirs.values() {
            let before = dir.changes.iter().flat_map(|c| &c.edits);
            let before = before.filter_map(|edit| edit.1.as_ref());
            for entry in dir.names.values().chain(before) {
                match entry {
                    Entry::Dir(d) => named.0.insert(*d),
                    Entry::File(f) => named.1.insert(*f),
                };
            }
        }
        self.dirs.retain(|d, _| named.0.contains(d));
        self.files.retain(|f, _| named.1.contains(f));
    }

    pub fn is_below(&self, mut d: Id, top: Id) -> bool {
        while d != top && d != ROOT {
            d = self.dir(d).parent;
        }
        d == top
    }

    fn is_seen(&self, entry: Option<Entry>, seen: Option<&(u64, bool)>) -> bool {
        let (ino, is_dir, &(seen, seen_dir)) = match (entry, seen) {
            (None, None) => return true,
            (Some(Entry::File(f)), Some(seen)) => (self.file(f).ino, false, seen),
            (Some(Entry::Dir(d)), Some(seen)) => (self.dir(d).ino, true, seen),
            _ => return false,
        };
        is_dir == seen_dir && ino.is_none_or(|ino| ino == seen)
    }

    /// After how many of its changes a directory may be listed like this, the newest first.
    /// `applied`: whether the operation at work counts as done.
    ///
    /// # Errors
    /// It is none of its states; says what differs.
    pub fn states(&self, d: Id, listed: &Listed, applied: bool) -> Result<Vec<usize>, String> {
        let dir = self.dir(d);
        let last = dir.changes.last().map_or(0, |c| c.op);
        let at_work = self.at_work && last == self.op;
        let mut wrong: BTreeSet<&str> = BTreeSet::new();
        for name in dir.names.keys().chain(listed.keys()) {
            if !self.is_seen(dir.names.get(name).copied(), listed.get(name)) {
                wrong.insert(name);
            }
        }
        let newest = wrong.clone();
        let mut states = Vec::new();
        for k in (0..=dir.changes.len()).rev() {
            let may_be = !at_work || (k == dir.changes.len()) == applied;
            if wrong.is_empty() && may_be {
                states.push(k);
            }
            let Some(change) = k.checked_sub(1).map(|k| &dir.changes[k]) else {
                break;
            };
            for (name, before, _) in change.edits.iter().rev() {
                if self.is_seen(*before, listed.get(name)) {
                    wrong.remove(name.as_str());
                } else {
                    wrong.insert(name);
                }
            }
        }
        if !states.is_empty() {
            return Ok(states);
        }
        let tell = |wrong: &BTreeSet<&str>| {
            let tell = |&name: &&str| {
                let is = self.dir(d).names.get(name);
                format!("{name}: {is:?}, seen {:?}", listed.get(name))
            };
            wrong
                .iter()
                .take(3)
                .map(tell)
                .collect::<Vec<_>>()
                .join(", ")
        };
        Err(format!(
            "directory is in none of its {} states: {} names differ from the newest ({}), {} from the durable one ({})",
            dir.changes.len() + 1,
            newest.len(),
            tell(&newest),
            wrong.len(),
            tell(&wrong)
        ))
    }

    /// The names of a directory after so many of its changes.
    pub fn names_at(&self, d: Id, state: usize) -> Names {
        let dir = self.dir(d);
        let mut names = dir.names.clone();
        for change in dir.changes[state..].iter().rev() {
            for (name, before, _) in change.edits.iter().rev() {
                match before {
                    Some(entry) => names.insert(name.clone(), *entry),
                    None => names.remove(name),
                };
            }
        }
        names
    }

    /// What was found is what there is, and durable.
    pub fn adopt(
        &mut self,
        dirs: Vec<(Id, Names, u64, Attrs)>,
        files: &BTreeMap<Id, (u64, Option<State>)>,
    ) {
        self.at_work = false;
        let page = self.page;
        for dir in self.dirs.values_mut() {
            dir.names.clear();
            dir.changes.clear();
        }
        for (d, names, ino, attrs) in dirs {
            for entry in names.values() {
                if let Entry::Dir(child) = entry {
                    self.dir_mut(*child).parent = d;
                }
            }
            let dir = self.dir_mut(d);
            dir.names = names;
            dir.ino = dir.ino.or(Some(ino));
            dir.attrs = vec![attrs];
        }
        for (&f, &(ino, state)) in files {
            let file = self.file_mut(f);
            file.ino = Some(ino);
            if let Some(state) = state {
                file.keep(state, page);
            }
        }
        self.forget();
    }
}

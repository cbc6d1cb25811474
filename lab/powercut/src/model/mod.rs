//! What a volume may show after a cut: `docs/guarantees.md` as a program.
//!
//! A directory goes through *versions*, one for each change of its names. After a cut it shows one
//! of them, not older than the last that was made durable: its *floor*. What an interrupted
//! operation does to two directories is seen in both or in none. A directory's attributes go
//! through versions of their own. A file shows, with size, contents and attributes together,
//! what it was after one of the changes since it was last made durable; of a write of many
//! pages, after each of them.

mod allow;
mod apply;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use flashkit_vfs::{FileKind, Time};

use crate::content::Content;
use crate::op::Op;
use crate::seen::{Attrs, Seen, SeenDir, What, Xattrs};

/// What a name refers to: an index into the model's files or directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(usize),
    Dir(usize),
}

type Names = BTreeMap<String, Entry>;

/// Values of something over time, with the number of the operation that made each.
#[derive(Clone)]
struct History<T> {
    versions: Vec<(usize, T)>,
    /// Older ones cannot be seen any more.
    floor: usize,
}

impl<T> History<T> {
    fn new(op: usize, first: T) -> History<T> {
        History {
            versions: vec![(op, first)],
            floor: 0,
        }
    }

    fn now(&self) -> &T {
        &self.versions[self.versions.len() - 1].1
    }

    fn push(&mut self, op: usize, value: T) {
        self.versions.push((op, value));
    }

    /// Only the present value can be seen from now on.
    fn settle(&mut self) {
        self.floor = self.versions.len() - 1;
    }

    /// Forgets what operation `op` has done.
    fn undo(&mut self, op: usize) {
        let kept = self
            .versions
            .iter()
            .position(|v| v.0 >= op)
            .unwrap_or(self.versions.len());
        self.versions.truncate(kept.max(1));
    }

    fn may_be_seen(&self) -> &[(usize, T)] {
        &self.versions[self.floor..]
    }
}

impl<T: Clone> History<T> {
    /// The value of operation `op`, made from the present one if there is none yet.
    fn change(&mut self, op: usize) -> &mut T {
        let last = self.versions.len() - 1;
        if self.versions[last].0 != op {
            let now = self.versions[last].1.clone();
            self.versions.push((op, now));
        }
        let last = self.versions.len() - 1;
        &mut self.versions[last].1
    }
}

struct Dir {
    names: History<Names>,
    attrs: History<Attrs>,
}

/// What a file shows.
#[derive(Clone, PartialEq, Eq)]
struct State {
    size: u64,
    digest: u64,
    attrs: Attrs,
}

struct File {
    what: What,
    content: Content,
    states: History<State>,
    /// Digests of all that a page has ever held.
    ever: HashMap<u32, HashSet<u64>>,
    users: usize,
}

/// See the module's text.
pub(crate) struct Model {
    dirs: Vec<Dir>,
    files: Vec<File>,
    open: VecDeque<usize>,
    /// Number of the operation at work, or of the last one.
    op: usize,
    at_work: bool,
    page_size: usize,
}

/// The timestamp of operation `op`.
pub(crate) fn time_of(op: usize) -> Time {
    Time {
        secs: op as i64,
        // Tags of 24 spare bytes say 256ths of a second.
        nanos: (op as u32).wrapping_mul(7) % 256 * 3_906_250,
    }
}

/// The attributes that operation `op` gives what it makes.
pub(crate) fn attrs_of(op: usize) -> Attrs {
    let now = time_of(op);
    Attrs {
        mode: 0o400 | (op % 0o400) as u16,
        uid: op as u32,
        gid: 2 * op as u32,
        atime: now,
        mtime: now,
        ctime: now,
        xattrs: Xattrs::default(),
    }
}

fn split(path: &str) -> (Vec<&str>, &str) {
    let mut names: Vec<&str> = path.split('/').filter(|n| !n.is_empty()).collect();
    let last = names.pop().unwrap_or("");
    (names, last)
}

impl Model {
    /// An empty volume.
    pub fn new(page_size: usize) -> Model {
        let epoch = Time::default();
        let attrs = Attrs {
            mode: 0o755,
            uid: 0,
            gid: 0,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            xattrs: Xattrs::default(),
        };
        Model {
            dirs: vec![Dir {
                names: History::new(0, Names::new()),
                attrs: History::new(0, attrs),
            }],
            files: Vec::new(),
            open: VecDeque::new(),
            op: 0,
            at_work: false,
            page_size,
        }
    }

    /// Begins anew from what was found. Operations go on being counted.
    pub fn rebase(&mut self, seen: &SeenDir) {
        let op = self.op;
        *self = Model::new(self.page_size);
        self.op = op;
        let mut known = HashMap::new();
        self.dirs.clear();
        self.adopt_dir(seen, &mut known);
    }

    fn adopt_dir(&mut self, seen: &SeenDir, known: &mut HashMap<u64, usize>) -> usize {
        let d = self.dirs.len();
        self.dirs.push(Dir {
            names: History::new(self.op, Names::new()),
            attrs: History::new(self.op, seen.attrs.clone()),
        });
        for (name, seen) in &seen.names {
            let entry = match seen {
                Seen::Dir(dir) => Entry::Dir(self.adopt_dir(dir, known)),
                Seen::File(file) => Entry::File(match known.get(&file.ino) {
                    Some(&f) => f,
                    None => {
                        let f = self.new_file(file.what, file.content.clone(), file.attrs.clone());
                        known.insert(file.ino, f);
                        f
                    }
                }),
            };
            self.dirs[d]
                .names
                .change(self.op)
                .insert(name.clone(), entry);
        }
        d
    }

    fn new_file(&mut self, what: What, content: Content, attrs: Attrs) -> usize {
        let mut ever: HashMap<u32, HashSet<u64>> = HashMap::new();
        for (index, digest) in content.pages() {
            ever.entry(index).or_default().insert(digest);
        }
        let state = State {
            size: content.size,
            digest: content.digest(),
            attrs,
        };
        let states = History::new(self.op, state);
        self.files.push(File {
            what,
            content,
            states,
            ever,
            users: 0,
        });
        self.files.len() - 1
    }

    /// The directory of a path's last name, that name, and what it refers to.
    fn find<'p>(&self, path: &'p str) -> Option<(usize, &'p str, Option<Entry>)> {
        let (above, name) = split(path);
        let mut dir = 0;
        for name in above {
            match self.dirs[dir].names.now().get(name) {
                Some(Entry::Dir(d)) => dir = *d,
                _ => return None,
            }
        }
        if name.is_empty() {
            return Some((0, "", Some(Entry::Dir(0))));
        }
        Some((dir, name, self.dirs[dir].names.now().get(name).copied()))
    }

    fn find_file(&self, path: &str) -> Option<usize> {
        match self.find(path)? {
            (_, _, Some(Entry::File(f))) => Some(f),
            _ => None,
        }
    }

    /// A regular file.
    fn find_regular(&self, path: &str) -> Option<usize> {
        self.find_file(path)
            .filter(|&f| self.files[f].what.0 == FileKind::File)
    }

    /// The number of the operation at work, which its bytes and times follow from.
    pub fn op(&self) -> usize {
        self.op
    }

    /// Notes what an operation will do; `false` when it makes no sense.
    pub fn begin(&mut self, op: &Op) -> bool {
        self.op += 1;
        self.at_work = self.plan(op).is_some();
        self.at_work
    }

    /// The operation has returned: what it promises to be durable is.
    pub fn finish(&mut self, op: &Op) {
        self.at_work = false;
        self.promise(op);
    }
}

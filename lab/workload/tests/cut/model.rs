//! What a volume may show after a cut.
//!
//! A directory goes through versions, one for each change of its names. After a cut it shows one
//! of them: not an older one than the last that was made durable (its floor). Names of files that
//! were never made durable may be missing. What an interrupted operation does to two directories
//! is seen in both or in none. A file shows what it held after one of its writes (of a write of
//! many pages, after each page), not before its last durable state.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::script::Op;

/// What a file holds: pages that are not all zero.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub size: u64,
    pub pages: BTreeMap<u32, (Rc<[u8]>, u64)>,
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Content {
    pub fn set_page(&mut self, index: u32, bytes: &[u8]) {
        if bytes.iter().all(|&b| b == 0) {
            self.pages.remove(&index);
        } else {
            self.pages.insert(index, (bytes.into(), hash_of(bytes)));
        }
    }

    pub fn digest(&self) -> u64 {
        let pages: Vec<(u32, u64)> = self.pages.iter().map(|(i, p)| (*i, p.1)).collect();
        hash_of((self.size, pages))
    }

    fn page(&self, index: u32, page_size: usize) -> Vec<u8> {
        match self.pages.get(&index) {
            Some((bytes, _)) => bytes.to_vec(),
            None => vec![0; page_size],
        }
    }
}

/// A tree as it was found; files with their inode numbers.
#[derive(Clone, Debug)]
pub enum Seen {
    File(u64, Content),
    Link(u64, Content),
    Dir(BTreeMap<String, Seen>),
}

impl Seen {
    /// All paths with digests.
    pub fn list(&self, at: &str, out: &mut Vec<String>) {
        match self {
            Seen::File(ino, c) => out.push(format!(
                "{at} file {ino} of {}, {:08x}",
                c.size,
                c.digest() as u32
            )),
            Seen::Link(ino, c) => out.push(format!(
                "{at} link {ino} of {}, {:08x}",
                c.size,
                c.digest() as u32
            )),
            Seen::Dir(names) => {
                out.push(format!("{at}/"));
                for (name, seen) in names {
                    seen.list(&format!("{at}/{name}"), out);
                }
            }
        }
    }

    pub fn text(&self) -> String {
        let mut out = Vec::new();
        self.list("", &mut out);
        out.join("\n  ")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(usize),
    Dir(usize),
}

type Names = BTreeMap<String, Entry>;

#[derive(Clone)]
struct Dir {
    /// With the number of the operation that made each.
    versions: Vec<(usize, Names)>,
    floor: usize,
}

struct File {
    link: bool,
    now: Content,
    states: Vec<(usize, u64)>,
    floor: usize,
    volatile: bool,
    ever: HashMap<u32, HashSet<u64>>,
    users: usize,
}

pub struct Model {
    dirs: Vec<Dir>,
    files: Vec<File>,
    open: VecDeque<usize>,
    /// Number of the operation at work, or of the last one.
    op: usize,
    at_work: bool,
    writes: u64,
    page_size: usize,
    /// Whether a name may be missing only together with all later changes of its directory.
    pub strict: bool,
}

/// The bytes that write number `n` puts at `offset`; never 0.
pub fn fill(n: u64, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64)
        .map(|at| {
            let x =
                (at ^ n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            ((x >> 40) % 255 + 1) as u8
        })
        .collect()
}

fn split(path: &str) -> (Vec<&str>, &str) {
    let mut names: Vec<&str> = path.split('/').filter(|n| !n.is_empty()).collect();
    let last = names.pop().unwrap_or("");
    (names, last)
}

impl Model {
    pub fn new(page_size: usize) -> Model {
        let root = Dir {
            versions: vec![(0, Names::new())],
            floor: 0,
        };
        Model {
            dirs: vec![root],
            files: Vec::new(),
            open: VecDeque::new(),
            op: 0,
            at_work: false,
            writes: 0,
            page_size,
            strict: false,
        }
    }

    /// Begins anew from what was found.
    pub fn rebase(&mut self, seen: &Seen) {
        let mut fresh = Model::new(self.page_size);
        fresh.strict = self.strict;
        fresh.writes = self.writes;
        let Seen::Dir(names) = seen else {
            unreachable!("the root is a directory")
        };
        fresh.adopt(0, names, &mut HashMap::new());
        *self = fresh;
    }

    fn adopt(
        &mut self,
        dir: usize,
        names: &BTreeMap<String, Seen>,
        known: &mut HashMap<u64, usize>,
    ) {
        for (name, seen) in names {
            let entry = match seen {
                Seen::File(ino, _) | Seen::Link(ino, _) if known.contains_key(ino) => {
                    Entry::File(known[ino])
                }
                Seen::File(ino, c) | Seen::Link(ino, c) => {
                    let f = self.new_file(matches!(seen, Seen::Link(..)));
                    known.insert(*ino, f);
                    self.files[f].now = c.clone();
                    self.files[f].states = vec![(0, c.digest())];
                    self.files[f].volatile = false;
                    for (i, page) in &c.pages {
                        self.files[f].ever.entry(*i).or_default().insert(page.1);
                    }
                    Entry::File(f)
                }
                Seen::Dir(below) => {
                    let d = self.new_dir();
                    self.adopt(d, below, known);
                    Entry::Dir(d)
                }
            };
            self.dirs[dir].versions[0].1.insert(name.clone(), entry);
        }
    }

    fn new_file(&mut self, link: bool) -> usize {
        let now = Content::default();
        self.files.push(File {
            link,
            states: vec![(self.op, now.digest())],
            now,
            floor: 0,
            volatile: true,
            ever: HashMap::new(),
            users: 0,
        });
        self.files.len() - 1
    }

    fn new_dir(&mut self) -> usize {
        self.dirs.push(Dir {
            versions: vec![(0, Names::new())],
            floor: 0,
        });
        self.dirs.len() - 1
    }

    fn names(&self, dir: usize) -> &Names {
        &self.dirs[dir].versions.last().unwrap().1
    }

    /// The directory of a path's last name, that name, and what it refers to.
    fn find<'p>(&self, path: &'p str) -> Option<(usize, &'p str, Option<Entry>)> {
        let (above, name) = split(path);
        let mut dir = 0;
        for name in above {
            match self.names(dir).get(name) {
                Some(Entry::Dir(d)) => dir = *d,
                _ => return None,
            }
        }
        if name.is_empty() {
            return Some((0, "", Some(Entry::Dir(0))));
        }
        Some((dir, name, self.names(dir).get(name).copied()))
    }

    pub fn file_of(&self, path: &str) -> Option<usize> {
        match self.find(path)? {
            (_, _, Some(Entry::File(f))) => Some(f),
            _ => None,
        }
    }

    /// The number that the next write's bytes depend on.
    pub fn next_write(&self) -> u64 {
        self.writes
    }

    fn change(&mut self, dir: usize, with: impl FnOnce(&mut Names)) {
        let op = self.op;
        let dir = &mut self.dirs[dir];
        if dir.versions.last().unwrap().0 != op {
            let last = dir.versions.last().unwrap().1.clone();
            dir.versions.push((op, last));
        }
        with(&mut dir.versions.last_mut().unwrap().1);
    }

    fn note(&mut self, f: usize) {
        let op = self.op;
        let file = &mut self.files[f];
        file.states.push((op, file.now.digest()));
    }

    fn put_page(&mut self, f: usize, index: u32, bytes: &[u8]) {
        let file = &mut self.files[f];
        file.now.set_page(index, bytes);
        if let Some(page) = file.now.pages.get(&index) {
            file.ever.entry(index).or_default().insert(page.1);
        }
    }

    pub fn write(&mut self, f: usize, offset: u64, len: usize) {
        let n = self.writes;
        self.writes += 1;
        let ps = self.page_size as u64;
        let end = offset + len as u64;
        let mut at = offset;
        while at < end {
            let index = (at / ps) as u32;
            let stop = end.min((u64::from(index) + 1) * ps);
            let mut page = self.files[f].now.page(index, self.page_size);
            let from = (at % ps) as usize;
            let piece = fill(n, at, (stop - at) as usize);
            page[from..from + piece.len()].copy_from_slice(&piece);
            self.put_page(f, index, &page);
            let size = self.files[f].now.size.max(stop);
            self.files[f].now.size = size;
            self.note(f);
            at = stop;
        }
    }

    fn truncate(&mut self, f: usize, size: u64) {
        let ps = self.page_size as u64;
        if size < self.files[f].now.size {
            let first = size.div_ceil(ps) as u32;
            self.files[f].now.pages.retain(|i, _| *i < first);
            let index = (size / ps) as u32;
            if !size.is_multiple_of(ps) && self.files[f].now.pages.contains_key(&index) {
                let mut page = self.files[f].now.page(index, self.page_size);
                page[(size % ps) as usize..].fill(0);
                self.put_page(f, index, &page);
            }
        }
        self.files[f].now.size = size;
        self.note(f);
    }

    fn is_below(&self, dir: usize, top: usize) -> bool {
        dir == top
            || self.names(top).values().any(|e| match e {
                Entry::Dir(d) => self.is_below(dir, *d),
                Entry::File(_) => false,
            })
    }

    /// What an operation will do; `false` when it makes no sense.
    pub fn begin(&mut self, op: &Op) -> bool {
        self.op += 1;
        self.at_work = self.plan(op).is_some();
        self.at_work
    }

    fn plan(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Create(p) | Op::Symlink(p, _) => {
                let (dir, name, None) = self.find(p)? else {
                    return None;
                };
                let f = self.new_file(matches!(op, Op::Symlink(..)));
                if let Op::Symlink(_, len) = op {
                    self.write(f, 0, *len);
                }
                self.change(dir, |names| {
                    names.insert(name.to_owned(), Entry::File(f));
                });
            }
            Op::Write(p, offset, len) => {
                let f = self.file_of(p).filter(|&f| !self.files[f].link)?;
                self.write(f, *offset, *len);
            }
            Op::Truncate(p, size) => {
                let f = self.file_of(p).filter(|&f| !self.files[f].link)?;
                self.truncate(f, *size);
            }
            Op::Link(p, q) => {
                let f = self.file_of(p)?;
                let (dir, name, None) = self.find(q)? else {
                    return None;
                };
                self.change(dir, |names| {
                    names.insert(name.to_owned(), Entry::File(f));
                });
            }
            Op::Unlink(p) => {
                let (dir, name, Some(Entry::File(_))) = self.find(p)? else {
                    return None;
                };
                self.change(dir, |names| {
                    names.remove(name);
                });
            }
            Op::Mkdir(p) => {
                let (dir, name, None) = self.find(p)? else {
                    return None;
                };
                let d = self.new_dir();
                self.change(dir, |names| {
                    names.insert(name.to_owned(), Entry::Dir(d));
                });
            }
            Op::Rmdir(p) => {
                let (dir, name, Some(Entry::Dir(d))) = self.find(p)? else {
                    return None;
                };
                if name.is_empty() || !self.names(d).is_empty() {
                    return None;
                }
                self.change(dir, |names| {
                    names.remove(name);
                });
            }
            Op::Rename(p, q) => {
                let (from, old, Some(source)) = self.find(p)? else {
                    return None;
                };
                let (to, new, target) = self.find(q)?;
                if matches!((source, target), (Entry::File(a), Some(Entry::File(b))) if a == b) {
                    return Some(());
                }
                let fits = match (source, target) {
                    (Entry::File(a), Some(Entry::File(b))) => a != b,
                    (Entry::File(_), None) => true,
                    (Entry::Dir(a), Some(Entry::Dir(b))) => {
                        a != b && self.names(b).is_empty() && !self.is_below(to, a)
                    }
                    (Entry::Dir(a), None) => !self.is_below(to, a),
                    _ => false,
                };
                if old.is_empty() || new.is_empty() || !fits {
                    return None;
                }
                self.change(from, |names| {
                    names.remove(old);
                });
                self.change(to, |names| {
                    names.insert(new.to_owned(), source);
                });
            }
            Op::Open(p) => {
                let f = self.file_of(p).filter(|&f| !self.files[f].link)?;
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
            Op::Sync | Op::Gc => {}
            Op::Remount => {
                self.open.clear();
                for file in &mut self.files {
                    file.users = 0;
                }
            }
        }
        Some(())
    }

    fn settle(&mut self, f: usize) {
        let file = &mut self.files[f];
        file.floor = file.states.len() - 1;
        file.volatile = false;
    }

    fn settle_dir(&mut self, dir: usize) {
        self.dirs[dir].floor = self.dirs[dir].versions.len() - 1;
    }

    /// A name of a file is durable, with what its directory was when it came.
    fn settle_name(&mut self, path: &str, f: usize) {
        let Some((dir, name, Some(_))) = self.find(path) else {
            return;
        };
        let name = name.to_owned();
        let d = &mut self.dirs[dir];
        let mut k = d.versions.len() - 1;
        while k > 0 && d.versions[k - 1].1.get(&name) == Some(&Entry::File(f)) {
            k -= 1;
        }
        d.floor = d.floor.max(k);
    }

    /// Whether a file has a name.
    fn has_names(&self, f: usize) -> bool {
        (0..self.dirs.len()).any(|d| self.names(d).values().any(|e| *e == Entry::File(f)))
    }

    /// The operation has returned: what it promises to be durable is.
    pub fn finish(&mut self, op: &Op) {
        self.at_work = false;
        match op {
            Op::Mkdir(p) | Op::Rmdir(p) => {
                let (dir, ..) = self.find(p).unwrap();
                self.settle_dir(dir);
            }
            Op::Link(p, q) => {
                let (to, _, entry) = self.find(q).unwrap();
                self.settle_dir(to);
                if let Some(Entry::File(f)) = entry {
                    self.settle(f);
                    self.settle_name(p, f);
                }
            }
            Op::Rename(p, q) if self.file_of(p).is_some() => {
                // Two names of one file: nothing has happened.
                debug_assert_eq!(self.file_of(p), self.file_of(q));
            }
            Op::Rename(p, q) => {
                let (to, _, entry) = self.find(q).unwrap();
                self.settle_dir(to);
                if let Some(Entry::File(f)) = entry {
                    self.settle(f);
                }
                // The old path may lead through what was renamed.
                if let Some((from, ..)) = self.find(p) {
                    self.settle_dir(from);
                }
            }
            Op::Unlink(p) => {
                let (dir, name, _) = self.find(p).unwrap();
                let versions = &self.dirs[dir].versions;
                let before = versions[versions.len() - 2].1.get(name).copied();
                if let Some(Entry::File(f)) = before
                    && (self.files[f].users > 0 || self.has_names(f))
                {
                    self.settle_dir(dir);
                    self.settle(f);
                }
            }
            Op::Fsync(p) => match self.find(p) {
                Some((_, _, Some(Entry::File(f)))) => {
                    self.settle(f);
                    self.settle_name(p, f);
                }
                Some((_, _, Some(Entry::Dir(d)))) => {
                    self.settle_dir(d);
                    let files: Vec<Entry> = self.names(d).values().copied().collect();
                    for entry in files {
                        if let Entry::File(f) = entry {
                            self.files[f].volatile = false;
                        }
                    }
                }
                _ => {}
            },
            Op::Sync | Op::Remount => {
                for f in 0..self.files.len() {
                    self.settle(f);
                }
                for d in 0..self.dirs.len() {
                    self.settle_dir(d);
                }
            }
            _ => {}
        }
    }

    /// The operation has failed for lack of space: only whole pages of a write count.
    pub fn fail(&mut self, op: &Op, found: Option<Content>) {
        self.at_work = false;
        for dir in &mut self.dirs {
            if dir.versions.len() > 1 && dir.versions.last().unwrap().0 == self.op {
                dir.versions.pop();
            }
        }
        if let (Op::Write(p, ..) | Op::Truncate(p, _), Some(found)) = (op, found) {
            let f = self.file_of(p).unwrap();
            let digest = found.digest();
            let file = &mut self.files[f];
            let k = file.states.iter().rposition(|s| s.1 == digest);
            let k = k.expect("a failed write leaves whole pages");
            file.states.truncate(k + 1);
            file.now = found;
        }
    }

    /// Whether a tree is one of those that may be seen now.
    pub fn allows(&self, seen: &Seen) -> Result<(), String> {
        let Seen::Dir(names) = seen else {
            return Err("the root is no directory".into());
        };
        let before = self.match_dir(0, names, "", false, &mut Vec::new());
        if before.is_ok() || !self.at_work {
            return before;
        }
        match (before, self.match_dir(0, names, "", true, &mut Vec::new())) {
            (Err(a), Err(b)) if a != b => Err(format!("{b}\n  (or before the operation: {a})")),
            (_, result) => result,
        }
    }

    fn match_dir(
        &self,
        d: usize,
        seen: &BTreeMap<String, Seen>,
        at: &str,
        applied: bool,
        known: &mut Vec<(usize, u64)>,
    ) -> Result<(), String> {
        let dir = &self.dirs[d];
        let (mut lo, mut hi) = (dir.floor, dir.versions.len() - 1);
        if self.at_work && dir.versions[hi].0 == self.op && hi > 0 {
            if applied {
                lo = hi;
            } else {
                hi -= 1;
            }
        }
        let mut first = None;
        for k in (lo..=hi).rev() {
            let before = known.len();
            match self.match_names(&dir.versions[k].1, seen, at, applied, known) {
                Ok(()) => return Ok(()),
                Err(e) => first = first.or(Some(e)),
            }
            known.truncate(before);
        }
        Err(format!(
            "{} (versions {lo} to {hi} of {at}/)",
            first.unwrap_or_default()
        ))
    }

    fn match_names(
        &self,
        names: &Names,
        seen: &BTreeMap<String, Seen>,
        at: &str,
        applied: bool,
        known: &mut Vec<(usize, u64)>,
    ) -> Result<(), String> {
        for (name, entry) in names {
            let path = format!("{at}/{name}");
            match (entry, seen.get(name)) {
                (Entry::File(f), None) if self.files[*f].volatile && !self.strict => {}
                (Entry::File(_), None) => return Err(format!("file lost: {path}")),
                (Entry::Dir(_), None) => return Err(format!("directory lost: {path}")),
                (Entry::File(f), Some(Seen::File(ino, c) | Seen::Link(ino, c))) => {
                    let link = matches!(seen.get(name), Some(Seen::Link(..)));
                    if link != self.files[*f].link {
                        return Err(format!("wrong kind: {path}"));
                    }
                    // The same file by all its names, and by no other.
                    if known.iter().any(|(g, i)| (g == f) != (i == ino)) {
                        return Err(format!("another file's name: {path}"));
                    }
                    known.push((*f, *ino));
                    self.match_file(*f, c).map_err(|e| format!("{e}: {path}"))?;
                }
                (Entry::Dir(d), Some(Seen::Dir(below))) => {
                    self.match_dir(*d, below, &path, applied, known)?;
                }
                _ => return Err(format!("wrong kind: {path}")),
            }
        }
        match seen.keys().find(|name| !names.contains_key(*name)) {
            Some(name) => Err(format!("should not be there: {at}/{name}")),
            None => Ok(()),
        }
    }

    fn match_file(&self, f: usize, seen: &Content) -> Result<(), String> {
        let file = &self.files[f];
        let digest = seen.digest();
        if file.states[file.floor..].iter().any(|s| s.1 == digest) {
            return Ok(());
        }
        let older = file.states.iter().rposition(|s| s.1 == digest);
        if let Some(k) = older {
            return Err(format!(
                "file is back at state {k}, durable was {} of {}",
                file.floor,
                file.states.len() - 1
            ));
        }
        let foreign = seen
            .pages
            .iter()
            .find(|(i, p)| !file.ever.get(i).is_some_and(|e| e.contains(&p.1)));
        if let Some((index, (bytes, _))) = foreign {
            let known = self
                .files
                .iter()
                .position(|o| o.ever.values().any(|e| e.contains(&hash_of(&bytes[..]))));
            return Err(format!(
                "file shows foreign bytes (page {index}, of file {known:?}, size {}, expected {})",
                seen.size, file.now.size
            ));
        }
        Err(format!(
            "file shows a mixture of its states (size {}, expected {})",
            seen.size, file.now.size
        ))
    }
}

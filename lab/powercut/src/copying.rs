//! Copying a tree, and going on with it for ever: what is there already is removed, renamed, linked
//! or written anew.

use std::collections::{BTreeSet, VecDeque};

use flashkit_sim::Rng;

use crate::op::{Op, Piece};
use crate::seen::{Seen, SeenDir};
use crate::tree::{Tree, TreeFile};

/// Names for renamed files, for second names of files, and for renamed directories.
const MOVED: u64 = 40;
const LINKED: u64 = 20;
const AWAY: u64 = 2;

/// Bytes that are written at once, at most.
const PIECE_MAX: u64 = 24 * 1024;

/// The directory of a path; empty at the top.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// Operations without end.
pub(crate) struct Copying<'t> {
    tree: &'t Tree,
    rng: Rng,
    /// The file that is copied next.
    next: usize,
    files: BTreeSet<String>,
    dirs: BTreeSet<String>,
    /// Operations drawn and not yet given.
    queue: VecDeque<Op>,
}

impl<'t> Copying<'t> {
    pub fn new(tree: &'t Tree, seed: u64) -> Copying<'t> {
        Copying {
            tree,
            rng: Rng::keyed(seed, 10),
            next: 0,
            files: BTreeSet::new(),
            dirs: BTreeSet::new(),
            queue: VecDeque::new(),
        }
    }

    /// Goes on with what is there.
    pub fn rebase(&mut self, seen: &SeenDir) {
        self.queue.clear();
        self.files.clear();
        self.dirs.clear();
        self.adopt(seen, "");
    }

    fn adopt(&mut self, dir: &SeenDir, at: &str) {
        for (name, seen) in &dir.names {
            let path = format!("{at}{name}");
            match seen {
                Seen::File(_) => {
                    self.files.insert(path);
                }
                Seen::Dir(below) => {
                    self.adopt(below, &format!("{path}/"));
                    self.dirs.insert(path);
                }
            }
        }
    }

    fn any(&mut self, dirs: bool) -> Option<String> {
        let all = if dirs { &self.dirs } else { &self.files };
        let n = self.rng.below(all.len().max(1) as u64) as usize;
        all.iter().nth(n).cloned()
    }

    fn make_dirs(&mut self, dir: &str) {
        if !dir.is_empty() && !self.dirs.contains(dir) {
            self.make_dirs(parent(dir));
            self.queue.push_back(Op::Mkdir(dir.to_owned()));
            self.dirs.insert(dir.to_owned());
        }
    }

    fn unlink(&mut self, path: &str) {
        if self.files.remove(path) {
            self.queue.push_back(Op::Unlink(path.to_owned()));
        }
    }

    /// Copies a file to a path: in pieces, over what is there, mostly with an fsync.
    fn copy(&mut self, source: &TreeFile, to: &str) {
        self.make_dirs(parent(to));
        self.queue.push_back(if self.files.contains(to) {
            Op::Truncate(to.to_owned(), 0)
        } else {
            Op::Create(to.to_owned())
        });
        self.files.insert(to.to_owned());
        let (mut at, len) = (0, source.bytes.len());
        while at < len {
            let end = len.min(at + 1 + self.rng.below(PIECE_MAX) as usize);
            let piece = Piece {
                file: source.bytes.clone(),
                range: at..end,
            };
            self.queue.push_back(Op::Copy(to.to_owned(), piece));
            at = end;
        }
        if !self.rng.one_in(8) {
            self.queue.push_back(Op::Fsync(to.to_owned()));
        }
    }

    fn copy_next(&mut self) {
        let Some(source) = self.tree.files.get(self.next) else {
            return;
        };
        self.next = (self.next + 1) % self.tree.files.len();
        if !self.rng.one_in(6) {
            return self.copy(source, &source.path);
        }
        // As editors do it.
        let beside = format!("{}~", source.path);
        self.copy(source, &beside);
        self.queue.push_back(Op::Fsync(beside.clone()));
        self.rename(&beside, &source.path);
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.queue
            .push_back(Op::Rename(from.to_owned(), to.to_owned()));
        self.files.remove(from);
        self.files.insert(to.to_owned());
    }

    /// Removes a directory with all that is in it.
    fn remove_all(&mut self, dir: &str) {
        let below = format!("{dir}/");
        let is_below = |path: &&String| path.starts_with(&below);
        let files: Vec<String> = self.files.iter().filter(is_below).cloned().collect();
        let dirs: Vec<String> = self.dirs.iter().filter(is_below).cloned().collect();
        files.iter().for_each(|file| self.unlink(file));
        // The inner ones first.
        for dir in dirs.iter().rev().map(String::as_str).chain([dir]) {
            self.queue.push_back(Op::Rmdir(dir.to_owned()));
            self.dirs.remove(dir);
        }
    }

    /// Renames a directory; when all places for such are taken, removes the one there.
    fn put_away(&mut self, dir: &str) {
        let to = format!("away/{}", self.rng.below(AWAY));
        if self.dirs.contains(&to) {
            return self.remove_all(&to);
        }
        if to.starts_with(&format!("{dir}/")) || dir.starts_with("away/") {
            return;
        }
        self.make_dirs("away");
        self.queue.push_back(Op::Rename(dir.to_owned(), to.clone()));
        let moved = |paths: &mut BTreeSet<String>| {
            let renamed = |path: String| match path.strip_prefix(dir) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
                _ => path,
            };
            *paths = std::mem::take(paths).into_iter().map(renamed).collect();
        };
        moved(&mut self.files);
        moved(&mut self.dirs);
    }

    fn draw(&mut self) {
        let what = self.rng.below(100);
        let Some(file) = self.any(false).filter(|_| what >= 70) else {
            return self.copy_next();
        };
        match what {
            70..=81 => self.unlink(&file),
            // A second name is not renamed: over another name of its file, that would do nothing.
            82..=87 if !file.starts_with("linked/") => {
                let to = format!("moved/{}", self.rng.below(MOVED));
                self.make_dirs("moved");
                if to != file {
                    self.rename(&file, &to);
                }
            }
            88..=91 => {
                let to = format!("linked/{}", self.rng.below(LINKED));
                self.make_dirs("linked");
                self.unlink(&to);
                if to != file {
                    self.queue.push_back(Op::Link(file, to.clone()));
                    self.files.insert(to);
                }
            }
            92..=93 => {
                if let Some(dir) = self.any(true) {
                    self.put_away(&dir);
                }
            }
            94..=95 => self.queue.push_back(Op::Sync),
            96 => {
                if let Some(dir) = self.any(true) {
                    self.queue.push_back(Op::Fsync(dir));
                }
            }
            97 => self.queue.push_back(Op::Gc),
            98 => self.queue.push_back(Op::Remount),
            _ => self.queue.push_back(Op::Chmod(file, 0o640)),
        }
    }
}

impl Iterator for Copying<'_> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if self.tree.files.is_empty() {
            return None;
        }
        loop {
            if let Some(op) = self.queue.pop_front() {
                return Some(op);
            }
            self.draw();
        }
    }
}

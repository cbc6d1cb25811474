//! Operations on names: making, removing, renaming, listing.

use std::collections::BTreeSet;

use flashkit_vfs::{Error, FileKind, FileSystem, Ino};

use super::choose::{Kind, show};
use super::driver::{Driver, Node};
use super::ops::Done;

/// Names that a file can have in any file system with hard links.
/// With few hashes two of one directory soon share theirs, which a file's names must not.
const LINKS_AT_LEAST: usize = if cfg!(feature = "few-hashes") { 1 } else { 64 };
/// Directories nest no deeper.
const DEPTH_MAX: usize = 40;

impl Driver<'_> {
    /// A directory to put something into.
    pub(super) fn pick_dir(&mut self) -> Ino {
        let (root, draw) = (self.model.root(), self.rng.below(100));
        if draw < self.swarm.deep && self.depth(self.last_dir) < DEPTH_MAX {
            self.last_dir
        } else if draw < self.swarm.deep + self.swarm.wide {
            root
        } else {
            self.pick(FileKind::Dir, true).unwrap_or(root)
        }
    }

    /// Anything but the root that has a name.
    pub(super) fn pick_named(&mut self) -> Option<Ino> {
        let root = self.model.root();
        let named = |ino: &&Ino| **ino != root && !self.orphans.contains(ino);
        let found: Vec<Ino> = self.nodes.keys().filter(named).copied().collect();
        self.rng.pick(&found).copied()
    }

    fn depth(&self, mut dir: Ino) -> usize {
        let mut depth = 0;
        while self.parent(dir) != dir {
            dir = self.parent(dir);
            depth += 1;
        }
        depth
    }

    /// The directory that holds a directory.
    pub(super) fn parent(&self, dir: Ino) -> Ino {
        self.nodes[&dir].names[0].0
    }

    /// One of the names of an inode that has any.
    pub(super) fn any_name(&mut self, ino: Ino) -> (Ino, Vec<u8>) {
        let names = &self.nodes[&ino].names;
        let n = self.rng.below(names.len() as u64) as usize;
        names[n].clone()
    }

    fn is_within(&self, mut dir: Ino, above: Ino) -> bool {
        while dir != above && self.parent(dir) != dir {
            dir = self.parent(dir);
        }
        dir == above
    }

    pub(super) fn at(&self, dir: Ino, name: &[u8]) -> String {
        format!("{} {}", self.path(dir), show(name))
    }

    pub(super) fn make(&mut self, kind: Kind) -> Done {
        if self.nodes.len() as u64 >= self.run.objects {
            return if self.rng.one_in(3) {
                self.rmdir()
            } else {
                self.unlink_any()
            };
        }
        let (dir, name) = (self.pick_dir(), self.swarm.name(&mut self.rng));
        self.make_in(kind, dir, name)
    }

    fn make_in(&mut self, kind: Kind, dir: Ino, name: Vec<u8>) -> Done {
        let new = self.new_inode();
        let at = self.touch(dir)?;
        let len = if self.rng.one_in(5) { 1000 } else { 60 };
        let link: Vec<u8> = (0..self.rng.between(1, len))
            .map(|i| b'!' + (i % 90) as u8)
            .collect();
        let special = match self.rng.below(4) {
            0 => (FileKind::Fifo, 0),
            1 => (FileKind::Socket, 0),
            2 => (FileKind::Char, self.rng.below(1 << 32) as u32),
            _ => (FileKind::Block, self.rng.below(1 << 32) as u32),
        };
        self.say(format!("{kind:?} {}", self.at(dir, &name)));
        let fs = self.target.fs();
        let (is, kind) = match kind {
            Kind::Mkdir => (fs.mkdir(at, &name, &new), FileKind::Dir),
            Kind::Symlink => (fs.symlink(at, &name, &link, &new), FileKind::Symlink),
            Kind::Mknod => (fs.mknod(at, &name, special.0, special.1, &new), special.0),
            _ => (fs.create(at, &name, &new), FileKind::File),
        };
        if self.was_full(&is) {
            return Ok(());
        }
        let due = match kind {
            FileKind::Dir => self.model.mkdir(dir, &name, &new),
            FileKind::Symlink => self.model.symlink(dir, &name, &link, &new),
            FileKind::File => self.model.create(dir, &name, &new),
            kind => self.model.mknod(dir, &name, kind, special.1, &new),
        };
        if let Some((ino, target)) = self.agree_attr(due, is, true)? {
            let node = Node {
                target,
                kind,
                names: vec![(dir, name)],
                users: 0,
                known: true,
            };
            self.nodes.insert(ino, node);
            if kind == FileKind::Dir {
                self.last_dir = ino;
            }
        }
        Ok(())
    }

    pub(super) fn unlink_any(&mut self) -> Done {
        let first = match self.rng.below(16) {
            0..=3 => FileKind::Symlink,
            4 => FileKind::Fifo,
            5 => FileKind::Char,
            6 => FileKind::Block,
            7 => FileKind::Socket,
            _ => FileKind::File,
        };
        let found = self
            .pick(first, true)
            .or_else(|| self.pick(FileKind::File, true));
        let Some(ino) = found else {
            return Ok(());
        };
        let (dir, name) = self.any_name(ino);
        self.unlink(ino, dir, &name)
    }

    pub(super) fn unlink(&mut self, ino: Ino, dir: Ino, name: &[u8]) -> Done {
        let (at, now, size) = (self.touch(dir)?, self.now(), self.file_size(ino));
        self.say(format!("unlink {}", self.at(dir, name)));
        let is = self.target.fs().unlink(at, name, now);
        if self.was_full(&is) {
            return Ok(());
        }
        let due = self.model.unlink(dir, name, now);
        if self.agree(&due, &is)? {
            self.dropped(ino, size, dir, name);
        }
        Ok(())
    }

    pub(super) fn rmdir(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::Dir, true) else {
            return Ok(());
        };
        if ino == self.model.root() || self.nodes[&ino].users > 0 {
            return Ok(());
        }
        let (dir, name) = self.any_name(ino);
        let (at, now) = (self.touch(dir)?, self.now());
        self.say(format!("rmdir {}", self.at(dir, &name)));
        let is = self.target.fs().rmdir(at, &name, now);
        if self.was_full(&is) {
            return Ok(());
        }
        let due = self.model.rmdir(dir, &name, now);
        if self.agree(&due, &is)? {
            self.dropped(ino, 0, dir, &name);
        }
        Ok(())
    }

    pub(super) fn rename(&mut self) -> Done {
        let Some(ino) = self.pick_named() else {
            return Ok(());
        };
        let is_dir = self.nodes[&ino].kind == FileKind::Dir;
        let (from_dir, from) = self.any_name(ino);
        let (mut to_dir, mut to) = (self.pick_dir(), self.swarm.name(&mut self.rng));
        if self.rng.one_in(3)
            && let Some(other) = self.pick_named()
        {
            (to_dir, to) = self.any_name(other);
        }
        let no_replace = self.rng.one_in(6);
        let old = self.model.lookup(to_dir, &to).ok().map(|attr| attr.ino);
        let within = is_dir && self.is_within(to_dir, ino);
        if let Some(old) = old {
            // Two faults at once, or an open directory that goes.
            let above = self.is_within(from_dir, old);
            let open_dir = self.nodes[&old].kind == FileKind::Dir && self.nodes[&old].users > 0;
            let same = (from_dir, &from) == (to_dir, &to);
            if within || above || open_dir || no_replace && same {
                return Ok(());
            }
        }
        let deep = self.depth(to_dir) + if is_dir { self.height(ino) } else { 0 };
        if deep > DEPTH_MAX && !within {
            return Ok(());
        }
        let (a, b, now) = (self.touch(from_dir)?, self.touch(to_dir)?, self.now());
        let old_size = old.map_or(0, |old| self.file_size(old));
        let how = if no_replace { " without replacing" } else { "" };
        self.say(format!(
            "rename {} to {}{how}",
            self.at(from_dir, &from),
            self.at(to_dir, &to)
        ));
        let is = self.target.fs().rename(a, &from, b, &to, no_replace, now);
        // A longer name may find no room beside so many others; the model has no limit.
        let held = self.nodes[&ino].names.len();
        if self.was_full(&is) || held >= LINKS_AT_LEAST && is == Err(Error::TooManyLinks) {
            return Ok(());
        }
        let due = self
            .model
            .rename(from_dir, &from, to_dir, &to, no_replace, now);
        // From one name of a file to another, nothing happens.
        if self.agree(&due, &is)? && old != Some(ino) {
            if let Some(old) = old {
                self.dropped(old, old_size, to_dir, &to);
            }
            let names = self.nodes.get_mut(&ino).map(|node| &mut node.names);
            for held in names.into_iter().flatten() {
                if (held.0, &held.1) == (from_dir, &from) {
                    *held = (to_dir, to.clone());
                }
            }
        }
        Ok(())
    }

    pub(super) fn exchange(&mut self) -> Done {
        let (Some(one), Some(other)) = (self.pick_named(), self.pick_named()) else {
            return Ok(());
        };
        let (one_at, other_at) = (self.any_name(one), self.any_name(other));
        let held = self.nodes[&one]
            .names
            .len()
            .max(self.nodes[&other].names.len());
        for (ino, to) in [(one, other_at.0), (other, one_at.0)] {
            let is_dir = self.nodes[&ino].kind == FileKind::Dir;
            let deep = self.depth(to) + if is_dir { self.height(ino) } else { 0 };
            if deep > DEPTH_MAX && !(is_dir && self.is_within(to, ino)) {
                return Ok(());
            }
        }
        let (a, b, now) = (self.touch(one_at.0)?, self.touch(other_at.0)?, self.now());
        self.say(format!(
            "exchange {} and {}",
            self.at(one_at.0, &one_at.1),
            self.at(other_at.0, &other_at.1)
        ));
        let is = self.target.fs().exchange(a, &one_at.1, b, &other_at.1, now);
        // As for a rename.
        if self.was_full(&is) || held >= LINKS_AT_LEAST && is == Err(Error::TooManyLinks) {
            return Ok(());
        }
        let due = self
            .model
            .exchange(one_at.0, &one_at.1, other_at.0, &other_at.1, now);
        if self.agree(&due, &is)? && one != other {
            for (ino, from, to) in [(one, &one_at, &other_at), (other, &other_at, &one_at)] {
                let names = self.nodes.get_mut(&ino).map(|node| &mut node.names);
                for held in names.into_iter().flatten().filter(|held| *held == from) {
                    *held = to.clone();
                }
            }
        }
        Ok(())
    }

    /// One more name for a file or symbolic link; often for the one that has the most.
    pub(super) fn link(&mut self) -> Done {
        let named = |node: &Node| node.kind != FileKind::Dir && !node.names.is_empty();
        let names: usize = self.nodes.values().map(|node| node.names.len()).sum();
        if names as u64 >= 3 * self.run.objects {
            return self.unlink_any();
        }
        let nodes = self.nodes.iter().filter(|(_, node)| named(node));
        let found = if self.rng.below(100) < self.swarm.hub {
            nodes.max_by_key(|(_, node)| node.names.len()).map(|n| *n.0)
        } else {
            let all: Vec<Ino> = nodes.map(|n| *n.0).collect();
            self.rng.pick(&all).copied()
        };
        let Some(ino) = found else {
            return Ok(());
        };
        let (dir, name) = (self.pick_dir(), self.swarm.name(&mut self.rng));
        let (at, above, now) = (self.touch(ino)?, self.touch(dir)?, self.now());
        let held = self.nodes[&ino].names.len();
        self.say(format!(
            "link {} ({held} names) to {}",
            self.path(ino),
            self.at(dir, &name)
        ));
        let is = self.target.fs().link(at, above, &name, now);
        // The model has no limit.
        if self.was_full(&is) || held >= LINKS_AT_LEAST && is == Err(Error::TooManyLinks) {
            return Ok(());
        }
        let due = self.model.link(ino, dir, &name, now);
        if self.agree_attr(due, is, false)?.is_some()
            && let Some(node) = self.nodes.get_mut(&ino)
        {
            node.names.push((dir, name));
        }
        Ok(())
    }

    /// Levels of a directory tree.
    fn height(&self, top: Ino) -> usize {
        let dirs = self
            .nodes
            .iter()
            .filter(|(ino, node)| node.kind == FileKind::Dir && self.is_within(**ino, top));
        let depth = self.depth(top);
        dirs.map(|(ino, _)| self.depth(*ino) + 1 - depth)
            .max()
            .unwrap_or(1)
    }

    pub(super) fn list(&mut self) -> Done {
        let dir = self.pick_dir();
        let batch = self.rng.between(1, 30) as usize;
        self.say(format!("list {} by {batch}", self.path(dir)));
        self.compare_names(dir, batch).map(drop)
    }

    /// Lists a directory that changes meanwhile: what stays must come exactly once.
    pub(super) fn list_across(&mut self) -> Done {
        let dir = self.pick_dir();
        let at = self.touch(dir)?;
        let before = self.model_names(dir)?;
        self.say(format!("list {} with changes", self.path(dir)));
        let (mut seen, mut gone, mut cookie) = (Vec::new(), BTreeSet::new(), 0);
        loop {
            let batch = self.rng.between(1, 10) as usize;
            let entries = self.target_batch(at, cookie, batch)?;
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            seen.extend(entries.into_iter().map(|entry| entry.name));
            if seen.len() > 4 * self.run.objects as usize + 100 {
                return Err("the listing does not end".into());
            }
            // Few changes, or the listing of a growing directory would never end.
            if self.rng.one_in(2) && gone.len() < 20 {
                gone.insert(self.change_in(dir)?);
            }
        }
        let after = self.model_names(dir)?;
        for (name, held) in &before {
            let times = seen.iter().filter(|other| *other == name).count();
            let stayed = after.get(name) == Some(held) && !gone.contains(name);
            if stayed && times != 1 {
                return Err(format!("{} stayed and came {times} times", show(name)));
            }
        }
        let known = |name: &Vec<u8>| before.contains_key(name) || gone.contains(name);
        match seen.iter().find(|name| !known(name)) {
            Some(name) => Err(format!("{} came and was never there", show(name))),
            None => Ok(()),
        }
    }

    /// Adds a name to a directory or removes one; returns it.
    fn change_in(&mut self, dir: Ino) -> Result<Vec<u8>, String> {
        let files = self.nodes.iter().filter(|n| n.1.kind == FileKind::File);
        let names = files.flat_map(|(ino, node)| node.names.iter().map(|name| (*ino, name)));
        let here = names.filter(|(_, name)| name.0 == dir);
        let files: Vec<(Ino, Vec<u8>)> = here.map(|(ino, name)| (ino, name.1.clone())).collect();
        let room = (self.nodes.len() as u64) < self.run.objects;
        match self.rng.pick(&files).cloned() {
            Some((ino, name)) if !room || self.rng.one_in(2) => {
                self.unlink(ino, dir, &name)?;
                Ok(name)
            }
            _ => {
                let name = self.swarm.name(&mut self.rng);
                if room {
                    self.make_in(Kind::Create, dir, name.clone())?;
                }
                Ok(name)
            }
        }
    }

    pub(super) fn lookup(&mut self) -> Done {
        let (mut dir, mut name) = (self.pick_dir(), self.swarm.name(&mut self.rng));
        if self.rng.one_in(2)
            && let Some(ino) = self.pick_named()
        {
            (dir, name) = self.any_name(ino);
        }
        let at = self.touch(dir)?;
        self.say(format!("lookup {}", self.at(dir, &name)));
        let (is, due) = (
            self.target.fs().lookup(at, &name),
            self.model.lookup(dir, &name),
        );
        if let Some((ino, _)) = self.agree_attr(due, is, false)?
            && let Some(node) = self.nodes.get_mut(&ino)
        {
            node.known = true;
        }
        Ok(())
    }
}

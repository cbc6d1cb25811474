//! The lockstep: state shared by all operations, and the loop.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use flashkit_vfs::{Attr, Error, FileKind, FileSystem, Ino, MemoryFs, NewInode, Time};

use super::choose::{Swarm, show};
use super::compare::attr_differs;
use super::{Failure, ModelRun, Stats, Target, number_of};
use crate::rng::Rng;

/// Operations that a failure shows.
const LOG_LEN: usize = 12;

/// An inode that both sides have, by its number in the model.
pub(super) struct Node {
    /// Its number in the file system under test.
    pub target: Ino,
    pub kind: FileKind,
    /// Its names, each with the directory; one of a directory, none of an orphan.
    pub names: Vec<(Ino, Vec<u8>)>,
    /// Users noted by open.
    pub users: u32,
    /// Whether the number was looked up since the mount and not forgotten.
    pub known: bool,
}

pub(super) struct Driver<'a> {
    pub run: &'a ModelRun,
    pub rng: Rng,
    pub swarm: Swarm,
    pub model: MemoryFs,
    pub target: &'a mut dyn Target,
    /// Everything that exists; a `BTreeMap`, so that choices do not depend on hashing.
    pub nodes: BTreeMap<Ino, Node>,
    /// What is open and has no name.
    pub orphans: Vec<Ino>,
    /// The directory made last.
    pub last_dir: Ino,
    /// Bytes of all files together.
    pub used: u64,
    /// The file system said that it was full; make room first.
    pub pressed: bool,
    pub stats: Stats,
    pub op: u64,
    seconds: i64,
    log: VecDeque<String>,
    print: bool,
}

/// Runs; see [`ModelRun::run`].
pub(super) fn run(run: &ModelRun, target: &mut dyn Target) -> Result<Stats, Failure> {
    let mut driver = Driver::new(run, target);
    let end = number_of("FLASHKIT_MODEL_OPS").map_or(run.ops, |ops| ops.min(run.ops));
    let mut done = driver.start();
    while done.is_ok() && driver.op < end {
        driver.op += 1;
        done = driver.step();
    }
    done.and_then(|()| driver.end()).map_err(|what| Failure {
        seed: run.seed,
        op: driver.op,
        what,
        log: driver.log.iter().cloned().collect(),
        command: format!(
            "FLASHKIT_MODEL_SEED={} FLASHKIT_MODEL_OPS={} cargo test {}",
            run.seed, driver.op, run.test
        ),
    })?;
    driver.stats.ops = driver.op;
    driver.stats.objects = driver.nodes.len() as u64;
    Ok(driver.stats)
}

impl<'a> Driver<'a> {
    fn new(run: &'a ModelRun, target: &'a mut dyn Target) -> Self {
        let mut rng = Rng::new(run.seed);
        let model = MemoryFs::with_capacity(1 << 40);
        let root = model.root();
        Driver {
            run,
            swarm: Swarm::new(&mut rng),
            rng,
            model,
            target,
            nodes: BTreeMap::new(),
            orphans: Vec::new(),
            last_dir: root,
            used: 0,
            pressed: false,
            stats: Stats::default(),
            op: 0,
            seconds: 1_000_000_000,
            log: VecDeque::new(),
            print: std::env::var_os("FLASHKIT_MODEL_LOG").is_some(),
        }
    }

    /// Enters the roots, which must be empty, and gives them the same attributes.
    fn start(&mut self) -> Result<(), String> {
        let (ino, target) = (self.model.root(), self.target.fs().root());
        let root = Node {
            target,
            kind: FileKind::Dir,
            names: vec![(ino, Vec::new())],
            users: 0,
            known: true,
        };
        self.nodes.insert(ino, root);
        let now = self.now();
        let set = flashkit_vfs::SetAttr {
            mode: Some(0o755),
            uid: Some(0),
            gid: Some(0),
            mtime: Some(now),
            now,
            ..Default::default()
        };
        let is = self.target.fs().setattr(target, &set);
        let due = self.model.setattr(ino, &set);
        self.agree_attr(due, is, false)?;
        self.compare_all()
    }

    /// One operation, and perhaps one of the great ones.
    fn step(&mut self) -> Result<(), String> {
        let kind = self.swarm.kind(&mut self.rng);
        self.operate(kind)?;
        let once_in = |rng: &mut Rng, n: u64| n > 0 && rng.one_in(n);
        if once_in(&mut self.rng, self.run.remount_every) {
            self.remount()?;
        }
        if once_in(&mut self.rng, self.run.compare_every) {
            self.compare_all()?;
        }
        if once_in(&mut self.rng, self.run.check_every) {
            self.target
                .check()
                .map_err(|what| format!("check: {what}"))?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        self.compare_all()?;
        self.remount()?;
        self.compare_all()?;
        self.target.check().map_err(|what| format!("check: {what}"))
    }

    fn remount(&mut self) -> Result<(), String> {
        self.say("remount");
        self.stats.remounts += 1;
        let open: Vec<Ino> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.users > 0)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in open {
            while self.nodes.get(&ino).is_some_and(|node| node.users > 0) {
                self.release(ino)?;
            }
        }
        self.target
            .remount()
            .map_err(|what| format!("remount: {what}"))?;
        let root = self.model.root();
        for (ino, node) in &mut self.nodes {
            node.known = *ino == root;
        }
        let (due, is) = (self.nodes[&root].target, self.target.fs().root());
        if due == is {
            Ok(())
        } else {
            Err(format!("the root was {due} and is {is}"))
        }
    }

    /// Notes an operation for the failure report.
    pub fn say(&mut self, what: impl Into<String>) {
        let line = format!("{}: {}", self.op, what.into());
        if self.print {
            println!("{line}");
        }
        if self.log.len() == LOG_LEN {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }

    /// A time later than all before.
    pub fn now(&mut self) -> Time {
        self.seconds += 1;
        let nanos = if self.run.nanos {
            // Tags of 24 spare bytes say 256ths of a second.
            self.rng.below(256) as u32 * 3_906_250
        } else {
            0
        };
        Time {
            secs: self.seconds,
            nanos,
        }
    }

    pub fn new_inode(&mut self) -> NewInode {
        NewInode {
            mode: self.rng.below(0o10000) as u16,
            uid: self.rng.below(70_000) as u32,
            gid: self.rng.below(70_000) as u32,
            now: self.now(),
        }
    }

    /// A path for people.
    pub fn path(&self, ino: Ino) -> String {
        let (mut at, mut path) = (ino, String::new());
        while let Some((dir, name)) = self.nodes.get(&at).and_then(|node| node.names.first()) {
            if *dir == at {
                break;
            }
            path = format!("/{}{path}", show(name));
            at = *dir;
        }
        if self.orphans.contains(&ino) {
            return format!("(inode {ino} without a name)");
        }
        if path.is_empty() { "/".into() } else { path }
    }

    /// The number of an inode in the file system under test, looked up if it is not known there.
    pub fn touch(&mut self, ino: Ino) -> Result<Ino, String> {
        let Some(node) = self.nodes.get(&ino) else {
            return Err(format!("the driver has lost inode {ino}"));
        };
        if node.known {
            return Ok(node.target);
        }
        let due = node.target;
        let (parent, name) = self.any_name(ino);
        let dir = self.touch(parent)?;
        match self.target.fs().lookup(dir, &name) {
            Ok(attr) if attr.ino == due => {}
            Ok(attr) => {
                let is = attr.ino;
                return Err(format!("{} was inode {due} and is {is}", self.path(ino)));
            }
            Err(error) => return Err(format!("lookup of {}: {error}", self.path(ino))),
        }
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.known = true;
        }
        Ok(due)
    }

    /// Whether the file system under test was full, and may be.
    pub fn was_full<T>(&mut self, result: &Result<T, Error>) -> bool {
        let full = self.run.full && matches!(result, Err(Error::NoSpace));
        if full {
            self.pressed = true;
            self.stats.full += 1;
            self.say("  full");
        }
        full
    }

    /// Demands the same result; returns whether it was a success.
    pub fn agree<T: PartialEq + Debug>(
        &mut self,
        due: &Result<T, Error>,
        is: &Result<T, Error>,
    ) -> Result<bool, String> {
        if due == is {
            Ok(due.is_ok())
        } else {
            Err(format!("expected {due:?}, found {is:?}"))
        }
    }

    /// Demands the same error, or the same attributes. Returns both inode numbers, which must
    /// belong together unless the inode is new.
    pub fn agree_attr(
        &mut self,
        due: Result<Attr, Error>,
        is: Result<Attr, Error>,
        new: bool,
    ) -> Result<Option<(Ino, Ino)>, String> {
        let (model, target) = match (due, is) {
            (Ok(model), Ok(target)) => (model, target),
            (Err(model), Err(target)) if model == target => return Ok(None),
            (due, is) => return Err(format!("expected {due:?}, found {is:?}")),
        };
        if let Some(what) = attr_differs(&model, &target) {
            return Err(what);
        }
        if new {
            if let Some(ino) = self
                .nodes
                .iter()
                .find(|(_, node)| node.target == target.ino)
            {
                return Err(format!(
                    "the new inode has the number of {}",
                    self.path(*ino.0)
                ));
            }
        } else if self.nodes.get(&model.ino).map(|node| node.target) != Some(target.ino) {
            return Err(format!(
                "{} has inode number {}",
                self.path(model.ino),
                target.ino
            ));
        }
        Ok(Some((model.ino, target.ino)))
    }

    /// Ends one use of an inode.
    pub fn release(&mut self, ino: Ino) -> Result<(), String> {
        let at = self.touch(ino)?;
        let size = self.file_size(ino);
        let is = self.target.fs().release(at);
        let due = self.model.release(ino);
        self.agree(&due, &is)?;
        let Some(node) = self.nodes.get_mut(&ino) else {
            return Ok(());
        };
        node.users -= 1;
        if node.users == 0 && self.orphans.contains(&ino) {
            self.orphans.retain(|orphan| *orphan != ino);
            self.nodes.remove(&ino);
            self.used -= size;
            self.target.fs().forget(at);
        }
        Ok(())
    }

    /// An inode has lost a name.
    pub fn dropped(&mut self, ino: Ino, size: u64, dir: Ino, name: &[u8]) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names.retain(|held| held.0 != dir || held.1 != name);
            if !node.names.is_empty() {
                return;
            }
        }
        if self.nodes.get(&ino).is_some_and(|node| node.users > 0) {
            self.orphans.push(ino);
        } else if let Some(node) = self.nodes.remove(&ino) {
            self.used -= size;
            if node.known {
                self.target.fs().forget(node.target);
            }
        }
        if self.last_dir == ino {
            self.last_dir = self.model.root();
        }
    }

    /// Size of a file; 0 for anything else.
    pub fn file_size(&mut self, ino: Ino) -> u64 {
        match self.model.getattr(ino) {
            Ok(attr) if attr.kind == FileKind::File => attr.size,
            _ => 0,
        }
    }
}

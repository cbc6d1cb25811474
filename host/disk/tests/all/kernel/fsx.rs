//! Files under fire, after Apple's fsx: written anywhere, written through mappings, cut short,
//! renamed onto each other, removed and synced at random. After a crash each byte that was synced,
//! and not touched since, must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use flashkit_sim::Rng;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::{Event, Mark, said};

/// Names that there may be.
const NAMES: u64 = 24;
/// Bytes that a file has at most.
const SIZE_MAX: u64 = 60_000;
/// Operations of a load.
const OPS: u32 = 2_000;

/// Set in a seed: the mode is writeback, in which new blocks of a file may hold anything after a
/// crash. So nothing is sure of a file that was changed since it was synced.
pub const WRITEBACK: u32 = 1 << 31;

type Name = u64;

/// An operation.
#[derive(Clone, Debug)]
enum Op {
    /// Writes so many bytes of a seed; makes the file if there is none, and a gap if it is shorter.
    Write(Name, u64, u64, u64),
    /// The same through a shared mapping, within the file.
    Map(Name, u64, u64, u64),
    /// Makes the file so long.
    Truncate(Name, u64),
    Rename(Name, Name),
    Remove(Name),
    Sync(Name),
    SyncAll,
    /// Discards what is free.
    Fstrim,
}

/// A file since it was synced.
#[derive(Clone, Debug, Default)]
struct Synced {
    bytes: Vec<u8>,
    /// Bytes that were written since, perhaps with the same.
    touched: Vec<bool>,
    /// What it may be called now.
    names: BTreeSet<Name>,
    /// It may have been removed, or renamed upon.
    may_be_gone: bool,
}

/// Files, as the operations leave them.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The newest bytes of each, by an identity that renames do not change.
    bytes: BTreeMap<u64, Vec<u8>>,
    names: BTreeMap<Name, u64>,
    synced: BTreeMap<u64, Synced>,
    next: u64,
    /// A change touches all of a file.
    whole: bool,
}

fn drawn(seed: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

impl Files {
    fn len(&self, name: Name) -> Option<u64> {
        let id = self.names.get(&name)?;
        Some(self.bytes[id].len() as u64)
    }

    /// An operation that may be made of this.
    fn draw(&self, rng: &mut Rng) -> Op {
        let name = rng.below(NAMES);
        let Some(len) = self.len(name) else {
            return Op::Write(name, 0, 1 + rng.below(30_000), rng.next_u64());
        };
        let at = rng.below(SIZE_MAX - 1);
        let long = (1 + rng.below(24_000)).min(SIZE_MAX - at);
        match rng.below(100) {
            0..=39 => Op::Write(
                name,
                at.min(len + 3_000),
                long.min(SIZE_MAX - at),
                rng.next_u64(),
            ),
            40..=54 if len > 0 => {
                let at = rng.below(len);
                Op::Map(
                    name,
                    at,
                    1 + rng.below((len - at).min(8_000)),
                    rng.next_u64(),
                )
            }
            55..=64 => Op::Truncate(name, rng.below(SIZE_MAX)),
            65..=72 => Op::Rename(name, rng.below(NAMES)),
            73..=76 => Op::Remove(name),
            77..=78 => Op::SyncAll,
            _ => Op::Sync(name),
        }
    }

    /// From here on the operation may have been done in part.
    fn begin(&mut self, op: &Op) {
        match *op {
            Op::Write(name, at, len, _) | Op::Map(name, at, len, _) => {
                self.touch(name, at, at + len);
            }
            Op::Truncate(name, len) => self.touch(name, len, u64::MAX),
            Op::Rename(from, to) if from != to => {
                self.doubt(to);
                if let Some(synced) = self.synced_of(from) {
                    synced.names.insert(to);
                }
            }
            Op::Remove(name) => self.doubt(name),
            Op::Rename(..) | Op::Sync(_) | Op::SyncAll | Op::Fstrim => {}
        }
    }

    fn synced_of(&mut self, name: Name) -> Option<&mut Synced> {
        self.synced.get_mut(self.names.get(&name)?)
    }

    fn touch(&mut self, name: Name, from: u64, to: u64) {
        let whole = self.whole;
        if let Some(synced) = self.synced_of(name) {
            let end = synced.touched.len();
            let (from, to) = match whole {
                true => (0, end),
                false => ((from as usize).min(end), to.min(end as u64) as usize),
            };
            synced.touched[from..to].fill(true);
        }
    }

    fn doubt(&mut self, name: Name) {
        if let Some(synced) = self.synced_of(name) {
            synced.may_be_gone = true;
        }
    }

    /// It has returned.
    fn end(&mut self, op: &Op) {
        match *op {
            Op::Write(name, at, len, seed) | Op::Map(name, at, len, seed) => {
                let next = &mut self.next;
                let id = *self.names.entry(name).or_insert_with(|| {
                    *next += 1;
                    *next
                });
                let bytes = self.bytes.entry(id).or_default();
                let end = (at + len) as usize;
                bytes.resize(bytes.len().max(end), 0);
                bytes[at as usize..end].copy_from_slice(&drawn(seed, len));
            }
            Op::Truncate(name, len) => {
                let id = self.names[&name];
                if let Some(bytes) = self.bytes.get_mut(&id) {
                    bytes.resize(len as usize, 0);
                }
            }
            Op::Rename(from, to) if from != to => {
                if let Some(id) = self.names.remove(&from) {
                    self.names.insert(to, id);
                }
            }
            Op::Remove(name) => drop(self.names.remove(&name)),
            Op::Sync(name) => self.sync(name),
            Op::SyncAll => {
                // What has no name any more is gone for good.
                let live: BTreeSet<u64> = self.names.values().copied().collect();
                self.synced.retain(|id, _| live.contains(id));
                let names: Vec<Name> = self.names.keys().copied().collect();
                names.into_iter().for_each(|name| self.sync(name));
            }
            Op::Rename(..) | Op::Fstrim => {}
        }
    }

    fn sync(&mut self, name: Name) {
        let Some(id) = self.names.get(&name) else {
            return;
        };
        let bytes = self.bytes[id].clone();
        let synced = Synced {
            touched: vec![false; bytes.len()],
            names: [name].into(),
            bytes,
            may_be_gone: false,
        };
        self.synced.insert(*id, synced);
    }

    /// The files that the marks of a recording speak of, as far as it came; none without marks.
    pub fn after<'a>(events: impl Iterator<Item = &'a Event>) -> Option<Files> {
        let marks = events.filter_map(|event| match event {
            Event::Mark(mark) => Some(*mark),
            _ => None,
        });
        let (mut files, mut ops) = (None, Vec::new());
        for mark in marks {
            match (mark, &mut files) {
                (Mark::Load(seed), _) => {
                    ops = self::ops(seed);
                    files = Some(Files {
                        whole: seed & WRITEBACK != 0,
                        ..Files::default()
                    });
                }
                (Mark::Began(i), Some(files)) => files.begin(&ops[i as usize]),
                (Mark::Done(i), Some(files)) => files.end(&ops[i as usize]),
                (_, None) => {}
            }
        }
        files
    }

    /// Whether a directory has all that was synced; how many bytes that are.
    pub fn check(&self, at: &Path) -> Result<u64, String> {
        let mut sure = 0;
        for synced in self.synced.values().filter(|synced| !synced.may_be_gone) {
            let is_whole = |name: &Name| {
                let found = fs::read(at.join(path(*name)));
                found.is_ok_and(|found| synced.is_in(&found))
            };
            if !synced.names.iter().any(is_whole) {
                let wrong = synced.names.iter().map(|name| {
                    let found = fs::read(at.join(path(*name))).unwrap_or_default();
                    let bytes = (0..synced.bytes.len()).filter(|i| !synced.has(*i, &found));
                    let bytes: Vec<usize> = bytes.collect();
                    let ends = bytes.first().zip(bytes.last());
                    format!("{}: {} bytes of {ends:?}", path(*name), bytes.len())
                });
                let wrong: Vec<_> = wrong.collect();
                return Err(format!("what was synced is not there: {wrong:?}"));
            }
            sure += synced.touched.iter().filter(|touched| !**touched).count() as u64;
        }
        Ok(sure)
    }
}

impl Synced {
    fn is_in(&self, found: &[u8]) -> bool {
        (0..self.bytes.len()).all(|i| self.has(i, found))
    }

    fn has(&self, i: usize, found: &[u8]) -> bool {
        self.touched[i] || found.get(i) == Some(&self.bytes[i])
    }
}

fn path(name: Name) -> String {
    format!("d{}/f{name}", name % 3)
}

/// The operations of a seed.
fn ops(seed: u32) -> Vec<Op> {
    let (mut rng, mut files) = (Rng::keyed(u64::from(seed), 6), Files::default());
    let mut ops = Vec::new();
    for i in 0..OPS {
        let op = if i == OPS / 2 {
            Op::Fstrim
        } else {
            files.draw(&mut rng)
        };
        files.end(&op);
        ops.push(op);
    }
    ops
}

/// Does the operations of a seed.
pub fn run(seed: u32, at: &Path, mark: &dyn Fn(Mark)) {
    mark(Mark::Load(seed));
    (0..3).for_each(|i| fs::create_dir(at.join(format!("d{i}"))).unwrap());
    nix::unistd::syncfs(File::open(at).unwrap()).unwrap();
    for (i, op) in (0..).zip(ops(seed)) {
        mark(Mark::Began(i));
        op.apply(at);
        mark(Mark::Done(i));
    }
}

impl Op {
    fn apply(&self, at: &Path) {
        let open = |name: Name| {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            options.open(at.join(path(name))).unwrap()
        };
        match *self {
            Op::Write(name, from, len, seed) => {
                open(name).write_all_at(&drawn(seed, len), from).unwrap();
            }
            Op::Map(name, from, len, seed) => map_elsewhere(&at.join(path(name)), from, len, seed),
            Op::Truncate(name, len) => open(name).set_len(len).unwrap(),
            Op::Rename(from, to) => {
                fs::rename(at.join(path(from)), at.join(path(to))).unwrap();
            }
            Op::Remove(name) => fs::remove_file(at.join(path(name))).unwrap(),
            Op::Sync(name) => open(name).sync_all().unwrap(),
            Op::SyncAll => nix::unistd::syncfs(File::open(at).unwrap()).unwrap(),
            Op::Fstrim => drop(said("fstrim", &[at.to_str().unwrap()])),
        }
    }
}

/// The file and the range that `writes_through_a_mapping` is for.
const TASK: &str = "FLASHKIT_FSX_MAP";

/// Writes through a shared mapping, in a process of its own: one whose own thread serves the disk
/// would wait for itself in a page fault.
fn map_elsewhere(file: &Path, from: u64, len: u64, seed: u64) {
    let name = "kernel::fsx::writes_through_a_mapping";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let task = format!("{from} {len} {seed} {}", file.display());
    let out = child
        .args(["--exact", name])
        .env(TASK, task)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

/// What another process asks for; nothing otherwise.
#[test]
fn writes_through_a_mapping() {
    let Ok(task) = std::env::var(TASK) else {
        return;
    };
    let mut words = task.splitn(4, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (from, len, seed) = (number(), number(), number());
    let path = words.next().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let end = (from + len) as usize;
    assert!(file.metadata().unwrap().len() >= end as u64);
    let whole = NonZeroUsize::new(end).unwrap();
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: the mapping is of `end` bytes of a file that is as long and that nobody else changes;
    // it is not used behind `munmap`.
    unsafe {
        let mapped = mmap(None, whole, access, MapFlags::MAP_SHARED, &file, 0).unwrap();
        let bytes = std::slice::from_raw_parts_mut(mapped.as_ptr().cast::<u8>(), end);
        bytes[from as usize..].copy_from_slice(&drawn(seed, len));
        munmap(mapped, end).unwrap();
    }
}

/// A byte that is not as it was synced is found, one that was written since is not looked at.
#[test]
fn a_byte_of_another_time_is_found() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("d1")).unwrap();
    let (write, sync) = (Op::Write(1, 0, 100, 7), Op::Sync(1));
    let mut files = Files::default();
    for op in [write, sync] {
        files.begin(&op);
        op.apply(here.path());
        files.end(&op);
    }
    assert_eq!(files.check(here.path()), Ok(100));
    let broken = |at: u64| {
        let file = File::options().write(true).open(here.path().join("d1/f1"));
        file.unwrap()
            .write_all_at(&[0x5A ^ drawn(7, 100)[at as usize]], at)
            .unwrap();
    };
    files.begin(&Op::Write(1, 40, 10, 8));
    broken(45);
    assert_eq!(files.check(here.path()), Ok(90));
    // Renamed, or not yet.
    files.begin(&Op::Rename(1, 2));
    assert_eq!(files.check(here.path()), Ok(90));
    broken(39);
    assert!(files.check(here.path()).is_err());
    files.begin(&Op::Remove(1));
    assert_eq!(files.check(here.path()), Ok(0));
}

//! One page is lost that recorded the change of a name since the last checkpoint, and the power
//! goes. What was synced later has pages of its own: it is found under its name, and stays.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::boot::{Boot, ram_needed};
use flashkit_flashlight::inspect::{Inspected, Record, inspect};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::SimNand;
use flashkit_vfs::check::repair;
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, path};
use flashkit_workload::Rng;

use crate::common::{self, Fs, NOW};
use crate::damage::rot::{Way, newer, spoil};

const CHECKPOINT: u8 = 3;
const FILE: u8 = 10;

/// The page of a file's inode that was written last.
fn last_file(fs: &mut Fs) -> PageAddr {
    let pages = newer(fs.volume().nand().get(), FILE, CHECKPOINT);
    *pages.last().unwrap()
}

fn write(fs: &mut Fs, ino: Ino, at: u64, bytes: &[u8]) {
    fs.write(ino, at, bytes, NOW).unwrap();
    fs.fsync(ino).unwrap();
}

fn file(fs: &mut Fs, path: &str, bytes: &[u8]) {
    let (dir, name) = path::resolve_parent(fs, path.as_bytes()).unwrap();
    let ino = fs.create(dir, name, &NewInode::default()).unwrap().ino;
    write(fs, ino, 0, bytes);
}

/// Paths of all files, in their order.
fn names(fs: &mut Fs) -> Vec<String> {
    let (mut dirs, mut all) = (vec![(fs.root(), String::new())], Vec::new());
    while let Some((dir, path)) = dirs.pop() {
        fs.readdir(dir, 0, &mut |e| {
            let path = format!("{path}{}", String::from_utf8(e.name).unwrap());
            match e.kind {
                FileKind::Dir => dirs.push((e.ino, path + "/")),
                _ => all.push(path),
            }
            true
        })
        .or_else(|e| match e {
            // An entry that leads to the lost page.
            Error::Damaged(_) => Ok(()),
            e => Err(e),
        })
        .unwrap();
    }
    all.sort();
    all
}

/// What is synced before, and after the last checkpoint; that returns the page that is lost.
struct Case {
    name: &'static str,
    before: fn(&mut Fs),
    after: fn(&mut Fs) -> PageAddr,
    /// What is there then.
    there: &'static [(&'static str, &'static [u8])],
    /// What a repair finds again, of a file that may have been removed.
    in_lost_found: Option<&'static [u8]>,
}

impl Case {
    fn found(&self, fs: &mut Fs, when: &str) {
        for (path, bytes) in self.there {
            let found = path::read_file(fs, path.as_bytes());
            let found = found.map(|bytes| String::from_utf8(bytes).unwrap());
            let bytes = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(found, Ok(bytes), "{}, {when}: {path}", self.name);
        }
    }

    fn run(&self) {
        let mut fs = common::formatted(common::chip(2048, 64, 32, 128));
        path::mkdir_p(&mut fs, b"dir", &NewInode::default()).unwrap();
        (self.before)(&mut fs);
        fs.sync().unwrap();
        let lost = (self.after)(&mut fs);
        // None of these is the page whose program was cut.
        file(&mut fs, "last", b"x");
        let mut chip = fs.volume().nand().get::<SimNand>().clone();
        spoil(&mut chip, lost, Way::Lost);
        let mut ram = vec![0; ram_needed(&chip.geometry())];
        let mut boot = Boot::open(chip.clone(), &mut ram).unwrap();
        // By names that the lost page gave the boot reader finds what the checkpoint had.
        let links = ["a", "b"];
        for (path, bytes) in self.there.iter().filter(|(path, _)| !links.contains(path)) {
            let found = boot.find(path.as_bytes()).unwrap();
            let mut read = vec![0; found.size() as usize];
            boot.read(&found, 0, &mut read).unwrap();
            assert_eq!(read, *bytes, "{}, at boot: {path}", self.name);
        }
        let mut fs = common::mount(chip);
        self.found(&mut fs, "mounted");
        assert!(fs.volume().lost_change().is_some(), "{}", self.name);
        let shown = names(&mut fs);
        let there = self.there.iter().map(|(path, _)| path.to_string());
        let mut there: Vec<_> = there.chain(["last".into()]).collect();
        there.sort();
        assert_eq!(shown, there, "{}", self.name);
        assert!(fs.sync().is_err(), "{}: the loss is told", self.name);
        repair(fs.volume()).unwrap();
        common::clean(&mut fs);
        self.found(&mut fs, "repaired");
        fs = common::remount(fs);
        let kept = names(&mut fs);
        let kept = kept.iter().filter(|path| path.starts_with("lost+found/"));
        let kept: Vec<_> = kept.cloned().collect();
        assert_eq!(kept.len(), self.in_lost_found.iter().len(), "{}", self.name);
        for round in 0..8 {
            for n in 0..20 {
                let name = format!("fill{n}");
                let fill = path::mkdir_p(&mut fs, b"filled", &NewInode::default());
                let dir = fill.unwrap().ino;
                let new = fs.create(dir, name.as_bytes(), &NewInode::default());
                let new = new.or_else(|_| fs.lookup(dir, name.as_bytes())).unwrap();
                fs.write(new.ino, 0, &[round; 100_000], NOW).unwrap();
            }
        }
        fs.sync().unwrap();
        self.found(&mut fs, "after others were written");
        for path in kept {
            let bytes = path::read_file(&mut fs, path.as_bytes()).unwrap();
            assert_eq!(Some(&*bytes), self.in_lost_found, "{}", self.name);
        }
        common::clean(&mut fs);
    }
}

fn rename(fs: &mut Fs, from: &str, to: &str) -> PageAddr {
    let (dir, from) = path::resolve_parent(fs, from.as_bytes()).unwrap();
    let root = fs.root();
    fs.rename(dir, from, root, to.as_bytes(), false, NOW)
        .unwrap();
    last_file(fs)
}

fn link(fs: &mut Fs, name: &str, to: &str) -> PageAddr {
    let root = fs.root();
    let ino = fs.lookup(root, name.as_bytes()).unwrap().ino;
    fs.link(ino, root, to.as_bytes(), NOW).unwrap();
    last_file(fs)
}

fn append(fs: &mut Fs, name: &str, bytes: &[u8]) {
    let root = fs.root();
    let found = fs.lookup(root, name.as_bytes()).unwrap();
    write(fs, found.ino, found.size, bytes);
}

/// A file was renamed, or removed, and another has its name now: the older one does not hide it.
#[test]
fn what_had_the_name_of_a_synced_file_does_not_hide_it() {
    let before = |fs: &mut Fs| file(fs, "config", b"old");
    Case {
        name: "renamed, and a new one",
        before,
        after: |fs| {
            let lost = rename(fs, "config", "config.bak");
            file(fs, "config", b"new");
            lost
        },
        there: &[("config", b"new")],
        in_lost_found: Some(b"old"),
    }
    .run();
    Case {
        name: "removed, and a new one",
        before,
        after: |fs| {
            let root = fs.root();
            fs.unlink(root, b"config", NOW).unwrap();
            // The first page of the next new file says so.
            file(fs, "other", b"y");
            let lost = last_file(fs);
            file(fs, "config", b"new");
            lost
        },
        there: &[("config", b"new")],
        in_lost_found: Some(b"old"),
    }
    .run();
    Case {
        name: "renamed, and a directory",
        before,
        after: |fs| {
            let lost = rename(fs, "config", "config.bak");
            path::mkdir_p(fs, b"config", &NewInode::default()).unwrap();
            file(fs, "config/new", b"new");
            lost
        },
        there: &[("config/new", b"new")],
        in_lost_found: Some(b"old"),
    }
    .run();
    Case {
        name: "one of two names renamed, and a new file",
        before: |fs| {
            file(fs, "config", b"old");
            link(fs, "config", "link");
        },
        after: |fs| {
            let lost = rename(fs, "config", "config.bak");
            file(fs, "config", b"new");
            lost
        },
        there: &[("config", b"new"), ("link", b"old")],
        in_lost_found: None,
    }
    .run();
}

/// Settings are replaced by a rename, and later appended to.
#[test]
fn a_file_that_replaced_another_and_was_synced_again_has_its_name() {
    Case {
        name: "replaced by a new file",
        before: |fs| file(fs, "config", b"old"),
        after: |fs| {
            file(fs, "tmp", b"new");
            let lost = rename(fs, "tmp", "config");
            append(fs, "config", b" and more");
            lost
        },
        there: &[("config", b"new and more")],
        in_lost_found: Some(b"old"),
    }
    .run();
    Case {
        name: "replaced by an older file of another directory",
        before: |fs| {
            file(fs, "dir/tmp", b"new");
            file(fs, "config", b"old");
        },
        after: |fs| {
            let lost = rename(fs, "dir/tmp", "config");
            append(fs, "config", b" and more");
            lost
        },
        there: &[("config", b"new and more")],
        in_lost_found: Some(b"old"),
    }
    .run();
    Case {
        name: "replaced one of two names",
        before: |fs| {
            file(fs, "config", b"old");
            link(fs, "config", "link");
        },
        after: |fs| {
            file(fs, "tmp", b"new");
            let lost = rename(fs, "tmp", "config");
            append(fs, "config", b" and more");
            lost
        },
        there: &[("config", b"new and more"), ("link", b"old")],
        in_lost_found: None,
    }
    .run();
}

/// A file has got a second name, and was written to: both lead to the newest state.
#[test]
fn two_names_of_a_file_lead_to_what_was_synced() {
    Case {
        name: "second name",
        before: |fs| file(fs, "a", b"old"),
        after: |fs| {
            let lost = link(fs, "a", "b");
            append(fs, "a", b" and more");
            lost
        },
        there: &[("a", b"old and more"), ("b", b"old and more")],
        in_lost_found: None,
    }
    .run();
    Case {
        name: "second and third name",
        before: |fs| file(fs, "a", b"old"),
        after: |fs| {
            let lost = link(fs, "a", "b");
            link(fs, "b", "c");
            append(fs, "a", b" and more");
            lost
        },
        there: &[
            ("a", b"old and more"),
            ("b", b"old and more"),
            ("c", b"old and more"),
        ],
        in_lost_found: None,
    }
    .run();
}

/// The page of the rename is any of its block, the last one too.
#[test]
fn any_page_of_a_block_may_be_lost() {
    for others in 0..33 {
        let mut fs = common::formatted(common::chip(2048, 64, 32, 128));
        file(&mut fs, "config", b"old");
        fs.sync().unwrap();
        for n in 0..others {
            file(&mut fs, &format!("other {n}"), b"z");
        }
        file(&mut fs, "tmp", b"new");
        let lost = rename(&mut fs, "tmp", "config");
        append(&mut fs, "config", b" and more");
        file(&mut fs, "last", b"x");
        spoil(fs.volume().nand_mut().get_mut(), lost, Way::Lost);
        let mut fs = common::cut(fs);
        let found = path::read_file(&mut fs, b"config");
        assert_eq!(found, Ok(b"new and more".to_vec()), "{others}");
        assert_eq!(names(&mut fs).len(), others + 2, "{others}");
        assert!(fs.volume().lost_change().is_some(), "{others}");
    }
}

/// Files of a few names, as they are and should be.
struct History {
    fs: Fs,
    rng: Rng,
    names: BTreeMap<&'static str, Ino>,
    bytes: BTreeMap<Ino, Vec<u8>>,
    linked: BTreeSet<Ino>,
}

impl History {
    const NAMES: [&'static str; 5] = ["a", "b", "c", "dir/a", "dir/b"];

    fn pick(&mut self) -> &'static str {
        Self::NAMES[self.rng.below(5) as usize]
    }

    fn step(&mut self, n: u8) {
        let (from, to) = (self.pick(), self.pick());
        let fs = &mut self.fs;
        let Some(&ino) = self.names.get(from) else {
            file(fs, from, &[n; 3000]);
            let ino = path::resolve(fs, from.as_bytes()).unwrap().ino;
            self.names.insert(from, ino);
            self.bytes.insert(ino, vec![n; 3000]);
            return;
        };
        let (dir, name) = path::resolve_parent(fs, from.as_bytes()).unwrap();
        let (to_dir, to_name) = path::resolve_parent(fs, to.as_bytes()).unwrap();
        match self.rng.below(5) {
            0 => {
                fs.unlink(dir, name, NOW).unwrap();
                self.names.remove(from);
            }
            1 | 2 if self.names.get(to) != Some(&ino) => {
                fs.rename(dir, name, to_dir, to_name, false, NOW).unwrap();
                self.names.remove(from);
                self.names.insert(to, ino);
            }
            3 if !self.names.contains_key(to) => {
                fs.link(ino, to_dir, to_name, NOW).unwrap();
                self.names.insert(to, ino);
                self.linked.insert(ino);
            }
            _ => {
                let bytes = self.bytes.get_mut(&ino).unwrap();
                let at = bytes.len() as u64;
                bytes.extend([n; 700]);
                write(fs, ino, at, &[n; 700]);
            }
        }
    }

    /// Files of one name have it, and no name of a file shows what that was before.
    fn judge(&self, fs: &mut Fs, lost: Ino, case: &str) {
        let shown = names(fs);
        for (path, ino) in self.names.iter().filter(|(_, ino)| **ino != lost) {
            let found = path::read_file(fs, path.as_bytes());
            // One of several names may be what the lost page alone has recorded.
            let there = path::resolve(fs, path.as_bytes()).is_ok_and(|attr| attr.ino == *ino);
            let right = match &found {
                Ok(bytes) if there => *bytes == self.bytes[ino],
                _ => self.linked.contains(ino),
            };
            let found = found.map(|bytes| bytes.len());
            assert!(right, "{case}, {path}: {found:?}");
            let times = shown.iter().filter(|name| name == path).count();
            assert!(times <= 1, "{case}, {path}: {shown:?}");
        }
    }
}

/// Random changes of names; any one record of a file since the checkpoint is lost. What has pages
/// of its own after that is as it was synced, before and after a repair.
#[test]
fn what_was_synced_is_there_whatever_record_is_lost() {
    let seeds = match std::env::var("FLASHKIT_ROT_FULL") {
        Ok(_) => 200,
        Err(_) => 40,
    };
    for seed in 0..seeds {
        let mut fs = common::formatted(common::chip(2048, 64, 32, 64));
        path::mkdir_p(&mut fs, b"dir", &NewInode::default()).unwrap();
        let mut h = History {
            fs,
            rng: Rng::new(seed),
            names: BTreeMap::new(),
            bytes: BTreeMap::new(),
            linked: BTreeSet::new(),
        };
        (0..8).for_each(|n| h.step(n));
        h.fs.sync().unwrap();
        (8..20).for_each(|n| h.step(n));
        file(&mut h.fs, "last", b"x");
        let mut chip = h.fs.volume().nand().get::<SimNand>().clone();
        let pages = newer(&chip, FILE, CHECKPOINT);
        let inos: Vec<Ino> = pages.iter().map(|page| ino_of(&mut chip, *page)).collect();
        for (n, page) in pages.iter().enumerate() {
            // Nothing is promised of an inode whose newest page it is.
            let newest = !inos[n + 1..].contains(&inos[n]);
            let lost = if newest { inos[n] } else { 0 };
            let mut chip = chip.clone();
            spoil(&mut chip, *page, Way::Lost);
            let mut fs = common::mount(chip);
            let case = format!("seed {seed}, record {n} of {}", pages.len());
            h.judge(&mut fs, lost, &case);
            let _ = fs.sync();
            repair(fs.volume()).unwrap();
            common::clean(&mut fs);
            h.judge(&mut fs, lost, &format!("{case}, repaired"));
        }
    }
}

/// The inode of a page.
fn ino_of(chip: &mut SimNand, page: PageAddr) -> Ino {
    let geo = chip.geometry();
    let mut bytes = vec![0; geo.page_size() as usize];
    chip.read(page, 0, &mut bytes, &mut []).unwrap();
    match inspect(&geo, &bytes, page) {
        Inspected::Record(_, Record::File(file)) => file.fields().ino.into(),
        _ => panic!("no file"),
    }
}

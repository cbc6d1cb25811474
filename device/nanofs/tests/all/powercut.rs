//! Power cuts at every operation that changes the card, with every way to tear it, and cuts in the
//! recovery from each of them.
//!
//! A failure prints the script, the operation, and what the cut has left. `NANOFS_CUTS=all` tries
//! everything; without it the longer scripts are cut at some of their operations.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{KEY, assert_sound, content, formatted, mounted, read_tree};
use flashkit_nanofs::{Error, Handle, NanoFs};
use flashkit_sim::{CardCut, CardLog, CardTiming, SimCard};

/// What a script does. Files are named by numbers; they are opened when they are first used.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Create(u8),
    /// Bytes at the end.
    Append(u8, usize),
    /// Bytes at an offset.
    Write(u8, usize, usize),
    Truncate(u8, usize),
    Close(u8),
    Delete(u8),
    Rename(u8, u8),
    Sync,
    Clean(u32),
}
use Op::{Append, Clean, Close, Create, Delete, Rename, Sync, Truncate, Write};

pub type Files = BTreeMap<u8, Vec<u8>>;

/// A state that a file may be found in: between `from` and `to`. `None` is no file.
#[derive(Clone)]
pub struct Change {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Change {
    /// Whether a file may be found so while this change is under way.
    fn allows(&self, found: Option<&Vec<u8>>) -> bool {
        let (Some(from), Some(to), Some(found)) = (&self.from, &self.to, found) else {
            return found == self.from.as_ref() || found == self.to.as_ref();
        };
        if found == from || found == to {
            return true;
        }
        // An overwrite of up to 10,000 bytes is there as a whole, and appended bytes come one
        // after the other.
        let grown = from.len().min(to.len());
        found.len() > from.len() && found.len() < to.len() && *found == to[..found.len()]
            || found.len() == from.len() && to.len() > from.len() && found[..] == to[..grown]
    }
}

pub struct Run<const N: usize> {
    pub fs: NanoFs<CardLog, N>,
    pub files: Files,
    pub handles: BTreeMap<u8, Handle>,
    /// What each file may be found as, if power fails now: changes since it was durable.
    pending: BTreeMap<u8, Vec<Change>>,
    pub tag: u32,
}

/// One step of a script: where it ends in the log, and what files may be found as during it.
pub struct Step {
    pub op: Op,
    pub end: usize,
    pending: BTreeMap<u8, Vec<Change>>,
    renamed: Option<(u8, u8)>,
}

fn name(file: u8) -> String {
    format!("file{file}")
}

impl<const N: usize> Run<N> {
    pub fn new(card: SimCard) -> Self {
        Run {
            fs: mounted(CardLog::new(card)),
            files: Files::new(),
            handles: BTreeMap::new(),
            pending: BTreeMap::new(),
            tag: 0,
        }
    }

    fn handle(&mut self, file: u8) -> Handle {
        let fs = &mut self.fs;
        *self
            .handles
            .entry(file)
            .or_insert_with(|| fs.open(name(file).as_bytes()).unwrap())
    }

    /// Notes what becomes of a file; its state is durable from the end of the step on if `now`.
    fn becomes(&mut self, file: u8, to: Option<Vec<u8>>) {
        let from = self.files.get(&file).cloned();
        self.pending.entry(file).or_default().push(Change {
            from,
            to: to.clone(),
        });
        match to {
            Some(data) => self.files.insert(file, data),
            None => self.files.remove(&file),
        };
    }

    fn durable(&mut self, file: u8) {
        self.pending.remove(&file);
    }

    /// Does a step; gives what may be found while it is under way.
    pub fn step(&mut self, op: Op) -> Step {
        self.tag += 1;
        let mut renamed = None;
        let mut settled = Vec::new();
        match op {
            Create(file) => {
                self.becomes(file, Some(Vec::new()));
                let handle = self.fs.create(name(file).as_bytes()).unwrap();
                self.handles.insert(file, handle);
                settled.push(file);
            }
            Append(file, len) => self.write(file, usize::MAX, len),
            Write(file, at, len) => self.write(file, at, len),
            Truncate(file, size) => {
                let handle = self.handle(file);
                let mut data = self.files[&file].clone();
                if size < data.len().saturating_sub(1) / 500 * 500 {
                    // A cut that removes nodes is durable when it returns.
                    settled.push(file);
                }
                data.truncate(size);
                self.becomes(file, Some(data));
                self.fs.truncate(handle, size as u32).unwrap();
            }
            Close(file) => {
                let handle = self.handles.remove(&file).unwrap();
                self.fs.close(handle).unwrap();
                settled.push(file);
            }
            Delete(file) => {
                self.becomes(file, None);
                self.fs.delete(name(file).as_bytes()).unwrap();
                settled.push(file);
            }
            Rename(from, to) => {
                let data = self.files.get(&from).cloned();
                self.becomes(to, data);
                self.becomes(from, None);
                self.fs
                    .rename(name(from).as_bytes(), name(to).as_bytes())
                    .unwrap();
                if let Some(handle) = self.handles.remove(&from) {
                    self.handles.insert(to, handle);
                }
                renamed = Some((from, to));
                settled.extend([from, to]);
            }
            Sync => {
                self.fs.sync().unwrap();
                settled.extend(self.pending.keys());
            }
            Clean(budget) => {
                self.fs.clean(budget).unwrap();
            }
        }
        let step = Step {
            op,
            end: self.fs.device().len(),
            pending: self.pending.clone(),
            renamed,
        };
        for file in settled {
            self.durable(file);
        }
        step
    }

    fn write(&mut self, file: u8, at: usize, len: usize) {
        let handle = self.handle(file);
        let mut data = self.files[&file].clone();
        let at = at.min(data.len());
        let new = content(self.tag, at, len);
        data.resize(data.len().max(at + len), 0);
        data[at..at + len].copy_from_slice(&new);
        self.becomes(file, Some(data));
        self.fs.seek(handle, at as u32).unwrap();
        match self.fs.write(handle, &new) {
            Ok(()) => {}
            Err(Error::Full) => {
                // What fits is there.
                let done = self.fs.position(handle).unwrap() as usize - at;
                let changes = self.pending.get_mut(&file).unwrap();
                let last = changes.last_mut().unwrap();
                let mut held = last.from.clone().unwrap();
                held.resize(held.len().max(at + done), 0);
                held[at..at + done].copy_from_slice(&new[..done]);
                last.to = Some(held.clone());
                self.files.insert(file, held);
            }
            Err(e) => panic!("{e:?}"),
        }
    }
}

/// Fails unless the card holds what it may hold after a cut in this step.
pub fn verify(card: SimCard, before: &Files, step: &Step, what: &str) -> SimCard {
    let mut fs: NanoFs<SimCard> = NanoFs::new(card);
    if let Err(e) = fs.mount(KEY) {
        panic!("{what}: mount: {e:?}");
    }
    assert_sound(fs.device(), what);
    let tree = read_tree(&mut fs).unwrap_or_else(|e| panic!("{what}: read: {e:?}"));
    let held = |file: u8| tree.get(&name(file));
    let known: BTreeSet<u8> = before.keys().chain(step.pending.keys()).copied().collect();
    for file in &known {
        let found = held(*file);
        let fits = match step.pending.get(file) {
            None => found == before.get(file),
            Some(changes) => changes.iter().any(|change| change.allows(found)),
        };
        let sizes = |data: &Option<Vec<u8>>| data.as_ref().map(Vec::len);
        assert!(
            fits,
            "{what}: file{file}: {:?} bytes; expected {:?} or {:?}",
            found.map(Vec::len),
            before.get(file).map(Vec::len),
            step.pending.get(file).map(|changes| changes
                .iter()
                .map(|c| (sizes(&c.from), sizes(&c.to)))
                .collect::<Vec<_>>()),
        );
    }
    assert!(tree.len() <= known.len(), "{what}: {:?}", tree.keys());
    if let Some((from, to)) = step.renamed {
        assert!(
            held(from).is_some() != held(to).is_some(),
            "{what}: a rename left {:?}",
            tree.keys()
        );
    }
    go_on(&mut fs, &tree, what);
    fs.into_device()
}

/// The volume can be used, and cut again.
fn go_on(fs: &mut NanoFs<SimCard>, tree: &BTreeMap<String, Vec<u8>>, what: &str) {
    let mut tree = tree.clone();
    for (name, data) in &mut tree {
        let handle = fs.open(name.as_bytes()).unwrap();
        let more = content(77, data.len(), 1_300);
        match fs.append(handle, &more) {
            Ok(()) => data.extend(&more),
            Err(Error::Full) => data.truncate(0),
            Err(e) => panic!("{what}: {name}: {e:?}"),
        }
    }
    fs.sync().unwrap_or_else(|e| panic!("{what}: sync: {e:?}"));
    let mut fs: NanoFs<SimCard> = mounted(fs.device().clone());
    assert_sound(fs.device(), &format!("{what}: gone on"));
    let found = read_tree(&mut fs).unwrap_or_else(|e| panic!("{what}: read on: {e:?}"));
    for (name, data) in &tree {
        assert!(
            data.is_empty() || found[name] == *data,
            "{what}: {name} after going on"
        );
    }
    while fs
        .clean(1_000)
        .unwrap_or_else(|e| panic!("{what}: clean: {e:?}"))
    {}
    assert_sound(fs.device(), &format!("{what}: cleaned"));
}

pub const CUTS: [CardCut; 9] = [
    CardCut::Before,
    CardCut::Half,
    CardCut::Garbage,
    CardCut::Unreadable,
    CardCut::Last,
    CardCut::Lost,
    CardCut::Some(1),
    CardCut::Some(2),
    CardCut::Some(3),
];

/// Runs a script on a card, and cuts it at every `every`-th operation; the recovery from each is
/// cut at every operation too.
fn search<const N: usize>(script: &str, card: &SimCard, ops: &[Op], every: usize) {
    let every = if std::env::var("NANOFS_CUTS").is_ok_and(|v| v == "all") {
        1
    } else {
        every
    };
    let mut run = Run::<N>::new(card.clone());
    let mut steps = Vec::new();
    let mut files = vec![run.files.clone()];
    for &op in ops {
        steps.push(run.step(op));
        files.push(run.files.clone());
    }
    let log = run.fs.into_device();
    let mut start = 0;
    for (i, step) in steps.iter().enumerate() {
        for at in start..step.end {
            if !log.can_cut(at) || !at.is_multiple_of(every) && every > 1 {
                continue;
            }
            for cut in CUTS {
                let (op, told) = (step.op, log.describe(at));
                let what = format!("{script}, step {i} {op:?}, operation {at}, {told}, {cut:?}");
                cut_twice(log.after(at, cut), &files[i], step, &what);
            }
        }
        start = step.end;
    }
}

/// Recovers, and recovers from cuts in that.
fn cut_twice(card: SimCard, before: &Files, step: &Step, what: &str) {
    let mut fs: NanoFs<CardLog> = NanoFs::new(CardLog::new(card.clone()));
    if let Err(e) = fs.mount(KEY) {
        panic!("{what}: mount: {e:?}");
    }
    let log = fs.into_device();
    verify(card, before, step, what);
    for at in 0..log.len() {
        if log.can_cut(at) {
            // Each way in turn: the first cut has all of them.
            let cut = CUTS[(at * 5 + what.len()) % CUTS.len()];
            let what = format!("{what}; then {at}, {}, {cut:?}", log.describe(at));
            verify(log.after(at, cut), before, step, &what);
        }
    }
}

fn card() -> SimCard {
    formatted(200, 4)
}

#[test]
fn appends() {
    let ops = [
        Create(1),
        Append(1, 100),
        Sync,
        Append(1, 399),
        Append(1, 1),
        Sync,
        Append(1, 1_700),
        Sync,
        Append(1, 10),
        Sync,
        Append(1, 10),
        Close(1),
        Append(1, 500),
        Append(1, 500),
        Sync,
        Append(1, 2_000),
        Append(1, 250),
        Close(1),
    ];
    search::<3>("appends", &card(), &ops, 1);
}

/// Nodes that wait in a larger buffer are written in one command.
#[test]
fn appends_through_a_buffer_of_four_blocks() {
    let ops = [
        Create(1),
        Append(1, 1_700),
        Sync,
        Append(1, 4_100),
        Append(1, 900),
        Sync,
        Write(1, 1_400, 900),
        Append(1, 2_600),
        Truncate(1, 3_000),
        Append(1, 1_800),
        Close(1),
    ];
    search::<6>("buffer of four", &card(), &ops, 1);
}

#[test]
fn two_files_in_turn() {
    let mut ops = vec![Create(1), Create(2)];
    for i in 0..12 {
        ops.extend([Append(1, 60 + 90 * i), Append(2, 700 - 40 * i)]);
        if i % 4 == 3 {
            ops.push(Sync);
        }
    }
    search::<3>("two files", &card(), &ops, 2);
}

#[test]
fn overwrites() {
    let ops = [
        Create(1),
        Append(1, 4_200),
        Sync,
        Write(1, 700, 10),
        Write(1, 700, 10),
        Write(1, 400, 1_200),
        Sync,
        Write(1, 3_900, 250),
        Clean(2_000),
        Write(1, 4_000, 600),
        Write(1, 0, 4_600),
        Close(1),
        Write(1, 100, 3),
        Clean(2_000),
        Clean(2_000),
        Append(1, 900),
        Sync,
    ];
    search::<3>("overwrites", &card(), &ops, 1);
}

#[test]
fn cuts_of_files() {
    let ops = [
        Create(1),
        Append(1, 5_250),
        Sync,
        Truncate(1, 5_100),
        Sync,
        Truncate(1, 3_333),
        Append(1, 900),
        Sync,
        Truncate(1, 1_500),
        Append(1, 700),
        Clean(2_000),
        Append(1, 700),
        Write(1, 600, 100),
        Truncate(1, 0),
        Append(1, 3_000),
        Sync,
        Clean(2_000),
        Close(1),
    ];
    search::<3>("cuts of files", &card(), &ops, 1);
}

#[test]
fn names() {
    let ops = [
        Create(1),
        Append(1, 2_600),
        Close(1),
        Create(2),
        Append(2, 1_300),
        Rename(1, 3),
        Append(2, 300),
        Sync,
        Rename(2, 1),
        Delete(3),
        Create(4),
        Append(4, 600),
        Clean(2_000),
        Create(2),
        Close(2),
        Delete(2),
        Clean(2_000),
        Create(3),
        Append(3, 100),
        Close(4),
        Delete(4),
        Clean(2_000),
        Append(1, 800),
        Sync,
    ];
    search::<3>("names", &card(), &ops, 1);
}

#[test]
fn a_full_card() {
    let ops = [
        Create(1),
        Append(1, 9_000),
        Create(2),
        Append(2, 9_000),
        Sync,
        Append(1, 9_000),
        Sync,
        Close(2),
        Delete(2),
        Append(1, 4_000),
        Write(1, 500, 2_000),
        Sync,
        Truncate(1, 0),
        Append(1, 3_000),
        Sync,
    ];
    search::<3>("a full card", &formatted(52, 4), &ops, 3);
}

/// What is seen of an epoch in a node comes round; old nodes are not taken for new ones then.
#[test]
fn epochs_come_round() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(100, 2));
    let file = fs.create(b"f").unwrap();
    let mut data = content(0, 0, 6_100);
    fs.write(file, &data).unwrap();
    fs.truncate(file, 2_700).unwrap();
    data.truncate(2_700);
    for i in 0..1_200 {
        // The next node goes where an old one with its index is; this begins an epoch.
        let new = content(i, 2_400, 200);
        fs.seek(file, 2_400).unwrap();
        fs.write(file, &new).unwrap();
        data[2_400..2_600].copy_from_slice(&new);
        let mut cut: NanoFs<SimCard> = mounted(fs.device().clone());
        assert!(read_tree(&mut cut).unwrap()["f"] == data, "{i}");
        // So does each mount of a file that was open.
        if i % 5 == 0 {
            fs = mounted(fs.into_device());
            fs.open(b"f").unwrap();
        }
    }
    assert_sound(mounted::<_, 3>(fs.into_device()).device(), "in the end");
}

/// Blocks that held nodes of the same file before come again.
#[test]
fn old_nodes_are_not_taken_for_new_ones() {
    let mut ops = vec![Create(1)];
    for i in 0..4 {
        ops.extend([
            Append(1, 2_600),
            Sync,
            Truncate(1, 500 * i),
            Clean(2_000),
            Append(1, 1_100),
            Append(1, 1_000),
        ]);
    }
    search::<3>("old nodes", &formatted(44, 4), &ops, 2);
}

/// A format is cut, and done again with the same seed, as firmware does that has no random number:
/// no file of the volume before comes back, on a bitmap that calls its blocks free.
#[test]
fn a_format_that_is_done_again() {
    let mut fs: NanoFs<SimCard> = NanoFs::new(SimCard::new(200, CardTiming::default()));
    fs.format(KEY, 8, 1).unwrap();
    for i in 0..6 {
        let file = fs.create(name(i).as_bytes()).unwrap();
        fs.write(file, &content(i.into(), 0, 3_000)).unwrap();
        fs.close(file).unwrap();
    }
    let mut fs: NanoFs<CardLog> = NanoFs::new(CardLog::new(fs.into_device()));
    fs.format(KEY, 8, 1).unwrap();
    let log = fs.into_device();
    for at in (0..log.len()).filter(|&at| log.can_cut(at)) {
        for cut in CUTS {
            let mut fs: NanoFs<SimCard> = NanoFs::new(log.after(at, cut));
            // The program may have looked, and has found a volume or none.
            let found = fs.mount(KEY);
            fs.format(KEY, 8, 1).unwrap();
            for new in 0..4 {
                let what = format!("{}, {cut:?}, {found:?}, {new} files", log.describe(at));
                fs = mounted(fs.into_device());
                assert_eq!(read_tree(&mut fs).unwrap().len(), new, "{what}");
                assert_sound(fs.device(), &what);
                fs.create(format!("new{new}").as_bytes()).unwrap();
            }
        }
    }
}

//! Cuts at every point of a script, and again in the recoveries.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use flashkit_flashlight::{Config, FlashLight, New, ram_needed};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{ChipSpec, Metered, SimNand, Timing};
use flashkit_vfs::check::check;
use flashkit_vfs::flashlight::FlashLightFs;
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr, Time, path};

use super::model::{Content, Model, Seen, fill};
use super::recorder::{Point, Recorder, Way};
use super::script::{self, Op};

/// A chip that insists on everything.
pub fn chip(page: u32, spare: u32, pages: u32, blocks: u32) -> SimNand {
    let geo = Geometry::new(page, spare, pages, blocks).unwrap();
    let timing = Timing {
        read_ns: 77_800,
        program_ns: 252_800,
        erase_ns: 1_500_000,
    };
    let mut chip = SimNand::new(ChipSpec::new(geo, timing).with_raw_spare(128).unwrap());
    chip.require_first_erase(true);
    chip
}

/// How wide and how deep to search.
#[derive(Clone)]
pub struct Search {
    pub name: String,
    pub chip: (u32, u32, u32, u32),
    /// Tears at each point of the script; all: `usize::MAX`.
    pub ways: usize,
    /// Cuts of the recovery, of the recovery from that, and so on: tears at each point.
    pub deep: Vec<usize>,
    /// Only every so many points of the script; all points of operations that make many.
    pub every: usize,
    pub unstable: bool,
    pub strict: bool,
    pub config: Config,
    /// Operations at the beginning that are not cut.
    pub skip: usize,
}

impl Search {
    pub fn new(name: impl Into<String>) -> Search {
        Search {
            name: name.into(),
            chip: (2048, 40, 16, 96),
            ways: usize::MAX,
            deep: vec![],
            every: 1,
            unstable: false,
            strict: false,
            config: Config::default(),
            skip: 0,
        }
    }
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// By kind: how often, the first example.
    pub failures: BTreeMap<String, (usize, String)>,
    pub mounts: u64,
    pub points: u64,
}

impl Found {
    fn add(&mut self, what: &str, example: impl FnOnce() -> String) {
        let line = what.lines().next().unwrap_or("");
        let class: String = line
            .chars()
            .map(|c| if c.is_ascii_digit() { '#' } else { c })
            .collect();
        let entry = self
            .failures
            .entry(class)
            .or_insert_with(|| (0, format!("{}: {what}", example())));
        entry.0 += 1;
    }

    pub fn merge(&mut self, other: Found) {
        for (class, (n, example)) in other.failures {
            self.failures.entry(class).or_insert((0, example)).0 += n;
        }
        self.mounts += other.mounts;
        self.points += other.points;
    }

    pub fn text(&self) -> String {
        self.failures
            .values()
            .map(|(n, example)| format!("{n} times, first: {example}\n"))
            .collect()
    }
}

thread_local! {
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static CATCHING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs `f`; a panic becomes an error.
fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CATCHING.with(|c| *c.borrow()) {
                CAUGHT.with(|c| *c.borrow_mut() = Some(info.to_string()));
            } else {
                usual(info);
            }
        }));
    });
    CATCHING.with(|c| *c.borrow_mut() = true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.with(|c| *c.borrow_mut() = false);
    result.unwrap_or_else(|_| {
        let what = CAUGHT.with(|c| c.borrow_mut().take()).unwrap_or_default();
        Err(format!("panic: {}", what.replace('\n', " ")))
    })
}

fn ram(chip: &impl Nand) -> Vec<u8> {
    vec![0; ram_needed(&chip.geometry())]
}

fn leaked(chip: &impl Nand) -> &'static mut [u8] {
    Box::leak(ram(chip).into_boxed_slice())
}

/// A formatted volume.
pub fn formatted(chip: SimNand) -> SimNand {
    let ram = leaked(&chip);
    FlashLight::format(chip, ram, 0x1234, &New::default()).unwrap()
}

fn content<N: Nand + Metered>(
    fs: &mut FlashLightFs<'_, N>,
    ino: Ino,
    size: u64,
) -> Result<Content, Error> {
    let ps = fs.statfs()?.block_size as usize;
    let mut content = Content {
        size,
        ..Content::default()
    };
    let mut buf = vec![0; ps];
    for index in 0..size.div_ceil(ps as u64) {
        buf.fill(0);
        fs.read(ino, index * ps as u64, &mut buf)?;
        content.set_page(index as u32, &buf);
    }
    Ok(content)
}

/// Reads the whole tree, and compares the names of each file with its link count. `inos` collects
/// inode numbers.
pub fn observe<N: Nand + Metered>(
    fs: &mut FlashLightFs<'_, N>,
    inos: &mut HashSet<Ino>,
) -> Result<Seen, String> {
    let (root, mut links) = (fs.root(), BTreeMap::new());
    let seen = observe_dir(fs, root, "", inos, &mut links)?;
    for (ino, names) in links {
        let nlink = fs
            .getattr(ino)
            .map_err(|e| format!("{e}: inode {ino}"))?
            .nlink;
        if nlink != names {
            return Err(format!(
                "inode {ino} has {names} names and link count {nlink}"
            ));
        }
    }
    Ok(seen)
}

fn observe_dir<N: Nand + Metered>(
    fs: &mut FlashLightFs<'_, N>,
    dir: Ino,
    at: &str,
    inos: &mut HashSet<Ino>,
    links: &mut BTreeMap<Ino, u32>,
) -> Result<Seen, String> {
    let mut entries = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        entries.push(e);
        entries.len() < 100_000
    })
    .map_err(|e| format!("listing fails with {e}: {at}/"))?;
    let attr = fs.getattr(dir).map_err(|e| format!("{e}: {at}/"))?;
    if attr.size != entries.len() as u64 {
        return Err(format!(
            "directory says {} entries, shows {}: {at}/",
            attr.size,
            entries.len()
        ));
    }
    let mut names = BTreeMap::new();
    for entry in entries {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let path = format!("{at}/{name}");
        let attr = fs
            .lookup(dir, &entry.name)
            .map_err(|e| format!("lookup of a listed name fails with {e}: {path}"))?;
        if attr.ino != entry.ino || attr.kind != entry.kind {
            return Err(format!("listing and lookup differ: {path}"));
        }
        if !inos.insert(attr.ino) && attr.kind == FileKind::Dir {
            return Err(format!("inode number twice: {path}"));
        }
        if attr.kind != FileKind::Dir {
            *links.entry(attr.ino).or_default() += 1;
        }
        let seen = match attr.kind {
            FileKind::Dir => observe_dir(fs, attr.ino, &path, inos, links)?,
            FileKind::File => Seen::File(
                attr.ino,
                content(fs, attr.ino, attr.size)
                    .map_err(|e| format!("reading fails with {e}: {path}"))?,
            ),
            FileKind::Symlink => {
                let target = fs
                    .readlink(attr.ino)
                    .map_err(|e| format!("readlink fails with {e}: {path}"))?;
                let mut content = Content {
                    size: target.len() as u64,
                    ..Content::default()
                };
                let ps = fs.statfs().map_err(|e| e.to_string())?.block_size as usize;
                for (i, part) in target.chunks(ps).enumerate() {
                    let mut page = part.to_vec();
                    page.resize(ps, 0);
                    content.set_page(i as u32, &page);
                }
                Seen::Link(attr.ino, content)
            }
        };
        if names.insert(name, seen).is_some() {
            return Err(format!("listed twice: {path}"));
        }
    }
    Ok(Seen::Dir(names))
}

fn check_clean<N: Nand + Metered>(
    fs: &mut FlashLightFs<'_, N>,
    inos: &HashSet<Ino>,
) -> Result<(), String> {
    let checked = check(fs.volume())?;
    if let Some(first) = checked.findings.first() {
        return Err(format!("check: {} ({:#?})", first.what, checked.findings));
    }
    let dirs = inos.iter().filter(|&&ino| ino < 1 << 20).count() as u64;
    let files = inos.len() as u64 - dirs;
    if (checked.dirs, checked.files) != (dirs + 2, files) {
        return Err(format!(
            "check counts {} directories and {} files, the tree has {} and {files}",
            checked.dirs,
            checked.files,
            dirs + 2
        ));
    }
    Ok(())
}

/// Mounts a chip and looks at everything, no more.
pub fn look(
    chip: SimNand,
    config: Config,
    allows: &dyn Fn(&Seen) -> Result<(), String>,
) -> Result<(), String> {
    let mut memory = ram(&chip);
    let size = memory.len();
    let volume = FlashLight::mount(chip, &mut memory, config).map_err(|e| e.to_string())?;
    let (mut fs, mut inos) = (FlashLightFs::new(volume, size), HashSet::new());
    allows(&observe(&mut fs, &mut inos)?)?;
    match check(fs.volume())?.findings.first() {
        Some(first) => Err(format!("check: {first:?}")),
        None => Ok(()),
    }
}

const PROBE: &[u8] = b"~probe";

/// Mounts a chip, looks at everything, uses it, and mounts it again. Returns the points of the
/// first mount and what was seen.
pub fn survive(
    chip: SimNand,
    config: Config,
    allows: &dyn Fn(&Seen) -> Result<(), String>,
) -> Result<(Vec<Point>, Seen, SimNand), String> {
    caught(|| {
        let mut memory = ram(&chip);
        let size = memory.len();
        let volume = FlashLight::mount(Recorder::new(chip), &mut memory, config)
            .map_err(|e| format!("mount fails: {e}"))?;
        let mut fs = FlashLightFs::new(volume, size);
        let points = std::mem::take(&mut fs.volume().nand_mut().points);
        fs.volume().nand_mut().recording = false;
        let root = fs.root();
        let mut inos = HashSet::new();
        let seen = observe(&mut fs, &mut inos)?;
        allows(&seen)?;
        check_clean(&mut fs, &inos)?;
        let data = fill(99, 0, 3000);
        let mut probed = true;
        let made = fs.create(root, PROBE, &NewInode::default());
        match made.and_then(|attr| fs.write(attr.ino, 0, &data, Time::default()).map(|()| attr)) {
            Ok(attr) => {
                if !inos.insert(attr.ino) {
                    return Err("a new file gets a number in use".into());
                }
                fs.fsync(attr.ino).map_err(|e| format!("fsync: {e}"))?;
            }
            Err(Error::NoSpace) => {
                probed = false;
                match fs.unlink(root, PROBE, Time::default()) {
                    Ok(()) | Err(Error::NotFound) => {}
                    Err(e) => return Err(format!("unlink of the probe: {e}")),
                }
            }
            Err(e) => return Err(format!("the volume is not writable: {e}")),
        }
        check_clean(&mut fs, &inos).map_err(|e| format!("after a write: {e}"))?;
        let chip = fs
            .into_volume()
            .unmount()
            .map_err(|(_, e)| format!("unmount fails: {e}"))?
            .into_inner();
        let after = chip.clone();

        let mut memory = ram(&chip);
        let volume = FlashLight::mount(Recorder::new(chip), &mut memory, config)
            .map_err(|e| format!("second mount fails: {e}"))?;
        if volume.nand().changes > 0 {
            return Err("the mount after a clean unmount writes".into());
        }
        let mut fs = FlashLightFs::new(volume, size);
        let mut again_inos = HashSet::new();
        let mut again = observe(&mut fs, &mut again_inos)?;
        if let Seen::Dir(names) = &mut again {
            match names.remove("~probe") {
                Some(Seen::File(_, c)) if probed && c.size == 3000 => {}
                None if !probed => {}
                other => return Err(format!("after the second mount the probe is {other:?}")),
            }
        }
        if again.text() != seen.text() {
            return Err(format!(
                "the second mount shows another tree\n  {}\n instead of\n  {}",
                again.text(),
                seen.text()
            ));
        }
        if again_inos != inos {
            return Err("the second mount shows other inode numbers".into());
        }
        check_clean(&mut fs, &inos).map_err(|e| format!("second mount: {e}"))?;
        Ok((points, seen, after))
    })
}

/// A running volume and its model.
pub struct Run {
    pub fs: Option<FlashLightFs<'static, Recorder>>,
    pub model: Model,
    open: Vec<Ino>,
    config: Config,
}

impl Run {
    pub fn new(chip: SimNand, config: Config) -> Run {
        let page_size = chip.geometry().page_size() as usize;
        let mut run = Run {
            fs: None,
            model: Model::new(page_size),
            open: Vec::new(),
            config,
        };
        run.mount(Recorder::new(chip)).unwrap();
        run
    }

    fn mount(&mut self, chip: Recorder) -> Result<(), String> {
        let ram = leaked(&chip);
        let size = ram.len();
        let volume = FlashLight::mount(chip, ram, self.config).map_err(|e| e.to_string())?;
        self.fs = Some(FlashLightFs::new(volume, size));
        Ok(())
    }

    pub fn points(&mut self) -> &mut Vec<Point> {
        &mut self.fs.as_mut().unwrap().volume().nand_mut().points
    }

    /// Removes what [`survive`] may have left.
    pub fn remove_probe(&mut self) {
        let fs = self.fs.as_mut().unwrap();
        let root = fs.root();
        if fs.unlink(root, PROBE, Time::default()).is_ok() {
            fs.sync().unwrap();
        }
    }

    /// The chip as it is.
    pub fn chip(&mut self) -> &SimNand {
        self.fs.as_mut().unwrap().volume().nand().chip()
    }

    fn attempt(&mut self, op: &Op) -> Result<(), Error> {
        let fs = self.fs.as_mut().unwrap();
        let now = Time::default();
        let new = NewInode::default();
        let ino = |fs: &mut FlashLightFs<'static, Recorder>, p: &str| {
            path::resolve(fs, p.as_bytes()).map(|attr| attr.ino)
        };
        let n = self.model.next_write();
        match op {
            Op::Create(p) => {
                let (dir, name) = path::resolve_parent(fs, p.as_bytes())?;
                fs.create(dir, name, &new)?;
            }
            Op::Symlink(p, len) => {
                let (dir, name) = path::resolve_parent(fs, p.as_bytes())?;
                fs.symlink(dir, name, &fill(n - 1, 0, *len), &new)?;
            }
            Op::Write(p, offset, len) => {
                let ino = ino(fs, p)?;
                fs.write(ino, *offset, &fill(n - 1, *offset, *len), now)?;
            }
            Op::Truncate(p, size) => {
                let ino = ino(fs, p)?;
                let set = SetAttr {
                    size: Some(*size),
                    ..SetAttr::default()
                };
                fs.setattr(ino, &set)?;
            }
            Op::Unlink(p) => {
                let (dir, name) = path::resolve_parent(fs, p.as_bytes())?;
                fs.unlink(dir, name, now)?;
            }
            Op::Rename(p, q) => {
                let (from, old) = path::resolve_parent(fs, p.as_bytes())?;
                let (to, name) = path::resolve_parent(fs, q.as_bytes())?;
                fs.rename(from, old, to, name, false, now)?;
            }
            Op::Link(p, q) => {
                let ino = ino(fs, p)?;
                let (dir, name) = path::resolve_parent(fs, q.as_bytes())?;
                fs.link(ino, dir, name, now)?;
            }
            Op::Mkdir(p) => {
                let (dir, name) = path::resolve_parent(fs, p.as_bytes())?;
                fs.mkdir(dir, name, &new)?;
            }
            Op::Rmdir(p) => {
                let (dir, name) = path::resolve_parent(fs, p.as_bytes())?;
                fs.rmdir(dir, name, now)?;
            }
            Op::Fsync(p) => {
                let ino = ino(fs, p)?;
                fs.fsync(ino)?;
            }
            Op::Open(p) => {
                let ino = ino(fs, p)?;
                fs.open(ino)?;
                self.open.push(ino);
            }
            Op::Close => {
                let ino = self.open.remove(0);
                if fs.getattr(ino)?.nlink == 0 {
                    match fs.write(ino, 100, &fill(1, 0, 3000), now) {
                        Ok(()) | Err(Error::NoSpace) => {}
                        Err(e) => return Err(e),
                    }
                    fs.fsync(ino)?;
                }
                fs.release(ino)?;
            }
            Op::Read(p) => {
                let attr = path::resolve(fs, p.as_bytes())?;
                if attr.kind == FileKind::File {
                    content(fs, attr.ino, attr.size)?;
                }
            }
            Op::Sync => fs.sync()?,
            Op::Gc => {
                fs.gc(64)?;
            }
            Op::Remount => {
                for ino in self.open.drain(..) {
                    fs.release(ino)?;
                }
                let fs = self.fs.take().unwrap();
                let chip = fs
                    .into_volume()
                    .unmount()
                    .map_err(|(_, e)| Error::Io(e.to_string()))?;
                self.mount(chip).map_err(Error::Io)?;
            }
        }
        Ok(())
    }

    /// Does an operation that [`Model::begin`] found sensible; the model is not told yet.
    pub fn execute(&mut self, op: &Op) -> Result<Outcome, String> {
        caught(|| match self.attempt(op) {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::NoSpace) => {
                let mut found = None;
                if let Op::Write(p, ..) | Op::Truncate(p, _) = op {
                    let fs = self.fs.as_mut().unwrap();
                    let attr = path::resolve(fs, p.as_bytes()).map_err(|e| e.to_string())?;
                    found = Some(content(fs, attr.ino, attr.size).map_err(|e| e.to_string())?);
                }
                Ok(Outcome::Full(found))
            }
            Err(e) => Err(format!("the operation fails: {e}")),
        })
    }
}

pub enum Outcome {
    Done,
    Full(Option<Content>),
}

fn chosen(ways: &'static [Way], want: usize, number: usize) -> impl Iterator<Item = (usize, Way)> {
    let n = ways.len();
    (0..want.min(n)).map(move |j| {
        let i = if want >= n {
            j
        } else {
            (number * 5 + j * 7) % n
        };
        (i, ways[i])
    })
}

impl Search {
    /// Cuts a script everywhere.
    pub fn run(&self, ops: &[Op]) -> Found {
        let only = only(&self.name);
        let mut found = Found::default();
        let (page, spare, pages, blocks) = self.chip;
        let mut run = Run::new(formatted(chip(page, spare, pages, blocks)), self.config);
        run.model.strict = self.strict;
        run.points().clear();
        let mut number = 0;
        for (step, op) in ops.iter().enumerate() {
            if !run.model.begin(op) {
                continue;
            }
            let outcome = match run.execute(op) {
                Ok(outcome) => outcome,
                Err(what) => {
                    found.add(&what, || format!("{} step {step} ({op})", self.name));
                    return found;
                }
            };
            let points = std::mem::take(run.points());
            if std::env::var("FLASHKIT_CUT_VERBOSE").is_ok() {
                for point in &points {
                    println!("{op}: {}", point.what());
                }
            }
            let all = points.len() > 6;
            for point in &points {
                number += 1;
                let wanted = match &only {
                    Some(path) => path[0].0 == number,
                    None => step >= self.skip && (all || number % self.every == 0),
                };
                if !wanted {
                    continue;
                }
                found.points += 1;
                let allows = |seen: &Seen| run.model.allows(seen);
                let before = found.failures.len();
                self.explore(
                    point,
                    number,
                    &mut vec![],
                    &only,
                    &allows,
                    &mut found,
                    &|| format!("step {step} ({op})"),
                );
                if found.failures.len() > before && found.failures.len() > 20 {
                    return found;
                }
            }
            match outcome {
                Outcome::Done => run.model.finish(op),
                Outcome::Full(content) => run.model.fail(op, content),
            }
            // The cut may also come while nothing is written.
            if only.is_none() && step >= self.skip && (self.every == 1 || step + 1 == ops.len()) {
                found.mounts += 1;
                let now = run.chip().clone();
                let allows = |seen: &Seen| run.model.allows(seen);
                if let Err(what) = survive(now, self.config, &allows) {
                    found.add(&what, || format!("{} after step {step} ({op})", self.name));
                }
            }
        }
        found
    }

    #[allow(clippy::too_many_arguments)]
    fn explore(
        &self,
        point: &Point,
        number: usize,
        path: &mut Vec<(usize, usize)>,
        only: &Option<Vec<(usize, usize)>>,
        allows: &dyn Fn(&Seen) -> Result<(), String>,
        found: &mut Found,
        place: &dyn Fn() -> String,
    ) {
        let level = path.len();
        let ways = point.ways(self.unstable && level == 0);
        let want = match (only, level) {
            (Some(_), _) => usize::MAX,
            (None, 0) => self.ways,
            (None, n) => self.deep[n - 1],
        };
        for (w, way) in chosen(ways, want, number) {
            if only.as_ref().is_some_and(|only| only[level] != (number, w)) {
                continue;
            }
            path.push((number, w));
            found.mounts += 1;
            match survive(point.cut(way), self.config, allows) {
                Ok((points, ..)) => {
                    let deeper = match only {
                        Some(only) => level + 1 < only.len(),
                        None => level < self.deep.len(),
                    };
                    for (n, point) in points.iter().enumerate().filter(|_| deeper) {
                        if only.is_some() {
                            println!("recovery {n}: {}", point.what());
                        }
                        if only.as_ref().is_none_or(|only| only[level + 1].0 == n) {
                            self.explore(point, n, path, only, allows, found, place);
                        }
                    }
                }
                Err(what) => {
                    if std::env::var("FLASHKIT_CUT_VERBOSE").is_ok() {
                        let line = what.lines().next().unwrap_or("");
                        println!("{path:?} {} {way:?} {} {line}", place(), point.what());
                    }
                    let id: Vec<String> = path.iter().map(|(n, w)| format!("{n}.{w}")).collect();
                    found.add(&what, || {
                        format!(
                            "FLASHKIT_CUT={}:{} {} {way:?}",
                            self.name,
                            id.join(":"),
                            place()
                        )
                    });
                }
            }
            path.pop();
        }
    }

    /// Leaves out operations as long as something of the same kind is found.
    pub fn shrink(&self, ops: &[Op], class: &str) -> Vec<Op> {
        let mut ops = ops.to_vec();
        let mut size = ops.len() / 2;
        while size > 0 {
            let mut i = 0;
            while i < ops.len() {
                let mut fewer = ops.clone();
                fewer.drain(i..(i + size).min(ops.len()));
                if self.run(&fewer).failures.contains_key(class) {
                    ops = fewer;
                } else {
                    i += size;
                }
            }
            size /= 2;
        }
        ops
    }

    /// Runs, and panics with what was found and the shortest script that shows each.
    pub fn demand(&self, ops: &[Op]) -> Found {
        let start = std::time::Instant::now();
        let found = self.run(ops);
        println!(
            "{}: {} points, {} mounts, {:.1} s",
            self.name,
            found.points,
            found.mounts,
            start.elapsed().as_secs_f64()
        );
        if found.failures.is_empty() {
            return found;
        }
        let mut text = found.text();
        if std::env::var("FLASHKIT_CUT_SHRINK").is_ok() {
            for class in found.failures.keys().take(6) {
                let short = self.shrink(ops, class);
                text += &format!("{class}\n  by: {}\n", script::text(&short));
            }
        }
        panic!("{text}");
    }
}

/// The cuts to replay, of a script of this name: `FLASHKIT_CUT=name:12.3:0.2`.
fn only(name: &str) -> Option<Vec<(usize, usize)>> {
    let id = std::env::var("FLASHKIT_CUT").ok()?;
    let rest = id.strip_prefix(name)?.strip_prefix(':')?;
    let pairs = rest.split(':').map(|pair| {
        let (n, w) = pair.split_once('.').unwrap();
        (n.parse().unwrap(), w.parse().unwrap())
    });
    Some(pairs.collect())
}

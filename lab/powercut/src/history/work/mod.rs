//! Operations on a mounted volume and on its model.

mod names;
mod orphans;
mod turns;

use flashkit_flashlight::Error as VolumeError;
use flashkit_sim::Rng;
use flashkit_vfs::{Attr, Error, FileSystem, NewInode, Patrol, SetAttr, SetXattr, Time};

use super::Histories;
use super::bytes::{Bytes, What, Xattrs, stamp};
use super::look::{Fs, is_off, read, xattr_value};
use super::model::{Entry, Id, Model, ROOT};
use super::plan::{Kind, Large, Plan, name_of};
use turns::Turn;

/// Why a session goes no further.
pub(super) enum Stop {
    Cut,
    /// The volume is worn out.
    Worn,
    /// A call has failed, as it may where pages cannot be read for a while.
    Shaken,
    Bad(String),
}

type Done = Result<(), Stop>;
/// A name: its directory, and the name in that.
type At = (Id, String);

/// See the module's text.
pub(super) struct Work<'w, 'r, 'c> {
    pub fs: &'w mut Fs<'r, 'c>,
    pub model: &'w mut Model,
    pub rng: &'w mut Rng,
    pub plan: &'w Plan,
    pub done: &'w mut Histories,
    /// What was begun last.
    pub text: &'w mut String,
    dirs: Vec<Id>,
    /// The one that was picked last.
    dir: Id,
    /// All pages can be read.
    pub calm: bool,
    /// So many operations make room first.
    pub tight: u32,
    /// Removals refused since the last that was not.
    stuck: u32,
    /// Open files without names.
    orphans: Vec<(u64, Bytes)>,
    turn: Turn,
}

/// Operations are told by the seconds, and by the rest too.
pub(super) fn time(op: u64) -> Time {
    Time {
        secs: op as i64,
        nanos: (op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000) as u32,
    }
}

impl<'w, 'r, 'c> Work<'w, 'r, 'c> {
    pub fn new(
        fs: &'w mut Fs<'r, 'c>,
        model: &'w mut Model,
        rng: &'w mut Rng,
        plan: &'w Plan,
        done: &'w mut Histories,
        text: &'w mut String,
    ) -> Self {
        let mut work = Work {
            fs,
            model,
            rng,
            plan,
            done,
            text,
            dirs: Vec::new(),
            dir: ROOT,
            calm: false,
            tight: 0,
            stuck: 0,
            orphans: Vec::new(),
            turn: Turn::default(),
        };
        work.list_dirs();
        work
    }

    fn list_dirs(&mut self) {
        self.dirs = vec![ROOT];
        let mut n = 0;
        while n < self.dirs.len() {
            let names = self.model.dir(self.dirs[n]).names.values();
            let below: Vec<Id> = names
                .filter_map(|e| match e {
                    Entry::Dir(d) => Some(*d),
                    Entry::File(_) => None,
                })
                .collect();
            self.dirs.extend(below);
            n += 1;
        }
    }

    /// What has come of a call: its result, or nothing when it was refused for want of space.
    fn came<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Stop> {
        match result {
            Ok(t) => {
                self.model.finish();
                Ok(Some(t))
            }
            Err(_) if is_off(self.fs) => Err(Stop::Cut),
            Err(Error::ReadOnly) if self.fs.volume().is_worn() => Err(Stop::Worn),
            Err(Error::NoSpace | Error::TooManyLinks) => {
                self.tight = 20;
                if self.model.is_at_work() {
                    self.done.full += 1;
                    self.model.undo();
                } else {
                    self.done.reads_full += 1;
                }
                Ok(None)
            }
            Err(e) => Err(self.failed(format!("fails: {e}"))),
        }
    }

    fn ino(&self, d: Id) -> u64 {
        self.model.dir(d).ino.unwrap_or(0)
    }

    fn begin(&mut self, text: std::fmt::Arguments<'_>) -> u64 {
        let op = self.model.begin();
        self.done.ops += 1;
        self.text.clear();
        let _ = std::fmt::Write::write_fmt(self.text, format_args!("operation {op}, {text}"));
        op
    }

    fn pick_dir(&mut self) -> Id {
        if !self.turn.stays && self.rng.one_in(self.plan.stay) || !self.dirs.contains(&self.dir) {
            self.dir = self.dirs[self.rng.below(self.dirs.len() as u64) as usize];
        }
        self.dir
    }

    /// A name that may be there or not.
    fn any_name(&mut self) -> At {
        let d = self.pick_dir();
        (d, name_of(self.rng.below(self.plan.names)))
    }

    /// A name that is there.
    fn pick(&mut self) -> Option<(At, Entry)> {
        for _ in 0..8 {
            let (d, name) = self.any_name();
            let names = &self.model.dir(d).names;
            let found = names.range(name..).next().or_else(|| names.iter().next());
            if let Some((name, entry)) = found {
                return Some(((d, name.clone()), *entry));
            }
        }
        None
    }

    /// A file or symbolic link, made known to the volume's adapter.
    fn pick_known(&mut self) -> Result<Option<(At, Id, Attr)>, Stop> {
        for _ in 0..8 {
            let Some((at, Entry::File(f))) = self.pick() else {
                continue;
            };
            let found = self.fs.lookup(self.ino(at.0), at.1.as_bytes());
            let Some(attr) = self.came(found)? else {
                return Ok(None);
            };
            let file = self.model.file(f);
            if Some(attr.ino) != file.ino || attr.size != file.bytes().size {
                let (ino, size) = (file.ino, file.bytes().size);
                let what = format!("{}: found {attr:?}, is {ino:?} of {size}", at.1);
                return Err(Stop::Bad(what));
            }
            return Ok(Some((at, f, attr)));
        }
        Ok(None)
    }

    fn pick_regular(&mut self) -> Result<Option<(At, Id, Attr)>, Stop> {
        let picked = self.pick_known()?;
        Ok(picked.filter(|(_, f, _)| !self.model.file(*f).symlink))
    }

    fn length(&mut self) -> u64 {
        let most = match self.plan.large {
            // Else a few would fill the chip.
            Large::Files => 64 * self.model.page,
            _ => self.plan.size_max,
        };
        match self.rng.below(100) {
            // What an inode holds of its file fills its page, nearly or just not.
            0..=9 => {
                self.rng.below(2) * self.model.page + self.model.page - 100 - self.rng.below(200)
            }
            10..=49 => self.rng.below(most.min(3 * self.model.page)),
            50..=89 => {
                let half = self.rng.below(u64::from(most.ilog2()) - 3);
                self.rng.below((most >> half).max(1))
            }
            _ => self.rng.below(most),
        }
    }

    /// Whether the volume is as full as it is to be.
    pub fn is_tight(&mut self) -> bool {
        let space = self.fs.volume().statfs();
        let used = u64::from(space.pages - space.pages_free) * 100;
        self.tight = self.tight.saturating_sub(1);
        self.tight > 0 || used >= u64::from(space.pages) * self.plan.fill
    }

    /// A step until the volume is as full as it is to be. What is large
    /// would take very many others.
    pub fn fill(&mut self) -> Done {
        match self.plan.large {
            Large::Nothing => self.step(),
            Large::Directory => self.create(),
            Large::Directories if self.rng.one_in(2) => self.mkdir(),
            Large::Directories => self.create(),
            Large::Files => {
                self.create()?;
                match self.pick_regular()? {
                    Some((at, f, attr)) => self.scatter(&at, f, attr.ino),
                    None => Ok(()),
                }
            }
        }
    }

    pub fn step(&mut self) -> Done {
        self.turn();
        if self.is_tight() && self.rng.below(10) < 7 {
            return match self.rng.below(10) {
                3..7 if self.plan.large == Large::Files => self.truncate(),
                7 if self.plan.kind != Kind::Plain => self.truncate(),
                8 if self.plan.kind != Kind::Plain => self.punch(),
                _ => self.unlink(),
            };
        }
        let weights = self.turn.weights;
        let mut n = self.rng.below(weights.iter().sum());
        let mut which = 0;
        while n >= weights[which] {
            n -= weights[which];
            which += 1;
        }
        match which {
            0 => self.create(),
            1 => self.write(true),
            2 => self.write(false),
            3 => self.truncate(),
            4 => self.punch(),
            5 => self.unlink(),
            6 => self.rename(false),
            7 => self.rename(true),
            8 => self.exchange(),
            9 => self.link(),
            10 => self.symlink(),
            11 => self.xattr(),
            12 => self.chmod(),
            13 => self.mkdir(),
            14 => self.rmdir(),
            15 => self.fsync(),
            16 => {
                let d = self.pick_dir();
                self.fsync_dir(d)
            }
            17 => self.sync(),
            18 => self.read(),
            19 => self.idle(),
            20 => self.orphan(),
            _ => self.dir_attrs(),
        }
    }

    fn new_inode(op: u64) -> NewInode {
        NewInode {
            mode: 0o400 | (op % 0o400) as u16,
            uid: 0,
            gid: 0,
            now: time(op),
        }
    }

    pub fn create(&mut self) -> Done {
        let (d, name) = self.any_name();
        if self.model.dir(d).names.contains_key(&name) {
            return Ok(());
        }
        let size = self.length();
        self.create_at(&(d, name), size).map(drop)
    }

    /// Creates a file and writes it. Returns whether there was space.
    pub fn create_at(&mut self, at: &At, size: u64) -> Result<bool, Stop> {
        let op = self.begin(format_args!("create {}/{}", at.0, at.1));
        let f = self.model.new_file(false, Bytes::default());
        self.model.edit(at.0, &at.1, Some(Entry::File(f)));
        let made = self
            .fs
            .create(self.ino(at.0), at.1.as_bytes(), &Self::new_inode(op));
        let Some(attr) = self.came(made)? else {
            return Ok(false);
        };
        self.model.file_mut(f).ino = Some(attr.ino);
        let fits = size == 0 || self.put(at, f, attr.ino, 0, size)?;
        if self.rng.one_in(2) {
            self.fsync_file(at, f, attr.ino)?;
        }
        Ok(fits)
    }

    fn put(&mut self, at: &At, f: Id, ino: u64, from: u64, len: u64) -> Result<bool, Stop> {
        let op = self.begin(format_args!(
            "write {}/{} at {from}, {len} bytes",
            at.0, at.1
        ));
        let to = from + len;
        let what = What::Put {
            from,
            to,
            write: op,
        };
        self.model.change(f, what, |_| {});
        let mut bytes = vec![0; len as usize];
        stamp(op, from, &mut bytes);
        let written = self.fs.write(ino, from, &bytes, time(op));
        self.in_part(at, f, written)
    }

    /// As [`Work::came`], of an operation of which a part is done when there is no space for all.
    fn in_part<T>(&mut self, at: &At, f: Id, result: Result<T, Error>) -> Result<bool, Stop> {
        if !matches!(result, Err(Error::NoSpace)) || is_off(self.fs) {
            return Ok(self.came(result)?.is_some());
        }
        self.done.full += 1;
        self.tight = 20;
        let found = self.fs.lookup(self.ino(at.0), at.1.as_bytes());
        let seen = found.and_then(|attr| read(self.fs, &attr));
        if is_off(self.fs) {
            return Err(Stop::Cut);
        }
        if let (Err(Error::ReadOnly), true) = (&seen, self.fs.volume().is_worn()) {
            return Err(Stop::Worn);
        }
        if let Err(Error::NoSpace) = seen {
            // What is done of it is seen after the next mount.
            self.done.reads_full += 1;
            return Err(Stop::Cut);
        }
        let seen = seen.map_err(|e| self.failed(format!("after no space: {e}")))?;
        let bad = |what| Stop::Bad(format!("after no space: {what}"));
        let (op, page) = (self.model.op, self.model.page);
        let file = self.model.file_mut(f);
        let state = file
            .find(&seen, file.changes_before(op), page)
            .map_err(bad)?;
        file.keep_part(state, page);
        self.model.finish();
        Ok(false)
    }

    fn write(&mut self, appends: bool) -> Done {
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        let scatters = match self.plan.large {
            Large::Nothing => 60,
            Large::Directory | Large::Directories => 0,
            Large::Files => 4,
        };
        if !appends && scatters > 0 && self.rng.one_in(scatters) {
            self.scatter(&at, f, attr.ino)?;
            return match self.rng.one_in(2) {
                true => self.shorten(&at, f, attr.ino),
                false => Ok(()),
            };
        }
        let page = self.model.page;
        let from = match self.rng.below(4) {
            _ if appends => attr.size,
            0 if self.rng.one_in(2) => self.rng.below(self.plan.size_max),
            0 => self.rng.below(attr.size + 2 * page),
            1 => self.rng.below(attr.size / page + 1) * page,
            _ => self.rng.below(attr.size + 1),
        };
        let len = match self.rng.below(4) {
            0 => 1 + self.rng.below(300),
            1 => page * (1 + self.rng.below(4)),
            _ => 1 + self.length().min(attr.size + page),
        };
        let len = len.min(self.plan.size_max.saturating_sub(from));
        if len == 0 {
            return Ok(());
        }
        if self.put(&at, f, attr.ino, from, len)? && self.rng.one_in(2) {
            self.fsync_file(&at, f, attr.ino)?;
        }
        Ok(())
    }

    /// Writes pages of a file at random, so that it has many extents, and pieces of pages, of which
    /// one is synced, between them.
    fn scatter(&mut self, at: &At, f: Id, ino: u64) -> Done {
        let page = self.model.page;
        let (pages, most) = match self.plan.large {
            Large::Files => (self.plan.size_max / page, 1000),
            _ => ((self.plan.size_max / page).min(2000), 60),
        };
        if pages < 64 {
            return Ok(());
        }
        for synced in [true, false] {
            for _ in 0..10 + self.rng.below(most) {
                let from = self.rng.below(pages / 2) * 2 * page;
                if self.is_tight() || !self.put(at, f, ino, from, page)? {
                    return Ok(());
                }
            }
            let from = self.rng.below(pages) * page + self.rng.below(page / 2);
            let len = 1 + self.rng.below(8);
            if !self.put(at, f, ino, from, len)? {
                return Ok(());
            }
            if synced {
                self.fsync_file(at, f, ino)?;
            }
        }
        Ok(())
    }

    /// Truncates a file, and mostly lets it grow again: what was cut off must not be seen.
    fn shorten(&mut self, at: &At, f: Id, ino: u64) -> Done {
        let size = self.model.file(f).bytes().size;
        let short = if self.rng.one_in(4) {
            0
        } else {
            self.rng.below(size + 1)
        };
        if self.resize(at, f, ino, short)? && !self.rng.one_in(4) {
            self.resize(at, f, ino, size)?;
        }
        if self.rng.one_in(2) {
            self.fsync_file(at, f, ino)?;
        }
        Ok(())
    }

    fn truncate(&mut self) -> Done {
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        let size = match self.rng.below(6) {
            0 => attr.size + self.rng.below(4 * self.model.page),
            1 => 0,
            _ => self.rng.below(attr.size + 1),
        };
        self.resize(&at, f, attr.ino, size).map(drop)
    }

    /// Returns whether there was space for all of it.
    fn resize(&mut self, at: &At, f: Id, ino: u64, size: u64) -> Result<bool, Stop> {
        let op = self.begin(format_args!("truncate {}/{} to {size}", at.0, at.1));
        self.model.change(f, What::Resize(size), |_| {});
        let set = SetAttr {
            size: Some(size),
            now: time(op),
            ..SetAttr::default()
        };
        let set = self.fs.setattr(ino, &set);
        self.in_part(at, f, set)
    }

    fn punch(&mut self) -> Done {
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        if attr.size == 0 {
            return Ok(());
        }
        let page = self.model.page;
        let tail = attr.size % page;
        // What is behind the last whole page may be in the inode: holes that reach into that, and
        // leave some of it, are rare by chance.
        let (from, to) = if tail > 0 && tail < attr.size && self.rng.one_in(3) {
            let border = attr.size - tail;
            let from = border - 1 - self.rng.below(page);
            (from, border + 1 + self.rng.below(tail))
        } else {
            let from = self.rng.below(attr.size);
            (from, (from + 1 + self.length()).min(attr.size))
        };
        let op = self.begin(format_args!("punch {}/{} from {from} to {to}", at.0, at.1));
        let what = What::Put { from, to, write: 0 };
        self.model.change(f, what, |_| {});
        let punched = self.fs.punch_hole(attr.ino, from, to - from, time(op));
        if self.in_part(&at, f, punched)? && self.rng.one_in(2) {
            self.fsync_file(&at, f, attr.ino)?;
        }
        Ok(())
    }

    fn xattr(&mut self) -> Done {
        let Some((at, f, attr)) = self.pick_known()? else {
            return Ok(());
        };
        let op = self.begin(format_args!("attribute {}/{}", at.0, at.1));
        let mut xattrs = self.model.file(f).attrs().xattrs.clone();
        let set = self.set_xattr(attr.ino, op, &mut xattrs);
        self.model
            .change(f, What::Nothing, |attrs| attrs.xattrs = xattrs);
        self.came(set).map(drop)
    }

    /// Sets or removes an extended attribute, and says so.
    fn set_xattr(&mut self, ino: u64, op: u64, xattrs: &mut Xattrs) -> Result<(), Error> {
        let name = self.rng.one_of(&["user.x", "user.y"]);
        let by_name = std::rc::Rc::make_mut(xattrs);
        if by_name.contains_key(name) && self.rng.one_in(3) {
            by_name.remove(name);
            return self.fs.remove_xattr(ino, name.as_bytes(), time(op));
        }
        let len = self.rng.below(300) as usize;
        by_name.insert(name.into(), (len, op));
        let value = xattr_value(op, len);
        self.fs
            .set_xattr(ino, name.as_bytes(), &value, SetXattr::Any, time(op))
    }

    fn chmod(&mut self) -> Done {
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        let mode = self.rng.below(0o1000) as u16;
        let op = self.begin(format_args!("chmod {}/{}", at.0, at.1));
        self.model
            .change(f, What::Nothing, |attrs| attrs.mode = mode);
        let set = SetAttr {
            mode: Some(mode),
            now: time(op),
            ..SetAttr::default()
        };
        let set = self.fs.setattr(attr.ino, &set);
        self.came(set).map(drop)
    }

    fn fsync(&mut self) -> Done {
        match self.pick_known()? {
            Some((at, f, attr)) => self.fsync_file(&at, f, attr.ino),
            None => Ok(()),
        }
    }

    fn fsync_file(&mut self, at: &At, f: Id, ino: u64) -> Done {
        self.begin(format_args!("fsync {}/{}", at.0, at.1));
        let synced = self.fs.fsync(ino);
        if self.came(synced)?.is_some() {
            self.model.file_mut(f).settle();
            self.model.settle_name(at.0, &at.1);
        }
        Ok(())
    }

    fn fsync_dir(&mut self, d: Id) -> Done {
        self.begin(format_args!("fsync of directory {d}"));
        let synced = self.fs.fsync(self.ino(d));
        if self.came(synced)?.is_some() {
            self.model.settle_dir(d);
            self.model.dir_mut(d).settle_attrs();
        }
        Ok(())
    }

    pub fn sync(&mut self) -> Done {
        self.begin(format_args!("sync"));
        let synced = self.fs.sync();
        if self.came(synced)?.is_some() {
            self.model.settle_all();
        }
        Ok(())
    }

    /// Reads a piece of a file, which must be what was written last.
    fn read(&mut self) -> Done {
        let Some((at, f, attr)) = self.pick_regular()? else {
            return Ok(());
        };
        let from = self.rng.below(attr.size + 1);
        let len = (1 + self.length()).min(attr.size - from);
        let (mut seen, mut known) = (vec![0; len as usize], vec![0; len as usize]);
        let read = self.fs.read(attr.ino, from, &mut seen);
        let Some(n) = self.came(read)? else {
            return Ok(());
        };
        self.model.file(f).bytes().read(from, &mut known);
        self.done.bytes += len;
        if n as u64 != len || seen != known {
            let what = format!(
                "{}: a read at {from} of {len} bytes is not what was written",
                at.1
            );
            return Err(Stop::Bad(what));
        }
        Ok(())
    }

    /// Reads on through what is in use, and writes anew what needs it.
    fn scrub(&mut self) -> Done {
        for _ in 0..self.rng.below(8) {
            let scrubbed = self.fs.volume().scrub(64).map_err(|e| match e {
                VolumeError::NoSpace => Error::NoSpace,
                VolumeError::ReadOnly => Error::ReadOnly,
                e => Error::Io(e.to_string()),
            });
            let lost = self.came(scrubbed)?.and_then(|scrub| scrub.unreadable);
            if let Some(page) = lost.filter(|_| !self.is_unread()) {
                return Err(Stop::Bad(format!("a scrub finds that {page:?} is lost")));
            }
        }
        Ok(())
    }

    /// What an application calls when it has time.
    fn idle(&mut self) -> Done {
        self.begin(format_args!("gc or patrol"));
        if self.rng.one_in(2) {
            let most = if self.rng.one_in(4) { u32::MAX } else { 16 };
            let cleaned = self.fs.gc(most);
            return self.came(cleaned).map(drop);
        }
        if self.rng.one_in(4) {
            return self.scrub();
        }
        for _ in 0..self.rng.below(200) {
            let patrol = self.fs.patrol();
            if let Some(Patrol::Lost(what)) = self.came(patrol)?
                && !self.is_unread()
            {
                return Err(Stop::Bad(what));
            }
        }
        Ok(())
    }
}

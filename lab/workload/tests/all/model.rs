//! The model test driver against the model itself, whole and broken.

use std::cell::Cell;
use std::collections::HashMap;

use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, MemoryFs, NewInode, Result, SetAttr,
    SetXattr, StatFs, Time,
};
use flashkit_workload::model::{self, Failure, ModelRun, Stats, Target};

/// Ways to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Bytes beyond a truncation come back when the file grows again.
    TruncateKeepsTail,
    /// Every hundredth write forgets its last byte.
    WriteShort,
    /// Every tenth link is not counted.
    LinkUncounted,
    /// A link keeps no file alive: unlinking another name takes all of them.
    LinkIsWeak,
    /// A rename between two names of a file takes the old one away.
    RenameUnlinks,
    /// An exchange is a rename.
    ExchangeReplaces,
    /// A rename leaves the times of the directories alone.
    RenameKeepsTimes,
    /// Rename replaces a directory that is not empty.
    RenameLosesTree,
    /// Unlink of an open file drops it.
    UnlinkDropsOpen,
    /// Listings by parts skip an entry now and then.
    ListingSkips,
    /// A missing name is an input/output error.
    WrongError,
    /// A mode is lost at the remount.
    RemountLosesMode,
    /// Inode numbers change at the remount.
    RemountRenumbers,
}

const BUGS: [Bug; 13] = [
    Bug::ExchangeReplaces,
    Bug::LinkUncounted,
    Bug::LinkIsWeak,
    Bug::RenameUnlinks,
    Bug::TruncateKeepsTail,
    Bug::WriteShort,
    Bug::RenameKeepsTimes,
    Bug::RenameLosesTree,
    Bug::UnlinkDropsOpen,
    Bug::ListingSkips,
    Bug::WrongError,
    Bug::RemountLosesMode,
    Bug::RemountRenumbers,
];

/// The reference with a bug, and with inode numbers of its own.
struct Broken {
    fs: MemoryFs,
    bug: Bug,
    /// Added to every inode number but the root's.
    shift: u64,
    writes: u64,
    links: u64,
    /// The link made last.
    weak: Option<(Ino, Vec<u8>)>,
    tails: HashMap<Ino, (u64, Vec<u8>)>,
    listings: Cell<u64>,
}

const ROOT: Ino = 1;

fn inward(ino: Ino, shift: u64) -> Ino {
    if ino == ROOT { ino } else { ino - shift }
}

fn outward(ino: Ino, shift: u64) -> Ino {
    if ino == ROOT { ino } else { ino + shift }
}

impl Broken {
    fn new(fs: MemoryFs, bug: Bug) -> Broken {
        Broken {
            fs,
            bug,
            shift: 1000,
            writes: 0,
            links: 0,
            weak: None,
            tails: HashMap::new(),
            listings: Cell::new(0),
        }
    }

    fn out(&self, attr: Result<Attr>) -> Result<Attr> {
        attr.map(|attr| Attr {
            ino: outward(attr.ino, self.shift),
            ..attr
        })
    }
}

impl FileSystem for Broken {
    fn root(&self) -> Ino {
        self.fs.root()
    }
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let found = self.fs.lookup(inward(dir, self.shift), name);
        if self.bug == Bug::WrongError && found == Err(Error::NotFound) {
            return Err(Error::Io("lost".into()));
        }
        self.out(found)
    }
    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        let attr = self.fs.getattr(inward(ino, self.shift));
        self.out(attr)
    }
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let ino = inward(ino, self.shift);
        let old = self.fs.getattr(ino)?.size;
        let size = set
            .size
            .filter(|_| self.bug == Bug::TruncateKeepsTail)
            .unwrap_or(old);
        if size < old {
            let mut tail = vec![0; (old - size) as usize];
            self.fs.read(ino, size, &mut tail)?;
            self.tails.insert(ino, (size, tail));
        }
        let attr = self.fs.setattr(ino, set)?;
        if size > old
            && let Some((start, tail)) = self.tails.remove(&ino)
        {
            let len = tail.len().min(size.saturating_sub(start) as usize);
            self.fs.write(ino, start, &tail[..len], set.now)?;
        }
        self.out(Ok(attr))
    }
    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let attr = self.fs.create(inward(dir, self.shift), name, new);
        self.out(attr)
    }
    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        let attr = self
            .fs
            .mknod(inward(dir, self.shift), name, kind, device, new);
        self.out(attr)
    }
    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let attr = self.fs.mkdir(inward(dir, self.shift), name, new);
        self.out(attr)
    }
    fn symlink(&mut self, dir: Ino, name: &[u8], to: &[u8], new: &NewInode) -> Result<Attr> {
        let attr = self.fs.symlink(inward(dir, self.shift), name, to, new);
        self.out(attr)
    }
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(inward(ino, self.shift))
    }
    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let (ino, dir) = (inward(ino, self.shift), inward(dir, self.shift));
        let linked = self.fs.link(ino, dir, name, now);
        self.links += u64::from(linked.is_ok());
        let mut attr = self.out(linked)?;
        if self.bug == Bug::LinkUncounted && self.links.is_multiple_of(10) {
            attr.nlink -= 1;
        }
        self.weak = Some((dir, name.to_vec()));
        Ok(attr)
    }
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let weak = self.weak.take().filter(|_| self.bug == Bug::LinkIsWeak);
        if let Some((dir, name)) = weak {
            let _ = self.fs.unlink(dir, &name, now);
        }
        let ino = self
            .fs
            .lookup(inward(dir, self.shift), name)
            .map(|attr| attr.ino);
        self.fs.unlink(inward(dir, self.shift), name, now)?;
        if self.bug == Bug::UnlinkDropsOpen {
            let _ = ino.and_then(|ino| self.fs.release(ino));
        }
        Ok(())
    }
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.fs.rmdir(inward(dir, self.shift), name, now)
    }
    fn rename(&mut self, a: Ino, b: &[u8], c: Ino, d: &[u8], no: bool, now: Time) -> Result<()> {
        let (a, c) = (inward(a, self.shift), inward(c, self.shift));
        let now = if self.bug == Bug::RenameKeepsTimes {
            self.fs.getattr(a)?.mtime
        } else {
            now
        };
        let done = self.fs.rename(a, b, c, d, no, now);
        if self.bug == Bug::RenameUnlinks && done.is_ok() && (a, b) != (c, d) {
            let _ = self.fs.unlink(a, b, now);
        }
        if self.bug == Bug::RenameLosesTree && done == Err(Error::NotEmpty) {
            return Ok(());
        }
        done
    }
    fn exchange(&mut self, a: Ino, b: &[u8], c: Ino, d: &[u8], now: Time) -> Result<()> {
        let (a, c) = (inward(a, self.shift), inward(c, self.shift));
        let done = self.fs.exchange(a, b, c, d, now);
        if self.bug == Bug::ExchangeReplaces && done.is_ok() && (a, b) != (c, d) {
            let _ = self.fs.unlink(a, b, now);
        }
        done
    }
    fn open(&mut self, ino: Ino) -> Result<()> {
        self.fs.open(inward(ino, self.shift))
    }
    fn release(&mut self, ino: Ino) -> Result<()> {
        self.fs.release(inward(ino, self.shift))
    }
    fn forget(&mut self, ino: Ino) {
        self.fs.forget(inward(ino, self.shift));
    }
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.fs.read(inward(ino, self.shift), offset, buf)
    }
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        self.writes += 1;
        let ino = inward(ino, self.shift);
        if self.bug == Bug::WriteShort && self.writes.is_multiple_of(100) {
            let last = data.len() - 1;
            let end = offset + data.len() as u64;
            self.fs.write(ino, offset, &data[..last], now)?;
            let size = self.fs.getattr(ino)?.size.max(end);
            let set = SetAttr {
                size: Some(size),
                mtime: Some(now),
                now,
                ..Default::default()
            };
            return self.fs.setattr(ino, &set).map(drop);
        }
        self.fs.write(ino, offset, data, now)
    }
    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.fs
            .punch_hole(inward(ino, self.shift), offset, len, now)
    }
    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.fs.next_data(inward(ino, self.shift), offset)
    }
    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.fs.next_hole(inward(ino, self.shift), offset)
    }
    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.xattr(inward(ino, self.shift), name)
    }
    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.fs.xattrs(inward(ino, self.shift))
    }
    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.fs
            .set_xattr(inward(ino, self.shift), name, value, how, now)
    }
    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        self.fs.remove_xattr(inward(ino, self.shift), name, now)
    }
    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.fs.fsync(inward(ino, self.shift))
    }
    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let shift = self.shift;
        self.listings
            .set(self.listings.get() + u64::from(cookie > 0));
        let mut skip = self.bug == Bug::ListingSkips && self.listings.get() % 50 == 49;
        self.fs.readdir(inward(dir, shift), cookie, &mut |entry| {
            if std::mem::take(&mut skip) {
                return true;
            }
            each(DirEntry {
                ino: outward(entry.ino, shift),
                ..entry
            })
        })
    }
    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        Ok(outward(
            self.fs.parent(inward(dir, self.shift))?,
            self.shift,
        ))
    }
    fn statfs(&mut self) -> Result<StatFs> {
        self.fs.statfs()
    }
    fn sync(&mut self) -> Result<()> {
        self.fs.sync()
    }
    fn unmount(&mut self) -> Result<()> {
        self.fs.unmount()
    }
}

impl Target for Broken {
    fn fs(&mut self) -> &mut dyn FileSystem {
        self
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        let root = self.fs.root();
        match self.bug {
            Bug::RemountRenumbers => {
                self.shift += 1;
            }
            Bug::RemountLosesMode => {
                let mut first = None;
                let list = self.fs.readdir(root, 0, &mut |entry| {
                    first = Some(entry);
                    false
                });
                list.map_err(|error| error.to_string())?;
                if let Some(entry) = first.filter(|entry| entry.kind == FileKind::File) {
                    let set = SetAttr {
                        mode: Some(0),
                        ..SetAttr::default()
                    };
                    self.fs
                        .setattr(entry.ino, &set)
                        .map_err(|error| error.to_string())?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn run(run: &ModelRun, fs: MemoryFs, bug: Bug) -> std::result::Result<Stats, Failure> {
    run.run(&mut Broken::new(fs, bug))
}

fn of_seed(seed: u64) -> ModelRun {
    ModelRun {
        test: "-p flashkit-workload model".into(),
        ..ModelRun::new(seed)
    }
}

#[test]
fn the_reference_agrees_with_itself() {
    let mut total = Stats::default();
    for seed in model::seeds(0..20) {
        let stats = run(&of_seed(seed), MemoryFs::new(), Bug::None)
            .unwrap_or_else(|failure| panic!("{failure}"));
        total.written += stats.written;
        total.remounts += stats.remounts;
        total.compares += stats.compares;
        total.objects += stats.objects;
    }
    if model::seeds(0..20).count() == 1 {
        return;
    }
    // The runs must do something.
    assert!(
        total.written > 20_000_000 && total.remounts > 50,
        "{total:?}"
    );
    assert!(total.compares > 150 && total.objects > 500, "{total:?}");
}

#[test]
fn a_full_file_system_is_no_difference() {
    let mut full = 0;
    for seed in model::seeds(0..10) {
        let mut model = of_seed(seed);
        let fs = || MemoryFs::with_capacity(500_000);
        if seed == 0 {
            assert!(
                run(&model, fs(), Bug::None)
                    .unwrap_err()
                    .what
                    .contains("NoSpace")
            );
        }
        model.full = true;
        full += run(&model, fs(), Bug::None)
            .unwrap_or_else(|failure| panic!("{failure}"))
            .full;
    }
    assert!(full > 50, "{full}");
}

#[test]
fn every_bug_is_found() {
    for bug in BUGS {
        let found = (0..20).find_map(|seed| run(&of_seed(seed), MemoryFs::new(), bug).err());
        let failure = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        println!("{bug:?}: {failure}\n");
        let text = failure.to_string();
        let again = format!(
            "FLASHKIT_MODEL_SEED={} FLASHKIT_MODEL_OPS={}",
            failure.seed, failure.op
        );
        assert!(text.contains(&again), "{text}");
        // The seed and the number of operations are enough to see it again.
        let short = ModelRun {
            ops: failure.op,
            ..of_seed(failure.seed)
        };
        assert_eq!(
            run(&short, MemoryFs::new(), bug).unwrap_err().what,
            failure.what
        );
    }
}

//! A stored volume with some of its pages changed: mounted, checked, read, written, mounted again.
//!
//! Whatever its records say, no call panics, hangs or takes more flash operations than a bound that
//! depends on the chip alone; the promises of the NAND contract are kept; and what is read from a
//! file was written for that file and that place in it.

use std::collections::HashMap;

use flashkit_flashlight::boot::{Boot, ram_needed};
use flashkit_flashlight::inspect::{Inspected, Record, data_tag, inspect};
use flashkit_flashlight::{Cleaner, Config};
use flashkit_nand::PageAddr;
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::check::{Finding, check};
use flashkit_vfs::{FileKind, FileSystem, Ino, NewInode, SetAttr, SetXattr, Time, path};

use crate::Guard;
use crate::edit;
use crate::image::{self, Image, Page};
use crate::input::{Input, STEP};

type Fs<'r> = AnyFs<'r, 'static>;

/// Bits of an input's flags.
const READ_ONLY: u8 = 1;
const PAPER: u8 = 2;
/// Only looks: no steps, and no second mount.
const LOOK: u8 = 4;
/// Mounts a second time.
const AGAIN: u8 = 8;

/// Paths that the stored volumes have, and others.
const BOOT_PATHS: [&str; 7] = [
    "d/pages",
    "db",
    "g/other",
    "many",
    "h",
    "gone",
    "d/pages/none",
];

/// Objects that a walk visits, and bytes that it reads of each, at most.
const OBJECTS_MAX: usize = 400;
const READ_MAX: u64 = 12_000;

/// Runs an input.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes) else {
        return;
    };
    let images = image::stored();
    let mut image = images[usize::from(input.image) % images.len()].1.clone();
    for edit in &input.edits {
        edit::apply(&mut image, edit);
    }
    let config = Config {
        read_only: input.flags & READ_ONLY != 0,
        cleaner: if input.flags & PAPER != 0 {
            Cleaner::Paper
        } else {
            Cleaner::Space
        },
        dirty_threshold: 3,
        gc_batch: 2,
        // Moves for wear come early.
        wear_interval: 7,
        ..image::config()
    };
    boot(&image);
    let guard = Guard::new(&image);
    let Some(guard) = session(guard, config, Some(&image), &input) else {
        return;
    };
    if input.flags & (LOOK | AGAIN) == AGAIN {
        session(guard, config, None, &input);
    }
}

/// Reads the image by the boot reader: names that such volumes have, and their data. Every call
/// ends, within reads that the chip bounds.
fn boot(image: &Image) {
    let mut guard = Guard::new(image);
    let geometry = flashkit_nand::Nand::geometry(&guard);
    // Each name looks through all records some ten times, and four times over when they change.
    guard.allow("boot", 2_000 * u64::from(geometry.pages()) + 100_000);
    let mut ram = vec![0; ram_needed(&geometry)];
    let Ok(mut boot) = Boot::open(guard, &mut ram) else {
        return;
    };
    let mut bytes = vec![0; 3 * geometry.page_size() as usize];
    for path in BOOT_PATHS {
        let Ok(file) = boot.find(path.as_bytes()) else {
            continue;
        };
        for offset in [
            0,
            1,
            file.size() / 2,
            file.size().saturating_sub(5_000),
            u64::MAX,
        ] {
            let read = boot.read(&file, offset, &mut bytes);
            assert!(read.is_err() || read.is_ok_and(|n| n <= bytes.len()));
        }
    }
}

/// Repairs the volume of an input: what is found then is found again after another repair and
/// another mount, and nothing else. That is not asked of a volume that calls a page erased which is
/// not: there what a repair writes may be lost, as on a chip that fails without a word.
///
/// # Panics
/// That is a finding.
pub fn repair(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes) else {
        return;
    };
    let images = image::stored();
    let mut image = images[usize::from(input.image) % images.len()].1.clone();
    for edit in &input.edits {
        edit::apply(&mut image, edit);
    }
    let mut guard = Guard::new(&image);
    let geometry = flashkit_nand::Nand::geometry(&guard);
    let bounds = Bounds::of(&geometry);
    let mut left: Option<Vec<Finding>> = None;
    for _ in 0..2 {
        let mut ram = image::ram(&geometry);
        let is_spoilt = guard.is_spoilt();
        guard.forget();
        guard.allow("mount", bounds.mount);
        let mut fs = match any::mount(AnyNand::new(guard), &mut ram, image::config()) {
            Err(_) if is_spoilt => return,
            Ok(fs) => fs,
            Err(error) if left.is_some() => panic!("a repaired volume does not mount: {error}"),
            Err(_) => return,
        };
        for _ in 0..2 {
            allow(&mut fs, "repair", bounds.repair);
            // No space for a change, or nothing may be changed.
            if flashkit_vfs::check::repair(fs.volume()).is_err() {
                return;
            }
            if fs.volume().nand().get::<Guard>().is_spoilt() {
                return;
            }
            allow(&mut fs, "check", bounds.all);
            let Ok(found) = check(fs.volume()) else {
                return;
            };
            let found = found.findings.into_iter();
            // This is made anew when it is needed next, after a mount at the latest.
            let found = found.filter(|f| f.what != "damaged page of the directory map");
            // A page may be elsewhere now.
            let mut found: Vec<Finding> = found.map(|f| Finding { page: None, ..f }).collect();
            found.sort_by(|a, b| (a.ino, &a.what).cmp(&(b.ino, &b.what)));
            if let Some(left) = left.filter(|left| !is_contested(left)) {
                assert_eq!(left, found, "what another repair leaves");
            }
            left = Some(found);
        }
        allow(&mut fs, "unmount", bounds.change);
        match fs.into_volume().unmount() {
            Ok(chip) => guard = chip.take(),
            Err(_) => return,
        }
    }
}

/// Whether two structures claim the same page or block, so that what is written
/// next may take it from one.
fn is_contested(found: &[Finding]) -> bool {
    let mut what = found.iter().map(|f| &f.what);
    what.any(|what| what.starts_with("block ") || what == "page is in use twice")
}

/// What a call may cost in flash operations.
struct Bounds {
    /// Looks one thing up, by names of one hash.
    look: u64,
    /// Lists or checks everything.
    all: u64,
    /// Mounts, with a recovery.
    mount: u64,
    /// Changes something, with the cleaning that comes before it.
    change: u64,
    /// Changes everything.
    repair: u64,
}

impl Bounds {
    fn of(image: &flashkit_nand::Geometry) -> Bounds {
        let (pages, page_size) = (u64::from(image.pages()), u64::from(image.page_size()));
        Bounds {
            look: page_size / 2,
            all: 64 * pages + 20_000,
            mount: 64 * pages + 20_000,
            change: 256 * pages + 200_000,
            repair: 8 * (1_024 * pages + 800_000),
        }
    }
}

/// One mount with all that is done in it; gives the chip back when it was mounted at all.
fn session(
    mut guard: Guard,
    config: Config,
    untouched: Option<&Image>,
    input: &Input<'_>,
) -> Option<Guard> {
    let geometry = flashkit_nand::Nand::geometry(&guard);
    let bounds = Bounds::of(&geometry);
    let mut ram = image::ram(&geometry);
    guard.forget();
    guard.allow("mount", bounds.mount);
    let mut fs = any::mount(AnyNand::new(guard), &mut ram, config).ok()?;
    allow(&mut fs, "check", bounds.all);
    let _ = check(fs.volume());
    let paths = walk(&mut fs, &bounds, untouched);
    if input.flags & LOOK == 0 {
        for step in &input.steps {
            take(&mut fs, &bounds, &paths, step);
        }
        allow(&mut fs, "check", bounds.all + bounds.change);
        let _ = check(fs.volume());
    }
    allow(&mut fs, "unmount", bounds.change);
    match fs.into_volume().unmount() {
        Ok(nand) | Err((nand, _)) => Some(nand.take()),
    }
}

fn allow(fs: &mut Fs<'_>, call: &'static str, operations: u64) {
    let guard: &mut Guard = fs.volume().nand_mut().get_mut();
    guard.allow(call, operations);
}

/// Lists and reads the whole tree, as far as it can be had. Gives the paths found.
fn walk(fs: &mut Fs<'_>, bounds: &Bounds, untouched: Option<&Image>) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    let mut pending = vec![(fs.root(), Vec::new())];
    let source = untouched.map(Source::of);
    while let Some((dir, above)) = pending.pop() {
        let mut entries = Vec::new();
        allow(fs, "readdir", bounds.all);
        let _ = fs.readdir(dir, 0, &mut |entry| {
            entries.push(entry);
            entries.len() < OBJECTS_MAX
        });
        for entry in entries {
            if paths.len() >= OBJECTS_MAX {
                return paths;
            }
            allow(fs, "lookup", bounds.look);
            let Ok(attr) = fs.lookup(dir, &entry.name) else {
                continue;
            };
            let below = [&above[..], b"/", &entry.name].concat();
            paths.push(below.clone());
            allow(fs, "getattr", bounds.look);
            let _ = fs.getattr(attr.ino);
            allow(fs, "xattrs", bounds.look);
            for name in fs.xattrs(attr.ino).unwrap_or_default() {
                allow(fs, "xattr", bounds.look);
                let _ = fs.xattr(attr.ino, &name);
            }
            match attr.kind {
                FileKind::Dir => {
                    allow(fs, "parent", bounds.look);
                    let _ = fs.parent(attr.ino);
                    pending.push((attr.ino, below));
                }
                FileKind::Symlink => {
                    allow(fs, "readlink", bounds.look);
                    let _ = fs.readlink(attr.ino);
                }
                _ => read(fs, bounds, attr.ino, attr.size, source.as_ref()),
            }
        }
    }
    paths
}

fn read(fs: &mut Fs<'_>, bounds: &Bounds, ino: Ino, size: u64, source: Option<&Source<'_>>) {
    let page = u64::from(flashkit_nand::Nand::geometry(fs.volume().nand()).page_size());
    let pages = size.div_ceil(page);
    // The beginning, and the end.
    let front = 0..pages.min(READ_MAX / page);
    let back = pages.saturating_sub(2).max(front.end)..pages;
    let mut data = vec![0; page as usize];
    for index in front.chain(back) {
        allow(fs, "read", bounds.look);
        data.fill(0xee);
        let read = fs.read(ino, index * page, &mut data);
        if let (Ok(n), Some(source)) = (read, source) {
            let due = page.min(size - index * page) as usize;
            assert_eq!(n, due, "a read within the file gives less than asked for");
            source.check(ino, index, &data[..n]);
        }
    }
}

/// A piece of a page in an inode: index of the page, offset there, bytes.
type Piece<'i> = (u32, usize, &'i [u8]);

/// What the pages of a chip hold for each file.
struct Source<'i> {
    /// Data pages by file and index, as their tags say.
    pages: HashMap<(u32, u32), Vec<&'i [u8]>>,
    /// Pieces of pages in inodes, by file.
    pieces: HashMap<u32, Vec<Piece<'i>>>,
    has_tags: bool,
}

impl<'i> Source<'i> {
    fn of(image: &'i Image) -> Source<'i> {
        let mut source = Source {
            pages: HashMap::new(),
            pieces: HashMap::new(),
            has_tags: image.geometry.spare_size() as usize >= crate::seal::TAG,
        };
        for (at, page) in (0..).zip(&image.pages) {
            let Page::Written(data, spare) = page else {
                continue;
            };
            if let Some(tag) = data_tag(data, spare).filter(|tag| tag.intact) {
                let list = source.pages.entry((tag.ino, tag.index)).or_default();
                list.push(data);
            }
            if let Inspected::Record(_, Record::File(file)) =
                inspect(&image.geometry, data, PageAddr(at))
                && let Some((index, offset, bytes)) = file.fragment()
            {
                // The bytes are the image's, not the view's.
                let from = bytes.as_ptr() as usize - data.as_ptr() as usize;
                let bytes = &data[from..from + bytes.len()];
                let list = source.pieces.entry(file.fields().ino).or_default();
                list.push((index, offset, bytes));
            }
        }
        source
    }

    /// Demands that these bytes were written as the beginning of this page of this file.
    fn check(&self, ino: Ino, index: u64, data: &[u8]) {
        if !self.has_tags {
            return;
        }
        let none = Vec::new();
        let (ino, index) = (ino as u32, index as u32);
        let zeros = vec![0; data.len()];
        let tagged = self.pages.get(&(ino, index)).unwrap_or(&none);
        let mut pages = tagged.iter().map(|page| &page[..data.len()]);
        let from = |page: &[u8]| {
            let none = Vec::new();
            let pieces = self.pieces.get(&ino).unwrap_or(&none);
            let mut pieces = pieces.iter().filter(|piece| piece.0 == index);
            page == data
                || pieces.any(|(_, offset, bytes)| {
                    let mut page = page.to_vec();
                    let end = (offset + bytes.len()).min(page.len());
                    if *offset < end {
                        page[*offset..end].copy_from_slice(&bytes[..end - offset]);
                    }
                    page == data
                })
        };
        assert!(
            from(&zeros) || pages.any(from),
            "inode {ino} shows at page {index} what was not written for it"
        );
    }
}

/// One step: a call that most likely changes something.
fn take(fs: &mut Fs<'_>, bounds: &Bounds, paths: &[Vec<u8>], step: &[u8; STEP]) {
    const NEW: [&[u8]; 5] = [b"/x", b"/d/x", b"/many/x", b"/h/x", b"/a new one"];
    let known = |n: u8| -> &[u8] {
        let all = paths.len() + NEW.len();
        let n = usize::from(n) % all;
        paths
            .get(n)
            .map_or_else(|| NEW[n - paths.len()], Vec::as_slice)
    };
    let (at, to) = (known(step[1]), known(step[2]));
    let offset = u64::from(u16::from_le_bytes([step[3], step[4]])) << (step[2] % 16);
    let len = usize::from(step[5]) * 37;
    let (now, new) = (Time::default(), NewInode::default());
    allow(fs, "resolve", 64 * bounds.look);
    let found = path::resolve(fs, at);
    let parent = path::resolve_parent(fs, at);
    let ino = found.as_ref().map_or(fs.root(), |attr| attr.ino);
    let what = step[0] % 22;
    let there = match what {
        7 | 16 => path::resolve_parent(fs, to).ok(),
        _ => None,
    };
    allow(fs, "change", bounds.change);
    match (what, parent) {
        (0, Ok((dir, name))) => drop(fs.create(dir, name, &new)),
        (1, Ok((dir, name))) => drop(fs.mkdir(dir, name, &new)),
        (2, Ok((dir, name))) => drop(fs.symlink(dir, name, &vec![b'l'; len.max(1)], &new)),
        (3, Ok((dir, name))) => drop(fs.unlink(dir, name, now)),
        (4, Ok((dir, name))) => drop(fs.rmdir(dir, name, now)),
        (5 | 6, _) => {
            let pages = 1 + len as u64 / 1_000;
            allow(fs, "write", bounds.change * pages);
            drop(fs.write(ino, offset, &vec![b'w'; len], now));
        }
        (7, Ok((dir, name))) => {
            if let Some((other, as_name)) = there {
                if step[3] % 4 == 1 {
                    drop(fs.exchange(dir, name, other, as_name, now));
                    return;
                }
                drop(fs.rename(dir, name, other, as_name, step[3].is_multiple_of(4), now));
            }
        }
        (8, _) => {
            let set = SetAttr {
                size: Some(offset),
                ..SetAttr::default()
            };
            drop(fs.setattr(ino, &set));
        }
        (9, _) => {
            let set = SetAttr {
                mode: Some(0o600),
                mtime: Some(Time { secs: 1, nanos: 2 }),
                ..SetAttr::default()
            };
            drop(fs.setattr(ino, &set));
        }
        (10, _) => drop(fs.fsync(ino)),
        (11, _) => drop(fs.sync()),
        (12, _) => drop(fs.gc(step[2].into())),
        (13, _) => drop(fs.open(ino)),
        (14, _) => drop(fs.release(ino)),
        (15, _) => {
            let mut data = vec![0; len];
            drop(fs.read(ino, offset, &mut data));
        }
        (16, _) => {
            if let Some((dir, as_name)) = there {
                drop(fs.link(ino, dir, as_name, now));
            }
        }
        (17, _) => drop(fs.punch_hole(ino, offset, len as u64 * 40, now)),
        (18, _) => {
            let name =
                [b"user.first".as_slice(), b"trusted.second", b"user.x"][usize::from(step[2]) % 3];
            drop(fs.set_xattr(ino, name, &vec![b'v'; len / 4], SetXattr::Any, now));
        }
        (19, _) => drop(fs.remove_xattr(ino, b"user.first", now)),
        (20, _) => {
            allow(fs, "seek", bounds.all);
            let _ = (fs.next_data(ino, offset), fs.next_hole(ino, offset));
        }
        (21, Ok((dir, name))) => {
            let kind = [FileKind::Fifo, FileKind::Char][usize::from(step[3]) % 2];
            drop(fs.mknod(dir, name, kind, u32::from(step[4]), &new));
        }
        _ => {}
    }
}

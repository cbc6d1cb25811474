//! Makes the images that the fuzz targets start from, in `fuzz/images`: small volumes that have
//! every record and every state in them. To be run again when the on-flash format changes; the test
//! `images` says when. But for `plain`, which stays as a program of before made it.

use std::collections::HashMap;
use std::path::Path;

use flashkit_flashlight::{Area, BlockState, FlashLight, New, Page, Visitor};
use flashkit_hostile::image::{self, Image};
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};
use flashkit_sim::{Cut, EraseTear, PowerCut, SimNand, Tear};
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr, SetXattr, Time, path};

/// Never so far that it is cut, but in the image that is.
type Chip = PowerCut<SimNand>;
type Fs<'r> = AnyFs<'r, 'static>;

const NEVER: Cut = Cut {
    after: u64::MAX,
    program: Tear::Random,
    erase: EraseTear::Partial,
    seed: 3,
};

/// Bytes that tell the file and the place, and compress well.
fn fill(ino: Ino, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64)
        .map(|at| match at % 8 {
            0 => ino as u8,
            1 => (at >> 10) as u8,
            _ => b'a',
        })
        .collect()
}

fn write(fs: &mut Fs<'_>, path: &str, offset: u64, len: usize) -> Result<Ino, Error> {
    let ino = match path::resolve(fs, path.as_bytes()) {
        Ok(attr) => attr.ino,
        Err(_) => path::write_file(fs, path.as_bytes(), b"", 0, &NewInode::default())?.ino,
    };
    fs.write(ino, offset, &fill(ino, offset, len), Time::default())?;
    Ok(ino)
}

fn write_synced(fs: &mut Fs<'_>, path: &str, offset: u64, len: usize) -> Result<(), Error> {
    let ino = write(fs, path, offset, len)?;
    fs.fsync(ino)
}

fn rename(fs: &mut Fs<'_>, from: &str, to: &str) -> Result<(), Error> {
    let (a, from) = path::resolve_parent(fs, from.as_bytes())?;
    let (b, to) = path::resolve_parent(fs, to.as_bytes())?;
    fs.rename(a, from, b, to, false, Time::default())
}

fn link(fs: &mut Fs<'_>, at: &str, to: &str) -> Result<(), Error> {
    let ino = path::resolve(fs, at.as_bytes())?.ino;
    let (dir, name) = path::resolve_parent(fs, to.as_bytes())?;
    fs.link(ino, dir, name, Time::default()).map(drop)
}

fn unlink(fs: &mut Fs<'_>, at: &str) -> Result<(), Error> {
    let (dir, name) = path::resolve_parent(fs, at.as_bytes())?;
    fs.unlink(dir, name, Time::default())
}

fn truncate(fs: &mut Fs<'_>, at: &str, size: u64) -> Result<(), Error> {
    let ino = path::resolve(fs, at.as_bytes())?.ino;
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}

fn mkdir(fs: &mut Fs<'_>, at: &str) -> Result<(), Error> {
    path::mkdir_p(fs, at.as_bytes(), &NewInode::default()).map(drop)
}

fn symlink(fs: &mut Fs<'_>, at: &str, len: usize) -> Result<(), Error> {
    let (dir, name) = path::resolve_parent(fs, at.as_bytes())?;
    fs.symlink(dir, name, &vec![b't'; len], &NewInode::default())
        .map(drop)
}

/// A tree with one of everything that a directory of one page and files without maps can be.
fn tree(fs: &mut Fs<'_>) -> Result<(), Error> {
    for dir in ["d", "d/e", "d/e/f", "g"] {
        mkdir(fs, dir)?;
    }
    write(fs, "empty", 0, 0)?;
    write(fs, "small", 0, 100)?;
    write(fs, "d/pages", 0, 5_000)?;
    write(fs, "d/hole", 20_000, 3_000)?;
    write(fs, "d/e/tail", 0, 2_100)?;
    symlink(fs, "link", 20)?;
    symlink(fs, "d/long link", 3_000)?;
    // Found by its number from now on.
    write_synced(fs, "d/e/moved", 0, 4_000)?;
    rename(fs, "d/e/moved", "g/moved")?;
    let long = format!("g/{}", "n".repeat(255));
    write(fs, &long, 0, 10)?;
    // One with names in its inode, and one with more than fit there, whose last is gone.
    write(fs, "d/linked", 0, 3_000)?;
    link(fs, "d/linked", "g/linked")?;
    link(fs, "d/linked", "second")?;
    write(fs, "d/e/names", 0, 10)?;
    for i in 0..20 {
        link(fs, "d/e/names", &format!("{}/names {i}", ["g", "d"][i % 2]))?;
    }
    unlink(fs, "d/names 19")?;
    for (path, n) in [("d", 300), ("small", 5), ("d/pages", 700), ("link", 30)] {
        xattr(fs, path, "user.first", n)?;
        xattr(fs, path, "trusted.second", n / 4)?;
    }
    for (name, kind, device) in [
        ("fifo", FileKind::Fifo, 0),
        ("d/socket", FileKind::Socket, 0),
        ("d/char", FileKind::Char, 0x103),
        ("block", FileKind::Block, 0x0010_0820),
    ] {
        let (dir, name) = path::resolve_parent(fs, name.as_bytes())?;
        fs.mknod(dir, name, kind, device, &NewInode::default())?;
    }
    fs.sync()
}

/// Gives a file or directory an extended attribute.
fn xattr(fs: &mut Fs<'_>, path: &str, name: &str, len: usize) -> Result<(), Error> {
    let ino = path::resolve(fs, path.as_bytes())?.ino;
    let value = vec![b'v'; len];
    fs.set_xattr(ino, name.as_bytes(), &value, SetXattr::Any, Time::default())
}

/// A directory with hash maps, and a file with extent maps.
fn maps(fs: &mut Fs<'_>) -> Result<(), Error> {
    mkdir(fs, "many")?;
    for i in 0..150 {
        write(fs, &format!("many/{i}"), 0, 3)?;
    }
    for i in 0..140 {
        write(fs, "scattered", 4_096 * (i * 37 % 140), 1_024)?;
    }
    fs.sync()?;
    for i in (0..150).step_by(4) {
        unlink(fs, &format!("many/{i}"))?;
    }
    for i in 0..20 {
        write(fs, "scattered", 4_096 * (i * 11 % 140), 1_024)?;
    }
    Ok(())
}

/// Changes of every kind since the last checkpoint, each durable.
fn changes(fs: &mut Fs<'_>) -> Result<(), Error> {
    write_synced(fs, "new", 0, 3_000)?;
    write_synced(fs, "d/pages", 1_000, 3_000)?;
    mkdir(fs, "h")?;
    write_synced(fs, "h/x", 0, 100)?;
    rename(fs, "h/x", "d/x")?;
    rename(fs, "d/x", "small")?;
    rename(fs, "g", "h/g")?;
    rename(fs, "h/g/moved", "moved again")?;
    mkdir(fs, "gone")?;
    fs.rmdir(fs.root(), b"gone", Time::default())?;
    unlink(fs, "d/e/tail")?;
    write_synced(fs, "d/e/other", 0, 50)?;
    write(fs, "last one", 0, 50)?;
    truncate(fs, "scattered", 200_000)?;
    write_synced(fs, "scattered", 100_000, 1_024)?;
    for i in 1..60 {
        write_synced(fs, "scattered", 4_096 * (i * 7 % 50), 1_024)?;
    }
    for i in (1..150).step_by(4) {
        unlink(fs, &format!("many/{i}"))?;
        write(fs, &format!("many/new {i}"), 0, 3)?;
    }
    let many = path::resolve(fs, b"many")?.ino;
    fs.fsync(many)?;
    link(fs, "last one", "h/also")?;
    link(fs, "d/linked", "h/third")?;
    unlink(fs, "second")?;
    unlink(fs, "h/g/names 4")?;
    write(fs, "other", 0, 20)?;
    rename(fs, "other", "d/names 5")?;
    rename(fs, "h/g/names 6", "h/names")?;
    // A file without a name, which is still open.
    let open = write(fs, "open", 0, 3_000)?;
    fs.open(open)?;
    fs.fsync(open)?;
    unlink(fs, "open")?;
    xattr(fs, "d/pages", "user.first", 40)?;
    xattr(fs, "h", "user.first", 40)?;
    let pages = path::resolve(fs, b"d/pages")?.ino;
    fs.punch_hole(pages, 500, 2_000, Time::default())?;
    fs.fsync(pages)?;
    write_synced(fs, "last", 0, 10)
}

/// Pages of two files overwritten and synced since the last checkpoint, some of them more than
/// once, among other changes; the last with no fsync.
fn updates(fs: &mut Fs<'_>) -> Result<(), Error> {
    for (name, pages) in [("db", 200), ("g/other", 20)] {
        write_synced(fs, name, 0, pages * 1_024)?;
    }
    fs.sync()?;
    for i in 0..60u64 {
        let (name, pages) = if i % 9 == 8 {
            ("g/other", 16)
        } else {
            ("db", 190)
        };
        let len = 1_024 * (1 + i as usize % 3);
        write_synced(fs, name, 1_024 * (i * 37 % pages), len)?;
    }
    rename(fs, "g/other", "moved other")?;
    for i in 0..6 {
        write_synced(fs, "moved other", 1_024 * i, 1_024)?;
    }
    write_synced(fs, "db", 5_000, 100)?;
    write_synced(fs, "db", 10_240, 2_048)?;
    let mut end = 200 * 1_024;
    for len in [1_024, 500, 400, 124, 2_048, 900, 100] {
        write_synced(fs, "db", end, len)?;
        end += len as u64;
    }
    write(fs, "db", 20_480, 4_096).map(drop)
}

/// A directory of so many names that its maps need an index; few of them are left.
fn many_names(fs: &mut Fs<'_>) -> Result<(), Error> {
    let names = 3_000;
    for i in 0..names {
        write(fs, &format!("{i}"), 0, 0)?;
    }
    for i in (0..names).filter(|i| i % 40 != 0) {
        unlink(fs, &format!("{i}"))?;
    }
    fs.sync()
}

/// A file of so many extents that its maps need an index, overwritten and cleaned: some wait there,
/// and some mask what the maps say.
fn many_extents(fs: &mut Fs<'_>) -> Result<(), Error> {
    for i in (0..2_700).rev() {
        write(fs, "file", 2_048 * i, 1_024)?;
    }
    for i in 0..1_700 {
        write(fs, "file", 2_048 * (i * 7_919 % 2_700), 1_024)?;
    }
    fs.sync()?;
    while fs.volume().gc(100).expect("a sound chip") {}
    fs.sync()
}

/// As full as it gets, with obsolete pages everywhere.
fn fill_up(fs: &mut Fs<'_>) -> Result<(), Error> {
    for i in 0.. {
        match write(fs, &format!("{i}"), 0, 9_000) {
            Err(Error::NoSpace) => break,
            written => written?,
        };
    }
    for i in 0..6 {
        let done = write(fs, &format!("{i}"), 1_024 * i, 1_024).and_then(|_| fs.sync());
        match done {
            Err(Error::NoSpace) => {}
            done => done?,
        }
    }
    Ok(())
}

fn formatted(page: u32, spare: u32, pages: u32, blocks: u32, bad: &[u32]) -> SimNand {
    let mut chip = image::chip(Geometry::new(page, spare, pages, blocks).expect("a valid shape"));
    for block in bad {
        chip.mark_bad(BlockAddr(*block)).expect("in RAM");
    }
    let mut ram = image::ram(&chip.geometry());
    let chip = AnyNand::new(chip);
    let formatted = FlashLight::format(chip, &mut ram, 7, &New::default());
    formatted.expect("a chip that suits").take()
}

/// The same with the block table on flash.
fn with_table(page: u32, spare: u32, pages: u32, blocks: u32) -> SimNand {
    let chip = image::chip(Geometry::new(page, spare, pages, blocks).expect("a valid shape"));
    let mut ram = image::ram(&chip.geometry());
    let root = New::default();
    let formatted = any::format(AnyNand::new(chip), &mut ram, 7, &root, image::config());
    formatted.expect("a chip that suits").take()
}

/// How a session ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Unmount,
    /// Between two operations.
    Stop,
    /// In the middle of one of the last.
    Tear,
}

fn session(chip: SimNand, cut: Cut, end: End, work: &dyn Fn(&mut Fs<'_>)) -> (SimNand, u64) {
    let mut ram = image::ram(&chip.geometry());
    let chip = PowerCut::new(chip, cut);
    let mut fs = any::mount(AnyNand::new(chip), &mut ram, image::config()).expect("a volume");
    work(&mut fs);
    let chip: &mut Chip = fs.volume().nand_mut().get_mut();
    let ops = chip.ops();
    if end != End::Unmount {
        chip.cut_now();
    }
    let chip = match fs.into_volume().unmount() {
        Ok(chip) => chip,
        Err((chip, error)) if end == End::Unmount => panic!("{error}: {:?}", chip.get::<Chip>()),
        Err((chip, _)) => chip,
    };
    (chip.take::<Chip>().into_inner(), ops)
}

/// Erases what is free: it would be erased before it is used.
fn tidy(mut chip: SimNand) -> SimNand {
    let mut ram = image::ram(&chip.geometry());
    let mut fs =
        FlashLight::mount(AnyNand::lent(&mut chip), &mut ram, image::config()).expect("a volume");
    let blocks = 0..fs.nand().geometry().blocks();
    let free: Vec<u32> = blocks
        .filter(|block| fs.block_state(*block) == BlockState::Free)
        .collect();
    for block in free {
        chip.erase(BlockAddr(block)).expect("in RAM");
    }
    chip
}

/// The pages in use, and what each is.
struct InUse(HashMap<u32, Area>);

impl Visitor for InUse {
    fn page(&mut self, page: Page) {
        self.0.insert(page.page.0, page.area);
    }
    fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
        panic!("{what}");
    }
}

/// Blanks what is out of use, but not out of the log, and makes most file data unreadable: an image
/// of many changes would be large.
fn strip(mut chip: SimNand) -> Image {
    let mut image = Image::of(&mut chip);
    let mut ram = image::ram(&chip.geometry());
    let mut fs =
        FlashLight::mount(AnyNand::new(chip), &mut ram, image::config()).expect("a volume");
    let mut in_use = InUse(HashMap::new());
    fs.walk(&mut in_use).expect("a good volume");
    for (at, page) in (0..).zip(&mut image.pages) {
        let state = fs.block_state(at / image.geometry.pages_per_block());
        match in_use.0.get(&at) {
            Some(Area::Data) if at % 16 != 0 => *page = image::Page::Garbage,
            None if state != BlockState::System => *page = image::Page::Blank,
            _ => {}
        }
    }
    image
}

fn done(result: Result<(), Error>) {
    result.expect("a good chip");
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/images");
    let save_image = |name: &str, image: &Image| {
        let gz = image.pack();
        println!("{name}: {} bytes", gz.len());
        std::fs::write(folder.join(format!("{name}.img.gz")), gz).expect("a folder for images");
    };
    let save = |name: &str, mut chip: SimNand| save_image(name, &Image::of(&mut chip));
    let clean = |chip: SimNand, work: &dyn Fn(&mut Fs<'_>)| {
        tidy(session(chip, NEVER, End::Unmount, work).0)
    };
    let all = |fs: &mut Fs<'_>| {
        done(tree(fs));
        done(maps(fs));
    };
    let one = |fs: &mut Fs<'_>| done(tree(fs));

    save("clean", clean(formatted(1024, 24, 8, 128, &[]), &one));
    let changed = clean(formatted(1024, 24, 16, 96, &[]), &all);
    let stopped = session(changed.clone(), NEVER, End::Stop, &|fs| done(changes(fs)));
    save("unclean", stopped.0);
    let on_flash = clean(with_table(1024, 24, 16, 96), &all);
    let stopped = session(on_flash, NEVER, End::Stop, &|fs| done(changes(fs)));
    save("table", stopped.0);
    save("bare", clean(formatted(1024, 0, 16, 96, &[]), &all));
    let bad = clean(formatted(1024, 24, 16, 96, &[0, 5, 30]), &all);
    let whole = session(bad.clone(), NEVER, End::Stop, &|fs| done(changes(fs)));
    let cut = Cut {
        after: whole.1 - 5,
        ..NEVER
    };
    let torn = session(bad, cut, End::Tear, &|fs| {
        changes(fs).expect_err("the power is cut");
    });
    save("cut", torn.0);
    let names = |fs: &mut Fs<'_>| done(many_names(fs));
    let chip = clean(formatted(1024, 24, 64, 144, &[]), &names);
    save_image("hash", &strip(chip));
    let extents = |fs: &mut Fs<'_>| done(many_extents(fs));
    let chip = clean(formatted(1024, 24, 64, 144, &[]), &extents);
    save_image("extents", &strip(chip));
    let full = |fs: &mut Fs<'_>| done(fill_up(fs));
    save("full", clean(formatted(1024, 24, 8, 64, &[]), &full));
    save("wide", clean(formatted(1024, 24, 128, 48, &[]), &one));
    let tree = clean(formatted(1024, 38, 8, 128, &[]), &one);
    let stopped = session(tree, NEVER, End::Stop, &|fs| done(updates(fs)));
    save("updates", stopped.0);
}

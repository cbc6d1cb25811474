//! The boot reader on volumes larger than those of the power-cut search, and what it costs.

use crate::common::{LATER, NOW, chip, formatted, on_preset, try_unmount};
use flashkit_flashlight::boot::{Boot, Error, FileKind, LINKS_MAX, PATH_MAX, ram_needed};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{Metered, Rng, SimNand};
use flashkit_vfs::{FileSystem, NewInode};

use crate::common::Fs;

fn left(fs: &mut Fs) -> SimNand {
    fs.volume().nand().get::<SimNand>().clone()
}

/// Does something with a boot reader; what that took in reads, the open and the rest.
fn booted<T>(mut chip: SimNand, look: impl FnOnce(&mut Boot<'_, SimNand>) -> T) -> (T, [u64; 2]) {
    let mut ram = vec![0x5a; ram_needed(&chip.geometry())];
    chip.clear_counters();
    let mut boot = Boot::open(chip, &mut ram).unwrap();
    let found = look(&mut boot);
    let spent = boot.close().counters();
    assert_eq!(
        (spent.page_programs, spent.page_copies, spent.block_erases),
        (0, 0, 0)
    );
    (found, [spent.page_reads, spent.spare_reads])
}

fn contents(boot: &mut Boot<'_, SimNand>, path: &str) -> Vec<u8> {
    let file = boot
        .find(path.as_bytes())
        .unwrap_or_else(|e| panic!("{e:?}: {path}"));
    let mut all = vec![0; file.size() as usize];
    assert_eq!(boot.read(&file, 0, &mut all), Ok(all.len()));
    all
}

/// What a mount of the same image reads.
fn by_mount(fs: &mut Fs, name: &[u8]) -> Vec<u8> {
    let ino = fs.lookup(fs.root(), name).unwrap().ino;
    let mut all = vec![0; fs.getattr(ino).unwrap().size as usize];
    assert_eq!(fs.read(ino, 0, &mut all), Ok(all.len()));
    all
}

#[test]
fn ram_is_what_the_document_says() {
    for (page, bytes) in [
        (1024, 3_872),
        (2048, 6_944),
        (4096, 13_088),
        (16_384, 49_952),
    ] {
        let geometry = Geometry::new(page, 64, 64, 1024).unwrap();
        assert_eq!(ram_needed(&geometry), bytes);
    }
}

/// Names in hash maps under index pages, some of them removed and renamed, and none missing.
#[test]
fn names_of_a_large_directory_are_found() {
    let mut fs = formatted(chip(1024, 64, 64, 1024));
    let root = fs.root();
    let name = |n: u32| format!("name {n}");
    for n in 0..9_000 {
        fs.create(root, name(n).as_bytes(), &NewInode::default())
            .unwrap();
    }
    fs.sync().unwrap();
    for n in (0..9_000).step_by(100) {
        fs.unlink(root, name(n).as_bytes(), NOW).unwrap();
        let (from, to) = (name(n + 1), format!("new {n}"));
        fs.rename(root, from.as_bytes(), root, to.as_bytes(), false, NOW)
            .unwrap();
    }
    let clean = try_unmount(fs).unwrap();
    booted(clean, |boot| {
        for n in 0..9_000 {
            let found = boot.find(name(n).as_bytes());
            assert_eq!(found.is_ok(), n % 100 > 1, "{n}: {found:?}");
        }
        for n in (0..9_000).step_by(100) {
            assert!(boot.find(format!("new {n}").as_bytes()).is_ok());
        }
        assert_eq!(boot.find(b"name 9000"), Err(Error::NotFound));
    });
}

/// Pages overwritten at random, in maps, waiting and in the log; then more updates than there is
/// room for at a time.
#[test]
fn a_file_of_scattered_pages_and_updates_is_read() {
    for spare in [24, 64] {
        let mut fs = formatted(chip(1024, spare, 32, 1024));
        let ino = fs
            .create(fs.root(), b"file", &NewInode::default())
            .unwrap()
            .ino;
        let (pages, mut rng) = (6_000, Rng::keyed(5, 5));
        fs.write(ino, 0, &vec![1; pages * 1024], NOW).unwrap();
        for n in 0..9_000 {
            let index = rng.below(pages as u64);
            fs.write(ino, index * 1024, &[n as u8; 1024], NOW).unwrap();
        }
        fs.sync().unwrap();
        for n in 0..300u64 {
            let index = rng.below(pages as u64);
            fs.write(ino, index * 1024, &[n as u8 ^ 0x80; 1024], LATER)
                .unwrap();
            fs.fsync(ino).unwrap();
        }
        fs.write(ino, pages as u64 * 1024, &[9; 1024], LATER)
            .unwrap();
        fs.fsync(ino).unwrap();
        let left = left(&mut fs);
        let expected = by_mount(&mut fs, b"file");
        let (found, reads) = booted(left, |boot| contents(boot, "file"));
        assert!(found == expected, "{spare}: {reads:?}");
    }
}

#[test]
fn links_are_followed_and_no_further_than_said() {
    let mut fs = formatted(chip(1024, 64, 32, 256));
    let root = fs.root();
    let new = NewInode::default();
    let dir = fs.mkdir(root, b"dir", &new).unwrap().ino;
    let file = fs.create(dir, b"file", &new).unwrap().ino;
    fs.write(file, 0, b"contents", NOW).unwrap();
    for (dir, name, target) in [
        (root, "to-dir", "dir"),
        (dir, "to-file", "./file"),
        (dir, "absolute", "/to-dir/to-file"),
        (root, "circle", "circle"),
        (root, "up", "dir/../dir/file"),
    ] {
        fs.symlink(dir, name.as_bytes(), target.as_bytes(), &new)
            .unwrap();
    }
    let long = "dir/".repeat(PATH_MAX / 4);
    fs.symlink(root, b"long", long.as_bytes(), &new).unwrap();
    fs.sync().unwrap();
    booted(left(&mut fs), |boot| {
        for path in [
            "dir/file",
            "//to-dir/./to-file/",
            "to-dir/absolute",
            "dir/absolute",
        ] {
            assert_eq!(contents(boot, path), b"contents", "{path}");
        }
        assert_eq!(boot.find(b"circle"), Err(Error::Links));
        assert_eq!(LINKS_MAX, 8);
        assert_eq!(boot.find(b"up"), Err(Error::Invalid));
        assert_eq!(boot.find(b"long/file"), Err(Error::TooLong));
        assert_eq!(boot.find(&[b'/'; PATH_MAX + 1]), Err(Error::TooLong));
        assert_eq!(boot.find(&[b'x'; 256]), Err(Error::TooLong));
        assert_eq!(boot.find(b"dir/file/more"), Err(Error::NotDir));
        assert_eq!(boot.find(b"/").map(|found| found.kind()), Ok(FileKind::Dir));
        let link = boot.find_link(b"to-dir").unwrap();
        let mut target = [0; 9];
        assert_eq!(
            (link.kind(), boot.read(&link, 0, &mut target)),
            (FileKind::Link, Ok(3))
        );
        let dir = boot.find(b"dir").unwrap();
        assert_eq!(boot.read(&dir, 0, &mut target), Err(Error::NoData));
    });
}

/// What an open, and an open with the find and the read of a kernel of 1 MiB, cost in reads: after
/// an unmount, and after a cut in the middle of an append log. As docs/boot.md says.
#[test]
fn reads_are_those_that_the_document_says() {
    let mut rows = Vec::new();
    for name in ["slc-256m", "w25n01gv"] {
        let mut fs = on_preset(name);
        let root = fs.root();
        let dir = fs.mkdir(root, b"boot", &NewInode::default()).unwrap().ino;
        let kernel = fs.create(dir, b"kernel", &NewInode::default()).unwrap().ino;
        fs.write(kernel, 0, &vec![7; 1 << 20], NOW).unwrap();
        let log = fs.create(root, b"log", &NewInode::default()).unwrap().ino;
        fs.sync().unwrap();
        let mut at = 0;
        for n in 0..400u64 {
            fs.write(log, at, &[n as u8; 100], NOW).unwrap();
            fs.fsync(log).unwrap();
            at += 100;
        }
        let cut = left(&mut fs);
        let clean = try_unmount(fs).unwrap();
        for chip in [clean, cut] {
            let open = booted(chip.clone(), |_| ()).1;
            let (found, all) = booted(chip, |boot| contents(boot, "boot/kernel"));
            assert!(found == vec![7; 1 << 20]);
            rows.push((name, open, all));
        }
    }
    println!("{rows:?}");
    assert_eq!(rows, EXPECTED);
}

const EXPECTED: [(&str, [u64; 2], [u64; 2]); 4] = [
    ("slc-256m", [39, 0], [561, 0]),
    ("slc-256m", [426, 0], [1747, 0]),
    ("w25n01gv", [39, 0], [561, 0]),
    ("w25n01gv", [426, 0], [1747, 0]),
];

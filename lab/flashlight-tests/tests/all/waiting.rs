//! Files of so many extents that their records wait in index pages on the way to the maps, while
//! the chip is cleaned: changes at random, power cuts, and what the checker says of every page.

use crate::common::{Fs, NOW, chip, clean, cut, formatted, remount};
use flashkit_sim::Rng;
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, SetAttr};

const PAGE: usize = 1024;
const PAGES: u64 = 5200;

/// A file, and what each page of it holds: bytes of one value.
struct File {
    ino: Ino,
    pages: Vec<u8>,
}

impl File {
    fn create(fs: &mut Fs) -> File {
        let ino = fs.create(fs.root(), b"file", &NewInode::default());
        let pages = Vec::new();
        let ino = ino.unwrap().ino;
        File { ino, pages }
    }

    fn write(&mut self, fs: &mut Fs, index: u64, pages: usize, value: u8) {
        let data = vec![value; pages * PAGE];
        fs.write(self.ino, index * PAGE as u64, &data, NOW).unwrap();
        let end = index as usize + pages;
        if self.pages.len() < end {
            self.pages.resize(end, 0);
        }
        self.pages[index as usize..end].fill(value);
    }

    fn truncate(&mut self, fs: &mut Fs, pages: usize) {
        let size = Some((pages * PAGE) as u64);
        let attr = SetAttr {
            size,
            ..SetAttr::default()
        };
        fs.setattr(self.ino, &attr).unwrap();
        self.pages.resize(pages, 0);
    }

    fn punch(&mut self, fs: &mut Fs, index: usize, pages: usize) {
        let (from, len) = ((index * PAGE) as u64, (pages * PAGE) as u64);
        fs.punch_hole(self.ino, from, len, NOW).unwrap();
        let end = (index + pages).min(self.pages.len());
        self.pages[index.min(end)..end].fill(0);
    }

    /// Every second page of it, each in its own place.
    fn scatter(&mut self, fs: &mut Fs, pages: u64) {
        for i in 0..pages {
            self.write(fs, 2 * i, 1, 1 + (i % 250) as u8);
        }
        fs.fsync(self.ino).unwrap();
    }

    fn compare(&self, fs: &mut Fs, told: &str) {
        fs.lookup(fs.root(), b"file").unwrap();
        let mut page = [0; PAGE];
        for (index, &value) in self.pages.iter().enumerate() {
            fs.read(self.ino, (index * PAGE) as u64, &mut page).unwrap();
            assert!(
                page.iter().all(|&b| b == value),
                "{told}, page {index}: {} for {value}",
                page[0]
            );
        }
    }
}

fn sound(fs: &mut Fs, told: &str) {
    let findings = check(fs.volume()).unwrap().findings;
    let some = &findings[..findings.len().min(3)];
    assert!(findings.is_empty(), "{told}: {some:?}");
}

fn run(spare: u32, seed: u64, changes: u32) {
    let mut rng = Rng::new(seed);
    let mut fs = formatted(chip(PAGE as u32, spare, 16, 360));
    let mut file = File::create(&mut fs);
    file.scatter(&mut fs, PAGES / 2);
    for n in 0..changes {
        let told = format!("{spare} spare bytes, seed {seed}, change {n}");
        let index = rng.below(PAGES / 2) * 2;
        let value = rng.below(256) as u8;
        match rng.below(400) {
            0 => file.truncate(&mut fs, rng.below(PAGES) as usize),
            1..4 => file.punch(&mut fs, index as usize, 1 + rng.below(60) as usize),
            4 => file.punch(&mut fs, index as usize, rng.below(900) as usize),
            5 => {
                fs.unlink(fs.root(), b"file", NOW).unwrap();
                file = File::create(&mut fs);
                file.scatter(&mut fs, PAGES / 2);
            }
            6..9 => {
                let len = 20 + rng.below(40) as usize;
                file.write(&mut fs, index, len, value);
                file.punch(&mut fs, index as usize, len);
            }
            9 => fs.sync().unwrap(),
            10 => drop(fs.volume().gc(40).unwrap()),
            _ => file.write(&mut fs, index, 1 + rng.below(2) as usize, value),
        }
        if rng.one_in(3) {
            fs.fsync(file.ino).unwrap();
        }
        match rng.below(150) {
            0 => fs = remount(fs),
            1..3 => {
                fs.fsync(file.ino).unwrap();
                fs = cut(fs);
            }
            _ => continue,
        }
        file.compare(&mut fs, &told);
        sound(&mut fs, &told);
    }
}

#[test]
fn changes_and_cuts_of_a_scattered_file() {
    let (seeds, changes) = match std::env::var("FLASHKIT_FULL") {
        Ok(_) => (0..60, 3000),
        Err(_) => (0..2, 700),
    };
    for seed in seeds {
        run(40, seed, changes);
        run(24, seed, changes);
    }
}

/// Whose a page is must be searched for: there is less of everything.
#[test]
fn without_spare_bytes() {
    run(0, 7, 120);
}

#[test]
fn a_truncation_is_recovered() {
    for pages in [0, 100, 1500, 1501, 3000, 4600, 5150] {
        for moved in [0, 40, 400] {
            let mut rng = Rng::new(pages);
            let mut fs = formatted(chip(PAGE as u32, 40, 16, 360));
            let mut file = File::create(&mut fs);
            file.scatter(&mut fs, PAGES / 2);
            fs.sync().unwrap();
            for _ in 0..moved {
                file.write(&mut fs, rng.below(PAGES / 2) * 2, 1, 9);
            }
            fs.fsync(file.ino).unwrap();
            file.truncate(&mut fs, pages as usize);
            fs.fsync(file.ino).unwrap();
            let told = format!("{pages} pages after {moved} writes");
            for _ in 0..2 {
                file.compare(&mut fs, &told);
                sound(&mut fs, &told);
                fs = cut(fs);
            }
        }
    }
}

/// What a slot of the cache held before is no file any more when space is looked for:
/// here the index page of a file that has gone is beside one of a file that stays, so
/// that it can still be read.
#[test]
fn a_file_that_has_gone_is_not_settled() {
    let mut fs = formatted(chip(PAGE as u32, 40, 16, 720));
    let root = fs.root();
    let inos = [&b"stays"[..], b"goes"].map(|name| {
        let made = fs.create(root, name, &NewInode::default());
        made.unwrap().ino
    });
    let write = |fs: &mut Fs, f: usize, i: u64| {
        let at = 2 * i * PAGE as u64;
        fs.write(inos[f], at, &[f as u8; PAGE], NOW)
    };
    for f in [0, 1] {
        for i in 0..PAGES / 2 {
            write(&mut fs, f, i).unwrap();
        }
    }
    // Their maps and index pages share blocks.
    let mut rng = Rng::new(1);
    for _ in 0..600 {
        for f in [0, 1] {
            write(&mut fs, f, rng.below(PAGES / 2)).unwrap();
        }
    }
    fs.sync().unwrap();
    fs.unlink(root, b"goes", NOW).unwrap();
    let mut at = PAGES * 4 * PAGE as u64;
    while fs.write(inos[0], at, &[2; 8 * PAGE], NOW).is_ok() {
        at += 8 * PAGE as u64;
    }
    sound(&mut fs, "full");
    fs.sync().unwrap();
    sound(&mut cut(fs), "after a cut");
}

/// A file written backwards, page by page, takes no more at some point, as its inode has no place
/// for what leads to them. It is whole, can be cut and removed, and all else goes on: nothing that
/// has to be moved is in the way.
fn too_many_extents(name: &[u8], most: usize) {
    const PAGE: u64 = self::PAGE as u64;
    let mut fs = formatted(chip(PAGE as u32, 64, 64, 1500));
    let (root, new) = (fs.root(), NewInode::default());
    let free = fs.statfs().unwrap().blocks_free;
    let large = fs.create(root, name, &new).unwrap().ino;
    let pages = fs.statfs().unwrap().blocks_free;
    let written = (0..pages).rev().position(|page| {
        let written = fs.write(large, page * PAGE, &[page as u8; self::PAGE], NOW);
        assert!(matches!(written, Ok(_) | Err(Error::TooBig)), "{written:?}");
        written.is_err()
    });
    assert_eq!(written, Some(most), "a name of {} bytes", name.len());
    let first = pages - most as u64;
    fs.fsync(large).unwrap();
    let other = fs.create(root, b"other", &new).unwrap().ino;
    for n in 0..30_000 {
        fs.write(other, n % 4 * PAGE, &[7; self::PAGE], NOW)
            .unwrap();
        if n % 7 == 0 {
            fs.fsync(other).unwrap();
        }
    }
    let mut fs = cut(fs);
    let large = fs.lookup(root, name).unwrap().ino;
    for page in (first..pages).step_by(1000) {
        let mut byte = [0];
        fs.read(large, page * PAGE, &mut byte).unwrap();
        assert_eq!(byte[0], page as u8, "page {page}");
    }
    fs.punch_hole(large, (pages - 900) * PAGE, 500 * PAGE, NOW)
        .unwrap();
    let size = Some((pages - 1000) * PAGE);
    let set = SetAttr {
        size,
        ..SetAttr::default()
    };
    fs.setattr(large, &set).unwrap();
    fs.unlink(root, name, NOW).unwrap();
    fs.unlink(root, b"other", NOW).unwrap();
    fs.sync().unwrap();
    assert!(fs.statfs().unwrap().blocks_free + 8 >= free);
    clean(&mut fs);
}

#[test]
fn a_file_of_too_many_extents_is_in_the_way_of_nothing() {
    too_many_extents(b"large", 68_468);
    too_many_extents(&[b'n'; 255], 16_633);
}

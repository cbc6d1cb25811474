//! What a cut leaves in a large directory, holes in pieces that inodes hold, and chips that are full.

mod common;

use common::{Fs, NOW, chip, clean, cut, file, formatted, mount, remount, try_unmount};
use flashkit_sim::{Rng, SimNand};
use flashkit_vfs::{FileSystem, Ino, NewInode, path};

/// The area of directories in the counts of what has been written.
const DIR: usize = 2;

fn name(n: u64) -> Vec<u8> {
    format!("file {n}").into_bytes()
}

/// A power cut now leaves a volume in which everything is found and counted.
fn clean_after_cut(fs: &mut Fs) {
    let chip: SimNand = fs.volume().nand().clone();
    clean(&mut mount(chip));
}

/// The page of a file that is written anew is a record: a recovery brings its entry up to date unless the
/// directory's own page is newer. So none may be written in between, whatever its log has room for.
#[test]
fn a_cut_after_any_change_in_a_large_directory_leaves_every_file_where_its_entry_says() {
    const FILES: u64 = 3000;
    let mut fs = formatted(chip(2048, 64, 64, 256));
    let root = fs.root();
    for n in 0..FILES {
        file(&mut fs, root, &name(n), 300);
    }
    fs.sync().unwrap();
    let mut rng = Rng::new(1);
    let mut directories = 0;
    while directories < 60 {
        let n = rng.below(FILES);
        let before = fs.volume().written().areas[DIR];
        match fs.lookup(root, &name(n)) {
            Ok(at) if rng.below(40) > 0 => {
                fs.write(at.ino, rng.below(300), b"changed", NOW).unwrap();
                fs.fsync(at.ino).unwrap();
            }
            Ok(_) => fs.unlink(root, &name(n), NOW).unwrap(),
            Err(_) => {
                file(&mut fs, root, &name(n), 300);
            }
        }
        if fs.volume().written().areas[DIR] > before {
            directories += 1;
            clean_after_cut(&mut fs);
        }
    }
}

#[test]
fn a_hole_in_a_piece_that_the_inode_holds_is_there_after_a_sync() {
    for page in [1024, 2048] {
        let mut fs = formatted(chip(page, 64, 64, 64));
        let root = fs.root();
        let sizes = u64::from(page) + 40..2 * u64::from(page);
        for size in sizes.step_by(page as usize / 1024 * 4 - 3) {
            let ino = file(&mut fs, root, b"file", size as usize);
            let (from, len) = (252, size - 45 - 252);
            fs.punch_hole(ino, from, len, NOW).unwrap();
            fs.sync().unwrap();
            fs = remount(fs);
            let bytes = path::read_file(&mut fs, b"/file").unwrap();
            let held = |at: u64| !(from..from + len).contains(&at);
            let wrong = (0..size).find(|&at| bytes[at as usize] != if held(at) { 0x5a } else { 0 });
            assert_eq!(wrong, None, "{size} bytes in pages of {page}");
            fs.unlink(root, b"file", NOW).unwrap();
        }
    }
}

/// Directories of a chip that is filled: with so many, nearly every change writes the page of one.
const DIRS: u64 = 300;

/// Fills a chip with files in many directories, some written to in their middle, until it has been full
/// a few times; their names.
fn fill(fs: &mut Fs, rng: &mut Rng) -> Vec<(Ino, Vec<u8>)> {
    let root = fs.root();
    let mut dirs = Vec::new();
    for n in 0..DIRS {
        dirs.push(fs.mkdir(root, &name(n), &NewInode::default()).unwrap().ino);
    }
    let mut files: Vec<(Ino, Vec<u8>)> = Vec::new();
    let mut full = 0;
    while full < 20 {
        let is_new = rng.below(10) < 6 || files.is_empty();
        let (dir, name) = if is_new {
            (dirs[rng.below(DIRS) as usize], name(files.len() as u64))
        } else {
            files[rng.below(files.len() as u64) as usize].clone()
        };
        let offset = if is_new { 0 } else { rng.below(50) * 4096 };
        let len = [4096, 20_000, 65_536][rng.below(3) as usize];
        let ino = match fs.lookup(dir, &name) {
            Ok(at) => at.ino,
            Err(_) => match fs.create(dir, &name, &NewInode::default()) {
                Ok(at) => {
                    files.push((dir, name));
                    at.ino
                }
                Err(_) => {
                    full += 1;
                    continue;
                }
            },
        };
        let written = fs.write(ino, offset, &vec![0x5a; len], NOW).map(drop);
        full += u32::from(written.and_then(|()| fs.fsync(ino)).is_err());
    }
    files
}

/// Removes files from a full chip in any order, to the last; then all that they took is free.
fn empty_a_full_chip(blocks: u32, pages: u32, seed: u64) {
    let mut fs = formatted(chip(2048, 64, pages, blocks));
    let free = fs.statfs().unwrap().blocks_free;
    // A page of the map of directories is in use from the first on.
    let free = free - 1;
    let mut rng = Rng::new(seed);
    let mut files = fill(&mut fs, &mut rng);
    while !files.is_empty() {
        let (dir, name) = files.swap_remove(rng.below(files.len() as u64) as usize);
        if let Err(e) = fs.unlink(dir, &name, NOW) {
            panic!("seed {seed}: {} files are left: {e:?}", files.len());
        }
    }
    let root = fs.root();
    for n in 0..DIRS {
        fs.rmdir(root, &name(n), NOW).unwrap();
    }
    fs.sync().unwrap();
    clean_after_cut(&mut fs);
    let mut fs = remount(fs);
    clean(&mut fs);
    assert_eq!(fs.statfs().unwrap().blocks_free, free, "seed {seed}");
    try_unmount(cut(fs)).unwrap();
}

#[test]
fn a_full_chip_is_emptied_in_any_order() {
    for seed in 0..4 {
        empty_a_full_chip(512, 64, seed);
        empty_a_full_chip(1024, 16, seed);
    }
}

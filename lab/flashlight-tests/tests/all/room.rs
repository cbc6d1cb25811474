//! What a cut leaves in a large directory, holes in pieces that inodes
//! hold, and chips that are full.

use crate::common::{
    Fs, LentFs, NOW, chip, clean, cut, file, formatted, mount, remount, try_mount, try_mount_lent,
    try_unmount,
};
use flashkit_flashlight::{BlockState, Cleaner, Config, FlashLight, New, ram_needed};
use flashkit_nand::{BlockAddr, Nand};
use flashkit_sim::{Cut, EraseTear, PowerCut, Rng, SimNand, Tear};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{FileSystem, Ino, NewInode, path};

/// The area of directories in the counts of what has been written.
const DIR: usize = 2;

fn name(n: u64) -> Vec<u8> {
    format!("file {n}").into_bytes()
}

/// A power cut now leaves a volume in which everything is found and counted.
fn clean_after_cut(fs: &mut Fs) {
    let chip: SimNand = fs.volume().nand().get::<SimNand>().clone();
    clean(&mut mount(chip));
}

/// The page of a file that is written anew is a record: a recovery brings its entry up to
/// date unless the directory's own page is newer. So none may be written in between,
/// whatever its log has room for: that is short when many files in turn are written anew or
/// moved by cleaning, and there is most to write the page for below an index, as each map
/// that changes is a page to give back.
fn cuts_in_a_large_directory(page: u32, blocks: u32, files: u64) {
    let mut fs = formatted(chip(page, 64, 64, blocks));
    let root = fs.root();
    for n in 0..files {
        file(&mut fs, root, &name(n), 300);
    }
    fs.sync().unwrap();
    let mut rng = Rng::new(1);
    let mut directories = 0;
    while directories < 60 {
        let n = rng.below(files);
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
fn a_cut_after_any_change_in_a_large_directory_leaves_every_file_where_its_entry_says() {
    cuts_in_a_large_directory(2048, 256, 3000);
    // With index pages, and so full that much is moved.
    cuts_in_a_large_directory(1024, 112, 4000);
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

/// Fills a chip with files in so many directories, some written to in their middle,
/// until it has been full a few times; their names. With many directories nearly every
/// change writes the page of one.
fn fill(fs: &mut Fs, rng: &mut Rng, count: u64) -> Vec<(Ino, Vec<u8>)> {
    let root = fs.root();
    let mut dirs = Vec::new();
    for n in 0..count {
        dirs.push(fs.mkdir(root, &name(n), &NewInode::default()).unwrap().ino);
    }
    let mut files: Vec<(Ino, Vec<u8>)> = Vec::new();
    let mut full = 0;
    while full < 20 {
        let is_new = rng.below(10) < 6 || files.is_empty();
        let (dir, name) = if is_new {
            (dirs[rng.below(count) as usize], name(files.len() as u64))
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
    let mut rng = Rng::new(seed);
    let dirs = u64::from(blocks * pages / 50).min(300);
    let mut files = fill(&mut fs, &mut rng, dirs);
    while !files.is_empty() {
        let (dir, name) = files.swap_remove(rng.below(files.len() as u64) as usize);
        if let Err(e) = fs.unlink(dir, &name, NOW) {
            panic!("seed {seed}: {} files are left: {e:?}", files.len());
        }
    }
    let root = fs.root();
    for n in 0..dirs {
        fs.rmdir(root, &name(n), NOW).unwrap();
    }
    fs.sync().unwrap();
    clean_after_cut(&mut fs);
    let mut fs = remount(fs);
    clean(&mut fs);
    // With many directories there is one more page of the map of them, for good.
    let left = fs.statfs().unwrap().blocks_free;
    assert!(
        left == free || left + 1 == free,
        "seed {seed}: {left} of {free}"
    );
    try_unmount(cut(fs)).unwrap();
}

/// A chip has been full; from then on each mount is cut, or what follows it soon after. What each
/// has taken is free for the next, or was worth it.
fn cut_mounts_of_a_full_chip(blocks: u32, pages: u32, cleaner: Cleaner, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut fs = formatted(chip(2048, 64, pages, blocks));
    let mut files = fill(&mut fs, &mut rng, 40);
    for _ in 0..files.len() / 5 {
        let (dir, name) = files.swap_remove(rng.below(files.len() as u64) as usize);
        fs.unlink(dir, &name, NOW).unwrap();
    }
    fs.sync().unwrap();
    let config = Config {
        cleaner,
        ..Config::default()
    };
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    for round in 0..1500 {
        let cut = Cut {
            after: rng.below(100),
            program: Tear::Unstable {
                reads: 1 + rng.below(8) as u32,
            },
            erase: EraseTear::Partial,
            seed: rng.below(1000),
        };
        let mut cut_chip = PowerCut::new(chip, cut);
        match try_mount_lent(&mut cut_chip, config) {
            Ok(mut fs) => (0..50).for_each(|_| change(&mut fs, &files, &mut rng)),
            Err(e) => assert!(e.contains("PowerOff"), "seed {seed}, round {round}: {e}"),
        }
        chip = cut_chip.into_inner();
    }
    let mut fs = try_mount(chip, config).unwrap();
    clean(&mut fs);
    let (dir, name) = &files[0];
    fs.unlink(*dir, name, NOW).unwrap();
}

/// Writes to a file of those that there are, if there is power and room.
fn change(fs: &mut LentFs<'_>, files: &[(Ino, Vec<u8>)], rng: &mut Rng) {
    let (dir, name) = &files[rng.below(files.len() as u64) as usize];
    if let Ok(at) = fs.lookup(*dir, name)
        && fs
            .write(at.ino, rng.below(at.size), b"changed", NOW)
            .is_ok()
    {
        fs.fsync(at.ino).unwrap_or_default();
    }
}

#[test]
fn mounts_that_are_cut_do_not_use_up_a_full_chip() {
    for seed in 20..28 {
        cut_mounts_of_a_full_chip(160, 64, Cleaner::Space, seed);
    }
    cut_mounts_of_a_full_chip(201, 32, Cleaner::Paper, 12);
    cut_mounts_of_a_full_chip(160, 8, Cleaner::Space, 0);
}

#[test]
fn a_full_chip_is_emptied_in_any_order() {
    for seed in 0..4 {
        empty_a_full_chip(512, 64, seed);
        empty_a_full_chip(1024, 16, seed);
        for (blocks, pages) in [(64, 8), (64, 16), (100, 16), (80, 32), (200, 8), (112, 64)] {
            empty_a_full_chip(blocks, pages, seed);
        }
    }
}

/// Fills a chip with files of these sizes in one directory, so many that its hash maps have index
/// pages, then changes as many as there are, and removes all of them in any order.
fn empty_a_full_directory(sizes: &[usize], changes: bool, seed: u64) {
    let mut fs = formatted(chip(1024, 64, 16, 859));
    let root = fs.root();
    let mut rng = Rng::new(seed);
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut made = 0;
    while let Ok(at) = fs.create(root, &name(made), &NewInode::default()) {
        names.push(name(made));
        made += 1;
        let size = sizes[rng.below(sizes.len() as u64) as usize];
        let written = fs.write(at.ino, 0, &vec![0x5a; size], NOW);
        if written.and_then(|_| fs.fsync(at.ino)).is_err() {
            break;
        }
    }
    let remove = |fs: &mut Fs, names: &mut Vec<Vec<u8>>, k: usize| {
        if let Err(e) = fs.unlink(root, &names[k], NOW) {
            panic!(
                "files of {sizes:?}, seed {seed}: {} are left: {e:?}",
                names.len()
            );
        }
        names.swap_remove(k);
    };
    for _ in 0..if changes { names.len() } else { 0 } {
        let k = rng.below(names.len() as u64) as usize;
        made += 1;
        match rng.below(4) {
            0 => {
                let to = name(made);
                if fs.rename(root, &names[k], root, &to, false, NOW).is_ok() {
                    names[k] = to;
                }
            }
            1 => {
                remove(&mut fs, &mut names, k);
                if fs.create(root, &name(made), &NewInode::default()).is_ok() {
                    names.push(name(made));
                }
            }
            _ => {
                let ino = fs.lookup(root, &names[k]).unwrap().ino;
                let written = fs.write(ino, rng.below(300), b"changed", NOW);
                let _ = written.and_then(|_| fs.fsync(ino));
            }
        }
    }
    while !names.is_empty() {
        let k = rng.below(names.len() as u64) as usize;
        remove(&mut fs, &mut names, k);
    }
    fs.sync().unwrap();
    clean(&mut fs);
}

/// A hash map moves with its index page. Written for each map, the index pages that a block of maps
/// leaves behind fill the room that cleaning it makes, when half of it is maps: and cleaning goes
/// round in such blocks while there is room to be won elsewhere.
#[test]
fn a_full_chip_of_one_large_directory_is_emptied_in_any_order() {
    for seed in 0..2 {
        empty_a_full_directory(&[300, 1500], false, seed);
        empty_a_full_directory(&[300, 1500, 6000], true, seed);
        empty_a_full_directory(&[300, 3000], true, seed);
    }
}

/// What waits in the index pages of a file goes to its maps when a chip is full, as cleaning does
/// not see what that makes free: many pages, and no more of them at a time than there are blocks
/// for. Nothing can be changed any more in a session that has run out of blocks in between.
#[test]
fn a_chip_full_of_overwrites_of_one_file_is_emptied() {
    for (small, pages) in [(2000, 11_000), (4000, 9000)] {
        let mut fs = formatted(chip(1024, 64, 16, 859));
        let root = fs.root();
        let mut rng = Rng::new(1);
        let large = file(&mut fs, root, b"large", 1);
        for n in 0..small {
            file(&mut fs, root, &name(n), 300);
        }
        let mut full = 0;
        while full < 10 {
            let at = rng.below(pages) * 1024;
            let written = fs.write(large, at, &[0x5a; 1024], NOW).map(drop);
            let synced = written.and_then(|()| match rng.below(4) {
                0 => fs.fsync(large),
                _ => Ok(()),
            });
            full += u32::from(synced.is_err());
        }
        let mut names: Vec<Vec<u8>> = (0..small).map(name).collect();
        while !names.is_empty() {
            let k = rng.below(names.len() as u64) as usize;
            if let Err(e) = fs.unlink(root, &names[k], NOW) {
                panic!("{small} files: {} are left: {e:?}", names.len());
            }
            names.swap_remove(k);
        }
        fs.unlink(root, b"large", NOW).unwrap();
        fs.sync().unwrap();
        clean(&mut fs);
    }
}

/// What is said to be free can be had to the last page: of one file written in order or at
/// random, of files of a page.
#[test]
fn a_chip_is_full_when_it_says_so() {
    for (page, pages, blocks) in [
        (2048, 64, 64),
        (2048, 64, 256),
        (2048, 32, 112),
        (1024, 16, 64),
        (2048, 16, 300),
        (1024, 8, 64),
        (2048, 8, 512),
    ] {
        for way in 0..3 {
            let mut fs = formatted(chip(page, 64, pages, blocks));
            let root = fs.root();
            let mut rng = Rng::new(1);
            let first = file(&mut fs, root, b"first", 1);
            let mut n = 0;
            let data = vec![0x5a; page as usize];
            let full = loop {
                n += 1;
                let (ino, at) = match way {
                    0 => (Ok(first), n),
                    1 => (Ok(first), rng.below(1 << 16)),
                    _ => (
                        fs.create(root, &name(n), &NewInode::default())
                            .map(|a| a.ino),
                        0,
                    ),
                };
                let done = ino.and_then(|ino| {
                    fs.write(ino, at * u64::from(page), &data, NOW)?;
                    if way == 2 { fs.fsync(ino) } else { Ok(()) }
                });
                if done.is_err() {
                    break fs.statfs().unwrap();
                }
            };
            let free = full.blocks_free;
            assert!(free <= 1, "{blocks} blocks of {pages}, way {way}: {full:?}");
        }
    }
}

/// All names of a volume, with what is in the files.
fn contents(fs: &mut Fs) -> Vec<(Vec<u8>, Vec<u8>)> {
    let root = fs.root();
    let mut names = Vec::new();
    let mut to = |e: flashkit_vfs::DirEntry| {
        names.push(e.name);
        true
    };
    fs.readdir(root, 0, &mut to).unwrap();
    names.sort();
    let each = names.into_iter();
    each.map(|name| {
        let path = [b"/", &name[..]].concat();
        (name, path::read_file(fs, &path).unwrap())
    })
    .collect()
}

/// Whoever only reads a volume that was cut needs no free block, and finds what
/// a mount that writes finds.
#[test]
fn a_volume_without_a_free_block_is_read() {
    for (pages, blocks) in [(64, 64), (16, 100), (8, 200), (32, 112)] {
        let mut fs = formatted(chip(1024, 64, pages, blocks));
        let root = fs.root();
        let mut rng = Rng::new(u64::from(pages));
        for n in 0..400 {
            let ino = match fs.lookup(root, &name(n % 60)) {
                Ok(at) => at.ino,
                Err(_) => file(&mut fs, root, &name(n % 60), 1),
            };
            let data = vec![n as u8; 1 + rng.below(3000) as usize];
            fs.write(ino, rng.below(8000), &data, NOW).unwrap();
            if n % 3 > 0 {
                fs.fsync(ino).unwrap();
            }
            if n % 40 > 0 {
                continue;
            }
            let mut full: SimNand = fs.volume().nand().get::<SimNand>().clone();
            let mut writing = mount(full.clone());
            let free: Vec<u32> = (0..blocks)
                .filter(|&b| {
                    let state = fs.volume().block_state(b);
                    matches!(
                        state,
                        BlockState::Free | BlockState::Clean | BlockState::Dead
                    )
                })
                .collect();
            for block in free {
                full.mark_bad(BlockAddr(block)).unwrap();
            }
            let config = Config {
                read_only: true,
                discarded: true,
                ..Config::default()
            };
            let mut reading = try_mount(full, config).unwrap();
            clean(&mut reading);
            assert_eq!(
                contents(&mut reading),
                contents(&mut writing),
                "{pages} pages, {n}"
            );
        }
    }
}

/// The least chip is counted in good blocks, when the volume is made; it holds what it
/// says, and can be emptied.
#[test]
fn a_chip_is_large_enough_if_its_good_blocks_are() {
    for (blocks, bad, enough) in [
        (44, 0, true),
        (44, 1, false),
        (50, 6, true),
        (50, 7, false),
        (64, 19, true),
        (64, 20, false),
    ] {
        let mut chip = chip(1024, 64, 16, blocks);
        for n in 0..bad {
            chip.mark_bad(BlockAddr(3 + 2 * n)).unwrap();
        }
        let mut ram = vec![0; ram_needed(&chip.geometry())];
        let made =
            FlashLight::format(AnyNand::lent(&mut chip), &mut ram, 1, &New::default()).map(drop);
        assert_eq!(made.is_ok(), enough, "{blocks} blocks, {bad} bad: {made:?}");
        if enough {
            let mut fs = mount(chip);
            let mut rng = Rng::new(1);
            let mut files = fill(&mut fs, &mut rng, 2);
            while !files.is_empty() {
                let (dir, name) = files.swap_remove(rng.below(files.len() as u64) as usize);
                fs.unlink(dir, &name, NOW).unwrap();
                clean_after_cut(&mut fs);
            }
        }
    }
}

/// Files of which each page is an extent of its own are overwritten in order: what they do not show
/// any more is room for others, though only their maps say so, and they are not in the cache.
#[test]
fn what_files_do_not_show_any_more_is_room_for_others() {
    let mut fs = formatted(chip(1024, 64, 16, 2048));
    let root = fs.root();
    let usable = fs.statfs().unwrap().blocks_free;
    let pages = usable * 48 / 100 / 8;
    let files: Vec<Ino> = (0..8).map(|n| file(&mut fs, root, &name(n), 0)).collect();
    for &ino in &files {
        for page in (0..pages).step_by(2).chain((1..pages).step_by(2)) {
            fs.write(ino, page * 1024, &[1; 1024], NOW).unwrap();
        }
    }
    fs.sync().unwrap();
    for &ino in &files {
        for page in (0..pages).step_by(16) {
            let bytes = vec![2; 1024 * 16.min(pages - page) as usize];
            fs.write(ino, page * 1024, &bytes, NOW).unwrap();
        }
        fs.fsync(ino).unwrap();
    }
    let new = file(&mut fs, root, b"new", 0);
    let mut written = 0;
    while fs.write(new, written * 1024, &[3; 1024], NOW).is_ok() {
        written += 1;
    }
    let all = 8 * pages + written;
    assert!(all * 100 > usable * 97, "{all} of {usable} pages");
    let mut fs = cut(fs);
    clean(&mut fs);
}

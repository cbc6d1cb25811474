//! Hard links of FlashLight: what they cost in flash operations, exactly, and their limits.

use crate::common::{
    Fs, NOW, chip, clean, cost, file, formatted, mount, of_paper, pages_with, remount, try_mount,
};
use flashkit_flashlight::{Area, Config, Page, Visitor};
use flashkit_nand::PageAddr;
use flashkit_sim::{Rng, SimNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr};

fn small(page: u32, blocks: u32) -> Fs {
    formatted(chip(page, 40, 32, blocks))
}

fn links(fs: &mut Fs, ino: Ino) -> u32 {
    fs.getattr(ino).unwrap().nlink
}

#[test]
fn a_link_is_one_page() {
    let mut fs = of_paper();
    let root = fs.root();
    let a = file(&mut fs, root, b"a", 100);
    fs.sync().unwrap();
    file(&mut fs, root, b"first of the session", 1);
    let first = cost(&mut fs, |fs| {
        fs.link(a, root, b"b", NOW).unwrap();
    });
    // The index directory comes into the cache.
    assert_eq!(first, (1, 1));
    let more = cost(&mut fs, |fs| {
        for i in 0..10 {
            fs.link(a, root, format!("l{i}").as_bytes(), NOW).unwrap();
        }
    });
    assert_eq!((more, links(&mut fs, a)), ((0, 10), 12));
    let unlinked = cost(&mut fs, |fs| {
        for i in 0..10 {
            fs.unlink(root, format!("l{i}").as_bytes(), NOW).unwrap();
        }
    });
    assert_eq!((unlinked, links(&mut fs, a)), ((0, 10), 2));
    let renamed = cost(&mut fs, |fs| {
        fs.rename(root, b"a", root, b"c", false, NOW).unwrap();
    });
    assert_eq!(renamed, (1, 2));
    // Both are names of one file: nothing happens.
    let no_op = cost(&mut fs, |fs| {
        fs.rename(root, b"b", root, b"c", false, NOW).unwrap();
    });
    assert_eq!((no_op, links(&mut fs, a)), ((0, 0), 2));
    assert_eq!(
        fs.rename(root, b"b", root, b"c", true, NOW),
        Err(Error::Exists)
    );
    clean(&mut fs);
}

/// What `cp -al` does: three directories take turns in a cache of two.
#[test]
fn a_tree_of_links() {
    let mut fs = of_paper();
    let root = fs.root();
    let new = NewInode::default();
    let from = fs.mkdir(root, b"from", &new).unwrap().ino;
    let first = fs.mkdir(root, b"first", &new).unwrap().ino;
    let second = fs.mkdir(root, b"second", &new).unwrap().ino;
    let names: Vec<String> = (0..200).map(|i| format!("file {i}")).collect();
    for name in &names {
        file(&mut fs, from, name.as_bytes(), 700);
    }
    fs.sync().unwrap();
    let copy = |fs: &mut Fs, to: Ino| {
        cost(fs, |fs| {
            for name in &names {
                let ino = fs.lookup(from, name.as_bytes()).unwrap().ino;
                fs.link(ino, to, name.as_bytes(), NOW).unwrap();
            }
            fs.sync().unwrap();
        })
    };
    assert_eq!(copy(&mut fs, first), (609, 244));
    assert_eq!(copy(&mut fs, second), (805, 245));
    fs = remount(fs);
    for dir in [from, first, second] {
        for name in &names {
            assert_eq!(fs.lookup(dir, name.as_bytes()).unwrap().nlink, 3);
        }
    }
    let gone = cost(&mut fs, |fs| {
        for name in &names {
            fs.unlink(first, name.as_bytes(), NOW).unwrap();
        }
        fs.rmdir(root, b"first", NOW).unwrap();
    });
    assert_eq!(gone, (204, 204));
    let checked = check(fs.volume()).unwrap();
    assert_eq!(
        (checked.findings.len(), checked.files, checked.names),
        (0, 200, 400)
    );
}

/// The applets of a busybox: hundreds of names of one file, most of them in pages of names.
#[test]
fn hundreds_of_names() {
    let mut fs = of_paper();
    let root = fs.root();
    let bin = fs.mkdir(root, b"bin", &NewInode::default()).unwrap().ino;
    let busybox = file(&mut fs, bin, b"busybox", 900_000);
    fs.sync().unwrap();
    let names: Vec<String> = (0..1000).map(|i| format!("applet-{i}")).collect();
    let linked = cost(&mut fs, |fs| {
        for name in &names {
            fs.link(busybox, bin, name.as_bytes(), NOW).unwrap();
        }
    });
    assert_eq!(linked, (134, 1_088));
    fs = remount(fs);
    let (mut most, mut all) = (0, 0);
    for name in &names {
        let (reads, programs) = cost(&mut fs, |fs| {
            let found = fs.lookup(bin, name.as_bytes()).unwrap();
            assert_eq!((found.ino, found.nlink), (busybox, 1001));
        });
        assert_eq!(programs, 0);
        (most, all) = (most.max(reads), all + reads);
    }
    assert_eq!((most, all), (13, 5_165));
    let mut listed = Vec::new();
    fs.readdir(bin, 0, &mut |e| {
        assert_eq!(e.ino, busybox);
        listed.push(String::from_utf8(e.name).unwrap());
        true
    })
    .unwrap();
    let mut all = names.clone();
    all.push("busybox".into());
    all.sort();
    listed.sort();
    assert_eq!(listed, all);
    clean(&mut fs);
    // Every second one goes, some get other names, and then all go.
    let unlinked = cost(&mut fs, |fs| {
        for name in names.iter().step_by(2) {
            fs.unlink(bin, name.as_bytes(), NOW).unwrap();
        }
    });
    assert_eq!(unlinked, (4_928, 1_020));
    for name in names.iter().skip(1).step_by(10) {
        let other = format!("other-{name}");
        fs.rename(bin, name.as_bytes(), root, other.as_bytes(), false, NOW)
            .unwrap();
        fs.rename(root, other.as_bytes(), bin, name.as_bytes(), false, NOW)
            .unwrap();
    }
    clean(&mut fs);
    fs = remount(fs);
    for (i, name) in names.iter().enumerate() {
        assert_eq!(
            fs.lookup(bin, name.as_bytes()).is_ok(),
            i % 2 == 1,
            "{name}"
        );
    }
    for name in names.iter().skip(1).step_by(2) {
        fs.unlink(bin, name.as_bytes(), NOW).unwrap();
    }
    assert_eq!(fs.lookup(bin, b"busybox").unwrap().nlink, 1);
    fs.unlink(bin, b"busybox", NOW).unwrap();
    fs.sync().unwrap();
    let checked = check(fs.volume()).unwrap();
    assert_eq!(
        (checked.findings.len(), checked.files, checked.data_pages),
        (0, 0, 0)
    );
    assert!(names_pages(&mut fs).is_empty());
}

/// How many names fit, at the least: the longest ones. POSIX asks for 8.
#[test]
fn the_limit_is_an_error_that_loses_nothing() {
    for (page, len, limit) in [
        (1024, 255, 37),
        (1024, 20, 457),
        (2048, 255, 358),
        (2048, 20, 4_030),
    ] {
        let mut fs = small(page, 256);
        let root = fs.root();
        let ino = file(&mut fs, root, &vec![b'x'; len], 5_000);
        let name = |i: usize| format!("{i:0len$}").into_bytes();
        let mut n = 0;
        let error = loop {
            match fs.link(ino, root, &name(n), NOW) {
                Ok(_) => n += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(
            (error, n + 1),
            (Error::TooManyLinks, limit),
            "pages of {page}"
        );
        assert_eq!(links(&mut fs, ino) as usize, n + 1);
        clean(&mut fs);
        // One goes, another comes.
        for i in [0, n / 2, n - 1] {
            fs.unlink(root, &name(i), NOW).unwrap();
            fs.link(ino, root, &name(i), NOW).unwrap();
        }
        // The file is as good as another: it can grow in pieces, and shrink.
        for i in 0..600 {
            fs.write(ino, i * 2 * u64::from(page), &vec![7; page as usize], NOW)
                .unwrap();
        }
        fs.fsync(ino).unwrap();
        let set = SetAttr {
            size: Some(10_000),
            ..SetAttr::default()
        };
        fs.setattr(ino, &set).unwrap();
        fs = remount(fs);
        for i in 0..n {
            fs.unlink(root, &name(i), NOW).unwrap();
        }
        clean(&mut fs);
    }
}

/// The smallest page with everything in it: the longest name, maps in the inode, names beside.
#[test]
fn the_longest_names_leave_room() {
    let mut fs = small(1024, 512);
    let root = fs.root();
    let ino = file(&mut fs, root, &[b'x'; 255], 100);
    for i in 0..31 * 40 {
        fs.write(ino, i * 2048, &[7; 1024], NOW).unwrap();
    }
    let shrink = |fs: &mut Fs, size: u64| {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        fs.setattr(ino, &set).unwrap();
    };
    shrink(&mut fs, 31 * 40 * 2048 - 200_000);
    for i in 0..36 {
        let name = format!("{i:0255}");
        fs.link(ino, root, name.as_bytes(), NOW).unwrap();
    }
    for size in (1..11).rev() {
        shrink(&mut fs, size * 200_000);
        fs.write(ino, size * 200_000 + 5_000, b"more", NOW).unwrap();
    }
    clean(&mut fs);
    fs = remount(fs);
    assert_eq!(fs.lookup(root, &[b'x'; 255]).unwrap().nlink, 37);
    clean(&mut fs);
}

/// Directory and hash tell the names of a file apart: a second one of the same hash is refused.
#[test]
fn names_of_one_hash() {
    let mut fs = of_paper();
    let root = fs.root();
    let d = fs.mkdir(root, b"d", &NewInode::default()).unwrap().ino;
    let (one, two) = (&b"n2969"[..], &b"n22704"[..]);
    let a = file(&mut fs, root, one, 100);
    let b = file(&mut fs, root, two, 200);
    let mut hashes = Vec::new();
    fs.readdir(root, 0, &mut |e| {
        hashes.push((e.cookie >> 8, e.name));
        true
    })
    .unwrap();
    hashes.retain(|(_, name)| name != b"d");
    assert_eq!(hashes[0].0, hashes[1].0, "of one hash");
    // Different files may have such names, links or not.
    fs.link(a, d, one, NOW).unwrap();
    fs.link(b, d, two, NOW).unwrap();
    fs.link(a, d, b"other", NOW).unwrap();
    clean(&mut fs);
    assert_eq!(fs.lookup(d, one).unwrap().ino, a);
    assert_eq!(fs.lookup(d, two).unwrap().ino, b);
    // One file may not, in one directory.
    fs.unlink(root, two, NOW).unwrap();
    assert_eq!(fs.link(a, root, two, NOW), Err(Error::TooManyLinks));
    assert_eq!(
        fs.rename(d, b"other", root, two, false, NOW),
        Err(Error::TooManyLinks)
    );
    assert_eq!(fs.lookup(root, two), Err(Error::NotFound));
    // But change from one to the other.
    fs.rename(root, one, root, two, false, NOW).unwrap();
    fs.unlink(d, b"other", NOW).unwrap();
    fs.rename(d, two, d, b"third", false, NOW).unwrap();
    fs.rename(d, one, d, two, false, NOW).unwrap();
    clean(&mut fs);
    fs = remount(fs);
    assert_eq!(fs.lookup(root, two).unwrap().ino, a);
    assert_eq!(fs.lookup(d, two).unwrap().ino, a);
    assert_eq!(links(&mut fs, a), 2);
    clean(&mut fs);
}

#[test]
fn what_cannot_be_linked() {
    let mut fs = of_paper();
    let root = fs.root();
    let new = NewInode::default();
    let d = fs.mkdir(root, b"d", &new).unwrap().ino;
    let gone = fs.mkdir(root, b"gone", &new).unwrap().ino;
    fs.rmdir(root, b"gone", NOW).unwrap();
    let a = file(&mut fs, root, b"a", 3_000);
    let l = fs.symlink(root, b"l", b"some/where", &new).unwrap().ino;
    assert_eq!(fs.link(d, root, b"x", NOW), Err(Error::NotPermitted));
    assert_eq!(fs.link(a, root, b"d", NOW), Err(Error::Exists));
    assert_eq!(fs.link(a, root, b"a", NOW), Err(Error::Exists));
    assert_eq!(fs.link(a, l, b"x", NOW), Err(Error::NotDir));
    assert_eq!(fs.link(a, gone, b"x", NOW), Err(Error::NotFound));
    assert_eq!(fs.link(a, root, &[b'x'; 256], NOW), Err(Error::NameTooLong));
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        assert_eq!(fs.link(a, root, name, NOW), Err(Error::Invalid));
    }
    // A symbolic link is linked like a file, and not followed.
    let linked = fs.link(l, d, b"l", NOW).unwrap();
    assert_eq!((linked.ino, linked.nlink), (l, 2));
    fs.unlink(root, b"l", NOW).unwrap();
    assert_eq!(fs.readlink(l).unwrap(), b"some/where");
    // What has lost its last name gets none again.
    fs.open(a).unwrap();
    fs.link(a, d, b"a", NOW).unwrap();
    fs.unlink(root, b"a", NOW).unwrap();
    assert_eq!(links(&mut fs, a), 1);
    fs.unlink(d, b"a", NOW).unwrap();
    assert_eq!(links(&mut fs, a), 0);
    assert_eq!(fs.link(a, root, b"a", NOW), Err(Error::NotFound));
    let mut buf = [0; 3_000];
    assert_eq!(fs.read(a, 0, &mut buf), Ok(3_000));
    assert!(buf == [0x5a; 3_000]);
    fs.release(a).unwrap();
    assert_eq!(fs.getattr(a), Err(Error::NotFound));
    clean(&mut fs);
}

/// A rename has taken a file's last name, and power fails when the index directory is on flash
/// that shows it and the file's own page is not: the recovery writes that too. (Ends of lives,
/// that a volume mounted to be read does not get to, would hide it; one that is written may
/// clean before it gets to them.)
#[test]
fn a_rename_shown_by_the_index_alone() {
    let mut fs = small(2048, 64);
    let root = fs.root();
    let dirs = [b"p", b"q"].map(|name| fs.mkdir(root, name, &NewInode::default()).unwrap().ino);
    let replaced = file(&mut fs, root, b"a", 3_000);
    fs.link(replaced, root, b"x", NOW).unwrap();
    fs.unlink(root, b"x", NOW).unwrap();
    file(&mut fs, root, b"b", 100);
    fs.sync().unwrap();
    fs.open(replaced).unwrap();
    fs.rename(root, b"b", root, b"a", false, NOW).unwrap();
    for dir in dirs {
        // The two take the places of the root and the index directory in the cache.
        let set = SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        };
        fs.setattr(dir, &set).unwrap();
    }
    let read_only = Config {
        read_only: true,
        ..Config::default()
    };
    let chip = fs.into_volume().nand().get::<SimNand>().clone();
    let mut fs = try_mount(chip.clone(), read_only).unwrap();
    clean(&mut fs);
    let mut fs = mount(chip);
    clean(&mut fs);
}

/// The room for the second step of a symbolic link may be gone after the first: then nothing of it
/// may have reached flash, where a cut would show it without a target.
#[test]
fn no_symbolic_link_without_its_target() {
    let (mut failed, mut made) = (0, 0);
    for seed in 0..4 {
        let (mut fs, mut rng) = (formatted(chip(1024, 40, 8, 64)), Rng::new(seed));
        let root = fs.root();
        for round in 0..1_000u32 {
            let name = format!("link {round} of {seed}").into_bytes();
            let (before, mut new) = (fs.getattr(root), NewInode::default());
            new.now.secs = 10 + i64::from(round);
            match fs.symlink(root, &name, b"to", &new) {
                Ok(_) => made += 1,
                Err(e) => {
                    assert_eq!(e, Error::NoSpace, "seed {seed}, round {round}");
                    assert_eq!(fs.getattr(root), before, "seed {seed}, round {round}");
                    let on_flash = pages_with(fs.volume().nand().get(), &name);
                    assert!(on_flash.is_empty(), "seed {seed}, round {round}");
                    failed += 1;
                }
            }
            churn(&mut fs, &mut rng);
        }
        clean(&mut fs);
    }
    assert!(failed > 500 && made > 500);
}

/// Writes to one of some files, or removes it, or something that has been made in the meantime.
fn churn(fs: &mut Fs, rng: &mut Rng) {
    let root = fs.root();
    let name = format!("f{}", rng.below(12)).into_bytes();
    let done = match rng.below(4) {
        0 => fs.unlink(root, &name, NOW),
        1 => {
            let mut first = None;
            fs.readdir(root, 0, &mut |e| {
                first = (e.kind == FileKind::Symlink).then_some(e.name);
                first.is_none()
            })
            .unwrap();
            first.map_or(Ok(()), |name| fs.unlink(root, &name, NOW))
        }
        _ => {
            let made = fs.create(root, &name, &NewInode::default());
            let attr = made.or_else(|_| fs.lookup(root, &name));
            attr.and_then(|attr| fs.write(attr.ino, rng.below(8_000), &[7; 900], NOW))
        }
    };
    assert!(
        matches!(done, Ok(()) | Err(Error::NoSpace | Error::NotFound)),
        "{done:?}"
    );
}

/// Where the names pages are.
struct Names(Vec<u32>);

impl Visitor for Names {
    fn page(&mut self, page: Page) {
        if page.area == Area::Names {
            self.0.push(page.page.0);
        }
    }
    fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
        panic!("{what}");
    }
}

fn names_pages(fs: &mut Fs) -> Vec<u32> {
    let mut names = Names(Vec::new());
    fs.volume().walk(&mut names).unwrap();
    names.0
}

/// Cleaning moves pages of names.
#[test]
fn cleaning_moves_names() {
    let mut fs = small(2048, 96);
    let root = fs.root();
    let fill = file(&mut fs, root, b"fill", 2048 * 1_600);
    let ino = file(&mut fs, root, b"f", 100);
    let name = |i: usize| format!("a name of some length {i}").into_bytes();
    for i in 0..150 {
        fs.link(ino, root, &name(i), NOW).unwrap();
    }
    let before = names_pages(&mut fs);
    assert_eq!(before.len(), 3);
    let mut i = 0u64;
    while names_pages(&mut fs)
        .iter()
        .any(|page| before.contains(page))
    {
        assert!(i < 20_000, "they stay where they are");
        for _ in 0..100 {
            fs.write(fill, i * 7919 % 1_600 * 2048, &[i as u8; 2048], NOW)
                .unwrap();
            i += 1;
        }
    }
    clean(&mut fs);
    fs = remount(fs);
    for i in 0..150 {
        assert_eq!(fs.lookup(root, &name(i)).unwrap().nlink, 151);
    }
}

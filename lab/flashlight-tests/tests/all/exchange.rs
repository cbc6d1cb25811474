//! Two names change places: what that costs in flash operations, exactly, and what cannot be.

use crate::common::{self, Fs, NOW, chip, clean, cost, cut, file, formatted, of_paper, remount};
use flashkit_nand::PageAddr;
use flashkit_sim::{Rot, SimNand};
use flashkit_vfs::{Attr, Error, FileSystem, Ino, NewInode};

fn small() -> Fs {
    formatted(chip(2048, 40, 32, 128))
}

fn dir(fs: &mut Fs, above: Ino, name: &[u8]) -> Ino {
    fs.mkdir(above, name, &NewInode::default()).unwrap().ino
}

fn at(fs: &mut Fs, dir: Ino, name: &[u8]) -> Attr {
    fs.lookup(dir, name).unwrap()
}

fn contents(fs: &mut Fs, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; fs.getattr(ino).unwrap().size as usize];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn an_exchange_is_two_pages() {
    let mut fs = of_paper();
    let root = fs.root();
    let (a, b) = (
        file(&mut fs, root, b"a", 100),
        file(&mut fs, root, b"b", 200),
    );
    // The second is not found by its number yet; the index directory comes into the cache.
    let first = cost(&mut fs, |fs| {
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
    });
    let again = cost(&mut fs, |fs| {
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
    });
    // Both are now.
    let third = cost(&mut fs, |fs| {
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
    });
    assert_eq!((first, again, third), ((1, 3), (0, 3), (0, 4)));
    assert_eq!(
        (at(&mut fs, root, b"a").ino, at(&mut fs, root, b"b").ino),
        (a, b)
    );
    clean(&mut fs);
}

/// Files, directories, symbolic links: whatever kinds the two are of, here and after a cut.
#[test]
fn all_kinds_change_places() {
    let new = NewInode::default();
    let make = |fs: &mut Fs, above: Ino, name: &[u8], kind: usize| match kind {
        0 => file(fs, above, name, 60),
        1 => file(fs, above, name, 9_000),
        2 => fs.symlink(above, name, b"where", &new).unwrap().ino,
        3 => {
            let ino = file(fs, above, name, 5_000);
            fs.link(ino, above, &[name, b"2"].concat(), NOW).unwrap();
            ino
        }
        _ => {
            let ino = dir(fs, above, name);
            file(fs, ino, b"within", 3_000);
            dir(fs, ino, b"below");
            ino
        }
    };
    for kinds in (0..5).flat_map(|one| (0..5).map(move |other| (one, other))) {
        for same_dir in [true, false] {
            let mut fs = small();
            let root = fs.root();
            let d = dir(&mut fs, root, b"d");
            let e = if same_dir {
                d
            } else {
                dir(&mut fs, root, b"e")
            };
            let one = make(&mut fs, d, b"one", kinds.0);
            let other = make(&mut fs, e, b"a longer name", kinds.1);
            fs.sync().unwrap();
            let links =
                |fs: &mut Fs| [d, e, one, other].map(|ino| fs.getattr(ino).map(|attr| attr.nlink));
            let before = links(&mut fs);
            fs.exchange(d, b"one", e, b"a longer name", NOW).unwrap();
            // Directories move between their parents.
            let moved = |from: usize, to: usize| {
                i64::from(from == 4 && !same_dir) - i64::from(to == 4 && !same_dir)
            };
            let by = [moved(kinds.1, kinds.0), moved(kinds.0, kinds.1), 0, 0];
            {
                let mut fs = cut(fs);
                clean(&mut fs);
                let case = format!("{kinds:?} {same_dir}");
                assert_eq!(at(&mut fs, d, b"one").ino, other, "{case}");
                assert_eq!(at(&mut fs, e, b"a longer name").ino, one, "{case}");
                let after = links(&mut fs);
                for i in 0..4 {
                    let due = before[i]
                        .clone()
                        .map(|n| n.saturating_add_signed(by[i] as i32));
                    assert_eq!(after[i], due, "{case} {i}");
                }
                for (ino, parent) in [(one, e), (other, d)] {
                    if fs.getattr(ino).unwrap().kind == flashkit_vfs::FileKind::Dir {
                        assert_eq!(fs.parent(ino).unwrap(), parent, "{case}");
                        let within = at(&mut fs, ino, b"within").ino;
                        assert_eq!(contents(&mut fs, within), vec![0x5a; 3_000]);
                    }
                }
                let mut fs = remount(fs);
                clean(&mut fs);
                assert_eq!(at(&mut fs, d, b"one").ino, other, "{case}");
                fs.exchange(e, b"a longer name", d, b"one", NOW).unwrap();
                assert_eq!(at(&mut fs, d, b"one").ino, one, "{case}");
                clean(&mut fs);
            }
        }
    }
}

#[test]
fn what_cannot_change_places() {
    let mut fs = small();
    let root = fs.root();
    let d = dir(&mut fs, root, b"d");
    let e = dir(&mut fs, d, b"e");
    let a = file(&mut fs, e, b"a", 10);
    fs.link(a, root, b"a2", NOW).unwrap();
    fs.sync().unwrap();
    let nothing = cost(&mut fs, |fs| {
        for (one, other) in [((root, "d"), (e, "a")), ((d, "e"), (e, "a"))] {
            let (from, to) = ((one.0, one.1.as_bytes()), (other.0, other.1.as_bytes()));
            assert_eq!(
                fs.exchange(from.0, from.1, to.0, to.1, NOW),
                Err(Error::Invalid)
            );
            assert_eq!(
                fs.exchange(to.0, to.1, from.0, from.1, NOW),
                Err(Error::Invalid)
            );
        }
        assert_eq!(
            fs.exchange(root, b"d", root, b"none", NOW),
            Err(Error::NotFound)
        );
        assert_eq!(
            fs.exchange(root, b"none", root, b"d", NOW),
            Err(Error::NotFound)
        );
        // Two names of one file.
        assert_eq!(fs.exchange(root, b"a2", e, b"a", NOW), Ok(()));
        assert_eq!(fs.exchange(root, b"d", root, b"d", NOW), Ok(()));
    });
    assert_eq!(nothing.1, 0);
    assert_eq!(fs.getattr(a).unwrap().nlink, 2);
    clean(&mut fs);
}

/// Names that have moved to names pages change places as others do.
#[test]
fn files_of_hundreds_of_names() {
    let mut fs = small();
    let root = fs.root();
    let (a, b) = (
        file(&mut fs, root, b"a", 3_000),
        file(&mut fs, root, b"b", 100),
    );
    for i in 0..150 {
        for (ino, name) in [(a, "name of a"), (b, "name of b")] {
            fs.link(ino, root, format!("{name} {i:03}").as_bytes(), NOW)
                .unwrap();
        }
    }
    for i in (0..150).step_by(7) {
        let (one, other) = (
            format!("name of a {i:03}"),
            format!("name of b {:03}", 149 - i),
        );
        fs.exchange(root, one.as_bytes(), root, other.as_bytes(), NOW)
            .unwrap();
        assert_eq!(at(&mut fs, root, one.as_bytes()).ino, b);
        assert_eq!(at(&mut fs, root, other.as_bytes()).ino, a);
    }
    clean(&mut fs);
    let mut fs = cut(fs);
    clean(&mut fs);
    for (name, ino) in [("name of b 149", a), ("name of a 000", b)] {
        let found = at(&mut fs, root, name.as_bytes());
        assert_eq!((found.ino, found.nlink), (ino, 151));
    }
}

/// The record of an exchange is there and the page of the second inode is not. The name that it
/// gets is in the page that the record replaces; when that has rotted too, a lost change is told
/// of, and the rest is as it was.
#[test]
fn a_recovery_finishes_what_was_begun() {
    for rotten in [false, true] {
        let mut fs = small();
        let root = fs.root();
        let (a, b) = (
            file(&mut fs, root, b"a", 3_000),
            file(&mut fs, root, b"b", 3_000),
        );
        file(&mut fs, root, b"c", 3_000);
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
        fs.sync().unwrap();
        let before = pages_of(&mut fs, a);
        fs.exchange(root, b"a", root, b"b", NOW).unwrap();
        let mut chip = fs.volume().nand().get::<SimNand>().clone();
        // Looking writes what is not written yet.
        let last = pages_of(&mut fs, b);
        // As if it had been cut: it is the newest page, which is not believed when it reads badly.
        assert!(chip.rot(last, Rot::Lost).unwrap());
        if rotten {
            assert!(chip.rot(before, Rot::Lost).unwrap());
        }
        let mut fs = common::mount(chip);
        assert_eq!(at(&mut fs, root, b"b").ino, a);
        assert_eq!(fs.volume().lost_change().is_some(), rotten);
        if rotten {
            assert_eq!(fs.lookup(root, b"a"), Err(Error::NotFound));
        } else {
            assert_eq!(at(&mut fs, root, b"a").ino, b);
            clean(&mut fs);
        }
        let c = at(&mut fs, root, b"c").ino;
        assert_eq!(contents(&mut fs, c), vec![0x5a; 3_000]);
    }
}

/// Where a file's inode is.
fn pages_of(fs: &mut Fs, ino: Ino) -> PageAddr {
    use flashkit_flashlight::{Area, Page, Visitor};
    struct Find(Ino, PageAddr);
    impl Visitor for Find {
        fn page(&mut self, page: Page) {
            if page.area == Area::File && Ino::from(page.ino) == self.0 {
                self.1 = page.page;
            }
        }
        fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
            panic!("{what}");
        }
    }
    let mut find = Find(ino, PageAddr::NONE);
    fs.volume().walk(&mut find).unwrap();
    find.1
}

/// A file that has as many names as it takes gives one of them for another's: the exchange is
/// made, or refused as a whole.
#[test]
fn a_file_of_as_many_names_as_it_takes() {
    let mut fs = small();
    let root = fs.root();
    let name = |n: usize| format!("{n:0255}").into_bytes();
    let many = file(&mut fs, root, &name(0), 100);
    let mut names = 1;
    while fs.link(many, root, &name(names), NOW).is_ok() {
        names += 1;
    }
    assert!(names > 30, "{names} names");
    file(&mut fs, root, b"other", 50);
    fs.sync().unwrap();
    for n in (0..names).step_by(5) {
        let done = fs.exchange(root, b"other", root, &name(n), NOW);
        assert!(
            matches!(done, Ok(()) | Err(Error::TooManyLinks)),
            "name {n}: {done:?}"
        );
        // What was refused has changed nothing, and stopped nothing.
        let sizes = [at(&mut fs, root, b"other"), at(&mut fs, root, &name(n))].map(|at| at.size);
        let due = if done.is_ok() { [100, 50] } else { [50, 100] };
        assert_eq!(sizes, due, "name {n}");
        clean(&mut fs);
        if done.is_ok() {
            fs.exchange(root, b"other", root, &name(n), NOW).unwrap();
        }
        fs = cut(fs);
        clean(&mut fs);
    }
}

//! Directories on the way of a path: found without a read when they were lately, and never by a
//! name that they do not have any more.

use flashkit_vfs::{Error, FileSystem, Ino, Measured, NewInode, path};

use crate::common::{clean, mount, on_preset, try_unmount};

/// Ten directories of names as `level 3`, each in the one before.
fn deep(fs: &mut dyn FileSystem) -> Ino {
    let new = NewInode::default();
    let mut dir = fs.root();
    for level in 0..10 {
        dir = fs
            .mkdir(dir, format!("level {level}").as_bytes(), &new)
            .unwrap()
            .ino;
    }
    dir
}

const DEEP: &[u8] =
    b"/level 0/level 1/level 2/level 3/level 4/level 5/level 6/level 7/level 8/level 9/file";

/// The first walk reads each directory, the page of the directory map, and the file. In the least
/// RAM there is room for seven of the ten names; but a slot for files is free, which is lent to
/// names from the eighth step on. So all are known then, and the last directory and the file are
/// still in RAM.
#[test]
fn a_path_is_read_once() {
    let mut fs = on_preset("slc-256m");
    let dir = deep(&mut fs);
    fs.create(dir, b"file", &NewInode::default()).unwrap();
    let mut fs = mount(try_unmount(fs).unwrap());
    let reads = |fs: &mut crate::common::Fs| {
        let before = fs.cost().page_reads;
        path::resolve(fs, DEEP).unwrap();
        fs.cost().page_reads - before
    };
    assert_eq!(reads(&mut fs), 13, "cold");
    assert_eq!(reads(&mut fs), 0, "known");
}

/// Twelve directories below four levels of them, whose names are more than the least RAM has bytes
/// for, with files of these names; and their paths.
fn wide(names: &[&str]) -> (crate::common::Fs, Vec<String>) {
    let mut fs = on_preset("slc-256m");
    let new = NewInode::default();
    let mut paths = Vec::new();
    for top in 0..12 {
        let (mut dir, mut path) = (fs.root(), String::new());
        for level in 0..4 {
            let name = format!("{top} level {level}");
            dir = fs.mkdir(dir, name.as_bytes(), &new).unwrap().ino;
            path = format!("{path}/{name}");
        }
        for name in names {
            fs.create(dir, name.as_bytes(), &new).unwrap();
        }
        paths.push(path);
    }
    (mount(try_unmount(fs).unwrap()), paths)
}

/// Reads of 60 writes to such files, each by its path.
fn writes_by_path(names: &[&str]) -> u64 {
    let (mut fs, paths) = wide(names);
    let new = NewInode::default();
    let mut reads = 0;
    for _ in 0..2 {
        let before = fs.cost().page_reads;
        for n in 0..60 {
            let path = format!("{}/{}", paths[n * 5 % 12], names[n % names.len()]);
            let node = path::resolve(&mut fs, path.as_bytes()).unwrap();
            fs.write(node.ino, 0, b"new", new.now).unwrap();
            fs.fsync(node.ino).unwrap();
        }
        reads = fs.cost().page_reads - before;
    }
    clean(&mut fs);
    reads
}

/// Files take turns in one slot while names have the other: the last directory of each path is
/// read, and the file; none of those above.
#[test]
fn names_are_lent_a_slot_that_files_do_not_need() {
    assert_eq!(writes_by_path(&["file"]), 120);
    assert_eq!(writes_by_path(&["one", "other"]), 120);
}

/// A file is replaced by rename, as programs do with what they save: the new one is in a slot, and
/// the old one needs none, so the names of directories stay in the other. Each time the directory,
/// that above it and the old file are read. From the second round on the old file is one that was
/// renamed itself, and is found by its number.
#[test]
fn names_stay_in_a_lent_slot_when_a_file_is_replaced() {
    let (mut fs, paths) = wide(&["file"]);
    let new = NewInode::default();
    let mut reads = Vec::new();
    for _ in 0..4 {
        let before = fs.cost().page_reads;
        for n in 0..12 {
            let path = paths[n * 5 % 12].as_bytes();
            let dir = path::resolve(&mut fs, path).unwrap().ino;
            let file = fs.create(dir, b"new", &new).unwrap().ino;
            fs.write(file, 0, b"new", new.now).unwrap();
            fs.fsync(file).unwrap();
            fs.rename(dir, b"new", dir, b"file", false, new.now)
                .unwrap();
        }
        reads.push(fs.cost().page_reads - before);
    }
    assert_eq!(reads, [75, 37, 36, 36]);
    clean(&mut fs);
}

/// All ways for a directory to lose its name.
#[test]
fn a_directory_is_not_found_by_a_name_it_has_lost() {
    let new = NewInode::default();
    let mut fs = on_preset("slc-256m");
    let root = fs.root();
    let dir =
        |fs: &mut dyn FileSystem, parent, name: &[u8]| fs.mkdir(parent, name, &new).unwrap().ino;
    let [a, b] = [b"a", b"b"].map(|name| dir(&mut fs, root, name));
    let x = dir(&mut fs, a, b"x");
    assert_eq!(fs.lookup_dir(a, b"x"), Ok(x));

    fs.rename(a, b"x", a, b"y", false, new.now).unwrap();
    assert_eq!(fs.lookup_dir(a, b"x"), Err(Error::NotFound));
    assert_eq!(fs.lookup_dir(a, b"y"), Ok(x));
    fs.rename(a, b"y", b, b"y", false, new.now).unwrap();
    assert_eq!(fs.lookup_dir(a, b"y"), Err(Error::NotFound));
    assert_eq!(fs.lookup_dir(b, b"y"), Ok(x));

    fs.rmdir(b, b"y", new.now).unwrap();
    assert_eq!(fs.lookup_dir(b, b"y"), Err(Error::NotFound));
    fs.create(b, b"y", &new).unwrap();
    assert_eq!(fs.lookup_dir(b, b"y"), Err(Error::NotDir));
    fs.unlink(b, b"y", new.now).unwrap();

    // Replaced by another, and exchanged with one and with a file.
    let [x, y] = [b"x", b"y"].map(|name| dir(&mut fs, a, name));
    assert_eq!(
        [fs.lookup_dir(a, b"x"), fs.lookup_dir(a, b"y")],
        [Ok(x), Ok(y)]
    );
    fs.rename(a, b"x", a, b"y", false, new.now).unwrap();
    assert_eq!(fs.lookup_dir(a, b"x"), Err(Error::NotFound));
    assert_eq!(fs.lookup_dir(a, b"y"), Ok(x));
    let z = dir(&mut fs, b, b"z");
    assert_eq!(fs.lookup_dir(b, b"z"), Ok(z));
    fs.exchange(a, b"y", b, b"z", new.now).unwrap();
    assert_eq!(
        [fs.lookup_dir(a, b"y"), fs.lookup_dir(b, b"z")],
        [Ok(z), Ok(x)]
    );
    fs.create(a, b"file", &new).unwrap();
    fs.exchange(a, b"file", b, b"z", new.now).unwrap();
    assert_eq!(
        [fs.lookup_dir(a, b"file"), fs.lookup_dir(b, b"z")],
        [Ok(x), Err(Error::NotDir)]
    );
}

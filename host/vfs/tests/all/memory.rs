//! The reference file system against the rules of the interface.

use flashkit_vfs::{Error, FileKind, FileSystem, MemoryFs, NewInode, SetAttr, Time, path};

fn at(secs: i64) -> Time {
    Time { secs, nanos: 7 }
}

fn new(secs: i64) -> NewInode {
    NewInode {
        mode: 0o640,
        uid: 1,
        gid: 2,
        now: at(secs),
    }
}

fn names(fs: &mut MemoryFs, dir: u64) -> Vec<String> {
    let list = path::list(fs, dir).unwrap();
    list.into_iter()
        .map(|entry| String::from_utf8(entry.name).unwrap())
        .collect()
}

#[test]
fn creation_sets_attributes_and_times() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let file = fs.create(root, b"f", &new(10)).unwrap();
    assert_eq!(
        (file.mode, file.uid, file.gid, file.nlink, file.size),
        (0o640, 1, 2, 1, 0)
    );
    assert_eq!(
        (file.atime, file.mtime, file.ctime),
        (at(10), at(10), at(10))
    );
    assert_eq!(fs.getattr(root).unwrap().mtime, at(10));
    assert_eq!(fs.create(root, b"f", &new(11)).unwrap_err(), Error::Exists);
    assert_eq!(fs.mkdir(root, b"f", &new(11)).unwrap_err(), Error::Exists);
    assert_eq!(fs.getattr(root).unwrap().mtime, at(10));
    assert_eq!(
        fs.create(file.ino, b"x", &new(11)).unwrap_err(),
        Error::NotDir
    );
    assert_eq!(
        fs.create(root, &[b'x'; 256], &new(11)).unwrap_err(),
        Error::NameTooLong
    );
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
        assert_eq!(fs.create(root, name, &new(11)).unwrap_err(), Error::Invalid);
    }
    fs.create(root, &[b'x'; 255], &new(11)).unwrap();
    let dir = fs.mkdir(root, b"d", &new(12)).unwrap();
    assert_eq!((dir.nlink, fs.getattr(root).unwrap().nlink), (2, 3));
    assert_eq!((fs.parent(dir.ino), fs.parent(root)), (Ok(root), Ok(root)));
    assert_eq!(fs.parent(file.ino), Err(Error::NotDir));
}

#[test]
fn writes_extend_with_zeros_and_truncation_leaves_none_behind() {
    let mut fs = MemoryFs::new();
    let ino = fs.create(fs.root(), b"f", &new(1)).unwrap().ino;
    fs.write(ino, 10_000, b"end", at(2)).unwrap();
    let mut buf = vec![1; 20_000];
    assert_eq!(fs.read(ino, 0, &mut buf), Ok(10_003));
    assert!(buf[..10_000].iter().all(|b| *b == 0));
    assert_eq!(&buf[10_000..10_003], b"end");
    assert_eq!(fs.getattr(ino).unwrap().blocks, 8);
    fs.setattr(
        ino,
        &SetAttr {
            size: Some(10_001),
            now: at(3),
            ..SetAttr::default()
        },
    )
    .unwrap();
    let attr = fs
        .setattr(
            ino,
            &SetAttr {
                size: Some(10_003),
                now: at(4),
                ..SetAttr::default()
            },
        )
        .unwrap();
    assert_eq!((attr.mtime, attr.ctime), (at(4), at(4)));
    assert_eq!(fs.read(ino, 9_999, &mut buf), Ok(4));
    assert_eq!(buf[..4], [0, b'e', 0, 0]);
    assert_eq!(fs.read(ino, 10_003, &mut buf), Ok(0));
    assert_eq!(fs.read(ino, u64::MAX, &mut buf), Ok(0));
    assert_eq!(fs.write(ino, u64::MAX, b"x", at(5)), Err(Error::TooBig));
    fs.write(ino, 1 << 60, b"x", at(5)).unwrap();
    assert_eq!(fs.getattr(ino).unwrap().size, (1 << 60) + 1);
}

#[test]
fn what_is_open_outlives_its_name() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let ino = fs.create(root, b"f", &new(1)).unwrap().ino;
    fs.open(ino).unwrap();
    fs.open(ino).unwrap();
    fs.write(ino, 0, b"abc", at(2)).unwrap();
    fs.unlink(root, b"f", at(3)).unwrap();
    assert_eq!(fs.getattr(ino).unwrap().nlink, 0);
    assert_ne!(fs.create(root, b"f", &new(4)).unwrap().ino, ino);
    fs.write(ino, 3, b"d", at(5)).unwrap();
    fs.release(ino).unwrap();
    let mut buf = [0; 8];
    assert_eq!(fs.read(ino, 0, &mut buf), Ok(4));
    fs.release(ino).unwrap();
    assert_eq!(fs.getattr(ino), Err(Error::NotFound));
    let stat = fs.statfs().unwrap();
    assert_eq!(stat.blocks, stat.blocks_free);
}

#[test]
fn rename_follows_posix() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let a = fs.mkdir(root, b"a", &new(1)).unwrap().ino;
    let b = fs.mkdir(a, b"b", &new(1)).unwrap().ino;
    let file = fs.create(root, b"f", &new(1)).unwrap().ino;
    let other = fs.create(b, b"g", &new(1)).unwrap().ino;
    let mut rename = |from: u64, name: &[u8], to: u64, new: &[u8], no_replace| {
        fs.rename(from, name, to, new, no_replace, at(9))
    };
    assert_eq!(
        rename(root, b"none", root, b"x", false),
        Err(Error::NotFound)
    );
    assert_eq!(rename(root, b"a", b, b"x", false), Err(Error::Invalid));
    assert_eq!(rename(root, b"a", a, b"x", false), Err(Error::Invalid));
    assert_eq!(rename(root, b"f", root, b"a", true), Err(Error::Exists));
    assert_eq!(rename(root, b"f", root, b"a", false), Err(Error::IsDir));
    assert_eq!(rename(root, b"a", root, b"f", false), Err(Error::NotDir));
    assert_eq!(rename(b, b"g", root, b"a", false), Err(Error::NotEmpty));
    assert_eq!(rename(root, b"f", root, b"f", false), Ok(()));
    assert_eq!(rename(root, b"f", b, b"g", false), Ok(()));
    assert_eq!(fs.getattr(other), Err(Error::NotFound));
    assert_eq!(fs.lookup(b, b"g").unwrap().ino, file);
    assert_eq!(fs.lookup(b, b"g").unwrap().mtime, at(1));
    let empty = fs.mkdir(root, b"empty", &new(2)).unwrap().ino;
    assert_eq!(fs.rename(a, b"b", root, b"empty", false, at(10)), Ok(()));
    assert_eq!(fs.getattr(empty), Err(Error::NotFound));
    assert_eq!(fs.parent(b), Ok(root));
    assert_eq!(
        (
            fs.getattr(a).unwrap().nlink,
            fs.getattr(root).unwrap().nlink
        ),
        (2, 4)
    );
    assert_eq!(
        fs.rename(root, b"a", root, b"empty", false, at(11)),
        Err(Error::NotEmpty)
    );
    assert_eq!(names(&mut fs, root), ["a", "empty"]);
}

#[test]
fn links_are_counted() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let d = fs.mkdir(root, b"d", &new(1)).unwrap().ino;
    let a = fs.create(root, b"a", &new(1)).unwrap().ino;
    let linked = fs.link(a, d, b"b", at(2)).unwrap();
    assert_eq!((linked.ino, linked.nlink), (a, 2));
    assert_eq!((linked.ctime, linked.mtime), (at(2), at(1)));
    assert_eq!(fs.getattr(d).unwrap().mtime, at(2));
    assert_eq!(fs.link(a, d, b"b", at(3)), Err(Error::Exists));
    assert_eq!(fs.link(d, d, b"c", at(3)), Err(Error::NotPermitted));
    assert_eq!(fs.link(a, a, b"c", at(3)), Err(Error::NotDir));
    assert_eq!(fs.link(a, d, b"", at(3)), Err(Error::Invalid));
    assert_eq!(fs.link(a, d, &[b'x'; 256], at(3)), Err(Error::NameTooLong));
    // From one name of a file to another: nothing.
    assert_eq!(fs.rename(root, b"a", d, b"b", false, at(4)), Ok(()));
    assert_eq!(fs.lookup(root, b"a").unwrap().ctime, at(2));
    assert_eq!(
        fs.rename(root, b"a", d, b"b", true, at(4)),
        Err(Error::Exists)
    );
    // Over one of two names: the other stays.
    fs.create(root, b"c", &new(5)).unwrap();
    fs.rename(root, b"c", d, b"b", false, at(6)).unwrap();
    assert_eq!(fs.getattr(a).map(|a| (a.nlink, a.ctime)), Ok((1, at(6))));
    fs.link(a, root, b"b", at(7)).unwrap();
    fs.open(a).unwrap();
    fs.unlink(root, b"a", at(8)).unwrap();
    fs.unlink(root, b"b", at(8)).unwrap();
    assert_eq!(fs.getattr(a).unwrap().nlink, 0);
    assert_eq!(fs.link(a, root, b"a", at(9)), Err(Error::NotFound));
    fs.release(a).unwrap();
    assert_eq!(fs.getattr(a), Err(Error::NotFound));
}

#[test]
fn removal_tells_kinds_apart() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let d = fs.mkdir(root, b"d", &new(1)).unwrap().ino;
    fs.symlink(d, b"l", b"over/there", &new(2)).unwrap();
    let link = fs.lookup(d, b"l").unwrap();
    assert_eq!((link.kind, link.size), (FileKind::Symlink, 10));
    assert_eq!(fs.readlink(link.ino).unwrap(), b"over/there");
    assert_eq!(fs.readlink(d), Err(Error::Invalid));
    assert_eq!(fs.unlink(root, b"d", at(3)), Err(Error::IsDir));
    assert_eq!(fs.rmdir(d, b"l", at(3)), Err(Error::NotDir));
    assert_eq!(fs.rmdir(root, b"d", at(3)), Err(Error::NotEmpty));
    assert_eq!(fs.unlink(d, b"m", at(3)), Err(Error::NotFound));
    fs.unlink(d, b"l", at(4)).unwrap();
    assert_eq!(fs.getattr(d).unwrap().mtime, at(4));
    fs.rmdir(root, b"d", at(5)).unwrap();
    assert_eq!(fs.getattr(d), Err(Error::NotFound));
    assert_eq!(fs.getattr(root).unwrap().nlink, 2);
}

#[test]
fn a_listing_goes_on_through_changes() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    for i in 0..100 {
        fs.create(root, format!("f{i}").as_bytes(), &new(1))
            .unwrap();
    }
    let (mut seen, mut cookie) = (Vec::new(), 0);
    for round in 0.. {
        let mut last = None;
        let mut left = 7;
        fs.readdir(root, cookie, &mut |entry| {
            seen.push(String::from_utf8(entry.name).unwrap());
            last = Some(entry.cookie);
            left -= 1;
            left > 0
        })
        .unwrap();
        let Some(last) = last else { break };
        cookie = last;
        // Some come and some go, before and after the place of the listing.
        let _ = fs.unlink(root, format!("f{}", round * 6 + 1).as_bytes(), at(2));
        let _ = fs.unlink(root, format!("f{}", 99 - round * 2).as_bytes(), at(2));
        if round < 5 {
            fs.create(root, format!("n{round}").as_bytes(), &new(2))
                .unwrap();
        }
    }
    for name in names(&mut fs, root) {
        assert_eq!(
            seen.iter().filter(|held| **held == name).count(),
            1,
            "{name}"
        );
    }
}

#[test]
fn capacity_is_kept() {
    let mut fs = MemoryFs::with_capacity(16 << 10);
    let root = fs.root();
    let ino = fs.create(root, b"f", &new(1)).unwrap().ino;
    fs.write(ino, 0, &[1; 12 << 10], at(2)).unwrap();
    assert_eq!(
        fs.write(ino, 12 << 10, &[1; 5000], at(3)),
        Err(Error::NoSpace)
    );
    assert_eq!(fs.getattr(ino).unwrap().size, 12 << 10);
    fs.write(ino, 0, &[2; 12 << 10], at(4)).unwrap();
    fs.setattr(
        ino,
        &SetAttr {
            size: Some(1),
            ..SetAttr::default()
        },
    )
    .unwrap();
    assert_eq!(fs.statfs().unwrap().blocks_free, 3);
    fs.unlink(root, b"f", at(5)).unwrap();
    assert_eq!(fs.statfs().unwrap().blocks_free, 4);
}

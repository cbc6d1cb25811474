//! Paths and tree copies over the reference file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use flashkit_vfs::tree::{self, CopyOptions, Difference};
use flashkit_vfs::{Error, FileKind, FileSystem, MemoryFs, NewInode, Time, path};

const NEW: NewInode = NewInode {
    mode: 0o644,
    uid: 0,
    gid: 0,
    now: Time { secs: 5, nanos: 0 },
};

#[test]
fn paths_resolve() {
    let mut fs = MemoryFs::new();
    let root = fs.root();
    let dir = path::mkdir_p(&mut fs, b"/a/b//c", &NEW).unwrap();
    assert_eq!(
        path::mkdir_p(&mut fs, b"a/./b/c/", &NEW).unwrap().ino,
        dir.ino
    );
    let data: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let file = path::write_file(&mut fs, b"/a/b/c/f", &data, 777, &NEW).unwrap();
    assert_eq!(file.size, 5000);
    assert_eq!(path::read_file(&mut fs, b"a/b/c/f").unwrap(), data);
    assert_eq!(
        path::write_file(&mut fs, b"/a/b/c/f", b"xy", 0, &NEW)
            .unwrap()
            .size,
        2
    );
    assert_eq!(path::resolve(&mut fs, b"/").unwrap().ino, root);
    assert_eq!(
        path::resolve(&mut fs, b"/a/b/../b/c/f").unwrap().ino,
        file.ino
    );
    assert_eq!(path::resolve(&mut fs, b"/../../a/..").unwrap().ino, root);
    assert_eq!(path::resolve(&mut fs, b"/a/x"), Err(Error::NotFound));
    assert_eq!(path::resolve(&mut fs, b"/a/b/c/f/x"), Err(Error::NotDir));
    assert_eq!(path::resolve(&mut fs, b"/a/b/c/f/"), Err(Error::NotDir));
    assert_eq!(
        path::mkdir_p(&mut fs, b"/a/b/c/f/x", &NEW),
        Err(Error::NotDir)
    );
    assert_eq!(
        path::write_file(&mut fs, b"/a/b", b"", 0, &NEW),
        Err(Error::IsDir)
    );

    fs.symlink(dir.ino, b"rel", b"../c/f", &NEW).unwrap();
    fs.symlink(dir.ino, b"abs", b"/a/b", &NEW).unwrap();
    fs.symlink(dir.ino, b"loop", b"loop", &NEW).unwrap();
    assert_eq!(
        path::resolve(&mut fs, b"/a/b/c/rel").unwrap().kind,
        FileKind::Symlink
    );
    assert_eq!(
        path::resolve_follow(&mut fs, b"/a/b/c/rel").unwrap().ino,
        file.ino
    );
    assert_eq!(
        path::resolve_follow(&mut fs, b"/a/b/c/abs/c/abs/c/f")
            .unwrap()
            .ino,
        file.ino
    );
    assert_eq!(
        path::resolve_follow(&mut fs, b"/a/b/c/loop"),
        Err(Error::Invalid)
    );

    let mut seen = Vec::new();
    path::walk(&mut fs, root, &mut |_, path, attr| {
        seen.push((String::from_utf8(path.to_vec()).unwrap(), attr.kind));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen[0], ("a".into(), FileKind::Dir));
    assert!(seen.contains(&("a/b/c/abs".into(), FileKind::Symlink)));
    assert_eq!(seen.len(), 7);
    path::remove_all(&mut fs, b"/", Time::default()).unwrap();
    assert!(path::list(&mut fs, root).unwrap().is_empty());
}

#[test]
fn paths_split() {
    assert_eq!(path::split(b"/a/b").unwrap(), (&b"/a/"[..], &b"b"[..]));
    assert_eq!(path::split(b"b//").unwrap(), (&b""[..], &b"b"[..]));
    for path in [&b""[..], b"/", b"//", b"a/.", b"a/../"] {
        assert_eq!(path::split(path), Err(Error::Invalid));
    }
}

fn make_tree(host: &Path) {
    fs::create_dir_all(host.join("d/e")).unwrap();
    fs::create_dir(host.join("empty")).unwrap();
    fs::write(host.join("d/big"), vec![0xa5; 300_001]).unwrap();
    fs::write(host.join("d/e/small"), b"hello").unwrap();
    fs::write(host.join("none"), b"").unwrap();
    fs::set_permissions(host.join("none"), PermissionsExt::from_mode(0o644)).unwrap();
    symlink("d/e/small", host.join("link")).unwrap();
    fs::set_permissions(host.join("d/big"), PermissionsExt::from_mode(0o4751)).unwrap();
    fs::set_permissions(host.join("empty"), PermissionsExt::from_mode(0o1777)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(host.join("sock")).unwrap();
    fs::hard_link(host.join("sock"), host.join("d/sock")).unwrap();
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o640);
    nix::unistd::mkfifo(&host.join("d/pipe"), mode).unwrap();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(host.join("d/big"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    fs::File::open(host.join("d"))
        .unwrap()
        .set_modified(old)
        .unwrap();
}

#[test]
fn trees_go_in_and_come_out_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let (host, out) = (temp.path().join("in"), temp.path().join("out"));
    fs::create_dir(&host).unwrap();
    make_tree(&host);
    let mut mem = MemoryFs::new();
    let mut last = 0;
    let options = CopyOptions {
        request: 4096,
        owner: true,
    };
    let done = tree::copy_in(&mut mem, &host, b"/x/y", options, &mut |n| last = n).unwrap();
    assert_eq!(
        (done.files, done.dirs, done.symlinks, done.bytes),
        (3, 4, 1, 300_006)
    );
    assert_eq!((done.specials, done.links), (2, 1));
    assert_eq!((done.skipped, last), (vec![], 300_006));
    assert_eq!(tree::host_tree(&host).unwrap().bytes, 300_006);
    let big = path::resolve(&mut mem, b"/x/y/d/big").unwrap();
    let meta = fs::metadata(host.join("d/big")).unwrap();
    assert_eq!(
        big.mtime,
        Time {
            secs: 1_000_000_000,
            nanos: 123_456_789
        }
    );
    assert_eq!(
        (big.mode, big.uid, big.gid),
        (0o4751, meta.uid(), meta.gid())
    );
    assert_eq!(path::resolve(&mut mem, b"/x/y/d").unwrap().mtime, big.mtime);
    assert_eq!(tree::compare(&mut mem, b"/x/y", &host).unwrap(), []);

    for _ in 0..2 {
        let done = tree::copy_out(&mut mem, b"/x/y", &out, options, &mut |_| {}).unwrap();
        assert_eq!((done.files, done.dirs, done.symlinks), (3, 4, 1));
        assert_eq!((done.specials, done.links), (2, 1));
        let pipe = fs::symlink_metadata(out.join("d/pipe")).unwrap();
        assert_eq!(pipe.mode(), 0o010_640);
        assert_eq!(tree::compare(&mut mem, b"/x/y", &out).unwrap(), []);
        let meta = fs::metadata(out.join("d/big")).unwrap();
        assert_eq!(
            (meta.mtime(), meta.mtime_nsec()),
            (1_000_000_000, 123_456_789)
        );
    }
    // A second copy overwrites; a single file goes to the path given.
    tree::copy_in(&mut mem, &host, b"/x/y", options, &mut |_| {}).unwrap();
    assert_eq!(tree::compare(&mut mem, b"/x/y", &host).unwrap(), []);
    tree::copy_in(
        &mut mem,
        &host.join("d/e/small"),
        b"/s",
        options,
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(path::read_file(&mut mem, b"/s").unwrap(), b"hello");
}

/// A file of three names, a symbolic link of two, and a file that looks the same.
fn make_links(host: &Path) {
    fs::create_dir(host.join("d")).unwrap();
    fs::write(host.join("a"), vec![7; 5_000]).unwrap();
    fs::hard_link(host.join("a"), host.join("b")).unwrap();
    fs::hard_link(host.join("a"), host.join("d/c")).unwrap();
    fs::write(host.join("d/other"), vec![7; 5_000]).unwrap();
    symlink("nowhere", host.join("s")).unwrap();
    fs::hard_link(host.join("s"), host.join("d/t")).unwrap();
}

#[test]
fn hard_links_go_in_and_come_out() {
    let temp = tempfile::tempdir().unwrap();
    let (host, out) = (temp.path().join("in"), temp.path().join("out"));
    fs::create_dir(&host).unwrap();
    make_links(&host);
    assert_eq!(tree::host_tree(&host).unwrap().bytes, 10_000);
    let mut mem = MemoryFs::new();
    let options = CopyOptions::default();
    for _ in 0..2 {
        let done = tree::copy_in(&mut mem, &host, b"/x", options, &mut |_| {}).unwrap();
        assert_eq!((done.files, done.symlinks, done.links), (2, 1, 3));
        assert_eq!(done.bytes, 10_000);
        assert_eq!(tree::compare(&mut mem, b"/x", &host).unwrap(), []);
    }
    let nlink = |mem: &mut MemoryFs, path: &[u8]| path::resolve(mem, path).unwrap().nlink;
    assert_eq!([b"/x/a", b"/x/s"].map(|path| nlink(&mut mem, path)), [3, 2]);
    for _ in 0..2 {
        let done = tree::copy_out(&mut mem, b"/x", &out, options, &mut |_| {}).unwrap();
        assert_eq!((done.files, done.symlinks, done.links), (2, 1, 3));
        assert_eq!(tree::compare(&mut mem, b"/x", &out).unwrap(), []);
        assert_eq!(fs::metadata(out.join("d/c")).unwrap().nlink(), 3);
    }
    // Another link structure is a difference, and a copy makes it the host's.
    fs::remove_file(host.join("b")).unwrap();
    fs::write(host.join("b"), vec![7; 5_000]).unwrap();
    fs::remove_file(host.join("d/other")).unwrap();
    fs::hard_link(host.join("a"), host.join("d/other")).unwrap();
    let found = tree::compare(&mut mem, b"/x", &host).unwrap();
    // Which of the names is the odd one depends on where one begins.
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(_, what)| *what == Difference::Links));
    tree::copy_in(&mut mem, &host, b"/x", options, &mut |_| {}).unwrap();
    assert_eq!(tree::compare(&mut mem, b"/x", &host).unwrap(), []);
}

#[test]
fn every_difference_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let host = temp.path();
    make_tree(host);
    let mut mem = MemoryFs::new();
    tree::copy_in(&mut mem, host, b"/", CopyOptions::default(), &mut |_| {}).unwrap();
    let mut data = vec![0xa5; 300_001];
    data[299_999] = 0;
    fs::write(host.join("d/big"), data).unwrap();
    fs::set_permissions(host.join("d/big"), PermissionsExt::from_mode(0o4751)).unwrap();
    fs::write(host.join("d/e/small"), b"hello!").unwrap();
    fs::set_permissions(host.join("none"), PermissionsExt::from_mode(0o600)).unwrap();
    fs::remove_file(host.join("link")).unwrap();
    symlink("elsewhere", host.join("link")).unwrap();
    fs::write(host.join("more"), b"").unwrap();
    fs::remove_dir(host.join("empty")).unwrap();
    let mut found = tree::compare(&mut mem, b"/", host).unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("d/big", Difference::Content(299_999)),
        ("d/e/small", Difference::Size(5, 6)),
        ("empty", Difference::Extra),
        ("link", Difference::Target),
        ("more", Difference::Missing),
        ("none", Difference::Mode(0o644, 0o600)),
    ];
    assert_eq!(found, expected.map(|(at, what)| (at.into(), what)));
}

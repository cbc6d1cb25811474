//! Paths and tree copies over the reference file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use flashkit_vfs::path::Last;
use flashkit_vfs::tree::{self, CopyOptions, Difference, Modes};
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, MemoryFs, NewInode, SetAttr, StatFs, Time,
    path,
};

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
    assert_eq!(followed(&mut fs, b"/a/b/c/rel").unwrap().ino, file.ino);
    assert_eq!(
        followed(&mut fs, b"/a/b/c/abs/c/abs/c/f").unwrap().ino,
        file.ino
    );
    assert_eq!(followed(&mut fs, b"/a/b/c/loop"), Err(Error::Loop));

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

fn followed(fs: &mut MemoryFs, path: &[u8]) -> Result<Attr, Error> {
    path::follow(fs, path, Last::Follow)?.found()
}

#[test]
fn links_before_the_last_name_are_followed() {
    let mut fs = MemoryFs::new();
    let usr = path::mkdir_p(&mut fs, b"/usr/bin", &NEW).unwrap();
    let root = fs.root();
    fs.symlink(root, b"bin", b"usr/bin", &NEW).unwrap();
    fs.symlink(root, b"again", b"/bin/", &NEW).unwrap();
    fs.symlink(usr.ino, b"none", b"../no", &NEW).unwrap();
    path::write_file(&mut fs, b"/usr/bin/f", b"x", 0, &NEW).unwrap();
    fs.symlink(root, b"f", b"bin/f", &NEW).unwrap();
    fs.symlink(root, b"f as a directory", b"bin/f/", &NEW)
        .unwrap();
    let mut at = |path: &[u8], last| {
        let place = path::follow(&mut fs, path, last)?;
        let path = String::from_utf8(place.path).unwrap();
        Ok((path, place.attr.map(|attr| attr.kind)))
    };
    let (file, dir, link) = (FileKind::File, FileKind::Dir, FileKind::Symlink);
    for (path, last, to, kind) in [
        ("/bin", Last::Follow, "/usr/bin", Some(dir)),
        ("/bin", Last::Keep, "/bin", Some(link)),
        ("/bin/", Last::Keep, "/usr/bin", Some(dir)),
        ("/bin/.", Last::Keep, "/usr/bin", Some(dir)),
        ("/again/f", Last::Keep, "/usr/bin/f", Some(file)),
        ("/bin/../..", Last::Keep, "/", Some(dir)),
        ("/bin/../new", Last::Keep, "/usr/new", None),
        ("/bin/none", Last::Keep, "/usr/bin/none", Some(link)),
        ("/bin/none", Last::Follow, "/usr/no", None),
        ("/f", Last::Follow, "/usr/bin/f", Some(file)),
    ] {
        assert_eq!(at(path.as_bytes(), last), Ok((to.into(), kind)), "{path}");
    }
    for (path, error) in [
        ("/f/", Error::NotDir),
        ("/f/.", Error::NotDir),
        ("/f/..", Error::NotDir),
        ("/f as a directory", Error::NotDir),
        ("/bin/f/x", Error::NotDir),
        ("/bin/no/x", Error::NotFound),
    ] {
        let asked = path.as_bytes();
        assert_eq!(at(asked, Last::Follow), Err(error), "{path}");
    }
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
        modes: Modes::All,
        ..CopyOptions::default()
    };
    let done = tree::copy_in(&mut mem, &host, b"/x/y", options, &mut |n| last = n).unwrap();
    assert_eq!(
        (done.files, done.dirs, done.symlinks, done.bytes),
        (3, 4, 1, 300_006)
    );
    assert_eq!((done.specials, done.links), (2, 1));
    assert_eq!((done.skipped, last), (vec![], 300_006));
    assert_eq!(tree::host_tree(&host, None).unwrap().bytes, 300_006);
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
    assert_eq!(tree::host_tree(&host, None).unwrap().bytes, 10_000);
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
    // Which of the names are the odd ones depends on where one begins.
    assert!((2..=3).contains(&found.len()), "{found:?}");
    assert!(found.iter().all(|(_, what)| *what == Difference::Links));
    tree::copy_in(&mut mem, &host, b"/x", options, &mut |_| {}).unwrap();
    assert_eq!(tree::compare(&mut mem, b"/x", &host).unwrap(), []);
}

#[test]
fn a_file_goes_in_whole_or_not_at_all() {
    let temp = tempfile::tempdir().unwrap();
    let mut mem = MemoryFs::with_capacity(100_000);
    // Whether it went in, the names that there are then, and the length of `kept`.
    let mut copy = |len: usize, to: &[u8]| {
        let from = temp.path().join("from");
        fs::write(&from, vec![7; len]).unwrap();
        let options = CopyOptions {
            request: 4096,
            ..CopyOptions::default()
        };
        let done = tree::copy_in(&mut mem, &from, to, options, &mut |_| {});
        let root = mem.root();
        let entries = path::list(&mut mem, root).unwrap().into_iter();
        let mut names: Vec<_> = entries
            .map(|entry| String::from_utf8(entry.name).unwrap())
            .collect();
        names.sort();
        let kept = path::read_file(&mut mem, b"/kept").unwrap().len();
        (done.is_ok(), names.join(" "), kept)
    };
    assert_eq!(copy(40_000, b"/kept"), (true, "kept".into(), 40_000));
    // A new one, and one in the place of another.
    assert_eq!(copy(200_000, b"/new"), (false, "kept".into(), 40_000));
    assert_eq!(copy(90_000, b"/kept"), (false, "kept".into(), 40_000));
    // No other file is taken for what is being made.
    let both = ".flashkit-0.part kept".to_owned();
    let other = b"/.flashkit-0.part";
    assert_eq!(copy(1_000, other), (true, both.clone(), 40_000));
    assert_eq!(copy(30_000, b"/kept"), (true, both, 30_000));
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

/// The mode and the blocks of what has been copied out of `mem` with these options.
fn copied_out(mem: &mut MemoryFs, options: CopyOptions) -> (tempfile::TempDir, tree::Copied) {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let done = tree::copy_out(mem, b"/", &out, options, &mut |_| {}).unwrap();
    (temp, done)
}

#[test]
fn set_id_bits_and_devices_come_out_if_asked_for() {
    let mut mem = MemoryFs::new();
    let new = |mode| NewInode {
        mode,
        ..NewInode::default()
    };
    let root = mem.root();
    let made = mem.create(root, b"suid", &new(0o6755)).unwrap();
    mem.write(made.ino, 0, b"x", Time::default()).unwrap();
    mem.create(root, b"open", &new(0o666)).unwrap();
    mem.mkdir(root, b"dir", &new(0o7777)).unwrap();
    mem.mknod(
        root,
        b"null",
        FileKind::Char,
        flashkit_vfs::device::pack(1, 3),
        &new(0o666),
    )
    .unwrap();
    // What new files get that nobody chooses a mode for.
    let umask = {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("x"), b"").unwrap();
        0o666 & !fs::metadata(temp.path().join("x")).unwrap().mode()
    };
    for (modes, suid, open, dir) in [
        (Modes::All, 0o6755, 0o666, 0o7777),
        (Modes::NoSetId, 0o755, 0o666, 0o1777),
        (Modes::Umask, 0o755 & !umask, 0o666 & !umask, 0o777 & !umask),
    ] {
        let options = CopyOptions {
            owner: false,
            modes,
            ..CopyOptions::default()
        };
        let (temp, done) = copied_out(&mut mem, options);
        let mode = |name: &str| {
            fs::metadata(temp.path().join("out").join(name))
                .unwrap()
                .mode()
        };
        assert_eq!(mode("suid") & 0o7777, suid, "{modes:?}");
        assert_eq!(mode("open") & 0o7777, open, "{modes:?}");
        assert_eq!(mode("dir") & 0o7777, dir, "{modes:?}");
        assert_eq!(done.skipped.len(), 1);
        assert!(!temp.path().join("out/null").exists());
    }
    let options = CopyOptions {
        owner: false,
        devices: true,
        ..CopyOptions::default()
    };
    let (temp, done) = copied_out(&mut mem, options);
    let made = fs::symlink_metadata(temp.path().join("out/null"));
    assert_eq!(done.skipped.len(), usize::from(made.is_err()));
    if let Ok(made) = made {
        assert_eq!((made.mode(), made.rdev()), (0o020_666, 0x103));
    }
}

/// A file system that says which mode a file of the host has while its first bytes are read.
struct Watched<'a> {
    mem: MemoryFs,
    at: &'a Path,
    seen: u32,
}

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $of:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&mut self, $($arg: $of),*) -> flashkit_vfs::Result<$gives> {
            self.mem.$name($($arg),*)
        })*
    };
}

impl FileSystem for Watched<'_> {
    fn root(&self) -> u64 {
        self.mem.root()
    }
    fn forget(&mut self, ino: u64) {
        self.mem.forget(ino);
    }
    fn read(&mut self, ino: u64, offset: u64, buf: &mut [u8]) -> flashkit_vfs::Result<usize> {
        self.seen = fs::metadata(self.at).unwrap().mode() & 0o7777;
        self.mem.read(ino, offset, buf)
    }
    passed_on! {
        lookup(dir: u64, name: &[u8]) -> Attr;
        getattr(ino: u64) -> Attr;
        setattr(ino: u64, set: &SetAttr) -> Attr;
        create(dir: u64, name: &[u8], new: &NewInode) -> Attr;
        mkdir(dir: u64, name: &[u8], new: &NewInode) -> Attr;
        symlink(dir: u64, name: &[u8], target: &[u8], new: &NewInode) -> Attr;
        readlink(ino: u64) -> Vec<u8>;
        unlink(dir: u64, name: &[u8], now: Time) -> ();
        rmdir(dir: u64, name: &[u8], now: Time) -> ();
        rename(
            from_dir: u64, from: &[u8], to_dir: u64, to: &[u8], no_replace: bool, now: Time
        ) -> ();
        open(ino: u64) -> ();
        release(ino: u64) -> ();
        write(ino: u64, offset: u64, data: &[u8], now: Time) -> ();
        fsync(ino: u64) -> ();
        readdir(
            dir: u64, cookie: u64, each: &mut dyn FnMut(flashkit_vfs::DirEntry) -> bool
        ) -> ();
        parent(dir: u64) -> u64;
        statfs() -> flashkit_vfs::StatFs;
        sync() -> ();
        unmount() -> ();
    }
}

#[test]
fn nobody_else_reads_a_file_before_its_mode_is_set() {
    let temp = tempfile::tempdir().unwrap();
    let at = temp.path().join("f");
    for (modes, stored, seen) in [
        (Modes::All, 0o640, 0o600),
        (Modes::NoSetId, 0o755, 0o600),
        (Modes::Umask, 0o400, 0o400),
    ] {
        let mut mem = MemoryFs::new();
        let new = NewInode {
            mode: stored,
            ..NewInode::default()
        };
        let file = mem.create(mem.root(), b"f", &new).unwrap();
        mem.write(file.ino, 0, b"secret", new.now).unwrap();
        let mut fs = Watched {
            mem,
            at: &at,
            seen: 0,
        };
        let options = CopyOptions {
            owner: false,
            modes,
            ..CopyOptions::default()
        };
        tree::copy_out(&mut fs, b"/f", &at, options, &mut |_| {}).unwrap();
        assert_eq!(fs.seen, seen, "{modes:?}");
        let mode = fs::metadata(&at).unwrap().mode() & 0o7777;
        assert_eq!(mode, u32::from(stored), "{modes:?}");
        fs::remove_file(&at).unwrap();
    }
}

#[test]
fn what_is_in_use_and_the_image_itself_are_not_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let at = temp.path().join("f");
    fs::write(&at, b"held").unwrap();
    let mut mem = MemoryFs::new();
    mem.create(mem.root(), b"f", &NewInode::default()).unwrap();
    let mut options = CopyOptions {
        owner: false,
        ..CopyOptions::default()
    };
    let lock = fs::File::open(&at).unwrap();
    lock.lock_shared().unwrap();
    let copy = |mem: &mut MemoryFs, options| tree::copy_out(mem, b"/f", &at, options, &mut |_| {});
    let refused = copy(&mut mem, options).unwrap_err().to_string();
    assert!(
        refused.ends_with("a file that is in use is in the way"),
        "{refused}"
    );
    drop(lock);
    options.apart[0] = Some(tree::file_id(&fs::metadata(&at).unwrap()));
    let refused = copy(&mut mem, options).unwrap_err().to_string();
    assert!(
        refused.ends_with("the image itself is in the way"),
        "{refused}"
    );
    assert_eq!(fs::read(&at).unwrap(), b"held");
    let done = tree::copy_in(&mut mem, temp.path(), b"/", options, &mut |_| {}).unwrap();
    assert_eq!((done.files, done.skipped.len()), (0, 1));
    let outside = tree::host_tree(temp.path(), options.apart[0]).unwrap();
    assert_eq!(outside.bytes, 0);
    options.apart[0] = None;
    copy(&mut mem, options).unwrap();
    assert_eq!(fs::read(&at).unwrap(), b"");
}

#[test]
fn holes_go_in_and_come_out() {
    use std::os::unix::fs::FileExt;
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("to"));
    let len = 3 << 30;
    let file = fs::File::create(&from).unwrap();
    file.set_len(len).unwrap();
    file.write_all_at(&[7; 70_000], 1 << 20).unwrap();
    file.write_all_at(&[8; 10], 1 << 30).unwrap();
    let stored = fs::metadata(&from).unwrap().blocks();
    if stored > 1 << 20 {
        println!("skipped: no sparse files in {}", temp.path().display());
        return;
    }
    let mut mem = MemoryFs::new();
    let options = CopyOptions {
        owner: false,
        ..CopyOptions::default()
    };
    let done = tree::copy_in(&mut mem, &from, b"/f", options, &mut |_| {}).unwrap();
    // The host's pieces are of its blocks.
    assert!((70_010..1 << 20).contains(&done.bytes), "{}", done.bytes);
    let made = path::resolve(&mut mem, b"/f").unwrap();
    assert_eq!(made.size, len);
    assert_eq!(
        mem.next_data(made.ino, (1 << 30) + (1 << 20)).unwrap(),
        None
    );
    let done = tree::copy_out(&mut mem, b"/f", &to, options, &mut |_| {}).unwrap();
    assert!((70_010..1 << 20).contains(&done.bytes), "{}", done.bytes);
    let copied = fs::metadata(&to).unwrap();
    assert_eq!(copied.len(), len);
    assert!(
        copied.blocks() <= stored + 1_024,
        "{} blocks",
        copied.blocks()
    );
    let mut read = vec![0; 70_002];
    let to = fs::File::open(&to).unwrap();
    to.read_exact_at(&mut read, (1 << 20) - 1).unwrap();
    assert!(read[0] == 0 && read[70_001] == 0 && read[1..70_001].iter().all(|&b| b == 7));
    to.read_exact_at(&mut read[..12], (1 << 30) - 1).unwrap();
    assert_eq!(read[..12], [0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 0]);
}

/// A file system whose root holds itself, under two names.
struct Mirror(Attr);

impl Mirror {
    fn new() -> Mirror {
        let mut fs = MemoryFs::new();
        let root = fs.root();
        Mirror(fs.getattr(root).unwrap())
    }
}

type Done<T> = Result<T, Error>;

impl FileSystem for Mirror {
    fn root(&self) -> Ino {
        self.0.ino
    }
    fn lookup(&mut self, _: Ino, name: &[u8]) -> Done<Attr> {
        match name {
            b"a" | b"b" => Ok(self.0),
            _ => Err(Error::NotFound),
        }
    }
    fn getattr(&mut self, _: Ino) -> Done<Attr> {
        Ok(self.0)
    }
    fn setattr(&mut self, _: Ino, _: &SetAttr) -> Done<Attr> {
        Err(Error::ReadOnly)
    }
    fn create(&mut self, _: Ino, _: &[u8], _: &NewInode) -> Done<Attr> {
        Err(Error::ReadOnly)
    }
    fn mkdir(&mut self, _: Ino, _: &[u8], _: &NewInode) -> Done<Attr> {
        Err(Error::ReadOnly)
    }
    fn symlink(&mut self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Done<Attr> {
        Err(Error::ReadOnly)
    }
    fn readlink(&mut self, _: Ino) -> Done<Vec<u8>> {
        Err(Error::Invalid)
    }
    fn unlink(&mut self, _: Ino, _: &[u8], _: Time) -> Done<()> {
        Err(Error::ReadOnly)
    }
    fn rmdir(&mut self, _: Ino, _: &[u8], _: Time) -> Done<()> {
        Err(Error::ReadOnly)
    }
    fn rename(&mut self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: bool, _: Time) -> Done<()> {
        Err(Error::ReadOnly)
    }
    fn open(&mut self, _: Ino) -> Done<()> {
        Ok(())
    }
    fn release(&mut self, _: Ino) -> Done<()> {
        Ok(())
    }
    fn forget(&mut self, _: Ino) {}
    fn read(&mut self, _: Ino, _: u64, _: &mut [u8]) -> Done<usize> {
        Err(Error::IsDir)
    }
    fn write(&mut self, _: Ino, _: u64, _: &[u8], _: Time) -> Done<()> {
        Err(Error::IsDir)
    }
    fn fsync(&mut self, _: Ino) -> Done<()> {
        Ok(())
    }
    fn readdir(&mut self, _: Ino, _: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Done<()> {
        for (cookie, name) in [(1, b"a"), (2, b"b")] {
            each(DirEntry {
                ino: self.0.ino,
                kind: FileKind::Dir,
                name: name.to_vec(),
                cookie,
            });
        }
        Ok(())
    }
    fn parent(&mut self, dir: Ino) -> Done<Ino> {
        Ok(dir)
    }
    fn statfs(&mut self) -> Done<StatFs> {
        Err(Error::Unsupported)
    }
    fn sync(&mut self) -> Done<()> {
        Ok(())
    }
    fn unmount(&mut self) -> Done<()> {
        Ok(())
    }
}

/// A volume may have been made to deceive: what goes through all of it has an end.
#[test]
fn a_directory_in_itself_is_damage() {
    let mut fs = Mirror::new();
    let root = fs.root();
    let mut visits = 0;
    let walked = path::walk(&mut fs, root, &mut |_, _, _| {
        visits += 1;
        assert!(visits < 100, "the walk has no end");
        Ok(())
    });
    assert!(matches!(walked, Err(Error::Damaged(_))), "{walked:?}");
    let removed = path::remove_all(&mut fs, b"/", Time::default());
    assert!(matches!(removed, Err(Error::Damaged(_))), "{removed:?}");
    let to = tempfile::tempdir().unwrap();
    let options = CopyOptions::default();
    let copied = tree::copy_out(&mut fs, b"/", to.path(), options, &mut |_| ());
    let damaged = copied.unwrap().damaged;
    let at: Vec<_> = damaged.iter().map(|(at, _)| at.clone()).collect();
    assert_eq!(at, [to.path().join("a"), to.path().join("b")]);
    assert!(
        damaged[0].1.to_string().contains("two places"),
        "{damaged:?}"
    );
    // One level at most.
    assert!(!to.path().join("a/a").exists());
}

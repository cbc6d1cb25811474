//! Names, links, attributes and directories on a mount.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{Mounted, code, eventually, flash};
use flashkit_fuse::MountOptions;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

/// Files that never had a name are refused in the way that makes programs take one with a name.
#[test]
fn files_without_names_are_refused() {
    let Some(m) = Mounted::new() else { return };
    for _ in 0..2 {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(rustix::fs::OFlags::TMPFILE.bits().cast_signed())
            .open(m.dir.path());
        assert_eq!(code(opened), Errno::EOPNOTSUPP);
    }
    let mut file = tempfile::tempfile_in(m.dir.path()).unwrap();
    file.write_all(b"falls back").unwrap();
    assert_eq!(fs::read_dir(m.dir.path()).unwrap().count(), 0);
}

#[test]
fn names_move_and_vanish_as_posix_says() {
    let Some(m) = Mounted::new() else { return };
    fs::create_dir_all(m.path("a/b")).unwrap();
    fs::write(m.path("a/one"), "1").unwrap();
    fs::write(m.path("a/two"), "2").unwrap();
    fs::rename(m.path("a/one"), m.path("a/b/moved")).unwrap();
    assert_eq!(fs::read(m.path("a/b/moved")).unwrap(), b"1");
    assert_eq!(
        fs::metadata(m.path("a/one")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    fs::rename(m.path("a/two"), m.path("a/b/moved")).unwrap();
    assert_eq!(fs::read(m.path("a/b/moved")).unwrap(), b"2");

    fs::write(m.path("three"), "3").unwrap();
    let rename = |flags| {
        renameat2(
            AT_FDCWD,
            &m.path("three"),
            AT_FDCWD,
            &m.path("a/b/moved"),
            flags,
        )
    };
    assert_eq!(rename(RenameFlags::RENAME_NOREPLACE), Err(Errno::EEXIST));
    let both = RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE;
    assert_eq!(rename(both), Err(Errno::EINVAL));
    assert_eq!(rename(RenameFlags::RENAME_EXCHANGE), Ok(()));
    assert_eq!(fs::read(m.path("three")).unwrap(), b"2");
    assert_eq!(fs::read(m.path("a/b/moved")).unwrap(), b"3");
    assert_eq!(rename(RenameFlags::RENAME_EXCHANGE), Ok(()));
    assert_eq!(fs::read(m.path("three")).unwrap(), b"3");

    assert_eq!(code(fs::remove_dir(m.path("a/b"))), Errno::ENOTEMPTY);
    assert_eq!(code(fs::remove_dir(m.path("three"))), Errno::ENOTDIR);
    assert_eq!(code(fs::remove_file(m.path("a"))), Errno::EISDIR);
    assert_eq!(code(fs::create_dir(m.path("a"))), Errno::EEXIST);
    assert_eq!(
        code(fs::rename(m.path("a"), m.path("a/b/a"))),
        Errno::EINVAL
    );
    assert_eq!(
        code(fs::write(m.path(&"n".repeat(256)), "")),
        Errno::ENAMETOOLONG
    );
    fs::write(m.path(&"n".repeat(255)), "").unwrap();
    fs::remove_dir_all(m.path("a")).unwrap();
    assert!(!m.path("a").exists());
    m.unmount();
}

/// What is not stored counts for nothing: `du`, and programs that copy holes as such, go by it.
#[test]
fn holes_take_no_space() {
    let Some(m) = Mounted::over(flash(), &MountOptions::default()) else {
        return;
    };
    let file = File::create(m.path("f")).unwrap();
    let blocks = || file.metadata().unwrap().blocks();
    file.set_len(100 << 30).unwrap();
    assert_eq!(blocks(), 0);
    file.write_all_at(&[1; 10], 50 << 30).unwrap();
    file.sync_all().unwrap();
    assert_eq!(blocks(), 4, "a page of 2 KiB");
    file.write_all_at(&[1; 20_000], 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(blocks(), 4 + 40);
    file.set_len(10_000).unwrap();
    assert_eq!(blocks(), 20, "no more than its size");
    fs::write(m.path("small"), "x").unwrap();
    assert_eq!(fs::metadata(m.path("small")).unwrap().blocks(), 1);
    drop(file);
    m.unmount();
}

#[test]
fn extended_attributes() {
    use rustix::fs::{
        XattrFlags, getxattr, lgetxattr, listxattr, lsetxattr, removexattr, setxattr,
    };
    use rustix::io::Errno;
    let Some(m) = Mounted::new() else { return };
    let f = m.path("f");
    fs::write(&f, "x").unwrap();
    let get = |path: &Path, name: &str| {
        let mut value = [0; 64];
        getxattr(path, name, &mut value).map(|n| value[..n].to_vec())
    };
    let any = XattrFlags::empty();
    for path in [&f, &m.path("")] {
        setxattr(path, "user.colour", b"red", any).unwrap();
        assert_eq!(get(path, "user.colour").unwrap(), b"red");
        setxattr(path, "user.colour", b"", XattrFlags::REPLACE).unwrap();
        assert_eq!(get(path, "user.colour").unwrap(), b"");
    }
    let again = setxattr(&f, "user.colour", b"x", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    let none = setxattr(&f, "user.none", b"x", XattrFlags::REPLACE);
    assert_eq!(none, Err(Errno::NODATA));
    assert_eq!(get(&f, "user.none"), Err(Errno::NODATA));
    assert_eq!(removexattr(&f, "user.none"), Err(Errno::NODATA));
    setxattr(&f, "user.colour", &[7; 60], any).unwrap();
    assert_eq!(get(&f, "user.colour").unwrap(), [7; 60]);
    assert_eq!(getxattr(&f, "user.colour", &mut [0; 59]), Err(Errno::RANGE));
    let mut list = [0; 64];
    let n = listxattr(&f, &mut list).unwrap();
    assert_eq!(&list[..n], b"user.colour\0");
    // Access control lists are no attributes that would be heeded.
    for name in ["system.posix_acl_access", "system.x", "other.x"] {
        let refused = setxattr(&f, name, b"\x02\0\0\0", any);
        assert_eq!(refused, Err(Errno::OPNOTSUPP), "{name}");
    }
    if nix::unistd::geteuid().is_root() {
        symlink("nowhere", m.path("link")).unwrap();
        lsetxattr(m.path("link"), "trusted.t", b"of a link", any).unwrap();
        let mut value = [0; 64];
        assert_eq!(lgetxattr(m.path("link"), "trusted.t", &mut value), Ok(9));
        setxattr(&f, "security.s", b"1", any).unwrap();
        let n = listxattr(&f, &mut list).unwrap();
        assert_eq!(&list[..n], b"security.s\0user.colour\0");
    }
    removexattr(&f, "user.colour").unwrap();
    assert_eq!(get(&f, "user.colour"), Err(Errno::NODATA));
    m.unmount();
}

#[test]
fn special_files_are_what_they_are_made() {
    use nix::sys::stat::{Mode, SFlag, makedev, mknod};
    use std::os::unix::fs::FileTypeExt;
    let Some(m) = Mounted::new() else { return };
    let mode = Mode::from_bits_truncate(0o600);
    mknod(&m.path("pipe"), SFlag::S_IFIFO, mode, 0).unwrap();
    let pipe = fs::symlink_metadata(m.path("pipe")).unwrap();
    assert!(pipe.file_type().is_fifo() && pipe.len() == 0);
    let writer = {
        let path = m.path("pipe");
        std::thread::spawn(move || fs::write(path, "through").unwrap())
    };
    assert_eq!(fs::read(m.path("pipe")).unwrap(), b"through");
    writer.join().unwrap();

    let socket = std::os::unix::net::UnixListener::bind(m.path("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(m.path("socket")).unwrap();
    drop(socket);
    fs::hard_link(m.path("pipe"), m.path("second")).unwrap();
    fs::rename(m.path("socket"), m.path("pipe")).unwrap();
    let kind = |name: &str| fs::symlink_metadata(m.path(name)).unwrap().file_type();
    assert!(kind("pipe").is_socket() && kind("second").is_fifo());

    if nix::unistd::geteuid().is_root() {
        for (name, kind, device) in [
            ("null", SFlag::S_IFCHR, makedev(1, 3)),
            ("disk", SFlag::S_IFBLK, makedev(4095, (1 << 20) - 1)),
        ] {
            mknod(&m.path(name), kind, mode, device).unwrap();
            let made = fs::symlink_metadata(m.path(name)).unwrap();
            assert_eq!(made.rdev(), device, "{name}");
            assert_eq!(made.mode(), kind.bits() | 0o600, "{name}");
        }
    }
    m.unmount();
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("gone");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    file.write_all(b" and after").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before and after");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let ino = file.metadata().unwrap().ino();
    drop(file);
    let calls = m.calls.clone();
    eventually("forget", || calls.forgotten.lock().unwrap().contains(&ino));
    eventually("release", || calls.opens.load(Ordering::SeqCst) == 0);
    m.unmount();
}

#[test]
fn hard_links_are_names_of_one_file() {
    let Some(m) = Mounted::new() else { return };
    let links = |name: &str| fs::symlink_metadata(m.path(name)).map(|meta| meta.nlink());
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("a"), "one").unwrap();
    fs::hard_link(m.path("a"), m.path("d/b")).unwrap();
    fs::hard_link(m.path("d/b"), m.path("c")).unwrap();
    let ino = fs::metadata(m.path("a")).unwrap().ino();
    for name in ["a", "d/b", "c"] {
        let meta = fs::metadata(m.path(name)).unwrap();
        assert_eq!((meta.ino(), meta.nlink()), (ino, 3), "{name}");
    }
    fs::write(m.path("c"), "two").unwrap();
    assert_eq!(fs::read(m.path("d/b")).unwrap(), b"two");
    fs::set_permissions(m.path("a"), fs::Permissions::from_mode(0o600)).unwrap();
    let mode = fs::metadata(m.path("c")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);

    // From one name of a file to another: both stay.
    fs::rename(m.path("a"), m.path("c")).unwrap();
    assert_eq!((links("a").unwrap(), links("c").unwrap()), (3, 3));
    // Over one of them: the others count one less.
    fs::write(m.path("other"), "three").unwrap();
    fs::rename(m.path("other"), m.path("c")).unwrap();
    assert_eq!((links("a").unwrap(), links("c").unwrap()), (2, 1));
    fs::remove_file(m.path("a")).unwrap();
    assert_eq!(links("d/b").unwrap(), 1);
    assert_eq!(fs::read(m.path("d/b")).unwrap(), b"two");

    let open = File::open(m.path("d/b")).unwrap();
    fs::hard_link(m.path("d/b"), m.path("e")).unwrap();
    fs::remove_file(m.path("d/b")).unwrap();
    fs::remove_file(m.path("e")).unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    drop(open);

    assert_eq!(
        code(fs::hard_link(m.path("d"), m.path("dir"))),
        Errno::EPERM
    );
    assert_eq!(code(fs::hard_link(m.path("c"), m.path("d"))), Errno::EEXIST);
    assert_eq!(
        code(fs::hard_link(m.path("none"), m.path("x"))),
        Errno::ENOENT
    );
    // A symbolic link is linked, not followed.
    symlink("nowhere", m.path("s")).unwrap();
    fs::hard_link(m.path("s"), m.path("t")).unwrap();
    assert_eq!(links("t").unwrap(), 2);
    assert_eq!(fs::read_link(m.path("t")).unwrap(), Path::new("nowhere"));
    m.unmount();
}

#[test]
fn attributes_and_links() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("f");
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o751
    );

    let old = UNIX_EPOCH - Duration::from_millis(1_500);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(old).set_accessed(old))
        .unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), old);
    drop(file);
    assert!(
        std::process::Command::new("touch")
            .arg(&path)
            .status()
            .unwrap()
            .success(),
        "utimensat(UTIME_NOW)"
    );
    let age = fs::metadata(&path).unwrap().modified().unwrap().elapsed();
    assert!(age.unwrap_or_default() < Duration::from_secs(60));

    symlink("some/where else", m.path("link")).unwrap();
    assert_eq!(
        fs::read_link(m.path("link")).unwrap(),
        Path::new("some/where else")
    );
    let link = fs::symlink_metadata(m.path("link")).unwrap();
    assert!(link.file_type().is_symlink() && link.len() == 15);
    symlink("f", m.path("to-f")).unwrap();
    assert_eq!(
        fs::metadata(m.path("to-f")).unwrap().ino(),
        fs::metadata(&path).unwrap().ino()
    );

    // A set-group-ID directory hands its group down.
    if nix::unistd::geteuid().is_root() {
        let dir = m.path("shared");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, None, Some(4321)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2775)).unwrap();
        fs::write(dir.join("f"), "").unwrap();
        fs::create_dir(dir.join("d")).unwrap();
        assert_eq!(fs::metadata(dir.join("f")).unwrap().gid(), 4321);
        let sub = fs::metadata(dir.join("d")).unwrap();
        assert_eq!((sub.gid(), sub.mode() & 0o2000), (4321, 0o2000));
    }
    m.unmount();
}

#[test]
fn directories_of_2000_entries_are_listed_once_each() {
    let Some(m) = Mounted::new() else { return };
    let dir = m.path("many");
    fs::create_dir(&dir).unwrap();
    let all: BTreeSet<String> = (0..2_000).map(|i| format!("entry number {i}")).collect();
    for name in &all {
        File::create(dir.join(name)).unwrap();
    }
    let list = || -> Vec<String> {
        fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let listed = list();
    assert_eq!(listed.len(), all.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), all);

    // Removing while listing, as `rm -r` does.
    for (i, entry) in fs::read_dir(&dir).unwrap().enumerate() {
        if i % 2 == 0 {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    assert_eq!(list().len(), 1_000);
    let shell = format!("ls -a {} | head -2", dir.display());
    let out = std::process::Command::new("sh")
        .arg("-c")
        .arg(shell)
        .output()
        .unwrap();
    assert_eq!(out.stdout, b".\n..\n");
    m.unmount();
}

/// Of a file in many pieces, too, what `du` shows is what is stored.
#[test]
fn holes_between_many_pieces_do_not_count_as_stored() {
    let Some(m) = Mounted::over(flash(), &MountOptions::default()) else {
        return;
    };
    let file = File::create(m.path("f")).unwrap();
    for n in 0..600 {
        file.write_all_at(&[7; 2048], n * 3 * 2048).unwrap();
    }
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 600 * 4);
    drop(file);
    m.unmount();
}

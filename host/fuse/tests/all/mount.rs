//! Real mounts over the in-memory file system.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{self, Mounted, eventually};
use flashkit_fuse::{EndedBy, MountOptions};
use flashkit_vfs::FileSystem;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i * 31 + i / 251 + seed) % 256) as u8)
        .collect()
}

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> Errno {
    Errno::from_raw(result.unwrap_err().raw_os_error().unwrap())
}

#[test]
fn files_keep_what_is_written() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("file");
    let mut expected = bytes(3_000_000, 1);
    fs::write(&path, &expected).unwrap();
    assert_eq!(fs::read(&path).unwrap(), expected);

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.write_all_at(&bytes(10_000, 2), 999_999).unwrap();
    expected[999_999..1_009_999].copy_from_slice(&bytes(10_000, 2));
    let mut appended = OpenOptions::new().append(true).open(&path).unwrap();
    appended.write_all(b"the end").unwrap();
    expected.extend_from_slice(b"the end");
    assert_eq!(fs::read(&path).unwrap(), expected);
    assert_eq!(file.metadata().unwrap().len(), expected.len() as u64);

    let before = m.calls.fsyncs.load(Ordering::SeqCst);
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(m.dir.path()).unwrap().sync_all().unwrap();
    assert_eq!(m.calls.fsyncs.load(Ordering::SeqCst), before + 3);

    // A hole reads as zeros.
    let mut sparse = File::create(m.path("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(100_000)).unwrap();
    sparse.write_all(b"x").unwrap();
    let read = fs::read(m.path("sparse")).unwrap();
    assert!(read.len() == 100_001 && read[..100_000].iter().all(|&b| b == 0));
    drop((file, appended, sparse));
    m.unmount();
}

#[test]
fn truncation_cuts_and_extends_with_zeros() {
    let Some(m) = Mounted::new() else { return };
    let path = m.path("t");
    fs::write(&path, bytes(9_000, 3)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(5_000).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes(9_000, 3)[..5_000]);
    file.set_len(7_000).unwrap();
    let read = fs::read(&path).unwrap();
    assert_eq!(read[..5_000], bytes(9_000, 3)[..5_000]);
    assert!(read.len() == 7_000 && read[5_000..].iter().all(|&b| b == 0));
    File::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    drop(file);
    m.unmount();
}

#[test]
fn holes_are_made_and_found() {
    use nix::fcntl::{FallocateFlags, fallocate};
    use nix::unistd::{Whence, lseek};
    let options = MountOptions {
        writeback: false,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let path = m.path("f");
    fs::write(&path, bytes(40_960, 4)).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | keep;
    let zero = FallocateFlags::FALLOC_FL_ZERO_RANGE;
    let mut expected = bytes(40_960, 4);
    let blocks = file.metadata().unwrap().blocks();
    for (mode, from, len) in [(punch, 5_000, 10_000), (zero | keep, 40_000, 9_000)] {
        fallocate(&file, mode, from, len).unwrap();
        let end = (from + len).min(40_960) as usize;
        expected[from as usize..end].fill(0);
        assert_eq!(fs::read(&path).unwrap(), expected, "{mode:?}");
    }
    assert!(file.metadata().unwrap().blocks() < blocks);
    let seek = |at, whence| lseek(&file, at, whence);
    assert_eq!(seek(0, Whence::SeekHole), Ok(8_192));
    assert_eq!(seek(8_192, Whence::SeekData), Ok(12_288));
    assert_eq!(seek(12_288, Whence::SeekHole), Ok(40_960));
    assert_eq!(seek(40_960, Whence::SeekData), Err(Errno::ENXIO));
    fallocate(&file, zero, 40_900, 10_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 50_900);
    // Space cannot be set aside, nor can bytes be taken out or put in.
    for mode in [
        FallocateFlags::empty(),
        keep,
        FallocateFlags::FALLOC_FL_COLLAPSE_RANGE,
        FallocateFlags::FALLOC_FL_INSERT_RANGE,
    ] {
        let refused = fallocate(&file, mode, 0, 4_096);
        assert_eq!(refused, Err(Errno::EOPNOTSUPP), "{mode:?}");
    }
    drop(file);
    m.unmount();
}

/// What the kernel has gathered it does not hand over before it asks for holes,
/// so it is not told of any.
#[test]
fn gathered_writes_are_no_holes() {
    use nix::unistd::{Whence, lseek};
    let Some(m) = Mounted::new() else { return };
    let file = File::create(m.path("f")).unwrap();
    file.write_all_at(&bytes(10_000, 5), 100_000).unwrap();
    assert_eq!(lseek(&file, 0, Whence::SeekData), Ok(0));
    assert_eq!(lseek(&file, 104_000, Whence::SeekHole), Ok(110_000));
    file.sync_all().unwrap();
    drop(file);
    m.unmount();
}

/// Two mappings and `write` see each other; what was mapped is there after a new mount.
#[test]
fn shared_mappings_are_written() {
    let Some(m) = Mounted::new() else { return };
    let script = r#"
import mmap, os, sys
path = sys.argv[1] + "/mapped"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 300_000)
a, b = mmap.mmap(fd, 300_000), mmap.mmap(fd, 300_000)
a[100_000:100_005] = b"first"
assert b[100_000:100_005] == b"first"
os.pwrite(fd, b"second", 200_000)
assert a[200_000:200_006] == b"second"
a.flush()
a[299_990:] = b"unflushed!"
"#;
    let ran = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(m.dir.path())
        .status();
    let Ok(status) = ran else {
        println!("skipped: no python3");
        m.unmount();
        return;
    };
    assert!(status.success());
    let (mut outcome, _) = m.unmount();
    let fs = outcome.fs.as_mut().unwrap();
    let root = fs.root();
    let file = fs.lookup(root, b"mapped").unwrap();
    let mut data = vec![0; 300_000];
    assert_eq!(fs.read(file.ino, 0, &mut data), Ok(300_000));
    assert_eq!(&data[100_000..100_005], b"first");
    assert_eq!(&data[200_000..200_006], b"second");
    assert_eq!(&data[299_990..], b"unflushed!");
}

/// Set-ID bits go when a file is written, cut or given away.
#[test]
fn privileges_do_not_survive_changes() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    for writeback in [true, false] {
        let options = MountOptions {
            allow_other: true,
            writeback,
            ..MountOptions::default()
        };
        let Some(m) = Mounted::with(&options) else {
            return;
        };
        fs::set_permissions(m.dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let path = m.path("f");
        fs::write(&path, "x").unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        let set = |mode| fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let as_nobody = |script: &str| {
            let ran = std::process::Command::new("setpriv")
                .args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "sh",
                    "-c",
                ])
                .args([script, "sh"])
                .arg(&path)
                .status();
            ran.is_ok_and(|status| status.success())
        };
        for change in [r#"printf y >> "$1""#, r#"truncate -s 0 "$1""#] {
            set(0o6777);
            if !as_nobody(change) {
                println!("skipped: no setpriv or truncate");
                break;
            }
            assert_eq!(mode(), 0o777, "{change}, {writeback}");
        }
        set(0o6777);
        std::os::unix::fs::chown(&path, Some(4321), None).unwrap();
        assert_eq!(mode(), 0o777, "chown, {writeback}");
        // Without execution by the group the bit means locks, and stays.
        set(0o6767);
        std::os::unix::fs::chown(&path, Some(4322), None).unwrap();
        assert_eq!(mode() & 0o4000, 0, "chown, {writeback}");
        m.unmount();
    }
}

#[test]
fn what_has_changed_is_made_durable_in_time() {
    let options = MountOptions {
        commit: Duration::from_millis(300),
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let calls = m.calls.clone();
    assert_eq!(calls.syncs.load(Ordering::SeqCst), 0);
    fs::create_dir(m.path("d")).unwrap();
    eventually("the first", || calls.syncs.load(Ordering::SeqCst) == 1);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(calls.syncs.load(Ordering::SeqCst), 1, "nothing has changed");
    fs::create_dir(m.path("e")).unwrap();
    eventually("the second", || calls.syncs.load(Ordering::SeqCst) == 2);
    m.unmount();
}

#[test]
fn a_synchronous_mount_makes_every_change_durable() {
    let mut options = MountOptions::default();
    options.set("sync,commit=0").unwrap();
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let fsyncs = || m.calls.fsyncs.load(Ordering::SeqCst);
    let mut before = fsyncs();
    let mut grown = |what: &str| {
        let now = fsyncs();
        assert!(now > before, "{what}");
        before = now;
    };
    let file = File::create(m.path("f")).unwrap();
    grown("create");
    file.write_all_at(b"x", 0).unwrap();
    grown("write");
    file.set_len(5).unwrap();
    grown("truncate");
    fs::set_permissions(m.path("f"), PermissionsExt::from_mode(0o600)).unwrap();
    grown("chmod");
    symlink("f", m.path("s")).unwrap();
    grown("symlink");
    drop(file);
    fs::remove_file(m.path("f")).unwrap();
    grown("unlink");
    m.unmount();
}

#[test]
fn access_times_change_as_asked() {
    for (option, changes) in [
        ("noatime", [false, false]),
        ("relatime", [true, false]),
        ("strictatime", [true, true]),
    ] {
        let mut options = MountOptions {
            attr_timeout: Duration::ZERO,
            ..MountOptions::default()
        };
        options.set(option).unwrap();
        let Some(m) = Mounted::with(&options) else {
            return;
        };
        symlink("target", m.path("s")).unwrap();
        fs::create_dir(m.path("d")).unwrap();
        let accessed = || fs::metadata(m.path("d")).unwrap().accessed().unwrap();
        for change in changes {
            let before = accessed();
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(fs::read_dir(m.path("d")).unwrap().count(), 0);
            assert_eq!(accessed() > before, change, "{option}");
        }
        m.unmount();
    }
}

/// Eight threads, each in its own directory and all in one.
#[test]
fn many_threads_at_once() {
    let Some(m) = Mounted::new() else { return };
    let top = m.dir.path().to_owned();
    fs::create_dir(top.join("shared")).unwrap();
    let threads: Vec<_> = (0..8usize)
        .map(|t| {
            let top = top.clone();
            std::thread::spawn(move || {
                let own = top.join(format!("own {t}"));
                fs::create_dir(&own).unwrap();
                for i in 0..40 {
                    let path = own.join(format!("{i}"));
                    fs::write(&path, bytes(3_000 + 100 * i, t)).unwrap();
                    let shared = top.join(format!("shared/{t} {i}"));
                    fs::rename(&path, &shared).unwrap();
                    let read = fs::read(&shared).unwrap();
                    assert_eq!(read, bytes(3_000 + 100 * i, t));
                    if i % 2 == 0 {
                        fs::remove_file(&shared).unwrap();
                    } else {
                        fs::hard_link(&shared, &path).unwrap();
                    }
                    let log = OpenOptions::new()
                        .append(true)
                        .create(true)
                        .open(top.join("log"))
                        .unwrap();
                    (&log).write_all(&[b'0' + t as u8]).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(fs::read_dir(top.join("shared")).unwrap().count(), 160);
    let log = fs::read(top.join("log")).unwrap();
    for t in 0..8u8 {
        assert_eq!(log.iter().filter(|&&b| b == b'0' + t).count(), 40);
    }
    m.unmount();
}

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

#[test]
fn the_mount_table_and_statfs_tell() {
    let options = MountOptions {
        fs_name: "my image.img".into(),
        subtype: "flashtest".into(),
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let point = m.dir.path().canonicalize().unwrap();
    let line = table
        .lines()
        .find(|l| l.contains(point.to_str().unwrap()))
        .unwrap();
    assert!(line.starts_with(r"my\040image.img "), "{line}");
    assert!(line.contains(" fuse.flashtest rw,"), "{line}");
    assert!(line.contains("default_permissions"), "{line}");

    let before = nix::sys::statvfs::statvfs(m.dir.path()).unwrap();
    fs::write(m.path("f"), bytes(1 << 20, 0)).unwrap();
    let after = nix::sys::statvfs::statvfs(m.dir.path()).unwrap();
    let used = (before.blocks_free() - after.blocks_free()) * after.fragment_size();
    assert!(used >= 1 << 20, "{used}");
    assert_eq!(after.name_max(), 255);
    m.unmount();
}

#[test]
fn umount_unmounts_the_file_system_once() {
    let Some(m) = Mounted::new() else { return };
    let point = m.dir.path().to_owned();
    fs::write(m.path("kept"), "data").unwrap();
    unmount_and_check(m);
    assert!(!point.exists(), "the temporary directory could be removed");
}

fn unmount_and_check(m: Mounted) {
    let (mut outcome, calls) = m.unmount();
    assert_eq!(outcome.ended_by, EndedBy::Unmount);
    assert_eq!(outcome.unmounted, Ok(()));
    assert!(!outcome.was_busy);
    assert_eq!(calls.unmounts.load(Ordering::SeqCst), 1);
    let fs = outcome.fs.as_mut().unwrap();
    let root = fs.root();
    assert_eq!(fs.lookup(root, b"kept").unwrap().size, 4);
}

#[test]
fn read_only_mounts_refuse_changes() {
    let Some(m) = Mounted::with(&MountOptions {
        read_only: true,
        ..MountOptions::default()
    }) else {
        return;
    };
    assert_eq!(code(fs::write(m.path("f"), "")), Errno::EROFS);
    m.unmount();
}

#[test]
fn a_mount_point_is_used_once() {
    let Some(m) = Mounted::new() else { return };
    let (fs, calls) = common::counting();
    let again = flashkit_fuse::mount(fs, m.dir.path(), &MountOptions::default(), || ());
    let error = again.err().unwrap().to_string();
    assert!(error.ends_with("busy: something is mounted there already (fuse.flashtest)"));
    assert_eq!(calls.unmounts.load(Ordering::SeqCst), 1);
    m.unmount();
}

#[test]
fn idle_time_is_for_cleaning() {
    let Some(m) = Mounted::new() else { return };
    let calls = m.calls.clone();
    eventually("five slices", || {
        calls.cleanings.load(Ordering::SeqCst) == 5
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        calls.cleanings.load(Ordering::SeqCst),
        5,
        "asleep when all is clean"
    );
    fs::write(m.path("f"), "x").unwrap();
    eventually("woken by a change", || {
        calls.cleanings.load(Ordering::SeqCst) > 5
    });
    m.unmount();
}

#[test]
fn io_errors_reach_the_caller() {
    let options = MountOptions {
        writeback: false,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let file = File::create(m.path("f")).unwrap();
    m.calls.fail_writes.store(true, Ordering::SeqCst);
    assert_eq!(code(file.write_all_at(b"x", 0)), Errno::EIO);
    m.calls.fail_writes.store(false, Ordering::SeqCst);
    file.write_all_at(b"x", 0).unwrap();
    drop(file);
    m.unmount();
}

/// Of what the kernel has gathered, the next fsync tells.
#[test]
fn io_errors_of_gathered_writes_reach_the_fsync() {
    let Some(m) = Mounted::new() else { return };
    let file = File::create(m.path("f")).unwrap();
    m.calls.fail_writes.store(true, Ordering::SeqCst);
    file.write_all_at(b"x", 0).unwrap();
    assert_eq!(code(file.sync_all()), Errno::EIO);
    m.calls.fail_writes.store(false, Ordering::SeqCst);
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    m.unmount();
}

/// The kernel hands over a file's times once more when its last name has gone. Were that refused,
/// the next `sync` of the whole file system would fail.
#[test]
fn removed_files_leave_no_error_behind() {
    let Some(m) = Mounted::new() else { return };
    for i in 0..20 {
        let path = m.path(&format!("f{i}"));
        fs::write(&path, "x").unwrap();
        // The file is closed some time after that.
        std::thread::sleep(Duration::from_millis(5));
        fs::remove_file(&path).unwrap();
    }
    rustix::fs::syncfs(File::open(m.path(".")).unwrap()).unwrap();
}

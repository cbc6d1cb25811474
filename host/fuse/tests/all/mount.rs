//! Real mounts over the in-memory file system.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{self, Mounted, code, eventually};
use flashkit_fuse::{AccessTimes, EndedBy, MountOptions};
use flashkit_vfs::{Error, FileSystem, MemoryFs};
use nix::errno::Errno;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i * 31 + i / 251 + seed) % 256) as u8)
        .collect()
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
    let Some(m) = Mounted::new() else { return };
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

/// Who asks for holes is told of what is gathered.
#[test]
fn gathered_writes_are_no_holes() {
    use nix::unistd::{Whence, lseek};
    let Some(m) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let file = File::create(m.path("f")).unwrap();
    file.write_all_at(&bytes(5_000, 5), 0).unwrap();
    assert_eq!(lseek(&file, 0, Whence::SeekData), Ok(0));
    assert_eq!(lseek(&file, 0, Whence::SeekHole), Ok(5_000));
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
        let mut options = MountOptions {
            allow_other: true,
            writeback,
            ..MountOptions::default()
        };
        options.set("suid").unwrap();
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
        let direct = r#"dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct status=none"#;
        for change in [
            r#"printf y >> "$1""#,
            direct,
            r#"fallocate -p -o 0 -l 4096 "$1""#,
            r#"fallocate -z -o 0 -l 4096 "$1""#,
            r#"truncate -s 0 "$1""#,
        ] {
            set(0o6777);
            if !as_nobody(change) {
                println!("skipped: no setpriv, truncate, dd or fallocate");
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
        let fifo = m.path("p");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        fs::set_permissions(&fifo, PermissionsExt::from_mode(0o6555)).unwrap();
        std::os::unix::fs::chown(&fifo, Some(1), Some(1)).unwrap();
        let is = fs::metadata(&fifo).unwrap().permissions().mode();
        assert_eq!(is & 0o7777, 0o555, "chown of a FIFO, {writeback}");
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
    fs::hard_link(m.path("f"), m.path("h")).unwrap();
    grown("link");
    fs::create_dir(m.path("d")).unwrap();
    grown("mkdir");
    fs::rename(m.path("h"), m.path("d/h")).unwrap();
    grown("rename");
    fs::remove_file(m.path("d/h")).unwrap();
    grown("unlink elsewhere");
    fs::remove_dir(m.path("d")).unwrap();
    grown("rmdir");
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

/// In idle time the chip is read within the days that were asked for, no faster; what is to be
/// written anew is. While there are requests it waits.
#[test]
fn idle_time_is_for_the_patrol() {
    let mut options = MountOptions::default();
    // One in 10 ms.
    let blocks = MemoryFs::new().statfs().unwrap().blocks;
    options.scrub = Duration::from_millis(10 * blocks);
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let calls = m.calls.clone();
    let patrols = || calls.patrols.load(Ordering::SeqCst);
    let begun = std::time::Instant::now();
    eventually("twenty pages", || patrols() >= 20);
    assert!(begun.elapsed() >= Duration::from_millis(150));
    eventually("what was noted is cleaned", || {
        calls.cleanings.load(Ordering::SeqCst) >= 5 + patrols() / 10
    });
    m.unmount();
    let options = MountOptions {
        scrub: Duration::ZERO,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(m.calls.patrols.load(Ordering::SeqCst), 0);
    m.unmount();
}

#[test]
fn io_errors_reach_the_caller() {
    let through = MountOptions {
        writeback: false,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&through) else {
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

/// Of what is gathered, the next fsync tells.
#[test]
fn io_errors_of_gathered_writes_reach_the_fsync() {
    let Some(m) = Mounted::with(&MountOptions::default()) else {
        return;
    };
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

/// A creation that could not be made durable is told as failed: the kernel closes nothing then, and
/// the file must not stay open for ever.
#[test]
fn a_creation_that_fails_leaves_no_file_open() {
    let options = MountOptions {
        sync: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    m.calls.fail_fsyncs.store(true, Ordering::SeqCst);
    let error = File::create(m.path("file")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32));
    m.calls.fail_fsyncs.store(false, Ordering::SeqCst);
    assert_eq!(m.calls.opens.load(Ordering::SeqCst), 0);
    fs::write(m.path("kept"), "data").unwrap();
    unmount_and_check(m);
}

/// The kernel hands over a file's times once more when its last name has gone. Were that refused,
/// the next `sync` of the whole file system would fail.
#[test]
fn removed_files_leave_no_error_behind() {
    let Some(m) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    for i in 0..20 {
        let path = m.path(&format!("f{i}"));
        fs::write(&path, "x").unwrap();
        // The file is closed some time after that.
        std::thread::sleep(Duration::from_millis(5));
        fs::remove_file(&path).unwrap();
    }
    rustix::fs::syncfs(File::open(m.path(".")).unwrap()).unwrap();
}

/// Else all that a full or worn-out volume holds is out of reach.
#[test]
fn what_cannot_be_noted_as_read_is_read_all_the_same() {
    let io = Error::Io("page 17: told to fail".into());
    for (error, is_met) in [
        (Error::NoSpace, false),
        (Error::ReadOnly, false),
        (io, true),
    ] {
        let options = MountOptions {
            atime: AccessTimes::Always,
            ..MountOptions::default()
        };
        let Some(m) = Mounted::with(&options) else {
            return;
        };
        fs::create_dir(m.path("dir")).unwrap();
        fs::write(m.path("dir/file"), "held").unwrap();
        symlink("file", m.path("dir/link")).unwrap();
        *m.calls.refuse_setattrs.lock().unwrap() = Some(error.clone());
        let listed = fs::read_dir(m.path("dir")).unwrap();
        let names: std::io::Result<Vec<_>> = listed.map(|entry| Ok(entry?.file_name())).collect();
        assert_eq!(
            names.map_err(|error| error.raw_os_error()),
            Ok(vec!["file".into(), "link".into()]),
            "{error}"
        );
        let target = fs::read_link(m.path("dir/link"));
        let target = target.map_err(|error| error.raw_os_error());
        assert_eq!(target, Ok("file".into()), "{error}");
        assert_eq!(fs::read(m.path("dir/file")).unwrap(), b"held");
        let (outcome, _) = m.unmount();
        assert_eq!(outcome.met_errors, is_met, "{error}");
    }
}

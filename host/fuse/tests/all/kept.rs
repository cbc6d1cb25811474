//! What the kernel knows stays usable when its last name goes.
//!
//! A million opens beside replacements, some minutes:
//! `FLASHKIT_OPENS=1000000 cargo test -p flashkit-fuse replaced -- --nocapture`

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use crate::common::{Mounted, flash, nanofs};
use flashkit_fuse::MountOptions;
use flashkit_vfs::Measured;

type Fs = Box<dyn Measured + Send>;

/// Opens beside replacements; the full run takes a million.
fn opens() -> usize {
    let opens = std::env::var("FLASHKIT_OPENS").ok();
    opens.map_or(2_000, |opens| opens.parse().unwrap())
}

/// The contents of the file that is the `n`th: small, but for one in 32.
fn contents(n: u64) -> Vec<u8> {
    let times = if n % 32 == 31 { 5_000 } else { 1 + n % 300 };
    n.to_le_bytes().repeat(times as usize)
}

fn replace(dir: &Path, n: u64) {
    let mut file = File::create(dir.join("new")).unwrap();
    file.write_all(&contents(n)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    fs::rename(dir.join("new"), dir.join("name")).unwrap();
}

/// Opens, reads and closes `name` so many times; each time it is one that was whole.
fn read_it(dir: &Path, times: usize) {
    for i in 0..times {
        let mut file = File::open(dir.join("name")).unwrap_or_else(|e| panic!("open {i}: {e}"));
        let mut data = Vec::new();
        file.read_to_end(&mut data)
            .unwrap_or_else(|e| panic!("read {i}: {e}"));
        nix::unistd::close(file).unwrap_or_else(|e| panic!("close {i}: {e}"));
        let n = u64::from_le_bytes(data[..8].try_into().unwrap());
        assert!(data == contents(n), "{i}: {} bytes of {n}", data.len());
    }
}

#[test]
fn files_that_are_replaced_can_be_opened_all_the_while() {
    for (what, make) in [("flash", flash as fn() -> Fs), ("nanofs", nanofs)] {
        for threads in [1, 2, 8] {
            let Some(m) = Mounted::over(make(), &MountOptions::default()) else {
                return;
            };
            let (dir, done) = (m.dir.path(), AtomicBool::new(false));
            replace(dir, 0);
            let (done, times) = (&done, opens() / threads);
            let replaced = std::thread::scope(|scope| {
                let writer = scope.spawn(move || {
                    let mut n = 0;
                    while !done.load(Ordering::Relaxed) {
                        n += 1;
                        replace(dir, n);
                    }
                    n
                });
                let readers: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(move || read_it(dir, times)))
                    .collect();
                let read: Vec<_> = readers.into_iter().map(ScopedJoinHandle::join).collect();
                done.store(true, Ordering::Relaxed);
                assert!(read.iter().all(Result::is_ok), "{what}, {threads} threads");
                writer.join().unwrap()
            });
            println!("{what}: {threads} threads, {times} opens each, {replaced} replacements");
            let (outcome, _) = m.unmount();
            outcome.unmounted.unwrap();
        }
    }
}

/// A file that is known and not open.
fn known(path: &Path) -> File {
    let flags = rustix::fs::OFlags::PATH.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags).open(path).unwrap()
}

/// The name of what an open file is of, whatever its own.
fn by_number(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[test]
fn what_is_known_stays_when_its_name_goes() {
    for (what, make) in [("flash", flash as fn() -> Fs), ("nanofs", nanofs)] {
        let Some(m) = Mounted::over(make(), &MountOptions::default()) else {
            return;
        };
        // Small and large ones, removed and replaced.
        for (size, replaced) in [(10, false), (10, true), (100_000, false), (100_000, true)] {
            let data = vec![7; size];
            fs::write(m.path("f"), &data).unwrap();
            let file = known(&m.path("f"));
            let ino = file.metadata().unwrap().ino();
            if replaced {
                fs::write(m.path("g"), "new").unwrap();
                fs::rename(m.path("g"), m.path("f")).unwrap();
            }
            fs::remove_file(m.path("f")).unwrap();
            let is = file.metadata().unwrap();
            assert_eq!((is.nlink(), is.len()), (0, size as u64), "{what}, {size}");
            for round in 0..3 {
                let mut options = OpenOptions::new();
                let open = options.read(true).write(true).open(by_number(&file));
                let open = open.unwrap_or_else(|e| panic!("{what}, {size}, {round}: {e}"));
                let mut read = vec![0; size];
                open.read_exact_at(&mut read, 0).unwrap();
                assert_eq!((read[0], &read[1..]), (7 + round, &data[1..]));
                open.write_all_at(&[8 + round], 0).unwrap();
                open.sync_all().unwrap();
                assert_eq!(open.metadata().unwrap().ino(), ino);
            }
        }
        let (outcome, _) = m.unmount();
        outcome.unmounted.unwrap();
    }
}

#[test]
fn directories_and_links_that_are_gone_are_still_known() {
    let Some(m) = Mounted::over(flash(), &MountOptions::default()) else {
        return;
    };
    fs::create_dir(m.path("d")).unwrap();
    let dir = File::open(m.path("d")).unwrap();
    fs::remove_dir(m.path("d")).unwrap();
    assert_eq!(dir.metadata().unwrap().nlink(), 0);
    dir.set_permissions(PermissionsExt::from_mode(0o700))
        .unwrap();
    assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
    dir.sync_all().unwrap();
    let made = fs::create_dir(by_number(&dir).join("below"));
    assert_eq!(crate::common::code(made), nix::errno::Errno::ENOENT);
    symlink("target", m.path("s")).unwrap();
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
    let link = rustix::fs::open(m.path("s"), flags, rustix::fs::Mode::empty()).unwrap();
    symlink("other", m.path("t")).unwrap();
    fs::rename(m.path("t"), m.path("s")).unwrap();
    let target = rustix::fs::readlinkat(&link, "", Vec::new()).unwrap();
    assert_eq!(target.to_bytes(), b"target");
    drop((dir, link));
    m.unmount();
}

/// Nano-FS gives numbers of removed files to new ones.
#[test]
fn a_number_that_is_used_again_is_another_to_the_kernel() {
    let Some(m) = Mounted::over(nanofs(), &MountOptions::default()) else {
        return;
    };
    fs::write(m.path("old"), "what was there").unwrap();
    let old = known(&m.path("old"));
    fs::remove_file(m.path("old")).unwrap();
    let number = old.metadata().unwrap().ino();
    // Long enough for each number to come again.
    for i in 0..200 {
        fs::write(m.path("new"), "n").unwrap();
        let new = fs::metadata(m.path("new")).unwrap();
        assert_ne!(new.ino(), number, "{i}");
        let mut held = String::new();
        let mut again = File::open(by_number(&old)).unwrap();
        again.read_to_string(&mut held).unwrap();
        assert_eq!(held, "what was there", "{i}");
        assert_eq!(fs::read(m.path("new")).unwrap(), b"n");
        fs::remove_file(m.path("new")).unwrap();
    }
    drop(old);
    m.unmount();
}

/// What nobody has open costs the same on flash as without a mount, whether the kernel knows it or
/// not.
#[test]
fn to_replace_what_is_known_costs_no_program_more() {
    const TIMES: u64 = 100;
    let options = MountOptions {
        commit: std::time::Duration::ZERO,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::over(flash(), &options) else {
        return;
    };
    for n in 0..TIMES {
        let mut file = File::create(m.path("new")).unwrap();
        file.write_all(&[n as u8; 3_000]).unwrap();
        file.sync_all().unwrap();
        fs::rename(m.path("new"), m.path("name")).unwrap();
    }
    let (outcome, _) = m.unmount();
    let mounted = outcome.fs.unwrap().cost();

    let mut fs = flash();
    let root = fs.root();
    for n in 0..TIMES {
        let now = flashkit_vfs::Time::now();
        let new = flashkit_vfs::NewInode::default();
        let file = fs.create(root, b"new", &new).unwrap().ino;
        fs.write(file, 0, &[n as u8; 3_000], now).unwrap();
        fs.fsync(file).unwrap();
        fs.rename(root, b"new", root, b"name", false, now).unwrap();
    }
    fs.unmount().unwrap();
    let programs = fs.cost().page_programs;
    assert!(
        mounted.page_programs <= programs + 2,
        "{mounted:?}, {programs}"
    );
}

//! A full chip: who writes is told, and what was acknowledged is there.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;

use crate::common::{Mounted, flash};
use flashkit_fuse::MountOptions;
use flashkit_vfs::path;

/// Writes zeros until there is no room, as `dd` does: how many bytes were taken.
fn fill(file: &mut File, piece: usize) -> u64 {
    let data = vec![0; piece];
    let mut taken = 0;
    loop {
        match file.write(&data) {
            Ok(n) => taken += n as u64,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull, "after {taken} bytes");
                return taken;
            }
        }
        assert!(taken < 40 << 20, "more than the chip has");
    }
}

#[test]
fn a_full_chip_acknowledges_nothing_that_it_loses() {
    let Some(m) = Mounted::over(flash(), &MountOptions::default()) else {
        return;
    };
    fs::write(m.path("other"), "before\n").unwrap();
    File::open(m.path("other")).unwrap().sync_all().unwrap();
    let mut filler = File::create(m.path("filler")).unwrap();
    let mut taken = fill(&mut filler, 1 << 20);
    // Smaller pieces find the rest.
    taken += fill(&mut filler, 4_096);
    taken += fill(&mut filler, 1);
    assert!(taken > 15 << 20, "{taken}");
    assert_eq!(filler.metadata().unwrap().len(), taken);
    filler.sync_all().unwrap();
    drop(filler);
    let (mut acknowledged, mut refused) = (b"before\n".to_vec(), 0);
    for i in 0..500 {
        let mut other = OpenOptions::new()
            .append(true)
            .open(m.path("other"))
            .unwrap();
        let line = format!("line {i} of what may be lost or not\n");
        match other.write_all(line.as_bytes()) {
            // An fsync must not take it back.
            Ok(()) => {
                other.sync_all().unwrap();
                acknowledged.extend(line.as_bytes());
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    fs::remove_file(m.path("filler")).unwrap();
    fs::write(m.path("new"), "there is room again").unwrap();
    let mut held = Vec::new();
    File::open(m.path("other"))
        .unwrap()
        .read_to_end(&mut held)
        .unwrap();
    assert_eq!(held, acknowledged);
    let (outcome, _) = m.unmount();
    outcome.unmounted.unwrap();
    let mut fs = outcome.fs.unwrap();
    assert_eq!(path::read_file(&mut *fs, b"/other").unwrap(), acknowledged);
}

/// Else a file is longer after a remount than its writer was told, by a part of what was refused.
#[test]
fn a_refused_write_leaves_no_file_longer_than_its_writer_was_told() {
    // The server is asked each time how long the file is.
    let mut options = MountOptions::default();
    options.set("attr_timeout=0").unwrap();
    let mut refused = 0;
    for (piece, back) in [(300_000, 1_000), (300_000, 0), (4_096, 1_000), (3_489, 0)] {
        let Some(m) = Mounted::over(flash(), &options) else {
            return;
        };
        let grown = File::create(m.path("grown")).unwrap();
        let mut filler = File::create(m.path("filler")).unwrap();
        let mut left = fill(&mut filler, 1 << 20);
        let mut told = 0;
        for i in 0..200 {
            // A page or some more have room again.
            left -= 2_048 * (1 + i % 5);
            filler.set_len(left).unwrap();
            let offset = u64::saturating_sub(told, back);
            match grown.write_at(&vec![i as u8; piece], offset) {
                Ok(n) => told = offset + n as u64,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StorageFull);
                    refused += 1;
                }
            }
            let there = grown.metadata().unwrap().len();
            assert_eq!(there, told, "{piece} bytes, {back} before the end");
        }
        drop((grown, filler));
        m.unmount();
    }
    assert!(refused > 0);
}

/// What was mapped and written to, and finds no room, is told by `fsync`.
#[test]
fn mapped_writes_without_room_are_told() {
    let Some(m) = Mounted::over(flash(), &MountOptions::default()) else {
        return;
    };
    let sparse = File::create(m.path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    fill(&mut File::create(m.path("filler")).unwrap(), 1 << 16);
    let script = r#"
import errno, mmap, os, sys
fd = os.open(sys.argv[1] + "/sparse", os.O_RDWR)
mapped = mmap.mmap(fd, 1 << 20)
for at in range(0, 1 << 20, 4096):
    mapped[at:at + 4096] = os.urandom(4096)
try:
    mapped.flush()
except OSError as error:
    assert error.errno == errno.ENOSPC, error
else:
    sys.exit("nothing said")
"#;
    let python = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(m.dir.path())
        .status();
    match python {
        Ok(status) => assert!(status.success()),
        Err(_) => println!("skipped: no python3"),
    }
    let mut first = [0];
    sparse.read_exact_at(&mut first, 0).unwrap_or_default();
    drop(sparse);
    m.unmount();
}

//! Files that grow on a mount, by small writes that are gathered or go through.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Mounted, flash};
use flashkit_fuse::MountOptions;
use flashkit_vfs::{Counters, FileSystem, Ino, MemoryFs, NewInode, Time};
use nix::fcntl::{FallocateFlags, fallocate};

/// What it costs from the mount to the unmount; `None` where mounting is not possible.
fn mounted(writeback: bool, work: impl FnOnce(&Mounted)) -> Option<Counters> {
    let options = MountOptions {
        writeback,
        // Time decides nothing.
        commit: Duration::ZERO,
        ..MountOptions::default()
    };
    let mounted = Mounted::over(flash(), &options)?;
    work(&mounted);
    let (outcome, _) = mounted.unmount();
    outcome.unmounted.unwrap();
    Some(outcome.fs.unwrap().cost())
}

/// The same without a mount, with one file.
fn direct(work: impl FnOnce(&mut dyn FileSystem, Ino)) -> Counters {
    let mut fs = flash();
    let root = fs.root();
    let file = fs.create(root, b"f", &NewInode::default()).unwrap().ino;
    fs.open(file).unwrap();
    work(&mut *fs, file);
    fs.release(file).unwrap();
    fs.unmount().unwrap();
    fs.cost()
}

fn bytes(number: u64) -> [u8; 100] {
    std::array::from_fn(|i| (number * 7 + i as u64) as u8)
}

#[test]
fn an_append_costs_what_it_costs_without_a_mount() {
    const APPENDS: u64 = 400;
    let in_process = direct(|fs, file| {
        for i in 0..APPENDS {
            fs.write(file, i * 100, &bytes(i), Time::now()).unwrap();
            fs.fsync(file).unwrap();
        }
    });
    for (reopened, writeback) in [(false, false), (true, false), (false, true), (true, true)] {
        let Some(cost) = mounted(writeback, |m| {
            let path = m.path("f");
            let mut file = File::create(&path).unwrap();
            for i in 0..APPENDS {
                if reopened {
                    file = OpenOptions::new().append(true).open(&path).unwrap();
                }
                file.write_all(&bytes(i)).unwrap();
                file.sync_all().unwrap();
            }
        }) else {
            return;
        };
        // Where the kernel has set the file's times since, a page that is not full
        // yet needs its inode as well.
        let tails = APPENDS * 100 / 2_048 + 1;
        let least = in_process.page_programs;
        assert!(
            (least..=least + tails).contains(&cost.page_programs),
            "{least}, {cost:?}"
        );
        assert_eq!(cost.block_erases, in_process.block_erases, "{cost:?}");
    }
}

/// What programs do to files every day: copies of trees, and so many logs.
fn everyday(m: &Mounted, logs: u64) {
    for i in 0..300usize {
        let data: Vec<u8> = (0..37 + i * i % 20_011).map(|k| (k * i) as u8).collect();
        let mut file = File::create(m.path(&format!("f{i}"))).unwrap();
        for piece in data.chunks(4_096) {
            file.write_all(piece).unwrap();
        }
    }
    let paths: Vec<_> = (0..logs).map(|i| m.path(&format!("log{i}"))).collect();
    let open = |path| OpenOptions::new().append(true).create(true).open(path);
    let mut files: Vec<_> = paths.iter().map(|path| open(path).unwrap()).collect();
    for i in 0..2_000 {
        files[(i % logs) as usize].write_all(&bytes(i)).unwrap();
    }
}

/// What is gathered takes no more programs than what goes through, and far fewer where more files
/// grow in turn than FlashLight holds the inodes of.
#[test]
fn gathered_writes_cost_no_more() {
    for (logs, least) in [(2, 1), (4, 2)] {
        let run = |writeback| {
            let cost = mounted(writeback, |m| everyday(m, logs))?;
            println!("{logs} logs, gathered {writeback}: {cost:?}");
            Some(cost.page_programs)
        };
        let Some((gathered, through)) = run(true).zip(run(false)) else {
            return;
        };
        assert!(least * gathered <= through, "{through}, {gathered}");
    }
}

/// What the file system holds in the end, whatever the kernel has cached.
fn held(fs: &mut dyn FileSystem, name: &[u8]) -> Vec<u8> {
    let root = fs.root();
    let file = fs.lookup(root, name).unwrap();
    let mut bytes = vec![0; file.size as usize];
    let read = fs.read(file.ino, 0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

/// Small numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % n
    }
}

/// Changes a file at random, mostly at its end.
fn change(draw: &mut Draw, file: &File, expected: &mut Vec<u8>) {
    let longest = [9_000, 300, 300, 300][draw.below(4)];
    let len = 1 + draw.below(longest);
    // Few values: what is written is often what is there.
    let data = vec![draw.below(3) as u8; len];
    let end = expected.len();
    let near = end.saturating_sub(draw.below(5_000));
    let mut write = |at: usize| {
        file.write_all_at(&data, at as u64).unwrap();
        expected.resize(expected.len().max(at + len), 0);
        expected[at..at + len].copy_from_slice(&data);
    };
    match draw.below(10) {
        0..5 => write(end),
        5 => write(near),
        6 => write(near + draw.below(6_000)),
        7 => {
            file.set_len(near as u64).unwrap();
            expected.truncate(near);
        }
        8 => {
            let zero = FallocateFlags::FALLOC_FL_ZERO_RANGE;
            fallocate(file, zero, near as i64, len as i64).unwrap();
            expected.resize(expected.len().max(near + len), 0);
            expected[near..near + len].fill(0);
        }
        _ => file.sync_all().unwrap(),
    }
    if draw.below(2) == 0 {
        file.sync_all().unwrap();
    }
}

#[test]
fn files_that_grow_shrink_and_change_are_what_they_should_be() {
    for seed in 0..20 {
        let options = MountOptions {
            writeback: seed % 2 == 0,
            ..MountOptions::default()
        };
        let Some(m) = Mounted::over(Box::new(MemoryFs::new()), &options) else {
            return;
        };
        let mut draw = Draw(seed);
        let mut files: Vec<(File, Vec<u8>)> = (0..3)
            .map(|i| (File::create(m.path(&i.to_string())).unwrap(), Vec::new()))
            .collect();
        for _ in 0..200 {
            let at = draw.below(files.len());
            let (file, expected) = &mut files[at];
            change(&mut draw, file, expected);
            if draw.below(6) == 0 {
                let again = OpenOptions::new().write(true).open(m.path(&at.to_string()));
                *file = again.unwrap();
            }
        }
        let expected: Vec<Vec<u8>> = files.into_iter().map(|(_, expected)| expected).collect();
        let (outcome, _) = m.unmount();
        let mut fs = outcome.fs.unwrap();
        for (i, expected) in expected.iter().enumerate() {
            let held = held(&mut *fs, i.to_string().as_bytes());
            assert!(&held == expected, "seed {seed}, file {i}");
        }
    }
}

/// What a failed write may have lost is written again.
#[test]
fn an_append_after_an_error_is_whole() {
    let options = MountOptions {
        writeback: true,
        ..MountOptions::default()
    };
    let Some(m) = Mounted::with(&options) else {
        return;
    };
    let mut file = File::create(m.path("f")).unwrap();
    let mut expected = Vec::new();
    for i in 0..30 {
        let fails = i % 10 == 5;
        m.calls.fail_writes.store(fails, Ordering::SeqCst);
        file.write_all(&bytes(i)).unwrap();
        expected.extend(bytes(i));
        assert_eq!(file.sync_all().is_err(), fails, "append {i}");
    }
    drop(file);
    let (outcome, _) = m.unmount();
    assert_eq!(held(&mut *outcome.fs.unwrap(), b"f"), expected);
}

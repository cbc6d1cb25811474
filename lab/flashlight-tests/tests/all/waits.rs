//! How long one write waits, in flash time: cleaning and the levelling of wear are spread over the
//! writes. Exact figures, so that a change for the worse fails.

use crate::common::{Fs, of_paper, on_preset, remount};
use flashkit_sim::{Metered, Rng};
use flashkit_vfs::{FileSystem, Ino, NewInode, Time};
use flashkit_workload::trace::Op;
use flashkit_workload::{Options, generate, replay_fs};

const KIB: u64 = 1 << 10;

/// A file that fills `percent` of what files may have.
fn fill(fs: &mut Fs, percent: u64) -> (Ino, u64) {
    let free = fs.statfs().unwrap().blocks_free * 2048;
    let size = free * percent / 100 / (64 * KIB) * (64 * KIB);
    let root = fs.root();
    let ino = fs.create(root, b"file", &NewInode::default()).unwrap().ino;
    let data = vec![1; 64 * KIB as usize];
    for at in (0..size).step_by(data.len()) {
        fs.write(ino, at, &data, Time::default()).unwrap();
    }
    fs.sync().unwrap();
    (ino, size)
}

/// Overwrites random pieces and syncs each: the flash time of each, in
/// microseconds, in order of it.
fn overwrite(fs: &mut Fs, (ino, size): (Ino, u64), len: u64, times: u64) -> Vec<u64> {
    let mut rng = Rng::new(1);
    let data = vec![2; len as usize];
    let mut waits: Vec<u64> = (0..times)
        .map(|_| {
            let before = fs.volume().nand().counters().time_ns;
            let at = rng.below(size / len) * len;
            fs.write(ino, at, &data, Time::default()).unwrap();
            fs.fsync(ino).unwrap();
            (fs.volume().nand().counters().time_ns - before) / 1000
        })
        .collect();
    waits.sort_unstable();
    waits
}

/// Of sorted waits: the median, one in a hundred, one in a thousand, the longest.
fn quantiles(waits: &[u64]) -> [u64; 4] {
    let n = waits.len();
    [n / 2, n - n / 100, n - n / 1000, n - 1].map(|i| waits[i])
}

#[test]
fn small_pieces_on_a_chip_that_is_nearly_full() {
    let mut fs = of_paper();
    let file = fill(&mut fs, 90);
    let waits = overwrite(&mut fs, file, 4 * KIB, 20_000);
    assert_eq!(quantiles(&waits), [3_617, 6_984, 8_559, 10_586]);
}

#[test]
fn large_pieces_on_a_chip_that_is_rather_full() {
    let mut fs = of_paper();
    let file = fill(&mut fs, 80);
    let waits = overwrite(&mut fs, file, 64 * KIB, 5_000);
    assert_eq!(quantiles(&waits), [10_095, 34_407, 38_996, 41_097]);
}

/// A file of three quarters of a small chip, overwritten from its end to its beginning, and in
/// parts in turn: each piece begins another block, and cleaning keeps up.
#[test]
fn pieces_against_the_order_of_a_file() {
    for parts in [1, 2, 4, 16] {
        let mut fs = on_preset("micron-20m");
        let root = fs.root();
        let ino = fs.create(root, b"file", &NewInode::default()).unwrap().ino;
        let (piece, pieces) = (32 * KIB, 384);
        let data = vec![3; piece as usize];
        for i in 0..pieces {
            fs.write(ino, i * piece, &data, Time::default()).unwrap();
        }
        fs.sync().unwrap();
        for n in 0..4 * pieces {
            let i = match parts {
                1 => pieces - 1 - n % pieces,
                _ => n % parts * (pieces / parts) + n / parts % (pieces / parts),
            };
            let written = fs.write(ino, i * piece, &data, Time::default());
            assert_eq!(
                written,
                Ok(()),
                "{parts} parts, write {n} {:?}",
                fs.statfs()
            );
        }
    }
}

/// Eight files overwritten at random in turn: what each leaves of its block the next goes on with.
#[test]
fn several_files_share_the_blocks_of_their_overwrites() {
    let mut fs = of_paper();
    let root = fs.root();
    let (piece, pieces) = (64 * KIB, 64);
    let data = vec![4; piece as usize];
    let files: Vec<Ino> = (0..8)
        .map(|i| {
            let name = format!("{i}");
            fs.create(root, name.as_bytes(), &NewInode::default())
                .unwrap()
                .ino
        })
        .collect();
    for &file in &files {
        for i in 0..pieces {
            fs.write(file, i * piece, &data, Time::default()).unwrap();
        }
    }
    fs.sync().unwrap();
    let (before, mut rng) = (fs.volume().written(), Rng::new(1));
    for _ in 0..4_000 {
        let file = files[rng.below(8) as usize];
        let at = rng.below(pieces) * piece;
        fs.write(file, at, &data, Time::default()).unwrap();
        fs.fsync(file).unwrap();
    }
    let after = fs.volume().written();
    let [data, erases] = [after.data - before.data, after.erases - before.erases];
    // 2,000 blocks of data; the chip has 2,048.
    assert_eq!((data, erases), (128_000, 289));
}

/// Files have come and gone, and cleaning goes on in steps of so many page moves: the longest
/// step, in microseconds, and how many there are. Most of a block may be pages that are
/// looked at and were invalid.
#[test]
fn steps_of_cleaning_while_idle() {
    for (pages, want) in [
        (4, (8_870, 2_803)),
        (16, (16_985, 704)),
        (64, (49_147, 178)),
    ] {
        let mut fs = of_paper();
        let mut lines = generate::find("realtime").unwrap().lines();
        lines.retain(|line| !matches!(&line.op, Op::Create { path, .. } | Op::Append { path, .. } | Op::Fsync { path } if path == "stream"));
        replay_fs(&mut fs, lines, Options::default()).unwrap();
        let mut fs = remount(fs);
        let root = fs.root();
        fs.create(root, b"new", &NewInode::default()).unwrap();
        let (mut longest, mut steps, mut more) = (0, 0, true);
        while more {
            let before = fs.volume().nand().counters().time_ns;
            more = fs.gc(pages).unwrap();
            longest = longest.max((fs.volume().nand().counters().time_ns - before) / 1000);
            steps += 1;
        }
        assert_eq!((longest, steps), want, "{pages} pages");
    }
}

/// Overwrites at random on a chip half full: no page is moved before so many are
/// written, and soon after some are.
#[test]
fn pages_can_be_written_before_cleaning_begins() {
    let mut fs = of_paper();
    let (ino, size) = fill(&mut fs, 50);
    let room = u64::from(fs.volume().pages_before_cleaning());
    let before = fs.volume().nand().counters().page_programs;
    let moved = moved_by(&mut fs);
    let mut rng = Rng::new(3);
    while moved_by(&mut fs) == moved {
        let at = rng.below(size / 2_048) * 2_048;
        fs.write(ino, at, &[3; 2_048], Time::default()).unwrap();
    }
    let written = fs.volume().nand().counters().page_programs - before;
    assert_eq!(room, 63_744);
    assert!(
        (room..room + room / 10).contains(&written),
        "{written} of {room}"
    );
    assert!(u64::from(fs.volume().pages_before_cleaning()) < room / 10);
}

/// Updates among files that come and go: blocks of each area are reserved when
/// others are waiting in numbers.
#[test]
fn no_area_waits_for_blocks_of_another() {
    let mut fs = of_paper();
    let root = fs.root();
    let data = vec![5; 300_000];
    let old = fs.create(root, b"old", &NewInode::default()).unwrap().ino;
    fs.write(old, 0, &vec![6; 4_000_000], Time::default())
        .unwrap();
    fs.fsync(old).unwrap();
    let mut longest = 0;
    for n in 0..400 {
        let before = fs.volume().nand().counters().time_ns;
        let at = n * 37 % 900 * 4096;
        fs.write(old, at, &data[..4096], Time::default()).unwrap();
        fs.fsync(old).unwrap();
        let name = |n: u64| format!("{n}").into_bytes();
        let new = fs.create(root, &name(n), &NewInode::default()).unwrap().ino;
        fs.write(new, 0, &data, Time::default()).unwrap();
        fs.fsync(new).unwrap();
        if n % 3 == 2 {
            fs.unlink(root, &name(n - 1), Time::default()).unwrap();
        }
        longest = longest.max((fs.volume().nand().counters().time_ns - before) / 1000);
    }
    // 147 pages with their inode, and a checkpoint.
    assert_eq!(longest, 40_428);
}

fn moved_by(fs: &mut Fs) -> u64 {
    let written = fs.volume().written();
    written.moved_data + written.moved_meta
}

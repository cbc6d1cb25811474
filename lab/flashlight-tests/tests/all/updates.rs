//! Whole pages overwritten and synced: what that costs, and what is there after a power cut.

use crate::common::{
    self, Fs, NOW, chip, clean, cost, cut, file, formatted, on_preset, reads_after_cut, remount,
};
use flashkit_sim::{Rng, SimNand};
use flashkit_vfs::{FileSystem, Ino, SetAttr, Time};

const PAGE: usize = 2048;

fn on_spare(spare: u32) -> Fs {
    formatted(chip(PAGE as u32, spare, 64, 256))
}

/// A file of so many pages that was just synced.
fn synced(fs: &mut Fs, pages: usize) -> Ino {
    let root = fs.root();
    file(fs, root, b"file", pages * PAGE)
}

fn page(n: u64) -> Vec<u8> {
    vec![n as u8; PAGE]
}

fn at(index: u64) -> u64 {
    index * PAGE as u64
}

fn after(n: u64) -> Time {
    Time {
        secs: NOW.secs + n as i64,
        nanos: n as u32,
    }
}

fn bytes(fs: &mut Fs, name: &[u8]) -> Vec<u8> {
    let ino = fs.lookup(fs.root(), name).unwrap().ino;
    let mut all = vec![0; fs.getattr(ino).unwrap().size as usize];
    let n = fs.read(ino, 0, &mut all).unwrap();
    assert_eq!(n, all.len());
    all
}

#[test]
fn an_fsync_costs_the_pages_alone() {
    // Spare bytes, programs of an overwrite of one page with fsync, of four.
    for (spare, one, four) in [
        (64, 1, 4),
        (38, 1, 4),
        (37, 1, 4),
        (24, 1, 4),
        (23, 2, 5),
        (0, 2, 5),
    ] {
        let mut fs = on_spare(spare);
        let ino = synced(&mut fs, 64);
        let mut write = |index, pages: usize| {
            cost(&mut fs, |fs| {
                fs.write(ino, at(index), &vec![1; pages * PAGE], NOW)
                    .unwrap();
                fs.fsync(ino).unwrap();
            })
        };
        // The first reserves a block.
        write(1, 1);
        assert_eq!(
            [write(2, 1), write(3, 1)],
            [(0, one); 2],
            "{spare} spare bytes"
        );
        assert_eq!(write(8, 4), (0, four), "{spare} spare bytes");
    }
}

#[test]
fn what_is_no_update_writes_the_inode() {
    let mut fs = on_spare(38);
    let ino = synced(&mut fs, 64);
    type Change<'a> = &'a dyn Fn(&mut Fs);
    let write =
        |fs: &mut Fs, from: u64, len: usize| fs.write(ino, from, &vec![3; len], NOW).unwrap();
    write(&mut fs, 0, PAGE);
    let changes: [(&str, Change<'_>, u64); 8] = [
        ("a part of a page", &|fs| write(fs, 100, 50), 1),
        ("behind the end", &|fs| write(fs, at(64) + 1, PAGE), 2),
        ("more than 16 pages", &|fs| write(fs, 0, 17 * PAGE), 18),
        ("a page and a part", &|fs| write(fs, at(9), PAGE + 7), 2),
        (
            "a cut",
            &|fs| {
                fs.setattr(
                    ino,
                    &SetAttr {
                        size: Some(at(60)),
                        ..SetAttr::default()
                    },
                )
                .unwrap();
            },
            1,
        ),
        (
            "a mode",
            &|fs| {
                let mode = Some(0o600);
                fs.setattr(
                    ino,
                    &SetAttr {
                        mode,
                        ..SetAttr::default()
                    },
                )
                .unwrap();
                write(fs, at(1), PAGE);
            },
            2,
        ),
        (
            "66 pages without an fsync",
            &|fs| (0..66).for_each(|i| write(fs, at(i % 50), PAGE)),
            67,
        ),
        (
            "a time that has no room",
            &|fs| {
                let secs = 1 << 39;
                fs.write(ino, 0, &page(1), Time { secs, nanos: 0 }).unwrap();
            },
            2,
        ),
    ];
    for (what, change, programs) in changes {
        fs.fsync(ino).unwrap();
        let spent = cost(&mut fs, |fs| {
            change(fs);
            fs.fsync(ino).unwrap();
        });
        // Now and then a block is reserved.
        assert!(
            (programs..=programs + 2).contains(&spent.1),
            "{what}: {spent:?}"
        );
        let mut after = common::mount(fs.volume().nand().get::<SimNand>().clone());
        assert_eq!(
            bytes(&mut after, b"file"),
            bytes(&mut fs, b"file"),
            "{what}"
        );
        clean(&mut after);
    }
}

/// Pieces appended and synced: a page that its inode has no room for is written when it is full,
/// and once before, as a tail.
#[test]
fn a_line_of_a_log_costs_one_program() {
    for (spare, programs) in [(38, 1), (24, 1), (23, 2)] {
        let mut fs = on_spare(spare);
        let ino = synced(&mut fs, 64);
        let mut end = at(64);
        let mut append = |fs: &mut Fs, len: usize| {
            end += len as u64;
            cost(fs, |fs| {
                fs.write(ino, end - len as u64, &vec![1; len], NOW).unwrap();
                fs.fsync(ino).unwrap();
            })
        };
        // Blocks are reserved.
        append(&mut fs, PAGE);
        append(&mut fs, 700);
        append(&mut fs, PAGE - 700);
        assert_eq!(append(&mut fs, 1000), (0, 1), "in the inode");
        assert_eq!(append(&mut fs, 1000), (0, programs), "a tail, {spare}");
        assert_eq!(append(&mut fs, 40), (0, 1), "in the inode again");
        assert_eq!(append(&mut fs, 8), (0, 1), "to the end of the page");
        assert_eq!(append(&mut fs, PAGE), (0, programs), "a page");
        assert_eq!(append(&mut fs, 3 * PAGE), (0, programs + 2), "pages");
        let want = bytes(&mut fs, b"file");
        assert_eq!(want.len() as u64, end);
        let mut after = cut(fs);
        assert_eq!(bytes(&mut after, b"file"), want);
        clean(&mut after);
    }
}

/// A tail is told from the zeros behind it: those at its own end are counted.
#[test]
fn zeros_at_the_end_of_a_tail() {
    for (zeros, programs) in [(0, 1), (1, 1), (239, 1), (240, 2), (1000, 2)] {
        let mut fs = on_spare(38);
        let ino = synced(&mut fs, 64);
        for (from, len) in [(at(64), PAGE), (at(65), 950)] {
            fs.write(ino, from, &vec![1; len], NOW).unwrap();
            fs.fsync(ino).unwrap();
        }
        let mut piece = vec![2; 1000];
        piece[1000 - zeros..].fill(0);
        let spent = cost(&mut fs, |fs| {
            fs.write(ino, at(65) + 950, &piece, after(1)).unwrap();
            fs.fsync(ino).unwrap();
        });
        // The inode's page is the first of a block.
        assert_eq!(spent, (programs - 1, programs), "{zeros} zeros");
        let want = bytes(&mut fs, b"file");
        let mut fs = cut(fs);
        assert_eq!(bytes(&mut fs, b"file"), want, "{zeros} zeros");
        assert_eq!(fs.getattr(ino).unwrap().mtime, after(1));
        // What is behind it is zero.
        let size = Some(at(70));
        fs.setattr(
            ino,
            &SetAttr {
                size,
                ..SetAttr::default()
            },
        )
        .unwrap();
        assert!(
            bytes(&mut fs, b"file")[at(65) as usize + 1950..]
                .iter()
                .all(|&b| b == 0)
        );
        clean(&mut fs);
    }
}

/// Two files, random updates of both among other changes, a power cut after any: what was synced is
/// there, in contents, size and times; and what was not is a state of the file.
#[test]
fn what_is_synced_is_there_after_a_cut() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut fs = on_spare(38);
        let root = fs.root();
        let names: [&[u8]; 2] = [b"a", b"b"];
        let inos = names.map(|name| file(&mut fs, root, name, 40 * PAGE));
        // What each is, and what it was at its last fsync.
        let mut now = names.map(|name| bytes(&mut fs, name));
        let mut states = [vec![(now[0].clone(), NOW)], vec![(now[1].clone(), NOW)]];
        for n in 1..300 {
            let f = usize::from(rng.one_in(4));
            let (ino, time) = (inos[f], after(n));
            let index = rng.below(30);
            let pages = 1 + rng.below(4) as usize;
            let end = now[f].len();
            let (from, len) = match rng.below(12) {
                0 => (at(index) as usize + 5, 700),
                1 => (end, pages * PAGE),
                2 => (end, PAGE - end % PAGE),
                3..6 => (end, 900),
                _ => (at(index) as usize, pages * PAGE),
            };
            let data: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            fs.write(ino, from as u64, &data, time).unwrap();
            if now[f].len() < from + len {
                now[f].resize(from + len, 0);
            }
            now[f][from..from + len].copy_from_slice(&data);
            states[f].push((now[f].clone(), time));
            if !rng.one_in(3) {
                fs.fsync(ino).unwrap();
                let last = states[f].pop().unwrap();
                states[f] = vec![last];
            }
            match rng.below(60) {
                n @ 0..2 => {
                    fs.sync().unwrap();
                    if n == 1 {
                        fs = remount(fs);
                    }
                    states = [0, 1].map(|f| vec![states[f].pop().unwrap()]);
                    for f in 0..2 {
                        assert_eq!(bytes(&mut fs, names[f]), now[f], "seed {seed}, change {n}");
                    }
                }
                2..5 => {
                    fs = cut(fs);
                    for f in 0..2 {
                        let left = (bytes(&mut fs, names[f]), fs.getattr(inos[f]).unwrap().mtime);
                        assert!(
                            states[f].contains(&left),
                            "seed {seed}, change {n}, file {f}"
                        );
                        now[f] = left.0.clone();
                        states[f] = vec![left];
                    }
                    clean(&mut fs);
                }
                _ => {}
            }
        }
    }
}

/// What a mount reads at most after a cut, whatever the size of the chip: the pages of updates
/// since the last checkpoint among it.
#[test]
fn a_mount_after_updates_reads_a_bounded_number_of_pages() {
    for (name, reads) in [("slc-256m", 1914), ("slc-8g", 1714)] {
        let file_pages = 40_000;
        let mut fs = on_preset(name);
        let ino = synced(&mut fs, file_pages);
        let (mut rng, mut most) = (Rng::new(1), 0);
        for n in 0..2400 {
            fs.write(ino, at(rng.below(file_pages as u64)), &page(n), NOW)
                .unwrap();
            fs.fsync(ino).unwrap();
            if n % 96 == 95 {
                most = most.max(reads_after_cut(&mut fs));
            }
        }
        assert_eq!(most, reads, "{name}");
    }
}

/// A time of a clock that counts a leap second as more nanoseconds: what was synced is there all
/// the same, and what follows it.
#[test]
fn the_nanoseconds_of_a_write_are_more_than_a_second() {
    let mut fs = on_spare(64);
    let ino = synced(&mut fs, 8);
    for n in 1..8 {
        let nanos = if n == 3 { 1_000_000_000 } else { 5 };
        let now = Time { secs: 9, nanos };
        fs.write(ino, at(n), &page(n), now).unwrap();
        fs.fsync(ino).unwrap();
    }
    let found = bytes(&mut cut(fs), b"file");
    for n in 1..8 {
        assert_eq!(found[at(n) as usize], n as u8, "page {n}");
    }
}

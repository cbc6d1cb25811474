//! What is held back, against files of which nothing is.

use super::*;
use crate::testing::{files, flash, held};
use flashkit_flashlight::{Config, FlashLight, New, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::{Access, Rng, SimNand, preset};
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::{Error, FileSystem, Measured, MemoryFs, NewInode};

/// What is counted, and in which order, is what there is.
pub(super) fn check(fs: &Gathered) {
    let all = |of: fn(&File) -> usize| fs.files.values().map(of).sum::<usize>();
    assert_eq!(fs.bytes, all(|file| file.pieces.bytes()));
    assert_eq!(fs.pieces, all(|file| file.pieces.count()));
    assert_eq!(fs.kept_memory, all(|file| file.kept.memory()));
    assert!(fs.bytes + fs.kept_memory <= fs.bytes_max);
    for (turn, ino) in &fs.turns {
        assert!(fs.holds(*ino) && fs.files[ino].turn == *turn);
    }
    for (turn, ino) in &fs.kept_turns {
        let file = &fs.files[ino];
        assert!(!file.kept.is_empty() && file.kept_turn == *turn);
    }
    let held = all(|file| usize::from(!file.pieces.is_empty()));
    let kept = all(|file| usize::from(!file.kept.is_empty()));
    assert_eq!((fs.turns.len(), fs.kept_turns.len()), (held, kept));
}

/// Programs for logs that grow in turn by 100 bytes, until all is durable.
fn logs(fs: &mut dyn Measured, count: u32) -> u64 {
    let files = files(fs, count);
    let before = fs.cost().page_programs;
    for i in 0..2_000 {
        let file = files[i % files.len()];
        let at = (i / files.len() * 100) as u64;
        fs.write(file, at, &[i as u8; 100], Time::now()).unwrap();
    }
    fs.sync().unwrap();
    fs.cost().page_programs - before
}

#[test]
fn logs_that_grow_in_turn_are_programmed_once() {
    let costs = [1, 2, 4, 16].map(|count| {
        let through = logs(&mut *flash("micron-20m"), count);
        let gathered = logs(&mut held(flash("micron-20m")), count);
        (count, through, gathered)
    });
    // 200,000 bytes are 98 pages.
    let pinned = [
        (1, 272, 105),
        (2, 208, 105),
        (4, 2236, 108),
        (16, 2245, 122),
    ];
    assert_eq!(
        costs, pinned,
        "files, programs of writes that go through, and gathered"
    );
}

/// What has been taken has room, however the volume is filled: every byte is there in the end.
#[test]
fn nothing_is_taken_that_a_full_volume_has_no_room_for() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut fs = held(flash("micron-20m"));
        let files = files(&mut fs, 1 + 20 * (seed as u32 % 3));
        let mut held = vec![Vec::new(); files.len()];
        let (root, now) = (fs.root(), Time::default());
        let mut refused = 0;
        for i in 0..400_000u64 {
            let which = rng.below(files.len() as u64) as usize;
            let len = [100, 3_000, 16_000, 200_000][rng.below(4) as usize];
            let data = vec![i as u8; 1 + rng.below(len) as usize];
            let end = held[which].len() as u64;
            match fs.write(files[which], end, &data, now) {
                Ok(()) => held[which].extend_from_slice(&data),
                Err(Error::NoSpace) => {
                    refused += 1;
                    // A part of it may be there.
                    let there = fs.getattr(files[which]).unwrap().size;
                    held[which].extend_from_slice(&data[..(there - end) as usize]);
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
            if rng.one_in(500) {
                let name = format!("more {i}").into_bytes();
                let _ = fs.create(root, &name, &NewInode::default());
            }
            if refused > 40 {
                break;
            }
        }
        assert!(refused > 40, "seed {seed}");
        let synced = fs.sync();
        assert!(matches!(synced, Ok(()) | Err(Error::NoSpace)), "{synced:?}");
        assert_eq!((fs.bytes, fs.pieces), (0, 0), "seed {seed}");
        for (file, held) in files.iter().zip(&held) {
            let mut read = vec![0; held.len() + 1];
            assert_eq!(fs.read(*file, 0, &mut read), Ok(held.len()), "seed {seed}");
            assert!(read[..held.len()] == held[..], "seed {seed}");
        }
    }
}

/// What a program may do to a file.
#[derive(Clone, Copy)]
enum Change {
    Write,
    Cut,
    SetTime,
    SetMode,
    Punch,
}

fn change(fs: &mut dyn FileSystem, ino: Ino, what: Change, at: (u64, u64), step: u32) {
    let (offset, len) = at;
    let time = |secs| Time { secs, nanos: 0 };
    let now = time(step.into());
    let set = SetAttr {
        now,
        ..SetAttr::default()
    };
    let set = match what {
        Change::Write => {
            let data = vec![step as u8; len as usize];
            return fs.write(ino, offset, &data, now).unwrap();
        }
        Change::Punch => return fs.punch_hole(ino, offset, len, now).unwrap(),
        Change::Cut => SetAttr {
            size: Some(offset),
            ..set
        },
        Change::SetTime => SetAttr {
            mtime: Some(time(3)),
            ..set
        },
        Change::SetMode => SetAttr {
            mode: Some(0o600),
            ..set
        },
    };
    fs.setattr(ino, &set).unwrap();
}

fn content(fs: &mut dyn FileSystem, ino: Ino, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![1; len as usize];
    let there = fs.read(ino, offset, &mut bytes).unwrap();
    bytes.truncate(there);
    bytes
}

/// Against a file system that holds nothing back: the same calls have the same answers, and
/// what a sync leaves is the same.
#[test]
fn a_program_sees_no_difference() {
    use Change::{Cut, Punch, SetMode, SetTime, Write};
    const CHANGES: [Change; 9] = [
        Write, Write, Write, Write, Write, Cut, SetTime, SetMode, Punch,
    ];
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut held = Gathered::with_max(flash("micron-20m"), 200_000);
        let mut plain = MemoryFs::new();
        let inos = files(&mut held, 6);
        let twins = files(&mut plain, 6);
        for step in 0..400u32 {
            let which = rng.below(6) as usize;
            let (ino, twin) = (inos[which], twins[which]);
            let offset = rng.below(300_000);
            let longest = [20, 5_000, 90_000, 400_000][rng.below(4) as usize];
            let len = 1 + rng.below(longest);
            match rng.below(12) {
                0 => held.fsync(ino).unwrap(),
                1 => {
                    held.begin_commit();
                    while held.write_some().unwrap() {}
                }
                2 => {
                    let read = content(&mut held, ino, offset, len);
                    let expected = content(&mut plain, twin, offset, len);
                    assert!(read == expected, "seed {seed}, step {step}");
                }
                n => {
                    let what = CHANGES[n as usize - 3];
                    change(&mut held, ino, what, (offset, len), step);
                    change(&mut plain, twin, what, (offset, len), step);
                }
            }
            let shown = |attr: Attr| (attr.size, attr.mtime, attr.ctime, attr.mode);
            let is = shown(held.getattr(ino).unwrap());
            let expected = shown(plain.getattr(twin).unwrap());
            assert_eq!(is, expected, "seed {seed}, step {step}");
            check(&held);
        }
        held.sync().unwrap();
        assert_eq!((held.bytes, held.pieces), (0, 0), "seed {seed}");
        for (ino, twin) in inos.into_iter().zip(twins) {
            let is = held.fs.getattr(ino).unwrap();
            let expected = plain.getattr(twin).unwrap();
            let times = |attr: Attr| (attr.size, attr.mtime, attr.ctime);
            assert_eq!(times(is), times(expected), "seed {seed}");
            let read = content(&mut *held.fs, ino, 0, is.size);
            assert!(read == content(&mut plain, twin, 0, is.size), "seed {seed}");
        }
    }
}

/// Programs for files of so many bytes that are closed, and for those that are removed then.
fn lives(bytes: usize, removed: bool) -> u64 {
    let mut fs = held(flash("micron-20m"));
    let (root, now, new) = (fs.root(), Time::default(), NewInode::default());
    let before = fs.cost().page_programs;
    for n in 0..20 {
        let name = format!("f{n}").into_bytes();
        let file = fs.create(root, &name, &new).unwrap().ino;
        fs.open(file).unwrap();
        fs.write(file, 0, &vec![1; bytes], now).unwrap();
        fs.release(file).unwrap();
        if removed && n > 0 {
            fs.unlink(root, format!("f{}", n - 1).as_bytes(), now)
                .unwrap();
        }
    }
    fs.sync().unwrap();
    check(&fs);
    fs.cost().page_programs - before
}

#[test]
fn what_is_removed_soon_is_not_written() {
    let costs =
        [4_000, 20_000, 200_000].map(|bytes| (bytes, lives(bytes, false), lives(bytes, true)));
    let pinned = [(4_000, 71, 75), (20_000, 211, 68), (200_000, 1979, 421)];
    assert_eq!(
        costs, pinned,
        "bytes, programs of 20 files, and if 19 of them are removed"
    );
}

/// Files of words that say when they were written; a commit goes on between writes, and is ended
/// before all of its steps in one of three.
#[test]
fn a_commit_ends_with_files_that_are_written_on_and_on() {
    const WORDS: u64 = 100_000;
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let mut fs = held(flash("micron-20m"));
        let files = files(&mut fs, 2);
        let mut words = vec![vec![0u32; WORDS as usize]; 2];
        let now = Time::default();
        for file in &files {
            fs.write(*file, 0, &vec![0; 4 * WORDS as usize], now)
                .unwrap();
        }
        let (mut stamp, mut left) = (0, 0);
        let mut write = |fs: &mut Gathered, words: &mut Vec<Vec<u32>>, rng: &mut Rng| {
            stamp += 1;
            let (which, longest) = (
                rng.below(2) as usize,
                [3, 300, 3_000][rng.below(3) as usize],
            );
            let (len, size) = (1 + rng.below(longest), words[which].len());
            let at = match rng.one_in(6) {
                true => size as u64,
                false => rng.below(WORDS - len),
            };
            let range = at as usize..(at + len) as usize;
            words[which].resize(size.max(range.end), 0);
            words[which][range].fill(stamp);
            let data = stamp.to_le_bytes().repeat(len as usize);
            fs.write(files[which], 4 * at, &data, now).unwrap();
        };
        for commit in 0..9 {
            for _ in 0..60 {
                write(&mut fs, &mut words, &mut rng);
            }
            let (due, steps) = (words.clone(), fs.begin_commit());
            let most = [steps, steps, 2][commit % 3];
            let mut taken = 0;
            while taken < most && fs.write_some().unwrap() {
                taken += 1;
                for _ in 0..1 + commit / 2 {
                    write(&mut fs, &mut words, &mut rng);
                }
                check(&fs);
            }
            assert!(
                taken < steps,
                "seed {seed}, commit {commit}: the steps suffice"
            );
            fs.end_commit().unwrap();
            check(&fs);
            left += fs.bytes;
            for (file, due) in files.iter().zip(&due) {
                let there = content(&mut *fs.fs, *file, 0, 4 * due.len() as u64);
                let stamps = there.chunks(4).map(|word| word.try_into().unwrap());
                let is_old = |(word, due): (u32, &u32)| word < *due;
                let old = stamps.map(u32::from_le_bytes).zip(due).position(is_old);
                assert_eq!(old, None, "seed {seed}, commit {commit}: word");
            }
        }
        assert!(left > 0, "seed {seed}");
    }
}

/// A piece that new bytes have made begin before where the commit is, is due as well.
#[test]
fn what_is_due_is_committed_though_new_bytes_touch_it() {
    let mut fs = held(flash("micron-20m"));
    let (file, now) = (files(&mut fs, 1)[0], Time::default());
    fs.write(file, 0, &[0; 60_000], now).unwrap();
    fs.sync().unwrap();
    for n in 0..20 {
        fs.write(file, n * 1_000, &[1; 100], now).unwrap();
    }
    fs.begin_commit();
    assert_eq!(fs.write_some(), Ok(true));
    assert_eq!(fs.commit.at, 15_100);
    fs.write(file, 15_050, &[2; 960], now).unwrap();
    assert_eq!(fs.end_commit(), Ok(()));
    assert_eq!(content(&mut *fs.fs, file, 16_010, 90), [1; 90]);
}

/// A log that grows as fast as it is committed.
#[test]
fn what_is_appended_during_a_commit_is_of_the_next() {
    let mut fs = held(flash("micron-20m"));
    let (file, now) = (files(&mut fs, 1)[0], Time::default());
    for n in 0..4 {
        fs.write(file, n << 16, &[1; 1 << 16], now).unwrap();
    }
    let steps = fs.begin_commit();
    let mut taken = 0;
    while fs.write_some().unwrap() {
        fs.write(file, (4 + taken) << 16, &[2; 1 << 16], now)
            .unwrap();
        taken += 1;
        assert!(taken < steps as u64);
    }
    assert_eq!(fs.end_commit(), Ok(()));
    assert_eq!((fs.bytes as u64, taken), (taken << 16, 4));
}

/// Takes all room of the volume, behind the back of what holds writes.
fn fill(fs: &mut Gathered) {
    let (root, now) = (fs.root(), Time::default());
    let filler = fs.fs.create(root, b"filler", &NewInode::default()).unwrap();
    for n in 0.. {
        if fs.fs.write(filler.ino, n << 11, &[7; 2_048], now).is_err() {
            break;
        }
    }
}

/// A commit that has failed is made again from the start.
#[test]
fn after_an_error_all_is_due_again() {
    let mut fs = held(flash("micron-20m"));
    let (root, now) = (fs.root(), Time::default());
    let file = files(&mut fs, 1)[0];
    for n in 0..5 {
        fs.write(file, n << 16, &[1; 1 << 16], now).unwrap();
    }
    fs.begin_commit();
    assert_eq!(fs.write_some(), Ok(true));
    fs.write(file, 0, &[2; 10], now).unwrap();
    fill(&mut fs);
    assert_eq!(fs.write_some(), Err(Error::NoSpace));
    assert_eq!(fs.end_commit(), Err(Error::NoSpace));
    fs.fs.unlink(root, b"filler", now).unwrap();
    assert_eq!(fs.end_commit(), Ok(()));
    assert_eq!(
        (fs.bytes, content(&mut *fs.fs, file, 0, 10)),
        (0, vec![2; 10])
    );
}

/// The time of a change of attributes is on flash after a commit, though bytes are still held.
#[test]
fn a_commit_leaves_the_time_of_the_last_change() {
    let mut fs = held(flash("micron-20m"));
    let file = files(&mut fs, 1)[0];
    let time = |secs| Time { secs, nanos: 0 };
    for n in 0..5 {
        fs.write(file, n * 60_000, &[1; 60_000], time(5)).unwrap();
    }
    fs.begin_commit();
    assert_eq!(fs.write_some(), Ok(true));
    fs.write(file, 0, &[2; 10], time(10)).unwrap();
    change(&mut fs, file, Change::SetMode, (0, 0), 20);
    fs.end_commit().unwrap();
    assert_eq!(fs.bytes, 10);
    let attr = fs.fs.getattr(file).unwrap();
    assert_eq!((attr.mtime, attr.ctime), (time(10), time(20)));
}

/// A write that goes through and has no room changes nothing of what is held.
#[test]
fn a_write_without_room_is_in_nobodys_way() {
    let mut fs = held(flash("micron-20m"));
    let file = files(&mut fs, 1)[0];
    let time = |secs| Time { secs, nanos: 0 };
    fs.write(file, 0, &[1; 100], time(5)).unwrap();
    fill(&mut fs);
    let written = fs.write(file, 500, &vec![3; 1 << 20], time(9));
    assert_eq!(written, Err(Error::NoSpace));
    check(&fs);
    let attr = fs.getattr(file).unwrap();
    let read = content(&mut fs, file, 0, 2 << 20);
    assert_eq!(read.len() as u64, attr.size);
    assert_eq!(read[..100], [1; 100]);
    if attr.size == 100 {
        assert_eq!(attr.mtime, time(5));
    }
}

/// A directory's fsync has the files that are new in it, those that were moved there as well.
#[test]
fn a_directory_that_is_synced_has_what_is_new_in_it() {
    let mut fs = held(flash("micron-20m"));
    let (root, now, new) = (fs.root(), Time::default(), NewInode::default());
    let [here, there] = [b"a", b"b"].map(|name| fs.mkdir(root, name, &new).unwrap().ino);
    let mut file = |dir, name: &[u8]| {
        let file = fs.create(dir, name, &new).unwrap().ino;
        fs.open(file).unwrap();
        fs.write(file, 0, &[1; 5_000], now).unwrap();
        file
    };
    let (first, other, moved) = (file(here, b"1"), file(there, b"2"), file(there, b"3"));
    fs.rename(there, b"3", here, b"3", false, now).unwrap();
    fs.fsync(here).unwrap();
    assert!(!fs.holds(first) && !fs.holds(moved) && fs.holds(other));
    fs.fsync(there).unwrap();
    assert_eq!(fs.bytes, 0);
    // One that has no name any more is nobody's.
    fs.write(first, 0, &[2; 100], now).unwrap();
    fs.unlink(here, b"1", now).unwrap();
    fs.fsync(here).unwrap();
    assert_eq!(fs.bytes, 100);
}

/// So have those that were moved before anything was written to them, while nothing was held of any
/// file: they were empty after a crash.
#[test]
fn a_directory_that_is_synced_has_what_was_moved_there_empty() {
    let (now, new) = (Time::default(), NewInode::default());
    for is_exchange in [false, true] {
        let mut fs = held(flash("micron-20m"));
        let root = fs.root();
        let [from, to] = [b"a", b"b"].map(|name| fs.mkdir(root, name, &new).unwrap().ino);
        if is_exchange {
            fs.create(to, b"f", &new).unwrap();
        }
        let file = fs.create(from, b"f", &new).unwrap().ino;
        fs.open(file).unwrap();
        match is_exchange {
            true => fs.exchange(from, b"f", to, b"f", now).unwrap(),
            false => fs.rename(from, b"f", to, b"f", false, now).unwrap(),
        }
        fs.write(file, 0, &[1; 5_000], now).unwrap();
        fs.fsync(from).unwrap();
        assert!(fs.holds(file), "it is not there any more");
        fs.fsync(to).unwrap();
        assert!(!fs.holds(file), "is_exchange {is_exchange}");
    }
}

/// Others that came after them, a link and a rename have had their inodes written, without what was
/// held.
#[test]
fn what_is_new_in_a_directory_that_was_synced_is_there_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("chip");
    let chip = SimNand::create(&image, preset("micron-20m").unwrap()).unwrap();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    drop(FlashLight::format(chip, &mut ram, 1, &New::default()).unwrap());
    let mount = || {
        let chip = SimNand::open(&image, Access::ReadWrite).unwrap();
        let ram = vec![0; ram_needed(&chip.geometry())].leak();
        any::mount(AnyNand::new(chip), ram, Config::default()).unwrap()
    };
    let mut fs = held(Box::new(mount()));
    let (root, now, new) = (fs.root(), Time::default(), NewInode::default());
    let from = fs.mkdir(root, b"from", &new).unwrap().ino;
    let mut written = Vec::new();
    for n in 0..8_u8 {
        let name = [b'a' + n];
        let made_in = if n % 2 == 0 { root } else { from };
        let file = fs.create(made_in, &name, &new).unwrap().ino;
        fs.open(file).unwrap();
        fs.write(file, 0, &[n; 5_000], now).unwrap();
        if n % 2 == 1 {
            fs.rename(from, &name, root, &name, false, now).unwrap();
        }
        written.push((name, file));
    }
    fs.link(written[2].1, root, b"link", now).unwrap();
    fs.fsync(root).unwrap();
    // As when the server is killed.
    drop(fs);
    let mut fs = mount();
    for (name, _) in written {
        let file = fs.lookup(root, &name).unwrap();
        assert_eq!(file.size, 5_000, "{}", name[0]);
        let mut read = [0xff; 5_000];
        assert_eq!(fs.read(file.ino, 0, &mut read), Ok(5_000));
        assert_eq!(read, [name[0] - b'a'; 5_000]);
    }
}

/// What the chip does to one file is told to those who sync it, and to nobody else.
#[test]
fn a_file_that_cannot_be_written_is_in_nobodys_way() {
    let mut fs = Gathered::with_max(flash("micron-20m"), 300_000);
    let [bad, good] = files(&mut fs, 2)[..] else {
        panic!()
    };
    let (root, now) = (fs.root(), Time::default());
    fs.write(bad, 0, &[1; 100], now).unwrap();
    // As if its inode were damaged.
    let gone = fs.fs.unlink(root, b"f0", now);
    assert_eq!(gone, Ok(()));
    for n in 0..200 {
        fs.write(good, n * 16_384, &[2; 16_384], now).unwrap();
    }
    assert!(fs.bytes <= 300_000);
    fs.fsync(good).unwrap();
    assert_eq!(fs.sync(), Err(Error::NotFound), "of the bad one");
    assert!(fs.holds(bad));
    fs.setattr(bad, &SetAttr::default()).unwrap_err();
    fs.drop_file(bad);
    assert_eq!(fs.sync(), Ok(()));
}

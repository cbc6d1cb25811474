//! Idle cleaning comes to an end, in directories with index pages as well.

use crate::common::{
    Fs, NOW, chip, clean, cut, file, formatted, mount, remount, try_mount_lent, try_unmount,
};
use flashkit_flashlight::{BlockState, Config};
use flashkit_nand::{BlockAddr, Nand};
use flashkit_sim::{Cut, EraseTear, Faults, Metered, PowerCut, Rng, Rot, SimNand, Tear};
use flashkit_vfs::{FileSystem, Measured as _, SetAttr};

/// What a step of a host that is idle cleans.
const STEP: u32 = 64;

/// Cleans until no more can be won: pages programmed, and blocks that are free more than before.
fn idle(fs: &mut Fs) -> (u64, i64) {
    let geometry = fs.volume().nand().geometry();
    let count = |fs: &mut Fs| {
        let free = (0..geometry.blocks()).filter(|&block| {
            let state = fs.volume().block_state(block);
            matches!(
                state,
                BlockState::Free | BlockState::Clean | BlockState::Dead
            )
        });
        let free = free.count() as i64;
        (fs.volume().nand().counters().page_programs, free)
    };
    let before = count(fs);
    let most = 4 * geometry.blocks() * geometry.pages_per_block() / STEP;
    let mut calls = 0;
    while fs.volume().gc(STEP).unwrap() {
        calls += 1;
        assert!(calls < most, "{calls} calls, and no end");
    }
    let after = count(fs);
    (after.0 - before.0, after.1 - before.1)
}

/// Idle cleaning of one directory of so many files, and of what is left when more and more of them
/// are removed: what it programs is less than what it wins and two blocks, and with nothing
/// changed it has nothing to do.
fn many(page: u32, pages: u32, blocks: u32, files: u64, size: usize) {
    let mut fs = formatted(chip(page, 64, pages, blocks));
    let root = fs.root();
    let name = |n: u64| format!("{n}").into_bytes();
    for n in 0..files {
        file(&mut fs, root, &name(n), size);
    }
    let mut rng = Rng::new(1);
    for keep in [1000, 500, 100, 0] {
        for n in 0..files {
            if rng.below(1000) >= keep {
                let _ = fs.unlink(root, &name(n), NOW);
            }
        }
        fs.sync().unwrap();
        let (programs, won) = idle(&mut fs);
        let what =
            format!("{page}+64x{pages}x{blocks}, {files} files of {size}, {keep} in 1000 left");
        assert!(
            won >= 0 && programs <= (2 * won as u64 + 2) * u64::from(pages),
            "{what}: {programs} programs win {won} blocks"
        );
        fs = remount(fs);
        assert_eq!(idle(&mut fs), (0, 0), "{what}");
    }
    clean(&mut fs);
}

#[test]
fn idle_cleaning_of_a_large_directory_ends() {
    many(1024, 16, 1364, 8000, 300);
    many(1024, 8, 2728, 8000, 300);
    many(1024, 64, 341, 8000, 300);
    many(2048, 64, 1024, 16000, 300);
    many(2048, 64, 1024, 8000, 4000);
    many(1024, 16, 1364, 4000, 2000);
}

/// All of the idle cleaning that there is, asked for at once, on chips of which half the pages are
/// invalid. Whenever the power goes in it, the volume mounts and all is there.
#[test]
fn idle_cleaning_without_end_is_cut() {
    for (page, pages, blocks) in [(1024, 8, 3000), (2048, 32, 600)] {
        let mut fs = formatted(chip(page, 64, pages, blocks));
        let root = fs.root();
        let size = u64::from(2 * page * pages);
        let files = u64::from(blocks) * 6 / 10 / 2;
        let path = |n: u64| format!("f{n}");
        for n in 0..files {
            let ino = file(&mut fs, root, path(n).as_bytes(), size as usize);
            for at in (0..size).step_by(2 * page as usize) {
                fs.punch_hole(ino, at, page.into(), NOW).unwrap();
            }
            fs.fsync(ino).unwrap();
        }
        let chip = try_unmount(fs).unwrap();
        for after in (0..12).map(|n| n * n * 400) {
            let cut = Cut {
                after,
                program: Tear::Garbage,
                erase: EraseTear::Partial,
                seed: after,
            };
            let mut cut_chip = PowerCut::new(chip.clone(), cut);
            let mut fs = try_mount_lent(&mut cut_chip, Config::default()).unwrap();
            let begun = fs.setattr(
                root,
                &SetAttr {
                    mode: Some(0o700),
                    ..SetAttr::default()
                },
            );
            if begun.is_ok() {
                let _ = fs.volume().gc(u32::MAX);
            }
            drop(fs);
            let mut fs = mount(cut_chip.into_inner());
            clean(&mut fs);
            for n in 0..files {
                let mut byte = [0];
                let ino = fs.lookup(root, path(n).as_bytes()).unwrap().ino;
                fs.read(ino, u64::from(page), &mut byte).unwrap();
                assert_eq!(
                    byte[0], 0x5a,
                    "{page} {pages} {blocks}, cut after {after}, file {n}"
                );
            }
        }
    }
}

/// A chip that has lain for half a year is read, with a little cleaning after each file, and the
/// power goes: a recovery has found enough at any time.
#[test]
fn blocks_that_rot_are_written_anew_in_idle_time_and_the_power_goes() {
    const DAY_MS: u64 = 24 * 3_600_000;
    const FILES: u32 = 500;
    let mut fs = formatted(chip(2048, 64, 64, 2000));
    let nand = fs.volume().nand_mut().get_mut::<SimNand>();
    nand.set_faults(Faults {
        ecc: 8,
        retention_ns: 30 * DAY_MS * 1_000_000,
        ..Faults::default()
    })
    .unwrap();
    let root = fs.root();
    let name = |n: u32| format!("f{n}").into_bytes();
    for n in 0..FILES {
        file(&mut fs, root, &name(n), 131_072);
    }
    fs.sync().unwrap();
    let mut fs = remount(fs);
    fs.idle(181 * DAY_MS).unwrap();
    let mut data = vec![0; 131_072];
    for n in 0..FILES {
        let ino = fs.lookup(root, &name(n)).unwrap().ino;
        fs.read(ino, 0, &mut data).unwrap();
        fs.gc(16).unwrap();
    }
    let written = fs.volume().written();
    assert!(written.refreshed > 400, "{written:?}");
    let mut fs = cut(fs);
    for n in 0..FILES {
        let ino = fs.lookup(root, &name(n)).unwrap().ino;
        assert_eq!(fs.read(ino, 0, &mut data).unwrap(), data.len());
    }
    clean(&mut fs);
}

const PAGE: u64 = 1024;

/// Data blocks with all pages, or at most so many, in use.
fn data_blocks(fs: &mut Fs, valid: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    let blocks = 0..fs.volume().nand().geometry().blocks();
    let states = blocks.map(|block| (block, fs.volume().block_state(block)));
    let is_such = |state| matches!(state, BlockState::Data(n) if valid.contains(&n));
    let such = states.filter(|(_, state)| is_such(*state));
    such.map(|(block, _)| block).collect()
}

/// Leaves every third page of a file, and what lies there of full blocks is lost, if that is so.
/// Gives these blocks.
fn thin_out(fs: &mut Fs, ino: u64, pages: u64, is_lost: bool) -> Vec<u32> {
    let full = data_blocks(fs, 16..=16);
    for at in (0..pages).filter(|at| at % 3 > 0) {
        fs.punch_hole(ino, at * PAGE, PAGE, NOW).unwrap();
    }
    fs.sync().unwrap();
    let geometry = fs.volume().nand().geometry();
    // One of three pages in a row is in use.
    for page in full
        .iter()
        .flat_map(|&block| (5..8).map(move |index| (block, index)))
    {
        let page = geometry.page(BlockAddr(page.0), page.1);
        if is_lost {
            let nand = fs.volume().nand_mut().get_mut::<SimNand>();
            nand.rot(page, Rot::Lost).unwrap();
        }
    }
    full
}

/// Blocks that cannot be won, as a page in each is lost, are more than are remembered. They are not
/// tried again and again: that would read them until they wear, and keep a host awake.
#[test]
fn idle_cleaning_of_many_blocks_with_lost_pages_ends() {
    let mut fs = formatted(chip(1024, 64, 16, 300));
    let root = fs.root();
    let large = file(&mut fs, root, b"large", 2400 << 10);
    let full = thin_out(&mut fs, large, 2400, true);
    assert!(full.len() > 140, "{full:?}");
    for _ in 0..6 {
        idle(&mut fs);
    }
    assert_eq!(idle(&mut fs), (0, 0));
}

/// A block with a lost page cannot be won, but when all that is in it has been removed, and it is
/// written anew. To the end of the session cleaning would pass it over, and its room be gone.
#[test]
fn a_block_that_lost_its_lost_page_is_cleaned_again() {
    let mut fs = formatted(chip(1024, 64, 16, 64));
    let root = fs.root();
    let large = file(&mut fs, root, b"large", 100 << 10);
    assert!(thin_out(&mut fs, large, 100, true).len() > 4);
    idle(&mut fs);
    fs.unlink(root, b"large", NOW).unwrap();
    fs.sync().unwrap();
    for n in 0..12 {
        let name = [b'a' + n];
        let other = file(&mut fs, root, &name, 320 << 10);
        thin_out(&mut fs, other, 320, false);
        idle(&mut fs);
        let left = data_blocks(&mut fs, 1..=5);
        assert!(left.len() <= 2, "{n}: {left:?} are open or not cleaned");
        fs.unlink(root, &name, NOW).unwrap();
        fs.sync().unwrap();
    }
}

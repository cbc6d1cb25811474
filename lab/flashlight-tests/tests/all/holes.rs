//! Holes of FlashLight: what they cost in flash operations, exactly, and what they leave.

use crate::common::{
    Fs, LATER, NOW, chip, clean, cost, cut, formatted, mount, of_paper, on_preset, remount,
};
use flashkit_sim::{Metered, Rng, SimNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr};

/// A file whose pages from `first` on, every `step`, are written.
fn file(fs: &mut Fs, name: &[u8], pages: u64, step: u64) -> Ino {
    let root = fs.root();
    let ino = fs.create(root, name, &NewInode::default()).unwrap().ino;
    for page in 0..pages {
        fs.write(ino, page * step * 2048, &[0x5a; 2048], NOW)
            .unwrap();
    }
    fs.fsync(ino).unwrap();
    ino
}

/// Free pages, with all that has ended told to the block table.
fn free(fs: &mut Fs) -> u64 {
    fs.sync().unwrap();
    fs.statfs().unwrap().blocks_free
}

#[test]
fn whole_pages_of_one_extent_cost_nothing_until_the_fsync() {
    let mut fs = of_paper();
    let a = file(&mut fs, b"a", 100, 1);
    let before = free(&mut fs);
    let punched = cost(&mut fs, |fs| {
        fs.punch_hole(a, 10 * 2048, 80 * 2048, LATER).unwrap();
    });
    assert_eq!(punched, (0, 0));
    assert_eq!(cost(&mut fs, |fs| fs.fsync(a).unwrap()), (0, 1));
    assert_eq!(free(&mut fs), before + 80);
    let attr = fs.getattr(a).unwrap();
    assert_eq!((attr.size, attr.mtime, attr.ctime), (204_800, LATER, LATER));
    assert_eq!(fs.next_hole(a, 0), Ok(Some(20_480)));
    assert_eq!(fs.next_data(a, 20_480), Ok(Some(90 * 2048)));
    assert_eq!(fs.next_hole(a, 90 * 2048), Ok(Some(204_800)));
    assert_eq!(fs.next_data(a, 204_800), Ok(None));
    assert_eq!(fs.next_hole(a, 204_800), Ok(None));
    clean(&mut fs);
}

#[test]
fn a_part_of_a_page_is_a_read_and_a_program() {
    let mut fs = of_paper();
    let a = file(&mut fs, b"a", 4, 1);
    fs.sync().unwrap();
    fs.write(a, 0, &[1; 2048], NOW).unwrap();
    let part = cost(&mut fs, |fs| {
        fs.punch_hole(a, 3000, 100, LATER).unwrap();
    });
    assert_eq!(part, (1, 1));
    // Behind the end of the file there is nothing to keep.
    fs.write(a, 8192, &[1; 10], NOW).unwrap();
    let tail = cost(&mut fs, |fs| {
        fs.punch_hole(a, 4096, 1 << 40, LATER).unwrap();
    });
    assert_eq!(tail, (0, 0));
    let mut bytes = vec![0; 8202];
    assert_eq!(fs.read(a, 0, &mut bytes), Ok(8202));
    let zeros = |range: std::ops::Range<usize>| bytes[range].iter().all(|&b| b == 0);
    assert!(zeros(3000..3100) && zeros(4096..8202) && !bytes[..3000].contains(&0));
    // A hole in a hole, and beyond the end, is none.
    for (offset, len) in [(5000, 100), (8202, 1), (u64::MAX, 1), (0, 0)] {
        let nothing = cost(&mut fs, |fs| {
            fs.punch_hole(a, offset, len, LATER).unwrap();
        });
        assert_eq!(nothing, (0, 0), "{offset}");
    }
    clean(&mut fs);
}

#[test]
fn an_extent_map_is_a_read_and_a_program() {
    let mut fs = of_paper();
    // Extents of one page each, in several maps.
    let a = file(&mut fs, b"a", 1000, 2);
    let before = free(&mut fs);
    let one = cost(&mut fs, |fs| {
        fs.punch_hole(a, 40 * 2048, 4 * 2048, LATER).unwrap();
    });
    assert_eq!(one, (1, 1));
    fs.fsync(a).unwrap();
    assert_eq!(free(&mut fs), before + 2);
    fs.punch_hole(a, 100 * 2048, 1500 * 2048, LATER).unwrap();
    fs.fsync(a).unwrap();
    assert_eq!(free(&mut fs), before + 2 + 750);
    assert_eq!(fs.next_data(a, 100 * 2048), Ok(Some(1600 * 2048)));
    clean(&mut fs);
    // After an unclean stop as well.
    let mut fs = cut(fs);
    let root = fs.root();
    let a = fs.lookup(root, b"a").unwrap().ino;
    assert_eq!(free(&mut fs), before + 2 + 750);
    assert_eq!(fs.next_data(a, 100 * 2048), Ok(Some(1600 * 2048)));
    clean(&mut fs);
}

#[test]
fn bytes_in_the_inode_are_data() {
    let mut fs = of_paper();
    let root = fs.root();
    let a = fs.create(root, b"a", &NewInode::default()).unwrap().ino;
    fs.write(a, 10_000, &[1; 100], NOW).unwrap();
    assert_eq!(fs.next_data(a, 0), Ok(Some(8192)));
    assert_eq!(fs.next_hole(a, 9000), Ok(Some(10_100)));
    fs.punch_hole(a, 10_010, 20, NOW).unwrap();
    let mut bytes = vec![0; 100];
    fs.read(a, 10_000, &mut bytes).unwrap();
    assert!(bytes[10..30].iter().all(|&b| b == 0));
    assert!(bytes[..10].iter().chain(&bytes[30..]).all(|&b| b == 1));
    fs.punch_hole(a, 8192, 4096, NOW).unwrap();
    assert_eq!(fs.next_data(a, 0), Ok(None));
    clean(&mut fs);
}

#[test]
fn files_beyond_four_gibibytes() {
    let mut fs = on_preset("slc-8g");
    let root = fs.root();
    let a = fs.create(root, b"a", &NewInode::default()).unwrap().ino;
    let far = (4 << 30) + 12_345;
    fs.write(a, far, &[7; 5000], NOW).unwrap();
    fs.write(a, 100, &[8; 5000], NOW).unwrap();
    fs.fsync(a).unwrap();
    let mut fs = remount(fs);
    let a = fs.lookup(root, b"a").unwrap();
    assert_eq!(a.size, far + 5000);
    let mut bytes = vec![0; 6000];
    assert_eq!(fs.read(a.ino, far - 1000, &mut bytes), Ok(6000));
    assert!(bytes[..1000].iter().all(|&b| b == 0) && bytes[1000..].iter().all(|&b| b == 7));
    assert_eq!(fs.next_data(a.ino, 8192), Ok(Some(far / 2048 * 2048)));
    fs.punch_hole(a.ino, 4096, far, NOW).unwrap();
    assert_eq!(fs.read(a.ino, 0, &mut bytes), Ok(6000));
    assert_eq!(bytes[4095..4097], [8, 0]);
    let end = 2048 * (u64::from(u32::MAX) - 15);
    assert_eq!(fs.write(a.ino, end, &[1], NOW), Err(Error::TooBig));
    fs.write(a.ino, end - 1, &[1], NOW).unwrap();
    assert_eq!(fs.getattr(a.ino).unwrap().size, end);
    clean(&mut fs);
}

#[test]
fn a_special_file_has_no_contents() {
    let mut fs = of_paper();
    let root = fs.root();
    let made = |fs: &mut Fs, name: &[u8], kind, device| {
        fs.mknod(root, name, kind, device, &NewInode::default())
            .unwrap()
    };
    let kinds = [
        (FileKind::Fifo, 0),
        (FileKind::Socket, 0),
        (FileKind::Char, 0x103),
        (FileKind::Block, u32::MAX),
    ];
    for (i, (kind, device)) in kinds.into_iter().enumerate() {
        let name = [b'0' + i as u8];
        let attr = made(&mut fs, &name, kind, device);
        assert_eq!((attr.kind, attr.device, attr.size), (kind, device, 0));
        assert_eq!(fs.read(attr.ino, 0, &mut [0]), Err(Error::Invalid));
        assert_eq!(fs.write(attr.ino, 0, b"x", NOW), Err(Error::Invalid));
        assert_eq!(fs.punch_hole(attr.ino, 0, 1, NOW), Err(Error::Invalid));
        let cost = cost(&mut fs, |fs| fs.fsync(attr.ino).unwrap());
        assert!(cost.1 >= 1);
    }
    let mut fs = remount(fs);
    for (i, (kind, device)) in kinds.into_iter().enumerate() {
        let attr = fs.lookup(root, &[b'0' + i as u8]).unwrap();
        assert_eq!((attr.kind, attr.device), (kind, device));
    }
    clean(&mut fs);
}

/// A truncation that makes room in the inode first has not begun: a cut leaves the
/// file as it was, or truncated.
#[test]
fn a_truncation_is_seen_whole() {
    let mut written = 0;
    for (seed, pages) in (0..8).zip([6, 90].into_iter().cycle()) {
        let (mut fs, mut rng) = (formatted(chip(1024, 40, 8, 64)), Rng::new(seed));
        let root = fs.root();
        let ino = fs.create(root, b"f", &NewInode::default()).unwrap().ino;
        for round in 0..400 {
            for _ in 0..1 + rng.below(12) {
                let page = rng.below(pages) * 1024;
                let (offset, len) = match rng.below(2) {
                    0 => (page, 1024),
                    _ => (page + rng.below(600), 1 + rng.below(424) as usize),
                };
                fs.write(ino, offset, &vec![1 + round as u8 % 200; len], NOW)
                    .unwrap();
            }
            let programs = fs.volume().nand().counters().page_programs;
            let size = SetAttr {
                size: Some(match rng.below(4) {
                    0 => 0,
                    1 => 1024 * rng.below(pages),
                    _ => rng.below(pages * 900),
                }),
                ..SetAttr::default()
            };
            fs.setattr(ino, &size).unwrap();
            if fs.volume().nand().counters().page_programs > programs {
                written += 1;
                let mut cut = mount(fs.volume().nand().get::<SimNand>().clone());
                let found = check(cut.volume()).unwrap().findings;
                assert!(found.is_empty(), "seed {seed}, round {round}: {found:?}");
            }
        }
    }
    assert!(written > 100, "{written}");
}

/// A piece of a page in a hole, that the inode holds and that is synced, gets a page of its own
/// when another piece is written: the room for that may be made by writing the inode. Whenever the
/// power goes then, the piece is there.
#[test]
fn a_synced_piece_is_there_while_it_gets_a_page_of_its_own() {
    const PAGE: u64 = 1024;
    for (extents, overwritten) in (30..50).flat_map(|n| (10..56).map(move |k| (n, k))) {
        let mut fs = formatted(chip(PAGE as u32, 24, 64, 100));
        let root = fs.root();
        let ino = fs.create(root, b"f", &NewInode::default()).unwrap().ino;
        let write = |fs: &mut Fs, page: u64, data: &[u8]| {
            fs.write(ino, page * PAGE, data, NOW).unwrap();
        };
        for n in 0..extents {
            write(&mut fs, 2 * n, &[7; PAGE as usize]);
        }
        write(&mut fs, 1000, b"synced");
        fs.fsync(ino).unwrap();
        for n in 0..overwritten {
            write(&mut fs, n * 7 % extents * 2, &[8; PAGE as usize]);
        }
        write(&mut fs, 501, b"other");
        let mut fs = cut(fs);
        let ino = fs.lookup(root, b"f").unwrap().ino;
        let mut found = [0; 6];
        fs.read(ino, 1000 * PAGE, &mut found).unwrap();
        assert_eq!(
            &found, b"synced",
            "{extents} extents, {overwritten} overwritten"
        );
    }
}

/// What `stat` says is stored of a file in many pieces, page by page.
fn stored(fs: &mut Fs, ino: Ino) -> u64 {
    let (mut at, mut pages) = (0, 0);
    while let Some(data) = fs.next_data(ino, at).unwrap() {
        at = fs.next_hole(ino, data).unwrap().unwrap();
        pages += at.div_ceil(2048) - data / 2048;
    }
    pages * 4
}

#[test]
fn the_holes_of_a_file_in_many_pieces_do_not_count_as_stored() {
    let mut fs = of_paper();
    fs.count_blocks();
    // More pieces than the inode has place for.
    let a = file(&mut fs, b"a", 1_000, 3);
    fs.sync().unwrap();
    let blocks = |fs: &mut Fs| fs.getattr(a).unwrap().blocks;
    assert_eq!(blocks(&mut fs), 4_000);
    let mut fs = remount(fs);
    fs.count_blocks();
    let root = fs.root();
    let (reads, _) = cost(&mut fs, |fs| {
        assert_eq!(fs.lookup(root, b"a").unwrap().blocks, 4_000);
    });
    assert!((6..20).contains(&reads), "{reads}");
    // It is counted once.
    let (reads, _) = cost(&mut fs, |fs| assert_eq!(blocks(fs), 4_000));
    assert_eq!(reads, 0);
    let mut rng = Rng::new(11);
    for step in 0..400 {
        let at = rng.below(3_000) * 2048 + rng.below(3) * 100;
        match rng.below(8) {
            0 => fs.punch_hole(a, at, rng.below(9) * 1024, NOW).unwrap(),
            1 => {
                let set = SetAttr {
                    size: Some(at + 1_500 * 2048),
                    ..SetAttr::default()
                };
                fs.setattr(a, &set).unwrap();
            }
            _ => fs.write(a, at, &[1; 3000], NOW).unwrap(),
        }
        if rng.one_in(3) {
            let (is, counted) = (blocks(&mut fs), stored(&mut fs, a));
            assert!(is.abs_diff(counted) <= 3, "step {step}: {is}, {counted}");
        }
    }
    clean(&mut fs);
}

#[test]
fn a_file_without_holes_is_counted_once() {
    let mut fs = of_paper();
    fs.count_blocks();
    let a = file(&mut fs, b"a", 3_000, 1);
    for page in (0..3_000).step_by(2) {
        fs.write(a, page * 2048, &[2; 2048], NOW).unwrap();
    }
    fs.sync().unwrap();
    assert_eq!(fs.getattr(a).unwrap().blocks, 12_000);
    for page in 0..100 {
        fs.write(a, 3_000 * 2048 + page * 1000, &[3; 1000], NOW)
            .unwrap();
        let (reads, _) = cost(&mut fs, |fs| {
            let attr = fs.getattr(a).unwrap();
            assert_eq!(attr.blocks, attr.size.div_ceil(512));
        });
        assert_eq!(reads, 0, "{page}");
    }
}

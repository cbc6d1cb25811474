//! Remapping: what it saves, and that no hint, however wrong, changes what is read.

use crate::common::Setup;
use crate::common::ext::{
    self, BLOCK, Features, IN_BAND, JOURNAL, SETUP, SMALL, WATCHED, descriptor, image,
    journal_block, le32, made, table,
};
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{CutError, Metered, PowerCut, Rng, SimNand, preset};

/// A table that is too short for a journal is borne: nothing is followed.
#[test]
fn a_table_without_room_for_a_sector_follows_nothing() {
    for len in [0, 4, 511] {
        let (mut ram, mut table) = (SETUP.ram(), vec![0; len]);
        let mut disk = Jftl::mount(made(&SETUP, Features::default()), &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.write(0, &image(Features::default())).unwrap();
        disk.flush().unwrap();
        assert!(matches!(disk.journal(), JournalState::None(_)), "{len}");
    }
}

#[test]
fn a_home_written_like_its_journal_is_not_programmed() {
    let (wide, v2, v3) = (true, true, true);
    let kinds = [
        Features::default(),
        Features {
            wide,
            ..Features::default()
        },
        Features {
            v2,
            ..Features::default()
        },
        Features {
            wide,
            v2,
            ..Features::default()
        },
        Features {
            wide,
            v3,
            ..Features::default()
        },
        Features {
            wide,
            v3,
            fast: true,
            ..Features::default()
        },
    ];
    for setup in [SETUP, SMALL, IN_BAND] {
        for features in kinds {
            let (mut ram, mut table) = (setup.ram(), table());
            let mut disk = Jftl::mount(made(&setup, features), &mut ram).unwrap();
            disk.watch_journal(&mut table);
            assert_eq!(disk.journal(), WATCHED);
            // Behind the last block of the log the first one follows.
            let last = if features.fast { JOURNAL - 8 } else { JOURNAL } - 1;
            let (at, homes) = (last - 1, [200, 300, 201]);
            let contents: Vec<Vec<u8>> = (0..3).map(|i| vec![i + 1; BLOCK]).collect();
            ext::write(
                &mut disk,
                journal_block(at),
                &descriptor(features, 5, &homes),
            );
            for (index, bytes) in [last, 1, 2].into_iter().zip(&contents) {
                ext::write(&mut disk, journal_block(index), bytes);
            }
            disk.flush().unwrap();
            let before = disk.nand().counters();
            for (home, bytes) in homes.into_iter().zip(&contents) {
                ext::write(&mut disk, home, bytes);
            }
            let spent = disk.nand().counters() - before;
            assert_eq!(disk.stats().elided, 6, "{features:?} {}", setup.name);
            if setup.cache == MapCache::Whole {
                assert_eq!(spent.page_programs, 0);
            }
            assert_eq!(disk.shared_pages(), Ok(6));
            // One byte differs, and the home is written.
            let mut other = contents[0].clone();
            other[700] ^= 1;
            ext::write(&mut disk, homes[0], &other);
            assert_eq!(disk.stats().elided, 7);
            // The journal goes on over itself; the homes stay.
            for index in 1..JOURNAL {
                ext::write(&mut disk, journal_block(index), &[0x77; BLOCK]);
            }
            disk.flush().unwrap();
            let mut ram = setup.ram();
            let mut disk = Jftl::mount(disk.into_nand(), &mut ram).unwrap();
            for (home, bytes) in homes.into_iter().zip([&other, &contents[1], &contents[2]]) {
                let mut read = vec![0; BLOCK];
                disk.read(home * 2, &mut read).unwrap();
                assert_eq!(&read, bytes);
            }
            disk.check().unwrap();
        }
    }
}

/// Sectors of the journal that are as in the newest copy of their home share its page, whose owners
/// may leave in any order; sectors of zeros have no page.
#[test]
fn what_is_journalled_again_unchanged_is_not_programmed() {
    let features = Features::default();
    for setup in [SETUP, SMALL, IN_BAND] {
        for (copies, read) in [(0, 1), (64 * 524, 0)] {
            let (mut ram, mut table) = (setup.ram(), table());
            let (mut sums, mut copies) = (vec![0xA5; 4 * 2000], vec![0xA5; copies]);
            let mut disk = Jftl::mount(made(&setup, features), &mut ram).unwrap();
            disk.watch_journal(&mut table);
            disk.remember(&mut sums, &mut copies);
            let halves = |a: u8, b: u8| [[a; 512], [b; 512]].concat();
            let spent = |disk: &mut Jftl<'_, SimNand>, block, bytes: &[u8]| {
                let before = disk.nand().counters();
                ext::write(disk, block, bytes);
                let spent = disk.nand().counters() - before;
                (spent.page_programs, spent.page_reads)
            };
            let whole = setup.cache == MapCache::Whole;
            let expect = |disk: &mut Jftl<'_, SimNand>, block, bytes: &[u8], cost| {
                let spent = spent(disk, block, bytes);
                assert!(
                    !whole || spent == cost,
                    "{spent:?}, not {cost:?}, {}",
                    setup.name
                );
            };
            let describe = |disk: &mut Jftl<'_, SimNand>, at| {
                let log = descriptor(features, at, &[200]);
                ext::write(disk, journal_block(at), &log);
                at + 1
            };
            let at = describe(&mut disk, 3);
            expect(&mut disk, journal_block(at), &halves(1, 2), (2, 0));
            // The second half stays.
            let at = describe(&mut disk, 5);
            expect(&mut disk, journal_block(at), &halves(3, 2), (1, read));
            expect(&mut disk, 200, &halves(3, 2), (0, 2 * read));
            // Nothing changes; the home is compared with, whose page is known from before.
            let at = describe(&mut disk, 7);
            expect(&mut disk, journal_block(at), &halves(3, 2), (0, 2 * read));
            let at = describe(&mut disk, 9);
            expect(&mut disk, journal_block(at), &halves(0, 2), (0, read));
            let stats = disk.stats();
            assert_eq!((stats.elided, stats.unchanged), (2, 4));
            // Zeros have no page, unless that is asked for.
            let zeros = [0; BLOCK];
            expect(&mut disk, 300, &zeros, (0, 0));
            disk.program_zeros(true);
            expect(&mut disk, 300, &zeros, (2, 0));
            disk.program_zeros(false);
            expect(&mut disk, 300, &zeros, (0, 0));
            disk.check().unwrap();
            // The owners that the tags name go first.
            ext::write(&mut disk, journal_block(4), &[8; BLOCK]);
            ext::write(&mut disk, journal_block(6), &[8; BLOCK]);
            ext::write(&mut disk, 200, &[9; BLOCK]);
            let mut rng = Rng::new(5);
            for sector in
                (400..disk.sector_count()).chain((0..6_000).map(|_| 400 + rng.below(500) as u32))
            {
                disk.write(sector, &[sector as u8 | 8; 512]).unwrap();
            }
            assert!(disk.stats().copies > 100, "{:?}", disk.stats());
            disk.check().unwrap();
            disk.flush().unwrap();
            let mut ram = setup.ram();
            let mut disk = Jftl::mount(disk.into_nand(), &mut ram).unwrap();
            for (index, bytes) in [(8, halves(3, 2)), (10, halves(0, 2))] {
                let mut read = vec![0; BLOCK];
                disk.read(journal_block(index) * 2, &mut read).unwrap();
                assert_eq!(read, bytes, "{}", setup.name);
            }
            disk.check().unwrap();
        }
    }
}

/// After a cut the hints are gone; the kernel's recovery reads the log, and they come back.
#[test]
fn a_recovery_is_elided_too() {
    let features = Features::default();
    let (mut ram, mut table) = (SETUP.ram(), table());
    let mut disk = Jftl::mount(made(&SETUP, features), &mut ram).unwrap();
    disk.watch_journal(&mut table);
    let homes = [200, 201];
    ext::write(
        &mut disk,
        journal_block(3),
        &descriptor(features, 9, &homes),
    );
    ext::write(&mut disk, journal_block(4), &[4; BLOCK]);
    ext::write(&mut disk, journal_block(5), &[5; BLOCK]);
    disk.flush().unwrap();
    let (mut ram, mut table) = (SETUP.ram(), ext::table());
    let mut disk = Jftl::mount(disk.into_nand(), &mut ram).unwrap();
    disk.watch_journal(&mut table);
    for index in 1..JOURNAL {
        disk.read(journal_block(index) * 2, &mut [0; BLOCK])
            .unwrap();
    }
    ext::write(&mut disk, 200, &[4; BLOCK]);
    ext::write(&mut disk, 201, &[5; BLOCK]);
    assert_eq!(disk.stats().elided, 4);
}

/// Reading the map fails while it is asked what is shared; what is known of the journal stays.
#[test]
fn a_failed_read_does_not_end_the_following_of_a_journal() {
    let features = Features::default();
    let (mut ram, mut table) = (SMALL.ram(), table());
    let nand = PowerCut::never(made(&SMALL, features));
    let mut disk = Jftl::mount(nand, &mut ram).unwrap();
    disk.watch_journal(&mut table);
    ext::write(
        &mut disk,
        journal_block(3),
        &descriptor(features, 9, &[200]),
    );
    // Pushes the journal's piece of the map out of the cache.
    for sector in (512..disk.sector_count()).step_by(128) {
        disk.write(sector, &[1; 512]).unwrap();
    }
    disk.nand_mut().cut_now();
    let failed = disk.shared_pages();
    assert_eq!(failed, Err(Error::Flash(CutError::PowerOff)));
    assert_eq!(disk.journal(), WATCHED);
}

/// The pieces of a journal that turns out not to be sound have replaced those of the one before.
#[test]
fn a_journal_that_is_lost_on_the_way_is_not_asked_for() {
    let (mut ram, mut table) = (SETUP.ram(), table());
    let mut disk = Jftl::mount(made(&SETUP, Features::default()), &mut ram).unwrap();
    disk.watch_journal(&mut table);
    let log = descriptor(Features::default(), 9, &[200]);
    ext::write(&mut disk, journal_block(3), &log);
    let mut image = image(Features::default());
    le32(&mut image, 40 * BLOCK + 4, 0x7FFF_FFFF);
    ext::write(&mut disk, 40, &image[40 * BLOCK..41 * BLOCK]);
    // Something else, so that it is looked for again.
    le32(&mut image, BLOCK + 0x60, 0x40);
    ext::write(&mut disk, 1, &image[BLOCK..2 * BLOCK]);
    disk.flush().unwrap();
    let why = "the superblock is not sound";
    assert_eq!(disk.journal(), JournalState::None(why));
    assert_eq!(disk.shared_pages(), Ok(0));
}

/// More homes of one page than a block's count goes to: each keeps what it holds.
#[test]
fn a_page_may_have_any_number_of_homes() {
    for setup in [SETUP, SMALL, IN_BAND] {
        let (mut ram, mut again) = (setup.ram(), setup.ram());
        let mut disk = Jftl::mount(setup.formatted(), &mut ram).unwrap();
        disk.write_for(1, 100, &[7; 512]).unwrap();
        let pairs: Vec<(u32, u32)> = (100..400).map(|home| (home, 1)).collect();
        disk.remap(&pairs, &[]).unwrap();
        disk.check().unwrap();
        let mut rng = Rng::new(3);
        for round in 0..4_000 {
            // All homes but twenty are written again, and then the rest of the disk.
            let sector = match round {
                0..280 => 100 + round,
                _ => 400 + rng.below(u64::from(disk.sector_count()) - 400) as u32,
            };
            disk.write(sector, &[8; 512]).unwrap();
        }
        disk.flush().unwrap();
        let mut disk = Jftl::mount(disk.into_nand(), &mut again).unwrap();
        for home in 380..400 {
            let mut read = [0; 512];
            disk.read(home, &mut read).unwrap();
            assert_eq!(read, [7; 512], "{} {home}", setup.name);
        }
        disk.check().unwrap();
    }
}

/// The most that one transaction takes is whole wherever the log stands; one pair more is refused,
/// and the disk goes on. Without a limit the log was full in the middle, and no write came after.
/// So it was with free blocks on a full disk, where each home pushed a piece of the map out of RAM.
#[test]
fn a_transaction_that_the_log_cannot_hold_is_refused_before_anything_changes() {
    for setup in [SETUP, SMALL, IN_BAND] {
        let (mut ram, mut again) = (setup.ram(), setup.ram());
        let mut disk = Jftl::mount(setup.formatted(), &mut ram).unwrap();
        let (most, homes) = (
            disk.remap_max() as usize,
            disk.sector_count() as usize - 100,
        );
        // No two in a row share a record, or are in the same piece of the map.
        let pairs = |n: usize| -> Vec<(u32, u32)> {
            let pair = |i: usize| (100 + (i * 131 % homes) as u32, (i % 96) as u32);
            (0..n).map(pair).collect()
        };
        for sector in 0..disk.sector_count() {
            disk.write(sector, &[1; 512]).unwrap();
        }
        for round in 0..24u8 {
            disk.write(0, &[round | 0x80; 512 * 96]).unwrap();
            for (n, gone) in [(16 * most, 0), (most + 1, 0), (most, 1)] {
                let refused = disk.remap(&pairs(n), &[(99, gone)]);
                assert_eq!(refused, Err(Error::Full), "{} {round}", setup.name);
                assert_eq!(disk.write(98, &[1; 512]), Ok(()), "{} {round}", setup.name);
            }
            disk.remap(&pairs(most), &[]).unwrap();
            disk.check().unwrap();
            // The log stands elsewhere in each round.
            for sector in 0..u32::from(round) * 7 % 40 {
                let sector = 100 + homes as u32 - 1 - sector;
                disk.write(sector, &[1; 512]).unwrap();
                disk.flush().unwrap();
            }
        }
        let mut disk = Jftl::mount(disk.into_nand(), &mut again).unwrap();
        disk.check().unwrap();
        let mut read = [0; 512];
        disk.read(100, &mut read).unwrap();
        assert_eq!(read, [0x97; 512], "{}", setup.name);
    }
}

/// The paper's measure (Table II): a full journal of 4 MB, remapped through the explicit interface.
#[test]
fn a_full_journal_is_remapped_in_little_time() {
    let mut chip = SimNand::new(preset("small-256m").unwrap());
    let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
    Jftl::format(&mut chip, &mut ram, 1).unwrap();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    // 4,096 blocks of 1 KiB; one in 125 is a descriptor of the others.
    let journal = 100_000;
    let mut pairs = Vec::new();
    let mut rng = Rng::new(1);
    for block in 0..4096 {
        if block % 125 == 0 {
            disk.write(journal + 2 * block, &[0xC0; 1024]).unwrap();
            continue;
        }
        let home = 2 * rng.below(40_000) as u32;
        for i in 0..2 {
            let at = journal + 2 * block + i;
            disk.write_for(at, home + i, &[block as u8; 512]).unwrap();
            pairs.push((home + i, at));
        }
    }
    disk.flush().unwrap();
    // The power fails, and a recovery reads the descriptors and remaps.
    let mut ram = vec![0; ram_bytes(&disk.nand().geometry(), MapCache::Whole).unwrap()];
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let before = disk.nand().counters();
    for block in (0..4096).step_by(125) {
        disk.read(journal + 2 * block, &mut [0; 1024]).unwrap();
    }
    disk.remap(&pairs, &[]).unwrap();
    let spent = disk.nand().counters() - before;
    println!("{} pairs: {spent:?}", pairs.len());
    assert_eq!(spent.page_reads, 66);
    assert!(spent.time_ns <= 32_000_000, "{spent:?}");
    // Cleaning finds both owners by the tags.
    let mut newest = std::collections::HashMap::new();
    newest.extend(pairs.iter().copied());
    let mut rng = Rng::new(2);
    let filler = 110_000;
    for _ in 0..600_000 {
        let sector = filler + rng.below(370_000) as u32;
        disk.write(sector, &[9; 512]).unwrap();
    }
    assert!(disk.stats().copies > 10_000 && disk.stats().searches == 0);
    for (home, at) in newest {
        let (mut a, mut b) = ([0; 512], [1; 512]);
        disk.read(home, &mut a).unwrap();
        disk.read(at, &mut b).unwrap();
        assert_eq!(a, b);
    }
}

/// What stands before the file system: nothing, or a partition table.
fn refused(setup: &Setup, change: impl FnOnce(&mut Vec<u8>)) -> JournalState {
    let mut bytes = image(Features::default());
    change(&mut bytes);
    let page = setup.page as usize;
    bytes.resize(bytes.len().next_multiple_of(page), 0);
    let mut chip = setup.formatted();
    let mut ram = setup.ram();
    let (mut ram_again, mut table) = (setup.ram(), vec![0; page + 4 * JOURNAL as usize + 8 * 4]);
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    disk.write(0, &bytes).unwrap();
    disk.flush().unwrap();
    let mut disk = Jftl::mount(&mut chip, &mut ram_again).unwrap();
    disk.watch_journal(&mut table);
    let state = disk.journal();
    // Plain translation works on.
    disk.write(9, &vec![3; 4 * page]).unwrap();
    disk.flush().unwrap();
    let mut read = vec![0; 4 * page];
    disk.read(9, &mut read).unwrap();
    assert_eq!(read, vec![3; 4 * page]);
    state
}

/// Moves the file system behind a table with one partition, from this unit of 512 bytes on.
fn in_partition(bytes: &mut Vec<u8>, start: u32) {
    let mut moved = vec![0; start as usize * 512];
    moved[446 + 4] = 0x83;
    le32(&mut moved, 446 + 8, start);
    moved[510..512].copy_from_slice(&[0x55, 0xAA]);
    moved.extend_from_slice(bytes);
    *bytes = moved;
}

#[test]
fn what_is_no_journal_to_follow_is_told_of() {
    const SB: usize = 1024;
    let none = |state, why: &str| match state {
        JournalState::None(told) => assert_eq!(told, why),
        other => panic!("{other:?}, not {why}"),
    };
    let on = |change: &dyn Fn(&mut Vec<u8>)| refused(&SETUP, |bytes| change(bytes));
    assert_eq!(on(&|_| {}), WATCHED);
    assert_eq!(on(&|b| in_partition(b, 8)), WATCHED);
    assert_eq!(on(&|b| in_partition(b, 7)), WATCHED);
    let gpt = |b: &mut Vec<u8>| {
        in_partition(b, 40);
        b[446 + 4] = 0xEE;
        b[512..520].copy_from_slice(b"EFI PART");
        le32(b, 512 + 72, 2);
        le32(b, 512 + 80, 4);
        le32(b, 512 + 84, 128);
        le32(b, 1024 + 32, 40);
    };
    assert_eq!(on(&gpt), WATCHED);
    none(on(&|b| b.fill(0)), "there is no ext3 or ext4 file system");
    none(on(&|b| b[SB + 0x5C] = 0), "the file system has no journal");
    let external = "the journal is on another device";
    none(on(&|b| b[SB + 0x60] = 8), external);
    none(
        on(&|b| {
            le32(b, SB + 0xE0, 0);
            le32(b, SB + 0xE4, 0x801);
        }),
        external,
    );
    let larger = "the journal is larger than the table for it";
    none(on(&|b| le32(b, 5 * BLOCK + 7 * 128 + 4, 80 << 10)), larger);
    let pieces = "the journal is in more pieces than the table has room for";
    none(on(&|b| le32(b, 5 * BLOCK + 7 * 128 + 4, 71 << 10)), pieces);
    none(on(&|b| le32(b, 5 * BLOCK + 7 * 128 + 4, u32::MAX)), larger);
    let lies = "the superblock is not sound";
    none(on(&|b| le32(b, SB + 0x28, 4)), lies);
    none(on(&|b| le32(b, 2 * BLOCK + 8, u32::MAX)), lies);
    none(on(&|b| le32(b, 40 * BLOCK, 0x7FFF_FFFF)), lies);
    let shape = "the journal's inode is not sound";
    none(on(&|b| le32(b, 5 * BLOCK + 7 * 128 + 0x28, 0)), shape);
    none(on(&|b| le32(b, 5 * BLOCK + 7 * 128 + 4, 0)), shape);
    let corrupt = "the journal's superblock is not sound";
    none(on(&|b| b[20 * BLOCK] = 0), corrupt);
    none(on(&|b| le32(b, 20 * BLOCK + 20, 0)), corrupt);
    // On larger pages a partition may begin within one, and a block be smaller.
    let large = Setup {
        page: 2048,
        spare: 40,
        blocks: 120,
        ..SETUP
    };
    none(
        refused(&large, |b| in_partition(b, 7)),
        "the partition is not aligned to the sectors",
    );
    none(
        refused(&large, |_| {}),
        "the file system's blocks are smaller than the sectors (`mkfs.ext4 -b 4096` makes larger ones)",
    );
}

/// Anything at all for a file system: no panic, and nothing is lost.
#[test]
fn random_damage_to_the_file_system_is_borne() {
    let mut rng = Rng::new(11);
    for round in 0..300 {
        let flips: Vec<(usize, u8)> = (0..1 + rng.below(6))
            .map(|_| {
                let places = [1024, 2 * BLOCK, 5 * BLOCK + 7 * 128, 20 * BLOCK, 40 * BLOCK];
                let at = places[rng.below(5) as usize] + rng.below(0x110) as usize;
                (at, 1 << rng.below(8))
            })
            .collect();
        let state = refused(&SETUP, |bytes| {
            flips.iter().for_each(|(at, flip)| bytes[*at] ^= flip);
        });
        assert_ne!(state, JournalState::Off, "round {round}");
    }
}

/// On small blocks a record's run goes over three of them. The one in the middle holds data too,
/// also where no map page says so yet: a recovery took it for free, and for the log.
#[test]
fn a_block_in_the_middle_of_a_run_is_not_free() {
    let whole = Setup {
        name: "small blocks",
        pages: 8,
        blocks: 72,
        ..SETUP
    };
    let cache = MapCache::Pieces(4);
    for setup in [whole, Setup { cache, ..whole }] {
        for seed in [13, 15, 24] {
            let (mut ram, mut rng) = (setup.ram(), Rng::new(seed));
            let mut disk = Jftl::mount(setup.formatted(), &mut ram).unwrap();
            let others = disk.sector_count() - 260;
            for round in 0..310 {
                // More homes of one page than a count goes to, so that
                // there are copies side by side.
                let (set, journal) = (128 * rng.below(2) as u32, 256 + round % 4);
                let bytes = [round as u8 | 1; 512];
                disk.write_for(journal, set, &bytes).unwrap();
                let first = set + rng.below(60) as u32;
                let homes = first..first + 20 + rng.below(48) as u32;
                let pairs: Vec<_> = homes.map(|home| (home, journal)).collect();
                disk.remap(&pairs, &[]).unwrap();
                for _ in 0..rng.below(6) {
                    let sector = 260 + rng.below(u64::from(others)) as u32;
                    disk.write(sector, &bytes).unwrap();
                }
                if round % 3 == 0 {
                    let mut ram = setup.ram();
                    let mut again = Jftl::mount(disk.nand().clone(), &mut ram).unwrap();
                    let checked = again.check();
                    assert_eq!(checked, Ok(()), "{:?} {seed} {round}", setup.cache);
                }
            }
        }
    }
}

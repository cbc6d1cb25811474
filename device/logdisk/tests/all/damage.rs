//! Bad input: each is told by name, nothing panics, and no sector shows another's data.

use crate::common::{
    self, BANKS, Chip, Model, Op, SECTOR, SEGMENTS, SHAPE, content, crc32, formatted, ram, run,
    script,
};
use flashkit_logdisk::{Config, Error, LogDisk, Shape, Step, ram_bytes};
use flashkit_nor::{BankedNorFlash, EraseStatus, NorFlash, OneBank, ReadNorFlash};
use flashkit_sim::Rng;
use flashkit_sim::nor::{SimNor, SimNorError};

fn config() -> Config {
    common::configs()[2].1
}

/// A disk in use.
fn used() -> Chip {
    let mut ram = ram(&config());
    let mut disk = LogDisk::mount(formatted(), config(), &mut ram).unwrap();
    run(&mut disk, &mut Model::new(), &script(1, 45, 80)).unwrap();
    disk.finish_erases().unwrap();
    disk.into_flash()
}

fn mount_error(chip: Chip) -> Error<SimNorError> {
    match LogDisk::mount(chip, config(), &mut ram(&config())) {
        Ok(_) => panic!("mounted"),
        Err(error) => error,
    }
}

type Findings = Vec<Error<SimNorError>>;

/// Mounts a damaged disk: it is there for reading, with what is damaged told, and nothing written.
/// Gives what is told, and what each sector reads as.
fn damaged(mut chip: Chip) -> (Findings, Vec<Option<[u8; SECTOR]>>) {
    let before = chip.counters();
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(&mut chip, config(), &mut memory).unwrap();
    let damage = disk.damage().expect("damage");
    assert!(damage.to_string().starts_with("damaged headers "));
    let mut findings = Vec::new();
    disk.each_damage(|finding| findings.push(finding)).unwrap();
    let lost = findings.iter().filter(|f| matches!(f, Error::Lost { .. }));
    assert_eq!(damage.lost as usize, lost.count());
    let mut sectors = Vec::new();
    for sector in 0..SHAPE.sectors {
        let mut bytes = [0; SECTOR];
        let read = disk.read(sector, &mut bytes);
        assert!(matches!(read, Ok(()) | Err(Error::Lost { .. })), "{read:?}");
        if read.is_err() {
            assert_eq!(read, Err(Error::Lost { sector }));
        }
        sectors.push(read.is_ok().then_some(bytes));
    }
    // No call changes anything, and those that clean or wait have nothing to do.
    assert_eq!(disk.write(0, &[0; SECTOR]), Err(Error::Damaged));
    assert_eq!(disk.trim(0, 1), Err(Error::Damaged));
    assert_eq!(disk.check(), Err(Error::Damaged));
    assert_eq!((disk.flush(), disk.finish_erases()), (Ok(()), Ok(())));
    assert_eq!(
        (disk.clean_step(), disk.clean_now()),
        (Ok(Step::Idle), Ok(Step::Idle))
    );
    let cost = chip.counters() - before;
    assert_eq!(
        (cost.word_programs, cost.erases),
        (0, 0),
        "nothing was written"
    );
    (findings, sectors)
}

/// What the sectors of [`used`] hold, and where.
fn contents(chip: &Chip) -> Vec<([u8; SECTOR], Option<u32>)> {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip.clone(), config(), &mut memory).unwrap();
    let sectors = (0..SHAPE.sectors).map(|sector| {
        let mut bytes = [0; SECTOR];
        disk.read(sector, &mut bytes).unwrap();
        (bytes, disk.segment_of_sector(sector))
    });
    sectors.collect()
}

#[test]
fn wrong_magic() {
    let blank = Chip::new(common::spec());
    assert_eq!(mount_error(blank), Error::Magic { segment: 0 });
    // A segment without its magic gives all it has.
    let mut chip = used();
    let held = contents(&chip);
    chip.corrupt(5 * 4096, |_| 0x4D);
    let (findings, sectors) = damaged(chip);
    assert_eq!(findings, [Error::Magic { segment: 5 }]);
    for ((bytes, _), read) in held.iter().zip(sectors) {
        assert_eq!(read, Some(*bytes));
    }
    let text = Error::<SimNorError>::Magic { segment: 5 }.to_string();
    assert_eq!(text, "segment 5 has no log disk's magic number");
}

#[test]
fn damaged_header_and_other_volume() {
    let mut chip = used();
    let held = contents(&chip);
    chip.corrupt(3 * 4096 + 24, |byte| byte ^ 1);
    let (findings, sectors) = damaged(chip);
    assert_eq!(findings, [Error::Header { segment: 3 }]);
    for ((bytes, _), read) in held.iter().zip(sectors) {
        assert_eq!(read, Some(*bytes));
    }

    // A format that ended after some segments.
    let mut chip = used();
    let mut other = Chip::new(common::spec());
    LogDisk::format(&mut other, &SHAPE, 8).unwrap();
    let mut bytes = [0; 4096];
    other.read(4 * 4096, &mut bytes).unwrap();
    chip.erase(4 * 4096, 5 * 4096).unwrap();
    chip.write(4 * 4096, &bytes[..32]).unwrap();
    let (findings, sectors) = damaged(chip);
    assert_eq!(findings, [Error::Volume { segment: 4 }]);
    // What the erase has taken is not read as zeros, nor is any other that holds nothing.
    for ((bytes, segment), read) in held.iter().zip(sectors) {
        let kept = segment.is_some_and(|segment| segment != 4);
        assert_eq!(read, kept.then_some(*bytes));
    }
}

#[test]
fn other_geometry() {
    // The same bytes on a chip with one bank.
    let mut memory = vec![0; 9_000];
    let error = LogDisk::mount(OneBank::new(used()), config(), &mut memory);
    let expected = Error::Geometry {
        what: "banks",
        found: 3,
        expected: 1,
    };
    assert_eq!(error.err(), Some(expected));
    // Segments in each other's place.
    let (mut from, mut to) = (used(), used());
    let mut bytes = [0; 4096];
    from.read(0, &mut bytes).unwrap();
    to.erase(4096, 8192).unwrap();
    to.write(4096, &bytes).unwrap();
    let expected = Error::Geometry {
        what: "number of the segment",
        found: 0,
        expected: 1,
    };
    assert_eq!(damaged(to).0[0], expected);

    let mut chip = Chip::new(common::spec());
    for (sector_size, sectors) in [
        (0, 10),
        (500, 10),
        (256, 10),
        (1 << 17, 1),
        (512, 0),
        (512, 70),
    ] {
        let shape = Shape {
            sector_size,
            sectors,
        };
        let error = LogDisk::format(&mut chip, &shape, 1).unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{shape:?}: {error:?}");
    }
    assert_eq!(chip.counters().erases, 0);
}

#[test]
fn two_valid_copies() {
    let mut chip = formatted();
    let mut ram = ram(&config());
    let mut disk = LogDisk::mount(chip, config(), &mut ram).unwrap();
    disk.write(9, &content(9, 1)).unwrap();
    disk.write(9, &content(9, 2)).unwrap();
    chip = disk.into_flash();
    // The first block's invalid flag rots back.
    chip.corrupt(64 + 6, |_| 0xFF);
    let copies = Error::TwoCopies {
        sector: 9,
        first: 0,
        second: 1,
    };
    let (findings, sectors) = damaged(chip);
    assert_eq!(findings, [copies, Error::Lost { sector: 9 }]);
    // That one alone is lost; the others hold nothing.
    for (sector, read) in sectors.into_iter().enumerate() {
        assert_eq!(read, (sector != 9).then_some([0; SECTOR]));
    }
}

/// A damaged entry that still names its sector takes that one alone.
#[test]
fn a_damaged_entry_with_its_number() {
    let mut chip = formatted();
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
    for sector in 0..3 {
        disk.write(sector, &content(sector, 1)).unwrap();
    }
    chip = disk.into_flash();
    // *Pre-valid* of the second block rots back.
    let mut named = chip.clone();
    named.corrupt(64 + 8 + 5, |_| 0xFF);
    let (findings, sectors) = damaged(named);
    let (segment, block) = (0, 1);
    assert_eq!(
        findings,
        [Error::Entry { segment, block }, Error::Lost { sector: 1 }]
    );
    assert_eq!((sectors[1], sectors[2]), (None, Some(content(2, 1))));
    assert_eq!(sectors[3], Some([0; SECTOR]));
    // Its number rots: no sector that holds nothing is read as zeros.
    chip.corrupt(64 + 8, |byte| byte ^ 4);
    let (findings, sectors) = damaged(chip);
    assert_eq!(findings, [Error::Entry { segment, block }]);
    assert_eq!(
        (sectors[0], sectors[2]),
        (Some(content(0, 1)), Some(content(2, 1)))
    );
    assert_eq!((sectors[1], sectors[3]), (None, None));
}

#[test]
fn a_summary_with_random_bytes() {
    let mut rng = Rng::new(5);
    let (mut count, mut told) = (0, 0);
    for segment in 0..SEGMENTS {
        let mut chip = used();
        for at in 64..64 + 7 * 8 {
            let noise = rng.next_u64() as u8;
            chip.corrupt(segment * 4096 + at, |_| noise);
        }
        let before = contents(&used());
        let (findings, sectors) = damaged(chip);
        told += u32::from(matches!(findings[0], Error::Entry { segment: s, .. } if s == segment));
        count += 1;
        for ((bytes, home), read) in before.iter().zip(sectors) {
            if *home != Some(segment) && home.is_some() {
                assert_eq!(read, Some(*bytes), "segment {segment}");
            } else {
                // Lost, or an older copy that no longer counts as dead would be wrong.
                assert!(read.is_none_or(|read| read == *bytes), "segment {segment}");
            }
        }
    }
    assert_eq!(told, count);

    // One entry alone, many times: an error, or an entry that a cut could have left.
    let used = used();
    for seed in 0..1_500 {
        let mut rng = Rng::new(seed);
        let mut chip = used.clone();
        let (segment, entry) = (rng.below(12) as u32, rng.below(7) as u32);
        for at in 0..8 {
            let noise = rng.next_u64() as u8;
            let odd = rng.one_in(2);
            chip.corrupt(segment * 4096 + 64 + entry * 8 + at, |byte| {
                if odd { noise } else { byte }
            });
        }
        let mut memory = ram(&config());
        if let Ok(mut disk) = LogDisk::mount(chip, config(), &mut memory) {
            never_another_sectors(&mut disk, seed);
        }
    }
}

/// Each sector of a used disk says itself whose it is.
fn never_another_sectors(disk: &mut LogDisk<'_, Chip>, seed: u64) {
    for sector in 0..SHAPE.sectors {
        let mut bytes = [0; SECTOR];
        match disk.read(sector, &mut bytes) {
            Ok(()) => {}
            Err(Error::Lost { .. }) => continue,
            Err(error) => panic!("seed {seed}, sector {sector}: {error:?}"),
        }
        let version = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        assert_eq!(
            bytes,
            content(sector, version),
            "seed {seed}, sector {sector}"
        );
    }
}

/// Whatever the summaries say: an error, or a disk that works without a panic or an endless loop.
#[test]
fn random_summaries() {
    let used = used();
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut chip = used.clone();
        for _ in 0..1 + rng.below(40) {
            let at = rng.below(u64::from(SEGMENTS)) as u32 * 4096 + rng.below(120) as u32;
            let noise = rng.next_u64() as u8;
            chip.corrupt(at, |_| noise);
        }
        let mut memory = ram(&config());
        let Ok(mut disk) = LogDisk::mount(chip, config(), &mut memory) else {
            continue;
        };
        let _ = disk.check();
        for i in 0..60 {
            let sector = rng.below(50) as u32;
            match disk.write(sector, &content(sector, 500 + i)) {
                Ok(()) => assert_eq!(disk.damage(), None, "seed {seed}"),
                refused => {
                    assert_eq!(refused, Err(Error::Damaged), "seed {seed}");
                    assert!(disk.damage().is_some());
                }
            }
        }
    }
}

/// Anything anywhere, headers that check and say what is not so among them, on a chip in a file
/// that is not trusted: errors, and no panic.
#[test]
fn hostile_chips() {
    let used = used();
    let mut mounted = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut chip = used.clone();
        chip.distrust();
        for _ in 0..1 + rng.below(30) {
            // Mostly summaries, now and then data or the blank rest.
            let reach = [32, 64, 120, 4096][rng.below(4) as usize];
            let at = rng.below(u64::from(SEGMENTS)) as u32 * 4096 + rng.below(reach) as u32;
            let noise = [0, 0xFF, 0x0F, rng.next_u64() as u8][rng.below(4) as usize];
            chip.corrupt(at, |_| noise);
        }
        if rng.one_in(2) {
            let segment = rng.below(u64::from(SEGMENTS)) as u32;
            forge(&mut chip, segment, &mut rng);
        }
        for (_, config) in common::configs() {
            let mut memory = ram(&config);
            let Ok(mut disk) = LogDisk::mount(chip.clone(), config, &mut memory) else {
                continue;
            };
            mounted += 1;
            let _ = (disk.check(), disk.each_damage(|_| ()));
            for i in 0..80 {
                let sector = rng.below(50) as u32;
                let _ = match rng.below(8) {
                    0 => disk.trim(sector, 1),
                    1 => disk.clean_now().map(|_| ()),
                    2 => disk.read(sector, &mut [0; SECTOR]),
                    3 => disk.flush(),
                    _ => disk.write(sector, &content(sector, 500 + i)),
                };
            }
            let _ = disk.finish_erases();
        }
    }
    assert!(mounted > 2_000, "{mounted}");
}

/// Changes a field of a header, or puts an intent there, with checksums that are right.
fn forge(chip: &mut Chip, segment: u32, rng: &mut Rng) {
    let at = segment * 4096;
    let mut header = [0; 64];
    chip.read(at, &mut header).unwrap();
    let value = [0, 1, rng.next_u64() as u32, u32::MAX][rng.below(4) as usize];
    if rng.one_in(3) {
        header[32..36].copy_from_slice(&value.to_le_bytes());
        header[36..38].copy_from_slice(&(rng.below(14) as u16).to_le_bytes());
        let keyed = [&header[32..38], &(segment as u16).to_le_bytes()[..]].concat();
        header[38..40].copy_from_slice(&(crc32(&keyed) as u16).to_le_bytes());
        header[40..44].fill(0xFF);
    } else {
        let field = [5, 6, 8, 10, 12, 16, 20, 24][rng.below(8) as usize];
        let len = if field >= 16 { 4 } else { 1 };
        header[field..field + len].copy_from_slice(&value.to_le_bytes()[..len]);
        let crc = crc32(&header[..28]);
        header[28..32].copy_from_slice(&crc.to_le_bytes());
    }
    for (at, byte) in (at..).zip(header) {
        chip.corrupt(at, |_| byte);
    }
}

/// An invalidation of which a cut has left some bits, which the mount before did not see: the block
/// is valid, and moved to where it stays so.
#[test]
fn a_block_that_is_shaken_is_moved() {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(formatted(), config(), &mut memory).unwrap();
    disk.write(9, &content(9, 1)).unwrap();
    let mut chip = disk.into_flash();
    chip.corrupt(64 + 6, |_| 0x4F);
    let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
    assert_eq!(disk.stats().blocks_copied, 1);
    disk.check().unwrap();
    let mut chip = disk.into_flash();
    // The old block is dead now, wholly.
    let mut entry = [0; 8];
    chip.read(64, &mut entry).unwrap();
    assert_eq!(entry[6], 0);
    let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
    let mut bytes = [0; SECTOR];
    disk.read(9, &mut bytes).unwrap();
    assert_eq!((bytes, disk.stats().blocks_copied), (content(9, 1), 0));
    disk.check().unwrap();
}

#[test]
fn callers_mistakes() {
    let mut memory = ram(&config());
    let need = memory.len();
    let error = LogDisk::mount(formatted(), config(), &mut memory[..need - 1]).err();
    assert_eq!(error, Some(Error::RamTooSmall { need }));
    let mut disk = LogDisk::mount(formatted(), config(), &mut memory).unwrap();
    let mut two = [0; 2 * SECTOR];
    let out = |sector| Err(Error::OutOfRange { sector });
    assert_eq!(disk.read(49, &mut two), out(50));
    assert_eq!(disk.write(50, &two), out(50));
    assert_eq!(disk.read(u32::MAX, &mut two), out(u32::MAX));
    assert_eq!(disk.trim(49, 2), out(50));
    assert_eq!(disk.trim(0, u32::MAX), out(50));
    assert_eq!(
        disk.write(0, &two[1..]),
        Err(Error::BufferLength { len: 1023 })
    );
    assert_eq!(disk.write(50, &[]), Ok(()));
    assert_eq!(disk.read(49, &mut two[..SECTOR]), Ok(()));

    let bad = Config {
        open_max: 1,
        ..Config::new()
    };
    let error = LogDisk::mount(formatted(), bad, &mut memory).err();
    assert!(matches!(error, Some(Error::Config(_))), "{error:?}");
}

/// Segments wear out one after another until the data no longer fits: said so, and still read.
#[test]
fn a_disk_that_wears_out_is_full_and_still_reads() {
    let mut chip: Chip = SimNor::new(common::spec().with_endurance(12));
    LogDisk::format(&mut chip, &SHAPE, 1).unwrap();
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
    let mut rng = Rng::new(2);
    let mut held = vec![0; SHAPE.sectors as usize];
    let error = loop {
        let sector = rng.below(30) as u32;
        let version = held[sector as usize] + 1;
        match disk.write(sector, &content(sector, version)) {
            Ok(()) => held[sector as usize] = version,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::Full);
    assert!(disk.stats().segments_retired > 0);
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(disk.into_flash(), config(), &mut memory).unwrap();
    for (sector, version) in (0..).zip(held) {
        let mut bytes = [0; SECTOR];
        disk.read(sector, &mut bytes).unwrap();
        assert_eq!(bytes, content(sector, version), "sector {sector}");
    }
}

#[test]
fn a_driver_error_latches() {
    let mut chip = formatted();
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(&mut chip, config(), &mut memory).unwrap();
    disk.write(1, &content(1, 1)).unwrap();
    disk.flash_mut().set_power(false);
    let off = Err(Error::Flash(SimNorError::PowerOff));
    assert_eq!(disk.write(1, &content(1, 2)), off);
    disk.flash_mut().set_power(true);
    assert_eq!(disk.write(1, &content(1, 3)), Err(Error::Latched));
    assert_eq!(disk.trim(1, 1), Err(Error::Latched));
    let mut bytes = [0; SECTOR];
    disk.read(1, &mut bytes).unwrap();
    assert_eq!(bytes, content(1, 1));
}

/// A chip with one bank, whose erases block.
#[test]
fn works_on_any_multiwrite_flash() {
    let mut chip = OneBank::new(Chip::new(common::spec()));
    LogDisk::format(&mut chip, &SHAPE, 1).unwrap();
    let len = ram_bytes::<OneBank<Chip>>(SEGMENTS as usize * 4096, 1, &SHAPE, &config()).unwrap();
    assert!(BANKS > 1 && len < ram(&config()).len());
    let mut memory = vec![0; len];
    let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
    let mut model = Model::new();
    run(&mut disk, &mut model, &script(4, 50, 300)).unwrap();
    model.compare(&mut disk, false).unwrap();
    model.end(Op::Flush);
    let mut memory = vec![0; len];
    let mut disk = LogDisk::mount(disk.into_flash(), config(), &mut memory).unwrap();
    model.compare(&mut disk, false).unwrap();
    disk.check().unwrap();
}

/// A chip of one bank, whose driver says in its own words that an erase has failed. One segment is
/// worn out: the disk goes on without it, at each mount, and does not end in the driver's error.
#[test]
fn a_worn_segment_of_a_chip_of_one_bank_does_not_end_all_writing() {
    let mut chip = Chip::new(common::spec().with_endurance(1_000));
    for _ in 1..1_000 {
        chip.erase(5 * 4096, 6 * 4096).unwrap();
    }
    let mut chip = OneBank::new(chip);
    LogDisk::format(&mut chip, &SHAPE, 1).unwrap();
    let mut memory = ram(&config());
    let mut model = Model::new();
    for session in 0..4 {
        let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
        assert_eq!(disk.damage(), None);
        let mut work = script(session, 40, 120);
        work.push(Op::Flush);
        run(&mut disk, &mut model, &work).unwrap();
        model.compare(&mut disk, false).unwrap();
        disk.check().unwrap();
        assert_eq!(disk.stats().segments_retired, 1, "session {session}");
        chip = disk.into_flash();
    }
    // What is no erase's failure is the driver's error.
    assert_eq!(chip.erase_start(1), Err(SimNorError::NotAligned));
    assert_eq!(chip.erase_status(0), Ok(EraseStatus::Done));
}

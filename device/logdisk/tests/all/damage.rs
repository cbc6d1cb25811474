//! Bad input: each is told by name, nothing panics, and no sector shows another's data.

use crate::common::{
    self, BANKS, Chip, Model, Op, SECTOR, SEGMENTS, SHAPE, content, formatted, ram, run, script,
};
use flashkit_logdisk::{Config, Error, LogDisk, Shape, ram_bytes};
use flashkit_nor::{NorFlash, OneBank, ReadNorFlash};
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

#[test]
fn wrong_magic() {
    let blank = Chip::new(common::spec());
    assert_eq!(mount_error(blank), Error::Magic { segment: 0 });
    let mut chip = used();
    chip.corrupt(5 * 4096, |_| 0x4D);
    assert_eq!(mount_error(chip), Error::Magic { segment: 5 });
    let text = Error::<SimNorError>::Magic { segment: 5 }.to_string();
    assert_eq!(text, "segment 5 has no log disk's magic number");
}

#[test]
fn damaged_header_and_other_volume() {
    let mut chip = used();
    chip.corrupt(3 * 4096 + 24, |byte| byte ^ 1);
    assert_eq!(mount_error(chip), Error::Header { segment: 3 });

    // A format that ended after some segments.
    let mut chip = used();
    let mut other = Chip::new(common::spec());
    LogDisk::format(&mut other, &SHAPE, 8).unwrap();
    let mut bytes = [0; 4096];
    other.read(4 * 4096, &mut bytes).unwrap();
    chip.erase(4 * 4096, 5 * 4096).unwrap();
    chip.write(4 * 4096, &bytes[..32]).unwrap();
    assert_eq!(mount_error(chip), Error::Volume { segment: 4 });
}

#[test]
fn other_geometry() {
    // The same bytes on a chip with one bank.
    let mut memory = vec![0; 9_000];
    let error = LogDisk::mount(OneBank(used()), config(), &mut memory);
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
    assert_eq!(mount_error(to), expected);

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
    let before = chip.counters().word_programs;
    let mut memory = common::ram(&config());
    let error = LogDisk::mount(&mut chip, config(), &mut memory).err();
    assert_eq!(error, Some(copies));
    assert_eq!(chip.counters().word_programs, before, "nothing was written");
}

#[test]
fn a_summary_with_random_bytes() {
    let mut rng = Rng::new(5);
    let (mut damaged, mut told) = (0, 0);
    for segment in 0..SEGMENTS {
        let mut chip = used();
        for at in 64..64 + 7 * 8 {
            let noise = rng.next_u64() as u8;
            chip.corrupt(segment * 4096 + at, |_| noise);
        }
        damaged += 1;
        told +=
            u32::from(matches!(mount_error(chip), Error::Entry { segment: s, .. } if s == segment));
    }
    assert_eq!(told, damaged);

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
        disk.read(sector, &mut bytes).unwrap();
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
            disk.write(sector, &content(sector, 500 + i)).unwrap();
        }
    }
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
    let mut chip = OneBank(Chip::new(common::spec()));
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

//! Erase intents that are left open: by cuts, by segments that are worn out, and because their bank
//! was busy when they ended.

use crate::common::{self, Chip, Model, Op, SEGMENTS, SHAPE, crc32, formatted};
use crate::common::{ram, run, script};
use flashkit_logdisk::{Error, LogDisk, SegmentState, Step};
use flashkit_nor::{BankedNorFlash, EraseStatus, NorFlash};
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorEraseTear, NorTearable};

const SEGMENT: u32 = 4096;

/// Writes an intent of a header: `segment` is to have been erased so many times.
fn announce(chip: &mut Chip, (host, slot): (u32, u32), segment: u16, erases: u32) {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&erases.to_le_bytes());
    bytes[4..6].copy_from_slice(&segment.to_le_bytes());
    bytes[6..].copy_from_slice(&(host as u16).to_le_bytes());
    let crc = crc32(&bytes) as u16;
    bytes[6..].copy_from_slice(&crc.to_le_bytes());
    chip.write(host * SEGMENT + 32 + 12 * slot, &bytes).unwrap();
}

/// Marks it as done.
fn end(chip: &mut Chip, (host, slot): (u32, u32)) {
    chip.write(host * SEGMENT + 40 + 12 * slot, &[0; 4])
        .unwrap();
}

/// A segment whose erase was cut, with the intent of that erase and that of the one before. Of that
/// one the end could not be marked, for its bank was busy. It says of the header that it is to be
/// written once more, and there is none.
#[test]
fn an_older_intent_of_a_torn_segment_is_past() {
    for tear in [
        NorEraseTear::Zeroed,
        NorEraseTear::Random,
        NorEraseTear::Partial,
        NorEraseTear::LooksErased { reads: 200 },
    ] {
        for (older, newer) in [(0, 8), (8, 0), (4, 6), (6, 4)] {
            let mut chip = formatted();
            // The format was the first erase.
            announce(&mut chip, (older, 0), 5, 1);
            announce(&mut chip, (newer, 0), 5, 2);
            chip.erase_start(5 * SEGMENT).unwrap();
            chip.tear_erases(tear, 3).unwrap();
            for (_, config) in common::configs() {
                let mut memory = ram(&config);
                let disk = LogDisk::mount(chip.clone(), config, &mut memory).unwrap();
                assert_eq!(disk.segment(5).state, SegmentState::Erasing);
                // Once more: the older one is done now.
                let chip = disk.into_flash();
                let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
                let mut model = Model::new();
                run(&mut disk, &mut model, &script(1, 45, 20)).unwrap();
                disk.clean_now().unwrap();
                disk.finish_erases().unwrap();
                assert!(disk.segment(5).erases >= 2, "its count was kept");
                model.compare(&mut disk, false).unwrap();
                run(&mut disk, &mut model, &[Op::Flush]).unwrap();
                let chip = disk.into_flash();
                let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
                model.compare(&mut disk, false).unwrap();
                disk.check().unwrap();
            }
        }
    }
}

/// A chip of which one segment is worn out: its intent is in the header of another, the only one
/// that has room for one more.
fn worn(segment: u32, host: u32) -> Chip {
    let mut chip = Chip::new(common::spec().with_endurance(1_000));
    for _ in 1..1_000 {
        chip.erase(segment * SEGMENT, (segment + 1) * SEGMENT)
            .unwrap();
    }
    LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
    for full in (0..SEGMENTS).filter(|full| *full != host && *full != segment) {
        for place in [(full, 0), (full, 1)] {
            announce(&mut chip, place, host as u16, 1);
            end(&mut chip, place);
        }
    }
    announce(&mut chip, (host, 0), segment as u16, 2);
    chip.erase_start(segment * SEGMENT).unwrap();
    let bank = segment / (SEGMENTS / common::BANKS);
    assert_eq!(chip.erase_wait(bank).unwrap(), EraseStatus::Failed);
    chip
}

/// The segment whose header says that another one is worn out loses all its data. Were it erased
/// and the intent lost, the worn one would be damage: a disk that is never written again.
#[test]
fn what_says_that_a_segment_is_worn_out_is_not_erased_before_it_is_moved() {
    for (name, config) in common::configs() {
        let mut memory = ram(&config);
        let mut chip = worn(5, 0);
        let mut model = Model::new();
        for session in 0..4 {
            let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
            assert_eq!(disk.damage(), None, "{name}, session {session}");
            model.compare(&mut disk, false).unwrap();
            let work = match session {
                // Segment 0 is written, and all of it is dead.
                0 => (2..10).map(|version| Op::Write(3, 1, version)).collect(),
                _ => script(session, 35, 40),
            };
            run(&mut disk, &mut model, &work).unwrap();
            run(&mut disk, &mut model, &[Op::Flush]).unwrap();
            for _ in 0..4 {
                disk.clean_now().unwrap();
            }
            disk.finish_erases().unwrap();
            disk.check().unwrap();
            chip = disk.into_flash();
        }
    }
}

/// Five sectors are written until so many segments are worn out that nothing can be. The intents
/// run out before the room does: the disk is full then, and all of it is read.
#[test]
fn a_disk_whose_intents_run_out_is_full() {
    for (name, config) in common::configs() {
        for seed in 0..12 {
            let mut rng = Rng::new(seed);
            let endurance = 4 + rng.below(20) as u32;
            let mut chip = Chip::new(common::spec().with_endurance(endurance));
            LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
            let mut memory = ram(&config);
            let mut model = Model::new();
            let mut version = 1;
            let mut full = false;
            while !full {
                let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
                assert_eq!(disk.damage(), None, "{name}, seed {seed}: {version} writes");
                model.compare(&mut disk, true).unwrap();
                for _ in 0..rng.below(60) {
                    version += 1;
                    let op = Op::Write(rng.below(5) as u32, 1, version);
                    match run(&mut disk, &mut model, &[op]) {
                        Ok(()) => {}
                        Err(Error::Full) => full = true,
                        Err(error) => panic!("{name}, seed {seed}: {error:?}"),
                    }
                }
                disk.finish_erases().unwrap();
                assert!(!full || disk.clean_now() == Ok(Step::Idle));
                chip = disk.into_flash();
            }
        }
    }
}

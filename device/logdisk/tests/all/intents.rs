//! Erase intents that are left open: by cuts, by segments that are worn out, and because their bank
//! was busy when they ended.

use crate::common::{self, Chip, Model, Op, SEGMENTS, SHAPE, crc32, formatted};
use crate::common::{ram, run, script};
use flashkit_logdisk::{Config, Error, LogDisk, SegmentState, Start, Step};
use flashkit_nor::{BankedNorFlash, EraseStatus, NorFlash, ReadNorFlash};
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorCut, NorEraseTear, NorPowerCut, NorTearable, WordTear};

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

/// Writes, then begins to erase this segment; the chip as a cut leaves it in the first word of the
/// intent, or in the erase.
fn cut_in_an_erase(
    chip: Chip,
    config: Config,
    (work, model): (&[Op], &mut Model),
    segment: u32,
    program: Option<WordTear>,
) -> Chip {
    let mut memory = ram(&config);
    let mut counted = NorPowerCut::never(chip.clone());
    let mut disk = LogDisk::mount(&mut counted, config, &mut memory).unwrap();
    run(&mut disk, model, work).unwrap();
    assert_eq!(disk.clean_select(), Ok(Some(segment)));
    let intent = disk.flash().ops();
    assert!(disk.clean_erase().unwrap());
    let erase = disk.flash().ops() - 1;
    let cut = NorCut {
        after: program.map_or(erase, |_| intent),
        program: program.unwrap_or(WordTear::NotBegun),
        erase: NorEraseTear::Random,
        seed: 5,
    };
    let mut nor = NorPowerCut::new(chip, cut);
    let mut disk = LogDisk::mount(&mut nor, config, &mut memory).unwrap();
    run(&mut disk, model, work).unwrap();
    disk.clean_select().unwrap();
    disk.clean_erase().unwrap_err();
    nor.into_inner()
}

/// A cut in an intent leaves bits that read as 1 at the next mount, and later as 0. The next erase
/// is announced in the same place, with a count in which some of them are to be 1, and is cut: were
/// its intent no longer read, its segment would be damage.
#[test]
fn an_intent_that_looks_blank_spoils_none_after_it() {
    let config = Config {
        start: Start::Reserve { segments: 12 },
        ..common::configs()[0].1
    };
    // How often it looks blank, whether its header holds another one, and where the mount is cut
    // that marks it as done.
    for turn in 0..8 * 2 * 3 {
        let (reads, used, after) = (turn % 8, u32::from(turn / 8 % 2), u64::from(turn / 16));
        let mut chip = formatted();
        for _ in 0..6 {
            LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
        }
        // Its count is 2 when it is erased again, that of the others 9.
        chip.erase(SEGMENT, 2 * SEGMENT).unwrap();
        LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
        for place in (0..SEGMENTS * used).map(|host| (host, 0)) {
            announce(&mut chip, place, 1, 1);
            end(&mut chip, place);
        }
        let mut model = Model::new();
        // Segments 1, 0 and 2 are written; all of segment 2 dies, then all of segment 1.
        let work = [Op::Write(0, 21, 1), Op::Write(14, 7, 2)];
        let tear = WordTear::LooksUndone { reads };
        let chip = cut_in_an_erase(chip, config, (&work, &mut model), 2, Some(tear));
        let cut = NorCut {
            after,
            program: WordTear::LooksUndone { reads: 1 },
            erase: NorEraseTear::NotBegun,
            seed: 1,
        };
        let mut nor = NorPowerCut::new(chip, cut);
        let _ = LogDisk::mount(&mut nor, config, &mut ram(&config));
        let chip = nor.into_inner();
        let work = [Op::Write(0, 7, 3)];
        let chip = cut_in_an_erase(chip, config, (&work, &mut model), 1, None);
        let mut memory = ram(&config);
        let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
        assert_eq!(disk.damage(), None, "turn {turn}");
        model.compare(&mut disk, false).unwrap();
    }
}

/// A mount marks a torn intent as done, and is cut. Were neither the intent nor the mark certain,
/// both might read as blank at the next mount, and not after it.
#[test]
fn a_torn_intent_is_certain_before_it_is_marked_as_done() {
    let config = common::configs()[0].1;
    for seed in 0..20 {
        let mut chip = formatted();
        chip.write_torn(32, &[0xFF, 0xFF, 0xFF, 0], WordTear::Noisy, seed)
            .unwrap();
        let cut = NorCut {
            after: 1,
            program: WordTear::NotBegun,
            erase: NorEraseTear::NotBegun,
            seed,
        };
        let mut nor = NorPowerCut::new(chip, cut);
        let _ = LogDisk::mount(&mut nor, config, &mut ram(&config));
        assert!(nor.is_off(), "seed {seed}");
        let mut chip = nor.into_inner();
        for _ in 0..20 {
            let mut byte = [0xFF];
            chip.read(32 + 3, &mut byte).unwrap();
            assert_eq!(byte, [0], "seed {seed}");
        }
    }
}

/// Several banks have erased, then none does; a bit of a header flips. Were an intent still open
/// because its bank was busy when the erase was done, that would pass for a torn erase, and what
/// was written and flushed would read as zeros.
#[test]
fn a_damaged_header_is_damage_whatever_was_erased_at_once() {
    for (name, config) in common::configs() {
        for seed in 0..60 {
            let mut memory = ram(&config);
            let mut disk = LogDisk::mount(formatted(), config, &mut memory).unwrap();
            run(&mut disk, &mut Model::new(), &script(seed, 45, 120)).unwrap();
            disk.finish_erases().unwrap();
            let chip = disk.into_flash();
            for segment in 0..SEGMENTS {
                let mut chip = chip.clone();
                chip.corrupt(segment * SEGMENT + 28, |byte| byte ^ 1);
                let disk = LogDisk::mount(chip, config, &mut memory).unwrap();
                assert!(disk.damage().is_some(), "{name}, {seed}: segment {segment}");
            }
        }
    }
}

/// An erase was cut, and the header that announces it is damaged. What the erase has left is
/// nobody's: sectors that were trimmed, and flushed, must not come back.
#[test]
fn a_damaged_header_that_announces_a_cut_erase_brings_nothing_back() {
    let config = common::configs()[0].1;
    let mut memory = ram(&config);
    let mut model = Model::new();
    let mut disk = LogDisk::mount(formatted(), config, &mut memory).unwrap();
    run(&mut disk, &mut model, &[Op::Write(0, 21, 1)]).unwrap();
    let segment = disk.segment_of_sector(14).unwrap();
    run(&mut disk, &mut model, &[Op::Trim(14, 7), Op::Flush]).unwrap();
    let host = disk.segment_of_sector(0).unwrap();
    let chip = disk.into_flash();
    for seed in 0..200 {
        let mut chip = chip.clone();
        announce(&mut chip, (host, 0), segment as u16, 2);
        chip.erase_start(segment * SEGMENT).unwrap();
        chip.tear_erases(NorEraseTear::Partial, seed).unwrap();
        let mut disk = LogDisk::mount(chip.clone(), config, &mut memory).unwrap();
        assert_eq!(disk.damage(), None, "seed {seed}");
        model.compare(&mut disk, false).unwrap();
        chip.corrupt(host * SEGMENT + 28, |byte| byte ^ 1);
        let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
        let damage = disk.damage().expect("damage");
        model
            .bears(&mut disk)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(damage.segments, 1, "seed {seed}");
    }
}

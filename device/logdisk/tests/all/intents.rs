//! Erase intents that are left open: by cuts, and because their bank was busy when they ended.

use crate::common::{self, Chip, Model, Op, crc32, formatted, ram, run, script};
use flashkit_logdisk::{LogDisk, SegmentState};
use flashkit_nor::{BankedNorFlash, NorFlash};
use flashkit_sim::nor::{NorEraseTear, NorTearable};

const SEGMENT: u32 = 4096;

/// Writes the first intent of a header: `segment` is to have been erased so many times.
fn announce(chip: &mut Chip, host: u32, segment: u16, erases: u32) {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&erases.to_le_bytes());
    bytes[4..6].copy_from_slice(&segment.to_le_bytes());
    bytes[6..].copy_from_slice(&(host as u16).to_le_bytes());
    let crc = crc32(&bytes) as u16;
    bytes[6..].copy_from_slice(&crc.to_le_bytes());
    chip.write(host * SEGMENT + 32, &bytes).unwrap();
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
            announce(&mut chip, older, 5, 1);
            announce(&mut chip, newer, 5, 2);
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

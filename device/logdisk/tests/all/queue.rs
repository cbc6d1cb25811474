//! Sectors written, trimmed and written again while two banks erase: pairs of the flag update queue
//! whose newer block comes to lie in a bank under erase itself.

use crate::common::{BANKS, Chip, SECTOR, SEGMENTS, SHAPE, content, ram};
use flashkit_logdisk::{Config, LogDisk, Separate, Start, Step, Victim};
use flashkit_sim::nor::{NorEraseTear, NorSpec, NorTearable, NorTiming};

/// Longer than all that a test writes.
const ERASE_NS: u64 = 1_000_000_000;

/// The sector that is followed.
const SECTOR_AT: u32 = 40;

fn config() -> Config {
    Config {
        victim: Victim::Greedy,
        separate: Separate::No,
        start: Start::Reserve { segments: 12 },
        erasing_max: 2,
        queue: 4,
        ..Config::new()
    }
}

fn chip() -> Chip {
    let timing = NorTiming {
        read_ns: 1,
        program_ns: 10,
        erase_ns: ERASE_NS,
        suspend_ns: 5,
    };
    let mut chip = Chip::new(NorSpec::new(BANKS, SEGMENTS / BANKS, timing));
    LogDisk::format(&mut chip, &SHAPE, 7).unwrap();
    chip
}

fn write(disk: &mut LogDisk<'_, Chip>, sector: u32, version: u32) {
    disk.write(sector, &content(sector, version)).unwrap();
}

fn is_version(disk: &mut LogDisk<'_, Chip>, version: u32) -> bool {
    let mut bytes = [0; SECTOR];
    disk.read(SECTOR_AT, &mut bytes).unwrap();
    bytes == content(SECTOR_AT, version)
}

/// Begins to erase the segment without a valid block.
fn erase(disk: &mut LogDisk<'_, Chip>, segment: u32) {
    let selected = disk.clean_select().unwrap();
    assert_eq!(selected, Some(segment));
    assert_eq!(disk.clean_step(), Ok(Step::EraseBegun { segment }));
}

/// Bank 0 is full, bank 1 erases: version 1 of the sector is in its segment 4, and still valid.
fn with_bank_1_under_erase(disk: &mut LogDisk<'_, Chip>) {
    for sector in 0..28 {
        write(disk, sector, 1);
    }
    write(disk, SECTOR_AT, 1);
    for version in 1..15 {
        write(disk, 30, version);
    }
    erase(disk, 5);
}

/// Version 2, pre-valid in segment 9, waits for bank 1, when its own bank begins to erase as well.
/// Then it is trimmed, and bank 1 is done.
fn trimmed_under_two_erases(disk: &mut LogDisk<'_, Chip>) {
    with_bank_1_under_erase(disk);
    let begun = disk.flash().now_ns();
    for version in 1..9 {
        write(disk, 31, version);
    }
    write(disk, SECTOR_AT, 2);
    erase(disk, 8);
    assert_eq!(disk.segment_of_sector(SECTOR_AT), Some(9));
    disk.trim(SECTOR_AT, 1).unwrap();
    let left = begun + ERASE_NS - disk.flash().now_ns();
    disk.flash_mut().idle(left);
    assert!(is_version(disk, 0));
}

/// The chip after a cut, mounted, shows this version.
fn after_a_cut(mut chip: Chip, tear: NorEraseTear, version: u32) {
    chip.tear_erases(tear, 1).unwrap();
    let mut memory = ram(&config());
    for mount in 0..2 {
        let mut disk = LogDisk::mount(chip, config(), &mut memory).unwrap();
        assert!(is_version(&mut disk, version), "{tear:?}, mount {mount}");
        disk.check().unwrap();
        chip = disk.into_flash();
    }
}

#[test]
fn a_write_after_a_trim_under_two_erases_stays() {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip(), config(), &mut memory).unwrap();
    trimmed_under_two_erases(&mut disk);
    write(&mut disk, SECTOR_AT, 3);
    assert!(is_version(&mut disk, 3));
    // It lies before the block of version 2, which a mount finds later.
    assert!(disk.segment_of_sector(SECTOR_AT) < Some(8));
    disk.check().unwrap();
    let chip = disk.into_flash();
    for tear in [
        NorEraseTear::NotBegun,
        NorEraseTear::Zeroed,
        NorEraseTear::Complete,
    ] {
        after_a_cut(chip.clone(), tear, 3);
    }
}

/// The same without the last write: once it is flushed, no version comes back.
#[test]
fn a_trim_under_two_erases_stays() {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip(), config(), &mut memory).unwrap();
    trimmed_under_two_erases(&mut disk);
    // A second trim is none.
    disk.trim(SECTOR_AT, 1).unwrap();
    assert_eq!(disk.stats().sectors_trimmed, 1);
    disk.flush().unwrap();
    assert!(is_version(&mut disk, 0));
    assert_eq!(disk.segment_of_sector(SECTOR_AT), None);
    disk.check().unwrap();
    after_a_cut(disk.into_flash(), NorEraseTear::Zeroed, 0);
}

/// Version 2 was written beside blocks that are dead, then trimmed; both wait for bank 1. Its
/// segment, 8, is chosen to be cleaned.
fn trimmed_in_a_victim(disk: &mut LogDisk<'_, Chip>) {
    with_bank_1_under_erase(disk);
    write(disk, SECTOR_AT, 2);
    for version in 1..8 {
        write(disk, 31, version);
    }
    disk.trim(SECTOR_AT, 1).unwrap();
    assert_eq!(disk.clean_select(), Ok(Some(8)));
}

/// The cleaner moves a block whose trim waits for another bank: it stays trimmed.
#[test]
fn the_cleaner_brings_no_trimmed_sector_back() {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip(), config(), &mut memory).unwrap();
    trimmed_in_a_victim(&mut disk);
    assert_eq!(disk.clean_copy(7), Ok(1));
    assert_eq!(disk.segment_of_sector(SECTOR_AT), Some(9));
    assert!(is_version(&mut disk, 0), "read before the flush");
    disk.check().unwrap();
    // Not flushed, the trim may be undone by a cut, but not the write before it.
    let mut cut = disk.flash().clone();
    cut.tear_erases(NorEraseTear::Zeroed, 1).unwrap();
    let mut second = ram(&config());
    let mut other = LogDisk::mount(cut, config(), &mut second).unwrap();
    assert!(is_version(&mut other, 0) || is_version(&mut other, 2));
    disk.flush().unwrap();
    assert!(is_version(&mut disk, 0), "read after the flush");
    disk.check().unwrap();
    after_a_cut(disk.into_flash(), NorEraseTear::Zeroed, 0);
}

/// The trim comes true when the cleaner has looked at the block, and not yet moved it.
#[test]
fn a_trim_that_comes_true_under_the_cleaner_stays() {
    let mut memory = ram(&config());
    let mut disk = LogDisk::mount(chip(), config(), &mut memory).unwrap();
    trimmed_in_a_victim(&mut disk);
    disk.flash_mut().idle(ERASE_NS);
    assert_eq!(disk.clean_copy(7), Ok(0));
    assert_eq!(disk.segment_of_sector(SECTOR_AT), None);
    assert!(is_version(&mut disk, 0));
    disk.flush().unwrap();
    disk.check().unwrap();
    after_a_cut(disk.into_flash(), NorEraseTear::Zeroed, 0);
}

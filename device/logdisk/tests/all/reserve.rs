//! What the host leaves for cuts, counted in blocks: segments of 7 and of 15 blocks.

use crate::common::content;
use flashkit_logdisk::{Config, Error, LogDisk, Separate, Shape, ram_bytes};
use flashkit_nor::ReadNorFlash;
use flashkit_sim::Rng;
use flashkit_sim::nor::{NorCut, NorEraseTear, NorPowerCut, NorSpec, NorTiming, SimNor, WordTear};

const TIMING: NorTiming = NorTiming {
    read_ns: 1,
    program_ns: 10,
    erase_ns: 4_000,
    suspend_ns: 5,
};

/// Segments of 15 blocks of 512 bytes.
type Chip = SimNor<8192>;

fn shape(sectors: u32) -> Shape {
    Shape {
        sector_size: 512,
        sectors,
    }
}

fn ram<const SEGMENT: usize>(chip: &SimNor<SEGMENT>, sectors: u32, config: &Config) -> Vec<u8> {
    let banks = chip.spec().banks();
    let len = ram_bytes::<SimNor<SEGMENT>>(chip.capacity(), banks, &shape(sectors), config);
    vec![0x5A; len.unwrap()]
}

fn configs() -> [Config; 3] {
    let separate = Separate::No;
    [
        Config::new(),
        Config {
            separate,
            ..Config::new()
        },
        Config {
            separate,
            ..Config::paper()
        },
    ]
}

/// A disk as full as a format takes it, written until it cleans.
fn in_use<const SEGMENT: usize>(sectors: u32, config: Config) -> SimNor<SEGMENT> {
    let mut chip = SimNor::<SEGMENT>::new(NorSpec::new(2, 6, TIMING));
    LogDisk::format(&mut chip, &shape(sectors), 1).unwrap();
    let mut memory = ram(&chip, sectors, &config);
    let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
    let mut rng = Rng::new(1);
    for write in 0..sectors + 300 {
        let sector = if write < sectors {
            write
        } else {
            rng.below(u64::from(sectors)) as u32
        };
        disk.write(sector, &content(sector, 1)).unwrap();
    }
    disk.into_flash()
}

/// Cuts in a row, each in the middle of a block; then the disk is as good as before.
fn cut_in_a_row<const SEGMENT: usize>(sectors: u32, config: Config, cuts: u64) {
    let mut chip = in_use::<SEGMENT>(sectors, config);
    let mut memory = ram(&chip, sectors, &config);
    for turn in 0..cuts {
        let cut = NorCut {
            after: 60,
            program: WordTear::Partial,
            erase: NorEraseTear::Partial,
            seed: turn,
        };
        let mut nor = NorPowerCut::new(chip, cut);
        let mut disk = LogDisk::mount(&mut nor, config, &mut memory).unwrap();
        while disk.write(0, &content(0, 1)).is_ok() {}
        chip = nor.into_inner();
    }
    let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
    let mut rng = Rng::new(cuts);
    for _ in 0..300 {
        let sector = rng.below(u64::from(sectors)) as u32;
        let written = disk.write(sector, &content(sector, 2));
        assert_eq!(
            written,
            Ok(()),
            "{sectors} sectors, {cuts} cuts, {config:?}"
        );
    }
    disk.check().unwrap();
}

#[test]
fn sixteen_cuts_in_a_row_do_not_fill_the_disk() {
    for config in configs() {
        for cuts in [1, 3, 8, 16] {
            // 12 segments of 15 and of 7 blocks.
            let spare = if config.separate == Separate::No {
                46
            } else {
                47
            };
            cut_in_a_row::<8192>(180 - spare, config, cuts);
            cut_in_a_row::<4096>(84 - 30, config, cuts);
        }
    }
}

/// All dead blocks are in segments that are written in part, as cuts leave them: those are cleaned.
#[test]
fn segments_written_in_part_are_cleaned() {
    let config = configs()[1];
    let mut chip = Chip::new(NorSpec::new(1, 8, TIMING));
    LogDisk::format(&mut chip, &shape(60), 1).unwrap();
    for segment in 0..8 {
        for block in 0..13 {
            // Five that are valid, the others a cut has left after their first flag.
            let entry = segment * 8192 + 64 + block * 8;
            let sector =
                [[0; 4], sector_bytes(segment as u8 * 5 + block as u8)][usize::from(block < 5)];
            let flags = if block < 5 {
                [0, 0, 0xFF, 0]
            } else {
                [0, 0xFF, 0, 0xFF]
            };
            for (at, byte) in (entry..).zip(sector.into_iter().chain(flags)) {
                chip.corrupt(at, |_| byte);
            }
        }
    }
    let mut memory = ram(&chip, 60, &config);
    let mut disk = LogDisk::mount(chip, config, &mut memory).unwrap();
    assert_eq!((disk.live(), disk.free_segments()), (40, 0));
    for sector in (0..60).chain(0..60) {
        disk.write(sector, &content(sector, 1)).unwrap();
    }
    disk.check().unwrap();
}

/// A sector's number and its CRC-8.
fn sector_bytes(sector: u8) -> [u8; 4] {
    let crc = [sector, 0, 0].iter().fold(0xFF, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc: u8, _| {
            (crc << 1) ^ if crc & 0x80 != 0 { 0x07 } else { 0 }
        })
    });
    [sector, 0, 0, !crc]
}

/// Two segments and 16 blocks beside the sectors are the least, said so before anything is erased.
#[test]
fn a_disk_without_a_reserve_is_refused() {
    let mut chip = Chip::new(NorSpec::new(2, 4, TIMING));
    let most = 8 * 15 - 2 * 15 - 16;
    let refused = LogDisk::format(&mut chip, &shape(most + 1), 1).unwrap_err();
    let why = "the disk leaves no room for cleaning: two segments and 16 blocks must stay free";
    assert_eq!(refused, Error::Config(why));
    assert_eq!(refused.to_string(), why);
    assert_eq!(chip.counters().erases, 0);
    LogDisk::format(&mut chip, &shape(most), 1).unwrap();
}

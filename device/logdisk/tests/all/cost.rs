//! What operations cost on flash, exactly.

use crate::common::{self, SECTOR, content, ram};
use flashkit_logdisk::{Config, LogDisk, Shape, Step, ram_bytes};
use flashkit_nor::ReadNorFlash;
use flashkit_sim::nor::{NOR_DEFAULT, NorCounters, SimNor, nor_preset};

const SHAPE: Shape = Shape {
    sector_size: 512,
    sectors: 28_672,
};

fn mounted(ram: &mut Vec<u8>, config: Config) -> LogDisk<'_, SimNor> {
    let mut chip: SimNor = SimNor::new(nor_preset(NOR_DEFAULT).unwrap());
    LogDisk::format(&mut chip, &SHAPE, 1).unwrap();
    let len = ram_bytes::<SimNor>(chip.capacity(), 8, &SHAPE, &config).unwrap();
    ram.resize(len, 0);
    LogDisk::mount(chip, config, ram).unwrap()
}

#[test]
fn ram_is_below_64_kib_and_the_geometry_is_the_papers() {
    let mut ram = Vec::new();
    let disk = mounted(&mut ram, Config::paper());
    assert_eq!((disk.segments(), disk.blocks_per_segment()), (64, 504));
    let all = size_of::<LogDisk<'_, SimNor>>() + 63_208;
    assert!(all - size_of::<SimNor>() <= 64 * 1024, "{all}");
    drop(disk);
    assert_eq!(ram.len(), 63_208);
    // The longer queue of bounded latency.
    drop(mounted(&mut ram, Config::bounded()));
    assert_eq!(ram.len(), 64_808);
    assert!(all + 1_600 - size_of::<SimNor>() <= 64 * 1024, "{all}");
    // Larger sectors need less.
    let shape = Shape {
        sector_size: 4096,
        sectors: 3_584,
    };
    assert_eq!(
        ram_bytes::<SimNor>(16 << 20, 8, &shape, &Config::new()),
        Ok(13_032)
    );
}

fn cost<T>(
    disk: &mut LogDisk<'_, SimNor>,
    work: impl FnOnce(&mut LogDisk<'_, SimNor>) -> T,
) -> (T, NorCounters) {
    let before = disk.flash().counters();
    let done = work(disk);
    (done, disk.flash().counters() - before)
}

#[test]
fn operations() {
    let mut ram = Vec::new();
    let mut disk = mounted(&mut ram, Config::paper());
    let sector = [7; 512];
    // Allocated, number, 128 words of data, pre-valid, valid: 1.32 ms.
    let (_, first) = cost(&mut disk, |d| d.write(5, &sector).unwrap());
    assert_eq!((first.word_programs, first.time_ns), (132, 1_320_000));
    // And two for the block that held it before.
    let (_, again) = cost(&mut disk, |d| d.write(5, &sector).unwrap());
    assert_eq!((again.word_programs, again.word_reads), (134, 0));
    let (_, read) = cost(&mut disk, |d| d.read(5, &mut [0; 512]).unwrap());
    assert_eq!((read.word_reads, read.time_ns), (128, 128_000));
    let (_, nothing) = cost(&mut disk, |d| d.read(6, &mut [0; 512]).unwrap());
    assert_eq!(nothing, NorCounters::default());
    let (_, trim) = cost(&mut disk, |d| d.trim(0, 100).unwrap());
    assert_eq!(trim.word_programs, 2);
    let (_, flush) = cost(&mut disk, |d| d.flush().unwrap());
    assert_eq!(flush, NorCounters::default());
}

#[test]
fn a_mount_reads_every_summary_once() {
    let mut memory = Vec::new();
    let mut disk = mounted(&mut memory, Config::paper());
    disk.write(0, &[1; 512 * 800]).unwrap();
    let mut chip = disk.into_flash();
    let before = chip.counters();
    let mut ram = vec![0; 63_208];
    LogDisk::mount(&mut chip, Config::paper(), &mut ram).unwrap();
    let cost = chip.counters() - before;
    // 64 summaries of 4 KiB, less what the headers leave unused, and the first header twice.
    assert_eq!(cost.word_programs, 0);
    assert_eq!(cost.word_reads, 64 * (8 + 6 + 504 * 2) + 8);
    assert_eq!(cost.time_ns, 65_416_000);
}

/// An erase takes three programs for its intent, a header and the intent's end; nothing waits for
/// it.
#[test]
fn an_erase_in_the_background() {
    let mut memory = ram(&common::configs()[0].1);
    let config = Config {
        start: flashkit_logdisk::Start::Reserve { segments: 12 },
        ..common::configs()[0].1
    };
    let mut disk = LogDisk::mount(common::formatted(), config, &mut memory).unwrap();
    // Segment 0 is written full and loses everything.
    for version in 1..9 {
        disk.write(3, &content(3, version)).unwrap();
    }
    let before = disk.flash().counters();
    assert_eq!(
        disk.clean_step().unwrap(),
        Step::Selected {
            segment: 0,
            cold: true
        }
    );
    assert_eq!(disk.clean_step().unwrap(), Step::EraseBegun { segment: 0 });
    assert_eq!(disk.clean_step().unwrap(), Step::Waiting);
    let cost = disk.flash().counters() - before;
    assert_eq!((cost.word_programs, cost.erases, cost.time_ns), (3, 1, 30));
    // Reads and writes go on in other banks, and in this one reads.
    let mut bytes = [0; SECTOR];
    disk.read(3, &mut bytes).unwrap();
    assert_eq!(bytes, content(3, 8));
    assert_eq!(disk.stats().erase_waits, 0);
    disk.finish_erases().unwrap();
    assert_eq!(disk.stats().segments_erased, 1);
    let cost = disk.flash().counters() - before;
    assert_eq!(cost.word_programs, 3 + 8 + 1);
    assert_eq!(disk.segment(0).erases, 2);
}

//! What operations cost in flash operations and flash time, and what a disk takes of chip and RAM.

use crate::common::{self, Op, apply};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{Counters, Metered, Rng, SimNand, preset, presets};

const MS: u64 = 1_000_000;

fn cost<T>(
    disk: &mut Jftl<'_, SimNand>,
    work: impl FnOnce(&mut Jftl<'_, SimNand>) -> T,
) -> (Counters, T) {
    let before = disk.nand().counters();
    let done = work(disk);
    (disk.nand().counters() - before, done)
}

#[test]
fn capacity_and_ram() {
    for p in presets() {
        let geometry = p.geometry();
        let mut chip = SimNand::new(p);
        let len = ram_bytes(&geometry, MapCache::Pieces(4)).unwrap();
        let mut ram = vec![0; len];
        Jftl::format(&mut chip, &mut ram, 1).unwrap();
        let disk = Jftl::mount(chip, &mut ram).unwrap();
        let share = f64::from(disk.sector_count()) / f64::from(geometry.pages());
        let whole = ram_bytes(&geometry, MapCache::Whole).unwrap();
        println!("{} {share:.4} {len} {whole}", p.name);
        // Few blocks, as 160 or 512: one in fifty may go bad, and the log takes ten.
        let least = match geometry.blocks() {
            ..256 => 0.75,
            256..1024 => 0.90,
            _ => 0.93,
        };
        assert!(share >= least, "{}: {share}", p.name);
    }
    // 1 GiB, in the common shapes.
    for (page, pages, blocks) in [(2048, 64, 8192), (4096, 64, 4096), (4096, 128, 2048)] {
        let geometry = Geometry::new(page, 32, pages, blocks).unwrap();
        let len = ram_bytes(&geometry, MapCache::Pieces(4)).unwrap();
        let whole = ram_bytes(&geometry, MapCache::Whole).unwrap();
        println!("{page} x {pages} x {blocks}: {len} {whole}");
        assert!(len <= 16 * 1024, "{page} x {pages}: {len}");
    }
}

#[test]
fn operations_cost_what_is_said() {
    let mut chip = SimNand::new(preset("small-256m").unwrap());
    let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
    Jftl::format(&mut chip, &mut ram, 1).unwrap();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    // The session begins with an anchor, and a page of the log, each in a new block.
    let (spent, ()) = cost(&mut disk, |d| d.write(0, &[1; 512]).unwrap());
    assert_eq!((spent.page_programs, spent.block_erases), (3, 3));
    let (spent, ()) = cost(&mut disk, |d| d.write(1, &[1; 512 * 3]).unwrap());
    assert_eq!((spent.page_programs, spent.page_reads), (3, 0));
    let (spent, ()) = cost(&mut disk, |d| d.flush().unwrap());
    assert_eq!((spent.page_programs, spent.block_erases), (1, 0));
    let (spent, ()) = cost(&mut disk, |d| d.flush().unwrap());
    assert_eq!(spent, Counters::default());
    let (spent, ()) = cost(&mut disk, |d| d.read(0, &mut [0; 1024]).unwrap());
    assert_eq!((spent.page_reads, spent.spare_reads), (2, 0));
    let (spent, ()) = cost(&mut disk, |d| d.trim(0, 4).unwrap());
    assert_eq!(spent, Counters::default());
    let (spent, ()) = cost(&mut disk, |d| d.flush().unwrap());
    assert_eq!(spent.page_programs, 1);
}

/// The paper's chip, 80 % full, written at random with a flush now and then: no flush takes longer
/// than 10 ms of flash time. Then the mounts, after an orderly end and after none.
#[test]
fn flushes_and_mounts_are_bounded() {
    let chip = SimNand::new(preset("small-256m").unwrap());
    let geometry = chip.geometry();
    let mut ram = vec![0; ram_bytes(&geometry, MapCache::Whole).unwrap()];
    let mut chip = chip;
    Jftl::format(&mut chip, &mut ram, 1).unwrap();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    let full = disk.sector_count() / 10 * 8;
    let data = vec![7; 512 * 64];
    for first in (0..full - 64).step_by(64) {
        disk.write(first, &data).unwrap();
    }
    let mut rng = Rng::new(5);
    let (mut worst_flush, mut worst_write) = (0, 0);
    for _ in 0..200_000 {
        let first = rng.below(u64::from(full - 8)) as u32;
        let (spent, ()) = cost(&mut disk, |d| d.write(first, &data[..512]).unwrap());
        worst_write = spent.time_ns.max(worst_write);
        if rng.one_in(20) {
            let (spent, ()) = cost(&mut disk, |d| d.flush().unwrap());
            worst_flush = spent.time_ns.max(worst_flush);
        }
    }
    let stats = disk.stats();
    println!("flush {worst_flush} ns, write {worst_write} ns, {stats:?}");
    assert!(stats.copies > 0);
    assert!(worst_flush <= 10 * MS, "{worst_flush} ns");
    assert!(worst_write <= 20 * MS, "{worst_write} ns");
    let mount = |chip: SimNand| {
        let before = chip.counters();
        let mut ram = vec![0; ram_bytes(&geometry, MapCache::Whole).unwrap()];
        let disk = Jftl::mount(chip, &mut ram).unwrap();
        let spent = disk.nand().counters() - before;
        (spent, disk.into_nand())
    };
    let (spent, chip) = mount(disk.into_nand());
    println!("after a cut {spent:?}");
    assert!(spent.time_ns <= 400 * MS, "{spent:?}");
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    apply(&mut disk, &Op::Close).unwrap();
    let (spent, _) = mount(disk.into_nand());
    println!("after an orderly end {spent:?}");
    assert!(spent.time_ns <= 40 * MS, "{spent:?}");
    assert_eq!(spent.page_programs, 0);
}

/// Data at rest takes its share of the wear: 60 % of the disk is never written
/// again, 20 % all the time.
#[test]
fn wear_is_levelled() {
    let setup = common::Setup {
        blocks: 256,
        ..common::SETUPS[1]
    };
    let setup = common::Setup {
        cache: MapCache::Whole,
        ..setup
    };
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(setup.formatted(), &mut ram).unwrap();
    let sectors = disk.sector_count();
    let (rest, hot) = (sectors / 10 * 6, sectors / 10 * 2);
    for first in (0..rest + hot).step_by(8) {
        disk.write(first, &[1; 8 * 512]).unwrap();
    }
    let mut rng = Rng::new(4);
    loop {
        for _ in 0..2_000 {
            let sector = rest + rng.below(u64::from(hot)) as u32;
            disk.write(sector, &[2; 512]).unwrap();
        }
        if disk.stats().erases > 256 * 300 {
            break;
        }
    }
    // The first blocks hold the anchors.
    let counts: Vec<f64> = (disk.nand().erase_counts()[4..].iter())
        .map(|n| f64::from(*n))
        .collect();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let squares = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>();
    let sigma = (squares / counts.len() as f64).sqrt();
    let anchors = disk.nand().erase_counts()[..4].to_vec();
    println!(
        "mean {mean:.0}, sigma {sigma:.1}, anchors {anchors:?}, {:?}",
        disk.stats()
    );
    assert!(sigma < 0.1 * mean, "{sigma} of {mean}");
}

/// Where the chip copies pages by itself, what cleaning moves does not go over the bus, but what
/// goes from one plane to the other. Who owns a page costs a read of spare bytes, where there are
/// some.
#[test]
fn what_is_moved_is_copied_by_the_chip_if_it_can() {
    let costs = [8, 0].map(|spare| {
        [CopyRange::Nothing, CopyRange::Parity, CopyRange::All].map(|copies| {
            let setup = common::Setup {
                spare,
                copies,
                ..common::SETUPS[2]
            };
            let (chip, mut ram) = (setup.formatted(), setup.ram());
            let mut disk = Jftl::mount(chip, &mut ram).unwrap();
            let sectors = disk.sector_count();
            let ops = common::script(1, sectors, sectors, 400);
            let (spent, ()) = cost(&mut disk, |disk| {
                common::run(disk, &mut common::Model::new(sectors), &ops).unwrap();
            });
            (
                spent.page_programs,
                spent.page_copies,
                spent.page_reads,
                spent.spare_reads,
            )
        })
    });
    let pinned = [
        [(1002, 0, 334, 0), (940, 62, 157, 177), (880, 122, 0, 334)],
        [(1072, 0, 180, 0), (1017, 55, 125, 0), (929, 143, 37, 0)],
    ];
    assert_eq!(costs, pinned, "programs, copies, reads, and of spare bytes");
}

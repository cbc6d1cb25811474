//! Disks in images when the host crashes: each sector holds what the last flush found, or something
//! later.

use std::path::Path;

use flashkit_disk::{Disk, OnNand, OnNor, Sectors};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_logdisk::{Config, LogDisk, Shape};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::nor::{NorSpec, NorTiming, SimNor};
use flashkit_sim::{Access, ChipSpec, Rng, SimNand, TestHost, Timing};
use tempfile::TempDir;

/// Crashes that each test makes: `FLASHKIT_CRASHES`, or 200. What fails names the crash, from 0 on;
/// that many and one come to it again. Each keeps the RAM of its mounts.
fn crashes() -> u64 {
    std::env::var("FLASHKIT_CRASHES").map_or(200, |n| n.parse().expect("a number"))
}

/// A disk in an image.
trait Kind {
    const SECTOR: usize;
    fn make(image: &Path);
    fn open(image: &Path, host: &TestHost, barrier: bool) -> Result<Box<dyn Disk>, String>;
}

struct OnNorImage;

impl Kind for OnNorImage {
    const SECTOR: usize = 512;

    fn make(image: &Path) {
        let timing = NorTiming {
            read_ns: 1,
            program_ns: 10,
            erase_ns: 100_000,
            suspend_ns: 5,
        };
        let mut chip: SimNor = SimNor::create(image, NorSpec::new(2, 4, timing)).unwrap();
        let shape = Shape {
            sector_size: 512,
            sectors: 2_000,
        };
        LogDisk::format(&mut chip, &shape, 1).unwrap();
    }

    fn open(image: &Path, host: &TestHost, barrier: bool) -> Result<Box<dyn Disk>, String> {
        let chip = SimNor::open_on(image, Access::ReadWrite, Some(host));
        let mut chip = chip.map_err(|e| e.to_string())?;
        chip.set_barrier(barrier);
        let disk = OnNor::mount(chip, Config::new(), false, |_| String::new());
        let disk = disk.map_err(|e| e.to_string())?;
        match disk.disk().damage() {
            Some(damage) => Err(damage.to_string()),
            None => Ok(Box::new(Sectors::new(disk))),
        }
    }
}

struct OnNandImage;

impl Kind for OnNandImage {
    const SECTOR: usize = 512;

    fn make(image: &Path) {
        let geometry = Geometry::new(512, 24, 16, 256).unwrap();
        let timing = Timing {
            read_ns: 1,
            program_ns: 10,
            erase_ns: 100,
        };
        let mut chip = SimNand::create(image, ChipSpec::new(geometry, timing)).unwrap();
        let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
        Jftl::format(&mut chip, &mut ram, 1).unwrap();
    }

    fn open(image: &Path, host: &TestHost, barrier: bool) -> Result<Box<dyn Disk>, String> {
        let chip = SimNand::open_on(image, Access::ReadWrite, Some(host));
        let mut chip = chip.map_err(|e| e.to_string())?;
        chip.set_barrier(barrier);
        let disk = OnNand::mount(chip, false, |_| (), |_| String::new());
        let disk = disk.map_err(|e| e.to_string())?;
        match disk.disk().damage() {
            Some(damage) => Err(format!("{damage:?}")),
            None => Ok(Box::new(Sectors::new(disk))),
        }
    }
}

/// What a sector holds that was written as the `n`-th one; of 0, zeros.
fn content<K: Kind>(sector: usize, n: u32) -> Vec<u8> {
    let mut bytes = vec![0; K::SECTOR];
    if n > 0 {
        Rng::keyed(n.into(), sector as u64).fill(&mut bytes);
    }
    bytes
}

/// Makes crash after crash, each in the life that follows the last. Gives the first violation.
fn search<K: Kind>(barrier: bool, crashes: u64) -> Result<(), String> {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("x.img");
    K::make(&image);
    // What each sector may hold: as the last flush found it, or later.
    let mut held: Vec<Vec<u32>> = vec![vec![0]; 600];
    let mut written = 0;
    for seed in 0..crashes {
        let mut rng = Rng::keyed(seed, 3);
        let host = TestHost::default();
        let most = rng.one_of(&[30, 300, 3_000]);
        host.crash_after(rng.below(most), seed);
        let of = |e: String| format!("crash {seed}: {e}");
        // A test beside this one that has just forked holds the image's lock until its exec.
        let is_locked =
            |opened: &Result<_, String>| opened.as_ref().is_err_and(|why| why.contains("in use"));
        let mut opened = K::open(&image, &host, barrier);
        for _ in 0..100 {
            if !is_locked(&opened) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            opened = K::open(&image, &host, barrier);
        }
        let mut disk = opened.map_err(of)?;
        for (sector, held) in held.iter_mut().enumerate() {
            let mut bytes = vec![0; K::SECTOR];
            let at = (sector * K::SECTOR) as u64;
            disk.read(at, &mut bytes).map_err(of)?;
            let is = held.iter().find(|n| bytes == content::<K>(sector, **n));
            let Some(is) = is else {
                return Err(of(format!("sector {sector} is none of {held:?}")));
            };
            *held = vec![*is];
        }
        let left = loop {
            if let Some(left) = host.left() {
                break left;
            }
            let sector = rng.below(held.len() as u64) as usize;
            let at = (sector * K::SECTOR) as u64;
            match rng.below(20) {
                0 => {
                    disk.flush().map_err(of)?;
                    // The crash may have come before the end of it.
                    if let Some(left) = host.left() {
                        break left;
                    }
                    for held in &mut held {
                        held.drain(..held.len() - 1);
                    }
                }
                1 => {
                    disk.zero(at, K::SECTOR as u64).map_err(of)?;
                    held[sector].push(0);
                }
                2 => drop(disk.background().map_err(of)?),
                _ => {
                    written += 1;
                    held[sector].push(written);
                    let bytes = content::<K>(sector, written);
                    disk.write(at, &bytes).map_err(of)?;
                }
            }
        };
        drop(disk);
        std::fs::write(&image, left).unwrap();
    }
    Ok(())
}

#[test]
fn logdisk_keeps_what_was_flushed() {
    search::<OnNorImage>(true, crashes()).unwrap();
}

#[test]
fn jftl_keeps_what_was_flushed() {
    search::<OnNandImage>(true, crashes()).unwrap();
}

/// These tests can fail.
#[test]
fn without_barriers_much_is_lost() {
    search::<OnNorImage>(false, 100).unwrap_err();
    search::<OnNandImage>(false, 100).unwrap_err();
}

//! The patrol: what lies unread is read in time, and what rots is written anew before it is lost.

use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Faults, Metered, Rate, Rot, SimNand};
use flashkit_vfs::{FileSystem, Ino, Measured, NewInode, Patrol, path};

use crate::common::{self, Fs, NOW, chip, formatted, mount, remount, try_unmount};
use crate::damage::tree::fill;

const HOUR_MS: u64 = 3_600_000;
const DAY_NS: u64 = 24 * HOUR_MS * 1_000_000;
const FILES: u64 = 40;
const SIZE: usize = 50_000;

fn nand(fs: &mut Fs) -> &mut SimNand {
    fs.volume().nand_mut().get_mut()
}

/// A worn chip as data sheets have it: data keeps for most of a year, and a block stands some
/// hundred thousand reads. ECC corrects 8 bits; one flips every 30 days, and every 20,000 reads.
fn decays() -> Faults {
    Faults {
        ecc: 8,
        retention_ns: 30 * DAY_NS,
        read_disturb: 20_000,
        ..Faults::default()
    }
}

fn name(n: u64) -> Vec<u8> {
    format!("file {n}").into_bytes()
}

fn volume() -> Fs {
    let mut fs = formatted(chip(2048, 64, 64, 64));
    nand(&mut fs).set_faults(decays()).unwrap();
    let root = fs.root();
    for n in 0..FILES {
        let ino = fs.create(root, &name(n), &NewInode::default()).unwrap().ino;
        fs.write(ino, 0, &fill(n, 0, SIZE), NOW).unwrap();
        fs.fsync(ino).unwrap();
    }
    fs
}

/// Files that cannot be read, or not as they were.
fn lost(fs: &mut Fs) -> usize {
    let whole = |fs: &mut Fs, n: u64| -> flashkit_vfs::Result<bool> {
        let ino = path::resolve(fs, &name(n))?.ino;
        let mut data = vec![0; SIZE + 1];
        let len = fs.read(ino, 0, &mut data)?;
        Ok(data[..len] == fill(n, 0, SIZE))
    };
    (0..FILES).filter(|n| whole(fs, *n) != Ok(true)).count()
}

/// Cleans as a mount does in idle time.
fn clean(fs: &mut Fs) {
    while fs.gc(16).unwrap() {}
}

/// A year in which the same page is read 30 times an hour, and nothing else; with so many pages of
/// patrol in each.
fn year(fs: &mut Fs, patrols: u32) -> Vec<String> {
    let hot: Ino = path::resolve(fs, &name(0)).unwrap().ino;
    let mut page = [0; 2048];
    let mut said = Vec::new();
    for _ in 0..365 * 24 {
        for _ in 0..30 {
            // That it cannot be read any more is seen in the end.
            let _ = fs.read(hot, 0, &mut page);
        }
        fs.idle(HOUR_MS).unwrap();
        for _ in 0..patrols {
            match fs.patrol().unwrap() {
                Patrol::Nothing => panic!("nothing to read"),
                Patrol::Read | Patrol::Done(None) => {}
                Patrol::Noted => clean(fs),
                Patrol::Lost(what) | Patrol::Done(Some(what)) => said.push(what),
            }
        }
    }
    said
}

#[test]
fn a_year_of_decay_takes_nothing_from_who_patrols() {
    // The whole chip in 14 days.
    let mut fs = volume();
    let pages = fs.statfs().unwrap().blocks as u32;
    assert_eq!(year(&mut fs, pages.div_ceil(14 * 24)), [""; 0]);
    assert_eq!(lost(&mut fs), 0);
    common::clean(&mut fs);
    assert_eq!(lost(&mut remount(fs)), 0);
}

/// The block of a page that is lost cannot be won; those noticed after it are written anew.
#[test]
fn a_page_that_is_lost_takes_no_other_along() {
    let mut fs = volume();
    let page = page_that_holds(nand(&mut fs), &fill(5, 2048, 2048));
    assert!(nand(&mut fs).rot(page, Rot::Lost).unwrap());
    let pages = fs.statfs().unwrap().blocks as u32;
    assert!(!year(&mut fs, pages.div_ceil(14 * 24)).is_empty());
    assert_eq!(lost(&mut fs), 1);
    assert_eq!(lost(&mut remount(fs)), 1);
}

#[test]
fn a_year_of_decay_takes_all_from_who_does_not() {
    let mut fs = volume();
    year(&mut fs, 0);
    assert_eq!(lost(&mut fs), FILES as usize);
}

/// A step costs a page read; a round reads all that is in use, and tells what it cannot read.
#[test]
fn a_round_reads_each_page_in_use_once_and_tells_what_is_lost() {
    let mut fs = volume();
    let in_use = FILES * (SIZE as u64 / 2048 + 1);
    for lost in [0, 1] {
        if lost == 1 {
            let page = page_that_holds(nand(&mut fs), &fill(5, 2048, 2048));
            assert!(nand(&mut fs).rot(page, Rot::Lost).unwrap());
        }
        let (mut read, mut told) = (0, Vec::new());
        loop {
            let at = fs.cost();
            let step = fs.patrol().unwrap();
            let cost = fs.cost() - at;
            assert!(cost.page_reads <= 1 && cost.page_programs + cost.block_erases == 0);
            read += cost.page_reads;
            match step {
                Patrol::Read | Patrol::Noted => {}
                Patrol::Lost(what) => told.push(what),
                Patrol::Nothing => panic!("nothing to read"),
                Patrol::Done(said) => {
                    assert_eq!(said, None);
                    break;
                }
            }
        }
        assert!((in_use..in_use + 200).contains(&read), "{read} of {in_use}");
        assert_eq!(told.len(), lost, "{told:?}");
    }
}

fn page_that_holds(chip: &mut SimNand, data: &[u8]) -> PageAddr {
    let mut page = [0; 2048];
    let mut pages = (0..chip.geometry().pages()).map(PageAddr);
    let found = pages.find(|at| chip.read(*at, 0, &mut page, &mut []).is_ok() && page == data);
    found.unwrap()
}

/// Where a round goes on is remembered by a sixteenth of the chip, and costs a checkpoint at the
/// unmount where nothing else has changed; less than that costs nothing.
#[test]
fn a_patrol_goes_on_after_an_unmount() {
    let mut fs = remount(volume());
    let sixteenth = 4 * 64;
    let mut programs = Vec::new();
    let mut reads = 0;
    let mut done = false;
    for steps in [2, sixteenth, sixteenth, sixteenth] {
        for _ in 0..steps {
            let at = fs.cost();
            done |= matches!(fs.patrol().unwrap(), Patrol::Done(_));
            reads += (fs.cost() - at).page_reads;
        }
        let before = fs.cost().page_programs;
        let mut chip = try_unmount(fs).unwrap();
        programs.push(chip.counters().page_programs - before);
        chip.clear_counters();
        fs = mount(chip);
    }
    assert_eq!(programs[0], 0);
    assert!(programs[1..].iter().all(|n| *n > 0), "{programs:?}");
    assert!(!done);
    // The rest of the round is what has not been read yet, but for what is read twice.
    let mut rest = 0;
    while !matches!(fs.patrol().unwrap(), Patrol::Done(_)) {
        rest += 1;
    }
    let all = FILES * (SIZE as u64 / 2048 + 1);
    assert!(
        reads + rest < all + 200 + 3 * sixteenth,
        "{reads} and {rest}"
    );
    assert!(rest + 2 * sixteenth < all, "{rest} of {all}");
}

/// Ten years of a board whose chip corrects `ecc` bits: each day a file is read ten times, another
/// is written anew, and a fourteenth of the chip is patrolled. Programs and erases.
fn ten_years(faults: Faults) -> (u64, u64) {
    // A quarter of the chip is in use.
    let mut chip = chip(2048, 24, 64, 64);
    // What the ECC corrects is asked once, at the mount.
    chip.set_faults(faults).unwrap();
    let mut fs = formatted(chip);
    let root = fs.root();
    let write = |fs: &mut Fs, n: u64| {
        let name = name(n);
        let known = fs.lookup(root, &name).map(|attr| attr.ino);
        let ino =
            known.unwrap_or_else(|_| fs.create(root, &name, &NewInode::default()).unwrap().ino);
        fs.write(ino, 0, &fill(n, 0, SIZE), NOW).unwrap();
        fs.fsync(ino).unwrap();
    };
    for n in 0..FILES {
        write(&mut fs, n);
    }
    let before = fs.cost();
    let patrols = (fs.statfs().unwrap().blocks as u32).div_ceil(14);
    let mut data = vec![0; SIZE];
    for day in 0..10 * 365 {
        let read = path::resolve(&mut fs, &name(day % FILES)).unwrap().ino;
        for _ in 0..10 {
            assert_eq!(fs.read(read, 0, &mut data), Ok(SIZE), "day {day}");
        }
        // A quarter of the files changes; the others rest.
        write(&mut fs, day % (FILES / 4));
        fs.idle(24 * HOUR_MS).unwrap();
        for _ in 0..patrols {
            match fs.patrol().unwrap() {
                Patrol::Nothing => panic!("nothing to read"),
                Patrol::Read | Patrol::Done(None) => {}
                Patrol::Noted => clean(&mut fs),
                Patrol::Lost(what) | Patrol::Done(Some(what)) => panic!("day {day}: {what}"),
            }
        }
    }
    let cost = fs.cost() - before;
    assert_eq!(lost(&mut fs), 0);
    (cost.page_programs + cost.page_copies, cost.block_erases)
}

/// Where the ECC corrects one bit, every corrected read has its block written anew. What a data
/// sheet promises of such a chip is ten years with a bit in 512 bytes: one in 30 months a page.
#[test]
fn what_an_ecc_of_one_bit_costs() {
    let as_promised = |ecc| Faults {
        ecc,
        retention_ns: 912 * DAY_NS,
        read_disturb: 100_000,
        ..Faults::default()
    };
    let now_and_then = |ecc| Faults {
        ecc,
        bitflips: 1,
        bitflip_rate: Rate::NANDSIM_BITFLIPS,
        ..Faults::default()
    };
    let none = ten_years(Faults::default());
    let costs = [
        as_promised(8),
        as_promised(1),
        now_and_then(8),
        now_and_then(1),
    ]
    .map(ten_years);
    let none_is_moved = (95_936, 1_501);
    assert_eq!(none, none_is_moved);
    let as_promised = [none_is_moved, (99_504, 1_603)];
    let now_and_then = [none_is_moved, (240_550, 4_519)];
    assert_eq!(costs, [as_promised, now_and_then].concat()[..]);
}

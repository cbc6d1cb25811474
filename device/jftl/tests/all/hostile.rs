//! Words of the log, the anchors and other pages that nobody has written, sealed anew: whatever
//! they say, no call panics, none breaks the rules of the chip, and each ends. `FLASHKIT_FULL=1`
//! has more of them; a failure prints a seed, and `FLASHKIT_REPLAY=seed` repeats it.

use crate::common::{Model, Op, Setup, run, script, seeds, starts};
use flashkit_bytes::{crc32c, get_u32};
use flashkit_jftl::{Error, Jftl};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, CutError, EraseTear, PowerCut, Rng, Rot, SimNand, Tear};

/// Programs and erases that a session may take.
const OPS: u64 = 20_000;

struct Shown(u64, &'static str);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FLASHKIT_REPLAY={} ({})", self.0, self.1);
        }
    }
}

fn read(chip: &mut SimNand, page: PageAddr) -> Vec<u8> {
    let mut bytes = vec![0; chip.geometry().page_size() as usize];
    chip.read(page, 0, &mut bytes, &mut []).unwrap();
    bytes
}

/// How many bytes of a page the CRC in its second word is of, if it is one of the log or an anchor.
fn sealed(bytes: &[u8]) -> Option<usize> {
    let len = match &bytes[..4] {
        b"JFT1" => 48 + (get_u32(bytes, 20) >> 16) as usize,
        b"JFTA" => 52 + 4 * get_u32(bytes, 36) as usize,
        _ => return None,
    };
    (len <= bytes.len()).then_some(len)
}

/// Makes a word of a page another, and the page as if that had been written.
fn put(chip: &mut SimNand, page: PageAddr, at: usize, value: u32) {
    let old = read(chip, page);
    let mut new = old.clone();
    new[at..at + 4].copy_from_slice(&value.to_le_bytes());
    if let Some(len) = sealed(&new) {
        let crc = crc32c(&new[8..len]);
        new[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    for (offset, (old, new)) in old.iter().zip(&new).enumerate() {
        let (offset, mask) = (offset as u32, old ^ new);
        if mask != 0 {
            chip.rot(page, Rot::Silent { offset, mask }).unwrap();
        }
    }
}

/// A value that is likely to be believed, or to overflow.
fn value(rng: &mut Rng, old: u32, chip: &SimNand) -> u32 {
    let shape = chip.geometry();
    match rng.below(10) {
        0 => 0,
        1 => u32::MAX - rng.below(3) as u32,
        2 => old ^ 1 << rng.below(32),
        3 => old.wrapping_add(rng.below(5) as u32),
        4 => old.wrapping_sub(rng.below(5) as u32),
        5 => rng.below(u64::from(shape.blocks())) as u32,
        6 => rng.below(u64::from(shape.blocks())) as u32 | 1 << 31,
        7 => rng.below(u64::from(shape.pages())) as u32,
        8 => rng.below(64) as u32,
        _ => rng.below(1 << 32) as u32,
    }
}

/// A disk as the chip has it, and the pages of its log and its anchors.
fn start(setup: Setup, is_orderly: bool, bad: &[u32]) -> (SimNand, Vec<PageAddr>) {
    let mut chip = setup.formatted_with(bad);
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let sectors = disk.sector_count();
    let mut ops = script(4, sectors, sectors, 80);
    if is_orderly {
        ops.push(Op::Close);
    }
    run(&mut disk, &mut Model::new(sectors), &ops).unwrap();
    let pages = (0..chip.geometry().pages()).map(PageAddr);
    let pages = pages
        .filter(|page| sealed(&read(&mut chip, *page)).is_some())
        .collect();
    (chip, pages)
}

/// Mounts, and uses what there is; whether it could be mounted.
fn use_it(setup: Setup, chip: SimNand) -> bool {
    let cut = Cut {
        after: OPS,
        program: Tear::NotBegun,
        erase: EraseTear::NotBegun,
        seed: 0,
    };
    let mut nand = PowerCut::new(chip, cut);
    let mut is_mounted = false;
    for round in 0..2 {
        let mut ram = setup.ram();
        match Jftl::mount(&mut nand, &mut ram) {
            Ok(mut disk) => {
                is_mounted = true;
                let sectors = disk.sector_count();
                let mut bytes = vec![0; disk.sector_size() as usize];
                for sector in 0..sectors {
                    let _ = disk.read(sector, &mut bytes);
                }
                let mut ops = script(5 + round, sectors, 8, 30);
                ops.push(Op::Close);
                // Whatever it comes to.
                let _ = run(&mut disk, &mut Model::new(sectors), &ops);
            }
            Err(Error::Flash(CutError::PowerOff)) => panic!("a mount without end"),
            Err(_) => {}
        }
    }
    assert!(nand.ops() < OPS, "a session without end");
    is_mounted
}

#[test]
fn whatever_the_log_and_the_anchors_say_every_call_returns() {
    let starts = starts(start);
    let (mut mounted, seeds) = (0, seeds(600));
    for seed in seeds.clone() {
        let (setup, (chip, pages)) = &starts[seed as usize % starts.len()];
        let _shown = Shown(seed, setup.name);
        let (mut chip, mut rng) = (chip.clone(), Rng::new(seed));
        for _ in 0..=rng.below(3) {
            let page = if rng.one_in(4) {
                // One of data or of the map, most likely.
                PageAddr(rng.below(u64::from(chip.geometry().pages())) as u32)
            } else {
                pages[rng.below(pages.len() as u64) as usize]
            };
            let bytes = read(&mut chip, page);
            let words = if rng.one_in(2) { 11 } else { 30 };
            let at = 8 + 4 * rng.below(words) as usize;
            let new = value(&mut rng, get_u32(&bytes, at), &chip);
            put(&mut chip, page, at, new);
        }
        mounted += u64::from(use_it(*setup, chip));
    }
    let count = seeds.end - seeds.start;
    println!("{mounted} of {count} were mounted");
    assert!(count == 1 || mounted > count / 4, "{mounted}");
}

//! How fast the simulator is on this machine: a million programs of 2 KiB in RAM, reads, and
//! snapshots.

use std::hint::black_box;
use std::time::Instant;

use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{DEFAULT_PRESET, SimNand, preset};

fn main() {
    let preset = preset(DEFAULT_PRESET).expect("the default is a preset");
    let mut nand = SimNand::new(preset);
    let geometry = nand.geometry();
    let mut data = vec![0x5A; geometry.page_size() as usize];
    let spare = vec![0xA5; geometry.spare_size() as usize];
    const PAGES: u32 = 1_000_000;

    let start = Instant::now();
    for n in 0..PAGES {
        let page = PageAddr(n % geometry.pages());
        if geometry.index_of(page) == 0 {
            nand.erase(BlockAddr(geometry.block_of(page).0))
                .expect("RAM has no errors");
        }
        nand.program(page, &data, &spare)
            .expect("RAM has no errors");
    }
    println!("{PAGES} programs and their erases: {:.2?}", start.elapsed());

    let start = Instant::now();
    for n in 0..PAGES {
        let page = PageAddr(n % geometry.pages());
        nand.read(page, 0, &mut data, &mut [])
            .expect("RAM has no errors");
        black_box(&data);
    }
    println!("{PAGES} reads: {:.2?}", start.elapsed());

    let start = Instant::now();
    for _ in 0..1000 {
        black_box(nand.clone());
    }
    println!("1000 snapshots of a full chip: {:.2?}", start.elapsed());
}

//! Flash operations: paths cost no more than the calls below.

use crate::{formatted, mount, put};
use flashkit_flashlight_files::OpenOptions;
use flashkit_meter::Metered;

/// A record of a log: opened once, written and synced again and again.
#[test]
fn a_synced_append_is_one_program() {
    let (chip, mut room) = formatted();
    let mut fs = mount(chip, &mut room);
    fs.mkdir("logs").unwrap();
    put(&fs, "logs/boot", b"");
    fs.sync().unwrap();
    let before = fs.volume().nand().counters();
    let append = OpenOptions::new().append(true);
    let mut log = fs.open("logs/boot", append).unwrap();
    for _ in 0..8 {
        log.write(b"a line of a log\n").unwrap();
        log.sync().unwrap();
    }
    log.close().unwrap();
    let after = fs.volume().nand().counters();
    let reads = after.page_reads + after.spare_reads - before.page_reads - before.spare_reads;
    let programs = after.page_programs - before.page_programs;
    let erases = after.block_erases - before.block_erases;
    assert_eq!((reads, programs, erases), (0, 8, 0));
}

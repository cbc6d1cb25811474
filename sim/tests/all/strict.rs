//! Every promise of the NAND contract has a canary here that the chip must catch, and what the
//! contract allows passes.

use crate::common::{at, blank, block, chip, holds, read, write};
use flashkit_nand::{Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, EraseTear, Metered, SimError, SimNand, Tear, Tearable};

#[test]
fn a_new_chip_is_blank() {
    let mut nand = chip();
    assert!((0..128).all(|page| blank(&mut nand, PageAddr(page))));
    assert!(nand.bad_blocks().is_empty());
}

#[test]
fn programs_in_ascending_order_with_gaps() {
    let mut nand = chip();
    for index in [0, 1, 4, 7] {
        write(&mut nand, at(3, index));
    }
    for index in [0, 1, 4, 7] {
        assert!(holds(&mut nand, at(3, index)));
    }
    assert!(blank(&mut nand, at(3, 2)) && blank(&mut nand, at(2, 0)));
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Done);
    assert!((0..8).all(|index| blank(&mut nand, at(3, index))));
    write(&mut nand, at(3, 0));
}

#[test]
fn parts_of_a_page() {
    let mut nand = chip();
    nand.program(at(0, 0), b"hello", b"sp").unwrap();
    let (mut data, mut spare) = ([0; 6], [0; 3]);
    let status = nand.read(at(0, 0), 2, &mut data, &mut spare).unwrap();
    assert_eq!(
        (status, &data, &spare),
        (ReadStatus::Clean, b"llo\xFF\xFF\xFF", b"sp\xFF")
    );
    nand.read(at(0, 0), 510, &mut data[..2], &mut []).unwrap();
    assert_eq!(data[..2], [0xFF; 2]);
    nand.read(at(0, 0), 512, &mut [], &mut spare[..1]).unwrap();
    assert_eq!(spare[0], b's');
}

#[test]
#[should_panic(expected = "program of block 3, page 2: page 2 of the block was already attempted")]
fn catches_a_reprogram() {
    let mut nand = chip();
    write(&mut nand, at(3, 2));
    write(&mut nand, at(3, 2));
}

#[test]
#[should_panic(expected = "program of block 3, page 1: page 2 of the block was already attempted")]
fn catches_a_program_out_of_order() {
    let mut nand = chip();
    write(&mut nand, at(3, 2));
    write(&mut nand, at(3, 1));
}

#[test]
#[should_panic(expected = "program of block 0, page 4: page 4 of the block was already attempted")]
fn catches_a_reprogram_of_a_torn_page_that_looks_blank() {
    let mut nand = chip();
    let page = at(0, 4);
    nand.program_torn(page, b"x", &[], Tear::LooksBlank, 0)
        .unwrap();
    assert!(blank(&mut nand, page));
    write(&mut nand, page);
}

#[test]
#[should_panic(expected = "program of block 0, page 0: the block's last erase did not complete")]
fn catches_a_program_after_a_torn_erase() {
    let mut nand = chip();
    nand.erase_torn(block(0), EraseTear::LooksErased, 0)
        .unwrap();
    assert!(blank(&mut nand, at(0, 0)));
    write(&mut nand, at(0, 0));
}

#[test]
#[should_panic(expected = "program of block 5, page 0: the block is marked bad")]
fn catches_a_program_of_a_bad_block() {
    let mut nand = chip();
    nand.mark_bad(block(5)).unwrap();
    write(&mut nand, at(5, 0));
}

#[test]
#[should_panic(expected = "erase of block 5: the block is marked bad")]
fn catches_an_erase_of_a_bad_block() {
    let mut nand = chip();
    nand.mark_bad(block(5)).unwrap();
    let _ = nand.erase(block(5));
}

#[test]
#[should_panic(expected = "read of PageAddr(128): the chip has 128 pages")]
fn catches_a_read_out_of_range() {
    read(&mut chip(), PageAddr(128));
}

#[test]
#[should_panic(expected = "program of PageAddr(none): the chip has 128 pages")]
fn catches_a_program_out_of_range() {
    let _ = chip().program(PageAddr::NONE, &[], &[]);
}

#[test]
#[should_panic(expected = "erase of block 16: the chip has 16 blocks")]
fn catches_an_erase_out_of_range() {
    let _ = chip().erase(block(16));
}

#[test]
#[should_panic(expected = "bad-block query of block 16: the chip has 16 blocks")]
fn catches_a_query_out_of_range() {
    let _ = chip().is_bad(block(16));
}

#[test]
#[should_panic(expected = "bad-block mark of block 16: the chip has 16 blocks")]
fn catches_a_mark_out_of_range() {
    let _ = chip().mark_bad(block(16));
}

#[test]
#[should_panic(expected = "read of page 9: up to data byte 513 of a page of 512")]
fn catches_a_read_beyond_the_page() {
    let _ = chip().read(PageAddr(9), 510, &mut [0; 3], &mut []);
}

#[test]
#[should_panic(expected = "of a page of 512")]
fn catches_an_offset_that_overflows() {
    let _ = chip().read(PageAddr(9), u32::MAX, &mut [0; 3], &mut []);
}

#[test]
#[should_panic(expected = "read of page 9: 9 spare bytes, of which 8 are usable")]
fn catches_a_read_beyond_the_spare() {
    let _ = chip().read(PageAddr(9), 0, &mut [], &mut [0; 9]);
}

#[test]
#[should_panic(expected = "program of page 9: up to data byte 513 of a page of 512")]
fn catches_a_program_beyond_the_page() {
    let _ = chip().program(PageAddr(9), &[0; 513], &[]);
}

#[test]
#[should_panic(expected = "program of page 9: 9 spare bytes, of which 8 are usable")]
fn catches_a_program_beyond_the_spare() {
    let _ = chip().program(PageAddr(9), &[], &[0; 9]);
}

#[test]
#[should_panic(expected = "program of block 0, page 0: the block was never erased")]
fn catches_a_missing_first_erase_when_asked_to() {
    let mut nand = chip();
    nand.require_first_erase(true);
    nand.erase(block(1)).unwrap();
    write(&mut nand, at(1, 0));
    write(&mut nand, at(0, 0));
}

#[test]
fn bad_blocks_are_known_and_readable() {
    let mut nand = chip();
    write(&mut nand, at(5, 0));
    nand.mark_bad(block(5)).unwrap();
    nand.mark_bad(block(5)).unwrap();
    nand.mark_bad(block(15)).unwrap();
    assert!(nand.is_bad(block(5)).unwrap() && !nand.is_bad(block(4)).unwrap());
    assert_eq!(nand.bad_blocks(), [block(5), block(15)]);
    assert!(holds(&mut nand, at(5, 0)));
}

#[test]
fn clock_and_counters() {
    let mut nand = chip();
    write(&mut nand, at(0, 0));
    read(&mut nand, at(0, 0));
    nand.read(at(0, 0), 0, &mut [], &mut [0; 8]).unwrap();
    nand.is_bad(block(0)).unwrap();
    nand.mark_bad(block(9)).unwrap();
    nand.flush().unwrap();
    let before = nand.counters();
    let expected = Counters {
        page_reads: 1,
        spare_reads: 1,
        page_programs: 1,
        page_copies: 0,
        block_erases: 0,
        time_ns: 120,
        bus_ns: 0,
        bus_bytes: 0,
    };
    assert_eq!(before, expected);

    nand.erase(block(2)).unwrap();
    nand.erase(block(2)).unwrap();
    nand.idle(7);
    let cost = nand.counters() - before;
    assert_eq!(
        (cost.block_erases, cost.time_ns, cost.page_programs),
        (2, 2007, 0)
    );
    assert_eq!(nand.erase_counts()[..4], [0, 0, 2, 0]);

    nand.clear_counters();
    assert_eq!(nand.counters(), Counters::default());
    assert_eq!((nand.now_ns(), nand.erase_counts()[2]), (2127, 2));
}

#[test]
fn no_power_no_answer() {
    let mut nand = chip();
    nand.set_power(false);
    let mut byte = [0];
    assert_eq!(
        nand.read(at(0, 0), 0, &mut byte, &mut []),
        Err(SimError::PowerOff)
    );
    assert_eq!(nand.program(at(0, 0), &byte, &[]), Err(SimError::PowerOff));
    assert_eq!(nand.erase(block(0)), Err(SimError::PowerOff));
    assert_eq!(nand.is_bad(block(0)), Err(SimError::PowerOff));
    assert_eq!(nand.mark_bad(block(0)), Err(SimError::PowerOff));
    assert_eq!(nand.flush(), Err(SimError::PowerOff));
    nand.set_power(true);
    assert_eq!(nand.counters(), Counters::default());
    write(&mut nand, at(0, 0));
}

#[test]
fn clones_part_ways() {
    let mut nand = chip();
    write(&mut nand, at(0, 0));
    write(&mut nand, at(1, 0));
    let mut copy = nand.clone();
    write(&mut nand, at(0, 1));
    nand.erase(block(1)).unwrap();
    copy.mark_bad(block(0)).unwrap();
    write(&mut copy, at(1, 1));

    assert!(holds(&mut nand, at(0, 1)) && blank(&mut nand, at(1, 0)));
    assert!(nand.bad_blocks().is_empty());
    assert!(blank(&mut copy, at(0, 1)) && holds(&mut copy, at(1, 0)) && holds(&mut copy, at(1, 1)));
    assert_eq!((nand.erase_counts()[1], copy.erase_counts()[1]), (1, 0));
}

#[test]
fn a_reference_is_metered_too() {
    fn programs<N: Nand + Metered>(mut nand: N) -> u64 {
        nand.idle(1);
        nand.program(PageAddr(0), &[], &[]).unwrap();
        nand.counters().page_programs + u64::from(nand.erase_counts()[0])
    }
    let mut nand: SimNand = chip();
    assert_eq!(programs(&mut nand), 1);
    assert_eq!(nand.now_ns(), 101);
}

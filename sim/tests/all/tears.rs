//! What each tear leaves behind.

use crate::common::{at, blank, block, chip, content, dump, holds, lost, read, write};
use flashkit_nand::{Nand, OpStatus, ReadStatus};
use flashkit_sim::{EraseTear, Metered, SimNand, Tear, Tearable};

/// A chip on which page (1, 1) was torn after a good page (1, 0).
fn torn(tear: Tear, seed: u64) -> SimNand {
    let mut nand = chip();
    write(&mut nand, at(1, 0));
    let page = at(1, 1);
    nand.program_torn(page, &content(page), &page.0.to_le_bytes(), tear, seed)
        .unwrap();
    assert!(
        holds(&mut nand, at(1, 0)),
        "earlier pages keep their contents"
    );
    assert_eq!(nand.counters().page_programs, 2);
    nand
}

#[test]
fn not_begun_can_be_programmed() {
    let mut nand = torn(Tear::NotBegun, 0);
    assert!(blank(&mut nand, at(1, 1)));
    write(&mut nand, at(1, 1));
    assert!(holds(&mut nand, at(1, 1)));
}

#[test]
fn complete_is_complete() {
    assert!(holds(&mut torn(Tear::Complete, 0), at(1, 1)));
    assert!(holds(&mut torn(Tear::Prefix(516), 0), at(1, 1)));
}

#[test]
fn blank_and_garbage() {
    assert!(blank(&mut torn(Tear::LooksBlank, 0), at(1, 1)));
    assert!(blank(&mut torn(Tear::Prefix(0), 0), at(1, 1)));
    let mut nand = torn(Tear::Garbage, 0);
    assert!((0..5).all(|_| lost(&mut nand, at(1, 1))));
    nand.erase(block(1)).unwrap();
    assert!(blank(&mut nand, at(1, 1)));
}

#[test]
fn a_prefix_is_that_or_uncorrectable() {
    let expected = content(at(1, 1));
    for n in [1u32, 100, 511, 512, 514] {
        let (mut readable, mut unreadable) = (0, 0);
        for seed in 0..50 {
            let (status, data, spare) = read(&mut torn(Tear::Prefix(n), seed), at(1, 1));
            if status == ReadStatus::Uncorrectable {
                unreadable += 1;
                continue;
            }
            readable += 1;
            let n = n as usize;
            let cut = n.min(512);
            assert_eq!(data[..cut], expected[..cut]);
            assert!(data[cut..].iter().all(|byte| *byte == 0xFF));
            let mut spare_expected = [0xFF; 8];
            let spare_bytes = n.saturating_sub(512);
            let number = at(1, 1).0.to_le_bytes();
            spare_expected[..spare_bytes].copy_from_slice(&number[..spare_bytes]);
            assert_eq!(spare, spare_expected);
        }
        assert!(readable > 10 && unreadable > 10);
    }
}

#[test]
fn a_random_tear_lacks_some_bits_or_is_uncorrectable() {
    let expected = content(at(1, 1));
    let (mut readable, mut unreadable) = (0, 0);
    for seed in 0..50 {
        let (status, data, _) = read(&mut torn(Tear::Random, seed), at(1, 1));
        if status == ReadStatus::Uncorrectable {
            unreadable += 1;
            continue;
        }
        readable += 1;
        assert!(
            data.iter()
                .zip(&expected)
                .all(|(torn, full)| torn & full == *full)
        );
        assert!(data != expected && data.iter().any(|byte| *byte != 0xFF));
    }
    assert!(readable > 10 && unreadable > 10);
}

#[test]
fn unstable_pages_turn_for_good() {
    let mut nand = torn(Tear::Unstable { reads: 3 }, 0);
    let mut copy = nand.clone();
    assert!((0..3).all(|_| holds(&mut nand, at(1, 1))));
    assert!((0..9).all(|_| lost(&mut nand, at(1, 1))));
    assert!(holds(&mut copy, at(1, 1)), "a snapshot has its own reads");
    nand.erase(block(1)).unwrap();
    write(&mut nand, at(1, 1));
    assert!((0..9).all(|_| holds(&mut nand, at(1, 1))));
    assert!(lost(&mut torn(Tear::Unstable { reads: 0 }, 0), at(1, 1)));
    let mut longest = torn(Tear::Unstable { reads: u32::MAX }, 0);
    assert!((0..127).all(|_| holds(&mut longest, at(1, 1))));
    assert!(lost(&mut longest, at(1, 1)));
}

#[test]
fn pages_fade_settle_and_stay_mixed_for_a_while() {
    let mut nand = torn(Tear::UnstableBlank { reads: 3 }, 0);
    assert!((0..3).all(|_| blank(&mut nand, at(1, 1))));
    assert!((0..9).all(|_| lost(&mut nand, at(1, 1))));
    let mut nand = torn(Tear::Late { reads: 3 }, 0);
    assert!((0..3).all(|_| lost(&mut nand, at(1, 1))));
    assert!((0..9).all(|_| holds(&mut nand, at(1, 1))));
    let mut nand = torn(Tear::Fitful { late: 2, reads: 3 }, 0);
    assert!((0..2).all(|_| lost(&mut nand, at(1, 1))));
    assert!((0..8).all(|_| holds(&mut nand, at(1, 1))));
    assert!((0..9).all(|_| lost(&mut nand, at(1, 1))));
    let mut nand = torn(Tear::UnstableMixed { reads: 3 }, 0);
    assert!(!blank(&mut nand, at(1, 1)) && !holds(&mut nand, at(1, 1)));
    assert!(!lost(&mut nand, at(1, 1)));
    assert!(lost(&mut nand, at(1, 1)));
}

#[test]
fn what_is_not_settled_ends_either_way() {
    let fitful = Tear::Fitful { late: 1, reads: 1 };
    for tear in [Tear::Unstable { reads: 3 }, Tear::Late { reads: 3 }, fitful] {
        let (mut well, mut ill) = (torn(tear, 0), torn(tear, 0));
        assert!(well.settle(true).unwrap() && ill.settle(false).unwrap());
        assert!((0..9).all(|_| holds(&mut well, at(1, 1)) && lost(&mut ill, at(1, 1))));
        assert!(!well.settle(true).unwrap());
    }
    let mut nand = torn(Tear::UnstableBlank { reads: 1 }, 0);
    assert!(nand.settle(true).unwrap());
    assert!((0..9).all(|_| blank(&mut nand, at(1, 1))));
}

/// Old pages stay for good or for a while, or become mixtures; the next erase makes an end of that.
#[test]
fn a_torn_erase_leaves_mixtures() {
    let (mut kept, mut turned, mut mixed) = (0, 0, 0);
    for seed in 0..60 {
        let mut nand = torn_erase(EraseTear::Mixed, seed);
        for index in 0..4 {
            let mut data = vec![0; 16];
            let status = nand.read(at(1, index), 0, &mut data, &mut []).unwrap();
            let held = holds(&mut nand, at(1, index));
            match (0..9).all(|_| holds(&mut nand, at(1, index))) {
                true => kept += 1,
                false if held => turned += 1,
                false if status.is_readable() && data.iter().any(|&b| b != 0xFF) => mixed += 1,
                false => {}
            }
        }
        nand.erase(block(1)).unwrap();
        write(&mut nand, at(1, 0));
    }
    assert!(
        kept > 10 && turned > 10 && mixed > 10,
        "{kept} {turned} {mixed}"
    );
}

/// A chip on which the erase of block 1, half full, was torn.
fn torn_erase(tear: EraseTear, seed: u64) -> SimNand {
    let mut nand = chip();
    (0..4).for_each(|index| write(&mut nand, at(1, index)));
    write(&mut nand, at(2, 0));
    nand.erase_torn(block(1), tear, seed).unwrap();
    assert!(
        holds(&mut nand, at(2, 0)),
        "other blocks keep their contents"
    );
    assert_eq!(nand.counters().block_erases, 1);
    nand
}

#[test]
fn an_erase_not_begun_leaves_everything() {
    let mut nand = torn_erase(EraseTear::NotBegun, 0);
    assert!((0..4).all(|index| holds(&mut nand, at(1, index))));
    write(&mut nand, at(1, 4));
    assert_eq!(nand.erase_counts()[1], 0);
}

#[test]
fn a_complete_erase_leaves_nothing() {
    let mut nand = torn_erase(EraseTear::Complete, 0);
    assert!((0..8).all(|index| blank(&mut nand, at(1, index))));
    write(&mut nand, at(1, 0));
    assert_eq!(nand.erase_counts()[1], 1);
}

#[test]
fn a_partial_erase_leaves_a_mixture() {
    let (mut old, mut erased, mut garbage) = (0, 0, 0);
    for seed in 0..20 {
        let mut nand = torn_erase(EraseTear::Partial, seed);
        for index in 0..4 {
            old += u32::from(holds(&mut nand, at(1, index)));
            erased += u32::from(blank(&mut nand, at(1, index)));
            garbage += u32::from(lost(&mut nand, at(1, index)));
        }
        assert_eq!(nand.erase(block(1)).unwrap(), OpStatus::Done);
        write(&mut nand, at(1, 0));
    }
    assert_eq!(old + erased + garbage, 80);
    assert!(old > 10 && erased > 10 && garbage > 10);
}

#[test]
#[should_panic(expected = "the block's last erase did not complete")]
fn a_partial_erase_must_be_repeated() {
    let mut nand = torn_erase(EraseTear::Partial, 0);
    write(&mut nand, at(1, 7));
}

#[test]
fn a_block_that_looks_erased_does_not_stay_so() {
    let mut nand = torn_erase(EraseTear::LooksErased, 0);
    for index in 0..8 {
        assert!(blank(&mut nand, at(1, index)));
        let more = (0..9)
            .take_while(|_| blank(&mut nand, at(1, index)))
            .count();
        assert!(more <= 2);
        assert!((0..5).all(|_| lost(&mut nand, at(1, index))));
    }
    nand.erase(block(1)).unwrap();
    assert!((0..5).all(|_| blank(&mut nand, at(1, 0))));
    write(&mut nand, at(1, 0));
}

#[test]
fn equal_seeds_tear_alike() {
    for seed in 0..10 {
        assert_eq!(
            dump(&mut torn(Tear::Random, seed)),
            dump(&mut torn(Tear::Random, seed))
        );
        let partial = |seed| dump(&mut torn_erase(EraseTear::Partial, seed));
        assert_eq!(partial(seed), partial(seed));
        assert_ne!(partial(seed), partial(seed + 100));
    }
}

//! Each fault happens when asked for, as often as asked for, and never otherwise.

use crate::common::{
    self, at, blank, block, chip, content, faulty, holds, lost, read, status, write,
};
use flashkit_nand::ReadStatus::{Clean, Corrected, Uncorrectable};
use flashkit_nand::{Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Access, Faults, Metered, Rot, SimError, SimNand, preset};

#[test]
fn none_by_default() {
    let mut nand = faulty("");
    for b in 0..16 {
        for _ in 0..100 {
            assert_eq!(nand.erase(block(b)).unwrap(), OpStatus::Done);
            (0..8).for_each(|index| write(&mut nand, at(b, index)));
            assert_eq!(status(&mut nand, at(b, 3)), Clean);
        }
        nand.idle(1 << 50);
        assert_eq!(status(&mut nand, at(b, 3)), Clean);
    }
}

#[test]
fn the_clock_stops_at_its_end() {
    let mut nand = faulty("retention=3600000;bitflips=4;bitfliprate=1/64");
    write(&mut nand, at(0, 0));
    for ns in [u64::MAX, 1, u64::MAX] {
        nand.idle(ns);
        let _ = status(&mut nand, at(0, 0));
        assert_eq!(nand.now_ns(), u64::MAX);
        assert_eq!(nand.counters().time_ns, u64::MAX);
    }
}

#[test]
fn factory_bad_blocks_by_list() {
    let mut nand = faulty("badblocks=0,7");
    assert_eq!(nand.bad_blocks(), [block(0), block(7)]);
    assert!(lost(&mut nand, at(7, 2)) && blank(&mut nand, at(6, 2)));
}

#[test]
#[should_panic(expected = "the block is marked bad")]
fn factory_bad_blocks_are_out_of_bounds() {
    let _ = faulty("badblocks=0").erase(block(0));
}

#[test]
fn factory_bad_blocks_by_chance() {
    let bad = |seed: u64| {
        let mut nand = SimNand::new(preset("slc-256m").unwrap());
        nand.program(PageAddr(0), &[], &[]).unwrap();
        nand.set_faults(Faults::parse(&format!("badrate=1/50;seed={seed}")).unwrap())
            .unwrap();
        nand.bad_blocks()
    };
    assert!((20..65).contains(&bad(1).len()), "{}", bad(1).len());
    assert_eq!(bad(1), bad(1));
    assert_ne!(bad(1), bad(2));
    let mut used = chip();
    write(&mut used, at(3, 0));
    used.set_faults(Faults::parse("badrate=1/1").unwrap())
        .unwrap();
    assert_eq!(used.bad_blocks().len(), 15);
    assert!(holds(&mut used, at(3, 0)));
}

#[test]
fn lists_beyond_the_chip_are_refused() {
    let refuse = |text: &str| {
        let error = chip().set_faults(Faults::parse(text).unwrap()).unwrap_err();
        assert!(matches!(error, SimError::Faults(_)));
        error.to_string()
    };
    assert_eq!(
        refuse("badblocks=3,16"),
        "badblocks: no block 16 on a chip of 16 blocks"
    );
    assert_eq!(
        refuse("gravepages=128:1"),
        "gravepages: no page 128 on a chip of 128 pages"
    );
}

#[test]
fn bit_flips_are_corrected_up_to_the_strength() {
    let mut nand = faulty("bitflips=12;bitfliprate=1/2;ecc=8");
    write(&mut nand, at(0, 0));
    let (mut clean, mut corrected, mut uncorrectable) = (0, 0, 0);
    for _ in 0..1000 {
        let copy_is_right = holds(&mut nand.clone(), at(0, 0));
        match status(&mut nand, at(0, 0)) {
            Clean => clean += 1,
            Corrected(bits) => {
                assert!((1..=8).contains(&bits) && copy_is_right);
                corrected += 1;
            }
            Uncorrectable => {
                assert!(!copy_is_right);
                uncorrectable += 1;
            }
        }
    }
    assert!((400..600).contains(&clean), "{clean}");
    assert!((250..420).contains(&corrected), "{corrected}");
    assert!((100..230).contains(&uncorrectable), "{uncorrectable}");
    assert!(
        blank(&mut nand, at(0, 1)),
        "an erased page has no bits to flip"
    );
}

#[test]
fn uncorrectable_reads_pass() {
    let mut nand = faulty("uncorrectable=1/10");
    write(&mut nand, at(0, 0));
    let lost = (0..1000).filter(|_| lost(&mut nand, at(0, 0))).count();
    assert!((60..140).contains(&lost), "{lost}");
    nand.set_faults(Faults::default()).unwrap();
    assert!(holds(&mut nand, at(0, 0)));
}

#[test]
fn programs_fail_by_chance_and_the_block_stays_failing() {
    let mut nand = faulty("programfail=1/20;seed=5");
    let mut failed = None;
    'chip: for b in 0..16 {
        for index in 0..8 {
            if nand.program(at(b, index), b"x", &[]).unwrap() == OpStatus::Failed {
                failed = Some((b, index));
                break 'chip;
            }
        }
    }
    let (b, index) = failed.unwrap();
    // What the failed page holds, nobody can say.
    assert!((0..index).all(|good| !lost(&mut nand, at(b, good))));
    assert!(!nand.is_bad(block(b)).unwrap());
    nand.set_faults(Faults::default()).unwrap();
    assert_eq!(nand.erase(block(b)).unwrap(), OpStatus::Failed);
    nand.mark_bad(block(b)).unwrap();
}

#[test]
#[should_panic(expected = "program of block 0, page 0: page 0 of the block was already attempted")]
fn a_failed_program_is_an_attempt() {
    let mut nand = faulty("programfail=1/1");
    assert_eq!(nand.program(at(0, 0), b"x", &[]).unwrap(), OpStatus::Failed);
    let _ = nand.program(at(0, 0), b"x", &[]);
}

#[test]
fn a_failed_program_leaves_anything() {
    let mut nand = faulty("programfail=1/1;seed=3");
    let (mut whole, mut blank, mut gone, mut mixed) = (0, 0, 0, 0);
    for b in 0..16 {
        for index in 0..8 {
            assert_eq!(
                nand.program(at(b, index), b"x", &[]).unwrap(),
                OpStatus::Failed
            );
            let mut data = [0; 2];
            match nand.read(at(b, index), 0, &mut data, &mut []).unwrap() {
                ReadStatus::Clean if data == *b"x\xFF" => whole += 1,
                ReadStatus::Clean if data == [0xFF; 2] => blank += 1,
                ReadStatus::Clean => mixed += 1,
                _ => gone += 1,
            }
        }
    }
    assert!(
        [whole, blank, gone, mixed].iter().all(|&n| n > 5),
        "{whole} {blank} {gone} {mixed}"
    );
}

#[test]
fn a_block_that_has_failed_may_do_well_again() {
    let mut nand = faulty("weakblocks=3:0;failagain=1/3;seed=2");
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Failed);
    let failed = (0..300)
        .filter(|_| nand.erase(block(3)).unwrap() == OpStatus::Failed)
        .count();
    assert!((70..130).contains(&failed), "{failed}");
}

#[test]
fn no_more_blocks_begin_to_fail_than_may() {
    let mut nand = faulty("erasefail=1/2;failingmax=3");
    for _ in 0..20 {
        for b in 0..16 {
            let _ = nand.erase(block(b)).unwrap();
        }
    }
    let failed = (0..16)
        .filter(|&b| nand.erase(block(b)).unwrap() == OpStatus::Failed)
        .count();
    assert_eq!(failed, 3);
}

#[test]
fn weak_pages_fail_after_their_good_programs() {
    let mut nand = faulty("weakpages=10:2;seed=10");
    for _ in 0..2 {
        write(&mut nand, PageAddr(10));
        nand.erase(block(1)).unwrap();
    }
    write(&mut nand, PageAddr(9));
    assert_eq!(
        nand.program(PageAddr(10), b"x", &[]).unwrap(),
        OpStatus::Failed
    );
    assert!(lost(&mut nand, PageAddr(10)) && holds(&mut nand, PageAddr(9)));
    assert_eq!(
        nand.program(PageAddr(11), b"x", &[]).unwrap(),
        OpStatus::Failed
    );
}

#[test]
fn weak_blocks_fail_after_their_good_erases() {
    let mut nand = faulty("weakblocks=3:2");
    write(&mut nand, at(4, 0));
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Done);
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Done);
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Failed);
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Failed);
    assert_eq!(nand.erase(block(4)).unwrap(), OpStatus::Done);
}

#[test]
#[should_panic(expected = "the block's last erase did not complete")]
fn no_program_after_a_failed_erase() {
    let mut nand = faulty("erasefail=1/1");
    assert_eq!(nand.erase(block(3)).unwrap(), OpStatus::Failed);
    let _ = nand.program(at(3, 0), b"x", &[]);
}

#[test]
fn erases_fail_by_chance() {
    let mut nand = faulty("erasefail=1/10");
    let mut failed = 0;
    for b in 0..16 {
        for _ in 0..5 {
            if nand.erase(block(b)).unwrap() == OpStatus::Failed {
                failed += 1;
                break;
            }
        }
    }
    assert!((2..13).contains(&failed), "{failed}");
}

#[test]
fn blocks_wear_out_at_the_endurance_limit() {
    let mut nand = faulty("endurance=100");
    for _ in 0..100 {
        assert_eq!(nand.erase(block(2)).unwrap(), OpStatus::Done);
    }
    assert_eq!(nand.erase(block(2)).unwrap(), OpStatus::Failed);
    assert_eq!(nand.erase(block(1)).unwrap(), OpStatus::Done);
    assert_eq!(nand.erase_counts()[2], 101);
}

#[test]
fn grave_pages_lose_their_data() {
    let mut nand = faulty("gravepages=9:2");
    write(&mut nand, PageAddr(9));
    write(&mut nand, PageAddr(10));
    assert!(holds(&mut nand, PageAddr(9)) && holds(&mut nand, PageAddr(9)));
    assert!(lost(&mut nand, PageAddr(9)) && lost(&mut nand, PageAddr(9)));
    assert!(holds(&mut nand, PageAddr(10)));
    nand.erase(block(1)).unwrap();
    write(&mut nand, PageAddr(9));
    assert!(holds(&mut nand, PageAddr(9)));
}

#[test]
fn reads_disturb_their_block_until_it_is_erased() {
    let mut nand = faulty("readdisturb=10;ecc=3");
    write(&mut nand, at(0, 0));
    write(&mut nand, at(0, 1));
    write(&mut nand, at(1, 0));
    for n in 1..40 {
        let expected = if n < 10 { Clean } else { Corrected(n / 10) };
        assert_eq!(status(&mut nand, at(0, 0)), expected, "read {n}");
    }
    assert!(lost(&mut nand, at(0, 1)), "its neighbour suffers");
    assert_eq!(status(&mut nand, at(1, 0)), Clean);
    nand.erase(block(0)).unwrap();
    write(&mut nand, at(0, 1));
    assert_eq!(status(&mut nand, at(0, 1)), Clean);
}

#[test]
fn bits_rot_with_virtual_time() {
    let mut nand = faulty("retention=1;ecc=2");
    write(&mut nand, at(0, 0));
    assert_eq!(status(&mut nand, at(0, 0)), Clean);
    nand.idle(1_000_000);
    write(&mut nand, at(0, 1));
    assert_eq!(status(&mut nand, at(0, 0)), Corrected(1));
    assert_eq!(status(&mut nand, at(0, 1)), Clean);
    nand.idle(1_000_000);
    assert_eq!(status(&mut nand, at(0, 0)), Corrected(2));
    nand.idle(1_000_000);
    assert!(lost(&mut nand, at(0, 0)));
    assert_eq!(status(&mut nand, at(0, 1)), Corrected(2));
}

#[test]
fn equal_seeds_fail_alike() {
    let run = |text: &str| {
        let mut nand = faulty(text);
        let fate = |page| nand.program(PageAddr(page), b"x", &[]).unwrap();
        (0..128).map(fate).collect::<Vec<_>>()
    };
    assert_eq!(
        run("programfail=1/30;seed=1"),
        run("programfail=1/30;seed=1")
    );
    assert_ne!(
        run("programfail=1/30;seed=1"),
        run("programfail=1/30;seed=2")
    );
}

#[test]
fn a_page_rots_where_it_is_told_to() {
    let mut nand = chip();
    (0..4).for_each(|index| write(&mut nand, at(2, index)));
    let before = nand.counters();
    assert!(nand.rot(at(2, 1), Rot::Lost).unwrap());
    let flip = Rot::Silent {
        offset: 100,
        mask: 0x42,
    };
    assert!(nand.rot(at(2, 2), flip).unwrap());
    let flip_spare = Rot::Silent {
        offset: 512 + 3,
        mask: 1,
    };
    assert!(nand.rot(at(2, 3), flip_spare).unwrap());
    assert!(!nand.rot(at(2, 4), Rot::Lost).unwrap(), "it holds nothing");
    assert!(
        !nand.rot(at(2, 1), flip).unwrap(),
        "it holds nothing any more"
    );
    assert_eq!(nand.counters(), before);
    assert!(holds(&mut nand, at(2, 0)) && lost(&mut nand, at(2, 1)));
    let (state, data, spare) = read(&mut nand, at(2, 2));
    let mut due = content(at(2, 2));
    due[100] ^= 0x42;
    assert_eq!((state, data, spare[0]), (Clean, due, at(2, 2).0 as u8));
    let (state, data, spare) = read(&mut nand, at(2, 3));
    assert_eq!((state, data, spare[3]), (Clean, content(at(2, 3)), 1));
    nand.erase(block(2)).unwrap();
    write(&mut nand, at(2, 1));
    assert!(holds(&mut nand, at(2, 1)));
}

#[test]
fn rot_stays_in_an_image_and_in_no_snapshot_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.img");
    let mut nand = SimNand::create(&path, common::spec()).unwrap();
    write(&mut nand, at(1, 0));
    write(&mut nand, at(1, 1));
    let mut sound = nand.snapshot().unwrap();
    nand.rot(at(1, 0), Rot::Lost).unwrap();
    let flip = Rot::Silent { offset: 0, mask: 1 };
    nand.rot(at(1, 1), flip).unwrap();
    assert!(holds(&mut sound, at(1, 0)) && holds(&mut sound, at(1, 1)));
    drop(nand);
    let mut nand = SimNand::open(&path, Access::ReadWrite).unwrap();
    assert!(lost(&mut nand, at(1, 0)));
    assert_eq!(read(&mut nand, at(1, 1)).1[0], content(at(1, 1))[0] ^ 1);
}

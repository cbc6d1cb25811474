//! A page that cannot be read, whichever it is: the disk is there all the same, and no sector
//! holds what it never held.

use std::fmt::Debug;

use crate::common::{self, Model, SETUPS, Setup, apply, content, run, script};
use crate::failing::Failing;
use flashkit_jftl::{Damage, Error, Jftl};
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{Cut, EraseTear, Faults, Metered, PowerCut, Rate, Rng, Rot, SimNand, Tear};

/// Setups whose RAM has the whole map.
fn setups() -> impl Iterator<Item = Setup> {
    SETUPS
        .into_iter()
        .filter(|setup| setup.cache == common::SETUPS[0].cache)
}

/// A disk with a history, and what each sector may hold without its last flush.
fn disk(setup: Setup, orderly: bool) -> (SimNand, Vec<u32>) {
    let (mut chip, mut ram) = (setup.formatted(), setup.ram());
    let mut model = Model::new(setup.sectors());
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let ops = script(3, setup.sectors(), setup.sectors() * 3 / 4, 400);
    run(&mut disk, &mut model, &ops).unwrap();
    disk.flush().unwrap();
    if orderly {
        disk.close().unwrap();
    }
    let len = disk.sector_size() as usize;
    let sectors = disk.sector_count();
    let mut newest = Vec::new();
    for sector in 0..sectors {
        let mut bytes = vec![0; len];
        disk.read(sector, &mut bytes).unwrap();
        let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(bytes, content(sector, version, len));
        newest.push(version);
    }
    (chip, newest)
}

/// What a mount finds: sectors that hold an older version, and such as cannot be read.
fn look<N: Nand<Error: Debug>>(
    setup: Setup,
    chip: &mut N,
    newest: &[u32],
    id: &str,
) -> (bool, u32, u32) {
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap_or_else(|e| panic!("{id}: {e:?}"));
    let (mut old, mut lost) = (0, 0);
    let len = disk.sector_size() as usize;
    for (sector, newest) in (0..).zip(newest) {
        let mut bytes = vec![0; len];
        match disk.read(sector, &mut bytes) {
            Ok(()) => {}
            Err(Error::Unreadable { .. }) => {
                lost += 1;
                continue;
            }
            // After an orderly end the map is read when it is asked for.
            Err(Error::Damaged {
                what: "a page of the map",
                ..
            }) => continue,
            Err(e) => panic!("{id}: sector {sector}: {e:?}"),
        }
        let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let held = content(sector, version, len);
        assert!(bytes == held, "{id}: sector {sector} holds another's");
        old += u32::from(version != *newest);
    }
    (disk.damage().is_some(), old, lost)
}

#[test]
fn no_page_that_is_lost_refuses_the_disk() {
    for setup in setups() {
        for orderly in [true, false] {
            let (chip, newest) = disk(setup, orderly);
            let geometry = chip.geometry();
            let (mut salvaged, mut silent) = (0, Vec::new());
            for page in 0..geometry.pages() {
                let mut chip = chip.clone();
                if !chip.rot(PageAddr(page), Rot::Lost).unwrap() {
                    continue;
                }
                let id = format!("{} orderly {orderly} page {page}", setup.name);
                let (damaged, old, lost) = look(setup, &mut chip, &newest, &id);
                salvaged += u32::from(damaged);
                if !damaged {
                    // Data that nothing else is made of.
                    assert!(lost <= 1, "{id}: {lost} sectors are lost");
                    if old > 0 {
                        silent.push((page, old));
                    }
                }
            }
            println!(
                "{} orderly {orderly}: {salvaged} for reading alone, {silent:?}",
                setup.name
            );
            assert!(salvaged > 0);
            // The newest page of the log, and the newest anchor, look as if a cut had torn them.
            assert!(silent.len() <= usize::from(!orderly), "{silent:?}");
        }
    }
}

/// No page can be read for a while, as with a supply too low or the wrong ECC: who is told then
/// that there is no disk formats the chip, and everything is lost.
#[test]
fn a_chip_that_cannot_be_read_is_not_called_unformatted() {
    for setup in SETUPS {
        let (mut chip, mut ram) = (setup.chip(), setup.ram());
        let says = |chip: &mut SimNand, ram: &mut [u8]| Jftl::mount(chip, ram).map(drop);
        assert_eq!(says(&mut chip, &mut ram), Err(Error::NotFormatted));
        let (mut chip, _) = disk(setup, true);
        let unreadable = Faults {
            uncorrectable: Rate(1),
            ..Faults::default()
        };
        chip.set_faults(unreadable).unwrap();
        let refused = says(&mut chip, &mut ram).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
        chip.set_faults(Faults::default()).unwrap();
        assert_eq!(says(&mut chip, &mut ram), Ok(()));
    }
}

/// An anchor is there, and what it leads to cannot be read, for a while or for good: the first
/// pages of all blocks of the log, or all of its pages. There was a disk, and who is told that
/// there is none formats the chip.
#[test]
fn a_disk_whose_log_cannot_be_read_is_not_called_unformatted() {
    for (setup, orderly) in SETUPS.into_iter().flat_map(|s| [(s, true), (s, false)]) {
        for pages in [2, u32::MAX] {
            let (chip, _) = disk(setup, orderly);
            let per_block = chip.geometry().pages_per_block();
            let mut nand = Failing::new(chip, 0..0, 0..0);
            for page in (0..setup.blocks * per_block).map(PageAddr) {
                let mut magic = [0; 4];
                nand.nand.read(page, 0, &mut magic, &mut []).unwrap();
                if magic == *b"JFT1" && page.0 % per_block < pages {
                    nand.unreadable.push(page);
                }
            }
            let id = format!("{} orderly {orderly}, {pages} pages", setup.name);
            match Jftl::mount(&mut nand, &mut setup.ram()) {
                Ok(disk) => assert!(disk.damage().is_some(), "{id}"),
                Err(e) => assert!(matches!(e, Error::Damaged { .. }), "{id}: {e:?}"),
            }
            nand.unreadable.clear();
            let mut ram = setup.ram();
            let disk = Jftl::mount(&mut nand, &mut ram).expect(&id);
            assert_eq!(disk.damage(), None, "{id}");
        }
    }
}

/// The supply comes up slowly: the first reads of a mount are in vain, those after them are not.
#[test]
fn a_chip_whose_first_reads_fail_is_not_called_unformatted() {
    for setup in SETUPS {
        let (mut chip, mut ram) = (setup.formatted(), setup.ram());
        let op = common::Op::Write(0, 1, 9);
        apply(&mut Jftl::mount(&mut chip, &mut ram).unwrap(), &op).unwrap();
        for reads in 1..80 {
            let mut nand = Failing::new(chip.clone(), 0..0, 0..0);
            nand.blind = reads;
            let found = Jftl::mount(&mut nand, &mut ram).map(drop);
            let is_right = matches!(found, Ok(()) | Err(Error::Damaged { .. }));
            assert!(is_right, "{} {reads}: {found:?}", setup.name);
        }
    }
}

/// One read of a mount is in vain, whichever it is, and the next one of that page is not. Nothing
/// that was flushed is lost: the log must not be taken to end where it does not.
#[test]
fn a_read_of_a_mount_that_fails_once_loses_nothing() {
    for setup in setups() {
        for orderly in [true, false] {
            let (chip, newest) = disk(setup, orderly);
            for read in 0.. {
                let id = format!("{} orderly {orderly}, read {read}", setup.name);
                let mut nand = Failing::new(chip.clone(), 0..0, 0..0);
                (nand.blind, nand.sees) = (1, read);
                let (mut ram, mut is_mounted) = (setup.ram(), false);
                if let Ok(mut disk) = Jftl::mount(&mut nand, &mut ram) {
                    is_mounted = disk.damage().is_none();
                    disk.nand_mut().blind *= 2;
                }
                let is_over = nand.blind == 2;
                nand.blind = 0;
                let (damaged, old, lost) = look(setup, &mut nand, &newest, &id);
                assert_eq!((damaged, old, lost), (false, 0, 0), "{id}, {is_mounted}");
                if is_over {
                    break;
                }
            }
        }
    }
}

/// Some pages of the log in a row are lost, and one behind them is not: the log does not end there,
/// and the disk can only be read. Were it to go on, what was flushed since would be lost.
#[test]
fn pages_of_the_log_that_are_lost_in_a_row_do_not_end_it() {
    for setup in setups() {
        let (chip, newest) = disk(setup, false);
        let geometry = chip.geometry();
        let mut reader = chip.clone();
        let mut is_log = |page: u32| {
            let mut magic = [0; 4];
            reader.read(PageAddr(page), 0, &mut magic, &mut []).unwrap();
            magic == *b"JFT1"
        };
        for first in 0..geometry.pages() - 3 {
            let block = |page: u32| geometry.block_of(PageAddr(page));
            for count in 2..4 {
                let behind = first + count;
                if block(first) != block(behind) || !(first..=behind).all(&mut is_log) {
                    continue;
                }
                let mut chip = chip.clone();
                for page in first..behind {
                    chip.rot(PageAddr(page), Rot::Lost).unwrap();
                }
                let id = format!("{}, {count} from {first}", setup.name);
                let (damaged, old, _) = look(setup, &mut chip, &newest, &id);
                assert!(
                    damaged || old == 0,
                    "{id}: {old} sectors are old, and nothing says so"
                );
            }
        }
    }
}

/// Power goes in the first format of a chip: it can be formatted still, by who does that when
/// there is no disk.
#[test]
fn a_first_format_that_is_cut_leaves_no_disk_or_a_whole_one() {
    for setup in SETUPS {
        for after in 0.. {
            let cut = Cut {
                after,
                program: Tear::Garbage,
                erase: EraseTear::Partial,
                seed: after,
            };
            let mut cut_chip = PowerCut::new(setup.chip(), cut);
            let formatted = Jftl::format(&mut cut_chip, &mut setup.ram(), 5).is_ok();
            let found = Jftl::mount(cut_chip.into_inner(), &mut setup.ram()).map(drop);
            let is_right = matches!(found, Ok(()) | Err(Error::NotFormatted));
            assert!(is_right, "{} {after}: {found:?}", setup.name);
            if formatted {
                break;
            }
        }
    }
}

#[test]
fn what_is_damaged_is_not_written_and_can_be_formatted() {
    let setup = SETUPS[0];
    let (chip, newest) = disk(setup, true);
    let damaged = (0..chip.geometry().pages()).find_map(|page| {
        let mut chip = chip.clone();
        chip.rot(PageAddr(page), Rot::Lost).unwrap();
        let (damaged, ..) = look(setup, &mut chip, &newest, "any");
        damaged.then_some(chip)
    });
    let mut chip = damaged.unwrap();
    let before = chip.counters().page_programs;
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let Some(Damage::Page { what, page }) = disk.damage() else {
        panic!("{:?}", disk.damage())
    };
    let refused = Error::Damaged { what, page };
    let op = common::Op::Write(0, 1, 9);
    assert_eq!(apply(&mut disk, &op), Err(refused.clone()));
    assert_eq!(disk.trim(0, 1), Err(refused.clone()));
    assert_eq!(disk.background(), Ok(false));
    disk.flush().unwrap();
    disk.close().unwrap();
    assert_eq!(chip.counters().page_programs, before);
    Jftl::format(&mut chip, &mut setup.ram(), 8).unwrap();
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    assert_eq!(disk.damage(), None);
    apply(&mut disk, &op).unwrap();
}

/// Sessions that are cut, all flushed. In the last one the program of the first anchor fails, and
/// leaves it all the same. What each sector holds.
fn life(setup: Setup, sessions: u32) -> (SimNand, Vec<u32>) {
    let (mut chip, mut ram, mut rng) = (setup.formatted(), setup.ram(), Rng::new(1));
    let mut newest = vec![0; setup.sectors() as usize];
    for session in 1..=sessions {
        let fails = u64::from(session == sessions);
        let mut nand = Failing::new(chip, 0..0, 1..1 + fails);
        nand.leaves = true;
        let mut disk = Jftl::mount(&mut nand, &mut ram).unwrap();
        for version in 150 * session..150 * (session + 1) {
            let sector = rng.below(200) as u32;
            apply(&mut disk, &common::Op::Write(sector, 1, version)).unwrap();
            disk.flush().unwrap();
            newest[sector as usize] = version;
        }
        chip = nand.nand;
    }
    (chip, newest)
}

/// Two blocks begin with the same anchor then: the newer ones are behind either. A disk that can
/// only be read has what was flushed since as well: all of it where no block is left to write to,
/// and all but what the lost page says where one page of the log is lost.
#[test]
fn an_anchor_whose_program_failed_hides_no_newer_ones() {
    let setup = Setup {
        pages: 16,
        blocks: 100,
        ..SETUPS[0]
    };
    for sessions in 1..9 {
        let (chip, newest) = life(setup, sessions);
        let id = format!("{sessions} sessions");
        let (damaged, old, lost) = look(setup, &mut chip.clone(), &newest, &id);
        assert_eq!((damaged, old, lost), (false, 0, 0), "{id}");
        let mut worn = Failing::new(chip.clone(), 0..u64::MAX, 0..0);
        let (damaged, old, lost) = look(setup, &mut worn, &newest, &id);
        assert_eq!((damaged, old, lost), (true, 0, 0), "{id}");
        for page in 0..chip.geometry().pages() {
            let (mut chip, mut magic) = (chip.clone(), [0; 4]);
            chip.read(PageAddr(page), 0, &mut magic, &mut []).unwrap();
            if magic == *b"JFT1" && chip.rot(PageAddr(page), Rot::Lost).unwrap() {
                let id = format!("{id}, page {page}");
                let (_, old, lost) = look(setup, &mut chip, &newest, &id);
                assert!(old + lost <= 4, "{id}: {old} old, {lost} lost");
            }
        }
    }
}

/// All is flushed, and after a cut no block can be erased any more: the mount says that nothing is
/// lost. Tags do not know whose all pages are: not of homes that were mapped to pages of a journal,
/// and where there are no spare bytes, not in blocks that the cut found open.
#[test]
fn a_disk_that_finds_no_block_has_all_that_it_held() {
    for setup in SETUPS.map(|s| Setup { blocks: 200, ..s }) {
        let (mut chip, mut ram) = (setup.formatted(), setup.ram());
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        let mut newest = vec![0; setup.sectors() as usize];
        for version in 1..4 {
            for sector in 0..100 {
                apply(&mut disk, &common::Op::Write(sector, 1, version)).unwrap();
                newest[sector as usize] = version;
            }
        }
        disk.flush().unwrap();
        let pairs: Vec<_> = (0..20).map(|i| (i, 100 + i)).collect();
        let homes: Vec<_> = (0..20).map(|i| (140 + i, i)).collect();
        let len = disk.sector_size() as usize;
        for (home, journal) in &pairs {
            disk.write(*journal, &content(*home, 9, len)).unwrap();
            newest[*home as usize] = 9;
        }
        disk.remap(&pairs, &[(100, 20)]).unwrap();
        disk.remap(&homes, &[]).unwrap();
        let mut worn = Failing::new(chip, 0..u64::MAX, 0..0);
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut worn, &mut ram).unwrap();
        assert_eq!(disk.damage(), Some(Damage::NoBlock), "{}", setup.name);
        for sector in 0..160 {
            let mut held = vec![0; len];
            disk.read(sector, &mut held).unwrap();
            let of = if sector < 140 { sector } else { sector - 140 };
            let right = content(of, newest[of as usize], len);
            assert!(held == right, "{}: sector {sector}", setup.name);
        }
        let refused = disk.write(0, &vec![1; len]);
        assert_eq!(refused, Err(Error::Full), "{}", setup.name);
        assert_eq!(disk.background(), Ok(false));
        disk.check().unwrap();
    }
}

/// A board without random numbers formats with the same number each time, or a block for anchors
/// has gone bad, and is not erased. In both cases a mount could find the disk of before.
#[test]
fn a_format_leaves_nothing_of_the_disk_before() {
    let setup = Setup {
        blocks: 100,
        ..SETUPS[1]
    };
    for (bad, number) in [(None, 7), (Some(BlockAddr(2)), 8)] {
        for sessions in 0..8 {
            let (mut chip, mut ram) = (setup.formatted(), setup.ram());
            for session in 0..sessions {
                let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
                for sector in 0..40 {
                    let op = common::Op::Write(sector, 1, 1 + session);
                    apply(&mut disk, &op).unwrap();
                    disk.flush().unwrap();
                }
                if session % 2 == 1 {
                    disk.close().unwrap();
                }
            }
            bad.iter().for_each(|block| chip.mark_bad(*block).unwrap());
            Jftl::format(&mut chip, &mut ram, number).unwrap();
            for version in [0, 50] {
                let id = format!("{bad:?}, {sessions} sessions, version {version}");
                let mut disk = Jftl::mount(&mut chip, &mut ram).expect(&id);
                assert_eq!(disk.damage(), None, "{id}");
                for sector in 0..disk.sector_count() {
                    let mut held = [1; 512];
                    disk.read(sector, &mut held).expect(&id);
                    let right = if sector == 3 { version } else { 0 };
                    let right = content(sector, right, 512);
                    assert!(right == held, "{id}: sector {sector}");
                }
                apply(&mut disk, &common::Op::Write(3, 1, 50)).unwrap();
                disk.flush().unwrap();
            }
        }
    }
}

/// A chip with more bad blocks than the disk has to spare would be full before all of its sectors
/// are written.
#[test]
fn a_format_refuses_a_chip_without_room_for_all_sectors() {
    let setup = Setup {
        blocks: 300,
        ..SETUPS[1]
    };
    for bad in [0, 6, 7, 9, 12, 18, 60] {
        let mut chip = setup.chip();
        for block in 0..bad {
            chip.mark_bad(BlockAddr(5 + 4 * block)).unwrap();
        }
        let mut ram = setup.ram();
        match Jftl::format(&mut chip, &mut ram, 7) {
            Err(Error::Full) => {
                // One in fifty may be bad.
                assert!(bad > 6);
                assert_eq!(chip.counters().block_erases, 0);
            }
            other => {
                assert_eq!(other, Ok(()), "{bad} bad blocks");
                assert!(bad < 18);
                let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
                for sector in (0..disk.sector_count()).chain(0..2_000) {
                    disk.write(sector, &[1; 512]).unwrap();
                }
            }
        }
    }
}

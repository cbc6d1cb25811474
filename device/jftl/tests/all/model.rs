//! Random operations against an array, with remounts.

use crate::common::{Model, Op, SETUPS, Setup, run, script};
use flashkit_jftl::{Error, Jftl};
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{Cut, CutError, EraseTear, Faults, PowerCut, Rate, Rng, Rot, SimNand, Tear};

/// Runs scripts one after another; between them the disk is closed, or just left.
fn check(setup: &Setup, seed: u64, faults: Option<Faults>) {
    let mut chip = setup.chip();
    if let Some(faults) = faults {
        chip.set_faults(faults).unwrap();
    }
    Jftl::format(&mut chip, &mut setup.ram(), 7).unwrap();
    let sectors = setup.sectors();
    let mut model = Model::new(sectors);
    let fail = |why: String| -> ! { panic!("{} seed {seed}: {why}", setup.name) };
    for round in 0..6 {
        let fill = if round == 0 { sectors } else { 1 };
        let ops = script(seed * 100 + round, sectors, fill, 300);
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap_or_else(|e| fail(format!("{e:?}")));
        (model.compare(&mut disk, true)).unwrap_or_else(|e| fail(format!("round {round}: {e}")));
        run(&mut disk, &mut model, &ops).unwrap_or_else(|e| fail(format!("{e:?}")));
        (model.compare(&mut disk, false)).unwrap_or_else(|e| fail(format!("round {round}: {e}")));
        disk.check()
            .unwrap_or_else(|e| fail(format!("round {round}: {e:?}")));
        if round % 2 == 0 {
            disk.close().unwrap_or_else(|e| fail(format!("{e:?}")));
            model.end(&Op::Close);
        }
    }
}

#[test]
fn holds_what_was_written() {
    for setup in &SETUPS {
        for seed in 0..4 {
            check(setup, seed, None);
        }
    }
}

/// An orderly end writes many map pages, and cleans for their room: what is moved then changes map
/// pages that have been written already.
#[test]
fn an_orderly_end_that_has_to_clean_loses_nothing() {
    let setup = Setup {
        blocks: 600,
        ..SETUPS[0]
    };
    let sectors = setup.sectors();
    let mut cleaned = 0;
    for seed in 0..24 {
        let (mut chip, mut ram) = (setup.formatted(), setup.ram());
        let mut model = Model::new(sectors);
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        run(&mut disk, &mut model, &[Op::Write(0, sectors, 1)]).unwrap();
        let mut rng = Rng::new(seed);
        for version in 2..302 {
            let sector = rng.below(u64::from(sectors)) as u32;
            run(&mut disk, &mut model, &[Op::Write(sector, 1, version)]).unwrap();
        }
        let copies = disk.stats().copies;
        run(&mut disk, &mut model, &[Op::Close]).unwrap();
        cleaned += u32::from(disk.stats().copies > copies);
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        assert_eq!(model.compare(&mut disk, false), Ok(()), "seed {seed}");
        disk.check().unwrap();
    }
    assert!(cleaned > 4, "{cleaned}");
}

/// Bad blocks from the factory and in use, programs and erases that fail, bits that flip.
#[test]
fn outlives_what_chips_do() {
    let faults = |seed| Faults {
        seed,
        bad_blocks: vec![1, 9, 30],
        program_fail: Rate(2_000),
        erase_fail: Rate(1_000),
        bitflips: 7,
        bitflip_rate: Rate(200),
        ..Faults::default()
    };
    let larger = Setup {
        blocks: 300,
        ..SETUPS[0]
    };
    let in_band = Setup {
        blocks: 300,
        ..SETUPS[2]
    };
    let copies = Setup {
        copies: CopyRange::Parity,
        ..larger
    };
    let in_band_copies = Setup {
        copies: CopyRange::All,
        ..in_band
    };
    for seed in 0..3 {
        for setup in [larger, in_band, copies, in_band_copies, SETUPS[4]] {
            check(&setup, seed, Some(faults(seed)));
        }
    }
}

/// Puts other owners than it has before that of each page in a block's tags.
fn spoil_tags(chip: &mut SimNand, block: u32, owner: impl Fn(u32) -> u32) {
    let shape = chip.geometry();
    let (first, pages) = (block * shape.pages_per_block(), shape.pages_per_block());
    let mut held = Vec::new();
    for page in first..first + pages {
        let mut data = vec![0; shape.page_size() as usize];
        chip.read(PageAddr(page), 0, &mut data, &mut []).unwrap();
        held.push(data);
    }
    let is_log = held[0].starts_with(b"JFT1");
    let Some(tags) = held.last_mut() else { return };
    if is_log || tags.iter().all(|byte| *byte == 0xFF) {
        return;
    }
    for (page, tag) in (0..).zip(tags.chunks_exact_mut(8)) {
        tag.copy_within(0..4, 4);
        tag[..4].copy_from_slice(&owner(page).to_le_bytes());
    }
    chip.erase(BlockAddr(block)).unwrap();
    for (page, data) in (first..).zip(&held) {
        chip.program(PageAddr(page), data, &[]).unwrap();
    }
}

/// Where there are no spare bytes, a cut may tear a page of tags, and it may read as a mixture: of
/// the two owners that it names for a page the first may be nonsense while the second is right.
#[test]
fn an_owner_that_is_none_beside_one_that_is_loses_nothing() {
    let setup = SETUPS[2];
    let sectors = setup.sectors();
    for owner in [sectors, sectors + 1, 0x0C0F_FEE0, u32::MAX - 2] {
        let (mut chip, mut ram) = (setup.formatted(), setup.ram());
        let mut model = Model::new(sectors);
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        run(&mut disk, &mut model, &script(3, sectors, sectors, 200)).unwrap();
        disk.close().unwrap();
        model.end(&Op::Close);
        for block in 4..setup.blocks {
            spoil_tags(&mut chip, block, |page| owner.wrapping_add(page));
        }
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        run(&mut disk, &mut model, &script(4, sectors, 8, 600)).unwrap();
        assert_eq!(model.compare(&mut disk, false), Ok(()), "owner {owner}");
        disk.check().unwrap();
    }
}

/// A page that cannot be read is its sector's error, and no other's; writing the sector mends it.
#[test]
fn an_unreadable_page_is_told_of_and_mended() {
    let setup = SETUPS[0];
    let mut chip = setup.formatted();
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    let sectors = disk.sector_count();
    let mut model = Model::new(sectors);
    run(
        &mut disk,
        &mut model,
        &[Op::Write(0, sectors, 1), Op::Flush],
    )
    .unwrap();
    let page = disk.page_of(5).unwrap().unwrap();
    disk.nand_mut().rot(page, Rot::Lost).unwrap();
    let mut sector = vec![0; 512];
    assert_eq!(
        disk.read(5, &mut sector),
        Err(Error::Unreadable { sector: 5 })
    );
    // Cleaning everything around does not lose it, nor stop at it.
    for version in 2..60 {
        let ops = [Op::Write(8, sectors - 8, version)];
        run(&mut disk, &mut model, &ops).unwrap();
    }
    assert_eq!(
        disk.read(5, &mut sector),
        Err(Error::Unreadable { sector: 5 })
    );
    run(&mut disk, &mut model, &[Op::Write(5, 1, 99), Op::Flush]).unwrap();
    assert_eq!(model.compare(&mut disk, false), Ok(()));
    assert!(disk.stats().copies > 0 && disk.stats().levelled > 0);
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let setup = SETUPS[0];
    let (chip, mut ram) = (setup.formatted(), setup.ram());
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    let sectors = disk.sector_count();
    assert_eq!(disk.read(sectors, &mut []), Ok(()));
    assert_eq!(disk.read(sectors - 2, &mut [0; 1024]), Ok(()));
    for (first, count) in [
        (sectors - 1, 2),
        (sectors, 1),
        (u32::MAX, 1),
        (0, sectors + 1),
    ] {
        let refused = Err(Error::OutOfRange {
            sector: first.max(sectors),
        });
        let mut bytes = vec![1; 512 * count as usize];
        assert_eq!(disk.read(first, &mut bytes), refused, "{first}, {count}");
        assert_eq!(disk.write(first, &bytes), refused, "{first}, {count}");
        assert_eq!(disk.trim(first, count), refused, "{first}, {count}");
    }
    assert!(disk.trim(1, u32::MAX).is_err());
}

/// Many blocks have a page that cannot be read, after a year without power perhaps, and nobody asks
/// for its sectors. Those blocks are cleaned as others are: the disk takes writes, cleaning in idle
/// time comes to an end, and the sectors are errors until they are written.
#[test]
fn many_unreadable_pages_do_not_end_a_disk() {
    for setup in [SETUPS[0], SETUPS[1], SETUPS[2]].map(|s| Setup { blocks: 300, ..s }) {
        let (chip, mut ram) = (setup.formatted(), setup.ram());
        let mut disk = Jftl::mount(chip, &mut ram).unwrap();
        let sectors = disk.sector_count();
        for sector in 0..sectors {
            disk.write(sector, &[1; 512]).unwrap();
        }
        disk.flush().unwrap();
        let is_lost = |sector: u32| sector % 30 == 5;
        for sector in (0..sectors).filter(|sector| is_lost(*sector)) {
            let page = disk.page_of(sector).unwrap().unwrap();
            assert!(disk.nand_mut().rot(page, Rot::Lost).unwrap());
        }
        let mut rng = Rng::new(5);
        let mut chip = disk.into_nand();
        for version in 2..5 {
            let mut disk = Jftl::mount(chip, &mut ram).unwrap();
            for _ in 0..4_000 {
                let sector = rng.below(sectors.into()) as u32;
                if !is_lost(sector) {
                    disk.write(sector, &[version; 512]).unwrap();
                }
            }
            let ends = (0..20_000).any(|_| !disk.background().unwrap());
            assert!(ends, "{}, version {version}", setup.name);
            chip = disk.into_nand();
        }
        let mut disk = Jftl::mount(chip, &mut ram).unwrap();
        for sector in 0..sectors {
            let mut held = [0; 512];
            let read = disk.read(sector, &mut held);
            let gone = Err(Error::Unreadable { sector });
            let wanted = if is_lost(sector) { gone } else { Ok(()) };
            assert_eq!(read, wanted, "{}", setup.name);
            assert!(is_lost(sector) || (1..5).any(|version| held == [version; 512]));
        }
        disk.check().unwrap();
        disk.write(5, &[9; 512]).unwrap();
        disk.read(5, &mut [0; 512]).unwrap();
    }
}

/// Many cuts in a row in the middle of the mount, whatever is left each time.
#[test]
fn mounts_that_are_cut_again_and_again_end() {
    for setup in &SETUPS[..3] {
        let sectors = setup.sectors();
        let mut model = Model::new(sectors);
        let mut chip = setup.formatted();
        let ops = script(3, sectors, sectors, 200);
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        run(&mut disk, &mut model, &ops).unwrap();
        for round in 0..60 {
            let cut = Cut {
                after: round % 5,
                program: [Tear::Complete, Tear::Garbage, Tear::Unstable { reads: 30 }]
                    [round as usize / 5 % 3],
                erase: EraseTear::Partial,
                seed: round,
            };
            let mut nand = PowerCut::new(chip, cut);
            let mut ram = setup.ram();
            match Jftl::mount(&mut nand, &mut ram).map(|_| ()) {
                Ok(()) | Err(Error::Flash(CutError::PowerOff)) => {}
                Err(e) => panic!("{} round {round}: {e:?}", setup.name),
            }
            chip = nand.into_inner();
        }
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        assert_eq!(model.compare(&mut disk, true), Ok(()), "{}", setup.name);
        disk.check().unwrap();
    }
}

/// Pages that the ECC takes for good, though they are not, and pages that are gone: errors, perhaps
/// wrong data, but no panic, no endless loop and no breach of the chip's contract.
#[test]
fn damage_is_borne() {
    for setup in &SETUPS[..3] {
        let sectors = setup.sectors();
        let mut chip = setup.formatted();
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        let ops = script(5, sectors, sectors, 300);
        run(&mut disk, &mut Model::new(sectors), &ops).unwrap();
        let mut rng = Rng::new(8);
        for _ in 0..150 {
            let mut chip = chip.clone();
            for _ in 0..1 + rng.below(8) {
                let page = PageAddr(rng.below(u64::from(setup.blocks * setup.pages)) as u32);
                let rot = match rng.below(3) {
                    0 => Rot::Lost,
                    _ => Rot::Silent {
                        offset: rng.below(u64::from(setup.page)) as u32,
                        mask: 1 << rng.below(8),
                    },
                };
                chip.rot(page, rot).unwrap();
            }
            let mut ram = setup.ram();
            let Ok(mut disk) = Jftl::mount(&mut chip, &mut ram) else {
                continue;
            };
            if rng.one_in(2) {
                let _ = disk.check();
            }
            let ops = script(6, sectors, 8, 60);
            let _ = run(&mut disk, &mut Model::new(sectors), &ops);
        }
    }
}

/// A program that appends to its log, with an fsync each time, fills the translation's log with
/// changes of few sectors, while what was written all over the disk before waits to be written to
/// the map. That is more map pages than there are free blocks: there has to be cleaning meanwhile,
/// or a disk of which half is free would be full, and after the next mount for reading alone.
#[test]
fn a_sound_disk_takes_one_fsync_after_another() {
    let setup = Setup {
        pages: 32,
        blocks: 16_384,
        ..SETUPS[0]
    };
    for percent in [50, 100] {
        let (chip, mut ram) = (setup.formatted(), setup.ram());
        let mut disk = Jftl::mount(chip, &mut ram).unwrap();
        let used = disk.sector_count() / 100 * percent;
        for sector in 0..used {
            disk.write(sector, &[1; 512]).unwrap();
        }
        // Until there has been cleaning.
        let mut rng = Rng::new(3);
        while disk.free_blocks() > 26 {
            let sector = rng.below(used.into()) as u32;
            disk.write(sector, &[1; 512]).unwrap();
        }
        disk.close().unwrap();
        let pieces = used / 128;
        for i in 0..pieces {
            disk.write(i * 7919 % pieces * 128, &[1; 512]).unwrap();
        }
        for i in 0..4_000 {
            let written = disk.write(i % 8, &[2; 512]).and_then(|()| disk.flush());
            assert_eq!(written, Ok(()), "{percent} % in use, fsync {i}");
        }
    }
}

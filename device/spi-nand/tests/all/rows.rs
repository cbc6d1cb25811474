//! Each row of the table, on a chip whose facts were typed in a second time.

use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_spi_nand::{CopyRule, Part, SpiNand, parts};

use crate::{Chip, every_part, open, pattern, read_page, some_blocks};

/// As many rows as simulated parts, under the same names: what follows leaves none out.
#[test]
fn every_row_has_a_simulated_part() {
    let rows: Vec<_> = parts::ALL.iter().copied().flatten().collect();
    let names: Vec<_> = rows.iter().map(|part| part.name).collect();
    let simulated: Vec<_> = every_part().map(|(part, _)| part.name).collect();
    assert_eq!(names, simulated);
    assert!(rows.len() >= 20);
    let mut makers: Vec<_> = rows.iter().map(|part| part.maker).collect();
    makers.dedup();
    assert!(makers.len() >= 6, "{makers:?}");
}

#[test]
fn every_part_is_told_by_its_id() {
    for (part, mut chip) in every_part() {
        let driver = open(&mut chip).unwrap_or_else(|e| panic!("{}: {e}", part.name));
        assert_eq!(driver.part().name, part.name);
        assert_eq!(driver.geometry(), part.geometry());
        assert_eq!(driver.part().raw_spare, part.raw_spare);
        assert_eq!(driver.correctable_bits(), part.ecc_bits);
    }
}

/// Runs of each row lie in the spare area, ascending, apart, and leave the mark alone.
#[test]
fn runs_are_in_order_and_leave_the_mark() {
    for part in parts::ALL.iter().copied().flatten() {
        let mut end = 1;
        for run in part.spare {
            assert!(run.offset >= end && run.len > 0, "{}: {run:?}", part.name);
            end = run.offset + run.len;
        }
        assert!(u32::from(end) <= part.raw_spare, "{}", part.name);
        assert_eq!(part.geometry().unwrap().spare_size(), part.spare_size());
    }
}

#[test]
fn an_erased_chip_reads_as_erased() {
    for (part, mut chip) in every_part() {
        let mut driver = open(&mut chip).unwrap();
        let geometry = driver.geometry();
        for block in some_blocks(&geometry) {
            let (data, spare) = read_page(&mut driver, geometry.page(block, 3));
            let all = data.iter().chain(&spare).all(|byte| *byte == 0xFF);
            assert!(all, "{}: {block:?}", part.name);
        }
    }
}

/// What is programmed is read again, whole and in part, and the spare bytes arrive in the runs.
#[test]
fn what_is_programmed_is_read() {
    for (part, mut chip) in every_part() {
        let geometry = part.geometry();
        let data = pattern(1, geometry.page_size() as usize);
        let spare = pattern(2, geometry.spare_size() as usize);
        for block in some_blocks(&geometry) {
            let mut driver = open(&mut chip).unwrap();
            let (first, second) = (geometry.page(block, 0), geometry.page(block, 1));
            assert_eq!(driver.erase(block), Ok(OpStatus::Done), "{}", part.name);
            assert_eq!(driver.program(first, &data, &spare), Ok(OpStatus::Done));
            assert_eq!(
                driver.program(second, b"few", &spare[..3]),
                Ok(OpStatus::Done)
            );
            assert_eq!(read_page(&mut driver, first), (data.clone(), spare.clone()));
            let (few, tag) = read_page(&mut driver, second);
            assert_eq!(
                (&few[..4], &tag[..4]),
                (&b"few\xFF"[..], &[spare[0], spare[1], spare[2], 0xFF][..])
            );
            assert!(few[4..].iter().chain(&tag[4..]).all(|byte| *byte == 0xFF));

            let (mut part_of, mut tag) = ([0; 33], [0; 5]);
            assert_eq!(
                driver.read(first, 777, &mut part_of, &mut tag),
                Ok(ReadStatus::Clean)
            );
            assert_eq!((&part_of[..], &tag[..]), (&data[777..810], &spare[..5]));
            // As the array below has it: no bytes beside the usable ones.
            let below = read_page(chip.chip_mut(), first);
            assert_eq!(below, (data.clone(), spare.clone()), "{}", part.name);
        }
    }
}

/// Nothing of a program is left in the cache for the next one, whatever the next one gives.
#[test]
fn a_program_of_nothing_leaves_a_blank_page() {
    for (part, mut chip) in every_part() {
        let mut driver = open(&mut chip).unwrap();
        let geometry = driver.geometry();
        let data = pattern(3, geometry.page_size() as usize);
        let spare = pattern(4, geometry.spare_size() as usize);
        driver.program(PageAddr(0), &data, &spare).unwrap();
        driver.program(PageAddr(1), &[], &[]).unwrap();
        driver.program(PageAddr(2), &[], b"tag").unwrap();
        let (blank, tag) = read_page(&mut driver, PageAddr(1));
        let all = blank.iter().chain(&tag).all(|byte| *byte == 0xFF);
        assert!(all, "{}", part.name);
        let (blank, tag) = read_page(&mut driver, PageAddr(2));
        assert!(blank.iter().all(|byte| *byte == 0xFF), "{}", part.name);
        assert_eq!(&tag[..3], b"tag");
    }
}

/// A read moves the bytes asked for and no others: of each run of spare bytes, and of the data.
#[test]
fn a_read_of_a_few_bytes_moves_a_few_bytes() {
    for (part, mut chip) in every_part() {
        let all = part.spare_size() as usize;
        let spare = pattern(5, all);
        let mut driver = open(&mut chip).unwrap();
        driver.program(PageAddr(0), &[7; 100], &spare).unwrap();
        for (data, tag) in [(16, 0), (0, 8), (100, 8), (1, all), (0, 0)] {
            let (mut into, mut tags) = (vec![0; data], vec![0; tag]);
            let before = driver.spi_mut().count();
            driver.read(PageAddr(0), 0, &mut into, &mut tags).unwrap();
            let moved = driver.spi_mut().count() - before;
            assert_eq!(moved.data_bytes, (data + tag) as u64, "{}", part.name);
            assert_eq!((into, tags), (vec![7; data], spare[..tag].to_vec()));
        }
    }
}

/// The bus of a W25N01GV to the byte: a page read is 4 bytes of command, 3 for each look at the
/// status, and 4 for each run that is read from the cache.
#[test]
fn every_byte_of_a_read_and_a_program() {
    let mut chip = Chip::new("W25N01GV");
    let mut driver = open(&mut chip).unwrap();
    let read_us = u64::from(driver.part().times.read_us);
    let (mut data, mut spare) = ([0; 2048], [0; 24]);
    let before = driver.spi_mut().count();
    driver.read(PageAddr(0), 0, &mut data, &mut spare).unwrap();
    let moved = driver.spi_mut().count() - before;
    let looks = moved.transactions - 1 - 5;
    assert!((2..=read_us / 5 + 2).contains(&looks), "{looks}");
    assert_eq!(moved.bytes, 4 + 3 * looks + 4 + 2048 + 4 * (4 + 6));
    assert_eq!(moved.bus_ps, moved.bytes * (8_000_000 / 104));

    let before = driver.spi_mut().count();
    driver.program(PageAddr(0), &data, &spare).unwrap();
    let moved = driver.spi_mut().count() - before;
    // Write enable, a load of the data and one of each run, execute; a look before it.
    let looks = moved.transactions - 1 - 5 - 1;
    assert_eq!(moved.bytes, 1 + 3 + 2048 + 4 * (3 + 6) + 4 + 3 * looks);
}

#[test]
fn blocks_of_the_factory_are_bad_and_others_can_be_marked() {
    for (part, mut chip) in every_part() {
        let geometry = part.geometry();
        let last = geometry.blocks() - 1;
        let bad = [0, 1, 17, last].map(BlockAddr);
        let faults = flashkit_sim::Faults {
            bad_blocks: bad.iter().map(|block| block.0).collect(),
            ..flashkit_sim::Faults::default()
        };
        chip.chip_mut().set_faults(faults).unwrap();
        let mut driver = open(&mut chip).unwrap();
        // Makers mark the first page, the second, or both.
        for page in [Some(0), Some(1), None] {
            driver.spi_mut().mark_page(page);
            for block in [0, 1, 2, 16, 17, 18, last - 1, last].map(BlockAddr) {
                let is_bad = driver.is_bad(block).unwrap();
                assert_eq!(is_bad, bad.contains(&block), "{}: {block:?}", part.name);
            }
        }
        // One in use, with pages beyond those that the marks are in.
        let page = geometry.page(BlockAddr(18), 9);
        driver.program(page, b"data", &[]).unwrap();
        assert_eq!(driver.is_bad(BlockAddr(18)), Ok(false));
        for _ in 0..2 {
            driver.mark_bad(BlockAddr(18)).unwrap();
            assert_eq!(driver.is_bad(BlockAddr(18)), Ok(true), "{}", part.name);
        }
        // The ECC is on again.
        assert_eq!(
            driver.read(page, 0, &mut [0; 4], &mut []),
            Ok(ReadStatus::Clean)
        );
        driver
            .program(geometry.page(BlockAddr(2), 0), b"on", &[])
            .unwrap();
        assert_eq!(
            chip.chip().bad_blocks(),
            [&bad[..3], &[BlockAddr(18)], &bad[3..]].concat()
        );
    }
}

/// With the bus, the delay and the hook taking nothing.
#[test]
fn the_driver_takes_64_bytes_at_most() {
    assert!(size_of::<SpiNand<'static, (), ()>>() <= 64);
}

/// A row of the table in docs/spi-nand.md.
fn documented(part: &Part) -> String {
    let runs = part
        .spare
        .iter()
        .fold(Vec::<(u16, u16)>::new(), |mut runs, run| {
            match runs.last_mut() {
                Some(last) if last.0 + last.1 == run.offset => last.1 += run.len,
                _ => runs.push((run.offset, run.len)),
            }
            runs
        });
    let runs: Vec<_> = runs
        .iter()
        .map(|(offset, len)| format!("{offset}-{}", offset + len - 1))
        .collect();
    let copy = match part.copy {
        CopyRule::Any => "any",
        CopyRule::SameParity => "same parity",
        CopyRule::SameParityAndHalf => "same parity and half",
        CopyRule::SamePlane => "same plane",
        CopyRule::Never => "no",
    };
    format!(
        "| {} {} | {} x {} x {} + {} | {}: {} | {} | {copy} |",
        part.maker,
        part.name,
        part.blocks,
        part.pages_per_block,
        part.page_size,
        part.raw_spare,
        part.spare_size(),
        runs.join(", "),
        part.ecc_bits
    )
}

/// The table in the documents is this one. It prints what the documents should have.
#[test]
fn the_documents_have_every_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spi-nand.md");
    let text = std::fs::read_to_string(path).unwrap();
    let found: Vec<_> = text.lines().filter(|line| line.contains(" x ")).collect();
    let rows = parts::ALL.iter().copied().flatten();
    let expected: Vec<_> = rows.map(documented).collect();
    assert_eq!(found, expected, "\n{}\n", expected.join("\n"));
}

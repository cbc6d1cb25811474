//! Copies inside the chip.

use flashkit_nand::{BlockAddr, Copied, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::spi::{CopyRange, SpiPart};
use flashkit_sim::{Faults, Rate, Weak};

use crate::{every_part, open, pattern, read_page, with_faults};

/// Pairs of blocks, and whether a part copies between them.
fn pairs(part: &SpiPart) -> [(u32, u32, bool); 5] {
    let half = part.blocks / 2;
    let (any, parity, half_too) = match part.copies {
        CopyRange::All => (true, true, true),
        CopyRange::Parity => (false, true, true),
        CopyRange::ParityAndHalf => (false, true, false),
        CopyRange::Nothing => (false, false, false),
    };
    [
        (4, 4, parity),
        (4, 6, parity),
        (4, 7, any),
        (3, 5, parity),
        (8, half + 8, half_too),
    ]
}

/// The data is that of the old page, the spare bytes are new; only these go over the bus. Where
/// the chip does not copy, all of the page does.
#[test]
fn a_copy_moves_the_data_and_takes_new_spare_bytes() {
    for (part, _) in every_part() {
        for (from, to, allowed) in pairs(part) {
            let mut chip = crate::Chip::new(part.name);
            let geometry = part.geometry();
            let data = pattern(6, geometry.page_size() as usize);
            let all = geometry.spare_size() as usize;
            let (old, new) = (pattern(7, all), pattern(8, all));
            let from = geometry.page(BlockAddr(from), 0);
            let to = geometry.page(BlockAddr(to), 1);
            let mut driver = open(&mut chip).unwrap();
            driver.program(from, &data, &old).unwrap();
            let before = driver.spi_mut().count();
            let given = if all > 30 { 24 } else { 5 };
            assert_eq!(driver.copies(from, to), allowed, "{}", part.name);
            let mut room = vec![0; geometry.page_size() as usize];
            let copied = driver.copy(from, to, &new[..given], &mut room).unwrap();
            let moved = driver.spi_mut().count() - before;
            let (found, tag) = read_page(&mut driver, to);
            assert_eq!(copied, Copied::Done(ReadStatus::Clean), "{}", part.name);
            assert_eq!(found, data, "{}", part.name);
            assert_eq!(tag[..given], new[..given], "{}", part.name);
            let rest = &tag[given..];
            assert!(rest.iter().all(|byte| *byte == 0xFF), "{}", part.name);
            if allowed {
                assert_eq!(moved.data_bytes, all as u64);
            } else {
                assert!(moved.data_bytes >= 2 * u64::from(geometry.page_size()));
            }
            assert_eq!(read_page(&mut driver, from), (data, old));
        }
    }
}

/// Flipped bits are corrected on the way, and said.
#[test]
fn a_copy_says_what_its_read_was() {
    let faults = Faults {
        bitflips: 6,
        bitflip_rate: Rate(1),
        ..Faults::default()
    };
    let mut chip = with_faults("MT29F1G01ABAFD", faults);
    let mut driver = open(&mut chip).unwrap();
    let data = pattern(9, 2048);
    driver.program(PageAddr(0), &data, b"old").unwrap();
    let copied = driver
        .copy(PageAddr(0), PageAddr(1), b"new", &mut [0; 2048])
        .unwrap();
    assert!(
        matches!(copied, Copied::Done(ReadStatus::Corrected(3 | 6))),
        "{copied:?}"
    );
    driver
        .spi_mut()
        .chip_mut()
        .set_faults(Faults::default())
        .unwrap();
    assert_eq!(read_page(&mut driver, PageAddr(1)).0, data);
}

/// What cannot be read is never copied as good.
#[test]
fn a_lost_page_is_not_copied() {
    for (part, mut chip) in every_part() {
        if part.copies == CopyRange::Nothing {
            continue;
        }
        let mut driver = open(&mut chip).unwrap();
        driver.program(PageAddr(0), b"lost", &[]).unwrap();
        let lost = Faults {
            uncorrectable: Rate(1),
            ..Faults::default()
        };
        driver.spi_mut().chip_mut().set_faults(lost).unwrap();
        let copied = driver.copy(PageAddr(0), PageAddr(1), b"new", &mut [0; 4096]);
        assert_eq!(copied, Ok(Copied::Uncorrectable), "{}", part.name);
        // The page is still free.
        assert_eq!(driver.program(PageAddr(1), b"a", &[]), Ok(OpStatus::Done));
    }
}

#[test]
fn a_copy_whose_program_fails() {
    let faults = Faults {
        weak_pages: vec![Weak { at: 1, good: 0 }],
        ..Faults::default()
    };
    let mut chip = with_faults("W25N02KV", faults);
    let mut driver = open(&mut chip).unwrap();
    driver.program(PageAddr(0), b"data", &[]).unwrap();
    assert_eq!(
        driver.copy(PageAddr(0), PageAddr(1), b"new", &mut [0; 2048]),
        Ok(Copied::Failed)
    );
    assert_eq!(&read_page(&mut driver, PageAddr(0)).0[..4], b"data");
}

/// A copy against a read and a program of the whole page, on one lane at 104 MHz, polling and all.
#[test]
fn a_copy_takes_half_the_time_of_a_read_and_a_program() {
    let mut chip = crate::Chip::new("W25N01GV");
    let mut driver = open(&mut chip).unwrap();
    let (mut data, mut spare) = (pattern(11, 2048), pattern(12, 24));
    driver.program(PageAddr(0), &data, &spare).unwrap();
    let start = driver.spi_mut().now_ns();
    driver.read(PageAddr(0), 0, &mut data, &mut spare).unwrap();
    driver.program(PageAddr(1), &data, &spare).unwrap();
    let moved = driver.spi_mut().now_ns();
    driver
        .copy(PageAddr(1), PageAddr(2), &spare, &mut [0; 2048])
        .unwrap();
    let copied = driver.spi_mut().now_ns();
    let (by_bus, inside) = (moved - start, copied - moved);
    println!("{by_bus} ns over the bus, {inside} ns inside");
    assert!(inside * 100 <= by_bus * 55, "{inside} of {by_bus} ns");
}

/// What cleaning does: it looks whose the page is, and has it copied. The page is read into the
/// cache once for both.
#[test]
fn a_look_at_the_tag_and_a_copy_take_half_the_time_too() {
    let mut chip = crate::Chip::new("W25N01GV");
    let mut driver = open(&mut chip).unwrap();
    let (mut data, mut tag) = (pattern(11, 2048), pattern(12, 24));
    driver.program(PageAddr(0), &data, &tag).unwrap();
    let start = driver.spi_mut().now_ns();
    driver.read(PageAddr(0), 0, &mut data, &mut tag).unwrap();
    driver.program(PageAddr(1), &data, &tag).unwrap();
    let moved = driver.spi_mut().now_ns();
    driver.read(PageAddr(0), 0, &mut [], &mut tag).unwrap();
    let copied = driver.copy(PageAddr(0), PageAddr(2), &tag, &mut []);
    assert_eq!(copied, Ok(Copied::Done(ReadStatus::Clean)));
    let (by_bus, inside) = (moved - start, driver.spi_mut().now_ns() - moved);
    println!("{by_bus} ns over the bus, {inside} ns inside");
    assert!(inside * 100 <= by_bus * 55, "{inside} of {by_bus} ns");
    assert_eq!(read_page(&mut driver, PageAddr(2)), (data, tag));
}

/// What is in the cache is not taken for a page when something else has been done since.
#[test]
fn only_the_page_that_was_read_last_is_copied_from_the_cache() {
    let mut chip = crate::Chip::new("W25N01GV");
    let mut driver = open(&mut chip).unwrap();
    let page = |n: u8| vec![n; 2048];
    for n in 0..4 {
        driver.program(PageAddr(n.into()), &page(n), &[]).unwrap();
    }
    let between: [fn(&mut crate::Driver<'_>) -> bool; 5] = [
        |driver| driver.read(PageAddr(1), 0, &mut [], &mut [0]).is_ok(),
        |driver| driver.program(PageAddr(64), &[9], &[]).is_ok(),
        |driver| driver.is_bad(BlockAddr(5)).is_ok(),
        |driver| driver.erase(BlockAddr(5)).is_ok(),
        |driver| {
            let copied = driver.copy(PageAddr(2), PageAddr(65), &[], &mut []);
            copied.is_ok()
        },
    ];
    for (n, something) in between.into_iter().enumerate() {
        driver.read(PageAddr(3), 0, &mut [], &mut [0]).unwrap();
        assert!(something(&mut driver));
        let to = PageAddr(128 + n as u32);
        driver.copy(PageAddr(3), to, &[], &mut []).unwrap();
        assert_eq!(read_page(&mut driver, to).0, page(3), "{n}");
    }
}

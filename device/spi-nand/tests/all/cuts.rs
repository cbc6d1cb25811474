//! The power is cut between any two bytes of an operation.

use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::spi::{SpiCut, SpiNandError, spi_part};
use flashkit_sim::{EraseTear, Tear};
use flashkit_spi_nand::Error;

use crate::{Chip, Driver, DriverError, open, pattern, read_page};

const PARTS: [&str; 4] = ["W25N01GV", "GD5F1GQ5UE", "MT29F2G01ABAGD", "GD5F4GQ4UC"];
const TEARS: [(Tear, EraseTear); 3] = [
    (Tear::Garbage, EraseTear::LooksErased),
    (Tear::Random, EraseTear::Mixed),
    (Tear::LooksBlank, EraseTear::NotBegun),
];

/// Block 4: pages 0 and 1 are programmed, page 2 is free. Block 6 holds a page that is erased.
fn chip(part: &str) -> Chip {
    let mut chip = Chip::new(part);
    let mut driver = open(&mut chip).unwrap();
    let geometry = driver.geometry();
    for page in [(4, 0), (4, 1), (6, 0)] {
        let page = geometry.page(BlockAddr(page.0), page.1);
        driver
            .program(page, &pattern(page.0, 2048), b"old")
            .unwrap();
    }
    chip
}

/// Does one thing to a chip that is cut after each number of bytes, until it is not cut any more.
/// `check` looks at the chip as the next start finds it, and is told whether the call returned.
fn each_cut(
    part: &str,
    tears: &[(Tear, EraseTear)],
    act: impl Fn(&mut Driver<'_>) -> Result<(), DriverError>,
    check: impl Fn(&mut Driver<'_>, bool),
) -> u64 {
    let mut cuts = 0;
    let ready = chip(part).into_chip();
    for (program, erase) in tears.iter().copied() {
        for bytes in 0.. {
            let mut chip = Chip::over(ready.clone(), *spi_part(part).unwrap());
            // Not what is tested here, and most of the bytes of a start.
            chip.set_parameter_pages(Vec::new());
            let mut driver = open(&mut chip).unwrap();
            let seed = bytes;
            driver.spi_mut().cut_after(SpiCut {
                bytes,
                program,
                erase,
                seed,
            });
            let done = act(&mut driver);
            let is_off = chip.is_off();
            assert_eq!(done.is_err(), is_off, "{part}, {bytes}: {done:?}");
            if is_off {
                assert_eq!(done, Err(Error::Bus(SpiNandError::PowerOff)));
                cuts += 1;
            }
            chip.power_on();
            // What was programmed before is there, whatever was cut.
            let mut driver = open(&mut chip).unwrap();
            let geometry = driver.geometry();
            for index in 0..2 {
                let page = geometry.page(BlockAddr(4), index);
                let (data, spare) = read_page(&mut driver, page);
                let expected = pattern(page.0, 2048);
                assert_eq!((&data[..2048], &spare[..3]), (&expected[..], &b"old"[..]));
            }
            check(&mut driver, !is_off);
            if !is_off {
                break;
            }
        }
    }
    cuts
}

fn target(driver: &Driver<'_>) -> PageAddr {
    driver.geometry().page(BlockAddr(4), 2)
}

/// A program that returned is there. One that was cut before its execution leaves the page free;
/// the tears are those of the simulator.
#[test]
fn between_any_two_bytes_of_a_program() {
    for part in PARTS {
        let (data, spare) = (pattern(10, 300), b"new");
        let cuts = each_cut(
            part,
            &TEARS,
            |driver| driver.program(target(driver), &data, spare).map(drop),
            |driver, done| {
                let mut found = vec![0; 300];
                let page = target(driver);
                let read = driver.read(page, 0, &mut found, &mut []).unwrap();
                if done {
                    assert!(read.is_readable());
                    assert_eq!(found, data);
                }
            },
        );
        // At least every byte of the data.
        assert!(cuts > 3 * 300, "{part}: {cuts}");
    }
}

#[test]
fn between_any_two_bytes_of_an_erase() {
    for part in PARTS {
        let cuts = each_cut(
            part,
            &TEARS,
            |driver| driver.erase(BlockAddr(6)).map(drop),
            |driver, done| {
                let page = driver.geometry().page(BlockAddr(6), 0);
                let mut found = [0; 4];
                let read = driver.read(page, 0, &mut found, &mut []).unwrap();
                if done {
                    assert!(read.is_readable());
                    assert_eq!(found, [0xFF; 4]);
                }
                // Erased again it can be used.
                driver.erase(BlockAddr(6)).unwrap();
                driver.program(page, b"again", &[]).unwrap();
                assert_eq!(&read_page(driver, page).0[..5], b"again");
            },
        );
        assert!(cuts > 3 * 5, "{part}: {cuts}");
    }
}

/// The old page is as it was, whatever becomes of the new one.
#[test]
fn between_any_two_bytes_of_a_copy() {
    for part in PARTS {
        let from = |driver: &Driver<'_>| driver.geometry().page(BlockAddr(4), 1);
        let cuts = each_cut(
            part,
            &TEARS,
            |driver| {
                let (from, to) = (from(driver), target(driver));
                driver.copy(from, to, b"new", &mut [0; 2048]).map(drop)
            },
            |driver, done| {
                let (from, to) = (from(driver), target(driver));
                let mut found = vec![0; 2048];
                let mut tag = [0; 3];
                let read = driver.read(to, 0, &mut found, &mut tag).unwrap();
                if done {
                    assert!(read.is_readable());
                    assert_eq!((found, &tag), (pattern(from.0, 2048), b"new"));
                }
            },
        );
        assert!(cuts > 3 * 20, "{part}: {cuts}");
    }
}

/// A mark that was cut is there or not, and can be made again.
#[test]
fn between_any_two_bytes_of_a_mark() {
    each_cut(
        "W25N01GV",
        &TEARS[..1],
        |driver| driver.mark_bad(BlockAddr(9)),
        |driver, done| {
            if done {
                assert_eq!(driver.is_bad(BlockAddr(9)), Ok(true));
            }
            driver.mark_bad(BlockAddr(9)).unwrap();
            assert_eq!(driver.is_bad(BlockAddr(9)), Ok(true));
        },
    );
}

/// A cut while the chip is being opened changes nothing on it.
#[test]
fn between_any_two_bytes_of_a_start() {
    for part in PARTS {
        let ready = chip(part).into_chip();
        for bytes in 0.. {
            let mut chip = Chip::over(ready.clone(), *spi_part(part).unwrap());
            let before = chip.chip().bad_blocks().len();
            let (program, erase) = TEARS[0];
            chip.cut_after(SpiCut {
                bytes,
                program,
                erase,
                seed: bytes,
            });
            let opened = open(&mut chip).map(drop);
            let is_off = chip.is_off();
            assert_eq!(opened.is_err(), is_off, "{part}, {bytes}: {opened:?}");
            chip.power_on();
            let mut driver = open(&mut chip).unwrap();
            let page = driver.geometry().page(BlockAddr(4), 0);
            assert_eq!(
                read_page(&mut driver, page).0[..2048],
                pattern(page.0, 2048)
            );
            assert_eq!(chip.chip().bad_blocks().len(), before);
            if !is_off {
                break;
            }
        }
    }
}

//! Every status code of every part ends in the right outcome. The tables are those of the data
//! sheets and of Linux, code by code; a code that they do not have is uncorrectable.

use flashkit_nand::ReadStatus::{self, Clean, Corrected, Uncorrectable};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::Faults;
use flashkit_sim::spi::{EccCode, SpiPart};

use crate::{every_part, open};

/// What a status (bits 7 to 2) and a further register mean.
fn meaning(part: &SpiPart, status: u8, extended: u8) -> ReadStatus {
    let most = part.ecc_bits;
    let exact = |bits: u8| match u32::from(bits) {
        bits if (1..=most).contains(&bits) => Corrected(bits),
        _ => Corrected(most),
    };
    let two = status >> 4 & 3;
    let f0 = u32::from(extended >> 4 & 3);
    match part.code {
        EccCode::One => [Clean, Corrected(1), Uncorrectable, Uncorrectable][two as usize],
        EccCode::Any => [Clean, Corrected(most), Uncorrectable, Uncorrectable][two as usize],
        EccCode::SevenEight => [Clean, Corrected(7), Uncorrectable, Corrected(8)][two as usize],
        EccCode::SevenEightF0 => [
            Clean,
            Corrected([4, 5, 6, 7][f0 as usize]),
            Uncorrectable,
            Corrected(8),
        ][two as usize],
        EccCode::FourF0 => {
            let count = Corrected([1, 2, 3, 4][f0 as usize]);
            [Clean, count, Uncorrectable, Uncorrectable][two as usize]
        }
        EccCode::Three7 => [
            Clean,
            Corrected(3),
            Corrected(4),
            Corrected(5),
            Corrected(6),
            Corrected(7),
            Corrected(8),
            Uncorrectable,
        ][(status >> 4 & 7) as usize],
        EccCode::Three2 => match status >> 4 & 7 {
            0 => Clean,
            1 => Corrected(3),
            3 => Corrected(6),
            5 => Corrected(8),
            _ => Uncorrectable,
        },
        EccCode::Max30 => {
            let exact = exact(extended >> 4);
            [Clean, exact, Uncorrectable, exact][two as usize]
        }
        EccCode::Cmd7c => {
            [Clean, exact(extended & 0x0F), Uncorrectable, Uncorrectable][two as usize]
        }
        EccCode::Cmd7cHigh => {
            let exact = exact(extended & 0x0F);
            [Clean, exact, Uncorrectable, exact][two as usize]
        }
        EccCode::Four => match status >> 2 & 15 {
            0 => Clean,
            bits @ 1..=7 => Corrected(u32::from(bits)),
            12 => Corrected(8),
            _ => Uncorrectable,
        },
        EccCode::Upper => {
            let bits = [4, 5, 6, 7][(status >> 6) as usize];
            [Clean, Corrected(bits), Uncorrectable, Corrected(8)][two as usize]
        }
    }
}

#[test]
fn every_status_code_of_every_part() {
    for (part, mut chip) in every_part() {
        let mut driver = open(&mut chip).unwrap();
        driver.program(PageAddr(0), b"data", &[]).unwrap();
        let four = part.code == EccCode::Four;
        for code in 0..64 {
            // Bits 3 and 2 are how the last program and erase ended, but on parts of XTX.
            let status = code << 2;
            if !four && status & 0x0C != 0 {
                continue;
            }
            for extended in (0..16).map(|half| half << 4 | half) {
                driver.spi_mut().force_ecc(Some((status, extended)));
                let mut data = [0; 4];
                let read = driver.read(PageAddr(0), 0, &mut data, &mut []).unwrap();
                let expected = meaning(part, status, extended);
                let (name, code) = (part.name, part.code);
                assert_eq!(
                    read, expected,
                    "{name}, {code:?}: {status:#04x}, {extended:#04x}"
                );
                assert_eq!(data == *b"data", read.is_readable(), "{name}");
            }
        }
    }
}

/// Bits that are flipped in the array below: never fewer are said than there are.
#[test]
fn flipped_bits_are_said_and_never_too_few() {
    for (part, mut chip) in every_part() {
        let mut driver = open(&mut chip).unwrap();
        driver.program(PageAddr(0), &[0x55; 512], &[]).unwrap();
        for bits in 1..=part.ecc_bits {
            let faults = Faults {
                ecc: part.ecc_bits,
                bitflips: bits,
                bitflip_rate: flashkit_sim::Rate(1),
                ..Faults::default()
            };
            driver.spi_mut().chip_mut().set_faults(faults).unwrap();
            for _ in 0..8 {
                let mut data = [0; 512];
                let read = driver.read(PageAddr(0), 0, &mut data, &mut []).unwrap();
                let Corrected(said) = read else {
                    panic!("{}: {read:?}", part.name);
                };
                assert!(said >= 1, "{}", part.name);
                assert_eq!(data, [0x55; 512], "{}", part.name);
                if part.ecc_bits == bits {
                    assert!(said <= 8);
                }
            }
        }
        let lost = Faults {
            uncorrectable: flashkit_sim::Rate(1),
            ..Faults::default()
        };
        driver.spi_mut().chip_mut().set_faults(lost).unwrap();
        let read = driver.read(PageAddr(0), 0, &mut [0; 4], &mut []);
        assert_eq!(read, Ok(Uncorrectable), "{}", part.name);
    }
}

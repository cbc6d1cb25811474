//! The model without the driver: what it forbids, and what it counts.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Operation, SpiDevice};
use flashkit_nand::{BlockAddr, Nand, PageAddr, ReadStatus};

use super::{SPI_PARTS, SpiCut, SpiNandChip, SpiNandError, SpiSpeed, spi_part};
use crate::{EraseTear, SimNand, Tear};

const WRITE_ENABLE: &[u8] = &[0x06];
const UNLOCK: &[u8] = &[0x1F, 0xA0, 0];

fn chip(name: &str) -> SpiNandChip<SimNand> {
    SpiNandChip::new(name)
}

/// Waits longer than anything takes.
fn wait(chip: &mut SpiNandChip<SimNand>) -> u8 {
    chip.delay().delay_ms(20);
    status(chip)
}

fn status(chip: &mut SpiNandChip<SimNand>) -> u8 {
    let mut status = [0];
    let mut operations = [
        Operation::Write(&[0x0F, 0xC0]),
        Operation::Read(&mut status),
    ];
    chip.transaction(&mut operations).unwrap();
    status[0]
}

fn is_protocol<T: core::fmt::Debug, E: core::fmt::Debug>(result: &Result<T, SpiNandError<E>>) {
    assert!(
        matches!(result, Err(SpiNandError::Protocol(_))),
        "{result:?}"
    );
}

#[test]
fn commands_of_the_wrong_length_are_errors() {
    let wrong: [&[u8]; 14] = [
        &[],
        &[0x06, 0x00],
        &[0xFF, 0x00],
        &[0x0F],
        &[0x0F, 0xC0],
        &[0x0F, 0xC0, 0x00],
        &[0x1F, 0xA0],
        &[0x1F, 0xA0, 0, 0],
        &[0x13, 0, 0],
        &[0x13, 0, 0, 0, 0],
        &[0x03, 0, 0],
        &[0x03, 0, 0, 0],
        &[0x02, 0],
        &[0xD8, 0],
    ];
    for bytes in wrong {
        is_protocol(&chip("W25N01GV").write(bytes));
    }
}

#[test]
fn nonsense_is_an_error() {
    let nonsense: [&[u8]; 8] = [
        &[0x9E],
        // Of another maker.
        &[0x7C, 0],
        // Without a write enable.
        &[0x02, 0, 0, 1],
        &[0x10, 0, 0, 0],
        &[0xD8, 0, 0, 0],
        // Registers that are not there, or cannot be written.
        &[0x1F, 0xC0, 0],
        &[0x1F, 0x30, 0],
        // Behind the last block.
        &[0x13, 1, 0, 0],
    ];
    for bytes in nonsense {
        is_protocol(&chip("W25N01GV").write(bytes));
    }
    let mut byte = [0];
    is_protocol(&chip("W25N01GV").read(&mut byte));
    let register = &mut [Operation::Write(&[0x0F, 0x30]), Operation::Read(&mut byte)];
    is_protocol(&chip("W25N01GV").transaction(register));
    // In the address, and behind the end of the page.
    let early = &mut [Operation::Write(&[0x03, 0]), Operation::Read(&mut byte)];
    is_protocol(&chip("W25N01GV").transaction(early));
    let behind = &mut [
        Operation::Write(&[0x03, 0x08, 0x40, 0]),
        Operation::Read(&mut byte),
    ];
    let mut buffered = chip("W25N01GV");
    buffered.write(&[0x1F, 0xB0, 0x18]).unwrap();
    is_protocol(&buffered.transaction(behind));
}

#[test]
fn a_busy_chip_answers_for_its_status_alone() {
    let mut chip = chip("W25N01GV");
    chip.write(&[0x13, 0, 0, 0]).unwrap();
    assert_eq!(status(&mut chip) & 1, 1);
    is_protocol(&chip.write(WRITE_ENABLE));
    assert_eq!(wait(&mut chip), 0);
    chip.write(WRITE_ENABLE).unwrap();
    assert_eq!(status(&mut chip), 2);
    chip.write(&[0x04]).unwrap();
    assert_eq!(status(&mut chip), 0);
}

#[test]
fn blocks_are_locked_at_power_up() {
    let mut chip = chip("W25N01GV");
    chip.chip_mut().program(PageAddr(0), b"a", &[]).unwrap();
    for (unlock, failed) in [(false, 0x04), (true, 0)] {
        if unlock {
            chip.write(UNLOCK).unwrap();
        }
        chip.write(WRITE_ENABLE).unwrap();
        chip.write(&[0xD8, 0, 0, 0]).unwrap();
        assert_eq!(wait(&mut chip), failed);
        let mut byte = [0];
        chip.chip_mut()
            .read(PageAddr(0), 0, &mut byte, &mut [])
            .unwrap();
        assert_eq!(byte[0], if unlock { 0xFF } else { b'a' });
    }
}

/// What the cache held before does not get into a page unseen, and parity is the chip's.
#[test]
fn a_program_of_stale_or_foreign_bytes_is_an_error() {
    let mut stale = chip("GD5F1GQ5UE");
    stale.write(UNLOCK).unwrap();
    stale.write(WRITE_ENABLE).unwrap();
    stale.write(&[0x02, 0, 0, 1]).unwrap();
    is_protocol(&stale.write(&[0x10, 0, 0, 0]));

    let mut foreign = chip("W25N01GV");
    foreign.write(WRITE_ENABLE).unwrap();
    for column in [0u16, 1, 8, 15, 16, 17, 63] {
        let [high, low] = (2048 + column).to_be_bytes();
        is_protocol(&foreign.write(&[0x84, high, low, 0]));
    }
    foreign.write(&[0x84, 0x08, 0x02, 0]).unwrap();
}

#[test]
fn a_mark_needs_the_ecc_off_and_nothing_else_may() {
    for (config, column, good) in [(0, 2048u16, true), (0, 2050, false), (0x10, 2048, false)] {
        let mut chip = chip("W25N01GV");
        chip.write(UNLOCK).unwrap();
        chip.write(&[0x1F, 0xB0, config]).unwrap();
        chip.write(WRITE_ENABLE).unwrap();
        let [high, low] = column.to_be_bytes();
        let done = chip
            .write(&[0x02, high, low, 0])
            .and_then(|()| chip.write(&[0x10, 0, 0x01, 0x40]));
        if good {
            done.unwrap();
            wait(&mut chip);
            assert_eq!(chip.chip().bad_blocks(), [BlockAddr(5)]);
        } else {
            is_protocol(&done);
        }
    }
}

#[test]
fn a_copy_where_the_part_has_none_is_an_error() {
    for (name, to, good) in [
        ("GD5F1GQ5UE", 2, true),
        ("GD5F1GQ5UE", 1, false),
        ("W25N01GV", 1, true),
        ("W25N04KV", 2, false),
    ] {
        let mut chip = chip(name);
        chip.write(UNLOCK).unwrap();
        chip.write(&[0x13, 0, 0, 0]).unwrap();
        wait(&mut chip);
        chip.write(WRITE_ENABLE).unwrap();
        let copied = chip.write(&[0x10, 0, 0, to * 64]);
        match good {
            true => copied.unwrap(),
            false => is_protocol(&copied),
        }
    }
}

#[test]
fn the_other_plane_has_a_cache_of_its_own() {
    let mut chip = chip("MT29F2G01ABAGD");
    chip.write(UNLOCK).unwrap();
    // Block 1: the plane is bit 12 of the column.
    chip.write(&[0x13, 0, 0, 64]).unwrap();
    wait(&mut chip);
    let mut byte = [0];
    let read = &mut [
        Operation::Write(&[0x03, 0x00, 0, 0]),
        Operation::Read(&mut byte),
    ];
    is_protocol(&chip.transaction(read));
    let read = &mut [
        Operation::Write(&[0x03, 0x10, 0, 0]),
        Operation::Read(&mut byte),
    ];
    chip.transaction(read).unwrap();
    chip.write(WRITE_ENABLE).unwrap();
    chip.write(&[0x02, 0x00, 0, 1]).unwrap();
    is_protocol(&chip.write(&[0x10, 0, 0, 64]));
}

/// A program that is cut while the chip is at it is torn; before, it was never begun.
#[test]
fn a_cut_tears_what_the_array_is_doing() {
    let steps: [&[u8]; 4] = [UNLOCK, WRITE_ENABLE, &[0x02, 0, 0, b'a'], &[0x10, 0, 0, 0]];
    let before: u64 = steps.iter().map(|step| step.len() as u64).sum();
    for (bytes, readable, first) in [
        (before - 1, true, 0xFF),
        (before, false, 0),
        (before + 1, false, 0),
    ] {
        let mut chip = chip("W25N01GV");
        let cut = SpiCut {
            bytes,
            program: Tear::Garbage,
            erase: EraseTear::Mixed,
            seed: 1,
        };
        chip.cut_after(cut);
        let mut done = Ok(());
        for step in steps {
            done = done.and_then(|()| chip.write(step));
        }
        done = done.and_then(|()| chip.write(&[0x0F, 0xC0]));
        assert_eq!(done, Err(SpiNandError::PowerOff));
        assert!(chip.is_off());
        assert_eq!(chip.write(WRITE_ENABLE), Err(SpiNandError::PowerOff));
        let mut byte = [0];
        let read = chip
            .chip_mut()
            .read(PageAddr(0), 0, &mut byte, &mut [])
            .unwrap();
        assert_eq!(read.is_readable(), readable, "{bytes}");
        assert!(!readable || byte == [first]);
    }
}

#[test]
fn bytes_are_counted_and_clocked() {
    let mut chip = chip("W25N01GV");
    chip.set_speed(SpiSpeed { mhz: 40, lanes: 4 });
    chip.write(&[0x13, 0, 0, 0]).unwrap();
    wait(&mut chip);
    let before = chip.count();
    let at = chip.now_ns();
    let mut data = [0; 100];
    let read = &mut [
        Operation::Write(&[0x03, 0, 0, 0]),
        Operation::Read(&mut data),
    ];
    chip.transaction(read).unwrap();
    let moved = chip.count() - before;
    assert_eq!(
        (moved.transactions, moved.bytes, moved.data_bytes),
        (1, 104, 100)
    );
    // 4 bytes of 200 ns on one lane, 100 of 50 ns on four.
    assert_eq!(moved.bus_ps, 5_800_000);
    assert_eq!(chip.now_ns() - at, 5_800);
}

/// Each count of each part has a code, and no two outcomes share one that would be taken for
/// fewer bits: an uncorrectable page has a code of its own.
#[test]
fn uncorrectable_has_a_code_of_its_own() {
    for part in &SPI_PARTS {
        let mask = 0xFC;
        let lost = part.code.encode(ReadStatus::Uncorrectable).0 & mask;
        for bits in 0..=part.ecc_bits {
            let read = match bits {
                0 => ReadStatus::Clean,
                bits => ReadStatus::Corrected(bits),
            };
            assert_ne!(
                part.code.encode(read).0 & mask,
                lost,
                "{}: {bits}",
                part.name
            );
        }
    }
}

#[test]
fn parts_are_of_a_shape_that_flashkit_can_use() {
    for part in &SPI_PARTS {
        assert_eq!(part.geometry().spare_size(), part.spare_size());
        assert_eq!(spi_part(part.name), Some(part));
    }
    assert_eq!(spi_part("W25N"), None);
}

//! Opening a chip: what it is, and all that can be wrong with it.

use flashkit_nand::{Geometry, GeometryError, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::spi::{seal, spi_part};
use flashkit_spi_nand::{Doing, Error, Idle, Onfi, Part, SpiNand, parts};

use crate::{Chip, every_part, open};

#[test]
fn a_bus_without_a_chip() {
    for byte in [0xFF, 0x00] {
        let mut chip = Chip::new("W25N01GV");
        chip.unplug(Some(byte));
        let error = open(&mut chip).err().unwrap();
        assert_eq!(error, Error::NoChip { byte });
        let text = format!("no chip answers: the bus reads {byte:#04x}");
        assert_eq!(error.to_string(), text);
    }
    // Something answers, and says that it is busy for ever.
    let mut chip = Chip::new("W25N01GV");
    chip.unplug(Some(0x55));
    assert_eq!(open(&mut chip).err(), Some(Error::TimedOut(Doing::Reset)));
}

#[test]
fn an_unknown_id_says_what_the_chip_says() {
    let mut chip = Chip::new("W25N01GV");
    chip.set_id(&[0xEF, 0xAA, 0x77]);
    let error = open(&mut chip).err().unwrap();
    let text = "no known part has the id [ef, aa, 77, 00, 00], or [ff, ef, aa, 77, 00]; \
                its parameter page says W25N01GV, 1024 blocks of 64 pages of 2048 + 64 bytes";
    assert_eq!(error.to_string(), text);
    let Error::UnknownId { id, onfi, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(id, [0xEF, 0xAA, 0x77, 0, 0]);
    assert_eq!(onfi.unwrap().blocks, 1024);

    chip.set_parameter_pages(Vec::new());
    let error = open(&mut chip).err().unwrap();
    assert!(matches!(error, Error::UnknownId { onfi: None, .. }));
    assert!(error.to_string().ends_with("; there is no parameter page"));
}

/// A chip whose id no table has, by its parameter page: the caller decides.
#[test]
fn an_unknown_chip_can_be_used_by_its_parameter_page() {
    let mut chip = Chip::over(
        {
            let timing = spi_part("W25N01GV").unwrap().timing;
            let geometry = Geometry::new(2048, 0, 64, 1024).unwrap();
            flashkit_sim::SimNand::new(flashkit_sim::ChipSpec::new(geometry, timing))
        },
        flashkit_sim::spi::SpiPart {
            id: &[0x77, 0x12],
            runs: &[],
            buffer: None,
            load_clears: false,
            ..*spi_part("W25N01GV").unwrap()
        },
    );
    let Some(Error::UnknownId {
        onfi: Some(onfi), ..
    }) = open(&mut chip).err()
    else {
        panic!("it has a parameter page");
    };
    let part = Part::from_onfi(&onfi, 1);
    let delay = chip.delay();
    let mut driver = SpiNand::open_as(&mut chip, delay, Idle, &part).unwrap();
    assert_eq!(
        driver.program(PageAddr(0), b"data", &[]),
        Ok(OpStatus::Done)
    );
    let mut data = [0; 4];
    assert_eq!(
        driver.read(PageAddr(0), 0, &mut data, &mut []),
        Ok(ReadStatus::Clean)
    );
    assert_eq!(&data, b"data");
}

#[test]
fn a_row_that_contradicts_the_chip() {
    for (part, mut chip) in every_part() {
        let fields: [(usize, [u8; 2]); 4] =
            [(80, [0, 0x20]), (84, [1, 0]), (92, [32, 0]), (96, [1, 2])];
        for (at, value) in fields {
            let mut page = part.parameter_page();
            page[at..at + 2].copy_from_slice(&value);
            seal(&mut page);
            chip.set_parameter_pages(vec![page; 3]);
            let error = open(&mut chip).err().unwrap();
            let Error::Contradiction { part: name, onfi } = error else {
                panic!("{}: {error:?}", part.name);
            };
            assert_eq!(name, part.name);
            let text = format!("the id is that of {name}, but {onfi}");
            assert_eq!(error.to_string(), text);
        }
    }
}

/// One good copy of the parameter page is enough, and none is no contradiction.
#[test]
fn spoilt_copies_of_the_parameter_page_are_passed_over() {
    let part = spi_part("GD5F1GQ5UE").unwrap();
    let good = part.parameter_page();
    let mut other = good;
    other[96] = 1;
    let mut spoilt = other;
    seal(&mut other);
    spoilt[3] ^= 1;
    for (copies, agrees) in [
        (vec![spoilt, spoilt, good], true),
        (vec![spoilt, good, other], true),
        (vec![spoilt, spoilt, other], false),
        (vec![spoilt, spoilt, spoilt], true),
        (vec![], true),
    ] {
        let mut chip = Chip::new(part.name);
        chip.set_parameter_pages(copies);
        assert_eq!(open(&mut chip).is_ok(), agrees);
    }
}

/// A page with a part's numbers, whose model is text that a terminal would obey.
#[test]
fn a_model_is_shown_as_plain_text() {
    let onfi = Onfi {
        model: *b"\x1b[2JBAD             ",
        ..Onfi::default()
    };
    assert!(
        onfi.to_string()
            .starts_with("its parameter page says ?[2JBAD, 0 blocks")
    );
}

#[test]
fn a_shape_that_flashkit_cannot_use() {
    let mut chip = Chip::new("W25N01GV");
    for (part, error) in [
        (
            Part {
                blocks: 4,
                ..parts::WINBOND[2]
            },
            Error::Geometry(GeometryError::Blocks),
        ),
        (
            Part {
                page_size: 2112,
                ..parts::WINBOND[2]
            },
            Error::Geometry(GeometryError::PageSize),
        ),
        (
            Part {
                pages_per_block: 96,
                ..parts::WINBOND[2]
            },
            Error::Row,
        ),
        (
            Part {
                raw_spare: 32,
                ..parts::WINBOND[2]
            },
            Error::Row,
        ),
    ] {
        let delay = chip.delay();
        let opened = SpiNand::open_as(&mut chip, delay, Idle, &part);
        assert_eq!(opened.err(), Some(error));
    }
}

#[test]
fn blocks_that_stay_locked() {
    let mut chip = Chip::new("MT29F1G01ABAFD");
    chip.lock_protection(true);
    let error = open(&mut chip).err().unwrap();
    let text = "register 0xa0 holds 0x7c, not 0x00";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_chip_that_never_ends_its_reset() {
    let mut chip = Chip::new("XT26G01A");
    chip.hang(true);
    let before = chip.now_ns();
    assert_eq!(open(&mut chip).err(), Some(Error::TimedOut(Doing::Reset)));
    assert!(chip.now_ns() - before < 10_000_000);
}

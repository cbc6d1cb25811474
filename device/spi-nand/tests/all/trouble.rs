//! A chip that fails, hangs, or is gone.

use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::spi::{SpiCut, SpiNandError, SpiPart};
use flashkit_sim::{ChipSpec, EraseTear, Faults, Rate, SimError, SimNand, Tear, Weak};
use flashkit_spi_nand::{Doing, Error, Idle, SpiNand, parts};

use crate::{Chip, every_part, open, read_page, with_faults};

#[test]
fn programs_and_erases_that_fail() {
    for (part, _) in every_part() {
        let geometry = part.geometry();
        let page = geometry.page(BlockAddr(5), 1).0;
        let mut chip = with_faults(
            part.name,
            Faults {
                weak_pages: vec![Weak { at: page, good: 0 }],
                weak_blocks: vec![Weak { at: 6, good: 1 }],
                ..Faults::default()
            },
        );
        let mut driver = open(&mut chip).unwrap();
        assert_eq!(
            driver.program(PageAddr(page - 1), b"a", &[]),
            Ok(OpStatus::Done)
        );
        assert_eq!(
            driver.program(PageAddr(page), b"b", &[]),
            Ok(OpStatus::Failed)
        );
        assert_eq!(driver.erase(BlockAddr(6)), Ok(OpStatus::Done));
        assert_eq!(
            driver.erase(BlockAddr(6)),
            Ok(OpStatus::Failed),
            "{}",
            part.name
        );
        // A failure is of its block alone, and what was programmed before can be read.
        assert_eq!(driver.erase(BlockAddr(7)), Ok(OpStatus::Done));
        assert_eq!(read_page(&mut driver, PageAddr(page - 1)).0[0], b'a');
        driver.mark_bad(BlockAddr(5)).unwrap();
        assert_eq!(driver.is_bad(BlockAddr(5)), Ok(true));
    }
}

/// Each wait ends: after twice the time of the data sheet and a millisecond.
#[test]
fn a_chip_that_hangs() {
    for (part, mut chip) in every_part() {
        let times = open(&mut chip).unwrap().part().times;
        for (doing, us) in [
            (Doing::Read, times.read_us),
            (Doing::Program, times.program_us),
            (Doing::Erase, times.erase_us),
        ] {
            chip.power_on();
            chip.hang(false);
            let mut driver = open(&mut chip).unwrap();
            driver.spi_mut().hang(true);
            let before = driver.spi_mut().now_ns();
            let error = match doing {
                Doing::Program => driver.program(PageAddr(0), b"a", &[]).unwrap_err(),
                Doing::Erase => driver.erase(BlockAddr(0)).unwrap_err(),
                _ => driver.read(PageAddr(0), 0, &mut [0], &mut []).unwrap_err(),
            };
            assert_eq!(error, Error::TimedOut(doing), "{}", part.name);
            let waited = driver.spi_mut().now_ns() - before;
            let most = (u64::from(us) * 2 + 1_000) * 1_000;
            assert!(
                (most..2 * most).contains(&waited),
                "{}: {waited}",
                part.name
            );
        }
    }
}

/// The slowest chip that its data sheet allows is waited for.
#[test]
fn a_chip_that_takes_all_its_time() {
    for (part, _) in every_part() {
        let row = parts::ALL.iter().copied().flatten();
        let times = row.clone().find(|row| row.name == part.name).unwrap().times;
        let ns = |us: u32| u64::from(us) * 1_000;
        let timing = flashkit_sim::Timing {
            read_ns: ns(times.read_us),
            program_ns: ns(times.program_us),
            erase_ns: ns(times.erase_us),
        };
        let slow = SpiPart { timing, ..*part };
        let spec = ChipSpec::new(part.geometry(), timing);
        let mut chip = Chip::over(SimNand::new(spec), slow);
        let mut driver = open(&mut chip).unwrap();
        assert_eq!(driver.erase(BlockAddr(0)), Ok(OpStatus::Done));
        assert_eq!(driver.program(PageAddr(0), b"a", &[]), Ok(OpStatus::Done));
        assert_eq!(
            read_page(&mut driver, PageAddr(0)).0[0],
            b'a',
            "{}",
            part.name
        );
    }
}

/// On a bus that reads as 0 nothing ever fails: the driver must not take that for success. On one
/// that reads as 1 it waits in vain.
#[test]
fn a_chip_that_is_gone() {
    type Act = fn(&mut crate::Driver<'_>) -> Result<(), crate::DriverError>;
    let acts: [(Doing, Act); 3] = [
        (Doing::Program, |driver| {
            driver.program(PageAddr(0), b"a", &[]).map(drop)
        }),
        (Doing::Erase, |driver| driver.erase(BlockAddr(0)).map(drop)),
        (Doing::Read, |driver| {
            driver.read(PageAddr(0), 0, &mut [0], &mut []).map(drop)
        }),
    ];
    for (doing, act) in acts {
        let mut chip = Chip::new("W25N01GV");
        let mut driver = open(&mut chip).unwrap();
        if doing != Doing::Read {
            driver.spi_mut().unplug(Some(0));
            assert_eq!(act(&mut driver), Err(Error::WriteDisabled));
            // Nor is it there for the next call.
            assert!(act(&mut driver).is_err());
            driver.spi_mut().unplug(None);
            assert_eq!(act(&mut driver), Ok(()));
        }
        driver.spi_mut().unplug(Some(0xFF));
        let reads_as_1 = act(&mut driver);
        assert_eq!(reads_as_1, Err(Error::TimedOut(doing)));
    }
}

#[test]
fn a_chip_that_allows_no_write() {
    let mut chip = Chip::new("W25N01GV");
    chip.ignore_write_enable(true);
    let mut driver = open(&mut chip).unwrap();
    assert_eq!(driver.erase(BlockAddr(0)), Err(Error::WriteDisabled));
}

/// A supply that sags has the chip start anew, with all blocks locked: that is no bad block.
#[test]
fn a_chip_that_has_lost_its_settings() {
    for (part, mut chip) in every_part() {
        let mut driver = open(&mut chip).unwrap();
        driver.spi_mut().power_on();
        for failed in [
            driver.program(PageAddr(0), b"a", &[]).unwrap_err(),
            driver.erase(BlockAddr(0)).unwrap_err(),
        ] {
            let expected = Error::Register {
                register: 0xA0,
                wanted: 0,
                found: 0x7C,
            };
            assert_eq!(failed, expected, "{}", part.name);
        }
        // Opened anew it works, and nothing was written.
        let mut driver = open(&mut chip).unwrap();
        assert_eq!(read_page(&mut driver, PageAddr(0)).0[0], 0xFF);
        assert_eq!(driver.program(PageAddr(0), b"a", &[]), Ok(OpStatus::Done));
    }
}

/// A supply that sags while the chip programs or erases: it starts anew and says that nothing has
/// failed, but the page is blank and the block as it was. That must not pass for done.
#[test]
fn a_chip_that_loses_its_supply_at_work() {
    for (part, mut chip) in every_part() {
        let delay = chip.delay();
        let bus = Sagging {
            chip: &mut chip,
            at: None,
        };
        let mut driver = SpiNand::open(bus, delay, Idle, &parts::ALL).unwrap();
        assert_eq!(driver.program(PageAddr(0), b"a", &[]), Ok(OpStatus::Done));
        let expected = Error::Register {
            register: 0xA0,
            wanted: 0,
            found: 0x7C,
        };
        driver.spi_mut().at = Some(0x10);
        let programmed = driver.program(PageAddr(1), b"b", &[]);
        assert_eq!(programmed, Err(expected.clone()), "{}", part.name);
        drop(driver);
        let delay = chip.delay();
        let bus = Sagging {
            chip: &mut chip,
            at: Some(0xD8),
        };
        let mut driver = SpiNand::open(bus, delay, Idle, &parts::ALL).unwrap();
        assert_eq!(driver.erase(BlockAddr(0)), Err(expected), "{}", part.name);
        drop(driver);
        let mut driver = open(&mut chip).unwrap();
        assert_eq!(read_page(&mut driver, PageAddr(0)).0[0], b'a');
        assert_eq!(read_page(&mut driver, PageAddr(1)).0[0], 0xFF);
        assert_eq!(driver.erase(BlockAddr(0)), Ok(OpStatus::Done));
    }
}

/// A chip whose supply, not that of the host, is gone for a moment behind this command.
struct Sagging<'c> {
    chip: &'c mut Chip,
    at: Option<u8>,
}

impl ErrorType for Sagging<'_> {
    type Error = SpiNandError<SimError>;
}

impl SpiDevice for Sagging<'_> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Self::Error> {
        let sent = match operations.first() {
            Some(Operation::Write(bytes)) => bytes.first().copied(),
            _ => None,
        };
        self.chip.transaction(operations)?;
        if sent.is_some() && sent == self.at {
            self.at = None;
            // The first byte of the next command is too late.
            self.chip.cut_after(SpiCut {
                bytes: 0,
                program: Tear::NotBegun,
                erase: EraseTear::NotBegun,
                seed: 1,
            });
            assert!(self.chip.write(&[0x0F, 0xC0]).is_err());
            self.chip.power_on();
        }
        Ok(())
    }
}

/// A bus that fails once, while the ECC is off: it is on again before the next read.
#[test]
fn the_ecc_is_on_again_after_a_bus_error() {
    let mut chip = with_faults(
        "MT29F1G01ABAFD",
        Faults {
            bitflips: 3,
            bitflip_rate: Rate(1),
            ..Faults::default()
        },
    );
    let page = [0x77; 2048];
    open(&mut chip)
        .unwrap()
        .program(PageAddr(0), &page, &[])
        .unwrap();
    // One transaction after another fails, from the first of a look for a mark on.
    for failing in 0..6 {
        let delay = chip.delay();
        let bus = Flaky {
            chip: &mut chip,
            good: u32::MAX,
        };
        let mut driver = SpiNand::open(bus, delay, Idle, &parts::ALL).unwrap();
        driver.spi_mut().good = failing;
        assert!(driver.is_bad(BlockAddr(0)).is_err(), "{failing}");
        driver.spi_mut().good = u32::MAX;
        let mut data = [0; 2048];
        let read = driver.read(PageAddr(0), 0, &mut data, &mut []).unwrap();
        assert_eq!((read, data), (ReadStatus::Corrected(3), page), "{failing}");
    }
}

/// A bus of which a transaction fails, and those behind it.
struct Flaky<'c> {
    chip: &'c mut Chip,
    good: u32,
}

impl ErrorType for Flaky<'_> {
    type Error = SpiNandError<SimError>;
}

impl SpiDevice for Flaky<'_> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Self::Error> {
        if self.good == 0 {
            return Err(SpiNandError::PowerOff);
        }
        self.good -= 1;
        self.chip.transaction(operations)
    }
}

/// The hook is called while the chip works, and told at what.
#[test]
fn the_hook_is_called_while_the_chip_is_busy() {
    let mut chip = Chip::new("W25N01GV");
    let delay = chip.delay();
    let mut seen = Vec::new();
    let hook = |doing| seen.push(doing);
    let mut driver = SpiNand::open(&mut chip, delay, hook, &parts::ALL).unwrap();
    driver.erase(BlockAddr(0)).unwrap();
    driver.program(PageAddr(0), b"a", &[]).unwrap();
    drop(driver);
    let erase = seen.iter().filter(|doing| **doing == Doing::Erase).count();
    let program = seen
        .iter()
        .filter(|doing| **doing == Doing::Program)
        .count();
    assert!(erase >= 2 && program >= 2, "{seen:?}");
}

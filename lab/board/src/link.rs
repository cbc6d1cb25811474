//! The messages that are the image's SPI bus. `firmware/src/link.rs` and `firmware/c/link.c` have
//! the other side, and the table of messages.

use std::io::{self, Read, Write};

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Operation, SpiDevice};
use flashkit_meter::{Counters, Metered};
use flashkit_sim::SimNand;
use flashkit_sim::spi::{SpiNandChip, SpiNandError};

use crate::figures::{Call, Cost};

const WRITE: u8 = 1;
const READ: u8 = 2;
const END: u8 = 3;
const DELAY: u8 = 4;
const BEGIN: u8 = 5;
const ENDED: u8 = 6;

/// What a transaction ends with.
const DONE: u8 = 0x5A;
/// Bytes of a message, at most: more than any page has.
const LONGEST: u32 = 1 << 15;

/// Why it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The power was cut.
    Cut,
    /// The image is gone.
    Gone,
    /// The image did what it may not do.
    Wrong(String),
}

/// A part of a transaction.
enum Part {
    Write(Vec<u8>),
    Read(Vec<u8>),
    Delay(u32),
}

/// What was there when a call began.
struct Begun {
    which: u32,
    bytes: u64,
    time_ns: u64,
    flash: Counters,
}

/// Serves the bus until the power is cut or the image ends. `call` is told of each call that is
/// measured, `beat` of each message.
pub fn serve(
    chip: &mut SpiNandChip<SimNand>,
    from: &mut impl Read,
    to: &mut impl Write,
    call: &mut dyn FnMut(Call),
    beat: &mut dyn FnMut(),
) -> io::Result<End> {
    let mut parts = Vec::new();
    let mut begun = None;
    loop {
        beat();
        let mut head = [0; 5];
        if !whole(from, &mut head)? {
            return Ok(End::Gone);
        }
        let [kind, number @ ..] = head;
        let number = u32::from_le_bytes(number);
        if matches!(kind, WRITE | READ) && number > LONGEST {
            return Ok(End::Wrong(format!("a message of {number} bytes")));
        }
        match kind {
            WRITE => {
                let mut bytes = vec![0; number as usize];
                if !whole(from, &mut bytes)? {
                    return Ok(End::Gone);
                }
                parts.push(Part::Write(bytes));
            }
            READ => parts.push(Part::Read(vec![0; number as usize])),
            DELAY if parts.is_empty() => chip.delay().delay_ns(number),
            DELAY => parts.push(Part::Delay(number)),
            BEGIN => begun = Some(begin(chip, number)),
            ENDED => match begun.take() {
                Some(begun) => call(ended(chip, &begun, number)),
                None => return Ok(End::Wrong("a call ends that has not begun".into())),
            },
            END => {
                if let Some(end) = transaction(chip, &mut parts) {
                    return Ok(end);
                }
                for part in parts.drain(..) {
                    if let Part::Read(bytes) = part {
                        to.write_all(&bytes)?;
                    }
                }
                to.write_all(&[DONE])?;
                to.flush()?;
            }
            _ => return Ok(End::Wrong(format!("a message of kind {kind}"))),
        }
    }
}

/// Reads all of it, or finds that there is no more.
fn whole(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Hands a transaction to the chip; says why nothing follows, if nothing does.
fn transaction(chip: &mut SpiNandChip<SimNand>, parts: &mut [Part]) -> Option<End> {
    let operation = |part| match part {
        &mut Part::Write(ref bytes) => Operation::Write(bytes),
        Part::Read(bytes) => Operation::Read(bytes),
        Part::Delay(ns) => Operation::DelayNs(*ns),
    };
    let mut operations: Vec<_> = parts.iter_mut().map(operation).collect();
    match chip.transaction(&mut operations) {
        Ok(()) => None,
        Err(SpiNandError::PowerOff) => Some(End::Cut),
        Err(error) => Some(End::Wrong(format!("{error:?}"))),
    }
}

fn begin(chip: &SpiNandChip<SimNand>, which: u32) -> Begun {
    Begun {
        which,
        bytes: chip.count().bytes,
        time_ns: chip.now_ns(),
        flash: chip.chip().counters(),
    }
}

fn ended(chip: &SpiNandChip<SimNand>, begun: &Begun, instructions: u32) -> Call {
    let flash = chip.chip().counters();
    Call {
        which: begun.which,
        at: begun.bytes,
        cost: Cost {
            instructions: u64::from(instructions),
            bytes: chip.count().bytes - begun.bytes,
            chip_us: (chip.now_ns() - begun.time_ns) / 1_000,
            reads: flash.page_reads - begun.flash.page_reads,
            programs: flash.page_programs - begun.flash.page_programs,
            erases: flash.block_erases - begun.flash.block_erases,
        },
    }
}

#[cfg(test)]
mod tests {
    use flashkit_sim::spi::SpiCut;
    use flashkit_sim::{EraseTear, Tear};

    use super::*;

    fn message(kind: u8, number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut message = vec![kind];
        message.extend(number.to_le_bytes());
        message.extend(bytes);
        message
    }

    /// What an image sends: the id is asked for, in a call that is measured.
    fn asks_for_id() -> Vec<u8> {
        [
            message(BEGIN, 4, &[]),
            message(WRITE, 2, &[0x9F, 0]),
            message(READ, 3, &[]),
            message(END, 0, &[]),
            message(DELAY, 5_000, &[]),
            message(ENDED, 77, &[]),
        ]
        .concat()
    }

    fn served(sent: &[u8], cut: Option<u64>) -> (End, Vec<u8>, Vec<Call>) {
        let mut chip = SpiNandChip::new("W25N01GV");
        if let Some(bytes) = cut {
            let (program, erase) = (Tear::Garbage, EraseTear::Mixed);
            chip.cut_after(SpiCut {
                bytes,
                program,
                erase,
                seed: 1,
            });
        }
        let (mut answer, mut calls) = (Vec::new(), Vec::new());
        let mut sent = sent;
        let end = serve(
            &mut chip,
            &mut sent,
            &mut answer,
            &mut |call| calls.push(call),
            &mut || {},
        );
        (end.unwrap(), answer, calls)
    }

    #[test]
    fn an_image_asks_for_the_id() {
        let (end, answer, calls) = served(&asks_for_id(), None);
        assert_eq!(end, End::Gone);
        assert_eq!(answer, [0xEF, 0xAA, 0x21, DONE]);
        let [call] = &calls[..] else {
            panic!("{calls:?}");
        };
        assert_eq!((call.which, call.cost.instructions), (4, 77));
        assert_eq!((call.cost.bytes, call.cost.chip_us), (5, 5));
    }

    #[test]
    fn nothing_is_answered_once_the_power_is_cut() {
        for bytes in 0..5 {
            let (end, answer, calls) = served(&asks_for_id(), Some(bytes));
            assert_eq!(
                (end, answer.len(), calls.len()),
                (End::Cut, 0, 0),
                "{bytes}"
            );
        }
        let (end, answer, _) = served(&asks_for_id(), Some(5));
        assert_eq!((end, answer.len()), (End::Gone, 4));
    }

    #[test]
    fn what_an_image_may_not_send() {
        let sends = |sent: &[u8]| served(sent, None).0;
        let too_long = message(READ, LONGEST + 1, &[]);
        assert!(matches!(sends(&too_long), End::Wrong(_)));
        assert!(matches!(sends(&message(9, 0, &[])), End::Wrong(_)));
        assert!(matches!(sends(&message(ENDED, 1, &[])), End::Wrong(_)));
        // A command that the chip does not have.
        let unknown = [message(WRITE, 1, &[0x77]), message(END, 0, &[])].concat();
        assert!(matches!(sends(&unknown), End::Wrong(_)));
        // One that ends in the middle of a message.
        assert_eq!(sends(&asks_for_id()[..8]), End::Gone);
    }
}

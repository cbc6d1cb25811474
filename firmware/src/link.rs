//! A SPI bus whose chip is a program on the host: what a bus moves goes through semihosting, over
//! the emulator's standard output, and what the chip sends comes back over its standard input.
//!
//! A message is a byte that says what it is, and a number of 32 bits, the lowest byte first:
//!
//! | message | number | follows | what it is |
//! | --- | --- | --- | --- |
//! | 1 | how many | the bytes | the chip is sent bytes; selects it |
//! | 2 | how many | | it is asked for bytes; selects it |
//! | 3 | 0 | | the end of a transaction: it is no longer selected |
//! | 4 | nanoseconds | | time passes |
//! | 5 | which | | a call of those that are measured begins |
//! | 6 | instructions | | and has ended |
//!
//! A transaction is answered by the bytes that were asked for and one byte more, [`DONE`], which
//! comes when the transaction has ended. Nothing else is answered. Where the power is cut, nothing
//! is: the host ends the emulator.

use core::convert::Infallible;

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

use crate::board::{clock, exit, instructions, semihost};

const WRITE: u8 = 1;
const READ: u8 = 2;
const END: u8 = 3;
const DELAY: u8 = 4;
const BEGIN: u8 = 5;
const ENDED: u8 = 6;

/// What a transaction ends with.
const DONE: u8 = 0x5a;

/// Semihosting: calls, and modes of a file.
const SYS_OPEN: u32 = 0x01;
const SYS_WRITE: u32 = 0x05;
const SYS_READ: u32 = 0x06;
const READ_BINARY: u32 = 1;
const WRITE_BINARY: u32 = 5;

/// The bytes of short messages that go together: a call of the host costs more than they do.
const GATHERED: usize = 64;

/// The bus.
pub struct Link {
    to: u32,
    from: u32,
}

impl Link {
    /// Opens the two streams. There must be one link alone, and the delays and meters of it.
    pub fn open() -> Link {
        Link {
            to: open(b"/dev/stdout\0", WRITE_BINARY),
            from: open(b"/dev/stdin\0", READ_BINARY),
        }
    }

    /// A delay on the chip's clock.
    pub fn delay(&self) -> Delay {
        Delay { to: self.to }
    }

    /// What tells the host of calls.
    pub fn meter(&self) -> Meter {
        Meter { to: self.to }
    }
}

fn open(path: &[u8], mode: u32) -> u32 {
    let words = [path.as_ptr() as u32, mode, path.len() as u32 - 1];
    let handle = semihost(SYS_OPEN, words.as_ptr() as u32);
    if handle == u32::MAX {
        exit(false);
    }
    handle
}

fn send(to: u32, bytes: &[u8]) {
    let words = [to, bytes.as_ptr() as u32, bytes.len() as u32];
    // It says how many bytes are left.
    if !bytes.is_empty() && semihost(SYS_WRITE, words.as_ptr() as u32) != 0 {
        exit(false);
    }
}

fn receive(from: u32, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &mut bytes[at..];
        let words = [from, rest.as_mut_ptr() as u32, rest.len() as u32];
        let left = semihost(SYS_READ, words.as_ptr() as u32) as usize;
        // The host is gone.
        if left >= rest.len() {
            exit(false);
        }
        at += rest.len() - left;
    }
}

fn message(kind: u8, number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_le_bytes();
    [kind, a, b, c, d]
}

/// Short messages on their way.
struct Gathered {
    bytes: [u8; GATHERED],
    len: usize,
    to: u32,
}

impl Gathered {
    fn flush(&mut self) {
        send(self.to, &self.bytes[..self.len]);
        self.len = 0;
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() > GATHERED {
            self.flush();
        }
        if bytes.len() > GATHERED {
            send(self.to, bytes);
        } else {
            self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

impl ErrorType for Link {
    type Error = Infallible;
}

impl SpiDevice for Link {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        let mut out = Gathered {
            bytes: [0; GATHERED],
            len: 0,
            to: self.to,
        };
        for operation in operations.iter() {
            match operation {
                Operation::Write(bytes) => {
                    out.add(&message(WRITE, bytes.len() as u32));
                    out.add(bytes);
                }
                Operation::Read(bytes) => out.add(&message(READ, bytes.len() as u32)),
                Operation::DelayNs(ns) => out.add(&message(DELAY, *ns)),
                // The driver has no others.
                _ => exit(false),
            }
        }
        out.add(&message(END, 0));
        out.flush();
        for operation in operations {
            if let Operation::Read(bytes) = operation {
                receive(self.from, bytes);
            }
        }
        let mut done = [0];
        receive(self.from, &mut done);
        if done != [DONE] {
            exit(false);
        }
        Ok(())
    }
}

/// A delay on the chip's clock. The processor's stands still.
pub struct Delay {
    to: u32,
}

impl DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        send(self.to, &message(DELAY, ns));
    }
}

/// Tells the host how many instructions a call takes; the host sees what it moves over the bus.
pub struct Meter {
    to: u32,
}

impl Meter {
    /// Does something that is measured; only what succeeds is told.
    pub fn call<T, E>(&mut self, which: u32, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        send(self.to, &message(BEGIN, which));
        let before = clock();
        let done = work();
        let spent = instructions(before);
        if done.is_ok() {
            send(self.to, &message(ENDED, spent));
        }
        done
    }
}

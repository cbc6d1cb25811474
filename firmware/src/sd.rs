//! An SD card on the SPI bus, as a block device (SD Physical Layer Simplified Specification,
//! chapter 7).

use flashkit_block::BlockDevice;

use flashkit_firmware::board::{exchange, select};

/// What the card said instead of what it should have said.
#[derive(Debug)]
pub struct Refused(pub u8);

/// A card that is ready.
pub struct Sd {
    blocks: u32,
    /// Cards of up to 2 GB are addressed in bytes.
    shift: u32,
}

/// How often the card is asked before it is given up.
const PATIENCE: u32 = 1_000_000;

impl Sd {
    /// No card yet.
    pub const fn new() -> Sd {
        Sd {
            blocks: 0,
            shift: 0,
        }
    }

    /// Wakes the card and asks for its size.
    pub fn start(&mut self) -> Result<(), Refused> {
        select(false);
        for _ in 0..10 {
            exchange(0xff);
        }
        command(0, 0, 1)?;
        self.shift = 9;
        // A card that knows this command may be a large one.
        let answer = send(8, 0x1aa);
        let mut rest = [0; 4];
        receive(&mut rest);
        select(false);
        let large = if answer == 1 { 1 << 30 } else { 0 };
        for _ in 0..PATIENCE {
            // The card is idle, answer 1, or ready, 0, when it hears that another one follows.
            let idle = send(55, 0);
            select(false);
            if idle > 1 {
                return Err(Refused(idle));
            }
            let busy = send(41, large);
            select(false);
            if busy == 0 {
                break;
            }
        }
        let answer = send(58, 0);
        receive(&mut rest);
        select(false);
        if answer == 0 && rest[0] & 0x40 != 0 {
            self.shift = 0;
        }
        command(16, 512, 0)?;
        let mut csd = [0; 16];
        let answer = send(9, 0);
        let read = read_data(answer, &mut csd);
        select(false);
        read?;
        self.blocks = if csd[0] >> 6 == 1 {
            let size = u32::from(csd[7] & 0x3f) << 16 | u32::from(csd[8]) << 8 | u32::from(csd[9]);
            (size + 1) << 10
        } else {
            let size =
                u32::from(csd[6] & 3) << 10 | u32::from(csd[7]) << 2 | u32::from(csd[8]) >> 6;
            let factor = u32::from(csd[9] & 3) << 1 | u32::from(csd[10]) >> 7;
            (size + 1) << (factor + 2 + u32::from(csd[5] & 0xf)) >> 9
        };
        Ok(())
    }
}

/// Selects the card, sends a command and gives the first byte of the answer.
fn send(number: u8, argument: u32) -> u8 {
    select(true);
    exchange(0xff);
    let [a, b, c, d] = argument.to_be_bytes();
    // The checksum counts for these two only.
    let check = match number {
        0 => 0x95,
        8 => 0x87,
        _ => 0xff,
    };
    for byte in [0x40 | number, a, b, c, d, check] {
        exchange(byte);
    }
    for _ in 0..16 {
        let answer = exchange(0xff);
        if answer & 0x80 == 0 {
            return answer;
        }
    }
    0xff
}

/// A command that is answered by one byte.
fn command(number: u8, argument: u32, expected: u8) -> Result<(), Refused> {
    let answer = send(number, argument);
    select(false);
    if answer == expected {
        Ok(())
    } else {
        Err(Refused(answer))
    }
}

fn receive(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = exchange(0xff);
    }
}

/// Takes the data that follow an answer.
fn read_data(answer: u8, data: &mut [u8]) -> Result<(), Refused> {
    if answer != 0 {
        return Err(Refused(answer));
    }
    for _ in 0..PATIENCE {
        let token = exchange(0xff);
        if token == 0xfe {
            receive(data);
            exchange(0xff);
            exchange(0xff);
            return Ok(());
        }
    }
    Err(Refused(0xfe))
}

/// Sends a block behind an answer and waits until the card has programmed it.
fn write_data(answer: u8, data: &[u8]) -> Result<(), Refused> {
    if answer != 0 {
        return Err(Refused(answer));
    }
    exchange(0xff);
    exchange(0xfe);
    for &byte in data {
        exchange(byte);
    }
    exchange(0xff);
    exchange(0xff);
    let taken = exchange(0xff) & 0x1f;
    if taken != 5 {
        return Err(Refused(taken));
    }
    for _ in 0..PATIENCE {
        if exchange(0xff) == 0xff {
            return Ok(());
        }
    }
    Err(Refused(0))
}

impl BlockDevice for Sd {
    type Error = Refused;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        512
    }

    fn sector_count(&self) -> u32 {
        self.blocks
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Refused> {
        let mut block = first;
        for data in buf.chunks_exact_mut(512) {
            let answer = send(17, block << self.shift);
            let read = read_data(answer, data);
            select(false);
            read?;
            block += 1;
        }
        Ok(())
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Refused> {
        let mut block = first;
        for data in data.chunks_exact(512) {
            let answer = send(24, block << self.shift);
            let written = write_data(answer, data);
            select(false);
            written?;
            block += 1;
        }
        Ok(())
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Refused> {
        command(32, first << self.shift, 0)?;
        command(33, (first + count - 1) << self.shift, 0)?;
        let answer = send(38, 0);
        for _ in 0..PATIENCE {
            if exchange(0xff) == 0xff {
                break;
            }
        }
        select(false);
        if answer == 0 {
            Ok(())
        } else {
            Err(Refused(answer))
        }
    }

    fn flush(&mut self) -> Result<(), Refused> {
        // A write returns when the card has programmed the block.
        Ok(())
    }
}

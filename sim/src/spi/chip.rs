//! The chip as the bus sees it.

use embedded_hal::spi::{ErrorKind, ErrorType, Operation, SpiDevice};

use super::array::{Pending, Work};
use super::{BusCount, SpiDelay, SpiPart, SpiSpeed, spi_part};
use crate::{EraseTear, SimNand, Tear, Tearable};

pub(super) const BUSY: u8 = 1 << 0;
pub(super) const WRITE_ENABLED: u8 = 1 << 1;
pub(super) const ERASE_FAILED: u8 = 1 << 2;
pub(super) const PROGRAM_FAILED: u8 = 1 << 3;
pub(super) const ECC_ON: u8 = 1 << 4;
pub(super) const OTP: u8 = 1 << 6;
/// Bits of the protection register: all blocks are locked.
const ALL_LOCKED: u8 = 0x7C;
const RESET_NS: u64 = 500_000;

/// Why a transaction failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpiNandError<E> {
    /// The chip has no power.
    PowerOff,
    /// The driver did what no data sheet allows.
    Protocol(String),
    /// The chip below.
    Chip(E),
}

impl<E: core::fmt::Debug> embedded_hal::spi::Error for SpiNandError<E> {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// When the power is cut, and what that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiCut {
    /// Bytes that still go over the bus, in whichever direction.
    pub bytes: u64,
    /// What is left of a program that the chip is at then.
    pub program: Tear,
    /// What is left of such an erase.
    pub erase: EraseTear,
    /// Seed of the tear.
    pub seed: u64,
}

/// The command of a transaction so far.
#[derive(Debug, Default)]
struct Command {
    opcode: Option<u8>,
    args: Vec<u8>,
    /// Bytes of data, of either direction.
    data: usize,
}

/// Which way the data of a command goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    None,
    In,
    Out,
}

/// A SPI NAND chip: see the [module](super).
pub struct SpiNandChip<N: Tearable = SimNand> {
    pub(super) chip: N,
    pub(super) part: SpiPart,
    speed: SpiSpeed,
    pub(super) clock: SpiDelay,
    count: BusCount,
    command: Command,
    /// The cache register: a page and its raw spare bytes.
    pub(super) cache: Vec<u8>,
    /// The plane that the cache was last loaded or read for; none, if that is open.
    pub(super) cache_plane: Option<u32>,
    /// The page that the cache holds, for a copy.
    pub(super) copied_from: Option<u32>,
    pub(super) protection: u8,
    pub(super) config: u8,
    pub(super) status: u8,
    pub(super) extended: u8,
    pub(super) pending: Option<Pending>,
    powered: bool,
    cut: Option<SpiCut>,
    hangs: bool,
    unplugged: Option<u8>,
    deaf: bool,
    locked: bool,
    id: Option<Vec<u8>>,
    pub(super) forced_ecc: Option<(u8, u8)>,
    pub(super) parameters: Vec<[u8; 256]>,
    pub(super) marked_page: Option<u32>,
}

impl SpiNandChip<SimNand> {
    /// An erased chip of this part, in RAM.
    ///
    /// # Panics
    /// When there is no part of this name.
    pub fn new(name: &str) -> SpiNandChip<SimNand> {
        let part = spi_part(name).unwrap_or_else(|| panic!("no simulated part {name}"));
        let spec = crate::ChipSpec::new(part.geometry(), part.timing);
        SpiNandChip::over(SimNand::new(spec), *part)
    }
}

impl<N: Tearable> SpiNandChip<N> {
    /// A SPI NAND whose array is this chip.
    ///
    /// # Panics
    /// When it is not of the part's shape.
    pub fn over(chip: N, part: SpiPart) -> SpiNandChip<N> {
        assert_eq!(chip.geometry(), part.geometry(), "{}", part.name);
        let mut this = SpiNandChip {
            chip,
            speed: SpiSpeed { mhz: 104, lanes: 1 },
            clock: SpiDelay::new(),
            count: BusCount::default(),
            command: Command::default(),
            cache: vec![0; (part.page_size + part.raw_spare) as usize],
            cache_plane: None,
            copied_from: None,
            protection: 0,
            config: 0,
            status: 0,
            extended: 0,
            pending: None,
            powered: true,
            cut: None,
            hangs: false,
            unplugged: None,
            deaf: false,
            locked: false,
            id: None,
            forced_ecc: None,
            parameters: vec![part.parameter_page(); 3],
            marked_page: None,
            part,
        };
        this.power_on();
        this
    }

    /// The power is on, after a cut or not: registers are as at power-up.
    pub fn power_on(&mut self) {
        (self.powered, self.cut, self.pending) = (true, None, None);
        (self.protection, self.status, self.extended) = (ALL_LOCKED, 0, 0);
        let continuous = self.part.buffer.filter(|(_, buffered)| !buffered);
        self.config = ECC_ON | continuous.map_or(0, |(bit, _)| bit);
        self.cache.fill(0xA5);
        (self.cache_plane, self.copied_from) = (None, None);
        self.command = Command::default();
    }

    /// Cuts the power after so many bytes.
    pub fn cut_after(&mut self, cut: SpiCut) {
        self.cut = Some(cut);
    }

    /// Whether the power has been cut.
    pub fn is_off(&self) -> bool {
        !self.powered
    }

    /// A delay on this chip's clock.
    pub fn delay(&self) -> SpiDelay {
        self.clock.clone()
    }

    /// Virtual time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ps() / 1_000
    }

    /// Sets how fast the bus is: 104 MHz and a lane, if not set.
    pub fn set_speed(&mut self, speed: SpiSpeed) {
        self.speed = speed;
    }

    /// What has gone over the bus.
    pub fn count(&self) -> BusCount {
        self.count
    }

    /// The chip below.
    pub fn chip(&self) -> &N {
        &self.chip
    }

    /// The chip below, to be changed behind the driver's back.
    pub fn chip_mut(&mut self) -> &mut N {
        &mut self.chip
    }

    /// The chip below.
    pub fn into_chip(self) -> N {
        self.chip
    }

    /// From now on what the chip is asked to do never ends.
    pub fn hang(&mut self, on: bool) {
        self.hangs = on;
    }

    /// The chip is gone, and the bus reads as this byte.
    pub fn unplug(&mut self, byte: Option<u8>) {
        self.unplugged = byte;
    }

    /// Write enables have no effect.
    pub fn ignore_write_enable(&mut self, on: bool) {
        self.deaf = on;
    }

    /// The protection register cannot be written.
    pub fn lock_protection(&mut self, on: bool) {
        self.locked = on;
    }

    /// The chip says that this is its id.
    pub fn set_id(&mut self, id: &[u8]) {
        self.id = Some(id.to_vec());
    }

    /// The copies of the parameter page. None is a chip without.
    pub fn set_parameter_pages(&mut self, copies: Vec<[u8; 256]>) {
        self.parameters = copies;
    }

    /// Marks of bad blocks are in the first two pages, or in this page alone: 0 or 1.
    pub fn mark_page(&mut self, page: Option<u32>) {
        self.marked_page = page;
    }

    /// Reads end with these bits of the status and this value of the further register, whatever
    /// the page is like.
    pub fn force_ecc(&mut self, codes: Option<(u8, u8)>) {
        self.forced_ecc = codes;
    }

    pub(super) fn is_hanging(&self) -> bool {
        self.hangs
    }

    pub(super) fn begin(&mut self, work: Work, ns: u64) {
        let until_ps = self.clock.now_ps() + ns * 1_000;
        self.pending = Some(Pending { work, until_ps });
    }

    /// One byte in each direction. `None` in is the host only reading.
    fn byte(&mut self, input: Option<u8>, reads: bool) -> Result<u8, SpiNandError<N::Error>> {
        if let Some(cut) = self.cut {
            if cut.bytes == 0 {
                self.settle()?;
                self.tear(cut.program, cut.erase, cut.seed)?;
                (self.powered, self.cut) = (false, None);
                return Err(SpiNandError::PowerOff);
            }
            let bytes = cut.bytes - 1;
            self.cut = Some(SpiCut { bytes, ..cut });
        }
        self.count.bytes += 1;
        let is_data = self.is_cache_data();
        self.count.data_bytes += u64::from(is_data);
        let loads_alone = self.speed.lanes == 2 && self.command.opcode != Some(0x03);
        let ps = self.speed.byte_ps(is_data && !loads_alone);
        self.count.bus_ps += ps;
        self.clock.pass(ps);
        self.settle()?;
        if let Some(byte) = self.unplugged {
            return Ok(byte);
        }
        self.exchange(input, reads)
    }

    fn is_cache_data(&self) -> bool {
        let (data, args) = match self.command.opcode {
            Some(0x03) => (true, 3),
            Some(0x02 | 0x84) => (true, 2),
            _ => (false, 0),
        };
        data && self.command.args.len() == args
    }

    fn exchange(&mut self, input: Option<u8>, reads: bool) -> Result<u8, SpiNandError<N::Error>> {
        let Some(opcode) = self.command.opcode else {
            let Some(opcode) = input else {
                return protocol("a read before a command");
            };
            self.command.opcode = Some(opcode);
            return self.shape(opcode).map(|_| 0xFF);
        };
        let (args, data) = self.shape(opcode)?;
        if self.command.args.len() < args {
            // A host that reads the id at once clocks zeros into the address.
            if input.is_none() && opcode != 0x9F {
                return protocol(format!("a read in the address of command {opcode:#04x}"));
            }
            self.command.args.push(input.unwrap_or(0));
            return Ok(0xFF);
        }
        self.command.data += 1;
        match (data, input) {
            (Data::Out, _) if reads => self.send(opcode),
            // A host that does not know the chip yet sends an address that it does not need.
            (Data::Out, _) if opcode == 0x9F => Ok(0xFF),
            (Data::In, Some(byte)) if !reads => self.receive(byte).map(|()| 0xFF),
            _ => protocol(format!("a byte too many behind command {opcode:#04x}")),
        }
    }

    /// How many bytes of address a command has, and which way its data goes.
    fn shape(&self, opcode: u8) -> Result<(usize, Data), SpiNandError<N::Error>> {
        if self.is_busy() && !matches!(opcode, 0x0F | 0xFF) {
            return protocol(format!("command {opcode:#04x} while the chip is busy"));
        }
        Ok(match opcode {
            0xFF | 0x06 | 0x04 => (0, Data::None),
            0x0F => (1, Data::Out),
            0x1F => (2, Data::None),
            0x9F if self.part.direct => (0, Data::Out),
            0x9F => (1, Data::Out),
            0x7C if self.part.code.has_command() => (1, Data::Out),
            0x13 | 0x10 | 0xD8 => (3, Data::None),
            0x03 => (3, Data::Out),
            0x02 | 0x84 => (2, Data::In),
            _ => return protocol(format!("there is no command {opcode:#04x}")),
        })
    }

    /// A byte of data that the chip sends.
    fn send(&mut self, opcode: u8) -> Result<u8, SpiNandError<N::Error>> {
        let at = self.command.data - 1;
        match opcode {
            0x0F => self.register(self.command.args[0]),
            0x7C => Ok(self.extended),
            0x9F => {
                let id = self.id.as_deref().unwrap_or(self.part.id);
                Ok(id.get(at).copied().unwrap_or(0))
            }
            _ => {
                let column = self.column()?;
                let at = if self.reads_on() { at } else { column + at };
                match self.cache.get(at) {
                    Some(byte) => Ok(*byte),
                    None => protocol(format!("column {at} is behind the page")),
                }
            }
        }
    }

    fn register(&self, address: u8) -> Result<u8, SpiNandError<N::Error>> {
        match address {
            0xA0 => Ok(self.protection),
            0xB0 => Ok(self.config),
            0xC0 => Ok(self.status | if self.is_busy() { BUSY } else { 0 }),
            _ if self.part.code.register() == Some(address) => Ok(self.extended),
            _ => protocol(format!("there is no register {address:#04x}")),
        }
    }

    /// Whether the chip ignores the column of a read from the cache.
    fn reads_on(&self) -> bool {
        let buffered = |(bit, value)| (self.config & bit != 0) == value;
        !self.part.buffer.is_none_or(buffered)
    }

    /// The column of the command, in the right plane.
    fn column(&mut self) -> Result<usize, SpiNandError<N::Error>> {
        let args = &self.command.args;
        let (high, low, dummy) = match args[..] {
            [dummy, high, low] if self.part.direct => (high, low, dummy),
            [high, low, dummy] => (high, low, dummy),
            [high, low] => (high, low, 0),
            _ => return protocol("no column"),
        };
        let column = usize::from(u16::from_be_bytes([high, low]));
        let bit = 2 * self.part.page_size as usize;
        let plane = u32::from(self.part.two_planes && column & bit != 0);
        let reads = args.len() == 3;
        if dummy != 0 || (column >= bit && !self.part.two_planes) || column >= 2 * bit {
            return protocol(format!("column {column}, dummy {dummy:#04x}"));
        }
        let is_other = self.cache_plane.is_some_and(|cached| cached != plane);
        if self.part.two_planes && self.config & OTP == 0 && is_other {
            return protocol(format!("the cache of plane {plane} holds another page"));
        }
        if !reads {
            self.cache_plane = Some(plane);
        }
        Ok(column & (bit - 1))
    }

    /// A byte of data for the cache.
    fn receive(&mut self, byte: u8) -> Result<(), SpiNandError<N::Error>> {
        if self.status & WRITE_ENABLED == 0 {
            return protocol("a program load without a write enable");
        }
        let at = self.command.data - 1;
        if at == 0 && self.command.opcode == Some(0x02) {
            (self.cache_plane, self.copied_from) = (None, None);
            if self.part.load_clears {
                self.cache.fill(0xFF);
            }
        }
        let at = self.column()? + at;
        let spare = at as u32;
        let Some(place) = self.cache.get_mut(at) else {
            return protocol(format!("column {at} is behind the page"));
        };
        let usable = spare < self.part.page_size
            || self.part.runs.iter().any(|(offset, len)| {
                let first = self.part.page_size + offset;
                (first..first + len).contains(&spare)
            });
        if !usable && byte != 0xFF && self.config & ECC_ON != 0 {
            return protocol(format!("column {at} is not the driver's to program"));
        }
        *place = byte;
        Ok(())
    }

    /// The end of a transaction: the command begins.
    fn deselect(&mut self) -> Result<(), SpiNandError<N::Error>> {
        let command = core::mem::take(&mut self.command);
        if self.unplugged.is_some() {
            return Ok(());
        }
        let Some(opcode) = command.opcode else {
            return protocol("a transaction without a command");
        };
        let (args, data) = self.shape(opcode)?;
        if command.args.len() < args || (data != Data::None && command.data == 0) {
            return protocol(format!("command {opcode:#04x} ends too early"));
        }
        match (opcode, &command.args[..]) {
            (0xFF, _) => self.reset()?,
            (0x06, _) if !self.deaf => self.status |= WRITE_ENABLED,
            (0x04, _) => self.status &= !WRITE_ENABLED,
            (0x1F, &[address, value]) => self.set_register(address, value)?,
            (0x13 | 0x10 | 0xD8, args) => {
                let row = args.iter().fold(0, |row, byte| row << 8 | u32::from(*byte));
                self.start(opcode, row)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What the array is doing ends as a cut would end it.
    fn reset(&mut self) -> Result<(), SpiNandError<N::Error>> {
        self.tear(Tear::Random, EraseTear::Mixed, self.count.bytes)?;
        self.status = 0;
        self.config &= !OTP;
        self.begin(Work::Reset, RESET_NS);
        Ok(())
    }

    fn set_register(&mut self, address: u8, value: u8) -> Result<(), SpiNandError<N::Error>> {
        match address {
            0xA0 if self.locked => {}
            0xA0 => self.protection = value,
            0xB0 => self.config = value,
            _ => return protocol(format!("register {address:#04x} cannot be written")),
        }
        Ok(())
    }

    fn operation(
        &mut self,
        operation: &mut Operation<'_, u8>,
    ) -> Result<(), SpiNandError<N::Error>> {
        match operation {
            Operation::Write(bytes) => {
                for byte in *bytes {
                    self.byte(Some(*byte), false)?;
                }
            }
            Operation::Read(bytes) => {
                for byte in bytes.iter_mut() {
                    *byte = self.byte(None, true)?;
                }
            }
            Operation::Transfer(into, from) => {
                for at in 0..into.len().max(from.len()) {
                    let sent = from.get(at).copied().unwrap_or(0);
                    let read = self.byte(Some(sent), at < into.len())?;
                    if let Some(place) = into.get_mut(at) {
                        *place = read;
                    }
                }
            }
            Operation::TransferInPlace(bytes) => {
                for byte in bytes.iter_mut() {
                    *byte = self.byte(Some(*byte), true)?;
                }
            }
            Operation::DelayNs(ns) => self.clock.pass(u64::from(*ns) * 1_000),
        }
        Ok(())
    }
}

pub(super) fn protocol<T, E>(what: impl Into<String>) -> Result<T, SpiNandError<E>> {
    Err(SpiNandError::Protocol(what.into()))
}

impl<N: Tearable> ErrorType for SpiNandChip<N> {
    type Error = SpiNandError<N::Error>;
}

impl<N: Tearable> SpiDevice for SpiNandChip<N> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Self::Error> {
        if !self.powered {
            return Err(SpiNandError::PowerOff);
        }
        self.count.transactions += 1;
        self.command = Command::default();
        for operation in operations {
            self.operation(operation)?;
        }
        self.deselect()
    }
}

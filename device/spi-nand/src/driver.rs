//! The driver: opening a chip, and the contract over its commands.

use embedded_hal::delay::DelayNs;
use embedded_hal::spi::SpiDevice;
use flashkit_nand::{
    BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus, copy_over_bus,
};

use crate::bus::{Bus, CONFIG, ECC_ON, ERASE_FAILED, OTP, PROGRAM_FAILED, PROTECTION};
use crate::ecc::Extended;
use crate::onfi::{COPIES, COPY, PIECE, Reader};
use crate::part::{CacheRead, IdRead};
use crate::{Doing, Error, ID_BYTES, Idle, Onfi, Part, WhileBusy};

/// Pages at the start of a block whose first spare byte tells whether it is bad.
const MARKED_PAGES: u32 = 2;
/// The parameter page's number in the OTP area, and how long its read takes at most.
const PARAMETER_PAGE: u32 = 1;
const PARAMETER_READ_US: u32 = 1_000;
/// Bit of Winbond's configuration: reads from the cache begin at the column that they name. Some
/// of their parts power up without.
const WINBOND: u8 = 0xEF;
const WINBOND_BUFFER: u8 = 1 << 3;
/// What bytes are that nobody gives.
const BLANK: [u8; 64] = [0xFF; 64];

/// A SPI NAND chip.
///
/// `'p` is for how long the table of parts lives, `SPI` the bus with the chip's select line, `D` a
/// delay, `H` what is done while the chip is busy.
pub struct SpiNand<'p, SPI, D, H = Idle> {
    bus: Bus<SPI, D, H>,
    part: &'p Part,
    geometry: Geometry,
    /// What the configuration register holds, but for the ECC bit.
    config: u8,
    /// What the chip was asked for last, if that has not ended in order: it may be at it still, and
    /// its ECC may be off.
    unsettled: Option<Doing>,
    /// The page that is in the cache as its ECC has left it, and what that said.
    held: Option<(PageAddr, ReadStatus)>,
}

impl<'p, SPI: SpiDevice, D: DelayNs, H: WhileBusy> SpiNand<'p, SPI, D, H> {
    /// Finds out which of these parts the chip is, and makes it ready: reset, id, parameter page,
    /// configuration, all blocks unlocked. Nothing is programmed or erased.
    ///
    /// `parts` are rows, maker by maker: [`parts::ALL`](crate::parts::ALL), or of one maker
    /// `&[&parts::WINBOND]`, so that the others take no room. To keep the bus where this fails,
    /// hand over `&mut` of it.
    ///
    /// # Errors
    /// Nothing answers, no row has the chip's id, or the row contradicts the parameter page;
    /// flashkit cannot use the shape; a register cannot be written; the bus; the chip hangs.
    pub fn open(
        spi: SPI,
        delay: D,
        hook: H,
        parts: &[&'p [Part]],
    ) -> Result<Self, Error<SPI::Error>> {
        let mut bus = Bus { spi, delay, hook };
        let (id, direct) = identify(&mut bus)?;
        let Some(part) = find(parts, &id, &direct) else {
            let onfi = onfi(&mut bus, id.first() == Some(&WINBOND), CacheRead::DummyLast)?;
            return Err(Error::UnknownId { id, direct, onfi });
        };
        Self::start(bus, part)
    }

    /// Takes the chip for this part, whatever its id is.
    ///
    /// # Errors
    /// As [`SpiNand::open`].
    pub fn open_as(spi: SPI, delay: D, hook: H, part: &'p Part) -> Result<Self, Error<SPI::Error>> {
        let mut bus = Bus { spi, delay, hook };
        identify(&mut bus)?;
        Self::start(bus, part)
    }

    fn start(mut bus: Bus<SPI, D, H>, part: &'p Part) -> Result<Self, Error<SPI::Error>> {
        let geometry = part.geometry().map_err(Error::Geometry)?;
        if !part.pages_per_block.is_power_of_two() || part.spare_end() > part.raw_spare {
            return Err(Error::Row);
        }
        let winbond = part.id.first() == Some(&WINBOND);
        if let Some(onfi) = onfi(&mut bus, winbond, part.cache_read)?
            && !onfi.agrees_with(part)
        {
            let part = part.name;
            return Err(Error::Contradiction { part, onfi });
        }
        let found = bus.get_feature(CONFIG)?;
        let config = (found | part.config.set) & !(part.config.clear | OTP | ECC_ON);
        bus.fix_feature(CONFIG, config | ECC_ON)?;
        bus.fix_feature(PROTECTION, 0)?;
        Ok(SpiNand {
            bus,
            part,
            geometry,
            config,
            unsettled: None,
            held: None,
        })
    }

    /// The row of the table.
    pub fn part(&self) -> &'p Part {
        self.part
    }

    /// The bus, for commands of the chip that the driver does not know: a unique id, sleep.
    pub fn spi_mut(&mut self) -> &mut SPI {
        self.held = None;
        &mut self.bus.spi
    }

    /// The bus, the delay and the hook. The chip stays as it is.
    pub fn release(self) -> (SPI, D, H) {
        (self.bus.spi, self.bus.delay, self.bus.hook)
    }

    /// Has the chip copy a page that it may copy.
    fn copy_inside(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
    ) -> Result<Copied, Error<SPI::Error>> {
        // Who has looked at the spare bytes has had the page read already.
        let held = self.held.filter(|held| held.0 == from);
        self.settled(Doing::Program, |this| {
            let status = match held {
                Some((_, status)) => status,
                None => this.load_page(from)?,
            };
            if !status.is_readable() {
                return Ok(Copied::Uncorrectable);
            }
            this.bus.write_enable()?;
            this.load_spare(to, spare, true)?;
            Ok(match this.execute(to)? {
                OpStatus::Done => Copied::Done(status),
                OpStatus::Failed => Copied::Failed,
            })
        })
    }

    /// Has a page read into the cache; decodes what the ECC says.
    fn load_page(&mut self, page: PageAddr) -> Result<ReadStatus, Error<SPI::Error>> {
        let (ecc, most) = (self.part.ecc, self.part.ecc_bits);
        let status = self.bus.load_page(page.0, self.part.times.read_us)?;
        let extended = match ecc.extended(status) {
            Some(Extended::Feature(register)) => self.bus.get_feature(register)?,
            Some(Extended::EccStatus) => self.bus.ecc_status()?,
            None => 0,
        };
        Ok(ecc.decode(status, extended, most))
    }

    /// Moves bytes of the cache to the host: of the data from a byte on, and the first usable spare
    /// bytes.
    fn fetch(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<(), Error<SPI::Error>> {
        let how = self.part.cache_read;
        if !data.is_empty() {
            let column = self.part.column(page, offset);
            self.bus.read_cache(how, column, data)?;
        }
        let mut rest = spare;
        let mut runs = Runs::of(self.part);
        while let Some((offset, len)) = runs.next()
            && !rest.is_empty()
        {
            let len = len.min(rest.len());
            let Some((now, later)) = rest.split_at_mut_checked(len) else {
                break;
            };
            let column = self.part.column(page, self.part.page_size + offset);
            self.bus.read_cache(how, column, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Puts spare bytes where they belong; with `blank`, `0xFF` into the usable ones behind.
    fn load_spare(
        &mut self,
        page: PageAddr,
        spare: &[u8],
        blank: bool,
    ) -> Result<(), Error<SPI::Error>> {
        let mut rest = spare;
        let mut runs = Runs::of(self.part);
        while let Some((offset, len)) = runs.next() {
            let (now, later) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = later;
            let column = self.part.page_size + offset;
            if !now.is_empty() {
                self.bus.load_more(self.part.column(page, column), now)?;
            }
            if blank {
                self.load_blank(page, column + now.len() as u32, column + len as u32)?;
            }
        }
        Ok(())
    }

    /// Puts `0xFF` into the cache, from one byte of the page to another.
    fn load_blank(
        &mut self,
        page: PageAddr,
        mut from: u32,
        to: u32,
    ) -> Result<(), Error<SPI::Error>> {
        while from < to {
            let len = (to - from).min(BLANK.len() as u32);
            let blank = BLANK.get(..len as usize).unwrap_or(&BLANK);
            self.bus.load_more(self.part.column(page, from), blank)?;
            from += len;
        }
        Ok(())
    }

    /// Fills the cache with one run of bytes, and `0xFF` around it.
    fn load_data(&mut self, page: PageAddr, at: u32, data: &[u8]) -> Result<(), Error<SPI::Error>> {
        // At least a byte: that a load without any clears the cache is said nowhere.
        let first = if data.is_empty() { &[0xFF] } else { data };
        self.bus.load_first(self.part.column(page, at), first)?;
        if self.part.load_clears {
            return Ok(());
        }
        self.load_blank(page, 0, at)?;
        let end = self.part.page_size + self.part.raw_spare;
        self.load_blank(page, at + data.len() as u32, end)
    }

    fn execute(&mut self, page: PageAddr) -> Result<OpStatus, Error<SPI::Error>> {
        let status = self.bus.execute(page.0, self.part.times.program_us)?;
        self.outcome(status & PROGRAM_FAILED != 0)
    }

    /// What a program or an erase has come to. A chip that has lost its supply for a moment has all
    /// blocks locked again. If it was at work then, it says that nothing failed, and may have done
    /// nothing; what it refuses since is no bad block.
    fn outcome(&mut self, failed: bool) -> Result<OpStatus, Error<SPI::Error>> {
        let found = self.bus.get_feature(PROTECTION)?;
        if found != 0 {
            return Err(Error::Register {
                register: PROTECTION,
                wanted: 0,
                found,
            });
        }
        Ok(if failed {
            OpStatus::Failed
        } else {
            OpStatus::Done
        })
    }

    /// Does something with the chip, which must be ready for it. Where that ends with an error, the
    /// next call begins with a wait for the chip, and sees to it that the ECC is on: a chip that
    /// is busy passes over a command, and a read would find another page in the cache.
    fn settled<T>(
        &mut self,
        doing: Doing,
        act: impl FnOnce(&mut Self) -> Result<T, Error<SPI::Error>>,
    ) -> Result<T, Error<SPI::Error>> {
        if let Some(before) = self.unsettled {
            self.bus.wait(before, self.part.times.erase_us)?;
            self.bus.fix_feature(CONFIG, self.config | ECC_ON)?;
        }
        self.unsettled = Some(doing);
        self.held = None;
        let done = act(self)?;
        self.unsettled = None;
        Ok(done)
    }

    /// The same with the ECC off.
    fn without_ecc<T>(
        &mut self,
        doing: Doing,
        act: impl FnOnce(&mut Self) -> Result<T, Error<SPI::Error>>,
    ) -> Result<T, Error<SPI::Error>> {
        self.settled(doing, |this| {
            this.bus.fix_feature(CONFIG, this.config)?;
            let done = act(this)?;
            this.bus.fix_feature(CONFIG, this.config | ECC_ON)?;
            Ok(done)
        })
    }

    fn first_page(&self, block: BlockAddr) -> u32 {
        block.0 << (self.part.pages_per_block.trailing_zeros() & 31)
    }

    /// Looks for a mark, with the ECC off: it would take a mark of the factory for flipped bits.
    fn look_for_mark(&mut self, block: BlockAddr) -> Result<bool, Error<SPI::Error>> {
        let first = self.first_page(block);
        for row in first..first + MARKED_PAGES {
            let mut mark = [0xFF];
            let column = self.part.column(PageAddr(row), self.part.page_size);
            self.bus.load_page(row, self.part.times.read_us)?;
            let how = self.part.cache_read;
            self.bus.read_cache(how, column, &mut mark)?;
            if mark != [0xFF] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Programs the marks. Whether that fails is nothing to anyone: the block is bad.
    fn write_mark(&mut self, block: BlockAddr) -> Result<(), Error<SPI::Error>> {
        let first = self.first_page(block);
        for row in first..first + MARKED_PAGES {
            self.bus.write_enable()?;
            self.load_data(PageAddr(row), self.part.page_size, &[0])?;
            self.execute(PageAddr(row))?;
        }
        Ok(())
    }
}

impl<SPI: SpiDevice, D: DelayNs, H: WhileBusy> Nand for SpiNand<'_, SPI, D, H> {
    type Error = Error<SPI::Error>;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn correctable_bits(&self) -> u32 {
        u32::from(self.part.ecc_bits)
    }

    /// Moves the bytes asked for over the bus and no others. Of an uncorrectable page it moves
    /// none.
    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Self::Error> {
        let status = self.settled(Doing::Read, |this| {
            let status = this.load_page(page)?;
            if status.is_readable() {
                this.fetch(page, offset, data, spare)?;
            }
            Ok(status)
        })?;
        self.held = status.is_readable().then_some((page, status));
        Ok(status)
    }

    /// The page stays in the chip's cache between the two pieces.
    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Self::Error> {
        self.settled(Doing::Read, |this| {
            let status = this.load_page(page)?;
            let Some((first, rest)) = data.split_at_mut_checked(head) else {
                return Ok(status);
            };
            if status.is_readable() {
                this.fetch(page, 0, first, &mut [])?;
                let more = used(first).saturating_sub(head).min(rest.len());
                if let Some(more) = rest.get_mut(..more) {
                    this.fetch(page, head as u32, more, &mut [])?;
                }
            }
            Ok(status)
        })
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Self::Error> {
        self.settled(Doing::Program, |this| {
            this.bus.write_enable()?;
            this.load_data(page, 0, data)?;
            this.load_spare(page, spare, false)?;
            this.execute(page)
        })
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.part.may_copy(from, to)
    }

    /// Inside the chip only the spare bytes go over the bus, and the page is not read again if it
    /// is what was read last.
    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Self::Error> {
        if self.part.may_copy(from, to) {
            return self.copy_inside(from, to, spare);
        }
        copy_over_bus(self, from, to, spare, page)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Self::Error> {
        self.settled(Doing::Erase, |this| {
            let row = this.first_page(block);
            let status = this.bus.erase(row, this.part.times.erase_us)?;
            this.outcome(status & ERASE_FAILED != 0)
        })
    }

    /// Whether the first spare byte of the first or second page of the block is not `0xFF`. Costs
    /// two page reads.
    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Self::Error> {
        self.without_ecc(Doing::Read, |this| this.look_for_mark(block))
    }

    /// Programs 0 to the first spare byte of the first two pages, without an erase. Costs two
    /// programs.
    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Self::Error> {
        self.without_ecc(Doing::Program, |this| this.write_mark(block))
    }
}

/// Runs of usable spare bytes, where those side by side count as one: fewer commands move them.
struct Runs<'p> {
    rest: &'p [crate::Run],
}

impl<'p> Runs<'p> {
    fn of(part: &'p Part) -> Runs<'p> {
        Runs { rest: part.spare }
    }

    /// Where the next one begins, and how long it is.
    fn next(&mut self) -> Option<(u32, usize)> {
        let (first, mut rest) = self.rest.split_first()?;
        let mut end = first.offset + first.len;
        while let Some((run, later)) = rest.split_first()
            && run.offset == end
        {
            (end, rest) = (end + run.len, later);
        }
        self.rest = rest;
        Some((u32::from(first.offset), usize::from(end - first.offset)))
    }
}

type Id = [u8; ID_BYTES];

/// Resets the chip and reads its id in both ways: behind a byte, and at once.
fn identify<SPI: SpiDevice, D: DelayNs, H: WhileBusy>(
    bus: &mut Bus<SPI, D, H>,
) -> Result<(Id, Id), Error<SPI::Error>> {
    if let Err(error) = bus.reset() {
        // A bus that reads as 1 is ever busy.
        let is_gone = matches!(error, Error::TimedOut(_)) && bus.status()? == 0xFF;
        return Err(if is_gone {
            Error::NoChip { byte: 0xFF }
        } else {
            error
        });
    }
    let id = bus.read_id(IdRead::AfterByte)?;
    let direct = bus.read_id(IdRead::Direct)?;
    for byte in [0xFF, 0x00] {
        if id.iter().chain(&direct).all(|b| *b == byte) {
            return Err(Error::NoChip { byte });
        }
    }
    Ok((id, direct))
}

/// The row with the longest id that fits.
fn find<'p>(parts: &[&'p [Part]], id: &Id, direct: &Id) -> Option<&'p Part> {
    let mut found: Option<&Part> = None;
    for part in parts.iter().copied().flatten() {
        let read: &[u8] = match part.id_read {
            IdRead::AfterByte => id,
            IdRead::Direct => direct,
        };
        let longer = found.is_none_or(|found| found.id.len() < part.id.len());
        if longer && !part.id.is_empty() && read.starts_with(part.id) {
            found = Some(part);
        }
    }
    found
}

/// Reads the parameter page: the first copy that is one. With the chip's ECC off, for the page has
/// no parity; the configuration is restored.
fn onfi<SPI: SpiDevice, D: DelayNs, H: WhileBusy>(
    bus: &mut Bus<SPI, D, H>,
    winbond: bool,
    how: CacheRead,
) -> Result<Option<Onfi>, Error<SPI::Error>> {
    let before = bus.get_feature(CONFIG)?;
    let buffer = if winbond { WINBOND_BUFFER } else { 0 };
    bus.set_feature(CONFIG, OTP | buffer)?;
    let mut found = Ok(None);
    match bus.load_page(PARAMETER_PAGE, PARAMETER_READ_US) {
        Err(error) => found = Err(error),
        Ok(_) => {
            for copy in 0..COPIES {
                found = onfi_copy(bus, how, copy * COPY);
                if !matches!(found, Ok(None)) {
                    break;
                }
            }
        }
    }
    bus.set_feature(CONFIG, before)?;
    found
}

fn onfi_copy<SPI: SpiDevice, D: DelayNs, H: WhileBusy>(
    bus: &mut Bus<SPI, D, H>,
    how: CacheRead,
    at: u16,
) -> Result<Option<Onfi>, Error<SPI::Error>> {
    let mut reader = Reader::new();
    for number in 0..COPY / PIECE as u16 {
        let mut piece = [0; PIECE];
        bus.read_cache(how, at + number * PIECE as u16, &mut piece)?;
        if !reader.take(number, &piece) {
            return Ok(None);
        }
    }
    Ok(reader.end())
}

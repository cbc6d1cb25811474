//! Format, start, and what a power cut has left.
//!
//! A mount reads every segment summary once, as the paper's driver does (2.6), and writes nothing
//! before it has found all of them sound. Only when a cut has left blocks between two flags does it
//! go through them a second time, and finishes the flags; segments whose erase was cut are left to
//! the cleaner. A disk that is damaged is left as it is: see `damage`. Every repair can itself be
//! cut and repeated.

use core::ops::Range;

use flashkit_nor::{BankedNorFlash, EraseStatus};

use crate::damage::Damage;
use crate::entry::{BEGUN, ENTRY_LEN, Entry, INVALID, PRE_VALID, SET, VALID};
use crate::header::{ERASES_MAX, FIXED_LEN, Header, HeaderError, INTENTS, Intent};
use crate::layout::{Layout, RESERVE};
use crate::ram::{NONE, Ram, Segment, State, bytes_needed};
use crate::{Config, Error, LogDisk, Separate, Shape, Stats};

/// Entries read at a time.
const BATCH: u32 = 32;

/// Banks that a format erases at once.
const FORMAT_BANKS: usize = 16;

/// Bytes of RAM that [`LogDisk::mount`] needs for a disk of this shape on a chip of type `F`.
///
/// # Errors
/// Why there is no such disk.
pub const fn ram_bytes<F: BankedNorFlash>(
    capacity: usize,
    banks: u32,
    shape: &Shape,
    config: &Config,
) -> Result<usize, &'static str> {
    match Layout::new(capacity, F::ERASE_SIZE, banks, shape) {
        Ok(layout) if layout.sectors > layout.total_blocks() => {
            Err("the disk has more sectors than the chip has blocks")
        }
        Ok(layout) => Ok(bytes_needed(&layout, config.queue)),
        Err(why) => Err(why),
    }
}

/// A segment as its header tells it; without one it is damaged, unless an intent says more.
fn found(erases: Option<u32>) -> Segment {
    Segment {
        valid: 0,
        used: 0,
        erases: erases.unwrap_or(0),
        stamp: 0,
        intents: 0,
        host: NONE,
        state: if erases.is_some() {
            State::Free
        } else {
            State::Retired
        },
    }
}

/// The layout on a chip, if it leaves room for cleaning with so many frontiers.
fn layout_on<F: BankedNorFlash>(
    flash: &F,
    shape: &Shape,
    frontiers: u32,
) -> Result<Layout, Error<F::Error>> {
    let fits = |size: usize| size.is_power_of_two() && size <= 4;
    if !fits(F::WRITE_SIZE) || !fits(F::READ_SIZE) {
        return Err(Error::Config("the chip's words have more than 4 bytes"));
    }
    let layout = Layout::new(flash.capacity(), F::ERASE_SIZE, flash.banks(), shape);
    let layout = layout.map_err(Error::Config)?;
    let spare = frontiers + 1;
    let room = layout.segments.saturating_sub(spare) * layout.blocks;
    if shape.sectors >= room {
        return Err(Error::Config(
            "the disk leaves no room for cleaning: one segment more than are open must stay free",
        ));
    }
    Ok(layout)
}

/// Whether a configuration can work on a chip.
fn check_config<F: BankedNorFlash>(flash: &F, config: &Config) -> Result<(), Error<F::Error>> {
    if config.erasing_max == 0
        || config.queue == 0
        || u32::from(config.open_max) < config.frontiers()
    {
        return Err(Error::Config(
            "erasing_max and queue are at least 1, open_max as many as are written at once",
        ));
    }
    if config.caller_clock && config.separate == Separate::Aged {
        return Err(Error::Config("Separate::Aged counts sectors written"));
    }
    if config.is_bounded() && flash.banks() < 2 {
        return Err(Error::Config("bounded latency needs two banks at least"));
    }
    Ok(())
}

fn read_header<F: BankedNorFlash>(
    flash: &mut F,
    at: u32,
) -> Result<Result<Header, HeaderError>, F::Error> {
    let mut bytes = [0; FIXED_LEN];
    flash.read(at, &mut bytes)?;
    Ok(Header::decode(&bytes))
}

impl<'a, F: BankedNorFlash> LogDisk<'a, F> {
    /// Makes an empty disk: erases every segment, one in each bank at a time. Erase counts that are
    /// there are kept. `volume` should differ from format to format: an
    /// interrupted one is told by it.
    ///
    /// # Errors
    /// [`Error::Config`] before anything is written, for one if two segments and 16 blocks are not
    /// left beside the sectors; [`Error::Flash`]; [`Error::Full`] when a segment cannot be erased.
    pub fn format(flash: &mut F, shape: &Shape, volume: u32) -> Result<(), Error<F::Error>> {
        let layout = layout_on(flash, shape, 1)?;
        if shape.sectors + 2 * layout.blocks + RESERVE > layout.total_blocks() {
            return Err(Error::Config(
                "the disk leaves no room for cleaning: two segments and 16 blocks must stay free",
            ));
        }
        let per_bank = layout.segments_per_bank();
        for index in 0..per_bank {
            for first in (0..layout.banks).step_by(FORMAT_BANKS) {
                let last = (first + FORMAT_BANKS as u32).min(layout.banks);
                let segments = (first..last).map(|bank| bank * per_bank + index);
                LogDisk::format_segments(flash, &layout, volume, segments)?;
            }
        }
        Ok(())
    }

    /// Erases up to [`FORMAT_BANKS`] segments of different banks at once and writes their headers.
    fn format_segments(
        flash: &mut F,
        layout: &Layout,
        volume: u32,
        segments: impl Iterator<Item = u32> + Clone,
    ) -> Result<(), Error<F::Error>> {
        let mut counts = [0; FORMAT_BANKS];
        for (count, segment) in counts.iter_mut().zip(segments.clone()) {
            let at = layout.segment_at(segment);
            *count = read_header(flash, at)?.map_or(0, |header| header.erases);
            flash.erase_start(at)?;
        }
        for (erases, segment) in counts.into_iter().zip(segments) {
            if flash.erase_wait(layout.bank_of(segment))? == EraseStatus::Failed {
                return Err(Error::Full);
            }
            let header = layout.header(segment, volume, erases.saturating_add(1));
            flash.write(layout.segment_at(segment), &header.encode())?;
        }
        Ok(())
    }

    /// What kind of disk is on a chip, from the first header that checks, if possible one that says
    /// that it is in its place.
    ///
    /// # Errors
    /// [`Error::Magic`] of segment 0 when no segment has a header, [`Error::Flash`].
    pub fn probe(flash: &mut F) -> Result<Shape, Error<F::Error>> {
        let segments = flash.capacity() / F::ERASE_SIZE;
        let mut other = None;
        for segment in 0..segments {
            let Ok(header) = read_header(flash, (segment * F::ERASE_SIZE) as u32)? else {
                continue;
            };
            let shape = Shape {
                sector_size: header.sector_size,
                sectors: header.sectors,
            };
            if (header.segment as usize, header.segments as usize) == (segment, segments) {
                return Ok(shape);
            }
            // Of another place or chip: only if there is no better one.
            other = other.or(Some(shape));
        }
        if let Some(shape) = other {
            return Ok(shape);
        }
        Err(Error::Magic { segment: 0 })
    }

    /// Mounts the disk on a chip over the caller's RAM, [`ram_bytes`] of it.
    ///
    /// Waits for erases that are still under way. Costs a read of all summaries (for `nor-16m` 258
    /// KiB, 66 ms), twice after a power cut, and some flag programs then.
    ///
    /// A disk that is damaged in some places is mounted for reading alone, and nothing is written:
    /// see [`LogDisk::damage`].
    ///
    /// # Errors
    /// [`Error::Magic`] when no segment has a header; [`Error::Geometry`] when most that have one
    /// are of another chip or disk; [`Error::Config`], [`Error::RamTooSmall`]: with nothing
    /// written. [`Error::Flash`].
    pub fn mount(
        mut flash: F,
        config: Config,
        ram: &'a mut [u8],
    ) -> Result<LogDisk<'a, F>, Error<F::Error>> {
        check_config(&flash, &config)?;
        // The processor may have started anew, and the chip not.
        for bank in 0..flash.banks() {
            flash.erase_wait(bank)?;
        }
        let shape = LogDisk::probe(&mut flash)?;
        let layout = layout_on(
            &flash,
            &shape,
            config.frontiers() + u32::from(config.is_bounded()),
        )?;
        let need = bytes_needed(&layout, config.queue);
        if ram.len() < need {
            return Err(Error::RamTooSmall { need });
        }
        let mut disk = LogDisk {
            ram: Ram::new(&layout, config.queue, ram),
            flash,
            layout,
            config,
            volume: 0,
            frontier: [None; 2],
            active_bank: [0; 2],
            job: None,
            free: 0,
            open: 0,
            erasing: 0,
            open_room: 0,
            live: 0,
            trims: 0,
            clock: 1,
            programmed: 0,
            chance: 0x2545_F491,
            stats: Stats::default(),
            levelled: false,
            latched: false,
            damage: Damage::default(),
            shaken: [None; 2],
        };
        disk.scan_headers()?;
        let repair = disk.scan_entries()?;
        if disk.is_damaged() {
            disk.salvage()?;
            disk.classify();
            return Ok(disk);
        }
        if repair {
            disk.repair()?;
        }
        disk.classify();
        disk.end_torn_intents()?;
        disk.changing(LogDisk::settle)?;
        Ok(disk)
    }

    /// Reads all headers, and the intents in them. What has no header and was not under erase is
    /// damaged.
    fn scan_headers(&mut self) -> Result<(), Error<F::Error>> {
        let (mut own, mut others, mut first) = (0, 0, None);
        // The volume of most headers: each takes another one's vote away.
        let (mut volume, mut votes, mut mixed) = (0, 0u32, false);
        for segment in 0..self.layout.segments {
            let mut erases = None;
            if let Ok(header) = self.header_of(segment)? {
                match self.check_header(segment, &header) {
                    Ok(()) => {
                        own += 1;
                        mixed |= own > 1 && header.volume != volume;
                        (volume, votes) = match votes {
                            0 => (header.volume, 1),
                            _ if header.volume == volume => (volume, votes + 1),
                            _ => (volume, votes - 1),
                        };
                        erases = Some(header.erases);
                    }
                    Err(error) => {
                        others += 1;
                        first = first.or(Some(error));
                    }
                }
            }
            self.ram.set_segment(segment, found(erases));
        }
        if let Some(error) = first.filter(|_| others >= own) {
            return Err(error);
        }
        self.volume = volume;
        if mixed {
            self.leave_others()?;
        }
        for host in 0..self.layout.segments {
            if self.ram.segment(host).state != State::Retired {
                self.scan_intents(host)?;
            }
        }
        self.scan_damaged()?;
        // No intent names what is left without a header, so it was not under erase.
        let all = (0..self.layout.segments).map(|segment| self.ram.segment(segment));
        self.damage.segments = all.filter(|record| record.state == State::Retired).count() as u32;
        Ok(())
    }

    /// Finds the segments that were under erase, as intents in damaged headers say: what is there
    /// is nobody's. Such an intent may be past, and what it names damaged: then that is lost.
    fn scan_damaged(&mut self) -> Result<(), Error<F::Error>> {
        for host in 0..self.layout.segments {
            let is_damaged = self.ram.segment(host).state == State::Retired;
            if is_damaged && self.header_of(host)?.is_err() {
                let before = self.count_torn();
                self.scan_intents(host)?;
                self.damage.unnamed |= self.count_torn() != before;
            }
        }
        Ok(())
    }

    fn count_torn(&self) -> usize {
        let all = (0..self.layout.segments).map(|segment| self.ram.segment(segment));
        all.filter(|record| record.state == State::Torn).count()
    }

    /// Takes no segment of another volume.
    fn leave_others(&mut self) -> Result<(), Error<F::Error>> {
        for segment in 0..self.layout.segments {
            if let Ok(header) = self.header_of(segment)?
                && header.volume != self.volume
            {
                self.ram.set_segment(segment, found(None));
            }
        }
        Ok(())
    }

    pub(crate) fn header_of(
        &mut self,
        segment: u32,
    ) -> Result<Result<Header, HeaderError>, Error<F::Error>> {
        Ok(read_header(
            &mut self.flash,
            self.layout.segment_at(segment),
        )?)
    }

    /// Whether a header is of this disk, but for the volume, and in its place.
    pub(crate) fn check_header(
        &self,
        segment: u32,
        header: &Header,
    ) -> Result<(), Error<F::Error>> {
        let layout = &self.layout;
        let facts = [
            ("sector size", header.sector_size, layout.sector_size),
            ("blocks of a segment", header.blocks, layout.blocks),
            ("segments", header.segments, layout.segments),
            ("banks", header.banks, layout.banks),
            ("sectors", header.sectors, layout.sectors),
            ("number of the segment", header.segment, segment),
        ];
        let wrong = facts.iter().find(|(_, found, expected)| found != expected);
        match wrong {
            None => Ok(()),
            Some(&(what, found, expected)) => Err(Error::Geometry {
                what,
                found,
                expected,
            }),
        }
    }

    /// Finds the segments that were under erase.
    fn scan_intents(&mut self, host: u32) -> Result<(), Error<F::Error>> {
        let intents = self.intents(host)?;
        let used = intents.iter().rposition(|intent| *intent != Intent::Blank);
        let used = used.map_or(0, |last| last as u32 + 1);
        self.ram.update(host, |record| record.intents = used);
        for intent in intents {
            let Intent::Open { segment, erases } = intent else {
                continue;
            };
            if segment >= self.layout.segments || segment == host {
                continue;
            }
            if erases == 0 || erases > ERASES_MAX {
                continue;
            }
            let record = self.ram.segment(segment);
            let was_torn = matches!(record.state, State::Retired | State::Torn);
            let is_newer = erases > record.erases;
            if is_newer || (was_torn && erases - 1 == record.erases) {
                self.ram.update(segment, |record| {
                    record.erases = erases - 1;
                    record.state = State::Torn;
                });
            }
        }
        Ok(())
    }

    /// Reads all entries into the table; whether any has to be repaired.
    fn scan_entries(&mut self) -> Result<bool, Error<F::Error>> {
        let mut repair = false;
        self.each_entry(|disk, block, entry| {
            disk.count_used(block, entry);
            match entry {
                Entry::Free | Entry::Dead => {}
                Entry::Dying | Entry::PreValid(_) => repair = true,
                Entry::Valid(sector) if disk.ram.is_lost(sector) => {}
                Entry::Valid(sector) => match disk.ram.lookup(sector) {
                    None => disk.remap(sector, Some(block)),
                    Some(_) => {
                        disk.damage.copies += 1;
                        disk.lose(sector);
                    }
                },
                Entry::Damaged => disk.damage.entries += 1,
            }
            Ok(())
        })?;
        Ok(repair)
    }

    /// A segment is used up to its last block that is not free.
    fn count_used(&mut self, block: u32, entry: Entry) {
        if entry != Entry::Free {
            let used = block % self.layout.blocks + 1;
            let segment = self.layout.segment_of(block);
            self.ram
                .update(segment, |record| record.used = record.used.max(used));
        }
    }

    /// Tells free, open and closed segments apart.
    fn classify(&mut self) {
        for segment in 0..self.layout.segments {
            let mut record = self.ram.segment(segment);
            if matches!(record.state, State::Torn | State::Retired) {
                continue;
            }
            record.state = match record.used {
                0 => State::Free,
                used if used < self.layout.blocks => State::Open,
                _ => State::Closed,
            };
            self.free += u32::from(record.state == State::Free);
            if record.state == State::Open {
                self.open += 1;
                self.open_room += self.layout.blocks - record.used;
            }
            self.ram.set_segment(segment, record);
        }
        let per_bank = self.layout.segments_per_bank();
        for bank in 0..self.layout.banks {
            let mut segments = bank * per_bank..(bank + 1) * per_bank;
            if segments.all(|segment| self.ram.segment(segment).valid == 0) {
                self.ram.set_firm(bank);
            }
        }
    }

    /// Finishes what a cut has left between two flags: first all invalidations, so that each one
    /// stands before another block becomes valid, then the blocks that are whole and wait.
    ///
    /// An entry that was cut may read differently each time. Whatever is read, one whole copy
    /// becomes the sector's, and its flags are programmed once more before anything follows.
    fn repair(&mut self) -> Result<(), Error<F::Error>> {
        for invalidations in [true, false] {
            self.each_entry(|disk, block, entry| {
                if matches!(entry, Entry::Free | Entry::Dead) {
                    return Ok(());
                }
                // What was decided for another entry may have changed this one.
                let mut bytes = [0; ENTRY_LEN as usize];
                disk.flash.read(disk.layout.entry_at(block), &mut bytes)?;
                let entry = Entry::decode(&bytes, disk.layout.sectors);
                disk.count_used(block, entry);
                match entry {
                    Entry::Dying => disk.invalidate_again(block),
                    Entry::PreValid(sector) if !invalidations => disk.adopt(block, sector),
                    // Its *valid* has only now come out, or its *invalid* has gone back.
                    Entry::Valid(sector) if !disk.is_mapped(block, sector) => {
                        match disk.ram.lookup(sector) {
                            Some(_) => disk.invalidate_again(block),
                            None => disk.adopt(block, sector),
                        }
                    }
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Marks a block invalid whose flag may have been begun: a program must not ask for bits that
    /// are cleared already.
    fn invalidate_again(&mut self, block: u32) -> Result<(), Error<F::Error>> {
        let mut bytes = [0; ENTRY_LEN as usize];
        self.flash.read(self.layout.entry_at(block), &mut bytes)?;
        self.set_flag(block, INVALID, bytes[INVALID as usize] & BEGUN)?;
        self.set_flag(block, INVALID, SET)?;
        let sector = Entry::sector(&bytes);
        if self.is_mapped(block, sector) {
            self.remap(sector, None);
        }
        Ok(())
    }

    /// Makes a whole block the sector's, in place of any other.
    fn adopt(&mut self, block: u32, sector: u32) -> Result<(), Error<F::Error>> {
        // The flag that says that it is whole may be one that the cut left unstable.
        self.set_flag(block, PRE_VALID, SET)?;
        // Its own, if its *valid* looked set when it was read first.
        if let Some(old) = self.ram.lookup(sector).filter(|old| *old != block) {
            self.invalidate(old)?;
        }
        self.set_flag(block, VALID, SET)?;
        self.remap(sector, Some(block));
        Ok(())
    }

    /// Hands every entry of the segments that are not torn to `each`.
    pub(crate) fn each_entry(
        &mut self,
        each: impl FnMut(&mut Self, u32, Entry) -> Result<(), Error<F::Error>>,
    ) -> Result<(), Error<F::Error>> {
        self.each_entry_of(0..self.layout.segments, each)
    }

    /// The same for some segments, none of which is under erase.
    pub(crate) fn each_entry_of(
        &mut self,
        segments: Range<u32>,
        mut each: impl FnMut(&mut Self, u32, Entry) -> Result<(), Error<F::Error>>,
    ) -> Result<(), Error<F::Error>> {
        for segment in segments {
            if !matches!(
                self.ram.segment(segment).state,
                State::Torn | State::Retired
            ) {
                self.each_entry_in(segment, &mut each)?;
            }
        }
        Ok(())
    }

    /// The same for one segment, whatever its state.
    pub(crate) fn each_entry_in(
        &mut self,
        segment: u32,
        mut each: impl FnMut(&mut Self, u32, Entry) -> Result<(), Error<F::Error>>,
    ) -> Result<(), Error<F::Error>> {
        let Layout {
            blocks, sectors, ..
        } = self.layout;
        for first in (0..blocks).step_by(BATCH as usize) {
            let mut bytes = [0; (BATCH * ENTRY_LEN) as usize];
            let count = BATCH.min(blocks - first);
            let bytes = &mut bytes[..(count * ENTRY_LEN) as usize];
            let block = segment * blocks + first;
            self.flash.read(self.layout.entry_at(block), bytes)?;
            for (block, entry) in (block..).zip(bytes.as_chunks().0) {
                if Entry::is_begun_in_part(entry) {
                    self.note_shaken(block);
                }
                each(self, block, Entry::decode(entry, sectors))?;
            }
        }
        Ok(())
    }

    /// A cut leaves one such block; further ones wait for the next mount.
    fn note_shaken(&mut self, block: u32) {
        if !self.shaken.contains(&Some(block))
            && let Some(place) = self.shaken.iter_mut().find(|place| place.is_none())
        {
            *place = Some(block);
        }
    }

    /// Marks the intents done whose erase is behind them, and those that a cut has torn.
    fn end_torn_intents(&mut self) -> Result<(), Error<F::Error>> {
        for host in 0..self.layout.segments {
            let record = self.ram.segment(host);
            if record.intents == 0 || record.state == State::Torn {
                continue;
            }
            let intents = self.intents(host)?;
            for (index, intent) in (0..INTENTS).zip(intents) {
                if intent != Intent::Blank {
                    // It may have looked blank before.
                    self.ram.update(host, |record| {
                        record.intents = record.intents.max(index + 1);
                    });
                }
                match intent {
                    Intent::Blank | Intent::Done => {}
                    Intent::Open { segment, erases } if segment < self.layout.segments => {
                        let target = self.ram.segment(segment);
                        if target.erases < erases {
                            self.take_up(segment, erases, host, index)?;
                            continue;
                        }
                        // The header that says so may be one that the cut left unstable. A torn
                        // segment has none: a later erase of it was cut, and the count is what its
                        // later intent says.
                        if target.erases == erases && target.state != State::Torn {
                            self.program_header(segment, erases)?;
                        }
                        self.end_intent(host, index)?;
                    }
                    Intent::Torn | Intent::Open { .. } => {
                        // Else both might look blank after another cut.
                        self.begin_intent(host, index, 0)?;
                        self.end_intent(host, index)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes up the intent of an erase that was cut or has failed. It may be one that the cut left
    /// unstable, so it is programmed once more.
    fn take_up(
        &mut self,
        segment: u32,
        erases: u32,
        host: u32,
        intent: u32,
    ) -> Result<(), Error<F::Error>> {
        let record = self.ram.segment(segment);
        if record.state == State::Torn && erases == record.erases + 1 {
            self.program_intent(segment, host, intent)?;
            self.ram.update(segment, |record| record.host = host);
        }
        Ok(())
    }
}

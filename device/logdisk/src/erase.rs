//! Erases under way: intents, the wait, and the flag updates that waited.

use flashkit_nor::{BankedNorFlash, EraseStatus};

use crate::entry::{Entry, SET, VALID};
use crate::header::{
    DONE_AT, ERASES_MAX, FIRST_AT, FIXED_LEN, HEADER_LEN, INTENT_LEN, INTENTS, Intent,
};
use crate::ram::{BankErase, NONE, Pair, Segment, State};
use crate::{Error, LogDisk};

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// Whether a bank is under erase.
    pub(crate) fn is_erasing(&self, bank: u32) -> bool {
        self.erasing > 0 && self.ram.bank(bank).is_some()
    }

    /// Finishes the erases that are done.
    pub(crate) fn collect_erases(&mut self) -> Result<bool, Error<F::Error>> {
        let mut any = false;
        if self.erasing == 0 {
            return Ok(any);
        }
        for bank in 0..self.layout.banks {
            if self.ram.bank(bank).is_some() {
                let status = self.flash.erase_status(bank)?;
                any |= status != EraseStatus::Busy;
                self.finish_erase(bank, status)?;
            }
        }
        Ok(any)
    }

    /// Waits until a bank does not erase.
    pub(crate) fn wait_bank(&mut self, bank: u32) -> Result<(), Error<F::Error>> {
        if self.ram.bank(bank).is_some() {
            self.stats.erase_waits += 1;
            let status = self.flash.erase_wait(bank)?;
            self.finish_erase(bank, status)?;
        }
        Ok(())
    }

    /// Waits for one of the erases under way; whether there was one.
    pub(crate) fn wait_any(&mut self) -> Result<bool, Error<F::Error>> {
        match (0..self.layout.banks).find(|bank| self.ram.bank(*bank).is_some()) {
            Some(bank) => self.wait_bank(bank).map(|()| true),
            None => Ok(false),
        }
    }

    fn finish_erase(&mut self, bank: u32, status: EraseStatus) -> Result<(), Error<F::Error>> {
        let Some(erase) = self.ram.bank(bank) else {
            return Ok(());
        };
        if status == EraseStatus::Busy {
            return Ok(());
        }
        self.ram.set_bank(bank, None);
        self.erasing -= 1;
        if status == EraseStatus::Failed {
            // Its intent stays under way: the next mount tries once more.
            self.stats.segments_retired += 1;
            self.ram
                .update(erase.segment, |record| record.state = State::Retired);
        } else {
            let host = self.ram.segment(erase.segment).host;
            self.take_back(erase.segment)?;
            self.end_intents(host)?;
        }
        self.end_intents_of_bank(bank)?;
        self.drain(bank)
    }

    /// Takes an erased segment back into use, one erase later.
    fn take_back(&mut self, segment: u32) -> Result<(), Error<F::Error>> {
        let erases = (self.ram.segment(segment).erases + 1).min(ERASES_MAX);
        self.program_header(segment, erases)?;
        self.ram.update(segment, |record| {
            record.erases = erases;
            record.used = 0;
            record.valid = 0;
            record.intents = 0;
            record.host = NONE;
            record.state = State::Free;
        });
        self.free += 1;
        self.stats.segments_erased += 1;
        Ok(())
    }

    /// Programs a segment's header, for the first time or once more.
    pub(crate) fn program_header(
        &mut self,
        segment: u32,
        erases: u32,
    ) -> Result<(), Error<F::Error>> {
        let header = self.layout.header(segment, self.volume, erases);
        let at = self.layout.segment_at(segment);
        Ok(self.flash.write(at, &header.encode())?)
    }

    /// Offset of an intent.
    pub(crate) fn intent_at(&self, host: u32, intent: u32) -> u32 {
        self.layout.segment_at(host) + FIXED_LEN as u32 + intent * INTENT_LEN
    }

    /// Marks the intents in a header as done whose segment has its erase behind it, unless the bank
    /// is busy: they mean nothing.
    fn end_intents(&mut self, host: u32) -> Result<(), Error<F::Error>> {
        if self.is_erasing(self.layout.bank_of(host)) {
            return Ok(());
        }
        for (index, intent) in (0..INTENTS).zip(self.intents(host)?) {
            if let Intent::Open { segment, erases } = intent
                && segment < self.layout.segments
                && self.ram.segment(segment).erases >= erases
            {
                self.end_intent(host, index)?;
            }
        }
        Ok(())
    }

    /// Marks those in the headers of a bank as done that had to wait for it: else a header damaged
    /// later would pass for one of a torn erase.
    fn end_intents_of_bank(&mut self, bank: u32) -> Result<(), Error<F::Error>> {
        if self.config.erasing_max == 1 {
            return Ok(());
        }
        let per_bank = self.layout.segments_per_bank();
        for host in bank * per_bank..(bank + 1) * per_bank {
            let record = self.ram.segment(host);
            if record.state.is_in_use() && record.intents > 0 {
                self.end_intents(host)?;
            }
        }
        Ok(())
    }

    /// Marks an intent as done.
    pub(crate) fn end_intent(&mut self, host: u32, intent: u32) -> Result<(), Error<F::Error>> {
        let at = self.intent_at(host, intent) + DONE_AT;
        Ok(self
            .flash
            .write(at, &[0; (INTENT_LEN - DONE_AT) as usize])?)
    }

    /// Reads the intents in a segment's header.
    pub(crate) fn intents(
        &mut self,
        host: u32,
    ) -> Result<[Intent; INTENTS as usize], Error<F::Error>> {
        const { assert!(FIXED_LEN as u32 + INTENTS * INTENT_LEN <= HEADER_LEN) };
        let mut bytes = [0; (INTENTS * INTENT_LEN) as usize];
        self.flash.read(self.intent_at(host, 0), &mut bytes)?;
        let mut intents = [Intent::Blank; INTENTS as usize];
        for (intent, bytes) in intents.iter_mut().zip(bytes.as_chunks().0) {
            *intent = Intent::decode(bytes, host);
        }
        Ok(intents)
    }

    /// Whether the header of a segment takes an intent now, and is not `victim`'s, which is to be
    /// erased.
    fn is_host(&self, host: u32, record: &Segment, victim: u32) -> bool {
        record.state.is_in_use()
            && host != victim
            && record.intents < INTENTS
            && !self.is_erasing(self.layout.bank_of(host))
    }

    /// Whether there are intents for an erase of `victim`: its own, if it has none yet, and one for
    /// each that its header holds. They run out when about half of all segments are worn out, or
    /// after as many cuts in the middle of one as there are segments.
    pub(crate) fn has_intents(&self, victim: u32) -> bool {
        let mut need = u32::from(self.ram.segment(victim).host == NONE);
        let mut left = 0;
        for segment in 0..self.layout.segments {
            let record = self.ram.segment(segment);
            need += u32::from(record.host == victim);
            if self.is_host(segment, &record, victim) {
                left += INTENTS - record.intents;
            }
            // As many as are ever needed.
            if left > INTENTS {
                return true;
            }
        }
        left >= need
    }

    /// Announces an erase of `segment` in a header that is not `victim`'s. False: there is no place
    /// for it.
    fn write_intent(&mut self, segment: u32, victim: u32) -> Result<bool, Error<F::Error>> {
        let mut best: Option<(u32, u32)> = None;
        for host in 0..self.layout.segments {
            let record = self.ram.segment(host);
            if self.is_host(host, &record, victim)
                && best.is_none_or(|(_, least)| record.intents < least)
            {
                best = Some((host, record.intents));
            }
        }
        let Some((host, intent)) = best else {
            return Ok(false);
        };
        // Counted first: what a driver error leaves there is not to be written over.
        self.ram.update(host, |record| record.intents += 1);
        self.program_intent(segment, host, intent)?;
        self.ram.update(segment, |record| record.host = host);
        Ok(true)
    }

    pub(crate) fn program_intent(
        &mut self,
        segment: u32,
        host: u32,
        intent: u32,
    ) -> Result<(), Error<F::Error>> {
        let bytes = Intent::encode(segment, self.ram.segment(segment).erases + 1, host);
        self.begin_intent(host, intent, bytes[FIRST_AT])?;
        Ok(self.flash.write(self.intent_at(host, intent), &bytes)?)
    }

    /// Programs what is the same for every intent. Where a cut leaves it unstable, and the next
    /// mount finds the place blank, the next intent there makes it certain.
    pub(crate) fn begin_intent(
        &mut self,
        host: u32,
        intent: u32,
        first: u8,
    ) -> Result<(), Error<F::Error>> {
        let word: [u8; 4] = core::array::from_fn(|i| if i == FIRST_AT { first } else { 0xFF });
        Ok(self.flash.write(self.intent_at(host, intent), &word)?)
    }

    /// Begins to erase a segment that holds nothing valid. False: not now, an erase under way is in
    /// the way; or if there is none, intents have run out.
    pub(crate) fn begin_erase(&mut self, segment: u32) -> Result<bool, Error<F::Error>> {
        let bank = self.layout.bank_of(segment);
        if self.is_erasing(bank) || self.announces_erase(segment) || !self.has_intents(segment) {
            return Ok(false);
        }
        if self.ram.segment(segment).host == NONE
            && !(self.release_intents(segment)? && self.write_intent(segment, segment)?)
        {
            return Ok(false);
        }
        self.firm_up(bank)?;
        self.flash.erase_start(self.layout.segment_at(segment))?;
        self.ram
            .update(segment, |record| record.state = State::Erasing);
        let begun = self.programmed as u16;
        self.ram.set_bank(bank, Some(BankErase { segment, begun }));
        self.erasing += 1;
        Ok(true)
    }

    /// Whether a segment's header holds the intent of an erase under way.
    fn announces_erase(&self, host: u32) -> bool {
        let mut under_way = (0..self.layout.banks).filter_map(|bank| self.ram.bank(bank));
        under_way.any(|erase| self.ram.segment(erase.segment).host == host)
    }

    /// Moves the intents of worn segments elsewhere that the header of `victim` holds, which is to
    /// be erased. False: there is no place for one.
    fn release_intents(&mut self, victim: u32) -> Result<bool, Error<F::Error>> {
        for segment in 0..self.layout.segments {
            if self.ram.segment(segment).host == victim && !self.write_intent(segment, victim)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Programs every *valid* flag of a bank once more, once after each mount.
    ///
    /// While the bank erases, a sector of it may get a new block, pre-valid until the erase is
    /// done. Were the old block's *valid* one that a cut had left unstable, and were it lost,
    /// both would look the same.
    fn firm_up(&mut self, bank: u32) -> Result<(), Error<F::Error>> {
        if self.ram.is_firm(bank) {
            return Ok(());
        }
        let per_bank = self.layout.segments_per_bank();
        self.each_entry_of(
            bank * per_bank..(bank + 1) * per_bank,
            |disk, block, entry| {
                let (Entry::Valid(sector) | Entry::PreValid(sector)) = entry else {
                    return Ok(());
                };
                let waits = disk
                    .waiting_pair(sector)
                    .is_some_and(|at| disk.ram.pair(at).new == Some(block));
                if disk.is_mapped(block, sector) && !waits {
                    disk.set_flag(block, VALID, SET)?;
                }
                Ok(())
            },
        )?;
        self.ram.set_firm(bank);
        Ok(())
    }

    /// Steps 4 and 5 of the pairs that waited for a bank (paper, 2.4).
    fn drain(&mut self, bank: u32) -> Result<(), Error<F::Error>> {
        let mut at = 0;
        while at < self.ram.queued() {
            let pair = self.ram.pair(at);
            if self.bank_of_block(pair.old) != bank {
                at += 1;
                continue;
            }
            // A block that waits for its own bank has no other to invalidate.
            if pair.new != Some(pair.old) {
                self.invalidate(pair.old)?;
            }
            let busy = pair
                .new
                .is_some_and(|new| self.is_erasing(self.bank_of_block(new)));
            match pair.new {
                // It becomes valid, or invalid if it has been trimmed, when its own bank is done:
                // until then another block for the sector could not be told from it.
                Some(new) if busy => {
                    self.ram.set_pair(at, Pair { old: new, ..pair });
                    continue;
                }
                Some(new) if pair.trimmed => self.invalidate(new)?,
                Some(new) => self.set_flag(new, VALID, SET)?,
                None => {}
            }
            if pair.trimmed {
                self.trims -= 1;
                self.remap(pair.sector, None);
            }
            self.ram.remove_pair(at);
        }
        Ok(())
    }
}

//! What a command has the array do: begun at the end of its transaction, done when its time has
//! come, torn when the power is cut before.

use flashkit_nand::{BlockAddr, OpStatus, PageAddr, ReadStatus};

use super::chip::{ECC_ON, ERASE_FAILED, OTP, PROGRAM_FAILED, WRITE_ENABLED, protocol};
use super::{SpiNandChip, SpiNandError};
use crate::{EraseTear, Tear, Tearable};

/// Pages at the start of a block whose first spare byte is a mark.
const MARKED_PAGES: u32 = 2;
/// What parity bytes hold, for a driver that takes them for its own.
const PARITY: u8 = 0x5A;
const PARAMETER_PAGE: u32 = 1;

/// Work of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Reset,
    Read(u32),
    Program(u32),
    Mark(u32),
    Erase(u32),
    /// A program or an erase of a locked block: it only fails.
    Refused(u8),
}

/// Work that is not done yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) work: Work,
    pub(super) until_ps: u64,
}

type Outcome<T, N> = Result<T, SpiNandError<<N as flashkit_nand::Nand>::Error>>;

impl<N: Tearable> SpiNandChip<N> {
    pub(super) fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Begins what a command says.
    pub(super) fn start(&mut self, opcode: u8, row: u32) -> Outcome<(), N> {
        let rows = self.part.blocks * self.part.pages_per_block;
        if row >= rows {
            return protocol(format!("row {row} of {rows}"));
        }
        let timing = self.part.timing;
        if opcode == 0x13 {
            self.begin(Work::Read(row), timing.read_ns);
            return Ok(());
        }
        if self.status & WRITE_ENABLED == 0 {
            return protocol("a program or an erase without a write enable");
        }
        if self.config & OTP != 0 {
            return protocol("a program or an erase in the OTP area");
        }
        let (work, failed, ns) = if opcode == 0xD8 {
            let block = row / self.part.pages_per_block;
            (Work::Erase(block), ERASE_FAILED, timing.erase_ns)
        } else {
            (self.program(row)?, PROGRAM_FAILED, timing.program_ns)
        };
        let is_locked = self.protection & 0x7C != 0;
        self.begin(
            if is_locked {
                Work::Refused(failed)
            } else {
                work
            },
            ns,
        );
        self.status &= !(ERASE_FAILED | PROGRAM_FAILED);
        Ok(())
    }

    /// What a program from the cache is.
    fn program(&mut self, row: u32) -> Outcome<Work, N> {
        let block = row / self.part.pages_per_block;
        if self.part.two_planes && self.cache_plane != Some(block & 1) {
            return protocol("a program from the cache of the other plane");
        }
        if let Some(from) = self.copied_from
            && !self.part.may_copy(from, row)
        {
            return protocol(format!("a copy from row {from} to row {row}"));
        }
        let mark = self.part.page_size as usize;
        if self.config & ECC_ON == 0 {
            let others = |(at, byte): (usize, &u8)| at != mark && *byte != 0xFF;
            let only_mark = !self.cache.iter().enumerate().any(others);
            let marked = row % self.part.pages_per_block < MARKED_PAGES;
            if !only_mark || !marked || self.cache[mark] == 0xFF {
                return protocol("a program with the ECC off that is no bad-block mark");
            }
            return Ok(Work::Mark(block));
        }
        if self.cache[mark] != 0xFF {
            return protocol("a program of a bad-block mark with the ECC on");
        }
        if self.copied_from.is_none() && !self.parity_is_blank() {
            return protocol("a program of what the cache held before");
        }
        Ok(Work::Program(row))
    }

    fn parity_is_blank(&self) -> bool {
        let mut raw = self.cache[self.part.page_size as usize..].to_vec();
        for (offset, len) in self.part.runs {
            raw[*offset as usize..(offset + len) as usize].fill(0xFF);
        }
        raw.iter().all(|byte| *byte == 0xFF)
    }

    /// Data and usable spare bytes of the cache.
    fn split(&self) -> (Vec<u8>, Vec<u8>) {
        let (data, raw) = self.cache.split_at(self.part.page_size as usize);
        let run = |(offset, len): &(u32, u32)| &raw[*offset as usize..(offset + len) as usize];
        let spare = self.part.runs.iter().flat_map(run).copied().collect();
        (data.to_vec(), spare)
    }

    /// Does what is due.
    pub(super) fn settle(&mut self) -> Outcome<(), N> {
        let due = |pending: &Pending| pending.until_ps <= self.clock.now_ps();
        if self.is_hanging() || !self.pending.as_ref().is_some_and(due) {
            return Ok(());
        }
        let Some(Pending { work, .. }) = self.pending.take() else {
            return Ok(());
        };
        if !matches!(work, Work::Read(_) | Work::Reset) {
            self.status &= !WRITE_ENABLED;
        }
        match work {
            Work::Reset => {}
            Work::Refused(failed) => self.status |= failed,
            Work::Read(row) => self.read(row)?,
            Work::Mark(block) => {
                let marked = self.chip.mark_bad(BlockAddr(block));
                marked.map_err(SpiNandError::Chip)?;
            }
            Work::Program(row) => {
                let (data, spare) = self.split();
                let done = self.chip.program(PageAddr(row), &data, &spare);
                self.end(done.map_err(SpiNandError::Chip)?, PROGRAM_FAILED);
            }
            Work::Erase(block) => {
                let done = self.chip.erase(BlockAddr(block));
                self.end(done.map_err(SpiNandError::Chip)?, ERASE_FAILED);
            }
        }
        Ok(())
    }

    fn end(&mut self, done: OpStatus, failed: u8) {
        if done == OpStatus::Failed {
            self.status |= failed;
        }
    }

    /// Tears what is not done.
    pub(super) fn tear(&mut self, program: Tear, erase: EraseTear, seed: u64) -> Outcome<(), N> {
        let torn = match self.pending.take().map(|pending| pending.work) {
            Some(Work::Program(row)) => {
                let (data, spare) = self.split();
                self.chip
                    .program_torn(PageAddr(row), &data, &spare, program, seed)
            }
            Some(Work::Erase(block)) => self.chip.erase_torn(BlockAddr(block), erase, seed),
            // A mark is there or not.
            Some(Work::Mark(block)) if seed.is_multiple_of(2) => {
                self.chip.mark_bad(BlockAddr(block))
            }
            _ => Ok(()),
        };
        torn.map_err(SpiNandError::Chip)
    }

    /// Reads a page into the cache.
    fn read(&mut self, row: u32) -> Outcome<(), N> {
        let block = row / self.part.pages_per_block;
        let plane = if self.part.two_planes { block & 1 } else { 0 };
        (self.cache_plane, self.copied_from) = (Some(plane), Some(row));
        let ecc = self.config & ECC_ON != 0;
        let mut read = if self.config & OTP != 0 {
            self.read_parameters(row, ecc)
        } else {
            self.read_array(row)?
        };
        if !ecc {
            if let ReadStatus::Corrected(bits) = read {
                for bit in 0..bits as usize {
                    self.cache[bit * 61] ^= 1 << (bit % 8);
                }
            }
            read = ReadStatus::Clean;
        }
        let (bits, extended) = match self.forced_ecc {
            Some(codes) if ecc => codes,
            _ => self.part.code.encode(read),
        };
        self.status = self.status & 0x03 | bits;
        self.extended = extended;
        Ok(())
    }

    fn read_array(&mut self, row: u32) -> Outcome<ReadStatus, N> {
        let page_size = self.part.page_size as usize;
        let block = BlockAddr(row / self.part.pages_per_block);
        let mut spare = vec![0; self.part.spare_size() as usize];
        let (data, raw) = self.cache.split_at_mut(page_size);
        let read = self.chip.read(PageAddr(row), 0, data, &mut spare);
        let read = read.map_err(SpiNandError::Chip)?;
        let is_blank = data.iter().chain(&spare).all(|byte| *byte == 0xFF);
        raw.fill(if is_blank { 0xFF } else { PARITY });
        let mut rest = &spare[..];
        for (offset, len) in self.part.runs {
            let (now, later) = rest.split_at(*len as usize);
            raw[*offset as usize..(offset + len) as usize].copy_from_slice(now);
            rest = later;
        }
        let is_bad = self.chip.is_bad(block).map_err(SpiNandError::Chip)?;
        let index = row % self.part.pages_per_block;
        let has_mark = match self.marked_page {
            Some(page) => index == page,
            None => index < MARKED_PAGES,
        };
        let marked = is_bad && has_mark;
        raw[0] = if marked { 0 } else { 0xFF };
        Ok(read)
    }

    /// The parameter page has no parity: with the ECC on it is no page.
    fn read_parameters(&mut self, row: u32, ecc: bool) -> ReadStatus {
        self.cache.fill(0xFF);
        if row == PARAMETER_PAGE {
            for (copy, place) in self.parameters.iter().zip(self.cache.chunks_mut(256)) {
                place.copy_from_slice(copy);
            }
        }
        if !ecc {
            return ReadStatus::Clean;
        }
        self.cache.fill(PARITY);
        ReadStatus::Uncorrectable
    }
}

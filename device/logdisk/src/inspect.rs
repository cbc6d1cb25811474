//! The disk's own checker: what RAM says against what is on flash.

use flashkit_nor::BankedNorFlash;

use crate::entry::Entry;
use crate::ram::State;
use crate::{Error, LogDisk};

impl<F: BankedNorFlash> LogDisk<'_, F> {
    /// Reads every summary and compares: each sector's block names that sector and is whole, no
    /// other block is valid but those that wait in the flag update queue, and the counts are right.
    ///
    /// Costs a read of all summaries. Changes nothing.
    ///
    /// # Errors
    /// The first finding: [`Error::Entry`], [`Error::TwoCopies`], or [`Error::Geometry`] for
    /// a count; [`Error::Flash`]. [`Error::Damaged`] when the mount has found damage.
    pub fn check(&mut self) -> Result<(), Error<F::Error>> {
        if self.is_damaged() {
            return Err(Error::Damaged);
        }
        let blocks = self.layout.blocks;
        let (mut live, mut free, mut open, mut room) = (0, 0, 0, 0);
        for segment in 0..self.layout.segments {
            let record = self.ram.segment(segment);
            free += u32::from(record.state == State::Free);
            if record.state == State::Open {
                open += 1;
                room += blocks - record.used;
            }
            if matches!(record.state, State::Torn | State::Erasing | State::Retired) {
                continue;
            }
            let mut valid = 0;
            for block in segment * blocks..(segment + 1) * blocks {
                valid += self.check_block(segment, block, record.used)?;
            }
            expect("valid blocks of a segment", record.valid, valid)?;
            live += valid;
        }
        expect("sectors in use", self.live, live)?;
        expect("free segments", self.free, free)?;
        expect("open segments", self.open, open)?;
        expect("blocks not written in open segments", self.open_room, room)
    }

    /// Checks one block; 1 when the table points to it.
    fn check_block(&mut self, segment: u32, block: u32, used: u32) -> Result<u32, Error<F::Error>> {
        let mut bytes = [0; 8];
        self.flash.read(self.layout.entry_at(block), &mut bytes)?;
        let index = block % self.layout.blocks;
        let entry = Entry::decode(&bytes, self.layout.sectors);
        let damaged = Error::Entry {
            segment,
            block: index,
        };
        let (sector, valid) = match entry {
            // Free below others: its first flag looked set at the mount. A block that the table
            // points to would be missing in the counts.
            Entry::Free | Entry::Dead => return Ok(0),
            Entry::Valid(sector) => (sector, true),
            Entry::PreValid(sector) => (sector, false),
            // What a cut left of a flag may read as dead or free at the mount and as dying now; or,
            // of a trim, as valid.
            Entry::Dying => return Ok(u32::from(self.is_mapped(block, Entry::sector(&bytes)))),
            _ if index >= used => return Err(damaged),
            Entry::Damaged => return Err(damaged),
        };
        if self.is_mapped(block, sector) {
            return Ok(1);
        }
        let mapped = self.ram.lookup(sector);
        let waits = (0..self.ram.queued()).any(|at| self.ram.pair(at).old == block);
        match mapped {
            _ if waits => Ok(0),
            Some(first) if valid => Err(Error::TwoCopies {
                sector,
                first,
                second: block,
            }),
            _ => Err(damaged),
        }
    }
}

fn expect<E>(what: &'static str, found: u32, expected: u32) -> Result<(), Error<E>> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Geometry {
        what,
        found,
        expected,
    })
}

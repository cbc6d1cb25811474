//! The paper's interface (3.2.2, 3.3), for file systems that can call it.

use flashkit_nand::Nand;

use crate::clean::FREE_MIN;
use crate::error::Error;
use crate::layout::{NONE, PER_SEGMENT};
use crate::state::{HOST, Jftl};

impl<N: Nand> Jftl<'_, N> {
    /// Writes a sector of a journal, whose contents will belong to the sector `home` once a
    /// [`Jftl::remap`] says so. Costs and durability as [`Jftl::write`].
    ///
    /// A journal written with [`Jftl::write`] can be remapped as well; cleaning then
    /// has to search for the homes.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn write_for(
        &mut self,
        journal: u32,
        home: u32,
        data: &[u8],
    ) -> Result<(), Error<N::Error>> {
        self.check_range(home, self.lay.page)?;
        if data.len() != self.lay.page {
            return Err(Error::BufferLength { len: data.len() });
        }
        self.check_range(journal, data.len())?;
        self.changing(|disk| {
            disk.stats.journal_sectors += 1;
            disk.write_one(journal, data, home)
        })
    }

    /// Pairs and deallocated sectors that one [`Jftl::remap`] takes in any case: a quarter of the
    /// log, if each had a record of its own. A recovery needs all of a transaction or none, so no
    /// block of the log is given up in the middle of one, and nothing is cleaned.
    ///
    /// With a part of the map in RAM a home in another piece than the one before may take a page of
    /// the map: then it is as many as fit into the blocks that are kept free.
    pub fn remap_max(&self) -> u32 {
        self.records_max().min(self.pieces_max())
    }

    /// Records in a quarter of the log.
    fn records_max(&self) -> u32 {
        self.lay.window() / 4 * self.ram.records_max() as u32
    }

    /// Pieces of the map that a transaction may change one after another.
    fn pieces_max(&self) -> u32 {
        if self.ram.direct {
            return u32::MAX;
        }
        let pages = (self.lay.low - FREE_MIN) * self.lay.usable;
        // Those in RAM may have been changed before.
        pages.saturating_sub(self.ram.slots() as u32)
    }

    /// A transaction: each home of the pairs (home, journal) holds what the journal's sector holds,
    /// and the sectors of the deallocated runs (first, count) hold nothing. All of it or, after a
    /// power cut, nothing. Durable when it returns, and with it all that was written before.
    ///
    /// A sector that is a home may not be another pair's journal. Costs a record of 8 bytes for
    /// each run of up to 16 pairs; no data is read or programmed.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Full`] for more pairs and deallocated sectors than
    /// [`Jftl::remap_max`], before anything is changed; as [`Jftl::write`]. With a part of the map
    /// in RAM more are taken, as many as with all of it, if they are in so many pieces of the map.
    pub fn remap(
        &mut self,
        pairs: &[(u32, u32)],
        deallocated: &[(u32, u32)],
    ) -> Result<(), Error<N::Error>> {
        for (home, journal) in pairs {
            self.check_range(*home, self.lay.page)?;
            self.check_range(*journal, self.lay.page)?;
        }
        for (first, count) in deallocated {
            let len = u64::from(*count) * self.lay.page as u64;
            self.check_range(*first, usize::try_from(len).unwrap_or(usize::MAX))?;
        }
        let given_up: u64 = deallocated.iter().map(|(_, count)| u64::from(*count)).sum();
        let pieces = self.pieces(pairs, deallocated);
        if pairs.len() as u64 + given_up > u64::from(self.records_max())
            || pieces > u64::from(self.pieces_max())
        {
            return Err(Error::Full);
        }
        self.changing(|disk| {
            disk.prepare()?;
            if !disk.ram.direct {
                let pages = pieces as u32 + disk.ram.slots() as u32;
                disk.make_room(FREE_MIN + pages.div_ceil(disk.lay.usable))?;
            }
            if disk.log.fill > 0 {
                disk.commit()?;
            }
            disk.log.tx = disk.log.next;
            let done = disk.remap_all(pairs, deallocated);
            disk.log.tx = 0;
            done?;
            disk.commit()?;
            Ok(disk.nand.flush()?)
        })?;
        self.changing(Self::prepare)
    }

    /// How often a transaction goes on in another piece of the map; with all of it in RAM that is
    /// of no matter, and 0.
    fn pieces(&self, pairs: &[(u32, u32)], deallocated: &[(u32, u32)]) -> u64 {
        if self.ram.direct {
            return 0;
        }
        let homes = pairs.iter().map(|(home, _)| (*home, 1));
        let mut last = None;
        let mut count = 0;
        for (first, len) in homes
            .chain(deallocated.iter().copied())
            .filter(|run| run.1 > 0)
        {
            let (from, to) = (first / PER_SEGMENT, (first + len - 1) / PER_SEGMENT);
            count += u64::from(to - from) + u64::from(last != Some(from));
            last = Some(to);
        }
        count
    }

    fn remap_all(
        &mut self,
        pairs: &[(u32, u32)],
        deallocated: &[(u32, u32)],
    ) -> Result<(), Error<N::Error>> {
        // A block's count has an end: then a page is copied, and the copy
        // serves the homes that follow.
        let (mut from, mut copy) = (NONE, NONE);
        for (home, journal) in pairs {
            let mut page = self.lookup(*journal)?;
            if page == from && self.can_gain(copy) {
                page = copy;
            } else if page != NONE && self.lookup(*home)? != page && !self.can_gain(page) {
                from = page;
                copy = self.extract(page, HOST, [*home, NONE])?;
                page = copy;
            }
            self.set(*home, page)?;
            self.stats.remapped += 1;
        }
        for (first, count) in deallocated {
            for sector in *first..first + count {
                if self.unmap(sector)? {
                    self.stats.sectors_trimmed += 1;
                }
            }
        }
        Ok(())
    }
}

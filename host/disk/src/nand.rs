//! `jftl` on a NAND chip as a [`Translation`].

use flashkit_block::BlockDevice;
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Metered, SimNand};

use crate::Translation;

/// Longest journal that is followed: 1 GiB of blocks of 4 KiB.
const JOURNAL_BLOCKS: usize = 1 << 18;
/// Most pieces of one: those of ext3 are of 256 blocks, where blocks are of 1 KiB.
const JOURNAL_PIECES: usize = JOURNAL_BLOCKS / 128;
/// RAM for copies of the journal's pages.
const COPIES: usize = 16 << 20;

/// What a disk does with a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remapping {
    /// Nothing: plain translation.
    #[default]
    No,
    /// Its homes are mapped instead of being written, and no more: the paper's mechanism alone. It
    /// takes no RAM for sums and copies, so each comparison costs a read.
    Alone,
    /// And what has not changed is not journalled again, and short sectors share pages.
    Full,
}

impl From<bool> for Remapping {
    fn from(remaps: bool) -> Remapping {
        match remaps {
            true => Remapping::Full,
            false => Remapping::No,
        }
    }
}

/// A disk and its chip, by default a simulated one, the whole map in RAM.
pub struct OnNand<N: Nand = SimNand> {
    disk: Jftl<'static, N>,
    told: JournalState,
    /// Most pages that were the journal's and a home's at once, and the elided
    /// sectors when that was looked at.
    shared: (u32, u64),
    tell: fn(&str),
    describe: fn(&OnNand<N>) -> String,
}

impl<N: Nand> OnNand<N> {
    /// Mounts the disk on a chip for the life of the process, whose RAM it keeps. With `remaps`,
    /// `true` for all of it, journals are followed, and `tell` gets a line when that begins or
    /// ends, or when the disk is there for reading alone. `describe` is for
    /// [`Translation::summary`].
    ///
    /// # Errors
    /// Of the disk.
    pub fn mount(
        chip: N,
        remaps: impl Into<Remapping>,
        tell: fn(&str),
        describe: fn(&OnNand<N>) -> String,
    ) -> Result<OnNand<N>, Error<N::Error>> {
        let len = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(Error::Config)?;
        let mut disk = Jftl::mount(chip, vec![0; len].leak())?;
        let remaps = remaps.into();
        if remaps != Remapping::No {
            let len = disk.sector_size() as usize + 4 * JOURNAL_BLOCKS + 8 * JOURNAL_PIECES;
            disk.watch_journal(vec![0; len].leak());
        }
        if remaps == Remapping::Full {
            let sums = 4 * disk.sector_count() as usize;
            disk.remember(vec![0; sums].leak(), vec![0; COPIES].leak());
            disk.pack(vec![0; disk.sector_size() as usize].leak());
        }
        let mut device = OnNand {
            disk,
            told: JournalState::Off,
            shared: (0, 0),
            tell,
            describe,
        };
        if let Some(damage) = device.disk.damage() {
            tell(&damage.to_string());
        }
        device.tell();
        Ok(device)
    }

    /// The disk.
    pub fn disk(&self) -> &Jftl<'static, N> {
        &self.disk
    }

    /// Programs sectors of zeros as well.
    #[must_use]
    pub fn with_zeros(mut self) -> Self {
        self.disk.program_zeros(true);
        self
    }

    /// Most pages that were a block of the journal and its home at once, as flushes have seen it.
    pub fn shared_pages(&self) -> u32 {
        self.shared.0
    }

    /// The chip as it is, as after a power cut.
    pub fn into_chip(self) -> N {
        self.disk.into_nand()
    }

    fn tell(&mut self) {
        let state = self.disk.journal();
        if state == self.told {
            return;
        }
        self.told = state;
        match state {
            JournalState::Off => {}
            JournalState::None(why) => (self.tell)(&format!("plain translation: {why}")),
            JournalState::Watched { blocks, block_size } => (self.tell)(&format!(
                "remaps a journal of {blocks} blocks of {block_size} bytes"
            )),
        }
    }
}

impl<N: Nand> BlockDevice for OnNand<N> {
    type Error = Error<N::Error>;
    const TRIM_ZEROES: bool = true;

    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }

    fn sector_count(&self) -> u32 {
        self.disk.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        self.disk.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), Self::Error> {
        self.disk.write(first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        self.disk.trim(first, count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        // Before the journal is looked for again. The map is in RAM: this costs the chip nothing.
        let elided = self.disk.stats().elided;
        if elided != self.shared.1 {
            let shared = self.disk.shared_pages()?.max(self.shared.0);
            self.shared = (shared, elided);
        }
        self.disk.flush()?;
        self.tell();
        Ok(())
    }
}

impl<N: Nand + Metered> Translation for OnNand<N> {
    fn remap(
        &mut self,
        pairs: &[(u32, u32)],
        deallocated: &[(u32, u32)],
    ) -> Result<(), Self::Error> {
        self.disk.remap(pairs, deallocated)
    }

    fn remap_max(&self) -> Option<u32> {
        Some(self.disk.remap_max())
    }

    fn background(&mut self) -> Result<bool, Self::Error> {
        self.disk.background()
    }

    fn patrol(&mut self, n: u32) -> Result<bool, Self::Error> {
        self.disk.patrol(n)
    }

    fn close(&mut self) -> Result<(), Self::Error> {
        self.disk.close()
    }

    fn summary(&self) -> String {
        (self.describe)(self)
    }

    fn now_ns(&self) -> u64 {
        self.disk.nand().counters().time_ns
    }

    fn pass(&mut self, ns: u64) {
        self.disk.nand_mut().idle(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, Sectors};
    use flashkit_nand::PageAddr;
    use flashkit_sim::{Rot, preset};
    use std::sync::Mutex;

    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn tell(line: &str) {
        TOLD.lock().unwrap().push(line.into());
    }

    fn mount(chip: SimNand) -> Sectors<OnNand> {
        Sectors::new(OnNand::mount(chip, false, tell, |_| String::new()).unwrap())
    }

    #[test]
    fn a_disk_that_lost_a_page_of_its_log_can_be_read() {
        let mut chip = SimNand::new(preset("small-256m").unwrap());
        let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
        Jftl::format(&mut chip, &mut ram, 1).unwrap();
        let mut disk = mount(chip);
        for at in (0..64).map(|i| 512 * i) {
            disk.write(at, &[at as u8 + 1; 512]).unwrap();
            disk.flush().unwrap();
        }
        let mut chip = disk.into_device().into_chip();
        // The log of a new disk is behind the anchors: 4 blocks.
        let log = (4 * 32..8 * 32).find(|page| {
            let mut spare = [0; 4];
            let read = chip.read(PageAddr(*page), 0, &mut [], &mut spare);
            read.is_ok() && chip.clone().rot(PageAddr(page + 1), Rot::Lost).unwrap()
        });
        assert!(chip.rot(PageAddr(log.unwrap() + 16), Rot::Lost).unwrap());
        let mut disk = mount(chip);
        let told = TOLD.lock().unwrap().join("\n");
        assert!(
            told.contains("cannot be read: the disk is there for reading alone"),
            "{told}"
        );
        let mut sector = [0; 512];
        disk.read(0, &mut sector).unwrap();
        assert_eq!(sector, [1; 512]);
        let why = disk.write(0, &[9; 512]).unwrap_err();
        assert!(why.contains("a page of the log, is damaged"), "{why}");
        disk.flush().unwrap();
        disk.close().unwrap();
    }
}

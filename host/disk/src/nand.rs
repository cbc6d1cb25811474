//! `jftl` on a simulated NAND chip as a [`Translation`].

use flashkit_block::BlockDevice;
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Metered, SimError, SimNand};

use crate::Translation;

/// Longest journal that is followed: 1 GiB of blocks of 4 KiB.
const JOURNAL_BLOCKS: usize = 1 << 18;

/// A disk and its chip, the whole map in RAM.
pub struct OnNand {
    disk: Jftl<'static, SimNand>,
    told: JournalState,
    tell: fn(&str),
    describe: fn(&Jftl<'static, SimNand>) -> String,
}

impl OnNand {
    /// Mounts the disk on a chip for the life of the process, whose RAM it keeps. With `remaps`, journals
    /// are followed, and `tell` gets a line when that begins or ends. `describe` is for
    /// [`Translation::summary`].
    ///
    /// # Errors
    /// Of the disk.
    pub fn mount(
        chip: SimNand,
        remaps: bool,
        tell: fn(&str),
        describe: fn(&Jftl<'static, SimNand>) -> String,
    ) -> Result<OnNand, Error<SimError>> {
        let len = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(Error::Config)?;
        let mut disk = Jftl::mount(chip, vec![0; len].leak())?;
        if remaps {
            let len = disk.sector_size() as usize + 4 * JOURNAL_BLOCKS;
            disk.watch_journal(vec![0; len].leak());
        }
        let mut device = OnNand {
            disk,
            told: JournalState::Off,
            tell,
            describe,
        };
        device.tell();
        Ok(device)
    }

    /// The disk.
    pub fn disk(&self) -> &Jftl<'static, SimNand> {
        &self.disk
    }

    /// The chip as it is, as after a power cut.
    pub fn into_chip(self) -> SimNand {
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

impl BlockDevice for OnNand {
    type Error = Error<SimError>;
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
        self.disk.flush()?;
        self.tell();
        Ok(())
    }
}

impl Translation for OnNand {
    fn background(&mut self) -> Result<bool, Self::Error> {
        self.disk.background()
    }

    fn close(&mut self) -> Result<(), Self::Error> {
        self.disk.close()
    }

    fn summary(&self) -> String {
        (self.describe)(&self.disk)
    }

    fn now_ns(&self) -> u64 {
        self.disk.nand().now_ns()
    }

    fn pass(&mut self, ns: u64) {
        self.disk.nand_mut().idle(ns);
    }
}

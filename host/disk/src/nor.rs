//! `logdisk` on a simulated NOR chip as a [`Translation`].

use flashkit_block::BlockDevice;
use flashkit_logdisk::{Config, Error, LogDisk, Step, ram_bytes};
use flashkit_nor::{BankedNorFlash, ReadNorFlash};
use flashkit_sim::nor::{SimNor, SimNorError};

use crate::Translation;

/// A disk and its chip.
pub struct OnNor {
    disk: LogDisk<'static, SimNor>,
    real_time: bool,
    describe: fn(&LogDisk<'static, SimNor>) -> String,
}

impl OnNor {
    /// Mounts the disk on a chip for the life of the process, whose RAM it keeps. In real time,
    /// idle time is not spent on waiting for an erase: it needs nothing but patience. `describe` is
    /// for [`Translation::summary`].
    ///
    /// # Errors
    /// Of the disk.
    pub fn mount(
        mut chip: SimNor,
        config: Config,
        real_time: bool,
        describe: fn(&LogDisk<'static, SimNor>) -> String,
    ) -> Result<OnNor, Error<SimNorError>> {
        let shape = LogDisk::probe(&mut chip)?;
        let len = ram_bytes::<SimNor>(chip.capacity(), chip.banks(), &shape, &config);
        let ram = vec![0; len.map_err(Error::Config)?].leak();
        Ok(OnNor {
            disk: LogDisk::mount(chip, config, ram)?,
            real_time,
            describe,
        })
    }

    /// The disk.
    pub fn disk(&self) -> &LogDisk<'static, SimNor> {
        &self.disk
    }

    /// The disk, to be checked.
    pub fn disk_mut(&mut self) -> &mut LogDisk<'static, SimNor> {
        &mut self.disk
    }

    /// A kernel has no use for *busy*: what a disk of bounded latency refuses waits here.
    fn patiently(
        &mut self,
        work: impl Fn(&mut LogDisk<'static, SimNor>) -> Result<(), Error<SimNorError>>,
    ) -> Result<(), Error<SimNorError>> {
        loop {
            match work(&mut self.disk) {
                Err(Error::Busy) if self.disk.clean_now()? == Step::Idle => {
                    return Err(Error::Full);
                }
                Err(Error::Busy) => {}
                ended => return ended,
            }
        }
    }
}

impl BlockDevice for OnNor {
    type Error = Error<SimNorError>;
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
        // From the sector on that was refused. Of a request as long as a segment, those before it
        // might fill the room that each wait brings, and never end.
        let size = self.disk.sector_size() as usize;
        let before = self.disk.stats().sectors_written;
        self.patiently(|disk| {
            let done = disk.stats().sectors_written - before;
            disk.write(first + done as u32, &data[done as usize * size..])
        })
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), Self::Error> {
        self.patiently(|disk| disk.trim(first, count))
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.disk.flush()?;
        Ok(self.disk.flash_mut().sync()?)
    }
}

impl Translation for OnNor {
    fn background(&mut self) -> Result<bool, Self::Error> {
        match self.disk.clean_step()? {
            Step::Idle => Ok(false),
            Step::Waiting if !self.real_time => self.disk.finish_erases().map(|()| true),
            _ => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), Self::Error> {
        self.disk.finish_erases()?;
        BlockDevice::flush(self)
    }

    fn summary(&self) -> String {
        (self.describe)(&self.disk)
    }

    fn now_ns(&self) -> u64 {
        self.disk.flash().now_ns()
    }

    fn pass(&mut self, ns: u64) {
        self.disk.flash_mut().idle(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashkit_logdisk::{Shape, Start};
    use flashkit_sim::Rng;
    use flashkit_sim::nor::{NorSpec, nor_preset};

    /// A request longer than a segment, of which a part is refused: the rest is written when there
    /// is room, and the first part is not written again, which would wear the chip out for ever.
    #[test]
    fn a_request_that_is_refused_in_part_is_written_once() {
        let timing = nor_preset("nor-16m").unwrap().timing();
        let shape = Shape {
            sector_size: 32_768,
            sectors: 50,
        };
        let config = Config {
            start: Start::Reserve { segments: 4 },
            moves_max: 12,
            erasing_max: 2,
            open_max: 3,
            queue: 4,
            ..Config::new()
        };
        // 12 segments of 7 blocks.
        let mut chip: SimNor = SimNor::new(NorSpec::new(3, 4, timing));
        LogDisk::format(&mut chip, &shape, 1).unwrap();
        let mut device = OnNor::mount(chip, config, false, |_| String::new()).unwrap();
        let mut rng = Rng::new(1);
        for n in 1..100 {
            let first = rng.below(43) as u32;
            device.write(first, &[n as u8; 8 * 32_768]).unwrap();
            assert_eq!(device.disk().stats().sectors_written, 8 * n, "request {n}");
        }
        assert!(device.disk().stats().refused > 10);
        // Nothing of what is not a whole number of sectors, or reaches beyond the end.
        let before = device.disk().stats();
        device.write(0, &[0; 32_769]).unwrap_err();
        device.write(49, &[0; 2 * 32_768]).unwrap_err();
        assert_eq!(device.disk().stats(), before);
    }

    /// A disk that may move one block for a sector cannot keep up when it is full: it waits, and
    /// nobody is refused.
    #[test]
    fn busy_is_waited_for() {
        let shape = Shape {
            sector_size: 4096,
            sectors: 3_584,
        };
        let mut chip: SimNor = SimNor::new(nor_preset("nor-16m").unwrap());
        LogDisk::format(&mut chip, &shape, 1).unwrap();
        let config = Config {
            moves_max: 1,
            ..Config::bounded()
        };
        let mut device = OnNor::mount(chip, config, false, |_| String::new()).unwrap();
        let mut rng = Rng::new(1);
        let mut held = vec![0u8; 3_584];
        for n in 0..6_000 {
            let sector = if n < 3_584 {
                n
            } else {
                rng.below(3_584) as u32
            };
            held[sector as usize] = 1 + (n % 251) as u8;
            device
                .write(sector, &[held[sector as usize]; 4096])
                .unwrap();
        }
        device.trim(0, 100).unwrap();
        held[..100].fill(0);
        assert!(device.disk().stats().refused > 10);
        for (sector, held) in (0..).zip(held) {
            let mut read = [1; 4096];
            device.read(sector, &mut read).unwrap();
            assert_eq!(read, [held; 4096], "sector {sector}");
        }
    }
}

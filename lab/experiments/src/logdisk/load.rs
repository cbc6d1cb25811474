//! The paper's write loads on the disk itself.

use flashkit_logdisk::{Config, Error, LogDisk, Shape, Step, ram_bytes};
use flashkit_sim::Rng;
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, SimNorError, nor_preset};
use serde::{Deserialize, Serialize};

/// Bytes of a sector and of a block.
pub const SECTOR: u32 = 512;
/// Sectors of a request: 4 KiB.
pub const REQUEST: u32 = 8;
/// Bytes that each test writes: 192 MiB.
pub const WRITTEN: u64 = 192 << 20;
/// Sectors of the disk: 14 MiB, the paper's 100 %.
pub const SECTORS: u32 = 28_672;

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The data from its start to its end, again and again.
    Sequential,
    /// Anywhere in the data, with equal chance.
    Random,
    /// 60 % to one eighth, 40 % to another, the rest never.
    HotCold,
}

/// Where the two eighths lie that are written in a hot-and-cold test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hot {
    /// Each in one piece, the first two of the data.
    Together,
    /// Every eighth request of the data, and the one behind it.
    Scattered,
}

/// A test.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where writes go.
    pub pattern: Pattern,
    /// Where the hot eighths lie.
    pub hot: Hot,
    /// Sectors of data: written once at the start, then overwritten.
    pub data: u32,
    /// Sectors beside the data, written once at the start.
    pub still: u32,
    /// The data is written over at random so many times before the test begins.
    pub aged: u32,
    /// Bytes written in the test.
    pub written: u64,
    /// How the disk cleans.
    pub config: Config,
    /// What the host needs for a request besides the chip, in nanoseconds.
    pub host_ns: u64,
    /// Cleaner steps after each request.
    pub steps: u32,
    /// Nanoseconds of flash time in a unit of the disk's clock; 0: it counts sectors.
    pub tick_ns: u64,
    /// Seed of the choices.
    pub seed: u64,
}

/// What a test did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Sectors written by the host.
    pub written: u64,
    /// Blocks copied.
    pub copied: u64,
    /// Segments erased.
    pub erased: u64,
    /// Flash time in nanoseconds, the host's own included.
    pub time_ns: u64,
    /// Free segments before and after.
    pub free: (u32, u32),
    /// Valid blocks of each segment at the end.
    pub valid: Vec<u32>,
    /// Longest request, in nanoseconds of flash time.
    pub longest_ns: u64,
    /// Times that an operation waited for an erase.
    pub waits: u64,
    /// Times that a disk of bounded latency refused one instead.
    pub refused: u64,
    /// Bytes of RAM.
    pub ram: usize,
    /// (cumulative MiB, KiB/s over the last 4 MiB)
    pub curve: Vec<(f64, f64)>,
    /// Blocks of each segment that are cold, of those that are valid: they were moved out of a
    /// segment that was less utilised than the disk (paper, 3.4).
    pub cold: Vec<u32>,
    /// Of these, blocks that were moved so when they were moved last.
    pub cold_last: u32,
    /// Least and most erases of a segment in the test.
    pub erases: (u32, u32),
}

impl Outcome {
    /// Blocks programmed for each one that the host wrote.
    pub fn amplification(&self) -> f64 {
        (self.written + self.copied) as f64 / self.written as f64
    }

    /// KiB a second of flash time.
    pub fn throughput(&self) -> f64 {
        self.written as f64 * f64::from(SECTOR) / 1024.0 / (self.time_ns as f64 / 1e9)
    }
}

impl Load {
    fn target(&self, rng: &mut Rng, request: u64) -> u32 {
        let requests = u64::from(self.data / REQUEST);
        let eighth = requests / 8;
        let at = match self.pattern {
            Pattern::Sequential => request % requests,
            Pattern::Random => rng.below(requests),
            Pattern::HotCold => {
                let second = u64::from(rng.below(100) >= 60);
                match self.hot {
                    Hot::Together => second * eighth + rng.below(eighth),
                    Hot::Scattered => 8 * rng.below(eighth) + second,
                }
            }
        };
        self.still + at as u32 * REQUEST
    }

    /// Runs it.
    ///
    /// # Errors
    /// Of the disk.
    pub fn run(&self) -> Result<Outcome, Error<SimNorError>> {
        let spec = nor_preset(NOR_DEFAULT).expect("the preset");
        let mut chip: SimNor = SimNor::new(spec.clone());
        let shape = Shape {
            sector_size: SECTOR,
            sectors: SECTORS,
        };
        LogDisk::format(&mut chip, &shape, 1)?;
        let ram_len = ram_bytes::<SimNor>(16 << 20, spec.banks(), &shape, &self.config);
        let ram_len = ram_len.map_err(Error::Config)?;
        let mut ram = vec![0; ram_len];
        let mut disk = Traced {
            disk: LogDisk::mount(chip, self.config, &mut ram)?,
            trace: vec![Judged::default(); SECTORS as usize],
        };
        let mut rng = Rng::new(self.seed);
        let data = [0x5A; (SECTOR * REQUEST) as usize];
        for sector in (0..self.still + self.data).step_by(REQUEST as usize) {
            self.request(&mut disk, sector, &data)?;
        }
        let age = Load {
            pattern: Pattern::Random,
            ..*self
        };
        for _ in 0..u64::from(self.aged) * u64::from(self.data / REQUEST) {
            let at = age.target(&mut rng, 0);
            self.request(&mut disk, at, &data)?;
        }
        let before = disk.disk.stats();
        let cost = disk.disk.flash().counters();
        let free = disk.disk.free_segments();
        disk.trace.fill(Judged::default());
        let erased = disk.erases();
        let mut longest_ns = 0;
        let mut curve = Vec::new();
        let mut last = disk.disk.flash().now_ns();
        for request in 0..self.written / u64::from(SECTOR * REQUEST) {
            let at = self.target(&mut rng, request);
            longest_ns = longest_ns.max(self.request(&mut disk, at, &data)?);
            if (request + 1) % 1024 == 0 {
                let now = disk.disk.flash().now_ns();
                curve.push((
                    (request + 1) as f64 / 256.0,
                    4096.0 / ((now - last) as f64 / 1e9),
                ));
                last = now;
            }
        }
        let cold = disk.cold();
        let cold_last = disk.trace.iter().filter(|held| held.last).count() as u32;
        let ended = disk.erases();
        let erases = ended.iter().zip(&erased).map(|(now, then)| now - then);
        let erases = (erases.clone().min().unwrap_or(0), erases.max().unwrap_or(0));
        let Traced { disk, .. } = disk;
        let after = disk.stats();
        Ok(Outcome {
            written: after.sectors_written - before.sectors_written,
            copied: after.blocks_copied - before.blocks_copied,
            erased: after.segments_erased - before.segments_erased,
            time_ns: (disk.flash().counters() - cost).time_ns,
            free: (free, disk.free_segments()),
            valid: (0..disk.segments())
                .map(|s| disk.segment(s).valid)
                .collect(),
            longest_ns,
            waits: after.erase_waits - before.erase_waits,
            refused: after.refused - before.refused,
            ram: ram_len,
            curve,
            cold,
            cold_last,
            erases,
        })
    }

    fn request(
        &self,
        traced: &mut Traced<'_>,
        sector: u32,
        data: &[u8],
    ) -> Result<u64, Error<SimNorError>> {
        let start = traced.disk.flash().now_ns();
        if let Some(ticks) = start.checked_div(self.tick_ns) {
            traced.disk.set_clock(ticks as u32);
        }
        // What the write would do itself, so that the victims are seen.
        while self.config.moves_max == 0 && traced.disk.room() < REQUEST {
            let step = traced.disk.clean_now()?;
            traced.note(step);
            if step == Step::Idle {
                break;
            }
        }
        while let Err(error) = traced.disk.write(sector, data) {
            if error != Error::Busy {
                return Err(error);
            }
            traced.disk.clean_now()?;
        }
        traced.trace[sector as usize..(sector + REQUEST) as usize].fill(Judged::default());
        let took = traced.disk.flash().now_ns() - start;
        traced.disk.flash_mut().idle(self.host_ns);
        for _ in 0..self.steps {
            let step = traced.disk.clean_step()?;
            traced.note(step);
            if let Step::Idle | Step::Waiting = step {
                break;
            }
        }
        Ok(took)
    }
}

/// How a sector was judged since it was written.
#[derive(Clone, Copy, Default)]
struct Judged {
    /// Cold, at any cleaning.
    once: bool,
    /// Cold, at the last one.
    last: bool,
}

/// A disk, and how its sectors were judged.
struct Traced<'a> {
    disk: LogDisk<'a, SimNor>,
    trace: Vec<Judged>,
}

impl Traced<'_> {
    fn note(&mut self, step: Step) {
        if let Step::Selected { segment, cold } = step {
            for (sector, judged) in (0..).zip(&mut self.trace) {
                if self.disk.segment_of_sector(sector) == Some(segment) {
                    judged.once |= cold;
                    judged.last = cold;
                }
            }
        }
    }

    /// Erases of each segment.
    fn erases(&self) -> Vec<u32> {
        let all = 0..self.disk.segments();
        all.map(|segment| self.disk.segment(segment).erases)
            .collect()
    }

    /// Cold blocks of each segment.
    fn cold(&self) -> Vec<u32> {
        let mut counts = vec![0; self.disk.segments() as usize];
        for (sector, judged) in (0..).zip(&self.trace) {
            let segment = self.disk.segment_of_sector(sector);
            if let Some(segment) = segment.filter(|_| judged.once) {
                counts[segment as usize] += 1;
            }
        }
        counts
    }
}

//! A log disk on a NOR chip whose contents have been changed: mounted, checked, read, written,
//! mounted again.
//!
//! Whatever its records say, no call panics, hangs or takes more operations of the chip than a
//! bound that depends on the chip alone. What breaks a promise of the NOR contract because the
//! image lies is an error. On an image that nobody has changed the promises are kept, the disk's
//! own check finds nothing, and each sector reads as it was written.

mod chip;
mod edit;
mod file;

use flashkit_logdisk::{Error, LogDisk, ram_bytes};
use flashkit_nor::{BankedNorFlash, ReadNorFlash};
use flashkit_sim::nor::SimNorError;

use crate::input::{Input, STEP};
use chip::{Chip, SECTORS, content};

/// Bits of an input's flags: the low three say how the disk is cleaned.
const CONFIG: u8 = 7;
const ONLY_LOOKS: u8 = 8;
/// Mounts a second time.
const AGAIN: u8 = 16;
/// The chip is in an image file, which has been changed as well.
const IN_FILE: u8 = 32;

/// Words of the chip.
const WORDS: u64 = (chip::SEGMENTS as u64) * (chip::SEGMENT as u64) / 4;
/// Operations of the chip in one call: a call may clean each segment a few times over.
const CALL_MAX: u64 = 64 * WORDS;

type Disk<'r> = LogDisk<'r, Chip>;
type Done<T> = Result<T, Error<SimNorError>>;

/// What sectors are known to hold; `None`: anything.
type Held = [Option<u32>; SECTORS as usize];

/// Runs an input.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes).map(Input::half_sound) else {
        return;
    };
    let stored = chip::stored();
    let (chip, held) = &stored[usize::from(input.image) % stored.len()];
    let (mut chip, mut held) = (chip.clone(), *held);
    let is_sound = input.edits.is_empty();
    if !is_sound {
        chip.distrust();
        held.fill(None);
    }
    if input.flags & IN_FILE != 0 {
        match file::reopened(&chip, &input.edits) {
            Some(opened) => chip = opened,
            None => return,
        }
    } else {
        input.edits.iter().for_each(|e| edit::apply(&mut chip, e));
    }
    let mut session = Session { held, is_sound };
    let Some(chip) = session.run(chip, &input) else {
        return;
    };
    if input.flags & AGAIN != 0 {
        session.run(chip, &input);
    }
}

struct Session {
    held: Held,
    is_sound: bool,
}

impl Session {
    /// One mount with all that is done in it; gives the chip back.
    fn run(&mut self, mut chip: Chip, input: &Input<'_>) -> Option<Chip> {
        let configs = chip::configs();
        let config = configs[usize::from(input.flags & CONFIG) % configs.len()];
        let probed = LogDisk::probe(&mut chip);
        assert!(probed.is_ok() || !self.is_sound, "{probed:?}");
        // What a program hands over follows from what the chip says of itself.
        let shape = probed.ok()?;
        let len = ram_bytes::<Chip>(chip.capacity(), chip.banks(), &shape, &config).ok()?;
        let mut ram = vec![0xA5; len];
        let before = chip.counters();
        let mut disk = match LogDisk::mount(chip, config, &mut ram) {
            Ok(disk) => disk,
            Err(error) => {
                assert!(!self.is_sound, "a sound disk does not mount: {error}");
                return None;
            }
        };
        let cost = disk.flash().counters() - before;
        spent("mount", cost);
        let sector = disk.shape().sector_size as usize;
        let mut buf = vec![0; sector];
        self.look(&mut disk, &mut buf);
        if input.flags & ONLY_LOOKS == 0 {
            for (n, step) in (1..).zip(&input.steps) {
                self.take(&mut disk, step, n, &mut buf);
            }
            let ended = call(&mut disk, "finish", LogDisk::finish_erases);
            // A trim is for good from then on.
            let ended = ended.and(call(&mut disk, "flush", LogDisk::flush));
            assert!(ended.is_ok() || !self.is_sound, "{ended:?}");
            self.look(&mut disk, &mut buf);
        }
        Some(disk.into_flash())
    }

    /// Checks the disk and reads all of it.
    fn look(&mut self, disk: &mut Disk<'_>, buf: &mut [u8]) {
        let checked = call(disk, "check", LogDisk::check);
        assert!(checked.is_ok() || !self.is_sound, "{checked:?}");
        let mut findings = 0;
        let told = call(disk, "damage", |disk| disk.each_damage(|_| findings += 1));
        assert!(!self.is_sound || told.is_ok() && findings == 0);
        if let Some(damage) = disk.damage() {
            assert!(damage.to_string().len() < 400);
        }
        let used = (0..disk.segments()).map(|segment| disk.segment(segment).used);
        assert!(used.max() <= Some(disk.blocks_per_segment()));
        for sector in 0..disk.shape().sectors.min(SECTORS) {
            self.read(disk, sector, buf);
        }
    }

    fn read(&mut self, disk: &mut Disk<'_>, sector: u32, buf: &mut [u8]) {
        let read = call(disk, "read", |disk| disk.read(sector, buf));
        // Blocks that an edited chip calls free may hold anything, and not all of it shows.
        if !self.is_sound {
            return;
        }
        match (read, self.held[sector as usize]) {
            (Ok(()), Some(version)) => {
                assert!(*buf == content(sector, version), "sector {sector}");
            }
            (Ok(()), None) => {}
            (Err(error), _) => panic!("sector {sector}: {error}"),
        }
    }

    fn take(&mut self, disk: &mut Disk<'_>, step: &[u8; STEP], n: u32, buf: &mut [u8]) {
        let sectors = disk.shape().sectors;
        let sector = match step[1] {
            250.. => sectors.wrapping_sub(2).wrapping_add(u32::from(step[2] % 4)),
            249 => u32::MAX - u32::from(step[2] % 4),
            near => u32::from(near) % SECTORS,
        };
        let version = n << 8 | u32::from(step[2]);
        match step[0] % 16 {
            0..=6 => self.write(disk, sector, version, buf.len()),
            7 | 8 => {
                let count = match step[3] {
                    255 => u32::MAX - u32::from(step[4]),
                    n => u32::from(n % 6),
                };
                let done = call(disk, "trim", |disk| disk.trim(sector, count));
                let end = sector.saturating_add(count).min(SECTORS);
                let range = sector.min(end) as usize..end as usize;
                let fits = u64::from(sector) + u64::from(count) <= sectors.into();
                self.expect(&done, fits);
                match done {
                    Ok(()) => self.held[range].fill(Some(0)),
                    Err(_) if fits => self.held[range].fill(None),
                    Err(_) => {}
                }
            }
            9 | 10 => {
                let read = call(disk, "read", |disk| disk.read(sector, buf));
                self.expect(&read, sector < sectors);
            }
            11 => {
                let done = call(disk, "flush", LogDisk::flush);
                self.expect(&done, true);
            }
            12 => {
                let done = call(disk, "step", LogDisk::clean_step);
                self.expect(&done, true);
            }
            13 => {
                let done = call(disk, "clean", LogDisk::clean_now);
                self.expect(&done, true);
            }
            14 => {
                let ns = u64::from(step[2]) * 64;
                disk.flash_mut().idle(ns);
            }
            _ => disk.set_clock(u32::from(step[2]) << (step[3] % 32)),
        }
    }

    fn write(&mut self, disk: &mut Disk<'_>, sector: u32, version: u32, size: usize) {
        let mut data = content(sector, version).to_vec();
        data.resize(size, version as u8);
        let done = call(disk, "write", |disk| disk.write(sector, &data));
        self.expect(&done, sector < disk.shape().sectors);
        let Some(held) = self.held.get_mut(sector as usize) else {
            return;
        };
        match done {
            Ok(()) => *held = Some(version),
            // Nothing has been touched.
            Err(Error::Busy | Error::Full | Error::Damaged | Error::Latched) => {}
            Err(_) => *held = None,
        }
    }

    /// On a sound disk what makes sense is done, unless it would have to wait, and nothing else is.
    fn expect<T: std::fmt::Debug>(&self, done: &Done<T>, makes_sense: bool) {
        if self.is_sound {
            let fits = match done {
                Ok(_) => makes_sense,
                Err(Error::Busy) => true,
                Err(Error::OutOfRange { .. }) => !makes_sense,
                Err(_) => false,
            };
            assert!(fits, "{done:?}");
        }
    }
}

/// Makes a call, and counts what it takes of the chip.
fn call<'r, T>(
    disk: &mut Disk<'r>,
    what: &'static str,
    work: impl FnOnce(&mut Disk<'r>) -> Done<T>,
) -> Done<T> {
    let before = disk.flash().counters();
    let done = work(disk);
    spent(what, disk.flash().counters() - before);
    done
}

fn spent(what: &str, cost: flashkit_sim::nor::NorCounters) {
    let operations = cost.word_reads + cost.word_programs + cost.erases;
    assert!(
        operations <= CALL_MAX,
        "{what}: too many operations of the chip: {cost:?}"
    );
}

//! What a history is made of: all of it follows from its seed.

use flashkit_flashlight::{Cleaner, Config, ram_needed_for, ram_to_level, ram_useful};
use flashkit_nand::Geometry;
use flashkit_sim::{Cut, EraseTear, Faults, Rate, Rng, Tear, Weak};

use super::History;
use crate::chip::Chip;

/// Which operations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Create, write, fsync, unlink, and no more.
    Plain,
    /// Mostly names.
    Names,
    /// Mostly overwrites.
    Data,
    All,
}

impl Kind {
    /// Weights, in the order of `Work::step`.
    pub fn weights(self) -> [u64; 22] {
        match self {
            Kind::Plain => [
                30, 15, 25, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 3, 0, 3, 0, 0, 0,
            ],
            Kind::Names => [
                30, 5, 5, 2, 2, 20, 14, 2, 4, 8, 4, 5, 3, 3, 2, 14, 4, 1, 3, 2, 6, 4,
            ],
            Kind::Data => [
                8, 25, 45, 6, 12, 4, 1, 0, 1, 0, 0, 0, 0, 1, 0, 20, 3, 1, 3, 2, 10, 2,
            ],
            Kind::All => [
                20, 12, 20, 4, 8, 8, 6, 1, 2, 4, 2, 3, 1, 2, 1, 12, 3, 1, 3, 2, 6, 3,
            ],
        }
    }
}

/// What is large: it takes more than chance brings together. Index pages lead to the maps of the
/// first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Large {
    Nothing,
    /// One directory, with all names.
    Directory,
    /// A few files of single pages with holes between them.
    Files,
    /// So many directories that their map has several pages.
    Directories,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub chip: Chip,
    pub kind: Kind,
    pub large: Large,
    /// So many hundredths of the volume are in use.
    pub fill: u64,
    /// Names that a directory may have.
    pub names: u64,
    /// Directories at most.
    pub dirs: u64,
    /// So many times a directory is picked again before another is, in the mean.
    pub stay: u64,
    /// The largest file.
    pub size_max: u64,
    /// Programs and erases between two cuts, at most.
    pub cut_max: u64,
    /// Sessions.
    pub sessions: u64,
    pub faults: Faults,
    /// Now and then a page cannot be read for a while.
    pub unread: bool,
}

/// A name of a file, by number.
pub(super) fn name_of(n: u64) -> String {
    let long = if n % 16 == 5 { n % 200 } else { 0 };
    format!("{n:04x}{}", "-".repeat(long as usize))
}

/// A number from 1 to `most`, any order of magnitude as likely as another.
pub(super) fn any_size(rng: &mut Rng, most: u64) -> u64 {
    let top = rng.below(u64::from(most.max(1).ilog2()) + 1);
    (1 + rng.below(2 << top)).min(most)
}

fn chip(seed: u64, bytes_max: u64) -> Chip {
    let mut rng = Rng::keyed(seed, 20);
    let page = rng.one_of(&[1024, 1024, 2048, 2048, 4096, 8192]);
    let spare = rng.one_of(&[0, 16, 24, 37, 38, 64, 64]);
    // Room is tightest on small chips of short blocks, and a session there costs least.
    let small = rng.one_in(3);
    let pages = match small {
        true => rng.one_of(&[8, 16, 16, 32]),
        false => rng.one_of(&[16, 32, 64, 121, 128, 256]),
    };
    let pages = pages.min((bytes_max / u64::from(64 * page)).max(8) as u32);
    let most = bytes_max / (u64::from(page) * u64::from(pages));
    let top = most.clamp(64, 4096) / 64;
    let blocks = match small {
        true => 64 + any_size(&mut rng, 240),
        false => 64 * any_size(&mut rng, top) + rng.below(64),
    };
    let blocks = blocks.min(4096);
    let mut chip = Chip::new(page, spare, pages, blocks as u32);
    if rng.one_in(4) {
        // As data sheets allow.
        for _ in 0..any_size(&mut rng, 1 + blocks / 50) {
            let block = rng.below(blocks) as u32;
            if !chip.bad.contains(&block) {
                chip.bad.push(block);
            }
        }
        chip.bad.sort_unstable();
    }
    if rng.one_in(8) {
        chip.table = rng.one_of(&[32, 64, 256]);
        fit_table(&mut chip);
    }
    chip.copies = rng.one_in(6);
    chip
}

/// The table of a part has no more pages than half of a block's.
fn fit_table(chip: &mut Chip) {
    if chip.table > 0 {
        chip.table = chip.table.max(chip.blocks.div_ceil(chip.pages / 2));
    }
}

/// What fails in a history: nothing in half of them.
fn faults(seed: u64, chip: &Chip) -> Faults {
    let mut faults = Faults {
        seed,
        ..Faults::default()
    };
    let mut rng = Rng::keyed(seed, 26);
    if rng.one_in(3) {
        // As many bits as may be corrected: blocks are written anew, those of the roots as well.
        faults.bitflips = faults.ecc;
        faults.bitflip_rate = Rate(rng.one_of(&[30, 100, 400]));
    }
    let (blocks, pages) = (u64::from(chip.blocks), u64::from(chip.pages));
    let few = 1 + rng.below(2 + blocks / 64);
    let which = rng.below(8);
    if which >= 4 && rng.one_in(2) {
        // A block that has failed may do well again.
        faults.fail_again = Rate(rng.one_of(&[2, 4]));
    }
    match which {
        0..4 => {}
        // Some blocks at some time, those of the roots as well.
        4 => {
            for _ in 0..few {
                let among = if rng.one_in(4) { 4 } else { blocks };
                let at = rng.below(among);
                let good = rng.below(12) as u32;
                if rng.one_in(2) {
                    let at = at as u32;
                    faults.weak_blocks.push(Weak { at, good });
                } else {
                    let at = (at * pages + rng.below(pages)) as u32;
                    faults.weak_pages.push(Weak { at, good });
                }
            }
        }
        // Some soon, or now and then; or all, until the volume is worn out.
        _ => {
            let seldom = rng.one_of(&[1, 10, 100]);
            faults.program_fail = Rate(seldom * rng.one_of(&[150, 400, 1500]));
            faults.erase_fail = Rate(seldom * rng.one_of(&[60, 150, 500]));
            faults.failing_max = if which == 7 { 0 } else { few as u32 };
        }
    }
    faults
}

fn bytes_of(chip: &Chip) -> u64 {
    u64::from(chip.page) * u64::from(chip.pages) * u64::from(chip.blocks)
}

/// The least chip for what is large, and for many directories.
const LARGE: u64 = 12 << 20;
const OF_DIRECTORIES: u64 = 4 << 20;
/// So many at most: with pages of 1 KiB their map has six.
const DIRECTORIES: u64 = 1500;

/// What is large in a history. What a directory's own page records is then moved to several maps at
/// a time, and each is one more page to give back when that page is written; what a truncated
/// file's records is written before all of it is done.
fn large(history: &History) -> Large {
    let is_enough = |least| match &history.chip {
        // Without tags cleaning may look through all files for the owner of a page.
        Some(chip) => chip.spare >= 24 && bytes_of(chip) >= least,
        None => history.bytes_max >= least,
    };
    let enough = is_enough(LARGE);
    if enough && Rng::keyed(history.seed, 23).one_in(6) {
        Large::Directory
    } else if enough && Rng::keyed(history.seed, 27).one_in(8) {
        Large::Files
    } else if is_enough(OF_DIRECTORIES) && Rng::keyed(history.seed, 29).one_in(8) {
        Large::Directories
    } else {
        Large::Nothing
    }
}

/// The chip of such a history, of the pages that take the fewest names and extents for an index.
fn chip_of_large(seed: u64, least: u64, bytes_max: u64) -> Chip {
    let mut rng = Rng::keyed(seed, 24);
    let bytes = least + rng.below(bytes_max.min(2 * least) - least + 1);
    let mut chip = chip(seed, bytes);
    (chip.page, chip.spare) = (1024, 64);
    chip.pages = rng.one_of(&[16, 32, 64, 64]);
    chip.blocks = (bytes / 1024) as u32 / chip.pages;
    chip.bad.retain(|&bad| bad < chip.blocks);
    fit_table(&mut chip);
    chip
}

impl Plan {
    pub fn new(history: &History) -> Plan {
        let mut plan = Plan::drawn(history);
        let page = u64::from(plan.chip.page);
        match plan.large {
            Large::Nothing => return plan,
            Large::Directory => {
                plan.size_max = 2 * page;
                plan.names = bytes_of(&plan.chip) / page;
            }
            Large::Files => {
                plan.kind = Kind::Data;
                plan.size_max = bytes_of(&plan.chip);
                plan.names = 6;
            }
            Large::Directories => {
                plan.kind = Kind::Names;
                plan.size_max = 4 * page;
                plan.names = 12;
            }
        }
        let mut rng = Rng::keyed(history.seed, 25);
        plan.dirs = match plan.large {
            Large::Directories => 200 + rng.below(DIRECTORIES - 200),
            _ => 1,
        };
        plan.cut_max = rng.one_of(&[3000, 10_000, 40_000]);
        plan.sessions = 100;
        if history.fill.is_none() {
            plan.fill = rng.one_of(&[50, 65, 80, 90]);
        }
        plan
    }

    fn drawn(history: &History) -> Plan {
        let seed = history.seed;
        let large = large(history);
        let drawn = || match large {
            Large::Nothing => chip(seed, history.bytes_max),
            Large::Directories => chip_of_large(seed, OF_DIRECTORIES, history.bytes_max),
            _ => chip_of_large(seed, LARGE, history.bytes_max),
        };
        let chip = history.chip.clone().unwrap_or_else(drawn);
        let mut rng = Rng::keyed(seed, 21);
        let fill = rng.one_of(&[50, 65, 80, 90, 95, 98]);
        let kind = rng.one_of(&[Kind::Plain, Kind::Names, Kind::Data, Kind::All]);
        let cut_max = rng.one_of(&[100, 1000, 3000, 3000, 10_000, 100_000]);
        let bytes = bytes_of(&chip);
        let size_max = rng.one_of(&[bytes / 2000, bytes / 200, bytes / 20]);
        let size_max = size_max.clamp(4 * u64::from(chip.page), 20 << 20);
        let dirs = rng.one_of(&[1, 6, 60]);
        // As many as it takes to fill the chip, of files as long as they are in the mean.
        let enough = 2 * bytes / (dirs * (size_max / 10 + u64::from(chip.page)));
        let mut names = rng.one_of(&[64, 1000, 6000]).max(enough);
        if chip.spare < 24 {
            // Without tags cleaning may look through all files for the owner of a page.
            names = names.min(400 / dirs);
        }
        let sessions = match cut_max {
            0..=1000 => 400,
            1001..=10_000 => 200,
            _ => 60,
        };
        Plan {
            kind,
            large,
            fill: history.fill.unwrap_or(fill),
            names,
            dirs,
            stay: rng.one_of(&[1, 1, 6, 40]),
            size_max,
            cut_max,
            sessions,
            faults: faults(seed, &chip),
            unread: history.unread && Rng::keyed(seed, 30).one_in(2),
            chip,
        }
    }

    /// How a session mounts the volume, and with how much RAM: chance says, of each anew, where the
    /// chip does not. One program may come after another on the same card.
    pub fn mount(&self, rng: &mut Rng, geometry: &Geometry) -> (Config, usize) {
        let (chip, usual) = (&self.chip, Config::default());
        // Without tags each page that is cleaned costs a look through all files, and the paper's
        // cleaner never rests.
        let paper = chip.paper || chip.spare >= 24 && rng.one_in(8);
        let config = Config {
            cleaner: if paper { Cleaner::Paper } else { usual.cleaner },
            dirty_threshold: rng.one_of(&[4, 40, usual.dirty_threshold]),
            gc_batch: rng.one_of(&[1, 2, usual.gc_batch]),
            wear_interval: rng.one_of(&[0, 5, usual.wear_interval, usual.wear_interval]),
            refresh_bits: rng.one_of(&[None, None, None, Some(1), Some(u32::MAX)]),
            after_transfer: rng.one_in(8),
            table_page: chip.table,
            dirty_entries: match chip.dirty {
                0 => rng.one_of(&[0, 0, 0, 4, 7]),
                entries => entries as usize,
            },
            ..usual
        };
        let least = ram_needed_for(geometry, chip.table);
        let most = ram_useful(geometry).max(least);
        let ram = match rng.below(6) {
            _ if chip.kept => most,
            0..3 => least,
            3 => ram_to_level(geometry).max(least),
            4 => most,
            // Levelling counts erases with some of it.
            _ => least + any_size(rng, (most - least) as u64) as usize,
        };
        (config, ram)
    }

    /// The next cut.
    pub fn cut(&self, rng: &mut Rng) -> Cut {
        let in_large_directory = self.large == Large::Directory;
        // One session in three may end in its recovery. In a large directory fewer: what goes wrong
        // there takes many changes between two mounts.
        let most = match rng.one_in(if in_large_directory { 8 } else { 3 }) {
            true => 100,
            false => self.cut_max,
        };
        let all = u64::from(self.chip.page + self.chip.spare);
        let reads = any_size(rng, 60) as u32;
        let program = match rng.below(12) {
            0 => Tear::NotBegun,
            1 => Tear::Garbage,
            2 => Tear::Complete,
            3 => Tear::LooksBlank,
            4 => Tear::Prefix(1 + rng.below(all - 1) as u32),
            5 => Tear::Random,
            6 => Tear::UnstableBlank { reads },
            7 => Tear::UnstableMixed { reads },
            8 => Tear::Late { reads },
            9 => Tear::Fitful {
                late: reads / 4,
                reads: reads % 4,
            },
            _ => Tear::Unstable { reads },
        };
        let erase = match rng.below(5) {
            0 => EraseTear::NotBegun,
            1 => EraseTear::Partial,
            2 => EraseTear::LooksErased,
            3 => EraseTear::Mixed,
            _ => EraseTear::Complete,
        };
        let after = match !in_large_directory && rng.one_in(2) {
            true => any_size(rng, most) - 1,
            false => rng.below(most),
        };
        Cut {
            after,
            program,
            erase,
            seed: rng.next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_blocks_are_blocks_of_the_chip() {
        for seed in 0..20_000 {
            for bytes_max in [16 << 20, 1 << 30] {
                let chip = chip(seed, bytes_max);
                assert!(chip.bad.iter().all(|&b| b < chip.blocks), "seed {seed}");
            }
        }
    }
}

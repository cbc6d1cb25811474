//! Nonsense in a journal, on a full disk and with cuts: every sector holds what was written to it.

use crate::common::Setup;
use crate::common::ext::{
    BLOCK, Features, IN_BAND, JOURNAL, SETUP, SMALL, WATCHED, be32, descriptor, journal_block,
    le32, made, table,
};
use flashkit_jftl::{Error, Jftl, MapCache, Stats};
use flashkit_nand::Nand;
use flashkit_sim::{Cut, CutError, EraseTear, PowerCut, Rng, SimNand, Tear};

/// The same with no room left, so that blocks are cleaned all the time.
fn filled(setup: &Setup) -> SimNand {
    let mut chip = made(setup, Features::default());
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    for sector in 400..disk.sector_count() {
        disk.write(sector, &[sector as u8 | 8; 512]).unwrap();
    }
    disk.close().unwrap();
    chip
}

/// Every state that a disk has been in since its last flush; contents by number.
struct History {
    contents: Vec<Vec<u8>>,
    states: Vec<Vec<u16>>,
}

impl History {
    fn id(&mut self, bytes: &[u8]) -> u16 {
        let known = self.contents.iter().position(|known| known == bytes);
        let at = known.unwrap_or_else(|| {
            self.contents.push(bytes.to_vec());
            self.contents.len() - 1
        });
        at as u16
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u16>)) {
        let mut state = self.states.last().unwrap().clone();
        change(&mut state);
        self.states.push(state);
    }

    fn flushed(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Finds which of the states the disk is in.
    fn compare<N: Nand>(&mut self, disk: &mut Jftl<'_, N>) -> Result<(), String> {
        let mut state = Vec::new();
        for sector in 0..disk.sector_count() {
            let mut bytes = vec![0; 512];
            disk.read(sector, &mut bytes)
                .map_err(|e| format!("{sector}: {e:?}"))?;
            state.push(self.id(&bytes));
        }
        if !self.states.contains(&state) {
            let newest = self.states.last().unwrap();
            let differs = (0..state.len()).find(|i| state[*i] != newest[*i]);
            return Err(format!(
                "none of {} states; sector {differs:?} is not as it was last",
                self.states.len()
            ));
        }
        self.states = vec![state];
        Ok(())
    }
}

/// What a session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Nonsense,
    /// The same, with sectors that share pages.
    Packed,
    /// What a kernel would do, with sectors that share pages.
    Journal,
}

/// Writes a block of the file system.
fn put<N: Nand>(
    disk: &mut Jftl<'_, N>,
    history: &mut History,
    block: u32,
    bytes: &[u8],
) -> Result<(), Error<N::Error>> {
    for (sector, half) in (2 * block..).zip(bytes.chunks_exact(512)) {
        let id = history.id(half);
        history.change(|state| state[sector as usize] = id);
    }
    disk.write(2 * block, bytes)
}

/// Transactions, each flushed before its commit block and behind it, and their homes when the log
/// comes round; other sectors of a full disk, and trims.
fn transactions<N: Nand>(
    disk: &mut Jftl<'_, N>,
    seed: u64,
    count: u32,
    history: &mut History,
) -> Result<(), Error<N::Error>> {
    let mut rng = Rng::new(seed);
    let sectors = disk.sector_count();
    let (mut at, mut log) = (1, Vec::<(u32, Vec<u8>)>::new());
    for version in 0..count {
        let homes: Vec<u32> = (0..1 + rng.below(12) as u32)
            .map(|i| 110 + 4 * i + rng.below(4) as u32)
            .collect();
        if at + homes.len() as u32 + 2 > JOURNAL {
            for (home, bytes) in std::mem::take(&mut log) {
                put(disk, history, home, &bytes)?;
            }
            at = 1;
        }
        let mut append = |disk: &mut Jftl<'_, N>, history: &mut History, bytes: &[u8]| {
            at += 1;
            put(disk, history, journal_block(at - 1), bytes)
        };
        let described = descriptor(Features::default(), version, &homes);
        append(disk, history, &described)?;
        for home in homes {
            let mut bytes = vec![0; BLOCK];
            for (half, bytes) in (0..).zip(bytes.chunks_exact_mut(512)) {
                le32(bytes, 4, 2 * home + half);
                // Some halves stay.
                le32(bytes, 8, rng.below(4) as u32);
                if rng.below(8) == 0 {
                    Rng::new(rng.below(40)).fill(bytes);
                }
            }
            append(disk, history, &bytes)?;
            log.push((home, bytes));
        }
        disk.flush()?;
        history.flushed();
        let mut commit = vec![0; BLOCK];
        be32(&mut commit, 0, 0xC03B_3998);
        be32(&mut commit, 4, 2);
        be32(&mut commit, 8, version);
        append(disk, history, &commit)?;
        disk.flush()?;
        history.flushed();
        for _ in 0..rng.below(12) {
            let sector = 400 + rng.below(u64::from(sectors) - 400) as u32;
            let bytes = [8 | rng.below(64) as u8; 512];
            let id = history.id(&bytes);
            history.change(|state| state[sector as usize] = id);
            disk.write(sector, &bytes)?;
        }
        if rng.below(4) == 0 {
            let block = match rng.below(2) {
                0 => journal_block(1 + rng.below(u64::from(JOURNAL) - 1) as u32),
                _ => 110 + rng.below(50) as u32,
            };
            history.change(|state| state[2 * block as usize] = 0);
            disk.trim(2 * block, 1)?;
        }
    }
    Ok(())
}

/// Runs random operations: descriptors of nonsense, journal and home blocks with few contents, the
/// explicit interface with any pairs, trims and flushes.
fn nonsense<N: Nand>(
    disk: &mut Jftl<'_, N>,
    seed: u64,
    ops: u32,
    does: Does,
    history: &mut History,
) -> Result<(), Error<N::Error>> {
    if does == Does::Journal {
        return transactions(disk, seed, ops / 25, history);
    }
    let mut rng = Rng::new(seed);
    let sectors = disk.sector_count();
    for _ in 0..ops {
        let mut draw = |n: u32| rng.below(u64::from(n)) as u32;
        let home = |n: u32| if n == 0 { u32::MAX } else { 110 + n };
        let block = match draw(10) {
            0..=5 => journal_block(1 + draw(JOURNAL - 1)),
            _ => home(1 + draw(60)),
        };
        match draw(24) {
            0 => {
                let (first, count) = (draw(sectors - 4), 1 + draw(4));
                for sector in first..first + count {
                    let zeros = history.id(&[0; 512]);
                    history.change(|state| state[sector as usize] = zeros);
                }
                disk.trim(first, count)?;
            }
            1 | 2 => {
                disk.flush()?;
                history.flushed();
            }
            3 => {
                // Homes and journal apart, as they must be.
                let pairs: Vec<(u32, u32)> = (0..1 + draw(80))
                    .map(|i| {
                        (
                            2 * 111 + (i * 7 + draw(2)) % 120,
                            2 * BLOCK as u32 / 512 * 20 + draw(20),
                        )
                    })
                    .map(|(home, journal)| (home, journal.min(2 * 90)))
                    .collect();
                let gone = [(2 * 172 + draw(20), draw(9))];
                history.change(|state| {
                    for (home, journal) in &pairs {
                        state[*home as usize] = state[*journal as usize];
                    }
                });
                let zeros = history.id(&[0; 512]);
                let state = history.states.last_mut().unwrap();
                let (first, count) = gone[0];
                state[first as usize..(first + count) as usize].fill(zeros);
                disk.remap(&pairs, &gone)?;
                history.flushed();
            }
            4..=9 => {
                // Something else on the disk, so that blocks hold what stays beside what goes.
                let (sector, bytes) = (400 + draw(sectors - 400), [8 | draw(64) as u8; 512]);
                let id = history.id(&bytes);
                history.change(|state| state[sector as usize] = id);
                disk.write(sector, &bytes)?;
            }
            draw_ => {
                let bytes = if draw_ < 14 {
                    let homes: Vec<u32> = (0..1 + draw(20)).map(|_| home(draw(62))).collect();
                    descriptor(Features::default(), draw(50), &homes)
                } else {
                    // Halves that stay as they were, and some of zeros.
                    let (first, second) = (1 + draw(3) as u8, draw(3) as u8);
                    let mut halves = [[first; 512], [second; 512]].concat();
                    if does == Does::Packed && first == 3 {
                        // What is too long to be packed.
                        Rng::new(u64::from(second)).fill(&mut halves[..512]);
                    }
                    halves
                };
                for (i, half) in bytes.chunks_exact(512).enumerate() {
                    let id = history.id(half);
                    history.change(|state| state[block as usize * 2 + i] = id);
                }
                disk.write(block * 2, &bytes)?;
            }
        }
    }
    Ok(())
}

fn start(chip: &SimNand, setup: &Setup) -> History {
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(chip.clone(), &mut ram).unwrap();
    let mut history = History {
        contents: vec![vec![0; 512]],
        states: Vec::new(),
    };
    let mut state = Vec::new();
    for sector in 0..disk.sector_count() {
        let mut bytes = vec![0; 512];
        disk.read(sector, &mut bytes).unwrap();
        state.push(history.id(&bytes));
    }
    history.states = vec![state];
    history
}

/// What a session did, with RAM for so many copies of pages, and for sums, if that is any.
fn session(
    setup: &Setup,
    chip: &SimNand,
    seed: u64,
    copies: usize,
    does: Does,
    cut: Option<Cut>,
) -> (u64, Stats) {
    let fail = |why: String| -> ! {
        panic!("{setup:?} seed {seed} copies {copies} {does:?} {cut:?}: {why}")
    };
    let packs = does != Does::Nonsense;
    let mut history = start(chip, setup);
    let mut nand = match cut {
        Some(cut) => PowerCut::new(chip.clone(), cut),
        None => PowerCut::never(chip.clone()),
    };
    let (mut ram, mut table) = (setup.ram(), table());
    // Fewer sums than homes: some are another's.
    let mut sums = vec![0xA5; if copies > 0 { 4 * 190 } else { 0 }];
    let mut copies = vec![0xA5; copies * 524];
    let mut page = vec![0xA5; if packs { 512 } else { 0 }];
    let mut stats = Stats::default();
    let ran = Jftl::mount(&mut nand, &mut ram).and_then(|mut disk| {
        disk.watch_journal(&mut table);
        disk.remember(&mut sums, &mut copies);
        disk.pack(&mut page);
        assert_eq!(disk.journal(), WATCHED);
        let ran = nonsense(&mut disk, seed, 2_000, does, &mut history);
        stats = disk.stats();
        ran
    });
    match ran {
        Ok(()) | Err(Error::Flash(CutError::PowerOff)) => {}
        Err(e) => fail(format!("{e:?}")),
    }
    let ops = nand.ops();
    let mut chip = nand.into_inner();
    if let Some(cut) = cut.filter(|cut| packs && cut.after % 2 == 0) {
        // A second one, in the mount or in what follows.
        let mut nand = PowerCut::new(
            chip,
            Cut {
                after: cut.after / 2 % 60,
                ..cut
            },
        );
        let mut ram = setup.ram();
        let ran = Jftl::mount(&mut nand, &mut ram).and_then(|mut disk| {
            match history.compare(&mut disk) {
                // A read may push a changed piece of the map out of the cache.
                Err(e) if e.contains("PowerOff") => return Err(CutError::PowerOff.into()),
                other => other.unwrap_or_else(|e| fail(e)),
            }
            disk.watch_journal(&mut table);
            disk.pack(&mut page);
            nonsense(&mut disk, seed + 1, 200, does, &mut history)
        });
        if !matches!(ran, Ok(()) | Err(Error::Flash(CutError::PowerOff))) {
            fail(format!("second cut: {ran:?}"));
        }
        chip = nand.into_inner();
    }
    for _ in 0..2 {
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap_or_else(|e| fail(format!("{e:?}")));
        history.compare(&mut disk).unwrap_or_else(|e| fail(e));
        disk.check().unwrap_or_else(|e| fail(format!("{e:?}")));
    }
    (ops, stats)
}

/// Whatever the journal says, every sector holds what was written to it, with cuts anywhere, and a
/// remap happens wholly or not at all. `FLASHKIT_FULL=1` cuts everywhere.
#[test]
fn nonsense_in_the_journal_changes_nothing() {
    let full = std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1");
    // Found before: a transaction without an end that had gone on into a block of its own; and a
    // map page whose record had no room in the log page that was written then, and that said that
    // recovery begins behind it.
    for (setup, seed, after) in [(SETUP, 2, 912), (SMALL, 1, 3181)] {
        let cut = Cut {
            after,
            program: Tear::Unstable { reads: 3 },
            erase: EraseTear::Partial,
            seed: after,
        };
        session(&setup, &filled(&setup), seed, 0, Does::Nonsense, Some(cut));
    }
    for (setup, copies, does) in [
        (SETUP, 0, Does::Nonsense),
        (SETUP, 50, Does::Nonsense),
        (SETUP, 0, Does::Packed),
        (SETUP, 30, Does::Packed),
        (SMALL, 0, Does::Nonsense),
        (SMALL, 300, Does::Packed),
        (IN_BAND, 0, Does::Nonsense),
        (IN_BAND, 20, Does::Nonsense),
        (IN_BAND, 300, Does::Packed),
        (SETUP, 0, Does::Journal),
        (SETUP, 200, Does::Journal),
        (IN_BAND, 200, Does::Journal),
    ] {
        let (chip, packs) = (filled(&setup), does != Does::Nonsense);
        for seed in 0..if full { 4 } else { 1 } {
            let (ops, stats) = session(&setup, &chip, seed, copies, does, None);
            println!("{copies} {stats:?}");
            // A home that is written while its copy waits to be packed is programmed.
            let least = if packs { 5 } else { 10 };
            let remaps = does != Does::Journal;
            assert_eq!(stats.remapped > 500, remaps, "{stats:?}");
            let least = if remaps { least } else { 300 };
            assert!(stats.elided > least && stats.copies > 10, "{stats:?}");
            assert_eq!(stats.unchanged > 10, copies > 0, "{stats:?}");
            // With a part of the map nothing is packed.
            let packed = packs && setup.cache == MapCache::Whole;
            assert_eq!(stats.packed > 200, packed, "{stats:?}");
            let stride = if full { 1 } else { 97 };
            for after in (0..ops).step_by(stride) {
                let tears = [
                    Tear::Unstable { reads: 3 },
                    Tear::Complete,
                    Tear::Random,
                    Tear::LooksBlank,
                ];
                let cut = Cut {
                    after,
                    program: tears[after as usize / stride % 4],
                    erase: EraseTear::Partial,
                    seed: after,
                };
                session(&setup, &chip, seed, copies, does, Some(cut));
            }
        }
    }
}

/// What was packed with the whole map in RAM is moved, written over and trimmed with four pieces of
/// it, and the power cut meanwhile.
#[test]
fn packed_pages_outlive_cuts_with_little_ram() {
    let full = std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1");
    for setup in [SETUP, IN_BAND] {
        let mut chip = filled(&setup);
        let mut history = start(&chip, &setup);
        let (mut ram, mut table, mut page) = (setup.ram(), table(), vec![0; 512]);
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.pack(&mut page);
        transactions(&mut disk, 9, 80, &mut history).unwrap();
        assert!(disk.stats().packed > 1_000, "{:?}", disk.stats());
        disk.close().unwrap();
        let cache = MapCache::Pieces(4);
        let small = Setup { cache, ..setup };
        let (ops, stats) = session(&small, &chip, 3, 0, Does::Journal, None);
        assert!(stats.packed == 0 && stats.copies > 100, "{stats:?}");
        for after in (0..ops).step_by(if full { 1 } else { 61 }) {
            let tears = [Tear::Unstable { reads: 3 }, Tear::Random, Tear::Garbage];
            let cut = Cut {
                after,
                program: tears[after as usize % 3],
                erase: EraseTear::Partial,
                seed: after,
            };
            session(&small, &chip, 3, 0, Does::Journal, Some(cut));
        }
    }
}

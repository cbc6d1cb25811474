//! A real ext4 with a journal on logdisk, and the power cut anywhere.
//!
//! The kernel mounts ext4 once, on a recorder behind FUSE and a loop device. What it wrote, trimmed
//! and flushed is then replayed on logdisk over a chip whose power fails in a word program or an
//! erase. After each cut every sector must hold what it may, and after the journal's replay
//! `e2fsck` must find nothing.
//!
//! A dozen cuts by default; `FLASHKIT_CUTS=1000` takes as many. A failure leaves the recording in a
//! file and names it: `FLASHKIT_TRACE=file FLASHKIT_CUT=n` repeats that case, without root.

use std::collections::BTreeMap;

use crate::kernel::{Event, SECTOR, SECTORS, can_record, cuts, fail, fsck, load, number, record};
use flashkit_logdisk::{Config, Error, LogDisk, Shape, Start, Step, ram_bytes};
use flashkit_sim::Rng;
use flashkit_sim::nor::{
    NorCut, NorCutError, NorEraseTear, NorPowerCut, NorSpec, NorTiming, SimNor, WordTear,
};

/// 8 banks of 16 segments of 64 KiB: small enough that what ext4 writes has to be cleaned.
type Chip = SimNor<65_536>;

fn spec() -> NorSpec {
    let timing = NorTiming {
        read_ns: 1_000,
        program_ns: 10_000,
        erase_ns: 250_000_000,
        suspend_ns: 20_000,
    };
    NorSpec::new(8, 16, timing)
}

/// What each sector holds, and what it may hold besides.
struct Model {
    holds: Vec<u8>,
    /// What was trimmed and not flushed.
    trimmed: BTreeMap<u32, Vec<u8>>,
    /// What the operation in flight may have replaced.
    before: BTreeMap<u32, Vec<u8>>,
}

impl Model {
    fn new() -> Model {
        Model {
            holds: vec![0; SECTORS as usize * SECTOR],
            trimmed: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    fn sector(&mut self, sector: u32) -> &mut [u8] {
        &mut self.holds[sector as usize * SECTOR..][..SECTOR]
    }

    fn begin(&mut self, event: &Event) {
        match event {
            Event::Write(first, data) => {
                for (sector, new) in (*first..).zip(data.chunks(SECTOR)) {
                    let old = self.sector(sector).to_vec();
                    self.before.insert(sector, old);
                    self.sector(sector).copy_from_slice(new);
                }
            }
            Event::Trim(first, count) => {
                for sector in *first..first + count {
                    let old = self.sector(sector).to_vec();
                    self.trimmed.entry(sector).or_insert(old);
                    self.sector(sector).fill(0);
                }
            }
            Event::Flush | Event::Made | Event::Mark(_) => {}
        }
    }

    fn end(&mut self, event: &Event) {
        match event {
            Event::Write(first, data) => {
                for sector in *first..first + (data.len() / SECTOR) as u32 {
                    self.trimmed.remove(&sector);
                }
                self.before.clear();
            }
            Event::Flush => self.trimmed.clear(),
            Event::Trim(..) | Event::Made | Event::Mark(_) => {}
        }
    }

    fn check(&self, found: &[u8]) -> std::result::Result<(), String> {
        let pairs = found.chunks(SECTOR).zip(self.holds.chunks(SECTOR));
        for (sector, (found, holds)) in (0..).zip(pairs) {
            let is = |other: Option<&Vec<u8>>| other.is_some_and(|other| other == found);
            if found != holds && !is(self.before.get(&sector)) && !is(self.trimmed.get(&sector)) {
                return Err(format!("sector {sector} holds something else"));
            }
        }
        Ok(())
    }
}

/// The ways to clean, one after another.
fn config(turn: u64) -> Config {
    match turn % 3 {
        0 => Config::new(),
        1 => Config {
            start: Start::Threshold {
                segments: 12,
                account: 113,
                curve: 1,
            },
            ..Config::paper()
        },
        _ => Config {
            start: Start::Reserve { segments: 8 },
            erasing_max: 3,
            open_max: 3,
            ..Config::new()
        },
    }
}

fn ram(config: &Config) -> Vec<u8> {
    let len = ram_bytes::<Chip>(8 << 20, 8, &shape(), config);
    vec![0xA5; len.unwrap()]
}

fn shape() -> Shape {
    Shape {
        sector_size: SECTOR as u32,
        sectors: SECTORS,
    }
}

type Cut = Error<NorCutError<flashkit_sim::nor::SimNorError>>;

/// Replays until the power is cut; how many operations on the chip had begun.
fn replay(
    nor: &mut NorPowerCut<Chip>,
    config: Config,
    trace: &[Event],
    model: &mut Model,
    made: &mut u64,
) -> std::result::Result<u64, Cut> {
    let mut ram = ram(&config);
    let mut disk = LogDisk::mount(nor, config, &mut ram)?;
    for event in trace {
        model.begin(event);
        event.apply(&mut disk)?;
        if *event == Event::Made {
            *made = disk.flash().ops();
        }
        model.end(event);
        // As `flashkit attach` cleans in idle time, if the policy asks for it.
        for _ in 0..2 {
            if let Step::Idle | Step::Waiting = disk.clean_step()? {
                break;
            }
        }
    }
    Ok(disk.stats().segments_erased)
}

fn cut(n: u64, made: u64, ops: u64) -> NorCut {
    const WORDS: [WordTear; 6] = [
        WordTear::NotBegun,
        WordTear::Partial,
        WordTear::Noisy,
        WordTear::LooksDone { reads: 3 },
        WordTear::LooksUndone { reads: 1 },
        WordTear::Complete,
    ];
    const ERASES: [NorEraseTear; 5] = [
        NorEraseTear::NotBegun,
        NorEraseTear::Partial,
        NorEraseTear::Zeroed,
        NorEraseTear::Random,
        NorEraseTear::LooksErased { reads: 3 },
    ];
    let mut rng = Rng::keyed(n, 77);
    NorCut {
        after: made + rng.below(ops - made),
        program: WORDS[rng.below(6) as usize],
        erase: ERASES[rng.below(5) as usize],
        seed: rng.next_u64(),
    }
}

/// What is on the disk after the next mount.
fn recover(chip: Chip, config: Config) -> std::result::Result<Vec<u8>, String> {
    let mut ram = ram(&config);
    let mut disk = LogDisk::mount(chip, config, &mut ram).map_err(|e| format!("mount: {e}"))?;
    disk.check().map_err(|e| format!("check: {e:?}"))?;
    let mut found = vec![0; SECTORS as usize * SECTOR];
    disk.read(0, &mut found).map_err(|e| format!("read: {e}"))?;
    Ok(found)
}

#[test]
fn ext4_is_clean_after_any_power_cut() {
    let given = std::env::var("FLASHKIT_TRACE").ok();
    let trace = match &given {
        Some(path) => load(path),
        None if can_record() => record(&["-t", "ext4"], "discard"),
        None => return,
    };
    let mut blank = Chip::new(spec());
    LogDisk::format(&mut blank, &shape(), 7).unwrap();
    let (mut ops, mut made) = ([0; 3], [0; 3]);
    for turn in 0..3 {
        let mut nor = NorPowerCut::never(blank.clone());
        let mut model = Model::new();
        let at = turn as usize;
        let erased = replay(&mut nor, config(turn), &trace, &mut model, &mut made[at]).unwrap();
        assert!(erased > 20, "{erased} segments erased: nothing was cleaned");
        ops[at] = nor.ops();
        let found = recover(nor.into_inner(), config(turn)).unwrap();
        assert!(found == model.holds);
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    let cuts = cuts(number("FLASHKIT_CUTS").unwrap_or(12));
    let mut replays = 0;
    for n in cuts.clone() {
        let (at, config) = ((n % 3) as usize, config(n));
        let mut model = Model::new();
        let mut nor = NorPowerCut::new(blank.clone(), cut(n, made[at], ops[at]));
        let ended = replay(&mut nor, config, &trace, &mut model, &mut 0);
        let checked = match ended {
            Err(Error::Flash(NorCutError::PowerOff)) => recover(nor.into_inner(), config),
            other => Err(format!("before the cut: {other:?}")),
        };
        let checked = checked.and_then(|found| {
            model.check(&found)?;
            fsck(image.path(), &found)
        });
        match checked {
            Ok(replayed) => replays += u64::from(replayed),
            Err(why) => fail(given, &trace, n, &why),
        }
    }
    println!("{cuts:?}: the journal held something {replays} times");
    assert!(replays > 0 || cuts.end - cuts.start == 1);
}

/// A check that finds nothing must be able to.
#[test]
fn a_sector_of_another_time_is_found() {
    let mut model = Model::new();
    let write = Event::Write(3, vec![1; 1_024]);
    model.begin(&write);
    let mut found = model.holds.clone();
    found[4 * SECTOR..5 * SECTOR].fill(0);
    assert_eq!(model.check(&found), Ok(()));
    model.end(&write);
    let said = model.check(&found).unwrap_err();
    assert_eq!(said, "sector 4 holds something else");
    model.begin(&Event::Trim(3, 2));
    assert!(model.check(&vec![1; found.len()]).is_err());
    found[3 * SECTOR..5 * SECTOR].fill(1);
    assert_eq!(model.check(&found), Ok(()));
    model.end(&Event::Flush);
    assert!(model.check(&found).is_err());
}

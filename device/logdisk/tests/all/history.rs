//! Long histories of one disk, cut again and again: another way to clean at each mount, segments of
//! 7 and of 15 blocks, few hot sectors that are written, trimmed and written again while several
//! banks erase. Half of the chips wear out on the way. The search of `powercut` begins each script
//! on a new disk, which is what it cannot see: room that cuts use up one after another, and intents
//! of erases long past.
//!
//! `FLASHKIT_FULL=1` takes many more; `FLASHKIT_HISTORY=seed` one alone. A failure prints its seed.

use crate::common::{self, Model, Op, run};
use flashkit_logdisk::{Config, Error, LogDisk, SegmentState, Shape, ram_bytes};
use flashkit_nor::ReadNorFlash;
use flashkit_sim::Rng;
use flashkit_sim::nor::{
    NorCut, NorCutError, NorEraseTear, NorPowerCut, NorSpec, NorTearable, NorTiming, SimNor,
    WordTear,
};

/// One of the ways to tear a word. What is seen of it may go, or come, after a few reads, or some
/// mounts later.
fn word_tear(rng: &mut Rng) -> WordTear {
    let most = if rng.one_in(2) { 4 } else { 40 };
    let reads = 1 + rng.below(most) as u8;
    match rng.below(6) {
        0 => WordTear::NotBegun,
        1 => WordTear::Partial,
        2 => WordTear::Noisy,
        3 => WordTear::LooksDone { reads },
        4 => WordTear::LooksUndone { reads },
        _ => WordTear::Complete,
    }
}

const ERASE_TEARS: [NorEraseTear; 5] = [
    NorEraseTear::NotBegun,
    NorEraseTear::Partial,
    NorEraseTear::Zeroed,
    NorEraseTear::Random,
    NorEraseTear::LooksErased { reads: 3 },
];

/// What histories have met.
#[derive(Debug, Default)]
struct Met {
    cuts: u64,
    cuts_in_mounts: u64,
    /// Cuts while two banks or more erased.
    overlaps: u64,
    /// Those in sessions in which pairs have waited for one.
    queued: u64,
    /// Sessions that ended because the chip was worn out.
    full: u64,
}

fn cut(rng: &mut Rng, after: u64) -> NorCut {
    NorCut {
        after,
        program: word_tear(rng),
        erase: ERASE_TEARS[rng.below(5) as usize],
        seed: rng.next_u64(),
    }
}

fn ops(rng: &mut Rng, sectors: u32, version: &mut u32) -> Vec<Op> {
    let hot = 2 + rng.below(6) as u32;
    let count = 5 + rng.below(120);
    let op = |_| {
        *version += 1;
        let within = if rng.one_in(2) { hot } else { sectors - 3 };
        let sector = rng.below(u64::from(within)) as u32;
        match rng.below(10) {
            0 | 1 => Op::Trim(sector, 1 + rng.below(3) as u32),
            2 => Op::Clean(1 + rng.below(6) as u32),
            3 if rng.one_in(3) => Op::Flush,
            4 => Op::Write(sector, 3, *version),
            _ => Op::Write(sector, 1, *version),
        }
    };
    (0..count).map(op).collect()
}

/// Mounts that are cut, then one that is not, which is compared; then work until the next cut.
fn session<const SEGMENT: usize>(
    mut chip: SimNor<SEGMENT>,
    config: Config,
    model: &mut Model,
    rng: &mut Rng,
    (version, met): (&mut u32, &mut Met),
) -> Result<SimNor<SEGMENT>, String> {
    let sectors = model.sectors();
    let shape = Shape {
        sector_size: 512,
        sectors,
    };
    let (banks, worn) = (chip.spec().banks(), chip.spec().endurance() != 0);
    let len = ram_bytes::<SimNor<SEGMENT>>(chip.capacity(), banks, &shape, &config).unwrap();
    let mut memory = vec![0xA5; len];
    for _ in 0..rng.below(3) {
        let after = rng.below(12);
        let mut nor = NorPowerCut::new(chip, cut(rng, after));
        match LogDisk::mount(&mut nor, config, &mut memory) {
            Ok(_) => {}
            Err(Error::Flash(NorCutError::PowerOff)) => met.cuts_in_mounts += 1,
            Err(error) => return Err(format!("mount that is cut: {error:?}")),
        }
        chip = nor.into_inner();
    }
    let after = [200, 3_000, 30_000][rng.below(3) as usize];
    let after = rng.below(after);
    let mut disk =
        LogDisk::mount(chip, config, &mut memory).map_err(|e| format!("mount: {e:?}"))?;
    if let Some(damage) = disk.damage() {
        return Err(damage.to_string());
    }
    model.compare(&mut disk, true)?;
    disk.check().map_err(|e| format!("check: {e:?}"))?;
    hurt(&disk, model, rng, &mut vec![0xA5; len])?;
    let mut nor = NorPowerCut::new(disk.into_flash(), cut(rng, after));
    let mut disk = match LogDisk::mount(&mut nor, config, &mut memory) {
        Ok(disk) => disk,
        Err(Error::Flash(NorCutError::PowerOff)) => return Ok(nor.into_inner()),
        Err(error) => return Err(format!("second mount: {error:?}")),
    };
    let work = ops(rng, sectors, version);
    match run(&mut disk, model, &work) {
        Ok(()) | Err(Error::Flash(NorCutError::PowerOff)) => {}
        Err(Error::Full) if worn => met.full += 1,
        Err(error) => {
            let (live, free) = (disk.live(), disk.free_segments());
            return Err(format!("{error:?}: {live} live, {free} segments free"));
        }
    }
    let states = (0..disk.segments()).map(|segment| disk.segment(segment).state);
    let erasing = states
        .filter(|state| *state == SegmentState::Erasing)
        .count();
    met.cuts += 1;
    met.overlaps += u64::from(erasing > 1);
    met.queued += u64::from(erasing > 1 && disk.stats().queue_peak > 0);
    let mut chip = nor.into_inner();
    let tear = ERASE_TEARS[rng.below(5) as usize];
    chip.tear_erases(tear, rng.next_u64()).unwrap();
    Ok(chip)
}

/// Of a copy, without an erase under way, a bit of the header of a segment flips that holds
/// something: that is damage, and no sector reads as what it never held since.
fn hurt<const SEGMENT: usize>(
    disk: &LogDisk<'_, SimNor<SEGMENT>>,
    model: &Model,
    rng: &mut Rng,
    memory: &mut [u8],
) -> Result<(), String> {
    let segment = rng.below(disk.segments().into()) as u32;
    let info = disk.segment(segment);
    let is_sound = matches!(info.state, SegmentState::Closed | SegmentState::Open);
    if !is_sound || info.valid == 0 || !rng.one_in(3) {
        return Ok(());
    }
    let mut chip = disk.flash().clone();
    let at = segment * SEGMENT as u32 + rng.below(32) as u32;
    chip.corrupt(at, |byte| byte ^ 1 << rng.below(8));
    let mut disk = LogDisk::mount(chip, disk.config(), memory)
        .map_err(|e| format!("header of {segment}: {e:?}"))?;
    if disk.damage().is_none() {
        return Err(format!(
            "the header of {segment} is damaged, and nothing says so"
        ));
    }
    model.bears(&mut disk)
}

/// 30 sessions of one disk of this geometry, drawn from the seed.
fn history<const SEGMENT: usize>(seed: u64, met: &mut Met) {
    let mut rng = Rng::new(seed);
    let (banks, per_bank) = [(1, 8), (2, 5), (2, 7), (4, 4)][rng.below(4) as usize];
    let timing = NorTiming {
        read_ns: 1,
        program_ns: 10,
        erase_ns: [4_000, 40_000, 400_000][rng.below(3) as usize],
        suspend_ns: 5,
    };
    let mut spec = NorSpec::new(banks, per_bank, timing);
    if seed % 4 > 1 {
        // Segments wear out, one after another or most of them.
        spec = spec.with_endurance(2 + rng.below(12) as u32);
    }
    let mut chip = SimNor::<SEGMENT>::new(spec);
    // As large as a mount with any way to clean takes it, or smaller.
    let blocks = (SEGMENT as u32 - 64) / 520;
    let total = banks * per_bank * blocks;
    let most = (total - 2 * blocks - 16).min(total - 4 * blocks - 1);
    let sectors = most * [60, 80, 100][rng.below(3) as usize] / 100;
    let shape = Shape {
        sector_size: 512,
        sectors,
    };
    LogDisk::format(&mut chip, &shape, seed as u32).unwrap();
    let mut model = Model::of(sectors);
    let mut version = 1;
    for cycle in 0..30 {
        let (name, mut config) = common::configs()[rng.below(6) as usize];
        if name == "bounded" && banks == 1 {
            config.moves_max = 0;
        }
        config.erasing_max = 1 + rng.below(3) as u8;
        let counts = (&mut version, &mut *met);
        chip = session(chip, config, &mut model, &mut rng, counts).unwrap_or_else(|why| {
            panic!("FLASHKIT_HISTORY={seed}: session {cycle}, {name}, {sectors} sectors of {total}: {why}")
        });
        model.forget_order();
    }
}

#[test]
fn disks_live_through_cut_after_cut() {
    let mut met = Met::default();
    let any = |seed, met: &mut Met| match seed % 2 {
        0 => history::<8192>(seed, met),
        _ => history::<4096>(seed, met),
    };
    if let Ok(seed) = std::env::var("FLASHKIT_HISTORY") {
        return any(seed.parse().unwrap(), &mut met);
    }
    let full = std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1");
    let seeds = if full { 20_000 } else { 160 };
    for seed in 0..seeds {
        any(seed, &mut met);
    }
    println!("{met:?}");
    // What this search is for.
    assert!(
        met.cuts > 3_000 && met.overlaps > 100 && met.queued > 50 && met.full > 50,
        "{met:?}"
    );
}

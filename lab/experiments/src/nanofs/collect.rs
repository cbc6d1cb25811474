//! The garbage collector: how much it frees in idle time, and what work costs with and without it.

use anyhow::Result;
use flashkit_sim::Rng;

use super::measure::{Fs, append, volume};
use super::streams::{Idle, REQUEST, Spent, clean_for, prepare, run};

/// Files whose blocks become dirty.
const FILES: u32 = 16;

/// How blocks that become dirty lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirt {
    /// File behind file: in runs as long as files.
    Whole,
    /// Files that grew in turn, up to 8 blocks at a time, and of which every fourth stays: few runs
    /// are as long as a trim may be.
    Fragmented,
}

/// Fills a part of a card of so many bytes with blocks that are dirty then.
fn soil<const N: usize>(fs: &mut Fs<N>, bytes: u64, part: f64, dirt: Dirt) -> Result<()> {
    let all = (bytes as f64 * part) as u64;
    match dirt {
        Dirt::Whole => {
            for i in 0..FILES {
                let file = fs.create(&name(i))?;
                append(fs, file, all / u64::from(FILES))?;
                fs.close(file)?;
            }
        }
        Dirt::Fragmented => in_turn(fs, all)?,
    }
    for i in (0..FILES).filter(|i| dirt == Dirt::Whole || i % 4 != 3) {
        fs.delete(&name(i))?;
    }
    // The blocks become dirty one list after the other; nothing is free before all are.
    fs.device().clear_counters();
    while fs.device().counters().trims == 0 && fs.clean(150)? {}
    // What the last slice has freed is used again.
    let freed = fs.device().counters().blocks_trimmed;
    let rest = fs.create(b"rest")?;
    append(fs, rest, 500 * freed)?;
    fs.close(rest)?;
    fs.device().clear_counters();
    Ok(())
}

fn name(i: u32) -> [u8; 1] {
    [b'a' + i as u8]
}

/// Files that grow in turn.
fn in_turn<const N: usize>(fs: &mut Fs<N>, bytes: u64) -> Result<()> {
    let mut rng = Rng::new(7);
    let files: Vec<_> = (0..FILES)
        .map(|i| fs.create(&name(i)))
        .collect::<Result<_, _>>()?;
    let mut written = 0;
    while written < bytes {
        let blocks = 1 + rng.below(8);
        let file = files[rng.below(FILES.into()) as usize];
        append(fs, file, 500 * blocks)?;
        written += 500 * blocks;
    }
    for file in files {
        fs.close(file)?;
    }
    Ok(())
}

/// Blocks freed in each of these idle times, in seconds, of a card that is 75 % dirty.
pub fn freed(bytes: u64, seconds: &[f64], dirt: Dirt) -> Result<Vec<u64>> {
    let freed_in = |&s: &f64| {
        let mut fs = volume::<3>(bytes, FILES + 4)?;
        // Of what is fragmented a quarter stays.
        let part = if dirt == Dirt::Whole { 0.75 } else { 0.95 };
        soil(&mut fs, bytes, part, dirt)?;
        clean_for(&mut fs, s)
    };
    seconds.iter().map(freed_in).collect()
}

/// Seconds of work between idle times, and of idle time, for streams of so many MB: the paper's 1 s
/// in 5 s, where the work takes long enough for it, and the same share of it else.
pub fn idle(megabytes: u64) -> Idle {
    let scale = (megabytes as f64 / 64.0).min(1.0);
    Idle {
        every: 5.0 * scale,
        lasts: scale,
    }
}

/// The intertwined streams of `size` bytes on a card that is filled to 90 %, all of it dirty but
/// the file that is read: with idle time for the collector, and without it.
pub fn streams(size: u64, dirt: Dirt, idle: Idle) -> Result<[Spent; 2]> {
    let bytes = 6 * size;
    let mut found = [Spent::default(); 2];
    for (spent, idle) in found.iter_mut().zip([Some(idle), None]) {
        let mut fs = volume::<3>(bytes, FILES + 4)?;
        let files = prepare(&mut fs, size)?;
        soil(&mut fs, bytes, 0.9 - 1.0 / 6.0, dirt)?;
        *spent = run(&mut fs, files, size, REQUEST, idle)?;
    }
    Ok(found)
}

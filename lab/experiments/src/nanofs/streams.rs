//! A stream of reads of one file and a stream of appends to another, randomly intertwined.

use anyhow::Result;
use flashkit_nanofs::Handle;
use flashkit_sim::{MeteredCard, Rng};

use super::measure::{Fs, append};

/// Bytes of a request where nothing else is said.
pub const REQUEST: usize = 2048;

/// What the requests of both streams took, without the idle time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub reads: f64,
    pub writes: f64,
    /// The longest request, in milliseconds.
    pub longest_ms: f64,
    /// Idle times that there were.
    pub idle: u64,
}

/// When there is nothing else to do.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Seconds of work between idle times.
    pub every: f64,
    /// Seconds that it lasts.
    pub lasts: f64,
}

/// Makes the file that is read; gives both files.
pub fn prepare<const N: usize>(fs: &mut Fs<N>, bytes: u64) -> Result<(Handle, Handle)> {
    let read = fs.create(b"read")?;
    append(fs, read, bytes)?;
    let written = fs.create(b"written")?;
    fs.sync()?;
    Ok((read, written))
}

/// Runs both streams over `bytes` each, in requests of `request`; with `idle`, the card is cleaned
/// in between.
pub fn run<const N: usize>(
    fs: &mut Fs<N>,
    (read, written): (Handle, Handle),
    bytes: u64,
    request: usize,
    idle: Option<Idle>,
) -> Result<Spent> {
    let mut rng = Rng::new(1);
    let mut left = [bytes / request as u64; 2];
    let mut buf = vec![0; request];
    let mut spent = Spent::default();
    let mut worked = 0.0;
    fs.seek(read, 0)?;
    while left[0] + left[1] > 0 {
        let is_read = rng.below(left[0] + left[1]) < left[0];
        let before = fs.device().counters().time_ns;
        if is_read {
            fs.read(read, &mut buf)?;
            left[0] -= 1;
        } else {
            fs.append(written, &buf)?;
            left[1] -= 1;
        }
        let took = (fs.device().counters().time_ns - before) as f64 / 1e9;
        match is_read {
            true => spent.reads += took,
            false => spent.writes += took,
        }
        spent.longest_ms = spent.longest_ms.max(took * 1e3);
        worked += took;
        if let Some(idle) = idle.filter(|idle| worked >= idle.every) {
            worked = 0.0;
            spent.idle += 1;
            clean_for(fs, idle.lasts)?;
        }
    }
    fs.sync()?;
    Ok(spent)
}

/// Cleans for so many seconds of the card's time; gives the blocks that became free.
pub fn clean_for<const N: usize>(fs: &mut Fs<N>, seconds: f64) -> Result<u64> {
    let start = fs.device().counters();
    let end = start.time_ns + (seconds * 1e9) as u64;
    // Operations in a slice; blocks of deleted files need more to become dirty.
    let mut slice = 20;
    loop {
        let before = fs.device().counters().time_ns;
        if before >= end || !fs.clean(slice)? {
            break;
        }
        if fs.device().counters().time_ns == before {
            slice = 160;
        }
    }
    let now = fs.device().counters();
    fs.device().idle(end.saturating_sub(now.time_ns));
    Ok(now.blocks_trimmed - start.blocks_trimmed)
}

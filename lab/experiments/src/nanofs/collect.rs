//! The garbage collector: how much it frees in idle time, and what work costs with and without it.

use anyhow::Result;

use super::measure::{Fs, append, volume};
use super::streams::{Idle, Spent, clean_for, prepare, run};

/// Files whose blocks become dirty.
const FILES: u32 = 16;

/// Fills a part of a card of so many bytes with blocks that are dirty then.
fn soil<const N: usize>(fs: &mut Fs<N>, bytes: u64, part: f64) -> Result<()> {
    let each = (bytes as f64 * part) as u64 / u64::from(FILES);
    for i in 0..FILES {
        let file = fs.create(&[b'a' + i as u8])?;
        append(fs, file, each)?;
        fs.close(file)?;
    }
    for i in 0..FILES {
        fs.delete(&[b'a' + i as u8])?;
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

/// Blocks freed in each of these idle times, in seconds, of a card that is 75 % dirty.
pub fn freed(bytes: u64, seconds: &[f64]) -> Result<Vec<u64>> {
    let freed_in = |&s: &f64| {
        let mut fs = volume::<3>(bytes, FILES + 4)?;
        soil(&mut fs, bytes, 0.75)?;
        clean_for(&mut fs, s)
    };
    seconds.iter().map(freed_in).collect()
}

/// The intertwined streams of `size` bytes on a card that is filled to 90 %, all of it dirty but
/// the file that is read: with idle time of 1 s in 5 s for the collector, and without it.
pub fn streams(size: u64) -> Result<[Spent; 2]> {
    let bytes = 6 * size;
    let idle = Idle {
        every: 5.0,
        lasts: 1.0,
    };
    let mut found = [Spent::default(); 2];
    for (spent, idle) in found.iter_mut().zip([Some(idle), None]) {
        let mut fs = volume::<3>(bytes, FILES + 4)?;
        let files = prepare(&mut fs, size)?;
        soil(&mut fs, bytes, 0.9 - 1.0 / 6.0)?;
        *spent = run(&mut fs, files, size, idle)?;
    }
    Ok(found)
}

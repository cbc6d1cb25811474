//! Mounts, throughput, and what writing a file takes.

use anyhow::{Result, ensure};
use flashkit_nanofs::{Handle, List, NanoFs};
use flashkit_sim::{CardTiming, SimCard};

/// A file system on a card of class 4.
pub type Fs<const N: usize> = NanoFs<SimCard, N>;

pub const KEY: u32 = 1;
pub const MB: u64 = 1 << 20;
/// What is written in one call.
pub const PIECE: usize = 16 << 10;

/// An empty volume with `bytes` of blocks for data.
pub fn volume<const N: usize>(bytes: u64, files: u32) -> Result<Fs<N>> {
    // The bitmap has two blocks for 2,000; blocks between files that grow stay free.
    let blocks = bytes.div_ceil(500) * 1002 / 1000 + u64::from(3 * files) + 200;
    let mut fs = NanoFs::new(SimCard::new(blocks as u32, CardTiming::CLASS_4));
    fs.format(KEY, files, 1)?;
    fs.device().clear_counters();
    Ok(fs)
}

/// Appends `bytes` that are the same every time.
pub fn append<const N: usize>(fs: &mut Fs<N>, file: Handle, mut bytes: u64) -> Result<()> {
    let piece: Vec<u8> = (0..PIECE).map(|i| (i * 7 / 3) as u8).collect();
    while bytes > 0 {
        let n = bytes.min(PIECE as u64);
        fs.append(file, &piece[..n as usize])?;
        bytes -= n;
    }
    Ok(())
}

/// Block reads and milliseconds of a mount with each of these numbers of files, in rising order.
pub fn mounts(numbers: &[u32], size: u64) -> Result<Vec<(u32, u64, f64)>> {
    let most = numbers.iter().copied().max().unwrap_or(1);
    let mut fs = volume::<3>(u64::from(most) * (size + 1_000), most)?;
    let mut found = Vec::new();
    for made in 1..=most {
        let file = fs.create(format!("file {made}").as_bytes())?;
        append(&mut fs, file, size)?;
        fs.close(file)?;
        if numbers.contains(&made) {
            fs.device().clear_counters();
            fs.mount(KEY)?;
            let spent = fs.device().counters();
            found.push((made, spent.blocks_read, spent.time_ns as f64 / 1e6));
        }
    }
    Ok(found)
}

/// MB/s of file data, written and read, with a buffer of so many blocks (`N` - 2).
pub fn throughput<const N: usize>(size: u64) -> Result<(f64, f64)> {
    let mut fs = volume::<N>(size, 4)?;
    let file = fs.create(b"file")?;
    fs.device().clear_counters();
    append(&mut fs, file, size)?;
    fs.sync()?;
    let written = fs.device().counters().time_ns;
    fs.device().clear_counters();
    fs.seek(file, 0)?;
    let mut buf = vec![0; PIECE];
    let mut all = 0;
    loop {
        let n = fs.read(file, &mut buf)?;
        if n == 0 {
            break;
        }
        all += u64::from(n);
    }
    ensure!(all == size, "{all} bytes read of {size}");
    let read = fs.device().counters().time_ns;
    let rate = |ns: u64| size as f64 * 1e3 / ns as f64;
    Ok((rate(written), rate(read)))
}

/// Block writes for a file of each of these sizes, in rising order.
pub fn writes(list: List, sizes: &[u64]) -> Result<Vec<u64>> {
    let most = sizes.iter().copied().max().unwrap_or(MB);
    let mut fs = volume::<3>(most, 4)?;
    let file = fs.create(b"file")?;
    fs.set_list(list);
    fs.device().clear_counters();
    let mut at = 0;
    let mut found = Vec::new();
    for &size in sizes {
        append(&mut fs, file, size - at)?;
        fs.sync()?;
        at = size;
        found.push(fs.device().counters().blocks_written);
    }
    Ok(found)
}

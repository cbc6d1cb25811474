//! What metadata takes on flash, and what is left unwritten in blocks of data.

use std::cell::Cell as Held;

use anyhow::{Context, Result, anyhow};
use flashkit_vfs::{Error, FileSystem as _};
use flashkit_workload::{Line, Options, Rng, Store, StoreError, generate, replay_store};

use super::serve;
use super::watch::{At, Volume, Watched};
use crate::parts::Rows;
use crate::report::Cell;
use crate::study::here::RAM;

const PAGE: f64 = 2_048.0;
const KIB: u64 = 1 << 10;
const REQUEST: u64 = 64 * KIB;
/// Fsyncs between two looks at the metadata.
const LOOK: u64 = 16;

/// Runs of the paper: ours, bytes of a request, and MB of its own metadata and that of its UBIFS.
const RUNS: [(&str, &str, usize, f64, f64); 2] = [
    ("SysBench", "sysbench", 2_048, 0.004, 4.7),
    ("Postmark", "postmark", 2_048, 3.5, 5.2),
];
const SERVED: (f64, f64) = (2.6, 6.3);

fn mb(pages: u64) -> Cell {
    Cell::Measure(pages as f64 * PAGE / 1e6, 3)
}

pub fn metadata(quick: bool) -> Result<Rows> {
    let mut rows = Vec::new();
    for (what, trace, request, paper, ubifs) in RUNS {
        let mut lines = generate::find(trace).context(trace)?.lines();
        if quick {
            lines.truncate(100);
        }
        let most = peak(lines, request)?;
        rows.push(vec![
            what.into(),
            mb(most),
            Cell::Measure(paper, 3),
            Cell::Measure(ubifs, 1),
        ]);
    }
    let served = serve::aged(quick)?;
    rows.push(vec![
        "Create/DeleteFiles, 1,000 s".into(),
        mb(served.meta_pages),
        Cell::Measure(SERVED.0, 3),
        Cell::Measure(SERVED.1, 1),
    ]);
    Ok(rows)
}

/// Pages of metadata at most.
fn peak(lines: Vec<Line>, request: usize) -> Result<u64> {
    let mut memory = vec![0; RAM];
    let (most, synced) = (Held::new(0), Held::new(0));
    let watch = |volume: &mut Volume<'_, '_>, at: At| -> std::result::Result<(), StoreError> {
        if at == At::Synced {
            if u64::is_multiple_of(synced.get(), LOOK) {
                most.set(most.get().max(volume.meta_pages()));
            }
            synced.set(synced.get() + 1);
        }
        Ok(())
    };
    let options = Options {
        request,
        fsync: true,
        ..Options::default()
    };
    let watched = Watched {
        store: Volume::new(&mut memory)?,
        watch,
    };
    replay_store(watched, lines, options).map_err(|error| anyhow!("{error}"))?;
    Ok(most.get())
}

/// A kind of files: share of the data in per mill, and the least and largest size in KiB.
struct Kind {
    share: u64,
    least: u64,
    most: u64,
}

const KINDS: [Kind; 3] = [
    Kind {
        share: 512,
        least: 4_096,
        most: 12_288,
    },
    Kind {
        share: 305,
        least: 2_048,
        most: 6_144,
    },
    Kind {
        share: 183,
        least: 512,
        most: 2_048,
    },
];

/// Of the space for files and their metadata, in per cent.
const FILLS: [u64; 9] = [50, 70, 80, 90, 94, 95, 96, 97, 98];
/// Times that files go and others come at each fill.
const TURNS: u32 = 100;

/// Files of the three kinds on a volume.
struct Shelf<'m> {
    volume: Volume<'m, 'static>,
    rng: Rng,
    /// Kind, number and size of each file.
    files: Vec<(usize, u64, u64)>,
    next: u64,
    /// Bytes of each kind.
    bytes: [u64; 3],
    /// Most pages of remnants since they were asked for.
    most: u64,
}

impl Shelf<'_> {
    fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// A file of the kind that lags behind its share most, unless it takes more than this.
    fn add(&mut self, room: u64) -> Result<bool> {
        let lag = |kind: &usize| self.bytes[*kind] * 1_000 / KINDS[*kind].share;
        let kind = (0..KINDS.len()).min_by_key(lag).unwrap_or(0);
        let Kind { least, most, .. } = KINDS[kind];
        let size = (least + self.rng.below(most - least + 1)) * KIB;
        if size > room {
            return Ok(false);
        }
        let path = format!("f{}", self.next);
        let file = self.volume.create(&path)?;
        let data = vec![0x5a; REQUEST as usize];
        for at in (0..size).step_by(REQUEST as usize) {
            let len = REQUEST.min(size - at) as usize;
            match self.volume.write(&file, at, &data[..len]) {
                Err(StoreError::Fs(Error::NoSpace)) => {
                    self.volume.close(file)?;
                    self.volume.unlink(&path)?;
                    return Ok(false);
                }
                written => written?,
            }
        }
        self.volume.close(file)?;
        self.files.push((kind, self.next, size));
        self.next += 1;
        self.bytes[kind] += size;
        let (_, unused) = self.volume.data_and_remnants()?;
        self.most = self.most.max(unused);
        Ok(true)
    }

    fn remove_one(&mut self) -> Result<()> {
        let any = self.rng.below(self.files.len() as u64) as usize;
        let (kind, number, size) = self.files.swap_remove(any);
        self.bytes[kind] -= size;
        Ok(self.volume.unlink(&format!("f{number}"))?)
    }

    /// Adds files up to so many bytes, as long as they fit.
    fn fill(&mut self, bytes: u64) -> Result<()> {
        while self.bytes() < bytes && self.add(bytes - self.bytes())? {}
        Ok(())
    }
}

pub fn remnants(quick: bool) -> Result<Rows> {
    let mut memory = vec![0; RAM];
    let mut volume = Volume::new(&mut memory)?;
    let space = volume.0.statfs()?;
    let bytes = space.blocks * u64::from(space.block_size);
    let mut shelf = Shelf {
        volume,
        rng: Rng::new(1),
        files: Vec::new(),
        next: 0,
        bytes: [0; 3],
        most: 0,
    };
    let mut rows = Vec::new();
    let (fills, turns) = if quick {
        (&FILLS[..1], 2)
    } else {
        (&FILLS[..], TURNS)
    };
    for &fill in fills {
        let before = shelf.volume.0.volume().written();
        shelf.most = 0;
        let wanted = bytes / 100 * fill;
        shelf.fill(wanted)?;
        for _ in 0..turns {
            shelf.remove_one()?;
            shelf.fill(wanted)?;
        }
        let written = shelf.volume.0.volume().written();
        rows.push(vec![
            Cell::Count(fill),
            Cell::Measure(shelf.bytes() as f64 / 1e6, 1),
            Cell::Count(shelf.most),
            Cell::Measure(100.0 * shelf.most as f64 * PAGE / shelf.bytes() as f64, 3),
            Cell::Count(written.compacted - before.compacted),
            Cell::Count(written.cleaned - before.cleaned),
        ]);
    }
    Ok(rows)
}

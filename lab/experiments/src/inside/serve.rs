//! Create/DeleteFiles by Table VII for 1,000 s of flash time, its variants, and a stream after it.

use std::cell::Cell as Held;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use flashkit_sim::SimNand;
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::{Counters, Error, FileSystem as _};
use flashkit_workload::generate::{Sysbench, filebench};
use flashkit_workload::{Op, Options, Phase, Report, Rng, Store, StoreError, replay_store, trace};

use super::watch::{At, Volume, Watched, chip, formatted};
use crate::parts::Rows;
use crate::report::Cell;
use crate::study::here::RAM;

type Done<T> = std::result::Result<T, StoreError>;

const MIB: u64 = 1 << 20;
/// Files of Table VII, and how many of them Filebench's scripts make at first.
const FILES: u64 = 2_000;
const AT_FIRST: u64 = FILES * 4 / 5;
/// Of a directory.
const WIDTH: u64 = 20;
/// Flash time of the test, in seconds.
const SECONDS: u64 = 1_000;
/// More than come in that time.
const TIMES: u64 = 90_000;
/// New files between two looks at the metadata.
const LOOK: u64 = 256;
/// New files between two compactions of the paper's variant.
const NEW: u64 = 50;
/// Bytes of a request, and of the stream of Figure 12.
const REQUEST: usize = 64 << 10;
const STREAM: u64 = 64 * MIB;

/// What became of a run.
pub struct Served {
    /// Afterwards, unmounted.
    chip: SimNand,
    report: Report,
    /// Files made in the time.
    created: u64,
    /// Pages of metadata at most.
    pub meta_pages: u64,
    /// What cleaning took that was asked for.
    cleaning: Counters,
}

impl Served {
    fn phase(&self) -> Result<&Phase> {
        let mut phases = self.report.phases.iter();
        let found = phases.find(|phase| phase.name == "serve");
        found.ok_or_else(|| anyhow!("nothing was served"))
    }
}

/// Files and seconds of a test, or of a small part of it.
fn scaled(quick: bool) -> (u64, u64) {
    match quick {
        true => (AT_FIRST / 20, SECONDS / 500),
        false => (AT_FIRST, SECONDS),
    }
}

/// The load in one tree, as Filebench has it: a file that comes takes the place of one that is not
/// there. `files` are there at first, of the test's own number four fifths.
fn in_one_tree(ops: Vec<Op>, files: u64) -> Vec<Op> {
    let places = files.max(files * FILES / AT_FIRST);
    let mkdir = |dir| Op::Mkdir {
        path: format!("d{dir}"),
    };
    let mut all: Vec<Op> = (0..places.div_ceil(WIDTH)).map(mkdir).collect();
    let mut free: Vec<u64> = (0..places).collect();
    let mut taken: BTreeMap<String, u64> = BTreeMap::new();
    let mut rng = Rng::new(1);
    let at = |place: u64| format!("d{}/f{place}", place / WIDTH);
    for op in ops {
        all.push(match op {
            Op::Mkdir { .. } => continue,
            Op::Create { path, size } => {
                let any = rng.below(free.len() as u64) as usize;
                let place = free.swap_remove(any);
                taken.insert(path, place);
                let path = at(place);
                Op::Create { path, size }
            }
            Op::Fsync { path } => Op::Fsync {
                path: at(taken[&path]),
            },
            Op::Unlink { path } => {
                let place = taken.remove(&path).unwrap_or_default();
                free.push(place);
                Op::Unlink { path: at(place) }
            }
            op => op,
        });
    }
    all
}

/// The test; with cleaning after each so many new files, if that is asked for.
fn serve(files: u64, seconds: u64, clean_after: Option<u64>) -> Result<Served> {
    let mut nand = formatted(chip()?)?;
    let mut memory = vec![0; RAM];
    let (created, begun, over) = (Held::new(0u64), Held::new(0), Held::new(false));
    let (most, cleaning) = (Held::new(0), Held::new(Counters::default()));
    let watch = |volume: &mut Volume<'_, '_>, at: At| -> Done<()> {
        if at == At::Created {
            created.set(created.get() + 1);
            let new = created.get().saturating_sub(files);
            if new == 1 {
                begun.set(volume.clock_ns());
            }
            if clean_after.is_some_and(|after| new > 0 && new.is_multiple_of(after)) {
                let before = volume.cost();
                volume.clean()?;
                cleaning.set(cleaning.get() + (volume.cost() - before));
            }
        }
        // To look costs reads, which are in the figures.
        if at == At::Synced && created.get().is_multiple_of(LOOK) {
            most.set(most.get().max(volume.meta_pages()));
        }
        let passed = volume.clock_ns() - begun.get();
        over.set(created.get() > files && passed > seconds * 1_000_000_000);
        Ok(())
    };
    let stop = || over.get();
    let options = Options {
        request: REQUEST,
        stop: Some(&stop),
        ..Options::default()
    };
    let watched = Watched {
        store: Volume::mount(AnyNand::lent(&mut nand), &mut memory)?,
        watch,
    };
    let lines = trace::number(in_one_tree(filebench::serve(files, TIMES), files));
    let replayed = replay_store(watched, lines, options).map_err(|error| anyhow!("{error}"))?;
    anyhow::ensure!(over.get(), "all files came in less than {seconds} s");
    Ok(Served {
        chip: nand,
        report: replayed.report,
        created: created.get() - files,
        meta_pages: most.get(),
        cleaning: cleaning.get(),
    })
}

/// The test as the paper has it. What follows it begins there.
pub fn aged(quick: bool) -> Result<&'static Served> {
    static AGED: [OnceLock<std::result::Result<Served, String>>; 2] =
        [const { OnceLock::new() }; 2];
    let (files, seconds) = scaled(quick);
    let made = || serve(files, seconds, None).map_err(|error| format!("{error:#}"));
    let aged = AGED[usize::from(quick)].get_or_init(made);
    aged.as_ref().map_err(|error| anyhow!("{error}"))
}

/// How many of the files fit that the test has, if all are there at first.
fn fit(files: u64) -> Result<u64> {
    let mut memory = vec![0; RAM];
    let created = Held::new(0u64);
    let watch = |_: &mut Volume<'_, 'static>, at: At| -> Done<()> {
        created.set(created.get() + u64::from(at == At::Synced));
        Ok(())
    };
    let options = Options {
        request: REQUEST,
        ..Options::default()
    };
    let watched = Watched {
        store: Volume::new(&mut memory)?,
        watch,
    };
    let lines = trace::number(in_one_tree(filebench::serve(files, 0), files));
    match replay_store(watched, lines, options) {
        Ok(_) => Ok(created.get()),
        Err(error) if error.what.contains(&Error::NoSpace.to_string()) => Ok(created.get()),
        Err(error) => Err(anyhow!("{error}")),
    }
}

pub fn table_vii(quick: bool) -> Result<Rows> {
    let (files, _) = scaled(quick);
    let all = files * FILES / AT_FIRST;
    let mut without = vec![Cell::Count(all), Cell::Count(fit(all)?)];
    without.resize(9, Cell::None);
    let served = aged(quick)?;
    let phase = served.phase()?;
    let seconds = phase.flash_us as f64 / 1e6;
    let row = vec![
        Cell::Count(files),
        Cell::Count(files),
        Cell::Measure(seconds, 1),
        Cell::Count(served.created),
        Cell::Measure(phase.user_bytes as f64 / 1e6 / seconds, 2),
        Cell::Count(phase.page_reads + phase.spare_reads),
        Cell::Count(phase.page_programs),
        Cell::Count(phase.block_erases),
        Cell::Measure(phase.latency_us.max / 1e3, 1),
    ];
    Ok(vec![without, row])
}

/// A file of 190 MiB on an erased chip, and again when each block was written before: that takes
/// two of them. `[first, last]`.
fn written_again(quick: bool) -> Result<[Phase; 2]> {
    let size = if quick { 4 * MIB } else { 190 * MIB };
    let mut ops: Vec<Op> = Sysbench { size }.ops().collect();
    for _ in 0..2 {
        let path = "sysbench".into();
        let name = "delete".into();
        ops.extend([Op::Unlink { path }, Op::Phase { name }]);
        ops.extend(Sysbench { size }.ops());
    }
    let mut memory = vec![0; RAM];
    let options = Options {
        request: REQUEST,
        ..Options::default()
    };
    let done = replay_store(Volume::new(&mut memory)?, trace::number(ops), options);
    let phases = done.map_err(|error| anyhow!("{error}"))?.report.phases;
    match <[Phase; 5]>::try_from(phases) {
        Ok([first, _, _, _, last]) => Ok([first, last]),
        Err(phases) => Err(anyhow!("{} phases", phases.len())),
    }
}

pub fn variants(quick: bool) -> Result<Rows> {
    let mut rows = Vec::new();
    let [first, again] = written_again(quick)?;
    let one = |run: &str, variant: &str, phase: &Phase, first: &Phase| {
        let rate = |p: &Phase| p.user_bytes as f64 / p.flash_us as f64;
        vec![
            run.into(),
            variant.into(),
            Cell::Measure(phase.flash_us as f64 / 1e6, 2),
            Cell::Measure(phase.user_bytes as f64 / 1e6, 1),
            Cell::Measure(rate(phase), 3),
            Cell::Measure(100.0 * (rate(phase) / rate(first) - 1.0), 2),
        ]
    };
    let shares = |mut row: Vec<Cell>, of: [f64; 3]| {
        row.extend(of.map(|x| Cell::Measure(x, 1)));
        row
    };
    let sysbench = "SysBench, 64 KiB";
    rows.push(one(sysbench, "on an erased chip", &first, &first));
    rows.push(one(sysbench, "erase at allocation", &again, &first));
    let served = aged(quick)?;
    let (files, seconds) = scaled(quick);
    let often = serve(files, seconds, Some(NEW))?;
    let run = "Create/DeleteFiles";
    let (plain, phase) = (served.phase()?, often.phase()?);
    rows.push(one(run, "as it is", plain, plain));
    let all = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let took = often.cleaning;
    let of = [
        all(
            took.page_reads + took.spare_reads,
            phase.page_reads + phase.spare_reads,
        ),
        all(took.page_programs, phase.page_programs),
        all(took.block_erases, phase.block_erases),
    ];
    rows.push(shares(one(run, "cleaned after 50 files", phase, plain), of));
    for row in &mut rows {
        row.resize(9, Cell::None);
    }
    Ok(rows)
}

/// What is asked for before each write.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    /// All cleaning that is worth it.
    All,
    /// As much as the write takes.
    AsMuch,
}

const WAYS: [(&str, Asked); 3] = [
    ("not asked for", Asked::Nothing),
    ("asked for all", Asked::All),
    ("asked for 64 KiB", Asked::AsMuch),
];

/// A stream of 64 MiB.
struct Stream {
    /// Of each write and its fsync, in ms.
    waits: Vec<f64>,
    writes: Counters,
    cleaning: Counters,
}

fn stream(served: &Served, asked: Asked, bytes: u64) -> Result<Stream> {
    let mut nand = served.chip.clone();
    let mut memory = vec![0; RAM];
    let mut volume = Volume::mount(AnyNand::lent(&mut nand), &mut memory)?;
    make_room(&mut volume, bytes)?;
    let file = volume.create("stream")?;
    let (mut writes, mut cleaning) = (Counters::default(), Counters::default());
    let mut waits = Vec::new();
    let data = vec![0x5a; REQUEST];
    for at in (0..bytes).step_by(REQUEST) {
        let before = volume.cost();
        match asked {
            Asked::Nothing => {}
            Asked::All => volume.clean()?,
            Asked::AsMuch => clean_some(&mut volume)?,
        }
        let cleaned = volume.cost();
        volume.write(&file, at, &data)?;
        volume.fsync(&file)?;
        let written = volume.cost();
        cleaning = cleaning + (cleaned - before);
        writes = writes + (written - cleaned);
        waits.push((written.time_ns - cleaned.time_ns) as f64 / 1e6);
    }
    Ok(Stream {
        waits,
        writes,
        cleaning,
    })
}

/// Wins as much as a request takes, if so much can be won.
fn clean_some(volume: &mut Volume<'_, '_>) -> Result<()> {
    let fs = &mut volume.0;
    let before = fs.bytes_clean().unwrap_or(0);
    while fs.gc(16)? && fs.bytes_clean().unwrap_or(0) < before + REQUEST as u64 {}
    Ok(())
}

/// Deletes files at random until so much is free, and an eighth more.
fn make_room(volume: &mut Volume<'_, '_>, bytes: u64) -> Result<()> {
    let mut files = volume.list()?;
    files.retain(|(_, is_dir)| !is_dir);
    let mut rng = Rng::new(1);
    loop {
        let space = volume.0.statfs()?;
        if space.blocks_free * u64::from(space.block_size) >= bytes + bytes / 8 {
            return Ok(volume.sync()?);
        }
        anyhow::ensure!(!files.is_empty(), "no room for the stream");
        let any = rng.below(files.len() as u64) as usize;
        volume.unlink(&files.swap_remove(any).0)?;
    }
}

fn streams(quick: bool) -> Result<&'static [Stream]> {
    static STREAMS: [OnceLock<std::result::Result<Vec<Stream>, String>>; 2] =
        [const { OnceLock::new() }; 2];
    let made = || -> Result<Vec<Stream>> {
        let served = aged(quick)?;
        let bytes = if quick { STREAM / 8 } else { STREAM };
        let of = |(_, asked)| stream(served, asked, bytes);
        WAYS.into_iter().map(of).collect()
    };
    let streams = STREAMS[usize::from(quick)].get_or_init(|| made().map_err(|e| format!("{e:#}")));
    Ok(streams.as_ref().map_err(|error| anyhow!("{error}"))?)
}

fn longest(waits: &[f64]) -> f64 {
    waits.iter().copied().fold(0.0, f64::max)
}

pub fn waits(quick: bool) -> Result<Rows> {
    let streams = streams(quick)?;
    let each = MIB as usize / REQUEST;
    let mibs = streams[0].waits.len() / each;
    let row = |mib: usize| {
        let mut row = vec![Cell::Count(mib as u64 + 1)];
        row.extend(streams.iter().map(|stream| {
            let waits = &stream.waits[mib * each..(mib + 1) * each];
            Cell::Measure(longest(waits), 2)
        }));
        row
    };
    Ok((0..mibs).map(row).collect())
}

pub fn asked(quick: bool) -> Result<Rows> {
    let rows = WAYS.iter().zip(streams(quick)?).map(|((how, _), stream)| {
        let mut sorted = stream.waits.clone();
        sorted.sort_by(f64::total_cmp);
        let all = stream.writes + stream.cleaning;
        vec![
            (*how).into(),
            Cell::Measure(sorted.iter().sum::<f64>() / sorted.len() as f64, 2),
            Cell::Measure(sorted[sorted.len() * 99 / 100], 2),
            Cell::Measure(longest(&sorted), 2),
            Cell::Measure(stream.writes.time_ns as f64 / 1e9, 2),
            Cell::Measure(stream.cleaning.time_ns as f64 / 1e9, 2),
            Cell::Count(all.page_programs),
            Cell::Count(all.block_erases),
        ]
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_where_others_were() {
        let ops = in_one_tree(filebench::serve(AT_FIRST, 1_000), AT_FIRST);
        let dirs = ops.iter().filter(|op| matches!(op, Op::Mkdir { .. }));
        assert_eq!(dirs.count() as u64, FILES / WIDTH);
        let mut there = BTreeMap::new();
        let mut most = 0;
        for op in &ops {
            match op {
                Op::Create { path, size } => assert_eq!(there.insert(path, size), None),
                Op::Unlink { path } => assert!(there.remove(path).is_some()),
                Op::Fsync { path } => assert!(there.contains_key(path)),
                _ => {}
            }
            most = most.max(there.len());
        }
        assert_eq!((there.len() as u64, most as u64), (AT_FIRST, AT_FIRST));
        // Places are taken that were free at first.
        let mut places: Vec<_> = ops
            .iter()
            .filter_map(|op| match op {
                Op::Create { path, .. } => Some(path),
                _ => None,
            })
            .collect();
        places.sort();
        places.dedup();
        assert!(places.len() as u64 > AT_FIRST + 200, "{}", places.len());
    }
}

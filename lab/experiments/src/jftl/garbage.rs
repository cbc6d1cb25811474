//! Garbage detection (3.1.2): what cleaning costs when the layer is told which sectors hold nothing
//! any more, and when it is not. By a stock kernel's `discard`, and through the paper's interface.

use std::fs;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use anyhow::{Result, anyhow};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Metered, Rng};
use serde::{Deserialize, Serialize};

use super::plan::GARBAGE_TITLE;
use super::rig::{Interval, Layer, Mode, Rig, formatted};
use crate::report::{Cell, Table};

/// Bytes of a file, and of an overwrite.
const FILE: usize = 64 << 10;
const WRITE: usize = 4 << 10;

/// How much is written: files, and overwrites of those that stay.
#[derive(Clone, Copy)]
struct Size {
    files: u32,
    writes: u32,
}

impl Size {
    fn of(quick: bool) -> Size {
        match quick {
            true => Size {
                files: 100,
                writes: 100,
            },
            false => Size {
                files: 3_200,
                writes: 20_000,
            },
        }
    }
}

/// What the overwrites have cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    how: String,
    trimmed: u64,
    programs: u64,
    erases: u64,
    copies: u64,
    busy_ns: u64,
}

/// Measures all four.
///
/// # Errors
/// Of the kernel and the layer.
pub fn measure(quick: bool) -> Result<Vec<Told>> {
    let size = Size::of(quick);
    Ok(vec![
        stock(size, false)?,
        stock(size, true)?,
        explicit(size, false)?,
        explicit(size, true)?,
    ])
}

/// What happened between two moments.
fn told(
    how: &str,
    before: (flashkit_jftl::Stats, flashkit_sim::Counters),
    after: (flashkit_jftl::Stats, flashkit_sim::Counters),
) -> Told {
    let did = after.1 - before.1;
    Told {
        how: how.into(),
        trimmed: after.0.sectors_trimmed,
        programs: did.page_programs,
        erases: did.block_erases,
        copies: after.0.copies - before.0.copies,
        busy_ns: did.time_ns,
    }
}

/// On a stock kernel's ext3: files fill it, every other one is deleted, the rest is overwritten.
fn stock(size: Size, discard: bool) -> Result<Told> {
    let layer = Layer {
        remaps: true.into(),
        ..Layer::default()
    };
    let mut rig = Rig::new(formatted()?, layer, false)?;
    rig.make_ext3()?;
    let more = if discard { ",discard" } else { "" };
    rig.mount_with(Mode::Ordered, Interval::Seconds(5), more)?;
    let path = |i: u32| rig.point.join(format!("f{i}"));
    let mut bytes = vec![0; FILE];
    for i in 0..size.files {
        Rng::keyed(3, i.into()).fill(&mut bytes);
        fs::write(path(i), &bytes)?;
    }
    let root = File::open(&rig.point)?;
    nix::unistd::syncfs(&root)?;
    for i in (0..size.files).step_by(2) {
        fs::remove_file(path(i))?;
    }
    nix::unistd::syncfs(&root)?;
    let before = rig.begin()?;
    let mut rng = Rng::new(5);
    for i in 0..size.writes {
        let file = 1 + 2 * rng.below(u64::from(size.files / 2)) as u32;
        let at = rng.below((FILE / WRITE) as u64) * WRITE as u64;
        rng.fill(&mut bytes[..WRITE]);
        let file = OpenOptions::new().write(true).open(path(file))?;
        file.write_all_at(&bytes[..WRITE], at)?;
        if i % 64 == 63 {
            nix::unistd::syncfs(&root)?;
        }
    }
    nix::unistd::syncfs(&root)?;
    let after = rig.cost()?;
    drop(root);
    rig.unmount()?;
    let how = match discard {
        true => "ext3, discard",
        false => "ext3, nothing told",
    };
    Ok(told(
        how,
        (before.stats, before.counters),
        (after.stats, after.counters),
    ))
}

/// The same through the interface, without a file system: deallocated runs in a transaction.
fn explicit(size: Size, tell: bool) -> Result<Told> {
    let failed = |e| anyhow!("{e:?}");
    let chip = formatted()?;
    let len = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(|why| anyhow!(why))?;
    let mut disk = Jftl::mount(chip, vec![0; len].leak()).map_err(|e| anyhow!("{e}"))?;
    let sectors = (FILE / 512) as u32;
    let mut bytes = vec![0; FILE];
    for i in 0..size.files {
        Rng::keyed(3, i.into()).fill(&mut bytes);
        disk.write(i * sectors, &bytes).map_err(failed)?;
    }
    let deleted = (0..size.files).step_by(2).map(|i| (i * sectors, sectors));
    let deleted: Vec<_> = if tell { deleted.collect() } else { Vec::new() };
    for part in deleted.chunks(64) {
        disk.remap(&[], part).map_err(failed)?;
    }
    disk.flush().map_err(failed)?;
    let before = (disk.stats(), disk.nand().counters());
    let mut rng = Rng::new(5);
    for i in 0..size.writes {
        let file = 1 + 2 * rng.below(u64::from(size.files / 2)) as u32;
        let at = rng.below((FILE / WRITE) as u64) as u32 * (WRITE / 512) as u32;
        rng.fill(&mut bytes[..WRITE]);
        let first = file * sectors + at;
        disk.write(first, &bytes[..WRITE]).map_err(failed)?;
        if i % 64 == 63 {
            disk.flush().map_err(failed)?;
        }
    }
    disk.flush().map_err(failed)?;
    let after = (disk.stats(), disk.nand().counters());
    let how = match tell {
        true => "the paper's interface, deallocated told",
        false => "the paper's interface, nothing told",
    };
    Ok(told(how, before, after))
}

/// The table; none of nothing.
pub fn table(found: &[Told]) -> Option<Table> {
    let row = |told: &Told| {
        vec![
            told.how[..].into(),
            Cell::Count(told.trimmed),
            Cell::Count(told.programs),
            Cell::Count(told.erases),
            Cell::Count(told.copies),
            Cell::Measure(told.busy_ns as f64 / 1e9, 1),
        ]
    };
    (!found.is_empty()).then(|| Table {
        title: GARBAGE_TITLE.into(),
        columns: vec![
            "disk",
            "sectors told of",
            "programs",
            "erases",
            "copies",
            "flash s",
        ],
        keys: 1,
        rows: found.iter().map(row).collect(),
        notes: vec![
            "3,200 files of 64 KiB fill the disk to nine tenths; every other one is deleted, and 20,000 times 4 KiB are \
             overwritten at random in the rest, a sync for each 64. Counted are the overwrites."
                .into(),
            "paper: with the deallocated blocks known, the garbage collector is more efficient and runs less often".into(),
        ],
    })
}

//! Table 8: an Andrew-like benchmark on a real ext2 on the disk, 60 times.
//!
//! After J. H. Howard et al.: *Scale and Performance in a Distributed File System*, ACM TOCS 6(1),
//! 1988: make directories, copy a source tree, look at every file, read every file, compile. The
//! compiler's output is made up, so that counts do not depend on which one is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use flashkit_disk::{Disk, OnNor, Sectors};
use flashkit_logdisk::{Config, LogDisk, Shape};
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, nor_preset};
use serde::{Deserialize, Serialize};

use super::load::{SECTOR, SECTORS};
use super::paper;
use crate::Scale;
use crate::report::{Cell, Table};
use crate::rig::{self, Rig, tool};

/// Titles of its tables.
pub const TITLES: [&str; 3] = [
    "Table 8: an Andrew-like benchmark, seconds a run",
    "Table 8: what all its runs cost the disk",
    "Section 3.5: how long the chip lives under Table 8",
];

/// Directories of the source tree, files in each, bytes of a file and of what is compiled from a
/// directory: 565 KB a run, the paper has about 560.
const TREE: [usize; 4] = [5, 14, 3_072, 70_000];

/// Phases of a run.
const PHASES: [&str; 5] = ["make directories", "copy", "scan", "read", "make"];

/// A way to run it.
#[derive(Clone, Copy)]
struct Case {
    driver: &'static str,
    config: Config,
    /// Which of the paper's tests it stands beside: 0 for 52 to 56 %, 1 for 92 to 96 %.
    test: usize,
    /// Runs whose output is kept, to be about as full as the paper's.
    keep: usize,
    options: &'static str,
}

fn cases(scale: Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for (driver, config) in [("paper's", Config::paper()), ("default", Config::new())] {
        for options in ["strictatime,dirsync", "strictatime"] {
            for (test, keep) in [13, 22].into_iter().enumerate() {
                cases.push(Case {
                    driver,
                    config,
                    test,
                    keep,
                    options,
                });
            }
        }
    }
    match scale {
        Scale::Full => cases,
        Scale::Quick => cases.into_iter().take(1).collect(),
    }
}

/// Runs of the benchmark.
fn runs(scale: Scale) -> usize {
    match scale {
        Scale::Full => paper::ANDREW_RUNS,
        Scale::Quick => 3,
    }
}

/// What a case did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    phases_ns: [u64; 5],
    /// Least and most percent of the file system in use after a run, once none is added.
    full: (u64, u64),
    written: u64,
    copied: u64,
    erased: u64,
    /// Erases of the segment that has most.
    worn: u32,
}

/// Pieces of work: cases.
pub fn pieces(scale: Scale) -> u64 {
    cases(scale).len() as u64
}

/// Why it cannot be run here, if it cannot.
pub fn missing() -> Option<&'static str> {
    let has_mke2fs = || Command::new("mke2fs").arg("-V").output().is_ok();
    rig::missing().or_else(|| (!has_mke2fs()).then_some("this needs mke2fs"))
}

/// Tables that say why there are none.
pub fn skipped(why: &str) -> Vec<Table> {
    let skipped = |title: &&str| Table {
        title: (*title).into(),
        columns: vec!["phase"],
        keys: 1,
        rows: Vec::new(),
        notes: vec![format!("skipped: {why}")],
    };
    TITLES.iter().map(skipped).collect()
}

/// Runs all cases.
///
/// # Errors
/// Of the file system, the kernel or the disk.
pub fn run(scale: Scale, done: &mut dyn FnMut()) -> Result<Vec<Done>> {
    let mut ended = Vec::new();
    for case in cases(scale) {
        ended.push(case.run(runs(scale))?);
        done();
    }
    Ok(ended)
}

/// The tables of what [`run`] has given.
pub fn tables(ended: &[Done], scale: Scale) -> Vec<Table> {
    let runs = runs(scale) as u64;
    let ended: Vec<_> = cases(scale).into_iter().zip(ended.to_vec()).collect();
    vec![
        phases_table(&ended, runs),
        counts_table(&ended, runs),
        life_table(&ended, runs),
    ]
}

/// Erases that a segment bears (Table 1), and segments of the chip.
const CYCLES: f64 = 100_000.0;
const SEGMENTS: f64 = 64.0;

fn life_table(ended: &[(Case, Done)], runs: u64) -> Table {
    let days = |erases_a_run: f64, cycles: f64| {
        // A run takes the paper's host 129 s, which it calls two minutes.
        Cell::Measure(cycles / erases_a_run * 120.0 / 86_400.0, 0)
    };
    let papers = paper::ANDREW_ERASED as f64 / paper::ANDREW_RUNS as f64;
    let mut rows = vec![vec![
        "the paper".into(),
        Cell::None,
        paper::ANDREW_FULL[1].into(),
        Cell::Measure(papers, 1),
        days(papers, SEGMENTS * CYCLES),
        Cell::None,
    ]];
    rows.extend(ended.iter().map(|(case, done)| {
        let erased = done.erased as f64 / runs as f64;
        vec![
            case.driver.into(),
            case.options.into(),
            paper::ANDREW_FULL[case.test].into(),
            Cell::Measure(erased, 1),
            days(erased, SEGMENTS * CYCLES),
            days(f64::from(done.worn) / runs as f64, CYCLES),
        ]
    }));
    Table {
        title: TITLES[2].into(),
        columns: vec![
            "driver",
            "mounted",
            "full",
            "segments erased a run",
            "days, worn evenly",
            "days, by the most worn segment",
        ],
        keys: 3,
        rows,
        notes: vec![
            "The paper: 15 segments in 2 minutes, 100,000 erases a segment, about 590 days, as if all segments wore \
             evenly. Its driver and ours of these settings have no wear levelling."
                .into(),
        ],
    }
}

fn phases_table(ended: &[(Case, Done)], runs: u64) -> Table {
    let shown = |options: &str, test| {
        let found = ended.iter().find(|(case, _)| {
            case.driver == "paper's" && case.options == options && case.test == test
        });
        found.map(|(_, done)| done)
    };
    let row = |(phase, name): (usize, &str)| {
        let [memory, half, full] = paper::ANDREW_S[phase];
        let mut row = vec![Cell::from(name)];
        row.extend([memory, half, full].map(|s| Cell::Measure(s, 1)));
        row.extend([half - memory, full - memory].map(|s| Cell::Measure(s, 1)));
        for (options, test) in [
            ("strictatime,dirsync", 0),
            ("strictatime,dirsync", 1),
            ("strictatime", 0),
            ("strictatime", 1),
        ] {
            row.push(shown(options, test).map_or(Cell::None, |done| {
                let ns = match phase {
                    5 => done.phases_ns.iter().sum(),
                    _ => done.phases_ns[phase],
                };
                Cell::Measure(ns as f64 / 1e9 / runs as f64, 2)
            }));
        }
        row
    };
    let names = PHASES.into_iter().chain(["all"]);
    Table {
        title: TITLES[0].into(),
        columns: vec![
            "phase",
            "paper: in memory",
            "paper: 52-56 %",
            "paper: 92-96 %",
            "52-56 % over memory",
            "92-96 % over memory",
            "ours, dirsync: 52-56 %",
            "ours, dirsync: 92-96 %",
            "ours: 52-56 %",
            "ours: 92-96 %",
        ],
        keys: 1,
        rows: names.enumerate().map(row).collect(),
        notes: vec![
            "The paper's are its host's times; what the disk adds to a file system in memory (4.4BSD MFS) \
             can be compared with ours: time of the chip, each phase up to its sync."
                .into(),
            "Ours is ext2 with blocks of 1 KiB. FFS writes inodes and directories at once: ext2 with \
             dirsync comes near; without, all waits for the sync."
                .into(),
        ],
    }
}

fn counts_table(ended: &[(Case, Done)], runs: u64) -> Table {
    let row = |(case, done): &(Case, Done)| {
        let papers = (case.driver == "paper's" && case.test == 1).then_some(paper::ANDREW_ERASED);
        vec![
            case.driver.into(),
            if case.options.contains("dirsync") {
                "at once".into()
            } else {
                "with the sync".into()
            },
            paper::ANDREW_FULL[case.test].into(),
            format!("{}-{} %", done.full.0, done.full.1).into(),
            Cell::from(papers),
            done.erased.into(),
            done.written.into(),
            done.copied.into(),
            Cell::Measure(
                (done.written + done.copied) as f64 / done.written.max(1) as f64,
                2,
            ),
        ]
    };
    Table {
        title: TITLES[1].into(),
        columns: vec![
            "driver",
            "directories",
            "paper, full",
            "full",
            "erased, paper",
            "erased",
            "sectors written",
            "copied",
            "WA",
        ],
        keys: 4,
        rows: ended.iter().map(row).collect(),
        notes: vec![
            format!("{runs} runs; the oldest output is removed before a run once enough are there."),
            "The paper's cleaner has all the time it wants after each phase, as it ran while its host computed: \
             down to its threshold it copies what would have died. The default one never cleans ahead."
                .into(),
            "The paper's 903 segments hold 455,000 blocks; it does not say how many of them were written \
             by FFS. Here a block is 1 KiB, and what changes several times before a sync is written once."
                .into(),
        ],
    }
}

impl Case {
    fn run(&self, runs: usize) -> Result<Done> {
        let spec = nor_preset(NOR_DEFAULT).ok_or_else(|| anyhow!("no such chip"))?;
        let mut chip: SimNor = SimNor::new(spec);
        let shape = Shape {
            sector_size: SECTOR,
            sectors: SECTORS,
        };
        LogDisk::format(&mut chip, &shape, 1).map_err(|e| anyhow!("{e}"))?;
        let disk = OnNor::mount(chip, self.config, false, |_| String::new());
        let mut rig = Rig::new(Sectors::new(disk.map_err(|e| anyhow!("{e}"))?))?;
        let args = ["-q", "-t", "ext2", "-b", "1024", "-m", "0", rig.device()];
        tool("mke2fs", &args)?;
        rig.mount("ext2", self.options)?;
        let mut done = Done {
            phases_ns: [0; 5],
            full: (100, 0),
            written: 0,
            copied: 0,
            erased: 0,
            worn: 0,
        };
        for run in 0..runs {
            if let Some(oldest) = run.checked_sub(self.keep) {
                fs::remove_dir_all(rig.point.join(format!("run{oldest}")))?;
                settle(&rig)?;
            }
            let at = rig.point.join(format!("run{run}"));
            for (phase, spent) in done.phases_ns.iter_mut().enumerate() {
                let before = rig.with(|disk| Ok(disk.flash_ns()))?;
                perform(phase, &at)?;
                sync(&rig.point)?;
                *spent += rig.with(|disk| Ok(disk.flash_ns()))? - before;
                settle(&rig)?;
            }
            if run >= self.keep.min(runs - 1) {
                let used = percent_used(&rig.point)?;
                done.full = (done.full.0.min(used), done.full.1.max(used));
            }
        }
        rig.unmount()?;
        tool("e2fsck", &["-fn", rig.device()])?;
        let stats = rig.with(|disk| Ok(disk.device().disk().stats()))?;
        done.written = stats.sectors_written;
        done.copied = stats.blocks_copied;
        done.erased = stats.segments_erased;
        done.worn = rig.with(|disk| {
            let disk = disk.device().disk();
            let all = 0..disk.segments();
            Ok(all.map(|s| disk.segment(s).erases).max().unwrap_or(0))
        })?;
        Ok(done)
    }
}

fn sync(point: &Path) -> Result<()> {
    Ok(nix::unistd::syncfs(fs::File::open(point)?)?)
}

/// Everything is written, and the cleaner has done what it wants.
fn settle(rig: &Rig<Sectors<OnNor>>) -> Result<()> {
    sync(&rig.point)?;
    rig.with(|disk| {
        while disk.background()? {}
        Ok(())
    })
}

fn percent_used(point: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(point)?;
    let (all, free) = (stat.blocks(), stat.blocks_free());
    Ok((all - free) * 100 / all.max(1))
}

/// A phase of a run, in its directory.
fn perform(phase: usize, at: &Path) -> Result<()> {
    let [dirs, files, file_len, object_len] = TREE;
    if phase == 0 {
        fs::create_dir(at)?;
    }
    for d in 0..dirs {
        let dir = at.join(format!("d{d}"));
        match phase {
            0 => fs::create_dir(&dir)?,
            1 => {
                for f in 0..files {
                    fs::write(
                        dir.join(format!("file{f}.c")),
                        vec![b'0' + f as u8; file_len],
                    )?;
                }
            }
            2 => {
                for entry in fs::read_dir(&dir)? {
                    entry?.metadata()?;
                }
            }
            3 => read_all(&dir)?,
            _ => {
                // The compiler reads the sources; its object becomes a library.
                read_all(&dir)?;
                let object = dir.join("all.o");
                fs::write(&object, vec![d as u8; object_len])?;
                fs::write(at.join(format!("lib{d}.a")), fs::read(&object)?)?;
                fs::remove_file(&object)?;
            }
        }
    }
    Ok(())
}

fn read_all(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        fs::read(entry?.path())?;
    }
    Ok(())
}

//! A real ext3 and ext4 on jftl, with remapping and without, and the power cut anywhere.
//!
//! The kernel mounts the file system once, on a recorder behind FUSE and a loop device. What it
//! wrote, trimmed and flushed is replayed on a simulated NAND chip whose power fails in a program
//! or an erase. After each cut the disk must be as it was at some moment since the last flush that
//! returned; after the journal's replay `e2fsck` must find nothing, and each byte that a program
//! had synced must be in its file.
//!
//! Two file systems and a few cuts by default. `FLASHKIT_CUTS=1000` takes as many, half of them on
//! each layer, and all eighteen: both file systems, the three modes, with discard and without, with
//! checksums of metadata and without. A failure leaves the recording in a file:
//! `FLASHKIT_TRACE=file FLASHKIT_CUT=n` repeats that case, without root.

use std::collections::{HashMap, HashSet};

use crate::kernel::{
    Event, SECTOR, SECTORS, can_record, cuts, fail, fsck, fsx, load, number, record, record_load,
    said,
};
use flashkit_jftl::{Error, Jftl, JournalState, MapCache, Stats, ram_bytes};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::{
    ChipSpec, Cut, CutError, EraseTear, Metered, PowerCut, Rng, SimNand, Tear, Timing, preset,
};

/// Sectors behind the file system's that are written in between.
const OTHERS: u32 = 500;
/// Those that are looked at.
const ALL: u32 = SECTORS + OTHERS;

/// Small enough that what the kernel writes has to be cleaned.
fn shape() -> Geometry {
    Geometry::new(SECTOR as u32, 8, 32, 480).unwrap()
}

/// A chip with an empty disk.
fn chip() -> SimNand {
    let timing = Timing {
        read_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 2_000_000,
    };
    let mut chip = SimNand::new(ChipSpec::new(shape(), timing));
    Jftl::format(&mut chip, &mut ram(), 7).unwrap();
    chip
}

fn ram() -> Vec<u8> {
    vec![0xA5; ram_bytes(&shape(), MapCache::Whole).unwrap()]
}

fn table() -> Vec<u8> {
    vec![0; SECTOR + 4 * 4096 + 8 * 64]
}

/// For sums, and for copies of half a journal.
fn memory() -> [Vec<u8>; 2] {
    [vec![0; 4 * SECTORS as usize], vec![0; 1024 * (SECTOR + 12)]]
}

/// How a file system is made and mounted.
fn systems() -> Vec<(Vec<&'static str>, String)> {
    let mut all = Vec::new();
    let ext3: &[&str] = &["-t", "ext3", "-J", "size=1"];
    let plain: &[&str] = &["-t", "ext4", "-O", "^metadata_csum", "-J", "size=1"];
    let sums: &[&str] = &["-t", "ext4", "-O", "metadata_csum", "-J", "size=1"];
    for make in [ext3, sums, plain] {
        for mode in ["journal", "ordered", "writeback"] {
            for discard in ["discard", "nodiscard"] {
                all.push((make.to_vec(), format!("data={mode},{discard}")));
            }
        }
    }
    // What the first cuts take: all of ext3's journal, and ext4 as it is made today.
    all.swap(1, 8);
    all
}

/// The disk as it was flushed last, and each change since.
#[derive(Default)]
struct Model {
    base: HashMap<u32, Vec<u8>>,
    since: Vec<(u32, Vec<u8>)>,
}

impl Model {
    fn begin(&mut self, event: &Event) {
        match event {
            Event::Write(first, data) => {
                let sectors = (*first..).zip(data.chunks(SECTOR));
                self.since
                    .extend(sectors.map(|(s, bytes)| (s, bytes.to_vec())));
            }
            Event::Trim(first, count) => {
                let zeros = vec![0; SECTOR];
                self.since
                    .extend((*first..first + count).map(|s| (s, zeros.clone())));
            }
            Event::Flush | Event::Made | Event::Mark(_) => {}
        }
    }

    fn end(&mut self, event: &Event) {
        if *event == Event::Flush {
            self.base.extend(self.since.drain(..));
        }
    }

    /// Whether the disk is as it was after some of the changes since the flush.
    fn check(&self, found: &[u8]) -> Result<(), String> {
        let zeros = vec![0; SECTOR];
        let at = |sector: u32| &found[sector as usize * SECTOR..][..SECTOR];
        let mut wrong: HashSet<u32> = (0..ALL)
            .filter(|s| self.base.get(s).unwrap_or(&zeros) != at(*s))
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        for (sector, bytes) in &self.since {
            if bytes == at(*sector) {
                wrong.remove(sector);
            } else {
                wrong.insert(*sector);
            }
            if wrong.is_empty() {
                return Ok(());
            }
        }
        Err(format!("{} sectors are of another time", wrong.len()))
    }
}

/// Replays until the power is cut; what the disk has done. `at` events were begun.
fn replay<N: Nand>(
    nand: &mut N,
    remaps: bool,
    trace: &[Event],
    model: &mut Model,
    mut made: impl FnMut(&N),
    at: &mut usize,
) -> Result<Stats, Error<N::Error>> {
    let (mut ram, mut table, [mut sums, mut copies]) = (ram(), table(), memory());
    let mut page = vec![0; SECTOR];
    let mut disk = Jftl::mount(nand, &mut ram)?;
    assert!(disk.sector_count() >= ALL, "{}", disk.sector_count());
    if remaps {
        disk.watch_journal(&mut table);
        disk.remember(&mut sums, &mut copies);
        disk.pack(&mut page);
    }
    for event in trace {
        *at += 1;
        model.begin(event);
        event.apply(&mut disk)?;
        if *event == Event::Made {
            made(disk.nand());
        }
        model.end(event);
    }
    Ok(disk.stats())
}

fn cut(n: u64, made: u64, ops: u64) -> Cut {
    const TEARS: [Tear; 7] = [
        Tear::NotBegun,
        Tear::Prefix(200),
        Tear::Random,
        Tear::LooksBlank,
        Tear::Garbage,
        Tear::Complete,
        Tear::Unstable { reads: 4 },
    ];
    const ERASES: [EraseTear; 4] = [
        EraseTear::NotBegun,
        EraseTear::Partial,
        EraseTear::LooksErased,
        EraseTear::Complete,
    ];
    let mut rng = Rng::keyed(n, 78);
    Cut {
        after: made + rng.below(ops - made),
        program: TEARS[rng.below(7) as usize],
        erase: ERASES[rng.below(4) as usize],
        seed: rng.next_u64(),
    }
}

/// What is on the disk after the next mount.
fn recover(chip: SimNand) -> Result<Vec<u8>, String> {
    let mut ram = ram();
    let mut disk = Jftl::mount(chip, &mut ram).map_err(|e| format!("mount: {e}"))?;
    disk.check().map_err(|e| format!("check: {e}"))?;
    let mut found = vec![0; ALL as usize * SECTOR];
    disk.read(0, &mut found).map_err(|e| format!("read: {e}"))?;
    Ok(found)
}

/// Something else is written to the disk in between, so that blocks hold
/// what stays beside what goes.
fn with_others(trace: Vec<Event>) -> Vec<Event> {
    let mut rng = Rng::new(7);
    let mut other = || {
        let mut bytes = vec![0; SECTOR];
        rng.fill(&mut bytes);
        Event::Write(SECTORS + rng.below(u64::from(OTHERS)) as u32, bytes)
    };
    let mut with = Vec::new();
    for (i, event) in trace.into_iter().enumerate() {
        if i % 4 == 0 {
            with.push(other());
        }
        // The last one is a flush.
        with.push(event);
    }
    with
}

/// A recording, and for each layer the operations until there was a file system, and all.
struct Recording {
    trace: Vec<Event>,
    spans: [(u64, u64); 2],
}

impl Recording {
    fn new(trace: Vec<Event>) -> Recording {
        let mut spent = [0; 2];
        let spans = [false, true].map(|remaps| {
            let (mut nand, mut made) = (PowerCut::never(chip()), 0);
            let mut model = Model::default();
            let count = |nand: &PowerCut<SimNand>| made = nand.ops();
            let stats = replay(&mut nand, remaps, &trace, &mut model, count, &mut 0);
            let stats = stats.unwrap();
            assert!(stats.copies > 100, "nothing was cleaned: {stats:?}");
            assert_eq!(remaps, stats.elided > 100, "{stats:?}");
            assert_eq!(remaps, stats.packed > 100, "{stats:?}");
            let ops = nand.ops();
            spent[usize::from(remaps)] = nand.counters().time_ns;
            model.end(&Event::Flush);
            assert_eq!(model.check(&recover(nand.into_inner()).unwrap()), Ok(()));
            (made, ops)
        });
        // In no mode does following the journal cost more than it saves.
        let [page, jftl] = spent;
        println!("flash time: page {page} ns, jftl {jftl} ns");
        assert!(jftl <= page, "{spent:?}");
        Recording { trace, spans }
    }

    /// One cut; whether the journal held anything, and how many bytes were synced.
    fn crash(&self, n: u64) -> Result<(bool, u64), String> {
        let remaps = n.is_multiple_of(2);
        let (made, ops) = self.spans[usize::from(remaps)];
        let mut model = Model::default();
        let mut nand = PowerCut::new(chip(), cut(n, made, ops));
        let mut at = 0;
        match replay(&mut nand, remaps, &self.trace, &mut model, |_| (), &mut at) {
            Err(Error::Flash(CutError::PowerOff)) => {}
            other => return Err(format!("before the cut: {other:?}")),
        }
        let found = recover(nand.into_inner())?;
        model.check(&found)?;
        let image = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
        let replayed = fsck(image.path(), &found[..SECTORS as usize * SECTOR])?;
        // The last event may not have been begun: a mark is one that needs no power.
        let Some(files) = fsx::Files::after(self.trace[..at].iter()) else {
            return Ok((replayed, 0));
        };
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let dump = format!("rdump / {}", dir.path().display());
        said(
            "debugfs",
            &["-R", &dump, image.path().to_str().unwrap_or_default()],
        );
        Ok((replayed, files.check(dir.path())?))
    }
}

#[test]
fn file_systems_are_clean_after_any_power_cut() {
    let given = std::env::var("FLASHKIT_TRACE").ok();
    if given.is_none() && !can_record() {
        return;
    }
    let wanted = number("FLASHKIT_CUTS").unwrap_or(8);
    let cuts = cuts(wanted);
    let systems = match &given {
        Some(_) => vec![(Vec::new(), String::new())],
        None if wanted > 100 => systems(),
        None => systems().drain(..2).collect(),
    };
    let (count, mut replays, mut synced) = (systems.len() as u64, [0; 2], [0; 2]);
    for (i, (make, mount)) in systems.into_iter().enumerate() {
        let trace = match &given {
            Some(path) => load(path),
            None => {
                let mode = match mount.contains("writeback") {
                    true => fsx::WRITEBACK,
                    false => 0,
                };
                let seed = i as u32 | mode;
                let trace = record_load(&make, &mount, &|at, mark| {
                    fsx::run(seed, at, mark);
                });
                with_others(trace)
            }
        };
        let recording = Recording::new(trace);
        for n in cuts
            .clone()
            .filter(|n| given.is_some() || n / 2 % count == i as u64)
        {
            match recording.crash(n) {
                Ok((replayed, bytes)) => {
                    replays[n as usize % 2] += u64::from(replayed);
                    synced[n as usize % 2] += bytes;
                }
                Err(why) => {
                    let why = format!("{make:?} {mount}: {why}");
                    fail(given, &recording.trace, n, &why)
                }
            }
        }
    }
    for (layer, at) in [("jftl", 0), ("page", 1)] {
        let (replays, synced) = (replays[at], synced[at]);
        println!("{layer}: the journal held something {replays} times; {synced} bytes were synced");
    }
    let all = replays.iter().sum::<u64>().min(synced.iter().sum());
    assert!(all > 0 || cuts.end - cuts.start == 1);
}

/// `dd` of a disk in use, and the copy written to another: the log of the copy is
/// newer than the homes before it, and older than those behind. The other disk holds
/// what was copied, byte by byte.
#[test]
fn a_raw_copy_of_a_disk_in_use_is_restored() {
    if !can_record() {
        return;
    }
    let trace = record(&["-t", "ext3", "-J", "size=1"], "data=journal");
    let (mut ram_a, mut table_a) = (ram(), table());
    let mut disk = Jftl::mount(chip(), &mut ram_a).unwrap();
    disk.watch_journal(&mut table_a);
    let mut copy = vec![0; SECTORS as usize * SECTOR];
    let (mut copied, step) = (0, SECTORS as usize / 256);
    for (i, event) in trace.iter().enumerate() {
        event.apply(&mut disk).unwrap();
        // From the middle on, a piece after each event.
        if i > trace.len() / 2 && copied < SECTORS as usize {
            let piece = &mut copy[copied * SECTOR..(copied + step).min(SECTORS as usize) * SECTOR];
            disk.read(copied as u32, piece).unwrap();
            copied += step;
        }
    }
    let piece = &mut copy[copied.min(SECTORS as usize) * SECTOR..];
    disk.read(copied.min(SECTORS as usize) as u32, piece)
        .unwrap();
    let (mut ram_b, mut table_b, [mut sums, mut copies]) = (ram(), table(), memory());
    let mut page = vec![0; SECTOR];
    let mut other = Jftl::mount(chip(), &mut ram_b).unwrap();
    other.watch_journal(&mut table_b);
    other.remember(&mut sums, &mut copies);
    other.pack(&mut page);
    for (piece, first) in copy.chunks(64 * SECTOR).zip((0..).step_by(64)) {
        other.write(first, piece).unwrap();
        other.flush().unwrap();
    }
    // And once more over itself: now the journal is known, and some of it elided.
    for (piece, first) in copy.chunks(64 * SECTOR).zip((0..).step_by(64)) {
        other.write(first, piece).unwrap();
    }
    let mut found = vec![0; copy.len()];
    other.read(0, &mut found).unwrap();
    assert!(found == copy);
    other.close().unwrap();
    assert!(recover(other.into_nand()).unwrap()[..copy.len()] == copy);
}

/// With blocks of 1 KiB a block of pointers is behind each 256 blocks of the journal, and
/// often on both sides of it.
#[test]
fn a_journal_of_ext3_in_many_pieces_is_followed() {
    if !can_record() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(48 << 20).unwrap();
    let path = file.path().to_str().unwrap();
    let make = [
        "-q", "-F", "-t", "ext3", "-b", "1024", "-J", "size=16", path,
    ];
    said("mke2fs", &make);
    let [mut table, mut short] = [150, 64].map(|n| vec![0; SECTOR + 4 * (16 << 10) + 8 * n]);
    let mut chip = SimNand::new(preset("small-256m").unwrap());
    let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
    Jftl::format(&mut chip, &mut ram, 1).unwrap();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    for (sector, bytes) in (0..).zip(std::fs::read(path).unwrap().chunks_exact(SECTOR)) {
        if bytes.iter().any(|byte| *byte != 0) {
            disk.write(sector, bytes).unwrap();
        }
    }
    disk.watch_journal(&mut short);
    let why = "the journal is in more pieces than the table has room for";
    assert_eq!(disk.journal(), JournalState::None(why));
    disk.watch_journal(&mut table);
    let followed = JournalState::Watched {
        blocks: 16 << 10,
        block_size: 1024,
    };
    assert_eq!(disk.journal(), followed);
}

/// A check that finds nothing must be able to.
#[test]
fn a_sector_of_another_time_is_found() {
    let mut model = Model::default();
    let (first, second) = (Event::Write(3, vec![1; 512]), Event::Write(4, vec![2; 512]));
    model.begin(&first);
    model.begin(&second);
    let mut found = vec![0; ALL as usize * SECTOR];
    assert_eq!(model.check(&found), Ok(()));
    found[4 * SECTOR..5 * SECTOR].fill(2);
    // The later without the earlier.
    assert!(model.check(&found).is_err());
    found[3 * SECTOR..4 * SECTOR].fill(1);
    assert_eq!(model.check(&found), Ok(()));
    model.end(&Event::Flush);
    found[3 * SECTOR..4 * SECTOR].fill(0);
    assert!(model.check(&found).is_err());
}

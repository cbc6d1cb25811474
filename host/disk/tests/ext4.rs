//! A real ext4 with a journal on logdisk, and the power cut anywhere.
//!
//! The kernel mounts ext4 once, on a recorder behind FUSE and a loop device. What it wrote, trimmed
//! and flushed is then replayed on logdisk over a chip whose power fails in a word program or an
//! erase. After each cut every sector must hold what it may, and after the journal's replay `e2fsck`
//! must find nothing.
//!
//! A dozen cuts by default; `FLASHKIT_CUTS=1000` takes as many. A failure leaves the recording in a
//! file and names it: `FLASHKIT_TRACE=file FLASHKIT_CUT=n` repeats that case, without root.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, mpsc};

use flashkit_disk::{Disk, DiskFs, Result};
use flashkit_fuse::MountOptions;
use flashkit_logdisk::{Config, Error, LogDisk, Shape, Start, Step, ram_bytes};
use flashkit_sim::Rng;
use flashkit_sim::nor::{
    NorCut, NorCutError, NorEraseTear, NorPowerCut, NorSpec, NorTiming, SimNor, WordTear,
};

const SECTOR: usize = 512;
const SECTORS: u32 = 13_312;
/// 8 banks of 16 segments of 64 KiB: small enough that what ext4 writes has to be cleaned.
type Chip = SimNor<65_536>;

fn spec() -> NorSpec {
    let timing = NorTiming {
        read_ns: 1_000,
        program_ns: 10_000,
        erase_ns: 250_000_000,
        suspend_ns: 20_000,
    };
    NorSpec::new(8, 16, timing)
}

/// What the kernel asked of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Write(u32, Vec<u8>),
    Trim(u32, u32),
    Flush,
    /// From here on there is a file system.
    Made,
}

type Log = Arc<Mutex<Vec<Event>>>;

/// A disk in RAM that notes what it is asked for.
struct Recorder {
    bytes: Vec<u8>,
    log: Log,
}

impl Recorder {
    fn note(&self, event: Event) {
        self.log.lock().unwrap().push(event);
    }
}

fn sectors(offset: u64, len: u64) -> (u32, u32) {
    let sector = SECTOR as u64;
    assert!(offset.is_multiple_of(sector) && len.is_multiple_of(sector));
    ((offset / sector) as u32, (len / sector) as u32)
}

impl Disk for Recorder {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn block_size(&self) -> u32 {
        SECTOR as u32
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        buf.copy_from_slice(&self.bytes[offset as usize..][..buf.len()]);
        Ok(())
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let (first, _) = sectors(offset, data.len() as u64);
        self.note(Event::Write(first, data.into()));
        self.bytes[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        let (first, count) = sectors(offset, len);
        self.note(Event::Trim(first, count));
        self.bytes[offset as usize..][..len as usize].fill(0);
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        self.note(Event::Flush);
        Ok(())
    }
    fn background(&mut self) -> Result<bool> {
        Ok(false)
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
    fn summary(&self) -> String {
        String::new()
    }
    fn flash_ns(&self) -> u64 {
        0
    }
}

/// Whether a real ext4 can be had here; if not, says so, or fails where it must.
fn can_record() -> bool {
    let why = if !Path::new("/dev/fuse").exists() {
        "no /dev/fuse"
    } else if !nix::unistd::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        "no loop devices without root"
    } else {
        return true;
    };
    let required = std::env::var_os("FLASHKIT_REQUIRE_FUSE").is_some_and(|v| v == "1");
    assert!(!required, "FLASHKIT_REQUIRE_FUSE=1, but {why}");
    println!("skipped: {why}");
    false
}

fn run(name: &str, args: &[&str]) -> Output {
    let ran = Command::new(name).args(args).output();
    ran.unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn said(name: &str, args: &[&str]) -> String {
    let out = run(name, args);
    let text = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{name} {args:?}: {text}");
    text
}

/// Undoes what was mounted, whatever happens.
struct Undo(Vec<(&'static str, Vec<String>)>);

impl Undo {
    fn add(&mut self, name: &'static str, args: &[&str]) {
        self.0
            .push((name, args.iter().map(|&a| a.into()).collect()));
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        while let Some((name, args)) = self.0.pop() {
            let _ = Command::new(name).args(args).output();
        }
    }
}

/// What ext4 does for a while.
fn record() -> Vec<Event> {
    let here = tempfile::tempdir().unwrap();
    let (fuse, ext4) = (here.path().join("fuse"), here.path().join("ext4"));
    fs::create_dir(&fuse).unwrap();
    fs::create_dir(&ext4).unwrap();
    let log = Log::default();
    let recorder = Recorder {
        bytes: vec![0; SECTORS as usize * SECTOR],
        log: log.clone(),
    };
    let (ready, wait) = mpsc::channel();
    let point = fuse.clone();
    let server = std::thread::spawn(move || {
        let fs = Box::new(DiskFs::new(recorder, false));
        let mounted = flashkit_fuse::mount(fs, &point, &MountOptions::default(), || {
            ready.send(()).unwrap();
        });
        mounted.map(|_| ()).map_err(|e| e.to_string())
    });
    wait.recv().expect("mounted");
    let mut undo = Undo(Vec::new());
    undo.add("umount", &["-l", fuse.to_str().unwrap()]);
    let disk = fuse.join("disk");
    let device = said("losetup", &["--find", "--show", disk.to_str().unwrap()]);
    let device = device.trim();
    undo.add("losetup", &["-d", device]);
    said("mkfs.ext4", &["-q", "-b", "1024", device]);
    log.lock().unwrap().push(Event::Made);
    let at = ext4.to_str().unwrap();
    said("mount", &["-o", "discard", device, at]);
    undo.add("umount", &["-l", at]);
    let source = said("findmnt", &["-n", "-o", "SOURCE", at]);
    assert_eq!(source.trim(), device);
    work(&ext4);
    said("umount", &[at]);
    said("losetup", &["-d", device]);
    said("umount", &[fuse.to_str().unwrap()]);
    undo.0.clear();
    server.join().unwrap().unwrap();
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

/// Files come, go, grow and are renamed; some are synced.
fn work(at: &Path) {
    let mut rng = Rng::new(5);
    let mut bytes = vec![0; 70_000];
    for round in 0..5 {
        for i in 0..60 {
            let dir = at.join(format!("d{}", i % 4));
            fs::create_dir_all(&dir).unwrap();
            let name = dir.join(format!("f{}", rng.below(50)));
            let len = 200 + rng.below(60_000) as usize;
            rng.fill(&mut bytes[..len]);
            let mut file = File::create(&name).unwrap();
            file.write_all(&bytes[..len]).unwrap();
            if i % 6 == 0 {
                file.sync_all().unwrap();
            }
            drop(file);
            match rng.below(8) {
                0 => fs::remove_file(&name).unwrap(),
                1 => fs::rename(&name, dir.join(format!("f{}", rng.below(50)))).unwrap(),
                _ => {}
            }
        }
        let directory = File::open(at).unwrap();
        nix::unistd::syncfs(&directory).unwrap();
        if round == 2 {
            said("fstrim", &[at.to_str().unwrap()]);
        }
    }
}

fn save(trace: &[Event]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("flashkit-ext4-{}.trace", std::process::id()));
    let mut bytes = Vec::new();
    for event in trace {
        let (kind, first, count, data) = match event {
            Event::Write(first, data) => (0u8, *first, (data.len() / SECTOR) as u32, &data[..]),
            Event::Trim(first, count) => (1, *first, *count, &[][..]),
            Event::Flush => (2, 0, 0, &[][..]),
            Event::Made => (3, 0, 0, &[][..]),
        };
        bytes.push(kind);
        bytes.extend(first.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(data);
    }
    fs::write(&path, bytes).unwrap();
    path
}

fn load(path: &str) -> Vec<Event> {
    let mut file = std::io::BufReader::new(File::open(path).unwrap());
    let mut trace = Vec::new();
    let mut head = [0; 9];
    while file.read_exact(&mut head).is_ok() {
        let first = u32::from_le_bytes(head[1..5].try_into().unwrap());
        let count = u32::from_le_bytes(head[5..9].try_into().unwrap());
        trace.push(match head[0] {
            0 => {
                let mut data = vec![0; count as usize * SECTOR];
                file.read_exact(&mut data).unwrap();
                Event::Write(first, data)
            }
            1 => Event::Trim(first, count),
            2 => Event::Flush,
            _ => Event::Made,
        });
    }
    trace
}

/// What each sector holds, and what it may hold besides.
struct Model {
    holds: Vec<u8>,
    /// What was trimmed and not flushed.
    trimmed: BTreeMap<u32, Vec<u8>>,
    /// What the operation in flight may have replaced.
    before: BTreeMap<u32, Vec<u8>>,
}

impl Model {
    fn new() -> Model {
        Model {
            holds: vec![0; SECTORS as usize * SECTOR],
            trimmed: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    fn sector(&mut self, sector: u32) -> &mut [u8] {
        &mut self.holds[sector as usize * SECTOR..][..SECTOR]
    }

    fn begin(&mut self, event: &Event) {
        match event {
            Event::Write(first, data) => {
                for (sector, new) in (*first..).zip(data.chunks(SECTOR)) {
                    let old = self.sector(sector).to_vec();
                    self.before.insert(sector, old);
                    self.sector(sector).copy_from_slice(new);
                }
            }
            Event::Trim(first, count) => {
                for sector in *first..first + count {
                    let old = self.sector(sector).to_vec();
                    self.trimmed.entry(sector).or_insert(old);
                    self.sector(sector).fill(0);
                }
            }
            Event::Flush | Event::Made => {}
        }
    }

    fn end(&mut self, event: &Event) {
        match event {
            Event::Write(first, data) => {
                for sector in *first..first + (data.len() / SECTOR) as u32 {
                    self.trimmed.remove(&sector);
                }
                self.before.clear();
            }
            Event::Flush => self.trimmed.clear(),
            Event::Trim(..) | Event::Made => {}
        }
    }

    fn check(&self, found: &[u8]) -> std::result::Result<(), String> {
        let pairs = found.chunks(SECTOR).zip(self.holds.chunks(SECTOR));
        for (sector, (found, holds)) in (0..).zip(pairs) {
            let is = |other: Option<&Vec<u8>>| other.is_some_and(|other| other == found);
            if found != holds && !is(self.before.get(&sector)) && !is(self.trimmed.get(&sector)) {
                return Err(format!("sector {sector} holds something else"));
            }
        }
        Ok(())
    }
}

/// The ways to clean, one after another.
fn config(turn: u64) -> Config {
    match turn % 3 {
        0 => Config::new(),
        1 => Config {
            start: Start::Threshold {
                segments: 12,
                account: 113,
                curve: 1,
            },
            ..Config::paper()
        },
        _ => Config {
            start: Start::Reserve { segments: 8 },
            erasing_max: 3,
            open_max: 3,
            ..Config::new()
        },
    }
}

fn ram(config: &Config) -> Vec<u8> {
    let len = ram_bytes::<Chip>(8 << 20, 8, &shape(), config);
    vec![0xA5; len.unwrap()]
}

fn shape() -> Shape {
    Shape {
        sector_size: SECTOR as u32,
        sectors: SECTORS,
    }
}

type Cut = Error<NorCutError<flashkit_sim::nor::SimNorError>>;

/// Replays until the power is cut; how many operations on the chip had begun.
fn replay(
    nor: &mut NorPowerCut<Chip>,
    config: Config,
    trace: &[Event],
    model: &mut Model,
    made: &mut u64,
) -> std::result::Result<u64, Cut> {
    let mut ram = ram(&config);
    let mut disk = LogDisk::mount(nor, config, &mut ram)?;
    for event in trace {
        model.begin(event);
        match event {
            Event::Write(first, data) => disk.write(*first, data)?,
            Event::Trim(first, count) => disk.trim(*first, *count)?,
            Event::Flush => disk.flush()?,
            Event::Made => *made = disk.flash().ops(),
        }
        model.end(event);
        // As `flashkit attach` cleans in idle time, if the policy asks for it.
        for _ in 0..2 {
            if let Step::Idle | Step::Waiting = disk.clean_step()? {
                break;
            }
        }
    }
    Ok(disk.stats().segments_erased)
}

fn cut(n: u64, made: u64, ops: u64) -> NorCut {
    const WORDS: [WordTear; 6] = [
        WordTear::NotBegun,
        WordTear::Partial,
        WordTear::Noisy,
        WordTear::LooksDone { reads: 3 },
        WordTear::LooksUndone { reads: 1 },
        WordTear::Complete,
    ];
    const ERASES: [NorEraseTear; 5] = [
        NorEraseTear::NotBegun,
        NorEraseTear::Partial,
        NorEraseTear::Zeroed,
        NorEraseTear::Random,
        NorEraseTear::LooksErased { reads: 3 },
    ];
    let mut rng = Rng::keyed(n, 77);
    NorCut {
        after: made + rng.below(ops - made),
        program: WORDS[rng.below(6) as usize],
        erase: ERASES[rng.below(5) as usize],
        seed: rng.next_u64(),
    }
}

/// What is on the disk after the next mount.
fn recover(chip: Chip, config: Config) -> std::result::Result<Vec<u8>, String> {
    let mut ram = ram(&config);
    let mut disk = LogDisk::mount(chip, config, &mut ram).map_err(|e| format!("mount: {e}"))?;
    disk.check().map_err(|e| format!("check: {e:?}"))?;
    let mut found = vec![0; SECTORS as usize * SECTOR];
    disk.read(0, &mut found).map_err(|e| format!("read: {e}"))?;
    Ok(found)
}

/// The journal is replayed, and then there is nothing to complain of. Whether it held anything.
fn fsck(image: &Path, found: &[u8]) -> std::result::Result<bool, String> {
    fs::write(image, found).unwrap();
    let image = image.to_str().unwrap();
    let out = run("e2fsck", &["-fy", "-E", "journal_only", image]);
    let said = String::from_utf8_lossy(&out.stdout);
    let replayed = said.contains("recovering journal");
    if !matches!(out.status.code(), Some(0 | 1)) {
        return Err(format!("the journal's replay: {out:?}"));
    }
    let out = run("e2fsck", &["-fn", image]);
    if !out.status.success() {
        return Err(format!("e2fsck: {}", String::from_utf8_lossy(&out.stdout)));
    }
    Ok(replayed)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().expect(name))
}

#[test]
fn ext4_is_clean_after_any_power_cut() {
    let given = std::env::var("FLASHKIT_TRACE").ok();
    let trace = match &given {
        Some(path) => load(path),
        None if can_record() => record(),
        None => return,
    };
    let mut blank = Chip::new(spec());
    LogDisk::format(&mut blank, &shape(), 7).unwrap();
    let (mut ops, mut made) = ([0; 3], [0; 3]);
    for turn in 0..3 {
        let mut nor = NorPowerCut::never(blank.clone());
        let mut model = Model::new();
        let at = turn as usize;
        let erased = replay(&mut nor, config(turn), &trace, &mut model, &mut made[at]).unwrap();
        assert!(erased > 20, "{erased} segments erased: nothing was cleaned");
        ops[at] = nor.ops();
        let found = recover(nor.into_inner(), config(turn)).unwrap();
        assert!(found == model.holds);
    }
    let image = tempfile::NamedTempFile::new().unwrap();
    let cuts = match number("FLASHKIT_CUT") {
        Some(n) => n..n + 1,
        None => 0..number("FLASHKIT_CUTS").unwrap_or(12),
    };
    let mut replays = 0;
    for n in cuts.clone() {
        let (at, config) = ((n % 3) as usize, config(n));
        let mut model = Model::new();
        let mut nor = NorPowerCut::new(blank.clone(), cut(n, made[at], ops[at]));
        let ended = replay(&mut nor, config, &trace, &mut model, &mut 0);
        let checked = match ended {
            Err(Error::Flash(NorCutError::PowerOff)) => recover(nor.into_inner(), config),
            other => Err(format!("before the cut: {other:?}")),
        };
        let checked = checked.and_then(|found| {
            model.check(&found)?;
            fsck(image.path(), &found)
        });
        match checked {
            Ok(replayed) => replays += u64::from(replayed),
            Err(why) => {
                let path = given.map_or_else(|| save(&trace), PathBuf::from);
                let path = path.display();
                panic!("FLASHKIT_TRACE={path} FLASHKIT_CUT={n}: {why}");
            }
        }
    }
    println!("{cuts:?}: the journal held something {replays} times");
    assert!(replays > 0 || cuts.end - cuts.start == 1);
}

/// A check that finds nothing must be able to.
#[test]
fn a_sector_of_another_time_is_found() {
    let mut model = Model::new();
    let write = Event::Write(3, vec![1; 1_024]);
    model.begin(&write);
    let mut found = model.holds.clone();
    found[4 * SECTOR..5 * SECTOR].fill(0);
    assert_eq!(model.check(&found), Ok(()));
    model.end(&write);
    let said = model.check(&found).unwrap_err();
    assert_eq!(said, "sector 4 holds something else");
    model.begin(&Event::Trim(3, 2));
    assert!(model.check(&vec![1; found.len()]).is_err());
    found[3 * SECTOR..5 * SECTOR].fill(1);
    assert_eq!(model.check(&found), Ok(()));
    model.end(&Event::Flush);
    assert!(model.check(&found).is_err());
}

//! What a real kernel asks of a disk: recorded behind FUSE and a loop device, to be replayed.

pub mod fsx;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use flashkit_block::BlockDevice;
use flashkit_disk::{Disk, DiskFs, Result};
use flashkit_fuse::MountOptions;
use flashkit_sim::Rng;

pub const SECTOR: usize = 512;
pub const SECTORS: u32 = 13_312;

/// What the kernel asked of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Write(u32, Vec<u8>),
    Trim(u32, u32),
    Flush,
    /// From here on there is a file system.
    Made,
    /// What a program did then.
    Mark(Mark),
}

/// What a program does with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The operations are those of a seed.
    Load(u32),
    /// An operation begins.
    Began(u32),
    /// It has returned.
    Done(u32),
}

impl Event {
    /// Asks a disk for the same.
    pub fn apply<D: BlockDevice>(&self, disk: &mut D) -> std::result::Result<(), D::Error> {
        match self {
            Event::Write(first, data) => disk.write(*first, data),
            Event::Trim(first, count) => disk.trim(*first, *count),
            Event::Flush => disk.flush(),
            Event::Made | Event::Mark(_) => Ok(()),
        }
    }
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
}

/// Whether a real ext4 can be had here; if not, says so, or fails where it must.
pub fn can_record() -> bool {
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

pub fn run(name: &str, args: &[&str]) -> Output {
    let ran = Command::new(name).args(args).output();
    ran.unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn said(name: &str, args: &[&str]) -> String {
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

/// Unmounts what may be busy yet: the kernel may let go of a loop device's file only some
/// time after `losetup -d` has returned, and a process that another test begins holds this
/// one's files until it runs.
fn unmount_when_free(point: &Path) {
    let begun = Instant::now();
    loop {
        let out = run("umount", &[point.to_str().unwrap()]);
        if out.status.success() {
            return;
        }
        let why = String::from_utf8_lossy(&out.stderr);
        let in_time = begun.elapsed() < Duration::from_secs(10);
        assert!(in_time && why.contains("busy"), "{}", why.trim());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a file system does for a while, made and mounted so.
pub fn record(make: &[&str], mount: &str) -> Vec<Event> {
    record_load(make, mount, &|at, _| work(at))
}

/// Works on the file system in a directory, and may leave marks.
pub type Load<'a> = &'a dyn Fn(&Path, &dyn Fn(Mark));

/// The same under a load.
pub fn record_load(make: &[&str], mount: &str, load: Load<'_>) -> Vec<Event> {
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
        let mounted = flashkit_fuse::mount(fs, &point, &MountOptions::for_disk(), || {
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
    said("mke2fs", &[&["-q", "-b", "1024"], make, &[device]].concat());
    log.lock().unwrap().push(Event::Made);
    let at = ext4.to_str().unwrap();
    said("mount", &["-o", mount, device, at]);
    undo.add("umount", &["-l", at]);
    let source = said("findmnt", &["-n", "-o", "SOURCE", at]);
    assert_eq!(source.trim(), device);
    load(&ext4, &|mark| log.lock().unwrap().push(Event::Mark(mark)));
    unmount_when_free(&ext4);
    said("losetup", &["-d", device]);
    unmount_when_free(&fuse);
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
            Event::Mark(Mark::Load(n)) => (4, *n, 0, &[][..]),
            Event::Mark(Mark::Began(n)) => (5, *n, 0, &[][..]),
            Event::Mark(Mark::Done(n)) => (6, *n, 0, &[][..]),
        };
        bytes.push(kind);
        bytes.extend(first.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(data);
    }
    fs::write(&path, bytes).unwrap();
    path
}

/// The cuts to be made: `FLASHKIT_CUT` names one, else the first so many.
pub fn cuts(wanted: u64) -> Range<u64> {
    number("FLASHKIT_CUT").map_or(0..wanted, |n| n..n + 1)
}

/// Says how a cut is repeated that was not survived; the recording is kept
/// if it is not a given one.
pub fn fail(given: Option<String>, trace: &[Event], n: u64, why: &str) -> ! {
    let path = given.map_or_else(|| save(trace), PathBuf::from);
    panic!("FLASHKIT_TRACE={} FLASHKIT_CUT={n}: {why}", path.display());
}

pub fn load(path: &str) -> Vec<Event> {
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
            3 => Event::Made,
            4 => Event::Mark(Mark::Load(first)),
            5 => Event::Mark(Mark::Began(first)),
            _ => Event::Mark(Mark::Done(first)),
        });
    }
    trace
}

/// The journal is replayed, and then there is nothing to complain of. Whether it held anything.
pub fn fsck(image: &Path, found: &[u8]) -> std::result::Result<bool, String> {
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

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|n| n.parse().expect(name))
}

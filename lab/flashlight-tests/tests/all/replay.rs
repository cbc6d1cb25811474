//! Traces and generated workloads over the reference file system and a host directory.

use flashkit_vfs::any::{self, AnyNand};
use std::collections::BTreeSet;

use crate::common;
use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_nand::Nand as _;
use flashkit_sim::{SimNand, preset};

use flashkit_vfs::{
    Attr, DirEntry, FileSystem, Ino, Measured, MemoryFs, NewInode, Result, SetAttr, StatFs, Time,
};
use flashkit_workload::generate::{self, KNOWN, Postmark, Sysbench};
use flashkit_workload::{
    Line, Op, Options, Replayed, Report, Stopped, replay_dir, replay_fs, trace, traces,
};

fn options(request: usize) -> Options<'static> {
    Options {
        request,
        verify: true,
        fs: "memory".into(),
        ..Options::default()
    }
}

/// Every operation, files that grow and shrink, and reads across all of it.
const MIXED: &str = "
K d
C d/a 10000
R d/a 0 20000
U d/a 5000 3000
U d/a 9000 3000
R d/a 4000 8000
A d/a 100
T d/a 6000
T d/a 9000
R d/a 0 9000
M first
C b 0
A b 1
S b
S d
N d/a b
R b 1 8999
N b d/c
W d/c 77
U d/c 70 100
D d/c
I 5
K e
N d e/f
M second
Z e/f
C late 5000
";

#[test]
fn stored_traces_parse() {
    let bytes = |lines: &[Line]| lines.iter().map(|line| line.op.bytes()).sum::<u64>();
    let names: Vec<_> = traces::names().collect();
    assert_eq!(
        names,
        [
            "append",
            "cache",
            "config",
            "mail",
            "postmark",
            "randupd",
            "randupd75",
            "seq",
            "small",
            "tree"
        ]
    );
    let lines = |name| traces::open(name).unwrap();
    assert_eq!(
        (lines("append").len(), bytes(&lines("append"))),
        (20_003, 2_000_000)
    );
    assert_eq!(
        (lines("postmark").len(), bytes(&lines("postmark"))),
        (32_639, 16_318 << 17)
    );
    assert_eq!(
        (lines("randupd").len(), lines("randupd75").len()),
        (20_003, 40_003)
    );
    assert_eq!((lines("seq").len(), bytes(&lines("seq"))), (2, 190 << 20));
    assert_eq!(lines("small").len(), 20_002);
    let of_many_directories = ["cache", "config", "mail", "tree"].map(|name| lines(name).len());
    assert_eq!(of_many_directories, [60_001, 26_068, 22_042, 14_988]);
    assert!(traces::open("none").is_none());
}

#[test]
fn every_operation_replays_and_verifies() {
    for request in [1000, 2048, 1 << 20] {
        for fsync in [false, true] {
            let lines = trace::parse(MIXED.as_bytes()).unwrap();
            let mut fs = MemoryFs::new();
            let done = replay_fs(
                &mut fs,
                lines,
                Options {
                    fsync,
                    ..options(request)
                },
            )
            .unwrap();
            let names: Vec<_> = done.report.phases.iter().map(|p| p.name.as_str()).collect();
            assert_eq!(names, ["first", "second", "rest"]);
            let ops: Vec<_> = done.report.phases.iter().map(|p| p.ops).collect();
            assert_eq!((ops, done.report.total.ops), (vec![10, 12, 2], 24));
            assert_eq!(done.verified_bytes, 5000);
            assert_eq!(done.expected.unwrap().check_fs(&mut fs), Ok(5000));
        }
    }
}

#[test]
fn a_directory_takes_the_same_operations() {
    let dir = tempfile::tempdir().unwrap();
    let lines = trace::parse(MIXED.as_bytes()).unwrap();
    let done = replay_dir(
        dir.path(),
        lines,
        Options {
            fsync: true,
            ..options(777)
        },
    )
    .unwrap();
    assert_eq!((done.report.total.ops, done.report.total.flash_us), (24, 0));
    assert!(done.report.total.latency_us.max > 0.0);
    assert_eq!(
        std::fs::metadata(dir.path().join("late")).unwrap().len(),
        5000
    );
    let expected = done.expected.unwrap();
    assert_eq!(expected.check_dir(dir.path()), Ok(5000));
    std::fs::write(dir.path().join("extra"), "").unwrap();
    assert_eq!(
        expected.check_dir(dir.path()).unwrap_err(),
        "extra is there and should not be"
    );
    std::fs::remove_file(dir.path().join("extra")).unwrap();
    std::fs::remove_file(dir.path().join("late")).unwrap();
    assert_eq!(expected.check_dir(dir.path()).unwrap_err(), "late is lost");
}

fn replay_prefix(name: &str, len: usize, request: usize) -> Replayed {
    let lines = traces::open(name).unwrap().into_iter().take(len);
    replay_fs(&mut MemoryFs::new(), lines, options(request)).unwrap()
}

#[test]
fn stored_traces_replay() {
    let small = replay_prefix("small", usize::MAX, 2048);
    assert_eq!(small.report.total.ops, 20_000);
    assert_eq!(small.report.phases[0].ops, 5000);
    let append = replay_prefix("append", usize::MAX, 2048);
    assert_eq!(
        (append.report.total.user_bytes, append.verified_bytes),
        (2_000_000, 2_000_000)
    );
    let update = replay_prefix("randupd", 3000, 2048);
    assert_eq!(
        (update.verified_bytes, update.report.phases.len()),
        (100 << 20, 2)
    );
    let postmark = replay_prefix("postmark", 2000, 4096);
    assert_eq!(postmark.report.phases[0].user_bytes, 1300 << 17);
}

#[test]
fn a_failing_operation_is_named() {
    let fail = |text: &str| {
        let lines = trace::parse(text.as_bytes()).unwrap();
        replay_fs(&mut MemoryFs::with_capacity(8 << 10), lines, options(512))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fail("# x\nC a 1\nD b"),
        "line 3: `D b`: no such file or directory"
    );
    assert_eq!(fail("W b 5"), "line 1: `W b 5`: no such file or directory");
    assert_eq!(
        fail("C a 9000"),
        "line 1: `C a 9000`: no space left on the chip"
    );
    assert_eq!(fail("K a\nC a 1"), "line 2: `C a 1`: is a directory");
}

#[test]
fn the_report_has_the_fields_of_the_contract() {
    let lines = trace::parse(MIXED.as_bytes()).unwrap();
    let done = replay_fs(&mut MemoryFs::new(), lines, options(2048)).unwrap();
    let json = serde_json::to_value(&done.report).unwrap();
    let keys = |value: &serde_json::Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let set = |names: &str| -> BTreeSet<String> { names.split(' ').map(str::to_owned).collect() };
    assert_eq!(
        keys(&json),
        set("fs chip ram_bytes request fsync phases total remount")
    );
    assert_eq!(
        keys(&json["remount"]),
        set("page_reads spare_reads flash_us")
    );
    let phase = set(
        "name ops user_bytes page_reads spare_reads page_programs block_erases \
                     flash_us cpu_us latency_us host_us erase_count erases",
    );
    for held in json["phases"]
        .as_array()
        .unwrap()
        .iter()
        .chain([&json["total"]])
    {
        assert_eq!(keys(held), phase);
        for latency in ["latency_us", "host_us"] {
            assert_eq!(keys(&held[latency]), set("mean p50 p99 p999 max"));
        }
        for erases in ["erase_count", "erases"] {
            assert_eq!(keys(&held[erases]), set("min max mean stddev"));
        }
    }
    assert_eq!(
        (&json["total"]["name"], &json["request"]),
        (&"total".into(), &2048.into())
    );
}

/// What a phase leaves to be done is the next one's, if that begins at once.
#[test]
fn a_mark_ends_a_phase_without_a_sync() {
    let programs = |mark: &str| {
        let chip = SimNand::new(preset("micron-20m").unwrap());
        let mut ram = vec![0; ram_needed(&chip.geometry())];
        let (chip, new) = (AnyNand::new(chip), New::default());
        let chip = any::format(chip, &mut ram, 1, &new, Config::default()).unwrap();
        let mut fs = any::mount(chip, &mut ram, Config::default()).unwrap();
        let text = format!("C a 2048\n{mark} made\nM end\n");
        let lines: Vec<Line> = trace::parse(text.as_bytes()).unwrap();
        assert_eq!(lines[1].op.to_string(), format!("{mark} made"));
        let done = replay_fs(&mut fs, lines, options(2048)).unwrap();
        let phases = done.report.phases.iter();
        let found: Vec<_> = phases
            .map(|phase| (phase.name.clone(), phase.page_programs))
            .collect();
        found
    };
    let (synced, at_once) = (programs("M"), programs("P"));
    assert_eq!((&synced[0].0[..], &at_once[0].0[..]), ("made", "made"));
    // The page of data, and what the first program of a session takes; the inode and a checkpoint
    // come with the sync.
    assert_eq!((at_once[0].1, at_once[1].1), (4, 7));
    assert_eq!(synced[0].1, at_once[0].1 + at_once[1].1);
}

#[test]
fn generators_keep_to_their_parameters() {
    let ops: Vec<Op> = Sysbench::default().ops().collect();
    assert_eq!(ops[0].bytes(), 199_229_440);
    for seed in 0..5 {
        let postmark = Postmark {
            files: 30,
            size: 500,
            transactions: 2000,
            files_max: 40,
            seed,
        };
        let ops: Vec<Op> = postmark.ops().collect();
        assert_eq!(ops, postmark.ops().collect::<Vec<_>>());
        assert_eq!(
            ops[30],
            Op::Phase {
                name: "create".into()
            }
        );
        assert_eq!(
            ops[2031],
            Op::Phase {
                name: "mixed".into()
            }
        );
        assert_eq!(
            ops.last(),
            Some(&Op::Phase {
                name: "delete".into()
            })
        );
        let (mut live, mut most) = (BTreeSet::new(), 0);
        for op in &ops {
            match op {
                Op::Create { path, .. } => assert!(live.insert(path)),
                Op::Unlink { path } => assert!(live.remove(path)),
                _ => {}
            }
            most = most.max(live.len());
        }
        assert!(live.is_empty());
        assert!((31..=40).contains(&most));
        let done = replay_fs(&mut MemoryFs::new(), trace::number(ops), options(64)).unwrap();
        assert_eq!(done.report.phases[1].ops, 2000);
    }
    let empty = Postmark {
        files: 0,
        size: 1,
        transactions: 0,
        files_max: 1,
        seed: 0,
    };
    assert_eq!(empty.ops().count(), 3);
    assert_eq!(
        generate::find("postmark").unwrap().lines().len(),
        30_000 + 1300 + 3 + {
            let creates = Postmark::default()
                .ops()
                .filter(|op| matches!(op, Op::Create { .. }));
            2 * creates.count() - 1300 - 30_000
        }
    );
    assert!(KNOWN.iter().all(|known| !known.lines().is_empty()));
}

/// Each load runs, does as much as it always did, and has room on a chip of 256 MiB.
#[test]
fn loads_of_everyday_programs() {
    let cases = [
        ("fileserver", 13200, 536047154),
        ("varmail", 29001, 381987318),
        ("webserver", 23051, 374420036),
        ("dbench", 37999, 579780156),
        ("compile", 29971, 280921545),
        ("sqlite", 55420, 169998984),
        ("sensor", 22031, 1280000),
    ];
    for (name, ops, bytes) in cases {
        let lines = generate::find(name).unwrap().lines();
        let mut fs = MemoryFs::new();
        let done = replay_fs(&mut fs, lines, options(1 << 20));
        let total = done
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .report
            .total;
        assert_eq!((total.ops, total.user_bytes), (ops, bytes), "{name}");
    }
}

/// Damages one byte of one read, or of one write.
struct Damaged {
    fs: MemoryFs,
    reads: u32,
    writes: u32,
    bad_read: u32,
    bad_write: u32,
}

impl Measured for Damaged {}

impl FileSystem for Damaged {
    fn root(&self) -> Ino {
        self.fs.root()
    }
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.fs.lookup(dir, name)
    }
    fn lookup_dir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        self.fs.lookup_dir(dir, name)
    }
    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.fs.getattr(ino)
    }
    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.fs.setattr(ino, set)
    }
    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.create(dir, name, new)
    }
    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.mkdir(dir, name, new)
    }
    fn symlink(&mut self, dir: Ino, name: &[u8], to: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.symlink(dir, name, to, new)
    }
    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }
    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.fs.unlink(dir, name, now)
    }
    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.fs.rmdir(dir, name, now)
    }
    fn rename(&mut self, a: Ino, b: &[u8], c: Ino, d: &[u8], no: bool, now: Time) -> Result<()> {
        self.fs.rename(a, b, c, d, no, now)
    }
    fn exchange(&mut self, a: Ino, b: &[u8], c: Ino, d: &[u8], now: Time) -> Result<()> {
        self.fs.exchange(a, b, c, d, now)
    }
    fn open(&mut self, ino: Ino) -> Result<()> {
        self.fs.open(ino)
    }
    fn release(&mut self, ino: Ino) -> Result<()> {
        self.fs.release(ino)
    }
    fn forget(&mut self, ino: Ino) {
        self.fs.forget(ino);
    }
    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let n = self.fs.read(ino, offset, buf)?;
        self.reads += 1;
        if self.reads == self.bad_read {
            buf[n / 2] ^= 1;
        }
        Ok(n)
    }
    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let mut data = data.to_vec();
        self.writes += 1;
        if self.writes == self.bad_write {
            data[0] ^= 0x80;
        }
        self.fs.write(ino, offset, &data, now)
    }
    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.fs.fsync(ino)
    }
    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.fs.readdir(dir, cookie, each)
    }
    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.fs.parent(dir)
    }
    fn statfs(&mut self) -> Result<StatFs> {
        self.fs.statfs()
    }
    fn sync(&mut self) -> Result<()> {
        self.fs.sync()
    }
    fn unmount(&mut self) -> Result<()> {
        self.fs.unmount()
    }
}

#[test]
fn a_damaged_byte_is_found() {
    let run = |bad_read, bad_write| {
        let mut fs = Damaged {
            fs: MemoryFs::new(),
            reads: 0,
            writes: 0,
            bad_read,
            bad_write,
        };
        let text = "C a 9000\nC b 500\nR a 1000 4000\nA a 100\n";
        let lines = trace::parse(text.as_bytes()).unwrap();
        replay_fs(&mut fs, lines, options(2048)).map_err(|error| error.to_string())
    };
    assert!(run(0, 0).is_ok());
    let read = "line 3: `R a 1000 4000`: byte ";
    assert_eq!(run(1, 0).unwrap_err(), format!("{read}2024 is wrong"));
    assert_eq!(run(0, 2).unwrap_err(), format!("{read}2048 is wrong"));
    assert_eq!(run(0, 6).unwrap_err(), "verification: b: byte 0 is wrong");
    assert_eq!(
        run(0, 7).unwrap_err(),
        "verification: a: byte 9000 is wrong"
    );
}

/// What a limit of flash time leaves undone is told, and what was done has its figures.
#[test]
fn a_replay_stops_at_its_limit_of_flash_time() {
    // 4,608 programs of 0.2 ms, and 600.
    let updates: String = (0..300)
        .map(|i| format!("U a {} 4096\n", i * 8192))
        .collect();
    let text = format!("C a 9437184\nI 5000\nM prepare\n{updates}M update\n");
    let replay = |limit_s| {
        let chip = SimNand::new(preset("micron-20m").unwrap());
        let mut ram = vec![0; ram_needed(&chip.geometry())];
        let (chip, new) = (AnyNand::new(chip), New::default());
        let chip = any::format(chip, &mut ram, 1, &new, Config::default()).unwrap();
        let mut fs = any::mount(chip, &mut ram, Config::default()).unwrap();
        let options = Options {
            limit_s,
            ..options(4096)
        };
        let replayed = replay_fs(&mut fs, trace::parse(text.as_bytes()).unwrap(), options);
        replayed.unwrap().report
    };
    let names = |report: &Report| -> Vec<String> {
        report
            .phases
            .iter()
            .map(|phase| phase.name.clone())
            .collect()
    };
    let whole = replay(None);
    assert_eq!(names(&whole), ["prepare", "update"]);
    assert_eq!(whole.stopped, None);
    let long = replay(Some(2));
    assert_eq!((names(&long).len(), &long.stopped), (2, &None));

    let stopped = replay(Some(1));
    assert_eq!(names(&stopped), ["prepare", "update"]);
    let (done, total) = (&stopped.phases[1], &stopped.total);
    let at = Stopped {
        phase: "update".into(),
        ops: done.ops,
        of: 300,
    };
    assert_eq!(stopped.stopped, Some(at));
    assert!((1..300).contains(&done.ops), "{}", done.ops);
    assert!(total.page_programs > stopped.phases[0].page_programs + 2 * done.ops);
    assert!(
        (1_000_000..1_010_000).contains(&total.flash_us),
        "{}",
        total.flash_us
    );
    assert!(total.flash_us < whole.total.flash_us);
}

/// What the programs of a replay on a chip were for: all of them, with nothing left over while
/// nothing is moved for wear and nothing fails.
#[test]
fn the_programs_are_told_by_purpose() {
    let mut fs = common::of_paper();
    let lines =
        trace::parse(b"C a 1000000\nU a 4096 8192\nA a 5000\nM first\nD a\nC b 3000\n".as_slice());
    let mut options = options(2048);
    options.fsync = true;
    let report = replay_fs(&mut fs, lines.unwrap(), options).unwrap().report;
    for phase in report.phases.iter().chain([&report.total]) {
        let pages = |purpose: &str| {
            let found = phase.programs.iter().find(|p| p.purpose == purpose);
            found
                .unwrap_or_else(|| panic!("{purpose}: {:?}", phase.programs))
                .pages
        };
        let sum: u64 = phase.programs.iter().map(|p| p.pages).sum();
        assert_eq!(sum, phase.page_programs, "{}", phase.name);
        assert_eq!(pages("moved for wear, and the rest"), 0, "{}", phase.name);
        assert_eq!(pages("data moved by cleaning"), 0);
    }
    let first = &report.phases[0];
    // 488 pages, four, and two: what is behind the last whole page is in the inode.
    assert_eq!(first.programs[0].pages, 494);
    let bytes = 1_000_000.0 + 8192.0 + 5000.0;
    let amplified = (first.page_programs * 2048) as f64 / bytes;
    assert!(
        (first.write_amplification.unwrap() - amplified).abs() < 0.006,
        "{first:?}"
    );
}

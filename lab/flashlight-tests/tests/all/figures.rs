//! What FlashLight costs, in flash operations: exact, so that a change for the worse fails.

use crate::common::try_unmount;
use flashkit_flashlight::{Config, New, ram_needed, ram_useful};
use flashkit_nand::Nand;
use flashkit_sim::{Counters, Metered, SimNand, preset};
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::{FileSystem, NewInode};
use flashkit_workload::{Op, Options, Phase, Report, replay_fs, traces};

const RAM: usize = 16_384;

type Fs = AnyFs<'static, 'static>;

fn ram(bytes: usize) -> &'static mut [u8] {
    Box::leak(vec![0; bytes].into_boxed_slice())
}

fn formatted() -> SimNand {
    let chip = SimNand::new(preset("slc-256m").unwrap());
    assert!(ram_needed(&chip.geometry()) <= RAM);
    format(chip, RAM)
}

fn format(chip: SimNand, bytes: usize) -> SimNand {
    let chip = AnyNand::new(chip);
    let formatted = any::format(chip, ram(bytes), 1, &New::default(), Config::default());
    formatted.unwrap().take()
}

fn mount(chip: SimNand) -> Fs {
    mount_in(chip, RAM)
}

fn mount_in(mut chip: SimNand, bytes: usize) -> Fs {
    chip.clear_counters();
    any::mount(AnyNand::new(chip), ram(bytes), Config::default()).unwrap()
}

fn counters(fs: &mut Fs) -> Counters {
    fs.volume().nand().counters()
}

/// Replays a stored trace; gives the total and the reads of the mount after it.
fn replay(name: &str, fsync: bool) -> (Phase, u64) {
    let (report, reads) = report_of(name, fsync, RAM);
    (report.total, reads)
}

fn report_of(name: &str, fsync: bool, ram: usize) -> (Report, u64) {
    report_on(mount_in(formatted(), ram), name, fsync, ram)
}

fn report_on(mut fs: Fs, name: &str, fsync: bool, ram: usize) -> (Report, u64) {
    let options = Options {
        fsync,
        verify: true,
        ..Options::default()
    };
    let replayed = replay_fs(&mut fs, traces::open(name).unwrap(), options).unwrap();
    let chip = try_unmount(fs).unwrap();
    let mut again = mount_in(chip, ram);
    let reads = counters(&mut again).page_reads;
    replayed.expected.unwrap().check_fs(&mut again).unwrap();
    (replayed.report, reads)
}

fn counts(p: &Phase) -> (u64, u64, u64) {
    (p.page_reads, p.page_programs, p.block_erases)
}

#[test]
fn one_large_file() {
    let (total, mount_reads) = replay("seq", false);
    // Paper, Table V: 98,805 programs. Its data is 97,280 pages.
    assert_eq!(counts(&total), SEQ);
    assert!(mount_reads <= 40, "{mount_reads}");
}

#[test]
fn postmark_with_fsync() {
    let (total, mount_reads) = replay("postmark", true);
    assert_eq!(total.ops, 32_636);
    // Paper, Table VI, on its own random stream: 68,464 reads, 1,035,964 programs, 15,816
    // erases.
    assert_eq!(counts(&total), POSTMARK);
    assert!(mount_reads <= 40, "{mount_reads}");
}

#[test]
fn small_files_with_fsync() {
    assert_eq!(counts(&replay("small", true).0), SMALL);
}

/// The block table of 65,535 blocks lies on flash, in 33 pages: RAM and the reads of a
/// mount are as of 2,048 blocks.
#[test]
fn a_chip_of_8_gib_in_as_much_ram() {
    let chip = SimNand::new(preset("slc-8g").unwrap());
    assert!(ram_needed(&chip.geometry()) <= RAM);
    let fs = mount_in(format(chip, RAM), RAM);
    let (report, mount_reads) = report_on(fs, "small", true, RAM);
    assert_eq!(counts(&report.total), SMALL_8G);
    assert_eq!(mount_reads, 37);
}

#[test]
fn a_log_with_fsync() {
    assert_eq!(counts(&replay("append", true).0), APPEND);
}

/// The phase of overwrites of 4 KiB at random, each with an fsync, and the longest of them.
fn overwrites(name: &str, ram: usize) -> ((u64, u64, u64), u64) {
    let (report, mount_reads) = report_of(name, true, ram);
    assert!(mount_reads <= 40, "{mount_reads}");
    let updates = report.phases.iter().find(|p| p.name == "update").unwrap();
    let reads = updates.page_reads + updates.spare_reads;
    let counts = (reads, updates.page_programs, updates.block_erases);
    (counts, updates.latency_us.max as u64)
}

/// The data alone is 40,000 programs and 10.1 s, what came of it 11.25 s.
#[test]
fn overwrites_of_a_file_of_100_mib() {
    assert_eq!(overwrites("randupd", RAM), RANDUPD);
}

/// On a chip that is 70 % full. No write may wait longer than 12 ms.
#[test]
fn overwrites_of_a_file_of_180_mib() {
    assert_eq!(overwrites("randupd75", RAM), RANDUPD75);
}

/// With four times the RAM the dirty list knows every block: no page is read to learn whose it is
/// that is not valid. And maps are kept.
#[test]
fn overwrites_with_four_times_the_ram() {
    assert_eq!(overwrites("randupd", 4 * RAM), RANDUPD_64);
    assert_eq!(overwrites("randupd75", 4 * RAM), RANDUPD75_64);
}

#[test]
fn files_with_four_times_the_ram() {
    let of = |name| counts(&report_of(name, true, 4 * RAM).0.total);
    assert_eq!(of("postmark"), POSTMARK_64);
    assert_eq!(of("small"), SMALL_64);
}

/// Changes in many directories: with more RAM more of them are gathered, and more pages kept.
#[test]
fn changes_in_many_directories() {
    let found = MANY_DIRECTORIES.map(|(name, ..)| {
        let of = |ram| counts(&report_of(name, true, ram).0.total);
        (name, of(RAM), of(4 * RAM))
    });
    assert_eq!(found, MANY_DIRECTORIES);
}

/// A trace that was made for a chip of 256 MiB, on the SPI NAND of half of that which most small
/// boards have: 24 spare bytes, which hold an update in a short tag. A file of 100 MiB is halved,
/// and so is where it is overwritten.
fn on_spi_nand(name: &str) -> Phase {
    let mut lines = traces::open(name).unwrap();
    for line in &mut lines {
        match &mut line.op {
            Op::Create { size, .. } => *size /= 2,
            Op::Update { offset, .. } => *offset = *offset / 8192 * 4096,
            _ => {}
        }
    }
    let chip = SimNand::new(preset("w25n01gv").unwrap());
    assert_eq!(chip.geometry().spare_size(), 24);
    assert!(ram_needed(&chip.geometry()) <= RAM);
    let fs = mount_in(format(chip, RAM), RAM);
    let options = Options {
        fsync: true,
        ..Options::default()
    };
    let report = replay_fs(&mut { fs }, lines, options).unwrap().report;
    let phase = report.phases.iter().find(|p| p.name == "update");
    phase.unwrap_or(&report.total).clone()
}

/// 1.06 programs for each append as on `slc-256m`, and 2.26 for each overwrite of two pages, copies
/// among them, as of a chip of half the blocks more are kept free: it is cleaned.
#[test]
fn a_log_and_overwrites_with_24_spare_bytes() {
    let (append, randupd) = (on_spi_nand("append"), on_spi_nand("randupd"));
    assert_eq!(
        (counts(&append), append.page_copies),
        ((1_357, 21_250, 3), 0)
    );
    assert_eq!(
        (counts(&randupd), randupd.page_copies),
        ((6_140, 44_755, 98), 422)
    );
}

/// More than `ram_useful` is of no use.
#[test]
fn useful_ram_is_all_that_is_used() {
    let chip = SimNand::new(preset("slc-256m").unwrap());
    let useful = ram_useful(&chip.geometry());
    assert_eq!(useful, 4_254_080);
    let with = |ram| counts(&report_of("small", true, ram).0.total);
    assert_eq!(with(useful), SMALL_USEFUL);
    assert_eq!(with(5 << 20), SMALL_USEFUL);
}

/// Reads, programs, erases.
type Counts = (u64, u64, u64);
/// Name; in 16 KiB and in 64 KiB reads, programs, erases.
const MANY_DIRECTORIES: [(&str, Counts, Counts); 4] = [
    ("config", (29_745, 41_404, 4), (9_870, 40_623, 3)),
    ("tree", (91_209, 66_277, 4), (29_916, 50_912, 3)),
    ("mail", (52_998, 105_500, 3), (21_416, 102_554, 3)),
    (
        "cache",
        (313_188, 361_510, 4_090),
        (195_318, 317_164, 3_520),
    ),
];
const RANDUPD: ((u64, u64, u64), u64) = ((4_678, 43_404, 1), 4_628);
const RANDUPD75: ((u64, u64, u64), u64) = ((170_435, 149_015, 1_739), 8_581);
const RANDUPD_64: ((u64, u64, u64), u64) = ((2_046, 43_067, 1), 4_183);
const RANDUPD75_64: ((u64, u64, u64), u64) = ((96_182, 147_017, 1_707), 9_186);
const POSTMARK_64: (u64, u64, u64) = (23_405, 1_069_178, 14_672);
const SMALL_64: (u64, u64, u64) = (20_626, 34_681, 3);
const SMALL_USEFUL: (u64, u64, u64) = (10_799, 34_681, 3);
const SEQ: (u64, u64, u64) = (1_529, 97_420, 2);
const POSTMARK: (u64, u64, u64) = (48_704, 1_068_798, 14_665);
const SMALL: (u64, u64, u64) = (34_145, 34_681, 3);
const SMALL_8G: (u64, u64, u64) = (34_048, 34_982, 3);
const APPEND: (u64, u64, u64) = (1_355, 21_250, 3);

fn reads_of(fs: &mut Fs, what: impl FnOnce(&mut Fs)) -> u64 {
    let before = counters(fs);
    what(fs);
    let cost = counters(fs) - before;
    cost.page_reads + cost.spare_reads
}

fn remount(fs: Fs) -> Fs {
    mount(try_unmount(fs).unwrap())
}

/// Every component of a path costs at most three reads with cold caches, two in a directory that
/// fits its page. The root's own page is one more.
#[test]
fn lookups_read_little() {
    let new = NewInode::default();
    let mut fs = mount(formatted());
    let root = fs.root();
    let small = fs.mkdir(root, b"small", &new).unwrap().ino;
    let large = fs.mkdir(root, b"large", &new).unwrap().ino;
    fs.mkdir(small, b"dir", &new).unwrap();
    fs.create(small, b"file", &new).unwrap();
    for i in 0..3_000 {
        fs.create(large, format!("name {i}").as_bytes(), &new)
            .unwrap();
    }
    fs.mkdir(large, b"dir", &new).unwrap();
    let cases: [(&[&[u8]], u64); 6] = [
        (&[b"small"], 4),
        (&[b"small", b"file"], 5),
        (&[b"small", b"dir"], 6),
        (&[b"large", b"name 2999"], 6),
        (&[b"large", b"dir"], 7),
        (&[b"large", b"absent"], 5),
    ];
    for (path, most) in cases {
        fs = remount(fs);
        let reads = reads_of(&mut fs, |fs| {
            let mut dir = fs.root();
            for name in path {
                match fs.lookup(dir, name) {
                    Ok(attr) => dir = attr.ino,
                    Err(e) => {
                        assert_eq!((*name, e), (&b"absent"[..], flashkit_vfs::Error::NotFound));
                    }
                }
            }
        });
        assert!(reads <= most, "{path:?}: {reads} reads, more than {most}");
    }
}

/// A hundred thousand names in one directory: created, found, listed, half removed.
#[test]
fn a_hundred_thousand_names() {
    let new = NewInode::default();
    let mut fs = mount(formatted());
    let root = fs.root();
    let names = 100_000u32;
    for i in 0..names {
        fs.create(root, format!("file number {i}").as_bytes(), &new)
            .unwrap();
    }
    fs = remount(fs);
    assert!(counters(&mut fs).page_reads <= 40);
    let mut most = 0;
    for i in (0..names).step_by(997) {
        let name = format!("file number {i}");
        most = most.max(reads_of(&mut fs, |fs| {
            fs.lookup(root, name.as_bytes()).unwrap();
        }));
    }
    assert!(most <= 5, "{most} reads for a lookup");
    let mut seen = std::collections::HashSet::new();
    fs.readdir(root, 0, &mut |e| seen.insert(e.name)).unwrap();
    assert_eq!(seen.len(), names as usize);
    for i in (0..names).step_by(2) {
        fs.unlink(root, format!("file number {i}").as_bytes(), new.now)
            .unwrap();
    }
    fs = remount(fs);
    for i in (0..names).step_by(1_001) {
        let found = fs.lookup(root, format!("file number {i}").as_bytes());
        assert_eq!(found.is_ok(), i % 2 == 1, "{i}");
    }
    let checked = flashkit_vfs::check::check(fs.volume()).unwrap();
    assert_eq!(checked.findings, []);
    assert_eq!(checked.files, u64::from(names) / 2);
}

/// A full chip is an error that loses nothing; what is deleted comes back as space.
#[test]
fn a_full_chip() {
    let new = NewInode::default();
    let mut fs = mount(formatted());
    let root = fs.root();
    let data = vec![0x5a; 300_000];
    let free = fs.statfs().unwrap().blocks_free;
    for round in 0..3 {
        let mut made = Vec::new();
        let error = loop {
            let name = format!("{round}-{}", made.len());
            let written = fs
                .create(root, name.as_bytes(), &new)
                .and_then(|a| fs.write(a.ino, 0, &data, new.now));
            match written {
                Ok(()) => made.push(name),
                Err(e) => break e,
            }
        };
        assert_eq!(error, flashkit_vfs::Error::NoSpace);
        assert!(made.len() > 800, "{}", made.len());
        fs = remount(fs);
        for name in &made {
            let file = fs.lookup(root, name.as_bytes()).unwrap();
            let mut got = vec![0; data.len()];
            assert_eq!(fs.read(file.ino, 0, &mut got), Ok(data.len()));
            assert!(got == data);
        }
        for name in &made {
            fs.unlink(root, name.as_bytes(), new.now).unwrap();
        }
        let _ = fs.unlink(root, format!("{round}-{}", made.len()).as_bytes(), new.now);
        let back = fs.statfs().unwrap().blocks_free;
        assert!(free - back <= 40, "{} pages did not come back", free - back);
        assert_eq!(
            flashkit_vfs::check::check(fs.volume()).unwrap().findings,
            []
        );
    }
}

//! Traces that other file systems were measured with, replayed here: figures that compare.

use std::io::Write;
use std::time::{Duration, Instant};

use flashkit_sim::Preset;
use flashkit_workload::{Options, Report, replay_fs, traces};

use crate::progress::Progress;
use crate::text::{self, Table};
use crate::volume::{self, Tuning};

/// The geometry that the peers were measured on: page size, pages per block, blocks.
const GEOMETRY: (u32, u32, u32) = (2_048, 64, 2_048);
/// Bytes of one read or write in all measurements.
const REQUEST: usize = 2_048;
/// A machine that needs longer for the first trace is spared the second.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts of one file system for one trace.
struct Counts {
    name: &'static str,
    reads: u64,
    programs: u64,
    erases: u64,
    ram: &'static str,
}

const fn peer(
    name: &'static str,
    reads: u64,
    programs: u64,
    erases: u64,
    ram: &'static str,
) -> Counts {
    Counts {
        name,
        reads,
        programs,
        erases,
        ram,
    }
}

/// A trace, the least that any file system can do for it, and what peers did.
struct Measured {
    trace: &'static str,
    about: &'static str,
    fsync: bool,
    /// First the limit.
    others: [Counts; 5],
}

const UBIFS_RAM: &str = "about 10 MB, and page cache";
const JFFS2_RAM: &str = "about 260 MB";

/// Where the figures of YAFFS2 are from. A test of `lab/rivals` measures those of `seq` again.
const YAFFS2_SOURCE: &str =
    "YAFFS2: `flashkit lab run peers --only /yaffs2`, from Debian's u-boot 2023.01+dfsg-2+deb12u3.";

/// Measured on the same geometry with the same traces. UBIFS and JFFS2: Linux 6.1 over nandsim,
/// without compression, operations counted in the kernel, RAM after `postmark`; YAFFS2: its direct
/// interface, the most RAM that it asked for; littlefs 2.11: cache of a page.
const MEASURED: [Measured; 2] = [
    Measured {
        trace: "seq",
        about: "one file of 190 MiB, written in sequence",
        fsync: false,
        others: [
            peer("limit: the data", 0, 97_280, 0, ""),
            peer("UBIFS", 528, 102_871, 41, UBIFS_RAM),
            peer("YAFFS2", 3_091, 99_046, 0, "544,320 bytes"),
            peer("littlefs", 98_814, 97_288, 1_521, "not measured"),
            peer("JFFS2", 129_236, 194_372, 1_034, JFFS2_RAM),
        ],
    },
    Measured {
        trace: "postmark",
        about: "16,318 files of 128 KiB come and go, every write synced",
        fsync: true,
        others: [
            peer("limit: the data", 0, 1_044_352, 14_270, ""),
            peer("UBIFS", 223_228, 1_173_925, 16_501, UBIFS_RAM),
            peer("YAFFS2", 693_216, 1_778_099, 26_242, "860,720 bytes"),
            peer("JFFS2", 9_557_540, 2_389_990, 35_393, JFFS2_RAM),
            peer("littlefs", 69_128_391, 1_094_677, 17_419, "not measured"),
        ],
    },
];

/// Replays what the peers were measured with on new chips in RAM, if this chip is like theirs.
pub fn run(chip: &Preset, ram: Option<usize>, out: &mut dyn Write) -> anyhow::Result<()> {
    if (chip.page_size, chip.pages_per_block, chip.blocks) != GEOMETRY {
        return Ok(());
    }
    writeln!(
        out,
        "\nBeside others, measured on the same geometry with the same traces:"
    )?;
    for measured in &MEASURED {
        let start = Instant::now();
        let ours = replay(measured, chip, ram)?;
        writeln!(out, "\n{}: {}", measured.trace, measured.about)?;
        table(measured, &ours, chip).print(out, 2)?;
        out.flush()?;
        if start.elapsed() > PATIENCE {
            break;
        }
    }
    writeln!(out, "\n{YAFFS2_SOURCE}")?;
    Ok(())
}

/// The whole run, unmounting included.
fn replay(measured: &Measured, chip: &Preset, ram: Option<usize>) -> anyhow::Result<Report> {
    let lines = traces::open(measured.trace).unwrap_or_default();
    let total = lines.iter().map(|line| line.op.bytes()).sum();
    let mut bar = Progress::new("replaying", total);
    let mut progress = |bytes| bar.at(bytes);
    let options = Options {
        request: REQUEST,
        fsync: measured.fsync,
        progress: Some(&mut progress),
        ..Options::default()
    };
    let mut volume = volume::in_ram(chip, Tuning::from(ram))?;
    Ok(replay_fs(volume.fs(), lines, options)?.report)
}

fn table(measured: &Measured, ours: &Report, chip: &Preset) -> Table {
    let total = &ours.total;
    let mut table = Table::new(&["", "page reads", "programs", "erases", "flash time", "RAM"]);
    let mut row = |name: &str, reads: u64, programs: u64, erases: u64, ram: String| {
        let timing = chip.timing;
        let ns = reads * timing.read_ns + programs * timing.program_ns + erases * timing.erase_ns;
        table.row([
            name.into(),
            text::count(reads),
            text::count(programs),
            text::count(erases),
            text::duration(ns),
            ram,
        ]);
    };
    let [limit, peers @ ..] = &measured.others;
    row(
        limit.name,
        limit.reads,
        limit.programs,
        limit.erases,
        String::new(),
    );
    row(
        "flashlight, now",
        total.page_reads + total.spare_reads,
        total.page_programs,
        total.block_erases,
        format!("{} bytes", text::count(ours.ram_bytes as u64)),
    );
    for peer in peers {
        row(
            peer.name,
            peer.reads,
            peer.programs,
            peer.erases,
            peer.ram.into(),
        );
    }
    table.ragged()
}

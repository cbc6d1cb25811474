//! `flashkit replay`, and what `flashkit bench` shares with it.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_sim::{DEFAULT_PRESET, Preset};
use flashkit_vfs::Counters;
use flashkit_workload::{Line, Meter, Options, Phase, Report, replay_dir, replay_fs, trace};

use crate::Outcome;
use crate::failure::Usage;
use crate::interrupt::Interrupt;
use crate::monitored::Monitored;
use crate::place::check_dir;
use crate::progress::Progress;
use crate::text::{self, Table};
use crate::values;
use crate::volume::{self, Tuning};

/// The file system that a simulated chip has.
const FLASHLIGHT: &str = "flashlight";

/// Replay a trace of file operations and show what it cost.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  flashkit replay --fsync --verify postmark.trace\n  \
    flashkit replay --request 2048 --json seq.trace.gz\n  flashkit replay --dir /mnt seq.trace\n\n\
    docs/traces.md has the format: one operation a line, as `C path size`, `R path offset size`."
)]
pub struct Args {
    /// Trace file, plain or gzip
    trace: PathBuf,
    #[command(flatten)]
    how: How,
    /// End every writing operation in an fsync
    #[arg(long)]
    fsync: bool,
}

/// Over what to run operations, and how.
#[derive(clap::Args)]
pub struct How {
    /// File system, on a fresh chip in RAM
    #[arg(long, default_value = FLASHLIGHT, value_parser = [FLASHLIGHT])]
    fs: String,
    /// Chip, as `flashkit chips` lists them [default: slc-256m]
    #[arg(long, value_name = "NAME", value_parser = values::chip)]
    chip: Option<&'static Preset>,
    #[command(flatten)]
    bus: values::BusOption,
    #[command(flatten)]
    tuning: Tuning,
    /// Run over this directory of the host instead
    #[arg(long, value_name = "PATH", conflicts_with_all = ["fs", "ram", "cleaner"])]
    dir: Option<PathBuf>,
    /// With --dir: count the flash operations of this machine's raw NAND and price them as those of
    /// --chip; for root
    #[arg(long, requires = "dir")]
    monitor: bool,
    /// With --dir: drop the page cache at the end of each phase; for root
    #[arg(long, requires = "dir")]
    cold: bool,
    /// With --dir: in a directory with something in it, too; files of the trace's names are
    /// overwritten or removed, directories may be there
    #[arg(long, requires = "dir")]
    force: bool,
    /// Bytes in one read or write, up to 64MiB
    #[arg(long, value_name = "BYTES", value_parser = values::request, default_value = "4096")]
    request: usize,
    /// Compare everything read with what was written, and all that is left after a remount
    #[arg(long)]
    verify: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl How {
    fn chip(&self) -> Preset {
        let default = flashkit_sim::preset(DEFAULT_PRESET);
        let chip = self.chip.or(default);
        self.bus.of(chip.unwrap_or(&flashkit_sim::presets()[0]))
    }

    /// Refuses a chip that nothing would be priced with, and a directory that nothing is to be
    /// replayed over.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.dir.is_some() && self.chip.is_some() && !self.monitor {
            return Err(Usage("--chip with --dir needs --monitor".into()).into());
        }
        if self.dir.is_some() && self.bus.is_some() {
            let why = "--bus with --dir: operations are counted there, and not bytes";
            return Err(Usage(why.into()).into());
        }
        if let Some(dir) = &self.dir {
            check_dir(dir)?;
            if !self.force && !is_empty(dir)? {
                bail!(
                    "{}: not empty; --force replays over what is there",
                    text::path(dir)
                );
            }
        }
        Ok(())
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.how.check()?;
    let shown = text::path(&args.trace);
    if args.trace.is_dir() {
        bail!("{shown}: is a directory, not a trace");
    }
    let lines = trace::read(&args.trace).with_context(|| shown.to_string())?;
    run_lines(&lines, &args.how, args.fsync, out).with_context(|| shown.to_string())
}

/// Runs operations and prints the figures.
pub fn run_lines(lines: &[Line], how: &How, fsync: bool, out: &mut dyn Write) -> Outcome {
    let total = lines.iter().map(|line| line.op.bytes()).sum();
    let mut bar = Progress::new("replaying", total);
    let mut progress = |bytes| bar.at(bytes);
    let interrupt = Interrupt::noted()?;
    let stop = || interrupt.is_here();
    let options = Options {
        request: how.request,
        fsync,
        verify: how.verify,
        stop: Some(&stop),
        force: how.force,
        progress: Some(&mut progress),
        ..Options::default()
    };
    let (mut report, verified) = match &how.dir {
        Some(dir) => over_directory(dir, how, lines, options)?,
        None => over_chip(how, lines, options)?,
    };
    drop(bar);
    if let Some(chip) = report.chip.as_deref().and_then(flashkit_sim::preset) {
        report.price(|reads, programs, erases| chip.energy_uj(reads, programs, erases));
    }
    if how.json {
        let told = serde_json::to_string_pretty(&report)?;
        writeln!(out, "{}", text::json(&told))?;
    } else {
        print(&report, verified, how.verify, out)?;
    }
    Ok(interrupt.or(ExitCode::SUCCESS))
}

fn over_directory(
    dir: &Path,
    how: &How,
    lines: &[Line],
    mut options: Options<'_>,
) -> anyhow::Result<(Report, u64)> {
    options.fs = "dir".into();
    options.cold = how.cold;
    let mut meter = None;
    if how.monitor {
        let chip = how.chip();
        let counts = Monitored::start(&chip)?;
        options.chip = Some(chip.name.into());
        options.meter = Some(Box::new(counts.clone()));
        meter = Some(counts);
    }
    let mut replayed = replay_dir(dir, lines.iter().cloned(), options)?;
    if let Some(meter) = meter {
        let before = meter.cost();
        // The sync at the end of a phase does not reach a mount of flashkit: what it has not
        // written yet belongs to the last phase.
        match flashkit_fuse::ask_for_sync(&mount_of(dir)?) {
            Ok(()) => add(&mut replayed.report, meter.cost() - before),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            Err(error) => return Err(error).context("sync"),
        }
        meter.check()?;
    }
    Ok((replayed.report, replayed.verified_bytes))
}

/// Where the file system is mounted that a directory is in.
fn mount_of(dir: &Path) -> io::Result<PathBuf> {
    let mut point = dir.canonicalize()?;
    let device = point.metadata()?.dev();
    while let Some(above) = point.parent()
        && above.metadata()?.dev() == device
    {
        point.pop();
    }
    Ok(point)
}

/// Adds what was done at the end to the figures of the last phase, and to those of all.
fn add(report: &mut Report, cost: Counters) {
    for phase in report
        .phases
        .last_mut()
        .into_iter()
        .chain([&mut report.total])
    {
        phase.page_reads += cost.page_reads;
        phase.spare_reads += cost.spare_reads;
        phase.page_programs += cost.page_programs;
        phase.block_erases += cost.block_erases;
        phase.flash_us += cost.time_ns.div_ceil(1000);
    }
}

/// Whether a directory has nothing in it but what mkfs.ext4 has put there.
fn is_empty(dir: &Path) -> anyhow::Result<bool> {
    let named = || text::path(dir);
    for entry in std::fs::read_dir(dir).with_context(named)? {
        if entry.with_context(named)?.file_name() != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

fn over_chip(how: &How, lines: &[Line], mut options: Options<'_>) -> anyhow::Result<(Report, u64)> {
    let mut volume = volume::in_ram(&how.chip(), how.tuning)?;
    options.fs.clone_from(&how.fs);
    options.chip = Some(volume.chip.clone());
    let replayed = replay_fs(volume.fs(), lines.iter().cloned(), options)?;
    let mut volume = volume.remount()?;
    let mut report = replayed.report;
    report.remount = volume.mount_cost.into();
    let mut verified = replayed.verified_bytes;
    if let Some(expected) = &replayed.expected {
        verified += expected
            .check_fs(volume.fs())
            .map_err(|what| anyhow::anyhow!("verification after the remount: {what}"))?;
    }
    volume.unmount()?;
    Ok((report, verified))
}

fn print(report: &Report, verified: u64, verify: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let fsync = if report.fsync {
        ", fsync after each write"
    } else {
        ""
    };
    match &report.chip {
        Some(chip) => {
            let ram = text::count(report.ram_bytes as u64);
            write!(out, "{} on {chip}, {ram} bytes of RAM", report.fs)?;
        }
        None => write!(
            out,
            "directory (no flash figures; latencies are time on the wall)"
        )?,
    }
    writeln!(
        out,
        ", requests of {} bytes{fsync}",
        text::count(report.request as u64)
    )?;
    if let Some(stopped) = &report.stopped {
        let (done, of) = (text::count(stopped.ops), text::count(stopped.of));
        let phase = text::name(stopped.phase.as_bytes());
        writeln!(
            out,
            "stopped in phase {phase}, after {done} of its {of} operations"
        )?;
    }
    let headings = [
        "phase", "ops", "user", "reads", "spare", "programs", "erases", "flash", "cpu", "p50 us",
        "p99 us", "p99.9 us", "max us",
    ];
    let mut table = Table::new(&headings);
    for phase in report.phases.iter().chain([&report.total]) {
        table.row(cells(phase));
    }
    table.print(out, 0)?;
    print_bus(report, out)?;
    print_purposes(report, out)?;
    if report.chip.is_some() {
        print_chip(report, out)?;
    }
    if verify {
        writeln!(
            out,
            "verified: {} read back as written",
            text::bytes(verified)
        )?;
    }
    Ok(())
}

/// What of the chip is left after it.
fn print_chip(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let worn = &report.total.erase_count;
    writeln!(
        out,
        "erases per block: {} to {}, mean {:.2}, deviation {:.2}",
        worn.min, worn.max, worn.mean, worn.stddev
    )?;
    if let Some(uj) = report.total.energy_uj {
        writeln!(
            out,
            "energy of the chip's operations: {:.2} J",
            uj as f64 / 1e6
        )?;
    }
    let remount = &report.remount;
    writeln!(
        out,
        "mounting again: {}, {} of spare bytes, {}",
        text::plural(remount.page_reads, "page read"),
        text::count(remount.spare_reads),
        text::duration(remount.flash_us.saturating_mul(1_000))
    )?;
    Ok(())
}

/// Array and bus apart, where the bus of the chip is counted.
fn print_bus(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = Table::new(&["phase", "array", "bus", "bytes over the bus", "of an op"]);
    for phase in report.phases.iter().chain([&report.total]) {
        let Some(bus) = phase.bus else {
            continue;
        };
        let us = |us: u64| text::duration(us.saturating_mul(1_000));
        table.row([
            text::name(phase.name.as_bytes()),
            us(bus.array_us),
            us(bus.bus_us),
            text::count(bus.bus_bytes),
            text::count(bus.bus_bytes / phase.ops.max(1)),
        ]);
    }
    if report.total.bus.is_none() {
        return Ok(());
    }
    writeln!(out)?;
    table.print(out, 0)
}

/// What the programs were for, a column for each phase.
fn print_purposes(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let phases: Vec<&Phase> = report.phases.iter().chain([&report.total]).collect();
    if report.total.programs.is_empty() {
        return Ok(());
    }
    let names = phases.iter().map(|phase| text::name(phase.name.as_bytes()));
    let headings: Vec<String> = std::iter::once("programs for".to_owned())
        .chain(names)
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for (i, purpose) in report.total.programs.iter().enumerate() {
        let pages = phases
            .iter()
            .map(|phase| text::count(phase.programs.get(i).map_or(0, |p| p.pages)));
        table.row_of(
            std::iter::once(purpose.purpose.clone())
                .chain(pages)
                .collect(),
        );
    }
    let amplified = phases.iter().map(|phase| {
        phase
            .write_amplification
            .map_or(String::new(), |x| format!("{x:.2}"))
    });
    table.row_of(
        std::iter::once("bytes programmed per byte written".to_owned())
            .chain(amplified)
            .collect(),
    );
    writeln!(out)?;
    table.print(out, 0)
}

fn cells(phase: &Phase) -> [String; 13] {
    let us = |us: u64| text::duration(us.saturating_mul(1_000));
    let latency = &phase.latency_us;
    [
        text::name(phase.name.as_bytes()),
        text::count(phase.ops),
        text::bytes(phase.user_bytes),
        text::count(phase.page_reads),
        text::count(phase.spare_reads),
        text::count(phase.page_programs),
        text::count(phase.block_erases),
        us(phase.flash_us),
        us(phase.cpu_us),
        latency.p50.to_string(),
        latency.p99.to_string(),
        latency.p999.to_string(),
        latency.max.to_string(),
    ]
}

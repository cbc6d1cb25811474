//! `flashkit monitor`

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use flashkit_flashmon::mtd::{self, Mtd};
use flashkit_flashmon::{Counts, Erases, Event, Flashmon, Process};
use serde_json::{Value, json};

use crate::Outcome;
use crate::output::check_fresh;
use crate::{text, values};

/// How long at most until a signal is noticed and the kernel's log is emptied.
const STEP: Duration = Duration::from_millis(50);
/// Lines between two headings.
const PAGE: u64 = 20;
/// Processes and blocks shown at the end.
const BUSIEST: usize = 8;

/// Count the flash operations of this machine's raw NAND chips, live, until Ctrl-C.
#[derive(clap::Args)]
#[command(
    after_help = "Counts what the kernel's NAND driver is asked for, by tracing; needs root, and no module.\n\
    SPI NAND has another driver, and is not seen.\n\n\
    Examples:\n  flashkit monitor\n  flashkit monitor --json --seconds 60 > wear.json\n  \
    flashkit monitor --log operations.json"
)]
pub struct Args {
    /// Seconds between two lines, from 0.05
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    interval: f64,
    /// End after so many seconds, from 0.05
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Write each operation to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Size of the kernel's buffer for --log, for each CPU, from 16 to 1048576; what does not fit
    /// is counted as lost
    #[arg(long, value_name = "KIB", requires = "log", default_value = "4096",
          value_parser = values::number::<u32>("a number of KiB", 16, 1 << 20))]
    buffer: u32,
    /// Print JSON: one object for each interval, and one with all blocks and processes at the end
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.05 to 10000000".into()),
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in flashkit_fuse::ending_signals() {
        signal_hook::flag::register(signal, stop.clone()).context("signals")?;
    }
    let mut monitor = Flashmon::start()?;
    let mut log = match &args.log {
        Some(path) => Some(Log::create(path.clone())?),
        None => None,
    };
    if log.is_some() {
        monitor.log(args.buffer)?;
    }
    let mut watch = Watch {
        devices: mtd::devices(),
        args,
        lines: 0,
        last: Counts::default(),
    };
    watch.greet(out)?;
    let start = Instant::now();
    let mut due = args.interval;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(STEP);
        if let Some(log) = &mut log {
            log.write(monitor.take()?, &watch.devices)?;
        }
        let now = start.elapsed().as_secs_f64();
        if now >= due {
            watch.line(now, monitor.counts()?, out)?;
            due += args.interval * ((now - due) / args.interval).floor() + args.interval;
        }
        if args.seconds.is_some_and(|seconds| now >= seconds) {
            break;
        }
    }
    if let Some(log) = &mut log {
        log.write(monitor.take()?, &watch.devices)?;
        log.lost = monitor.lost()?;
        log.out.flush().with_context(|| text::path(&log.path))?;
    }
    let found = Found {
        seconds: start.elapsed().as_secs_f64(),
        counts: monitor.counts()?,
        erases: monitor.erases()?,
        processes: monitor.processes()?,
    };
    watch.end(&found, log.as_ref(), out)?;
    Ok(ExitCode::SUCCESS)
}

/// The file of single operations.
struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    operations: u64,
    lost: u64,
}

impl Log {
    fn create(path: PathBuf) -> anyhow::Result<Log> {
        let named = || text::path(&path);
        check_fresh(&path).with_context(named)?;
        let file = File::create(&path).with_context(named)?;
        Ok(Log {
            path,
            out: BufWriter::new(file),
            operations: 0,
            lost: 0,
        })
    }

    fn write(&mut self, events: Vec<Event>, devices: &[Mtd]) -> anyhow::Result<()> {
        let pages = mtd::pages_per_block(devices);
        for mut event in events {
            event.block = event.block.or_else(|| Some(event.page? / pages?));
            self.operations += 1;
            let written = serde_json::to_writer(&mut self.out, &event)
                .map_err(io::Error::from)
                .and_then(|()| self.out.write_all(b"\n"));
            written.with_context(|| text::path(&self.path))?;
        }
        Ok(())
    }
}

/// What there was, at the end.
struct Found {
    seconds: f64,
    counts: Counts,
    erases: Erases,
    processes: Vec<Process>,
}

/// What is shown meanwhile.
struct Watch<'a> {
    args: &'a Args,
    devices: Vec<Mtd>,
    lines: u64,
    last: Counts,
}

impl Watch<'_> {
    fn greet(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.args.json {
            return Ok(());
        }
        for mtd in &self.devices {
            writeln!(
                out,
                "{} \"{}\": {}, {} blocks of {} pages of {} + {} bytes",
                mtd.device,
                text::name(mtd.name.as_bytes()),
                text::bytes(mtd.size),
                text::count(mtd.blocks().into()),
                mtd.pages_per_block(),
                mtd.page_size,
                mtd.spare_size
            )?;
        }
        out.flush()
    }

    fn line(&mut self, seconds: f64, counts: Counts, out: &mut dyn Write) -> anyhow::Result<()> {
        let new = counts - self.last;
        self.last = counts;
        if self.args.json {
            let object = json!({ "seconds": round(seconds), "new": new, "all": counts });
            writeln!(out, "{object}")?;
        } else {
            if self.lines.is_multiple_of(PAGE) {
                let heads = [
                    "seconds", "reads", "spare", "programs", "spare", "erases", "all",
                ];
                for head in heads {
                    write!(out, "{head:>11}")?;
                }
                writeln!(out)?;
            }
            write!(out, "{seconds:>11.1}")?;
            let figures = [
                new.page_reads,
                new.spare_reads,
                new.page_programs,
                new.spare_programs,
                new.block_erases,
                counts.total(),
            ];
            for figure in figures {
                write!(out, "{:>11}", text::count(figure))?;
            }
            writeln!(out)?;
        }
        self.lines += 1;
        Ok(out.flush()?)
    }

    fn end(&self, found: &Found, log: Option<&Log>, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.args.json {
            writeln!(out, "{}", text::json(&self.object(found, log).to_string()))?;
            return Ok(());
        }
        let counts = found.counts;
        writeln!(
            out,
            "\nin {:.1} s: {} and {} of spare bytes, {} and {} of spare bytes, {}",
            found.seconds,
            text::plural(counts.page_reads, "page read"),
            text::count(counts.spare_reads),
            text::plural(counts.page_programs, "program"),
            text::count(counts.spare_programs),
            text::plural(counts.block_erases, "erase"),
        )?;
        if counts.missed > 0 {
            writeln!(
                out,
                "not counted: {}",
                text::plural(counts.missed, "operation")
            )?;
        }
        for process in found.processes.iter().take(BUSIEST) {
            writeln!(
                out,
                "  {} ({}): {}, {}, {}",
                text::name(process.name.as_bytes()),
                process.pid,
                text::plural(
                    process.counts.page_reads + process.counts.spare_reads,
                    "read"
                ),
                text::plural(
                    process.counts.page_programs + process.counts.spare_programs,
                    "program"
                ),
                text::plural(process.counts.block_erases, "erase"),
            )?;
        }
        worn(&found.erases, out)?;
        if let Some(log) = log {
            let (logged, lost) = (
                text::plural(log.operations, "operation"),
                text::count(log.lost),
            );
            writeln!(out, "{}: {logged}, {lost} lost", text::path(&log.path))?;
        }
        Ok(())
    }

    fn object(&self, found: &Found, log: Option<&Log>) -> Value {
        let blocks: Vec<_> = found
            .erases
            .blocks
            .iter()
            .map(|((chip, block), erases)| json!([chip, block, erases]))
            .collect();
        let mut object = json!({
            "seconds": round(found.seconds),
            "devices": self.devices,
            "all": found.counts,
            "erases": blocks,
            "erases_dropped": found.erases.dropped,
            "processes": found.processes,
        });
        if let Some(log) = log {
            object["log"] = json!({ "operations": log.operations, "lost": log.lost });
        }
        object
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// How evenly blocks were erased, and which most.
fn worn(erases: &Erases, out: &mut dyn Write) -> io::Result<()> {
    let mut blocks: Vec<_> = erases.blocks.iter().collect();
    blocks.sort_by_key(|(_, erases)| std::cmp::Reverse(**erases));
    let Some((_, most)) = blocks.first() else {
        return Ok(());
    };
    let named: Vec<String> = blocks
        .iter()
        .take(BUSIEST)
        .map(|((chip, block), erases)| match chip {
            0 => format!("{block} ({erases})"),
            _ => format!("{chip}:{block} ({erases})"),
        })
        .collect();
    writeln!(
        out,
        "{} erased, at most {most} times; most often {}",
        text::plural(blocks.len() as u64, "block"),
        named.join(", ")
    )
}

//! Flashmon: counts and logs the flash operations of a running kernel, without a module.
//!
//! P. Olivier, J. Boukhobza and E. Senn's Flashmon (SIGBED Review 11(1), 2014) is a kernel module
//! with probes on the MTD layer. The kernel's own tracing does the same today: kprobe events on
//! the functions that every raw NAND driver goes through, counted in the kernel by histogram
//! triggers, and logged in a ring buffer of bounded size when someone wants single operations.
//!
//! | module | what it does |
//! | --- | --- |
//! | `probe` | which functions of the kernel are which flash operations |
//! | `text` | what tracefs prints, parsed |
//! | `mtd` | the MTD devices of this machine, from sysfs |
//!
//! What is counted is what the driver is asked for, retries and the driver's own bad-block table
//! included, whoever asks: file system, UBI, a dump of the chip. SPI NAND has other functions and
//! is not seen. On a chip of several dies, addresses are those within a die.
//!
//! ```no_run
//! use flashkit_flashmon::Flashmon;
//!
//! // As root, on a kernel with a raw NAND driver.
//! let monitor = Flashmon::start()?;
//! let before = monitor.counts()?;
//! std::fs::write("/mnt/flash/log", b"up\n").unwrap();
//! println!("{} programs", monitor.counts()?.page_programs - before.page_programs);
//! # Ok::<(), flashkit_flashmon::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod mtd;
mod probe;
mod text;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use error::Error;
pub use probe::Kind;
pub use text::Event;

/// Where tracefs is, or was before Linux 4.1.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Blocks whose erases are counted apart: those there are, within these limits. The kernel
/// allocates room for all of them at once.
const BLOCKS: std::ops::RangeInclusive<u32> = 1 << 10..=1 << 17;
/// Processes that are counted apart.
const PROCESSES: u32 = 1 << 11;

/// How many operations there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Reads of a page, or of a part of its data.
    pub page_reads: u64,
    /// Reads of spare bytes alone.
    pub spare_reads: u64,
    /// Programs of a page.
    pub page_programs: u64,
    /// Programs of spare bytes alone: JFFS2's clean markers, bad-block marks.
    pub spare_programs: u64,
    /// Erases.
    pub block_erases: u64,
    /// Operations that the kernel could not count: a probe was hit inside of a probe.
    pub missed: u64,
}

impl Counts {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::PageRead => &mut self.page_reads,
            Kind::SpareRead => &mut self.spare_reads,
            Kind::PageProgram => &mut self.page_programs,
            Kind::SpareProgram => &mut self.spare_programs,
            Kind::BlockErase => &mut self.block_erases,
        }
    }

    /// All operations.
    pub fn total(&self) -> u64 {
        self.page_reads
            + self.spare_reads
            + self.page_programs
            + self.spare_programs
            + self.block_erases
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            page_reads: self.page_reads - before.page_reads,
            spare_reads: self.spare_reads - before.spare_reads,
            page_programs: self.page_programs - before.page_programs,
            spare_programs: self.spare_programs - before.spare_programs,
            block_erases: self.block_erases - before.block_erases,
            missed: self.missed - before.missed,
        }
    }
}

/// What one process asked for. A process that writes to the page cache asks for nothing: its pages
/// are written by a kernel thread, or by whoever syncs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Process or kernel thread.
    pub pid: u32,
    /// Its name, cut to 15 bytes by the kernel.
    pub name: String,
    /// What it asked for.
    pub counts: Counts,
}

/// Erases of each block of each chip, and those the kernel had no room to tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erases {
    /// (chip, block) and how often it was erased. Chips are numbered in the order of the kernel's
    /// addresses for them: a machine with one has chip 0.
    pub blocks: BTreeMap<(u32, u32), u64>,
    /// Erases of blocks beyond the limit of 131,072.
    pub dropped: u64,
}

/// Probes in the kernel, for as long as this lives. What it set up is taken away when it is
/// dropped; what a killed one left behind is taken away by the next.
#[derive(Debug)]
pub struct Flashmon {
    tracefs: PathBuf,
    instance: PathBuf,
    id: u32,
    blocks: u32,
    /// Read over and over.
    profile: File,
    log: Option<Log>,
}

#[derive(Debug)]
struct Log {
    pipe: File,
    /// The unfinished last line.
    rest: Vec<u8>,
}

impl Flashmon {
    /// Sets the probes and starts to count.
    ///
    /// # Errors
    /// No root, no tracefs, a kernel without kprobe events, no raw NAND driver; each says what is
    /// missing.
    pub fn start() -> Result<Flashmon, Error> {
        let tracefs = TRACEFS
            .iter()
            .map(Path::new)
            .find(|dir| dir.join("trace").exists())
            .ok_or_else(Error::no_tracefs)?;
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        if !probe::functions_exist(&symbols) {
            return Err(Error::NoNand);
        }
        // Partitions have their chip beside them, or not; rather too many blocks than too few.
        let blocks = mtd::devices().iter().map(mtd::Mtd::blocks).sum();
        Flashmon::start_in(tracefs, blocks)
    }

    /// [`Flashmon::start`] with the tracefs at another place.
    fn start_in(tracefs: &Path, blocks: u32) -> Result<Flashmon, Error> {
        let events = tracefs.join("kprobe_events");
        if !events.exists() {
            return Err(Error::NoKprobes);
        }
        let id = std::process::id();
        sweep(tracefs);
        let path = tracefs.join("kprobe_profile");
        let profile = File::open(&path).map_err(|error| Error::io(&path, error))?;
        let mut monitor = Flashmon {
            tracefs: tracefs.to_owned(),
            instance: tracefs.join("instances").join(probe::group(id)),
            id,
            blocks: blocks
                .clamp(*BLOCKS.start(), *BLOCKS.end())
                .next_power_of_two(),
            profile,
            log: None,
        };
        // From here on a failure drops the monitor, which takes away what is there already.
        for kind in Kind::ALL {
            append(&events, &kind.definition(id))?;
        }
        create_dir(&monitor.instance)?;
        for kind in Kind::ALL {
            monitor.count(kind)?;
        }
        Ok(monitor)
    }

    /// Has the kernel count one kind of operations.
    fn count(&mut self, kind: Kind) -> Result<(), Error> {
        let path = self.event(kind).join("trigger");
        if kind == Kind::BlockErase {
            append(&path, &format!("hist:keys=chip,block:size={}", self.blocks))?;
        }
        append(
            &path,
            &format!("hist:keys=common_pid.execname:size={PROCESSES}"),
        )
    }

    fn event(&self, kind: Kind) -> PathBuf {
        let group = self.instance.join("events").join(probe::group(self.id));
        group.join(kind.event(self.id))
    }

    /// What there was since the start. Reads one small file.
    ///
    /// # Errors
    /// tracefs cannot be read, or prints what this version does not know.
    pub fn counts(&self) -> Result<Counts, Error> {
        let path = self.tracefs.join("kprobe_profile");
        let text = read_again(&self.profile, &path)?;
        let mut counts = Counts::default();
        for kind in Kind::ALL {
            let (hits, missed) = text::profile(&text, &kind.event(self.id))
                .ok_or_else(|| Error::unexpected(&path, kind.name()))?;
            *counts.of(kind) = hits;
            counts.missed += missed;
        }
        Ok(counts)
    }

    /// The erases of each block since the start. Reads a line for each block erased.
    ///
    /// # Errors
    /// As [`Flashmon::counts`].
    pub fn erases(&self) -> Result<Erases, Error> {
        let path = self.event(Kind::BlockErase).join("hist");
        let hist = text::hist(&read(&path)?, "chip");
        let mut chips: Vec<u64> = hist
            .entries
            .iter()
            .filter_map(|e| e.number("chip"))
            .collect();
        chips.sort_unstable();
        chips.dedup();
        let mut erases = Erases {
            dropped: hist.dropped,
            ..Erases::default()
        };
        for entry in &hist.entries {
            let at = entry.number("chip").zip(entry.number("block"));
            let (chip, block) = at.ok_or_else(|| Error::unexpected(&path, "a block"))?;
            let chip = chips.binary_search(&chip).unwrap_or(0) as u32;
            let block = u32::try_from(block).map_err(|_| Error::unexpected(&path, "a block"))?;
            *erases.blocks.entry((chip, block)).or_default() += entry.hits;
        }
        Ok(erases)
    }

    /// Operations by process, the busiest first.
    ///
    /// # Errors
    /// As [`Flashmon::counts`].
    pub fn processes(&self) -> Result<Vec<Process>, Error> {
        let mut found: BTreeMap<u32, Process> = BTreeMap::new();
        for kind in Kind::ALL {
            let path = self.event(kind).join("hist");
            for entry in text::hist(&read(&path)?, "common_pid").entries {
                let (name, pid) = entry
                    .process()
                    .ok_or_else(|| Error::unexpected(&path, "a process"))?;
                let process = found.entry(pid).or_insert_with(|| Process {
                    pid,
                    name,
                    counts: Counts::default(),
                });
                *process.counts.of(kind) += entry.hits;
            }
        }
        let mut found: Vec<Process> = found.into_values().collect();
        found.sort_by_key(|process| std::cmp::Reverse(process.counts.total()));
        Ok(found)
    }

    /// Starts to log single operations in a ring buffer of the kernel, of so many KiB for each
    /// CPU. When it is full, the oldest are lost, and [`Flashmon::lost`] counts them. To be called
    /// once.
    ///
    /// # Errors
    /// As [`Flashmon::counts`].
    pub fn log(&mut self, buffer_kib: u32) -> Result<(), Error> {
        write(
            &self.instance.join("buffer_size_kb"),
            &buffer_kib.to_string(),
        )?;
        write(&self.instance.join("trace_clock"), "mono")?;
        let path = self.instance.join("trace_pipe");
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let pipe = opened.map_err(|error| Error::io(&path, error))?;
        self.log = Some(Log {
            pipe,
            rest: Vec::new(),
        });
        for kind in Kind::ALL {
            write(&self.event(kind).join("enable"), "1")?;
        }
        Ok(())
    }

    /// The operations logged since the last call; does not wait for any.
    ///
    /// # Errors
    /// As [`Flashmon::counts`].
    pub fn take(&mut self) -> Result<Vec<Event>, Error> {
        let path = self.instance.join("trace_pipe");
        let id = self.id;
        let Some(log) = &mut self.log else {
            return Ok(Vec::new());
        };
        let mut chunk = vec![0; 1 << 16];
        loop {
            match log.pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => log.rest.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(&path, error)),
            }
        }
        let whole = log
            .rest
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let lines: Vec<u8> = log.rest.drain(..whole).collect();
        let lines = String::from_utf8_lossy(&lines);
        Ok(lines
            .lines()
            .filter_map(|line| text::event(line, id))
            .collect())
    }

    /// Operations that were logged and overwritten before [`Flashmon::take`] saw them.
    ///
    /// # Errors
    /// As [`Flashmon::counts`].
    pub fn lost(&self) -> Result<u64, Error> {
        let path = self.instance.join("per_cpu");
        let cpus = fs::read_dir(&path).map_err(|error| Error::io(&path, error))?;
        let mut lost = 0;
        for cpu in cpus.flatten() {
            lost += text::overrun(&read(&cpu.path().join("stats"))?);
        }
        Ok(lost)
    }
}

impl Drop for Flashmon {
    fn drop(&mut self) {
        self.log = None;
        remove(&self.tracefs, self.id);
    }
}

/// Takes away what a monitor set up. What is not there is no error.
fn remove(tracefs: &Path, id: u32) {
    let group = probe::group(id);
    let instance = tracefs.join("instances").join(&group);
    // With its instance go its triggers and its log.
    let _ = fs::remove_dir(&instance);
    let events = tracefs.join("kprobe_events");
    for kind in Kind::ALL {
        let _ = append(&events, &format!("-:{group}/{}", kind.event(id)));
    }
}

/// Takes away what monitors have left behind that were killed.
fn sweep(tracefs: &Path) {
    let known = fs::read_to_string(tracefs.join("kprobe_events")).unwrap_or_default();
    for id in probe::ids(&known) {
        if !Path::new("/proc").join(id.to_string()).exists() {
            remove(tracefs, id);
        }
    }
}

fn create_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir(path).map_err(|error| Error::io(path, error))
}

fn read(path: &Path) -> Result<String, Error> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads a file that is open from its beginning.
fn read_again(file: &File, path: &Path) -> Result<String, Error> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match file.read_at(&mut chunk, text.len() as u64) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&chunk[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path, error)),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::io(path, error))
}

fn append(path: &Path, text: &str) -> Result<(), Error> {
    let opened = OpenOptions::new().append(true).open(path);
    let done = opened.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    done.map_err(|error| Error::io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files where tracefs has files; what is appended stays to be read.
    fn tracefs() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kprobe_events"), "").unwrap();
        fs::write(dir.path().join("kprobe_profile"), "").unwrap();
        fs::create_dir(dir.path().join("instances")).unwrap();
        dir
    }

    #[test]
    fn a_kernel_without_probes() {
        let dir = tempfile::tempdir().unwrap();
        let error = Flashmon::start_in(dir.path(), 1).unwrap_err();
        assert_eq!(error.to_string(), "this kernel has no kprobe events");
    }

    #[test]
    fn what_is_set_up_is_taken_away() {
        let dir = tracefs();
        let events = dir.path().join("kprobe_events");
        // A plain folder gets no trigger files by itself: the start fails half-way.
        let error = Flashmon::start_in(dir.path(), 1).unwrap_err();
        assert!(
            matches!(&error, Error::Io(path, _) if path.ends_with("trigger")),
            "{error}"
        );
        let id = std::process::id();
        let text = fs::read_to_string(&events).unwrap();
        for kind in Kind::ALL {
            assert!(text.contains(&kind.definition(id)), "{text}");
            assert!(
                text.contains(&format!("-:flashmon_{id}/{}", kind.event(id))),
                "{text}"
            );
        }
        assert_eq!(
            fs::read_dir(dir.path().join("instances")).unwrap().count(),
            0
        );
    }

    #[test]
    fn what_a_killed_one_left_is_taken_away() {
        let dir = tracefs();
        let events = dir.path().join("kprobe_events");
        let dead = 0x7fff_fff0;
        let own = std::process::id();
        let left = format!(
            "{}\n{}\n",
            Kind::PageRead.definition(dead),
            Kind::PageRead.definition(own)
        );
        fs::write(&events, left).unwrap();
        sweep(dir.path());
        let text = fs::read_to_string(&events).unwrap();
        assert!(text.contains(&format!("-:flashmon_{dead}/page_read_{dead}")));
        assert!(!text.contains(&format!("-:flashmon_{own}/")));
    }

    #[test]
    fn counts_are_read() {
        let dir = tracefs();
        let path = dir.path().join("kprobe_profile");
        let monitor = Flashmon {
            tracefs: dir.path().to_owned(),
            instance: dir.path().join("instances/none"),
            id: 7,
            blocks: 1024,
            profile: File::open(&path).unwrap(),
            log: None,
        };
        let lines =
            Kind::ALL.map(|kind| format!("  {}   {} 1\n", kind.event(7), kind.name().len()));
        fs::write(&path, lines.concat()).unwrap();
        let counts = monitor.counts().unwrap();
        assert_eq!(
            (counts.page_reads, counts.spare_programs, counts.missed),
            (9, 13, 5)
        );
        assert_eq!(counts.total(), 9 + 10 + 12 + 13 + 11);
        fs::write(&path, lines[..4].concat()).unwrap();
        let error = monitor.counts().unwrap_err().to_string();
        assert!(error.ends_with("block_erase was expected there"), "{error}");
    }
}

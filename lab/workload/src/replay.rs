//! Replays operations and measures what they cost.
//!
//! An operation that fails stops the replay: figures of a run with holes in it compare with
//! nothing. Files are opened, used and closed line by line, except that the file of a `U` line
//! stays open until a `U` of another file or until it is created anew, rewritten or removed, or
//! anything is renamed; other lines use it through the open file meanwhile.
//!
//! In idle time the file system may clean ([`Options::idle_gc`]). Verified reads are compared
//! as they come, and what the trace leaves behind is read back before the unmount, which adds to
//! no figure; [`Replayed::expected`] allows to do so again after a remount.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use flashkit_vfs::{Counters, Measured};

use crate::content::Key;
use crate::expected::Expected;
use crate::report::{
    BusFigures, EraseCount, Latency, Phase, Purpose, Remount, Report, Stopped, micros,
};
use crate::store::{DirStore, FsStore, Meter, Store};
use crate::trace::{Line, Op};

/// How to replay.
pub struct Options<'a> {
    /// Name of the file system, for the report.
    pub fs: String,
    /// Name of the chip, for the report.
    pub chip: Option<String>,
    /// Bytes in one read or write; at least 1.
    pub request: usize,
    /// End every C, W, A and U in an fsync.
    pub fsync: bool,
    /// Compare everything that is read, and read everything back at the end.
    pub verify: bool,
    /// Clean in idle time.
    pub idle_gc: bool,
    /// Of a directory: counts the flash operations below it. Latencies are flash time then.
    pub meter: Option<Box<dyn Meter>>,
    /// Of a directory: drop the host's clean pages at the end of each phase, so that what is read
    /// then comes from flash. For root alone.
    pub cold: bool,
    /// Stop after the operation in which flash time, without pauses, passes so many seconds. What
    /// was done until then is reported ([`Report::stopped`]).
    pub limit_s: Option<u64>,
    /// Stop after the operation during which this begins to say so, in the same way.
    pub stop: Option<&'a dyn Fn() -> bool>,
    /// Of a directory: one that a trace makes may be there.
    pub force: bool,
    /// Called with the bytes written and read so far, about once a megabyte and after each line.
    pub progress: Option<&'a mut dyn FnMut(u64)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            fs: String::new(),
            chip: None,
            request: 2048,
            fsync: false,
            verify: false,
            idle_gc: true,
            meter: None,
            cold: false,
            limit_s: None,
            stop: None,
            force: false,
            progress: None,
        }
    }
}

/// Outcome of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// The figures; those of the remount are still zero.
    pub report: Report,
    /// What must be there, when verifying.
    pub expected: Option<Expected>,
    /// Bytes read back at the end, when verifying.
    pub verified_bytes: u64,
}

/// What stopped a replay.
#[derive(Debug)]
pub struct ReplayError {
    /// Line and text of the operation; `None` when it was the verification or the unmount.
    pub line: Option<Line>,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "line {}: `{}`: {}", line.number, line.op, self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays over a file system and unmounts it.
///
/// # Errors
/// The first operation that fails, or data that are not as written.
pub fn replay_fs(
    fs: &mut dyn Measured,
    lines: impl IntoIterator<Item = Line>,
    options: Options<'_>,
) -> Result<Replayed, ReplayError> {
    let store = FsStore::new(fs, options.idle_gc);
    Replay::new(store, options)?.run(lines)
}

/// Replays over a directory of the host with real fsyncs, ending in a sync of its file system.
/// Without a meter, flash figures are 0 and latencies are time on the wall.
///
/// # Errors
/// The first operation that fails, or data that are not as written.
pub fn replay_dir(
    dir: &Path,
    lines: impl IntoIterator<Item = Line>,
    mut options: Options<'_>,
) -> Result<Replayed, ReplayError> {
    let store = DirStore::new(dir, options.meter.take(), options.cold, options.force);
    Replay::new(store, options)?.run(lines)
}

/// Replays over anything that has the operations, and calls its [`Store::finish`]. Whether it
/// cleans in idle time is its own affair.
///
/// # Errors
/// The first operation that fails, or data that are not as written.
pub fn replay_store(
    store: impl Store,
    lines: impl IntoIterator<Item = Line>,
    options: Options<'_>,
) -> Result<Replayed, ReplayError> {
    Replay::new(store, options)?.run(lines)
}

/// The phase of what follows the last that has a name.
const REST: &str = "rest";

/// Bytes of a fill after which it is made sure that they have room.
const SETTLE: u64 = 1 << 20;

/// What goes wrong in one operation.
type Failure = String;

/// CPU time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Counters that a phase is the difference of.
#[derive(Clone, Default)]
struct Mark {
    ops: u64,
    bytes: u64,
    written: u64,
    cost: Counters,
    programs: Vec<(&'static str, u64)>,
    idle_ns: u64,
    cpu_ns: u64,
    /// Latencies taken so far.
    latencies: usize,
    /// Of each block.
    erases: Vec<u32>,
}

/// The name of the phase that these lines end, and its operations among them.
fn left_of_phase(lines: &mut dyn Iterator<Item = Line>) -> (String, u64) {
    let mut left = 0;
    for line in lines {
        match line.op {
            Op::Phase { name } | Op::Mark { name } => return (name, left),
            Op::Idle { .. } => {}
            _ => left += 1,
        }
    }
    (REST.to_owned(), left)
}

/// Pages programmed in between, by what they were for; `all` of them.
fn by_purpose(
    start: &[(&'static str, u64)],
    end: &[(&'static str, u64)],
    all: u64,
) -> Vec<Purpose> {
    let before = start.iter().map(|p| p.1).chain(std::iter::repeat(0));
    let mut purposes: Vec<Purpose> = end
        .iter()
        .zip(before)
        .map(|(&(purpose, pages), before)| Purpose {
            purpose: purpose.to_owned(),
            pages: pages - before,
        })
        .collect();
    if !purposes.is_empty() {
        let known: u64 = purposes.iter().map(|p| p.pages).sum();
        purposes.push(Purpose {
            purpose: "moved for wear, and the rest".to_owned(),
            pages: all.saturating_sub(known),
        });
    }
    purposes
}

/// Bytes programmed for each byte written, to two decimals.
fn amplification(programmed: u64, written: u64) -> Option<f64> {
    let known = programmed > 0 && written > 0;
    known.then(|| (programmed as f64 / written as f64 * 100.0).round() / 100.0)
}

struct Replay<'a, S: Store> {
    store: S,
    options: Options<'a>,
    buf: Vec<u8>,
    expected: Option<Expected>,
    /// The file of the last `U`.
    held: Option<(String, S::File)>,
    /// Number of the writing operation: the version of what it writes.
    version: u64,
    ops: u64,
    bytes: u64,
    /// Of these, written.
    written: u64,
    reported: u64,
    idle_ns: u64,
    latencies_ns: Vec<u64>,
    /// The same operations on the wall.
    host_ns: Vec<u64>,
}

impl<'a, S: Store> Replay<'a, S> {
    fn new(mut store: S, options: Options<'a>) -> Result<Self, ReplayError> {
        let failed = |what| ReplayError { line: None, what };
        let expected = if options.verify {
            Some(Expected::new(&mut store).map_err(failed)?)
        } else {
            None
        };
        let buf = vec![0; options.request.max(1)];
        Ok(Replay {
            store,
            options,
            buf,
            expected,
            held: None,
            version: 0,
            ops: 0,
            bytes: 0,
            written: 0,
            reported: 0,
            idle_ns: 0,
            latencies_ns: Vec::new(),
            host_ns: Vec::new(),
        })
    }

    fn run(mut self, lines: impl IntoIterator<Item = Line>) -> Result<Replayed, ReplayError> {
        let start = self.mark();
        let mut phases = Vec::new();
        let mut phase_start = start.clone();
        let mut lines = lines.into_iter();
        let mut stopped = None;
        for line in lines.by_ref() {
            let done = self.line(&line.op);
            done.map_err(|what| ReplayError {
                line: Some(line.clone()),
                what,
            })?;
            if let Op::Phase { name } | Op::Mark { name } = line.op {
                phases.push(self.phase(name, &phase_start));
                phase_start = self.mark();
            } else if self.is_over(&start) {
                let (phase, left) = left_of_phase(&mut lines);
                phases.push(self.phase(phase.clone(), &phase_start));
                let ops = self.ops - phase_start.ops;
                phase_start = self.mark();
                stopped = Some(Stopped {
                    phase,
                    ops,
                    of: ops + left,
                });
                break;
            }
        }
        let failed = |what| ReplayError { line: None, what };
        self.release().map_err(failed)?;
        if self.ops > phase_start.ops {
            phases.push(self.phase(REST.to_owned(), &phase_start));
        }
        let before = self.mark();
        let mut verified_bytes = 0;
        if let Some(expected) = &self.expected {
            let checked = expected.check(&mut self.store);
            verified_bytes = checked.map_err(|what| failed(format!("verification: {what}")))?;
        }
        // The total leaves out what lies between these two marks.
        let after = self.mark();
        self.store
            .finish()
            .map_err(|error| failed(format!("unmount: {error}")))?;
        let total_start = Mark {
            cost: start.cost + (after.cost - before.cost),
            cpu_ns: start.cpu_ns + (after.cpu_ns - before.cpu_ns),
            ..start
        };
        let report = Report {
            total: self.phase("total".to_owned(), &total_start),
            fs: std::mem::take(&mut self.options.fs),
            chip: self.options.chip.take(),
            ram_bytes: self.store.ram_bytes(),
            request: self.buf.len(),
            fsync: self.options.fsync,
            phases,
            stopped,
            remount: Remount::default(),
        };
        Ok(Replayed {
            report,
            expected: self.expected,
            verified_bytes,
        })
    }

    /// Whether the limit of flash time has been passed, or the replay is to stop.
    fn is_over(&self, start: &Mark) -> bool {
        if self.options.stop.is_some_and(|stop| stop()) {
            return true;
        }
        let Some(limit) = self.options.limit_s else {
            return false;
        };
        let passed = self.store.cost().time_ns - start.cost.time_ns;
        let passed = passed.saturating_sub(self.idle_ns);
        passed > limit.saturating_mul(1_000_000_000)
    }

    fn mark(&self) -> Mark {
        Mark {
            ops: self.ops,
            bytes: self.bytes,
            written: self.written,
            cost: self.store.cost(),
            programs: self.store.programs(),
            idle_ns: self.idle_ns,
            cpu_ns: cpu_ns(),
            latencies: self.latencies_ns.len(),
            erases: self.store.erase_counts(),
        }
    }

    /// The figures since `start`.
    fn phase(&self, name: String, start: &Mark) -> Phase {
        let end = self.mark();
        let cost = end.cost - start.cost;
        let programmed = cost.page_programs + cost.page_copies;
        let mut latencies = self.latencies_ns[start.latencies..].to_vec();
        let mut host = self.host_ns[start.latencies..].to_vec();
        let before = start.erases.iter().copied().chain(std::iter::repeat(0));
        let erases: Vec<u32> = end.erases.iter().zip(before).map(|(n, b)| n - b).collect();
        Phase {
            name,
            ops: end.ops - start.ops,
            user_bytes: end.bytes - start.bytes,
            page_reads: cost.page_reads,
            spare_reads: cost.spare_reads,
            page_programs: cost.page_programs,
            page_copies: cost.page_copies,
            block_erases: cost.block_erases,
            flash_us: micros(cost.time_ns.saturating_sub(end.idle_ns - start.idle_ns)),
            bus: BusFigures::of(cost, end.idle_ns - start.idle_ns),
            energy_uj: None,
            cpu_us: micros(end.cpu_ns - start.cpu_ns),
            latency_us: Latency::of(&mut latencies),
            host_us: Latency::of(&mut host),
            erase_count: EraseCount::of(&end.erases),
            erases: EraseCount::of(&erases),
            programs: by_purpose(&start.programs, &end.programs, programmed),
            write_amplification: amplification(
                programmed * u64::from(self.store.page_bytes()),
                end.written - start.written,
            ),
        }
    }

    fn line(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Idle { ms } => {
                self.idle_ns = self.idle_ns.saturating_add(self.store.idle(*ms)?);
            }
            Op::Phase { .. } => self.store.sync()?,
            Op::Mark { .. } => {}
            _ => {
                let start = self.store.clock_ns();
                let host = Instant::now();
                self.operation(op)?;
                let host = u64::try_from(host.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.latencies_ns.push(self.store.clock_ns() - start);
                self.host_ns.push(host);
                self.ops += 1;
            }
        }
        self.progress(0);
        Ok(())
    }

    fn operation(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Create { path, size } => self.create(path, *size),
            Op::Fill { path, size } => self.fill(path, *size),
            Op::Rewrite { path, size } => self.rewrite(path, *size),
            Op::Append { path, size } => self.append(path, *size),
            Op::Update { path, offset, size } => self.update(path, *offset, *size),
            Op::Read { path, offset, size } => self.read(path, *offset, *size),
            Op::Truncate { path, size } => self.truncate(path, *size),
            Op::Fsync { path } => match &self.held {
                Some((held, file)) if held == path => self.store.fsync(file).map_err(Failure::from),
                _ => self.store.fsync_path(path).map_err(Failure::from),
            },
            Op::Unlink { path } => {
                self.release_path(path)?;
                self.store.unlink(path)?;
                self.expect(|expected| expected.remove(path));
                Ok(())
            }
            Op::Mkdir { path } => {
                self.store.mkdir(path)?;
                self.expect(|expected| expected.mkdir(path));
                Ok(())
            }
            Op::Rmdir { path } => {
                self.store.rmdir(path)?;
                self.expect(|expected| expected.remove(path));
                Ok(())
            }
            Op::Rename { from, to } => {
                self.release()?;
                self.store.rename(from, to)?;
                self.expect(|expected| expected.rename(from, to));
                Ok(())
            }
            Op::Idle { .. } | Op::Phase { .. } | Op::Mark { .. } => Ok(()),
        }
    }

    fn create(&mut self, path: &str, size: u64) -> Result<(), Failure> {
        self.release_path(path)?;
        let file = self.store.create(path)?;
        self.expect(|expected| expected.create(path));
        self.write(&file, path, 0, size)?;
        self.store.close(file).map_err(Failure::from)
    }

    fn fill(&mut self, path: &str, size: u64) -> Result<(), Failure> {
        self.release_path(path)?;
        let file = self.store.create(path)?;
        self.expect(|expected| expected.create(path));
        self.version += 1;
        let key = Key::new(path, self.version);
        let (mut done, mut settled) = (0, 0);
        while done < size {
            let n = self.request(size - done);
            key.fill(done, &mut self.buf[..n]);
            match self.store.write(&file, done, &self.buf[..n]) {
                Err(error) if error.is_no_space() => {
                    // The beginning of the request may be there. To cut it off takes space as well.
                    let left = self.store.size(&file)?.max(done);
                    self.wrote(left - done);
                    done = left;
                    break;
                }
                written => written?,
            }
            done += n as u64;
            self.wrote(n as u64);
            self.progress(1 << 20);
            if done - settled >= SETTLE {
                match self.store.settle(&file) {
                    Err(error) if error.is_no_space() => {
                        // Of what came since the last time, it is not known what is there.
                        self.store.resize(&file, settled)?;
                        self.bytes -= done - settled;
                        self.written -= done - settled;
                        done = settled;
                        break;
                    }
                    room => room?,
                }
                settled = done;
            }
        }
        self.expect(|expected| expected.write(path, 0, done, key));
        if self.options.fsync {
            self.store.fsync(&file)?;
        }
        self.store.close(file).map_err(Failure::from)
    }

    /// Bytes of the next request when so many are left.
    fn request(&self, left: u64) -> usize {
        self.buf
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    fn rewrite(&mut self, path: &str, size: u64) -> Result<(), Failure> {
        self.release_path(path)?;
        let file = self.store.open(path)?;
        self.store.resize(&file, 0)?;
        self.expect(|expected| expected.resize(path, 0));
        self.write(&file, path, 0, size)?;
        self.store.close(file).map_err(Failure::from)
    }

    fn append(&mut self, path: &str, size: u64) -> Result<(), Failure> {
        let (file, held) = self.open(path)?;
        let end = self.store.size(&file)?;
        self.write(&file, path, end, size)?;
        self.close(path, file, held)
    }

    fn update(&mut self, path: &str, offset: u64, size: u64) -> Result<(), Failure> {
        let (file, _) = self.open(path)?;
        self.write(&file, path, offset, size)?;
        self.close(path, file, true)
    }

    fn truncate(&mut self, path: &str, size: u64) -> Result<(), Failure> {
        let (file, held) = self.open(path)?;
        self.store.resize(&file, size)?;
        self.expect(|expected| expected.resize(path, size));
        self.close(path, file, held)
    }

    fn read(&mut self, path: &str, offset: u64, size: u64) -> Result<(), Failure> {
        let (file, held) = self.open(path)?;
        let expected = self
            .expected
            .as_ref()
            .and_then(|expected| expected.file(path));
        let mut done = 0;
        while done < size {
            let n = self.request(size - done);
            let n = self.store.read(&file, offset + done, &mut self.buf[..n])?;
            if n == 0 {
                break;
            }
            if let Some(place) =
                expected.and_then(|held| held.mismatch(offset + done, &self.buf[..n]))
            {
                return Err(format!("byte {place} is wrong"));
            }
            done += n as u64;
        }
        if let Some(expected) = expected {
            let due = size.min(expected.size.saturating_sub(offset));
            if done != due {
                return Err(format!("read {done} bytes instead of {due}"));
            }
        }
        self.bytes += done;
        self.close(path, file, held)
    }

    fn wrote(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.written += bytes;
    }

    /// Writes new contents in requests, and syncs if asked to.
    fn write(&mut self, file: &S::File, path: &str, offset: u64, size: u64) -> Result<(), Failure> {
        self.version += 1;
        let key = Key::new(path, self.version);
        let mut done = 0;
        while done < size {
            let n = self.request(size - done);
            key.fill(offset + done, &mut self.buf[..n]);
            self.store.write(file, offset + done, &self.buf[..n])?;
            done += n as u64;
            self.wrote(n as u64);
            self.progress(1 << 20);
        }
        self.expect(|expected| expected.write(path, offset, size, key));
        if self.options.fsync {
            self.store.fsync(file)?;
        }
        Ok(())
    }

    /// The open file if it is this one, else opens it; and whether it was held.
    fn open(&mut self, path: &str) -> Result<(S::File, bool), Failure> {
        match self.held.take() {
            Some((held, file)) if held == path => Ok((file, true)),
            other => {
                self.held = other;
                Ok((self.store.open(path)?, false))
            }
        }
    }

    /// Closes a file, or keeps it as the one that stays open.
    fn close(&mut self, path: &str, file: S::File, keep: bool) -> Result<(), Failure> {
        if !keep {
            return self.store.close(file).map_err(Failure::from);
        }
        self.release()?;
        self.held = Some((path.to_owned(), file));
        Ok(())
    }

    /// Closes the file that stayed open.
    fn release(&mut self) -> Result<(), Failure> {
        self.held.take().map_or(Ok(()), |(_, file)| {
            self.store.close(file).map_err(Failure::from)
        })
    }

    fn release_path(&mut self, path: &str) -> Result<(), Failure> {
        if self.held.as_ref().is_some_and(|(held, _)| held == path) {
            self.release()
        } else {
            Ok(())
        }
    }

    fn expect(&mut self, note: impl FnOnce(&mut Expected)) {
        if let Some(expected) = &mut self.expected {
            note(expected);
        }
    }

    fn progress(&mut self, step: u64) {
        if self.bytes >= self.reported + step {
            self.reported = self.bytes;
            if let Some(progress) = &mut self.options.progress {
                progress(self.bytes);
            }
        }
    }
}

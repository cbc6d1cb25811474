//! Cases in a guest, many to a boot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use flashkit_guest::{Image, Job};
use flashkit_workload::{Report, trace};

use super::Case;

const PEER: &str = include_str!("peer.sh");
/// Blocks of the chip that nandsim plays.
const BLOCKS: u32 = 2048;
/// On a small partition UBI would by default keep for bad blocks what a whole chip needs, a quarter
/// of 20 MiB. In 2012 it kept one in a hundred.
const RESERVE_SMALL: u32 = 1;
/// Seconds for the start of a guest, on a busy machine.
const BOOT: u64 = 120;

/// What takes the result of a case.
pub type Done<'a> = dyn FnMut(&Case, Result<Report, String>) -> anyhow::Result<()> + 'a;

/// How guests are started.
#[derive(Clone, Debug)]
pub struct Guests {
    /// Kernel and tools.
    pub image: Image,
    /// This program, which replays in there.
    pub program: PathBuf,
    /// RAM of a guest, in MiB.
    pub memory: u32,
    /// RAM of FlashLight mounted there, in bytes.
    pub mount_ram: usize,
    /// Use KVM.
    pub kvm: bool,
}

impl Guests {
    /// The kernel and its package's version.
    pub fn kernel(&self) -> String {
        let package = self
            .image
            .packages
            .iter()
            .find(|(name, _)| name.starts_with("linux-image"));
        let version = package.map_or("", |(_, version)| version);
        format!("{} ({version})", self.image.kernel)
    }

    /// Runs cases in one guest, in a folder below `work` that is removed afterwards. Each result is
    /// handed over as soon as it is there. When the guest ends before all are done, the error says
    /// why, and of which case; the cases after it have no result.
    ///
    /// # Errors
    /// The machine cannot do it: no QEMU, no space.
    pub fn run(&self, cases: &[&Case], work: &Path, done: &mut Done<'_>) -> anyhow::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = work.join(format!(".guest-{}-{number}", std::process::id()));
        let ended = self.run_in(cases, &folder, done);
        let _ = fs::remove_dir_all(&folder);
        ended
    }

    fn run_in(&self, cases: &[&Case], folder: &Path, done: &mut Done<'_>) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let mut script = format!("ram={}\n{PEER}", self.mount_ram);
        for (number, case) in cases.iter().enumerate() {
            let path = folder.join(format!("{number}.trace.gz"));
            let lines = (case.lines)();
            trace::save(lines.iter().map(|line| &line.op), &path)
                .with_context(|| path.display().to_string())?;
            script += &command(number, case);
        }
        script += "exit 0\n";
        let job = Job {
            script,
            folder: folder.to_owned(),
            program: Some(("flashkit", self.program.clone())),
            memory: self.memory,
            limit: BOOT + cases.iter().map(|case| case.limit).sum::<u64>(),
            kvm: self.kvm,
            skip_idle: cases.iter().any(|case| case.timed),
        };
        let mut next = 0;
        let mut failed = None;
        let ended = job.run(&self.image, &mut || {
            while failed.is_none() && next < cases.len() {
                let Some(result) = result(folder, next) else {
                    break;
                };
                failed = done(cases[next], result).err();
                next += 1;
            }
        });
        failed.map_or(Ok(()), Err)?;
        // What the guest did since the last look.
        while let Some(case) = cases.get(next) {
            let result = match (result(folder, next), &ended) {
                (Some(result), _) => result,
                (None, Ok(_)) => Err(complaint(folder, next)),
                (None, Err(error)) => {
                    let died = matches!(
                        error,
                        flashkit_guest::Error::Died(_) | flashkit_guest::Error::TimedOut { .. }
                    );
                    // A guest that never came to work is not this case's fault.
                    if !died || next == 0 && complaint(folder, 0).is_empty() {
                        ended?;
                        break;
                    }
                    done(case, Err(error.to_string()))?;
                    break;
                }
            };
            done(case, result)?;
            next += 1;
        }
        Ok(())
    }
}

fn command(number: usize, case: &Case) -> String {
    let whole = case.chip.blocks == BLOCKS;
    let cold = if case.cold { " --cold" } else { "" };
    let fsync = if case.fsync { " --fsync" } else { "" };
    format!(
        "measure {number} {} {} {} --chip {} --request {}{fsync}{cold}\n",
        case.system.name(),
        case.chip.blocks,
        if whole { 0 } else { RESERVE_SMALL },
        case.chip.name,
        case.request,
    )
}

/// The result of a case that is over, by its files.
fn result(folder: &Path, number: usize) -> Option<Result<Report, String>> {
    let path = folder.join(format!("{number}.json"));
    if let Ok(text) = fs::read(&path) {
        let report = serde_json::from_slice(&text);
        return Some(report.map_err(|error| format!("unreadable result: {error}")));
    }
    // The next one has begun, and this one has no result.
    let next = folder.join(format!("{}.err", number + 1));
    next.exists().then(|| Err(complaint(folder, number)))
}

/// What a case has complained about: its last line.
fn complaint(folder: &Path, number: usize) -> String {
    let text = fs::read_to_string(folder.join(format!("{number}.err"))).unwrap_or_default();
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    let last = last.unwrap_or_default();
    last.strip_prefix("flashkit: ").unwrap_or(last).to_owned()
}

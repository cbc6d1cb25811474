//! The paper's benchmarks, as far as the programs are to be had.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use flashkit_disk::{Disk, Remapping};

use super::filebench::{Load, Run};
use super::keep::{Measured, Ran};
use super::paper;
use super::plan::Piece;
use super::record::{Event, image, replay};
use super::rig::{Cost, Interval, Layer, Rig, disk, formatted};
use super::tally::{Tally, make_noise};
use crate::rig::tool;

/// Files of a tree that are taken, at most of this size.
const FILE_MAX: u64 = 16 << 10;

/// Seconds that dbench runs, after a fifth more to warm up; the paper's 90 and no less
/// would take an hour and a half.
pub const DBENCH_SECONDS: u32 = 30;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// `tar` extracts a tree (4.1.1).
    Tar,
    /// Postmark (4.1.2).
    Postmark,
    /// dbench with so many clients (4.1.3).
    Dbench(u32),
    /// A load of Filebench (4.1.4).
    Files(Load),
    /// A file of so many MiB in requests of 4 KiB (4.2.1).
    Blocks(u32),
    /// So many threads, 500 random synchronous writes of 4 KiB each (4.2.2).
    Random(u32),
    /// A file of 4 MiB in synchronous requests of so many KiB (4.2.3).
    Request(u32),
}

/// What benchmarks need of the machine.
pub struct Inputs {
    here: tempfile::TempDir,
    /// A small part is enough.
    quick: bool,
    /// Files and bytes of the archive.
    files: usize,
    bytes: u64,
}

fn walk(dir: &Path, found: &mut Vec<(PathBuf, u64)>, most: usize) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), found, most)?;
        } else if kind.is_file() && entry.metadata()?.len() <= FILE_MAX {
            found.push((entry.path(), entry.metadata()?.len()));
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(())
}

impl Inputs {
    /// Makes an archive of a real include tree: `/usr/include`, or `FLASHKIT_TREE`.
    pub fn new(quick: bool) -> Result<Inputs> {
        let here = tempfile::tempdir()?;
        let tree = std::env::var_os("FLASHKIT_TREE").unwrap_or("/usr/include".into());
        let mut found = Vec::new();
        let most = if quick { 200 } else { paper::TAR_FILES };
        walk(Path::new(&tree), &mut found, most).context("the tree to extract")?;
        found.truncate(most);
        let list = here.path().join("list");
        let mut names = Vec::new();
        for (path, _) in &found {
            let relative = path.strip_prefix(&tree)?;
            names.extend_from_slice(relative.as_os_str().as_encoded_bytes());
            names.push(0);
        }
        fs::write(&list, names)?;
        let made = Command::new("tar")
            .args(["--create", "--null", "--no-recursion", "--file"])
            .arg(here.path().join("tree.tar"))
            .arg("--directory")
            .arg(&tree)
            .arg("--files-from")
            .arg(&list)
            .status()
            .context("tar")?;
        if !made.success() {
            bail!("tar: {made}");
        }
        Ok(Inputs {
            here,
            quick,
            files: found.len(),
            bytes: found.iter().map(|(_, len)| len).sum(),
        })
    }

    /// Runs a piece on a new file system, on both layers; costs until everything is home.
    pub fn measure(&self, piece: &Piece) -> Result<Measured> {
        let mut page = self.live(piece, Remapping::No)?;
        let tally = Tally::of(&page.events, page.size);
        if piece.bench.is_monotonous() {
            make_noise(
                &mut page.events,
                page.size,
                piece.bench.layer(Remapping::Full).zeros,
            );
        }
        let full = again(&page, piece.bench.layer(Remapping::Full))?;
        let alone = again(&page, piece.bench.layer(Remapping::Alone))?;
        // dbench does as much as it can in its time: on each layer that is something else.
        let is_dbench = matches!(piece.bench, Bench::Dbench(_));
        if self.quick || is_dbench || !piece.bench.is_timed() {
            let ran = [page.ran, full];
            return Ok(Measured::new(piece, ran, None, tally).with_alone(alone));
        }
        drop(page.events);
        let jftl = self.live(piece, Remapping::Full)?;
        let tally = Tally::of(&jftl.events, jftl.size);
        let ran = [page.ran, jftl.ran];
        let mut measured = Measured::new(piece, ran, Some(full), tally).with_alone(alone);
        if piece.bench == Bench::Tar {
            measured.input = self.tree();
        }
        Ok(measured)
    }

    fn tree(&self) -> String {
        format!(
            "{} files of at most {} KiB, {} KiB in all, of a real include tree (paper: 7,117 files with a mean of \
             3 kB)",
            self.files,
            FILE_MAX >> 10,
            self.bytes >> 10
        )
    }

    fn live(&self, piece: &Piece, remaps: Remapping) -> Result<Live> {
        let Piece {
            bench,
            interval,
            mode,
            ..
        } = *piece;
        let mut rig = Rig::new(
            formatted()?,
            bench.layer(remaps),
            bench.is_timed() && !self.quick,
        )?;
        rig.make_ext3()?;
        rig.mount(mode, interval)?;
        if let Bench::Files(load) = bench {
            Run::new(load, self.quick).prepare(&rig.point)?;
            rig.unmount()?;
            rig.mount(mode, interval)?;
        }
        let before = rig.begin()?;
        let ended = AtomicBool::new(false);
        let rate = std::thread::scope(|scope| {
            if interval == Interval::Millisecond {
                scope.spawn(|| sync_on(&rig.point, &ended));
            }
            let ran = self.run(bench, &rig.point);
            ended.store(true, Ordering::Relaxed);
            ran
        })?;
        rig.unmount()?;
        let after = rig.cost()?;
        let (events, size) = (rig.events()?, rig.size()?);
        tool("e2fsck", &["-fn", rig.device()])?;
        Ok(Live {
            ran: Ran::between(&before, &after, rate),
            events,
            size,
        })
    }

    /// Runs a benchmark; MB/s, if that is what it says.
    fn run(&self, bench: Bench, at: &Path) -> Result<Option<f64>> {
        let text = at.to_str().context("a path that is not text")?;
        match bench {
            Bench::Tar => {
                let archive = self.here.path().join("tree.tar");
                let archive = archive.to_str().context("a path that is not text")?;
                tool("tar", &["xf", archive, "-C", text])?;
            }
            Bench::Postmark => self.postmark(text)?,
            Bench::Dbench(clients) => return dbench(clients, text).map(Some),
            Bench::Files(load) => Run::new(load, self.quick).run(at)?,
            Bench::Blocks(mib) => bonnie(mib, text)?,
            Bench::Random(threads) => {
                let jobs = format!("--numjobs={threads}");
                let options = ["--rw=randwrite", "--bs=4k", "--size=2m", "--number_ios=500"];
                let synced = ["--thread", "--sync=1", "--randrepeat=1", "--norandommap"];
                fio(text, &[&options[..], &synced, &[&jobs]].concat())?;
            }
            Bench::Request(kib) => {
                // The paper let nothing be cached (4.2): each request is a transaction.
                let request = format!("--bs={kib}k");
                fio(text, &["--rw=write", "--size=4m", "--sync=1", &request])?;
            }
        }
        Ok(None)
    }

    fn postmark(&self, at: &str) -> Result<()> {
        let share = if self.quick { 50 } else { 1 };
        let (files, directories) = (paper::POSTMARK_FILES, paper::POSTMARK_DIRECTORIES);
        let script = format!(
            "set location {at}\nset size 512 4096\nset number {}\nset subdirectories {}\n\
             set transactions {}\nset seed 42\nrun\nquit\n",
            files / share,
            directories / share,
            files / share
        );
        let mut child = Command::new("postmark")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("postmark")?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(script.as_bytes())?;
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("postmark: {status}");
        }
        Ok(())
    }
}

/// A benchmark on a real kernel.
struct Live {
    ran: Ran,
    events: Vec<Event>,
    size: u64,
}

/// Asks a new disk that remaps for the same; it must hold the same in the end.
fn again(live: &Live, layer: Layer) -> Result<Ran> {
    let told = |why: String| anyhow!("asked for the same: {why}");
    let mut disk = disk(formatted()?, layer)?;
    let mut before = Cost::of(&disk);
    replay(&live.events, &mut disk, |disk| before = Cost::of(disk)).map_err(told)?;
    let ran = Ran::between(&before, &Cost::of(&disk), live.ran.rate);
    let mut found = vec![0; live.size as usize];
    disk.read(0, &mut found).map_err(told)?;
    if found != image(&live.events, live.size) {
        bail!("the two layers do not hold the same");
    }
    Ok(ran)
}

impl Bench {
    /// Whether timers decide what is written together, so that the chip's time has to be real.
    fn is_timed(self) -> bool {
        matches!(self, Bench::Tar | Bench::Postmark | Bench::Dbench(_))
    }

    /// Whether what it writes to files is nothing that files hold.
    fn is_monotonous(self) -> bool {
        matches!(self, Bench::Dbench(_) | Bench::Files(_) | Bench::Blocks(_))
    }

    /// What it is measured on. All that dbench writes is zeros, and they are to count.
    fn layer(self, remaps: Remapping) -> Layer {
        Layer {
            remaps,
            zeros: matches!(self, Bench::Dbench(_)),
        }
    }

    /// Its program, if it is one that may be missing.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Bench::Tar | Bench::Files(_) => None,
            Bench::Postmark => Some("postmark"),
            Bench::Dbench(_) => Some("dbench"),
            Bench::Blocks(_) => Some("bonnie++"),
            Bench::Random(_) | Bench::Request(_) => Some("fio"),
        }
    }
}

/// Where a program is, if it is installed.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = ["/usr/sbin".into(), "/usr/local/sbin".into()];
    let mut found = std::env::split_paths(&path)
        .chain(own)
        .map(|dir| dir.join(program));
    found.find(|path| path.exists())
}

fn fio(at: &str, options: &[&str]) -> Result<()> {
    let directory = format!("--directory={at}");
    let fixed = ["--name=flashkit", "--ioengine=psync", &directory];
    tool("fio", &[&fixed[..], options].concat()).map(drop)
}

/// MB/s of dbench's clients, as it says it.
fn dbench(clients: u32, at: &str) -> Result<f64> {
    let (seconds, clients) = (DBENCH_SECONDS.to_string(), clients.to_string());
    let said = tool("dbench", &["-t", &seconds, "-D", at, &clients])?;
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Throughput ")?.split_once(" MB/sec"))
        .and_then(|(rate, _)| rate.parse().ok());
    rate.with_context(|| format!("dbench said no throughput: {said}"))
}

/// Bonnie's block writes: a file written 4 KiB at a time and synced. What bonnie++ does then is cut
/// off: it says "done", and nobody reads that any more.
fn bonnie(mib: u32, at: &str) -> Result<()> {
    const BEGUN: &[u8] = b"Writing intelligently...";
    let program = find("bonnie++").context("bonnie++")?;
    let size = format!("{mib}:4k");
    let mut child = Command::new(program)
        .args([
            "-d", at, "-s", &size, "-r", "0", "-n", "0", "-f", "-u", "root", "-x", "1",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("bonnie++")?;
    let mut said = Vec::new();
    if let Some(mut pipe) = child.stderr.take() {
        let mut byte = [0];
        while !said.ends_with(BEGUN) && pipe.read(&mut byte)? == 1 {
            said.push(byte[0]);
        }
    }
    let status = child.wait()?;
    if !said.ends_with(BEGUN) || status.signal() != Some(nix::libc::SIGPIPE) {
        let said = String::from_utf8_lossy(&said);
        bail!("bonnie++: {status}: {}", said.trim());
    }
    let file = fs::read_dir(at)?.filter_map(Result::ok);
    let whole = |entry: &fs::DirEntry| {
        entry
            .metadata()
            .is_ok_and(|m| m.len() == u64::from(mib) << 20)
    };
    if !file.into_iter().any(|entry| whole(&entry)) {
        bail!("bonnie++ has not written its file");
    }
    Ok(())
}

/// Syncs the file system again and again.
fn sync_on(at: &Path, ended: &AtomicBool) {
    let Ok(root) = File::open(at) else { return };
    while !ended.load(Ordering::Relaxed) {
        if nix::unistd::syncfs(&root).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

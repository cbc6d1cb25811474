//! The paper's benchmarks, as far as the programs are to be had.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::filebench::{Load, Run};
use super::paper;
use super::rig::{Cost, Interval, Mode, Rig, formatted};
use crate::rig::tool;

/// Files of a tree that are taken, at most of this size.
const FILE_MAX: u64 = 16 << 10;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// `tar` extracts a tree (4.1.1).
    Tar,
    /// Postmark (4.1.2).
    Postmark,
    /// A load of Filebench (4.1.4).
    Files(Load),
    /// A file of so many MiB in requests of 4 KiB (4.2.1).
    Blocks(u32),
    /// So many threads, 500 random synchronous writes of 4 KiB each (4.2.2).
    Random(u32),
    /// A file of 4 MiB in requests of so many KiB (4.2.3).
    Request(u32),
}

/// What benchmarks need of the machine.
pub struct Inputs {
    here: tempfile::TempDir,
    /// A small part is enough.
    quick: bool,
    /// Files and bytes of the archive.
    pub files: usize,
    pub bytes: u64,
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

    /// Runs a benchmark on a new file system; what it cost until everything was home.
    pub fn measure(
        &self,
        bench: Bench,
        remaps: bool,
        mode: Mode,
        interval: Interval,
    ) -> Result<Cost> {
        // Where a timer decides what is committed together, the chip's time has to be real.
        let real_time = matches!(bench, Bench::Tar | Bench::Postmark) && !self.quick;
        let mut rig = Rig::new(formatted()?, remaps, real_time)?;
        rig.make_ext3()?;
        rig.mount(mode, interval)?;
        if let Bench::Files(load) = bench {
            Run::new(load, self.quick).prepare(&rig.point)?;
            rig.unmount()?;
            rig.mount(mode, interval)?;
        }
        let before = rig.cost()?;
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if interval == Interval::Millisecond {
                scope.spawn(|| sync_on(&rig.point, &ended));
            }
            let ran = self.run(bench, &rig.point);
            ended.store(true, Ordering::Relaxed);
            ran
        })?;
        rig.unmount()?;
        let mut cost = rig.cost()?;
        cost.counters = cost.counters - before.counters;
        cost.stats.elided -= before.stats.elided;
        tool("e2fsck", &["-fn", rig.device()])?;
        Ok(cost)
    }

    fn run(&self, bench: Bench, at: &Path) -> Result<()> {
        let text = at.to_str().context("a path that is not text")?;
        match bench {
            Bench::Tar => {
                let archive = self.here.path().join("tree.tar");
                let archive = archive.to_str().context("a path that is not text")?;
                tool("tar", &["xf", archive, "-C", text]).map(drop)
            }
            Bench::Postmark => self.postmark(text),
            Bench::Files(load) => Run::new(load, self.quick).run(at),
            Bench::Blocks(mib) => write_file(at, u64::from(mib) << 20, 4096),
            Bench::Random(threads) => {
                let jobs = format!("--numjobs={threads}");
                let writes = format!("--number_ios={}", if self.quick { 50 } else { 500 });
                let directory = format!("--directory={text}");
                let fixed = [
                    "--name=random",
                    "--rw=randwrite",
                    "--bs=4k",
                    "--size=2m",
                    "--thread",
                    "--sync=1",
                    "--randrepeat=1",
                    "--norandommap",
                ];
                tool("fio", &[&fixed[..], &[&jobs, &writes, &directory]].concat()).map(drop)
            }
            Bench::Request(kib) => write_file(at, 4 << 20, kib as usize * 1024),
        }
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

/// Whether a benchmark's program is installed.
pub fn is_there(bench: Bench) -> bool {
    let program = match bench {
        Bench::Postmark => "postmark",
        Bench::Random(_) => "fio",
        Bench::Tar | Bench::Files(_) | Bench::Blocks(_) | Bench::Request(_) => return true,
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

fn write_file(at: &Path, bytes: u64, request: usize) -> Result<()> {
    let path = at.join("file");
    let mut file = OpenOptions::new().create_new(true).write(true).open(path)?;
    let data: Vec<u8> = (0..request).map(|i| (i * 7 % 251) as u8).collect();
    for _ in 0..bytes / request as u64 {
        file.write_all(&data)?;
    }
    Ok(file.sync_all()?)
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

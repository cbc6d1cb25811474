//! Real mounts by the command, for the tests of several subcommands.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Whether mounting works here; if not, says so, or fails where it must.
pub fn can_mount() -> bool {
    let why = if !Path::new("/dev/fuse").exists() {
        "no /dev/fuse"
    } else if !nix::unistd::geteuid().is_root()
        && Command::new("fusermount3").arg("-V").output().is_err()
    {
        "neither root nor fusermount3"
    } else {
        return true;
    };
    skipped(why);
    false
}

/// Says why a test is skipped, or fails where it must not be.
pub fn skipped(why: &str) {
    let required = std::env::var_os("FLASHKIT_REQUIRE_FUSE").is_some_and(|v| v == "1");
    assert!(!required, "FLASHKIT_REQUIRE_FUSE=1, but {why}");
    println!("skipped: {why}");
}

pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashkit"));
        command.args(args).current_dir(self.dir.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a call prints that ends with this status and complains of nothing.
    pub fn said(&self, status: i32, args: &[&str]) -> String {
        let out = self.run(args);
        let complaint = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(status), "{args:?}: {complaint}");
        assert_eq!(complaint, "", "{args:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// The same, as JSON.
    pub fn json(&self, status: i32, args: &[&str]) -> Value {
        serde_json::from_str(&self.said(status, args)).unwrap()
    }

    /// What a call that fails with this status complains of: one line, less the program's name.
    pub fn complaint(&self, status: i32, args: &[&str]) -> String {
        complaint(&self.run(args), status)
    }

    /// Mounts a file system.
    pub fn mount(&self, args: &[&str]) -> Mounted {
        self.start(&[&["mount"], args].concat(), " is mounted on ")
    }

    /// Starts the command; back when it has said that it is ready.
    pub fn start(&self, args: &[&str], ready: &str) -> Mounted {
        let mut child = self
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains(ready) {
            if out.read_line(&mut said).unwrap() == 0 {
                let mut why = String::new();
                child
                    .stderr
                    .take()
                    .unwrap()
                    .read_to_string(&mut why)
                    .unwrap();
                panic!("{args:?}: {said}{why}");
            }
        }
        Mounted { child, out, said }
    }

    pub fn is_mounted(&self, name: &str) -> bool {
        let path = self.path(name).canonicalize().unwrap();
        fs::read_to_string("/proc/mounts")
            .unwrap()
            .contains(&format!(" {} ", path.display()))
    }
}

pub struct Mounted {
    pub child: Child,
    out: BufReader<ChildStdout>,
    /// What it said until it was ready.
    pub said: String,
}

impl Mounted {
    pub fn signal(self, signal: Signal) -> String {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.end()
    }

    /// All that it complains of until it ends; [`Mounted::end`] expects nothing more.
    pub fn complaints(&mut self) -> String {
        let mut complaint = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut complaint).unwrap();
        }
        complaint
    }

    /// What it says at the end, and that it ended well.
    pub fn end(self) -> String {
        self.end_with(0)
    }

    /// What it says at the end, and that it ended with this status, without complaints that have
    /// not been taken.
    pub fn end_with(mut self, status: i32) -> String {
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        let complaint = self.complaints();
        let ended = self.child.wait().unwrap();
        assert_eq!(ended.code(), Some(status), "{said}{complaint}");
        assert_eq!(complaint, "");
        said
    }
}

/// The one line on stderr of a command that has failed with this status, less the program's name.
pub fn complaint(out: &Output, status: i32) -> String {
    let said = String::from_utf8(out.stderr.clone()).unwrap();
    assert_eq!(out.status.code(), Some(status), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let line = said.trim_end().strip_prefix("flashkit: ");
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

pub fn umount(path: &Path) {
    let tool = if nix::unistd::geteuid().is_root() {
        "umount"
    } else {
        "fusermount3"
    };
    for _ in 0..100 {
        let mut command = Command::new(tool);
        if tool != "umount" {
            command.arg("-u");
        }
        if command
            .arg(path)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} stays busy", path.display());
}

/// Runs a tool of the system, which must succeed.
pub fn tool(name: &str, args: &[&Path]) {
    let out = Command::new(name).args(args).output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    assert!(
        out.status.success(),
        "{name} {args:?}: {}",
        String::from_utf8_lossy(&said)
    );
}

/// Some hundred files of the system's headers, with a directory tree, links, and sizes around a
/// page.
pub fn tree(at: &Path) {
    fs::create_dir(at).unwrap();
    let mut left = 400;
    let mut pending = vec![PathBuf::from("/usr/include")];
    while let Some(dir) = pending.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        let inside = at.join(dir.strip_prefix("/usr/include").unwrap());
        fs::create_dir_all(&inside).unwrap();
        for entry in entries.flatten() {
            let kind = entry.file_type().unwrap();
            if left > 0 && kind.is_file() {
                fs::copy(entry.path(), inside.join(entry.file_name())).unwrap();
                left -= 1;
            } else if left > 0 && kind.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    for size in [0, 1, 2_047, 2_048, 2_049, 100_000] {
        fs::write(at.join(format!("of {size} bytes")), vec![size as u8; size]).unwrap();
    }
    std::os::unix::fs::symlink("of 1 bytes", at.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at.join("dangling")).unwrap();
}

pub fn same(a: &Path, b: &Path) {
    tool(
        "diff",
        &[Path::new("-r"), Path::new("--no-dereference"), a, b],
    );
}

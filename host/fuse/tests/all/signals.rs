//! Signals end a mount as `umount` does. Each test runs this program again as the mounting
//! process, so that the signal reaches no other test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common;
use flashkit_fuse::MountOptions;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Where the child mounts.
const POINT: &str = "FLASHKIT_TEST_POINT";

/// Not a test by itself: the mounting process of the others.
#[test]
fn child() {
    let Some(point) = std::env::var_os(POINT) else {
        return;
    };
    let (fs, calls) = common::counting();
    let outcome = flashkit_fuse::mount(fs, Path::new(&point), &MountOptions::default(), || {
        println!("\nready");
        std::io::stdout().flush().unwrap();
    });
    match outcome {
        Ok(outcome) => println!(
            "\nended by {:?}, {:?}, busy {}, unmounts {}, file system {}",
            outcome.ended_by,
            outcome.unmounted,
            outcome.was_busy,
            calls.unmounts.load(Ordering::SeqCst),
            outcome.fs.is_some(),
        ),
        Err(error) => println!("\nfailed: {error}"),
    }
}

struct Mounting {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Mounting {
    fn start(point: &Path) -> Option<Mounting> {
        Mounting::start_by(Command::new(std::env::current_exe().unwrap()), point)
    }

    /// By a command that this program is an argument of, or is.
    fn start_by(mut command: Command, point: &Path) -> Option<Mounting> {
        let mut child = command
            .args([
                "--exact",
                "signals::child",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(POINT, point)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut mounting = Mounting { child, lines };
        let line = mounting.line();
        if let Some(why) = line.strip_prefix("failed: ") {
            common::skip(why);
            mounting.child.wait().unwrap();
            return None;
        }
        assert_eq!(line, "ready");
        Some(mounting)
    }

    /// The next line that is ours, not the test harness's.
    fn line(&mut self) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|l| {
                ["ready", "failed: ", "ended by "]
                    .iter()
                    .any(|ours| l.starts_with(ours))
            })
            .unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    fn end(mut self) -> String {
        let line = self.line();
        assert!(self.child.wait().unwrap().success());
        line
    }
}

fn is_mounted(point: &Path) -> bool {
    let point = point.canonicalize().unwrap();
    fs::read_to_string("/proc/mounts")
        .unwrap()
        .contains(&format!(" {} ", point.display()))
}

#[test]
fn each_signal_ends_a_mount_cleanly() {
    let signals = flashkit_fuse::ending_signals().into_iter();
    for signal in signals.map(|number| Signal::try_from(number).unwrap()) {
        let dir = tempfile::tempdir().unwrap();
        let Some(mounting) = Mounting::start(dir.path()) else {
            return;
        };
        fs::write(dir.path().join("f"), "data").unwrap();
        assert!(is_mounted(dir.path()));
        mounting.signal(signal);
        let number = signal as i32;
        assert_eq!(
            mounting.end(),
            format!("ended by Signal({number}), Ok(()), busy false, unmounts 1, file system true")
        );
        assert!(!is_mounted(dir.path()));
        assert!(!dir.path().join("f").exists());
    }
}

#[test]
fn a_busy_mount_is_gone_at_once_and_its_users_get_errors() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounting) = Mounting::start(dir.path()) else {
        return;
    };
    let mut file = File::create(dir.path().join("f")).unwrap();
    file.write_all(b"x").unwrap();
    mounting.signal(Signal::SIGTERM);
    let start = Instant::now();
    common::eventually("the mount point is free", || !is_mounted(dir.path()));
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(
        mounting.end(),
        "ended by Signal(15), Ok(()), busy true, unmounts 1, file system true"
    );
    // The kernel may gather what is written: what comes of that, fsync tells.
    assert!(file.write_all(b"x").and_then(|()| file.sync_all()).is_err());
}

#[test]
fn users_of_a_busy_mount_may_finish() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounting) = Mounting::start(dir.path()) else {
        return;
    };
    let mut file = File::create(dir.path().join("f")).unwrap();
    mounting.signal(Signal::SIGTERM);
    common::eventually("the mount point is free", || !is_mounted(dir.path()));
    file.write_all(b"still served").unwrap();
    drop(file);
    let start = Instant::now();
    assert!(mounting.end().contains("busy true, unmounts 1"));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "did not wait longer than needed"
    );
}

#[test]
fn more_signals_only_hurry() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounting) = Mounting::start(dir.path()) else {
        return;
    };
    let file = File::create(dir.path().join("f")).unwrap();
    let start = Instant::now();
    for _ in 0..20 {
        mounting.signal(Signal::SIGTERM);
        mounting.signal(Signal::SIGINT);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        mounting
            .end()
            .ends_with("Ok(()), busy true, unmounts 1, file system true")
    );
    assert!(
        start.elapsed() < Duration::from_millis(1_900),
        "{:?}",
        start.elapsed()
    );
    drop(file);
    assert!(!is_mounted(dir.path()));
}

/// Else the end of a mount that was detached takes another's mount, and what is in it.
#[test]
fn what_was_mounted_there_since_stays() {
    use nix::mount::{MntFlags, MsFlags, mount, umount, umount2};
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: root alone mounts a tmpfs");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(mounting) = Mounting::start(dir.path()) else {
        return;
    };
    let held = File::create(dir.path().join("f")).unwrap();
    umount2(dir.path(), MntFlags::MNT_DETACH).unwrap();
    let (none, tmpfs) = (None::<&str>, Some("tmpfs"));
    mount(none, dir.path(), tmpfs, MsFlags::empty(), none).unwrap();
    fs::write(dir.path().join("other"), "kept").unwrap();
    mounting.signal(Signal::SIGTERM);
    let ended = mounting.end();
    let other = fs::read(dir.path().join("other"));
    let _ = umount(dir.path());
    assert_eq!(other.unwrap(), b"kept");
    assert_eq!(
        ended,
        "ended by Signal(15), Ok(()), busy true, unmounts 1, file system true"
    );
    drop(held);
}

/// Else who leaves a mount behind with `nohup` loses it as the terminal goes.
#[test]
fn a_hangup_ends_no_mount_that_was_started_to_outlive_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("nohup");
    command.arg(std::env::current_exe().unwrap());
    let Some(mounting) = Mounting::start_by(command, dir.path()) else {
        return;
    };
    mounting.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    let written = fs::write(dir.path().join("f"), "data");
    let was_mounted = is_mounted(dir.path());
    mounting.signal(Signal::SIGTERM);
    assert!(mounting.end().starts_with("ended by Signal(15), Ok(())"));
    written.unwrap();
    assert!(was_mounted);
}
